// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The passive side of connection set-up: listen and accept, whatever strangers send. */
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "listen.h"

#define HALF_OPEN   24  /* of those, answered and not READY: each holds a QP */
#define READY_MS    400 /* and from our REPLY to its READY */

/*
 * A REPLY carries what the caller of weft_accept() offers to one client, who takes
 * himself for connected with it; so clients are answered one after the other, and
 * a genuine one is READY within a round trip. One that is not within its turn lets
 * the next be answered as well, in ever shorter turns: it may still become READY
 * until the call ends, but then it has lost its place. Whoever is READY and has its
 * place is told so (CONFIRM), so a genuine one that has lost it comes again by itself.
 */
#define TURN_MS     80 /* divided by how many are half open already */
#define TURN_MIN_MS 10

int weft_listen(struct weft_dev *dev, const char *addr, struct weft_listener **out)
{
	struct weft_listener *l;
	struct addrinfo *res;
	bool any;
	int err;

	err = weft_addr_resolve(dev, addr, true, &res);
	if (err)
		return err;
	any = addr[0] == ':';
	l = calloc(1, sizeof(*l));
	if (!l) {
		freeaddrinfo(res);
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	}
	l->dev = dev;
	pthread_mutex_init(&l->lock, NULL);
	for (int i = 0; i < PENDING; i++)
		l->pend[i].fd = -1;
	/* IPv6 first: with no host it serves IPv4 as well */
	l->fd = -EADDRNOTAVAIL;
	for (int family = AF_INET6; l->fd < 0; family = AF_INET) {
		for (struct addrinfo *a = res; a && l->fd < 0; a = a->ai_next)
			if (a->ai_family == family)
				l->fd = weft_cm_listen(dev, a, any);
		if (family == AF_INET)
			break;
	}
	freeaddrinfo(res);
	l->ep_fd = epoll_create1(EPOLL_CLOEXEC);
	l->more_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = l->fd < 0 ? l->fd : l->ep_fd < 0 || l->more_fd < 0 ? -errno : 0;
	if (!err)
		err = weft_pend_watch(l, l->fd, TAG_LISTEN);
	if (!err)
		err = weft_pend_watch(l, l->more_fd, TAG_MORE);
	if (!err)
		err = weft_pend_watch(l, weft_ctl_lost_fd(dev), TAG_LOST);
	if (err) {
		weft_listener_close(l);
		return weft_err(-err, addr,
				"cannot listen there on %s: %s; choose another address or port",
				dev->ifname, strerror(-err));
	}
	*out = l;
	return 0;
}

void weft_listener_close(struct weft_listener *l)
{
	if (!l)
		return;
	for (int i = 0; i < PENDING; i++)
		if (l->pend[i].fd >= 0)
			close(l->pend[i].fd); /* none is half open between two calls */
	if (l->fd >= 0)
		close(l->fd);
	if (l->more_fd >= 0)
		close(l->more_fd);
	if (l->ep_fd >= 0)
		close(l->ep_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int weft_listener_fd(struct weft_listener *l)
{
	return l->ep_fd;
}

void weft_listener_choose(struct weft_listener *l, weft_choose_fn fn, void *arg)
{
	l->choose = fn;
	l->choose_arg = arg;
}

/* ---- accept ---- */

/* Answer a REQUEST: the QP is live before the peer may know of it. 0, -errno: see answer(). */
static int reply(struct weft_qp *qp, struct pending *p, const struct weft_qp_opts *opts)
{
	struct weft_cm_msg mine = { .type = WEFT_CM_REPLY }, theirs;
	uint32_t why = WEFT_CM_R_RESOURCES;
	uint8_t buf[WEFT_CM_MAX];
	int err;

	weft_cm_parse(p->buf, p->got, WEFT_CM_REQUEST, &theirs);
	weft_cm_private(&mine, opts);
	weft_cm_limits(&mine, opts);
	err = weft_cm_addresses(qp);
	if (!err) {
		weft_qp_offer(qp, qp->peer.ss_family == AF_INET6, &mine);
		err = weft_qp_establish(qp, &mine, &theirs);
		if (err == -EHOSTUNREACH)
			why = WEFT_CM_R_ROUTE;
		else if (err == -EMSGSIZE)
			why = WEFT_CM_R_PAYLOAD;
		else if (err)
			why = weft_cm_no_qp(err);
	}
	if (err) {
		weft_pend_refuse(qp->cm_fd, why, opts);
		qp->bye_sent = true;
		return err;
	}
	/* an empty socket has room for it */
	return weft_cm_say(qp, buf, weft_cm_format(&mine, buf), 0);
}

/* True: it can never be connected with these options, and has been told so. */
static bool differs(struct weft_listener *l, struct pending *p, const struct weft_qp_opts *opts)
{
	struct weft_cm_msg mine = { 0 }, theirs;
	char name[INET6_ADDRSTRLEN], text[240];
	enum weft_cm_refusal why;

	weft_cm_parse(p->buf, p->got, WEFT_CM_REQUEST, &theirs);
	weft_cm_limits(&mine, opts);
	why = weft_cm_match(&mine, &theirs);
	if (!why)
		return false;
	weft_pend_name(p, name);
	weft_cm_differ(&mine, &theirs, text, sizeof(text));
	weft_logf(WEFT_LOG_WARN, "%s: refused: %s", name, text);
	weft_pend_refuse(p->fd, why, opts);
	weft_pend_drop(l, p);
	return true;
}

/* -errno when the reason is ours and would meet the next client too. */
static int answer(struct weft_listener *l, struct pending *p, const struct weft_qp_opts *opts,
		  unsigned half_open)
{
	unsigned share = half_open + 1, turn = TURN_MS / share;
	struct weft_qp_opts chosen;
	struct weft_cm_msg theirs;
	struct weft_qp *qp;
	uint64_t rtt;
	int err;

	if (differs(l, p, opts))
		return 0;
	if (l->choose) {
		weft_cm_parse(p->buf, p->got, WEFT_CM_REQUEST, &theirs);
		chosen = *opts;
		l->choose(l->choose_arg, theirs.priv, theirs.priv_len, &chosen);
		opts = &chosen;
	}
	err = weft_qp_alloc(l->dev, opts, &qp);
	if (err) {
		weft_pend_refuse(p->fd, weft_cm_no_qp(err), opts);
		weft_pend_drop(l, p);
		return err;
	}
	qp->cm_fd = p->fd;
	err = reply(qp, p, opts);
	if (!err) {
		rtt = 2 * weft_cm_rtt_ns(qp->cm_fd);
		p->qp = qp;
		p->until = weft_cm_deadline(READY_MS) + rtt;
		p->turn = weft_cm_deadline(turn < TURN_MIN_MS ? TURN_MIN_MS : turn) + rtt / share;
		return 0;
	}
	weft_pend_take(l, p);
	weft_qp_destroy(qp);
	if (err == -EHOSTUNREACH || err == -EMSGSIZE) {
		weft_logf(WEFT_LOG_WARN, "%s", weft_strerror_last());
		return 0;
	}
	return err == -ECONNRESET || err == -EPIPE || err == -ENOTCONN || err == -ETIMEDOUT ? 0
											    : err;
}

/* Too many are half open: the older half of them goes, in one grace period. */
static void make_room(struct weft_listener *l)
{
	for (unsigned n = 0; n < HALF_OPEN / 2; n++) {
		struct pending *oldest = NULL;

		for (struct pending *p = l->pend; p < l->pend + PENDING; p++)
			if (p->fd >= 0 && p->qp && p->until && (!oldest || p->turn < oldest->turn))
				oldest = p;
		if (oldest)
			oldest->until = 0;
	}
	weft_pend_expire(l, false);
}

/* If nobody's turn is on, the next. */
static int answer_next(struct weft_listener *l, const struct weft_qp_opts *opts)
{
	struct pending *next = NULL;
	uint64_t now = weft_now_ns();
	unsigned half_open = 0;

	for (struct pending *p = l->pend; p < l->pend + PENDING; p++) {
		if (p->fd < 0)
			continue;
		if (p->qp) {
			if (now < p->turn)
				return 0;
			half_open++;
		} else if (p->whole && l->late && !p->alive) {
			if (!p->probed)
				weft_pend_probe(l, p);
		} else if (p->whole && (!next || p->since < next->since)) {
			next = p;
		}
	}
	if (!next)
		return 0;
	if (half_open == HALF_OPEN) {
		make_room(l);
		half_open -= HALF_OPEN / 2;
	}
	return answer(l, next, opts, half_open);
}

/* Who is connected: whose turn it is before those who have let others wait. */
static struct pending *connected(struct weft_listener *l)
{
	struct pending *late = NULL;
	uint64_t now = weft_now_ns();

	for (struct pending *p = l->pend; p < l->pend + PENDING; p++) {
		if (p->fd < 0 || !p->qp)
			continue;
		if (now < p->turn)
			return p->ready ? p : NULL;
		if (p->ready && (!late || p->turn < late->turn))
			late = p;
	}
	return late;
}

/* When there is something to do even if nobody says anything. *busy: somebody is half open. */
static uint64_t next_deadline(const struct weft_listener *l, uint64_t until, bool *busy)
{
	uint64_t now = weft_now_ns(), next = UINT64_MAX;

	*busy = false;
	for (const struct pending *p = l->pend; p < l->pend + PENDING; p++) {
		if (p->fd < 0)
			continue;
		*busy |= !!p->qp;
		if (p->until < next)
			next = p->until;
		if (p->qp && now < p->turn && p->turn < next)
			next = p->turn;
	}
	/* whoever has been answered believes to be connected: he has his time even after ours */
	return *busy || next < until ? next : until;
}

/* Wait for one thing to happen, and see to it. */
static int step(struct weft_listener *l, uint64_t until)
{
	struct epoll_event ev;
	int n = epoll_wait(l->ep_fd, &ev, 1, weft_cm_left(until));

	if (n <= 0)
		return n < 0 ? weft_err_quiet(errno, l->dev->ifname,
					      "the wait for a peer ended early: %s",
					      strerror(errno))
			     : 0;
	if (ev.data.u64 == TAG_LISTEN)
		return weft_pend_admit(l);
	if (ev.data.u64 == TAG_LOST)
		return weft_err(ENODEV, l->dev->ifname, "%s; close and open it again",
				weft_dev_lost(l->dev));
	/* TAG_MORE is for those who poll l between calls */
	if (ev.data.u64 >= PENDING)
		return 0;
	if (l->pend[ev.data.u64].qp)
		weft_pend_hear_ready(l, &l->pend[ev.data.u64]);
	else
		weft_pend_hear(l, &l->pend[ev.data.u64]);
	return 0;
}

/* Nobody stays half open behind the caller's back; who waits to be answered makes l readable. */
static void end_call(struct weft_listener *l)
{
	uint64_t one = 1;

	weft_pend_expire(l, true);
	for (struct pending *p = l->pend; p < l->pend + PENDING; p++)
		if (p->fd >= 0 && p->whole) {
			(void)!write(l->more_fd, &one, sizeof(one));
			break;
		}
}

int weft_accept(struct weft_listener *l, const struct weft_qp_opts *opts, struct weft_qp **out)
{
	uint64_t until = weft_cm_deadline(weft_cm_patience(opts)), next;
	struct pending *done = NULL;
	struct weft_qp_opts checked;
	struct weft_qp *qp = NULL;
	bool busy, interrupted = false;
	uint8_t confirm = WEFT_CM_CONFIRM;
	uint64_t more;
	int err;

	/* at once: a peer may never come */
	err = weft_qp_check(l->dev, opts, &checked);
	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	(void)!read(l->more_fd, &more, sizeof(more));
	do {
		weft_pend_expire(l, false);
		done = connected(l);
		if (done) {
			qp = weft_pend_take(l, done);
			l->late -= !!l->late;
			err = weft_ctl_watch_cm(qp);
			/* should it be gone meanwhile, the control thread tells */
			if (!err)
				weft_cm_say(qp, &confirm, 1, 0);
			break;
		}
		err = weft_now_ns() < until && !interrupted ? answer_next(l, opts) : 0;
		if (err)
			break;
		next = next_deadline(l, until, &busy);
		if (!busy && interrupted)
			err = weft_err_quiet(EINTR, l->dev->ifname,
					     "the wait for a peer ended early: %s",
					     strerror(EINTR));
		else if (!busy && weft_now_ns() >= until)
			err = weft_err_quiet(
				ETIMEDOUT, l->dev->ifname,
				"nobody has connected within %u ms; call it again, or with a larger connect_ms",
				weft_cm_patience(opts));
		else
			err = step(l, next);
		if (err == -EINTR && busy) {
			interrupted = true;
			err = 0;
		}
	} while (!err);
	end_call(l);
	pthread_mutex_unlock(&l->lock);
	if (qp && err)
		weft_qp_destroy(qp);
	if (qp && !err)
		*out = qp;
	return err;
}
