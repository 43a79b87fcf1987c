/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of registered memory share: places in pools, adopted ranges, what lies at an address. */
#ifndef WEFT_USER_MEM_H
#define WEFT_USER_MEM_H

#include "internal.h"

#define WEFT_WHY 320 /* room for a reason: "what is so; remedy" */

/* ---- mem.c ---- */

/*
 * len bytes of a pool. inner: for the library's own use, whole pages, contents anything, and not
 * what weft_alloc() gives. Not with dev->lock held.
 */
int weft_mem_take(struct weft_dev *dev, size_t len, bool inner, struct weft_pool **p, size_t *off);
/* Back. gone: something may still be mapped there, so nobody else gets it. */
void weft_mem_give(struct weft_dev *dev, struct weft_pool *p, size_t off, bool gone);
struct weft_pool *weft_pool_find(struct weft_dev *dev, const void *addr, size_t len);
void weft_pools_fini(struct weft_dev *dev); /* at its end, when no table has them */

/* ---- mem_maps.c ---- */

enum weft_area {
	WEFT_AREA_ANON,  /* private, anonymous */
	WEFT_AREA_HEAP,  /* the same, of brk(2) */
	WEFT_AREA_STACK, /* of the first thread */
	WEFT_AREA_MAP,   /* pages of a BPF map */
	WEFT_AREA_FILE,  /* file, shared memory, the kernel's own */
	WEFT_AREA_DEV,   /* from /dev */
};

struct weft_vma {
	uintptr_t lo, hi;
	uint64_t off; /* in what is mapped */
	int prot;     /* PROT_* */
	bool shared;
	enum weft_area area;
	char name[48];
};

/*
 * fn for each mapping of the process that has a part in [lo, hi), in order, until one returns
 * other than 0, which is returned. -errno when that cannot be known. Calls nothing that allocates.
 */
int weft_maps(uintptr_t lo, uintptr_t hi, int (*fn)(void *arg, const struct weft_vma *v),
	      void *arg);
/* What of the C library's allocator [addr, addr + len) is, as far as it can be told; or NULL. */
const char *weft_maps_malloc(const struct weft_vma *v, uintptr_t addr, size_t len);
/* n pages from a and from b are the same ones; true also when the kernel does not tell. */
bool weft_maps_same(const void *a, const void *b, size_t len);

/* ---- mem_swap.c ---- */

struct weft_swap {
	uint8_t *lo; /* whole pages */
	size_t len;
	int fd;        /* the pool's map */
	uint64_t off;  /* in it, of lo */
	uint8_t *base; /* and where that is mapped for us */
	int prot;
};

/* Private pages become pages of the map, or the reverse; see there. 0 or -errno. */
int weft_swap_in(const struct weft_swap *s);
int weft_swap_out(const struct weft_swap *s);
bool weft_swap_is_ours(const void *lo, const void *hi); /* stack or thread data of the caller */

/* ---- mem_adopt.c ---- */

struct weft_adopt {                  /* a range of whole pages */
	LIST_ENTRY(weft_adopt) link; /* of all of the process */
	struct weft_dev *dev;
	uint8_t *lo;
	size_t len;
	struct weft_pool *pool;
	size_t off; /* in the pool */
	unsigned refs;
	bool gone; /* not all of it could be given back */
};

/* [addr, addr + len) on map pages, for `refs` regions. -errno, and why in words. */
int weft_adopt_get(struct weft_dev *dev, void *addr, size_t len, bool heap, unsigned refs,
		   struct weft_adopt **out, char why[WEFT_WHY]);
/* pool: its place goes as well. */
void weft_adopt_put(struct weft_adopt *ad, bool pool);

/* ---- mem_mr.c ---- */

/* Keys for n regions, known to XDP from then on; all or none. keys: room for them. */
int weft_mr_publish(struct weft_dev *dev, struct weft_mr **mr, int n, uint32_t *keys);
void weft_mr_enlist(struct weft_mr *mr);
void weft_mr_let_go(struct weft_mr *mr); /* its memory, once no packet can reach it */

/* ---- mem_stage.c ---- */

/* A place in a pool for mr->addr, mr->len, with what is there now. -errno, and why in words. */
int weft_stage_make(struct weft_mr *mr, char why[WEFT_WHY]);

#endif
