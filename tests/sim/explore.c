/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every order of steps: depth first, each path from the start, states seen once. */
#include "explore.h"

enum { DEPTH = 512, SEEN = 1 << 21 };

static struct coro *cur;
static jmp_buf back;
static uint64_t seen[SEEN];
static struct {
	uint8_t pick, of;
} path[DEPTH];
static uint32_t path_n;

/* ---- coroutines ---- */

static void run_body(void)
{
	cur->body();
	cur->done = 1;
	_longjmp(back, 1);
}

void coro_init(struct coro *t, void (*body)(void))
{
	memset(t, 0, offsetof(struct coro, stack));
	/* as deep as they go: coro_hash() sees what was there before */
	memset(t->stack + sizeof(t->stack) - 4096, 0, 4096);
	t->body = body;
	getcontext(&t->ctx);
	t->ctx.uc_stack.ss_sp = t->stack;
	t->ctx.uc_stack.ss_size = sizeof(t->stack);
	makecontext(&t->ctx, run_body, 0);
}

void coro_resume(struct coro *t)
{
	cur = t;
	if (_setjmp(back))
		return;
	if (t->started)
		_longjmp(t->at, 1);
	t->started = 1;
	setcontext(&t->ctx);
}

void coro_yield(void)
{
	cur->top = __builtin_frame_address(0);
	if (!_setjmp(cur->at))
		_longjmp(back, 1);
}

/* What is dead in there makes two states of one, never one of two. */
uint64_t coro_hash(const struct coro *t)
{
	uint64_t h = t->started | t->done << 1;

	if (!t->started || t->done)
		return h;
	for (uint32_t i = 0; i < sizeof(t->at->__jmpbuf) / sizeof(t->at->__jmpbuf[0]); i++)
		explore_mix(&h, t->at->__jmpbuf[i]);
	for (const char *p = t->top; p < t->stack + sizeof(t->stack); p += sizeof(uint64_t))
		explore_mix(&h, *(const uint64_t *)p);
	return h;
}

/* ---- the explorer ---- */

static int seen_before(uint64_t h, struct explored *count)
{
	uint32_t i;

	h += !h;
	i = h & (SEEN - 1);
	for (uint32_t n = 0; n < SEEN; n++, i = (i + 1) & (SEEN - 1)) {
		if (seen[i] == h)
			return 1;
		if (!seen[i]) {
			seen[i] = h;
			count->states++;
			return 0;
		}
	}
	abort();
}

/* Follow the path, extend it by first choices. Returns 1 when it goes wrong. */
static int run_path(const struct explore *e, struct explored *count)
{
	uint32_t at = 0;

	e->setup();
	count->paths++;
	for (;;) {
		uint8_t move[EXPLORE_MOVES];
		uint32_t n = e->moves(move), pick;

		if (!n || e->bad(0)) {
			path_n = at;
			return e->bad(!n);
		}
		if (at == DEPTH)
			abort();
		if (at < path_n) {
			pick = path[at].pick;
		} else {
			if (seen_before(e->state(), count)) {
				path_n = at;
				return 0;
			}
			path[at].pick = pick = 0;
			path[at].of = n;
			path_n = at + 1;
		}
		at++;
		e->make(move[pick]);
	}
}

int explore(const struct explore *e, struct explored *count)
{
	memset(seen, 0, sizeof(seen));
	memset(count, 0, sizeof(*count));
	path_n = 0;
	do {
		if (run_path(e, count)) {
			count->steps = path_n;
			return 1;
		}
		/* next path: the last choice that has another alternative */
		while (path_n && path[path_n - 1].pick + 1 == path[path_n - 1].of)
			path_n--;
		if (path_n)
			path[path_n - 1].pick++;
	} while (path_n);
	return 0;
}
