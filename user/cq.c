// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues: polling the rings, and sleeping until XDP or the control thread says something. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "internal.h"
#include "priv.h"

const char *weft_wc_str(enum weft_wc_status status)
{
	static const char *const text[] = {
		[WEFT_WC_SUCCESS] = "success",
		[WEFT_WC_LOC_PROT_ERR] = "local protection error",
		[WEFT_WC_REM_ACCESS_ERR] = "remote access error",
		[WEFT_WC_REM_CLOSED_ERR] = "remote side closed",
		[WEFT_WC_RETRY_EXC_ERR] = "no answer from the peer",
		[WEFT_WC_DEV_ERR] = "local interface failed",
		[WEFT_WC_FLUSH_ERR] = "flushed",
		[WEFT_WC_GENERAL_ERR] = "general error",
		[WEFT_WC_REM_INV_REQ_ERR] = "message longer than the peer's receive",
		[WEFT_WC_REM_OP_ERR] = "the peer's receive is not valid",
		[WEFT_WC_LOC_LEN_ERR] = "message longer than the receive",
		[WEFT_WC_RNR_RETRY_EXC_ERR] = "the peer posts no receive",
	};

	if ((unsigned)status >= sizeof(text) / sizeof(text[0]))
		return "unknown";
	return text[status];
}

/* ---- life ---- */

static int map_events(struct weft_cq *cq)
{
	size_t page = sysconf(_SC_PAGESIZE);

	cq->rb_cons = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, cq->rb_fd, 0);
	if (cq->rb_cons == MAP_FAILED)
		return -errno;
	/* the producer's page, then the data twice */
	cq->rb_len = page + 2 * WEFT_EVENTS_LEN;
	cq->rb_data = mmap(NULL, cq->rb_len, PROT_READ, MAP_SHARED, cq->rb_fd, page);
	if (cq->rb_data == MAP_FAILED)
		return -errno;
	madvise(cq->rb_cons, page, MADV_DONTFORK);
	madvise(cq->rb_data, cq->rb_len, MADV_DONTFORK);
	return 0;
}

static int watch(struct weft_cq *cq, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(cq->ep_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static void release(struct weft_cq *cq)
{
	if (cq->rb_cons && cq->rb_cons != MAP_FAILED)
		munmap(cq->rb_cons, sysconf(_SC_PAGESIZE));
	if (cq->rb_data && cq->rb_data != MAP_FAILED)
		munmap(cq->rb_data, cq->rb_len);
	if (cq->ep_fd >= 0)
		close(cq->ep_fd);
	if (cq->wake_fd >= 0)
		close(cq->wake_fd);
	if (cq->rb_fd >= 0)
		close(cq->rb_fd);
	free(cq->list);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
}

int weft_cq_create(struct weft_dev *dev, struct weft_cq **out)
{
	struct weft_cq *cq = calloc(1, sizeof(*cq));
	int err;

	if (!cq)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	pthread_mutex_init(&cq->lock, NULL);
	cq->dev = dev;
	cq->list = calloc(1, sizeof(*cq->list));
	cq->ep_fd = epoll_create1(EPOLL_CLOEXEC);
	cq->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cq->rb_fd = -1;
	err = !cq->list || cq->ep_fd < 0 || cq->wake_fd < 0 ? -errno : 0;
	if (!err)
		err = dev->priv->cq_new(dev, &cq->rb_fd, &cq->idx);
	if (!err)
		err = map_events(cq);
	if (!err)
		err = watch(cq, cq->rb_fd);
	if (!err)
		err = watch(cq, cq->wake_fd);
	if (err) {
		if (cq->rb_fd >= 0)
			dev->priv->cq_drop(dev, cq->idx);
		release(cq);
		if (err == -EDQUOT) /* weftd has said why */
			return err;
		if (err == -ENOSPC)
			return weft_err(ENOSPC, dev->ifname,
					"all %d CQs are in use; close some, or let QPs share one",
					WEFT_CQS);
		return weft_err(-err, dev->ifname, "a CQ cannot be made: %s", strerror(-err));
	}
	pthread_mutex_lock(&dev->lock);
	LIST_INSERT_HEAD(&dev->cqs, cq, link);
	pthread_mutex_unlock(&dev->lock);
	*out = cq;
	return 0;
}

int weft_cq_destroy(struct weft_cq *cq)
{
	struct weft_dev *dev;
	bool used;

	if (!cq)
		return 0;
	dev = cq->dev;
	pthread_mutex_lock(&cq->lock);
	used = cq->list->n;
	pthread_mutex_unlock(&cq->lock);
	if (used)
		return weft_err(EBUSY, dev->ifname, "the CQ has QPs; close them first");
	dev->priv->cq_drop(dev, cq->idx);
	pthread_mutex_lock(&dev->lock);
	LIST_REMOVE(cq, link);
	pthread_mutex_unlock(&dev->lock);
	release(cq);
	return 0;
}

/* ---- the list of QPs ---- */

/*
 * Poll reads the list without a lock. A new QP is appended in place, or in a
 * larger copy; a QP is removed by replacing the list. What was replaced is
 * freed after weft_grace(), whose barrier on every CPU divides polls into those
 * that were inside (busy is odd, and waited for) and those that see the new
 * list. So poll itself needs no barrier.
 */
static struct weft_cq_list *copy_list(const struct weft_cq_list *old, unsigned cap)
{
	struct weft_cq_list *l = malloc(sizeof(*l) + cap * sizeof(l->qp[0]));

	if (l) {
		l->next = NULL;
		l->n = old->n;
		l->cap = cap;
		memcpy(l->qp, old->qp, old->n * sizeof(l->qp[0]));
	}
	return l;
}

static void retire(struct weft_cq *cq, struct weft_cq_list *l)
{
	struct weft_cq_list *old = cq->list;

	__atomic_store_n(&cq->list, l, __ATOMIC_RELEASE);
	old->next = cq->retired;
	cq->retired = old;
}

int weft_cq_add_qp(struct weft_cq *cq, struct weft_qp *qp)
{
	struct weft_cq_list *l;
	int err = 0;

	pthread_mutex_lock(&cq->lock);
	l = cq->list;
	if (l->n == l->cap) {
		l = copy_list(l, l->cap ? 2 * l->cap : 4);
		if (l)
			retire(cq, l);
		else
			err = -ENOMEM;
	}
	if (!err) {
		l->qp[l->n] = qp;
		__atomic_store_n(&l->n, l->n + 1, __ATOMIC_RELEASE);
		qp->ring->arm_tx = cq->armed & WEFT_ARM_TX ? WEFT_ARMED_ANY : 0;
		qp->ring->arm_rx = !!(cq->armed & WEFT_ARM_RX);
		qp->ring->arm_sol = !!(cq->armed & WEFT_ARM_SOL);
	}
	pthread_mutex_unlock(&cq->lock);
	return err;
}

/* Then a grace period, then weft_cq_quiesce(). */
void weft_cq_del_qp(struct weft_cq *cq, struct weft_qp *qp)
{
	struct weft_cq_list *l;
	unsigned at;

	pthread_mutex_lock(&cq->lock);
	for (at = 0; at < cq->list->n && cq->list->qp[at] != qp; at++)
		;
	if (at < cq->list->n) {
		/* without memory for a copy: poll until there is */
		while (!(l = copy_list(cq->list, cq->list->cap)))
			usleep(10000);
		l->qp[at] = l->qp[--l->n];
		retire(cq, l);
		qp->retired = cq->retired;
		cq->retired = NULL;
	}
	pthread_mutex_unlock(&cq->lock);
}

void weft_cq_quiesce(struct weft_cq *cq, struct weft_qp *qp)
{
	uint32_t busy = __atomic_load_n(&cq->busy, __ATOMIC_ACQUIRE);
	struct weft_cq_list *l;

	if (busy & 1)
		while (__atomic_load_n(&cq->busy, __ATOMIC_ACQUIRE) == busy)
			usleep(50);
	while ((l = qp->retired)) {
		qp->retired = l->next;
		free(l);
	}
}

/* ---- poll ---- */

/* Bytes have come into the copy of a staged region: on to where they belong. */
static bool copied_out(const struct weft_qp *qp, uint32_t at)
{
	const struct weft_sge *g = &qp->staged[at & qp->sq_mask];

	return !weft_stage_out(g->mr, g->off, g->len);
}

static int take(struct weft_qp *qp, struct weft_wc *wc, int n)
{
	uint32_t prod = __atomic_load_n(&qp->prod, __ATOMIC_ACQUIRE), polled = qp->polled;
	uint32_t done, end;
	int status, got = 0;

	if (prod == polled)
		return 0;
	status = __atomic_load_n(&qp->status, __ATOMIC_ACQUIRE);
	if (status) {
		done = qp->final_done;
		end = prod;
	} else {
		done = end = __atomic_load_n(&qp->ring->sq_done, __ATOMIC_ACQUIRE);
		if (end == polled) {
			/* XDP has seen an error: the control thread carries it out */
			if (qp->ring->tx_err && !qp->poked) {
				qp->poked = 1;
				weft_ctl_poke(qp->dev);
			}
			return 0;
		}
		if (end - polled > prod - polled)
			end = prod;
	}
	for (; polled != end && got < n; polled++) {
		const struct weft_posted *wr = &qp->wr[polled & qp->sq_mask];
		enum weft_wc_status st = WEFT_WC_SUCCESS;

		if ((int32_t)(polled - done) >= 0)
			st = polled == qp->err_at ? (enum weft_wc_status)status : WEFT_WC_FLUSH_ERR;
		else if (wr->how & WEFT_HOW_STAGE && !copied_out(qp, polled))
			qp->copy_failed = true;
		if (qp->copy_failed && !(wr->how & WEFT_HOW_PART)) {
			qp->copy_failed = false;
			if (st == WEFT_WC_SUCCESS)
				st = WEFT_WC_LOC_PROT_ERR;
		}
		if (wr->how & WEFT_HOW_PART || (wr->how & WEFT_HOW_QUIET && st == WEFT_WC_SUCCESS))
			continue;
		*wc++ = (struct weft_wc){
			.wr_id = wr->wr_id,
			.qp = qp,
			.status = st,
			.len = wr->len,
			.op = wr->op,
		};
		got++;
	}
	__atomic_store_n(&qp->polled, polled, __ATOMIC_RELEASE);
	return got;
}

int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wc, int n)
{
	const struct weft_cq_list *l;
	unsigned nq, at;
	int got = 0;

	__atomic_store_n(&cq->busy, cq->busy + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	l = __atomic_load_n(&cq->list, __ATOMIC_ACQUIRE);
	nq = __atomic_load_n(&l->n, __ATOMIC_ACQUIRE);
	at = cq->next;
	for (unsigned i = 0; i < nq && got < n; i++) {
		if (at >= nq)
			at = 0;
		struct weft_qp *qp = l->qp[at++];

		got += take(qp, wc + got, n - got);
		if (qp->rq && got < n)
			got += weft_recv_take(qp, wc + got, n - got);
	}
	cq->next = at;
	__atomic_store_n(&cq->busy, cq->busy + 1, __ATOMIC_RELEASE);
	return got;
}
