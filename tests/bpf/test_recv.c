// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What takes a receive: where its bytes go, what the entry says then, what is refused, who is told. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;

/* A segment of a message that takes receive rsn; bytes are its own. */
static void segment(struct pkt *p, const struct fx_qp *q, uint32_t psn, uint32_t rsn, uint32_t moff,
		    uint32_t len, uint32_t mlen, const uint8_t *bytes)
{
	pkt_send(p, q->peer, psn, rsn, bytes, len);
	p->h.flags = moff + len == mlen ? WEFT_F_LAST : 0;
	p->h.data.moff = htonl(moff);
	p->h.data.mlen = htonl(mlen);
}

static void run(const struct pkt *p, int verdict, const char *counters)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/* The frame that left answers p, says what rx says, and that the queue has had `epoch` receives. */
static void said(const struct fx_qp *q, const struct pkt *p, const struct weft_rx *rx, uint8_t op,
		 uint8_t flags, uint32_t epoch)
{
	struct weft_rx_sack sack;
	struct pkt a;

	weft_rx_sack(rx, ntohl(p->h.psn), &sack);
	pkt_reply(&a, p, q, op);
	a.h.flags = WEFT_F_RQ | flags;
	a.h.ack.cum = htonl(sack.cum);
	a.h.ack.msn = htonl(sack.msn);
	a.h.ack.sack = htobe64(sack.bits);
	a.h.ack.sack_base = htonl(sack.base);
	a.h.ack.epoch = htonl(epoch);
	pkt_frame(&a, &want);
	expect_frame(&want);
	assert_true(q->v6 ? pkt_csum_ok(&fx.out) : true);
}

/* Packet p is placed and acknowledged, as the core has it. */
static void accepted(const struct fx_qp *q, const struct pkt *p, uint32_t epoch)
{
	int last = p->h.flags & WEFT_F_LAST, sol = p->h.flags & WEFT_F_SOL;
	enum weft_rx_last end = !last ? WEFT_RX_MORE : sol ? WEFT_RX_SOL : WEFT_RX_RECV;
	uint32_t psn = ntohl(p->h.psn);
	struct weft_rx rx;
	char counters[64];

	fx_rx_get(q, &rx);
	assert_int_equal(weft_rx_claim(&rx, psn, end), WEFT_RX_NEW);
	if (weft_rx_commit(&rx, psn))
		weft_rx_catch_up(&rx);
	if (q->ctl->flags & WEFT_QPF_SRQ)
		rx.bound = ntohl(p->h.data.rsn) + 1;
	snprintf(counters, sizeof(counters), "rx_data rx_bytes=%u tx_ack rx_ce=%d", p->len,
		 (p->tos & 3) == 3);
	run(p, XDP_TX, counters);
	said(q, p, &rx, WEFT_OP_ACK, (p->tos & 3) == 3 ? WEFT_F_CE : 0, epoch);
	expect_bytes(RX_AFTER(q), &rx, sizeof(rx));
	assert_int_equal(q->ring->received, rx.rdone);
	assert_int_equal(q->ring->rx_msn, rx.msn);
	assert_int_equal(q->ring->arrived, rx.msn - rx.quiet);
}

/* Bytes of a message from moff on are where the pieces of its receive say, and only there. */
static void wanted(const struct fx_piece *at, uint32_t moff, const uint8_t *bytes, uint32_t len)
{
	for (; len; at++) {
		uint32_t n = at->len > moff ? at->len - moff : 0;

		if (n > len)
			n = len;
		memcpy(fx.want + FX_T_OFF + at->off + moff, bytes, n);
		bytes += n;
		len -= n;
		moff = at->len > moff ? 0 : moff - at->len;
	}
	expect_pools();
}

static void noted(const struct weft_rqe *e, uint32_t len, uint32_t imm, uint32_t flags)
{
	assert_int_equal(e->len, len);
	assert_int_equal(e->imm, imm);
	assert_int_equal(e->flags, flags);
	assert_int_equal(e->status, 0);
}

static void clean(void)
{
	memset(fx.want, 0xc5, FX_POOL);
	memset(fx.target, 0xc5, FX_POOL);
}

/* Whole messages of any length, each in the entry of its number, round and round the queue. */
static void recv__one(void **state)
{
	static const uint32_t lens[] = { 0, 1, 7, 8, 64, 255, 1000, 1408, 3327, FX_FULL };

	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);

		for (uint32_t i = 0; i < 3 * FX_RQ_DEPTH; i++) {
			uint32_t len = lens[i % 10];
			struct fx_piece at = { 11 + 4000 * i, len + i % 3 };
			struct weft_rqe *e = fx_recv(rq, &at, 1);
			struct pkt p;

			pkt_send(&p, q->peer, FX_PSN + i, i, random_bytes(i), len);
			p.h.ev = i;
			p.h.ts = htonl(0x01020304 * i);
			p.tos = i % 4 == 3 ? 3 : 2;
			accepted(q, &p, i + 1);
			wanted(&at, 0, random_bytes(i), len);
			noted(e, len, 0, 0);
			assert_int_equal(q->ring->received, i + 1);
			assert_int_equal(q->ring->refused, 0);
		}
		clean();
	}
}

/* An empty message needs no memory, whatever its receive says. */
static void recv__empty(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct weft_rqe *e = fx_recv(rq, &(struct fx_piece){ ~0ull, 10 }, 1);
		struct pkt p;

		e->sge[0].lkey = 1;
		e->status = e->flags = e->len = e->imm = 99;
		pkt_send(&p, q->peer, FX_PSN, 0, NULL, 0);
		accepted(q, &p, 1);
		noted(e, 0, 0, 0);
	}
}

/* Pieces of odd lengths, empty ones among them, over both boundaries of chunks; segments backwards. */
static void recv__pieces(void **state)
{
	enum { E1 = WEFT_CHUNK - FX_T_OFF, E2 = 2 * WEFT_CHUNK - FX_T_OFF };
	static const struct fx_piece sets[][WEFT_RQ_SGES] = {
		{ { 5, 8192 } },
		{ { 5, 1 }, { 100, 8191 } },
		{ { 5, 3327 }, { 5000, 1 }, { 10000, 4864 } },
		{ { 5, 1001 }, { 20000, 0 }, { 5000, 3 }, { 30000, 9000 } },
		{ { 0, 0 }, { 0, 0 }, { 0, 0 }, { 999, 8192 } },
		{ { E1 - 1, 2 }, { E1 - 4000, 3999 }, { E2 - 3, 4095 }, { 0, 1000 } },
		{ { E1 - 2000, 5000 }, { E2 - 1, 1 }, { E2, 1 }, { E2 + 77, 7000 } },
		{ { 7, 2048 }, { 5007, 2048 }, { 10007, 2048 }, { 15007, 2048 } },
		{ { FX_T_LEN - 1, 1 }, { 3, 8000 }, { 9000, 190 }, { 9500, 1 } },
	};
	static uint8_t all[8192];

	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		uint32_t psn = FX_PSN, rsn = 0;

		for (uint32_t i = 0; i < sizeof(all); i++)
			all[i] = random_bytes(i / 1000)[i % 1000];
		for (size_t k = 0; k < sizeof(sets) / sizeof(sets[0]); k++) {
			static const uint32_t mlens[] = { 8192, 8191, 3329, FX_FULL, 12 };

			for (int m = 0; m < 5; m++) {
				uint32_t mlen = mlens[m], n = (mlen + FX_FULL - 1) / FX_FULL;
				struct weft_rqe *e = fx_recv(rq, sets[k], WEFT_RQ_SGES);

				for (uint32_t s = n; s--;) {
					uint32_t moff = s * FX_FULL;
					uint32_t len = s == n - 1 ? mlen - moff : FX_FULL;
					struct pkt p;

					segment(&p, q, psn + s, rsn, moff, len, mlen, all + moff);
					assert_int_equal(q->ring->received, rsn);
					accepted(q, &p, rsn + 1);
					wanted(sets[k], moff, all + moff, len);
				}
				noted(e, mlen, 0, 0);
				psn += n;
				rsn++;
				assert_int_equal(q->ring->received, rsn);
				clean();
			}
		}
	}
}

/* Immediate data and kind: SEND, WRITE with immediate, solicited. */
static void recv__imm(void **state)
{
	static const struct fx_piece at = { 50, 100 };

	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);

		for (uint32_t way = 0; way < 8; way++) {
			bool write = way & 4;
			uint32_t imm = write || way & 1 ? 0xdeadbe00 + way : 0, flags = 0;
			struct weft_rqe *e = fx_recv(rq, &at, 1);
			struct pkt p;

			pkt_send(&p, q->peer, FX_PSN + way, way, random_bytes(way), 100);
			/* of a SEND without the flag it says nothing */
			p.h.data.imm = htonl(0xdeadbe00 + way);
			if (write) {
				p.h.op = WEFT_OP_DATA;
				p.h.data.rkey = htonl(FX_T_KEY);
				p.h.data.roff = htobe64(7000);
				flags |= WEFT_RQE_WRITE;
			}
			if (imm) {
				p.h.flags |= WEFT_F_IMM;
				flags |= WEFT_RQE_IMM;
			}
			if (way & 2) {
				p.h.flags |= WEFT_F_SOL;
				flags |= WEFT_RQE_SOL;
			}
			accepted(q, &p, way + 1);
			wanted(write ? &(struct fx_piece){ 7000, 100 } : &at, 0, random_bytes(way),
			       100);
			noted(e, 100, imm, flags);
			clean();
		}
		assert_int_equal(RX_AFTER(q)->solicited, 4);
	}
}

/* Of a WRITE with immediate data only the last segment needs a receive, whatever is in that. */
static void recv__write_segments(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct weft_rqe *e;
		struct pkt p;

		for (int s = 0; s < 3; s++) {
			pkt_data(&p, q->peer, FX_PSN + s, 9 + s * FX_FULL, random_bytes(s),
				 FX_FULL);
			p.h.flags = WEFT_F_IMM | (s == 2 ? WEFT_F_LAST : 0);
			p.h.data.imm = htonl(77);
			p.h.data.moff = htonl(s * FX_FULL);
			p.h.data.mlen = htonl(3 * FX_FULL);
			if (s == 2) {
				run(&p, XDP_TX, "tx_rnr tx_ack");
				e = fx_recv(rq, NULL, 0);
				accepted(q, &p, 1);
				noted(e, 3 * FX_FULL, 77, WEFT_RQE_WRITE | WEFT_RQE_IMM);
			} else {
				accepted(q, &p, 0);
			}
			wanted(&(struct fx_piece){ 9 + s * FX_FULL, FX_FULL }, 0, random_bytes(s),
			       FX_FULL);
		}
		assert_int_equal(q->ring->received, 1);
		/* bytes that have no right to be there: no receive says otherwise */
		e = fx_recv(rq, &(struct fx_piece){ 0, 100 }, 1);
		pkt_data(&p, q->peer, FX_PSN + 3, 0, random_bytes(1), 100);
		p.h.flags |= WEFT_F_IMM;
		p.h.data.rsn = htonl(1);
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_LOCAL_WRITE;
		run(&p, XDP_TX, "drop.rights tx_nak");
		assert_int_equal(e->status, WEFT_NAK_RIGHTS);
		assert_int_equal(q->ring->rx_err, WEFT_NAK_RIGHTS);
		clean();
		fx_reset(NULL);
	}
}

/* Messages complete in their order, in whatever order they come, with all before them (I4). */
static void recv__order(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct pkt p;

		for (uint32_t i = 0; i < 4; i++)
			fx_recv(rq, &(struct fx_piece){ 1000 * i, 100 }, 1);
		for (uint32_t i = 3; i; i--) {
			pkt_send(&p, q->peer, FX_PSN + 1 + i, i, random_bytes(i), 100);
			accepted(q, &p, 4);
			noted(&rq->e[i], 100, 0, 0);
			assert_int_equal(q->ring->received, 0);
		}
		pkt_send(&p, q->peer, FX_PSN + 1, 0, random_bytes(0), 100);
		accepted(q, &p, 4);
		assert_int_equal(q->ring->received, 0);
		/* a WRITE that was posted before all of them */
		pkt_data(&p, q->peer, FX_PSN, 5000, random_bytes(9), 64);
		run(&p, XDP_TX, "rx_data rx_bytes=64 tx_ack");
		assert_int_equal(q->ring->received, 4);
		assert_int_equal(q->ring->arrived, 5);
		assert_int_equal(RX_AFTER(q)->rdone, 4);
		clean();
	}
}

/* I2: a duplicate gets its ACK, and changes neither memory nor entry. */
static void recv__duplicates(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct pkt p;

		fx_recv(rq, &(struct fx_piece){ 0, 100 }, 1);
		fx_recv(rq, &(struct fx_piece){ 200, 100 }, 1);
		for (uint32_t k = 2; k--;) { /* in the window, then behind it */
			pkt_send(&p, q->peer, FX_PSN + k, k, random_bytes(k), 100);
			accepted(q, &p, 2);
			wanted(&(struct fx_piece){ 200 * k, 100 }, 0, random_bytes(k), 100);
			for (int way = 0; way < 3; way++) {
				pkt_send(&p, q->peer, FX_PSN + k, way == 1 ? k + 1 : k,
					 random_bytes(7), 100);
				p.h.flags |= way == 2 ? WEFT_F_IMM : 0;
				run(&p, XDP_TX, "rx_dup tx_ack");
				said(q, &p, RX_BEFORE(q), WEFT_OP_ACK, WEFT_F_DUP, 2);
				expect_same();
				expect_pools();
			}
		}
		clean();
	}
}

/* Another CPU is at it, or it is beyond the window; and the window that must be moved first. */
static void recv__window(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct weft_rx rx;
		struct pkt p;

		fx_recv(rq, &(struct fx_piece){ 0, 100 }, 1);
		fx_rx_get(q, &rx);
		rx.word[weft_psn_word(FX_PSN)].claimed |= weft_psn_bit(FX_PSN);
		fx_rx_set(q, &rx);
		pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.busy");
		pkt_send(&p, q->peer, FX_PSN + WEFT_WIN, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.window");
		fx_qp_init(q, 0, FX_FULL);
		fx_rx_get(q, &rx);
		for (int w = 0; w < WEFT_WIN_WORDS - 1; w++)
			rx.word[w].claimed = rx.word[w].placed = ~0ull;
		fx_rx_set(q, &rx);
		pkt_send(&p, q->peer, WEFT_WIN, 0, random_bytes(1), 100);
		run(&p, XDP_TX, "rx_data rx_bytes=100 tx_ack");
		assert_int_equal(RX_AFTER(q)->next, WEFT_WIN - 64);
		clean();
	}
}

/* No honest peer counts so: its number is complete, or farther ahead than its window reaches. */
static void recv__dishonest(void **state)
{
	(void)state;
	BOTH(q)
	for (int shared = 0; shared < 2; shared++) {
		struct fx_rq *rq;
		struct pkt p;

		fx_reset(NULL);
		rq = fx_recv_on(q, shared);
		for (uint32_t i = 0; i < 3; i++) {
			fx_recv(rq, &(struct fx_piece){ 1000 * i, 100 }, 1);
			pkt_send(&p, q->peer, FX_PSN + i, i, random_bytes(i), 100);
			accepted(q, &p, i + 1);
		}
		rq->head.prod += 0x7fffff00;
		for (int way = 0; way < 5; way++) {
			const uint32_t rsn[] = { 2, 0, 3 + WEFT_WIN, 0x80000000, ~0u };

			pkt_send(&p, q->peer, FX_PSN + 3, rsn[way], random_bytes(8), 100);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.window");
		}
		clean();
	}
}

static void recv__shape(void **state)
{
	static const uint32_t bad[][3] = { /* moff, len, mlen */
					   { 0, 100, 99 },
					   { 1, 100, 100 },
					   { 0, 0, 1 },
					   { 0xffffff00, 0x100, 0 },
					   { 0, 100, WEFT_MSG_MAX + 1 }
	};

	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct pkt p;

		fx_recv(rq, &(struct fx_piece){ 0, 100 }, 1);
		for (int i = 0; i < 5; i++) {
			segment(&p, q, FX_PSN, 0, bad[i][0], bad[i][1], bad[i][2], random_bytes(1));
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
		for (int last = 0; last < 2; last++) {
			segment(&p, q, FX_PSN, 0, 0, 50, last ? 100 : 50, random_bytes(1));
			p.h.flags = last ? WEFT_F_LAST : 0;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
	}
}

const struct CMUnitTest fx_tests_recv[] = {
	FX_TEST(recv__one),
	FX_TEST(recv__empty),
	FX_TEST(recv__pieces),
	FX_TEST(recv__imm),
	FX_TEST(recv__write_segments),
	FX_TEST(recv__order),
	FX_TEST(recv__duplicates),
	FX_TEST(recv__window),
	FX_TEST(recv__dishonest),
	FX_TEST(recv__shape),
	FX_END,
};
