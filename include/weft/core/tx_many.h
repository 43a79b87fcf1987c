/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Several small WRITEs in one packet: what is queued behind a claimed one joins it. */
#ifndef WEFT_CORE_TX_MANY_H
#define WEFT_CORE_TX_MANY_H

#include <weft/core/tx_claim.h>

/*
 * What a packet costs is much the same however little is in it. So when a token has claimed a small
 * WRITE and others are queued behind it, up to WEFT_MANY of them go in one packet (opcode WRITES).
 * Its PSN stands for all of them: they are delivered, lost, sent again and complete together. Nothing is
 * ever waited for. That is a step of its own between claim and fill, so that a claim costs the others
 * no more than before.
 */

/* May others join the segment? It is a whole small WRITE, and was never sent. */
weft_inline int weft_seg_joins(const struct weft_seg *seg)
{
	return seg->op == WEFT_WQE_WRITE && !seg->wflags && seg->mlen <= WEFT_MANY_LEN &&
	       seg->flags == WEFT_F_LAST && seg->len == seg->mlen && !seg->more;
}

/*
 * Work requests that are queued behind what was claimed as `seg` and not sent yet join it, as long as
 * they are small whole WRITEs too and all fit `room` bytes. Locked. Not if another CPU has gone on
 * meanwhile, or the token is not out any more; nor if a peer that lies has acknowledged it: what joined
 * would be complete unsent, and nothing would tell. sq: as in weft_tx_claim(), the ring that holds seg->msn.
 */
weft_inline void weft_tx_join(struct weft_tx *tx, const struct weft_wqe *sq, __u32 prod, __u32 room,
			      struct weft_seg *seg)
{
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(seg->psn)];
	__u32 used = 2 * sizeof(struct weft_desc) + seg->len;

	if (!tx->joins_writes || tx->err || tx->rnr || tx->nxt != seg->psn + 1 || s->tries != 1 ||
	    weft_slot_state(s) != WEFT_SLOT_OUT || weft_tx_delivered(tx, seg->psn) ||
	    prod - tx->done > tx->sq_mask + 1u)
		return;
	if (room > tx->payload)
		room = tx->payload;
	sq = weft_after(sq, prod);
	for (int i = 1; i < WEFT_MANY; i++, used += sizeof(struct weft_desc)) {
		const volatile struct weft_wqe *src = &sq[tx->cons & (WEFT_SQ_DEPTH - 1)];
		struct weft_wqe *q = &tx->wqe[tx->cons & (WEFT_SQ_DEPTH - 1)];
		__u32 len, op, flags, moff, mlen;

		if (weft_psn_diff(prod, tx->cons) <= 0 || !weft_tx_copies(tx) ||
		    weft_sq_ring(tx->cons ^ seg->msn, tx->sq_mask))
			break;
		len = src->len;
		op = src->op;
		flags = src->flags;
		moff = src->moff;
		mlen = src->mlen;
		if (op != WEFT_WQE_WRITE || flags | moff || len != mlen || len > WEFT_MANY_LEN ||
		    used + len > room)
			break;
		used += len;
		q->op = op;
		q->flags = 0;
		q->loff = src->loff;
		q->roff = src->roff;
		q->len = q->mlen = len;
		q->moff = 0;
		q->lkey = src->lkey;
		q->rkey = src->rkey;
		q->posted = src->posted;
		s->seg_hi = WEFT_SLOT_MANY | i;
		seg->more = i;
		tx->cons++;
		tx->ends++;
		tx->msgs++;
		tx->bytes += len;
	}
}

#endif
