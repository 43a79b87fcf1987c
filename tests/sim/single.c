/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I15, systematically: small exchanges, once for every frame in them, with that frame lost. */
#include "sim.h"

/* A single loss costs no more time than the first RTO and a look; a lost RESUME less. */
#define BOUND (12 * MS)

/* Sizes of exchange: requests, windows and CPUs that put the losses in different places. */
static const struct {
	uint32_t segs, cwnd, payload, cpus;
	uint8_t mono, lonely, mix;
	uint8_t style, depth, qps; /* of receives; of several QPs the queue is shared */
	uint8_t strict;            /* 2: but for what is free */
} shapes[] = {
	{ 1, 8, 16, 1, 1, 0, 0, 0, 0, 0, 0 },
	{ 2, 8, 16, 1, 1, 0, 0, 0, 0, 0, 0 },
	{ 3, 1, 16, 1, 0, 1, 0, 0, 0, 0, 0 },
	{ 40, 8, 16, 1, 0, 0, 0, 0, 0, 0, 0 },
	{ 40, 4, 16, 2, 1, 0, 0, 0, 0, 0, 0 },
	{ 60, 64, 16, 3, 0, 1, 0, 0, 0, 0, 0 },
	{ 30, 2, 16, 2, 0, 1, 0, 0, 0, 0, 0 },
	{ 90, 16, 7, 3, 0, 0, 0, 0, 0, 0, 0 },
	{ 40, 8, 16, 1, 0, 0, MIX_ALL, 0, 0, 0, 0 },
	{ 40, 4, 16, 2, 1, 0, MIX_READS, 0, 0, 0, 0 },
	{ 60, 16, 16, 3, 0, 1, MIX_ALL, 0, 0, 0, 0 },
	{ 80, 64, 16, 2, 0, 0, MIX_ATOMICS, 0, 0, 0, 0 },
	{ 2, 8, 16, 1, 0, 0, MIX_SENDS, RECV_LATE, 1, 0, 0 },
	{ 30, 4, 16, 1, 0, 0, MIX_SENDS, RECV_ONE, 4, 0, 0 },
	{ 40, 16, 7, 2, 0, 0, MIX_SENDS, RECV_BURST, 8, 0, 0 },
	{ 40, 8, 16, 2, 1, 0, MIX_SENDS, RECV_LATE, 4, 0, 0 },
	{ 60, 8, 16, 2, 0, 0, MIX_EVERY, RECV_ANY, 4, 0, 0 },
	{ 30, 4, 16, 1, 0, 1, MIX_SENDS, RECV_ONE, 4, 2, 0 },
	{ 60, 16, 16, 2, 0, 0, MIX_SENDS, RECV_BURST, 2, 4, 0 },
	{ 40, 16, 16, 3, 0, 0, MIX_EVERY, RECV_ANY, 8, 2, 0 },
	{ 40, 8, 16, 1, 0, 0, MIX_WRITES, 0, 0, 0, 1 },
	{ 90, 32, 7, 1, 1, 0, MIX_WRITES, 0, 0, 0, 1 },
	{ 60, 16, 16, 1, 0, 1, MIX_ALL, 0, 0, 0, 1 },
	{ 60, 8, 16, 1, 0, 0, MIX_EVERY, RECV_ANY, 4, 0, 1 },
	{ 90, 32, 7, 2, 1, 0, MIX_WRITES, 0, 0, 0, 2 },
	{ 99, 8, 16, 2, 0, 0, MIX_WRITES, 0, 0, 0, 2 },
	{ 99, 16, 16, 3, 0, 0, MIX_SENDS, RECV_BURST, 8, 0, 2 },
};

/* One packet lost again and again, until the window behind it is full. */
static int holes_run(void)
{
	static const uint16_t at[] = { 0, 1, 63, 64, 700, 1999 };
	uint32_t runs = 0;

	for (uint32_t i = 0; i < 6 * 6 * 3; i++, runs++) {
		uint32_t times = i / 6 % 6 + 1;
		struct params p;

		params_quiet(&p);
		p.segs = 1999; /* a connection gets one more */
		p.cwnd = times & 1 ? WEFT_CWND_MAX : 64;
		p.budget = WEFT_CWND_MAX;
		p.hard = WEFT_CWND_MAX + 32;
		p.delay = 200000;
		p.psn0 = (uint32_t)-1000;
		p.cpus[0] = p.cpus[1] = i / 36 + 1;
		p.mono = 1;
		p.mix = times & 2 ? MIX_READS : MIX_WRITES;
		p.hole = at[i % 6];
		p.hole_times = times;
		if (world_run(i, &p, ~0ull)) {
			printf("# exchange with PSN %u lost %u times: %s\n", p.hole, times, W.why);
			return -1;
		}
	}
	printf("# %u runs, each with one packet lost 1 to 6 times\n", runs);
	return 0;
}

/* Nothing lost, a fifth of the frames up to a round trip late: at most 1% sent again. */
static int reorder_run(void)
{
	uint64_t packets = 0, again = 0;

	for (uint32_t i = 0; i < 10; i++) {
		struct params p;

		params_quiet(&p);
		p.segs = 2000;
		p.cwnd = 16 << i / 2;
		p.budget = p.hard = WEFT_CWND_MAX;
		p.delay = 20000;
		p.jitter = 5000;
		p.nev = 16;
		p.cpus[0] = p.cpus[1] = 1 + i % 3;
		p.mono = 1;
		p.reorder = PERMILLE(200);
		p.reorder_by = 2 * p.delay;
		if (world_run(i, &p, ~0ull)) {
			printf("# exchange with reordering alone: %s\n", W.why);
			return -1;
		}
		packets += W.st.packets;
		again += W.st.retransmits;
	}
	printf("# reordering alone: %llu of %llu packets sent again\n", (unsigned long long)again,
	       (unsigned long long)packets);
	if (again * 100 > packets)
		printf("# exchange with reordering alone: more than 1%% sent again\n");
	return again * 100 > packets ? -1 : 0;
}

int single_run(int verbose)
{
	uint64_t runs = 0, worst = 0;

	for (uint32_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct params p;
		uint64_t frames, done;

		params_quiet(&p);
		p.qps = shapes[i].qps ? shapes[i].qps : 1;
		p.segs = shapes[i].segs - p.qps; /* a connection gets segs / qps + 1 */
		p.cwnd = shapes[i].cwnd;
		p.payload = shapes[i].payload;
		p.cpus[0] = p.cpus[1] = shapes[i].cpus;
		p.mono = shapes[i].mono;
		p.lonely = shapes[i].lonely;
		p.mix = shapes[i].mix;
		p.parts = 1;
		p.rq_style = shapes[i].style;
		p.rq_depth = shapes[i].depth ? shapes[i].depth : p.rq_depth;
		p.srq = p.qps > 1;
		p.strict = shapes[i].strict != 0;
		p.frees = shapes[i].strict == 2;
		if (world_run(i, &p, ~0ull)) {
			printf("# exchange %u without a loss: %s\n", i, W.why);
			return -1;
		}
		if (W.st.found) {
			printf("# exchange %u without a loss: %llu probes had to find receives\n",
			       i, (unsigned long long)W.st.found);
			return -1;
		}
		frames = W.frames;
		done = W.done_at;
		for (uint64_t n = 0; n < frames; n++) {
			runs++;
			if (world_run(i, &p, n)) {
				printf("# exchange %u, frame %llu lost: %s\n", i,
				       (unsigned long long)n, W.why);
				return -1;
			}
			if (W.done_at > done + worst)
				worst = W.done_at - done;
			if (W.done_at > done + BOUND) {
				printf("# exchange %u, frame %llu lost: took %llu ms more\n", i,
				       (unsigned long long)n,
				       (unsigned long long)((W.done_at - done) / MS));
				return -1;
			}
		}
		if (verbose)
			printf("# exchange %u: %llu frames, each lost once, worst %llu us\n", i,
			       (unsigned long long)frames, (unsigned long long)(worst / US));
	}
	printf("# %llu runs, each with one frame lost, which took %llu us longer at worst\n",
	       (unsigned long long)runs, (unsigned long long)(worst / US));
	return holes_run() || reorder_run() ? -1 : 0;
}
