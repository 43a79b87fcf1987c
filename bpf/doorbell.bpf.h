/* SPDX-License-Identifier: GPL-2.0 */
/* Doorbells: start tokens, in the doorbell's own frame or by replication; fill the clones. */
#ifndef WEFT_DOORBELL_BPF_H
#define WEFT_DOORBELL_BPF_H

#include "tx.bpf.h"

/* Read a doorbell or template. 0: it is one. */
static __always_inline int db_parse(struct xdp_md *ctx, struct weft_db *db)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct weft_db *d = data + ETH_HLEN;

	if ((void *)(d + 1) > end || eth->h_proto != bpf_htons(WEFT_DB_ETHERTYPE) ||
	    d->magic != WEFT_DB_MAGIC)
		return -1;
	*db = *d;
	return 0;
}

/* The control entry of a QP that may send, or NULL. */
static __always_inline struct weft_qpctl *sender(__u32 qpn)
{
	__u32 slot = WEFT_QPN_SLOT(qpn);
	struct weft_qpctl *ctl = bpf_map_lookup_elem(&qpctl, &slot);
	__u32 state;

	if (!ctl)
		return NULL;
	state = READ_ONCE(ctl->state);
	ctl = weft_after(ctl, state);
	return state != WEFT_QP_RTS || ctl->qpn != qpn || !owner_alive(ctl) ? NULL : ctl;
}

/* Would the next segment fit a frame of flen bytes? Locked. */
static __always_inline bool next_fits(const struct weft_tx *tx, const struct weft_ring *sq,
				      __u32 hl, __u32 flen)
{
	__u32 len = READ_ONCE(sq->sq[tx->cons & (WEFT_SQ_DEPTH - 1)].len);
	__u32 sent = tx->seg * tx->payload;

	if (tx->nlost || len < sent)
		return false;
	len -= sent;
	return hl + (len < tx->payload ? len : tx->payload) <= flen;
}

/* The library's timer asks: is anything late, may what was refused be tried again? */
STEP int look(__u32 qpn)
{
	__u32 slot = WEFT_QPN_SLOT(qpn), now = now_ticks(), conf;
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct weft_devrun *run = run_get();
	struct weft_qpctl *ctl = sender(qpn);
	struct weft_stats *st = stats_get();
	struct work *wk = work_get();
	struct weft_ring *ring;
	bool late;
	__s32 delta;

	if (!ctl || !q || !run || !wk || !st)
		return 0;
	ring = ring_get(ctl);
	if (!ring)
		return 0;
	conf = READ_ONCE(ctl->cwnd);
	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	late = weft_tx_timeout(&q->tx, now, conf, &wk->score);
	weft_tx_probe(&q->tx, now);
	if (unlikely(q->tx.rnr))
		publish_rnr(&q->tx, ring);
	/* by ACKs that a CPU had not scored yet */
	if (wk->score.progress)
		publish(&q->tx, ring);
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);
	if (wk->score.progress) {
		wake_tx(st, ctl, ring);
		tele_late(slot, now, wk->score.progress);
	}
	account(run, wk->score.dom, wk->score.freed, wk->score.dom, 0);
	account_delta(run, delta);
	st->count.lost += wk->score.lost;
	if (late) {
		count(st, timeout);
		tele_rto(slot, now);
	}
	return 0;
}

#define INPLACE_MANY 4 /* WRITEs up to which the doorbell's own frame may do */

/*
 * A doorbell of the library (POST, LOOK behind look()), or a token sent over from another CPU
 * (GROW): see what is missing and start it here.
 */
STEP int ring_bell(struct xdp_md *ctx, __u32 op, __u32 qpn)
{
	__u32 slot = WEFT_QPN_SLOT(qpn);
	struct weft_qpctl *ctl = sender(qpn);
	struct weft_devcfg *cfg = cfg_get();
	struct weft_stats *st = stats_get();
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct weft_devrun *run = run_get();
	__u32 flen = frame_len(ctx);
	enum weft_claim c = WEFT_CLAIM_EMPTY;
	struct weft_cc_event none = {};
	const struct weft_ring *sq;
	struct weft_ring *ring;
	struct work *wk = work_get();
	__u32 dom, here, now, conf, prod, wnd, n, hl, share, used, doms;
	bool first, stray, burst;
	__s32 delta;

	if (!st || !cfg)
		return V_DROP;
	if (!ctl || !q || !run || !wk)
		return drop(st, doorbell);
	ring = ring_get(ctl);
	if (!ring)
		return drop(st, doorbell);
	count(st, doorbell);
	dom = my_domain(cfg);
	here = 1u << dom;
	now = now_ticks();
	conf = READ_ONCE(ctl->cwnd);
	hl = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	wk->cpu = -1;
	prod = READ_ONCE(ring->sq_prod);
	sq = next_ring(ctl, ring, q, wk, prod);
	if (!sq)
		return drop(st, doorbell);

	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	weft_cc_update(&q->tx.cc, conf, &none);
	wnd = window(cfg, run, &q->tx);
	n = weft_tx_deficit(&q->tx, sq->sq, prod, wnd);
	first = q->tx.inflight == 0;
	doms = domains(ctl, &q->tx, sq);
	stray = astray(&q->tx, doms, dom);
	/* what one packet may carry by now is still too much for this frame */
	burst = n && q->tx.joins_writes && prod - q->tx.cons > INPLACE_MANY &&
		q->tx.inflight + 2 < wnd;
	if (n && n <= 2 && !burst && !stray && op == WEFT_DB_POST &&
	    next_fits(&q->tx, sq, hl, flen)) {
		c = claim(&q->tx, ring, sq, wk, prod, wnd, now, dom);
		if (c == WEFT_CLAIM_ERROR)
			n = 0;
	}
	if (op == WEFT_DB_POST)
		q->tx.post_dom = dom;
	/*
	 * Many packets to come, and this CPU is the one that posts: let another
	 * carry them, or all of it would run inside the post. The frame that goes
	 * there is as good as a token. The timer starts the first token here all the
	 * same: the other CPU may be the one that does not get on.
	 */
	if (c == WEFT_CLAIM_EMPTY && (n > 2 || burst) &&
	    (op == WEFT_DB_POST ||
	     (op == WEFT_DB_LOOK && !first && app_domain(doms, &q->tx, sq) == here)))
		wk->cpu = idle_cpu(ctl, &q->tx, doms & ~here);
	/* over to the others that keep order, which may be on their way home for good */
	if (n && stray && op == WEFT_DB_POST)
		wk->cpu = ctl->cpu_of[weft_ctz(doms) & (WEFT_DOMAINS - 1)];
	if (wk->cpu >= 0)
		weft_ring_active(&q->tx, ring);
	used = q->tx.dom[dom & (WEFT_DOMAINS - 1)].out;
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);

	account(run, dom, 0, dom, c == WEFT_CLAIM_OK);
	account_delta(run, delta);
	if (c == WEFT_CLAIM_ERROR)
		wake_tx(st, ctl, ring);

	if (c == WEFT_CLAIM_OK) {
		count(st, inplace);
		wk->now = now;
		return V_FILL;
	}
	if (wk->cpu >= 0) {
		if (make_template(ctx, WEFT_DB_GROW, ctl->qpn, 0, 0))
			return drop(st, fill);
		return V_MOVE;
	}
	share = domain_share(doms, wnd);
	share = used < share ? share - used : 0;
	if (n > share)
		n = share;
	n = n ? grant(cfg, run, dom, slot, n, first) : 0;
	if (!n) {
		count(st, absorbed);
		return V_DROP;
	}
	if (make_template(ctx, WEFT_DB_FILL, ctl->qpn, 0, 0))
		return drop(st, fill);
	return spawn(st, wk, n);
}

/*
 * The library has posted receives that a peer waits for: the doorbell's frame becomes the RESUME
 * that says so. 1: it did.
 */
STEP int send_resume(struct xdp_md *ctx, __u32 qpn)
{
	struct weft_qpctl *ctl = sender(qpn);
	struct weft_stats *st = stats_get();
	union weft_hdr_words u = {};
	struct weft_ring *ring;
	struct work *wk = work_get();
	__u32 hl;

	if (!st || !wk)
		return 0;
	ring = ctl ? ring_get(ctl) : NULL;
	if (!ring) {
		st->drop.doorbell++;
		return 0;
	}
	head(wk, ctl, WEFT_OP_RESUME, 0, 0, 0, bpf_htonl(now_ticks()), 0);
	u.h.ack.epoch = bpf_htonl(rq_epoch(ctl, ring));
	body(wk, &u);
	hl = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	if (frame_resize(ctx, frame_len(ctx), hl) || frame_finish(ctx, ctl, wk, 0)) {
		st->drop.fill++;
		return 0;
	}
	count(st, tx_resume);
	return 1;
}

/*
 * An unfilled clone on its way out: claim a segment for it, or take the one
 * that was claimed for it. V_FILL, V_AGAIN or V_DROP.
 */
STEP int claim_clone(__u32 qpn, __u32 psn, __u32 claimed)
{
	__u32 slot = WEFT_QPN_SLOT(qpn);
	struct weft_qpctl *ctl = sender(qpn);
	struct weft_devcfg *cfg = cfg_get();
	struct weft_stats *st = stats_get();
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct weft_devrun *run = run_get();
	const struct weft_ring *sq;
	enum weft_claim c;
	struct weft_ring *ring;
	struct work *wk = work_get();
	__u32 dom, now, prod, from = 0, freed = 0;
	__s32 delta;

	if (!st || !cfg)
		return V_DROP;
	if (!ctl || !q || !run || !wk)
		return V_DROP;
	ring = ring_get(ctl);
	if (!ring)
		return V_DROP;
	dom = my_domain(cfg);
	now = now_ticks();
	prod = READ_ONCE(ring->sq_prod);
	sq = next_ring(ctl, ring, q, wk, prod);
	if (!sq)
		return V_DROP;

	bpf_spin_lock(&q->lock);
	delta = -has_tokens(&q->tx);
	wk->queued = 0;
	if (claimed) {
		struct weft_tx_slot *s = &q->tx.slot[weft_tx_at(psn)];

		/* still out: not convicted while the clone was made */
		c = WEFT_CLAIM_EMPTY;
		if (weft_tx_goes(&q->tx, psn)) {
			if (weft_tx_delivered(&q->tx, psn)) {
				/* another WRITE may have the place of its own by now; what is lent is listed later */
				from = weft_slot_dom(s);
				freed = !weft_slot_lent(s);
				if (freed)
					weft_tx_unlist(&q->tx, s, psn);
			} else {
				weft_tx_segment(&q->tx, psn, weft_slot_ssn(&q->tx, s),
						weft_slot_seg(s), &wk->seg);
				wk->seg.ev = s->ev;
				if (s->tries > 1)
					wk->seg.flags |= WEFT_F_RETX;
				/* the echoed time must be the logged one */
				now = s->ts;
				c = WEFT_CLAIM_OK;
			}
		}
	} else {
		weft_tx_grown(&q->tx, dom);
		c = claim(&q->tx, ring, sq, wk, prod, window(cfg, run, &q->tx), now, dom);
		if (c == WEFT_CLAIM_EMPTY || c == WEFT_CLAIM_CWND || c == WEFT_CLAIM_WINDOW)
			weft_ring_absorb(&q->tx, ring);
	}
	delta += has_tokens(&q->tx);
	bpf_spin_unlock(&q->lock);

	if (!claimed)
		account(run, dom, 0, dom, c == WEFT_CLAIM_OK);
	else
		account(run, from, freed, from, 0);
	account_delta(run, delta);
	if (c == WEFT_CLAIM_ERROR)
		wake_tx(st, ctl, ring);
	wk->now = now;
	if (c == WEFT_CLAIM_OK)
		return V_FILL;
	return !claimed && claims_more(c, ring, prod) ? V_AGAIN : V_DROP;
}

/* Is something claimed for a clone, or another token that is new to this QP? */
static __always_inline bool clone_claims(const struct weft_qpctl *ctl, struct work *wk,
					 struct weft_stats *st, __u32 qpn, __u32 psn, __u32 claimed)
{
	int v = claim_clone(qpn, psn, claimed);

	if (unlikely(v == V_AGAIN)) {
		unlend(ctl, st, WEFT_QPN_SLOT(qpn), WHO_IS_STUCK, 0);
		return claim_more(ctl, wk, st, WEFT_QPN_SLOT(qpn)) == WEFT_CLAIM_OK;
	}
	return v == V_FILL;
}

#define HAND_TRIES 4 /* one that waits may have died, or got a token meanwhile and be done */

/*
 * A token that its QP gives up goes to the one that waits in slot work.hand, or
 * another: the control entry of the QP for which work.seg is claimed, or NULL.
 */
static __always_inline struct weft_qpctl *hand_over(struct xdp_md *ctx, struct weft_stats *st,
						    struct work *wk, enum weft_verdict *v)
{
	struct weft_devcfg *cfg = cfg_get();
	struct weft_devrun *run = run_get();
	struct weft_qpctl *ctl;
	int cpu;

	*v = V_DROP;
	if (!cfg || !run)
		return NULL;
	ctl = ctl_get(wk->hand);
	cpu = ctl ? roomy_cpu(cfg, run, ctl, my_domain(cfg), wk->hand) : -1;
	if (cpu >= 0 && !make_template(ctx, WEFT_DB_GROW, ctl->qpn, 0, 0)) {
		count(st, moved);
		*v = verdict_redirect(st, bpf_redirect_map(&cpus, cpu, 0));
		return NULL;
	}
	*v = V_FILL;
	for (int i = 1; i <= HAND_TRIES && wk->hand >= 0; i++) {
		ctl = ctl_get(wk->hand);
		if (ctl && clone_claims(ctl, wk, st, ctl->qpn, 0, 0)) {
			count(st, handed);
			return ctl;
		}
		wk->hand = i < HAND_TRIES ? next_turn(my_domain(cfg)) : -1;
	}
	count(st, absorbed);
	*v = V_DROP;
	return NULL;
}

#endif
