/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* nethostile: the packets that it sends, right in address, key and check and in nothing else. */
#ifndef NETHOSTILE_H
#define NETHOSTILE_H

static struct {
	struct weft_qpctl ctl; /* A's, as it was */
	struct weft_qptx tx;   /* B's, now and then */
	struct weft_qprx rx;
	uint32_t slot; /* B's */
	struct weft_ring *ring;
} at;

static void look(void)
{
	need(bpf_map_lookup_elem(dev_b->maps.qptx, &at.slot, &at.tx), "qptx");
	need(bpf_map_lookup_elem(dev_b->maps.qprx, &at.slot, &at.rx), "qprx");
}

static uint16_t fold(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

/* With what is at `body`, or a pattern. */
static void emit_body(struct weft_hdr *h, const void *body, uint32_t len)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = raw_index };
	uint32_t l4 = WEFT_V4_LEN, s = 0;
	static uint8_t f[4096];
	__u64 words[8];
	uint16_t v;

	memcpy(f, at.ctl.tmpl, l4);
	v = htons(8 + WEFT_HDR_LEN + len);
	memcpy(f + l4 - 4, &v, 2);
	v = htons(28 + WEFT_HDR_LEN + len);
	memcpy(f + 16, &v, 2);
	f[15] = (f[15] & ~3u) | (draw(8) ? 2 : 3); /* CE now and then */
	memset(f + 24, 0, 2);
	for (int i = 14; i < 34; i += 2)
		s += f[i] << 8 | f[i + 1];
	v = htons(~fold(s));
	memcpy(f + 24, &v, 2);
	v = htons(WEFT_EV_PORT0 + draw(WEFT_EV_MAX));
	memcpy(f + l4 - 8, &v, 2);
	h->ver = WEFT_WIRE_VER;
	h->ev = draw(4) ? draw(64) : draw(256);
	h->dqpn = htonl(at.ctl.dqpn);
	h->conn = htobe64(at.ctl.conn);
	h->len = htons(len);
	h->check = 0;
	memcpy(words, h, sizeof(words));
	h->check = htonl(weft_check(words, at.ctl.hkey));
	memcpy(f + l4, h, sizeof(*h));
	if (body)
		memcpy(f + l4 + WEFT_HDR_LEN, body, len);
	else
		memset(f + l4 + WEFT_HDR_LEN, 0x5a, len);
	while (sendto(raw_fd, f, l4 + WEFT_HDR_LEN + len, 0, (struct sockaddr *)&to, sizeof(to)) <
	       0)
		if (errno != ENOBUFS && errno != EAGAIN)
			need(-errno, "sendto");
}

static void emit(struct weft_hdr *h, uint32_t len)
{
	emit_body(h, NULL, len);
}

static uint32_t near(uint32_t x)
{
	static const uint32_t far[] = { 255, 256, 1023, 1024, 1025, 65536, 1u << 31 };

	switch (draw(8)) {
	case 0: return np_rand(&rnd);
	case 1: return x + far[draw(7)];
	case 2: return x - far[draw(7)];
	case 3: return x + draw(300);
	case 4: return x - draw(8);
	default: return x + draw(4);
	}
}

static uint32_t odd_size(uint32_t n)
{
	static const uint32_t odd[] = { 0, 1, 7, 8, 4095, 1u << 30, (1u << 30) + 1, 0xffffffff };

	return draw(3) ? draw(n) : odd[draw(8)];
}

/* A request that may even be right. */
static void request(struct weft_hdr *h, uint8_t op)
{
	uint32_t len = draw(3) ? draw(64) : draw(3329), moff = 0, mlen = len;

	memset(h, 0, sizeof(*h));
	h->op = op;
	h->psn = htonl(draw(3) ? at.rx.rx.next + draw(6) : near(at.rx.rx.next));
	h->ts = np_rand(&rnd);
	if (!draw(4)) {
		mlen = odd_size(8192);
		moff = draw(2) ? mlen - len : odd_size(8192);
	}
	h->flags = moff + len == mlen ? WEFT_F_LAST : 0;
	if (op == WEFT_OP_FADD || op == WEFT_OP_CSWAP) {
		len = 0;
		h->flags = draw(8) ? WEFT_F_LAST : 0;
		h->atomic.asn = htonl(near(0));
		h->atomic.operand = np_rand(&rnd);
		h->atomic.compare = draw(2) ? 0 : np_rand(&rnd);
		h->atomic.roff = htobe64(draw(4) ? draw(REGION / 8) * 8 : odd_size(REGION));
	} else {
		h->data.mlen = htonl(mlen);
		h->data.moff = htonl(moff);
		h->data.roff = htobe64(draw(8) ? draw(REGION - 8192) : odd_size(REGION));
		if (op == WEFT_OP_READ) {
			h->data.rlen = htonl(draw(8) ? len : odd_size(4000));
			len = 0;
		} else if (op == WEFT_OP_SEND || !draw(3)) {
			h->flags |= op != WEFT_OP_SEND || draw(2) ? WEFT_F_IMM : 0;
			h->flags |= draw(2) ? WEFT_F_SOL : 0;
			h->data.imm = np_rand(&rnd);
			h->data.rsn = htonl(near(at.rx.rx.rdone));
		}
	}
	if (op != WEFT_OP_SEND)
		h->data.rkey = htonl(draw(64) ? weft_mr_key(target) : np_rand(&rnd));
	h->flags |= draw(4) ? 0 : WEFT_F_FREE;
	if (!draw(32))
		h->flags = np_rand(&rnd);
	emit(h, len);
}

/* Several WRITEs, with checks that are right; of how many, how long, and if that adds up, is drawn. */
static void several(struct weft_hdr *h)
{
	static const uint32_t odd[] = { 0, 1, 9, 16, 255, 0xffffffff };
	uint32_t n = draw(6) ? 2 + draw(WEFT_MANY - 1) : odd[draw(6)], len, sum[2];
	union {
		struct weft_desc d[WEFT_MANY];
		__u64 w[2 * WEFT_MANY];
	} u = { 0 };
	static uint8_t body[4096];

	len = (n > WEFT_MANY ? draw(WEFT_MANY + 1) : n) * sizeof(u.d[0]);
	for (uint32_t i = 0; i < n && i < WEFT_MANY; i++) {
		uint32_t one = draw(24) ? draw(draw(2) ? 17 : WEFT_MANY_LEN + 1) : odd_size(300);

		u.d[i].rkey = htonl(draw(200) ? weft_mr_key(target) : np_rand(&rnd));
		u.d[i].len = htonl(one);
		u.d[i].roff = htobe64(draw(100) ? draw(REGION - 256) : odd_size(REGION));
		if (!draw(100))
			u.d[i].roff = htobe64(REGION - draw(300));
		if (one <= 300)
			len += one;
	}
	memset(h, 0, sizeof(*h));
	memset(body, 0x5a, sizeof(body));
	memcpy(body, u.d, sizeof(u.d));
	h->op = WEFT_OP_WRITES;
	h->flags = draw(16) ? WEFT_F_LAST : np_rand(&rnd);
	h->psn = htonl(draw(3) ? at.rx.rx.next + draw(6) : near(at.rx.rx.next));
	h->ts = np_rand(&rnd);
	h->writes.n = htonl(n);
	h->writes.msn = htonl(near(at.rx.rx.msn));
	weft_check_descs(u.w, at.ctl.hkey, sum);
	h->writes.sum[0] = htonl(sum[0] ^ !draw(32));
	h->writes.sum[1] = htonl(sum[1] ^ !draw(32));
	/* the last descriptor or its bytes cut off, or more than it says */
	if (!draw(16))
		len = draw(2) ? draw(len + 1) : len + draw(64);
	emit_body(h, body, len < 3328 ? len : 3328);
}

static void answer(struct weft_hdr *h, uint8_t op)
{
	const struct weft_tx *tx = &at.tx.tx;
	uint32_t psn = draw(4) ? tx->una + draw(tx->nxt - tx->una + 2) : near(tx->nxt), len = 0;
	const struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

	memset(h, 0, sizeof(*h));
	h->op = op;
	h->flags = draw(2) ? WEFT_F_RQ : 0;
	h->flags |= draw(8) ? 0 : np_rand(&rnd);
	h->psn = htonl(psn);
	h->ts = htonl(draw(3) ? s->ts : near(s->ts));
	if (op == WEFT_OP_NAK) {
		h->nak.code = htonl(odd_size(12));
		h->nak.psn = htonl(draw(2) ? psn : near(tx->nxt));
		h->nak.nth = htonl(draw(2) ? draw(WEFT_MANY) : odd_size(300));
	} else {
		h->ack.cum = htonl(draw(3) ? tx->una + draw(tx->nxt - tx->una + 1) : near(tx->nxt));
		h->ack.msn = htonl(draw(3) ? tx->ends : near(tx->ends));
		h->ack.sack = np_rand(&rnd);
		h->ack.sack_base = htonl(draw(8) ? psn & ~63u : np_rand(&rnd));
		h->ack.epoch = htonl(near(tx->epoch));
	}
	if (op == WEFT_OP_REPLY)
		len = draw(3) ? 8 : draw(3329);
	emit(h, len);
}

static void packet(void)
{
	struct weft_hdr h;
	static const uint8_t asks[] = { WEFT_OP_DATA, WEFT_OP_SEND, WEFT_OP_SEND,
					WEFT_OP_READ, WEFT_OP_FADD, WEFT_OP_CSWAP };
	static const uint8_t says[] = { WEFT_OP_ACK, WEFT_OP_ACK,   WEFT_OP_RNR,   WEFT_OP_SEQ,
					WEFT_OP_SEQ, WEFT_OP_REPLY, WEFT_OP_RESUME };

	switch (draw(10)) {
	case 8:
	case 9: several(&h); break;
	case 0: /* anything */
		np_fill((uint8_t *)&h, sizeof(h), np_rand(&rnd));
		h.op = draw(16);
		emit(&h, draw(3329));
		break;
	case 1 ... 3: request(&h, asks[draw(6)]); break;
	default: answer(&h, draw(256) ? says[draw(7)] : WEFT_OP_NAK); break;
	}
}

#endif
