/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/rtt.h, path.h, cc.h and ring.h: estimators, spraying, windows, hint. */
#include "test_core_util.h"

static void rtt_sample__first_and_constant(void **state)
{
	struct weft_rtt r = { 0 };

	(void)state;
	weft_rtt_sample(&r, 1000);
	assert_int_equal(r.srtt8 >> 3, 1000);
	assert_int_equal(r.rttvar4 >> 2, 500);
	for (int i = 0; i < 200; i++)
		weft_rtt_sample(&r, 1000);
	assert_int_equal(r.srtt8 >> 3, 1000);
	assert_true(r.rttvar4 <= 3);
	assert_int_equal(r.min, 1000);
}

/* RFC 6298 with its 1/8 and 1/4 in floating point. */
static void rtt_sample__follows_rfc6298(void **state)
{
	struct weft_rtt r = { 0 };
	double srtt = 0, var = 0;
	__u32 x = 1;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		__u32 rtt = 500 + (x = x * 1103515245 + 12345) / 65536 % 4000;
		double err = rtt - srtt;

		weft_rtt_sample(&r, rtt);
		if (!i) {
			srtt = rtt;
			var = rtt / 2.0;
		} else {
			var += ((err < 0 ? -err : err) - var) / 4;
			srtt += err / 8;
		}
		assert_true(r.srtt8 / 8.0 - srtt < 8 && srtt - r.srtt8 / 8.0 < 8);
		assert_true(r.rttvar4 / 4.0 - var < 16 && var - r.rttvar4 / 4.0 < 16);
	}
	assert_true(r.min >= 500 && r.min < 600);
}

static void rto__bounds_and_backoff(void **state)
{
	struct weft_rtt r = { 0 };

	(void)state;
	assert_int_equal(weft_rto(&r), WEFT_RTO_INIT);
	weft_rtt_sample(&r, WEFT_TICKS_US(10));
	assert_int_equal(weft_rto(&r), WEFT_RTO_MIN);
	r.backoff = 3;
	assert_int_equal(weft_rto(&r), 8 * WEFT_RTO_MIN);
	r.backoff = 7;
	assert_int_equal(weft_rto(&r), WEFT_RTO_MAX);
	r = (struct weft_rtt){ 0 };
	weft_rtt_sample(&r, WEFT_TICKS_US(5000000));
	assert_int_equal(weft_rto(&r), WEFT_RTO_MAX);
}

static void reo_wnd__grows_with_wrong_convictions_and_calms(void **state)
{
	struct weft_rtt r = { 0 };

	(void)state;
	assert_int_equal(weft_reo_wnd(&r), WEFT_REO_MIN);
	weft_rtt_sample(&r, 1000);
	assert_int_equal(weft_reo_wnd(&r), 1000);
	weft_reo_spurious(&r); /* too early to judge */
	assert_int_equal(weft_reo_wnd(&r), 1000);
	for (int k = 0; k < 40; k++) {
		for (int i = 0; i < 64; i++)
			weft_reo_calm(&r);
		weft_reo_spurious(&r);
		weft_reo_spurious(&r); /* once a burst */
	}
	assert_int_equal(r.reo_mult, WEFT_REO_MULT_MAX);
	assert_int_equal(weft_reo_wnd(&r), 1000 * (1 + WEFT_REO_MULT_MAX));
	for (int i = 0; i < 65536; i++)
		weft_reo_calm(&r);
	assert_int_equal(r.reo_mult, WEFT_REO_MULT_MAX - 1);
}

static void reo_wnd__huge_rtt_does_not_turn_negative(void **state)
{
	struct weft_rtt r = { .srtt8 = WEFT_TICKS_US(9000000) << 3, .reo_mult = WEFT_REO_MULT_MAX };

	(void)state;
	assert_int_equal(weft_reo_wnd(&r), WEFT_RTO_MAX);
}

static void path_init__clamps(void **state)
{
	struct weft_path p;

	(void)state;
	weft_path_init(&p, 0);
	assert_int_equal(p.n, 1);
	weft_path_init(&p, 1000);
	assert_int_equal(p.n, WEFT_EV_MAX);
}

static void path_pick__even_shares(void **state)
{
	(void)state;
	for (__u32 n = 1; n <= WEFT_EV_MAX; n++) {
		__u32 count[WEFT_EV_MAX] = { 0 }, next = 0;
		struct weft_path p;

		weft_path_init(&p, n);
		for (__u32 i = 0; i < 10 * n; i++) {
			__u8 ev = weft_path_pick(&p, &next);

			assert_true(ev < n);
			count[ev]++;
		}
		for (__u32 i = 0; i < n; i++)
			assert_int_equal(count[i], 10);
	}
}

static void path_pick__lost_value_sits_out_one_turn(void **state)
{
	struct weft_path p;
	__u32 next = 0;

	(void)state;
	weft_path_init(&p, 4);
	weft_path_lost(&p, 1);
	assert_int_equal(weft_path_pick(&p, &next), 0);
	assert_int_equal(weft_path_pick(&p, &next), 2);
	assert_int_equal(weft_path_pick(&p, &next), 3);
	assert_int_equal(weft_path_pick(&p, &next), 0);
	assert_int_equal(weft_path_pick(&p, &next), 1);
}

static void path_pick__every_value_lost_still_sends(void **state)
{
	(void)state;
	for (__u32 n = 1; n <= WEFT_EV_MAX; n++) {
		struct weft_path p;
		__u32 next = 0;

		weft_path_init(&p, n);
		for (__u32 i = 0; i < n; i++)
			weft_path_lost(&p, i);
		for (__u32 i = 0; i < 3 * n; i++)
			assert_true(weft_path_pick(&p, &next) < n);
		assert_int_equal(p.skip, 0);
	}
}

static void cc_update__configured_default_and_maximum(void **state)
{
	const struct weft_cc_event ev = { .acked = 1 };
	struct weft_cc cc = { .cwnd = 3 };

	(void)state;
	weft_cc_update(&cc, 0, &ev);
	assert_int_equal(cc.cwnd, WEFT_CWND_DEFAULT);
	weft_cc_update(&cc, 17, &ev);
	assert_int_equal(cc.cwnd, 17);
	weft_cc_update(&cc, 100000, &ev);
	assert_int_equal(cc.cwnd, WEFT_CWND_MAX);
	cc.algo = 99; /* unknown: the fixed window */
	weft_cc_update(&cc, 5, &ev);
	assert_int_equal(cc.cwnd, 5);
}

static void cc_window__shares_the_budget(void **state)
{
	struct weft_cc cc = { .cwnd = 128 };

	(void)state;
	assert_int_equal(weft_cc_window(&cc, 192, 0), 128);
	assert_int_equal(weft_cc_window(&cc, 192, 1), 128);
	assert_int_equal(weft_cc_window(&cc, 192, 2), 96);
	assert_int_equal(weft_cc_window(&cc, 192, 16), 12);
	assert_int_equal(weft_cc_window(&cc, 192, 1000), 1);
	assert_int_equal(weft_cc_window(&cc, 0, 0), 1);
}

static void ring__hint_follows_the_tokens(void **state)
{
	struct weft_ring *r = test_calloc(1, sizeof(*r));
	struct sender *s = sender_new(0, 1);

	(void)state;
	assert_int_equal(weft_ring_publish(r, 1), 1);
	assert_int_equal(r->sq_prod, 1);
	post(s, 2 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	weft_ring_active(&s->tx, r);
	weft_ring_active(&s->tx, r);
	assert_int_equal(weft_ring_publish(r, 2), 0);
	/* one is still out, and will look again */
	ack(s, 0, 1, 0, 1, T0 + RTT);
	weft_ring_absorb(&s->tx, r);
	assert_int_equal(r->hint, 1);
	ack(s, 1, 2, 1, 0, T0 + RTT);
	weft_ring_absorb(&s->tx, r);
	assert_int_equal(r->hint, 0);
	assert_int_equal(weft_ring_publish(r, 3), 1);
	assert_int_equal(weft_ring_recheck(r, 2), 1);
	assert_int_equal(weft_ring_recheck(r, 3), 0);
	test_free(s);
	test_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rtt_sample__first_and_constant),
		cmocka_unit_test(rtt_sample__follows_rfc6298),
		cmocka_unit_test(rto__bounds_and_backoff),
		cmocka_unit_test(reo_wnd__grows_with_wrong_convictions_and_calms),
		cmocka_unit_test(reo_wnd__huge_rtt_does_not_turn_negative),
		cmocka_unit_test(path_init__clamps),
		cmocka_unit_test(path_pick__even_shares),
		cmocka_unit_test(path_pick__lost_value_sits_out_one_turn),
		cmocka_unit_test(path_pick__every_value_lost_still_sends),
		cmocka_unit_test(cc_update__configured_default_and_maximum),
		cmocka_unit_test(cc_window__shares_the_budget),
		cmocka_unit_test(ring__hint_follows_the_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
