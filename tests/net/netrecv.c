// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * netrecv: receives that go wrong, are missing, late, flushed or shared; between two devices of one
 * process. One test a run. Public API only.
 */
#include "netrecv.h"

/* ---- errors ---- */

/* A SEND that is longer than its receive ends the QP on both sides; each learns of its own part. */
static void test_long(void)
{
	static const uint32_t second[] = { 65, 20000 };

	for (unsigned i = 0; i < 2; i++) {
		struct pair p = join_recvs(8);

		memset(B.mem, 0x55, 4096);
		for (unsigned k = 0; k < 5; k++)
			ask_recv(p.b, NULL, 100 + k, k * 64, 64);
		ask_send(p.a, 0, 0, 32, 0);
		expect(cqa(&p), 0, WEFT_WC_SUCCESS, "SEND");
		ask_send(p.a, 1, 0, second[i], 0);
		ask_send(p.a, 2, 0, 16, 0);
		ask_send(p.a, 3, 0, 0, 0);
		expect(cqa(&p), 1, WEFT_WC_REM_INV_REQ_ERR, "too long");
		expect(cqa(&p), 2, WEFT_WC_FLUSH_ERR, "behind it");
		expect(cqa(&p), 3, WEFT_WC_FLUSH_ERR, "behind it");
		expect(cqb(&p), 100, WEFT_WC_SUCCESS, "receive");
		expect(cqb(&p), 101, WEFT_WC_LOC_LEN_ERR, "too short");
		for (unsigned k = 2; k < 5; k++)
			expect(cqb(&p), 100 + k, WEFT_WC_FLUSH_ERR, "behind it");
		expect_none(cqb(&p), 20, "receives");
		expect_none(cqa(&p), 20, "SENDs");
		expect_status(p.a, WEFT_WC_REM_INV_REQ_ERR, "A");
		expect_status(p.b, WEFT_WC_GENERAL_ERR, "B");
		for (unsigned k = 64; k < 128; k++)
			if (B.mem[k] != 0x55) {
				bad("a message that is too long was written: byte %u", k);
				break;
			}
		if (try_recv(p.b, NULL, 9, 0, 1) != -ENOTCONN)
			bad("a receive can be posted to a QP in error");
		part(&p);
	}
}

/* The memory of a receive is taken away after it was posted. */
static void test_gone(void)
{
	struct pair p = join_recvs(8);
	struct weft_sge g = { .len = 64 };
	struct weft_recv r = { .wr_id = 7, .sge = &g, .nsge = 1 };
	struct weft_mr *mr;

	need(weft_mr_window(B.mr, 0, 64, WEFT_LOCAL_WRITE, &mr), "weft_mr_window");
	g.mr = mr;
	must(weft_post_recv(p.b, &r, 1) == 1, "weft_post_recv");
	ask_recv(p.b, NULL, 8, 64, 64);
	need(weft_mr_dereg(mr), "weft_mr_dereg");
	ask_send(p.a, 1, 0, 64, 0);
	expect(cqa(&p), 1, WEFT_WC_REM_OP_ERR, "SEND into memory that is gone");
	expect(cqb(&p), 7, WEFT_WC_LOC_PROT_ERR, "receive of memory that is gone");
	expect(cqb(&p), 8, WEFT_WC_FLUSH_ERR, "behind it");
	expect_status(p.a, WEFT_WC_REM_OP_ERR, "A");
	part(&p);
}

/* ---- no receive ---- */

/* Without a receive the sender waits, however long: there is somebody there. */
static void test_wait(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct pair p, q;

	oa.timeout_ms = 150;
	p = join(&oa, &ob); /* no queue at all */
	ob.recvs = 4;
	q = join(&oa, &ob); /* an empty one */
	ask_send(p.a, 1, 0, 64, 0);
	ask_send(q.a, 1, 0, 5000, WEFT_WR_IMM);
	expect_none(cqa(&p), 900, "a peer without a receive queue");
	expect_none(cqa(&q), 300, "a peer without a receive");
	expect_status(p.a, WEFT_WC_SUCCESS, "waiting");
	expect_status(q.a, WEFT_WC_SUCCESS, "waiting");
	ask_recv(q.b, NULL, 5, 0, 8192);
	expect(cqb(&q), 5, WEFT_WC_SUCCESS, "a late receive");
	expect(cqa(&q), 1, WEFT_WC_SUCCESS, "a SEND that waited");
	/* and the peer goes */
	weft_qp_close(p.b);
	expect(cqa(&p), 1, WEFT_WC_REM_CLOSED_ERR, "the peer closes while we wait");
	expect_status(p.a, WEFT_WC_REM_CLOSED_ERR, "closed");
	weft_qp_close(p.a);
	part(&q);
}

/* What the trace says of how long the peer was asked: the last of such lines. */
static unsigned asked_ms;

static void on_log(void *arg, enum weft_log_level level, const char *line)
{
	const char *p = strstr(line, "failed: the peer posts no receive, for ");

	(void)arg, (void)level;
	if (p)
		asked_ms = atoi(strrchr(p, ',') + 6);
}

/* rnr_retries: not before, not much later. */
static void test_retries(void)
{
	static const unsigned retries[] = { 1, 3, 6 };

	for (unsigned i = 0; i < 3; i++) {
		struct weft_qp_opts oa = opts(), ob = opts();
		double want = 0, t0, ms;
		struct pair p;

		weft_set_log(on_log, NULL, WEFT_LOG_INFO);
		oa.rnr_retries = retries[i];
		ob.recvs = 1;
		for (unsigned k = 0; k <= retries[i]; k++)
			want += 2 << (k < 5 ? k : 5);
		p = join(&oa, &ob);
		t0 = now_s();
		ask_send(p.a, 1, 0, 64, 0);
		ask_send(p.a, 2, 0, 64, 0);
		expect(cqa(&p), 1, WEFT_WC_RNR_RETRY_EXC_ERR, "rnr_retries");
		ms = (now_s() - t0) * 1e3;
		expect(cqa(&p), 2, WEFT_WC_FLUSH_ERR, "behind it");
		say("rnr_retries %u: %.1f ms, %.0f at least", retries[i], ms, want);
		if (ms < want * 0.9 || ms > want + 10000)
			bad("rnr_retries %u: after %.1f ms, not %.0f", retries[i], ms, want);
		expect_status(p.a, WEFT_WC_RNR_RETRY_EXC_ERR, "A");
		part(&p);
		weft_set_log(NULL, NULL, WEFT_LOG_ERR);
		if (asked_ms < want * 0.9 || asked_ms > ms + 1)
			bad("rnr_retries %u: the trace says %u ms", retries[i], asked_ms);
	}
	/*
	 * More probes than that, but not in a row, for which it would take 0.4 s. If they were counted from
	 * one message to the next, the first had 5, and each later one another.
	 */
	{
		struct weft_qp_opts oa = opts(), ob = opts();
		struct pair p;

		oa.rnr_retries = 10;
		ob.recvs = 4;
		p = join(&oa, &ob);
		for (unsigned k = 0; k < 10; k++) {
			ask_send(p.a, k, 0, 64, 0);
			usleep(80000);
			ask_recv(p.b, NULL, k, 0, 64);
			expect(cqb(&p), k, WEFT_WC_SUCCESS, "a receive in time");
			expect(cqa(&p), k, WEFT_WC_SUCCESS, "a SEND in time");
		}
		part(&p);
	}
}

/* ---- flush ---- */

/* Each receive comes back once, in order: those with a message, and then the others. */
static void test_flush(void)
{
	struct pair p = join_recvs(64);
	struct weft_wc wc;

	for (unsigned k = 0; k < 40; k++)
		ask_recv(p.b, NULL, k, k * 64, 64);
	for (unsigned k = 0; k < 10; k++)
		ask_send(p.a, k, 0, 40, 0);
	for (unsigned k = 0; k < 10; k++)
		expect(cqa(&p), k, WEFT_WC_SUCCESS, "SEND");
	for (unsigned k = 0; k < 5; k++)
		expect(cqb(&p), k, WEFT_WC_SUCCESS, "receive");
	weft_qp_close(p.a);
	expect_status(p.b, WEFT_WC_REM_CLOSED_ERR, "B");
	for (unsigned k = 5; k < 40; k++) {
		/* as long as there is something, a wait ends */
		if (weft_cq_wait(cqb(&p), WEFT_ARM_RX, 1000) != 1)
			bad("receive %u: a wait with flushed receives left does not end", k);
		if (weft_cq_poll(cqb(&p), &wc, 1) != 1)
			bad("receive %u: no completion", k);
		else if (wc.wr_id != k || wc.qp != p.b || wc.op != WEFT_WR_RECV ||
			 wc.status != (k < 10 ? WEFT_WC_SUCCESS : WEFT_WC_FLUSH_ERR))
			bad("receive %u: completion of %llu, %s", k, (unsigned long long)wc.wr_id,
			    weft_wc_str(wc.status));
	}
	expect_none(cqb(&p), 20, "flushed");
	if (weft_cq_wait(cqb(&p), WEFT_ARM_RX, 30) != 0)
		bad("a wait ends for nothing");
	weft_qp_close(p.b);
}

/* ---- a shared queue ---- */

/* How many entries are free? */
static unsigned fill_up(struct weft_srq *srq)
{
	unsigned n = 0;
	int r;

	while ((r = try_recv(NULL, srq, 1000 + n, 0, 64)) == 1)
		n++;
	if (r != -EAGAIN || !strstr(weft_strerror_last(), "full"))
		bad("a full SRQ: %d, %s", r, weft_strerror_last());
	return n;
}

static void test_shared(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct weft_pd *pd;
	struct weft_srq *srq, *other;
	struct pair p, q;
	struct weft_wc wc;
	unsigned n;

	need(weft_srq_create(B.dev, NULL, 16, &srq), "weft_srq_create");
	ob.srq = srq;
	need(weft_cq_create(B.dev, &ob.cq), "weft_cq_create");
	p = join(&oa, &ob);
	q = join(&oa, &ob);
	if (weft_srq_destroy(srq) != -EBUSY)
		bad("an SRQ with QPs can be destroyed");
	for (unsigned k = 0; k < 16; k++)
		ask_recv(NULL, srq, k, 0, 64);
	if (fill_up(srq))
		bad("an SRQ of 16 takes more");
	/* 3 complete of one, 2 of the other; a third of the first is too long and ends that QP */
	for (unsigned k = 0; k < 3; k++) {
		ask_send(p.a, k, 0, 64, 0);
		expect(cqa(&p), k, WEFT_WC_SUCCESS, "SEND");
	}
	for (unsigned k = 0; k < 2; k++) {
		ask_send(q.a, k, 0, 64, 0);
		expect(cqa(&q), k, WEFT_WC_SUCCESS, "SEND");
	}
	ask_send(p.a, 9, 0, 65, 0);
	expect(cqa(&p), 9, WEFT_WC_REM_INV_REQ_ERR, "too long for an SRQ's receive");
	expect_status(p.b, WEFT_WC_GENERAL_ERR, "B");
	n = 0;
	while (n < 6 && next_wc(ob.cq, &wc, 1000)) {
		enum weft_wc_status want = wc.wr_id == 5 ? WEFT_WC_LOC_LEN_ERR : WEFT_WC_SUCCESS;

		if (wc.wr_id > 5 || wc.status != want)
			bad("receive %llu: %s", (unsigned long long)wc.wr_id,
			    weft_wc_str(wc.status));
		n++;
	}
	expect_none(ob.cq, 20, "SRQ");
	if (n != 6 || (n = fill_up(srq)) != 6)
		bad("%u entries are free, not 6", n);
	/* the other goes on, with what the failed one left */
	for (unsigned k = 0; k < 4; k++) {
		ask_send(q.a, k, 0, 64, 0);
		expect(cqa(&q), k, WEFT_WC_SUCCESS, "SEND");
	}
	/* and closes with 4 complete and not polled */
	part(&p);
	part(&q);
	if ((n = fill_up(srq)) != 4)
		bad("%u entries came back from a QP that was closed, not 4", n);
	need(weft_pd_alloc(B.dev, &pd), "weft_pd_alloc");
	need(weft_srq_create(B.dev, pd, 1, &other), "weft_srq_create");
	if (weft_pd_free(pd) != -EBUSY)
		bad("a PD with an SRQ can be freed");
	need(weft_srq_destroy(other), "weft_srq_destroy");
	need(weft_pd_free(pd), "weft_pd_free");
	need(weft_srq_destroy(srq), "weft_srq_destroy");
	need(weft_cq_destroy(ob.cq), "weft_cq_destroy");
}

/*
 * More messages than can be complete and not polled: polling wakes the sender, without a new receive. How
 * often of 8 times did it wait for a probe?
 */
static unsigned unpolled(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	unsigned sent = 0, done = 0, got = 0, stalls = 0;
	struct weft_wc wc[64];
	struct weft_srq *srq;
	struct pair p;

	need(weft_srq_create(B.dev, NULL, 4096, &srq), "weft_srq_create");
	ob.srq = srq;
	p = join(&oa, &ob);
	for (unsigned k = 0; k < 4096; k++)
		ask_recv(NULL, srq, k, 0, 64);
	for (unsigned round = 0; round < 8; round++) {
		double t0 = now_s(), t1;
		unsigned cap = got + 256;

		/* all that go without being polled, and some that wait */
		while (done < cap && now_s() - t0 < 30) {
			done += weft_cq_poll(cqa(&p), wc, 64);
			if (sent < cap + 100 && sent - done < WEFT_DEPTH)
				ask_send(p.a, sent++, 0, 16, 0);
		}
		usleep(60000);
		done += weft_cq_poll(cqa(&p), wc, 64);
		if (done != cap)
			bad("round %u: %u went, %u may", round, done, cap);
		while (got < cap) {
			int n = weft_cq_poll(cqb(&p), wc, cap - got < 64 ? cap - got : 64);

			if (!n) {
				bad("round %u: %u of %u received", round, got, cap);
				break;
			}
			got += n;
		}
		t1 = now_s();
		while (!weft_cq_poll(cqb(&p), wc, 1) && now_s() - t1 < 30)
			;
		got++;
		stalls += now_s() - t1 > 0.01;
	}
	say("%u messages, %u of 8 waits for a probe", got, stalls);
	part(&p);
	need(weft_srq_destroy(srq), "weft_srq_destroy");
	return stalls;
}

/* A busy machine looks the same as a probe that is waited for, so the best of three. */
static void test_unpolled(void)
{
	unsigned stalls = 8;

	for (int i = 0; i < 3 && stalls > 3 && !wrong; i++)
		stalls = unpolled();
	if (stalls > 3)
		bad("polling does not wake the sender: %u of 8 times it waited for a probe",
		    stalls);
}

/* ---- a RESUME that is lost: the script cuts the way back in between ---- */

static const char *go; /* the file that the script makes when it has done its part */

static void step(const char *what)
{
	double end = now_s() + 60;

	say("%s", what);
	while (access(go, F_OK) && now_s() < end)
		usleep(1000);
	need(unlink(go) ? -errno : 0, "the script does not go on");
}

static void test_lost(void)
{
	struct pair p = join_recvs(4);

	ask_send(p.a, 1, 0, 64, 0);
	expect_none(cqa(&p), 100, "waiting");
	step("cut");
	ask_recv(p.b, NULL, 2, 0, 64);
	step("posted");
	expect(cqb(&p), 2, WEFT_WC_SUCCESS, "a receive whose RESUME was lost");
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "a SEND whose RESUME was lost");
	part(&p);
}

/* ---- the peer is another process, which is killed ---- */

static void test_hold(void)
{
	struct weft_qp_opts o = opts();
	struct weft_qp *qp;

	say("listening");
	o.connect_ms = 60000;
	need(weft_accept(listener, &o, &qp), "weft_accept");
	say("held");
	pause();
}

static void test_killed(void)
{
	struct weft_qp_opts o = opts();
	struct weft_qp *qp;
	double t0;

	need(weft_connect(A.dev, addr_b, &o, &qp), "weft_connect");
	ask_send(qp, 1, 0, 64, 0);
	expect_none(weft_qp_cq(qp), 200, "waiting");
	step("waiting");
	t0 = now_s();
	expect(weft_qp_cq(qp), 1, WEFT_WC_REM_CLOSED_ERR, "the peer was killed while we waited");
	say("noticed after %.1f ms", (now_s() - t0) * 1e3);
	weft_qp_close(qp);
}

/* ---- as many queues as weftd allows a user ---- */

static void test_quota(void)
{
	struct weft_srq *srq[300];
	unsigned n = 0, again = 0;
	int r;

	while (n < 300 && !(r = weft_srq_create(B.dev, NULL, 64, &srq[n])))
		n++;
	say("%u queues, then %d: %s", n, r, weft_strerror_last());
	if (r != -EDQUOT || !strstr(weft_strerror_last(), "receive queues"))
		bad("not a quota of receive queues");
	for (unsigned i = 0; i < n; i++)
		need(weft_srq_destroy(srq[i]), "weft_srq_destroy");
	while (again < n && !weft_srq_create(B.dev, NULL, 64, &srq[again]))
		again++;
	if (again != n)
		bad("%u of %u queues were given back", again, n);
}

#include "netrecv_more.h"
#include "netrecv_order.h"

static const struct {
	const char *name;
	void (*fn)(void);
	bool a, b; /* which devices */
} tests[] = {
	{ "long", test_long, true, true },         { "gone", test_gone, true, true },
	{ "wait", test_wait, true, true },         { "resume", test_resume, true, true },
	{ "retries", test_retries, true, true },   { "flush", test_flush, true, true },
	{ "shared", test_shared, true, true },     { "unpolled", test_unpolled, true, true },
	{ "lost", test_lost, true, true },         { "hold", test_hold, false, true },
	{ "killed", test_killed, true, false },    { "misuse", test_misuse, true, true },
	{ "quota", test_quota, false, true },      { "solicited", test_sol, true, true },
	{ "sleepers", test_sleepers, true, true }, { "sizes", test_sizes, true, true },
	{ "ordered", test_ordered, true, true },   { "cut", test_cut, true, true },
	{ "down", test_down, true, true },
};

int main(int argc, char **argv)
{
	const char *name;
	unsigned i = 0;

	if (argc < 7) {
		fputs("usage: netrecv NETNS-A DEV-A NETNS-B DEV-B HOST-B TEST [ SEED [ FILE ] ]\n"
		      "       a NETNS of - is the one it is in; strict:TEST: in strict order\n",
		      stderr);
		return 2;
	}
	nw.strict = !strncmp(argv[6], "strict:", 7);
	name = argv[6] + (nw.strict ? 7 : 0);
	while (i < sizeof(tests) / sizeof(tests[0]) && strcmp(tests[i].name, name))
		i++;
	if (i == sizeof(tests) / sizeof(tests[0]))
		return 2;
	if (argc > 7)
		nw.seed = atoi(argv[7]);
	go = argc > 8 ? argv[8] : "";
	snprintf(addr_b, sizeof(addr_b), "%s:7700", argv[5]);
	if (tests[i].a)
		half_open(&A, argv[1], argv[2]);
	if (tests[i].b) {
		half_open(&B, argv[3], argv[4]);
		need(weft_listen(B.dev, ":7700", &listener), "weft_listen");
	}
	tests[i].fn();
	if (listener)
		weft_listener_close(listener);
	if (A.dev)
		weft_close(A.dev);
	if (B.dev)
		weft_close(B.dev);
	return wrong != 0;
}
