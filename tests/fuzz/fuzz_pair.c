// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Two genuine peers and a network that loses, repeats, reorders and damages: nothing is lost in the end. */
#include "queue.h"

#define NET 192

static struct flow fl[2]; /* both directions */
static struct frame net[NET];
static uint32_t nnet;
static uint64_t counter; /* what is at FLOW_WORD */
static struct queue queue;
static bool receives, strict;
static bool silent; /* no RESUME: the probes must do */

static struct flow *flow_of(const struct frame *f, bool sender)
{
	uint32_t qpn = ntohl(frame_hdr(f)->dqpn);

	for (int i = 0; i < 2; i++)
		if ((sender ? fl[i].q->ctl->dqpn : fl[i].q->ctl->qpn) == qpn)
			return &fl[i];
	fuzz_fail("a frame to QP 0x%x", qpn);
}

static bool is_request(uint8_t op)
{
	return op == WEFT_OP_DATA || op == WEFT_OP_SEND || op == WEFT_OP_READ || op == WEFT_OP_FADD;
}

/* What leaves goes onto the wire; when it is full, something is lost. */
static void to_wire(void *arg, const struct frame *f)
{
	(void)arg;
	if (is_request(frame_hdr(f)->op))
		flow_sent(flow_of(f, true), f);
	if (nnet < NET)
		net[nnet++] = *f;
}

static void check_all(const uint32_t inflight[2])
{
	for (int i = 0; i < 2; i++)
		flow_check(&fl[i], inflight[i]);
	flow_check_books();
	backend_written(0, NULL, 0);
}

static void note(uint32_t inflight[2])
{
	inflight[0] = flow_inflight(&fl[0]);
	inflight[1] = flow_inflight(&fl[1]);
}

/* A whole request arrives: is it carried out, and rightly? Placed twice it may not be (I2). */
static void arrived(struct flow *from, const struct frame *f)
{
	const struct weft_hdr *h = frame_hdr(f);
	uint32_t i = ntohl(h->psn) - FX_PSN, arrived = from->q->peer->ring->arrived;

	if (COUNTED(rx_data)) {
		if (from->psn[i].placed)
			fuzz_fail("I2: PSN %u is placed twice", i);
		from->psn[i].placed = true;
		struct span s[2] = { { be64toh(h->data.roff), ntohs(h->len) } };
		int n = 1;

		if (h->op == WEFT_OP_SEND)
			n = queue_place(&queue, from, ntohl(h->data.rsn), ntohl(h->data.moff),
					ntohs(h->len), s);
		backend_scattered(s, n, f->b + frame_hl(f));
	}
	if (COUNTED(rx_ask)) {
		bool atomic = h->op == WEFT_OP_FADD;
		bool again = frame_hdr(&fx.out)->flags & WEFT_F_DUP; /* h is that now */

		if (again != from->psn[i].placed)
			fuzz_fail("I2: PSN %u is carried out, %s", i, again ? "first" : "again");
		if (atomic && !again) {
			from->psn[i].was = counter++;
			backend_atomic(FLOW_WORD, counter);
		}
		from->psn[i].placed = true;
	}
	for (uint32_t k = 0; strict && from->psn[i].placed && k < i; k++)
		if (!from->psn[k].placed)
			fuzz_fail("strict order: PSN %u is placed before %u", i, k);
	for (uint32_t k = 0, m = 0; k < from->cut && m < arrived; k++) {
		if (!from->psn[k].placed)
			fuzz_fail("I4: %u messages have arrived, PSN %u has not", arrived, k);
		m += from->psn[k].last && !from->psn[k].own;
	}
}

/* A REPLY came: its bytes are in memory now, once, and those that were asked for. */
static void replied(struct flow *fl, const struct weft_hdr *h)
{
	uint32_t i = ntohl(h->psn) - FX_PSN, m = fl->psn[i].msn, moff = fl->psn[i].moff;
	uint64_t was = fl->psn[i].was;

	if (!flow_replied)
		return;
	if (fl->psn[i].acked)
		fuzz_fail("I2: PSN %u has a second answer", i);
	fl->psn[i].acked = true;
	if (fl->msg[m].op == WEFT_WQE_READ)
		backend_written(fl->msg[m].loff + moff,
				fx.source + FX_S_OFF + fl->msg[m].roff + moff, fl->psn[i].len);
	else
		backend_written(fl->msg[m].loff, &was, sizeof(was));
}

static void answered(struct flow *fl, const struct weft_hdr *h)
{
	uint32_t cum = ntohl(h->ack.cum) - FX_PSN, base = ntohl(h->ack.sack_base) - FX_PSN;
	uint64_t sack = be64toh(h->ack.sack);

	for (uint32_t i = 0; i < fl->cut; i++) {
		if ((int32_t)(i - cum) >= 0 && !(i - base < 64 && sack >> (i - base) & 1))
			continue;
		/* a SACK may be a window old when it is sent; it is of something placed in any case */
		if (!fl->psn[i].placed)
			fuzz_fail("I3: PSN %u is acknowledged, and is not placed", i);
		if (!fl->psn[i].own)
			fl->psn[i].acked = true;
	}
}

static void lose(uint32_t i)
{
	nnet--;
	memmove(&net[i], &net[i + 1], (nnet - i) * sizeof(net[0]));
}

static void deliver(struct input *in, uint32_t i, bool keep)
{
	static struct frame f;
	struct weft_hdr h;
	uint32_t inflight[2];

	f = net[i];
	if (!keep)
		lose(i);
	note(inflight);
	h = *frame_hdr(&f);
	bool answer = h.op == WEFT_OP_ACK || h.op == WEFT_OP_RNR || h.op == WEFT_OP_SEQ;

	backend_headroom(answer ? 256 + FX_FULL : 256);
	if (answer || h.op == WEFT_OP_REPLY)
		answered(flow_of(&f, false), &h);
	flow_run(in, FX_NIC, &f, to_wire, NULL);
	if (h.op == WEFT_OP_REPLY)
		replied(flow_of(&f, false), &h);
	if (is_request(h.op))
		arrived(flow_of(&f, true), &f);
	if (h.op == WEFT_OP_NAK)
		fuzz_fail("a genuine peer is refused: code %u", ntohl(h.nak.code));
	check_all(inflight);
}

/* A damaged header is found, whatever the damage. */
static void deliver_damaged(struct input *in, uint32_t i)
{
	static struct frame f;
	uint32_t inflight[2], hl = frame_hl(&net[i]);
	uint8_t bits = take8(in);

	f = net[i];
	f.b[hl - WEFT_HDR_LEN + take8(in) % WEFT_HDR_LEN] ^= bits ? bits : 1;
	note(inflight);
	flow_run(in, FX_NIC, &f, to_wire, NULL);
	if (fx.verdict != XDP_DROP || drops() != 1)
		fuzz_fail("I1: a damaged header is not dropped");
	check_all(inflight);
}

static void ring(struct input *in, struct flow *f, enum weft_db_op op)
{
	static struct frame bell;
	uint32_t inflight[2];

	note(inflight);
	doorbell_frame(&bell, op, f->q->ctl->qpn, 60 + take8(in) * 4);
	backend_headroom(256);
	flow_run(in, FX_DB, &bell, to_wire, NULL);
	check_all(inflight);
}

/* The responder of f posts a receive, takes what is complete, and tells who waits. */
static void use_queue(struct input *in)
{
	uint64_t off = take16(in) * 16, off2 = take16(in) * 16;

	if (!receives)
		return;
	queue_poll(&queue, fl);
	queue_post(&queue, off, off2);
	for (int i = 0; i < (queue.shared ? 2 : 1); i++)
		if (queue_waited(&fl[i]) && !silent)
			ring(in, &fl[!i], WEFT_DB_RESUME);
}

static void post(struct input *in, struct flow *f)
{
	uint32_t how = take8(in), len = how & 1 ? take8(in) : take16(in);

	if (!flow_room(f))
		return;
	if (how >= 240)
		flow_post_ask(f, WEFT_WQE_FADD, take16(in) * 48, FLOW_WORD, 8);
	else if (receives && how & 4 && how < 160 && (queue.shared || f == fl))
		flow_post_recv(f, how & 8 ? WEFT_WQE_SEND : WEFT_WQE_WRITE, take16(in) * 48,
			       take16(in) * 16, len,
			       how & 8 && how & 16 ? 0 : WEFT_F_IMM | (how & 32 ? WEFT_F_SOL : 0));
	else if (how >= 160)
		flow_post_ask(f, WEFT_WQE_READ, take16(in) * 48, take16(in) * 16, len);
	else
		flow_post(f, take16(in) * 48, take16(in) * 16 + (how & 2 ? WEFT_CHUNK - 40000 : 0),
			  len);
	if (!f->q->ring->hint)
		ring(in, f, WEFT_DB_POST);
}

static bool done(const struct flow *f)
{
	return f->q->ring->sq_done == f->posted;
}

/* From here on nothing is lost, and the timer looks: then all of it must arrive (I15). */
static void drain(void)
{
	struct input none = { NULL, NULL };

	for (int n = 0; n < 20000 && !(done(&fl[0]) && done(&fl[1])); n++) {
		/* SEQs and repeats of a packet that the network has doubled may go round until the timer looks */
		if (nnet && n % 64) {
			backend_wait(WEFT_TICKS_US(1));
			deliver(&none, 0, false);
			continue;
		}
		backend_wait(WEFT_TICKS_US(20000));
		use_queue(&none);
		backend_cpu(n);
		for (int i = 0; i < 2; i++)
			if (!done(&fl[i]))
				ring(&none, &fl[i], WEFT_DB_LOOK);
	}
	for (int i = 0; i < 2; i++) {
		if (!done(&fl[i]))
			fuzz_fail("I15: %u of %u requests complete", fl[i].q->ring->sq_done,
				  fl[i].posted);
		if (fl[i].q->peer->ring->arrived != fl[i].writes)
			fuzz_fail("I4: %u of %u WRITEs have arrived", fl[i].q->peer->ring->arrived,
				  fl[i].writes);
		if (fl[i].q->peer->ring->received != fl[i].recvs)
			fuzz_fail("I4: %u of %u receives are complete",
				  fl[i].q->peer->ring->received, fl[i].recvs);
	}
}

/* As the library has it: one path, one queue. */
static void make_strict(struct fx_qp *q)
{
	static struct weft_tx tx;

	q->ctl->flags |= WEFT_QPF_STRICT;
	q->ctl->doms = 1;
	q->ctl->nev = 1;
	weft_tx_init(&tx, FX_PSN, FX_FULL, 1);
	tx.strict = 1;
	fx_tx_set(q, &tx);
}

void fuzz_pair(struct input *in)
{
	uint32_t how = take8(in);

	fx_reset(NULL);
	fx.cfg->queues = 0;
	fx.cfg->domains = 4;
	fx.cfg->cpus = 0xf;
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_ALL;
	fx.mr[WEFT_KEY_IDX(FX_S_KEY)].rights = WEFT_ACCESS_ALL;
	receives = how & 16;
	strict = how & 8;
	silent = how & 64;
	backend_peek(FX_POOL_T, FX_T_OFF + FLOW_WORD, &counter, sizeof(counter));
	nnet = 0;
	for (int i = 0; i < 2; i++) {
		struct fx_qp *q = &fx.qp[how & 1 ? A6 + i : A4 + i];

		flow_init(&fl[i], q);
		q->ctl->doms = how & 2 ? 0xf : 1;
		q->ctl->cwnd = how & 4 ? 1 + take8(in) : 0;
		for (int d = 0; d < 4; d++)
			q->ctl->cpu_of[d] = d;
		if (strict)
			make_strict(q);
	}
	if (receives)
		queue_init(&queue, fl, how & 32);
	for (int n = 0; more(in) && n < 600; n++) {
		uint32_t what = take8(in);

		if (what < 30)
			post(in, &fl[what & 1]);
		else if (what < 38)
			use_queue(in);
		else if (what < 42)
			ring(in, &fl[what & 1], WEFT_DB_LOOK);
		else if (what < 60)
			backend_wait(take16(in) << (what % 4 * 4));
		else if (what < 70)
			backend_cpu(how & 2 ? what % 4 : 0);
		else if (!nnet)
			continue;
		else if (what < 160)
			deliver(in, 0, false);
		else if (what < 210)
			deliver(in, take8(in) % nnet, false);
		else if (what < 225)
			deliver(in, take8(in) % nnet, true);
		else if (what < 240)
			deliver_damaged(in, take8(in) % nnet);
		else
			lose(take8(in) % nnet);
	}
	drain();
}
