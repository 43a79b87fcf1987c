/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The writing half of netwrite: posts, checks the order of completions and their status. */
#ifndef NETCLIENT_H
#define NETCLIENT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "netcommon.h"

struct client {
	struct weft_dev *dev;
	const char *addr;
	unsigned index;
	struct region src, reply;
	struct weft_qp *qp;
	struct np_offer offer;
	uint64_t posted, polled; /* WRITEs; wr_id counts them */
	enum weft_wc_status failed;
	uint64_t bytes;
	pthread_t thread;
};
static atomic_ulong cl_packets, cl_retransmits, cl_spurious, cl_timeouts, cl_bytes, cl_messages;
static atomic_int cl_failed;
static _Atomic uint64_t cl_worst_us;

/* ---- posting and polling ---- */

static void fails(struct client *c, enum weft_wc_status why, uint64_t completed)
{
	c->failed = why;
	say("failed %u at %.3f: %s, %llu completed of %llu posted", c->index, now_s(),
	    weft_wc_str(why), (unsigned long long)completed, (unsigned long long)c->posted);
}

/* Take what has completed; it must come in posting order, and nothing good behind an error. */
static int reap(struct client *c)
{
	struct weft_wc wc[16];
	int n = weft_cq_poll(weft_qp_cq(c->qp), wc, 16);

	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id != c->polled || wc[i].qp != c->qp)
			bad("completion %llu instead of %llu", (unsigned long long)wc[i].wr_id,
			    (unsigned long long)c->polled);
		if (c->polled == c->posted)
			bad("completion of what was not posted");
		c->polled++;
		if (wc[i].status == WEFT_WC_SUCCESS) {
			c->bytes += wc[i].len;
			if (c->failed)
				bad("success behind an error");
		} else if (!c->failed) {
			fails(c, wc[i].status, c->polled - 1);
		} else if (c->failed == WEFT_WC_FLUSH_ERR) {
			/* what stopped the QP may be behind one that was not acknowledged */
			c->failed = wc[i].status;
		} else if (wc[i].status != WEFT_WC_FLUSH_ERR && wc[i].status != c->failed) {
			bad("%s behind %s", weft_wc_str(wc[i].status), weft_wc_str(c->failed));
		}
	}
	return n;
}

/* Everything outstanding must come back, also when the QP fails. */
static void drain(struct client *c)
{
	double until = now_s() + 60;

	while (c->polled != c->posted && now_s() < until) {
		if (c->failed && until > now_s() + 30)
			until = now_s() + 30;
		if (!reap(c) && (c->posted & 1))
			weft_cq_wait(weft_qp_cq(c->qp), WEFT_ARM_TX, 100);
	}
	if (c->polled != c->posted)
		bad("%llu WRITEs never completed (%s)", (unsigned long long)(c->posted - c->polled),
		    weft_wc_str(weft_qp_status(c->qp)));
}

/* A QP that fails with nothing outstanding has no completion to say so: the next post does. */
static int post(struct client *c, uint64_t off, uint64_t roff, uint32_t len)
{
	struct weft_write w = { .wr_id = c->posted,
				.mr = c->src.mr,
				.off = off,
				.len = len,
				.rkey = c->offer.key,
				.roff = roff };
	int err = weft_post_write(c->qp, &w);

	if (!err)
		c->posted++;
	else if (err == -ENOTCONN && c->posted == c->polled && !c->failed)
		fails(c, weft_qp_status(c->qp), c->polled);
	return err;
}

static void post_plan(struct client *c, const struct np_plan *p)
{
	for (unsigned i = 0; i < p->n && !c->failed;) {
		const struct np_msg *m = &p->msg[i];
		int err = c->posted - c->polled < nw.depth ? post(c, m->off, m->roff, m->len)
							   : -EAGAIN;

		if (!err) {
			i++;
		} else if (err == -EAGAIN) {
			/* both ways of waiting */
			if (!reap(c) && (i & 1))
				weft_cq_wait(weft_qp_cq(c->qp), WEFT_ARM_TX, 1000);
		} else if (err == -ENOTCONN) {
			break;
		} else {
			bad("weft_post_write: %s", strerror(-err));
			break;
		}
	}
}

#include "netmix_client.h"

/* ---- what a client does ---- */

static void verdict(struct client *c, uint32_t round)
{
	double until = now_s() + 60;
	uint64_t word;

	while ((int32_t)(weft_qp_arrived(c->qp) - round - 1) < 0) {
		if (weft_qp_status(c->qp) || now_s() > until) {
			c->failed = weft_qp_status(c->qp);
			say("failed %u at %.3f: %s, waiting for the verdict", c->index, now_s(),
			    weft_wc_str(c->failed));
			if (!c->failed)
				bad("no verdict on round %u", round);
			return;
		}
		weft_cq_wait(weft_qp_cq(c->qp), WEFT_ARM_RX, 100);
	}
	memcpy(&word, c->reply.at + round % 8 * 8, 8);
	if (word != round + 1)
		bad("the server finds round %u wrong", round);
}

static void run_plan(struct client *c, uint64_t seed)
{
	double end = now_s() + nw.time;
	struct np_plan plan = { 0 };

	for (uint32_t r = 0; nw.time ? now_s() < end : r < nw.rounds; r++) {
		uint64_t before = c->posted;

		np_fill(c->src.at, nw.src, seed + r);
		np_plan_make(&plan, seed + r, c->offer.region, nw.src, nw.max, nw.fixed);
		post_plan(c, &plan);
		if (nw.stop_posted && !r) {
			say("posted %llu, completed %llu", (unsigned long long)c->posted,
			    (unsigned long long)c->polled);
			raise(SIGSTOP);
		}
		drain(c);
		if (c->failed)
			break;
		say("qp %u round %u: %u of %u completed", c->index, r,
		    (unsigned)(c->polled - before), plan.n);
		verdict(c, r);
		if (c->failed || atomic_load(&stop))
			break;
	}
	free(plan.msg);
}

/*
 * Random bursts and pauses. A clock that runs only while we look (at most 5 ms
 * between two looks) tells how long a message took, so that a busy machine that
 * does not let us run is not taken for a stall.
 */
static void run_stress(struct client *c, uint64_t seed)
{
	uint64_t rnd = seed, room = nw.src < c->offer.region ? nw.src : c->offer.region;
	double end = now_s() + nw.time, last = now_s(), next = 0, t, clock = 0, worst = 0;
	double *born = calloc(WEFT_DEPTH_MAX, sizeof(*born));
	unsigned late = 0;

	must(born, "memory");
	while (!c->failed && (now_s() < end || c->polled != c->posted)) {
		uint64_t before = c->polled, kind;

		t = now_s();
		clock += t - last < 0.005 ? t - last : 0.005;
		last = t;
		if (c->polled != c->posted) {
			double age = clock - born[c->polled % WEFT_DEPTH_MAX];

			worst = age > worst ? age : worst;
			if (age > nw.limit_ms / 1e3) {
				bad("seed %llu: WRITE %llu not complete after %.0f ms",
				    (unsigned long long)nw.seed, (unsigned long long)c->polled,
				    age * 1e3);
				born[c->polled % WEFT_DEPTH_MAX] = clock; /* once each limit */
				if (++late == 10)
					break;
			}
		}
		reap(c);
		if (before == c->polled && now_s() < next)
			continue;
		if (now_s() >= end || now_s() < next)
			continue;
		for (unsigned n = 1 + np_below(&rnd, 8); n; n--) {
			uint64_t len = np_below(&rnd, np_below(&rnd, 4) ? 256 : 16384);
			uint64_t off = np_below(&rnd, room - len);

			born[c->posted % WEFT_DEPTH_MAX] = clock;
			if (c->posted - c->polled >= nw.depth || post(c, off, off, len))
				break;
		}
		kind = np_below(&rnd, 100);
		if (kind < 4)
			usleep(np_below(&rnd, 4000));
		else
			next = now_s() + np_below(&rnd, kind < 50   ? 30
							: kind < 90 ? 200
								    : 3000) /
						 1e6;
	}
	drain(c);
	if (worst * 1e6 > atomic_load(&cl_worst_us))
		atomic_store(&cl_worst_us, worst * 1e6);
	free(born);
}

/* One good message, one that must be refused, one behind it. */
static void run_bad(struct client *c)
{
	struct weft_write w = { .wr_id = 1,
				.mr = c->src.mr,
				.off = 4096,
				.len = nw.max,
				.rkey = c->offer.key,
				.roff = 4096 };
	struct region *s = &c->src;
	const char *k = nw.bad;
	enum weft_wc_status want = WEFT_WC_REM_ACCESS_ERR;
	struct weft_qp_opts sizeless = { .evs = 1 };
	struct weft_mr *mr = NULL;
	struct weft_qp *qp;
	int err;

	if (weft_connect(c->dev, c->addr, &sizeless, &qp) != -EINVAL)
		bad("options without a size were taken");
	must(nw.max + 4096 <= nw.src && nw.max + 4096 < c->offer.region, "sizes");
	need(post(c, 0, 0, 4096), "weft_post_write");
	drain(c);
	if (!strcmp(k, "key")) {
		w.rkey += 1 << 12; /* the next generation */
	} else if (!strcmp(k, "zero")) {
		w.rkey = 0;
	} else if (!strcmp(k, "index")) {
		w.rkey ^= 0xabc;
	} else if (!strcmp(k, "bounds")) {
		w.roff = c->offer.region - w.len + 1;
	} else if (!strcmp(k, "end")) {
		w.roff = c->offer.region + 1;
		w.len = 0;
	} else if (!strcmp(k, "wrap")) {
		w.roff = -(uint64_t)(w.len / 2);
	} else if (!strcmp(k, "rights")) {
		w.rkey = c->offer.key_rights;
		w.roff = 0;
		w.len = 4096;
	} else if (!strcmp(k, "pd")) {
		w.rkey = c->offer.key_pd;
		w.roff = 0;
		w.len = 4096;
	} else if (!strcmp(k, "local")) { /* a source that may not be one */
		need(weft_mr_reg(c->dev, NULL, s->at, s->len, WEFT_REMOTE_WRITE, &mr),
		     "weft_mr_reg");
		w.mr = mr;
		want = WEFT_WC_LOC_PROT_ERR;
	} else {
		must(false, "--bad");
	}
	err = weft_post_write(c->qp, &w);
	if (mr && err == -EINVAL) {
		say("refused at once");
	} else {
		need(err, "weft_post_write");
		c->posted++;
		post(c, 8192, 8192, 100); /* the QP may have failed already */
		drain(c);
		if (c->polled < 2 || c->failed != want)
			bad("status \"%s\" instead of \"%s\"", weft_wc_str(c->failed),
			    weft_wc_str(want));
		err = post(c, 0, 0, 64);
		if (err != -ENOTCONN)
			bad("a failed QP takes a WRITE: %s", strerror(-err));
	}
	if (mr)
		weft_mr_dereg(mr);
	c->failed = 0;
}

/* The server takes its memory or QP away while we write. */
static void run_end(struct client *c, enum weft_wc_status want)
{
	double until = now_s() + 60;

	need(post(c, 0, 0, 64), "weft_post_write");
	while (!c->failed && now_s() < until) {
		int err = post(c, 0, 64, nw.max);

		if (err == -EAGAIN || err == -ENOTCONN)
			reap(c);
	}
	drain(c);
	if (c->failed != want)
		bad("status \"%s\" instead of \"%s\"", weft_wc_str(c->failed), weft_wc_str(want));
	c->failed = 0;
}

static void *run(void *arg)
{
	struct client *c = arg;
	uint64_t seed = nw.seed * 1000003 + c->index * 10007;
	struct np_hello hi = {
		NP_MAGIC, seed,    nw.src, nw.max, nw.fixed, NP_PLAN, nw.time ? 0 : nw.rounds,
		0,        c->index
	};
	struct weft_qp_opts o = { .size = sizeof(o),
				  .priv = &hi,
				  .priv_len = sizeof(hi),
				  .evs = nw.evs,
				  .cwnd = nw.cwnd,
				  .sq_depth = nw.depth,
				  .timeout_ms = nw.timeout_ms,
				  .recvs = nw.mix ? MIX_RECVS : 0,
				  .strict = nw.strict };
	struct weft_qp_stats st = { .size = sizeof(st) };
	size_t len;

	if (nw.bad)
		hi.kind = !strcmp(nw.bad, "close")   ? NP_CLOSE
			  : !strcmp(nw.bad, "dereg") ? NP_DEREG
						     : NP_BAD;
	if (nw.stress || nw.idle)
		hi.kind = NP_MESH;
	if (nw.mix)
		hi.kind = NP_MIX;
	region_make(&c->src, c->dev, nw.src, seed + 1);
	region_make(&c->reply, c->dev, 64, seed + 2);
	need(weft_mr_reg(c->dev, NULL, c->src.at, nw.src, WEFT_LOCAL, &c->src.mr), "weft_mr_reg");
	need(weft_mr_reg(c->dev, NULL, c->reply.at, 64, WEFT_REMOTE_WRITE, &c->reply.mr),
	     "weft_mr_reg");
	hi.reply_key = weft_mr_key(c->reply.mr);
	np_fill(c->src.at, nw.src, seed);
	need(weft_connect(c->dev, c->addr, &o, &c->qp), "weft_connect");
	memcpy(&c->offer, weft_qp_private(c->qp, &len), sizeof(c->offer));
	must(len == sizeof(c->offer) && c->offer.magic == NP_MAGIC, "private data");
	say("qp %u: 0x%x connected", c->index, weft_qp_num(c->qp));

	if (nw.idle)
		for (double end = now_s() + nw.idle; now_s() < end && !atomic_load(&stop);)
			usleep(500000);
	else if (nw.mix)
		run_mix(c, seed);
	else if (nw.stress)
		run_stress(c, seed);
	else if (hi.kind == NP_BAD)
		run_bad(c);
	else if (nw.bad)
		run_end(c, hi.kind == NP_CLOSE ? WEFT_WC_REM_CLOSED_ERR : WEFT_WC_REM_ACCESS_ERR);
	else
		run_plan(c, seed);

	region_check(&c->src, "source");
	region_check(&c->reply, "answer");
	if (!weft_qp_stats(c->qp, &st)) {
		atomic_fetch_add(&cl_packets, st.packets);
		atomic_fetch_add(&cl_retransmits, st.retransmits);
		atomic_fetch_add(&cl_spurious, st.spurious);
		atomic_fetch_add(&cl_timeouts, st.timeouts);
	}
	atomic_fetch_add(&cl_bytes, c->bytes);
	atomic_fetch_add(&cl_messages, c->polled);
	if (c->failed)
		atomic_fetch_add(&cl_failed, 1);
	weft_qp_close(c->qp);
	return NULL;
}

static int client(struct weft_dev **dev, char **addr, int n)
{
	struct client *c = calloc(n * nw.qps, sizeof(*c));
	double t = now_s();
	unsigned i, total = n * nw.qps;

	must(c, "memory");
	for (i = 0; i < total; i++) {
		c[i].dev = dev[i % n];
		c[i].addr = addr[i % n];
		c[i].index = i;
		must(!pthread_create(&c[i].thread, NULL, run, &c[i]), "pthread_create");
	}
	for (i = 0; i < total; i++)
		pthread_join(c[i].thread, NULL);
	t = now_s() - t;
	for (i = 0; i < (unsigned)n; i++)
		weft_close(dev[i]);
	say("{\"messages\":%lu,\"bytes\":%lu,\"packets\":%lu,\"retransmits\":%lu,\"spurious\":%lu,"
	    "\"timeouts\":%lu,\"seconds\":%.3f,\"worst_us\":%llu,\"failed\":%d,\"wrong\":%d}",
	    atomic_load(&cl_messages), atomic_load(&cl_bytes), atomic_load(&cl_packets),
	    atomic_load(&cl_retransmits), atomic_load(&cl_spurious), atomic_load(&cl_timeouts), t,
	    (unsigned long long)atomic_load(&cl_worst_us), atomic_load(&cl_failed),
	    atomic_load(&wrong));
	free(c);
	return atomic_load(&wrong) ? 1 : atomic_load(&cl_failed) ? 3 : 0;
}

#endif
