/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A sender for the unit tests of the scoreboard: post, claim, acknowledge, check the books. */
#ifndef TEST_CORE_UTIL_H
#define TEST_CORE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/core/ring.h>

#define PAYLOAD 1000
#define T0      WEFT_TICKS_US(1000000) /* some time after start */
#define RTT     WEFT_TICKS_US(50)

struct sender {
	struct weft_tx tx;
	struct weft_wqe sq[WEFT_SQ_MAX];
	__u32 prod, wnd;
	__u32 sent_at[65536]; /* by the low half of the PSN */
	struct weft_score score;
};

static inline struct sender *sender_new(__u32 psn0, __u32 nev)
{
	struct sender *s = test_calloc(1, sizeof(*s));

	weft_tx_init(&s->tx, psn0, PAYLOAD, nev);
	s->wnd = WEFT_CWND_MAX;
	return s;
}

/* The ring that request n is in. */
static inline const struct weft_wqe *ring_of(const struct sender *s, __u32 n)
{
	return &s->sq[weft_sq_ring(n, s->tx.sq_mask) * WEFT_SQ_DEPTH];
}

static inline void post(struct sender *s, __u32 len)
{
	struct weft_wqe *q = &s->sq[s->prod & s->tx.sq_mask];

	q->loff = 64 * (__u64)s->prod;
	q->roff = 128 * (__u64)s->prod;
	q->len = q->mlen = len;
	q->lkey = 7;
	q->rkey = 9;
	s->prod++;
}

static inline void post_op(struct sender *s, enum weft_wqe_op op, __u32 len)
{
	struct weft_wqe *q = &s->sq[s->prod & s->tx.sq_mask];

	post(s, len);
	q->op = op;
	q->operand = 1000 + s->prod;
	q->compare = 2000 + s->prod;
}

/* len bytes, `moff` of a message of mlen. */
static inline void post_part(struct sender *s, __u32 moff, __u32 len, __u32 mlen)
{
	struct weft_wqe *q = &s->sq[s->prod & s->tx.sq_mask];

	post(s, len);
	q->moff = moff;
	q->mlen = mlen;
}

/* What must hold after every call (I10, and that nothing undelivered is forgotten). */
static inline void check_books(const struct sender *s)
{
	const struct weft_tx *tx = &s->tx;
	__u32 out = 0, lost = 0, bits = 0, sum = 0;

	for (__u32 i = 0; i < WEFT_WIN; i++)
		out += weft_slot_state(&tx->slot[i]) == WEFT_SLOT_OUT;
	for (__u32 i = 0; i < WEFT_WIN_WORDS; i++)
		bits += weft_popcount(tx->lost[i]);
	for (__u32 i = 0; i < WEFT_DOMAINS; i++)
		sum += tx->dom[i].out;
	for (__u32 psn = tx->una; psn != tx->nxt; psn++) {
		const struct weft_tx_slot *sl = &tx->slot[weft_tx_at(psn)];
		int l = !!(tx->lost[weft_psn_word(psn)] & weft_psn_bit(psn));

		lost += l;
		/* who has taken its answer will say so */
		if (weft_tx_own(tx, psn) && sl->seg_hi & WEFT_SLOT_TAKEN)
			continue;
		if (!weft_tx_delivered(tx, psn) && !weft_tx_goes(tx, psn) && !l)
			fail_msg("PSN %#x is neither delivered nor out nor lent nor lost", psn);
	}
	assert_int_equal(out, tx->inflight);
	assert_int_equal(sum, tx->inflight);
	assert_int_equal(lost, tx->nlost);
	assert_int_equal(bits, tx->nlost);
	assert_true(tx->nxt - tx->una <= WEFT_WIN);
}

static inline enum weft_claim claim(struct sender *s, __u32 now, __u32 dom, struct weft_seg *seg)
{
	struct weft_seg tmp;
	enum weft_claim c;

	if (!seg)
		seg = &tmp;
	c = weft_tx_claim(&s->tx, ring_of(s, s->tx.cons), s->tx.cons, s->prod, s->wnd, now, dom,
			  seg);
	if (c == WEFT_CLAIM_STUCK)
		c = weft_tx_rescue(&s->tx, now, dom, seg);
	if (c == WEFT_CLAIM_OK)
		s->sent_at[seg->psn & 0xffff] = now;
	check_books(s);
	return c;
}

/* Claim n segments, all must succeed. */
static inline void claim_n(struct sender *s, __u32 n, __u32 now, __u32 dom)
{
	while (n--)
		assert_int_equal(claim(s, now, dom, NULL), WEFT_CLAIM_OK);
}

static inline int ack_raw(struct sender *s, struct weft_ack a, __u32 now)
{
	int rc = weft_tx_ack(&s->tx, &a, now, 0, &s->score);
	struct weft_score more = s->score;

	s->score.lost = 0;
	check_books(s);
	if (!rc && s->score.repair) {
		weft_tx_repair(&s->tx, now, 0, &more);
		s->score.freed += more.freed;
		s->score.lost = more.lost;
		check_books(s);
	}
	return rc;
}

/* The ACK of psn's last transmission. */
static inline int ack(struct sender *s, __u32 psn, __u32 cum, __u32 msn, __u64 sack, __u32 now)
{
	struct weft_ack a = { .psn = psn,
			      .ts = s->sent_at[psn & 0xffff],
			      .cum = cum,
			      .msn = msn,
			      .sack_base = psn & ~63u,
			      .sack = sack };

	return ack_raw(s, a, now);
}

/* The REPLY to psn's last transmission. */
static inline int take_answer(struct sender *s, __u32 psn, __u32 len)
{
	struct weft_seg seg;

	return weft_tx_take(&s->tx, psn, len, &seg);
}

static inline int answer(struct sender *s, __u32 psn, __u32 cum, __u32 now)
{
	struct weft_ack a = { .psn = psn,
			      .ts = s->sent_at[psn & 0xffff],
			      .cum = cum,
			      .sack_base = psn & ~63u,
			      .answer = 1 };

	return ack_raw(s, a, now);
}

static inline int timeout(struct sender *s, __u32 now)
{
	int rc = weft_tx_timeout(&s->tx, now, 0, &s->score);

	check_books(s);
	return rc;
}

static inline __u32 deficit(const struct sender *s)
{
	return weft_tx_deficit(&s->tx, ring_of(s, s->tx.cons), s->prod, s->wnd);
}

#endif
