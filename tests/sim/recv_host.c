/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What takes a receive, on the responder: as bpf/recv.bpf.h. RESUME and probe, on both sides. */
#include "sim.h"

/* What the header says of a segment that takes a receive. */
void recv_header(struct frame *f, const struct weft_seg *s)
{
	f->h.data.rsn = htobe32(s->asn);
	if (s->op == WEFT_WQE_SEND)
		f->h.data.rkey = 0, f->h.data.roff = 0;
	if (s->wflags & WEFT_WQE_IMM) {
		f->h.flags |= WEFT_F_IMM;
		f->h.data.imm = htobe32((__u32)s->operand);
	}
	if (s->wflags & WEFT_WQE_SOL)
		f->h.flags |= WEFT_F_SOL;
}

/* Does this segment of it need to know which? All of a SEND's do, of a WRITE only the last. */
int recv_needed(const struct cpu *cpu)
{
	return cpu->w.takes && (cpu->cur->h.op == WEFT_OP_SEND || cpu->w.flags & WEFT_F_LAST);
}

static enum weft_rq_found find(struct cpu *cpu, __u32 *at)
{
	struct conn *c = cpu->w.c;
	struct recvq *q = c->rq;
	__u32 rsn = be32toh(cpu->cur->h.data.rsn), rdone = c->grx.rx.rdone;
	enum weft_rq_found f;
	__u32 taken;

	if (!W.p.srq)
		return weft_rq_own(&q->head, rsn, rdone, at);
	if (rsn - rdone >= WEFT_WIN)
		return WEFT_RQ_OLD;
	f = weft_rq_bound(c->ring.bind, rsn, at);
	for (int i = 0; i < WEFT_RQ_TRIES && f != WEFT_RQ_OK; i++) {
		if (weft_rq_next(&q->head, &taken) != WEFT_RQ_OK)
			return WEFT_RQ_NONE;
		f = weft_rq_take(&q->head, c->ring.bind, &c->grx.rx.bound, rsn, c->ring.rq_polled,
				 taken, q->e[taken & (q->depth - 1)].order);
		if (f == WEFT_RQ_NONE)
			return f;
	}
	check_bound(c);
	return f == WEFT_RQ_OK ? weft_rq_bound(c->ring.bind, rsn, at) : WEFT_RQ_NONE;
}

/* The first look; the second one, after it was said that the peer waits. */
static enum step look(struct cpu *cpu, int second)
{
	struct work *w = &cpu->w;
	__u32 at = 0;

	switch (find(cpu, &at)) {
	case WEFT_RQ_OK:
		w->at = at & (w->c->rq->depth - 1);
		W.st.again += second;
		/* no RESUME has told of it */
		W.st.found += cpu->cur->probe;
		return RX_KEEP;
	case WEFT_RQ_NONE: return second ? RX_RNR : RX_REFUSE;
	default:
		/* only of what is placed: this copy comes late */
		if (!rec_of(w->c, w->psn)->placed)
			fail("I1", "qp %u: PSN %u is dropped for its number %u", w->c->id,
			     w->psn - w->c->psn0, be32toh(cpu->cur->h.data.rsn) - w->c->rsn0);
		weft_rx_give_back(&w->c->grx.rx, w->psn);
		W.st.out_of_window++;
		W.lost_tokens++;
		return STEP_END;
	}
}

/* The pieces are read once. 0, or a NAK code: nothing is written then. */
uint32_t recv_target(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct weft_rqe *e = &w->c->rq->e[w->at];

	memcpy(w->sge, e->sge, sizeof(w->sge));
	if (be32toh(cpu->cur->h.data.mlen) <= weft_rqe_room(w->sge))
		return 0;
	e->status = WEFT_NAK_LENGTH;
	return WEFT_NAK_LENGTH;
}

/* Bytes from..to of the frame go where the pieces say. */
static void scatter(struct cpu *cpu, uint32_t from, uint32_t to)
{
	const struct frame *f = cpu->cur;
	uint32_t at = be32toh(f->h.data.moff) + from, n;

	for (const struct weft_rq_sge *s = cpu->w.sge; from < to && s < cpu->w.sge + WEFT_RQ_SGES;
	     s++) {
		if (at >= s->len) {
			at -= s->len;
			continue;
		}
		n = s->len - at < to - from ? s->len - at : to - from;
		memcpy(cpu->w.c->rq->mem + s->off + at, f->payload + from, n);
		from += n;
		at = 0;
	}
}

static void note(struct cpu *cpu)
{
	struct weft_rqe *e = &cpu->w.c->rq->e[cpu->w.at];
	const struct weft_hdr *h = &cpu->cur->h;

	e->len = be32toh(h->data.mlen);
	e->imm = h->flags & WEFT_F_IMM ? be32toh(h->data.imm) : 0;
	e->flags = (h->op == WEFT_OP_SEND ? 0 : WEFT_RQE_WRITE) |
		   (h->flags & WEFT_F_IMM ? WEFT_RQE_IMM : 0) |
		   (h->flags & WEFT_F_SOL ? WEFT_RQE_SOL : 0);
	e->status = 0;
}

uint32_t recv_epoch(const struct conn *c)
{
	return weft_rq_epoch(&c->rq->head, &c->ring, W.p.srq);
}

/* The doorbell's frame becomes the RESUME. */
static enum step send_resume(struct cpu *cpu)
{
	struct frame *f = cpu->cur;

	f->h.op = WEFT_OP_RESUME;
	f->h.ts = htobe32(cpu->w.now);
	f->h.ack.epoch = htobe32(recv_epoch(cpu->w.c));
	f->born = cpu->id;
	frame_seal(f, cpu->w.c);
	cpu->cur = NULL;
	net_send(f, cpu->host);
	return STEP_END;
}

static enum step take_resume(struct cpu *cpu)
{
	struct conn *c = cpu->w.c;
	uint32_t epoch = be32toh(cpu->cur->h.ack.epoch);

	weft_tx_resume(&c->gtx.tx, epoch, cpu->w.now);
	check_news(c, epoch);
	c->ring.tx_rnr = c->gtx.tx.rnr;
	return TX_BELL;
}

/* The timer's: is somebody late, may what was refused be tried? */
void timer_look(struct conn *c, __u32 now, struct weft_score *r)
{
	struct weft_tx *tx = &c->gtx.tx;
	__u8 was = tx->probe;

	weft_tx_timeout(tx, now, c->conf, r);
	weft_tx_probe(tx, now);
	if (!was && tx->probe) {
		c->may_probe = 1;
		c->probe_at = now;
	}
}

enum step recv_step(struct cpu *cpu, enum step s)
{
	struct work *w = &cpu->w;
	struct frame *f = cpu->cur;

	switch (s) {
	case TX_RESUME: return take_resume(cpu);
	case RX_RESUME: return send_resume(cpu);
	case RX_RECV: return look(cpu, 0);
	case RX_REFUSE: w->c->ring.refused = 1; return RX_AGAIN;
	case RX_AGAIN: return look(cpu, 1);
	case RX_RNR:
		weft_rx_give_back(&w->c->grx.rx, w->psn);
		w->rnr = 1;
		W.st.rnrs++;
		return RX_REPLY;
	case RX_SCATTER: scatter(cpu, 0, f->len / 2); return RX_SCATTER_REST;
	case RX_SCATTER_REST:
		scatter(cpu, f->len / 2, f->len);
		W.st.bytes += f->len;
		w->flags = 0;
		if (f->h.flags & WEFT_F_LAST)
			return RX_NOTE;
		check_placed(w->c, w->psn);
		return RX_COMMIT;
	case RX_NOTE:
		note(cpu);
		check_placed(w->c, w->psn);
		return RX_COMMIT;
	default: return STEP_END;
	}
}
