// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* How many frames a NIC's transmit queues have room for, and how the CPUs share them. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <bpf/libbpf.h>

#include "ethtool.h"
#include "tx_room.h"

/*
 * virtio_net sends XDP frames on queues of their own, one a CPU, when the device
 * has them beyond those that the stack uses; else on the stack's, under a lock.
 */
static bool has_spare(const struct weft_tx_room *r)
{
	return !strcmp(r->driver, "virtio_net");
}

void weft_tx_room_ask(const char *ifname, unsigned cpus, struct weft_tx_room *r)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_GCHANNELS };
	struct ethtool_ringparam ring = { .cmd = ETHTOOL_GRINGPARAM };
	struct ethtool_drvinfo drv = { .cmd = ETHTOOL_GDRVINFO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*r = (struct weft_tx_room){ .cpus = cpus ? cpus : 1 };
	if (fd < 0)
		return;
	if (weft_ethtool(fd, ifname, &drv))
		snprintf(r->driver, sizeof(r->driver), "%s", drv.driver);
	if (has_spare(r) && libbpf_num_possible_cpus() > 0)
		r->cpus = libbpf_num_possible_cpus();
	if (weft_ethtool(fd, ifname, &ch)) {
		r->rx = ch.rx_count + ch.combined_count;
		r->queues = ch.tx_count + ch.combined_count;
		r->most = ch.max_tx + ch.max_combined;
		r->combined = ch.max_combined != 0;
	}
	if (weft_ethtool(fd, ifname, &ring)) {
		r->ring = ring.tx_pending;
		if (ring.rx_pending && ring.rx_pending < r->ring)
			r->ring = ring.rx_pending;
	}
	close(fd);
}

bool weft_tx_room_unsure(const struct weft_tx_room *r)
{
	return has_spare(r) && r->queues > r->cpus && r->queues + r->cpus > r->most;
}

void weft_tx_room_attached(struct weft_tx_room *r, bool shared)
{
	if (has_spare(r) && !shared && r->queues > r->cpus)
		r->queues -= r->cpus;
}

bool weft_tx_room_shared(const struct weft_tx_room *r)
{
	if (!r->queues || !strcmp(r->driver, "veth"))
		return false;
	return has_spare(r) ? r->queues + r->cpus > r->most : r->queues < r->cpus;
}

bool weft_tx_room_crashes(const struct weft_tx_room *r)
{
	return has_spare(r) && weft_tx_room_shared(r) && r->queues > r->cpus;
}

void weft_tx_room_budget(const struct weft_tx_room *r, uint32_t *budget, uint32_t *hard)
{
	unsigned ring = r->ring;

	if (!strcmp(r->driver, "veth")) {
		*budget = WEFT_VETH_BUDGET;
		*hard = WEFT_VETH_HARD;
		return;
	}
	*budget = WEFT_NIC_BUDGET;
	*hard = WEFT_NIC_HARD;
	if (!ring)
		return;
	if (weft_tx_room_shared(r))
		ring /= (r->cpus + r->queues - 1) / r->queues + has_spare(r);
	if (ring < 32)
		ring = 32;
	/* the proportions of a veth, whose ring holds 256 */
	if (ring * WEFT_VETH_BUDGET / 256 < *budget)
		*budget = ring * WEFT_VETH_BUDGET / 256;
	if (ring * WEFT_VETH_HARD / 256 < *hard)
		*hard = ring * WEFT_VETH_HARD / 256;
}

void weft_tx_room_why(const struct weft_tx_room *r, const char *ifname, char *why, size_t len)
{
	unsigned want = r->cpus < r->most ? r->cpus : r->most;
	size_t n;

	if (!strcmp(r->driver, "veth")) {
		snprintf(why, len, "veth: a frame goes to the other end's queue of its CPU");
		return;
	}
	if (!r->queues) {
		snprintf(why, len, "the driver does not tell its queues");
		return;
	}
	if (!weft_tx_room_shared(r)) {
		snprintf(why, len, "%u transmit queues%s, %u CPUs", r->queues,
			 has_spare(r) ? " and one more for each CPU" : "", r->cpus);
		return;
	}
	if (has_spare(r))
		want = r->most > r->cpus ? r->most - r->cpus : want < r->queues ? want : 0;
	n = snprintf(why, len, "%u transmit queues of %u and %u CPUs: %s; ", r->queues, r->most,
		     r->cpus,
		     has_spare(r) ? "none is left for XDP, which shares those of the stack"
				  : "some drivers drop what XDP sends from a CPU without one");
	if (n >= len)
		return;
	if (want && want != r->queues)
		snprintf(why + n, len - n,
			 "run 'weft down %s', 'ethtool -L %s %s %u', 'weft up %s'", ifname, ifname,
			 r->combined ? "combined" : "tx", want, ifname);
	else if (has_spare(r))
		snprintf(why + n, len - n, "give the virtual machine's NIC %u queues",
			 r->queues + r->cpus);
	else
		snprintf(why + n, len - n, "run programs with 'taskset -c 0-%u'", r->queues - 1);
}
