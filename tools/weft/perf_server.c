// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf server: accepts runs and serves each with a thread of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf_server.h"

static const char help[] =
	"usage: weft perf server [ -p PORT ] [ --qps N ] DEV [ -j ]\n"
	"\n"
	"Offer memory for 'weft perf write', 'read', 'send' and 'atomic', on all addresses of DEV, to any number of clients,\n"
	"until SIGINT or SIGTERM.\n"
	"\n"
	"  -p, --port PORT  TCP port where connections are made (7471)\n"
	"  --qps N          QPs of all clients together, 1 to 1023 (as many as DEV holds, which is 256 unless\n"
	"                   it was brought up for others)\n"
	"  -j, --json       one JSON object a line for every event\n";

#define CMD "perf server"

static void new_session(struct server *srv, struct weft_qp *qp, const struct perf_hello *h,
			unsigned slot, struct session **all, unsigned *n)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s) {
		weft_qp_close(qp);
		return;
	}
	s->srv = srv;
	s->run = h->run;
	s->slot = slot;
	s->ctl = qp;
	s->peer = *h;
	pthread_mutex_lock(&srv->lock);
	srv->used |= 1ull << slot;
	LIST_INSERT_HEAD(&srv->sessions, s, link);
	pthread_mutex_unlock(&srv->lock);
	if (pthread_create(&s->thread, NULL, session_serve, s)) {
		pthread_mutex_lock(&srv->lock);
		LIST_REMOVE(s, link);
		srv->used &= ~(1ull << slot);
		pthread_mutex_unlock(&srv->lock);
		weft_qp_close(qp);
		free(s);
		return;
	}
	all[(*n)++] = s;
}

static bool join_session(struct server *srv, struct weft_qp *qp, const struct perf_hello *h)
{
	struct session *s = NULL;
	bool ok = false;

	pthread_mutex_lock(&srv->lock);
	LIST_FOREACH(s, &srv->sessions, link) {
		if (s->run != h->run || s->qps == WEFT_PROC_MAX)
			continue;
		if (s->start.flags & PERF_F_SEND && receiver_start(s, qp, h->index))
			break;
		s->qp[s->qps++] = qp;
		ok = true;
		break;
	}
	pthread_cond_broadcast(&srv->news);
	pthread_mutex_unlock(&srv->lock);
	return ok;
}

/*
 * Before it is answered: what a data QP is for. A CQ or a receive queue of its own costs memory and
 * grace periods, thus not for those on which nothing is done here.
 */
static void choose(void *arg, const void *priv, size_t len, struct weft_qp_opts *o)
{
	struct server *srv = arg;
	uint32_t flags = 0;
	struct perf_hello h;
	struct session *s;

	if (len != sizeof(h))
		return;
	memcpy(&h, priv, sizeof(h));
	if (h.kind != PERF_DATA)
		return;
	pthread_mutex_lock(&srv->lock);
	LIST_FOREACH(s, &srv->sessions, link)
		if (s->run == h.run)
			flags = s->start.flags;
	pthread_mutex_unlock(&srv->lock);
	if (flags & PERF_F_SEND)
		o->recvs = PERF_RECVS;
	else if (!(flags & PERF_F_LAT))
		o->cq = srv->cq;
}

static void accept_one(struct server *srv, struct session **all, unsigned *n)
{
	struct perf_hello h = { .magic = PERF_MAGIC,
				.version = PERF_VERSION,
				.key = weft_mr_key(srv->ctl_mr),
				.off = UINT64_MAX };
	struct weft_qp_opts o = {
		.size = sizeof(o),
		.priv = &h,
		.priv_len = sizeof(h),
		.connect_ms = 2000,
	};
	unsigned slot = PERF_SESSIONS;
	struct weft_qp *qp;
	const void *priv;
	uint64_t used;
	size_t len;
	int rc;

	pthread_mutex_lock(&srv->lock);
	used = srv->used;
	pthread_mutex_unlock(&srv->lock);
	if (~used && *n < PERF_SESSIONS) {
		slot = __builtin_ctzll(~used);
		h.off = (uint64_t)slot * PERF_SLOT;
	}
	rc = weft_accept(srv->l, &o, &qp);
	if (rc == -ETIMEDOUT || rc == -EINTR) /* whoever came was no client */
		return;
	if (rc) {
		cli_lib_fail(srv->dev, rc);
		if (rc == -ENODEV) { /* gone or taken down: the listener was readable for that */
			srv->gone = true;
			perf_stop = 1;
			return;
		}
		usleep(10000); /* a lasting error must not take a whole core */
		return;
	}
	priv = weft_qp_private(qp, &len);
	if (len == sizeof(h))
		memcpy(&h, priv, sizeof(h));
	if (len != sizeof(h) || h.magic != PERF_MAGIC || h.version != PERF_VERSION)
		cli_fail(srv->dev, "a client of another version; use weft %s there", WEFT_VERSION);
	else if (h.kind == PERF_CTL && slot < PERF_SESSIONS)
		return new_session(srv, qp, &h, slot, all, n);
	else if (h.kind == PERF_DATA && join_session(srv, qp, &h))
		return;
	weft_qp_close(qp);
}

/* Wait for the threads that have ended, or for all. */
static void join_threads(struct session **all, unsigned *n, struct server *srv, bool every)
{
	for (unsigned i = 0; i < *n;) {
		bool done;

		pthread_mutex_lock(&srv->lock);
		done = all[i]->done;
		pthread_mutex_unlock(&srv->lock);
		if (!done && !every) {
			i++;
			continue;
		}
		pthread_join(all[i]->thread, NULL);
		free(all[i]);
		all[i] = all[--*n];
	}
}

static int loop(struct server *srv, const sigset_t *before)
{
	struct session *all[PERF_SESSIONS];
	unsigned n = 0;

	while (!perf_stop) {
		struct pollfd pfd = { .fd = weft_listener_fd(srv->l), .events = POLLIN };
		struct timespec ts = { .tv_sec = 1 };

		if (ppoll(&pfd, 1, &ts, before) > 0)
			accept_one(srv, all, &n);
		join_threads(all, &n, srv, false);
	}
	join_threads(all, &n, srv, true);
	return srv->gone ? CLI_FAIL : CLI_OK;
}

static int run(struct server *srv, unsigned port, unsigned qps)
{
	char dev[CLI_QUOTED(IF_NAMESIZE)];
	size_t len = PERF_SESSIONS * PERF_SLOT;
	struct weft_open_opts o = { .size = sizeof(o), .qps = qps ? qps + 1 : WEFT_QPS_ALL };
	sigset_t block, before;
	char addr[16];
	void *mem = NULL;
	int rc;

	/* signals arrive only in ppoll(): none is missed, and no other thread takes them */
	sigemptyset(&block);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &block, &before);
	rc = weft_open(srv->dev, &o, &srv->wd);
	if (rc)
		return cli_lib_fail(srv->dev, rc);
	rc = weft_cq_create(srv->wd, &srv->cq) ?: weft_alloc(srv->wd, len, &mem);
	if (!rc)
		srv->ctl = mem;
	if (!rc)
		rc = weft_mr_reg(srv->wd, NULL, mem, len, WEFT_LOCAL | WEFT_REMOTE_WRITE,
				 &srv->ctl_mr);
	snprintf(addr, sizeof(addr), ":%u", port);
	if (!rc)
		rc = weft_listen(srv->wd, addr, &srv->l);
	if (rc) {
		rc = cli_lib_fail(srv->dev, rc);
	} else {
		if (cli.json)
			printf("{\"event\":\"ready\",\"dev\":%s,\"port\":%u}\n",
			       cli_quoted(srv->dev, dev, sizeof(dev)), port);
		else
			printf("ready: %s port %u\n", srv->dev, port);
		fflush(stdout);
		weft_listener_choose(srv->l, choose, srv);
		rc = loop(srv, &before);
		weft_listener_close(srv->l);
	}
	weft_close(srv->wd);
	return rc;
}

int perf_server(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "port", required_argument, NULL, 'p' }, { "qps", required_argument, NULL, 'q' },
		{ "json", no_argument, NULL, 'j' },       { "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
	};
	struct server srv = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };
	uint64_t port = PERF_PORT, qps = 0;
	int c, rc;

	LIST_INIT(&srv.sessions);
	optind = 0;
	while ((c = getopt_long(argc, argv, ":p:jvh", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			if (!cli_u64(optarg, 1, 65535, &port))
				return cli_usage(CMD, "--port is 1 to 65535, not \"%s\"", optarg);
			break;
		case 'q':
			if (!cli_u64(optarg, 1, WEFT_PROC_MAX - 1, &qps))
				return cli_usage(CMD, "--qps is 1 to %d, not \"%s\"",
						 WEFT_PROC_MAX - 1, optarg);
			break;
		default:
			rc = cli_option(CMD, c, argv, help);
			if (rc >= 0)
				return rc;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc == 1 && !strcmp(argv[0], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	rc = cli_dev_arg(CMD, argc, argv, true, &srv.dev);
	if (rc >= 0)
		return rc;
	perf_signals();
	perf_files();
	return run(&srv, port, qps);
}
