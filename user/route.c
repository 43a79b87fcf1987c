// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* How a peer is reached: next hop and its MAC address, by rtnetlink. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "internal.h"

#define NEIGH_WAIT_MS 1000
#define NEIGH_STEP_MS 10
#define NUD_USABLE    (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)

struct route_answer {
	uint32_t oif;
	bool local; /* the peer is this host */
	bool via;   /* through a gateway */
	uint8_t gateway[16];
};

struct neigh_answer {
	bool usable;
	uint8_t mac[6];
};

static const void *addr_bytes(const struct sockaddr_storage *ss, size_t *len)
{
	if (ss->ss_family == AF_INET6) {
		*len = 16;
		return &((const struct sockaddr_in6 *)ss)->sin6_addr;
	}
	*len = 4;
	return &((const struct sockaddr_in *)ss)->sin_addr;
}

static int on_route(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct route_answer *a = arg;
	struct nlattr *at;

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	a->local = rtm->rtm_type == RTN_LOCAL;
	mnl_attr_for_each(at, nlh, sizeof(*rtm)) {
		size_t n = mnl_attr_get_payload_len(at);

		switch (mnl_attr_get_type(at)) {
		case RTA_OIF: a->oif = mnl_attr_get_u32(at); break;
		case RTA_GATEWAY:
			if (n <= sizeof(a->gateway))
				memcpy(a->gateway, mnl_attr_get_payload(at), n);
			a->via = n == 4 || n == 16;
			break;
		case RTA_VIA:
			/* a gateway of the other family is not supported */
			a->oif = 0;
			break;
		}
	}
	return MNL_CB_OK;
}

static int on_neigh(const struct nlmsghdr *nlh, void *arg)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);
	struct neigh_answer *a = arg;
	struct nlattr *at;

	if (nlh->nlmsg_type != RTM_NEWNEIGH)
		return MNL_CB_OK;
	mnl_attr_for_each(at, nlh, sizeof(*ndm)) {
		if (mnl_attr_get_type(at) == NDA_LLADDR && mnl_attr_get_payload_len(at) == 6) {
			memcpy(a->mac, mnl_attr_get_payload(at), 6);
			a->usable = ndm->ndm_state & NUD_USABLE;
		}
	}
	return MNL_CB_OK;
}

/* One request, one answer. */
static int ask(struct mnl_socket *nl, struct nlmsghdr *nlh, mnl_cb_t cb, void *arg)
{
	static uint32_t seq;
	uint8_t buf[8192];
	ssize_t n;

	nlh->nlmsg_seq = __atomic_add_fetch(&seq, 1, __ATOMIC_RELAXED);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n < 0)
		return -errno;
	if (mnl_cb_run(buf, n, nlh->nlmsg_seq, mnl_socket_get_portid(nl), cb, arg) < 0)
		return -errno;
	return 0;
}

static int get_route(struct mnl_socket *nl, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer, struct route_answer *a)
{
	uint8_t buf[512] = { 0 };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *rtm;
	size_t len;
	const void *dst = addr_bytes(peer, &len);

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	rtm->rtm_family = peer->ss_family;
	rtm->rtm_dst_len = len * 8;
	mnl_attr_put(nlh, RTA_DST, len, dst);
	if (local) {
		rtm->rtm_src_len = len * 8;
		mnl_attr_put(nlh, RTA_SRC, len, addr_bytes(local, &len));
	}
	if (peer->ss_family == AF_INET6 && ((const struct sockaddr_in6 *)peer)->sin6_scope_id)
		mnl_attr_put_u32(nlh, RTA_OIF, ((const struct sockaddr_in6 *)peer)->sin6_scope_id);
	memset(a, 0, sizeof(*a));
	return ask(nl, nlh, on_route, a);
}

static struct nlmsghdr *neigh_msg(uint8_t *buf, struct weft_dev *dev, int family, const void *hop)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *ndm = mnl_nlmsg_put_extra_header(nlh, sizeof(*ndm));

	ndm->ndm_family = family;
	ndm->ndm_ifindex = dev->ifindex;
	mnl_attr_put(nlh, NDA_DST, family == AF_INET6 ? 16 : 4, hop);
	return nlh;
}

static int get_neigh(struct mnl_socket *nl, struct weft_dev *dev, int family, const void *hop,
		     struct neigh_answer *a)
{
	uint8_t buf[256] = { 0 };
	struct nlmsghdr *nlh = neigh_msg(buf, dev, family, hop);
	int err;

	nlh->nlmsg_type = RTM_GETNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	memset(a, 0, sizeof(*a));
	err = ask(nl, nlh, on_neigh, a);
	return err == -ENOENT ? 0 : err;
}

/* What `ip neigh ... use` does: have the kernel resolve as if it had a packet to send. */
static int provoke_neigh(struct mnl_socket *nl, struct weft_dev *dev, int family, const void *hop)
{
	uint8_t buf[256] = { 0 };
	struct nlmsghdr *nlh = neigh_msg(buf, dev, family, hop);
	struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);

	nlh->nlmsg_type = RTM_NEWNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK;
	ndm->ndm_flags = NTF_USE;
	return ask(nl, nlh, NULL, NULL);
}

static int resolve(struct mnl_socket *nl, struct weft_dev *dev, int family, const uint8_t *hop,
		   uint8_t mac[6])
{
	struct neigh_answer na;
	int err, waited;

	for (waited = 0;; waited += NEIGH_STEP_MS) {
		err = get_neigh(nl, dev, family, hop, &na);
		if (err)
			return err;
		if (na.usable) {
			memcpy(mac, na.mac, 6);
			return 0;
		}
		if (waited >= NEIGH_WAIT_MS)
			return -EHOSTUNREACH;
		if (waited % 200 == 0) {
			err = provoke_neigh(nl, dev, family, hop);
			if (err)
				return err;
		}
		nanosleep(&(struct timespec){ .tv_nsec = NEIGH_STEP_MS * 1000000 }, NULL);
	}
}

static int ask_dev(struct weft_dev *dev, unsigned long what, struct ifreq *ifr)
{
	int saved, fd, err = weft_ns_enter(dev, &saved);

	if (err)
		return err;
	memset(ifr, 0, sizeof(*ifr));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		err = -errno;
	} else {
		/* by index: the interface may have been renamed */
		if (!if_indextoname(dev->ifindex, ifr->ifr_name) || ioctl(fd, what, ifr) < 0)
			err = -errno;
		close(fd);
	}
	weft_ns_leave(saved);
	return err;
}

/* Nothing is reached through a link that is down: that says more than that there is no route. */
static int unreachable(struct weft_dev *dev, const char *peer, const char *what, int err,
		       const char *look)
{
	struct ifreq ifr;

	if (!ask_dev(dev, SIOCGIFFLAGS, &ifr)) {
		if (!(ifr.ifr_flags & IFF_UP))
			return weft_err(EHOSTUNREACH, peer,
					"cannot be reached: %s is down; run 'ip link set %s up'",
					dev->ifname, dev->ifname);
		if (!(ifr.ifr_flags & IFF_RUNNING))
			return weft_err(EHOSTUNREACH, peer,
					"cannot be reached: the link of %s is down; see its cable "
					"or other end",
					dev->ifname);
	}
	return weft_err(EHOSTUNREACH, peer, "%s %s: %s; see '%s'", what, dev->ifname,
			strerror(-err), look);
}

/* local NULL: the kernel's choice of a source. mac NULL: the route only. */
int weft_route(struct weft_dev *dev, const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, uint8_t nexthop[16], uint8_t mac[6])
{
	char name[INET6_ADDRSTRLEN], oif[IF_NAMESIZE] = "";
	struct route_answer ra;
	struct mnl_socket *nl;
	int err, saved;
	size_t len;

	weft_addr_str(peer, name, sizeof(name));
	err = weft_ns_enter(dev, &saved);
	if (err)
		return err;
	nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	err = nl ? 0 : -errno;
	if (!err && mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0)
		err = -errno;
	if (!err)
		err = get_route(nl, local, peer, &ra);
	if (!err && ra.oif && !if_indextoname(ra.oif, oif))
		oif[0] = 0;
	weft_ns_leave(saved);
	if (err == -ENETUNREACH || err == -EHOSTUNREACH || err == -EACCES || err == -EINVAL) {
		err = unreachable(dev, name, "there is no route to it from", err, "ip route");
		goto out;
	}
	if (err) {
		err = weft_err(-err, name, "its route cannot be looked up: %s", strerror(-err));
		goto out;
	}
	if (ra.local || (int)ra.oif != dev->ifindex) {
		err = weft_err(EHOSTUNREACH, name,
			       "is reached through %s, not through %s; use the device it is on",
			       oif[0] ? oif : "another interface", dev->ifname);
		goto out;
	}
	memset(nexthop, 0, 16);
	if (ra.via)
		memcpy(nexthop, ra.gateway, 16);
	else
		memcpy(nexthop, addr_bytes(peer, &len), peer->ss_family == AF_INET6 ? 16 : 4);
	if (!mac)
		goto out;
	err = resolve(nl, dev, peer->ss_family, nexthop, mac);
	if (err)
		err = unreachable(dev, name, "its next hop does not answer on", err, "ip neigh");
out:
	if (nl)
		mnl_socket_close(nl);
	return err;
}

/* The device's own MAC address. */
int weft_link_addr(struct weft_dev *dev, uint8_t mac[6])
{
	struct ifreq ifr;
	int err = ask_dev(dev, SIOCGIFHWADDR, &ifr);

	if (err)
		return weft_err(ENODEV, dev->ifname, "the interface is gone: %s", strerror(-err));
	memcpy(mac, ifr.ifr_hwaddr.sa_data, 6);
	return 0;
}
