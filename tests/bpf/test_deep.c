// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Send queues that are deeper than a ring: which ring, how many are begun, what is corrupt. */
#include "fixture.h"

#define MOST (WEFT_SQ_DEPTH - WEFT_SQ_SPARE) /* begun and not complete */

static struct frame f;
static struct weft_tx tx;

static void fill(const struct fx_qp *q, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), verdict);
	expect_counters(counters);
}

static void post(const struct fx_qp *q, uint32_t len, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, len);
	assert_int_equal(fx_run(FX_DB, &f), verdict);
	expect_counters(counters);
}

static void sent(const struct fx_qp *q, uint32_t i, uint32_t msn)
{
	expect_sent(q, .loff = 3 * i, .roff = 5 * i, .psn = FX_PSN + i, .msn = msn, .len = 10,
		    .mlen = 10, .flags = WEFT_F_LAST, .ev = i % WEFT_EVS_DEFAULT);
}

/* From one ring to the next, and from the last to the first: as a clone, an ACK, a doorbell. */
static void deep__every_ring(void **state)
{
	static const uint32_t from[] = { 254, 510, FX_DEEP - 2 };

	(void)state;
	BOTH(q)
	{
		for (size_t k = 0; k < sizeof(from) / sizeof(from[0]); k++) {
			uint32_t i, ts;

			fx_reset(NULL);
			fx_deep(q, from[k]);
			for (i = 0; i < 4; i++)
				fx_post(q, 3 * i, 5 * i, 10);
			ts = fx_fill(q);
			sent(q, 0, from[k]);
			q->ctl->cwnd = 1;
			for (i = 1; i < 4; i++) {
				assert_int_equal(fx_ack(q, i - 1, ts), XDP_TX);
				expect_counters("rx_ack tx_data");
				ts = ntohl(frame_hdr(&fx.out)->ts);
				sent(q, i, from[k] + i);
				assert_int_equal(q->ring->sq_done, from[k] + i);
			}
		}
		for (size_t k = 0; k < sizeof(from) / sizeof(from[0]); k++) {
			fx_reset(NULL);
			fx_deep(q, from[k]);
			for (uint32_t i = 0; i < 4; i++) {
				fx_post(q, 3 * i, 5 * i, 10);
				post(q, fx_hl(q) + 10, XDP_REDIRECT, "doorbell inplace tx_data");
				sent(q, i, from[k] + i);
			}
		}
	}
	expect_pools();
}

/* What is missing, and whether it fits a frame, is told by the right ring as well. */
static void deep__deficit(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_deep(q, 256);
		q->ring[0].sq[0].len = q->ring[2].sq[0].len = q->ring[3].sq[0].len = 1 << 20;
		fx_post(q, 0, 0, 10);
		post(q, fx_hl(q) + 10, XDP_REDIRECT, "doorbell inplace tx_data");
		fx_reset(NULL);
		fx_deep(q, 512);
		fx_post(q, 0, 0, 1 << 20);
		post(q, fx_hl(q) + 10, XDP_REDIRECT, "doorbell spawned=64");
		/* and with an ACK: 10 bytes need no more than its token */
		fx_reset(NULL);
		fx_deep(q, 255);
		fx_post(q, 0, 0, 10);
		q->ring[0].sq[0].len = 1 << 20;
		fx_post(q, 0, 0, 10);
		assert_int_equal(fx_ack(q, 0, fx_fill(q)), XDP_TX);
		expect_counters("rx_ack tx_data");
	}
}

/* As many are begun as have a private copy; then the ACK of the oldest goes on with the rest. */
static void deep__begun(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;

		fx_reset(NULL);
		fx.cfg->budget = fx.cfg->hard = 2 * WEFT_SQ_DEPTH;
		q->ctl->cwnd = WEFT_CWND_MAX;
		fx_tx_get(q, &tx);
		tx.cc.cwnd = WEFT_CWND_MAX;
		fx_tx_set(q, &tx);
		fx_deep(q, 7);
		for (uint32_t i = 0; i < MOST + 5; i++)
			fx_post(q, 3 * i, 5 * i, 10);
		ts = fx_fill(q);
		fx_fill_n(q, MOST - 1);
		fill(q, XDP_DROP, "drop.template");
		expect_same();
		post(q, fx_hl(q) + 10, XDP_DROP, "doorbell absorbed");
		assert_int_equal(TX_AFTER(q)->inflight, MOST);
		assert_int_equal(q->ring->hint, 1);
		assert_int_equal(fx_ack(q, 0, ts), XDP_TX);
		expect_counters("rx_ack tx_data");
		sent(q, MOST, 7 + MOST);
		assert_int_equal(q->ring->sq_done, 8);
		fill(q, XDP_DROP, "drop.template");
	}
}

/* The application may have posted what the queue holds, and no more. */
static void deep__corrupt_ring(void **state)
{
	static const uint32_t ahead[] = { FX_DEEP + 1, 4096, 0x7fffffff };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
			fx_reset(NULL);
			fx_deep(q, 300);
			fx_post(q, 0, 0, 10);
			q->ring->sq_prod = 300 + ahead[i];
			post(q, 60, XDP_DROP, "doorbell absorbed");
			fill(q, XDP_DROP, "drop.template");
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
			assert_int_equal(q->ring->tx_err_ssn, 300);
		}
		fx_reset(NULL);
		fx_deep(q, 300);
		fx_post(q, 0, 0, 10);
		q->ring->sq_prod = 300 + FX_DEEP;
		fill(q, XDP_PASS, "tx_data");
	}
}

/* Rings that the process does not have: nothing is read there, and nothing begun. */
static void deep__no_ring(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		fx_deep(q, 255);
		q->ctl->ring = WEFT_PROC_QPS - 1;
		q->ring = &fx.rings[WEFT_PROC_QPS - 1];
		memset(q->ring, 0, sizeof(*q->ring));
		q->ring->sq_prod = 255;
		fx_post(q, 0, 0, 10);
		ts = fx_fill(q);
		q->ring->sq_prod = 257;
		post(q, 60, XDP_DROP, "drop.doorbell doorbell");
		fill(q, XDP_DROP, "drop.template");
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 0);
		p.h.ts = htonl(ts);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.owner");
	}
}

const struct CMUnitTest fx_tests_deep[] = {
	FX_TEST(deep__every_ring),   FX_TEST(deep__deficit), FX_TEST(deep__begun),
	FX_TEST(deep__corrupt_ring), FX_TEST(deep__no_ring), FX_END,
};
