// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory, CQs and QPs in the pinned maps: what needs privilege, carried out in this process. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/random.h>

#include "device.h"
#include "priv.h"

#define EVENTS_LEN WEFT_EVENTS_LEN

/* ---- memory ---- */

/* Owner first, map second: whoever cleans up after us finds what we took. */
static int publish_pool(struct weft_dev *dev, int fd, uint32_t chunks, uint32_t *id)
{
	struct weft_owners *own = dev->maps.own;
	int token = weft_pins_lock(dev);
	uint32_t i;
	int err = 0;

	if (token < 0)
		return token;
	for (i = 0; i < WEFT_POOLS && own->pool[i]; i++)
		;
	if (i == WEFT_POOLS) {
		err = weft_err(ENOSPC, dev->ifname,
			       "all %d pools are taken; allocate fewer, larger pieces", WEFT_POOLS);
	} else {
		own->chunks[i] = chunks;
		own->pool[i] = dev->slot + 1;
		*id = i;
		if (bpf_map_update_elem(dev->maps.pools, &i, &fd, BPF_ANY)) {
			own->pool[i] = 0;
			err = weft_err(errno, dev->ifname, "cannot publish a pool: %s",
				       strerror(errno));
		}
	}
	weft_pins_unlock(token);
	return err;
}

static int pool_new(struct weft_dev *dev, size_t size, int *fd, uint32_t *id)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	uint32_t chunks = size >> WEFT_CHUNK_SHIFT;
	int err;

	*fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_pool", sizeof(uint32_t), WEFT_CHUNK, chunks,
			     &opts);
	if (*fd < 0)
		return weft_err(errno, dev->ifname,
				"cannot create a pool of %zu MiB: %s; is there "
				"that much free memory?",
				size >> 20, strerror(errno));
	err = publish_pool(dev, *fd, chunks, id);
	if (err) {
		close(*fd);
		*fd = -1;
	}
	return err;
}

/* Out of XDP's sight, then out of the table once no program can hold it. */
static void pool_drop(struct weft_dev *dev, uint32_t id)
{
	bpf_map_delete_elem(dev->maps.pools, &id);
	weft_grace();
	__atomic_store_n(&dev->maps.own->pool[id], 0, __ATOMIC_RELEASE);
}

/*
 * A generation that cannot be guessed, with which the key is never 0. Table
 * places are tried from a random one on, so that they are reused late.
 */
static int draw(uint32_t *gen, uint32_t *first)
{
	uint32_t r[2];

	do
		if (getrandom(r, sizeof(r), 0) != sizeof(r))
			return -EIO;
	while (!(*gen = r[0] & 0xfffff));
	*first = r[1] & (WEFT_MRS - 1);
	return 0;
}

/* Owner first, key last: XDP sees all of the entry or none, a successor finds what we took. */
static int mr_put(struct weft_dev *dev, const struct weft_mr_ent *from, uint32_t *key)
{
	uint32_t gen, first, i, idx = 0;
	struct weft_mr_ent *e = NULL;
	int token, err;

	err = draw(&gen, &first);
	if (err)
		return weft_err(-err, dev->ifname, "no random numbers");
	token = weft_pins_lock(dev);
	if (token < 0)
		return token;
	for (i = 0; i < WEFT_MRS && !e; i++) {
		idx = (first + i) & (WEFT_MRS - 1);
		if (!dev->maps.mr[idx].owner)
			e = &dev->maps.mr[idx];
	}
	if (e) {
		__atomic_store_n(&e->owner, dev->slot + 1, __ATOMIC_RELEASE);
		e->pool = from->pool;
		e->off = from->off;
		e->len = from->len;
		e->pd = from->pd;
		e->rights = from->rights;
		e->mode = from->mode;
		e->of = from->of;
		*key = WEFT_KEY(idx, gen);
		__atomic_store_n(&e->key, *key, __ATOMIC_RELEASE);
	}
	weft_pins_unlock(token);
	return e ? 0
		 : weft_err(ENOSPC, dev->ifname,
			    "all %d memory regions are taken; register fewer, larger ones",
			    WEFT_MRS);
}

static int mr_drop(struct weft_dev *dev, const uint32_t *keys, unsigned n)
{
	struct weft_mr_ent *mr = dev->maps.mr;

	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(&mr[WEFT_KEY_IDX(keys[i])].key, 0, __ATOMIC_RELEASE);
	weft_grace();
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(&mr[WEFT_KEY_IDX(keys[i])].owner, 0, __ATOMIC_RELEASE);
	return 0;
}

static void mem_drop_all(struct weft_dev *dev)
{
	struct weft_mr_ent *mr = dev->maps.mr;
	struct weft_owners *own = dev->maps.own;
	uint32_t me = dev->slot + 1, i;

	for (i = 0; i < WEFT_MRS; i++)
		if (mr[i].owner == me)
			__atomic_store_n(&mr[i].key, 0, __ATOMIC_RELEASE);
	for (i = 0; i < WEFT_POOLS; i++)
		if (own->pool[i] == me)
			bpf_map_delete_elem(dev->maps.pools, &i);
	weft_grace();
	for (i = 0; i < WEFT_MRS; i++)
		if (mr[i].owner == me)
			__atomic_store_n(&mr[i].owner, 0, __ATOMIC_RELEASE);
	for (i = 0; i < WEFT_POOLS; i++)
		if (own->pool[i] == me)
			__atomic_store_n(&own->pool[i], 0, __ATOMIC_RELEASE);
}

/* ---- CQs, receive queues ---- */

/*
 * A free index in `map` with this one in it; owners: who has which of the n. The kernel waits
 * for a grace period when such a table changes: not with the lock, or connections of all processes
 * would be made one by one.
 */
static int publish(struct weft_dev *dev, int map, uint32_t *owners, uint32_t n, int fd,
		   uint32_t *idx)
{
	int lock = weft_pins_lock(dev), err = 0;
	uint32_t i = 0;

	if (lock < 0)
		return lock;
	while (i < n && owners[i])
		i++;
	if (i < n)
		owners[i] = dev->slot + 1;
	weft_pins_unlock(lock);
	if (i == n)
		return -ENOSPC;
	if (bpf_map_update_elem(map, &i, &fd, BPF_ANY)) {
		err = -errno;
		__atomic_store_n(&owners[i], 0, __ATOMIC_RELEASE);
	}
	*idx = i;
	return err;
}

static void withdraw(int map, uint32_t *owners, uint32_t idx)
{
	bpf_map_delete_elem(map, &idx);
	__atomic_store_n(&owners[idx], 0, __ATOMIC_RELEASE);
}

static int cq_new(struct weft_dev *dev, int *fd, uint32_t *idx)
{
	int err;

	*fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "weft_events", 0, 0, WEFT_EVENTS_LEN, NULL);
	if (*fd < 0)
		return -errno;
	err = publish(dev, dev->maps.events, dev->maps.own->cq, WEFT_CQS, *fd, idx);
	if (err) {
		close(*fd);
		*fd = -1;
	}
	return err;
}

static void cq_drop(struct weft_dev *dev, uint32_t idx)
{
	withdraw(dev->maps.events, dev->maps.own->cq, idx);
}

static int rq_new(struct weft_dev *dev, uint32_t depth, int *fd, uint32_t *idx)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	int err;

	*fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_rq", sizeof(uint32_t),
			     sizeof(struct weft_rqe), depth + 1, &opts);
	if (*fd < 0)
		return -errno;
	err = publish(dev, dev->maps.rqs, dev->maps.own->rq, WEFT_RQS, *fd, idx);
	if (err) {
		close(*fd);
		*fd = -1;
		return err;
	}
	dev->maps.own->rq_mask[*idx] = depth - 1;
	return 0;
}

/* Its QPs are closed, and their grace period is over. */
static void rq_drop(struct weft_dev *dev, uint32_t idx)
{
	withdraw(dev->maps.rqs, dev->maps.own->rq, idx);
}

/* ---- QPs ---- */

/* The control entry of this process's QP of that number, or NULL. */
static struct weft_qpctl *mine(struct weft_dev *dev, uint32_t num)
{
	uint32_t slot = WEFT_QPN_SLOT(num);
	struct weft_qpctl *ctl = &dev->maps.ctl[slot < dev->maps.qps ? slot : 0];

	return ctl->qpn == num && ctl->owner == dev->slot && ctl->state != WEFT_QP_FREE ? ctl
											: NULL;
}

/* A free slot of the device, with a new generation. */
static int qp_take(struct weft_dev *dev, uint32_t ring, uint32_t depth, uint32_t cwnd, uint32_t nev,
		   uint32_t *num)
{
	int lock = weft_pins_lock(dev), err = -ENOSPC;

	if (lock < 0)
		return lock;
	for (uint32_t i = 0; i < dev->maps.qps; i++) {
		struct weft_qpctl *ctl = &dev->maps.ctl[i];
		uint32_t gen = ((ctl->qpn >> 16) + 1) & 0xffff;

		if (__atomic_load_n(&ctl->state, __ATOMIC_ACQUIRE) != WEFT_QP_FREE)
			continue;
		weft_tele_take(dev, i);
		memset(ctl, 0, sizeof(*ctl));
		*num = ctl->qpn = WEFT_QPN(i, gen ? gen : 1);
		ctl->owner = dev->slot;
		ctl->ring = ring;
		ctl->sq_mask = depth - 1;
		ctl->cwnd = cwnd;
		ctl->nev = nev;
		__atomic_store_n(&ctl->state, WEFT_QP_INIT, __ATOMIC_RELEASE);
		err = 0;
		break;
	}
	weft_pins_unlock(lock);
	if (err)
		return weft_err(
			ENOSPC, dev->ifname,
			"all %u QPs of the device are in use; close some, or run 'weft down %s', "
			"'weft up %s qps N'",
			dev->maps.qps, dev->ifname, dev->ifname);
	return 0;
}

/* One CPU for each ordering domain. */
static void choose_cpus(struct weft_qpctl *ctl, const struct weft_devcfg *cfg, uint64_t cpus)
{
	ctl->doms = 0;
	for (unsigned c = 0; c < 64; c++) {
		unsigned d = (cfg->queues ? c % cfg->queues : c) % WEFT_DOMAINS;

		if (!(cpus & cfg->cpus & 1ull << c) || (ctl->doms >> d & 1))
			continue;
		ctl->doms |= 1u << d;
		ctl->cpu_of[d] = c;
	}
}

/* Order holds within one domain only; QPs take turns, or one CPU would have that of them all. */
static uint8_t choose_home(const struct weft_qpctl *ctl, uint32_t slot)
{
	uint32_t doms = ctl->doms, n = __builtin_popcount(doms);

	for (uint32_t skip = n ? slot % n : 0; skip; skip--)
		doms &= doms - 1;
	return doms ? __builtin_ctz(doms) : 0;
}

static int init_tables(struct weft_dev *dev, const struct weft_qpctl *ctl,
		       const struct weft_live *l)
{
	struct weft_qptx *tx = calloc(1, sizeof(*tx));
	struct weft_qprx *rx = calloc(1, sizeof(*rx));
	uint32_t slot = WEFT_QPN_SLOT(l->num);
	int err = tx && rx ? 0 : -ENOMEM;

	if (!err) {
		weft_tx_init(&tx->tx, l->tx_psn, l->payload, ctl->nev);
		tx->tx.cc.cwnd = ctl->cwnd;
		tx->tx.strict = l->strict != 0;
		tx->tx.frees = l->strict == WEFT_LIVE_FREE;
		tx->tx.home = choose_home(ctl, slot);
		tx->tx.joins_writes = l->many && !l->strict;
		tx->tx.sq_mask = ctl->sq_mask;
		weft_rx_init(&rx->rx, l->rx_psn);
		rx->rx.shared = l->srq;
		if (bpf_map_update_elem(dev->maps.qptx, &slot, tx, BPF_ANY) ||
		    bpf_map_update_elem(dev->maps.qprx, &slot, rx, BPF_ANY))
			err = -errno;
	}
	free(tx);
	free(rx);
	return err;
}

static int qp_live(struct weft_dev *dev, const struct weft_live *l, uint8_t nexthop[16])
{
	struct weft_qpctl *ctl = mine(dev, l->num);
	uint8_t smac[6], dmac[6];
	int err;

	if (!ctl)
		return -ENOENT;
	err = weft_route(dev, &l->local, &l->peer, nexthop, dmac);
	if (!err)
		err = weft_link_addr(dev, smac);
	if (err)
		return err;
	choose_cpus(ctl, dev->maps.cfg, l->cpus);
	/* all of it, and one path */
	if (l->strict == WEFT_LIVE_STRICT) {
		ctl->doms &= 1u << choose_home(ctl, WEFT_QPN_SLOT(l->num));
		ctl->nev = 1;
	}
	err = init_tables(dev, ctl, l);
	if (err)
		return weft_err(-err, dev->ifname, "QP tables cannot be set: %s", strerror(-err));

	weft_tmpl_build(ctl, smac, dmac, &l->local, &l->peer, l->port);
	if ((ctl->flags & WEFT_QPF_V6) || l->csum)
		ctl->flags |= WEFT_QPF_CSUM;
	ctl->dqpn = l->dqpn;
	ctl->pd = l->pd;
	ctl->cq = l->cq;
	ctl->payload = l->payload;
	ctl->rq = l->rq;
	ctl->rq_mask = l->rq ? dev->maps.own->rq_mask[(l->rq - 1) & (WEFT_RQS - 1)] : 0;
	if (l->srq)
		ctl->flags |= WEFT_QPF_SRQ;
	if (l->strict)
		ctl->flags |= WEFT_QPF_STRICT;
	else if (l->many)
		ctl->flags |= WEFT_QPF_MANY;
	ctl->conn = l->conn;
	ctl->created = weft_now_ns();
	weft_check_expand(l->secret, ctl->hkey);
	weft_tele_connected(dev, WEFT_QPN_SLOT(l->num));
	__atomic_store_n(&ctl->state, WEFT_QP_RTS, __ATOMIC_RELEASE);
	return 0;
}

static void qp_stop(struct weft_dev *dev, const uint32_t *nums, unsigned n, uint32_t state)
{
	for (unsigned i = 0; i < n; i++) {
		struct weft_qpctl *ctl = mine(dev, nums[i]);

		if (ctl && (state == WEFT_QP_CLOSED || ctl->state == WEFT_QP_RTS))
			__atomic_store_n(&ctl->state, state, __ATOMIC_RELEASE);
	}
	weft_grace();
}

static void qp_failed(struct weft_dev *dev, const struct weft_failed *f)
{
	if (!mine(dev, f->num))
		return;
	weft_settle_qp(dev, WEFT_QPN_SLOT(f->num));
	weft_tele_failed(dev, f);
}

static void qp_free(struct weft_dev *dev, uint32_t num, const struct weft_failed *f)
{
	struct weft_qpctl *ctl = mine(dev, num);

	if (!ctl)
		return;
	if (ctl->created) {
		weft_settle_qp(dev, WEFT_QPN_SLOT(num));
		if (f)
			weft_tele_failed(dev, f);
		weft_tele_ended(dev, WEFT_QPN_SLOT(num), WEFT_TRACE_closed);
	}
	__atomic_store_n(&ctl->state, WEFT_QP_FREE, __ATOMIC_RELEASE);
}

static int qp_cwnd(struct weft_dev *dev, uint32_t num, uint32_t packets)
{
	struct weft_qpctl *ctl = mine(dev, num);

	if (!ctl)
		return -ENOENT;
	__atomic_store_n(&ctl->cwnd, packets, __ATOMIC_RELAXED);
	weft_tele_cwnd(&dev->maps.tele[WEFT_QPN_SLOT(num)], packets);
	return 0;
}

static int qp_stats(struct weft_dev *dev, uint32_t num, struct weft_qp_stats *s)
{
	struct weft_qptx *q = malloc(sizeof(*q));
	const struct weft_tx *tx = &q->tx;
	uint32_t slot = WEFT_QPN_SLOT(num);
	int err;

	if (!q)
		return -ENOMEM;
	if (bpf_map_lookup_elem_flags(dev->maps.qptx, &slot, q, BPF_F_LOCK)) {
		err = -errno;
		free(q);
		return err;
	}
	s->packets = weft_tx_packets(tx);
	s->retransmits = tx->retransmits;
	s->spurious = tx->spurious;
	s->timeouts = tx->timeouts;
	s->ce = tx->ce;
	s->cwnd = tx->cc.cwnd;
	s->inflight = tx->inflight;
	s->srtt_ns = (tx->rtt.srtt8 >> 3) << WEFT_TS_SHIFT;
	s->rto_ns = weft_rto(&tx->rtt) << WEFT_TS_SHIFT;
	free(q);
	return 0;
}

/* XDP may copy half of it once, and that packet is lost. */
static void qp_mac(struct weft_dev *dev, uint32_t num, unsigned at, const uint8_t mac[6])
{
	struct weft_qpctl *ctl = mine(dev, num);

	if (ctl)
		memcpy(ctl->tmpl + at, mac, 6);
}

static void qp_note(struct weft_dev *dev, uint32_t num, const struct weft_trace_event *e)
{
	if (mine(dev, num))
		weft_trace_note(&dev->maps.tele[WEFT_QPN_SLOT(num)].trace, e);
}

const struct weft_priv weft_direct = {
	.enter = weft_dev_enter_direct,
	.leave = weft_dev_leave_direct,
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
	.tidy = weft_pins_purge_dead,
	.runs_program = weft_link_runs_program,
	.doorbell_up = weft_link_doorbell_up,
};
