// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the last run must have left behind: counters, frame, maps and memory. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static const char *const counter_names[] = {
#define X(name, text) "drop." #name,
	WEFT_DROPS(X)
#undef X
#define X(name, text) #name,
		WEFT_COUNTS(X)
#undef X
};
#define COUNTERS ((int)(sizeof(counter_names) / sizeof(counter_names[0])))

#define FAIL_AT(...)                      \
	do {                              \
		print_error(__VA_ARGS__); \
		print_error("\n");        \
		_fail(file, line);        \
	} while (0)

static int find_counter(const char *name, size_t n)
{
	for (int i = 0; i < COUNTERS; i++)
		if (strlen(counter_names[i]) == n && !strncmp(counter_names[i], name, n))
			return i;
	return -1;
}

void fx_counters(const char *counters, const char *file, int line)
{
	int64_t want[COUNTERS] = {};
	bool bad = false;

	for (const char *p = counters; *p;) {
		size_t n = strcspn(p, " "), name = strcspn(p, " =");
		int i = find_counter(p, name);

		if (i < 0)
			FAIL_AT("no counter is named %.*s", (int)name, p);
		want[i] = name < n ? strtoll(p + name + 1, NULL, 10) : 1;
		p += n;
		p += strspn(p, " ");
	}
	for (int i = 0; i < COUNTERS; i++) {
		if (want[i] == fx.diff[i])
			continue;
		print_error("counter %s rose by %lld, not by %lld\n", counter_names[i],
			    (long long)fx.diff[i], (long long)want[i]);
		bad = true;
	}
	if (bad)
		_fail(file, line);
}

void fx_bytes(const void *got, const void *want, size_t n, const char *what, const char *file,
	      int line)
{
	const uint8_t *g = got, *w = want;

	if (!memcmp(g, w, n))
		return;
	for (size_t i = 0, shown = 0; i < n && shown < 8; i++) {
		if (g[i] == w[i])
			continue;
		print_error("%s: byte %zu is %02x, not %02x\n", what, i, g[i], w[i]);
		shown++;
	}
	_fail(file, line);
}

void fx_frame(const struct frame *want, const char *file, int line)
{
	if (fx.out.len != want->len)
		FAIL_AT("the frame has %u bytes, not %u", fx.out.len, want->len);
	fx_bytes(fx.out.b, want->b, want->len, "frame", file, line);
}

void fx_state(const char *file, int line)
{
	const struct fx_state *b = &fx.after;
	static struct fx_state want;
	const struct fx_state *a = &want;

	want = fx.before;
	/* barriers add to these two, whoever is told of something */
	for (int i = 0; i < FX_QPS; i++) {
		want.ring[i].tx_fence = b->ring[i].tx_fence;
		want.ring[i].rx_fence = b->ring[i].rx_fence;
	}
	fx_bytes(&b->tx, &a->tx, sizeof(a->tx), "qptx", file, line);
	fx_bytes(&b->rx, &a->rx, sizeof(a->rx), "qprx", file, line);
	fx_bytes(&b->ring, &a->ring, sizeof(a->ring), "rings", file, line);
	fx_bytes(&b->ctl, &a->ctl, sizeof(a->ctl), "qpctl", file, line);
	fx_bytes(&b->mr, &a->mr, sizeof(a->mr), "mrs", file, line);
	fx_bytes(&b->run, &a->run, sizeof(a->run), "devrun", file, line);
	fx_bytes(&b->cfg, &a->cfg, sizeof(a->cfg), "devcfg", file, line);
	fx_bytes(&b->rq, &a->rq, sizeof(a->rq), "rqs", file, line);
}

void fx_memory(const char *file, int line)
{
	fx_bytes(fx.target, fx.want, FX_POOL, "target pool", file, line);
	for (size_t i = 0; i < FX_POOL; i += 4093) /* no program may write to it; sampled */
		if (fx.source[i] != (uint8_t)((i * 2654435761u) >> 21))
			FAIL_AT("source pool: byte %zu has changed", i);
}

int fx_check_memory(void **state)
{
	(void)state;
	if (!memcmp(fx.target, fx.want, FX_POOL))
		return 0;
	print_error("memory that nobody should have written has changed\n");
	return -1;
}

void fx_inert(enum fx_prog p, const struct frame *f, int verdict, const char *counters,
	      const char *file, int line)
{
	int v = fx_run(p, f);

	if (v != verdict)
		FAIL_AT("the verdict is %d, not %d", v, verdict);
	fx_counters(counters, file, line);
	fx_frame(f, file, line);
	fx_state(file, line);
}
