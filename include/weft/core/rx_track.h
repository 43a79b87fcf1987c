/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive tracking: which PSNs are claimed, placed, and how far everything is in place. */
#ifndef WEFT_CORE_RX_TRACK_H
#define WEFT_CORE_RX_TRACK_H

#include <weft/core/psn.h>

/*
 * A packet goes claim -> copy -> commit. Claim and advance run under the QP's
 * receive lock; copy and commit do not, so bits of `placed` are set and cleared
 * with fetching atomics. A window of WEFT_WIN PSNs starts at `next`.
 *
 * A message is complete when `next` has passed the PSN of its LAST segment:
 * then every packet posted before it is placed as well (I4), with one bit a
 * packet and no byte counting.
 */
struct weft_rx {
	__u32 next;    /* oldest PSN that is not placed: every older one is */
	__u32 msn;     /* messages complete, in order */
	__u32 nlast;   /* LAST bits in the window */
	__u32 err;     /* enum weft_nak after a refusal: the QP is in error */
	__u32 err_psn; /* PSN refused */
	__u32 pad;
	struct weft_rx_word { /* 64 PSNs, half a cache line */
		__u64 claimed;
		__u64 placed;
		__u64 last;
		__u64 pad;
	} word[WEFT_WIN_WORDS];
};

enum weft_rx_verdict {
	WEFT_RX_NEW,  /* claimed for the caller: copy, then commit */
	WEFT_RX_DUP,  /* placed before: acknowledge again, touch nothing */
	WEFT_RX_BUSY, /* another CPU is copying it: absorb */
	WEFT_RX_OUT,  /* beyond the window: drop */
};

/* What an ACK says. */
struct weft_rx_sack {
	__u32 cum, msn, base;
	__u64 bits;
};

weft_inline void weft_rx_init(struct weft_rx *rx, __u32 psn0)
{
	__builtin_memset(rx, 0, sizeof(*rx));
	rx->next = psn0;
}

/*
 * Move `next` over what is placed, at most three words a call (a packet adds
 * one bit; whoever finds a longer run moves it on with the next packet, or, if
 * a LAST bit is pending, calls again: returns 1 when there may be more).
 * Locked.
 */
weft_inline int weft_rx_advance(struct weft_rx *rx)
{
	__u32 next = rx->next, msn = rx->msn, nlast = rx->nlast;
	int more = 1;

	for (int i = 0; i < 3; i++) {
		__u32 w = weft_psn_word(next), lo = next & 63;
		__u64 placed = *(volatile __u64 *)&rx->word[w].placed;
		/* placed bits from lo upwards without a gap */
		__u32 hi = weft_ctz(~(placed | (weft_psn_bit(next) - 1)));
		__u64 done = weft_mask(lo, hi);

		if (hi == lo) {
			more = 0;
			break;
		}
		if (rx->word[w].last & done) {
			__u32 n = weft_popcount(rx->word[w].last & done);

			msn += n;
			nlast -= n;
			rx->word[w].last &= ~done;
		}
		rx->word[w].claimed &= ~done;
		weft_fetched(__sync_fetch_and_and(&rx->word[w].placed, ~done));
		next += hi - lo;
		if (hi < 64) {
			more = 0;
			break;
		}
	}
	rx->next = next;
	rx->msn = msn;
	rx->nlast = nlast;
	return more;
}

/* Claim a PSN in the window as it stands. Locked. */
weft_inline enum weft_rx_verdict weft_rx_claim(struct weft_rx *rx, __u32 psn, int last)
{
	__s32 d = weft_psn_diff(psn, rx->next);
	__u32 w = weft_psn_word(psn);
	__u64 bit = weft_psn_bit(psn);

	if (d < 0)
		return WEFT_RX_DUP;
	if (d >= WEFT_WIN)
		return WEFT_RX_OUT;
	if (rx->word[w].claimed & bit)
		return *(volatile __u64 *)&rx->word[w].placed & bit ? WEFT_RX_DUP : WEFT_RX_BUSY;
	rx->word[w].claimed |= bit;
	if (last) {
		rx->word[w].last |= bit;
		rx->nlast++;
	}
	return WEFT_RX_NEW;
}

/*
 * Admit a packet: bring the window up to date, then claim. The peer's window
 * starts at what it knows to be delivered, packet by packet; ours moves on three
 * words a packet, so after a long hole has closed it can be far behind. Locked.
 */
weft_inline enum weft_rx_verdict weft_rx_admit(struct weft_rx *rx, __u32 psn, int last)
{
	/* a word at a time: what the window lags behind, SACKs say as well */
	if (weft_psn_diff(psn, rx->next) >= 64) {
		int more = weft_rx_advance(rx);

		if (weft_psn_diff(psn, rx->next) >= WEFT_WIN)
			for (int i = 0; i < 5 && more; i++)
				more = weft_rx_advance(rx);
	}
	return weft_rx_claim(rx, psn, last);
}

/*
 * The payload is in memory: say so. Not locked. Returns 1 when a message may
 * now be complete, and the caller must lock and advance. The fetching atomic is
 * a full barrier: either this CPU sees the LAST bit that another claims, or the
 * other's advance sees the bit set here.
 */
weft_inline int weft_rx_commit(struct weft_rx *rx, __u32 psn)
{
	weft_fetched(__sync_fetch_and_or(&rx->word[weft_psn_word(psn)].placed, weft_psn_bit(psn)));
	return *(volatile __u32 *)&rx->nlast != 0;
}

/*
 * Fill in what the ACK of psn says. Not locked. The bits are read before cum: a
 * bit that an advance clears in between is covered by the cum read after it. A
 * bit may even belong to PSN + WEFT_WIN when this CPU was held up for a whole
 * window; the peer sent that one only after it knew the older to be delivered,
 * so it reads the bit as old news. What lies beyond the window is left out: the
 * word may be the one that `next` stands in, its bits a whole window older than
 * psn, and a peer that reads them later would take them for news.
 */
weft_inline void weft_rx_sack(const struct weft_rx *rx, __u32 psn, struct weft_rx_sack *out)
{
	__s32 end = weft_psn_diff(*(const volatile __u32 *)&rx->next + WEFT_WIN, psn & ~63u);

	__asm__ volatile("" ::: "memory");
	out->base = psn & ~63u;
	out->bits = *(const volatile __u64 *)&rx->word[weft_psn_word(psn)].placed;
	if (end < 64)
		out->bits &= weft_mask(0, end < 0 ? 0 : end);
	__asm__ volatile("" ::: "memory");
	out->cum = *(const volatile __u32 *)&rx->next;
	out->msn = *(const volatile __u32 *)&rx->msn;
}

#endif
