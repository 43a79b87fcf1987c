// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Copies for `weft capture`: which frames, how much of them, and nothing that changes a packet's way. */
#include <bpf/bpf.h>
#include <capture/reader.h>

#include "fixture.h"

#define RECORDS 8

static struct frame f;
static struct capture *cap;
static unsigned got; /* records of the last run */
static struct weft_cap_rec head[RECORDS];
static uint8_t bytes[RECORDS][FRAME_ROOM];

static int take(void *arg, const struct weft_cap_rec *r)
{
	(void)arg;
	assert_true(got < RECORDS && r->cap <= FRAME_ROOM);
	head[got] = *r;
	memcpy(bytes[got++], r->data, r->cap);
	return 0;
}

static void want(uint64_t conn, uint32_t snap)
{
	struct weft_cap_cfg cfg = { .conn = htobe64(conn), .snap = snap };
	uint32_t zero = 0;

	assert_int_equal(bpf_map_update_elem(fx_map_fd("capcfg"), &zero, &cfg, 0), 0);
}

static uint64_t lost(void)
{
	struct weft_cap_cfg cfg;
	uint32_t zero = 0;

	assert_int_equal(bpf_map_lookup_elem(fx_map_fd("capcfg"), &zero, &cfg), 0);
	return cfg.lost;
}

/* Somebody listens, and the switch is on. */
static int listen_in(void **state)
{
	int err = fx_reset(state);

	want(0, WEFT_CAP_HEADERS);
	err = err ?: capture_open(&cap, fx_map_fd("capture"), 0, take, NULL);
	fx.cfg->flags |= WEFT_DEV_CAPTURE;
	return err;
}

static int hang_up(void **state)
{
	fx.cfg->flags &= ~WEFT_DEV_CAPTURE;
	capture_close(cap);
	cap = NULL;
	return fx_check_memory(state);
}

/* Run it; how many records that made. */
static unsigned run(enum fx_prog p, int verdict)
{
	assert_int_equal(fx_run(p, &f), verdict);
	got = 0;
	assert_true(capture_read(cap, true) >= 0);
	return got;
}

static void expect_copy(unsigned i, const struct frame *of, enum weft_cap_dir dir, uint32_t cut)
{
	uint32_t n = of->len < cut ? of->len : cut;

	assert_true(i < got);
	assert_int_equal(head[i].len, of->len);
	assert_int_equal(head[i].cap, n);
	assert_int_equal(head[i].dir, dir);
	assert_memory_equal(bytes[i], of->b, n);
}

/* A packet to q of a new PSN each time, placed in the target. */
static void data_to(struct fx_qp *q, uint32_t psn, uint32_t len)
{
	struct pkt p;

	pkt_data(&p, q->peer, psn, 100, random_bytes(1), len);
	pkt_frame(&p, &f);
	memcpy(fx.want + FX_T_OFF + 100, random_bytes(1), len);
}

/* It will not get there. */
static void not_placed(uint32_t len)
{
	memcpy(fx.want + FX_T_OFF + 100, fx.target + FX_T_OFF + 100, len);
}

static void capture__data_and_its_ack(void **state)
{
	static const uint32_t snaps[] = { WEFT_CAP_HEADERS, 1, 65535, 500 };

	(void)state;
	BOTH(q)
	{
		for (uint32_t i = 0; i < 4; i++) {
			want(0, snaps[i]);
			data_to(q, FX_PSN + i, 2000);
			assert_int_equal(run(FX_NIC, XDP_TX), 2);
			expect_copy(0, &fx.in, WEFT_CAP_IN, snaps[i]);
			expect_copy(1, &fx.out, WEFT_CAP_OUT, snaps[i]);
			assert_true(head[0].ns <= head[1].ns);
			expect_counters("rx_data rx_bytes=2000 tx_ack");
		}
	}
}

static void capture__off(void **state)
{
	(void)state;
	fx.cfg->flags &= ~WEFT_DEV_CAPTURE;
	data_to(&fx.qp[A4], FX_PSN, 64);
	assert_int_equal(run(FX_NIC, XDP_TX), 0);
	fx_post(&fx.qp[A4], 0, 0, 64);
	doorbell_frame(&f, WEFT_DB_FILL, fx.qp[A4].ctl->qpn, 60);
	assert_int_equal(run(FX_FILL, XDP_PASS), 0);
}

/* What is dropped has come in all the same. */
static void capture__dropped(void **state)
{
	(void)state;
	BOTH(q)
	{
		data_to(q, FX_PSN, 64);
		not_placed(64);
		f.b[(q->v6 ? WEFT_V6_LEN : WEFT_V4_LEN) + 24] ^= 1;
		assert_int_equal(run(FX_NIC, XDP_DROP), 1);
		expect_copy(0, &fx.in, WEFT_CAP_IN, WEFT_CAP_HEADERS);
		expect_counters("drop.check");
	}
}

static void capture__clones(void **state)
{
	(void)state;
	BOTH(q)
	{
		fx_post(q, 0, 0, 3000);
		doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
		assert_int_equal(run(FX_FILL, XDP_PASS), 1);
		expect_copy(0, &fx.out, WEFT_CAP_OUT, WEFT_CAP_HEADERS);
		/* nothing left to send: it stays here */
		assert_int_equal(run(FX_FILL, XDP_DROP), 0);
		memset(fx.run, 0, sizeof(*fx.run));
	}
}

/* What doorbells have filled passes on its way out, whole as it is. */
static void capture__passing(void **state)
{
	(void)state;
	BOTH(q)
	{
		data_to(q, FX_PSN, 64);
		not_placed(64);
		assert_int_equal(run(FX_FILL, XDP_PASS), 1);
		expect_copy(0, &fx.in, WEFT_CAP_OUT, WEFT_CAP_HEADERS);
	}
}

static void capture__others(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t udp = q->v6 ? 54 : 34;

		data_to(q, FX_PSN, 64);
		not_placed(64);
		f.b[udp + 3] ^= 1; /* port */
		assert_int_equal(run(FX_NIC, XDP_PASS), 0);
		f.b[udp + 3] ^= 1;
		f.b[q->v6 ? 20 : 23] = 6; /* TCP */
		assert_int_equal(run(FX_NIC, XDP_PASS), 0);
		f.b[q->v6 ? 20 : 23] = 17;
		if (!q->v6) {
			f.b[20] = 0x20; /* a fragment */
			assert_int_equal(run(FX_NIC, XDP_PASS), 0);
			f.b[20] = 0;
			f.b[14] = 0x46; /* with options */
			assert_int_equal(run(FX_NIC, XDP_PASS), 0);
			f.b[14] = 0x45;
		}
		f.b[12] = f.b[13] = 0x88; /* no IP */
		assert_int_equal(run(FX_NIC, XDP_PASS), 0);
	}
}

/* An empty clone on its way out is shown; a frame that only has its type is not. */
static void capture__empty_clones(void **state)
{
	(void)state;
	doorbell_frame(&f, WEFT_DB_FILL, 1, 60);
	assert_int_equal(run(FX_NIC, XDP_PASS), 1);
	f.b[14] ^= 1;
	assert_int_equal(run(FX_NIC, XDP_PASS), 0);
}

static void capture__connection(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint64_t conn = q->ctl->conn;

		data_to(q, FX_PSN, 64);
		want(conn, WEFT_CAP_HEADERS);
		assert_int_equal(run(FX_NIC, XDP_TX), 2);
		want(conn ^ 1, WEFT_CAP_HEADERS);
		assert_int_equal(run(FX_NIC, XDP_TX), 0);
		want(conn ^ 1ull << 63, WEFT_CAP_HEADERS);
		assert_int_equal(run(FX_NIC, XDP_TX), 0);
	}
	doorbell_frame(&f, WEFT_DB_FILL, 1, 60);
	assert_int_equal(run(FX_NIC, XDP_PASS), 0);
}

/* Whoever captured has died: the packet goes its way, and the next costs nothing. */
static void capture__nobody(void **state)
{
	(void)state;
	capture_close(cap);
	cap = NULL;
	assert_true(fx.cfg->flags & WEFT_DEV_CAPTURE);
	data_to(&fx.qp[A4], FX_PSN, 64);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters("rx_data rx_bytes=64 tx_ack");
	assert_false(fx.cfg->flags & WEFT_DEV_CAPTURE);
	assert_int_equal(lost(), 0);
}

/* No room: the copy is left out and counted, the packet is not. */
static void capture__full(void **state)
{
	(void)state;
	want(0, 65535);
	for (unsigned i = 0; i < 40; i++) {
		data_to(&fx.qp[A4], FX_PSN + i, FX_FULL);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		expect_counters("rx_data rx_bytes=3328 tx_ack");
	}
	assert_true(lost() > 0);
	assert_true(fx.cfg->flags & WEFT_DEV_CAPTURE);
}

#define CAPTURE_TEST(t) cmocka_unit_test_setup_teardown(t, listen_in, hang_up)
const struct CMUnitTest fx_tests_capture[] = {
	CAPTURE_TEST(capture__data_and_its_ack),
	CAPTURE_TEST(capture__off),
	CAPTURE_TEST(capture__dropped),
	CAPTURE_TEST(capture__clones),
	CAPTURE_TEST(capture__passing),
	CAPTURE_TEST(capture__others),
	CAPTURE_TEST(capture__empty_clones),
	CAPTURE_TEST(capture__connection),
	CAPTURE_TEST(capture__nobody),
	CAPTURE_TEST(capture__full),
	FX_END,
};
