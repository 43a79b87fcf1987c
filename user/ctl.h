/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What ctl.c and ctl_link.c share: the control thread of a device. */
#ifndef WEFT_USER_CTL_H
#define WEFT_USER_CTL_H

#include "internal.h"

struct weft_ctl {
	struct weft_dev *dev;
	pthread_t thread;
	pthread_mutex_t
		lock; /* qp[]; held while the thread works on them; never inside dev->lock's */
	int ep_fd, kick_fd, timer_fd;
	int lost_fd;     /* readable from when the device is lost: listeners watch it */
	int nl_fd;       /* ctl_link.c */
	uint32_t active; /* the timer runs, or is about to (atomic) */
	bool stop;
	uint64_t period;           /* of the timer, 0: off */
	uint64_t last_ns, busy_ns; /* last tick; when something was last outstanding */
	uint64_t purge_ns;         /* when to look for dead processes' leavings again */
	int idle_fd;               /* idle.c: a timer of its own */
	uint64_t idle_at;          /* ns: when it fires */
	unsigned smooth;
	unsigned n;
	struct weft_qp **batch; /* fail_due() */
	struct weft_qp *qp[];   /* [dev->nrings] */
};

/* The QP will fail for this reason, after `delay` ns at most; the first reason stands. Locked. */
void weft_ctl_doom(struct weft_ctl *c, struct weft_qp *qp, enum weft_wc_status why, uint64_t delay);

/* Posted and not complete, of a QP that works. */
bool weft_ctl_outstanding(const struct weft_qp *qp);

/* idle.c. Locked. */
void weft_idle_begin(struct weft_ctl *c, struct weft_qp *qp);
void weft_idle_look(struct weft_ctl *c, uint64_t now); /* idle_fd is readable */

extern __thread bool weft_in_ctl_thread; /* remote_call.c: less patience with weftd */

/* ctl_link.c: rtnetlink events about the interface and its neighbours. */
int weft_ctl_link_open(struct weft_ctl *c);
void weft_ctl_link_read(struct weft_ctl *c);
void weft_ctl_link_ask(struct weft_ctl *c); /* the answer comes like an event */

#endif
