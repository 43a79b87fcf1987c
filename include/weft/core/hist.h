/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Histogram of times in log buckets, eight to an octave, as HdrHistogram has them; fixed size. */
#ifndef WEFT_CORE_HIST_H
#define WEFT_CORE_HIST_H

#include <weft/core/psn.h>
#include <weft/wire.h>

/*
 * Values are wire ticks of 64 ns. Below 16 every value has a bucket, above it a
 * bucket is an eighth of its octave wide, so that its middle is at most 1/16 off.
 * The last one takes all from 4.03 s on.
 */
#define WEFT_HIST_SUB 8
#define WEFT_HIST_N   192

struct weft_hist {
	__u64 n[WEFT_HIST_N];
};

/* Which bucket v belongs to. */
weft_inline __u32 weft_hist_at(__u32 v)
{
	__u32 x = v | WEFT_HIST_SUB, shift, at;

	/* fill up below the highest bit, so that counting bits finds it: BPF has nothing better */
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	shift = weft_popcount(x) - 4;
	at = shift * WEFT_HIST_SUB + (v >> (shift & 31));
	return at < WEFT_HIST_N ? at : WEFT_HIST_N - 1;
}

/* The smallest value of bucket i, and, of i + 1, the first that is not in it any more. */
weft_inline __u64 weft_hist_from(__u32 i)
{
	if (i < 2 * WEFT_HIST_SUB)
		return i;
	return (__u64)(WEFT_HIST_SUB + i % WEFT_HIST_SUB) << (i / WEFT_HIST_SUB - 1);
}

/* The middle of bucket i, ns: what a value in it is taken for. */
weft_inline __u64 weft_hist_ns(__u32 i)
{
	return ((weft_hist_from(i) + weft_hist_from(i + 1)) << WEFT_TS_SHIFT) / 2;
}

weft_inline __u64 weft_hist_count(const struct weft_hist *h)
{
	__u64 sum = 0;

	for (int i = 0; i < WEFT_HIST_N; i++)
		sum += h->n[i];
	return sum;
}

weft_inline void weft_hist_add(struct weft_hist *to, const struct weft_hist *h)
{
	for (int i = 0; i < WEFT_HIST_N; i++)
		to->n[i] += h->n[i];
}

/*
 * The value, ns, that permille / 1000 of all do not exceed (nearest rank); 0 when
 * there are none.
 */
weft_inline __u64 weft_hist_quantile(const struct weft_hist *h, __u32 permille)
{
	__u64 count = weft_hist_count(h), rank, seen = 0;
	__u32 i;

	if (!count)
		return 0;
	/* in two parts: count * permille may not fit */
	rank = count / 1000 * permille + (count % 1000 * permille + 999) / 1000;
	if (!rank)
		rank = 1;
	for (i = 0; i < WEFT_HIST_N - 1; i++) {
		seen += h->n[i];
		if (seen >= rank)
			break;
	}
	return weft_hist_ns(i);
}

#endif
