/* SPDX-License-Identifier: GPL-2.0 */
/* Tokens: the device's accounts of them, who may have more, how and on which CPU new ones are made. */
#ifndef WEFT_TOKEN_BPF_H
#define WEFT_TOKEN_BPF_H

#include "telemetry.bpf.h"

/* ---- device-wide token accounts (I10) ---- */

/* Tokens left `from` and entered `to`; nothing shared is touched when it is the same account. */
static __always_inline void account(struct weft_devrun *run, __u32 from, __u32 freed, __u32 to,
				    __u32 claimed)
{
	from &= WEFT_DOMAINS - 1;
	to &= WEFT_DOMAINS - 1;
	if (from == to) {
		if (freed != claimed)
			__sync_fetch_and_add(&run->dom[to].inflight, (__s32)(claimed - freed));
		return;
	}
	if (freed)
		__sync_fetch_and_add(&run->dom[from].inflight, -(__s32)freed);
	if (claimed)
		__sync_fetch_and_add(&run->dom[to].inflight, (__s32)claimed);
}

/* 1 or 0, without a branch: all that follows a locked section would be walked twice. */
static __always_inline __s32 has_tokens(const struct weft_tx *tx)
{
	return (tx->inflight + WEFT_WIN - 1) / WEFT_WIN;
}

/* Each locked section enters its own change: between two of them others may change it as well. */
static __always_inline void account_delta(struct weft_devrun *run, __s32 delta)
{
	opaque(delta);
	if (delta)
		__sync_fetch_and_add(&run->active, delta);
}

#define WAIT_BITS  64
#define WAIT_WORDS (WEFT_QPS_MAX / WAIT_BITS)

/*
 * With more QPs than tokens, those that have none wait, and get theirs from the
 * others in turn: tokens that come back go to them, whether their process runs or not (I9).
 */
static __always_inline void wait_turn(struct weft_devrun *run, __u32 dom, __u32 slot)
{
	__u32 at = slot / WAIT_BITS & (WAIT_WORDS - 1);

	dom &= WEFT_DOMAINS - 1;
	weft_fetched(__sync_fetch_and_or(&run->dom[dom].wait[at], 1ull << slot % WAIT_BITS));
	/* behind it: who clears this bit looks at the word once more, see waiting() */
	if (!(READ_ONCE(run->dom[dom].any) & 1u << at))
		weft_fetched(__sync_fetch_and_or(&run->dom[dom].any, 1u << at));
}

/* It need not wait any more. Was it waiting? */
static __always_inline bool wait_over(struct weft_devrun *run, __u32 dom, __u32 slot)
{
	__u64 *w = &run->dom[dom & (WEFT_DOMAINS - 1)].wait[slot / WAIT_BITS & (WAIT_WORDS - 1)];
	__u64 bit = 1ull << slot % WAIT_BITS;

	return READ_ONCE(*w) & bit && __sync_fetch_and_and(w, ~bit) & bit;
}

/*
 * A QP that others wait for keeps its token for a few packets: what a packet costs is for the most
 * part to fetch its QP's state into the cache.
 */
#define TURN 8

static __always_inline bool turn_over(__u32 psn)
{
	return !(psn & (TURN - 1));
}

/* May any wait? From a line that the caller has read: in a full domain each ACK asks. */
static __always_inline bool any_waits(const struct weft_devrun *run, __u32 dom)
{
	return READ_ONCE(run->dom[dom & (WEFT_DOMAINS - 1)].any) != 0;
}

/*
 * A word of the list that had bits. One that has none is forgotten; should another CPU, which misses
 * it for that instant, let a token go, then this one's goes to who has come meanwhile.
 */
static __always_inline __u64 waiting(struct weft_devrun *run, __u32 dom, __u32 at)
{
	const __u64 *w = &run->dom[dom].wait[at];
	__u64 m = READ_ONCE(*w);

	if (m)
		return m;
	weft_fetched(__sync_fetch_and_and(&run->dom[dom].any, ~(1u << at)));
	m = READ_ONCE(*w);
	if (m)
		weft_fetched(__sync_fetch_and_or(&run->dom[dom].any, 1u << at));
	return m;
}

/* The slot of the QP whose turn it is, which then waits no more, or -1. */
STEP int next_turn(__u32 dom)
{
	struct weft_devrun *run = run_get();
	__u32 turn, first, any, at;
	__u64 m;

	if (!run)
		return -1;
	dom &= WEFT_DOMAINS - 1;
	any = READ_ONCE(run->dom[dom].any);
	if (!any)
		return -1;
	turn = READ_ONCE(run->dom[dom].turn);
	at = first = turn / WAIT_BITS & (WAIT_WORDS - 1);
	/* the first word twice: from the turn on, and at last what is before it */
	m = READ_ONCE(run->dom[dom].wait[at]) & ~0ull << turn % WAIT_BITS;
	/* the one behind it is bit 0, itself the last */
	any = any >> (first + 1) % 32 | any << (31 - first);
	for (__u32 i = 0; i < WAIT_WORDS && !m && any; i++) {
		at = (first + 1 + weft_ctz(any)) & (WAIT_WORDS - 1);
		any &= any - 1;
		m = waiting(run, dom, at);
	}
	if (!m)
		return -1;
	at = at * WAIT_BITS + weft_ctz(m);
	WRITE_ONCE(run->dom[dom].turn, at + 1);
	return wait_over(run, dom, at) ? (__s32)at : -1;
}

/* Tokens that the QP of this slot may start in this domain now: want, within the device's budget. */
static __always_inline __u32 grant(const struct weft_devcfg *cfg, struct weft_devrun *run,
				   __u32 dom, __u32 slot, __u32 want, bool first)
{
	__s32 *used = &run->dom[dom & (WEFT_DOMAINS - 1)].inflight;
	__s32 room = (__s32)cfg->budget - READ_ONCE(*used);

	if (room < (__s32)want)
		want = room > 0 ? room : 0;
	if (want && first)
		wait_over(run, dom, slot);
	if (want || !first)
		return want;
	/* a QP without a token gets its first one from the reserve, or the next that comes back */
	if (READ_ONCE(*used) < (__s32)cfg->hard)
		return 1;
	wait_turn(run, dom, slot);
	/* those may all have come back since, and nobody would bring it one */
	return READ_ONCE(*used) < (__s32)cfg->hard && wait_over(run, dom, slot);
}

/* In a full domain: does this QP hold more of it than its share? Locked. */
static __always_inline bool crowds(const struct weft_devcfg *cfg, const struct weft_devrun *run,
				   const struct weft_tx *tx, __u32 dom)
{
	__u32 active = READ_ONCE(run->active);

	return active > 1 && tx->dom[dom & (WEFT_DOMAINS - 1)].out * active >= cfg->budget + active;
}

static __always_inline __u32 window(const struct weft_devcfg *cfg, const struct weft_devrun *run,
				    const struct weft_tx *tx)
{
	return weft_cc_window(&tx->cc, cfg->budget * cfg->domains, READ_ONCE(run->active));
}

/* ---- new tokens ---- */

/*
 * Make the frame a template: something that only this host's own programs
 * understand, and that is harmless should it ever get out.
 */
static __always_inline int make_template(struct xdp_md *ctx, __u32 op, __u32 qpn, __u32 psn,
					 __u32 claimed)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct weft_db *db = data + ETH_HLEN;

	if ((void *)(db + 1) > end)
		return -1;
	eth->h_proto = bpf_htons(WEFT_DB_ETHERTYPE);
	db->magic = WEFT_DB_MAGIC;
	db->op = op;
	db->qpn = qpn;
	db->psn = psn;
	db->claimed = claimed;
	return 0;
}

static __always_inline enum weft_verdict verdict_redirect(struct weft_stats *st, long r)
{
	return r == XDP_REDIRECT ? V_REDIRECT : drop(st, fill);
}

/*
 * r: what asking for n clones came to. The kernel may have no memory for some of them and says
 * nothing; what was asked for long before is not awaited any more, for a burst lasts microseconds.
 */
static __always_inline enum weft_verdict spawned(struct weft_stats *st, struct work *wk, __u32 n,
						 long r)
{
	__u32 now = now_ticks();

	st->count.spawned += n;
	if (now - wk->asked > WEFT_TICKS_US(1000))
		wk->left = 0;
	wk->asked = now;
	if (r == XDP_REDIRECT)
		wk->left += n;
	return verdict_redirect(st, r);
}

#define SPAWN(N)                                                                         \
	do {                                                                             \
		if (n >= (N))                                                            \
			return spawned(st, wk, N,                                        \
				       bpf_redirect_map(&spawn##N, 0, BPF_F_BROADCAST)); \
	} while (0)

/* n clones of this frame, each filled by weft_fill on its way out; n is rounded down to a power of 2. */
static __always_inline enum weft_verdict spawn(struct weft_stats *st, struct work *wk, __u32 n)
{
	SPAWN(64);
	SPAWN(32);
	SPAWN(16);
	SPAWN(8);
	SPAWN(4);
	SPAWN(2);
	return spawned(st, wk, 1, bpf_redirect_map(&spawn1, 0, BPF_F_BROADCAST));
}

#define SMALL_SEGS 2 /* segments of a message up to which the application needs a CPU for itself */

/* The domains that may hold tokens for what is next: one, if that is to come in order. Locked. */
static __always_inline __u32 domains(const struct weft_qpctl *ctl, const struct weft_tx *tx,
				     const struct weft_ring *sq)
{
	return weft_tx_spread(tx, sq->sq) ? ctl->doms
					  : ctl->doms & 1u << (tx->home & (WEFT_DOMAINS - 1));
}

/*
 * The domain, as a bit, that is to be left to the application, if another may
 * hold tokens as well: the one it posts from while its messages are small. It has
 * as much to do for each as the datapath has, and would take turns with the
 * tokens there by the scheduler's slices, milliseconds each. Locked.
 */
static __always_inline __u32 app_domain(__u32 doms, const struct weft_tx *tx,
					const struct weft_ring *sq)
{
	__u32 app = 1u << (tx->post_dom & (WEFT_DOMAINS - 1));
	__u32 len = READ_ONCE(sq->sq[tx->cons & (WEFT_SQ_DEPTH - 1)].len);

	return len > SMALL_SEGS * tx->payload || !(doms & ~app) ? 0 : app;
}

/*
 * A CPU of one of these domains that has no tokens of this QP, or -1. Tokens stay
 * on the CPU they were born on (veth), so whoever has plenty starts the others.
 */
static __always_inline int idle_cpu(const struct weft_qpctl *ctl, const struct weft_tx *tx,
				    __u32 doms)
{
	__u32 idle = doms & ~weft_tx_busy(tx);

	if (!idle)
		return -1;
	return ctl->cpu_of[weft_ctz(idle) & (WEFT_DOMAINS - 1)];
}

/*
 * What is in order goes out from one domain, or it would be overtaken: is that next, this another
 * domain, and that one at work? Locked.
 */
static __always_inline bool astray(const struct weft_tx *tx, __u32 doms, __u32 dom)
{
	return tx->strict && !(doms >> (dom & (WEFT_DOMAINS - 1)) & 1) && (weft_tx_busy(tx) & doms);
}

/*
 * Of more QPs than tokens all may wait in one domain, and the tokens be there: a CPU of another where
 * the QP of this slot may have tokens and there are far fewer, or -1.
 */
static __always_inline int roomy_cpu(const struct weft_devcfg *cfg, const struct weft_devrun *run,
				     const struct weft_qpctl *ctl, __u32 dom, __u32 slot)
{
	__u32 others = ctl->doms & ~(1u << (dom & (WEFT_DOMAINS - 1))), d;
	/* not always the same, if there are several */
	__u32 from = others & ~0u << slot % WEFT_DOMAINS;
	__s32 there;

	if (!others)
		return -1;
	d = weft_ctz(from ? from : others) & (WEFT_DOMAINS - 1);
	there = READ_ONCE(run->dom[d].inflight);
	if (there >= (__s32)cfg->budget ||
	    there + 2 * TURN > READ_ONCE(run->dom[dom & (WEFT_DOMAINS - 1)].inflight))
		return -1;
	return ctl->cpu_of[d];
}

/* How many tokens one domain should hold of a window of wnd. */
static __always_inline __u32 domain_share(__u32 doms, __u32 wnd)
{
	__u32 n = weft_popcount(doms);

	return n > 1 ? (wnd + n - 1) / n : wnd;
}

#define MOVE_MIN 4 /* packets missing that make it worth to start another CPU */

/* What becomes of a token when others are missing. */
enum growth {
	GROW_NO,   /* nothing is missing here: refill */
	GROW_TWIN, /* two are made of it */
	GROW_MOVE, /* it starts another CPU, which has none */
};

/* Locked. */
static __always_inline enum growth growth(const struct weft_qpctl *ctl, struct weft_tx *tx,
					  const struct weft_ring *sq, __u32 doms, __u32 prod,
					  __u32 wnd, __u32 dom, __u32 now, __s32 room, __s32 *cpu)
{
	__u32 more = weft_tx_deficit(tx, sq->sq, prod, wnd), mine = tx->dom[dom].out;
	__u32 soon = weft_tx_growing(tx, dom, now), here = 1u << (dom & (WEFT_DOMAINS - 1)), app;
	int other;

	if (more < 2 + soon)
		return GROW_NO;
	mine += soon;
	more -= soon;
	app = app_domain(doms, tx, sq);
	if (((more >= MOVE_MIN && mine > 1) || app == here) &&
	    now - tx->last_move > WEFT_TICKS_US(1000)) {
		other = idle_cpu(ctl, tx, doms & ~(here | app));
		if (other >= 0) {
			tx->last_move = now;
			*cpu = other;
			return GROW_MOVE;
		}
	}
	if (room <= 1 || app == here || mine + 2 > domain_share(doms, wnd))
		return GROW_NO;
	weft_tx_grow(tx, dom, 2, now);
	return GROW_TWIN;
}

#endif
