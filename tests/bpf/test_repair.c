// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* An ACK that shows others to be lost: the step behind it, which convicts them, and what the first left to it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fixture.h"
#include "internal.h"

#define LEN (1 << 20) /* of the message: more packets than any window here */

static struct frame f;
static struct weft_tx tx;

/* The first n have been out for long. */
static void age(const struct fx_qp *q, uint32_t n)
{
	fx_tx_get(q, &tx);
	for (uint32_t i = 0; i < n; i++)
		tx.slot[weft_tx_at(FX_PSN + i)].ts -= WEFT_TICKS_US(500000);
	fx_tx_set(q, &tx);
}

static int ack(const struct fx_qp *q, uint32_t psn, uint32_t cum)
{
	struct pkt p;

	pkt_ack(&p, q->peer, psn, cum, 0);
	p.h.ts = htonl(tx.slot[weft_tx_at(psn)].ts);
	pkt_frame(&p, &f);
	return fx_run(FX_NIC, &f);
}

/* What is complete is told though others are lost, and nothing claimed before they are. */
static void repair__tells_what_is_complete(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_reset(NULL);
		q->ctl->cwnd = 3;
		for (int i = 0; i < 4; i++)
			fx_post(q, 0, 0, 10);
		fx_fill_n(q, 3);
		age(q, 2);
		q->ring->arm_tx = 1;
		assert_int_equal(ack(q, FX_PSN + 2, FX_PSN + 1), XDP_REDIRECT);
		expect_counters("rx_ack lost spawned=2 event");
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(TX_AFTER(q)->nlost, 1);
		assert_int_equal(q->ring->sq_done, 1);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		assert_int_equal(fx.after.run.active, 0);
		assert_int_equal(fx_events(NULL, NULL), 1);
	}
}

/* Who holds more than its share of a full domain: that its token has left the books meanwhile makes no room. */
static void repair__makes_no_room(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int used = 7; used <= 8; used++) {
			fx_reset(NULL);
			fx.cfg->budget = 8;
			fx.cfg->hard = 10;
			fx.cfg->domains = 2;
			fx_hold(q, 7, LEN);
			age(q, 1);
			fx.run->dom[0].inflight = used;
			fx.run->active = 2;
			assert_int_equal(ack(q, FX_PSN + 1, FX_PSN), used == 8 ? XDP_DROP : XDP_TX);
			expect_counters(used == 8 ? "rx_ack lost absorbed"
						  : "rx_ack lost tx_data tx_retx");
			fx_books(used - 1 - (used == 8), 2, -1);
			assert_int_equal(TX_AFTER(q)->nlost, used == 8);
		}
	}
}

/* From another CPU: the ring of this QP comes and goes, while there is one. */
static struct {
	_Atomic(struct weft_qpctl *) ctl;
	atomic_bool busy, end;
	uint32_t ring;
} taker;

static void *take_ring(void *arg)
{
	struct weft_qpctl *ctl;
	cpu_set_t others;

	memset(&others, 0xff, sizeof(others));
	CPU_CLR(*(int *)arg, &others);
	sched_setaffinity(0, sizeof(others), &others);
	while (!taker.end) {
		taker.busy = true;
		ctl = taker.ctl;
		for (int i = 0; i < 1000 && ctl; i++)
			__atomic_store_n(&ctl->ring, i & 1 ? taker.ring : UINT32_MAX,
					 __ATOMIC_RELAXED);
		taker.busy = false;
		if (!ctl)
			sched_yield();
	}
	return NULL;
}

/* From now on; when it is NULL, it stays. */
static void takes_from(struct weft_qpctl *ctl)
{
	if (ctl)
		taker.ring = ctl->ring;
	taker.ctl = ctl;
	while (!ctl && taker.busy)
		sched_yield();
}

/* Did it go between the two steps? When is chance. */
static bool goes_in_between(struct fx_qp *q)
{
	struct fx_qp *o = &fx.qp[q == &fx.qp[A4] ? A6 : A4];

	fx_reset(NULL);
	fx_hold(q, 9, LEN);
	age(q, 1);
	fx_post(o, 0, 0, LEN);
	fx_waits(o->slot);
	fx.run->dom[0].inflight = 96;
	takes_from(q->ctl);
	ack(q, FX_PSN + 8, FX_PSN);
	takes_from(NULL);
	if (!fx.diff[WEFT_DROP_owner] || !fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_rx_ack])
		return false;
	expect_counters("rx_ack drop.owner handed tx_data");
	fx_books(96, 2, -1);
	expect_sent(o, .psn = FX_PSN, .len = FX_FULL, .mlen = LEN,
		    .ev = TX_AFTER(o)->slot[weft_tx_at(FX_PSN)].ev);
	return true;
}

/* Its process has died meanwhile: the QP whose turn it was has its token all the same. */
static void repair__of_who_is_gone(void **state)
{
	uint64_t end = weft_now_ns() + 200000000000;
	int here = fx_stay_here(), seen = 0;
	pthread_t thread;

	(void)state;
	taker.end = false;
	assert_int_equal(pthread_create(&thread, NULL, take_ring, &here), 0);
	BOTH(q)
	{
		while (!goes_in_between(q))
			assert_true(weft_now_ns() < end);
		seen++;
	}
	taker.end = true;
	pthread_join(thread, NULL);
	assert_int_equal(seen, 2);
}

const struct CMUnitTest fx_tests_repair[] = {
	FX_TEST(repair__tells_what_is_complete),
	FX_TEST(repair__makes_no_room),
	FX_TEST(repair__of_who_is_gone),
	FX_END,
};
