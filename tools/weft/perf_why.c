// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf, the client: why a connection has failed, and what to do about it, in words. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf.h"

/* One status for four troubles; the interface and its pins tell which. */
static const char *dev_remedy(const char *dev)
{
	char name[IF_NAMESIZE];
	struct ifreq ifr = {};
	struct pinned *list;
	bool bell = false, prog = false;
	int fd, n, up;

	if (!if_nametoindex(dev))
		return "the interface is gone, see 'ip link'";
	if (access("/sys/fs/bpf/weft", R_OK) && errno == EACCES)
		return "see 'ip link' and, as root, 'weft dev show'";
	/* the pins may still be there, marked */
	for (n = pins_find(NULL, &list); n > 0; n--)
		if (!strcmp(list[n - 1].ifname, dev) && !(list[n - 1].cfg.flags & WEFT_DEV_DOWN))
			break;
	if (n) {
		bell = if_indextoname(list[n - 1].cfg.db_ifindex, name);
		prog = pins_attach(&list[n - 1]);
	}
	free(list);
	if (!n)
		return "weft was taken down on the interface, see 'weft dev show'";
	if (!bell)
		return "its doorbell was removed, see 'weft dev show'";
	if (!prog)
		return "its XDP program was unloaded, see 'weft dev show'";
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	up = fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) ||
	     ((ifr.ifr_flags & IFF_UP) && (ifr.ifr_flags & IFF_RUNNING));
	if (fd >= 0)
		close(fd);
	return up ? "check the interface with 'ip link'" : "the link is down, see 'ip link'";
}

const char *perf_remedy(const struct perf_run *r, enum weft_wc_status s)
{
	static char text[160];
	struct weft_link link;
	unsigned len;

	switch (s) {
	case WEFT_WC_REM_CLOSED_ERR: return "is the server still running there?";
	case WEFT_WC_RETRY_EXC_ERR:
		len = weft_qp_payload(r->ctl) + WEFT_HDR_LEN - WEFT_L2_LEN +
		      (r->ctl->peer.ss_family == AF_INET6 ? WEFT_V6_LEN : WEFT_V4_LEN);
		if (!weft_link_get(r->dev, 0, &link) && link.mtu < len)
			snprintf(text, sizeof(text),
				 "%s has MTU %u now; run 'weft down %s', 'weft up %s'", r->dev,
				 link.mtu, r->dev, r->dev);
		else
			snprintf(text, sizeof(text),
				 "check whether the server's host is up, and the path: everything "
				 "between must carry IP packets of %u bytes",
				 len);
		return text;
	case WEFT_WC_DEV_ERR: return dev_remedy(r->dev);
	default: return "see 'weft stats show'";
	}
}
