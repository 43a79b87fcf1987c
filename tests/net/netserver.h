/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The serving half of netwrite: offers regions, compares all that is written into them. */
#ifndef NETSERVER_H
#define NETSERVER_H

#include <pthread.h>
#include <unistd.h>

#include "netmix_server.h"

#define DECOY (64 << 10)

struct slot { /* one destination, used by one connection at a time */
	struct server *sv;
	struct region dst;
	struct weft_mr *all; /* of dst, with all rights */
	struct weft_qp *qp;
	struct np_hello hi;
	bool busy, own; /* receives: of its own, or shared ones */
};

struct server { /* on one device */
	struct weft_dev *dev;
	struct weft_listener *l;
	struct weft_pd *pd;
	struct region no_rights, other_pd; /* peers must not write these */
	struct mix_shared mix;
	struct slot *slot;
	pthread_t thread;
};

static pthread_mutex_t sv_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned sv_taken, sv_ended;

/* Everything outside the destination, and what no peer may write. */
static void check_around(struct slot *s)
{
	region_check(&s->dst, "destination");
	if (np_canary_check(s->sv->no_rights.at, DECOY, 3) >= 0)
		bad("a region without the right to write was written");
	if (np_canary_check(s->sv->other_pd.at, DECOY, 4) >= 0)
		bad("a region of another PD was written");
	region_check(&s->sv->no_rights, "region without rights");
	region_check(&s->sv->other_pd, "region of another PD");
}

/* Until that many have arrived. False: the QP failed before. */
static bool arrivals(struct weft_qp *qp, uint32_t n)
{
	while ((int32_t)(weft_qp_arrived(qp) - n) < 0) {
		if (weft_qp_status(qp) || atomic_load(&stop))
			return (int32_t)(weft_qp_arrived(qp) - n) >= 0;
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_RX, 100);
	}
	return true;
}

/* Tell the client; wait until it knows. */
static void answer(struct slot *s, const struct region *out, uint32_t round, bool ok)
{
	struct weft_write w = { .mr = out->mr, .len = 8, .rkey = s->hi.reply_key };
	uint64_t word = ok ? round + 1 : ~0ull;
	struct weft_wc wc;

	w.off = w.roff = round % 8 * 8;
	memcpy(out->at + w.off, &word, 8);
	if (weft_post_write(s->qp, &w))
		return;
	while (!weft_cq_poll(weft_qp_cq(s->qp), &wc, 1))
		weft_cq_wait(weft_qp_cq(s->qp), WEFT_ARM_TX, 100);
}

static void serve_plan(struct slot *s, uint8_t *src)
{
	struct region out;
	struct np_plan plan = { 0 };
	uint32_t total = 0, round;
	int64_t at;

	region_make(&out, s->sv->dev, 64, s->hi.seed ^ 5);
	need(weft_mr_reg(s->sv->dev, NULL, out.at, out.len, WEFT_LOCAL, &out.mr), "weft_mr_reg");
	for (round = 0; !s->hi.rounds || round < s->hi.rounds; round++) {
		uint64_t seed = s->hi.seed + round;

		np_fill(src, s->hi.src, seed);
		np_plan_make(&plan, seed, s->dst.len, s->hi.src, s->hi.max, s->hi.fixed);
		total += plan.n;
		if (!arrivals(s->qp, total))
			break;
		at = np_plan_check(&plan, s->dst.at, s->dst.len, src);
		if (at >= 0)
			bad("qp %u round %u seed %llu: byte %lld of %zu", s->hi.index, round,
			    (unsigned long long)seed, (long long)at, s->dst.len);
		check_around(s);
		say("qp %u round %u: %u messages, %llu bytes %s", s->hi.index, round, plan.n,
		    (unsigned long long)plan.bytes, at < 0 ? "right" : "wrong");
		memset(s->dst.at, 0, s->dst.len);
		answer(s, &out, round, at < 0);
	}
	while (!weft_qp_status(s->qp) && !atomic_load(&stop))
		weft_cq_wait(weft_qp_cq(s->qp), WEFT_ARM_TX, 100);
	region_check(&out, "answer");
	weft_mr_dereg(out.mr);
	weft_free(s->sv->dev, out.mem);
	free(plan.msg);
}

/* Until the client goes: each byte is what the source has at the same offset, or still zero. */
static void serve_mesh(struct slot *s, uint8_t *src)
{
	size_t n = s->hi.src < s->dst.len ? s->hi.src : s->dst.len, written = 0, i;

	np_fill(src, s->hi.src, s->hi.seed);
	while (!weft_qp_status(s->qp) && !atomic_load(&stop))
		weft_cq_wait(weft_qp_cq(s->qp), WEFT_ARM_RX | WEFT_ARM_TX, 1000);
	for (i = 0; i < n; i++) {
		if (s->dst.at[i] && s->dst.at[i] != src[i])
			break;
		written += s->dst.at[i] != 0;
	}
	if (i < n || !np_zero(s->dst.at + n, s->dst.len - n))
		bad("qp %u: byte %zu of the mesh", s->hi.index, i);
	/* some are empty, hardly so many */
	if (!written && weft_qp_arrived(s->qp) > 100)
		bad("qp %u: %u messages arrived and not a byte", s->hi.index,
		    weft_qp_arrived(s->qp));
	say("qp %u: mesh of %u messages", s->hi.index, weft_qp_arrived(s->qp));
}

static void serve_bad(struct slot *s, uint8_t *src)
{
	np_fill(src, s->hi.src, s->hi.seed);
	while (!weft_qp_status(s->qp) && !atomic_load(&stop))
		weft_cq_wait(weft_qp_cq(s->qp), WEFT_ARM_RX, 100);
	if (memcmp(s->dst.at, src, 4096))
		bad("what was written before the bad message is not there");
	if (!np_zero(s->dst.at + 4096, s->dst.len - 4096))
		bad("bytes of a bad message were written");
	say("qp %u: refused, %s", s->hi.index, weft_wc_str(weft_qp_status(s->qp)));
}

/* After close or deregistration has returned nothing may move. */
static void serve_end(struct slot *s)
{
	uint8_t *copy = calloc(1, s->dst.len);
	bool first;

	must(copy, "memory");
	first = arrivals(s->qp, 1);
	if (s->hi.kind == NP_CLOSE) {
		weft_qp_close(s->qp);
		s->qp = NULL;
	} else {
		need(weft_mr_dereg(s->dst.mr), "weft_mr_dereg");
		s->dst.mr = NULL;
	}
	memcpy(copy, s->dst.at, s->dst.len);
	usleep(200000);
	if (memcmp(copy, s->dst.at, s->dst.len))
		bad("memory changed after it was taken away");
	say("qp %u: %s during traffic", s->hi.index, s->qp ? "deregistered" : "closed");
	if (!first)
		bad("nothing arrived before it");
	free(copy);
}

/* All operations. */
static void serve_mix(struct slot *s, uint8_t *src)
{
	struct mix_rx rx = { .sh = &s->sv->mix,
			     .qp = s->qp,
			     .src = src,
			     .dst = s->dst.at,
			     .len = s->dst.len,
			     .skew = -(uintptr_t)s->dst.at & 7,
			     .seed = s->hi.seed,
			     .rnd = s->hi.seed + 1,
			     .own = s->own };

	must(s->sv->mix.srq && s->hi.src >= MIX_SRC, "--mix");
	np_fill(src, s->hi.src, s->hi.seed);
	mix_serve(&rx);
	weft_qp_close(s->qp);
	s->qp = NULL;
	mix_served(&rx);
}

static void *serve(void *arg)
{
	struct slot *s = arg;
	uint8_t *src = calloc(1, s->hi.src);

	must(src, "memory");
	switch (s->hi.kind) {
	case NP_PLAN: serve_plan(s, src); break;
	case NP_MESH: serve_mesh(s, src); break;
	case NP_BAD: serve_bad(s, src); break;
	case NP_MIX: serve_mix(s, src); break;
	default: serve_end(s); break;
	}
	check_around(s);
	say("qp %u: over, %s", s->hi.index,
	    s->qp ? weft_wc_str(weft_qp_status(s->qp)) : "closed here");
	if (s->qp)
		weft_qp_close(s->qp);
	if (!s->dst.mr)
		need(weft_mr_reg(s->sv->dev, NULL, s->dst.at, s->dst.len, WEFT_REMOTE_WRITE,
				 &s->dst.mr),
		     "weft_mr_reg");
	memset(s->dst.at, 0, s->dst.len);
	free(src);
	pthread_mutex_lock(&sv_lock);
	s->busy = false;
	sv_ended++;
	pthread_mutex_unlock(&sv_lock);
	return NULL;
}

static struct slot *free_slot(struct server *sv)
{
	struct slot *s = NULL;

	pthread_mutex_lock(&sv_lock);
	for (unsigned i = 0; i < nw.qps && !s; i++)
		if (!sv->slot[i].busy)
			s = &sv->slot[i];
	pthread_mutex_unlock(&sv_lock);
	return s;
}

static void start(struct slot *s)
{
	size_t len;
	const void *priv = weft_qp_private(s->qp, &len);
	pthread_t t;

	if (len != sizeof(s->hi)) {
		bad("private data of %zu bytes", len);
		weft_qp_close(s->qp);
		return;
	}
	memcpy(&s->hi, priv, sizeof(s->hi));
	must(s->hi.magic == NP_MAGIC, "private data");
	say("qp %u: 0x%x connected", s->hi.index, weft_qp_num(s->qp));
	pthread_mutex_lock(&sv_lock);
	s->busy = true;
	sv_taken++;
	pthread_mutex_unlock(&sv_lock);
	must(!pthread_create(&t, NULL, serve, s), "pthread_create");
	pthread_detach(t);
}

static void *accept_all(void *arg)
{
	struct server *sv = arg;
	uint64_t rnd = nw.seed;
	struct slot *s;

	while (!atomic_load(&stop)) {
		struct np_offer offer = { .magic = NP_MAGIC };
		struct weft_qp_opts o = { .size = sizeof(o),
					  .priv = &offer,
					  .priv_len = sizeof(offer),
					  .connect_ms = 200,
					  .evs = nw.evs,
					  .cwnd = nw.cwnd };
		int err;

		s = free_slot(sv);
		if (!s) {
			usleep(50000);
			continue;
		}
		if (nw.mix) {
			s->own = np_below(&rnd, 2);
			if (s->own)
				o.recvs = MIX_RECVS;
			else
				o.srq = sv->mix.srq;
			offer.key_all = weft_mr_key(s->all);
			offer.key_board = weft_mr_key(sv->mix.board_mr);
			offer.skew = -(uintptr_t)s->dst.at & 7;
		}
		offer.region = s->dst.len;
		offer.key = weft_mr_key(s->dst.mr);
		offer.key_rights = weft_mr_key(sv->no_rights.mr);
		offer.key_pd = weft_mr_key(sv->other_pd.mr);
		err = weft_accept(sv->l, &o, &s->qp);
		if (!err)
			start(s);
		else if (err != -ETIMEDOUT)
			say("refused: %s", weft_strerror_last());
		if (err == -ENODEV) /* the device is lost: nobody can come any more */
			break;
	}
	return NULL;
}

static void serve_device(struct server *sv, const char *addr)
{
	struct weft_dev *dev = sv->dev;

	need(weft_pd_alloc(dev, &sv->pd), "weft_pd_alloc");
	region_make(&sv->no_rights, dev, DECOY, nw.seed + 1000);
	region_make(&sv->other_pd, dev, DECOY, nw.seed + 2000);
	np_canary_fill(sv->no_rights.at, DECOY, 3);
	np_canary_fill(sv->other_pd.at, DECOY, 4);
	need(weft_mr_reg(dev, NULL, sv->no_rights.at, DECOY, WEFT_LOCAL, &sv->no_rights.mr),
	     "weft_mr_reg");
	need(weft_mr_reg(dev, sv->pd, sv->other_pd.at, DECOY, WEFT_REMOTE_WRITE, &sv->other_pd.mr),
	     "weft_mr_reg");
	if (nw.mix)
		mix_share(&sv->mix, dev);
	sv->slot = calloc(nw.qps, sizeof(*sv->slot));
	must(sv->slot, "memory");
	for (unsigned i = 0; i < nw.qps; i++) {
		struct region *r = &sv->slot[i].dst;

		sv->slot[i].sv = sv;
		region_make(r, dev, nw.region, nw.seed + 2 * i);
		need(weft_mr_reg(dev, NULL, r->at, r->len, WEFT_REMOTE_WRITE, &r->mr),
		     "weft_mr_reg");
		if (nw.mix)
			need(weft_mr_reg(dev, NULL, r->at, r->len,
					 WEFT_REMOTE_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC,
					 &sv->slot[i].all),
			     "weft_mr_reg");
	}
	need(weft_listen(dev, addr, &sv->l), "weft_listen");
	must(!pthread_create(&sv->thread, NULL, accept_all, sv), "pthread_create");
}

static int server(struct server *sv, char **addr, int n)
{
	unsigned ended, i;

	for (i = 0; i < (unsigned)n; i++)
		serve_device(&sv[i], addr[i]);
	say("ready");
	do {
		usleep(50000);
		pthread_mutex_lock(&sv_lock);
		ended = sv_ended;
		pthread_mutex_unlock(&sv_lock);
	} while (!atomic_load(&stop) && !(nw.conns && ended >= nw.conns));
	atomic_store(&stop, true);
	for (i = 0; i < (unsigned)n; i++)
		pthread_join(sv[i].thread, NULL);
	do { /* those that still serve see `stop` */
		usleep(50000);
		pthread_mutex_lock(&sv_lock);
		ended = sv_ended;
		pthread_mutex_unlock(&sv_lock);
	} while (ended != sv_taken);
	for (i = 0; i < (unsigned)n; i++) {
		weft_listener_close(sv[i].l);
		for (unsigned j = 0; j < nw.qps; j++)
			check_around(&sv[i].slot[j]);
		if (nw.mix)
			mix_shared_check(&sv[i].mix);
		weft_close(sv[i].dev);
		free(sv[i].slot);
	}
	say("served %u, %d wrong", ended, atomic_load(&wrong));
	return atomic_load(&wrong) ? 1 : 0;
}

#endif
