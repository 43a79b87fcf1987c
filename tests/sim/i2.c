/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I2: duplicates against advance, and against the PSN one window on, in every order of steps. */
#include "explore.h"

/* or all that is dead on the stacks would count as states */
#ifndef __clang__ /* which builds no coverage here */
#pragma GCC optimize("O2")
#endif

/*
 * The functions of rx_track.h run unchanged on threads that may be held up
 * before and after each atomic access, and between the reads of a SACK. That is
 * every order there is: each plain store of theirs (`next`, `msn`) is followed
 * by a full barrier before the next access that others could tell it from.
 */
static void turn(const volatile void *p);
#define HOOKED(op, p, v)               \
	({                             \
		__typeof__(*(p)) was_; \
		turn(p);               \
		was_ = op(p, v);       \
		turn(p);               \
		was_;                  \
	})
static void turn_of_sack(void);
#include <weft/core/psn.h>
#define __sync_fetch_and_or(p, v)  HOOKED(__sync_fetch_and_or, p, v)
#define __sync_fetch_and_and(p, v) HOOKED(__sync_fetch_and_and, p, v)
#define __sync_fetch_and_add(p, v) HOOKED(__sync_fetch_and_add, p, v)
#define __sync_fetch_and_sub(p, v) HOOKED(__sync_fetch_and_sub, p, v)
#define __asm__         \
	turn_of_sack(); \
	__asm__
#include <weft/core/rx_track.h>
#undef __asm__
#include "sim.h"

#define OLD  5u               /* a PSN, the oldest of the window at first */
#define NEW  (OLD + WEFT_WIN) /* the one that has the same bit */
#define WORD (&M.rx.word[weft_psn_word(OLD)])

/* Of OLD, NEW, and the PSN behind OLD. */
enum which { IS_OLD, IS_NEW, IS_MATE, PSNS };
enum { COPIES_MAX = 5 };

struct packet {
	struct coro coro;
	__u32 psn;
	uint32_t waits_lock;
};

static struct {
	struct weft_rx rx, start;
	struct packet t[COPIES_MAX];
	struct packet *cur;
	uint32_t copies[PSNS], last[PSNS], n; /* n: all copies */
	uint32_t locked, known;               /* known: the peer knows that OLD is delivered */
	uint32_t owners[PSNS], placed[PSNS], fresh, full;
	const char *why;
	uint64_t busy;
} M;

/* Others may go on here. */
static void go_on(void)
{
	if (M.cur)
		coro_yield();
}

/* All words behave alike: it is enough to be held up in the one that matters. */
static void turn(const volatile void *p)
{
	if (p != (void *)&M.rx.nlast && (p < (void *)WORD || p >= (void *)(WORD + 1)))
		return;
	go_on();
	M.fresh = 1;
}

/* The compiler's barriers stand between the reads of a SACK, and behind atomics: not twice. */
static void turn_of_sack(void)
{
	if (!M.fresh)
		go_on();
	M.fresh = 0;
}

static void wrong(const char *why)
{
	if (!M.why)
		M.why = why;
}

/* ---- the program: as rx_data() in bpf/rx.bpf.h ---- */

static void advance(void)
{
	if (M.cur) {
		M.cur->waits_lock = 1;
		go_on();
		M.cur->waits_lock = 0;
	}
	M.locked = 1;
	weft_rx_catch_up(&M.rx);
	M.locked = 0;
}

static const __u32 psn_of[PSNS] = { OLD, NEW, OLD + 1 };

static void acknowledge(__u32 psn)
{
	struct weft_rx_sack k;

	M.fresh = 0;
	weft_rx_sack(&M.rx, psn, &k);
	for (int which = 0; which < PSNS; which++)
		if (weft_psn_diff(k.cum, psn_of[which]) > 0 && !M.placed[which])
			wrong("what is not placed is acknowledged");
	for (__u32 i = 0; i < 64; i++) {
		__u32 x = k.base + i;
		int which = x == OLD ? IS_OLD : x == NEW ? IS_NEW : x == OLD + 1 ? IS_MATE : -1;

		/* below cum a bit may stand for the next window */
		if (!(k.bits >> i & 1) || weft_psn_diff(x, k.cum) < 0)
			continue;
		if (which < 0 ? !M.full || weft_psn_diff(x, NEW) > 0 : !M.placed[which])
			wrong("what is not placed is reported");
	}
	if (weft_psn_diff(k.cum, OLD) > 0 || (k.base == (OLD & ~63u) && k.bits & weft_psn_bit(OLD)))
		M.known = 1;
}

/* Each may be an atomic; the old one and the new one leave their results in the same place. */
static __u64 result_of(__u32 psn)
{
	return psn + 1000000ull;
}

/* A duplicate finds it, until the peer knows that the old PSN is delivered. */
static int recall(int which)
{
	__u32 psn = psn_of[which];
	__u64 v = 0;

	if (!weft_rx_recall(&M.rx, which == IS_MATE, psn, &v) && v == result_of(psn))
		return 1;
	if (which != IS_OLD || !M.known)
		wrong("the result of what is placed is not there");
	return 0;
}

static void handle(__u32 psn)
{
	static const char *const two_own[PSNS] = { "two own the old PSN", "two own the new PSN",
						   "two own the one behind" };
	int which = psn == OLD ? IS_OLD : psn == NEW ? IS_NEW : IS_MATE;

	if (weft_rx_lags(&M.rx, psn))
		advance();
	switch (weft_rx_claim(&M.rx, psn, M.last[which])) {
	case WEFT_RX_NEW:
		if (M.owners[which]++)
			wrong(two_own[which]);
		go_on();
		M.placed[which] = 1;
		weft_rx_remember(&M.rx, which == IS_MATE, psn, result_of(psn));
		if (weft_rx_commit(&M.rx, psn))
			advance();
		break;
	case WEFT_RX_DUP:
		if (!M.placed[which])
			wrong("what is not placed is taken for a duplicate");
		if (!recall(which))
			return;
		break;
	case WEFT_RX_BUSY: M.busy++; return;
	default: wrong("what fits the window is refused"); return;
	}
	acknowledge(psn);
}

static void packet_thread(void)
{
	handle(M.cur->psn);
}

/* ---- what is explored ---- */

static void setup(void)
{
	uint32_t n = 0;

	M.rx = M.start;
	M.locked = M.known = 0;
	memset(M.owners, 0, sizeof(M.owners));
	memset(M.placed, 0, sizeof(M.placed));
	M.placed[IS_MATE] = M.full;
	M.why = NULL;
	for (int which = 0; which < PSNS; which++)
		for (uint32_t i = 0; i < M.copies[which]; i++, n++) {
			coro_init(&M.t[n].coro, packet_thread);
			M.t[n].psn = psn_of[which];
			M.t[n].waits_lock = 0;
		}
}

static uint32_t moves(uint8_t *move)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < M.n; i++) {
		const struct packet *t = &M.t[i];

		if (!t->coro.done && !(t->waits_lock && M.locked) && (t->psn != NEW || M.known))
			move[n++] = i;
	}
	return n;
}

static void make(uint8_t move)
{
	M.cur = &M.t[move];
	coro_resume(&M.cur->coro);
	M.cur = NULL;
}

static uint64_t state_hash(void)
{
	uint64_t h = 1;

	explore_mix(&h, M.rx.next ^ (uint64_t)M.rx.msn << 32);
	explore_mix(&h, M.rx.nlast);
	explore_mix(&h, WORD->claimed);
	explore_mix(&h, WORD->placed);
	explore_mix(&h, WORD->last);
	for (int at = 0; at < 2; at++)
		explore_mix(&h, M.rx.result[at].psn ^ (uint64_t)M.rx.result[at].set << 32);
	explore_mix(&h, M.locked | M.known << 1 | M.placed[0] << 2 | M.placed[1] << 3 |
				M.placed[2] << 4 | M.owners[0] << 8 | M.owners[1] << 12 |
				M.owners[2] << 16);
	for (uint32_t i = 0; i < M.n; i++)
		explore_mix(&h, coro_hash(&M.t[i].coro) ^ M.t[i].waits_lock);
	return h;
}

/* At the end: who was told to come again is let in, and no bit is left behind. */
static void check_rest(void)
{
	uint32_t ends = 0, passed = 0;

	for (uint32_t i = 0; i < M.n; i++)
		if (!M.t[i].coro.done)
			wrong("the peer never learns that the old PSN is delivered");
	handle(NEW);
	weft_rx_catch_up(&M.rx);
	if (!M.owners[IS_OLD] || !M.owners[IS_NEW] || (M.copies[IS_MATE] && !M.owners[IS_MATE]))
		wrong("a PSN stays claimed, and nobody owns it");
	for (uint32_t i = 0; i < WEFT_WIN_WORDS; i++) {
		if (M.rx.word[i].claimed != M.rx.word[i].placed)
			wrong("a bit is left behind");
		ends += weft_popcount(M.rx.word[i].last);
	}
	for (int which = 0; which < PSNS; which++)
		passed += M.last[which] && weft_psn_diff(M.rx.next, psn_of[which]) > 0;
	if (M.rx.nlast != ends || M.rx.msn != passed)
		wrong("ends of messages are counted wrong");
}

static int bad(int end)
{
	if (end && !M.why)
		check_rest();
	return M.why != NULL;
}

/* full: all between OLD and NEW is there already, so that the window moves a whole window at once. */
static int try(uint32_t olds, uint32_t news, uint32_t mates, uint32_t last, int full, int verbose)
{
	static const struct explore e = { setup, moves, make, state_hash, bad };
	struct explored n;
	int rc;

	weft_rx_init(&M.start, OLD);
	for (__u32 psn = OLD + 1; full && psn != NEW; psn++) {
		M.start.word[weft_psn_word(psn)].claimed |= weft_psn_bit(psn);
		M.start.word[weft_psn_word(psn)].placed |= weft_psn_bit(psn);
	}
	M.copies[IS_OLD] = olds;
	M.copies[IS_NEW] = news;
	M.copies[IS_MATE] = mates;
	M.n = olds + news + mates;
	M.full = full;
	M.last[IS_OLD] = last & 1;
	M.last[IS_NEW] = last >> 1 & 1;
	M.last[IS_MATE] = mates;
	M.busy = 0;
	rc = explore(&e, &n);
	if (rc)
		printf("# I2: %s, after %u steps\n", M.why, n.steps);
	if (verbose || rc)
		printf("# I2: %u, %u and %u copies, ends %u, %s window: %llu states, %llu paths\n",
		       olds, news, mates, last, full ? "full" : "empty",
		       (unsigned long long)n.states, (unsigned long long)n.paths);
	if (!rc && !M.busy) {
		printf("# I2: nobody met anybody\n");
		rc = 1;
	}
	return rc;
}

int i2_run(int verbose)
{
	for (uint32_t last = 0; last < 4; last++)
		if (try(2, 1, 0, last, 0, verbose) || try(2, 2, 0, last, 0, verbose) ||
		    try(2, 1, 0, last, 1, verbose))
			return 1;
	/* the window moves on twice in the same word */
	return try(2, 2, 0, 3, 1, verbose) || try(2, 1, 1, 1, 0, verbose);
}
