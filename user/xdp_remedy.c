// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What helps when a driver refuses XDP, judged by its words. */
#include <stdio.h>
#include <string.h>

#include "device.h"

/* Drivers say much the same in different words. */
void weft_xdp_remedy(const char *why, const char *ifname, char *remedy, size_t len)
{
	if (strstr(why, "MTU"))
		/* what a full payload needs, over IPv6 too; some drivers take less */
		snprintf(remedy, len, "run 'ip link set dev %s mtu 3440' (or less)%s", ifname,
			 strstr(why, "Peer") ? " at both ends" : "");
	else if (strstr(why, "host is implementing"))
		snprintf(
			remedy, len,
			"the host merges or completes packets for this virtual machine and cannot "
			"be told to stop: start it with ctrl_guest_offloads=on, or with guest_csum=off,"
			"guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off");
	else if (strstr(why, "LRO") || strstr(why, "GRO"))
		snprintf(remedy, len, "run 'ethtool -K %s lro off rx-gro-hw off'", ifname);
	else if (strstr(why, "queue") || strstr(why, "channel"))
		snprintf(remedy, len, "set another number with 'ethtool -L %s'", ifname);
	else
		snprintf(remedy, len, "change that with 'ip link' or 'ethtool'");
}
