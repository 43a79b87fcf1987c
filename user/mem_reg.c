/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registration: where the memory of each region is, or comes to be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block.h"
#include "mem.h"

#define HOW_ALL (WEFT_ADOPT_HEAP | WEFT_STAGE)
#define OBJ_LEN 64 /* "eth0: region 7 of 16" */

/* Inside one weft_alloc()? */
static bool in_alloc(struct weft_mr *mr)
{
	struct weft_pool *p;
	size_t off = 0;
	bool yes;

	pthread_mutex_lock(&mr->dev->lock);
	p = weft_pool_find(mr->dev, mr->addr, mr->len);
	if (p)
		off = (uint8_t *)mr->addr - p->base;
	yes = p && weft_block_find(p->blocks, off, mr->len);
	pthread_mutex_unlock(&mr->dev->lock);
	if (!yes)
		return false;
	mr->pool = p;
	mr->off = off;
	mr->mode = WEFT_MR_ALLOC;
	return true;
}

static void use_adopted(struct weft_mr *mr, struct weft_adopt *ad)
{
	mr->adopt = ad;
	mr->pool = ad->pool;
	mr->off = ad->off + ((uint8_t *)mr->addr - ad->lo);
	mr->mode = WEFT_MR_ADOPT;
}

struct want { /* a region on its way */
	struct weft_mr *mr;
	unsigned how; /* WEFT_ADOPT, WEFT_STAGE */
	bool own_copy;
	char obj[OBJ_LEN];
};

static uintptr_t first_page(const struct want *w)
{
	return (uintptr_t)w->mr->addr / sysconf(_SC_PAGESIZE);
}

static uintptr_t last_page(const struct want *w)
{
	return ((uintptr_t)w->mr->addr + w->mr->len - 1) / sysconf(_SC_PAGESIZE);
}

static int stage(struct want *w)
{
	char why[WEFT_WHY];
	int err = weft_stage_make(w->mr, why);

	return err ? weft_err(-err, w->obj, "%s", why) : 0;
}

/* These, in order of address, share pages with their neighbours: one adoption for all. */
static int adopt(struct want **w, int n)
{
	uintptr_t lo = (uintptr_t)w[0]->mr->addr, hi = lo, end;
	struct weft_adopt *ad;
	char why[WEFT_WHY];
	bool heap = true;
	int err;

	for (int i = 0; i < n; i++) {
		end = (uintptr_t)w[i]->mr->addr + w[i]->mr->len;
		hi = end > hi ? end : hi;
		heap &= (w[i]->how & WEFT_ADOPT_HEAP) == WEFT_ADOPT_HEAP;
	}
	if (hi - lo > WEFT_MSG_MAX) {
		snprintf(why, sizeof(why),
			 "regions that share pages span %zu bytes together; %u are possible",
			 (size_t)(hi - lo), WEFT_MSG_MAX);
		err = -EINVAL;
	} else {
		err = weft_adopt_get(w[0]->mr->dev, (void *)lo, hi - lo, heap, n, &ad, why);
	}
	if (!err)
		for (int i = 0; i < n; i++)
			use_adopted(w[i]->mr, ad);
	for (int i = 0; i < n && err; i++) {
		if (!(w[i]->how & WEFT_STAGE))
			return weft_err(-err, w[i]->obj, "%s", why);
		weft_logf(WEFT_LOG_INFO, "%s: staged: %s", w[i]->obj, why);
	}
	for (int i = 0; i < n && err; i++)
		if (stage(w[i]))
			return err;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = first_page(*(struct want *const *)a),
		  y = first_page(*(struct want *const *)b);

	return x < y ? -1 : x > y;
}

/* Give each a place. */
static int place(struct want *w, struct want **adopted, int n)
{
	uintptr_t last;
	int m = 0, err, k;

	for (int i = 0; i < n; i++) {
		struct weft_mr *mr = w[i].mr;

		if (w[i].own_copy || !in_alloc(mr)) {
			if (w[i].how & WEFT_ADOPT && !w[i].own_copy)
				adopted[m++] = &w[i];
			else if (!(w[i].how & WEFT_STAGE) && !w[i].own_copy)
				return weft_err(
					EINVAL, w[i].obj,
					"%p + %zu is not inside one allocation of "
					"weft_alloc(); WEFT_ADOPT or WEFT_STAGE take others",
					mr->addr, mr->len);
			else if ((err = stage(&w[i])))
				return err;
		}
	}
	qsort(adopted, m, sizeof(*adopted), by_address);
	for (int i = 0; i < m; i += k) {
		last = last_page(adopted[i]);
		for (k = 1; i + k < m && first_page(adopted[i + k]) <= last; k++)
			if (last_page(adopted[i + k]) > last)
				last = last_page(adopted[i + k]);
		err = adopt(&adopted[i], k);
		if (err)
			return err;
	}
	return 0;
}

/* ---- registration ---- */

static int check_range(const char *obj, const struct weft_mr_range *r)
{
	if (!(r->access & WEFT_ACCESS_ALL) || (r->access & ~(WEFT_ACCESS_ALL | HOW_ALL)))
		return weft_err(EINVAL, obj,
				"access 0x%x is not possible; give one or more of WEFT_LOCAL, "
				"WEFT_LOCAL_WRITE, WEFT_REMOTE_READ, WEFT_REMOTE_WRITE, "
				"WEFT_REMOTE_ATOMIC",
				r->access);
	if (!r->len || r->len > WEFT_MSG_MAX || (uintptr_t)r->addr + r->len < r->len)
		return weft_err(EINVAL, obj, "a region of %zu bytes is not possible; 1 to %u are",
				r->len, WEFT_MSG_MAX);
	if (r->copy && (!r->copy->in || !r->copy->out))
		return weft_err(EINVAL, obj, "the copy functions are not both there; give both");
	return 0;
}

static int new_mr(struct weft_dev *dev, struct weft_pd *pd, const struct weft_mr_range *r,
		  struct want *w)
{
	struct weft_mr *mr;
	int err = check_range(w->obj, r);

	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return weft_err(ENOMEM, w->obj, "out of memory");
	mr->dev = dev;
	mr->pd = pd ? pd : dev->pd0;
	mr->addr = r->addr;
	mr->len = r->len;
	mr->access = r->access & WEFT_ACCESS_ALL;
	if (r->copy)
		mr->copy = *r->copy;
	w->mr = mr;
	w->how = r->access & HOW_ALL;
	w->own_copy = r->copy;
	return 0;
}

int weft_mr_reg_many(struct weft_dev *dev, struct weft_pd *pd, const struct weft_mr_range *range,
		     int n, struct weft_mr **out)
{
	struct want *w, **adopted;
	struct weft_mr **mr;
	uint32_t *keys;
	int err = 0;

	if (!out || !range || n < 1 || n > WEFT_MRS)
		return weft_err(EINVAL, dev->ifname,
				"%d regions at once are not possible; 1 to %d are", n, WEFT_MRS);
	if (pd && pd->dev != dev)
		return weft_err(EINVAL, dev->ifname, "the protection domain is another device's");
	w = calloc(n, sizeof(*w));
	adopted = calloc(n, sizeof(*adopted));
	mr = calloc(n, sizeof(*mr));
	keys = calloc(n, sizeof(*keys));
	if (!w || !adopted || !mr || !keys)
		err = weft_err(ENOMEM, dev->ifname, "out of memory");
	for (int i = 0; i < n && !err; i++) {
		snprintf(w[i].obj, OBJ_LEN, n > 1 ? "%s: region %d of %d" : "%s", dev->ifname,
			 i + 1, n);
		err = new_mr(dev, pd, &range[i], &w[i]);
		mr[i] = w[i].mr;
	}
	if (!err)
		err = place(w, adopted, n);
	if (!err)
		err = weft_mr_publish(dev, mr, n, keys);
	for (int i = 0; i < n && mr && mr[i]; i++) {
		if (!err) {
			weft_mr_enlist(mr[i]);
			out[i] = mr[i];
		} else {
			weft_mr_let_go(mr[i]);
			free(mr[i]);
		}
	}
	free(keys);
	free(mr);
	free(adopted);
	free(w);
	return err;
}

int weft_mr_reg(struct weft_dev *dev, struct weft_pd *pd, void *addr, size_t len, unsigned access,
		struct weft_mr **out)
{
	struct weft_mr_range range = { .addr = addr, .len = len, .access = access };

	return weft_mr_reg_many(dev, pd, &range, 1, out);
}
