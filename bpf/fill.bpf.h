/* SPDX-License-Identifier: GPL-2.0 */
/* Requester: claim the next segment, fill the frame with it. */
#ifndef WEFT_FILL_BPF_H
#define WEFT_FILL_BPF_H

#include "token.bpf.h"

/* ---- claims ---- */

/*
 * What the application sees; locked. Its cache line is worth more than news:
 * una goes there only to show the timer that something moves.
 */
static __always_inline void publish(struct weft_tx *tx, struct weft_ring *ring)
{
	if (tx->done == tx->told_done && !((tx->una ^ tx->told_una) & ~63u) && tx->una != tx->nxt)
		return;
	tx->told_done = tx->done;
	tx->told_una = tx->una;
	WRITE_ONCE(ring->sq_done, tx->done);
	WRITE_ONCE(ring->tx_una, tx->una);
}

static __always_inline void publish_err(struct weft_tx *tx, struct weft_ring *ring)
{
	WRITE_ONCE(ring->tx_err_info, tx->err_info);
	WRITE_ONCE(ring->tx_err_ssn, tx->err_ssn);
	/* who sees the error may read what it is about; and this is rare */
	weft_fetched(__sync_fetch_and_add(&ring->tx_fence, 1));
	WRITE_ONCE(ring->tx_err, tx->err);
}

/*
 * The ring that the next work request is in, or NULL: not to be looked up once the lock is taken, and
 * by then another CPU may have gone on to the next (WEFT_CLAIM_MOVED). Before `prod` it must not be
 * looked for: then who goes on has seen no less than is seen here, and has something to send.
 */
static __always_inline const struct weft_ring *next_ring(const struct weft_qpctl *ctl,
							 const struct weft_ring *ring,
							 const struct weft_qptx *q, struct work *wk,
							 __u32 prod)
{
	if (likely(ctl->sq_mask < WEFT_SQ_DEPTH))
		return ring;
	wk->at = READ_ONCE(weft_after(q, prod)->tx.cons);
	return ring_nth(ctl, weft_sq_ring(wk->at, ctl->sq_mask));
}

/*
 * Claim the next segment of a window of wnd for a token of this domain, and keep the
 * ring's hint and error up to date. Locked. sq: next_ring().
 */
static __always_inline enum weft_claim claim(struct weft_tx *tx, struct weft_ring *ring,
					     const struct weft_ring *sq, struct work *wk,
					     __u32 prod, __u32 wnd, __u32 now, __u32 dom)
{
	enum weft_claim c;

	wk->queued = prod - tx->cons;
	c = weft_tx_claim(tx, sq->sq, wk->at, prod, wnd, now, dom, &wk->seg);
	if (c == WEFT_CLAIM_OK)
		weft_ring_active(tx, ring);
	else if (c == WEFT_CLAIM_ERROR)
		publish_err(tx, ring);
	return c;
}

/*
 * I7, after a claim that found nothing to send: a post that came in between saw
 * the hint still up and did not ring. Or after one that had the wrong ring, or found the window full
 * for too long. Then claim_more() is to follow, as a step that is not called from the one that claimed:
 * both together need more stack than there is.
 */
static __always_inline bool claims_more(enum weft_claim c, struct weft_ring *ring, __u32 prod)
{
	if (likely(c == WEFT_CLAIM_OK))
		return false;
	return c == WEFT_CLAIM_MOVED || c == WEFT_CLAIM_STUCK ||
	       (c == WEFT_CLAIM_EMPTY && weft_ring_recheck(ring, prod));
}

/*
 * Take away what a CPU was lent: the one that sent psn at ts, or, before claim_more(), who keeps the
 * window full for long.
 */
#define WHO_IS_STUCK (1ull << 32)

STEP int unlend(const struct weft_qpctl *ctl, struct weft_stats *st, __u32 slot, __u64 psn,
		__u32 ts)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	__u32 now = now_ticks(), who = bpf_get_smp_processor_id() + 1, dom, from, done;
	struct weft_ring *ring;
	__s32 delta, more;

	if (!ctl || !st || !q || !cfg || !run)
		return 0;
	ring = ring_get(ctl);
	if (!ring)
		return 0;
	dom = my_domain(cfg);
	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	more = -q->tx.inflight;
	done = q->tx.done;
	if (psn == WHO_IS_STUCK)
		from = weft_tx_unblock_lane(&q->tx, now, dom);
	else
		from = weft_tx_disown(&q->tx, psn, ts, who);
	done = q->tx.done - done;
	if (done)
		publish(&q->tx, ring);
	more += q->tx.inflight;
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	account(run, from, 0, from, more);
	account_delta(run, delta);
	if (done) {
		wake_tx(st, ctl, ring);
		tele_late(slot, now, done);
	}
	return 0;
}

/* Claim once more, at work.now, with what is there by now. WEFT_CLAIM_*. */
STEP int claim_more(const struct weft_qpctl *ctl, struct work *wk, struct weft_stats *st,
		    __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	const struct weft_ring *sq;
	struct weft_ring *ring;
	enum weft_claim c = WEFT_CLAIM_EMPTY;
	__u32 prod, dom, from = 0, freed = 0;
	__s32 delta;

	if (!ctl || !wk || !st || !q || !cfg || !run)
		return WEFT_CLAIM_EMPTY;
	ring = ring_get(ctl);
	if (!ring)
		return WEFT_CLAIM_EMPTY;
	dom = my_domain(cfg);
	prod = READ_ONCE(ring->sq_prod);
	sq = next_ring(ctl, ring, q, wk, prod);
	if (!sq)
		return WEFT_CLAIM_EMPTY;
	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	for (int i = 0; i < 2; i++) {
		c = claim(&q->tx, ring, sq, wk, prod, window(cfg, run, &q->tx), wk->now, dom);
		if (c != WEFT_CLAIM_STUCK)
			break;
		c = weft_tx_rescue(&q->tx, wk->now, dom, &wk->seg);
		from = wk->seg.from;
		freed += wk->seg.freed;
		if (c == WEFT_CLAIM_OK)
			break;
		/* all of it was delivered, and out of the way now */
	}
	/* some may be left: they must not keep the hint up */
	if (c == WEFT_CLAIM_WINDOW)
		weft_ring_absorb(&q->tx, ring);
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	account(run, from, freed, dom, c == WEFT_CLAIM_OK);
	account_delta(run, delta);
	if (c == WEFT_CLAIM_ERROR)
		wake_tx(st, ctl, ring);
	return c;
}

/* ---- fill ---- */

/* A local error: the work request fails, the QP goes to error. */
static __always_inline void fail_local(struct weft_stats *st, const struct weft_qpctl *ctl,
				       __u32 slot, __u32 msn)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct weft_ring *ring = ring_get(ctl);

	if (!q || !ring)
		return;
	bpf_spin_lock(&q->lock);
	/* of a WRITE that is complete the application may have taken the memory away */
	if (!q->tx.err && weft_psn_diff(msn, q->tx.done) >= 0) {
		q->tx.err = WEFT_TX_ERR_LOCAL;
		q->tx.err_ssn = msn;
		publish_err(&q->tx, ring);
	}
	bpf_spin_unlock(&q->lock);
	tele_event(slot, local, 0, msn, 0, 0);
	wake_tx(st, ctl, ring);
}

/* The MR that len bytes lie in on this side, if it allows that; or NULL. */
static __always_inline const struct weft_mr_ent *
local_range(const struct weft_qpctl *ctl, __u32 lkey, __u64 loff, __u32 len, __u32 right)
{
	__u32 idx = WEFT_KEY_IDX(lkey), key;
	const struct weft_mr_ent *mr = bpf_map_lookup_elem(&mrs, &idx);

	if (!mr)
		return NULL;
	key = READ_ONCE(mr->key);
	mr = weft_after(mr, key);
	if (!lkey || key != lkey || mr->pd != ctl->pd || !(mr->rights & right) || loff > mr->len ||
	    len > mr->len - loff)
		return NULL;
	return mr;
}

static __always_inline const struct weft_mr_ent *local_mr(const struct weft_qpctl *ctl,
							  const struct weft_seg *seg, __u32 right)
{
	return local_range(ctl, seg->lkey, seg->loff, seg->len, right);
}

/* The opcode of the packet that carries a work request. */
static __always_inline __u8 wire_op(__u32 op)
{
	switch (op) {
#define X(name, val, wire, own) \
	case val: return WEFT_OP_##wire;
		WEFT_WQE_OPS(X)
#undef X
	}
	return WEFT_OP_DATA;
}

/* What waits for a receive of the peer's, for the timer; locked. */
static __always_inline void publish_rnr(struct weft_tx *tx, struct weft_ring *ring)
{
	tx->told_rnr = tx->rnr;
	WRITE_ONCE(ring->tx_rnr, tx->rnr);
	WRITE_ONCE(ring->tx_probes, tx->probes);
}

enum fill_result {
	FILL_OK,
	FILL_SMALL, /* the frame cannot grow: use a clone */
	FILL_BAD,   /* local error; the token dies */
};

/* The header of what takes a receive of the peer's. The flags that it brings. */
static __always_inline __u8 takes(struct weft_hdr *h, const struct weft_seg *seg)
{
	__u8 flags = 0;

	h->data.rsn = bpf_htonl(seg->asn);
	if (seg->op == WEFT_WQE_SEND) {
		h->data.rkey = 0;
		h->data.roff = 0;
	}
	if (seg->wflags & WEFT_WQE_IMM) {
		flags |= WEFT_F_IMM;
		h->data.imm = bpf_htonl((__u32)seg->operand);
	}
	if (seg->wflags & WEFT_WQE_SOL)
		flags |= WEFT_F_SOL;
	return flags;
}

/* The first half of the header of what is claimed. */
static __always_inline void request_head(struct work *wk, const struct weft_qpctl *ctl, __u8 op,
					 __u8 flags, __u32 len)
{
	head(wk, ctl, op, wk->seg.flags | flags, wk->seg.ev, bpf_htonl(wk->seg.psn),
	     bpf_htonl(wk->now), len);
}

static __always_inline void note_retx(struct weft_stats *st, __u32 slot, const struct weft_seg *seg)
{
	if (seg->flags & WEFT_F_RETX) {
		count(st, tx_retx);
		tele_event(slot, retx, 0, seg->psn, seg->psn, 0);
	}
}

/* Put the claimed segment work.seg into the frame: length, payload, all headers. */
STEP int fill(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
	      struct weft_stats *st, __u32 slot)
{
	__u32 flen = frame_len(ctx);
	const struct weft_mr_ent *mr;
	const struct weft_seg *seg;
	union weft_hdr_words u = {};
	struct weft_hdr *h = &u.h;
	__u8 flags = 0;
	__u32 hl, len;
	int own;

	if (!wk || !ctl || !st)
		return FILL_BAD;
	seg = &wk->seg;
	hl = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	/* who asks for bytes sends none, and must have a place for them */
	own = weft_wqe_own(seg->op);
	len = own ? 0 : seg->len;
	mr = local_mr(ctl, seg, own ? WEFT_ACCESS_LOCAL_WRITE : WEFT_ACCESS_LOCAL);
	if (!mr || len > WEFT_PAYLOAD_MAX) {
		fail_local(st, ctl, slot, seg->msn);
		return FILL_BAD;
	}
	/* a clone */
	if (unlikely(flen < hl))
		flen = frame_align(ctx, flen, hl);
	if (frame_resize(ctx, flen, hl + len))
		return FILL_SMALL;
	if (fetch(ctx, mr->pool, mr->off + seg->loff, hl, len)) {
		fail_local(st, ctl, slot, seg->msn);
		return FILL_BAD;
	}
	h->data.rkey = bpf_htonl(seg->rkey);
	h->data.roff = bpf_cpu_to_be64(seg->roff);
	if (unlikely(weft_wqe_atomic(seg->op))) {
		h->atomic.asn = bpf_htonl(seg->asn);
		h->atomic.operand = bpf_cpu_to_be64(seg->operand);
		h->atomic.compare = bpf_cpu_to_be64(seg->compare);
	} else {
		h->data.msn = bpf_htonl(seg->msn);
		h->data.moff = bpf_htonl(seg->moff);
		h->data.mlen = bpf_htonl(seg->mlen);
		h->data.rlen = own ? bpf_htonl(seg->len) : 0;
		h->data.rsn = 0;
		if (unlikely(weft_wqe_takes(seg->op, seg->wflags)))
			flags = takes(h, seg);
	}
	request_head(wk, ctl, wire_op(seg->op), flags, len);
	body(wk, &u);
	if (frame_headers(ctx, ctl, wk, len))
		return FILL_SMALL;
	if (own)
		count(st, tx_ask);
	else
		count(st, tx_data);
	note_retx(st, slot, seg);
	return FILL_OK;
}

#endif
