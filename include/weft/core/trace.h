/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last events of a QP: a small ring, in which what comes in swarms takes one record. */
#ifndef WEFT_CORE_TRACE_H
#define WEFT_CORE_TRACE_H

#include <weft/core/psn.h>

#define WEFT_TRACE_LEN  32
#define WEFT_TRACE_BACK 4              /* so many records back one is looked for to join */
#define WEFT_TRACE_GAP  1000000000ull  /* ns; after a pause of this a new record begins */
#define WEFT_TRACE_SPAN 10000000000ull /* ns; no record stands for more */

/*
 * kind: who writes it (X: XDP, L: the library), what x, a, b, c are. Of records
 * that stand for several events, b and c are those of the last.
 */
#define WEFT_TRACES(X)                                                                         \
	X(connected) /* L: a payload, b window */                                              \
	X(first_ack) /* X: a PSN, b round trip in ticks */                                     \
	X(retx)      /* X: packet sent again; a PSN of the first, b of the last */             \
	X(rto)       /* X: x back-off, a oldest PSN, b its age in us, c in flight */           \
	X(nak)       /* X: the peer refused; a code, b PSN */                                  \
	X(refused)   /* X: we refused the peer; a code, b PSN */                               \
	X(local)     /* X: source not accessible; a MSN */                                     \
	X(owner)     /* X: packet for a process that is dead */                                \
	X(cwnd)      /* L: configured window; a before, b now */                               \
	X(link)      /* L: x 1 up, 0 down */                                                   \
	X(device)    /* L: interface lost; x enum weft_trace_lost */                           \
	X(bye)       /* L: the peer closed; a NAK code, b messages it has */                   \
	X(peer_gone) /* L: the peer's stream ended without a word */                           \
	X(failed)    /* L: x status | tx_err << 8, a NAK code, b MSN, c ms without progress */ \
	X(died)      /* L: the process that owned it was found dead */                         \
	X(closed)    /* L: by the application; x 1: disconnected, and not closed yet */

/* clang-format off */
enum weft_trace_kind {
	WEFT_TRACE_none = 0,
#define X(name) WEFT_TRACE_##name,
	WEFT_TRACES(X)
#undef X
	WEFT_TRACE_COUNT,
};
/* clang-format on */

#define WEFT_TRACE_WE 255 /* failed, instead of tx_err: we refused the peer */

enum weft_trace_lost { WEFT_LOST_GONE, WEFT_LOST_DOWN, WEFT_LOST_DOORBELL, WEFT_LOST_PROG };

struct weft_trace_rec {
	__u64 t;    /* CLOCK_MONOTONIC, ns; of the first */
	__u32 span; /* from the first to the last, us */
	__u16 kind; /* enum weft_trace_kind; 0: none, or being written */
	__u16 x;
	__u32 count; /* events */
	__u32 a, b, c;
};

struct weft_trace {
	__u32 head; /* records ever begun */
	__u32 pad;
	struct weft_trace_rec rec[WEFT_TRACE_LEN];
};

/* What is noted next. */
struct weft_trace_event {
	__u64 now; /* ns */
	__u16 kind, x;
	__u32 a, b, c;
};

/* Is it one more of what this record stands for? */
weft_inline int weft_trace_joins(const struct weft_trace_rec *r, const struct weft_trace_event *e)
{
	__u64 age = e->now - r->t;

	if (r->kind != e->kind || age > WEFT_TRACE_SPAN || age > r->span * 1000ull + WEFT_TRACE_GAP)
		return 0;
	switch (e->kind) {
	case WEFT_TRACE_retx:
	case WEFT_TRACE_owner:
	case WEFT_TRACE_cwnd: return 1;
	case WEFT_TRACE_rto: return r->x == e->x && r->a == e->a;
	case WEFT_TRACE_nak:
	case WEFT_TRACE_refused: return r->a == e->a;
	default: return 0;
	}
}

/*
 * Several CPUs and the library write at once and without a lock: a place is taken
 * with a fetching atomic, and what two do to one record at the same time may cost a
 * count. Readers skip a record without a kind.
 */
weft_inline void weft_trace_note(struct weft_trace *t, const struct weft_trace_event *e)
{
	__u32 head = *(volatile __u32 *)&t->head;
	struct weft_trace_rec *r;

	for (__u32 i = 1; i <= WEFT_TRACE_BACK; i++) {
		r = &t->rec[(head - i) & (WEFT_TRACE_LEN - 1)];
		if (!weft_trace_joins(r, e))
			continue;
		r->count++;
		r->span = (e->now - r->t) / 1000;
		r->b = e->b;
		r->c = e->c;
		return;
	}
	r = &t->rec[__sync_fetch_and_add(&t->head, 1) & (WEFT_TRACE_LEN - 1)];
	*(volatile __u16 *)&r->kind = WEFT_TRACE_none;
	r->t = e->now;
	r->span = 0;
	r->count = 1;
	r->x = e->x;
	r->a = e->a;
	r->b = e->b;
	r->c = e->c;
	*(volatile __u16 *)&r->kind = e->kind;
}

_Static_assert(sizeof(struct weft_trace_rec) == 32, "trace record");

#endif
