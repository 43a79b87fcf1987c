// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * An application that writes anything into what it shares with XDP, while it and others send:
 *   rings server NETNS DEV            until SIGTERM; nothing but the attacker's source may arrive,
 *                                     whom it sends to as well
 *   rings attack NETNS DEV HOST SECONDS SEED
 *   rings books NETNS DEV             are all tokens of the device off the books?
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define PORT   7900
#define REGION (1u << 20) /* what may be written */
#define GUARD  65536
#define SOURCE (256u << 10)
#define EMPTY  0xee /* where nothing has been written */
#define MINE   0xa0 /* and the 15 above: the source */
#define OTHER  0x40 /* memory of the attacker that no packet may carry */
#define THEIRS 0xb0 /* and the 15 above: what the server sends */
#define DEPTH  8
#define RECVS  32
#define LENGTH 60000 /* of a message at most, and of a receive */

static volatile sig_atomic_t stop;
static uint64_t seed;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void need(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "rings: %s: %s (%s)\n", what, strerror(-err), weft_strerror_last());
	exit(1);
}

static void bad(const char *fmt, unsigned long a, unsigned b)
{
	printf("wrong: ");
	printf(fmt, a, b);
	printf("\n");
	exit(1);
}

/* splitmix64 (Steele et al. 2014) */
static uint64_t draw(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static struct weft_dev *open_dev(char **argv)
{
	struct weft_dev *dev;

	need(weft_open(argv[3], WEFT_OPTS(struct weft_open_opts, .netns = argv[2]), &dev), "open");
	return dev;
}

static double now_s(void)
{
	return weft_now_ns() / 1e9;
}

/* ---- the peer of the attacker ---- */

static void look(const uint8_t *mem)
{
	for (size_t i = 0; i < REGION + 2 * GUARD; i++) {
		bool inside = i >= GUARD && i < GUARD + REGION;

		if (mem[i] != EMPTY && !(inside && (mem[i] & 0xf0) == MINE))
			bad("byte %lu of the server is %02x", i, mem[i]);
	}
}

static unsigned long written(const uint8_t *mem)
{
	unsigned long n = 0;

	for (size_t i = 0; i < REGION + 2 * GUARD; i++)
		n += mem[i] != EMPTY;
	return n;
}

/* Random places of mr for n messages of the peer. */
static int post_receives(struct weft_qp *qp, struct weft_srq *srq, const struct weft_mr *mr, int n)
{
	while (n--) {
		struct weft_sge sge[2] = { { 0 } };
		struct weft_recv r = { .sge = sge, .nsge = 2 };

		for (int i = 0; i < 2; i++)
			sge[i] = (struct weft_sge){ .mr = mr,
						    .off = draw() % (weft_mr_len(mr) - LENGTH),
						    .len = i ? LENGTH - sge[0].len
							     : draw() % LENGTH };
		if ((srq ? weft_srq_post(srq, &r, 1) : weft_post_recv(qp, &r, 1)) < 0)
			return -1;
	}
	return 0;
}

/* A SEND, or a WRITE that takes a receive. */
static int post_send(struct weft_qp *qp, const struct weft_mr *mr, uint32_t len, uint32_t rkey,
		     uint64_t roff)
{
	struct weft_sge sge = { .mr = mr, .off = draw() % (weft_mr_len(mr) - len), .len = len };
	struct weft_wr wr = {
		.op = rkey && draw() & 1 ? WEFT_WR_WRITE : WEFT_WR_SEND,
		.flags = WEFT_WR_IMM,
		.imm = draw(),
		.sge = &sge,
		.nsge = 1,
		.rkey = rkey,
		.roff = roff,
	};

	return weft_post(qp, &wr, 1);
}

/* Completions; how many receives were taken. */
static unsigned poll_all(struct weft_qp *qp)
{
	unsigned received = 0;
	struct weft_wc wc[16];
	int n = weft_cq_poll(weft_qp_cq(qp), wc, 16);

	for (int i = 0; i < n; i++)
		received += wc[i].op >= WEFT_WR_RECV && wc[i].status == WEFT_WC_SUCCESS;
	return received;
}

/* Send to the attacker as fast as it takes it, and take what it sends. */
static unsigned serve(struct weft_qp *qp, const struct weft_mr *in, const struct weft_mr *out)
{
	unsigned received = poll_all(qp);

	post_receives(qp, NULL, in, received);
	for (int i = 0; i < DEPTH; i++)
		if (post_send(qp, out, draw() & 1 ? draw() % 200 : draw() % LENGTH, 0, 0) < 0)
			break;
	return received;
}

static int server(char **argv)
{
	struct weft_dev *dev = open_dev(argv);
	struct weft_listener *l;
	struct weft_qp *qp[32];
	unsigned n = 0, seen = 0, received = 0;
	struct weft_mr *mr, *out;
	uint8_t *mem;
	uint32_t key;
	void *p;

	need(weft_alloc(dev, REGION + 2 * GUARD, &p), "alloc");
	mem = p;
	memset(mem, EMPTY, REGION + 2 * GUARD);
	need(weft_mr_reg(dev, NULL, mem + GUARD, REGION, WEFT_REMOTE_WRITE | WEFT_LOCAL_WRITE, &mr),
	     "register");
	need(weft_alloc(dev, SOURCE, &p), "alloc");
	for (size_t i = 0; i < SOURCE; i++)
		((uint8_t *)p)[i] = THEIRS | i % 16;
	need(weft_mr_reg(dev, NULL, p, SOURCE, WEFT_LOCAL, &out), "register");
	key = weft_mr_key(mr);
	need(weft_listen(dev, ":7900", &l), "listen");
	printf("ready\n");
	fflush(stdout);
	while (!stop) {
		if (n < 32 &&
		    !weft_accept(l,
				 WEFT_OPTS(struct weft_qp_opts, .priv = &key, .priv_len = 4,
					   .connect_ms = 20, .recvs = RECVS),
				 &qp[n])) {
			post_receives(qp[n++], NULL, mr, RECVS);
			seen++;
		}
		for (unsigned i = 0; i < n; i++) {
			received += serve(qp[i], mr, out);
			if (weft_qp_status(qp[i])) {
				weft_qp_close(qp[i]);
				qp[i--] = qp[--n];
			}
		}
		look(mem);
	}
	while (n)
		weft_qp_close(qp[--n]);
	look(mem);
	printf("connections %u, received %u, bytes written %lu\n", seen, received, written(mem));
	if (!seen || !received || !written(mem))
		bad("%lu connections and %u messages are no test", seen, received);
	weft_listener_close(l);
	weft_close(dev);
	return 0;
}

/* ---- the attacker ---- */

static struct {
	struct weft_dev *dev;
	struct weft_mr *mr, *not_local, *other_pd, *sink;
	struct weft_srq *srq;
	struct weft_qp *qp[2]; /* with a receive queue of its own; with that one */
	unsigned connects, failures, received;
} at;

/* Keys that exist on the device, everybody's: knowing them must not help. */
static uint32_t some_key(void)
{
	uint32_t start = draw() % WEFT_MRS;

	switch (draw() % 7) {
	case 0: return draw();
	case 6: return weft_mr_key(at.sink);
	case 1: return weft_mr_key(at.not_local);
	case 2: return weft_mr_key(at.other_pd);
	case 3: /* a client of weftd does not see the table */
		for (uint32_t i = 0; i < WEFT_MRS && at.dev->maps.mr; i++)
			if (at.dev->maps.mr[(start + i) % WEFT_MRS].key)
				return at.dev->maps.mr[(start + i) % WEFT_MRS].key;
		return draw();
	default: return weft_mr_key(at.mr);
	}
}

static uint64_t some_offset(void)
{
	switch (draw() % 5) {
	case 0: return draw();
	case 1: return SOURCE - draw() % 8192;
	case 2: return REGION - draw() % 8192;
	default: return draw() % SOURCE;
	}
}

static void edit_wqe(struct weft_wqe *e)
{
	switch (draw() % 10) {
	case 0: e->loff = some_offset(); break;
	case 1: e->roff = some_offset(); break;
	case 2: e->len = draw() % 3 ? draw() % 70000 : draw(); break;
	case 3: e->lkey = some_key(); break;
	case 4: e->rkey ^= draw() % 4 ? 0 : 1u << draw() % 32; break;
	case 5: e->op = draw() % 3 ? draw() % WEFT_WQE_OP_COUNT : draw(); break;
	case 6: e->moff = draw() % 70000; break;
	case 7: e->mlen = draw() % 3 ? draw() % 70000 : draw(); break;
	case 8: e->operand = draw(); break;
	default: e->posted = draw(); break;
	}
}

static void edit_receive(struct weft_srq *rq)
{
	struct weft_rqe *e = &rq->e[draw() % rq->depth];
	struct weft_rq_sge *s = &e->sge[draw() % WEFT_RQ_SGES];

	switch (draw() % 8) {
	case 0: s->off = some_offset(); break;
	case 1: s->len = draw() % 3 ? draw() % 70000 : draw(); break;
	case 2: s->lkey = some_key(); break;
	case 3: e->order = draw() % 3 ? draw() % rq->depth : draw(); break;
	case 4: rq->head->prod += draw() % 3 ? draw() % 64 : draw(); break;
	case 5: rq->head->taken += draw() % 3 ? draw() % 64 - 32 : draw(); break;
	case 6: ((volatile uint32_t *)rq->head)[draw() % 32] = draw(); break;
	default: ((volatile uint32_t *)e)[draw() % 32] = draw(); break;
	}
}

/* What XDP and application tell each other of receives. */
static void edit_notes(struct weft_ring *r)
{
	switch (draw() % 4) {
	case 0: r->bind[draw() % WEFT_RQ_BIND] = draw(); break;
	case 1: r->bind[draw() % WEFT_RQ_BIND] += (draw() % 64 << 16) + draw() % 64; break;
	case 2: r->rq_polled += draw() % 3 ? draw() % 512 - 256 : draw(); break;
	default: r->refused = draw() & 1; break;
	}
}

/* One deed against a ring that is at work. */
static void attack(struct weft_qp *qp)
{
	struct weft_ring *r = qp->ring;
	volatile uint32_t *w = (volatile uint32_t *)r;

	switch (draw() % 20) {
	case 12:
	case 13:
	case 14: edit_notes(r); break;
	case 15:
	case 16:
	case 17:
	case 18:
	case 19: edit_receive(qp->rq); break;
	case 0: r->sq_prod += draw() % (2 * weft_qp_depth(qp) + 100); break;
	case 1: r->sq_prod = draw(); break;
	case 2: r->hint = draw() & 1; break;
	case 3: r->arm_tx = r->arm_rx = draw(); break;
	case 4: w[draw() % (sizeof(*r) / 4)] = draw(); break;
	case 5: /* the reader of the event ring is where it cannot be */
		*(volatile unsigned long *)qp->cq->rb_cons = draw() & 1 ? draw() : 0;
		break;
	case 6: /* rings that no QP of ours uses */
		w = (volatile uint32_t *)&at.dev->rings[8 + draw() % (at.dev->nrings - 8)];
		for (int i = 0; i < 64; i++)
			w[draw() % (sizeof(*r) / 4)] = draw();
		break;
	default:
		r += draw() % weft_sq_rings(weft_qp_depth(qp));
		edit_wqe(&r->sq[draw() % WEFT_SQ_DEPTH]);
		break;
	}
	/* the doorbell too is the application's to send */
	if (!(draw() % 8))
		weft_doorbell(at.dev, draw() % 4 ? qp->num : draw(), 1 + draw() % 7,
			      60 + draw() % 1200);
}

static bool connect_again(const char *host, struct weft_qp **qp)
{
	char addr[80];

	snprintf(addr, sizeof(addr), "%s:%d", host, PORT);
	if (*qp)
		weft_qp_close(*qp);
	*qp = NULL;
	bool own = qp == &at.qp[0];

	if (weft_connect(at.dev, addr,
			 WEFT_OPTS(struct weft_qp_opts, .timeout_ms = 200, .recvs = own ? RECVS : 0,
				   .srq = own ? NULL : at.srq, .sq_depth = draw() & 1 ? 1024 : 0),
			 qp))
		return false;
	at.connects++;
	return true;
}

static void post_some(struct weft_qp *qp, uint32_t rkey)
{
	for (int i = 0; i < DEPTH; i++) {
		uint32_t len = draw() & 1 ? draw() % 200 : draw() % LENGTH;
		struct weft_write w = { .mr = at.mr,
					.off = draw() % (SOURCE - len),
					.len = len,
					.rkey = rkey,
					.roff = draw() % (REGION - len) };

		if (draw() % 3 ? weft_post_write(qp, &w)
			       : post_send(qp, at.mr, len, rkey, w.roff) < 0)
			break;
	}
}

static void round_of(struct weft_qp *qp)
{
	uint32_t rkey = *(const uint32_t *)weft_qp_private(qp, NULL);
	unsigned deeds = draw() % 200, frozen = draw() % 3;

	for (unsigned i = 0; i < 40 && !weft_qp_status(qp); i++) {
		post_some(qp, rkey);
		post_receives(qp, qp->rq->shared ? qp->rq : NULL, at.sink, 1 + draw() % 8);
		if (i > 10) /* some good ones first */
			for (unsigned k = 0; k < deeds / 20 + 1; k++)
				attack(qp);
		if (frozen) /* else it never polls */
			at.received += poll_all(qp);
		if (!(draw() % 4))
			usleep(draw() % 2000);
	}
	at.failures += weft_qp_status(qp) != 0;
}

/* Has there been enough of everything? A slow machine takes longer. */
static bool tested(void)
{
	return at.connects >= 2 && at.failures && at.received;
}

static int attacker(char **argv)
{
	size_t room = 6 * SOURCE;
	struct weft_pd *pd;
	uint8_t *mem;
	double end;
	void *p;

	seed = strtoull(argv[6], NULL, 0);
	at.dev = open_dev(argv);
	need(weft_alloc(at.dev, room, &p), "alloc");
	mem = p;
	memset(mem, OTHER, room);
	for (size_t i = 0; i < SOURCE; i++)
		mem[SOURCE + i] = MINE | i % 16;
	need(weft_pd_alloc(at.dev, &pd), "pd");
	need(weft_mr_reg(at.dev, NULL, mem + SOURCE, SOURCE, WEFT_LOCAL, &at.mr), "register");
	need(weft_mr_reg(at.dev, NULL, mem, SOURCE, WEFT_REMOTE_WRITE, &at.not_local), "register");
	need(weft_mr_reg(at.dev, pd, mem + 2 * SOURCE, SOURCE, WEFT_LOCAL, &at.other_pd),
	     "register");
	need(weft_mr_reg(at.dev, NULL, mem + 4 * SOURCE, SOURCE, WEFT_LOCAL_WRITE, &at.sink),
	     "register");
	need(weft_srq_create(at.dev, NULL, RECVS, &at.srq), "receive queue");
	end = now_s() + atof(argv[5]);
	while ((now_s() < end || (!tested() && now_s() < end + 60)) && !stop) {
		struct weft_qp **qp = &at.qp[draw() % 2];

		if ((!*qp || weft_qp_status(*qp) || !(draw() % 4)) && !connect_again(argv[4], qp)) {
			usleep(20000);
			continue;
		}
		round_of(*qp);
	}
	for (size_t i = 0; i < room; i++) {
		bool source = i >= SOURCE && i < 2 * SOURCE;

		if (i / SOURCE == 4 && (mem[i] & 0xf0) == THEIRS)
			continue;
		if (mem[i] != (source ? MINE | (i - SOURCE) % 16 : OTHER))
			bad("byte %lu of the attacker is %02x", i, mem[i]);
	}
	printf("connections %u, failed %u, received %u\n", at.connects, at.failures, at.received);
	weft_close(at.dev);
	if (!tested())
		bad("%lu connections and %u failures, or no message received, are no test",
		    at.connects, at.failures);
	return 0;
}

static int books(char **argv)
{
	struct weft_dev *dev = open_dev(argv);
	const struct weft_devrun *run = dev->maps.run;
	int rc = run->active != 0;

	printf("active %u", run->active);
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		rc |= run->dom[d].inflight != 0;
		if (run->dom[d].inflight)
			printf(", domain %d: %d", d, run->dom[d].inflight);
	}
	printf("\n");
	weft_close(dev);
	return rc;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	if (argc == 4 && !strcmp(argv[1], "server"))
		return server(argv);
	if (argc == 7 && !strcmp(argv[1], "attack"))
		return attacker(argv);
	if (argc == 4 && !strcmp(argv[1], "books"))
		return books(argv);
	fprintf(stderr,
		"usage: rings server|books NETNS DEV | attack NETNS DEV HOST SECONDS SEED\n");
	return 2;
}
