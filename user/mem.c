/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that XDP reaches: pools, allocations in them, protection domains. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "block.h"
#include "mem.h"
#include "priv.h"

#define SLAB_MAX  (1u << 20) /* larger allocations get a pool of their own */
#define SLAB_SIZE (4u << 20)

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

static int new_pool(struct weft_dev *dev, size_t size, bool slab, bool inner,
		    struct weft_pool **out)
{
	struct weft_pool *p = calloc(1, sizeof(*p));
	void *base;
	int err;

	if (!p)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	p->size = size;
	p->slab = slab;
	p->inner = inner;
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

		if (!p->inner && a >= base && a - base < p->size && len <= p->size - (a - base))
			return p;
	}
	return NULL;
}

/* ---- allocations ---- */

/* A place in one of the slabs; dev->lock held. */
static int take_small(struct weft_dev *dev, size_t len, bool inner, struct weft_pool **out,
		      size_t *off)
{
	struct weft_pool *p;
	int err;

	LIST_FOREACH(p, &dev->pools, link) {
		if (!p->slab || p->inner != inner)
			continue;
		err = weft_block_take(p->blocks, len, off);
		if (!err)
			*out = p;
		if (err != -ENOSPC)
			return err;
	}
	return -ENOSPC;
}

int weft_mem_take(struct weft_dev *dev, size_t len, bool inner, struct weft_pool **out, size_t *off)
{
	bool small = len <= SLAB_MAX;
	struct weft_pool *p;
	size_t size;
	int err;

	if (inner) {
		size = sysconf(_SC_PAGESIZE);
		len = (len + size - 1) & -size;
	}
	if (small) {
		pthread_mutex_lock(&dev->lock);
		err = take_small(dev, len, inner, out, off);
		pthread_mutex_unlock(&dev->lock);
		if (!err)
			return 0;
		if (err != -ENOSPC)
			return weft_err(-err, dev->ifname, "out of memory");
	}
	/* Creation is slow: without the lock, so that others go on. */
	size = small ? SLAB_SIZE : (len + WEFT_CHUNK - 1) & ~(size_t)(WEFT_CHUNK - 1);
	err = new_pool(dev, size, small, inner, &p);
	if (err)
		return err;
	pthread_mutex_lock(&dev->lock);
	err = weft_block_take(p->blocks, small ? len : size, off);
	if (err) {
		drop_pool(dev, p);
		weft_err(-err, dev->ifname, "out of memory");
	} else {
		LIST_INSERT_HEAD(&dev->pools, p, link);
		*out = p;
	}
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/* dev->lock held. The pool when it is empty now: the caller drops it, without the lock, for that takes long. */
static struct weft_pool *give(struct weft_pool *p, size_t off, bool gone)
{
	/* what is mapped elsewhere keeps the map; but nothing else may come to lie there */
	if (!gone || !p->slab)
		weft_block_give(p->blocks, off);
	if (!weft_blocks_empty(p->blocks))
		return NULL;
	LIST_REMOVE(p, link);
	return p;
}

void weft_mem_give(struct weft_dev *dev, struct weft_pool *p, size_t off, bool gone)
{
	pthread_mutex_lock(&dev->lock);
	p = give(p, off, gone);
	pthread_mutex_unlock(&dev->lock);
	if (p)
		drop_pool(dev, p);
}

int weft_alloc(struct weft_dev *dev, size_t len, void **addr)
{
	struct weft_pool *p;
	size_t off;
	int err;

	if (!addr || !len || len > WEFT_MSG_MAX)
		return weft_err(EINVAL, dev->ifname,
				"cannot allocate %zu bytes; 1 to %u are possible", len,
				WEFT_MSG_MAX);
	err = weft_mem_take(dev, len, false, &p, &off);
	if (err)
		return err;
	*addr = p->base + off;
	if (p->slab) /* somebody may have had it before */
		memset(*addr, 0, (len + WEFT_BLOCK_ALIGN - 1) & -WEFT_BLOCK_ALIGN);
	return 0;
}

/* Does an MR cover any of [addr, addr + len)? */
static bool covered(struct weft_dev *dev, const uint8_t *addr, size_t len)
{
	struct weft_mr *mr;

	LIST_FOREACH(mr, &dev->mrs, link) {
		const uint8_t *a = mr->pool->base + mr->off;

		if (a < addr + len && addr < a + mr->len)
			return true;
	}
	return false;
}

int weft_free(struct weft_dev *dev, void *addr)
{
	struct weft_pool *p, *empty = NULL;
	const struct weft_block *b;
	size_t off;
	int err = 0;

	if (!addr)
		return 0;
	pthread_mutex_lock(&dev->lock);
	p = weft_pool_find(dev, addr, 1);
	off = p ? (size_t)((uint8_t *)addr - p->base) : 0;
	b = p ? weft_block_find(p->blocks, off, 1) : NULL;
	if (!b || b->off != off) {
		err = weft_err(EINVAL, dev->ifname,
			       "%p is not from weft_alloc(); pass the address that it gave", addr);
	} else if (covered(dev, addr, b->len)) {
		err = weft_err(EBUSY, dev->ifname,
			       "a memory region covers %p; deregister it before weft_free()", addr);
	} else {
		empty = give(p, off, false);
	}
	pthread_mutex_unlock(&dev->lock);
	if (empty)
		drop_pool(dev, empty);
	return err;
}

void weft_pools_fini(struct weft_dev *dev)
{
	struct weft_pool *p;

	while ((p = LIST_FIRST(&dev->pools))) {
		LIST_REMOVE(p, link);
		free_pool(p);
	}
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
	struct weft_dev *dev;
	int err = 0;

	if (!pd)
		return 0;
	dev = pd->dev;
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
