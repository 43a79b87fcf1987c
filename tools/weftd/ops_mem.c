// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Operations of weftd on pools, regions and completion queues: whose they are, and how much. */
#include "ops.h"

static bool own_pool(const struct proc *p, uint32_t id)
{
	return id < WEFT_POOLS && p->dev.maps.own->pool[id] == p->dev.slot + 1;
}

int do_pool_new(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint64_t size = u->pool_new.v;
	int err;

	(void)fd;
	if (!size || size > WEFT_MSG_MAX || size % WEFT_CHUNK)
		return ops_bad(p, "the size of a pool");
	err = ops_reserve(p, size);
	if (err)
		return err;
	err = weft_direct.pool_new(&p->dev, size, out, &u->pool_new_rep.v);
	usage_release(p->dev.uid, size);
	return err;
}

/* The place in the table may be another's next: no region may still lead there. */
int do_pool_drop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t id = u->pool_drop.v;

	(void)fd, (void)out;
	if (!own_pool(p, id))
		return 0; /* asked for once more: the reply was lost */
	for (unsigned i = 0; i < WEFT_MRS; i++)
		if (p->dev.maps.mr[i].owner == p->dev.slot + 1 && p->dev.maps.mr[i].pool == id)
			return weft_err_quiet(EBUSY, p->dev.ifname, "a region is in the pool");
	weft_direct.pool_drop(&p->dev, id);
	return 0;
}

int do_mr_put(struct proc *p, union weftd_body *u, int fd, int *out)
{
	const struct weft_mr_ent e = u->mr_put;
	struct usage now;
	uint64_t size;

	(void)fd, (void)out;
	if (!own_pool(p, e.pool))
		return ops_not_yours(p, "pool", e.pool);
	size = (uint64_t)p->dev.maps.own->chunks[e.pool] << WEFT_CHUNK_SHIFT;
	if (!e.len || e.off > size || e.len > size - e.off)
		return ops_bad(p, "the region");
	if (e.pd >> 16 != p->dev.slot)
		return ops_not_yours(p, "protection domain", e.pd);
	if (e.rights & ~WEFT_ACCESS_ALL)
		return ops_bad(p, "the access");
	if (e.of > WEFT_MRS || (e.of && p->dev.maps.mr[e.of - 1].owner != p->dev.slot + 1))
		return ops_not_yours(p, "region", e.of - 1);
	usage_of(p->dev.uid, &now);
	if (now.regions >= p->q.regions)
		return ops_quota(p, "regions", now.regions, p->q.regions);
	return weft_direct.mr_put(&p->dev, &e, &u->mr_put_rep.v);
}

int do_mr_drop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	const struct weft_mr_ent *mr = p->dev.maps.mr;
	uint32_t keys[WEFT_STOP_MAX], n = 0;

	(void)fd, (void)out;
	if (u->mr_drop.n > WEFT_STOP_MAX)
		return ops_bad(p, "the number of regions");
	for (uint32_t i = 0; i < u->mr_drop.n; i++) {
		uint32_t key = u->mr_drop.num[i];
		const struct weft_mr_ent *e = &mr[WEFT_KEY_IDX(key)];

		/* without a key: another weftd was killed in the midst of it */
		if (e->owner == p->dev.slot + 1 && (e->key == key || !e->key))
			keys[n++] = key;
	}
	return n ? weft_direct.mr_drop(&p->dev, keys, n) : 0;
}

int do_mem_drop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	(void)u, (void)fd, (void)out;
	weft_direct.mem_drop_all(&p->dev);
	return 0;
}

/* ---- CQs ---- */

int do_cq_new(struct proc *p, union weftd_body *u, int fd, int *out)
{
	struct usage now;
	int err;

	(void)fd;
	usage_of(p->dev.uid, &now);
	if (now.cqs >= p->q.qps)
		return ops_quota(p, "completion queues", now.cqs, p->q.qps);
	err = weft_direct.cq_new(&p->dev, out, &u->cq_new_rep.v);
	return err == -ENOSPC
		       ? weft_err_quiet(ENOSPC, p->dev.ifname, "all %d CQs are in use", WEFT_CQS)
		       : err;
}

int do_cq_drop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t idx = u->cq_drop.v;

	(void)fd, (void)out;
	if (idx >= WEFT_CQS || p->dev.maps.own->cq[idx] != p->dev.slot + 1)
		return 0;
	for (unsigned i = 0; i < p->dev.maps.qps; i++) {
		const struct weft_qpctl *ctl = &p->dev.maps.ctl[i];

		if (ctl->state != WEFT_QP_FREE && ctl->state != WEFT_QP_INIT &&
		    ctl->owner == p->dev.slot && ctl->cq == idx)
			return weft_err_quiet(EBUSY, p->dev.ifname, "the CQ has QPs");
	}
	weft_direct.cq_drop(&p->dev, idx);
	return 0;
}

/* ---- receive queues ---- */

int do_rq_new(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t depth = u->rq_new.v;
	struct usage now;
	int err;

	(void)fd;
	if (!depth || depth > WEFT_RQ_DEPTH || depth & (depth - 1))
		return ops_bad(p, "the depth of the receive queue");
	usage_of(p->dev.uid, &now);
	if (now.rqs >= p->q.qps)
		return ops_quota(p, "receive queues", now.rqs, p->q.qps);
	err = ops_reserve(p, weft_rq_bytes(depth));
	if (err)
		return err;
	err = weft_direct.rq_new(&p->dev, depth, out, &u->rq_new_rep.v);
	usage_release(p->dev.uid, weft_rq_bytes(depth));
	return err == -ENOSPC ? weft_err_quiet(ENOSPC, p->dev.ifname,
					       "all %d receive queues are in use", WEFT_RQS)
			      : err;
}

int do_rq_drop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t idx = u->rq_drop.v;

	(void)fd, (void)out;
	if (idx >= WEFT_RQS || p->dev.maps.own->rq[idx] != p->dev.slot + 1)
		return 0;
	for (unsigned i = 0; i < p->dev.maps.qps; i++) {
		const struct weft_qpctl *ctl = &p->dev.maps.ctl[i];

		if (ctl->state != WEFT_QP_FREE && ctl->owner == p->dev.slot && ctl->rq == idx + 1)
			return weft_err_quiet(EBUSY, p->dev.ifname, "the receive queue has QPs");
	}
	weft_direct.rq_drop(&p->dev, idx);
	return 0;
}
