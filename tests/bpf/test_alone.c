// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* I9: frames go round between the programs by themselves, while neither process runs. */
#include "fixture.h"

#define FRAMES 64 /* under way at once */
#define WINDOW 8
#define BIG    (60 * FX_FULL + 123)

/* The network between A and B, and what the kernel makes of a broadcast: frames in order. */
static struct {
	struct frame f[FRAMES];
	uint32_t head, n, peak, sent;
} wire;

static void onto_wire(const struct frame *f)
{
	assert_true(wire.n < FRAMES);
	wire.f[(wire.head + wire.n++) % FRAMES] = *f;
	if (wire.n > wire.peak)
		wire.peak = wire.n;
}

/* n clones of a template go out through the NIC; what finds nothing to send does not. */
static void clones(const struct frame *template, uint64_t n)
{
	const struct frame f = *template;

	while (n--)
		if (fx_run(FX_FILL, &f) == XDP_PASS)
			onto_wire(&fx.out);
}

/* What the last run did with its frame. */
static void follow(int verdict)
{
	switch (verdict) {
	case XDP_TX: onto_wire(&fx.out); break;
	case XDP_REDIRECT:
		/* one that was filled in place, or a template to be cloned */
		if (fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_inplace])
			onto_wire(&fx.out);
		else
			clones(&fx.out, fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_spawned]);
		break;
	default: assert_int_equal(verdict, XDP_DROP);
	}
}

/* Both processes stop when all is posted, with one packet out: the programs send the rest of it. */
static void alone__from_one_packet(void **state)
{
	static const uint32_t lens[] = { 64, BIG, 0, 777, BIG };
	const uint32_t n = sizeof(lens) / sizeof(lens[0]);

	(void)state;
	BOTH(a)
	{
		uint32_t off = 0;
		struct frame f;

		fx_reset(NULL);
		memset(&wire, 0, sizeof(wire));
		a->ctl->cwnd = WINDOW;
		for (uint32_t i = 0; i < n; i++) {
			fx_post(a, off, off, lens[i]);
			off += lens[i];
			if (i)
				continue;
			doorbell_frame(&f, WEFT_DB_POST, a->ctl->qpn, 200);
			follow(fx_run(FX_DB, &f));
			assert_int_equal(wire.n, 1);
			/* nobody rings any more */
			assert_int_equal(a->ring->hint, 1);
		}
		while (wire.n) {
			f = wire.f[wire.head++ % FRAMES];
			wire.n--;
			follow(fx_run(FX_NIC, &f));
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_doorbell], 0);
			if (++wire.sent > 10000)
				fail_msg("%u of %u messages after %u packets", a->ring->sq_done, n,
					 wire.sent);
		}
		assert_int_equal(a->ring->sq_done, n);
		assert_int_equal(a->peer->ring->arrived, n);
		/* the window was filled, and its tokens are all back */
		assert_int_equal(wire.peak, WINDOW);
		assert_int_equal(TX_AFTER(a)->inflight, 0);
		assert_int_equal(fx.after.run.dom[0].inflight, 0);
		assert_int_equal(fx.after.run.active, 0);
		assert_int_equal(a->ring->hint, 0);
		memcpy(fx.want + FX_T_OFF, fx.source + FX_S_OFF, off);
		expect_pools();
	}
}

const struct CMUnitTest fx_tests_alone[] = {
	FX_TEST(alone__from_one_packet),
	FX_END,
};
