/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests that the peer had no receive for: what waits, until when, and the probe in case nobody tells. */
#ifndef WEFT_CORE_TX_RNR_H
#define WEFT_CORE_TX_RNR_H

#include <weft/core/tx_state.h>

/*
 * A SEND, or a WRITE with immediate data, takes a receive of the peer's by its
 * number. Where none is posted the peer answers with an RNR instead of placing
 * it: the PSN counts as lost, which no path is blamed for, and waits until
 * the peer has posted more than it had then. The count of what it has posted, its
 * epoch, comes with every RNR, every RESUME and the ACK of what took a receive; so
 * it does not matter in which order those arrive.
 *
 * What is older than the refused PSN is repaired meanwhile; nothing behind it goes
 * out, lost or new. Should the RESUME be lost, a probe goes out in growing intervals.
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

/* Must a PSN wait until the peer has posted? */
weft_inline int weft_tx_refused(const struct weft_tx *tx, __u32 psn)
{
	return tx->rnr && weft_psn_diff(psn, tx->rnr_psn) >= 0;
}

/* Lost PSNs that need not, or are the probe. */
weft_inline __u32 weft_tx_lost_ready(const struct weft_tx *tx)
{
	__u32 base = tx->una & ~63u, n = 0;

	if (!tx->rnr)
		return tx->nlost;
	for (int i = 0; i <= WEFT_WIN_WORDS; i++, base += 64) {
		__s32 left = weft_psn_diff(tx->rnr_psn, base);
		__u64 m = ~0ull;

		__asm__("" : "+r"(base));
		if (left <= 0)
			break;
		if (i == 0)
			m = ~(weft_psn_bit(tx->una) - 1);
		if (left < 64)
			m &= weft_psn_bit(left) - 1;
		n += weft_popcount(tx->lost[weft_psn_word(base)] & m);
	}
	return n + (tx->probe && tx->nlost > n);
}

/* Nothing waits any more. */
weft_inline void weft_tx_unblock(struct weft_tx *tx)
{
	tx->rnr = tx->probe = 0;
	tx->probes = 0;
}

/* The peer has posted so many. */
weft_inline void weft_tx_resume(struct weft_tx *tx, __u32 epoch, __u32 now)
{
	/* a queue may be older than this QP, and its count anything */
	if (tx->heard && weft_psn_diff(epoch, tx->epoch) <= 0)
		return;
	tx->heard = 1;
	tx->epoch = epoch;
	tx->epoch_ts = now;
	weft_tx_unblock(tx);
}

/*
 * It had posted `epoch`, and none was there for the PSN sent at ts. Older news than we have is worth
 * another try at once, but only if it was sent before that came: who then still tells of less is not
 * honest, and would have us send for ever.
 */
weft_inline void weft_tx_rnr(struct weft_tx *tx, __u32 psn, __u32 ts, __u32 epoch, __u32 now)
{
	weft_tx_resume(tx, epoch, now);
	if (weft_psn_diff(tx->epoch, epoch) > 0 && weft_psn_diff(ts, tx->epoch_ts) < 0)
		return;
	if (!tx->rnr) {
		tx->rnr = 1;
		tx->rnr_ts = now;
		tx->rnr_psn = psn;
	} else if (weft_psn_diff(psn, tx->rnr_psn) < 0) {
		tx->rnr_psn = psn;
	}
}

/* The timer asks for a look: is it time for a probe? */
weft_inline void weft_tx_probe(struct weft_tx *tx, __u32 now)
{
	__u32 shift = tx->probes < WEFT_RNR_SHIFT ? tx->probes : WEFT_RNR_SHIFT;

	if (!tx->rnr || !tx->nlost || now - tx->rnr_ts < WEFT_RNR_MIN << shift ||
	    !weft_tx_refused(tx, weft_tx_first_lost(tx)))
		return;
	tx->rnr_ts = now;
	tx->probes++;
	tx->probe = 1;
}

#endif
