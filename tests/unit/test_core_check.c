/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/check.h: the keyed header check. */
#include "test_core_util.h"

#include <arpa/inet.h>
#include <endian.h>

#include <weft/core/check.h>
#include <weft/wire.h>

#define CHECK_WORD 3
#define CHECK_BITS 0xffffffffull /* of that word: the check field itself */

static void fill_words(__u64 w[8], __u64 seed)
{
	for (int i = 0; i < 8; i++)
		w[i] = (seed += 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
}

/* splitmix64 from seed 1234567: the values published with the reference implementation. */
static void expand__known_values(void **state)
{
	static const __u64 want[] = { 6457827717110365317ull, 3203168211198807973ull,
				      9817491932198370423ull, 4593380528125082431ull,
				      16408922859458223821ull };
	__u64 keys[WEFT_CHECK_KEYS];

	(void)state;
	weft_check_expand(1234567, keys);
	for (int i = 0; i < 5; i++)
		assert_true(keys[i] == want[i]);
}

/* The definition, written out in 128-bit arithmetic. */
static void check__is_multilinear_hm(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS], w[8];

	(void)state;
	for (__u64 seed = 0; seed < 100; seed++) {
		unsigned __int128 sum;

		weft_check_expand(seed * 77, keys);
		fill_words(w, seed);
		sum = keys[16];
		for (int i = 0; i < 8; i++) {
			__u64 lo = i == CHECK_WORD ? 0 : (__u32)w[i], hi = w[i] >> 32;

			sum += (unsigned __int128)(__u64)(keys[2 * i] + lo) *
			       (__u64)(keys[2 * i + 1] + hi);
		}
		assert_int_equal(weft_check(w, keys), (__u32)((__u64)sum >> 32));
	}
}

static void check__zero_header(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS] = { 0 }, w[8] = { 0 };

	(void)state;
	keys[16] = 0x1122334455667788ull;
	assert_int_equal(weft_check(w, keys), 0x11223344);
	keys[0] = 1ull << 32;
	keys[1] = 3;
	assert_int_equal(weft_check(w, keys), 0x11223347);
}

static void check__every_single_bit(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS], w[8];

	(void)state;
	for (__u64 seed = 0; seed < 64; seed++) {
		__u32 good;

		weft_check_expand(seed, keys);
		fill_words(w, seed + 1000);
		good = weft_check(w, keys);
		for (int bit = 0; bit < 512; bit++) {
			__u64 m = 1ull << (bit & 63);

			w[bit / 64] ^= m;
			if (bit / 64 == CHECK_WORD && (m & CHECK_BITS))
				assert_int_equal(weft_check(w, keys), good);
			else
				assert_int_not_equal(weft_check(w, keys), good);
			w[bit / 64] ^= m;
		}
	}
}

static void check__every_pair_of_bits(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS], w[8];
	__u32 good;

	(void)state;
	weft_check_expand(42, keys);
	fill_words(w, 4711);
	w[CHECK_WORD] &= ~CHECK_BITS;
	good = weft_check(w, keys);
	for (int a = 0; a < 512; a++)
		for (int b = a + 1; b < 512; b++) {
			if ((a >= 192 && a < 224) || (b >= 192 && b < 224))
				continue;
			w[a / 64] ^= 1ull << (a & 63);
			w[b / 64] ^= 1ull << (b & 63);
			assert_int_not_equal(weft_check(w, keys), good);
			w[a / 64] ^= 1ull << (a & 63);
			w[b / 64] ^= 1ull << (b & 63);
		}
}

/* What a sum of words would not see. */
static void check__swapped_words(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS], w[8];
	__u32 h[16], t, good;

	(void)state;
	weft_check_expand(7, keys);
	fill_words(w, 99);
	memcpy(h, w, sizeof(h));
	good = weft_check(w, keys);
	for (int a = 0; a < 16; a++)
		for (int b = a + 1; b < 16; b++) {
			if (a == 6 || b == 6)
				continue;
			t = h[a], h[a] = h[b], h[b] = t;
			memcpy(w, h, sizeof(w));
			assert_int_not_equal(weft_check(w, keys), good);
			t = h[a], h[a] = h[b], h[b] = t;
		}
}

/* The packets of docs/protocol.md, section 3, with their checks by two secrets. */
static void check__packets_of_the_protocol(void **state)
{
	static const struct {
		__u8 op, flags;
		__u32 dqpn, psn, w[8]; /* bytes 32 to 63 */
		__u16 len;
		__u32 check, check0;
	} v[] = {
		{ WEFT_OP_DATA,
		  1,
		  0x10003,
		  0xfffffffe,
		  { 0xabcde012, 7, 0, 68864, 3328, 6656 },
		  3328,
		  0x25593598,
		  0xdc1dadf6 },
		{ WEFT_OP_ACK,
		  0,
		  0x20001,
		  0xfffffffe,
		  { 0xfffffffd, 6, 1u << 30, 0, 0xffffffc0 },
		  0,
		  0x82abd18b,
		  0xf8a69366 },
		{ WEFT_OP_NAK,
		  0,
		  0x20001,
		  0xfffffffe,
		  { 2, 0xfffffffe },
		  0,
		  0x0a65e653,
		  0xbdfddbe1 },
		{ WEFT_OP_READ,
		  1,
		  0x10003,
		  0xffffffff,
		  { 0xabcde012, 8, 0, 68864, 3328, 4000, 672 },
		  0,
		  0x2b5acbcd,
		  0xe784bd6b },
		{ WEFT_OP_REPLY,
		  0,
		  0x20001,
		  0xffffffff,
		  { 0xfffffffd, 6, 3u << 30, 0, 0xffffffc0 },
		  672,
		  0x718a78f5,
		  0xc386a343 },
		{ WEFT_OP_FADD,
		  1,
		  0x10003,
		  0,
		  { 0xabcde012, 9, 0, 64, 0x01020304, 0x05060708 },
		  0,
		  0xc1e66181,
		  0x5e49c798 },
		{ WEFT_OP_CSWAP,
		  1,
		  0x10003,
		  1,
		  { 0xabcde012, 10, 0, 72, 0, 1, 0x11121314, 0x15161718 },
		  0,
		  0x1678a262,
		  0xdd5b51eb },
		{ WEFT_OP_SEND,
		  0x31,
		  0x10003,
		  2,
		  { 0, 11, 0, 0, 0, 100, 0xcafef00d, 5 },
		  100,
		  0xebca6fab,
		  0xa07959e0 },
		{ WEFT_OP_RNR, 0x40, 0x20001, 2, { 2, 10, 0, 3, 0, 5 }, 0, 0x8079ef6f, 0x322fdedf },
		{ WEFT_OP_RESUME,
		  0x00,
		  0x20001,
		  0,
		  { 0, 0, 0, 0, 0, 6 },
		  0,
		  0x1d498df6,
		  0xe44c4736 },
		{ WEFT_OP_NAK, 0x00, 0x20001, 3, { 2, 3, 1 }, 0, 0x60ff6ec0, 0xe75a4c6d },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		__u64 keys[WEFT_CHECK_KEYS];
		union {
			struct weft_hdr h;
			__u32 half[16];
			__u64 w[8];
		} u = { .h = { .ver = 3,
			       .op = v[i].op,
			       .flags = v[i].flags,
			       .ev = 5,
			       .dqpn = htonl(v[i].dqpn),
			       .conn = htobe64(0x1122334455667788),
			       .psn = htonl(v[i].psn),
			       .ts = htonl(0x01020304),
			       .len = htons(v[i].len) } };

		for (int k = 0; k < 8; k++)
			u.half[8 + k] = htonl(v[i].w[k]);
		weft_check_expand(0x0123456789abcdef, keys);
		assert_int_equal(weft_check(u.w, keys), v[i].check);
		weft_check_expand(0, keys);
		assert_int_equal(weft_check(u.w, keys), v[i].check0);
	}
	assert_int_equal(WEFT_WIRE_VER, 3);
	assert_int_equal(offsetof(struct weft_hdr, data.rlen), 56);
	assert_int_equal(offsetof(struct weft_hdr, data.imm), 56);
	assert_int_equal(offsetof(struct weft_hdr, data.rsn), 60);
	assert_int_equal(offsetof(struct weft_hdr, ack.epoch), 52);
	assert_int_equal(offsetof(struct weft_hdr, atomic.operand), 48);
	assert_int_equal(offsetof(struct weft_hdr, atomic.compare), 56);
}

static void check__depends_on_the_key(void **state)
{
	__u64 keys[WEFT_CHECK_KEYS], w[8];
	int same = 0;

	(void)state;
	fill_words(w, 5);
	for (int i = 0; i < 2000; i++) {
		__u32 a;

		weft_check_expand(2 * i, keys);
		a = weft_check(w, keys);
		weft_check_expand(2 * i + 1, keys);
		same += a == weft_check(w, keys);
	}
	assert_int_equal(same, 0);
}

_Static_assert(offsetof(struct weft_hdr, check) == CHECK_WORD * 8,
	       "the check field leads its word");
_Static_assert(sizeof(((struct weft_hdr *)0)->check) == 4, "and is half of it");

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expand__known_values),
		cmocka_unit_test(check__is_multilinear_hm),
		cmocka_unit_test(check__zero_header),
		cmocka_unit_test(check__every_single_bit),
		cmocka_unit_test(check__every_pair_of_bits),
		cmocka_unit_test(check__swapped_words),
		cmocka_unit_test(check__depends_on_the_key),
		cmocka_unit_test(check__packets_of_the_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
