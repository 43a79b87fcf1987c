/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Segments lent to a CPU, and ACKs that it has not scored yet: several packets for one lock. */
#ifndef WEFT_CORE_TX_LANE_H
#define WEFT_CORE_TX_LANE_H

#include <weft/core/tx_cut.h>
#include <weft/core/tx_mark.h>

/*
 * The lock, and the lines that it protects, go back and forth between CPUs. In the midst of a long
 * WRITE a CPU therefore takes it for one ACK in four (tx_bulk.h): then the next segments of its run are lent
 * to it: their PSNs are given out, and nothing else is said of them. The tokens that come next take
 * them without the lock, and leave their ACKs here (weft_tx_ahead). With the next lock ACKs are scored
 * and segments listed in the order in which that happened (weft_tx_collect).
 *
 * So until then it is as if those ACKs were late. An ACK here and the segment that its token took make one
 * token, which the former PSN stands for: the books are exact at any time. What is lent goes before all else;
 * should its CPU not come back, or its tokens be lost, then a time-out, or who is blocked, takes both
 * away (weft_tx_reclaim): what has gone out is listed, what has not is sent by others.
 *
 * A lane belongs for ever to the CPU that was the first to borrow in its domain; others there do
 * without. That and a compare-and-swap keep it apart from those who reclaim. Where a NIC brings ACKs to
 * another CPU than sent the packets, nobody's tokens come home to his lane: weft_tx_foreign() sees that.
 */

/* A plain ACK, as its token comes home to a CPU that may have been lent something. */
struct weft_plain {
	__u32 psn, ts, cum; /* as received */
	__u32 dom, who;     /* domain of this CPU; the CPU, + 1 */
	__u32 was;          /* the lane's state, as it was read */
	__u32 now;          /* send time of what its token takes */
};

/* The nth of what is lent. */
weft_inline void weft_lane_segment(const struct weft_tx *tx, const struct weft_lane *l, __u32 nth,
				   struct weft_seg *out)
{
	weft_wqe_segment(&l->wqe, tx->payload, l->first + nth, l->ssn, l->seg + nth, out);
	out->ev = tx->slot[weft_tx_at(l->first + nth)].ev;
	out->freed = 0;
}

/*
 * Without the lock: may its token take what is lent, and leave its ACK here? 1: weft_tx_go() says whether
 * it does. What is read of the segment is it then: until it is reclaimed nobody changes it.
 */
weft_inline int weft_tx_ahead(struct weft_tx *tx, struct weft_plain *p, struct weft_seg *out)
{
	__u32 dom = p->dom & (WEFT_DOMAINS - 1), sent;
	struct weft_lane *l = &tx->lane[dom];

	p->was = *(volatile __u32 *)&l->state;
	sent = p->was & 0xff;
	if (l->who != p->who || sent >= p->was >> 8 || sent >= WEFT_LANE)
		return 0;
	/* its token is of this domain, and its own answer would bring nothing else */
	if (weft_slot_dom(&tx->slot[weft_tx_at(p->psn)]) != dom || weft_tx_own(tx, p->psn) ||
	    *(volatile __u8 *)&tx->err)
		return 0;
	if (!sent || weft_psn_diff(p->cum, l->cum) > 0)
		l->cum = p->cum;
	l->ack[sent].psn = p->psn;
	l->ack[sent].ts = p->ts;
	p->now = l->ts;
	weft_lane_segment(tx, l, sent, out);
	return 1;
}

/* Behind weft_tx_ahead(): 0 if it was reclaimed meanwhile. */
weft_inline int weft_tx_go(struct weft_tx *tx, const struct weft_plain *p)
{
	struct weft_lane *l = &tx->lane[p->dom & (WEFT_DOMAINS - 1)];

	return __sync_val_compare_and_swap(&l->state, p->was, p->was + 1) == p->was;
}

/* An ACK that was left in the lane of domain dom; as weft_tx_ack(), for what that takes. */
weft_inline void weft_tx_heard(struct weft_tx *tx, __u32 psn, __u32 ts, __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

	if (tx->nxt - psn - 1 >= WEFT_WIN) {
		tx->surplus++;
		return;
	}
	/* what it was when it was left here it may not be any more, if the peer lies: a READ's own answer counts */
	if (weft_psn_diff(psn, tx->una) >= 0)
		weft_tx_mark(tx, psn & ~63u, weft_psn_bit(psn) & ~tx->own[weft_psn_word(psn)]);
	weft_reo_calm(&tx->rtt);
	if (weft_slot_state(s) == WEFT_SLOT_OUT && s->ts != ts && s->tries > 1 &&
	    !(s->st & WEFT_SLOT_RESCUED)) {
		tx->spurious++;
		weft_reo_spurious(&tx->rtt);
	}
	/* rescued meanwhile: then another token is out for it, and this one came for nothing */
	if (weft_slot_state(s) == WEFT_SLOT_OUT && weft_slot_dom(s) == (dom & (WEFT_DOMAINS - 1))) {
		weft_tx_unlist(tx, s, psn);
		if (s->ts == ts && weft_psn_diff(ts, d->rack_ts) > 0)
			d->rack_ts = ts;
		if (!weft_tx_delivered(tx, psn))
			weft_tx_lose(tx, s, psn);
		return;
	}
	tx->surplus++;
	if (weft_slot_state(s) == WEFT_SLOT_LOST && weft_tx_delivered(tx, psn)) {
		tx->spurious++;
		weft_reo_spurious(&tx->rtt);
		weft_slot_set(s, WEFT_SLOT_IDLE);
	}
}

/* Score the ACKs of a lane that was in state `st`, and list what went out instead. */
weft_inline void weft_tx_settle_lane(struct weft_tx *tx, struct weft_lane *l, __u32 st, __u32 dom)
{
	__u32 sent = st & 0xff, ahead;

	for (__u32 i = 0; i < WEFT_LANE && i < sent; i++) {
		__u32 psn = l->first + i;
		struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

		weft_tx_heard(tx, l->ack[i].psn, l->ack[i].ts, dom);
		if (tx->nxt - psn - 1 < WEFT_WIN && weft_slot_lent(s))
			weft_tx_list(tx, s, psn, l->ts, dom);
	}
	ahead = l->cum - tx->una;
	if (sent && ahead - 1 < tx->nxt - tx->una && weft_tx_cum_news(tx, l->cum)) {
		weft_tx_cum(tx, l->cum);
		tx->cum = l->cum;
	}
	weft_tx_slide(tx);
}

/* Take away what domain dom was lent. */
weft_inline void weft_tx_reclaim(struct weft_tx *tx, __u32 dom)
{
	struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];
	__u32 st;

	if (!l->state)
		return;
	st = __sync_lock_test_and_set(&l->state, 0);
	weft_tx_settle_lane(tx, l, st, dom);
	for (__u32 i = st & 0xff; i < WEFT_LANE && i < st >> 8; i++) {
		__u32 psn = l->first + i;
		struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

		if (tx->nxt - psn - 1 >= WEFT_WIN || !weft_slot_lent(s))
			continue;
		s->st &= ~WEFT_SLOT_LENT;
		if (!weft_tx_delivered(tx, psn))
			weft_tx_lose(tx, s, psn);
	}
}

/*
 * Has the token of this ACK, of what went out at ts, gone out in a domain that another CPU has been lent
 * something in? Those tokens do not come back to it: weft_tx_disown(). Also without the lock, then as a guess.
 */
weft_inline int weft_tx_foreign(const struct weft_tx *tx, __u32 psn, __u32 ts, __u32 who)
{
	const struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];
	const struct weft_lane *l = &tx->lane[weft_slot_dom(s) & (WEFT_DOMAINS - 1)];

	return *(volatile __u32 *)&l->state && l->who != who && s->ts == ts;
}

/* Then: what it was lent is taken away, and nothing is any more. Returns the domain. */
weft_inline __u32 weft_tx_disown(struct weft_tx *tx, __u32 psn, __u32 ts, __u32 who)
{
	__u32 from = weft_slot_dom(&tx->slot[weft_tx_at(psn)]) & (WEFT_DOMAINS - 1);

	if (weft_tx_goes(tx, psn) && weft_tx_foreign(tx, psn, ts, who)) {
		weft_tx_reclaim(tx, from);
		tx->lane[from].who = WEFT_LANE_NONE;
	}
	return from;
}

/* Without the lock: is there anything for weft_tx_collect()? */
weft_inline int weft_tx_unscored(const struct weft_tx *tx, __u32 dom, __u32 who)
{
	const struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];

	return l->who == who && *(volatile __u32 *)&l->state & 0xff;
}

/* Before another ACK is scored its CPU settles its lane. */
weft_inline void weft_tx_collect(struct weft_tx *tx, __u32 dom, __u32 who)
{
	struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];
	__u32 st = l->state, sent = st & 0xff;

	if (l->who != who || !sent)
		return;
	weft_tx_settle_lane(tx, l, st, dom);
	l->first += sent;
	l->seg += sent;
	l->state = st - (sent << 8 | sent);
}

/*
 * Behind weft_tx_collect(): what is still lent goes before all else. 1: the token takes that. In a window of wnd
 * that is full it is one too many; but if no other of this domain is out, nobody else would come for it.
 */
weft_inline int weft_tx_owed(struct weft_tx *tx, __u32 wnd, __u32 now, __u32 dom, __u32 who,
			     struct weft_seg *out)
{
	struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];
	__u32 psn = l->first;
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

	if (l->who != who || !l->state || l->state & 0xff || tx->err ||
	    (tx->inflight >= wnd && tx->dom[dom & (WEFT_DOMAINS - 1)].out))
		return 0;
	weft_lane_segment(tx, l, 0, out);
	l->first++;
	l->seg++;
	l->state -= 1 << 8;
	/* a peer that lies has acknowledged it, and its place may be another's */
	if (tx->nxt - psn - 1 >= WEFT_WIN || !weft_slot_lent(s))
		return 0;
	weft_tx_list(tx, s, psn, now, dom);
	return 1;
}

/*
 * Could something be lent to it: from the midst of a long WRITE, with nothing out of the ordinary, and
 * tokens enough that come home here? Also without the lock, then as a guess.
 */
weft_inline int weft_tx_lendable(const struct weft_tx *tx, __u32 dom, __u32 who)
{
	const struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];
	const struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	return (l->who == who || !l->who) && d->run_at != d->run_end && d->out > WEFT_LANE;
}

/* Lend what follows in the run of domain dom, which has something. */
weft_inline void weft_tx_lend(struct weft_tx *tx, __u32 now, __u32 dom, __u32 who)
{
	struct weft_lane *l = &tx->lane[dom & (WEFT_DOMAINS - 1)];
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];
	__u32 n = d->run_end - d->run_at, i;

	l->who = who;
	l->first = tx->nxt;
	l->seg = d->run_at;
	l->ssn = tx->cons;
	l->wqe = tx->wqe[tx->cons & (WEFT_SQ_DEPTH - 1)];
	l->ts = now;
	for (i = 0; i < WEFT_LANE && i < n; i++) {
		struct weft_tx_slot *s = &tx->slot[weft_tx_at(tx->nxt)];

		if (weft_slot_state(s) == WEFT_SLOT_OUT)
			break;
		weft_tx_unmark(tx, tx->nxt);
		weft_slot_assign(s, tx->cons, d->run_at++,
				 WEFT_SLOT_LENT | (dom & (WEFT_DOMAINS - 1)) << 4);
		s->ts = now;
		s->ev = weft_path_pick(&tx->path, &tx->ev_next);
		tx->seg++;
		if (!++tx->nxt)
			tx->wraps++;
	}
	*(volatile __u32 *)&l->state = i << 8;
}

#endif
