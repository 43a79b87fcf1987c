// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netops: READs, atomics and requests of several pieces, each against a model of the peer's memory. Public API only. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

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
	pthread_t thread;
};
#define MEM (4u << 20)

static struct weft_wc reap(struct client *c, enum weft_wr_op op, uint32_t len)
{
	struct weft_wc wc = { 0 };
	double end = now_s() + 20;
	int n;

	while (!(n = weft_cq_poll(weft_qp_cq(c->qp), &wc, 1)) && now_s() < end)
		;
	if (!n)
		bad("qp %u: no completion within 20 s", c->index);
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

static void join(struct client *c, const char *addr)
{
	struct weft_qp_opts o = { .size = sizeof(o), .timeout_ms = 5000 };
	size_t len;

	need(weft_connect(c->dev, addr, &o, &c->qp), "weft_connect");
	memcpy(&c->h, weft_qp_private(c->qp, &len), sizeof(c->h));
	must(len == sizeof(c->h) && c->h.len == REGION, "private data");
	need(weft_alloc(c->dev, MEM, (void **)&c->mem), "weft_alloc");
	need(weft_mr_reg(c->dev, NULL, c->mem, MEM, WEFT_LOCAL_WRITE, &c->mr), "weft_mr_reg");
	need(weft_mr_reg(c->dev, NULL, c->mem, MEM, WEFT_LOCAL, &c->source), "weft_mr_reg");
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

/* ---- what must be refused ---- */

static void refused(struct weft_dev *dev, const char *addr, const char *what, struct weft_wr wr,
		    enum weft_wc_status want)
{
	struct client c = { .dev = dev };
	struct weft_sge g;
	struct weft_wc wc;

	join(&c, addr);
	memset(c.mem, 0x77, 4096);
	g = (struct weft_sge){ .mr = c.mr, .off = 0, .len = wr.op == WEFT_WR_READ ? 100 : 8 };
	wr.sge = &g;
	wr.nsge = 1;
	wr.rkey = wr.rkey ? c.h.shut : c.h.key;
	wr.wr_id = c.ids = 1;
	if (post(&c, &wr, 1)) {
		wc = reap(&c, wr.op, g.len);
		say("%s: %s", what, weft_wc_str(wc.status));
		if (wc.status != want)
			bad("%s: \"%s\" instead of \"%s\"", what, weft_wc_str(wc.status),
			    weft_wc_str(want));
	}
	for (int i = 0; i < 4096; i++)
		if (c.mem[i] != 0x77) {
			bad("%s: memory has changed", what);
			break;
		}
	weft_qp_close(c.qp);
}

static void local_errors(struct weft_dev *dev, const char *addr)
{
	struct client c = { .dev = dev };
	struct weft_sge g[9];
	struct weft_wr wr = { .sge = g, .nsge = 1 };
	struct {
		const char *what;
		struct weft_wr wr;
		struct weft_sge g;
	} no[] = {
		{ "READ into a source", { .op = WEFT_WR_READ }, { .len = 8 } },
		{ "op 99", { .op = 99 }, { .len = 8 } },
		{ "flags", { .flags = 0x8000 }, { .len = 8 } },
		{ "an atomic of 4 bytes", { .op = WEFT_WR_FETCH_ADD }, { .len = 4 } },
		{ "bounds", { .op = WEFT_WR_WRITE }, { .off = MEM - 4, .len = 8 } },
		{ "no pieces", { .nsge = 99 }, { .len = 8 } },
	};

	join(&c, addr);
	for (unsigned i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		wr = no[i].wr;
		g[0] = no[i].g;
		g[0].mr = wr.op == WEFT_WR_FETCH_ADD ? c.mr : c.source;
		wr.sge = g;
		wr.nsge = wr.nsge ? 9 : 1;
		if (weft_post(c.qp, &wr, 1) != -EINVAL)
			bad("%s: not refused", no[i].what);
		else
			say("%s: %s", no[i].what, weft_strerror_last());
	}
	weft_qp_close(c.qp);
}

static int errors(const char *ifname, const char *addr)
{
	struct weft_dev *dev;

	need(weft_open(ifname, NULL, &dev), "weft_open");
	local_errors(dev, addr);
	refused(dev, addr, "READ without the right",
		(struct weft_wr){ .op = WEFT_WR_READ, .rkey = 1 }, WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "READ across the end",
		(struct weft_wr){ .op = WEFT_WR_READ, .roff = REGION - 99 },
		WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "atomic without the right",
		(struct weft_wr){ .op = WEFT_WR_FETCH_ADD, .rkey = 1 }, WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "atomic at an odd address",
		(struct weft_wr){ .op = WEFT_WR_CMP_SWAP, .roff = AT_COUNT + 4 },
		WEFT_WC_REM_ACCESS_ERR);
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
