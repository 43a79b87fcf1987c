/* SPDX-License-Identifier: GPL-2.0 */
/* Responder: admit a DATA packet, place its payload, turn its frame into the ACK. */
#ifndef WEFT_RX_BPF_H
#define WEFT_RX_BPF_H

#include "telemetry.bpf.h"

/*
 * Cut the frame to headers and len bytes, and put the first half of the header into wk->out, for what is there
 * already. Unless it brings what was asked for it is never longer than what it answers (I6). 0: done.
 */
static __always_inline int reply_head(struct xdp_md *ctx, const struct weft_qpctl *ctl,
				      struct work *wk, __u8 op, __u8 flags, __u32 len)
{
	const struct weft_pkt *p = &wk->pkt;

	if (frame_resize(ctx, frame_len(ctx), p->hl + len))
		return -1;
	head(wk, ctl, op, flags, p->u.h.ev, p->u.h.psn, p->u.h.ts, len);
	return 0;
}

static __always_inline enum weft_verdict reply(struct xdp_md *ctx, struct weft_stats *st,
					       const struct weft_qpctl *ctl, struct work *wk,
					       __u8 op, __u8 flags, __u32 len)
{
	if (reply_head(ctx, ctl, wk, op, flags, len) || frame_finish(ctx, ctl, wk, len))
		return drop(st, reply);
	return V_TX;
}

static __always_inline enum weft_verdict reply_nak(struct xdp_md *ctx, struct weft_stats *st,
						   const struct weft_qpctl *ctl, struct work *wk,
						   __u32 code, __u32 psn, __u32 nth)
{
	union weft_hdr_words u = {};

	u.h.nak.code = bpf_htonl(code);
	u.h.nak.psn = bpf_htonl(psn);
	u.h.nak.nth = bpf_htonl(nth);
	body(wk, &u);
	count(st, tx_nak);
	return reply(ctx, st, ctl, wk, WEFT_OP_NAK, 0, 0);
}

/* What ACK and REPLY say of the window, into wk->out; `also` is placed as well. The flags that go with it. */
static __always_inline __u8 ack_body(struct weft_stats *st, struct weft_rx *rx, struct work *wk,
				     __u32 epoch, __u64 also)
{
	union weft_hdr_words u = {};
	struct weft_rx_sack sack;

	weft_rx_sack(rx, bpf_ntohl(wk->pkt.u.h.psn), &sack);
	u.h.ack.cum = bpf_htonl(sack.cum);
	u.h.ack.msn = bpf_htonl(sack.msn);
	u.h.ack.sack = bpf_cpu_to_be64(sack.bits | also);
	u.h.ack.sack_base = bpf_htonl(sack.base);
	u.h.ack.epoch = bpf_htonl(epoch);
	body(wk, &u);
	count(st, tx_ack);
	if (!wk->pkt.ce)
		return 0;
	count(st, rx_ce);
	return WEFT_F_CE;
}

static __always_inline enum weft_verdict reply_ack(struct xdp_md *ctx, struct weft_stats *st,
						   const struct weft_qpctl *ctl, struct weft_rx *rx,
						   struct work *wk, __u8 flags)
{
	flags |= ack_body(st, rx, wk, 0, 0);
	return reply(ctx, st, ctl, wk, WEFT_OP_ACK, flags, 0);
}

/*
 * Does the MR named by key allow this for the whole message of mlen bytes, moff of
 * which lie before roff? 0, or the NAK code. The whole message is checked
 * with every packet, so that a message that does not fit writes no byte (I5).
 */
static __always_inline __u32 check_range(struct weft_stats *st, const struct weft_qpctl *ctl,
					 __u32 key, __u64 roff, __u32 right, __u32 moff, __u32 mlen,
					 __u32 *pool, __u64 *off)
{
	__u32 idx = WEFT_KEY_IDX(key);
	__u64 base = roff - moff;
	const struct weft_mr_ent *mr = bpf_map_lookup_elem(&mrs, &idx);
	__u32 has = mr ? READ_ONCE(mr->key) : 0;

	if (!mr || !key || has != key) {
		st->drop.key++;
		return WEFT_NAK_KEY;
	}
	mr = weft_after(mr, has);
	if (mr->pd != ctl->pd) {
		st->drop.pd++;
		return WEFT_NAK_PD;
	}
	if (!(mr->rights & right)) {
		st->drop.rights++;
		return WEFT_NAK_RIGHTS;
	}
	if (roff < moff || base > mr->len || mlen > mr->len - base) {
		st->drop.bounds++;
		return WEFT_NAK_BOUNDS;
	}
	*pool = mr->pool;
	*off = mr->off + roff;
	return 0;
}

/* Does the one that the packet names? */
static __always_inline __u32 check_target(struct weft_stats *st, const struct weft_qpctl *ctl,
					  const struct weft_pkt *p, __u32 right, __u32 moff,
					  __u32 mlen, __u32 *pool, __u64 *off)
{
	return check_range(st, ctl, bpf_ntohl(p->u.h.data.rkey), bpf_be64_to_cpu(p->u.h.data.roff),
			   right, moff, mlen, pool, off);
}

/* Must this request keep its order? The end of a message does, whatever the peer says. */
static __always_inline bool in_order(const struct weft_qpctl *ctl, const struct weft_pkt *p)
{
	return ctl->flags & WEFT_QPF_STRICT &&
	       (p->u.h.op != WEFT_OP_DATA ||
		(p->u.h.flags & (WEFT_F_FREE | WEFT_F_LAST)) != WEFT_F_FREE);
}

/* Take the packet's PSN; what is in order only if it is the next. */
static __always_inline enum weft_rx_verdict take_psn(const struct weft_qpctl *ctl,
						     struct weft_rx *rx, const struct weft_pkt *p)
{
	__u32 psn = bpf_ntohl(p->u.h.psn);

	return in_order(ctl, p) ? weft_rx_take_next(rx, psn) : weft_rx_take(rx, psn);
}

/* In memory: say so, and 1 if the window must be moved. What is next in order waits for that. */
static __always_inline int commit_psn(const struct weft_qpctl *ctl, struct weft_rx *rx,
				      const struct weft_pkt *p)
{
	return weft_rx_commit(rx, bpf_ntohl(p->u.h.psn)) || in_order(ctl, p);
}

static __always_inline enum weft_verdict reply_seq(struct xdp_md *ctx, struct weft_stats *st,
						   const struct weft_qpctl *ctl, struct weft_rx *rx,
						   struct work *wk)
{
	count(st, tx_seq);
	return reply(ctx, st, ctl, wk, WEFT_OP_SEQ, ack_body(st, rx, wk, 0, 0), 0);
}

/* Place n bytes, a word or half of one where they are aligned: nobody sees a part of that. */
STEP int place_word(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 at, __u32 n)
{
	__u8 *p = chunk_get(pool, off >> WEFT_CHUNK_SHIFT);
	__u32 half;
	__u64 word;

	if (!ctx || !p)
		return -1;
	if (n == 8) {
		if (bpf_xdp_load_bytes(ctx, at, &word, 8))
			return -1;
		WRITE_ONCE(*(__u64 *)(p + (off & (WEFT_CHUNK - 8))), word);
	} else {
		if (bpf_xdp_load_bytes(ctx, at, &half, 4))
			return -1;
		WRITE_ONCE(*(__u32 *)(p + (off & (WEFT_CHUNK - 4))), half);
	}
	return 0;
}

/*
 * Place the last segment of a message in strict order. Who polls memory, as that allows, looks at the
 * end: the last aligned word appears behind all else, and at once.
 */
STEP int place_last(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 hl, __u32 len)
{
	__u32 tail = ((off + len - 1) & 7) + 1, body = 0, fence = 0;

	if (!ctx)
		return -1;
	if (len > tail)
		body = len - tail;
	if (body) {
		if (place(ctx, pool, off, hl, body))
			return -1;
		weft_fetched(__sync_fetch_and_add(&fence, 1));
	}
	off += body;
	hl += body;
	len -= body;
	if ((len == 8 && !(off & 7)) || (len == 4 && !(off & 3)))
		return place_word(ctx, pool, off, hl, len);
	return len ? copy_edge(ctx, pool, off, hl, len) : 0;
}

static __always_inline int place_in_order(struct xdp_md *ctx, const struct weft_qpctl *ctl,
					  __u32 pool, __u64 off, __u32 hl, __u32 len, bool last)
{
	return last && (ctl->flags & WEFT_QPF_STRICT) ? place_last(ctx, pool, off, hl, len)
						      : place(ctx, pool, off, hl, len);
}

/* Do the numbers of a segment fit each other? */
static __always_inline bool segment_ok(__u32 len, __u32 moff, __u32 mlen, __u32 last)
{
	return len <= WEFT_PAYLOAD_MAX && mlen <= WEFT_MSG_MAX && moff <= mlen &&
	       len <= mlen - moff && (len || !mlen) && !last == (moff + len != mlen);
}

/* Move the window over what is placed, and tell the application of messages that have arrived. */
STEP int rx_advance(const struct weft_qpctl *ctl, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	struct weft_stats *st = stats_get();
	struct weft_ring *ring;
	bool arrived, solicited;
	__u32 was, sol;

	if (!ctl || !q || !st)
		return 0;
	ring = ring_get(ctl);
	if (!ring)
		return 0;
	bpf_spin_lock(&q->lock);
	was = q->rx.msn - q->rx.quiet;
	sol = q->rx.solicited;
	weft_rx_catch_up(&q->rx);
	arrived = q->rx.msn - q->rx.quiet != was;
	solicited = q->rx.solicited != sol;
	WRITE_ONCE(ring->rx_msn, q->rx.msn);
	if (arrived) {
		WRITE_ONCE(ring->received, q->rx.rdone);
		WRITE_ONCE(ring->arrived, q->rx.msn - q->rx.quiet);
	}
	bpf_spin_unlock(&q->lock);
	/* whoever has committed and not yet advanced will find nothing to tell */
	if (arrived)
		wake(st, ctl, &ring->rx_fence, &ring->arm_rx, WEFT_EVENT_RX);
	if (solicited)
		wake(st, ctl, &ring->rx_fence, &ring->arm_sol, WEFT_EVENT_RX);
	return 0;
}

/*
 * I5: refuse, and put the QP in error: every later request gets the same answer. code: of what has
 * several WRITEs with the number of the one refused in its upper half.
 */
STEP int refuse(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk, __u32 slot,
		__u32 code)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	struct weft_stats *st = stats_get();
	struct weft_ring *ring;
	__u32 psn, nth = code >> 16;
	bool first;

	if (!ctl || !wk || !q || !st)
		return V_DROP;
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, owner);
	code &= 0xffff;
	bpf_spin_lock(&q->lock);
	first = !q->rx.err;
	if (first) {
		q->rx.err = code;
		q->rx.err_nth = nth;
		q->rx.err_psn = bpf_ntohl(wk->pkt.u.h.psn);
	}
	code = q->rx.err;
	psn = q->rx.err_psn;
	nth = q->rx.err_nth;
	bpf_spin_unlock(&q->lock);
	/* once: the peer may go on for long */
	if (first) {
		/* those before it have arrived, and who sees the error must see them */
		if (nth)
			rx_advance(ctl, slot);
		weft_fetched(__sync_fetch_and_add(&ring->rx_fence, 1));
		WRITE_ONCE(ring->rx_err, code);
		wake(st, ctl, &ring->rx_fence, &ring->arm_rx, WEFT_EVENT_RX);
		wake(st, ctl, &ring->rx_fence, &ring->arm_sol, WEFT_EVENT_RX);
		tele_event(slot, refused, 0, code, psn, 0);
	}
	return reply_nak(ctx, st, ctl, wk, code, psn, nth);
}

/*
 * What each request goes through before its PSN is taken: was something refused before, is the
 * window where the peer takes it to be? -1: go on; else a verdict. Not a step of its own: every packet
 * would pay for the call.
 */
static __always_inline int rx_begin(struct xdp_md *ctx, const struct weft_qpctl *ctl,
				    struct work *wk, struct weft_stats *st, struct weft_qprx *q,
				    __u32 slot)
{
	__u32 code = READ_ONCE(q->rx.err), psn;

	if (unlikely(code)) {
		st->drop.closed++;
		return refuse(ctx, ctl, wk, slot, code);
	}
	psn = bpf_ntohl(wk->pkt.u.h.psn);
	/* who must be the next may be that: free ones before it do not move the window each */
	if (unlikely(weft_rx_lags(&q->rx, psn)) ||
	    (in_order(ctl, &wk->pkt) && psn != READ_ONCE(q->rx.next)))
		rx_advance(ctl, slot);
	return -1;
}

/* The answer to a request whose PSN could not be claimed, by why not. */
static __always_inline int not_new(struct xdp_md *ctx, struct weft_stats *st,
				   const struct weft_qpctl *ctl, struct weft_rx *rx,
				   struct work *wk, enum weft_rx_verdict v)
{
	if (v == WEFT_RX_SEQ)
		return reply_seq(ctx, st, ctl, rx, wk);
	if (v == WEFT_RX_DUP) {
		count(st, rx_dup);
		return reply_ack(ctx, st, ctl, rx, wk, WEFT_F_DUP);
	}
	return v == WEFT_RX_BUSY ? drop(st, busy) : drop(st, window);
}

STEP int rx_data(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		 struct weft_stats *st, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	struct weft_pkt *p;
	__u32 code, pool = 0, psn, len, mlen, moff;
	enum weft_rx_verdict v;
	__u64 off = 0;
	int last, done;
	__u8 flags;
	bool told;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	p = &wk->pkt;
	if (!has_ring(ctl))
		return drop(st, owner);
	psn = bpf_ntohl(p->u.h.psn);
	len = p->len;
	mlen = bpf_ntohl(p->u.h.data.mlen);
	moff = bpf_ntohl(p->u.h.data.moff);
	last = p->u.h.flags & WEFT_F_LAST;
	if (!segment_ok(len, moff, mlen, last))
		return drop(st, length);
	done = rx_begin(ctx, ctl, wk, st, q, slot);
	if (done >= 0)
		return done;
	v = take_psn(ctl, &q->rx, p);
	if (v == WEFT_RX_NEW)
		v = weft_rx_keep(&q->rx, psn, last ? WEFT_RX_ARRIVAL : WEFT_RX_MORE);
	if (v != WEFT_RX_NEW)
		return not_new(ctx, st, ctl, &q->rx, wk, v);

	code = check_target(st, ctl, p, WEFT_ACCESS_REMOTE_WRITE, moff, mlen, &pool, &off);
	if (unlikely(code))
		return refuse(ctx, ctl, wk, slot, code);
	if (unlikely(place_in_order(ctx, ctl, pool, off, p->hl, len, last))) {
		st->drop.memory++;
		return refuse(ctx, ctl, wk, slot, WEFT_NAK_MEMORY);
	}
	count(st, rx_data);
	st->count.rx_bytes += len;

	/*
	 * The commit waits until the payload has left the store buffer. Where nobody waits for the news the
	 * ACK is written meanwhile; it goes out behind both, and the next one tells if the window has moved.
	 */
	told = last || in_order(ctl, p);
	if (!told) {
		flags = ack_body(st, &q->rx, wk, 0, weft_psn_bit(psn));
		if (reply_head(ctx, ctl, wk, WEFT_OP_ACK, flags, 0) ||
		    frame_headers(ctx, ctl, wk, 0))
			done = drop(st, reply);
		else
			done = V_TX;
	}
	if (commit_psn(ctl, &q->rx, p))
		rx_advance(ctl, slot);
	tele_rx(slot, len);
	return told ? reply_ack(ctx, st, ctl, &q->rx, wk, 0) : done;
}

#endif
