/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Segments for tokens: what is missing, tokens under way, the next claim, rescue of a blocked window. */
#ifndef WEFT_CORE_TX_CLAIM_H
#define WEFT_CORE_TX_CLAIM_H

#include <weft/core/tx_lane.h>

/* A new segment of the work request being cut: whether it is free, in the books and on the wire. */
weft_inline void weft_tx_mark_free(struct weft_tx *tx, struct weft_seg *seg)
{
	__u64 on = tx->free_now & ~seg->flags & 1, *word = &tx->free[weft_psn_word(seg->psn)];

	_Static_assert(WEFT_F_LAST == 1, "the end of a message is never free");
	seg->flags = (seg->flags & WEFT_F_LAST) | on * WEFT_F_FREE;
	*word = (*word & ~weft_psn_bit(seg->psn)) | on << (seg->psn & 63);
	if (on)
		tx->free_end = seg->psn + 1;
}

/*
 * May another atomic go out? The responder remembers the results of the last ones only. What
 * has left the window is delivered, however many PSNs ago that was.
 */
weft_inline int weft_tx_atomic_may(const struct weft_tx *tx)
{
	__u32 psn = tx->apsn[tx->atomics & (WEFT_ATOMICS - 1)];

	return tx->atomics_out < WEFT_ATOMICS &&
	       (psn - tx->una >= tx->nxt - tx->una || weft_tx_delivered(tx, psn));
}

/*
 * I4: what an atomic does is seen only behind all that was posted before it. Is there anything of
 * that which the peer may not have placed yet? READs and atomics place nothing there; in strict order
 * they are carried out as they come.
 */
weft_inline int weft_tx_puts_out(const struct weft_tx *tx)
{
	__u32 puts = weft_tx_own(tx, tx->nxt - 1) ? tx->puts : tx->nxt;

	/* it may be any number of windows old */
	return puts - tx->una - 1 < WEFT_WIN && !tx->strict;
}

/*
 * Packets that could be sent now if there were tokens: what is lost plus what
 * is queued, within the windows; at most 64. The deficit of I10. sq as in weft_tx_claim(); of
 * another ring than that of `cons` it makes a wrong guess, and whoever took `cons` there makes a better one.
 */
weft_inline __u32 weft_tx_deficit(const struct weft_tx *tx, const struct weft_wqe *sq, __u32 prod,
				  __u32 wnd)
{
	__u32 want, queued = prod - tx->cons, room, copies = weft_tx_copies(tx);

	if (tx->err || tx->inflight >= wnd)
		return 0;
	want = weft_tx_ready(tx);
	/* what is behind the last copy waits until the oldest is complete */
	if (queued <= tx->sq_mask + 1u && queued > copies)
		queued = copies;
	/* while some go again, what is new in order is held up, and more tokens would be in their way */
	if (weft_tx_goes_back(tx) && !weft_tx_spread(tx, sq))
		queued = 0;
	if (!tx->rnr && queued && queued <= tx->sq_mask + 1u && want < 64) {
		__u32 len = *(volatile __u32 *)&sq[tx->cons & (WEFT_SQ_DEPTH - 1)].len;
		__u32 sent = tx->seg * tx->payload;
		__u32 n = 1, used = tx->nxt - tx->una;

		if (len > sent && len <= WEFT_MSG_MAX)
			n = (len - sent + tx->payload - 1) / tx->payload;
		/* as those at both ends are, so are those between; if not, there will be another look */
		if (tx->joins_writes && len <= WEFT_MANY_LEN &&
		    *(volatile __u32 *)&sq[(prod - 1) & (WEFT_SQ_DEPTH - 1)].len <= WEFT_MANY_LEN)
			queued = (queued + WEFT_MANY - 1) / WEFT_MANY;
		n += queued - 1;
		/* an atomic may have to wait, and all behind it */
		if (tx->atomics_out && !weft_tx_atomic_may(tx))
			n = 0;
		if (weft_wqe_atomic(*(volatile __u16 *)&sq[tx->cons & (WEFT_SQ_DEPTH - 1)].op) &&
		    weft_tx_puts_out(tx))
			n = 0;
		room = used < WEFT_WIN ? WEFT_WIN - used : 0;
		want += n < room ? n : room;
	}
	room = wnd - tx->inflight;
	want = want < room ? want : room;
	return want < 64 ? want : 64;
}

/*
 * Rescue: the PSN window is full because the tokens of another CPU do not come back: it
 * has been busy with something else for long. Send its oldest from here instead
 * of waiting; what of it was delivered meanwhile needs no sending. Nothing is
 * deemed lost, so nothing is learnt about the network.
 */

/* Its domain, by what domain dom knows; dom: it knows of none. */
weft_inline __u32 weft_tx_stuck_in(const struct weft_tx *tx, __u32 dom)
{
	__u32 from = weft_slot_dom(&tx->slot[weft_tx_at(tx->una)]);

	return from == dom ? tx->stuck : from;
}

/* Has this slot's token been out for so long? */
weft_inline int weft_slot_stuck(const struct weft_tx *tx, const struct weft_tx_slot *s, __u32 now)
{
	return weft_psn_diff(now, s->ts) > (__s32)(2 * weft_reo_wnd(&tx->rtt));
}

/* What a claim of domain dom says with the PSN window full. */
weft_inline enum weft_claim weft_tx_full(const struct weft_tx *tx, __u32 now, __u32 dom)
{
	__u32 from = weft_tx_stuck_in(tx, dom);
	const struct weft_tx_dom *d = &tx->dom[from & (WEFT_DOMAINS - 1)];

	return from != dom && d->out &&
			       weft_slot_stuck(tx, &tx->slot[d->head & (WEFT_WIN - 1)], now)
		       ? WEFT_CLAIM_STUCK
		       : WEFT_CLAIM_WINDOW;
}

/* Is the oldest lent to a CPU of another domain that has not come for it for so long? */
weft_inline int weft_tx_lent_stuck(const struct weft_tx *tx, __u32 now, __u32 dom)
{
	const struct weft_tx_slot *s = &tx->slot[weft_tx_at(tx->una)];

	return tx->una != tx->nxt && weft_slot_lent(s) && weft_slot_dom(s) != dom &&
	       weft_slot_stuck(tx, s, now);
}

/*
 * Before weft_tx_rescue(), if a claim said WEFT_CLAIM_STUCK: what the CPU that holds up the oldest was lent is
 * taken away. Returns its domain.
 */
weft_inline __u32 weft_tx_unblock_lane(struct weft_tx *tx, __u32 now, __u32 dom)
{
	__u32 from = weft_tx_stuck_in(tx, dom) & (WEFT_DOMAINS - 1);

	if (weft_tx_lent_stuck(tx, now, dom) ||
	    (tx->nxt - tx->una >= WEFT_WIN && weft_tx_full(tx, now, dom) == WEFT_CLAIM_STUCK))
		weft_tx_reclaim(tx, from);
	return from;
}

/* After a claim that said WEFT_CLAIM_STUCK, under the same lock. WEFT_CLAIM_OK, or _WINDOW: all was delivered. */
weft_inline enum weft_claim weft_tx_rescue(struct weft_tx *tx, __u32 now, __u32 dom,
					   struct weft_seg *out)
{
	__u32 from = weft_tx_stuck_in(tx, dom), was;
	enum weft_claim r = WEFT_CLAIM_WINDOW;
	struct weft_tx_dom *d = &tx->dom[from & (WEFT_DOMAINS - 1)];

	was = d->out;
	for (int i = 0; i < 4 && d->out && r == WEFT_CLAIM_WINDOW; i++) {
		__u32 at = d->head & (WEFT_WIN - 1), psn = weft_tx_psn(tx, at);
		struct weft_tx_slot *s = &tx->slot[at];

		if (!weft_slot_stuck(tx, s, now))
			break;
		weft_tx_unlist(tx, s, psn);
		if (weft_tx_delivered(tx, psn))
			continue;
		tx->stuck = from;
		s->st |= WEFT_SLOT_RESCUED;
		s->ev = out->ev = weft_tx_path(tx, psn);
		weft_tx_segment(tx, psn, weft_slot_ssn(tx, s), weft_slot_seg(s), out);
		out->flags |= WEFT_F_RETX;
		tx->retransmits++;
		weft_tx_list(tx, s, psn, now, dom);
		r = WEFT_CLAIM_OK;
	}
	out->from = from;
	out->freed = was - d->out;
	return r;
}

/* Nothing to send. Another CPU may have read a newer prod, and claimed, since this one was read. */
weft_inline int weft_tx_idle(const struct weft_tx *tx, __u32 prod)
{
	return !tx->nlost && weft_psn_diff(prod, tx->cons) <= 0;
}

/*
 * Claim the next segment for a token in domain `dom`: the oldest lost PSN, else
 * a new one. sq is shared with the application and untrusted: each field is
 * read once. It is of the ring that holds work request `at`, which was `cons` before the lock
 * was taken. now: ticks.
 */
weft_inline enum weft_claim weft_tx_claim(struct weft_tx *tx, const struct weft_wqe *sq, __u32 at,
					  __u32 prod, __u32 wnd, __u32 now, __u32 dom,
					  struct weft_seg *out)
{
	struct weft_tx_slot *s;
	struct weft_wqe *q;
	__u32 psn, seg, w;
	__u64 bit;

	out->freed = 0;
	if (tx->err)
		return WEFT_CLAIM_ERROR;
	if (weft_tx_idle(tx, prod))
		return weft_tx_lent_stuck(tx, now, dom) ? WEFT_CLAIM_STUCK : WEFT_CLAIM_EMPTY;
	if (tx->inflight >= wnd)
		return WEFT_CLAIM_CWND;

	psn = tx->nlost ? weft_tx_next_lost(tx, dom) : tx->nxt;
	if (psn != tx->nxt) {
		if (weft_tx_refused(tx, psn)) {
			if (!tx->probe || weft_tx_is_free(tx, psn))
				return WEFT_CLAIM_RNR;
			tx->probe = 0;
		}
		s = &tx->slot[weft_tx_at(psn)];
		tx->lost[weft_psn_word(psn)] &= ~weft_psn_bit(psn);
		tx->nlost--;
		tx->nfree -= weft_tx_is_free(tx, psn);
		if (psn == tx->back) {
			tx->back++;
			weft_tx_skip(tx);
			tx->turn = tx->back;
		}
		s->ev = out->ev = weft_tx_path(tx, psn);
		weft_tx_segment(tx, psn, weft_slot_ssn(tx, s), weft_slot_seg(s), out);
		/* what was lent and taken away has not gone out before */
		if (s->tries) {
			out->flags |= WEFT_F_RETX;
			tx->retransmits++;
		}
		weft_tx_list(tx, s, psn, now, dom);
		return WEFT_CLAIM_OK;
	}

	/* what was refused is on its way as a probe; all that is new lies behind it */
	if (tx->rnr)
		return WEFT_CLAIM_RNR;
	/* what is lost has to wait, and nothing is new */
	if (weft_psn_diff(prod, tx->cons) <= 0)
		return WEFT_CLAIM_WINDOW;
	s = &tx->slot[weft_tx_at(psn)];
	if (psn - tx->una >= WEFT_WIN || weft_slot_state(s) == WEFT_SLOT_OUT)
		return weft_tx_full(tx, now, dom);
	if (prod - tx->done > tx->sq_mask + 1u) {
		tx->err = WEFT_TX_ERR_RING;
		tx->err_ssn = tx->cons;
		return WEFT_CLAIM_ERROR;
	}
	q = &tx->wqe[tx->cons & (WEFT_SQ_DEPTH - 1)];
	if (!tx->seg) {
		const volatile struct weft_wqe *src;

		/* the oldest's copy has that place, and its ACK will go on here */
		if (!weft_tx_copies(tx))
			return WEFT_CLAIM_WINDOW;
		/* who has gone on to another ring has a token out, which does what this one cannot */
		if (weft_sq_ring(tx->cons ^ at, tx->sq_mask))
			return WEFT_CLAIM_MOVED;
		src = &weft_after(sq, prod)[tx->cons & (WEFT_SQ_DEPTH - 1)];
		q->op = src->op;
		if (weft_wqe_atomic(q->op) && (!weft_tx_atomic_may(tx) || weft_tx_puts_out(tx)))
			return WEFT_CLAIM_WINDOW;
		q->flags = src->flags;
		q->loff = src->loff;
		q->roff = src->roff;
		q->len = src->len;
		q->lkey = src->lkey;
		q->rkey = src->rkey;
		q->posted = src->posted;
		q->operand = src->operand;
		q->compare = src->compare;
		q->moff = src->moff;
		q->mlen = src->mlen;
		if (q->mlen > WEFT_MSG_MAX || q->moff > q->mlen || q->len > q->mlen - q->moff ||
		    q->op >= WEFT_WQE_OP_COUNT || (weft_wqe_atomic(q->op) && q->len != 8) ||
		    (q->flags && weft_wqe_own(q->op))) {
			tx->err = WEFT_TX_ERR_RING;
			tx->err_ssn = tx->cons;
			return WEFT_CLAIM_ERROR;
		}
		/* once for all its segments: CPUs take turns with them, and each would want the line for itself */
		q->asn = tx->rsn;
		if (tx->strict)
			tx->free_now = weft_tx_apart(tx, q);
	}
	if (!weft_tx_may_go(tx, dom))
		return WEFT_CLAIM_WINDOW;
	bit = weft_psn_bit(psn);
	w = weft_psn_word(psn);
	weft_tx_unmark(tx, psn);
	if (weft_wqe_own(q->op)) {
		if (!weft_tx_own(tx, psn - 1))
			tx->puts = psn;
		/*
		 * The bit, which is clear here; and behind una's store, before the slot's: who takes an
		 * answer reads those the other way round, without the lock.
		 */
		weft_fetched(__sync_fetch_and_add(&tx->own[w], bit));
		if (weft_wqe_atomic(q->op)) {
			tx->apsn[tx->atomics & (WEFT_ATOMICS - 1)] = psn;
			q->asn = tx->atomics++;
			tx->atomics_out++;
		}
	}
	seg = weft_tx_cut(tx, q, dom);
	weft_slot_assign(s, tx->cons, seg, WEFT_SLOT_IDLE);
	if (!tx->seg) {
		tx->msgs++;
		tx->bytes += q->len;
	}
	if (weft_tx_segment(tx, psn, tx->cons, seg, out)) {
		tx->last[w] |= bit;
		tx->cons++;
		tx->seg = tx->cut = 0;
	} else {
		tx->seg++;
	}
	if (tx->strict)
		weft_tx_mark_free(tx, out);
	s->ev = out->ev = weft_tx_path(tx, psn);
	if (out->flags & WEFT_F_LAST) {
		tx->ends++;
		if (weft_wqe_takes(q->op, q->flags))
			tx->rsn++;
	}
	if (!++tx->nxt)
		tx->wraps++;
	/* none goes again: nor has this one to wait */
	if (tx->strict && tx->back == psn)
		tx->back = tx->nxt;
	weft_tx_list(tx, s, psn, now, dom);
	return WEFT_CLAIM_OK;
}

/*
 * Tokens that have been asked for in a domain and will claim soon: until they
 * have, what is missing must not be asked for again. Clones that got lost on
 * the way are forgotten after a while.
 */
weft_inline __u32 weft_tx_growing(struct weft_tx *tx, __u32 dom, __u32 now)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	if (d->growing && now - d->grow_ts > WEFT_TICKS_US(500))
		d->growing = 0;
	return d->growing;
}

weft_inline void weft_tx_grow(struct weft_tx *tx, __u32 dom, __u32 n, __u32 now)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	d->growing += n;
	d->grow_ts = now;
}

/* One of them has come to claim. */
weft_inline void weft_tx_grown(struct weft_tx *tx, __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	if (d->growing)
		d->growing--;
}

#endif
