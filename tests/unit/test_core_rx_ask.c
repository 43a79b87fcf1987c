/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/rx_track.h: messages that are no arrivals, results of atomics. */
#include "test_core_util.h"

static struct weft_rx rx;

static void place(__u32 psn, enum weft_rx_last last)
{
	assert_int_equal(weft_rx_claim(&rx, psn, last), WEFT_RX_NEW);
	if (weft_rx_commit(&rx, psn))
		weft_rx_catch_up(&rx);
}

static void assert_no_bits(void)
{
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(!rx.word[i].claimed && !rx.word[i].placed && !rx.word[i].last &&
			    !rx.word[i].quiet);
}

/* ---- quiet ---- */

static void quiet__counts_as_a_message_only(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0xfffffffe);
	place(0xfffffffe, WEFT_RX_QUIET);
	/* nobody waits for it: no need to advance */
	assert_int_equal(rx.nlast, 0);
	assert_int_equal(rx.msn, 0);
	place(0xffffffff, WEFT_RX_MORE);
	place(0, WEFT_RX_ARRIVAL);
	assert_int_equal(rx.next, 1);
	assert_int_equal(rx.msn, 2);
	assert_int_equal(rx.quiet, 1);
	assert_int_equal(rx.nlast, 0);
	assert_no_bits();
}

static void quiet__in_any_order(void **state)
{
	(void)state;
	weft_rx_init(&rx, 10);
	for (__u32 psn = 300; psn > 10; psn--)
		place(psn, psn % 3);
	assert_int_equal(rx.next, 10);
	assert_int_equal(rx.msn, 0);
	assert_int_equal(rx.quiet, 0);
	/* 13, 16 ... 298 arrive, 11, 14 ... 299 are quiet */
	assert_int_equal(rx.nlast, 96);
	place(10, WEFT_RX_ARRIVAL);
	assert_int_equal(rx.next, 301);
	assert_int_equal(rx.msn, 97 + 97);
	assert_int_equal(rx.quiet, 97);
	assert_int_equal(rx.nlast, 0);
	assert_no_bits();
}

/* A place that was quiet once is an arrival in the next window. */
static void quiet__does_not_stay(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	for (__u32 psn = 0; psn < 4 * WEFT_WIN; psn++)
		place(psn, psn / WEFT_WIN & 1 ? WEFT_RX_ARRIVAL : WEFT_RX_QUIET);
	weft_rx_catch_up(&rx);
	assert_int_equal(rx.msn, 4 * WEFT_WIN);
	assert_int_equal(rx.quiet, 2 * WEFT_WIN);
	assert_no_bits();
}

static void quiet__given_back_with_the_claim(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	place(0, WEFT_RX_ARRIVAL);
	rx.next = 0;
	assert_int_equal(weft_rx_take(&rx, 0), WEFT_RX_NEW);
	rx.next = 1;
	assert_int_equal(weft_rx_keep(&rx, 0, WEFT_RX_QUIET), WEFT_RX_DUP);
	assert_no_bits();
}

/* ---- results ---- */

static void result__by_number_and_psn(void **state)
{
	__u64 v = 0;

	(void)state;
	weft_rx_init(&rx, 0);
	/* never set, whatever PSN it is */
	for (__u32 at = 0; at < WEFT_ATOMICS; at++)
		assert_int_equal(weft_rx_recall(&rx, at, 0, &v), -1);
	weft_rx_remember(&rx, 5, 0, ~0ull);
	assert_int_equal(weft_rx_recall(&rx, 5, 0, &v), 0);
	assert_true(v == ~0ull);
	assert_int_equal(weft_rx_recall(&rx, 5, 1, &v), -1);
	assert_int_equal(weft_rx_recall(&rx, 4, 0, &v), -1);
	assert_int_equal(weft_rx_recall(&rx, 6, 0, &v), -1);
}

static void result__as_many_as_may_be_out(void **state)
{
	__u64 v;

	(void)state;
	weft_rx_init(&rx, 0);
	for (__u32 n = 0; n < 3 * WEFT_ATOMICS; n++) {
		weft_rx_remember(&rx, n, 100 + n, n * 7);
		for (__u32 k = 0; k <= n && k < 2 * WEFT_ATOMICS; k++) {
			int known = k < WEFT_ATOMICS;

			assert_int_equal(weft_rx_recall(&rx, n - k, 100 + n - k, &v),
					 known ? 0 : -1);
			if (known)
				assert_true(v == (n - k) * 7);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet__counts_as_a_message_only),
		cmocka_unit_test(quiet__in_any_order),
		cmocka_unit_test(quiet__does_not_stay),
		cmocka_unit_test(quiet__given_back_with_the_claim),
		cmocka_unit_test(result__by_number_and_psn),
		cmocka_unit_test(result__as_many_as_may_be_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
