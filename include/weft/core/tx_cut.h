/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Segments: what they are, and which of a work request goes to which domain: runs of neighbours. */
#ifndef WEFT_CORE_TX_CUT_H
#define WEFT_CORE_TX_CUT_H

#include <weft/core/tx_state.h>

/* A segment to send. */
struct weft_seg {
	__u64 loff, roff;       /* of this segment, from the MRs' starts */
	__u64 operand, compare; /* of an atomic */
	__u32 lkey, rkey;
	__u32 psn, msn;
	__u32 moff, mlen, len;
	__u16 op;     /* enum weft_wqe_op */
	__u16 wflags; /* WEFT_WQE_* */
	__u32 asn;    /* of an atomic: its number; else of the receive that it takes */
	__u8 flags;   /* WEFT_F_* */
	__u8 ev;
	__u8 from; /* domain that lost `freed` tokens to this claim */
	__s8 freed;
	__u8 more; /* whole WRITEs behind this one that its PSN stands for as well, tx_many.h */
};

/*
 * Cut segment `seg` (weft_slot_seg) out of work request q, number `ssn`, in pieces of `payload`. Returns 1 when
 * it is its last. Without a branch for those that stand for several.
 */
weft_inline int weft_wqe_segment(const struct weft_wqe *q, __u32 payload, __u32 psn, __u32 ssn,
				 __u32 seg, struct weft_seg *out)
{
	__u32 many = seg >> 23 & 1;
	__u32 sent = (seg & (many - 1)) * payload;
	__u32 left = q->len - sent;

	out->more = (seg >> 16 & 0x7f) & -many;
	out->psn = psn;
	out->msn = ssn;
	out->moff = q->moff + sent;
	out->mlen = q->mlen;
	out->len = left < payload ? left : payload;
	out->loff = q->loff + sent;
	out->roff = q->roff + sent;
	out->lkey = q->lkey;
	out->rkey = q->rkey;
	out->op = q->op;
	out->wflags = q->flags;
	out->operand = q->operand;
	out->compare = q->compare;
	out->asn = q->asn;
	out->flags = out->moff + out->len == out->mlen ? WEFT_F_LAST : 0;
	return left <= payload;
}

/* The same of what the send queue has begun. */
weft_inline int weft_tx_segment(const struct weft_tx *tx, __u32 psn, __u32 ssn, __u32 seg,
				struct weft_seg *out)
{
	const struct weft_wqe *q = &tx->wqe[ssn & (WEFT_SQ_DEPTH - 1)];
	int last = weft_wqe_segment(q, tx->payload, psn, ssn, seg, out);

	out->flags |= weft_tx_is_free(tx, psn) * WEFT_F_FREE;
	return last;
}

/*
 * PSNs go to the CPUs as their tokens come, but each CPU copies WEFT_RUN segments in a row: what a CPU
 * reads or writes, its prefetchers go on with, and when the next bytes are another CPU's both fetch them,
 * and take them from each other. So within a work request the order of PSNs and that of bytes differ; all
 * its PSNs are still one behind the other, and the last of its segments is the last of them, as the
 * end of a message must be (I4).
 *
 * A domain that has no run, when all is given out, takes half of another's: none waits for a CPU that
 * stands still.
 */
#define WEFT_RUN 16

/* The domains that have something left of their runs, a bit each. Without a branch: weft_tx_busy(). */
weft_inline __u32 weft_tx_runs(const struct weft_tx *tx)
{
	__u32 runs = 0;

#pragma GCC unroll 16
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		__u32 left = *(const volatile __u32 *)&tx->dom[d].run_end -
			     *(const volatile __u32 *)&tx->dom[d].run_at;

		left |= -left;
		__asm__ volatile("" : "+r"(left));
		runs |= (left >> 31) << d;
	}
	return runs;
}

/*
 * The segment of work request q, which is being cut, that a claim of domain dom takes: call it once for
 * each of them. What must keep its order is cut in that, whoever sends it.
 */
weft_inline __u32 weft_tx_cut(struct weft_tx *tx, const struct weft_wqe *q, __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)], *from;
	__u32 last, n, runs;

	if (q->len <= tx->payload)
		return 0;
	if (d->run_at != d->run_end)
		return d->run_at++;
	last = (q->len - 1) / tx->payload;
	n = last - tx->cut;
	if (n) {
		__u32 most = tx->strict & ~tx->free_now & 1 ? 1 : WEFT_RUN;

		n = n < most ? n : most;
		d->run_at = tx->cut;
		tx->cut += n;
		d->run_end = tx->cut;
		return d->run_at++;
	}
	runs = weft_tx_runs(tx);
	if (!runs)
		return last;
	from = &tx->dom[weft_ctz(runs) & (WEFT_DOMAINS - 1)];
	n = (from->run_end - from->run_at + 1) / 2;
	d->run_end = from->run_end;
	from->run_end -= n;
	d->run_at = from->run_end;
	return d->run_at++;
}

#endif
