/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* First-fit ranges with coalescing; see block.h. */
#include <errno.h>
#include <stdlib.h>

#include "block.h"

int weft_blocks_init(struct weft_block **head, size_t size)
{
	struct weft_block *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->len = size;
	*head = b;
	return 0;
}

void weft_blocks_fini(struct weft_block **head)
{
	struct weft_block *b;

	while ((b = *head)) {
		*head = b->next;
		free(b);
	}
}

int weft_block_take(struct weft_block *head, size_t len, size_t *off)
{
	struct weft_block *b, *rest;

	if (!len || len > (size_t)-WEFT_BLOCK_ALIGN)
		return -ENOSPC;
	len = (len + WEFT_BLOCK_ALIGN - 1) & ~(size_t)(WEFT_BLOCK_ALIGN - 1);
	for (b = head; b; b = b->next)
		if (!b->used && b->len >= len)
			break;
	if (!b)
		return -ENOSPC;
	if (b->len > len) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return -ENOMEM;
		rest->off = b->off + len;
		rest->len = b->len - len;
		rest->next = b->next;
		b->next = rest;
		b->len = len;
	}
	b->used = true;
	*off = b->off;
	return 0;
}

static void join_next(struct weft_block *b)
{
	struct weft_block *n = b->next;

	if (!n || b->used || n->used)
		return;
	b->len += n->len;
	b->next = n->next;
	free(n);
}

int weft_block_give(struct weft_block *head, size_t off)
{
	struct weft_block *b, *prev = NULL;

	for (b = head; b && b->off != off; b = b->next)
		prev = b;
	if (!b || !b->used)
		return -EINVAL;
	b->used = false;
	join_next(b);
	if (prev)
		join_next(prev);
	return 0;
}

const struct weft_block *weft_block_find(const struct weft_block *head, size_t off, size_t len)
{
	const struct weft_block *b;

	for (b = head; b; b = b->next)
		if (off >= b->off && off - b->off < b->len)
			break;
	if (!b || !b->used || len > b->len - (off - b->off))
		return NULL;
	return b;
}

bool weft_blocks_empty(const struct weft_block *head)
{
	return head && !head->used && !head->next;
}
