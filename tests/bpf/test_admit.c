// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Admission: what a packet must prove before it may touch a queue pair. */
#include "fixture.h"

static struct frame f;

static void packet(struct pkt *p, struct fx_qp *q, int op)
{
	struct pkt read;

	switch (op) {
	case WEFT_OP_DATA: pkt_data(p, q->peer, FX_PSN, 0, random_bytes(7), 100); break;
	case WEFT_OP_ACK: pkt_ack(p, q->peer, FX_PSN, FX_PSN + 1, 0); break;
	case WEFT_OP_SEQ:
		pkt_ack(p, q->peer, FX_PSN, FX_PSN, 0);
		p->h.op = WEFT_OP_SEQ;
		break;
	case WEFT_OP_NAK: pkt_nak(p, q->peer, FX_PSN, WEFT_NAK_KEY); break;
	case WEFT_OP_READ: pkt_read(p, q->peer, FX_PSN, 0, 100); break;
	case WEFT_OP_SEND: pkt_send(p, q->peer, FX_PSN, 0, random_bytes(7), 100); break;
	case WEFT_OP_RNR: pkt_rnr(p, q->peer, FX_PSN, 0); break;
	case WEFT_OP_RESUME: pkt_resume(p, q->peer, 1); break;
	case WEFT_OP_REPLY:
		pkt_read(&read, q, FX_PSN, 0, 100);
		pkt_answer(p, &read, q->peer, FX_PSN, 0, random_bytes(7), 100);
		break;
	default: /* of a word that is 0xc5c5... */
		pkt_atomic(p, q->peer, op, FX_PSN, 0, 8 - FX_T_OFF % 8, 0, 0);
	}
}

#define EACH_OP(op) for (int op = WEFT_OP_DATA; op <= WEFT_OP_SEQ; op++)

/* Nobody answers it. */
static bool is_reply(int op)
{
	return op == WEFT_OP_ACK || op == WEFT_OP_NAK || op == WEFT_OP_REPLY || op >= WEFT_OP_RNR;
}

static bool brings_bytes(int op)
{
	return op == WEFT_OP_DATA || op == WEFT_OP_SEND || op == WEFT_OP_REPLY;
}

/* What a reply is about: a READ if it is to bring something; and a receive for what takes one. */
static void send_one(struct fx_qp *q, int op)
{
	fx_recv(fx_recv_on(q, false), &(struct fx_piece){ 0, 100 }, 1);
	if (op == WEFT_OP_RNR)
		fx_post_send(q, 0, 100);
	else if (op == WEFT_OP_REPLY)
		fx_post_ask(q, WEFT_WQE_READ, 0, 0, 100);
	else
		fx_post(q, 0, 0, 100);
	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
}

/* What the table spoils is accepted when it is not spoilt. */
static void admit__good(void **state)
{
	static const int verdict[] = {
		[WEFT_OP_DATA] = XDP_TX,     [WEFT_OP_ACK] = XDP_DROP, [WEFT_OP_NAK] = XDP_DROP,
		[WEFT_OP_READ] = XDP_TX,     [WEFT_OP_FADD] = XDP_TX,  [WEFT_OP_CSWAP] = XDP_TX,
		[WEFT_OP_REPLY] = XDP_DROP,  [WEFT_OP_SEND] = XDP_TX,  [WEFT_OP_RNR] = XDP_DROP,
		[WEFT_OP_RESUME] = XDP_DROP, [WEFT_OP_SEQ] = XDP_DROP
	};
	static const char *const counters[] = {
		[WEFT_OP_DATA] = "rx_data rx_bytes=100 tx_ack",
		[WEFT_OP_ACK] = "rx_ack absorbed",
		[WEFT_OP_NAK] = "rx_nak",
		[WEFT_OP_READ] = "rx_ask tx_ack",
		[WEFT_OP_FADD] = "rx_ask tx_ack",
		[WEFT_OP_CSWAP] = "rx_ask tx_ack",
		[WEFT_OP_REPLY] = "rx_ack rx_reply rx_bytes=100 absorbed",
		[WEFT_OP_SEND] = "rx_data rx_bytes=100 tx_ack",
		[WEFT_OP_RNR] = "rx_ack rx_rnr absorbed",
		[WEFT_OP_RESUME] = "rx_resume doorbell absorbed",
		/* of a transmission that is not the last: see strict__again */
		[WEFT_OP_SEQ] = "rx_ack rx_seq surplus absorbed",
	};

	(void)state;
	EACH_OP(op)
	{
		BOTH(q)
		{
			struct pkt p;

			fx_reset(NULL);
			send_one(q, op);
			fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights |= WEFT_ACCESS_REMOTE_READ;
			fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights |= WEFT_ACCESS_REMOTE_ATOMIC;
			packet(&p, q, op);
			pkt_frame(&p, &f);
			assert_int_equal(fx_run(FX_NIC, &f), verdict[op]);
			expect_counters(counters[op]);
			if (brings_bytes(op))
				memcpy(fx.want + FX_T_OFF, random_bytes(7), 100);
			expect_pools();
		}
	}
	memset(fx.want, 0xc5, FX_POOL);
	memset(fx.target, 0xc5, FX_POOL);
}

/*
 * A row of the table at the end: what is spoilt about a packet that would be accepted. Each way,
 * with every operation and over both families, must be dropped, raise that one counter, and
 * change neither the frame nor any map nor memory.
 */
enum { ON_DATA = 1, ON_REPLIES = 2, ON_ASKS = 4, ON_ALL = ON_DATA | ON_REPLIES | ON_ASKS };

struct spoilt {
	int on;
	uint32_t from, ways; /* `way` counts from `from`, so many at most */
	/* spoil the packet, or the QP that it is for; false: this packet has no such way */
	bool (*packet)(struct pkt *p, struct fx_qp *q, uint32_t way);
	void (*bytes)(uint32_t way); /* or the frame, as it is sent */
	const char *counter;
};

static bool version(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)q;
	p->h.ver = way;
	return way != WEFT_WIRE_VER;
}

static bool opcode(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)q;
	p->h.op = way;
	return way < WEFT_OP_DATA || way > WEFT_OP_SEQ;
}

static bool unknown_qpn(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	static const uint32_t qpns[] = { 0, 2, 8, WEFT_QPS - 1, WEFT_QPS, 0xffff, 0xffffffff };

	(void)q;
	p->h.dqpn = htonl(qpns[way]);
	return true;
}

static bool free_slot(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)p;
	(void)way;
	q->ctl->state = WEFT_QP_FREE;
	return true;
}

/* A QP that is not connected has no peer and no keys: what such an entry would take for genuine. */
static bool not_connected(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	struct weft_qpctl blank = { .state = WEFT_QP_INIT,
				    .qpn = q->ctl->qpn,
				    .flags = q->ctl->flags & WEFT_QPF_V6,
				    .owner = FX_OWNER,
				    .ring = q->slot };

	(void)way;
	*q->ctl = blank;
	memset(p->saddr, 0, sizeof(p->saddr));
	memset(p->daddr, 0, sizeof(p->daddr));
	p->h.conn = 0;
	p->hkey = q->ctl->hkey;
	return true;
}

static bool stale_generation(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)q;
	p->h.dqpn ^= htonl(1u << way);
	return true;
}

/* Both addresses, every bit: forged by somebody who knows all the keys. */
static bool forged_source(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	uint32_t *addr = way % 2 ? p->saddr : p->daddr, bit = way / 2;

	addr[bit / 32] ^= 1u << bit % 32;
	return q->v6 || bit < 32;
}

static bool other_family(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	const size_t tail = sizeof(p->saddr) - sizeof(p->saddr[0]);

	(void)way;
	p->v6 = !p->v6;
	memset(p->saddr + 1, 0, tail);
	memset(p->daddr + 1, 0, tail);
	memset(q->ctl->saddr + 1, 0, tail);
	memset(q->ctl->daddr + 1, 0, tail);
	return true;
}

static bool wrong_conn(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)q;
	p->h.conn ^= htobe64(1ull << way);
	return true;
}

/* The check is keyed: the other pair's key does not do. */
static bool other_key(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)way;
	p->hkey = fx.qp[q->v6 ? A4 : A6].ctl->hkey;
	return true;
}

/* The header's length against what UDP brought. */
static bool length(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	static const int lies[] = { -100, -1, 1, 64, 3228, 0x8000 };

	(void)q;
	p->h.len = htons(p->len + lies[way]);
	return true;
}

/* Cut in transit with lengths corrected; or bytes where there are none. */
static bool length_agreed(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)q;
	(void)way;
	if (brings_bytes(p->h.op)) {
		p->len -= 1;
	} else {
		p->payload = random_bytes(1);
		p->len = 64;
		p->h.len = htons(64);
	}
	return true;
}

/* A wrong UDP checksum is dropped whether this QP asks for one (way 0 to 15) or not. */
static bool csum_wrong(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	q->ctl->flags = (q->v6 ? WEFT_QPF_V6 : 0) | (way < 16 ? WEFT_QPF_CSUM : 0);
	p->csum = true;
	return !q->v6 || way < 16;
}

static bool csum_missing(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)way;
	q->ctl->flags |= WEFT_QPF_CSUM;
	p->csum = false;
	return true;
}

/* A length that is no multiple of anything. */
static bool csum_payload(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)way;
	pkt_data(p, q->peer, FX_PSN, 0, random_bytes(7), 1535);
	p->csum = true;
	return true;
}

/* I14 */
static bool dead_owner(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)p;
	(void)q;
	(void)way;
	fx_kill_owner();
	return true;
}

static bool closed(struct pkt *p, struct fx_qp *q, uint32_t way)
{
	(void)p;
	q->ctl->state = way;
	return true;
}

static void flip(uint32_t at, uint32_t bit)
{
	f.b[at + bit / 8] ^= 1 << bit % 8;
}

static uint32_t csum_at(void)
{
	return frame_hl(&f) - WEFT_HDR_LEN - 2;
}

/* Any bit of the header, with a UDP checksum that fits or none: never accepted. */
static void flip_header(uint32_t way)
{
	bool csum = f.b[csum_at()] | f.b[csum_at() + 1];

	flip(frame_hl(&f) - WEFT_HDR_LEN, way);
	if (csum)
		pkt_csum(&f);
}

static void flip_csum(uint32_t way)
{
	flip(csum_at(), way % 16);
}

static void flip_payload(uint32_t way)
{
	flip(frame_hl(&f), way * 8 + way % 8);
}

/* One row. */
static void refused(void **state)
{
	const struct spoilt *s = *state;

	EACH_OP(op)
	{
		if (!(s->on & (op == WEFT_OP_DATA ? ON_DATA : is_reply(op) ? ON_REPLIES : ON_ASKS)))
			continue;
		BOTH(q)
		{
			uint32_t done = 0;

			fx_reset(NULL);
			send_one(q, op);
			for (uint32_t way = s->from; way < s->from + s->ways; way++) {
				struct pkt p;

				packet(&p, q, op);
				if (s->packet && !s->packet(&p, q, way))
					continue;
				pkt_frame(&p, &f);
				if (s->bytes)
					s->bytes(way);
				expect_drop(&f, s->counter);
				done++;
			}
			assert_true(done > 0);
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

/* A closed QP refuses DATA by name. */
static void admit__closed(void **state)
{
	(void)state;
	BOTH(q)
	{
		for (uint32_t st = WEFT_QP_ERR; st <= WEFT_QP_CLOSED; st++) {
			struct pkt p, nak;
			struct frame want = { .len = 0 };

			fx_reset(NULL);
			q->ctl->state = st;
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
		}
	}
}

#define REFUSED(name, ...)                                                            \
	{                                                                             \
		"admit__" #name, refused, fx_reset, fx_check_memory, &(struct spoilt) \
		{                                                                     \
			__VA_ARGS__                                                   \
		}                                                                     \
	}

const struct CMUnitTest fx_tests_admit[] = {
	FX_TEST(admit__good),
	FX_TEST(admit__csum_right),
	FX_TEST(admit__closed),
	REFUSED(version, ON_ALL, 0, 256, version, NULL, "drop.version"),
	REFUSED(opcode, ON_DATA, 0, 256, opcode, NULL, "drop.opcode"),
	REFUSED(unknown_qpn, ON_ALL, 0, 7, unknown_qpn, NULL, "drop.qpn"),
	REFUSED(free_slot, ON_ALL, 0, 1, free_slot, NULL, "drop.qpn"),
	REFUSED(not_connected, ON_ALL, 0, 1, not_connected, NULL, "drop.qpn"),
	REFUSED(stale_generation, ON_ALL, 16, 16, stale_generation, NULL, "drop.generation"),
	REFUSED(forged_source, ON_ALL, 0, 256, forged_source, NULL, "drop.source"),
	REFUSED(other_family, ON_DATA, 0, 1, other_family, NULL, "drop.source"),
	REFUSED(wrong_conn, ON_ALL, 0, 64, wrong_conn, NULL, "drop.conn"),
	REFUSED(other_key, ON_ALL, 0, 1, other_key, NULL, "drop.check"),
	REFUSED(length, ON_ALL, 0, 6, length, NULL, "drop.length"),
	REFUSED(length_agreed, ON_ALL, 0, 1, length_agreed, NULL, "drop.length"),
	REFUSED(csum_wrong, ON_ALL, 0, 32, csum_wrong, flip_csum, "drop.csum"),
	REFUSED(csum_missing, ON_ALL, 0, 1, csum_missing, NULL, "drop.csum"),
	REFUSED(csum_payload, ON_DATA, 0, 1535, csum_payload, flip_payload, "drop.csum"),
	REFUSED(dead_owner, ON_ALL, 0, 1, dead_owner, NULL, "drop.owner"),
	REFUSED(closed_replies, ON_REPLIES, WEFT_QP_ERR, 2, closed, NULL, "drop.closed"),
	/* the header bit by bit, by what each group of them means */
	REFUSED(flip_version, ON_ALL, 0, 8, NULL, flip_header, "drop.version"),
	REFUSED(flip_op_flags_ev, ON_ALL, 8, 24, NULL, flip_header, "drop.check"),
	REFUSED(flip_generation, ON_ALL, 32, 16, NULL, flip_header, "drop.generation"),
	REFUSED(flip_slot, ON_ALL, 48, 16, NULL, flip_header, "drop.qpn"),
	REFUSED(flip_conn, ON_ALL, 64, 64, NULL, flip_header, "drop.conn"),
	REFUSED(flip_rest, ON_ALL, 128, WEFT_HDR_LEN * 8 - 128, NULL, flip_header, "drop.check"),
	FX_END,
};
