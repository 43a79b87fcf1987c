/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads as coroutines, and every order of their steps: depth first, each state once. */
#ifndef WEFT_SIM_EXPLORE_H
#define WEFT_SIM_EXPLORE_H

#include <endian.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { EXPLORE_MOVES = 16, EXPLORE_STACK = 32768 };

struct coro {
	ucontext_t ctx; /* to start it */
	jmp_buf at;     /* to go on: no system call */
	uint32_t started, done;
	char *top; /* of what it has on its stack */
	void (*body)(void);
	char stack[EXPLORE_STACK];
};

void coro_init(struct coro *t, void (*body)(void));
void coro_resume(struct coro *t);         /* to its next coro_yield(), or its end */
void coro_yield(void);                    /* let others run */
uint64_t coro_hash(const struct coro *t); /* of its local state: stack and registers */

/* What is explored. A path begins with setup() and ends when there are no moves left. */
struct explore {
	void (*setup)(void);
	uint32_t (*moves)(uint8_t *move); /* what may happen next; how many */
	void (*make)(uint8_t move);
	uint64_t (*state)(void); /* hash of all that later moves depend on */
	int (*bad)(int end);     /* has it gone wrong, with this move or, at the end, for good? */
};

struct explored {
	uint64_t states, paths;
	uint32_t steps; /* of the path that went wrong */
};

int explore(const struct explore *e, struct explored *n); /* 1 when a path goes wrong */

static inline void explore_mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x9e3779b97f4a7c15ull;
	*h ^= *h >> 29;
}

#endif
