/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I7: every order of a post against tokens being absorbed, on the real functions, with store buffers. */
#include "tso.h"

/* The functions of ring.h run unchanged: their barriers are the hooks below. */
static void hook_store(void *p, unsigned v);
static void hook_barrier(void);
static unsigned hook_add(void *p, unsigned v);
#define __atomic_store_n(p, v, order) hook_store(p, v)
#define __sync_synchronize()          hook_barrier()
#define __sync_fetch_and_add(p, v)    hook_add(p, v)
#include "sim.h"

enum word { W_PROD, W_HINT, W_LOCK, WORDS };

struct view {
	struct weft_ring ring;
	__u32 lock;
	uint32_t waits_lock, waits_bell;
};

static struct {
	__u32 bells;
	struct weft_tx tx;
	struct view v[TSO_THREADS];
	uint32_t tokens, posts;
} M;

static struct view *view_of(const struct tso_thread *t)
{
	return &M.v[t - tso.t];
}

static struct view *mine(void)
{
	return view_of(tso.cur);
}

static void hook_store(void *p, unsigned v)
{
	*(__u32 *)p = v;
	tso_yield(W_HINT);
}

static void hook_barrier(void)
{
	tso_barrier();
	tso_yield(W_HINT);
}

/* Its value is of no use to anyone, so that it stays 0 keeps the states few. */
static unsigned hook_add(void *p, unsigned v)
{
	(void)p;
	(void)v;
	tso_barrier();
	tso_yield(W_PROD);
	return 0;
}

/* ---- the programs ---- */

static void lock(void)
{
	mine()->waits_lock = 1;
	tso_yield(W_LOCK);
	mine()->waits_lock = 0;
	tso_barrier();
	tso.mem[W_LOCK] = 1;
	tso_look(W_LOCK);
	/* the holder alone writes the hint */
	tso_look(W_HINT);
}

/* A store like any other: no barrier. Then the queue may be read. */
static void unlock(enum weft_claim c, const struct weft_seg *seg)
{
	tso_collect();
	tso_push(W_LOCK, 0);
	tso_look(W_LOCK);
	explore_mix(&tso.cur->trace, c);
	if (c == WEFT_CLAIM_OK)
		explore_mix(&tso.cur->trace, seg->psn);
	tso_yield(W_PROD);
}

static enum weft_claim claim(__u32 prod, struct weft_seg *seg)
{
	struct weft_ring *r = &mine()->ring;
	enum weft_claim c = weft_tx_claim(&M.tx, r->sq, M.tx.cons, prod, 64, 1000, 0, seg);

	if (c == WEFT_CLAIM_OK)
		weft_ring_active(&M.tx, r);
	return c;
}

/* A token that is out with psn: comes back, claims again, until it finds nothing and dies. */
static void token(__u32 psn)
{
	struct weft_ring *r = &mine()->ring;
	enum weft_claim c = WEFT_CLAIM_OK;

	while (c == WEFT_CLAIM_OK) {
		struct weft_ack a = { .psn = psn,
				      .ts = 1000,
				      .cum = M.tx.una,
				      .msn = M.tx.done,
				      .sack_base = psn & ~63u,
				      .sack = weft_psn_bit(psn) };
		struct weft_score score;
		struct weft_seg seg;
		__u32 prod = r->sq_prod;

		lock();
		a.cum = M.tx.una;
		a.msn = M.tx.done;
		if (weft_tx_ack(&M.tx, &a, 1010, 64, &score))
			abort();
		c = claim(prod, &seg);
		if (c == WEFT_CLAIM_EMPTY)
			weft_ring_absorb(&M.tx, r);
		unlock(c, &seg);
		if (c == WEFT_CLAIM_EMPTY && weft_ring_recheck(r, prod)) {
			prod = r->sq_prod;
			lock();
			c = claim(prod, &seg);
			unlock(c, &seg);
		}
		psn = seg.psn;
	}
}

static void token_thread(void)
{
	tso_look(W_PROD);
	token(tso.cur->arg);
}

static void poster_thread(void)
{
	for (uint32_t i = 0; i < M.posts; i++) {
		if (weft_ring_publish(&mine()->ring, tso.cur->arg + i + 1)) {
			hook_barrier(); /* the system call that rings */
			M.bells++;
		}
	}
}

static void bell_thread(void)
{
	for (;;) {
		struct weft_ring *r = &mine()->ring;
		enum weft_claim c = WEFT_CLAIM_EMPTY;
		struct weft_seg seg = { .psn = 0 };
		__u32 prod;

		mine()->waits_bell = 1;
		tso_yield(W_PROD);
		mine()->waits_bell = 0;
		M.bells--;
		prod = r->sq_prod;
		lock();
		if (weft_tx_deficit(&M.tx, r->sq, prod, 64))
			c = claim(prod, &seg);
		unlock(c, &seg);
		if (c == WEFT_CLAIM_OK)
			token(seg.psn);
	}
}

/* ---- what is explored ---- */

static uint64_t state_hash(void)
{
	uint64_t h = 1;

	tso_mix(&h);
	explore_mix(&h, M.bells);
	explore_mix(&h, M.tx.nxt ^ (uint64_t)M.tx.una << 8 ^ (uint64_t)M.tx.inflight << 16);
	explore_mix(&h, M.tx.cons ^ (uint64_t)M.tx.done << 8 ^ (uint64_t)M.tx.hint << 16);
	for (uint32_t i = 0; i < 16; i++)
		explore_mix(&h, weft_slot_state(&M.tx.slot[i]));
	explore_mix(&h, M.tx.delivered[0]);
	for (uint32_t i = 0; i < tso.threads; i++)
		explore_mix(&h, M.v[i].waits_lock | M.v[i].waits_bell << 1);
	return h;
}

static void add_thread(void (*body)(void), uint32_t arg)
{
	struct tso_thread *t = tso_add(body, arg);
	struct view *v = view_of(t);

	memset(v, 0, sizeof(*v));
	t->view[W_PROD] = &v->ring.sq_prod;
	t->view[W_HINT] = &v->ring.hint;
	t->view[W_LOCK] = &v->lock;
}

/* Tokens are out with a message each; the poster is about to post some more. */
static void setup(void)
{
	static struct weft_wqe sq[WEFT_SQ_DEPTH];
	struct weft_seg seg;

	weft_tx_init(&M.tx, 0, 256, 1);
	for (uint32_t i = 0; i < M.tokens; i++)
		weft_tx_claim(&M.tx, sq, M.tx.cons, M.tokens, 64, 1000, 0, &seg);
	M.tx.hint = 1;
	tso_begin(WORDS);
	tso.mem[W_PROD] = M.tokens;
	tso.mem[W_HINT] = 1;
	M.bells = 0;
	add_thread(poster_thread, M.tokens);
	for (uint32_t i = 0; i < M.tokens; i++)
		add_thread(token_thread, i);
	add_thread(bell_thread, 0);
}

static int can_run(const struct tso_thread *t)
{
	const struct view *v = view_of(t);

	return !(v->waits_lock && tso.mem[W_LOCK]) && !(v->waits_bell && !M.bells);
}

static uint32_t moves(uint8_t *move)
{
	return tso_moves(move, can_run);
}

/* A wake-up was lost. */
static int bad(int end)
{
	return end && M.tx.cons != M.tokens + M.posts;
}

static int try(uint32_t tokens, uint32_t posts, int verbose)
{
	static const struct explore e = { setup, moves, tso_make, state_hash, bad };
	struct explored n;
	int lost;

	M.tokens = tokens;
	M.posts = posts;
	lost = explore(&e, &n);
	if (lost)
		printf("# I7: %u tokens, %u posts: %u of %u requests never sent, after %u steps\n",
		       tokens, posts, tokens + posts - M.tx.cons, tokens + posts, n.steps);
	if (verbose || lost)
		printf("# I7: %u tokens, %u posts: %llu states, %llu paths\n", tokens, posts,
		       (unsigned long long)n.states, (unsigned long long)n.paths);
	return lost;
}

int i7_run(int verbose)
{
	return try(1, 1, verbose) || try(1, 2, verbose) || try(2, 1, verbose);
}
