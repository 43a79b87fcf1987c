// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Inline data: memory of a QP where small payloads wait for XDP, so that the caller's is free at once. */
#include "internal.h"

int weft_inline_alloc(struct weft_qp *qp)
{
	size_t len = ((size_t)qp->sq_mask + 1) * WEFT_INLINE_MAX;
	void *p;
	int err = weft_alloc(qp->dev, len, &p);

	if (err)
		return err;
	err = weft_mr_reg(qp->dev, qp->pd, p, len, WEFT_LOCAL, &qp->inl);
	if (err)
		weft_free(qp->dev, p);
	return err;
}

void weft_inline_free(struct weft_qp *qp)
{
	void *p;

	if (!qp->inl)
		return;
	p = weft_mr_addr(qp->inl);
	weft_mr_dereg(qp->inl);
	weft_free(qp->dev, p);
	qp->inl = NULL;
}
