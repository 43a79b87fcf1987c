/* SPDX-License-Identifier: GPL-2.0 */
/* Telemetry: histograms of round trips and WRITEs, bytes received, the trace of a QP's events. */
#ifndef WEFT_TELEMETRY_BPF_H
#define WEFT_TELEMETRY_BPF_H

#include "header.bpf.h"

static __always_inline bool tele_on(void)
{
	struct weft_devcfg *cfg = cfg_get();

	return cfg && !(READ_ONCE(cfg->flags) & WEFT_DEV_NO_TELE);
}

static __always_inline __u32 tele_lane(void)
{
	return bpf_get_smp_processor_id() & (WEFT_TELE_LANES - 1);
}

/* Note an event; kind | x << 16. Off the fast path: always on. */
STEP int tele_note(__u32 slot, __u32 what, __u32 a, __u32 b, __u32 c)
{
	struct weft_tele *t = bpf_map_lookup_elem(&qptele, &slot);
	struct weft_trace_event e = { .kind = what, .x = what >> 16, .a = a, .b = b, .c = c };

	if (!t)
		return 0;
	e.now = bpf_ktime_get_ns();
	weft_trace_note(&t->trace, &e);
	return 0;
}

#define tele_event(slot, kind, x, a, b, c) \
	tele_note(slot, WEFT_TRACE_##kind | (__u32)(x) << 16, a, b, c)

struct tele_done {
	__u32 slot, now, ssn;
};

/* Work request `ssn` is complete. */
static __always_inline void tele_write(const struct weft_qptx *q, struct weft_tele *t, __u32 ssn,
				       __u32 now)
{
	/* the application's word, which it may spoil for itself */
	__u32 posted = READ_ONCE(q->tx.wqe[ssn & (WEFT_SQ_DEPTH - 1)].posted), age = now - posted;

	if (posted && (__s32)age >= 0)
		__sync_fetch_and_add(&t->lat.n[weft_hist_at(age)], 1);
}

/* So is the one `i` after d->ssn. */
static long tele_one_of(__u32 i, struct tele_done *d)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &d->slot);
	struct weft_tele *t = bpf_map_lookup_elem(&qptele, &d->slot);

	if (!q || !t)
		return 1;
	tele_write(q, t, d->ssn + i, d->now);
	return 0;
}

/* So are the last n. As a rule it is one: that need not pay for a loop of calls. */
static __always_inline void tele_writes(const struct weft_qptx *q, struct weft_tele *t,
					struct tele_done *d, __u32 n)
{
	d->ssn = READ_ONCE(q->tx.done) - n;
	if (likely(n == 1))
		tele_write(q, t, d->ssn, d->now);
	else
		bpf_loop(n, tele_one_of, d, 0);
}

/* They were completed by ACKs that a CPU had not scored yet. */
STEP int tele_late(__u32 slot, __u32 now, __u32 n)
{
	struct weft_tele *t = bpf_map_lookup_elem(&qptele, &slot);
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	struct tele_done d = { .slot = slot, .now = now };

	if (t && q && n && n <= WEFT_SQ_DEPTH && tele_on())
		tele_writes(q, t, &d, n);
	return 0;
}

/*
 * The ACK in wk was scored, and completed wk->wrote WRITEs. Which they are is read without the
 * lock: if another CPU has scored since, newer ones stand in for them. Not part of tx_ack(), since
 * what is there the verifier walks once for each way through the locked section.
 */
STEP int tele_acked(struct work *wk, __u32 slot)
{
	struct weft_tele *t = bpf_map_lookup_elem(&qptele, &slot);
	struct tele_done d = { .slot = slot };
	struct weft_qptx *q;
	__u32 lane = tele_lane(), rtt, n;

	if (!wk || !t || !tele_on())
		return 0;
	n = wk->wrote;
	d.now = wk->acked;
	rtt = d.now - bpf_ntohl(wk->pkt.u.h.ts);
	WRITE_ONCE(t->lane[lane].last_ack, d.now);
	/*
	 * Else the echoed time is not ours, or of another age: as in weft_tx_ack(). No atomic: with every
	 * packet it would cost as much as all the rest here, and where more CPUs than lanes score one QP's
	 * ACKs a histogram may lose a few.
	 */
	if (rtt < WEFT_TICKS_US(10000000))
		t->rtt[lane].n[weft_hist_at(rtt)]++;
	if (unlikely(!READ_ONCE(t->first)) && !__sync_lock_test_and_set(&t->first, 1))
		tele_event(slot, first_ack, 0, bpf_ntohl(wk->pkt.u.h.psn), rtt, 0);
	if (!n || n > WEFT_SQ_DEPTH)
		return 0;
	q = bpf_map_lookup_elem(&qptx, &slot);
	if (!q)
		return 0;
	tele_writes(q, t, &d, n);
	return 0;
}

/*
 * Of ACKs that complete nothing one in 8 is looked at: to call the step for every packet of a long
 * message would cost 2% of all time.
 */
static __always_inline void tele_ack(struct work *wk, __u32 slot)
{
	if (wk->acked && (wk->wrote || !(bpf_ntohl(wk->pkt.u.h.psn) & 7)))
		tele_acked(wk, slot);
}

/* A payload of len bytes was placed. */
static __always_inline void tele_rx(__u32 slot, __u32 len)
{
	struct weft_tele *t = bpf_map_lookup_elem(&qptele, &slot);

	if (t && tele_on())
		__sync_fetch_and_add(&t->lane[tele_lane()].rx_bytes, len);
}

/* The timer found packets too late: the oldest that waits, and since when. */
static __always_inline int tele_rto(__u32 slot, __u32 now)
{
	struct weft_qptx *q = bpf_map_lookup_elem(&qptx, &slot);
	__u32 una, age;

	if (!q)
		return 0;
	una = READ_ONCE(q->tx.una);
	age = now - q->tx.slot[weft_tx_at(una)].ts;
	tele_event(slot, rto, q->tx.rtt.backoff, una, ((__u64)age << WEFT_TS_SHIFT) / 1000,
		   q->tx.inflight + q->tx.nlost);
	return 0;
}

#endif
