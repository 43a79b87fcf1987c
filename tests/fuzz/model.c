// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The second responder; see model.h. It is slow and plain on purpose. */
#include "model.h"

struct model model;

void model_reset(void)
{
	memset(&model, 0, sizeof(model));
	model.alive = model.pool = true;
	for (int i = 0; i < FX_QPS; i++)
		model.rx[i].next = FX_PSN;
}

static uint64_t be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static uint32_t sum16(const uint8_t *p, uint32_t n, uint32_t sum)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void dropped(struct judged *j, int why)
{
	j->verdict = XDP_DROP;
	j->drop = why;
}

static void nak(struct judged *j, int why, uint32_t code, uint32_t psn)
{
	j->verdict = XDP_TX;
	j->drop = why;
	j->reply = WEFT_OP_NAK;
	j->code = code;
	j->nak_psn = psn;
	j->nak_nth = model.rx[j->qp].err == code ? model.rx[j->qp].err_nth : 0;
}

/* First refusal of this QP. */
static void refused(struct judged *j, int why, uint32_t code, uint32_t psn)
{
	model.rx[j->qp].err = code;
	model.rx[j->qp].err_psn = psn;
	nak(j, why, code, psn);
}

static int qp_in_slot(uint32_t slot)
{
	for (int i = 0; i < FX_QPS; i++)
		if (fx.qp[i].slot == slot)
			return i;
	return -1;
}

/* May the whole message have this? 0, or the code and the drop. */
static uint32_t judge_target(uint32_t key, uint32_t pd, uint32_t right, uint64_t roff,
			     uint32_t moff, uint32_t mlen, int *why)
{
	const struct weft_mr_ent *mr = &fx.mr[key & 0xfff];
	uint64_t begin = roff - moff;

	*why = WEFT_DROP_key;
	if (!key || mr->key != key)
		return WEFT_NAK_KEY;
	*why = WEFT_DROP_pd;
	if (mr->pd != pd)
		return WEFT_NAK_PD;
	*why = WEFT_DROP_rights;
	if (!(mr->rights & right))
		return WEFT_NAK_RIGHTS;
	*why = WEFT_DROP_bounds;
	if (roff < moff || begin > mr->len || mlen > mr->len - begin)
		return WEFT_NAK_BOUNDS;
	return 0;
}

static void replied(struct judged *j, uint8_t op, bool fresh)
{
	j->verdict = XDP_TX;
	j->reply = op;
	j->fresh = fresh;
	j->flags |= fresh ? 0 : WEFT_F_DUP;
}

static void answered(struct judged *j, uint8_t op)
{
	j->verdict = XDP_TX;
	j->reply = op;
}

static bool out_of_order(const uint8_t *w, const struct judged *j, int32_t ahead)
{
	bool apart = w[1] == WEFT_OP_DATA && w[2] & WEFT_F_FREE && !(w[2] & WEFT_F_LAST);

	return fx.qp[j->qp].ctl->flags & WEFT_QPF_STRICT && ahead > 0 && !apart;
}

static void judge_atomic(const uint8_t *w, struct judged *j, uint64_t off)
{
	uint64_t operand = be(w + 48, 8);

	backend_peek(FX_POOL_T, off, &j->was, 8);
	if (w[1] == WEFT_OP_FADD)
		j->now = j->was + operand;
	else
		j->now = j->was == be(w + 56, 8) ? operand : j->was;
	j->write = true;
}

static void judge_ask(const uint8_t *w, struct judged *j)
{
	struct model_rx *rx = &model.rx[j->qp];
	const struct weft_qpctl *ctl = fx.qp[j->qp].ctl;
	bool read = w[1] == WEFT_OP_READ, last = w[2] & WEFT_F_LAST, dup;
	uint32_t psn = be(w + 16, 4), key = be(w + 32, 4), code;
	uint32_t moff = read ? be(w + 48, 4) : 0, mlen = read ? be(w + 52, 4) : 8;
	uint32_t len = read ? be(w + 56, 4) : 8, at = be(w + 36, 4) % WEFT_ATOMICS;
	const struct weft_mr_ent *mr = &fx.mr[key & 0xfff];
	int32_t ahead = psn - rx->next;
	int why;

	j->len = len;
	j->roff = be(w + 40, 8);
	j->at_asn = at;
	if (ctl->state != WEFT_QP_RTS)
		return nak(j, WEFT_DROP_closed, WEFT_NAK_CLOSED, psn);
	if (len > WEFT_PAYLOAD_MAX || mlen > 1u << 30 || (uint64_t)moff + len > mlen ||
	    last != ((uint64_t)moff + len == mlen) || (!len && mlen))
		return dropped(j, WEFT_DROP_length);
	if (rx->err)
		return nak(j, WEFT_DROP_closed, rx->err, rx->err_psn);
	if (out_of_order(w, j, ahead))
		return answered(j, WEFT_OP_SEQ);
	if (ahead >= WEFT_WIN)
		return dropped(j, WEFT_DROP_window);
	dup = ahead < 0 || rx->placed[psn % WEFT_WIN];
	if (dup && !read) {
		if (!rx->result[at].set || rx->result[at].psn != psn)
			return dropped(j, WEFT_DROP_window);
		j->was = rx->result[at].value;
		return replied(j, WEFT_OP_REPLY, false);
	}
	code = judge_target(key, ctl->pd,
			    read ? WEFT_ACCESS_REMOTE_READ : WEFT_ACCESS_REMOTE_ATOMIC, j->roff,
			    moff, mlen, &why);
	if (!code && !read && (mr->off + j->roff) % 8)
		code = WEFT_NAK_ALIGN;
	if (!code && len && !model.pool) {
		why = WEFT_DROP_memory;
		code = WEFT_NAK_MEMORY;
	}
	if (code)
		return dup ? nak(j, why, code, psn) : refused(j, why, code, psn);
	if (read)
		backend_peek(mr->pool, mr->off + j->roff, j->bytes, len);
	else
		judge_atomic(w, j, mr->off + j->roff);
	replied(j, WEFT_OP_REPLY, !dup);
}

/* ---- receives ---- */

static bool has_queue(const struct judged *j)
{
	uint32_t rq = fx.qp[j->qp].ctl->rq - 1;

	for (int i = 0; i < FX_RQS; i++)
		if (rq == (uint32_t)FX_RQ_IDX(i))
			return true;
	return false;
}

static uint32_t epoch_of(const struct judged *j)
{
	const struct fx_qp *q = &fx.qp[j->qp];

	if (!has_queue(j))
		return 0;
	return j->rq.head.prod + (q->ctl->flags & WEFT_QPF_SRQ ? q->ring->rq_polled : 0);
}

static bool bound_to(const struct judged *j, uint32_t rsn, uint32_t *at)
{
	uint32_t note = j->bind[rsn % WEFT_RQ_BIND];

	*at = note % 65536;
	return note / 65536 == (rsn + 1) % 65536;
}

/* Messages of this QP up to rsn take receives, `most` of them at a time. */
static bool take_shared(struct judged *j, uint32_t rsn, int most, uint32_t *at)
{
	struct model_rx *rx = &model.rx[j->qp];
	uint32_t polled = fx.qp[j->qp].ring->rq_polled, entry;

	if (bound_to(j, rsn, at))
		return true;
	while (most-- > 0) {
		if ((int32_t)(j->rq.head.prod - j->rq.head.taken) <= 0)
			return false;
		if ((int32_t)(rx->bound - rsn) > 0) /* it had one, and the note of it is gone */
			return false;
		if (rsn - polled >= WEFT_RQ_BIND)
			return false;
		entry = j->rq.e[j->rq.head.taken++ % FX_RQ_DEPTH].order;
		j->bind[rx->bound % WEFT_RQ_BIND] = (rx->bound + 1) % 65536 * 65536 + entry % 65536;
		rx->bound++;
		if (rx->bound == rsn + 1)
			return bound_to(j, rsn, at);
	}
	return false;
}

/* The entry of message rsn; in a shared queue it may take one now. */
static enum weft_rq_found find_receive(struct judged *j, uint32_t rsn, struct weft_rqe **e)
{
	bool shared = fx.qp[j->qp].ctl->flags & WEFT_QPF_SRQ, found = false;
	uint32_t at = rsn;

	if (has_queue(j) && rsn - model.rx[j->qp].received >= WEFT_WIN)
		return WEFT_RQ_OLD;
	/* the second look is for receives posted meanwhile; it also gets further in a shared queue */
	for (int look = 0; look < 2 && !found; look++) {
		j->refused |= look;
		if (!has_queue(j))
			continue;
		found = shared ? take_shared(j, rsn, 32, &at)
			       : (int32_t)(j->rq.head.prod - rsn) > 0;
	}
	if (!found)
		return WEFT_RQ_NONE;
	*e = &j->rq.e[at % FX_RQ_DEPTH];
	return WEFT_RQ_OK;
}

/* May the receive have len bytes at off of its memory? Then they go to a place of the target MR. */
static uint32_t judge_piece(struct judged *j, const struct weft_rq_sge *s, uint32_t off,
			    uint32_t len)
{
	const struct weft_mr_ent *mr = &fx.mr[s->lkey & 0xfff];
	uint64_t begin = s->off + off;

	if (!s->lkey || mr->key != s->lkey || mr->pd != fx.qp[j->qp].ctl->pd ||
	    !(mr->rights & WEFT_ACCESS_LOCAL_WRITE) || begin < s->off || begin > mr->len ||
	    len > mr->len - begin)
		return WEFT_NAK_RECEIVE;
	if (!model.pool)
		return WEFT_NAK_MEMORY;
	if (s->lkey != FX_T_KEY)
		fuzz_fail("no harness lets another MR be written");
	j->span[j->nspan++] = (struct span){ begin, len };
	return 0;
}

/* A segment of a SEND: all that it touches, up to the first piece that may not be. */
static uint32_t judge_pieces(const uint8_t *w, struct judged *j, uint32_t plen,
			     const struct weft_rqe *e)
{
	uint64_t from = be(w + 48, 4), to = from + plen, begin = 0, end;
	uint32_t code = 0;

	for (int i = 0; i < WEFT_RQ_SGES; i++, begin = end)
		end = begin + e->sge[i].len;
	if (be(w + 52, 4) > begin)
		return WEFT_NAK_LENGTH;
	begin = 0;
	for (int i = 0; i < WEFT_RQ_SGES && !code; i++, begin = end) {
		uint64_t lo = from > begin ? from : begin, hi;

		end = begin + e->sge[i].len;
		hi = to < end ? to : end;
		if (lo < hi)
			code = judge_piece(j, &e->sge[i], lo - begin, hi - lo);
	}
	return code;
}

/* A segment of a WRITE or SEND. */
static void judge_data(const uint8_t *w, struct judged *j, uint32_t plen)
{
	struct model_rx *rx = &model.rx[j->qp];
	const struct weft_qpctl *ctl = fx.qp[j->qp].ctl;
	uint32_t psn = be(w + 16, 4), key = be(w + 32, 4), moff = be(w + 48, 4),
		 mlen = be(w + 52, 4);
	uint64_t roff = be(w + 40, 8);
	bool last = w[2] & WEFT_F_LAST;
	int32_t ahead = psn - rx->next;
	struct weft_rqe *e = NULL;
	uint32_t code;
	int why;

	if (ctl->state != WEFT_QP_RTS)
		return nak(j, WEFT_DROP_closed, WEFT_NAK_CLOSED, psn);
	if (plen > WEFT_PAYLOAD_MAX || mlen > 1u << 30 || (uint64_t)moff + plen > mlen ||
	    last != ((uint64_t)moff + plen == mlen) || (!plen && mlen))
		return dropped(j, WEFT_DROP_length);
	if (rx->err)
		return nak(j, WEFT_DROP_closed, rx->err, rx->err_psn);
	if (out_of_order(w, j, ahead))
		return answered(j, WEFT_OP_SEQ);
	if (ahead >= WEFT_WIN)
		return dropped(j, WEFT_DROP_window);
	if (is_recv(w[1], w[2])) {
		j->flags |= WEFT_F_RQ;
		j->epoch = epoch_of(j);
	}
	if (ahead < 0 || rx->placed[psn % WEFT_WIN])
		return replied(j, WEFT_OP_ACK, false);
	if (is_recv(w[1], w[2]) && (w[1] == WEFT_OP_SEND || last)) {
		switch (find_receive(j, be(w + 60, 4), &e)) {
		case WEFT_RQ_OK: break;
		case WEFT_RQ_NONE: return answered(j, WEFT_OP_RNR);
		default: return dropped(j, WEFT_DROP_window);
		}
	}
	if (w[1] == WEFT_OP_SEND) {
		code = judge_pieces(w, j, plen, e);
		why = code == WEFT_NAK_LENGTH    ? WEFT_DROP_bounds
		      : code == WEFT_NAK_RECEIVE ? WEFT_DROP_rights
						 : WEFT_DROP_memory;
	} else {
		code = judge_target(key, ctl->pd, WEFT_ACCESS_REMOTE_WRITE, roff, moff, mlen, &why);
		if (!code && plen && !model.pool) {
			why = WEFT_DROP_memory;
			code = WEFT_NAK_MEMORY;
		}
		if (!code)
			j->span[j->nspan++] = (struct span){ roff, plen };
	}
	if (code) {
		if (e)
			e->status = code;
		return refused(j, why, code, psn);
	}
	replied(j, WEFT_OP_ACK, true);
	j->len = plen;
	if (!e || !last)
		return;
	e->len = mlen;
	e->imm = w[2] & WEFT_F_IMM ? be(w + 56, 4) : 0;
	e->flags = (w[1] == WEFT_OP_SEND ? 0 : WEFT_RQE_WRITE) |
		   (w[2] & WEFT_F_IMM ? WEFT_RQE_IMM : 0) | (w[2] & WEFT_F_SOL ? WEFT_RQE_SOL : 0);
	e->status = 0;
}

#include "model_writes.h"

/* The header is there, and behind it plen bytes. */
static void judge_header(const struct frame *f, struct judged *j, uint32_t at, uint32_t plen)
{
	const uint8_t *w = f->b + at, *udp = w - 8;
	uint32_t alen = j->at == WEFT_V6_LEN + 64 ? 32 : 8, ulen = 72 + plen;
	const uint8_t *addr = udp - alen;
	bool v6 = alen == 32;
	uint32_t qpn = be(w + 4, 4);
	const struct weft_qpctl *ctl;
	union {
		uint8_t b[64];
		__u64 w[8];
	} words;
	int i = qp_in_slot(qpn & 0xffff);

	if (w[0] != WEFT_WIRE_VER)
		return dropped(j, WEFT_DROP_version);
	if (i < 0 || fx.qp[i].ctl->state < WEFT_QP_RTS)
		return dropped(j, WEFT_DROP_qpn);
	ctl = fx.qp[i].ctl;
	if (ctl->qpn != qpn)
		return dropped(j, WEFT_DROP_generation);
	if (v6 != fx.qp[i].v6 || memcmp(addr, ctl->daddr, alen / 2) ||
	    memcmp(addr + alen / 2, ctl->saddr, alen / 2))
		return dropped(j, WEFT_DROP_source);
	if (be(w + 8, 8) != ctl->conn)
		return dropped(j, WEFT_DROP_conn);
	memcpy(words.b, w, 64);
	if (weft_check(words.w, ctl->hkey) != be(w + 24, 4))
		return dropped(j, WEFT_DROP_check);
	if (be(w + 28, 2) != plen)
		return dropped(j, WEFT_DROP_length);
	if (w[1] < WEFT_OP_DATA || w[1] > WEFT_OP_WRITES)
		return dropped(j, WEFT_DROP_opcode);
	if (plen && w[1] != WEFT_OP_DATA && w[1] != WEFT_OP_SEND && w[1] != WEFT_OP_REPLY &&
	    w[1] != WEFT_OP_WRITES)
		return dropped(j, WEFT_DROP_length);
	if (!model.alive)
		return dropped(j, WEFT_DROP_owner);
	if (udp[6] || udp[7]) {
		uint32_t sum = sum16(addr, alen, ulen + IPPROTO_UDP);

		if (sum16(udp, ulen, sum) != 0xffff)
			return dropped(j, WEFT_DROP_csum);
	} else if (ctl->flags & WEFT_QPF_CSUM) {
		return dropped(j, WEFT_DROP_csum);
	}
	j->qp = i;
	j->op = w[1];
	j->rq = *fx.rq[fx.qp[i].v6];
	memcpy(j->bind, fx.qp[i].ring->bind, sizeof(j->bind));
	j->refused = fx.qp[i].ring->refused;
	if (j->op == WEFT_OP_DATA || j->op == WEFT_OP_SEND)
		judge_data(w, j, plen);
	else if (j->op == WEFT_OP_WRITES)
		judge_writes(w, j, plen);
	else if (is_ask(j->op))
		judge_ask(w, j);
	else if (ctl->state != WEFT_QP_RTS)
		dropped(j, WEFT_DROP_closed);
}

void model_judge(const struct frame *f, struct judged *j)
{
	const uint8_t *b = f->b;
	uint32_t iplen, ulen, type, udp;

	*j = (struct judged){ .verdict = XDP_PASS, .drop = -1, .qp = -1 };
	if (f->len < WEFT_V4_LEN)
		return;
	type = be(b + 12, 2);
	if (type == 0x0800) {
		udp = 34;
		if (b[14] != 0x45 || b[23] != IPPROTO_UDP || be(b + 20, 2) & 0x3fff)
			return;
		iplen = be(b + 16, 2) - 20;
		j->ce = (b[15] & 3) == 3;
	} else if (type == 0x86dd) {
		udp = 54;
		if (f->len < WEFT_V6_LEN || b[14] >> 4 != 6 || b[20] != IPPROTO_UDP)
			return;
		iplen = be(b + 18, 2);
		j->ce = (b[15] >> 4 & 3) == 3;
	} else {
		return;
	}
	if (be(b + udp + 2, 2) != fx.cfg->port)
		return;
	ulen = be(b + udp + 4, 2);
	j->at = udp + 8 + 64;
	if (f->len < j->at || ulen != iplen || ulen < 72 || udp + ulen > f->len)
		return dropped(j, WEFT_DROP_truncated);
	judge_header(f, j, udp + 8, ulen - 72);
}

void model_place(const struct judged *j, uint32_t psn, uint8_t flags)
{
	struct model_rx *rx = &model.rx[j->qp];

	rx->placed[psn % WEFT_WIN] = true;
	rx->last[psn % WEFT_WIN] = j->many ? j->many : flags & WEFT_F_LAST;
	rx->quiet[psn % WEFT_WIN] = is_ask(j->op);
	rx->recv[psn % WEFT_WIN] = is_recv(j->op, flags);
	if (j->op == WEFT_OP_FADD || j->op == WEFT_OP_CSWAP) {
		rx->result[j->at_asn].set = true;
		rx->result[j->at_asn].psn = psn;
		rx->result[j->at_asn].value = j->was;
	}
	while (rx->placed[rx->next % WEFT_WIN]) {
		rx->placed[rx->next % WEFT_WIN] = false;
		rx->msn += rx->last[rx->next % WEFT_WIN];
		if (!rx->quiet[rx->next % WEFT_WIN])
			rx->arrived += rx->last[rx->next % WEFT_WIN];
		rx->received += rx->last[rx->next % WEFT_WIN] && rx->recv[rx->next % WEFT_WIN];
		rx->next++;
	}
}
