// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Scenarios of memory that is not of weft_alloc(): adopted, given back, staged. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "inject.h"

#define BIG (9u << 20) /* exchanged in several pieces */

static struct {
	uint8_t *mem; /* BIG, with pages around that belong to nobody */
	struct weft_mr *mr[3];
	uint8_t *shared;
	struct weft_mr *win;
} own;

static void fresh(void)
{
	if (!own.mem)
		own.mem = mmap(NULL, BIG + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mmap(own.mem + 4096, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	     -1, 0);
	for (size_t i = 0; i < BIG; i += 8)
		*(uint64_t *)(own.mem + 4096 + i) = i * 11;
}

static bool intact(void)
{
	for (size_t i = 0; i < BIG; i += 8)
		if (*(uint64_t *)(own.mem + 4096 + i) != i * 11)
			return false;
	return true;
}

/* Two regions that share pages, and one inside them. 1: what must not be. */
int do_adopt(void)
{
	unsigned access = WEFT_REMOTE_WRITE | WEFT_ADOPT;
	struct weft_mr_range r[3];
	int err;

	if (!own.mem)
		fresh();
	r[0] = (struct weft_mr_range){ .addr = own.mem + 4500, .len = BIG / 2, .access = access };
	r[1] = (struct weft_mr_range){ .addr = own.mem + 4500 + BIG / 2,
				       .len = BIG / 2 - 500,
				       .access = access };
	r[2] = (struct weft_mr_range){ .addr = own.mem + 99999, .len = 9999, .access = access };
	err = weft_mr_reg_many(s.dev[0], NULL, r, 3, own.mr);
	return intact() ? err : 1;
}

void undo_adopt(void)
{
	weft_mr_dereg_many(own.mr, 3);
}

/* Deregistration always works: at worst the memory stays on map pages, with its contents. */
int do_give(void)
{
	int err = weft_mr_dereg_many(own.mr, 3);

	return intact() ? err : 1;
}

void undo_give(void)
{
	fresh();
	need(do_adopt(), "adopt again");
}

/* A staged region and a window of it. */
int do_stage(void)
{
	struct weft_mr *mr;
	int err;

	if (!own.shared)
		own.shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	memset(own.shared, 0x33, 65536);
	err = weft_mr_reg(s.dev[0], NULL, own.shared, 65536, WEFT_REMOTE_WRITE | WEFT_STAGE, &mr);
	if (err)
		return err;
	if (memcmp(own.shared, weft_mr_view(mr), 65536))
		return 1;
	err = weft_mr_window(mr, 100, 200, WEFT_REMOTE_WRITE, &own.win);
	if (err)
		weft_mr_dereg(mr);
	own.mr[0] = mr;
	return err;
}

void undo_stage(void)
{
	weft_mr_dereg_many((struct weft_mr *[]){ own.mr[0], own.win }, 2);
}
