/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Serial-number arithmetic, and the two bit operations the core needs (RFC 1982; no libc, no BPF). */
#ifndef WEFT_CORE_PSN_H
#define WEFT_CORE_PSN_H

#include <linux/types.h>

#ifndef weft_inline
#define weft_inline static inline __attribute__((always_inline, unused))
#endif

#define WEFT_WIN       1024 /* PSN window: packets between the oldest unplaced and the newest */
#define WEFT_WIN_WORDS (WEFT_WIN / 64)
#define WEFT_ATOMICS   64 /* atomics a QP has out, and results that its peer remembers */

/*
 * Keep the result of an atomic. Without a use of it compilers take the form that
 * does not fetch, which on arm64 is no barrier at all.
 */
#define weft_fetched(x)                                 \
	do {                                            \
		__typeof__(x) fetched_ = (x);           \
		__asm__ volatile("" : : "r"(fetched_)); \
	} while (0)

/*
 * Pointer p, not to be followed before the value v was read. In BPF the address is made to depend
 * on v: that order every CPU keeps, and costs nothing; loads with acquire came with Linux 6.15.
 */
#ifdef __bpf__
#define weft_after(p, v)                                    \
	({                                                  \
		__u64 zero_ = (v);                          \
		__asm__ volatile("%0 &= 0" : "+r"(zero_));  \
		(__typeof__(p))((const char *)(p) + zero_); \
	})
#else
weft_inline void weft_acquire(__u64 v)
{
	(void)v;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}
#define weft_after(p, v) (weft_acquire(v), (p))
#endif

/* a - b in serial order: negative when a is older. */
weft_inline __s32 weft_psn_diff(__u32 a, __u32 b)
{
	return (__s32)(a - b);
}

weft_inline __u32 weft_psn_word(__u32 psn)
{
	return (psn >> 6) & (WEFT_WIN_WORDS - 1);
}

weft_inline __u64 weft_psn_bit(__u32 psn)
{
	return 1ull << (psn & 63);
}

/* Bits set in x. Arithmetic only: BPF has neither popcount nor a cheap branch. */
weft_inline __u32 weft_popcount(__u64 x)
{
	x = x - ((x >> 1) & 0x5555555555555555ull);
	x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (x * 0x0101010101010101ull) >> 56;
}

/* Index of the lowest set bit; 64 when x is 0. */
weft_inline __u32 weft_ctz(__u64 x)
{
	return weft_popcount((x & -x) - 1);
}

/* The bits lo..hi-1 of a word, 0 <= lo <= hi <= 64. */
weft_inline __u64 weft_mask(__u32 lo, __u32 hi)
{
	__u64 upto = hi >= 64 ? ~0ull : (1ull << (hi & 63)) - 1;
	__u64 below = lo >= 64 ? ~0ull : (1ull << (lo & 63)) - 1;

	return upto & ~below;
}

#endif
