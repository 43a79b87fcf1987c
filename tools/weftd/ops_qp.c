// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Operations of weftd on queue pairs: whose they are, where their packets go, their share of tokens. */
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "ops.h"

static struct weft_qpctl *own_qp(const struct proc *p, uint32_t num)
{
	uint32_t slot = WEFT_QPN_SLOT(num);
	struct weft_qpctl *ctl = &p->dev.maps.ctl[slot % p->dev.maps.qps];

	return slot < p->dev.maps.qps && ctl->qpn == num && ctl->owner == p->dev.slot &&
			       ctl->state != WEFT_QP_FREE
		       ? ctl
		       : NULL;
}

/* Tokens are taken up to the window: so windows that fit the share keep the tokens within it. */
void ops_share(struct weft_dev *dev, uint32_t uid, uint32_t share)
{
	const struct weft_devcfg *cfg = dev->maps.cfg;
	const struct weft_owners *own = dev->maps.own;
	uint32_t all = cfg->budget * cfg->domains * share / 100, n = 0, each, want;

	if (share >= 100)
		return;
	for (int pass = 0; pass < 2; pass++) {
		each = n && all / n ? all / n : 1;
		for (unsigned i = 0; i < dev->maps.qps; i++) {
			struct weft_qpctl *ctl = &dev->maps.ctl[i];
			const struct weft_owner *o = &own->proc[ctl->owner % WEFT_PROCS];

			if (ctl->state == WEFT_QP_FREE || !o->token[0] || o->uid != uid)
				continue;
			want = ctl->asked < each ? ctl->asked : each;
			if (!pass)
				n++;
			else if (want && ctl->cwnd != want)
				__atomic_store_n(&ctl->cwnd, want, __ATOMIC_RELAXED);
		}
	}
}

int do_qp_take(struct proc *p, union weftd_body *u, int fd, int *out)
{
	const struct weftd_take t = u->qp_take;
	struct usage now;
	int err;

	(void)fd, (void)out;
	if (t.depth < WEFT_SQ_DEPTH || t.depth > WEFT_SQ_MAX || (t.depth & (t.depth - 1)) ||
	    t.ring >= p->dev.nrings || weft_sq_rings(t.depth) > p->dev.nrings - t.ring ||
	    t.cwnd < 1 || t.cwnd > WEFT_CWND_MAX || t.nev < 1 || t.nev > WEFT_EV_MAX)
		return ops_bad(p, "ring, depth, window or entropy values");
	for (unsigned i = 0; i < p->dev.maps.qps; i++) {
		const struct weft_qpctl *ctl = &p->dev.maps.ctl[i];

		if (ctl->state != WEFT_QP_FREE && ctl->owner == p->dev.slot &&
		    ctl->ring < t.ring + weft_sq_rings(t.depth) &&
		    t.ring < ctl->ring + weft_sq_rings(ctl->sq_mask + 1))
			return weft_err_quiet(EBUSY, p->dev.ifname, "the ring has a QP");
	}
	usage_of(p->dev.uid, &now);
	if (now.qps >= p->q.qps)
		return ops_quota(p, "QPs", now.qps, p->q.qps);
	err = weft_direct.qp_take(&p->dev, t.ring, t.depth, t.cwnd, t.nev, &u->qp_take_rep.v);
	if (err == -ENOSPC)
		return weft_err_quiet(ENOSPC, p->dev.ifname,
				      "all %u QPs of the device are in use; close some, or give "
				      "it more 'qps' in weftd's configuration",
				      p->dev.maps.qps);
	if (err)
		return err;
	p->dev.maps.ctl[WEFT_QPN_SLOT(u->qp_take_rep.v)].asked = t.cwnd;
	ops_share(&p->dev, p->dev.uid, p->q.share);
	return 0;
}

/* A TCP connection of this namespace that is there: nobody can pretend to have another's address. */
static int addresses(const struct proc *p, int fd, struct weft_live *l)
{
	struct tcp_info ti = {};
	socklen_t len = sizeof(int), slen = sizeof(l->local);
	uint64_t cookie = 0, own = 0;
	int proto = 0, sk;

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &proto, &len) || proto != IPPROTO_TCP)
		return ops_bad(p, "the stream");
	len = sizeof(ti);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) || ti.tcpi_state != TCP_ESTABLISHED)
		return weft_err_quiet(ENOTCONN, p->dev.ifname, "the stream is not connected");
	sk = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	len = sizeof(own);
	if (sk < 0 || getsockopt(sk, SOL_SOCKET, SO_NETNS_COOKIE, &own, &len))
		own = 0;
	if (sk >= 0)
		close(sk);
	len = sizeof(cookie);
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) || !own || cookie != own)
		return weft_err_quiet(EPERM, p->dev.ifname, "the stream is of another namespace");
	memset(&l->local, 0, sizeof(l->local));
	memset(&l->peer, 0, sizeof(l->peer));
	if (getsockname(fd, (struct sockaddr *)&l->local, &slen))
		return weft_err_quiet(ENOTCONN, p->dev.ifname, "the stream is not connected");
	slen = sizeof(l->peer);
	if (getpeername(fd, (struct sockaddr *)&l->peer, &slen))
		return weft_err_quiet(ENOTCONN, p->dev.ifname, "the stream is not connected");
	weft_addr_unmap(&l->local);
	weft_addr_unmap(&l->peer);
	return 0;
}

int do_qp_live(struct proc *p, union weftd_body *u, int fd, int *out)
{
	const struct weftd_live in = u->qp_live;
	const struct weft_devcfg *cfg = p->dev.maps.cfg;
	struct weft_qpctl *ctl = own_qp(p, in.num);
	struct weft_live l = {
		.num = in.num,
		.pd = in.pd,
		.cq = in.cq,
		.tx_psn = in.tx_psn,
		.rx_psn = in.rx_psn,
		.payload = in.payload,
		.dqpn = in.dqpn,
		.csum = in.csum,
		.port = in.port,
		.rq = in.rq,
		.srq = in.srq,
		.strict = in.strict,
		.many = in.many,
		.conn = in.conn,
		.secret = in.secret,
		.cpus = in.cpus,
		.cm_fd = fd,
	};
	uint8_t hop[16];
	uint32_t max;
	int err;

	(void)out;
	if (!ctl)
		return ops_not_yours(p, "QP", in.num);
	if (in.pd >> 16 != p->dev.slot)
		return ops_not_yours(p, "protection domain", in.pd);
	if (in.cq >= WEFT_CQS || p->dev.maps.own->cq[in.cq] != p->dev.slot + 1)
		return ops_not_yours(p, "CQ", in.cq);
	if (in.rq && (in.rq > WEFT_RQS || p->dev.maps.own->rq[in.rq - 1] != p->dev.slot + 1))
		return ops_not_yours(p, "receive queue", in.rq - 1);
	err = addresses(p, fd, &l);
	if (err)
		return err;
	max = weft_path_payload(cfg->mtu, l.peer.ss_family == AF_INET6);
	if (max > cfg->payload)
		max = cfg->payload;
	if (in.payload < WEFT_PAYLOAD_MIN || in.payload > max || in.payload % 64 || !in.port ||
	    in.port > 65535 || !in.dqpn)
		return ops_bad(p, "payload or port");
	if (ctl->state == WEFT_QP_INIT)
		err = weft_direct.qp_live(&p->dev, &l, hop);
	else if (ctl->state != WEFT_QP_RTS || ctl->conn != in.conn)
		err = weft_err_quiet(EISCONN, p->dev.ifname, "the QP is connected already");
	else /* asked for once more: the reply was lost */
		err = weft_route(&p->dev, &l.local, &l.peer, hop, NULL);
	if (err)
		return err;
	memset(&u->qp_live_rep, 0, sizeof(u->qp_live_rep));
	memcpy(u->qp_live_rep.nexthop, hop, sizeof(hop));
	memcpy(u->qp_live_rep.tmpl, ctl->tmpl, sizeof(ctl->tmpl));
	u->qp_live_rep.flags = ctl->flags;
	u->qp_live_rep.cwnd = ctl->cwnd;
	return 0;
}

static void graced(struct proc *p, uint32_t slot, bool yes)
{
	if (yes)
		p->graced[slot / 32] |= 1u << slot % 32;
	else
		p->graced[slot / 32] &= ~(1u << slot % 32);
}

int do_qp_stop(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t nums[WEFT_STOP_MAX], n = 0;

	(void)fd, (void)out;
	if (u->qp_stop.n > WEFT_STOP_MAX ||
	    (u->qp_stop.state != WEFT_QP_ERR && u->qp_stop.state != WEFT_QP_CLOSED))
		return ops_bad(p, "number or state of QPs");
	for (uint32_t i = 0; i < u->qp_stop.n; i++)
		if (own_qp(p, u->qp_stop.num[i]))
			nums[n++] = u->qp_stop.num[i];
	if (!n)
		return 0;
	weft_direct.qp_stop(&p->dev, nums, n, u->qp_stop.state);
	for (uint32_t i = 0; i < n && u->qp_stop.state == WEFT_QP_CLOSED; i++)
		graced(p, WEFT_QPN_SLOT(nums[i]), true);
	return 0;
}

/* The reasons are only shown; but not as something that they are not. */
static void tame(struct weft_failed *f)
{
	if (f->why > WEFT_WC_RNR_RETRY_EXC_ERR)
		f->why = WEFT_WC_GENERAL_ERR;
	f->err &= 0xff;
}

int do_qp_failed(struct proc *p, union weftd_body *u, int fd, int *out)
{
	struct weft_qpctl *ctl = own_qp(p, u->qp_failed.num);

	(void)fd, (void)out;
	if (!ctl)
		return 0;
	/* its tokens leave the books only when it can get no more */
	if (ctl->state == WEFT_QP_RTS)
		weft_direct.qp_stop(&p->dev, &u->qp_failed.num, 1, WEFT_QP_ERR);
	tame(&u->qp_failed);
	weft_direct.qp_failed(&p->dev, &u->qp_failed);
	return 0;
}

int do_qp_free(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t num = u->qp_free.f.num, slot = WEFT_QPN_SLOT(num);
	struct weft_qpctl *ctl = own_qp(p, num);

	(void)fd, (void)out;
	if (!ctl)
		return 0;
	if (ctl->state != WEFT_QP_CLOSED || !(p->graced[slot / 32] >> slot % 32 & 1))
		weft_direct.qp_stop(&p->dev, &num, 1, WEFT_QP_CLOSED);
	tame(&u->qp_free.f);
	weft_direct.qp_free(&p->dev, num, u->qp_free.has_failed ? &u->qp_free.f : NULL);
	graced(p, slot, false);
	ops_share(&p->dev, p->dev.uid, p->q.share);
	return 0;
}

int do_qp_cwnd(struct proc *p, union weftd_body *u, int fd, int *out)
{
	struct weft_qpctl *ctl = own_qp(p, u->qp_cwnd.num);
	uint32_t packets = u->qp_cwnd.packets;

	(void)fd, (void)out;
	if (!ctl)
		return ops_not_yours(p, "QP", u->qp_cwnd.num);
	if (packets < 1 || packets > WEFT_CWND_MAX)
		return ops_bad(p, "cwnd");
	ctl->asked = packets;
	weft_direct.qp_cwnd(&p->dev, u->qp_cwnd.num, packets);
	ops_share(&p->dev, p->dev.uid, p->q.share);
	return 0;
}

int do_qp_stats(struct proc *p, union weftd_body *u, int fd, int *out)
{
	uint32_t num = u->qp_stats.v;

	(void)fd, (void)out;
	if (!own_qp(p, num))
		return ops_not_yours(p, "QP", num);
	memset(&u->qp_stats_rep, 0, sizeof(u->qp_stats_rep));
	return weft_direct.qp_stats(&p->dev, num, &u->qp_stats_rep);
}

static void to_sockaddr(const struct weft_dev *dev, bool v6, const uint32_t addr[4],
			struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (void *)ss;
	struct sockaddr_in *in = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = v6 ? AF_INET6 : AF_INET;
	if (!v6) {
		in->sin_addr.s_addr = addr[0];
		return;
	}
	memcpy(&in6->sin6_addr, addr, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = dev->ifindex;
}

/* The MAC addresses as they are now, whatever the client has heard. */
int do_qp_route(struct proc *p, union weftd_body *u, int fd, int *out)
{
	struct weft_qpctl *ctl = own_qp(p, u->qp_route.v);
	struct sockaddr_storage local, peer;
	uint8_t hop[16], mac[12];
	int err;

	(void)fd, (void)out;
	if (!ctl || ctl->state != WEFT_QP_RTS)
		return ops_not_yours(p, "connected QP", u->qp_route.v);
	to_sockaddr(&p->dev, ctl->flags & WEFT_QPF_V6, ctl->saddr, &local);
	to_sockaddr(&p->dev, ctl->flags & WEFT_QPF_V6, ctl->daddr, &peer);
	err = weft_route(&p->dev, &local, &peer, hop, mac) ?: weft_link_addr(&p->dev, mac + 6);
	if (err)
		return err;
	for (unsigned at = 0; at < 12; at += 6)
		if (memcmp(ctl->tmpl + at, mac + at, 6))
			weft_direct.qp_mac(&p->dev, ctl->qpn, at, mac + at);
	memcpy(u->qp_route_rep.tmpl, ctl->tmpl, sizeof(ctl->tmpl));
	return 0;
}

/* What the library notes; XDP's own events nobody else may write. */
int do_qp_note(struct proc *p, union weftd_body *u, int fd, int *out)
{
	struct weft_trace_event e = u->qp_note.e;

	(void)fd, (void)out;
	if (e.kind != WEFT_TRACE_link && e.kind != WEFT_TRACE_device && e.kind != WEFT_TRACE_bye &&
	    e.kind != WEFT_TRACE_peer_gone)
		return ops_bad(p, "the event");
	e.now = weft_now_ns();
	if (own_qp(p, u->qp_note.num))
		weft_direct.qp_note(&p->dev, u->qp_note.num, &e);
	return 0;
}
