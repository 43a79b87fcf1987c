// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Answers to own READs and atomics: into memory once, and only where they were asked for. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;

/* The answer to PSN number n of q, sent at ts. */
static void reply(struct pkt *p, const struct fx_qp *q, uint32_t n, uint32_t ts,
		  const void *payload, uint32_t len)
{
	struct pkt request;

	pkt_init(&request, q, WEFT_OP_READ, FX_PSN + n);
	request.h.ts = htonl(ts);
	pkt_answer(p, &request, q->peer, FX_PSN, 0, payload, len);
	p->h.ack.sack = htobe64(1ull << (FX_PSN + n) % 64);
}

static void arrives(const struct pkt *p, int verdict, const char *counters)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/* A READ of len bytes into loff is out; when it left */
static uint32_t read_out(struct fx_qp *q, uint64_t loff, uint32_t len)
{
	fx_post_ask(q, WEFT_WQE_READ, loff, 99, len);
	return fx_fill(q);
}

static void wanted(uint64_t loff, const void *payload, uint32_t len)
{
	memcpy(fx.want + FX_T_OFF + loff, payload, len);
	expect_pools();
}

static void reply__placed(void **state)
{
	static const uint32_t lens[] = { 0, 1, 7, 8, 64, 1000, 3327, FX_FULL };
	static const uint64_t at[] = { 0, 5000, WEFT_CHUNK - FX_T_OFF - 3, FX_T_LEN - FX_FULL };

	(void)state;
	BOTH(q)
	for (int i = 0; i < 8; i++)
		for (int k = 0; k < 4; k++) {
			uint32_t ts;
			char counters[64];
			struct pkt p;

			fx_qp_init(q, FX_PSN, FX_FULL);
			memset(fx.run, 0, sizeof(*fx.run));
			ts = read_out(q, at[k], lens[i]);
			reply(&p, q, 0, ts, random_bytes(8 * i + k), lens[i]);
			q->ring->arm_tx = 1;
			snprintf(counters, sizeof(counters),
				 "rx_ack rx_reply rx_bytes=%u absorbed event", lens[i]);
			arrives(&p, XDP_DROP, counters);
			wanted(at[k], random_bytes(8 * i + k), lens[i]);
			assert_int_equal(TX_AFTER(q)->una, FX_PSN + 1);
			assert_int_equal(TX_AFTER(q)->done, 1);
			assert_int_equal(TX_AFTER(q)->inflight, 0);
			assert_int_equal(q->ring->sq_done, 1);
			assert_int_equal(q->ring->arm_tx, 0);
			assert_int_equal(fx_events(NULL, NULL), 1);
			assert_int_equal(fx.after.run.dom[0].inflight, 0);
			assert_int_equal(fx.after.run.active, 0);
		}
}

/* What an atomic found, and room for the next. */
static void reply__atomic(void **state)
{
	(void)state;
	BOTH(q)
	for (int op = WEFT_WQE_FADD; op <= WEFT_WQE_CSWAP; op++) {
		struct pkt p;

		fx_qp_init(q, FX_PSN, FX_FULL);
		memset(fx.run, 0, sizeof(*fx.run));
		fx_post_ask(q, op, 3, 0, 8);
		reply(&p, q, 0, fx_fill(q), random_bytes(op), 8);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=8 absorbed");
		wanted(3, random_bytes(op), 8);
		assert_int_equal(TX_AFTER(q)->atomics_out, 0);
		assert_int_equal(q->ring->sq_done, 1);
	}
}

/* I2: a copy that comes later, and an answer to an earlier transmission, change no memory. */
static void reply__once(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = read_out(q, 10, 100);
		struct pkt p;

		read_out(q, 300, 100); /* so that the window stays open */
		reply(&p, q, 1, ts, random_bytes(1), 100);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
		wanted(300, random_bytes(1), 100);
		for (uint32_t i = 2; i < 5; i++) {
			reply(&p, q, 1, ts - (i == 3), random_bytes(i), 100);
			arrives(&p, XDP_DROP, "rx_ack surplus absorbed");
			expect_pools();
		}
		reply(&p, q, 0, ts, random_bytes(7), 100);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
		wanted(10, random_bytes(7), 100);
		assert_int_equal(q->ring->sq_done, 2);
		/* now both are behind the window */
		for (uint32_t i = 0; i < 2; i++) {
			reply(&p, q, i, ts, random_bytes(9), 100);
			arrives(&p, XDP_DROP, "rx_ack surplus absorbed");
			expect_pools();
		}
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* Another CPU is putting it into memory: nobody else does, nor asks again. */
static void reply__taken(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;
		uint32_t ts = read_out(q, 10, 100);
		struct weft_seg seg;
		struct pkt p;

		fx_tx_get(q, &tx);
		assert_int_equal(weft_tx_take(&tx, FX_PSN, 100, &seg), 1);
		fx_tx_set(q, &tx);
		reply(&p, q, 0, ts, random_bytes(1), 100);
		arrives(&p, XDP_DROP, "rx_ack absorbed");
		assert_int_equal(TX_AFTER(q)->una, FX_PSN);
		assert_int_equal(TX_AFTER(q)->nlost, 0);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(q->ring->sq_done, 0);
		expect_pools();
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* That the peer has done it, as an ACK or others' answers say, brings no bytes. */
static void reply__needs_its_own(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = read_out(q, 10, 100);
		struct pkt p;

		fx_post(q, 0, 0, 64);
		fx_fill(q);
		/* the WRITE behind it is acknowledged, and the READ with it */
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN + 2, 2);
		p.h.ack.sack = htobe64(~0ull);
		p.h.ts = htonl(ts);
		arrives(&p, XDP_DROP, "rx_ack absorbed");
		assert_int_equal(TX_AFTER(q)->una, FX_PSN);
		assert_int_equal(TX_AFTER(q)->done, 0);
		assert_int_equal(TX_AFTER(q)->inflight, 1);
		assert_int_equal(q->ring->sq_done, 0);
		/* its token comes home without them: it asks again at once */
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 2, 2);
		p.h.ts = htonl(ts);
		arrives(&p, XDP_TX, "rx_ack tx_ask tx_retx");
		assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_READ);
		assert_int_equal(frame_hdr(&fx.out)->flags, WEFT_F_LAST | WEFT_F_RETX);
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN);
		expect_pools();
		reply(&p, q, 0, ntohl(frame_hdr(&fx.out)->ts), random_bytes(1), 100);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
		wanted(10, random_bytes(1), 100);
		assert_int_equal(q->ring->sq_done, 2);
	}
}

/* Another length, or bytes for a WRITE: no peer of ours says that. */
static void reply__not_asked_for(void **state)
{
	static const uint32_t lens[] = { 0, 1, 99, 101, FX_FULL };

	(void)state;
	BOTH(q)
	{
		uint32_t ts = read_out(q, 10, 100);
		struct pkt p;

		for (int i = 0; i < 5; i++) {
			reply(&p, q, 0, ts, random_bytes(i), lens[i]);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
		fx_post(q, 0, 0, 100);
		fx_fill(q);
		reply(&p, q, 1, ts, random_bytes(9), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.length");
		/* never sent, and long gone */
		reply(&p, q, 2, ts, random_bytes(9), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.unsent");
		reply(&p, q, -WEFT_WIN, ts, random_bytes(9), 100);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		assert_int_equal(TX_AFTER(q)->una, FX_PSN);
		expect_pools();
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* What it says of the window cannot be: it is dropped as a whole, and the right one counts. */
static void reply__impossible(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = read_out(q, 10, 100);
		struct pkt p;

		for (int way = 0; way < 3; way++) {
			reply(&p, q, 0, ts, random_bytes(way), 100);
			switch (way) {
			case 0: p.h.ack.cum = htonl(FX_PSN + 2); break;
			case 1: p.h.ack.msn = htonl(2); break;
			default: p.h.ack.sack_base = htonl((FX_PSN & ~63u) + 1);
			}
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.unsent");
			expect_pools();
		}
		reply(&p, q, 0, ts, random_bytes(9), 100);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
		wanted(10, random_bytes(9), 100);
		assert_int_equal(q->ring->sq_done, 1);
	}
}

/* Its place has gone, or shrunk, or may not be written to any more: the request fails. */
static void reply__no_place(void **state)
{
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];

	(void)state;
	BOTH(q)
	for (int way = 0; way < 6; way++) {
		uint32_t ts;
		struct pkt p;

		fx_reset(NULL);
		ts = read_out(q, 10, 100);
		switch (way) {
		case 0: mr->key = 0; break;
		case 1: mr->key ^= 1u << 12; break;
		case 2: mr->pd ^= 4; break;
		case 3: mr->rights = ~WEFT_ACCESS_LOCAL_WRITE; break;
		case 4: mr->len = 109; break;
		default: fx_pool_remove(FX_POOL_T); break;
		}
		reply(&p, q, 0, ts, random_bytes(1), 100);
		q->ring->arm_tx = 1;
		arrives(&p, XDP_DROP, "drop.memory event");
		assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_LOCAL);
		assert_int_equal(TX_AFTER(q)->err_ssn, 0);
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
		assert_int_equal(q->ring->sq_done, 0);
		assert_int_equal(fx_events(NULL, NULL), 1);
		expect_pools();
	}
}

/* Marked on the way there, or on the way back with what it brings. */
static void reply__ce(void **state)
{
	(void)state;
	BOTH(q)
	for (int way = 0; way < 3; way++) {
		struct pkt p;

		fx_qp_init(q, FX_PSN, FX_FULL);
		memset(fx.run, 0, sizeof(*fx.run));
		reply(&p, q, 0, read_out(q, 0, 50), random_bytes(1), 50);
		p.h.flags = way == 1 ? WEFT_F_CE : 0;
		p.tos = way == 2 ? 3 : 2;
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=50 absorbed");
		wanted(0, random_bytes(1), 50);
		assert_int_equal(TX_AFTER(q)->ce, way > 0);
	}
}

/* The frame goes out again with what is next, larger or smaller. */
static void reply__refills(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const uint32_t lens[] = { 0, 100, FX_FULL };

		for (int i = 0; i < 9; i++) {
			uint32_t ts, n = lens[i % 3], next = lens[i / 3];
			char counters[64];
			struct pkt p;

			fx_qp_init(q, FX_PSN, FX_FULL);
			memset(fx.run, 0, sizeof(*fx.run));
			ts = read_out(q, 20, n);
			q->ctl->cwnd = 1;
			fx_post(q, 5, 6, next);
			reply(&p, q, 0, ts, random_bytes(i), n);
			snprintf(counters, sizeof(counters), "rx_ack rx_reply rx_bytes=%u tx_data",
				 n);
			arrives(&p, XDP_TX, counters);
			wanted(20, random_bytes(i), n);
			expect_sent(q, .loff = 5, .roff = 6, .psn = FX_PSN + 1, .msn = 1,
				    .len = next, .mlen = next, .flags = WEFT_F_LAST, .ev = 1);
		}
		q->ctl->cwnd = 0;
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* A READ is carried out again for a stray copy, and may be refused then: it is over here. */
static void reply__late_nak(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts = read_out(q, 10, 100);
		struct pkt p;

		read_out(q, 300, 100);
		reply(&p, q, 1, ts, random_bytes(1), 100);
		arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
		wanted(300, random_bytes(1), 100);
		for (int i = 0; i < 2; i++) { /* delivered beyond a gap, and behind the window */
			pkt_nak(&p, q->peer, FX_PSN + 1, WEFT_NAK_KEY);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.unsent");
			if (i)
				break;
			reply(&p, q, 0, ts, random_bytes(2), 100);
			arrives(&p, XDP_DROP, "rx_ack rx_reply rx_bytes=100 absorbed");
			wanted(10, random_bytes(2), 100);
		}
		assert_int_equal(q->ring->tx_err, 0);
	}
}

/* A QP in error, or without rings, takes nothing any more. */
static void reply__closed(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		reply(&p, q, 0, read_out(q, 10, 100), random_bytes(1), 100);
		pkt_frame(&p, &f);
		for (uint32_t st = WEFT_QP_ERR; st <= WEFT_QP_CLOSED; st++) {
			q->ctl->state = st;
			expect_drop(&f, "drop.closed");
		}
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

const struct CMUnitTest fx_tests_reply[] = {
	FX_TEST(reply__placed),
	FX_TEST(reply__atomic),
	FX_TEST(reply__once),
	FX_TEST(reply__taken),
	FX_TEST(reply__needs_its_own),
	FX_TEST(reply__not_asked_for),
	FX_TEST(reply__impossible),
	FX_TEST(reply__no_place),
	FX_TEST(reply__ce),
	FX_TEST(reply__refills),
	FX_TEST(reply__late_nak),
	FX_TEST(reply__closed),
	FX_END,
};
