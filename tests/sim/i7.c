/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I7: every order of a post against tokens being absorbed, on the real functions, with store buffers. */
#include "explore.h"

/*
 * Threads are coroutines. Each works on its own view of the shared words, and
 * what it writes waits in its store buffer (TSO) until the explorer drains it
 * or a barrier does. The functions of ring.h run unchanged: their barriers are
 * the hooks below, plain accesses show as differences of the view.
 */
static void hook_store(void *p, unsigned v);
static void hook_barrier(void);
static unsigned hook_add(void *p, unsigned v);
#define __atomic_store_n(p, v, order) hook_store(p, v)
#define __sync_synchronize()          hook_barrier()
#define __sync_fetch_and_add(p, v)    hook_add(p, v)
#include "sim.h"

enum word { W_PROD, W_HINT, W_LOCK, WORDS };
enum { THREADS_MAX = 4, BUFFER = 8 };

struct thread {
	struct weft_ring view;
	__u32 lock, last[WORDS]; /* the view as of the last look */
	struct {
		enum word w;
		__u32 v;
	} buffer[BUFFER];
	uint32_t buffered, waits_lock, waits_bell;
	uint64_t trace; /* hash of all it has learnt: stands for its local state */
	void (*body)(void);
	uint32_t arg;
	struct coro coro;
};

static struct {
	__u32 mem[WORDS], bells;
	struct weft_tx tx;
	struct thread t[THREADS_MAX];
	uint32_t threads, tokens, posts;
	struct thread *cur;
} M;

static __u32 *view_word(struct thread *t, enum word w)
{
	switch (w) {
	case W_PROD: return &t->view.sq_prod;
	case W_HINT: return &t->view.hint;
	default: return &t->lock;
	}
}

/* ---- one thread's memory ---- */

static void push(struct thread *t, enum word w, __u32 v)
{
	if (t->buffered == BUFFER)
		abort();
	t->buffer[t->buffered].w = w;
	t->buffer[t->buffered++].v = v;
}

/* What it has written plainly since the last look goes to its buffer. */
static void collect(struct thread *t)
{
	for (enum word w = 0; w < WORDS; w++)
		if (*view_word(t, w) != t->last[w]) {
			push(t, w, *view_word(t, w));
			t->last[w] = *view_word(t, w);
		}
}

/* Read one word: the newest of the own stores to it, else memory. */
static void look(struct thread *t, enum word w)
{
	__u32 v = M.mem[w];

	for (uint32_t i = 0; i < t->buffered; i++)
		if (t->buffer[i].w == w)
			v = t->buffer[i].v;
	*view_word(t, w) = t->last[w] = v;
}

static void drain_one(struct thread *t)
{
	M.mem[t->buffer[0].w] = t->buffer[0].v;
	memmove(t->buffer, t->buffer + 1, --t->buffered * sizeof(t->buffer[0]));
}

static void drain(struct thread *t)
{
	while (t->buffered)
		drain_one(t);
}

/* Let others run; then see word w as it is. The view keeps the others as they were. */
static void yield(enum word w)
{
	struct thread *t = M.cur;

	collect(t);
	coro_yield();
	look(t, w);
	explore_mix(&t->trace, w << 8 ^ *view_word(t, w));
}

static void hook_store(void *p, unsigned v)
{
	*(__u32 *)p = v;
	yield(W_HINT);
}

static void hook_barrier(void)
{
	collect(M.cur);
	drain(M.cur);
	yield(W_HINT);
}

/* Its value is of no use to anyone, so that it stays 0 keeps the states few. */
static unsigned hook_add(void *p, unsigned v)
{
	(void)p;
	(void)v;
	collect(M.cur);
	drain(M.cur);
	yield(W_PROD);
	return 0;
}

/* ---- the programs ---- */

static void lock(void)
{
	struct thread *t = M.cur;

	t->waits_lock = 1;
	yield(W_LOCK);
	t->waits_lock = 0;
	drain(t);
	M.mem[W_LOCK] = 1;
	look(t, W_LOCK);
	/* the holder alone writes the hint */
	look(t, W_HINT);
}

/* A store like any other: no barrier. Then the queue may be read. */
static void unlock(enum weft_claim c, const struct weft_seg *seg)
{
	struct thread *t = M.cur;

	collect(t);
	push(t, W_LOCK, 0);
	look(t, W_LOCK);
	explore_mix(&t->trace, c);
	if (c == WEFT_CLAIM_OK)
		explore_mix(&t->trace, seg->psn);
	yield(W_PROD);
}

static enum weft_claim claim(__u32 prod, struct weft_seg *seg)
{
	struct weft_ring *r = &M.cur->view;
	enum weft_claim c = weft_tx_claim(&M.tx, r->sq, M.tx.cons, prod, 64, 1000, 0, seg);

	if (c == WEFT_CLAIM_OK)
		weft_ring_active(&M.tx, r);
	return c;
}

/* A token that is out with psn: comes back, claims again, until it finds nothing and dies. */
static void token(__u32 psn)
{
	struct weft_ring *r = &M.cur->view;
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
	token(M.cur->arg);
}

static void poster_thread(void)
{
	for (uint32_t i = 0; i < M.posts; i++) {
		if (weft_ring_publish(&M.cur->view, M.cur->arg + i + 1)) {
			hook_barrier(); /* the system call that rings */
			M.bells++;
		}
	}
}

static void bell_thread(void)
{
	for (;;) {
		struct weft_ring *r = &M.cur->view;
		enum weft_claim c = WEFT_CLAIM_EMPTY;
		struct weft_seg seg = { .psn = 0 };
		__u32 prod;

		M.cur->waits_bell = 1;
		yield(W_PROD);
		M.cur->waits_bell = 0;
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

static void start_thread(void)
{
	look(M.cur, W_PROD);
	explore_mix(&M.cur->trace, M.cur->view.sq_prod);
	M.cur->body();
	collect(M.cur);
}

/* ---- what is explored ---- */

static uint64_t state_hash(void)
{
	uint64_t h = 1;

	for (enum word w = 0; w < WORDS; w++)
		explore_mix(&h, M.mem[w]);
	explore_mix(&h, M.bells);
	explore_mix(&h, M.tx.nxt ^ (uint64_t)M.tx.una << 8 ^ (uint64_t)M.tx.inflight << 16);
	explore_mix(&h, M.tx.cons ^ (uint64_t)M.tx.done << 8 ^ (uint64_t)M.tx.hint << 16);
	for (uint32_t i = 0; i < 16; i++)
		explore_mix(&h, weft_slot_state(&M.tx.slot[i]));
	explore_mix(&h, M.tx.delivered[0]);
	for (uint32_t i = 0; i < M.threads; i++) {
		const struct thread *t = &M.t[i];

		explore_mix(&h, t->trace);
		explore_mix(&h, t->coro.done | t->waits_lock << 1 | t->waits_bell << 2 |
					t->buffered << 3);
		for (uint32_t k = 0; k < t->buffered; k++)
			explore_mix(&h, t->buffer[k].w ^ (uint64_t)t->buffer[k].v << 8);
	}
	return h;
}

static void add_thread(void (*body)(void), uint32_t arg)
{
	struct thread *t = &M.t[M.threads++];

	memset(t, 0, offsetof(struct thread, coro));
	t->body = body;
	t->arg = arg;
	coro_init(&t->coro, start_thread);
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
	memset(M.mem, 0, sizeof(M.mem));
	M.mem[W_PROD] = M.tokens;
	M.mem[W_HINT] = 1;
	M.bells = M.threads = 0;
	add_thread(poster_thread, M.tokens);
	for (uint32_t i = 0; i < M.tokens; i++)
		add_thread(token_thread, i);
	add_thread(bell_thread, 0);
}

static int can_run(const struct thread *t)
{
	return !t->coro.done && !(t->waits_lock && M.mem[W_LOCK]) && !(t->waits_bell && !M.bells);
}

static uint32_t moves(uint8_t *move)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < M.threads; i++) {
		if (can_run(&M.t[i]))
			move[n++] = i;
		if (M.t[i].buffered)
			move[n++] = i | 0x80;
	}
	return n;
}

static void make(uint8_t move)
{
	struct thread *t = &M.t[move & 0x7f];

	if (move & 0x80) {
		drain_one(t);
	} else {
		M.cur = t;
		coro_resume(&t->coro);
	}
}

/* A wake-up was lost. */
static int bad(int end)
{
	return end && M.tx.cons != M.tokens + M.posts;
}

static int try(uint32_t tokens, uint32_t posts, int verbose)
{
	static const struct explore e = { setup, moves, make, state_hash, bad };
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
