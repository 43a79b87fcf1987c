// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What a DATA packet turns into: the ACK byte by byte, duplicates, the window, wake-ups. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;

struct reply {
	uint32_t cum, msn, base;
	uint64_t bits;
	uint8_t flags;
};

/* Run DATA p; the frame that leaves is exactly this ACK. */
static void acked(struct fx_qp *q, const struct pkt *p, struct reply r, const char *counters)
{
	struct pkt a;

	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	pkt_reply(&a, p, q, WEFT_OP_ACK);
	a.h.flags = r.flags;
	a.h.ack.cum = htonl(r.cum);
	a.h.ack.msn = htonl(r.msn);
	a.h.ack.sack = htobe64(r.bits);
	a.h.ack.sack_base = htonl(r.base);
	pkt_frame(&a, &want);
	expect_frame(&want);
	assert_true(!q->v6 || pkt_csum_ok(&fx.out));
	/* I6, and nothing but headers */
	assert_int_equal(fx.out.len, frame_hl(&f));
	assert_true(fx.out.len <= f.len);
	expect_counters(counters);
	expect_bytes(&fx.after.tx, &fx.before.tx, sizeof(fx.after.tx));
	expect_bytes(&fx.after.run, &fx.before.run, sizeof(fx.after.run));
}

static void data(struct fx_qp *q, struct pkt *p, uint32_t psn, uint32_t len)
{
	pkt_data(p, q->peer, psn, 0, random_bytes(psn), len);
	memcpy(fx.want + FX_T_OFF, random_bytes(psn), len);
}

/* Nothing of the request's L2 to L4 comes back but its addresses, swapped (I13). */
static void ack__headers_are_fresh(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		data(q, &p, FX_PSN, 100);
		p.ttl = 3;               /* after many routers */
		p.tos = 0xb9;            /* another DSCP, ECT(1) */
		memset(p.smac, 0x66, 6); /* the last router's */
		memset(p.dmac, 0x77, 6);
		p.sport = 1234;
		p.h.ev = 41;
		acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 0, 0 },
		      "rx_data rx_bytes=100 tx_ack");
		assert_int_equal(fx.out.b[q->v6 ? 21 : 22], 64);
		expect_pools();
	}
}

static void ack__echoes(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < 64; i++) {
			struct pkt p;

			data(q, &p, FX_PSN + i, 10);
			p.h.ev = i;
			p.sport = WEFT_EV_PORT0 + i;
			p.h.ts = htonl(0x01020304 * (i + 1));
			acked(q, &p,
			      (struct reply){ FX_PSN + i + 1, i + 1, (FX_PSN + i) & ~63u, 0, 0 },
			      "rx_data rx_bytes=10 tx_ack");
		}
	}
}

/* RFC 768: a sum that comes to zero is sent as all ones, for zero means that there is none. */
static void ack__csum_never_zero(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p, a;

		q->ctl->flags |= WEFT_QPF_CSUM;
		data(q, &p, FX_PSN, 10);
		p.csum = true;
		pkt_reply(&a, &p, q, WEFT_OP_ACK);
		a.h.ack.cum = htonl(FX_PSN + 1);
		a.h.ack.msn = htonl(1);
		a.h.ack.sack_base = htonl(FX_PSN & ~63u);
		want.b[40] = want.b[60] = 0;
		/* a time stamp whose ACK has that sum */
		for (uint32_t ts = 0; ts < 1000000 && want.b[q->v6 ? 60 : 40] != 0xff; ts++) {
			a.h.ts = p.h.ts = htonl(ts);
			pkt_frame(&a, &want);
			if (want.b[q->v6 ? 61 : 41] != 0xff)
				want.b[q->v6 ? 60 : 40] = 0;
		}
		assert_int_equal(want.b[q->v6 ? 60 : 40], 0xff);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=10 tx_ack");
		expect_frame(&want);
		expect_pools();
	}
}

/* CE is echoed in our header and never on the way back. */
static void ack__ce(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t ecn = 0; ecn < 4; ecn++) {
			struct pkt p;

			data(q, &p, FX_PSN + ecn, 10);
			p.tos = 0xc0 | ecn;
			acked(q, &p,
			      (struct reply){ FX_PSN + ecn + 1, ecn + 1, (FX_PSN + ecn) & ~63u, 0,
					      ecn == 3 ? WEFT_F_CE : 0 },
			      ecn == 3 ? "rx_data rx_bytes=10 rx_ce tx_ack"
				       : "rx_data rx_bytes=10 tx_ack");
		}
	}
}

/* SACK bits tell of what is placed beyond a gap; cum and msn move when it closes. */
static void ack__sack(void **state)
{
	const uint32_t base = (FX_PSN + 63) & ~63u;

	(void)state;
	BOTH(q)
	{
		uint64_t bits = 0;
		struct pkt p;

		fx_qp_init(q, base, FX_FULL);
		for (uint32_t i = 63; i > 0; i--) {
			data(q, &p, base + i, 8);
			bits |= 1ull << i;
			acked(q, &p, (struct reply){ base, 0, base, bits, 0 },
			      "rx_data rx_bytes=8 tx_ack");
		}
		/* the word of the packet that triggered it, wherever the gap is */
		data(q, &p, base + 130, 8);
		acked(q, &p, (struct reply){ base, 0, base + 128, 4, 0 },
		      "rx_data rx_bytes=8 tx_ack");
		assert_int_equal(q->ring->arrived, 0);
		data(q, &p, base, 8);
		acked(q, &p, (struct reply){ base + 64, 64, base, 0, 0 },
		      "rx_data rx_bytes=8 tx_ack");
		assert_int_equal(q->ring->arrived, 64);
		expect_pools();
	}
}

/* I2: a duplicate is acknowledged again and writes nothing, placed or complete. */
static void ack__duplicates(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		data(q, &p, FX_PSN, 100);
		acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 0, 0 },
		      "rx_data rx_bytes=100 tx_ack");
		data(q, &p, FX_PSN + 2, 90); /* beyond a gap */
		acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 1ull << 58, 0 },
		      "rx_data rx_bytes=90 tx_ack");
		for (uint32_t i = 0; i <= 2; i += 2) {
			pkt_data(&p, q->peer, FX_PSN + i, 0, random_bytes(99), 100);
			p.tos = 3;
			acked(q, &p,
			      (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 1ull << 58,
					      WEFT_F_DUP | WEFT_F_CE },
			      "rx_dup rx_ce tx_ack");
			expect_same();
			expect_pools();
		}
		/* even when the key has gone since: the peer has a right to its ACK */
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].key = 0;
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(98), 100);
		acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 1ull << 58, WEFT_F_DUP },
		      "rx_dup tx_ack");
		expect_same();
		expect_pools();
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].key = FX_T_KEY;
	}
}

/* Another CPU is copying it: neither placed again nor acknowledged. */
static void ack__busy(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_rx rx;
		struct pkt p;

		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN + 5)].claimed |= weft_psn_bit(FX_PSN + 5);
		fx_rx_set(q, &rx);
		pkt_data(&p, q->peer, FX_PSN + 5, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.busy");
		/* who is older than the window has that bit in common with a newer one, no more */
		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN - 1)].claimed |= weft_psn_bit(FX_PSN - 1);
		fx_rx_set(q, &rx);
		pkt_data(&p, q->peer, FX_PSN - 1, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_dup tx_ack");
		expect_same();
	}
}

static void ack__window(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const struct {
			int32_t d;
			const char *counters;
		} cases[] = {
			{ WEFT_WIN, "drop.window" },        { WEFT_WIN + 1, "drop.window" },
			{ 0x7fffffff, "drop.window" },      { INT32_MIN, "rx_dup tx_ack" },
			{ -WEFT_WIN - 1, "rx_dup tx_ack" }, { -1, "rx_dup tx_ack" },
			{ -WEFT_WIN, "rx_dup tx_ack" },
		};
		struct pkt p;

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			pkt_data(&p, q->peer, FX_PSN + cases[i].d, 0, random_bytes(1), 100);
			pkt_frame(&p, &f);
			if (cases[i].counters[0] == 'd') {
				expect_drop(&f, cases[i].counters);
				continue;
			}
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters(cases[i].counters);
			expect_same();
		}
		/* the last of the window is in it */
		data(q, &p, FX_PSN + WEFT_WIN - 1, 100);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=100 tx_ack");
		expect_pools();
	}
}

/* PSNs that pass 2^32, one by one and with a gap over the wrap. */
static void ack__psn_wrap(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t psn0 = 0xfffffff0u;
		struct pkt p;

		fx_qp_init(q, psn0, FX_FULL);
		for (uint32_t i = 0; i < 40; i++) {
			if (i == 15)
				continue; /* 0xffffffff comes late */
			data(q, &p, psn0 + i, 16);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("rx_data rx_bytes=16 tx_ack");
			assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum),
					 i < 15 ? psn0 + i + 1 : 0xffffffffu);
		}
		data(q, &p, 0xffffffffu, 16);
		acked(q, &p, (struct reply){ 24, 40, 0xffffffc0u, 0, 0 },
		      "rx_data rx_bytes=16 tx_ack");
		assert_int_equal(q->ring->arrived, 40);
		pkt_data(&p, q->peer, 0xffffffffu, 0, random_bytes(5), 16);
		acked(q, &p, (struct reply){ 24, 40, 0xffffffc0u, 0, WEFT_F_DUP }, "rx_dup tx_ack");
		expect_pools();
	}
}

/* A sleeping application is woken once for each time it has armed. */
static void ack__wake_up(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t qpn, kind;
		struct pkt p;

		data(q, &p, FX_PSN, 8);
		acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 0, 0 },
		      "rx_data rx_bytes=8 tx_ack");
		assert_int_equal(fx_events(NULL, NULL), 0);

		q->ring->arm_rx = 1;
		q->ring->arm_tx = 1;
		/* not the last of its message: nothing has arrived */
		data(q, &p, FX_PSN + 1, 8);
		p.h.flags = 0;
		p.h.data.mlen = htonl(16);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=8 tx_ack");
		assert_int_equal(fx_events(NULL, NULL), 0);
		assert_int_equal(q->ring->arm_rx, 1);

		data(q, &p, FX_PSN + 2, 8);
		p.h.data.roff = htobe64(8);
		p.h.data.moff = htonl(8);
		p.h.data.mlen = htonl(16);
		pkt_frame(&p, &f);
		memcpy(fx.want + FX_T_OFF, random_bytes(FX_PSN + 1), 8);
		memcpy(fx.want + FX_T_OFF + 8, random_bytes(FX_PSN + 2), 8);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=8 tx_ack event");
		assert_int_equal(fx_events(&qpn, &kind), 1);
		assert_int_equal(qpn, q->ctl->qpn);
		assert_int_equal(kind, WEFT_EVENT_RX);
		assert_int_equal(q->ring->arm_rx, 0);
		assert_int_equal(q->ring->arm_tx, 1);
		assert_int_equal(q->ring->arrived, 2);

		pkt_data(&p, q->peer, FX_PSN + 3, 100, random_bytes(4), 0);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data tx_ack");
		assert_int_equal(fx_events(NULL, NULL), 0);
		assert_int_equal(q->ring->arrived, 3);
		expect_pools();
		memset(fx.want + FX_T_OFF, 0xc5, 16);
		memset(fx.target + FX_T_OFF, 0xc5, 16);
	}
}

/* Placed, but nobody has moved the window on: the next packet's section finds the end, and tells. */
static void ack__late_end(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t qpn, kind;
		struct weft_rx rx;
		struct pkt p;

		weft_rx_init(&rx, FX_PSN);
		for (uint32_t i = 0; i < 64; i++) {
			assert_int_equal(weft_rx_claim(&rx, FX_PSN + i, i == 63), WEFT_RX_NEW);
			weft_rx_commit(&rx, FX_PSN + i);
		}
		fx_rx_set(q, &rx);
		q->ring->arm_rx = 1;
		data(q, &p, FX_PSN + 64, 8);
		p.h.flags = 0;
		p.h.data.mlen = htonl(16);
		pkt_frame(&p, &f);
		memcpy(fx.want + FX_T_OFF, random_bytes(FX_PSN + 64), 8);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=8 tx_ack event");
		assert_int_equal(q->ring->arrived, 1);
		assert_int_equal(q->ring->arm_rx, 0);
		assert_int_equal(fx_events(&qpn, &kind), 1);
		assert_int_equal(qpn, q->ctl->qpn);
		assert_int_equal(kind, WEFT_EVENT_RX);
	}
}

/* All of a window is placed and nobody has moved it on: what the peer may send now is let in. */
static void ack__lagging_window(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_rx rx;
		struct pkt p;

		weft_rx_init(&rx, FX_PSN);
		for (uint32_t i = 0; i < WEFT_WIN; i++) {
			assert_int_equal(weft_rx_claim(&rx, FX_PSN + i, i == 700), WEFT_RX_NEW);
			weft_rx_commit(&rx, FX_PSN + i);
		}
		fx_rx_set(q, &rx);
		data(q, &p, FX_PSN + 2 * WEFT_WIN - 1, 8);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=8 tx_ack");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum), FX_PSN + WEFT_WIN);
		assert_int_equal(q->ring->arrived, 1);
		expect_pools();
	}
}

/* No end is pending: the window moves with whole words, behind the ACK of what completes one. */
static void ack__whole_word(void **state)
{
	const uint32_t base = (FX_PSN + 63) & ~63u;

	(void)state;
	BOTH(q)
	{
		fx_qp_init(q, base, FX_FULL);
		for (uint32_t i = 0; i < 64; i++) {
			struct pkt p;

			data(q, &p, base + i, 8);
			p.h.flags = 0;
			p.h.data.mlen = htonl(16);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("rx_data rx_bytes=8 tx_ack");
			assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum), base);
			assert_true(be64toh(frame_hdr(&fx.out)->ack.sack) == ~0ull >> (63 - i));
		}
		/* its ACK was written before the last was; the next one tells */
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_dup tx_ack");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum), base + 64);
		expect_pools();
	}
}

/* Without its CQ an armed application is disarmed, and the packet placed all the same. */
static void ack__no_cq(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct pkt p;

	(void)state;
	fx_cq_remove();
	q->ring->arm_rx = 1;
	data(q, &p, FX_PSN, 8);
	acked(q, &p, (struct reply){ FX_PSN + 1, 1, FX_PSN & ~63u, 0, 0 },
	      "rx_data rx_bytes=8 tx_ack");
	assert_int_equal(q->ring->arm_rx, 0);
	expect_pools();
}

/* Pairs do not touch each other's state. */
static void ack__other_qps_untouched(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		data(q, &p, FX_PSN, 8);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=8 tx_ack");
		for (int i = 0; i < FX_QPS; i++) {
			if (&fx.qp[i] == q)
				continue;
			expect_bytes(&fx.after.rx[i], &fx.before.rx[i], sizeof(fx.after.rx[i]));
			expect_bytes(&fx.after.ring[i], &fx.before.ring[i],
				     sizeof(fx.after.ring[i]));
		}
		expect_pools();
	}
}

const struct CMUnitTest fx_tests_ack[] = {
	FX_TEST(ack__headers_are_fresh),
	FX_TEST(ack__echoes),
	FX_TEST(ack__csum_never_zero),
	FX_TEST(ack__ce),
	FX_TEST(ack__sack),
	FX_TEST(ack__duplicates),
	FX_TEST(ack__busy),
	FX_TEST(ack__window),
	FX_TEST(ack__psn_wrap),
	FX_TEST(ack__wake_up),
	FX_TEST(ack__late_end),
	FX_TEST(ack__lagging_window),
	FX_TEST(ack__whole_word),
	FX_TEST(ack__no_cq),
	FX_TEST(ack__other_qps_untouched),
	FX_END,
};
