/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the parts of netops share: the peer's region, and a client that posts and takes completions. */
#ifndef NETOPS_H
#define NETOPS_H

#include <errno.h>
#include <pthread.h>

#include "netcommon.h"

/*
 * The peer's region: a part that nobody changes, a part for each QP that only
 * that QP writes, and counters that all change by atomics.
 */
#define FIXED    (1ull << 20)
#define OWN      (1ull << 20)
#define QPS      4
#define COUNTERS 4
#define REGION   (FIXED + QPS * OWN + 4096)
#define AT_COUNT (FIXED + QPS * OWN)
#define SEED     0x0b5e55ed
#define ROUNDS   nw.rounds

struct hello {
	uint32_t key, shut; /* the region's, and that of one that allows nothing */
	uint64_t len;
};

static uint8_t byte_at(uint64_t i)
{
	uint64_t x = (i + SEED) * 0x9e3779b97f4a7c15ull;

	return x >> 56;
}

struct client {
	struct weft_dev *dev;
	struct weft_qp *qp;
	struct hello h;
	uint8_t *mem; /* targets and sources */
	struct weft_mr *mr, *source;
	uint8_t *model; /* of the own part */
	uint64_t own;   /* where that begins */
	uint64_t rnd, ids;
	uint64_t seen[COUNTERS]; /* last value seen of each counter */
	unsigned added;          /* FADDs on counter 0 */
	uint32_t writes;         /* messages that must have arrived */
	unsigned index;
	uint32_t depth; /* of the queue; 0: the default */
	uint32_t cwnd;
	pthread_t thread;
};
#define MEM (4u << 20)

static struct weft_wc reap(struct client *c, enum weft_wr_op op, uint32_t len)
{
	struct weft_wc wc = { 0 };
	double end = now_s() + 60;
	int n;

	while (!(n = weft_cq_poll(weft_qp_cq(c->qp), &wc, 1)) && now_s() < end)
		;
	if (!n)
		bad("qp %u: no completion within 60 s", c->index);
	else if (wc.status == WEFT_WC_SUCCESS &&
		 (wc.op != op || wc.len != len || wc.wr_id != c->ids))
		bad("qp %u: completion of op %u, %u bytes, id %llu instead of %u, %u, %llu",
		    c->index, wc.op, wc.len, (unsigned long long)wc.wr_id, op, len,
		    (unsigned long long)c->ids);
	if (!n)
		wc.status = WEFT_WC_GENERAL_ERR;
	return wc;
}

static bool post(struct client *c, const struct weft_wr *wr, int n)
{
	int r = weft_post(c->qp, wr, n);

	if (r != n)
		bad("qp %u: weft_post %d: %d %s", c->index, n, r, weft_strerror_last());
	return r == n;
}

static void join(struct client *c, const char *addr)
{
	struct weft_qp_opts o = {
		.size = sizeof(o), .timeout_ms = 5000, .cwnd = c->cwnd, .sq_depth = c->depth
	};
	size_t len;

	need(weft_connect(c->dev, addr, &o, &c->qp), "weft_connect");
	memcpy(&c->h, weft_qp_private(c->qp, &len), sizeof(c->h));
	must(len == sizeof(c->h) && c->h.len == REGION, "private data");
	need(weft_alloc(c->dev, MEM, (void **)&c->mem), "weft_alloc");
	need(weft_mr_reg(c->dev, NULL, c->mem, MEM, WEFT_LOCAL_WRITE, &c->mr), "weft_mr_reg");
	need(weft_mr_reg(c->dev, NULL, c->mem, MEM, WEFT_LOCAL, &c->source), "weft_mr_reg");
}

#endif
