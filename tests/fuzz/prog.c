// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The harnesses over the loaded XDP programs (BPF_PROG_TEST_RUN): weft-fuzz-prog SECONDS [SEED] | TARGET FILE... */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <bpf/libbpf.h>

#include "fuzz.h"

#define INPUT_MAX 1200 /* bytes */
#define LOOK_ALL  256  /* runs between two looks at all memory; near a write each is looked at */
#define NEAR      16384

static const struct target {
	const char *name;
	void (*run)(struct input *in);
} targets[] = { { "parse", fuzz_parse }, { "rx", fuzz_rx }, { "ack", fuzz_ack } };
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

static struct {
	const struct target *t;
	uint8_t b[INPUT_MAX];
	size_t len;
	uint64_t seed;
	unsigned n, runs;
	const char *file; /* replayed */
} now;

/* Keep the input, and say how to see it again. */
void fuzz_fail(const char *fmt, ...)
{
	const char *dir = getenv("O");
	char path[300];
	va_list ap;
	FILE *f;

	snprintf(path, sizeof(path), "%s/fuzz/crash-prog-%s-%llu-%u", dir ? dir : "build",
		 now.t->name, (unsigned long long)now.seed, now.n);
	if (!now.file) {
		f = fopen(path, "we");
		if (!f || fwrite(now.b, 1, now.len, f) != now.len)
			printf("# %s cannot be written\n", path);
		if (f)
			fclose(f);
	}
	printf("not ok 1 - prog: %s\n# ", now.t->name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n# replay: weft-fuzz-prog %s %s\n1..1\n", now.t->name, now.file ? now.file : path);
	fflush(stdout);
	_exit(1);
}

/* ---- the backend ---- */

void backend_wait(uint32_t ticks)
{
	struct timespec ts = { .tv_nsec = ticks * 64ull > 1000000 ? 50000 : 0 };

	if (ts.tv_nsec)
		nanosleep(&ts, NULL);
}

void backend_cpu(uint32_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* A test run has a page of its own for every frame. */
void backend_headroom(uint32_t bytes)
{
	(void)bytes;
}

static void same(const uint8_t *got, const uint8_t *want, size_t n, size_t at, const char *what)
{
	if (!memcmp(got, want, n))
		return;
	for (size_t i = 0; i < n; i++)
		if (got[i] != want[i])
			fuzz_fail("I5: %s: byte %zu is %02x, not %02x", what, at + i, got[i],
				  want[i]);
}

static void look_at_all(void)
{
	static uint8_t *source; /* as it was */

	if (!source) {
		source = malloc(FX_POOL);
		memcpy(source, fx.source, FX_POOL);
	}
	same(fx.target, fx.want, FX_POOL, 0, "target pool");
	same(fx.source, source, FX_POOL, 0, "source pool");
}

void backend_scattered(const struct span *s, int n, const void *bytes)
{
	const uint8_t *p = bytes;

	for (int i = 0; i < n; p += s[i++].len)
		memcpy(fx.want + FX_T_OFF + s[i].roff, p, s[i].len);
	for (int i = 0; i < n; i++) {
		size_t at = FX_T_OFF + s[i].roff, lo, hi;

		if (!s[i].len)
			continue;
		lo = at > NEAR ? at - NEAR : 0;
		hi = at + s[i].len + NEAR < FX_POOL ? at + s[i].len + NEAR : FX_POOL;
		same(fx.target + lo, fx.want + lo, hi - lo, lo, "target pool");
	}
	if (!(++now.runs % LOOK_ALL))
		look_at_all();
}

void backend_atomic(uint64_t roff, uint64_t value)
{
	backend_written(roff, &value, sizeof(value));
}

void backend_peek(uint32_t pool, uint64_t off, void *bytes, uint32_t len)
{
	memcpy(bytes, (pool == FX_POOL_T ? fx.target : fx.source) + off, len);
}

/* ---- inputs ---- */

/* splitmix64 (Steele et al. 2014) */
static uint64_t draw(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void run_input(void)
{
	struct input in = { now.b, now.b + now.len };

	now.t->run(&in);
	look_at_all();
}

/* A frame for fuzz_parse() that is one of ours but for a few bytes. */
static void near_frame(uint64_t *s)
{
	static struct frame f;
	struct fx_qp *q = &fx.qp[draw(s) % FX_QPS];
	uint32_t what = draw(s) % 4;
	struct pkt p;

	fx_reset(NULL);
	if (what == 3)
		pkt_send(&p, q, FX_PSN, draw(s) % 3, random_bytes(draw(s)), draw(s) % 1000);
	else if (what)
		pkt_data(&p, q, FX_PSN, draw(s) % 100000, random_bytes(draw(s)), draw(s) % 1000);
	else
		pkt_ack(&p, q, FX_PSN - 1, FX_PSN, 0);
	pkt_frame(&p, &f);
	now.len = 1 + f.len < INPUT_MAX ? 1 + f.len : INPUT_MAX;
	now.b[0] = draw(s) & 27; /* at the NIC, fuzz_parse.c */
	memcpy(now.b + 1, f.b, now.len - 1);
	for (unsigned i = draw(s) % 4; i--;)
		now.b[1 + draw(s) % (now.len < 140 ? now.len - 1 : 139)] = draw(s);
}

static void make_input(uint64_t seed, unsigned n)
{
	uint64_t s = seed ^ (uint64_t)n << 32;

	now.len = 16 + draw(&s) % (INPUT_MAX - 16);
	for (size_t i = 0; i < now.len; i++)
		now.b[i] = draw(&s);
	if (now.t->run == fuzz_parse && draw(&s) % 4)
		near_frame(&s);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int fuzz(double time)
{
	for (size_t i = 0; i < TARGETS; i++) {
		double end = seconds() + time / TARGETS;

		now.t = &targets[i];
		for (now.n = 0; seconds() < end; now.n++) {
			make_input(now.seed, now.n);
			run_input();
		}
		printf("# note: prog: %s: %u inputs\n", now.t->name, now.n);
	}
	printf("ok 1 - prog: the loaded programs do the same, %u runs, seed %llu\n1..1\n", now.runs,
	       (unsigned long long)now.seed);
	return 0;
}

static int replay(char **files)
{
	for (; *files; files++) {
		FILE *f = fopen(*files, "re");

		if (!f) {
			fprintf(stderr, "weft: %s: %s; name an input\n", *files, strerror(errno));
			return 1;
		}
		now.file = *files;
		now.len = fread(now.b, 1, sizeof(now.b), f);
		fclose(f);
		run_input();
	}
	return 0;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

int main(int argc, char **argv)
{
	int err;

	for (size_t i = 0; i < TARGETS && argc > 1; i++)
		if (!strcmp(argv[1], targets[i].name))
			now.t = &targets[i];
	if (argc < 2 || (!now.t && atof(argv[1]) <= 0)) {
		fprintf(stderr, "usage: weft-fuzz-prog SECONDS [SEED] | parse|rx|ack FILE...\n");
		return 2;
	}
	libbpf_set_print(quiet);
	err = fx_load();
	if (err) {
		fprintf(stderr, "weft: weft.bpf.o: cannot load: %s; run as root\n", strerror(-err));
		return 1;
	}
	now.seed =
		argc > 2 && !now.t ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * getpid();
	err = now.t ? replay(argv + 2) : fuzz(atof(argv[1]));
	fx_unload();
	return err;
}
