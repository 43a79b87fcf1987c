// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Why the kernel refuses an XDP program, in its own words. */
#include <stdio.h>
#include <string.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "device.h"

/* The text in an NLMSG_ERROR, "" if there is none. */
static void read_text(const struct nlmsghdr *nlh, char *why, size_t len)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t off = sizeof(*e);
	const struct nlattr *a;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		off += MNL_ALIGN(e->msg.nlmsg_len) - MNL_NLMSG_HDRLEN;
	mnl_attr_for_each(a, nlh, off)
		if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG)
			snprintf(why, len, "%.*s", mnl_attr_get_payload_len(a),
				 mnl_attr_get_str(a));
}

/* Attach the program, or take it off again. 0 or -errno, and the kernel's text. */
static int set_xdp(struct mnl_socket *nl, int ifindex, int prog_fd, bool on, char *why, size_t len)
{
	uint32_t how = on ? XDP_FLAGS_UPDATE_IF_NOEXIST : XDP_FLAGS_REPLACE;
	char buf[8192] __attribute__((aligned(NLMSG_ALIGNTO))) = { 0 };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi;
	struct nlattr *nest;
	ssize_t n;

	nlh->nlmsg_type = RTM_SETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	ifi->ifi_index = ifindex;
	nest = mnl_attr_nest_start(nlh, IFLA_XDP);
	mnl_attr_put_u32(nlh, IFLA_XDP_FD, on ? prog_fd : -1);
	if (!on)
		mnl_attr_put_u32(nlh, IFLA_XDP_EXPECTED_FD, prog_fd);
	mnl_attr_put_u32(nlh, IFLA_XDP_FLAGS, XDP_FLAGS_DRV_MODE | how);
	mnl_attr_nest_end(nlh, nest);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n < (ssize_t)(MNL_NLMSG_HDRLEN + sizeof(struct nlmsgerr)) ||
	    nlh->nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	read_text(nlh, why, len);
	return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(nlh))->error;
}

/* A BPF link is refused without a word; rtnetlink refuses the same program with a reason. */
void weft_xdp_why(int ifindex, int prog_fd, char *why, size_t len)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int one = 1;

	*why = '\0';
	if (!nl)
		return;
	if (!mnl_socket_setsockopt(nl, NETLINK_EXT_ACK, &one, sizeof(one)) &&
	    !mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) &&
	    !set_xdp(nl, ifindex, prog_fd, true, why, len)) {
		/* what hindered it has just ended: it may not stay */
		set_xdp(nl, ifindex, prog_fd, false, why, len);
		*why = '\0';
	}
	mnl_socket_close(nl);
}
