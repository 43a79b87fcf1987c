/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive queues: what application and XDP share of one, and which entry a message takes. */
#ifndef WEFT_CORE_RECV_H
#define WEFT_CORE_RECV_H

#include <weft/core/psn.h>

#define WEFT_RQ_SGES  4     /* pieces of a receive */
#define WEFT_RQ_DEPTH 32768 /* entries of a queue at most; a power of 2 */
/*
 * Messages of one QP that may have taken an entry of a shared queue and not been
 * polled: as many as a QP's send queue can have out.
 */
#define WEFT_RQ_BIND  256
#define WEFT_RQ_TRIES 32 /* entries that one look may take of it; what is further on comes again */

/*
 * A queue is an array of 128-byte elements, this first. A message has the number that
 * its sender counts, and in a QP's own queue that is the number of the entry, so
 * the order in which segments come does not matter. In a shared queue a message takes
 * the next receive when its first segment comes, and the QP's ring notes which; receives come
 * back out of order there, so `order` says which entry each number is.
 *
 * XDP trusts nothing in here. Whoever writes nonsense into his own queues gets his
 * own messages put into his own memory, somewhere else.
 */
struct weft_rq {
	__u32 prod; /* receives posted, modulo 2^32 */
	__u32 pad0[15];
	__u32 taken; /* a shared queue: those that messages have taken */
	__u32 pad1[15];
};

struct weft_rqe {
	/* by the application */
	struct weft_rq_sge {
		__u64 off; /* from the MR's start */
		__u32 len;
		__u32 lkey; /* 0: none */
	} sge[WEFT_RQ_SGES];
	/* by XDP, with the last segment */
	__u32 len;    /* bytes of the message */
	__u32 imm;    /* immediate data */
	__u32 flags;  /* WEFT_RQE_* */
	__u32 status; /* enum weft_nak: why the message was refused; 0: it was not */
	/* by the application, of a shared queue: which entry the receive of this number is */
	__u32 order;
	__u32 pad[11];
};
#define WEFT_RQE_WRITE 0x1 /* it was a WRITE: its bytes are elsewhere */
#define WEFT_RQE_IMM   0x2 /* `imm` is valid */
#define WEFT_RQE_SOL   0x4 /* solicited */

/* Bytes of memory of a queue of so many entries. */
weft_inline __u64 weft_rq_bytes(__u32 depth)
{
	return ((__u64)depth + 1) * sizeof(struct weft_rqe);
}

enum weft_rq_found {
	WEFT_RQ_OK,
	WEFT_RQ_NONE, /* not posted yet */
	WEFT_RQ_OLD,  /* complete, or too far ahead to be honest */
	WEFT_RQ_MORE, /* earlier messages, or another QP, came first: look again */
};

/*
 * The entry in a QP's own queue of the message with number rsn, when rdone are complete. 16 bits
 * of entry numbers are enough for any queue.
 */
weft_inline enum weft_rq_found weft_rq_own(const struct weft_rq *rq, __u32 rsn, __u32 rdone,
					   __u32 *at)
{
	__u32 ahead = rsn - rdone;

	*at = rsn;
	if (ahead >= WEFT_WIN)
		return WEFT_RQ_OLD;
	return weft_psn_diff(*(const volatile __u32 *)&rq->prod, rsn) > 0 ? WEFT_RQ_OK
									  : WEFT_RQ_NONE;
}

/* What ring->bind says of number rsn: the entry, or nothing yet. */
weft_inline enum weft_rq_found weft_rq_bound(const __u32 *bind, __u32 rsn, __u32 *at)
{
	__u32 b = *(const volatile __u32 *)&bind[rsn & (WEFT_RQ_BIND - 1)];

	*at = b & 0xffff;
	return b >> 16 == ((rsn + 1) & 0xffff) ? WEFT_RQ_OK : WEFT_RQ_NONE;
}

/* The number of the next receive that a message of a shared queue can take, if it is posted. */
weft_inline enum weft_rq_found weft_rq_next(const struct weft_rq *rq, __u32 *taken)
{
	*taken = *(const volatile __u32 *)&rq->taken;
	return weft_psn_diff(*(const volatile __u32 *)&rq->prod, *taken) > 0 ? WEFT_RQ_OK
									     : WEFT_RQ_NONE;
}

/*
 * Take it for the next number of the QP that has none, *bound; `entry` is what its element said in
 * `order`, read after weft_rq_next(). OK when that was rsn, MORE when rsn is further on. Numbers take
 * receives in their order, also for messages of which nothing is here yet: for a QP's messages
 * complete in order, and if the later ones had taken all there are, the first would wait for ever.
 * Under the receive lock of the QP, and against the others of the queue; polled: messages that the
 * application has taken from the ring.
 */
weft_inline enum weft_rq_found weft_rq_take(struct weft_rq *rq, __u32 *bind, __u32 *bound,
					    __u32 rsn, __u32 polled, __u32 taken, __u32 entry)
{
	__u32 n = *bound;

	if (weft_psn_diff(n, rsn) > 0)
		return WEFT_RQ_OK;
	/* the note of who came so many before would be lost */
	if (rsn - polled >= WEFT_RQ_BIND)
		return WEFT_RQ_NONE;
	if (__sync_val_compare_and_swap(&rq->taken, taken, taken + 1) != taken)
		return WEFT_RQ_MORE;
	*(volatile __u32 *)&bind[n & (WEFT_RQ_BIND - 1)] = ((n + 1) << 16) | (entry & 0xffff);
	*bound = n + 1;
	return n == rsn ? WEFT_RQ_OK : WEFT_RQ_MORE;
}

/* Bytes that a receive has room for. The pieces are read once, into e. */
weft_inline __u64 weft_rqe_room(const struct weft_rq_sge *sge)
{
	__u64 room = 0;

	for (int i = 0; i < WEFT_RQ_SGES; i++)
		room += sge[i].len;
	return room;
}

#endif
