/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/tx_rnr.h: what waits for a receive of the peer's, until when, and the probe. */
#include "test_core_util.h"

#define MIN WEFT_RNR_MIN

static struct sender *sender_of(__u32 psn0, __u32 rsn)
{
	struct sender *s = sender_new(psn0, 1);

	s->tx.rsn = rsn;
	return s;
}

static void post_n(struct sender *s, __u32 n, enum weft_wqe_op op)
{
	while (n--)
		post_op(s, op, 10);
}

/* The answer to psn's last transmission, with what the peer has posted. */
static void answer_rq(struct sender *s, __u32 psn, int rnr, __u32 epoch, __u32 now)
{
	struct weft_ack a = { .psn = psn,
			      .ts = s->sent_at[psn & 0xffff],
			      .cum = s->tx.una,
			      .sack_base = psn & ~63u,
			      .flags = WEFT_F_RQ,
			      .rnr = rnr,
			      .epoch = epoch };

	if (!rnr)
		a.sack = weft_psn_bit(psn);
	assert_int_equal(ack_raw(s, a, now), 0);
	assert_int_equal(s->score.lost, 0);
}

static void rnr(struct sender *s, __u32 psn, __u32 epoch, __u32 now)
{
	answer_rq(s, psn, 1, epoch, now);
}

static void took(struct sender *s, __u32 psn, __u32 epoch, __u32 now)
{
	answer_rq(s, psn, 0, epoch, now);
}

static void assert_waits(struct sender *s, __u32 now)
{
	assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_RNR);
	assert_int_equal(deficit(s), 0);
}

static void assert_goes(struct sender *s, __u32 psn, __u32 now)
{
	struct weft_seg seg;

	assert_true(deficit(s) > 0);
	assert_int_equal(claim(s, now, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, psn);
}

/* ---- what waits ---- */

static void rnr__blocks_all_behind(void **state)
{
	struct sender *s = sender_of(0xfffffffe, 0);

	(void)state;
	post_n(s, 3, WEFT_WQE_SEND);
	post_n(s, 9, WEFT_WQE_WRITE);
	claim_n(s, 4, T0, 0);
	rnr(s, 0xffffffff, 0, T0 + RTT);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(s->tx.losses, 0);
	assert_waits(s, T0 + RTT);
	/* a WRITE behind it that was lost waits as well, one before it does not */
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_int_equal(s->tx.nlost, 4);
	assert_int_equal(deficit(s), 1);
	assert_goes(s, 0xfffffffe, T0 + WEFT_RTO_INIT + 1);
	assert_waits(s, T0 + WEFT_RTO_INIT + 1);
	weft_tx_resume(&s->tx, 1, T0 + WEFT_RTO_INIT + 2);
	assert_int_equal(deficit(s), 3 + 8);
	assert_goes(s, 0xffffffff, T0 + WEFT_RTO_INIT + 2);
	assert_goes(s, 0, T0 + WEFT_RTO_INIT + 2);
	assert_goes(s, 1, T0 + WEFT_RTO_INIT + 2);
	assert_goes(s, 2, T0 + WEFT_RTO_INIT + 2);
	test_free(s);
}

/* The first refused counts, whichever is told first; of a WRITE with immediate data the rest is repaired. */
static void rnr__from_the_first_on(void **state)
{
	struct sender *s = sender_of(100, 7);
	struct weft_wqe *q = &s->sq[0];

	(void)state;
	post_op(s, WEFT_WQE_WRITE, 3 * PAYLOAD);
	q->flags = WEFT_WQE_IMM;
	post_n(s, 2, WEFT_WQE_SEND);
	claim_n(s, 5, T0, 0);
	rnr(s, 104, 7, T0 + RTT);
	rnr(s, 102, 7, T0 + RTT);
	rnr(s, 103, 7, T0 + RTT);
	assert_int_equal(s->tx.rnr_psn, 102);
	assert_waits(s, T0 + RTT);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + WEFT_TICKS_US(1000)), 1);
	assert_int_equal(deficit(s), 2);
	assert_goes(s, 100, T0 + WEFT_RTO_INIT);
	assert_goes(s, 101, T0 + WEFT_RTO_INIT);
	assert_waits(s, T0 + WEFT_RTO_INIT);
	test_free(s);
}

static void rnr__numbers_and_flags_of_segments(void **state)
{
	struct sender *s = sender_of(0, 0xffffffff);
	struct weft_seg seg;

	(void)state;
	post_op(s, WEFT_WQE_SEND, 2 * PAYLOAD);
	post_op(s, WEFT_WQE_WRITE, 10);
	post_op(s, WEFT_WQE_WRITE, 10);
	s->sq[2].flags = WEFT_WQE_IMM | WEFT_WQE_SOL;
	post_op(s, WEFT_WQE_SEND, 0);
	for (__u32 i = 0; i < 5; i++) {
		static const __u32 rsn[] = { 0xffffffff, 0xffffffff, 0, 0, 1 };
		static const __u8 last[] = { 0, 1, 1, 1, 1 };

		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.asn, rsn[i]);
		assert_int_equal(seg.wflags, i == 3 ? WEFT_WQE_IMM | WEFT_WQE_SOL : 0);
		assert_int_equal(seg.flags & WEFT_F_LAST, last[i] ? WEFT_F_LAST : 0);
	}
	assert_int_equal(s->tx.rsn, 2);
	assert_int_equal(seg.operand, 1000 + 4);
	test_free(s);
}

/* One message in parts takes one receive. */
static void rnr__parts_take_one(void **state)
{
	struct sender *s = sender_of(0, 0);
	struct weft_seg seg;

	(void)state;
	post_part(s, 0, 10, 30);
	post_part(s, 10, 20, 30);
	s->sq[0].op = s->sq[1].op = WEFT_WQE_SEND;
	post_op(s, WEFT_WQE_SEND, 1);
	for (__u32 i = 0; i < 3; i++) {
		assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.asn, i / 2);
	}
	test_free(s);
}

/* READs and atomics bring nothing along. */
static void rnr__flags_of_others_are_corrupt(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_op(s, WEFT_WQE_READ, 8);
	s->sq[0].flags = WEFT_WQE_IMM;
	assert_int_equal(claim(s, T0, 0, NULL), WEFT_CLAIM_ERROR);
	assert_int_equal(s->tx.err, WEFT_TX_ERR_RING);
	test_free(s);
}

/* ---- news in any order ---- */

static void resume__before_the_refusal(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 1, WEFT_WQE_SEND);
	claim_n(s, 1, T0, 0);
	weft_tx_resume(&s->tx, 1, T0 + 5);
	rnr(s, 0, 0, T0 + RTT);
	assert_int_equal(s->tx.rnr, 0);
	assert_goes(s, 0, T0 + RTT);
	/* sent after that news: who tells of less now is not honest, and it waits */
	rnr(s, 0, 0, T0 + 2 * RTT);
	assert_waits(s, T0 + 2 * RTT);
	weft_tx_resume(&s->tx, 1, T0 + 2 * RTT);
	assert_waits(s, T0 + 2 * RTT);
	weft_tx_resume(&s->tx, 2, T0 + 2 * RTT);
	assert_goes(s, 0, T0 + 2 * RTT);
	test_free(s);
}

static void resume__twice_and_late(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 2, WEFT_WQE_SEND);
	claim_n(s, 2, T0, 0);
	rnr(s, 0, 3, T0 + RTT);
	rnr(s, 1, 3, T0 + RTT);
	weft_tx_resume(&s->tx, 2, T0 + RTT);
	weft_tx_resume(&s->tx, 3, T0 + RTT);
	assert_waits(s, T0 + RTT);
	weft_tx_resume(&s->tx, 5, T0 + RTT + 1);
	claim_n(s, 2, T0 + RTT + 1, 0);
	rnr(s, 1, 5, T0 + 2 * RTT);
	/* the copy of the first RESUME */
	weft_tx_resume(&s->tx, 5, T0 + 2 * RTT);
	weft_tx_resume(&s->tx, 4, T0 + 2 * RTT);
	assert_waits(s, T0 + 2 * RTT);
	test_free(s);
}

/* A refusal with newer news ends what was known of the older ones. */
static void rnr__with_news(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 4, WEFT_WQE_SEND);
	claim_n(s, 4, T0, 0);
	rnr(s, 0, 0xffffffff, T0 + RTT);
	rnr(s, 1, 0xffffffff, T0 + RTT);
	rnr(s, 2, 1, T0 + RTT);
	assert_int_equal(s->tx.rnr_psn, 2);
	assert_int_equal(deficit(s), 2);
	assert_goes(s, 0, T0 + RTT);
	assert_goes(s, 1, T0 + RTT);
	assert_waits(s, T0 + RTT);
	/* and so does the ACK of one that was taken */
	took(s, 0, 2, T0 + 2 * RTT);
	assert_goes(s, 2, T0 + 2 * RTT);
	test_free(s);
}

/* The count that is heard first may be anything. */
static void epoch__of_an_old_queue(void **state)
{
	static const __u32 first[] = { 0, 1, 0x7fffffff, 0x80000000, 0xc0000000, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
		struct sender *s = sender_of(0, 0);

		post_n(s, 1, WEFT_WQE_SEND);
		claim_n(s, 1, T0, 0);
		rnr(s, 0, first[i], T0 + RTT);
		assert_waits(s, T0 + RTT);
		weft_tx_resume(&s->tx, first[i] - 1, T0 + RTT);
		assert_waits(s, T0 + RTT);
		weft_tx_resume(&s->tx, first[i] + 1, T0 + RTT);
		assert_goes(s, 0, T0 + RTT);
		test_free(s);
	}
}

/* ---- what is delivered after all ---- */

static void rnr__of_what_is_delivered(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 2, WEFT_WQE_SEND);
	claim_n(s, 2, T0, 0);
	took(s, 0, 1, T0 + RTT);
	/* a copy that came before the receive, and was held up */
	rnr(s, 0, 0, T0 + RTT);
	assert_int_equal(s->tx.rnr, 0);
	assert_int_equal(s->tx.nlost, 0);
	test_free(s);
}

/* Another's ACK tells that it is there, without a word of receives: nothing waits any more. */
static void rnr__ends_with_its_delivery(void **state)
{
	struct sender *s = sender_of(0, 0);
	struct weft_seg seg;

	(void)state;
	post_n(s, 1, WEFT_WQE_SEND);
	post_n(s, 2, WEFT_WQE_WRITE);
	claim_n(s, 2, T0, 0);
	rnr(s, 0, 0, T0 + RTT);
	assert_int_equal(ack(s, 1, 0, 0, 3, T0 + RTT), 0);
	assert_int_equal(s->tx.rnr, 0);
	assert_int_equal(s->tx.una, 2);
	assert_int_equal(claim(s, T0 + RTT, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 2);
	test_free(s);
}

/* It was convicted, its answer comes after all and is a refusal: it stays lost, once. */
static void rnr__of_what_was_convicted(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 1, WEFT_WQE_SEND);
	claim_n(s, 1, T0, 0);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_int_equal(s->tx.nlost, 1);
	rnr(s, 0, 0, T0 + WEFT_RTO_INIT + 2);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(weft_slot_state(&s->tx.slot[weft_tx_at(0)]), WEFT_SLOT_LOST);
	assert_waits(s, T0 + WEFT_RTO_INIT + 2);
	/* and that of the older of two: the newer's token is a surplus then */
	weft_tx_resume(&s->tx, 1, T0 + WEFT_RTO_INIT + 2);
	assert_goes(s, 0, T0 + WEFT_RTO_INIT + 3);
	took(s, 0, 1, T0 + WEFT_RTO_INIT + RTT);
	assert_int_equal(s->tx.una, 1);
	test_free(s);
}

/* ---- the probe ---- */

static void probe__in_growing_intervals(void **state)
{
	__u32 now = (__u32)-1000;
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 3, WEFT_WQE_SEND);
	claim_n(s, 3, now, 0);
	for (__u32 i = 0; i < 3; i++)
		rnr(s, i, 0, now);
	for (__u32 n = 0; n < 12; n++) {
		__u32 wait = MIN << (n < WEFT_RNR_SHIFT ? n : WEFT_RNR_SHIFT);

		weft_tx_probe(&s->tx, now + wait - 1);
		assert_waits(s, now + wait - 1);
		now += wait;
		weft_tx_probe(&s->tx, now);
		assert_int_equal(s->tx.probes, n + 1);
		assert_int_equal(deficit(s), 1);
		assert_goes(s, 0, now);
		/* one packet, and nothing new while it is away */
		assert_waits(s, now);
		weft_tx_probe(&s->tx, now + 1);
		assert_waits(s, now);
		rnr(s, 0, 0, now + RTT);
	}
	/* taken: from the beginning */
	weft_tx_probe(&s->tx, now + 100 * MIN);
	assert_goes(s, 0, now + 100 * MIN);
	took(s, 0, 1, now + 100 * MIN + RTT);
	assert_int_equal(s->tx.probes, 0);
	assert_int_equal(s->tx.rnr, 0);
	assert_goes(s, 1, now + 100 * MIN + RTT);
	test_free(s);
}

/* The only one that was refused is away as a probe: nothing is lost, and what is new waits. */
static void probe__nothing_new_beside_it(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 1, WEFT_WQE_SEND);
	claim_n(s, 1, T0, 0);
	post_n(s, 5, WEFT_WQE_WRITE);
	rnr(s, 0, 0, T0 + RTT);
	weft_tx_probe(&s->tx, T0 + RTT + MIN);
	assert_goes(s, 0, T0 + RTT + MIN);
	assert_int_equal(s->tx.nlost, 0);
	assert_waits(s, T0 + RTT + MIN);
	/* it gets lost: the next one has its time */
	assert_int_equal(timeout(s, T0 + RTT + MIN + WEFT_RTO_INIT + 1), 1);
	assert_waits(s, T0 + RTT + MIN + WEFT_RTO_INIT + 1);
	weft_tx_probe(&s->tx, T0 + RTT + MIN + WEFT_RTO_INIT + 1);
	assert_goes(s, 0, T0 + RTT + MIN + WEFT_RTO_INIT + 1);
	test_free(s);
}

/* What is older and lost needs none, and uses none up. */
static void probe__not_for_what_is_older(void **state)
{
	struct sender *s = sender_of(0, 0);

	(void)state;
	post_n(s, 1, WEFT_WQE_WRITE);
	post_n(s, 1, WEFT_WQE_SEND);
	claim_n(s, 2, T0, 0);
	rnr(s, 1, 0, T0 + RTT);
	weft_tx_probe(&s->tx, T0 + RTT + MIN);
	assert_int_equal(s->tx.probe, 1);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_int_equal(deficit(s), 2);
	assert_goes(s, 0, T0 + WEFT_RTO_INIT + 1);
	assert_goes(s, 1, T0 + WEFT_RTO_INIT + 1);
	rnr(s, 1, 0, T0 + WEFT_RTO_INIT + RTT);
	assert_int_equal(timeout(s, T0 + 4 * WEFT_RTO_INIT), 1);
	weft_tx_probe(&s->tx, T0 + 4 * WEFT_RTO_INIT);
	assert_int_equal(s->tx.probes, 1);
	assert_int_equal(deficit(s), 1);
	test_free(s);
}

/* ---- I10 ---- */

static void deficit__over_many_words(void **state)
{
	struct sender *s = sender_of(30, 0);

	(void)state;
	post_n(s, 200, WEFT_WQE_SEND);
	claim_n(s, 200, T0, 0);
	for (__u32 psn = 30; psn < 230; psn++)
		rnr(s, psn, psn < 200 ? 0 : 1, T0 + RTT);
	assert_int_equal(s->tx.rnr_psn, 200);
	assert_int_equal(deficit(s), 64);
	assert_int_equal(weft_tx_lost_ready(&s->tx), 170);
	claim_n(s, 130, T0 + RTT, 0);
	assert_int_equal(deficit(s), 40);
	/* the probe is one more; within the window, all of them */
	s->tx.probe = 1;
	assert_int_equal(deficit(s), 41);
	s->wnd = 135;
	assert_int_equal(deficit(s), 5);
	s->wnd = WEFT_CWND_MAX;
	claim_n(s, 41, T0 + RTT, 0);
	assert_waits(s, T0 + RTT);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr__blocks_all_behind),
		cmocka_unit_test(rnr__from_the_first_on),
		cmocka_unit_test(rnr__numbers_and_flags_of_segments),
		cmocka_unit_test(rnr__parts_take_one),
		cmocka_unit_test(rnr__flags_of_others_are_corrupt),
		cmocka_unit_test(resume__before_the_refusal),
		cmocka_unit_test(resume__twice_and_late),
		cmocka_unit_test(rnr__with_news),
		cmocka_unit_test(epoch__of_an_old_queue),
		cmocka_unit_test(rnr__of_what_is_delivered),
		cmocka_unit_test(rnr__ends_with_its_delivery),
		cmocka_unit_test(rnr__of_what_was_convicted),
		cmocka_unit_test(probe__in_growing_intervals),
		cmocka_unit_test(probe__nothing_new_beside_it),
		cmocka_unit_test(probe__not_for_what_is_older),
		cmocka_unit_test(deficit__over_many_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
