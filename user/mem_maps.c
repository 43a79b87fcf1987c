/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What lies at an address: the process's mappings, the allocator's ranges, which page it is. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "mem.h"

/* ---- /proc/self/maps: no stdio, for a child of fork() reads it too ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static const char *number(const char *p, int base, uint64_t *out)
{
	for (*out = 0; digit(*p) < base; p++)
		*out = *out * base + digit(*p);
	return p;
}

static enum weft_area area_of(const struct weft_vma *v, uint64_t inode)
{
	if (!strcmp(v->name, "anon_inode:bpf-map"))
		return WEFT_AREA_MAP;
	if (!strncmp(v->name, "/dev/", 5))
		return WEFT_AREA_DEV;
	if (!strcmp(v->name, "[heap]"))
		return WEFT_AREA_HEAP;
	if (!strncmp(v->name, "[stack", 6))
		return WEFT_AREA_STACK;
	if (!v->shared && !inode && (!v->name[0] || !strncmp(v->name, "[anon:", 6)))
		return WEFT_AREA_ANON;
	return WEFT_AREA_FILE;
}

/* "LO-HI rwxp OFF MAJOR:MINOR INODE    NAME" */
static void parse(const char *p, struct weft_vma *v)
{
	uint64_t n, inode;

	p = number(p, 16, &n);
	v->lo = n;
	p = number(p + (*p == '-'), 16, &n);
	v->hi = n;
	p += *p == ' ';
	v->prot = 0;
	v->shared = false;
	for (; *p && *p != ' '; p++)
		switch (*p) {
		case 'r': v->prot |= PROT_READ; break;
		case 'w': v->prot |= PROT_WRITE; break;
		case 'x': v->prot |= PROT_EXEC; break;
		case 's': v->shared = true; break;
		}
	p = number(p + (*p == ' '), 16, &v->off);
	p += *p == ' ';
	while (*p && *p != ' ')
		p++;
	p = number(p + (*p == ' '), 10, &inode);
	while (*p == ' ')
		p++;
	strncpy(v->name, p, sizeof(v->name) - 1);
	v->name[sizeof(v->name) - 1] = 0;
	v->area = area_of(v, inode);
}

int weft_maps(uintptr_t lo, uintptr_t hi, int (*fn)(void *arg, const struct weft_vma *v), void *arg)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), rc = 0;
	char buf[4096 + 1], line[160];
	struct weft_vma v;
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		n = read(fd, buf, sizeof(buf) - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (const char *p = buf; p < buf + n; p++) {
			if (*p != '\n') { /* long names are cut */
				if (len < sizeof(line) - 1)
					line[len++] = *p;
				continue;
			}
			line[len] = 0;
			len = 0;
			parse(line, &v);
			if (v.lo >= hi)
				goto out;
			rc = v.hi > lo ? fn(arg, &v) : 0;
			if (rc)
				goto out;
		}
	}
	rc = n < 0 ? -errno : 0;
out:
	close(fd);
	return rc;
}

/* ---- the allocator ---- */

/* Like memcpy() from memory that may not be there. */
static bool peek(uintptr_t at, void *to, size_t len)
{
	struct iovec l = { to, len }, r = { (void *)at, len };

	return process_vm_readv(getpid(), &l, 1, &r, 1, 0) == (ssize_t)len;
}

#define ARENA     (sizeof(long) << 23) /* glibc: HEAP_MAX_SIZE, and so aligned */
#define MMAPPED   2                    /* flag in a chunk's size */
#define FLAGS     7
#define HEADER    (2 * sizeof(size_t))
#define CHUNK_MIN 4096

/* A heap of another arena than the first begins with its description. */
static bool in_arena(uintptr_t addr, size_t len)
{
	uintptr_t h = addr & -ARENA;
	struct {
		uintptr_t arena, prev;
		size_t size, mprotect_size;
	} info = { 0 };

	if (h == addr || !peek(h, &info, sizeof(info)))
		return false;
	if (!info.size || info.size > info.mprotect_size || info.mprotect_size > ARENA ||
	    info.mprotect_size % 4096 || addr + len > h + info.mprotect_size)
		return false;
	/* the first heap of an arena holds it, further ones point to others */
	return info.prev ? info.prev % ARENA == 0 && (info.arena & -ARENA) != h
			 : info.arena > h && info.arena - h <= 128;
}

/* Is there the header of a block that has pages of its own at `at`? Its end, or 0. */
static uintptr_t own_block(uintptr_t at)
{
	size_t h[2] = { 0 }, size; /* what lies before it (alignment), its own size and flags */

	if (!peek(at, h, sizeof(h)))
		return 0;
	size = h[1] & ~(size_t)FLAGS;
	if ((h[1] & FLAGS) != MMAPPED || size < CHUNK_MIN || size > SIZE_MAX / 2 ||
	    h[0] > size + CHUNK_MIN || (h[0] + size) % CHUNK_MIN || (at - h[0]) % CHUNK_MIN)
		return 0;
	return at + size;
}

const char *weft_maps_malloc(const struct weft_vma *v, uintptr_t addr, size_t len)
{
	uintptr_t at = v->lo, end;

	if (v->area == WEFT_AREA_HEAP)
		return "the heap";
	if (in_arena(addr, len))
		return "an arena of malloc()";
	if (addr >= HEADER && own_block(addr - HEADER) > addr)
		return "a block of malloc()";
	/* blocks side by side are one mapping: from its start on, one after the other */
	for (; at <= addr && (end = own_block(at)); at = end)
		if (addr < end)
			return "a block of malloc()";
	return NULL;
}

/* ---- pages ---- */

#define PFN ((1ull << 55) - 1)

bool weft_maps_same(const void *a, const void *b, size_t len)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t page = sysconf(_SC_PAGESIZE), n = len / page, k;
	uint64_t pa[128], pb[128];
	bool same = true;

	for (size_t at = 0; fd >= 0 && same && at < n; at += k) {
		k = n - at < 128 ? n - at : 128;
		if (pread(fd, pa, 8 * k, ((uintptr_t)a / page + at) * 8) != (ssize_t)(8 * k) ||
		    pread(fd, pb, 8 * k, ((uintptr_t)b / page + at) * 8) != (ssize_t)(8 * k))
			break;
		for (size_t i = 0; same && i < k; i++)
			/* 0: not told, or thrown away and not touched since */
			same = !(pa[i] & PFN) || !(pb[i] & PFN) || (pa[i] & PFN) == (pb[i] & PFN);
	}
	if (fd >= 0)
		close(fd);
	return same;
}
