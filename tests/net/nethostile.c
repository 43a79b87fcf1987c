// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * nethostile: a peer that knows all keys and keeps to no rule. Host A connects QPs to B and sends B packets
 * of every kind on them, right in address, key and check and in nothing else; beside them QPs of the same
 * two processes, one on the same shared receive queue, must work on, and B must lose nothing.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "internal.h"
#include "netcommon.h"

#define BUF    4096u /* of a receive */
#define DEPTH  64u   /* entries of the shared queue */
#define OWN    16u   /* of a QP's own */
#define REGION (256u << 10)
#define GUARD  65536u

static struct weft_dev *dev_a, *dev_b;
static struct weft_listener *listener;
static struct weft_srq *srq;
static struct weft_cq *cq_b, *cq_evil;
static uint8_t *mem_a, *mem_b;
static struct weft_mr *mr_a, *pool, *target, *own_pool;
static char addr_b[80];
static uint64_t rnd;
static int raw_fd, raw_index;

static uint32_t draw(uint32_t n)
{
	return np_below(&rnd, n);
}

/* ---- QPs ---- */

struct pair {
	struct weft_qp *a, *b;
	bool shared;
	uint32_t sent, got;
};
static struct pair good[2];

static void *connect_a(void *arg)
{
	struct weft_qp_opts *o = arg;
	struct weft_qp *qp = NULL;

	need(weft_connect(dev_a, addr_b, o, &qp), "weft_connect");
	return qp;
}

static void join(struct pair *p, bool shared, bool strict, struct weft_cq *cq)
{
	struct weft_qp_opts a = { .size = sizeof(a), .strict = strict, .timeout_ms = 3000 };
	struct weft_qp_opts b = { .size = sizeof(b), .cq = cq, .timeout_ms = 3000 };
	pthread_t t;

	b.srq = shared ? srq : NULL;
	b.recvs = shared ? 0 : OWN;
	*p = (struct pair){ .shared = shared };
	pthread_create(&t, NULL, connect_a, &a);
	need(weft_accept(listener, &b, &p->b), "weft_accept");
	pthread_join(t, (void **)&p->a);
}

static void fill_shared(void)
{
	struct weft_sge g = { pool, 0, BUF };

	do
		g.off = srq->prod % DEPTH * BUF;
	while (weft_srq_post(srq, &(struct weft_recv){ .sge = &g, .nsge = 1 }, 1) == 1);
}

static void fill_own(struct weft_qp *qp)
{
	struct weft_sge g = { own_pool, 0, BUF };

	while (weft_post_recv(qp, &(struct weft_recv){ .sge = &g, .nsge = 1 }, 1) == 1)
		;
}

/* ---- the good ones ---- */

static void poll_good(void)
{
	struct weft_wc wc[16];
	int n = weft_cq_poll(cq_b, wc, 16);

	for (int i = 0; i < n; i++) {
		struct pair *p = wc[i].qp == good[0].b ? &good[0] : &good[1];

		if (wc[i].status || wc[i].len != 8 || wc[i].imm != p->got)
			bad("good QP %d, message %u: %s, %u bytes, number %u", p == &good[1],
			    p->got, weft_wc_str(wc[i].status), wc[i].len, wc[i].imm);
		p->got++;
		if (!p->shared)
			fill_own(p->b);
	}
	if (n)
		fill_shared();
}

/* So many messages more on each. */
static void exchange(uint32_t n)
{
	struct weft_wc wc[16];

	fill_shared();
	for (int k = 0; k < 2; k++) {
		struct pair *p = &good[k];
		uint32_t to = p->got + n;
		double end = now_s() + 60;

		while (p->got != to && now_s() < end && !wrong) {
			struct weft_wr wr = { .op = WEFT_WR_SEND,
					      .flags = WEFT_WR_IMM | WEFT_WR_INLINE,
					      .imm = p->sent,
					      .len = 8,
					      .data = "weftweft" };

			if (p->sent != to && weft_post(p->a, &wr, 1) == 1)
				p->sent++;
			weft_cq_poll(weft_qp_cq(p->a), wc, 16);
			poll_good();
		}
		if (p->got != to)
			bad("good QP %d: %u of %u messages; A: %s, B: %s", k, n - (to - p->got), n,
			    weft_wc_str(weft_qp_status(p->a)), weft_wc_str(weft_qp_status(p->b)));
	}
}

/* ---- the other one ---- */

#include "nethostile.h"

static void poll_evil(struct pair *p)
{
	struct weft_wc wc[16];
	int n = weft_cq_poll(cq_evil, wc, 16);

	for (int i = 0; i < n; i++)
		if (wc[i].op == WEFT_WR_RECV && !wc[i].status && wc[i].len > BUF)
			bad("a receive of %u bytes has %u", BUF, wc[i].len);
	fill_shared();
	if (!p->shared)
		fill_own(p->b);
}

/* Many messages that have one number, the oldest PSN last: all of them complete at once. */
static void same_number(struct pair *p, uint32_t n)
{
	struct weft_hdr h;

	look();
	for (uint32_t i = n; i--;) {
		memset(&h, 0, sizeof(h));
		h.op = WEFT_OP_SEND;
		h.flags = WEFT_F_LAST;
		h.psn = htonl(at.rx.rx.next + i);
		h.data.mlen = htonl(8);
		h.data.rsn = htonl(at.rx.rx.rdone);
		emit(&h, 8);
	}
	usleep(2000);
	poll_evil(p);
	look();
	/* and then one far ahead, which takes receives for all before it */
	for (uint32_t i = 0; i < 8; i++) {
		h.psn = htonl(at.rx.rx.next + 1 + i);
		h.data.rsn = htonl(at.rx.rx.rdone + 40);
		emit(&h, 8);
	}
	usleep(2000);
	poll_evil(p);
}

/* B's own requests, for answers to answer. */
static void post_b(struct weft_qp *qp)
{
	static const enum weft_wr_op ops[] = { WEFT_WR_WRITE, WEFT_WR_SEND, WEFT_WR_READ,
					       WEFT_WR_FETCH_ADD, WEFT_WR_CMP_SWAP };

	bool writes = draw(2);

	/* half of the time a train of small WRITEs, several to a packet */
	for (uint32_t n = draw(20); n; n--) {
		enum weft_wr_op op = writes ? WEFT_WR_WRITE : ops[draw(5)];
		bool atomic = op == WEFT_WR_FETCH_ADD || op == WEFT_WR_CMP_SWAP;
		struct weft_sge g = { own_pool, BUF,
				      atomic              ? 8
				      : writes || draw(3) ? draw(300)
							  : BUF };
		struct weft_wr wr = { .op = op,
				      .sge = &g,
				      .nsge = 1,
				      .rkey = weft_mr_key(mr_a),
				      .roff = 8 * draw(100) };

		if (weft_post(qp, &wr, 1) != 1)
			break;
	}
}

static unsigned kinds[2], failures;
static void evil(unsigned round, uint32_t packets)
{
	bool numbers = round % 3 == 0, strict = !numbers && draw(2), mute = draw(2);
	struct pair p;

	join(&p, numbers || draw(2), strict, cq_evil);
	kinds[p.shared]++;
	at.ctl = dev_a->maps.ctl[p.a->slot];
	at.slot = p.b->slot;
	/* A itself says nothing any more, or goes on answering beside it */
	if (mute)
		dev_a->maps.ctl[p.a->slot].conn ^= 1;
	if (!p.shared)
		fill_own(p.b);
	if (numbers)
		for (int i = 0; i < 3; i++)
			same_number(&p, 2 + draw(40));
	for (uint32_t i = 0; i < packets && !wrong; i++) {
		if (i % 16 == 0) {
			look();
			post_b(p.b);
			poll_evil(&p);
			poll_good();
		}
		packet();
	}
	failures += weft_qp_status(p.b) != 0;
	/* a QP may hold receives of a shared queue as long as it lives, and this one holds all it can */
	if (!p.shared)
		exchange(5);
	weft_qp_close(round % 4 < 2 ? p.a : p.b);
	weft_qp_close(round % 4 < 2 ? p.b : p.a);
	exchange(10);
	/* every receive of the shared queue is back */
	fill_shared();
	if (srq->head->prod - srq->head->taken != DEPTH)
		bad("round %u (%s%s): %u of %u receives of the shared queue are left", round,
		    p.shared ? "shared" : "own", strict ? ", strict" : "",
		    srq->head->prod - srq->head->taken, DEPTH);
}

/* ---- */

static uint8_t *region(struct weft_dev *dev, uint64_t len, unsigned rights, struct weft_mr **mr)
{
	void *p;

	need(weft_alloc(dev, len + 2 * GUARD, &p), "weft_alloc");
	np_canary_fill(p, GUARD, 7);
	np_canary_fill((uint8_t *)p + GUARD + len, GUARD, 8);
	need(weft_mr_reg(dev, NULL, (uint8_t *)p + GUARD, len, rights, mr), "weft_mr_reg");
	return p;
}

static void intact(const uint8_t *p, uint64_t len, const char *what)
{
	if (np_canary_check(p, GUARD, 7) >= 0 || np_canary_check(p + GUARD + len, GUARD, 8) >= 0)
		bad("bytes beside %s have been written", what);
}

static void books(const struct weft_dev *dev, const char *name)
{
	int32_t n = 1;

	for (double end = now_s() + 30; n && now_s() < end; usleep(10000)) {
		n = dev->maps.run->active;
		for (int d = 0; d < WEFT_DOMAINS; d++)
			n |= dev->maps.run->dom[d].inflight;
	}
	if (n)
		bad("%s: tokens are out when all QPs are closed (%d)", name, n);
}

int main(int argc, char **argv)
{
	uint8_t *g_pool, *g_own;
	unsigned rounds, packets;
	int saved;

	if (argc != 9)
		return fputs("usage: nethostile NS DEV NS DEV HOST ROUNDS PACKETS SEED\n", stderr),
		       2;
	rounds = atoi(argv[6]);
	packets = atoi(argv[7]);
	rnd = nw.seed = strtoull(argv[8], NULL, 0);
	snprintf(addr_b, sizeof(addr_b), "%s:7700", argv[5]);
	need(weft_open(argv[2], WEFT_OPTS(struct weft_open_opts, .netns = argv[1]), &dev_a),
	     "open");
	need(weft_open(argv[4], WEFT_OPTS(struct weft_open_opts, .netns = argv[3]), &dev_b),
	     "open");
	need(weft_ns_enter(dev_a, &saved), "netns");
	raw_fd = socket(AF_PACKET, SOCK_RAW, 0);
	weft_ns_leave(saved);
	must(raw_fd >= 0 &&
		     !setsockopt(raw_fd, SOL_PACKET, PACKET_QDISC_BYPASS, &(int){ 1 }, sizeof(int)),
	     "packet socket");
	raw_index = dev_a->ifindex;
	mem_a = region(dev_a, REGION, WEFT_ACCESS_ALL, &mr_a);
	g_pool = region(dev_b, DEPTH * BUF, WEFT_LOCAL_WRITE, &pool);
	g_own = region(dev_b, 2 * BUF, WEFT_LOCAL | WEFT_LOCAL_WRITE, &own_pool);
	mem_b = region(dev_b, REGION, WEFT_ACCESS_ALL, &target);
	need(weft_cq_create(dev_b, &cq_b), "weft_cq_create");
	need(weft_cq_create(dev_b, &cq_evil), "weft_cq_create");
	need(weft_srq_create(dev_b, NULL, DEPTH, &srq), "weft_srq_create");
	need(weft_listen(dev_b, ":7700", &listener), "weft_listen");
	fill_shared();
	for (int i = 0; i < 2; i++)
		join(&good[i], !i, i, cq_b);
	fill_own(good[1].b);
	exchange(20);
	for (unsigned i = 0; i < rounds && !wrong; i++)
		evil(i, packets);
	exchange(200);
	for (int i = 0; i < 4; i++)
		weft_qp_close(i % 2 ? good[i / 2].a : good[i / 2].b);
	intact(g_pool, DEPTH * BUF, "the shared queue's receives");
	intact(g_own, 2 * BUF, "a QP's receives");
	intact(mem_b, REGION, "what may be written");
	intact(mem_a, REGION, "A's region");
	books(dev_a, "A");
	books(dev_b, "B");
	say("rounds with own, shared receives: %u, %u; QPs that failed: %u", kinds[0], kinds[1],
	    failures);
	weft_listener_close(listener);
	weft_close(dev_a);
	weft_close(dev_b);
	return wrong != 0;
}
