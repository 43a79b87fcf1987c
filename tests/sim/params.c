/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a seed draws: sizes, windows, CPUs, impairments, faults. */
#include "sim.h"

/* Log-uniform between lo and hi. */
static uint32_t spread(uint32_t lo, uint32_t hi)
{
	uint32_t a = lo;

	while (a < hi / 2 && below(3))
		a *= 2;
	return between(lo, a < hi ? (a > lo ? a : lo) : hi);
}

void params_draw(struct params *p)
{
	static const uint32_t sizes[] = { 1, 3, 8, 16, 64, 100, 128, 200, 256 };
	uint64_t deep = sim_rng[0]; /* without a draw: what else a seed means stays as it was */

	memset(p, 0, sizeof(*p));
	p->depth = deep & 3 ? WEFT_SQ_DEPTH : WEFT_SQ_DEPTH << (1 + (deep >> 2) % 4);
	p->many = deep >> 24 & 1;
	p->qps = between(1, SIM_QPS);
	for (int h = 0; h < SIM_HOSTS; h++)
		p->cpus[h] = below(24) ? between(1, 3) : between(4, SIM_CPUS);
	p->nev = below(4) ? spread(1, WEFT_EV_MAX) : between(1, WEFT_EV_MAX);
	p->payload = below(3) ? sizes[below(9)] : between(1, SIM_PAYLOAD);
	p->cwnd = below(4) ? spread(1, WEFT_CWND_MAX) : between(1, WEFT_CWND_MAX);
	p->budget = below(2) ? between(1, 16) : between(16, 256);
	p->hard = p->budget + between(1, 32);
	p->segs = between(2000, 3000);

	p->loss = PERMILLE(1) + below(below(3) ? PERMILLE(20) : PERMILLE(100));
	p->dup = PERMILLE(1) + below(PERMILLE(below(3) ? 10 : 100));
	p->reorder = PERMILLE(1) + below(PERMILLE(below(3) ? 20 : 300));
	p->corrupt = PERMILLE(1) + below(PERMILLE(20));
	p->payload_corrupt = PERMILLE(1) + below(PERMILLE(20));
	p->ce = PERMILLE(1) + below(PERMILLE(50));
	p->xmit_fail = below(2) ? below(PERMILLE(20)) : 0;
	p->db_loss = below(2) ? below(PERMILLE(300)) : 0;
	p->preempt = below(3) ? below(PERMILLE(below(3) ? 20 : 150)) : 0;
	p->stall = below(3) ? 0 : 1 + below(PERMILLE(1));
	p->delay = spread(1000, 200000);
	p->jitter = 1 + below(p->delay / 4);
	/* mostly inside a round trip, sometimes far beyond */
	p->reorder_by = below(4) ? p->delay + below(p->delay) : between(p->delay, 8 * MS);
	p->stall_by = between(MS / 10, 8 * MS);
	p->look = between(MS / 2, 2 * MS);
	p->tick0 = below(2) ? (uint32_t)rng() : -below(200000); /* wraps during the run */
	p->psn0 = below(4) ? -below(p->segs) : (uint32_t)rng();
	p->msn0 = below(4) ? -below(100) : (uint32_t)rng();
	p->dup_acks = !below(6);
	p->forge = !below(3);
	p->nak = !below(p->many ? 3 : 5);
	p->reset = !below(5);
	if (p->reset)
		p->preempt += PERMILLE(10);
	p->pinned = below(2);
	p->cut_cwnd = !below(3);
	p->outage = !below(6);
	p->mono = !below(5);
	p->lonely = !below(4);
	p->mix = below(MIX_COUNT);
	p->parts = below(2);
	p->plain = !below(4);
	p->gone = !below(3);
	p->srq = !p->nak && below(2);
	p->rq_style = below(RECV_STYLES);
	/* more than one QP may have out, now and then */
	p->rq_depth = 1 << below(p->srq && !below(3) ? 11 : 7);
	p->rq_by = spread(2000, 400000);
	p->strict = !below(8);
	p->many &= !p->strict;
	p->frees = p->strict && (deep >> 20 & 3);
	p->overlap = p->strict && (deep >> 24 & 1);
	p->rsn0 = below(2) ? -below(100) : (uint32_t)rng();
	p->rq0 = below(2) ? -below(100) : (uint32_t)rng();
	/* as many under way as a deep queue may have */
	if (p->depth > WEFT_SQ_DEPTH && deep & 0x40) {
		p->cwnd = WEFT_CWND_MAX - (deep >> 8) % 256;
		p->budget = 256;
		p->hard = p->budget + 32;
		p->qps = 1;
		p->mono = p->lonely = 0;
	}
	/* WRITEs alone, in a window so small that some are queued */
	if (p->many && (deep >> 25 & 3)) {
		p->payload = SIM_PAYLOAD;
		p->mix = MIX_WRITES;
		p->mono = p->lonely = 0;
		p->cwnd = 1 + (deep >> 32) % 8;
	}
	/* CPUs that are held up while others fill the window behind them */
	if (!below(12)) {
		p->qps = 1;
		p->mono = 1;
		p->lonely = p->outage = p->reset = 0;
		p->cwnd = between(64, WEFT_CWND_MAX);
		p->budget = between(64, 256);
		p->hard = p->budget + 32;
		p->cpus[0] = between(2, 8);
		p->cpus[1] = between(4, SIM_CPUS);
		p->delay = spread(1000, 20000);
		p->jitter = 1 + p->delay / 4;
		p->reorder_by = p->delay;
		p->loss = PERMILLE(1);
		p->xmit_fail = 0;
		p->pinned = 1;
		p->stall = 300 + below(1000);
		p->stall_by = between(2 * MS, 8 * MS);
	}
	/* one message without an end in sight, and a window that losses can fill */
	if (!below(16)) {
		p->qps = 1;
		p->mono = 1;
		p->cwnd = between(256, WEFT_CWND_MAX);
		p->budget = between(192, 256);
		p->hard = p->budget + 32;
		p->cpus[0] = p->cpus[1] = between(2, 4);
		p->delay = spread(20000, 200000);
		p->reorder_by = 2 * p->delay;
		p->loss = PERMILLE(50) + below(PERMILLE(150));
	}
}

/* What follows from the rest. */
void params_settle(struct params *p)
{
	/* who is stopped has posted all that will be taken, and of a shared queue polls none */
	if (p->stopped && p->depth > SIM_RQ)
		p->depth = SIM_RQ;
	if (p->stopped && p->srq)
		p->depth = WEFT_SQ_DEPTH;
	if (p->stopped)
		p->rq_depth = p->srq ? SIM_RQ : p->depth;
	else if (p->mono)
		p->rq_depth = p->rq_depth > 4 ? 4 : p->rq_depth;
	/* one path, and one queue */
	if (p->strict && !p->frees) {
		p->nev = p->cpus[0] = p->cpus[1] = 1;
		p->cwnd = p->cwnd % 64 + 1;
	}
	p->send_segs = !p->mono ? between(1, 8) : p->stopped ? 8 : p->segs + 1;
}

/* Nothing goes wrong by itself: for the systematic loss of one frame. */
void params_quiet(struct params *p)
{
	memset(p, 0, sizeof(*p));
	p->qps = 1;
	p->cpus[0] = p->cpus[1] = 1;
	p->nev = 4;
	p->payload = 16;
	p->cwnd = 8;
	p->budget = 64;
	p->hard = 96;
	p->segs = 60;
	p->delay = 5000;
	p->jitter = 1;
	p->look = MS;
	p->psn0 = (uint32_t)-20;
	p->msn0 = (uint32_t)-3;
	p->tick0 = (uint32_t)-1000;
	p->pinned = 1;
	p->rq_depth = 16;
	p->depth = WEFT_SQ_DEPTH;
	p->rq_by = 20000;
	p->rsn0 = (uint32_t)-5;
	p->rq0 = (uint32_t)-9;
}
