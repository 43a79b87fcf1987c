// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf, the client: what came out, for people and as JSON. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf.h"

void perf_gather(struct perf_run *r)
{
	const struct weft_qpctl *ctl;

	for (unsigned i = 0; i < r->lanes; i++) {
		struct weft_qp_stats st = { .size = sizeof(st) };

		if (weft_qp_stats(r->lane[i].qp, &st))
			continue;
		r->packets += st.packets;
		r->retransmits += st.retransmits;
		r->rnrs += __atomic_load_n(&r->lane[i].qp->ring->tx_rnrs, __ATOMIC_RELAXED);
		r->cwnd_used = st.cwnd;
	}
	r->payload = weft_qp_payload(r->lane[0].qp);
	ctl = &r->lane[0].qp->dev->maps.ctl[WEFT_QPN_SLOT(weft_qp_num(r->lane[0].qp))];
	r->csum = ctl->flags & WEFT_QPF_CSUM;
	r->evs_used = ctl->nev;
}

/* What a time is divided by: one way of a ping-pong, the whole of a READ or atomic; in us. */
static double trip(const struct perf_run *r)
{
	return perf_pulls(r) ? 1e3 : 2e3;
}

static double rate(const struct perf_run *r, double n)
{
	return r->seconds > 0 ? n / r->seconds : 0;
}

static int print_json(const struct perf_run *r)
{
	struct json_object *o = json_object_new_object(), *lat = NULL;
	double bytes = (double)r->messages * r->size;

	cli_add_str(o, "transport", "weft");
	cli_add_str(o, "op", perf_verb(r, false));
	cli_add_str(o, "dev", r->dev);
	cli_add_str(o, "peer", r->peer);
	cli_add_u64(o, "size", r->size);
	cli_add_u64(o, "qps", r->qps);
	cli_add_u64(o, "evs", r->evs_used);
	cli_add_u64(o, "depth", r->depth);
	cli_add_u64(o, "cq_mod", r->cq_mod);
	cli_add_u64(o, "cwnd", r->cwnd_used);
	cli_add_u64(o, "payload", r->payload);
	cli_add_bool(o, "csum", r->csum);
	cli_add_bool(o, "strict", r->strict);
	cli_add_f(o, "seconds", r->seconds, 6);
	cli_add_u64(o, "messages", r->messages);
	cli_add_u64(o, "bytes", r->messages * r->size);
	cli_add_f(o, "goodput_gbps", rate(r, bytes) * 8 / 1e9, 6);
	cli_add_f(o, "msg_rate", rate(r, r->messages), 1);
	cli_add_f(o, "cpu_s", r->cpu_s, 6);
	if (r->lat && r->hist->n) {
		lat = json_object_new_object();
		cli_add_f(lat, "min", r->hist->min / trip(r), 3);
		cli_add_f(lat, "p50", perf_hist_at(r->hist, 0.5) / trip(r), 3);
		cli_add_f(lat, "p99", perf_hist_at(r->hist, 0.99) / trip(r), 3);
		cli_add_f(lat, "p999", perf_hist_at(r->hist, 0.999) / trip(r), 3);
		cli_add_f(lat, "max", r->hist->max / trip(r), 3);
	}
	json_object_object_add(o, "lat_us", lat);
	cli_add_u64(o, "sleeps", r->sleeps);
	cli_add_u64(o, "spins", r->spins);
	cli_add_u64(o, "packets", r->packets);
	cli_add_u64(o, "retransmits", r->retransmits);
	cli_add_u64(o, "rnrs", r->rnrs);
	json_object_object_add(o, "verified",
			       r->verified < 0 ? NULL : json_object_new_boolean(r->verified));
	cli_add_u64(o, "errors", r->errors);
	return cli_print(o);
}

static int print_text(const struct perf_run *r)
{
	double bytes = (double)r->messages * r->size;
	/* with others bytes are not what it is about */
	bool bulk = !r->lat && r->op != WEFT_WR_FETCH_ADD;
	char size[32], region[32];

	printf("weft %s %s -> %s: %s messages, %u QP%s%s, depth %u, %u entropy value%s, cwnd %u, "
	       "payload %u B\n",
	       perf_verb(r, false), r->dev, r->peer, cli_bytes(r->size, size), r->qps,
	       r->qps == 1 ? "" : "s", r->strict ? ", strict order" : "", r->depth, r->evs_used,
	       r->evs_used == 1 ? "" : "s", r->cwnd_used, r->payload);
	printf("  messages     %llu in %.3f s, %.0f/s\n", (unsigned long long)r->messages,
	       r->seconds, rate(r, r->messages));
	if (bulk)
		printf("  goodput      %.2f Gb/s (%.3f GB/s)\n", rate(r, bytes) * 8 / 1e9,
		       rate(r, bytes) / 1e9);
	if (r->lat && r->hist->n)
		printf("  %s      min %.2f  p50 %.2f  p99 %.2f  p99.9 %.2f  max %.2f us\n",
		       perf_pulls(r) ? "latency" : "one way", r->hist->min / trip(r),
		       perf_hist_at(r->hist, 0.5) / trip(r), perf_hist_at(r->hist, 0.99) / trip(r),
		       perf_hist_at(r->hist, 0.999) / trip(r), r->hist->max / trip(r));
	printf("  process cpu  %.3f s", r->cpu_s);
	if (bulk && bytes > 0)
		printf(", %.4f s a GB", r->cpu_s / (bytes / 1e9));
	printf("\n  packets      %llu, %llu of them sent again\n", (unsigned long long)r->packets,
	       (unsigned long long)r->retransmits);
	if (r->rnrs)
		printf("  refused      %llu packets: the server had no receive for them yet (RNR)\n",
		       (unsigned long long)r->rnrs);
	if (r->verified >= 0)
		printf("  verified     %s (%s of memory)\n", r->verified ? "yes" : "NO",
		       cli_bytes(r->region, region));
	if (r->errors)
		printf("  errors       %llu\n", (unsigned long long)r->errors);
	return CLI_OK;
}

int perf_report(const struct perf_run *r)
{
	return cli.json ? print_json(r) : print_text(r);
}
