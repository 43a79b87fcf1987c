// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The passive side of connection set-up: listen and accept, whatever strangers send. */
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "cm.h"

#define BACKLOG    128
#define PENDING    16   /* connections that have not said all of their REQUEST */
#define REQUEST_MS 2000 /* what one has for it */
#define READY_MS   400  /* a genuine client needs a round trip; others wait meanwhile */

struct pending {
	int fd;         /* -1: free */
	uint64_t until; /* ns */
	size_t got;
	uint8_t buf[WEFT_CM_MAX];
};

struct weft_listener {
	struct weft_dev *dev;
	pthread_mutex_t lock; /* one weft_accept() at a time */
	int fd;
	int ep_fd; /* fd and the pending ones: readable when there is work */
	struct pending pend[PENDING];
};

static int listen_on(struct weft_dev *dev, const struct addrinfo *a, bool any)
{
	int fd, saved, err, one = 1, zero = 0;

	err = weft_ns_enter(dev, &saved);
	if (err)
		return err;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = fd < 0 ? -errno : 0;
	weft_ns_leave(saved);
	if (err)
		return err;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? &zero : &one, sizeof(one));
	/* "all addresses" means those that are reached through the interface */
	if ((any &&
	     setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, dev->ifname, strlen(dev->ifname) + 1)) ||
	    bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int watch(struct weft_listener *l, int fd, uint64_t tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = tag };

	return epoll_ctl(l->ep_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

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
		return -ENOMEM;
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
				l->fd = listen_on(dev, a, any);
		if (family == AF_INET)
			break;
	}
	freeaddrinfo(res);
	l->ep_fd = epoll_create1(EPOLL_CLOEXEC);
	err = l->fd < 0 ? l->fd : l->ep_fd < 0 ? -errno : watch(l, l->fd, PENDING);
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
			close(l->pend[i].fd);
	if (l->fd >= 0)
		close(l->fd);
	if (l->ep_fd >= 0)
		close(l->ep_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int weft_listener_fd(struct weft_listener *l)
{
	return l->ep_fd;
}

/* ---- accept ---- */

static void drop_pending(struct pending *p)
{
	close(p->fd); /* leaves the epoll set with it */
	p->fd = -1;
}

static void refuse(int fd, uint32_t why)
{
	struct weft_cm_msg m = { .type = WEFT_CM_REPLY, .refusal = why };
	uint8_t buf[WEFT_CM_MAX];
	size_t len = weft_cm_format(&m, buf);

	(void)!send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * Take what the kernel has accepted; when there are too many, the oldest must go.
 * -errno when this process is short of something: the client still waits.
 */
static int admit(struct weft_listener *l)
{
	struct pending *p = &l->pend[0];
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS
			       ? weft_err(errno, l->dev->ifname,
					  "cannot accept a client: %s; "
					  "close descriptors or raise the limit",
					  strerror(errno))
			       : 0;
	for (int i = 0; i < PENDING; i++) {
		if (l->pend[i].fd < 0) {
			p = &l->pend[i];
			break;
		}
		if (l->pend[i].until < p->until)
			p = &l->pend[i];
	}
	if (p->fd >= 0)
		drop_pending(p);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	p->fd = fd;
	p->got = 0;
	p->until = weft_cm_deadline(REQUEST_MS);
	if (watch(l, fd, p - l->pend))
		drop_pending(p);
	return 0;
}

/* More of a REQUEST. Its length when it is whole, 0 not yet, -EPROTO and others. */
static int hear(struct pending *p, struct weft_cm_msg *m)
{
	ssize_t n = recv(p->fd, p->buf + p->got, sizeof(p->buf) - p->got, 0);
	int len;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!n)
		return -ECONNRESET;
	p->got += n;
	len = weft_cm_parse(p->buf, p->got, WEFT_CM_REQUEST, m);
	/* nothing may follow before our REPLY */
	return len > 0 && (size_t)len != p->got ? -EPROTO : len;
}

/* Answer a REQUEST: the QP is live before the peer may know of it. */
static int answer(struct weft_listener *l, int fd, const struct weft_cm_msg *theirs,
		  const struct weft_qp_opts *opts, uint64_t until, struct weft_qp **out)
{
	struct weft_cm_msg mine = { .type = WEFT_CM_REPLY };
	uint32_t why = WEFT_CM_R_RESOURCES;
	uint8_t buf[WEFT_CM_MAX];
	struct weft_qp *qp;
	int err;

	err = weft_qp_alloc(l->dev, opts, &qp);
	if (err) {
		refuse(fd, why);
		close(fd);
		return err;
	}
	qp->cm_fd = fd;
	weft_cm_private(&mine, opts);
	err = weft_cm_addresses(qp);
	if (!err) {
		weft_qp_offer(qp, qp->peer.ss_family == AF_INET6, &mine);
		err = weft_qp_establish(qp, &mine, theirs);
		if (err == -EHOSTUNREACH)
			why = WEFT_CM_R_ROUTE;
		else if (err == -EMSGSIZE)
			why = WEFT_CM_R_PAYLOAD;
	}
	if (err) {
		refuse(fd, why);
		qp->bye_sent = true;
		goto fail;
	}
	err = weft_cm_send(fd, buf, weft_cm_format(&mine, buf), until);
	if (!err)
		err = weft_cm_poll(fd, POLLIN, until);
	if (!err && (recv(fd, buf, 1, MSG_DONTWAIT) != 1 || buf[0] != WEFT_CM_READY))
		err = -EPROTO;
	if (!err)
		err = weft_ctl_watch_cm(qp);
	if (!err) {
		*out = qp;
		return 0;
	}
	weft_err(-err, l->dev->ifname, "a peer did not finish connecting: %s; it may try again",
		 strerror(-err));
fail:
	weft_qp_destroy(qp);
	return err;
}

/* One turn over what epoll reports. 1: *qp is connected, 0: nothing yet. */
static int accept_step(struct weft_listener *l, uint64_t tag, const struct weft_qp_opts *opts,
		       struct weft_qp **qp)
{
	struct weft_cm_msg m;
	struct pending *p;
	char name[INET6_ADDRSTRLEN] = "peer";
	struct sockaddr_storage ss;
	socklen_t slen = sizeof(ss);
	/* whoever has been answered believes to be connected: our patience may not end before that */
	uint64_t ready = weft_cm_deadline(READY_MS);
	int err, fd;

	if (tag == PENDING)
		return admit(l);
	p = &l->pend[tag];
	err = hear(p, &m);
	if (!err)
		return 0;
	if (err < 0) {
		if (!getpeername(p->fd, (struct sockaddr *)&ss, &slen)) {
			weft_addr_unmap(&ss);
			weft_addr_str(&ss, name, sizeof(name));
		}
		if (err == -EPROTONOSUPPORT)
			refuse(p->fd, WEFT_CM_R_VERSION);
		drop_pending(p);
		/* one that only came and went is not worth an error */
		if (err != -EPROTO && err != -EPROTONOSUPPORT)
			return 0;
		return weft_err(EPROTO, name, "is no weft peer%s; refused",
				err == -EPROTO ? "" : " of our version");
	}
	fd = p->fd;
	p->fd = -1;
	epoll_ctl(l->ep_fd, EPOLL_CTL_DEL, fd, NULL);
	err = answer(l, fd, &m, opts, ready, qp);
	return err ? err : 1;
}

int weft_accept(struct weft_listener *l, const struct weft_qp_opts *opts, struct weft_qp **qp)
{
	uint64_t until = weft_cm_deadline(weft_cm_patience(opts));
	struct epoll_event ev;
	int n;

	pthread_mutex_lock(&l->lock);
	for (;;) {
		uint64_t now = weft_now_ns(), next = until;

		for (int i = 0; i < PENDING; i++) {
			struct pending *p = &l->pend[i];

			if (p->fd >= 0 && now >= p->until)
				drop_pending(p);
			if (p->fd >= 0 && p->until < next)
				next = p->until;
		}
		n = epoll_wait(l->ep_fd, &ev, 1, weft_cm_left(next));
		if (n < 0) {
			n = -errno;
			break;
		}
		if (n) {
			n = accept_step(l, ev.data.u64, opts, qp);
			if (n) {
				n = n > 0 ? 0 : n;
				break;
			}
		}
		if (weft_now_ns() >= until) {
			n = weft_err_quiet(ETIMEDOUT, l->dev->ifname,
					   "nobody has connected within %u ms",
					   weft_cm_patience(opts));
			break;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return n;
}
