/* SPDX-License-Identifier: GPL-2.0 */
/* Small things every step needs: look-ups, counters, the clock, ordering domains, wake-ups. */
#ifndef WEFT_UTIL_BPF_H
#define WEFT_UTIL_BPF_H

#include <stdbool.h>
#include <linux/in.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include "maps.bpf.h"

#define READ_ONCE(x)     (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define likely(x)        __builtin_expect(!!(x), 1)
#define unlikely(x)      __builtin_expect(!!(x), 0)
/* keep the compiler from moving a bound away from its use */
#define opaque(x)        asm volatile("" : "+r"(x))

/*
 * A step that the verifier checks once, on its own, whoever calls it and from
 * whatever state. Arguments are the context, scalars, and pointers to fully
 * initialised structs; look-ups are done again inside.
 */
#define STEP             __attribute__((noinline))

/*
 * A step that nearly every packet takes, in whose place its code is put: a call costs 6 to 8 ns. tests/bpf/mutate.sh
 * makes steps of them again, since with its switches they need more stack than is left.
 */
#ifndef HOT_STEP
#define HOT_STEP static __always_inline
#endif

/* What a step decided; weft.bpf.c turns it into an XDP action. */
enum weft_verdict {
	V_PASS,     /* not ours: the stack gets it */
	V_DROP,     /* consumed */
	V_TX,       /* back out of the interface it came from */
	V_REDIRECT, /* bpf_redirect_map() has been called */
	V_FILL,     /* work.seg is claimed: fill the frame with it and send that */
	V_MOVE,     /* the token starts CPU work.cpu */
	V_HAND,     /* the token goes to the QP of slot work.hand */
	V_REPAIR,   /* tx_repair() must come first */
	V_AGAIN,    /* claim_more() may find something to send by now */
};

#define count(st, name) ((st)->count.name++)
#define drop(st, name)             \
	({                         \
		(st)->drop.name++; \
		V_DROP;            \
	})

static __always_inline struct weft_stats *stats_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&stats, &zero);
}

static __always_inline struct weft_devcfg *cfg_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&devcfg, &zero);
}

static __always_inline struct weft_devrun *run_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&devrun, &zero);
}

/* Frame length. The difference must be taken at once: 6.1 loses pointers that are spilled by halves. */
static __always_inline __u32 frame_len(const struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 n = end - data;

	opaque(n);
	return n;
}

static __always_inline struct weft_qpctl *ctl_get(__u32 slot)
{
	return bpf_map_lookup_elem(&qpctl, &slot);
}

static __always_inline __u32 now_ticks(void)
{
	return bpf_ktime_get_ns() >> WEFT_TS_SHIFT;
}

/* The ordering domain that frames sent from this CPU belong to. */
static __always_inline __u32 my_domain(const struct weft_devcfg *cfg)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 q = cfg->queues;

	/* as a rule there is a queue for each, and a division takes longer than to see that */
	if (q && unlikely(cpu >= q))
		cpu %= q;
	return cpu & (WEFT_DOMAINS - 1);
}

/* I14: the owner's socket is in its slot exactly as long as the process lives. */
static __always_inline bool owner_alive(const struct weft_qpctl *ctl)
{
	__u32 slot = ctl->owner;

	return bpf_map_lookup_elem(&xsks, &slot) != NULL;
}

/* The n-th of the QP's rings. */
static __always_inline struct weft_ring *ring_nth(const struct weft_qpctl *ctl, __u32 n)
{
	__u32 owner = ctl->owner, idx = ctl->ring + n;
	void *inner = bpf_map_lookup_elem(&rings, &owner);

	return inner ? bpf_map_lookup_elem(inner, &idx) : NULL;
}

static __always_inline struct weft_ring *ring_get(const struct weft_qpctl *ctl)
{
	return ring_nth(ctl, 0);
}

/* Are they there? Who does not write there yet need not pay for the second look-up, which is a call. */
static __always_inline bool has_ring(const struct weft_qpctl *ctl)
{
	__u32 owner = ctl->owner;

	return bpf_map_lookup_elem(&rings, &owner) != NULL;
}

/* An element of the QP's receive queue, the head or 1 + entry; or NULL. */
static __always_inline void *rq_elem(const struct weft_qpctl *ctl, __u32 at)
{
	__u32 rq = ctl->rq - 1;
	void *inner = bpf_map_lookup_elem(&rqs, &rq);

	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* What the peer is told of it. */
static __always_inline __u32 rq_epoch(const struct weft_qpctl *ctl, const struct weft_ring *ring)
{
	const struct weft_rq *rq = rq_elem(ctl, 0);

	return rq ? weft_rq_epoch(rq, ring, ctl->flags & WEFT_QPF_SRQ) : 0;
}

/* What lies in the ring buffer already wakes as well: who wakes takes that out, then looks at all his QPs. */
static __always_inline void send_event(struct weft_stats *st, const struct weft_qpctl *ctl,
				       __u32 kind)
{
	struct weft_event ev = { .qpn = ctl->qpn, .kind = kind };
	__u32 cq = ctl->cq;
	void *rb = bpf_map_lookup_elem(&events, &cq);

	if (!rb || bpf_ringbuf_query(rb, BPF_RB_AVAIL_DATA))
		return;
	bpf_ringbuf_output(rb, &ev, sizeof(ev), BPF_RB_FORCE_WAKEUP);
	count(st, event);
}

/*
 * Wake a sleeping application: once for each time it has armed. The caller has
 * written what it should see; `fence` makes that visible before `arm` is read
 * (the application does the same the other way round).
 */
static __always_inline void wake(struct weft_stats *st, const struct weft_qpctl *ctl, __u32 *fence,
				 __u32 *arm, __u32 kind)
{
	weft_fetched(__sync_fetch_and_add(fence, 1));
	if (READ_ONCE(*arm) && __sync_lock_test_and_set(arm, 0))
		send_event(st, ctl, kind);
}

/* The same, for the sending side: a completion, or an error. */
static __always_inline void wake_tx(struct weft_stats *st, const struct weft_qpctl *ctl,
				    struct weft_ring *ring)
{
	weft_fetched(__sync_fetch_and_add(&ring->tx_fence, 1));
	if (weft_ring_wakes(ring) && __sync_lock_test_and_set(&ring->arm_tx, 0))
		send_event(st, ctl, WEFT_EVENT_TX);
}

#endif
