/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A simulated CPU: takes frames from its queue and runs the program on them step by step. */
#include "many.h"

uint32_t payload_sum(const struct frame *f)
{
	uint32_t h = 2166136261u;

	for (uint32_t i = 0; i < f->len; i++)
		h = (h ^ f->payload[i]) * 16777619u;
	return h;
}

/* What every transmission writes anew: L3, the check, the sum (I13). */
void frame_seal(struct frame *f, struct conn *c)
{
	f->ttl = SIM_TTL;
	f->ce = 0;
	f->h.ver = WEFT_WIRE_VER;
	f->h.dqpn = htobe32(c->qpn);
	f->h.conn = htobe64(c->key);
	f->h.len = htobe16(f->len);
	f->h.rsvd0 = 0;
	f->h.check = htobe32(weft_check(f->w, c->keys));
	f->sum = payload_sum(f);
}

static struct conn *find_conn(uint32_t qpn)
{
	uint32_t slot = qpn & 0xffff;

	if (slot >= W.p.qps || W.conn[slot]->qpn != qpn || W.conn[slot]->closed)
		return NULL;
	return W.conn[slot];
}

/* Look up and verify; nothing of the frame is believed before. */
static enum step parse(struct cpu *cpu)
{
	struct frame *f = cpu->cur;
	struct work *w = &cpu->w;
	struct conn *c;

	w->now = ticks_now();
	w->dom = cpu->id & (WEFT_DOMAINS - 1);
	w->claim = WEFT_CLAIM_EMPTY;
	w->tries = 0;
	w->answer = w->rnr = w->seq = w->takes = w->early = 0;
	if (f->kind != FRAME_WIRE) {
		c = w->c = find_conn(f->qp);
		if (!c || (c->from == cpu->host) == (f->kind == FRAME_RESUME))
			return STEP_END;
		if (f->kind == FRAME_RESUME)
			return RX_RESUME;
		look_ahead(w);
		return f->kind == FRAME_FILL ? TX_CLONE : f->kind == FRAME_LOOK ? TX_LOOK : TX_BELL;
	}
	c = w->c = find_conn(be32toh(f->h.dqpn));
	if (!c || f->h.ver != WEFT_WIRE_VER || be64toh(f->h.conn) != c->key ||
	    be32toh(f->h.check) != weft_check(f->w, c->keys) || f->sum != payload_sum(f))
		return STEP_END;
	if (f->h.op == WEFT_OP_WRITES && many_damaged(f, c))
		return STEP_END;
	check_arrival(f);
	w->nth = 0;
	w->psn = be32toh(f->h.psn);
	w->flags = f->h.flags;
	look_ahead(w);
	if (is_request(f->h.op))
		return c->from != cpu->host ? RX_CLAIM : STEP_END;
	if (c->from != cpu->host)
		return STEP_END;
	if (f->h.op == WEFT_OP_RESUME)
		return TX_RESUME;
	return f->h.op == WEFT_OP_REPLY ? TX_TAKE : f->h.op == WEFT_OP_NAK ? TX_SCORE : TX_AHEAD;
}

static enum step one_step(struct cpu *cpu, enum step s)
{
	if (s == STEP_PARSE)
		return parse(cpu);
	return s < RX_CLAIM ? tx_step(cpu, s) : rx_step(cpu, s);
}

void cpu_run(struct cpu *cpu)
{
	uint64_t cost = 0;

	if (!cpu->cur) {
		cpu->cur = cpu->head;
		if (!cpu->cur) {
			cpu->running = 0;
			return;
		}
		cpu->head = cpu->cur->next;
		cpu->queued--;
		cpu->pc = STEP_PARSE;
	}
	/* every boundary may be where this CPU is held up and others go on */
	do {
		cpu->pc = one_step(cpu, cpu->pc);
		cost += between(40, 200);
		if (chance(W.p.stall)) {
			cost += below(W.p.stall_by);
			W.st.stalls++;
			W.stalls++;
			break;
		}
		if (chance(W.p.preempt)) {
			cost += below(30 * US);
			break;
		}
	} while (cpu->pc != STEP_END && !(rng() & 1) && !W.failed);
	if (cpu->pc == STEP_END) {
		if (cpu->cur)
			frame_free(cpu->cur);
		cpu->cur = NULL;
		cpu->served++;
	}
	event_at(W.now + cost, EVENT_CPU, 0, cpu);
}
