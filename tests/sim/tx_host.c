/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's half of a host: score, claim, fill, new tokens. */
#include "many.h"
#include "tx_host.h"

void publish(struct conn *c)
{
	c->ring.sq_done = c->gtx.tx.done;
	c->ring.tx_una = c->gtx.tx.una;
}

/* Locked: claim for this CPU's token; `more`: what is stuck as well, claim_more() in bpf/fill.bpf.h. */
static void claim_or(struct host *h, struct work *w, int more)
{
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	int stuck = 0;

	for (int i = 0; i < 2; i++) {
		w->claim = weft_tx_claim(tx, next_ring(w), w->cons, w->prod, w->wnd, w->now, w->dom,
					 &w->seg);
		stuck = more && w->claim == WEFT_CLAIM_STUCK;
		if (!stuck)
			break;
		w->claim = weft_tx_rescue(tx, w->now, w->dom, &w->seg);
		if (w->seg.freed)
			account(h, w->seg.from, w->seg.freed, 0, 0);
		if (w->claim == WEFT_CLAIM_OK)
			break;
	}
	if (w->claim == WEFT_CLAIM_OK) {
		if (stuck) {
			W.st.rescued++;
			check_rescue(c, &w->seg, w->now, w->dom);
		}
		weft_ring_active(tx, &c->ring);
		account(h, 0, 0, w->dom, 1);
		check_claim(c, &w->seg, w->wnd);
		w->probe = check_blocked(c, w->seg.psn);
		c->psn[w->seg.psn - c->psn0].sent = w->now;
		c->psn[w->seg.psn - c->psn0].dom = w->dom;
	}
	W.st.held += w->claim == WEFT_CLAIM_WINDOW && !weft_tx_copies(tx);
	W.st.turned += w->claim == WEFT_CLAIM_MOVED;
	W.st.full += w->claim == WEFT_CLAIM_WINDOW;
	check_tx(c);
}

static void claim(struct host *h, struct work *w)
{
	claim_or(h, w, 0);
}

/* The token has nothing to carry for its QP: an ACK's may go to another, a clone dies. */
static enum step gone(const struct work *w)
{
	return w->tries ? TX_HAND : STEP_END;
}

static enum step next_of(struct work *w)
{
	if (w->claim == WEFT_CLAIM_EMPTY)
		return TX_RECHECK;
	if (w->claim == WEFT_CLAIM_MOVED || w->claim == WEFT_CLAIM_STUCK) {
		look_ahead(w);
		return TX_STUCK;
	}
	return w->claim == WEFT_CLAIM_OK ? join_or_fill(w) : gone(w);
}

/* Locked: claim for a token that is new to the QP. */
static void claim_new(struct host *h, struct work *w)
{
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	int was = tx->inflight != 0;

	weft_tx_grown(tx, w->dom);
	check_growing(c);
	w->wnd = window(h, tx);
	claim(h, w);
	if (w->claim == WEFT_CLAIM_EMPTY)
		weft_ring_absorb(tx, &c->ring);
	h->active += (tx->inflight != 0) - was;
}

static void take_nak(struct conn *c, const struct frame *f)
{
	struct weft_tx *tx = &c->gtx.tx;

	/* what has been answered before may be gone by now: that ends nothing */
	if (tx->err ||
	    !weft_tx_nak(tx, be32toh(f->h.nak.psn), be32toh(f->h.nak.code), be32toh(f->h.nak.nth)))
		return;
	check_ack_in(c);
	publish(c);
	c->ring.tx_err_info = tx->err_info;
	c->ring.tx_err = tx->err;
}

/* What the frame says, if it is an ACK or a REPLY. */
struct weft_ack ack_of(const struct cpu *cpu)
{
	const struct weft_hdr *h = &cpu->cur->h;

	return (struct weft_ack){
		.psn = cpu->w.psn,
		.ts = be32toh(h->ts),
		.cum = be32toh(h->ack.cum),
		.msn = be32toh(h->ack.msn),
		.sack_base = be32toh(h->ack.sack_base),
		.sack = be64toh(h->ack.sack),
		.flags = cpu->w.flags,
		.answer = cpu->w.answer,
		.rnr = h->op == WEFT_OP_RNR,
		.seq = h->op == WEFT_OP_SEQ,
		.epoch = be32toh(h->ack.epoch),
	};
}

/* What becomes of a token that has come home: it goes on, or starts others. Locked; `was`: were there any? */
static enum step refill(struct cpu *cpu, int was)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	int grown = 0, yield;

	w->wnd = window(h, tx);
	if (lane_owed(cpu)) {
		publish(c);
		h->active += (tx->inflight != 0) - was;
		w->tries = 1;
		return TX_FILL;
	}
	/* who has nothing to send gives its token up anyway, and must find out that it has */
	yield = (w->hand >= 0 || (w->room <= 0 && crowds(h, tx, w->dom)) || astray(h, w)) &&
		!weft_tx_idle(tx, w->prod);
	if (!yield && tx->inflight + 1 < w->wnd)
		grown = grow(cpu);
	if (yield) {
		w->claim = WEFT_CLAIM_CWND;
		w->last = !tx->inflight;
		W.st.yielded++;
	} else if (!grown) {
		claim(h, w);
		if (w->claim == WEFT_CLAIM_EMPTY)
			weft_ring_absorb(tx, &c->ring);
	}
	publish(c);
	check_tx(c);
	check_growing(c);
	h->active += (tx->inflight != 0) - was;
	if (grown)
		return STEP_END;
	w->tries = 1;
	return next_of(w);
}

static enum step score(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	const struct frame *f = cpu->cur;
	int was = tx->inflight != 0, bad;
	struct weft_ack a = ack_of(cpu);

	if (f->h.op == WEFT_OP_NAK) {
		take_nak(c, f);
		return STEP_END;
	}
	w->room = room_of(h, w->dom);
	w->hand = w->room <= 0 ? next_turn(h, w->dom) : -1;
	w->last = 0;
	if (w->answer)
		rec_of(c, w->psn)->taking = 0;
	bad = weft_tx_ack(tx, &a, w->now, c->conf, &w->score);
	if (bad) {
		if (w->hand >= 0)
			wait_turn(h, w->dom, w->hand);
		W.st.unsent++;
		return STEP_END;
	}
	if (a.flags & WEFT_F_RQ)
		check_news(c, a.epoch);
	if (a.rnr)
		check_refused(c, &a, w->now);
	c->ring.tx_rnr = tx->rnr;
	check_ack_in(c);
	account(h, w->score.dom, w->score.freed, 0, 0);
	if (!w->score.repair)
		return refill(cpu, was);
	h->active += (tx->inflight != 0) - was;
	return TX_REPAIR;
}

/* What the ACK has overtaken, behind score(): between the two anybody may run. */
static enum step repair(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	int was = tx->inflight != 0;

	look_ahead(w);
	weft_tx_repair(tx, w->now, c->conf, &w->score);
	account(&W.host[cpu->host], w->score.dom, w->score.freed, 0, 0);
	return refill(cpu, was);
}

static enum step again(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct weft_tx *tx = &w->c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	int was = tx->inflight != 0;

	w->wnd = window(h, tx);
	claim_or(h, w, 1);
	if (w->claim == WEFT_CLAIM_WINDOW)
		weft_ring_absorb(tx, &w->c->ring);
	h->active += (tx->inflight != 0) - was;
	if (w->claim != WEFT_CLAIM_OK)
		return gone(w);
	/* a post came after all: whoever's turn it was waits on */
	if (w->tries && w->hand >= 0)
		wait_turn(h, w->dom, w->hand);
	return join_or_fill(w);
}

/* The timer's, before its bell. */
static enum step look(struct cpu *cpu)
{
	struct conn *c = cpu->w.c;
	struct host *h = &W.host[cpu->host];
	int was = c->gtx.tx.inflight != 0;
	struct weft_score r;

	timer_look(c, cpu->w.now, &r);
	publish(c);
	account(h, r.dom, r.freed, 0, 0);
	h->active += (c->gtx.tx.inflight != 0) - was;
	look_ahead(&cpu->w);
	return TX_BELL;
}

#define INPLACE_MANY 4

/* A doorbell, a look, or a token sent over: see what is missing and start it. */
static enum step bell(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	struct weft_cc_event none = { .now = w->now };
	int was = tx->inflight != 0, first, other = -1, burst;
	uint32_t n, share, used, doms;
	int stray;

	weft_cc_update(&tx->cc, c->conf, &none);
	w->wnd = window(h, tx);
	n = weft_tx_deficit(tx, next_ring(w), w->prod, w->wnd);
	first = tx->inflight == 0;
	doms = domains(h, w);
	stray = astray(h, w);
	/* a small message goes out in the doorbell's own frame */
	burst = n && tx->joins_writes && w->prod - tx->cons > INPLACE_MANY &&
		tx->inflight + 2 < w->wnd;
	if (n && n <= 2 && !burst && !stray && cpu->cur->kind == FRAME_POST && below(2))
		claim(h, w);
	if (cpu->cur->kind == FRAME_POST)
		tx->post_dom = w->dom;
	/* many packets to come: another CPU than the one that posts */
	if (w->claim == WEFT_CLAIM_EMPTY && (n > 2 || burst) &&
	    (cpu->cur->kind == FRAME_POST ||
	     (cpu->cur->kind == FRAME_LOOK && app_domain(h, w) == 1u << w->dom)))
		other = idle_cpu(tx, doms & ~(1u << w->dom));
	if (n && stray && cpu->cur->kind == FRAME_POST)
		other = tx->home;
	if (other >= 0)
		weft_ring_active(tx, &c->ring);
	used = tx->dom[w->dom].out;
	check_tx(c);
	h->active += (tx->inflight != 0) - was;
	if (w->claim == WEFT_CLAIM_OK)
		return join_or_fill(w);
	if (other >= 0) {
		start_cpu(cpu, other);
		return STEP_END;
	}
	share = domain_share(doms, w->wnd);
	share = used < share ? share - used : 0;
	n = n < share ? n : share;
	n = n ? grant(h, w->dom, c->id, n, first) : 0;
	start_clones(cpu, n);
	return STEP_END;
}

/* A clone on its way out: claim for it, or take what was claimed for it. */
static enum step clone(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	const struct frame *f = cpu->cur;

	if (f->claimed) {
		const struct weft_tx_slot *s = &tx->slot[weft_tx_at(f->sum)];

		if (!weft_tx_goes(tx, f->sum))
			return STEP_END;
		weft_tx_segment(tx, f->sum, weft_slot_ssn(tx, s), weft_slot_seg(s), &w->seg);
		w->seg.ev = s->ev;
		if (s->tries > 1)
			w->seg.flags |= WEFT_F_RETX;
		w->now = s->ts;
		return join_or_fill(w);
	}
	c->clones[w->dom]--;
	claim_new(h, w);
	return next_of(w);
}

#define HAND_TRIES 4

/* A token that its QP gave up goes to one that waits, as hand_over() in bpf/doorbell.bpf.h. */
static enum step hand(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct host *h = &W.host[cpu->host];
	int to = w->hand;

	if (w->tries > HAND_TRIES)
		return STEP_END;
	if (to < 0)
		to = next_turn(h, w->dom);
	if (w->last)
		wait_turn(h, w->dom, w->c->id);
	w->last = 0;
	w->hand = -1;
	if (to < 0)
		return STEP_END;
	w->tries++;
	if (W.conn[to]->from != cpu->host || W.conn[to]->closed)
		return TX_HAND;
	w->c = W.conn[to];
	look_ahead(w);
	claim_new(h, w);
	W.st.handed += w->claim == WEFT_CLAIM_OK;
	return next_of(w);
}

/* Headers and the first part of the payload; the application may be seen in between. */
static enum step fill(struct cpu *cpu)
{
	const struct weft_seg *s = &cpu->w.seg;
	struct frame *f = cpu->cur;

	if (!f->claimed && !below(256)) {
		/* the frame cannot grow: a clone is made for what is claimed, behind others */
		struct frame *n = frame_new();

		n->kind = FRAME_FILL;
		n->qp = cpu->w.c->qpn;
		n->born = cpu->id;
		n->claimed = 1;
		n->sum = s->psn;
		W.st.reordered += W.p.strict;
		cpu_enqueue(cpu->host, cpu->id, n);
		return STEP_END;
	}
	if (s->more)
		return many_fill(cpu) ? TX_FILL_REST : STEP_END;
	f->len = weft_wqe_own(s->op) ? 0 : s->len;
	memcpy(f->payload, sim_src + s->loff, f->len / 2);
	return TX_FILL_REST;
}

static enum step fill_rest(struct cpu *cpu)
{
	const struct weft_seg *s = &cpu->w.seg;
	struct conn *c = cpu->w.c;
	struct frame *f = cpu->cur;

	if (!s->more)
		memcpy(f->payload + f->len / 2, sim_src + s->loff + f->len / 2,
		       f->len - f->len / 2);
	f->claimed = 0;
	f->probe = cpu->w.probe;
	f->h.flags = s->flags;
	f->h.ev = s->ev;
	f->h.psn = htobe32(s->psn);
	f->h.ts = htobe32(cpu->w.now);
	if (s->more)
		many_header(f, c, s);
	else
		ask_header(f, s);
	f->born = cpu->id;
	frame_seal(f, c);
	check_data_frame(c, f, s, cpu->w.now);
	c->psn[s->psn - c->psn0].gone = 1;
	W.st.packets++;
	if (s->flags & WEFT_F_RETX)
		W.st.retransmits++;
	if (chance(W.p.xmit_fail)) {
		/* the driver refuses it after the claim, and nobody is told */
		W.st.lost++;
		W.lost_tokens++;
		return STEP_END;
	}
	cpu->cur = NULL;
	net_send(f, cpu->host);
	return STEP_END;
}

enum step tx_step(struct cpu *cpu, enum step s)
{
	struct work *w = &cpu->w;

	switch (s) {
	case TX_AHEAD: return lane_ahead(cpu);
	case TX_GO: return lane_go(cpu);
	case TX_DISOWN: return lane_disown(cpu);
	case TX_STUCK: return lane_stuck(cpu);
	case TX_BULK: return lane_bulk(cpu);
	case TX_SCORE: return score(cpu);
	case TX_REPAIR: return repair(cpu);
	case TX_RECHECK:
		if (!weft_ring_recheck(&w->c->ring, w->prod))
			return gone(w);
		look_ahead(w);
		return TX_STUCK;
	case TX_AGAIN: return again(cpu);
	case TX_JOIN: return join(cpu);
	case TX_LOOK: return look(cpu);
	case TX_BELL: return bell(cpu);
	case TX_CLONE: return clone(cpu);
	case TX_HAND: return hand(cpu);
	case TX_FILL: return fill(cpu);
	case TX_FILL_REST: return fill_rest(cpu);
	case TX_RESUME: return recv_step(cpu, s);
	default: return ask_step(cpu, s);
	}
}
