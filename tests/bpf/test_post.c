// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What goes out for READs and atomics, and for messages that are posted in parts. */
#include "fixture.h"

static struct frame f, want;

static void fill(const struct fx_qp *q, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), verdict);
	expect_counters(counters);
}

/* The frame that left is exactly p, but for its time. */
static void asked(const struct fx_qp *q, struct pkt *p)
{
	uint32_t ts = ntohl(frame_hdr(&fx.out)->ts);

	assert_true((int32_t)(ts - fx.t0) >= 0 && (int32_t)(fx.t1 - ts) >= 0);
	p->h.ts = htonl(ts);
	p->sport = WEFT_EV_PORT0 + p->h.ev;
	pkt_frame(p, &want);
	expect_frame(&want);
	assert_int_equal(fx.out.len, fx_hl(q));
	assert_true(q->v6 ? pkt_csum_ok(&fx.out) : !fx.out.b[40] && !fx.out.b[41]);
}

static void post__read(void **state)
{
	static const uint32_t lens[] = { 0, 1, 8, 1000, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < 5; i++) {
			struct weft_wqe *e = fx_post_ask(q, WEFT_WQE_READ, 100 + i, 7 + i, lens[i]);
			struct pkt p;

			/* what it does not use says nothing */
			e->operand = e->compare = ~0ull;
			fill(q, XDP_PASS, "tx_ask");
			pkt_read(&p, q, FX_PSN + i, 7 + i, lens[i]);
			p.h.ev = i;
			p.h.data.msn = htonl(i);
			asked(q, &p);
			assert_int_equal(TX_AFTER(q)->inflight, i + 1);
			assert_int_equal(fx.after.run.dom[0].inflight, i + 1);
			assert_true(weft_tx_own(TX_AFTER(q), FX_PSN + i));
		}
		memset(fx.run, 0, sizeof(*fx.run));
	}
	expect_pools();
}

/* A READ in segments, each of which asks for its part; a retransmission says so. */
static void post__read_segments(void **state)
{
	(void)state;
	BOTH(q)
	{
		const uint32_t payload = 1408, len = 2 * 1408 + 77;
		static struct weft_tx tx;
		struct pkt p;

		fx_qp_init(q, 0xfffffffeu, payload);
		fx_post_ask(q, WEFT_WQE_READ, 50, 60, len);
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t seg = i < 3 ? i : 1;

			if (i == 3) { /* the second was lost */
				fx_tx_get(q, &tx);
				weft_tx_convict(&tx, &tx.slot[weft_tx_at(0xffffffffu)],
						0xffffffffu);
				fx_tx_set(q, &tx);
			}
			fill(q, XDP_PASS, i < 3 ? "tx_ask" : "tx_ask tx_retx");
			pkt_read(&p, q, 0xfffffffeu + seg, 60 + seg * payload, len);
			p.h.data.moff = htonl(seg * payload);
			p.h.data.rlen = htonl(seg < 2 ? payload : 77);
			p.h.flags = seg < 2 ? 0 : WEFT_F_LAST;
			if (i == 3)
				p.h.flags |= WEFT_F_RETX;
			p.h.ev = frame_hdr(&fx.out)->ev;
			asked(q, &p);
		}
	}
}

static void post__atomics(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;
		struct pkt p;

		for (uint32_t i = 0; i < 6; i++) {
			int op = i % 2 ? WEFT_WQE_CSWAP : WEFT_WQE_FADD;
			struct weft_wqe *e = fx_post_ask(q, op, 16 * i, 8 * i, 8);

			e->operand = 0x0102030405060708ull * (i + 1);
			e->compare = 0x1112131415161718ull * (i + 1);
			fill(q, XDP_PASS, "tx_ask");
			pkt_atomic(&p, q, i % 2 ? WEFT_OP_CSWAP : WEFT_OP_FADD, FX_PSN + i, i,
				   8 * i, e->operand, e->compare);
			p.h.atomic.rkey = htonl(FX_S_KEY);
			p.h.ev = i;
			asked(q, &p);
			assert_int_equal(TX_AFTER(q)->atomics_out, i + 1);
		}
		/* the same number when it is sent again */
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN + 3)], FX_PSN + 3);
		fx_tx_set(q, &tx);
		memset(&q->ring->sq[3], 0xff, sizeof(q->ring->sq[3]));
		fill(q, XDP_PASS, "tx_ask tx_retx");
		pkt_atomic(&p, q, WEFT_OP_CSWAP, FX_PSN + 3, 3, 24, 0x0102030405060708ull * 4,
			   0x1112131415161718ull * 4);
		p.h.atomic.rkey = htonl(FX_S_KEY);
		p.h.flags |= WEFT_F_RETX;
		p.h.ev = frame_hdr(&fx.out)->ev;
		asked(q, &p);
		assert_int_equal(TX_AFTER(q)->atomics_out, 6);
	}
}

/* The peer remembers so many results: the next one waits, and what is behind it. */
static void post__atomics_wait(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i <= WEFT_ATOMICS; i++)
			fx_post_ask(q, WEFT_WQE_FADD, 0, 0, 8);
		fx_fill_n(q, WEFT_ATOMICS);
		assert_int_equal(TX_AFTER(q)->atomics_out, WEFT_ATOMICS);
		fill(q, XDP_DROP, "drop.template");
		assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + WEFT_ATOMICS);
		assert_int_equal(TX_AFTER(q)->err, 0);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* Parts of one message, as pieces of a list come: LAST is where the message ends. */
static void post__parts(void **state)
{
	(void)state;
	BOTH(q)
	{
		const uint32_t part[] = { 10, FX_FULL + 1, 5 };
		uint32_t moff = 0, psn = FX_PSN, mlen = FX_FULL + 16, at = 0;

		for (uint32_t i = 0; i < 3; i++) {
			struct weft_wqe *e = &q->ring->sq[q->ring->sq_prod];

			fx_post(q, 1000 * i, 77 + moff, part[i]);
			e->moff = moff;
			e->mlen = mlen;
			moff += part[i];
		}
		for (uint32_t i = 0; i < 3; i++) {
			for (uint32_t sent = 0; sent < part[i];) {
				uint32_t n = part[i] - sent < FX_FULL ? part[i] - sent : FX_FULL;
				struct pkt p;

				fill(q, XDP_PASS, "tx_data");
				pkt_data(&p, q, psn++, 77 + at, NULL, n);
				p.h.ev = psn - 1 - FX_PSN;
				p.h.flags = i == 2 ? WEFT_F_LAST : 0;
				p.h.data.msn = htonl(i);
				p.h.data.moff = htonl(at);
				p.h.data.mlen = htonl(mlen);
				p.payload = fx.source + FX_S_OFF + 1000 * i + sent;
				p.h.ts = frame_hdr(&fx.out)->ts;
				p.sport = WEFT_EV_PORT0 + p.h.ev;
				pkt_frame(&p, &want);
				expect_frame(&want);
				sent += n;
				at += n;
			}
		}
		assert_int_equal(TX_AFTER(q)->cons, 3);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* What no library posts costs the QP, and nothing else. */
static void post__nonsense(void **state)
{
	static const struct {
		uint32_t op, len, moff, mlen;
	} cases[] = {
		{ WEFT_WQE_OP_COUNT, 8, 0, 8 },
		{ 0x8000, 8, 0, 8 },
		{ 0xffff, 8, 0, 8 },
		{ WEFT_WQE_FADD, 7, 0, 7 },
		{ WEFT_WQE_FADD, 9, 0, 9 },
		{ WEFT_WQE_CSWAP, 0, 0, 0 },
		{ WEFT_WQE_CSWAP, FX_FULL + 8, 0, FX_FULL + 8 },
		{ WEFT_WQE_WRITE, 9, 0, 8 },
		{ WEFT_WQE_WRITE, 8, 1, 8 },
		{ WEFT_WQE_WRITE, 8, 9, 8 },
		{ WEFT_WQE_WRITE, 8, ~0u, 8 },
		{ WEFT_WQE_WRITE, 8, 0, WEFT_MSG_MAX + 1 },
		{ WEFT_WQE_READ, 8, 0, WEFT_MSG_MAX + 1 },
		{ WEFT_WQE_READ, 8, 4, 8 },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct weft_wqe *e;

			fx_qp_init(q, FX_PSN, FX_FULL);
			e = fx_post_ask(q, cases[i].op, 0, 0, cases[i].len);
			e->moff = cases[i].moff;
			e->mlen = cases[i].mlen;
			fill(q, XDP_DROP, "drop.template");
			expect_frame(&f);
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
			assert_int_equal(TX_AFTER(q)->inflight, 0);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
		}
	}
}

/* Who asks for bytes must have a place for them, and be allowed to write there. */
static void post__local_errors(void **state)
{
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)], good;

	(void)state;
	BOTH(q)
	for (int op = WEFT_WQE_READ; op <= WEFT_WQE_CSWAP; op++)
		for (int way = 0; way < 8; way++) {
			struct weft_wqe *e;

			fx_reset(NULL);
			good = *mr;
			e = fx_post_ask(q, op, FX_T_LEN - 8, 0, 8);
			switch (way) {
			case 0: mr->rights = ~WEFT_ACCESS_LOCAL_WRITE; break;
			case 1: mr->rights = 0; break;
			case 2: mr->pd ^= 1; break;
			case 3: mr->key ^= 1u << 12; break;
			case 4: e->loff++; break;
			case 5: e->loff = ~0ull; break;
			case 6: e->lkey = 0; break;
			default: /* enough */ fill(q, XDP_PASS, "tx_ask"); continue;
			}
			q->ring->arm_tx = 1;
			fill(q, XDP_DROP, "drop.fill event");
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_LOCAL);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
			assert_int_equal(q->ring->tx_err_ssn, 0);
			expect_bytes(fx.out.b, f.b, 60);
			*mr = good;
		}
}

/* In the doorbell's own frame when the answer will have room in it; else in a clone. */
static void post__in_place(void **state)
{
	static const uint32_t lens[] = { 0, 8, 1000, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (int i = 0; i < 4; i++) {
			struct pkt p;

			fx_qp_init(q, FX_PSN, FX_FULL);
			memset(fx.run, 0, sizeof(*fx.run));
			fx_post_ask(q, WEFT_WQE_READ, 0, 5, lens[i]);
			if (lens[i]) {
				doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn,
					       fx_hl(q) + lens[i] - 1);
				assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
				expect_counters("doorbell spawned");
				expect_template(q, WEFT_DB_FILL);
			}
			doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, fx_hl(q) + lens[i]);
			assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
			expect_counters("doorbell inplace tx_ask");
			pkt_read(&p, q, FX_PSN, 5, lens[i]);
			asked(q, &p);
		}
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

const struct CMUnitTest fx_tests_post[] = {
	FX_TEST(post__read),         FX_TEST(post__read_segments), FX_TEST(post__atomics),
	FX_TEST(post__atomics_wait), FX_TEST(post__parts),         FX_TEST(post__nonsense),
	FX_TEST(post__local_errors), FX_TEST(post__in_place),      FX_END,
};
