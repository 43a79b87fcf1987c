/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of what is lent to a CPU: who takes it, what it stands for, and how it is taken away. */
#include "test_core_util.h"

#define OUT (2 * WEFT_LANE + 1) /* tokens of each domain: enough for something to be lent */
#define CPU 1                   /* of domain 0, + 1 */

/* A long message with OUT tokens of domain 0, the window full. */
static struct sender *lane_new(__u32 psn0, __u32 segs)
{
	struct sender *s = sender_new(psn0, 3);

	post(s, segs * PAYLOAD);
	s->wnd = OUT;
	claim_n(s, OUT, T0, 0);
	return s;
}

static struct weft_plain plain_of(const struct sender *s, __u32 psn, __u32 dom, __u32 who)
{
	return (struct weft_plain){
		.psn = psn, .ts = s->sent_at[psn & 0xffff], .cum = s->tx.una, .dom = dom, .who = who
	};
}

/* As tx_bulk() in bpf/tx.bpf.h: 2: without the lock, 1: with it, 0: it is for weft_tx_ack(). */
static int plain(struct sender *s, __u32 psn, __u32 who, __u32 now, struct weft_seg *seg)
{
	struct weft_plain p = plain_of(s, psn, 0, who);
	struct weft_tx *tx = &s->tx;

	if (weft_tx_ahead(tx, &p, seg) && weft_tx_go(tx, &p)) {
		s->sent_at[seg->psn & 0xffff] = p.now;
		check_books(s);
		return 2;
	}
	weft_tx_collect(tx, 0, who);
	check_books(s);
	if (!weft_tx_is_bulk(tx, &p, s->wnd, 0))
		return 0;
	assert_int_equal(weft_tx_bulk(tx, &p, now, s->wnd, seg), 1);
	s->sent_at[seg->psn & 0xffff] = now;
	check_books(s);
	return 1;
}

/* One ACK with the lock, then WEFT_LANE - 1 without; PSNs go on without a gap, and none is sent twice. */
static void lane__cycle(void **state)
{
	struct sender *s = lane_new(-7u, 40);
	__u32 bulk = 0, ahead = 0, full = 0;
	struct weft_seg seg;

	(void)state;
	for (__u32 i = 0; i + OUT < 40; i++) {
		__u32 now = T0 + RTT + i;

		switch (plain(s, -7u + i, CPU, now, &seg)) {
		case 2: ahead++; break;
		case 1: bulk++; break;
		default:
			full++;
			assert_int_equal(ack(s, -7u + i, s->tx.una, 0, 0, now), 0);
			assert_int_equal(claim(s, now, 0, &seg), WEFT_CLAIM_OK);
		}
		assert_int_equal(seg.psn, -7u + OUT + i);
		assert_int_equal(s->tx.inflight, OUT);
	}
	assert_true(bulk >= 3);
	assert_true(ahead > 2 * bulk);
	assert_true(full <= 3);
	/* all the others come home; nothing is left in the lane */
	for (__u32 i = 40 - OUT; i < 40; i++) {
		weft_tx_collect(&s->tx, 0, CPU);
		assert_int_equal(ack(s, -7u + i, s->tx.una, 0, 0, T0 + 2 * RTT), 0);
	}
	assert_int_equal(s->tx.inflight, 0);
	assert_int_equal(s->tx.una, s->tx.nxt);
	assert_int_equal(s->tx.done, 1);
	assert_int_equal(s->tx.losses, 0);
	assert_int_equal(s->tx.surplus, 0);
	assert_int_equal(weft_tx_packets(&s->tx), 40);
	test_free(s);
}

/* What is not as usual is not for it; each of these is, but for the one thing. */
static void lane__only_plain(void **state)
{
	(void)state;
	for (int i = 0; i < 23; i++) {
		struct sender *s = lane_new(0, 64);
		struct weft_plain p;
		__u32 wnd = OUT, share = 0;

		p = plain_of(s, 2, 0, CPU);
		switch (i) {
		case 0: break;
		case 1: s->tx.strict = 1; break;
		case 2: s->tx.rnr = 1; break;
		case 3: s->tx.err = WEFT_TX_ERR_NAK; break;
		case 4: s->tx.nlost = 1; break;
		case 5: p.ts--; break;
		case 6: p.dom = 1; break;
		case 7: p.psn -= WEFT_WIN; break;
		case 8: p.cum = s->tx.nxt + 1; break;
		case 9: s->tx.wqe[0].op = WEFT_WQE_READ; break;
		case 10: s->tx.wqe[0].flags = WEFT_WQE_IMM; break;
		case 11: wnd = OUT - 1; break;
		case 12: wnd = OUT + 2, share = OUT + 2; break;
		case 13: s->tx.lane[0].who = CPU + 1; break;
		case 14: s->tx.lane[0].who = WEFT_LANE_NONE; break;
		case 15: s->tx.una -= WEFT_WIN - WEFT_LANE; break;
		case 16: s->tx.dom[0].run_at = s->tx.dom[0].run_end; break;
		case 17: s->tx.dom[0].rack_ts = T0 + WEFT_TICKS_US(1000); break;
		case 18: s->tx.own[0] |= 1 << 2; break;
		case 19: weft_slot_set(&s->tx.slot[weft_tx_at(OUT)], WEFT_SLOT_OUT); break;
		case 20: weft_slot_set(&s->tx.slot[weft_tx_at(2)], WEFT_SLOT_IDLE); break;
		case 21: s->tx.lane[0].state = 1 << 8; break;
		case 22: s->tx.dom[0].out = WEFT_LANE; break;
		}
		assert_int_equal(weft_tx_is_bulk(&s->tx, &p, wnd, share), !i);
		test_free(s);
	}
}

/* Without the lock only the CPU that it is lent to takes it, for a plain ACK of its own tokens. */
static void lane__whose(void **state)
{
	struct sender *s = lane_new(0, 64);
	struct weft_seg seg;
	struct weft_plain p;

	(void)state;
	assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
	p = plain_of(s, 1, 0, CPU + 1);
	assert_false(weft_tx_ahead(&s->tx, &p, &seg));
	p = plain_of(s, 1, 1, CPU);
	assert_false(weft_tx_ahead(&s->tx, &p, &seg));
	s->tx.own[0] |= 2;
	p = plain_of(s, 1, 0, CPU);
	assert_false(weft_tx_ahead(&s->tx, &p, &seg));
	s->tx.own[0] = 0;
	s->tx.err = WEFT_TX_ERR_NAK;
	assert_false(weft_tx_ahead(&s->tx, &p, &seg));
	s->tx.err = 0;
	s->tx.slot[weft_tx_at(1)].st |= 1 << 4;
	assert_false(weft_tx_ahead(&s->tx, &p, &seg));
	s->tx.slot[weft_tx_at(1)].st &= 0xf;
	assert_true(weft_tx_ahead(&s->tx, &p, &seg));
	/* reclaimed between the two: it goes the other way */
	weft_tx_reclaim(&s->tx, 0);
	assert_false(weft_tx_go(&s->tx, &p));
	check_books(s);
	test_free(s);
}

/* Taken away: what has gone out is listed, its ACKs are scored; what has not goes out from elsewhere. */
static void lane__reclaim(void **state)
{
	(void)state;
	for (__u32 sent = 0; sent < WEFT_LANE; sent++) {
		struct sender *s = lane_new(0, 64);
		struct weft_seg seg;

		assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
		for (__u32 i = 1; i <= sent; i++)
			assert_int_equal(plain(s, i, CPU, T0 + RTT, &seg), 2);
		weft_tx_reclaim(&s->tx, 0);
		check_books(s);
		assert_int_equal(s->tx.inflight, OUT);
		assert_int_equal(s->tx.una, sent + 1);
		assert_int_equal(s->tx.nlost, WEFT_LANE - 1 - sent);
		assert_int_equal(s->tx.losses, 0);
		s->wnd = 2 * OUT;
		for (__u32 i = sent; i < WEFT_LANE - 1; i++) {
			assert_int_equal(claim(s, T0 + RTT, 1, &seg), WEFT_CLAIM_OK);
			assert_int_equal(seg.psn, OUT + 1 + i);
		}
		test_free(s);
	}
}

/* Nobody comes home to it: the timer takes it, also when the domain has no token any more. */
static void lane__late(void **state)
{
	(void)state;
	for (int gone = 0; gone < 2; gone++) {
		struct sender *s = lane_new(0, 64);
		struct weft_seg seg;

		assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
		assert_int_equal(plain(s, 1, CPU, T0 + RTT, &seg), 2);
		for (__u32 i = 1; gone && i < OUT + 1; i++) {
			s->tx.slot[weft_tx_at(i)].ts = T0 - WEFT_RTO_MAX;
			weft_tx_convict(&s->tx, &s->tx.slot[weft_tx_at(i)], i);
		}
		assert_int_equal(weft_tx_late(&s->tx, T0 + RTT + 10, WEFT_RTO_MIN), 0);
		for (int i = 0; i < 4; i++)
			timeout(s, T0 + RTT + 2 * WEFT_RTO_MAX);
		assert_int_equal(s->tx.lane[0].state, 0);
		assert_int_equal(s->tx.una, 2);
		check_books(s);
		test_free(s);
	}
}

/* An ACK of a domain comes to a CPU that has no lane there: nothing is lent in that domain any more. */
static void lane__foreign(void **state)
{
	struct sender *s = lane_new(0, 64);
	struct weft_seg seg;

	(void)state;
	assert_false(weft_tx_foreign(&s->tx, 1, T0, CPU + 1));
	assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
	assert_false(weft_tx_foreign(&s->tx, 1, T0, CPU));
	assert_true(weft_tx_foreign(&s->tx, 1, T0, CPU + 1));
	/* of an older transmission: that says nothing of who sends it now */
	assert_false(weft_tx_foreign(&s->tx, 1, T0 - 1, CPU + 1));
	assert_int_equal(weft_tx_disown(&s->tx, 1, T0, CPU + 1), 0);
	check_books(s);
	assert_int_equal(s->tx.nlost, WEFT_LANE - 1);
	assert_int_equal(s->tx.lane[0].state, 0);
	assert_int_equal(s->tx.lane[0].who, WEFT_LANE_NONE);
	assert_false(weft_tx_lendable(&s->tx, 0, CPU));
	assert_false(weft_tx_foreign(&s->tx, 1, T0, CPU + 1));
	test_free(s);
}

/* What is lent goes before all else, and is counted then. */
static void lane__owed(void **state)
{
	struct sender *s = lane_new(0, 64);
	struct weft_seg seg;

	(void)state;
	assert_false(weft_tx_owed(&s->tx, s->wnd, T0, 0, CPU, &seg));
	assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
	assert_int_equal(ack(s, 1, 1, 0, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.inflight, OUT - 1);
	assert_false(weft_tx_owed(&s->tx, s->wnd, T0 + RTT, 0, CPU + 1, &seg));
	assert_false(weft_tx_owed(&s->tx, OUT - 1, T0 + RTT, 0, CPU, &seg));
	assert_true(weft_tx_owed(&s->tx, s->wnd, T0 + RTT, 0, CPU, &seg));
	assert_int_equal(seg.psn, OUT + 1);
	assert_int_equal(s->tx.inflight, OUT);
	check_books(s);
	/* what has gone out without the lock must be listed before */
	assert_int_equal(plain(s, 2, CPU, T0 + RTT, &seg), 2);
	assert_int_equal(seg.psn, OUT + 2);
	s->wnd++;
	assert_false(weft_tx_owed(&s->tx, s->wnd, T0 + RTT, 0, CPU, &seg));
	weft_tx_collect(&s->tx, 0, CPU);
	check_books(s);
	/* one too many; but nobody else would come */
	assert_false(weft_tx_owed(&s->tx, 1, T0 + RTT, 0, CPU, &seg));
	s->tx.dom[0].out = 0;
	assert_true(weft_tx_owed(&s->tx, 1, T0 + RTT, 0, CPU, &seg));
	assert_int_equal(seg.psn, OUT + 3);
	test_free(s);
}

/* Congestion control makes the window smaller with this very ACK: it is scored, its token is not needed. */
static void lane__shrinks(void **state)
{
	struct sender *s = lane_new(0, 64);
	struct weft_plain p = plain_of(s, 0, 0, CPU);
	struct weft_seg seg;

	(void)state;
	assert_true(weft_tx_is_bulk(&s->tx, &p, OUT, 0));
	assert_int_equal(weft_tx_bulk(&s->tx, &p, T0 + RTT, 3, &seg), 0);
	check_books(s);
	assert_int_equal(s->tx.inflight, OUT - 1);
	assert_int_equal(s->tx.lane[0].state, 0);
	test_free(s);
}

/* The CPU that was lent the oldest stands still, and all else is sent: who finds nothing takes it. */
static void lane__held(void **state)
{
	struct sender *s = lane_new(0, OUT + WEFT_LANE + 1);
	struct weft_seg seg;
	__u32 now = T0 + RTT;

	(void)state;
	assert_int_equal(plain(s, 0, CPU, now, &seg), 1);
	s->wnd = 2 * OUT;
	/* a second CPU sends the rest; the first has all its tokens acknowledged by the peer's cum */
	while (claim(s, now, 1, &seg) == WEFT_CLAIM_OK)
		;
	assert_int_equal(s->tx.cons, s->prod);
	assert_int_equal(ack(s, seg.psn, OUT + 1, 0, 0, now), 0);
	assert_int_equal(s->tx.una, OUT + 1);
	assert_int_equal(weft_tx_claim(&s->tx, s->sq, 1, s->prod, s->wnd, now, 1, &seg),
			 WEFT_CLAIM_EMPTY);
	now += 2 * weft_reo_wnd(&s->tx.rtt) + 1;
	assert_int_equal(weft_tx_claim(&s->tx, s->sq, 1, s->prod, s->wnd, now, 1, &seg),
			 WEFT_CLAIM_STUCK);
	assert_int_equal(weft_tx_unblock_lane(&s->tx, now, 1), 0);
	check_books(s);
	for (__u32 i = 1; i < WEFT_LANE; i++) {
		assert_int_equal(claim(s, now, 1, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.psn, OUT + i);
		assert_int_equal(seg.flags & WEFT_F_RETX, 0);
	}
	assert_int_equal(s->tx.retransmits, 0);
	test_free(s);
}

/* A peer acknowledges what was not sent: what goes out is still what was posted, or nothing. */
static void lane__liars(void **state)
{
	struct sender *s = lane_new(0, 64);
	struct weft_seg seg;
	struct weft_plain p;

	(void)state;
	assert_int_equal(plain(s, 0, CPU, T0 + RTT, &seg), 1);
	/* its work request is another's by then */
	memset(&s->tx.wqe[0], 0, sizeof(s->tx.wqe[0]));
	p = plain_of(s, 1, 0, CPU);
	assert_true(weft_tx_ahead(&s->tx, &p, &seg));
	assert_int_equal(seg.psn, OUT + 1);
	assert_int_equal(seg.len, PAYLOAD);
	assert_int_equal(seg.moff, (OUT + 1) * PAYLOAD);
	assert_int_equal(seg.lkey, 7);
	/* its place is another's */
	s->tx.slot[weft_tx_at(OUT + 1)].st &= ~WEFT_SLOT_LENT;
	assert_false(weft_tx_owed(&s->tx, ~0u, T0 + RTT, 0, CPU, &seg));
	/* an ACK of what was not sent then, and is a READ now */
	s->tx.own[0] |= 1ull << 3;
	weft_tx_heard(&s->tx, 3, s->sent_at[3], 0);
	assert_false(weft_tx_delivered(&s->tx, 3));
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lane__cycle), cmocka_unit_test(lane__only_plain),
		cmocka_unit_test(lane__whose), cmocka_unit_test(lane__reclaim),
		cmocka_unit_test(lane__late),  cmocka_unit_test(lane__foreign),
		cmocka_unit_test(lane__owed),  cmocka_unit_test(lane__shrinks),
		cmocka_unit_test(lane__held),  cmocka_unit_test(lane__liars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
