// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Everything countable of devices and QPs, in the text format of Prometheus. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

/* A label's value, with what the format wants escaped. */
static void label(FILE *f, const char *name, const char *value, bool first)
{
	fprintf(f, "%c%s=\"", first ? '{' : ',', name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', f);
		if (*value == '\n')
			fputs("\\n", f);
		else
			fputc(*value, f);
	}
	fputc('"', f);
}

static void head(FILE *f, const char *name, const char *type, const char *text)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, text, name, type);
}

/* What is read of every device and QP before anything is written: a metric's lines stay together. */
struct dev_sample {
	struct pinned p;
	struct weft_stats stats;
	struct weft_hist rtt, lat;
};

struct qp_sample {
	const char *dev;
	char qpn[12], local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
	uint64_t v[16]; /* by qp_metrics */
	double srtt, rto;
	struct weft_hist rtt, lat;
};

struct samples {
	struct dev_sample *dev;
	struct qp_sample *qp;
	unsigned ndev, nqp, room;
	const char *now; /* device whose QPs are read */
	bool failed;
};

/* name, type, help, value of a struct qp_view *v */
#define QP_METRICS(X)                                                                          \
	X(connected, "gauge", "1 while the QP is connected and works",                         \
	  v->ctl.state == WEFT_QP_RTS)                                                         \
	X(tx_bytes_total, "counter", "Bytes of own WRITEs delivered", v->tx_bytes)             \
	X(rx_bytes_total, "counter", "Payload bytes of the peer placed", v->rx_bytes)          \
	X(tx_messages_total, "counter", "Own WRITEs delivered", v->tx_msgs)                    \
	X(rx_messages_total, "counter", "Messages of the peer wholly arrived, modulo 2^32",    \
	  v->rx.rx.msn)                                                                        \
	X(tx_packets_total, "counter", "DATA packets sent, repeated ones included",            \
	  weft_tx_packets(&v->tx.tx))                                                          \
	X(retransmits_total, "counter", "DATA packets sent again", v->tx.tx.retransmits)       \
	X(spurious_total, "counter", "Packets held for lost that were not", v->tx.tx.spurious) \
	X(timeouts_total, "counter", "Retransmission time-outs", v->tx.tx.timeouts)            \
	X(ecn_marks_total, "counter", "ECN marks echoed by the peer", v->tx.tx.ce)             \
	X(cwnd_packets, "gauge", "Congestion window", v->tx.tx.cc.cwnd)                        \
	X(inflight_packets, "gauge", "Packets out and not acknowledged", v->tx.tx.inflight)    \
	X(recvs_posted, "gauge", "Receives posted that no message has taken", v->rq_left)      \
	X(rnr_waiting, "gauge", "1 while the QP waits for a receive of the peer", v->tx.tx.rnr)

enum qp_metric {
#define X(name, ...) QP_##name,
	QP_METRICS(X)
#undef X
		QP_METRIC_COUNT,
};
_Static_assert(QP_METRIC_COUNT <= 16, "room in struct qp_sample");

static void sample_qp(const struct qp_view *v, void *arg)
{
	struct samples *s = arg;
	struct qp_sample *q;

	/* one that never was connected has nothing to tell */
	if (!v->ctl.created)
		return;
	if (s->nqp == s->room) {
		unsigned room = s->room ? 2 * s->room : 16;

		q = realloc(s->qp, room * sizeof(*q));
		if (!q) {
			s->failed = true;
			return;
		}
		s->qp = q;
		s->room = room;
	}
	q = &s->qp[s->nqp++];
	q->dev = s->now;
	snprintf(q->qpn, sizeof(q->qpn), "0x%08x", v->ctl.qpn);
	memcpy(q->local, v->local, sizeof(q->local));
	memcpy(q->peer, v->peer, sizeof(q->peer));
#define X(name, type, text, value) q->v[QP_##name] = value;
	QP_METRICS(X)
#undef X
	q->srtt = v->srtt_us / 1e6;
	q->rto = v->rto_us / 1e6;
	q->rtt = v->rtt;
	q->lat = v->lat;
}

/* A device that goes away meanwhile is left out. */
static int sample_all(const char *dev, struct samples *s)
{
	struct pinned *list;
	int n = pins_find(dev, &list);

	memset(s, 0, sizeof(*s));
	if (n < 0)
		return -1;
	s->dev = calloc(n ? n : 1, sizeof(*s->dev));
	s->failed = !s->dev;
	for (int i = 0; i < n && s->dev; i++) {
		struct dev_sample *d = &s->dev[s->ndev];
		struct tele t;

		d->p = list[i];
		s->now = d->p.ifname;
		if (stats_sum(&d->p, &d->stats) || tele_open(&d->p, &t))
			continue;
		tele_device(&t, &d->rtt, &d->lat);
		tele_close(&t);
		if (!qps_each(&d->p, sample_qp, s))
			s->ndev++;
	}
	free(list);
	return s->failed ? -1 : 0;
}

static void put_counters(FILE *f, const struct samples *s)
{
	char name[64];

	head(f, "weft_drops_total", "counter", "Packets that were not accepted");
	for (unsigned i = 0; i < s->ndev; i++) {
		for (unsigned k = 0; k < WEFT_DROP_COUNT; k++) {
			fputs("weft_drops_total", f);
			label(f, "dev", s->dev[i].p.ifname, true);
			label(f, "reason", stats_drops[k].name, false);
			fprintf(f, "} %llu\n",
				(unsigned long long)((uint64_t *)&s->dev[i].stats.drop)[k]);
		}
	}
	for (unsigned k = 0; k < WEFT_COUNT_COUNT; k++) {
		snprintf(name, sizeof(name), "weft_%s_total", stats_counts[k].name);
		head(f, name, "counter", stats_counts[k].text);
		for (unsigned i = 0; i < s->ndev; i++) {
			fputs(name, f);
			label(f, "dev", s->dev[i].p.ifname, true);
			fprintf(f, "} %llu\n",
				(unsigned long long)((uint64_t *)&s->dev[i].stats.count)[k]);
		}
	}
}

static void qp_labels(FILE *f, const struct qp_sample *q)
{
	label(f, "dev", q->dev, true);
	label(f, "qpn", q->qpn, false);
	label(f, "local", q->local, false);
	label(f, "peer", q->peer, false);
}

/* The sum is not counted but reckoned from the middles of the buckets. */
static double sum_seconds(const struct weft_hist *h)
{
	double sum = 0;

	for (unsigned i = 0; i < WEFT_HIST_N; i++)
		sum += (double)h->n[i] * weft_hist_ns(i) / 1e9;
	return sum;
}

/* Bounds are powers of two of a wire tick, from 1.024 us to 4.3 s: there the buckets end exactly. */
static void put_histogram(FILE *f, const struct samples *s, const char *name, const char *text,
			  size_t field)
{
	head(f, name, "histogram", text);
	for (unsigned i = 0; i < s->ndev; i++) {
		const struct weft_hist *h = (const void *)((const char *)&s->dev[i] + field);
		const char *dev = s->dev[i].p.ifname;
		uint64_t seen = 0;
		unsigned at = 0;

		for (unsigned bit = 4; bit < 26; bit++) {
			for (; weft_hist_from(at) < 1ull << bit; at++)
				seen += h->n[at];
			fprintf(f, "%s_bucket", name);
			label(f, "dev", dev, true);
			fprintf(f, ",le=\"%.9g\"} %llu\n", (1ull << bit << WEFT_TS_SHIFT) / 1e9,
				(unsigned long long)seen);
		}
		fprintf(f, "%s_bucket", name);
		label(f, "dev", dev, true);
		fprintf(f, ",le=\"+Inf\"} %llu\n%s_sum", (unsigned long long)weft_hist_count(h),
			name);
		label(f, "dev", dev, true);
		fprintf(f, "} %.9g\n%s_count", sum_seconds(h), name);
		label(f, "dev", dev, true);
		fprintf(f, "} %llu\n", (unsigned long long)weft_hist_count(h));
	}
}

static void put_summary(FILE *f, const struct samples *s, const char *name, const char *text,
			size_t field)
{
	static const unsigned permille[] = { 500, 990, 999 };

	head(f, name, "summary", text);
	for (unsigned i = 0; i < s->nqp; i++) {
		const struct weft_hist *h = (const void *)((const char *)&s->qp[i] + field);

		for (unsigned k = 0; k < 3; k++) {
			fputs(name, f);
			qp_labels(f, &s->qp[i]);
			fprintf(f, ",quantile=\"%.9g\"} ", permille[k] / 1e3);
			if (weft_hist_count(h))
				fprintf(f, "%.9g\n", weft_hist_quantile(h, permille[k]) / 1e9);
			else
				fputs("NaN\n", f);
		}
		fprintf(f, "%s_sum", name);
		qp_labels(f, &s->qp[i]);
		fprintf(f, "} %.9g\n%s_count", sum_seconds(h), name);
		qp_labels(f, &s->qp[i]);
		fprintf(f, "} %llu\n", (unsigned long long)weft_hist_count(h));
	}
}

static void put_qps(FILE *f, const struct samples *s)
{
	static const struct {
		const char *name, *type, *text;
	} m[] = {
#define X(name, type, text, value) { "weft_qp_" #name, type, text },
		QP_METRICS(X)
#undef X
	};

	for (unsigned k = 0; k < QP_METRIC_COUNT; k++) {
		head(f, m[k].name, m[k].type, m[k].text);
		for (unsigned i = 0; i < s->nqp; i++) {
			fputs(m[k].name, f);
			qp_labels(f, &s->qp[i]);
			fprintf(f, "} %llu\n", (unsigned long long)s->qp[i].v[k]);
		}
	}
	head(f, "weft_qp_srtt_seconds", "gauge", "Smoothed round trip");
	for (unsigned i = 0; i < s->nqp; i++) {
		fputs("weft_qp_srtt_seconds", f);
		qp_labels(f, &s->qp[i]);
		fprintf(f, "} %.9g\n", s->qp[i].srtt);
	}
	head(f, "weft_qp_rto_seconds", "gauge", "Retransmission time-out with its back-off");
	for (unsigned i = 0; i < s->nqp; i++) {
		fputs("weft_qp_rto_seconds", f);
		qp_labels(f, &s->qp[i]);
		fprintf(f, "} %.9g\n", s->qp[i].rto);
	}
	put_summary(f, s, "weft_qp_rtt_seconds", "Round trips of the QP since it was connected",
		    offsetof(struct qp_sample, rtt));
	put_summary(f, s, "weft_qp_write_seconds",
		    "From posting a WRITE to its completion, since the QP was connected",
		    offsetof(struct qp_sample, lat));
}

char *metrics_text(const char *dev, size_t *len)
{
	char *text = NULL;
	struct samples s;
	int rc = sample_all(dev, &s);
	FILE *f = rc ? NULL : open_memstream(&text, len);

	if (f) {
		head(f, "weft_build_info", "gauge", "1, with the version as labels");
		fputs("weft_build_info", f);
		label(f, "version", WEFT_VERSION, true);
		fprintf(f, ",abi=\"%d\",wire=\"%d\"} 1\n", WEFT_ABI, WEFT_WIRE_VER);
		head(f, "weft_devices", "gauge", "Interfaces that weft is on");
		fprintf(f, "weft_devices %u\n", s.ndev);
		put_counters(f, &s);
		put_histogram(f, &s, "weft_rtt_seconds", "Round trips of all QPs",
			      offsetof(struct dev_sample, rtt));
		put_histogram(f, &s, "weft_write_seconds",
			      "From posting a WRITE to its completion, all QPs",
			      offsetof(struct dev_sample, lat));
		put_qps(f, &s);
		if (fclose(f)) {
			free(text);
			text = NULL;
		}
	}
	free(s.dev);
	free(s.qp);
	return text;
}
