/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/tx_state.h and core/tx_claim.h: places, claims, the deficit. */
#include "test_core_util.h"

/* ---- claim ---- */

static void claim__cuts_messages_into_segments(void **state)
{
	static const struct {
		__u32 len, n, last;
	} cut[] = {
		{ 0, 1, 0 }, { 1, 1, 1 }, { 1000, 1, 1000 }, { 1001, 2, 1 }, { 3000, 3, 1000 }
	};
	struct sender *s = sender_new(0xfffffffe, 4);
	__u32 psn = 0xfffffffe;

	(void)state;
	for (__u32 i = 0; i < 5; i++)
		post(s, cut[i].len);
	for (__u32 i = 0; i < 5; i++)
		for (__u32 k = 0; k < cut[i].n; k++, psn++) {
			struct weft_seg seg;

			assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
			assert_int_equal(seg.psn, psn);
			assert_int_equal(seg.msn, i);
			assert_int_equal(seg.moff, k * PAYLOAD);
			assert_int_equal(seg.mlen, cut[i].len);
			assert_int_equal(seg.len, k + 1 < cut[i].n ? PAYLOAD : cut[i].last);
			assert_int_equal(seg.loff, 64 * i + k * PAYLOAD);
			assert_int_equal(seg.roff, 128 * i + k * PAYLOAD);
			assert_int_equal(seg.lkey, 7);
			assert_int_equal(seg.rkey, 9);
			assert_int_equal(seg.flags, k + 1 < cut[i].n ? 0 : WEFT_F_LAST);
			assert_int_equal(seg.ev, (psn + 2) % 4);
		}
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_EMPTY);
	assert_int_equal(weft_tx_packets(&s->tx), 8);
	test_free(s);
}

/* Derived from the PSNs: right however often they have wrapped, and with what is sent again. */
static void packets__over_the_wrap(void **state)
{
	struct sender *s = sender_new(0xfffffffe, 1);

	(void)state;
	assert_int_equal(weft_tx_packets(&s->tx), 0);
	post(s, 5 * PAYLOAD);
	for (__u32 i = 1; i <= 5; i++) {
		claim_n(s, 1, T0, 0);
		assert_int_equal(weft_tx_packets(&s->tx), i);
		assert_int_equal(s->tx.wraps, i >= 2);
	}
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	claim_n(s, 1, T0 + WEFT_RTO_MAX, 0);
	assert_int_equal(s->tx.retransmits, 1);
	assert_int_equal(weft_tx_packets(&s->tx), 6);
	/* a billion later */
	s->tx.wraps += 2;
	assert_true(weft_tx_packets(&s->tx) == (2ull << 32) + 6);
	test_free(s);
}

/* Lost packets are work as well; a producer read too early is none. */
static void idle__nothing_queued_or_lost(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	assert_true(weft_tx_idle(&s->tx, 0));
	post(s, 10);
	assert_false(weft_tx_idle(&s->tx, 1));
	claim_n(s, 1, T0, 0);
	assert_true(weft_tx_idle(&s->tx, 1));
	assert_true(weft_tx_idle(&s->tx, 0));
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	assert_false(weft_tx_idle(&s->tx, 1));
	test_free(s);
}

static void claim__stops_at_the_window(void **state)
{
	struct sender *s = sender_new(5, 1);

	(void)state;
	s->wnd = 3;
	post(s, 10 * PAYLOAD);
	claim_n(s, 3, T0, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_CWND);
	ack(s, 5, 6, 0, 0, T0 + RTT);
	claim_n(s, 1, T0, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_CWND);
	test_free(s);
}

static void claim__stops_at_the_psn_window(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 3000 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	for (__u32 i = 1; i < WEFT_WIN; i++) {
		claim_n(s, 1, T0 + i, 1);
		ack(s, i, 0, 0, weft_psn_bit(i), T0 + i);
	}
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	test_free(s);
}

/* The hole is filled and SACKed, cum does not tell yet: the window must open all the same. */
static void claim__window_opens_when_the_hole_is_sacked(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 3000 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	for (__u32 i = 1; i < WEFT_WIN; i++) {
		claim_n(s, 1, T0 + i, 1);
		ack(s, i, 0, 0, weft_psn_bit(i), T0 + i);
	}
	ack(s, 0, 0, 0, ~0ull, T0 + RTT);
	assert_int_equal(s->tx.una, WEFT_WIN);
	assert_int_equal(deficit(s), 64);
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_OK);
	test_free(s);
}

/* A delivered packet whose token never came back keeps its slot until it is convicted. */
static void claim__waits_for_a_token_in_the_slot(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 3000 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	for (__u32 i = 1; i < WEFT_WIN; i++) {
		claim_n(s, 1, T0 + i, 1);
		ack(s, i, i + 1, 0, 0, T0 + i);
	}
	assert_int_equal(s->tx.una, WEFT_WIN);
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	assert_int_equal(s->score.freed, 1);
	assert_int_equal(s->score.lost, 0);
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_OK);
	test_free(s);
}

static void claim__stale_producer_is_empty(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	for (int i = 0; i < 3; i++)
		post(s, 10);
	claim_n(s, 3, T0, 0);
	s->prod = 2; /* read before another CPU read 3 */
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_EMPTY);
	assert_int_equal(deficit(s), 0);
	ack(s, 2, 3, 3, 7, T0 + RTT);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_EMPTY);
	assert_int_equal(s->tx.err, WEFT_TX_OK);
	test_free(s);
}

static void claim__corrupt_producer_is_an_error(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	s->prod = WEFT_SQ_DEPTH + 1;
	assert_int_equal(deficit(s), 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
	assert_int_equal(s->tx.err, WEFT_TX_ERR_RING);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
	assert_int_equal(deficit(s), 0);
	test_free(s);
}

static void claim__oversized_message_is_an_error(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 10);
	post(s, WEFT_MSG_MAX + 1);
	claim_n(s, 1, T0, 0);
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
	assert_int_equal(s->tx.err, WEFT_TX_ERR_RING);
	assert_int_equal(s->tx.err_ssn, 1);
	test_free(s);
}

/* I12: what the application does to the queue after the first claim changes nothing. */
static void claim__keeps_a_private_copy(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	memset(s->sq, 0xee, sizeof(s->sq));
	assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.mlen, 3 * PAYLOAD);
	assert_int_equal(seg.roff, PAYLOAD);
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 0);
	assert_int_equal(seg.roff, 0);
	assert_int_equal(seg.flags, WEFT_F_RETX);
	test_free(s);
}

static void claim__oldest_lost_first(void **state)
{
	struct sender *s = sender_new(0xffffffe0, 1);
	__u32 late = T0 + WEFT_RTO_MAX;
	struct weft_seg seg;

	(void)state;
	post(s, 100 * PAYLOAD);
	claim_n(s, 70, T0, 0);
	for (int i = 0; i < 20; i++)
		timeout(s, late + i * WEFT_RTO_MAX);
	assert_int_equal(s->tx.nlost, 70);
	assert_int_equal(s->tx.inflight, 0);
	for (__u32 i = 0; i < 70; i++) {
		assert_int_equal(claim(s, late, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.psn, 0xffffffe0 + i);
	}
	assert_int_equal(claim(s, late, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.flags, 0);
	assert_int_equal(s->tx.retransmits, 70);
	test_free(s);
}

static void claim__tries_saturate(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 1);
	for (int i = 0; i < 300; i++) {
		claim_n(s, 1, T0 + i * WEFT_RTO_MAX * 2, 0);
		assert_int_equal(timeout(s, T0 + i * WEFT_RTO_MAX * 2 + WEFT_RTO_MAX + 1), 1);
	}
	assert_int_equal(s->tx.slot[0].tries, 255);
	test_free(s);
}

/* The lost PSN stands in the window's first word again, 1000 further on. */
static void first_lost__in_the_wrapped_word(void **state)
{
	struct sender *s = sender_new(40, 1);
	struct weft_seg seg;

	(void)state;
	post(s, 3000 * PAYLOAD);
	for (__u32 i = 0; i < WEFT_WIN; i++) {
		claim_n(s, 1, T0 + i, !i || i == 1000);
		if (i && i != 1000)
			ack(s, 40 + i, 40, 0, weft_psn_bit(40 + i), T0 + i);
	}
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 40);
	assert_int_equal(claim(s, T0 + WEFT_RTO_MAX, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 1040);
	assert_int_equal(weft_tx_first_lost(&s->tx), s->tx.una); /* nothing lost */
	test_free(s);
}

/* ---- deficit ---- */

static void deficit__counts_lost_and_queued(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	assert_int_equal(deficit(s), 0);
	post(s, 0);
	assert_int_equal(deficit(s), 1);
	post(s, 5 * PAYLOAD);
	assert_int_equal(deficit(s), 2); /* the second message counts as one until it is its turn */
	claim_n(s, 1, T0, 0);
	assert_int_equal(deficit(s), 5);
	claim_n(s, 2, T0, 0);
	assert_int_equal(deficit(s), 3);
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_int_equal(deficit(s), 6);
	s->wnd = 4;
	assert_int_equal(deficit(s), 4);
	claim_n(s, 4, T0, 0);
	assert_int_equal(deficit(s), 0);
	test_free(s);
}

static void deficit__at_most_64(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, WEFT_MSG_MAX);
	assert_int_equal(deficit(s), 64);
	post(s, WEFT_MSG_MAX + 1);
	s->sq[0].len = WEFT_MSG_MAX + 1; /* will be an error: one token finds out */
	assert_int_equal(deficit(s), 2);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claim__cuts_messages_into_segments),
		cmocka_unit_test(packets__over_the_wrap),
		cmocka_unit_test(idle__nothing_queued_or_lost),
		cmocka_unit_test(claim__stops_at_the_window),
		cmocka_unit_test(claim__stops_at_the_psn_window),
		cmocka_unit_test(claim__window_opens_when_the_hole_is_sacked),
		cmocka_unit_test(claim__waits_for_a_token_in_the_slot),
		cmocka_unit_test(claim__stale_producer_is_empty),
		cmocka_unit_test(claim__corrupt_producer_is_an_error),
		cmocka_unit_test(claim__oversized_message_is_an_error),
		cmocka_unit_test(claim__keeps_a_private_copy),
		cmocka_unit_test(claim__oldest_lost_first),
		cmocka_unit_test(claim__tries_saturate),
		cmocka_unit_test(first_lost__in_the_wrapped_word),
		cmocka_unit_test(deficit__counts_lost_and_queued),
		cmocka_unit_test(deficit__at_most_64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
