/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The invariants: one named check each, run with every step that could break it. */
#include <stdarg.h>

#include "many.h"

void fail(const char *inv, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (W.failed)
		return;
	W.failed = 1;
	n = snprintf(W.why, sizeof(W.why), "%s at %llu ns: ", inv, (unsigned long long)W.now);
	va_start(ap, fmt);
	vsnprintf(W.why + n, sizeof(W.why) - n, fmt, ap);
	va_end(ap);
}

/* What is known of a PSN that is under way. I11: one of another generation is nobody's. */
struct psn_rec *rec_of(struct conn *c, __u32 psn)
{
	static struct psn_rec none;

	if (psn - c->psn0 < c->cut)
		return &c->psn[psn - c->psn0];
	fail("I11", "qp %u: PSN %u was never sent", c->id, psn - c->psn0);
	none.ssn = c->msn0;
	return &none;
}

struct msg_rec *msg_of(struct conn *c, const struct psn_rec *r)
{
	return &c->msg[r->ssn - c->msn0];
}

/* I10: within the window. I12: a PSN means the same bytes for ever, and new ones tile messages. */
void check_claim(struct conn *c, const struct weft_seg *s, __u32 wnd)
{
	const struct weft_tx *tx = &c->gtx.tx;
	const struct host *h = &W.host[c->from];
	uint32_t idx = s->psn - c->psn0, budget = W.p.budget * h->cpus;
	struct psn_rec *r = &c->psn[idx];
	struct msg_rec *m = &c->msg[s->msn - c->msn0];

	if (tx->inflight > wnd || wnd > tx->cc.cwnd || wnd > WEFT_CWND_MAX || wnd > budget)
		fail("I10", "qp %u: %u in flight, window %u, cwnd %u, budget %u", c->id,
		     tx->inflight, wnd, tx->cc.cwnd, budget);
	if (idx >= SIM_SEGS || s->msn - c->msn0 >= c->posted) {
		fail("I12", "qp %u: PSN %u of message %u was not asked for", c->id, idx,
		     s->msn - c->msn0);
		return;
	}
	if (s->ev >= W.p.nev)
		fail("I13", "qp %u: entropy value %u of %u", c->id, s->ev, W.p.nev);
	if (s->op != m->op || s->wflags != m->flags || s->mlen != m->mlen || s->rkey != m->rkey ||
	    (weft_wqe_takes(s->op, s->wflags) && s->asn != m->rsn) ||
	    (s->wflags & WEFT_WQE_IMM && s->operand != m->operand) ||
	    (weft_wqe_atomic(s->op) && (s->operand != m->operand || s->compare != m->compare)))
		fail("I12", "qp %u: PSN %u is not what was posted", c->id, idx);
	if (r->known) {
		if (r->ssn != s->msn || r->more != s->more || r->moff != s->moff ||
		    r->len != s->len || r->loff != s->loff || r->roff != s->roff ||
		    (!(s->flags & WEFT_F_RETX) && r->gone) || r->last != (s->flags & WEFT_F_LAST) ||
		    (weft_wqe_atomic(s->op) && c->atomic_psn[s->asn & (SIM_MSGS - 1)] != idx))
			fail("I12", "qp %u: PSN %u changed its meaning", c->id, idx);
		return;
	}
	if (idx != c->cut)
		fail("I12", "qp %u: PSN %u sent, %u is next", c->id, idx, c->cut);
	*r = (struct psn_rec){ .loff = s->loff,
			       .roff = s->roff,
			       .ssn = s->msn,
			       .moff = s->moff,
			       .len = s->len,
			       .since = c->written,
			       .known = 1,
			       .op = s->op,
			       .end = s->moff + s->len == m->moff + m->len,
			       .last = s->flags & WEFT_F_LAST };
	if ((s->flags & WEFT_F_RETX) || r->last != (s->moff + s->len == m->mlen) ||
	    !cut_right(c, s, idx))
		fail("I12", "qp %u: PSN %u is cut wrong", c->id, idx);
	c->cut++;
	if (r->end)
		m->end = c->cut;
	if (weft_wqe_atomic(s->op))
		check_atomic(c, s);
}

/* I12: before it has left, small whole WRITEs join a PSN, in posting order, as they were posted. */
void check_join(struct conn *c, const struct weft_seg *s)
{
	const struct weft_tx *tx = &c->gtx.tx;
	uint32_t idx = s->psn - c->psn0, at = s->msn - c->msn0, sum = 0;
	struct psn_rec *r = &c->psn[idx];

	if (s->more == r->more)
		return;
	if (idx + 1 != c->cut || r->gone || r->more || s->more >= WEFT_MANY)
		fail("I12", "qp %u: %u requests join PSN %u, after it has left or another has",
		     c->id, s->more, idx);
	for (uint32_t i = 0; i <= s->more; i++) {
		struct msg_rec *m = &c->msg[at + i];
		const struct weft_wqe *q = &tx->wqe[(s->msn + i) & (WEFT_SQ_DEPTH - 1)];

		if (at + i >= c->posted || m->op != WEFT_WQE_WRITE || m->flags || m->moff ||
		    m->mlen != m->len || q->len != m->len || q->loff != m->loff ||
		    q->roff != m->roff || q->rkey != m->rkey)
			fail("I12", "qp %u: request %u joins PSN %u", c->id, at + i, idx);
		sum += sizeof(struct weft_desc) + m->len;
		m->end = c->cut;
	}
	if (sum > W.p.payload)
		fail("I8", "qp %u: %u bytes in PSN %u", c->id, sum, idx);
	r->more = s->more;
	c->joined += s->more;
	W.st.joined += s->more;
}

/* Has a CPU been lent it, and not said yet that it has sent it? */
static int is_lent(const struct weft_tx *tx, __u32 psn)
{
	for (unsigned d = 0; d < WEFT_DOMAINS; d++)
		if (psn - tx->lane[d].first < tx->lane[d].state >> 8)
			return 1;
	return 0;
}

/* Slots counted one by one; costs a microsecond, so not with every step. */
static void count_slots(struct conn *c)
{
	const struct weft_tx *tx = &c->gtx.tx;
	uint32_t out = 0, per[WEFT_DOMAINS] = { 0 };

	for (uint32_t i = 0; i < WEFT_WIN; i++)
		if (weft_slot_state(&tx->slot[i]) == WEFT_SLOT_OUT) {
			out++;
			per[weft_slot_dom(&tx->slot[i]) & (WEFT_DOMAINS - 1)]++;
		}
	for (unsigned d = 0; d < WEFT_DOMAINS; d++)
		if (per[d] != tx->dom[d].out)
			fail("I10", "qp %u: %u slots of domain %u are out, %u counted", c->id,
			     per[d], d, tx->dom[d].out);
	if (out != tx->inflight)
		fail("I10", "qp %u: %u slots are out, %u counted", c->id, out, tx->inflight);
	for (__u32 psn = tx->una; psn != tx->nxt; psn++) {
		uint32_t w = weft_psn_word(psn);
		uint64_t bit = weft_psn_bit(psn);
		const struct psn_rec *r = &c->psn[psn - c->psn0];

		if (tx->delivered[w] & bit) {
			if (!(weft_wqe_own(r->op) ? r->put : r->placed))
				fail("I3", "qp %u: PSN %u delivered, not placed", c->id,
				     psn - c->psn0);
		} else if (!r->taking &&
			   weft_slot_state(&tx->slot[weft_tx_at(psn)]) != WEFT_SLOT_OUT &&
			   !(tx->lost[w] & bit) && !is_lent(tx, psn)) {
			fail("I10", "qp %u: PSN %u is forgotten: not delivered, out or lost", c->id,
			     psn - c->psn0);
		}
	}
}

/* I10: counters agree. I8: nothing beyond its bounds. */
void check_tx(struct conn *c)
{
	const struct weft_tx *tx = &c->gtx.tx;
	uint32_t most = WEFT_SQ_DEPTH - (c->depth > WEFT_SQ_DEPTH ? WEFT_SQ_SPARE : 0);
	uint32_t out = 0, lost = 0;

	for (uint32_t i = 0; i < WEFT_DOMAINS; i++)
		out += tx->dom[i].out;
	for (uint32_t i = 0; i < WEFT_WIN_WORDS; i++)
		lost += weft_popcount(tx->lost[i]);
	if (out != tx->inflight || lost != tx->nlost)
		fail("I10", "qp %u: %u in flight, %u by domain; %u lost, %u bits", c->id,
		     tx->inflight, out, tx->nlost, lost);
	if (tx->nxt - tx->una > WEFT_WIN || tx->inflight > WEFT_WIN || tx->nlost > WEFT_WIN ||
	    tx->cons - tx->done > most || tx->ev_next >= tx->path.n)
		fail("I8", "qp %u: window %u, in flight %u, lost %u, requests %u", c->id,
		     tx->nxt - tx->una, tx->inflight, tx->nlost, tx->cons - tx->done);
	if (c->gtx.before != c->gtx.after || c->gtx.before != 0x6a09e667f3bcc908ull)
		fail("I8", "qp %u: written beside the send state", c->id);
	if (!(++c->steps & 63))
		count_slots(c);
}

/* I10: tokens that count as under way are. */
void check_growing(const struct conn *c)
{
	const struct weft_tx *tx = &c->gtx.tx;

	for (unsigned d = 0; d < WEFT_DOMAINS; d++)
		if (tx->dom[d].growing > c->clones[d])
			fail("I10", "qp %u: %u tokens under way in domain %u, %u clones", c->id,
			     tx->dom[d].growing, d, c->clones[d]);
}

/* No storm: only what another CPU has held up for long is rescued. */
void check_rescue(const struct conn *c, const struct weft_seg *s, __u32 now, __u32 dom)
{
	const struct psn_rec *r = &c->psn[s->psn - c->psn0];
	__s32 age = weft_psn_diff(now, r->sent), limit = 2 * weft_reo_wnd(&c->gtx.tx.rtt);

	if (age <= limit || r->dom == dom)
		fail("storm", "qp %u: PSN %u of domain %u rescued by %u after %d of %d ticks",
		     c->id, s->psn - c->psn0, r->dom, dom, age, limit);
}

/* I8: what is refused does not fit, however far the window is behind. */
void check_window(const struct conn *c, __u32 psn)
{
	const struct weft_rx *rx = &c->grx.rx;
	__u32 next = rx->next, n = 0;

	while (n++ < WEFT_WIN && rx->word[weft_psn_word(next)].placed & weft_psn_bit(next))
		next++;
	if (weft_psn_diff(psn, next) < WEFT_WIN)
		fail("I8", "qp %u: PSN %u fits the window and is refused", c->id, psn - c->psn0);
}

/* I4: messages counted as arrived are placed, with all before them. I8: bounds. */
void check_rx(struct conn *c)
{
	const struct weft_rx *rx = &c->grx.rx;
	/* those of the refused packet that are there: seal() */
	uint32_t next = rx->next - c->psn0, msgs = rx->msn - rx->err_part - c->msn0, last = 0;
	uint32_t end = msgs < c->msgs ? c->msg[c->ends[msgs].req].end : 0;

	if (next > c->contig)
		fail("I3", "qp %u: in order up to %u, placed up to %u", c->id, next, c->contig);
	if (msgs && (msgs > c->msgs || !c->msg[c->ends[msgs - 1].req].end ||
		     c->msg[c->ends[msgs - 1].req].end > next))
		fail("I4", "qp %u: message %u arrived before its packets", c->id, msgs - 1);
	else if (rx->quiet != (msgs ? c->ends[msgs - 1].quiet : 0))
		fail("I4", "qp %u: %u of %u messages are no arrivals, %u counted", c->id,
		     msgs ? c->ends[msgs - 1].quiet : 0, msgs, rx->quiet);
	if (end && end <= next)
		fail("I4", "qp %u: message %u is placed and not counted", c->id, msgs);
	for (uint32_t i = 0; i < WEFT_WIN_WORDS; i++) {
		last += weft_popcount(rx->word[i].last & ~rx->word[i].quiet);
		if (rx->word[i].quiet & ~rx->word[i].last)
			fail("I4", "qp %u: quiet, and not the end of a message", c->id);
		if (rx->word[i].placed & ~rx->word[i].claimed ||
		    rx->word[i].last & ~rx->word[i].claimed)
			fail("I8", "qp %u: placed without a claim", c->id);
	}
	if (last != rx->nlast)
		fail("I4", "qp %u: %u ends pending, %u counted", c->id, last, rx->nlast);
	if (c->grx.before != c->grx.after || c->grx.before != 0x6a09e667f3bcc908ull)
		fail("I8", "qp %u: written beside the receive state", c->id);
}

/* I13: what goes out is what was claimed and logged. */
void check_data_frame(const struct conn *c, const struct frame *f, const struct weft_seg *s,
		      __u32 ts)
{
	const struct weft_tx *tx = &c->gtx.tx;
	const struct weft_tx_slot *sl = &tx->slot[weft_tx_at(s->psn)];

	if (be32toh(f->h.psn) != s->psn || f->h.ev != s->ev || f->ttl != SIM_TTL || f->ce)
		fail("I13", "qp %u: PSN %#x leaves with PSN %#x, TTL %u, CE %u", c->id, s->psn,
		     be32toh(f->h.psn), f->ttl, f->ce);
	/* unless its token was given up meanwhile, and another one took over */
	if (weft_slot_state(sl) == WEFT_SLOT_OUT && tx->nxt - s->psn - 1 < WEFT_WIN &&
	    sl->tries == 1 && sl->ts != ts)
		fail("I13", "qp %u: PSN %#x leaves with another time than logged", c->id, s->psn);
}

/* I13: TTL and CE of a frame tell of its last journey only. */
void check_arrival(const struct frame *f)
{
	if (f->ttl != SIM_TTL - f->hops || f->ce != f->marked)
		fail("I13", "a frame arrives with TTL %u after %u hops, CE %u", f->ttl, f->hops,
		     f->ce);
}

/*
 * I4, strict order: what is seen comes behind all before it. The rest may overtake what is surely about
 * other bytes, which another key does not make sure.
 */
static void check_order(const struct conn *c, uint32_t idx)
{
	const struct psn_rec *r = &c->psn[idx];
	const struct msg_rec *m = &c->msg[r->ssn - c->msn0];

	for (uint32_t i = c->contig; i < idx; i++) {
		const struct psn_rec *o = &c->psn[i];
		const struct msg_rec *n = &c->msg[o->ssn - c->msn0];

		if (o->placed)
			continue;
		W.st.overtook++;
		if (r->last || r->op != WEFT_WQE_WRITE)
			fail("I4", "qp %u: strict order, PSN %u is placed and PSN %u is not", c->id,
			     idx, i);
		else if (o->op == WEFT_WQE_SEND || n->rkey != m->rkey ||
			 (o->roff < r->roff + r->len && r->roff < o->roff + o->len))
			fail("I4",
			     "qp %u: strict order, PSN %u overtakes PSN %u, perhaps of the same bytes",
			     c->id, idx, i);
	}
}

/* The copy is complete. I2, I12: never twice, and to where its PSN belongs. */
void check_placed(struct conn *c, __u32 psn)
{
	uint32_t idx = psn - c->psn0;

	if (idx >= c->cut || c->psn[idx].placed) {
		fail("I2", "qp %u: PSN %u placed twice, or never sent", c->id, idx);
		return;
	}
	if (W.p.strict)
		check_order(c, idx);
	c->psn[idx].placed = 1;
	while (c->contig < c->cut && c->psn[c->contig].placed)
		c->contig++;
	check_got(c);
}

/* What the requester may know to be delivered: placed there, or its answer is in memory here. */
void check_got(struct conn *c)
{
	while (c->got < c->cut &&
	       (weft_wqe_own(c->psn[c->got].op) ? c->psn[c->got].put : c->psn[c->got].placed))
		c->got++;
}

/* I3: what an ACK says is placed is placed. */
void check_ack_out(const struct conn *c, const struct weft_rx_sack *k, __u32 psn, int placed)
{
	__u32 part = c->grx.rx.err_part,
	      msn = part && k->msn == c->grx.rx.msn ? k->msn - part : k->msn;

	if (placed && !c->psn[psn - c->psn0].placed)
		fail("I3", "qp %u: PSN %u acknowledged, not placed", c->id, psn - c->psn0);
	if (k->cum - c->psn0 > c->contig)
		fail("I3", "qp %u: all before %u acknowledged, placed up to %u", c->id,
		     k->cum - c->psn0, c->contig);
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t x = k->base + i - c->psn0;

		/* below cum a bit may stand for the next window */
		if (k->bits >> i & 1 && weft_psn_diff(k->base + i, k->cum) >= 0 &&
		    (x >= c->cut || !c->psn[x].placed))
			fail("I3", "qp %u: PSN %u reported, not placed", c->id, x);
	}
	/* of the packet that was refused those that are there count: check_sealed() */
	if (msn != c->msn0 &&
	    (msn - c->msn0 > c->msgs || c->msg[c->ends[msn - c->msn0 - 1].req].end > c->contig))
		fail("I3", "qp %u: message %u reported, not there", c->id, msn - c->msn0 - 1);
}

/* I3: nothing is complete that was not acknowledged, thus placed; completions in order. */
void check_ack_in(struct conn *c)
{
	const struct weft_tx *tx = &c->gtx.tx;
	uint32_t done = tx->done - c->msn0, before = c->ring.sq_done - c->msn0;

	if (tx->una - c->psn0 > c->got)
		fail("I3", "qp %u: delivered up to %u, placed up to %u", c->id, tx->una - c->psn0,
		     c->got);
	if (done < before || done > c->posted)
		fail("I3", "qp %u: completions go from %u to %u", c->id, before, done);
	if (done &&
	    (!c->msg[done - 1].end || (c->msg[done - 1].end > c->got && !c->msg[done - 1].there)))
		fail("I3", "qp %u: request %u complete before it was placed", c->id, done - 1);
	check_tx(c);
}

/* I6: a reply is no longer than what it answers, or brings what that asked for; to replies none. */
void check_reply(const struct frame *f, uint32_t was_len, uint32_t len)
{
	if (f->h.op == WEFT_OP_READ)
		was_len = be32toh(f->h.data.rlen);
	else if (f->h.op == WEFT_OP_FADD || f->h.op == WEFT_OP_CSWAP)
		was_len = 8;
	if (len > was_len || !is_request(f->h.op))
		fail("I6", "%u bytes answer opcode %u with %u bytes", len, f->h.op, was_len);
}

/* The device's books agree with the QPs' (I10). */
static void check_books(void)
{
	for (uint32_t h = 0; h < SIM_HOSTS; h++) {
		int32_t active = 0, out[WEFT_DOMAINS] = { 0 };

		for (uint32_t i = 0; i < W.p.qps; i++) {
			if (W.conn[i]->from != h)
				continue;
			active += W.conn[i]->gtx.tx.inflight != 0;
			for (uint32_t d = 0; d < WEFT_DOMAINS; d++)
				out[d] += W.conn[i]->gtx.tx.dom[d].out;
		}
		if (active != W.host[h].active || memcmp(out, W.host[h].dom_inflight, sizeof(out)))
			fail("I10", "host %u: %d QPs active, %d by the device's books", h, active,
			     W.host[h].active);
	}
}

/* No storm: a retransmission needs a loss, unless reordering or stalls look like one. */
static void check_efficiency(void)
{
	const struct params *p = &W.p;
	uint64_t max = W.lost_tokens * 13 / 10 + 100;

	/* packets behind by more than a round trip, and the share of a CPU held up, look lost */
	if (p->reorder_by > 2 * p->delay)
		max += W.st.reordered;
	/* what was refused goes out once more each time */
	max += W.st.rnrs + W.st.probes;
	/* in strict order all behind a gap comes again, and what went out meanwhile */
	if (p->strict)
		max += (W.lost_tokens + W.st.reordered + W.st.stalls + W.st.duplicated) * 2 *
		       (p->cut_cwnd ? WEFT_CWND_MAX : p->cwnd);
	max += W.st.stalls * (64 + p->cwnd / (p->cpus[0] < p->cpus[1] ? p->cpus[0] : p->cpus[1]));
	if (p->preempt)
		max += 100;
	if (W.st.retransmits > max)
		fail("storm", "%llu of %llu packets sent again, %u tokens lost",
		     (unsigned long long)W.st.retransmits, (unsigned long long)W.st.packets,
		     W.lost_tokens);
}

void check_end(void)
{
	if (W.open)
		fail("I10", "nothing is under way and %u connections are not finished", W.open);
	for (uint32_t i = 0; i < W.p.qps && !W.failed; i++) {
		struct conn *c = W.conn[i];
		const struct weft_tx *tx = &c->gtx.tx;

		check_memory(c);
		check_receives(c);
		check_rnrs(c);
		check_rx(c);
		count_slots(c);
		if (W.p.nak) {
			if (tx->err != WEFT_TX_ERR_NAK || !c->grx.rx.err || !c->naks ||
			    tx->err_ssn - c->msn0 != c->posted - 1 || tx->err_info != c->grx.rx.err)
				fail("I5", "qp %u: a bad request did not end in a NAK", c->id);
		} else if (c->contig != c->cut || c->got != c->cut ||
			   c->segs_quota != c->cut + c->joined || tx->err || tx->una != tx->nxt ||
			   tx->nlost) {
			fail("I1", "qp %u: %u of %u packets placed at the end", c->id, c->contig,
			     c->cut);
		}
		W.st.timeouts += tx->timeouts;
		W.st.spurious += tx->spurious;
	}
	if (!W.failed)
		check_books();
	if (!W.failed)
		check_words();
	if (!W.failed)
		check_efficiency();
}
