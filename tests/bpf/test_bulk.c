// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Plain ACKs in the midst of a long WRITE: several for one lock, what a CPU is lent, and who takes that away. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fixture.h"
#include "internal.h"

#define LEN (1 << 20)
#define OUT (2 * WEFT_LANE + 1) /* tokens: enough for something to be lent; the window */

static struct weft_tx tx;

static struct weft_lane *lane(const struct fx_qp *q)
{
	fx_tx_get(q, &tx);
	return &tx.lane[0];
}

static void window(struct fx_qp *q)
{
	q->ctl->cwnd = OUT;
	fx_tx_get(q, &tx);
	tx.cc.cwnd = OUT;
	fx_tx_set(q, &tx);
}

static void bulk_new(struct fx_qp *q)
{
	fx_reset(NULL);
	window(q);
	fx_hold(q, OUT, LEN);
	lane(q)->who = 0;
	fx_tx_set(q, &tx);
}

/* The ACK of packet n, of which the last transmission is known; no other has come. */
static int ack_of(const struct fx_qp *q, uint32_t n)
{
	static struct frame f;
	struct pkt p;

	fx_tx_get(q, &tx);
	pkt_ack(&p, q->peer, FX_PSN + n, FX_PSN, 0);
	p.h.ts = htonl(tx.slot[weft_tx_at(FX_PSN + n)].ts);
	pkt_frame(&p, &f);
	return fx_run(FX_NIC, &f);
}

/* Each token that comes home takes the next segment, with the lock or without; the books stay as they are. */
static void bulk__goes_on(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t lent = 0, sent;

		bulk_new(q);
		for (uint32_t i = 0; i < 40; i++) {
			const struct weft_hdr *h;
			uint32_t n = OUT + i;

			sent = lane(q)->state & 0xff;
			assert_int_equal(ack_of(q, i), XDP_TX);
			lent += (lane(q)->state & 0xff) > sent;
			expect_counters("rx_ack tx_data");
			fx_books(OUT, 1, -1);
			/* what was lent says when that was */
			h = frame_hdr(&fx.out);
			assert_int_equal(ntohl(h->psn), FX_PSN + n);
			assert_int_equal(ntohl(h->data.moff), n * FX_FULL);
			assert_int_equal(ntohl(h->ts),
					 TX_AFTER(q)->slot[weft_tx_at(FX_PSN + n)].ts);
			assert_int_equal(h->op, WEFT_OP_DATA);
			assert_int_equal(h->flags, 0);
		}
		assert_int_equal(lent, 27);
	}
}

/* What has been left in a lane is scored with the next lock: whatever kind of ACK takes it. */
static void bulk__collects(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;
		static struct frame f;

		bulk_new(q);
		for (uint32_t i = 0; i < 3; i++)
			ack_of(q, i);
		assert_int_equal(lane(q)->state & 0xff, 2);
		assert_int_equal(tx.una, FX_PSN + 1);
		pkt_ack(&p, q->peer, FX_PSN + 3, FX_PSN, 0);
		p.h.flags = WEFT_F_CE;
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		assert_int_equal(lane(q)->state & 0xff, 0);
		assert_int_equal(tx.una, FX_PSN + 4);
		assert_int_equal(tx.inflight, OUT);
		assert_int_equal(tx.ce, 1);
		fx_books(OUT, 1, -1);
	}
}

/* In a full domain nothing is lent if others wait, nor to a token that is one too many. */
static void bulk__not_if_others_wait(void **state)
{
	static const struct {
		uint32_t budget, hard;
		bool waits, lent;
	} cases[] = {
		{ OUT, OUT, false, true },
		{ OUT, OUT, true, false },
		{ OUT + 1, OUT + 1, true, true },
		{ OUT - 2, OUT - 1, false, false },
	};

	(void)state;
	BOTH(q)
	{
		for (int i = 0; i < 4; i++) {
			bulk_new(q);
			fx.cfg->budget = cases[i].budget;
			fx.cfg->hard = cases[i].hard;
			fx.cfg->domains = 4;
			if (cases[i].waits)
				fx_waits(fx.qp[q == &fx.qp[A4] ? A6 : A4].slot);
			ack_of(q, 0);
			assert_int_equal(lane(q)->state >> 8, cases[i].lent ? WEFT_LANE - 1 : 0);
		}
	}
}

/* The window has become smaller: the token of this ACK is one too many. */
static void bulk__shrinks(void **state)
{
	(void)state;
	BOTH(q)
	{
		bulk_new(q);
		q->ctl->cwnd = 3;
		assert_int_equal(ack_of(q, 0), XDP_DROP);
		expect_counters("rx_ack absorbed");
		fx_books(OUT - 1, 1, -1);
	}
}

/* Nobody comes home: the timer takes what was lent away, tells what is complete, and wakes who waits for it. */
static void bulk__late(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_reset(NULL);
		window(q);
		for (int i = 0; i < 2; i++)
			fx_post(q, 0, 0, FX_FULL);
		fx_post(q, 0, 0, LEN);
		fx_fill_n(q, OUT);
		/* the second WRITE's ACK, with which it is complete, is left in the lane */
		ack_of(q, 0);
		ack_of(q, 2);
		ack_of(q, 1);
		assert_int_equal(lane(q)->state & 0xff, 2);
		assert_int_equal(q->ring->sq_done, 1);
		for (uint32_t n = 0; n < 2 * OUT; n++)
			tx.slot[weft_tx_at(FX_PSN + n)].ts -= WEFT_TICKS_US(500000);
		tx.lane[0].ts -= WEFT_TICKS_US(500000);
		fx_tx_set(q, &tx);
		q->ring->arm_tx = 1;
		fx_ring(q, WEFT_DB_LOOK);
		assert_int_equal(lane(q)->state, 0);
		assert_int_equal(q->ring->sq_done, 2);
		assert_int_equal(fx_events(NULL, NULL), 1);
		assert_int_equal(tx.dom[0].out, fx.after.run.dom[0].inflight);
		assert_int_equal(tx.una, FX_PSN + 3);
	}
}

/* An ACK comes to another CPU than sent its packet: what the latter was lent is sent again from here, and no more is lent. */
static void bulk__foreign(void **state)
{
	(void)state;
	BOTH(q)
	{
		bulk_new(q);
		ack_of(q, 0);
		ack_of(q, 1);
		lane(q)->who++;
		fx_tx_set(q, &tx);
		assert_int_equal(ack_of(q, 2), XDP_TX);
		assert_int_equal(lane(q)->state, 0);
		assert_int_equal(lane(q)->who, WEFT_LANE_NONE);
		assert_int_equal(tx.una, FX_PSN + 3);
		assert_int_equal(tx.inflight, OUT);
		fx_books(OUT, 1, -1);
		expect_sent(q, .psn = FX_PSN + OUT + 2, .moff = (OUT + 2) * FX_FULL, .len = FX_FULL,
			    .mlen = LEN, .ev = TX_AFTER(q)->slot[weft_tx_at(FX_PSN + OUT + 2)].ev);
	}
}

/* What is lent goes out before anything else that this CPU would claim. */
static void bulk__owed(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct frame f;
		struct pkt p;

		bulk_new(q);
		ack_of(q, 0);
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN, 0);
		p.h.flags = WEFT_F_CE;
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_sent(q, .psn = FX_PSN + OUT + 1, .moff = (OUT + 1) * FX_FULL, .len = FX_FULL,
			    .mlen = LEN, .ev = TX_AFTER(q)->slot[weft_tx_at(FX_PSN + OUT + 1)].ev);
		fx_books(OUT, 1, -1);
	}
}

const struct CMUnitTest fx_tests_bulk[] = {
	FX_TEST(bulk__goes_on),
	FX_TEST(bulk__collects),
	FX_TEST(bulk__not_if_others_wait),
	FX_TEST(bulk__shrinks),
	FX_TEST(bulk__late),
	FX_TEST(bulk__foreign),
	FX_TEST(bulk__owed),
	FX_END,
};
