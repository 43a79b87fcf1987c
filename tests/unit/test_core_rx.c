/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/rx_track.h: claim, commit, advance, SACK. */
#include "test_core_util.h"

static struct weft_rx rx;
static struct weft_rx_sack sack;

static enum weft_rx_verdict take(__u32 psn, int last)
{
	weft_rx_advance(&rx);
	return weft_rx_claim(&rx, psn, last);
}

static void place(__u32 psn, int last)
{
	assert_int_equal(take(psn, last), WEFT_RX_NEW);
	if (weft_rx_commit(&rx, psn))
		while (weft_rx_advance(&rx))
			;
}

static void claim__in_order_message_completes(void **state)
{
	(void)state;
	weft_rx_init(&rx, 100);
	place(100, 0);
	place(101, 0);
	assert_int_equal(rx.msn, 0);
	place(102, 1);
	assert_int_equal(rx.msn, 1);
	assert_int_equal(rx.next, 103);
	assert_int_equal(rx.nlast, 0);
}

static void claim__wraps_with_the_psn(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0xfffffff0);
	for (__u32 i = 0; i < 64; i++)
		place(0xfffffff0 + i, i % 8 == 7);
	assert_int_equal(rx.next, 0x30);
	assert_int_equal(rx.msn, 8);
}

static void claim__twice_is_busy_then_duplicate(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	assert_int_equal(take(5, 1), WEFT_RX_NEW);
	assert_int_equal(take(5, 1), WEFT_RX_BUSY);
	assert_int_equal(rx.nlast, 1);
	assert_int_equal(weft_rx_commit(&rx, 5), 1);
	assert_int_equal(take(5, 1), WEFT_RX_DUP);
	assert_int_equal(rx.nlast, 1);
}

static void claim__window_bounds(void **state)
{
	(void)state;
	weft_rx_init(&rx, 1u << 31);
	for (__u32 i = 0; i < 70; i++)
		place((1u << 31) + i, 0);
	weft_rx_advance(&rx);
	assert_int_equal(rx.next, (1u << 31) + 70);
	assert_int_equal(take(rx.next - 1, 0), WEFT_RX_DUP);
	assert_int_equal(take(rx.next - WEFT_WIN, 0), WEFT_RX_DUP);
	assert_int_equal(take(rx.next - WEFT_WIN - 1, 0), WEFT_RX_DUP);
	assert_int_equal(take(rx.next + WEFT_WIN, 0), WEFT_RX_OUT);
	assert_int_equal(take(rx.next + (1u << 30), 0), WEFT_RX_OUT);
	assert_int_equal(take(rx.next + WEFT_WIN - 1, 0), WEFT_RX_NEW);
}

static void advance__stops_at_the_first_gap(void **state)
{
	(void)state;
	weft_rx_init(&rx, 60);
	for (__u32 psn = 61; psn < 300; psn++)
		place(psn, psn % 10 == 0);
	assert_int_equal(rx.next, 60);
	assert_int_equal(rx.msn, 0);
	assert_int_equal(rx.nlast, 23);
	place(60, 0);
	assert_int_equal(rx.next, 300);
	assert_int_equal(rx.msn, 23);
	assert_int_equal(rx.nlast, 0);
}

static void advance__three_words_a_call(void **state)
{
	int calls = 0;

	(void)state;
	weft_rx_init(&rx, 32);
	for (__u32 psn = 33; psn < 32 + WEFT_WIN; psn++) {
		assert_int_equal(weft_rx_claim(&rx, psn, 0), WEFT_RX_NEW);
		weft_rx_commit(&rx, psn);
	}
	assert_int_equal(weft_rx_claim(&rx, 32, 0), WEFT_RX_NEW);
	/* the window's last PSNs are in the word that it begins in */
	assert_int_equal(weft_rx_commit(&rx, 32), 1);
	do {
		__u32 before = rx.next;
		int more = weft_rx_advance(&rx);

		assert_true(rx.next - before <= 3 * 64);
		calls++;
		if (!more)
			break;
		assert_true(calls < 10);
	} while (1);
	assert_int_equal(rx.next, 32 + WEFT_WIN);
	assert_int_equal(calls, 6);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(!rx.word[i].claimed && !rx.word[i].placed && !rx.word[i].last);
}

static void advance__claimed_is_not_placed(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	assert_int_equal(take(0, 1), WEFT_RX_NEW);
	place(1, 1);
	weft_rx_advance(&rx);
	assert_int_equal(rx.next, 0);
	assert_int_equal(rx.msn, 0);
	assert_int_equal(weft_rx_commit(&rx, 0), 1);
	weft_rx_advance(&rx);
	assert_int_equal(rx.msn, 2);
}

static void commit__asks_for_advance_while_an_end_is_pending(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	assert_int_equal(take(0, 0), WEFT_RX_NEW);
	assert_int_equal(take(1, 0), WEFT_RX_NEW);
	assert_int_equal(weft_rx_commit(&rx, 0), 0);
	assert_int_equal(take(2, 1), WEFT_RX_NEW);
	assert_int_equal(weft_rx_commit(&rx, 2), 1);
	assert_int_equal(weft_rx_commit(&rx, 1), 1);
	while (weft_rx_advance(&rx))
		;
	assert_int_equal(rx.msn, 1);
}

/* As the datapath does: bring the window up to date if it lags, then claim. */
static enum weft_rx_verdict admit(__u32 psn)
{
	if (weft_rx_lags(&rx, psn))
		weft_rx_catch_up(&rx);
	return weft_rx_claim(&rx, psn, 0);
}

/* The window is a thousand packets behind what is placed: a packet that fits gets in. */
static void catch_up__brings_the_window_up_to_date(void **state)
{
	(void)state;
	weft_rx_init(&rx, 32);
	for (__u32 psn = 33; psn < 32 + WEFT_WIN; psn++) {
		assert_int_equal(admit(psn), WEFT_RX_NEW);
		weft_rx_commit(&rx, psn);
	}
	assert_int_equal(admit(32 + WEFT_WIN), WEFT_RX_OUT);
	assert_int_equal(admit(32), WEFT_RX_NEW);
	weft_rx_commit(&rx, 32);
	assert_int_equal(rx.next, 32);
	assert_int_equal(admit(32 + 2 * WEFT_WIN - 1), WEFT_RX_NEW);
	assert_int_equal(rx.next, 32 + WEFT_WIN);
}

/* Wherever the window begins: it is all placed, and the peer's next window fits at once. */
static void catch_up__from_any_bit(void **state)
{
	(void)state;
	for (__u32 at = 0xffffffc0; at != 0x40; at++) {
		weft_rx_init(&rx, at);
		for (__u32 i = 0; i < WEFT_WIN; i++) {
			assert_int_equal(weft_rx_claim(&rx, at + i, i % 100 == 99), WEFT_RX_NEW);
			weft_rx_commit(&rx, at + i);
		}
		assert_int_equal(rx.next, at);
		assert_int_equal(admit(at + 2 * WEFT_WIN - 1), WEFT_RX_NEW);
		assert_int_equal(rx.next, at + WEFT_WIN);
		assert_int_equal(rx.msn, 10);
		assert_int_equal(admit(at + 2 * WEFT_WIN), WEFT_RX_OUT);
	}
}

/* The lock is worth half a window; what is older never needs it. */
static void lags__from_half_a_window_on(void **state)
{
	static const __u32 nexts[] = { 0, 1, 63, 511, 1023, 0x7fffffff, 0x80000000, 0xffffffff };

	(void)state;
	for (unsigned i = 0; i < sizeof(nexts) / sizeof(*nexts); i++) {
		__u32 at = nexts[i];

		weft_rx_init(&rx, at);
		assert_false(weft_rx_lags(&rx, at - WEFT_WIN));
		assert_false(weft_rx_lags(&rx, at - 1));
		assert_false(weft_rx_lags(&rx, at));
		assert_false(weft_rx_lags(&rx, at + WEFT_WIN / 2 - 1));
		assert_true(weft_rx_lags(&rx, at + WEFT_WIN / 2));
		assert_true(weft_rx_lags(&rx, at + WEFT_WIN));
	}
}

/* A complete word is moved over at once; one that the window begins in the middle of, with the next. */
static void commit__asks_for_advance_with_a_complete_word(void **state)
{
	(void)state;
	weft_rx_init(&rx, 100);
	for (__u32 psn = 100; psn < 320; psn++) {
		assert_int_equal(weft_rx_claim(&rx, psn, 0), WEFT_RX_NEW);
		if (psn != 150)
			assert_int_equal(weft_rx_commit(&rx, psn), psn == 255 || psn == 319);
		if (psn != 255)
			continue;
		weft_rx_catch_up(&rx);
		assert_int_equal(rx.next, 150);
		assert_int_equal(weft_rx_commit(&rx, 150), 0);
	}
	weft_rx_catch_up(&rx);
	assert_int_equal(rx.next, 320);
}

/* Between the two halves of a claim the window has moved on: the bit is another PSN's, given back. */
static void keep__gives_back_what_is_old(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	place(0, 1);
	/* what a duplicate does that has read `next` as it was before */
	rx.next = 0;
	assert_int_equal(weft_rx_take(&rx, 0), WEFT_RX_NEW);
	rx.next = 1;
	assert_int_equal(weft_rx_claim(&rx, WEFT_WIN, 1), WEFT_RX_BUSY);
	assert_int_equal(weft_rx_keep(&rx, 0, 1), WEFT_RX_DUP);
	assert_int_equal(rx.nlast, 0);
	assert_true(!rx.word[0].last && !rx.word[0].claimed);
	assert_int_equal(weft_rx_claim(&rx, WEFT_WIN, 1), WEFT_RX_NEW);
	assert_int_equal(rx.nlast, 1);
}

static void sack__reports_the_word_around(void **state)
{
	(void)state;
	weft_rx_init(&rx, 64);
	place(66, 0);
	place(127, 0);
	place(128, 0);
	weft_rx_sack(&rx, 66, &sack);
	assert_int_equal(sack.base, 64);
	assert_true(sack.bits == (1ull << 2 | 1ull << 63));
	assert_int_equal(sack.cum, 64);
	assert_int_equal(sack.msn, 0);
	weft_rx_sack(&rx, 128, &sack);
	assert_int_equal(sack.base, 128);
	assert_true(sack.bits == 1);
}

/*
 * `next` stands at the end of word 0, the newest PSN is in word 0 as well: what
 * is placed at `next` must not be reported as PSN + WEFT_WIN.
 */
static void sack__no_bit_beyond_the_window(void **state)
{
	(void)state;
	weft_rx_init(&rx, 62);
	place(63, 0);
	place(1025, 0);
	weft_rx_sack(&rx, 1025, &sack);
	assert_int_equal(sack.base, 1024);
	assert_true(sack.bits == 1ull << 1);
	weft_rx_sack(&rx, 63, &sack);
	assert_int_equal(sack.base, 0);
	assert_true(sack.bits & 1ull << 63);
}

static void sack__of_an_old_duplicate(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	for (__u32 psn = 0; psn < 2000; psn++)
		place(psn, 1);
	assert_int_equal(take(1500, 1), WEFT_RX_DUP);
	weft_rx_sack(&rx, 1500, &sack);
	assert_int_equal(sack.cum, 2000);
	assert_int_equal(sack.msn, 2000);
	assert_true(sack.bits == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claim__in_order_message_completes),
		cmocka_unit_test(claim__wraps_with_the_psn),
		cmocka_unit_test(claim__twice_is_busy_then_duplicate),
		cmocka_unit_test(claim__window_bounds),
		cmocka_unit_test(advance__stops_at_the_first_gap),
		cmocka_unit_test(advance__three_words_a_call),
		cmocka_unit_test(advance__claimed_is_not_placed),
		cmocka_unit_test(commit__asks_for_advance_while_an_end_is_pending),
		cmocka_unit_test(commit__asks_for_advance_with_a_complete_word),
		cmocka_unit_test(keep__gives_back_what_is_old),
		cmocka_unit_test(catch_up__brings_the_window_up_to_date),
		cmocka_unit_test(catch_up__from_any_bit),
		cmocka_unit_test(lags__from_half_a_window_on),
		cmocka_unit_test(sack__reports_the_word_around),
		cmocka_unit_test(sack__no_bit_beyond_the_window),
		cmocka_unit_test(sack__of_an_old_duplicate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
