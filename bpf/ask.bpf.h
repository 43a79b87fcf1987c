/* SPDX-License-Identifier: GPL-2.0 */
/* Responder: READs and atomics. The frame that asks becomes the answer, with what it asked for behind the header. */
#ifndef WEFT_ASK_BPF_H
#define WEFT_ASK_BPF_H

#include "rx.bpf.h"
#include "token.bpf.h"

/*
 * A READ is carried out for a duplicate as well, whatever the window says: whether the
 * answer arrived only the peer knows, and he puts it into memory once. So there is
 * nothing to remember here. 0, or the NAK code.
 */
static __always_inline __u32 read_op(struct xdp_md *ctx, struct weft_stats *st,
				     const struct weft_qpctl *ctl, struct work *wk, __u32 len)
{
	const struct weft_pkt *p = &wk->pkt;
	__u32 mlen = bpf_ntohl(p->u.h.data.mlen), moff = bpf_ntohl(p->u.h.data.moff), pool = 0;
	__u64 off = 0;
	__u32 code = check_target(st, ctl, p, WEFT_ACCESS_REMOTE_READ, moff, mlen, &pool, &off);

	if (!code && fetch(ctx, pool, off, p->hl, len)) {
		st->drop.memory++;
		code = WEFT_NAK_MEMORY;
	}
	return code;
}

/* Carry an atomic out; what the 8 bytes were is in work.result. 0, or the NAK code. */
static __always_inline __u32 atomic_op(struct weft_stats *st, const struct weft_qpctl *ctl,
				       struct work *wk)
{
	const struct weft_hdr *h = &wk->pkt.u.h;
	__u64 operand = bpf_be64_to_cpu(h->atomic.operand), off = 0;
	__u32 pool = 0;
	__u32 code = check_target(st, ctl, &wk->pkt, WEFT_ACCESS_REMOTE_ATOMIC, 0, 8, &pool, &off);
	__u8 *p;

	if (code)
		return code;
	if (off & 7) {
		st->drop.bounds++;
		return WEFT_NAK_ALIGN;
	}
	p = chunk_get(pool, off >> WEFT_CHUNK_SHIFT);
	if (!p) {
		st->drop.memory++;
		return WEFT_NAK_MEMORY;
	}
	p += off & (WEFT_CHUNK - 8);
	if (h->op == WEFT_OP_FADD)
		wk->result = __sync_fetch_and_add((__u64 *)p, operand);
	else
		wk->result = __sync_val_compare_and_swap(
			(__u64 *)p, bpf_be64_to_cpu(h->atomic.compare), operand);
	return 0;
}

/*
 * The frame has no room for the answer, as a frame that its driver has copied: a clone has
 * a whole page. It brings the request along, behind the template, and has done nothing yet.
 */
static __always_inline enum weft_verdict ask_clone(struct xdp_md *ctx, struct weft_stats *st,
						   const struct weft_qpctl *ctl, struct work *wk)
{
	if (wk->again || make_template(ctx, WEFT_DB_ASK, ctl->qpn, 0, wk->pkt.ce))
		return drop(st, reply);
	count(st, regrown);
	return spawn(st, wk, 1);
}

/*
 * An atomic is carried out once: whoever claims the PSN does it and leaves the result
 * where duplicates find it, before the PSN counts as placed. The peer has no more out than
 * there is room for.
 */
STEP int rx_ask(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		struct weft_stats *st, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	const struct weft_pkt *p;
	enum weft_rx_verdict v;
	__u32 code, psn, len, last, at;
	__u8 flags;
	bool read;
	int done;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	p = &wk->pkt;
	if (!has_ring(ctl))
		return drop(st, owner);
	psn = bpf_ntohl(p->u.h.psn);
	last = p->u.h.flags & WEFT_F_LAST;
	at = bpf_ntohl(p->u.h.atomic.asn);
	read = p->u.h.op == WEFT_OP_READ;
	len = read ? bpf_ntohl(p->u.h.data.rlen) : 8;
	if (read ? !segment_ok(len, bpf_ntohl(p->u.h.data.moff), bpf_ntohl(p->u.h.data.mlen), last)
		 : !last)
		return drop(st, length);
	done = rx_begin(ctx, ctl, wk, st, q, slot);
	if (done >= 0)
		return done;
	/* first: what has been carried out must be told */
	if (frame_resize(ctx, frame_len(ctx), p->hl + len))
		return ask_clone(ctx, st, ctl, wk);
	v = take_psn(ctl, &q->rx, p);
	if (v == WEFT_RX_NEW)
		v = weft_rx_keep(&q->rx, psn, last ? WEFT_RX_QUIET : WEFT_RX_MORE);
	if (v == WEFT_RX_SEQ)
		return reply_seq(ctx, st, ctl, &q->rx, wk);
	if (v == WEFT_RX_OUT)
		return drop(st, window);
	if (!read && v == WEFT_RX_BUSY)
		return drop(st, busy);
	if (!read && v == WEFT_RX_DUP) {
		if (weft_rx_recall(&q->rx, at, psn, &wk->result))
			return drop(st, window);
		count(st, rx_dup);
	} else {
		code = read ? read_op(ctx, st, ctl, wk, len) : atomic_op(st, ctl, wk);
		if (unlikely(code)) {
			if (v == WEFT_RX_NEW)
				return refuse(ctx, ctl, wk, slot, code);
			/* what has been answered before ends nothing: it may be a stray copy */
			return reply_nak(ctx, st, ctl, wk, code, psn, 0);
		}
		if (!read)
			weft_rx_remember(&q->rx, at, psn, wk->result);
		if (v == WEFT_RX_NEW && commit_psn(ctl, &q->rx, p))
			rx_advance(ctl, slot);
	}
	if (!read && bpf_xdp_store_bytes(ctx, p->hl, &wk->result, 8))
		return drop(st, reply);
	count(st, rx_ask);
	flags = v == WEFT_RX_NEW ? 0 : WEFT_F_DUP;
	flags |= ack_body(st, &q->rx, wk, 0, 0);
	return reply(ctx, st, ctl, wk, WEFT_OP_REPLY, flags, len);
}

#endif
