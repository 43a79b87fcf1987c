/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* netwrite --mix, client: what is under way, and whether each completion and all it brings is right. */
#ifndef NETMIX_DONE_H
#define NETMIX_DONE_H

#include "netmix.h"

#define MIX_OPS    64     /* under way at a time */
#define MIX_READS  8      /* places for what READs bring */
#define MIX_READ   12000u /* bytes of one at most */
#define MIX_ROOM   (MIX_READ + WEFT_SGE_MAX * MIX_GAP)
#define MIX_BURST  65536u /* of a flow on its own counter */
#define MIX_BATCH  4
#define MIX_DRAWN  16
#define AT_RESULTS (MIX_READS * MIX_ROOM)
#define AT_ECHO    (AT_RESULTS + 8 * MIX_OPS)
#define MIX_BACK   (AT_ECHO + MIX_RECVS * 64)
#define CANARY     0xee

enum mix_what {
	MIX_WRITE,
	MIX_GET,
	MIX_WORD,
	MIX_COUNT,
	MIX_DRAW,
	MIX_CLAIM,
	MIX_MESSAGE,
	MIX_LAST,
	MIX_WHATS
};

struct mix_op {
	enum mix_what what;
	enum weft_wr_op op;
	bool quiet, takes; /* unsignaled; takes a receive */
	uint64_t id, at;   /* where in the server's region */
	uint32_t len, place;
	uint64_t expect, rnd;
};

struct mix {
	struct client *c;
	struct region back;
	uint8_t *model;
	uint64_t rnd, skew, size, seed;
	bool strict;
	/* what is posted, oldest first, and what is to be posted next */
	struct mix_op op[MIX_OPS];
	uint64_t head, tail, posted; /* those from `posted` on are in wr[] yet */
	struct weft_wr wr[MIX_BATCH + 2];
	struct weft_sge sge[MIX_BATCH + 2][WEFT_SGE_MAX];
	uint8_t data[MIX_BATCH + 2][WEFT_INLINE_MAX];
	unsigned quiet; /* in a row */
	/* messages, and answers to them */
	uint64_t msgs, echo, recvs, recvd;
	bool flushed, over;
	/* counters */
	uint64_t counted;
	uint8_t seen[MIX_BURST / 8];
	uint64_t drawn[MIX_DRAWN], guess[MIX_DRAWN];
	unsigned ndrawn;
	uint64_t done[5], told; /* by operation, of those that were right; messages among them */
	uint64_t imm, in_line, quiets, empty, pieces, answers;
};

/* ---- completions ---- */

static const char *mix_name(const struct mix_op *o)
{
	static const char *const name[MIX_WHATS] = { "WRITE", "READ",  "atomic",  "own counter",
						     "draw",  "claim", "message", "the end" };

	return name[o->what];
}

static void mix_check_read(struct mix *m, const struct mix_op *o)
{
	const uint8_t *room = m->back.at + o->place * MIX_ROOM;
	const uint8_t *want = m->model + o->at;
	struct weft_sge g[WEFT_SGE_MAX];
	uint64_t rnd = o->rnd, at = 0;
	unsigned n = 1 + np_below(&rnd, WEFT_SGE_MAX);

	mix_cut(g, n, NULL, 0, o->len, rnd);
	for (unsigned i = 0; i < n; i++) {
		while (at < g[i].off)
			if (room[at++] != CANARY)
				goto out;
		for (; at < g[i].off + g[i].len; at++)
			if (room[at] != *want++)
				goto out;
	}
	while (at < MIX_ROOM)
		if (room[at++] != CANARY)
			goto out;
	return;
out:
	bad("qp %u seed %llu: READ of %u bytes at %llu: byte %llu of its memory is wrong",
	    m->c->index, (unsigned long long)m->seed, o->len, (unsigned long long)o->at,
	    (unsigned long long)at);
}

/* A value of the shared counter that another has drawn too is found on the board. */
static void mix_claimed(struct mix *m, const struct mix_op *o, uint64_t old)
{
	uint64_t value = o->expect;

	if (old == value) {
		bad("qp %u: value %llu of the shared counter was drawn twice", m->c->index,
		    (unsigned long long)value);
	} else if (old != o->at && old < value) {
		/* who drew what is there, or did not come to say so, is another: again */
		m->drawn[m->ndrawn] = value;
		m->guess[m->ndrawn++] = old;
	}
}

/* It has completed, and well: is what it brought right? */
static void mix_finish(struct mix *m, const struct mix_op *o)
{
	uint64_t slot = o - m->op, got;

	m->done[o->op]++;
	m->told += o->takes;
	memcpy(&got, m->back.at + AT_RESULTS + 8 * slot, 8);
	switch (o->what) {
	case MIX_GET: mix_check_read(m, o); break;
	case MIX_WORD:
		if (got != o->expect)
			bad("qp %u: an atomic brings %llx, not %llx", m->c->index,
			    (unsigned long long)got, (unsigned long long)o->expect);
		break;
	case MIX_COUNT:
		if (got >= m->counted || m->seen[got / 8] & 1 << got % 8 ||
		    (m->strict && got != o->expect))
			bad("qp %u: the own counter is %llu at addition %llu", m->c->index,
			    (unsigned long long)got, (unsigned long long)o->expect);
		else
			m->seen[got / 8] |= 1 << got % 8;
		break;
	case MIX_DRAW:
		m->drawn[m->ndrawn] = got + 1;
		m->guess[m->ndrawn++] = got >= MIX_BOARD ? got + 1 - MIX_BOARD : 0;
		break;
	case MIX_CLAIM: mix_claimed(m, o, got); break;
	default: break;
	}
}

/* A request has completed, and with it those before it that say nothing when they are well. */
static void mix_completed(struct mix *m, const struct weft_wc *wc)
{
	struct client *c = m->c;
	struct mix_op *o = NULL;

	while (m->head != m->posted) {
		o = &m->op[m->head % MIX_OPS];
		if (o->id == wc->wr_id)
			break;
		if (!o->quiet || c->failed)
			bad("qp %u: no completion of %s %llu, but of %llu", c->index, mix_name(o),
			    (unsigned long long)o->id, (unsigned long long)wc->wr_id);
		mix_finish(m, o);
		m->head++;
		c->polled++;
	}
	if (m->head == m->posted || wc->qp != c->qp || wc->op != o->op || wc->len != o->len) {
		bad("qp %u: completion of %llu, op %u, %u bytes, which was not posted", c->index,
		    (unsigned long long)wc->wr_id, wc->op, wc->len);
		return;
	}
	m->head++;
	c->polled++;
	if (wc->status == WEFT_WC_SUCCESS) {
		c->bytes += wc->len;
		if (o->quiet)
			bad("qp %u: completion of %s %llu, which is unsignaled", c->index,
			    mix_name(o), (unsigned long long)o->id);
		if (c->failed)
			bad("success behind an error");
		else
			mix_finish(m, o);
	} else if (!c->failed) {
		fails(c, wc->status, c->polled - 1);
	} else if (c->failed == WEFT_WC_FLUSH_ERR) {
		c->failed = wc->status;
	} else if (wc->status != WEFT_WC_FLUSH_ERR) {
		bad("%s behind %s", weft_wc_str(wc->status), weft_wc_str(c->failed));
	}
}

static void mix_post_recv(struct mix *m)
{
	struct weft_sge g = { .mr = m->back.mr,
			      .off = AT_ECHO + m->recvs % MIX_RECVS * 64,
			      .len = 64 };
	struct weft_recv r = { .wr_id = m->recvs, .sge = &g, .nsge = 1 };
	int n = weft_post_recv(m->c->qp, &r, 1);

	m->recvs += n == 1;
	if (n != 1 && n != -ENOTCONN)
		bad("weft_post_recv: %d, %s", n, weft_strerror_last());
}

/* What the server sends back: for each message that asks for it, in their order, and then its verdict. */
static void mix_echoed(struct mix *m, const struct weft_wc *wc)
{
	const uint8_t *at = m->back.at + AT_ECHO + wc->wr_id % MIX_RECVS * 64;
	struct mix_msg msg = { 0 };

	if (wc->wr_id != m->recvd++)
		bad("receive %llu instead of %llu", (unsigned long long)wc->wr_id,
		    (unsigned long long)m->recvd - 1);
	if (wc->status) {
		if (wc->status != WEFT_WC_FLUSH_ERR || !weft_qp_status(m->c->qp))
			bad("a receive: %s", weft_wc_str(wc->status));
		m->flushed = true;
		return;
	}
	if (m->flushed || m->over)
		bad("a message behind the last");
	while (m->echo < m->msgs && !(msg = mix_msg(m->seed, m->echo)).echo)
		m->echo++;
	if (m->echo == m->msgs) {
		m->over = true;
		if (wc->imm != MIX_END || wc->len)
			bad("qp %u: the server's verdict is %x, %u bytes", m->c->index, wc->imm,
			    wc->len);
	} else if (wc->len != msg.echo || wc->flags ||
		   memcmp(at, m->c->src.at + msg.echo_off, msg.echo)) {
		bad("qp %u: the answer to message %llu is wrong", m->c->index,
		    (unsigned long long)m->echo);
	}
	m->answers++;
	m->echo++;
	mix_post_recv(m);
}

static int mix_reap(struct mix *m)
{
	struct weft_wc wc[16];
	int n = weft_cq_poll(weft_qp_cq(m->c->qp), wc, 16);

	for (int i = 0; i < n; i++) {
		if (wc[i].op >= WEFT_WR_RECV)
			mix_echoed(m, &wc[i]);
		else
			mix_completed(m, &wc[i]);
	}
	return n;
}

#endif
