// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Clones on their way out: claim a segment, fill the frame with it, or die harmlessly. */
#include "fixture.h"

static struct frame f;

static void fill(const struct fx_qp *q, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), verdict);
	expect_counters(counters);
}

/* Headers, payload, checksum, and the state that says a token is out. */
static void fill__frame(void **state)
{
	static const uint32_t lens[] = { 0,   1,   2,    3,    5,    64,   255,  511,
					 512, 999, 1024, 2047, 2048, 3071, 3327, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint32_t n = lens[i];

			fx_post(q, 100 + i, 7 * i, n);
			fill(q, XDP_PASS, "tx_data");
			expect_sent(q, .loff = 100 + i, .roff = 7 * i, .psn = FX_PSN + i, .msn = i,
				    .len = n, .mlen = n, .flags = WEFT_F_LAST, .ev = i % 16);
			assert_true(q->v6 ? pkt_csum_ok(&fx.out) : !fx.out.b[40] && !fx.out.b[41]);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + i + 1);
			assert_int_equal(TX_AFTER(q)->una, FX_PSN);
			assert_int_equal(TX_AFTER(q)->cons, i + 1);
			assert_int_equal(TX_AFTER(q)->inflight, i + 1);
			assert_int_equal(fx.after.run.dom[0].inflight, i + 1);
			assert_int_equal(fx.after.run.active, 1);
			assert_int_equal(q->ring->hint, 1);
			assert_int_equal(q->ring->sq_done, 0);
		}
		memset(fx.run, 0, sizeof(*fx.run));
	}
	expect_pools();
}

/* IPv4 sums only when the QP asks for it. */
static void fill__v4_csum(void **state)
{
	struct fx_qp *q = &fx.qp[A4];

	(void)state;
	q->ctl->flags |= WEFT_QPF_CSUM;
	for (uint32_t n = 3200; n <= FX_FULL; n++) {
		fx_qp_init(q, FX_PSN, FX_FULL);
		fx_post(q, n, 0, n);
		fill(q, XDP_PASS, "tx_data");
		expect_sent(q, .loff = n, .psn = FX_PSN, .len = n, .mlen = n, .flags = WEFT_F_LAST);
		assert_true(pkt_csum_ok(&fx.out));
	}
}

/* The source lies over the boundary of two chunks. */
static void fill__straddles(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const uint32_t split[] = { 0,    1,    2,    100,  1664, 3326,
						  3327, 3328, 4095, 4096, 4097 };

		for (uint32_t i = 0; i < sizeof(split) / sizeof(split[0]); i++) {
			uint64_t loff = WEFT_CHUNK - FX_S_OFF - split[i];

			fx_qp_init(q, FX_PSN, FX_FULL);
			fx_post(q, loff, 3, FX_FULL);
			fill(q, XDP_PASS, "tx_data");
			expect_sent(q, .loff = loff, .roff = 3, .psn = FX_PSN, .len = FX_FULL,
				    .mlen = FX_FULL, .flags = WEFT_F_LAST);
		}
	}
}

/* A message in segments; the token after the last finds nothing. */
static void fill__segments(void **state)
{
	(void)state;
	BOTH(q)
	{
		const uint32_t payload = 1408, len = 2 * 1408 + 77;

		fx_qp_init(q, 0xfffffffeu, payload);
		fx_post(q, 50, 60, len);
		fx_post(q, 0, 0, 10);
		for (uint32_t i = 0; i < 3; i++) {
			fill(q, XDP_PASS, "tx_data");
			expect_sent(q, .loff = 50, .roff = 60, .psn = 0xfffffffeu + i,
				    .moff = i * payload, .len = i < 2 ? payload : 77, .mlen = len,
				    .flags = i < 2 ? 0 : WEFT_F_LAST, .ev = i);
			/* I12: what the application does to the entry now comes too late */
			memset(&q->ring->sq[0], 0xff, sizeof(q->ring->sq[0]));
		}
		fill(q, XDP_PASS, "tx_data");
		expect_sent(q, .psn = 1, .msn = 1, .len = 10, .mlen = 10, .flags = WEFT_F_LAST,
			    .ev = 3);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_DROP);
		expect_counters("drop.template");
		expect_bytes(TX_AFTER(q), TX_BEFORE(q), sizeof(struct weft_tx));
		expect_frame(&f);
	}
}

/*
 * Clones that come too late are dropped, but not the last of several when others
 * went before: the driver would not be told of those.
 */
static void fill__last_goes_out(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct frame want;

		for (int i = 0; i < 4; i++)
			fx_post(q, 0, 0, FX_FULL);
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 60);
		for (int i = 0; i < 2; i++) { /* no memory for the clones of the first */
			assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
			expect_counters("doorbell spawned=4");
		}
		q->ring->sq_prod = 2; /* another CPU takes the rest */
		fill(q, XDP_PASS, "tx_data");
		fill(q, XDP_PASS, "tx_data");
		fill(q, XDP_DROP, "drop.template");
		/* the packet that could not be put into it is nobody's business */
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 400);
		memset(f.b + 60, 0x5a, 340);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("drop.template");
		doorbell_frame(&want, WEFT_DB_FILL, q->ctl->qpn, 60);
		memcpy(want.b, q->ctl->tmpl, 12);
		expect_frame(&want);
		/* once is enough */
		fill(q, XDP_DROP, "drop.template");

		/* none went before */
		q->ring->sq_prod = 4;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		expect_counters("doorbell spawned=2");
		q->ring->sq_prod = 2;
		fill(q, XDP_DROP, "drop.template");
		fill(q, XDP_DROP, "drop.template");

		/* the last has one: then the driver is told */
		q->ring->sq_prod = 4;
		doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 60);
		assert_int_equal(fx_run(FX_DB, &f), XDP_REDIRECT);
		fill(q, XDP_PASS, "tx_data");
		fill(q, XDP_PASS, "tx_data");
		fill(q, XDP_DROP, "drop.template");
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

static void fill__window_full(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;

		fx_post(q, 0, 0, 1 << 20);
		fx_tx_get(q, &tx);
		tx.cc.cwnd = 2;
		fx_tx_set(q, &tx);
		fx_fill_n(q, 2);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
	}
}

/* The devmap program sees all that is redirected to the NIC, and touches only templates. */
static void fill__not_a_template(void **state)
{
	struct weft_db db = { .magic = WEFT_DB_MAGIC, .op = WEFT_DB_FILL };
	struct pkt p;

	(void)state;
	BOTH(q)
	{
		fx_post(q, 0, 0, 10);
		db.qpn = q->ctl->qpn;
		pkt_data(&p, q, FX_PSN, 0, random_bytes(1), 10);
		pkt_frame(&p, &f);
		expect_inert(FX_FILL, &f, XDP_PASS, "");
		memcpy(f.b + 14, &db, sizeof(db)); /* the right bytes under another ethertype */
		expect_inert(FX_FILL, &f, XDP_PASS, "");
		doorbell_frame(&f, WEFT_DB_FILL, db.qpn, 60);
		f.b[14] ^= 1;
		expect_inert(FX_FILL, &f, XDP_PASS, "");
		doorbell_frame(&f, WEFT_DB_FILL, db.qpn, 14 + sizeof(db) - 1);
		expect_inert(FX_FILL, &f, XDP_PASS, "");
		for (int op = 0; op < 6; op++) {
			if (op == WEFT_DB_FILL)
				continue;
			doorbell_frame(&f, op, db.qpn, 60);
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		}
	}
}

static void fill__no_qp(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t qpn = q->ctl->qpn;

		fx_reset(NULL);
		fx_post(q, 0, 0, 10);
		for (int bit = 0; bit < 32; bit++) { /* no slot, or another generation */
			doorbell_frame(&f, WEFT_DB_FILL, qpn ^ 1u << bit, 60);
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		}
		doorbell_frame(&f, WEFT_DB_FILL, qpn, 60);
		for (uint32_t st = 0; st <= WEFT_QP_CLOSED; st++) {
			if (st == WEFT_QP_RTS)
				continue;
			q->ctl->state = st;
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		}
		q->ctl->state = WEFT_QP_RTS;
		q->ctl->ring = WEFT_PROC_QPS;
		expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		q->ctl->ring = q->slot;
		fx_kill_owner();
		expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
	}
}

/* The work request fails with a local error; nothing leaves, now or later. */
static void local_error_key(struct fx_qp *q, uint32_t lkey, uint64_t loff, uint32_t len)
{
	uint32_t qpn, kind, at = 0;

	fx_qp_init(q, FX_PSN, len > FX_FULL ? len : FX_FULL);
	fx_post(q, loff, 0, len);
	q->ring->sq[0].lkey = lkey;
	q->ring->arm_tx = 1;
	fill(q, XDP_DROP, "drop.fill event");
	assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_LOCAL);
	assert_int_equal(TX_AFTER(q)->err_ssn, 0);
	assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_LOCAL);
	assert_int_equal(q->ring->tx_err_ssn, 0);
	assert_int_equal(q->ring->sq_done, 0);
	assert_int_equal(q->ring->arm_tx, 0);
	assert_int_equal(fx_events(&qpn, &kind), 1);
	assert_int_equal(qpn, q->ctl->qpn);
	assert_int_equal(kind, WEFT_EVENT_TX);
	/* no byte of memory in what is dropped, nor in what a driver would see of it: the template, aligned */
	while (!fx.out.b[at] && at < 64)
		at++;
	expect_bytes(fx.out.b + at, f.b, 60);
	for (uint32_t i = at + 60; i < fx.out.len; i++)
		assert_int_equal(fx.out.b[i], 0);
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
}

static void local_error(struct fx_qp *q, uint64_t loff, uint32_t len)
{
	local_error_key(q, FX_S_KEY, loff, len);
}

static void fill__local_errors(void **state)
{
	struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_S_KEY)], good;

	(void)state;
	BOTH(q)
	{
		fx_reset(NULL);
		good = *mr;
		mr->key ^= 1u << 12;
		local_error(q, 0, 100);
		mr->key = 0;
		local_error(q, 0, 100);
		fx.mr[0] = *mr; /* key 0 names entry 0, which is free */
		local_error_key(q, 0, 0, 100);
		*mr = good;
		for (int bit = 0; bit < 32; bit++) {
			mr->pd = good.pd ^ 1u << bit;
			local_error(q, 0, 100);
		}
		*mr = good;
		mr->rights = ~WEFT_ACCESS_LOCAL;
		local_error(q, 0, 100);
		*mr = good;
		local_error(q, FX_S_LEN, 1);
		local_error(q, FX_S_LEN - 99, 100);
		local_error(q, FX_S_LEN + 1, 0);
		local_error(q, ~0ull, 100);
		local_error(q, 0 - 100ull, 100);
		local_error(q, 1ull << 63, 1);
		local_error(q, 0, FX_FULL + 1); /* no such segment on any path */
		mr->len = 1ull << 40;           /* a table that points behind its pool */
		local_error(q, FX_POOL - FX_S_OFF, 100);
		*mr = good;
		fx_pool_remove(FX_POOL_S);
		local_error(q, 0, 100);
		local_error(q, WEFT_CHUNK - FX_S_OFF - 50, 100);
	}
}

/* And what is just within is sent. */
static void fill__bounds(void **state)
{
	(void)state;
	BOTH(q)
	{
		static const uint32_t lens[] = { 0, 1, 100, FX_FULL };

		for (uint32_t i = 0; i < 4; i++) {
			fx_post(q, FX_S_LEN - lens[i], 0, lens[i]);
			fill(q, XDP_PASS, "tx_data");
			expect_sent(q, .loff = FX_S_LEN - lens[i], .psn = FX_PSN + i, .msn = i,
				    .len = lens[i], .mlen = lens[i], .flags = WEFT_F_LAST, .ev = i);
		}
	}
}

/* The rings are the application's: whatever it writes there costs only its own QP. */
static void fill__corrupt_ring(void **state)
{
	static const uint32_t ahead[] = { WEFT_SQ_DEPTH + 1, 1000, 0x7fffffff };
	static const uint32_t behind[] = { 0xffffffff, 0x80000000 };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
			fx_qp_init(q, FX_PSN, FX_FULL);
			fx_post(q, 0, 0, 10);
			q->ring->sq_prod = ahead[i];
			fill(q, XDP_DROP, "drop.template");
			expect_frame(&f);
			assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN);
			assert_int_equal(TX_AFTER(q)->inflight, 0);
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
			assert_int_equal(q->ring->tx_err_ssn, 0);
		}
		for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
			fx_qp_init(q, FX_PSN, FX_FULL);
			q->ring->sq_prod = behind[i];
			fill(q, XDP_DROP, "drop.template");
			expect_frame(&f);
			expect_bytes(TX_AFTER(q), TX_BEFORE(q), sizeof(struct weft_tx));
		}
		fx_qp_init(q, FX_PSN, FX_FULL);
		fx_post(q, 0, 0, WEFT_MSG_MAX + 1);
		fill(q, XDP_DROP, "drop.template");
		expect_frame(&f);
		assert_int_equal(TX_AFTER(q)->err, WEFT_TX_ERR_RING);
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
	}
}

/* Whoever finds the send queue corrupt ends the QP, and tells a sleeping application. */
static void fill__corrupt_ring_wakes(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int way = 0; way < 3; way++) {
			struct pkt p;
			uint32_t ts = 0;

			fx_reset(NULL);
			q->ctl->cwnd = 2;
			fx_post(q, 0, 0, way == 2 ? 2 * FX_FULL : 10);
			if (way == 2) {
				ts = fx_fill(q);
				fx_fill(q);
			}
			q->ring->sq_prod = 100000;
			q->ring->arm_tx = 1;
			switch (way) {
			case 0: fill(q, XDP_DROP, "drop.template event"); break;
			case 1:
				fx_qp_init(q, FX_PSN, FX_FULL);
				fx_post(q, 0, 0, WEFT_MSG_MAX + 1);
				q->ring->arm_tx = 1;
				doorbell_frame(&f, WEFT_DB_POST, q->ctl->qpn, 4000);
				assert_int_equal(fx_run(FX_DB, &f), XDP_DROP);
				expect_counters("doorbell absorbed event");
				break;
			default: /* nothing is complete */
				pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 0);
				p.h.ts = htonl(ts);
				pkt_frame(&p, &f);
				assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
				expect_counters("rx_ack absorbed event");
			}
			assert_int_equal(q->ring->tx_err, WEFT_TX_ERR_RING);
			assert_int_equal(q->ring->arm_tx, 0);
			assert_int_equal(fx_events(NULL, NULL), 1);
		}
	}
}

/* A clone for a segment that is claimed already: the same bytes, and no second claim. */
static void fill__claimed(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct weft_db db = { .magic = WEFT_DB_MAGIC, .op = WEFT_DB_FILL, .claimed = 1 };
		static struct weft_tx tx, was;
		struct frame first;

		fx_post(q, 5, 6, 3000);
		fx_fill(q);
		first = fx.out;
		db.qpn = q->ctl->qpn;
		db.psn = FX_PSN;
		doorbell_frame(&f, WEFT_DB_FILL, db.qpn, 60);
		memcpy(f.b + 14, &db, sizeof(db));
		assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
		expect_counters("tx_data");
		expect_frame(&first);
		expect_same();
		/* PSNs that are not out: never sent, or convicted meanwhile */
		for (int i = 0; i < 3; i++) {
			db.psn = FX_PSN + (int[]){ 1, -1, -WEFT_WIN }[i];
			memcpy(f.b + 14, &db, sizeof(db));
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		}
		db.psn = FX_PSN;
		memcpy(f.b + 14, &db, sizeof(db));
		/* delivered meanwhile, by an earlier transmission: the token just leaves the books */
		fx_tx_get(q, &tx);
		was = tx;
		weft_tx_mark(&tx, FX_PSN & ~63u, weft_psn_bit(FX_PSN));
		weft_tx_slide(&tx);
		fx_tx_set(q, &tx);
		assert_int_equal(fx_run(FX_FILL, &f), XDP_DROP);
		expect_counters("drop.template");
		assert_int_equal(TX_AFTER(q)->inflight, 0);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		assert_int_equal(fx.after.run.active, 0);
		fx_tx_set(q, &was);
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN)], FX_PSN);
		fx_tx_set(q, &tx);
		expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

static void fill__sink(void **state)
{
	(void)state;
	BOTH(q)
	{
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		expect_inert(FX_SINK, &f, XDP_DROP, "");
	}
}

const struct CMUnitTest fx_tests_fill[] = {
	FX_TEST(fill__frame),
	FX_TEST(fill__v4_csum),
	FX_TEST(fill__straddles),
	FX_TEST(fill__segments),
	FX_TEST(fill__last_goes_out),
	FX_TEST(fill__window_full),
	FX_TEST(fill__not_a_template),
	FX_TEST(fill__no_qp),
	FX_TEST(fill__local_errors),
	FX_TEST(fill__bounds),
	FX_TEST(fill__corrupt_ring),
	FX_TEST(fill__corrupt_ring_wakes),
	FX_TEST(fill__claimed),
	FX_TEST(fill__sink),
	FX_END,
};
