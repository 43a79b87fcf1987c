// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Several WRITEs in one packet: what is placed, what of it is refused, what is not believed at all. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;

struct part {
	uint64_t roff;
	uint32_t len, rkey;
};

static void agree(struct fx_qp *q)
{
	static struct weft_tx tx;

	q->ctl->flags |= WEFT_QPF_MANY;
	fx_tx_get(q, &tx);
	tx.joins_writes = 1;
	fx_tx_set(q, &tx);
}

/* Descriptors and bytes as they travel; the checks of the former. */
static void pkt_writes(struct pkt *p, const struct fx_qp *from, uint32_t psn,
		       const struct part *part, uint32_t n, uint32_t seed)
{
	static uint8_t bytes[FRAME_ROOM];
	struct weft_desc d[WEFT_MANY] = { 0 };
	__u64 words[2 * WEFT_MANY];
	uint32_t at = n * sizeof(*d);
	__u32 sum[2];

	for (uint32_t i = 0; i < n && i < WEFT_MANY; i++) {
		d[i].rkey = htonl(part[i].rkey);
		d[i].len = htonl(part[i].len);
		d[i].roff = htobe64(part[i].roff);
		if (part[i].len <= FX_FULL)
			memcpy(bytes + at, random_bytes(seed + i), part[i].len);
		at += part[i].len <= FX_FULL ? part[i].len : 0;
	}
	memcpy(bytes, d, sizeof(*d) * (n < WEFT_MANY ? n : WEFT_MANY));
	memcpy(words, d, sizeof(words));
	pkt_init(p, from, WEFT_OP_WRITES, psn);
	weft_check_descs(words, p->hkey, sum);
	p->h.flags = WEFT_F_LAST;
	p->h.writes.n = htonl(n);
	p->h.writes.sum[0] = htonl(sum[0]);
	p->h.writes.sum[1] = htonl(sum[1]);
	p->payload = bytes;
	p->len = at;
	p->h.len = htons(at);
}

static void placed(const struct part *part, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		memcpy(fx.want + FX_T_OFF + part[i].roff, random_bytes(seed + i), part[i].len);
}

static uint32_t total(const struct part *part, uint32_t n)
{
	uint32_t sum = 0;

	while (n--)
		sum += part[n].len;
	return sum;
}

static void arrives(const struct pkt *p, int verdict, const char *counters)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/* The answer is an ACK that says so many PSNs and messages. */
static void acked(uint32_t cum, uint32_t msn, int flags)
{
	assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_ACK);
	assert_int_equal(frame_hdr(&fx.out)->flags, flags);
	assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum), cum);
	assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.msn), msn);
	assert_int_equal(fx.out.len, frame_hl(&fx.out));
}

static void parts(struct part *part, uint32_t n, uint32_t len)
{
	for (uint32_t i = 0; i < n; i++)
		part[i] = (struct part){ 5000 + 1000 * i, len + 3 * i, FX_T_KEY };
}

/* Each counts as a message; a duplicate changes nothing. */
static void many__placed(void **state)
{
	struct part part[WEFT_MANY];
	char counters[64];
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		uint32_t msgs = 0;

		agree(q);
		for (uint32_t n = 2; n <= WEFT_MANY; n++) {
			parts(part, n, 64);
			part[n - 1].len = n % 2 ? 0 : WEFT_MANY_LEN;
			/* over the boundary of two chunks, and at the end of the region */
			part[0].roff = WEFT_CHUNK - FX_T_OFF - 10 - n;
			part[1].roff = n % 2 ? FX_T_LEN - part[1].len : 0;
			pkt_writes(&p, q->peer, FX_PSN + n - 2, part, n, 10 * n);
			snprintf(counters, sizeof(counters), "rx_data rx_writes rx_bytes=%u tx_ack",
				 total(part, n));
			arrives(&p, XDP_TX, counters);
			placed(part, n, 10 * n);
			expect_pools();
			msgs += n;
			acked(FX_PSN + n - 1, msgs, 0);
			assert_int_equal(q->ring->arrived, msgs);
			assert_int_equal(q->ring->rx_msn, msgs);
			memset(fx.target + FX_T_OFF + part[0].roff, 1, part[0].len);
			memset(fx.want + FX_T_OFF + part[0].roff, 1, part[0].len);
			arrives(&p, XDP_TX, "rx_dup tx_ack");
			acked(FX_PSN + n - 1, msgs, WEFT_F_DUP);
			expect_pools();
			expect_same();
		}
	}
}

/* Counted when what was sent before is here; numbers of messages are kept for a whole window. */
static void many__out_of_order(void **state)
{
	struct part part[WEFT_MANY];
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		agree(q);
		for (uint32_t lap = 0, msgs = 0; lap < 2; lap++) {
			uint32_t psn = FX_PSN + lap * WEFT_WIN;
			struct weft_rx rx;

			for (uint32_t n = WEFT_MANY; n >= 2; n--) {
				parts(part, n, 10);
				pkt_writes(&p, q->peer, psn + n - 1, part, n, n);
				pkt_frame(&p, &f);
				assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
				placed(part, n, n);
				acked(psn, msgs, 0);
			}
			pkt_data(&p, q->peer, psn, 0, random_bytes(1), 9);
			arrives(&p, XDP_TX, "rx_data rx_bytes=9 tx_ack");
			memcpy(fx.want + FX_T_OFF, random_bytes(1), 9);
			msgs += 1 + WEFT_MANY * (WEFT_MANY + 1) / 2 - 1;
			acked(psn + WEFT_MANY, msgs, 0);
			assert_int_equal(q->ring->arrived, msgs);
			/* and nothing is left behind for the next window */
			fx_rx_get(q, &rx);
			for (int i = 0; i < WEFT_WIN_WORDS; i++) {
				assert_int_equal(rx.word[i].many, 0);
				for (int b = 0; b < WEFT_MANY_BITS; b++)
					assert_int_equal(rx.more[i][b], 0);
			}
			rx.next = FX_PSN + WEFT_WIN;
			fx_rx_set(q, &rx);
		}
		expect_pools();
	}
}

/* I1: a descriptor that was damaged on its way places nothing, without a UDP checksum too. */
static void many__damaged(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct part part[WEFT_MANY];
	struct pkt p;

	(void)state;
	agree(q);
	for (uint32_t n = 3; n <= WEFT_MANY; n += 5) {
		parts(part, n, 20);
		pkt_writes(&p, q->peer, FX_PSN, part, n, 1);
		for (uint32_t bit = 0; bit < n * 128; bit++) {
			pkt_frame(&p, &f);
			f.b[fx_hl(q) + bit / 8] ^= 1 << bit % 8;
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("drop.check");
			expect_same();
			expect_pools();
		}
		for (int i = 0; i < 2; i++) {
			p.h.writes.sum[i] ^= htonl(1u << 7);
			arrives(&p, XDP_DROP, "drop.check");
			expect_same();
			p.h.writes.sum[i] ^= htonl(1u << 7);
		}
	}
	expect_pools();
}

/* Numbers that do not fit each other, whoever made them. */
static void many__shape(void **state)
{
	static const uint32_t no[] = { 0, 1, WEFT_MANY + 1, 0x80000002u, 0xffffffffu };
	struct part part[WEFT_MANY];
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		agree(q);
		parts(part, WEFT_MANY, 200);
		for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
			pkt_writes(&p, q->peer, FX_PSN, part, WEFT_MANY, 1);
			p.h.writes.n = htonl(no[i]);
			arrives(&p, XDP_DROP, "drop.length");
			expect_same();
		}
		parts(part, 3, 20);
		pkt_writes(&p, q->peer, FX_PSN, part, 3, 1);
		p.h.flags = 0;
		arrives(&p, XDP_DROP, "drop.length");
		/* a byte too many, one too few, not even the descriptors */
		p.h.flags = WEFT_F_LAST;
		for (int by = -1; by <= 1; by += 2) {
			p.h.len = htons(p.len += by);
			arrives(&p, XDP_DROP, "drop.length");
			p.len -= by;
		}
		p.h.len = htons(p.len = 47);
		arrives(&p, XDP_DROP, "drop.length");
		/* the sum is right, modulo 2^32 too, and one of them is not small */
		part[1].len = WEFT_MANY_LEN + 1;
		pkt_writes(&p, q->peer, FX_PSN, part, 3, 1);
		arrives(&p, XDP_DROP, "drop.length");
		parts(part, 3, 20);
		part[0].len = 100;
		part[1].len = -30;
		part[2].len = 30;
		pkt_writes(&p, q->peer, FX_PSN, part, 3, 1);
		p.h.len = htons(p.len = 48 + 100);
		arrives(&p, XDP_DROP, "drop.length");
		expect_same();

		q->ctl->flags &= ~WEFT_QPF_MANY;
		parts(part, 3, 20);
		pkt_writes(&p, q->peer, FX_PSN, part, 3, 1);
		arrives(&p, XDP_DROP, "drop.opcode");
		expect_same();
	}
	expect_pools();
}

static void many__window(void **state)
{
	struct part part[WEFT_MANY];
	struct weft_rx rx;
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		agree(q);
		parts(part, 2, 20);
		pkt_writes(&p, q->peer, FX_PSN + WEFT_WIN, part, 2, 1);
		arrives(&p, XDP_DROP, "drop.window");
		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN)].claimed = weft_psn_bit(FX_PSN);
		fx_rx_set(q, &rx);
		pkt_writes(&p, q->peer, FX_PSN, part, 2, 1);
		arrives(&p, XDP_DROP, "drop.busy");
	}
	expect_pools();
}

/* I5: those before it are placed, it and those behind it are not; the NAK tells which it was. */
static void many__refused(void **state)
{
	static const char *const why[] = { "drop.key", "drop.bounds", "drop.bounds", "drop.rights",
					   "drop.pd" };
	static const uint32_t code[] = { WEFT_NAK_KEY, WEFT_NAK_BOUNDS, WEFT_NAK_BOUNDS,
					 WEFT_NAK_RIGHTS, WEFT_NAK_PD };
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_S_KEY)];
	struct part part[WEFT_MANY];
	char counters[64];
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < 5 * WEFT_MANY; i++) {
			uint32_t n = WEFT_MANY, bad = i / 5, kind = i % 5;
			struct part *b = &part[bad];

			fx_qp_init(q, FX_PSN, FX_FULL);
			parts(part, n, 20);
			if (kind == 0)
				b->rkey ^= 1u << 20;
			else if (kind == 1)
				b->roff = FX_T_LEN - b->len + 1;
			else if (kind == 2)
				b->roff = ~0ull - 3;
			else
				b->rkey = FX_S_KEY;
			mr->rights = kind == 4 ? WEFT_ACCESS_REMOTE_WRITE : WEFT_ACCESS_LOCAL;
			mr->pd = FX_PD + (kind == 4);
			agree(q);
			pkt_writes(&p, q->peer, FX_PSN, part, n, 20);
			snprintf(counters, sizeof(counters), "%s tx_nak", why[kind]);
			arrives(&p, XDP_TX, counters);
			placed(part, bad, 20);
			expect_pools();
			assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_NAK);
			assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.code), code[kind]);
			assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.psn), FX_PSN);
			assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.nth), bad);
			assert_int_equal(RX_AFTER(q)->err, code[kind]);
			assert_int_equal(q->ring->rx_err, code[kind]);
			/* those before it have arrived */
			assert_int_equal(q->ring->arrived, bad);
			/* all that comes later gets the same */
			pkt_data(&p, q->peer, FX_PSN + 1, 0, random_bytes(9), 64);
			arrives(&p, XDP_TX, "drop.closed tx_nak");
			assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.psn), FX_PSN);
			assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.nth), bad);
			expect_same();
		}
	}
	expect_pools();
}

/* Those before the refused one arrive with what is before them, and that never comes. */
static void many__refused_behind_a_gap(void **state)
{
	struct part part[WEFT_MANY];
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		fx_qp_init(q, FX_PSN, FX_FULL);
		parts(part, WEFT_MANY, 20);
		part[5].rkey ^= 1u << 20;
		agree(q);
		pkt_writes(&p, q->peer, FX_PSN + 1, part, WEFT_MANY, 20);
		arrives(&p, XDP_TX, "drop.key tx_nak");
		placed(part, 5, 20);
		expect_pools();
		assert_int_equal(q->ring->arrived, 0);
	}
}

static void many__pool_gone(void **state)
{
	struct part part[WEFT_MANY];
	struct pkt p;

	(void)state;
	agree(&fx.qp[A4]);
	parts(part, 3, 20);
	part[0].len = 0;
	pkt_writes(&p, &fx.qp[B4], FX_PSN, part, 3, 20);
	fx_pool_remove(FX_POOL_T);
	arrives(&p, XDP_TX, "drop.memory tx_nak");
	assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.code), WEFT_NAK_MEMORY);
	assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.nth), 1);
}

static void many__ring_gone(void **state)
{
	struct part part[3];
	struct pkt p;

	(void)state;
	agree(&fx.qp[A4]);
	parts(part, 3, 20);
	pkt_writes(&p, &fx.qp[B4], FX_PSN, part, 3, 20);
	fx_rings_remove();
	arrives(&p, XDP_DROP, "drop.owner");
	expect_same();
	expect_pools();
}

const struct CMUnitTest fx_tests_many[] = {
	FX_TEST(many__placed),
	FX_TEST(many__out_of_order),
	FX_TEST(many__damaged),
	FX_TEST(many__shape),
	FX_TEST(many__window),
	FX_TEST(many__refused),
	FX_TEST(many__refused_behind_a_gap),
	FX_TEST(many__pool_gone),
	FX_TEST(many__ring_gone),
	FX_END,
};
