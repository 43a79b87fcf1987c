/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The ring that the application and XDP share for one QP, and the wake-up protocol between them (I7). */
#ifndef WEFT_CORE_RING_H
#define WEFT_CORE_RING_H

#include <weft/core/recv.h>
#include <weft/core/rx_track.h>
#include <weft/core/tx_bulk.h>
#include <weft/core/tx_many.h>

#define WEFT_ARMED_ANY 1 /* whatever completes */
#define WEFT_ARMED_AT  2 /* not what completes before arm_at: the application did not ask for it */

/*
 * A cache line for the application, one for each side of XDP, one for each arm
 * word (set here, cleared there), then the send queue. XDP trusts nothing in
 * here: it reads a field once and checks it. A deeper queue goes on in the rings behind this one, of
 * which nothing else is used.
 */
struct weft_ring {
	/* written by the application */
	__u32 sq_prod;   /* work requests posted, modulo 2^32 */
	__u32 rq_polled; /* messages taken from `received` */
	__u32 pad0[14];
	/* written by XDP: sending side */
	__u32 sq_done; /* work requests complete */
	__u32 hint;    /* 1: tokens are at work; 0: ring the doorbell after posting */
	__u32 tx_err;  /* enum weft_tx_err */
	__u32 tx_err_info;
	__u32 tx_err_ssn; /* work request that failed */
	__u32 tx_una;     /* oldest PSN not delivered (for the timer) */
	__u32 tx_rnr;     /* 1: the peer has no receive posted */
	__u32 tx_rnrs;    /* how often it said so, ever: it is alive */
	__u32 tx_probes;  /* how often it was asked since it last took something */
	__u32 pad1[7];
	/* written by XDP: receiving side */
	__u32 arrived;  /* messages of the peer wholly placed, in order */
	__u32 rx_err;   /* enum weft_nak that was sent; 0: none */
	__u32 rx_msn;   /* the peer's work requests of any kind, in order: what the BYE tells him */
	__u32 received; /* receives complete, in order */
	__u32 refused;  /* 1: there was none, and the peer waits; weft_ring_refusal() clears it */
	__u32 pad2[11];
	/* set by the application, cleared by XDP when it sends the event */
	__u32 arm_tx;   /* WEFT_ARMED_* */
	__u32 tx_fence; /* target of XDP's barriers: not on a line that who polls keeps asking for */
	__u32 arm_at;   /* with WEFT_ARMED_AT: sq_done that it waits for */
	__u32 pad3[13];
	__u32 arm_rx;
	__u32 arm_sol; /* the same, for solicited messages only */
	__u32 rx_fence;
	__u32 pad4[13];
	struct weft_wqe sq[WEFT_SQ_DEPTH];
	__u32 bind[WEFT_RQ_BIND]; /* which entry of a shared receive queue a number took, recv.h */
};

/*
 * Application, after it has written sq[prod]: publish, full barrier, look at
 * the hint. Returns 1 when the doorbell must be rung.
 */
weft_inline int weft_ring_publish(struct weft_ring *r, __u32 prod)
{
	__atomic_store_n(&r->sq_prod, prod, __ATOMIC_RELEASE);
	__sync_synchronize();
	return *(volatile __u32 *)&r->hint == 0;
}

/*
 * XDP, locked, after a claim that found nothing to send: once everything is
 * delivered no token will look again, so the next post must ring. Tokens still
 * out at that moment are behind or lost; they must not keep the hint up.
 */
weft_inline void weft_ring_absorb(struct weft_tx *tx, struct weft_ring *r)
{
	if (tx->hint && !tx->nlost && (tx->una == tx->nxt || !tx->inflight)) {
		tx->hint = 0;
		*(volatile __u32 *)&r->hint = 0;
	}
}

/* XDP, locked, with a successful claim: posting need not ring any more. */
weft_inline void weft_ring_active(struct weft_tx *tx, struct weft_ring *r)
{
	if (!tx->hint) {
		tx->hint = 1;
		*(volatile __u32 *)&r->hint = 1;
	}
}

/*
 * XDP, unlocked, after weft_ring_absorb(): full barrier (an unlock is not one),
 * then look at the queue again. Returns 1 when a post slipped in: claim again.
 */
weft_inline int weft_ring_recheck(struct weft_ring *r, __u32 prod_seen)
{
	weft_fetched(__sync_fetch_and_add(&r->tx_fence, 1));
	return *(volatile __u32 *)&r->sq_prod != prod_seen;
}

/*
 * XDP, behind the full barrier after which it looks who is to be woken: has happened what the application
 * sleeps for? arm_at only ever grows, so that an old one wakes for nothing, at worst.
 */
weft_inline int weft_ring_wakes(const struct weft_ring *r)
{
	__u32 arm = *(const volatile __u32 *)&r->arm_tx;
	__u32 at = *(const volatile __u32 *)&r->arm_at;

	return arm && (arm != WEFT_ARMED_AT || *(const volatile __u32 *)&r->tx_err ||
		       (__s32)(*(const volatile __u32 *)&r->sq_done - at) >= 0);
}

/*
 * What the peer is told of a receive queue: a count that grows with whatever lets one more message
 * in. That is a receive posted or, where it is shared, also a message polled (weft_rq_take).
 */
weft_inline __u32 weft_rq_epoch(const struct weft_rq *rq, const struct weft_ring *r, int shared)
{
	__u32 posted = *(const volatile __u32 *)&rq->prod;

	return shared ? posted + *(const volatile __u32 *)&r->rq_polled : posted;
}

/*
 * Application, before it posts receives: has the peer been refused one? A refusal that comes
 * later may have seen what is about to be posted, and is for the next time.
 */
weft_inline int weft_ring_refusal(struct weft_ring *r)
{
	if (!*(volatile __u32 *)&r->refused)
		return 0;
	*(volatile __u32 *)&r->refused = 0;
	return 1;
}

/*
 * Application: move a count that makes receives available, rq->prod or r->rq_polled (or what
 * several QPs share: then each does the three steps, in this order). Returns 1 when a RESUME
 * must go out. XDP reads the counts for its RNR, full barrier, sets `refused`, full barrier, looks
 * for a receive once more.
 */
weft_inline int weft_ring_offer(struct weft_ring *r, __u32 *count, __u32 to)
{
	int was = weft_ring_refusal(r);

	__atomic_store_n(count, to, __ATOMIC_RELEASE);
	__sync_synchronize();
	return was || *(volatile __u32 *)&r->refused;
}

#endif
