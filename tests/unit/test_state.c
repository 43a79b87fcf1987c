/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/state.c: the states that an application gives a QP, and what each call says in each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static int fake_usleep(useconds_t us);
#define usleep fake_usleep
#include "../../user/state.c"

static uint64_t now;
static unsigned left; /* sleeps until nothing is outstanding any more */
static unsigned stopped, ended, held;
static int dies;   /* the QP fails in that sleep, counted down */
static bool raced; /* somebody else is about to carry its failure out */
static char said[200];
static struct weft_dev dev;
static struct weft_ring ring;
static struct weft_qp qp;

static int fake_usleep(useconds_t us)
{
	now += us * 1000;
	left -= !!left;
	if (dies && !--dies) {
		left = 0;
		qp.status = WEFT_WC_RETRY_EXC_ERR;
	}
	return 0;
}

uint64_t weft_now_ns(void)
{
	return now;
}

bool weft_ctl_outstanding(const struct weft_qp *q)
{
	return !q->status && left;
}

void weft_post_held(struct weft_qp *q)
{
	/* or it would wait for ever */
	assert_false(q->drained);
	held++;
}

enum weft_wc_status weft_qp_status(const struct weft_qp *q)
{
	return q->status;
}

const char *weft_wc_str(enum weft_wc_status status)
{
	static char text[20];

	snprintf(text, sizeof(text), "status %d", status);
	return text;
}

const char *weft_obj(const char *ifname, uint32_t qpn)
{
	(void)ifname;
	assert_int_equal(qpn, qp.num);
	return "the QP";
}

int weft_err_quiet(int err, const char *obj, const char *fmt, ...)
{
	va_list ap;

	assert_string_equal(obj, "the QP");
	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	return -err;
}

bool weft_qp_fail_begin(struct weft_qp *q, enum weft_wc_status why)
{
	if (q->failing || raced)
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
	assert_int_equal(stopped, ++ended);
	q->status = q->failing;
}

static int setup(void **state)
{
	(void)state;
	memset(&qp, 0, sizeof(qp));
	qp.dev = &dev;
	qp.num = 0x30001;
	qp.ring = &ring;
	now = 1000000;
	left = dies = stopped = ended = held = 0;
	raced = false;
	return 0;
}

static void state__drain(void **state)
{
	(void)state;
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_RTS);
	left = 100;
	assert_int_equal(weft_qp_drain(&qp, 0), -ETIMEDOUT);
	assert_int_equal(left, 100); /* only a look */
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_SQD);
	assert_int_equal(weft_qp_drain(&qp, 10), -ETIMEDOUT);
	assert_true(left > 0 && now >= 11000000 && now < 13000000);
	assert_int_equal(weft_qp_drain(&qp, 1000), 0);
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_SQD);
	assert_int_equal(held, 0);
	assert_int_equal(weft_qp_resume(&qp), 0);
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_RTS);
	assert_int_equal(held, 1);
	/* it fails meanwhile: then nothing is outstanding either */
	left = 100;
	dies = 5;
	assert_int_equal(weft_qp_drain(&qp, 1000), -ENOTCONN);
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_ERR);
}

static void state__disconnect(void **state)
{
	(void)state;
	left = 100;
	assert_int_equal(weft_qp_disconnect(&qp, 1), -ETIMEDOUT);
	assert_int_equal(ended, 0);
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_SQD);
	assert_int_equal(weft_qp_disconnect(&qp, 1000), 0);
	assert_int_equal(ended, 1);
	assert_int_equal(weft_qp_state(&qp), WEFT_QPS_ERR);
	assert_int_equal(qp.status, WEFT_WC_FLUSH_ERR);
}

static void state__abort(void **state)
{
	(void)state;
	left = 100;
	assert_int_equal(weft_qp_abort(&qp), 0);
	assert_int_equal(left, 100);
	assert_int_equal(qp.status, WEFT_WC_FLUSH_ERR);
	assert_int_equal(weft_qp_abort(&qp), -ENOTCONN);
	assert_non_null(strstr(said, "disconnected by the application"));
	assert_int_equal(ended, 1);
}

/* From the moment on when that is decided, with the reason. */
static void state__in_error(void **state)
{
	for (int decided = 0; decided < 2; decided++) {
		setup(state);
		if (decided)
			qp.failing = WEFT_WC_DEV_ERR;
		else
			qp.status = WEFT_WC_DEV_ERR;
		assert_int_equal(weft_qp_state(&qp), WEFT_QPS_ERR);
		for (int call = 0; call < 4; call++) {
			*said = 0;
			assert_int_equal(call == 0   ? weft_qp_drain(&qp, 0)
					 : call == 1 ? weft_qp_resume(&qp)
					 : call == 2 ? weft_qp_disconnect(&qp, 0)
						     : weft_qp_abort(&qp),
					 -ENOTCONN);
			assert_non_null(strstr(said, "status 5"));
		}
		assert_false(qp.drained);
		assert_int_equal(ended, 0);
	}
}

/* The control thread may be quicker than the abort. */
static void state__one_reason(void **state)
{
	(void)state;
	raced = true;
	assert_int_equal(weft_qp_abort(&qp), -ENOTCONN);
	assert_int_equal(stopped, 0);
}

_Static_assert(WEFT_WC_DEV_ERR == 5, "what state__in_error looks for");

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(state__drain),    T(state__disconnect), T(state__abort),
		T(state__in_error), T(state__one_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
