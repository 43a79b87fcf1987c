// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What two copies of every byte cost: memcpy in 3 KiB pieces between 64 MiB regions, in Gb/s. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REGION (64UL << 20)
#define PIECE  3072UL

struct worker {
	pthread_t thread;
	int cpu; /* -1: wherever the caller's affinity allows */
	double seconds;
	double gbps;
	int err;
};

static pthread_barrier_t start_line;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* One pass: region to a piece-sized buffer in cache, as a frame is, and on to the other region. */
static void copy_twice(char *dst, const char *src, char *frame)
{
	for (size_t at = 0; at + PIECE <= REGION; at += PIECE) {
		memcpy(frame, src + at, PIECE);
		/* The compiler must not see through the frame and copy once. */
		__asm__ volatile("" : : "r"(frame) : "memory");
		memcpy(dst + at, frame, PIECE);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	char *src = malloc(REGION), *dst = malloc(REGION), *frame = malloc(PIECE);
	unsigned long passes = 0;
	double begin, spent = 0;

	if (w->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(w->cpu, &set);
		w->err = -pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
	if (!src || !dst || !frame)
		w->err = -ENOMEM;
	if (!w->err) {
		/* Touch every page first, or the first pass measures page faults. */
		memset(src, 1, REGION);
		memset(dst, 2, REGION);
	}
	pthread_barrier_wait(&start_line);
	begin = now();
	while (!w->err && spent < w->seconds) {
		copy_twice(dst, src, frame);
		passes++;
		spent = now() - begin;
	}
	if (spent > 0)
		w->gbps = passes * (REGION / PIECE * PIECE) * 8.0 / spent / 1e9;
	free(frame);
	free(dst);
	free(src);
	return NULL;
}

int main(int argc, char **argv)
{
	struct worker *workers;
	double sum = 0;
	cpu_set_t cpus;
	int n = 1, err = 0, all, cpu = -1;

	if (argc != 3 || (strcmp(argv[1], "one") && strcmp(argv[1], "all")) || atof(argv[2]) <= 0) {
		fprintf(stderr, "usage: memcpy one|all SECONDS\n");
		return 2;
	}
	all = !strcmp(argv[1], "all");
	if (all) {
		if (sched_getaffinity(0, sizeof(cpus), &cpus)) {
			perror("weft: memcpy: cannot read the affinity");
			return 1;
		}
		n = CPU_COUNT(&cpus);
	}
	workers = calloc(n, sizeof(*workers));
	if (!workers || pthread_barrier_init(&start_line, NULL, n)) {
		fprintf(stderr, "weft: memcpy: out of memory; free some\n");
		return 1;
	}
	for (int i = 0; i < n; i++) {
		if (all)
			do
				cpu++;
			while (!CPU_ISSET(cpu, &cpus));
		workers[i].cpu = cpu;
		workers[i].seconds = atof(argv[2]);
		err = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (err) {
			fprintf(stderr,
				"weft: memcpy: cannot start a thread: %s; raise the limit\n",
				strerror(err));
			return 1;
		}
	}
	for (int i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].err)
			err = workers[i].err;
		sum += workers[i].gbps;
	}
	if (err) {
		fprintf(stderr, "weft: memcpy: %s; free memory or a processor\n", strerror(-err));
		return 1;
	}
	printf("%.3f\n", sum);
	free(workers);
	return 0;
}
