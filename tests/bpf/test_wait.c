// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* More QPs than tokens: who waits for a first one, whose turn it is, and who gives one up. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fixture.h"
#include "internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LEN      (1 << 20) /* of the message: more packets than any window here */

static struct frame f;

/* A QP without a token takes its first one from the reserve; refused, it says so. No other does. */
static void wait__first_token(void **state)
{
	static const struct {
		int used;
		uint32_t mine;
		bool waits;
		const char *counters;
	} cases[] = {
		{ 96, 0, false, "doorbell spawned" },   { 119, 0, false, "doorbell spawned" },
		{ 120, 0, true, "doorbell absorbed" },  { 121, 0, true, "doorbell absorbed" },
		{ 95, 1, false, "doorbell spawned" },   { 96, 1, false, "doorbell absorbed" },
		{ 120, 1, false, "doorbell absorbed" },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < COUNT(cases); i++) {
			for (int op = WEFT_DB_POST; op <= WEFT_DB_LOOK; op++) {
				fx_reset(NULL);
				fx_post(q, 0, 0, LEN);
				fx_fill_n(q, cases[i].mine);
				fx.run->dom[0].inflight = cases[i].used;
				assert_int_equal(fx_ring(q, op),
						 strstr(cases[i].counters, "spawned") ? XDP_REDIRECT
										      : XDP_DROP);
				expect_counters(cases[i].counters);
				fx_books(cases[i].used, cases[i].mine,
					 cases[i].waits ? (int)q->slot : -1);
			}
		}
		/* who has nothing to send wants none */
		fx_reset(NULL);
		fx.run->dom[0].inflight = 120;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 60);
		expect_inert(FX_DB, &f, XDP_DROP, "doorbell absorbed");
	}
}

static struct fx_qp *other(const struct fx_qp *q)
{
	return &fx.qp[q == &fx.qp[A4] ? A6 : A4];
}

/* q has n tokens out and o waits, with a message of its own; the domain holds `used`. */
static uint32_t o_waits(struct fx_qp *q, struct fx_qp *o, uint32_t n, int used)
{
	uint32_t ts;

	fx_reset(NULL);
	fx_post(o, 0, 0, LEN);
	ts = fx_hold(q, n, LEN);
	fx_waits(o->slot);
	fx.run->dom[0].inflight = used;
	return ts;
}

/* What left is the first packet of its message. */
static void expect_first_of(const struct fx_qp *q)
{
	expect_sent(q, .psn = FX_PSN, .len = FX_FULL, .mlen = LEN,
		    .ev = TX_AFTER(q)->slot[weft_tx_at(FX_PSN)].ev);
	assert_int_equal(TX_AFTER(q)->inflight, 1);
}

/*
 * Another waits: in a full domain it gets the token, although this one has work, but not before this
 * one's turn is over, and only this once.
 */
static void wait__gives_way_once(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q);
		uint32_t ts = o_waits(q, o, 11, 95), i;

		/* not while there is room */
		assert_int_equal(fx_ack(q, 0, ts), XDP_TX);
		expect_counters("rx_ack tx_data");
		fx_books(95, 1, o->slot);
		fx.run->dom[0].inflight = 96;
		for (i = 1; i < 8; i++) {
			assert_int_equal(fx_ack(q, i, ts), XDP_TX);
			expect_counters("rx_ack tx_data");
			fx_books(96, 1, o->slot);
		}
		assert_int_equal(fx_ack(q, i, ts), XDP_TX);
		expect_counters("rx_ack tx_data handed");
		fx_books(96, 2, -1);
		assert_int_equal(fx.after.run.dom[0].turn, o->slot + 1);
		expect_first_of(o);
		assert_int_equal(TX_AFTER(q)->inflight, 10);
		assert_int_equal(TX_AFTER(q)->nxt, TX_BEFORE(q)->nxt);
		/* the others carry on, posting need not ring */
		assert_int_equal(q->ring->hint, 1);
		fx.run->dom[0].inflight = 96;
		assert_int_equal(fx_ack(q, 9, ts), XDP_TX);
		expect_counters("rx_ack tx_data");
		fx_books(96, 2, -1);
	}
}

/* Its last one too; it waits itself then, and its turn comes after the other's. */
static void wait__gives_its_last(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q);
		uint32_t ts = o_waits(q, o, 1, 120);

		fx.run->active = 121;
		assert_int_equal(fx_ack(q, 0, ts), XDP_TX);
		expect_counters("rx_ack tx_data handed");
		fx_books(120, 121, q->slot);
		expect_first_of(o);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(fx_ring(q, WEFT_DB_LOOK), XDP_DROP);
		expect_counters("doorbell absorbed");
		fx_books(120, 121, q->slot);
		/* with room it gets one by itself, and waits no more */
		fx.run->dom[0].inflight = 95;
		assert_int_equal(fx_ring(q, WEFT_DB_LOOK), XDP_REDIRECT);
		expect_counters("doorbell spawned");
		fx_books(95, 121, -1);
	}
}

/* Nothing left to send: the next post rings. Whoever waits gets the token, full or not. */
static void wait__nothing_to_give(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q);
		struct pkt p;
		uint32_t ts;

		for (int i = 0; i < 4; i++) {
			int used = i & 1 ? 96 : 5;

			fx_reset(NULL);
			fx_post(q, 0, 0, 10);
			ts = fx_fill(q);
			assert_int_equal(q->ring->hint, 1);
			fx_post(o, 0, 0, LEN);
			if (i & 2)
				fx_waits(o->slot);
			fx.run->dom[0].inflight = used;
			pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 1);
			p.h.ts = htonl(ts);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), i & 2 ? XDP_TX : XDP_DROP);
			expect_counters(i & 2 ? "rx_ack tx_data handed" : "rx_ack absorbed");
			fx_books(i & 2 ? used : used - 1, i >> 1, -1);
			assert_int_equal(q->ring->sq_done, 1);
			assert_int_equal(q->ring->hint, 0);
			if (i & 2)
				expect_first_of(o);
		}
	}
}

/* Posts from another CPU: the second WRITE of this ring comes and goes, while there is one. */
static struct {
	_Atomic(struct weft_ring *) ring;
	atomic_bool busy, end;
} poster;

static void *post_and_unpost(void *arg)
{
	struct weft_ring *ring;
	cpu_set_t others;

	memset(&others, 0xff, sizeof(others));
	CPU_CLR(*(int *)arg, &others);
	sched_setaffinity(0, sizeof(others), &others);
	while (!poster.end) {
		poster.busy = true;
		ring = poster.ring;
		for (int i = 0; i < 1000 && ring; i++)
			__atomic_store_n(&ring->sq_prod, 1 + (i & 1), __ATOMIC_RELAXED);
		poster.busy = false;
		if (!ring)
			sched_yield();
	}
	return NULL;
}

/* From now on; when it is NULL, nobody writes any more. */
static void posts_to(struct weft_ring *ring)
{
	poster.ring = ring;
	while (!ring && poster.busy)
		sched_yield();
}

/*
 * Nothing to give, so whoever waits would get the token; but a post comes in between, and did not
 * ring: the token stays, and whose turn it was waits on. When is chance, so it is tried until then.
 */
static bool post_in_between(struct fx_qp *q)
{
	struct fx_qp *o = other(q);
	uint32_t ts;

	fx_reset(NULL);
	ts = fx_hold(q, 2, 2 * FX_FULL);
	fx_post(q, 0, 0, FX_FULL);
	q->ring->sq_prod = 1;
	fx_post(o, 0, 0, LEN);
	fx_waits(o->slot);
	fx.run->dom[0].inflight = 96;
	posts_to(q->ring);
	fx_ack(q, 0, ts);
	posts_to(NULL);
	if (fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_handed])
		return false; /* before or after all that */
	expect_counters("rx_ack tx_data");
	fx_books(96, 1, o->slot);
	expect_sent(q, .psn = FX_PSN + 2, .msn = 1, .len = FX_FULL, .mlen = FX_FULL,
		    .flags = WEFT_F_LAST, .ev = TX_AFTER(q)->slot[weft_tx_at(FX_PSN + 2)].ev);
	return true;
}

static void wait__post_in_between(void **state)
{
	uint64_t end = weft_now_ns() + 200000000000;
	int here = fx_stay_here(), seen = 0;
	pthread_t thread;

	(void)state;
	poster.end = false;
	assert_int_equal(pthread_create(&thread, NULL, post_and_unpost, &here), 0);
	BOTH(q)
	{
		while (!post_in_between(q))
			assert_true(weft_now_ns() < end);
		seen++;
	}
	poster.end = true;
	pthread_join(thread, NULL);
	assert_int_equal(seen, 2);
}

/* The dead and the idle among those that wait are passed over, a few of them for a token. */
static void wait__passes_over(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q), *idle = o->peer;

		for (uint32_t before = 0; before <= 4; before++) {
			uint32_t ts, slot = o->slot, n = before;

			fx_reset(NULL);
			fx_post(o, 0, 0, LEN);
			ts = fx_hold(q, 2, LEN);
			fx_waits(slot);
			if (n) {
				fx_waits(idle->slot);
				n--;
			}
			while (n) {
				slot = (slot - 1) % WEFT_QPS;
				if (fx.ctl[slot].state)
					continue;
				fx_waits(slot);
				n--;
			}
			/* the idle one may stand behind: then its turn comes first all the same */
			fx.run->dom[0].turn = before ? idle->slot : 0;
			fx.run->dom[0].inflight = 96;
			assert_int_equal(fx_ack(q, 0, ts), before < 4 ? XDP_TX : XDP_DROP);
			if (before < 4) {
				expect_counters("rx_ack tx_data handed");
				fx_books(96, 2, -1);
				expect_first_of(o);
			} else {
				expect_counters("rx_ack absorbed");
				fx_books(95, 1, o->slot);
			}
		}
	}
}

/* An ACK of what was never sent hands nothing over, and whoever waits goes on waiting. */
static void wait__unsent(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = o_waits(q, other(q), 2, 96);

		assert_int_equal(fx_ack(q, 8, ts), XDP_DROP);
		expect_counters("drop.unsent");
		fx_books(96, 1, other(q)->slot);
	}
}

/* Giving way comes before growth: what is given up does not start another CPU either. */
static void wait__gives_way_before_it_grows(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = o_waits(q, other(q), 4, 96);

		q->ctl->doms = 3;
		assert_int_equal(fx_ack(q, 0, ts), XDP_TX);
		expect_counters("rx_ack tx_data handed");
		fx_books(96, 2, -1);
	}
}

/* More tokens than there may be, after needless repeats: what comes back goes to nobody until they are fewer. */
static void wait__too_many(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = o_waits(q, other(q), 2, 121);

		assert_int_equal(fx_ack(q, 0, ts), XDP_DROP);
		expect_counters("rx_ack absorbed");
		fx_books(120, 1, other(q)->slot);
	}
}

/* A word of the list that seems to have bits may have none: it is forgotten, and the search goes on. */
static void wait__stale_words(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q);
		uint32_t ts = o_waits(q, o, 2, 96);

		fx.run->dom[0].any = ~0u;
		fx.run->dom[0].turn = o->slot + 1;
		assert_int_equal(fx_ack(q, 0, ts), XDP_TX);
		expect_counters("rx_ack tx_data handed");
		fx_books(96, 2, -1);
		/* its own is the last of the circle */
		assert_int_equal(fx.after.run.dom[0].any, 1u << o->slot / 64);
	}
}

/* Where tokens are few the one whose turn it is starts with its own, if it may; the frame goes there. */
static void wait__starts_elsewhere(void **state)
{
	static const struct {
		uint32_t doms;
		int here, there;
		bool moves;
	} cases[] = {
		{ 3, 96, 0, true },    { 3, 96, 79, true }, { 3, 96, 80, false },
		{ 1, 96, 0, false },   { 2, 96, 0, true },  { 3, 120, 95, true },
		{ 3, 120, 96, false },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < COUNT(cases); i++) {
			struct fx_qp *o = other(q);
			uint32_t ts = o_waits(q, o, 2, cases[i].here);

			o->ctl->doms = cases[i].doms;
			fx.run->dom[1].inflight = cases[i].there;
			assert_int_equal(fx_ack(q, 0, ts), cases[i].moves ? XDP_REDIRECT : XDP_TX);
			expect_counters(cases[i].moves ? "rx_ack moved" : "rx_ack tx_data handed");
			fx_books(cases[i].here - cases[i].moves, 2 - cases[i].moves, -1);
			if (cases[i].moves)
				expect_template(o, WEFT_DB_GROW);
		}
	}
}

/* Of several other domains the QPs of different slots take different ones. */
static void wait__starts_here_and_there(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_qp *o = other(q);
		uint32_t ts = o_waits(q, o, 2, 96);
		bool last = o->slot % WEFT_DOMAINS > 1; /* or it begins with the other one */

		o->ctl->doms = 1u << 1 | 1u << (WEFT_DOMAINS - 1);
		fx.run->dom[1].inflight = 96;
		assert_int_equal(fx_ack(q, 0, ts), last ? XDP_REDIRECT : XDP_TX);
		expect_counters(last ? "rx_ack moved" : "rx_ack tx_data handed");
	}
}

const struct CMUnitTest fx_tests_wait[] = {
	FX_TEST(wait__first_token),
	FX_TEST(wait__gives_way_once),
	FX_TEST(wait__gives_its_last),
	FX_TEST(wait__nothing_to_give),
	FX_TEST(wait__post_in_between),
	FX_TEST(wait__passes_over),
	FX_TEST(wait__unsent),
	FX_TEST(wait__too_many),
	FX_TEST(wait__stale_words),
	FX_TEST(wait__starts_elsewhere),
	FX_TEST(wait__starts_here_and_there),
	FX_TEST(wait__gives_way_before_it_grows),
	FX_END,
};
