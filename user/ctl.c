// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The control thread of a device: retransmission timer, time-outs, and the end of peers. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "ctl.h"
#include "priv.h"
#include "cm_wire.h"

#define MS           1000000ull
/*
 * The timer runs only while something is outstanding, and QUIET_MS longer, so
 * that an application which sends now and then does not start it every time. A
 * device whose QPs have all moved at SMOOTH ticks in a row is looked at less.
 */
#define TICK         (2 * MS)
#define TICK_SMOOTH  (8 * MS)
#define SMOOTH       32
#define QUIET_MS     20
#define LOOK_MIN     (2 * MS) /* no progress for so long: XDP is asked to look; the minimum RTO */
#define LOOK_MAX     (10 * MS)
#define GAP_MAX      (50 * MS)   /* longer between two ticks: we were stopped, not the peer */
#define SETTLE       (5 * MS)    /* for ACKs on their way when something has gone wrong */
#define BYE_WAIT     (100 * MS)  /* the peer said "closed"; its BYE says how far it got */
#define DOWN_EARLY   (100 * MS)  /* a tick, a grace period and a wake-up, on a busy machine */
#define PURGE        (1000 * MS) /* how often a busy device looks for what dead processes left */
#define RNR_GAP      (200 * MS)  /* more than two probes of a peer without receives are apart */
#define DB_FRAME_MIN 60

enum tag { TAG_KICK, TAG_TIMER, TAG_NETLINK, TAG_IDLE, TAG_QP };

static void poke(struct weft_ctl *c)
{
	uint64_t one = 1;

	(void)!write(c->kick_fd, &one, sizeof(one));
}

void weft_ctl_poke(struct weft_dev *dev)
{
	poke(dev->ctl);
}

/* After weft_ring_publish(), whose barrier stands between the post and this look at `active`. */
void weft_ctl_kick(struct weft_dev *dev)
{
	struct weft_ctl *c = dev->ctl;

	if (!__atomic_load_n(&c->active, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&c->active, 1, __ATOMIC_ACQ_REL))
		poke(c);
}

static void set_timer(struct weft_ctl *c, uint64_t period)
{
	struct itimerspec t = { .it_interval.tv_nsec = period, .it_value.tv_nsec = period };

	if (c->period == period)
		return;
	c->period = period;
	timerfd_settime(c->timer_fd, 0, &t, NULL);
}

bool weft_ctl_outstanding(const struct weft_qp *qp)
{
	return !qp->status && __atomic_load_n(&qp->told, __ATOMIC_ACQUIRE) !=
				      __atomic_load_n(&qp->ring->sq_done, __ATOMIC_ACQUIRE);
}

static void start_timer(struct weft_ctl *c, uint64_t now)
{
	__atomic_store_n(&c->active, 1, __ATOMIC_RELAXED);
	if (c->period)
		return;
	for (unsigned i = 0; i < c->n; i++)
		c->qp[i]->seen_ns = c->qp[i]->wait_ns = now;
	c->last_ns = c->busy_ns = now;
	c->smooth = 0;
	set_timer(c, TICK);
}

/* Posting: publish, barrier, look at `active`. Here: clear it, barrier, look for posts. */
static void stop_timer(struct weft_ctl *c, uint64_t now)
{
	set_timer(c, 0);
	__atomic_store_n(&c->active, 0, __ATOMIC_RELAXED);
	__sync_synchronize();
	for (unsigned i = 0; i < c->n; i++) {
		if (weft_ctl_outstanding(c->qp[i])) {
			start_timer(c, now);
			return;
		}
	}
}

/* ---- failures ---- */

/* The QP will fail for this reason, after `delay` at most; the first reason stands. */
void weft_ctl_doom(struct weft_ctl *c, struct weft_qp *qp, enum weft_wc_status why, uint64_t delay)
{
	uint64_t now = weft_now_ns(), at = weft_ctl_outstanding(qp) ? now + delay : now;

	if (!qp->doom_ns) {
		qp->doom_why = why;
		qp->doom_ns = at;
	} else if (at < qp->doom_ns) {
		qp->doom_ns = at;
	}
	start_timer(c, now);
}

/* Errors that XDP has seen. */
static void check_ring(struct weft_ctl *c, struct weft_qp *qp)
{
	const struct weft_ring *r = qp->ring;
	enum weft_wc_status why;

	if (qp->doom_ns)
		return;
	if (__atomic_load_n(&r->tx_err, __ATOMIC_ACQUIRE)) {
		/* what it really is will be read again from the ring */
		why = r->tx_err == WEFT_TX_ERR_NAK ? weft_nak_status(r->tx_err_info)
						   : WEFT_WC_GENERAL_ERR;
		if (why == WEFT_WC_REM_CLOSED_ERR)
			weft_ctl_doom(c, qp, why, qp->cm_over ? 0 : BYE_WAIT);
		else
			weft_ctl_doom(c, qp, why, SETTLE);
	} else if (__atomic_load_n(&r->rx_err, __ATOMIC_ACQUIRE)) {
		weft_ctl_doom(c, qp, WEFT_WC_GENERAL_ERR, 0);
	}
}

static bool due(const struct weft_qp *qp, uint64_t now)
{
	const struct weft_ring *r = qp->ring;

	if (!qp->doom_ns || qp->failing)
		return false;
	/* all that could still be acknowledged has been */
	return qp->doom_ns <= now || !weft_ctl_outstanding(qp) ||
	       (r->tx_err && qp->doom_why != WEFT_WC_REM_CLOSED_ERR && r->sq_done == r->tx_err_ssn);
}

/* One grace period for all. */
static void fail_due(struct weft_ctl *c, uint64_t now)
{
	struct weft_qp **batch = c->batch;
	unsigned n = 0;

	for (unsigned i = 0; i < c->n; i++)
		if (due(c->qp[i], now) && weft_qp_fail_begin(c->qp[i], c->qp[i]->doom_why))
			batch[n++] = c->qp[i];
	if (!n)
		return;
	weft_qp_fail_stop(batch, n);
	for (unsigned i = 0; i < n; i++)
		weft_qp_fail_end(batch[i]);
}

/* ---- the timer ---- */

/* Has the retransmission timer expired too often since the last progress? */
static bool retries_over(struct weft_ctl *c, struct weft_qp *qp)
{
	struct weft_qp_stats st = { 0 };

	if (!qp->retry_cnt || c->dev->priv->qp_stats(c->dev, qp->num, &st))
		return false;
	/* it expires only when it is looked at */
	if (!qp->retry_known) {
		qp->retry_base = st.timeouts;
		qp->retry_known = true;
	}
	return (uint32_t)st.timeouts - qp->retry_base > qp->retry_cnt;
}

/* True when the QP wants the short tick. */
static bool tick_qp(struct weft_ctl *c, struct weft_qp *qp, uint64_t now)
{
	uint32_t done = __atomic_load_n(&qp->ring->sq_done, __ATOMIC_ACQUIRE);
	uint32_t una = __atomic_load_n(&qp->ring->tx_una, __ATOMIC_RELAXED);
	uint64_t idle, again, limit;
	uint32_t rnrs;

	if (done != qp->seen_done || una != qp->seen_una) {
		qp->seen_done = done;
		qp->seen_una = una;
		qp->seen_ns = qp->wait_ns = now;
		qp->look_ns = 0;
		qp->retry_known = false;
		return false;
	}
	/* it is there, and has nowhere to put what we send */
	rnrs = __atomic_load_n(&qp->ring->tx_rnrs, __ATOMIC_RELAXED);
	if (rnrs != qp->seen_rnrs) {
		qp->seen_rnrs = rnrs;
		qp->seen_ns = now;
	}
	idle = now - qp->seen_ns;
	limit = qp->timeout_ms * MS;
	if (__atomic_load_n(&qp->ring->tx_rnr, __ATOMIC_RELAXED)) {
		limit += RNR_GAP;
		if (qp->rnr_retries && qp->ring->tx_probes > qp->rnr_retries) {
			weft_ctl_doom(c, qp, WEFT_WC_RNR_RETRY_EXC_ERR, 0);
			return true;
		}
	}
	/* there is no doubt about a link that is down: be in time with the error */
	if (c->dev->down_ns)
		limit -= limit / 4 < DOWN_EARLY ? limit / 4 : DOWN_EARLY;
	if (idle >= limit) {
		weft_ctl_doom(c, qp, c->dev->down_ns ? WEFT_WC_DEV_ERR : WEFT_WC_RETRY_EXC_ERR, 0);
	} else if (idle >= LOOK_MIN && now >= qp->look_ns) {
		if (retries_over(c, qp)) {
			weft_ctl_doom(c, qp,
				      c->dev->down_ns ? WEFT_WC_DEV_ERR : WEFT_WC_RETRY_EXC_ERR, 0);
			return true;
		}
		weft_doorbell(c->dev, qp->num, WEFT_DB_LOOK, DB_FRAME_MIN);
		again = idle / 10;
		qp->look_ns = now + (again < LOOK_MIN   ? LOOK_MIN - MS / 2
				     : again > LOOK_MAX ? LOOK_MAX
							: again);
	}
	return true;
}

static void tick(struct weft_ctl *c, uint64_t now)
{
	uint64_t gap = now - c->last_ns;
	bool stuck = false;

	c->last_ns = now;
	/* the link may be up again since, or down while we were stopped: that comes first */
	if (c->dev->down_ns || gap > GAP_MAX)
		weft_ctl_link_read(c);
	gap = gap > GAP_MAX && !c->dev->down_ns ? gap - GAP_MAX : 0;
	for (unsigned i = 0; i < c->n; i++) {
		struct weft_qp *qp = c->qp[i];

		if (qp->status)
			continue;
		qp->seen_ns += gap;
		qp->wait_ns += gap;
		check_ring(c, qp);
		if (!weft_ctl_outstanding(qp)) {
			qp->seen_ns = qp->wait_ns = now;
			qp->retry_known = false;
			continue;
		}
		c->busy_ns = now;
		stuck |= tick_qp(c, qp, now);
	}
	if (stuck)
		c->smooth = 0;
	else if (c->smooth < SMOOTH)
		c->smooth++;
	if (now - c->busy_ns >= QUIET_MS * MS)
		stop_timer(c, now);
	else if (c->period)
		set_timer(c, c->smooth == SMOOTH ? TICK_SMOOTH : TICK);
}

/* ---- the peer's stream ---- */

/* Everything but silence and PINGs on it is the end of the connection. */
static void hear_peer(struct weft_ctl *c, struct weft_qp *qp)
{
	uint32_t code = WEFT_NAK_CLOSED;
	ssize_t n;

	n = recv(qp->cm_fd, qp->bye + qp->bye_len, sizeof(qp->bye) - qp->bye_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		qp->bye_len += n;
		while (qp->bye_len && qp->bye[0] == WEFT_CM_PING)
			memmove(qp->bye, qp->bye + 1, --qp->bye_len);
		if (qp->bye_len < sizeof(qp->bye))
			return;
		qp->bye_ok = !weft_cm_bye_parse(qp->bye, &code, &qp->bye_arrived);
	}
	if (qp->bye_ok)
		weft_tele_note(qp, WEFT_TRACE_bye, 0, code, qp->bye_arrived, 0);
	else
		weft_tele_note(qp, WEFT_TRACE_peer_gone, 0, 0, 0, 0);
	qp->cm_over = true;
	epoll_ctl(c->ep_fd, EPOLL_CTL_DEL, qp->cm_fd, NULL);
	/* an error of our own came first */
	check_ring(c, qp);
	/* after a BYE there is nothing to wait for but the NAK that it stands for */
	weft_ctl_doom(c, qp, weft_nak_status(code),
		      qp->bye_ok && weft_nak_status(code) == WEFT_WC_REM_CLOSED_ERR ? 0 : SETTLE);
}

/* ---- the thread ---- */

static void handle(struct weft_ctl *c, uint64_t tag, uint64_t now)
{
	uint64_t count;

	switch ((enum tag)(tag >> 32)) {
	case TAG_KICK:
		(void)!read(c->kick_fd, &count, sizeof(count));
		start_timer(c, now);
		for (unsigned i = 0; i < c->n; i++)
			if (!c->qp[i]->status)
				check_ring(c, c->qp[i]);
		break;
	case TAG_TIMER:
		if (read(c->timer_fd, &count, sizeof(count)) == sizeof(count))
			tick(c, now);
		break;
	case TAG_NETLINK: weft_ctl_link_read(c); break;
	case TAG_IDLE:
		if (read(c->idle_fd, &count, sizeof(count)) == sizeof(count))
			weft_idle_look(c, now);
		break;
	case TAG_QP:
		/* by number: it may have been closed since */
		for (unsigned i = 0; i < c->n; i++)
			if (c->qp[i]->num == (uint32_t)tag && !c->qp[i]->cm_over)
				hear_peer(c, c->qp[i]);
		break;
	}
}

static void *run(void *arg)
{
	struct weft_ctl *c = arg;
	struct epoll_event ev[16];
	bool purge;

	pthread_setname_np(pthread_self(), "weft-ctl");
	weft_in_ctl_thread = true;
	while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		int n = epoll_wait(c->ep_fd, ev, 16, -1);

		pthread_mutex_lock(&c->lock);
		for (int i = 0; i < n; i++)
			handle(c, ev[i].data.u64, weft_now_ns());
		fail_due(c, weft_now_ns());
		purge = c->period && !c->dev->dead && weft_now_ns() >= c->purge_ns;
		pthread_mutex_unlock(&c->lock);
		/* their tokens would go on counting against the device's budget */
		if (purge)
			c->purge_ns =
				c->dev->priv->tidy(c->dev) < 0 ? UINT64_MAX : weft_now_ns() + PURGE;
	}
	return NULL;
}

static int watch(struct weft_ctl *c, int fd, uint64_t tag, uint32_t low)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = tag << 32 | low };

	return epoll_ctl(c->ep_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int weft_ctl_watch_qp(struct weft_qp *qp)
{
	struct weft_ctl *c = qp->dev->ctl;

	pthread_mutex_lock(&c->lock);
	qp->seen_ns = qp->wait_ns = weft_now_ns();
	c->qp[c->n++] = qp; /* as many as there are rings */
	if (c->dev->dead)
		weft_ctl_doom(c, qp, WEFT_WC_DEV_ERR, 0);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int weft_ctl_watch_cm(struct weft_qp *qp)
{
	int err;

	pthread_mutex_lock(&qp->dev->ctl->lock);
	weft_idle_begin(qp->dev->ctl, qp);
	pthread_mutex_unlock(&qp->dev->ctl->lock);
	err = watch(qp->dev->ctl, qp->cm_fd, TAG_QP, qp->num);
	return err ? weft_err(-err, qp->dev->ifname, "the QP cannot be watched: %s", strerror(-err))
		   : 0;
}

/* When it returns, the thread has let go of the QP. */
void weft_ctl_unwatch_qp(struct weft_qp *qp)
{
	struct weft_ctl *c = qp->dev->ctl;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->n; i++) {
		if (c->qp[i] == qp) {
			c->qp[i] = c->qp[--c->n];
			break;
		}
	}
	if (qp->cm_fd >= 0)
		epoll_ctl(c->ep_fd, EPOLL_CTL_DEL, qp->cm_fd, NULL);
	pthread_mutex_unlock(&c->lock);
}

int weft_ctl_lost_fd(const struct weft_dev *dev)
{
	return dev->ctl->lost_fd;
}

static void release(struct weft_ctl *c)
{
	if (c->lost_fd >= 0)
		close(c->lost_fd);
	if (c->nl_fd >= 0)
		close(c->nl_fd);
	if (c->timer_fd >= 0)
		close(c->timer_fd);
	if (c->idle_fd >= 0)
		close(c->idle_fd);
	if (c->kick_fd >= 0)
		close(c->kick_fd);
	if (c->ep_fd >= 0)
		close(c->ep_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->batch);
	free(c);
}

int weft_ctl_start(struct weft_dev *dev)
{
	struct weft_ctl *c = calloc(1, sizeof(*c) + dev->nrings * sizeof(c->qp[0]));
	sigset_t all, old;
	int err;

	if (!c)
		return -ENOMEM;
	c->dev = dev;
	c->nl_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	c->ep_fd = epoll_create1(EPOLL_CLOEXEC);
	c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	c->idle_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	c->idle_at = UINT64_MAX;
	c->batch = calloc(dev->nrings, sizeof(c->batch[0]));
	err = !c->batch || c->ep_fd < 0 || c->idle_fd < 0 || c->kick_fd < 0 || c->lost_fd < 0 ||
			      c->timer_fd < 0
		      ? -errno
		      : weft_ctl_link_open(c);
	if (!err)
		err = watch(c, c->kick_fd, TAG_KICK, 0);
	if (!err)
		err = watch(c, c->timer_fd, TAG_TIMER, 0);
	if (!err)
		err = watch(c, c->nl_fd, TAG_NETLINK, 0);
	if (!err)
		err = watch(c, c->idle_fd, TAG_IDLE, 0);
	if (!err) {
		weft_ctl_link_ask(c);
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		err = -pthread_create(&c->thread, NULL, run, c);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (err) {
		release(c);
		return weft_err(-err, dev->ifname, "the control thread cannot be started: %s",
				strerror(-err));
	}
	dev->ctl = c;
	return 0;
}

void weft_ctl_stop(struct weft_dev *dev)
{
	struct weft_ctl *c = dev->ctl;

	if (!c)
		return;
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	poke(c);
	pthread_join(c->thread, NULL);
	dev->ctl = NULL;
	release(c);
}
