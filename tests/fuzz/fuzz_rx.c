// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The receive path under packets that are right, nearly right, or anything: judged by a second responder. */
#include "draw.h"

/* The control plane may do its part in between. */
static void change_device(struct input *in)
{
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];
	struct fx_qp *q = &fx.qp[take8(in) % FX_QPS];

	switch (take8(in) % 8) {
	case 0: mr->rights = take8(in) & WEFT_ACCESS_ALL; break;
	case 1: mr->pd = take8(in) & 1 ? FX_PD : FX_PD + 1; break;
	case 2: mr->key = take8(in) & 1 ? FX_T_KEY : 0; break;
	case 3: mr->len = take8(in) & 1 ? FX_T_LEN : take16(in); break;
	case 4: q->ctl->state = take8(in) % (WEFT_QP_CLOSED + 1); break;
	case 5: q->ctl->state = WEFT_QP_RTS; break;
	case 6: q->ctl->flags ^= q->v6 ? 0 : WEFT_QPF_CSUM; break;
	case 7: q->ring->arm_rx = 1; break;
	}
}

/* What the ACK says must be so, and as much as can be known. */
static void check_ack(const struct weft_hdr *h, const struct judged *j, const struct weft_hdr *req)
{
	const struct model_rx *rx = &model.rx[j->qp];
	uint32_t cum = ntohl(h->ack.cum), psn = ntohl(req->psn), base = ntohl(h->ack.sack_base);
	uint64_t sack = be64toh(h->ack.sack);

	if ((int32_t)(cum - rx->next) > 0)
		fuzz_fail("I3: cum %u, but %u is not placed", cum, rx->next);
	if (base != (psn & ~63u))
		fuzz_fail("I3: SACK base %u for PSN %u", base, psn);
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t s = base + i;

		if (sack >> i & 1 && (int32_t)(s - rx->next) >= 0 && !rx->placed[s % WEFT_WIN])
			fuzz_fail("I3: PSN %u is acknowledged and not placed", s);
		if (sack >> i & 1 && (int32_t)(s - rx->next) >= WEFT_WIN)
			fuzz_fail("I3: PSN %u is acknowledged beyond the window", s);
	}
	if (j->reply != WEFT_OP_RNR && j->reply != WEFT_OP_SEQ && (int32_t)(psn - cum) >= 0 &&
	    !(sack >> (psn & 63) & 1))
		fuzz_fail("I3: the ACK of PSN %u does not say so", psn);
	if ((int32_t)(ntohl(h->ack.msn) - rx->msn) > 0)
		fuzz_fail("I4: %u messages, not %u", ntohl(h->ack.msn), rx->msn);
	if (cum == rx->next && ntohl(h->ack.msn) != rx->msn)
		fuzz_fail("I4: %u messages at PSN %u, not %u", ntohl(h->ack.msn), cum, rx->msn);
}

/* The whole reply: headers from the template, echoes, sums (I6, I13). */
static void check_reply(const struct judged *j, const struct frame *asked)
{
	const struct fx_qp *q = &fx.qp[j->qp];
	const struct weft_hdr *got, *req;
	static struct frame want;
	struct weft_hdr r;
	struct pkt p;

	memcpy(&r, asked->b + j->at - WEFT_HDR_LEN, sizeof(r));
	req = &r;
	if (fx.out.len > asked->len && j->reply != WEFT_OP_REPLY)
		fuzz_fail("I6: a reply of %u bytes to %u", fx.out.len, asked->len);
	if (fx.out.len != j->at + (j->reply == WEFT_OP_REPLY ? j->len : 0))
		fuzz_fail("I6: a reply of %u bytes, not %u", fx.out.len, j->at);
	pkt_init(&p, q, j->reply, ntohl(req->psn));
	if (j->reply == WEFT_OP_REPLY) {
		p.len = j->len;
		p.h.len = htons(j->len);
		p.payload = j->op == WEFT_OP_READ ? j->bytes : (const uint8_t *)&j->was;
	}
	p.h.ts = req->ts;
	p.h.ev = req->ev;
	p.sport = WEFT_EV_PORT0 + (req->ev & (WEFT_EV_MAX - 1));
	got = frame_hdr(&fx.out);
	if (j->reply != WEFT_OP_NAK) {
		p.h.flags = j->flags | (j->ce ? WEFT_F_CE : 0);
		check_ack(got, j, req);
		p.h.ack.cum = got->ack.cum;
		p.h.ack.msn = got->ack.msn;
		p.h.ack.sack = got->ack.sack;
		p.h.ack.sack_base = got->ack.sack_base;
		p.h.ack.epoch = htonl(j->epoch);
	} else {
		p.h.nak.code = htonl(j->code);
		p.h.nak.psn = htonl(j->nak_psn);
		p.h.nak.nth = htonl(j->nak_nth);
	}
	pkt_frame(&p, &want);
	for (uint32_t i = 0; i < want.len; i++)
		if (fx.out.b[i] != want.b[i])
			fuzz_fail("I13: byte %u of the reply is %02x, not %02x", i, fx.out.b[i],
				  want.b[i]);
}

static void check_counters(const struct judged *j)
{
	int64_t want[WEFT_DROP_COUNT + WEFT_COUNT_COUNT] = { 0 };
	int64_t *count = want + WEFT_DROP_COUNT;

	if (j->drop >= 0)
		want[j->drop] = 1;
	if (j->reply == WEFT_OP_REPLY) {
		count[WEFT_COUNT_rx_ask] = 1;
		count[WEFT_COUNT_rx_dup] = !j->fresh && j->op != WEFT_OP_READ;
	} else if (j->fresh) {
		count[WEFT_COUNT_rx_data] = 1;
		count[WEFT_COUNT_rx_writes] = j->many != 0;
		count[WEFT_COUNT_rx_bytes] = j->len;
	} else if (j->reply == WEFT_OP_ACK) {
		count[WEFT_COUNT_rx_dup] = 1;
	}
	count[WEFT_COUNT_tx_rnr] = j->reply == WEFT_OP_RNR;
	count[WEFT_COUNT_tx_seq] = j->reply == WEFT_OP_SEQ;
	count[WEFT_COUNT_tx_ack] = j->reply && j->reply != WEFT_OP_NAK;
	count[WEFT_COUNT_tx_nak] = j->reply == WEFT_OP_NAK;
	count[WEFT_COUNT_rx_ce] = count[WEFT_COUNT_tx_ack] && j->ce;
	count[WEFT_COUNT_event] = fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_event];
	for (int i = 0; i < WEFT_DROP_COUNT + WEFT_COUNT_COUNT; i++)
		if (want[i] != fx.diff[i])
			fuzz_fail("counter %d rose by %lld, not by %lld", i, (long long)fx.diff[i],
				  (long long)want[i]);
}

/* The entry says what has come, and no other byte that XDP may write there has changed. */
static void check_queue(const struct judged *j)
{
	const struct fx_qp *q = &fx.qp[j->qp];
	const uint8_t *got = (const uint8_t *)fx.rq[q->v6], *want = (const uint8_t *)&j->rq;

	for (size_t i = 0; i < sizeof(j->rq); i++)
		if (got[i] != want[i])
			fuzz_fail("byte %zu of the receive queue is %02x, not %02x", i, got[i],
				  want[i]);
	for (uint32_t i = 0; i < WEFT_RQ_BIND; i++)
		if (q->ring->bind[i] != j->bind[i])
			fuzz_fail("number %u has taken 0x%x, not 0x%x", i, q->ring->bind[i],
				  j->bind[i]);
	if (q->ring->refused != j->refused)
		fuzz_fail("refused is %u, not %u", q->ring->refused, j->refused);
}

static void run(const struct frame *f)
{
	struct weft_hdr h;
	struct judged j;

	model_judge(f, &j);
	fx_run(FX_NIC, f);
	/* the answer has no room: the same is asked of a clone */
	if (fx.verdict == XDP_REDIRECT && is_ask(j.op)) {
		static struct frame again;

		if (COUNTED(regrown) != 1 || COUNTED(spawned) != 1)
			fuzz_fail("a request is redirected, and not to be answered in a clone");
		again = fx.out;
		backend_headroom(256 + FX_FULL);
		fx_run(FX_FILL, &again);
		if (fx.verdict == XDP_PASS)
			fx.verdict = XDP_TX;
	}
	if (j.verdict == XDP_PASS && j.qp >= 0) {
		/* for the requester: nothing of it was sent, so at most it is one drop */
		if (fx.verdict == XDP_TX)
			fuzz_fail("I6: an answer to opcode %u", j.op);
		if (drops() > 1)
			fuzz_fail("%lld drops for one packet", (long long)drops());
		return backend_written(0, NULL, 0);
	}
	if (fx.verdict != j.verdict)
		fuzz_fail("the verdict is %d, not %d (drop %d, reply %u)", fx.verdict, j.verdict,
			  j.drop, j.reply);
	check_counters(&j);
	if (j.write)
		backend_atomic(j.roff, j.now);
	else
		backend_scattered(j.span, j.nspan, f->b + j.at + j.data);
	if (j.fresh) {
		memcpy(&h, f->b + j.at - WEFT_HDR_LEN, sizeof(h));
		model_place(&j, ntohl(h.psn), h.flags);
	}
	if (j.verdict == XDP_TX) {
		check_reply(&j, f);
	} else if (is_ask(j.op)) {
		/* it may have grown before that was known */
	} else if (fx.out.len != f->len || memcmp(fx.out.b, f->b, f->len)) {
		fuzz_fail("the frame has changed, and is passed or dropped");
	}
	if (j.qp < 0)
		return;
	if (fx.qp[j.qp].ring->arrived != model.rx[j.qp].arrived)
		fuzz_fail("I4: %u messages have arrived, not %u", fx.qp[j.qp].ring->arrived,
			  model.rx[j.qp].arrived);
	if (fx.qp[j.qp].ring->received != model.rx[j.qp].received)
		fuzz_fail("I4: %u receives are complete, not %u", fx.qp[j.qp].ring->received,
			  model.rx[j.qp].received);
	check_queue(&j);
}

void fuzz_rx(struct input *in)
{
	static struct frame f, kept;
	/* which receive queues there are, and in what order requests are taken */
	uint32_t how = take8(in);

	fx_reset(NULL);
	model_reset();
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_ALL;
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
	for (int i = 0; i < FX_QPS; i++) {
		if (how & 3)
			fx_recv_on(&fx.qp[i], how & 2);
		if (how & 4)
			fx.qp[i].ctl->flags |= WEFT_QPF_STRICT;
		else if (how & 16)
			fx.qp[i].ctl->flags |= WEFT_QPF_MANY;
	}
	if (how & 8)
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights &= ~WEFT_ACCESS_LOCAL_WRITE;
	kept.len = 0;
	for (int n = 0; more(in) && n < 400; n++) {
		uint32_t what = take8(in), k = what % 4;
		struct pkt p;

		if (what >= 250) {
			change_device(in);
			continue;
		}
		if (how & 3 && what >= 180 && what < 230) {
			use_queue(in);
			continue;
		}
		if (what >= 240 && kept.len) { /* again */
			run(&kept);
			continue;
		}
		const struct fx_qp *to = &fx.qp[take8(in) % FX_QPS];

		if (what >= 230)
			draw_answer(in, &p, to);
		else if (!(what % 3))
			draw_ask(in, &p, to);
		else if (how & 16 && what % 3 == 2)
			draw_writes(in, &p, to);
		else
			draw_data(in, &p, to);
		if (how & 3 && what < 230 && what % 3 == 1)
			make_recv(in, &p, to);
		if (what >= 120)
			for (uint32_t i = 0; i < k; i++)
				change_field(in, &p);
		pkt_frame(&p, &f);
		if (what % 8 == 7)
			for (uint32_t i = take8(in) % 3; i-- && f.len > 14;)
				damage(in, &f);
		backend_headroom(256 - take8(in));
		run(&f);
		kept = f;
	}
}
