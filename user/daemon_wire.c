// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sending and receiving the messages between the library and weftd, with descriptors. */
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "daemon_wire.h"

const struct weft_daemon_op weft_daemon_ops[WEFTD_OPS_COUNT] = {
#define X(name, req, rep, in, out) { #name, sizeof(req), sizeof(rep), in, out },
	WEFTD_OPS(X)
#undef X
};

int weft_daemon_send(int fd, const struct weftd_msg *m, size_t len, const int *fds, unsigned n)
{
	char control[CMSG_SPACE(WEFTD_FDS * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)m, .iov_len = WEFTD_HEAD + len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	while (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void take_fds(struct msghdr *msg, int fds[WEFTD_FDS], unsigned *n)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < got; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*n < WEFTD_FDS)
				fds[(*n)++] = fd;
			else
				close(fd);
		}
	}
}

int weft_daemon_recv(int fd, struct weftd_msg *m, int fds[WEFTD_FDS], unsigned *n)
{
	char control[CMSG_SPACE(WEFTD_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t len;

	*n = 0;
	do
		len = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return -errno;
	take_fds(&msg, fds, n);
	if (len >= (ssize_t)WEFTD_HEAD && m->op < WEFTD_OPS_COUNT &&
	    !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return len - WEFTD_HEAD;
	while (*n)
		close(fds[--*n]);
	return len ? -EPROTO : -ECONNRESET;
}
