// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs: what the application may ask of one, and its window. */
#include <string.h>

#include "internal.h"
#include "priv.h"

const void *weft_qp_private(const struct weft_qp *qp, size_t *len)
{
	if (len)
		*len = qp->priv_len;
	return qp->priv;
}

struct weft_cq *weft_qp_cq(const struct weft_qp *qp)
{
	return qp->cq;
}

uint32_t weft_qp_num(const struct weft_qp *qp)
{
	return qp->num;
}

uint32_t weft_qp_depth(const struct weft_qp *qp)
{
	return qp->sq_mask + 1;
}

uint32_t weft_qp_payload(const struct weft_qp *qp)
{
	return qp->dev->maps.ctl[qp->slot].payload;
}

void weft_qp_set_user(struct weft_qp *qp, void *user)
{
	qp->user = user;
}

void *weft_qp_user(const struct weft_qp *qp)
{
	return qp->user;
}

uint32_t weft_qp_arrived(const struct weft_qp *qp)
{
	return __atomic_load_n(&qp->ring->arrived, __ATOMIC_ACQUIRE);
}

int weft_qp_set_cwnd(struct weft_qp *qp, unsigned packets)
{
	int err;

	if (packets < 1 || packets > WEFT_CWND_MAX)
		return weft_err(EINVAL, weft_qp_name(qp), "cwnd is %u; 1 to %d packets", packets,
				WEFT_CWND_MAX);
	err = qp->dev->priv->qp_cwnd(qp->dev, qp->num, packets);
	return err ? weft_err(-err, weft_qp_name(qp), "its window cannot be set: %s",
			      strerror(-err))
		   : 0;
}

int weft_qp_stats(const struct weft_qp *qp, struct weft_qp_stats *st)
{
	struct weft_qp_stats s = { 0 };
	int err;

	if (!qp || !st)
		return weft_no_arg(qp, "qp_stats");
	if (st->size <= sizeof(st->size))
		return weft_err(EINVAL, weft_qp_name(qp),
				"counters of %zu bytes are not known; set their size", st->size);
	err = qp->dev->priv->qp_stats(qp->dev, qp->num, &s);
	if (err)
		return weft_err(-err, weft_qp_name(qp), "its counters cannot be read: %s",
				strerror(-err));
	s.size = st->size;
	memcpy(st, &s, st->size < sizeof(s) ? st->size : sizeof(s));
	return 0;
}
