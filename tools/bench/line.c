// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What a cache line takes from CPU 0 to CPU 1 and back, in ns: how far apart a virtual machine's CPUs are now. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 50000u

static _Alignas(128) atomic_uint ball; /* odd: the other side's turn */

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

static void *other(void *arg)
{
	(void)arg;
	pin(1);
	for (unsigned i = 1; i < 2 * ROUNDS; i += 2) {
		while (atomic_load_explicit(&ball, memory_order_acquire) != i)
			;
		atomic_store_explicit(&ball, i + 1, memory_order_release);
	}
	return NULL;
}

int main(void)
{
	struct timespec from, to;
	pthread_t thread;
	int err = pin(1);

	if (!err)
		err = pin(0);
	if (!err)
		err = -pthread_create(&thread, NULL, other, NULL);
	if (err) {
		fprintf(stderr, "weft: bench: line: CPUs 0 and 1: %s\n", strerror(-err));
		return 1;
	}
	for (unsigned i = 0; i < 2 * ROUNDS; i += 2) {
		/* the first round is the start of the thread */
		if (i == 2)
			clock_gettime(CLOCK_MONOTONIC, &from);
		atomic_store_explicit(&ball, i + 1, memory_order_release);
		while (atomic_load_explicit(&ball, memory_order_acquire) != i + 2)
			;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	pthread_join(thread, NULL);
	printf("%.0f\n",
	       ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
		       (ROUNDS - 1));
	return 0;
}
