// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The receive path under packets that are right, nearly right, or anything: judged by a second responder. */
#include "model.h"

static const uint8_t *payload_bytes(void)
{
	static uint8_t b[FX_FULL + 400];

	if (!b[1])
		for (uint32_t i = 0; i < sizeof(b); i++)
			b[i] = (i * 2654435761u) >> 24 | 1;
	return b;
}

/* Mostly where something is near: the ends of the MR, the boundary of two chunks. */
static uint64_t draw_offset(struct input *in)
{
	static const uint64_t places[] = { 0, FX_T_LEN, WEFT_CHUNK - FX_T_OFF,
					   2 * (uint64_t)WEFT_CHUNK - FX_T_OFF };
	uint32_t how = take8(in);

	if (how < 200)
		return places[how % 4] + take16(in) % 8192 - (how % 4 ? 4096 : 0);
	return how < 250 ? take32(in) % FX_T_LEN : take64(in);
}

static uint32_t draw_length(struct input *in)
{
	static const uint16_t some[] = { 0,   1,    63,   64,          511,    512,
					 513, 1024, 2048, FX_FULL - 1, FX_FULL };
	uint32_t how = take8(in);

	if (how < 128)
		return some[how % (sizeof(some) / sizeof(some[0]))];
	return take16(in) % (how < 250 ? FX_FULL + 1 : FX_FULL + 60);
}

/* The window's beginning, its end, what is long past, or anything. */
static uint32_t draw_psn(struct input *in, const struct model_rx *rx)
{
	uint32_t how = take8(in), d = take8(in);

	if (how < 96)
		return rx->next;
	if (how < 192)
		return rx->next + d % 80;
	if (how < 220)
		return rx->next + WEFT_WIN - 40 + d % 80;
	if (how < 240)
		return rx->next - 1 - d * 9;
	return how < 250 ? rx->next + d * 4 : take32(in);
}

/* A DATA of a genuine peer as the protocol has it, whole or a segment of something longer. */
static void draw_data(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	uint32_t psn = draw_psn(in, &model.rx[fx_idx(to)]), len = draw_length(in), how = take8(in);
	uint64_t roff = draw_offset(in);

	pkt_data(p, to->peer, psn, roff, payload_bytes() + psn % 256, len);
	p->h.ts = htonl(take16(in));
	p->h.ev = take8(in);
	p->sport = WEFT_EV_PORT0 + p->h.ev;
	if (how < 128 || !len)
		return;
	/* a segment: roff counts from its own beginning */
	uint32_t moff = how & 1 ? take8(in) * 64 : take32(in);
	uint32_t rest = how & 2 ? take16(in) : how & 4 ? take32(in) : 0;

	p->h.data.moff = htonl(moff);
	p->h.data.mlen = htonl(moff + len + rest);
	p->h.flags = rest && how % 16 ? 0 : WEFT_F_LAST;
}

/* A READ or an atomic, mostly of memory that is there. */
static void draw_ask(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	uint32_t psn = draw_psn(in, &model.rx[fx_idx(to)]), how = take8(in), len = draw_length(in);
	uint64_t roff = draw_offset(in);

	if (how < 100) {
		pkt_read(p, to->peer, psn, roff, len);
		if (how % 2)
			p->h.data.rkey = htonl(FX_T_KEY);
		if (how % 8 == 7 && len) {
			p->h.data.moff = htonl(take8(in) * 64);
			p->h.data.mlen = htonl(ntohl(p->h.data.moff) + len + take16(in));
			p->h.flags = 0;
		}
	} else {
		if (how < 240)
			roff += -(FX_T_OFF + roff) % 8;
		pkt_atomic(p, to->peer, how % 2 ? WEFT_OP_FADD : WEFT_OP_CSWAP, psn,
			   how % 4 ? psn : take8(in), roff, take16(in),
			   how % 8 < 4 ? 0xc5c5c5c5c5c5c5c5ull : take16(in));
	}
	p->h.ts = htonl(take16(in));
	p->h.ev = take8(in);
	p->sport = WEFT_EV_PORT0 + p->h.ev;
}

/* Fields that the sender can get wrong although the check is right. */
static void change_field(struct input *in, struct pkt *p)
{
	uint32_t v = take32(in);

	switch (take8(in) % 20) {
	case 0: p->h.ver = v; break;
	case 1: p->h.op = v; break;
	case 2: p->h.flags = v; break;
	case 3: p->h.dqpn ^= htonl(1u << v % 32); break;
	case 4: p->h.conn ^= htobe64(1ull << v % 64); break;
	case 5: p->h.psn = htonl(v); break;
	case 6: p->h.len = htons(v); break;
	case 7: p->h.data.rkey ^= htonl(1u << v % 32); break;
	case 8: p->h.data.rkey = htonl(v % 4 ? FX_S_KEY : v); break;
	case 9: p->h.data.roff = htobe64(take64(in)); break;
	case 10: p->h.data.moff = htonl(v); break;
	case 11: p->h.data.mlen = htonl(v); break;
	case 12: p->h.rsvd0 = v; break;
	case 13: p->csum = !p->csum; break;
	case 14: p->tos = v; break;
	case 15: p->dport += v % 3; break;
	case 16: p->ulen = (int8_t)v / 2; break; /* as much as there is header */
	case 17: p->saddr[v % 4] ^= 1u << (v >> 8) % 32; break;
	case 18: p->daddr[v % 4] ^= 1u << (v >> 8) % 32; break;
	case 19: p->ttl = v; break;
	}
}

/* And what becomes of frames on the way. */
static void damage(struct input *in, struct frame *f)
{
	uint32_t v = take32(in), at = v >> 8;

	switch (take8(in) % 6) {
	case 0: f->b[at % f->len] ^= 1 << v % 8; break;
	case 1: f->b[at % (f->len < 128 ? f->len : 128)] = v; break;
	case 2: f->len = 14 + at % (f->len - 13); break;
	case 3: /* padding */
		if (f->len + v % 64 <= FUZZ_FRAME)
			f->len += v % 64;
		break;
	case 4: /* a payload damaged under a right sum */
		f->b[at % f->len] = v;
		if (f->len > 130 && f->b[12] == 0x86 &&
		    (f->b[58] << 8 | f->b[59]) + 54u <= f->len && (f->b[58] << 8 | f->b[59]) >= 8)
			pkt_csum(f);
		break;
	case 5: f->b[12 + v % 30] = at; break;
	}
}

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
	if ((int32_t)(psn - cum) >= 0 && !(sack >> (psn & 63) & 1))
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
	} else {
		p.h.nak.code = htonl(j->code);
		p.h.nak.psn = htonl(j->nak_psn);
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
	} else if (j->write) {
		count[WEFT_COUNT_rx_data] = 1;
		count[WEFT_COUNT_rx_bytes] = j->len;
	} else if (j->reply == WEFT_OP_ACK) {
		count[WEFT_COUNT_rx_dup] = 1;
	}
	count[WEFT_COUNT_tx_ack] = j->reply == WEFT_OP_ACK || j->reply == WEFT_OP_REPLY;
	count[WEFT_COUNT_tx_nak] = j->reply == WEFT_OP_NAK;
	count[WEFT_COUNT_rx_ce] = count[WEFT_COUNT_tx_ack] && j->ce;
	count[WEFT_COUNT_event] = fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_event];
	for (int i = 0; i < WEFT_DROP_COUNT + WEFT_COUNT_COUNT; i++)
		if (want[i] != fx.diff[i])
			fuzz_fail("counter %d rose by %lld, not by %lld", i, (long long)fx.diff[i],
				  (long long)want[i]);
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
	if (j.verdict == XDP_PASS && j.qp >= 0 && j.op != WEFT_OP_DATA) {
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
	if (j.write && is_ask(j.op))
		backend_atomic(j.roff, j.now);
	else
		backend_written(j.write ? j.roff : 0, f->b + j.at, j.write ? j.len : 0);
	if (j.fresh) {
		memcpy(&h, f->b + j.at - WEFT_HDR_LEN, sizeof(h));
		model_place(&j, ntohl(h.psn), h.flags & WEFT_F_LAST);
	}
	if (j.verdict == XDP_TX) {
		check_reply(&j, f);
	} else if (is_ask(j.op)) {
		/* it may have grown before that was known */
	} else if (fx.out.len != f->len || memcmp(fx.out.b, f->b, f->len)) {
		fuzz_fail("the frame has changed, and is passed or dropped");
	}
	if (j.qp >= 0 && fx.qp[j.qp].ring->arrived != model.rx[j.qp].arrived)
		fuzz_fail("I4: %u messages have arrived, not %u", fx.qp[j.qp].ring->arrived,
			  model.rx[j.qp].arrived);
}

/* An answer to something that was never sent. */
static void draw_answer(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	uint32_t psn = FX_PSN + take8(in) - 128, how = take8(in);
	struct pkt request;

	if (how & 1)
		pkt_ack(p, to->peer, psn, psn + take8(in), take8(in));
	else if (how & 2) {
		pkt_read(&request, to, psn, 0, 0);
		pkt_answer(p, &request, to->peer, psn + take8(in), take8(in), payload_bytes(),
			   draw_length(in) % (FX_FULL + 1));
	} else
		pkt_nak(p, to->peer, psn, take8(in) % 9);
}

void fuzz_rx(struct input *in)
{
	static struct frame f, kept;

	fx_reset(NULL);
	model_reset();
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_ALL;
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
	kept.len = 0;
	for (int n = 0; more(in) && n < 400; n++) {
		uint32_t what = take8(in), k = what % 4;
		struct pkt p;

		if (what >= 250) {
			change_device(in);
			continue;
		}
		if (what >= 240 && kept.len) { /* again */
			run(&kept);
			continue;
		}
		const struct fx_qp *to = &fx.qp[take8(in) % FX_QPS];

		if (what >= 230)
			draw_answer(in, &p, to);
		else if (what % 3)
			draw_data(in, &p, to);
		else
			draw_ask(in, &p, to);
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
