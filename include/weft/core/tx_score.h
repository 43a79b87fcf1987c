/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send scoreboard: marks what ACKs say, convicts losses, looks for time-outs. */
#ifndef WEFT_CORE_TX_SCORE_H
#define WEFT_CORE_TX_SCORE_H

#include <weft/core/tx_claim.h>

/* An ACK, as received. */
struct weft_ack {
	__u32 psn, ts, cum, msn, sack_base;
	__u64 sack;
	__u8 flags;
	__u8 answer; /* 1: weft_tx_take() took what it brought, and that is in memory */
	__u8 rnr;    /* 1: an RNR: no receive for it. As any ACK, but its own PSN is not placed: */
	__u8 seq;    /* 1: a SEQ: it was not the next */
	__u32 epoch; /* with WEFT_F_RQ: receives that the peer has posted */
};

/*
 * What scoring an ACK, or a time-out, did. Differences of counters in memory,
 * not counted up: a verifier that knew the values would walk every combination.
 */
struct weft_score {
	__u32 freed; /* tokens that left `inflight`, all of domain `dom`; negative: more are in it */
	__u32 dom;
	__u32 lost;     /* PSNs convicted and not delivered; not of an ACK */
	__u32 progress; /* work requests completed */
	__u32 surplus;  /* 1: the token was not expected: convicted before, or a duplicate */
	__u32 repair;   /* 1: weft_tx_repair() must come before anything is claimed */
};

/* A token will not come back. */
weft_inline void weft_tx_convict(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn)
{
	weft_tx_unlist(tx, s, psn);
	if (weft_tx_delivered(tx, psn))
		return;
	weft_tx_lose(tx, s, psn);
	tx->losses++;
	weft_path_lost(&tx->path, s->ev);
}

/* Is the PSN that it answers not placed, and to be sent again? */
weft_inline int weft_ack_missed(const struct weft_ack *a)
{
	return a->rnr | a->seq;
}

/* Can it be: an ACK of what was sent, of no more, and of no more messages than were cut? */
weft_inline int weft_tx_sane(const struct weft_tx *tx, const struct weft_ack *a)
{
	__u32 used = tx->nxt - tx->una, age = tx->nxt - a->psn;
	__s32 ahead = weft_psn_diff(a->cum, tx->una);

	return !((__s32)age < 1 || (ahead > 0 && (__u32)ahead > used) || (a->sack_base & 63) ||
		 weft_psn_diff(a->msn, tx->ends) > 0);
}

enum weft_take {
	WEFT_TAKE_BAD = -1, /* that was not asked for */
	WEFT_TAKE_NO = 0,   /* it has had its answer */
	WEFT_TAKE_YES = 1,  /* put it where `out` says, then weft_tx_ack() with `answer` */
};

#define WEFT_TAKE_TRIES 4

/*
 * An answer of len bytes came for psn, and it is sane: may they be put into memory? Nobody else gets
 * a YES for this PSN, so a late one cannot change memory (I2). Not under the lock: twice with every
 * packet it would cost READ some 6% of its bandwidth. What the slot says is this PSN's if una,
 * read behind it, has not passed that; whoever then puts his mark into just this has it, and nothing else
 * delivers it. If the slot changes all the time it says NO: then it is asked for again.
 */
weft_inline enum weft_take weft_tx_take(struct weft_tx *tx, __u32 psn, __u32 len,
					struct weft_seg *out)
{
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)], was, mine;
	__u32 own = weft_tx_own(tx, psn);

	for (int i = 0; i < WEFT_TAKE_TRIES; i++) {
		was.word = *(volatile __u64 *)&s->word;
		tx = weft_after(tx, was.word);
		if (*(volatile __u32 *)&tx->nxt - psn - 1 >= WEFT_WIN || weft_tx_delivered(tx, psn))
			return WEFT_TAKE_NO;
		if (!own)
			return WEFT_TAKE_BAD;
		if (was.seg_hi & WEFT_SLOT_TAKEN)
			return WEFT_TAKE_NO;
		weft_tx_segment(tx, psn, weft_slot_ssn(tx, &was), weft_slot_seg(&was), out);
		if (out->len != len)
			return WEFT_TAKE_BAD;
		mine.word = was.word;
		mine.seg_hi |= WEFT_SLOT_TAKEN;
		if (__sync_val_compare_and_swap(&s->word, was.word, mine.word) == was.word)
			return WEFT_TAKE_YES;
	}
	return WEFT_TAKE_NO;
}

/*
 * The peer refused psn; if that stands for several WRITEs, the one `nth` of them, and those before it
 * are placed: it stands for the rest from now on, which nobody sends any more. Returns 1 if that
 * can be: what has been delivered was answered before, and its answer is a stray.
 */
weft_inline int weft_tx_nak(struct weft_tx *tx, __u32 psn, __u32 code, __u32 nth)
{
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

	if (tx->nxt - psn - 1 >= WEFT_WIN || weft_tx_delivered(tx, psn))
		return 0;
	if (tx->err)
		return 1;
	if (nth && nth <= weft_slot_more(s)) {
		s->ssn += nth;
		s->seg_hi -= nth;
	}
	if (psn == tx->una)
		tx->done = weft_slot_ssn(tx, s);
	tx->err = WEFT_TX_ERR_NAK;
	tx->err_info = code;
	tx->err_ssn = weft_slot_ssn(tx, s);
	return 1;
}

/*
 * Convict what domain dom has had out for more than `bound` before `ref`, at most
 * 8 a call. A time stamp up to `slack` ahead of ref is not old: half a clock when
 * either may be the later one; when ref is the present, only what another CPU may
 * be ahead of it, so that a token is found however long nobody looked.
 */
#define WEFT_TX_SERIAL (1u << 31)
#define WEFT_TX_SKEW   (1u << 20) /* 67 ms */

weft_inline void weft_tx_overdue(struct weft_tx *tx, __u32 dom, __u32 ref, __u32 bound, __u32 slack)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	for (int i = 0; i < 8 && d->out; i++) {
		__u32 at = d->head & (WEFT_WIN - 1);

		if (ref - tx->slot[at].ts + slack <= bound + slack)
			break;
		weft_tx_convict(tx, &tx->slot[at], weft_tx_psn(tx, at));
	}
}

/* Those of them whose oldest token has been out, or lane not settled, for more than rto. Without a branch as well. */
weft_inline __u32 weft_tx_late(const struct weft_tx *tx, __u32 now, __u32 rto)
{
	__u32 late = 0;

#pragma GCC unroll 16
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		__u32 age = now - tx->slot[tx->dom[d].head & (WEFT_WIN - 1)].ts + WEFT_TX_SKEW;
		__u32 out = *(const volatile __u32 *)&tx->dom[d].out;
		__u32 lent = *(const volatile __u32 *)&tx->lane[d].state;

		out = (out | -out) & ((__u64)rto + WEFT_TX_SKEW - age) >> 32;
		age = now - tx->lane[d].ts + WEFT_TX_SKEW;
		lent |= -lent;
		out |= lent & ((__u64)rto + WEFT_TX_SKEW - age) >> 32;
		__asm__ volatile("" : "+r"(out));
		late |= (out >> 31) << d;
	}
	return late;
}

/*
 * The reorder window; but when most of the PSN window waits for what may be lost,
 * a needless repeat costs less than a standstill: two RTTs, however often
 * conviction was wrong before.
 */
weft_inline __u32 weft_tx_patience(const struct weft_tx *tx)
{
	__u32 wnd = weft_reo_wnd(&tx->rtt), two = tx->rtt.srtt8 >> 2;

	/* one path and one queue: who is overtaken there is lost, and the peer takes nothing behind it */
	if (tx->strict && !weft_tx_mixed(tx))
		return 0;
	if (tx->nxt - tx->una <= WEFT_WIN / 4 * 3 || two >= wnd)
		return wnd;
	return two < WEFT_REO_MIN ? WEFT_REO_MIN : two;
}

/* Is the oldest token of the domain overdue, as weft_tx_overdue() says by what was acknowledged last? */
weft_inline int weft_tx_overtaken(const struct weft_tx *tx, __u32 dom)
{
	const struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];
	__u32 ts = tx->slot[d->head & (WEFT_WIN - 1)].ts;

	return d->out && d->rack_ts - ts + WEFT_TX_SERIAL > weft_tx_patience(tx) + WEFT_TX_SERIAL;
}

/*
 * Score an ACK. Returns 0, or -1 when it acknowledges what was never sent (the
 * caller drops it; nothing has changed). conf: the configured cwnd. What it shows to be lost is a
 * matter of its own, r->repair: as a rule nothing, and a verifier would walk that once for
 * each way through this.
 */
weft_inline int weft_tx_ack(struct weft_tx *tx, const struct weft_ack *a, __u32 now, __u32 conf,
			    struct weft_score *r)
{
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(a->psn)];
	struct weft_cc_event ev = { .now = now, .inflight = tx->inflight, .ev = s->ev };
	__u32 rtt = now - a->ts;
	__u32 dom = weft_slot_dom(s) & (WEFT_DOMAINS - 1);
	__s32 ahead = weft_psn_diff(a->cum, tx->una);
	__u32 age = tx->nxt - a->psn; /* 1 for the newest PSN sent */
	__u32 done = tx->done, surplus = tx->surplus;
	int newest = 0; /* it answers the last transmission of its PSN */
	__u64 bit, own;

	r->dom = dom;
	if (!weft_tx_sane(tx, a))
		return -1;
	if (age > WEFT_WIN) {
		/* so late that its PSN has been sent again, delivered and left behind */
		tx->surplus++;
		r->freed = r->progress = r->repair = 0;
		r->surplus = 1;
		return 0;
	}

	if (ahead > 0 && (tx->strict || weft_tx_cum_news(tx, a->cum)))
		weft_tx_cum(tx, a->cum);
	if (tx->strict)
		weft_tx_placed(tx, weft_ack_missed(a) || weft_tx_is_free(tx, a->psn) ||
						   ahead > (__s32)(a->psn - tx->una)
					   ? a->cum
					   : a->psn + 1);
	bit = weft_psn_bit(a->psn);
	own = tx->own[weft_psn_word(a->psn)] & bit;
	if (weft_psn_diff(a->psn, tx->una) >= 0 && !weft_ack_missed(a))
		weft_tx_mark(tx, a->psn & ~63u, a->answer ? bit : bit & ~own);
	/* before una leaves it behind */
	if (a->answer && tx->atomics_out)
		tx->atomics_out -=
			weft_wqe_atomic(tx->wqe[weft_slot_ssn(tx, s) & (WEFT_SQ_DEPTH - 1)].op);
	if (weft_psn_diff(a->sack_base + 63, tx->una) >= 0) {
		__s32 lo = weft_psn_diff(tx->una, a->sack_base);
		__s32 hi = weft_psn_diff(tx->nxt, a->sack_base);

		/* only PSNs from una to nxt - 1 can be news */
		if (hi > 0 && a->sack)
			weft_tx_mark(tx, a->sack_base,
				     a->sack & ~tx->own[weft_psn_word(a->sack_base)] &
					     weft_mask(lo < 0 ? 0 : lo, hi > 64 ? 64 : hi));
	}
	weft_tx_slide(tx);
	/* with WRITEs alone una is there by now, and other CPUs keep the cache line that this is in */
	if (!tx->strict && weft_psn_diff(a->cum, tx->una) > 0 && weft_tx_cum_news(tx, a->cum))
		tx->cum = a->cum;
	/* its cumulative PSN may lag behind its own SACK; going back to what is delivered would wait for ever */
	if (tx->strict)
		weft_tx_placed(tx, tx->una);

	/* a SEQ may come home when its PSN has gone out again */
	if (weft_slot_state(s) == WEFT_SLOT_OUT && !(a->seq && s->ts != a->ts)) {
		/* the echoed time tells the original from its retransmission */
		weft_tx_unlist(tx, s, a->psn);
		newest = s->ts == a->ts;
		if (s->tries > 1 && !newest && !(s->st & WEFT_SLOT_RESCUED)) {
			tx->spurious++;
			weft_reo_spurious(&tx->rtt);
		}
		/* sent since that last went back, and refused all the same: there is a new gap */
		if (a->seq && weft_psn_diff(a->psn, tx->back) < 0 &&
		    weft_psn_diff(a->psn, tx->cum) >= 0)
			weft_tx_go_back(tx, tx->cum, 1);
		/* what it asked for is not here, and on no other CPU: ask again */
		if ((own || weft_ack_missed(a)) && !weft_tx_delivered(tx, a->psn) &&
		    !(s->seg_hi & WEFT_SLOT_TAKEN))
			weft_tx_lose(tx, s, a->psn);
	} else {
		tx->surplus++;
		/* convicted, not yet sent again, and here after all */
		if (weft_slot_state(s) == WEFT_SLOT_LOST) {
			tx->spurious++;
			weft_reo_spurious(&tx->rtt);
			/* marked above, or its answer is on its way into memory */
			if ((!own && !weft_ack_missed(a)) || weft_tx_delivered(tx, a->psn))
				weft_slot_set(s, WEFT_SLOT_IDLE);
		}
	}
	if (a->flags & WEFT_F_RQ)
		weft_tx_resume(tx, a->epoch, now);
	if (a->rnr && !weft_tx_delivered(tx, a->psn))
		weft_tx_rnr(tx, a->psn, a->ts, a->epoch, now);
	if (tx->rnr && weft_tx_delivered(tx, tx->rnr_psn))
		weft_tx_unblock(tx);
	weft_reo_calm(&tx->rtt);
	tx->rtt.backoff = 0;
	if (rtt < WEFT_TICKS_US(10000000)) {
		weft_rtt_sample(&tx->rtt, rtt);
		/* an older transmission may have gone out from another domain */
		if (newest && weft_psn_diff(a->ts, tx->dom[dom].rack_ts) > 0)
			tx->dom[dom].rack_ts = a->ts;
	}
	r->repair = weft_tx_overtaken(tx, dom) || weft_tx_unsettled(tx);
	r->freed = ev.inflight - tx->inflight;
	r->progress = tx->done - done;
	r->surplus = tx->surplus - surplus;

	ev.acked = 1;
	ev.rtt = rtt;
	if (a->flags & WEFT_F_CE) {
		ev.ce = 1;
		tx->ce++;
	}
	weft_cc_update(&tx->cc, conf, &ev);
	return 0;
}

/*
 * The ACK that was scored last asked for it: convict what it has overtaken, and see whose turn it
 * is. r->dom is as that left it; r->freed and r->lost are of this.
 */
weft_inline void weft_tx_repair(struct weft_tx *tx, __u32 now, __u32 conf, struct weft_score *r)
{
	struct weft_cc_event ev = { .now = now, .inflight = tx->inflight };
	__u32 dom = r->dom & (WEFT_DOMAINS - 1), losses = tx->losses;

	weft_tx_overdue(tx, dom, tx->dom[dom].rack_ts, weft_tx_patience(tx), WEFT_TX_SERIAL);
	weft_tx_settle(tx);
	r->freed = ev.inflight - tx->inflight;
	r->lost = tx->losses - losses;
	ev.lost = r->lost;
	weft_cc_update(&tx->cc, conf, &ev);
}

/*
 * The retransmission timer asks for a look: of the domains in turn, the next that
 * is late loses its tokens that have been out for longer than the RTO. Returns 1
 * if there were any. A stalled CPU cannot cause a storm: every conviction needs its
 * own age, and the RTO doubles.
 */
weft_inline int weft_tx_timeout(struct weft_tx *tx, __u32 now, __u32 conf, struct weft_score *r)
{
	struct weft_cc_event ev = { .now = now, .inflight = tx->inflight, .timeout = 1 };
	__u32 rto = weft_rto(&tx->rtt), losses = tx->losses, done = tx->done, was;
	__u32 late = weft_tx_late(tx, now, rto);
	__u32 after = late & ~((2u << (tx->looked & (WEFT_DOMAINS - 1))) - 1);
	__u32 dom = weft_ctz(after ? after : late) & (WEFT_DOMAINS - 1);

	tx->looked = r->dom = dom;
	r->surplus = r->repair = 0;
	if (late)
		weft_tx_reclaim(tx, dom);
	weft_tx_slide(tx);
	was = tx->inflight;
	weft_tx_overdue(tx, dom, now, rto, WEFT_TX_SKEW);
	r->freed = ev.inflight - tx->inflight;
	r->lost = tx->losses - losses;
	r->progress = tx->done - done;
	if (tx->inflight == was)
		return 0;
	weft_tx_settle(tx);
	tx->timeouts++;
	if (tx->rtt.backoff < 7)
		tx->rtt.backoff++;
	ev.lost = r->lost;
	weft_cc_update(&tx->cc, conf, &ev);
	return 1;
}

#endif
