/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/ctl.c in a time of its own: when the timer looks, when a QP fails and why, what a peer's stream says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../user/ctl.c"

#define START 1000000000000ull

static uint64_t now;
static unsigned looks, timeouts, failed, stopped;
static int failed_why;
static struct weft_ring ring;
static struct weft_dev dev;
static union {
	struct weft_ctl c;
	char room[sizeof(struct weft_ctl) + sizeof(struct weft_qp *)]; /* for one QP */
} one;
static struct weft_ctl *const ctl = &one.c;
static struct weft_qp *batch[1];
static struct weft_qp qp;

__thread bool weft_in_ctl_thread;

uint64_t weft_now_ns(void)
{
	return now;
}

int weft_doorbell(struct weft_dev *d, uint32_t qpn, enum weft_db_op op, unsigned len)
{
	(void)d, (void)qpn, (void)len;
	looks += op == WEFT_DB_LOOK;
	return 0;
}

static int stats(struct weft_dev *d, uint32_t num, struct weft_qp_stats *st)
{
	(void)d, (void)num;
	st->timeouts = timeouts;
	return 0;
}

bool weft_qp_fail_begin(struct weft_qp *q, enum weft_wc_status why)
{
	if (q->failing)
		return false;
	q->failing = why;
	return true;
}

void weft_qp_fail_stop(struct weft_qp **q, unsigned n)
{
	(void)q;
	stopped += n;
}

void weft_qp_fail_end(struct weft_qp *q)
{
	q->status = failed_why = q->failing;
	failed++;
}

enum weft_wc_status weft_nak_status(uint32_t code)
{
	return code == WEFT_NAK_CLOSED ? WEFT_WC_REM_CLOSED_ERR : WEFT_WC_REM_ACCESS_ERR;
}

/* not what is looked at here */
void weft_ctl_link_read(struct weft_ctl *c)
{
	(void)c;
}
void weft_ctl_link_ask(struct weft_ctl *c)
{
	(void)c;
}
int weft_ctl_link_open(struct weft_ctl *c)
{
	(void)c;
	return 0;
}
void weft_idle_begin(struct weft_ctl *c, struct weft_qp *q)
{
	(void)c, (void)q;
}
void weft_idle_look(struct weft_ctl *c, uint64_t at)
{
	(void)c, (void)at;
}
void weft_tele_note(const struct weft_qp *q, enum weft_trace_kind kind, unsigned x, uint32_t a,
		    uint32_t b, uint32_t c)
{
	(void)q, (void)kind, (void)x, (void)a, (void)b, (void)c;
}
int weft_err(int err, const char *obj, const char *fmt, ...)
{
	(void)obj, (void)fmt;
	return -err;
}

static const struct weft_priv priv = { .qp_stats = stats };

/* A QP with one request outstanding. */
static int setup(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	memset(&dev, 0, sizeof(dev));
	memset(&one, 0, sizeof(one));
	memset(&qp, 0, sizeof(qp));
	now = START;
	looks = timeouts = failed = stopped = 0;
	failed_why = 0;
	dev.priv = &priv;
	dev.ctl = ctl;
	ctl->dev = &dev;
	ctl->ep_fd = ctl->kick_fd = ctl->timer_fd = ctl->idle_fd = ctl->lost_fd = ctl->nl_fd = -1;
	ctl->batch = batch;
	ctl->n = 1;
	ctl->qp[0] = &qp;
	qp.dev = &dev;
	qp.ring = &ring;
	qp.cm_fd = -1;
	qp.timeout_ms = 1000;
	qp.told = 1;
	start_timer(ctl, now);
	return 0;
}

static void one_tick(void)
{
	now += ctl->period ? ctl->period : TICK;
	tick(ctl, now);
	fail_due(ctl, now);
}

static void pass(unsigned ms)
{
	for (uint64_t until = now + ms * MS; now < until;)
		one_tick();
}

static void tick__looks(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		ring.tx_una++;
		one_tick();
	}
	assert_int_equal(looks, 0);
	assert_int_equal(ctl->period, TICK_SMOOTH);
	one_tick();
	assert_int_equal(looks, 1);
	assert_int_equal(ctl->period, TICK);
	pass(10);
	assert_in_range(looks, 5, 6);
	/* more and more seldom, but not very */
	pass(490);
	assert_in_range(looks, 50, 130);
	assert_int_equal(failed, 0);
	/* nor too early, when the timer is */
	ring.tx_una++;
	one_tick();
	looks = 0;
	now += MS;
	tick(ctl, now);
	assert_int_equal(looks, 0);
}

static void tick__quiet(void **state)
{
	(void)state;
	ring.sq_done = 1;
	qp.prod = 5; /* in SQD: the rest waits */
	pass(QUIET_MS);
	assert_int_equal(ctl->period, 0);
	assert_int_equal(ctl->active, 0);
	/* what is posted as it stops is seen */
	start_timer(ctl, now);
	qp.told++;
	stop_timer(ctl, now);
	assert_int_equal(ctl->period, TICK);
	assert_int_equal(ctl->active, 1);
}

static void tick__time_out(void **state)
{
	for (int down = 0; down < 2; down++) {
		setup(state);
		dev.down_ns = down;
		pass(down ? 890 : 990);
		assert_int_equal(failed, 0);
		pass(20);
		assert_int_equal(failed, 1);
		assert_int_equal(stopped, 1);
		assert_int_equal(failed_why, down ? WEFT_WC_DEV_ERR : WEFT_WC_RETRY_EXC_ERR);
		pass(2000);
		assert_int_equal(failed, 1);
	}
	/* anything that moves is progress */
	setup(state);
	for (int i = 0; i < 5; i++) {
		pass(900);
		ring.tx_una++;
	}
	qp.told = 10;
	for (int i = 0; i < 5; i++) {
		pass(900);
		ring.sq_done++;
	}
	assert_int_equal(failed, 0);
}

/* While we were not run the peer could not do anything about it. */
static void tick__we_were_stopped(void **state)
{
	(void)state;
	pass(500);
	now += 5000 * MS;
	one_tick();
	assert_int_equal(failed, 0);
	pass(400);
	assert_int_equal(failed, 0);
	pass(150);
	assert_int_equal(failed, 1);
}

static void tick__retries(void **state)
{
	(void)state;
	qp.retry_cnt = 3;
	timeouts = 100; /* of former troubles */
	pass(50);
	timeouts += 3;
	pass(50);
	assert_int_equal(failed, 0);
	ring.tx_una++;
	pass(50);
	timeouts += 3;
	pass(50);
	assert_int_equal(failed, 0);
	timeouts++;
	pass(50);
	assert_int_equal(failed, 1);
	assert_int_equal(failed_why, WEFT_WC_RETRY_EXC_ERR);
	/* without a limit any number will do */
	setup(state);
	pass(50);
	timeouts += 1000;
	pass(50);
	assert_int_equal(failed, 0);
}

/* A peer that has no receive, and says so from time to time, may have none for ever. */
static void tick__rnr(void **state)
{
	(void)state;
	ring.tx_rnr = 1;
	for (int i = 0; i < 20; i++) {
		ring.tx_rnrs++;
		ring.tx_probes++;
		pass(1100);
	}
	assert_int_equal(failed, 0);
	pass(150);
	assert_int_equal(failed, 1);
	assert_int_equal(failed_why, WEFT_WC_RETRY_EXC_ERR);
	/* unless somebody counts */
	setup(state);
	ring.tx_rnr = 1;
	qp.rnr_retries = 4;
	ring.tx_probes = 4;
	pass(50);
	assert_int_equal(failed, 0);
	ring.tx_probes = 5;
	pass(10);
	assert_int_equal(failed_why, WEFT_WC_RNR_RETRY_EXC_ERR);
}

/* What XDP has seen ends the QP: at once, or as soon as what was on its way has come. */
static void ring__errors(void **state)
{
	(void)state;
	ring.tx_err = WEFT_TX_ERR_LOCAL;
	ring.tx_err_ssn = 1;
	qp.told = 2;
	one_tick();
	assert_int_equal(failed, 0);
	ring.sq_done = 1;
	one_tick();
	assert_int_equal(failed_why, WEFT_WC_GENERAL_ERR);
	setup(state);
	ring.tx_err = WEFT_TX_ERR_NAK;
	ring.tx_err_info = WEFT_NAK_KEY;
	ring.tx_err_ssn = 7;
	pass(4);
	assert_int_equal(failed, 0);
	pass(6);
	assert_int_equal(failed_why, WEFT_WC_REM_ACCESS_ERR);
	/* the BYE that tells how far the peer got is worth waiting for */
	setup(state);
	ring.tx_err = WEFT_TX_ERR_NAK;
	ring.tx_err_info = WEFT_NAK_CLOSED;
	pass(90);
	assert_int_equal(failed, 0);
	pass(20);
	assert_int_equal(failed_why, WEFT_WC_REM_CLOSED_ERR);
	setup(state);
	ring.rx_err = WEFT_NAK_KEY;
	one_tick();
	assert_int_equal(failed_why, WEFT_WC_GENERAL_ERR);
}

/* The first reason stands, a later one may only hasten it. */
static void doom__first_reason(void **state)
{
	(void)state;
	weft_ctl_doom(ctl, &qp, WEFT_WC_REM_ACCESS_ERR, 100 * MS);
	weft_ctl_doom(ctl, &qp, WEFT_WC_DEV_ERR, 50 * MS);
	weft_ctl_doom(ctl, &qp, WEFT_WC_DEV_ERR, 500 * MS);
	pass(46);
	assert_int_equal(failed, 0);
	pass(6);
	assert_int_equal(failed_why, WEFT_WC_REM_ACCESS_ERR);
}

/* What the peer says on its stream, `way` bytes at a time. */
static void say(int fd, const void *buf, size_t len, size_t way)
{
	for (size_t n; len; len -= n, buf = (const char *)buf + n) {
		n = len < way ? len : way;
		assert_int_equal(send(fd, buf, n, 0), n);
		for (int i = 0; i < 8 && !qp.cm_over; i++)
			hear_peer(ctl, &qp);
	}
}

static void hear__stream(void **state)
{
	static const size_t ways[] = { 1, 5, 12, 64 };
	uint8_t pings[30], bye[WEFT_CM_BYE_LEN];

	memset(pings, WEFT_CM_PING, sizeof(pings));
	weft_cm_bye_format(WEFT_NAK_CLOSED, 0x01020304, bye);
	for (size_t i = 0; i < 8; i++) {
		int fd[2];

		setup(state);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		qp.cm_fd = fd[0];
		hear_peer(ctl, &qp); /* nothing there */
		say(fd[1], pings, sizeof(pings), ways[i % 4]);
		fail_due(ctl, now);
		assert_false(qp.cm_over);
		if (i < 4) {
			say(fd[1], bye, sizeof(bye), ways[i]);
			assert_true(qp.bye_ok);
			assert_int_equal(qp.bye_arrived, 0x01020304);
			fail_due(ctl, now);
		} else {
			close(fd[1]);
			while (!qp.cm_over)
				hear_peer(ctl, &qp);
			assert_false(qp.bye_ok);
			fail_due(ctl, now);
			assert_int_equal(failed, 0); /* what is on its way may come */
			pass(10);
		}
		assert_int_equal(failed, 1);
		assert_int_equal(failed_why, WEFT_WC_REM_CLOSED_ERR);
		close(fd[0]);
		if (i < 4)
			close(fd[1]);
	}
}

/* Anything else on it is the end as well. */
static void hear__garbage(void **state)
{
	uint8_t bye[WEFT_CM_BYE_LEN];
	int fd[2];

	(void)state;
	weft_cm_bye_format(WEFT_NAK_CLOSED, 7, bye);
	bye[0] ^= 1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	qp.cm_fd = fd[0];
	say(fd[1], bye, sizeof(bye), 12);
	assert_true(qp.cm_over);
	assert_false(qp.bye_ok);
	pass(10);
	assert_int_equal(failed_why, WEFT_WC_REM_CLOSED_ERR);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(tick__looks),   T(tick__quiet),   T(tick__time_out), T(tick__we_were_stopped),
		T(tick__retries), T(tick__rnr),     T(ring__errors),   T(doom__first_reason),
		T(hear__stream),  T(hear__garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
