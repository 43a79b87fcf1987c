/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What READs and atomics must bring, by a model of plain memory: still, living, changed by atomics. */
#include "sim.h"

/* ---- memory that its owner writes: word by word in turn, each value once ---- */

#define MIX   0x9e3779b97f4a7c15ull /* odd, so a value tells which write it was */
#define UNMIX 0xf1de83e19937733dull /* MIX * UNMIX == 1 */

/* The write that word w holds after so many in all. */
static uint32_t last_write(uint32_t written, uint32_t w)
{
	return written - 1 - (written - 1 - w) % SIM_LIVE;
}

void live_write(struct conn *c, uint32_t n)
{
	for (; W.p.mix && n; n--, c->written++)
		c->live[c->written % SIM_LIVE] = c->written * MIX;
}

/* Each whole word is one that it held between the request and now. */
static int was_there(const struct conn *c, const struct psn_rec *r, const uint8_t *got)
{
	for (uint64_t off = (r->roff + 7) & ~7ull; off + 8 <= r->roff + r->len; off += 8) {
		uint32_t w = off / 8;
		uint64_t v, nth;

		memcpy(&v, got + (off - r->roff), 8);
		nth = v * UNMIX;
		if (nth % SIM_LIVE != w || nth < last_write(r->since, w) ||
		    nth > last_write(c->written, w))
			return 0;
	}
	return 1;
}

/* ---- answers ---- */

/* I2: only one answer is put into memory, none is thrown away before. I12: where it belongs. */
void check_take(struct conn *c, __u32 psn, int take, const struct weft_seg *s)
{
	struct psn_rec *r = &c->psn[psn - c->psn0];

	if (psn - c->psn0 >= c->cut || !weft_wqe_own(r->op)) {
		fail("I2", "qp %u: an answer to PSN %u, which asked for nothing", c->id,
		     psn - c->psn0);
	} else if (take > 0) {
		if (r->taking || r->put)
			fail("I2", "qp %u: a second answer to PSN %u is put into memory", c->id,
			     psn - c->psn0);
		if (s->loff != r->loff || s->len != r->len)
			fail("I12", "qp %u: the answer to PSN %u goes elsewhere", c->id,
			     psn - c->psn0);
		r->taking = 1;
		c->atomics_out -= weft_wqe_atomic(r->op);
	} else {
		if (take < 0 || !(r->taking || r->put))
			fail("I2", "qp %u: the answer to PSN %u is thrown away", c->id,
			     psn - c->psn0);
		W.st.late++;
		W.st.met += r->taking;
	}
}

void check_put(struct conn *c, __u32 psn)
{
	struct psn_rec *r = rec_of(c, psn);
	const struct msg_rec *m = msg_of(c, r);
	const uint8_t *got = c->loc + r->loff;

	if (m->bad)
		fail("I5", "qp %u: a request that had to be refused is answered", c->id);
	r->put = 1;
	check_got(c);
	switch (m->area) {
	case AREA_STILL:
		if (memcmp(got, sim_src + r->roff, r->len))
			fail("I1", "qp %u: READ brings other bytes to PSN %u", c->id,
			     psn - c->psn0);
		break;
	case AREA_LIVE:
		if (!was_there(c, r, got))
			fail("I1", "qp %u: READ brings to PSN %u what was not there", c->id,
			     psn - c->psn0);
		break;
	default:
		if (!r->ran || memcmp(got, &r->old, 8))
			fail("I16", "qp %u: an atomic brings to PSN %u what the word was not",
			     c->id, psn - c->psn0);
	}
}

/* All of it is there when it completes; then the application takes it, and writes there itself. */
void check_result(struct conn *c, struct msg_rec *m)
{
	uint8_t *at = c->loc + m->loff;
	uint64_t old;

	if (m->area == AREA_STILL && memcmp(at, sim_src + m->roff, m->len))
		fail("I1", "qp %u: request %u complete, bytes differ", c->id, c->completed);
	if (m->area == AREA_WORDS) {
		memcpy(&old, at, 8);
		word_log(c, m, old);
	}
	memset(at, SEAL, m->len);
}

/* What answers wrote, of all requests: nothing beside, nothing late, nothing that was refused. */
void check_local(const struct conn *c)
{
	int64_t at = -MARGIN;

	for (uint32_t i = 0; c->loc_size && i <= c->posted; i++) {
		const struct msg_rec *m = &c->msg[i];
		int64_t end = i < c->posted ? (int64_t)m->loff : c->loc_size + MARGIN;

		if (i < c->posted && (!weft_wqe_own(m->op) || m->bad))
			continue;
		for (; at < end; at++)
			if (c->loc[at] != CANARY)
				fail("I5", "qp %u: byte %lld written where no answer goes", c->id,
				     (long long)at);
		if (i == c->posted)
			break;
		for (end += m->len; at < end; at++)
			if (m->completed && c->loc[at] != SEAL)
				fail("I2", "qp %u: byte %lld written after its completion", c->id,
				     (long long)at);
	}
}

/* ---- I16: atomics ---- */

/* No more are out than there are results remembered; numbered in order. */
void check_atomic(struct conn *c, const struct weft_seg *s)
{
	uint32_t n = c->atomics++;

	c->atomic_psn[n] = s->psn - c->psn0;
	if (s->asn != n)
		fail("I16", "qp %u: atomic %u goes out as number %u", c->id, n, s->asn);
	if (++c->atomics_out > WEFT_ATOMICS ||
	    (n >= WEFT_ATOMICS && !c->psn[c->atomic_psn[n - WEFT_ATOMICS]].put))
		fail("I16", "qp %u: atomic %u is out with %u others, more than are remembered",
		     c->id, n, c->atomics_out - 1);
}

void check_run(struct conn *c, __u32 psn, uint64_t old)
{
	struct psn_rec *r = rec_of(c, psn);

	if (r->ran)
		fail("I16", "qp %u: the atomic of PSN %u is carried out twice", c->id,
		     psn - c->psn0);
	for (uint32_t i = c->contig; i < psn - c->psn0; i++)
		if (!weft_wqe_own(c->psn[i].op) && !c->psn[i].placed)
			fail("I4",
			     "qp %u: the atomic of PSN %u is carried out before PSN %u is placed",
			     c->id, psn - c->psn0, i);
	r->ran = 1;
	r->old = old;
}

/* An atomic is complete: what has completed before it was posted came before it. */
void word_log(const struct conn *c, const struct msg_rec *m, uint64_t old)
{
	uint32_t host = 1 - c->from, word = m->roff / 8;
	uint64_t now = m->op == WEFT_WQE_FADD ? old + m->operand
		       : old == m->compare    ? m->operand
					      : old;
	uint64_t *seen = &W.seen[host][word];

	if (m->op == WEFT_WQE_FADD && old < m->least)
		fail("I16", "qp %u: FADD finds %llu, and one before it left %llu", c->id,
		     (unsigned long long)old, (unsigned long long)m->least);
	if (m->op == WEFT_WQE_CSWAP || now > *seen)
		*seen = now;
	if (W.logged < SIM_SEGS)
		W.log[W.logged++] = (struct atomic_log){ .old = old,
							 .operand = m->operand,
							 .compare = m->compare,
							 .word = host * SIM_WORDS + word };
}

static int by_old(const void *a, const void *b)
{
	const struct atomic_log *x = a, *y = b;

	if (x->word != y->word)
		return x->word < y->word ? -1 : 1;
	return x->old != y->old ? (x->old < y->old ? -1 : 1) : 0;
}

static int swapped(const struct atomic_log *l)
{
	return l->old == l->compare;
}

/* FADDs in the order of their results: each finds what the one before left. */
static uint64_t fadds(const struct atomic_log *l, uint32_t n)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (l[i].old != value)
			fail("I16", "word %u: FADD finds %llu, not %llu", l[i].word,
			     (unsigned long long)l[i].old, (unsigned long long)value);
		value = l[i].old + l[i].operand;
	}
	return value;
}

/* CSWAPs that swapped are a chain from 0 on; the others found what was in it. */
static uint64_t cswaps(const struct atomic_log *l, uint32_t n)
{
	uint32_t links = 0, all = 0;
	uint64_t value = 0;

	for (uint32_t i = 0; i < n; i++) {
		int found = !l[i].old;

		for (uint32_t k = 0; k < n && !found; k++)
			found = swapped(&l[k]) && l[k].operand == l[i].old;
		if (!found)
			fail("I16", "word %u: CSWAP finds %llu, which nobody left", l[i].word,
			     (unsigned long long)l[i].old);
		all += swapped(&l[i]);
	}
	for (uint32_t i = 0; i < n;) {
		if (swapped(&l[i]) && l[i].old == value) {
			value = l[i].operand;
			links++;
			i = 0;
		} else {
			i++;
		}
	}
	if (links != all)
		fail("I16", "word %u: %u CSWAPs swapped, %u in a row", l->word, all, links);
	return value;
}

/* As the requesters saw it: there is an order of all that explains each result, and the end. */
void check_words(void)
{
	uint32_t i = 0, n;

	/* of a QP that was reset or failed nobody knows what its last ones did */
	if (W.p.nak || W.p.reset)
		return;
	qsort(W.log, W.logged, sizeof(W.log[0]), by_old);
	for (uint32_t w = 0; w < SIM_HOSTS * SIM_WORDS && !W.failed; w++, i += n) {
		uint64_t value, is = W.words[w / SIM_WORDS][w % SIM_WORDS];

		for (n = 0; i + n < W.logged && W.log[i + n].word == w; n++)
			;
		value = w % SIM_WORDS < SIM_WORDS / 2 ? fadds(&W.log[i], n) : cswaps(&W.log[i], n);
		if (!W.failed && value != is)
			fail("I16", "word %u is %llu at the end, not %llu", w,
			     (unsigned long long)is, (unsigned long long)value);
	}
}
