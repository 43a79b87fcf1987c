/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* I7 for receives: every order of posts against refusals and RESUMEs, with store buffers, no probe. */
#include "tso.h"

/*
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
enum { WAY_MAX = 8, ARRIVES = 0x40 /* a move: what is under way there */ };

struct view {
	struct weft_ring ring;
	struct weft_rq rq;
	uint32_t waits;
};

static struct {
	struct view v[TSO_THREADS];
	uint32_t posts, sent, taken; /* sent, taken: messages, a bit each */
	struct weft_tx tx;           /* the sender's */
	struct {                     /* under way to it, in any order */
		uint8_t psn, kind;   /* kind 1: RNR, 2: RESUME */
		__u32 epoch, ts;
	} way[WAY_MAX];
	uint32_t under_way, clock, ts[TSO_THREADS]; /* when each message was last sent */
} M;

static struct view *view_of(const struct tso_thread *t)
{
	return &M.v[t - tso.t];
}

static void hook_store(void *p, unsigned v)
{
	/* the flag that was looked at, and cleared, goes first */
	tso_collect();
	*(__u32 *)p = v;
	tso_yield(W_REFUSED);
}

static void hook_barrier(void)
{
	tso_barrier();
	tso_yield(W_REFUSED);
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
	struct view *v = view_of(tso.cur);

	for (uint32_t i = 0; i < M.posts; i++) {
		tso_yield(W_REFUSED);
		if (weft_ring_offer(&v->ring, &v->rq.prod, i + 1)) {
			/* the system call that rings, whose program reads the count anew */
			hook_barrier();
			tso_look(W_PROD);
			send_to_peer(2, 0, v->rq.prod);
		}
	}
}

static enum weft_rq_found find(const struct view *v, __u32 rsn)
{
	__u32 at;

	tso_yield(W_PROD);
	return weft_rq_own(&v->rq, rsn, 0, &at);
}

/* As rx_recv() of bpf/recv.bpf.h: the epoch, a full barrier (the claim), then the looks. */
static void message_thread(void)
{
	struct tso_thread *t = tso.cur;
	struct view *v = view_of(t);
	__u32 rsn = t->arg, epoch;

	for (;;) {
		v->waits = 1;
		tso_yield(W_PROD);
		v->waits = 0;
		M.sent &= ~(1u << rsn);
		t->trace = 0;
		explore_mix(&t->trace, v->rq.prod);
		epoch = v->rq.prod;
		tso_barrier();
		if (find(v, rsn) == WEFT_RQ_OK)
			break;
		v->ring.refused = 1;
		/* written even if it was set */
		t->last[W_REFUSED] = 0;
		tso_barrier();
		if (find(v, rsn) == WEFT_RQ_OK)
			break;
		send_to_peer(1, rsn, epoch);
	}
	M.taken |= 1u << rsn;
}

/* ---- the sender: sends again what may go ---- */

static void sender(void)
{
	for (uint32_t psn = 0; psn < M.posts; psn++)
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

	tso_mix(&h);
	explore_mix(&h, M.sent | M.taken << 8);
	explore_mix(&h, M.tx.lost[0] ^ (uint64_t)M.tx.rnr << 8 ^ (uint64_t)M.tx.epoch << 16 ^
				(uint64_t)M.tx.rnr_psn << 32 ^ (uint64_t)M.tx.heard << 48);
	for (uint32_t i = 0; i < M.under_way; i++) {
		explore_mix(&h, M.way[i].kind | M.way[i].psn << 4 | M.way[i].epoch << 8);
		explore_mix(&h, (__s32)(M.way[i].ts - M.tx.epoch_ts) >= 0);
	}
	for (uint32_t i = 0; i < tso.threads; i++) {
		explore_mix(&h, M.v[i].waits);
		explore_mix(&h, (__s32)(M.ts[i] - M.tx.epoch_ts) >= 0);
	}
	return h;
}

static void add_thread(void (*body)(void), uint32_t arg)
{
	struct tso_thread *t = tso_add(body, arg);
	struct view *v = view_of(t);

	memset(v, 0, sizeof(*v));
	t->view[W_PROD] = &v->rq.prod;
	t->view[W_REFUSED] = &v->ring.refused;
}

static void setup(void)
{
	tso_begin(WORDS);
	M.taken = M.under_way = M.clock = 0;
	memset(M.ts, 0, sizeof(M.ts));
	memset(&M.tx, 0, offsetof(struct weft_tx, slot));
	add_thread(poster_thread, 0);
	for (uint32_t i = 0; i < M.posts; i++)
		add_thread(message_thread, i);
	M.sent = (1u << M.posts) - 1;
}

static int can_run(const struct tso_thread *t)
{
	return !(view_of(t)->waits && !(M.sent >> t->arg & 1));
}

static uint32_t moves(uint8_t *move)
{
	uint32_t n = tso_moves(move, can_run);

	for (uint32_t i = 0; i < M.under_way; i++)
		move[n++] = i | ARRIVES;
	return n;
}

static void make(uint8_t move)
{
	if (move & ARRIVES)
		arrive(move & ~ARRIVES);
	else
		tso_make(move);
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
