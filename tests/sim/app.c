/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The applications and their library: posting, the timer's looks, window changes, QP reset. */
#include "sim.h"

#define REUSED 0x3c /* what is in memory that another owner has now */

static void conn_clear(struct conn *c)
{
	memset(c, 0, sizeof(*c));
	c->gtx.before = c->gtx.after = c->grx.before = c->grx.after = 0x6a09e667f3bcc908ull;
}

/* Target, margin, and what is brought here. */
static uint32_t memory_of(const struct conn *c)
{
	return c->dst_size + MARGIN + c->loc_size;
}

static void conn_init(struct conn *c, uint32_t id, uint32_t from, uint32_t gen, uint32_t quota)
{
	const struct params *p = &W.p;

	conn_clear(c);
	c->id = id;
	c->gen = gen;
	c->from = from;
	c->qpn = id | gen << 16;
	c->key = rng();
	weft_check_expand(rng(), c->keys);
	c->psn0 = p->psn0 + id * 12345 * (gen - 1);
	c->msn0 = p->msn0;
	c->conf = p->cwnd;
	c->segs_quota = quota;
	weft_tx_init(&c->gtx.tx, c->psn0, p->payload, p->nev);
	c->gtx.tx.strict = p->strict;
	c->gtx.tx.frees = p->frees;
	c->gtx.tx.home = id % p->cpus[from];
	c->gtx.tx.joins_writes = p->many;
	c->depth = p->depth;
	c->gtx.tx.sq_mask = c->depth - 1;
	weft_rx_init(&c->grx.rx, c->psn0);
	c->gtx.tx.cons = c->gtx.tx.done = c->grx.rx.msn = c->msn0;
	c->gtx.tx.ends = c->msn0;
	c->ring.sq_prod = c->ring.sq_done = c->ring.arrived = c->msn0;
	c->ring.tx_una = c->last_una = c->psn0;
	c->last_done = c->msn0;
	c->dst_size = quota * (p->payload + 16) + 64;
	/* an atomic brings 8 bytes, a bad request comes on top */
	c->loc_size = p->mix ? quota * (p->payload + 16) + 5 * p->payload + 64 : 0;
	c->dst = malloc(memory_of(c) + 2 * MARGIN);
	if (!c->dst)
		abort();
	memset(c->dst, CANARY, memory_of(c) + 2 * MARGIN);
	c->dst += MARGIN;
	c->loc = c->dst + c->dst_size + MARGIN;
	live_write(c, SIM_LIVE);
	recv_init(c);
}

static void give_back(uint8_t *dst)
{
	if (dst)
		free(dst - MARGIN);
}

struct conn *conn_new(uint32_t id, uint32_t from, uint32_t gen)
{
	static struct conn pool[SIM_QPS];

	conn_init(&pool[id], id, from, gen, W.p.segs / W.p.qps + 1);
	return &pool[id];
}

void conn_free(struct conn *c)
{
	give_back(c->dst);
	give_back(c->old_dst);
	c->dst = c->old_dst = NULL;
}

/* ---- the application ---- */

static void take_completions(struct conn *c)
{
	uint32_t done = c->ring.sq_done - c->msn0;

	if (done > c->posted) {
		fail("I3", "qp %u: %u messages complete, %u posted", c->id, done, c->posted);
		return;
	}
	for (; c->completed < done; c->completed++) {
		struct msg_rec *m = &c->msg[c->completed];

		m->completed = 1;
		W.st.messages++;
		/* in place already, or the receiver has seen it so and taken it */
		if (weft_wqe_own(m->op))
			check_result(c, m);
		else if (m->op == WEFT_WQE_WRITE && !m->sealed && !W.p.overlap &&
			 memcmp(c->dst + m->roff, sim_src + m->loff, m->len))
			fail("I1", "qp %u: message %u complete, bytes differ", c->id, c->completed);
	}
}

static int all_over(struct conn *c)
{
	if (c->nak_posted)
		return c->ring.tx_err;
	if (W.p.nak || c->segs_posted < c->segs_quota)
		return 0;
	return c->completed == c->posted && c->sealed == c->writes &&
	       c->polled - c->rsn0 == c->takes;
}

void app_run(struct conn *c)
{
	uint32_t n = W.p.lonely ? 1 : between(1, 16), before = c->posted;

	/* a deep queue has bursts that fill it */
	if (W.p.stopped || (c->depth > WEFT_SQ_DEPTH && !W.p.lonely && !below(4)))
		n = c->depth;
	if (c->finished)
		return;
	live_write(c, below(16));
	if (c->ring.tx_err && !c->nak_posted)
		fail("I5", "qp %u: in error, and no bad request was posted", c->id);
	take_completions(c);
	if (all_over(c)) {
		app_done(c);
		return;
	}
	if (c->closed || (W.p.lonely && c->completed != c->posted))
		n = 0;
	while (n-- && c->posted - c->completed < c->depth && c->segs_posted < c->segs_quota)
		post_one(c);
	if (W.p.nak && !c->closed && !c->nak_posted && c->segs_posted == c->segs_quota &&
	    c->posted - c->completed < c->depth && (below(2) || c->completed == c->posted))
		post_bad(c);
	W.st.deep += c->posted - c->completed > WEFT_SQ_DEPTH;
	if (c->posted != before && weft_ring_publish(&c->ring, c->msn0 + c->posted))
		doorbell(c, FRAME_POST);
	if (W.p.stopped)
		return;
	event_at(W.now + 200 + below(W.p.lonely ? 100 * US : 20 * US), EVENT_APP, c->id, NULL);
}

/* Both processes go on, when nothing is under way any more. I9: and nothing is left to do. */
void app_wake(struct conn *c)
{
	take_completions(c);
	recv_poll(c);
	if (all_over(c))
		app_done(c);
	else
		fail("I9", "qp %u: %u of %u messages complete, %u arrived without their processes",
		     c->id, c->completed, c->posted, c->sealed);
}

void app_done(struct conn *c)
{
	c->finished = 1;
	W.open--;
	if (!W.open)
		W.done_at = W.now;
}

/* The library's timer: nothing has moved for a period, so XDP is asked to look. */
void app_timer(struct conn *c)
{
	const struct weft_ring *r = &c->ring;

	if (c->finished || W.p.stopped)
		return;
	if (!c->closed && r->sq_prod != r->sq_done && r->tx_una == c->last_una &&
	    r->sq_done == c->last_done)
		doorbell(c, FRAME_LOOK);
	c->last_una = r->tx_una;
	c->last_done = r->sq_done;
	event_at(W.now + W.p.look, EVENT_TIMER, c->id, NULL);
}

/* `weft qp set cwnd` at run time, and somebody who forges ACKs. */
void app_change(struct conn *c)
{
	if (c->finished)
		return;
	if (W.p.cut_cwnd && below(2))
		c->conf = below(8) ? between(1, below(2) ? 16 : WEFT_CWND_MAX) : below(2) * 5000;
	if (W.p.forge && !c->closed)
		net_forge(c);
	event_at(W.now + between(20 * US, 2 * MS), EVENT_CHANGE, c->id, NULL);
}

/* ---- arrival ---- */

/* Its sender knew it to be complete before it arrived here, and has written there again? */
static int written_again(const struct conn *c, struct msg_rec *m)
{
	for (uint32_t i = m->end; W.p.overlap && i < c->cut && !m->again; i++)
		m->again = c->psn[i].placed && c->psn[i].op == WEFT_WQE_WRITE &&
			   c->psn[i].roff < m->roff + m->len &&
			   m->roff < c->psn[i].roff + c->psn[i].len;
	return m->again;
}

/*
 * Messages that have arrived are compared at once, then overwritten: whatever
 * still writes into them shows (I2).
 */
static void seal(struct conn *c, struct msg_rec *m)
{
	if (m->bad) {
		fail("I5", "qp %u: WRITE %u had to be refused", c->id, c->sealed);
		return;
	}
	/* the next packet was refused, but not this one of it */
	if (!m->end || (m->end > c->contig && !(m->there && m->end == c->contig + 1)))
		fail("I4", "qp %u: WRITE %u arrived, %u of %u packets before its end placed", c->id,
		     c->sealed, c->contig, m->end);
	m->sealed = 1;
	if (m->op == WEFT_WQE_SEND || written_again(c, m))
		return;
	if (memcmp(c->dst + m->roff, sim_src + m->loff, m->len))
		fail("I1", "qp %u: WRITE %u arrived, bytes differ", c->id, c->sealed);
	memset(c->dst + m->roff, SEAL, m->len);
}

void check_sealed(struct conn *c)
{
	uint32_t arrived = c->ring.arrived - c->msn0;

	if (arrived > c->writes) {
		fail("I4", "qp %u: %u WRITEs arrived, %u posted", c->id, arrived, c->writes);
		return;
	}
	for (; c->sealed < arrived && !W.failed; c->sealed++) {
		uint32_t end = c->write_end[c->sealed];

		for (uint32_t i = c->msg[end].first; i <= end; i++)
			seal(c, &c->msg[i]);
	}
}

#define ANY 0 /* of a message that has not arrived yet */

/* What a byte must be at the end. */
static void expect(uint8_t *want, const struct msg_rec *m)
{
	memset(want + m->roff, m->sealed && !m->again ? SEAL : ANY, m->len);
}

/* I11: what went to another owner after the grace period is his. */
static void check_given_back(const struct conn *c)
{
	for (uint32_t i = 0; c->old_dst && i < c->old_size; i++)
		if (c->old_dst[i] != REUSED) {
			fail("I11", "qp %u: byte %u of memory given back was written", c->id, i);
			return;
		}
}

/* Every byte of the target at the end: sealed messages, canaries, nothing else. */
void check_memory(struct conn *c)
{
	uint32_t size = c->dst_size + 2 * MARGIN;
	uint8_t *want = malloc(size);

	if (!want)
		abort();
	memset(want, CANARY, size);
	for (uint32_t i = 0; i < c->posted && !c->msg[i].bad; i++)
		if (c->msg[i].op == WEFT_WQE_WRITE)
			expect(want + MARGIN, &c->msg[i]);
	for (uint32_t i = 0; i < size; i++) {
		if (want[i] == ANY || want[i] == c->dst[(int64_t)i - MARGIN])
			continue;
		fail(want[i] == SEAL ? "I2" : "I5", "qp %u: byte %lld of the target written %s",
		     c->id, (long long)i - MARGIN,
		     want[i] == SEAL ? "after its completion" : "outside of every message");
		break;
	}
	free(want);
	check_local(c);
	check_given_back(c);
}

/* ---- reset ---- */

/* After the grace period: a new generation in the same slot, the old memory goes elsewhere. */
static void conn_again(struct conn *c)
{
	struct weft_tx *tx = &c->gtx.tx;
	struct host *h = &W.host[c->from];
	uint32_t quota = c->segs_quota, size = memory_of(c);
	uint8_t *old = c->dst;

	for (uint32_t d = 0; d < WEFT_DOMAINS; d++)
		h->dom_inflight[d] -= tx->dom[d].out;
	h->active -= tx->inflight != 0;
	check_given_back(c);
	give_back(c->old_dst);
	memset(old, REUSED, size);
	recv_flush(c);
	conn_init(c, c->id, c->from, c->gen + 1, quota);
	c->old_dst = old;
	c->old_size = size;
	W.st.resets++;
}

static int grace_over(const struct conn *c)
{
	for (uint32_t h = 0; h < SIM_HOSTS; h++)
		for (uint32_t i = 0; i < W.host[h].cpus; i++)
			if (W.host[h].cpu[i].served < c->grace[h][i])
				return 0;
	return 1;
}

void app_reset(struct conn *c)
{
	if (c->finished)
		return;
	if (!c->closed) {
		c->closed = 1;
		/* whoever runs the program now must have left it (I11) */
		for (uint32_t h = 0; h < SIM_HOSTS; h++)
			for (uint32_t i = 0; i < W.host[h].cpus; i++) {
				const struct cpu *cpu = &W.host[h].cpu[i];

				c->grace[h][i] = cpu->served + (cpu->cur != NULL);
			}
	} else if (grace_over(c)) {
		conn_again(c);
		if (below(3))
			event_at(W.now + between(50 * US, 1 * MS), EVENT_RESET, c->id, NULL);
		return;
	}
	event_at(W.now + 5 * US, EVENT_RESET, c->id, NULL);
}
