// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Telemetry of the programs: what each packet counts in the histograms, and which events it notes. */
#include <sys/mman.h>

#include "fixture.h"

static struct frame f;
static struct weft_tele *tele;

static struct weft_tele *tele_of(const struct fx_qp *q)
{
	return &tele[q->slot];
}

static void clear(void)
{
	size_t len = sizeof(*tele) * WEFT_QPS;

	if (!tele)
		tele = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fx_map_fd("qptele"), 0);
	assert_true(tele != MAP_FAILED);
	memset(tele, 0, len);
	fx_reset(NULL);
}

static uint64_t rtts(const struct fx_qp *q)
{
	uint64_t n = 0;

	for (int i = 0; i < WEFT_TELE_LANES; i++)
		n += weft_hist_count(&tele_of(q)->rtt[i]);
	return n;
}

/* Those that can have begun at `ts` and ended in the last run. */
static uint64_t between(const struct weft_hist *h, uint32_t ts)
{
	uint64_t n = 0;

	for (uint32_t i = weft_hist_at(fx.t0 - ts); i <= weft_hist_at(fx.t1 - ts); i++)
		n += h->n[i];
	return n;
}

static void expect_event(const struct fx_qp *q, unsigned i, int kind, uint32_t a, uint32_t b)
{
	const struct weft_trace_rec *r = &tele_of(q)->trace.rec[i];

	assert_int_equal(r->kind, kind);
	assert_int_equal(r->a, a);
	assert_int_equal(r->b, b);
	assert_int_equal(r->count, 1);
	assert_true((uint32_t)(r->t >> WEFT_TS_SHIFT) - fx.t0 <= fx.t1 - fx.t0);
}

/* The ACK of PSN FX_PSN + i, and of all before it, whose packet was sent at ts. */
static void ack(struct fx_qp *q, uint32_t i, uint32_t ts)
{
	struct pkt p;

	pkt_ack(&p, q->peer, FX_PSN + i, FX_PSN + i + 1, i + 1);
	p.h.ts = htonl(ts);
	pkt_frame(&p, &f);
	fx_run(FX_NIC, &f);
}

/* A run that does nothing, so that fx.t1 is now. */
static void tick(struct fx_qp *q)
{
	doorbell_frame(&f, WEFT_DB_LOOK, q->ctl->qpn, 60);
	fx_run(FX_DB, &f);
}

/* n messages of one packet that were posted `age` ticks ago, all sent. */
static uint32_t send_posted(struct fx_qp *q, int n, uint32_t age)
{
	uint32_t ts = 0;

	for (int i = 0; i < n; i++) {
		fx_post(q, 0, 0, 100);
		q->ring->sq[i].posted = age ? fx.t1 - age : 0;
	}
	for (int i = 0; i < n; i++)
		ts = fx_fill(q);
	return ts;
}

/* An ACK that completes something is a round trip, as is one in 8 of the others; every WRITE has its time. */
static void tele__ack_counts(void **state)
{
	static const int ns[] = { 1, 2, 7, 64 };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
			const struct weft_tele *t;
			uint32_t posted, ts;

			clear();
			t = tele_of(q);
			tick(q);
			posted = fx.t1 - WEFT_TICKS_US(500000);
			send_posted(q, ns[i], WEFT_TICKS_US(500000));
			ts = fx.t1 - WEFT_TICKS_US(80000);
			ack(q, ns[i] - 1, ts);
			assert_int_equal(rtts(q), 1);
			assert_int_equal(between(&t->rtt[0], ts) + between(&t->rtt[1], ts), 1);
			assert_int_equal(weft_hist_count(&t->lat), ns[i]);
			assert_int_equal(between(&t->lat, posted), ns[i]);
			assert_true((t->lane[0].last_ack | t->lane[1].last_ack) - fx.t0 <=
				    fx.t1 - fx.t0);
			assert_int_equal(t->first, 1);
			expect_event(q, 0, WEFT_TRACE_first_ack, FX_PSN + ns[i] - 1,
				     t->trace.rec[0].b);
			assert_int_equal(t->trace.head, 1);
			/* the same again: nothing is complete with it, and it is not the first */
			fx_run(FX_NIC, &f);
			assert_int_equal(rtts(q), (FX_PSN + ns[i] - 1) % 8 ? 1 : 2);
			assert_int_equal(weft_hist_count(&t->lat), ns[i]);
			assert_int_equal(t->trace.head, 1);
		}
	}
}

/* What an application may write as the time of a post, and a peer as the time of a packet. */
static void tele__nonsense_is_left_out(void **state)
{
	struct fx_qp *q = &fx.qp[A4];

	(void)state;
	clear();
	tick(q);
	send_posted(q, 3, 0);
	ack(q, 0, fx.t1);
	assert_int_equal(weft_hist_count(&tele_of(q)->lat), 0);
	clear();
	tick(q);
	send_posted(q, 3, -WEFT_TICKS_US(1000000)); /* to come */
	ack(q, 2, fx.t1 - WEFT_TICKS_US(11000000));
	assert_int_equal(weft_hist_count(&tele_of(q)->lat), 0);
	assert_int_equal(rtts(q), 0);
	/* an ACK of what was never sent */
	ack(q, 9, -100);
	assert_int_equal(rtts(q), 0);
}

static void tele__off(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct pkt p;

	(void)state;
	clear();
	fx.cfg->flags |= WEFT_DEV_NO_TELE;
	tick(q);
	send_posted(q, 1, 1000);
	ack(q, 0, fx.t1);
	assert_int_equal(rtts(q) + weft_hist_count(&tele_of(q)->lat), 0);
	pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
	pkt_frame(&p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	memcpy(fx.want + FX_T_OFF, random_bytes(1), 100);
	assert_int_equal(tele_of(q)->lane[0].rx_bytes + tele_of(q)->lane[1].rx_bytes, 0);
	assert_int_equal(tele_of(q)->trace.head, 0);
	/* but the trace of what goes wrong is kept */
	send_posted(q, 1, 1000);
	pkt_nak(&p, q->peer, FX_PSN + 1, WEFT_NAK_CLOSED);
	p.h.nak.psn = htonl(FX_PSN + 1);
	pkt_frame(&p, &f);
	fx_run(FX_NIC, &f);
	expect_event(q, 0, WEFT_TRACE_nak, WEFT_NAK_CLOSED, FX_PSN + 1);
}

/* Payload placed counts once, a duplicate not at all. */
static void tele__bytes_received(void **state)
{
	(void)state;
	BOTH(q)
	{
		const struct weft_tele *t;
		struct pkt p;

		clear();
		t = tele_of(q);
		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 1000);
		pkt_frame(&p, &f);
		for (int i = 0; i < 2; i++)
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		memcpy(fx.want + FX_T_OFF, random_bytes(1), 1000);
		assert_int_equal(t->lane[0].rx_bytes + t->lane[1].rx_bytes, 1000);
	}
}

static void tele__refusals(void **state)
{
	struct fx_qp *q = &fx.qp[A6];
	struct pkt p;

	(void)state;
	clear();
	pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
	p.h.data.rkey = htonl(4711);
	pkt_frame(&p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_event(q, 0, WEFT_TRACE_refused, WEFT_NAK_KEY, FX_PSN);
	/* the peer goes on for long: once is enough */
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	assert_int_equal(tele_of(q)->trace.head, 1);
	assert_int_equal(tele_of(q)->trace.rec[0].count, 1);
	clear();
	send_posted(q, 2, 0);
	pkt_nak(&p, q->peer, FX_PSN + 1, WEFT_NAK_BOUNDS);
	p.h.nak.psn = htonl(FX_PSN + 1);
	pkt_frame(&p, &f);
	fx_run(FX_NIC, &f);
	expect_event(q, 0, WEFT_TRACE_nak, WEFT_NAK_BOUNDS, FX_PSN + 1);
}

static void tele__source_out_of_reach(void **state)
{
	struct fx_qp *q = &fx.qp[A4];

	(void)state;
	clear();
	fx_post(q, FX_S_LEN, 0, 100);
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	fx_run(FX_FILL, &f);
	expect_event(q, 0, WEFT_TRACE_local, 0, 0);
}

static void tele__dead_owner(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	struct pkt p;

	(void)state;
	clear();
	fx_kill_owner();
	pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(1), 100);
	pkt_frame(&p, &f);
	expect_drop(&f, "drop.owner");
	expect_event(q, 0, WEFT_TRACE_owner, 0, 0);
	expect_drop(&f, "drop.owner");
	assert_int_equal(tele_of(q)->trace.head, 1);
	assert_int_equal(tele_of(q)->trace.rec[0].count, 2);
}

/* The timer finds a packet of 300 ms ago, and it goes out again. */
static void tele__time_out(void **state)
{
	struct fx_qp *q = &fx.qp[A4];
	const struct weft_trace_rec *r;
	static struct weft_tx tx;

	(void)state;
	clear();
	r = tele_of(q)->trace.rec;
	tick(q);
	send_posted(q, 2, 0);
	fx_tx_get(q, &tx);
	for (uint32_t i = 0; i < 2; i++)
		tx.slot[weft_tx_at(FX_PSN + i)].ts = fx.t1 - WEFT_TICKS_US(300000);
	fx_tx_set(q, &tx);
	doorbell_frame(&f, WEFT_DB_LOOK, q->ctl->qpn, 60);
	fx_run(FX_DB, &f);
	assert_int_equal(r[0].kind, WEFT_TRACE_rto);
	assert_int_equal(r[0].x, 1);
	assert_int_equal(r[0].a, FX_PSN);
	assert_in_range(r[0].b, 300000, 9000000);
	assert_int_equal(r[0].c, 2);
	fx_fill(q);
	expect_event(q, 1, WEFT_TRACE_retx, FX_PSN, FX_PSN);
	fx_fill(q);
	assert_int_equal(r[1].count, 2);
	assert_int_equal(r[1].a, FX_PSN);
	assert_int_equal(r[1].b, FX_PSN + 1);
	assert_int_equal(tele_of(q)->trace.head, 2);
}

const struct CMUnitTest fx_tests_tele[] = {
	FX_TEST(tele__ack_counts),
	FX_TEST(tele__nonsense_is_left_out),
	FX_TEST(tele__off),
	FX_TEST(tele__bytes_received),
	FX_TEST(tele__refusals),
	FX_TEST(tele__source_out_of_reach),
	FX_TEST(tele__dead_owner),
	FX_TEST(tele__time_out),
	FX_END,
};
