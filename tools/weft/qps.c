// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Reads the QPs and the telemetry of a device from its pinned maps. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "internal.h"
#include "qps.h"

/* ---- telemetry ---- */

int tele_open(const struct pinned *p, struct tele *t)
{
	t->dev = NULL;
	t->n = p->cfg.qps;
	t->qp = pins_mmap(p, "qptele", sizeof(*t->qp), t->n, PROT_READ);
	if (t->qp)
		t->dev = pins_mmap(p, "devtele", sizeof(*t->dev), 1, PROT_READ);
	if (t->dev)
		return 0;
	tele_close(t);
	return -1;
}

void tele_close(struct tele *t)
{
	if (t->qp)
		munmap((void *)t->qp, t->n * sizeof(*t->qp));
	if (t->dev)
		munmap((void *)t->dev, sizeof(*t->dev));
	memset(t, 0, sizeof(*t));
}

static void qp_rtt(const struct weft_tele *t, struct weft_hist *rtt)
{
	for (unsigned i = 0; i < WEFT_TELE_LANES; i++)
		weft_hist_add(rtt, &t->rtt[i]);
}

void tele_device(const struct tele *t, struct weft_hist *rtt, struct weft_hist *lat)
{
	for (struct tele_read r = { 0 }; tele_read(t, &r);) {
		*rtt = t->dev->rtt;
		*lat = t->dev->lat;
		for (unsigned i = 0; i < t->n; i++) {
			if (!t->qp[i].id.qpn)
				continue;
			qp_rtt(&t->qp[i], rtt);
			weft_hist_add(lat, &t->qp[i].lat);
		}
	}
}

static const struct {
	const char *name, *text;
	unsigned permille;
} quantiles[] = { { "p50", "p50", 500 }, { "p99", "p99", 990 }, { "p999", "p99.9", 999 } };
#define NQUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

struct json_object *hist_json(const struct weft_hist *h)
{
	struct json_object *o = json_object_new_object();
	uint64_t count = weft_hist_count(h);

	cli_add_u64(o, "count", count);
	for (size_t i = 0; i < NQUANTILES; i++) {
		if (count)
			cli_add_f(o, quantiles[i].name,
				  weft_hist_quantile(h, quantiles[i].permille) / 1e3, 3);
		else
			json_object_object_add(o, quantiles[i].name, NULL);
	}
	return o;
}

const char *hist_text(const struct weft_hist *h, char buf[96])
{
	uint64_t count = weft_hist_count(h);
	int n = 0;

	if (!count)
		return "none";
	for (size_t i = 0; i < NQUANTILES; i++)
		n += snprintf(buf + n, 96 - n, "%s %.1f us  ", quantiles[i].text,
			      weft_hist_quantile(h, quantiles[i].permille) / 1e3);
	snprintf(buf + n, 96 - n, "(%llu)", (unsigned long long)count);
	return buf;
}

/* ---- QPs ---- */

static const char *const states[] = {
	[WEFT_QP_FREE] = "free", [WEFT_QP_INIT] = "init",     [WEFT_QP_RTS] = "rts",
	[WEFT_QP_ERR] = "error", [WEFT_QP_CLOSED] = "closed",
};

/* What was begun less what of it is not delivered. */
static void delivered(struct qp_view *v)
{
	const struct weft_tx *tx = &v->tx.tx;
	uint32_t out = tx->cons - tx->done + (tx->seg ? 1 : 0);

	v->tx_bytes = tx->bytes;
	v->tx_msgs = tx->msgs - out;
	if (!out || out > WEFT_SQ_DEPTH)
		return;
	for (uint32_t i = 0; i < out; i++)
		v->tx_bytes -= tx->wqe[(tx->done + i) & (WEFT_SQ_DEPTH - 1)].len;
	/* segments of the oldest that have arrived */
	v->tx_bytes +=
		(uint64_t)tx->payload *
		(tx->una != tx->nxt ? weft_slot_seg(&tx->slot[weft_tx_at(tx->una)]) : tx->seg);
}

/* The queue is shared memory of its owner: what it says may be anything. */
static void receives(struct qp_view *v, int rqs)
{
	struct weft_rq rq = { 0 };
	uint32_t idx = v->ctl.rq - 1, id, first = 0;
	int fd = -1;

	v->rq_depth = v->rq_left = 0;
	if (v->ctl.rq && rqs >= 0 && !bpf_map_lookup_elem(rqs, &idx, &id))
		fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return;
	if (!bpf_map_lookup_elem(fd, &first, &rq)) {
		v->rq_depth = v->ctl.rq_mask + 1;
		v->rq_left = rq.prod - (v->ctl.flags & WEFT_QPF_SRQ ? rq.taken : v->rx.rx.rdone);
		if (v->rq_left > v->rq_depth)
			v->rq_left = 0;
	}
	close(fd);
}

/* Each probe so far came after an interval, see core/tx_rnr.h; the last one's time is known. */
static double rnr_seconds(const struct weft_tx *tx)
{
	uint32_t now = weft_now_ns() >> WEFT_TS_SHIFT;
	uint64_t ticks = now - tx->rnr_ts;

	if (!tx->rnr)
		return 0;
	for (uint32_t i = 0; i < tx->probes; i++)
		ticks += (uint64_t)WEFT_RNR_MIN << (i < WEFT_RNR_SHIFT ? i : WEFT_RNR_SHIFT);
	return (double)(ticks << WEFT_TS_SHIFT) / 1e9;
}

static void derive(struct qp_view *v, const struct weft_tele *t)
{
	int af = v->ctl.flags & WEFT_QPF_V6 ? AF_INET6 : AF_INET;
	struct timespec ts;

	inet_ntop(af, v->ctl.saddr, v->local, sizeof(v->local));
	inet_ntop(af, v->ctl.daddr, v->peer, sizeof(v->peer));
	v->state = v->ctl.state < sizeof(states) / sizeof(states[0]) ? states[v->ctl.state] : "?";
	clock_gettime(CLOCK_MONOTONIC, &ts);
	v->age = v->ctl.created ? ts.tv_sec + ts.tv_nsec / 1e9 - v->ctl.created / 1e9 : 0;
	v->srtt_us = (double)v->tx.tx.rtt.srtt8 * (1 << WEFT_TS_SHIFT) / 8e3;
	v->rto_us = (double)weft_rto(&v->tx.tx.rtt) * (1 << WEFT_TS_SHIFT) / 1e3;
	v->rnr_s = rnr_seconds(&v->tx.tx);
	memset(&v->rtt, 0, sizeof(v->rtt));
	qp_rtt(t, &v->rtt);
	v->lat = t->lat;
	v->rx_bytes = 0;
	for (unsigned i = 0; i < WEFT_TELE_LANES; i++)
		v->rx_bytes += t->lane[i].rx_bytes;
	delivered(v);
}

const char *qp_error_text(const struct qp_view *v)
{
	uint32_t code = v->rx.rx.err;

	if (v->tx.tx.err == WEFT_TX_ERR_LOCAL)
		return "local key, bounds or rights";
	if (v->tx.tx.err == WEFT_TX_ERR_RING)
		return "send queue is corrupt";
	if (v->tx.tx.err == WEFT_TX_ERR_NAK)
		code = v->tx.tx.err_info;
	return code ? weft_nak_text(code) : "";
}

int qps_each(const struct pinned *p, void (*one)(const struct qp_view *v, void *arg), void *arg)
{
	struct weft_qpctl *ctl = calloc(p->cfg.qps, sizeof(*ctl));
	unsigned *on_cq = calloc(WEFT_CQS, sizeof(*on_cq));
	struct qp_view *v = calloc(1, sizeof(*v));
	int cfd, tfd = -1, rfd = -1, qfd = -1, pid[WEFT_PROCS], rc = -1;
	struct tele t = { 0 };

	cfd = pins_map(p, "qpctl", sizeof(*ctl));
	if (cfd >= 0)
		tfd = pins_map(p, "qptx", sizeof(v->tx));
	if (tfd >= 0)
		rfd = pins_map(p, "qprx", sizeof(v->rx));
	if (rfd >= 0)
		qfd = pins_map(p, "rqs", sizeof(uint32_t));
	if (qfd < 0 || !ctl || !v || !on_cq || tele_open(p, &t))
		goto out;
	pins_users(p, pid);
	for (uint32_t i = 0; i < p->cfg.qps; i++)
		if (!bpf_map_lookup_elem(cfd, &i, &ctl[i]) && ctl[i].state != WEFT_QP_FREE)
			on_cq[ctl[i].cq % WEFT_CQS]++;
	for (uint32_t i = 0; i < p->cfg.qps; i++) {
		if (ctl[i].state == WEFT_QP_FREE)
			continue;
		v->p = p;
		v->ctl = ctl[i];
		if (bpf_map_lookup_elem_flags(tfd, &i, &v->tx, BPF_F_LOCK) ||
		    bpf_map_lookup_elem_flags(rfd, &i, &v->rx, BPF_F_LOCK))
			continue;
		/* what these hold until it is connected is of who had the slot before */
		if (!ctl[i].created) {
			memset(&v->tx, 0, sizeof(v->tx));
			memset(&v->rx, 0, sizeof(v->rx));
		}
		v->pid = ctl[i].owner < WEFT_PROCS ? pid[ctl[i].owner] : 0;
		v->cq_qps = on_cq[ctl[i].cq % WEFT_CQS];
		derive(v, &t.qp[i]);
		receives(v, qfd);
		one(v, arg);
	}
	rc = 0;
out:
	tele_close(&t);
	if (qfd >= 0)
		close(qfd);
	if (rfd >= 0)
		close(rfd);
	if (tfd >= 0)
		close(tfd);
	if (cfd >= 0)
		close(cfd);
	free(v);
	free(on_cq);
	free(ctl);
	return rc;
}
