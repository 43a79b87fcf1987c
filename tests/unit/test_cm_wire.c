// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Connection set-up messages: byte layout, partial reads, and everything a stranger may send. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

#include "cm_wire.h"

static const struct weft_cm_msg sample = {
	.type = WEFT_CM_REQUEST,
	.port = 0x12b9,
	.qpn = 0x00050003,
	.psn = 0xfffffff0,
	.payload = 3328,
	.flags = WEFT_CM_CSUM,
	.conn = 0x0102030405060708,
	.secret = 0x1112131415161718,
	.features = 0x80000003,
	.required = 2,
	.window = 0x400,
	.atomics = 0x40,
	.priv_len = 5,
	.priv = "hello",
};

static void format__layout(void **state)
{
	static const uint8_t want[] = {
		'W', 'E',  'F',  'T',  0,    2,    0,    3,    0,    1,    0, 5, 0,
		5,   0,    3,    0xff, 0xff, 0xff, 0xf0, 0,    0,    0x0d, 0, 0, 0,
		0,   1,    0x12, 0xb9, 0,    0,    1,    2,    3,    4,    5, 6, 7,
		8,   0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0,    0, 0, 0,
		0,   0,    0,    0,    0x80, 0,    0,    3,    0,    0,    0, 2, 0,
		0,   4,    0,    0,    0,    0,    0x40, 0,    0,    0,    0, 0, 0,
		0,   0,    'h',  'e',  'l',  'l',  'o',
	};
	uint8_t buf[WEFT_CM_MAX] = { 0 };

	(void)state;
	assert_int_equal(weft_cm_format(&sample, buf), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
}

static void parse__round_trip_at_every_length(void **state)
{
	struct weft_cm_msg m = sample, got;
	uint8_t buf[WEFT_CM_MAX] = { 0 };
	size_t len;

	(void)state;
	for (unsigned priv = 0; priv <= WEFT_PRIVATE_MAX; priv += 64) {
		m.priv_len = priv;
		for (unsigned i = 0; i < priv; i++)
			m.priv[i] = i * 7;
		memset(m.priv + priv, 0, sizeof(m.priv) - priv);
		len = weft_cm_format(&m, buf);
		for (size_t part = 0; part < len; part++) {
			/* exact allocation: the sanitizer sees a read beyond it */
			uint8_t *cut = malloc(part ? part : 1);

			memcpy(cut, buf, part);
			assert_int_equal(weft_cm_parse(cut, part, WEFT_CM_REQUEST, &got), 0);
			free(cut);
		}
		memset(&got, 0xee, sizeof(got));
		assert_int_equal(weft_cm_parse(buf, len, WEFT_CM_REQUEST, &got), len);
		assert_int_equal(got.qpn, m.qpn);
		assert_int_equal(got.psn, m.psn);
		assert_int_equal(got.payload, m.payload);
		assert_int_equal(got.flags, m.flags);
		assert_int_equal(got.port, m.port);
		assert_true(got.conn == m.conn && got.secret == m.secret);
		assert_true(got.features == m.features && got.required == m.required);
		assert_true(got.window == m.window && got.atomics == m.atomics);
		assert_int_equal(got.priv_len, priv);
		assert_memory_equal(got.priv, m.priv, sizeof(m.priv));
	}
}

/* Change one message in one way; what does the parser say? */
static int after(size_t at, uint8_t byte)
{
	struct weft_cm_msg got;
	uint8_t buf[WEFT_CM_MAX] = { 0 };
	size_t len = weft_cm_format(&sample, buf);

	buf[at] = byte;
	return weft_cm_parse(buf, len, WEFT_CM_REQUEST, &got);
}

static void parse__strangers(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\n\r\n";
	struct weft_cm_msg got;

	(void)state;
	assert_int_equal(weft_cm_parse((const uint8_t *)http, 1, WEFT_CM_REQUEST, &got), -EPROTO);
	assert_int_equal(weft_cm_parse((const uint8_t *)http, 18, WEFT_CM_REQUEST, &got), -EPROTO);
	assert_int_equal(after(3, 'X'), -EPROTO);
	assert_int_equal(after(5, 1), -EPROTONOSUPPORT);
	assert_int_equal(after(7, 9), -EPROTONOSUPPORT);
	assert_int_equal(after(9, WEFT_CM_REPLY), -EPROTO);
	assert_int_equal(after(10, 1), -EPROTO); /* 261 bytes of private data */
	assert_int_equal(after(11, 6), 0);       /* one more than is there */
	assert_int_equal(after(23, 1), -EPROTO); /* payload 3329 */
	assert_int_equal(after(21, 2), -EPROTO); /* 134400 */
	assert_int_equal(after(22, 0), -EPROTO); /* 0 */
	assert_int_equal(after(24, 1), -EPROTO); /* unknown flag */
	assert_int_equal(after(30, 1), -EPROTO);
	assert_int_equal(after(55, 1), -EPROTO);
	assert_int_equal(after(72, 1), -EPROTO);
	assert_int_equal(after(79, 1), -EPROTO);
	assert_true(after(56, 0xff) > 0 && after(60, 0xff) > 0); /* features of later versions */
	assert_int_equal(after(51, 1), -EPROTO);                 /* a REQUEST cannot refuse */
}

static void parse__zero_fields(void **state)
{
	struct weft_cm_msg m, got;
	uint8_t buf[WEFT_CM_MAX] = { 0 };

	(void)state;
	m = sample;
	m.qpn = 0;
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), m.type, &got), -EPROTO);
	m = sample;
	m.port = 0;
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), m.type, &got), -EPROTO);
	m = sample;
	m.payload = WEFT_PAYLOAD_MIN - 64;
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), m.type, &got), -EPROTO);
}

static void parse__refusal(void **state)
{
	struct weft_cm_msg m = { .type = WEFT_CM_REPLY, .refusal = WEFT_CM_R_ROUTE }, got;
	uint8_t buf[WEFT_CM_MAX] = { 0 };

	(void)state;
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), WEFT_CM_REPLY, &got),
			 WEFT_CM_LEN);
	assert_int_equal(got.refusal, WEFT_CM_R_ROUTE);
	m.priv_len = 1;
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), WEFT_CM_REPLY, &got), -EPROTO);
	m.priv_len = 0;
	m.type = WEFT_CM_REQUEST; /* that cannot refuse */
	assert_int_equal(weft_cm_parse(buf, weft_cm_format(&m, buf), m.type, &got), -EPROTO);
}

/* Both sides come to the same answer. */
static enum weft_cm_refusal match(const struct weft_cm_msg *a, const struct weft_cm_msg *b)
{
	enum weft_cm_refusal r = weft_cm_match(a, b);

	assert_int_equal(weft_cm_match(b, a), r);
	return r;
}

static void match__reasons(void **state)
{
	struct weft_cm_msg a = { .features = 3, .window = 1024, .atomics = 64 }, b = a;

	(void)state;
	assert_int_equal(match(&a, &b), WEFT_CM_OK);
	b.features = 0x80000003; /* what we do not know and need not have */
	assert_int_equal(match(&a, &b), WEFT_CM_OK);
	b.required = 0x80000000; /* what we must have */
	assert_int_equal(match(&a, &b), WEFT_CM_R_FEATURES);
	b.required = 2;
	assert_int_equal(match(&a, &b), WEFT_CM_OK);
	a.features = 1;
	assert_int_equal(match(&a, &b), WEFT_CM_R_FEATURES);
	b.required = 0;
	b.atomics = 32; /* of no importance to who has none */
	assert_int_equal(match(&a, &b), WEFT_CM_OK);
	a.features = 3;
	assert_int_equal(match(&a, &b), WEFT_CM_R_ATOMICS);
	b.window = 2048;
	assert_int_equal(match(&a, &b), WEFT_CM_R_WINDOW);
}

static void match__no_qp(void **state)
{
	(void)state;
	assert_int_equal(weft_cm_no_qp(-ENODEV), WEFT_CM_R_LOST);
	assert_int_equal(weft_cm_no_qp(-EDQUOT), WEFT_CM_R_QUOTA);
	assert_int_equal(weft_cm_no_qp(-ENOSPC), WEFT_CM_R_RESOURCES);
}

static void version__refusal_in_its_own(void **state)
{
	static const uint8_t old[8] = { 'W', 'E', 'F', 'T', 0, 1, 0, 7 };
	uint8_t buf[WEFT_CM_OLD_LEN], zero[36] = { 0 };

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	weft_cm_format_version(old, buf);
	assert_memory_equal(buf, "WEFT\0\1\0\7\0\2\0\0", 12);
	assert_memory_equal(buf + 12, zero, 36);
	assert_memory_equal(buf + 48, "\0\0\0\1\0\0\0\0", 8);
}

static void parse__random_bytes(void **state)
{
	struct weft_cm_msg got;

	(void)state;
	srandom(1);
	for (int i = 0; i < 20000; i++) {
		size_t len = random() % (WEFT_CM_MAX + 1);
		uint8_t *buf = malloc(len ? len : 1);
		int r;

		for (size_t j = 0; j < len; j++)
			buf[j] = random();
		/* most must get past the first checks to be worth anything */
		if (len >= 12 && i % 4) {
			cm_put(buf, WEFT_CM_MAGIC, 4);
			cm_put(buf + 4, WEFT_CM_VER, 2);
			cm_put(buf + 6, WEFT_WIRE_VER, 2);
			cm_put(buf + 8, WEFT_CM_REQUEST, 2);
			buf[10] = 0;
		}
		r = weft_cm_parse(buf, len, WEFT_CM_REQUEST, &got);
		assert_true(r == 0 || r == -EPROTO || r == -EPROTONOSUPPORT ||
			    (r >= WEFT_CM_LEN && (size_t)r <= len));
		free(buf);
	}
}

static void bye__round_trip(void **state)
{
	uint8_t buf[WEFT_CM_BYE_LEN];
	uint32_t code, arrived;

	(void)state;
	weft_cm_bye_format(WEFT_NAK_KEY, 0xfffffffe, buf);
	assert_memory_equal(buf, "WBYE\0\0\0\1\xff\xff\xff\xfe", sizeof(buf));
	assert_int_equal(weft_cm_bye_parse(buf, &code, &arrived), 0);
	assert_int_equal(code, WEFT_NAK_KEY);
	assert_int_equal(arrived, 0xfffffffe);
	buf[0] = 'X';
	assert_int_equal(weft_cm_bye_parse(buf, &code, &arrived), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format__layout),
		cmocka_unit_test(parse__round_trip_at_every_length),
		cmocka_unit_test(parse__strangers),
		cmocka_unit_test(parse__zero_fields),
		cmocka_unit_test(parse__refusal),
		cmocka_unit_test(match__reasons),
		cmocka_unit_test(match__no_qp),
		cmocka_unit_test(version__refusal_in_its_own),
		cmocka_unit_test(parse__random_bytes),
		cmocka_unit_test(bye__round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
