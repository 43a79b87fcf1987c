// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sharing a full domain: who gets a first token, who gives one up, and the thresholds of growth. */
#include <stdio.h>

#include "fixture.h"
#include "internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define US(n)    WEFT_TICKS_US(n)
#define LEN      (1 << 20) /* of the message: more packets than any window here */
#define NOW()    ((uint32_t)(weft_now_ns() >> WEFT_TS_SHIFT))

static struct weft_tx tx;

/* `n` more of them, from another CPU. */
static void hold_elsewhere(const struct fx_qp *q, uint32_t n, uint32_t ts)
{
	struct weft_seg seg;

	fx_tx_get(q, &tx);
	while (n--)
		assert_int_equal(weft_tx_claim(&tx, q->ring->sq, 0, 1, 512, ts, 1, &seg), 0);
	fx_tx_set(q, &tx);
}

/* More than its share of a full domain, counted with the token back: it is not sent again. */
static void share__crowds(void **state)
{
	static const struct {
		uint32_t active, out, elsewhere; /* out: behind the ACK */
		int used;
		bool yields;
	} cases[] = {
		{ 2, 4, 0, 8, false }, { 2, 5, 0, 8, true }, /* 8 for 2, and one */
		{ 3, 3, 0, 8, false }, { 3, 4, 0, 8, true }, /* rounded up */
		{ 4, 2, 0, 8, false }, { 4, 3, 0, 8, true },
		{ 2, 5, 0, 7, false },                        /* there is room */
		{ 2, 5, 0, 9, true },  { 1, 9, 0, 8, false }, /* alone it may have them all */
		{ 2, 2, 3, 8, false },                        /* other domains do not count */
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < COUNT(cases); i++) {
			uint32_t ts;

			fx_reset(NULL);
			fx.cfg->budget = 8;
			fx.cfg->hard = 10;
			fx.cfg->domains = 2;
			ts = fx_hold(q, cases[i].out + 1, LEN);
			hold_elsewhere(q, cases[i].elsewhere, ts);
			fx.run->dom[0].inflight = cases[i].used;
			fx.run->active = cases[i].active;
			assert_int_equal(fx_ack(q, 0, ts), cases[i].yields ? XDP_DROP : XDP_TX);
			expect_counters(cases[i].yields ? "rx_ack absorbed" : "rx_ack tx_data");
			fx_books(cases[i].used - cases[i].yields, cases[i].active, -1);
			assert_int_equal(TX_AFTER(q)->dom[0].out, cases[i].out + !cases[i].yields);
		}
	}
}

/* What becomes of a token when others are missing, at each threshold. */
struct growth {
	const char *what;
	uint32_t doms, cwnd, out; /* out: behind the ACK */
	uint32_t left;            /* packets still to be sent, 0: many */
	uint32_t soon;            /* under way already */
	int room;                 /* in the domain's budget */
	bool moved;               /* another CPU was started just now */
	const char *then;         /* "tx_data", "spawned=2" or "moved" */
};

/* What counts as "just now" must not pass meanwhile, on however slow a machine. */
static void grow_once(struct fx_qp *q, const struct growth *g)
{
	uint32_t ts, then;

	do {
		fx_reset(NULL);
		q->ctl->doms = g->doms;
		q->ctl->cpu_of[1] = 0; /* the only one in the map here */
		q->ctl->cwnd = g->cwnd;
		ts = fx_hold(q, g->out + 1, g->left ? (g->out + 1 + g->left) * FX_FULL : LEN);
		fx.run->dom[0].inflight = (int)fx.cfg->budget - g->room;
		fx_tx_get(q, &tx);
		then = NOW();
		tx.last_move = g->moved ? then : then - US(2000);
		if (g->soon)
			weft_tx_grow(&tx, 0, g->soon, then);
		fx_tx_set(q, &tx);
		fx_ack(q, 0, ts);
	} while (fx.t1 - then > US(500));
}

static void expect_growth(const struct fx_qp *q, const struct growth *g)
{
	const struct weft_tx *a = TX_AFTER(q);
	bool twin = fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_spawned] == 2;
	bool moves = fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_moved] == 1;
	bool sent = fx.verdict == XDP_TX;
	const char *then = sent ? "tx_data" : twin ? "spawned=2" : moves ? "moved" : "absorbed";
	char counters[64];

	if (strcmp(then, g->then))
		fail_msg("%s: %s, not %s", g->what, then, g->then);
	snprintf(counters, sizeof(counters), "rx_ack %s", g->then);
	expect_counters(counters);
	if (!sent)
		expect_template(q, twin ? WEFT_DB_FILL : WEFT_DB_GROW);
	assert_int_equal(a->dom[0].out, g->out + sent);
	assert_int_equal(a->dom[0].growing, g->soon + 2 * twin);
	assert_int_equal(a->last_move != TX_BEFORE(q)->last_move, moves);
	fx_books((int)fx.cfg->budget - g->room - !sent, g->out + sent > 0, -1);
}

static void share__growth(void **state)
{
	static const struct growth cases[] = {
		{ "one is missing", 1, 4, 3, 0, 0, 50, false, "tx_data" },
		{ "two are missing", 1, 4, 2, 0, 0, 50, false, "spawned=2" },
		{ "two under way, three missing", 1, 3, 0, 0, 2, 50, false, "tx_data" },
		{ "two under way, four missing", 1, 4, 0, 0, 2, 50, false, "spawned=2" },
		{ "one is left to send", 1, 50, 2, 1, 0, 50, false, "tx_data" },
		{ "two are left to send", 1, 50, 2, 2, 0, 50, false, "spawned=2" },
		{ "three, and two under way", 1, 50, 2, 3, 2, 50, false, "tx_data" },
		{ "four, and two under way", 1, 50, 2, 4, 2, 50, false, "spawned=2" },
		{ "room for one", 1, 8, 2, 0, 0, 1, false, "tx_data" },
		{ "room for two", 1, 8, 2, 0, 0, 2, false, "spawned=2" },
		{ "two fit its share", 3, 8, 2, 0, 0, 50, true, "spawned=2" },
		{ "only one fits its share", 3, 8, 3, 0, 0, 50, true, "tx_data" },
		{ "those under way count to its share", 3, 8, 1, 0, 2, 50, true, "tx_data" },
		{ "three for another CPU", 3, 5, 2, 0, 0, 50, false, "tx_data" },
		{ "four for another CPU", 3, 6, 2, 0, 0, 50, false, "moved" },
		{ "five, two of them under way", 3, 7, 2, 0, 2, 50, false, "tx_data" },
		{ "six, two of them under way", 3, 8, 2, 0, 2, 50, false, "moved" },
		{ "none here but two under way", 3, 6, 0, 0, 2, 50, false, "moved" },
		{ "one here and none under way", 3, 6, 1, 0, 0, 50, false, "spawned=2" },
		{ "also from a full domain", 3, 6, 2, 0, 0, 0, false, "moved" },
		{ "from a full one at most now and then", 3, 6, 2, 0, 0, 0, true, "tx_data" },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < COUNT(cases); i++) {
			grow_once(q, &cases[i]);
			expect_growth(q, &cases[i]);
		}
	}
}

/* Small messages, and another CPU may hold tokens: none are started where the application posts. */
static void share__leaves_the_application(void **state)
{
	static const struct {
		uint32_t len, post_dom, doms, out, missing; /* out: behind the ACK */
		bool moved;
		const char *then;
	} cases[] = {
		{ 2 * FX_FULL, 0, 3, 0, 2, false, "rx_ack moved" },
		{ 2 * FX_FULL, 0, 3, 0, 4, true, "rx_ack tx_data" },
		{ 2 * FX_FULL, 0, 3, 2, 20, true, "rx_ack tx_data" },
		{ 2 * FX_FULL, 0, 3, 0, 1, false, "rx_ack tx_data" },
		{ 2 * FX_FULL + 1, 0, 3, 0, 4, false, "rx_ack spawned=2" }, /* a large one */
		{ 2 * FX_FULL, 0, 1, 0, 4, false, "rx_ack spawned=2" },     /* there is no other */
		{ 2 * FX_FULL, 1, 3, 0, 4, false, "rx_ack spawned=2" },     /* it posts elsewhere */
		{ 2 * FX_FULL, 1, 3, 2, 20, false, "rx_ack spawned=2" },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < COUNT(cases); i++) {
			uint32_t ts, then;

			do {
				fx_reset(NULL);
				q->ctl->doms = cases[i].doms;
				q->ctl->cpu_of[1] = 0;
				q->ctl->cwnd = cases[i].out + cases[i].missing;
				for (int k = 0; k < 40; k++)
					fx_post(q, 0, 0, cases[i].len);
				ts = fx_fill(q);
				fx_fill_n(q, cases[i].out);
				fx_tx_get(q, &tx);
				then = NOW();
				tx.post_dom = cases[i].post_dom;
				tx.last_move = cases[i].moved ? then : then - US(2000);
				fx_tx_set(q, &tx);
				fx_ack(q, 0, ts);
			} while (fx.t1 - then > US(500));
			expect_counters(cases[i].then);
		}
	}
}

/* A doorbell tells where the application posts; the timer's look goes elsewhere with small ones. */
static void share__look_leaves_the_application(void **state)
{
	(void)state;
	BOTH(q)
	{
		/* bit 0: somewhere else than where it rings; bit 1: nothing is out yet */
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t post_dom = i & 1;

			fx_reset(NULL);
			q->ctl->doms = 3;
			q->ctl->cpu_of[1] = 0;
			if (i < 2)
				fx_hold(q, 1, 10);
			for (int k = 0; k < 3; k++)
				fx_post(q, 0, 0, 10);
			fx_tx_get(q, &tx);
			tx.post_dom = post_dom;
			fx_tx_set(q, &tx);
			assert_int_equal(fx_ring(q, WEFT_DB_LOOK), XDP_REDIRECT);
			expect_counters(i ? "doorbell spawned=2" : "doorbell moved");
			assert_int_equal(TX_AFTER(q)->post_dom, post_dom);
			assert_int_equal(fx_ring(q, WEFT_DB_POST), XDP_REDIRECT);
			expect_counters("doorbell moved");
			assert_int_equal(TX_AFTER(q)->post_dom, 0);
		}
	}
}

const struct CMUnitTest fx_tests_share[] = {
	FX_TEST(share__crowds),
	FX_TEST(share__growth),
	FX_TEST(share__leaves_the_application),
	FX_TEST(share__look_leaves_the_application),
	FX_END,
};
