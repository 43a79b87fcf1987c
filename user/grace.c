/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The clock, and the grace period after which no XDP program sees what was unpublished. */
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "internal.h"

static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static int wait_outer = -1, wait_inner = -1;

/*
 * Where membarrier is refused (nohz_full CPUs): an update of a map of maps by
 * system call ends with synchronize_rcu() too, so that its caller knows that no
 * program uses the old map (kernel/bpf/syscall.c, maybe_wait_bpf_programs()).
 */
static int wait_by_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts);
	uint32_t key = 0;
	int err = -1;

	pthread_mutex_lock(&wait_lock);
	if (wait_inner < 0)
		wait_inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_wait", 4, 4, 1, NULL);
	if (wait_inner >= 0 && wait_outer < 0) {
		opts.inner_map_fd = wait_inner;
		wait_outer =
			bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "weft_waits", 4, 4, 1, &opts);
	}
	if (wait_outer >= 0)
		err = bpf_map_update_elem(wait_outer, &key, &wait_inner, BPF_ANY);
	pthread_mutex_unlock(&wait_lock);
	return err;
}

/* membarrier GLOBAL is synchronize_rcu(); XDP programs run as RCU readers. */
void weft_grace(void)
{
	struct timespec ts = { .tv_nsec = 200000000 };

	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) || !wait_by_map())
		return;
	/* Neither call works, say for want of memory: far longer than a program may run. */
	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

uint64_t weft_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}
