// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the sending side puts on the wire, and how tests make it send. */
#include "fixture.h"

#define FAIL_AT(...)                      \
	do {                              \
		print_error(__VA_ARGS__); \
		print_error("\n");        \
		_fail(file, line);        \
	} while (0)

uint32_t fx_sent(const struct fx_qp *q, const struct seg *s, const char *file, int line)
{
	uint32_t ts = ntohl(frame_hdr(&fx.out)->ts);
	struct frame want;
	struct pkt p;

	if ((int32_t)(ts - fx.t0) < 0 || (int32_t)(fx.t1 - ts) < 0)
		FAIL_AT("the send time is %u, not %u to %u", ts, fx.t0, fx.t1);
	pkt_init(&p, q, WEFT_OP_DATA, s->psn);
	p.sport = WEFT_EV_PORT0 + s->ev;
	p.h.ev = s->ev;
	p.h.flags = s->flags;
	p.h.ts = htonl(ts);
	p.h.len = htons(s->len);
	p.h.data.rkey = htonl(FX_T_KEY);
	p.h.data.msn = htonl(s->msn);
	p.h.data.roff = htobe64(s->roff + s->moff);
	p.h.data.moff = htonl(s->moff);
	p.h.data.mlen = htonl(s->mlen);
	p.payload = fx.source + FX_S_OFF + s->loff + s->moff;
	p.len = s->len;
	pkt_frame(&p, &want);
	fx_frame(&want, file, line);
	return ts;
}

void fx_template(const struct fx_qp *q, enum weft_db_op op, const char *file, int line)
{
	struct frame want = fx.in;
	struct weft_db db = { .magic = WEFT_DB_MAGIC, .op = op, .qpn = q->ctl->qpn };

	want.b[12] = WEFT_DB_ETHERTYPE >> 8;
	want.b[13] = WEFT_DB_ETHERTYPE & 0xff;
	memcpy(want.b + 14, &db, sizeof(db));
	fx_frame(&want, file, line);
}

uint32_t fx_fill(const struct fx_qp *q)
{
	static struct frame f;

	doorbell_frame(&f, WEFT_DB_FILL, q->ctl->qpn, 60);
	assert_int_equal(fx_run(FX_FILL, &f), XDP_PASS);
	return ntohl(frame_hdr(&fx.out)->ts);
}

void fx_fill_n(const struct fx_qp *q, int n)
{
	while (n--)
		fx_fill(q);
}

uint32_t fx_hold(struct fx_qp *q, uint32_t n, uint32_t len)
{
	static struct weft_tx tx;
	uint32_t ts;

	fx_post(q, 0, 0, len);
	ts = fx_fill(q);
	fx_fill_n(q, n - 1);
	fx_tx_get(q, &tx);
	for (int d = 0; d < WEFT_DOMAINS; d++)
		tx.lane[d].who = WEFT_LANE_NONE;
	fx_tx_set(q, &tx);
	return ts;
}

int fx_ack(const struct fx_qp *q, uint32_t n, uint32_t ts)
{
	static struct frame f;
	struct pkt p;

	pkt_ack(&p, q->peer, FX_PSN + n, FX_PSN + n + 1, 0);
	p.h.ts = htonl(ts);
	pkt_frame(&p, &f);
	return fx_run(FX_NIC, &f);
}

int fx_ring(const struct fx_qp *q, enum weft_db_op op)
{
	static struct frame f;

	doorbell_frame(&f, op, q->ctl->qpn, 60);
	return fx_run(FX_DB, &f);
}

void fx_waits(uint32_t slot)
{
	fx.run->dom[0].wait[slot / 64] |= 1ull << slot % 64;
	fx.run->dom[0].any |= 1u << slot / 64;
}

void fx_books(int inflight, uint32_t active, int waiting)
{
	struct weft_devrun want = fx.before.run;

	want.dom[0].inflight = inflight;
	want.dom[0].turn = fx.after.run.dom[0].turn;
	memset(want.dom[0].wait, 0, sizeof(want.dom[0].wait));
	if (waiting >= 0) {
		want.dom[0].wait[waiting / 64] |= 1ull << waiting % 64;
		assert_true(fx.after.run.dom[0].any >> waiting / 64 & 1);
	}
	/* words that nobody waits in any more are forgotten when somebody looks */
	want.dom[0].any = fx.after.run.dom[0].any;
	want.active = active;
	expect_bytes(&fx.after.run, &want, sizeof(want));
}
