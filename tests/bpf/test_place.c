// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* I1, placement: exactly the bytes of the packet, exactly where they belong, none beside them. */
#include <stdio.h>

#include "fixture.h"

static struct frame f;
static uint32_t seed;

/* One packet to offset roff of the region; all memory is compared. */
static void write_one(struct fx_qp *q, uint64_t roff, uint32_t len)
{
	uint32_t psn;
	struct weft_rx rx;
	char want[64];
	struct pkt p;

	fx_rx_get(q, &rx);
	psn = rx.next;
	pkt_data(&p, q->peer, psn, roff, random_bytes(++seed), len);
	pkt_frame(&p, &f);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	snprintf(want, sizeof(want), "rx_data rx_bytes=%u tx_ack", len);
	expect_counters(want);
	memcpy(fx.want + FX_T_OFF + roff, random_bytes(seed), len);
	expect_pools();
	assert_int_equal(RX_AFTER(q)->next, psn + 1);
	assert_int_equal(RX_AFTER(q)->msn, rx.msn + 1);
	assert_int_equal(q->ring->arrived, rx.msn + 1);
	assert_int_equal(fx.out.len, frame_hl(&f));
}

static void place__lengths(void **state)
{
	static const uint32_t lens[] = { 0,    1,    2,    3,    4,    5,    7,    8,    63,   64,
					 65,   127,  255,  256,  511,  512,  1023, 1024, 1279, 1280,
					 1408, 2047, 2048, 2049, 3071, 3072, 3327, 3328 };

	(void)state;
	BOTH(q)
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		write_one(q, 5000 + i, lens[i]);
}

static void place__region_ends(void **state)
{
	(void)state;
	BOTH(q)
	{
		write_one(q, 0, 1);
		write_one(q, 0, FX_FULL);
		write_one(q, FX_T_LEN - 1, 1);
		write_one(q, FX_T_LEN - FX_FULL, FX_FULL);
		write_one(q, FX_T_LEN, 0);
		write_one(q, 0, 0);
	}
}

static void place__alignments(void **state)
{
	(void)state;
	BOTH(q)
	for (uint32_t off = 0; off < 64; off++)
		write_one(q, 10000 + off, 64 + off % 9);
}

/* Around the boundary of two chunks, at each split that is next to something. */
static void place__straddles(void **state)
{
	static const uint32_t lens[] = { 1, 2, 64, 255, 1000, 2048, 3071, FX_FULL };

	(void)state;
	BOTH(q)
	{
		for (int chunk = 1; chunk <= 2; chunk++) {
			uint64_t edge = (uint64_t)chunk * WEFT_CHUNK - FX_T_OFF;

			for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
				uint32_t n = lens[i], split[] = { 0, 1, 2, n / 3, n / 2, n - 1, n };

				for (size_t k = 0; k < sizeof(split) / sizeof(split[0]); k++)
					write_one(q, edge - split[k], n);
			}
		}
	}
}

/* The last 4 KiB of a chunk, where the copy changes: both sides of the change. */
static void place__near_the_edge(void **state)
{
	static const uint32_t before[] = { 1,    2,    100,  3327, 3328, 3329, 4000, 4094,
					   4095, 4096, 4097, 4098, 5000, 7423, 7424, 7425 };
	static const uint32_t lens[] = { 1, 777, FX_FULL };

	(void)state;
	BOTH(q)
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		for (int k = 0; k < 3; k++)
			write_one(q, WEFT_CHUNK - FX_T_OFF - before[i], lens[k]);
}

/* A message of many packets, in an order of its own, over a chunk boundary. */
static void place__message_out_of_order(void **state)
{
	enum { N = 16 };
	static uint8_t all[N * FX_FULL];
	uint64_t base = WEFT_CHUNK - FX_T_OFF - 20000;

	(void)state;
	BOTH(q)
	{
		struct weft_rx rx;

		fx_rx_get(q, &rx);
		for (uint32_t i = 0; i < N; i++)
			memcpy(all + i * FX_FULL, random_bytes(++seed), FX_FULL);
		for (uint32_t i = 0; i < N; i++) {
			uint32_t seg = (i * 7 + 3) % N, len = seg == N - 1 ? 1001 : FX_FULL;
			char want[64];
			struct pkt p;

			pkt_data(&p, q->peer, FX_PSN + seg, base + seg * FX_FULL,
				 all + seg * FX_FULL, len);
			p.h.data.moff = htonl(seg * FX_FULL);
			p.h.data.mlen = htonl((N - 1) * FX_FULL + 1001);
			p.h.flags = seg == N - 1 ? WEFT_F_LAST : 0;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			snprintf(want, sizeof(want), "rx_data rx_bytes=%u tx_ack", len);
			expect_counters(want);
			/* it has not arrived before all of it has */
			assert_int_equal(q->ring->arrived, i == N - 1);
			memcpy(fx.want + FX_T_OFF + base + seg * FX_FULL, all + seg * FX_FULL, len);
			expect_pools();
		}
		assert_int_equal(RX_AFTER(q)->next, FX_PSN + N);
	}
}

/* A zero-length WRITE completes like any other, and needs a valid key and offset: see target. */
static void place__zero_length(void **state)
{
	(void)state;
	BOTH(q)
	{
		write_one(q, FX_T_LEN, 0);
		write_one(q, 12345, 0);
		assert_int_equal(q->ring->arrived, 2);
	}
}

const struct CMUnitTest fx_tests_place[] = {
	FX_TEST(place__lengths),       FX_TEST(place__region_ends),
	FX_TEST(place__alignments),    FX_TEST(place__straddles),
	FX_TEST(place__near_the_edge), FX_TEST(place__message_out_of_order),
	FX_TEST(place__zero_length),   FX_END,
};
