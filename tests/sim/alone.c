/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I9: processes are stopped once all is posted and nothing gets lost: the programs do the rest. */
#include "sim.h"

#define RUNS 300

/* Whatever a seed draws, but nothing is lost. */
static void draw(uint64_t seed, struct params *p)
{
	rng_seed(seed);
	params_draw(p);
	p->stopped = 1;
	p->loss = p->corrupt = p->payload_corrupt = p->xmit_fail = p->db_loss = 0;
	p->stall = p->outage = p->reset = p->nak = p->forge = p->cut_cwnd = 0;
	/* who is refused a first token gets one of the others' */
	p->budget = between(1, 32);
	p->hard = p->budget + below(2);
	/* all that is in flight, and its duplicates, fits the queue of one CPU */
	p->cwnd = p->cwnd % 32 + 1;
	p->dup_acks = 0;
}

int alone_run(int verbose)
{
	uint64_t packets = 0, moved = 0, yielded = 0, handed = 0;

	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		struct params p;

		draw(seed, &p);
		if (world_run(seed, &p, ~0ull)) {
			printf("# exchange %llu with stopped processes: %s\n",
			       (unsigned long long)seed, W.why);
			return -1;
		}
		if (W.st.lost || W.st.timeouts) {
			printf("# exchange %llu with stopped processes: %llu frames lost, "
			       "%llu time-outs: nothing is shown\n",
			       (unsigned long long)seed, (unsigned long long)W.st.lost,
			       (unsigned long long)W.st.timeouts);
			return -1;
		}
		packets += W.st.packets;
		moved += W.st.moved;
		yielded += W.st.yielded;
		handed += W.st.handed;
		if (verbose)
			printf("# exchange %llu: %llu packets, %llu doorbells\n",
			       (unsigned long long)seed, (unsigned long long)W.st.packets,
			       (unsigned long long)W.st.doorbells);
	}
	printf("# stopped processes: %llu packets, %llu CPUs started, %llu tokens given up, %llu of "
	       "them to who waited\n",
	       (unsigned long long)packets, (unsigned long long)moved, (unsigned long long)yielded,
	       (unsigned long long)handed);
	return moved && yielded && handed ? 0 : -1;
}
