// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The operations that clients ask for: is the object theirs, is it allowed, then as in the library. */
#include "ops.h"

int ops_quota(const struct proc *p, const char *what, uint64_t has, uint64_t limit)
{
	struct user_name name;

	return weft_err_quiet(EDQUOT, p->dev.ifname,
			      "%s has %llu %s of the %llu that weftd allows; close some, or have "
			      "its configuration allow more",
			      user_name(p->dev.uid, &name), (unsigned long long)has, what,
			      (unsigned long long)limit);
}

/* Rounded up: a receive queue may be small. */
static unsigned long long mib(uint64_t bytes)
{
	return (bytes + 0xfffff) >> 20;
}

int ops_reserve(const struct proc *p, uint64_t size)
{
	int err = usage_reserve(p->dev.uid, size, p->q.memory);
	struct user_name name;
	struct usage now;

	if (err != -EDQUOT)
		return err;
	usage_of(p->dev.uid, &now);
	return weft_err_quiet(EDQUOT, p->dev.ifname,
			      "%llu MiB more would be too much: %s has %llu MiB of the %llu that "
			      "weftd allows; free some, or have its configuration allow more",
			      mib(size), user_name(p->dev.uid, &name), mib(now.memory),
			      mib(p->q.memory));
}

int ops_not_yours(const struct proc *p, const char *what, uint32_t id)
{
	return weft_err_quiet(ENOENT, p->dev.ifname, "%s 0x%x is not of this process", what, id);
}

int ops_bad(const struct proc *p, const char *what)
{
	return weft_err_quiet(EINVAL, p->dev.ifname, "%s is out of bounds", what);
}

/* ---- the device ---- */

static int do_tidy(struct proc *p, union weftd_body *u, int fd, int *out)
{
	(void)fd, (void)out;
	if (!p->held->dev->dead)
		weft_direct.tidy(&p->dev);
	u->tidy_rep = *p->dev.maps.cfg;
	return 0;
}

static int do_runs(struct proc *p, union weftd_body *u, int fd, int *out)
{
	(void)fd, (void)out;
	u->runs_rep.v = weft_direct.runs_program(&p->dev);
	return 0;
}

static int do_leave(struct proc *p, union weftd_body *u, int fd, int *out)
{
	(void)u, (void)fd, (void)out;
	proc_leave(p);
	return 0;
}

int ops_run(struct proc *p, struct weftd_msg *m, int fd, int *out)
{
	static int (*const run[WEFTD_OPS_COUNT])(struct proc *, union weftd_body *, int, int *) = {
		[WEFTD_leave] = do_leave,         [WEFTD_tidy] = do_tidy,
		[WEFTD_runs] = do_runs,           [WEFTD_pool_new] = do_pool_new,
		[WEFTD_pool_drop] = do_pool_drop, [WEFTD_mr_put] = do_mr_put,
		[WEFTD_mr_drop] = do_mr_drop,     [WEFTD_mem_drop] = do_mem_drop,
		[WEFTD_cq_new] = do_cq_new,       [WEFTD_cq_drop] = do_cq_drop,
		[WEFTD_rq_new] = do_rq_new,       [WEFTD_rq_drop] = do_rq_drop,
		[WEFTD_qp_take] = do_qp_take,     [WEFTD_qp_live] = do_qp_live,
		[WEFTD_qp_stop] = do_qp_stop,     [WEFTD_qp_failed] = do_qp_failed,
		[WEFTD_qp_free] = do_qp_free,     [WEFTD_qp_cwnd] = do_qp_cwnd,
		[WEFTD_qp_stats] = do_qp_stats,   [WEFTD_qp_route] = do_qp_route,
		[WEFTD_qp_note] = do_qp_note,
	};
	/* slow, or by itself behind a lock */
	bool alone = m->op == WEFTD_pool_new || m->op == WEFTD_leave || m->op == WEFTD_tidy ||
		     m->op == WEFTD_runs;
	/* what the user has is counted, and then there is more of it */
	static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
	bool counted = m->op == WEFTD_mr_put || m->op == WEFTD_cq_new || m->op == WEFTD_rq_new ||
		       m->op == WEFTD_qp_take;
	int err;

	*out = -1;
	if (!run[m->op])
		return -EPROTO;
	if (!alone)
		pthread_mutex_lock(&p->lock);
	if (counted)
		pthread_mutex_lock(&counting);
	err = p->left ? weft_err_quiet(ESTALE, p->dev.ifname, "the process has left")
		      : run[m->op](p, &m->u, fd, out);
	if (counted)
		pthread_mutex_unlock(&counting);
	if (!alone)
		pthread_mutex_unlock(&p->lock);
	return err;
}
