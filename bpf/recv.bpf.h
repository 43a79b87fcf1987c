/* SPDX-License-Identifier: GPL-2.0 */
/* Responder: what takes a receive, SEND and WRITE with immediate data; RNR when there is none. */
#ifndef WEFT_RECV_BPF_H
#define WEFT_RECV_BPF_H

#include "rx.bpf.h"
#include "tx.bpf.h"

/* Of a shared queue: what message rsn has taken, or the next one. */
static __always_inline enum weft_rq_found find_shared(const struct weft_qpctl *ctl,
						      struct weft_qprx *q, struct weft_ring *ring,
						      struct weft_rq *rq, __u32 rsn, __u32 *at)
{
	enum weft_rq_found f = weft_rq_bound(ring->bind, rsn, at);

	for (int i = 0; i < WEFT_RQ_TRIES && f != WEFT_RQ_OK; i++) {
		const struct weft_rqe *e;
		__u32 taken, entry;

		if (weft_rq_next(rq, &taken) != WEFT_RQ_OK)
			return WEFT_RQ_NONE;
		e = rq_elem(ctl, 1 + (taken & ctl->rq_mask));
		if (!e)
			return WEFT_RQ_NONE;
		entry = READ_ONCE(e->order);
		bpf_spin_lock(&q->lock);
		f = weft_rq_take(rq, ring->bind, &q->rx.bound, rsn, READ_ONCE(ring->rq_polled),
				 taken, entry);
		bpf_spin_unlock(&q->lock);
		if (f == WEFT_RQ_NONE)
			return f;
	}
	return f == WEFT_RQ_OK ? weft_rq_bound(ring->bind, rsn, at) : WEFT_RQ_NONE;
}

/* Look for the entry of message rsn, without a lock where that will do. */
static __always_inline enum weft_rq_found find_entry(const struct weft_qpctl *ctl,
						     struct weft_qprx *q, struct weft_ring *ring,
						     struct weft_rq *rq, __u32 rsn, __u32 *at)
{
	__u32 rdone = READ_ONCE(q->rx.rdone);

	if (!rq)
		return WEFT_RQ_NONE;
	if (!(ctl->flags & WEFT_QPF_SRQ))
		return weft_rq_own(rq, rsn, rdone, at);
	if (rsn - rdone >= WEFT_WIN)
		return WEFT_RQ_OLD;
	return find_shared(ctl, q, ring, rq, rsn, at);
}

/*
 * I7 for receives: say that the peer waits, full barrier, look again; against posting: publish,
 * barrier, look whether the peer waits.
 */
static __always_inline enum weft_rq_found find_again(const struct weft_qpctl *ctl,
						     struct weft_qprx *q, struct weft_ring *ring,
						     struct weft_rq *rq, __u32 rsn, __u32 *at)
{
	WRITE_ONCE(ring->refused, 1);
	weft_fetched(__sync_fetch_and_add(&ring->rx_fence, 1));
	return find_entry(ctl, q, ring, rq, rsn, at);
}

/* The element of the receive that message rsn takes; 0: there is none; -1: the number is not honest. */
STEP int recv_entry(const struct weft_qpctl *ctl, __u32 slot, __u32 rsn)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	enum weft_rq_found f;
	struct weft_ring *ring;
	struct weft_rq *rq;
	__u32 at = 0;

	if (!ctl || !q)
		return -1;
	ring = ring_get(ctl);
	if (!ring)
		return -1;
	rq = rq_elem(ctl, 0);
	f = find_entry(ctl, q, ring, rq, rsn, &at);
	if (f == WEFT_RQ_NONE)
		f = find_again(ctl, q, ring, rq, rsn, &at);
	if (f == WEFT_RQ_OK)
		return 1 + (at & ctl->rq_mask & (WEFT_RQ_DEPTH - 1));
	return f == WEFT_RQ_NONE ? 0 : -1;
}

/* The piece work.sge[i] of a receive: len bytes of the frame from `at` go to its offset off. 0, or a NAK code. */
STEP int scatter_one(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk, __u32 i,
		     __u64 where)
{
	/* where: offset in the piece | offset in the frame << 32 | length << 48 */
	__u32 off = where, at = where >> 32 & 0xfff, len = where >> 48 & 0xfff;
	const struct weft_mr_ent *mr;
	struct weft_seg *seg;

	if (!ctl || !wk || !ctx)
		return WEFT_NAK_RECEIVE;
	i &= WEFT_RQ_SGES - 1;
	/* nothing else is claimed here, and the stack is small */
	seg = &wk->seg;
	seg->lkey = wk->sge[i].lkey;
	seg->loff = wk->sge[i].off + off;
	seg->len = len;
	if (seg->loff < off || len > WEFT_PAYLOAD_MAX)
		return WEFT_NAK_RECEIVE;
	mr = local_mr(ctl, seg, WEFT_ACCESS_LOCAL_WRITE);
	if (!mr)
		return WEFT_NAK_RECEIVE;
	return place(ctx, mr->pool, mr->off + seg->loff, at, len) ? WEFT_NAK_MEMORY : 0;
}

/* Put len bytes, which are at moff of the message, where the receive says. 0, or a NAK code. */
static __always_inline int scatter(struct xdp_md *ctx, const struct weft_qpctl *ctl,
				   struct work *wk, __u32 moff, __u32 len)
{
	__u64 at = wk->pkt.hl;
	int code;

	for (__u32 i = 0; i < WEFT_RQ_SGES && len; i++) {
		__u32 room = wk->sge[i].len, n;

		if (moff >= room) {
			moff -= room;
			continue;
		}
		n = room - moff < len ? room - moff : len;
		code = scatter_one(ctx, ctl, wk, i, moff | at << 32 | (__u64)n << 48);
		if (code)
			return code;
		at += n;
		len -= n;
		moff = 0;
	}
	return len ? WEFT_NAK_LENGTH : 0;
}

static __always_inline void count_refusal(struct weft_stats *st, __u32 code)
{
	if (code == WEFT_NAK_LENGTH)
		st->drop.bounds++;
	else if (code == WEFT_NAK_RECEIVE)
		st->drop.rights++;
	else
		st->drop.memory++;
}

/* Place a segment of a SEND. 0, or a NAK code. */
static __always_inline __u32 place_send(struct xdp_md *ctx, const struct weft_qpctl *ctl,
					struct work *wk, const struct weft_rqe *e)
{
	const struct weft_hdr *h = &wk->pkt.u.h;
	__u32 mlen = bpf_ntohl(h->data.mlen);

	/* shared with the application: what is checked is what is used */
	for (int i = 0; i < WEFT_RQ_SGES; i++) {
		wk->sge[i].off = READ_ONCE(e->sge[i].off);
		wk->sge[i].len = READ_ONCE(e->sge[i].len);
		wk->sge[i].lkey = READ_ONCE(e->sge[i].lkey);
	}
	if (mlen > weft_rqe_room(wk->sge))
		return WEFT_NAK_LENGTH;
	return scatter(ctx, ctl, wk, bpf_ntohl(h->data.moff), wk->pkt.len);
}

/* The last segment is in memory: what the application will read of the message. */
static __always_inline void note_receive(struct weft_rqe *e, const struct weft_hdr *h)
{
	__u32 flags = h->op == WEFT_OP_SEND ? 0 : WEFT_RQE_WRITE;

	if (h->flags & WEFT_F_IMM)
		flags |= WEFT_RQE_IMM;
	if (h->flags & WEFT_F_SOL)
		flags |= WEFT_RQE_SOL;
	WRITE_ONCE(e->len, bpf_ntohl(h->data.mlen));
	WRITE_ONCE(e->imm, h->flags & WEFT_F_IMM ? bpf_ntohl(h->data.imm) : 0);
	WRITE_ONCE(e->flags, flags);
	WRITE_ONCE(e->status, 0);
}

static __always_inline enum weft_verdict reply_epoch(struct xdp_md *ctx, struct weft_stats *st,
						     const struct weft_qpctl *ctl,
						     struct weft_rx *rx, struct work *wk, __u8 op,
						     __u8 flags, __u32 epoch)
{
	flags |= WEFT_F_RQ | ack_body(st, rx, wk, epoch, 0);
	return reply(ctx, st, ctl, wk, op, flags, 0);
}

/* Place a segment of a WRITE with immediate data. 0, or a NAK code. */
STEP int place_imm(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		   struct weft_stats *st)
{
	const struct weft_pkt *p;
	__u32 code, pool = 0;
	__u64 off = 0;

	if (!wk || !ctl || !st)
		return WEFT_NAK_MEMORY;
	p = &wk->pkt;
	code = check_target(st, ctl, p, WEFT_ACCESS_REMOTE_WRITE, bpf_ntohl(p->u.h.data.moff),
			    bpf_ntohl(p->u.h.data.mlen), &pool, &off);
	if (!code &&
	    place_in_order(ctx, ctl, pool, off, p->hl, p->len, p->u.h.flags & WEFT_F_LAST)) {
		st->drop.memory++;
		code = WEFT_NAK_MEMORY;
	}
	return code;
}

STEP int rx_recv(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		 struct weft_stats *st, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	__u32 code, psn, len, epoch;
	enum weft_rx_last end = WEFT_RX_MORE;
	struct weft_rqe *e = NULL;
	struct weft_ring *ring;
	enum weft_rx_verdict v;
	struct weft_pkt *p;
	bool last, send;
	int got;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	p = &wk->pkt;
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, owner);
	psn = bpf_ntohl(p->u.h.psn);
	len = p->len;
	last = p->u.h.flags & WEFT_F_LAST;
	send = p->u.h.op == WEFT_OP_SEND;
	if (!segment_ok(len, bpf_ntohl(p->u.h.data.moff), bpf_ntohl(p->u.h.data.mlen), last))
		return drop(st, length);
	got = rx_begin(ctx, ctl, wk, st, q, slot);
	if (got >= 0)
		return got;
	/* before the look: what is posted after a look that was in vain must be news to the peer */
	epoch = rq_epoch(ctl, ring);
	v = take_psn(ctl, &q->rx, p);
	if (v == WEFT_RX_SEQ)
		return reply_seq(ctx, st, ctl, &q->rx, wk);
	if (v == WEFT_RX_NEW && (send || last)) {
		got = recv_entry(ctl, slot, bpf_ntohl(p->u.h.data.rsn));
		if (got <= 0)
			weft_rx_give_back(&q->rx, psn);
		if (got < 0)
			return drop(st, window);
		if (!got) {
			count(st, tx_rnr);
			return reply_epoch(ctx, st, ctl, &q->rx, wk, WEFT_OP_RNR, 0, epoch);
		}
		e = rq_elem(ctl, got);
		/* the queue has just been removed */
		if (unlikely(!e)) {
			st->drop.memory++;
			return refuse(ctx, ctl, wk, slot, WEFT_NAK_MEMORY);
		}
	}
	if (v == WEFT_RX_NEW) {
		if (last)
			end = p->u.h.flags & WEFT_F_SOL ? WEFT_RX_SOL : WEFT_RX_RECV;
		v = weft_rx_keep(&q->rx, psn, end);
	}
	if (v == WEFT_RX_DUP) {
		count(st, rx_dup);
		return reply_epoch(ctx, st, ctl, &q->rx, wk, WEFT_OP_ACK, WEFT_F_DUP, epoch);
	}
	if (v == WEFT_RX_BUSY)
		return drop(st, busy);
	if (v != WEFT_RX_NEW)
		return drop(st, window);

	if (send)
		code = e ? place_send(ctx, ctl, wk, e) : WEFT_NAK_MEMORY;
	else
		code = place_imm(ctx, ctl, wk, st);
	if (unlikely(code)) {
		if (send)
			count_refusal(st, code);
		if (e)
			WRITE_ONCE(e->status, code);
		return refuse(ctx, ctl, wk, slot, code);
	}
	count(st, rx_data);
	st->count.rx_bytes += len;
	tele_rx(slot, len);
	if (last && e)
		note_receive(e, &p->u.h);
	if (commit_psn(ctl, &q->rx, p))
		rx_advance(ctl, slot);
	return reply_epoch(ctx, st, ctl, &q->rx, wk, WEFT_OP_ACK, 0, epoch);
}

#endif
