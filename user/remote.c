// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What needs privilege, done by weftd for a process that has none. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "device.h"
#include "remote.h"

static int call(struct weft_dev *dev, struct weftd_msg *m)
{
	return weft_remote_call(dev, m, -1, NULL, 0);
}

/* ---- memory, CQs ---- */

static int pool_new(struct weft_dev *dev, size_t size, int *fd, uint32_t *id)
{
	struct weftd_msg m = { .op = WEFTD_pool_new, .u.pool_new.v = size };
	int err = weft_remote_call(dev, &m, -1, fd, 1);

	*id = m.u.pool_new_rep.v;
	return err;
}

static void pool_drop(struct weft_dev *dev, uint32_t id)
{
	struct weftd_msg m = { .op = WEFTD_pool_drop, .u.pool_drop.v = id };

	call(dev, &m);
}

static int mr_put(struct weft_dev *dev, const struct weft_mr_ent *e, uint32_t *key)
{
	struct weftd_msg m = { .op = WEFTD_mr_put, .u.mr_put = *e };
	int err = call(dev, &m);

	*key = m.u.mr_put_rep.v;
	return err;
}

static int mr_drop(struct weft_dev *dev, const uint32_t *keys, unsigned n)
{
	struct weftd_msg m = { .op = WEFTD_mr_drop };
	int err = 0;

	for (unsigned i; n && !err; n -= i, keys += i) {
		i = n < WEFT_STOP_MAX ? n : WEFT_STOP_MAX;
		m.u.mr_drop.n = i;
		memcpy(m.u.mr_drop.num, keys, i * sizeof(*keys));
		err = call(dev, &m);
	}
	return err;
}

static void mem_drop_all(struct weft_dev *dev)
{
	struct weftd_msg m = { .op = WEFTD_mem_drop };

	call(dev, &m);
}

static int cq_new(struct weft_dev *dev, int *fd, uint32_t *idx)
{
	struct weftd_msg m = { .op = WEFTD_cq_new };
	int err = weft_remote_call(dev, &m, -1, fd, 1);

	*idx = m.u.cq_new_rep.v;
	return err;
}

static void cq_drop(struct weft_dev *dev, uint32_t idx)
{
	struct weftd_msg m = { .op = WEFTD_cq_drop, .u.cq_drop.v = idx };

	call(dev, &m);
}

static int rq_new(struct weft_dev *dev, uint32_t depth, int *fd, uint32_t *idx)
{
	struct weftd_msg m = { .op = WEFTD_rq_new, .u.rq_new.v = depth };
	int err = weft_remote_call(dev, &m, -1, fd, 1);

	*idx = m.u.rq_new_rep.v;
	return err;
}

static void rq_drop(struct weft_dev *dev, uint32_t idx)
{
	struct weftd_msg m = { .op = WEFTD_rq_drop, .u.rq_drop.v = idx };

	call(dev, &m);
}

/* ---- QPs ---- */

static int qp_take(struct weft_dev *dev, uint32_t ring, uint32_t depth, uint32_t cwnd, uint32_t nev,
		   uint32_t *num)
{
	struct weftd_msg m = {
		.op = WEFTD_qp_take,
		.u.qp_take = { .ring = ring, .depth = depth, .cwnd = cwnd, .nev = nev },
	};
	int err = call(dev, &m);
	struct weft_qpctl *ctl;

	if (err)
		return err;
	*num = m.u.qp_take_rep.v;
	ctl = &dev->maps.ctl[WEFT_QPN_SLOT(*num)];
	*ctl = (struct weft_qpctl){ .qpn = *num, .cwnd = cwnd, .nev = nev };
	return 0;
}

/* maps.ctl is a copy of what concerns us. */
static int qp_live(struct weft_dev *dev, const struct weft_live *l, uint8_t nexthop[16])
{
	struct weft_qpctl *ctl = &dev->maps.ctl[WEFT_QPN_SLOT(l->num)];
	struct weftd_msg m = { .op = WEFTD_qp_live };
	int err;

	m.u.qp_live = (struct weftd_live){
		.num = l->num,
		.pd = l->pd,
		.cq = l->cq,
		.tx_psn = l->tx_psn,
		.rx_psn = l->rx_psn,
		.payload = l->payload,
		.dqpn = l->dqpn,
		.csum = l->csum,
		.port = l->port,
		.rq = l->rq,
		.srq = l->srq,
		.strict = l->strict,
		.many = l->many,
		.conn = l->conn,
		.secret = l->secret,
		.cpus = l->cpus,
	};
	err = weft_remote_call(dev, &m, l->cm_fd, NULL, 0);
	if (err)
		return err;
	memcpy(nexthop, m.u.qp_live_rep.nexthop, 16);
	ctl->payload = l->payload;
	ctl->flags = m.u.qp_live_rep.flags;
	memcpy(ctl->tmpl, m.u.qp_live_rep.tmpl, sizeof(ctl->tmpl));
	return 0;
}

static void qp_stop(struct weft_dev *dev, const uint32_t *nums, unsigned n, uint32_t state)
{
	struct weftd_msg m = { .op = WEFTD_qp_stop };

	m.u.qp_stop.n = n;
	m.u.qp_stop.state = state;
	memcpy(m.u.qp_stop.num, nums, n * sizeof(*nums));
	/* our own memory has its grace period all the same, whoever looks at it */
	if (call(dev, &m))
		weft_grace();
}

static void qp_failed(struct weft_dev *dev, const struct weft_failed *f)
{
	struct weftd_msg m = { .op = WEFTD_qp_failed, .u.qp_failed = *f };

	call(dev, &m);
}

static void qp_free(struct weft_dev *dev, uint32_t num, const struct weft_failed *f)
{
	struct weftd_msg m = { .op = WEFTD_qp_free };

	if (f)
		m.u.qp_free.f = *f;
	m.u.qp_free.has_failed = !!f;
	m.u.qp_free.f.num = num;
	call(dev, &m);
}

static int qp_cwnd(struct weft_dev *dev, uint32_t num, uint32_t packets)
{
	struct weftd_msg m = { .op = WEFTD_qp_cwnd,
			       .u.qp_cwnd = { .num = num, .packets = packets } };

	return call(dev, &m);
}

static int qp_stats(struct weft_dev *dev, uint32_t num, struct weft_qp_stats *s)
{
	struct weftd_msg m = { .op = WEFTD_qp_stats, .u.qp_stats.v = num };
	int err = call(dev, &m);

	if (!err)
		*s = m.u.qp_stats_rep;
	return err;
}

/* weftd does not believe us an address: it looks for itself. */
static void qp_mac(struct weft_dev *dev, uint32_t num, unsigned at, const uint8_t mac[6])
{
	struct weftd_msg m = { .op = WEFTD_qp_route, .u.qp_route.v = num };
	struct weft_qpctl *ctl = &dev->maps.ctl[WEFT_QPN_SLOT(num)];

	(void)at, (void)mac;
	if (!call(dev, &m))
		memcpy(ctl->tmpl, m.u.qp_route_rep.tmpl, sizeof(ctl->tmpl));
}

static void qp_note(struct weft_dev *dev, uint32_t num, const struct weft_trace_event *e)
{
	struct weftd_msg m = { .op = WEFTD_qp_note, .u.qp_note = { .num = num, .e = *e } };

	call(dev, &m);
}

/* ---- the device ---- */

static int tidy(struct weft_dev *dev)
{
	struct weftd_msg m = { .op = WEFTD_tidy };

	/* the rest does not change while it is up */
	if (!call(dev, &m))
		__atomic_store_n(&dev->maps.cfg->flags, m.u.tidy_rep.flags, __ATOMIC_RELAXED);
	return 0;
}

static bool runs_program(struct weft_dev *dev)
{
	struct weftd_msg m = { .op = WEFTD_runs };

	return call(dev, &m) || m.u.runs_rep.v;
}

static void doorbell_up(struct weft_dev *dev)
{
	(void)dev; /* weftd sees it as well */
}

static int hello(struct weft_dev *dev)
{
	struct weft_remote *r = dev->remote;
	struct weftd_msg m = { .op = WEFTD_hello };
	struct weftd_hello *h = &m.u.hello;
	int fds[4], err;

	h->version = WEFTD_VERSION;
	h->slot = WEFTD_NEW;
	h->port = r->opts.port;
	h->csum = r->opts.csum;
	h->qps = r->opts.qps;
	strcpy(h->ifname, dev->ifname);
	err = weft_remote_call(dev, &m, -1, fds, 4);
	if (err)
		return err;
	dev->slot_fd = fds[0];
	dev->rings_fd = fds[1];
	dev->xsk_fd = fds[2];
	dev->db_fd = fds[3];
	dev->slot = m.u.hello_rep.slot;
	dev->ifindex = m.u.hello_rep.ifindex;
	memcpy(r->token, m.u.hello_rep.token, sizeof(r->token));
	*dev->maps.cfg = m.u.hello_rep.cfg;
	dev->maps.qps = dev->maps.cfg->qps;
	dev->nrings = m.u.hello_rep.rings;
	r->in = true;
	if (dev->maps.qps > WEFT_QPS_MAX || dev->nrings > WEFT_PROC_MAX)
		return weft_err(EPROTO, dev->ifname, "weftd says what cannot be; use its version");
	return 0;
}

static void leave(struct weft_dev *dev)
{
	struct weft_remote *r = dev->remote;
	struct weftd_msg m = { .op = WEFTD_leave };

	if (!r)
		return;
	weft_ctl_stop(dev);
	weft_mem_fini(dev);
	if (r->in)
		call(dev, &m);
	weft_dev_drop_fds(dev);
	free(dev->maps.cfg);
	free(dev->maps.ctl);
	weft_pins_no_maps(dev);
	if (r->app.fd >= 0)
		close(r->app.fd);
	if (r->ctl.fd >= 0)
		close(r->ctl.fd);
	pthread_mutex_destroy(&r->app.lock);
	pthread_mutex_destroy(&r->ctl.lock);
	pthread_mutex_destroy(&r->mine_lock);
	pthread_mutex_destroy(&r->adding);
	free(r->addr);
	free(r);
	dev->remote = NULL;
}

/* Is there anybody? A socket that nobody listens on is that of a weftd about to be started again. */
static int check_there(struct weft_dev *dev)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err, tries = 100;

	if (fd < 0)
		return weft_err(errno, dev->ifname, "no Unix socket: %s", strerror(errno));
	do
		err = connect(fd, (struct sockaddr *)dev->remote->addr, sizeof(*dev->remote->addr))
			      ? errno
			      : 0;
	while (err == ECONNREFUSED && --tries && !usleep(30000));
	close(fd);
	if (!err)
		return 0;
	return weft_err(err == ENOENT || err == ECONNREFUSED || err == EACCES ? EPERM : err,
			dev->ifname,
			"only root attaches BPF programs, and weftd cannot be reached at %s: %s; "
			"run as root, or start weftd",
			dev->remote->addr->sun_path, strerror(err));
}

static int prepare(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	const char *path = weft_daemon_path(opts);
	struct weft_remote *r = calloc(1, sizeof(*r));

	if (!r)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	dev->remote = r;
	r->opts = *opts;
	r->app.fd = r->ctl.fd = -1;
	pthread_mutex_init(&r->app.lock, NULL);
	pthread_mutex_init(&r->ctl.lock, NULL);
	pthread_mutex_init(&r->mine_lock, NULL);
	pthread_mutex_init(&r->adding, NULL);
	r->addr = calloc(1, sizeof(*r->addr));
	dev->maps.cfg = calloc(1, sizeof(*dev->maps.cfg));
	dev->maps.ctl = calloc(WEFT_QPS_MAX, sizeof(*dev->maps.ctl));
	if (!r->addr || !dev->maps.cfg || !dev->maps.ctl)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	if (strlen(path) >= sizeof(r->addr->sun_path))
		return weft_err(ENAMETOOLONG, dev->ifname,
				"the path of weftd's socket is too long");
	r->addr->sun_family = AF_UNIX;
	strcpy(r->addr->sun_path, path);
	return 0;
}

static int enter(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	int err = prepare(dev, opts);

	if (!err && dev->foreign_ns)
		err = weft_err(
			EPERM, dev->ifname,
			"weftd serves the processes of its own network namespace; open it there");
	if (!err)
		err = check_there(dev);
	if (!err)
		err = hello(dev);
	if (!err)
		err = weft_dev_map_rings(dev);
	if (!err)
		err = weft_pd_alloc(dev, &dev->pd0);
	if (!err)
		weft_remote_meet(dev); /* if weftd is just gone, later */
	if (!err)
		err = weft_ctl_start(dev);
	if (err)
		leave(dev);
	return err;
}

const char *weft_daemon_path(const struct weft_open_opts *opts)
{
	const char *env = secure_getenv("WEFT_DAEMON");

	if (opts->daemon)
		return *opts->daemon ? opts->daemon : NULL;
	if (env)
		return *env ? env : NULL;
	return geteuid() ? WEFTD_SOCKET : NULL;
}

const struct weft_priv weft_remote = {
	.enter = enter,
	.leave = leave,
	.pool_new = pool_new,
	.pool_drop = pool_drop,
	.mr_put = mr_put,
	.mr_drop = mr_drop,
	.mem_drop_all = mem_drop_all,
	.cq_new = cq_new,
	.cq_drop = cq_drop,
	.rq_new = rq_new,
	.rq_drop = rq_drop,
	.qp_take = qp_take,
	.qp_live = qp_live,
	.qp_stop = qp_stop,
	.qp_failed = qp_failed,
	.qp_free = qp_free,
	.qp_cwnd = qp_cwnd,
	.qp_stats = qp_stats,
	.qp_mac = qp_mac,
	.qp_note = qp_note,
	.tidy = tidy,
	.runs_program = runs_program,
	.doorbell_up = doorbell_up,
};
