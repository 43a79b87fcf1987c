// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive queues: a QP's own and shared ones; posting to them, completions, waking a peer that waits. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "internal.h"
#include "priv.h"

#define FULL "its receive queue is full; poll completions first"

/* ---- life ---- */

static void free_queue(struct weft_srq *rq)
{
	if (rq->head)
		munmap(rq->head, weft_rq_bytes(rq->depth));
	if (rq->fd >= 0) {
		close(rq->fd);
		rq->dev->priv->rq_drop(rq->dev, rq->idx);
	}
	pthread_mutex_destroy(&rq->lock);
	free(rq->wr_id);
	free(rq->busy);
	free(rq->spare);
	free(rq);
}

static int map_queue(struct weft_srq *rq)
{
	size_t len = weft_rq_bytes(rq->depth);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, rq->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	madvise(p, len, MADV_DONTFORK);
	rq->head = p;
	rq->e = (struct weft_rqe *)p + 1;
	return 0;
}

static int new_queue(struct weft_dev *dev, struct weft_pd *pd, unsigned depth, bool shared,
		     struct weft_srq **out)
{
	struct weft_srq *rq = calloc(1, sizeof(*rq));
	int err = 0;

	if (!rq)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	pthread_mutex_init(&rq->lock, NULL);
	rq->dev = dev;
	rq->pd = pd;
	rq->fd = -1;
	rq->shared = shared;
	for (rq->depth = 1; rq->depth < depth; rq->depth *= 2)
		;
	rq->wr_id = calloc(rq->depth, sizeof(*rq->wr_id));
	rq->busy = calloc(rq->depth, 1);
	rq->spare = calloc(rq->depth, sizeof(*rq->spare));
	if (!rq->wr_id || !rq->busy || !rq->spare)
		err = -ENOMEM;
	while (!err && rq->nspare < rq->depth) {
		rq->spare[rq->nspare] = rq->nspare;
		rq->nspare++;
	}
	if (!err)
		err = dev->priv->rq_new(dev, rq->depth, &rq->fd, &rq->idx);
	if (!err)
		err = map_queue(rq);
	if (err) {
		free_queue(rq);
		if (err == -EDQUOT) /* weftd has said why */
			return err;
		if (err == -ENOSPC)
			return weft_err(ENOSPC, dev->ifname,
					"all %d receive queues are in use; close some, or let QPs "
					"share one (SRQ)",
					WEFT_RQS);
		return weft_err(-err, dev->ifname, "a receive queue of %u cannot be made: %s",
				depth, strerror(-err));
	}
	*out = rq;
	return 0;
}

int weft_srq_create(struct weft_dev *dev, struct weft_pd *pd, unsigned depth, struct weft_srq **out)
{
	int err;

	if (depth < 1 || depth > WEFT_RQ_DEPTH)
		return weft_err(EINVAL, dev->ifname, "an SRQ of %u entries; 1 to %d", depth,
				WEFT_RQ_DEPTH);
	if (pd && pd->dev != dev)
		return weft_err(EINVAL, dev->ifname, "SRQ and PD must be of the same device");
	if (!pd)
		pd = dev->pd0;
	err = new_queue(dev, pd, depth, true, out);
	if (err)
		return err;
	pthread_mutex_lock(&dev->lock);
	pd->refs++;
	LIST_INSERT_HEAD(&dev->srqs, *out, link);
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

int weft_srq_destroy(struct weft_srq *srq)
{
	struct weft_dev *dev;
	bool used;

	if (!srq)
		return 0;
	dev = srq->dev;
	pthread_mutex_lock(&srq->lock);
	used = !LIST_EMPTY(&srq->qps);
	pthread_mutex_unlock(&srq->lock);
	if (used)
		return weft_err(EBUSY, dev->ifname, "the SRQ has QPs; close them first");
	pthread_mutex_lock(&dev->lock);
	LIST_REMOVE(srq, link);
	srq->pd->refs--;
	pthread_mutex_unlock(&dev->lock);
	free_queue(srq);
	return 0;
}

int weft_recv_attach(struct weft_qp *qp, const struct weft_qp_opts *o)
{
	int err;

	if (o->recvs) {
		err = new_queue(qp->dev, o->pd, o->recvs, false, &qp->rq);
		if (!err)
			qp->rq->qpn = qp->num;
		return err;
	}
	if (!o->srq)
		return 0;
	qp->rq = o->srq;
	pthread_mutex_lock(&qp->rq->lock);
	LIST_INSERT_HEAD(&qp->rq->qps, qp, of_srq);
	pthread_mutex_unlock(&qp->rq->lock);
	return 0;
}

/* After its grace period. */
void weft_recv_detach(struct weft_qp *qp)
{
	struct weft_srq *rq = qp->rq;
	struct weft_wc wc[16];

	if (!rq)
		return;
	if (rq->shared) {
		/* entries that its messages have taken, and nobody will poll, are free again */
		if (!qp->status)
			qp->status = WEFT_WC_FLUSH_ERR;
		while (weft_recv_take(qp, wc, 16) > 0)
			;
		pthread_mutex_lock(&rq->lock);
		LIST_REMOVE(qp, of_srq);
		pthread_mutex_unlock(&rq->lock);
	} else {
		free_queue(rq);
	}
	qp->rq = NULL;
}

/* ---- posting ---- */

/* XDP has told the peer that there is no receive: now there is. */
static void resume(struct weft_qp *qp)
{
	const struct weft_qpctl *ctl = &qp->dev->maps.ctl[qp->slot];
	unsigned len = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;

	/* should it get lost, the peer asks by itself */
	weft_doorbell(qp->dev, qp->num, WEFT_DB_RESUME, len);
}

static int check(const struct weft_srq *rq, const struct weft_recv *r)
{
	if (r->nsge && !r->sge)
		return weft_err_quiet(EINVAL, weft_obj(rq->dev->ifname, rq->qpn),
				      "sge is NULL, and nsge %u; pass the pieces", r->nsge);
	if (r->nsge > WEFT_RECV_SGE_MAX)
		return weft_err_quiet(EINVAL, weft_obj(rq->dev->ifname, rq->qpn),
				      "a receive of %u pieces; up to %u", r->nsge,
				      WEFT_RECV_SGE_MAX);
	for (unsigned i = 0; i < r->nsge; i++) {
		if (!weft_sge_ok(rq->dev, rq->pd->id, &r->sge[i], WEFT_LOCAL_WRITE))
			return weft_sge_err(rq->dev, rq->qpn, rq->pd->id, &r->sge[i],
					    WEFT_LOCAL_WRITE);
	}
	return 0;
}

static void put(struct weft_rqe *e, const struct weft_recv *r)
{
	memset(e->sge, 0, sizeof(e->sge));
	/* a peer that miscounts may have it complete without a message: not as long as an earlier one */
	e->len = e->imm = e->flags = e->status = 0;
	for (unsigned i = 0; i < r->nsge; i++) {
		e->sge[i].off = r->sge[i].off;
		e->sge[i].len = r->sge[i].len;
		e->sge[i].lkey = weft_mr_key(r->sge[i].mr);
	}
}

/* A free entry for the next receive; false: there is none. */
static bool take_spare(struct weft_srq *rq, uint32_t *at)
{
	bool got;

	if (!rq->shared) {
		*at = rq->prod & (rq->depth - 1);
		return !__atomic_load_n(&rq->busy[*at], __ATOMIC_ACQUIRE);
	}
	/* its messages complete in any order */
	pthread_mutex_lock(&rq->lock);
	got = rq->nspare != 0;
	if (got)
		*at = rq->spare[--rq->nspare];
	pthread_mutex_unlock(&rq->lock);
	return got;
}

static void give_spare(struct weft_srq *rq, uint32_t at)
{
	if (!rq->shared) {
		__atomic_store_n(&rq->busy[at], 0, __ATOMIC_RELEASE);
		return;
	}
	pthread_mutex_lock(&rq->lock);
	rq->busy[at] = 0;
	rq->spare[rq->nspare++] = at;
	pthread_mutex_unlock(&rq->lock);
}

/* How many of them there was room for; -errno when for none. Nobody sees them yet. */
static int put_all(struct weft_srq *rq, const struct weft_recv *r, int n)
{
	int done, err = 0;

	if (n < 1)
		return weft_err_quiet(EINVAL, weft_obj(rq->dev->ifname, rq->qpn),
				      "%d receives to post; 1 or more", n);
	for (done = 0; done < n; done++, r++) {
		uint32_t at = 0;

		err = check(rq, r);
		if (!err && !take_spare(rq, &at))
			err = weft_err_often(EAGAIN, rq->dev->ifname, rq->qpn, FULL);
		if (err)
			break;
		put(&rq->e[at], r);
		rq->e[rq->prod & (rq->depth - 1)].order = at;
		rq->wr_id[at] = r->wr_id;
		__atomic_store_n(&rq->busy[at], 1, __ATOMIC_RELAXED);
		rq->prod++;
	}
	return done ? done : err;
}

int weft_post_recv(struct weft_qp *qp, const struct weft_recv *r, int n)
{
	int done;

	if (!qp || !r)
		return weft_no_arg(qp, "post_recv");
	if (!qp->rq || qp->rq->shared)
		return weft_err_quiet(EINVAL, weft_qp_name(qp),
				      qp->rq ? "it takes receives from an SRQ; post to that"
					     : "it has no receive queue; set recvs");
	if (__atomic_load_n(&qp->status, __ATOMIC_RELAXED))
		return weft_qp_dead(qp);
	done = put_all(qp->rq, r, n);
	if (done > 0 && weft_ring_offer(qp->ring, &qp->rq->head->prod, qp->rq->prod))
		resume(qp);
	return done;
}

/* The steps of weft_ring_offer(), each for all QPs. */
int weft_srq_post(struct weft_srq *srq, const struct weft_recv *r, int n)
{
	struct weft_qp *qp;
	int done;

	if (!srq || !r)
		return weft_no_arg(NULL, srq ? weft_obj(srq->dev->ifname, 0) : "srq_post");
	done = put_all(srq, r, n);
	if (done <= 0)
		return done;
	pthread_mutex_lock(&srq->lock);
	LIST_FOREACH(qp, &srq->qps, of_srq)
		qp->waits = weft_ring_refusal(qp->ring);
	__atomic_store_n(&srq->head->prod, srq->prod, __ATOMIC_RELEASE);
	__sync_synchronize();
	LIST_FOREACH(qp, &srq->qps, of_srq)
		if (qp->waits || __atomic_load_n(&qp->ring->refused, __ATOMIC_RELAXED))
			resume(qp);
	pthread_mutex_unlock(&srq->lock);
	return done;
}

/* ---- completions ---- */

static enum weft_wc_status refused_status(uint32_t code)
{
	switch (code) {
	case 0: return WEFT_WC_FLUSH_ERR;
	case WEFT_NAK_LENGTH: return WEFT_WC_LOC_LEN_ERR;
	default: return WEFT_WC_LOC_PROT_ERR;
	}
}

static void complete(struct weft_qp *qp, uint32_t at, bool ok, struct weft_wc *wc)
{
	struct weft_srq *rq = qp->rq;
	const struct weft_rqe *e = &rq->e[at];

	*wc = (struct weft_wc){ .wr_id = rq->wr_id[at], .qp = qp, .op = WEFT_WR_RECV };
	if (ok) {
		wc->len = e->len;
		wc->imm = e->imm;
		if (e->flags & WEFT_RQE_WRITE)
			wc->op = WEFT_WR_RECV_IMM;
		if (e->flags & WEFT_RQE_IMM)
			wc->flags |= WEFT_WC_IMM;
		if (e->flags & WEFT_RQE_SOL)
			wc->flags |= WEFT_WC_SOLICITED;
	} else {
		wc->status = refused_status(e->status);
	}
	give_spare(rq, at);
}

/* The place in the queue of the entry that message number rsn took; false: it took none. */
static bool place_of(const struct weft_qp *qp, uint32_t rsn, uint32_t *at)
{
	const struct weft_srq *rq = qp->rq;
	bool took = true;

	*at = rsn;
	if (rq->shared)
		took = weft_rq_bound(qp->ring->bind, rsn, at) == WEFT_RQ_OK;
	*at &= rq->depth - 1;
	return took;
}

/*
 * In error: own receives are flushed to the last that was posted; of a shared queue those that
 * messages had taken, complete or not. The next of them; false: there is none.
 */
static bool next_flushed(struct weft_qp *qp, uint32_t *at)
{
	const struct weft_srq *rq = qp->rq;
	uint32_t end =
		rq->shared ? WEFT_RQ_BIND
			   : __atomic_load_n(&rq->head->prod, __ATOMIC_ACQUIRE) - qp->recv_polled;

	/* a queue written over may say that it has more than it can */
	if (!rq->shared && end > rq->depth)
		end = rq->depth;
	for (; qp->recv_flushed < end; qp->recv_flushed++)
		if (place_of(qp, qp->recv_polled + qp->recv_flushed, at) && rq->busy[*at])
			return true;
	return false;
}

static int flush(struct weft_qp *qp, struct weft_wc *wc, int n)
{
	int got = 0;
	uint32_t at;

	while (got < n && next_flushed(qp, &at)) {
		/* an entry of a shared queue may be posted again at once, and is not ours then */
		qp->recv_flushed++;
		complete(qp, at, false, &wc[got++]);
	}
	return got;
}

int weft_recv_take(struct weft_qp *qp, struct weft_wc *wc, int n)
{
	int status = __atomic_load_n(&qp->status, __ATOMIC_ACQUIRE), got = 0;
	uint32_t end = __atomic_load_n(&qp->ring->received, __ATOMIC_ACQUIRE);
	uint32_t polled = qp->recv_polled, at;

	/* what XDP counts runs ahead of what was posted by a window at most; a ring written over may */
	if (end - polled > WEFT_RQ_DEPTH)
		return status ? flush(qp, wc, n) : 0;
	for (; polled != end && got < n; polled++)
		if (place_of(qp, polled, &at) && qp->rq->busy[at])
			complete(qp, at, true, &wc[got++]);
	if (polled != qp->recv_polled) {
		qp->recv_polled = polled;
		if (qp->rq->shared && weft_ring_offer(qp->ring, &qp->ring->rq_polled, polled))
			resume(qp);
	}
	if (status && polled == end && got < n)
		got += flush(qp, wc + got, n - got);
	return got;
}

bool weft_recv_ready(struct weft_qp *qp, bool sol)
{
	int status = __atomic_load_n(&qp->status, __ATOMIC_ACQUIRE);
	uint32_t end = __atomic_load_n(&qp->ring->received, __ATOMIC_ACQUIRE), at;

	if (status && next_flushed(qp, &at))
		return true;
	if (!sol)
		return end != qp->recv_polled;
	for (uint32_t i = qp->recv_polled; i != end && i - qp->recv_polled <= WEFT_RQ_DEPTH; i++)
		if (place_of(qp, i, &at) && qp->rq->e[at].flags & WEFT_RQE_SOL)
			return true;
	return false;
}

_Static_assert(WEFT_RECV_SGE_MAX == WEFT_RQ_SGES, "pieces of a receive");
