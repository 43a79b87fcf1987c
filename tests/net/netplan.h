/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both ends of netwrite derive from a seed: source bytes, message plans, canaries. */
#ifndef NETPLAN_H
#define NETPLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64, Steele et al. 2014 */
static inline uint64_t np_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t np_rand(uint64_t *state)
{
	return np_mix(*state += 0x9e3779b97f4a7c15ull);
}

static inline uint64_t np_below(uint64_t *state, uint64_t n)
{
	return n ? np_rand(state) % n : 0;
}

/* The bytes of a buffer: a function of seed and position alone. */
static inline void np_fill(uint8_t *p, size_t len, uint64_t seed)
{
	size_t i;
	uint64_t w;

	for (i = 0; i < len; i += 8) {
		w = np_mix(seed + i * 0x9e3779b97f4a7c15ull);
		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

/* Canaries are never zero, and differ from one position to the next. */
static inline uint8_t np_canary(uint64_t seed, size_t i)
{
	return np_mix(seed ^ (i << 1)) | 1;
}

static inline void np_canary_fill(uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = np_canary(seed, i);
}

/* Index of the first wrong one, or -1. */
static inline long np_canary_check(const uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != np_canary(seed, i))
			return i;
	return -1;
}

struct np_msg {
	uint64_t roff; /* in the destination */
	uint64_t off;  /* in the source */
	uint32_t len;
};

struct np_plan {
	struct np_msg *msg;
	unsigned n, room;
	uint64_t bytes;
};

static inline void np_add(struct np_plan *p, uint64_t roff, uint64_t off, uint32_t len)
{
	if (p->n == p->room) {
		p->room = p->room ? p->room * 2 : 256;
		p->msg = realloc(p->msg, p->room * sizeof(*p->msg));
		if (!p->msg)
			abort();
	}
	p->msg[p->n++] = (struct np_msg){ roff, off, len };
	p->bytes += len;
}

/* How long: from nothing over a few packets to max. */
static inline uint64_t np_length(uint64_t *rnd, uint64_t max)
{
	uint64_t kind = np_below(rnd, 100), limit;

	limit = kind < 4 ? 0 : kind < 20 ? 64 : kind < 40 ? 10000 : kind < 60 ? 100000 : max;
	return np_below(rnd, (limit < max ? limit : max) + 1);
}

/*
 * Messages that cover [0, region) but for some gaps, each byte at most once, in
 * random order. fixed: all of that size and without gaps.
 */
static inline void np_plan_make(struct np_plan *p, uint64_t seed, uint64_t region, uint64_t src,
				uint64_t max, uint64_t fixed)
{
	uint64_t rnd = seed, at = 0, len;

	p->n = p->bytes = 0;
	max = max < src ? max : src;
	while (at < region) {
		if (!fixed && !np_below(&rnd, 4)) {
			at += 1 + np_below(&rnd, 300);
			if (at >= region)
				break;
		}
		len = fixed ? fixed : np_length(&rnd, max);
		if (len > region - at)
			len = region - at;
		np_add(p, at, np_below(&rnd, src - len + 1), len);
		at += len;
	}
	for (unsigned i = p->n; i > 1; i--) {
		unsigned j = np_below(&rnd, i);
		struct np_msg t = p->msg[i - 1];

		p->msg[i - 1] = p->msg[j];
		p->msg[j] = t;
	}
}

static inline int np_by_place(const void *a, const void *b)
{
	const struct np_msg *x = a, *y = b;

	return x->roff != y->roff ? (x->roff < y->roff ? -1 : 1)
				  : (x->len > y->len) - (x->len < y->len);
}

static inline bool np_zero(const uint8_t *p, size_t len)
{
	return !len || (!p[0] && !memcmp(p, p + 1, len - 1));
}

/* Compare a whole destination with the plan, which is sorted by this. First wrong offset, or -1. */
static inline int64_t np_plan_check(struct np_plan *p, const uint8_t *dst, uint64_t region,
				    const uint8_t *src)
{
	uint64_t at = 0;

	qsort(p->msg, p->n, sizeof(*p->msg), np_by_place);
	for (unsigned i = 0; i < p->n; i++) {
		const struct np_msg *m = &p->msg[i];

		if (!np_zero(dst + at, m->roff - at))
			return at;
		if (memcmp(dst + m->roff, src + m->off, m->len)) {
			for (at = 0; dst[m->roff + at] == src[m->off + at]; at++)
				;
			return m->roff + at;
		}
		at = m->roff + m->len;
	}
	return np_zero(dst + at, region - at) ? -1 : (int64_t)at;
}

/* ---- private data ---- */

#define NP_MAGIC 0x6e657477726974ull

enum np_kind {
	NP_PLAN,  /* rounds of plans, each compared and answered */
	NP_MESH,  /* source and destination offset are the same; compared at the end */
	NP_BAD,   /* only the first 4096 bytes may be written */
	NP_CLOSE, /* the server closes after the first message */
	NP_DEREG, /* the server deregisters after the first message */
	NP_MIX,   /* all operations; netmix.h */
};

struct np_hello { /* client to server */
	uint64_t magic, seed, src, max, fixed;
	uint32_t kind, rounds, reply_key, index;
};

struct np_offer { /* server to client */
	uint64_t magic, region;
	uint32_t key, key_rights, key_pd;
	uint32_t key_all, key_board; /* --mix: the same with all rights; words that all share */
	uint32_t skew;               /* of the region: words are aligned from there on */
};

#endif
