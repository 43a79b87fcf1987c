// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* I5: a WRITE that is not allowed is refused by name, writes no byte, and ends the QP. */
#include "fixture.h"

static struct frame f;

/*
 * p is refused with this code; so is everything after it, and no byte is written.
 * The QP is left as it was before.
 */
static void refused(struct fx_qp *q, struct pkt *p, uint32_t code, const char *counters)
{
	uint32_t psn = ntohl(p->h.psn);
	struct weft_rx rx_was;
	struct frame want;
	struct pkt nak;

	fx_rx_get(q, &rx_was);
	pkt_frame(p, &f);
	q->ring->arm_rx = 1;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters(counters);
	pkt_reply(&nak, p, q, WEFT_OP_NAK);
	nak.h.nak.code = htonl(code);
	nak.h.nak.psn = htonl(psn);
	pkt_frame(&nak, &want);
	expect_frame(&want);
	assert_true(fx.out.len <= f.len);
	assert_int_equal(RX_AFTER(q)->err, code);
	assert_int_equal(RX_AFTER(q)->err_psn, psn);
	assert_int_equal(RX_AFTER(q)->next, rx_was.next);
	assert_int_equal(RX_AFTER(q)->msn, 0);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_int_equal(RX_AFTER(q)->word[i].placed, rx_was.word[i].placed);
	assert_int_equal(q->ring->rx_err, code);
	assert_int_equal(q->ring->arrived, 0);
	assert_int_equal(q->ring->arm_rx, 0);
	expect_bytes(&fx.after.tx, &fx.before.tx, sizeof(fx.after.tx));
	assert_int_equal(fx_events(NULL, NULL), 1);

	/* a later packet that is all right by itself: the same answer, nothing written, nobody woken */
	pkt_data(p, q->peer, psn + 1, 0, random_bytes(9), 64);
	p->h.ev = 3;
	pkt_frame(p, &f);
	q->ring->arm_rx = 1;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters("drop.closed tx_nak");
	expect_same();
	q->ring->arm_rx = 0;
	pkt_reply(&nak, p, q, WEFT_OP_NAK);
	nak.h.nak.code = htonl(code);
	nak.h.nak.psn = htonl(psn);
	pkt_frame(&nak, &want);
	expect_frame(&want);
	assert_int_equal(fx_events(NULL, NULL), 0);

	fx_rx_set(q, &rx_was);
	q->ring->rx_err = 0;
}

static void accepted(struct fx_qp *q, struct pkt *p, uint64_t at)
{
	struct weft_rx rx_was;
	uint8_t old[FX_FULL];

	fx_rx_get(q, &rx_was);
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_rx_data], 1);
	assert_int_equal(RX_AFTER(q)->err, 0);
	memcpy(old, fx.want + FX_T_OFF + at, p->len);
	memcpy(fx.want + FX_T_OFF + at, p->payload, p->len);
	expect_pools();
	memcpy(fx.want + FX_T_OFF + at, old, p->len);
	memcpy(fx.target + FX_T_OFF + at, old, p->len);
	fx_rx_set(q, &rx_was);
	q->ring->arrived = 0;
}

static void target__wrong_key(void **state)
{
	static const uint32_t keys[] = { 0, FX_T_KEY + 1, FX_T_KEY - 1, WEFT_KEY(4095, 3),
					 0xffffffff };

	(void)state;
	BOTH(q)
	{
		struct pkt p;

		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
			p.h.data.rkey = htonl(keys[i]);
			refused(q, &p, WEFT_NAK_KEY, "drop.key tx_nak event");
		}
		/* a generation that was, and one that is not yet */
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		p.h.data.rkey = htonl(WEFT_KEY(WEFT_KEY_IDX(FX_T_KEY), 2));
		refused(q, &p, WEFT_NAK_KEY, "drop.key tx_nak event");
		for (int bit = 12; bit < 32; bit++) {
			pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
			p.h.data.rkey = htonl(FX_T_KEY ^ 1u << bit);
			refused(q, &p, WEFT_NAK_KEY, "drop.key tx_nak event");
		}
		expect_pools();
	}
}

/* Deregistered: the entry is free and everything else in it still there. */
static void target__free_entry(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].key = 0;
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_KEY, "drop.key tx_nak event");
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		p.h.data.rkey = htonl(WEFT_KEY(0, 0)); /* key 0 names entry 0, which is free */
		fx.mr[0] = fx.mr[WEFT_KEY_IDX(FX_T_KEY)];
		refused(q, &p, WEFT_NAK_KEY, "drop.key tx_nak event");
		expect_pools();
	}
}

static void target__other_pd(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		for (int bit = 0; bit < 32; bit++) {
			fx.mr[WEFT_KEY_IDX(FX_T_KEY)].pd = FX_PD ^ 1u << bit;
			pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
			refused(q, &p, WEFT_NAK_PD, "drop.pd tx_nak event");
		}
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].pd = FX_PD;
		expect_pools();
	}
}

static void target__no_right(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = ~WEFT_ACCESS_REMOTE_WRITE;
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_RIGHTS, "drop.rights tx_nak event");
		/* the source MR has only the local right */
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		p.h.data.rkey = htonl(FX_S_KEY);
		refused(q, &p, WEFT_NAK_RIGHTS, "drop.rights tx_nak event");
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_REMOTE_WRITE;
		expect_pools();
	}
}

static void target__bounds(void **state)
{
	static const struct {
		uint64_t roff;
		uint32_t moff, mlen, len;
		bool ok;
	} cases[] = {
		/* the last byte, and one beyond */
		{ FX_T_LEN - 1, 0, 1, 1, true },
		{ FX_T_LEN, 0, 1, 1, false },
		{ FX_T_LEN - 100, 0, 100, 100, true },
		{ FX_T_LEN - 99, 0, 100, 100, false },
		{ FX_T_LEN - FX_FULL, 0, FX_FULL, FX_FULL, true },
		{ FX_T_LEN - FX_FULL + 1, 0, FX_FULL, FX_FULL, false },
		/* nothing at the end, and beyond */
		{ FX_T_LEN, 0, 0, 0, true },
		{ FX_T_LEN + 1, 0, 0, 0, false },
		/* sums that pass 2^64 */
		{ ~0ull, 0, 100, 100, false },
		{ ~0ull - 99, 0, 100, 100, false },
		{ ~0ull - 98, 0, 100, 100, false },
		{ 0 - (uint64_t)FX_FULL, 0, FX_FULL, FX_FULL, false },
		{ 1ull << 63, 0, 1, 1, false },
		{ 1ull << 32, 0, 1, 1, false },
		{ ~0ull, 0, 0, 0, false },
		/* the message is checked, not the packet: this one by itself would fit */
		{ 0, 0, FX_T_LEN, 64, true },
		{ 0, 0, FX_T_LEN + 1, 64, false },
		{ 64, 64, FX_T_LEN, 64, true },
		{ 65, 64, FX_T_LEN, 64, false },
		{ 0, 0, WEFT_MSG_MAX, 64, false },
		{ FX_T_LEN - 128, 64, 128, 64, true },
		{ FX_T_LEN - 128, 64, 256, 64, false },
		/* a message that would begin before the region */
		{ 63, 64, 128, 64, false },
		{ 0, 64, 128, 64, false },
		{ 64, 64, 128, 64, true },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct pkt p;

			pkt_data(&p, q->peer, FX_PSN, cases[i].roff, random_bytes(i), cases[i].len);
			p.h.data.moff = htonl(cases[i].moff);
			p.h.data.mlen = htonl(cases[i].mlen);
			if (cases[i].moff + cases[i].len != cases[i].mlen)
				p.h.flags = 0;
			if (cases[i].ok)
				accepted(q, &p, cases[i].roff);
			else
				refused(q, &p, WEFT_NAK_BOUNDS, "drop.bounds tx_nak event");
			expect_pools();
		}
	}
}

/* The pool went away under a live key. */
static void target__pool_gone(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_reset(NULL);
		fx_pool_remove(FX_POOL_T);
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory tx_nak event");
		/* and over the edge of a chunk, where another copy is at work */
		pkt_data(&p, q->peer, FX_PSN, WEFT_CHUNK - FX_T_OFF - 50, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory tx_nak event");
		expect_pools();
	}
}

/* An MR table that points behind its pool does no harm. */
static void target__pool_too_short(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].len = 1ull << 40;
		pkt_data(&p, q->peer, FX_PSN, FX_POOL - FX_T_OFF, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory tx_nak event");
		pkt_data(&p, q->peer, FX_PSN, 1ull << 39, random_bytes(1), 100);
		refused(q, &p, WEFT_NAK_MEMORY, "drop.memory tx_nak event");
		expect_pools();
	}
}

/* Lengths that contradict each other are no message at all. */
static void target__message_shape(void **state)
{
	static const struct {
		uint32_t moff, mlen, len;
		uint8_t flags;
	} cases[] = {
		{ 0, 63, 64, WEFT_F_LAST }, /* more payload than message */
		{ 1, 64, 64, WEFT_F_LAST },
		{ 0, 63, 64, 0 },
		{ 1, 64, 64, 0 },
		{ 64, 64, 64, 0 },
		{ 65, 64, 64, WEFT_F_LAST },
		{ 0xffffffff, 64, 64, WEFT_F_LAST },
		{ 0xffffffc0, 64, 64, 0 }, /* sums that wrap */
		{ 0, 0, 64, WEFT_F_LAST },
		{ 0, 128, 64, WEFT_F_LAST }, /* LAST, and it is not */
		{ 64, 256, 64, WEFT_F_LAST },
		{ 0, 64, 64, 0 }, /* the last, and not LAST */
		{ 64, 128, 64, 0 },
		{ 0, 0, 0, 0 },
		{ 0, 64, 0, 0 }, /* empty segments of messages that are not */
		{ 64, 64, 0, WEFT_F_LAST },
		{ 0, WEFT_MSG_MAX + 1, 64, 0 },
		{ 0, 0xffffffff, 64, 0 },
	};
	static uint8_t big[FX_FULL + 1];

	(void)state;
	BOTH(q)
	{
		struct pkt p;

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			pkt_data(&p, q->peer, FX_PSN, 1000, random_bytes(i), cases[i].len);
			p.h.flags = cases[i].flags;
			p.h.data.moff = htonl(cases[i].moff);
			p.h.data.mlen = htonl(cases[i].mlen);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
		pkt_data(&p, q->peer, FX_PSN, 1000, big, sizeof(big));
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.length");
		expect_pools();
	}
}

/* The application's rings are gone: its process is as good as dead. */
static void target__ring_gone(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_reset(NULL);
		fx_rings_remove();
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.owner");
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN, 0);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.owner");
		pkt_nak(&p, q->peer, FX_PSN, WEFT_NAK_KEY);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.owner");
	}
}

const struct CMUnitTest fx_tests_target[] = {
	FX_TEST(target__wrong_key),      FX_TEST(target__free_entry),
	FX_TEST(target__other_pd),       FX_TEST(target__no_right),
	FX_TEST(target__bounds),         FX_TEST(target__pool_gone),
	FX_TEST(target__pool_too_short), FX_TEST(target__message_shape),
	FX_TEST(target__ring_gone),      FX_END,
};
