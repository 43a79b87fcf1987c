/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What listen.c and pending.c share: a listener, and those who come to it. */
#ifndef WEFT_USER_LISTEN_H
#define WEFT_USER_LISTEN_H

#include "cm.h"

#define PENDING 256 /* connections under way */

struct pending {
	int fd;             /* -1: free */
	uint64_t since;     /* ns: it came */
	uint64_t until;     /* ns: its patience ends */
	bool whole;         /* all of its REQUEST is in buf */
	bool probed, alive; /* it was asked whether there is somebody; there is */
	struct weft_qp *qp; /* it has been answered; fd is the QP's as well */
	uint64_t turn;      /* then, ns: no other is answered before */
	bool ready;         /* it is READY */
	size_t got;
	uint8_t buf[WEFT_CM_MAX];
};

/* What epoll says of the others; below are the pending ones. */
enum { TAG_LISTEN = PENDING, TAG_MORE, TAG_LOST };

struct weft_listener {
	struct weft_dev *dev;
	pthread_mutex_t lock; /* one weft_accept() at a time */
	int fd;
	int more_fd; /* eventfd: somebody waits whose REQUEST has been read */
	int ep_fd;   /* all of these and the pending ones: readable when there is work */
	/*
	 * Those who were answered and never became READY cost time and a QP. After one of them each
	 * must show first that it is alive, which they can do all at once, until so many were READY.
	 */
	unsigned late;
	weft_choose_fn choose;
	void *choose_arg;
	struct pending pend[PENDING];
};

int weft_pend_watch(struct weft_listener *l, int fd, uint64_t tag);
int weft_pend_admit(struct weft_listener *l);                          /* 0 or -errno */
void weft_pend_hear(struct weft_listener *l, struct pending *p);       /* of its REQUEST */
void weft_pend_hear_ready(struct weft_listener *l, struct pending *p); /* it has been answered */
void weft_pend_probe(struct weft_listener *l, struct pending *p);
/* Refuse it, with our features and numbers. */
void weft_pend_refuse(int fd, uint32_t why, const struct weft_qp_opts *opts);
void weft_pend_name(const struct pending *p, char name[INET6_ADDRSTRLEN]); /* its address */
void weft_pend_drop(struct weft_listener *l, struct pending *p);
/* The connection goes on in its QP alone, which is returned. */
struct weft_qp *weft_pend_take(struct weft_listener *l, struct pending *p);
/* End those whose patience is over, and with `all` whoever is half open; one grace period for all. */
void weft_pend_expire(struct weft_listener *l, bool all);

#endif
