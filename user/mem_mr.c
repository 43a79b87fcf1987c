/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: their table, windows, revocation. */
#include <stdlib.h>

#include "mem.h"
#include "priv.h"

static int put(struct weft_mr *mr)
{
	struct weft_mr_ent e = {
		.pool = mr->pool->id,
		.off = mr->off,
		.len = mr->len,
		.pd = mr->pd->id,
		.rights = mr->access,
		.mode = mr->mode,
		.of = mr->of ? WEFT_KEY_IDX(mr->of->key) + 1 : 0,
	};

	return mr->dev->priv->mr_put(mr->dev, &e, &mr->key);
}

int weft_mr_publish(struct weft_dev *dev, struct weft_mr **mr, int n, uint32_t *keys)
{
	int err = 0, done;

	for (done = 0; done < n && !err; done++) {
		err = put(mr[done]);
		keys[done] = mr[done]->key;
	}
	if (err && --done)
		dev->priv->mr_drop(dev, keys, done);
	return err;
}

/* Its memory is where it was, its pages again private. */
void weft_mr_let_go(struct weft_mr *mr)
{
	if (mr->mode == WEFT_MR_ADOPT && mr->adopt)
		weft_adopt_put(mr->adopt, true);
	else if (mr->mode == WEFT_MR_STAGE && mr->pool && !mr->of)
		weft_mem_give(mr->dev, mr->pool, mr->off, false);
}

void weft_mr_enlist(struct weft_mr *mr)
{
	pthread_mutex_lock(&mr->dev->lock);
	LIST_INSERT_HEAD(&mr->dev->mrs, mr, link);
	mr->pd->refs++;
	if (mr->of)
		mr->of->windows++;
	pthread_mutex_unlock(&mr->dev->lock);
}

/* ---- windows ---- */

int weft_mr_window(struct weft_mr *of, uint64_t off, size_t len, unsigned access,
		   struct weft_mr **out)
{
	const char *obj = of->dev->ifname;
	struct weft_mr *mr;
	uint32_t key;
	int err;

	if (!out || of->of)
		return weft_err(EINVAL, obj, "a window of a window is not possible");
	if (!access || (access & ~of->access))
		return weft_err(EINVAL, obj,
				"access 0x%x is not possible; the region's is 0x%x, a window has "
				"some of it",
				access, of->access);
	if (!len || off > of->len || len > of->len - off)
		return weft_err(EINVAL, obj, "%zu bytes at %llu do not fit the MR of %zu bytes",
				len, (unsigned long long)off, of->len);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return weft_err(ENOMEM, obj, "out of memory");
	*mr = (struct weft_mr){ .dev = of->dev,
				.pd = of->pd,
				.pool = of->pool,
				.off = of->off + off,
				.addr = (uint8_t *)of->addr + off,
				.len = len,
				.access = access,
				.mode = of->mode,
				.copy = of->copy,
				.copy_off = off,
				.of = of };
	pthread_mutex_lock(&of->dev->lock);
	err = of->leaving ? weft_err(EINVAL, obj, "the region is being deregistered")
			  : weft_mr_publish(of->dev, &mr, 1, &key);
	if (!err)
		weft_mr_enlist(mr);
	pthread_mutex_unlock(&of->dev->lock);
	if (err)
		free(mr);
	else
		*out = mr;
	return err;
}

/* ---- the end ---- */

/* Nobody makes windows of them any more; or they stay, and it is again as it was. */
static void set_leaving(struct weft_mr *const *mr, int n, bool leaving)
{
	for (int i = 0; i < n; i++)
		if (mr[i]) {
			mr[i]->leaving = leaving;
			if (mr[i]->of)
				mr[i]->of->windows += leaving ? -1 : 1;
		}
}

static int leave(struct weft_dev *dev, struct weft_mr *const *mr, int n)
{
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	set_leaving(mr, n, true);
	for (int i = 0; i < n && !err; i++)
		if (mr[i] && mr[i]->windows)
			err = weft_err(EBUSY, dev->ifname,
				       "%u windows of the memory region are there; deregister them",
				       mr[i]->windows);
	if (err)
		set_leaving(mr, n, false);
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/*
 * Keys go, and when no packet can reach them the regions. Without the lock: others do, too. A device
 * has no more regions than the table, and revocation must not fail for want of memory.
 */
static int revoke(struct weft_dev *dev, struct weft_mr *const *mr, int n)
{
	uint32_t keys[WEFT_MRS];
	unsigned k = 0;

	for (int i = 0; i < n && k < WEFT_MRS; i++)
		if (mr[i])
			keys[k++] = mr[i]->key;
	return dev->priv->mr_drop(dev, keys, k);
}

int weft_mr_dereg_many(struct weft_mr *const *mr, int n)
{
	struct weft_dev *dev = NULL;
	int err;

	for (int i = 0; i < n; i++) {
		if (mr[i] && dev && mr[i]->dev != dev)
			return weft_err(EINVAL, dev->ifname,
					"the memory regions are not all of this device");
		dev = mr[i] ? mr[i]->dev : dev;
	}
	if (!dev)
		return 0;
	err = leave(dev, mr, n);
	if (err)
		return err;
	err = revoke(dev, mr, n);
	pthread_mutex_lock(&dev->lock);
	if (err)
		set_leaving(mr, n, false);
	for (int i = 0; i < n && !err; i++)
		if (mr[i]) {
			LIST_REMOVE(mr[i], link);
			mr[i]->pd->refs--;
		}
	pthread_mutex_unlock(&dev->lock);
	for (int i = 0; i < n && !err; i++)
		if (mr[i]) {
			weft_mr_let_go(mr[i]);
			free(mr[i]);
		}
	return err;
}

int weft_mr_dereg(struct weft_mr *mr)
{
	return weft_mr_dereg_many(&mr, 1);
}

uint32_t weft_mr_key(const struct weft_mr *mr)
{
	return mr->key;
}

void *weft_mr_addr(const struct weft_mr *mr)
{
	return mr->addr;
}

size_t weft_mr_len(const struct weft_mr *mr)
{
	return mr->len;
}

enum weft_mr_mode weft_mr_mode(const struct weft_mr *mr)
{
	return mr->mode;
}

const char *weft_mr_mode_str(enum weft_mr_mode mode)
{
	static const char *const names[] = { "alloc", "adopt", "stage" };

	return (unsigned)mode < 3 ? names[mode] : "unknown";
}

void *weft_mr_view(const struct weft_mr *mr)
{
	return mr->mode == WEFT_MR_STAGE ? mr->pool->base + mr->off : mr->addr;
}

/* All of it at once, in one grace period; QPs and CQs are gone, the owners' tables follow. */
void weft_mem_fini(struct weft_dev *dev)
{
	struct weft_mr *mr;
	struct weft_pd *pd;

	if (!LIST_EMPTY(&dev->mrs) || !LIST_EMPTY(&dev->pools))
		dev->priv->mem_drop_all(dev);
	while ((mr = LIST_FIRST(&dev->mrs))) {
		LIST_REMOVE(mr, link);
		if (mr->adopt)
			weft_adopt_put(mr->adopt, false);
		free(mr);
	}
	weft_pools_fini(dev);
	while ((pd = LIST_FIRST(&dev->pds))) {
		LIST_REMOVE(pd, link);
		free(pd);
	}
	dev->pd0 = NULL;
}

_Static_assert(WEFT_LOCAL == WEFT_ACCESS_LOCAL && WEFT_REMOTE_WRITE == WEFT_ACCESS_REMOTE_WRITE &&
		       WEFT_LOCAL_WRITE == WEFT_ACCESS_LOCAL_WRITE &&
		       WEFT_REMOTE_READ == WEFT_ACCESS_REMOTE_READ &&
		       WEFT_REMOTE_ATOMIC == WEFT_ACCESS_REMOTE_ATOMIC,
	       "rights in the table are those of the call");
