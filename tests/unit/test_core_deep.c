/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of send queues that are deeper than a ring: which ring, how many are begun, what is corrupt. */
#include "test_core_util.h"

#define DEPTH 1024u
#define MOST  (WEFT_SQ_DEPTH - WEFT_SQ_SPARE) /* begun and not complete */

/* Its first request has number n0. */
static struct sender *deep_new(__u32 n0)
{
	struct sender *s = sender_new(0, 1);

	s->tx.sq_mask = DEPTH - 1;
	s->prod = s->tx.cons = s->tx.done = s->tx.ends = n0;
	return s;
}

static void post_n(struct sender *s, __u32 n)
{
	while (n--)
		post(s, 100);
}

static enum weft_claim claim_at(struct sender *s, __u32 at)
{
	struct weft_seg seg;
	enum weft_claim c = weft_tx_claim(&s->tx, ring_of(s, at), at, s->prod, s->wnd, T0, 0, &seg);

	if (c == WEFT_CLAIM_OK)
		s->sent_at[seg.psn & 0xffff] = T0;
	check_books(s);
	return c;
}

/* Twice round all rings, over the wrap of the numbers: each request is what was posted. */
static void deep__every_ring(void **state)
{
	const __u32 n0 = 0u - 700;
	struct sender *s = deep_new(n0);
	struct weft_seg seg;

	(void)state;
	post_n(s, DEPTH);
	for (__u32 i = 0; i < 2 * DEPTH; i++) {
		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.msn, n0 + i);
		assert_int_equal(seg.loff, 64 * (__u64)(n0 + i));
		ack(s, i, i + 1, n0 + i + 1, 0, T0 + RTT);
		assert_int_equal(s->tx.done, n0 + i + 1);
		post_n(s, 1);
	}
	test_free(s);
}

/* The ring was looked up before the lock: only of the one that is next then, anything may be taken. */
static void deep__moved(void **state)
{
	struct sender *s = deep_new(255);

	(void)state;
	post_n(s, 10);
	assert_int_equal(claim_at(s, 254), WEFT_CLAIM_OK);
	assert_int_equal(s->tx.cons, 256);
	assert_int_equal(claim_at(s, 255), WEFT_CLAIM_MOVED);
	assert_int_equal(claim_at(s, 512), WEFT_CLAIM_MOVED);
	assert_int_equal(claim_at(s, 0u - 1), WEFT_CLAIM_MOVED);
	assert_int_equal(s->tx.err, WEFT_TX_OK);
	assert_int_equal(s->tx.cons, 256);
	assert_int_equal(claim_at(s, 256), WEFT_CLAIM_OK);
	/* round the whole queue it is the same again */
	assert_int_equal(claim_at(s, 257 + DEPTH), WEFT_CLAIM_OK);
	/* what is repaired is in no ring any more */
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_int_equal(claim_at(s, 0), WEFT_CLAIM_OK);
	test_free(s);
}

/* A request that is cut already is in no ring either. */
static void deep__moved_in_the_middle(void **state)
{
	struct sender *s = deep_new(256);

	(void)state;
	post(s, 3 * PAYLOAD);
	assert_int_equal(claim_at(s, 300), WEFT_CLAIM_OK);
	assert_int_equal(claim_at(s, 0), WEFT_CLAIM_OK);
	test_free(s);
}

/* One ring has no other. */
static void deep__not_by_default(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post_n(s, WEFT_SQ_DEPTH);
	for (__u32 i = 0; i < WEFT_SQ_DEPTH; i++)
		assert_int_equal(claim_at(s, 12345 * i), WEFT_CLAIM_OK);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_EMPTY);
	test_free(s);
}

/* No more are begun than there are private copies, and when the oldest is complete it goes on. */
static void deep__copies(void **state)
{
	struct sender *s = deep_new(0);

	(void)state;
	post_n(s, DEPTH);
	claim_n(s, MOST - 10, T0, 0);
	assert_int_equal(deficit(s), 10);
	claim_n(s, 10, T0, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	/* all but the oldest are there: nothing is complete */
	for (__u32 i = MOST - 1; i; i--)
		ack(s, i, 0, 0, 0, T0 + RTT);
	assert_int_equal(s->tx.done, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	ack(s, 0, 1, 1, 0, T0 + RTT);
	assert_int_equal(s->score.progress, MOST);
	assert_int_equal(deficit(s), 64);
	claim_n(s, MOST, T0 + RTT, 0);
	assert_int_equal(claim(s, T0 + RTT, 0, NULL), WEFT_CLAIM_WINDOW);
	test_free(s);
}

/* One that is in the middle of being cut has its copy; those behind it may have none. */
static void deep__copies_of_segments(void **state)
{
	struct sender *s = deep_new(0);

	(void)state;
	post_n(s, MOST - 1);
	post(s, 5 * PAYLOAD);
	post_n(s, 100);
	claim_n(s, MOST - 1, T0, 0);
	assert_int_equal(deficit(s), 5);
	claim_n(s, 1, T0, 0);
	assert_int_equal(deficit(s), 4);
	claim_n(s, 4, T0, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	test_free(s);
}

/* What is lost goes again, however many wait. */
static void deep__copies_of_the_lost(void **state)
{
	struct sender *s = deep_new(0);
	struct weft_seg seg;

	(void)state;
	post_n(s, DEPTH);
	claim_n(s, MOST, T0, 0);
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_true(s->tx.nlost);
	assert_int_equal(deficit(s), s->tx.nlost);
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 0);
	assert_int_equal(seg.loff, 0);
	test_free(s);
}

/* Who has scored an ACK reads the copies of what that completed, after others have begun more. */
static void deep__copies_stay(void **state)
{
	struct sender *s = deep_new(0);

	(void)state;
	for (__u32 i = 0; i < DEPTH; i++) {
		post_n(s, 1);
		s->sq[i].posted = 1 + i;
	}
	claim_n(s, MOST, T0, 0);
	for (__u32 i = 0; i < 500; i++) {
		ack(s, i, i + 1, i + 1, 0, T0 + RTT);
		claim_n(s, 1, T0 + RTT, 0);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
		for (__u32 k = 0; k < WEFT_SQ_SPARE && k <= i; k++)
			assert_int_equal(s->tx.wqe[(i - k) & (WEFT_SQ_DEPTH - 1)].posted,
					 1 + i - k);
	}
	test_free(s);
}

static void deep__corrupt_producer(void **state)
{
	(void)state;
	for (__u32 over = 0; over < 2; over++) {
		struct sender *s = deep_new(7);

		post_n(s, 3);
		claim_n(s, 2, T0, 0);
		ack(s, 0, 1, 8, 0, T0 + RTT);
		s->prod = 8 + DEPTH + over;
		assert_int_equal(claim(s, T0, 0, NULL), over ? WEFT_CLAIM_ERROR : WEFT_CLAIM_OK);
		assert_int_equal(s->tx.err, over ? WEFT_TX_ERR_RING : WEFT_TX_OK);
		test_free(s);
	}
	for (__u32 over = 0; over < 2; over++) {
		struct sender *s = deep_new(0);

		post_n(s, 1);
		s->prod = DEPTH + over;
		assert_int_equal(deficit(s), over ? 0 : 64);
		test_free(s);
	}
}

/* A default queue that says it is deep is none. */
static void deep__corrupt_by_default(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post_n(s, 3);
	s->prod = WEFT_SQ_DEPTH + 1;
	assert_int_equal(deficit(s), 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deep__every_ring),
		cmocka_unit_test(deep__moved),
		cmocka_unit_test(deep__moved_in_the_middle),
		cmocka_unit_test(deep__not_by_default),
		cmocka_unit_test(deep__copies),
		cmocka_unit_test(deep__copies_of_segments),
		cmocka_unit_test(deep__copies_of_the_lost),
		cmocka_unit_test(deep__copies_stay),
		cmocka_unit_test(deep__corrupt_producer),
		cmocka_unit_test(deep__corrupt_by_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
