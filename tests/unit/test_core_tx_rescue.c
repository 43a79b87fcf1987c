/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/tx_state.h and core/tx_claim.h: places, tokens under way, rescue. */
#include "test_core_util.h"

/* ---- places ---- */

_Static_assert(sizeof(struct weft_tx_slot) == 16, "a quarter of a cache line a PSN");
_Static_assert(sizeof(struct weft_tx_dom) == 64, "a cache line a domain");
_Static_assert(sizeof(struct weft_rx_word) == 64, "a cache line a word");

static void at__is_the_inverse_of_psn(void **state)
{
	static const __u32 nxt[] = { 1, 511, 512, 513, 1023, 1024, 1025, 70000, 0x80000001, 0 };
	struct sender *s = sender_new(0, 1);

	(void)state;
	for (unsigned k = 0; k < sizeof(nxt) / sizeof(*nxt); k++) {
		__u8 taken[WEFT_WIN] = { 0 };

		s->tx.nxt = nxt[k];
		for (__u32 i = 1; i <= WEFT_WIN; i++) {
			__u32 psn = nxt[k] - i, at = weft_tx_at(psn);

			assert_true(at < WEFT_WIN);
			assert_int_equal(taken[at]++, 0);
			assert_int_equal(weft_tx_psn(&s->tx, at), psn);
		}
	}
	test_free(s);
}

static void at__neighbours_share_no_cache_line(void **state)
{
	(void)state;
	for (__u32 psn = 0; psn < WEFT_WIN; psn++) {
		__u32 a = weft_tx_at(psn) * sizeof(struct weft_tx_slot);
		__u32 b = weft_tx_at(psn + 1) * sizeof(struct weft_tx_slot);

		assert_true(a / 64 != b / 64);
	}
}

/* ---- tokens under way ---- */

static void growing__until_they_claim(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	assert_int_equal(weft_tx_growing(&s->tx, 3, T0), 0);
	weft_tx_grow(&s->tx, 3, 2, T0);
	weft_tx_grow(&s->tx, 3, 2, T0);
	assert_int_equal(weft_tx_growing(&s->tx, 3, T0), 4);
	assert_int_equal(weft_tx_growing(&s->tx, 2, T0), 0);
	for (int left = 3; left >= 0; left--) {
		weft_tx_grown(&s->tx, 3);
		assert_int_equal(weft_tx_growing(&s->tx, 3, T0), left);
	}
	/* a doorbell's clones come as well, and were not announced */
	weft_tx_grown(&s->tx, 3);
	assert_int_equal(weft_tx_growing(&s->tx, 3, T0), 0);
	test_free(s);
}

static void growing__is_forgotten_after_a_while(void **state)
{
	static const __u32 start[] = { T0, -(__u32)100 };
	struct sender *s = sender_new(0, 1);

	(void)state;
	for (int k = 0; k < 2; k++) {
		weft_tx_grow(&s->tx, 3, 2, start[k]);
		weft_tx_grow(&s->tx, 3, 2, start[k] + 50);
		assert_int_equal(weft_tx_growing(&s->tx, 3, start[k] + 50 + WEFT_TICKS_US(500)), 4);
		assert_int_equal(weft_tx_growing(&s->tx, 3, start[k] + 51 + WEFT_TICKS_US(500)), 0);
		assert_int_equal(weft_tx_growing(&s->tx, 3, start[k]), 0);
	}
	test_free(s);
}

/* ---- rescue ---- */

#define OLD (T0 + 2 * WEFT_REO_MIN + 1) /* the round trips here take no time */

/* Domain `dom` has PSNs 0 to n - 1 out, `other` has sent the rest of the window and has it back. */
static struct sender *blocked(__u32 n, __u32 dom, __u32 other)
{
	struct sender *s = sender_new(0, 4);

	post(s, 3000 * PAYLOAD);
	claim_n(s, n, T0, dom);
	for (__u32 i = n; i < WEFT_WIN; i++) {
		claim_n(s, 1, T0, other);
		ack(s, i, 0, 0, weft_psn_bit(i), T0);
	}
	assert_int_equal(s->tx.inflight, n);
	return s;
}

/* An ACK of another packet tells that PSN `psn` of the first word is there. */
static void sacked(struct sender *s, __u64 bits)
{
	struct weft_ack a = { .psn = WEFT_WIN - 1, .ts = T0, .sack = bits };

	assert_int_equal(ack_raw(s, a, T0), 0);
}

static void rescue__from_a_cpu_that_does_not_move(void **state)
{
	struct sender *s = blocked(2, 1, 0);
	struct weft_seg seg;

	(void)state;
	for (__u32 psn = 0; psn < 2; psn++) {
		assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.psn, psn);
		assert_int_equal(seg.moff, psn * PAYLOAD);
		assert_int_equal(seg.flags, WEFT_F_RETX);
		assert_int_equal(seg.from, 1);
		assert_int_equal(seg.freed, 1);
		assert_int_equal(s->tx.retransmits, psn + 1);
		assert_int_equal(s->tx.dom[1].out, 1 - psn);
		assert_int_equal(s->tx.dom[0].out, psn + 1);
	}
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.freed, 0);
	/* nothing was lost, nothing is learnt */
	assert_int_equal(s->tx.losses, 0);
	assert_int_equal(s->tx.nlost, 0);
	assert_int_equal(s->tx.rtt.reo_mult, 0);
	assert_int_equal(s->tx.path.skip, 0);
	test_free(s);
}

static void rescue__only_what_is_old(void **state)
{
	struct sender *s = blocked(2, 1, 0);
	struct weft_seg seg;

	(void)state;
	s->tx.slot[weft_tx_at(1)].ts = T0 + 1;
	assert_int_equal(claim(s, OLD - 1, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.freed, 0);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(claim(s, OLD + 1, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 1);
	test_free(s);
}

static void rescue__not_from_its_own_domain(void **state)
{
	struct weft_seg seg;

	(void)state;
	for (__u32 dom = 0; dom < WEFT_DOMAINS; dom++) {
		struct sender *s = blocked(2, dom, (dom + 1) & 15);

		assert_int_equal(claim(s, OLD, dom, &seg), WEFT_CLAIM_WINDOW);
		assert_int_equal(seg.freed, 0);
		assert_int_equal(s->tx.dom[dom].out, 2);
		assert_int_equal(claim(s, OLD, (dom + 1) & 15, &seg), WEFT_CLAIM_OK);
		assert_int_equal(seg.from, dom);
		test_free(s);
	}
}

static void rescue__skips_and_frees_what_was_delivered(void **state)
{
	struct sender *s = blocked(9, 1, 0);
	struct weft_seg seg;

	(void)state;
	sacked(s, 0x1be); /* PSNs 1 to 5, 7 and 8 */
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 0);
	/* four at a time */
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.from, 1);
	assert_int_equal(seg.freed, 4);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 6);
	assert_int_equal(seg.freed, 2);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.freed, 2);
	assert_int_equal(s->tx.dom[1].out, 0);
	assert_int_equal(s->tx.inflight, 2);
	assert_int_equal(s->tx.retransmits, 2);
	test_free(s);
}

/* All is delivered, and a token that has not come back stands where the next packet belongs. */
static void rescue__of_a_slot(void **state)
{
	struct sender *s = blocked(1, 1, 0);
	struct weft_seg seg;

	(void)state;
	sacked(s, 1);
	assert_int_equal(s->tx.una, WEFT_WIN);
	assert_int_equal(claim(s, OLD - 1, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.freed, 0);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_WINDOW);
	assert_int_equal(seg.freed, 1);
	assert_int_equal(claim(s, OLD, 0, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, WEFT_WIN);
	assert_int_equal(seg.flags, 0);
	assert_int_equal(s->tx.retransmits, 0);
	test_free(s);
}

/* The CPU moves again: its ACK is no proof of a wrong conviction, the rescuer's is to spare. */
static void rescue__late_ack_of_the_original(void **state)
{
	struct sender *s = blocked(1, 1, 0);
	struct weft_ack a = { .psn = 0, .ts = T0, .sack = 1 };

	(void)state;
	s->tx.rtt.calm = 64;
	claim_n(s, 1, OLD, 0);
	assert_int_equal(ack_raw(s, a, OLD + 5), 0);
	assert_int_equal(s->score.freed, 1);
	assert_int_equal(s->score.dom, 0);
	assert_int_equal(s->score.surplus, 0);
	assert_int_equal(s->tx.una, WEFT_WIN);
	a.ts = OLD;
	assert_int_equal(ack_raw(s, a, OLD + 9), 0);
	assert_int_equal(s->score.freed, 0);
	assert_int_equal(s->score.surplus, 1);
	assert_int_equal(s->tx.spurious, 0);
	assert_int_equal(s->tx.rtt.reo_mult, 0);
	claim_n(s, 1, OLD + 9, 0);
	/* the slot's next packet is an ordinary one */
	assert_int_equal(s->tx.slot[weft_tx_at(WEFT_WIN)].st & WEFT_SLOT_RESCUED, 0);
	test_free(s);
}

/* What was rescued can get lost like anything else. */
static void rescue__may_be_convicted(void **state)
{
	struct sender *s = blocked(1, 1, 0);
	struct weft_seg seg;

	(void)state;
	claim_n(s, 1, OLD, 0);
	assert_int_equal(timeout(s, OLD + WEFT_RTO_MAX), 1);
	assert_int_equal(s->score.dom, 0);
	assert_int_equal(s->tx.nlost, 1);
	assert_int_equal(claim(s, OLD + WEFT_RTO_MAX, 5, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.psn, 0);
	assert_int_equal(seg.freed, 0);
	test_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at__is_the_inverse_of_psn),
		cmocka_unit_test(at__neighbours_share_no_cache_line),
		cmocka_unit_test(growing__until_they_claim),
		cmocka_unit_test(growing__is_forgotten_after_a_while),
		cmocka_unit_test(rescue__from_a_cpu_that_does_not_move),
		cmocka_unit_test(rescue__only_what_is_old),
		cmocka_unit_test(rescue__not_from_its_own_domain),
		cmocka_unit_test(rescue__skips_and_frees_what_was_delivered),
		cmocka_unit_test(rescue__of_a_slot),
		cmocka_unit_test(rescue__late_ack_of_the_original),
		cmocka_unit_test(rescue__may_be_convicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
