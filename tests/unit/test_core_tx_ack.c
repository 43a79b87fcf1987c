/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/tx_score.h: ACKs, conviction, time-outs. */
#include "test_core_util.h"

/* ---- ACK ---- */

static void ack__completes_in_order(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	for (int i = 0; i < 4; i++)
		post(s, PAYLOAD);
	claim_n(s, 4, T0, 0);
	assert_int_equal(ack(s, 2, 0, 0, 1ull << 2, T0 + RTT), 0);
	assert_int_equal(s->tx.done, 0);
	assert_int_equal(s->score.progress, 0);
	assert_int_equal(s->score.freed, 1);
	assert_int_equal(ack(s, 0, 1, 1, 1ull << 2, T0 + RTT), 0);
	assert_int_equal(s->tx.done, 1);
	assert_true(s->score.progress);
	assert_int_equal(ack(s, 1, 1, 1, 7, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 3);
	assert_int_equal(s->tx.done, 3);
	assert_int_equal(ack(s, 3, 4, 4, 0, T0 + RTT), 0);
	assert_int_equal(s->tx.done, 4);
	assert_int_equal(s->tx.inflight, 0);
	test_free(s);
}

/* The ACK that alone carries cum is lost, its packet was SACKed by the other's. */
static void ack__sacked_tail_completes(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 2 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	assert_int_equal(ack(s, 0, 0, 0, 3, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 2);
	assert_int_equal(s->tx.done, 1);
	/* the token that got lost with the ACK is found, nothing is sent for it */
	assert_int_equal(timeout(s, T0 + WEFT_RTO_MAX), 1);
	assert_int_equal(s->tx.inflight, 0);
	assert_int_equal(deficit(s), 0);
	test_free(s);
}

static void ack__cum_says_it_too(void **state)
{
	struct sender *s = sender_new(0xffffff00, 1);

	(void)state;
	post(s, 700 * PAYLOAD);
	claim_n(s, 500, T0, 0);
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_true(s->tx.nlost > 0);
	assert_int_equal(ack(s, 0xffffff00 + 499, 0xffffff00 + 500, 0, 0, T0 + WEFT_RTO_MAX), 0);
	assert_int_equal(s->tx.una, 0xffffff00 + 500);
	assert_int_equal(s->tx.nlost, 0);
	test_free(s);
}

/* What the peer said last may be half of all PSNs ago, when SACKs alone have told since. */
static void ack__cum_heard_long_ago(void **state)
{
	static const __u32 ago[] = {
		0, 1, WEFT_WIN, 1u << 31, (1u << 31) + 1, -(__u32)WEFT_WIN - 1
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ago) / sizeof(ago[0]); i++) {
		struct sender *s = sender_new(1000, 1);

		post(s, 10 * PAYLOAD);
		claim_n(s, 10, T0, 0);
		s->tx.cum = 1000 - ago[i];
		assert_int_equal(ack(s, 1009, 1008, 0, 0, T0 + RTT), 0);
		assert_int_equal(s->tx.una, 1008);
		test_free(s);
	}
}

static void ack__of_what_was_never_sent(void **state)
{
	struct sender *s = sender_new(1000, 1);
	struct weft_tx *before = test_malloc(sizeof(*before));
	const struct weft_ack bad[] = {
		{ .psn = 1003, .cum = 1000 }, /* next to be sent */
		{ .psn = 1003 + (1u << 31), .cum = 1000 },
		{ .psn = 1002, .cum = 1004 },
		{ .psn = 1002, .cum = 1000, .sack_base = 1001, .sack = 1 },
		{ .psn = 1002, .cum = 1000, .msn = 3 },
	};

	(void)state;
	for (int i = 0; i < 3; i++)
		post(s, PAYLOAD);
	claim_n(s, 3, T0, 0);
	s->tx.ends = 2; /* as if the third were not wholly cut */
	*before = s->tx;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct weft_ack a = bad[i];

		a.ts = T0;
		assert_int_equal(ack_raw(s, a, T0 + RTT), -1);
		assert_memory_equal(before, &s->tx, sizeof(*before));
	}
	test_free(before);
	test_free(s);
}

/* Long sent again and delivered: the token counts, what the ACK says does not. */
static void ack__older_than_the_window_is_surplus(void **state)
{
	struct sender *s = sender_new(1000, 1);
	struct weft_ack a = { .psn = 1003 - WEFT_WIN - 1, .ts = T0, .cum = 1002, .sack = ~0ull };

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 3, T0, 0);
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->score.freed + s->score.lost + s->score.progress, 0);
	assert_int_equal(s->tx.una, 1000);
	assert_int_equal(s->tx.inflight, 3);
	a.psn++; /* still within */
	a.cum = 1000;
	a.sack = 0;
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	test_free(s);
}

static void ack__sack_outside_of_what_was_sent_is_ignored(void **state)
{
	struct sender *s = sender_new(70, 1);
	struct weft_ack a = { .psn = 70, .ts = T0, .cum = 70, .sack_base = 64, .sack = ~0ull };

	(void)state;
	post(s, 10 * PAYLOAD);
	claim_n(s, 3, T0, 0);
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	assert_int_equal(s->tx.una, 73);
	assert_true(s->tx.delivered[1] == 0);
	a.sack_base = 1024 + 64; /* a word that lies ahead */
	a.psn = 71;
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	a.sack_base = 0; /* and one long past */
	assert_int_equal(ack_raw(s, a, T0 + RTT), 0);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(s->tx.delivered[i] == 0);
	test_free(s);
}

static void ack__twice_is_surplus(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 3, T0, 0);
	ack(s, 0, 1, 0, 0, T0 + RTT);
	assert_int_equal(s->score.surplus, 0);
	ack(s, 0, 1, 0, 0, T0 + RTT);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->score.freed, 0);
	assert_int_equal(s->tx.inflight, 2);
	test_free(s);
}

static void ack__of_a_convicted_packet_cancels_its_repeat(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	timeout(s, T0 + WEFT_RTO_MAX);
	assert_int_equal(s->tx.nlost, 1);
	ack(s, 0, 1, 0, 0, T0 + WEFT_RTO_MAX + 5);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.spurious, 1);
	assert_int_equal(s->score.surplus, 1);
	ack(s, 0, 1, 0, 0, T0 + WEFT_RTO_MAX + 6);
	assert_int_equal(s->tx.spurious, 1);
	test_free(s);
}

static void ack__of_the_original_after_a_repeat(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_ack a = { .psn = 0, .ts = T0, .cum = 1 };

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 1, T0, 0);
	timeout(s, T0 + WEFT_RTO_MAX);
	claim_n(s, 1, T0 + WEFT_RTO_MAX, 0);
	ack_raw(s, a, T0 + WEFT_RTO_MAX + 9);
	assert_int_equal(s->tx.spurious, 1);
	assert_int_equal(s->tx.inflight, 0);
	test_free(s);
}

/* The original went out from domain 1, its repeat from domain 0: nothing is known of domain 0. */
static void ack__of_the_original_convicts_nobody_elsewhere(void **state)
{
	struct sender *s = sender_new(0, 1);
	__u32 sent = T0 + WEFT_TICKS_US(1000), again = sent + WEFT_TICKS_US(2100);

	(void)state;
	post(s, 10 * PAYLOAD);
	claim_n(s, 1, T0 - RTT, 1); /* gives a round-trip time */
	ack(s, 0, 1, 0, 0, T0);
	claim_n(s, 1, T0, 0);   /* PSN 1, domain 0 */
	claim_n(s, 1, sent, 1); /* PSN 2, domain 1 */
	s->tx.looked = 0;
	assert_int_equal(timeout(s, again), 1);
	assert_int_equal(s->score.dom, 1);
	claim_n(s, 1, again, 0); /* PSN 2 again, from domain 0 */
	s->sent_at[2] = sent;
	ack(s, 2, 1, 0, 0, again + 5);
	assert_int_equal(s->score.lost, 0);
	test_free(s);
}

static void ack__measures_rtt_and_resets_backoff(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_ack a = { .psn = 1, .cum = 1, .ts = T0 + 5000 };

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	s->tx.rtt.backoff = 3;
	ack(s, 0, 1, 0, 0, T0 + RTT);
	assert_int_equal(s->tx.rtt.backoff, 0);
	assert_int_equal(s->tx.rtt.srtt8 >> 3, RTT);
	/* an echoed time of the future is no sample */
	ack_raw(s, a, T0 + RTT);
	assert_int_equal(s->tx.rtt.srtt8 >> 3, RTT);
	test_free(s);
}

static void ack__counts_ce(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_ack a = { .psn = 0, .cum = 1, .ts = T0, .flags = WEFT_F_CE };

	(void)state;
	post(s, 3 * PAYLOAD);
	claim_n(s, 2, T0, 0);
	ack_raw(s, a, T0 + RTT);
	assert_int_equal(s->tx.ce, 1);
	ack(s, 1, 2, 0, 0, T0 + RTT);
	assert_int_equal(s->tx.ce, 1);
	test_free(s);
}

/* ---- conviction ---- */

/* Wherever the clock stands, the first ACK of a domain says nothing about the packets behind it. */
static void rack__first_ack_at_any_clock(void **state)
{
	(void)state;
	for (__u64 t = 1000; t < 1ull << 32; t += 0x0fffff00) {
		struct sender *s = sender_new(0, 4);

		post(s, 20 * PAYLOAD);
		for (int i = 0; i < 20; i++)
			assert_int_equal(claim(s, t + i, 3, NULL), WEFT_CLAIM_OK);
		assert_int_equal(ack(s, 0, 1, 0, 0, t + RTT), 0);
		assert_int_equal(s->score.lost, 0);
		test_free(s);
	}
}

static void rack__convicts_what_is_a_window_behind(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, 40 * PAYLOAD);
	claim_n(s, 20, T0, 0);
	ack(s, 0, 1, 0, 0, T0 + RTT);
	/* an RTT later, but not more: no verdict */
	claim_n(s, 1, T0 + RTT, 0);
	ack(s, 20, 1, 0, weft_psn_bit(20), T0 + 2 * RTT);
	assert_int_equal(s->score.lost, 0);
	claim_n(s, 1, T0 + 3 * RTT, 0);
	ack(s, 21, 1, 0, weft_psn_bit(21), T0 + 4 * RTT);
	assert_int_equal(s->score.lost, 8);
	assert_int_equal(s->score.freed, 9);
	assert_int_equal(s->tx.nlost, 8);
	assert_true(s->tx.path.skip == 0); /* with one entropy value there is no other */
	test_free(s);
}

static void rack__other_domains_are_not_judged(void **state)
{
	struct sender *s = sender_new(0, 4);

	(void)state;
	post(s, 40 * PAYLOAD);
	claim_n(s, 1, T0, 5);
	for (__u32 i = 1; i < 40; i++) {
		claim_n(s, 1, T0 + i * RTT, 6);
		ack(s, i, 0, 0, weft_psn_bit(i), T0 + (i + 1) * RTT);
		assert_int_equal(s->score.lost, 0);
	}
	assert_int_equal(weft_tx_busy(&s->tx), 1 << 5);
	test_free(s);
}

/* The lost packet is found with the first ACK that convicts, whatever other domains did between. */
static void rack__needs_no_search(void **state)
{
	struct sender *s = sender_new(0, 1);
	__u32 now = T0, last;

	(void)state;
	post(s, 1000 * PAYLOAD);
	claim_n(s, 1, now, 0);
	last = s->tx.nxt;
	for (__u32 i = 1; i < 900; i++, last++) {
		claim_n(s, 1, now += 10, i % 15 + 1);
		ack(s, last, 0, 0, weft_psn_bit(last), now + RTT);
	}
	claim_n(s, 1, now += 100 * RTT, 0);
	ack(s, last, 0, 0, weft_psn_bit(last), now + RTT);
	assert_int_equal(s->score.lost, 1);
	assert_int_equal(weft_tx_first_lost(&s->tx), 0);
	test_free(s);
}

static void timeout__only_what_is_late(void **state)
{
	struct sender *s = sender_new(0, 4);

	(void)state;
	post(s, 40 * PAYLOAD);
	assert_int_equal(timeout(s, T0), 0);
	claim_n(s, 2, T0, 2);
	claim_n(s, 2, T0 + WEFT_RTO_INIT, 2);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT), 0);
	assert_int_equal(timeout(s, T0 + WEFT_RTO_INIT + 1), 1);
	assert_int_equal(s->score.freed, 2);
	assert_int_equal(s->score.lost, 2);
	assert_int_equal(s->score.dom, 2);
	assert_int_equal(s->tx.timeouts, 1);
	assert_int_equal(s->tx.rtt.backoff, 1);
	/* the RTO has doubled */
	assert_int_equal(timeout(s, T0 + 2 * WEFT_RTO_INIT + 1), 0);
	assert_int_equal(timeout(s, T0 + 3 * WEFT_RTO_INIT + 1), 1);
	test_free(s);
}

static void timeout__takes_late_domains_in_turn(void **state)
{
	struct sender *s = sender_new(0, 4);
	__u32 seen = 0;

	(void)state;
	post(s, 40 * PAYLOAD);
	for (__u32 d = 0; d < WEFT_DOMAINS; d++)
		claim_n(s, 1, T0, d);
	claim_n(s, 1, T0 + 10 * WEFT_RTO_MAX, 7); /* not late */
	for (__u32 i = 0; i < WEFT_DOMAINS; i++) {
		assert_int_equal(timeout(s, T0 + 10 * WEFT_RTO_MAX + i), 1);
		seen |= 1 << s->score.dom;
	}
	assert_int_equal(seen, 0xffff);
	assert_int_equal(timeout(s, T0 + 10 * WEFT_RTO_MAX + 99), 0);
	assert_int_equal(s->tx.inflight, 1);
	assert_int_equal(s->tx.rtt.backoff, 7);
	test_free(s);
}

/* Tokens come back in any order: the lists of the domains stay whole. */
static void lists__random_order(void **state)
{
	struct sender *s = sender_new(0xfffffc00, 8);
	__u32 x = 1, now = T0;

	(void)state;
	s->wnd = 200;
	for (int i = 0; i < 20000; i++) {
		__u32 r = (x = x * 1103515245 + 12345) >> 8;

		if (s->prod - s->tx.done < 200)
			post(s, r % (3 * PAYLOAD));
		now += 40;
		if (r % 7 < 4) {
			claim(s, now, r >> 3 & 15, NULL);
		} else if (r % 97 == 4) {
			timeout(s, now);
		} else if (s->tx.nxt != s->tx.una) {
			__u32 psn = s->tx.una + (r >> 5) % (s->tx.nxt - s->tx.una);

			ack(s, psn, s->tx.una, s->tx.done, weft_psn_bit(psn), now);
		}
		for (__u32 d = 0; d < WEFT_DOMAINS; d++) {
			__u32 at = s->tx.dom[d].head, n = s->tx.dom[d].out;

			for (__u32 k = 0; k < n; k++) {
				assert_int_equal(weft_slot_state(&s->tx.slot[at]), WEFT_SLOT_OUT);
				assert_int_equal(weft_slot_dom(&s->tx.slot[at]), d);
				if (k + 1 == n)
					assert_int_equal(at, s->tx.dom[d].tail);
				else
					assert_int_equal(s->tx.slot[s->tx.slot[at].next].prev, at);
				at = s->tx.slot[at].next;
			}
		}
	}
	assert_true(s->tx.retransmits > 100);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ack__completes_in_order),
		cmocka_unit_test(ack__sacked_tail_completes),
		cmocka_unit_test(ack__cum_says_it_too),
		cmocka_unit_test(ack__cum_heard_long_ago),
		cmocka_unit_test(ack__of_what_was_never_sent),
		cmocka_unit_test(ack__older_than_the_window_is_surplus),
		cmocka_unit_test(ack__sack_outside_of_what_was_sent_is_ignored),
		cmocka_unit_test(ack__twice_is_surplus),
		cmocka_unit_test(ack__of_a_convicted_packet_cancels_its_repeat),
		cmocka_unit_test(ack__of_the_original_after_a_repeat),
		cmocka_unit_test(ack__of_the_original_convicts_nobody_elsewhere),
		cmocka_unit_test(ack__measures_rtt_and_resets_backoff),
		cmocka_unit_test(ack__counts_ce),
		cmocka_unit_test(rack__first_ack_at_any_clock),
		cmocka_unit_test(rack__convicts_what_is_a_window_behind),
		cmocka_unit_test(rack__other_domains_are_not_judged),
		cmocka_unit_test(rack__needs_no_search),
		cmocka_unit_test(timeout__only_what_is_late),
		cmocka_unit_test(timeout__takes_late_domains_in_turn),
		cmocka_unit_test(lists__random_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
