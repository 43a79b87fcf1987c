/* SPDX-License-Identifier: GPL-2.0 */
/* Responder: READs and atomics. The frame that asks becomes the answer, with what it asked for behind the header. */
#ifndef WEFT_ASK_BPF_H
#define WEFT_ASK_BPF_H

#include "rx.bpf.h"

/* Send the frame back as REPLY with len bytes from off in the pool. */
static __always_inline enum weft_verdict answer(struct xdp_md *ctx, struct weft_stats *st,
						const struct weft_qpctl *ctl, struct weft_rx *rx,
						struct work *wk, __u32 len, __u8 flags)
{
	count(st, rx_ask);
	ack_header(st, rx, wk, WEFT_OP_REPLY, flags);
	return reply(ctx, st, ctl, wk, len);
}

/*
 * A segment of a READ. It is carried out for a duplicate as well, whatever the
 * window says: whether the answer arrived only the peer knows, and he puts it
 * into memory once. So there is nothing to remember here.
 */
static __always_inline enum weft_verdict ask_read(struct xdp_md *ctx, struct weft_stats *st,
						  const struct weft_qpctl *ctl, struct weft_qprx *q,
						  struct weft_ring *ring, struct work *wk,
						  __u32 slot)
{
	const struct weft_pkt *p = &wk->pkt;
	__u32 psn = bpf_ntohl(p->u.h.psn), len = bpf_ntohl(p->u.h.data.rlen);
	__u32 mlen = bpf_ntohl(p->u.h.data.mlen), moff = bpf_ntohl(p->u.h.data.moff);
	__u32 last = p->u.h.flags & WEFT_F_LAST, pool = 0, code;
	enum weft_rx_verdict v;
	__u64 off = 0;

	if (!segment_ok(len, moff, mlen, last))
		return drop(st, length);
	v = weft_rx_claim(&q->rx, psn, last ? WEFT_RX_QUIET : WEFT_RX_MORE);
	if (v == WEFT_RX_OUT)
		return drop(st, window);
	code = check_target(st, ctl, p, WEFT_ACCESS_REMOTE_READ, moff, mlen, &pool, &off);
	if (!code &&
	    (frame_resize(ctx, frame_len(ctx), p->hl + len) || fetch(ctx, pool, off, p->hl, len))) {
		st->drop.memory++;
		code = WEFT_NAK_MEMORY;
	}
	if (unlikely(code))
		/* what has been answered before ends nothing here: it may be a stray copy */
		return v == WEFT_RX_NEW ? refuse(ctx, st, ctl, q, ring, wk, slot, code)
					: reply_nak(ctx, st, ctl, wk, code, psn);
	if (v == WEFT_RX_NEW && weft_rx_commit(&q->rx, psn))
		rx_advance(ctl, ring, slot);
	return answer(ctx, st, ctl, &q->rx, wk, len, v == WEFT_RX_NEW ? 0 : WEFT_F_DUP);
}

/* Carry an atomic out on the 8 bytes at off. 0: what they were is in work.result. */
static __always_inline int atomic_op(struct work *wk, __u32 pool, __u64 off)
{
	const struct weft_hdr *h = &wk->pkt.u.h;
	__u64 operand = bpf_be64_to_cpu(h->atomic.operand);
	__u8 *p = chunk_get(pool, off >> WEFT_CHUNK_SHIFT);

	if (!p)
		return -1;
	p += off & (WEFT_CHUNK - 8);
	if (h->op == WEFT_OP_FADD)
		wk->result = __sync_fetch_and_add((__u64 *)p, operand);
	else
		wk->result = __sync_val_compare_and_swap(
			(__u64 *)p, bpf_be64_to_cpu(h->atomic.compare), operand);
	return 0;
}

/*
 * Exactly once: whoever claims the PSN carries it out and leaves the result where
 * duplicates find it, before the PSN counts as placed. The peer has no more out
 * than there is room for.
 */
static __always_inline enum weft_verdict ask_atomic(struct xdp_md *ctx, struct weft_stats *st,
						    const struct weft_qpctl *ctl,
						    struct weft_qprx *q, struct weft_ring *ring,
						    struct work *wk, __u32 slot)
{
	const struct weft_pkt *p = &wk->pkt;
	__u32 psn = bpf_ntohl(p->u.h.psn), pool = 0, code = 0;
	__u32 at = bpf_ntohl(p->u.h.atomic.asn) & (WEFT_ATOMICS - 1);
	enum weft_rx_verdict v;
	__u64 off = 0;

	if (!(p->u.h.flags & WEFT_F_LAST))
		return drop(st, length);
	v = weft_rx_claim(&q->rx, psn, WEFT_RX_QUIET);
	switch (v) {
	case WEFT_RX_NEW:
		code = check_target(st, ctl, p, WEFT_ACCESS_REMOTE_ATOMIC, 0, 8, &pool, &off);
		if (!code && off & 7) {
			st->drop.bounds++;
			code = WEFT_NAK_ALIGN;
		}
		if (!code && atomic_op(wk, pool, off)) {
			st->drop.memory++;
			code = WEFT_NAK_MEMORY;
		}
		if (unlikely(code))
			return refuse(ctx, st, ctl, q, ring, wk, slot, code);
		weft_rx_remember(&q->rx, at, psn, wk->result);
		if (weft_rx_commit(&q->rx, psn))
			rx_advance(ctl, ring, slot);
		break;
	case WEFT_RX_DUP:
		if (weft_rx_recall(&q->rx, at, psn, &wk->result))
			return drop(st, window);
		count(st, rx_dup);
		break;
	case WEFT_RX_BUSY: return drop(st, busy);
	default: return drop(st, window);
	}
	if (frame_resize(ctx, frame_len(ctx), p->hl + 8) ||
	    bpf_xdp_store_bytes(ctx, p->hl, &wk->result, 8))
		return drop(st, reply);
	return answer(ctx, st, ctl, &q->rx, wk, 8, v == WEFT_RX_DUP ? WEFT_F_DUP : 0);
}

STEP int rx_ask(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		struct weft_stats *st, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	struct weft_ring *ring;
	__u32 code;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, owner);
	code = READ_ONCE(q->rx.err);
	if (unlikely(code)) {
		st->drop.closed++;
		return refuse(ctx, st, ctl, q, ring, wk, slot, code);
	}
	if (unlikely(weft_rx_lags(&q->rx, bpf_ntohl(wk->pkt.u.h.psn))))
		rx_advance(ctl, ring, slot);
	if (wk->pkt.u.h.op == WEFT_OP_READ)
		return ask_read(ctx, st, ctl, q, ring, wk, slot);
	return ask_atomic(ctx, st, ctl, q, ring, wk, slot);
}

#endif
