// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* stallmeter: when, and for how long, each processor let nobody run who wanted to; a line a stall. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS      1000000ll
#define PERIOD  (5 * MS)
#define MINIMUM (5 * MS) /* what is shorter is no stall */

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

/* Lines of "CPU END-IN-SECONDS MILLISECONDS". */
static void *watch(void *arg)
{
	int cpu = (int)(intptr_t)arg;
	int64_t due = now(), late;
	struct timespec ts;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return NULL; /* not ours to use */
	for (;;) {
		due += PERIOD;
		ts = (struct timespec){ due / (1000 * MS), due % (1000 * MS) };
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
			;
		late = now() - due;
		if (late < MINIMUM)
			continue;
		due += late;
		printf("%d %.3f %.1f\n", cpu, due / 1e9, late / 1e6);
		fflush(stdout);
	}
	return NULL;
}

int main(void)
{
	pthread_t t;

	/* whoever started it looks at it; it does not outlive him */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
		if (pthread_create(&t, NULL, watch, (void *)(intptr_t)cpu))
			return 1;
	pause();
	return 0;
}
