// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receives that a message does not fit, or that name memory they may not; and who is woken by receives. */
#include "fixture.h"

static struct frame f, want;

/* The frame that left refuses p with this code, and the QP is in error with it. */
static void refused(struct fx_qp *q, const struct pkt *p, uint32_t code, const char *counters)
{
	struct pkt nak;

	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters(counters);
	pkt_reply(&nak, p, q, WEFT_OP_NAK);
	nak.h.nak.code = htonl(code);
	nak.h.nak.psn = p->h.psn;
	pkt_frame(&nak, &want);
	expect_frame(&want);
	assert_int_equal(RX_AFTER(q)->err, code);
	assert_int_equal(RX_AFTER(q)->err_psn, ntohl(p->h.psn));
	assert_int_equal(q->ring->rx_err, code);
	assert_int_equal(q->ring->received, 0);
	assert_int_equal(q->ring->arrived, 0);
}

/* Longer than all pieces together, by one byte or many; not even a segment that would fit is written. */
static void badrecv__too_long(void **state)
{
	static const struct fx_piece pieces[] = { { 0, 40 }, { 100, 0 }, { 200, 1 }, { 300, 58 } };

	(void)state;
	BOTH(q)
	for (int way = 0; way < 6; way++) {
		uint32_t mlen[] = { 100, 101, FX_FULL, FX_FULL + 1, 1 << 30, 1 }, moff = 0;
		struct weft_rqe *e;
		struct fx_rq *rq;
		struct pkt p;

		fx_reset(NULL);
		rq = fx_recv_on(q, false);
		e = fx_recv(rq, pieces, way < 5 ? 4 : 0);
		pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(way),
			 mlen[way] < FX_FULL ? mlen[way] : FX_FULL);
		p.h.data.mlen = htonl(mlen[way]);
		p.h.flags = p.len == mlen[way] ? WEFT_F_LAST : 0;
		if (way == 3) { /* the last byte, which is far behind the receive's end */
			moff = FX_FULL;
			p.len = 1;
			p.h.len = htons(1);
			p.h.flags = WEFT_F_LAST;
		}
		p.h.data.moff = htonl(moff);
		refused(q, &p, WEFT_NAK_LENGTH, "drop.bounds tx_nak");
		assert_int_equal(e->status, WEFT_NAK_LENGTH);
		assert_int_equal(e->len, 0);
		expect_pools();
		/* for good, and with the same answer */
		e = fx_recv(rq, pieces, 4);
		p.h.psn = htonl(FX_PSN + 1);
		p.h.data.rsn = htonl(1);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("drop.closed tx_nak");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.code), WEFT_NAK_LENGTH);
		assert_int_equal(ntohl(frame_hdr(&fx.out)->nak.psn), FX_PSN);
		assert_int_equal(e->status, 0);
		expect_pools();
	}
}

/* Lengths whose sum is more than 32 bits are no room for nothing. */
static void badrecv__huge(void **state)
{
	static const struct fx_piece pieces[] = { { 64, 60 }, { 300, ~0u }, { 0, ~0u }, { 0, 6 } };

	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct pkt p;

		fx_recv(rq, pieces, 4);
		pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=100 tx_ack");
		memcpy(fx.want + FX_T_OFF + 64, random_bytes(1), 60);
		memcpy(fx.want + FX_T_OFF + 300, random_bytes(1) + 60, 40);
		expect_pools();
		memset(fx.want, 0xc5, FX_POOL);
		memset(fx.target, 0xc5, FX_POOL);
	}
}

/* Each way in which a piece is not the receiver's to write to, in each of the four places. */
static void badrecv__piece(void **state)
{
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];
	enum { WAYS = 11 };

	(void)state;
	BOTH(q)
	for (int i = 0; i < WEFT_RQ_SGES; i++)
		for (int way = 0; way < WAYS; way++) {
			uint32_t code = way == WAYS - 1 ? WEFT_NAK_MEMORY : WEFT_NAK_RECEIVE;
			struct fx_piece pieces[WEFT_RQ_SGES] = {};
			struct weft_rq_sge *sge;
			struct weft_rqe *e;
			struct pkt p;

			fx_reset(NULL);
			pieces[i] = (struct fx_piece){ 500, 100 };
			e = fx_recv(fx_recv_on(q, false), pieces, WEFT_RQ_SGES);
			sge = &e->sge[i];
			switch (way) {
			case 0: sge->lkey = 0; break;
			case 1: sge->lkey ^= 1u << 12; break;
			case 2: sge->lkey = WEFT_KEY(99, 1); break;
			case 3: sge->lkey = FX_S_KEY; break; /* not to be written to */
			case 4: mr->rights = ~WEFT_ACCESS_LOCAL_WRITE; break;
			case 5: mr->pd ^= 4; break;
			case 6: sge->off = FX_T_LEN - 99; break;
			case 7: sge->off = FX_T_LEN + 1; break;
			case 8: sge->off = ~0ull; break;
			case 9: sge->off = -50ull; break; /* round the end of all numbers */
			default: fx_pool_remove(FX_POOL_T); break;
			}
			pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(way), 100);
			refused(q, &p, code,
				way == WAYS - 1 ? "drop.memory tx_nak" : "drop.rights tx_nak");
			assert_int_equal(e->status, code);
			expect_pools();
		}
}

/* A segment that begins behind the end of the region, by adding the message's offset to the piece's. */
static void badrecv__overflow(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_rqe *e;
		struct pkt p;

		fx_reset(NULL);
		e = fx_recv(fx_recv_on(q, false), &(struct fx_piece){ -(uint64_t)FX_FULL, ~0u }, 1);
		pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(1), FX_FULL);
		p.h.data.moff = htonl(FX_FULL);
		p.h.data.mlen = htonl(2 * FX_FULL);
		refused(q, &p, WEFT_NAK_RECEIVE, "drop.rights tx_nak");
		assert_int_equal(e->status, WEFT_NAK_RECEIVE);
		expect_pools();
	}
}

/* An entry that the queue's map does not have: as a queue that has just been removed. */
static void badrecv__no_element(void **state)
{
	(void)state;
	BOTH(q)
	for (int write = 0; write < 2; write++) {
		struct fx_rq *rq;
		struct pkt p;

		fx_reset(NULL);
		rq = fx_recv_on(q, false);
		q->ctl->rq_mask = 255;
		rq->head.prod = 200;
		for (uint32_t i = 0; i < FX_RQ_DEPTH; i++) {
			pkt_send(&p, q->peer, FX_PSN + i, i, NULL, 0);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("rx_data tx_ack");
		}
		if (write) {
			pkt_data(&p, q->peer, FX_PSN + FX_RQ_DEPTH, 64, random_bytes(1), 100);
			p.h.flags |= WEFT_F_IMM;
			p.h.data.rsn = htonl(FX_RQ_DEPTH);
		} else {
			pkt_send(&p, q->peer, FX_PSN + FX_RQ_DEPTH, FX_RQ_DEPTH, NULL, 0);
		}
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("drop.memory tx_nak");
		assert_int_equal(q->ring->rx_err, WEFT_NAK_MEMORY);
		assert_int_equal(q->ring->arrived, FX_RQ_DEPTH);
		expect_pools();
	}
}

/* Who waits for any message, and who for solicited ones only: once each. */
static void badrecv__wake_up(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq;
		uint32_t psn = FX_PSN, rsn = 0, qpn, kind;

		fx_reset(NULL);
		rq = fx_recv_on(q, false);
		for (int way = 0; way < 16; way++) {
			bool sol = way & 1, write = way & 2, rx = way & 4, so = way & 8;
			int events = rx || (so && sol); /* one is for both */
			struct pkt p;

			fx_recv(rq, &(struct fx_piece){ 0, 10 }, 1);
			pkt_send(&p, q->peer, psn++, rsn++, NULL, 0);
			p.h.flags |= sol ? WEFT_F_SOL : 0;
			if (write) {
				p.h.op = WEFT_OP_DATA;
				p.h.flags |= WEFT_F_IMM;
				p.h.data.rkey = htonl(FX_T_KEY);
			}
			q->ring->arm_rx = rx;
			q->ring->arm_sol = so;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_event], events);
			assert_int_equal(q->ring->arm_rx, 0);
			assert_int_equal(q->ring->arm_sol, so && !sol);
			assert_int_equal(fx_events(&qpn, &kind), events);
			if (events) {
				assert_int_equal(qpn, q->ctl->qpn);
				assert_int_equal(kind, WEFT_EVENT_RX);
			}
		}
		/* a solicited message is told of when it is its turn, not before */
		for (int k = 1; k >= 0; k--) {
			struct pkt p;

			fx_recv(rq, NULL, 0);
			fx_recv(rq, NULL, 0);
			pkt_send(&p, q->peer, psn + k, rsn + k, NULL, 0);
			p.h.flags |= k ? WEFT_F_SOL : 0;
			q->ring->arm_sol = 1;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			assert_int_equal(fx_events(NULL, NULL), !k);
			assert_int_equal(q->ring->arm_sol, k);
		}
	}
}

/* A plain WRITE wakes nobody who waits for solicited ones; an error wakes both. */
static void badrecv__wake_up_on_error(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_reset(NULL);
		fx_recv(fx_recv_on(q, false), NULL, 0);
		q->ring->arm_sol = 1;
		pkt_data(&p, q->peer, FX_PSN, 0, NULL, 0);
		p.h.flags |= WEFT_F_SOL; /* means nothing without a receive */
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data tx_ack");
		assert_int_equal(q->ring->arm_sol, 1);
		q->ring->arm_rx = 1;
		pkt_send(&p, q->peer, FX_PSN + 1, 0, random_bytes(1), 1);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("drop.bounds tx_nak event");
		assert_int_equal(q->ring->arm_rx | q->ring->arm_sol, 0);
		assert_int_equal(fx_events(NULL, NULL), 1);
		/* once */
		q->ring->arm_rx = q->ring->arm_sol = 1;
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("drop.closed tx_nak");
		assert_int_equal(fx_events(NULL, NULL), 0);
	}
}

const struct CMUnitTest fx_tests_badrecv[] = {
	FX_TEST(badrecv__too_long),
	FX_TEST(badrecv__huge),
	FX_TEST(badrecv__piece),
	FX_TEST(badrecv__overflow),
	FX_TEST(badrecv__no_element),
	FX_TEST(badrecv__wake_up),
	FX_TEST(badrecv__wake_up_on_error),
	FX_END,
};
