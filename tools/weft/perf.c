// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf: which side, test data, latency histogram, clock and signals. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli.h"
#include "perf.h"

static const char help[] =
	"usage: weft perf server [ -p PORT ] [ --qps N ] DEV\n"
	"       weft perf write DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf read DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf send DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf atomic DEV HOST[:PORT] [ OPTIONS ]\n"
	"\n"
	"Measure WRITEs, READs, SENDs and atomics. 'weft perf write --help' lists the options.\n";

atomic_int perf_stop;

static void on_signal(int sig)
{
	(void)sig;
	perf_stop = 1;
}

void perf_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	/* no SA_RESTART: a signal ends a wait */
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void perf_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

uint64_t perf_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood 2014): any word on its own. */
static inline uint64_t word(uint64_t seed, uint64_t i)
{
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void perf_fill(void *mem, uint64_t len, uint64_t seed)
{
	uint64_t *w = mem, n = len / 8, tail;

	for (uint64_t i = 0; i < n; i++)
		w[i] = word(seed, i);
	tail = word(seed, n);
	memcpy((uint8_t *)mem + n * 8, &tail, len & 7);
}

uint64_t perf_compare(const void *mem, uint64_t len, uint64_t covered, uint64_t seed, uint64_t rest)
{
	for (uint64_t i = 0; i * 8 < len; i++) {
		uint64_t left = len - i * 8, got = 0, diff;
		uint64_t want = rest ? word(rest, i) : 0, mask = 0; /* of what is covered */

		if (i * 8 < covered)
			mask = covered - i * 8 < 8 ? (1ull << 8 * (covered & 7)) - 1 : ~0ull;
		if (mask)
			want = (word(seed, i) & mask) | (want & ~mask);
		memcpy(&got, (const uint8_t *)mem + i * 8, left < 8 ? left : 8);
		if (left < 8)
			want &= (1ull << 8 * left) - 1;
		diff = got ^ want;
		if (diff)
			return i * 8 + __builtin_ctzll(diff) / 8;
	}
	return len;
}

/* ---- histogram ---- */

static unsigned bucket_of(uint64_t v)
{
	unsigned shift;

	if (v < 128)
		return v;
	shift = 63 - __builtin_clzll(v) - 7;
	return shift * 128 + (v >> shift);
}

static double bucket_mid(unsigned b)
{
	unsigned shift;

	if (b < 128)
		return b;
	shift = b / 128 - 1;
	return (double)((uint64_t)(b - shift * 128) << shift) + ((1ull << shift) - 1) / 2.0;
}

void perf_hist_add(struct perf_hist *h, uint64_t ns)
{
	if (!h->n || ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->n++;
	h->bucket[bucket_of(ns)]++;
}

double perf_hist_at(const struct perf_hist *h, double quantile)
{
	uint64_t want = quantile * h->n, seen = 0;

	if (want >= h->n)
		want = h->n - 1;
	for (unsigned b = 0; b < sizeof(h->bucket) / sizeof(h->bucket[0]); b++) {
		double mid = bucket_mid(b);

		seen += h->bucket[b];
		if (seen > want)
			return mid < h->min ? h->min : mid > h->max ? h->max : mid;
	}
	return h->max;
}

int cmd_perf(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum weft_wr_op op;
	} ops[] = {
		{ "write", WEFT_WR_WRITE },
		{ "read", WEFT_WR_READ },
		{ "send", WEFT_WR_SEND },
		{ "atomic", WEFT_WR_FETCH_ADD },
	};

	if (!argc)
		return cli_usage("perf", "server, write, read, send or atomic");
	if (!strcmp(argv[0], "server"))
		return perf_server(argc, argv);
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(argv[0], ops[i].name))
			return perf_client(argc, argv, ops[i].op);
	if (!strcmp(argv[0], "help") || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	return cli_usage("perf", "what is \"%s\"", argv[0]);
}
