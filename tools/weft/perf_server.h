/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* weft perf server: the server and its sessions, one for each client's run. */
#ifndef WEFT_TOOL_PERF_SERVER_H
#define WEFT_TOOL_PERF_SERVER_H

#include <pthread.h>
#include <sys/queue.h>

#include "perf.h"

struct server {
	const char *dev;
	struct weft_dev *wd;
	struct weft_listener *l;
	uint8_t *ctl; /* control memory, PERF_SLOT for each QP that a process can have */
	struct weft_mr *ctl_mr;
	uint64_t used;        /* bit per slot */
	pthread_mutex_t lock; /* sessions, their QPs, output */
	pthread_cond_t news;  /* a session got a data QP */
	LIST_HEAD(, session) sessions;
	bool gone; /* the device was taken from us */
};

struct session {
	LIST_ENTRY(session) link;
	struct server *srv;
	pthread_t thread;
	uint64_t run;
	unsigned slot; /* of control memory */
	struct weft_qp *ctl;
	uint32_t asked; /* questions taken */
	struct perf_hello peer;
	struct weft_qp *qp[WEFT_PROC_QPS];
	unsigned qps;
	struct perf_msg start; /* what the run is */
	uint8_t *mem, *pong;   /* region; latency: source of the answers */
	struct weft_mr *mr, *pong_mr;
	bool done; /* the thread has ended */
};

/* The session's thread; closes and frees all that is the session's, but not *s. */
void *session_serve(void *arg);

#endif
