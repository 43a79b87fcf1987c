/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of what is free of strict order: which segments are, when the others go, and where. */
#include "test_core_util.h"

#define SEGS WEFT_FREE_SEGS /* of the shortest message that is worth it */

static struct sender *free_new(__u32 psn0, __u32 nev)
{
	struct sender *s = sender_new(psn0, nev);

	s->tx.strict = s->tx.frees = 1;
	return s;
}

/* WRITEs that have nothing in common, one behind the other. */
static void post_apart(struct sender *s, __u32 segs)
{
	struct weft_wqe *q = &s->sq[s->prod & s->tx.sq_mask];

	post(s, segs * PAYLOAD);
	q->roff = (__u64)s->prod << 32;
}

static __u32 goes(struct sender *s, __u32 dom, __u32 now)
{
	struct weft_seg seg;

	assert_int_equal(claim(s, now, dom, &seg), WEFT_CLAIM_OK);
	return seg.psn;
}

static void refused(struct sender *s, __u32 psn, __u32 cum, __u32 now)
{
	struct weft_ack a = { .psn = psn,
			      .ts = s->sent_at[psn & 0xffff],
			      .cum = cum,
			      .sack_base = psn & ~63u,
			      .seq = 1 };

	assert_int_equal(ack_raw(s, a, now), 0);
}

/* All but the end of a message that is long enough; it alone keeps to one path. */
static void free__all_but_the_end(void **state)
{
	(void)state;
	for (__u32 segs = SEGS - 1; segs < 2 * SEGS; segs++) {
		struct sender *s = free_new(-5u, 4);
		struct weft_seg seg;
		__u32 paths = 0;

		post_apart(s, segs);
		for (__u32 i = 0; i < segs; i++) {
			int end = i == segs - 1, apart = segs >= SEGS && !end;

			assert_int_equal(claim(s, T0, 0, &seg), WEFT_CLAIM_OK);
			assert_int_equal(seg.flags,
					 (end ? WEFT_F_LAST : 0) | (apart ? WEFT_F_FREE : 0));
			assert_int_equal(weft_tx_is_free(&s->tx, seg.psn), apart);
			paths |= 1u << seg.ev;
			if (!apart)
				assert_int_equal(seg.ev, 0);
		}
		assert_int_equal(paths, segs < SEGS ? 1 : 0xf);
		/* sent again they are what they were */
		assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
		assert_int_equal(claim(s, T0 + WEFT_RTO_INIT + 1, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.flags, WEFT_F_RETX | (segs >= SEGS ? WEFT_F_FREE : 0));
		test_free(s);
	}
}

/* A peer that does not know of it, and relaxed order, have none. */
static void free__only_if_agreed(void **state)
{
	(void)state;
	for (__u32 strict = 0; strict < 2; strict++) {
		struct sender *s = sender_new(7, 4);

		s->tx.strict = strict;
		post_apart(s, 2 * SEGS);
		for (__u32 i = 0; i < 2 * SEGS; i++)
			assert_false(weft_tx_is_free(&s->tx, goes(s, 0, T0)));
		test_free(s);
	}
}

#define AT   100000u
#define LEN  (SEGS * PAYLOAD)
#define MINE 9u

/* What comes first is under way; is what follows, a WRITE to [AT, AT + LEN) by key MINE, free? */
static const struct {
	__u16 op;
	__u32 key, roff, len;
	int apart;
} before[] = {
	{ WEFT_WQE_WRITE, MINE, AT - LEN, LEN, 1 },
	{ WEFT_WQE_WRITE, MINE, AT - LEN, LEN + 1, 0 },
	{ WEFT_WQE_WRITE, MINE, AT + LEN, LEN, 1 },
	{ WEFT_WQE_WRITE, MINE, AT + LEN - 1, 1, 0 },
	{ WEFT_WQE_WRITE, MINE, AT + 50, 8, 0 },
	{ WEFT_WQE_WRITE, MINE, AT - 8, 2 * LEN, 0 },
	{ WEFT_WQE_WRITE, MINE, AT, LEN, 0 },
	{ WEFT_WQE_WRITE, MINE, AT + 50, 0, 0 },
	{ WEFT_WQE_WRITE, MINE + 1, AT + 2 * LEN, 8, 0 },
	{ WEFT_WQE_READ, MINE, AT - 100, 100, 1 },
	{ WEFT_WQE_READ, MINE, AT - 100, 101, 0 },
	{ WEFT_WQE_READ, MINE + 1, 0, 8, 0 },
	{ WEFT_WQE_FADD, MINE, AT - 8, 8, 1 },
	{ WEFT_WQE_CSWAP, MINE, AT + LEN - 8, 8, 0 },
	{ WEFT_WQE_SEND, MINE, 0, 8, 0 },
};

static void post_at(struct sender *s, enum weft_wqe_op op, __u32 key, __u64 roff, __u32 len)
{
	struct weft_wqe *q = &s->sq[s->prod & s->tx.sq_mask];

	post_op(s, op, len);
	q->rkey = key;
	q->roff = roff;
}

static void free__not_what_meets(void **state)
{
	(void)state;
	for (__u32 i = 0; i < sizeof(before) / sizeof(*before); i++)
		for (__u32 behind = 0; behind < WEFT_FREE_OPEN; behind++) {
			struct sender *s = free_new(3, 1);
			__u32 first;

			/* others between them */
			post_at(s, before[i].op, before[i].key, before[i].roff, before[i].len);
			for (__u32 k = 0; k < behind; k++)
				post_at(s, WEFT_WQE_WRITE, MINE, (k + 1ull) << 33, 8);
			post_at(s, WEFT_WQE_WRITE, MINE, AT, LEN);
			while (s->tx.cons != behind + 1)
				goes(s, 0, T0);
			first = goes(s, 0, T0);
			if (weft_tx_is_free(&s->tx, first) != (__u32)before[i].apart)
				fail_msg("case %u, %u between", i, behind);
			test_free(s);
		}
}

/* What is complete does not count; with too many that are not, nothing is looked at. */
static void free__of_how_many(void **state)
{
	(void)state;
	for (__u32 n = 0; n <= WEFT_FREE_OPEN + 1; n++) {
		struct sender *s = free_new(3, 1);

		post_at(s, WEFT_WQE_WRITE, MINE, AT, 8);
		goes(s, 0, T0);
		assert_int_equal(ack(s, 3, 4, 1, 0, T0 + RTT), 0);
		for (__u32 k = 0; k < n; k++) {
			post_at(s, WEFT_WQE_WRITE, MINE, (k + 1ull) << 33, 8);
			goes(s, 0, T0 + RTT);
		}
		post_at(s, WEFT_WQE_WRITE, MINE, AT, LEN);
		assert_int_equal(weft_tx_is_free(&s->tx, goes(s, 0, T0 + RTT)),
				 n <= WEFT_FREE_OPEN);
		test_free(s);
	}
}

/* The end of a message, refused: it goes when all before it is delivered; free ones go on, others do not. */
static void end__waits(void **state)
{
	struct sender *s = free_new(0, 2);
	__u32 now = T0 + RTT;

	(void)state;
	post_apart(s, SEGS);
	post_apart(s, SEGS);
	post_apart(s, 1);
	for (__u32 i = 0; i < SEGS; i++)
		assert_int_equal(goes(s, i & 1, T0 + i), i);
	refused(s, SEGS - 1, 0, now);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(s->tx.losses, 0);
	/* the next message, to its end */
	for (__u32 i = 0; i < SEGS; i++)
		assert_int_equal(goes(s, i & 1, now), SEGS + i);
	assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_WINDOW);
	for (__u32 i = 1; i < SEGS - 1; i++) {
		assert_int_equal(ack(s, i, 0, 0, 0, now), 0);
		assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_WINDOW);
	}
	assert_int_equal(ack(s, 0, 0, 0, 0, now), 0);
	/* home, where that has tokens */
	assert_true(s->tx.dom[0].out > 0);
	assert_int_equal(claim(s, now, 1, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(goes(s, 0, now), SEGS - 1);
	/* behind it is the end of the other, which has not come home: nothing new in order yet */
	assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	refused(s, 2 * SEGS - 1, SEGS - 1, now);
	assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_WINDOW);
	for (__u32 i = SEGS; i < 2 * SEGS - 1; i++)
		assert_int_equal(ack(s, i, SEGS - 1, 0, 0, now), 0);
	/* both ends one behind the other, then what is new */
	assert_int_equal(goes(s, 0, now), 2 * SEGS - 1);
	assert_int_equal(goes(s, 0, now), 2 * SEGS);
	assert_int_equal(claim(s, now, 0, NULL), WEFT_CLAIM_EMPTY);
	test_free(s);
}

/* All that is left waits, and nothing is new: that is no claim of what was not posted. */
static void end__alone(void **state)
{
	struct sender *s = free_new(0, 1);

	(void)state;
	post_apart(s, SEGS);
	claim_n(s, SEGS, T0, 0);
	refused(s, SEGS - 1, 0, T0 + RTT);
	/* what an application may have left there */
	post_apart(s, SEGS);
	s->prod--;
	assert_int_equal(claim(s, T0 + RTT, 0, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(deficit(s), 0);
	/* tokens are lost, not packets: what is missing must be asked for */
	for (__u32 i = 0; i < SEGS - 1; i++)
		assert_int_equal(ack(s, i, 0, 0, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.inflight, 0);
	assert_int_equal(deficit(s), 1);
	assert_int_equal(goes(s, 3, T0 + RTT), SEGS - 1);
	test_free(s);
}

/* Two ends, refused, and nothing else is missing: one goes behind the other, without an answer between them. */
static void end__both(void **state)
{
	struct sender *s = free_new(0, 1);
	__u32 now = T0 + RTT;

	(void)state;
	post_apart(s, SEGS);
	post_apart(s, SEGS);
	claim_n(s, 2 * SEGS, T0, 0);
	refused(s, SEGS - 1, 0, now);
	refused(s, 2 * SEGS - 1, 0, now);
	for (__u32 i = 0; i < 2 * SEGS - 1; i++)
		if (i != SEGS - 1)
			assert_int_equal(ack(s, i, 0, 0, 0, now), 0);
	assert_int_equal(deficit(s), 2);
	assert_int_equal(goes(s, 0, now), SEGS - 1);
	assert_int_equal(goes(s, 0, now), 2 * SEGS - 1);
	test_free(s);
}

/*
 * While an end is to go again what is new in order is no reason for tokens, and what is free is; of those lost,
 * what is free may go, until it has gone.
 */
static void end__asks_for_no_more(void **state)
{
	struct sender *s = free_new(0, 1);
	__u32 now = T0 + RTT;

	(void)state;
	post_apart(s, SEGS);
	post_apart(s, SEGS);
	claim_n(s, 2 * SEGS, T0, 0);
	refused(s, SEGS - 1, 0, now);
	/* the other end is out and its refusal to come home: it goes back for both */
	assert_true(weft_tx_goes_back(&s->tx));
	post_apart(s, 1);
	assert_int_equal(deficit(s), 0);
	s->prod--;
	post_apart(s, SEGS);
	assert_int_equal(deficit(s), SEGS);
	s->prod--;
	/* free ones are lost */
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_true(s->tx.nfree > 0);
	for (__u32 i = s->tx.nfree; i; i--) {
		assert_int_equal(s->tx.nfree, i);
		assert_true(weft_tx_is_free(&s->tx, goes(s, 1, T0 + WEFT_RTO_INIT + 1)));
	}
	assert_int_equal(s->tx.nfree, 0);
	test_free(s);
}

/* There was no receive for what is in order: the probe is that, not what is free behind it, whoever asks. */
static void home__probes(void **state)
{
	struct weft_ack a = { .psn = 0, .ts = T0, .rnr = 1, .flags = WEFT_F_RQ, .epoch = 5 };
	struct sender *s = free_new(0, 1);
	__u32 now = T0 + WEFT_RTO_MAX;
	struct weft_seg seg;

	(void)state;
	post_at(s, WEFT_WQE_WRITE, MINE, 0, 8);
	s->sq[0].flags = WEFT_WQE_IMM;
	post_at(s, WEFT_WQE_WRITE, MINE, AT, LEN);
	assert_int_equal(goes(s, 0, T0), 0);
	for (__u32 i = 1; i <= SEGS; i++)
		assert_int_equal(goes(s, i < SEGS, T0), i);
	assert_true(weft_tx_is_free(&s->tx, 1));
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	assert_int_equal(timeout(s, now), 1);
	assert_int_equal(s->score.dom, 1);
	s->tx.rtt.backoff = 0;
	weft_tx_probe(&s->tx, now);
	assert_int_equal(claim(s, now, 1, &seg), WEFT_CLAIM_RNR);
	assert_int_equal(goes(s, 0, now), 0);
	assert_int_equal(claim(s, now, 0, &seg), WEFT_CLAIM_RNR);
	test_free(s);
}

/* The answer of a READ before it is missing, which is placed: the end of a message does not wait for that. */
static void end__behind_an_answer(void **state)
{
	struct sender *s = free_new(0, 1);
	__u32 now = T0 + RTT;

	(void)state;
	post_at(s, WEFT_WQE_READ, MINE, 0, 8);
	post_at(s, WEFT_WQE_WRITE, MINE, AT, LEN);
	claim_n(s, 1 + SEGS, T0, 0);
	refused(s, SEGS, 1, now);
	for (__u32 i = 1; i < SEGS; i++)
		assert_int_equal(ack(s, i, 1, 0, 0, now), 0);
	assert_int_equal(s->tx.una, 0);
	assert_int_equal(goes(s, 0, now), SEGS);
	test_free(s);
}

/* A lost free one is repaired as in relaxed order, from anywhere, and nothing goes back for it. */
static void lost__free(void **state)
{
	struct sender *s = free_new(0xfffffffa, 1);
	__u32 psn = 0xfffffffa;

	(void)state;
	post_apart(s, 3 * SEGS);
	for (__u32 i = 0; i < 2 * SEGS; i++)
		goes(s, 0, T0 + i);
	/* overtaken by less than a round trip: it may be late */
	assert_int_equal(ack(s, psn + 1, psn, 0, 0, T0 + RTT), 0);
	assert_int_equal(s->score.lost, 0);
	goes(s, 1, T0 + RTT);
	goes(s, 0, T0 + 3 * RTT);
	assert_int_equal(ack(s, s->tx.nxt - 1, psn, 0, 0, T0 + 4 * RTT), 0);
	assert_true(s->score.lost > 0);
	assert_int_equal(s->tx.back, s->tx.nxt);
	assert_true(deficit(s) > s->tx.nlost);
	assert_int_equal(goes(s, 1, T0 + 4 * RTT), psn);
	test_free(s);
}

/* Nor does what is new in order wait for it: nothing has been refused. */
static void lost__free_holds_nothing(void **state)
{
	struct sender *s = free_new(0, 1);

	(void)state;
	post_apart(s, SEGS);
	for (__u32 i = 0; i < SEGS; i++)
		goes(s, 0, T0 + i * RTT);
	assert_int_equal(ack(s, SEGS - 2, 0, 0, 0, T0 + SEGS * RTT), 0);
	assert_true(s->score.lost > 0);
	assert_int_equal(s->tx.back, s->tx.nxt);
	post_apart(s, 1);
	while (s->tx.nlost)
		goes(s, 0, T0 + SEGS * RTT);
	assert_int_equal(goes(s, 0, T0 + SEGS * RTT), SEGS);
	test_free(s);
}

/* The same where nothing is free: what is overtaken is lost. */
static void lost__in_order(void **state)
{
	struct sender *s = free_new(10, 1);

	(void)state;
	post_apart(s, SEGS);
	claim_n(s, SEGS, T0, 0);
	for (__u32 i = 0; i < SEGS; i++)
		assert_int_equal(ack(s, 10 + i, 11 + i, 0, 0, T0 + RTT), 0);
	for (__u32 i = 0; i < 3; i++) {
		post_apart(s, 1);
		goes(s, 0, T0 + RTT + i);
	}
	refused(s, 10 + SEGS + 1, 10 + SEGS, T0 + 2 * RTT);
	assert_int_equal(s->score.lost, 1);
	test_free(s);
}

/* Between an ACK and the repair that it asks for others claim: whose turn it was is of another age. */
static void turn__before_the_repair(void **state)
{
	struct sender *s = free_new(3 * WEFT_WIN, 1);
	struct weft_ack a = { .psn = 3 * WEFT_WIN,
			      .ts = T0,
			      .cum = 3 * WEFT_WIN,
			      .sack_base = 3 * WEFT_WIN,
			      .seq = 1 };
	struct weft_seg seg;

	(void)state;
	s->tx.turn = 2 * WEFT_WIN;
	post_apart(s, 2);
	claim_n(s, 2, T0, 0);
	assert_int_equal(weft_tx_ack(&s->tx, &a, T0 + RTT, 0, &s->score), 0);
	assert_int_equal(s->score.repair, 1);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(claim(s, T0 + RTT, 0, &seg), WEFT_CLAIM_WINDOW);
	weft_tx_repair(&s->tx, T0 + RTT, 0, &s->score);
	assert_int_equal(claim(s, T0 + RTT, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 3 * WEFT_WIN);
	test_free(s);
}

/* What is in order goes out from one domain, unless that has no tokens or nothing comes back. */
static void home__keeps_order(void **state)
{
	struct sender *s = free_new(0, 1);

	(void)state;
	s->tx.home = 2;
	for (__u32 i = 0; i < 5; i++)
		post_apart(s, 1);
	post_apart(s, SEGS);
	assert_int_equal(goes(s, 1, T0), 0);
	assert_int_equal(goes(s, 2, T0), 1);
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_WINDOW);
	s->tx.rtt.backoff = 1;
	assert_int_equal(goes(s, 1, T0), 2);
	s->tx.rtt.backoff = 0;
	assert_int_equal(claim(s, T0, 1, NULL), WEFT_CLAIM_WINDOW);
	assert_int_equal(goes(s, 2, T0), 3);
	assert_int_equal(goes(s, 2, T0), 4);
	/* what is free, and its end */
	for (__u32 i = 0; i < SEGS; i++)
		assert_int_equal(goes(s, 1, T0), 5 + i);
	test_free(s);
}

/* Is what is next to be sent from all domains? As far as it can be known. */
static void spread__guess(void **state)
{
	struct sender *s = free_new(0, 1);

	(void)state;
	post_apart(s, SEGS - 1);
	assert_false(weft_tx_spread(&s->tx, s->sq));
	claim_n(s, SEGS - 1, T0, 0);
	post_apart(s, SEGS);
	assert_true(weft_tx_spread(&s->tx, s->sq));
	goes(s, 0, T0);
	assert_true(weft_tx_spread(&s->tx, s->sq));
	claim_n(s, SEGS - 1, T0, 0);
	post_op(s, WEFT_WQE_SEND, LEN);
	assert_false(weft_tx_spread(&s->tx, s->sq));
	/* it has begun, and is in order after all: it meets what goes before */
	claim_n(s, SEGS, T0, 0);
	post_apart(s, SEGS);
	assert_true(weft_tx_spread(&s->tx, s->sq));
	goes(s, 0, T0);
	assert_false(weft_tx_spread(&s->tx, s->sq));
	s->tx.strict = 0;
	assert_true(weft_tx_spread(&s->tx, s->sq));
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free__all_but_the_end),
		cmocka_unit_test(free__only_if_agreed),
		cmocka_unit_test(free__not_what_meets),
		cmocka_unit_test(free__of_how_many),
		cmocka_unit_test(end__waits),
		cmocka_unit_test(end__alone),
		cmocka_unit_test(lost__free),
		cmocka_unit_test(lost__in_order),
		cmocka_unit_test(turn__before_the_repair),
		cmocka_unit_test(home__keeps_order),
		cmocka_unit_test(home__probes),
		cmocka_unit_test(spread__guess),
		cmocka_unit_test(end__both),
		cmocka_unit_test(end__asks_for_no_more),
		cmocka_unit_test(end__behind_an_answer),
		cmocka_unit_test(lost__free_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
