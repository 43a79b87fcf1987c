/* SPDX-License-Identifier: GPL-2.0 */
/* Several small WRITEs in one packet: gather and fill here, place there. */
#ifndef WEFT_MANY_BPF_H
#define WEFT_MANY_BPF_H

#include "fill.bpf.h"
#include "rx.bpf.h"

/* With a bound of its own: what is known of n would make the two one, by a test that tells 6.1 nothing. */
#define EACH_PART(i, n)                       \
	for (__u32 i = 0; i < WEFT_MANY && ({ \
				  opaque(n);  \
				  i < (n);    \
			  });                 \
	     i++)

/* ---- requester ---- */

/*
 * What is queued behind work.seg joins it, up to room bytes; weft_tx_join(). Not from the first on whose
 * memory is not here: that fails, alone, and what was posted before it must have gone.
 */
STEP int join(const struct weft_qpctl *ctl, struct work *wk, __u32 slot, __u32 room)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_ring *ring, *sq;
	__u32 prod, n = 1;

	if (!ctl || !wk || !q)
		return 0;
	ring = sq = ring_get(ctl);
	if (!ring)
		return 0;
	prod = READ_ONCE(ring->sq_prod);
	if (ctl->sq_mask >= WEFT_SQ_DEPTH)
		sq = ring_nth(ctl, weft_sq_ring(wk->seg.msn, ctl->sq_mask));
	if (!sq)
		return 0;
	while (n < WEFT_MANY && wk->seg.msn + n != prod) {
		const struct weft_wqe *e =
			&weft_after(sq, prod)->sq[(wk->seg.msn + n) & (WEFT_SQ_DEPTH - 1)];

		if (!local_range(ctl, READ_ONCE(e->lkey), READ_ONCE(e->loff), READ_ONCE(e->len),
				 WEFT_ACCESS_LOCAL)) {
			prod = wk->seg.msn + n;
			break;
		}
		n++;
	}
	bpf_spin_lock(&q->lock);
	weft_tx_join(&q->tx, sq->sq, prod, room, &wk->seg);
	bpf_spin_unlock(&q->lock);
	return 0;
}

/*
 * What work.seg stands for, into work.desc and work.part; how many bytes of payload that makes. Private
 * copies do not change, unless their PSN was delivered meanwhile: then this is a stray, and what it
 * brings is a duplicate there, whatever is in it.
 */
STEP int list_parts(struct work *wk, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	__u32 n, bytes = 0;

	if (!wk || !q)
		return -1;
	__builtin_memset(wk->words, 0, sizeof(wk->words));
	n = wk->seg.more + 1;
	EACH_PART(i, n)
	{
		const struct weft_wqe *w = &q->tx.wqe[(wk->seg.msn + i) & (WEFT_SQ_DEPTH - 1)];
		__u32 len = READ_ONCE(w->len);
		union { /* as in head() */
			__u64 w;
			struct {
				__be32 rkey, len;
			};
		} d;

		if (len > WEFT_MANY_LEN)
			return -1;
		wk->part[i].loff = READ_ONCE(w->loff);
		wk->part[i].lkey = READ_ONCE(w->lkey);
		wk->part[i].len = len;
		d.rkey = bpf_htonl(READ_ONCE(w->rkey));
		d.len = bpf_htonl(len);
		wk->words[2 * i] = d.w;
		wk->desc[i].roff = bpf_cpu_to_be64(READ_ONCE(w->roff));
		bytes += len;
	}
	return n * sizeof(struct weft_desc) + bytes;
}

/* The bytes of the i-th, to `at` in the frame. */
STEP int fetch_part(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk, __u32 i,
		    __u32 at)
{
	const struct weft_mr_ent *mr;
	__u64 loff;
	__u32 len;

	if (!ctx || !ctl || !wk)
		return -1;
	i &= WEFT_MANY - 1;
	loff = wk->part[i].loff;
	len = wk->part[i].len;
	mr = local_range(ctl, wk->part[i].lkey, loff, len, WEFT_ACCESS_LOCAL);
	if (!mr || len > WEFT_MANY_LEN)
		return -1;
	return fetch(ctx, mr->pool, mr->off + loff, at, len);
}

/* As fill(), for a PSN that stands for several WRITEs. */
STEP int fill_many(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		   struct weft_stats *st, __u32 slot)
{
	__u32 flen = frame_len(ctx), hl, at, n;
	union weft_hdr_words u = {};
	__u64 size;
	__u32 sum[2];
	int len;

	if (!wk || !ctl || !st)
		return FILL_BAD;
	hl = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	n = wk->seg.more + 1;
	len = list_parts(wk, slot);
	/* only a stray can be that long */
	if (len < 0 || len > WEFT_PAYLOAD_MAX || (__u32)len > ctl->payload)
		return FILL_BAD;
	if (frame_resize(ctx, flen, hl + len))
		return FILL_SMALL;
	size = n * sizeof(struct weft_desc);
	size = ((size - 1) & (sizeof(wk->desc) - 1)) + 1;
	opaque(size);
	if (bpf_xdp_store_bytes(ctx, hl, wk->desc, size))
		return FILL_BAD;
	at = hl + size;
	EACH_PART(i, n)
	{
		if (fetch_part(ctx, ctl, wk, i, at)) {
			fail_local(st, ctl, slot, wk->seg.msn + i);
			return FILL_BAD;
		}
		at += wk->part[i].len;
	}
	weft_check_descs(wk->words, ctl->hkey, sum);
	u.h.writes.n = bpf_htonl(n);
	u.h.writes.msn = bpf_htonl(wk->seg.msn);
	u.h.writes.sum[0] = bpf_htonl(sum[0]);
	u.h.writes.sum[1] = bpf_htonl(sum[1]);
	request_head(wk, ctl, WEFT_OP_WRITES, 0, len);
	body(wk, &u);
	if (frame_finish(ctx, ctl, wk, len))
		return FILL_SMALL;
	count(st, tx_data);
	count(st, tx_writes);
	note_retx(st, slot, &wk->seg);
	return FILL_OK;
}

/* Fill the frame with work.seg, and with what can join it. */
static __always_inline int fill_any(struct xdp_md *ctx, const struct weft_qpctl *ctl,
				    struct work *wk, struct weft_stats *st, __u32 room)
{
	__u32 slot = WEFT_QPN_SLOT(ctl->qpn);

	if (wk->queued > 1 && ctl->flags & WEFT_QPF_MANY && weft_seg_joins(&wk->seg))
		join(ctl, wk, slot, room);
	return unlikely(wk->seg.more) ? fill_many(ctx, ctl, wk, st, slot)
				      : fill(ctx, ctl, wk, st, slot);
}

/*
 * Fill the frame with work.seg. V_TX: it is ready to go. A frame that was born
 * small cannot grow; a clone of it has a whole page.
 * room: bytes that it may become to carry more than one WRITE.
 */
static __always_inline enum weft_verdict fill_or_clone(struct xdp_md *ctx, struct weft_stats *st,
						       const struct weft_qpctl *ctl,
						       struct work *wk, __u32 room)
{
	__u32 qpn = ctl->qpn;

	switch (fill_any(ctx, ctl, wk, st, room)) {
	case FILL_OK: return V_TX;
	case FILL_SMALL:
		if (make_template(ctx, WEFT_DB_FILL, qpn, wk->seg.psn, 1))
			return drop(st, fill);
		count(st, regrown);
		return spawn(st, wk, 1);
	default:
		/* the claim stands: a lost packet, or a QP in error */
		return drop(st, fill);
	}
}

/* ---- responder ---- */

/* Place the i-th, whose bytes are at `at` in the frame. 0, or the NAK code. */
STEP int place_part(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk, __u32 i,
		    __u32 at)
{
	struct weft_stats *st = stats_get();
	__u32 code, len, pool = 0;
	__u64 off = 0;

	if (!ctx || !ctl || !wk || !st)
		return WEFT_NAK_MEMORY;
	i &= WEFT_MANY - 1;
	len = bpf_ntohl(wk->desc[i].len);
	code = check_range(st, ctl, bpf_ntohl(wk->desc[i].rkey), bpf_be64_to_cpu(wk->desc[i].roff),
			   WEFT_ACCESS_REMOTE_WRITE, 0, len, &pool, &off);
	if (unlikely(code))
		return code;
	if (unlikely(len > WEFT_MANY_LEN || place(ctx, pool, off, at, len))) {
		st->drop.memory++;
		return WEFT_NAK_MEMORY;
	}
	return 0;
}

/*
 * Read the n descriptors of a packet. 0: they are what the peer sent, and fit the packet; else a
 * verdict. What the header check is to the header their own is to them: nothing is placed before.
 */
STEP int read_descs(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		    struct weft_stats *st)
{
	__u32 n, bytes = 0, sum[2];
	const struct weft_pkt *p;
	__u64 size;

	if (!ctx || !ctl || !wk || !st)
		return -1;
	p = &wk->pkt;
	n = bpf_ntohl(p->u.h.writes.n);
	if (n < 2 || n > WEFT_MANY || !(p->u.h.flags & WEFT_F_LAST) ||
	    p->len < n * sizeof(struct weft_desc)) {
		st->drop.length++;
		return -1;
	}
	__builtin_memset(wk->words, 0, sizeof(wk->words));
	size = n * sizeof(struct weft_desc);
	size = ((size - 1) & (sizeof(wk->desc) - 1)) + 1;
	opaque(size);
	if (bpf_xdp_load_bytes(ctx, p->hl, wk->desc, size)) {
		st->drop.truncated++;
		return -1;
	}
	weft_check_descs(wk->words, ctl->hkey, sum);
	if (sum[0] != bpf_ntohl(p->u.h.writes.sum[0]) ||
	    sum[1] != bpf_ntohl(p->u.h.writes.sum[1])) {
		st->drop.check++;
		return -1;
	}
	EACH_PART(i, n)
	{
		__u32 len = bpf_ntohl(wk->desc[i].len);

		/* so that the sum below is one */
		if (len > WEFT_MANY_LEN)
			len = WEFT_PAYLOAD_MAX;
		bytes += len;
	}
	if (p->len != n * sizeof(struct weft_desc) + bytes) {
		st->drop.length++;
		return -1;
	}
	return 0;
}

STEP int rx_writes(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		   struct weft_stats *st, __u32 slot)
{
	struct weft_qprx *q = bpf_map_lookup_elem(&qprx, &slot);
	__u32 n, at, psn, code;
	enum weft_rx_verdict v;
	struct weft_pkt *p;
	int done;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	/* not agreed: then it is as unknown as to those that are older */
	if (!(ctl->flags & WEFT_QPF_MANY))
		return drop(st, opcode);
	p = &wk->pkt;
	if (!has_ring(ctl))
		return drop(st, owner);
	if (read_descs(ctx, ctl, wk, st))
		return V_DROP;
	psn = bpf_ntohl(p->u.h.psn);
	n = bpf_ntohl(p->u.h.writes.n);
	done = rx_begin(ctx, ctl, wk, st, q, slot);
	if (done >= 0)
		return done;
	v = weft_rx_take(&q->rx, psn);
	if (v == WEFT_RX_NEW)
		v = weft_rx_keep_many(&q->rx, psn, n);
	if (v != WEFT_RX_NEW)
		return not_new(ctx, st, ctl, &q->rx, wk, v);

	at = p->hl + n * sizeof(struct weft_desc);
	EACH_PART(i, n)
	{
		code = place_part(ctx, ctl, wk, i, at);
		if (unlikely(code))
			return refuse(ctx, ctl, wk, slot, (code & 0xffff) | i << 16);
		at += bpf_ntohl(wk->desc[i].len);
	}
	count(st, rx_data);
	count(st, rx_writes);
	st->count.rx_bytes += p->len - n * sizeof(struct weft_desc);
	tele_rx(slot, p->len - n * sizeof(struct weft_desc));
	if (weft_rx_commit(&q->rx, psn))
		rx_advance(ctl, slot);
	return reply_ack(ctx, st, ctl, &q->rx, wk, 0);
}

#endif
