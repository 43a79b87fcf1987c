/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive tracking: which PSNs are claimed, placed, and how far everything is in place. */
#ifndef WEFT_CORE_RX_TRACK_H
#define WEFT_CORE_RX_TRACK_H

#include <weft/core/psn.h>

#define WEFT_MANY_BITS 4 /* of a number below 16: messages that end with a PSN, but one */

/*
 * A packet goes claim -> copy -> commit. None of them takes a lock: they set
 * bits with fetching atomics, and the CPU that set a bit owns the packet. Only
 * advance runs under the QP's receive lock; most packets never need it. A window
 * of WEFT_WIN PSNs starts at `next`.
 *
 * A message is complete when `next` has passed the PSN of its LAST segment:
 * then every packet posted before it is placed as well (I4), with one bit a
 * packet and no byte counting.
 */
struct weft_rx {
	__u32 next;           /* oldest PSN that is not placed: every older one is */
	__u32 msn;            /* messages complete, in order */
	__u32 nlast;          /* LAST bits in the window, but quiet ones */
	__u32 err;            /* enum weft_nak after a refusal: the QP is in error */
	__u32 err_psn;        /* PSN refused */
	__u32 quiet;          /* of msn: messages that the application is not told of */
	__u32 rdone;          /* of msn: messages that took a receive */
	__u32 solicited;      /* of rdone: those that wake who waits for such only */
	__u32 bound;          /* the first that has no receive of a shared queue yet, recv.h */
	__u32 shared;         /* 1: they take receives of a shared queue */
	__u32 err_nth;        /* and which of its WRITEs: those before it are in memory */
	__u32 err_part;       /* of these: in msn */
	__u32 pad[2];         /* behind the lock: to the end of its cache line */
	struct weft_rx_word { /* 64 PSNs, a cache line */
		__u64 claimed;
		__u64 placed;
		__u64 last;
		__u64 quiet; /* of those in `last`: not an arrival */
		__u64 recv;  /* of those in `last`: takes a receive */
		__u64 sol;   /* of those in `recv`: solicited */
		__u64 many;  /* of those in `last`: ends several messages */
		__u64 pad;
	} word[WEFT_WIN_WORDS];
	/* of those in `many`: how many more, bit by bit */
	__u64 more[WEFT_WIN_WORDS][WEFT_MANY_BITS];
	struct weft_rx_result { /* of the atomics last carried out, by their number */
		__u64 value;
		__u32 psn;
		__u32 set;
	} result[WEFT_ATOMICS];
};

enum weft_rx_verdict {
	WEFT_RX_NEW,  /* claimed for the caller: copy, then commit */
	WEFT_RX_DUP,  /* placed before: acknowledge again, touch nothing */
	WEFT_RX_BUSY, /* another CPU is copying it: absorb */
	WEFT_RX_OUT,  /* beyond the window: drop */
	WEFT_RX_SEQ,  /* strict order, and it is not the next: to be sent again */
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
 * Messages that took a receive are complete. Locked. A peer may give several the same number, and then
 * some of those counted have taken none: a shared queue's would never come back.
 */
weft_inline void weft_rx_received(struct weft_rx *rx, struct weft_rx_word *w, __u64 recv)
{
	__u64 sol = *(volatile __u64 *)&w->sol & recv;
	__u32 done = rx->rdone + weft_popcount(recv);

	if (rx->shared && weft_psn_diff(done, rx->bound) > 0)
		done = rx->bound;

	weft_fetched(__sync_fetch_and_and(&w->sol, ~recv));
	weft_fetched(__sync_fetch_and_and(&w->recv, ~recv));
	rx->solicited += weft_popcount(sol);
	*(volatile __u32 *)&rx->rdone = done;
}

/* Count the messages that end with these PSNs of a word, beyond one each. Locked. */
weft_inline void weft_rx_more(struct weft_rx *rx, __u32 psn, __u64 many)
{
	/* as `many` says, thus read after it */
	__u64 *at = weft_after(rx, many)->more[weft_psn_word(psn)];

#pragma GCC unroll 4
	for (int b = 0; b < WEFT_MANY_BITS; b++) {
		rx->msn += weft_popcount(*(volatile __u64 *)&at[b] & many) << b;
		weft_fetched(__sync_fetch_and_and(&at[b], ~many));
	}
	weft_fetched(__sync_fetch_and_and(&rx->word[weft_psn_word(psn)].many, ~many));
}

/*
 * Move `next` over what is placed, at most three words a call; returns 1 when
 * there may be more. Locked, which keeps out other advances, but not claims and
 * commits. Hence the order: a bit of `placed` is gone before its place in the
 * word can belong to a PSN one window on, or that one would be reported as
 * placed; a bit of `claimed` is there until `next` tells that its PSN is old, or
 * a duplicate could claim it again.
 */
weft_inline int weft_rx_advance(struct weft_rx *rx)
{
	__u32 next = rx->next;

	for (int i = 0; i < 3; i++) {
		struct weft_rx_word *w = &rx->word[weft_psn_word(next)];
		__u32 lo = next & 63;
		__u64 placed = *(volatile __u64 *)&w->placed, last;
		/* placed bits from lo upwards without a gap */
		__u32 hi = weft_ctz(~(placed | (weft_psn_bit(next) - 1)));
		__u64 done = weft_mask(lo, hi);

		if (hi == lo)
			return 0;
		/* the ends of what is placed, thus read after that */
		w = weft_after(w, placed);
		last = *(volatile __u64 *)&w->last & done;
		if (last) {
			__u64 quiet = *(volatile __u64 *)&w->quiet & last;
			__u64 recv = *(volatile __u64 *)&w->recv & last;
			__u32 n = weft_popcount(last), q = weft_popcount(quiet);

			if (*(volatile __u64 *)&w->many & last)
				weft_rx_more(rx, next, *(volatile __u64 *)&w->many & last);
			if (quiet)
				weft_fetched(__sync_fetch_and_and(&w->quiet, ~quiet));
			if (recv)
				weft_rx_received(rx, w, recv);
			weft_fetched(__sync_fetch_and_and(&w->last, ~last));
			weft_fetched(__sync_fetch_and_sub(&rx->nlast, n - q));
			rx->quiet += q;
			rx->msn += n;
		}
		weft_fetched(__sync_fetch_and_and(&w->placed, ~done));
		next += hi - lo;
		*(volatile __u32 *)&rx->next = next;
		weft_fetched(__sync_fetch_and_and(&w->claimed, ~done));
		if (hi < 64)
			return 0;
	}
	return 1;
}

/*
 * Must the window be brought up to date before psn is claimed? The peer's window
 * starts at what it knows to be delivered, packet by packet; ours is moved when a
 * word of it is complete, and after a long hole has closed it can be far behind.
 */
weft_inline int weft_rx_lags(const struct weft_rx *rx, __u32 psn)
{
	return weft_psn_diff(psn, *(const volatile __u32 *)&rx->next) >= WEFT_WIN / 2;
}

/* Bring it up to date. Locked. */
weft_inline void weft_rx_catch_up(struct weft_rx *rx)
{
	for (int i = 0; i < 6 && weft_rx_advance(rx); i++)
		;
	/* those before the refused one of a packet arrive with what is before it, which may come late */
	if (rx->err && rx->next == rx->err_psn) {
		rx->msn += rx->err_nth - rx->err_part;
		rx->err_part = rx->err_nth;
	}
}

/*
 * Claim a PSN in the window as it stands, in two steps. Between reading `next`
 * and taking the bit an advance may have passed psn, and the bit may stand for
 * the PSN one window on by now: then it is given back.
 */
weft_inline enum weft_rx_verdict weft_rx_take(struct weft_rx *rx, __u32 psn)
{
	__s32 d = weft_psn_diff(psn, *(volatile __u32 *)&rx->next);
	struct weft_rx_word *w = &rx->word[weft_psn_word(psn)];
	__u64 bit = weft_psn_bit(psn);

	if (d < 0)
		return WEFT_RX_DUP;
	if (d >= WEFT_WIN)
		return WEFT_RX_OUT;
	if (__sync_fetch_and_or(&w->claimed, bit) & bit)
		return *(volatile __u64 *)&w->placed & bit ? WEFT_RX_DUP : WEFT_RX_BUSY;
	return WEFT_RX_NEW;
}

/* Let go of a PSN that was taken and cannot be placed now: the peer sends it again. */
weft_inline void weft_rx_give_back(struct weft_rx *rx, __u32 psn)
{
	weft_fetched(
		__sync_fetch_and_and(&rx->word[weft_psn_word(psn)].claimed, ~weft_psn_bit(psn)));
}

/* What the last segment of a message is to the application here. */
enum weft_rx_last {
	WEFT_RX_MORE = 0, /* not the last */
	WEFT_RX_ARRIVAL,  /* counts as arrived, once everything before it is here */
	WEFT_RX_QUIET,    /* nothing: the peer has only looked */
	WEFT_RX_RECV,     /* an arrival that takes a receive */
	WEFT_RX_SOL,      /* the same, and solicited */
};

weft_inline enum weft_rx_verdict weft_rx_keep(struct weft_rx *rx, __u32 psn, enum weft_rx_last last)
{
	struct weft_rx_word *w = &rx->word[weft_psn_word(psn)];

	if (weft_psn_diff(psn, *(volatile __u32 *)&rx->next) < 0) {
		weft_rx_give_back(rx, psn);
		return WEFT_RX_DUP;
	}
	if (last == WEFT_RX_QUIET)
		weft_fetched(__sync_fetch_and_or(&w->quiet, weft_psn_bit(psn)));
	if (last == WEFT_RX_SOL)
		weft_fetched(__sync_fetch_and_or(&w->sol, weft_psn_bit(psn)));
	if (last >= WEFT_RX_RECV)
		weft_fetched(__sync_fetch_and_or(&w->recv, weft_psn_bit(psn)));
	if (last)
		weft_fetched(__sync_fetch_and_or(&w->last, weft_psn_bit(psn)));
	if (last && last != WEFT_RX_QUIET)
		weft_fetched(__sync_fetch_and_add(&rx->nlast, 1));
	return WEFT_RX_NEW;
}

/* The same for a packet that ends n messages, 2 to 16, all of them arrivals. */
weft_inline enum weft_rx_verdict weft_rx_keep_many(struct weft_rx *rx, __u32 psn, __u32 n)
{
	__u64 *more = rx->more[weft_psn_word(psn)], bit = weft_psn_bit(psn);

	if (weft_psn_diff(psn, *(volatile __u32 *)&rx->next) < 0) {
		weft_rx_give_back(rx, psn);
		return WEFT_RX_DUP;
	}
#pragma GCC unroll 4
	for (int b = 0; b < WEFT_MANY_BITS; b++)
		if ((n - 1) >> b & 1)
			weft_fetched(__sync_fetch_and_or(&more[b], bit));
	weft_fetched(__sync_fetch_and_or(&rx->word[weft_psn_word(psn)].many, bit));
	return weft_rx_keep(rx, psn, WEFT_RX_ARRIVAL);
}

weft_inline enum weft_rx_verdict weft_rx_claim(struct weft_rx *rx, __u32 psn,
					       enum weft_rx_last last)
{
	enum weft_rx_verdict v = weft_rx_take(rx, psn);

	return v == WEFT_RX_NEW ? weft_rx_keep(rx, psn, last) : v;
}

/*
 * The same in strict order: only the oldest PSN that is not placed. What another CPU has placed and
 * not yet told counts as missing; the caller must advance after every commit.
 */
weft_inline enum weft_rx_verdict weft_rx_take_next(struct weft_rx *rx, __u32 psn)
{
	if (weft_psn_diff(psn, *(volatile __u32 *)&rx->next) > 0)
		return WEFT_RX_SEQ;
	return weft_rx_take(rx, psn);
}

/*
 * The payload is in memory: say so. Returns 1 when a word is complete, or a
 * message may be, and the caller must lock and advance. The fetching atomic is a
 * full barrier: either this CPU sees the LAST bit that another claims, or the
 * other's advance sees the bit set here.
 */
weft_inline int weft_rx_commit(struct weft_rx *rx, __u32 psn)
{
	__u64 bit = weft_psn_bit(psn);
	__u64 was = __sync_fetch_and_or(&rx->word[weft_psn_word(psn)].placed, bit);

	return !~(was | bit) || *(volatile __u32 *)&rx->nlast != 0;
}

/* The result of the atomic of psn; before the commit, whose barrier lets no duplicate see it half. */
weft_inline void weft_rx_remember(struct weft_rx *rx, __u32 at, __u32 psn, __u64 value)
{
	struct weft_rx_result *r = &rx->result[at & (WEFT_ATOMICS - 1)];

	*(volatile __u64 *)&r->value = value;
	*(volatile __u32 *)&r->psn = psn;
	*(volatile __u32 *)&r->set = 1;
}

/*
 * What it was, for a duplicate. 0, or -1: forgotten. That it is placed was read before; the
 * fetching atomic, a full barrier, keeps what is read here behind that.
 */
weft_inline int weft_rx_recall(struct weft_rx *rx, __u32 at, __u32 psn, __u64 *value)
{
	struct weft_rx_result *r = &rx->result[at & (WEFT_ATOMICS - 1)];

	if (!__sync_fetch_and_or(&r->set, 0) || *(const volatile __u32 *)&r->psn != psn)
		return -1;
	*value = *(const volatile __u64 *)&r->value;
	return 0;
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
	__u32 next = *(const volatile __u32 *)&rx->next;
	__s32 end = weft_psn_diff(next + WEFT_WIN, psn & ~63u);
	__u64 bits;

	rx = weft_after(rx, next);
	bits = *(const volatile __u64 *)&rx->word[weft_psn_word(psn)].placed;
	rx = weft_after(rx, bits);
	if (end < 64)
		bits &= weft_mask(0, end < 0 ? 0 : end);
	out->base = psn & ~63u;
	out->bits = bits;
	out->cum = *(const volatile __u32 *)&rx->next;
	out->msn = *(const volatile __u32 *)&rx->msn;
}

#endif
