// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Every call of the library fails once, over open, alloc, listen, connect, accept, write and
 * close; and every table is full once. inject NETNS-A DEV-A NETNS-B DEV-B HOST-B [SCENARIO [K]]
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"

#define CALLS    400   /* more than any scenario makes */
#define PATIENCE 30000 /* ms; what takes longer is not late but lost */

struct inject s;
static int tests, failed;

void result(bool ok, const char *fmt, ...)
{
	va_list ap;

	failed += !ok;
	printf("%sok %d - inject: ", ok ? "" : "not ", ++tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

void need(int err, const char *what)
{
	if (!err)
		return;
	printf("not ok %d - inject: %s: %s (%s)\n1..%d\n", tests + 1, what, strerror(-err),
	       weft_strerror_last(), tests + 1);
	exit(1);
}

static int open_dev(int i, struct weft_dev **d)
{
	return weft_open(s.ifname[i], WEFT_OPTS(struct weft_open_opts, .netns = s.ns[i]), d);
}

/* ---- the other side ---- */

/* Accepts, and holds each connection until its peer goes. */
static void *serve(void *arg)
{
	struct weft_qp *qp[64], *next;
	unsigned n = 0;

	(void)arg;
	while (!s.stop) {
		if (n < 64 &&
		    !weft_accept(s.l, WEFT_OPTS(struct weft_qp_opts, .connect_ms = 20), &next))
			qp[n++] = next;
		for (unsigned i = 0; i < n; i++)
			if (weft_qp_status(qp[i])) {
				weft_qp_close(qp[i]);
				qp[i--] = qp[--n];
			}
	}
	while (n)
		weft_qp_close(qp[--n]);
	return NULL;
}

static int connect_b(int port, uint32_t ms, struct weft_qp **qp)
{
	char addr[80];

	snprintf(addr, sizeof(addr), "%s:%d", s.host, port);
	return weft_connect(s.dev[0], addr, WEFT_OPTS(struct weft_qp_opts, .connect_ms = ms), qp);
}

/* Somebody who wants to be accepted, when asked to: the scenario's listener is on port 7801. */
static void *come(void *arg)
{
	struct weft_qp *qp;

	(void)arg;
	while (!s.no_more) {
		usleep(500);
		if (!s.want || connect_b(7801, 300, &qp))
			continue;
		while (s.want && !weft_qp_status(qp))
			usleep(500);
		weft_qp_close(qp);
	}
	return NULL;
}

/* ---- scenarios: 0 or -errno, and taking back what was made ---- */

int do_open(void)
{
	return open_dev(0, &s.d);
}

void undo_open(void)
{
	weft_close(s.d);
}

int do_alloc(void)
{
	int err = weft_alloc(s.dev[0], 2 * WEFT_CHUNK, &s.own_mem);

	if (err)
		return err;
	err = weft_pd_alloc(s.dev[0], &s.pd);
	if (!err)
		err = weft_mr_reg(s.dev[0], s.pd, s.own_mem, MEM, WEFT_LOCAL, &s.own_mr);
	if (err && s.pd)
		weft_pd_free(s.pd);
	if (err)
		weft_free(s.dev[0], s.own_mem);
	s.pd = err ? NULL : s.pd;
	return err;
}

void undo_alloc(void)
{
	weft_mr_dereg(s.own_mr);
	weft_free(s.dev[0], s.own_mem);
	weft_pd_free(s.pd);
	s.pd = NULL;
}

int do_cq(void)
{
	return weft_cq_create(s.dev[0], &s.cq);
}

void undo_cq(void)
{
	weft_cq_destroy(s.cq);
}

static int do_listen(void)
{
	return weft_listen(s.dev[1], ":7802", &s.own_l);
}

static void undo_listen(void)
{
	weft_listener_close(s.own_l);
}

int do_connect(void)
{
	return connect_b(7800, 8000, &s.qp);
}

void undo_qp(void)
{
	weft_qp_close(s.qp);
}

static int do_accept(void)
{
	int err;

	s.want = true;
	err = weft_accept(s.own_l, WEFT_OPTS(struct weft_qp_opts, .connect_ms = 20000), &s.qp);
	s.want = false;
	return err;
}

/* Whatever fails meanwhile: it completes, by the timer if need be. */
static int do_write(void)
{
	struct weft_write w = { .mr = s.mr[0], .len = MEM, .rkey = weft_mr_key(s.mr[1]) };
	struct weft_wc wc = { .status = WEFT_WC_GENERAL_ERR };
	struct weft_cq *cq = weft_qp_cq(s.qp);
	int err = weft_post_write(s.qp, &w);

	if (err)
		return err;
	for (int i = 0; i < 1000 && !weft_cq_poll(cq, &wc, 1); i++)
		weft_cq_wait(cq, WEFT_ARM_TX, 20);
	if (wc.status)
		return -EIO;
	return memcmp(s.mem[0], s.mem[1], MEM) ? -EBADMSG : 0;
}

static void undo_write(void)
{
	memset(s.mem[1], 0, MEM);
}

/* Many packets out at once, and none comes back: what they hold of the books must come off them. */
static void many_out(void)
{
	struct weft_write w = { .mr = s.mr[0], .len = MEM, .rkey = weft_mr_key(s.mr[1]) };
	struct weft_qpctl *ctl = s.dev[1]->maps.ctl;

	for (int i = 0; i < (int)s.dev[1]->maps.qps; i++)
		if (ctl[i].state == WEFT_QP_RTS)
			ctl[i].state = WEFT_QP_INIT;
	for (int i = 0; i < 4; i++)
		weft_post_write(s.qp, &w);
}

static const struct scenario {
	const char *name;
	int (*run)(void);
	void (*undo)(void);
	bool all_must_work; /* a failing call is made up for */
} scenarios[] = {
	{ "open", do_open, undo_open, false },     { "alloc", do_alloc, undo_alloc, false },
	{ "cq", do_cq, undo_cq, false },           { "listen", do_listen, undo_listen, false },
	{ "connect", do_connect, undo_qp, false }, { "accept", do_accept, undo_qp, false },
	{ "write", do_write, undo_write, true },   { "adopt", do_adopt, undo_adopt, false },
	{ "give", do_give, undo_give, true },      { "stage", do_stage, undo_stage, false },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* One call fails: is the error clean, and nothing left? True while there are more calls. */
static bool one(const struct scenario *sc, unsigned k, const struct held *before)
{
	struct held after;
	const char *name;
	int err;

	inject_arm(k);
	err = sc->run();
	inject_end(&name);
	if (!err)
		sc->undo();
	if (!name) {
		if (err)
			result(false, "%s: without a failure: %s (%s)", sc->name, strerror(-err),
			       weft_strerror_last());
		return false;
	}
	if (err > 0 || err < -4095 || (sc->all_must_work && err))
		result(false, "%s, call %u (%s): returns %d", sc->name, k, name, err);
	/* who was not accepted then waits in the listener until the next call */
	if (sc->run == do_accept) {
		need(do_accept(), "the next accept");
		sc->undo();
	}
	if (!same(before, &after))
		result(false,
		       "%s, call %u (%s) left: fds %+d, mappings %+d, pins %+d, QPs %+d, MRs %+d, "
		       "pools %+d, CQs %+d, blocks %+ld",
		       sc->name, k, name, (int)(after.fds - before->fds),
		       (int)(after.maps - before->maps), (int)(after.pins - before->pins),
		       (int)(after.qps - before->qps), (int)(after.mrs - before->mrs),
		       (int)(after.pools - before->pools), (int)(after.cqs - before->cqs),
		       after.blocks - before->blocks);
	return true;
}

static void each_call(const struct scenario *sc, unsigned only)
{
	int was = failed;
	struct held before;
	unsigned k = only ? only : 1;

	/* what libraries make once and keep */
	need(sc->run(), sc->name);
	sc->undo();
	settle(&before);
	while (k < CALLS && one(sc, k, &before) && !only && failed < was + 5)
		k++;
	need(sc->run(), sc->name);
	sc->undo();
	if (failed == was)
		result(k > 1 || only, "%s: each of its %u calls fails once, and nothing is left",
		       sc->name, k - 1);
	else
		printf("# replay: SCENARIO=%s tests/net/test_inject.sh\n", sc->name);
}

/* ---- the books after a close ---- */

static bool books_are_zero(void)
{
	const struct weft_devrun *run = s.dev[0]->maps.run;
	int32_t n = run->active;

	for (int d = 0; d < WEFT_DOMAINS; d++)
		n |= run->dom[d].inflight;
	return !n;
}

static void close_calls(void)
{
	bool books = true, out = true;
	const char *name;
	unsigned k;

	for (k = 1; k < 60; k++) {
		need(connect_b(7800, 8000, &s.qp), "connect");
		many_out();
		for (int i = 0; i < PATIENCE && books_are_zero(); i++)
			usleep(1000);
		if (books_are_zero()) {
			out = false;
			printf("# call %u of a close: no token was out\n", k);
		}
		inject_arm(k);
		weft_qp_close(s.qp);
		inject_end(&name);
		for (int i = 0; i < PATIENCE && !books_are_zero(); i++)
			usleep(1000);
		if (!books_are_zero() && books) {
			books = false;
			printf("# call %u (%s) of a close: %u active, %d tokens\n", k,
			       name ? name : "", s.dev[0]->maps.run->active,
			       s.dev[0]->maps.run->dom[0].inflight);
		}
		if (!name)
			break;
	}
	result(books && out && k > 1, "close: with %u failing calls the tokens leave the books",
	       k - 1);
}

/* ---- the first open: a third of a second each, so some of the calls at a time ---- */

static void create(unsigned many, unsigned seed)
{
	static const struct scenario sc = { "create", do_open, undo_open, false };
	int was = failed;
	unsigned calls, n = 0;
	struct held before;
	const char *name;

	weft_close(s.dev[0]);
	s.dev[0] = NULL;
	inject_short_programs(true);
	settle(&before);
	inject_arm(0);
	need(do_open(), "open");
	calls = inject_end(&name);
	undo_open();
	for (unsigned i = 0; i < many && failed == was; i++) {
		unsigned k = many < calls ? 1 + (seed + i * calls / many) % calls : i + 1;

		n += one(&sc, k, &before);
	}
	inject_short_programs(false);
	result(failed == was && n, "create: %u of its %u calls fail once, and nothing is left", n,
	       calls);
	need(open_dev(0, &s.dev[0]), "open");
}

/* Without membarrier() a grace period needs two maps, which stay. */
static void other_grace(void)
{
	const char *name;

	inject_arm(1);
	weft_grace();
	inject_end(&name);
}

static void set_up(void)
{
	for (int i = 0; i < 2; i++) {
		need(open_dev(i, &s.dev[i]), "open");
		strcpy(s.pins[i], s.dev[i]->pin_dir);
		need(weft_alloc(s.dev[i], MEM, &s.mem[i]), "alloc");
		need(weft_mr_reg(s.dev[i], NULL, s.mem[i], MEM, WEFT_LOCAL | WEFT_REMOTE_WRITE,
				 &s.mr[i]),
		     "register");
	}
	memset(s.mem[0], 0x5a, MEM);
	need(weft_listen(s.dev[1], ":7800", &s.l), "listen");
	pthread_create(&s.server, NULL, serve, NULL);
}

int main(int argc, char **argv)
{
	const char *only = argc > 6 ? argv[6] : NULL;
	unsigned k = argc > 7 ? strtoul(argv[7], NULL, 0) : 0, many = 50, seed = time(NULL);

	if (argc < 6) {
		fprintf(stderr,
			"usage: inject NETNS-A DEV-A NETNS-B DEV-B HOST-B [SCENARIO [K]]\n");
		return 2;
	}
	for (int i = 0; i < 2; i++) {
		s.ns[i] = argv[1 + 2 * i];
		s.ifname[i] = argv[2 + 2 * i];
	}
	s.host = argv[5];
	if (getenv("SEED"))
		seed = strtoul(getenv("SEED"), NULL, 0);
	if (getenv("MANY"))
		many = strtoul(getenv("MANY"), NULL, 0);
	inject_seed(seed);
	set_up();
	for (size_t i = 0; i < SCENARIOS; i++) {
		const struct scenario *sc = &scenarios[i];

		if (only && strcmp(only, sc->name))
			continue;
		if (sc->run == do_accept) {
			need(weft_listen(s.dev[1], ":7801", &s.own_l), "listen");
			pthread_create(&s.client, NULL, come, NULL);
		} else if (sc->run == do_write) {
			need(do_connect(), "connect");
		} else if (sc->run == do_give) {
			other_grace();
			need(do_adopt(), "adopt");
		}
		each_call(sc, k);
		if (sc->run == do_accept) {
			s.no_more = true;
			pthread_join(s.client, NULL);
			weft_listener_close(s.own_l);
		} else if (sc->run == do_write) {
			undo_qp();
		} else if (sc->run == do_give) {
			undo_adopt();
		}
	}
	if (!only || !strcmp(only, "close"))
		close_calls();
	if (!only || !strcmp(only, "full"))
		full_tables();
	s.stop = true;
	pthread_join(s.server, NULL);
	if (!only || !strcmp(only, "create"))
		create(many, seed);
	weft_listener_close(s.l);
	weft_close(s.dev[0]);
	weft_close(s.dev[1]);
	result(inject_blocks() == 0, "%ld blocks of memory are left", inject_blocks());
	printf("1..%d\n", tests);
	return failed ? 1 : 0;
}
