// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Requests of one QP under a fuzzer, and the invariants of the sending side; see flow.h. */
#include "flow.h"

void flow_init(struct flow *fl, struct fx_qp *q)
{
	memset(fl, 0, sizeof(*fl));
	fl->q = q;
}

bool flow_room(const struct flow *fl)
{
	return fl->posted < FLOW_MSGS && fl->posted - fl->q->ring->sq_done < WEFT_SQ_DEPTH &&
	       fl->cut < FLOW_PSNS - 2 * WEFT_WIN;
}

void flow_post(struct flow *fl, uint64_t loff, uint64_t roff, uint32_t len)
{
	uint32_t m = fl->posted++;

	fl->msg[m].loff = loff;
	fl->msg[m].roff = roff;
	fl->msg[m].len = len;
	fl->msg[m].op = WEFT_WQE_WRITE;
	fl->writes++;
	fx_post(fl->q, loff, roff, len);
}

void flow_post_recv(struct flow *fl, enum weft_wqe_op op, uint64_t loff, uint64_t roff,
		    uint32_t len, uint8_t flags)
{
	struct weft_ring *r = fl->q->ring;
	struct weft_wqe *e = &r->sq[r->sq_prod & (WEFT_SQ_DEPTH - 1)];
	uint32_t m = fl->posted;

	flow_post(fl, loff, roff, len);
	fl->msg[m].op = op;
	fl->msg[m].recv = true;
	fl->msg[m].rsn = fl->recvs++;
	fl->msg[m].flags = flags;
	fl->msg[m].imm = flags & WEFT_F_IMM ? 0xcafe0000 + m : 0;
	e->op = op;
	e->operand = fl->msg[m].imm;
	e->flags =
		(flags & WEFT_F_IMM ? WEFT_WQE_IMM : 0) | (flags & WEFT_F_SOL ? WEFT_WQE_SOL : 0);
	if (op != WEFT_WQE_SEND)
		return;
	e->roff = 0;
	e->rkey = 0;
}

void flow_post_ask(struct flow *fl, enum weft_wqe_op op, uint64_t loff, uint64_t roff, uint32_t len)
{
	uint32_t m = fl->posted++, rights = fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights;
	struct weft_wqe *e = fx_post_ask(fl->q, op, loff, roff, len);

	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = rights; /* all of them */
	fl->msg[m].loff = loff;
	fl->msg[m].roff = roff;
	fl->msg[m].len = len;
	fl->msg[m].op = op;
	if (op == WEFT_WQE_READ)
		return;
	e->rkey = FX_T_KEY;
	e->operand = 1;
}

static uint32_t template_op(const struct frame *f)
{
	struct weft_db db;

	if (f->len < 14 + sizeof(db) || f->b[12] != 0x88 || f->b[13] != 0xb5)
		return 0;
	memcpy(&db, f->b + 14, sizeof(db));
	return db.magic == WEFT_DB_MAGIC ? db.op : 0;
}

/* The devmap's program on what goes to the NIC. Empty clones go out too, and are nobody's. */
static void leave(const struct frame *f, emit_fn emit, void *arg)
{
	static struct frame out;

	fx_run(FX_FILL, f);
	if (drops() > 1)
		fuzz_fail("%lld drops for one clone", (long long)drops());
	if (fx.verdict != XDP_PASS || template_op(&fx.out))
		return;
	out = fx.out;
	emit(arg, &out);
}

uint32_t flow_replied;

void flow_run(struct input *in, enum fx_prog p, const struct frame *f, emit_fn emit, void *arg)
{
	static struct frame out;
	uint32_t n, op;

	fx_run(p, f);
	flow_replied = COUNTED(rx_reply);
	if (drops() > 1)
		fuzz_fail("%lld drops for one frame", (long long)drops());
	if (fx.verdict == XDP_TX) {
		out = fx.out;
		emit(arg, &out);
		return;
	}
	if (fx.verdict != XDP_REDIRECT)
		return;
	out = fx.out;
	op = template_op(&out);
	n = COUNTED(spawned);
	if (op == WEFT_DB_GROW) {
		backend_cpu(take8(in) % 4);
		if (p == FX_CPU)
			fuzz_fail("a token that was moved is moved again");
		op = flow_replied;
		flow_run(in, FX_CPU, &out, emit, arg);
		flow_replied = op;
		return;
	}
	backend_headroom(256);
	if (op != WEFT_DB_FILL)
		n = 1;
	else if (take8(in) >= 200)
		n = take8(in) % (n + 1); /* no memory for the others */
	while (n--)
		leave(&out, emit, arg);
}

/* The packet of PSN number i as it must be, but for EV, time and RETX. */
static void packet_of(const struct flow *fl, uint32_t i, struct pkt *p)
{
	uint32_t m = fl->psn[i].msn, moff = fl->psn[i].moff, len = fl->psn[i].len, asn = 0;
	const uint8_t *bytes = fx.source + FX_S_OFF + fl->msg[m].loff + moff;

	switch (fl->msg[m].op) {
	case WEFT_WQE_SEND: pkt_send(p, fl->q, FX_PSN + i, 0, bytes, len); break;
	case WEFT_WQE_WRITE:
		pkt_data(p, fl->q, FX_PSN + i, fl->msg[m].roff + moff, bytes, len);
		break;
	case WEFT_WQE_READ: pkt_read(p, fl->q, FX_PSN + i, fl->msg[m].roff + moff, len); break;
	default:
		for (uint32_t k = 0; k < m; k++)
			asn += fl->msg[k].op == WEFT_WQE_FADD;
		pkt_atomic(p, fl->q, WEFT_OP_FADD, FX_PSN + i, asn, fl->msg[m].roff, 1, 0);
		return;
	}
	p->h.flags = (fl->psn[i].last ? WEFT_F_LAST : 0) | fl->msg[m].flags;
	if (is_recv(p->h.op, p->h.flags)) {
		p->h.data.imm = htonl(fl->msg[m].imm);
		p->h.data.rsn = htonl(fl->msg[m].rsn);
	}
	p->h.data.msn = htonl(m);
	p->h.data.moff = htonl(moff);
	p->h.data.mlen = htonl(fl->msg[m].len);
}

/* I12: PSN i is new, and says this. Each segment of a message once, in any order, but the last at last. */
static void flow_new(struct flow *fl, uint32_t i, uint32_t m, uint32_t moff, uint32_t len,
		     bool atomic)
{
	uint32_t want_m = i ? fl->psn[i - 1].msn + fl->psn[i - 1].last : 0;
	uint32_t nth = moff / FX_FULL, segs = (fl->msg[m].len + FX_FULL - 1) / FX_FULL;

	if (!i || fl->psn[i - 1].last)
		fl->begin = i;
	if (!segs)
		segs = 1;
	if (m != want_m || moff % FX_FULL || nth >= segs ||
	    (!atomic && moff + len != (nth + 1 < segs ? moff + FX_FULL : fl->msg[m].len)) ||
	    (nth + 1 == segs) != (i + 1 - fl->begin == segs) || fl->psn[fl->begin + nth].tiled)
		fuzz_fail("I12: PSN %u is %u bytes of message %u at %u", i, len, m, moff);
	fl->psn[fl->begin + nth].tiled = true;
	fl->psn[i].msn = m;
	fl->psn[i].moff = moff;
	fl->psn[i].len = len;
	fl->psn[i].last = moff + len == fl->msg[m].len;
	fl->psn[i].own = weft_wqe_own(fl->msg[m].op);
	fl->cut++;
}

uint32_t flow_sent(struct flow *fl, const struct frame *f)
{
	const struct weft_hdr *h = frame_hdr(f);
	bool atomic = h->op == WEFT_OP_FADD;
	uint32_t i = ntohl(h->psn) - FX_PSN, m = ntohl(h->data.msn);
	uint32_t moff = atomic ? 0 : ntohl(h->data.moff);
	uint32_t len = atomic ? 8 : h->op == WEFT_OP_READ ? ntohl(h->data.rlen) : ntohs(h->len);
	static struct frame want;
	struct pkt p;

	/* it does not say of which message it is */
	if (atomic && i < fl->cut)
		m = fl->psn[i].msn;
	else if (atomic && i == fl->cut)
		m = i ? fl->psn[i - 1].msn + fl->psn[i - 1].last : 0;
	if (i >= FLOW_PSNS || i > fl->cut + WEFT_WIN)
		fuzz_fail("I12: PSN %u is sent, %u is next", i, fl->cut);
	if (m >= fl->posted)
		fuzz_fail("I12: a packet of message %u, %u were posted", m, fl->posted);
	if (fl->msg[m].loff + moff + len >
	    (h->op == WEFT_OP_DATA || h->op == WEFT_OP_SEND ? FX_S_LEN : FX_T_LEN))
		fuzz_fail("I5: message %u at %u is not in the local MR", m, moff);
	/* lent before this was claimed, and not sent yet, or never, if a peer that lies has acknowledged it: the core says what it is */
	while (i > fl->cut) {
		static struct weft_tx tx;
		struct weft_seg seg;
		const struct weft_tx_slot *sl;
		uint32_t k = fl->cut;

		fx_tx_get(fl->q, &tx);
		sl = &tx.slot[weft_tx_at(FX_PSN + k)];
		if (!weft_slot_lent(sl) && !fl->psn[k].acked)
			fuzz_fail("I12: PSN %u is sent, %u is next", i, k);
		weft_tx_segment(&tx, FX_PSN + k, weft_slot_ssn(&tx, sl), weft_slot_seg(sl), &seg);
		flow_new(fl, k, seg.msn, seg.moff, seg.len, false);
	}
	if (i == fl->cut) {
		flow_new(fl, i, m, moff, len, atomic);
	} else if (fl->psn[i].msn != m || fl->psn[i].moff != moff || fl->psn[i].len != len) {
		fuzz_fail("I12: PSN %u has changed its meaning", i);
	}
	if (h->ev >= fl->q->ctl->nev)
		fuzz_fail("entropy value %u of %u", h->ev, fl->q->ctl->nev);
	packet_of(fl, i, &p);
	p.sport = WEFT_EV_PORT0 + h->ev;
	p.h.ev = h->ev;
	p.h.ts = h->ts;
	p.h.flags |= h->flags & WEFT_F_RETX;
	pkt_frame(&p, &want);
	if (want.len != f->len || memcmp(want.b, f->b, f->len))
		fuzz_fail("I13: PSN %u is not what it should be on the wire", i);
	return i;
}

static void count_slots(const struct weft_tx *tx)
{
	uint32_t out = 0, lost = 0, per[WEFT_DOMAINS] = { 0 };

	for (uint32_t i = 0; i < WEFT_WIN; i++)
		if (weft_slot_state(&tx->slot[i]) == WEFT_SLOT_OUT) {
			out++;
			per[weft_slot_dom(&tx->slot[i]) % WEFT_DOMAINS]++;
		}
	for (uint32_t i = 0; i < WEFT_WIN_WORDS; i++)
		lost += __builtin_popcountll(tx->lost[i]);
	for (int d = 0; d < WEFT_DOMAINS; d++)
		if (per[d] != tx->dom[d].out)
			fuzz_fail("I10: %u slots of domain %d are out, %u counted", per[d], d,
				  tx->dom[d].out);
	if (out != tx->inflight || lost != tx->nlost)
		fuzz_fail("I10: %u slots are out, %u counted; %u are lost, %u counted", out,
			  tx->inflight, lost, tx->nlost);
	for (uint32_t psn = tx->una; psn != tx->nxt; psn++) {
		uint32_t w = weft_psn_word(psn);
		uint64_t bit = weft_psn_bit(psn);

		if (!(tx->delivered[w] & bit) && !(tx->lost[w] & bit) && !weft_tx_goes(tx, psn))
			fuzz_fail("I10: PSN %u is neither delivered, out, lent nor lost",
				  psn - FX_PSN);
	}
}

/* Of each domain, from the oldest to the newest; as many as are counted. */
static void check_lists(const struct weft_tx *tx)
{
	for (uint32_t d = 0; d < WEFT_DOMAINS; d++) {
		uint32_t at = tx->dom[d].head, was = 0;

		for (uint32_t n = 0; n < tx->dom[d].out; n++) {
			const struct weft_tx_slot *s = &tx->slot[at % WEFT_WIN];

			if (weft_slot_state(s) != WEFT_SLOT_OUT || weft_slot_dom(s) != d ||
			    (n && s->prev != was))
				fuzz_fail("I10: the list of domain %u is broken", d);
			was = at;
			at = s->next;
		}
		if (tx->dom[d].out && was != tx->dom[d].tail)
			fuzz_fail("I10: the list of domain %u does not end at its tail", d);
	}
}

void flow_check(struct flow *fl, uint32_t inflight_before)
{
	static struct weft_tx tx;
	const struct weft_ring *r = fl->q->ring;

	fx_tx_get(fl->q, &tx);
	if (tx.nxt - tx.una > WEFT_WIN || tx.inflight > WEFT_WIN ||
	    tx.cons - tx.done > WEFT_SQ_DEPTH || tx.ev_next >= tx.path.n)
		fuzz_fail("I8: window %u, in flight %u, requests %u", tx.nxt - tx.una, tx.inflight,
			  tx.cons - tx.done);
	/* tokens that nobody expected may have taken what was lent */
	if (tx.inflight > inflight_before && tx.inflight > tx.cc.cwnd + WEFT_LANE)
		fuzz_fail("I10: %u in flight, the window is %u", tx.inflight, tx.cc.cwnd);
	count_slots(&tx);
	check_lists(&tx);
	/* claimed, and its frame was never seen: a clone that was not made, or a local error */
	while (fl->prefix < FLOW_PSNS && fl->psn[fl->prefix].acked) {
		if (fl->prefix < fl->cut)
			fl->prefix_msgs = fl->psn[fl->prefix].msn + fl->psn[fl->prefix].last;
		fl->prefix++;
	}
	if ((int32_t)(tx.una - FX_PSN - fl->prefix) > 0)
		fuzz_fail("I3: PSN %u is done with, %u was not acknowledged", tx.una - FX_PSN,
			  fl->prefix);
	if ((int32_t)(r->sq_done - tx.done) > 0)
		fuzz_fail("I3: %u WRITEs complete, the core says %u", r->sq_done, tx.done);
	if (fl->prefix <= fl->cut && (int32_t)(tx.done - fl->prefix_msgs) > 0)
		fuzz_fail("I3: %u WRITEs complete, %u were acknowledged", tx.done, fl->prefix_msgs);
}

uint32_t flow_inflight(const struct flow *fl)
{
	static struct weft_tx tx;

	fx_tx_get(fl->q, &tx);
	return tx.inflight;
}

void flow_check_books(void)
{
	int32_t out[WEFT_DOMAINS] = { 0 };
	static struct weft_tx tx;
	uint32_t active = 0;

	for (int i = 0; i < FX_QPS; i++) {
		fx_tx_get(&fx.qp[i], &tx);
		active += tx.inflight != 0;
		for (int d = 0; d < WEFT_DOMAINS; d++)
			out[d] += tx.dom[d].out;
	}
	for (int d = 0; d < WEFT_DOMAINS; d++)
		if (out[d] != fx.run->dom[d].inflight)
			fuzz_fail("I10: domain %d has %d tokens, the books say %d", d, out[d],
				  fx.run->dom[d].inflight);
	if (active != fx.run->active)
		fuzz_fail("I10: %u QPs send, the books say %u", active, fx.run->active);
}
