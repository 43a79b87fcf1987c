// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netops: READs, atomics and requests of several pieces, each against a model of the peer's memory. Public API only. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "netops.h"
#include "netrefused.h"

/* ---- server ---- */

static void on_signal(int sig)
{
	(void)sig;
	stop = true;
}

static int server(const char *ifname, const char *addr)
{
	struct weft_dev *dev;
	struct weft_listener *l;
	struct weft_mr *mr, *shut;
	struct region r;
	struct hello h = { .len = REGION };
	struct weft_qp_opts o = {
		.size = sizeof(o), .priv = &h, .priv_len = sizeof(h), .connect_ms = 200
	};
	struct weft_qp *qp[64];
	unsigned n = 0;

	need(weft_open(ifname, NULL, &dev), "weft_open");
	region_make(&r, dev, REGION, 1);
	/* counters must be aligned, the rest need not */
	r.at += -(uintptr_t)(r.at + AT_COUNT) & 7;
	for (uint64_t i = 0; i < REGION; i++)
		r.at[i] = byte_at(i);
	memset(r.at + AT_COUNT, 0, 4096);
	need(weft_mr_reg(dev, NULL, r.at, REGION,
			 WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC, &mr),
	     "weft_mr_reg");
	need(weft_mr_reg(dev, NULL, r.at, REGION, WEFT_LOCAL, &shut), "weft_mr_reg");
	h.key = weft_mr_key(mr);
	h.shut = weft_mr_key(shut);
	need(weft_listen(dev, addr, &l), "weft_listen");
	say("ready");
	while (!stop && n < 64)
		if (!weft_accept(l, &o, &qp[n]))
			n++;
	for (uint64_t i = 0; i < FIXED; i++)
		if (r.at[i] != byte_at(i)) {
			bad("byte %llu of what is only read has changed", (unsigned long long)i);
			break;
		}
	say("arrived %u %u", n ? weft_qp_arrived(qp[0]) : 0, n);
	while (n)
		weft_qp_close(qp[--n]);
	weft_listener_close(l);
	weft_close(dev);
	return wrong != 0;
}

/* ---- client ---- */

static uint32_t some_len(struct client *c)
{
	switch (np_below(&c->rnd, 8)) {
	case 0: return np_below(&c->rnd, 4);
	case 1: return np_below(&c->rnd, 200);
	case 2: return 3328;
	case 3: return np_below(&c->rnd, 300000);
	default: return np_below(&c->rnd, 9000);
	}
}

/* Cut len bytes of own memory into up to 8 pieces, disjoint, in this order. */
static unsigned pieces(struct client *c, struct weft_sge *g, const struct weft_mr *mr, uint64_t at,
		       uint32_t len)
{
	unsigned n = 1 + np_below(&c->rnd, WEFT_SGE_MAX);
	uint32_t left = len;

	for (unsigned i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? left : np_below(&c->rnd, left + 1);

		g[i] = (struct weft_sge){ .mr = mr, .off = at, .len = part };
		at += part + np_below(&c->rnd, 70);
		left -= part;
	}
	return n;
}

/* Several READs at once of what nobody changes; every byte of their targets and round them. */
static void reads(struct client *c)
{
	enum { N = 8, ROOM = 400000 };
	struct weft_sge g[N][WEFT_SGE_MAX];
	struct weft_wr wr[N];
	unsigned used = 0, n;
	uint32_t len[N];

	memset(c->mem, 0xee, MEM);
	for (n = 0; n < N && used < 40; n++) {
		len[n] = some_len(c);
		wr[n] = (struct weft_wr){
			.op = WEFT_WR_READ,
			.wr_id = c->ids + 1 + n,
			.sge = g[n],
			.nsge = pieces(c, g[n], c->mr, (uint64_t)n * ROOM + np_below(&c->rnd, 99),
				       len[n]),
			.rkey = c->h.key,
			.roff = np_below(&c->rnd, FIXED - len[n]),
		};
		used += wr[n].nsge;
	}
	if (!post(c, wr, n))
		return;
	for (unsigned i = 0; i < n; i++) {
		c->ids++;
		if (reap(c, WEFT_WR_READ, len[i]).status) {
			bad("qp %u: READ failed: %s", c->index, weft_wc_str(weft_qp_status(c->qp)));
			return;
		}
	}
	for (unsigned i = 0; i < n; i++) {
		uint64_t at = (uint64_t)i * ROOM, src = wr[i].roff;

		for (unsigned k = 0; k < wr[i].nsge; k++) {
			for (; at < g[i][k].off; at++)
				if (c->mem[at] != 0xee)
					goto out;
			for (; at < g[i][k].off + g[i][k].len; at++)
				if (c->mem[at] != byte_at(src++))
					goto out;
		}
		for (; at < (uint64_t)(i + 1) * ROOM; at++)
			if (c->mem[at] != 0xee)
				goto out;
		continue;
out:
		bad("qp %u: READ %u of %u bytes at %llu: byte %llu is wrong", c->index, i, len[i],
		    (unsigned long long)wr[i].roff, (unsigned long long)at);
	}
}

/* WRITE from pieces, without a completion, then one with; then READ it back. */
static void write_read(struct client *c)
{
	struct weft_sge g[2][WEFT_SGE_MAX], back = { .mr = c->mr };
	struct weft_wr wr[2];
	uint32_t len = 0;

	for (int i = 0; i < 2; i++) {
		uint64_t src = (uint64_t)i * 400000, roff;

		len = some_len(c);
		roff = np_below(&c->rnd, OWN / 2 - len) + i * (OWN / 2);
		for (uint64_t k = 0; k < 400000; k++)
			c->mem[src + k] = np_below(&c->rnd, 256);
		wr[i] = (struct weft_wr){
			.wr_id = ++c->ids,
			.flags = i ? 0 : WEFT_WR_UNSIGNALED,
			.sge = g[i],
			.nsge = pieces(c, g[i], c->source, src, len),
			.rkey = c->h.key,
			.roff = c->own + roff,
		};
		for (unsigned k = 0; k < wr[i].nsge; k++) {
			memcpy(c->model + roff, c->mem + g[i][k].off, g[i][k].len);
			roff += g[i][k].len;
		}
	}
	c->writes += 2;
	if (!post(c, wr, 2) || reap(c, WEFT_WR_WRITE, len).status) {
		bad("qp %u: WRITE failed", c->index);
		return;
	}
	for (uint64_t at = 0; at < OWN; at += back.len) {
		back.len = OWN / 4;
		back.off = 0;
		wr[0] = (struct weft_wr){ .op = WEFT_WR_READ,
					  .wr_id = ++c->ids,
					  .sge = &back,
					  .nsge = 1,
					  .rkey = c->h.key,
					  .roff = c->own + at };
		if (!post(c, wr, 1) || reap(c, WEFT_WR_READ, back.len).status)
			bad("qp %u: READ failed", c->index);
		else if (memcmp(c->mem, c->model + at, back.len))
			bad("qp %u: what was written is not what is read", c->index);
	}
}

/* A burst of atomics, more than may be under way: what they return only ever grows, each once. */
static void atomics(struct client *c)
{
	enum { N = 100 };
	struct weft_sge g[N];
	struct weft_wr wr[N];
	uint64_t *out = (uint64_t *)c->mem;

	for (int i = 0; i < N; i++) {
		g[i] = (struct weft_sge){ .mr = c->mr, .off = 8 * i, .len = 8 };
		wr[i] = (struct weft_wr){ .op = WEFT_WR_FETCH_ADD,
					  .wr_id = c->ids + 1 + i,
					  .sge = &g[i],
					  .nsge = 1,
					  .rkey = c->h.key,
					  .roff = AT_COUNT,
					  .operand = 1 };
		out[i] = ~0ull;
	}
	if (!post(c, wr, N))
		return;
	for (int i = 0; i < N; i++) {
		c->ids++;
		if (reap(c, WEFT_WR_FETCH_ADD, 8).status) {
			bad("qp %u: FETCH_ADD failed", c->index);
			return;
		}
	}
	c->added += N;
	for (int i = 0; i < N; i++)
		for (int k = 0; k < i; k++)
			if (out[i] == out[k] || out[i] == ~0ull)
				bad("qp %u: FETCH_ADD %d returned %llu as %d did", c->index, i,
				    (unsigned long long)out[i], k);
}

/* Take a lock by CMP_SWAP, change what it protects by READ and WRITE, release it. */
static void locked(struct client *c)
{
	struct weft_sge g = { .mr = c->mr, .off = 0, .len = 8 },
			w = { .mr = c->source, .off = 64, .len = 8 };
	struct weft_wr cas = { .op = WEFT_WR_CMP_SWAP,
			       .sge = &g,
			       .nsge = 1,
			       .rkey = c->h.key,
			       .roff = AT_COUNT + 8,
			       .operand = c->index + 1 };
	struct weft_wr rd = {
		.op = WEFT_WR_READ, .sge = &g, .nsge = 1, .rkey = c->h.key, .roff = AT_COUNT + 16
	};
	struct weft_wr wr = {
		.op = WEFT_WR_WRITE, .sge = &w, .nsge = 1, .rkey = c->h.key, .roff = AT_COUNT + 16
	};
	uint64_t *old = (uint64_t *)c->mem, *new = (uint64_t *)(c->mem + 64);

	do {
		cas.wr_id = ++c->ids;
		if (!post(c, &cas, 1) || reap(c, WEFT_WR_CMP_SWAP, 8).status)
			return;
	} while (*old && !wrong);
	rd.wr_id = ++c->ids;
	if (!post(c, &rd, 1) || reap(c, WEFT_WR_READ, 8).status)
		return;
	*new = *old + 1;
	wr.wr_id = ++c->ids;
	c->writes++;
	if (!post(c, &wr, 1) || reap(c, WEFT_WR_WRITE, 8).status)
		return;
	cas.wr_id = ++c->ids;
	cas.compare = c->index + 1;
	cas.operand = 0;
	if (post(c, &cas, 1) && !reap(c, WEFT_WR_CMP_SWAP, 8).status && *old != c->index + 1)
		bad("qp %u: the lock it holds has %llu", c->index, (unsigned long long)*old);
}

static void *worker(void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; i < ROUNDS && !wrong; i++) {
		reads(c);
		write_read(c);
		atomics(c);
		locked(c);
	}
	return NULL;
}

static uint64_t look(struct client *c, uint64_t roff)
{
	struct weft_sge g = { .mr = c->mr, .off = 0, .len = 8 };
	struct weft_wr rd = { .op = WEFT_WR_READ,
			      .wr_id = ++c->ids,
			      .sge = &g,
			      .nsge = 1,
			      .rkey = c->h.key,
			      .roff = roff };

	if (!post(c, &rd, 1) || reap(c, WEFT_WR_READ, 8).status)
		bad("READ failed");
	return *(uint64_t *)c->mem;
}

static int client(const char *ifname, const char *addr)
{
	static struct client cl[QPS];
	struct weft_dev *dev;
	uint64_t added = 0, got;

	need(weft_open(ifname, NULL, &dev), "weft_open");
	for (unsigned i = 0; i < nw.qps; i++) {
		struct client *c = &cl[i];

		*c = (struct client){
			.dev = dev, .index = i, .own = FIXED + i * OWN, .rnd = nw.seed * 64 + i
		};
		join(c, addr);
		c->model = malloc(OWN);
		for (uint64_t k = 0; k < OWN; k++)
			c->model[k] = byte_at(c->own + k);
	}
	for (unsigned i = 0; i < nw.qps; i++)
		pthread_create(&cl[i].thread, NULL, worker, &cl[i]);
	for (unsigned i = 0; i < nw.qps; i++) {
		pthread_join(cl[i].thread, NULL);
		added += cl[i].added;
	}
	got = look(&cl[0], AT_COUNT);
	if (!wrong && got != added)
		bad("%llu additions, the counter is %llu", (unsigned long long)added,
		    (unsigned long long)got);
	got = look(&cl[0], AT_COUNT + 16);
	if (!wrong && got != (uint64_t)nw.qps * ROUNDS)
		bad("%u changes under the lock, the value is %llu", nw.qps * ROUNDS,
		    (unsigned long long)got);
	say("writes %u", cl[0].writes);
	weft_close(dev);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	if (argc < 4) {
		fputs("usage: netops server DEV ADDR | client DEV HOST:PORT QPS ROUNDS SEED | errors DEV HOST:PORT\n",
		      stderr);
		return 2;
	}
	if (!strcmp(argv[1], "server"))
		return server(argv[2], argv[3]);
	if (!strcmp(argv[1], "errors"))
		return errors(argv[2], argv[3]);
	nw.qps = argc > 4 ? atoi(argv[4]) : 1;
	nw.rounds = argc > 5 ? atoi(argv[5]) : 10;
	nw.seed = argc > 6 ? atoi(argv[6]) : 1;
	return nw.qps > QPS ? 2 : client(argv[2], argv[3]);
}
