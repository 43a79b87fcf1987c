/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* For explore.h: threads that share words through store buffers, as x86 does it (TSO). */
#ifndef WEFT_SIM_TSO_H
#define WEFT_SIM_TSO_H

#include <linux/types.h>

#include "explore.h"

/*
 * Threads are coroutines. Each works on its own view of the shared words, and what it writes
 * waits in its store buffer until the explorer drains it or a barrier does. So functions that are
 * explored run unchanged: their barriers are macros of whoever includes this, plain stores show as
 * differences of the view.
 */
enum { TSO_THREADS = 4, TSO_WORDS = 3, TSO_BUFFER = 8 };

struct tso_thread {
	__u32 *view[TSO_WORDS], last[TSO_WORDS]; /* and what was in it at the last look */
	struct {
		uint32_t w;
		__u32 v;
	} buffer[TSO_BUFFER];
	uint32_t buffered, arg;
	uint64_t trace; /* hash of all it has learnt: stands for its local state */
	void (*body)(void);
	struct coro coro;
};

extern struct tso {
	__u32 mem[TSO_WORDS];
	struct tso_thread t[TSO_THREADS], *cur;
	uint32_t words, threads;
} tso;

void tso_begin(uint32_t words);                               /* all 0, no threads */
struct tso_thread *tso_add(void (*body)(void), uint32_t arg); /* then set its views */

/* By the thread that runs. */
void tso_push(uint32_t w, __u32 v); /* a store */
void tso_collect(void);     /* what it has written plainly since the last look goes to its buffer */
void tso_look(uint32_t w);  /* read: the newest of its own stores, else memory */
void tso_barrier(void);     /* all that it has written is in memory */
void tso_yield(uint32_t w); /* let others run, then see word w; the view keeps the others */

/* Moves: a step of thread i is i, the next of its stores that reaches memory i | TSO_DRAIN. */
#define TSO_DRAIN 0x80
uint32_t tso_moves(uint8_t *move, int (*can_run)(const struct tso_thread *t));
void tso_make(uint8_t move);
void tso_mix(uint64_t *h); /* memory and threads */

#endif
