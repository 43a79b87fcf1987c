/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both halves of netwrite share: options, messages, regions with canaries. */
#ifndef NETCOMMON_H
#define NETCOMMON_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <weft/weft.h>

#include "netplan.h"

static struct {
	uint64_t region, src, max, fixed, seed;
	unsigned qps, conns, rounds, time, evs, cwnd, depth, timeout_ms, limit_ms, idle;
	bool stop_posted, stress, csum, mix, strict;
	const char *bad;
} nw = {
	.region = 16 << 20,
	.src = 4 << 20,
	.max = 2 << 20,
	.seed = 1,
	.qps = 1,
	.rounds = 1,
	.depth = WEFT_DEPTH,
	.limit_ms = 100,
};
static atomic_int wrong; /* things found that must not be */
__attribute__((unused)) static atomic_bool stop;

static inline double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static inline void vsay(const char *prefix, const char *fmt, va_list ap)
{
	char line[400];

	vsnprintf(line, sizeof(line), fmt, ap);
	printf("%s%s\n", prefix, line);
	fflush(stdout);
}

__attribute__((format(printf, 1, 2))) static inline void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay("", fmt, ap);
	va_end(ap);
}

/* Something that must not be. */
__attribute__((format(printf, 1, 2))) static inline void bad(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay("wrong: ", fmt, ap);
	va_end(ap);
	atomic_fetch_add(&wrong, 1);
}

/* What the test stands on does not work. */
static inline void need(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "netwrite: %s: %s (%s)\n", what, strerror(-err), weft_strerror_last());
	exit(1);
}

static inline void must(bool ok, const char *what)
{
	need(ok ? 0 : -EPROTO, what);
}

/* A region with canaries around it, at an odd place. */
struct region {
	uint8_t *mem, *at;
	size_t before, len, after;
	uint64_t seed;
	struct weft_mr *mr;
};

static inline void region_make(struct region *r, struct weft_dev *dev, size_t len, uint64_t seed)
{
	uint64_t rnd = seed ^ 0xca4a47;
	void *mem;

	r->seed = seed;
	r->len = len;
	r->before = 4096 + np_below(&rnd, 4096);
	r->after = 4096 + np_below(&rnd, 4096);
	need(weft_alloc(dev, r->before + len + r->after, &mem), "weft_alloc");
	r->mem = mem;
	r->at = r->mem + r->before;
	np_canary_fill(r->mem, r->before, seed);
	np_canary_fill(r->at + len, r->after, seed + 1);
}

static inline void region_check(const struct region *r, const char *whose)
{
	long i = np_canary_check(r->mem, r->before, r->seed);

	if (i >= 0)
		bad("%s: canary %ld bytes before the region", whose, (long)r->before - i);
	i = np_canary_check(r->at + r->len, r->after, r->seed + 1);
	if (i >= 0)
		bad("%s: canary %ld bytes behind the region", whose, i);
}

#endif
