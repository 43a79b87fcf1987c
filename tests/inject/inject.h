/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the parts of the injection test share: two devices, what is held, results. */
#ifndef WEFT_TESTS_INJECT_H
#define WEFT_TESTS_INJECT_H

#include "internal.h"
#include "shim.h"
#include "teardown.h"

#define MEM 65536

extern struct inject {
	const char *ns[2], *ifname[2], *host;
	char pins[2][WEFT_PATH_MAX]; /* their directories */
	struct weft_dev *dev[2];     /* A, B: open all the time, except when A is to be created */
	struct weft_listener *l;
	void *mem[2];
	struct weft_mr *mr[2];
	pthread_t server, client;
	volatile bool stop, no_more; /* of server and client */
	volatile bool want;          /* the client shall come */
	/* what the scenario at work has made */
	struct weft_dev *d;
	struct weft_listener *own_l;
	struct weft_qp *qp;
	struct weft_cq *cq;
	struct weft_mr *own_mr;
	struct weft_pd *pd;
	void *own_mem;
} s;

/* A line of TAP; and the end when what the test stands on does not work. */
void result(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void need(int err, const char *what);

/* ---- held.c: what must be the same afterwards ---- */

struct held {
	unsigned fds, maps, pins, qps, mrs, pools, cqs;
	long blocks;
};

void hold(struct held *h);
void settle(struct held *h);
bool same(const struct held *a, struct held *b); /* soon; b: how it is */

/* ---- scenarios: 0 or -errno, and taking back what was made ---- */

int do_open(void);
void undo_open(void);
int do_alloc(void);
void undo_alloc(void);
int do_cq(void);
void undo_cq(void);
int do_connect(void);
void undo_qp(void);

/* memory.c */
int do_adopt(void);
void undo_adopt(void);
int do_give(void); /* of what do_adopt() took */
void undo_give(void);
int do_stage(void);
void undo_stage(void);

void full_tables(void); /* full.c */

#endif
