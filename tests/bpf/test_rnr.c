// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The requester when the peer has no receive: what waits, what does not, RESUME and probe. */
#include <stdio.h>

#include "fixture.h"

static struct frame f, want;

static uint32_t fill(const struct fx_qp *q, int verdict, const char *counters)
{
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), verdict);
	expect_counters(counters);
	return ntohl(frame_hdr(&fx.out)->ts);
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

static void arrives(struct pkt *p, uint32_t ts, int verdict, const char *counters)
{
	if (ts)
		p->h.ts = htonl(ts);
	pkt_frame(p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), verdict);
	expect_counters(counters);
}

/* The RNR to packet n of q, which was sent at ts. */
static void refused(const struct fx_qp *q, uint32_t n, uint32_t ts, uint32_t epoch, int verdict,
		    const char *counters)
{
	struct pkt p;

	pkt_rnr(&p, q->peer, FX_PSN + n, epoch);
	p.h.ack.cum = htonl(FX_PSN);
	arrives(&p, ts, verdict, counters);
}

/* Its RESUME. */
static void resumed(const struct fx_qp *q, uint32_t epoch, int verdict, const char *counters)
{
	struct pkt p;

	pkt_resume(&p, q->peer, epoch);
	arrives(&p, 0, verdict, counters);
}

/* Answers may come in any order: nothing is taken for lost by that. */
static void patient(const struct fx_qp *q)
{
	static struct weft_tx tx;

	fx_tx_get(q, &tx);
	tx.rtt.srtt8 = 8 * WEFT_TICKS_US(100000);
	fx_tx_set(q, &tx);
}

/* q waits for a receive since `ago` microseconds: n SENDs are out, all are refused at this epoch. */
static uint32_t wait_for(struct fx_qp *q, uint32_t n, uint32_t epoch, uint32_t ago)
{
	static struct weft_tx tx;
	uint32_t ts = 0;

	for (uint32_t i = 0; i < n; i++) {
		fx_post_send(q, 100 * i, 100);
		ts = fx_fill(q);
	}
	for (uint32_t i = 0; i < n; i++)
		refused(q, i, ts, epoch, XDP_DROP, "rx_ack rx_rnr absorbed");
	fx_tx_get(q, &tx);
	tx.rnr_ts -= WEFT_TICKS_US(ago);
	fx_tx_set(q, &tx);
	return ts;
}

static void again(const struct fx_qp *q, uint32_t n, uint8_t ev)
{
	struct pkt p;

	pkt_send(&p, q, FX_PSN + n, n, fx.source + FX_S_OFF + 100 * n, 100);
	p.h.flags |= WEFT_F_RETX;
	p.h.ev = ev;
	p.h.data.msn = htonl(n);
	sent(q, &p);
}

/* Nobody is blamed; it waits, and nothing behind it goes out, lost or new, whoever asks. */
static void rnr__waits(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts[3];
		struct pkt p;

		for (int i = 0; i < 3; i++) {
			fx_post_send(q, 100 * i, 100);
			ts[i] = fx_fill(q);
		}
		patient(q);
		for (uint32_t i = 3; i--;) {
			struct weft_path path = TX_AFTER(q)->path;

			refused(q, i, ts[i], 7, XDP_DROP, "rx_ack rx_rnr absorbed");
			expect_bytes(&TX_AFTER(q)->path, &path, sizeof(path));
			assert_int_equal(TX_AFTER(q)->nlost, 3 - i);
			assert_int_equal(TX_AFTER(q)->inflight, i);
			assert_int_equal(TX_AFTER(q)->losses, 0);
			assert_int_equal(TX_AFTER(q)->surplus, 0);
			assert_int_equal(TX_AFTER(q)->una, FX_PSN);
			assert_int_equal(TX_AFTER(q)->rnr, 1);
			assert_int_equal(TX_AFTER(q)->epoch, 7);
			assert_int_equal(q->ring->tx_rnr, 1);
			assert_int_equal(q->ring->tx_rnrs, 3 - i);
			assert_int_equal(q->ring->sq_done, 0);
			fx_books(i, i != 0, -1);
		}
		assert_int_equal(q->ring->hint, 1);
		/* a clone, posts, a token that comes home, an ACK that says nothing of receives */
		fill(q, XDP_DROP, "drop.template");
		fx_post_send(q, 300, 100);
		fx_post(q, 0, 0, 64);
		fill(q, XDP_DROP, "drop.template");
		assert_int_equal(fx_ring(q, WEFT_DB_POST), XDP_DROP);
		expect_counters("doorbell absorbed");
		refused(q, 1, ts[1], 7, XDP_DROP, "rx_ack rx_rnr surplus absorbed");
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN, 0);
		p.h.op = WEFT_OP_RNR;
		p.h.flags = WEFT_F_RQ;
		p.h.ack.epoch =
			htonl(6); /* reordered: it is old news, and of no use to what waits */
		arrives(&p, fx.t1, XDP_DROP, "rx_ack rx_rnr surplus absorbed");
		assert_int_equal(TX_AFTER(q)->rnr, 1);
		assert_int_equal(TX_AFTER(q)->epoch, 7);
		assert_int_equal(TX_AFTER(q)->nlost, 3);
		assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + 3);
	}
}

/* What is before the refused one is repaired meanwhile. */
static void rnr__repairs_what_is_before(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;
		uint32_t ts;
		struct pkt p;

		fx_post(q, 0, 0, 50);
		fx_fill(q);
		fx_post_send(q, 100, 100);
		ts = fx_fill(q);
		patient(q);
		refused(q, 1, ts, 1, XDP_DROP, "rx_ack rx_rnr absorbed");
		fx_tx_get(q, &tx);
		weft_tx_convict(&tx, &tx.slot[weft_tx_at(FX_PSN)], FX_PSN);
		fx_tx_set(q, &tx);
		ts = fill(q, XDP_PASS, "tx_data tx_retx");
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN);
		fill(q, XDP_DROP, "drop.template");
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 1);
		arrives(&p, ts, XDP_DROP, "rx_ack absorbed");
		assert_int_equal(q->ring->sq_done, 1);
		assert_int_equal(q->ring->tx_rnr, 1);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* A RESUME starts what waits, as a doorbell would: a clone for each. What is no news starts nothing. */
static void rnr__resume(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t base = q->v6 ? 0xfffffffe : 5; /* counts wrap */

		wait_for(q, 4, base, 0);
		resumed(q, base, XDP_DROP, "rx_resume doorbell absorbed");
		resumed(q, base - 1, XDP_DROP, "rx_resume doorbell absorbed");
		assert_int_equal(q->ring->tx_rnr, 1);
		resumed(q, base + 3, XDP_REDIRECT, "rx_resume doorbell spawned=4");
		expect_template(q, WEFT_DB_FILL);
		assert_int_equal(TX_AFTER(q)->rnr, 0);
		assert_int_equal(TX_AFTER(q)->epoch, base + 3);
		assert_int_equal(q->ring->tx_rnr, 0);
		for (uint32_t i = 0; i < 4; i++) {
			fill(q, XDP_PASS, "tx_data tx_retx");
			again(q, i, 4 + i);
		}
		fill(q, XDP_DROP, "drop.template");
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* With nothing to send, and to a QP in error, it is nothing. */
static void rnr__resume_for_nothing(void **state)
{
	(void)state;
	BOTH(q)
	{
		resumed(q, 9, XDP_DROP, "rx_resume doorbell absorbed");
		fx_books(0, 0, -1);
		/* nor is it an answer: it has no PSN */
		assert_int_equal(TX_AFTER(q)->una, FX_PSN);
		assert_int_equal(TX_AFTER(q)->rtt.srtt8, 0);
	}
}

/* It overtakes the RNR that it belongs to: the frame of that takes the packet along again at once. */
static void rnr__after_its_resume(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts;

		fx_post_send(q, 0, 100);
		ts = fx_fill(q);
		resumed(q, 4, XDP_DROP, "rx_resume doorbell absorbed");
		refused(q, 0, ts, 3, XDP_TX, "rx_ack rx_rnr tx_data tx_retx");
		again(q, 0, 1);
		assert_int_equal(q->ring->tx_rnr, 0);
		/* and of a second refusal it knows nothing */
		refused(q, 0, ntohl(frame_hdr(&fx.out)->ts), 4, XDP_DROP, "rx_ack rx_rnr absorbed");
		assert_int_equal(q->ring->tx_rnr, 1);
		resumed(q, 5, XDP_REDIRECT, "rx_resume doorbell spawned");
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* The first that it hears of a queue that is older than the QP, at any count: no packet goes for nothing. */
static void rnr__old_queue(void **state)
{
	static const uint32_t epochs[] = { 0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff };

	(void)state;
	BOTH(q)
	for (int i = 0; i < 6; i++) {
		fx_qp_init(q, FX_PSN, FX_FULL);
		wait_for(q, 1, epochs[i], 0);
		assert_int_equal(q->ring->tx_rnr, 1);
		resumed(q, epochs[i] + 1, XDP_REDIRECT, "rx_resume doorbell spawned");
		assert_int_equal(q->ring->tx_rnr, 0);
	}
}

/* Answers to others tell of receives as well: the token of such goes on with what waits. */
static void rnr__an_ack_resumes(void **state)
{
	(void)state;
	BOTH(q)
	for (int way = 0; way < 3; way++) {
		uint32_t ts[2];
		struct pkt p;

		fx_reset(NULL);
		q->ctl->cwnd = 2;
		for (int i = 0; i < 2; i++) {
			fx_post_send(q, 100 * i, 100);
			ts[i] = fx_fill(q);
		}
		refused(q, 0, ts[0], 1, XDP_DROP, "rx_ack rx_rnr absorbed");
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN, 0);
		p.h.ack.sack = htobe64(weft_psn_bit(FX_PSN + 1));
		p.h.ack.epoch = htonl(way ? 2 : 1);
		/* without the flag the field says nothing */
		p.h.flags = way == 1 ? 0 : WEFT_F_RQ;
		if (way == 2) {
			arrives(&p, ts[1], XDP_TX, "rx_ack tx_data tx_retx");
			again(q, 0, 2);
		} else {
			arrives(&p, ts[1], XDP_DROP, "rx_ack absorbed");
		}
		assert_int_equal(q->ring->tx_rnr, way != 2);
	}
}

/* What was refused has been taken after all, as the cumulative PSN of another's answer tells: the timer need not ask. */
static void rnr__an_ack_ends_it(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ts[2];
		struct pkt p;

		fx_reset(NULL);
		for (int i = 0; i < 2; i++) {
			fx_post_send(q, 100 * i, 100);
			ts[i] = fx_fill(q);
		}
		refused(q, 0, ts[0], 1, XDP_DROP, "rx_ack rx_rnr absorbed");
		assert_int_equal(q->ring->tx_rnr, 1);
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN + 2, 2);
		arrives(&p, ts[1], XDP_DROP, "rx_ack absorbed");
		assert_int_equal(q->ring->sq_done, 2);
		assert_int_equal(q->ring->tx_rnr, 0);
	}
}

/*
 * LOOK, `us` microseconds after the last attempt, is too early when the next is due after `due`. Where
 * a busy machine is late with it, it is done again.
 */
static void too_early(const struct fx_qp *q, uint32_t us, uint32_t due)
{
	static struct weft_tx tx, was;

	fx_tx_get(q, &was);
	do {
		tx = was;
		tx.rnr_ts = fx.t1 - WEFT_TICKS_US(us);
		fx_tx_set(q, &tx);
		fx_ring(q, WEFT_DB_LOOK);
	} while (fx.t1 - tx.rnr_ts >= WEFT_TICKS_US(due));
	assert_int_equal(fx.verdict, XDP_DROP);
	expect_counters("doorbell absorbed");
}

/* Should the RESUME get lost: one packet, in growing intervals, on the timer's word alone. */
static void rnr__probe(void **state)
{
	(void)state;
	BOTH(q)
	{
		static struct weft_tx tx;

		wait_for(q, 2, 1, 0);
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t ts, shift = i < 5 ? i : 5;

			too_early(q, 1000u << shift, 2000u << shift);
			fx_tx_get(q, &tx);
			tx.rnr_ts -= WEFT_TICKS_US(1000u << shift);
			fx_tx_set(q, &tx);
			/* posts are no clock */
			assert_int_equal(fx_ring(q, WEFT_DB_POST), XDP_DROP);
			assert_int_equal(fx_ring(q, WEFT_DB_LOOK), XDP_REDIRECT);
			expect_counters("doorbell spawned");
			assert_int_equal(q->ring->tx_probes, i + 1);
			ts = fill(q, XDP_PASS, "tx_data tx_retx");
			again(q, 0, (2 + i) % WEFT_EVS_DEFAULT);
			fill(q, XDP_DROP, "drop.template");
			refused(q, 0, ts, 1, XDP_DROP, "rx_ack rx_rnr absorbed");
			fx_tx_get(q, &tx);
			assert_int_equal(tx.losses, 0);
		}
		/* that a receive was taken counts as an answer, and the next probe is early again */
		resumed(q, 2, XDP_REDIRECT, "rx_resume doorbell spawned=2");
		assert_int_equal(q->ring->tx_probes, 0);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* The probe is taken: nobody waits any more, even if it told of no new receive. */
static void rnr__probe_is_taken(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;
		uint32_t ts;

		q->ctl->cwnd = 1;
		wait_for(q, 1, 1, 2100);
		fx_post_send(q, 100, 100);
		assert_int_equal(fx_ring(q, WEFT_DB_LOOK), XDP_REDIRECT);
		ts = fill(q, XDP_PASS, "tx_data tx_retx");
		q->ctl->cwnd = 2; /* what is new waits for the probe */
		assert_int_equal(fx_ring(q, WEFT_DB_POST), XDP_DROP);
		fill(q, XDP_DROP, "drop.template");
		q->ctl->cwnd = 1;
		pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 1);
		p.h.flags = WEFT_F_RQ;
		p.h.ack.epoch = htonl(1);
		arrives(&p, ts, XDP_TX, "rx_ack tx_data");
		assert_int_equal(q->ring->tx_rnr, 0);
		assert_int_equal(q->ring->tx_probes, 0);
		assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN + 1);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* Of what is delivered, or was never sent, it says nothing; nor does one that cannot be. */
static void rnr__unsent(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;
		uint32_t ts;

		for (int i = 0; i < 2; i++) {
			fx_post_send(q, 100 * i, 100);
			ts = fx_fill(q);
		}
		for (int way = 0; way < 5; way++) {
			pkt_rnr(&p, q->peer, FX_PSN + (way == 0 ? 2 : 0), 1);
			p.h.ack.cum = htonl(FX_PSN + (way == 1 ? 3 : 0));
			p.h.ack.msn = htonl(way == 2 ? 3 : way == 3 ? 0x7fffffff : 0);
			p.h.ack.sack_base = htonl((FX_PSN & ~63u) + (way == 4));
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.unsent");
		}
		patient(q);
		/* it is taken, and a stray copy's RNR comes after that */
		pkt_ack(&p, q->peer, FX_PSN + 1, FX_PSN, 0);
		p.h.ack.sack = htobe64(weft_psn_bit(FX_PSN + 1));
		arrives(&p, ts, XDP_DROP, "rx_ack absorbed");
		refused(q, 1, ts, 1, XDP_DROP, "rx_ack rx_rnr surplus absorbed");
		assert_int_equal(TX_AFTER(q)->nlost, 0);
		assert_int_equal(q->ring->tx_rnr, 0);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

const struct CMUnitTest fx_tests_rnr[] = {
	FX_TEST(rnr__waits),
	FX_TEST(rnr__repairs_what_is_before),
	FX_TEST(rnr__resume),
	FX_TEST(rnr__resume_for_nothing),
	FX_TEST(rnr__after_its_resume),
	FX_TEST(rnr__old_queue),
	FX_TEST(rnr__an_ack_resumes),
	FX_TEST(rnr__an_ack_ends_it),
	FX_TEST(rnr__probe),
	FX_TEST(rnr__probe_is_taken),
	FX_TEST(rnr__unsent),
	FX_END,
};
