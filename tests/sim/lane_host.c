/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's half of a host: segments lent to a CPU, ACKs that it scores later. */
#include "tx_host.h"

static enum step ahead(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	const struct weft_hdr *h = &cpu->cur->h;

	w->plain = (struct weft_plain){ .psn = w->psn,
					.ts = be32toh(h->ts),
					.cum = be32toh(h->ack.cum),
					.dom = w->dom,
					.who = cpu->id + 1 };
	return h->op == WEFT_OP_ACK && !w->flags && weft_tx_ahead(&w->c->gtx.tx, &w->plain, &w->seg)
		       ? TX_GO
		       : TX_BULK;
}

/* Does the token of a plain ACK take what its CPU was lent? Without the lock: anybody may run before TX_GO. */
enum step lane_ahead(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	if (weft_tx_foreign(&w->c->gtx.tx, w->psn, be32toh(cpu->cur->h.ts), cpu->id + 1))
		return TX_DISOWN;
	return ahead(cpu);
}

enum step lane_go(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	if (!weft_tx_go(&w->c->gtx.tx, &w->plain)) {
		W.st.reclaimed++;
		return TX_BULK;
	}
	check_lent(w->c, &w->seg);
	w->now = w->plain.now;
	w->probe = 0;
	W.st.lent++;
	return TX_FILL;
}

/* What has just been lent. */
static void check_lane(struct conn *c, const struct work *w)
{
	const struct weft_tx *tx = &c->gtx.tx;
	const struct weft_lane *l = &tx->lane[w->dom];

	/* the first of them has been taken */
	for (uint32_t i = 0; i <= l->state >> 8; i++) {
		__u32 psn = l->first - 1 + i;
		const struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];
		struct weft_seg seg = { .ev = s->ev };

		weft_tx_segment(tx, psn, weft_slot_ssn(tx, s), weft_slot_seg(s), &seg);
		check_claim(c, &seg, w->wnd);
		c->psn[psn - c->psn0].sent = w->now;
		c->psn[psn - c->psn0].dom = w->dom;
	}
}

/* Locked: the ACKs that were left here are scored; this one as well, if it is one of many. */
enum step lane_bulk(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct weft_tx *tx = &w->c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	uint32_t before = tx->inflight;
	int was = tx->inflight != 0, room = room_of(h, w->dom);
	enum step next = TX_SCORE;

	weft_tx_collect(tx, w->dom, w->plain.who);
	w->wnd = window(h, tx);
	if (cpu->cur->h.op == WEFT_OP_ACK && !w->flags && (room > 0 || !h->wait[w->dom]) &&
	    room >= (int32_t)(W.p.budget - W.p.hard) &&
	    weft_tx_is_bulk(tx, &w->plain, w->wnd,
			    room > 1 ? domain_share(domains(h, w), w->wnd) : 0)) {
		next = STEP_END;
		if (weft_tx_bulk(tx, &w->plain, w->now, w->c->conf, &w->seg)) {
			w->wnd = window(h, tx);
			check_lane(w->c, w);
			check_lent(w->c, &w->seg);
			w->probe = 0;
			next = TX_FILL;
		}
		W.st.bulk++;
	}
	account(h, 0, 0, w->dom, tx->inflight - before);
	publish(w->c);
	check_ack_in(w->c);
	check_tx(w->c);
	h->active += (tx->inflight != 0) - was;
	return next;
}

/* Locked: take away what a CPU was lent: the one that the ACK's token went out from, or who is stuck. */
static void unlend(struct cpu *cpu, int stuck)
{
	struct work *w = &cpu->w;
	struct weft_tx *tx = &w->c->gtx.tx;
	struct host *h = &W.host[cpu->host];
	uint32_t before = tx->inflight, dom;
	int was = tx->inflight != 0;

	dom = stuck ? weft_tx_unblock_lane(tx, w->now, w->dom)
		    : weft_tx_disown(tx, w->psn, be32toh(cpu->cur->h.ts), cpu->id + 1);
	account(h, 0, 0, dom & (WEFT_DOMAINS - 1), tx->inflight - before);
	h->active += (tx->inflight != 0) - was;
	publish(w->c);
	check_ack_in(w->c);
	check_tx(w->c);
}

enum step lane_disown(struct cpu *cpu)
{
	unlend(cpu, 0);
	W.st.disowned++;
	return ahead(cpu);
}

enum step lane_stuck(struct cpu *cpu)
{
	unlend(cpu, 1);
	return TX_AGAIN;
}

/* Locked: is it what is still lent that goes next? */
int lane_owed(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;

	if (!weft_tx_owed(&c->gtx.tx, w->wnd, w->now, w->dom, cpu->id + 1, &w->seg))
		return 0;
	check_lent(c, &w->seg);
	w->claim = WEFT_CLAIM_OK;
	w->probe = 0;
	c->psn[w->seg.psn - c->psn0].sent = w->now;
	account(&W.host[cpu->host], 0, 0, w->dom, 1);
	return 1;
}
