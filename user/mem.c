/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that XDP reaches: pools, allocations in them, protection domains, memory regions. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "block.h"
#include "internal.h"
#include "priv.h"

#define SLAB_MAX  (1u << 20) /* larger allocations get a pool of their own */
#define SLAB_SIZE (4u << 20)
#define MR_MIN    64

/* ---- pools ---- */

static void free_pool(struct weft_pool *p)
{
	weft_blocks_fini(&p->blocks);
	if (p->base)
		munmap(p->base, p->size);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* When nobody else can find it any more. */
static void drop_pool(struct weft_dev *dev, struct weft_pool *p)
{
	dev->priv->pool_drop(dev, p->id);
	free_pool(p);
}

static int new_pool(struct weft_dev *dev, size_t size, bool slab, struct weft_pool **out)
{
	struct weft_pool *p = calloc(1, sizeof(*p));
	void *base;
	int err;

	if (!p)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	p->size = size;
	p->slab = slab;
	err = dev->priv->pool_new(dev, size, &p->fd, &p->id);
	if (err) {
		free(p);
		return err;
	}
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (base == MAP_FAILED) {
		err = weft_err(errno, dev->ifname, "cannot map a pool of %zu MiB: %s", size >> 20,
			       strerror(errno));
		goto fail;
	}
	p->base = base;
	madvise(base, size, MADV_DONTFORK);
	err = weft_blocks_init(&p->blocks, size);
	if (err) {
		weft_err(ENOMEM, dev->ifname, "out of memory");
		goto fail;
	}
	*out = p;
	return 0;
fail:
	drop_pool(dev, p);
	return err;
}

struct weft_pool *weft_pool_find(struct weft_dev *dev, const void *addr, size_t len)
{
	uintptr_t a = (uintptr_t)addr;
	struct weft_pool *p;

	LIST_FOREACH(p, &dev->pools, link) {
		uintptr_t base = (uintptr_t)p->base;

		if (a >= base && a - base < p->size && len <= p->size - (a - base))
			return p;
	}
	return NULL;
}

/* ---- allocations ---- */

/* A place in one of the slabs; dev->lock held. */
static int take_small(struct weft_dev *dev, size_t len, void **addr)
{
	struct weft_pool *p;
	size_t off;
	int err;

	LIST_FOREACH(p, &dev->pools, link) {
		if (!p->slab)
			continue;
		err = weft_block_take(p->blocks, len, &off);
		if (!err) {
			*addr = p->base + off;
			/* somebody may have had it before */
			memset(*addr, 0, (len + WEFT_BLOCK_ALIGN - 1) & -WEFT_BLOCK_ALIGN);
			return 0;
		}
		if (err != -ENOSPC)
			return err;
	}
	return -ENOSPC;
}

int weft_alloc(struct weft_dev *dev, size_t len, void **addr)
{
	bool small = len <= SLAB_MAX;
	struct weft_pool *p;
	size_t size, off;
	int err;

	if (!addr || !len || len > WEFT_MSG_MAX)
		return weft_err(EINVAL, dev->ifname,
				"cannot allocate %zu bytes; 1 to %u are possible", len,
				WEFT_MSG_MAX);
	if (small) {
		pthread_mutex_lock(&dev->lock);
		err = take_small(dev, len, addr);
		pthread_mutex_unlock(&dev->lock);
		if (!err)
			return 0;
		if (err != -ENOSPC)
			return weft_err(-err, dev->ifname, "out of memory");
	}
	/* Creation is slow: without the lock, so that others go on. */
	size = small ? SLAB_SIZE : (len + WEFT_CHUNK - 1) & ~(size_t)(WEFT_CHUNK - 1);
	err = new_pool(dev, size, small, &p);
	if (err)
		return err;
	pthread_mutex_lock(&dev->lock);
	err = weft_block_take(p->blocks, small ? len : size, &off);
	if (err) {
		drop_pool(dev, p);
		weft_err(-err, dev->ifname, "out of memory");
	} else {
		LIST_INSERT_HEAD(&dev->pools, p, link);
		*addr = p->base + off;
	}
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/* Does an MR cover any of [addr, addr + len)? */
static bool covered(struct weft_dev *dev, const uint8_t *addr, size_t len)
{
	struct weft_mr *mr;

	LIST_FOREACH(mr, &dev->mrs, link) {
		const uint8_t *a = mr->addr;

		if (a < addr + len && addr < a + mr->len)
			return true;
	}
	return false;
}

int weft_free(struct weft_dev *dev, void *addr)
{
	const struct weft_block *b;
	struct weft_pool *p;
	size_t off;
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	p = weft_pool_find(dev, addr, 1);
	off = p ? (size_t)((uint8_t *)addr - p->base) : 0;
	b = p ? weft_block_find(p->blocks, off, 1) : NULL;
	if (!b || b->off != off) {
		err = weft_err(EINVAL, dev->ifname, "%p is not from weft_alloc()", addr);
	} else if (covered(dev, addr, b->len)) {
		err = weft_err(EBUSY, dev->ifname,
			       "a memory region covers %p; deregister it before weft_free()", addr);
	} else {
		weft_block_give(p->blocks, off);
		if (weft_blocks_empty(p->blocks)) {
			LIST_REMOVE(p, link);
			drop_pool(dev, p);
		}
	}
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/* ---- protection domains ---- */

static bool pd_taken(struct weft_dev *dev, uint32_t id)
{
	struct weft_pd *pd;

	LIST_FOREACH(pd, &dev->pds, link)
		if (pd->id == id)
			return true;
	return false;
}

int weft_pd_alloc(struct weft_dev *dev, struct weft_pd **out)
{
	struct weft_pd *pd = calloc(1, sizeof(*pd));
	unsigned i;

	if (!pd)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	pd->dev = dev;
	pthread_mutex_lock(&dev->lock);
	for (i = 0; i < 0x10000; i++) {
		pd->id = dev->slot << 16 | (dev->next_pd++ & 0xffff);
		if (!pd_taken(dev, pd->id))
			break;
	}
	if (i < 0x10000)
		LIST_INSERT_HEAD(&dev->pds, pd, link);
	pthread_mutex_unlock(&dev->lock);
	if (i == 0x10000) {
		free(pd);
		return weft_err(ENOSPC, dev->ifname, "65536 protection domains exist; free some");
	}
	*out = pd;
	return 0;
}

int weft_pd_free(struct weft_pd *pd)
{
	struct weft_dev *dev = pd->dev;
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	if (pd->refs)
		err = weft_err(
			EBUSY, dev->ifname,
			"QPs or memory regions use the protection domain; destroy them first");
	else
		LIST_REMOVE(pd, link);
	pthread_mutex_unlock(&dev->lock);
	if (!err)
		free(pd);
	return err;
}

/* ---- memory regions ---- */

static int publish_mr(struct weft_dev *dev, struct weft_mr *mr)
{
	struct weft_mr_ent e = {
		.pool = mr->pool->id,
		.off = (uint8_t *)mr->addr - mr->pool->base,
		.len = mr->len,
		.pd = mr->pd->id,
		.rights = mr->access & WEFT_ACCESS_ALL,
	};

	return dev->priv->mr_put(dev, &e, &mr->key);
}

int weft_mr_reg(struct weft_dev *dev, struct weft_pd *pd, void *addr, size_t len, unsigned access,
		struct weft_mr **out)
{
	struct weft_mr *mr;
	int err;

	if (!out || !access || (access & ~WEFT_ACCESS_ALL))
		return weft_err(EINVAL, dev->ifname,
				"access 0x%x is not possible; give one or more of WEFT_LOCAL, "
				"WEFT_LOCAL_WRITE, WEFT_REMOTE_READ, WEFT_REMOTE_WRITE, "
				"WEFT_REMOTE_ATOMIC",
				access);
	if (len < MR_MIN || len > WEFT_MSG_MAX)
		return weft_err(EINVAL, dev->ifname,
				"a region of %zu bytes is not possible; %d to %u are", len, MR_MIN,
				WEFT_MSG_MAX);
	if (pd && pd->dev != dev)
		return weft_err(EINVAL, dev->ifname, "the protection domain is another device's");
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	mr->dev = dev;
	mr->pd = pd ? pd : dev->pd0;
	mr->addr = addr;
	mr->len = len;
	mr->access = access;
	pthread_mutex_lock(&dev->lock);
	mr->pool = weft_pool_find(dev, addr, len);
	if (!mr->pool || !weft_block_find(mr->pool->blocks, (uint8_t *)addr - mr->pool->base, len))
		err = weft_err(EINVAL, dev->ifname,
			       "%p + %zu is not inside one allocation of weft_alloc()", addr, len);
	else
		err = publish_mr(dev, mr);
	if (!err) {
		LIST_INSERT_HEAD(&dev->mrs, mr, link);
		mr->pool->users++;
		mr->pd->refs++;
	}
	pthread_mutex_unlock(&dev->lock);
	if (err) {
		free(mr);
		return err;
	}
	*out = mr;
	return 0;
}

int weft_mr_dereg(struct weft_mr *mr)
{
	struct weft_dev *dev = mr->dev;
	/* without the lock: others deregister in the same grace period */
	int err = dev->priv->mr_drop(dev, &mr->key, 1);

	if (err)
		return err;
	pthread_mutex_lock(&dev->lock);
	LIST_REMOVE(mr, link);
	mr->pool->users--;
	mr->pd->refs--;
	pthread_mutex_unlock(&dev->lock);
	free(mr);
	return 0;
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

/* All of it at once, in one grace period; QPs and CQs are gone, the owners' tables follow. */
void weft_mem_fini(struct weft_dev *dev)
{
	struct weft_pool *p;
	struct weft_mr *mr;
	struct weft_pd *pd;

	if (!LIST_EMPTY(&dev->mrs) || !LIST_EMPTY(&dev->pools))
		dev->priv->mem_drop_all(dev);
	while ((mr = LIST_FIRST(&dev->mrs))) {
		LIST_REMOVE(mr, link);
		free(mr);
	}
	while ((p = LIST_FIRST(&dev->pools))) {
		LIST_REMOVE(p, link);
		free_pool(p);
	}
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
