// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* I5 for READs and atomics: what is not allowed is refused by name, tells and changes no byte. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;

#define ALL          (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC)
#define EVEN         (8 - FX_T_OFF % 8)
#define OLD          0xc5c5c5c5c5c5c5c5ull /* what every word of the target is */

#define EACH_ASK(op) for (int op = WEFT_OP_READ; op <= WEFT_OP_CSWAP; op++)

static struct weft_mr_ent *target(void)
{
	return &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];
}

/* A request that would be carried out: 8 bytes of the target. */
static void request(struct pkt *p, struct fx_qp *q, int op, uint32_t psn)
{
	target()->rights = ALL;
	if (op == WEFT_OP_READ) {
		pkt_read(p, q->peer, psn, EVEN, 8);
		p->h.data.rkey = htonl(FX_T_KEY);
	} else {
		pkt_atomic(p, q->peer, op, psn, 0, EVEN, 1, OLD);
	}
}

static void nak_of(struct frame *out, const struct pkt *p, struct fx_qp *q, uint32_t code,
		   uint32_t psn)
{
	struct pkt nak;

	pkt_reply(&nak, p, q, WEFT_OP_NAK);
	nak.h.nak.code = htonl(code);
	nak.h.nak.psn = htonl(psn);
	pkt_frame(&nak, out);
}

/*
 * p is refused with this code, and so is every request after it, of any kind. The same again
 * as a duplicate of what has been carried out ends nothing. The QP is left as it was before.
 */
static void refused(struct fx_qp *q, const struct pkt *p, uint32_t code, const char *counter)
{
	uint32_t psn = ntohl(p->h.psn);
	struct weft_rx was, rx;
	char counters[64];
	struct pkt next;

	fx_rx_get(q, &was);
	pkt_frame(p, &f);
	q->ring->arm_rx = 1;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	snprintf(counters, sizeof(counters), "%s tx_nak event", counter);
	expect_counters(counters);
	nak_of(&want, p, q, code, psn);
	expect_frame(&want);
	assert_int_equal(RX_AFTER(q)->err, code);
	assert_int_equal(RX_AFTER(q)->err_psn, psn);
	assert_int_equal(RX_AFTER(q)->next, was.next);
	assert_int_equal(RX_AFTER(q)->msn, was.msn);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_int_equal(RX_AFTER(q)->word[i].placed, was.word[i].placed);
	expect_bytes(RX_AFTER(q)->result, was.result, sizeof(was.result));
	expect_bytes(&fx.after.tx, &fx.before.tx, sizeof(fx.after.tx));
	assert_int_equal(q->ring->rx_err, code);
	assert_int_equal(q->ring->arrived, 0);
	assert_int_equal(q->ring->arm_rx, 0);
	assert_int_equal(fx_events(NULL, NULL), 1);
	expect_pools();

	for (int op = WEFT_OP_DATA; op <= WEFT_OP_CSWAP; op++) {
		if (op == WEFT_OP_ACK || op == WEFT_OP_NAK)
			continue;
		if (op == WEFT_OP_DATA)
			pkt_data(&next, q->peer, psn + 1, 0, random_bytes(9), 64);
		else if (op == WEFT_OP_READ)
			pkt_read(&next, q->peer, psn + 1, 0, 1000);
		else
			pkt_atomic(&next, q->peer, op, psn + 1, 1, EVEN, 1, OLD);
		next.h.ev = op;
		pkt_frame(&next, &f);
		q->ring->arm_rx = 1;
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("drop.closed tx_nak");
		expect_same();
		nak_of(&want, &next, q, code, psn);
		expect_frame(&want);
		assert_int_equal(fx_events(NULL, NULL), 0);
	}
	q->ring->rx_err = 0;

	/* placed long ago: an atomic has its result, or is forgotten */
	if (p->h.op == WEFT_OP_READ) {
		rx = was;
		rx.next += 100;
		fx_rx_set(q, &rx);
		pkt_frame(p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		snprintf(counters, sizeof(counters), "%s tx_nak", counter);
		expect_counters(counters);
		expect_same();
		nak_of(&want, p, q, code, psn);
		expect_frame(&want);
	}
	expect_pools();
	fx_rx_set(q, &was);
	q->ring->arm_rx = 0;
}

static void carried_out(struct fx_qp *q, const struct pkt *p, uint32_t len)
{
	struct weft_rx was;

	fx_rx_get(q, &was);
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters("rx_ask tx_ack");
	assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_REPLY);
	assert_int_equal(fx.out.len, frame_hl(&f) + len);
	assert_int_equal(RX_AFTER(q)->err, 0);
	fx_rx_set(q, &was);
	q->ring->rx_msn = 0;
	if (p->h.op != WEFT_OP_READ)
		memset(fx.target + FX_T_OFF + be64toh(p->h.data.roff), 0xc5, 8);
	expect_pools();
}

static void refuse__wrong_key(void **state)
{
	(void)state;
	BOTH(q)
	EACH_ASK(op)
	{
		struct pkt p;

		for (int bit = 12; bit < 32; bit++) {
			request(&p, q, op, FX_PSN);
			p.h.data.rkey = htonl(FX_T_KEY ^ 1u << bit);
			refused(q, &p, WEFT_NAK_KEY, "drop.key");
		}
		request(&p, q, op, FX_PSN);
		p.h.data.rkey = 0;
		refused(q, &p, WEFT_NAK_KEY, "drop.key");
		/* deregistered, and everything else still there */
		request(&p, q, op, FX_PSN);
		target()->key = 0;
		refused(q, &p, WEFT_NAK_KEY, "drop.key");
		fx.mr[0] = *target(); /* key 0 names entry 0, which is free */
		p.h.data.rkey = htonl(WEFT_KEY(0, 0));
		refused(q, &p, WEFT_NAK_KEY, "drop.key");
		target()->key = FX_T_KEY;
		carried_out(q, (request(&p, q, op, FX_PSN), &p), 8);
	}
}

static void refuse__other_pd(void **state)
{
	(void)state;
	BOTH(q)
	EACH_ASK(op)
	{
		struct pkt p;

		request(&p, q, op, FX_PSN);
		for (int bit = 0; bit < 32; bit++) {
			target()->pd = FX_PD ^ 1u << bit;
			refused(q, &p, WEFT_NAK_PD, "drop.pd");
		}
		target()->pd = FX_PD;
	}
}

/* Each needs its own right, and no other. */
static void refuse__rights(void **state)
{
	static const uint32_t right[] = { [WEFT_OP_READ] = WEFT_ACCESS_REMOTE_READ,
					  [WEFT_OP_FADD] = WEFT_ACCESS_REMOTE_ATOMIC,
					  [WEFT_OP_CSWAP] = WEFT_ACCESS_REMOTE_ATOMIC };

	(void)state;
	BOTH(q)
	EACH_ASK(op)
	{
		struct pkt p;

		request(&p, q, op, FX_PSN);
		target()->rights = ~right[op];
		refused(q, &p, WEFT_NAK_RIGHTS, "drop.rights");
		target()->rights = 0;
		refused(q, &p, WEFT_NAK_RIGHTS, "drop.rights");
		target()->rights = right[op];
		carried_out(q, &p, 8);
	}
}

static void refuse__bounds(void **state)
{
	static const struct {
		uint64_t roff;
		uint32_t moff, mlen, len;
		bool ok;
	} cases[] = {
		{ FX_T_LEN - 1, 0, 1, 1, true },
		{ FX_T_LEN, 0, 1, 1, false },
		{ FX_T_LEN - FX_FULL, 0, FX_FULL, FX_FULL, true },
		{ FX_T_LEN - FX_FULL + 1, 0, FX_FULL, FX_FULL, false },
		{ FX_T_LEN, 0, 0, 0, true },
		{ FX_T_LEN + 1, 0, 0, 0, false },
		{ ~0ull - 98, 0, 100, 100, false },
		{ 1ull << 63, 0, 1, 1, false },
		/* the message is checked, not the packet: this one by itself would fit */
		{ 0, 0, FX_T_LEN, 64, true },
		{ 0, 0, FX_T_LEN + 1, 64, false },
		{ 64, 64, FX_T_LEN, 64, true },
		{ 65, 64, FX_T_LEN, 64, false },
		/* a message that would begin before the region */
		{ 63, 64, 128, 64, false },
	};
	const uint64_t end = (FX_T_OFF + FX_T_LEN) / 8 * 8 - FX_T_OFF;

	(void)state;
	BOTH(q)
	{
		struct pkt p;

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			request(&p, q, WEFT_OP_READ, FX_PSN);
			p.h.data.roff = htobe64(cases[i].roff);
			p.h.data.moff = htonl(cases[i].moff);
			p.h.data.mlen = htonl(cases[i].mlen);
			p.h.data.rlen = htonl(cases[i].len);
			if (cases[i].moff + cases[i].len != cases[i].mlen)
				p.h.flags = 0;
			if (cases[i].ok)
				carried_out(q, &p, cases[i].len);
			else
				refused(q, &p, WEFT_NAK_BOUNDS, "drop.bounds");
		}
		for (int op = WEFT_OP_FADD; op <= WEFT_OP_CSWAP; op++) {
			/* the region ends within the next word */
			const uint64_t bad[] = { end, end + 8, 1ull << 32, 0 - 8ull, 1ull << 63 };

			request(&p, q, op, FX_PSN);
			p.h.atomic.roff = htobe64(end - 8);
			carried_out(q, &p, 8);
			for (int i = 0; i < 5; i++) {
				p.h.atomic.roff = htobe64(bad[i]);
				refused(q, &p, WEFT_NAK_BOUNDS, "drop.bounds");
			}
		}
	}
}

/* The address counts, not the offset. */
static void refuse__misaligned(void **state)
{
	(void)state;
	BOTH(q)
	for (int op = WEFT_OP_FADD; op <= WEFT_OP_CSWAP; op++)
		for (uint32_t i = 1; i < 8; i++) {
			struct pkt p;

			request(&p, q, op, FX_PSN);
			p.h.atomic.roff = htobe64(EVEN + i);
			refused(q, &p, WEFT_NAK_ALIGN, "drop.bounds");
		}
}

/* The pool went away under a live key, or the table points behind it. */
static void refuse__memory_gone(void **state)
{
	(void)state;
	BOTH(q)
	EACH_ASK(op)
	{
		struct pkt p;

		fx_reset(NULL);
		request(&p, q, op, FX_PSN);
		target()->len = 1ull << 40;
		p.h.data.roff = htobe64(FX_POOL - FX_T_OFF);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory");
		request(&p, q, op, FX_PSN);
		fx_pool_remove(FX_POOL_T);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory");
		if (op != WEFT_OP_READ)
			continue;
		/* and over the edge of a chunk, where another copy is at work */
		p.h.data.roff = htobe64(WEFT_CHUNK - FX_T_OFF - 4);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory");
	}
}

/* Lengths that contradict each other, and an atomic that would not be a whole message. */
static void refuse__shape(void **state)
{
	static const struct {
		uint32_t moff, mlen, len;
		uint8_t flags;
	} cases[] = {
		{ 0, 63, 64, WEFT_F_LAST },
		{ 1, 64, 64, WEFT_F_LAST },
		{ 64, 64, 64, 0 },
		{ 0xffffffff, 64, 64, WEFT_F_LAST },
		{ 0xffffffc0, 64, 64, 0 },
		{ 0, 128, 64, WEFT_F_LAST },
		{ 0, 64, 64, 0 },
		{ 0, 64, 0, 0 },
		{ 64, 64, 0, WEFT_F_LAST },
		{ 0, WEFT_MSG_MAX + 1, 64, 0 },
		{ 0, FX_FULL + 1, FX_FULL + 1, WEFT_F_LAST },
		{ 0, 0xffffffff, 0xffffffff, WEFT_F_LAST },
	};

	(void)state;
	BOTH(q)
	{
		struct pkt p;

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			request(&p, q, WEFT_OP_READ, FX_PSN);
			p.h.flags = cases[i].flags;
			p.h.data.moff = htonl(cases[i].moff);
			p.h.data.mlen = htonl(cases[i].mlen);
			p.h.data.rlen = htonl(cases[i].len);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
		for (int op = WEFT_OP_FADD; op <= WEFT_OP_CSWAP; op++) {
			request(&p, q, op, FX_PSN);
			p.h.flags = 0;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
	}
}

/* A closed QP refuses by name; one without rings is as good as dead. */
static void refuse__closed(void **state)
{
	(void)state;
	BOTH(q)
	EACH_ASK(op)
	{
		struct pkt p;

		fx_reset(NULL);
		request(&p, q, op, FX_PSN);
		p.h.ev = 5;
		pkt_frame(&p, &f);
		for (uint32_t st = WEFT_QP_ERR; st <= WEFT_QP_CLOSED; st++) {
			q->ctl->state = st;
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("drop.closed tx_nak");
			expect_same();
			nak_of(&want, &p, q, WEFT_NAK_CLOSED, FX_PSN);
			expect_frame(&want);
		}
		q->ctl->state = WEFT_QP_RTS;
		fx_rings_remove();
		expect_drop(&f, "drop.owner");
	}
}

const struct CMUnitTest fx_tests_refuse[] = {
	FX_TEST(refuse__wrong_key), FX_TEST(refuse__other_pd),   FX_TEST(refuse__rights),
	FX_TEST(refuse__bounds),    FX_TEST(refuse__misaligned), FX_TEST(refuse__memory_gone),
	FX_TEST(refuse__shape),     FX_TEST(refuse__closed),     FX_END,
};
