// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Frames with hardly any room behind, as some drivers hand them up: what cannot grow is replaced. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "fixture.h"

/*
 * A test run always gives a frame a page. A tap does not: the kernel copies a
 * short frame that is written to it into a buffer that ends where the frame does,
 * give or take a cache line, with XDP's headroom in front. So the program runs on
 * a real tap here, in a namespace of its own, and what it redirects goes back out
 * of that tap, to be read.
 */
#define TAP "small"

static struct frame f;
static struct {
	int ns, fd, link;
	uint32_t ifindex;
} tap;

/* Both entries of spawn1: the clone, and the original, which goes into the sink in real life. */
static void spawn_to(uint32_t ifindex)
{
	struct bpf_devmap_val dev = { .ifindex = ifindex };

	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(bpf_map_update_elem(fx_map_fd("spawn1"), &i, &dev, BPF_ANY), 0);
}

static int make_tap(void)
{
	struct ifreq ifr = { .ifr_name = TAP, .ifr_flags = IFF_TAP | IFF_NO_PI };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	tap.fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	err = s < 0 || tap.fd < 0 || ioctl(tap.fd, TUNSETIFF, &ifr);
	ifr.ifr_flags = IFF_UP;
	err = err || ioctl(s, SIOCSIFFLAGS, &ifr);
	close(s);
	tap.ifindex = if_nametoindex(TAP);
	return err || !tap.ifindex ? -1 : 0;
}

/* Tap, program and way out, in a namespace that goes with the descriptors; back to ours. */
static void begin(void)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	assert_true(home >= 0);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	tap.ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(tap.ns >= 0);
	assert_int_equal(make_tap(), 0);
	tap.link = bpf_link_create(fx_prog_fd(FX_NIC), tap.ifindex, BPF_XDP, &opts);
	assert_true(tap.link >= 0);
	spawn_to(tap.ifindex);
	assert_int_equal(setns(home, CLONE_NEWNET), 0);
	close(home);
}

static void end(void)
{
	spawn_to(1); /* the loopback, as in every other test */
	close(tap.link);
	close(tap.fd);
	close(tap.ns);
}

/* The program's next frame, in fx.out. False: there is none. */
static bool take(void)
{
	struct pollfd p = { .fd = tap.fd, .events = POLLIN };
	ssize_t n;

	do { /* the kernel speaks of its own on a fresh interface */
		if (poll(&p, 1, 0) != 1)
			return false;
		n = read(tap.fd, fx.out.b, sizeof(fx.out.b));
		assert_true(n > 14);
	} while (fx.out.b[12] == 0x86 && fx.out.b[13] == 0xdd && fx.out.b[20] != 17);
	fx.out.len = n;
	return true;
}

/* f, an ACK, comes in on the tap. */
static void receive(void)
{
	while (take())
		;
	fx_begin(&f);
	assert_int_equal(write(tap.fd, f.b, f.len), f.len);
	fx_end();
}

/* q has a token out for its first message; its ACK is in f, and the next message has n bytes. */
static void sent_one(struct fx_qp *q, uint32_t n)
{
	struct pkt p;

	fx_reset(NULL);
	q->ctl->cwnd = 1; /* one token, which is never missing another */
	fx_post(q, 0, 0, 64);
	fx_post(q, 1000, 5000, n);
	pkt_ack(&p, q->peer, FX_PSN, FX_PSN + 1, 1);
	p.h.ts = htonl(fx_fill(q));
	pkt_frame(&p, &f);
}

/* A template of the PSN that is claimed for it, and nothing of any other packet's in it. */
static void expect_claimed_template(const struct fx_qp *q)
{
	struct weft_db db = {
		.magic = WEFT_DB_MAGIC,
		.op = WEFT_DB_FILL,
		.qpn = q->ctl->qpn,
		.psn = FX_PSN + 1,
		.claimed = 1,
	};

	assert_true(fx.out.len >= 14 + sizeof(db));
	assert_int_equal(fx.out.b[12] << 8 | fx.out.b[13], WEFT_DB_ETHERTYPE);
	expect_bytes(fx.out.b + 14, &db, sizeof(db));
}

/* It becomes the template of a clone, the clone has a page, and the PSN goes out once. */
static void small__is_replaced(void **state)
{
	static const uint32_t lens[] = { 400, 1408, 3000, FX_FULL };

	(void)state;
	begin();
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint32_t asked;

			sent_one(q, lens[i]);
			receive();
			expect_counters("rx_ack regrown spawned=1");
			asked = fx.t0;
			assert_int_equal(TX_AFTER(q)->nxt, FX_PSN + 2);
			assert_int_equal(TX_AFTER(q)->una, FX_PSN + 1);
			assert_int_equal(TX_AFTER(q)->inflight, 1);
			assert_int_equal(fx.after.run.dom[0].inflight, 1);
			assert_true(take());
			expect_claimed_template(q);
			assert_true(take());
			expect_claimed_template(q);

			/* on its way out */
			f = fx.out;
			assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
			expect_counters("tx_data");
			fx.t0 = asked; /* its time is that of the claim */
			expect_sent(q, .loff = 1000, .roff = 5000, .psn = FX_PSN + 1, .msn = 1,
				    .len = lens[i], .mlen = lens[i], .flags = WEFT_F_LAST, .ev = 1);
			assert_true(!q->v6 || pkt_csum_ok(&fx.out));
			expect_same();
			assert_false(take());
		}
	}
	end();
}

/* What its headroom has place for, it carries itself. */
static void small__fits(void **state)
{
	static const uint32_t lens[] = { 0, 1, 64, 150, 270 };

	(void)state;
	begin();
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			sent_one(q, lens[i]);
			receive();
			expect_counters("rx_ack tx_data");
			assert_true(take());
			expect_sent(q, .loff = 1000, .roff = 5000, .psn = FX_PSN + 1, .msn = 1,
				    .len = lens[i], .mlen = lens[i], .flags = WEFT_F_LAST, .ev = 1);
			assert_false(take());
		}
	}
	end();
}

static const uint8_t *source(uint64_t roff)
{
	return fx.source + FX_S_OFF + roff;
}

/* In f, a READ of q's memory, by a frame without room. */
static void read_of(struct fx_qp *q, struct pkt *p, uint32_t psn, uint32_t len, uint8_t tos)
{
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
	pkt_read(p, q->peer, psn, 2000, len);
	p->tos = tos;
	p->h.ev = 9;
	pkt_frame(p, &f);
}

/* The answer has no room in the frame that asks: nothing is done yet, a clone is asked in its place. */
static void small__answer_in_a_clone(void **state)
{
	static const uint32_t lens[] = { 400, 1408, FX_FULL };

	(void)state;
	begin();
	BOTH(q)
	{
		for (uint32_t i = 0; i < 6; i++) {
			uint32_t n = lens[i % 3];
			struct frame want;
			struct pkt p, a;

			fx_reset(NULL);
			read_of(q, &p, FX_PSN, n, i < 3 ? 2 : 3);
			receive();
			expect_counters("regrown spawned=1");
			expect_same();
			assert_true(take());
			assert_true(take());
			f = fx.out;
			assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
			expect_counters(i < 3 ? "rx_ask tx_ack" : "rx_ask rx_ce tx_ack");
			pkt_answer(&a, &p, q, FX_PSN, 0, source(2000), n);
			a.h.flags = i < 3 ? 0 : WEFT_F_CE;
			a.h.ack.sack = htobe64(1ull << FX_PSN % 64);
			pkt_frame(&a, &want);
			expect_frame(&want);
			assert_true(!q->v6 || pkt_csum_ok(&fx.out));

			/* its QP is another by now, or closed, or its owner dead */
			q->ctl->qpn ^= 1u << 20;
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
			q->ctl->qpn ^= 1u << 20;
			q->ctl->state = WEFT_QP_CLOSED;
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
			q->ctl->state = WEFT_QP_RTS;
			fx_kill_owner();
			expect_inert(FX_FILL, &f, XDP_DROP, "drop.template");
		}
	}
	end();
}

/* What its headroom has place for, the frame brings back itself. */
static void small__answer_fits(void **state)
{
	static const uint32_t lens[] = { 0, 1, 8, 64, 150, 270 };

	(void)state;
	begin();
	BOTH(q)
	{
		fx_reset(NULL);
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			struct frame want;
			struct pkt p, a;

			read_of(q, &p, FX_PSN, lens[i], 2);
			fx_qp_init(q, FX_PSN, FX_FULL);
			receive();
			expect_counters("rx_ask tx_ack");
			assert_true(take());
			pkt_answer(&a, &p, q, FX_PSN, 0, source(2000), lens[i]);
			a.h.ack.sack = htobe64(1ull << FX_PSN % 64);
			pkt_frame(&a, &want);
			expect_frame(&want);
			assert_false(take());
		}
	}
	end();
}

const struct CMUnitTest fx_tests_small[] = {
	FX_TEST(small__is_replaced),
	FX_TEST(small__fits),
	FX_TEST(small__answer_in_a_clone),
	FX_TEST(small__answer_fits),
	FX_END,
};
