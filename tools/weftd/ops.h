/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the operations of weftd share: refusals, and one function for each operation. */
#ifndef WEFTD_OPS_H
#define WEFTD_OPS_H

#include "weftd.h"

/* Say it, and return -errno. */
int ops_quota(const struct proc *p, const char *what, uint64_t has, uint64_t limit);
/* Memory of that size is being made, until usage_release(). */
int ops_reserve(const struct proc *p, uint64_t size);
int ops_not_yours(const struct proc *p, const char *what, uint32_t id);
int ops_bad(const struct proc *p, const char *what);

/* As ops_run(), with p->lock but for do_pool_new(). */
int do_pool_new(struct proc *p, union weftd_body *u, int fd, int *out);
int do_pool_drop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_mr_put(struct proc *p, union weftd_body *u, int fd, int *out);
int do_mr_drop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_mem_drop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_cq_new(struct proc *p, union weftd_body *u, int fd, int *out);
int do_cq_drop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_rq_new(struct proc *p, union weftd_body *u, int fd, int *out);
int do_rq_drop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_take(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_live(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_stop(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_failed(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_free(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_cwnd(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_stats(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_route(struct proc *p, union weftd_body *u, int fd, int *out);
int do_qp_note(struct proc *p, union weftd_body *u, int fd, int *out);

#endif
