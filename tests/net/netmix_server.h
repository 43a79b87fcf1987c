/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The serving half of netwrite --mix: receives, each looked at once and in order, and what they announce. */
#ifndef NETMIX_SERVER_H
#define NETMIX_SERVER_H

#include <pthread.h>
#include <unistd.h>

#include "netmix.h"

/* What all QPs of a device share. */
struct mix_shared {
	struct weft_dev *dev;
	struct weft_srq *srq;
	pthread_mutex_t lock; /* to post to it */
	struct region bufs;   /* its receives */
	uint64_t *board;
	struct weft_mr *board_mr;
};

struct mix_rx {
	struct mix_shared *sh;
	struct weft_qp *qp;
	const uint8_t *src, *dst; /* what the client sends from; where its WRITEs go */
	size_t len;
	uint64_t skew, seed, rnd;
	bool own;          /* receives of its own */
	struct region buf; /* those */
	uint64_t posted, taken;
	uint64_t k, echo; /* next message, next that may be sent back */
	bool flushed, over;
};

static int mix_offer(struct mix_rx *rx, uint64_t id)
{
	struct region *r = rx->own ? &rx->buf : &rx->sh->bufs;
	uint64_t at = id % (rx->own ? MIX_RECVS : MIX_SHARED) * MIX_BUF;
	struct weft_sge g[WEFT_RECV_SGE_MAX];
	struct weft_recv w = { .wr_id = id, .sge = g, .nsge = 1 + id % WEFT_RECV_SGE_MAX };
	uint32_t left = MIX_BUF;
	int n;

	for (unsigned i = 0; i < w.nsge; i++) {
		uint32_t part = i + 1 == w.nsge ? left : np_below(&rx->rnd, left / 2);

		g[i] = (struct weft_sge){ .mr = r->mr, .off = at + MIX_BUF - left, .len = part };
		left -= part;
	}
	if (rx->own)
		return weft_post_recv(rx->qp, &w, 1);
	pthread_mutex_lock(&rx->sh->lock);
	n = weft_srq_post(rx->sh->srq, &w, 1);
	pthread_mutex_unlock(&rx->sh->lock);
	return n;
}

/* One that was taken is posted again: at once, or a little later, and the client waits meanwhile. */
static void mix_again(struct mix_rx *rx, uint64_t id)
{
	int n;

	if (!np_below(&rx->rnd, 24) && !rx->flushed)
		usleep(np_below(&rx->rnd, 3000));
	n = mix_offer(rx, rx->own ? rx->posted : id);
	if (n == 1)
		rx->posted++;
	else if (!rx->own || n != -ENOTCONN)
		bad("mix: a receive cannot be posted again: %d, %s", n, weft_strerror_last());
}

static void mix_check(struct mix_rx *rx, const struct weft_wc *wc)
{
	struct mix_msg m = mix_msg(rx->seed, rx->k);
	uint64_t place = mix_place(rx->skew, rx->k);
	const uint8_t *at = (rx->own ? rx->buf.at : rx->sh->bufs.at) +
			    wc->wr_id % (rx->own ? MIX_RECVS : MIX_SHARED) * MIX_BUF;
	uint32_t flags = (m.has_imm ? WEFT_WC_IMM : 0) | (m.sol ? WEFT_WC_SOLICITED : 0);
	uint8_t want[MIX_BUF];

	if (wc->op != (m.write ? WEFT_WR_RECV_IMM : WEFT_WR_RECV) || wc->len != m.len ||
	    wc->flags != flags || wc->imm != (m.has_imm ? m.imm : 0)) {
		bad("mix: message %llu: op %u, %u bytes of %u, flags %x, imm %x",
		    (unsigned long long)rx->k, wc->op, wc->len, m.len, wc->flags, wc->imm);
		return;
	}
	mix_bytes(want, rx->src, &m);
	if (memcmp(m.write ? rx->dst + place + MIX_BLOCK : at, want, m.len))
		bad("mix: message %llu of %u bytes: they are others", (unsigned long long)rx->k,
		    m.len);
	/* I4: what was posted before it is in place */
	if (memcmp(rx->dst + place, rx->src + m.block_off, m.block))
		bad("mix: message %llu: the WRITE before it is not in place",
		    (unsigned long long)rx->k);
}

/* Everything the client has written must be here, and nothing else: it knows each byte. */
static void mix_ended(struct mix_rx *rx, const struct weft_wc *wc)
{
	const uint8_t *at = (rx->own ? rx->buf.at : rx->sh->bufs.at) +
			    wc->wr_id % (rx->own ? MIX_RECVS : MIX_SHARED) * MIX_BUF;
	struct mix_end end = { 0 };

	memcpy(&end, at, sizeof(end));
	if (wc->len != sizeof(end) || wc->op != WEFT_WR_RECV || end.msgs != rx->k)
		bad("mix: after %llu messages, the client has sent %llu", (unsigned long long)rx->k,
		    (unsigned long long)end.msgs);
	else if (end.hash != mix_hash(rx->dst, rx->len))
		bad("mix: seed %llu: memory is not what the client has written",
		    (unsigned long long)rx->seed);
	rx->over = true;
}

/* Send back what was asked for, up to the last message that has come. False: the queue is full. */
static bool mix_echo(struct mix_rx *rx)
{
	for (; rx->echo < rx->k; rx->echo++) {
		struct mix_msg m = mix_msg(rx->seed, rx->echo);
		struct weft_wr wr = { .op = WEFT_WR_SEND,
				      .flags = WEFT_WR_INLINE | WEFT_WR_UNSIGNALED,
				      .data = rx->src + m.echo_off,
				      .len = m.echo };
		int n = m.echo ? weft_post(rx->qp, &wr, 1) : 1;

		if (n == -EAGAIN)
			return false;
		if (n != 1 && n != -ENOTCONN)
			bad("mix: an answer cannot be sent: %d, %s", n, weft_strerror_last());
	}
	if (rx->over && rx->echo == rx->k) {
		struct weft_wr wr = { .op = WEFT_WR_SEND,
				      .flags = WEFT_WR_INLINE | WEFT_WR_IMM,
				      .imm = MIX_END | !!atomic_load(&wrong) };
		int n = weft_post(rx->qp, &wr, 1);

		rx->echo += n == 1;
		return n != -EAGAIN;
	}
	return true;
}

/* One after the other, and each once; nothing good behind a flush. */
static void mix_received(struct mix_rx *rx, const struct weft_wc *wc)
{
	rx->taken++;
	if (rx->own && wc->wr_id != rx->taken - 1)
		bad("mix: receive %llu instead of %llu", (unsigned long long)wc->wr_id,
		    (unsigned long long)rx->taken - 1);
	if (wc->status == WEFT_WC_FLUSH_ERR && weft_qp_status(rx->qp)) {
		rx->flushed = true;
	} else if (wc->status || rx->flushed || rx->over) {
		bad("mix: message %llu: %s%s", (unsigned long long)rx->k, weft_wc_str(wc->status),
		    rx->over      ? ", behind the last"
		    : rx->flushed ? ", behind one flushed"
				  : "");
	} else if (wc->flags & WEFT_WC_IMM && wc->imm & MIX_END) {
		mix_ended(rx, wc);
	} else {
		mix_check(rx, wc);
		rx->k++;
	}
	if (!rx->own || !rx->flushed)
		mix_again(rx, wc->wr_id);
}

static void mix_serve(struct mix_rx *rx)
{
	struct weft_cq *cq = weft_qp_cq(rx->qp);
	struct weft_wc wc[8];
	bool ended = false, room = true;

	if (rx->own) {
		region_make(&rx->buf, rx->sh->dev, MIX_RECVS * MIX_BUF, rx->seed ^ 7);
		need(weft_mr_reg(rx->sh->dev, NULL, rx->buf.at, rx->buf.len, WEFT_LOCAL_WRITE,
				 &rx->buf.mr),
		     "weft_mr_reg");
		usleep(np_below(&rx->rnd, 4000));
		while (rx->posted < MIX_RECVS && mix_offer(rx, rx->posted) == 1)
			rx->posted++;
	}
	while (!ended) {
		int n;

		/* in error: once more, so that all that was taken comes back */
		if (atomic_load(&stop))
			weft_qp_abort(rx->qp);
		ended = weft_qp_status(rx->qp);
		while ((n = weft_cq_poll(cq, wc, 8)) > 0) {
			for (int i = 0; i < n; i++) {
				if (wc[i].op >= WEFT_WR_RECV)
					mix_received(rx, &wc[i]);
				else if (!wc[i].status && wc[i].len)
					bad("mix: completion of what is unsignaled");
			}
			room = mix_echo(rx);
		}
		if (!ended) {
			room = mix_echo(rx);
			weft_cq_wait(cq, WEFT_ARM_RX | WEFT_ARM_TX, room ? 100 : 2);
		}
	}
	if (rx->own && rx->taken != rx->posted)
		bad("mix: %llu of %llu receives came back", (unsigned long long)rx->taken,
		    (unsigned long long)rx->posted);
	say("mix %llu: %llu messages, %s", (unsigned long long)rx->seed, (unsigned long long)rx->k,
	    rx->over ? "all" : "the last is missing");
}

/* When the QP is closed. */
static void mix_served(struct mix_rx *rx)
{
	if (!rx->own)
		return;
	region_check(&rx->buf, "receives");
	need(weft_mr_dereg(rx->buf.mr), "weft_mr_dereg");
	need(weft_free(rx->sh->dev, rx->buf.mem), "weft_free");
}

/* ---- of a device ---- */

static void mix_share(struct mix_shared *sh, struct weft_dev *dev)
{
	struct mix_rx any = { .sh = sh, .rnd = nw.seed };
	size_t len = (MIX_BOARD + 1) * 8;

	sh->dev = dev;
	pthread_mutex_init(&sh->lock, NULL);
	need(weft_alloc(dev, len, (void **)&sh->board), "weft_alloc");
	need(weft_mr_reg(dev, NULL, sh->board, len, WEFT_REMOTE_ATOMIC, &sh->board_mr),
	     "weft_mr_reg");
	region_make(&sh->bufs, dev, MIX_SHARED * MIX_BUF, nw.seed ^ 9);
	need(weft_mr_reg(dev, NULL, sh->bufs.at, sh->bufs.len, WEFT_LOCAL_WRITE, &sh->bufs.mr),
	     "weft_mr_reg");
	need(weft_srq_create(dev, NULL, MIX_SHARED, &sh->srq), "weft_srq_create");
	for (unsigned i = 0; i < MIX_SHARED; i++)
		must(mix_offer(&any, i) == 1, "weft_srq_post");
}

/* All QPs are closed: the shared queue has all of its receives, the counter's values were drawn once. */
static void mix_shared_check(struct mix_shared *sh)
{
	struct mix_rx any = { .sh = sh };
	int n = mix_offer(&any, 0);

	if (n != -EAGAIN)
		bad("mix: the shared queue takes one more than its %u receives: %d", MIX_SHARED, n);
	region_check(&sh->bufs, "shared receives");
	for (uint64_t i = 0; i < MIX_BOARD; i++) {
		uint64_t drawn = sh->board[1 + i];

		if (drawn && ((drawn - 1) % MIX_BOARD != i || drawn > sh->board[0]))
			bad("mix: place %llu of the board has %llu, the counter %llu",
			    (unsigned long long)i, (unsigned long long)drawn,
			    (unsigned long long)sh->board[0]);
	}
	need(weft_srq_destroy(sh->srq), "weft_srq_destroy");
	say("mix: %llu drawn", (unsigned long long)sh->board[0]);
}

#endif
