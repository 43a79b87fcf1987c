// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Requests to weftd: answered once, also when it is killed and started again in between. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "remote.h"

#define MS        1000000ull
#define RETRY_MS  20
/* How long to wait for weftd to come back, and for its answer; making a pool takes it longest. */
#define APP_MS    20000
#define ANSWER_MS 60000
#define CTL_MS    300

__thread bool weft_in_ctl_thread;

static void set(uint32_t *bits, uint32_t i, bool on)
{
	if (on)
		bits[i / 32] |= 1u << i % 32;
	else
		bits[i / 32] &= ~(1u << i % 32);
}

/* Does the request give us something that weftd must know to be ours? */
static bool adds(enum weftd_op op)
{
	return op == WEFTD_pool_new || op == WEFTD_mr_put || op == WEFTD_cq_new ||
	       op == WEFTD_rq_new || op == WEFTD_qp_take;
}

/* Before a request is sent: what it drops may be gone whether or not the reply comes. */
static void forget(struct weft_remote *r, const struct weftd_msg *m)
{
	struct weftd_mine *mine = &r->mine;

	pthread_mutex_lock(&r->mine_lock);
	switch ((enum weftd_op)m->op) {
	case WEFTD_pool_drop: set(mine->pools, m->u.pool_drop.v, false); break;
	case WEFTD_cq_drop: set(mine->cqs, m->u.cq_drop.v, false); break;
	case WEFTD_rq_drop: set(mine->rqs, m->u.rq_drop.v, false); break;
	case WEFTD_mem_drop:
		memset(mine->pools, 0, sizeof(mine->pools));
		memset(mine->mrs, 0, sizeof(mine->mrs));
		break;
	case WEFTD_mr_drop:
		for (uint32_t i = 0; i < m->u.mr_drop.n; i++)
			set(mine->mrs, WEFT_KEY_IDX(m->u.mr_drop.num[i]), false);
		break;
	case WEFTD_qp_free:
		set(mine->qps, WEFT_QPN_SLOT(m->u.qp_free.f.num), false);
		set(mine->failed, WEFT_QPN_SLOT(m->u.qp_free.f.num), false);
		break;
	case WEFTD_qp_stop:
		for (uint32_t i = 0; i < m->u.qp_stop.n; i++)
			set(mine->failed, WEFT_QPN_SLOT(m->u.qp_stop.num[i]), true);
		break;
	default: break;
	}
	pthread_mutex_unlock(&r->mine_lock);
}

static void remember(struct weft_remote *r, const struct weftd_msg *m)
{
	pthread_mutex_lock(&r->mine_lock);
	switch ((enum weftd_op)m->op) {
	case WEFTD_pool_new: set(r->mine.pools, m->u.pool_new_rep.v, true); break;
	case WEFTD_mr_put: set(r->mine.mrs, WEFT_KEY_IDX(m->u.mr_put_rep.v), true); break;
	case WEFTD_cq_new: set(r->mine.cqs, m->u.cq_new_rep.v, true); break;
	case WEFTD_rq_new: set(r->mine.rqs, m->u.rq_new_rep.v, true); break;
	case WEFTD_qp_take: set(r->mine.qps, WEFT_QPN_SLOT(m->u.qp_take_rep.v), true); break;
	default: break;
	}
	pthread_mutex_unlock(&r->mine_lock);
}

/* ---- one exchange over a connection that is there ---- */

/* What came must be what was asked for; 0, m->err, or -EPIPE when the connection is of no use. */
static int check_reply(struct weftd_msg *m, const struct weftd_msg *req, int len, int *got,
		       unsigned n, int *fds, unsigned want)
{
	const struct weft_daemon_op *d = &weft_daemon_ops[req->op];
	bool ok = len >= 0 && m->op == req->op && m->seq == req->seq &&
		  (m->err ? len == WEFTD_TEXT && m->err < 0 && m->err > -4096 && !n
			  : len == d->rep && n == want);

	if (ok && !m->err) {
		for (unsigned i = 0; i < n; i++)
			fds[i] = got[i];
		return 0;
	}
	while (n)
		close(got[--n]);
	if (!ok)
		return -EPIPE;
	m->u.text[WEFTD_TEXT - 1] = 0;
	return m->err;
}

static int exchange(struct weft_chan *ch, struct weftd_msg *m, int fd, int *fds, unsigned n,
		    unsigned timeout_ms)
{
	struct weftd_msg req = *m;
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	int got[WEFTD_FDS], len, err;
	unsigned ngot;

	req.seq = ++ch->seq;
	req.err = 0;
	if (weft_daemon_send(ch->fd, &req, weft_daemon_ops[req.op].req, &fd, fd >= 0))
		return -EPIPE;
	do
		err = poll(&p, 1, timeout_ms);
	while (err < 0 && errno == EINTR);
	if (err <= 0)
		return -EPIPE;
	len = weft_daemon_recv(ch->fd, m, got, &ngot);
	err = check_reply(m, &req, len, got, ngot, fds, n);
	if (err == -EPIPE)
		*m = req; /* to be sent again */
	return err;
}

/* ---- coming, and coming back ---- */

static int dial(struct weft_remote *r)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)r->addr, sizeof(*r->addr))) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static void hang_up(struct weft_chan *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	ch->fd = -1;
}

/* A process that is known says who it is, and what it takes to be its own. */
static int come_back(struct weft_dev *dev, struct weft_chan *ch)
{
	struct weft_remote *r = dev->remote;
	struct weftd_msg m = { .op = WEFTD_hello };
	struct weftd_hello *h = &m.u.hello;
	int err;

	err = ch->fd = dial(r);
	if (err < 0)
		return -EPIPE;
	if (!r->in)
		return 0;
	*h = (struct weftd_hello){ .version = WEFTD_VERSION, .slot = dev->slot };
	strcpy(h->ifname, dev->ifname);
	memcpy(h->token, r->token, sizeof(h->token));
	/* weftd drops what is not in it before anybody can add to it: it has just met us */
	pthread_mutex_lock(&r->adding);
	pthread_mutex_lock(&r->mine_lock);
	h->mine = r->mine;
	pthread_mutex_unlock(&r->mine_lock);
	pthread_mutex_unlock(&r->adding);
	err = exchange(ch, &m, -1, NULL, 0, weft_in_ctl_thread ? CTL_MS : ANSWER_MS);
	if (!err)
		return 0;
	hang_up(ch);
	if (err == -EPIPE || err == -EAGAIN)
		return -EPIPE;
	/* not what it was: the device was taken down meanwhile, or another weftd serves this path */
	__atomic_store_n(&r->lost, true, __ATOMIC_RELEASE);
	return weft_err(ENODEV, dev->ifname, "weftd does not take us back: %s", m.u.text);
}

/*
 * Is it time to give up? Else wait a little. Who has waited in vain does not wait again in the same
 * outage; what will be done again, or matters little, is not worth the control thread's waiting.
 */
static bool give_up(struct weft_chan *ch, enum weftd_op op)
{
	uint64_t limit = weft_in_ctl_thread ? CTL_MS * MS : APP_MS * MS, now = weft_now_ns();
	struct timespec ts = { .tv_nsec = RETRY_MS * MS };

	if (!ch->down_ns)
		ch->down_ns = now;
	if (weft_in_ctl_thread && (op == WEFTD_tidy || op == WEFTD_qp_note))
		return true;
	if (now - ch->down_ns >= limit)
		return true;
	nanosleep(&ts, NULL);
	return false;
}

static int unreached(struct weft_dev *dev)
{
	return weft_err_quiet(ETIMEDOUT, dev->ifname, "weftd does not answer at %s; is it running?",
			      dev->remote->addr->sun_path);
}

int weft_remote_meet(struct weft_dev *dev)
{
	return come_back(dev, &dev->remote->ctl);
}

int weft_remote_call(struct weft_dev *dev, struct weftd_msg *m, int fd, int *fds, unsigned n)
{
	struct weft_remote *r = dev->remote;
	struct weft_chan *ch = weft_in_ctl_thread ? &r->ctl : &r->app;
	bool add = adds(m->op);
	int err;

	pthread_mutex_lock(&ch->lock);
	forget(r, m);
	for (;;) {
		if (__atomic_load_n(&r->lost, __ATOMIC_ACQUIRE)) {
			err = weft_err_quiet(ENODEV, dev->ifname,
					     "weftd has lost this device; close and open it again");
			break;
		}
		err = ch->fd < 0 ? come_back(dev, ch) : 0;
		if (!err) {
			if (add)
				pthread_mutex_lock(&r->adding);
			err = exchange(ch, m, fd, fds, n, weft_in_ctl_thread ? 1000 : ANSWER_MS);
			if (!err && add)
				remember(r, m);
			if (add)
				pthread_mutex_unlock(&r->adding);
			if (err != -EPIPE) {
				ch->down_ns = 0;
				if (err)
					err = weft_err_line(-err, m->u.text);
				break;
			}
			hang_up(ch);
		} else if (err != -EPIPE) {
			break;
		}
		if (give_up(ch, m->op)) {
			err = unreached(dev);
			break;
		}
	}
	pthread_mutex_unlock(&ch->lock);
	return err;
}
