// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting WRITEs: into the shared ring, and the doorbell when no token is at work. */
#include <string.h>

#include "internal.h"

#define INPLACE_MAX  1024 /* bytes that travel in the doorbell's own frame */
#define DB_FRAME_MIN 60
#define FULL         "QP: its send queue is full; poll its completions first"

/* Say which of the things that local_ok() wants is missing. */
static int local_err(const struct weft_qp *qp, const struct weft_sge *g, unsigned right)
{
	const struct weft_mr *mr = g->mr;
	const char *obj = qp->dev->ifname;

	if (!mr || mr->dev != qp->dev)
		return weft_err_quiet(EINVAL, obj, "the request's MR is not of this device");
	if (mr->pd->id != qp->pd_id)
		return weft_err_quiet(EINVAL, obj, "MR and QP are of different PDs");
	if (!(mr->access & right))
		return weft_err_quiet(EINVAL, obj, "the MR may not be a %s; register it with %s",
				      right == WEFT_LOCAL ? "source" : "target",
				      right == WEFT_LOCAL ? "WEFT_LOCAL" : "WEFT_LOCAL_WRITE");
	return weft_err_quiet(EINVAL, obj, "%u bytes at %llu do not fit the MR of %zu bytes",
			      g->len, (unsigned long long)g->off, mr->len);
}

static bool local_ok(const struct weft_qp *qp, const struct weft_sge *g, unsigned right)
{
	const struct weft_mr *mr = g->mr;

	return mr && mr->dev == qp->dev && mr->pd->id == qp->pd_id && (mr->access & right) &&
	       g->off <= mr->len && g->len <= mr->len - g->off && g->len <= WEFT_MSG_MAX;
}

/* What is staged comes into the copy that XDP sends from. */
static int copy_in(const struct weft_qp *qp, const struct weft_sge *g, unsigned n)
{
	int err = 0;

	for (; n && !err; n--, g++)
		err = weft_stage_in(g->mr, g->off, g->len);
	return err ? weft_err_quiet(-err, qp->dev->ifname,
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
static int begin(const struct weft_qp *qp, int n, uint32_t *room)
{
	if (n < 1)
		return weft_err_quiet(EINVAL, qp->dev->ifname, "%d requests to post; 1 or more", n);
	if (__atomic_load_n(&qp->status, __ATOMIC_RELAXED))
		return weft_err_quiet(ENOTCONN, qp->dev->ifname,
				      "the QP is in error: %s; connect "
				      "again",
				      weft_wc_str(qp->status));
	/* acquire: the poll that freed an entry has read it */
	*room = WEFT_DEPTH - (qp->prod - __atomic_load_n(&qp->polled, __ATOMIC_ACQUIRE));
	return 0;
}

static void end(struct weft_qp *qp, uint32_t prod, uint32_t first_len)
{
	__atomic_store_n(&qp->prod, prod, __ATOMIC_RELEASE);
	/* a doorbell that cannot be sent is made up for by the timer */
	if (weft_ring_publish(qp->ring, prod))
		weft_doorbell(qp->dev, qp->num, WEFT_DB_POST, frame_len(qp, first_len));
	weft_ctl_kick(qp->dev);
}

/* One entry of the queue. What a plain WRITE does not use is left as it was: XDP does not look. */
static void put(struct weft_qp *qp, uint32_t at, const struct weft_sge *g, uint32_t rkey,
		uint64_t roff, uint32_t posted)
{
	struct weft_wqe *e = &qp->ring->sq[at & (WEFT_SQ_DEPTH - 1)];

	e->loff = g->off;
	e->roff = roff;
	e->len = e->mlen = g->len;
	e->lkey = g->mr->key;
	e->rkey = rkey;
	e->posted = posted;
	e->op = WEFT_WQE_WRITE;
	e->moff = 0;
}

static void note(struct weft_qp *qp, uint32_t at, uint64_t wr_id, uint32_t len, enum weft_wr_op op,
		 unsigned how)
{
	uint32_t i = at & (WEFT_DEPTH - 1);

	qp->wr_id[i] = wr_id;
	qp->wr_len[i] = len;
	qp->wr_op[i] = op;
	qp->wr_how[i] = how;
	qp->wr_msn[i] = qp->msn;
}

int weft_post_writes(struct weft_qp *qp, const struct weft_write *w, int n)
{
	uint32_t prod = qp->prod, room, posted;
	int done = 0, err = begin(qp, n, &room);

	if (err)
		return err;
	posted = stamp(qp->dev);
	for (; done < n; done++, w++, prod++, room--) {
		struct weft_sge g = { .mr = w->mr, .off = w->off, .len = w->len };

		if (!room) {
			err = done ? 0 : weft_err_const(EAGAIN, FULL);
			break;
		}
		if (!local_ok(qp, &g, WEFT_LOCAL)) {
			err = done ? 0 : local_err(qp, &g, WEFT_LOCAL);
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

/* Bytes of the request, or -EINVAL. */
static int64_t check(const struct weft_qp *qp, const struct weft_wr *wr)
{
	unsigned right = wr->op == WEFT_WR_WRITE ? WEFT_LOCAL : WEFT_LOCAL_WRITE;
	const char *obj = qp->dev->ifname;
	uint64_t len = 0;

	if ((unsigned)wr->op > WEFT_WR_SEND)
		return weft_err_quiet(EINVAL, obj, "no such operation: %u", (unsigned)wr->op);
	if (wr->flags & ~WEFT_WR_UNSIGNALED)
		return weft_err_quiet(EINVAL, obj, "unknown flags of a request: 0x%x", wr->flags);
	if (!wr->sge || wr->nsge < 1 || wr->nsge > WEFT_SGE_MAX)
		return weft_err_quiet(EINVAL, obj, "a request of %u pieces; 1 to %u", wr->nsge,
				      WEFT_SGE_MAX);
	for (unsigned i = 0; i < wr->nsge; i++) {
		if (!local_ok(qp, &wr->sge[i], right))
			return local_err(qp, &wr->sge[i], right);
		len += wr->sge[i].len;
	}
	if (len > WEFT_MSG_MAX)
		return weft_err_quiet(EINVAL, obj, "a request of %llu bytes; at most 1 GiB",
				      (unsigned long long)len);
	if (wr->op >= WEFT_WR_FETCH_ADD && (wr->nsge != 1 || len != 8))
		return weft_err_quiet(EINVAL, obj, "an atomic has one piece of 8 bytes");
	return len;
}

int weft_post(struct weft_qp *qp, const struct weft_wr *wr, int n)
{
	uint32_t prod = qp->prod, first = wr && n > 0 && wr->sge ? wr->sge->len : 0, room, posted;
	int done = 0, err = begin(qp, n, &room);

	if (err)
		return err;
	posted = stamp(qp->dev);
	for (; done < n; done++, wr++) {
		int64_t len = check(qp, wr);
		unsigned how = wr->flags & WEFT_WR_UNSIGNALED ? WEFT_HOW_QUIET : 0;
		uint32_t moff = 0;

		if (len < 0 || room < wr->nsge) {
			err = len < 0 ? len : weft_err_const(EAGAIN, FULL);
			break;
		}
		err = wr->op == WEFT_WR_WRITE ? copy_in(qp, wr->sge, wr->nsge) : 0;
		if (err)
			break;
		for (unsigned i = 0; i < wr->nsge; i++) {
			struct weft_wqe *e = &qp->ring->sq[prod & (WEFT_SQ_DEPTH - 1)];
			bool part = moff + wr->sge[i].len < len;

			/* an empty piece is nothing, unless there is nothing else */
			if (!wr->sge[i].len && (len || i))
				continue;
			put(qp, prod, &wr->sge[i], wr->rkey, wr->roff + moff, posted);
			note(qp, prod, wr->wr_id, len, wr->op, how | (part ? WEFT_HOW_PART : 0));
			e->op = (unsigned)wr->op;
			if (wr->op == WEFT_WR_WRITE) {
				/* one message, checked and counted as a whole */
				e->moff = moff;
				e->mlen = len;
			}
			e->operand = wr->operand;
			e->compare = wr->compare;
			moff += wr->sge[i].len;
			if (!part || wr->op != WEFT_WR_WRITE)
				qp->msn++;
			prod++;
			room--;
		}
	}
	if (!done)
		return err;
	end(qp, prod, first);
	return done;
}

/* ---- at the end of a QP ---- */

uint32_t weft_post_end(const struct weft_qp *qp, uint32_t at, uint32_t prod)
{
	while (at != prod && qp->wr_how[at & (WEFT_DEPTH - 1)] & WEFT_HOW_PART)
		at++;
	return at;
}

/*
 * The BYE counts the messages that the peer had; it stands in for ACKs that were lost. What a
 * READ or an atomic was to bring did not come with it.
 */
uint32_t weft_post_acked(const struct weft_qp *qp, uint32_t done, uint32_t prod)
{
	for (; qp->bye_ok && done != prod; done++) {
		uint32_t i = done & (WEFT_DEPTH - 1);

		if (qp->wr_op[i] != WEFT_WR_WRITE ||
		    (int32_t)(qp->bye_arrived - qp->wr_msn[i]) <= 0)
			break;
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
_Static_assert(WEFT_ATOMICS_MAX == WEFT_ATOMICS, "atomics under way");
