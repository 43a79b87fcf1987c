// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf, the client: what is posted for each operation, receives for answers, and how it is verified. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "perf.h"

const char *perf_verb(const struct perf_run *r, bool capital)
{
	switch (r->op) {
	case WEFT_WR_READ: return capital ? "READ" : "read";
	case WEFT_WR_SEND: return capital ? "SEND" : "send";
	case WEFT_WR_FETCH_ADD: return "atomic";
	default: return capital ? "WRITE" : "write";
	}
}

uint32_t perf_flag(const struct perf_run *r)
{
	switch (r->op) {
	case WEFT_WR_READ: return PERF_F_READ;
	case WEFT_WR_SEND: return PERF_F_SEND;
	case WEFT_WR_FETCH_ADD: return PERF_F_ATOMIC;
	default: return 0;
	}
}

/*
 * Has the i-th message from now on a completion? One in cq_mod, and the last on each QP, for now or for good:
 * a QP that is not full gets one more in each turn of all.
 */
static bool signaled(const struct perf_run *r, const struct perf_lane *l, unsigned i)
{
	return (l->posted + i + 1) % r->cq_mod == 0 || l->out + i + 1 == r->depth ||
	       (r->count && r->posted + i + 1 + perf_turn(r) * r->lanes > r->count);
}

static int post_requests(struct perf_run *r, struct perf_lane *l, unsigned n)
{
	struct weft_sge g[PERF_BATCH];
	struct weft_wr wr[PERF_BATCH];

	for (unsigned i = 0; i < n; i++) {
		uint64_t j = l->posted + i, off = (r->posted + i) % r->slots * r->size, roff = off;

		if (r->op == WEFT_WR_FETCH_ADD) {
			off = PERF_RESULT(l->index, j);
			roff = PERF_COUNTER(l->index);
		} else if (r->op == WEFT_WR_SEND) {
			off = perf_slot(j, l->index, r->qps, r->slots) * r->size;
		}
		g[i] = (struct weft_sge){ .mr = r->mr, .off = off, .len = r->size };
		wr[i] = (struct weft_wr){
			.wr_id = j,
			.op = r->op,
			.flags = signaled(r, l, i) ? 0 : WEFT_WR_UNSIGNALED,
			.sge = &g[i],
			.nsge = 1,
			.rkey = r->rkey,
			.roff = roff,
			.operand = 1,
		};
	}
	return weft_post(l->qp, wr, n);
}

int perf_post(struct perf_run *r, struct perf_lane *l, unsigned n)
{
	int done = post_requests(r, l, n);

	if (done > 0) {
		l->out += done;
		l->posted += done;
		r->posted += done;
	}
	return done;
}

int perf_post_pongs(struct perf_run *r, struct weft_qp *qp)
{
	int done = 1;

	while (r->pong_recvs - r->pongs < PERF_BATCH && done == 1) {
		uint64_t slot = perf_slot(r->pong_recvs, 0, 1, r->slots);
		struct weft_sge g = { .mr = r->pong_mr, .off = slot * r->size, .len = r->size };
		struct weft_recv v = { .wr_id = r->pong_recvs, .sge = &g, .nsge = 1 };

		done = weft_post_recv(qp, &v, 1);
		r->pong_recvs += done == 1;
	}
	return done == 1 || done == -EAGAIN ? 0 : done;
}

static int verify_atomics(struct perf_run *r)
{
	struct weft_sge g = { .mr = r->mr, .len = PERF_COUNTER(r->qps) };
	struct weft_wr wr = { .op = WEFT_WR_READ, .sge = &g, .nsge = 1, .rkey = r->rkey };
	uint64_t end = perf_now() + PERF_PATIENCE_S * 1000000000ull;
	struct weft_wc wc = { .status = WEFT_WC_GENERAL_ERR };
	int rc = weft_post(r->lane[0].qp, &wr, 1);

	if (rc != 1)
		return cli_lib_fail(r->peer, rc);
	while (!weft_cq_poll(r->cq, &wc, 1) && perf_now() < end)
		;
	if (wc.status)
		return cli_fail(r->peer, "the counters cannot be read: %s; see 'weft qp show %s'",
				weft_wc_str(wc.status), r->dev);
	r->verified = 1;
	for (unsigned i = 0; i < r->lanes; i++) {
		const struct perf_lane *l = &r->lane[i];
		uint64_t n = l->posted, count = *(uint64_t *)(r->mem + PERF_COUNTER(i));
		/* 0 to n - 1, each once */
		uint64_t sum = n & 1 ? (n - 1) / 2 * n : n / 2 * (n - 1);

		if (count == n && l->sum == sum)
			continue;
		r->verified = 0;
		return cli_fail(r->peer,
				"verification failed: QP %u added 1 %llu times, and the counter is "
				"%llu; if the network corrupts packets, use csum on at both ends",
				i, (unsigned long long)n, (unsigned long long)count);
	}
	return 0;
}

int perf_verify(struct perf_run *r)
{
	uint64_t full = r->posted < r->slots ? r->posted : r->slots;
	struct perf_msg m = { .op = PERF_VERIFY,
			      .region = r->region,
			      .seed = r->seed,
			      .covered = full * r->size,
			      .rest = r->rest };
	uint64_t covered = m.covered, bad;
	int rc;

	if (r->op == WEFT_WR_FETCH_ADD)
		return verify_atomics(r);
	if (r->op == WEFT_WR_SEND && !r->lat)
		m.covered = r->posted;
	if (r->op == WEFT_WR_READ) {
		bad = perf_compare(r->mem, r->region, covered, r->seed, 0);
		r->verified = bad == r->region;
		return r->verified
			       ? 0
			       : cli_fail(
					 r->peer,
					 "verification failed: byte %llu of what was read is wrong; if "
					 "the network corrupts packets, use csum on at both ends",
					 (unsigned long long)bad);
	}
	rc = perf_ask(r, &m);
	if (rc)
		return rc;
	r->verified = !m.err;
	if (m.err)
		return cli_fail(r->peer,
				"verification failed: byte %llu of the server's memory is "
				"wrong; if the network corrupts packets, use 'weft up %s csum on'",
				(unsigned long long)m.bad, r->dev);
	if (!r->lat)
		return 0;
	bad = perf_compare(r->pong, r->region, covered, r->seed, r->rest);
	r->verified = bad == r->region;
	if (bad != r->region)
		return cli_fail(
			r->peer,
			"verification failed: byte %llu of what the server wrote "
			"is wrong; if the network corrupts packets, use csum on at both ends",
			(unsigned long long)bad);
	return 0;
}
