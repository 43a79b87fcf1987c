/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ringing: one small frame written into a tap, whose XDP program runs within that call. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>

#include "device.h"

/* Room for the headers of a data packet and the largest message sent in place. */
#define FRAME_MAX (WEFT_V6_LEN + WEFT_HDR_LEN + 1024)
#define TUN       "/dev/net/tun"

struct frame {
	struct ethhdr eth;
	struct weft_db db;
	uint8_t zero[FRAME_MAX - sizeof(struct ethhdr) - sizeof(struct weft_db)];
} __attribute__((packed));

_Static_assert(sizeof(struct frame) == FRAME_MAX, "doorbell frame");

static int open_tun(struct weft_dev *dev)
{
	int fd = open(TUN, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	return weft_err(errno, dev->ifname,
			"cannot open " TUN
			": %s; run 'modprobe tun', or give the container "
			"that device",
			strerror(errno));
}

/* Make the descriptor a queue of the tap, which comes to be if there is none of that name. */
static int take_queue(int fd, const char *name, int flags)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE | flags };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	return ioctl(fd, TUNSETIFF, &ifr) ? -errno : 0;
}

int weft_doorbell_create(struct weft_dev *dev)
{
	struct weft_td_if old;
	char name[IFNAMSIZ];
	int fd, err, ifindex = 0;

	fd = open_tun(dev);
	if (fd < 0)
		return fd;
	weft_td_db_name(dev->ifindex, name);
	err = take_queue(fd, name, IFF_TUN_EXCL);
	if (err == -EBUSY) {
		ifindex = if_nametoindex(name);
		if (weft_td_if_get(ifindex, &old) || !old.doorbell) {
			close(fd);
			return weft_err(EBUSY, dev->ifname,
					"an interface %s that is not weft's has the name of its "
					"doorbell; rename it with 'ip link'",
					name);
		}
		/* of an earlier life of the interface */
		weft_td_link_del(ifindex);
		err = take_queue(fd, name, IFF_TUN_EXCL);
	}
	/* without an owner whoever may open TUN could take a queue of it */
	if (!err && ioctl(fd, TUNSETOWNER, 0))
		err = -errno;
	if (!err)
		err = weft_link_up(name);
	/*
	 * It stays until somebody removes it: users come and go, and 'weft up' has none.
	 * Not before it has its tag: until then it goes with us if we are killed.
	 */
	if (!err && ioctl(fd, TUNSETPERSIST, 1))
		err = -errno;
	if (!err) {
		ifindex = if_nametoindex(name);
		err = ifindex ? 0 : -errno;
	}
	close(fd);
	return err ? weft_err(-err, dev->ifname, "cannot create the doorbell %s: %s; see 'ip link'",
			      name, strerror(-err))
		   : ifindex;
}

int weft_doorbell_open(struct weft_dev *dev)
{
	char name[IFNAMSIZ];
	int db, err;

	dev->db_fd = open_tun(dev);
	if (dev->db_fd < 0)
		return dev->db_fd;
	/* somebody may have given it another name; had it been removed, a new one would be made */
	weft_td_db_name(dev->ifindex, name);
	db = weft_td_link_here(dev->pin_dir, WEFT_PIN_DB_LINK);
	err = db > 0 && if_indextoname(db, name) ? take_queue(dev->db_fd, name, 0) : -ENODEV;
	return err ? weft_err(-err, dev->ifname,
			      "cannot use the doorbell %s: %s; run 'weft down %s'", name,
			      strerror(-err), dev->ifname)
		   : 0;
}

void weft_doorbell_keep(struct weft_dev *dev)
{
	ioctl(dev->db_fd, TUNSETPERSIST, 1);
}

/* It was moved to another namespace, where nobody would look for it: it goes with its last user. */
void weft_doorbell_lost(struct weft_dev *dev)
{
	ioctl(dev->db_fd, TUNSETPERSIST, 0);
}

/* Any thread. A doorbell that the kernel does not take is left to the timer, which rings again. */
int weft_doorbell(struct weft_dev *dev, uint32_t qpn, enum weft_db_op op, unsigned frame_len)
{
	struct frame f;

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
	return write(dev->db_fd, &f, frame_len) < 0 ? -errno : 0;
}
