/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the driver tells of an interface (ethtool), and what of that hinders weft. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ethtool.h"
#include "internal.h"

/* Does it spread such packets without looking at their ports? */
static bool hashes_no_ports(int fd, const char *ifname, uint32_t flow)
{
	struct ethtool_rxnfc rx = { .cmd = ETHTOOL_GRXFH, .flow_type = flow };

	return weft_ethtool(fd, ifname, &rx) && rx.data &&
	       !(rx.data & (RXH_L4_B_0_1 | RXH_L4_B_2_3));
}

void weft_nic_ask(const char *ifname, struct weft_nic *nic)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_GCHANNELS };
	struct ethtool_drvinfo drv = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_value flags = { .cmd = ETHTOOL_GFLAGS };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { 0 };

	memset(nic, 0, sizeof(*nic));
	if (fd < 0)
		return;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (!ioctl(fd, SIOCGIFMTU, &ifr))
		nic->mtu = ifr.ifr_mtu;
	if (weft_ethtool(fd, ifname, &flags)) {
		nic->lro = flags.data & ETH_FLAG_LRO;
		nic->rxvlan = flags.data & ETH_FLAG_RXVLAN;
	}
	/* A veth has no wire that tags come from: its other end is set up by the same hands. */
	if (weft_ethtool(fd, ifname, &drv) && !strcmp(drv.driver, "veth"))
		nic->rxvlan = false;
	/* With one queue there is nothing to spread over. */
	if (!weft_ethtool(fd, ifname, &ch) || ch.rx_count + ch.combined_count > 1) {
		nic->hash4 = hashes_no_ports(fd, ifname, UDP_V4_FLOW);
		nic->hash6 = hashes_no_ports(fd, ifname, UDP_V6_FLOW);
	}
	close(fd);
}

unsigned weft_nic_advice(const char *ifname, const struct weft_nic *nic, uint32_t mtu,
			 char advice[WEFT_ADVICE_MAX][WEFT_ADVICE_LEN])
{
	const bool hash[2] = { nic->hash4, nic->hash6 };
	unsigned n = 0;

	if (nic->mtu && (weft_path_payload(nic->mtu, false) != weft_path_payload(mtu, false) ||
			 weft_path_payload(nic->mtu, true) != weft_path_payload(mtu, true)))
		snprintf(advice[n++], WEFT_ADVICE_LEN,
			 "MTU %u now, but %u when weft was attached, by which connections still "
			 "go; run 'weft down %s', 'weft up %s'",
			 nic->mtu, mtu, ifname, ifname);
	if (nic->lro)
		snprintf(advice[n++], WEFT_ADVICE_LEN,
			 "LRO is on, with which drivers refuse XDP or merge packets before it; run "
			 "'ethtool -K %s lro off'",
			 ifname);
	if (nic->rxvlan)
		snprintf(advice[n++], WEFT_ADVICE_LEN,
			 "rxvlan is on, so a tagged packet looks like an untagged one to weft; run "
			 "'ethtool -K %s rxvlan off'",
			 ifname);
	for (int v6 = 0; v6 < 2; v6++)
		if (hash[v6])
			snprintf(advice[n++], WEFT_ADVICE_LEN,
				 "the ports of UDP over IPv%d do not count when packets are spread "
				 "over its queues; run 'ethtool -N %s rx-flow-hash udp%d sdfn'",
				 v6 ? 6 : 4, ifname, v6 ? 6 : 4);
	return n;
}
