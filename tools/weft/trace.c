// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft qp trace: the last events of a QP, and which QPs have failed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "qps.h"

/* A QP's events, from wherever they are kept. */
struct story {
	struct weft_tele_id id;
	struct weft_trace_rec rec[WEFT_TRACE_LEN];
	unsigned n;
	uint32_t last_ack; /* wire ticks; 0: none */
};

static double ms(uint64_t from, uint64_t to)
{
	return (double)(int64_t)(to - from) / 1e6;
}

/* Wire ticks wrap after 274 s: the last time before `ref` that looks like this. */
static uint64_t ack_ns(const struct story *s, uint64_t ref)
{
	uint32_t ago = (uint32_t)(ref >> WEFT_TS_SHIFT) - s->last_ack;

	return s->last_ack ? ref - ((uint64_t)ago << WEFT_TS_SHIFT) : 0;
}

static void story_of(const struct weft_tele *t, struct story *s)
{
	s->id = t->id;
	s->n = weft_trace_sorted(&t->trace, s->rec);
	s->last_ack = weft_tele_last_ack(t);
}

static void story_past(const struct weft_tele_past *p, struct story *s)
{
	s->id = p->id;
	s->n = weft_trace_sorted(&p->trace, s->rec);
	s->last_ack = p->last_ack;
}

/* All QPs that are known (s has room for WEFT_TELE_PAST + t->n), those of the past first, oldest first. Returns how many. */
static unsigned stories(const struct tele *t, struct story *s)
{
	uint32_t npast, from;
	unsigned n = 0;

	for (struct tele_read r = { 0 }; tele_read(t, &r);) {
		n = 0;
		npast = t->dev->npast;
		from = npast > WEFT_TELE_PAST ? npast - WEFT_TELE_PAST : 0;
		for (uint32_t i = from; i < npast; i++)
			story_past(&t->dev->past[i % WEFT_TELE_PAST], &s[n++]);
		for (unsigned i = 0; i < t->n; i++)
			if (t->qp[i].id.qpn)
				story_of(&t->qp[i], &s[n++]);
	}
	return n;
}

/* The record that says best why it failed: the failure itself, or how it ended. */
static const struct weft_trace_rec *reason(const struct story *s)
{
	const struct weft_trace_rec *r = NULL;

	for (unsigned i = 0; i < s->n; i++)
		if (s->rec[i].kind == WEFT_TRACE_failed ||
		    (s->rec[i].kind == WEFT_TRACE_died && !r))
			r = &s->rec[i];
	return r;
}

/* In words, without the "failed" that stands before it or is the name of the field. */
static const char *reason_text(const struct story *s, char *buf, size_t len)
{
	static const char failed[] = "failed: ";
	const struct weft_trace_rec *why = reason(s);

	if (!why)
		return NULL;
	weft_trace_text(why, buf, len);
	return strncmp(buf, failed, sizeof(failed) - 1) ? buf : buf + sizeof(failed) - 1;
}

static const char *state(const struct story *s)
{
	if (s->id.failed)
		return "failed";
	return s->id.ended ? "closed" : "alive";
}

static void addresses(const struct story *s, char local[INET6_ADDRSTRLEN],
		      char peer[INET6_ADDRSTRLEN])
{
	int af = s->id.flags & WEFT_QPF_V6 ? AF_INET6 : AF_INET;

	inet_ntop(af, s->id.saddr, local, INET6_ADDRSTRLEN);
	inet_ntop(af, s->id.daddr, peer, INET6_ADDRSTRLEN);
}

/* ---- one QP ---- */

static struct json_object *record_json(const struct story *s, const struct weft_trace_rec *r)
{
	struct json_object *o = json_object_new_object();
	char text[160];

	cli_add_f(o, "ms", ms(s->id.connected, r->t), 3);
	cli_add_str(o, "event", weft_trace_name(r->kind));
	cli_add_u64(o, "count", r->count);
	cli_add_f(o, "span_ms", r->span / 1e3, 3);
	if (r->kind == WEFT_TRACE_nak || r->kind == WEFT_TRACE_refused) {
		cli_add_u64(o, "code", r->a);
		cli_add_u64(o, "psn", r->b);
	} else if (r->kind == WEFT_TRACE_rto) {
		cli_add_u64(o, "backoff", r->x);
		cli_add_u64(o, "psn", r->a);
		cli_add_f(o, "age_ms", r->b / 1e3, 3);
		cli_add_u64(o, "unacknowledged", r->c);
	} else if (r->kind == WEFT_TRACE_retx) {
		cli_add_u64(o, "psn", r->a);
		cli_add_u64(o, "psn_last", r->b);
	} else if (r->kind == WEFT_TRACE_failed) {
		cli_add_str(o, "status", weft_wc_str(r->x & 0xff));
		cli_add_u64(o, "tx_err", r->x >> 8);
		cli_add_u64(o, "code", r->a);
		cli_add_u64(o, "msn", r->b);
		cli_add_u64(o, "idle_ms", r->c);
	}
	cli_add_str(o, "text", weft_trace_text(r, text, sizeof(text)));
	return o;
}

static void story_json(const char *dev, const struct story *s, struct json_object *out, bool events)
{
	struct json_object *o = json_object_new_object(), *list;
	char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN], text[160];
	uint64_t end = s->id.failed ? s->id.failed : weft_now_ns(), ack = ack_ns(s, end);

	addresses(s, local, peer);
	cli_add_str(o, "dev", dev);
	cli_add_u64(o, "qpn", s->id.qpn);
	cli_add_u64(o, "peer_qpn", s->id.dqpn);
	cli_add_str(o, "local", local);
	cli_add_str(o, "peer", peer);
	cli_add_u64(o, "pid", s->id.pid);
	cli_add_str(o, "state", state(s));
	cli_add_f(o, "connected_ago_s", ms(s->id.connected, weft_now_ns()) / 1e3, 3);
	if (s->id.failed)
		cli_add_f(o, "failed_ago_s", ms(s->id.failed, weft_now_ns()) / 1e3, 3);
	else
		json_object_object_add(o, "failed_ago_s", NULL);
	if (ack > s->id.connected)
		cli_add_f(o, "last_ack_ms", ms(s->id.connected, ack), 3);
	else
		json_object_object_add(o, "last_ack_ms", NULL);
	cli_add_str(o, "reason", reason_text(s, text, sizeof(text)));
	if (events) {
		list = json_object_new_array();
		for (unsigned i = 0; i < s->n; i++)
			json_object_array_add(list, record_json(s, &s->rec[i]));
		json_object_object_add(o, "events", list);
	}
	json_object_array_add(out, o);
}

static void headline(const char *dev, const struct story *s)
{
	char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];

	addresses(s, local, peer);
	printf("%s qpn 0x%08x %s -> %s pid %u, %s", dev, s->id.qpn, local, peer, s->id.pid,
	       state(s));
	if (s->id.failed || s->id.ended)
		printf(" %.1f s ago",
		       ms(s->id.failed ? s->id.failed : s->id.ended, weft_now_ns()) / 1e3);
}

static void story_text(const char *dev, const struct story *s)
{
	uint64_t end = s->id.failed ? s->id.failed : weft_now_ns(), ack = ack_ns(s, end);
	char text[160];

	headline(dev, s);
	putchar('\n');
	for (unsigned i = 0; i < s->n; i++) {
		const struct weft_trace_rec *r = &s->rec[i];

		/* between the events where it belongs; its clock is coarser than that of the first */
		if (ack > s->id.connected && ack <= r->t && r->kind != WEFT_TRACE_first_ack) {
			printf("%+14.1f ms last acknowledgement\n", ms(s->id.connected, ack));
			ack = 0;
		}
		printf("%+14.1f ms %s\n", ms(s->id.connected, r->t),
		       weft_trace_text(r, text, sizeof(text)));
	}
	if (ack > s->id.connected)
		printf("%+14.1f ms last acknowledgement\n", ms(s->id.connected, ack));
}

/* ---- the command ---- */

struct search {
	const char *dev;
	uint32_t qpn; /* 0: every one that failed */
	struct json_object *out;
	unsigned found;
};

static int by_end(const void *a, const void *b)
{
	const struct story *x = a, *y = b;

	return x->id.failed < y->id.failed ? -1 : x->id.failed > y->id.failed;
}

static void show(const struct story *s, struct search *q)
{
	const char *why;
	char text[160];

	if (q->qpn ? s->id.qpn != q->qpn : !s->id.failed)
		return;
	q->found++;
	if (q->out) {
		story_json(q->dev, s, q->out, q->qpn != 0);
	} else if (q->qpn) {
		story_text(q->dev, s);
	} else {
		why = reason_text(s, text, sizeof(text));
		headline(q->dev, s);
		printf(": %s\n", why ? why : "unknown");
	}
}

int qp_trace(int argc, char **argv)
{
	struct search q = { 0 };
	struct pinned *list;
	struct story *s;
	uint64_t qpn = 0;
	struct tele t;
	unsigned n;

	if (argc && !strcmp(argv[0], "dev")) {
		argc--;
		argv++;
	}
	if (argc < 1 || argc > 2)
		return cli_usage("qp", "trace wants DEV [ QPN ]");
	if (argc == 2 && !cli_u64(argv[1], 1, UINT32_MAX, &qpn))
		return cli_usage("qp", "QPN is a number as 'weft qp show' prints it, not \"%s\"",
				 argv[1]);
	if (pins_find(argv[0], &list) < 0)
		return CLI_FAIL;
	q.dev = list[0].ifname;
	q.qpn = qpn;
	q.out = cli.json ? json_object_new_array() : NULL;
	s = calloc(WEFT_TELE_PAST + list[0].cfg.qps, sizeof(*s));
	if (!s || tele_open(&list[0], &t)) {
		if (!s)
			cli_fail(argv[0], "no memory");
		free(s);
		free(list);
		json_object_put(q.out);
		return CLI_FAIL;
	}
	n = stories(&t, s);
	if (!q.qpn)
		qsort(s, n, sizeof(*s), by_end);
	for (unsigned i = 0; i < n; i++)
		show(&s[i], &q);
	tele_close(&t);
	free(s);
	free(list);
	if (q.qpn && !q.found) {
		json_object_put(q.out);
		return cli_fail(argv[0], "no trace of a QP 0x%08x; see 'weft qp trace %s'", q.qpn,
				argv[0]);
	}
	return q.out ? cli_print(q.out) : CLI_OK;
}
