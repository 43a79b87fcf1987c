/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The TCP half of weft-demo: the same messages over one connection of the kernel's TCP. */
#ifndef WEFT_DEMO_TCP_H
#define WEFT_DEMO_TCP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "demo.h"

/* TCP: before each message */
struct tcp_head {
	uint64_t off;
	uint32_t len;
	uint32_t flags;
};
enum { TCP_ACK = 1, TCP_SPIN = 2, TCP_HASH = 4 };

static int parse_addr(const char *addr, struct sockaddr_in *sa)
{
	char host[64];
	unsigned port;

	memset(sa, 0, sizeof(*sa));
	sa->sin_family = AF_INET;
	if (sscanf(addr, "%63[0-9.]:%u", host, &port) != 2 || port > 65535 ||
	    inet_pton(AF_INET, host, &sa->sin_addr) != 1)
		return fail(addr, 0, "is not IPV4:PORT");
	sa->sin_port = htons(port);
	return 0;
}

static int send_all(int fd, const char *p, size_t len, int flags)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL | flags);

		if (n < 0 && errno != EINTR)
			return fail("tcp", -errno, "cannot send");
		if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

static int tcp_flush(struct link *l, int flags)
{
	size_t n = l->staged;

	l->staged = 0;
	return send_all(l->fd, l->stage, n, flags);
}

/* Small pieces are gathered, so that small files do not cost a system call each. */
static int tcp_put(struct link *l, const void *p, size_t len)
{
	int err = 0;

	if (l->staged + len > STAGE)
		err = tcp_flush(l, MSG_MORE);
	if (err || len > STAGE)
		return err ? err : send_all(l->fd, p, len, 0);
	memcpy(l->stage + l->staged, p, len);
	l->staged += len;
	return 0;
}

static int tcp_write(struct link *l, size_t off, size_t len)
{
	struct tcp_head h = { .off = off, .len = len };
	int err = tcp_put(l, &h, sizeof(h));

	return err ? err : tcp_put(l, l->mem.base[off / REGION] + off % REGION, len);
}

static int tcp_mark(struct link *l, uint32_t flags)
{
	struct tcp_head h = { .flags = flags };
	int err = tcp_put(l, &h, sizeof(h));
	char ack;
	ssize_t n;

	err = err ? err : tcp_flush(l, 0);
	if (err)
		return err;
	do {
		n = recv(l->fd, &ack, 1, flags & TCP_SPIN ? MSG_DONTWAIT : 0);
	} while (n < 0 && (errno == EAGAIN || errno == EINTR));
	return n == 1 ? 0 : fail("tcp", n < 0 ? -errno : 0, "the receiver is gone");
}

static int tcp_drain(struct link *l, bool spin)
{
	return tcp_mark(l, TCP_ACK | (spin ? TCP_SPIN : 0));
}

static int tcp_send_open(struct link *l, const char *addr, const char *file, const char *cc)
{
	struct sockaddr_in sa;
	int err = parse_addr(addr, &sa), one = 1;

	err = err ? err : mem_alloc(&l->mem, file_size(file), NULL, 0);
	err = err ? err : mem_load(&l->mem, file);
	if (err)
		return err;
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setsockopt(l->fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		return fail(cc, -errno, "no such congestion control");
	setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(l->fd, (void *)&sa, sizeof(sa)))
		return fail(addr, -errno, "cannot connect");
	l->write = tcp_write;
	l->drain = tcp_drain;
	return 0;
}

/* Exactly len bytes: through the stage when few, straight to their place when many. */
static int tcp_get(struct link *l, size_t *pos, char *to, size_t len, bool spin)
{
	while (len) {
		size_t have = l->staged - *pos, n = have < len ? have : len;
		ssize_t got;

		if (have) {
			memcpy(to, l->stage + *pos, n);
			*pos += n;
			to += n;
			len -= n;
			continue;
		}
		if (len >= STAGE)
			got = recv(l->fd, to, len, 0);
		else
			got = recv(l->fd, l->stage, STAGE, spin ? MSG_DONTWAIT : 0);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return got ? fail("tcp", -errno, "cannot receive") : -EPIPE;
		if (len >= STAGE) {
			to += got;
			len -= got;
		} else {
			l->staged = got;
			*pos = 0;
		}
	}
	return 0;
}

static int tcp_recv(const char *addr, size_t size)
{
	static struct link l;
	struct sockaddr_in sa;
	struct tcp_head h;
	size_t pos = 0;
	bool spin = false;
	int err = parse_addr(addr, &sa), one = 1, fd;

	err = err ? err : mem_alloc(&l.mem, size, NULL, 0);
	if (err)
		return err;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (void *)&sa, sizeof(sa)) || listen(fd, 1))
		return fail(addr, -errno, "cannot listen");
	puts("ready");
	fflush(stdout);
	l.fd = accept(fd, NULL, NULL);
	if (l.fd < 0)
		return fail(addr, -errno, "cannot accept");
	setsockopt(l.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (!(err = tcp_get(&l, &pos, (char *)&h, sizeof(h), spin))) {
		if (h.off + h.len > size || h.off / REGION != (h.off + h.len - !!h.len) / REGION)
			return fail("tcp", 0, "a message is out of bounds");
		err = tcp_get(&l, &pos, l.mem.base[h.off / REGION] + h.off % REGION, h.len, spin);
		spin = h.flags & TCP_SPIN;
		if (!err && h.flags & TCP_HASH)
			err = mem_hash(&l.mem);
		if (!err && h.flags & (TCP_ACK | TCP_HASH))
			err = send_all(l.fd, "", 1, 0);
		if (err)
			break;
	}
	return err == -EPIPE ? 0 : err;
}

#endif
