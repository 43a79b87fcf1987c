// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who gets new tokens: shares of a window, tokens under way, other CPUs, and rescue from them. */
#include <unistd.h>

#include "fixture.h"
#include "internal.h"

static struct frame f;
static struct weft_tx tx;

static int ack(struct fx_qp *q, uint32_t psn, uint32_t cum, uint32_t ts)
{
	struct pkt p;

	pkt_ack(&p, q->peer, psn, cum, 0);
	p.h.ts = htonl(ts);
	pkt_frame(&p, &f);
	return fx_run(FX_NIC, &f);
}

static int ring(const struct fx_qp *q, enum weft_db_op op)
{
	doorbell_frame(&f, op, q->ctl->qpn, 60);
	return fx_run(op == WEFT_DB_GROW ? FX_CPU : FX_DB, &f);
}

/* A second CPU may hold tokens as well: half of the window is enough for one. */
static void two_cpus(struct fx_qp *q)
{
	q->ctl->doms = 3;
	q->ctl->cpu_of[1] = 0; /* the only one in the map here */
}

static void grow__within_the_share(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;

		fx_reset(NULL);
		two_cpus(q);
		q->ctl->cwnd = 4;
		fx_post(q, 0, 0, 1 << 20);
		ts = fx_fill(q);
		assert_int_equal(ack(q, FX_PSN, FX_PSN + 1, ts), XDP_REDIRECT);
		expect_counters("rx_ack spawned=2");
		fx_fill_n(q, 1);
		ts = fx_fill(q);
		fx_tx_get(q, &tx);
		tx.slot[weft_tx_at(FX_PSN + 1)].ts = ts; /* not overtaken by much */
		fx_tx_set(q, &tx);
		assert_int_equal(ack(q, FX_PSN + 2, FX_PSN + 1, ts), XDP_TX);
		expect_counters("rx_ack tx_data");
		assert_int_equal(TX_AFTER(q)->dom[0].out, 2);
	}
}

/* Two clones are on their way, three packets wait: no more than the one token to spare. */
static void grow__counts_what_is_under_way(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts, asked;

		do {
			fx_reset(NULL);
			q->ctl->cwnd = 3;
			fx_post(q, 0, 0, 1 << 20);
			ts = fx_fill(q);
			fx_tx_get(q, &tx);
			asked = weft_now_ns() >> WEFT_TS_SHIFT;
			weft_tx_grow(&tx, 0, 2, asked);
			fx_tx_set(q, &tx);
			ack(q, FX_PSN, FX_PSN + 1, ts);
			/* they count for half a millisecond, and a machine may be slower */
		} while (fx.t1 - asked > WEFT_TICKS_US(500));
		assert_int_equal(fx.verdict, XDP_TX);
		expect_counters("rx_ack tx_data");
		assert_int_equal(TX_AFTER(q)->dom[0].growing, 2);
		/* one comes */
		fx_fill(q);
		assert_int_equal(TX_AFTER(q)->dom[0].growing, 1);
		/* those that never come are forgotten */
		fx_tx_get(q, &tx);
		tx.dom[0].grow_ts -= WEFT_TICKS_US(501);
		fx_tx_set(q, &tx);
		ts = TX_AFTER(q)->slot[weft_tx_at(FX_PSN + 1)].ts;
		assert_int_equal(ack(q, FX_PSN + 1, FX_PSN + 2, ts), XDP_REDIRECT);
		expect_counters("rx_ack spawned=2");
		assert_int_equal(TX_AFTER(q)->dom[0].growing, 2);
	}
}

/* Many packets start on another CPU than the one that posts; few, or another's, do not. */
static void grow__post_moves(void **state)
{
	(void)state;
	BOTH(q)
	{
		two_cpus(q);
		fx_post(q, 0, 0, 2 * FX_FULL);
		assert_int_equal(ring(q, WEFT_DB_POST), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
		expect_template(q, WEFT_DB_FILL);
		fx_qp_init(q, FX_PSN, FX_FULL);
		fx_post(q, 0, 0, 3 * FX_FULL);
		assert_int_equal(ring(q, WEFT_DB_LOOK), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
		assert_int_equal(q->ring->hint, 0);
		assert_int_equal(ring(q, WEFT_DB_POST), XDP_REDIRECT);
		expect_counters("doorbell moved");
		expect_template(q, WEFT_DB_GROW);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(fx.after.run.active, 0);
		/* as good as a token: the next post need not ring */
		assert_int_equal(q->ring->hint, 1);
		/* there it starts tokens, and goes nowhere else */
		assert_int_equal(ring(q, WEFT_DB_GROW), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
		/* the other one has some already */
		fx_tx_get(q, &tx);
		tx.inflight = tx.dom[1].out = 1;
		fx_tx_set(q, &tx);
		assert_int_equal(ring(q, WEFT_DB_POST), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
	}
}

/* An ACK's token starts another CPU at most once a millisecond, and never the last one here. */
static void grow__moves_now_and_then(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts, moved;

		do {
			fx_reset(NULL);
			two_cpus(q);
			fx_post(q, 0, 0, 1 << 20);
			ts = fx_fill(q);
			fx_fill_n(q, 4);
			fx_tx_get(q, &tx);
			tx.last_move = moved = weft_now_ns() >> WEFT_TS_SHIFT;
			fx_tx_set(q, &tx);
			ack(q, FX_PSN, FX_PSN + 1, ts);
		} while (fx.t1 - moved > WEFT_TICKS_US(1000));
		assert_int_equal(fx.verdict, XDP_REDIRECT);
		expect_counters("rx_ack spawned=2");
		fx_tx_get(q, &tx);
		tx.last_move -= WEFT_TICKS_US(1001);
		fx_tx_set(q, &tx);
		assert_int_equal(ack(q, FX_PSN + 1, FX_PSN + 2, ts), XDP_REDIRECT);
		expect_counters("rx_ack moved");
		expect_template(q, WEFT_DB_GROW);
		assert_true(TX_AFTER(q)->last_move - fx.t0 <= fx.t1 - fx.t0);
		assert_int_equal(TX_AFTER(q)->dom[0].out, 3);

		fx_reset(NULL);
		two_cpus(q);
		fx_post(q, 0, 0, 1 << 20);
		ts = fx_fill(q);
		fx_fill_n(q, 1);
		assert_int_equal(ack(q, FX_PSN, FX_PSN + 1, ts), XDP_REDIRECT);
		expect_counters("rx_ack spawned=2");
	}
}

static void grow__bell_keeps_to_the_share(void **state)
{
	(void)state;
	BOTH(q)
	{
		two_cpus(q);
		q->ctl->cwnd = 20;
		fx_post(q, 0, 0, 1 << 20);
		assert_int_equal(ring(q, WEFT_DB_GROW), XDP_REDIRECT);
		expect_counters("doorbell spawned=8");
		fx_fill_n(q, 8);
		assert_int_equal(ring(q, WEFT_DB_GROW), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
		fx_fill_n(q, 2);
		assert_int_equal(ring(q, WEFT_DB_GROW), XDP_DROP);
		expect_counters("doorbell absorbed");
		fx_qp_init(q, FX_PSN, FX_FULL);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* The echo of a spare ACK: from the future, thus no sample of the round-trip time. */
static uint32_t no_time(void)
{
	return (weft_now_ns() >> WEFT_TS_SHIFT) + WEFT_TICKS_US(1000000);
}

/*
 * Domain `dom` has sent the oldest `n` packets of the window long ago and not moved since; all
 * others are back. `sack` of the first are known to be delivered.
 */
static void block_by(uint32_t dom, struct fx_qp *q, uint32_t n, uint64_t sack)
{
	const uint32_t old = (weft_now_ns() >> WEFT_TS_SHIFT) - WEFT_TICKS_US(1000000);
	struct weft_score r;
	struct weft_seg seg;

	fx_reset(NULL);
	q->ctl->doms = 3;
	fx_qp_init(q, 0, FX_FULL);
	fx_post(q, 0, 0, 2000 * FX_FULL);
	fx_tx_get(q, &tx);
	for (uint32_t psn = 0; psn < WEFT_WIN; psn++) {
		struct weft_ack a = { .psn = psn, .ts = old, .sack_base = psn & ~63u };

		assert_int_equal(
			weft_tx_claim(&tx, q->ring->sq, 0, 1, 512, old, psn < n ? dom : !dom, &seg),
			0);
		if (psn >= n)
			assert_int_equal(weft_tx_ack(&tx, &a, old, 0, &r), 0);
	}
	if (sack) {
		struct weft_ack a = { .psn = WEFT_WIN - 1, .ts = old, .sack = sack };

		assert_int_equal(weft_tx_ack(&tx, &a, old, 0, &r), 0);
	}
	assert_int_equal(tx.inflight, n);
	fx_tx_set(q, &tx);
	fx.run->dom[dom].inflight = n;
	fx.run->active = 1;
}

static void block(struct fx_qp *q, uint32_t n, uint64_t sack)
{
	block_by(1, q, n, sack);
}

static void expect_books(const struct fx_qp *q, int own, int other)
{
	assert_int_equal(TX_AFTER(q)->dom[0].out, own);
	assert_int_equal(TX_AFTER(q)->dom[1].out, other);
	assert_int_equal(fx.after.run.dom[0].inflight, own);
	assert_int_equal(fx.after.run.dom[1].inflight, other);
	assert_int_equal(fx.after.run.active, own + other > 0);
}

static void expect_rescued(const struct fx_qp *q, uint32_t psn)
{
	expect_sent(q, .psn = psn, .moff = psn * FX_FULL, .len = FX_FULL, .mlen = 2000 * FX_FULL,
		    .flags = WEFT_F_RETX, .ev = TX_AFTER(q)->slot[weft_tx_at(psn)].ev);
}

/* A clone, then an ACK to spare, take over what another CPU does not move. */
static void grow__rescue(void **state)
{
	(void)state;
	BOTH(q)
	{
		block(q, 3, 2);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data tx_retx");
		expect_rescued(q, 0);
		expect_books(q, 1, 2);
		/* PSN 1 is delivered: its token leaves the books as well */
		assert_int_equal(ack(q, WEFT_WIN - 1, 0, no_time()), XDP_TX);
		expect_counters("rx_ack surplus tx_data tx_retx");
		expect_rescued(q, 2);
		expect_books(q, 2, 0);
		assert_int_equal(TX_AFTER(q)->nlost, 0);
	}
}

/* Not what has not been out for long, nor what this CPU has sent itself: wait for it. */
static void grow__rescue_nothing_else(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int own = 0; own < 2; own++) {
			block_by(!own, q, 3, 0);
			fx_tx_get(q, &tx);
			for (uint32_t psn = 0; !own && psn < 3; psn++)
				tx.slot[weft_tx_at(psn)].ts = no_time();
			fx_tx_set(q, &tx);
			doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
			assert_int_equal(ack(q, WEFT_WIN - 1, 0, no_time()), XDP_DROP);
			expect_counters("rx_ack surplus absorbed");
			expect_books(q, own ? 3 : 0, own ? 0 : 3);
		}
	}
}

/* All is delivered, a token is missing: it is given up without a packet, and what is new has its place. */
static void grow__rescue_of_a_slot(void **state)
{
	(void)state;
	fx_stay_here();
	BOTH(q)
	{
		block(q, 1, 1);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data");
		expect_books(q, 1, 0);

		block(q, 1, 1);
		assert_int_equal(ack(q, WEFT_WIN - 1, WEFT_WIN, no_time()), XDP_REDIRECT);
		expect_counters("rx_ack surplus spawned=2");
		expect_books(q, 0, 1);

		/* not by a doorbell that would have sent in place: it asks for a clone */
		block(q, 1, 1);
		q->ctl->cwnd = 2;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 4000);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell spawned");
		expect_books(q, 0, 1);
	}
}

/*
 * Of tokens that are only missing eight at most are given up at once, and another stands where the next
 * packet belongs: it is over with this token, and the next post must ring.
 */
static void grow__rescue_of_some(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_tx_slot *s = &tx.slot[weft_tx_at(0)];

		block(q, 9, 0x1ff);
		/* the oldest went out again, behind the others */
		weft_tx_unlist(&tx, s, 0);
		weft_tx_list(&tx, s, 0, s->ts, 1);
		tx.hint = q->ring->hint = 1;
		fx_tx_set(q, &tx);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_DROP);
		expect_counters("drop.template");
		expect_books(q, 0, 1);
		assert_int_equal(q->ring->hint, 0);
		assert_int_equal(TX_AFTER(q)->hint, 0);
	}
}

/*
 * On a CPU that no doorbell comes to, too, clones that could not be made are awaited for a moment
 * only: here the two of the first ACK.
 */
static void grow__unmade_are_forgotten(void **state)
{
	(void)state;
	fx_stay_here();
	BOTH(q)
	{
		for (int pause = 0; pause < 2; pause++) {
			uint32_t ts, asked;

			do { /* the scheduler may have made a pause as well */
				fx_reset(NULL);
				ts = fx_hold(q, 3, 1 << 20);
				assert_int_equal(fx_ack(q, 0, ts), XDP_REDIRECT);
				expect_counters("rx_ack spawned=2");
				asked = fx.t0;
				if (pause)
					usleep(2000);
				assert_int_equal(fx_ack(q, 1, ts), XDP_REDIRECT);
				expect_counters("rx_ack spawned=2");
			} while (!pause && fx.t1 - asked > WEFT_TICKS_US(1000));
			fx_fill(q);
			/* of two the second is the last; of four it is not */
			q->ctl->state = WEFT_QP_ERR;
			doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
			assert_int_equal(fx_run(FX_FILL, &f), pause ? XDP_PASS : XDP_DROP);
			expect_counters("drop.template");
		}
	}
}

const struct CMUnitTest fx_tests_grow[] = {
	FX_TEST(grow__within_the_share),
	FX_TEST(grow__unmade_are_forgotten),
	FX_TEST(grow__counts_what_is_under_way),
	FX_TEST(grow__post_moves),
	FX_TEST(grow__moves_now_and_then),
	FX_TEST(grow__bell_keeps_to_the_share),
	FX_TEST(grow__rescue),
	FX_TEST(grow__rescue_nothing_else),
	FX_TEST(grow__rescue_of_a_slot),
	FX_TEST(grow__rescue_of_some),
	FX_END,
};
