/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/idle.c in a time of its own: when the peer of a QP that sends nothing counts as gone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <cmocka.h>

static int fake_getsockopt(int fd, int level, int name, void *val, socklen_t *len);
static int fake_setsockopt(int fd, int level, int name, const void *val, socklen_t len);
static ssize_t fake_send(int fd, const void *buf, size_t len, int flags);
static int fake_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old);
#define getsockopt      fake_getsockopt
#define setsockopt      fake_setsockopt
#define send            fake_send
#define timerfd_settime fake_settime
#include "../../user/idle.c"

#define START 1000000000000ull

static uint64_t now, heard, fires; /* the time; when the peer's kernel spoke; the timer, 0: off */
static unsigned pings, keep;
static int doomed;
static bool outstanding;
static struct weft_ring ring;
static struct weft_dev dev;
static union {
	struct weft_ctl c;
	char room[sizeof(struct weft_ctl) + 2 * sizeof(struct weft_qp *)]; /* for two QPs */
} one;
static struct weft_ctl *const ctl = &one.c;
static struct weft_qp qp;

static int fake_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct tcp_info *ti = val;

	(void)fd, (void)level, (void)name, (void)len;
	ti->tcpi_last_ack_recv = (now - heard) / MS;
	ti->tcpi_last_data_recv = 1 << 30;
	return 0;
}

static int fake_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	(void)fd, (void)len;
	if (level == IPPROTO_TCP && name == TCP_KEEPINTVL)
		keep = *(const int *)val;
	return 0;
}

static ssize_t fake_send(int fd, const void *buf, size_t len, int flags)
{
	(void)fd, (void)buf, (void)flags;
	pings++;
	return len;
}

static int fake_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old)
{
	uint64_t ns = t->it_value.tv_sec * 1000000000ull + t->it_value.tv_nsec;

	(void)fd, (void)flags, (void)old;
	fires = ns ? now + ns : 0;
	return 0;
}

uint64_t weft_now_ns(void)
{
	return now;
}

bool weft_ctl_outstanding(const struct weft_qp *q)
{
	(void)q;
	return outstanding;
}

void weft_ctl_doom(struct weft_ctl *c, struct weft_qp *q, enum weft_wc_status why, uint64_t delay)
{
	(void)c, (void)delay;
	doomed = why;
	q->doom_ns = now;
}

static void begin(uint32_t idle_ms)
{
	memset(&ring, 0, sizeof(ring));
	memset(&dev, 0, sizeof(dev));
	memset(&one, 0, sizeof(one));
	memset(&qp, 0, sizeof(qp));
	now = heard = START;
	fires = 0;
	pings = keep = 0;
	doomed = 0;
	outstanding = false;
	ctl->dev = &dev;
	ctl->idle_at = FAR;
	ctl->n = 1;
	ctl->qp[0] = &qp;
	qp.ring = &ring;
	qp.idle_ms = idle_ms;
	weft_idle_begin(ctl, &qp);
}

/* The timer fires `late` ns after it should; false: it does not. */
static bool look(uint64_t late)
{
	if (!fires)
		return false;
	now = fires + late;
	weft_idle_look(ctl, now);
	return true;
}

/* So many ms pass; with alive the peer's kernel answers as often as ours asks. */
static void pass(unsigned ms, bool alive)
{
	uint64_t until = now + ms * MS;

	while (fires && fires <= until) {
		if (alive)
			heard = fires - (fires - START) % (keep * 1000 * MS);
		look(0);
	}
	now = until;
}

static void idle__alive(void **state)
{
	(void)state;
	begin(2500);
	assert_int_equal(keep, 1);
	pass(60000, true);
	assert_int_equal(pings, 0);
	assert_int_equal(doomed, 0);
	/* it looks about once a second, and never stops looking */
	assert_true(fires > now && fires <= now + 1300 * MS);
}

/* Asked once when an answer is overdue, and taken for gone when it had all its time, not before. */
static void idle__gone(void **state)
{
	static const unsigned idle[] = { 2000, 2500, 5000, 20000, 600000 };
	static const unsigned asked[] = { 1, 1, 2, 8, 60 }; /* s, by the kernel */

	(void)state;
	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		begin(idle[i]);
		assert_int_equal(keep, asked[i]);
		assert_int_equal(suspect(&qp), (asked[i] * 1000 + 300) * MS);
		pass(suspect(&qp) / MS - 1, false);
		assert_int_equal(pings, 0);
		pass(2, false);
		assert_int_equal(pings, 1);
		pass(idle[i] - suspect(&qp) / MS - 2, false);
		assert_int_equal(doomed, 0);
		pass(3, false);
		assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
		assert_int_equal(pings, 1);
		/* of a QP that fails nothing more is asked */
		assert_false(look(0) && fires);
	}
}

static void idle__answers_at_last(void **state)
{
	(void)state;
	begin(2500);
	pass(2000, false);
	assert_int_equal(pings, 1);
	heard = now;
	pass(2000, false);
	assert_int_equal(pings, 2);
	assert_int_equal(doomed, 0);
	pass(700, false);
	assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
}

/* While something is outstanding others decide; afterwards it has its time again. */
static void idle__outstanding(void **state)
{
	(void)state;
	begin(2500);
	outstanding = true;
	pass(10000, false);
	assert_int_equal(pings, 0);
	outstanding = false;
	pass(1000, false);
	assert_int_equal(pings, 1);
	assert_int_equal(doomed, 0);
	pass(500, false);
	assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
}

static void idle__packets_come(void **state)
{
	(void)state;
	begin(2500);
	for (int i = 0; i < 100; i++) {
		ring.rx_msn++;
		pass(200, false);
	}
	assert_int_equal(doomed, 0);
	pass(2500, false);
	assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
}

/* It was we who were stopped: what came meanwhile has not been read, and the answer to a PING neither. */
static void idle__we_were_stopped(void **state)
{
	(void)state;
	begin(2500);
	pass(1400, false);
	assert_int_equal(pings, 1);
	look(10000 * MS);
	assert_int_equal(doomed, 0);
	heard = now;
	look(0);
	assert_int_equal(doomed, 0);
	/* before anything was asked */
	begin(2500);
	look(10000 * MS);
	assert_int_equal(pings, 1);
	assert_int_equal(doomed, 0);
	pass(1100, false);
	assert_int_equal(doomed, 0);
	pass(400, false);
	assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
}

static void idle__link_down(void **state)
{
	(void)state;
	begin(2500);
	dev.down_ns = 1;
	pass(3000, false);
	assert_int_equal(doomed, WEFT_WC_DEV_ERR);
}

/* Never, not of who is not connected or has failed, and not of who has said that it ends. */
static void idle__not_asked(void **state)
{
	(void)state;
	begin(UINT32_MAX);
	assert_int_equal(fires, 0);
	pass(10000, false);
	for (int way = 0; way < 4; way++) {
		begin(2500);
		qp.status = way == 0;
		qp.cm_over = way == 1;
		qp.doom_ns = way == 2;
		qp.idle_on = way != 3;
		pass(10000, false);
		assert_int_equal(pings, 0);
		assert_int_equal(doomed, 0);
		assert_int_equal(fires, 0);
	}
}

/* A second QP, which is to be looked at earlier, is. */
static void idle__the_earliest(void **state)
{
	static struct weft_qp second;

	(void)state;
	begin(600000);
	assert_int_equal(fires, START + suspect(&qp));
	second = (struct weft_qp){ .ring = &ring, .idle_ms = 2000 };
	ctl->qp[ctl->n++] = &second;
	weft_idle_begin(ctl, &second);
	assert_int_equal(fires, START + 1300 * MS);
	pass(2300, false);
	assert_int_equal(doomed, WEFT_WC_RETRY_EXC_ERR);
	assert_true(second.doom_ns && !qp.doom_ns);
	assert_int_equal(fires, START + suspect(&qp));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle__alive),           cmocka_unit_test(idle__gone),
		cmocka_unit_test(idle__answers_at_last), cmocka_unit_test(idle__outstanding),
		cmocka_unit_test(idle__packets_come),    cmocka_unit_test(idle__we_were_stopped),
		cmocka_unit_test(idle__link_down),       cmocka_unit_test(idle__not_asked),
		cmocka_unit_test(idle__the_earliest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
