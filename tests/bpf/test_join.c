// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Small WRITEs that are queued join the one that is claimed: which, how many, and what becomes of them. */
#include "fixture.h"

static struct frame f;

static void start(struct fx_qp *q, uint32_t payload)
{
	static struct weft_tx tx;

	fx_qp_init(q, FX_PSN, payload);
	q->ctl->flags |= WEFT_QPF_MANY;
	fx_tx_get(q, &tx);
	tx.joins_writes = 1;
	fx_tx_set(q, &tx);
	memset(fx.run, 0, sizeof(*fx.run));
}

static void post(struct fx_qp *q, uint32_t n)
{
	for (uint32_t i = q->ring->sq_prod; n--; i++)
		fx_post(q, 100 + 1000 * i, 50 + 500 * i, 30 + i % 20);
}

/* The frame that left has n of those that post() makes, from `first` on, as PSN psn. */
static void sent(const struct fx_qp *q, uint32_t psn, uint32_t first, uint32_t n, int flags)
{
	static uint8_t bytes[FRAME_ROOM];
	struct weft_desc d[WEFT_MANY] = { 0 };
	uint32_t at = n * sizeof(*d);
	__u64 words[2 * WEFT_MANY];
	struct frame want;
	__u32 sum[2];
	struct pkt p;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = first + i, len = 30 + k % 20;

		d[i].rkey = htonl(FX_T_KEY);
		d[i].len = htonl(len);
		d[i].roff = htobe64(50 + 500 * k);
		memcpy(bytes + at, fx.source + FX_S_OFF + 100 + 1000 * k, len);
		at += len;
	}
	memcpy(bytes, d, n * sizeof(*d));
	memcpy(words, d, sizeof(words));
	pkt_init(&p, q, WEFT_OP_WRITES, psn);
	weft_check_descs(words, p.hkey, sum);
	p.h.flags = flags;
	p.h.ev = frame_hdr(&fx.out)->ev;
	p.sport = WEFT_EV_PORT0 + p.h.ev;
	p.h.ts = frame_hdr(&fx.out)->ts;
	p.h.len = htons(at);
	p.h.writes.n = htonl(n);
	p.h.writes.msn = htonl(first);
	p.h.writes.sum[0] = htonl(sum[0]);
	p.h.writes.sum[1] = htonl(sum[1]);
	p.payload = bytes;
	p.len = at;
	pkt_frame(&p, &want);
	expect_frame(&want);
}

static void fill(const struct fx_qp *q, const char *counters)
{
	fx_fill(q);
	expect_counters(counters);
}

static void join__fills(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t n = 1; n <= 2 * WEFT_MANY + 1; n++) {
			uint32_t psn = FX_PSN;

			start(q, FX_FULL);
			post(q, n);
			for (uint32_t at = 0, k; at < n; at += k, psn++) {
				k = n - at < WEFT_MANY ? n - at : WEFT_MANY;
				fill(q, k > 1 ? "tx_data tx_writes" : "tx_data");
				if (k > 1)
					sent(q, psn, at, k, WEFT_F_LAST);
				else
					assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_DATA);
				assert_int_equal(TX_AFTER(q)->cons, at + k);
				assert_int_equal(TX_AFTER(q)->nxt, psn + 1);
				assert_int_equal(TX_AFTER(q)->msgs, at + k);
				assert_int_equal(TX_AFTER(q)->ends, at + k);
				assert_int_equal(TX_AFTER(q)->inflight, psn + 1 - FX_PSN);
			}
			assert_true(!q->v6 || pkt_csum_ok(&fx.out));
		}
	}
}

/* No more than fits, and no more than was agreed. */
static void join__room(void **state)
{
	(void)state;
	BOTH(q)
	{
		start(q, 1408);
		for (int i = 0; i < 8; i++)
			fx_post(q, 0, 0, WEFT_MANY_LEN);
		fill(q, "tx_data tx_writes");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->writes.n), 5);
		assert_int_equal(fx.out.len, fx_hl(q) + 5 * (16 + WEFT_MANY_LEN));

		start(q, 2 * (16 + 100));
		fx_post(q, 0, 0, 100);
		fx_post(q, 0, 0, 101);
		fill(q, "tx_data");
		start(q, 2 * (16 + 100));
		fx_post(q, 0, 0, 100);
		fx_post(q, 0, 0, 100);
		fill(q, "tx_data tx_writes");

		start(q, FX_FULL);
		q->ctl->flags &= ~WEFT_QPF_MANY;
		post(q, 3);
		fill(q, "tx_data");
		fx_qp_init(q, FX_PSN, FX_FULL);
		q->ctl->flags |= WEFT_QPF_MANY;
		post(q, 3);
		fill(q, "tx_data");
	}
}

/* What is not a small whole WRITE stays alone, at whatever end. */
static void join__who_may_not(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int i = 0; i < 12; i++) {
			struct weft_wqe *e = &q->ring->sq[i % 2];

			start(q, FX_FULL);
			fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights = WEFT_ACCESS_ALL;
			post(q, 2);
			switch (i / 2) {
			case 0: e->len = e->mlen = WEFT_MANY_LEN + 1; break;
			case 1: e->op = WEFT_WQE_READ; break;
			case 2: e->op = WEFT_WQE_SEND; break;
			case 3: e->flags = WEFT_WQE_IMM; break;
			case 4: e->mlen += 5; break;
			default: e->mlen += 5, e->moff = 5;
			}
			fill(q, i / 2 == 1 && i % 2 == 0 ? "tx_ask" : "tx_data");
			assert_int_not_equal(frame_hdr(&fx.out)->op, WEFT_OP_WRITES);
			assert_int_equal(TX_AFTER(q)->cons, 1);
			/* nor the one behind it */
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + 1);
		}
	}
}

/* I12: what is lost goes out again as it was, whatever the application has written since. */
static void join__again(void **state)
{
	static struct weft_tx tx;

	(void)state;
	BOTH(q)
	{
		start(q, FX_FULL);
		post(q, 5);
		fill(q, "tx_data tx_writes");
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN)], FX_PSN);
		fx_tx_set(q, &tx);
		memset(q->ring->sq, 0xff, 5 * sizeof(q->ring->sq[0]));
		q->ring->sq_prod = 6;
		fill(q, "tx_data tx_writes tx_retx");
		sent(q, FX_PSN, 0, 5, WEFT_F_LAST | WEFT_F_RETX);
		assert_int_equal(TX_AFTER(q)->cons, 5);
	}
}

/* One that has been sent before, or is not the newest, takes no others. */
static void join__too_late(void **state)
{
	static struct weft_tx tx;

	(void)state;
	BOTH(q)
	{
		start(q, FX_FULL);
		post(q, 1);
		fill(q, "tx_data");
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN)], FX_PSN);
		fx_tx_set(q, &tx);
		post(q, 4);
		fill(q, "tx_data tx_retx");
		assert_int_equal(frame_hdr(&fx.out)->op, WEFT_OP_DATA);
		assert_int_equal(TX_AFTER(q)->cons, 1);
	}
}

/* Its frame could not grow and a clone carries it: what it stands for is settled by then. */
static void join__claimed(void **state)
{
	const uint32_t at[] = { FX_PSN, 1 }; /* psn, claimed */

	(void)state;
	fx_stay_here();
	BOTH(q)
	{
		start(q, FX_FULL);
		post(q, 3);
		fill(q, "tx_data tx_writes");
		post(q, 3);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		memcpy(f.b + 14 + offsetof(struct weft_db, psn), at, sizeof(at));
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data tx_writes");
		sent(q, FX_PSN, 0, 3, WEFT_F_LAST);
		expect_same();

		/* one by itself stays so, even if what is behind it could join it by now */
		start(q, FX_FULL);
		post(q, 1);
		fx_post(q, 0, 0, WEFT_MANY_LEN + 1);
		fill(q, "tx_data");
		q->ring->sq[1].len = q->ring->sq[1].mlen = 10;
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data");
		expect_same();
	}
}

/* One ACK completes them all; a NAK tells which is to blame, and those before it are complete. */
static void join__complete(void **state)
{
	struct pkt p;
	uint32_t ts;

	(void)state;
	BOTH(q)
	{
		start(q, FX_FULL);
		post(q, 5);
		ts = fx_fill(q);
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 5);
		p.h.ts = htonl(ts);
		pkt_frame(&p, &f);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
		expect_counters("rx_ack absorbed");
		assert_int_equal(q->ring->sq_done, 5);

		for (uint32_t nth = 0; nth < 7; nth++) {
			uint32_t at = nth < 5 ? nth : 0;

			start(q, FX_FULL);
			post(q, 5);
			fx_fill(q);
			pkt_nak(&p, q->peer, FX_PSN, WEFT_NAK_KEY);
			p.h.nak.nth = htonl(nth);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
			expect_counters("rx_nak");
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_NAK);
			assert_int_equal(q->ring->tx_err_ssn, at);
			assert_int_equal(q->ring->sq_done, at);
		}
	}
}

/* The one whose memory is not there fails alone: those before it have gone. */
static void join__local_error(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t bad = 1; bad < 5; bad++) {
			start(q, FX_FULL);
			post(q, 5);
			q->ring->sq[bad].lkey = FX_T_KEY;
			fill(q, bad > 1 ? "tx_data tx_writes" : "tx_data");
			if (bad > 1)
				sent(q, FX_PSN, 0, bad, WEFT_F_LAST);
			assert_int_equal(q->ring->tx_err, 0);
			doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
			assert_int_equal(fx_run(FX_FILL, &f), XDP_DROP);
			expect_counters("drop.fill");
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
			assert_int_equal(q->ring->tx_err_ssn, bad);
		}
	}
}

/* It has been taken away since they went: that one is to blame, not the first. */
static void join__memory_gone(void **state)
{
	static struct weft_tx tx;

	(void)state;
	BOTH(q)
	{
		start(q, FX_FULL);
		post(q, 5);
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_ALL;
		q->ring->sq[3].lkey = FX_T_KEY;
		fill(q, "tx_data tx_writes");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->writes.n), 5);
		fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = 0;
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN)], FX_PSN);
		fx_tx_set(q, &tx);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_DROP);
		expect_counters("drop.fill");
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
		assert_int_equal(q->ring->tx_err_ssn, 3);
		assert_int_equal(q->ring->sq_done, 0);
	}
}

/* The doorbell's own frame carries a few; for more there are others. */
static void join__bell(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t n = 2; n <= 4; n++) {
			start(q, FX_FULL);
			post(q, n);
			doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, fx_hl(q) + 30);
			assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
			expect_counters("doorbell inplace tx_data tx_writes");
			sent(q, FX_PSN, 0, n, WEFT_F_LAST);
		}
		start(q, FX_FULL);
		post(q, 5);
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, fx_hl(q) + 30);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell spawned");
		start(q, FX_FULL);
		post(q, 33);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell spawned=4");
		/* a large one at the end, and all may be */
		fx_post(q, 0, 0, 10000);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell spawned=32");
	}
}

const struct CMUnitTest fx_tests_join[] = {
	FX_TEST(join__fills),
	FX_TEST(join__room),
	FX_TEST(join__who_may_not),
	FX_TEST(join__again),
	FX_TEST(join__too_late),
	FX_TEST(join__claimed),
	FX_TEST(join__complete),
	FX_TEST(join__local_error),
	FX_TEST(join__memory_gone),
	FX_TEST(join__bell),
	FX_END,
};
