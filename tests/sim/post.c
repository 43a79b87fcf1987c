/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the applications post: mixes of all operations, messages in parts, requests to be refused. */
#include "sim.h"

static uint32_t draw_segs(const struct conn *c)
{
	uint32_t left = c->segs_quota - c->segs_posted, n;

	/* the last that the queue holds takes what is left, if there is no later */
	if (W.p.mono || (W.p.stopped && c->posted == c->depth - 1))
		return left;
	/* small ones, one after the other */
	if (W.p.many && below(4))
		return 1;
	/* a deep queue is for many */
	if (c->depth > WEFT_SQ_DEPTH && below(32))
		return 1;
	switch (W.p.mix == MIX_SENDS ? between(5, 15) : below(16)) {
	case 0: n = between(1, 500); break;
	case 1 ... 4: n = between(1, 64); break;
	case 5 ... 10: n = between(1, 8); break;
	default: n = 1;
	}
	return n < left ? n : left;
}

static enum weft_wqe_op draw_op(uint32_t segs)
{
	/* of 16: SENDs, WRITEs, READs, FADDs; the rest is CSWAP */
	static const uint8_t shares[MIX_COUNT][4] = {
		[MIX_WRITES] = { 0, 16, 0, 0 }, [MIX_ALL] = { 0, 5, 5, 3 },
		[MIX_READS] = { 0, 2, 12, 1 },  [MIX_ATOMICS] = { 0, 2, 2, 6 },
		[MIX_SENDS] = { 11, 5, 0, 0 },  [MIX_EVERY] = { 5, 5, 3, 2 },
	};
	const uint8_t *share = shares[W.p.mix];
	int x = W.p.mix ? (int)below(16) : 0, large = segs > 1 && (W.p.mono || W.p.stopped);

	/* a receive has room for so much */
	if (x < share[0] && segs <= W.p.send_segs)
		return WEFT_WQE_SEND;
	if (x < share[0] + share[1])
		return WEFT_WQE_WRITE;
	/* an atomic is one packet */
	if (x < share[0] + share[1] + share[2] || W.p.payload < 8 || large)
		return WEFT_WQE_READ;
	return x < share[0] + share[1] + share[2] + share[3] ? WEFT_WQE_FADD : WEFT_WQE_CSWAP;
}

/* Does it bring immediate data, is it solicited? */
static uint8_t draw_flags(enum weft_wqe_op op)
{
	uint8_t flags = below(2) ? WEFT_WQE_IMM : 0;

	if (W.p.mix < MIX_SENDS || weft_wqe_own(op))
		return 0;
	return weft_wqe_takes(op, flags) && below(2) ? flags | WEFT_WQE_SOL : flags;
}

static struct msg_rec *request(struct conn *c, enum weft_wqe_op op, enum area area)
{
	struct msg_rec *m = &c->msg[c->posted];

	m->op = op;
	m->area = area;
	m->rkey = RKEY(c->gen, area);
	m->first = c->posted;
	m->rsn = c->rsn0 + c->takes;
	return m;
}

static void put_wqe(struct conn *c, const struct msg_rec *m)
{
	__u32 prod = c->msn0 + c->posted;
	struct weft_wqe *q = wqe_of(c, prod);

	q->loff = m->loff;
	q->roff = m->roff;
	q->len = m->len;
	q->lkey = 1;
	q->rkey = m->rkey;
	q->posted = 0;
	q->op = m->op;
	q->flags = m->flags;
	q->moff = m->moff;
	q->mlen = m->mlen;
	/* the datapath does not look, unless it is an atomic */
	q->operand = weft_wqe_atomic(m->op) || m->flags & WEFT_WQE_IMM ? m->operand : rng();
	q->compare = weft_wqe_atomic(m->op) ? m->compare : rng();
	c->posted++;
}

/* What was posted last is a whole message. */
static void end_message(struct conn *c, enum weft_wqe_op op)
{
	uint16_t quiet = c->msgs ? c->ends[c->msgs - 1].quiet : 0;

	c->ends[c->msgs++] = (struct msg_end){ c->posted - 1, quiet + weft_wqe_own(op) };
	if (!weft_wqe_own(op))
		c->write_end[c->writes++] = c->posted - 1;
	if (weft_wqe_takes(op, c->msg[c->posted - 1].flags))
		c->take_end[c->takes++] = c->posted - 1;
}

/* Bytes of a request of so many segments. */
static uint32_t draw_len(uint32_t segs)
{
	uint32_t most = W.p.payload < 48 ? W.p.payload : 48;

	/* some that several of may go in one packet */
	if (segs == 1 && W.p.many && below(4))
		return between(1, most);
	return segs * W.p.payload - below(W.p.payload);
}

/* A WRITE or SEND, in up to four parts: a request each, with a source of its own. */
static void post_write(struct conn *c, enum weft_wqe_op op, uint32_t segs)
{
	uint8_t flags = draw_flags(op);
	uint64_t imm = rng();
	uint32_t room = c->depth - (c->posted - c->completed), first = c->posted, sum = 0, at,
		 back = 0;
	uint32_t parts = W.p.parts && below(2) ? between(2, 4) : 1, len[4];

	if (W.p.stopped)
		room = room > 1 ? room - 1 : 1;
	parts = parts < room ? parts : room;
	parts = parts < segs ? parts : segs;
	for (uint32_t i = parts; i--; sum += len[i]) {
		uint32_t n = i ? between(1, segs - i) : segs;

		len[i] = draw_len(n);
		segs -= n;
	}
	if (parts == 1 && sum <= W.p.payload && !below(8))
		sum = len[0] = 0;
	c->dst_used += below(16);
	/* the same bytes once more, of this message or others */
	at = c->dst_used;
	if (W.p.overlap && !below(3))
		back = below(16 * W.p.payload);
	at -= back < at ? back : 0;
	for (uint32_t i = 0, moff = 0; i < parts; moff += len[i++]) {
		struct msg_rec *m = request(c, op, op ? AREA_RECV : AREA_TARGET);

		m->flags = flags;
		m->operand = imm;
		m->first = first;
		m->moff = moff;
		m->mlen = sum;
		m->len = len[i];
		m->loff = below(SIM_SRC - m->len);
		m->roff = at + moff;
		put_wqe(c, m);
	}
	if (c->dst_used < at + sum)
		c->dst_used = at + sum;
	W.st.in_parts += parts > 1;
	W.st.sends += op == WEFT_WQE_SEND;
	W.st.imms += (flags & WEFT_WQE_IMM) != 0;
	end_message(c, op);
}

/* Where the answer goes. */
static void draw_local(struct conn *c, struct msg_rec *m)
{
	c->loc_used += below(16);
	m->loff = c->loc_used;
	c->loc_used += m->len;
	m->mlen = m->len;
}

static void post_read(struct conn *c, uint32_t segs)
{
	uint32_t len = segs == 1 && !below(8) ? 0 : draw_len(segs);
	int live = len <= SIM_LIVE * 8 && below(2);
	struct msg_rec *m = request(c, WEFT_WQE_READ, live ? AREA_LIVE : AREA_STILL);

	m->len = len;
	m->roff = live ? 8 * below(SIM_LIVE + 1 - (len + 7) / 8) : below(SIM_SRC - len);
	draw_local(c, m);
	put_wqe(c, m);
	W.st.reads++;
	end_message(c, WEFT_WQE_READ);
}

static void post_atomic(struct conn *c, enum weft_wqe_op op)
{
	uint32_t half = SIM_WORDS / 2,
		 word = op == WEFT_WQE_FADD ? below(half) : half + below(half);
	struct msg_rec *m = request(c, op, AREA_WORDS);

	m->len = 8;
	m->roff = 8 * word;
	m->least = W.seen[1 - c->from][word];
	if (op == WEFT_WQE_FADD) {
		m->operand = between(1, 1000);
	} else {
		m->compare = m->least;
		m->operand = ++W.unique;
	}
	draw_local(c, m);
	put_wqe(c, m);
	W.st.atomics++;
	end_message(c, op);
}

void post_one(struct conn *c)
{
	uint32_t segs = draw_segs(c);
	enum weft_wqe_op op = draw_op(segs);

	if (weft_wqe_atomic(op))
		segs = 1;
	c->segs_posted += segs;
	switch (op) {
	case WEFT_WQE_SEND:
	case WEFT_WQE_WRITE: post_write(c, op, segs); break;
	case WEFT_WQE_READ: post_read(c, segs); break;
	default: post_atomic(c, op);
	}
}

/* I5: a request that must be refused as a whole. */
void post_bad(struct conn *c)
{
	static const enum area good[] = { AREA_TARGET, AREA_STILL, AREA_WORDS, AREA_WORDS,
					  AREA_RECV };
	/* as a rule one that may join others, where they do */
	int joins = W.p.many && below(8);
	enum weft_wqe_op op = joins ? WEFT_WQE_WRITE : draw_op(1);
	struct msg_rec *m = request(c, op, good[op]);
	uint32_t size = op == WEFT_WQE_WRITE  ? c->dst_size
			: op == WEFT_WQE_READ ? SIM_SRC
					      : SIM_WORDS * 8;

	m->bad = 1;
	m->len = weft_wqe_atomic(op) ? 8 : between(1, W.p.many ? 48 : 5 * W.p.payload);
	draw_local(c, m);
	m->flags = joins ? 0 : draw_flags(op);
	if (op == WEFT_WQE_SEND)
		/* longer than any receive: they have up to 63 bytes too many */
		m->mlen = m->len = c->rq->room + 64 + below(W.p.payload);
	if (!weft_wqe_own(op))
		m->loff = below(SIM_SRC - m->len);
	switch (below(4)) {
	case 0:
		m->rkey ^= 0x100;
		m->roff = 8 * below(2);
		break;
	case 1:
		/* begins inside, ends outside */
		m->roff = size - below(m->len);
		break;
	case 2:
		/* it may not be written, or read, or is no place for atomics */
		m->rkey = RKEY(c->gen, op == WEFT_WQE_WRITE ? AREA_STILL : AREA_TARGET);
		break;
	default:
		m->roff = weft_wqe_atomic(op) ? below(8) * 8 + between(1, 7)
					      : 0ull - below(m->len + 1) - 1;
	}
	c->nak_posted = 1;
	put_wqe(c, m);
	end_message(c, op);
}
