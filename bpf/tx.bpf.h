/* SPDX-License-Identifier: GPL-2.0 */
/* Requester: what comes back: REPLY, ACK (score, then refill), RESUME, NAK. */
#ifndef WEFT_TX_BPF_H
#define WEFT_TX_BPF_H

#include "fill.bpf.h"

/* ---- REPLY: put what it brings into memory, then it is an ACK ---- */

static __always_inline void ack_of(const struct work *wk, struct weft_ack *a)
{
	const struct weft_hdr *h = &wk->pkt.u.h;

	a->psn = bpf_ntohl(h->psn);
	a->ts = bpf_ntohl(h->ts);
	a->cum = bpf_ntohl(h->ack.cum);
	a->msn = bpf_ntohl(h->ack.msn);
	a->sack_base = bpf_ntohl(h->ack.sack_base);
	a->sack = bpf_be64_to_cpu(h->ack.sack);
	a->flags = h->flags;
	a->answer = wk->answer;
	a->rnr = h->op == WEFT_OP_RNR;
	a->seq = h->op == WEFT_OP_SEQ;
	a->epoch = bpf_ntohl(h->ack.epoch);
}

/* 0: go on with it as an ACK; else it is dropped. */
STEP int tx_reply(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		  struct weft_stats *st, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_mr_ent *mr;
	const struct weft_seg *seg;
	struct weft_ack a;
	int take = 0;
	__u32 len;

	if (!wk || !q || !ctl || !st)
		return -1;
	len = wk->pkt.len;
	seg = &wk->seg;
	/* marked on its way here; the request was on its way there */
	if (wk->pkt.ce)
		wk->pkt.u.h.flags |= WEFT_F_CE;
	ack_of(wk, &a);
	bpf_spin_lock(&q->lock);
	/* or it is dropped as a whole below */
	if (weft_tx_sane(&q->tx, &a))
		take = weft_tx_take(&q->tx, a.psn, len, &wk->seg);
	bpf_spin_unlock(&q->lock);
	if (take < 0 || len > WEFT_PAYLOAD_MAX) {
		st->drop.length++;
		return -1;
	}
	if (!take)
		return 0;
	mr = local_mr(ctl, seg, WEFT_ACCESS_LOCAL_WRITE);
	if (!mr || place(ctx, mr->pool, mr->off + seg->loff, wk->pkt.hl, len)) {
		fail_local(st, ctl, slot, seg->msn);
		st->drop.memory++;
		return -1;
	}
	wk->answer = 1;
	count(st, rx_reply);
	st->count.rx_bytes += len;
	return 0;
}

/* ---- ACK: score, then refill ---- */

#define TO_NOBODY (-2) /* where a slot is meant: the token is absorbed */

STEP int tx_ack(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		struct weft_stats *st, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	__u32 dom, now, conf, prod, wnd, doms;
	enum growth grow = GROW_NO;
	enum weft_claim c = WEFT_CLAIM_EMPTY;
	const struct weft_ring *sq;
	struct weft_ring *ring;
	struct weft_score *r;
	struct weft_ack a;
	__s32 room, delta;
	bool yield, last = false;
	int bad;

	if (!wk || !q || !ctl || !cfg || !run || !st)
		return V_DROP;
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, owner);
	r = &wk->score;
	ack_of(wk, &a);
	dom = my_domain(cfg);
	now = now_ticks();
	conf = READ_ONCE(ctl->cwnd);

	prod = READ_ONCE(ring->sq_prod);
	sq = next_ring(ctl, ring, q, wk, prod);
	if (!sq)
		return drop(st, owner);
	room = (__s32)cfg->budget - READ_ONCE(run->dom[dom].inflight);
	/* in memory: a verifier that knew its values would walk all that follows for each */
	WRITE_ONCE(wk->hand, -1);
	/* more than there may be, after convictions that were none: they would go round for ever */
	if (unlikely(room < (__s32)cfg->budget - (__s32)cfg->hard))
		WRITE_ONCE(wk->hand, TO_NOBODY);
	else if (unlikely(room <= 0) && turn_over(a.psn) && any_waits(run, dom))
		WRITE_ONCE(wk->hand, next_turn(dom));
	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	bad = weft_tx_ack(&q->tx, &a, now, conf, r);
	if (!bad) {
		wnd = window(cfg, run, &q->tx);
		doms = domains(ctl, &q->tx, sq);
		yield = READ_ONCE(wk->hand) != -1 || (room <= 0 && crowds(cfg, run, &q->tx, dom)) ||
			astray(&q->tx, doms, dom);
		if (!yield && q->tx.inflight + 1 < wnd)
			grow = growth(ctl, &q->tx, sq, doms, prod, wnd, dom, now, room, &wk->cpu);
		/* who has nothing to send gives it up below: or its next post would not ring */
		if (yield && !weft_tx_idle(&q->tx, prod)) {
			c = WEFT_CLAIM_CWND;
			last = !q->tx.inflight;
		} else if (grow == GROW_NO) {
			c = claim(&q->tx, ring, sq, wk, prod, wnd, now, dom);
			if (c == WEFT_CLAIM_EMPTY)
				weft_ring_absorb(&q->tx, ring);
		}
		publish(&q->tx, ring);
		if (unlikely(q->tx.rnr || a.flags & WEFT_F_RQ || q->tx.told_rnr))
			publish_rnr(&q->tx, ring);
		if (unlikely(a.rnr))
			WRITE_ONCE(ring->tx_rnrs, ring->tx_rnrs + 1);
	}
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	if (unlikely(bad)) {
		if (READ_ONCE(wk->hand) >= 0)
			wait_turn(run, dom, READ_ONCE(wk->hand));
		return drop(st, unsent);
	}

	count(st, rx_ack);
	st->count.rx_rnr += a.rnr;
	st->count.rx_seq += a.seq;
	st->count.lost += r->lost;
	st->count.surplus += r->surplus;
	wk->acked = now;
	wk->wrote = r->progress;
	if ((c == WEFT_CLAIM_EMPTY || c == WEFT_CLAIM_MOVED) && grow == GROW_NO)
		c = claim_again(cfg, run, ctl, q, ring, wk, c, prod, now, dom, &delta);
	if (r->progress || c == WEFT_CLAIM_ERROR)
		wake(st, ctl, &ring->tx_fence, &ring->arm_tx, WEFT_EVENT_TX);
	account(run, r->dom, r->freed, dom, c == WEFT_CLAIM_OK);
	account_rescue(run, &wk->seg, c);
	account_delta(run, delta);

	if (unlikely(grow == GROW_MOVE)) {
		if (make_template(ctx, WEFT_DB_GROW, ctl->qpn, 0, 0))
			return drop(st, fill);
		count(st, moved);
		return verdict_redirect(st, bpf_redirect_map(&cpus, wk->cpu, 0));
	}
	if (unlikely(grow == GROW_TWIN)) {
		if (make_template(ctx, WEFT_DB_FILL, ctl->qpn, 0, 0))
			return drop(st, fill);
		/* two clones: this frame may have been born small, and one more token would be lost */
		return spawned(st, wk, 2, bpf_redirect_map(&spawn2, 0, BPF_F_BROADCAST));
	}
	if (c == WEFT_CLAIM_OK) {
		/* a post came after all: whoever's turn it was waits on */
		if (unlikely(READ_ONCE(wk->hand) >= 0))
			wait_turn(run, dom, READ_ONCE(wk->hand));
		wk->now = now;
		return V_FILL;
	}
	if (READ_ONCE(wk->hand) == -1)
		WRITE_ONCE(wk->hand, next_turn(dom));
	/* after the look, or it would get its own */
	if (last)
		wait_turn(run, dom, slot);
	if (READ_ONCE(wk->hand) >= 0)
		return V_HAND;
	count(st, absorbed);
	return V_DROP;
}

/* The peer has posted receives; what starts, starts as after a doorbell. */
STEP int tx_resume(struct weft_stats *st, const struct weft_qpctl *ctl, __u32 epoch, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	__u32 now = now_ticks();
	struct weft_ring *ring;

	if (!q || !ctl || !st)
		return -1;
	ring = ring_get(ctl);
	if (!ring)
		return -1;
	bpf_spin_lock(&q->lock);
	weft_tx_resume(&q->tx, epoch, now);
	publish_rnr(&q->tx, ring);
	bpf_spin_unlock(&q->lock);
	count(st, rx_resume);
	return 0;
}

/* The peer refused: the work request fails, and the QP with it. */
STEP int tx_nak(struct weft_stats *st, const struct weft_qpctl *ctl, const struct work *wk,
		__u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_hdr *h;
	struct weft_ring *ring;
	bool known;
	__u32 psn;

	if (!st || !ctl || !wk || !q)
		return V_DROP;
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, owner);
	h = &wk->pkt.u.h;
	/* the refused PSN, not the one that this NAK happens to answer */
	psn = bpf_ntohl(h->nak.psn);
	bpf_spin_lock(&q->lock);
	/* a READ is carried out again for a duplicate, also when it is long over and the MR gone */
	known = weft_tx_nak(&q->tx, psn, bpf_ntohl(h->nak.code), bpf_ntohl(h->nak.nth));
	if (known) {
		publish(&q->tx, ring);
		publish_err(&q->tx, ring);
	}
	bpf_spin_unlock(&q->lock);
	if (!known)
		return drop(st, unsent);
	count(st, rx_nak);
	tele_event(slot, nak, 0, bpf_ntohl(h->nak.code), psn, 0);
	wake(st, ctl, &ring->tx_fence, &ring->arm_tx, WEFT_EVENT_TX);
	return V_DROP;
}

#endif
