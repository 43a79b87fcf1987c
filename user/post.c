// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting requests: into the shared ring, and the doorbell when no token is at work. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define INPLACE_MAX  1024 /* bytes that travel in the doorbell's own frame */
#define DB_FRAME_MIN 60

/* What to do about a full queue. */
static int full(const struct weft_qp *qp)
{
	if (__atomic_load_n(&qp->drained, __ATOMIC_RELAXED))
		return weft_err_often(
			EAGAIN, qp->dev->ifname, qp->num,
			"its send queue is full; weft_qp_resume() sends what is in it");
	return weft_err_often(EAGAIN, qp->dev->ifname, qp->num,
			      "its send queue is full; poll its completions first");
}

/* Say which of the things that weft_sge_ok() wants is missing. */
int weft_sge_err(struct weft_dev *dev, uint32_t qpn, uint32_t pd, const struct weft_sge *g,
		 unsigned right)
{
	const char *obj = weft_obj(dev->ifname, qpn);
	const struct weft_mr *mr = g->mr;

	if (!mr)
		return weft_err_quiet(EINVAL, obj, "mr is NULL; register the memory first");
	if (mr->dev != dev)
		return weft_err_quiet(EINVAL, obj, "the request's MR is not of this device");
	if (mr->pd->id != pd)
		return weft_err_quiet(EINVAL, obj, "MR and QP are of different PDs");
	if (!(mr->access & right))
		return weft_err_quiet(EINVAL, obj, "the MR may not be a %s; register it with %s",
				      right == WEFT_LOCAL ? "source" : "target",
				      right == WEFT_LOCAL ? "WEFT_LOCAL" : "WEFT_LOCAL_WRITE");
	return weft_err_quiet(EINVAL, obj, "%u bytes at %llu do not fit the MR of %zu bytes",
			      g->len, (unsigned long long)g->off, mr->len);
}

/* What is staged comes into the copy that XDP sends from. */
static int copy_in(const struct weft_qp *qp, const struct weft_sge *g, unsigned n)
{
	int err = 0;

	for (; n && !err; n--, g++)
		err = weft_stage_in(g->mr, g->off, g->len);
	return err ? weft_err_quiet(-err, weft_qp_name(qp),
				    "the MR's own function cannot copy in: %s", strerror(-err))
		   : 0;
}

/* The frame that XDP can turn into the packet; else the smallest. */
static unsigned frame_len(const struct weft_qp *qp, uint32_t len)
{
	const struct weft_qpctl *ctl = &qp->dev->maps.ctl[qp->slot];
	unsigned n;

	if (len > INPLACE_MAX || len > ctl->payload)
		return DB_FRAME_MIN;
	n = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN + len;
	return n < DB_FRAME_MIN ? DB_FRAME_MIN : n;
}

/* The time in wire ticks, for the histogram of WRITEs; 0: nobody wants it. */
static uint32_t stamp(const struct weft_dev *dev)
{
	uint32_t t;

	if (__atomic_load_n(&dev->maps.cfg->flags, __ATOMIC_RELAXED) & WEFT_DEV_NO_TELE)
		return 0;
	t = weft_now_ns() >> WEFT_TS_SHIFT;
	return t ? t : 1;
}

/* 0, or -errno: in a state to post; *room: free entries of the queue. */
static int begin(const struct weft_qp *qp, const void *first, int n, uint32_t *room)
{
	if (!qp || !first)
		return weft_no_arg(qp, "post");
	if (n < 1)
		return weft_err_quiet(EINVAL, weft_qp_name(qp), "%d requests to post; 1 or more",
				      n);
	if (__atomic_load_n(&qp->status, __ATOMIC_RELAXED))
		return weft_qp_dead(qp);
	/* acquire: the poll that freed an entry has read it */
	*room = qp->sq_mask + 1 - (qp->prod - __atomic_load_n(&qp->polled, __ATOMIC_ACQUIRE));
	return 0;
}

static void publish(struct weft_qp *qp, uint32_t first_len)
{
	__atomic_store_n(&qp->told, qp->prod, __ATOMIC_RELEASE);
	/* a doorbell that cannot be sent is made up for by the timer */
	if (weft_ring_publish(qp->ring, qp->prod))
		weft_doorbell(qp->dev, qp->num, WEFT_DB_POST, frame_len(qp, first_len));
	weft_ctl_kick(qp->dev);
}

static void end(struct weft_qp *qp, uint32_t prod, uint32_t first_len)
{
	__atomic_store_n(&qp->prod, prod, __ATOMIC_RELEASE);
	if (!__atomic_load_n(&qp->drained, __ATOMIC_RELAXED))
		publish(qp, first_len);
}

void weft_post_held(struct weft_qp *qp)
{
	if (qp->told != qp->prod)
		publish(qp, INPLACE_MAX + 1);
}

static struct weft_wqe *sqe(const struct weft_qp *qp, uint32_t at)
{
	return &qp->ring[weft_sq_ring(at, qp->sq_mask)].sq[at & (WEFT_SQ_DEPTH - 1)];
}

/* One entry of the queue. What a plain WRITE does not use is left as it was: XDP does not look. */
static void put(struct weft_qp *qp, uint32_t at, const struct weft_sge *g, uint32_t rkey,
		uint64_t roff, uint32_t posted)
{
	struct weft_wqe *e = sqe(qp, at);

	e->loff = g->off;
	e->roff = roff;
	e->len = e->mlen = g->len;
	e->lkey = g->mr->key;
	e->rkey = rkey;
	e->posted = posted;
	e->op = WEFT_WQE_WRITE;
	e->flags = 0;
	e->moff = 0;
}

static void note(struct weft_qp *qp, uint32_t at, uint64_t wr_id, uint32_t len, enum weft_wr_op op,
		 unsigned how)
{
	qp->wr[at & qp->sq_mask] =
		(struct weft_posted){ .wr_id = wr_id, .len = len, .op = op, .how = how };
}

int weft_post_writes(struct weft_qp *qp, const struct weft_write *w, int n)
{
	uint32_t prod, room, posted;
	int done = 0, err = begin(qp, w, n, &room);

	if (err)
		return err;
	prod = qp->prod;
	posted = stamp(qp->dev);
	for (; done < n; done++, w++, prod++, room--) {
		struct weft_sge g = { .mr = w->mr, .off = w->off, .len = w->len };

		if (!room) {
			err = done ? 0 : full(qp);
			break;
		}
		if (!weft_sge_ok(qp->dev, qp->pd_id, &g, WEFT_LOCAL)) {
			err = done ? 0 : weft_sge_err(qp->dev, qp->num, qp->pd_id, &g, WEFT_LOCAL);
			break;
		}
		err = copy_in(qp, &g, 1);
		if (err)
			break;
		put(qp, prod, &g, w->rkey, w->roff, posted);
		note(qp, prod, w->wr_id, w->len, WEFT_WR_WRITE, 0);
		qp->msn++;
	}
	if (!done)
		return err;
	end(qp, prod, w[-done].len);
	return done;
}

int weft_post_write(struct weft_qp *qp, const struct weft_write *w)
{
	int r = weft_post_writes(qp, w, 1);

	return r < 0 ? r : 0;
}

/* Is it one message, checked and counted as a whole, whatever pieces it has? */
static bool is_message(unsigned op)
{
	return op == WEFT_WR_WRITE || op == WEFT_WR_SEND;
}

static int check_flags(const struct weft_qp *qp, const struct weft_wr *wr)
{
	const char *obj = weft_qp_name(qp);

	if (wr->flags & ~(WEFT_WR_UNSIGNALED | WEFT_WR_IMM | WEFT_WR_SOLICITED | WEFT_WR_INLINE))
		return weft_err_quiet(EINVAL, obj, "unknown flags of a request: 0x%x", wr->flags);
	if (wr->flags & (WEFT_WR_IMM | WEFT_WR_INLINE) && !is_message(wr->op))
		return weft_err_quiet(EINVAL, obj,
				      "only a WRITE or a SEND has immediate or inline data");
	if (wr->flags & WEFT_WR_SOLICITED && wr->op != WEFT_WR_SEND && !(wr->flags & WEFT_WR_IMM))
		return weft_err_quiet(EINVAL, obj,
				      "solicited is a SEND, or a WRITE with immediate data");
	return 0;
}

/* Bytes of the request, or -EINVAL. */
static int64_t check(const struct weft_qp *qp, const struct weft_wr *wr)
{
	unsigned right = is_message(wr->op) ? WEFT_LOCAL : WEFT_LOCAL_WRITE;
	uint64_t len = 0;

	if ((unsigned)wr->op > WEFT_WR_SEND)
		return weft_err_quiet(EINVAL, weft_qp_name(qp), "no such operation: %u",
				      (unsigned)wr->op);
	if (wr->flags && check_flags(qp, wr))
		return -EINVAL;
	if (wr->flags & WEFT_WR_INLINE) {
		if (wr->len && !wr->data)
			return weft_err_quiet(EINVAL, weft_qp_name(qp),
					      "data is NULL, and len %u; pass the inline bytes",
					      wr->len);
		if (wr->len > WEFT_INLINE_MAX)
			return weft_err_quiet(EINVAL, weft_qp_name(qp),
					      "%u inline bytes; at most %u", wr->len,
					      WEFT_INLINE_MAX);
		return wr->len;
	}
	if (!wr->sge && wr->nsge)
		return weft_err_quiet(EINVAL, weft_qp_name(qp),
				      "sge is NULL, and nsge %u; pass the pieces", wr->nsge);
	if (wr->nsge < 1 || wr->nsge > WEFT_SGE_MAX)
		return weft_err_quiet(EINVAL, weft_qp_name(qp), "a request of %u pieces; 1 to %u",
				      wr->nsge, WEFT_SGE_MAX);
	for (unsigned i = 0; i < wr->nsge; i++) {
		if (!weft_sge_ok(qp->dev, qp->pd_id, &wr->sge[i], right))
			return weft_sge_err(qp->dev, qp->num, qp->pd_id, &wr->sge[i], right);
		len += wr->sge[i].len;
	}
	if (len > WEFT_MSG_MAX)
		return weft_err_quiet(EINVAL, weft_qp_name(qp),
				      "a request of %llu bytes; at most 1 GiB",
				      (unsigned long long)len);
	if (weft_wqe_atomic(wr->op) && (wr->nsge != 1 || len != 8))
		return weft_err_quiet(EINVAL, weft_qp_name(qp),
				      "an atomic has one piece of 8 bytes");
	return len;
}

/*
 * Inline data waits in memory of the QP, in the place of its queue entry: free again when that is.
 * 0: g is that piece.
 */
static int put_inline(struct weft_qp *qp, const struct weft_wr *wr, uint32_t prod,
		      struct weft_sge *g)
{
	uint32_t at = (prod & qp->sq_mask) * WEFT_INLINE_MAX;
	int err = 0;

	if (!qp->inl)
		err = weft_inline_alloc(qp);
	if (err)
		return err;
	if (wr->len)
		memcpy((uint8_t *)weft_mr_addr(qp->inl) + at, wr->data, wr->len);
	*g = (struct weft_sge){ .mr = qp->inl, .off = at, .len = wr->len };
	return 0;
}

/* Does the peer count a message with this entry? A request that is one has it with its last piece. */
static bool ends_message(const struct weft_qp *qp, uint32_t at)
{
	const struct weft_posted *wr = &qp->wr[at & qp->sq_mask];

	return !(wr->how & WEFT_HOW_PART) || !is_message(wr->op);
}

/* What READs and atomics bring into staged memory is copied out when they are polled. */
static int prepare_out(struct weft_qp *qp, const struct weft_sge *g, unsigned n)
{
	for (; n && !qp->staged; n--, g++) {
		if (g->mr->mode != WEFT_MR_STAGE)
			continue;
		qp->staged = calloc(qp->sq_mask + 1, sizeof(*qp->staged));
		if (!qp->staged)
			return weft_err_quiet(ENOMEM, weft_qp_name(qp), "out of memory");
	}
	return 0;
}

/* One request of len bytes, whose pieces are g, from entry prod on; how many entries it took. */
static uint32_t put_pieces(struct weft_qp *qp, const struct weft_wr *wr, const struct weft_sge *g,
			   unsigned nsge, uint32_t len, uint32_t posted)
{
	unsigned how = wr->flags & WEFT_WR_UNSIGNALED ? WEFT_HOW_QUIET : 0;
	uint32_t moff = 0, n = 0;
	unsigned stage;

	for (unsigned i = 0; i < nsge; i++) {
		uint32_t at = qp->fill + n;
		struct weft_wqe *e = sqe(qp, at);
		bool part = moff + g[i].len < len;

		/* an empty piece is nothing, unless there is nothing else */
		if (!g[i].len && (len || i))
			continue;
		put(qp, at, &g[i], wr->rkey, wr->roff + moff, posted);
		stage = g[i].mr->mode == WEFT_MR_STAGE && !is_message(wr->op) ? WEFT_HOW_STAGE : 0;
		if (stage)
			qp->staged[at & qp->sq_mask] = g[i];
		note(qp, at, wr->wr_id, len, wr->op, how | stage | (part ? WEFT_HOW_PART : 0));
		e->op = (unsigned)wr->op;
		e->operand = wr->operand;
		e->compare = wr->compare;
		if (is_message(wr->op)) {
			e->moff = moff;
			e->mlen = len;
			if (wr->flags & WEFT_WR_IMM) {
				e->flags |= WEFT_WQE_IMM;
				e->operand = wr->imm;
			}
			if (wr->flags & WEFT_WR_SOLICITED)
				e->flags |= WEFT_WQE_SOL;
		}
		moff += g[i].len;
		qp->msn += ends_message(qp, at);
		n++;
	}
	return n;
}

int weft_post(struct weft_qp *qp, const struct weft_wr *wr, int n)
{
	uint32_t first = 0, room, posted, took;
	int done = 0, err = begin(qp, wr, n, &room);

	if (err)
		return err;
	posted = stamp(qp->dev);
	qp->fill = qp->prod;
	for (; done < n; done++, wr++) {
		bool in_line = wr->flags & WEFT_WR_INLINE;
		unsigned nsge = in_line ? 1 : wr->nsge;
		const struct weft_sge *g = wr->sge;
		int64_t len = check(qp, wr);
		struct weft_sge one;

		if (len < 0 || room < nsge) {
			err = len < 0 ? len : full(qp);
			break;
		}
		if (in_line) {
			err = put_inline(qp, wr, qp->fill, &one);
			g = &one;
		} else {
			err = is_message(wr->op) ? copy_in(qp, g, nsge) : prepare_out(qp, g, nsge);
		}
		if (err)
			break;
		if (!done)
			first = g->len;
		took = put_pieces(qp, wr, g, nsge, len, posted);
		qp->fill += took;
		room -= took;
	}
	if (!done)
		return err;
	end(qp, qp->fill, first);
	return done;
}

/* ---- at the end of a QP ---- */

uint32_t weft_post_end(const struct weft_qp *qp, uint32_t at, uint32_t prod)
{
	while (at != prod && qp->wr[at & qp->sq_mask].how & WEFT_HOW_PART)
		at++;
	return at;
}

/*
 * The BYE counts the messages that the peer had; it stands in for ACKs that were lost. What a
 * READ or an atomic was to bring did not come with it.
 */
uint32_t weft_post_acked(const struct weft_qp *qp, uint32_t done)
{
	/* of what has never gone out the peer knows nothing */
	uint32_t told = __atomic_load_n(&qp->told, __ATOMIC_ACQUIRE);
	uint32_t msn = qp->msn; /* of messages posted before entry `done` */

	for (uint32_t at = done; at != qp->prod; at++)
		msn -= ends_message(qp, at);
	for (; qp->bye_ok && done != told; done++) {
		if (!is_message(qp->wr[done & qp->sq_mask].op) ||
		    (int32_t)(qp->bye_arrived - msn) <= 0)
			break;
		msn += ends_message(qp, done);
	}
	return done;
}

#define X(name, val, wire, own) \
	_Static_assert((int)WEFT_WR_##name##_ == (int)WEFT_WQE_##name, "the same numbers");
enum {
	WEFT_WR_WRITE_ = WEFT_WR_WRITE,
	WEFT_WR_READ_ = WEFT_WR_READ,
	WEFT_WR_FADD_ = WEFT_WR_FETCH_ADD,
	WEFT_WR_CSWAP_ = WEFT_WR_CMP_SWAP,
	WEFT_WR_SEND_ = WEFT_WR_SEND
};
WEFT_WQE_OPS(X)
#undef X
_Static_assert(WEFT_DEPTH == WEFT_SQ_DEPTH, "the ring is as deep as the promise");
_Static_assert(WEFT_DEPTH_MAX == WEFT_SQ_MAX, "and so are several");
_Static_assert(WEFT_ATOMICS_MAX == WEFT_ATOMICS, "atomics under way");
