/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One question to a driver, of those in linux/ethtool.h. */
#ifndef WEFT_ETHTOOL_H
#define WEFT_ETHTOOL_H

#include <stdbool.h>
#include <stdio.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>

/* fd: any socket; cmd: begins with its ETHTOOL_ number, and takes the answer. */
static inline bool weft_ethtool(int fd, const char *ifname, void *cmd)
{
	struct ifreq ifr = {};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	ifr.ifr_data = cmd;
	return !ioctl(fd, SIOCETHTOOL, &ifr);
}

#endif
