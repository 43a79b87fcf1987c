/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/tx_many.h: who joins a packet, until when, and what becomes of all of them. */
#include "test_core_util.h"

static struct sender *many_new(__u32 psn0)
{
	struct sender *s = sender_new(psn0, 1);

	s->tx.joins_writes = 1;
	return s;
}

static void post_n(struct sender *s, __u32 n, __u32 len)
{
	while (n--)
		post(s, len);
}

/* How many join the segment. */
static __u32 join(struct sender *s, struct weft_seg *seg, __u32 room)
{
	__u32 was = s->tx.cons, ends = s->tx.ends;
	__u64 msgs = s->tx.msgs, bytes = s->tx.bytes, sum = 0;

	weft_tx_join(&s->tx, ring_of(s, seg->msn), s->prod, room, seg);
	for (__u32 n = was; n != s->tx.cons; n++)
		sum += s->sq[n & s->tx.sq_mask].len;
	assert_int_equal(s->tx.ends - ends, s->tx.cons - was);
	assert_int_equal(s->tx.msgs - msgs, s->tx.cons - was);
	assert_int_equal(s->tx.bytes - bytes, sum);
	check_books(s);
	return s->tx.cons - was;
}

static void claim_one(struct sender *s, struct weft_seg *seg)
{
	assert_int_equal(claim(s, T0, 0, seg), WEFT_CLAIM_OK);
	assert_int_equal(seg->more, 0);
}

/* As many as there are, up to eight; they are complete with the ACK of their PSN. */
static void join__as_many(void **state)
{
	struct weft_seg seg;

	(void)state;
	for (__u32 n = 1; n <= 12; n++) {
		struct sender *s = many_new(0u - 1);
		__u32 want = n < WEFT_MANY ? n : WEFT_MANY;

		post_n(s, n, 64);
		claim_one(s, &seg);
		assert_true(weft_seg_joins(&seg));
		assert_int_equal(join(s, &seg, ~0u), want - 1);
		assert_int_equal(seg.more, want - 1);
		assert_int_equal(seg.len, 64);
		assert_int_equal(s->tx.nxt, 0);
		for (__u32 i = 0; i < want; i++) {
			assert_int_equal(s->tx.wqe[i].loff, 64 * i);
			assert_int_equal(s->tx.wqe[i].roff, 128 * i);
		}
		assert_int_equal(ack(s, 0u - 1, 0, want, 0, T0 + RTT), 0);
		assert_int_equal(s->tx.done, want);
		assert_int_equal(s->score.progress, want);
		test_free(s);
	}
}

static void join__room(void **state)
{
	struct weft_seg seg;

	(void)state;
	for (__u32 room = 16; room < 400; room++) {
		struct sender *s = many_new(0);
		__u32 fit = room / (16 + 40);

		post_n(s, 8, 40);
		claim_one(s, &seg);
		assert_int_equal(join(s, &seg, room), fit > 1 ? fit - 1 : 0);
		test_free(s);
	}
	/* nor more than a packet holds */
	struct sender *s = many_new(0);

	post_n(s, 8, 240);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), PAYLOAD / 256 - 1);
	test_free(s);
}

/* Is the segment of such a request one that others join? And does such a one join others? */
static void join__small_whole_writes(void **state)
{
	(void)state;
	for (int i = 0; i < 14; i++) {
		struct sender *s = many_new(0);
		struct weft_wqe *q;
		struct weft_seg seg;

		post_n(s, 2, 100);
		q = &s->sq[i % 2];
		switch (i / 2) {
		case 0: q->len = q->mlen = WEFT_MANY_LEN + 1; break;
		case 1: q->op = WEFT_WQE_SEND; break;
		case 2: q->op = WEFT_WQE_READ; break;
		case 3: q->flags = WEFT_WQE_IMM; break;
		case 4: q->mlen = 101; break;
		case 5: q->moff = 1, q->mlen = 101; break;
		default: q->len = q->mlen = WEFT_MANY_LEN;
		}
		claim_one(s, &seg);
		if (i % 2 == 0) {
			assert_int_equal(weft_seg_joins(&seg), i / 2 == 6);
			/* a datapath that asked all the same would have more in it than it says */
		} else {
			assert_true(weft_seg_joins(&seg));
			assert_int_equal(join(s, &seg, ~0u), i / 2 == 6);
		}
		test_free(s);
	}
}

/* Not when it has been sent, or another CPU has gone on, or nothing may go on. */
static void join__too_late(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		struct sender *s = many_new(0);
		struct weft_seg seg, other;
		__u32 want = 0;

		post_n(s, 4, 100);
		claim_one(s, &seg);
		switch (i) {
		case 0: claim_one(s, &other); break;
		case 1: weft_tx_convict(&s->tx, &s->tx.slot[weft_tx_at(0)], 0); break;
		case 2: /* convicted, and out again from elsewhere */
			weft_tx_convict(&s->tx, &s->tx.slot[weft_tx_at(0)], 0);
			assert_int_equal(claim(s, T0, 1, &other), WEFT_CLAIM_OK);
			assert_false(weft_seg_joins(&other));
			break;
		case 3: ack(s, 0, 1, 1, 0, T0 + RTT); break;
		case 4: s->tx.err = WEFT_TX_ERR_NAK; break;
		case 5: s->tx.rnr = 1; break;
		case 6: s->tx.joins_writes = 0; break;
		case 7: s->prod += WEFT_SQ_DEPTH - 3; break; /* more than the queue holds */
		default: want = 3;
		}
		assert_int_equal(join(s, &seg, ~0u), want);
		/* and once is enough */
		if (want)
			assert_false(weft_seg_joins(&seg));
		test_free(s);
	}
}

/* Nor when the peer has acknowledged what was never sent: the WRITE is complete, its token still out. */
static void join__acknowledged(void **state)
{
	/* by its cumulative PSN, or by a SACK with another still open before it */
	for (int lie = 0; lie < 3; lie++) {
		struct sender *s = many_new(0);
		struct weft_seg seg;

		post(s, 1000);
		post(s, 1000);
		claim_one(s, &seg);
		claim_one(s, &seg);
		post_n(s, 4, 100);
		claim_one(s, &seg);
		assert_int_equal(ack(s, lie == 2, lie == 1 ? 3 : 0, 1, (lie == 2) << 2, T0 + RTT),
				 0);
		assert_int_equal(join(s, &seg, ~0u), lie ? 0 : 3);
		test_free(s);
	}
	(void)state;
}

/* What is in the next ring does not join, nor what has no private copy. */
static void join__deep(void **state)
{
	struct sender *s = many_new(0);
	struct weft_seg seg;

	(void)state;
	s->tx.sq_mask = 1023;
	s->prod = s->tx.cons = s->tx.done = s->tx.ends = 253;
	post_n(s, 8, 30);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), 2);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), 4);
	test_free(s);

	s = many_new(0);
	s->tx.sq_mask = 1023;
	post_n(s, 400, 30);
	claim_n(s, WEFT_SQ_DEPTH - WEFT_SQ_SPARE - 3, T0, 0);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), 2);
	test_free(s);

	/* in a queue of one ring its end is nothing special */
	s = many_new(0);
	s->prod = s->tx.cons = s->tx.done = s->tx.ends = 253;
	post_n(s, 8, 30);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), 7);
	test_free(s);
}

/* I12: lost or rescued, it goes out as it was. */
static void join__again(void **state)
{
	struct sender *s = many_new(0);
	struct weft_seg seg, again;

	(void)state;
	post_n(s, 5, 77);
	claim_one(s, &seg);
	assert_int_equal(join(s, &seg, ~0u), 4);
	weft_tx_convict(&s->tx, &s->tx.slot[weft_tx_at(0)], 0);
	memset(s->sq, 0xff, sizeof(s->sq));
	assert_int_equal(claim(s, T0 + RTT, 0, &again), WEFT_CLAIM_OK);
	assert_int_equal(again.more, 4);
	assert_int_equal(again.msn, 0);
	assert_int_equal(again.len, 77);
	assert_int_equal(again.roff, seg.roff);
	assert_int_equal(again.moff, 0);
	assert_int_equal(again.flags, WEFT_F_LAST | WEFT_F_RETX);
	/* no other says that it is large */
	post(s, 3000);
	s->sq[5].op = s->sq[5].flags = s->sq[5].moff = 0;
	for (__u32 i = 0; i < 3; i++) {
		assert_int_equal(claim(s, T0 + RTT, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.more, 0);
		assert_int_equal(seg.moff, i * PAYLOAD);
	}
	test_free(s);
}

/* The NAK says which was refused: those before it are complete, once all before them are. */
static void nak__which(void **state)
{
	(void)state;
	for (__u32 nth = 0; nth < 7; nth++) {
		for (int older = 0; older < 2; older++) {
			struct sender *s = many_new(0);
			__u32 at = older + (nth < 5 ? nth : 0);
			struct weft_seg seg;

			if (older) {
				post(s, 3000 % PAYLOAD);
				claim_n(s, 1, T0, 0);
			}
			post_n(s, 5, 50);
			claim_one(s, &seg);
			join(s, &seg, ~0u);
			assert_int_equal(weft_tx_nak(&s->tx, older, WEFT_NAK_KEY, nth), 1);
			assert_int_equal(s->tx.err, WEFT_TX_ERR_NAK);
			assert_int_equal(s->tx.err_info, WEFT_NAK_KEY);
			assert_int_equal(s->tx.err_ssn, at);
			assert_int_equal(s->tx.done, older ? 0 : at);
			assert_int_equal(weft_slot_more(&s->tx.slot[weft_tx_at(older)]),
					 nth < 5 ? 4 - nth : 4);
			if (older) {
				ack(s, 0, 1, 1, 0, T0 + RTT);
				assert_int_equal(s->tx.done, at);
			}
			/* the first stands */
			assert_int_equal(weft_tx_nak(&s->tx, older, WEFT_NAK_PD, 0), 1);
			assert_int_equal(s->tx.err_info, WEFT_NAK_KEY);
			assert_int_equal(s->tx.err_ssn, at);
			assert_int_equal(weft_tx_nak(&s->tx, 7, WEFT_NAK_PD, 0), 0);
			test_free(s);
		}
	}
}

/* Packets, not messages; of what is large as many as there are. */
static void deficit__packets(void **state)
{
	static const __u32 queued[] = { 1, 2, 8, 9, 16, 17, 255 },
			   want[] = { 1, 1, 1, 2, 2, 3, 32 };

	(void)state;
	for (int i = 0; i < 7; i++) {
		struct sender *s = many_new(0);

		post_n(s, queued[i], WEFT_MANY_LEN);
		assert_int_equal(deficit(s), want[i]);
		s->tx.joins_writes = 0;
		assert_int_equal(deficit(s), queued[i] < 64 ? queued[i] : 64);
		s->tx.joins_writes = 1;
		s->sq[0].len = WEFT_MANY_LEN + 1;
		assert_int_equal(deficit(s), queued[i] < 64 ? queued[i] : 64);
		s->sq[0].len = 10;
		s->sq[queued[i] - 1].len = WEFT_MANY_LEN + 1;
		assert_int_equal(deficit(s), queued[i] < 64 ? queued[i] : 64);
		test_free(s);
	}
}

/* ---- the responder's count ---- */

static void many__counts(void **state)
{
	static struct weft_rx rx;
	__u32 sum = 0;

	(void)state;
	weft_rx_init(&rx, 0u - 40);
	/* last ones first, over several words, twice round the window */
	for (__u32 lap = 0; lap < 2 * WEFT_WIN; lap += 128) {
		__u32 base = lap - 40;

		for (__u32 i = 128; i--;) {
			__u32 n = 1 + (base + i) * 7 % 16;

			assert_int_equal(weft_rx_take(&rx, base + i), WEFT_RX_NEW);
			assert_int_equal(n > 1 ? weft_rx_keep_many(&rx, base + i, n)
					       : weft_rx_keep(&rx, base + i, WEFT_RX_ARRIVAL),
					 WEFT_RX_NEW);
			sum += n;
			weft_rx_commit(&rx, base + i);
			weft_rx_catch_up(&rx);
			assert_int_equal(rx.nlast, i ? 128 - i : 0);
		}
		assert_int_equal(rx.next, base + 128);
		assert_int_equal(rx.msn, sum);
	}
	for (int i = 0; i < WEFT_WIN_WORDS; i++) {
		assert_int_equal(rx.word[i].many, 0);
		for (int b = 0; b < WEFT_MANY_BITS; b++)
			assert_int_equal(rx.more[i][b], 0);
	}
}

/* I2: an advance has passed it between its two steps: given back, and nothing of it stays. */
static void many__given_back(void **state)
{
	static struct weft_rx rx;

	(void)state;
	weft_rx_init(&rx, 100);
	assert_int_equal(weft_rx_take(&rx, 105), WEFT_RX_NEW);
	rx.next = 110;
	assert_int_equal(weft_rx_keep_many(&rx, 105, 8), WEFT_RX_DUP);
	for (int i = 0; i < WEFT_WIN_WORDS; i++) {
		assert_int_equal(rx.word[i].claimed | rx.word[i].last | rx.word[i].many, 0);
		for (int b = 0; b < WEFT_MANY_BITS; b++)
			assert_int_equal(rx.more[i][b], 0);
	}
	assert_int_equal(rx.nlast, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join__as_many),
		cmocka_unit_test(join__room),
		cmocka_unit_test(join__small_whole_writes),
		cmocka_unit_test(join__too_late),
		cmocka_unit_test(join__acknowledged),
		cmocka_unit_test(join__deep),
		cmocka_unit_test(join__again),
		cmocka_unit_test(nak__which),
		cmocka_unit_test(deficit__packets),
		cmocka_unit_test(many__counts),
		cmocka_unit_test(many__given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
