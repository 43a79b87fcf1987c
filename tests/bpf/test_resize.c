// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* One buffer, DATA and ACK in turn: the frame shrinks and grows at whichever end has the room. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;

/*
 * The kernel gives a test run a page: some 200 bytes of room in front, and all
 * that the frame leaves of 3520 behind.
 */

/* q sends messages of these sizes, one after the other; the first of them is in f. */
static void begin(struct fx_qp *q, const uint32_t *sizes, int n)
{
	fx_reset(NULL);
	q->ctl->cwnd = 1; /* one token, which is never missing another */
	for (int i = 0; i < n; i++)
		fx_post(q, 10000 * i, 5000 * i, sizes[i]);
	fx_fill(q);
	f = fx.out;
}

/* The token goes round: n steps, each at the other end. */
static void weave(struct fx_qp *q, const uint32_t *sizes, int n)
{
	char counters[128];
	int acks = n / 2, placed = (n + 1) / 2;
	uint32_t bytes = 0;

	for (int i = 0; i < placed; i++) {
		memcpy(fx.want + FX_T_OFF + 5000 * i, fx.source + FX_S_OFF + 10000 * i, sizes[i]);
		bytes += sizes[i];
	}
	assert_int_equal(fx_run_n(FX_NIC, &f, n), XDP_TX);
	snprintf(counters, sizeof(counters),
		 "rx_data=%d rx_bytes=%u tx_ack=%d rx_ack=%d tx_data=%d", placed, bytes, placed,
		 acks, acks);
	expect_counters(counters);
	expect_pools();
	if (n % 2)
		assert_int_equal(fx.out.len, frame_hl(&f));
	else
		expect_sent(q, .loff = 10000 * acks, .roff = 5000 * acks, .psn = FX_PSN + acks,
			    .msn = acks, .len = sizes[acks], .mlen = sizes[acks],
			    .flags = WEFT_F_LAST, .ev = acks);
	if (q->v6)
		assert_true(pkt_csum_ok(&fx.out));
}

/* Payload and headers are right at each step, and no byte beside the targets is written. */
static void resize__weave(void **state)
{
	static const uint32_t sizes[] = { FX_FULL, 100, FX_FULL, 1, FX_FULL, 0, 1700, FX_FULL };
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };

	(void)state;
	BOTH(q)
	{
		for (int n = 1; n < 2 * N; n++) {
			begin(q, sizes, N);
			weave(q, sizes, n);
		}
	}
}

/*
 * What tells the ends apart: the next frame fits only where the room was left, or
 * at neither end. Then it is made of a clone, and is the very same packet.
 */
static void resize__which_end(void **state)
{
	static const struct {
		uint32_t n, sizes[4];
		bool fits;
	} cases[] = {
		{ 2, { 255, FX_FULL }, true },  /* behind */
		{ 2, { 256, FX_FULL }, false }, /* in front */
		{ 2, { 1700, FX_FULL }, false },    { 2, { 3000, 3100 }, true },
		{ 3, { 1700, 64, 1880 }, true }, /* behind, and back */
		{ 3, { 1700, 1000, 2500 }, false },
	};

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			uint32_t last = cases[i].n - 1, len = cases[i].sizes[last];
			struct frame clone;
			struct weft_db db;

			begin(q, cases[i].sizes, cases[i].n);
			if (cases[i].fits) {
				weave(q, cases[i].sizes, 2 * last);
				continue;
			}
			assert_int_equal(fx_run_n(FX_NIC, &f, 2 * last), XDP_REDIRECT);
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_regrown], 1);
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_spawned], 1);
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_tx_data], last - 1);
			assert_int_equal(TX_AFTER(q)->inflight, 1);
			memcpy(&db, fx.out.b + 14, sizeof(db));
			assert_int_equal(db.op, WEFT_DB_FILL);
			assert_int_equal(db.qpn, q->ctl->qpn);
			assert_int_equal(db.psn, FX_PSN + last);
			assert_int_equal(db.claimed, 1);
			for (uint32_t k = 0; k < last; k++)
				memcpy(fx.want + FX_T_OFF + 5000 * k,
				       fx.source + FX_S_OFF + 10000 * k, cases[i].sizes[k]);
			expect_pools();
			clone = fx.out;
			assert_int_equal(fx_run(FX_FILL, &clone), XDP_PASS);
			expect_counters("tx_data");
			expect_same();
			assert_int_equal(ntohl(frame_hdr(&fx.out)->psn), FX_PSN + last);
			assert_int_equal(fx.out.len, frame_hl(&f) + len);
			expect_bytes(fx.out.b + frame_hl(&f), fx.source + FX_S_OFF + 10000 * last,
				     len);
		}
	}
}

const struct CMUnitTest fx_tests_resize[] = {
	FX_TEST(resize__weave),
	FX_TEST(resize__which_end),
	FX_END,
};
