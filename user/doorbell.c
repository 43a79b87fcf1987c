/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ringing: one small frame into the doorbell veth, where XDP takes it up. */
#include <arpa/inet.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "device.h"

/* Room for the headers of a data packet and the largest message sent in place. */
#define FRAME_MAX (WEFT_V6_LEN + WEFT_HDR_LEN + 1024)
#define TRIES     4

struct frame {
	struct ethhdr eth;
	struct weft_db db;
	uint8_t zero[FRAME_MAX - sizeof(struct ethhdr) - sizeof(struct weft_db)];
} __attribute__((packed));

_Static_assert(sizeof(struct frame) == FRAME_MAX, "doorbell frame");

int weft_doorbell_open(struct weft_dev *dev)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET,
		.sll_protocol = 0, /* receives nothing */
		.sll_ifindex = dev->maps.cfg->db_tx_ifindex,
	};
	int one = 1, fd, err;

	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&ll, sizeof(ll))) {
		err = -errno;
		close(fd);
		return err;
	}
	dev->db_fd = fd;
	dev->db_ifindex = ll.sll_ifindex;
	return 0;
}

/*
 * Any thread. A doorbell that the kernel will not take after a few tries is left
 * to the timer, which rings again: -EAGAIN says so.
 */
int weft_doorbell(struct weft_dev *dev, uint32_t qpn, enum weft_db_op op, unsigned frame_len)
{
	struct frame f;
	int i;

	if (frame_len < ETH_ZLEN)
		frame_len = ETH_ZLEN;
	if (frame_len > sizeof(f))
		return -EINVAL;
	f.eth = (struct ethhdr){
		.h_dest = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
		.h_source = { 0x02 }, /* locally administered */
		.h_proto = htons(WEFT_DB_ETHERTYPE),
	};
	f.db = (struct weft_db){ .magic = WEFT_DB_MAGIC, .op = op, .qpn = qpn };
	memset(f.zero, 0, frame_len - offsetof(struct frame, zero));
	for (i = 0; i < TRIES; i++) {
		if (send(dev->db_fd, &f, frame_len, MSG_DONTWAIT) >= 0)
			return 0;
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
			return -errno;
		sched_yield(); /* the ring is drained in softirq, perhaps on this CPU */
	}
	return -EAGAIN;
}
