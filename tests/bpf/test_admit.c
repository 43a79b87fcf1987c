// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Admission: what a packet must prove before it may touch a queue pair. */
#include "fixture.h"

static struct frame f;

static void packet(struct pkt *p, struct fx_qp *q, int op)
{
	switch (op) {
	case WEFT_OP_DATA: pkt_data(p, q->peer, FX_PSN, 0, random_bytes(7), 100); break;
	case WEFT_OP_ACK: pkt_ack(p, q->peer, FX_PSN, FX_PSN + 1, 0); break;
	default: pkt_nak(p, q->peer, FX_PSN, WEFT_NAK_KEY); break;
	}
}

#define EACH_OP(op) for (int op = WEFT_OP_DATA; op <= WEFT_OP_NAK; op++)

static void send_one(struct fx_qp *q)
{
	fx_post(q, 0, 0, 100);
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
}

/* What every test below spoils is accepted when it is not spoilt. */
static void admit__good(void **state)
{
	static const int verdict[] = {
		[WEFT_OP_DATA] = XDP_TX, [WEFT_OP_ACK] = XDP_DROP, [WEFT_OP_NAK] = XDP_DROP
	};
	static const char *const counters[] = {
		[WEFT_OP_DATA] = "rx_data rx_bytes=100 tx_ack",
		[WEFT_OP_ACK] = "rx_ack absorbed",
		[WEFT_OP_NAK] = "rx_nak",
	};

	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			struct pkt p;

			fx_reset(NULL);
			send_one(q);
			packet(&p, q, op);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), verdict[op]);
			expect_counters(counters[op]);
			if (op == WEFT_OP_DATA)
				memcpy(fx.want + FX_T_OFF, random_bytes(7), 100);
			expect_pools();
		}
	}
	memset(fx.want, 0xc5, FX_POOL);
	memset(fx.target, 0xc5, FX_POOL);
}

static void admit__version(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			for (int v = 0; v < 256; v++) {
				struct pkt p;

				if (v == WEFT_WIRE_VER)
					continue;
				packet(&p, q, op);
				p.h.ver = v;
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.version");
			}
		}
	}
}

static void admit__opcode(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (int op = 0; op < 256; op++) {
			struct pkt p;

			if (op >= WEFT_OP_DATA && op <= WEFT_OP_NAK)
				continue;
			packet(&p, q, WEFT_OP_DATA);
			p.h.op = op;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.opcode");
		}
	}
}

static void admit__unknown_qpn(void **state)
{
	static const uint32_t qpns[] = { 0, 2, 8, WEFT_QPS - 1, WEFT_QPS, 0xffff, 0xffffffff };

	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			for (size_t i = 0; i < sizeof(qpns) / sizeof(qpns[0]); i++) {
				struct pkt p;

				packet(&p, q, op);
				p.h.dqpn = htonl(qpns[i]);
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.qpn");
			}
			/* the slot is free again */
			q->ctl->state = WEFT_QP_FREE;
			struct pkt p;
			packet(&p, q, op);
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.qpn");
			q->ctl->state = WEFT_QP_RTS;
		}
	}
}

/* A QP that is not connected has no peer and no keys: nothing can be genuine. */
static void admit__not_connected(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			uint32_t qpn = q->ctl->qpn, flags = q->ctl->flags & WEFT_QPF_V6;
			struct pkt p;

			packet(&p, q, op);
			memset(q->ctl, 0, sizeof(*q->ctl));
			q->ctl->qpn = qpn;
			q->ctl->flags = flags;
			q->ctl->owner = FX_OWNER;
			q->ctl->ring = q->slot;
			q->ctl->state = WEFT_QP_INIT;
			/* what such an entry would take for genuine */
			memset(p.saddr, 0, sizeof(p.saddr));
			memset(p.daddr, 0, sizeof(p.daddr));
			p.h.conn = 0;
			p.hkey = q->ctl->hkey;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.qpn");
			fx_reset(NULL);
		}
	}
}

static void admit__stale_generation(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			for (int bit = 16; bit < 32; bit++) {
				struct pkt p;

				packet(&p, q, op);
				p.h.dqpn ^= htonl(1u << bit);
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.generation");
			}
		}
	}
}

/* Both addresses, every bit: forged by somebody who knows all the keys. */
static void admit__forged_source(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			for (int bit = 0; bit < (q->v6 ? 128 : 32); bit++) {
				struct pkt p;

				packet(&p, q, op);
				p.saddr[bit / 32] ^= 1u << bit % 32;
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.source");
				packet(&p, q, op);
				p.daddr[bit / 32] ^= 1u << bit % 32;
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.source");
			}
		}
	}
}

static void admit__other_family(void **state)
{
	(void)state;
	BOTH(q)
	{
		struct pkt p;

		packet(&p, q, WEFT_OP_DATA);
		p.v6 = !p.v6;
		memset(p.saddr + 1, 0, 12);
		memset(p.daddr + 1, 0, 12);
		q->ctl->saddr[1] = q->ctl->saddr[2] = q->ctl->saddr[3] = 0;
		q->ctl->daddr[1] = q->ctl->daddr[2] = q->ctl->daddr[3] = 0;
		pkt_frame(&p, &f);
		expect_drop(&f, "drop.source");
	}
}

static void admit__wrong_conn(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			for (int bit = 0; bit < 64; bit++) {
				struct pkt p;

				packet(&p, q, op);
				p.h.conn ^= htobe64(1ull << bit);
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.conn");
			}
		}
	}
}

/* Any bit of the header, with a UDP checksum that fits or none: never accepted. */
static void admit__bit_flips(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			send_one(q);
			for (int bit = 0; bit < WEFT_HDR_LEN * 8; bit++) {
				const char *want = "drop.check";
				struct pkt p;

				packet(&p, q, op);
				pkt_frame(&p, &f);
				f.b[frame_hl(&f) - WEFT_HDR_LEN + bit / 8] ^= 1 << bit % 8;
				if (p.csum)
					pkt_csum(&f);
				if (bit < 8)
					want = "drop.version";
				else if (bit >= 32 && bit < 48)
					want = "drop.generation";
				else if (bit >= 64 && bit < 128)
					want = "drop.conn";
				if (bit >= 48 && bit < 64) { /* another slot, mostly free */
					assert_int_equal(fx_run(FX_NIC, &f), XDP_DROP);
					expect_same();
					expect_frame(&f);
					if (fx.diff[WEFT_DROP_qpn])
						expect_counters("drop.qpn");
					else
						expect_counters("drop.generation");
					continue;
				}
				expect_drop(&f, want);
			}
		}
	}
}

/* The check is keyed: the other pair's key does not do. */
static void admit__other_key(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			struct pkt p;

			packet(&p, q, op);
			p.hkey = fx.qp[q->v6 ? A4 : A6].ctl->hkey;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.check");
		}
	}
}

/* The header's length against what UDP brought; ACK and NAK bring nothing. */
static void admit__length(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			static const int lies[] = { -100, -1, 1, 64, 3228, 0x8000 };
			struct pkt p;

			for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
				packet(&p, q, op);
				p.h.len = htons(p.len + lies[i]);
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.length");
			}
			/* cut in transit with lengths corrected */
			packet(&p, q, op);
			if (op == WEFT_OP_DATA) {
				p.len -= 1;
			} else {
				p.payload = random_bytes(1);
				p.len = 64;
				p.h.len = htons(64);
			}
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.length");
		}
	}
}

/* A wrong UDP checksum is dropped whether this QP asks for one or not. */
static void admit__csum_wrong(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			send_one(q);
			for (int csum = q->v6; csum < 2; csum++) {
				q->ctl->flags =
					(q->v6 ? WEFT_QPF_V6 : 0) | (csum ? WEFT_QPF_CSUM : 0);
				for (int bit = 0; bit < 16; bit++) {
					struct pkt p;

					packet(&p, q, op);
					p.csum = true;
					pkt_frame(&p, &f);
					f.b[(q->v6 ? 60 : 40) + bit / 8] ^= 1 << bit % 8;
					expect_drop(&f, "drop.csum");
				}
			}
		}
	}
}

/* A flipped payload bit, at every byte of a packet whose length is no multiple of anything. */
static void admit__csum_payload_flips(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t at = 0; at < 1535; at++) {
			struct pkt p;

			pkt_data(&p, q->peer, FX_PSN, 0, random_bytes(7), 1535);
			p.csum = true;
			pkt_frame(&p, &f);
			f.b[frame_hl(&f) + at] ^= 1 << at % 8;
			expect_drop(&f, "drop.csum");
		}
	}
}

static void admit__csum_missing(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			struct pkt p;

			send_one(q);
			q->ctl->flags |= WEFT_QPF_CSUM;
			packet(&p, q, op);
			p.csum = false;
			pkt_frame(&p, &f);
			expect_drop(&f, "drop.csum");
		}
	}
}

/* Right sums at all residues of the pieces that the sum is made of. */
static void admit__csum_right(void **state)
{
	static const uint32_t lens[] = { 0,    1,    2,    3,    4,    5,    439,  440,  441,  442,
					 443,  444,  511,  512,  513,  951,  952,  953,  1024, 1408,
					 1463, 1464, 1465, 2047, 3000, 3325, 3326, 3327, 3328 };

	(void)state;
	BOTH(q)
	{
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			struct pkt p, ack;
			struct frame want = { .len = 0 };

			pkt_data(&p, q->peer, FX_PSN + i, 0, random_bytes(i), lens[i]);
			p.csum = true;
			q->ctl->flags |= WEFT_QPF_CSUM;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			memcpy(fx.want + FX_T_OFF, random_bytes(i), lens[i]);
			assert_int_equal(fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_rx_bytes], lens[i]);
			fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_rx_bytes] = 0;
			expect_counters("rx_data tx_ack");
			/* and the ACK carries one as well */
			assert_true(pkt_csum_ok(&fx.out));
			pkt_reply(&ack, &p, q, WEFT_OP_ACK);
			ack.csum = true;
			ack.h.ack = frame_hdr(&fx.out)->ack;
			pkt_frame(&ack, &want);
			expect_frame(&want);
		}
		expect_pools();
	}
}

/* I14: nothing is placed, scored or answered for a dead process. */
static void admit__dead_owner(void **state)
{
	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			struct pkt p;

			fx_reset(NULL);
			send_one(q);
			packet(&p, q, op);
			pkt_frame(&p, &f);
			fx_kill_owner();
			expect_drop(&f, "drop.owner");
		}
	}
}

/* A closed QP refuses DATA by name, and hears no ACK or NAK. */
static void admit__closed(void **state)
{
	static const uint32_t states[] = { WEFT_QP_ERR, WEFT_QP_CLOSED };

	(void)state;
	BOTH(q)
	{
		for (int i = 0; i < 2; i++) {
			struct pkt p, nak;
			struct frame want = { .len = 0 };

			fx_reset(NULL);
			send_one(q);
			q->ctl->state = states[i];
			packet(&p, q, WEFT_OP_DATA);
			p.h.ev = 5;
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), XDP_TX);
			expect_counters("drop.closed tx_nak");
			expect_same();
			pkt_reply(&nak, &p, q, WEFT_OP_NAK);
			nak.h.nak.code = htonl(WEFT_NAK_CLOSED);
			nak.h.nak.psn = p.h.psn;
			pkt_frame(&nak, &want);
			expect_frame(&want);
			for (int op = WEFT_OP_ACK; op <= WEFT_OP_NAK; op++) {
				packet(&p, q, op);
				pkt_frame(&p, &f);
				expect_drop(&f, "drop.closed");
			}
		}
	}
}

const struct CMUnitTest fx_tests_admit[] = {
	FX_TEST(admit__good),
	FX_TEST(admit__version),
	FX_TEST(admit__opcode),
	FX_TEST(admit__unknown_qpn),
	FX_TEST(admit__not_connected),
	FX_TEST(admit__stale_generation),
	FX_TEST(admit__forged_source),
	FX_TEST(admit__other_family),
	FX_TEST(admit__wrong_conn),
	FX_TEST(admit__bit_flips),
	FX_TEST(admit__other_key),
	FX_TEST(admit__length),
	FX_TEST(admit__csum_wrong),
	FX_TEST(admit__csum_payload_flips),
	FX_TEST(admit__csum_missing),
	FX_TEST(admit__csum_right),
	FX_TEST(admit__dead_owner),
	FX_TEST(admit__closed),
	FX_END,
};
