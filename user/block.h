/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A first-fit allocator of ranges within [0, size): bookkeeping only, never touches the memory. */
#ifndef WEFT_USER_BLOCK_H
#define WEFT_USER_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#define WEFT_BLOCK_ALIGN 64

struct weft_block { /* the blocks of a range, in order of offset, cover it without gaps */
	struct weft_block *next;
	size_t off;
	size_t len; /* multiple of WEFT_BLOCK_ALIGN */
	bool used;
};

/* A range of `size` bytes, a multiple of WEFT_BLOCK_ALIGN, all free. 0 or -ENOMEM. */
int weft_blocks_init(struct weft_block **head, size_t size);
void weft_blocks_fini(struct weft_block **head);

/* Take len bytes, rounded up to the alignment: the first gap that fits. -ENOSPC, -ENOMEM. */
int weft_block_take(struct weft_block *head, size_t len, size_t *off);

/* Give back what weft_block_take() returned; joins free neighbours. -EINVAL: no such block. */
int weft_block_give(struct weft_block *head, size_t off);

/* The used block that holds [off, off + len) whole, or NULL. */
const struct weft_block *weft_block_find(const struct weft_block *head, size_t off, size_t len);

/* Nothing taken? */
bool weft_blocks_empty(const struct weft_block *head);

#endif
