// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft top's measurements: snapshots of all QPs, and what has changed from one to the next. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "top.h"

double seconds_between(const struct timespec *a, const struct timespec *b)
{
	return b->tv_sec - a->tv_sec + (b->tv_nsec - a->tv_nsec) / 1e9;
}

static void add_row(const struct qp_view *v, void *arg)
{
	struct screen *s = arg;
	struct row *r;

	if (s->n == s->room) {
		unsigned room = s->room ? 2 * s->room : 16;

		r = realloc(s->row, room * sizeof(*r));
		if (!r) {
			s->no_memory = true;
			return;
		}
		s->row = r;
		s->room = room;
	}
	r = &s->row[s->n++];
	memset(r, 0, sizeof(*r));
	memcpy(r->dev, s->reading->ifname, sizeof(r->dev));
	memcpy(r->peer, v->peer, sizeof(r->peer));
	r->ifindex = s->reading->cfg.ifindex;
	r->state = v->state;
	r->qpn = v->ctl.qpn;
	r->created = v->ctl.created;
	r->cwnd = v->tx.tx.cc.cwnd;
	r->inflight = v->tx.tx.inflight;
	r->tx_bytes = v->tx_bytes;
	r->rx_bytes = v->rx_bytes;
	r->msgs = v->tx_msgs;
	r->packets = weft_tx_packets(&v->tx.tx);
	r->retx = v->tx.tx.retransmits;
	r->rtt = v->rtt;
}

/* How much a counter has grown; a new QP has another, and may have less. */
static double growth(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* old is NULL for a QP that was not there before: since it was made, then. */
static void rates(struct row *r, const struct row *old, double seconds)
{
	static const struct row none;
	struct weft_hist h = r->rtt;
	double packets;

	if (!old)
		old = &none;
	packets = growth(old->packets, r->packets);
	if (packets > 0)
		r->retx_pct = growth(old->retx, r->retx) * 100 / packets;
	for (unsigned i = 0; i < WEFT_HIST_N; i++)
		h.n[i] = growth(old->rtt.n[i], h.n[i]);
	r->p50_us = weft_hist_quantile(&h, 500) / 1e3;
	r->p99_us = weft_hist_quantile(&h, 990) / 1e3;
	if (seconds <= 0)
		return;
	r->tx_gbps = growth(old->tx_bytes, r->tx_bytes) * 8 / 1e9 / seconds;
	r->rx_gbps = growth(old->rx_bytes, r->rx_bytes) * 8 / 1e9 / seconds;
	r->msg_rate = growth(old->msgs, r->msgs) / seconds;
}

static void compare(struct screen *s, const struct screen *old)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct row *o = NULL;

		for (unsigned k = 0; k < old->n && !o; k++)
			if (old->row[k].ifindex == s->row[i].ifindex &&
			    old->row[k].qpn == s->row[i].qpn &&
			    old->row[k].created == s->row[i].created)
				o = &old->row[k];
		rates(&s->row[i], o, s->seconds);
	}
	for (unsigned i = 0; i < s->ndev; i++) {
		for (unsigned k = 0; k < old->ndev; k++) {
			const uint64_t *a = (uint64_t *)&old->dev[k].stats.drop;
			const uint64_t *b = (uint64_t *)&s->dev[i].stats.drop;

			if (strcmp(old->dev[k].p.dir, s->dev[i].p.dir))
				continue;
			for (unsigned d = 0; d < WEFT_DROP_COUNT && s->seconds > 0; d++)
				s->dev[i].rate[d] = growth(a[d], b[d]) / s->seconds;
		}
	}
}

void top_forget(struct screen *s)
{
	free(s->row);
	free(s->dev);
	memset(s, 0, sizeof(*s));
}

int top_look(const char *dev, struct screen *old)
{
	struct screen s = { 0 };
	struct pinned *list;
	int n = pins_find(dev, &list);

	if (n < 0)
		return -1;
	if (dev && !list[0].ifindex) {
		free(list);
		cli_fail(dev, "the interface is gone; see 'ip link'");
		return -1;
	}
	s.only = dev;
	clock_gettime(CLOCK_MONOTONIC, &s.at);
	if (old->at.tv_sec)
		s.seconds = seconds_between(&old->at, &s.at);
	s.dev = calloc(n ? n : 1, sizeof(*s.dev));
	for (int i = 0; i < n && s.dev; i++) {
		s.reading = &list[i];
		/* one that goes away meanwhile is left out */
		s.dev[s.ndev].p = list[i];
		if (!stats_sum(&list[i], &s.dev[s.ndev].stats) && !qps_each(&list[i], add_row, &s))
			s.ndev++;
	}
	free(list);
	if (!s.dev || s.no_memory) {
		top_forget(&s);
		cli_fail("top", "no memory for its QPs");
		return -1;
	}
	compare(&s, old);
	top_forget(old);
	*old = s;
	return 0;
}

static enum order order; /* qsort() hands nothing on */

static int by_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double d = 0;

	switch (order) {
	case BY_RATE: d = y->tx_gbps + y->rx_gbps - x->tx_gbps - x->rx_gbps; break;
	case BY_MSGS: d = y->msg_rate - x->msg_rate; break;
	case BY_RETX: d = y->retx_pct - x->retx_pct; break;
	case BY_RTT: d = y->p99_us - x->p99_us; break;
	default: break;
	}
	if (d < 0 || d > 0)
		return d < 0 ? -1 : 1;
	if (x->ifindex != y->ifindex)
		return x->ifindex < y->ifindex ? -1 : 1;
	return x->qpn < y->qpn ? -1 : x->qpn > y->qpn;
}

void top_sort(struct screen *s, enum order by)
{
	order = by;
	qsort(s->row, s->n, sizeof(*s->row), by_order);
}
