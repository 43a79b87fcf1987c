// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netwrite: WRITEs of random sizes and places, every byte and canary compared. Public API only. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "netwrite.h"

struct nw_opts nw = {
	.region = 16 << 20,
	.src = 4 << 20,
	.max = 2 << 20,
	.seed = 1,
	.qps = 1,
	.rounds = 1,
	.depth = WEFT_DEPTH,
	.limit_ms = 100,
};
atomic_int nw_wrong;
atomic_bool nw_stop;

static const char usage_text[] =
	"usage: netwrite server [OPTIONS] DEV=ADDRESS...    ADDRESS as weft_listen() takes it\n"
	"       netwrite client [OPTIONS] DEV=HOST:PORT...\n"
	"  --seed N          of everything that is random\n"
	"  --qps N           QPs to each target; server: regions of each device\n"
	"  --region SIZE     bytes of each destination (server)\n"
	"  --conns N         end after N connections (server)\n"
	"  --src SIZE, --max SIZE, --fixed SIZE   source; largest message; all messages of one size\n"
	"  --rounds N | --time S    how often the destination is filled anew\n"
	"  --evs N, --cwnd N, --depth N, --timeout MS   of the QPs\n"
	"  --stop-posted     SIGSTOP oneself when the first round is posted\n"
	"  --stress          random bursts and pauses; --limit MS for each message\n"
	"  --bad KIND        key zero index bounds end wrap rights pd local close dereg\n"
	"  --idle S          connect, and be idle for so long\n"
	"  --csum            open the devices with whole-packet checksums\n";

double nw_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

void nw_say(const char *fmt, ...)
{
	va_list ap;
	char line[400];

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	printf("%s\n", line);
	fflush(stdout);
}

/* Something that must not be. */
void nw_bad(const char *fmt, ...)
{
	va_list ap;
	char line[400];

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	printf("wrong: %s\n", line);
	fflush(stdout);
	atomic_fetch_add(&nw_wrong, 1);
}

void nw_die(const char *what, int err)
{
	fprintf(stderr, "netwrite: %s: %s (%s)\n", what, strerror(-err), weft_strerror_last());
	exit(1);
}

/* A region with canaries around it, at an odd place. */
void nw_region_make(struct nw_region *r, struct weft_dev *dev, size_t len, unsigned access,
		    uint64_t seed)
{
	uint64_t rnd = seed ^ 0xca4a47;
	int err;

	r->seed = seed;
	r->len = len;
	r->before = 4096 + np_below(&rnd, 4096);
	r->after = 4096 + np_below(&rnd, 4096);
	err = weft_alloc(dev, r->before + len + r->after, (void **)&r->mem);
	if (err)
		nw_die("weft_alloc", err);
	r->at = r->mem + r->before;
	np_canary_fill(r->mem, r->before, seed);
	np_canary_fill(r->at + len, r->after, seed + 1);
	err = weft_mr_reg(dev, NULL, r->at, len, access, &r->mr);
	if (err)
		nw_die("weft_mr_reg", err);
}

void nw_region_check(const struct nw_region *r, const char *whose)
{
	long i = np_canary_check(r->mem, r->before, r->seed);

	if (i >= 0)
		nw_bad("%s: canary %ld bytes before the region", whose, (long)r->before - i);
	i = np_canary_check(r->at + r->len, r->after, r->seed + 1);
	if (i >= 0)
		nw_bad("%s: canary %ld bytes behind the region", whose, i);
}

/* DEV=ADDRESS */
struct weft_dev *nw_open(char *target, const char **addr)
{
	struct weft_open_opts opts = { .size = sizeof(opts), .csum = nw.csum };
	char *eq = strchr(target, '=');
	struct weft_dev *dev;
	int err;

	if (!eq) {
		fputs(usage_text, stderr);
		exit(2);
	}
	*eq = 0;
	*addr = eq + 1;
	err = weft_open(target, &opts, &dev);
	if (err)
		nw_die(target, err);
	return dev;
}

static uint64_t number(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);

	switch (*end) {
	case 'g': v <<= 10; /* fall through */
	case 'm': v <<= 10; /* fall through */
	case 'k': v <<= 10; end++;
	}
	if (end == s || *end) {
		fprintf(stderr, "netwrite: %s: not a number\n", s);
		exit(2);
	}
	return v;
}

enum {
	O_SEED = 256, O_QPS, O_REGION, O_CONNS, O_SRC, O_MAX, O_FIXED, O_ROUNDS, O_TIME, O_EVS,
	O_CWND, O_DEPTH, O_TIMEOUT, O_STOP, O_STRESS, O_LIMIT, O_BAD, O_IDLE, O_CSUM,
};

static const struct option long_options[] = {
	{ "seed", 1, 0, O_SEED },	  { "qps", 1, 0, O_QPS },
	{ "region", 1, 0, O_REGION },	  { "conns", 1, 0, O_CONNS },
	{ "src", 1, 0, O_SRC },		  { "max", 1, 0, O_MAX },
	{ "fixed", 1, 0, O_FIXED },	  { "rounds", 1, 0, O_ROUNDS },
	{ "time", 1, 0, O_TIME },	  { "evs", 1, 0, O_EVS },
	{ "cwnd", 1, 0, O_CWND },	  { "depth", 1, 0, O_DEPTH },
	{ "timeout", 1, 0, O_TIMEOUT },	  { "stop-posted", 0, 0, O_STOP },
	{ "stress", 0, 0, O_STRESS },	  { "limit", 1, 0, O_LIMIT },
	{ "bad", 1, 0, O_BAD },		  { "idle", 1, 0, O_IDLE },
	{ "csum", 0, 0, O_CSUM },	  { 0 },
};

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case O_SEED: nw.seed = number(optarg); break;
		case O_QPS: nw.qps = number(optarg); break;
		case O_REGION: nw.region = number(optarg); break;
		case O_CONNS: nw.conns = number(optarg); break;
		case O_SRC: nw.src = number(optarg); break;
		case O_MAX: nw.max = number(optarg); break;
		case O_FIXED: nw.fixed = number(optarg); break;
		case O_ROUNDS: nw.rounds = number(optarg); break;
		case O_TIME: nw.time = number(optarg); nw.rounds = 0; break;
		case O_EVS: nw.evs = number(optarg); break;
		case O_CWND: nw.cwnd = number(optarg); break;
		case O_DEPTH: nw.depth = number(optarg); break;
		case O_TIMEOUT: nw.timeout_ms = number(optarg); break;
		case O_STOP: nw.stop_posted = true; break;
		case O_STRESS: nw.stress = true; break;
		case O_LIMIT: nw.limit_ms = number(optarg); break;
		case O_BAD: nw.bad = optarg; break;
		case O_IDLE: nw.idle = number(optarg); break;
		case O_CSUM: nw.csum = true; break;
		default: fputs(usage_text, stderr); exit(2);
		}
	}
	if (optind == argc || nw.depth < 1 || nw.depth > WEFT_DEPTH || !nw.src) {
		fputs(usage_text, stderr);
		exit(2);
	}
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&nw_stop, true);
}

int main(int argc, char **argv)
{
	bool server = argc > 1 && !strcmp(argv[1], "server");
	struct sigaction sa = { .sa_handler = on_signal };

	if (!server && (argc < 2 || strcmp(argv[1], "client"))) {
		fputs(usage_text, stderr);
		return 2;
	}
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	parse(argc - 1, argv + 1);
	argv += optind + 1;
	argc -= optind + 1;
	return server ? nw_server(argv, argc) : nw_client(argv, argc);
}
