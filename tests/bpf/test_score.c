// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ACKs and NAKs at the sender: scored, and the same frame refilled, absorbed, or made into two. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;

static void ack(struct fx_qp *q, struct pkt *p, uint32_t psn, uint32_t cum, uint32_t msn,
		uint32_t ts)
{
	pkt_ack(p, q->peer, psn, cum, msn);
	p->h.ts = htonl(ts);
	pkt_frame(p, &f);
}

/* An ACK leaves as the next DATA: longer by all its payload, with fresh headers. */
static void score__refill(void **state)
{
	static const uint32_t lens[] = { 0, 1, 64, 1000, 3327, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint32_t ts;
			struct pkt p;

			fx_reset(NULL);
			q->ctl->cwnd = 1;
			fx_post(q, 0, 0, 10);
			fx_post(q, WEFT_CHUNK - FX_S_OFF - 500, 33, lens[i]);
			ts = fx_fill(q);
			pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 1);
			p.h.ts = htonl(ts);
			p.tos = 0xbb; /* what the ACK went through stays behind */
			p.ttl = 2;
			p.h.ev = 9;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("rx_ack tx_data");
			expect_sent(q, .loff = WEFT_CHUNK - FX_S_OFF - 500, .roff = 33,
				    .psn = FX_PSN + 1, .msn = 1, .len = lens[i], .mlen = lens[i],
				    .flags = WEFT_F_LAST, .ev = 1);
			assert_true(!q->v6 || pkt_csum_ok(&fx.out));
			assert_int_equal(TX_AFTER(q)->una, FX_PSN + 1);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + 2);
			assert_int_equal(TX_AFTER(q)->inflight, 1);
			assert_int_equal(q->ring->sq_done, 1);
			assert_int_equal(q->ring->tx_una, FX_PSN + 1);
			assert_int_equal(q->ring->hint, 1);
			assert_int_equal(fx.after.run.dom[0].inflight, 1);
			assert_int_equal(fx.after.run.active, 1);
			expect_bytes(&fx.after.rx, &fx.before.rx, sizeof(fx.after.rx));
			expect_pools();
		}
	}
}

/* Nothing left: the token dies, and the next post must ring. */
static void score__absorb(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t qpn, kind, ts;
		struct pkt p;

		fx_reset(NULL);
		fx_post(q, 0, 0, 10);
		ts = fx_fill(q);
		q->ring->arm_tx = 1;
		q->ring->arm_rx = 1;
		ack(q, &p, FX_PSN, FX_PSN + 1, 1, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed event");
		expect_frame(&f);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(TX_AFTER(q)->una, FX_PSN + 1);
		assert_true(TX_AFTER(q)->rtt.srtt8 > 0);
		assert_int_equal(q->ring->sq_done, 1);
		assert_int_equal(q->ring->hint, 0);
		assert_int_equal(q->ring->arm_tx, 0);
		assert_int_equal(q->ring->arm_rx, 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		assert_int_equal(fx.after.run.active, 0);
		assert_int_equal(fx_events(&qpn, &kind), 1);
		assert_int_equal(qpn, q->ctl->qpn);
		assert_int_equal(kind, WEFT_EVENT_TX);
		/* the next one is armed again or hears nothing */
		fx_post(q, 0, 0, 10);
		ts = fx_fill(q);
		assert_int_equal(q->ring->hint, 1);
		ack(q, &p, FX_PSN + 1, FX_PSN + 2, 2, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed");
		assert_int_equal(fx_events(NULL, NULL), 0);
		assert_int_equal(q->ring->hint, 0);
	}
}

/* As if n packets from psn on had left together: none has overtaken another by much. */
static void sent_at_once(const struct fx_qp *q, uint32_t psn, uint32_t n, uint32_t ts)
{
	static struct weft_tx tx;

	fx_tx_get(q, &tx);
	while (n--)
		tx.slot[weft_tx_at(psn + n)].ts = ts;
	fx_tx_set(q, &tx);
}

/* I3: done moves over messages that are wholly acknowledged, in order, SACK or not. */
static void score__sack(void **state)
{
	(void)state;
	BOTH(q)
	{
		const uint32_t psn = (FX_PSN + 63) & ~63u;
		uint32_t ts = 0;
		struct pkt p;

		fx_reset(NULL);
		fx_qp_init(q, psn, FX_FULL);
		for (int i = 0; i < 4; i++) {
			fx_post(q, 0, 0, 10);
			ts = fx_fill(q);
		}
		sent_at_once(q, psn, 4, ts);
		/* 2 is back, and says that 1 is placed as well; and that 7 is, which was never sent */
		pkt_ack(&p, q->peer, psn + 2, psn, 0);
		p.h.ts = htonl(ts);
		p.h.flags = WEFT_F_CE;
		p.h.ack.sack = htobe64(1ull << 1 | 1ull << 2 | 1ull << 7);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed");
		assert_int_equal(TX_AFTER(q)->una, psn);
		assert_int_equal(TX_AFTER(q)->delivered[weft_psn_word(psn)], 6);
		assert_int_equal(TX_AFTER(q)->inflight, 3);
		assert_int_equal(TX_AFTER(q)->ce, 1);
		assert_int_equal(q->ring->sq_done, 0);
		assert_int_equal(q->ring->hint, 1);
		/* 0 closes the gap although its own cum lags behind */
		ack(q, &p, psn, psn + 1, 1, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed");
		assert_int_equal(TX_AFTER(q)->una, psn + 3);
		assert_int_equal(q->ring->sq_done, 3);
		assert_int_equal(q->ring->tx_una, psn + 3);
		assert_int_equal(TX_AFTER(q)->inflight, 2);
	}
}

/* What was never sent cannot be acknowledged: dropped, and nothing has changed. */
static void score__unsent(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const struct {
			int32_t psn, cum;
			uint32_t msn, base;
		} cases
			[] = {
				{ 2, 2, 0, 0 }, /* the next */
				{ 3, 0, 0, 0 },
				{ 0x40000000, 0, 0, 0 },
				{ INT32_MIN, 0, 0, 0 },
				{ 1, 3, 0, 0 }, /* cum beyond what was sent */
				{ 1, 0x7ffffff0, 0, 0 },
				{ 1, 2, 3, 0 }, /* more messages than were posted */
				{ 1, 2, 0x7fffffff, 0 },
				{ 1, 2, 0, 1 }, /* a base that is none */
				{ 1, 2, 0, 63 },
			};
		struct pkt p;

		for (int i = 0; i < 3; i++)
			fx_post(q, 0, 0, 10);
		fx_fill_n(q, 2);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			pkt_ack(&p, q->peer, FX_PSN + cases[i].psn, FX_PSN + cases[i].cum,
				cases[i].msn);
			p.h.ack.sack = ~0ull;
			p.h.ack.sack_base = htonl((FX_PSN & ~63u) + cases[i].base);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.unsent");
		}
		for (size_t i = 0; i < 4; i++) {
			pkt_nak(&p, q->peer, FX_PSN + cases[i].psn, WEFT_NAK_KEY);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.unsent");
		}
	}
}

/* A token that was not expected, convicted or doubled in the network, is counted and not scored. */
static void score__surplus(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		fx_post(q, 0, 0, 10);
		fx_post(q, 0, 0, 10);
		ts = fx_fill(q);
		fx_fill(q);
		ack(q, &p, FX_PSN, FX_PSN + 1, 1, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed");
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack surplus absorbed");
		assert_int_equal(TX_AFTER(q)->inflight, 1);
		assert_int_equal(TX_AFTER(q)->una, FX_PSN + 1);
		assert_int_equal(q->ring->sq_done, 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 1);
	}
}

/* So late that its PSN is long behind: a token like any other, and no news. */
static void score__old(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const uint32_t age[] = { WEFT_WIN, WEFT_WIN + 700, 0x7ffffff0 };
		struct pkt p;

		fx_reset(NULL);
		fx_post(q, 0, 0, 10);
		fx_fill(q);
		for (size_t i = 0; i < sizeof(age) / sizeof(age[0]); i++) {
			pkt_ack(&p, q->peer, FX_PSN - age[i], FX_PSN - age[i] + 1, 0);
			p.h.ack.sack = ~0ull;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_ack surplus absorbed");
			assert_int_equal(TX_AFTER(q)->inflight, 1);
			assert_int_equal(TX_AFTER(q)->una, FX_PSN);
			assert_int_equal(fx.after.run.dom[0].inflight, 1);
			assert_int_equal(q->ring->sq_done, 0);
		}
		/* a NAK that late ends nothing */
		pkt_nak(&p, q->peer, FX_PSN - WEFT_WIN, WEFT_NAK_KEY);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.unsent");
	}
}

/* One was overtaken by far: convicted, and the token that told carries it again. */
static void score__lost(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		q->ctl->cwnd = 1;
		fx_post(q, 40, 50, 100);
		fx_post(q, 0, 0, 10);
		fx_fill(q);
		ts = fx_fill(q);
		fx_tx_get(q, &tx);
		tx.slot[weft_tx_at(FX_PSN)].ts -= WEFT_TICKS_US(500000);
		fx_tx_set(q, &tx);
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN, 0);
		p.h.ts = htonl(ts);
		p.h.ack.sack = htobe64(weft_psn_bit(FX_PSN + 1));
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_ack lost tx_data tx_retx");
		expect_sent(q, .loff = 40, .roff = 50, .psn = FX_PSN, .len = 100, .mlen = 100,
			    .flags = WEFT_F_LAST | WEFT_F_RETX, .ev = 2);
		assert_int_equal(TX_AFTER(q)->inflight, 1);
		assert_int_equal(TX_AFTER(q)->nlost, 0);
		assert_int_equal(q->ring->sq_done, 0);
		assert_int_equal(fx.after.run.dom[0].inflight, 1);
	}
}

/* Room in the window: the token becomes two clones, and none is claimed yet. */
static void score__twin(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		fx_post(q, 0, 0, 1 << 20);
		ts = fx_fill(q);
		ack(q, &p, FX_PSN, FX_PSN + 1, 0, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_REDIRECT);
		expect_counters("rx_ack spawned=2");
		expect_template(q, WEFT_DB_FILL);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		/* not when the device has no room */
		ts = fx_fill(q);
		fx.run->dom[0].inflight = 96;
		ack(q, &p, FX_PSN + 1, FX_PSN + 2, 0, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_ack tx_data");
	}
}

/* Another CPU has none: the token goes there. */
static void score__move(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		q->ctl->doms = 3;
		q->ctl->cpu_of[1] = 0; /* the only one in the map here */
		fx_post(q, 0, 0, 1 << 20);
		ts = fx_fill(q);
		fx_fill_n(q, 3);
		ack(q, &p, FX_PSN, FX_PSN + 1, 0, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_REDIRECT);
		expect_counters("rx_ack moved");
		expect_template(q, WEFT_DB_GROW);
		assert_int_equal(TX_AFTER(q)->inflight, 3);
		assert_int_equal(fx.after.run.dom[0].inflight, 3);
	}
}

/* The peer refuses: the work request that the PSN belongs to fails, the QP with it. */
static void score__nak(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t code = WEFT_NAK_KEY; code <= WEFT_NAK_MEMORY; code++) {
			uint32_t kind, ts;
			struct pkt p;

			fx_reset(NULL);
			for (int i = 0; i < 3; i++)
				fx_post(q, 0, 0, 10);
			ts = fx_fill(q);
			fx_fill_n(q, 2);
			q->ring->arm_tx = 1;
			pkt_nak(&p, q->peer, FX_PSN + 1, code);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_nak event");
			expect_frame(&f);
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_NAK);
			assert_int_equal(TX_AFTER(q)->err_info, code);
			assert_int_equal(TX_AFTER(q)->err_ssn, 1);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_NAK);
			assert_int_equal(q->ring->tx_err_info, code);
			assert_int_equal(q->ring->tx_err_ssn, 1);
			assert_int_equal(q->ring->sq_done, 0);
			assert_int_equal(fx_events(NULL, &kind), 1);
			assert_int_equal(kind, WEFT_EVENT_TX);
			/* the first reason stays */
			pkt_nak(&p, q->peer, FX_PSN + 2, WEFT_NAK_CLOSED);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_nak");
			assert_int_equal(q->ring->tx_err_info, code);
			assert_int_equal(q->ring->tx_err_ssn, 1);
			/* what was placed before is still counted, and nothing is sent any more */
			ack(q, &p, FX_PSN, FX_PSN + 1, 1, ts);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_ack absorbed");
			assert_int_equal(q->ring->sq_done, 1);
		}
	}
}

/* A refill whose source is not allowed: the token dies with the QP, and no byte leaves. */
static void score__local_error(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		q->ctl->cwnd = 1;
		fx_post(q, 0, 0, 10);
		fx_post(q, FX_S_LEN - 5, 0, 10);
		ts = fx_fill(q);
		ack(q, &p, FX_PSN, FX_PSN + 1, 1, ts);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack drop.fill");
		expect_frame(&f);
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
		assert_int_equal(q->ring->tx_err_ssn, 1);
		assert_int_equal(q->ring->sq_done, 1);
	}
}

static void score__corrupt_ring(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		for (int i = 0; i < 2; i++) {
			fx_reset(NULL);
			q->ctl->cwnd = 1;
			fx_post(q, 0, 0, 10);
			ts = fx_fill(q);
			fx_post(q, 0, 0, WEFT_MSG_MAX + 1);
			if (i)
				q->ring->sq_prod = 100000;
			ack(q, &p, FX_PSN, FX_PSN + 1, 1, ts);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_ack absorbed");
			expect_frame(&f);
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
			assert_int_equal(q->ring->tx_err_ssn, 1);
			assert_int_equal(q->ring->sq_done, 1);
			assert_int_equal(fx.after.run.dom[0].inflight, 0);
		}
	}
}

/*
 * A whole message goes round: each DATA that A sends is given to B, B's ACK to A,
 * and that same frame carries the next segment. One token, byte-exact.
 */
static void score__round_trip(void **state)
{
	(void)state;
	BOTH(a)
	{
		const uint32_t len = 30 * FX_FULL + 123;
		const uint64_t loff = WEFT_CHUNK - FX_S_OFF - 50001,
			       roff = WEFT_CHUNK - FX_T_OFF - 31;
		uint32_t turns = 0;
		int v;

		fx_reset(NULL);
		a->ctl->cwnd = 1;
		fx_post(a, loff, roff, len);
		fx_fill(a);
		do {
			char want[64];

			f = fx.out;
			v = fx_run(FX_NIC, &f); /* at B */
			assert_int_equal(v, XDP_TX);
			snprintf(want, sizeof(want), "rx_data rx_bytes=%u tx_ack",
				 turns < 30 ? FX_FULL : 123);
			expect_counters(want);
			f = fx.out;
			v = fx_run(FX_NIC, &f); /* at A */
			expect_counters(v == XDP_TX ? "rx_ack tx_data" : "rx_ack absorbed");
			turns++;
		} while (v == XDP_TX);
		assert_int_equal(turns, 31);
		memcpy(fx.want + FX_T_OFF + roff, fx.source + FX_S_OFF + loff, len);
		expect_pools();
		assert_int_equal(a->ring->sq_done, 1);
		assert_int_equal(a->peer->ring->arrived, 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
	}
}

const struct CMUnitTest fx_tests_score[] = {
	FX_TEST(score__refill),      FX_TEST(score__absorb),
	FX_TEST(score__sack),        FX_TEST(score__unsent),
	FX_TEST(score__surplus),     FX_TEST(score__old),
	FX_TEST(score__lost),        FX_TEST(score__twin),
	FX_TEST(score__move),        FX_TEST(score__nak),
	FX_TEST(score__local_error), FX_TEST(score__corrupt_ring),
	FX_TEST(score__round_trip),  FX_END,
};
