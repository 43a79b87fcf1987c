/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send state of a QP: vocabulary, structures, places in the window, lists of tokens. */
#ifndef WEFT_CORE_TX_STATE_H
#define WEFT_CORE_TX_STATE_H

#include <weft/core/cc.h>
#include <weft/core/path.h>
#include <weft/core/psn.h>
#include <weft/core/rtt.h>

/*
 * Vocabulary. A frame that carries a segment out and its ACK back is a token.
 * Every PSN of the window is in one of these states:
 *
 *   OUT    a token for it is in flight (counted in `inflight`)
 *   LOST   convicted, waits to be sent again (bit in `lost`, counted in `nlost`)
 *   IDLE   neither: never sent, or delivered; or lent, tx_lane.h
 *
 * and may in addition be delivered (older than `una`, or a bit in `delivered`).
 * A token comes back with the ACK of its own PSN; what other ACKs say about a
 * PSN (cum, SACK) marks it delivered but leaves its token out, until the token
 * returns or is convicted. So a token is never created twice for a packet whose
 * ACK is merely behind another CPU's.
 *
 * Conviction follows RACK (RFC 8985) within an ordering domain, the queue or
 * CPU that a token was sent from: order mostly holds inside one, and never
 * between two, since either may be descheduled. The tokens of a domain form a
 * list in sending order; its oldest is convicted when a packet of the domain
 * that was sent more than a reorder window later has been acknowledged, or when
 * the retransmission timer has passed. Thus conviction never has to search, no
 * matter how many domains there are or what else they have sent.
 *
 * Everything here runs under the QP's transmit lock, if it does not say otherwise.
 */
#define WEFT_SQ_DEPTH 256  /* work requests that a ring holds, and a QP unless it asks for more */
#define WEFT_SQ_MAX   4096 /* then it has several rings, one behind the other */
#define WEFT_DOMAINS  16

/*
 * A deeper queue has no more private copies than that, and leaves some alone: when the next work
 * request takes a copy's place, what was there has been complete for a while, and telemetry has read it.
 */
#define WEFT_SQ_SPARE 16

enum weft_slot_state { WEFT_SLOT_IDLE = 0, WEFT_SLOT_OUT, WEFT_SLOT_LOST };

/* Work requests: name, value, opcode on the wire, whether the peer must answer with more than an ACK. */
#define WEFT_WQE_OPS(X)       \
	X(WRITE, 0, DATA, 0)  \
	X(READ, 1, READ, 1)   \
	X(FADD, 2, FADD, 1)   \
	X(CSWAP, 3, CSWAP, 1) \
	X(SEND, 4, SEND, 0)

enum weft_wqe_op {
#define X(name, val, wire, own) WEFT_WQE_##name = val,
	WEFT_WQE_OPS(X)
#undef X
		WEFT_WQE_OP_COUNT,
};

/* Those that the peer must answer with more than an ACK, a bit each. */
enum {
#define X(name, val, wire, own) | (own) << (val)
	WEFT_WQE_OWN = 0 WEFT_WQE_OPS(X)
#undef X
};

/* flags of a work request */
#define WEFT_WQE_IMM 0x1 /* WRITE, SEND: brings immediate data, which is in `operand` */
#define WEFT_WQE_SOL 0x2 /* WRITE with immediate data, SEND: wakes who waits for such only */

weft_inline int weft_wqe_own(__u32 op)
{
	return WEFT_WQE_OWN >> (op & 31) & 1;
}

weft_inline int weft_wqe_atomic(__u32 op)
{
	return op == WEFT_WQE_FADD || op == WEFT_WQE_CSWAP;
}

/* Does it take a receive of the peer's? */
weft_inline int weft_wqe_takes(__u32 op, __u32 flags)
{
	return op == WEFT_WQE_SEND || (flags & WEFT_WQE_IMM);
}

/* A work request as it stands in the send queue. */
struct weft_wqe {
	__u64 loff; /* here: offset from the local MR's start */
	__u64 roff; /* there: offset from the remote MR's start */
	__u32 len;  /* 0 to WEFT_MSG_MAX; of an atomic 8 */
	__u32 lkey, rkey;
	__u32 posted;  /* when, wire ticks; 0: not told. For statistics only */
	__u16 op;      /* enum weft_wqe_op */
	__u16 flags;   /* WEFT_WQE_* */
	__u32 asn;     /* private copy: number of the atomic, or of the receive that it takes */
	__u64 operand; /* of an atomic: what is added, or the new value; else immediate data */
	__u64 compare; /* of CSWAP: the old value */
	__u32 moff;    /* bytes of the message before this: work requests may be parts of one */
	__u32 mlen;    /* of the whole message */
};

/*
 * One PSN of the window: a quarter of a cache line, and its neighbours there are
 * a quarter of a window away. Packed by hand, since the kernel takes no bit
 * fields beside a lock; read it with the functions below.
 */
struct weft_tx_slot {
	__u32 ts;         /* when it last went out */
	__u16 prev, next; /* neighbours in the list of its domain, while it is out */
	union {
		struct {
			__u16 ssn; /* which work request: its lower half */
			__u16 seg; /* which segment of it: the lower 16 bits */
			__u8 seg_hi; /* the rest, and WEFT_SLOT_TAKEN; or WEFT_SLOT_MANY | how many more */
			__u8 tries; /* transmissions, saturating */
			__u8 ev;
			__u8 st; /* enum weft_slot_state | WEFT_SLOT_RESCUED or _LENT | ordering domain << 4 */
		};
		__u64 word; /* all of that, weft_tx_take() */
	};
};
#define WEFT_SLOT_MANY 0x80 /* in seg_hi: a message has no more than 2^22 segments */
#define WEFT_SLOT_TAKEN \
	0x40 /* likewise; its answer is being put into memory. Written with the PSN, then by that */
#define WEFT_SLOT_RESCUED 0x4 /* sent again only because its CPU did not move */
#define WEFT_SLOT_LENT    0x8 /* and not listed yet: tx_lane.h */

/* An ordering domain, on a cache line of its own: as a rule one CPU writes it. */
struct weft_tx_dom {
	__u32 rack_ts; /* newest send time acknowledged */
	__u32 out;     /* tokens in flight: the length of the list */
	__u16 head;    /* the oldest of them, while there are any */
	__u16 tail;    /* the newest */
	__u32 growing; /* tokens asked for that have not claimed yet */
	__u32 grow_ts; /* since when */
	__u32 run_at;  /* segments of the work request being cut that are this domain's, tx_cut.h */
	__u32 run_end;
	__u32 pad[9];
};

#define WEFT_LANE      4   /* segments lent at a time, tx_lane.h */
#define WEFT_LANE_NONE ~0u /* `who` of a lane that is not used */

/* What is lent to a domain, on cache lines of its own: one CPU writes them. */
struct weft_lane {
	__u32 state; /* how many are lent << 8 | how many of them have gone out */
	__u32 who;   /* that CPU, + 1; 0: none yet. It stays */
	__u32 first; /* PSN of the first; the others follow */
	__u32 seg;   /* which segment of the work request that is; likewise */
	__u32 ssn;   /* number of the work request */
	__u32 ts;    /* send time of all of them */
	__u32 cum;   /* newest cumulative PSN of the ACKs below */
	__u32 pad;
	struct {
		__u32 psn, ts;
	} ack[WEFT_LANE]; /* not scored yet: of the tokens that took what has gone out */
	struct weft_wqe
		wqe; /* a copy of its own: if the peer lies, the other is another's by then */
};

struct weft_tx {
	/* written with every packet: the rest of the lock's cache line */
	__u32 nxt;      /* next PSN to assign */
	__u32 una;      /* oldest PSN not known to be delivered */
	__u32 inflight; /* PSNs in state OUT */
	__u32 nlost;    /* PSNs in state LOST */
	__u32 cons;     /* work request being cut into segments */
	__u32 seg;      /* how many of its segments have a PSN */
	__u32 done;     /* work requests wholly delivered, in order */
	__u32 ev_next;  /* entropy value of the next packet, unless it is to be skipped */
	struct weft_rtt rtt;
	__u32 told_done, told_una; /* what the shared ring says */
	/* read with every packet: a line of its own */
	__u32 payload; /* bytes in a full segment */
	__u8 err;      /* enum weft_tx_err */
	__u8 strict;   /* 1: the peer takes PSNs in their order only */
	__u16 sq_mask; /* work requests that the queue holds, a power of 2, - 1 */
	__u32 hint;    /* mirror of the hint in the shared ring */
	__u32 ends;    /* messages wholly cut: no more can the peer have counted */
	struct weft_path path;
	struct weft_cc cc;
	/* now and then */
	__u32 err_info;    /* NAK code, or what the library passed */
	__u32 err_ssn;     /* work request that failed */
	__u32 last_move;   /* when a token was last started on another CPU, ticks */
	__u32 losses;      /* PSNs convicted and not delivered, ever */
	__u32 surplus;     /* tokens that were not expected back, ever */
	__u8 looked;       /* domain that the last time-out looked at */
	__u8 stuck;        /* domain that was last rescued from */
	__u8 rnr;          /* 1: a receive of the peer's was not there, tx_rnr.h */
	__u8 probe;        /* 1: one packet may go all the same */
	__u32 puts;        /* PSN that the last READs and atomics in a row began with */
	__u32 post_dom;    /* domain in which the application last rang */
	__u32 atomics;     /* begun, ever */
	__u8 atomics_out;  /* of those: not answered */
	__u8 joins_writes; /* 1: several WRITEs may go in a packet, tx_many.h */
	__u8 heard;        /* 1: `epoch` is one that the peer has told */
	__u8 told_rnr;     /* what the shared ring says of `rnr` */
	__u32 psn0;        /* first PSN */
	__u32 wraps;       /* how often nxt has wrapped to 0 */
	__u64 retransmits, spurious, timeouts, ce;
	__u64 msgs, bytes; /* work requests begun, and what is in them */
	/* receives of the peer's, tx_rnr.h */
	__u32 rsn;      /* number of the next one to be taken */
	__u32 rnr_psn;  /* the first that was refused; it is not delivered */
	__u32 epoch;    /* what the peer has posted, as last heard */
	__u32 epoch_ts; /* and when, ticks */
	__u32 rnr_ts;   /* when it was last asked, ticks */
	__u32 probes;   /* how often since something was taken */
	/* in strict order, tx_order.h */
	__u32 back;     /* PSN to go out next: nxt, or older when all from there on goes again */
	__u32 cum;      /* PSN before which the peer has placed all, as last heard */
	__u32 gap;      /* while PSNs are lost: the first free one that is not delivered */
	__u32 free_end; /* behind the newest free one */
	__u8 frees;     /* 1: the peer takes what is marked free of order at any time */
	__u8 home;      /* domain of what is to come in order */
	__u8 free_now; /* 1: the work request being cut is free of order, but for its message's end */
	__u8 pad1;
	__u32 nfree; /* of what is lost, how many are free, or more; exact behind weft_tx_settle() */
	__u32 turn;  /* the first that is not, as of then; nobody's when others were lost since */
	__u32 cut; /* segments of the work request being cut that are given out to domains, tx_cut.h */
	__u32 pad2[10];
	__u64 free[WEFT_WIN_WORDS]; /* in any order; as they were claimed, thus old beyond nxt */
	__u64 delivered[WEFT_WIN_WORDS];
	__u64 lost[WEFT_WIN_WORDS];
	__u64 own[WEFT_WIN_WORDS];  /* delivered only by their own answer, which brings bytes */
	__u64 last[WEFT_WIN_WORDS]; /* the last of their work requests; as `own`, old beyond nxt */
	__u32 apsn[WEFT_ATOMICS];   /* PSNs of the last atomics */
	struct weft_tx_dom dom[WEFT_DOMAINS];
	struct weft_lane lane[WEFT_DOMAINS];
	struct weft_tx_slot slot[WEFT_WIN]; /* by weft_tx_at() */
	struct weft_wqe wqe[WEFT_SQ_DEPTH]; /* private copies, taken with the first segment */
};

enum weft_tx_err {
	WEFT_TX_OK = 0,
	WEFT_TX_ERR_NAK,   /* the peer refused; err_info: enum weft_nak */
	WEFT_TX_ERR_LOCAL, /* local key, bounds or rights */
	WEFT_TX_ERR_RING,  /* the send queue is corrupt */
};

enum weft_claim {
	WEFT_CLAIM_OK,
	WEFT_CLAIM_EMPTY,  /* nothing to send */
	WEFT_CLAIM_CWND,   /* window full */
	WEFT_CLAIM_WINDOW, /* PSN window full: wait for the oldest */
	WEFT_CLAIM_STUCK,  /* the same, but too long for that: weft_tx_rescue() */
	WEFT_CLAIM_MOVED,  /* the queue at hand is not what is next any more */
	WEFT_CLAIM_RNR,    /* the peer has no receive for the oldest: wait until it has */
	WEFT_CLAIM_ERROR,  /* the QP is in error */
};

weft_inline void weft_tx_init(struct weft_tx *tx, __u32 psn0, __u32 payload, __u32 nev)
{
	__builtin_memset(tx, 0, sizeof(*tx));
	tx->nxt = tx->una = tx->psn0 = tx->puts = tx->back = tx->cum = psn0;
	tx->gap = tx->free_end = psn0;
	for (int i = 0; i < WEFT_ATOMICS; i++)
		tx->apsn[i] = psn0 - 1;
	tx->payload = payload;
	tx->sq_mask = WEFT_SQ_DEPTH - 1;
	tx->cc.cwnd = WEFT_CWND_DEFAULT;
	weft_path_init(&tx->path, nev);
}

/* DATA packets sent so far, repeated ones included. */
weft_inline __u64 weft_tx_packets(const struct weft_tx *tx)
{
	return (((__u64)tx->wraps << 32) | tx->nxt) - tx->psn0 + tx->retransmits;
}

weft_inline __u32 weft_slot_state(const struct weft_tx_slot *s)
{
	return s->st & 3;
}

weft_inline void weft_slot_set(struct weft_tx_slot *s, enum weft_slot_state state)
{
	s->st = (s->st & ~3) | state;
}

/* What a PSN that is new stands for. */
weft_inline void weft_slot_assign(struct weft_tx_slot *s, __u32 ssn, __u32 seg, __u8 st)
{
	s->ssn = ssn;
	s->seg = seg;
	s->seg_hi = seg >> 16;
	s->tries = 0;
	s->st = st;
}

weft_inline int weft_slot_lent(const struct weft_tx_slot *s)
{
	return (s->st & WEFT_SLOT_LENT) != 0;
}

/* The ordering domain of its last transmission. */
weft_inline __u32 weft_slot_dom(const struct weft_tx_slot *s)
{
	return s->st >> 4;
}

weft_inline __u32 weft_slot_seg(const struct weft_tx_slot *s)
{
	return s->seg | (__u32)(s->seg_hi & ~WEFT_SLOT_TAKEN) << 16;
}

/* Whole WRITEs behind that which it stands for as well. */
weft_inline __u32 weft_slot_more(const struct weft_tx_slot *s)
{
	return s->seg_hi & WEFT_SLOT_MANY ? s->seg_hi & ~WEFT_SLOT_MANY : 0;
}

/* The work request that it is of: one of the last 2^16 begun. */
weft_inline __u32 weft_slot_ssn(const struct weft_tx *tx, const struct weft_tx_slot *s)
{
	__u32 cons = *(const volatile __u32 *)&tx->cons; /* it may be on its way, weft_tx_take() */

	return cons - (__u16)(cons - s->ssn);
}

/*
 * A PSN's place in the window: neighbours lie on different cache lines, since
 * different CPUs are busy with them at the same time.
 */
weft_inline __u32 weft_tx_at(__u32 psn)
{
	__u32 at = psn << 2 | (psn / (WEFT_WIN / 4) & 3);

	/* mask last: 6.1's verifier knows no bounds of a 32-bit OR */
	__asm__("" : "+r"(at));
	return at & (WEFT_WIN - 1);
}

/* Is a token to carry it, or under way with it? */
weft_inline int weft_tx_goes(const struct weft_tx *tx, __u32 psn)
{
	const struct weft_tx_slot *s = &tx->slot[weft_tx_at(psn)];

	return tx->nxt - psn - 1 < WEFT_WIN &&
	       (weft_slot_state(s) == WEFT_SLOT_OUT || weft_slot_lent(s));
}

/* The PSN that has place `at`, of those older than nxt. */
weft_inline __u32 weft_tx_psn(const struct weft_tx *tx, __u32 at)
{
	__u32 low = at >> 2 | (at & 3) * (WEFT_WIN / 4), newest = tx->nxt - 1;

	return newest - ((newest - low) & (WEFT_WIN - 1));
}

weft_inline int weft_tx_delivered(const struct weft_tx *tx, __u32 psn)
{
	return weft_psn_diff(psn, tx->una) < 0 ||
	       (tx->delivered[weft_psn_word(psn)] & weft_psn_bit(psn));
}

/* Does its own answer bring bytes? Then nothing else delivers it. */
weft_inline int weft_tx_own(const struct weft_tx *tx, __u32 psn)
{
	return (tx->own[weft_psn_word(psn)] & weft_psn_bit(psn)) != 0;
}

/* What was noted a window ago is not of this PSN. Other CPUs read these lines with every ACK: leave them alone. */
weft_inline void weft_tx_unmark(struct weft_tx *tx, __u32 psn)
{
	__u32 w = weft_psn_word(psn);
	__u64 bit = weft_psn_bit(psn);

	if (tx->own[w] & bit)
		tx->own[w] &= ~bit;
	if (tx->last[w] & bit)
		tx->last[w] &= ~bit;
}

/* Was it marked as free of order? 1 or 0. */
weft_inline __u32 weft_tx_is_free(const struct weft_tx *tx, __u32 psn)
{
	return tx->free[weft_psn_word(psn)] >> (psn & 63) & 1;
}

/* Which ring of a queue of mask + 1 work requests, counted from its first, holds number n? */
weft_inline __u32 weft_sq_ring(__u32 n, __u32 mask)
{
	return (n & mask) / WEFT_SQ_DEPTH;
}

/*
 * Private copies for work requests from `cons` on. Without a branch: a verifier would walk all
 * that follows once more.
 */
weft_inline __u32 weft_tx_copies(const struct weft_tx *tx)
{
	__u32 deep = tx->sq_mask / WEFT_SQ_DEPTH & 1;

	return WEFT_SQ_DEPTH - deep * WEFT_SQ_SPARE - (tx->cons - tx->done);
}

/* The segment in slot s, PSN psn, goes out now: the newest token of its domain. */
weft_inline void weft_tx_list(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn, __u32 now,
			      __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];
	__u32 at = weft_tx_at(psn), tail = d->tail & (WEFT_WIN - 1);

	s->ts = now;
	s->prev = tail;
	s->st = WEFT_SLOT_OUT | (s->st & WEFT_SLOT_RESCUED) | (dom & (WEFT_DOMAINS - 1)) << 4;
	if (s->tries != 255)
		s->tries++;
	if (d->out++) {
		tx->slot[tail].next = at;
	} else {
		d->head = at;
		/* what an idle domain saw last may be half a clock away */
		d->rack_ts = now;
	}
	d->tail = at;
	tx->inflight++;
}

/* The token of slot s, PSN psn, is no longer out. */
weft_inline void weft_tx_unlist(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn)
{
	struct weft_tx_dom *d = &tx->dom[weft_slot_dom(s) & (WEFT_DOMAINS - 1)];
	__u32 prev = s->prev & (WEFT_WIN - 1), next = s->next & (WEFT_WIN - 1);
	__u32 at = weft_tx_at(psn);

	if (d->head == at)
		d->head = next;
	else
		tx->slot[prev].next = next;
	if (d->tail == at)
		d->tail = prev;
	else
		tx->slot[next].prev = prev;
	weft_slot_set(s, WEFT_SLOT_IDLE);
	d->out--;
	tx->inflight--;
}

/* The domains that have tokens out, a bit each. Without a branch: a verifier would go 2^16 ways. */
weft_inline __u32 weft_tx_busy(const struct weft_tx *tx)
{
	__u32 busy = 0;

#pragma GCC unroll 16
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		__u32 out = *(const volatile __u32 *)&tx->dom[d].out;

		out |= -out;
		__asm__ volatile("" : "+r"(out));
		busy |= (out >> 31) << d;
	}
	return busy;
}

#endif
