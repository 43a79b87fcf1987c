// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who sleeps on a CQ is woken by what it waits for, and once, however many of its QPs have something. */
#include "fixture.h"

static struct frame f;

/* The only packet of WRITE n, which went out at ts, is acknowledged. */
static void complete(struct fx_qp *q, uint32_t n, uint32_t ts)
{
	struct pkt p;

	pkt_ack(&p, q->peer, FX_PSN + n, FX_PSN + n + 1, n + 1);
	p.h.ts = htonl(ts);
	pkt_frame(&p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
	assert_int_equal(q->ring->sq_done, n + 1);
}

static void post_and_complete(struct fx_qp *q, uint32_t n)
{
	fx_post(q, 0, 0, 10);
	complete(q, n, fx_fill(q));
}

/* What has no completion does not wake; what it waits for does, and what is behind that. */
static void wake__at(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t at = 1; at <= 3; at++) {
			fx_reset(NULL);
			q->ring->arm_at = at;
			q->ring->arm_tx = WEFT_ARMED_AT;
			for (uint32_t n = 0; n < 3; n++) {
				post_and_complete(q, n);
				assert_int_equal(fx_events(NULL, NULL), n + 1 == at);
				assert_int_equal(q->ring->arm_tx, n + 1 < at ? WEFT_ARMED_AT : 0);
			}
			/* armed for what is over: with the next */
			q->ring->arm_at = 2;
			q->ring->arm_tx = WEFT_ARMED_AT;
			post_and_complete(q, 3);
			assert_int_equal(fx_events(NULL, NULL), 1);
		}
	}
}

/* An error is for all that is posted. */
static void wake__error(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_reset(NULL);
		fx_post(q, 0, 0, 10);
		fx_fill(q);
		q->ring->arm_at = 100;
		q->ring->arm_tx = WEFT_ARMED_AT;
		pkt_nak(&p, q->peer, FX_PSN, WEFT_NAK_KEY);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		assert_int_equal(fx_events(NULL, NULL), 1);
		assert_int_equal(q->ring->arm_tx, 0);
	}
}

/* Several QPs of a CQ: one event, until it is taken. Those that found it there are not armed any more. */
static void wake__once(void **state)
{
	struct fx_qp *a = &fx.qp[0], *b = &fx.qp[1];

	(void)state;
	fx_reset(NULL);
	for (uint32_t n = 0; n < 3; n++) {
		a->ring->arm_at = b->ring->arm_at = 100; /* means nothing then */
		a->ring->arm_tx = b->ring->arm_tx = WEFT_ARMED_ANY;
		post_and_complete(a, n);
		expect_counters("rx_ack absorbed event");
		post_and_complete(b, n);
		expect_counters("rx_ack absorbed");
		assert_int_equal(a->ring->arm_tx | b->ring->arm_tx, 0);
		assert_int_equal(fx_events(NULL, NULL), 1);
	}
}

const struct CMUnitTest fx_tests_wake[] = {
	FX_TEST(wake__at),
	FX_TEST(wake__error),
	FX_TEST(wake__once),
	FX_END,
};
