/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of weft_tx_take(), which has no lock: what another CPU does before it leaves its mark. */
static void in_between(void);
#define __sync_val_compare_and_swap(p, was, now) \
	(in_between(), __sync_val_compare_and_swap(p, was, now))
#include "test_core_util.h"

static struct sender *other; /* to whom something happens there; NULL: to nobody */
static void (*happens)(struct sender *s);
static int times;

static void in_between(void)
{
	struct sender *s = other;

	if (!s)
		return;
	other = NULL; /* what happens there takes as well */
	happens(s);
	if (--times > 0)
		other = s;
}

/* PSN 0 is answered, all behind it acknowledged, and its place in the window goes to PSN 1024. */
static void a_window_passes(struct sender *s)
{
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_YES);
	assert_int_equal(answer(s, 0, WEFT_WIN, T0 + RTT), 0);
	for (__u32 psn = 1; psn < WEFT_WIN; psn++)
		assert_int_equal(ack(s, psn, WEFT_WIN, 0, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.una, WEFT_WIN);
	claim_n(s, 1, T0 + 2 * RTT, 0);
	assert_true(weft_tx_own(&s->tx, WEFT_WIN));
}

static void it_is_answered(struct sender *s)
{
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_YES);
}

/* By another path, or for the second time. */
static void it_goes_again(struct sender *s)
{
	s->tx.slot[weft_tx_at(0)].ev++;
}

static void in_the_meantime(struct sender *s, void (*what)(struct sender *s), int n)
{
	other = s;
	happens = what;
	times = n;
}

static struct sender *asks(void)
{
	struct sender *s = sender_new(0, 1);

	post_op(s, WEFT_WQE_READ, 10);
	post(s, (WEFT_WIN - 1) * PAYLOAD);
	post_op(s, WEFT_WQE_READ, 10);
	s->wnd = 2 * WEFT_WIN;
	return s;
}

/* A copy of an answer is so late that its slot is another READ's: that one's is not touched. */
static void take__a_window_too_late(void **state)
{
	struct sender *s = asks();

	(void)state;
	claim_n(s, WEFT_WIN, T0, 0);
	in_the_meantime(s, a_window_passes, 1);
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_NO);
	assert_null(other);
	assert_int_equal(take_answer(s, WEFT_WIN, 10), WEFT_TAKE_YES);
	assert_int_equal(answer(s, WEFT_WIN, WEFT_WIN, T0 + 3 * RTT), 0);
	assert_int_equal(s->tx.una, WEFT_WIN + 1);
	test_free(s);
}

/* The same answer twice at a time: one of them. */
static void take__at_the_same_time(void **state)
{
	struct sender *s = asks();

	(void)state;
	claim_n(s, 1, T0, 0);
	in_the_meantime(s, it_is_answered, 1);
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_NO);
	assert_null(other);
	test_free(s);
}

/* The slot changes, and is this PSN's all the same. Not for ever. */
static void take__looks_again(void **state)
{
	struct sender *s = asks();

	(void)state;
	claim_n(s, 1, T0, 0);
	in_the_meantime(s, it_goes_again, WEFT_TAKE_TRIES - 1);
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_YES);
	assert_null(other);
	test_free(s);
	s = asks();
	claim_n(s, 1, T0, 0);
	in_the_meantime(s, it_goes_again, WEFT_TAKE_TRIES);
	assert_int_equal(take_answer(s, 0, 10), WEFT_TAKE_NO);
	assert_null(other);
	/* that one is sent away, and it is asked for again */
	assert_int_equal(ack(s, 0, 0, 0, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.nlost, 1);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take__a_window_too_late),
		cmocka_unit_test(take__at_the_same_time),
		cmocka_unit_test(take__looks_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
