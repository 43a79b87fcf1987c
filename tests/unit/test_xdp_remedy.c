// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What is advised when a driver refuses XDP: the words of real drivers, and the remedy for each. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "xdp_remedy.c"

static const char *const refusals[][2] = {
	/* virtio_net */
	{ "MTU too large to enable XDP",
	  " (its MTU is 9000); run 'ip link set dev eth0 mtu 3440' (or less)" },
	{ "Can't set XDP while host is implementing GRO_HW/CSUM, disable GRO_HW/CSUM first",
	  "ctrl_guest_offloads=on" },
	{ "Can't set XDP while host is implementing LRO, disable LRO first",
	  "ctrl_guest_offloads=on" },
	{ "XDP expects header/data in single page, any_header_sg required", "'ethtool'" },
	/* veth */
	{ "Peer MTU is too large to set XDP", "mtu 3440' (or less) at both ends" },
	{ "XDP expects number of rx queues not less than peer tx queues",
	  " (receive queues: 2); set another number with 'ethtool -L eth0'" },
	/* vmxnet3, ena, mlx5 */
	{ "vmxnet3: MTU 3498 too large for XDP", "mtu 3440" },
	{ "LRO is not supported with XDP", "'ethtool -K eth0 lro off rx-gro-hw off'" },
	{ "can't set XDP while LRO is on, disable LRO first", "lro off" },
	{ "something new", "'ip link' or 'ethtool'" },
};

static const struct weft_xdp_facts alone = { .ifname = "eth0",
					     .mtu = 9000,
					     .rx = 2,
					     .rx_max = 4,
					     .peer = "" };

static void xdp_remedy__of_each(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		char remedy[300];

		weft_xdp_remedy(refusals[i][0], &alone, remedy, sizeof(remedy));
		if (!strstr(remedy, refusals[i][1]))
			fail_msg("\"%s\": \"%s\", without \"%s\"", refusals[i][0], remedy,
				 refusals[i][1]);
		assert_true(strlen(remedy) < sizeof(remedy) - 1);
	}
}

/* With a veth the other end's numbers are what counts. */
static void xdp_remedy__of_a_veth(void **state)
{
	struct weft_xdp_facts f = alone;
	const char *queues = "XDP expects number of rx queues not less than peer tx queues";
	char remedy[300];

	(void)state;
	f.peer = "vb";
	f.mtu = 1500;
	f.peer_mtu = 9000;
	f.peer_tx = 4;
	weft_xdp_remedy("Peer MTU is too large to set XDP", &f, remedy, sizeof(remedy));
	assert_non_null(strstr(remedy, "its MTU is 1500, that of its other end vb 9000"));
	weft_xdp_remedy(queues, &f, remedy, sizeof(remedy));
	assert_non_null(strstr(remedy, "run 'ethtool -L eth0 rx 4'"));
	f.peer_tx = 8; /* more than it can receive from */
	weft_xdp_remedy(queues, &f, remedy, sizeof(remedy));
	assert_non_null(strstr(remedy, "run 'ethtool -L vb tx 2' at its other end"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(xdp_remedy__of_each),
					    cmocka_unit_test(xdp_remedy__of_a_veth) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
