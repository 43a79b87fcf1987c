// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What helps when a driver refuses XDP, judged by its words. */
#include <stdio.h>
#include <string.h>

#include "device.h"

/* What a full payload needs, over IPv6 too; some drivers take less. */
static void of_mtu(const char *why, const struct weft_xdp_facts *f, char *remedy, size_t len)
{
	if (*f->peer)
		snprintf(
			remedy, len,
			" (its MTU is %u, that of its other end %s %u); run 'ip link set dev %s mtu "
			"3440' (or less) at both ends",
			f->mtu, f->peer, f->peer_mtu, f->ifname);
	else
		snprintf(remedy, len,
			 " (its MTU is %u); run 'ip link set dev %s mtu 3440' (or less)%s", f->mtu,
			 f->ifname, strstr(why, "Peer") ? " at both ends" : "");
}

static void of_queues(const struct weft_xdp_facts *f, char *remedy, size_t len)
{
	if (!*f->peer || !f->rx)
		snprintf(remedy, len,
			 " (receive queues: %u); set another number with 'ethtool -L %s'", f->rx,
			 f->ifname);
	else if (f->peer_tx <= f->rx_max)
		snprintf(
			remedy, len,
			" (receive queues: %u); run 'ethtool -L %s rx %u', as many as its other end "
			"%s can have to transmit",
			f->rx, f->ifname, f->peer_tx, f->peer);
	else
		snprintf(
			remedy, len,
			" (receive queues: %u); run 'ethtool -L %s tx %u' at its other end, or make "
			"the pair anew with as many queues on both sides",
			f->rx, f->peer, f->rx);
}

/* Drivers say much the same in different words. */
void weft_xdp_remedy(const char *why, const struct weft_xdp_facts *f, char *remedy, size_t len)
{
	if (strstr(why, "MTU"))
		of_mtu(why, f, remedy, len);
	else if (strstr(why, "host is implementing"))
		snprintf(remedy, len,
			 "; the host merges or completes packets for "
			 "this virtual machine and cannot be told to stop: start it with "
			 "ctrl_guest_offloads=on, or with guest_csum=off,"
			 "guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off");
	else if (strstr(why, "LRO") || strstr(why, "GRO"))
		snprintf(remedy, len, "; run 'ethtool -K %s lro off rx-gro-hw off'", f->ifname);
	else if (strstr(why, "queue") || strstr(why, "channel"))
		of_queues(f, remedy, len);
	else
		snprintf(remedy, len, "; change that with 'ip link' or 'ethtool'");
}
