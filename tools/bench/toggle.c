// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What telemetry costs a transfer that runs: switched on and off in short slices, which are compared in pairs. */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <weft/abi.h>

#define SLICE_NS  50000000 /* long against round trips, short against what else goes on */
#define SETTLE_NS 1000000  /* packets under way */

static struct weft_devcfg *cfg[2]; /* of sender and receiver */
static struct weft_stats *per_cpu;
static int stats, cpus;

static int pin(const char *dir, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = bpf_obj_get(path);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static unsigned long long packets(void)
{
	unsigned long long n = 0;
	__u32 key = 0;

	if (bpf_map_lookup_elem(stats, &key, per_cpu))
		err(1, "stats");
	for (int i = 0; i < cpus; i++)
		n += per_cpu[i].count.tx_data - per_cpu[i].count.tx_retx;
	return n;
}

static void pass(long long ns)
{
	struct timespec t = { .tv_nsec = ns };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

/* Packets a nanosecond of one slice. */
static double slice(int on)
{
	unsigned long long n;
	long long t;

	for (int i = 0; i < 2; i++)
		if (on)
			__atomic_fetch_and(&cfg[i]->flags, ~WEFT_DEV_NO_TELE, __ATOMIC_RELEASE);
		else
			__atomic_fetch_or(&cfg[i]->flags, WEFT_DEV_NO_TELE, __ATOMIC_RELEASE);
	pass(SETTLE_NS);
	n = packets();
	t = now();
	pass(SLICE_NS);
	n = packets() - n;
	t = now() - t;
	if (!n)
		errx(1, "nothing is sent");
	return (double)n / (double)t;
}

int main(int argc, char **argv)
{
	double size, seconds, bits, rate[2];
	long long end;

	if (argc != 5 || (size = atof(argv[3])) < 1 || (seconds = atof(argv[4])) <= 0)
		errx(2, "usage: toggle SENDER_PINS RECEIVER_PINS MESSAGE_BYTES SECONDS");
	cpus = libbpf_num_possible_cpus();
	per_cpu = calloc(cpus, sizeof(*per_cpu));
	if (!per_cpu)
		err(1, "counters");
	for (int i = 0; i < 2; i++) {
		cfg[i] = mmap(NULL, sizeof(*cfg[i]), PROT_READ | PROT_WRITE, MAP_SHARED,
			      pin(argv[1 + i], "devcfg"), 0);
		if (cfg[i] == MAP_FAILED)
			err(1, "%s/devcfg", argv[1 + i]);
	}
	stats = pin(argv[1], "stats");
	bits = 8 * size / (double)(((long)size + cfg[0]->payload - 1) / cfg[0]->payload);
	end = now() + (long long)(seconds * 1e9);
	/* which of a pair comes first alternates, so that a drift does not count */
	for (int turn = 0; now() < end; turn ^= 1) {
		rate[turn] = slice(turn);
		rate[!turn] = slice(!turn);
		printf("%.4f %.4f\n", rate[1] * bits, rate[0] * bits);
	}
	return 0;
}
