// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The tool reads what moves from QPs to their device in one piece, or again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "weft/tele_read.c"

static struct weft_devtele dev;

/* How often the body runs when the device's seq is as given at each of its ends. */
static unsigned reads(const uint32_t *seq, unsigned n)
{
	const struct tele t = { .dev = &dev };
	unsigned times = 0;

	dev.seq = seq[0];
	for (struct tele_read r = { 0 }; tele_read(&t, &r);)
		dev.seq = seq[++times < n ? times : n - 1];
	return times;
}

static void tele_read__until_nothing_moves(void **state)
{
	(void)state;
	assert_int_equal(reads((uint32_t[]){ 4 }, 1), 1);
	/* moved while it was read, twice */
	assert_int_equal(reads((uint32_t[]){ 4, 6, 8, 8 }, 4), 3);
	/* being moved when it began */
	assert_int_equal(reads((uint32_t[]){ 5, 6, 6 }, 3), 2);
	assert_int_equal(reads((uint32_t[]){ 5, 5, 6, 6 }, 4), 3);
}

/* Who was at it has died: not for ever. */
static void tele_read__dead_writer(void **state)
{
	(void)state;
	assert_int_equal(reads((uint32_t[]){ 7 }, 1), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tele_read__until_nothing_moves),
		cmocka_unit_test(tele_read__dead_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
