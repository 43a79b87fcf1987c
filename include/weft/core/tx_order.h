/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Strict order at the requester: what is free of it, what goes again, and when. */
#ifndef WEFT_CORE_TX_ORDER_H
#define WEFT_CORE_TX_ORDER_H

#include <weft/core/tx_rnr.h>

/*
 * In strict order the peer refuses (SEQ) what comes before its turn. What must keep the order is
 * what can be seen: the end of each message, what asks for an answer, a SEND, and bytes that
 * something not yet complete reads or writes as well. The other segments of a WRITE are free of it
 * (WEFT_F_FREE): the peer places them as they come, they go out on all CPUs and paths, and are
 * repaired like those of relaxed order.
 *
 * What is in order goes out at once, behind free ones that may still be under way; if it is
 * refused, it waits until they are delivered. From the oldest that goes again (`back`) all in
 * order goes again, one after the other, in one domain as long as that has tokens; nothing new in
 * order starts before that has been done, for it would come too early again, and so for ever:
 * tokens keep their order. Free ones, and the end of their message, go on meanwhile.
 */
#define WEFT_FREE_SEGS 8  /* a shorter message is not worth it, and its stream would be of many */
#define WEFT_FREE_OPEN 16 /* so many before it are compared; with more incomplete it is in order */

/* 1 or 0 without a branch, here and below: a verifier would walk all that follows once more. */
weft_inline __u32 weft_below(__u64 a, __u32 len)
{
	return ((a - len) & ~a) >> 63;
}

/* May the bytes be the same? Two keys may name the same memory, and where a SEND goes nobody here knows. */
weft_inline __u32 weft_wqe_meet(const struct weft_wqe *a, const struct weft_wqe *b)
{
	__u32 key = a->rkey ^ b->rkey;

	return weft_below(a->roff - b->roff, b->len) | weft_below(b->roff - a->roff, a->len) |
	       (key | -key) >> 31 | (1u << WEFT_WQE_SEND >> (a->op & 31) & 1);
}

/* Is work request q, the next to be cut, free of order? */
weft_inline __u32 weft_tx_apart(const struct weft_tx *tx, const struct weft_wqe *q)
{
	__u32 open = tx->cons - tx->done, meet = 0;

	if (!tx->frees || q->op != WEFT_WQE_WRITE || open > WEFT_FREE_OPEN ||
	    q->len <= (WEFT_FREE_SEGS - 1) * tx->payload)
		return 0;
	for (__u32 i = 1; i <= WEFT_FREE_OPEN; i++)
		meet |= weft_wqe_meet(&tx->wqe[(tx->cons - i) & (WEFT_SQ_DEPTH - 1)], q) &
			(i - open - 1) >> 31;
	return !meet;
}

/*
 * May any domain send what is next? A guess if that has not been begun: sq is shared with the
 * application.
 */
weft_inline int weft_tx_spread(const struct weft_tx *tx, const struct weft_wqe *sq)
{
	const struct weft_wqe *q = &sq[tx->cons & (WEFT_SQ_DEPTH - 1)];

	if (!tx->strict)
		return 1;
	if (tx->seg || !tx->frees)
		return tx->free_now;
	return *(volatile __u16 *)&q->op == WEFT_WQE_WRITE &&
	       *(volatile __u32 *)&q->len > (WEFT_FREE_SEGS - 1) * tx->payload &&
	       tx->cons - tx->done <= WEFT_FREE_OPEN;
}

/* Is any of the window free? */
weft_inline int weft_tx_mixed(const struct weft_tx *tx)
{
	return tx->free_end - tx->una - 1 < WEFT_WIN;
}

/*
 * May this domain send what is in order? Only one, as long as that has tokens and something comes
 * home: after a time-out they may all be lost, and are convicted a few at a time.
 */
weft_inline int weft_tx_home(const struct weft_tx *tx, __u32 dom)
{
	return dom == tx->home || !tx->dom[tx->home & (WEFT_DOMAINS - 1)].out || tx->rtt.backoff;
}

/* And what is new, of the work request being cut? */
weft_inline int weft_tx_may_go(const struct weft_tx *tx, __u32 dom)
{
	return !tx->strict || tx->free_now || (tx->back == tx->nxt && weft_tx_home(tx, dom));
}

/* Is some of what goes again still out, its refusal to come home? */
weft_inline int weft_tx_goes_back(const struct weft_tx *tx)
{
	return tx->strict && tx->nlost < tx->nxt - tx->back;
}

enum weft_tx_which {
	WEFT_TX_ORDERED, /* lost, and in order: all of them where order is relaxed */
	WEFT_TX_FREE,    /* lost, and free */
	WEFT_TX_GAP,     /* free, and not delivered */
};

/* The oldest PSN that is so, or nxt. */
weft_inline __u32 weft_tx_first(const struct weft_tx *tx, enum weft_tx_which which)
{
	__u32 base = tx->una & ~63u;

	for (int i = 0; i <= WEFT_WIN_WORDS; i++) {
		__u32 w = weft_psn_word(base);
		__u64 bits = which == WEFT_TX_GAP    ? tx->free[w] & ~tx->delivered[w]
			     : which == WEFT_TX_FREE ? tx->free[w] & tx->lost[w]
						     : ~tx->free[w] & tx->lost[w];

		if (i == 0)
			bits &= ~(weft_psn_bit(tx->una) - 1);
		if (bits) {
			__u32 psn = base + weft_ctz(bits);

			/* bits beyond nxt are old */
			return weft_psn_diff(psn, tx->nxt) < 0 ? psn : tx->nxt;
		}
		base += 64;
	}
	return tx->nxt;
}

/*
 * Lost, and in order: may psn go again? It is its turn, and all before it is delivered; of what the
 * peer has placed only the answer was lost, and that waits for nothing.
 */
weft_inline __u32 weft_tx_in_turn(const struct weft_tx *tx, __u32 psn)
{
	__u32 ahead = psn - tx->back, early = psn - tx->gap;
	__u32 waits = tx->rnr & ~tx->probe & ~(psn - tx->rnr_psn) >> 31;
	__u32 turn = (ahead | ((ahead - 1) & ~ahead & early)) >> 31;

	return (psn - tx->nxt) >> 31 & turn & ~waits;
}

/* Is `turn` lost, in order, and may it go? It may have gone since it was looked for. */
weft_inline __u32 weft_tx_due(const struct weft_tx *tx)
{
	return tx->lost[weft_psn_word(tx->turn)] >> (tx->turn & 63) & weft_tx_in_turn(tx, tx->turn);
}

/* The lost PSN that goes out next in this domain, or nxt. Call with nlost != 0. */
weft_inline __u32 weft_tx_next_lost(const struct weft_tx *tx, __u32 dom)
{
	if (!tx->strict)
		return weft_tx_first(tx, WEFT_TX_ORDERED);
	if (weft_tx_due(tx) && weft_tx_home(tx, dom))
		return tx->turn;
	return weft_tx_first(tx, WEFT_TX_FREE);
}

/* How many of the lost might go now. */
weft_inline __u32 weft_tx_ready(const struct weft_tx *tx)
{
	__u32 any = (tx->nfree | -tx->nfree) >> 31, all = tx->rnr ^ 1, ordered, busy;

	if (!tx->strict || !tx->nlost)
		return weft_tx_lost_ready(tx);
	/* while others come home those are enough, and more would be in their way */
	busy = (tx->nlost - (tx->nxt - tx->back)) >> 31 & (tx->inflight | -tx->inflight) >> 31;
	ordered = weft_tx_due(tx) & ~busy;
	/* behind what was refused none may, before it are few: one is enough to go on */
	return any + all * (tx->nfree - any) + ordered * (1 + all * (tx->nlost - tx->nfree - 1));
}

/* What is free, or delivered, does not go again in its turn. */
weft_inline void weft_tx_skip(struct weft_tx *tx)
{
	__u32 back = tx->back;

	for (int i = 0; i <= WEFT_WIN_WORDS && weft_psn_diff(back, tx->nxt) < 0; i++) {
		__u32 w = weft_psn_word(back), lo = back & 63;
		__u32 hi = weft_ctz(~(tx->delivered[w] | tx->free[w] | (weft_psn_bit(back) - 1)));

		back += hi - lo;
		if (hi < 64)
			break;
	}
	tx->back = weft_psn_diff(back, tx->nxt) < 0 ? back : tx->nxt;
}

/* Does anything go again in its turn? */
weft_inline int weft_tx_unsettled(const struct weft_tx *tx)
{
	return tx->strict && (tx->back != tx->nxt || tx->nlost);
}

/* After an ACK or a time-out: whose turn is it, and what does it wait for? */
weft_inline void weft_tx_settle(struct weft_tx *tx)
{
	__u32 nfree = 0;

	if (!weft_tx_unsettled(tx))
		return;
	weft_tx_skip(tx);
	tx->gap = tx->nxt;
	if (weft_tx_mixed(tx))
		tx->gap = weft_tx_first(tx, WEFT_TX_GAP);
	tx->turn = weft_tx_first(tx, WEFT_TX_ORDERED);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		nfree += weft_popcount(tx->lost[i] & tx->free[i]);
	tx->nfree = nfree;
}

/*
 * What is in order goes again from psn on, if `on` is 1; but of what the peer has placed only an answer
 * was lost, and that is asked for again by itself. Without a branch: a loop calls this.
 */
weft_inline void weft_tx_go_back(struct weft_tx *tx, __u32 psn, __u32 on)
{
	__u32 newer = psn - tx->back, placed = psn - tx->cum;

	tx->back += newer & -(on & tx->strict & newer >> 31 & ~placed >> 31);
}

/* The peer has placed all before cum. */
weft_inline void weft_tx_placed(struct weft_tx *tx, __u32 cum)
{
	if (weft_psn_diff(cum, tx->cum) > 0)
		tx->cum = cum;
	if (weft_psn_diff(tx->cum, tx->back) > 0)
		tx->back = tx->cum;
}

/* The path of its next transmission: one keeps its order. */
weft_inline __u8 weft_tx_path(struct weft_tx *tx, __u32 psn)
{
	__u32 any = weft_tx_is_free(tx, psn) | (tx->strict ^ 1);

	return weft_path_pick(&tx->path, &tx->ev_next) & -any;
}

#endif
