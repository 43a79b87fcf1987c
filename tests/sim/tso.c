/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads that share words through store buffers. */
#include "tso.h"

struct tso tso;

void tso_begin(uint32_t words)
{
	memset(tso.mem, 0, sizeof(tso.mem));
	tso.words = words;
	tso.threads = 0;
}

static void start(void)
{
	tso.cur->body();
	tso_collect();
}

struct tso_thread *tso_add(void (*body)(void), uint32_t arg)
{
	struct tso_thread *t = &tso.t[tso.threads++];

	memset(t, 0, offsetof(struct tso_thread, coro));
	t->body = body;
	t->arg = arg;
	coro_init(&t->coro, start);
	return t;
}

/* ---- one thread's memory ---- */

void tso_push(uint32_t w, __u32 v)
{
	struct tso_thread *t = tso.cur;

	if (t->buffered == TSO_BUFFER)
		abort();
	t->buffer[t->buffered].w = w;
	t->buffer[t->buffered++].v = v;
}

void tso_collect(void)
{
	struct tso_thread *t = tso.cur;

	for (uint32_t w = 0; w < tso.words; w++)
		if (*t->view[w] != t->last[w]) {
			tso_push(w, *t->view[w]);
			t->last[w] = *t->view[w];
		}
}

void tso_look(uint32_t w)
{
	struct tso_thread *t = tso.cur;
	__u32 v = tso.mem[w];

	for (uint32_t i = 0; i < t->buffered; i++)
		if (t->buffer[i].w == w)
			v = t->buffer[i].v;
	*t->view[w] = t->last[w] = v;
	explore_mix(&t->trace, w << 8 ^ v);
}

static void drain_one(struct tso_thread *t)
{
	tso.mem[t->buffer[0].w] = t->buffer[0].v;
	memmove(t->buffer, t->buffer + 1, --t->buffered * sizeof(t->buffer[0]));
}

void tso_barrier(void)
{
	tso_collect();
	while (tso.cur->buffered)
		drain_one(tso.cur);
}

void tso_yield(uint32_t w)
{
	tso_collect();
	coro_yield();
	tso_look(w);
}

/* ---- for the explorer ---- */

uint32_t tso_moves(uint8_t *move, int (*can_run)(const struct tso_thread *t))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < tso.threads; i++) {
		if (!tso.t[i].coro.done && can_run(&tso.t[i]))
			move[n++] = i;
		if (tso.t[i].buffered)
			move[n++] = i | TSO_DRAIN;
	}
	return n;
}

void tso_make(uint8_t move)
{
	struct tso_thread *t = &tso.t[move & ~TSO_DRAIN];

	if (move & TSO_DRAIN) {
		drain_one(t);
	} else {
		tso.cur = t;
		coro_resume(&t->coro);
	}
}

void tso_mix(uint64_t *h)
{
	for (uint32_t w = 0; w < tso.words; w++)
		explore_mix(h, tso.mem[w]);
	for (uint32_t i = 0; i < tso.threads; i++) {
		const struct tso_thread *t = &tso.t[i];

		explore_mix(h, t->trace);
		explore_mix(h, t->coro.done | t->coro.started << 1 | t->buffered << 2);
		for (uint32_t k = 0; k < t->buffered; k++)
			explore_mix(h, t->buffer[k].w ^ (uint64_t)t->buffer[k].v << 8);
	}
}
