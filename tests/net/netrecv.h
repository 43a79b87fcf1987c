/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the parts of netrecv share: two devices in one process, pairs of QPs, completions that are expected. */
#ifndef NETRECV_H
#define NETRECV_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netcommon.h"

#define MEM (1u << 20) /* bytes of memory on each side */

struct half {
	struct weft_dev *dev;
	uint8_t *mem;
	struct weft_mr *mr; /* of all of it, with all rights */
};
static struct half A, B;
static struct weft_listener *listener;
static char addr_b[80];

/* A's QP and B's, each with a CQ of its own unless the options say otherwise. */
struct pair {
	struct weft_qp *a, *b;
	const struct weft_qp_opts *opts_b;
};

static struct weft_qp_opts opts(void)
{
	return (struct weft_qp_opts){ .size = sizeof(struct weft_qp_opts),
				      .timeout_ms = 20000,
				      .strict = nw.strict };
}

static void *accept_one(void *arg)
{
	struct pair *p = arg;

	need(weft_accept(listener, p->opts_b, &p->b), "weft_accept");
	return NULL;
}

static struct pair join(const struct weft_qp_opts *oa, const struct weft_qp_opts *ob)
{
	struct pair p = { .opts_b = ob };
	pthread_t t;

	pthread_create(&t, NULL, accept_one, &p);
	need(weft_connect(A.dev, addr_b, oa, &p.a), "weft_connect");
	pthread_join(t, NULL);
	return p;
}

/* With that many entries in B's own receive queue. */
static struct pair join_recvs(unsigned recvs)
{
	struct weft_qp_opts oa = opts(), ob = opts();

	ob.recvs = recvs;
	return join(&oa, &ob);
}

static void part(struct pair *p)
{
	weft_qp_close(p->a);
	weft_qp_close(p->b);
}

static void ask_send(struct weft_qp *qp, uint64_t id, uint64_t off, uint32_t len, unsigned flags)
{
	struct weft_sge g = { .mr = A.mr, .off = off, .len = len };
	struct weft_wr wr = {
		.wr_id = id, .op = WEFT_WR_SEND, .flags = flags, .sge = &g, .nsge = 1, .imm = id * 3
	};
	int r = weft_post(qp, &wr, 1);

	if (r != 1)
		bad("SEND %llu: weft_post %d: %s", (unsigned long long)id, r, weft_strerror_last());
}

static int try_recv(struct weft_qp *qp, struct weft_srq *srq, uint64_t id, uint64_t off,
		    uint32_t len)
{
	struct weft_sge g = { .mr = B.mr, .off = off, .len = len };
	struct weft_recv r = { .wr_id = id, .sge = &g, .nsge = 1 };

	return srq ? weft_srq_post(srq, &r, 1) : weft_post_recv(qp, &r, 1);
}

static void ask_recv(struct weft_qp *qp, struct weft_srq *srq, uint64_t id, uint64_t off,
		     uint32_t len)
{
	int r = try_recv(qp, srq, id, off, len);

	if (r != 1)
		bad("receive %llu: %d: %s", (unsigned long long)id, r, weft_strerror_last());
}

/* The next completion within ms; false: none. */
static bool next_wc(struct weft_cq *cq, struct weft_wc *wc, unsigned ms)
{
	double end = now_s() + ms / 1e3;

	while (!weft_cq_poll(cq, wc, 1))
		if (now_s() > end)
			return false;
	return true;
}

static void expect(struct weft_cq *cq, uint64_t id, enum weft_wc_status status, const char *what)
{
	struct weft_wc wc;

	if (!next_wc(cq, &wc, 30000))
		bad("%s: no completion of %llu within 30 s", what, (unsigned long long)id);
	else if (wc.wr_id != id || wc.status != status)
		bad("%s: completion of %llu, %s; not of %llu, %s", what,
		    (unsigned long long)wc.wr_id, weft_wc_str(wc.status), (unsigned long long)id,
		    weft_wc_str(status));
}

static void expect_none(struct weft_cq *cq, unsigned ms, const char *what)
{
	struct weft_wc wc;

	if (next_wc(cq, &wc, ms))
		bad("%s: completion of %llu, %s, where there must be none", what,
		    (unsigned long long)wc.wr_id, weft_wc_str(wc.status));
}

static void expect_status(const struct weft_qp *qp, enum weft_wc_status want, const char *what)
{
	double end = now_s() + 30;

	while (weft_qp_status(qp) != want && now_s() < end)
		usleep(1000);
	if (weft_qp_status(qp) != want)
		bad("%s: the QP is \"%s\", not \"%s\"", what, weft_wc_str(weft_qp_status(qp)),
		    weft_wc_str(want));
}

static struct weft_cq *cqa(const struct pair *p)
{
	return weft_qp_cq(p->a);
}

static struct weft_cq *cqb(const struct pair *p)
{
	return weft_qp_cq(p->b);
}

static void half_open(struct half *h, const char *ns, const char *ifname)
{
	need(weft_open(ifname,
		       WEFT_OPTS(struct weft_open_opts, .netns = strcmp(ns, "-") ? ns : NULL),
		       &h->dev),
	     "weft_open");
	need(weft_alloc(h->dev, MEM, (void **)&h->mem), "weft_alloc");
	need(weft_mr_reg(h->dev, NULL, h->mem, MEM,
			 WEFT_LOCAL | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE | WEFT_REMOTE_READ,
			 &h->mr),
	     "weft_mr_reg");
}

#endif
