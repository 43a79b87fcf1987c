// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receives of two genuine peers; see queue.h. */
#include "queue.h"

void queue_init(struct queue *q, struct flow fl[2], bool shared)
{
	memset(q, 0, sizeof(*q));
	q->shared = shared;
	for (int i = 0; i < (shared ? 2 : 1); i++)
		q->rq = fx_recv_on(fl[i].q->peer, shared);
}

void queue_post(struct queue *q, uint64_t off, uint64_t off2)
{
	const struct fx_piece pieces[2] = { { off, QUEUE_PIECE }, { off2, 65536 } };
	uint32_t place = q->rq->head.prod % FX_RQ_DEPTH, at = place;
	struct weft_rqe *e;

	/* those of a shared queue come back in any order */
	for (uint32_t i = 0; q->shared && i < FX_RQ_DEPTH && q->busy[at]; i++)
		at = i;
	if (q->busy[at])
		return;
	q->busy[at] = true;
	e = &q->rq->e[at];
	for (int i = 0; i < 2; i++)
		e->sge[i] = (struct weft_rq_sge){ pieces[i].off, pieces[i].len, FX_T_KEY };
	q->rq->e[place].order = at;
	q->rq->head.prod++;
}

/* The entry of message rsn, which has one. */
static uint32_t entry_of(const struct queue *q, const struct flow *fl, uint32_t rsn)
{
	return (q->shared ? fl->q->peer->ring->bind[rsn % WEFT_RQ_BIND] : rsn) % FX_RQ_DEPTH;
}

static void check_entry(const struct weft_rqe *e, const struct flow *fl, uint32_t rsn)
{
	uint32_t m = 0, flags;

	while (m < fl->posted && !(fl->msg[m].recv && fl->msg[m].rsn == rsn))
		m++;
	if (m == fl->posted)
		fuzz_fail("I4: receive %u is complete, and nothing was posted for it", rsn);
	flags = (fl->msg[m].op == WEFT_WQE_SEND ? 0 : WEFT_RQE_WRITE) |
		(fl->msg[m].flags & WEFT_F_IMM ? WEFT_RQE_IMM : 0) |
		(fl->msg[m].flags & WEFT_F_SOL ? WEFT_RQE_SOL : 0);
	if (e->len != fl->msg[m].len || e->imm != fl->msg[m].imm || e->flags != flags || e->status)
		fuzz_fail("receive %u: %u bytes, 0x%x, flags %u, status %u; not %u, 0x%x, %u", rsn,
			  e->len, e->imm, e->flags, e->status, fl->msg[m].len, fl->msg[m].imm,
			  flags);
}

void queue_poll(struct queue *q, struct flow fl[2])
{
	for (int i = 0; i < (q->shared ? 2 : 1); i++) {
		struct weft_ring *r = fl[i].q->peer->ring;

		for (; q->polled[i] != r->received; q->polled[i]++) {
			uint32_t at = entry_of(q, &fl[i], q->polled[i]);

			if (!q->busy[at])
				fuzz_fail("I2: entry %u is taken twice", at);
			check_entry(&q->rq->e[at], &fl[i], q->polled[i]);
			q->busy[at] = false;
		}
		if (q->shared)
			r->rq_polled = q->polled[i];
	}
}

bool queue_waited(const struct flow *fl)
{
	struct weft_ring *r = fl->q->peer->ring;

	return weft_ring_refusal(r);
}

int queue_place(const struct queue *q, const struct flow *fl, uint32_t rsn, uint32_t moff,
		uint32_t len, struct span s[2])
{
	const struct weft_rqe *e = &q->rq->e[entry_of(q, fl, rsn)];
	uint32_t n = moff >= QUEUE_PIECE ? 0 : QUEUE_PIECE - moff;

	if (n > len)
		n = len;
	s[0] = (struct span){ e->sge[0].off + moff, n };
	s[1] = (struct span){ e->sge[1].off + (moff + n - QUEUE_PIECE), len - n };
	return n == len ? 1 : 2;
}
