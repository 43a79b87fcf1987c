// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What a READ or an atomic turns into: the answer byte by byte, duplicates, results that are remembered. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;

/* Both regions allow everything; atomics need an address that is a multiple of 8. */
static void allow(void)
{
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights |= WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_REMOTE_READ;
}

#define EVEN (8 - FX_T_OFF % 8) /* the first such offset */

/* Request p; the frame that leaves is exactly this REPLY, and nobody has been told anything. */
static void answered_with(struct fx_qp *q, const struct pkt *p, uint32_t cum, uint32_t msn,
			  uint64_t sack, uint8_t flags, const void *payload, uint32_t len,
			  const char *counters)
{
	struct pkt a;

	pkt_frame(p, &f);
	q->ring->arm_rx = 1;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	pkt_answer(&a, p, q, cum, msn, payload, len);
	a.h.flags = flags;
	a.h.ack.sack = htobe64(sack);
	pkt_frame(&a, &want);
	expect_frame(&want);
	assert_true(q->v6 ? pkt_csum_ok(&fx.out) : true);
	expect_counters(counters);
	expect_bytes(&fx.after.tx, &fx.before.tx, sizeof(fx.after.tx));
	expect_bytes(&fx.after.run, &fx.before.run, sizeof(fx.after.run));
	/* the application has no part in it */
	assert_int_equal(q->ring->arrived, fx.before.ring[fx_idx(q)].arrived);
	assert_int_equal(q->ring->rx_err, 0);
	assert_int_equal(q->ring->arm_rx, 1);
	assert_int_equal(fx_events(NULL, NULL), 0);
}

/* The same, as the core says what is placed then; for the first time. */
static void answered(struct fx_qp *q, const struct pkt *p, const void *payload, uint32_t len)
{
	uint32_t psn = ntohl(p->h.psn);
	struct weft_rx_sack sack;
	struct weft_rx rx;

	fx_rx_get(q, &rx);
	assert_int_equal(weft_rx_claim(&rx, psn, WEFT_RX_QUIET), WEFT_RX_NEW);
	if (weft_rx_commit(&rx, psn))
		weft_rx_catch_up(&rx);
	weft_rx_sack(&rx, psn, &sack);
	answered_with(q, p, sack.cum, sack.msn, sack.bits, 0, payload, len, "rx_ask tx_ack");
	expect_bytes(RX_AFTER(q), &rx, offsetof(struct weft_rx, result));
}

/* The same again: nothing but the answer. */
static void answered_again(struct fx_qp *q, const struct pkt *p, const void *payload, uint32_t len,
			   const char *counters)
{
	struct weft_rx_sack sack;
	struct weft_rx rx;

	fx_rx_get(q, &rx);
	weft_rx_sack(&rx, ntohl(p->h.psn), &sack);
	answered_with(q, p, sack.cum, sack.msn, sack.bits,
		      WEFT_F_DUP | ((p->tos & 3) == 3 ? WEFT_F_CE : 0), payload, len, counters);
	expect_same();
}

static const uint8_t *source(uint64_t roff)
{
	return fx.source + FX_S_OFF + roff;
}

static void ask__read(void **state)
{
	static const uint32_t lens[] = { 0,   1,   2,    3,    7,    8,    64,   255,
					 256, 511, 1024, 1408, 2048, 3071, 3327, FX_FULL };
	static const uint64_t ends[][2] = { { 0, 1 },
					    { 0, FX_FULL },
					    { FX_S_LEN - 1, 1 },
					    { FX_S_LEN - FX_FULL, FX_FULL },
					    { FX_S_LEN, 0 } };

	(void)state;
	BOTH(q)
	{
		uint32_t psn = FX_PSN;
		struct pkt p;

		allow();
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			pkt_read(&p, q->peer, psn++, 7000 + 3 * i, lens[i]);
			p.h.ev = 3 * i;
			p.h.ts = htonl(0x01020304 * i);
			answered(q, &p, source(7000 + 3 * i), lens[i]);
		}
		for (uint32_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
			pkt_read(&p, q->peer, psn++, ends[i][0], ends[i][1]);
			answered(q, &p, source(ends[i][0]), ends[i][1]);
		}
	}
	expect_pools();
}

/* Nothing of the request's L2 to L4 comes back but its addresses, swapped (I13); CE is echoed. */
static void ask__headers_are_fresh(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		allow();
		pkt_read(&p, q->peer, FX_PSN, 5, 300);
		p.ttl = 3;
		p.tos = 0xbb; /* another DSCP, CE */
		memset(p.smac, 0x66, 6);
		memset(p.dmac, 0x77, 6);
		p.sport = 1234;
		p.h.ev = 41;
		answered_with(q, &p, FX_PSN, 0, 1ull << FX_PSN % 64, WEFT_F_CE, source(5), 300,
			      "rx_ask rx_ce tx_ack");
	}
}

/* IPv4 sums only when the QP asks for it. */
static void ask__v4_csum(void **state)
{
	struct fx_qp *q = &fx.qp[A4];

	(void)state;
	allow();
	q->ctl->flags |= WEFT_QPF_CSUM;
	for (uint32_t n = 3200; n <= FX_FULL; n++) {
		struct pkt p;

		fx_qp_init(q, FX_PSN, FX_FULL);
		pkt_read(&p, q->peer, FX_PSN, n, n);
		p.csum = true;
		answered(q, &p, source(n), n);
		assert_true(pkt_csum_ok(&fx.out));
	}
}

/* Around the boundary of two chunks. */
static void ask__straddles(void **state)
{
	static const uint32_t split[] = { 0, 1, 2, 100, 1664, 3326, 3327, 3328, 4095, 4096, 4097 };

	(void)state;
	BOTH(q)
	{
		allow();
		for (uint32_t i = 0; i < sizeof(split) / sizeof(split[0]); i++) {
			uint64_t roff = WEFT_CHUNK - FX_S_OFF - split[i];
			struct pkt p;

			pkt_read(&p, q->peer, FX_PSN + i, roff, FX_FULL);
			answered(q, &p, source(roff), FX_FULL);
		}
	}
}

static void wrote(struct fx_qp *q, uint32_t psn)
{
	struct pkt p;

	pkt_data(&p, q->peer, psn, 0, random_bytes(psn), 8);
	memcpy(fx.want + FX_T_OFF, random_bytes(psn), 8);
	pkt_frame(&p, &f);
	q->ring->arm_rx = 1;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters("rx_data rx_bytes=8 tx_ack event");
	assert_int_equal(fx_events(NULL, NULL), 1);
}

/* A READ in segments, out of order: each by itself, and with what comes behind one message. */
static void ask__segments(void **state)
{
	enum { N = 5, LEN = (N - 1) * FX_FULL + 700 };
	static const uint32_t order[N] = { 4, 1, 3, 0, 2 };

	(void)state;
	BOTH(q)
	{
		uint64_t bits = 0;

		allow();
		fx_qp_init(q, 0xffffffc0u, FX_FULL);
		for (int i = 0; i < N; i++) {
			uint32_t seg = order[i], n = seg == N - 1 ? 700 : FX_FULL;
			struct pkt p;

			pkt_read(&p, q->peer, 0xffffffc0u + seg, 99 + seg * FX_FULL, n);
			p.h.data.moff = htonl(seg * FX_FULL);
			p.h.data.mlen = htonl(LEN);
			p.h.flags = seg == N - 1 ? WEFT_F_LAST : 0;
			bits |= 1ull << seg;
			answered_with(q, &p, 0xffffffc0u, 0, bits, 0, source(99 + seg * FX_FULL), n,
				      "rx_ask tx_ack");
		}
		wrote(q, 0xffffffc5u);
		assert_int_equal(RX_AFTER(q)->next, 0xffffffc6u);
		assert_int_equal(RX_AFTER(q)->msn, 2);
		assert_int_equal(RX_AFTER(q)->quiet, 1);
		assert_int_equal(q->ring->rx_msn, 2);
		assert_int_equal(q->ring->arrived, 1);
	}
}

/* Beside WRITEs: only these are arrivals. */
static void ask__quiet(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		allow();
		for (uint32_t i = 0; i < 6; i++) {
			if (i % 2) {
				pkt_read(&p, q->peer, FX_PSN + i, 0, 8);
				answered(q, &p, source(0), 8);
				continue;
			}
			wrote(q, FX_PSN + i);
			assert_int_equal(q->ring->arrived, i / 2 + 1);
			assert_int_equal(q->ring->rx_msn, i + 1);
		}
		expect_pools();
	}
}

/* A READ that comes again is carried out again, whatever became of the first; nothing is remembered. */
static void ask__read_duplicates(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_rx rx;
		struct pkt p;

		allow();
		pkt_read(&p, q->peer, FX_PSN, 40, 100);
		answered_with(q, &p, FX_PSN, 0, 1ull << 56, 0, source(40), 100, "rx_ask tx_ack");
		wrote(q, FX_PSN + 1);
		pkt_read(&p, q->peer, FX_PSN + 3, 40, 100);
		answered_with(q, &p, FX_PSN + 2, 2, 1ull << 59, 0, source(40), 100,
			      "rx_ask tx_ack");
		/* another CPU is at the next */
		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN + 4)].claimed |= weft_psn_bit(FX_PSN + 4);
		fx_rx_set(q, &rx);
		/* placed before the window, in it, being carried out, far behind */
		for (int i = 0; i < 4; i++) {
			pkt_read(&p, q->peer, FX_PSN + (int[]){ 0, 3, 4, -320 }[i], 40, 100);
			/* another key and place: it reads what it says now */
			p.h.data.rkey = htonl(FX_T_KEY);
			memset(fx.want + FX_T_OFF + 40, i, 100);
			memset(fx.target + FX_T_OFF + 40, i, 100);
			answered_with(q, &p, FX_PSN + 2, 2, i == 3 ? 0 : 1ull << 59, WEFT_F_DUP,
				      fx.want + FX_T_OFF + 40, 100, "rx_ask tx_ack");
			expect_same();
		}
		expect_pools();
		memset(fx.want + FX_T_OFF, 0xc5, 140);
		memset(fx.target + FX_T_OFF, 0xc5, 140);
	}
}

static void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v)); /* memory is the host's */
}

/* The word at EVEN + 8 * i is v, on both sides of the comparison. */
static uint8_t *word(uint32_t i, uint64_t v)
{
	put64(fx.target + FX_T_OFF + EVEN + 8 * i, v);
	put64(fx.want + FX_T_OFF + EVEN + 8 * i, v);
	return fx.want + FX_T_OFF + EVEN + 8 * i;
}

static void ask__atomics(void **state)
{
	static const struct {
		uint8_t op;
		uint64_t was, operand, compare, is;
	} cases[] = {
		{ WEFT_OP_FADD, 5, 7, 0, 12 },
		{ WEFT_OP_FADD, ~0ull, 1, ~0ull, 0 }, /* compare means nothing to it */
		{ WEFT_OP_FADD, 0x00000000ffffffffull, 1, 0, 0x100000000ull },
		{ WEFT_OP_FADD, 3, (uint64_t)-5, 3, (uint64_t)-2 },
		{ WEFT_OP_FADD, 0x0102030405060708ull, 0, 0, 0x0102030405060708ull },
		{ WEFT_OP_CSWAP, 5, 9, 5, 9 },
		{ WEFT_OP_CSWAP, 5, 9, 6, 5 },
		{ WEFT_OP_CSWAP, 0x0102030405060708ull, 1, 0x0102030405060708ull, 1 },
		{ WEFT_OP_CSWAP, 0x0102030405060708ull, 1, 0x0102030405060709ull,
		  0x0102030405060708ull },
		{ WEFT_OP_CSWAP, 0x0102030405060708ull, 1, 0x0202030405060708ull,
		  0x0102030405060708ull },
		{ WEFT_OP_CSWAP, 0, 0, 0, 0 },
	};

	(void)state;
	BOTH(q)
	{
		allow();
		for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			uint8_t *at = word(i, cases[i].was), was[8];
			struct pkt p;

			put64(was, cases[i].was);
			put64(at, cases[i].is);
			pkt_atomic(&p, q->peer, cases[i].op, FX_PSN + i, i, EVEN + 8 * i,
				   cases[i].operand, cases[i].compare);
			answered(q, &p, was, 8);
			expect_pools();
			assert_int_equal(RX_AFTER(q)->result[i].set, 1);
			assert_int_equal(RX_AFTER(q)->result[i].psn, FX_PSN + i);
			expect_bytes(&RX_AFTER(q)->result[i].value, was, 8);
			memset(at, 0xc5, 8);
			memset(fx.target + (at - fx.want), 0xc5, 8);
		}
	}
}

/* The last and the first word of a chunk, and the last of the region. */
static void ask__atomic_places(void **state)
{
	const uint64_t end = (FX_T_OFF + FX_T_LEN) / 8 * 8 - FX_T_OFF - 8;
	const uint64_t at[] = { EVEN, WEFT_CHUNK - FX_T_OFF - 8, WEFT_CHUNK - FX_T_OFF, end };

	(void)state;
	BOTH(q)
	{
		allow();
		for (uint32_t i = 0; i < 4; i++) {
			uint8_t was[8], is[8];
			struct pkt p;

			memset(was, 0xc5, 8);
			put64(is, 0xc5c5c5c5c5c5c5c5ull + i + 1);
			memcpy(fx.want + FX_T_OFF + at[i], is, 8);
			pkt_atomic(&p, q->peer, WEFT_OP_FADD, FX_PSN + i, i, at[i], i + 1, 0);
			answered(q, &p, was, 8);
			expect_pools();
			memset(fx.want + FX_T_OFF + at[i], 0xc5, 8);
			memset(fx.target + FX_T_OFF + at[i], 0xc5, 8);
		}
	}
}

/* Exactly once: a duplicate gets the result of the first, whatever is there now and allowed now. */
static void ask__atomic_duplicates(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		allow();
		word(0, 100);
		for (uint32_t n = 0; n < 2; n++) {
			for (uint32_t i = 0; i < WEFT_ATOMICS; i++) {
				uint32_t psn = FX_PSN + n * WEFT_ATOMICS + i;
				uint8_t was[8];

				pkt_atomic(&p, q->peer, WEFT_OP_FADD, psn, n * WEFT_ATOMICS + i,
					   EVEN, 1, 0);
				put64(was, 100 + n * WEFT_ATOMICS + i);
				put64(fx.want + FX_T_OFF + EVEN, 101 + n * WEFT_ATOMICS + i);
				answered(q, &p, was, 8);
			}
		}
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].key = 0;
		for (uint32_t i = 0; i < WEFT_ATOMICS; i++) {
			uint32_t n = WEFT_ATOMICS + i, psn = FX_PSN + n;
			uint8_t was[8];

			pkt_atomic(&p, q->peer, i % 2 ? WEFT_OP_FADD : WEFT_OP_CSWAP, psn, n, EVEN,
				   1, 0);
			p.tos = 3;
			put64(was, 100 + n);
			answered_again(q, &p, was, 8, "rx_ask rx_dup rx_ce tx_ack");
		}
		/* what is forgotten is not made up */
		for (uint32_t i = 0; i < WEFT_ATOMICS; i++) {
			pkt_atomic(&p, q->peer, WEFT_OP_FADD, FX_PSN + i, i, EVEN, 1, 0);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("drop.window");
			expect_same();
		}
		expect_pools();
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].key = FX_T_KEY;
		word(0, 0xc5c5c5c5c5c5c5c5ull);
	}
}

/* A place among the results that no atomic has had is no result, even of PSN 0. */
static void ask__no_result(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		allow();
		fx_qp_init(q, 1, FX_FULL);
		pkt_atomic(&p, q->peer, WEFT_OP_FADD, 0, 0, EVEN, 1, 0);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("drop.window");
		expect_same();
	}
}

/* Another CPU is at it; beyond the window; and the window that must be brought up to date first. */
static void ask__window(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_rx rx;
		struct pkt p;

		allow();
		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN + 5)].claimed |= weft_psn_bit(FX_PSN + 5);
		fx_rx_set(q, &rx);
		for (int op = WEFT_OP_FADD; op <= WEFT_OP_CSWAP; op++) {
			pkt_atomic(&p, q->peer, op, FX_PSN + 5, 0, EVEN, 1, 0xc5c5c5c5c5c5c5c5ull);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("drop.busy");
			expect_same();
			pkt_atomic(&p, q->peer, op, FX_PSN + WEFT_WIN, 0, EVEN, 1,
				   0xc5c5c5c5c5c5c5c5ull);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("drop.window");
			expect_same();
		}
		pkt_read(&p, q->peer, FX_PSN + WEFT_WIN, 0, 100);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("drop.window");
		expect_same();

		/* all placed, and nobody has moved the window yet */
		fx_qp_init(q, 0, FX_FULL);
		fx_rx_get(q, &rx);
		for (int w = 0; w < WEFT_WIN_WORDS - 1; w++)
			rx.word[w].claimed = rx.word[w].placed = ~0ull;
		fx_rx_set(q, &rx);
		pkt_read(&p, q->peer, WEFT_WIN, 0, 100);
		answered_with(q, &p, WEFT_WIN - 64, 0, 1, 0, source(0), 100, "rx_ask tx_ack");
		expect_pools();
	}
}

const struct CMUnitTest fx_tests_ask[] = {
	FX_TEST(ask__read),
	FX_TEST(ask__headers_are_fresh),
	FX_TEST(ask__v4_csum),
	FX_TEST(ask__straddles),
	FX_TEST(ask__segments),
	FX_TEST(ask__quiet),
	FX_TEST(ask__read_duplicates),
	FX_TEST(ask__atomics),
	FX_TEST(ask__atomic_places),
	FX_TEST(ask__atomic_duplicates),
	FX_TEST(ask__no_result),
	FX_TEST(ask__window),
	FX_END,
};
