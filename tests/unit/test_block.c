/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/block.c: first fit, coalescing, look-up, and a long random run against a byte map. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../user/block.c"

#define SIZE (64u << 10)

static int setup(void **state)
{
	struct weft_block *head = NULL;

	if (weft_blocks_init(&head, SIZE))
		return -1;
	*state = head;
	return 0;
}

static int teardown(void **state)
{
	struct weft_block *head = *state;

	weft_blocks_fini(&head);
	return head != NULL;
}

static size_t take(struct weft_block *head, size_t len)
{
	size_t off = SIZE;

	assert_int_equal(weft_block_take(head, len, &off), 0);
	return off;
}

static void block__new_range_is_empty(void **state)
{
	assert_true(weft_blocks_empty(*state));
	assert_null(weft_block_find(*state, 0, 1));
}

static void block__rounds_to_alignment(void **state)
{
	assert_int_equal(take(*state, 1), 0);
	assert_int_equal(take(*state, 65), 64);
	assert_int_equal(take(*state, 64), 64 + 128);
	assert_int_equal(take(*state, 1), 64 + 128 + 64);
	assert_false(weft_blocks_empty(*state));
}

static void block__takes_first_gap_that_fits(void **state)
{
	size_t a = take(*state, 128), b = take(*state, 64), c = take(*state, 256);

	take(*state, 64);
	assert_int_equal(weft_block_give(*state, a), 0);
	assert_int_equal(weft_block_give(*state, c), 0);
	assert_int_equal(take(*state, 192), c);
	assert_int_equal(take(*state, 128), a);
	assert_int_equal(take(*state, 64), c + 192);
	assert_true(b == 128);
}

static void block__whole_range_and_no_more(void **state)
{
	size_t off;

	assert_int_equal(weft_block_take(*state, SIZE + 1, &off), -ENOSPC);
	assert_int_equal(weft_block_take(*state, 0, &off), -ENOSPC);
	assert_int_equal(weft_block_take(*state, (size_t)-1, &off), -ENOSPC);
	assert_int_equal(take(*state, SIZE), 0);
	assert_int_equal(weft_block_take(*state, 1, &off), -ENOSPC);
	assert_int_equal(weft_block_give(*state, 0), 0);
	assert_true(weft_blocks_empty(*state));
}

/* Giving back three neighbours in each of the six orders leaves one block. */
static void block__joins_neighbours_in_any_order(void **state)
{
	static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					  { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	size_t off[3];
	int i, k;

	for (i = 0; i < 6; i++) {
		for (k = 0; k < 3; k++)
			off[k] = take(*state, 64 * (k + 1));
		for (k = 0; k < 3; k++)
			assert_int_equal(weft_block_give(*state, off[orders[i][k]]), 0);
		assert_true(weft_blocks_empty(*state));
		assert_int_equal(take(*state, SIZE), 0);
		assert_int_equal(weft_block_give(*state, 0), 0);
	}
}

static void block__give_refuses_what_was_not_taken(void **state)
{
	size_t a = take(*state, 256);

	assert_int_equal(weft_block_give(*state, a + 64), -EINVAL);
	assert_int_equal(weft_block_give(*state, a + 256), -EINVAL);
	assert_int_equal(weft_block_give(*state, SIZE), -EINVAL);
	assert_int_equal(weft_block_give(*state, a), 0);
	assert_int_equal(weft_block_give(*state, a), -EINVAL);
}

static void block__find_wants_one_used_block(void **state)
{
	size_t a = take(*state, 128), b = take(*state, 128);
	const struct weft_block *f = weft_block_find(*state, b + 1, 127);

	assert_non_null(f);
	assert_int_equal(f->off, b);
	assert_null(weft_block_find(*state, b + 1, 128));
	assert_null(weft_block_find(*state, a, 129)); /* over two allocations */
	assert_null(weft_block_find(*state, b, (size_t)-1));
	assert_null(weft_block_find(*state, SIZE, 1));
	assert_int_equal(weft_block_give(*state, a), 0);
	assert_null(weft_block_find(*state, a, 1));
	assert_non_null(weft_block_find(*state, b, 128));
}

/* The list covers the range without gaps; no two free neighbours; used ones as the map says. */
static void check_list(const struct weft_block *b, const uint8_t *map)
{
	size_t off = 0, i;
	int free_before = 0;

	for (; b; b = b->next) {
		assert_int_equal(b->off, off);
		assert_true(b->len && b->len % WEFT_BLOCK_ALIGN == 0);
		assert_false(!b->used && free_before);
		free_before = !b->used;
		for (i = off; i < off + b->len; i += WEFT_BLOCK_ALIGN)
			assert_int_equal(map[i / WEFT_BLOCK_ALIGN], b->used);
		off += b->len;
	}
	assert_int_equal(off, SIZE);
}

static void block__random_run(void **state)
{
	static uint8_t map[SIZE / WEFT_BLOCK_ALIGN];
	struct {
		size_t off, len;
	} live[64] = {};
	uint32_t rnd = 12345;
	int step, taken = 0, full = 0;

	memset(map, 0, sizeof(map));
	for (step = 0; step < 20000; step++) {
		size_t i, len, n;

		rnd = rnd * 1664525 + 1013904223;
		i = rnd >> 26;
		len = (rnd >> 8) % 5000 + 1;
		n = (len + WEFT_BLOCK_ALIGN - 1) / WEFT_BLOCK_ALIGN;
		if (live[i].len) {
			assert_int_equal(weft_block_give(*state, live[i].off), 0);
			memset(map + live[i].off / WEFT_BLOCK_ALIGN, 0, live[i].len);
			live[i].len = 0;
		} else if (!weft_block_take(*state, len, &live[i].off)) {
			uint8_t *m = map + live[i].off / WEFT_BLOCK_ALIGN;

			assert_null(memchr(m, 1, n)); /* nobody else had it */
			memset(m, 1, n);
			live[i].len = n;
			taken++;
		} else {
			full++;
		}
		check_list(*state, map);
	}
	assert_true(taken > 1000 && full > 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(block__new_range_is_empty),
		T(block__rounds_to_alignment),
		T(block__takes_first_gap_that_fits),
		T(block__whole_range_and_no_more),
		T(block__joins_neighbours_in_any_order),
		T(block__give_refuses_what_was_not_taken),
		T(block__find_wants_one_used_block),
		T(block__random_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
