/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* netwrite --mix: what both ends of a mix of all operations know of its messages and memory. */
#ifndef NETMIX_H
#define NETMIX_H

#include "netcommon.h"

/*
 * The server's region: words for atomics, places for WRITEs that a message announces and for WRITEs
 * with immediate data, and then what the client writes and reads as it likes. Only one QP uses it, so
 * the client knows each byte.
 */
#define MIX_WORDS  64
#define MIX_PLACES 512  /* more than messages can be ahead of the server */
#define MIX_BLOCK  256u /* bytes of a place: twice that */
#define MIX_HEAP   (8 + 8 * MIX_WORDS + MIX_PLACES * 2 * MIX_BLOCK)
#define MIX_BUF    8192u /* of a receive */
#define MIX_RECVS  4     /* receives of a QP of its own */
#define MIX_SHARED 8     /* in the queue that QPs share */
#define MIX_GAP    64u   /* between two pieces in memory */
#define MIX_SRC    (128u << 10)

/* Words that all QPs of a server share: a counter, and who has drawn which of its values. */
#define MIX_BOARD  4096

/* Immediate data that is no message's: the client has done, and what the server says to that. */
#define MIX_END    0x80000000u

struct mix_end {
	uint64_t hash; /* of what the server's region must hold */
	uint64_t msgs;
};

/* Message k, which takes a receive. Its bytes lie in `nsge` pieces from `off` of the source on. */
struct mix_msg {
	uint32_t len, off, nsge, imm;
	uint32_t block, block_off; /* of the WRITE before it; 0 bytes: none */
	uint32_t echo, echo_off;   /* what the server sends back; 0 bytes: nothing */
	bool write, has_imm, sol, in_line;
	uint64_t rnd;
};

static inline struct mix_msg mix_msg(uint64_t seed, uint64_t k)
{
	uint64_t rnd = np_mix(seed ^ k * 0x9e3779b97f4a7c15ull);
	struct mix_msg m = { .nsge = 1 };
	uint64_t how = np_below(&rnd, 16);

	m.write = how < 4;
	m.in_line = how >= 12;
	m.has_imm = m.write || np_below(&rnd, 2);
	m.sol = np_below(&rnd, 2);
	m.imm = np_rand(&rnd) & ~MIX_END;
	if (!np_below(&rnd, 12))
		m.len = 0;
	else if (m.write)
		m.len = np_below(&rnd, MIX_BLOCK + 1);
	else if (m.in_line)
		m.len = np_below(&rnd, WEFT_INLINE_MAX + 1);
	else
		m.len = np_below(&rnd, np_below(&rnd, 3) ? 300 : MIX_BUF + 1);
	if (!m.in_line)
		m.nsge = 1 + np_below(&rnd, WEFT_SGE_MAX);
	m.off = np_below(&rnd, MIX_SRC - MIX_BUF - WEFT_SGE_MAX * MIX_GAP);
	if (!np_below(&rnd, 2))
		m.block = 1 + np_below(&rnd, MIX_BLOCK);
	m.block_off = np_below(&rnd, MIX_SRC - MIX_BLOCK);
	if (!np_below(&rnd, 6))
		m.echo = 1 + np_below(&rnd, 64);
	m.echo_off = np_below(&rnd, MIX_SRC - 64);
	m.rnd = rnd;
	return m;
}

/* Cut len bytes from `at` on into n pieces with gaps between them. */
static inline void mix_cut(struct weft_sge *g, unsigned n, const struct weft_mr *mr, uint64_t at,
			   uint32_t len, uint64_t rnd)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len : np_below(&rnd, len + 1);

		g[i] = (struct weft_sge){ .mr = mr, .off = at, .len = part };
		at += part + MIX_GAP;
		len -= part;
	}
}

/* Copy out of those pieces of `from`, one after the other. */
static inline void mix_gather(uint8_t *to, const uint8_t *from, const struct weft_sge *g,
			      unsigned n)
{
	for (; n; n--, g++) {
		memcpy(to, from + g->off, g->len);
		to += g->len;
	}
}

static inline void mix_bytes(uint8_t *to, const uint8_t *src, const struct mix_msg *m)
{
	struct weft_sge g[WEFT_SGE_MAX];

	mix_cut(g, m->nsge, NULL, m->off, m->len, m->rnd);
	mix_gather(to, src, g, m->nsge);
}

static inline uint64_t mix_place(uint64_t skew, uint64_t k)
{
	return skew + 8 * MIX_WORDS + k % MIX_PLACES * 2 * MIX_BLOCK;
}

static inline uint64_t mix_hash(const uint8_t *p, size_t len)
{
	uint64_t h = len, w;

	for (size_t i = 0; i < len; i += 8) {
		w = 0;
		memcpy(&w, p + i, len - i < 8 ? len - i : 8);
		h = (h ^ w) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return h;
}

#endif
