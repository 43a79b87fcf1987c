/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the send state notes of PSNs: delivered, lost. */
#ifndef WEFT_CORE_TX_MARK_H
#define WEFT_CORE_TX_MARK_H

#include <weft/core/tx_order.h>

/* It waits to be sent again. */
weft_inline void weft_tx_lose(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn)
{
	weft_slot_set(s, WEFT_SLOT_LOST);
	tx->lost[weft_psn_word(psn)] |= weft_psn_bit(psn);
	tx->nlost++;
	tx->nfree += weft_tx_is_free(tx, psn);
	/* nobody's, until weft_tx_settle() has looked: what it was may be of another age */
	tx->turn = tx->nxt;
	weft_tx_go_back(tx, psn, ~weft_tx_is_free(tx, psn));
}

/* Note delivered PSNs among bits of the word at base (multiple of 64). */
weft_inline void weft_tx_mark(struct weft_tx *tx, __u32 base, __u64 bits)
{
	__u32 w = weft_psn_word(base);
	__u64 won;

	tx->delivered[w] |= bits;
	if (!tx->nlost)
		return;
	won = tx->lost[w] & bits;
	tx->lost[w] &= ~won;
	tx->nlost -= weft_popcount(won);
}

/*
 * Note as delivered what is older than cum. Each word's place follows from the count alone:
 * a verifier would tell apart all the ways that led to a sum.
 */
weft_inline void weft_tx_cum(struct weft_tx *tx, __u32 cum)
{
	__u32 base = tx->una & ~63u;
	__u64 m = ~(weft_psn_bit(tx->una) - 1);

	for (int i = 0; i <= WEFT_WIN_WORDS; i++, base += 64, m = ~0ull) {
		__s32 left = weft_psn_diff(cum, base);
		__u32 w = weft_psn_word(base);

		/* or the compiler counts by it, and a verifier sees no end */
		__asm__("" : "+r"(base));
		if (left <= 0)
			break;
		if (left < 64)
			m &= weft_psn_bit(left) - 1;
		m &= ~tx->own[w];
		tx->delivered[w] |= m;
		if (tx->nlost) {
			tx->nlost -= weft_popcount(tx->lost[w] & m);
			tx->lost[w] &= ~m;
		}
	}
}

/*
 * In relaxed order: is there news in a cumulative PSN that is newer than una? READs leave una behind,
 * and each answer would go over all up to it. What was noted last may be any number of windows old.
 */
weft_inline int weft_tx_cum_news(const struct weft_tx *tx, __u32 cum)
{
	return tx->cum - tx->una > WEFT_WIN || weft_psn_diff(cum, tx->cum) > 0;
}

/*
 * Move una over what is known to be delivered, and done with it. The peer's cum
 * may lag behind its SACKs (the ACK that would tell is lost, or it has not
 * advanced yet), and with every token home nobody would ever ask again. Which work request una
 * is of is in its slot, on a line that the CPU which sent it keeps: that is looked at behind
 * the end of one only.
 */
weft_inline void weft_tx_slide(struct weft_tx *tx)
{
	__u32 una = tx->una;
	__u64 ends = 0;

	for (int i = 0; i <= WEFT_WIN_WORDS && una != tx->nxt; i++) {
		__u32 w = weft_psn_word(una), lo = una & 63;
		__u32 hi = weft_ctz(~(tx->delivered[w] | (weft_psn_bit(una) - 1)));

		tx->delivered[w] &= ~weft_mask(lo, hi);
		ends |= tx->last[w] & weft_mask(lo, hi);
		una += hi - lo;
		if (hi < 64)
			break;
	}
	tx->una = una;
	if (ends)
		tx->done =
			una == tx->nxt ? tx->cons : weft_slot_ssn(tx, &tx->slot[weft_tx_at(una)]);
}

#endif
