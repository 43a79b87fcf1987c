/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that XDP reaches: pools, allocations in them, protection domains, memory regions. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "block.h"
#include "internal.h"

#define SLAB_MAX  (1u << 20) /* larger allocations get a pool of their own */
#define SLAB_SIZE (4u << 20)
#define MR_MIN    64

/* ---- pools ---- */

/* Owner first, map second: whoever cleans up after us finds what we took. */
static int publish_pool(struct weft_dev *dev, struct weft_pool *p)
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
		own->pool[i] = dev->slot + 1;
		p->id = i;
		if (bpf_map_update_elem(dev->maps.pools, &i, &p->fd, BPF_ANY)) {
			own->pool[i] = 0;
			err = weft_err(errno, dev->ifname, "cannot publish a pool: %s",
				       strerror(errno));
		}
	}
	weft_pins_unlock(token);
	return err;
}

static void free_pool(struct weft_pool *p)
{
	weft_blocks_fini(&p->blocks);
	if (p->base)
		munmap(p->base, p->size);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

static int new_pool(struct weft_dev *dev, size_t size, bool slab, struct weft_pool **out)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	struct weft_pool *p = calloc(1, sizeof(*p));
	void *base;
	int err;

	if (!p)
		return weft_err(ENOMEM, dev->ifname, "out of memory");
	p->size = size;
	p->slab = slab;
	p->fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_pool", sizeof(uint32_t), WEFT_CHUNK,
			       size >> WEFT_CHUNK_SHIFT, &opts);
	if (p->fd < 0) {
		err = weft_err(errno, dev->ifname,
			       "cannot create a pool of %zu MiB: %s; is there "
			       "that much free memory?",
			       size >> 20, strerror(errno));
		goto fail;
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
	err = publish_pool(dev, p);
	if (err)
		goto fail;
	*out = p;
	return 0;
fail:
	free_pool(p);
	return err;
}

/* Out of XDP's sight, then out of the table once no program can hold it; dev->lock held. */
static void drop_pool(struct weft_dev *dev, struct weft_pool *p)
{
	bpf_map_delete_elem(dev->maps.pools, &p->id);
	weft_grace();
	__atomic_store_n(&dev->maps.own->pool[p->id], 0, __ATOMIC_RELEASE);
	free_pool(p);
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
static int publish_mr(struct weft_dev *dev, struct weft_mr *mr)
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
		e->pool = mr->pool->id;
		e->off = (uint8_t *)mr->addr - mr->pool->base;
		e->len = mr->len;
		e->pd = mr->pd->id;
		e->rights = mr->access & WEFT_ACCESS_ALL;
		mr->key = WEFT_KEY(idx, gen);
		__atomic_store_n(&e->key, mr->key, __ATOMIC_RELEASE);
	}
	weft_pins_unlock(token);
	return e ? 0
		 : weft_err(ENOSPC, dev->ifname,
			    "all %d memory regions are taken; register fewer, larger ones",
			    WEFT_MRS);
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
	struct weft_mr_ent *e = &dev->maps.mr[WEFT_KEY_IDX(mr->key)];

	__atomic_store_n(&e->key, 0, __ATOMIC_RELEASE);
	weft_grace(); /* without the lock: others deregister in the same grace period */
	__atomic_store_n(&e->owner, 0, __ATOMIC_RELEASE);
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
	bool any = false;

	LIST_FOREACH(mr, &dev->mrs, link) {
		__atomic_store_n(&dev->maps.mr[WEFT_KEY_IDX(mr->key)].key, 0, __ATOMIC_RELEASE);
		any = true;
	}
	LIST_FOREACH(p, &dev->pools, link) {
		bpf_map_delete_elem(dev->maps.pools, &p->id);
		any = true;
	}
	if (any)
		weft_grace();
	while ((mr = LIST_FIRST(&dev->mrs))) {
		LIST_REMOVE(mr, link);
		__atomic_store_n(&dev->maps.mr[WEFT_KEY_IDX(mr->key)].owner, 0, __ATOMIC_RELEASE);
		free(mr);
	}
	while ((p = LIST_FIRST(&dev->pools))) {
		LIST_REMOVE(p, link);
		__atomic_store_n(&dev->maps.own->pool[p->id], 0, __ATOMIC_RELEASE);
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
