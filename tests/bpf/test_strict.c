// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Strict order: only the next PSN is carried out, SEQ for all behind it, and what the requester makes of that. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;
static uint32_t seed;

static void strict(struct fx_qp *q)
{
	static struct weft_tx tx;

	fx_stay_here(); /* all tokens of a QP are in one domain */
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights |= WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_REMOTE_READ;
	q->ctl->flags |= WEFT_QPF_STRICT;
	fx_tx_get(q, &tx);
	tx.strict = 1;
	fx_tx_set(q, &tx);
}

static void run(const struct pkt *p, int verdict, const char *counters)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/* p is not the next: SEQ, as long as a header, that says what is placed; and nothing has happened. */
static void early(const struct fx_qp *q, const struct pkt *p)
{
	struct weft_rx rx;
	struct pkt a;

	fx_rx_get(q, &rx);
	run(p, XDP_TX, "tx_ack tx_seq");
	pkt_reply(&a, p, q, WEFT_OP_SEQ);
	a.h.ack.cum = htonl(rx.next);
	a.h.ack.msn = htonl(rx.msn);
	a.h.ack.sack_base = htonl(ntohl(p->h.psn) & ~63u);
	pkt_frame(&a, &want);
	expect_frame(&want);
	assert_true(q->v6 ? pkt_csum_ok(&fx.out) : true);
	expect_same();
	expect_pools();
}

/* p is the next: it is answered so, and the window is past it at once. */
static void taken(const struct fx_qp *q, const struct pkt *p, uint8_t op, const char *counters)
{
	run(p, XDP_TX, counters);
	assert_int_equal(frame_hdr(&fx.out)->op, op);
	assert_int_equal(ntohl(frame_hdr(&fx.out)->ack.cum), ntohl(p->h.psn) + 1);
	assert_int_equal(RX_AFTER(q)->next, ntohl(p->h.psn) + 1);
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(!RX_AFTER(q)->word[i].claimed && !RX_AFTER(q)->word[i].placed);
	expect_pools();
}

static void write_taken(const struct fx_qp *q, const struct pkt *p)
{
	char counters[64];

	snprintf(counters, sizeof(counters), "rx_data rx_bytes=%u tx_ack", p->len);
	memcpy(fx.want + FX_T_OFF + be64toh(p->h.data.roff), p->payload, p->len);
	taken(q, p, WEFT_OP_ACK, counters);
}

/* ---- the responder ---- */

/* Segments of one message, each asked for before its time; the message arrives with its last. */
static void strict__write(void **state)
{
	enum { N = 5 };

	(void)state;
	BOTH(q)
	{
		struct pkt p[N];

		strict(q);
		for (uint32_t i = 0; i < N; i++) {
			pkt_data(&p[i], q->peer, FX_PSN + i, 3000 + 100 * i, random_bytes(++seed),
				 100);
			p[i].h.data.moff = htonl(100 * i);
			p[i].h.data.mlen = htonl(100 * N);
			p[i].h.flags = i == N - 1 ? WEFT_F_LAST : 0;
		}
		for (uint32_t i = 0; i < N; i++) {
			for (uint32_t k = N - 1; k > i; k--)
				early(q, &p[k]);
			write_taken(q, &p[i]);
			assert_int_equal(q->ring->arrived, i == N - 1);
			/* late copies are acknowledged and place nothing */
			run(&p[i / 2], XDP_TX, "rx_dup tx_ack");
			assert_int_equal(frame_hdr(&fx.out)->flags, WEFT_F_DUP);
			expect_same();
		}
	}
}

/* Neither a whole window ahead nor the wrap is anything else. */
static void strict__far_ahead(void **state)
{
	static const uint32_t ahead[] = {
		1, 63, 64, WEFT_WIN / 2, WEFT_WIN - 1, WEFT_WIN, 1u << 30
	};

	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_qp_init(q, 0xffffffff, FX_FULL);
		strict(q);
		for (int i = 0; i < 7; i++) {
			pkt_data(&p, q->peer, 0xffffffff + ahead[i], 10, random_bytes(++seed), 70);
			early(q, &p);
		}
		pkt_data(&p, q->peer, 0xffffffff, 10, random_bytes(++seed), 70);
		write_taken(q, &p);
		pkt_data(&p, q->peer, 0, 10, random_bytes(++seed), 70);
		write_taken(q, &p);
	}
}

/* Segments that are free of order come as they like; the end of their message does not, whatever it says. */
static void strict__free(void **state)
{
	enum { N = 70 };

	(void)state;
	BOTH(q)
	{
		static struct pkt p[N];

		strict(q);
		for (uint32_t i = 0; i < N; i++) {
			pkt_data(&p[i], q->peer, FX_PSN + i, 3000 + 10 * i, random_bytes(++seed),
				 10);
			p[i].h.data.moff = htonl(10 * i);
			p[i].h.data.mlen = htonl(10 * N);
			p[i].h.flags = WEFT_F_FREE | (i == N - 1 ? WEFT_F_LAST : 0);
		}
		for (uint32_t i = N - 1; i--;) {
			run(&p[N - 1], XDP_TX, "tx_ack tx_seq");
			assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_SEQ);
			expect_same();
			memcpy(fx.want + FX_T_OFF + be64toh(p[i].h.data.roff), p[i].payload, 10);
			run(&p[i], XDP_TX, "rx_data rx_bytes=10 tx_ack");
			assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_ACK);
			expect_pools();
		}
		assert_int_equal(q->ring->arrived, 0);
		write_taken(q, &p[N - 1]);
		assert_int_equal(q->ring->arrived, 1);
	}
}

/* Nothing but a WRITE is free. */
static void strict__free_sends(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		strict(q);
		pkt_data(&p, q->peer, FX_PSN + 1, 0, random_bytes(++seed), 10);
		p.h.op = WEFT_OP_SEND;
		p.h.data.rkey = 0;
		p.h.data.mlen = htonl(20);
		p.h.flags = WEFT_F_FREE;
		early(q, &p);
	}
}

/* A bad request is refused in its turn, not before. */
static void strict__refusal_waits(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt bad, p;

		strict(q);
		pkt_data(&bad, q->peer, FX_PSN + 1, FX_T_LEN, random_bytes(++seed), 1);
		early(q, &bad);
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(++seed), 8);
		write_taken(q, &p);
		run(&bad, XDP_TX, "drop.bounds tx_nak");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.psn), FX_PSN + 1);
		expect_pools();
	}
}

/* A READ behind a WRITE to the same place returns what that wrote. */
static void strict__read(void **state)
{
	static const uint32_t lens[] = { 0, 1, 64, 1408, FX_FULL };

	(void)state;
	BOTH(q)
	{
		uint32_t psn = FX_PSN;

		strict(q);
		for (int i = 0; i < 5; i++) {
			struct pkt w, r;

			pkt_data(&w, q->peer, psn, 900, random_bytes(++seed), lens[i]);
			pkt_read(&r, q->peer, psn + 1, 900, lens[i]);
			r.h.data.rkey = htonl(FX_T_KEY);
			early(q, &r);
			write_taken(q, &w);
			taken(q, &r, WEFT_OP_REPLY, "rx_ask tx_ack");
			assert_int_equal(fx.out.len, frame_hl(&f) + lens[i]);
			expect_bytes(fx.out.b + frame_hl(&f), w.payload, lens[i]);
			psn += 2;
		}
	}
}

/* An atomic that is not the next changes nothing and is not remembered. */
static void strict__atomic(void **state)
{
	const uint64_t roff = 8 - FX_T_OFF % 8;
	uint64_t word;

	(void)state;
	BOTH(q)
	{
		struct pkt w, p;

		strict(q);
		pkt_data(&w, q->peer, FX_PSN, roff, random_bytes(++seed), 8);
		pkt_atomic(&p, q->peer, WEFT_OP_FADD, FX_PSN + 1, 5, roff, 3, 0);
		early(q, &p);
		write_taken(q, &w);
		memcpy(&word, w.payload, 8);
		word += 3;
		memcpy(fx.want + FX_T_OFF + roff, &word, 8);
		taken(q, &p, WEFT_OP_REPLY, "rx_ask tx_ack");
		expect_bytes(fx.out.b + frame_hl(&f), w.payload, 8);
		/* again: the same result, once */
		run(&p, XDP_TX, "rx_ask rx_dup tx_ack");
		expect_bytes(fx.out.b + frame_hl(&f), w.payload, 8);
		expect_pools();
	}
}

/* A SEND takes its receive in its turn; where there is none it stays the next, and the rest waits. */
static void strict__send(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq;
		struct pkt p[2];
		struct fx_piece at = { 1000, 500 };

		strict(q);
		rq = fx_recv_on(q, false);
		for (uint32_t i = 0; i < 2; i++)
			pkt_send(&p[i], q->peer, FX_PSN + i, i, random_bytes(++seed), 50 + i);
		early(q, &p[1]);
		run(&p[0], XDP_TX, "tx_ack tx_rnr");
		assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_RNR);
		early(q, &p[1]);
		for (uint32_t i = 0; i < 2; i++, at.off += 500)
			fx_recv(rq, &at, 1);
		early(q, &p[1]);
		for (uint32_t i = 0; i < 2; i++) {
			char counters[64];

			memcpy(fx.want + FX_T_OFF + 1000 + 500 * i, p[i].payload, p[i].len);
			snprintf(counters, sizeof(counters), "rx_data rx_bytes=%u tx_ack",
				 p[i].len);
			taken(q, &p[i], WEFT_OP_ACK, counters);
			assert_int_equal(q->ring->received, i + 1);
		}
	}
}

/* WRITE with immediate data, whose place is at its end like a WRITE's. */
static void strict__write_imm(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_piece at = { 1000, 500 };
		struct fx_rq *rq;
		struct pkt w, p;

		strict(q);
		rq = fx_recv_on(q, false);
		fx_recv(rq, &at, 1);
		pkt_data(&w, q->peer, FX_PSN, 40, random_bytes(++seed), 100);
		pkt_data(&p, q->peer, FX_PSN + 1, 203, random_bytes(++seed), 99);
		p.h.flags |= WEFT_F_IMM;
		p.h.data.imm = htonl(7);
		early(q, &p);
		write_taken(q, &w);
		write_taken(q, &p);
		assert_int_equal(q->ring->received, 1);
		assert_int_equal(q->ring->arrived, 2);
	}
}

/* The end of a message is placed apart: each byte is there all the same, and none beside them. */
static void strict__ends(void **state)
{
	static const uint32_t edges[] = { 5000, WEFT_CHUNK - FX_T_OFF - 4096,
					  WEFT_CHUNK - FX_T_OFF - 20,
					  2 * WEFT_CHUNK - FX_T_OFF - 9 };

	(void)state;
	BOTH(q)
	{
		uint32_t psn = FX_PSN;
		struct pkt p;

		strict(q);
		for (int e = 0; e < 4; e++)
			for (uint32_t len = 0; len <= 40; len++)
				for (uint32_t off = 0; off < 9; off++) {
					if (e && len > 17 && (len + off) % 3)
						continue;
					pkt_data(&p, q->peer, psn++, edges[e] + off,
						 random_bytes(++seed), len);
					write_taken(q, &p);
				}
		for (uint32_t len = FX_FULL - 9; len <= FX_FULL; len++) {
			pkt_data(&p, q->peer, psn++, WEFT_CHUNK - FX_T_OFF - len + 3,
				 random_bytes(++seed), len);
			write_taken(q, &p);
			pkt_data(&p, q->peer, psn++, FX_T_LEN - len, random_bytes(++seed), len);
			write_taken(q, &p);
		}
	}
}

/* ---- the requester ---- */

/* The SEQ to packet n of q, which was sent at ts; the peer has all before `cum` of them. */
static void seq(const struct fx_qp *q, uint32_t n, uint32_t ts, uint32_t cum, int verdict,
		const char *counters)
{
	struct pkt p;

	pkt_ack(&p, q->peer, FX_PSN + n, FX_PSN + cum, 0);
	p.h.op = WEFT_OP_SEQ;
	p.h.ts = htonl(ts);
	run(&p, verdict, counters);
}

/* The requester marks all of a long WRITE but its end, if the peer knows of that; sent again as well. */
static void strict__marks(void **state)
{
	(void)state;
	for (uint32_t frees = 0; frees < 2; frees++)
		BOTH(q)
		{
			static struct weft_tx tx;
			uint32_t free = frees ? WEFT_F_FREE : 0;

			strict(q);
			fx_tx_get(q, &tx);
			tx.frees = frees;
			tx.payload = 100;
			fx_tx_set(q, &tx);
			fx_post(q, 0, 100 * WEFT_FREE_SEGS * frees, 100 * WEFT_FREE_SEGS);
			for (uint32_t i = 0; i < WEFT_FREE_SEGS; i++) {
				fx_fill(q);
				assert_int_equal(frame_hdr(&fx.out)->flags,
						 i == WEFT_FREE_SEGS - 1 ? WEFT_F_LAST : free);
			}
			memset(fx.run, 0, sizeof(*fx.run));
		}
}

/* It goes out again at once, in the same frame, and no path is blamed. */
static void strict__again(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_path path;
		uint32_t ts;

		strict(q);
		fx_post(q, 0, 0, 100);
		ts = fx_fill(q);
		path = TX_AFTER(q)->path;
		seq(q, 0, ts, 0, XDP_TX, "rx_ack rx_seq tx_data tx_retx");
		assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_DATA);
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN);
		assert_int_equal(frame_hdr(&fx.out)->flags, WEFT_F_RETX | WEFT_F_LAST);
		expect_bytes(&TX_AFTER(q)->path, &path, sizeof(path));
		assert_int_equal(TX_AFTER(q)->losses, 0);
		assert_int_equal(TX_AFTER(q)->inflight, 1);
		assert_int_equal(fx.after.run.active, 1);
		assert_int_equal(q->ring->sq_done, 0);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* What it overtook is lost, however long the round trips have been, and goes out first. */
static void strict__overtaken(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;
		uint32_t ts[3];

		strict(q);
		for (int i = 0; i < 3; i++) {
			fx_post(q, 0, 0, 100);
			ts[i] = fx_fill(q);
		}
		fx_tx_get(q, &tx);
		tx.rtt.srtt8 = 8 * WEFT_TICKS_US(100000);
		tx.cc.cwnd = 2;
		fx_tx_set(q, &tx);
		q->ctl->cwnd = 2;
		seq(q, 1, ts[1], 0, XDP_TX, "rx_ack rx_seq lost tx_data tx_retx");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN);
		seq(q, 2, ts[2], 0, XDP_TX, "rx_ack rx_seq tx_data tx_retx");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN + 1);
		assert_int_equal(TX_AFTER(q)->losses, 1);
		assert_int_equal(TX_AFTER(q)->nlost, 1);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* Of what was never sent it says nothing. */
static void strict__unsent(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		strict(q);
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN, 0);
		p.h.op = WEFT_OP_SEQ;
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.unsent");
	}
}

const struct CMUnitTest fx_tests_strict[] = {
	FX_TEST(strict__write),     FX_TEST(strict__far_ahead),  FX_TEST(strict__refusal_waits),
	FX_TEST(strict__read),      FX_TEST(strict__atomic),     FX_TEST(strict__send),
	FX_TEST(strict__write_imm), FX_TEST(strict__ends),       FX_TEST(strict__again),
	FX_TEST(strict__overtaken), FX_TEST(strict__unsent),     FX_TEST(strict__free),
	FX_TEST(strict__marks),     FX_TEST(strict__free_sends), FX_END,
};
