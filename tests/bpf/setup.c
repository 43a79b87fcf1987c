// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The device of the fixtures as it is before every test: configuration, two pairs of QPs, two MRs. */
#include <stdio.h>

#include "fixture.h"
#include "internal.h"

#define LOOPBACK 1 /* the interface that packets come from; nobody looks at it */

static struct sockaddr_storage address(bool v6, int host)
{
	struct sockaddr_storage ss = { .ss_family = v6 ? AF_INET6 : AF_INET };
	char text[16];

	if (v6) {
		snprintf(text, sizeof(text), "fd09::%d", host);
		inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&ss)->sin6_addr);
	} else {
		((struct sockaddr_in *)&ss)->sin_addr.s_addr = htonl(0x0a090000 + host);
	}
	return ss;
}

void fx_qp_init(struct fx_qp *q, uint32_t psn0, uint32_t payload)
{
	static struct weft_tx tx;
	struct weft_rx rx;

	weft_tx_init(&tx, psn0, payload, q->ctl->nev);
	fx_tx_set(q, &tx);
	weft_rx_init(&rx, psn0);
	fx_rx_set(q, &rx);
	memset(q->ring, 0, sizeof(*q->ring));
	q->ctl->payload = payload;
}

/* No bit that flips leads from one slot to another. */
static const uint8_t slots[FX_QPS] = { 3, 5, 6, 9 };

/* Every pair has a key and a secret of its own. */
static void set_up_qp(int i)
{
	struct sockaddr_storage local, peer;
	uint8_t smac[6] = { 2, 0, 0, 9, i / 2, 1 + i % 2 },
		dmac[6] = { 2, 0, 0, 9, i / 2, 2 - i % 2 };
	struct fx_qp *q = &fx.qp[i];
	struct weft_qpctl *c;

	q->slot = slots[i];
	q->ctl = c = &fx.ctl[q->slot];
	q->ring = &fx.rings[q->slot];
	q->peer = &fx.qp[i ^ 1];
	q->v6 = i >= A6;
	memset(c, 0, sizeof(*c));
	c->qpn = WEFT_QPN(q->slot, 11 + i);
	c->dqpn = WEFT_QPN(slots[i ^ 1], 11 + (i ^ 1));
	c->owner = FX_OWNER;
	c->ring = q->slot;
	c->sq_mask = WEFT_SQ_DEPTH - 1;
	c->pd = FX_PD;
	c->cq = FX_CQ;
	c->conn = 0x1122334455667788ull * (i / 2 + 1);
	c->nev = WEFT_EVS_DEFAULT;
	c->doms = 1;
	weft_check_expand(0x5eed + i / 2, c->hkey);
	local = address(q->v6, 1 + i % 2);
	peer = address(q->v6, 2 - i % 2);
	if (q->v6)
		c->flags = WEFT_QPF_CSUM;
	weft_tmpl_build(c, smac, dmac, &local, &peer, fx.cfg->port);
	fx_qp_init(q, FX_PSN, FX_FULL);
	c->state = WEFT_QP_RTS;
}

static void set_up_mr(uint32_t key, uint32_t pool, uint64_t off, uint64_t len, uint32_t rights)
{
	fx.mr[WEFT_KEY_IDX(key)] = (struct weft_mr_ent){
		.key = key,
		.pool = pool,
		.off = off,
		.len = len,
		.pd = FX_PD,
		.rights = rights,
		.owner = FX_OWNER + 1,
	};
}

void fx_set_up(void)
{
	memset(fx.ctl, 0, sizeof(*fx.ctl) * WEFT_QPS);
	memset(fx.mr, 0, sizeof(*fx.mr) * WEFT_MRS);
	memset(fx.run, 0, sizeof(*fx.run));
	for (int i = 0; i < FX_RQS; i++)
		memset(fx.rq[i], 0, sizeof(*fx.rq[i]));
	*fx.cfg = (struct weft_devcfg){
		.abi = WEFT_ABI,
		.ifindex = LOOPBACK,
		.payload = FX_FULL,
		.mtu = 3498,
		.port = WEFT_UDP_PORT + 7,
		.queues = 1, /* everything happens in domain 0 */
		.budget = 96,
		.hard = 120,
		.domains = 1,
		.cpus = 1,
	};
	for (int i = 0; i < FX_QPS; i++)
		set_up_qp(i);
	set_up_mr(FX_T_KEY, FX_POOL_T, FX_T_OFF, FX_T_LEN, WEFT_ACCESS_REMOTE_WRITE);
	set_up_mr(FX_S_KEY, FX_POOL_S, FX_S_OFF, FX_S_LEN, WEFT_ACCESS_LOCAL);
}

void fx_deep(struct fx_qp *q, uint32_t at)
{
	static struct weft_tx tx;

	q->ctl->ring = 16 + FX_DEEP / WEFT_SQ_DEPTH * fx_idx(q);
	q->ctl->sq_mask = FX_DEEP - 1;
	q->ring = &fx.rings[q->ctl->ring];
	memset(q->ring, 0, FX_DEEP / WEFT_SQ_DEPTH * sizeof(*q->ring));
	fx_tx_get(q, &tx);
	tx.sq_mask = FX_DEEP - 1;
	tx.cons = tx.done = tx.told_done = tx.ends = at;
	fx_tx_set(q, &tx);
	q->ring->sq_prod = q->ring->sq_done = at;
}

void fx_post(struct fx_qp *q, uint64_t loff, uint64_t roff, uint32_t len)
{
	uint32_t prod = q->ring->sq_prod;
	struct weft_ring *r = q->ring + weft_sq_ring(prod, q->ctl->sq_mask);

	r->sq[prod & (WEFT_SQ_DEPTH - 1)] = (struct weft_wqe){
		.loff = loff,
		.roff = roff,
		.len = len,
		.mlen = len,
		.lkey = FX_S_KEY,
		.rkey = FX_T_KEY,
	};
	weft_ring_publish(q->ring, prod + 1);
}

struct weft_wqe *fx_post_ask(struct fx_qp *q, enum weft_wqe_op op, uint64_t loff, uint64_t roff,
			     uint32_t len)
{
	struct weft_wqe *e = &q->ring->sq[q->ring->sq_prod & (WEFT_SQ_DEPTH - 1)];

	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights = WEFT_ACCESS_LOCAL_WRITE;
	fx_post(q, loff, roff, len);
	e->op = op;
	e->lkey = FX_T_KEY;
	e->rkey = FX_S_KEY;
	return e;
}

struct weft_wqe *fx_post_send(struct fx_qp *q, uint64_t loff, uint32_t len)
{
	struct weft_wqe *e = &q->ring->sq[q->ring->sq_prod & (WEFT_SQ_DEPTH - 1)];

	fx_post(q, loff, 0, len);
	e->op = WEFT_WQE_SEND;
	e->rkey = 0;
	return e;
}

struct fx_rq *fx_recv_on(struct fx_qp *q, bool shared)
{
	fx.mr[WEFT_KEY_IDX(FX_T_KEY)].rights |= WEFT_ACCESS_LOCAL_WRITE;
	q->ctl->rq = FX_RQ_IDX(q->v6) + 1;
	q->ctl->rq_mask = FX_RQ_DEPTH - 1;
	if (shared)
		q->ctl->flags |= WEFT_QPF_SRQ;
	return fx.rq[q->v6];
}

struct weft_rqe *fx_recv(struct fx_rq *rq, const struct fx_piece *pieces, int n)
{
	struct weft_rqe *e = &rq->e[rq->head.prod % FX_RQ_DEPTH];

	memset(e, 0, sizeof(*e));
	for (int i = 0; i < n; i++)
		e->sge[i] = (struct weft_rq_sge){ pieces[i].off, pieces[i].len, FX_T_KEY };
	e->order = rq->head.prod++ % FX_RQ_DEPTH; /* of a shared queue */
	return e;
}
