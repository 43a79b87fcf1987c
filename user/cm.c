// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Connection set-up over TCP: connect, the BYE at the end, and what both sides need. */
#include <limits.h>
#include <stddef.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/tcp.h>

#include <weft/core/psn.h>

#include "cm.h"

#define CONNECT_DEFAULT_MS 5000
#define LISTEN_BACKLOG     4096 /* or as many as the kernel allows: a crowd may come at once */
#define AGAIN_MIN_MS       10   /* before the next try, when the peer is busy */
#define AGAIN_MAX_MS       200

uint64_t weft_cm_deadline(uint32_t ms)
{
	return weft_now_ns() + ms * 1000000ull;
}

/* For poll(2): rounded up. */
int weft_cm_left(uint64_t until)
{
	uint64_t now = weft_now_ns(), ms = now >= until ? 0 : (until - now + 999999) / 1000000;

	return ms > INT_MAX ? INT_MAX : ms;
}

uint64_t weft_cm_rtt_ns(int fd)
{
	struct tcp_info ti = {};
	socklen_t len = sizeof(ti);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) ? 0 : ti.tcpi_rtt * 1000ull;
}

int weft_cm_poll(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do
		n = poll(&p, 1, weft_cm_left(until));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n ? 0 : -ETIMEDOUT;
}

static int send_all(int fd, const void *buf, size_t len, uint64_t until)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			int err = weft_cm_poll(fd, POLLOUT, until);

			if (err)
				return err;
		} else if (n < 0 && errno != EINTR) {
			return -errno;
		} else if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

/* What the peer says at the end, and our end of the stream. Once. */
void weft_cm_bye(struct weft_qp *qp, uint32_t code)
{
	uint8_t buf[WEFT_CM_BYE_LEN];

	if (qp->cm_fd < 0 || qp->bye_sent)
		return;
	qp->bye_sent = true;
	weft_cm_bye_format(code, __atomic_load_n(&qp->ring->rx_msn, __ATOMIC_ACQUIRE), buf);
	(void)!send(qp->cm_fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(qp->cm_fd, SHUT_WR);
}

/* Not logged: a peer who goes away in mid-sentence is none of the listener's trouble. */
static int broken(const struct weft_qp *qp, int err)
{
	return weft_err_quiet(err, qp->dev->ifname,
			      "a connection broke while it was set up: %s; try again",
			      strerror(err));
}

int weft_cm_say(struct weft_qp *qp, const void *buf, size_t len, uint64_t until)
{
	int err = send_all(qp->cm_fd, buf, len, until);

	return err ? broken(qp, -err) : 0;
}

int weft_cm_addresses(struct weft_qp *qp)
{
	socklen_t len = sizeof(qp->local), plen = sizeof(qp->peer);

	if (getsockname(qp->cm_fd, (struct sockaddr *)&qp->local, &len) ||
	    getpeername(qp->cm_fd, (struct sockaddr *)&qp->peer, &plen))
		return broken(qp, errno);
	weft_addr_unmap(&qp->local);
	weft_addr_unmap(&qp->peer);
	return 0;
}

/* Does the caller's struct, perhaps of an older header, reach as far as this field? */
#define HAS(o, field) ((o)->size >= offsetof(__typeof__(*(o)), field) + sizeof((o)->field))

void weft_cm_private(struct weft_cm_msg *m, const struct weft_qp_opts *o)
{
	m->priv_len = 0;
	if (!o || !HAS(o, priv_len) || !o->priv_len)
		return;
	m->priv_len = o->priv_len;
	memcpy(m->priv, o->priv, o->priv_len);
}

/* A feature that a QP cannot do without, by its options, is `required` as well. */
void weft_cm_limits(struct weft_cm_msg *m, const struct weft_qp_opts *o)
{
	(void)o;
	m->features = WEFT_CM_F_READ | WEFT_CM_F_ATOMIC | WEFT_CM_F_FREE | WEFT_CM_F_WRITES;
	m->required = 0;
	m->window = WEFT_WIN;
	m->atomics = WEFT_ATOMICS_MAX;
}

/* "atomic, bit 9" */
static void name_features(uint32_t bits, char *text, size_t len)
{
	static const char *const name[32] = {
#define X(name, bit, text) [bit] = text,
		WEFT_CM_FEATURES(X)
#undef X
	};
	size_t at = 0;

	for (int i = 0; i < 32 && at < len; i++) {
		if (!(bits >> i & 1))
			continue;
		at += name[i] ? snprintf(text + at, len - at, "%s%s", at ? ", " : "", name[i])
			      : snprintf(text + at, len - at, "%sbit %d", at ? ", " : "", i);
	}
}

void weft_cm_differ(const struct weft_cm_msg *mine, const struct weft_cm_msg *theirs, char *text,
		    size_t len)
{
	uint32_t they = mine->required & ~theirs->features, we = theirs->required & ~mine->features;
	char name[160];

	switch (weft_cm_match(mine, theirs)) {
	case WEFT_CM_R_FEATURES:
		name_features(they ? they : we, name, sizeof(name));
		snprintf(text, len,
			 they ? "the peer has not what is needed here: %s; update it"
			      : "the peer needs what is not here: %s; update weft here",
			 name);
		break;
	case WEFT_CM_R_WINDOW:
		snprintf(
			text, len,
			"the peer's window is %u packets, ours %u; use versions of weft that agree",
			theirs->window, mine->window);
		break;
	case WEFT_CM_R_ATOMICS:
		snprintf(text, len,
			 "the peer has up to %u atomics outstanding, we %u; use versions of weft "
			 "that agree",
			 theirs->atomics, mine->atomics);
		break;
	default: snprintf(text, len, "the peer refuses, and does not say why; see its log");
	}
}

uint32_t weft_cm_patience(const struct weft_qp_opts *o)
{
	return o && HAS(o, connect_ms) && o->connect_ms ? o->connect_ms : CONNECT_DEFAULT_MS;
}

int weft_cm_listen(struct weft_dev *dev, const struct addrinfo *a, bool any)
{
	char name[IF_NAMESIZE]; /* by now: it may have been renamed */
	int fd, saved, err, one = 1, zero = 0;

	err = weft_ns_enter(dev, &saved);
	if (err)
		return err;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = fd < 0 ? -errno : 0;
	if (!if_indextoname(dev->ifindex, name))
		strcpy(name, dev->ifname);
	weft_ns_leave(saved);
	if (err)
		return err;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? &zero : &one, sizeof(one));
	/* "all addresses" means those that are reached through the interface */
	if ((any && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, strlen(name) + 1)) ||
	    bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, LISTEN_BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int connect_to(struct weft_dev *dev, const struct addrinfo *a, uint64_t until)
{
	int fd, saved, err, one = 1;
	socklen_t len = sizeof(err);

	err = weft_ns_enter(dev, &saved);
	if (err)
		return err;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = fd < 0 ? -errno : 0;
	weft_ns_leave(saved);
	if (err)
		return err;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	err = connect(fd, a->ai_addr, a->ai_addrlen) ? -errno : 0;
	if (err == -EINPROGRESS) {
		err = weft_cm_poll(fd, POLLOUT, until);
		if (!err && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
			err = -err;
	}
	if (err) {
		close(fd);
		return err == -ENETUNREACH ? -EHOSTUNREACH : err;
	}
	return fd;
}

/* Of a peer of another version *m has only that: `refusal`, and the versions in `flags` and `qpn`. */
static int hear_reply(int fd, uint64_t until, struct weft_cm_msg *m)
{
	uint8_t buf[WEFT_CM_MAX], alive = WEFT_CM_ALIVE;
	size_t got = 0;

	for (;;) {
		int err = weft_cm_poll(fd, POLLIN, until), len;
		ssize_t n;

		if (err)
			return err;
		n = recv(fd, buf + got, sizeof(buf) - got, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return -ECONNRESET;
		got += n;
		if (buf[0] == WEFT_CM_PROBE) {
			memmove(buf, buf + 1, --got);
			err = send_all(fd, &alive, 1, until);
			if (err)
				return err;
		}
		if (!got)
			continue;
		len = weft_cm_parse(buf, got, WEFT_CM_REPLY, m);
		if (len == -EPROTONOSUPPORT)
			*m = (struct weft_cm_msg){ .refusal = WEFT_CM_R_VERSION,
						   .flags = cm_get(buf + 4, 2),
						   .qpn = cm_get(buf + 6, 2) };
		if (len == -EPROTONOSUPPORT || len == (int)got)
			return 0;
		if (len)
			return len < 0 ? len : -EPROTO;
	}
}

static int refused(const char *addr, const char *ifname, const struct weft_cm_msg *mine,
		   const struct weft_cm_msg *theirs)
{
	char text[240];

	switch (theirs->refusal) {
	case WEFT_CM_R_VERSION:
		/* one that knows of ours answers in it */
		if (theirs->flags)
			return weft_err(
				EPROTO, addr,
				"the peer speaks version %u of set-up and %u of packets, we "
				"%u and %u; use the same weft on both",
				theirs->flags, theirs->qpn, WEFT_CM_VER, WEFT_WIRE_VER);
		return weft_err(EPROTO, addr,
				"the peer speaks another version of weft; use the same on both");
	case WEFT_CM_R_RESOURCES:
		return weft_err(ECONNREFUSED, addr,
				"the peer can make no QP, all or its memory are in use; use fewer, "
				"close some there, or have it hold more: 'weft up DEV qps N' there "
				"before its program opens DEV, and qps of that weft_open()");
	case WEFT_CM_R_LOST:
		return weft_err(ECONNREFUSED, addr,
				"the peer can make no QP, its device is lost; open it again there");
	case WEFT_CM_R_QUOTA:
		return weft_err(ECONNREFUSED, addr,
				"the peer can make no QP, weftd allows its user no more; close "
				"some there, or have weftd.conf allow more");
	case WEFT_CM_R_ROUTE:
		return weft_err(
			EHOSTUNREACH, addr,
			"the peer's way back to %s is not through its weft device; see its routes",
			ifname);
	case WEFT_CM_R_PAYLOAD:
		return weft_err(EMSGSIZE, addr, "the peer's MTU is too small; raise it");
	case WEFT_CM_R_FEATURES:
	case WEFT_CM_R_WINDOW:
	case WEFT_CM_R_ATOMICS:
		weft_cm_differ(mine, theirs, text, sizeof(text));
		return weft_err(EPROTO, addr, "%s", text);
	default:
		return weft_err(EPROTO, addr, "the peer refuses (%u); see its log",
				theirs->refusal);
	}
}

/*
 * READY has been said: does the peer's program have it, or was another taken before? 1: the latter,
 * which is nobody's fault.
 */
static int confirmed(struct weft_qp *qp, const char *addr, uint64_t until)
{
	uint8_t byte = 0;
	ssize_t n;
	int err;

	do {
		err = weft_cm_poll(qp->cm_fd, POLLIN, until);
		n = err ? err : recv(qp->cm_fd, &byte, 1, 0);
	} while (!err && n < 0 && (errno == EAGAIN || errno == EINTR));
	if (err)
		return weft_err(-err, addr, "no answer; is a weft program accepting there?");
	return n == 1 && byte == WEFT_CM_CONFIRM ? 0 : 1;
}

/* 0, -errno, or 1: the peer is busy, it may be tried again. */
static int handshake(struct weft_qp *qp, const char *addr, const struct weft_qp_opts *opts,
		     uint64_t until)
{
	struct weft_cm_msg mine = { .type = WEFT_CM_REQUEST }, theirs;
	uint8_t buf[WEFT_CM_MAX], ready = WEFT_CM_READY;
	int err;

	weft_cm_private(&mine, opts);
	weft_cm_limits(&mine, opts);
	weft_qp_offer(qp, qp->peer.ss_family == AF_INET6, &mine);
	if (!mine.payload)
		return weft_err(EMSGSIZE, qp->dev->ifname, "its MTU %u is too small; raise it",
				qp->dev->maps.cfg->mtu);
	err = send_all(qp->cm_fd, buf, weft_cm_format(&mine, buf), until);
	/* it may have been refused without having been read */
	if (!err || err == -EPIPE || err == -ECONNRESET)
		err = hear_reply(qp->cm_fd, until, &theirs);
	if (err == -ETIMEDOUT)
		return weft_err(ETIMEDOUT, addr, "no answer; is a weft program accepting there?");
	if (err == -ECONNRESET || err == -EPIPE)
		return weft_err(EPROTO, addr,
				"closed the connection half-way: no weft peer, or one that had no "
				"patience; check address and port, or try again");
	if (err)
		return weft_err(-err, addr, "is no weft peer: %s; check address and port",
				strerror(-err));
	if (theirs.refusal == WEFT_CM_R_BUSY)
		return 1;
	/* one that takes what does not match is none of ours */
	if (!theirs.refusal)
		theirs.refusal = weft_cm_match(&mine, &theirs);
	if (theirs.refusal)
		return refused(addr, qp->dev->ifname, &mine, &theirs);
	err = weft_qp_establish(qp, &mine, &theirs);
	if (err)
		return err;
	/* it may have closed in the meantime, when we were slow */
	if (send_all(qp->cm_fd, &ready, 1, until))
		return 1;
	err = confirmed(qp, addr, until);
	return err ? err : weft_ctl_watch_cm(qp);
}

static int connect_any(struct weft_dev *dev, const char *addr, struct addrinfo *res, uint64_t until)
{
	struct sockaddr_storage peer;
	uint8_t hop[16];
	int err = -EHOSTUNREACH;

	for (struct addrinfo *a = res; a; a = a->ai_next) {
		memset(&peer, 0, sizeof(peer));
		memcpy(&peer, a->ai_addr, a->ai_addrlen);
		weft_addr_unmap(&peer);
		err = weft_route(dev, NULL, &peer, hop, NULL);
		if (err)
			continue;
		err = connect_to(dev, a, until);
		if (err >= 0)
			return err;
		weft_err(-err, addr, "cannot connect through %s: %s; %s", dev->ifname,
			 strerror(-err),
			 err == -ETIMEDOUT || err == -EHOSTUNREACH
				 ? "is that host up ('ip neigh' has its MAC address), and does its "
				   "firewall let this TCP port through?"
				 : "is a weft program listening there?");
	}
	return err;
}

/* One try; as handshake(). */
static int connect_once(struct weft_dev *dev, const char *addr, struct addrinfo *res,
			const struct weft_qp_opts *opts, uint64_t until, struct weft_qp **out)
{
	struct weft_qp *qp;
	int err = weft_qp_alloc(dev, opts, &qp);

	if (err)
		return err;
	err = qp->cm_fd = connect_any(dev, addr, res, until);
	if (err >= 0)
		err = weft_cm_addresses(qp);
	if (!err)
		err = handshake(qp, addr, opts, until);
	if (err)
		weft_qp_destroy(qp);
	else
		*out = qp;
	return err;
}

int weft_connect(struct weft_dev *dev, const char *addr, const struct weft_qp_opts *opts,
		 struct weft_qp **out)
{
	uint64_t until = weft_cm_deadline(weft_cm_patience(opts));
	unsigned wait_ms = AGAIN_MIN_MS;
	struct addrinfo *res;
	int err;

	err = weft_addr_resolve(dev, addr, false, &res);
	if (err)
		return err;
	while ((err = connect_once(dev, addr, res, opts, until, out)) > 0) {
		if (weft_cm_left(until) <= (int)wait_ms) {
			err = weft_err(ETIMEDOUT, addr,
				       "the peer is busy with others who connect; try again later");
			break;
		}
		/* not all at the same time */
		usleep(1000 * wait_ms + weft_now_ns() / 1000 % (1000 * wait_ms));
		wait_ms = 2 * wait_ms < AGAIN_MAX_MS ? 2 * wait_ms : AGAIN_MAX_MS;
	}
	freeaddrinfo(res);
	return err;
}
