/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that the process has already, on map pages: which may be, who uses it, how it ends, fork(). */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "mem.h"

/*
 * Held during every exchange, and by fork(). Order: before dev->lock, which a thread that sleeps in
 * an exchange may hold: so nothing is locked while pages are exchanged but this.
 */
static pthread_mutex_t hand = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, weft_adopt) all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint8_t *end(const struct weft_adopt *ad)
{
	return ad->lo + ad->len;
}

/* ---- may it be? ---- */

struct check {
	const uint8_t *at, *hi; /* known up to `at` */
	uintptr_t addr;
	size_t len;
	bool heap; /* the caller knows that it is the allocator's */
	char *why;
};

static int refuse(struct check *c, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int refuse(struct check *c, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, WEFT_WHY, fmt, ap);
	va_end(ap);
	return -err;
}

static int check_vma(void *arg, const struct weft_vma *v)
{
	struct check *c = arg;
	const char *what;

	if (v->lo > (uintptr_t)c->at)
		return refuse(c, EFAULT, "nothing is mapped at %p; pass memory that is",
			      (void *)c->at);
	if (v->area == WEFT_AREA_MAP)
		return refuse(c, EBUSY,
			      "pages of %p + %zu are another region's or another device's; "
			      "register regions that share pages in one call, or WEFT_STAGE",
			      (void *)c->addr, c->len);
	if ((v->area != WEFT_AREA_ANON && v->area != WEFT_AREA_HEAP) || v->shared)
		return refuse(c, EOPNOTSUPP,
			      "%p is not private anonymous memory (%s); WEFT_STAGE goes through a "
			      "copy",
			      (void *)c->addr, v->name[0] ? v->name : "shared");
	if ((v->prot & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE))
		return refuse(c, EACCES,
			      "%p is not readable and writable; change it with mprotect()",
			      (void *)c->addr);
	what = c->heap ? NULL : weft_maps_malloc(v, c->addr, c->len);
	if (what)
		return refuse(c, EPERM,
			      "%p belongs to %s; WEFT_ADOPT_HEAP adopts it all the same, see "
			      "weft_mr(3)",
			      (void *)c->addr, what);
	c->at = (uint8_t *)v->hi;
	return 0;
}

static int check(const struct weft_adopt *want, struct check *c)
{
	int err;

	if (weft_swap_is_ours(want->lo, end(want)))
		return refuse(c, EOPNOTSUPP,
			      "%p lies in the stack of this thread; WEFT_STAGE "
			      "goes through a copy",
			      (void *)c->addr);
	c->at = want->lo;
	c->hi = end(want);
	err = weft_maps((uintptr_t)c->at, (uintptr_t)c->hi, check_vma, c);
	if (!err && c->at < c->hi)
		return refuse(c, EFAULT, "nothing is mapped at %p; pass memory that is",
			      (void *)c->at);
	if (err && !c->why[0])
		return refuse(c, -err, "cannot read /proc/self/maps: %s", strerror(-err));
	return err;
}

/* ---- what is still on our pages ---- */

#define SPANS 64

struct span {
	uint8_t *lo;
	size_t len;
	int prot;
};

struct spans {
	const struct weft_adopt *ad;
	unsigned n;
	struct span s[SPANS];
};

/* By its place in the map; others' mappings of maps may have the same, see give_back(). */
static int add_span(void *arg, const struct weft_vma *v)
{
	struct spans *sp = arg;
	const struct weft_adopt *ad = sp->ad;
	uint8_t *lo = (uint8_t *)v->lo, *hi = (uint8_t *)v->hi;
	uint64_t off = v->off;

	if (v->area != WEFT_AREA_MAP || !v->shared)
		return 0;
	if (lo < ad->lo) {
		off += ad->lo - lo;
		lo = ad->lo;
	}
	if (hi > end(ad))
		hi = end(ad);
	if (off != ad->off + (lo - ad->lo))
		return 0;
	sp->s[sp->n++] = (struct span){ lo, hi - lo, v->prot };
	return sp->n == SPANS;
}

/* The next ones in [at, end). */
static int look(const struct weft_adopt *ad, const uint8_t *at, struct spans *sp)
{
	sp->ad = ad;
	sp->n = 0;
	return weft_maps((uintptr_t)at, (uintptr_t)end(ad), add_span, sp);
}

/* ---- out ---- */

static void stays(const struct weft_adopt *ad, const uint8_t *lo, size_t len, int err)
{
	weft_logf(
		WEFT_LOG_WARN,
		"%s: cannot make %p + %zu private again: %s; it stays on pages of a map, as it is",
		ad->dev->ifname, (const void *)lo, len, strerror(-err));
}

/* Private pages again where ours still are. */
static void give_back(struct weft_adopt *ad)
{
	const uint8_t *at = ad->lo;
	size_t back = 0;
	struct spans sp;
	int err;

	while (at < end(ad)) {
		err = look(ad, at, &sp);
		if (err < 0)
			stays(ad, at, end(ad) - at, err);
		if (err < 0 || !sp.n)
			break;
		for (unsigned i = 0; i < sp.n; i++) {
			size_t off = ad->off + (sp.s[i].lo - ad->lo);
			struct weft_swap s = { .lo = sp.s[i].lo,
					       .len = sp.s[i].len,
					       .fd = ad->pool->fd,
					       .off = off,
					       .base = ad->pool->base + off,
					       .prot = sp.s[i].prot };

			at = s.lo + s.len;
			/* another map's pages may have come to lie here, at the same offset */
			if (!weft_maps_same(s.lo, s.base, s.len))
				continue;
			err = weft_swap_out(&s);
			if (err)
				stays(ad, s.lo, s.len, err);
			else
				back += s.len;
		}
	}
	ad->gone = back != ad->len;
}

/* ---- in ---- */

/* One mapping after the other, for mremap() takes no more at once. */
struct next {
	uintptr_t hi;
	int prot;
};

static int first_vma(void *arg, const struct weft_vma *v)
{
	struct next *n = arg;

	n->hi = v->hi;
	n->prot = v->prot;
	return 1;
}

static int exchange(struct weft_adopt *ad, struct check *c)
{
	size_t len = ad->len, at = 0;
	struct spans sp;
	int err = 0;

	while (at < len) {
		struct next n = { 0 };
		struct weft_swap s = { .lo = ad->lo + at,
				       .fd = ad->pool->fd,
				       .off = ad->off + at,
				       .base = ad->pool->base + ad->off + at };

		err = weft_maps((uintptr_t)s.lo, (uintptr_t)end(ad), first_vma, &n);
		if (err != 1) {
			err = err ? err : -EFAULT;
			break;
		}
		s.len = (uint8_t *)n.hi < ad->lo + len ? n.hi - (uintptr_t)s.lo : len - at;
		s.prot = n.prot;
		err = weft_swap_in(&s);
		if (err)
			break;
		at += s.len;
	}
	if (at == len)
		return 0;
	give_back(ad);
	ad->gone = look(ad, ad->lo, &sp) || sp.n;
	if (err == -EPERM || err == -ENOSYS)
		return refuse(c, EOPNOTSUPP,
			      "no userfaultfd: %s; needs CAP_SYS_PTRACE, or /dev/userfaultfd, or "
			      "WEFT_STAGE",
			      strerror(-err));
	return refuse(c, -err, "cannot exchange the pages of %p + %zu: %s", (void *)c->addr, c->len,
		      strerror(-err));
}

/* The one that has all of it already; with `hand`. */
static struct weft_adopt *find(const struct weft_adopt *want)
{
	struct weft_adopt *ad;
	struct spans sp;

	LIST_FOREACH(ad, &all, link) {
		uint8_t *at = want->lo;

		if (ad->dev != want->dev || want->lo < ad->lo || end(want) > end(ad))
			continue;
		/* the pages may have been unmapped since */
		while (at < end(want) && look(ad, at, &sp) >= 0 && sp.n && sp.s[0].lo <= at)
			for (unsigned i = 0; i < sp.n && sp.s[i].lo <= at; i++)
				at = sp.s[i].lo + sp.s[i].len;
		if (at >= end(want))
			return ad;
	}
	return NULL;
}

/* ---- fork: the child has memory of its own there, as it would have had ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&hand);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&hand);
}

/* Not shared with the parent in any case: rather not there than that. */
static void own_pages(const struct span *s)
{
	void *p = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED && !(s->prot & PROT_READ))
		mprotect(s->lo, s->len, PROT_READ);
	if (p != MAP_FAILED)
		memcpy(p, s->lo, s->len);
	if (p == MAP_FAILED || mprotect(p, s->len, s->prot) ||
	    mremap(p, s->len, s->len, MREMAP_MAYMOVE | MREMAP_FIXED, s->lo) == MAP_FAILED)
		munmap(s->lo, s->len);
}

static void in_child(void)
{
	struct weft_adopt *ad;
	sigset_t every, was;
	struct spans sp;
	int err;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &was);
	LIST_FOREACH(ad, &all, link) {
		uint8_t *at = ad->lo;

		while ((err = look(ad, at, &sp)) >= 0 && sp.n) {
			for (unsigned i = 0; i < sp.n; i++)
				own_pages(&sp.s[i]);
			at = sp.s[sp.n - 1].lo + sp.s[sp.n - 1].len;
		}
		if (err < 0)
			munmap(at, end(ad) - at);
	}
	LIST_INIT(&all);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_mutex_unlock(&hand);
}

static void mind_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- get and put ---- */

int weft_adopt_get(struct weft_dev *dev, void *addr, size_t len, bool heap, unsigned refs,
		   struct weft_adopt **out, char why[WEFT_WHY])
{
	struct check c = { .addr = (uintptr_t)addr, .len = len, .heap = heap, .why = why };
	uintptr_t page = sysconf(_SC_PAGESIZE), lo = c.addr & -page;
	struct weft_adopt *ad = calloc(1, sizeof(*ad)), *has;
	int err;

	why[0] = 0;
	if (!ad)
		return refuse(&c, ENOMEM, "out of memory");
	pthread_once(&once, mind_forks);
	ad->dev = dev;
	ad->lo = (uint8_t *)lo;
	ad->len = ((c.addr + len + page - 1) & -page) - lo;
	ad->refs = refs;
	pthread_mutex_lock(&hand);
	has = find(ad);
	if (has)
		has->refs += refs;
	err = has ? 0 : check(ad, &c);
	pthread_mutex_unlock(&hand);
	if (err || has)
		goto out;
	/* creation is slow: fork() need not wait for it */
	err = weft_mem_take(dev, ad->len, true, &ad->pool, &ad->off);
	if (err) {
		snprintf(why, WEFT_WHY, "%s", weft_strerror_last());
		goto out;
	}
	pthread_mutex_lock(&hand);
	err = check(ad, &c);
	if (!err)
		err = exchange(ad, &c);
	if (!err)
		LIST_INSERT_HEAD(&all, ad, link);
	pthread_mutex_unlock(&hand);
	if (err)
		weft_mem_give(dev, ad->pool, ad->off, ad->gone);
	else
		has = ad;
out:
	if (has != ad)
		free(ad);
	*out = has;
	return err;
}

void weft_adopt_put(struct weft_adopt *ad, bool pool)
{
	bool last;

	pthread_mutex_lock(&hand);
	last = !--ad->refs;
	if (last) {
		LIST_REMOVE(ad, link);
		give_back(ad);
	}
	pthread_mutex_unlock(&hand);
	if (!last)
		return;
	if (pool)
		weft_mem_give(ad->dev, ad->pool, ad->off, ad->gone);
	free(ad);
}
