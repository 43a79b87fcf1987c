// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* HOST:PORT: what is accepted, what is not, and IPv4-mapped addresses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "addr.c"

int weft_err(int err, const char *obj, const char *fmt, ...)
{
	(void)obj;
	(void)fmt;
	return -err;
}

int weft_ns_enter(struct weft_dev *dev, int *saved)
{
	(void)dev;
	*saved = -1;
	return 0;
}

void weft_ns_leave(int saved)
{
	(void)saved;
}

static void parse__good(void **state)
{
	static const struct {
		const char *in, *host;
		unsigned port;
	} t[] = {
		{ "10.9.0.2:7000", "10.9.0.2", 7000 },
		{ "[fd09::2]:7000", "fd09::2", 7000 },
		{ "[fe80::1%eth0]:1", "fe80::1%eth0", 1 },
		{ "[::]:65535", "::", 65535 },
		{ ":7000", "", 7000 },
		{ "host.example:0", "host.example", 0 },
		{ "h:00080", "h", 80 },
	};
	struct weft_hostport hp;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(weft_addr_parse(t[i].in, &hp), 0);
		assert_string_equal(hp.host, t[i].host);
		assert_int_equal(hp.port, t[i].port);
	}
}

static void parse__bad(void **state)
{
	static const char *const t[] = {
		"",          "host",      "host:",      "host:65536", "host:-1",   "host:+1",
		"host:7x",   "host: 7",   "fd09::2:70", "fd09::2",    "[fd09::2]", "[fd09::2]70",
		"[fd09::2:", "[]:70",     "[host]:70",  "a b:70",     "h:000080",  "h:1:2",
		"[::1]:",    "[::1]:7:7", "[::1]x:7",   ":",
	};
	char longest[400];
	struct weft_hostport hp;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (weft_addr_parse(t[i], &hp) != -EINVAL)
			fail_msg("'%s' was taken", t[i]);
	assert_int_equal(weft_addr_parse(NULL, &hp), -EINVAL);
	/* the longest name that fits, and one more */
	memset(longest, 'h', sizeof(longest));
	strcpy(longest + 255, ":7");
	assert_int_equal(weft_addr_parse(longest, &hp), 0);
	assert_int_equal(strlen(hp.host), 255);
	memset(longest, 'h', sizeof(longest));
	strcpy(longest + 256, ":7");
	assert_int_equal(weft_addr_parse(longest, &hp), -EINVAL);
}

static void resolve__scope_and_passive(void **state)
{
	struct weft_dev dev = { .ifindex = 77 };
	struct addrinfo *res;

	(void)state;
	assert_int_equal(weft_addr_resolve(&dev, "[fe80::1]:7000", false, &res), 0);
	assert_int_equal(((struct sockaddr_in6 *)res->ai_addr)->sin6_scope_id, 77);
	freeaddrinfo(res);
	assert_int_equal(weft_addr_resolve(&dev, "10.9.0.2:7000", false, &res), 0);
	assert_int_equal(((struct sockaddr_in *)res->ai_addr)->sin_port, htons(7000));
	freeaddrinfo(res);
	assert_int_equal(weft_addr_resolve(&dev, ":7000", true, &res), 0);
	freeaddrinfo(res);
	assert_int_equal(weft_addr_resolve(&dev, ":7000", false, &res), -EINVAL);
	assert_int_equal(weft_addr_resolve(&dev, "10.9.0.2:0", false, &res), -EINVAL);
	assert_int_equal(weft_addr_resolve(&dev, "10.9.0.2", false, &res), -EINVAL);
}

static void unmap__only_mapped(void **state)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(7) };
	struct sockaddr_storage ss = { 0 };
	char s[INET6_ADDRSTRLEN];

	(void)state;
	inet_pton(AF_INET6, "::ffff:10.9.0.2", &in6.sin6_addr);
	memcpy(&ss, &in6, sizeof(in6));
	weft_addr_unmap(&ss);
	assert_int_equal(ss.ss_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)&ss)->sin_port, htons(7));
	weft_addr_str(&ss, s, sizeof(s));
	assert_string_equal(s, "10.9.0.2");

	inet_pton(AF_INET6, "fd09::2", &in6.sin6_addr);
	memcpy(&ss, &in6, sizeof(in6));
	weft_addr_unmap(&ss);
	assert_int_equal(ss.ss_family, AF_INET6);
	weft_addr_str(&ss, s, sizeof(s));
	assert_string_equal(s, "fd09::2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__good),
		cmocka_unit_test(parse__bad),
		cmocka_unit_test(resolve__scope_and_passive),
		cmocka_unit_test(unmap__only_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
