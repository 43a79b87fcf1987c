/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Path choice: which entropy value (UDP source port) the next packet takes. */
#ifndef WEFT_CORE_PATH_H
#define WEFT_CORE_PATH_H

#include <weft/core/psn.h>
#include <weft/wire.h>

/*
 * Round robin over n values. A value that lost a packet sits out one of its
 * turns; with every value in that state all are forgiven. Even spraying keeps
 * every path at the same share, which is best while paths are alike; recycled
 * entropies (REPS) can replace it behind the same two calls.
 */
#define WEFT_EVS_DEFAULT 16

struct weft_path {
	__u64 skip; /* bit per EV: skip its next turn */
	__u32 n;    /* 1 to WEFT_EV_MAX */
	__u32 pad;
};

weft_inline void weft_path_init(struct weft_path *p, __u32 n)
{
	p->skip = 0;
	p->n = n < 1 ? 1 : n > WEFT_EV_MAX ? WEFT_EV_MAX : n;
}

/* next: whose turn it is; it changes with every packet and is kept apart from the rest. */
weft_inline __u8 weft_path_pick(struct weft_path *p, __u32 *next)
{
	__u32 ev = *next;

	for (int i = 0; i < 2; i++) {
		if (!(p->skip & (1ull << (ev & 63))))
			break;
		p->skip &= ~(1ull << (ev & 63));
		ev = ev + 1 >= p->n ? 0 : ev + 1;
	}
	*next = ev + 1 >= p->n ? 0 : ev + 1;
	return ev;
}

weft_inline void weft_path_lost(struct weft_path *p, __u8 ev)
{
	if (p->n > 1)
		p->skip |= 1ull << (ev & 63);
}

#endif
