// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting WRITEs: into the shared ring, and the doorbell when no token is at work. */
#include "internal.h"

#define INPLACE_MAX  1024 /* bytes that travel in the doorbell's own frame */
#define DB_FRAME_MIN 60

/* Say which of the things that local_ok() wants is missing. */
static int local_err(const struct weft_qp *qp, const struct weft_write *w)
{
	const struct weft_mr *mr = w->mr;
	const char *obj = qp->dev->ifname;

	if (!mr || mr->dev != qp->dev)
		return weft_err_quiet(EINVAL, obj, "the WRITE's MR is not of this device");
	if (mr->pd->id != qp->pd_id)
		return weft_err_quiet(EINVAL, obj, "MR and QP are of different PDs");
	if (!(mr->access & WEFT_LOCAL))
		return weft_err_quiet(EINVAL, obj,
				      "the MR may not be a source; register it with "
				      "WEFT_LOCAL");
	return weft_err_quiet(EINVAL, obj, "%u bytes at %llu do not fit the MR of %zu bytes",
			      w->len, (unsigned long long)w->off, mr->len);
}

static bool local_ok(const struct weft_qp *qp, const struct weft_write *w)
{
	const struct weft_mr *mr = w->mr;

	return mr && mr->dev == qp->dev && mr->pd->id == qp->pd_id && (mr->access & WEFT_LOCAL) &&
	       w->off <= mr->len && w->len <= mr->len - w->off && w->len <= WEFT_MSG_MAX;
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

int weft_post_writes(struct weft_qp *qp, const struct weft_write *w, int n)
{
	uint32_t prod = qp->prod, room;
	int done = 0, err = 0;
	uint32_t posted;

	if (n < 1)
		return weft_err_quiet(EINVAL, qp->dev->ifname, "%d WRITEs to post; 1 or more", n);
	if (__atomic_load_n(&qp->status, __ATOMIC_RELAXED))
		return weft_err_quiet(ENOTCONN, qp->dev->ifname,
				      "the QP is in error: %s; connect "
				      "again",
				      weft_wc_str(qp->status));
	/* acquire: the poll that freed an entry has read it */
	room = WEFT_DEPTH - (prod - __atomic_load_n(&qp->polled, __ATOMIC_ACQUIRE));
	posted = stamp(qp->dev);
	for (; done < n; done++, w++) {
		struct weft_wqe *e = &qp->ring->sq[prod & (WEFT_SQ_DEPTH - 1)];

		if (!room) {
			err = done ? 0 : -EAGAIN;
			break;
		}
		if (!local_ok(qp, w)) {
			err = done ? 0 : local_err(qp, w);
			break;
		}
		e->loff = w->off;
		e->roff = w->roff;
		e->len = w->len;
		e->lkey = w->mr->key;
		e->rkey = w->rkey;
		e->posted = posted;
		qp->wr_id[prod & (WEFT_DEPTH - 1)] = w->wr_id;
		qp->wr_len[prod & (WEFT_DEPTH - 1)] = w->len;
		prod++;
		room--;
	}
	if (!done)
		return err;
	__atomic_store_n(&qp->prod, prod, __ATOMIC_RELEASE);
	/* a doorbell that cannot be sent is made up for by the timer */
	if (weft_ring_publish(qp->ring, prod))
		weft_doorbell(qp->dev, qp->num, WEFT_DB_POST, frame_len(qp, w[-done].len));
	weft_ctl_kick(qp->dev);
	return done;
}

int weft_post_write(struct weft_qp *qp, const struct weft_write *w)
{
	int r = weft_post_writes(qp, w, 1);

	return r < 0 ? r : 0;
}

_Static_assert(WEFT_DEPTH == WEFT_SQ_DEPTH, "the ring is as deep as the promise");
