// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netdeep: queues of 1024 requests, filled by one call while netops' server is stopped; and how they end. */
#include <signal.h>

#include "netops.h"

#define DEPTH 1024
#define SLOT  (QPS * OWN / DEPTH) /* bytes of the region that a request has for itself */
#define BASE  FIXED               /* where the first of them begins */

static struct weft_wr wr[DEPTH];
static struct weft_sge sge[DEPTH];
static uint8_t model[QPS * OWN];

/* As many as the queue holds in one call, and then not one more. */
static bool post_all(struct client *c)
{
	if (!post(c, wr, DEPTH))
		return false;
	if (weft_post(c->qp, wr, 1) != -EAGAIN)
		bad("a full queue takes one more");
	return true;
}

/* Their completions, but for those that have none, come in order. */
static bool reap_all(struct client *c, enum weft_wr_op op)
{
	for (unsigned i = 0; i < DEPTH && !wrong; i++) {
		c->ids = wr[i].wr_id;
		if (!(wr[i].flags & WEFT_WR_UNSIGNALED) &&
		    reap(c, op, wr[i].flags & WEFT_WR_INLINE ? wr[i].len : sge[i].len).status)
			bad("request %u failed: %s", i, weft_wc_str(weft_qp_status(c->qp)));
	}
	return !wrong;
}

static void writes(struct client *c)
{
	for (unsigned i = 0; i < sizeof(model); i++)
		c->mem[i] = np_below(&c->rnd, 256);
	for (unsigned i = 0; i < DEPTH; i++) {
		uint64_t to = np_below(&c->rnd, 64);
		uint32_t room = SLOT - to;
		bool in_line = i % 5 == 4;

		sge[i] = (struct weft_sge){ .mr = c->source,
					    .off = (uint64_t)i * SLOT,
					    .len = i % 7 ? np_below(&c->rnd, room) : 0 };
		wr[i] = (struct weft_wr){ .wr_id = ++c->ids,
					  .sge = &sge[i],
					  .nsge = 1,
					  .rkey = c->h.key,
					  .roff = BASE + (uint64_t)i * SLOT + to };
		if (in_line) {
			wr[i].flags = WEFT_WR_INLINE;
			wr[i].len = sge[i].len % (WEFT_INLINE_MAX + 1);
			wr[i].data = c->mem + sge[i].off;
		}
		if (i % 3 == 1)
			wr[i].flags |= WEFT_WR_UNSIGNALED;
		memcpy(model + (size_t)i * SLOT + to, c->mem + sge[i].off,
		       in_line ? wr[i].len : sge[i].len);
	}
	if (post_all(c))
		reap_all(c, WEFT_WR_WRITE);
}

/* All of the region, each slot by a request. */
static void reads(struct client *c)
{
	memset(c->mem, 0xee, sizeof(model));
	for (unsigned i = 0; i < DEPTH; i++) {
		sge[i] = (struct weft_sge){ .mr = c->mr, .off = (uint64_t)i * SLOT, .len = SLOT };
		wr[i] = (struct weft_wr){ .op = WEFT_WR_READ,
					  .wr_id = ++c->ids,
					  .sge = &sge[i],
					  .nsge = 1,
					  .rkey = c->h.key,
					  .roff = BASE + (uint64_t)i * SLOT };
	}
	if (post_all(c) && reap_all(c, WEFT_WR_READ) && memcmp(c->mem, model, sizeof(model)))
		bad("what was written is not what is read");
}

/* Each is carried out once. */
static void atomics(struct client *c)
{
	static bool had[DEPTH];
	uint64_t *out = (uint64_t *)c->mem;

	memset(had, 0, sizeof(had));
	for (unsigned i = 0; i < DEPTH; i++) {
		sge[i] = (struct weft_sge){ .mr = c->mr, .off = 8 * i, .len = 8 };
		wr[i] = (struct weft_wr){ .op = WEFT_WR_FETCH_ADD,
					  .wr_id = ++c->ids,
					  .sge = &sge[i],
					  .nsge = 1,
					  .rkey = c->h.key,
					  .roff = AT_COUNT,
					  .operand = 1 };
	}
	if (!post_all(c) || !reap_all(c, WEFT_WR_FETCH_ADD))
		return;
	for (unsigned i = 0; i < DEPTH; i++) {
		uint64_t nth = out[i] - c->added;

		if (nth >= DEPTH || had[nth])
			bad("FETCH_ADD %u returned %llu", i, (unsigned long long)out[i]);
		else
			had[nth] = true;
	}
	c->added += DEPTH;
}

static void filled(struct weft_dev *dev, const char *addr, pid_t server)
{
	struct client c = { .dev = dev, .depth = DEPTH - 24, .rnd = nw.seed };

	join(&c, addr);
	if (weft_qp_depth(c.qp) != DEPTH)
		bad("a queue of %u for %u", weft_qp_depth(c.qp), c.depth);
	for (unsigned i = 0; i < sizeof(model); i++)
		model[i] = byte_at(BASE + i);
	if (server)
		kill(server, SIGSTOP);
	for (unsigned i = 0; i < nw.rounds && !wrong; i++) {
		writes(&c);
		reads(&c);
		atomics(&c);
	}
	if (server)
		kill(server, SIGCONT);
	say("%u times %u requests of each kind, %s", nw.rounds, DEPTH,
	    weft_wc_str(weft_qp_status(c.qp)));
	weft_qp_close(c.qp);
}

/*
 * A queue of WRITEs comes back in order, good ones first and the rest flushed, but for number `at`,
 * which has status `want`.
 */
static unsigned flushed(struct client *c, unsigned at, enum weft_wc_status want)
{
	double end = now_s() + 60;
	unsigned i = 0, good = 0;
	struct weft_wc wc;

	while (i < DEPTH && now_s() < end) {
		if (!weft_cq_poll(weft_qp_cq(c->qp), &wc, 1))
			continue;
		if (wc.wr_id != wr[i].wr_id)
			bad("completion %u is of request %llu", i, (unsigned long long)wc.wr_id);
		if (i == at ? wc.status != want
			    : wc.status != WEFT_WC_FLUSH_ERR &&
				      (wc.status != WEFT_WC_SUCCESS || good != i || i > at))
			bad("request %u: %s", i, weft_wc_str(wc.status));
		good += wc.status == WEFT_WC_SUCCESS;
		i++;
	}
	if (i != DEPTH)
		bad("%u of %u requests came back", i, DEPTH);
	if (weft_cq_poll(weft_qp_cq(c->qp), &wc, 1))
		bad("one completion too many");
	return good;
}

static void ends(struct weft_dev *dev, const char *addr, bool abort)
{
	/* a hundred megabytes, one packet after the other: most is still to be done when it is aborted */
	struct client c = { .dev = dev, .depth = DEPTH, .cwnd = abort ? 1 : 0 };
	unsigned good;

	join(&c, addr);
	for (unsigned i = 0; i < DEPTH; i++) {
		sge[i] = (struct weft_sge){ .mr = c.source, .off = i, .len = abort ? 100000 : 100 };
		wr[i] = (struct weft_wr){ .wr_id = 7000 + i,
					  .sge = &sge[i],
					  .nsge = 1,
					  .rkey = i == 500 && !abort ? c.h.shut : c.h.key,
					  .roff = BASE + 100 * i };
	}
	if (post_all(&c)) {
		if (abort)
			need(weft_qp_abort(c.qp), "weft_qp_abort");
		good = flushed(&c, abort ? DEPTH : 500, WEFT_WC_REM_ACCESS_ERR);
		if (abort && good == DEPTH)
			bad("nothing was flushed");
		say("%s: %u complete, then flushed", abort ? "aborted" : "refused", good);
	}
	weft_qp_close(c.qp);
}

/* What may be asked for, and what a process has. */
static void asked(struct weft_dev *dev, const char *addr)
{
	static const uint32_t ask[] = { 0, 1, 256, 257, 1025, WEFT_DEPTH_MAX };
	static const uint32_t get[] = { 256, 256, 256, 512, 2048, WEFT_DEPTH_MAX };
	struct weft_qp_opts o = { .size = sizeof(o) };
	enum { MOST = 64, AGAIN = 16 };
	struct weft_qp *qp[MOST], *again[AGAIN];
	unsigned n = 0;
	int err;

	for (unsigned i = 0; i < sizeof(ask) / sizeof(ask[0]); i++) {
		o.sq_depth = ask[i];
		need(weft_connect(dev, addr, &o, &qp[0]), "weft_connect");
		if (weft_qp_depth(qp[0]) != get[i])
			bad("a queue of %u for %u", weft_qp_depth(qp[0]), ask[i]);
		weft_qp_close(qp[0]);
	}
	o.sq_depth = WEFT_DEPTH_MAX + 1;
	if (weft_connect(dev, addr, &o, &qp[0]) != -EINVAL)
		bad("a queue of %u", o.sq_depth);
	say("%s", weft_strerror_last());
	o.sq_depth = WEFT_DEPTH_MAX;
	while (n < MOST && !(err = weft_connect(dev, addr, &o, &qp[n])))
		n++;
	say("%u queues of %u: %s", n, o.sq_depth, weft_strerror_last());
	if (!n || n == MOST || err != -ENOSPC)
		bad("places for so many queues");
	/* one goes, and what had its place has room for sixteen others */
	weft_qp_close(qp[--n]);
	o.sq_depth = 0;
	for (unsigned i = 0; i < AGAIN; i++)
		need(weft_connect(dev, addr, &o, &again[i]), "weft_connect");
	for (unsigned i = 0; i < AGAIN; i++)
		weft_qp_close(again[i]);
	while (n)
		weft_qp_close(qp[--n]);
}

int main(int argc, char **argv)
{
	struct weft_dev *dev;

	if (argc < 6) {
		fputs("usage: netdeep DEV HOST:PORT SERVER-PID|0 ROUNDS SEED\n", stderr);
		return 2;
	}
	nw.rounds = atoi(argv[4]);
	nw.seed = atoi(argv[5]);
	need(weft_open(argv[1], NULL, &dev), "weft_open");
	filled(dev, argv[2], atoi(argv[3]));
	if (atoi(argv[3])) {
		ends(dev, argv[2], false);
		ends(dev, argv[2], true);
		asked(dev, argv[2]);
	}
	weft_close(dev);
	return wrong != 0;
}
