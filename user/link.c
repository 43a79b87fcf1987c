/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Interfaces over rtnetlink: what the kernel says of a link, and bringing up the doorbell. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "device.h"

#ifndef IN6_ADDR_GEN_MODE_NONE
#define IN6_ADDR_GEN_MODE_NONE 1
#endif
#define BUF 16384 /* a link with many virtual functions fills several KiB */

/* Send one request and hand its answers to cb. 0 or -errno. */
static int ask(struct nlmsghdr *nlh, mnl_cb_t cb, void *arg)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	char buf[BUF];
	ssize_t n;
	int err = 0;

	if (!nl)
		return -errno;
	nlh->nlmsg_seq = 1;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0) {
		err = -errno;
		goto out;
	}
	do {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0 && errno == EINTR) {
			n = MNL_CB_OK;
			continue;
		}
		if (n >= 0)
			n = mnl_cb_run(buf, n, 1, mnl_socket_get_portid(nl), cb, arg);
	} while (n > MNL_CB_STOP);
	if (n < 0)
		err = -errno;
out:
	mnl_socket_close(nl);
	return err;
}

static void parse_xdp(const struct nlattr *nest, struct weft_link *l)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, nest) {
		switch (mnl_attr_get_type(a)) {
		case IFLA_XDP_ATTACHED: l->xdp_mode = mnl_attr_get_u8(a); break;
		case IFLA_XDP_PROG_ID:
			if (!l->xdp_id)
				l->xdp_id = mnl_attr_get_u32(a);
			break;
		case IFLA_XDP_DRV_PROG_ID: l->xdp_id = mnl_attr_get_u32(a); break;
		}
	}
}

static int parse_link(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct weft_link *l = arg;
	const struct nlattr *a, *b;

	l->ifindex = ifi->ifi_index;
	l->up = (ifi->ifi_flags & IFF_UP) && (ifi->ifi_flags & IFF_RUNNING);
	mnl_attr_for_each(a, nlh, sizeof(*ifi)) {
		switch (mnl_attr_get_type(a)) {
		case IFLA_IFNAME:
			snprintf(l->name, sizeof(l->name), "%s", mnl_attr_get_str(a));
			break;
		case IFLA_MTU: l->mtu = mnl_attr_get_u32(a); break;
		case IFLA_ADDRESS:
			if (mnl_attr_get_payload_len(a) == sizeof(l->mac))
				memcpy(l->mac, mnl_attr_get_payload(a), sizeof(l->mac));
			break;
		case IFLA_NUM_RX_QUEUES: l->rx_queues = mnl_attr_get_u32(a); break;
		case IFLA_NUM_TX_QUEUES: l->tx_queues = mnl_attr_get_u32(a); break;
		case IFLA_LINK: l->peer = mnl_attr_get_u32(a); break;
		case IFLA_LINK_NETNSID: l->peer_ns = (int)mnl_attr_get_u32(a); break;
		case IFLA_XDP: parse_xdp(a, l); break;
		case IFLA_LINKINFO:
			mnl_attr_for_each_nested(b, a)
				if (mnl_attr_get_type(b) == IFLA_INFO_KIND)
					snprintf(l->kind, sizeof(l->kind), "%s",
						 mnl_attr_get_str(b));
			break;
		}
	}
	return MNL_CB_OK;
}

/* In the namespace of that id; -1: in this one. */
static int link_get(const char *ifname, int ifindex, int nsid, struct weft_link *l)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;
	int err;

	memset(l, 0, sizeof(*l));
	l->peer_ns = -1;
	if (ifname && (!*ifname || strlen(ifname) >= ALTIFNAMSIZ))
		return -ENODEV;
	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = ifname ? 0 : ifindex;
	if (ifname)
		mnl_attr_put_strz(nlh, strlen(ifname) < IF_NAMESIZE ? IFLA_IFNAME : IFLA_ALT_IFNAME,
				  ifname);
	if (nsid >= 0)
		mnl_attr_put_u32(nlh, IFLA_TARGET_NETNSID, nsid);
	err = ask(nlh, parse_link, l);
	return err ? err : l->ifindex ? 0 : -ENODEV;
}

int weft_link_get(const char *ifname, int ifindex, struct weft_link *l)
{
	return link_get(ifname, ifindex, -1, l);
}

int weft_link_peer(const struct weft_link *l, struct weft_link *peer)
{
	return strcmp(l->kind, "veth") || !l->peer ? -ENODEV
						   : link_get(NULL, l->peer, l->peer_ns, peer);
}

/* No IPv6 address of its own: nothing but doorbells shall be seen on it. */
static void no_ipv6(const char *ifname)
{
	char buf[512], path[96];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nlattr *spec, *in6;
	int fd, err;

	nlh->nlmsg_type = RTM_SETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, ifname);
	spec = mnl_attr_nest_start(nlh, IFLA_AF_SPEC);
	in6 = mnl_attr_nest_start(nlh, AF_INET6);
	mnl_attr_put_u8(nlh, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(nlh, in6);
	mnl_attr_nest_end(nlh, spec);
	err = ask(nlh, NULL, NULL);

	/* /proc/sys/net shows the thread's namespace. Absent without IPv6, which is as good. */
	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", ifname);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) != 1 || err)
		weft_logf(WEFT_LOG_DEBUG, "%s: IPv6 may give it an address: %s", ifname,
			  strerror(err ? -err : errno));
	close(fd);
}

/*
 * The kernel keeps a queue of this length for each of a tap's 256 queues; nobody reads them.
 * And a name tag: who finds the tap later knows whose it was.
 */
static int short_queues(const char *ifname)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = RTM_SETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, ifname);
	mnl_attr_put_u32(nlh, IFLA_TXQLEN, 1);
	mnl_attr_put_str(nlh, IFLA_IFALIAS, WEFT_DB_ALIAS);
	return ask(nlh, NULL, NULL);
}

int weft_link_up(const char *ifname)
{
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;
	int err;

	no_ipv6(ifname);
	err = short_queues(ifname);
	if (err)
		return err;
	nlh->nlmsg_type = RTM_NEWLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	mnl_attr_put_strz(nlh, IFLA_IFNAME, ifname);
	return ask(nlh, NULL, NULL);
}
