/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* READs and atomics: the responder as bpf/ask.bpf.h, and what the requester does with a REPLY. */
#include "sim.h"

/* ---- requester ---- */

/* What the header says of the segment. */
void ask_header(struct frame *f, const struct weft_seg *s)
{
	static const uint8_t wire[] = {
#define X(name, val, op, own) [val] = WEFT_OP_##op,
		WEFT_WQE_OPS(X)
#undef X
	};

	f->h.op = wire[s->op];
	f->h.data.rkey = htobe32(s->rkey);
	f->h.data.roff = htobe64(s->roff);
	if (weft_wqe_atomic(s->op)) {
		f->h.atomic.asn = htobe32(s->asn);
		f->h.atomic.operand = htobe64(s->operand);
		f->h.atomic.compare = htobe64(s->compare);
		return;
	}
	f->h.data.msn = htobe32(s->msn);
	f->h.data.moff = htobe32(s->moff);
	f->h.data.mlen = htobe32(s->mlen);
	f->h.data.rlen = weft_wqe_own(s->op) ? htobe32(s->len) : 0;
	f->h.data.rsn = 0;
	if (weft_wqe_takes(s->op, s->wflags))
		recv_header(f, s);
}

/* As tx_reply() in bpf/tx.bpf.h. Here nothing comes in between, so none is stale. */
static enum step take(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct weft_tx *tx = &w->c->gtx.tx;
	struct weft_ack a = ack_of(cpu);
	int t;

	/* or its bytes would be in memory, and it dropped */
	if (!weft_tx_sane(tx, &a))
		return TX_AHEAD;
	t = weft_tx_take(tx, w->psn, cpu->cur->len, &w->seg);
	check_take(w->c, w->psn, t, &w->seg);
	return t == WEFT_TAKE_YES ? TX_PUT : t == WEFT_TAKE_BAD ? STEP_END : TX_AHEAD;
}

static enum step put_rest(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	const struct frame *f = cpu->cur;
	uint32_t half = f->len / 2;

	memcpy(w->c->loc + w->seg.loff + half, f->payload + half, f->len - half);
	W.st.bytes += f->len;
	check_put(w->c, w->psn);
	w->answer = 1;
	return TX_AHEAD;
}

/* ---- responder ---- */

/*
 * A READ is carried out for duplicates as well, and beside another CPU that does; an atomic
 * that was is looked up.
 */
enum step ask_claimed(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	w->flags = w->verdict == WEFT_RX_NEW ? 0 : WEFT_F_DUP;
	if (w->verdict != WEFT_RX_NEW)
		W.st.dups++;
	if (cpu->cur->h.op == WEFT_OP_READ || w->verdict == WEFT_RX_NEW)
		return RX_TARGET;
	return RX_RECALL;
}

/* The first part of it: up to a word's end, where another CPU may write meanwhile. */
static uint32_t first_part(const struct frame *f)
{
	uint64_t roff = be64toh(f->h.data.roff), mid = (roff + be32toh(f->h.data.rlen) / 2) & ~7ull;

	return mid > roff ? mid - roff : 0;
}

static enum step read_rest(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct frame *f = cpu->cur;
	uint32_t first = first_part(f);

	live_write(w->c, below(8));
	memcpy(f->payload + first, w->target + first, be32toh(f->h.data.rlen) - first);
	if (w->verdict != WEFT_RX_NEW)
		return RX_REPLY;
	check_placed(w->c, w->psn);
	return RX_COMMIT;
}

static enum step atomic(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	const struct weft_hdr *h = &cpu->cur->h;
	uint64_t operand = be64toh(h->atomic.operand), *word = (uint64_t *)w->target;

	w->result = *word;
	if (h->op == WEFT_OP_FADD)
		*word += operand;
	else if (*word == be64toh(h->atomic.compare))
		*word = operand;
	check_run(w->c, w->psn, w->result);
	return RX_REMEMBER;
}

static uint32_t asn(const struct cpu *cpu)
{
	return be32toh(cpu->cur->h.atomic.asn) & (WEFT_ATOMICS - 1);
}

static enum step remember(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	weft_rx_remember(&w->c->grx.rx, asn(cpu), w->psn, w->result);
	check_placed(w->c, w->psn);
	return RX_COMMIT;
}

static enum step recall(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	if (!weft_rx_recall(&w->c->grx.rx, asn(cpu), w->psn, &w->result)) {
		W.st.recalled++;
		return RX_REPLY;
	}
	if (!weft_tx_delivered(&w->c->gtx.tx, w->psn))
		fail("I16", "qp %u: the result of PSN %u is forgotten, and not there yet", w->c->id,
		     w->psn - w->c->psn0);
	W.st.forgotten++;
	W.lost_tokens++;
	return STEP_END;
}

/* What goes behind the header of a REPLY; how many bytes. */
uint32_t ask_reply(struct cpu *cpu)
{
	struct frame *f = cpu->cur;

	if (f->h.op == WEFT_OP_READ)
		return be32toh(f->h.data.rlen);
	memcpy(f->payload, &cpu->w.result, 8);
	return 8;
}

enum step ask_step(struct cpu *cpu, enum step s)
{
	struct work *w = &cpu->w;
	struct frame *f = cpu->cur;

	switch (s) {
	case TX_TAKE: return take(cpu);
	case TX_PUT: memcpy(w->c->loc + w->seg.loff, f->payload, f->len / 2); return TX_PUT_REST;
	case TX_PUT_REST: return put_rest(cpu);
	case RX_READ: memcpy(f->payload, w->target, first_part(f)); return RX_READ_REST;
	case RX_READ_REST: return read_rest(cpu);
	case RX_ATOMIC: return atomic(cpu);
	case RX_REMEMBER: return remember(cpu);
	case RX_RECALL: return recall(cpu);
	default: return STEP_END;
	}
}
