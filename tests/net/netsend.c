// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * netsend: SENDs and WRITEs with immediate data between two devices of one process, each behind a
 * WRITE that must be in place when its receive completes. Public API only.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netcommon.h"

#define QPS   8
#define SLOTS 512    /* places for the WRITEs of a QP: more than can be under way */
#define BLOCK 8192u  /* bytes of one of them at most */
#define BUF   16384u /* of a receive */
#define DEPTH 64u    /* receives of a QP */
#define MEM   (1u << 20)

enum mode { OWN, SHARED, SLOW, STRICT, MODES };
static const char *const mode_name[MODES] = { "own", "shared", "slow", "strict" };

/* ---- what message k of QP q is: both sides know ---- */

struct plan {
	uint32_t len, block; /* of the message; of the WRITE before it, 0: none */
	bool write, imm, sol, in_line;
	uint64_t key; /* its bytes */
};

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

static struct plan plan_of(unsigned q, uint32_t k)
{
	uint64_t r = mix(nw.seed << 40 | (uint64_t)q << 32 | k);
	struct plan p = { .key = mix(r) };

	p.write = r % 5 == 0;
	p.imm = p.write || r >> 8 & 1;
	p.sol = r >> 9 & 1;
	p.in_line = !p.write && (r >> 10) % 4 == 0;
	p.len = (r >> 16) % (p.in_line ? WEFT_INLINE_MAX + 1 : (r >> 12) % 3 ? 200 : BUF + 1);
	p.block = (r >> 40) % 3 ? (r >> 44) % BLOCK : 0;
	return p;
}

static uint8_t byte_of(uint64_t key, uint32_t i)
{
	return (key >> (i % 7 * 8)) + i * 131 + (i >> 8);
}

static void fill(uint8_t *p, uint64_t key, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(key, i);
}

static bool same(const uint8_t *p, uint64_t key, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != byte_of(key, i))
			return false;
	return true;
}

/* ---- both sides ---- */

static struct weft_dev *dev_a, *dev_b;
static enum mode mode;
static uint32_t msgs;

struct side {
	unsigned index;
	struct weft_qp *tx, *rx;
	/* sender */
	uint8_t *src;
	struct weft_mr *src_mr;
	uint32_t sent, done;
	bool half; /* of message `sent` the WRITE before it is posted, and then the queue was full */
	/* receiver */
	uint8_t *area,
		*buf; /* targets of the WRITEs: SLOTS, then one for WRITEs with immediate data */
	struct weft_mr *area_mr, *buf_mr;
	uint32_t key, posted, received;
};
static struct side side[QPS];
static struct weft_cq *cq_a, *cq_b;
static struct weft_srq *srq;
static uint8_t *pool;
static struct weft_mr *pool_mr;

static struct weft_sge *pieces(const struct weft_mr *mr, uint64_t off, uint32_t len, uint64_t r,
			       struct weft_sge g[WEFT_RECV_SGE_MAX], unsigned *n)
{
	uint32_t at = 0;

	*n = 1 + r % WEFT_RECV_SGE_MAX;
	for (unsigned i = 0; i < *n; i++) {
		uint32_t part = i + 1 == *n ? len - at : (r >> (8 + 12 * i)) % (len - at + 1);

		g[i] = (struct weft_sge){ .mr = mr, .off = off + at, .len = part };
		at += part;
	}
	return g;
}

static int post_receive(struct side *s, uint32_t k)
{
	struct weft_sge g[WEFT_RECV_SGE_MAX];
	struct weft_recv r = { .wr_id = k };

	r.sge = pieces(s->buf_mr, (uint64_t)(k % DEPTH) * BUF, BUF, mix(k * 77 + s->index), g,
		       &r.nsge);
	return weft_post_recv(s->rx, &r, 1);
}

static int post_shared(uint32_t k)
{
	struct weft_sge g[WEFT_RECV_SGE_MAX];
	struct weft_recv r = { .wr_id = k };

	r.sge = pieces(pool_mr, (uint64_t)k * BUF, BUF, mix(k * 31), g, &r.nsge);
	return weft_srq_post(srq, &r, 1);
}

static void check_receive(struct side *s, const struct weft_wc *wc)
{
	uint32_t k = s->received++;
	struct plan p = plan_of(s->index, k);
	const uint8_t *at = srq ? pool + wc->wr_id * BUF : s->buf + (k % DEPTH) * BUF;

	if (wc->status)
		bad("qp %u message %u: %s", s->index, k, weft_wc_str(wc->status));
	else if ((!srq && wc->wr_id != k) || wc->len != p.len ||
		 wc->op != (p.write ? WEFT_WR_RECV_IMM : WEFT_WR_RECV) ||
		 wc->flags != ((p.imm ? WEFT_WC_IMM : 0) | (p.sol ? WEFT_WC_SOLICITED : 0)) ||
		 wc->imm != (p.imm ? (uint32_t)p.key : 0))
		bad("qp %u message %u: id %llu len %u of %u, op %u, flags %x, imm %x", s->index, k,
		    (unsigned long long)wc->wr_id, wc->len, p.len, wc->op, wc->flags, wc->imm);
	else if (!same(p.write ? s->area + SLOTS * BLOCK + (k % SLOTS) * (uint64_t)BUF : at, p.key,
		       p.len))
		bad("qp %u message %u: wrong bytes", s->index, k);
	/* I4: what was posted before it is in place */
	if (p.block && !same(s->area + (k % SLOTS) * BLOCK, ~p.key, p.block))
		bad("qp %u message %u: the WRITE before it is not in place", s->index, k);
	if ((uint32_t)(weft_qp_arrived(s->rx)) == 0)
		bad("qp %u message %u: nothing has arrived", s->index, k);
}

static void *receiver(void *arg)
{
	struct weft_wc wc[16];
	uint32_t got = 0, total = msgs * nw.qps;
	double end = now_s() + 150;

	(void)arg;
	if (mode != SLOW)
		usleep(20000); /* the first messages find no receive */
	for (unsigned q = 0; q < nw.qps && (mode == OWN || mode == STRICT); q++)
		while (side[q].posted < DEPTH && post_receive(&side[q], side[q].posted) == 1)
			side[q].posted++;
	for (uint32_t k = 0; k < DEPTH && mode == SHARED; k++)
		must(post_shared(k) == 1, "weft_srq_post");
	while (got < total && !wrong) {
		int n;

		for (unsigned q = 0; q < nw.qps && mode == SLOW; q++)
			if (side[q].posted == side[q].received && side[q].posted < msgs) {
				if (side[q].posted % 16 == 3)
					usleep(3000);
				must(post_receive(&side[q], side[q].posted) == 1, "weft_post_recv");
				side[q].posted++;
			}
		if (now_s() > end) {
			bad("%u of %u messages within 150 s", got, total);
			break;
		}
		n = weft_cq_poll(cq_b, wc, 16);
		if (!n && weft_cq_wait(cq_b, WEFT_ARM_RX, 100) >= 0)
			continue;
		for (int i = 0; i < n; i++, got++) {
			struct side *s = weft_qp_user(wc[i].qp);

			check_receive(s, &wc[i]);
			if (mode == SHARED) {
				must(post_shared(wc[i].wr_id) == 1, "weft_srq_post");
			} else if (mode != SLOW) {
				must(post_receive(s, s->posted) == 1, "weft_post_recv");
				s->posted++;
			}
		}
	}
	stop = true;
	return NULL;
}

static bool send_one(struct side *s)
{
	uint32_t k = s->sent;
	struct plan p = plan_of(s->index, k);
	uint8_t *at = s->src + (k % 128) * (uint64_t)(BUF + BLOCK), small[WEFT_INLINE_MAX];
	struct weft_sge g[WEFT_RECV_SGE_MAX], b;
	struct weft_wr wr[2];
	int n = 0, r;

	/* the source of 128 messages ago is free */
	if (k - s->done >= 100)
		return false;
	memset(wr, 0, sizeof(wr));
	if (p.block && !s->half) {
		fill(at + BUF, ~p.key, p.block);
		b = (struct weft_sge){ s->src_mr, at + BUF - s->src, p.block };
		wr[n++] = (struct weft_wr){ .op = WEFT_WR_WRITE,
					    .flags = WEFT_WR_UNSIGNALED,
					    .sge = &b,
					    .nsge = 1,
					    .rkey = s->key,
					    .roff = (k % SLOTS) * BLOCK };
	}
	wr[n] = (struct weft_wr){ .wr_id = k, .op = p.write ? WEFT_WR_WRITE : WEFT_WR_SEND };
	wr[n].flags = (p.imm ? WEFT_WR_IMM : 0) | (p.sol ? WEFT_WR_SOLICITED : 0) |
		      (p.in_line ? WEFT_WR_INLINE : 0);
	wr[n].imm = p.key;
	if (p.write) {
		wr[n].rkey = s->key;
		wr[n].roff = SLOTS * BLOCK + (k % SLOTS) * (uint64_t)BUF;
	}
	fill(p.in_line ? small : at, p.key, p.len);
	if (p.in_line) {
		wr[n].data = small;
		wr[n].len = p.len;
	} else {
		wr[n].sge = pieces(s->src_mr, at - s->src, p.len, mix(p.key), g, &wr[n].nsge);
	}
	n++;
	r = weft_post(s->tx, wr, n);
	memset(small, 0xee, sizeof(small));
	if (r == -EAGAIN)
		return false;
	s->half = r == 1 && n == 2;
	if (s->half)
		return false;
	if (r != n)
		bad("qp %u message %u: weft_post: %d %s", s->index, k, r, weft_strerror_last());
	s->sent++;
	return true;
}

static void sender(void)
{
	struct weft_wc wc[16];
	uint32_t done = 0;
	double end = now_s() + 150;

	while (done < msgs * nw.qps && !wrong) {
		int n;

		for (unsigned q = 0; q < nw.qps; q++)
			while (side[q].sent < msgs && send_one(&side[q]))
				;
		n = weft_cq_poll(cq_a, wc, 16);
		if (!n)
			weft_cq_wait(cq_a, WEFT_ARM_TX, 20);
		for (int i = 0; i < n; i++, done++) {
			struct side *s = weft_qp_user(wc[i].qp);

			if (wc[i].status || wc[i].wr_id != s->done)
				bad("qp %u: request %llu, not %u: %s", s->index,
				    (unsigned long long)wc[i].wr_id, s->done,
				    weft_wc_str(wc[i].status));
			s->done++;
		}
		if (now_s() > end)
			bad("%u of %u requests within 150 s", done, msgs * nw.qps);
	}
}

/* ---- set-up ---- */

static struct weft_listener *listener;

static void *accept_all(void *arg)
{
	(void)arg;
	for (unsigned q = 0; q < nw.qps; q++) {
		struct side *s = &side[q];
		uint64_t len = SLOTS * (uint64_t)(BLOCK + BUF);
		struct weft_qp_opts o = { .size = sizeof(o), .cq = cq_b, .timeout_ms = 5000 };

		need(weft_alloc(dev_b, len, (void **)&s->area), "weft_alloc");
		need(weft_mr_reg(dev_b, NULL, s->area, len, WEFT_REMOTE_WRITE, &s->area_mr),
		     "weft_mr_reg");
		s->key = weft_mr_key(s->area_mr);
		o.priv = &s->key;
		o.priv_len = sizeof(s->key);
		o.srq = srq;
		if (!srq) {
			o.recvs = DEPTH;
			need(weft_alloc(dev_b, DEPTH * BUF, (void **)&s->buf), "weft_alloc");
			need(weft_mr_reg(dev_b, NULL, s->buf, DEPTH * BUF, WEFT_LOCAL_WRITE,
					 &s->buf_mr),
			     "weft_mr_reg");
		}
		need(weft_accept(listener, &o, &s->rx), "weft_accept");
		weft_qp_set_user(s->rx, s);
	}
	return NULL;
}

static void join(const char *addr)
{
	struct weft_qp_opts o = {
		.size = sizeof(o), .cq = cq_a, .timeout_ms = 5000, .strict = mode == STRICT
	};
	uint64_t len = 128 * (uint64_t)(BUF + BLOCK);
	pthread_t t;

	pthread_create(&t, NULL, accept_all, NULL);
	for (unsigned q = 0; q < nw.qps; q++) {
		struct side *s = &side[q];

		s->index = q;
		need(weft_connect(dev_a, addr, &o, &s->tx), "weft_connect");
		weft_qp_set_user(s->tx, s);
		need(weft_alloc(dev_a, len, (void **)&s->src), "weft_alloc");
		need(weft_mr_reg(dev_a, NULL, s->src, len, WEFT_LOCAL, &s->src_mr), "weft_mr_reg");
	}
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc < 10) {
		fputs("usage: netsend NETNS-A DEV-A NETNS-B DEV-B HOST-B own|shared|slow|strict QPS MESSAGES SEED\n",
		      stderr);
		return 2;
	}
	while (mode < MODES && strcmp(mode_name[mode], argv[6]))
		mode++;
	nw.qps = atoi(argv[7]);
	msgs = atoi(argv[8]);
	nw.seed = atoi(argv[9]);
	if (mode == MODES || nw.qps < 1 || nw.qps > QPS)
		return 2;
	need(weft_open(argv[2], WEFT_OPTS(struct weft_open_opts, .netns = argv[1]), &dev_a),
	     "weft_open");
	need(weft_open(argv[4], WEFT_OPTS(struct weft_open_opts, .netns = argv[3]), &dev_b),
	     "weft_open");
	need(weft_cq_create(dev_a, &cq_a), "weft_cq_create");
	need(weft_cq_create(dev_b, &cq_b), "weft_cq_create");
	if (mode == SHARED) {
		need(weft_alloc(dev_b, DEPTH * BUF, (void **)&pool), "weft_alloc");
		need(weft_mr_reg(dev_b, NULL, pool, DEPTH * BUF, WEFT_LOCAL_WRITE, &pool_mr),
		     "weft_mr_reg");
		need(weft_srq_create(dev_b, NULL, DEPTH * 2, &srq), "weft_srq_create");
	}
	need(weft_listen(dev_b, ":7700", &listener), "weft_listen");
	{
		char addr[80];

		snprintf(addr, sizeof(addr), "%s:7700", argv[5]);
		join(addr);
	}
	pthread_create(&t, NULL, receiver, NULL);
	sender();
	pthread_join(t, NULL);
	say("%u messages on %u QPs", msgs, nw.qps);
	weft_close(dev_a);
	weft_close(dev_b);
	return wrong != 0;
}
