/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of how a work request is cut: runs of neighbours for each domain, the last segment last. */
#include "test_core_util.h"

/* The segment that domain dom claims now. */
static __u32 cut(struct sender *s, __u32 dom)
{
	struct weft_seg seg;

	assert_int_equal(claim(s, T0, dom, &seg), WEFT_CLAIM_OK);
	assert_int_equal(seg.loff - 64 * seg.msn, seg.moff);
	return seg.moff / PAYLOAD;
}

static void cut__runs(void **state)
{
	struct sender *s = sender_new(-20u, 1);

	(void)state;
	post(s, 4 * WEFT_RUN * PAYLOAD);
	for (__u32 i = 0; i < WEFT_RUN; i++) {
		assert_int_equal(cut(s, 0), i);
		assert_int_equal(cut(s, 5), WEFT_RUN + i);
	}
	assert_int_equal(cut(s, 5), 2 * WEFT_RUN);
	assert_int_equal(cut(s, 0), 3 * WEFT_RUN);
	test_free(s);
}

/* However claims fall to domains: each segment once, PSNs without a gap, the last one last; then anew. */
static void cut__each_once(void **state)
{
	(void)state;
	srand(1);
	for (__u32 segs = 1; segs < 70; segs++) {
		struct sender *s = sender_new(-9u * segs, 3);
		__u32 doms = 1 + segs % WEFT_DOMAINS;

		for (__u32 m = 0; m < 3; m++) {
			uint8_t seen[70] = { 0 };

			post(s, segs * PAYLOAD - rand() % PAYLOAD);
			for (__u32 i = 0; i < segs; i++) {
				struct weft_seg seg;
				__u32 at;

				assert_int_equal(claim(s, T0, rand() % doms, &seg), WEFT_CLAIM_OK);
				at = seg.moff / PAYLOAD;
				assert_int_equal(seg.psn, -9u * segs + m * segs + i);
				assert_int_equal(seg.msn, m);
				assert_int_equal(seen[at]++, 0);
				assert_int_equal(at == segs - 1, i == segs - 1);
				assert_int_equal(seg.flags, at == segs - 1 ? WEFT_F_LAST : 0);
			}
			assert_int_equal(s->tx.cons, m + 1);
			assert_int_equal(weft_tx_runs(&s->tx), 0);
		}
		test_free(s);
	}
}

/* Nothing waits for a CPU that stands still: half of what it has left goes to who asks, in a run. */
static void cut__takes_from_others(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	post(s, (WEFT_RUN + 1) * PAYLOAD);
	assert_int_equal(cut(s, 3), 0);
	assert_int_equal(weft_tx_runs(&s->tx), 1 << 3);
	for (__u32 from = WEFT_RUN / 2; from; from /= 2)
		for (__u32 i = from; i < 2 * from; i++)
			assert_int_equal(cut(s, 1), i);
	assert_int_equal(weft_tx_runs(&s->tx), 0);
	assert_int_equal(cut(s, 3), WEFT_RUN);
	test_free(s);
}

/* What can be seen in its order is cut in that; what is free of it, and the rest, is not. */
static void cut__strict(void **state)
{
	struct sender *s = sender_new(0, 1);

	(void)state;
	s->tx.strict = 1;
	post(s, 3 * WEFT_RUN * PAYLOAD);
	for (__u32 i = 0; i < 3 * WEFT_RUN; i++)
		assert_int_equal(cut(s, 0), i);
	s->tx.frees = 1;
	post(s, 3 * WEFT_RUN * PAYLOAD);
	s->sq[1].roff = 1ull << 32;
	assert_int_equal(cut(s, 0), 0);
	assert_int_equal(cut(s, 2), WEFT_RUN);
	assert_int_equal(cut(s, 0), 1);
	test_free(s);
}

/* It goes out again as what it was. */
static void cut__again(void **state)
{
	struct sender *s = sender_new(0, 1);
	struct weft_seg seg;

	(void)state;
	post(s, 2 * WEFT_RUN * PAYLOAD);
	cut(s, 0);
	assert_int_equal(cut(s, 1), WEFT_RUN);
	cut(s, 0);
	assert_int_equal(timeout(s, T0 + 2 * WEFT_RTO_MAX), 1);
	for (__u32 i = 0; i < 3; i++) {
		if (claim(s, T0 + 2 * WEFT_RTO_MAX, 0, &seg) != WEFT_CLAIM_OK)
			break;
		if (seg.psn == 1)
			assert_int_equal(seg.moff, WEFT_RUN * PAYLOAD);
	}
	test_free(s);
}

/* A work request is complete with all its PSNs, whichever is acknowledged last; not by one of the next. */
static void cut__done(void **state)
{
	(void)state;
	for (__u32 last = 0; last < 4; last++) {
		struct sender *s = sender_new(-2u, 1);

		post(s, 2 * PAYLOAD);
		post(s, 2 * PAYLOAD);
		claim_n(s, 4, T0, 0);
		for (__u32 i = 0; i < 4; i++) {
			if (i != last)
				ack(s, -2u + i, -2u, 0, 0, T0 + RTT);
		}
		assert_int_equal(s->tx.done, last / 2);
		assert_int_equal(s->tx.una, -2u + last);
		ack(s, -2u + last, -2u, 0, 0, T0 + RTT);
		assert_int_equal(s->tx.done, 2);
		test_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut__runs),
		cmocka_unit_test(cut__each_once),
		cmocka_unit_test(cut__takes_from_others),
		cmocka_unit_test(cut__strict),
		cmocka_unit_test(cut__again),
		cmocka_unit_test(cut__done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
