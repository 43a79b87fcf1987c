/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A device that weftd holds for this process: the ways to it, and what must be told again. */
#ifndef WEFT_USER_REMOTE_H
#define WEFT_USER_REMOTE_H

#include "daemon_wire.h"

struct weft_chan {            /* a connection to weftd */
	pthread_mutex_t lock; /* one request at a time */
	int fd;               /* -1: none, or it broke */
	uint32_t seq;
	uint64_t down_ns; /* since when weftd has not been reached; 0: it has */
};

struct weft_remote {
	struct sockaddr_un *addr;
	struct weft_open_opts opts;
	uint64_t token[2];
	bool in;   /* we have a slot */
	bool lost; /* weftd does not know us any more: only closing is left */
	/*
	 * The control thread has a connection of its own and less patience: it must go on
	 * looking after the QPs while weftd makes a large pool, or is not there.
	 */
	struct weft_chan app, ctl;
	/* `mine` is what the replies said; `adding` is held over a request that adds to it */
	pthread_mutex_t adding, mine_lock;
	struct weftd_mine mine;
};

/*
 * One request and its reply in m->u, over and over until weftd has answered, within the caller's
 * patience. fd: goes along, -1. fds: n descriptors that must come with the reply. 0 or -errno, said
 * with weft_err().
 */
int weft_remote_call(struct weft_dev *dev, struct weftd_msg *m, int fd, int *fds, unsigned n);

int weft_remote_meet(struct weft_dev *dev); /* the control thread's connection, at the beginning */

extern __thread bool weft_in_ctl_thread; /* remote_call.c */

#endif
