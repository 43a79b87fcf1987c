/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of the requester in the core: READs, atomics, parts of messages, corrupt requests. */
#include "test_core_util.h"

/* ---- their own answers deliver them ---- */

static void own__nothing_else_delivers(void **state)
{
	struct sender *s = sender_new(0xfffffffe, 1);

	(void)state;
	post(s, PAYLOAD);
	post_op(s, WEFT_WQE_READ, 2 * PAYLOAD);
	post(s, PAYLOAD);
	claim_n(s, 4, T0, 0);
	/* SACK and cum name all four; this one ACK's own PSN is a WRITE */
	assert_int_equal(ack(s, 1, 2, 3, 3, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 0xffffffff);
	assert_int_equal(s->tx.done, 1);
	assert_int_equal(take_answer(s, 0, PAYLOAD), 1);
	assert_int_equal(answer(s, 0, 2, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 0xffffffff);
	assert_int_equal(take_answer(s, 0xffffffff, PAYLOAD), 1);
	assert_int_equal(answer(s, 0xffffffff, 2, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 2);
	assert_int_equal(s->tx.done, 3);
	test_free(s);
}

/* Its token is back and brought nothing: it is asked for again, at once. */
static void own__plain_ack_asks_again(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	post_op(s, WEFT_WQE_READ, PAYLOAD);
	claim_n(s, 1, T0, 0);
	assert_int_equal(ack(s, 0, 1, 1, 1, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 0);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(s->tx.losses, 0);
	assert_int_equal(claim(s, T0 + RTT, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 0);
	assert_int_equal(seg.op, WEFT_WQE_READ);
	assert_int_equal(seg.flags, WEFT_F_LAST | WEFT_F_RETX);
	/* convicted, and then the same: it stays lost */
	assert_int_equal(timeout(s, T0 + 2 * WEFT_RTO_MAX), 1);
	assert_int_equal(ack(s, 0, 1, 1, 1, T0 + 2 * WEFT_RTO_MAX), 0);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(weft_slot_state(&s->tx.slot[weft_tx_at(0)]), WEFT_SLOT_LOST);
	assert_int_equal(claim(s, T0 + 2 * WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
	test_free(s);
}

/* Two copies of an answer on two CPUs: the second neither writes nor asks again. */
static void own__second_answer_beside_the_first(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post_op(s, WEFT_WQE_READ, PAYLOAD);
	claim_n(s, 1, T0, 0);
	assert_int_equal(take_answer(s, 0, PAYLOAD), 1);
	assert_int_equal(take_answer(s, 0, PAYLOAD), 0);
	assert_int_equal(ack(s, 0, 1, 1, 1, T0 + RTT), 0);
	assert_int_equal(s->tx.inflight, 0);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.una, 0);
	assert_int_equal(answer(s, 0, 1, T0 + RTT), 0);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->tx.una, 1);
	assert_int_equal(take_answer(s, 0, PAYLOAD), 0);
	test_free(s);
}

/* Convicted while its answer is being put into memory: nothing is sent for it. */
static void own__answer_of_a_convicted(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post_op(s, WEFT_WQE_READ, PAYLOAD);
	claim_n(s, 1, T0, 0);
	assert_int_equal(take_answer(s, 0, PAYLOAD), 1);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(answer(s, 0, 1, T0 + WEFT_RTO_MAX), 0);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.una, 1);
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, NULL), WEFT_CLAIM_EMPTY);
	test_free(s);
}

/* ---- take ---- */

static void take__says_where(void **state)
{
	struct sender *s = sender_new(7, 1);
	struct weft_seg seg;

	(void)state;
	post(s, 10);
	post_op(s, WEFT_WQE_READ, 2 * PAYLOAD + 5);
	claim_n(s, 4, T0, 0);
	assert_int_equal(weft_tx_take(&s->tx, 10, 5, &seg), 1);
	assert_int_equal(seg.loff, 64 + 2 * PAYLOAD);
	assert_int_equal(seg.len, 5);
	assert_int_equal(seg.lkey, 7);
	assert_int_equal(seg.msn, 1);
	assert_int_equal(weft_tx_take(&s->tx, 8, PAYLOAD, &seg), 1);
	assert_int_equal(seg.loff, 64);
	test_free(s);
}

static void take__not_asked_for(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_tx before;

	(void)state;
	post(s, PAYLOAD);
	post_op(s, WEFT_WQE_READ, PAYLOAD);
	post_op(s, WEFT_WQE_READ, 0);
	post(s, PAYLOAD);
	claim_n(s, 4, T0, 0);
	ack(s, 3, 0, 0, 8, T0 + RTT);
	before = s->tx;
	/* a WRITE's, other lengths, what was not sent yet, what is over */
	assert_int_equal(take_answer(s, 0, PAYLOAD), -1);
	assert_int_equal(take_answer(s, 1, PAYLOAD - 1), -1);
	assert_int_equal(take_answer(s, 1, PAYLOAD + 1), -1);
	assert_int_equal(take_answer(s, 1, 0), -1);
	assert_int_equal(take_answer(s, 2, 1), -1);
	assert_int_equal(take_answer(s, 4, PAYLOAD), 0);
	assert_int_equal(take_answer(s, 0x80000000, PAYLOAD), 0);
	assert_int_equal(take_answer(s, 0xffffffff, PAYLOAD), 0);
	assert_int_equal(take_answer(s, 3, PAYLOAD), 0);
	assert_memory_equal(&before, &s->tx, sizeof(before));
	assert_int_equal(take_answer(s, 2, 0), 1);
	test_free(s);
}

/* A late answer finds its place in the window with another PSN, which waits for its own. */
static void take__place_belongs_to_another_by_now(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	for (__u32 psn = 0; psn < 2 * WEFT_WIN; psn++) {
		/* READs and WRITEs change places in the second window */
		int own = psn < WEFT_WIN ? psn & 1 : psn & 2;

		if (own)
			post_op(s, WEFT_WQE_READ, PAYLOAD);
		else
			post_op(s, WEFT_WQE_WRITE, PAYLOAD);
		claim_n(s, 1, T0 + psn, 0);
		if (psn >= WEFT_WIN) {
			assert_int_equal(take_answer(s, psn - WEFT_WIN, PAYLOAD), 0);
			assert_int_equal(weft_tx_own(&s->tx, psn), !!own);
		}
		assert_int_equal(take_answer(s, psn, PAYLOAD), own ? 1 : -1);
		if (own)
			answer(s, psn, 0, T0 + psn + 1);
		else
			ack(s, psn, 0, 0, 0, T0 + psn + 1);
		assert_int_equal(s->tx.una, psn + 1);
	}
	test_free(s);
}

/* ---- atomics ---- */

static void atomic__numbers_and_operands(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	post_op(s, WEFT_WQE_FADD, 8);
	post_op(s, WEFT_WQE_READ, 10);
	post_op(s, WEFT_WQE_CSWAP, 8);
	for (int again = 0; again < 2; again++) {
		for (__u32 i = 0; i < 3; i++) {
			assert_int_equal(claim(s, T0 + again * WEFT_RTO_MAX, 0, &seg),
					 WEFT_CLAIM_OK);
			assert_int_equal(seg.psn, i);
			if (i == 1)
				continue;
			assert_int_equal(seg.op, i ? WEFT_WQE_CSWAP : WEFT_WQE_FADD);
			assert_int_equal(seg.asn, i / 2);
			assert_int_equal(seg.operand, 1001 + i);
			assert_int_equal(seg.compare, 2001 + i);
			assert_int_equal(seg.flags, WEFT_F_LAST | (again ? WEFT_F_RETX : 0));
		}
		memset(s->sq, 0xee, sizeof(s->sq));
		if (!again)
			assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	}
	assert_int_equal(s->tx.atomics, 2);
	assert_int_equal(s->tx.atomics_out, 2);
	test_free(s);
}

/* I4: behind what was posted before it and places something; READs and atomics do not. */
static void atomic__waits_for_what_was_written(void **state)
{
	static const __u32 starts[] = { 0, 62, 63, (__u32)-3 };

	(void)state;
	for (unsigned i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		__u32 p = starts[i];
		struct sender *s = sender_new(p, 1);
		struct weft_seg seg;

		post_op(s, WEFT_WQE_READ, 10);
		post_op(s, WEFT_WQE_FADD, 8);
		post(s, 10);
		post_op(s, WEFT_WQE_SEND, 10);
		post_op(s, WEFT_WQE_READ, 10);
		post_op(s, WEFT_WQE_FADD, 8);
		post(s, 10);
		claim_n(s, 5, T0, 0);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
		assert_int_equal(deficit(s), 0);
		assert_int_equal(ack(s, p + 2, p, 0, weft_psn_bit(p + 2), T0 + RTT), 0);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
		assert_int_equal(ack(s, p + 3, p, 0, weft_psn_bit(p + 3), T0 + RTT), 0);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
		assert_int_equal(take_answer(s, p, 10), 1);
		assert_int_equal(answer(s, p, p, T0 + RTT), 0);
		assert_int_equal(take_answer(s, p + 1, 8), 1);
		assert_int_equal(answer(s, p + 1, p, T0 + RTT), 0);
		/* the READ behind them is not answered, and need not be */
		assert_int_equal(s->tx.una, p + 4);
		assert_int_equal(deficit(s), 2);
		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.op, WEFT_WQE_FADD);
		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		test_free(s);
	}
}

/* As many as the peer remembers: the next waits for the oldest of them, and what is behind it. */
static void atomic__no_more_out_than_are_remembered(void **state)
{
	struct sender *s = sender_new(0xfffffff0, 1);
	__u32 psn0 = 0xfffffff0;
	struct weft_seg seg;

	(void)state;
	for (int i = 0; i < WEFT_ATOMICS + 2; i++)
		post_op(s, WEFT_WQE_FADD, 8);
	post(s, PAYLOAD);
	claim_n(s, WEFT_ATOMICS, T0, 0);
	assert_int_equal(s->tx.atomics_out, WEFT_ATOMICS);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	/* all but the oldest are answered */
	for (__u32 i = 1; i < WEFT_ATOMICS; i++) {
		assert_int_equal(take_answer(s, psn0 + i, 8), 1);
		assert_int_equal(answer(s, psn0 + i, psn0, T0 + RTT), 0);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	}
	assert_int_equal(s->tx.atomics_out, 1);
	assert_int_equal(deficit(s), 0);
	/* and that: once it is in memory */
	assert_int_equal(take_answer(s, psn0, 8), 1);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(answer(s, psn0, psn0 + WEFT_ATOMICS, T0 + RTT), 0);
	assert_int_equal(deficit(s), 3);
	assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.asn, WEFT_ATOMICS);
	claim_n(s, 2, T0, 0);
	test_free(s);
}

/* The same when their number wraps. */
static void atomic__number_wraps(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	s->tx.atomics = -WEFT_ATOMICS / 2;
	for (int i = 0; i <= WEFT_ATOMICS; i++)
		post_op(s, WEFT_WQE_FADD, 8);
	claim_n(s, WEFT_ATOMICS, T0, 0);
	for (__u32 i = 1; i < WEFT_ATOMICS; i++) {
		assert_int_equal(take_answer(s, i, 8), 1);
		assert_int_equal(answer(s, i, 0, T0 + RTT), 0);
	}
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(take_answer(s, 0, 8), 1);
	assert_int_equal(answer(s, 0, WEFT_ATOMICS, T0 + RTT), 0);
	assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.asn, WEFT_ATOMICS / 2);
	test_free(s);
}

/* What is lost goes out again meanwhile. */
static void atomic__repeats_do_not_wait(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	for (int i = 0; i <= WEFT_ATOMICS; i++)
		post_op(s, WEFT_WQE_CSWAP, 8);
	claim_n(s, WEFT_ATOMICS, T0, 0);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	assert_int_equal(deficit(s), 8);
	for (__u32 i = 0; i < 8; i++) {
		assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.asn, i);
	}
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(s->tx.atomics_out, WEFT_ATOMICS);
	test_free(s);
}

/* Two billion WRITEs later the PSNs of the last atomics seem to lie ahead. */
static void atomic__after_half_the_psns(void **state)
{
	static const __u32 later[] = { WEFT_WIN, 0x7fffff00, 0x80000000, 0x80000100, 0xffffff00 };

	(void)state;
	for (unsigned i = 0; i < sizeof(later) / sizeof(*later); i++) {
		struct sender *s = sender_new(0, 1);

		for (__u32 psn = 0; psn < WEFT_ATOMICS; psn++) {
			post_op(s, WEFT_WQE_FADD, 8);
			claim_n(s, 1, T0, 0);
			assert_int_equal(take_answer(s, psn, 8), 1);
			assert_int_equal(answer(s, psn, psn + 1, T0 + RTT), 0);
		}
		s->tx.nxt += later[i];
		s->tx.una = s->tx.nxt;
		post_op(s, WEFT_WQE_FADD, 8);
		assert_int_equal(deficit(s), 1);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_OK);
		test_free(s);
	}
}

/* ---- parts ---- */

static void part__last_is_the_messages(void **state)
{
	static const struct {
		__u32 moff, len, last;
	} want[] = { { 0, PAYLOAD, 0 },
		     { PAYLOAD, 1, 0 },
		     { PAYLOAD + 1, 5, 0 },
		     { PAYLOAD + 6, PAYLOAD, 0 },
		     { 2 * PAYLOAD + 6, 4, 1 } };
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	post_part(s, 0, PAYLOAD + 1, 2 * PAYLOAD + 10);
	post_part(s, PAYLOAD + 1, 5, 2 * PAYLOAD + 10);
	post_part(s, PAYLOAD + 6, PAYLOAD + 4, 2 * PAYLOAD + 10);
	for (__u32 i = 0; i < 5; i++) {
		__u32 part = i < 2 ? 0 : i - 1 < 2 ? 1 : 2, before = i == 1 || i == 4 ? PAYLOAD : 0;

		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.moff, want[i].moff);
		assert_int_equal(seg.len, want[i].len);
		assert_int_equal(seg.mlen, 2 * PAYLOAD + 10);
		assert_int_equal(seg.flags, want[i].last ? WEFT_F_LAST : 0);
		assert_int_equal(seg.msn, part);
		assert_int_equal(seg.loff, 64 * part + before);
		assert_int_equal(seg.roff, 128 * part + before);
		assert_int_equal(s->tx.ends, want[i].last);
	}
	/* the peer counts one message */
	assert_int_equal(ack(s, 4, 5, 2, 0, T0 + RTT), -1);
	assert_int_equal(ack(s, 4, 5, 1, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.done, 3);
	test_free(s);
}

/* Parts run ahead of messages; two billion of them further on an ACK is as good as before. */
static void part__counts_of_two_sides_drift_apart(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 1);
	claim_n(s, 1, T0, 0);
	assert_int_equal(ack(s, 0, 1, 1, 0, T0 + RTT), 0);
	s->prod += 1u << 31;
	s->tx.cons = s->tx.done = s->prod;
	post(s, 1);
	claim_n(s, 1, T0, 0);
	assert_int_equal(ack(s, 1, 2, 3, 0, T0 + RTT), -1);
	assert_int_equal(ack(s, 1, 2, 2, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.done, s->prod);
	test_free(s);
}

/* ---- what an application may write into the ring ---- */

static void corrupt__request_is_an_error(void **state)
{
	static const struct weft_wqe bad[] = {
		{ .op = WEFT_WQE_OP_COUNT, .len = 8, .mlen = 8 },
		{ .op = 0xffff, .len = 8, .mlen = 8 },
		{ .op = WEFT_WQE_FADD, .len = 0, .mlen = 0 },
		{ .op = WEFT_WQE_FADD, .len = 7, .mlen = 7 },
		{ .op = WEFT_WQE_CSWAP, .len = 16, .mlen = 16 },
		{ .op = WEFT_WQE_READ, .len = WEFT_MSG_MAX + 1, .mlen = WEFT_MSG_MAX + 1 },
		{ .op = WEFT_WQE_READ, .len = 9, .mlen = 8 },
		{ .len = 1, .mlen = 0 },
		{ .len = 8, .mlen = 8, .moff = 1 },
		{ .len = 0, .mlen = 8, .moff = 9 },
		{ .len = 8, .mlen = 0, .moff = ~0u },
		{ .len = 1, .mlen = ~0u, .moff = 0 },
		{ .len = ~0u, .mlen = 8, .moff = 7 },
		{ .len = 2, .mlen = 1, .moff = ~0u },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct sender *s = sender_new(0, 1);

		post_op(s, WEFT_WQE_READ, PAYLOAD);
		claim_n(s, 1, T0, 0);
		post(s, 0);
		s->sq[1] = bad[i];
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
		assert_int_equal(s->tx.err, WEFT_TX_ERR_RING);
		assert_int_equal(s->tx.err_ssn, 1);
		assert_int_equal(s->tx.nxt, 1);
		assert_int_equal(s->tx.msgs, 1);
		assert_int_equal(s->tx.bytes, PAYLOAD);
		assert_int_equal(s->tx.atomics, 0);
		/* what is under way ends as it would have */
		assert_int_equal(take_answer(s, 0, PAYLOAD), 1);
		assert_int_equal(answer(s, 0, 1, T0 + RTT), 0);
		assert_int_equal(s->tx.done, 1);
		assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
		test_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own__nothing_else_delivers),
		cmocka_unit_test(own__plain_ack_asks_again),
		cmocka_unit_test(own__second_answer_beside_the_first),
		cmocka_unit_test(own__answer_of_a_convicted),
		cmocka_unit_test(take__says_where),
		cmocka_unit_test(take__not_asked_for),
		cmocka_unit_test(take__place_belongs_to_another_by_now),
		cmocka_unit_test(atomic__numbers_and_operands),
		cmocka_unit_test(atomic__waits_for_what_was_written),
		cmocka_unit_test(atomic__no_more_out_than_are_remembered),
		cmocka_unit_test(atomic__number_wraps),
		cmocka_unit_test(atomic__repeats_do_not_wait),
		cmocka_unit_test(atomic__after_half_the_psns),
		cmocka_unit_test(part__last_is_the_messages),
		cmocka_unit_test(part__counts_of_two_sides_drift_apart),
		cmocka_unit_test(corrupt__request_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
