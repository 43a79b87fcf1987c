/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What cm.c and listen.c share: deadlines, the stream, the options that concern set-up. */
#ifndef WEFT_USER_CM_H
#define WEFT_USER_CM_H

#include "internal.h"
#include "cm_wire.h"

uint64_t weft_cm_deadline(uint32_t ms);                 /* from now */
int weft_cm_left(uint64_t until);                       /* ms, for poll(2) */
uint64_t weft_cm_rtt_ns(int fd);                        /* of the stream, as TCP knows it; 0 */
int weft_cm_poll(int fd, short events, uint64_t until); /* 0, -ETIMEDOUT, -errno */
int weft_cm_say(struct weft_qp *qp, const void *buf, size_t len, uint64_t until); /* 0, -errno */
struct addrinfo;
/* A listening socket in the device's namespace; any: on all addresses of the interface. */
int weft_cm_listen(struct weft_dev *dev, const struct addrinfo *a, bool any);
int weft_cm_addresses(struct weft_qp *qp); /* of cm_fd, into the QP */
void weft_cm_private(struct weft_cm_msg *m, const struct weft_qp_opts *o);
/* What we have and need of a peer: features, window, atomics. */
void weft_cm_limits(struct weft_cm_msg *m, const struct weft_qp_opts *o);
/* Why they do not match, for the user: of one who is refused for it. */
void weft_cm_differ(const struct weft_cm_msg *mine, const struct weft_cm_msg *theirs, char *text,
		    size_t len);
uint32_t weft_cm_patience(const struct weft_qp_opts *o);

#endif
