/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of strict order in the core's responder: only the next PSN is taken. */
#include "test_core_util.h"

static struct weft_rx rx;

static void take(__u32 psn, enum weft_rx_verdict want)
{
	struct weft_rx was = rx;

	assert_int_equal(weft_rx_take_next(&rx, psn), want);
	if (want != WEFT_RX_NEW)
		assert_memory_equal(&rx, &was, sizeof(rx));
}

static void commit(__u32 psn, enum weft_rx_last last)
{
	assert_int_equal(weft_rx_keep(&rx, psn, last), WEFT_RX_NEW);
	weft_rx_commit(&rx, psn);
}

static void next__is_all_it_takes(void **state)
{
	(void)state;
	weft_rx_init(&rx, 100);
	take(101, WEFT_RX_SEQ);
	take(163, WEFT_RX_SEQ);
	/* what another would drop as beyond its window is to be sent again here */
	take(100 + WEFT_WIN, WEFT_RX_SEQ);
	take(99, WEFT_RX_DUP);
	take(100, WEFT_RX_NEW);
	take(100, WEFT_RX_BUSY);
	take(101, WEFT_RX_SEQ);
	commit(100, WEFT_RX_MORE);
	/* placed, but not told yet */
	take(100, WEFT_RX_DUP);
	take(101, WEFT_RX_SEQ);
	weft_rx_catch_up(&rx);
	assert_int_equal(rx.next, 101);
	take(100, WEFT_RX_DUP);
	take(102, WEFT_RX_SEQ);
	take(101, WEFT_RX_NEW);
}

/* Two windows and more, over the wrap, each PSN after one too early and before one too late. */
static void next__over_the_wrap(void **state)
{
	const __u32 first = -(__u32)(WEFT_WIN + 7);
	__u32 msn = 0;

	(void)state;
	weft_rx_init(&rx, first);
	for (__u32 i = 0; i < 2 * WEFT_WIN + 100; i++) {
		__u32 psn = first + i;

		msn += i % 5 > 0;
		take(psn + 1 + i % WEFT_WIN, WEFT_RX_SEQ);
		take(psn, WEFT_RX_NEW);
		commit(psn, i % 5);
		weft_rx_catch_up(&rx);
		take(psn - i % WEFT_WIN, WEFT_RX_DUP);
		assert_int_equal(rx.next, psn + 1);
		assert_int_equal(rx.msn, msn);
	}
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(!rx.word[i].claimed && !rx.word[i].placed && !rx.word[i].last &&
			    !rx.word[i].quiet && !rx.word[i].recv && !rx.word[i].sol);
}

/* No receive for it: it stays the next, and all behind it waits. */
static void next__given_back(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0xffffffff);
	take(0xffffffff, WEFT_RX_NEW);
	weft_rx_give_back(&rx, 0xffffffff);
	take(0, WEFT_RX_SEQ);
	take(0xffffffff, WEFT_RX_NEW);
	commit(0xffffffff, WEFT_RX_RECV);
	weft_rx_catch_up(&rx);
	assert_int_equal(rx.rdone, 1);
	take(0, WEFT_RX_NEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next__is_all_it_takes),
		cmocka_unit_test(next__over_the_wrap),
		cmocka_unit_test(next__given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
