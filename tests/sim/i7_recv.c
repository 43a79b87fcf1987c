/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I7 for receives: every order of posts against refusals and RESUMEs, with store buffers, no probe. */
#include "explore.h"

/*
 * As i7.c: threads are coroutines, each with its own view of the shared words and a store buffer.
 * The application posts receives one after the other; two CPUs look for a receive for
 * a message each, again and again, until it is taken, as bpf/recv.bpf.h does. What they answer
 * and what is resumed is under way in any order. A message that waits at the end waits for ever.
 */
static void hook_store(void *p, unsigned v);
static void hook_barrier(void);
#define __atomic_store_n(p, v, order) hook_store(p, v)
#define __sync_synchronize()          hook_barrier()
#include "sim.h"

enum word { W_PROD, W_REFUSED, WORDS };
enum { THREADS_MAX = 3, BUFFER = 8, WAY_MAX = 8 };

struct thread {
	struct weft_ring ring; /* its view of them */
	struct weft_rq rq;
	__u32 last[WORDS];
	struct {
		enum word w;
		__u32 v;
	} buffer[BUFFER];
	uint32_t buffered, waits;
	uint64_t trace;
	void (*body)(void);
	uint32_t arg;
	struct coro coro;
};

static struct {
	__u32 mem[WORDS];
	struct thread t[THREADS_MAX];
	uint32_t threads, posts, sent, taken; /* sent, taken: messages, a bit each */
	struct weft_tx tx;                    /* the sender's */
	struct {                              /* under way to it, in any order */
		uint8_t psn, kind;            /* kind 1: RNR, 2: RESUME */
		__u32 epoch, ts;
	} way[WAY_MAX];
	uint32_t under_way, clock, ts[THREADS_MAX]; /* when each message was last sent */
	struct thread *cur;
} M;

static __u32 *view_word(struct thread *t, enum word w)
{
	return w == W_PROD ? &t->rq.prod : &t->ring.refused;
}

/* ---- one thread's memory ---- */

static void collect(struct thread *t)
{
	for (enum word w = 0; w < WORDS; w++)
		if (*view_word(t, w) != t->last[w]) {
			if (t->buffered == BUFFER)
				abort();
			t->buffer[t->buffered].w = w;
			t->buffer[t->buffered++].v = *view_word(t, w);
			t->last[w] = *view_word(t, w);
		}
}

static void look(struct thread *t, enum word w)
{
	__u32 v = M.mem[w];

	for (uint32_t i = 0; i < t->buffered; i++)
		if (t->buffer[i].w == w)
			v = t->buffer[i].v;
	*view_word(t, w) = t->last[w] = v;
	explore_mix(&t->trace, w << 8 ^ v);
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

static void yield(enum word w)
{
	collect(M.cur);
	coro_yield();
	look(M.cur, w);
}

static void hook_store(void *p, unsigned v)
{
	/* the flag that was looked at, and cleared, goes first */
	collect(M.cur);
	*(__u32 *)p = v;
	yield(W_REFUSED);
}

static void hook_barrier(void)
{
	collect(M.cur);
	drain(M.cur);
	yield(W_REFUSED);
}

/* ---- the programs ---- */

static void send_to_peer(uint8_t kind, uint8_t psn, __u32 epoch)
{
	if (M.under_way == WAY_MAX)
		abort();
	M.way[M.under_way].kind = kind;
	M.way[M.under_way].psn = psn;
	M.way[M.under_way].epoch = epoch;
	M.way[M.under_way++].ts = M.ts[psn];
}

static void poster_thread(void)
{
	struct thread *t = M.cur;

	for (uint32_t i = 0; i < M.posts; i++) {
		yield(W_REFUSED);
		if (weft_ring_offer(&t->ring, &t->rq.prod, i + 1)) {
			/* the system call that rings, whose program reads the count anew */
			hook_barrier();
			look(t, W_PROD);
			send_to_peer(2, 0, t->rq.prod);
		}
	}
}

static enum weft_rq_found find(struct thread *t, __u32 rsn)
{
	__u32 at;

	yield(W_PROD);
	return weft_rq_own(&t->rq, rsn, 0, &at);
}

/* As rx_recv() of bpf/recv.bpf.h: the epoch, a full barrier (the claim), then the looks. */
static void message_thread(void)
{
	struct thread *t = M.cur;
	__u32 rsn = t->arg, epoch;

	for (;;) {
		t->waits = 1;
		yield(W_PROD);
		t->waits = 0;
		M.sent &= ~(1u << rsn);
		t->trace = 0;
		explore_mix(&t->trace, t->rq.prod);
		epoch = t->rq.prod;
		drain(t);
		if (find(t, rsn) == WEFT_RQ_OK)
			break;
		t->ring.refused = 1;
		/* written even if it was set */
		t->last[W_REFUSED] = 0;
		collect(t);
		drain(t);
		if (find(t, rsn) == WEFT_RQ_OK)
			break;
		send_to_peer(1, rsn, epoch);
	}
	M.taken |= 1u << rsn;
}

static void start_thread(void)
{
	M.cur->body();
	collect(M.cur);
}

/* ---- the sender: sends again what may go ---- */

static void sender(void)
{
	for (uint32_t psn = 0; psn < M.threads - 1; psn++)
		if (M.tx.lost[0] >> psn & 1 && !weft_tx_refused(&M.tx, psn)) {
			M.tx.lost[0] &= ~(1ull << psn);
			M.sent |= 1u << psn;
			M.ts[psn] = M.clock;
		}
}

static void arrive(uint32_t i)
{
	__typeof__(M.way[0]) f = M.way[i];

	M.way[i] = M.way[--M.under_way];
	M.clock++;
	if (f.kind == 2) {
		weft_tx_resume(&M.tx, f.epoch, M.clock);
	} else {
		M.tx.lost[0] |= 1ull << f.psn;
		weft_tx_rnr(&M.tx, f.psn, f.ts, f.epoch, M.clock);
	}
	M.clock++;
	sender();
}

/* ---- what is explored ---- */

static uint64_t state_hash(void)
{
	uint64_t h = 1;

	for (enum word w = 0; w < WORDS; w++)
		explore_mix(&h, M.mem[w]);
	explore_mix(&h, M.sent | M.taken << 8);
	explore_mix(&h, M.tx.lost[0] ^ (uint64_t)M.tx.rnr << 8 ^ (uint64_t)M.tx.epoch << 16 ^
				(uint64_t)M.tx.rnr_psn << 32 ^ (uint64_t)M.tx.heard << 48);
	for (uint32_t i = 0; i < M.under_way; i++) {
		explore_mix(&h, M.way[i].kind | M.way[i].psn << 4 | M.way[i].epoch << 8);
		explore_mix(&h, (__s32)(M.way[i].ts - M.tx.epoch_ts) >= 0);
	}
	for (uint32_t i = 0; i < M.threads; i++) {
		const struct thread *t = &M.t[i];

		explore_mix(&h, t->trace);
		explore_mix(&h, (__s32)(M.ts[i] - M.tx.epoch_ts) >= 0);
		explore_mix(&h,
			    t->coro.done | t->waits << 1 | t->coro.started << 2 | t->buffered << 3);
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

static void setup(void)
{
	uint32_t posts = M.posts;

	memset(&M, 0, offsetof(__typeof__(M), t));
	M.threads = M.taken = M.under_way = M.clock = 0;
	memset(M.ts, 0, sizeof(M.ts));
	memset(&M.tx, 0, offsetof(struct weft_tx, slot));
	M.posts = posts;
	add_thread(poster_thread, 0);
	for (uint32_t i = 0; i < posts; i++)
		add_thread(message_thread, i);
	M.sent = (1u << posts) - 1;
}

static int can_run(const struct thread *t)
{
	return !t->coro.done && !(t->waits && !(M.sent >> t->arg & 1));
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
	for (uint32_t i = 0; i < M.under_way; i++)
		move[n++] = i | 0x40;
	return n;
}

static void make(uint8_t move)
{
	if (move & 0x80) {
		drain_one(&M.t[move & 0x3f]);
	} else if (move & 0x40) {
		arrive(move & 0x3f);
	} else {
		M.cur = &M.t[move];
		coro_resume(&M.cur->coro);
	}
}

static int bad(int end)
{
	return end && M.taken != (1u << M.posts) - 1;
}

static int try(uint32_t posts, int verbose)
{
	static const struct explore e = { setup, moves, make, state_hash, bad };
	struct explored n;
	int lost;

	M.posts = posts;
	lost = explore(&e, &n);
	if (lost)
		printf("# I7: %u receives: a message waits for ever, lost after %u steps\n", posts,
		       n.steps);
	if (verbose || lost)
		printf("# I7: %u receives: %llu states, %llu paths\n", posts,
		       (unsigned long long)n.states, (unsigned long long)n.paths);
	return lost;
}

int i7_recv_run(int verbose)
{
	return try(1, verbose) || try(2, verbose);
}
