/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the fuzzers of the datapath share. A harness reads bytes as a list of things that happen to
 * the device of tests/bpf/fixture.h and checks what becomes of it. It runs over either of two
 * backends: the programs built for the host (host.c, for libFuzzer), or the loaded ones (prog.c).
 */
#ifndef WEFT_TESTS_FUZZ_H
#define WEFT_TESTS_FUZZ_H

#include "../bpf/fixture.h"

#define FUZZ_FRAME 3520 /* as much as a page holds: longer frames are not in one piece */

/* Bytes that decide what happens; an exhausted input yields zeros. */
struct input {
	const uint8_t *p, *end;
};

static inline uint32_t take8(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static inline uint32_t take16(struct input *in)
{
	uint32_t v = take8(in);

	return v | take8(in) << 8;
}

static inline uint32_t take32(struct input *in)
{
	uint32_t v = take16(in);

	return v | take16(in) << 16;
}

static inline uint64_t take64(struct input *in)
{
	uint64_t v = take32(in);

	return v | (uint64_t)take32(in) << 32;
}

static inline bool more(const struct input *in)
{
	return in->p < in->end;
}

/* An invariant does not hold: say which, and stop so that the input is kept. */
void fuzz_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* On the host, in each helper that must not be called with a lock held. */
void no_lock(const char *who);

/* ---- the backend ---- */

/* Time passes; only on the host. */
void backend_wait(uint32_t ticks);
/* The next programs run on this CPU; only on the host. */
void backend_cpu(uint32_t cpu);
/* Clones are made on a fresh page; what came in keeps the room it has. Bytes in front of the frame. */
void backend_headroom(uint32_t bytes);
/*
 * These bytes were written to places of the target MR, in this order, and no other byte of any pool
 * since the last call.
 */
struct span {
	uint64_t roff;
	uint32_t len;
};
void backend_scattered(const struct span *s, int n, const void *bytes);
static inline void backend_written(uint64_t roff, const void *bytes, uint32_t len)
{
	backend_scattered(&(struct span){ roff, len }, 1, bytes);
}
/* An atomic has made this of the 8 bytes at roff of the target MR, and nothing else was written. */
void backend_atomic(uint64_t roff, uint64_t now);
/* What is in a pool, the target's or the source's. */
void backend_peek(uint32_t pool, uint64_t off, void *bytes, uint32_t len);

/* A message that takes a receive. */
static inline bool is_recv(uint8_t op, uint8_t flags)
{
	return op == WEFT_OP_SEND || (op == WEFT_OP_DATA && flags & WEFT_F_IMM);
}

/* ---- harnesses ---- */

void fuzz_parse(struct input *in); /* any bytes as a frame, at every program */
void fuzz_rx(struct input *in);    /* receive path: packets of all degrees of rightness */
void fuzz_ack(struct input *in);   /* ACK path: WRITEs, and ACKs that say anything */
void fuzz_pair(struct input *in);  /* two genuine peers and a bad network */

/* Every counter that is not accepted raises exactly one drop, or none. */
static inline int64_t drops(void)
{
	int64_t n = 0;

	for (int i = 0; i < WEFT_DROP_COUNT; i++)
		n += fx.diff[i];
	return n;
}
#define COUNTED(name) (fx.diff[WEFT_DROP_COUNT + WEFT_COUNT_##name])
#define DROPPED(name) (fx.diff[WEFT_DROP_##name])

#endif
