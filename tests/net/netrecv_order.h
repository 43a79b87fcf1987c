/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * netrecv: every error status with requests before and behind the one that fails. What was before has
 * completed and is in place; what was behind is flushed, in order, and in strict order not carried out.
 */
#ifndef NETRECV_ORDER_H
#define NETRECV_ORDER_H

#include "netrecv.h"

#define AT_BEFORE 0
#define AT_BEHIND 4096
#define LEN       3000

static int ask_write(struct weft_qp *qp, uint64_t id, const struct weft_mr *mr, uint32_t rkey,
		     uint64_t roff)
{
	struct weft_sge g = { .mr = mr, .len = LEN };
	struct weft_wr wr = { .wr_id = id, .sge = &g, .nsge = 1, .rkey = rkey, .roff = roff };

	return weft_post(qp, &wr, 1);
}

/* Request 1, which arrives. */
static void before(struct pair *p)
{
	memset(A.mem, 0x11, LEN);
	memset(B.mem, 0x55, 8192);
	must(ask_write(p->a, 1, A.mr, weft_mr_key(B.mr), AT_BEFORE) == 1, "weft_post");
}

/* Requests 3 and 4, which do not: a QP that has failed already takes them no more. */
static unsigned behind(struct pair *p)
{
	unsigned n = ask_write(p->a, 3, A.mr, weft_mr_key(B.mr), AT_BEHIND) == 1;

	return n + (ask_write(p->a, 4, A.mr, weft_mr_key(B.mr), AT_BEHIND) == 1);
}

static void ends(struct pair *p, enum weft_wc_status want, unsigned n, const char *what)
{
	expect(cqa(p), 1, WEFT_WC_SUCCESS, what);
	expect(cqa(p), 2, want, what);
	for (unsigned i = 0; i < n; i++)
		expect(cqa(p), 3 + i, WEFT_WC_FLUSH_ERR, what);
	expect_none(cqa(p), 5, what);
	expect_status(p->a, want, what);
	for (unsigned i = 0; i < LEN; i++)
		if (B.mem[AT_BEFORE + i] != 0x11) {
			bad("%s: what was before it is not in place", what);
			break;
		}
	for (unsigned i = 0; i < LEN && nw.strict; i++)
		if (B.mem[AT_BEHIND + i] != 0x55) {
			bad("%s: what was behind it was carried out", what);
			break;
		}
	say("%s: \"%s\", %u flushed", what, weft_wc_str(want), n);
	part(p);
}

/* A SEND at A's head that waits for a receive, so that what is behind it waits too. */
static struct pair waiting(unsigned retries)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct pair p;

	oa.rnr_retries = retries;
	ob.recvs = 4;
	p = join(&oa, &ob);
	before(&p);
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "before");
	must(ask_write(p.a, 1, A.mr, weft_mr_key(B.mr), AT_BEFORE) == 1, "weft_post");
	ask_send(p.a, 2, 0, 64, 0);
	/* what was before it is complete */
	must(weft_cq_wait(cqa(&p), WEFT_ARM_TX, 30000) == 1, "weft_cq_wait");
	usleep(5000);
	return p;
}

static void test_refused(void)
{
	struct pair p = join_recvs(4);
	struct weft_wr wr = { .wr_id = 2, .nsge = 1 };
	struct weft_sge g = { .mr = A.mr, .len = 8 };
	static const enum weft_wr_op ops[] = { WEFT_WR_WRITE, WEFT_WR_READ, WEFT_WR_FETCH_ADD };

	for (unsigned i = 0; i < 3; i++) {
		if (i)
			p = join_recvs(4);
		before(&p);
		wr.op = ops[i];
		wr.sge = &g;
		wr.rkey = weft_mr_key(B.mr) + (i < 2 ? 1 << 12 : 0); /* no right to the third */
		must(weft_post(p.a, &wr, 1) == 1, "weft_post");
		ends(&p, WEFT_WC_REM_ACCESS_ERR, behind(&p),
		     i ? i > 1 ? "atomic" : "READ" : "WRITE");
	}
}

static void test_receives(void)
{
	struct pair p = join_recvs(4);
	struct weft_sge g = { .len = 64 };
	struct weft_recv r = { .wr_id = 7, .sge = &g, .nsge = 1 };
	struct weft_mr *mr;

	ask_recv(p.b, NULL, 7, 9000, 63);
	before(&p);
	ask_send(p.a, 2, 0, 64, 0);
	expect(cqb(&p), 7, WEFT_WC_LOC_LEN_ERR, "too short");
	expect_status(p.b, WEFT_WC_GENERAL_ERR, "B");
	ends(&p, WEFT_WC_REM_INV_REQ_ERR, behind(&p), "SEND that is too long");

	p = join_recvs(4);
	need(weft_mr_window(B.mr, 9000, 64, WEFT_LOCAL_WRITE, &mr), "weft_mr_window");
	g.mr = mr;
	must(weft_post_recv(p.b, &r, 1) == 1, "weft_post_recv");
	need(weft_mr_dereg(mr), "weft_mr_dereg");
	before(&p);
	ask_send(p.a, 2, 0, 64, 0);
	expect(cqb(&p), 7, WEFT_WC_LOC_PROT_ERR, "memory that is gone");
	ends(&p, WEFT_WC_REM_OP_ERR, behind(&p), "SEND into memory that is gone");

	p = waiting(2);
	ends(&p, WEFT_WC_RNR_RETRY_EXC_ERR, behind(&p), "no receive");
	p = waiting(0);
	{
		unsigned n = behind(&p);

		weft_qp_close(p.b);
		p.b = NULL;
		ends(&p, WEFT_WC_REM_CLOSED_ERR, n, "the peer closes");
	}
	p = waiting(0);
	{
		unsigned n = behind(&p);

		need(weft_qp_abort(p.a), "weft_qp_abort");
		ends(&p, WEFT_WC_FLUSH_ERR, n, "abort");
	}
}

/* The source of what waits behind a SEND is taken away. */
static void test_local(void)
{
	struct pair p = waiting(0);
	struct weft_mr *mr;

	need(weft_mr_window(A.mr, 0, LEN, WEFT_LOCAL, &mr), "weft_mr_window");
	must(ask_write(p.a, 3, mr, weft_mr_key(B.mr), AT_BEHIND) == 1, "weft_post");
	must(ask_write(p.a, 4, A.mr, weft_mr_key(B.mr), AT_BEHIND) == 1, "weft_post");
	need(weft_mr_dereg(mr), "weft_mr_dereg");
	ask_recv(p.b, NULL, 7, 9000, 64);
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "before");
	expect(cqa(&p), 2, WEFT_WC_SUCCESS, "before");
	expect(cqa(&p), 3, WEFT_WC_LOC_PROT_ERR, "a source that is gone");
	expect(cqa(&p), 4, WEFT_WC_FLUSH_ERR, "behind it");
	expect(cqb(&p), 7, WEFT_WC_SUCCESS, "before");
	for (unsigned i = 0; i < LEN; i++)
		if (B.mem[AT_BEHIND + i] != 0x55) {
			bad("a source that is gone was sent, or what was behind it");
			break;
		}
	expect_status(p.a, WEFT_WC_LOC_PROT_ERR, "A");
	part(&p);
}

/* Nothing gets through any more: the script has cut the wire. */
static void test_cut(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct pair p;

	oa.timeout_ms = 300;
	p = join(&oa, &ob);
	before(&p);
	must(weft_cq_wait(cqa(&p), WEFT_ARM_TX, 30000) == 1, "weft_cq_wait");
	step("cut");
	must(ask_write(p.a, 2, A.mr, weft_mr_key(B.mr), AT_BEHIND) == 1, "weft_post");
	ends(&p, WEFT_WC_RETRY_EXC_ERR, behind(&p), "no answer");
}

/* The script has taken weft down on A. */
static void test_down(void)
{
	struct pair p = waiting(0);
	unsigned n = behind(&p);

	step("down");
	ends(&p, WEFT_WC_DEV_ERR, n, "weft down");
}

static void test_ordered(void)
{
	test_refused();
	test_receives();
	test_local();
}

#endif
