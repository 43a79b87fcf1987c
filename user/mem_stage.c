/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Staged regions: a copy in a pool, which XDP reaches, of memory that it cannot. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "mem.h"

static uint8_t *view(const struct weft_mr *mr, uint64_t off)
{
	return mr->pool->base + mr->off + off;
}

int weft_stage_in(const struct weft_mr *mr, uint64_t off, size_t len)
{
	if (mr->mode != WEFT_MR_STAGE)
		return 0;
	if (mr->copy.in)
		return mr->copy.in(mr->copy.arg, view(mr, off), mr->copy_off + off, len);
	memcpy(view(mr, off), (const uint8_t *)mr->addr + off, len);
	return 0;
}

int weft_stage_out(const struct weft_mr *mr, uint64_t off, size_t len)
{
	if (mr->mode != WEFT_MR_STAGE)
		return 0;
	if (mr->copy.out)
		return mr->copy.out(mr->copy.arg, mr->copy_off + off, view(mr, off), len);
	memcpy((uint8_t *)mr->addr + off, view(mr, off), len);
	return 0;
}

/* ---- the first copy: what cannot be read or written must not crash later ---- */

struct check {
	uintptr_t at;
	int want; /* PROT_* */
	bool dev;
	char *why;
};

static int check_vma(void *arg, const struct weft_vma *v)
{
	struct check *c = arg;

	if (v->lo > c->at)
		return 0;
	if ((v->prot & c->want) != c->want) {
		snprintf(c->why, WEFT_WHY,
			 "%p may not be %s; change it with mprotect(), or register "
			 "it without a right to write",
			 (void *)c->at, v->prot & PROT_READ ? "written" : "read");
		return -EACCES;
	}
	c->dev |= v->area == WEFT_AREA_DEV;
	c->at = v->hi;
	return 0;
}

static int check(const struct weft_mr *mr, struct check *c)
{
	uintptr_t lo = (uintptr_t)mr->addr, hi = lo + mr->len;
	int err;

	c->at = lo;
	c->want = PROT_READ;
	if (mr->access & (WEFT_REMOTE_WRITE | WEFT_LOCAL_WRITE | WEFT_REMOTE_ATOMIC))
		c->want |= PROT_WRITE;
	err = weft_maps(lo, hi, check_vma, c);
	if (!err && c->at < hi) {
		snprintf(c->why, WEFT_WHY, "nothing is mapped at %p; pass memory that is",
			 (void *)c->at);
		return -EFAULT;
	}
	if (err && !c->why[0])
		snprintf(c->why, WEFT_WHY, "cannot read /proc/self/maps: %s", strerror(-err));
	return err;
}

/* By the kernel, which returns an error where a file has ended meanwhile. */
static int copy_first(const struct weft_mr *mr, const struct check *c)
{
	struct iovec to = { view(mr, 0), mr->len }, from = { mr->addr, mr->len };
	ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	if (n == (ssize_t)mr->len)
		return 0;
	/* a device's registers can be read by the processor only; or the call is forbidden */
	if (c->dev || (n < 0 && (errno == EPERM || errno == ENOSYS)))
		return weft_stage_in(mr, 0, mr->len);
	snprintf(c->why, WEFT_WHY, "%p cannot be read: %s; is the file shorter than its mapping?",
		 (void *)((uint8_t *)mr->addr + (n > 0 ? n : 0)), strerror(n < 0 ? errno : EFAULT));
	return -EFAULT;
}

int weft_stage_make(struct weft_mr *mr, char why[WEFT_WHY])
{
	struct check c = { .why = why };
	int err = 0;

	why[0] = 0;
	if (!mr->copy.in)
		err = check(mr, &c);
	if (err)
		return err;
	err = weft_mem_take(mr->dev, mr->len, true, &mr->pool, &mr->off);
	if (err) {
		snprintf(why, WEFT_WHY, "%s", weft_strerror_last());
		return err;
	}
	mr->mode = WEFT_MR_STAGE;
	if (mr->copy.in) {
		err = weft_stage_in(mr, 0, mr->len);
		if (err)
			snprintf(why, WEFT_WHY, "the region's own function cannot copy: %s",
				 strerror(-err));
	} else {
		err = copy_first(mr, &c);
	}
	if (err) {
		mr->mode = WEFT_MR_ALLOC;
		weft_mem_give(mr->dev, mr->pool, mr->off, false);
	}
	return err;
}

int weft_mr_sync(struct weft_mr *mr, uint64_t off, size_t len, int way)
{
	if ((way != WEFT_SYNC_IN && way != WEFT_SYNC_OUT) || off > mr->len || len > mr->len - off)
		return weft_err_quiet(EINVAL, mr->dev->ifname,
				      "%zu bytes at %llu do not fit the MR of %zu bytes, or no way "
				      "is given",
				      len, (unsigned long long)off, mr->len);
	return way == WEFT_SYNC_IN ? weft_stage_in(mr, off, len) : weft_stage_out(mr, off, len);
}
