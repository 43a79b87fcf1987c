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
	enum weft_take take = WEFT_TAKE_NO;
	const struct weft_seg *seg;
	struct weft_ack a;
	__u32 len;

	if (!wk || !q || !ctl || !st)
		return -1;
	len = wk->pkt.len;
	seg = &wk->seg;
	/* marked on its way here; the request was on its way there */
	if (wk->pkt.ce)
		wk->pkt.u.h.flags |= WEFT_F_CE;
	ack_of(wk, &a);
	/* or it is dropped as a whole below */
	if (weft_tx_sane(&q->tx, &a))
		take = weft_tx_take(&q->tx, a.psn, len, &wk->seg);
	if (take == WEFT_TAKE_BAD || len > WEFT_PAYLOAD_MAX) {
		st->drop.length++;
		return -1;
	}
	if (take != WEFT_TAKE_YES)
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

/* ---- plain ACKs in the midst of a long WRITE ---- */

static __always_inline void plain_of(const struct work *wk, const struct weft_devcfg *cfg,
				     struct weft_plain *p)
{
	const struct weft_hdr *h = &wk->pkt.u.h;

	p->psn = bpf_ntohl(h->psn);
	p->ts = bpf_ntohl(h->ts);
	p->cum = bpf_ntohl(h->ack.cum);
	p->dom = my_domain(cfg);
	p->who = bpf_get_smp_processor_id() + 1;
}

static __always_inline bool is_plain(const struct work *wk)
{
	return wk->pkt.u.h.op == WEFT_OP_ACK && !wk->pkt.u.h.flags;
}

/*
 * V_FILL: the token of this ACK has its segment, work.seg, which was lent to this CPU. V_PASS: there is none, and
 * tx_bulk() looks.
 */
HOT_STEP int tx_lent(struct work *wk, struct weft_stats *st, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_plain p;

	if (!wk || !st || !q || !cfg || !is_plain(wk))
		return V_PASS;
	plain_of(wk, cfg, &p);
	if (!weft_tx_ahead(&q->tx, &p, &wk->seg) || !weft_tx_go(&q->tx, &p))
		return V_PASS;
	wk->now = p.now;
	wk->queued = 0;
	count(st, rx_ack);
	return V_FILL;
}

/*
 * V_FILL: the token of this ACK has its segment, work.seg. V_DROP: it is not needed any more. V_PASS: this is
 * for tx_ack(), and the ACKs that were left here before it are scored.
 */
STEP int tx_bulk(struct work *wk, struct weft_stats *st, const struct weft_qpctl *ctl, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	enum weft_verdict v = V_PASS;
	struct weft_ring *ring;
	struct weft_plain p;
	__u32 done, now, conf, wnd;
	__s32 delta, more, room;
	int plain;

	if (!wk || !st || !ctl || !q || !cfg || !run)
		return V_PASS;
	plain_of(wk, cfg, &p);
	plain = is_plain(wk);
	/* in a full domain a token goes to who waits; and it may be one too many */
	room = (__s32)cfg->budget - READ_ONCE(run->dom[p.dom].inflight);
	plain &= weft_tx_lendable(&q->tx, p.dom, p.who) && (room > 0 || !any_waits(run, p.dom)) &&
		 room >= (__s32)cfg->budget - (__s32)cfg->hard;
	if (!plain && !weft_tx_unscored(&q->tx, p.dom, p.who))
		return V_PASS;
	ring = ring_get(ctl);
	if (!ring)
		return V_PASS;
	now = now_ticks();
	conf = READ_ONCE(ctl->cwnd);
	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	more = -q->tx.inflight;
	done = q->tx.done;
	weft_tx_collect(&q->tx, p.dom, p.who);
	wnd = window(cfg, run, &q->tx);
	if (plain && weft_tx_is_bulk(&q->tx, &p, wnd, room > 1 ? domain_share(ctl->doms, wnd) : 0))
		v = weft_tx_bulk(&q->tx, &p, now, conf, &wk->seg) ? V_FILL : V_DROP;
	done = q->tx.done - done;
	publish(&q->tx, ring);
	more += q->tx.inflight;
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	account(run, p.dom, 0, p.dom, more);
	account_delta(run, delta);
	if (unlikely(done))
		wake_tx(st, ctl, ring);
	if (v == V_PASS) {
		wk->before = done;
		return v;
	}
	wk->now = wk->acked = now;
	wk->wrote = done;
	wk->queued = 0;
	count(st, rx_ack);
	if (v == V_DROP)
		count(st, absorbed);
	return v;
}

/* The token of this ACK went out in a domain where another CPU was lent something: it shall have it no more. */
static __always_inline bool foreign(const struct work *wk, __u32 slot)
{
	const struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);

	return q && weft_tx_foreign(&q->tx, bpf_ntohl(wk->pkt.u.h.psn), bpf_ntohl(wk->pkt.u.h.ts),
				    bpf_get_smp_processor_id() + 1);
}

/* ---- ACK: score, then refill ---- */

#define TO_NOBODY (-2) /* where a slot is meant: the token is absorbed */

/* What becomes of a token that has come home. */
struct refill {
	const struct weft_devcfg *cfg;
	struct weft_devrun *run;
	struct weft_ring *ring;
	const struct weft_ring *sq;
	__u32 dom, who, now, prod; /* who: this CPU, + 1 */
	__s32 room, delta;
	enum growth grow;
	enum weft_claim c;
	bool last;
};

/* Look up all that the locked section needs. 0: it is there. */
static __always_inline int refill_begin(struct refill *f, const struct weft_qpctl *ctl,
					const struct weft_qptx *q, struct work *wk)
{
	f->cfg = cfg_get();
	f->run = run_get();
	f->ring = ring_get(ctl);
	if (!f->cfg || !f->run || !f->ring)
		return -1;
	f->dom = my_domain(f->cfg);
	f->who = bpf_get_smp_processor_id() + 1;
	f->now = now_ticks();
	f->prod = READ_ONCE(f->ring->sq_prod);
	f->sq = next_ring(ctl, f->ring, q, wk, f->prod);
	f->room = (__s32)f->cfg->budget - READ_ONCE(f->run->dom[f->dom].inflight);
	f->grow = GROW_NO;
	f->c = WEFT_CLAIM_EMPTY;
	f->last = false;
	return f->sq ? 0 : -1;
}

/* Claim what is next for it, or let it start others. Locked. */
static __always_inline void refill_claim(struct refill *f, const struct weft_qpctl *ctl,
					 struct weft_tx *tx, struct work *wk)
{
	__u32 wnd = window(f->cfg, f->run, tx), doms = domains(ctl, tx, f->sq);
	bool yield;

	/* it is this CPU's to send, whoever else waits */
	if (unlikely(weft_tx_owed(tx, wnd, f->now, f->dom, f->who, &wk->seg))) {
		f->c = WEFT_CLAIM_OK;
		wk->queued = 0;
		weft_ring_active(tx, f->ring);
		publish(tx, f->ring);
		return;
	}
	yield = READ_ONCE(wk->hand) != -1 || (f->room <= 0 && crowds(f->cfg, f->run, tx, f->dom)) ||
		astray(tx, doms, f->dom);

	if (!yield && tx->inflight + 1 < wnd)
		f->grow = growth(ctl, tx, f->sq, doms, f->prod, wnd, f->dom, f->now, f->room,
				 &wk->cpu);
	/* who has nothing to send gives it up below: or its next post would not ring */
	if (yield && !weft_tx_idle(tx, f->prod)) {
		f->c = WEFT_CLAIM_CWND;
		f->last = !tx->inflight;
	} else if (f->grow == GROW_NO) {
		f->c = claim(tx, f->ring, f->sq, wk, f->prod, wnd, f->now, f->dom);
		if (f->c == WEFT_CLAIM_EMPTY)
			weft_ring_absorb(tx, f->ring);
	}
	publish(tx, f->ring);
}

/* Nothing was claimed for it: it goes to a QP that waits for one. last: its own then has none any more. */
static __always_inline enum weft_verdict let_go(struct weft_stats *st, struct weft_devrun *run,
						struct work *wk, __u32 dom, bool last, __u32 slot)
{
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

/* Something was, with work.hand chosen before: a post came after all, and whoever's turn it was waits on. */
static __always_inline enum weft_verdict go_on(struct weft_devrun *run, struct work *wk, __u32 dom)
{
	if (unlikely(READ_ONCE(wk->hand) >= 0))
		wait_turn(run, dom, READ_ONCE(wk->hand));
	return V_FILL;
}

/* The rest, with the lock given back. */
static __always_inline enum weft_verdict refill_end(struct refill *f, struct xdp_md *ctx,
						    const struct weft_qpctl *ctl, struct work *wk,
						    struct weft_stats *st, __u32 slot)
{
	account(f->run, wk->score.dom, wk->score.freed, f->dom, f->c == WEFT_CLAIM_OK);
	account_delta(f->run, f->delta);
	if (wk->score.progress || f->c == WEFT_CLAIM_ERROR)
		wake_tx(st, ctl, f->ring);

	if (unlikely(f->grow == GROW_MOVE)) {
		if (make_template(ctx, WEFT_DB_GROW, ctl->qpn, 0, 0))
			return drop(st, fill);
		count(st, moved);
		return verdict_redirect(st, bpf_redirect_map(&cpus, wk->cpu, 0));
	}
	if (unlikely(f->grow == GROW_TWIN)) {
		if (make_template(ctx, WEFT_DB_FILL, ctl->qpn, 0, 0))
			return drop(st, fill);
		/* two clones: this frame may have been born small, and one more token would be lost */
		return spawned(st, wk, 2, bpf_redirect_map(&spawn2, 0, BPF_F_BROADCAST));
	}
	wk->now = f->now;
	if (f->c == WEFT_CLAIM_OK)
		return go_on(f->run, wk, f->dom);
	if (claims_more(f->c, f->ring, f->prod))
		return V_AGAIN;
	return let_go(st, f->run, wk, f->dom, f->last, slot);
}

/* A token that found nothing looks again. */
static __always_inline enum weft_verdict look_again(const struct weft_qpctl *ctl, struct work *wk,
						    struct weft_stats *st, __u32 slot)
{
	const struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	__u32 dom;

	if (!cfg || !run)
		return V_DROP;
	dom = my_domain(cfg);
	unlend(ctl, st, slot, WHO_IS_STUCK, 0);
	return claim_more(ctl, wk, st, slot) == WEFT_CLAIM_OK
		       ? go_on(run, wk, dom)
		       : let_go(st, run, wk, dom, false, slot);
}

STEP int tx_ack(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		struct weft_stats *st, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct refill f;
	struct weft_ack a;
	__u32 conf;
	int bad;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	if (refill_begin(&f, ctl, q, wk))
		return drop(st, owner);
	ack_of(wk, &a);
	conf = READ_ONCE(ctl->cwnd);
	/* in memory: a verifier that knew its values would walk all that follows for each */
	WRITE_ONCE(wk->hand, -1);
	wk->room = f.room;
	/* more than there may be, after convictions that were none: they would go round for ever */
	if (unlikely(f.room < (__s32)f.cfg->budget - (__s32)f.cfg->hard))
		WRITE_ONCE(wk->hand, TO_NOBODY);
	else if (unlikely(f.room <= 0) && turn_over(a.psn) && any_waits(f.run, f.dom))
		WRITE_ONCE(wk->hand, next_turn(f.dom));
	bpf_spin_lock(&q->lock);
	f.delta = -has_tokens(&q->tx);
	bad = weft_tx_ack(&q->tx, &a, f.now, conf, &wk->score);
	if (!bad) {
		if (likely(!READ_ONCE(wk->score.repair)))
			refill_claim(&f, ctl, &q->tx, wk);
		if (unlikely(q->tx.rnr || a.flags & WEFT_F_RQ || q->tx.told_rnr))
			publish_rnr(&q->tx, f.ring);
		if (unlikely(a.rnr))
			WRITE_ONCE(f.ring->tx_rnrs, f.ring->tx_rnrs + 1);
	}
	f.delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	if (unlikely(bad)) {
		if (READ_ONCE(wk->hand) >= 0)
			wait_turn(f.run, f.dom, READ_ONCE(wk->hand));
		return drop(st, unsent);
	}

	count(st, rx_ack);
	st->count.rx_rnr += a.rnr;
	st->count.rx_seq += a.seq;
	st->count.surplus += wk->score.surplus;
	wk->acked = f.now;
	wk->wrote = wk->score.progress + wk->before;
	if (unlikely(READ_ONCE(wk->score.repair))) {
		account(f.run, wk->score.dom, wk->score.freed, f.dom, 0);
		account_delta(f.run, f.delta);
		return V_REPAIR;
	}
	return refill_end(&f, ctx, ctl, wk, st, slot);
}

/* What was acknowledged has overtaken others: those are convicted before the token is filled. */
STEP int tx_repair(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
		   struct weft_stats *st, __u32 slot)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct refill f;
	__u32 conf;

	if (!wk || !q || !ctl || !st)
		return V_DROP;
	if (refill_begin(&f, ctl, q, wk)) {
		st->drop.owner++;
		/* whose turn it is waits no more by now: it shall not wait for ever */
		return READ_ONCE(wk->hand) >= 0 ? V_HAND : V_DROP;
	}
	/* in the books its own place is free by now: that is no room for another */
	f.room = wk->room;
	conf = READ_ONCE(ctl->cwnd);
	bpf_spin_lock(&q->lock);
	f.delta = -has_tokens(&q->tx);
	weft_tx_repair(&q->tx, f.now, conf, &wk->score);
	refill_claim(&f, ctl, &q->tx, wk);
	f.delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	st->count.lost += wk->score.lost;
	return refill_end(&f, ctx, ctl, wk, st, slot);
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
	wake_tx(st, ctl, ring);
	return V_DROP;
}

#endif
