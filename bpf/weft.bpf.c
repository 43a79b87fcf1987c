// SPDX-License-Identifier: GPL-2.0
/* The XDP programs: NIC, doorbell, clones on their way out, other CPUs. Follow a packet from weft_nic(). */
#include "ask.bpf.h"
#include "recv.bpf.h"
#include "capture.bpf.h"
#include "doorbell.bpf.h"
#include "many.bpf.h"

static __always_inline int action(enum weft_verdict v)
{
	switch (v) {
	case V_PASS: return XDP_PASS;
	case V_TX: return XDP_TX;
	case V_REDIRECT: return XDP_REDIRECT;
	default: return XDP_DROP;
	}
}

/*
 * Everything a packet must prove before it may touch a QP: version, QP,
 * generation, source, connection key, header check, length, opcode, and that the
 * owner lives. V_TX: it did.
 */
static __always_inline enum weft_verdict admit(struct xdp_md *ctx, struct weft_stats *st,
					       const struct weft_pkt *p,
					       const struct weft_qpctl *ctl)
{
	const struct weft_hdr *h = &p->u.h;
	__u32 state;

	if (h->ver != WEFT_WIRE_VER)
		return drop(st, version);
	if (!ctl)
		return drop(st, qpn);
	/* before it is connected a QP has no peer and no keys: zeros would pass for genuine */
	state = READ_ONCE(ctl->state);
	if (state < WEFT_QP_RTS)
		return drop(st, qpn);
	ctl = weft_after(ctl, state);
	if (ctl->qpn != bpf_ntohl(h->dqpn))
		return drop(st, generation);
	if (!source_ok(ctx, p, ctl))
		return drop(st, source);
	if (bpf_be64_to_cpu(h->conn) != ctl->conn)
		return drop(st, conn);
	if (weft_check(p->u.w, ctl->hkey) != bpf_ntohl(h->check))
		return drop(st, check);
	if (bpf_ntohs(h->len) != p->len)
		return drop(st, length);
	switch (h->op) {
	case WEFT_OP_DATA:
	case WEFT_OP_SEND:
	case WEFT_OP_WRITES:
	case WEFT_OP_REPLY: break;
	case WEFT_OP_ACK:
	case WEFT_OP_RNR:
	case WEFT_OP_SEQ:
	case WEFT_OP_NAK:
	case WEFT_OP_RESUME:
	case WEFT_OP_READ:
	case WEFT_OP_FADD:
	case WEFT_OP_CSWAP:
		if (p->len)
			return drop(st, length);
		break;
	default: return drop(st, opcode);
	}
	if (!owner_alive(ctl)) {
		tele_event(WEFT_QPN_SLOT(ctl->qpn), owner, 0, 0, 0, 0);
		return drop(st, owner);
	}
	return V_TX;
}

static __always_inline enum weft_verdict receive(struct xdp_md *ctx, struct weft_stats *st)
{
	struct weft_devcfg *cfg = cfg_get();
	struct weft_qpctl *ctl;
	struct work *wk = work_get();
	struct weft_pkt *p;
	enum weft_verdict v;
	__u32 slot, state;

	/* without a port a loader has put us here, and nobody has set us up yet */
	if (!cfg || !wk || !cfg->port)
		return V_PASS;
	p = &wk->pkt;
	v = parse(ctx, cfg, st, p);
	if (v != V_TX)
		return v;
	slot = WEFT_QPN_SLOT(bpf_ntohl(p->u.h.dqpn));
	ctl = bpf_map_lookup_elem(&qpctl, &slot);
	v = admit(ctx, st, p, ctl);
	if (v != V_TX || !ctl)
		return v;
	state = READ_ONCE(ctl->state);
	ctl = weft_after(ctl, state);

	if (p->check) {
		__u32 ulen = 8 + WEFT_HDR_LEN + p->len;

		if (udp_sum(ctx, ctl, ulen) != 0xffff)
			return drop(st, csum);
	} else if (ctl->flags & WEFT_QPF_CSUM) {
		return drop(st, csum);
	}

	switch (p->u.h.op) {
	case WEFT_OP_DATA:
	case WEFT_OP_WRITES:
	case WEFT_OP_SEND:
	case WEFT_OP_READ:
	case WEFT_OP_FADD:
	case WEFT_OP_CSWAP:
		if (state != WEFT_QP_RTS) {
			st->drop.closed++;
			return reply_nak(ctx, st, ctl, wk, WEFT_NAK_CLOSED, bpf_ntohl(p->u.h.psn),
					 0);
		}
		if (p->u.h.op == WEFT_OP_DATA && likely(!(p->u.h.flags & WEFT_F_IMM)))
			return rx_data(ctx, ctl, wk, st, slot);
		if (p->u.h.op == WEFT_OP_WRITES)
			return rx_writes(ctx, ctl, wk, st, slot);
		if (p->u.h.op == WEFT_OP_DATA || p->u.h.op == WEFT_OP_SEND)
			return rx_recv(ctx, ctl, wk, st, slot);
		return rx_ask(ctx, ctl, wk, st, slot);
	case WEFT_OP_RESUME:
		if (state != WEFT_QP_RTS)
			return drop(st, closed);
		if (tx_resume(st, ctl, bpf_ntohl(p->u.h.ack.epoch), slot))
			return drop(st, owner);
		v = ring_bell(ctx, WEFT_DB_GROW, ctl->qpn);
		return v == V_MOVE || v == V_FILL ? V_DROP : v;
	case WEFT_OP_REPLY:
	case WEFT_OP_RNR:
	case WEFT_OP_SEQ:
	case WEFT_OP_ACK:
		if (state != WEFT_QP_RTS)
			return drop(st, closed);
		wk->acked = wk->answer = wk->before = 0;
		if (p->u.h.op == WEFT_OP_REPLY && tx_reply(ctx, ctl, wk, st, slot))
			return V_DROP;
		if (unlikely(foreign(wk, slot)))
			unlend(ctl, st, slot, bpf_ntohl(p->u.h.psn), bpf_ntohl(p->u.h.ts));
		v = tx_lent(wk, st, slot);
		if (v == V_PASS)
			v = tx_bulk(wk, st, ctl, slot);
		if (v == V_PASS)
			v = tx_ack(ctx, ctl, wk, st, slot);
		if (unlikely(v == V_REPAIR))
			v = tx_repair(ctx, ctl, wk, st, slot);
		if (unlikely(v == V_AGAIN))
			v = look_again(ctl, wk, st, slot);
		tele_ack(wk, slot);
		if (unlikely(v == V_HAND)) {
			ctl = hand_over(ctx, st, wk, &v);
		}
		return v == V_FILL && ctl ? fill_or_clone(ctx, st, ctl, wk, WEFT_PAYLOAD_MAX) : v;
	default:
		if (state != WEFT_QP_RTS)
			return drop(st, closed);
		return tx_nak(st, ctl, wk, slot);
	}
}

/* On the NIC. */
SEC("xdp")
int weft_nic(struct xdp_md *ctx)
{
	struct weft_stats *st = stats_get();
	bool seen = captured();
	int act;

	if (seen)
		capture_in(ctx);
	act = st ? action(receive(ctx, st)) : XDP_PASS;
	if (seen && act == XDP_TX)
		capture_out(ctx);
	return act;
}

#define DB_ROOM 192 /* bytes that a tap's frame can grow by, at its head */

static __always_inline enum weft_verdict bell(struct xdp_md *ctx, struct weft_stats *st,
					      const struct weft_db *db)
{
	struct weft_qpctl *ctl = ctl_get(WEFT_QPN_SLOT(db->qpn));
	enum weft_verdict v = ring_bell(ctx, db->op, db->qpn);
	struct work *wk = work_get();
	__u32 hl;

	if (v != V_FILL || !wk || !ctl)
		return v == V_FILL ? V_DROP : v;
	hl = (ctl->flags & WEFT_QPF_V6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	v = fill_or_clone(ctx, st, ctl, wk, frame_len(ctx) - hl + DB_ROOM);
	/* filled here: out through the NIC as it is */
	return v == V_TX ? verdict_redirect(st, bpf_redirect_map(&nic, 0, 0)) : v;
}

/* Over to the CPU that ring_bell() chose. */
static __always_inline enum weft_verdict move(struct weft_stats *st)
{
	struct work *wk = work_get();

	if (!wk)
		return V_DROP;
	count(st, moved);
	return verdict_redirect(st, bpf_redirect_map(&cpus, wk->cpu, 0));
}

/* On the doorbell: nothing else comes there. It runs within the write() of who rings. */
SEC("xdp")
int weft_db(struct xdp_md *ctx)
{
	struct weft_stats *st = stats_get();
	struct work *wk = work_get();
	enum weft_verdict v;
	struct weft_db db;

	if (!st || !wk)
		return XDP_DROP;
	/* Nothing is under way on this CPU now: clones that could not be made are not awaited. */
	wk->left = wk->held = 0;
	if (db_parse(ctx, &db) ||
	    (db.op != WEFT_DB_POST && db.op != WEFT_DB_LOOK && db.op != WEFT_DB_RESUME)) {
		st->drop.doorbell++;
		return XDP_DROP;
	}
	if (db.op == WEFT_DB_RESUME)
		v = send_resume(ctx, db.qpn) ? verdict_redirect(st, bpf_redirect_map(&nic, 0, 0))
					     : V_DROP;
	else {
		if (db.op == WEFT_DB_LOOK)
			look(db.qpn);
		v = bell(ctx, st, &db);
	}
	return action(v == V_MOVE ? move(st) : v);
}

/*
 * On another CPU, for a token that was sent there. It must not refer to the map
 * `cpus`, whose entries refer to it: neither would ever be freed.
 */
SEC("xdp/cpumap")
int weft_cpu(struct xdp_md *ctx)
{
	struct weft_stats *st = stats_get();
	struct weft_db db;

	if (!st)
		return XDP_DROP;
	if (db_parse(ctx, &db) || db.op != WEFT_DB_GROW) {
		st->drop.doorbell++;
		return XDP_DROP;
	}
	return action(bell(ctx, st, &db));
}

/*
 * A clone without a packet. It is dropped, but not if it is the last of several
 * and others went before: the kernel hands a devmap's frames on in batches and has
 * the driver announce them with the last; of a batch without frames it tells the
 * driver nothing, and those before would lie there until the next. So one
 * goes out empty, to the peer's stack, which knows no such type.
 */
static __always_inline int unfilled(struct xdp_md *ctx, const struct weft_qpctl *ctl,
				    struct work *wk)
{
	__u8 zero[ETH_ZLEN - ETH_HLEN - sizeof(struct weft_db)] = {};
	__u32 flen = frame_len(ctx);

	if (wk->left || !wk->held)
		return XDP_DROP;
	/* fill() may have given it room, and what was there before is nobody's business */
	if ((flen > ETH_ZLEN && bpf_xdp_adjust_tail(ctx, ETH_ZLEN - (int)flen)) ||
	    make_template(ctx, WEFT_DB_FILL, ctl->qpn, 0, 0) ||
	    bpf_xdp_store_bytes(ctx, ETH_ZLEN - sizeof(zero), zero, sizeof(zero)) ||
	    bpf_xdp_store_bytes(ctx, 0, (void *)ctl->tmpl, 2 * ETH_ALEN))
		return XDP_DROP;
	wk->held = 0;
	return XDP_PASS;
}

/*
 * A request whose frame had no room for the answer, in a clone of it: its header, which was
 * admitted, is where it was, behind the template.
 */
static __always_inline enum weft_verdict ask_in_clone(struct xdp_md *ctx, struct weft_stats *st,
						      struct work *wk, const struct weft_db *db)
{
	struct weft_qpctl *ctl = sender(db->qpn);
	struct weft_pkt *p = &wk->pkt;
	enum weft_verdict v;

	if (!ctl)
		return drop(st, template);
	p->v6 = ctl->flags & WEFT_QPF_V6;
	p->hl = (p->v6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
	p->len = 0;
	p->ce = db->claimed != 0;
	if (bpf_xdp_load_bytes(ctx, p->hl - WEFT_HDR_LEN, &p->u, WEFT_HDR_LEN))
		return drop(st, template);
	wk->again = 1;
	v = rx_ask(ctx, ctl, wk, st, WEFT_QPN_SLOT(db->qpn));
	wk->again = 0;
	return v;
}

static __always_inline int fill_clone(struct xdp_md *ctx)
{
	struct work *wk = work_get();
	struct weft_stats *st;
	struct weft_qpctl *ctl;
	struct weft_db db;

	if (!wk)
		return XDP_DROP;
	if (db_parse(ctx, &db)) {
		wk->held = wk->left != 0;
		return XDP_PASS;
	}
	if (wk->left)
		wk->left--;
	st = stats_get();
	ctl = ctl_get(WEFT_QPN_SLOT(db.qpn));
	if (!st)
		return XDP_DROP;
	if (!ctl || (db.op != WEFT_DB_FILL && db.op != WEFT_DB_ASK)) {
		st->drop.template ++;
		return XDP_DROP;
	}
	if (unlikely(db.op == WEFT_DB_ASK)) {
		if (ask_in_clone(ctx, st, wk, &db) != V_TX)
			return unfilled(ctx, ctl, wk);
		wk->held = wk->left != 0;
		return XDP_PASS;
	}
	if (!clone_claims(ctl, wk, st, db.qpn, db.psn, db.claimed)) {
		st->drop.template ++;
		return unfilled(ctx, ctl, wk);
	}
	if (fill_any(ctx, ctl, wk, st, WEFT_PAYLOAD_MAX) == FILL_OK) {
		wk->held = wk->left != 0;
		return XDP_PASS;
	}
	/* the claim stands: a lost packet, which the timer finds */
	st->drop.fill++;
	return unfilled(ctx, ctl, wk);
}

/*
 * On everything that this host's programs redirect to the NIC. One program
 * serves a whole flush, so it must pass what is not a template.
 */
SEC("xdp/devmap")
int weft_fill(struct xdp_md *ctx)
{
	int act = fill_clone(ctx);

	if (act == XDP_PASS && captured())
		capture_out(ctx);
	return act;
}

/* Takes the original of a broadcast. */
SEC("xdp/devmap")
int weft_sink(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char _license[] SEC("license")
= "GPL";
