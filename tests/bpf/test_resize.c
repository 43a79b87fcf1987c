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
 * Whatever it carried before, the next segment fits, also when neither end alone
 * has the room: 256 and 1700 bytes leave it in front, 250 at both ends.
 */
static void resize__any_sequence(void **state)
{
	static const uint32_t steps[] = { 0,    1,    64,   100,  250,  255,         256,    257,
					  1000, 1700, 2500, 3000, 3100, FX_FULL - 1, FX_FULL };
	uint32_t sizes[6], seed = 1;

	(void)state;
	BOTH(q)
	{
		for (int run = 0; run < 16; run++) {
			for (int i = 0; i < 6; i++) {
				seed = seed * 1103515245 + 12345;
				sizes[i] = i % 2 && run % 2 ? FX_FULL : steps[(seed >> 16) % 15];
			}
			begin(q, sizes, 6);
			weave(q, sizes, 10);
		}
	}
}

const struct CMUnitTest fx_tests_resize[] = {
	FX_TEST(resize__weave),
	FX_TEST(resize__any_sequence),
	FX_END,
};
