/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The simulator's random numbers: xoshiro256**, seeded by splitmix64 (Blackman and Vigna). */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdint.h>

extern uint64_t sim_rng[4];
void rng_seed(uint64_t seed);

static inline uint64_t rng(void)
{
	uint64_t *s = sim_rng, r = s[1] * 5, t = s[1] << 17;

	r = (r << 7 | r >> 57) * 9;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = s[3] << 45 | s[3] >> 19;
	return r;
}

/* 0 to n - 1 */
static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(((rng() >> 32) * n) >> 32);
}

static inline uint32_t between(uint32_t lo, uint32_t hi)
{
	return lo + below(hi - lo + 1);
}

/* true with probability p / 2^20 */
static inline int chance(uint32_t p)
{
	return (rng() >> 44) < p;
}
#define PERMILLE(x) ((uint32_t)((x)*1048.576))

#endif
