/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/psn.h: serial numbers, bit counting, masks. */
#include "test_core_util.h"

static void psn_diff__orders_across_the_wrap(void **state)
{
	(void)state;
	assert_int_equal(weft_psn_diff(5, 3), 2);
	assert_int_equal(weft_psn_diff(3, 5), -2);
	assert_int_equal(weft_psn_diff(1, 0xffffffff), 2);
	assert_int_equal(weft_psn_diff(0xffffffff, 1), -2);
	assert_int_equal(weft_psn_diff(0x7fffffff, 0), INT32_MAX);
	assert_int_equal(weft_psn_diff(0x80000000, 0), INT32_MIN);
}

static void psn_word__walks_the_window_and_wraps(void **state)
{
	(void)state;
	for (__u32 psn = 0xfffff000; psn != 0x1000; psn++) {
		assert_int_equal(weft_psn_word(psn), psn / 64 % WEFT_WIN_WORDS);
		assert_true(weft_psn_bit(psn) == 1ull << (psn % 64));
	}
}

static void popcount__agrees_with_the_compiler(void **state)
{
	__u64 x = 0x123456789abcdefull;

	(void)state;
	assert_int_equal(weft_popcount(0), 0);
	assert_int_equal(weft_popcount(~0ull), 64);
	for (int i = 0; i < 10000; i++, x = x * 6364136223846793005ull + 1442695040888963407ull)
		assert_int_equal(weft_popcount(x), __builtin_popcountll(x));
}

static void ctz__of_zero_is_64(void **state)
{
	(void)state;
	assert_int_equal(weft_ctz(0), 64);
}

static void ctz__finds_each_bit_below_others(void **state)
{
	(void)state;
	for (int i = 0; i < 64; i++) {
		assert_int_equal(weft_ctz(1ull << i), i);
		assert_int_equal(weft_ctz(~0ull << i), i);
	}
}

static void mask__every_pair_of_bounds(void **state)
{
	(void)state;
	for (__u32 lo = 0; lo <= 64; lo++)
		for (__u32 hi = lo; hi <= 64; hi++) {
			__u64 want = 0;

			for (__u32 i = lo; i < hi; i++)
				want |= 1ull << i;
			assert_true(weft_mask(lo, hi) == want);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(psn_diff__orders_across_the_wrap),
		cmocka_unit_test(psn_word__walks_the_window_and_wraps),
		cmocka_unit_test(popcount__agrees_with_the_compiler),
		cmocka_unit_test(ctz__of_zero_is_64),
		cmocka_unit_test(ctz__finds_each_bit_below_others),
		cmocka_unit_test(mask__every_pair_of_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
