// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* No receive is posted: the RNR, and that nothing has happened; queues that QPs share. */
#include "fixture.h"

static struct frame f, want;

static void run(const struct pkt *p, int verdict, const char *counters)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/*
 * Packet p finds no receive: the frame that leaves is the RNR to it and tells of `epoch`. Nothing is
 * written but that the peer waits; the PSN is free as before.
 */
static void none(struct fx_qp *q, const struct pkt *p, uint32_t epoch)
{
	struct weft_rx_sack sack;
	struct pkt a;

	q->ring->arm_rx = q->ring->arm_sol = 1;
	run(p, XDP_TX, "tx_rnr tx_ack");
	weft_rx_sack(RX_BEFORE(q), ntohl(p->h.psn), &sack);
	pkt_reply(&a, p, q, WEFT_OP_RNR);
	a.h.flags = WEFT_F_RQ;
	a.h.ack.cum = htonl(sack.cum);
	a.h.ack.msn = htonl(sack.msn);
	a.h.ack.sack = htobe64(sack.bits);
	a.h.ack.sack_base = htonl(sack.base);
	a.h.ack.epoch = htonl(epoch);
	pkt_frame(&a, &want);
	expect_frame(&want);
	assert_int_equal(fx.after.ring[fx_idx(q)].refused, 1);
	fx.before.ring[fx_idx(q)].refused = 1;
	expect_same();
	expect_pools();
	q->ring->refused = 0;
}

/* It has found its receive. */
static void taken(struct fx_qp *q, const struct pkt *p)
{
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_ACK);
	assert_int_equal(frame_hdr(&fx.out)->flags, WEFT_F_RQ);
	assert_int_equal(q->ring->refused, 0);
}

static void wanted(uint64_t off, const uint8_t *bytes, uint32_t len)
{
	memcpy(fx.want + FX_T_OFF + off, bytes, len);
	expect_pools();
}

static void clean(void)
{
	memset(fx.want, 0xc5, FX_POOL);
	memset(fx.target, 0xc5, FX_POOL);
}

/* Empty from the start, after some, and in the middle of what came out of order; then it is there. */
static void none__and_then(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct fx_rq *rq = fx_recv_on(q, false);
		struct pkt p;

		for (uint32_t i = 0; i < 2 * FX_RQ_DEPTH; i++) {
			for (uint32_t way = 0; way < 3; way++) {
				pkt_send(&p, q->peer, FX_PSN + i + way, i + way, random_bytes(i),
					 way ? FX_FULL : 0);
				none(q, &p, i);
			}
			fx_recv(rq, &(struct fx_piece){ 100 * i, 100 }, 1);
			pkt_send(&p, q->peer, FX_PSN + i, i, random_bytes(i), 100);
			taken(q, &p);
			wanted(100 * i, random_bytes(i), 100);
			assert_int_equal(q->ring->received, i + 1);
		}
		clean();
	}
}

/* A QP without a queue, and one whose queue has gone: the peer waits, for as long as it likes. */
static void none__no_queue(void **state)
{
	(void)state;
	BOTH(q)
	for (int way = 0; way < 2; way++) {
		struct pkt p;

		if (way) {
			fx_recv_on(q, false);
			q->ctl->rq = 99;
		}
		pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		none(q, &p, 0);
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
		p.h.flags |= WEFT_F_IMM;
		none(q, &p, 0);
		/* it takes none, so nothing is amiss */
		p.h.flags = 0;
		p.h.data.mlen = htonl(200);
		run(&p, XDP_TX, "rx_data rx_bytes=100 tx_ack");
		wanted(0, random_bytes(1), 100);
		fx_reset(NULL);
	}
}

/* CE and entropy value are echoed by an RNR as by any answer; what it says of the window is as well. */
static void none__echoes(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_recv_on(q, false);
		pkt_data(&p, q->peer, FX_PSN + 2, 0, NULL, 0);
		run(&p, XDP_TX, "rx_data tx_ack");
		pkt_send(&p, q->peer, FX_PSN + 5, 0, NULL, 0);
		p.h.ev = 9;
		p.tos = 3;
		run(&p, XDP_TX, "tx_rnr tx_ack rx_ce");
		assert_int_equal(frame_hdr(&fx.out)->flags, WEFT_F_RQ | WEFT_F_CE);
		assert_int_equal(frame_hdr(&fx.out)->ev, 9);
		assert_int_equal(be64toh(frame_hdr(&fx.out)->ack.sack), weft_psn_bit(FX_PSN + 2));
		assert_int_equal(fx.out.b[15] & 3, q->v6 ? fx.out.b[15] & 3 : 2);
	}
}

/* Messages of two QPs take entries as they come, and each finds its own again. */
static void shared__two(void **state)
{
	struct fx_qp *q[2] = { &fx.qp[A4], &fx.qp[B4] };
	struct fx_rq *rq;
	struct pkt p;

	(void)state;
	fx_recv_on(q[1], true);
	rq = fx_recv_on(q[0], true);
	for (uint32_t n = 0; n < 3 * FX_RQ_DEPTH; n++) {
		uint32_t i = n % 3 == 1, k = q[i]->ring->received, e = n % FX_RQ_DEPTH;

		pkt_send(&p, q[i]->peer, FX_PSN + k, k, random_bytes(n), 50 + n);
		none(q[i], &p, n + q[i]->ring->rq_polled);
		fx_recv(rq, &(struct fx_piece){ 1000 * e, 100 }, 1);
		taken(q[i], &p);
		wanted(1000 * e, random_bytes(n), 50 + n);
		assert_int_equal(q[i]->ring->bind[k], (k + 1) << 16 | e);
		assert_int_equal(rq->head.taken, n + 1);
		assert_int_equal(rq->e[e].len, 50 + n);
		assert_int_equal(q[i]->ring->received, k + 1);
		assert_int_equal(q[!i]->ring->received, n - k);
	}
	clean();
}

/* All segments of a message go where its first one did, though others came in between. */
static void shared__segments(void **state)
{
	struct fx_qp *q[2] = { &fx.qp[A4], &fx.qp[B4] };
	static const uint32_t order[] = { 2, 0, 1 };
	struct fx_rq *rq;

	(void)state;
	fx_recv_on(q[1], true);
	rq = fx_recv_on(q[0], true);
	fx_recv(rq, &(struct fx_piece){ 0, 10000 }, 1);
	fx_recv(rq, &(struct fx_piece){ 20000, 10000 }, 1);
	for (int s = 0; s < 3; s++)
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t moff = order[s] * FX_FULL;
			struct pkt p;

			pkt_send(&p, q[i]->peer, FX_PSN + order[s], 0, random_bytes(2 * s + i),
				 FX_FULL);
			p.h.data.moff = htonl(moff);
			p.h.data.mlen = htonl(3 * FX_FULL);
			p.h.flags = order[s] == 2 ? WEFT_F_LAST : 0;
			taken(q[i], &p);
			wanted(20000 * i + moff, random_bytes(2 * s + i), FX_FULL);
		}
	assert_int_equal(rq->head.taken, 2);
	assert_int_equal(q[0]->ring->received, 1);
	assert_int_equal(q[1]->ring->received, 1);
	clean();
}

/* A number that has its entry keeps it, also when the queue is empty and somebody else waits. */
static void shared__bound(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct fx_rq *rq;
	struct pkt p;

	(void)state;
	rq = fx_recv_on(q, true);
	fx_recv(rq, &(struct fx_piece){ 0, 2 * FX_FULL }, 1);
	pkt_send(&p, q->peer, FX_PSN, 0, random_bytes(1), FX_FULL);
	p.h.data.mlen = htonl(2 * FX_FULL);
	p.h.flags = 0;
	taken(q, &p);
	wanted(0, random_bytes(1), FX_FULL);
	pkt_send(&p, q->peer, FX_PSN + 2, 1, NULL, 0);
	none(q, &p, 1);
	pkt_send(&p, q->peer, FX_PSN + 1, 0, random_bytes(2), FX_FULL);
	p.h.data.moff = htonl(FX_FULL);
	p.h.data.mlen = htonl(2 * FX_FULL);
	taken(q, &p);
	wanted(FX_FULL, random_bytes(2), FX_FULL);
	assert_int_equal(rq->head.taken, 1);
	assert_int_equal(q->ring->received, 1);
	clean();
}

/*
 * No more messages than the notes hold are taken before the application has looked at some; and notes
 * of long ago are not taken for new ones.
 */
static void shared__polled(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct fx_rq *rq;
	struct pkt p;

	(void)state;
	rq = fx_recv_on(q, true);
	rq->head.prod = 5000;
	for (uint32_t i = 0; i < 4 * WEFT_RQ_BIND; i++) {
		pkt_send(&p, q->peer, FX_PSN + i, i, NULL, 0);
		if (i && i % WEFT_RQ_BIND == 0) {
			none(q, &p, 5000 + q->ring->rq_polled);
			q->ring->rq_polled = i;
		}
		taken(q, &p);
		assert_int_equal(rq->head.taken, i + 1);
	}
}

/* What the peer is told of grows when the application looks, for that lets messages in as well. */
static void shared__epoch(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct fx_rq *rq;
	struct pkt p;

	(void)state;
	rq = fx_recv_on(q, true);
	rq->head.prod = rq->head.taken = 7;
	q->ring->rq_polled = 0;
	pkt_send(&p, q->peer, FX_PSN, 0, NULL, 0);
	none(q, &p, 7);
	rq->head.prod = 0xfffffff0;
	q->ring->rq_polled = 0x20;
	rq->head.taken = 0xfffffff0;
	none(q, &p, 0x10);
}

/* Receives come back in any order: a number is the entry that the queue says, as far as it has such. */
static void shared__order(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct fx_rq *rq = fx_recv_on(q, true);
	struct pkt p;

	(void)state;
	for (uint32_t i = 0; i < FX_RQ_DEPTH; i++)
		fx_recv(rq, &(struct fx_piece){ 100 * i, 100 }, 1);
	for (uint32_t i = 0; i < 2 * FX_RQ_DEPTH; i++) {
		uint32_t e = (5 * i + 3) % FX_RQ_DEPTH;

		rq->e[i % FX_RQ_DEPTH].order = e | (i < FX_RQ_DEPTH ? 0 : 0xabcdef00);
		rq->head.prod = i + 1;
		pkt_send(&p, q->peer, FX_PSN + i, i, random_bytes(i), 100);
		taken(q, &p);
		wanted(100 * e, random_bytes(i), 100);
	}
	clean();
}

/* Whatever the application writes into its notes, its messages go into the queue's own entries. */
static void shared__nonsense(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct fx_rq *rq = fx_recv_on(q, true);
	struct pkt p;

	(void)state;
	for (uint32_t i = 0; i < FX_RQ_DEPTH; i++)
		fx_recv(rq, &(struct fx_piece){ 100 * i, 100 }, 1);
	for (uint32_t i = 0; i < FX_RQ_DEPTH; i++) {
		uint32_t e = (3 * i + 1) % FX_RQ_DEPTH;

		q->ring->bind[i] = (i + 1) << 16 | 0xabc0 | e;
		pkt_send(&p, q->peer, FX_PSN + i, i, random_bytes(i), 100);
		taken(q, &p);
		wanted(100 * e, random_bytes(i), 100);
	}
	assert_int_equal(rq->head.taken, 0);
	clean();
}

const struct CMUnitTest fx_tests_shared[] = {
	FX_TEST(none__and_then),
	FX_TEST(none__no_queue),
	FX_TEST(none__echoes),
	FX_TEST(shared__two),
	FX_TEST(shared__segments),
	FX_TEST(shared__bound),
	FX_TEST(shared__polled),
	FX_TEST(shared__epoch),
	FX_TEST(shared__order),
	FX_TEST(shared__nonsense),
	FX_END,
};
