/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/cq_wait.c over plain memory, with the test as XDP: what it waits for, and what ends the wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/eventfd.h>

#include "../../user/cq_wait.c"

enum { DEPTH = 8 };

static struct weft_dev dev;
static struct weft_ring ring;
static struct weft_qp *qp;
static struct weft_cq cq = { .dev = &dev, .ep_fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER };
/* the ring buffer: how far it was filled, then records; and how far it was taken out */
static unsigned long rb[1 + 2 * WEFT_EVENTS_LEN / sizeof(long)], rb_cons;

uint32_t weft_qp_arrived(const struct weft_qp *q)
{
	return q->ring->arrived;
}

bool weft_recv_ready(struct weft_qp *q, bool solicited)
{
	(void)q, (void)solicited;
	return false;
}

void weft_ctl_poke(struct weft_dev *d)
{
	(void)d;
}

uint64_t weft_now_ns(void)
{
	return 0;
}

int weft_err_quiet(int err, const char *obj, const char *fmt, ...)
{
	(void)obj, (void)fmt;
	return -err;
}

static int set_up(void **state)
{
	(void)state;
	cq.list = calloc(1, sizeof(*cq.list) + sizeof(qp));
	qp = calloc(1, sizeof(*qp) + DEPTH * sizeof(qp->wr[0]));
	if (!cq.list || !qp)
		return -1;
	cq.rb_data = rb;
	cq.rb_cons = &rb_cons;
	cq.rb_len = sizeof(rb);
	qp->dev = &dev;
	qp->ring = &ring;
	qp->sq_mask = DEPTH - 1;
	cq.list->n = 1;
	cq.list->qp[0] = qp;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(cq.list);
	free(qp);
	return 0;
}

#define Q WEFT_HOW_QUIET
#define P WEFT_HOW_PART

static void cq_wait__what_for(void **state)
{
	static const struct {
		uint8_t how[5];
		uint32_t n,
			first; /* posted; which of them has the first completion, from 1 on; 0: none */
	} cases[] = {
		{ { 0 }, 1, 1 },
		{ { Q, 0 }, 2, 2 },
		{ { P, 0 }, 2, 2 },
		{ { Q, P, Q | P, 0 }, 4, 4 },
		{ { 0, Q, 0 }, 3, 1 },
		{ { Q, Q, Q }, 3, 0 },
		{ { Q, Q, Q, Q, 0 }, 4, 0 }, /* what is not posted yet does not count */
	};
	static const uint32_t polled[] = { 0, 5, 0xfffffffe };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t k = 0; k < sizeof(polled) / sizeof(polled[0]); k++) {
			uint32_t at = polled[k], first = cases[i].first;

			memset(&ring, 0, sizeof(ring));
			qp->polled = at;
			qp->prod = at + cases[i].n;
			for (uint32_t j = 0; j < DEPTH; j++)
				qp->wr[(at + j) % DEPTH].how = j < 5 ? cases[i].how[j] : 0;
			weft_cq_arm(&cq, WEFT_ARM_TX);
			assert_int_equal(ring.arm_tx, first ? WEFT_ARMED_AT : WEFT_ARMED_ANY);
			assert_int_equal(ring.arm_at, first ? at + first : 0);
			for (uint32_t done = 0; done <= cases[i].n; done++) {
				ring.sq_done = at + done;
				assert_int_equal(weft_cq_wait(&cq, WEFT_ARM_TX, 0),
						 done && done >= first);
				/* XDP wakes for the same, but for a wait for anything: it asks when there is something */
				assert_int_equal(weft_ring_wakes(&ring), done >= first);
			}
			weft_cq_disarm(&cq);
			assert_int_equal(ring.arm_tx, 0);
			assert_int_equal(cq.armed, 0);
		}
}

/* Whatever it waits for, a QP that fails ends it. */
static void cq_wait__failed(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	qp->polled = ring.sq_done = 3;
	qp->prod = 5;
	qp->seen_status = 0;
	memset(qp->wr, 0, DEPTH * sizeof(qp->wr[0]));
	weft_cq_arm(&cq, WEFT_ARM_TX);
	assert_int_equal(weft_ring_wakes(&ring), 0);
	assert_int_equal(weft_cq_wait(&cq, WEFT_ARM_TX, 0), 0);
	ring.tx_err = WEFT_TX_ERR_LOCAL;
	assert_int_equal(weft_ring_wakes(&ring), 1);
	qp->status = WEFT_WC_DEV_ERR;
	assert_int_equal(weft_cq_wait(&cq, WEFT_ARM_TX, 0), 1);
	/* until what was flushed has been taken */
	assert_int_equal(weft_cq_wait(&cq, WEFT_ARM_TX, 0), 1);
	qp->polled = qp->prod;
	assert_int_equal(weft_cq_wait(&cq, WEFT_ARM_TX, 0), 0);
}

/* XDP sends no event while there is one: all are taken out, but for one that is still being written. */
static void cq_wait__drains(void **state)
{
	static const uint32_t flags[] = { 0, BPF_RINGBUF_DISCARD_BIT, BPF_RINGBUF_BUSY_BIT, 0 };
	uint32_t *rec = (uint32_t *)&rb[1];

	(void)state;
	for (int i = 0; i < 4; i++)
		rec[4 * i] = sizeof(struct weft_event) | flags[i];
	rb[0] = 4 * (BPF_RINGBUF_HDR_SZ + sizeof(struct weft_event));
	weft_cq_disarm(&cq);
	assert_int_equal(rb_cons, rb[0] / 2);
	weft_cq_disarm(&cq);
	assert_int_equal(rb_cons, rb[0] / 2);
	rec[8] &= ~BPF_RINGBUF_BUSY_BIT;
	weft_cq_disarm(&cq);
	assert_int_equal(rb_cons, rb[0]);
}

/* The control thread says that it wakes, then does: between the two nothing is forgotten. */
static void cq_wait__wakes_later(void **state)
{
	uint64_t n = 1;

	(void)state;
	cq.wake_fd = eventfd(0, EFD_NONBLOCK);
	cq.woken = 1;
	weft_cq_disarm(&cq);
	assert_int_equal(cq.woken, 1);
	assert_int_equal(write(cq.wake_fd, &n, sizeof(n)), sizeof(n));
	weft_cq_disarm(&cq);
	assert_int_equal(cq.woken, 0);
	assert_int_equal(read(cq.wake_fd, &n, sizeof(n)), -1);
	close(cq.wake_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cq_wait__what_for),
		cmocka_unit_test(cq_wait__failed),
		cmocka_unit_test(cq_wait__drains),
		cmocka_unit_test(cq_wait__wakes_later),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
