// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Header templates byte by byte, the checksum sum, and the payload that a path carries. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tmpl.c"

static const uint8_t smac[6] = { 2, 0, 0, 0, 0, 1 }, dmac[6] = { 2, 0, 0, 0, 0, 2 };

static struct sockaddr_storage address(int family, const char *s)
{
	struct sockaddr_storage ss = { .ss_family = family };

	assert_int_equal(inet_pton(family, s,
				   family == AF_INET6
					   ? (void *)&((struct sockaddr_in6 *)&ss)->sin6_addr
					   : (void *)&((struct sockaddr_in *)&ss)->sin_addr),
			 1);
	return ss;
}

static void build__v4(void **state)
{
	static const uint8_t want[64] = {
		2,    0,    0,    0,    0, 2, 2,    0, 0,  0,  0, 1, 0x08, 0x00, /* Ethernet */
		0x45, 0x02, 0,    0,    0, 0, 0x40, 0, 64, 17, 0, 0, 10,   9,
		0,    1,    10,   9,    0, 2,          /* IPv4 */
		0,    0,    0x12, 0xb9, 0, 0, 0,    0, /* UDP */
	};
	struct sockaddr_storage local = address(AF_INET, "10.9.0.1"),
				peer = address(AF_INET, "10.9.0.2");
	struct weft_qpctl ctl;
	uint32_t sum = 0;

	(void)state;
	memset(&ctl, 0xff, sizeof(ctl));
	ctl.flags = WEFT_QPF_CSUM | WEFT_QPF_V6;
	weft_tmpl_build(&ctl, smac, dmac, &local, &peer, 4793);
	assert_memory_equal(ctl.tmpl, want, sizeof(want));
	assert_int_equal(ctl.flags, WEFT_QPF_CSUM);
	assert_int_equal(ctl.saddr[0], htonl(0x0a090001));
	assert_int_equal(ctl.daddr[0], htonl(0x0a090002));
	assert_int_equal(ctl.saddr[1] | ctl.daddr[3], 0);

	/* with its length and the complement of the folded sum, a header sums to all ones */
	sum = ctl.ipsum + htons(128);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ctl.tmpl[16] = 0;
	ctl.tmpl[17] = 128;
	memcpy(ctl.tmpl + 24, &(uint16_t){ ~sum }, 2);
	sum = 0;
	for (int i = 14; i < 34; i += 2)
		sum += ctl.tmpl[i] << 8 | ctl.tmpl[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	assert_int_equal(sum, 0xffff);
}

static void build__v6(void **state)
{
	static const uint8_t want[64] = {
		2,    0,    0,    0,    0, 2, 2,  0,  0, 0, 0, 1, 0x86, 0xdd, /* Ethernet */
		0x60, 0x20, 0,    0,    0, 0, 17, 64,                         /* IPv6: ECT(0) */
		0xfd, 9,    0,    0,    0, 0, 0,  0,  0, 0, 0, 0, 0,    0,
		0,    1, /* source */
		0xfd, 9,    0,    0,    0, 0, 0,  0,  0, 0, 0, 0, 0,    0,
		0,    2,                             /* destination */
		0,    0,    0x12, 0xb9, 0, 0, 0,  0, /* UDP */
	};
	struct sockaddr_storage local = address(AF_INET6, "fd09::1"),
				peer = address(AF_INET6, "fd09::2");
	struct weft_qpctl ctl = { .flags = 0 };

	(void)state;
	weft_tmpl_build(&ctl, smac, dmac, &local, &peer, 4793);
	assert_memory_equal(ctl.tmpl, want, sizeof(want));
	assert_int_equal(ctl.flags, WEFT_QPF_V6);
	assert_memory_equal(ctl.saddr, want + 22, 16);
	assert_memory_equal(ctl.daddr, want + 38, 16);
}

static void payload__of_mtu(void **state)
{
	(void)state;
	assert_int_equal(weft_path_payload(1500, false), 1408);
	assert_int_equal(weft_path_payload(1500, true), 1344);
	assert_int_equal(weft_path_payload(3498, false), 3328);
	assert_int_equal(weft_path_payload(3498, true), 3328);
	assert_int_equal(weft_path_payload(9000, false), WEFT_PAYLOAD_MAX);
	assert_int_equal(weft_path_payload(100, false), 0);
	assert_int_equal(weft_path_payload(0, true), 0);
	/* the smallest useful path, and one byte less */
	assert_int_equal(weft_path_payload(256 + 64 + 28, false), 256);
	assert_int_equal(weft_path_payload(256 + 64 + 27, false), 0);
	for (uint32_t mtu = 68; mtu < 4000; mtu++) {
		uint32_t v6 = weft_path_payload(mtu, true);

		assert_true(v6 % 64 == 0 && v6 <= WEFT_PAYLOAD_MAX);
		assert_true(!v6 || v6 + 64 + 8 + 40 <= mtu);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build__v4),
		cmocka_unit_test(build__v6),
		cmocka_unit_test(payload__of_mtu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
