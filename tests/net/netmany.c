// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * netmany DEV SELF REGION SEED HOST:PORT...: one of several hosts that all write to, read from and
 * count at all others at the same time. SELF is the own place among them, from 0 on; all are given
 * the same. What must be where in the end is known from the seed. Public API only.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "netcommon.h"

#define HOSTS    9           /* at most */
#define SRC      (256 << 10) /* bytes that are written from, and read */
#define MAX      (100 << 10) /* of a message */
#define READS    4           /* under way to a host, each to a place of its own */
#define ADDS     50          /* at each host */
#define ID_READ  1000000
#define ID_ADD   2000000
#define PATIENCE 60000 /* ms: only what hangs takes longer */

struct offer {
	uint32_t src, count,
		dst[HOSTS]; /* keys: of source and counter, and where each peer writes to */
};

static struct {
	struct weft_dev *dev;
	unsigned n, self;
	char **addr;
	uint8_t *src;
	struct weft_mr *from; /* of src */
	uint64_t *count;
	struct region dst[HOSTS];
	struct offer offer;
} me;

/* A peer that we write to, read from, and count at. */
struct peer {
	unsigned index;
	pthread_t thread;
	struct weft_qp *qp;
	struct offer offer;
	struct np_plan plan;
	uint64_t rnd;
	uint8_t *src;  /* what its source must hold */
	uint8_t *back; /* what READs and atomics bring: READS places of MAX bytes, and 8 bytes */
	struct weft_mr *to;
	uint64_t read_at[READS];
	uint32_t read_len[READS];
	unsigned writes, reads, adds, under_way; /* begun of each */
};

static uint64_t seed_of(unsigned from, unsigned to)
{
	return np_mix(nw.seed * 1000 + from * 32 + to);
}

static void plan(struct np_plan *p, unsigned from, unsigned to)
{
	np_plan_make(p, seed_of(from, to), nw.region, SRC, MAX, 0);
}

/* What a host's source must hold; to be freed. */
static uint8_t *source_of(unsigned host)
{
	uint8_t *src = calloc(1, SRC);

	must(src, "memory");
	np_fill(src, SRC, seed_of(host, host));
	return src;
}

static void *alloc(size_t len, unsigned rights, struct weft_mr **mr)
{
	void *mem;

	need(weft_alloc(me.dev, len, &mem), "weft_alloc");
	need(weft_mr_reg(me.dev, NULL, mem, len, rights, mr), "weft_mr_reg");
	return mem;
}

/* ---- requests ---- */

static bool post(struct peer *p, uint64_t id, enum weft_wr_op op, struct weft_sge g, uint32_t rkey,
		 uint64_t roff)
{
	struct weft_wr wr = { .wr_id = id,
			      .op = op,
			      .sge = &g,
			      .nsge = 1,
			      .rkey = rkey,
			      .roff = roff,
			      .operand = 1 };
	int r = weft_post(p->qp, &wr, 1);

	if (r == -EAGAIN)
		return false;
	must(r == 1, "weft_post");
	p->under_way++;
	return true;
}

static bool write_next(struct peer *p)
{
	const struct np_msg *m = &p->plan.msg[p->writes];
	struct weft_sge g = { me.from, m->off, m->len };

	if (!post(p, p->writes, WEFT_WR_WRITE, g, p->offer.dst[me.self], m->roff))
		return false;
	p->writes++;
	return true;
}

static bool read_next(struct peer *p, unsigned place)
{
	uint32_t len = np_length(&p->rnd, MAX);
	uint64_t at = np_below(&p->rnd, SRC - len + 1);
	struct weft_sge g = { p->to, place * MAX, len };

	p->read_at[place] = at;
	p->read_len[place] = len;
	memset(p->back + place * MAX, 0xee, MAX);
	if (!post(p, ID_READ + place, WEFT_WR_READ, g, p->offer.src, at))
		return false;
	p->reads++;
	return true;
}

static bool add_next(struct peer *p)
{
	struct weft_sge g = { p->to, READS * MAX, 8 };

	if (!post(p, ID_ADD, WEFT_WR_FETCH_ADD, g, p->offer.count, 0))
		return false;
	p->adds++;
	return true;
}

static void check_read(const struct peer *p, unsigned place)
{
	const uint8_t *got = p->back + place * MAX;
	/* cppcheck-suppress arrayIndexOutOfBoundsCond */
	uint32_t len = p->read_len[place];

	/* cppcheck-suppress arrayIndexOutOfBoundsCond */
	if (memcmp(got, p->src + p->read_at[place], len))
		bad("READ of %u bytes at %llu of host %u: they are others", len,
		    (unsigned long long)p->read_at[place], p->index);
	for (uint32_t i = len; i < MAX; i++)
		if (got[i] != 0xee) {
			bad("READ of %u bytes of host %u: byte %u has changed", len, p->index, i);
			break;
		}
}

/* As many READs as WRITEs. */
static void completed(struct peer *p, const struct weft_wc *wc)
{
	p->under_way--;
	if (wc->status != WEFT_WC_SUCCESS) {
		bad("host %u, request %llu: %s", p->index, (unsigned long long)wc->wr_id,
		    weft_wc_str(wc->status));
	} else if (wc->wr_id >= ID_ADD) {
		if (p->adds < ADDS)
			must(add_next(p), "room in the queue");
	} else if (wc->wr_id >= ID_READ) {
		check_read(p, wc->wr_id - ID_READ);
		if (p->reads < p->plan.n)
			must(read_next(p, wc->wr_id - ID_READ), "room in the queue");
	}
}

static void *requests(void *arg)
{
	struct peer *p = arg;
	struct weft_qp_opts o = { .size = sizeof(o),
				  .priv = &me.self,
				  .priv_len = sizeof(me.self),
				  .timeout_ms = PATIENCE,
				  .connect_ms = PATIENCE };
	double end = now_s() + PATIENCE / 1000;
	struct weft_wc wc;
	size_t len;
	int err;

	while ((err = weft_connect(me.dev, me.addr[p->index], &o, &p->qp)) == -ECONNREFUSED &&
	       now_s() < end)
		usleep(20000);
	need(err, me.addr[p->index]);
	memcpy(&p->offer, weft_qp_private(p->qp, &len), sizeof(p->offer));
	must(len == sizeof(p->offer), "private data");
	for (unsigned i = 0; i < READS && p->reads < p->plan.n; i++)
		read_next(p, i);
	add_next(p);
	while (!wrong) {
		/* room is left for what completions begin */
		while (p->writes < p->plan.n && p->under_way < 32)
			must(write_next(p), "room in the queue");
		if (!p->under_way)
			break;
		while (!wrong && weft_cq_poll(weft_qp_cq(p->qp), &wc, 1))
			completed(p, &wc);
		if (p->under_way && !wrong)
			weft_cq_wait(weft_qp_cq(p->qp), WEFT_ARM_TX, PATIENCE);
		if (now_s() > end + PATIENCE / 1000)
			bad("host %u: requests hang", p->index);
	}
	weft_qp_close(p->qp); /* which tells the peer that this was all */
	return NULL;
}

/* ---- what the others do here ---- */

static void accept_all(struct weft_qp **from)
{
	struct weft_qp_opts o = { .size = sizeof(o),
				  .priv = &me.offer,
				  .priv_len = sizeof(me.offer),
				  .timeout_ms = PATIENCE,
				  .connect_ms = PATIENCE };
	struct weft_listener *l;
	struct weft_qp *qp;
	unsigned index;
	size_t len;

	need(weft_listen(me.dev, me.addr[me.self], &l), "weft_listen");
	for (unsigned i = 1; i < me.n; i++) {
		need(weft_accept(l, &o, &qp), "weft_accept");
		memcpy(&index, weft_qp_private(qp, &len), sizeof(index));
		must(len == sizeof(index) && index < me.n && !from[index], "who it is");
		from[index] = qp;
	}
	weft_listener_close(l);
}

/* Everything of that peer is here when it has closed: not a message less, and no byte is wrong. */
static uint64_t finished(struct weft_qp *qp, unsigned index)
{
	double end = now_s() + 2 * PATIENCE / 1000;
	uint8_t *src = source_of(index);
	struct np_plan p = { 0 };
	int64_t at;

	while (!wrong && weft_qp_status(qp) == WEFT_WC_SUCCESS && now_s() < end)
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_RX, 100);
	plan(&p, index, me.self);
	if (weft_qp_status(qp) != WEFT_WC_REM_CLOSED_ERR || weft_qp_arrived(qp) != p.n)
		bad("host %u: %s after %u messages of %u", index, weft_wc_str(weft_qp_status(qp)),
		    weft_qp_arrived(qp), p.n);
	at = np_plan_check(&p, me.dst[index].at, nw.region, src);
	if (at >= 0)
		bad("what host %u wrote: byte %lld is wrong", index, (long long)at);
	region_check(&me.dst[index], "what the others write to");
	weft_qp_close(qp);
	free(p.msg);
	free(src);
	return p.bytes;
}

static void begin(struct peer *p, unsigned index)
{
	p->index = index;
	p->rnd = seed_of(index, me.self) + 1;
	plan(&p->plan, me.self, index);
	p->src = source_of(index);
	p->back = alloc(READS * MAX + 8, WEFT_LOCAL_WRITE, &p->to);
	must(!pthread_create(&p->thread, NULL, requests, p), "a thread");
}

static void prepare(const char *ifname)
{
	struct weft_mr *mr;

	need(weft_open(ifname, NULL, &me.dev), "weft_open");
	me.src = alloc(SRC, WEFT_LOCAL | WEFT_REMOTE_READ, &me.from);
	np_fill(me.src, SRC, seed_of(me.self, me.self));
	me.offer.src = weft_mr_key(me.from);
	me.count = alloc(8, WEFT_REMOTE_ATOMIC, &mr);
	me.offer.count = weft_mr_key(mr);
	for (unsigned i = 0; i < me.n; i++) {
		if (i == me.self)
			continue;
		region_make(&me.dst[i], me.dev, nw.region, seed_of(i, me.self));
		need(weft_mr_reg(me.dev, NULL, me.dst[i].at, nw.region, WEFT_REMOTE_WRITE, &mr),
		     "weft_mr_reg");
		me.offer.dst[i] = weft_mr_key(mr);
	}
}

int main(int argc, char **argv)
{
	struct weft_qp *from[HOSTS] = { NULL };
	struct peer peer[HOSTS] = { 0 };
	uint64_t bytes = 0;

	if (argc < 7 || argc - 5 > HOSTS) {
		fputs("usage: netmany DEV SELF REGION SEED HOST:PORT HOST:PORT ...\n", stderr);
		return 2;
	}
	me.self = atoi(argv[2]);
	nw.region = strtoull(argv[3], NULL, 10);
	nw.seed = strtoull(argv[4], NULL, 10);
	me.addr = argv + 5;
	me.n = argc - 5;
	prepare(argv[1]);
	for (unsigned i = 0; i < me.n; i++)
		if (i != me.self)
			begin(&peer[i], i);
	accept_all(from);
	for (unsigned i = 0; i < me.n; i++)
		if (i != me.self)
			bytes += finished(from[i], i);
	for (unsigned i = 0; i < me.n; i++)
		if (i != me.self)
			pthread_join(peer[i].thread, NULL);
	if (!wrong && *me.count != (uint64_t)ADDS * (me.n - 1))
		bad("the counter is %llu, not %u", (unsigned long long)*me.count,
		    ADDS * (me.n - 1));
	if (memcmp(me.src, source_of(me.self), SRC))
		bad("what was only read has changed");
	say("written here %llu", (unsigned long long)bytes);
	weft_close(me.dev);
	return wrong != 0;
}
