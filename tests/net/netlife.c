// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netlife NS DEV NS DEV HOST:PORT: events, and the states that an application gives a QP. TAP. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#define LEN  65536
#define MANY 64

static int count, failed;
static struct weft_dev *here, *there;
static struct weft_listener *listener;
static struct weft_qp *qp, *theirs;
static struct weft_mr *mr, *their_mr;
static char **arg;

static void ok(int yes, const char *what)
{
	printf("%sok %d - %s\n", yes ? "" : "not ", ++count, what);
	if (!yes) {
		failed++;
		printf("# the last error: \"%s\"\n", weft_strerror_last());
	}
}

__attribute__((format(printf, 1, 2))) static int shell(const char *fmt, ...)
{
	char cmd[300];
	va_list ap;
	int rc;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	rc = system(cmd);
	if (rc)
		printf("# failed: %s\n", cmd);
	return rc;
}

static char lines[16384]; /* of this device */

static void on_log(void *unused, enum weft_log_level level, const char *line)
{
	size_t n = strlen(lines);

	(void)unused, (void)level;
	if (!strncmp(line, arg[1], strlen(arg[1])))
		snprintf(lines + n, sizeof(lines) - n, "%s\n", line);
}

/* How many times. */
static unsigned logged(const char *text)
{
	unsigned n = 0;

	for (const char *p = lines; (p = strstr(p, text)); p++)
		n++;
	return n;
}

static void *accept_one(void *unused)
{
	struct weft_qp *got = NULL;

	(void)unused;
	weft_accept(listener, NULL, &got);
	return got;
}

/* timeout_ms of our side; 0: the default */
static void join_with(uint32_t timeout_ms)
{
	struct weft_qp_opts o = { .size = sizeof(o), .timeout_ms = timeout_ms };
	pthread_t thread;

	qp = NULL;
	pthread_create(&thread, NULL, accept_one, NULL);
	weft_connect(here, arg[4], &o, &qp);
	pthread_join(thread, (void **)&theirs);
	ok(qp && theirs, "connected");
	if (!qp || !theirs)
		exit(1);
}

static void join(void)
{
	join_with(0);
}

static void part(void)
{
	weft_qp_close(qp);
	weft_qp_close(theirs);
}

static int readable(struct weft_dev *dev, int ms)
{
	struct pollfd p = { .fd = weft_event_fd(dev), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* The next event is this one. */
static int next_is(struct weft_dev *dev, enum weft_event_type type, const struct weft_qp *of,
		   uint32_t info)
{
	struct weft_async_event ev = { 0 };

	if (!readable(dev, 30000) || !weft_event_get(dev, &ev))
		return 0;
	if (ev.type != type || ev.qp != of || ev.info != info)
		printf("# an event: %s, info %u\n", weft_event_str(ev.type), ev.info);
	return ev.type == type && ev.qp == of && ev.info == info;
}

static int none(struct weft_dev *dev)
{
	struct weft_async_event ev;

	return !readable(dev, 0) && !weft_event_get(dev, &ev);
}

static int post(unsigned n, uint32_t rkey)
{
	struct weft_write w[MANY] = { { 0 } };

	for (unsigned i = 0; i < n; i++)
		w[i] = (struct weft_write){ .mr = mr, .len = LEN, .rkey = rkey };
	return weft_post_writes(qp, w, n);
}

/* How many of n completions have that status. */
static unsigned ended(unsigned n, enum weft_wc_status status)
{
	struct weft_wc wc[MANY];
	unsigned good = 0;
	int got;

	for (int tries = 0; n && tries < 300; tries++) {
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, 100);
		got = weft_cq_poll(weft_qp_cq(qp), wc, n);
		for (int i = 0; i < got; i++)
			good += wc[i].status == status;
		n -= got;
	}
	return good;
}

static void events(void)
{
	struct weft_async_event ev;
	unsigned got = 0;

	join();
	ok(none(here) && none(there), "no events");
	weft_qp_close(theirs);
	theirs = NULL;
	ok(next_is(here, WEFT_EVENT_PEER_CLOSED, qp, 0) && none(here),
	   "the peer closes: that, and nothing more");
	ok(none(there), "and nothing there");
	part();
	join();
	weft_qp_close(theirs);
	theirs = NULL;
	ok(readable(here, 30000), "the peer closes");
	part();
	ok(none(here), "and so do we: no event of a QP that is gone");
	join();
	ok(post(1, 1) == 1 && next_is(here, WEFT_EVENT_QP_FATAL, qp, WEFT_WC_REM_ACCESS_ERR),
	   "a bad key: the QP failed, and why");
	part();
	while (weft_event_get(here, &ev) || weft_event_get(there, &ev))
		;
	shell("ip -n %s link set %s down", arg[0], arg[1]);
	ok(next_is(here, WEFT_EVENT_PORT_DOWN, NULL, 0), "link down");
	shell("ip -n %s link set %s up", arg[0], arg[1]);
	ok(next_is(here, WEFT_EVENT_PORT_UP, NULL, 0), "link up");
	shell("ip -n %s link set %s mtu 1400", arg[0], arg[1]);
	ok(next_is(here, WEFT_EVENT_MTU, NULL, 1400), "another MTU");
	shell("for i in $(seq 300); do echo link set %s mtu $((1200 + i)); done | ip -n %s -b -",
	      arg[1], arg[0]);
	sleep(1); /* they may still be on their way */
	ok(readable(here, 30000), "300 events");
	while (weft_event_get(here, &ev) && ev.type == WEFT_EVENT_MTU)
		got++;
	ok(got == WEFT_EVENTS_MAX && ev.type == WEFT_EVENT_OVERRUN && ev.info > 0 &&
		   ev.info <= 300 - got,
	   "the oldest are there, and how many were lost");
	ok(none(here), "then none");
	shell("ip -n %s link set %s mtu 1480", arg[0], arg[1]);
	ok(next_is(here, WEFT_EVENT_MTU, NULL, 1480), "and it goes on");
}

/* The news of the link is there, and whatever came before it. */
static void until_up(struct weft_dev *dev)
{
	struct weft_async_event ev;

	while (readable(dev, 30000) && weft_event_get(dev, &ev))
		if (ev.type == WEFT_EVENT_PORT_UP)
			return;
}

static void states(void)
{
	uint32_t rkey = weft_mr_key(their_mr);
	struct weft_async_event ev;
	struct weft_wc wc;
	char name[80];

	join();
	ok(!weft_qp_drain(qp, 1000) && post(MANY, rkey) == MANY && !weft_qp_disconnect(qp, 1000) &&
		   ended(MANY, WEFT_WC_FLUSH_ERR) == MANY && weft_qp_arrived(theirs) == 0,
	   "what waits when it is disconnected is flushed, and never went out");
	ok(next_is(there, WEFT_EVENT_PEER_CLOSED, theirs, 0), "which the peer is told");
	part();
	while (weft_event_get(there, &ev))
		;
	join();
	weft_set_log(on_log, NULL, WEFT_LOG_INFO);
	ok(weft_qp_state(qp) == WEFT_QPS_RTS && weft_qp_state(theirs) == WEFT_QPS_RTS, "RTS");
	ok(post(MANY, rkey) == MANY && !weft_qp_drain(qp, 30000) &&
		   weft_qp_state(qp) == WEFT_QPS_SQD,
	   "drained: SQD");
	ok(ended(MANY, WEFT_WC_SUCCESS) == MANY, "all had completed");
	ok(post(MANY, rkey) == MANY && !weft_qp_drain(qp, 0),
	   "what is posted now is not outstanding");
	usleep(1300000); /* no time-out counts for it */
	ok(weft_cq_poll(weft_qp_cq(qp), &wc, 1) == 0 && weft_qp_arrived(theirs) == MANY &&
		   weft_qp_state(qp) == WEFT_QPS_SQD,
	   "it waits");
	ok(!weft_qp_resume(qp) && weft_qp_state(qp) == WEFT_QPS_RTS &&
		   ended(MANY, WEFT_WC_SUCCESS) == MANY,
	   "until it is resumed");
	ok(post(MANY, rkey) == MANY && !weft_qp_disconnect(qp, 30000) &&
		   weft_qp_state(qp) == WEFT_QPS_ERR,
	   "disconnected with 64 WRITEs under way: ERR");
	ok(ended(MANY, WEFT_WC_SUCCESS) == MANY, "each has completed");
	ok(next_is(there, WEFT_EVENT_PEER_CLOSED, theirs, 0) && weft_qp_arrived(theirs) == 3 * MANY,
	   "the peer is told, in order, and has all of them");
	ok(none(here), "that is no event here");
	ok(logged("disconnected by the application") == 1 && !logged("failed"),
	   "the log says so, and of no failure");
	snprintf(name, sizeof(name), "%s qp 0x%x: disconnected by the application;", arg[1],
		 weft_qp_num(qp));
	ok(post(1, rkey) == -ENOTCONN && !strncmp(weft_strerror_last(), name, strlen(name)),
	   "what is posted now is refused with the QP's name and that reason");
	ok(!shell("\"$WEFT\" -n %s qp trace %s 0x%x | grep -q 'disconnected by the application' && "
		  "! \"$WEFT\" -n %s qp trace %s | grep -q 0x%08x",
		  arg[0], arg[1], weft_qp_num(qp), arg[0], arg[1], weft_qp_num(qp)),
	   "and its trace says it as well, of which none of the failed is");
	ok(post(1, rkey) == -ENOTCONN && weft_qp_drain(qp, 0) == -ENOTCONN &&
		   weft_qp_resume(qp) == -ENOTCONN && weft_qp_abort(qp) == -ENOTCONN &&
		   weft_qp_disconnect(qp, 0) == -ENOTCONN,
	   "and there is no way back");
	part();
	join_with(60000); /* no error comes before all of this is done */
	shell("ip -n %s link set %s down", arg[2], arg[3]);
	ok(post(MANY, rkey) == MANY && weft_qp_drain(qp, 100) == -ETIMEDOUT &&
		   weft_qp_state(qp) == WEFT_QPS_SQD,
	   "nothing gets through: it cannot be drained in time");
	ok(weft_qp_disconnect(qp, 50) == -ETIMEDOUT && weft_qp_state(qp) == WEFT_QPS_SQD,
	   "nor disconnected");
	ok(!weft_qp_abort(qp) && weft_qp_state(qp) == WEFT_QPS_ERR &&
		   ended(MANY, WEFT_WC_FLUSH_ERR) > 0,
	   "but aborted: what was outstanding is flushed");
	ok(logged(": aborted by the application") && logged("requests flushed"),
	   "the log says who did it");
	weft_set_log(NULL, NULL, WEFT_LOG_ERR);
	shell("ip -n %s link set %s up", arg[2], arg[3]);
	part();
	until_up(here);
	until_up(there);
}

int main(int argc, char **argv)
{
	struct weft_open_opts a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	void *mem, *their_mem;
	char port[64];

	if (argc != 6)
		return fputs("usage: netlife NS DEV NS DEV HOST:PORT\n", stderr), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	arg = argv + 1;
	a.netns = arg[0];
	b.netns = arg[2];
	snprintf(port, sizeof(port), ":%s", strrchr(arg[4], ':') ? strrchr(arg[4], ':') + 1 : "");
	ok(!weft_open(arg[1], &a, &here) && !weft_open(arg[3], &b, &there) &&
		   !weft_listen(there, port, &listener) && !weft_alloc(here, LEN, &mem) &&
		   !weft_alloc(there, LEN, &their_mem) &&
		   !weft_mr_reg(here, NULL, mem, LEN, WEFT_LOCAL, &mr) &&
		   !weft_mr_reg(there, NULL, their_mem, LEN, WEFT_REMOTE_WRITE, &their_mr),
	   "two devices, a listener and memory");
	if (failed)
		return 1;
	states();
	events();
	ok(!weft_down(arg[1], &a) && next_is(here, WEFT_EVENT_DEVICE_LOST, NULL, 0),
	   "weft down: the device is lost");
	weft_listener_close(listener);
	weft_close(here);
	weft_close(there);
	printf("1..%d\n", count);
	return failed != 0;
}
