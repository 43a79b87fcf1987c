/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The responder's half of a host: admit, place, acknowledge in the same frame. */
#include "many.h"

/* I5: the whole message is checked with every packet. 0, or the NAK code. */
uint32_t check_range(struct conn *c, uint8_t op, uint32_t rkey, uint64_t roff, uint32_t moff,
		     uint32_t mlen, uint8_t **at)
{
	int atomic = op == WEFT_OP_FADD || op == WEFT_OP_CSWAP;
	uint32_t size, area = rkey >> 16;
	uint64_t base = roff - moff;
	uint8_t *mem;

	if ((rkey & 0xffff) != c->gen)
		return WEFT_NAK_KEY;
	switch (area) {
	case AREA_TARGET: mem = c->dst, size = c->dst_size; break;
	case AREA_STILL: mem = sim_src, size = SIM_SRC; break;
	case AREA_LIVE: mem = (uint8_t *)c->live, size = sizeof(c->live); break;
	default: mem = (uint8_t *)W.words[1 - c->from], size = sizeof(W.words[0]);
	}
	if (atomic ? area != AREA_WORDS
		   : (op != WEFT_OP_READ) != (area == AREA_TARGET) || area >= AREA_WORDS)
		return WEFT_NAK_RIGHTS;
	if (roff < moff || base > size || mlen > size - base)
		return WEFT_NAK_BOUNDS;
	if (atomic && roff & 7)
		return WEFT_NAK_ALIGN;
	*at = mem + roff;
	return 0;
}

static uint32_t check_target(struct conn *c, const struct frame *f, uint8_t **at)
{
	int atomic = f->h.op == WEFT_OP_FADD || f->h.op == WEFT_OP_CSWAP;

	return check_range(c, f->h.op, be32toh(f->h.data.rkey), be64toh(f->h.data.roff),
			   atomic ? 0 : be32toh(f->h.data.moff),
			   atomic ? 8 : be32toh(f->h.data.mlen), at);
}

enum step reply_nak(struct cpu *cpu, uint32_t code, __u32 psn, __u32 nth)
{
	struct conn *c = cpu->w.c;
	struct frame *f = cpu->cur;
	uint32_t was = f->len;

	memset(&f->h.nak, 0, sizeof(f->h.nak));
	f->len = 0;
	check_reply(f, was, f->len);
	f->h.op = WEFT_OP_NAK;
	f->h.flags = 0;
	f->h.nak.code = htobe32(code);
	f->h.nak.psn = htobe32(psn);
	f->h.nak.nth = htobe32(nth);
	frame_seal(f, c);
	W.st.naks++;
	c->naks++;
	cpu->cur = NULL;
	net_send(f, cpu->host);
	return STEP_END;
}

/* Locked: move the window over what is placed. */
static void advance(struct conn *c)
{
	struct weft_rx *rx = &c->grx.rx;
	__u32 was = rx->msn - rx->quiet;

	weft_rx_catch_up(rx);
	check_rx(c);
	if (rx->msn - rx->quiet != was) {
		c->ring.received = rx->rdone;
		check_received(c);
		c->ring.arrived = rx->msn - rx->quiet;
		check_sealed(c);
	}
}

/* Must it keep its order? */
static int in_order(const struct frame *f)
{
	return W.p.strict && (f->h.op != WEFT_OP_DATA ||
			      (f->h.flags & (WEFT_F_FREE | WEFT_F_LAST)) != WEFT_F_FREE);
}

static enum step claim(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	const struct weft_rx *rx = &w->c->grx.rx;

	w->takes = recv_takes(cpu->cur);
	w->epoch = recv_epoch(w->c);
	if (rx->err)
		return reply_nak(cpu, rx->err, rx->err_psn, rx->err_nth);
	return weft_rx_lags(rx, w->psn) || (in_order(cpu->cur) && w->psn != rx->next) ? RX_CATCH_UP
										      : RX_LOOK;
}

/* It reads `next` once, before all else; here that was a step ago, thus any time. */
static enum weft_rx_verdict take(struct weft_rx *rx, __u32 psn, __u32 next, int ordered)
{
	__u32 now = rx->next;
	enum weft_rx_verdict v;

	rx->next = next;
	v = ordered ? weft_rx_take_next(rx, psn) : weft_rx_take(rx, psn);
	rx->next = now;
	return v;
}

static enum step claimed(struct cpu *cpu)
{
	struct work *w = &cpu->w;

	check_rx(w->c);
	if (w->verdict == WEFT_RX_SEQ) {
		w->seq = 1;
		W.st.seqs++;
		return RX_REPLY;
	}
	if (is_ask(cpu->cur->h.op) && w->verdict != WEFT_RX_OUT &&
	    (w->verdict != WEFT_RX_BUSY || cpu->cur->h.op == WEFT_OP_READ))
		return ask_claimed(cpu);
	switch (w->verdict) {
	case WEFT_RX_NEW: return cpu->cur->h.op == WEFT_OP_WRITES ? RX_PART : RX_TARGET;
	case WEFT_RX_DUP:
		W.st.dups++;
		w->flags = WEFT_F_DUP;
		return RX_REPLY;
	case WEFT_RX_BUSY:
		W.st.busy++;
		W.lost_tokens++;
		return STEP_END;
	default:
		check_window(w->c, w->psn);
		W.st.out_of_window++;
		W.lost_tokens++;
		return STEP_END;
	}
}

/* Of a READ that is complete, of which this is a stray copy, the memory may be gone. */
static int gone(const struct work *w)
{
	return W.p.gone && w->verdict != WEFT_RX_NEW &&
	       msg_of(w->c, rec_of(w->c, w->psn))->completed && below(2);
}

/* The nth WRITE of the packet, if there are several, and with it the QP. */
enum step refuse(struct cpu *cpu, uint32_t code, uint32_t nth)
{
	struct weft_rx *rx = &cpu->w.c->grx.rx;

	if (!rx->err) {
		rx->err = code;
		rx->err_psn = cpu->w.psn;
		rx->err_nth = nth;
		if (nth)
			advance(cpu->w.c);
	}
	W.st.refused++;
	return reply_nak(cpu, rx->err, rx->err_psn, rx->err_nth);
}

static enum step target(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	uint32_t code = cpu->cur->h.op == WEFT_OP_SEND ? recv_target(cpu)
						       : check_target(c, cpu->cur, &w->target);

	if (gone(w)) {
		W.st.gone++;
		return reply_nak(cpu, WEFT_NAK_KEY, w->psn, 0);
	}
	if (code)
		return refuse(cpu, code, 0);
	switch (cpu->cur->h.op) {
	case WEFT_OP_DATA: return RX_COPY;
	case WEFT_OP_SEND: return RX_SCATTER;
	case WEFT_OP_READ: return RX_READ;
	default: return RX_ATOMIC;
	}
}

static enum step reply(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct frame *f = cpu->cur;
	struct weft_rx_sack k;
	uint32_t was = f->len;

	if (w->early)
		k = w->k;
	else
		weft_rx_sack(&c->grx.rx, w->psn, &k);
	check_ack_out(c, &k, w->psn, w->verdict != WEFT_RX_BUSY && !w->rnr && !w->seq);
	f->len = is_ask(f->h.op) && !w->seq ? ask_reply(cpu) : 0;
	check_reply(f, was, f->len);
	f->h.op = w->seq            ? WEFT_OP_SEQ
		  : w->rnr          ? WEFT_OP_RNR
		  : is_ask(f->h.op) ? WEFT_OP_REPLY
				    : WEFT_OP_ACK;
	/* a peer that answers what asks for bytes without any: it delivers nothing */
	if (f->h.op == WEFT_OP_REPLY && W.p.plain && !below(8)) {
		f->h.op = WEFT_OP_ACK;
		f->len = 0;
		W.st.plain++;
		W.lost_tokens++;
	}
	memset(&f->h.ack, 0, sizeof(f->h.ack));
	f->h.flags = (w->flags & WEFT_F_DUP) | (f->ce ? WEFT_F_CE : 0);
	if (w->takes && !w->seq) {
		f->h.flags |= WEFT_F_RQ;
		f->h.ack.epoch = htobe32(w->epoch);
	}
	f->h.ack.cum = htobe32(k.cum);
	f->h.ack.msn = htobe32(k.msn);
	f->h.ack.sack = htobe64(k.bits);
	f->h.ack.sack_base = htobe32(k.base);
	frame_seal(f, c);
	W.st.acks++;
	cpu->cur = NULL;
	net_send(f, cpu->host);
	return STEP_END;
}

enum step rx_step(struct cpu *cpu, enum step s)
{
	struct work *w = &cpu->w;
	struct weft_rx *rx = &w->c->grx.rx;
	struct frame *f = cpu->cur;
	uint32_t half = f->len / 2;

	switch (s) {
	case RX_CLAIM: return claim(cpu);
	case RX_CATCH_UP: advance(w->c); return RX_LOOK;
	case RX_LOOK: w->next = rx->next; return RX_TAKE;
	case RX_TAKE:
		w->verdict = take(rx, w->psn, w->next, in_order(f));
		if (w->verdict != WEFT_RX_NEW)
			return claimed(cpu);
		return recv_needed(cpu) ? RX_RECV : RX_KEEP;
	case RX_KEEP:
		if (f->h.op == WEFT_OP_WRITES)
			w->verdict = weft_rx_keep_many(rx, w->psn, many_count(f));
		else
			w->verdict = weft_rx_keep(rx, w->psn,
						  !(w->flags & WEFT_F_LAST) ? WEFT_RX_MORE
						  : is_ask(f->h.op)         ? WEFT_RX_QUIET
						  : !w->takes               ? WEFT_RX_ARRIVAL
						  : w->flags & WEFT_F_SOL   ? WEFT_RX_SOL
									    : WEFT_RX_RECV);
		W.st.given_back += w->verdict != WEFT_RX_NEW;
		return claimed(cpu);
	case RX_PART: return many_part(cpu);
	case RX_TARGET: return target(cpu);
	case RX_COPY: memcpy(w->target, f->payload, half); return RX_COPY_REST;
	case RX_COPY_REST:
		memcpy(w->target + half, f->payload + half, f->len - half);
		W.st.bytes += f->len;
		w->flags = 0;
		if (w->takes && f->h.flags & WEFT_F_LAST)
			return RX_NOTE;
		check_placed(w->c, w->psn);
		/* its ACK is written before the commit, and goes out behind it */
		w->early = f->h.op == WEFT_OP_DATA && !w->takes && !in_order(f) &&
			   !(f->h.flags & WEFT_F_LAST);
		if (w->early)
			weft_rx_sack(rx, w->psn, &w->k);
		w->k.bits |= w->early ? weft_psn_bit(w->psn) : 0;
		return RX_COMMIT;
	case RX_COMMIT: return weft_rx_commit(rx, w->psn) || in_order(f) ? RX_ADVANCE : RX_REPLY;
	case RX_ADVANCE: advance(w->c); return RX_REPLY;
	case RX_REPLY: return reply(cpu);
	case RX_RECV ... RX_RESUME: return recv_step(cpu, s);
	default: return ask_step(cpu, s);
	}
}
