// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What transmit queues bear: who shares them, how many tokens that makes, and what is said of it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tx_room.c"

int libbpf_num_possible_cpus(void)
{
	return 2;
}

static const struct {
	struct weft_tx_room r;
	bool shared;
	uint32_t budget, hard;
	const char *why; /* part of it */
} rooms[] = {
	/* whatever it says of its rings */
	{ { "veth", 2, 1, 1, 1, 4096, false }, false, 96, 120, "veth" },
	{ { "mlx5_core", 8, 8, 8, 64, 1024, true }, false, 384, 480, "8 transmit queues, 8 CPUs" },
	{ { "mlx5_core", 8, 8, 8, 64, 8192, true }, false, 512, 1024, "8 transmit queues" },
	{ { "ena", 8, 0, 0, 0, 0, false }, false, 512, 1024, "does not tell" },
	/* two or three CPUs for each queue */
	{ { "ice", 8, 4, 4, 8, 512, true }, true, 96, 120, "'ethtool -L eth0 combined 8'" },
	{ { "ice", 8, 3, 3, 8, 768, true }, true, 96, 120, "'ethtool -L eth0 combined 8'" },
	{ { "bnxt_en", 8, 4, 4, 8, 512, false }, true, 96, 120, "'ethtool -L eth0 tx 8'" },
	{ { "ice", 8, 4, 4, 4, 512, true }, true, 96, 120, "'taskset -c 0-3'" },
	/* its own queues for XDP, if they are there */
	{ { "virtio_net", 2, 2, 2, 4, 256, true }, false, 96, 120, "one more for each CPU" },
	{ { "virtio_net", 2, 4, 4, 4, 256, true }, true, 48, 60, "'ethtool -L eth0 combined 2'" },
	{ { "virtio_net", 2, 1, 1, 1, 256, true }, true, 31, 39, "NIC 3 queues" },
	{ { "virtio_net", 1, 1, 1, 1, 256, true }, true, 48, 60, "NIC 2 queues" },
	{ { "virtio_net", 64, 1, 1, 1, 256, true }, true, 12, 15, "NIC 65 queues" },
};

static void tx_room__verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		uint32_t budget, hard;
		char why[300];

		print_message("# %s, %u queues\n", rooms[i].r.driver, rooms[i].r.queues);
		assert_int_equal(weft_tx_room_shared(&rooms[i].r), rooms[i].shared);
		weft_tx_room_budget(&rooms[i].r, &budget, &hard);
		assert_int_equal(budget, rooms[i].budget);
		assert_int_equal(hard, rooms[i].hard);
		weft_tx_room_why(&rooms[i].r, "eth0", why, sizeof(why));
		if (!strstr(why, rooms[i].why))
			fail_msg("\"%s\" is not in \"%s\"", rooms[i].why, why);
		/* a remedy exactly where there is something to remedy */
		assert_int_equal(strchr(why, ';') != NULL, rooms[i].shared);
	}
}

/* Only where virtio_net would send on a queue that is not there. */
static void tx_room__crashes(void **state)
{
	static const struct {
		struct weft_tx_room r;
		bool crashes;
	} t[] = {
		{ { "virtio_net", 2, 4, 4, 4, 256, true }, true },
		{ { "virtio_net", 2, 3, 3, 4, 256, true }, true },
		{ { "virtio_net", 2, 2, 2, 4, 256, true }, false },
		{ { "virtio_net", 2, 2, 2, 3, 256, true }, false },
		{ { "virtio_net", 2, 3, 3, 5, 256, true }, false },
		{ { "virtio_net", 4, 4, 4, 4, 256, true }, false },
		{ { "ice", 2, 4, 4, 4, 256, true }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(weft_tx_room_crashes(&t[i].r), t[i].crashes);
}

/* virtio_net with XDP counts the queues for it; a second look says what the first did. */
static void tx_room__attached(void **state)
{
	struct weft_tx_room own = { "virtio_net", 2, 4, 4, 4, 256, true }, shared = own,
			    other = { "mlx5_core", 2, 4, 4, 4, 256, true };

	(void)state;
	weft_tx_room_attached(&own, false);
	assert_int_equal(own.queues, 2);
	assert_false(weft_tx_room_shared(&own));
	weft_tx_room_attached(&shared, true);
	assert_int_equal(shared.queues, 4);
	assert_true(weft_tx_room_shared(&shared));
	weft_tx_room_attached(&other, false);
	assert_int_equal(other.queues, 4);
}

/* Attached by somebody else: some numbers leave open whether there are queues for XDP. */
static void tx_room__unsure(void **state)
{
	static const struct {
		struct weft_tx_room r;
		bool unsure;
	} t[] = {
		{ { "virtio_net", 2, 4, 4, 4, 256, true }, true },
		{ { "virtio_net", 2, 3, 3, 4, 256, true }, true },
		/* it has none */
		{ { "virtio_net", 2, 2, 2, 4, 256, true }, false },
		{ { "virtio_net", 4, 4, 4, 4, 256, true }, false },
		/* it would have taken them */
		{ { "virtio_net", 2, 3, 3, 5, 256, true }, false },
		{ { "mlx5_core", 2, 4, 4, 4, 256, true }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(weft_tx_room_unsure(&t[i].r), t[i].unsure);
}

/* The words are cut, not written past the end. */
static void tx_room__short_buffer(void **state)
{
	char why[40];

	(void)state;
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		for (size_t len = 1; len < sizeof(why); len++) {
			why[len] = 'x';
			weft_tx_room_why(&rooms[i].r, "eth0", why, len);
			assert_int_equal(why[len], 'x');
			assert_true(strlen(why) < len);
			if (len == sizeof(why) - 1)
				break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tx_room__verdicts),     cmocka_unit_test(tx_room__crashes),
		cmocka_unit_test(tx_room__attached),     cmocka_unit_test(tx_room__unsure),
		cmocka_unit_test(tx_room__short_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
