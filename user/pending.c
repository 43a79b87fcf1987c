// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who comes to a listener and is not connected yet: let in, heard, turned away. */
#include <string.h>
#include <unistd.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "listen.h"

#define REQUEST_MS 2000 /* what a client has to say all of its REQUEST */
#define LATE       8    /* how many must be READY until nobody needs to be probed */

int weft_pend_watch(struct weft_listener *l, int fd, uint64_t tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = tag };

	return epoll_ctl(l->ep_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void weft_pend_drop(struct weft_listener *l, struct pending *p)
{
	epoll_ctl(l->ep_fd, EPOLL_CTL_DEL, p->fd, NULL); /* a forked child may still hold it */
	close(p->fd);
	p->fd = -1;
}

/* The connection goes on in its QP alone. */
struct weft_qp *weft_pend_take(struct weft_listener *l, struct pending *p)
{
	struct weft_qp *qp = p->qp;

	epoll_ctl(l->ep_fd, EPOLL_CTL_DEL, p->fd, NULL);
	p->fd = -1;
	p->qp = NULL;
	return qp;
}

/* End those whose patience is over, and with `all` whoever is half open; one grace period for all. */
void weft_pend_expire(struct weft_listener *l, bool all)
{
	struct weft_qp *late[PENDING];
	uint64_t now = weft_now_ns();
	unsigned n = 0;

	for (struct pending *p = l->pend; p < l->pend + PENDING; p++) {
		if (p->fd < 0 || (now < p->until && !(all && p->qp)))
			continue;
		if (!p->qp) {
			weft_pend_drop(l, p);
			continue;
		}
		late[n++] = weft_pend_take(l, p);
	}
	if (!n)
		return;
	l->late = LATE;
	weft_logf(WEFT_LOG_WARN, "%s: %u half-open connection%s closed; the peer may try again",
		  l->dev->ifname, n, n == 1 ? "" : "s");
	weft_qp_destroy_all(late, n);
}

void weft_pend_refuse(int fd, uint32_t why, const struct weft_qp_opts *opts)
{
	struct weft_cm_msg m = { .type = WEFT_CM_REPLY, .refusal = why };
	uint8_t buf[WEFT_CM_MAX];
	size_t len;

	weft_cm_limits(&m, opts);
	len = weft_cm_format(&m, buf);
	(void)!send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A place for one more: free, or of who has waited longest and not yet said what it wants. */
static struct pending *find_place(struct weft_listener *l)
{
	struct pending *place = NULL;

	for (struct pending *p = l->pend; p < l->pend + PENDING; p++) {
		if (p->fd < 0)
			return p;
		if (!p->qp && !p->whole && (!place || p->since < place->since))
			place = p;
	}
	if (place)
		weft_pend_drop(l, place);
	return place;
}

/*
 * Take what the kernel has accepted. -errno when this process is short of something and no
 * stranger is there to make room: the client still waits.
 */
int weft_pend_admit(struct weft_listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
	uint8_t unread[WEFT_CM_MAX];
	struct pending *p;

	if (fd < 0 && errno == EMFILE) {
		find_place(l);
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS
			       ? weft_err(errno, l->dev->ifname,
					  "cannot accept a client: %s; "
					  "close descriptors or raise the limit",
					  strerror(errno))
			       : 0;
	p = find_place(l);
	if (!p) {
		/* all of them have asked, and will be answered; this one comes again */
		(void)!recv(fd, unread, sizeof(unread), 0); /* or the refusal would be a reset */
		weft_pend_refuse(fd, WEFT_CM_R_BUSY, NULL);
		close(fd);
		return 0;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*p = (struct pending){ .fd = fd,
			       .since = weft_now_ns(),
			       .until = weft_cm_deadline(REQUEST_MS) };
	if (weft_pend_watch(l, fd, p - l->pend))
		weft_pend_drop(l, p);
	else
		weft_pend_hear(l,
			       p); /* as a rule it is there: then no stranger pushes this one out */
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

static int hear_alive(struct pending *p)
{
	uint8_t byte;
	ssize_t n = recv(p->fd, &byte, 1, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!n)
		return -ECONNRESET;
	if (!p->probed || p->alive || byte != WEFT_CM_ALIVE)
		return -EPROTO;
	p->alive = true;
	return 1;
}

/* Is somebody there? Who lets it wait costs nobody anything. */
void weft_pend_probe(struct weft_listener *l, struct pending *p)
{
	uint8_t byte = WEFT_CM_PROBE;

	p->probed = true;
	p->until = weft_cm_deadline(REQUEST_MS);
	if (send(p->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		weft_pend_drop(l, p);
}

void weft_pend_name(const struct pending *p, char name[INET6_ADDRSTRLEN])
{
	struct sockaddr_storage ss;
	socklen_t slen = sizeof(ss);

	strcpy(name, "peer");
	if (getpeername(p->fd, (struct sockaddr *)&ss, &slen))
		return;
	weft_addr_unmap(&ss);
	weft_addr_str(&ss, name, INET6_ADDRSTRLEN);
}

/* In its own version, as far as that has always been the same. */
static void refuse_version(const struct pending *p)
{
	uint8_t buf[WEFT_CM_OLD_LEN];

	weft_cm_format_version(p->buf, buf);
	(void)!send(p->fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void weft_pend_hear(struct weft_listener *l, struct pending *p)
{
	char name[INET6_ADDRSTRLEN];
	struct weft_cm_msg m;
	int len = p->whole ? hear_alive(p) : hear(p, &m);

	if (len > 0) {
		p->whole = true;
		p->until = UINT64_MAX; /* from now on it is we who let it wait */
	}
	if (len >= 0)
		return;
	weft_pend_name(p, name);
	if (len == -EPROTONOSUPPORT)
		refuse_version(p);
	weft_pend_drop(l, p);
	/* one that only came and went is not worth a line */
	if (len == -EPROTO || len == -EPROTONOSUPPORT)
		weft_logf(WEFT_LOG_WARN, "%s: is no weft peer%s; refused", name,
			  len == -EPROTO ? "" : " of our version");
}

void weft_pend_hear_ready(struct weft_listener *l, struct pending *p)
{
	uint8_t byte;
	ssize_t n = recv(p->fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && byte == WEFT_CM_ALIVE && p->probed && !p->alive) {
		p->alive = true; /* then it was answered without */
		return;
	}
	p->ready = n == 1 && byte == WEFT_CM_READY;
	if (p->ready)
		epoll_ctl(l->ep_fd, EPOLL_CTL_DEL, p->fd, NULL); /* the rest is the QP's to hear */
	else
		p->until = 0;
}
