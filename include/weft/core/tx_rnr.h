/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests that the peer had no receive for: what waits, until when, and the probe in case nobody tells. */
#ifndef WEFT_CORE_TX_RNR_H
#define WEFT_CORE_TX_RNR_H

#include <weft/core/tx_state.h>

/*
 * A SEND, or a WRITE with immediate data, takes a receive of the peer's by its
 * number. Where none is posted the peer answers with an RNR instead of placing
 * it: the PSN counts as lost, which no path is blamed for, and goes out again
 * when the peer has posted more than it had then. The count of what it has posted, its
 * epoch, comes with every RNR, every RESUME and the ACK of what took a receive; so
 * it does not matter in which order those arrive.
 *
 * What is lost goes out in PSN order, so everything before the refused request
 * is repaired, and nothing after it. Should the RESUME be lost, a probe goes out
 * in growing intervals.
 */
#define WEFT_RNR_MIN   WEFT_TICKS_US(2000)
#define WEFT_RNR_SHIFT 5 /* the longest interval is 2^this of it: 64 ms */

/* Oldest lost PSN; call with nlost != 0. */
weft_inline __u32 weft_tx_first_lost(const struct weft_tx *tx)
{
	__u32 base = tx->una & ~63u;

	for (int i = 0; i <= WEFT_WIN_WORDS; i++) {
		__u64 bits = tx->lost[weft_psn_word(base)];

		if (i == 0)
			bits &= ~(weft_psn_bit(tx->una) - 1);
		if (bits)
			return base + weft_ctz(bits);
		base += 64;
	}
	return tx->una;
}

/* Is the oldest lost PSN one that there is no receive for? Call with nlost != 0. */
weft_inline int weft_tx_refused(const struct weft_tx *tx)
{
	const struct weft_tx_slot *s;
	const struct weft_wqe *q;

	if (!tx->rnr)
		return 0;
	s = &tx->slot[weft_tx_at(weft_tx_first_lost(tx))];
	q = &tx->wqe[weft_slot_ssn(tx, s) & (WEFT_SQ_DEPTH - 1)];
	return weft_wqe_takes(q->op, q->flags) && weft_psn_diff(q->asn, tx->rnr_rsn) >= 0;
}

/* The peer has posted so many. */
weft_inline void weft_tx_resume(struct weft_tx *tx, __u32 epoch)
{
	if (weft_psn_diff(epoch, tx->epoch) > 0)
		tx->epoch = epoch;
	if (tx->rnr && weft_psn_diff(tx->epoch, tx->rnr_epoch) > 0) {
		tx->rnr = tx->probe = 0;
		tx->probes = 0;
	}
}

/* It had posted `epoch` when it had none for work request ssn. */
weft_inline void weft_tx_rnr(struct weft_tx *tx, __u32 ssn, __u32 epoch, __u32 now)
{
	__u32 rsn = tx->wqe[ssn & (WEFT_SQ_DEPTH - 1)].asn;

	/* it has posted since: try again at once */
	if (weft_psn_diff(tx->epoch, epoch) > 0)
		return;
	if (!tx->rnr) {
		tx->rnr_ts = now;
		tx->rnr_epoch = epoch;
		tx->rnr_rsn = rsn;
	}
	tx->rnr = 1;
	if (weft_psn_diff(epoch, tx->rnr_epoch) > 0)
		tx->rnr_epoch = epoch;
	if (weft_psn_diff(rsn, tx->rnr_rsn) < 0)
		tx->rnr_rsn = rsn;
}

/* The timer asks for a look: is it time for a probe? */
weft_inline void weft_tx_probe(struct weft_tx *tx, __u32 now)
{
	__u32 shift = tx->probes < WEFT_RNR_SHIFT ? tx->probes : WEFT_RNR_SHIFT;

	if (!tx->rnr || !tx->nlost || !weft_tx_refused(tx) ||
	    now - tx->rnr_ts < WEFT_RNR_MIN << shift)
		return;
	tx->rnr_ts = now;
	tx->probes++;
	tx->probe = 1;
}

#endif
