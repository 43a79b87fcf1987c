/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of strict order in the core's requester: a SEQ is sent again and blames nobody. */
#include "test_core_util.h"

static struct weft_rx rx; /* the peer's */

static struct sender *strict_new(__u32 psn0)
{
	struct sender *s = sender_new(psn0, 1);

	s->tx.strict = 1;
	return s;
}

/* The answer to psn as sent at ts, of a peer that has everything before cum. */
static void hear_at(struct sender *s, __u32 psn, __u32 ts, __u32 cum, int seq, __u32 now)
{
	struct weft_ack a = {
		.psn = psn, .ts = ts, .cum = cum, .sack_base = psn & ~63u, .seq = seq
	};

	assert_int_equal(ack_raw(s, a, now), 0);
}

/* The answer to its last transmission. */
static void hear(struct sender *s, __u32 psn, __u32 cum, int seq, __u32 now)
{
	hear_at(s, psn, s->sent_at[psn & 0xffff], cum, seq, now);
}

static void goes(struct sender *s, __u32 psn, int again, __u32 now)
{
	struct weft_seg seg;

	assert_int_equal(claim(s, now, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, psn);
	assert_int_equal(!!(seg.flags & WEFT_F_RETX), again);
}

static void seq__blames_nobody(void **state)
{
	struct sender *s = strict_new(0xfffffffe);
	struct weft_path path;

	(void)state;
	post(s, 6 * PAYLOAD);
	claim_n(s, 4, T0, 0);
	path = s->tx.path;
	for (__u32 i = 4; i--;) {
		hear(s, 0xfffffffe + i, 0xfffffffe, 1, T0 + RTT);
		assert_int_equal(s->score.freed, 1);
		assert_int_equal(s->score.lost, 0);
		assert_int_equal(s->score.surplus, 0);
		assert_int_equal(s->score.progress, 0);
	}
	assert_int_equal(s->tx.nlost, 4);
	assert_int_equal(s->tx.losses, 0);
	assert_int_equal(s->tx.spurious, 0);
	assert_int_equal(s->tx.rnr, 0);
	assert_int_equal(s->tx.una, 0xfffffffe);
	assert_memory_equal(&s->tx.path, &path, sizeof(path));
	for (__u32 i = 0; i < 6; i++) /* in their order, before what is new */
		goes(s, 0xfffffffe + i, i < 4, T0 + RTT + 1);
	test_free(s);
}

/* The peer took what is before cum, and told with a SEQ. */
static void seq__tells_what_is_placed(void **state)
{
	struct sender *s = strict_new(60);

	(void)state;
	post(s, PAYLOAD);
	post(s, 4 * PAYLOAD);
	claim_n(s, 5, T0, 0);
	hear(s, 64, 62, 1, T0 + RTT);
	assert_int_equal(s->tx.una, 62);
	assert_int_equal(s->score.progress, 1);
	/* the token of 61 is still to come, and is no loss */
	hear(s, 61, 62, 0, T0 + RTT);
	assert_int_equal(s->tx.nlost, 1);
	test_free(s);
}

/*
 * The tokens of a window in a pipe that keeps their order: each that comes home takes the next along. At
 * `at` the pipe is disturbed once. What is missing of the window is made up for in fours, as by clones,
 * whenever the sender asks for it.
 */
enum { PIPE = 128, TRIPS = 8 };

struct trip {
	__u32 psn, ts;
};

static struct trip line[PIPE * (TRIPS + 2) * 2];

static struct sender *pipe_run(__u32 first, __u32 at, void (*disturb)(struct trip *t))
{
	struct sender *s = strict_new(first);
	__u32 head = 0, tail = 0, now = T0, arrived = 0;
	struct weft_seg seg;

	s->wnd = PIPE;
	weft_rx_init(&rx, first);
	for (__u32 i = 0; i < TRIPS; i++)
		post(s, PIPE * PAYLOAD);
	while (weft_tx_deficit(&s->tx, s->sq, s->prod, s->wnd)) {
		assert_int_equal(claim(s, ++now, 0, &seg), WEFT_CLAIM_OK);
		line[tail++] = (struct trip){ seg.psn, now };
	}
	assert_int_equal(tail, PIPE);
	while (head != tail) {
		struct trip t;
		int seq;

		if (arrived++ == at)
			disturb(&line[head]);
		t = line[head++];
		if (t.psn == first - 1)
			continue;
		now += 2;
		seq = weft_rx_take_next(&rx, t.psn) == WEFT_RX_SEQ;
		if (rx.next == t.psn) {
			weft_rx_keep(&rx, t.psn, WEFT_RX_MORE);
			weft_rx_commit(&rx, t.psn);
			weft_rx_catch_up(&rx);
		}
		hear_at(s, t.psn, t.ts, rx.next, seq, now);
		for (__u32 n = 0; n < 4; n++) {
			if (n && !weft_tx_deficit(&s->tx, s->sq, s->prod, s->wnd))
				break;
			if (claim(s, now, 0, &seg) != WEFT_CLAIM_OK)
				break;
			assert_true(tail < sizeof(line) / sizeof(line[0]));
			line[tail++] = (struct trip){ seg.psn, now };
		}
	}
	/* all of it went through, and no timer had to look */
	assert_int_equal(rx.next, first + TRIPS * PIPE);
	assert_int_equal(s->tx.una, rx.next);
	assert_int_equal(s->tx.done, TRIPS);
	assert_int_equal(s->tx.inflight, 0);
	return s;
}

static void one_lost(struct trip *t)
{
	t->psn = 0xffffffc0 - 1;
}

/* Clones that went out ahead of what was claimed before them. */
static void overtaken(struct trip *t)
{
	struct trip late[8];

	memcpy(late, t, sizeof(late));
	memmove(t, t + 8, sizeof(late));
	memcpy(t + 8, late, sizeof(late));
}

/* One lost of a window: it and what was behind it goes again, once. */
static void seq__goes_back_once(void **state)
{
	(void)state;
	for (__u32 at = 17; at < 3 * PIPE; at += PIPE - 1) {
		struct sender *s = pipe_run(0xffffffc0, at, one_lost);

		assert_int_equal(s->tx.losses, 1);
		assert_int_equal(s->tx.spurious, 0);
		assert_int_equal(s->tx.retransmits, PIPE);
		test_free(s);
	}
}

/* Some come too early once: all is in order again after a window, not every other one early for ever. */
static void seq__order_comes_back(void **state)
{
	(void)state;
	for (__u32 at = 0; at < 3 * PIPE; at += 31) {
		struct sender *s = pipe_run(0xffffffc0, at, overtaken);

		assert_in_range(s->tx.retransmits, 8, PIPE + 16);
		test_free(s);
	}
}

/* Sent again, and lost again. */
static void seq__goes_back_further(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post(s, 8 * PAYLOAD);
	for (__u32 i = 0; i < 5; i++)
		goes(s, i, 0, T0 + i);
	/* 0 is lost */
	hear(s, 1, 0, 1, T0 + RTT);
	goes(s, 0, 1, T0 + RTT + 1);
	/* 1 goes when what went before it has come home, and nothing new before that */
	assert_int_equal(s->tx.back, 1);
	hear(s, 2, 0, 1, T0 + RTT + 2);
	goes(s, 1, 1, T0 + RTT + 3);
	assert_int_equal(weft_tx_deficit(&s->tx, s->sq, s->prod, 8), 0);
	hear(s, 3, 0, 1, T0 + RTT + 4);
	goes(s, 2, 1, T0 + RTT + 5);
	hear(s, 4, 0, 1, T0 + RTT + 6);
	goes(s, 3, 1, T0 + RTT + 7);
	/* all that was refused is home */
	assert_int_equal(weft_tx_deficit(&s->tx, s->sq, s->prod, 8), 4);
	/* 0 arrives, 1 is lost again */
	hear(s, 0, 1, 0, T0 + 2 * RTT);
	goes(s, 4, 1, T0 + 2 * RTT + 1);
	hear(s, 2, 1, 1, T0 + 2 * RTT + 2);
	assert_int_equal(s->score.lost, 1);
	assert_int_equal(s->tx.back, 1);
	goes(s, 1, 1, T0 + 2 * RTT + 3);
	goes(s, 2, 1, T0 + 2 * RTT + 3);
	assert_int_equal(claim(s, T0 + 2 * RTT + 4, 0, NULL), WEFT_CLAIM_WINDOW);
	test_free(s);
}

/* The gap is of another CPU's, which has yet to say whether that is lost. */
static void seq__gap_elsewhere(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post(s, 4 * PAYLOAD);
	claim_n(s, 1, T0, 1);
	claim_n(s, 2, T0 + 1, 0);
	hear(s, 1, 0, 1, T0 + RTT);
	assert_int_equal(s->tx.back, 0);
	assert_int_equal(claim(s, T0 + RTT, 0, NULL), WEFT_CLAIM_WINDOW);
	hear(s, 0, 1, 0, T0 + RTT + 1);
	goes(s, 1, 1, T0 + RTT + 1);
	test_free(s);
}

/* The SEQ of an earlier transmission: the later one is still out. */
static void seq__of_an_older_one(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post(s, 3 * PAYLOAD);
	goes(s, 0, 0, T0);
	goes(s, 1, 0, T0 + 1);
	hear(s, 1, 0, 1, T0 + RTT);
	claim_n(s, 2, T0 + RTT + 1, 0);
	hear_at(s, 1, T0 + 1, 0, 1, T0 + RTT + 2);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->score.freed, 0);
	assert_int_equal(s->tx.inflight, 2);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.back, 2);
	test_free(s);
}

/* The answer of a READ is lost, not the READ: it alone goes again, and nothing waits for that. */
static void strict__answer_lost(void **state)
{
	(void)state;
	/* what is behind it is placed: so is it, whether the peer's cumulative PSN is up to date or not */
	for (__u32 cum = 0; cum < 3; cum += 2) {
		struct sender *s = strict_new(0);

		post_op(s, WEFT_WQE_READ, 8);
		post(s, 4 * PAYLOAD);
		for (__u32 i = 0; i < 4; i++)
			claim_n(s, 1, T0 + i, 0);
		hear(s, 1, cum, 0, T0 + RTT);
		assert_int_equal(s->score.lost, 1);
		assert_int_equal(s->tx.back, 4);
		goes(s, 0, 1, T0 + RTT);
		goes(s, 4, 0, T0 + RTT);
		hear(s, 2, 3, 0, T0 + RTT);
		hear(s, 3, 4, 0, T0 + RTT);
		/* nor does the refusal of a stray copy change that */
		hear(s, 0, 2, 1, T0 + 2 * RTT);
		assert_int_equal(s->tx.nlost, 1);
		assert_int_equal(s->tx.back, 5);
		goes(s, 0, 1, T0 + 2 * RTT);
		test_free(s);
	}
}

/* What is overtaken on the one path is lost, at once; where order is relaxed it may just be late. */
static void strict__overtaken_is_lost(void **state)
{
	(void)state;
	for (__u32 strict = 0; strict < 2; strict++) {
		struct sender *s = strict_new(10);

		s->tx.strict = strict;
		post(s, 5 * PAYLOAD);
		for (__u32 i = 0; i < 5; i++) {
			s->tx.home = i == 1;
			claim_n(s, 1, T0 + 2 * i, i == 1);
		}
		hear(s, 13, 10, strict, T0 + RTT);
		/* 10 and 12 are; 11 went out from another domain, of which that says nothing */
		assert_int_equal(s->score.lost, strict ? 2 : 0);
		assert_int_equal(s->tx.nlost, strict ? 3 : 0);
		assert_int_equal(s->tx.inflight, strict ? 2 : 4);
		if (strict) {
			goes(s, 10, 1, T0 + RTT);
			/* it was refused as well, and will say so */
			assert_int_equal(claim(s, T0 + RTT, 0, NULL), WEFT_CLAIM_WINDOW);
			hear(s, 11, 10, 1, T0 + RTT);
			for (__u32 i = 11; i < 14; i++)
				goes(s, i, 1, T0 + RTT);
		}
		test_free(s);
	}
}

/* A stray copy's SEQ, when the PSN is placed by now: nothing is sent again. */
static void seq__of_what_is_delivered(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post(s, 2 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	hear(s, 0, 1, 0, T0 + RTT);
	hear(s, 0, 1, 1, T0 + RTT);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->tx.nlost, 0);
	/* the cumulative PSN of the SEQ itself may say so */
	hear(s, 1, 2, 1, T0 + RTT);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.inflight, 0);
	assert_int_equal(s->tx.done, 1);
	/* and nothing is left to be lost */
	assert_int_equal(claim(s, T0 + RTT, 0, NULL), WEFT_CLAIM_EMPTY);
	test_free(s);
}

/* 7 was refused while another CPU placed 6: a SACK tells, the count does not yet, and the ACK of 6 is lost. */
static void seq__with_a_lagging_cum(void **state)
{
	struct sender *s = strict_new(6);
	struct weft_ack a = { .psn = 7, .ts = T0, .cum = 6, .sack = 1 << 6, .seq = 1 };

	(void)state;
	post(s, 2 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	goes(s, 7, 1, T0 + RTT);
	test_free(s);
}

/* It was convicted when its SEQ comes: it stays lost, once. */
static void seq__of_what_is_lost(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_int_equal(s->tx.nlost, 2);
	hear(s, 1, 0, 1, T0 + WEFT_RTO_INIT + 2);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->tx.nlost, 2);
	assert_int_equal(weft_slot_state(&s->tx.slot[weft_tx_at(1)]), WEFT_SLOT_LOST);
	goes(s, 0, 1, T0 + WEFT_RTO_INIT + 3);
	goes(s, 1, 1, T0 + WEFT_RTO_INIT + 3);
	goes(s, 2, 0, T0 + WEFT_RTO_INIT + 3);
	test_free(s);
}

/* READs and atomics: it is no answer, and what has its answer needs no other. */
static void seq__of_what_asks(void **state)
{
	struct sender *s = strict_new(0);

	(void)state;
	post_op(s, WEFT_WQE_READ, 8);
	post_op(s, WEFT_WQE_FADD, 8);
	claim_n(s, 2, T0, 0);
	hear(s, 1, 0, 1, T0 + RTT);
	hear(s, 0, 0, 1, T0 + RTT);
	assert_int_equal(s->tx.nlost, 2);
	assert_int_equal(s->tx.done, 0);
	goes(s, 0, 1, T0 + RTT);
	goes(s, 1, 1, T0 + RTT);
	/* its answer is on its way into memory while a stray copy's SEQ comes */
	assert_int_equal(take_answer(s, 0, 8), 1);
	hear(s, 0, 0, 1, T0 + 2 * RTT);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(answer(s, 0, 1, T0 + 2 * RTT), 0);
	assert_int_equal(s->tx.done, 1);
	test_free(s);
}

/* A peer that refuses what is free of order lies; it may go again before the repair, and is in the books. */
static void seq__of_what_is_free(void **state)
{
	struct sender *s = strict_new(0);
	struct weft_ack a = { .ts = T0, .seq = 1 };

	(void)state;
	s->tx.frees = 1;
	post(s, WEFT_FREE_SEGS * PAYLOAD);
	claim_n(s, 2, T0, 0);
	assert_int_equal(weft_tx_ack(&s->tx, &a, T0 + RTT, 0, &s->score), 0);
	assert_int_equal(s->score.repair, 1);
	assert_int_equal(s->tx.nfree, 1);
	goes(s, 0, 1, T0 + RTT);
	assert_int_equal(s->tx.nfree, 0);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seq__blames_nobody),
		cmocka_unit_test(seq__tells_what_is_placed),
		cmocka_unit_test(seq__goes_back_once),
		cmocka_unit_test(seq__order_comes_back),
		cmocka_unit_test(seq__goes_back_further),
		cmocka_unit_test(seq__gap_elsewhere),
		cmocka_unit_test(seq__of_an_older_one),
		cmocka_unit_test(strict__answer_lost),
		cmocka_unit_test(strict__overtaken_is_lost),
		cmocka_unit_test(seq__of_what_is_delivered),
		cmocka_unit_test(seq__of_what_is_lost),
		cmocka_unit_test(seq__of_what_asks),
		cmocka_unit_test(seq__of_what_is_free),
		cmocka_unit_test(seq__with_a_lagging_cum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
