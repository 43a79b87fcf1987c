// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Packets and receives of all degrees of rightness, made from a fuzzer's bytes; see draw.h. */
#include "draw.h"

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
void draw_data(struct input *in, struct pkt *p, const struct fx_qp *to)
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

/* A number near those that are next, or a window on, or anything. */
static uint32_t draw_rsn(struct input *in, const struct model_rx *rx)
{
	uint32_t how = take8(in), d = take8(in);

	if (how < 128)
		return rx->received + d % 4;
	if (how < 240)
		return rx->received + d % 80;
	return how < 250 ? rx->received + WEFT_WIN - 4 + d % 8 : take32(in);
}

/* What takes a receive, of what was a WRITE. */
void make_recv(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	uint32_t how = take8(in);

	p->h.data.rsn = htonl(draw_rsn(in, &model.rx[fx_idx(to)]));
	if (how & 1)
		p->h.flags |= WEFT_F_SOL;
	if (how & 2 || how >= 200) {
		p->h.flags |= WEFT_F_IMM;
		p->h.data.imm = htonl(take32(in));
	}
	if (how >= 200)
		return;
	p->h.op = WEFT_OP_SEND;
	if (how < 190) {
		p->h.data.rkey = 0;
		p->h.data.roff = 0;
	}
}

/* A receive as an application posts it, or a bad one: of memory that it may not, or that is none. */
static void post_receive(struct input *in, struct fx_rq *rq)
{
	uint32_t how = take8(in), n = how % (WEFT_RQ_SGES + 1), entry = rq->head.prod % FX_RQ_DEPTH;
	uint32_t bad = n ? how / 8 % n : 0;
	struct fx_piece at[WEFT_RQ_SGES] = { { 0 } };
	struct weft_rqe *e;

	for (uint32_t i = 0; i < n; i++)
		at[i] = (struct fx_piece){ draw_offset(in), draw_length(in) };
	e = fx_recv(rq, at, n);
	if (how & 0x10)
		e->order = (entry ^ how >> 5) % FX_RQ_DEPTH;
	if (how < 192)
		return;
	switch (take8(in) % 4) {
	case 0: e->sge[bad].lkey = how & 8 ? FX_S_KEY : take32(in); break;
	case 1: e->sge[bad].off = how & 8 ? take64(in) : -(uint64_t)take8(in); break;
	case 2: e->sge[bad].len = take32(in); break;
	case 3: e->order = take32(in); break;
	}
}

/* The application at its receive queues, honest or not: all of it is memory that it can write. */
void use_queue(struct input *in)
{
	struct fx_qp *q = &fx.qp[take8(in) % FX_QPS];
	struct fx_rq *rq = fx.rq[q->v6];
	uint32_t what = take8(in);

	if (what < 180)
		return post_receive(in, rq);
	if (what < 210)
		q->ring->rq_polled = q->ring->received;
	else if (what < 220)
		q->ring->refused = 0;
	else if (what < 225)
		rq->head.prod = take32(in);
	else if (what < 230)
		rq->head.taken = take32(in);
	else if (what < 235)
		q->ring->rq_polled = take32(in);
	else if (what < 245)
		q->ring->bind[take8(in)] = take32(in);
	else
		for (uint32_t n = take8(in) % 32, at = take16(in); n--; at++)
			((uint8_t *)rq)[at % sizeof(*rq)] = take8(in);
}

/* Several WRITEs, now and then with one that is too long, elsewhere, or not what the check says. */
void draw_writes(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	static uint8_t bytes[FX_FULL];
	uint32_t psn = draw_psn(in, &model.rx[fx_idx(to)]), how = take8(in), n = 2 + how % 7;
	uint32_t at = n * sizeof(struct weft_desc), odd = take8(in) % n;
	__u64 words[2 * WEFT_MANY] = { 0 };
	struct weft_desc d[WEFT_MANY] = { 0 };
	__u32 sum[2];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = take8(in);

		d[i].rkey = htonl(FX_T_KEY);
		d[i].roff = htobe64(draw_offset(in));
		if (i == odd && how >= 224)
			d[i].rkey ^= htonl(1u << take8(in) % 32);
		if (i == odd && how >= 192 && how < 208)
			len = 254 + take8(in) % 4;
		d[i].len = htonl(len);
		memcpy(bytes + at, payload_bytes() + (psn + i) % 256, len);
		at += len;
	}
	memcpy(words, d, sizeof(words));
	pkt_init(p, to->peer, WEFT_OP_WRITES, psn);
	weft_check_descs(words, p->hkey, sum);
	if (how >= 208 && how < 224)
		((uint8_t *)d)[take8(in) % (n * sizeof(*d))] ^= 1 << how % 8;
	memcpy(bytes, d, n * sizeof(*d));
	p->h.flags = WEFT_F_LAST;
	p->h.writes.n = htonl(n);
	p->h.writes.sum[0] = htonl(sum[0]);
	p->h.writes.sum[1] = htonl(sum[1]);
	p->h.len = htons(at);
	p->payload = bytes;
	p->len = at;
	p->h.ts = htonl(take16(in));
	p->h.ev = take8(in);
	p->sport = WEFT_EV_PORT0 + p->h.ev;
}

/* A READ or an atomic, mostly of memory that is there. */
void draw_ask(struct input *in, struct pkt *p, const struct fx_qp *to)
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
void change_field(struct input *in, struct pkt *p)
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
void damage(struct input *in, struct frame *f)
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

/* An answer to something that was never sent. */
void draw_answer(struct input *in, struct pkt *p, const struct fx_qp *to)
{
	uint32_t psn = FX_PSN + take8(in) - 128, how = take8(in);
	struct pkt request;

	if (how & 1)
		pkt_ack(p, to->peer, psn, psn + take8(in), take8(in));
	else if (how & 2) {
		pkt_read(&request, to, psn, 0, 0);
		pkt_answer(p, &request, to->peer, psn + take8(in), take8(in), payload_bytes(),
			   draw_length(in) % (FX_FULL + 1));
	} else if (how & 4)
		pkt_rnr(p, to->peer, psn, take8(in));
	else if (how & 8)
		pkt_resume(p, to->peer, take8(in));
	else
		pkt_nak(p, to->peer, psn, take8(in) % 11);
	if (how >= 240)
		p->h.op = WEFT_OP_SEQ;
}
