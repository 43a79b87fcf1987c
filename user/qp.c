// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs: their slot, ring and tables, the way into and out of the error state, statistics. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "internal.h"
#include "priv.h"
#include "cm_wire.h"

#define CONNECT_MS 5000
#define TIMEOUT_MS 1000
#define IDLE_MS    2500
#define IDLE_MIN   2000 /* a kernel asks once a second; that may get lost, and be made up for */

int weft_qp_check(struct weft_dev *dev, const struct weft_qp_opts *in, struct weft_qp_opts *o)
{
	uint32_t depth;

	memset(o, 0, sizeof(*o));
	/* none of them may be ignored because somebody forgot the size */
	if (in && (in->size < offsetof(struct weft_qp_opts, cq) || in->size > sizeof(*o)))
		return weft_err(EINVAL, dev->ifname,
				"options of %zu bytes are not known; set their size", in->size);
	if (in)
		memcpy(o, in, in->size);
	if (!o->evs)
		o->evs = WEFT_EVS_DEFAULT;
	if (!o->cwnd)
		o->cwnd = WEFT_CWND_DEFAULT;
	if (!o->timeout_ms)
		o->timeout_ms = TIMEOUT_MS;
	if (!o->idle_ms)
		o->idle_ms = IDLE_MS;
	if (!o->connect_ms)
		o->connect_ms = CONNECT_MS;
	if (o->evs > WEFT_EV_MAX)
		return weft_err(EINVAL, dev->ifname, "evs is %u; 1 to %d", o->evs, WEFT_EV_MAX);
	if (o->cwnd > WEFT_CWND_MAX)
		return weft_err(EINVAL, dev->ifname, "cwnd is %u; 1 to %d packets", o->cwnd,
				WEFT_CWND_MAX);
	if (o->timeout_ms < 10 || o->timeout_ms > 600000)
		return weft_err(EINVAL, dev->ifname, "timeout_ms is %u; 10 to 600000",
				o->timeout_ms);
	if ((o->idle_ms < IDLE_MIN || o->idle_ms > 600000) && o->idle_ms != UINT32_MAX)
		return weft_err(EINVAL, dev->ifname, "idle_ms is %u; 2000 to 600000, UINT32_MAX",
				o->idle_ms);
	if (o->retry_cnt > 1000)
		return weft_err(EINVAL, dev->ifname, "retry_cnt is %u; 0 to 1000", o->retry_cnt);
	if (o->priv_len && !o->priv)
		return weft_err(EINVAL, dev->ifname,
				"priv is NULL, and priv_len %zu; pass the data", o->priv_len);
	if (o->priv_len > WEFT_PRIVATE_MAX)
		return weft_err(EINVAL, dev->ifname, "%zu bytes of private data; 0 to %d",
				o->priv_len, WEFT_PRIVATE_MAX);
	if ((o->cq && o->cq->dev != dev) || (o->pd && o->pd->dev != dev))
		return weft_err(EINVAL, dev->ifname, "CQ and PD must be of the same device");
	if (o->recvs > WEFT_RQ_DEPTH)
		return weft_err(EINVAL, dev->ifname, "recvs is %u; up to %d", o->recvs,
				WEFT_RQ_DEPTH);
	if (o->sq_depth > WEFT_DEPTH_MAX)
		return weft_err(EINVAL, dev->ifname, "sq_depth is %u; up to %d", o->sq_depth,
				WEFT_DEPTH_MAX);
	if (o->strict > 1)
		return weft_err(EINVAL, dev->ifname, "strict is %u; 0 or 1", o->strict);
	for (depth = WEFT_DEPTH; depth < o->sq_depth; depth *= 2)
		;
	o->sq_depth = depth;
	if (o->srq && o->recvs)
		return weft_err(EINVAL, dev->ifname,
				"a QP has receives of its own or an SRQ, not both");
	if (o->srq && (o->srq->dev != dev || o->srq->pd != (o->pd ? o->pd : dev->pd0)))
		return weft_err(EINVAL, dev->ifname, "SRQ and QP must be of one PD");
	if (!o->pd)
		o->pd = dev->pd0;
	return o->pd ? 0 : -EINVAL;
}

/* A QP that nobody has heard of yet. weft_qp_destroy() takes it back. */
int weft_qp_alloc(struct weft_dev *dev, const struct weft_qp_opts *opts, struct weft_qp **out)
{
	struct weft_qp_opts o;
	struct weft_qp *qp;
	int err = weft_qp_check(dev, opts, &o);

	if (err)
		return err;
	if (__atomic_load_n(&dev->dead, __ATOMIC_ACQUIRE))
		return weft_err(ENODEV, dev->ifname, "%s; close and open it again",
				weft_dev_lost(dev));
	qp = calloc(1, sizeof(*qp) + o.sq_depth * sizeof(qp->wr[0]));
	if (!qp)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	qp->dev = dev;
	qp->cm_fd = -1;
	qp->timeout_ms = o.timeout_ms;
	qp->idle_ms = o.idle_ms;
	qp->retry_cnt = o.retry_cnt;
	qp->rnr_retries = o.rnr_retries;
	qp->strict = o.strict;
	qp->sq_mask = o.sq_depth - 1;
	if (o.cq) {
		qp->cq = o.cq;
	} else {
		err = weft_cq_create(dev, &qp->cq);
		if (err)
			goto err_free;
		qp->own_cq = true;
	}

	pthread_mutex_lock(&dev->lock);
	err = weft_rings_take(dev, qp);
	if (!err) {
		err = dev->priv->qp_take(dev, qp->ring_idx, o.sq_depth, o.cwnd, o.evs, &qp->num);
		if (err)
			weft_rings_give(dev, qp);
	}
	if (!err) {
		qp->slot = WEFT_QPN_SLOT(qp->num);
		qp->pd = o.pd;
		qp->pd->refs++;
		qp->pd_id = qp->pd->id;
		LIST_INSERT_HEAD(&dev->qps, qp, link);
	}
	pthread_mutex_unlock(&dev->lock);
	if (err)
		goto err_cq;

	err = weft_recv_attach(qp, &o);
	if (err) {
		weft_qp_destroy(qp);
		return err;
	}
	err = weft_cq_add_qp(qp->cq, qp);
	if (err) {
		weft_qp_destroy(qp);
		return weft_err(-err, dev->ifname, "out of memory");
	}
	*out = qp;
	return 0;
err_cq:
	if (qp->own_cq)
		weft_cq_destroy(qp->cq);
err_free:
	free(qp);
	return err;
}

/* Our side of the bargain; random parts are drawn here. */
void weft_qp_offer(struct weft_qp *qp, bool v6, struct weft_cm_msg *m)
{
	const struct weft_devcfg *cfg = qp->dev->maps.cfg;
	uint32_t path = weft_path_payload(cfg->mtu, v6);
	uint64_t rnd[3];

	while (getrandom(rnd, sizeof(rnd), 0) != sizeof(rnd))
		;
	m->qpn = qp->num;
	m->psn = rnd[0] & ~7u; /* so that telemetry sees the first ACK */
	m->conn = rnd[1];
	m->secret = rnd[2];
	m->payload = path < cfg->payload ? path : cfg->payload;
	m->flags = (cfg->flags & WEFT_DEV_CSUM4 ? WEFT_CM_CSUM : 0) |
		   (qp->strict ? WEFT_CM_STRICT : 0);
	m->port = cfg->port;
}

/* The CPUs that the calling thread may run on: so `taskset` confines the packet work too. */
static uint64_t my_cpus(void)
{
	cpu_set_t set;
	uint64_t mask = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (unsigned c = 0; c < 64; c++)
		mask |= CPU_ISSET(c, &set) ? 1ull << c : 0;
	return mask;
}

/* Strict if either side wants that; then without segments that are free of it where one knows none. */
static uint32_t order_of(uint32_t flags, uint32_t features)
{
	if (!(flags & WEFT_CM_STRICT))
		return 0;
	return features & WEFT_CM_F_FREE ? WEFT_LIVE_FREE : WEFT_LIVE_STRICT;
}

/* Both offers are known and cm_fd is connected: the QP goes live. */
int weft_qp_establish(struct weft_qp *qp, const struct weft_cm_msg *mine,
		      const struct weft_cm_msg *theirs)
{
	struct weft_dev *dev = qp->dev;
	struct weft_live l = {
		.num = qp->num,
		.pd = qp->pd_id,
		.cq = qp->cq->idx,
		.tx_psn = mine->psn,
		.rx_psn = theirs->psn,
		.payload = mine->payload < theirs->payload ? mine->payload : theirs->payload,
		.dqpn = theirs->qpn,
		.csum = (mine->flags | theirs->flags) & WEFT_CM_CSUM,
		.port = theirs->port,
		.rq = qp->rq ? qp->rq->idx + 1 : 0,
		.srq = qp->rq && qp->rq->shared,
		.strict = order_of(mine->flags | theirs->flags, mine->features & theirs->features),
		.many = (mine->features & theirs->features & WEFT_CM_F_WRITES) != 0,
		.conn = mine->conn ^ theirs->conn,
		.secret = mine->secret ^ theirs->secret,
		.cpus = my_cpus(),
		.local = qp->local,
		.peer = qp->peer,
		.cm_fd = qp->cm_fd,
	};
	int err;

	if (!mine->payload)
		return weft_err(EMSGSIZE, dev->ifname, "its MTU %u is too small; raise it",
				dev->maps.cfg->mtu);
	qp->ring->tx_una = qp->seen_una = mine->psn;
	qp->features = mine->features & theirs->features;
	memcpy(qp->priv, theirs->priv, theirs->priv_len);
	qp->priv_len = theirs->priv_len;
	err = dev->priv->qp_live(dev, &l, qp->nexthop);
	if (err)
		return err;
	err = weft_ctl_watch_qp(qp);
	if (err)
		return weft_err(-err, dev->ifname, "the QP cannot be watched: %s", strerror(-err));
	return 0;
}

enum weft_wc_status weft_nak_status(uint32_t code)
{
	switch (code) {
	case WEFT_NAK_KEY:
	case WEFT_NAK_BOUNDS:
	case WEFT_NAK_RIGHTS:
	case WEFT_NAK_PD:
	case WEFT_NAK_ALIGN: return WEFT_WC_REM_ACCESS_ERR;
	case WEFT_NAK_CLOSED:
	case WEFT_NAK_MEMORY: return WEFT_WC_REM_CLOSED_ERR;
	case WEFT_NAK_LENGTH: return WEFT_WC_REM_INV_REQ_ERR;
	case WEFT_NAK_RECEIVE: return WEFT_WC_REM_OP_ERR;
	default: return WEFT_WC_GENERAL_ERR;
	}
}

/* What XDP has reported of the sending side; SUCCESS: nothing. */
static enum weft_wc_status ring_status(const struct weft_ring *r)
{
	switch (__atomic_load_n(&r->tx_err, __ATOMIC_ACQUIRE)) {
	case WEFT_TX_OK: return WEFT_WC_SUCCESS;
	case WEFT_TX_ERR_NAK: return weft_nak_status(r->tx_err_info);
	case WEFT_TX_ERR_LOCAL: return WEFT_WC_LOC_PROT_ERR;
	default: return WEFT_WC_GENERAL_ERR;
	}
}

/*
 * True: the caller carries the failure out: weft_qp_fail_stop(), after which no packet of this QP
 * starts any more, then weft_qp_fail_end().
 */
bool weft_qp_fail_begin(struct weft_qp *qp, enum weft_wc_status why)
{
	int none = 0;

	return __atomic_compare_exchange_n(&qp->failing, &none, (int)why, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void stop_all(struct weft_qp **qp, unsigned n, uint32_t state)
{
	uint32_t nums[WEFT_STOP_MAX];

	for (unsigned k; n; n -= k, qp += k) {
		for (k = 0; k < n && k < WEFT_STOP_MAX; k++)
			nums[k] = qp[k]->num;
		qp[0]->dev->priv->qp_stop(qp[0]->dev, nums, k, state);
	}
}

/* QPs of one device, WEFT_STOP_MAX of them in one grace period. */
void weft_qp_fail_stop(struct weft_qp **qp, unsigned n)
{
	stop_all(qp, n, WEFT_QP_ERR);
}

/* Either side has ended it, with nothing of ours outstanding: an end, and no failure to remember. */
static bool orderly(const struct weft_qp *qp, enum weft_wc_status why)
{
	uint32_t code, arrived;

	if (qp->prod != qp->final_done)
		return false;
	return why == WEFT_WC_FLUSH_ERR ||
	       (why == WEFT_WC_REM_CLOSED_ERR && qp->bye_ok &&
		!weft_cm_bye_parse(qp->bye, &code, &arrived) && code == WEFT_NAK_CLOSED);
}

/* What the trace shall say of it. */
static void describe(const struct weft_qp *qp, enum weft_wc_status why, struct weft_failed *f)
{
	const struct weft_ring *r = qp->ring;
	uint64_t since = why == WEFT_WC_RNR_RETRY_EXC_ERR ? qp->wait_ns : qp->seen_ns;
	uint64_t now = weft_now_ns();

	*f = (struct weft_failed){
		.num = qp->num, .why = why, .err = r->tx_err, .ssn = r->tx_err_ssn
	};
	if (qp->told != r->sq_done && now > since)
		f->idle_ms = (now - since) / 1000000;
	if (why == WEFT_WC_FLUSH_ERR)
		f->ssn = qp->prod - qp->final_done;
	if (r->tx_err == WEFT_TX_ERR_NAK) {
		f->code = r->tx_err_info;
	} else if (!r->tx_err && r->rx_err) {
		f->code = r->rx_err;
		f->err = WEFT_TRACE_WE;
	}
	f->orderly = orderly(qp, why);
}

/* After the grace period: what was completed is final; say so, to the peer as well. */
void weft_qp_fail_end(struct weft_qp *qp)
{
	struct weft_ring *r = qp->ring;
	enum weft_wc_status why = qp->failing, seen = ring_status(r);
	uint32_t prod = __atomic_load_n(&qp->prod, __ATOMIC_ACQUIRE);
	uint32_t done = __atomic_load_n(&r->sq_done, __ATOMIC_ACQUIRE);
	struct weft_failed f;

	done = weft_post_acked(qp, done);
	qp->final_done = qp->err_at = done;
	if (seen != WEFT_WC_SUCCESS && why != WEFT_WC_DEV_ERR) {
		why = seen;
		if (why != WEFT_WC_REM_CLOSED_ERR && r->tx_err_ssn - done < prod - done)
			qp->err_at = r->tx_err_ssn;
	}
	/* the completion of a request is that of its last part */
	qp->err_at = weft_post_end(qp, qp->err_at, prod);
	describe(qp, why, &f);
	qp->dev->priv->qp_failed(qp->dev, &f);
	__atomic_store_n(&qp->status, (int)why, __ATOMIC_RELEASE);
	weft_cm_bye(qp, r->rx_err ? r->rx_err : WEFT_NAK_CLOSED);
	if (why == WEFT_WC_FLUSH_ERR)
		weft_logf(WEFT_LOG_INFO, "%s: %s by the application", weft_qp_name(qp),
			  f.orderly ? "disconnected" : "aborted");
	else
		weft_logf(WEFT_LOG_INFO, "%s: %s: %s", weft_qp_name(qp),
			  f.orderly ? "ended" : "failed", weft_wc_str(why));
	if (why == WEFT_WC_REM_CLOSED_ERR)
		weft_event_put(qp->dev, WEFT_EVENT_PEER_CLOSED, qp, f.orderly ? 0 : why);
	if (!f.orderly && why != WEFT_WC_FLUSH_ERR) /* that is our own doing */
		weft_event_put(qp->dev, WEFT_EVENT_QP_FATAL, qp, why);
	weft_cq_wake(qp->cq);
}

/* Nobody here looks at it any more once the grace period of stop_all() is over. */
static void hide(struct weft_qp *qp)
{
	weft_ctl_unwatch_qp(qp);
	weft_cq_del_qp(qp->cq, qp);
}

static void release(struct weft_qp *qp)
{
	struct weft_dev *dev = qp->dev;
	struct weft_failed f;

	weft_cq_quiesce(qp->cq, qp);
	weft_event_forget(dev, qp);
	describe(qp, weft_qp_status(qp), &f);
	weft_cm_bye(qp, qp->ring->rx_err ? qp->ring->rx_err : WEFT_NAK_CLOSED);
	if (qp->cm_fd >= 0)
		close(qp->cm_fd);
	/* a reason: seen by XDP, and closed before it was carried out */
	dev->priv->qp_free(dev, qp->num, f.why ? &f : NULL);
	weft_recv_detach(qp);
	weft_inline_free(qp);
	free(qp->staged);

	pthread_mutex_lock(&dev->lock);
	LIST_REMOVE(qp, link);
	weft_rings_give(dev, qp);
	qp->pd->refs--;
	pthread_mutex_unlock(&dev->lock);
	if (qp->own_cq)
		weft_cq_destroy(qp->cq);
	free(qp);
}

void weft_qp_destroy_all(struct weft_qp **qp, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hide(qp[i]);
	stop_all(qp, n, WEFT_QP_CLOSED);
	for (unsigned i = 0; i < n; i++)
		release(qp[i]);
}

void weft_qp_destroy_those(struct weft_dev *dev)
{
	struct weft_qp **all = calloc(dev->nrings, sizeof(*all)), *qp;
	unsigned n = 0;

	if (all) {
		LIST_FOREACH(qp, &dev->qps, link)
			all[n++] = qp;
		weft_qp_destroy_all(all, n);
		free(all);
	}
	/* without the memory one by one */
	while ((qp = LIST_FIRST(&dev->qps)))
		weft_qp_destroy(qp);
}

void weft_qp_destroy(struct weft_qp *qp)
{
	weft_qp_destroy_all(&qp, 1);
}

void weft_qp_close(struct weft_qp *qp)
{
	if (qp)
		weft_qp_destroy(qp);
}

enum weft_wc_status weft_qp_status(const struct weft_qp *qp)
{
	int st = __atomic_load_n(&qp->status, __ATOMIC_ACQUIRE);

	if (st)
		return st;
	/* seen by XDP, not yet carried out */
	st = ring_status(qp->ring);
	if (!st && __atomic_load_n(&qp->ring->rx_err, __ATOMIC_RELAXED))
		st = WEFT_WC_GENERAL_ERR;
	return st;
}
