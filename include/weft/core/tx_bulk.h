/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* In the midst of a long WRITE: a plain ACK is scored, and its token and the next ones get their segments. */
#ifndef WEFT_CORE_TX_BULK_H
#define WEFT_CORE_TX_BULK_H

#include <weft/core/tx_score.h>

/*
 * Behind weft_tx_collect(): is this ACK one of those that make up nearly all of a long transfer? It answers
 * the last transmission of its PSN and shows nothing to be lost, the window is full, or this domain has its
 * share of it, and the next segment is in this domain's run. Everything else is for weft_tx_ack().
 */
weft_inline int weft_tx_is_bulk(const struct weft_tx *tx, const struct weft_plain *p, __u32 wnd,
				__u32 share)
{
	const struct weft_tx_slot *s = &tx->slot[weft_tx_at(p->psn)];
	const struct weft_tx_slot *next = &tx->slot[weft_tx_at(tx->nxt)];
	const struct weft_lane *l = &tx->lane[p->dom & (WEFT_DOMAINS - 1)];
	const struct weft_tx_dom *d = &tx->dom[p->dom & (WEFT_DOMAINS - 1)];
	const struct weft_wqe *q = &tx->wqe[tx->cons & (WEFT_SQ_DEPTH - 1)];
	__u32 used = tx->nxt - tx->una;

	if (!weft_tx_lendable(tx, p->dom, p->who) || l->state || tx->strict || tx->nlost ||
	    tx->rnr || tx->err || used > WEFT_WIN - WEFT_LANE || tx->inflight > wnd ||
	    (tx->inflight + 1 < wnd && d->out + 2 <= share))
		return 0;
	if (tx->nxt - p->psn - 1 >= WEFT_WIN || weft_slot_state(s) != WEFT_SLOT_OUT ||
	    s->ts != p->ts || weft_slot_dom(s) != (p->dom & (WEFT_DOMAINS - 1)) ||
	    weft_tx_own(tx, p->psn) || weft_psn_diff(p->cum, tx->nxt) > 0)
		return 0;
	return weft_slot_state(next) != WEFT_SLOT_OUT && q->op == WEFT_WQE_WRITE && !q->flags &&
	       !weft_tx_overtaken(tx, p->dom);
}

/*
 * It is: *out for its token, and what follows is lent. As weft_tx_ack() and weft_tx_claim(), for this case.
 * 0: congestion control has made the window smaller, and its token is one too many.
 */
weft_inline int weft_tx_bulk(struct weft_tx *tx, struct weft_plain *p, __u32 now, __u32 conf,
			     struct weft_seg *out)
{
	struct weft_cc_event ev = { .now = now,
				    .inflight = tx->inflight,
				    .rtt = now - p->ts,
				    .acked = 1,
				    .ev = tx->slot[weft_tx_at(p->psn)].ev };

	if (weft_psn_diff(p->cum, tx->una) > 0 && weft_tx_cum_news(tx, p->cum)) {
		weft_tx_cum(tx, p->cum);
		tx->cum = p->cum;
	}
	weft_tx_heard(tx, p->psn, p->ts, p->dom);
	weft_tx_slide(tx);
	tx->rtt.backoff = 0;
	if (ev.rtt < WEFT_TICKS_US(10000000))
		weft_rtt_sample(&tx->rtt, ev.rtt);
	weft_cc_update(&tx->cc, conf, &ev);
	if (tx->inflight >= tx->cc.cwnd)
		return 0;
	weft_tx_lend(tx, now, p->dom, p->who);
	weft_tx_owed(tx, ~0u, now, p->dom, p->who, out);
	p->now = now;
	return 1;
}

#endif
