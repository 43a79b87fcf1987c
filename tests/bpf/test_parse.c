// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Recognition: what is not ours passes untouched, what is ours and cut short is dropped. */
#include "fixture.h"

#define ETYPE(f, v) ((f)->b[12] = (v) >> 8, (f)->b[13] = (uint8_t)(v))

static struct frame f;

/* A good DATA packet for q, not sent. */
static void good(struct fx_qp *q, uint32_t len)
{
	struct pkt p;

	pkt_data(&p, q->peer, FX_PSN, 100, random_bytes(1), len);
	pkt_frame(&p, &f);
}

/* The same frame without the change is accepted: so the change is what made it pass. */
static void control(struct fx_qp *q)
{
	good(q, 200);
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	memcpy(fx.want + FX_T_OFF + 100, random_bytes(1), 200);
	expect_counters("rx_data rx_bytes=200 tx_ack");
	expect_pools();
}

static void parse__other_ethertypes(void **state)
{
	static const uint16_t types[] = { 0x0806 /* ARP */,
					  0x88cc /* LLDP */,
					  0x8100 /* VLAN */,
					  0x88a8 /* QinQ */,
					  0x8847 /* MPLS */,
					  0,
					  0xffff,
					  WEFT_DB_ETHERTYPE };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			good(q, 200);
			ETYPE(&f, types[i]);
			expect_pass(&f);
		}
		control(q);
	}
}

static void parse__vlan_tag(void **state)
{
	(void)state;
	BOTH(q)
	{
		good(q, 200);
		memmove(f.b + 16, f.b + 12, f.len - 12);
		ETYPE(&f, 0x8100);
		f.b[14] = 0;
		f.b[15] = 5;
		f.len += 4;
		expect_pass(&f);
	}
}

static void parse__other_protocols(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int proto = 0; proto < 256; proto++) {
			if (proto == IPPROTO_UDP)
				continue;
			good(q, 64);
			f.b[q->v6 ? 20 : 23] = proto; /* TCP, ESP; IPv6: extension headers too */
			expect_pass(&f);
		}
		control(q);
	}
}

static void parse__other_ports(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int bit = 0; bit < 16; bit++) {
			good(q, 64);
			f.b[(q->v6 ? 56 : 36) + bit / 8] ^= 1 << bit % 8;
			expect_pass(&f);
		}
		/* the port is the configured one, not the default */
		fx.cfg->port = WEFT_UDP_PORT;
		good(q, 64);
		fx.cfg->port = WEFT_UDP_PORT + 7;
		expect_pass(&f);
		control(q);
	}
}

/* A loader has put the program there, and nobody has written devcfg: port 0 is no port. */
static void parse__not_set_up(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint16_t port = fx.cfg->port;

		fx.cfg->port = 0;
		good(q, 64);
		expect_pass(&f);
		fx.cfg->port = port;
		control(q);
	}
}

static void parse__v4_version_and_options(void **state)
{
	(void)state;
	for (int first = 0; first < 256; first++) {
		if (first == 0x45)
			continue;
		good(&fx.qp[A4], 64);
		f.b[14] = first;
		expect_pass(&f);
	}
	/* a real packet with one option word */
	good(&fx.qp[A4], 64);
	memmove(f.b + 38, f.b + 34, f.len - 34);
	memset(f.b + 34, 1, 4);
	f.len += 4;
	f.b[14] = 0x46;
	f.b[17] += 4;
	expect_pass(&f);
	control(&fx.qp[A4]);
}

static void parse__v4_fragments(void **state)
{
	static const uint16_t frag[] = { 0x2000 /* first: MF */, 0x2001, 0x0001 /* last */, 0x1fff,
					 0x6000 /* MF and DF */ };

	(void)state;
	for (size_t i = 0; i < sizeof(frag) / sizeof(frag[0]); i++) {
		good(&fx.qp[A4], 64);
		f.b[20] = frag[i] >> 8;
		f.b[21] = frag[i];
		expect_pass(&f);
	}
	/* without DF it is no fragment */
	good(&fx.qp[A4], 0);
	f.b[20] = 0;
	assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
	expect_counters("rx_data rx_bytes=0 tx_ack");
}

static void parse__v6_version(void **state)
{
	(void)state;
	for (int v = 0; v < 16; v++) {
		if (v == 6)
			continue;
		good(&fx.qp[A6], 64);
		f.b[14] = v << 4 | (f.b[14] & 15);
		expect_pass(&f);
	}
}

static void parse__v6_extension_header(void **state)
{
	static const uint8_t next[] = { 0 /* hop-by-hop */, 43 /* routing */, 44 /* fragment */,
					60 };

	(void)state;
	for (size_t i = 0; i < sizeof(next); i++) {
		good(&fx.qp[A6], 64);
		memmove(f.b + 62, f.b + 54, f.len - 54);
		memset(f.b + 54, 0, 8);
		f.b[54] = IPPROTO_UDP;
		f.b[56] = fx.cfg->port >> 8; /* taken for UDP, it would be ours */
		f.b[57] = fx.cfg->port;
		f.b[20] = next[i];
		f.b[19] += 8;
		f.len += 8;
		expect_pass(&f);
	}
}

/* Every length from an Ethernet header to one byte less than the whole. */
static void parse__truncated(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t udp_end = q->v6 ? WEFT_V6_LEN : WEFT_V4_LEN, full;

		good(q, 77);
		full = f.len;
		for (uint32_t len = 14; len < full; len++) {
			good(q, 77);
			memset(f.b + len, 0, full - len);
			f.len = len;
			if (len < udp_end)
				expect_pass(&f);
			else
				expect_drop(&f, "drop.truncated");
		}
		good(q, 77);
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		memcpy(fx.want + FX_T_OFF + 100, random_bytes(1), 77);
		expect_counters("rx_data rx_bytes=77 tx_ack");
	}
}

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

/* UDP's length, IP's and the frame's must agree; only the frame may be longer. */
static void parse__length_lies(void **state)
{
	(void)state;
	BOTH(q)
	{
		uint32_t ip = q->v6 ? 18 : 16, udp = q->v6 ? 58 : 38, ipb = q->v6 ? 0 : 20;
		static const int lies[] = { 0,  1,           7,           8,    19,     20,
					    71, 8 + 64 + 63, 8 + 64 + 65, 1500, 0x7fff, 0xffff };

		for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
			good(q, 64);
			put16(f.b + udp, lies[i]);
			expect_drop(&f, "drop.truncated");
			good(q, 64);
			put16(f.b + ip, lies[i]);
			expect_drop(&f, "drop.truncated");
			if (lies[i] == 8 + 64 + 63) /* agreeing and short: see admit__length */
				continue;
			good(q, 64);
			put16(f.b + udp, lies[i]);
			put16(f.b + ip, lies[i] + ipb);
			expect_drop(&f, "drop.truncated");
		}
	}
}

/* Padding behind the packet is not part of it, and does not come back. */
static void parse__trailing_bytes(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p, ack;
		struct frame want;

		pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(3), 5);
		pkt_frame(&p, &f);
		memset(f.b + f.len, 0xee, 30);
		f.len += 30;
		assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
		memcpy(fx.want + FX_T_OFF, random_bytes(3), 5);
		pkt_reply(&ack, &p, q, WEFT_OP_ACK);
		ack.h.ack.cum = htonl(FX_PSN + 1);
		ack.h.ack.msn = htonl(1);
		ack.h.ack.sack_base = htonl(FX_PSN & ~63u);
		pkt_frame(&ack, &want);
		expect_frame(&want);
		expect_counters("rx_data rx_bytes=5 tx_ack");
		expect_pools();
	}
}

const struct CMUnitTest fx_tests_parse[] = {
	FX_TEST(parse__other_ethertypes),
	FX_TEST(parse__vlan_tag),
	FX_TEST(parse__other_protocols),
	FX_TEST(parse__other_ports),
	FX_TEST(parse__not_set_up),
	FX_TEST(parse__v4_version_and_options),
	FX_TEST(parse__v4_fragments),
	FX_TEST(parse__v6_version),
	FX_TEST(parse__v6_extension_header),
	FX_TEST(parse__truncated),
	FX_TEST(parse__length_lies),
	FX_TEST(parse__trailing_bytes),
	FX_END,
};
