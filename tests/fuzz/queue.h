/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* An honest application at the receive queue of two peers: posts, takes what is complete, and checks it. */
#ifndef WEFT_TESTS_FUZZ_QUEUE_H
#define WEFT_TESTS_FUZZ_QUEUE_H

#include "flow.h"

#define QUEUE_PIECE 20000 /* bytes of a receive's first piece; the second has room for the rest */

struct queue {
	struct fx_rq *rq;
	bool shared;
	bool busy[FX_RQ_DEPTH]; /* posted, and not polled */
	uint32_t polled[2];     /* messages of either flow */
};

/* Its receives are for fl[0], or if it is shared for both. */
void queue_init(struct queue *q, struct flow fl[2], bool shared);
/* Post one if there is room. */
void queue_post(struct queue *q, uint64_t off, uint64_t off2);
/* Take what is complete: does each entry say what was sent? */
void queue_poll(struct queue *q, struct flow fl[2]);
/* Does somebody wait, who must be told? Once for each time. */
bool queue_waited(const struct flow *fl);
/* Where len bytes at moff of message rsn must have been put: up to two spans of the target MR. */
int queue_place(const struct queue *q, const struct flow *fl, uint32_t rsn, uint32_t moff,
		uint32_t len, struct span s[2]);

#endif
