/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The asking half of netwrite --mix: every operation in random order, against a plain copy of what the
 * server's memory must be. Included by netclient.h.
 */
#ifndef NETMIX_CLIENT_H
#define NETMIX_CLIENT_H

#include "netmix_done.h"

/* ---- requests ---- */

/*
 * What must not be under way at once, for its outcome would be open: in relaxed order whatever touches
 * the same bytes and changes them, but that an atomic is behind the WRITEs before it; in strict order a
 * change of what a READ may yet bring again.
 */
static bool mix_clash(const struct mix *m, enum weft_wr_op op, uint64_t at, uint64_t len)
{
	for (uint64_t i = m->head; i != m->tail; i++) {
		const struct mix_op *o = &m->op[i % MIX_OPS];

		if (o->what > MIX_COUNT || o->at >= at + len || at >= o->at + o->len)
			continue;
		if (op == WEFT_WR_READ && o->op == WEFT_WR_READ)
			continue;
		if (m->strict ? op == WEFT_WR_READ || o->op != WEFT_WR_READ
			      : op >= WEFT_WR_FETCH_ADD && o->op == WEFT_WR_WRITE)
			continue;
		return true;
	}
	return false;
}

static unsigned mix_at(const struct mix *m)
{
	return m->tail - m->posted;
}

/* A request, the next of those to be posted. */
static struct weft_wr *mix_ask(struct mix *m, struct mix_op o)
{
	struct weft_wr *wr = &m->wr[mix_at(m)];

	o.id = m->tail;
	o.quiet = !np_below(&m->rnd, 3) && m->quiet < 5 && o.what != MIX_LAST;
	m->quiet = o.quiet ? m->quiet + 1 : 0;
	m->quiets += o.quiet;
	m->empty += !o.len;
	*wr = (struct weft_wr){ .wr_id = o.id,
				.op = o.op,
				.flags = o.quiet ? WEFT_WR_UNSIGNALED : 0,
				.sge = m->sge[mix_at(m)],
				.nsge = 1,
				.rkey = m->c->offer.key_all,
				.roff = o.at };
	m->op[m->tail % MIX_OPS] = o;
	return wr;
}

/* The bytes of a WRITE or SEND: len from `off` of the source, in n pieces or in line. */
static void mix_bytes_of(struct mix *m, struct weft_wr *wr, uint64_t off, uint32_t len, unsigned n,
			 uint64_t rnd, bool in_line)
{
	unsigned i = mix_at(m);

	mix_cut(m->sge[i], n, m->c->src.mr, off, len, rnd);
	wr->nsge = n;
	m->pieces += n > 1;
	if (in_line) {
		mix_gather(m->data[i], m->c->src.at, m->sge[i], n);
		wr->flags |= WEFT_WR_INLINE;
		wr->data = m->data[i];
		wr->len = len;
		m->in_line++;
	}
}

static uint64_t mix_somewhere(struct mix *m, uint32_t len)
{
	/* in strict order often the same bytes again */
	if (m->strict && np_below(&m->rnd, 2) && len < 4096)
		return MIX_HEAP + np_below(&m->rnd, 4096 - len);
	return MIX_HEAP + np_below(&m->rnd, m->size - MIX_HEAP - len + 1);
}

static uint32_t mix_length(struct mix *m, uint32_t max)
{
	return np_length(&m->rnd, np_below(&m->rnd, 3) ? 500 : max);
}

static void mix_write(struct mix *m)
{
	uint32_t len = mix_length(m, 40000);
	uint64_t at = mix_somewhere(m, len);
	bool in_line = len <= WEFT_INLINE_MAX && !np_below(&m->rnd, 3);
	unsigned n = in_line ? 1 : 1 + np_below(&m->rnd, WEFT_SGE_MAX);
	uint64_t off, rnd;
	struct weft_wr *wr;

	if (!np_below(&m->rnd, 8)) { /* a word that atomics change */
		len = 8;
		at = m->skew + 8 * (1 + np_below(&m->rnd, MIX_WORDS - 1));
	}
	off = np_below(&m->rnd, MIX_SRC - len - WEFT_SGE_MAX * MIX_GAP);
	rnd = np_rand(&m->rnd);
	if (mix_clash(m, WEFT_WR_WRITE, at, len))
		return;
	wr = mix_ask(
		m, (struct mix_op){ .what = MIX_WRITE, .op = WEFT_WR_WRITE, .at = at, .len = len });
	mix_bytes_of(m, wr, off, len, n, rnd, in_line);
	mix_gather(m->model + at, m->c->src.at, m->sge[mix_at(m)], n);
	m->tail++;
}

static void mix_get(struct mix *m, uint64_t at, uint32_t len)
{
	struct mix_op o = { .what = MIX_GET, .op = WEFT_WR_READ, .at = at, .len = len };
	bool used[MIX_READS] = { false };
	struct weft_wr *wr;
	uint64_t rnd;

	for (uint64_t i = m->head; i != m->tail; i++)
		if (m->op[i % MIX_OPS].what == MIX_GET)
			used[m->op[i % MIX_OPS].place] = true;
	while (o.place < MIX_READS && used[o.place])
		o.place++;
	if (o.place == MIX_READS || mix_clash(m, WEFT_WR_READ, at, len))
		return;
	o.rnd = rnd = np_rand(&m->rnd);
	memset(m->back.at + o.place * MIX_ROOM, CANARY, MIX_ROOM);
	wr = mix_ask(m, o);
	wr->nsge = 1 + np_below(&rnd, WEFT_SGE_MAX);
	mix_cut(m->sge[mix_at(m)], wr->nsge, m->back.mr, o.place * MIX_ROOM, len, rnd);
	m->pieces += wr->nsge > 1;
	m->tail++;
}

/* Where an atomic's result goes: a word for each that is under way. */
static struct weft_wr *mix_ask_atomic(struct mix *m, struct mix_op o)
{
	uint64_t at = AT_RESULTS + 8 * (m->tail % MIX_OPS);
	struct weft_wr *wr;

	o.len = 8;
	memset(m->back.at + at, CANARY, 8);
	wr = mix_ask(m, o);
	m->sge[mix_at(m)][0] = (struct weft_sge){ m->back.mr, at, 8 };
	return wr;
}

/* A word of one's own: what it was is known, and what it becomes. */
static void mix_word(struct mix *m)
{
	uint64_t at = m->skew + 8 * (1 + np_below(&m->rnd, MIX_WORDS - 1)), was, is;
	uint64_t value = np_rand(&m->rnd), kind = np_below(&m->rnd, 3);
	struct mix_op o = { .what = MIX_WORD, .op = WEFT_WR_CMP_SWAP, .at = at };
	struct weft_wr *wr;

	if (mix_clash(m, WEFT_WR_FETCH_ADD, at, 8))
		return;
	memcpy(&was, m->model + at, 8);
	o.expect = was;
	if (!kind)
		o.op = WEFT_WR_FETCH_ADD;
	wr = mix_ask_atomic(m, o);
	wr->operand = value;
	wr->compare = kind == 1 ? was : was ^ value;
	is = !kind ? was + value : kind == 1 ? value : was;
	memcpy(m->model + at, &is, 8);
	m->tail++;
}

/* A counter of one's own, to which many additions may be under way. */
static void mix_count(struct mix *m)
{
	struct mix_op o = { .what = MIX_COUNT, .op = WEFT_WR_FETCH_ADD, .at = m->skew };

	for (uint64_t i = m->head; i != m->tail; i++)
		if (m->op[i % MIX_OPS].what == MIX_GET && m->op[i % MIX_OPS].at < m->skew + 8)
			return;
	if (m->counted == MIX_BURST)
		return;
	o.expect = m->counted++;
	mix_ask_atomic(m, o)->operand = 1;
	memcpy(m->model + m->skew, &m->counted, 8);
	m->tail++;
}

/* Values of a counter that all share, and for each a mark where it belongs: nobody else's is there. */
static void mix_draw(struct mix *m)
{
	struct mix_op o = { .what = MIX_DRAW, .op = WEFT_WR_FETCH_ADD };
	struct weft_wr *wr;
	unsigned out = 0;

	for (uint64_t i = m->head; i != m->tail; i++)
		out += m->op[i % MIX_OPS].what == MIX_DRAW || m->op[i % MIX_OPS].what == MIX_CLAIM;
	if (m->ndrawn) {
		uint64_t value = m->drawn[--m->ndrawn], guess = m->guess[m->ndrawn];

		o = (struct mix_op){
			.what = MIX_CLAIM, .op = WEFT_WR_CMP_SWAP, .at = guess, .expect = value
		};
		wr = mix_ask_atomic(m, o);
		wr->roff = 8 + (value - 1) % MIX_BOARD * 8;
		wr->compare = guess;
		wr->operand = value;
	} else if (out < MIX_DRAWN - 1) {
		wr = mix_ask_atomic(m, o);
		wr->operand = 1;
	} else {
		return;
	}
	wr->rkey = m->c->offer.key_board;
	m->tail++;
}

/* A message, and the WRITE that it announces. */
static void mix_send(struct mix *m)
{
	struct mix_msg msg = mix_msg(m->seed, m->msgs);
	uint64_t place = mix_place(m->skew, m->msgs);
	struct weft_wr *wr;

	if (mix_clash(m, WEFT_WR_WRITE, place, 2 * MIX_BLOCK))
		return;
	m->msgs++;
	if (msg.block) {
		wr = mix_ask(m, (struct mix_op){ .what = MIX_WRITE,
						 .op = WEFT_WR_WRITE,
						 .at = place,
						 .len = msg.block });
		mix_bytes_of(m, wr, msg.block_off, msg.block, 1, 0, false);
		memcpy(m->model + place, m->c->src.at + msg.block_off, msg.block);
		m->tail++;
	}
	place += MIX_BLOCK;
	wr = mix_ask(m, (struct mix_op){ .what = msg.write ? MIX_WRITE : MIX_MESSAGE,
					 .op = msg.write ? WEFT_WR_WRITE : WEFT_WR_SEND,
					 .at = msg.write ? place : 0,
					 .takes = true,
					 .len = msg.len });
	mix_bytes_of(m, wr, msg.off, msg.len, msg.nsge, msg.rnd, msg.in_line);
	wr->flags |= (msg.has_imm ? WEFT_WR_IMM : 0) | (msg.sol ? WEFT_WR_SOLICITED : 0);
	wr->imm = msg.imm;
	m->imm += msg.has_imm;
	if (msg.write)
		mix_gather(m->model + place, m->c->src.at, m->sge[mix_at(m)], msg.nsge);
	m->tail++;
}

/* Post what is to be posted, as much of it as there is room for. */
static void mix_post(struct mix *m)
{
	struct client *c = m->c;
	unsigned n = mix_at(m);
	int r;

	if (!n || c->failed)
		return;
	r = weft_post(c->qp, m->wr, n);
	if (r > 0) {
		m->posted += r;
		c->posted += r;
		/* pieces and inline bytes are where they were */
		memmove(m->wr, m->wr + r, (n - r) * sizeof(m->wr[0]));
		for (unsigned i = r; i < n; i++) {
			memcpy(m->sge[i - r], m->sge[i], sizeof(m->sge[0]));
			memcpy(m->data[i - r], m->data[i], sizeof(m->data[0]));
			if (m->wr[i - r].sge)
				m->wr[i - r].sge = m->sge[i - r];
			if (m->wr[i - r].data)
				m->wr[i - r].data = m->data[i - r];
		}
		memset(m->data[n - r], CANARY, sizeof(m->data[0]));
	} else if (r == -ENOTCONN) {
		if (c->posted == c->polled && !c->failed)
			fails(c, weft_qp_status(c->qp), c->polled);
	} else if (r != -EAGAIN) {
		bad("weft_post: %d, %s", r, weft_strerror_last());
	}
}

static void mix_one(struct mix *m)
{
	unsigned kind = np_below(&m->rnd, 100);
	uint32_t len;

	if (kind < 25)
		mix_write(m);
	else if (kind < 42 && (len = mix_length(m, MIX_READ), true))
		mix_get(m,
			np_below(&m->rnd, 4) ? mix_somewhere(m, len) : np_below(&m->rnd, MIX_HEAP),
			len);
	else if (kind < 56)
		mix_word(m);
	else if (kind < 64)
		mix_count(m);
	else if (kind < 72)
		mix_draw(m);
	else
		mix_send(m);
}

/* ---- from beginning to end ---- */

static void mix_wait(struct mix *m)
{
	/* both ways of waiting */
	if (!mix_reap(m) && np_below(&m->rnd, 2))
		weft_cq_wait(weft_qp_cq(m->c->qp), WEFT_ARM_TX | WEFT_ARM_RX, 20);
}

/* Until all that was posted has completed; of a QP in error all receives come back as well. */
static void mix_drain(struct mix *m)
{
	struct client *c = m->c;
	double until = now_s() + 60;

	if (m->tail != m->head && m->op[(m->tail - 1) % MIX_OPS].quiet && !c->failed &&
	    m->tail - m->head < MIX_OPS && mix_at(m) < MIX_BATCH) {
		mix_ask(m, (struct mix_op){ .what = MIX_LAST, .op = WEFT_WR_WRITE });
		m->sge[mix_at(m)][0] = (struct weft_sge){ .mr = c->src.mr };
		m->tail++;
	}
	while (now_s() < until) {
		if (c->failed && until > now_s() + 30)
			until = now_s() + 30;
		mix_post(m);
		if (m->head == (c->failed ? m->posted : m->tail) &&
		    (!c->failed || m->recvd == m->recvs))
			return;
		mix_wait(m);
	}
	bad("%llu requests and %llu receives never completed (%s)",
	    (unsigned long long)(m->posted - m->head), (unsigned long long)(m->recvs - m->recvd),
	    weft_wc_str(weft_qp_status(c->qp)));
}

/* Read all of it back, tell the server what its memory must be, and go on reading until it answers. */
static void mix_end(struct mix *m)
{
	struct client *c = m->c;
	struct mix_end end = { mix_hash(m->model, m->size), m->msgs };
	double until = now_s() + 60;
	struct weft_wr *wr;

	for (uint64_t at = 0; at < m->size && !c->failed; at += MIX_READ) {
		mix_get(m, at, m->size - at < MIX_READ ? m->size - at : MIX_READ);
		mix_drain(m);
	}
	if (c->failed)
		return;
	wr = mix_ask(m,
		     (struct mix_op){ .what = MIX_LAST, .op = WEFT_WR_SEND, .len = sizeof(end) });
	memcpy(m->data[0], &end, sizeof(end));
	wr->flags |= WEFT_WR_INLINE | WEFT_WR_IMM;
	wr->imm = MIX_END;
	wr->data = m->data[0];
	wr->len = sizeof(end);
	m->tail++;
	while (!m->over && !c->failed && now_s() < until) {
		if (mix_at(m) == 0 && m->tail - m->head < 4)
			mix_get(m, MIX_HEAP, 8);
		mix_post(m);
		mix_wait(m);
	}
	mix_drain(m);
	if (!m->over && !c->failed)
		bad("qp %u: no verdict", c->index);
}

/* The drill adds up these numbers, and asks the server for the messages. */
static void mix_say(const struct mix *m)
{
	static const struct {
		const char *name;
		size_t at;
	} count[] = {
#define N(name, field) { #name, offsetof(struct mix, field) }
		N(write, done[WEFT_WR_WRITE]),
		N(read, done[WEFT_WR_READ]),
		N(add, done[WEFT_WR_FETCH_ADD]),
		N(swap, done[WEFT_WR_CMP_SWAP]),
		N(send, done[WEFT_WR_SEND]),
		N(imm, imm),
		N(inline, in_line),
		N(unsignaled, quiets),
		N(empty, empty),
		N(pieces, pieces),
		N(answer, answers),
#undef N
	};
	char line[300] = "";

	for (unsigned i = 0; i < sizeof(count) / sizeof(count[0]); i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), " %s %llu",
			 count[i].name,
			 (unsigned long long)*(const uint64_t *)((const char *)m + count[i].at));
	say("mix %llu %s: %llu messages,%s", (unsigned long long)m->seed,
	    m->strict ? "strict" : "relaxed", (unsigned long long)m->told, line);
}

static void run_mix(struct client *c, uint64_t seed)
{
	struct mix *m = calloc(1, sizeof(*m));
	double end = now_s() + nw.time, next = 0;

	must(m, "memory");
	m->c = c;
	m->seed = m->rnd = seed;
	m->strict = nw.strict;
	m->size = c->offer.region;
	m->skew = c->offer.skew;
	m->model = calloc(1, m->size);
	must(m->model && m->size > MIX_HEAP + 50000 && nw.src >= MIX_SRC, "memory");
	region_make(&m->back, c->dev, MIX_BACK, seed + 3);
	need(weft_mr_reg(c->dev, NULL, m->back.at, m->back.len, WEFT_LOCAL_WRITE, &m->back.mr),
	     "weft_mr_reg");
	for (unsigned i = 0; i < MIX_RECVS; i++)
		mix_post_recv(m);
	while (now_s() < end && !c->failed && !atomic_load(&stop)) {
		uint64_t n = 1 + np_below(&m->rnd, MIX_BATCH), kind;

		if (mix_at(m) == 0 && now_s() >= next) {
			/* one more may be a message's WRITE, and one is kept for the last */
			while (n-- && mix_at(m) < MIX_BATCH && m->tail - m->head < MIX_OPS - 3)
				mix_one(m);
			kind = np_below(&m->rnd, 100);
			next = now_s() + np_below(&m->rnd, kind < 60   ? 30
							   : kind < 95 ? 300
								       : 3000) /
						 1e6;
		}
		mix_post(m);
		if (!mix_reap(m) && m->tail - m->head >= MIX_OPS - 3)
			mix_wait(m);
	}
	mix_drain(m);
	if (!c->failed)
		mix_end(m);
	if (c->failed)
		mix_drain(m);
	mix_say(m);
	region_check(&m->back, "what READs and atomics bring");
	free(m->model);
	free(m);
}

#endif
