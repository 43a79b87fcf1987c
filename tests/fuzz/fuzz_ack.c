// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The ACK path: WRITEs and READs on a QP, good and bad, and a peer whose answers say anything. */
#include "flow.h"

static struct flow fl;
static bool hostile; /* the application wrote into its ring what it should not */

static void sent(void *arg, const struct frame *f)
{
	(void)arg;
	if (!hostile)
		flow_sent(&fl, f);
}

static void post(struct input *in)
{
	uint32_t how = take8(in), len = how & 1 ? take8(in) : take16(in) * 2;
	uint64_t loff = take16(in) * 48;

	if (!flow_room(&fl))
		return;
	if (how >= 250) /* a local error at its last byte: the QP fails */
		loff = FX_S_LEN - len + 1;
	if (how >= 150 && how < 200)
		flow_post_recv(&fl, how & 2 ? WEFT_WQE_SEND : WEFT_WQE_WRITE, loff, take16(in), len,
			       how & 2 && how & 4 ? 0 : WEFT_F_IMM | (how & 8 ? WEFT_F_SOL : 0));
	else if (how >= 200 && how < 250)
		flow_post_ask(&fl, WEFT_WQE_READ, loff, take16(in), len);
	else
		flow_post(&fl, loff, take16(in), len);
}

/* Anything at all in the pages that the application can write. */
static void scribble(struct input *in)
{
	struct weft_ring *r = fl.q->ring;
	uint32_t at = take16(in) % sizeof(*r), n = take8(in) % 64;

	hostile = true;
	switch (take8(in) % 4) {
	case 0: r->sq_prod = take32(in); break;
	case 1: r->sq_prod += take8(in); break;
	default:
		while (n-- && at < sizeof(*r))
			((uint8_t *)r)[at++] = take8(in);
	}
}

static bool missed(uint8_t op)
{
	return op == WEFT_OP_RNR || op == WEFT_OP_SEQ;
}

/* As far as an ACK is accepted, what it says counts. */
static void note_acked(const struct weft_hdr *h, uint32_t nxt, uint32_t una)
{
	uint32_t psn = ntohl(h->psn), cum = ntohl(h->ack.cum), base = ntohl(h->ack.sack_base);
	uint64_t sack = be64toh(h->ack.sack);

	if (nxt - psn > WEFT_WIN) /* too old to tell anything */
		return;
	for (uint32_t i = 0; i < FLOW_PSNS; i++) {
		uint32_t s = FX_PSN + i;

		if ((int32_t)(s - nxt) >= 0)
			break;
		if (fl.psn[i].own)
			continue;
		if ((s == psn && !missed(h->op)) || (int32_t)(s - cum) < 0 ||
		    (s - base < 64 && sack >> (s - base) & 1 && (int32_t)(s - una) >= 0))
			fl.psn[i].acked = true;
	}
}

/* A REPLY came: it may have changed what was asked for, once, and nothing else. */
static void replied(const struct pkt *p)
{
	uint32_t i = ntohl(p->h.psn) - FX_PSN;

	if (!flow_replied)
		return;
	if (i >= fl.cut || !fl.psn[i].own || fl.psn[i].acked || p->len != fl.psn[i].len)
		fuzz_fail("I2: %u bytes that nobody waits for, for PSN %u", p->len, i);
	fl.psn[i].acked = true;
	backend_written(fl.msg[fl.psn[i].msn].loff + fl.psn[i].moff, p->payload, p->len);
}

/* An ACK that is mostly plausible, of what has been sent. */
static void answer(struct input *in)
{
	static struct weft_tx tx;
	static struct frame f;
	uint32_t how = take8(in), psn, inflight;
	struct pkt p, request;

	fx_tx_get(fl.q, &tx);
	inflight = tx.inflight;
	psn = how < 128   ? tx.una + take8(in) % (tx.nxt - tx.una + 1)
	      : how < 240 ? tx.nxt - 1 - take8(in)
			  : tx.nxt - 2100 + take16(in) % 4200;
	if (how == 255 || how == 127) {
		pkt_nak(&p, fl.q->peer, psn, take8(in) % 8);
		p.h.nak.psn = htonl(psn + take8(in) - 128);
	} else {
		uint32_t i = psn - FX_PSN, cum = tx.una + (take8(in) - 100) / 4;
		uint32_t msn = tx.done + take8(in) % 3 - 1;

		if (how % 4 == 1 && !hostile) {
			pkt_read(&request, fl.q, psn, 0, 0);
			pkt_answer(&p, &request, fl.q->peer, cum, msn, random_bytes(how),
				   i < fl.cut && take8(in) < 200 ? fl.psn[i].len
								 : take16(in) % (FX_FULL + 1));
		} else {
			pkt_ack(&p, fl.q->peer, psn, cum, msn);
		}
		if (how & 1)
			p.h.ack.cum = htonl(tx.una);
		if (how & 2)
			p.h.ack.sack = htobe64(take64(in));
		if (how & 4)
			p.h.ack.sack_base = htonl((psn & ~63u) + (take8(in) % 5 - 2) * 64);
		if (how % 32 == 31)
			p.h.ack.sack_base = htonl(take32(in));
	}
	p.h.ts = htonl(how & 8 ? tx.slot[weft_tx_at(psn)].ts : take32(in));
	p.h.flags = how & 16 ? WEFT_F_CE : 0;
	if (how & 64 && p.h.op == WEFT_OP_ACK) {
		uint32_t kind = take8(in);

		if (kind & 1)
			p.h.op = kind & 2 ? WEFT_OP_SEQ : WEFT_OP_RNR;
		if (kind & 4) {
			p.h.flags |= WEFT_F_RQ;
			p.h.ack.epoch = htonl(kind >= 240 ? take32(in) : tx.epoch + kind / 8 - 8);
		}
	}
	pkt_frame(&p, &f);
	backend_headroom(how & 32 ? 40 + take8(in) : 256);
	if (p.h.op != WEFT_OP_NAK && !((int32_t)(tx.nxt - psn) < 1))
		note_acked(&p.h, tx.nxt, tx.una);
	flow_run(in, FX_NIC, &f, sent, NULL);
	replied(&p);
	if (!hostile)
		flow_check(&fl, inflight);
}

/* The peer says that it has posted receives; nothing else changes. */
static void resume(struct input *in)
{
	static struct weft_tx tx;
	static struct frame f;
	uint32_t how = take8(in);
	struct pkt p;

	fx_tx_get(fl.q, &tx);
	pkt_resume(&p, fl.q->peer, how >= 240 ? take32(in) : tx.epoch + how / 8 - 8);
	pkt_frame(&p, &f);
	backend_headroom(how & 1 ? 256 : 40 + how);
	flow_run(in, FX_NIC, &f, sent, NULL);
	if (!hostile)
		flow_check(&fl, tx.inflight);
}

static void ring(struct input *in, enum weft_db_op op)
{
	uint32_t inflight = flow_inflight(&fl);
	static struct frame f;

	doorbell_frame(&f, op, fl.q->ctl->qpn, 60 + take8(in) * 4);
	backend_headroom(256);
	flow_run(in, FX_DB, &f, sent, NULL);
	if (!hostile)
		flow_check(&fl, inflight);
}

/*
 * The PSN window is nearly full, for the oldest packet is still out: what a few hundred steps of a
 * fuzzer do not bring about.
 */
static void fill_window(struct input *in)
{
	static struct weft_tx tx;
	static struct frame f;
	struct pkt p;

	for (int i = 0; i < 4; i++)
		flow_post(&fl, 0, 0, 300 * FX_FULL);
	ring(in, WEFT_DB_POST);
	ring(in, WEFT_DB_LOOK);
	backend_cpu(1 + take8(in) % 3);
	for (uint32_t i = 1; i < WEFT_WIN - 4; i++) {
		fx_tx_get(fl.q, &tx);
		if (tx.nxt - tx.una <= i)
			break;
		pkt_ack(&p, fl.q->peer, tx.una + i, tx.una, 0);
		p.h.ts = htonl(tx.slot[weft_tx_at(tx.una + i)].ts);
		pkt_frame(&p, &f);
		note_acked(&p.h, tx.nxt, tx.una);
		flow_run(in, FX_NIC, &f, sent, NULL);
	}
}

void fuzz_ack(struct input *in)
{
	uint32_t how = take8(in);

	fx_reset(NULL);
	hostile = false;
	fx.cfg->queues = 0;
	fx.cfg->domains = 4;
	fx.cfg->cpus = 0xf;
	for (int i = 0; i < FX_QPS; i++) {
		fx.qp[i].ctl->doms = 0xf;
		for (int d = 0; d < 4; d++)
			fx.qp[i].ctl->cpu_of[d] = d;
	}
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_ALL;
	flow_init(&fl, &fx.qp[how & 1 ? A6 : A4]);
	fl.q->ctl->cwnd = how & 2 ? 1 + take8(in) : 0;
	if (how % 16 == 12)
		fill_window(in);
	for (int n = 0; more(in) && n < 400; n++) {
		uint32_t what = take8(in);

		if (what < 60)
			post(in);
		else if (what < 80)
			ring(in, WEFT_DB_POST);
		else if (what < 100)
			ring(in, WEFT_DB_LOOK);
		else if (what < 195)
			answer(in);
		else if (what < 200)
			resume(in);
		else if (what < 225)
			backend_wait(take16(in) << (what % 4 * 4));
		else if (what < 245)
			backend_cpu(what % 4);
		else if (what < 250)
			fl.q->ctl->cwnd = take16(in);
		else
			scribble(in);
		flow_check_books();
		backend_written(0, NULL, 0);
	}
}
