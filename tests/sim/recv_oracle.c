/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What receives must bring: each message in one, whole, in order; and what a refused sender may do. */
#include "sim.h"

/* The entry that number rsn took. */
static uint32_t entry_of(const struct conn *c, uint32_t rsn)
{
	uint32_t at = rsn;

	if (W.p.srq && weft_rq_bound(c->ring.bind, rsn, &at) != WEFT_RQ_OK)
		fail("I2", "qp %u: message %u took no receive", c->id, rsn - c->rsn0);
	return at & (c->rq->depth - 1);
}

/* Byte i of what a receive has got. */
static uint8_t *byte_at(const struct recvq *q, const struct weft_rqe *e, uint32_t i)
{
	for (int k = 0; k < WEFT_RQ_SGES; k++) {
		if (i < e->sge[k].len)
			return q->mem + e->sge[k].off + i;
		i -= e->sge[k].len;
	}
	return q->mem;
}

/* The bytes of message m are there, or SEAL where they were; nothing else of the receive is written. */
static int holds(const struct recvq *q, uint32_t at, const struct msg_rec *m)
{
	const struct recv_slot *s = &q->slot[at];
	const uint8_t *mem = q->mem + MARGIN + at * q->stride;
	uint32_t canaries = 0, others = q->stride - s->len;

	for (uint32_t i = 0; i < s->len; i++) {
		uint8_t got = *byte_at(q, &s->was, i);

		while (m && i >= m->moff + m->len)
			m++;
		if (got != (m ? sim_src[m->loff + i - m->moff] : SEAL))
			return 0;
		canaries -= got == CANARY;
	}
	for (uint32_t i = 0; i < q->stride; i++)
		canaries += mem[i] == CANARY;
	return canaries == others;
}

static int same_entry(const struct weft_rqe *a, const struct weft_rqe *b)
{
	return !memcmp(a->sge, b->sge, sizeof(a->sge)) && a->len == b->len && a->imm == b->imm &&
	       a->flags == b->flags && a->status == b->status;
}

/* `received` has passed message rsn: I4, I1. */
static void check_one(struct conn *c, uint32_t rsn)
{
	uint32_t nth = rsn - c->rsn0, at = entry_of(c, rsn), flags;
	const struct msg_rec *last = &c->msg[c->take_end[nth]], *m = &c->msg[last->first];
	struct recv_slot *s = &c->rq->slot[at];
	const struct weft_rqe *e = &c->rq->e[at];

	if (last->bad)
		fail("I5", "qp %u: message %u had to be refused", c->id, nth);
	if (!last->end || last->end > c->contig)
		fail("I4", "qp %u: message %u received, %u of %u packets before its end placed",
		     c->id, nth, c->contig, last->end);
	if (s->state != SLOT_POSTED)
		fail("I2", "qp %u: message %u is in a receive that another has", c->id, nth);
	flags = (last->op == WEFT_WQE_SEND ? 0 : WEFT_RQE_WRITE) |
		(last->flags & WEFT_WQE_IMM ? WEFT_RQE_IMM : 0) |
		(last->flags & WEFT_WQE_SOL ? WEFT_RQE_SOL : 0);
	if (e->len != last->mlen || e->flags != flags || e->status ||
	    e->imm != (last->flags & WEFT_WQE_IMM ? (uint32_t)last->operand : 0))
		fail("I1", "qp %u: message %u received with length %u, flags %u, immediate %u",
		     c->id, nth, e->len, e->flags, e->imm);
	s->state = SLOT_DONE;
	s->was = *e;
	s->len = last->op == WEFT_WQE_SEND ? last->mlen : 0;
	if (!holds(c->rq, at, m))
		fail("I1", "qp %u: message %u received, bytes differ", c->id, nth);
}

void check_received(struct conn *c)
{
	for (; c->received != c->ring.received && !W.failed; c->received++) {
		if (c->received - c->rsn0 >= c->takes) {
			fail("I4", "qp %u: %u messages received, %u posted", c->id,
			     c->ring.received - c->rsn0, c->takes);
			return;
		}
		check_one(c, c->received);
	}
	if (c->grx.rx.rdone - c->rsn0 > c->takes)
		fail("I4", "qp %u: more receives than messages", c->id);
}

/* I2: what the application finds is what was there when it was told; then it writes there itself. */
void check_polled(struct conn *c, uint32_t rsn)
{
	uint32_t at = entry_of(c, rsn);
	struct recvq *q = c->rq;
	struct recv_slot *s = &q->slot[at];

	if (s->state != SLOT_DONE || !same_entry(&s->was, &q->e[at]) ||
	    !holds(q, at, &c->msg[c->msg[c->take_end[rsn - c->rsn0]].first]))
		fail("I2", "qp %u: message %u changed after it was received", c->id, rsn - c->rsn0);
	for (uint32_t i = 0; i < s->len; i++)
		*byte_at(q, &s->was, i) = SEAL;
	s->state = SLOT_FREE;
}

/* Before a receive is posted again, and at the end. */
void check_idle(const struct recvq *q, uint32_t at)
{
	const struct recv_slot *s = &q->slot[at];

	if (s->state == SLOT_FREE && s->len && !holds(q, at, NULL))
		fail("I2", "receive %u is written after its completion", at);
	if (s->state == SLOT_FREE && s->was.sge[0].lkey && !same_entry(&s->was, &q->e[at]))
		fail("I2", "entry %u is written after its completion", at);
}

/* A receive that nobody took is untouched. */
static void check_untaken(const struct recvq *q, uint32_t at)
{
	if (!same_entry(&q->slot[at].was, &q->e[at]) || !holds(q, at, NULL))
		fail("I2", "receive %u is written and was not taken", at);
}

/* Is this entry taken by a message of a connection that uses the queue, and not done with? */
static int is_taken(const struct recvq *q, uint32_t at)
{
	for (uint32_t i = 0; i < W.p.qps; i++) {
		const struct conn *c = W.conn[i];

		if (c->rq != q)
			continue;
		for (uint32_t n = c->polled;
		     n != (W.p.srq ? c->grx.rx.bound : c->gtx.tx.rsn + W.p.nak); n++)
			if (entry_of(c, n) == at)
				return 1;
	}
	return 0;
}

void check_receives(const struct conn *c)
{
	const struct recvq *q = c->rq;
	int64_t size = (int64_t)q->depth * q->stride;

	for (uint32_t at = 0; at < q->depth; at++)
		if (q->slot[at].state == SLOT_POSTED && !is_taken(q, at))
			check_untaken(q, at);
		else
			check_idle(q, at);
	for (uint32_t i = 0; i < MARGIN; i++)
		if (q->mem[i] != CANARY || q->mem[MARGIN + size + i] != CANARY)
			fail("I5", "qp %u: written beside all receives", c->id);
	if (!W.p.nak && (c->polled - c->rsn0 != c->takes || c->gtx.tx.rsn != c->polled ||
			 c->grx.rx.rdone != c->polled))
		fail("I1", "qp %u: %u of %u messages were received", c->id, c->polled - c->rsn0,
		     c->takes);
}

/* A shared queue: no entry is bound twice, none that is not posted, and the first come first. */
void check_bound(const struct conn *c)
{
	const struct weft_rx *rx = &c->grx.rx;
	const struct weft_rq *q = &c->rq->head;

	if (weft_psn_diff(q->taken, q->prod) > 0)
		fail("I2", "qp %u: %u receives taken, %u posted", c->id, q->taken, q->prod);
	if (rx->bound - c->polled > WEFT_RQ_BIND)
		fail("I2", "qp %u: %u messages have a receive and are not polled", c->id,
		     rx->bound - c->polled);
	for (uint32_t n = c->polled; n != rx->bound && !W.failed; n++)
		if (c->rq->slot[entry_of(c, n)].state == SLOT_FREE)
			fail("I2", "qp %u: message %u took a receive that is not posted", c->id,
			     n - c->rsn0);
}

/* ---- what a refused sender may do; by what it was told, not by its state ---- */

void check_news(struct conn *c, uint32_t epoch)
{
	if (c->heard && weft_psn_diff(epoch, c->epoch) <= 0)
		return;
	c->heard = 1;
	c->epoch = epoch;
	c->news++;
	c->refused = 0;
	c->probes = 0;
}

/* An RNR was scored. What was sent before the last news may be refused for what it was then. */
void check_refused(struct conn *c, const struct weft_ack *a, __u32 now)
{
	c->rnrs++;
	if (weft_psn_diff(c->epoch, a->epoch) > 0 || weft_tx_delivered(&c->gtx.tx, a->psn))
		return;
	if (!c->refused)
		c->asked = now;
	if (!c->refused || weft_psn_diff(a->psn, c->refused_psn) < 0)
		c->refused_psn = a->psn;
	c->refused = 1;
}

/* A PSN goes out. 1: as a probe. */
int check_blocked(struct conn *c, __u32 psn)
{
	uint32_t shift = c->probes < WEFT_RNR_SHIFT ? c->probes : WEFT_RNR_SHIFT;

	if (c->refused && weft_tx_delivered(&c->gtx.tx, c->refused_psn))
		c->refused = c->probes = 0;
	if (!c->refused || weft_psn_diff(psn, c->refused_psn) < 0)
		return 0;
	/* the time of a probe is when it was allowed, not when a token came for it */
	if (!c->may_probe || c->probe_at - c->asked < WEFT_RNR_MIN << shift)
		fail("storm",
		     "qp %u: PSN %u goes out behind one refused, %u ticks since it was asked, %u probes",
		     c->id, psn - c->psn0, c->probe_at - c->asked, c->probes);
	c->may_probe = 0;
	c->asked = c->probe_at;
	c->probes++;
	W.st.probes++;
	return 1;
}

/* A refusal costs no more than was on its way; the window may be another by now. */
void check_rnrs(const struct conn *c)
{
	uint64_t wnd = W.p.cut_cwnd ? WEFT_CWND_MAX : W.p.cwnd;

	if (c->rnrs > (c->news + 1) * (2 * wnd + 8) + W.st.probes + W.st.duplicated)
		fail("storm", "qp %u: %u refused, the peer has posted %u times, window %u", c->id,
		     c->rnrs, c->news, (uint32_t)wnd);
}
