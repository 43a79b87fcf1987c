// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What goes out for SEND and immediate data, byte by byte; and the RESUME that a doorbell becomes. */
#include "fixture.h"

static struct frame f, want;

static void fill(const struct fx_qp *q, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), verdict);
	expect_counters(counters);
}

/* The frame that left is exactly p, but for its time. */
static void sent(const struct fx_qp *q, struct pkt *p)
{
	uint32_t ts = ntohl(frame_hdr(&fx.out)->ts);

	assert_true((int32_t)(ts - fx.t0) >= 0 && (int32_t)(fx.t1 - ts) >= 0);
	p->h.ts = htonl(ts);
	p->sport = WEFT_EV_PORT0 + p->h.ev;
	pkt_frame(p, &want);
	expect_frame(&want);
	assert_true(q->v6 ? pkt_csum_ok(&fx.out) : true);
}

/* Operations and flags on the wire; the number counts messages that take a receive, and no others. */
static void takes__headers(void **state)
{
	static const uint32_t lens[] = { 0, 100, FX_FULL, 2 * FX_FULL + 5 };

	(void)state;
	BOTH(q)
	{
		uint32_t psn = FX_PSN, ssn = 0, rsn = 0, ev = 0;

		for (uint32_t way = 0; way < 8; way++)
			for (int k = 0; k < 4; k++) {
				bool send = way & 1, imm = way & 2, sol = way & 4;
				uint32_t len = lens[k], moff = 0;
				struct weft_wqe *e = fx_post_send(q, 30 + k, len);

				e->op = send ? WEFT_WQE_SEND : WEFT_WQE_WRITE;
				e->rkey = FX_T_KEY; /* of a SEND these say nothing */
				e->roff = 4000;
				e->operand = 0x1234567800000000ull + way;
				e->compare = ~0ull;
				e->flags = (imm ? WEFT_WQE_IMM : 0) | (sol ? WEFT_WQE_SOL : 0);
				do {
					uint32_t n = len - moff < FX_FULL ? len - moff : FX_FULL;
					struct pkt p;

					fill(q, XDP_PASS, "tx_data");
					pkt_data(&p, q, psn++, send ? 0 : 4000 + moff,
						 fx.source + FX_S_OFF + 30 + k + moff, n);
					p.h.ev = ev++ % WEFT_EVS_DEFAULT;
					p.h.op = send ? WEFT_OP_SEND : WEFT_OP_DATA;
					p.h.flags = moff + n == len ? WEFT_F_LAST : 0;
					p.h.flags |= imm ? WEFT_F_IMM : 0;
					p.h.flags |= sol && (send || imm) ? WEFT_F_SOL : 0;
					p.h.data.rkey = send ? 0 : htonl(FX_T_KEY);
					p.h.data.msn = htonl(ssn);
					p.h.data.moff = htonl(moff);
					p.h.data.mlen = htonl(len);
					p.h.data.imm = imm ? htonl(way) : 0;
					p.h.data.rsn = send || imm ? htonl(rsn) : 0;
					sent(q, &p);
					moff += n;
				} while (moff < len);
				rsn += send || imm;
				ssn++;
			}
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* In the doorbell's own frame as well. */
static void takes__in_place(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		fx_post_send(q, 0, 100)->flags = WEFT_WQE_IMM | WEFT_WQE_SOL;
		q->ring->sq[0].operand = 99;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 300);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell inplace tx_data");
		pkt_send(&p, q, FX_PSN, 0, fx.source + FX_S_OFF, 100);
		p.h.flags |= WEFT_F_IMM | WEFT_F_SOL;
		p.h.data.imm = htonl(99);
		sent(q, &p);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* What asks for bytes takes no receive: such flags are no request of ours. */
static void takes__nonsense(void **state)
{
	(void)state;
	BOTH(q)
	for (int op = WEFT_WQE_READ; op <= WEFT_WQE_CSWAP; op++)
		for (int flags = WEFT_WQE_IMM; flags <= WEFT_WQE_SOL; flags++) {
			fx_qp_init(q, FX_PSN, FX_FULL);
			fx_post_ask(q, op, 0, 0, 8)->flags = flags;
			fill(q, XDP_DROP, "drop.template");
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN);
		}
}

/* The library's doorbell for those who wait: its frame becomes the RESUME, of whatever length it is. */
static void takes__resume_doorbell(void **state)
{
	static const uint32_t lens[] = { 60, 105, 106, 107, 126, 127, 1000 };

	(void)state;
	BOTH(q)
	for (int csum = 0; csum < 2; csum++)
		for (int i = 0; i < 7; i++) {
			struct fx_rq *rq;
			struct pkt p;

			fx_reset(NULL);
			rq = fx_recv_on(q, i & 1);
			q->ctl->flags |= csum ? WEFT_QPF_CSUM : 0;
			rq->head.prod = 0xfffffff0 + i;
			q->ring->rq_polled = 3;
			doorbell_frame(&f, WEFT_DB_RESUME, q->ctl->qpn, lens[i]);
			memset(f.b + 34, 0xee, lens[i] - 34); /* nobody's business */
			assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
			expect_counters("tx_resume");
			pkt_resume(&p, q, 0xfffffff0 + i + (i & 1 ? 3 : 0));
			p.csum = q->v6 || csum;
			sent(q, &p);
			assert_true(p.csum ? pkt_csum_ok(&fx.out) : true);
			expect_same();
		}
}

static void takes__resume_doorbell_for_nobody(void **state)
{
	(void)state;
	BOTH(q)
	for (int way = 0; way < 6; way++) {
		uint32_t qpn = q->ctl->qpn;

		fx_reset(NULL);
		switch (way) {
		case 0: qpn ^= 1u << 16; break;
		case 1: qpn = WEFT_QPN(200, 1); break;
		case 2: qpn = 0xffffffff; break;
		case 3: q->ctl->state = WEFT_QP_INIT; break;
		case 4: q->ctl->state = WEFT_QP_ERR; break;
		default: fx_kill_owner(); break;
		}
		doorbell_frame(&f, WEFT_DB_RESUME, qpn, 60);
		expect_inert(FX_DB, &f, XDP_DROP, "drop.doorbell");
	}
}

const struct CMUnitTest fx_tests_takes[] = {
	FX_TEST(takes__headers),
	FX_TEST(takes__in_place),
	FX_TEST(takes__nonsense),
	FX_TEST(takes__resume_doorbell),
	FX_TEST(takes__resume_doorbell_for_nobody),
	FX_END,
};
