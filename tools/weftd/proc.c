// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The processes that weftd serves: taking a slot for one, knowing it again, what its user has. */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/random.h>

#include "weftd.h"

static LIST_HEAD(, proc) list = LIST_HEAD_INITIALIZER(list);
/* Also over counting what a user has and giving him more. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- quotas ---- */

const char *user_name(uint32_t uid, struct user_name *n)
{
	struct passwd pw, *got = NULL;
	char buf[1024];

	if (getpwuid_r(uid, &pw, buf, sizeof(buf), &got) || !got)
		snprintf(n->text, sizeof(n->text), "user %u", uid);
	else
		snprintf(n->text, sizeof(n->text), "user %s", pw.pw_name);
	return n->text;
}

#define RESERVED_MAX 64
static struct {
	uint32_t uid;
	uint64_t bytes;
} reserved[RESERVED_MAX];
static pthread_mutex_t reserved_lock = PTHREAD_MUTEX_INITIALIZER;

struct counting {
	uint32_t uid;
	struct usage *u;
};

/* Slots that are of this user, by way of weftd: the tables tell, also to a weftd that is new. */
static bool his(const struct weft_owners *own, uint32_t slot, uint32_t uid)
{
	return slot < WEFT_PROCS && own->proc[slot].token[0] && own->proc[slot].uid == uid;
}

static void count(struct served *s, void *arg)
{
	const struct weft_maps *m = &s->held->dev->maps;
	const struct counting *c = arg;
	struct usage *u = c->u;

	for (unsigned i = 0; i < WEFT_PROCS; i++)
		u->processes += his(m->own, i, c->uid);
	for (unsigned i = 0; i < WEFT_POOLS; i++)
		if (his(m->own, m->own->pool[i] - 1, c->uid))
			u->memory += (uint64_t)m->own->chunks[i] << WEFT_CHUNK_SHIFT;
	for (unsigned i = 0; i < WEFT_CQS; i++)
		u->cqs += his(m->own, m->own->cq[i] - 1, c->uid);
	for (unsigned i = 0; i < WEFT_RQS; i++)
		if (his(m->own, m->own->rq[i] - 1, c->uid)) {
			u->rqs++;
			u->memory += weft_rq_bytes(m->own->rq_mask[i] + 1);
		}
	for (unsigned i = 0; i < WEFT_MRS; i++)
		u->regions += his(m->own, m->mr[i].owner - 1, c->uid);
	for (unsigned i = 0; i < m->qps; i++)
		u->qps += m->ctl[i].state != WEFT_QP_FREE && his(m->own, m->ctl[i].owner, c->uid);
}

void usage_of(uint32_t uid, struct usage *u)
{
	struct counting c = { .uid = uid, .u = u };

	memset(u, 0, sizeof(*u));
	held_each(count, &c);
}

int usage_reserve(uint32_t uid, uint64_t bytes, uint64_t limit)
{
	struct usage u;
	int err = -ENOMEM;
	uint64_t sum;

	pthread_mutex_lock(&reserved_lock);
	usage_of(uid, &u);
	sum = u.memory + bytes;
	for (unsigned i = 0; i < RESERVED_MAX; i++)
		sum += reserved[i].uid == uid ? reserved[i].bytes : 0;
	if (sum > limit)
		err = -EDQUOT;
	for (unsigned i = 0; err == -ENOMEM && i < RESERVED_MAX; i++)
		if (!reserved[i].bytes) {
			reserved[i].uid = uid;
			reserved[i].bytes = bytes;
			err = 0;
		}
	pthread_mutex_unlock(&reserved_lock);
	return err;
}

void usage_release(uint32_t uid, uint64_t bytes)
{
	pthread_mutex_lock(&reserved_lock);
	for (unsigned i = 0; i < RESERVED_MAX; i++)
		if (reserved[i].uid == uid && reserved[i].bytes == bytes) {
			reserved[i].bytes = 0;
			break;
		}
	pthread_mutex_unlock(&reserved_lock);
}

/* ---- a process ---- */

static struct proc *proc_new(struct held *h, const struct peer *peer)
{
	struct proc *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->held = h;
	p->dev = *h->dev;
	p->dev.uid = peer->uid;
	p->dev.pid = peer->pid;
	p->dev.slot_fd = p->dev.xsk_fd = p->dev.rings_fd = p->guard_fd = -1;
	p->dev.rings = NULL;
	p->q = peer->q;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void proc_free(struct proc *p)
{
	if (p->guard_fd >= 0)
		close(p->guard_fd);
	pthread_mutex_destroy(&p->lock);
	held_put(p->held);
	free(p);
}

static void close_fds(int *fds, unsigned n)
{
	while (n--)
		if (fds[n] >= 0)
			close(fds[n]);
}

/* Its rings, liveness and doorbell, as descriptors that are the client's alone. */
static int move_in(struct proc *p, int fds[WEFTD_FDS])
{
	struct weft_dev dev = p->dev;
	int err;

	fds[0] = dev.slot_fd;
	err = weft_dev_open_rings(&dev);
	fds[1] = dev.rings_fd;
	if (err)
		return weft_err(-err, dev.ifname, "cannot create the rings: %s", strerror(-err));
	err = weft_doorbell_open(&dev);
	fds[3] = dev.db_fd;
	if (err)
		return err;
	err = fds[2] = liveness_new(&dev);
	if (err < 0)
		return weft_err(-err, dev.ifname, "cannot use AF_XDP sockets: %s", strerror(-err));
	return 0;
}

static int enter(struct proc *p, uint32_t qps, struct weftd_welcome *w, int fds[WEFTD_FDS])
{
	struct weft_dev *dev = &p->dev;
	struct user_name name;
	struct weft_owner *o;
	struct usage u;
	int err = 0;

	do
		if (getrandom(p->token, sizeof(p->token), 0) != sizeof(p->token))
			return -EIO;
	while (!p->token[0]);
	usage_of(dev->uid, &u);
	if (u.processes >= p->q.processes) {
		weft_pins_purge_dead(dev); /* it may have been quick to come back */
		usage_of(dev->uid, &u);
	}
	if (u.processes >= p->q.processes)
		return weft_err_quiet(
			EDQUOT, dev->ifname,
			"%s has %u processes on weft, as many as weftd allows; end some, "
			"or have its configuration allow more",
			user_name(dev->uid, &name), u.processes);
	/* rings are memory, used or not */
	if (qps == WEFT_QPS_ALL)
		qps = p->q.qps < WEFT_PROC_QPS ? 0 : p->q.qps < dev->maps.qps ? p->q.qps : qps;
	else if (qps > WEFT_PROC_QPS && qps > p->q.qps)
		return weft_err_quiet(
			EDQUOT, dev->ifname,
			"%u QPs would be too much: weftd allows %s %u; ask for fewer, or "
			"have its configuration allow more",
			qps, user_name(dev->uid, &name), p->q.qps);
	else if (qps > dev->maps.qps || qps > WEFT_PROC_MAX)
		return weft_err_quiet(EBUSY, dev->ifname,
				      "is up with %u QPs; for more set 'qps' of the device in "
				      "weftd's configuration",
				      dev->maps.qps);
	dev->nrings = weft_pins_rings(dev, qps);
	if (dev->nrings > WEFT_PROC_MAX)
		dev->nrings = WEFT_PROC_MAX;
	err = weft_pins_take_slot(dev);
	if (err)
		return err;
	o = &dev->maps.own->proc[dev->slot];
	p->guard_fd = weft_pins_guard(dev, dev->slot, true);
	if (p->guard_fd < 0)
		return weft_err_quiet(-p->guard_fd, dev->ifname, "the slot cannot be locked");
	memcpy(o->token, p->token, sizeof(o->token));
	/* the device stays, whoever dies; in this order, see weft_pins_unserve() */
	__atomic_fetch_or(&dev->maps.cfg->flags, WEFT_DEV_SERVED, __ATOMIC_SEQ_CST);
	err = move_in(p, fds);
	w->slot = dev->slot;
	w->ifindex = dev->ifindex;
	w->rings = dev->nrings;
	memcpy(w->token, p->token, sizeof(w->token));
	w->cfg = *dev->maps.cfg;
	return err;
}

static bool bit(const uint32_t *bits, uint32_t i)
{
	return bits[i / 32] >> i % 32 & 1;
}

/* Of what it does not call its own it has never heard: the reply was lost with another weftd. */
static void drop_unknown(struct proc *p, const struct weftd_mine *mine)
{
	struct weft_dev *dev = &p->dev;
	struct weft_maps *m = &dev->maps;
	uint32_t failed[WEFT_STOP_MAX], closed[WEFT_STOP_MAX], i;
	unsigned nfailed = 0, nclosed = 0;

	for (i = 0; i < m->qps; i++) {
		const struct weft_qpctl *ctl = &m->ctl[i];
		bool ours = ctl->state != WEFT_QP_FREE && ctl->owner == dev->slot;

		if (ours && !bit(mine->qps, i))
			closed[nclosed++] = ctl->qpn;
		else if (ours && bit(mine->failed, i) && ctl->state == WEFT_QP_RTS)
			failed[nfailed++] = ctl->qpn;
		if (nfailed == WEFT_STOP_MAX || (nfailed && i + 1 == m->qps)) {
			weft_direct.qp_stop(dev, failed, nfailed, WEFT_QP_ERR);
			nfailed = 0;
		}
		if (nclosed == WEFT_STOP_MAX || (nclosed && i + 1 == m->qps)) {
			weft_direct.qp_stop(dev, closed, nclosed, WEFT_QP_CLOSED);
			while (nclosed)
				weft_direct.qp_free(dev, closed[--nclosed], NULL);
		}
	}
	for (i = 0; i < WEFT_MRS; i++)
		if (m->mr[i].owner == dev->slot + 1 && !bit(mine->mrs, i)) {
			uint32_t key = WEFT_KEY(i, 0);

			weft_direct.mr_drop(dev, &key, 1);
		}
	for (i = 0; i < WEFT_POOLS; i++)
		if (m->own->pool[i] == dev->slot + 1 && !bit(mine->pools, i))
			weft_direct.pool_drop(dev, i);
	for (i = 0; i < WEFT_CQS; i++)
		if (m->own->cq[i] == dev->slot + 1 && !bit(mine->cqs, i))
			weft_direct.cq_drop(dev, i);
	for (i = 0; i < WEFT_RQS; i++)
		if (m->own->rq[i] == dev->slot + 1 && !bit(mine->rqs, i))
			weft_direct.rq_drop(dev, i);
}

/* Next hops may have moved while nobody listened. */
void proc_routes(struct proc *p)
{
	struct weftd_msg m;
	int none;

	if (!p->came_back)
		return;
	p->came_back = false;
	for (uint32_t i = 0; i < p->dev.maps.qps; i++) {
		const struct weft_qpctl *ctl = &p->dev.maps.ctl[i];

		if (ctl->owner != p->dev.slot || ctl->state != WEFT_QP_RTS)
			continue;
		m.op = WEFTD_qp_route;
		m.u.qp_route.v = ctl->qpn;
		ops_run(p, &m, -1, &none);
	}
}

/* The process of that slot, if the token is its own; a second connection finds it here. */
static int come_back(struct held *h, const struct peer *peer, const struct weftd_hello *in,
		     struct proc **out)
{
	struct weft_dev *dev = h->dev;
	const struct weft_owner *o = &dev->maps.own->proc[in->slot % WEFT_PROCS];
	struct proc *p;
	int token;

	if (in->slot >= WEFT_PROCS || !o->token[0] || o->uid != peer->uid ||
	    memcmp(o->token, in->token, sizeof(in->token)))
		return weft_err_quiet(ESTALE, dev->ifname, "no process of that slot and token");
	LIST_FOREACH(p, &list, link)
		if (p->held == h && p->dev.slot == in->slot) {
			p->conns++;
			held_put(h);
			*out = p;
			return 0;
		}
	p = proc_new(h, peer);
	if (!p)
		return weft_err_quiet(EAGAIN, dev->ifname, "out of memory");
	p->dev.slot = in->slot;
	p->dev.nrings = o->rings;
	memcpy(p->token, in->token, sizeof(p->token));
	p->conns = 1;
	p->came_back = true;
	/* who takes dead processes for such has the same lock: the token is gone then */
	token = weft_pins_lock(dev);
	if (token >= 0)
		p->guard_fd = weft_pins_guard(dev, in->slot, true);
	if (p->guard_fd < 0 || memcmp(o->token, in->token, sizeof(in->token))) {
		weft_pins_unlock(token);
		if (p->guard_fd >= 0)
			close(p->guard_fd);
		free(p);
		return weft_err_quiet(ESTALE, dev->ifname, "its slot is another's by now");
	}
	weft_pins_unlock(token);
	drop_unknown(p, &in->mine);
	LIST_INSERT_HEAD(&list, p, link);
	*out = p;
	return 0;
}

int proc_hello(const struct peer *peer, const struct weftd_hello *h, struct weftd_welcome *w,
	       int fds[WEFTD_FDS], unsigned *nfds, struct proc **out)
{
	bool back = h->slot != WEFTD_NEW;
	struct user_name name;
	char ifname[IF_NAMESIZE];
	struct held *held;
	struct proc *p;
	int err;

	*nfds = 0;
	memset(w, 0, sizeof(*w));
	snprintf(ifname, sizeof(ifname), "%.*s", IF_NAMESIZE - 1, h->ifname);
	if (h->version != WEFTD_VERSION)
		return weft_err_quiet(EPROTO, ifname,
				      "library and weftd are of different versions; start the "
				      "weftd that belongs to the library");
	if (!peer->same_ns)
		return weft_err_quiet(EPERM, ifname,
				      "weftd serves the processes of its own network namespace");
	if (!peer->allowed)
		return weft_err_quiet(EPERM, ifname,
				      "%s may not use weft; weftd's configuration names who",
				      user_name(peer->uid, &name));
	err = held_get(ifname, back, &held);
	if (err)
		return err;
	pthread_mutex_lock(&list_lock);
	if (back) {
		err = come_back(held, peer, h, out);
		pthread_mutex_unlock(&list_lock);
		if (err)
			held_put(held);
		return err;
	}
	if ((h->port && h->port != held->dev->maps.cfg->port) ||
	    (h->csum && !(held->dev->maps.cfg->flags & WEFT_DEV_CSUM4)))
		err = weft_err_quiet(EBUSY, ifname, "is up with UDP port %u and csum %s",
				     held->dev->maps.cfg->port,
				     held->dev->maps.cfg->flags & WEFT_DEV_CSUM4 ? "on" : "off");
	else
		err = 0;
	p = err ? NULL : proc_new(held, peer);
	if (!p) {
		pthread_mutex_unlock(&list_lock);
		held_put(held);
		return err ?: weft_err_quiet(ENOMEM, ifname, "out of memory");
	}
	for (unsigned i = 0; i < WEFTD_FDS; i++)
		fds[i] = -1;
	err = enter(p, h->qps, w, fds);
	if (err) {
		close_fds(fds, WEFTD_FDS);
		weft_pins_purge_dead(&p->dev);
		pthread_mutex_unlock(&list_lock);
		proc_free(p);
		return err;
	}
	*nfds = WEFTD_FDS;
	p->conns = 1;
	LIST_INSERT_HEAD(&list, p, link);
	pthread_mutex_unlock(&list_lock);
	*out = p;
	return 0;
}

/* Its descriptors may be closed a moment later; who lives on is left alone. */
void proc_bye(struct proc *p)
{
	bool last;

	pthread_mutex_lock(&list_lock);
	last = !--p->conns;
	if (last)
		LIST_REMOVE(p, link);
	pthread_mutex_unlock(&list_lock);
	if (!last)
		return;
	close(p->guard_fd);
	p->guard_fd = -1;
	for (int i = 0; i < 10 && weft_pins_slot_taken(&p->dev, p->dev.slot); i++)
		usleep(2000);
	/* without its doorbell the device is dead but still there; it goes with its last user */
	if (!p->held->dev->dead || p->held->dev->db_gone)
		weft_pins_purge_dead(&p->dev);
	ops_share(&p->dev, p->dev.uid, p->q.share);
	proc_free(p);
}

void proc_leave(struct proc *p)
{
	struct weft_dev *dev = &p->dev;
	int token;

	pthread_mutex_lock(&p->lock);
	p->left = true;
	bpf_map_delete_elem(dev->maps.xsks, &dev->slot);
	token = weft_pins_lock(dev);
	if (token >= 0)
		weft_pins_purge_owner(dev, dev->slot);
	weft_pins_unlock(token);
	pthread_mutex_unlock(&p->lock);
}
