/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive queues as applications use them: post, poll, and resume whom XDP had to refuse. */
#include "sim.h"

#define GAP 32 /* bytes between pieces, at most */

/* A QP's own by its id, the shared one of a host behind them. */
static struct recvq queues[SIM_QPS + SIM_HOSTS];

/* ---- a queue and its memory ---- */

static uint32_t size_of(const struct recvq *q)
{
	return q->depth * q->stride + 2 * MARGIN;
}

static void queue_init(struct recvq *q, uint32_t prod)
{
	uint8_t *mem = q->mem;

	memset(q, 0, offsetof(struct recvq, mem));
	q->depth = W.p.rq_depth;
	q->room = W.p.send_segs * W.p.payload;
	q->stride = q->room + 64 + (WEFT_RQ_SGES + 1) * GAP;
	q->head.prod = q->head.taken = q->prod = prod;
	q->from = W.p.rq_style == RECV_LATE ? W.now + below(10 * MS) : 0;
	memset(q->slot, 0, q->depth * sizeof(q->slot[0]));
	q->mem = realloc(mem, size_of(q));
	if (!q->mem)
		abort();
	memset(q->mem, CANARY, size_of(q));
}

void recv_start(void)
{
	for (uint32_t i = 0; i < SIM_QPS + SIM_HOSTS; i++)
		queues[i].users = 0;
	for (uint32_t h = 0; W.p.srq && h < SIM_HOSTS; h++) {
		queue_init(&queues[SIM_QPS + h], W.p.rq0);
		event_at(below(W.p.rq_by), EVENT_RECV, SIM_QPS + h, NULL);
	}
	for (uint32_t i = 0; !W.p.srq && i < W.p.qps; i++)
		event_at(below(W.p.rq_by), EVENT_RECV, i, NULL);
}

/* The receiving side of a connection that begins. */
void recv_init(struct conn *c)
{
	c->rsn0 = W.p.rsn0 + c->gen * 77;
	c->rq = &queues[W.p.srq ? SIM_QPS + 1 - c->from : c->id];
	if (!W.p.srq)
		queue_init(c->rq, c->rsn0);
	c->rq->users |= 1u << c->id;
	c->polled = c->received = c->rsn0;
	c->gtx.tx.rsn = c->grx.rx.rdone = c->grx.rx.bound = c->rsn0;
	c->grx.rx.shared = W.p.srq;
	c->ring.received = c->ring.rq_polled = c->rsn0;
	/* as those before it would have left it */
	for (uint32_t n = c->rsn0 - WEFT_RQ_BIND; n != c->rsn0; n++)
		c->ring.bind[n & (WEFT_RQ_BIND - 1)] = (n + 1) << 16;
	if (W.p.stopped)
		recv_run(c->rq - queues);
}

/* Its receives are the queue's again, after the grace period; what is in them is nobody's. */
void recv_flush(struct conn *c)
{
	struct recvq *q = c->rq;

	for (uint32_t n = c->polled; W.p.srq && n != c->grx.rx.bound; n++) {
		uint32_t at = c->ring.bind[n & (WEFT_RQ_BIND - 1)] & (q->depth - 1);

		memset(q->mem + MARGIN + at * q->stride, CANARY, q->stride);
		q->slot[at] = (struct recv_slot){ .state = SLOT_FREE };
		q->open--;
	}
}

/* ---- posting ---- */

/* Room for the largest message, in up to four pieces of any size, in any order. */
static void draw_pieces(const struct recvq *q, uint32_t at, struct weft_rqe *e)
{
	uint32_t n = between(1, WEFT_RQ_SGES), left = q->room + below(64),
		 place[WEFT_RQ_SGES] = { 0 };
	uint32_t off = MARGIN + at * q->stride;

	memset(e->sge, 0, sizeof(e->sge));
	for (uint32_t i = 0; i < n; i++) {
		e->sge[i].len = i + 1 < n ? below(left + 1) : left;
		e->sge[i].lkey = 1;
		left -= e->sge[i].len;
		place[i] = i;
	}
	for (uint32_t i = n - 1; i; i--) {
		uint32_t k = below(i + 1), was = place[i];

		place[i] = place[k];
		place[k] = was;
	}
	for (uint32_t i = 0; i < n; i++) {
		off += below(GAP);
		e->sge[place[i]].off = off;
		off += e->sge[place[i]].len;
	}
}

/* The entry for the next receive: its own number, or of a shared queue any that is free. */
static uint32_t free_slot(const struct recvq *q)
{
	uint32_t mask = q->depth - 1, at = q->prod & mask;

	if (!W.p.srq)
		return at;
	at = below(q->depth);
	for (uint32_t i = 0; i < q->depth && q->slot[at].state != SLOT_FREE; i++)
		at = (at + 1) & mask;
	return at;
}

static int post(struct recvq *q)
{
	uint32_t at = free_slot(q), order;
	struct recv_slot *s = &q->slot[at];
	struct weft_rqe *e = &q->e[at];

	if (s->state != SLOT_FREE)
		return 0;
	check_idle(q, at);
	memset(q->mem + MARGIN + at * q->stride, CANARY, q->stride);
	/* XDP must fill in all of it */
	order = e->order;
	*e = (struct weft_rqe){ .len = rng(), .imm = rng(), .flags = rng(), .status = 99 };
	e->order = order;
	q->e[q->prod & (q->depth - 1)].order = at;
	draw_pieces(q, at, e);
	*s = (struct recv_slot){ .state = SLOT_POSTED, .was = *e };
	q->prod++;
	q->open++;
	return 1;
}

/* How many to post now. */
static uint32_t draw_posts(const struct recvq *q)
{
	if (W.p.stopped || W.now < q->from)
		return W.p.stopped ? q->depth : 0;
	switch (W.p.rq_style) {
	case RECV_ONE: return !q->open;
	case RECV_BURST: return q->open ? 0 : between(1, q->depth);
	case RECV_ANY: return below(q->depth + 1);
	default: return q->depth;
	}
}

static int uses(const struct recvq *q, uint32_t id)
{
	return q->users >> id & 1 && !W.conn[id]->closed;
}

static void resume(struct conn *c)
{
	W.st.resumes++;
	doorbell(c, FRAME_RESUME);
}

/* As weft_ring_offer(), for all QPs of the queue. */
static void publish(struct recvq *q)
{
	uint32_t was = 0;

	if (!W.p.srq) {
		struct conn *c = W.conn[q - queues];

		if (weft_ring_offer(&c->ring, &q->head.prod, q->prod) && !c->closed)
			resume(c);
		return;
	}
	for (uint32_t i = 0; i < W.p.qps; i++)
		if (uses(q, i))
			was |= (uint32_t)weft_ring_refusal(&W.conn[i]->ring) << i;
	q->head.prod = q->prod;
	for (uint32_t i = 0; i < W.p.qps; i++)
		if (uses(q, i) && (was >> i & 1 || W.conn[i]->ring.refused))
			resume(W.conn[i]);
}

/* ---- polling ---- */

static void poll_some(struct recvq *q, struct conn *c, uint32_t most)
{
	uint32_t before = c->polled;

	for (; most && c->polled != c->ring.received && !W.failed; most--, c->polled++) {
		check_polled(c, c->polled);
		q->open--;
		W.st.received++;
	}
	if (c->polled == before)
		return;
	/* where the queue is shared, that alone may be what the peer waits for */
	if (!W.p.srq)
		c->ring.rq_polled = c->polled;
	else if (weft_ring_offer(&c->ring, &c->ring.rq_polled, c->polled) && !c->closed)
		resume(c);
}

void recv_poll(struct conn *c)
{
	poll_some(c->rq, c, ~0u);
}

/* What a receiving application does from time to time. */
void recv_run(uint32_t nth)
{
	struct recvq *q = &queues[nth];
	uint32_t n, busy = 0, did = q->open;

	for (uint32_t i = 0; i < W.p.qps; i++) {
		struct conn *c = W.conn[i];

		if (!(q->users >> i & 1) || !c || c->rq != q)
			continue;
		busy += !c->finished;
		if (!c->closed)
			poll_some(q, c, W.p.rq_style == RECV_ANY ? below(8) : ~0u);
	}
	n = draw_posts(q);
	if (n) {
		while (n && post(q))
			n--;
		if (q->prod != q->head.prod && !W.p.stopped)
			publish(q);
		q->head.prod = q->prod;
	}
	did = q->open != did;
	if (busy && !W.p.stopped)
		event_at(W.now + (did ? 200 : 20 * US) + below(W.p.rq_by), EVENT_RECV, nth, NULL);
}
