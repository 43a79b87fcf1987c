/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/recv.c over plain memory, with the test as XDP: what is posted, handed out, flushed and given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../../user/recv.c"

enum { DEPTH = 8, LEN = 4096, PD = 7 };

static struct weft_dev dev;
static struct weft_pd pd = { .dev = &dev, .id = PD };
static struct weft_mr mr = { .dev = &dev, .pd = &pd, .len = LEN, .access = WEFT_LOCAL_WRITE };
static struct weft_qpctl ctl[2];
static struct weft_ring rings[2];
static struct weft_qp qps[2], *const qp = &qps[0];
static unsigned resumed[2], made, dropped;
static int full; /* -errno: no more queues */
static char said[200];

int weft_doorbell(struct weft_dev *d, uint32_t qpn, enum weft_db_op op, unsigned len)
{
	(void)d;
	assert_int_equal(op, WEFT_DB_RESUME);
	assert_int_equal(len, WEFT_V4_LEN + WEFT_HDR_LEN);
	resumed[qpn & 1]++;
	return 0;
}

uint32_t weft_mr_key(const struct weft_mr *m)
{
	return m->key;
}

const char *weft_obj(const char *ifname, uint32_t qpn)
{
	(void)ifname, (void)qpn;
	return "";
}

int weft_qp_dead(const struct weft_qp *q)
{
	(void)q;
	return -ENOTCONN;
}

int weft_no_arg(const struct weft_qp *q, const char *call)
{
	(void)q, (void)call;
	return -EINVAL;
}

int weft_sge_err(struct weft_dev *d, uint32_t qpn, uint32_t id, const struct weft_sge *g,
		 unsigned right)
{
	(void)d, (void)qpn, (void)id, (void)g, (void)right;
	return -EINVAL;
}

#define SAYS(name)                                               \
	int name(int err, const char *obj, const char *fmt, ...) \
	{                                                        \
		va_list ap;                                      \
                                                                 \
		(void)obj;                                       \
		va_start(ap, fmt);                               \
		vsnprintf(said, sizeof(said), fmt, ap);          \
		va_end(ap);                                      \
		return -err;                                     \
	}
SAYS(weft_err)
SAYS(weft_err_quiet)

int weft_err_often(int err, const char *ifname, uint32_t qpn, const char *line)
{
	(void)ifname, (void)qpn, (void)line;
	return -err;
}

static int rq_new(struct weft_dev *d, uint32_t depth, int *fd, uint32_t *idx)
{
	(void)d;
	if (full)
		return full;
	*fd = memfd_create("rq", MFD_CLOEXEC);
	*idx = made++;
	return *fd < 0 || ftruncate(*fd, weft_rq_bytes(depth)) ? -errno : 0;
}

static void rq_drop(struct weft_dev *d, uint32_t idx)
{
	(void)d, (void)idx;
	dropped++;
}

static const struct weft_priv priv = { .rq_new = rq_new, .rq_drop = rq_drop };

static int setup(void **state)
{
	(void)state;
	memset(&dev, 0, sizeof(dev));
	memset(rings, 0, sizeof(rings));
	memset(qps, 0, sizeof(qps));
	memset(resumed, 0, sizeof(resumed));
	made = dropped = 0;
	pthread_mutex_init(&dev.lock, NULL);
	dev.priv = &priv;
	dev.pd0 = &pd;
	dev.maps.ctl = ctl;
	for (int i = 0; i < 2; i++)
		qps[i] = (struct weft_qp){ .dev = &dev, .ring = &rings[i], .slot = i, .num = i };
	return 0;
}

static void own(unsigned recvs)
{
	struct weft_qp_opts o = { .recvs = recvs, .pd = &pd };

	assert_int_equal(weft_recv_attach(qp, &o), 0);
}

static struct weft_srq *shared(void)
{
	struct weft_qp_opts o = { .pd = &pd };

	assert_int_equal(weft_srq_create(&dev, NULL, DEPTH, &o.srq), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weft_recv_attach(&qps[i], &o), 0);
	return o.srq;
}

static int post(struct weft_srq *rq, uint64_t wr_id, int n)
{
	struct weft_sge g = { .mr = &mr, .off = 64, .len = 100 };
	struct weft_recv r[2 * DEPTH];

	for (int i = 0; i < n; i++)
		r[i] = (struct weft_recv){ .wr_id = wr_id + i, .sge = &g, .nsge = 1 };
	return rq->shared ? weft_srq_post(rq, r, n) : weft_post_recv(qp, r, n);
}

/* XDP: the QP's next message is of so many bytes, and complete. */
static void message(struct weft_qp *q, uint32_t len, uint32_t flags)
{
	struct weft_srq *rq = q->rq;
	uint32_t n = q->ring->received, at = n, bound = n, taken;

	if (rq->shared) {
		assert_int_equal(weft_rq_next(rq->head, &taken), WEFT_RQ_OK);
		assert_int_equal(weft_rq_take(rq->head, q->ring->bind, &bound, n,
					      q->ring->rq_polled, taken,
					      rq->e[taken & (rq->depth - 1)].order),
				 WEFT_RQ_OK);
		weft_rq_bound(q->ring->bind, n, &at);
	}
	at &= rq->depth - 1;
	rq->e[at].len = len;
	rq->e[at].imm = 99;
	rq->e[at].flags = flags;
	q->ring->received++;
}

static void next_is(struct weft_qp *q, uint64_t wr_id, enum weft_wc_status status, uint32_t len)
{
	struct weft_wc wc;

	assert_int_equal(weft_recv_take(q, &wc, 1), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.len, len);
	assert_ptr_equal(wc.qp, q);
}

static void none(struct weft_qp *q)
{
	struct weft_wc wc;

	assert_false(weft_recv_ready(q, false));
	assert_int_equal(weft_recv_take(q, &wc, 1), 0);
}

static void end(void)
{
	for (int i = 0; i < 2; i++)
		weft_recv_detach(&qps[i]);
	assert_int_equal(made, dropped + !LIST_EMPTY(&dev.srqs));
}

static void recv__own(void **state)
{
	struct weft_wc wc;

	(void)state;
	own(DEPTH - 1);               /* rounded up */
	qp->rq->e[3].sge[1].len = 77; /* of a receive before */
	assert_int_equal(post(qp->rq, 10, 2 * DEPTH), DEPTH);
	assert_int_equal(post(qp->rq, 99, 1), -EAGAIN);
	assert_int_equal(qp->rq->head->prod, DEPTH);
	assert_int_equal(qp->rq->e[3].sge[0].off, 64);
	assert_int_equal(qp->rq->e[3].sge[0].len, 100);
	assert_int_equal(qp->rq->e[3].sge[1].len, 0);
	none(qp);
	for (unsigned i = 0; i < 5 * DEPTH; i++) {
		message(qp, i, 0);
		assert_true(weft_recv_ready(qp, false));
		next_is(qp, 10 + i, WEFT_WC_SUCCESS, i);
		none(qp);
		assert_int_equal(post(qp->rq, 10 + DEPTH + i, 2), 1);
	}
	message(qp, 1, WEFT_RQE_IMM | WEFT_RQE_SOL | WEFT_RQE_WRITE);
	assert_int_equal(weft_recv_take(qp, &wc, 1), 1);
	assert_int_equal(wc.op, WEFT_WR_RECV_IMM);
	assert_int_equal(wc.flags, WEFT_WC_IMM | WEFT_WC_SOLICITED);
	assert_int_equal(wc.imm, 99);
	end();
}

static void recv__malformed(void **state)
{
	struct weft_sge g[WEFT_RECV_SGE_MAX + 1];
	struct weft_recv r = { .sge = g, .nsge = WEFT_RECV_SGE_MAX + 1 };

	(void)state;
	for (int i = 0; i <= WEFT_RECV_SGE_MAX; i++)
		g[i] = (struct weft_sge){ .mr = &mr, .len = 1 };
	assert_int_equal(weft_post_recv(qp, &r, 1), -EINVAL); /* no queue */
	own(DEPTH);
	assert_int_equal(weft_post_recv(qp, &r, 1), -EINVAL);
	r.nsge = 2;
	assert_int_equal(weft_post_recv(qp, &r, 0), -EINVAL);
	g[1].off = LEN;
	assert_int_equal(weft_post_recv(qp, &r, 1), -EINVAL);
	g[1].off = 0;
	mr.access = WEFT_LOCAL;
	assert_int_equal(weft_post_recv(qp, &r, 1), -EINVAL);
	mr.access = WEFT_LOCAL_WRITE;
	r.sge = NULL;
	assert_int_equal(weft_post_recv(qp, &r, 1), -EINVAL);
	r.nsge = 0;
	assert_int_equal(weft_post_recv(qp, &r, 1), 1);
	qp->status = WEFT_WC_GENERAL_ERR;
	assert_int_equal(weft_post_recv(qp, &r, 1), -ENOTCONN);
	end();
}

/* Whoever can tell why there is no queue does, and nothing is kept. */
static void recv__no_queue(void **state)
{
	struct weft_qp_opts o = { .recvs = DEPTH, .pd = &pd };
	struct weft_srq *rq;

	(void)state;
	full = -ENOSPC;
	assert_int_equal(weft_recv_attach(qp, &o), -ENOSPC);
	assert_non_null(strstr(said, "receive queues are in use"));
	assert_int_equal(weft_srq_create(&dev, NULL, DEPTH, &rq), -ENOSPC);
	strcpy(said, "weftd's");
	full = -EDQUOT;
	assert_int_equal(weft_recv_attach(qp, &o), -EDQUOT);
	assert_string_equal(said, "weftd's");
	full = -ENOMEM;
	assert_int_equal(weft_recv_attach(qp, &o), -ENOMEM);
	assert_non_null(strstr(said, "of 8 cannot be made"));
	full = 0;
	assert_null(qp->rq);
	assert_int_equal(made, 0);
}

/* In error each receive comes back once, in order, whatever the queue says that it holds. */
static void recv__flush(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		setup(state);
		own(DEPTH);
		qp->rq->e[4].status = WEFT_NAK_LENGTH; /* of a receive before */
		assert_int_equal(post(qp->rq, 0, 6), 6);
		message(qp, 5, 0);
		message(qp, 6, 0);
		qp->rq->e[2].status = WEFT_NAK_LENGTH;
		qp->rq->e[3].status = WEFT_NAK_RECEIVE;
		next_is(qp, 0, WEFT_WC_SUCCESS, 5);
		if (way == 1)
			qp->rq->head->prod = 1u << 31;
		if (way == 2)
			qp->ring->received += WEFT_RQ_DEPTH + 1;
		if (way == 3)
			qp->ring->received -= 2;
		qp->status = WEFT_WC_REM_CLOSED_ERR;
		assert_true(weft_recv_ready(qp, true));
		if (way < 2)
			next_is(qp, 1, WEFT_WC_SUCCESS, 6);
		else /* who writes over his ring may not be told what has come */
			next_is(qp, 1, WEFT_WC_FLUSH_ERR, 0);
		next_is(qp, 2, WEFT_WC_LOC_LEN_ERR, 0);
		next_is(qp, 3, WEFT_WC_LOC_PROT_ERR, 0);
		next_is(qp, 4, WEFT_WC_FLUSH_ERR, 0);
		next_is(qp, 5, WEFT_WC_FLUSH_ERR, 0);
		for (int i = 0; i < 3; i++) {
			struct weft_wc wc;

			assert_int_equal(weft_recv_take(qp, &wc, 1), 0);
		}
		end();
	}
}

/* Counts that XDP never has hand nothing out of a QP that works. */
static void recv__written_over(void **state)
{
	struct weft_wc wc[2 * DEPTH];

	(void)state;
	own(DEPTH);
	assert_int_equal(post(qp->rq, 0, 3), 3);
	qp->ring->received = -1;
	assert_int_equal(weft_recv_take(qp, wc, 2 * DEPTH), 0);
	qp->ring->received = WEFT_RQ_DEPTH;
	assert_int_equal(weft_recv_take(qp, wc, 2 * DEPTH), 3);
	assert_int_equal(wc[2].wr_id, 2);
	end();
}

/* A peer that was refused is told of the next receive, once. */
static void recv__resume(void **state)
{
	struct weft_srq *rq;

	(void)state;
	own(DEPTH);
	post(qp->rq, 0, 1);
	assert_int_equal(resumed[0], 0);
	qp->ring->refused = 1;
	post(qp->rq, 1, 1);
	assert_int_equal(resumed[0], 1);
	post(qp->rq, 2, 1);
	assert_int_equal(resumed[0], 1);
	end();
	setup(state);
	rq = shared();
	qps[1].ring->refused = 1;
	post(rq, 0, 2);
	assert_int_equal(resumed[0], 0);
	assert_int_equal(resumed[1], 1);
	/* or when a message of it is handed out: it may have one more then */
	message(qp, 1, 0);
	qp->ring->refused = 1;
	next_is(qp, 0, WEFT_WC_SUCCESS, 1);
	assert_int_equal(qp->ring->rq_polled, 1);
	assert_int_equal(resumed[0], 1);
	end();
	assert_int_equal(weft_srq_destroy(rq), 0);
	assert_int_equal(made, dropped);
}

/* Entries are used again as they come back, in whatever order the QPs are polled. */
static void recv__shared(void **state)
{
	struct weft_srq *rq;

	(void)state;
	rq = shared();
	assert_int_equal(weft_srq_destroy(rq), -EBUSY);
	assert_int_equal(post(rq, 100, DEPTH + 1), DEPTH);
	for (uint64_t n = 0, next = DEPTH; n < 200; n += 2, next += 2) {
		uint64_t first = rq->wr_id[rq->e[rq->head->taken & (DEPTH - 1)].order];

		message(&qps[0], 1, 0);
		message(&qps[1], 2, 0);
		assert_int_equal(first, 100 + n);
		next_is(&qps[1], 101 + n, WEFT_WC_SUCCESS, 2);
		assert_int_equal(post(rq, 100 + next, 2), 1);
		next_is(&qps[0], 100 + n, WEFT_WC_SUCCESS, 1);
		assert_int_equal(post(rq, 101 + next, 2), 1);
	}
	/* one QP ends with what it had taken and not polled; the other goes on */
	message(&qps[0], 1, 0);
	message(&qps[0], 1, 0);
	message(&qps[1], 2, 0);
	weft_recv_detach(&qps[0]);
	assert_int_equal(post(rq, 1000, DEPTH), 2);
	next_is(&qps[1], 302, WEFT_WC_SUCCESS, 2);
	assert_int_equal(post(rq, 1002, DEPTH), 1);
	end();
	assert_int_equal(weft_srq_destroy(rq), 0);
}

/* In error a QP gives back what its messages had taken, and nothing of others'. */
static void recv__shared_flush(void **state)
{
	struct weft_srq *rq;
	struct weft_wc wc[DEPTH];

	(void)state;
	rq = shared();
	post(rq, 0, DEPTH);
	message(&qps[0], 1, 0);
	message(&qps[1], 2, 0);
	message(&qps[0], 3, 0);
	rings[0].received--; /* the second is not complete */
	qps[0].status = WEFT_WC_RETRY_EXC_ERR;
	next_is(&qps[0], 0, WEFT_WC_SUCCESS, 1);
	next_is(&qps[0], 2, WEFT_WC_FLUSH_ERR, 0);
	/* its entry may be somebody else's by now */
	assert_int_equal(post(rq, 50, DEPTH), 2);
	assert_int_equal(weft_recv_take(&qps[0], wc, DEPTH), 0);
	next_is(&qps[1], 1, WEFT_WC_SUCCESS, 2);
	end();
	assert_int_equal(weft_srq_destroy(rq), 0);
}

static void recv__solicited(void **state)
{
	(void)state;
	own(DEPTH);
	post(qp->rq, 0, 4);
	message(qp, 1, 0);
	assert_true(weft_recv_ready(qp, false));
	assert_false(weft_recv_ready(qp, true));
	message(qp, 1, WEFT_RQE_SOL);
	assert_true(weft_recv_ready(qp, true));
	next_is(qp, 0, WEFT_WC_SUCCESS, 1);
	next_is(qp, 1, WEFT_WC_SUCCESS, 1);
	assert_false(weft_recv_ready(qp, true));
	end();
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(recv__own),          T(recv__malformed), T(recv__flush),
		T(recv__written_over), T(recv__resume),    T(recv__shared),
		T(recv__shared_flush), T(recv__no_queue),  T(recv__solicited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
