/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Header check: a keyed 32-bit universal hash over the 64-byte wire header. */
#ifndef WEFT_CORE_CHECK_H
#define WEFT_CORE_CHECK_H

#include <weft/wire.h>
#include <weft/core/psn.h>

/*
 * Multilinear-HM of Lemire and Kaser, "Strongly universal string hashing is
 * fast" (Computer Journal 57(11), 2014): with words w and random 64-bit keys k,
 *   check = (k[16] + sum over pairs (k[2i] + w[2i]) * (k[2i+1] + w[2i+1])) >> 32
 * modulo 2^64. For any two different headers the chance that a random key gives
 * both the same check is 2^-32, whatever the difference is (a burst, swapped
 * words, a shifted field). It guards against corruption and blind forgery; it
 * is no cryptographic MAC, and an on-path attacker is not excluded.
 */
#define WEFT_CHECK_KEYS 17

/* Expand a connection's 64-bit secret into hash keys (splitmix64, Steele et al. 2014). */
weft_inline void weft_check_expand(__u64 secret, __u64 keys[WEFT_CHECK_KEYS])
{
	for (int i = 0; i < WEFT_CHECK_KEYS; i++) {
		__u64 z = (secret += 0x9e3779b97f4a7c15ull);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		keys[i] = z ^ (z >> 31);
	}
}

weft_inline __u64 weft_le64(__u64 x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

/* The check of a block of eight 64-bit words; without the low half of word `hole`, if there is one. */
weft_inline __u32 weft_check_block(const __u64 words[8], const __u64 *keys, int hole)
{
	__u64 sum = keys[16];

	/* unrolled: BPF would otherwise keep i in a register and re-check bounds */
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		__u64 w = weft_le64(words[i]);

		if (i == hole)
			w &= ~0xffffffffull;
		sum += (keys[2 * i] + (w & 0xffffffffull)) * (keys[2 * i + 1] + (w >> 32));
		/* one after the other: BPF has neither registers nor stack for all of them */
		__asm__ volatile("" : "+r"(sum) : : "memory");
	}
	return sum >> 32;
}

/*
 * The check of a header, host order. words: the header as eight 64-bit words
 * (aligned copy); the check field (bytes 24 to 27) is taken as zero.
 */
weft_inline __u32 weft_check(const __u64 words[8], const __u64 *keys)
{
	return weft_check_block(words, keys, 3);
}

/* The two checks of descriptors, which the header carries: those that are not there are zeros. */
weft_inline void weft_check_descs(const __u64 words[16], const __u64 *keys, __u32 sum[2])
{
	sum[0] = weft_check_block(words, keys, -1);
	sum[1] = weft_check_block(words + 8, keys, -1);
}

#endif
