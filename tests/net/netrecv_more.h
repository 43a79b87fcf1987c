/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* netrecv: misuse, late receives, solicited events, sleepers, and SENDs of every size. */
#ifndef NETRECV_MORE_H
#define NETRECV_MORE_H

#include <sys/epoll.h>

#include "netrecv.h"

/* ---- misuse ---- */

static void refused(int r, int want, const char *text, const char *what)
{
	if (r != want)
		bad("%s: %d, not %d (%s)", what, r, want, weft_strerror_last());
	else if (!strstr(weft_strerror_last(), text))
		bad("%s: \"%s\" does not say \"%s\"", what, weft_strerror_last(), text);
}

static void misuse_opts(void)
{
	struct weft_qp_opts o = opts();
	struct weft_srq *srq, *foreign;
	struct weft_pd *pd;
	struct weft_qp *qp;

	refused(weft_srq_create(B.dev, NULL, 0, &srq), -EINVAL, "1 to 32768", "SRQ of 0");
	refused(weft_srq_create(B.dev, NULL, 32769, &srq), -EINVAL, "1 to 32768", "SRQ of 32769");
	need(weft_srq_create(B.dev, NULL, 4, &foreign), "weft_srq_create");
	need(weft_pd_alloc(A.dev, &pd), "weft_pd_alloc");
	need(weft_srq_create(A.dev, pd, 4, &srq), "weft_srq_create");
	refused(weft_srq_create(B.dev, pd, 4, &foreign), -EINVAL, "same device",
		"another device's PD");
	o.recvs = 32769;
	refused(weft_connect(A.dev, addr_b, &o, &qp), -EINVAL, "recvs is 32769", "recvs");
	o.recvs = 4;
	o.srq = srq;
	refused(weft_connect(A.dev, addr_b, &o, &qp), -EINVAL, "not both", "recvs and srq");
	o.recvs = 0;
	refused(weft_connect(A.dev, addr_b, &o, &qp), -EINVAL, "PD", "an SRQ of another PD");
	o.srq = foreign;
	refused(weft_connect(A.dev, addr_b, &o, &qp), -EINVAL, "SRQ", "an SRQ of another device");
	need(weft_srq_destroy(NULL), "weft_srq_destroy(NULL)");
	need(weft_srq_destroy(srq), "weft_srq_destroy");
	need(weft_srq_destroy(foreign), "weft_srq_destroy");
	need(weft_pd_free(pd), "weft_pd_free");
}

static void misuse_recv(const struct pair *p, struct weft_mr *no_right)
{
	struct weft_sge g[8] = { { .mr = B.mr, .len = 8 } };
	struct weft_recv r = { .sge = g, .nsge = 1 };

	refused(weft_post_recv(p->a, &r, 1), -EINVAL, "no receive queue", "no queue");
	refused(weft_post_recv(p->b, NULL, 1), -EINVAL, "argument is NULL", "no receive");
	refused(weft_post_recv(p->b, &r, 0), -EINVAL, "0 receives", "none to post");
	refused(weft_post_recv(p->b, &r, -1), -EINVAL, "-1 receives", "fewer than none");
	r.nsge = 5;
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "5 pieces", "pieces");
	r = (struct weft_recv){ .nsge = 1 };
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "sge is NULL, and nsge 1",
		"no list of pieces");
	r.sge = g;
	g[0].mr = NULL;
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "mr is NULL", "no MR");
	g[0].mr = A.mr;
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "not of this device", "another device's MR");
	g[0].mr = no_right;
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "WEFT_LOCAL_WRITE", "a right");
	g[0] = (struct weft_sge){ .mr = B.mr, .off = MEM - 4, .len = 8 };
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "8 bytes at", "bounds");
	g[0] = (struct weft_sge){ .mr = B.mr, .off = UINT64_MAX, .len = 8 };
	refused(weft_post_recv(p->b, &r, 1), -EINVAL, "8 bytes at", "bounds that wrap");
}

static void misuse_post(const struct pair *p)
{
	struct weft_sge g[9] = { { .mr = A.mr, .len = 8 } };
	struct weft_wr ok = { .op = WEFT_WR_SEND, .sge = g, .nsge = 1 }, wr;
	uint8_t data[WEFT_INLINE_MAX + 1] = { 0 };

#define REFUSED(text, what, ...)                                       \
	do {                                                           \
		wr = ok;                                               \
		__VA_ARGS__;                                           \
		refused(weft_post(p->a, &wr, 1), -EINVAL, text, what); \
	} while (0)
	REFUSED("no such operation", "WR_RECV", wr.op = WEFT_WR_RECV);
	REFUSED("no such operation", "op 99", wr.op = 99);
	REFUSED("unknown flags", "flags", wr.flags = 0x100);
	REFUSED("257 inline", "too much inline", wr.flags = WEFT_WR_INLINE, wr.data = data,
		wr.len = WEFT_INLINE_MAX + 1);
	REFUSED("inline", "inline of nothing", wr.flags = WEFT_WR_INLINE, wr.len = 8);
	REFUSED("inline", "an inline READ", wr.op = WEFT_WR_READ, wr.flags = WEFT_WR_INLINE,
		wr.data = data, wr.len = 8);
	REFUSED("immediate", "a READ with immediate data", wr.op = WEFT_WR_READ,
		wr.flags = WEFT_WR_IMM);
	REFUSED("immediate", "an atomic with immediate data", wr.op = WEFT_WR_FETCH_ADD,
		wr.flags = WEFT_WR_IMM);
	REFUSED("solicited", "a solicited WRITE", wr.op = WEFT_WR_WRITE,
		wr.flags = WEFT_WR_SOLICITED);
	REFUSED("solicited", "a solicited READ", wr.op = WEFT_WR_READ,
		wr.flags = WEFT_WR_SOLICITED);
	REFUSED("9 pieces", "pieces", wr.nsge = 9);
	REFUSED("0 pieces", "no pieces", wr.nsge = 0);
	REFUSED("pieces", "no list of pieces", wr.sge = NULL);
#undef REFUSED
}

static void test_misuse(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct pair p = join_recvs(4), q;
	struct weft_mr *no_right;
	unsigned n = 0;
	int r;

	need(weft_mr_window(B.mr, 0, 64, WEFT_LOCAL, &no_right), "weft_mr_window");
	misuse_opts();
	misuse_recv(&p, no_right);
	misuse_post(&p);
	need(weft_srq_create(B.dev, NULL, 2, &ob.srq), "weft_srq_create");
	q = join(&oa, &ob);
	refused(try_recv(q.b, NULL, 1, 0, 8), -EINVAL, "SRQ", "a QP with an SRQ");
	part(&q);
	need(weft_srq_destroy(ob.srq), "weft_srq_destroy");

	/* full: at as many as were asked for, and not for ever; of n as many as there is room for */
	{
		struct weft_sge g = { .mr = B.mr, .len = 8 };
		struct weft_recv many[6];

		for (unsigned i = 0; i < 6; i++)
			many[i] = (struct weft_recv){ .wr_id = i, .sge = &g, .nsge = 1 };
		r = weft_post_recv(p.b, many, 6);
		if (r != 4)
			bad("of 6 receives %d fit a queue of 4", r);
	}
	refused(try_recv(p.b, NULL, 9, 0, 8), -EAGAIN, "full", "a full queue");
	ask_send(p.a, 1, 0, 8, 0);
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "after all that");
	refused(try_recv(p.b, NULL, 9, 0, 8), -EAGAIN, "full", "a queue with what is not polled");
	expect(cqb(&p), 0, WEFT_WC_SUCCESS, "after all that");
	ask_recv(p.b, NULL, 4, 0, 8);
	/* the send queue */
	for (r = 1; r == 1 && n <= WEFT_DEPTH; n += r == 1) {
		struct weft_sge g = { .mr = A.mr, .len = 8 };
		struct weft_wr wr = { .op = WEFT_WR_SEND, .sge = &g, .nsge = 1 };

		r = weft_post(p.a, &wr, 1);
	}
	refused(r, -EAGAIN, "full", "a full send queue");
	if (n != WEFT_DEPTH)
		bad("%u SENDs fit a queue of %d", n, WEFT_DEPTH);
	part(&p);
	need(weft_mr_dereg(no_right), "weft_mr_dereg");
}

/* ---- late receives ---- */

#define RESUMES 40

/* How many messages came within 10 ms of their receives? */
static unsigned resumed(void)
{
	struct pair p = join_recvs(64);
	unsigned early = 0, rounds = RESUMES;
	double ms[RESUMES];

	for (unsigned k = 0; k < rounds; k++) {
		struct weft_wc wc;
		double t0;

		ask_send(p.a, k, 0, k % 3 ? 64 : 9000, 0);
		/* by now probes are 32 or 64 ms apart */
		usleep(70000 + k * 700);
		t0 = now_s();
		ask_recv(p.b, NULL, k, 0, 16384);
		if (!next_wc(cqb(&p), &wc, 30000) || wc.status || wc.wr_id != k)
			bad("message %u did not come", k);
		ms[k] = (now_s() - t0) * 1e3;
		early += ms[k] < 10;
		expect(cqa(&p), k, WEFT_WC_SUCCESS, "SEND");
	}
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned j = i + 1; j < rounds; j++)
			if (ms[j] < ms[i]) {
				double x = ms[i];

				ms[i] = ms[j];
				ms[j] = x;
			}
	say("resumed after %.3f ms (median), %.3f (9th decile), %.3f at most; %u of %u within 10 ms",
	    ms[rounds / 2], ms[rounds * 9 / 10], ms[rounds - 1], early, rounds);
	part(&p);
	return early;
}

/*
 * A receive that is posted later is taken at once, not when the next probe comes: of those that a probe
 * finds it would be one in six. What else a machine does can only make it longer, so the best of three.
 */
static void test_resume(void)
{
	unsigned early = 0;

	for (int i = 0; i < 3 && early < RESUMES / 2 && !wrong; i++)
		early = resumed();
	if (early < RESUMES / 2)
		bad("only %u of %u messages came within 10 ms of their receives", early, RESUMES);
}

/* ---- solicited ---- */

static int readable(struct weft_cq *cq, int ms)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC), n;

	must(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, weft_cq_fd(cq), &ev), "epoll");
	n = epoll_wait(ep, &ev, 1, ms);
	close(ep);
	return n;
}

static void test_sol(void)
{
	struct pair p = join_recvs(64);
	struct weft_wc wc;
	double t0;

	for (unsigned k = 0; k < 30; k++)
		ask_recv(p.b, NULL, k, 0, 64);
	for (unsigned k = 0; k < 5; k++)
		ask_send(p.a, k, 0, 64, 0);
	t0 = now_s();
	if (weft_cq_wait(cqb(&p), WEFT_ARM_SOL, 150) != 0 || now_s() - t0 < 0.14)
		bad("a wait for solicited messages ends after %.1f ms by others",
		    (now_s() - t0) * 1e3);
	ask_send(p.a, 5, 0, 64, WEFT_WR_SOLICITED);
	if (weft_cq_wait(cqb(&p), WEFT_ARM_SOL, 30000) != 1)
		bad("a solicited message does not end a wait");
	for (unsigned k = 0; k < 6; k++) {
		expect(cqa(&p), k, WEFT_WC_SUCCESS, "SEND");
		if (!next_wc(cqb(&p), &wc, 30000) || wc.wr_id != k ||
		    wc.flags != (k == 5 ? WEFT_WC_SOLICITED : 0))
			bad("receive %llu: flags %x", (unsigned long long)wc.wr_id, wc.flags);
	}
	/* the descriptor: armed before anything comes */
	weft_cq_arm(cqb(&p), WEFT_ARM_SOL);
	ask_send(p.a, 6, 0, 64, WEFT_WR_IMM);
	expect(cqb(&p), 6, WEFT_WC_SUCCESS, "receive");
	if (readable(cqb(&p), 100))
		bad("an unsolicited message makes the descriptor readable");
	ask_send(p.a, 7, 0, 64, WEFT_WR_IMM | WEFT_WR_SOLICITED);
	if (readable(cqb(&p), 30000) != 1)
		bad("a solicited message does not make the descriptor readable");
	weft_cq_disarm(cqb(&p));
	if (readable(cqb(&p), 0))
		bad("disarmed, and still readable");
	expect(cqb(&p), 7, WEFT_WC_SUCCESS, "receive");
	/* any arrival, likewise */
	weft_cq_arm(cqb(&p), WEFT_ARM_RX);
	ask_send(p.a, 8, 0, 64, 0);
	if (readable(cqb(&p), 30000) != 1)
		bad("a message does not make the descriptor readable");
	weft_cq_disarm(cqb(&p));
	expect(cqb(&p), 8, WEFT_WC_SUCCESS, "receive");
	/* failures wake whoever waits for anything */
	weft_cq_arm(cqb(&p), WEFT_ARM_SOL);
	weft_qp_close(p.a);
	if (readable(cqb(&p), 30000) != 1)
		bad("a QP's failure does not make the descriptor readable");
	weft_cq_disarm(cqb(&p));
	for (unsigned k = 9; k < 30; k++)
		expect(cqb(&p), k, WEFT_WC_FLUSH_ERR, "flushed");
	weft_qp_close(p.b);
}

/* ---- both sides asleep ---- */

#define ROUNDS 20000

struct sleeper {
	struct weft_qp *qp;
	struct half *h;
	bool first;
	double longest;
};

static void *sleeper(void *arg)
{
	struct sleeper *s = arg;
	struct weft_cq *cq = weft_qp_cq(s->qp);
	struct weft_sge g = { .mr = s->h->mr, .len = 64 };
	struct weft_recv r = { .sge = &g, .nsge = 1 };
	struct weft_wr wr = {
		.op = WEFT_WR_SEND, .flags = WEFT_WR_UNSIGNALED, .sge = &g, .nsge = 1
	};

	for (unsigned k = 0; k < ROUNDS && !wrong; k++) {
		struct weft_wc wc;
		double t0 = now_s();

		if ((k || s->first) && weft_post(s->qp, &wr, 1) != 1)
			bad("round %u: %s", k, weft_strerror_last());
		/* at every message to sleep: the receive alone may wake, and comes once */
		while (!weft_cq_poll(cq, &wc, 1)) {
			if (weft_cq_wait(cq, WEFT_ARM_RX, 10000) == 0) {
				bad("round %u: asleep for 10 s, then %d completions", k,
				    weft_cq_poll(cq, &wc, 1));
				return NULL;
			}
		}
		if (now_s() - t0 > s->longest)
			s->longest = now_s() - t0;
		if (wc.status || wc.op != WEFT_WR_RECV)
			bad("round %u: %s", k, weft_wc_str(wc.status));
		if (weft_post_recv(s->qp, &r, 1) != 1)
			bad("round %u: %s", k, weft_strerror_last());
	}
	if (!s->first && weft_post(s->qp, &wr, 1) != 1)
		bad("the last: %s", weft_strerror_last());
	return NULL;
}

static void test_sleepers(void)
{
	struct weft_qp_opts oa = opts(), ob = opts();
	struct sleeper a = { .h = &A, .first = true }, b = { .h = &B };
	double t0;
	pthread_t t;
	struct pair p;

	oa.recvs = ob.recvs = 4;
	p = join(&oa, &ob);
	a.qp = p.a;
	b.qp = p.b;
	for (unsigned k = 0; k < 2; k++) {
		struct weft_sge g = { .mr = A.mr, .len = 64 };
		struct weft_recv r = { .sge = &g, .nsge = 1 };

		must(weft_post_recv(p.a, &r, 1) == 1, "weft_post_recv");
		ask_recv(p.b, NULL, 0, 0, 64);
	}
	t0 = now_s();
	pthread_create(&t, NULL, sleeper, &b);
	sleeper(&a);
	pthread_join(t, NULL);
	say("%d rounds in %.2f s, the longest %.1f ms", ROUNDS, now_s() - t0,
	    (a.longest > b.longest ? a.longest : b.longest) * 1e3);
	part(&p);
}

/* ---- sizes ---- */

static void one_size(struct pair *p, uint64_t k, uint32_t len)
{
	struct weft_mr *sm, *rm;
	struct weft_sge s[4], r[4];
	struct weft_wr wr = { .wr_id = k, .op = WEFT_WR_SEND, .sge = s, .nsge = 4 };
	struct weft_recv rv = { .wr_id = k, .sge = r, .nsge = 4 };
	uint64_t rnd = nw.seed + k, at = 0, to = 0;
	uint8_t *src, *dst;
	struct weft_wc wc;

	need(weft_alloc(A.dev, len + 1ull, (void **)&src), "weft_alloc");
	need(weft_alloc(B.dev, len + 65ull, (void **)&dst), "weft_alloc");
	need(weft_mr_reg(A.dev, NULL, src, len + 1ull, WEFT_LOCAL, &sm), "weft_mr_reg");
	need(weft_mr_reg(B.dev, NULL, dst, len + 65ull, WEFT_LOCAL_WRITE, &rm), "weft_mr_reg");
	for (uint64_t i = 0; i < len; i++)
		src[i] = (i * 0x9e3779b97f4a7c15ull + k) >> 56;
	memset(dst, 0xcc, len + 65ull);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t a = i == 3 ? len - at : np_below(&rnd, len - at + 1);
		uint32_t b = i == 3 ? len - to : np_below(&rnd, len - to + 1);

		s[i] = (struct weft_sge){ .mr = sm, .off = at, .len = a };
		r[i] = (struct weft_sge){ .mr = rm, .off = to, .len = b };
		at += a;
		to += b;
	}
	must(weft_post_recv(p->b, &rv, 1) == 1, "weft_post_recv");
	must(weft_post(p->a, &wr, 1) == 1, "weft_post");
	if (!next_wc(cqb(p), &wc, 60000) || wc.status || wc.len != len)
		bad("%u bytes: no receive, or of %u, %s", len, wc.len, weft_wc_str(wc.status));
	else if (memcmp(src, dst, len))
		bad("%u bytes in 4 pieces are not the same", len);
	for (unsigned i = 0; i < 65; i++)
		if (dst[len + i] != 0xcc) {
			bad("%u bytes: written behind them", len);
			break;
		}
	expect(cqa(p), k, WEFT_WC_SUCCESS, "SEND in 4 pieces");
	need(weft_mr_dereg(sm), "weft_mr_dereg");
	need(weft_mr_dereg(rm), "weft_mr_dereg");
	need(weft_free(A.dev, src), "weft_free");
	need(weft_free(B.dev, dst), "weft_free");
}

/* Inline bytes are taken when they are posted, in any number and without completions. */
static void inline_ones(struct pair *p)
{
	uint8_t data[WEFT_INLINE_MAX];
	unsigned total = 3000, sent = 0, got = 0;
	double end = now_s() + 60;

	for (unsigned k = 0; k < 64; k++)
		ask_recv(p->b, NULL, k, k * 256, 256);
	while (got < total && !wrong && now_s() < end) {
		struct weft_wr wr = { .wr_id = sent,
				      .op = WEFT_WR_SEND,
				      .flags = WEFT_WR_INLINE | WEFT_WR_UNSIGNALED,
				      .data = data,
				      .len = sent % (WEFT_INLINE_MAX + 1) };
		struct weft_wc wc;

		memset(data, sent * 7 + 1, sizeof(data));
		if (sent < total && weft_post(p->a, &wr, 1) == 1)
			sent++;
		memset(data, 0xee, sizeof(data));
		if (weft_cq_poll(cqa(p), &wc, 1))
			bad("completion of an unsignaled request: %s", weft_wc_str(wc.status));
		while (weft_cq_poll(cqb(p), &wc, 1)) {
			const uint8_t *m = B.mem + wc.wr_id * 256;
			uint8_t want = got * 7 + 1;

			if (wc.status || wc.len != got % (WEFT_INLINE_MAX + 1))
				bad("inline message %u: %u bytes, %s", got, wc.len,
				    weft_wc_str(wc.status));
			for (unsigned i = 0; i < wc.len; i++)
				if (m[i] != want) {
					bad("inline message %u: byte %u is %02x, not %02x", got, i,
					    m[i], want);
					break;
				}
			ask_recv(p->b, NULL, wc.wr_id, wc.wr_id * 256, 256);
			got++;
		}
	}
	if (got != total)
		bad("%u of %u inline messages", got, total);
}

static void test_sizes(void)
{
	struct weft_sge none = { .mr = A.mr };
	struct weft_wr wr = { .wr_id = 1, .op = WEFT_WR_SEND, .sge = &none, .nsge = 1 };
	struct pair p = join_recvs(64);
	struct weft_recv bare = { .wr_id = 11 };
	struct weft_wc wc;

	/* nothing at all, into a receive without pieces */
	must(weft_post_recv(p.b, &bare, 1) == 1, "weft_post_recv");
	must(weft_post(p.a, &wr, 1) == 1, "weft_post");
	if (!next_wc(cqb(&p), &wc, 30000) || wc.wr_id != 11 || wc.status || wc.len || wc.flags ||
	    wc.op != WEFT_WR_RECV)
		bad("a SEND of 0 bytes: op %u, %u bytes, %s", wc.op, wc.len,
		    weft_wc_str(wc.status));
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "SEND of 0 bytes");
	/* a WRITE of nothing but its immediate data; a key of nothing does */
	must(weft_post_recv(p.b, &bare, 1) == 1, "weft_post_recv");
	wr.op = WEFT_WR_WRITE;
	wr.flags = WEFT_WR_IMM | WEFT_WR_SOLICITED;
	wr.imm = 0xfeedface;
	wr.rkey = weft_mr_key(B.mr);
	must(weft_post(p.a, &wr, 1) == 1, "weft_post");
	if (!next_wc(cqb(&p), &wc, 30000) || wc.wr_id != 11 || wc.status || wc.len ||
	    wc.flags != (WEFT_WC_IMM | WEFT_WC_SOLICITED) || wc.imm != 0xfeedface ||
	    wc.op != WEFT_WR_RECV_IMM)
		bad("a WRITE of 0 bytes: op %u, imm %x, %s", wc.op, wc.imm, weft_wc_str(wc.status));
	expect(cqa(&p), 1, WEFT_WC_SUCCESS, "WRITE of 0 bytes");
	one_size(&p, 3, 1 << 20);
	one_size(&p, 4, 64 << 20);
	one_size(&p, 5, 3);
	inline_ones(&p);
	part(&p);
}

#endif
