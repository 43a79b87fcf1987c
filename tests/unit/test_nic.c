// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What weft says about the settings of an interface: each, alone, with the command that helps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "nic.c"

/* As if there were nothing but the packet, up to 3328 bytes of it. */
uint32_t weft_path_payload(uint32_t mtu, bool v6)
{
	(void)v6;
	return mtu < 3328 ? mtu : 3328;
}

static char advice[WEFT_ADVICE_MAX][WEFT_ADVICE_LEN];

static void says(const struct weft_nic *nic, const char *what, const char *remedy)
{
	assert_int_equal(weft_nic_advice("eth0", nic, 1500, advice), 1);
	assert_non_null(strstr(advice[0], what));
	assert_non_null(strstr(advice[0], remedy));
	assert_non_null(strchr(advice[0], ';'));
	assert_true(strlen(advice[0]) < WEFT_ADVICE_LEN - 1); /* not cut */
}

static void advice__none(void **state)
{
	struct weft_nic nic = {};

	(void)state;
	assert_int_equal(weft_nic_advice("eth0", &nic, 1500, advice), 0);
}

static void advice__lro(void **state)
{
	struct weft_nic nic = {};

	(void)state;
	nic.lro = true;
	says(&nic, "LRO is on", "'ethtool -K eth0 lro off'");
}

static void advice__rxvlan(void **state)
{
	struct weft_nic nic = {};

	(void)state;
	nic.rxvlan = true;
	says(&nic, "rxvlan is on", "'ethtool -K eth0 rxvlan off'");
}

static void advice__hash(void **state)
{
	struct weft_nic nic = {};

	(void)state;
	nic.hash4 = true;
	says(&nic, "UDP over IPv4", "'ethtool -N eth0 rx-flow-hash udp4 sdfn'");
	nic.hash4 = false;
	nic.hash6 = true;
	says(&nic, "UDP over IPv6", "'ethtool -N eth0 rx-flow-hash udp6 sdfn'");
}

static void advice__mtu(void **state)
{
	struct weft_nic nic = { .mtu = 1000 };

	(void)state;
	says(&nic, "MTU 1000 now, but 1500", "run 'weft down eth0', 'weft up eth0'");
	nic.mtu = 9000;
	says(&nic, "MTU 9000 now, but 1500", "run 'weft down eth0', 'weft up eth0'");
	nic.mtu = 1500;
	assert_int_equal(weft_nic_advice("eth0", &nic, 1500, advice), 0);
	nic.mtu = 9000; /* all the same to payloads */
	assert_int_equal(weft_nic_advice("eth0", &nic, 4000, advice), 0);
}

static void advice__all(void **state)
{
	struct weft_nic nic = {};

	(void)state;
	nic.lro = nic.rxvlan = nic.hash4 = nic.hash6 = true;
	nic.mtu = 1400;
	assert_int_equal(weft_nic_advice("eth0", &nic, 1500, advice), WEFT_ADVICE_MAX);
	for (unsigned i = 0; i < WEFT_ADVICE_MAX; i++)
		assert_non_null(strstr(advice[i], "eth0"));
}

/* The loopback has none of it, and is asked without harm; nor is an interface that is not there. */
static void ask__nothing_told(void **state)
{
	static const char *const names[] = { "lo", "no-such-if" };
	struct weft_nic nic;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		weft_nic_ask(names[i], &nic);
		assert_false(nic.lro || nic.rxvlan || nic.hash4 || nic.hash6);
		assert_int_equal(weft_nic_advice(names[i], &nic, nic.mtu, advice), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(advice__none),      cmocka_unit_test(advice__lro),
		cmocka_unit_test(advice__rxvlan),    cmocka_unit_test(advice__hash),
		cmocka_unit_test(advice__mtu),       cmocka_unit_test(advice__all),
		cmocka_unit_test(ask__nothing_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
