/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/hist.h and core/trace.h: buckets, quantiles; what joins a record and what does not. */
#include "test_core_util.h"

#include <weft/core/hist.h>
#include <weft/core/trace.h>

#define MS 1000000ull

static void hist_at__buckets_follow_each_other(void **state)
{
	(void)state;
	for (__u32 i = 0; i + 1 < WEFT_HIST_N; i++) {
		__u64 from = weft_hist_from(i), to = weft_hist_from(i + 1);

		assert_true(from < to);
		assert_int_equal(weft_hist_at(from), i);
		assert_int_equal(weft_hist_at(to - 1), i);
		/* the promised resolution */
		assert_true(to - from == 1 || (to - from) * WEFT_HIST_SUB <= from);
	}
}

static void hist_at__never_falls_and_stays_inside(void **state)
{
	__u32 before = 0;

	(void)state;
	for (__u64 v = 0; v < 1ull << 32; v += 1 + (v >> 9)) {
		__u32 at = weft_hist_at(v);

		assert_true(at >= before && at < WEFT_HIST_N);
		before = at;
	}
	assert_int_equal(weft_hist_at(0xffffffff), WEFT_HIST_N - 1);
	assert_int_equal(weft_hist_from(WEFT_HIST_N), 1u << 26);
}

static void hist_ns__is_the_middle(void **state)
{
	(void)state;
	assert_int_equal(weft_hist_ns(0), 32);
	assert_int_equal(weft_hist_ns(weft_hist_at(5)), 5 * 64 + 32);
	/* 20 and 21 share a bucket: 1280 to 1408 ns */
	assert_int_equal(weft_hist_ns(weft_hist_at(21)), 1344);
	/* a second, at most 1/16 off */
	assert_true(llabs((long long)weft_hist_ns(weft_hist_at(15625000)) - 1000000000ll) <=
		    62500000);
}

static void hist_quantile__nearest_rank(void **state)
{
	struct weft_hist h = { 0 };

	(void)state;
	assert_int_equal(weft_hist_quantile(&h, 500), 0);
	h.n[3] = 1;
	assert_int_equal(weft_hist_quantile(&h, 1), weft_hist_ns(3));
	assert_int_equal(weft_hist_quantile(&h, 999), weft_hist_ns(3));
	h.n[3] = 500;
	h.n[100] = 499;
	h.n[191] = 1;
	assert_int_equal(weft_hist_count(&h), 1000);
	assert_int_equal(weft_hist_quantile(&h, 500), weft_hist_ns(3));
	assert_int_equal(weft_hist_quantile(&h, 501), weft_hist_ns(100));
	assert_int_equal(weft_hist_quantile(&h, 999), weft_hist_ns(100));
	assert_int_equal(weft_hist_quantile(&h, 1000), weft_hist_ns(191));
	/* more than a 64-bit product would hold */
	memset(&h, 0, sizeof(h));
	h.n[3] = 1;
	h.n[100] = 1ull << 62;
	assert_int_equal(weft_hist_quantile(&h, 500), weft_hist_ns(100));
	/* half of three is two of them */
	h.n[100] = h.n[150] = 1;
	assert_int_equal(weft_hist_quantile(&h, 500), weft_hist_ns(100));
}

static void hist_quantile__like_sorting(void **state)
{
	struct weft_hist h = { 0 };
	__u32 v[5000], x = 12345;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		x = x * 1664525 + 1013904223;
		v[i] = i * (x >> 20);
		h.n[weft_hist_at(v[i])]++;
	}
	for (int i = 1; i < 5000; i++) /* insertion sort: no libc order in here */
		for (int j = i; j && v[j - 1] > v[j]; j--) {
			__u32 t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
	for (__u32 q = 1; q <= 1000; q += 37)
		assert_int_equal(weft_hist_quantile(&h, q),
				 weft_hist_ns(weft_hist_at(v[(5000 * q + 999) / 1000 - 1])));
}

/* ---- trace ---- */

static void add(struct weft_trace *t, __u64 now, int kind, __u16 x, __u32 a, __u32 b, __u32 c)
{
	struct weft_trace_event e = { .now = now, .kind = kind, .x = x, .a = a, .b = b, .c = c };

	weft_trace_note(t, &e);
}

static void trace__a_burst_is_one_record(void **state)
{
	struct weft_trace t = { 0 };

	(void)state;
	add(&t, 100, WEFT_TRACE_connected, 0, 3328, 128, 0);
	for (__u32 i = 0; i < 1000; i++)
		add(&t, MS + i * 1000, WEFT_TRACE_retx, 0, 50 + i, 50 + i, 0);
	assert_int_equal(t.head, 2);
	assert_int_equal(t.rec[0].kind, WEFT_TRACE_connected);
	assert_int_equal(t.rec[1].count, 1000);
	assert_int_equal(t.rec[1].a, 50);
	assert_int_equal(t.rec[1].b, 1049);
	assert_int_equal(t.rec[1].span, 999);
}

static void trace__also_between_others(void **state)
{
	struct weft_trace t = { 0 };

	(void)state;
	/* a time-out and what it sends again, in turn: the time-outs stay, the packets are one */
	for (__u32 i = 0; i < 3; i++) {
		add(&t, i * 10 * MS, WEFT_TRACE_rto, i + 1, 7, i, 0);
		add(&t, i * 10 * MS + 1, WEFT_TRACE_retx, 0, 7, 7, 0);
	}
	assert_int_equal(t.head, 4);
	assert_int_equal(t.rec[1].kind, WEFT_TRACE_retx);
	assert_int_equal(t.rec[1].count, 3);
	/* but not over any distance */
	add(&t, 40 * MS, WEFT_TRACE_link, 0, 0, 0, 0);
	add(&t, 40 * MS, WEFT_TRACE_link, 1, 0, 0, 0);
	add(&t, 41 * MS, WEFT_TRACE_retx, 0, 9, 9, 0);
	assert_int_equal(t.head, 7);
}

static void trace__the_largest_time_out_repeats_in_one_record(void **state)
{
	struct weft_trace t = { 0 };

	(void)state;
	for (__u32 i = 0; i < 40; i++)
		add(&t, i * 200 * MS, WEFT_TRACE_rto, 7, 7, i, i);
	assert_int_equal(t.head, 1);
	assert_int_equal(t.rec[0].count, 40);
	assert_int_equal(t.rec[0].b, 39);
	/* something moved in between */
	add(&t, 8001 * MS, WEFT_TRACE_rto, 7, 8, 0, 0);
	assert_int_equal(t.head, 2);
}

static void trace__a_pause_or_a_long_time_begins_a_new_record(void **state)
{
	struct weft_trace t = { 0 };
	__u64 now = 5 * MS;

	(void)state;
	add(&t, now, WEFT_TRACE_retx, 0, 1, 1, 0);
	add(&t, now + WEFT_TRACE_GAP, WEFT_TRACE_retx, 0, 2, 2, 0);
	assert_int_equal(t.head, 1);
	add(&t, now + 2 * WEFT_TRACE_GAP + MS, WEFT_TRACE_retx, 0, 3, 3, 0);
	assert_int_equal(t.head, 2);
	memset(&t, 0, sizeof(t));
	for (__u32 i = 0; i <= 200; i++)
		add(&t, now + i * 100 * MS, WEFT_TRACE_retx, 0, i, i, 0);
	assert_int_equal(t.head, 2);
}

static void trace__refusals_differ_by_code(void **state)
{
	struct weft_trace t = { 0 };

	(void)state;
	add(&t, MS, WEFT_TRACE_nak, 0, WEFT_NAK_KEY, 5, 0);
	add(&t, MS + 1, WEFT_TRACE_nak, 0, WEFT_NAK_KEY, 5, 0);
	add(&t, MS + 2, WEFT_TRACE_nak, 0, WEFT_NAK_CLOSED, 6, 0);
	assert_int_equal(t.head, 2);
	assert_int_equal(t.rec[0].count, 2);
}

static void trace__the_newest_stay(void **state)
{
	struct weft_trace t = { 0 };

	(void)state;
	for (__u32 i = 0; i < 100; i++)
		add(&t, i * MS, WEFT_TRACE_link, i & 1, i, 0, 0);
	for (__u32 i = 0; i < WEFT_TRACE_LEN; i++) {
		assert_int_equal(t.rec[i].kind, WEFT_TRACE_link);
		assert_true(t.rec[i].a >= 100 - WEFT_TRACE_LEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hist_at__buckets_follow_each_other),
		cmocka_unit_test(hist_at__never_falls_and_stays_inside),
		cmocka_unit_test(hist_ns__is_the_middle),
		cmocka_unit_test(hist_quantile__nearest_rank),
		cmocka_unit_test(hist_quantile__like_sorting),
		cmocka_unit_test(trace__a_burst_is_one_record),
		cmocka_unit_test(trace__also_between_others),
		cmocka_unit_test(trace__the_largest_time_out_repeats_in_one_record),
		cmocka_unit_test(trace__a_pause_or_a_long_time_begins_a_new_record),
		cmocka_unit_test(trace__refusals_differ_by_code),
		cmocka_unit_test(trace__the_newest_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
