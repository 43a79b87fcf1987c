// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Doorbells: a message in its own frame, replication, the device budget, the time-out look. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;

static void ring(const struct fx_qp *q, enum weft_db_op op, uint32_t len, int verdict,
		 const char *counters)
{
	doorbell_frame(&f, op, q->ctl->qpn, len);
	assert_int_equal(fx_run(op == WEFT_DB_GROW ? FX_CPU : FX_DB, &f), verdict);
	expect_counters(counters);
}

/* A message that fits the doorbell's frame leaves in it. */
static void bell__in_place(void **state)
{
	static const uint32_t lens[] = { 0, 1, 64, 511, 1024, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			fx_qp_init(q, FX_PSN, FX_FULL);
			memset(fx.run, 0, sizeof(*fx.run));
			fx_post(q, 11, 22, lens[i]);
			ring(q, WEFT_DB_POST, fx_hl(q) + lens[i], XDP_REDIRECT,
			     "doorbell inplace tx_data");
			expect_sent(q, .loff = 11, .roff = 22, .psn = FX_PSN, .len = lens[i],
				    .mlen = lens[i], .flags = WEFT_F_LAST);
			assert_int_equal(TX_AFTER(q)->inflight, 1);
			assert_int_equal(fx.after.run.dom[0].inflight, 1);
			assert_int_equal(fx.after.run.active, 1);
			assert_int_equal(q->ring->hint, 1);
		}
		/* one byte short: a clone must do it, and nothing is claimed yet */
		fx_qp_init(q, FX_PSN, FX_FULL);
		memset(fx.run, 0, sizeof(*fx.run));
		fx_post(q, 11, 22, 64);
		ring(q, WEFT_DB_POST, fx_hl(q) + 63, XDP_REDIRECT, "doorbell spawned");
		expect_template(q, WEFT_DB_FILL);
		expect_same();
		/* a frame with room to spare shrinks */
		ring(q, WEFT_DB_POST, fx_hl(q) + 200, XDP_REDIRECT, "doorbell inplace tx_data");
		expect_sent(q, .loff = 11, .roff = 22, .psn = FX_PSN, .len = 64, .mlen = 64,
			    .flags = WEFT_F_LAST);
	}
	expect_pools();
}

/* As many clones as packets wait, rounded down to a power of two, at most 64. */
static void bell__spawn(void **state)
{
	static const struct {
		uint32_t packets, spawned;
	} cases[] = { { 1, 1 },   { 2, 2 },   { 3, 2 },   { 4, 4 },   { 7, 4 },
		      { 8, 8 },   { 15, 8 },  { 16, 16 }, { 31, 16 }, { 32, 32 },
		      { 63, 32 }, { 64, 64 }, { 65, 64 }, { 300, 64 } };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			char want[64];

			fx_qp_init(q, FX_PSN, FX_FULL);
			fx_post(q, 0, 0, (cases[i].packets - 1) * FX_FULL + 1);
			snprintf(want, sizeof(want), "doorbell spawned=%u", cases[i].spawned);
			for (int op = WEFT_DB_POST; op <= WEFT_DB_GROW; op++) {
				if (op == WEFT_DB_FILL)
					continue;
				ring(q, op, 60, XDP_REDIRECT, want);
				expect_template(q, WEFT_DB_FILL);
				expect_same();
			}
		}
	}
}

/* I10: never more than the window and the device's budget allow; one for the hungry. */
static void bell__budget(void **state)
{
	static const struct {
		int used;
		uint32_t inflight, active, cwnd;
		const char *counters;
	} cases[] = {
		{ 0, 0, 0, 20, "doorbell spawned=16" },
		{ 0, 0, 0, 4, "doorbell spawned=4" },
		{ 0, 0, 4, 0, "doorbell spawned=16" }, /* 96 for 4 QPs: 24 */
		{ 90, 0, 0, 0, "doorbell spawned=4" },
		{ 95, 0, 0, 0, "doorbell spawned" },
		{ 96, 0, 0, 0, "doorbell spawned" }, /* from the reserve */
		{ 119, 0, 0, 0, "doorbell spawned" },
		{ 120, 0, 0, 0, "doorbell absorbed" },
		{ 500, 0, 0, 0, "doorbell absorbed" },
		{ 96, 1, 0, 0, "doorbell absorbed" }, /* it has one already */
		{ 90, 3, 0, 4, "doorbell spawned" },
		{ 90, 4, 0, 4, "doorbell absorbed" },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			fx_qp_init(q, FX_PSN, FX_FULL);
			fx_post(q, 0, 0, 1 << 20);
			fx_fill_n(q, cases[i].inflight);
			fx.run->dom[0].inflight = cases[i].used;
			fx.run->active = cases[i].active;
			q->ctl->cwnd = cases[i].cwnd;
			ring(q, WEFT_DB_POST, 60,
			     strstr(cases[i].counters, "spawned") ? XDP_REDIRECT : XDP_DROP,
			     cases[i].counters);
			assert_int_equal(fx.after.run.dom[0].inflight, cases[i].used);
			assert_int_equal(TX_AFTER(q)->inflight, cases[i].inflight);
			assert_int_equal(TX_AFTER(q)->nxt, TX_BEFORE(q)->nxt);
		}
	}
}

static void bell__nothing_posted(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int op = WEFT_DB_POST; op <= WEFT_DB_GROW; op++) {
			if (op == WEFT_DB_FILL)
				continue;
			doorbell_frame(&f, op, q->ctl->qpn, 60);
			expect_inert(op == WEFT_DB_GROW ? FX_CPU : FX_DB, &f, XDP_DROP,
				     "doorbell absorbed");
		}
	}
}

/* Each program takes its own operations and nothing else. */
static void bell__malformed(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_post(q, 0, 0, 10);
		for (int cpu = 0; cpu < 2; cpu++) {
			enum fx_prog p = cpu ? FX_CPU : FX_DB;
			int good = cpu ? WEFT_DB_GROW : WEFT_DB_POST;

			for (int op = 0; op < 8; op++) {
				if (cpu ? op == WEFT_DB_GROW
					: op == WEFT_DB_POST || op == WEFT_DB_LOOK ||
						    op == WEFT_DB_RESUME)
					continue;
				doorbell_frame(&f, op, q->ctl->qpn, 60);
				expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			}
			doorbell_frame(&f, good, q->ctl->qpn, 60);
			f.b[13] ^= 1;
			expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			f.b[13] ^= 1;
			f.b[14] ^= 1;
			expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			f.b[14] ^= 1;
			f.len = 14 + sizeof(struct weft_db) - 1;
			expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			f.len++;
			assert_int_equal(fx_run(p, &f), XDP_REDIRECT);
			expect_counters("doorbell spawned");
		}
	}
}

static void bell__no_qp(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int cpu = 0; cpu < 2; cpu++) {
			enum fx_prog p = cpu ? FX_CPU : FX_DB;
			int op = cpu ? WEFT_DB_GROW : WEFT_DB_POST;

			fx_reset(NULL);
			fx_post(q, 0, 0, 10);
			for (int bit = 0; bit < 32; bit++) {
				doorbell_frame(&f, op, q->ctl->qpn ^ 1u << bit, 200);
				expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			}
			doorbell_frame(&f, op, q->ctl->qpn, 200);
			for (uint32_t st = 0; st <= WEFT_QP_CLOSED; st++) {
				q->ctl->state = st;
				if (st != WEFT_QP_RTS)
					expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			}
			q->ctl->state = WEFT_QP_RTS;
			q->ctl->ring = WEFT_PROC_QPS;
			expect_inert(p, &f, XDP_DROP, "drop.doorbell");
			q->ctl->ring = q->slot;
			fx_kill_owner();
			expect_inert(p, &f, XDP_DROP, "drop.doorbell");
		}
	}
}

/* Make the token of PSN psn as old as `us`. */
static void age(const struct fx_qp *q, uint32_t psn, int us)
{
	static struct weft_tx tx;

	fx_tx_get(q, &tx);
	tx.slot[weft_tx_at(psn)].ts -= (int64_t)us * 1000 / (1 << WEFT_TS_SHIFT);
	fx_tx_set(q, &tx);
}

/* Make it 60 ms younger than it is: however long this test is not run, it is not late. */
static void rejuvenate(const struct fx_qp *q, uint32_t psn)
{
	age(q, psn, -60000);
}

/* XDP itself decides whether an RTO has passed. */
static void bell__look(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_post(q, 9, 8, 100);
		fx_fill(q);
		rejuvenate(q, FX_PSN);
		ring(q, WEFT_DB_LOOK, 60, XDP_DROP, "doorbell absorbed");
		expect_bytes(TX_AFTER(q), TX_BEFORE(q), sizeof(struct weft_tx));

		age(q, FX_PSN, 80000); /* the first RTO is 10 ms */
		ring(q, WEFT_DB_POST, 60, XDP_DROP, "doorbell absorbed"); /* a post does not look */
		ring(q, WEFT_DB_LOOK, 200, XDP_REDIRECT, "doorbell timeout lost spawned");
		expect_template(q, WEFT_DB_FILL);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(TX_AFTER(q)->nlost, 1);
		assert_int_equal(TX_AFTER(q)->rtt.backoff, 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		assert_int_equal(fx.after.run.active, 0);

		/* the same packet again, on another path, said to be a retransmission */
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data tx_retx");
		expect_sent(q, .loff = 9, .roff = 8, .psn = FX_PSN, .len = 100, .mlen = 100,
			    .flags = WEFT_F_LAST | WEFT_F_RETX, .ev = 1);
		assert_int_equal(TX_AFTER(q)->nlost, 0);
		assert_int_equal(TX_AFTER(q)->inflight, 1);
		/* backed off: 15 ms are not yet late */
		age(q, FX_PSN, 15000);
		ring(q, WEFT_DB_LOOK, 60, XDP_DROP, "doorbell absorbed");
		fx_reset(NULL);
	}
}

/* A QP in error starts nothing. */
static void bell__error(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;

		fx_post(q, 0, 0, 1 << 20);
		fx_tx_get(q, &tx);
		tx.err = WEFT_TX_ERR_NAK;
		fx_tx_set(q, &tx);
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 200);
		expect_inert(FX_DB, &f, XDP_DROP, "doorbell absorbed");
	}
}

static void bell__corrupt_ring(void **state)
{
	(void)state;
	BOTH(q)
	{
		/* far ahead: counts as nothing queued */
		q->ring->sq_prod = 0x40000000;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 200);
		expect_inert(FX_DB, &f, XDP_DROP, "doorbell absorbed");
		/* longer than any message: never in place, and the clone's claim ends the QP */
		q->ring->sq_prod = 0;
		fx_post(q, 0, 0, WEFT_MSG_MAX + 1);
		ring(q, WEFT_DB_POST, 200, XDP_REDIRECT, "doorbell spawned");
		expect_template(q, WEFT_DB_FILL);
		/* the claim is made here when the frame is as long as a full segment */
		ring(q, WEFT_DB_POST, fx_hl(q) + FX_FULL, XDP_DROP, "doorbell absorbed");
		assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
	}
}

/* A local error in place: nothing leaves. */
static void bell__local_error(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_post(q, FX_S_LEN, 0, 1);
		ring(q, WEFT_DB_POST, 300, XDP_DROP, "doorbell inplace drop.fill");
		expect_frame(&f);
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
		assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_LOCAL);
	}
}

const struct CMUnitTest fx_tests_bell[] = {
	FX_TEST(bell__in_place),
	FX_TEST(bell__spawn),
	FX_TEST(bell__budget),
	FX_TEST(bell__nothing_posted),
	FX_TEST(bell__malformed),
	FX_TEST(bell__no_qp),
	FX_TEST(bell__look),
	FX_TEST(bell__error),
	FX_TEST(bell__corrupt_ring),
	FX_TEST(bell__local_error),
	FX_END,
};
