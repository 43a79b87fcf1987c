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
	uint8_t *ctl; /* control memory, PERF_SLOT for each session */
	struct weft_mr *ctl_mr;
	struct weft_cq *cq;   /* of data QPs that nobody here works on */
	uint64_t used;        /* bit per slot */
	pthread_mutex_t lock; /* sessions, their QPs, output */
	pthread_cond_t news;  /* a session got a data QP */
	LIST_HEAD(, session) sessions;
	bool gone; /* the device was taken from us */
};

struct receiver { /* a data QP that the client SENDs to, and its thread */
	struct session *s;
	struct weft_qp *qp;
	unsigned index;
	uint64_t posted;
	_Atomic uint64_t got;
	pthread_t thread;
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
	struct weft_qp *qp[WEFT_PROC_MAX + 1]; /* and ctl at the end */
	unsigned qps;
	struct receiver rx[WEFT_PROC_MAX]; /* SENDs: of qp[] */
	unsigned rxs;
	struct perf_msg start; /* what the run is */
	uint8_t *mem, *pong;   /* region; latency: source of the answers */
	struct weft_mr *mr, *pong_mr;
	bool done; /* the thread has ended */
};

/* The session's thread; closes and frees all that is the session's, but not *s. */
void *session_serve(void *arg);

void session_say(struct session *s, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool session_alive(const struct session *s);

/* SENDs: a thread for a data QP that has joined; with the server's lock. */
int receiver_start(struct session *s, struct weft_qp *qp, unsigned index);
/* All have ended, or will: wait for them. */
void receivers_join(struct session *s);
/* Compare the region with what `sent` messages are; m->bad is the first byte that differs. 0 or -errno. */
int receivers_verify(struct session *s, struct perf_msg *m, uint64_t sent);

#endif
