/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The network between the hosts: loss, duplication, reordering, corruption, CE marks, outages. */
#include "sim.h"

static void lose(struct frame *f)
{
	W.st.lost++;
	W.lost_tokens++;
	frame_free(f);
}

/* A CPU's receive queue; on veth it holds 256 frames. */
void cpu_enqueue(uint32_t host, uint32_t cpu, struct frame *f)
{
	struct cpu *c = &W.host[host].cpu[cpu];

	if (c->queued >= SIM_RING) {
		W.st.overflow++;
		lose(f);
		return;
	}
	f->next = NULL;
	if (c->head)
		c->tail->next = f;
	else
		c->head = f;
	c->tail = f;
	c->queued++;
	if (!c->running) {
		c->running = 1;
		event_at(W.now, EVENT_CPU, 0, c);
	}
}

static void flip_bits(void *p, uint32_t bytes)
{
	for (uint32_t n = between(1, 4); n; n--) {
		uint32_t bit = below(bytes * 8);

		((uint8_t *)p)[bit / 8] ^= 1 << (bit & 7);
	}
}

static void deliver(struct frame *f, uint32_t from)
{
	const struct params *p = &W.p;
	uint32_t ev = f->h.ev & (WEFT_EV_MAX - 1);
	uint64_t when = W.now + p->delay + ev * 7919u % p->jitter;
	int data = is_request(f->h.op) || f->h.op == WEFT_OP_RESUME;

	f->hops = between(1, 3);
	f->ttl -= f->hops;
	if (chance(p->ce)) {
		f->ce = f->marked = 1;
		W.st.marked++;
	}
	if (chance(p->corrupt)) {
		flip_bits(f->w, sizeof(f->h));
		W.st.corrupted++;
		W.lost_tokens++;
	} else if (f->len && chance(p->payload_corrupt)) {
		/* where a UDP checksum may miss it, or is not used, there is one of the descriptors */
		if (f->h.op == WEFT_OP_WRITES && below(2)) {
			flip_bits(f->payload, 2 * sizeof(struct weft_desc));
			f->sum = payload_sum(f);
		} else {
			flip_bits(f->payload, f->len);
		}
		W.st.corrupted++;
		W.lost_tokens++;
	}
	if (chance(p->reorder)) {
		when += below(p->reorder_by);
		W.st.reordered++;
	} else {
		if (when <= W.last_arrival[from][ev])
			when = W.last_arrival[from][ev] + 1;
		W.last_arrival[from][ev] = when;
	}
	f->host = 1 - from;
	/* on veth a token returns to its CPU; a NIC spreads by hash */
	if (!data && p->pinned)
		f->cpu = f->born;
	else
		f->cpu = ev * 2654435761u % W.host[f->host].cpus;
	event_at(when, EVENT_ARRIVE, 0, f);
}

void net_send(struct frame *f, uint32_t from)
{
	const struct params *p = &W.p;

	f->kind = FRAME_WIRE;
	f->nth = W.frames++;
	f->marked = 0;
	if (chance(p->dup) || (p->dup_acks && !is_request(f->h.op))) {
		struct frame *twin = frame_new();

		*twin = *f;
		W.st.duplicated++;
		deliver(twin, from);
	}
	if (W.hole_left && is_request(f->h.op) && be32toh(f->h.psn) == p->psn0 + p->hole) {
		W.hole_left--;
		lose(f);
		return;
	}
	if (f->nth == W.drop_nth || chance(p->loss) ||
	    (W.now >= W.outage_from && W.now < W.outage_to)) {
		lose(f);
		return;
	}
	deliver(f, from);
}

/* The library rings: a small frame into the local pair, to some CPU. */
void doorbell(struct conn *c, enum frame_kind kind)
{
	struct frame *f = frame_new();
	uint32_t nth = W.frames++;

	W.st.doorbells++;
	f->kind = kind;
	f->qp = c->qpn;
	f->host = kind == FRAME_RESUME ? 1 - c->from : c->from;
	f->cpu = below(W.host[f->host].cpus);
	f->born = f->cpu;
	if (nth == W.drop_nth || chance(W.p.db_loss)) {
		W.st.lost++;
		frame_free(f);
		return;
	}
	event_at(W.now + between(500, 10000), EVENT_ARRIVE, 0, f);
}

/* I5: an ACK that cannot be true, or is older than the window, changes nothing. */
void net_forge(struct conn *c)
{
	static struct weft_tx before;
	struct weft_tx *tx = &c->gtx.tx;
	struct weft_ack a = { .psn = tx->nxt - 1,
			      .cum = tx->una,
			      .msn = tx->ends,
			      .ts = ticks_now(),
			      .sack = rng() };
	struct weft_score r;
	struct weft_seg seg;
	int want = -1;

	a.sack_base = a.psn & ~63u;
	switch (below(5)) {
	case 0: a.psn = tx->nxt + below(1u << 31); break;
	case 1:
		a.psn = tx->nxt - WEFT_WIN - 1 - below(1u << 30);
		want = 0;
		break;
	case 2: a.cum = tx->nxt + 1 + below(1u << 30); break;
	case 3: a.msn = tx->ends + 1 + below(1u << 30); break;
	case 4: a.sack_base += between(1, 63); break;
	}
	before = *tx;
	before.surplus += !want;
	if (weft_tx_ack(tx, &a, ticks_now(), c->conf, &r) != want)
		fail("I5", "qp %u: an ACK for what was never sent was believed", c->id);
	if (memcmp(&before, tx, sizeof(before)))
		fail("I5", "qp %u: a refused ACK changed the sender", c->id);
	/* nor does an answer that nobody asked for */
	a.psn = tx->nxt + 10 - below(2 * WEFT_WIN);
	if (weft_tx_take(tx, a.psn, SIM_PAYLOAD + 1, &seg) > 0 ||
	    (a.psn - c->psn0 < c->cut && !weft_wqe_own(c->psn[a.psn - c->psn0].op) &&
	     weft_tx_take(tx, a.psn, c->psn[a.psn - c->psn0].len, &seg) > 0) ||
	    memcmp(&before, tx, sizeof(before)))
		fail("I5", "qp %u: an answer that was not asked for was taken", c->id);
	W.st.forged++;
}
