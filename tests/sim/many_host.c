/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Several small WRITEs in one packet: both halves, as bpf/many.bpf.h. */
#include "many.h"

/* ---- requester ---- */

enum step join_or_fill(const struct work *w)
{
	return W.p.many && weft_seg_joins(&w->seg) ? TX_JOIN : TX_FILL;
}

/* A locked section of its own, any time after the claim. */
enum step join(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	struct conn *c = w->c;
	struct weft_tx *tx = &c->gtx.tx;

	weft_tx_join(tx, &c->sq[weft_sq_ring(w->seg.msn, c->depth - 1) * WEFT_SQ_DEPTH],
		     c->ring.sq_prod, below(4) ? ~0u : below(W.p.payload + 1), &w->seg);
	check_join(c, &w->seg);
	check_tx(c);
	return TX_FILL;
}

/* Descriptors and bytes. 0: it is a stray, and nothing to send. */
int many_fill(struct cpu *cpu)
{
	const struct weft_seg *s = &cpu->w.seg;
	const struct weft_tx *tx = &cpu->w.c->gtx.tx;
	struct frame *f = cpu->cur;
	struct weft_desc *d = (struct weft_desc *)f->payload;
	uint32_t n = s->more + 1, at = n * sizeof(*d);

	for (uint32_t i = 0; i < n; i++) {
		const struct weft_wqe *q = &tx->wqe[(s->msn + i) & (WEFT_SQ_DEPTH - 1)];

		/* the copy is another's by now, for this has been delivered */
		if (at + q->len > W.p.payload || q->loff + q->len > SIM_SRC) {
			W.lost_tokens++;
			return 0;
		}
		d[i].rkey = htobe32(q->rkey);
		d[i].len = htobe32(q->len);
		d[i].roff = htobe64(q->roff);
		memcpy(f->payload + at, sim_src + q->loff, q->len);
		at += q->len;
	}
	f->len = at;
	W.st.joined_again += s->flags & WEFT_F_RETX ? s->more : 0;
	return 1;
}

static void descs_of(const struct frame *f, uint32_t n, __u64 words[2 * WEFT_MANY])
{
	memset(words, 0, sizeof(struct weft_desc) * WEFT_MANY);
	memcpy(words, f->payload, n * sizeof(struct weft_desc));
}

void many_header(struct frame *f, const struct conn *c, const struct weft_seg *s)
{
	__u64 words[2 * WEFT_MANY];
	__u32 sum[2];

	descs_of(f, s->more + 1, words);
	weft_check_descs(words, c->keys, sum);
	f->h.op = WEFT_OP_WRITES;
	memset(&f->h.writes, 0, sizeof(f->h.writes));
	f->h.writes.n = htobe32(s->more + 1);
	f->h.writes.msn = htobe32(s->msn);
	f->h.writes.sum[0] = htobe32(sum[0]);
	f->h.writes.sum[1] = htobe32(sum[1]);
}

/* ---- responder ---- */

uint32_t many_count(const struct frame *f)
{
	return be32toh(f->h.writes.n);
}

int many_damaged(const struct frame *f, const struct conn *c)
{
	__u64 words[2 * WEFT_MANY];
	uint32_t n = many_count(f);
	__u32 sum[2];

	if (n < 2 || n > WEFT_MANY || n * sizeof(struct weft_desc) > f->len)
		return 1;
	descs_of(f, n, words);
	weft_check_descs(words, c->keys, sum);
	return sum[0] != be32toh(f->h.writes.sum[0]) || sum[1] != be32toh(f->h.writes.sum[1]);
}

/* One of them after the other: check, copy. The first that is refused ends it. */
enum step many_part(struct cpu *cpu)
{
	struct work *w = &cpu->w;
	const struct frame *f = cpu->cur;
	const struct weft_desc *d = (const struct weft_desc *)f->payload;
	struct msg_rec *m = msg_of(w->c, rec_of(w->c, w->psn)) + w->nth;
	uint32_t len = be32toh(d[w->nth].len), at = many_count(f) * sizeof(*d), code;
	uint8_t *to;

	for (uint32_t i = 0; i < w->nth; i++)
		at += be32toh(d[i].len);
	code = check_range(w->c, f->h.op, be32toh(d[w->nth].rkey), be64toh(d[w->nth].roff), 0, len,
			   &to);
	if (code) {
		W.st.in_part += w->nth != 0;
		return refuse(cpu, code, w->nth);
	}
	memcpy(to, f->payload + at, len);
	W.st.bytes += len;
	m->there = 1;
	if (++w->nth < many_count(f))
		return RX_PART;
	w->flags = 0;
	check_placed(w->c, w->psn);
	return RX_COMMIT;
}
