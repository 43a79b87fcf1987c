// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the control thread learns from rtnetlink: the interface went down, moved or vanished; new MACs. */
#include <string.h>
#include <unistd.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "ctl.h"
#include "device.h"
#include "nic_prog.h"
#include "priv.h"

const char *weft_dev_lost(const struct weft_dev *dev)
{
	if (dev->maps.cfg->flags & WEFT_DEV_DOWN)
		return "weft was taken down on this interface";
	if (dev->prog_gone)
		return "somebody unloaded its XDP program";
	return dev->db_gone ? "somebody removed its doorbell" : "the interface is gone";
}

static void note_all(struct weft_ctl *c, enum weft_trace_kind kind, unsigned x)
{
	for (unsigned i = 0; i < c->n; i++)
		weft_tele_note(c->qp[i], kind, x, 0, 0, 0);
}

static void device_dead(struct weft_ctl *c)
{
	struct weft_dev *dev = c->dev;
	uint64_t one = 1;

	if (dev->dead)
		return;
	/* why, weftd must tell */
	if (dev->remote)
		dev->priv->tidy(dev);
	__atomic_store_n(&dev->dead, true, __ATOMIC_RELEASE);
	weft_logf(WEFT_LOG_WARN, "%s: %s; its connections fail", dev->ifname, weft_dev_lost(dev));
	(void)!write(c->lost_fd, &one, sizeof(one));
	weft_event_put(dev, WEFT_EVENT_DEVICE_LOST, NULL, 0);
	note_all(c, WEFT_TRACE_device,
		 dev->maps.cfg->flags & WEFT_DEV_DOWN ? WEFT_LOST_DOWN
		 : dev->db_gone                       ? WEFT_LOST_DOORBELL
		 : dev->prog_gone                     ? WEFT_LOST_PROG
						      : WEFT_LOST_GONE);
	for (unsigned i = 0; i < c->n; i++) {
		c->qp[i]->doom_ns = 0;
		weft_ctl_doom(c, c->qp[i], WEFT_WC_DEV_ERR, 0);
	}
}

static void set_mac(struct weft_ctl *c, struct weft_qp *qp, unsigned at, const uint8_t *mac)
{
	const uint8_t *t = c->dev->maps.ctl[qp->slot].tmpl + at;

	if (!qp->status && memcmp(t, mac, 6))
		c->dev->priv->qp_mac(c->dev, qp->num, at, mac);
}

/* Set down by somebody's hand, or by what is about to delete it: then there is nothing to set up. */
void weft_link_doorbell_up(struct weft_dev *dev)
{
	char name[IF_NAMESIZE];
	int saved;

	if (dev->maps.cfg->flags & WEFT_DEV_DOWN || weft_ns_enter(dev, &saved))
		return;
	if (if_indextoname(dev->maps.cfg->db_ifindex, name) && !weft_link_up(name))
		weft_logf(WEFT_LOG_WARN, "%s: its doorbell %s was set down; it is up again",
			  dev->ifname, name);
	weft_ns_leave(saved);
}

/* Does the interface still run our program, directly or under a dispatcher? */
bool weft_link_runs_program(struct weft_dev *dev)
{
	uint32_t cfg = weft_map_id(dev->maps.devcfg);
	struct weft_nic_prog p = { .fd = -1 };
	struct weft_link link;
	int tries = 5, saved, gone;
	bool ours = false;

	if (weft_ns_enter(dev, &saved))
		return true;
	/* while a dispatcher is being exchanged, what was just seen may be gone already */
	do {
		gone = weft_link_get(NULL, dev->ifindex, &link);
		ours = !gone && weft_attach_is_on(dev->pin_dir, &link);
		if (!gone && !ours)
			weft_nic_find(&link, cfg, &p);
	} while (!ours && p.fd < 0 && !gone && link.xdp_id && --tries && !usleep(10000));
	weft_nic_close(&p);
	weft_ns_leave(saved);
	return gone || ours || p.id; /* that the interface went is told by other news */
}

/* Only a program that another loader attached can be taken off by others; this is how it shows. */
static bool program_gone(struct weft_dev *dev, const struct nlmsghdr *nlh)
{
	const struct nlattr *a, *b;
	uint32_t id = 0;

	mnl_attr_for_each(a, nlh, sizeof(struct ifinfomsg)) {
		if (mnl_attr_get_type(a) != IFLA_XDP)
			continue;
		mnl_attr_for_each_nested(b, a)
			if (mnl_attr_get_type(b) == IFLA_XDP_PROG_ID)
				id = mnl_attr_get_u32(b);
	}
	if (id == dev->xdp_id)
		return false;
	dev->xdp_id = id;
	return !dev->priv->runs_program(dev);
}

static void see_mtu(struct weft_dev *dev, uint32_t mtu)
{
	if (dev->mtu && mtu != dev->mtu)
		weft_event_put(dev, WEFT_EVENT_MTU, NULL, mtu);
	dev->mtu = mtu;
}

static void on_link(struct weft_ctl *c, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct weft_dev *dev = c->dev;
	const struct nlattr *at;
	bool up;

	/* bridge ports report with a family of their own */
	if (ifi->ifi_family != AF_UNSPEC)
		return;
	if (ifi->ifi_index != dev->ifindex && ifi->ifi_index != (int)dev->maps.cfg->db_ifindex)
		return;
	if (nlh->nlmsg_type == RTM_DELLINK) {
		if (ifi->ifi_index != dev->ifindex) {
			dev->db_gone |= !dev->dead;
			weft_doorbell_lost(dev);
		}
		device_dead(c);
		return;
	}
	if (ifi->ifi_index != dev->ifindex) {
		if (!(ifi->ifi_flags & IFF_UP))
			dev->priv->doorbell_up(dev);
		return;
	}
	if (!dev->dead && program_gone(dev, nlh)) {
		dev->prog_gone = true;
		device_dead(c);
		return;
	}
	up = (ifi->ifi_flags & IFF_UP) && (ifi->ifi_flags & IFF_RUNNING);
	if (up == !dev->down_ns)
		goto mac;
	dev->down_ns = up ? 0 : weft_now_ns();
	weft_logf(WEFT_LOG_INFO, "%s: the link is %s", dev->ifname, up ? "up" : "down");
	note_all(c, WEFT_TRACE_link, up);
	weft_event_put(dev, up ? WEFT_EVENT_PORT_UP : WEFT_EVENT_PORT_DOWN, NULL, 0);
mac:
	mnl_attr_for_each(at, nlh, sizeof(*ifi)) {
		if (mnl_attr_get_type(at) == IFLA_MTU && mnl_attr_get_payload_len(at) == 4)
			see_mtu(dev, mnl_attr_get_u32(at));
		if (mnl_attr_get_type(at) == IFLA_ADDRESS && mnl_attr_get_payload_len(at) == 6)
			for (unsigned i = 0; i < c->n; i++)
				set_mac(c, c->qp[i], 6, mnl_attr_get_payload(at));
	}
}

static void on_neigh(struct weft_ctl *c, const struct nlmsghdr *nlh)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);
	const uint8_t *dst = NULL, *mac = NULL;
	size_t len = ndm->ndm_family == AF_INET6 ? 16 : 4;
	const struct nlattr *at;

	if (nlh->nlmsg_type != RTM_NEWNEIGH || ndm->ndm_ifindex != c->dev->ifindex ||
	    !(ndm->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)))
		return;
	mnl_attr_for_each(at, nlh, sizeof(*ndm)) {
		if (mnl_attr_get_type(at) == NDA_DST && mnl_attr_get_payload_len(at) == len)
			dst = mnl_attr_get_payload(at);
		if (mnl_attr_get_type(at) == NDA_LLADDR && mnl_attr_get_payload_len(at) == 6)
			mac = mnl_attr_get_payload(at);
	}
	if (!dst || !mac)
		return;
	for (unsigned i = 0; i < c->n; i++)
		if (c->qp[i]->peer.ss_family == ndm->ndm_family &&
		    !memcmp(c->qp[i]->nexthop, dst, len))
			set_mac(c, c->qp[i], 0, mac);
}

static void ask_for(struct weft_ctl *c, int ifindex)
{
	uint8_t buf[128] = { 0 };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = ifindex;
	(void)!send(c->nl_fd, nlh, nlh->nlmsg_len, 0);
}

void weft_ctl_link_ask(struct weft_ctl *c)
{
	ask_for(c, c->dev->ifindex);
	ask_for(c, c->dev->maps.cfg->db_ifindex);
}

static void on_message(struct weft_ctl *c, const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case NLMSG_ERROR:
		if (((const struct nlmsgerr *)mnl_nlmsg_get_payload(nlh))->error == -ENODEV)
			device_dead(c);
		break;
	case RTM_NEWLINK:
	case RTM_DELLINK: on_link(c, nlh); break;
	case RTM_NEWNEIGH: on_neigh(c, nlh); break;
	}
}

/* All that is there, so that the caller knows how the link is now; but not for ever. */
void weft_ctl_link_read(struct weft_ctl *c)
{
	uint8_t buf[32768] __attribute__((aligned(NLMSG_ALIGNTO)));

	for (int i = 0; i < 64; i++) {
		ssize_t n = recv(c->nl_fd, buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *nlh = (const void *)buf;
		int left = n;

		/* events were lost: the links at least can be asked for */
		if (n < 0 && errno == ENOBUFS)
			weft_ctl_link_ask(c);
		else if (n < 0)
			return;
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			on_message(c, nlh);
	}
}

int weft_ctl_link_open(struct weft_ctl *c)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK,
				  .nl_groups = RTMGRP_LINK | RTMGRP_NEIGH };
	int err, saved;

	err = weft_ns_enter(c->dev, &saved);
	if (err)
		return err;
	c->nl_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (c->nl_fd < 0 || bind(c->nl_fd, (struct sockaddr *)&sa, sizeof(sa)))
		err = -errno;
	weft_ns_leave(saved);
	return err;
}
