/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How work requests are cut, and what is lent: checked. */
#include "sim.h"

/*
 * I12: the PSNs of a work request are one behind the other, and each is another segment of it, in any
 * order, but the last of them the last; in that of the bytes where these must appear so (I4).
 */
int cut_right(struct conn *c, const struct weft_seg *s, uint32_t idx)
{
	struct psn_rec *r = &c->psn[idx];
	struct msg_rec *m = &c->msg[s->msn - c->msn0];
	uint32_t at = s->moff - m->moff, nth = at / W.p.payload;
	uint32_t segs = m->len ? (m->len + W.p.payload - 1) / W.p.payload : 1;

	if (!m->cut) {
		m->begin = idx;
		if (idx && (!r[-1].end || r[-1].ssn + r[-1].more + 1 != r->ssn))
			return 0;
	} else if (r[-1].ssn != r->ssn || r[-1].end) {
		return 0;
	}
	if (s->moff < m->moff || at % W.p.payload || nth >= segs || m->begin + nth >= SIM_SEGS ||
	    s->loff - m->loff != at || s->roff - m->roff != at ||
	    s->len != (nth + 1 < segs ? W.p.payload : m->len - at))
		return 0;
	if (c->tiled[m->begin + nth]++ || (nth + 1 == segs) != (m->cut + 1 == segs) ||
	    (W.p.strict && !(s->flags & WEFT_F_FREE) && nth + 1 < segs && nth != m->cut))
		return 0;
	m->cut++;
	return 1;
}

/* I12: what was lent, as its token takes it: it means what it did, and goes out once. */
void check_lent(struct conn *c, const struct weft_seg *s)
{
	uint32_t idx = s->psn - c->psn0;
	const struct psn_rec *r = &c->psn[idx];

	if (idx >= c->cut || r->ssn != s->msn || r->moff != s->moff || r->len != s->len ||
	    r->loff != s->loff || r->roff != s->roff || s->flags || r->gone)
		fail("I12", "qp %u: PSN %u is not what was lent", c->id, idx);
}
