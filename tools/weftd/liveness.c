// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The socket that tells XDP that a process lives, such that its holder can do nothing else with it. */
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "weftd.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

#define QUEUES 256 /* of the doorbell */
#define TRIES  100

static int ring(int fd, int option)
{
	int entries = 2;

	return setsockopt(fd, SOL_XDP, option, &entries, sizeof(entries)) ? -errno : 0;
}

/* One page, which the kernel keeps as long as the socket. */
static int give_memory(int fd)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct xdp_umem_reg reg = { .addr = (uintptr_t)p, .len = page, .chunk_size = 2048 };
	int err;

	if (p == MAP_FAILED)
		return -errno;
	err = setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) ? -errno : 0;
	munmap(p, page);
	return err;
}

/* One socket a queue; there is a queue for each process. */
static int bind_to_any(int fd, struct sockaddr_xdp *sa)
{
	int err;

	sa->sxdp_queue_id = 0;
	do
		err = bind(fd, (struct sockaddr *)sa, sizeof(*sa)) ? -errno : 0;
	while (err == -EBUSY && ++sa->sxdp_queue_id < QUEUES);
	return err;
}

/*
 * Whoever holds an AF_XDP socket that is not bound may bind it to any interface and send raw
 * frames there. So this one is bound already, for good: to a queue of the doorbell, which no
 * packet comes from, and without a ring to send from, which cannot be added any more.
 */
int liveness_new(struct weft_dev *dev)
{
	struct sockaddr_xdp sa = { .sxdp_family = AF_XDP,
				   .sxdp_flags = XDP_COPY,
				   .sxdp_ifindex = dev->maps.cfg->db_ifindex };
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	err = give_memory(fd) ?: ring(fd, XDP_UMEM_FILL_RING) ?: ring(fd, XDP_UMEM_COMPLETION_RING)
		?: ring(fd, XDP_RX_RING);
	for (int i = 0; !err && i < TRIES; i++) {
		err = bind_to_any(fd, &sa);
		if (!err)
			break;
		/* a queue that has just become free is so only after a while */
		if (i < TRIES - 1 && (err == -EBUSY || err == -EINVAL))
			err = usleep(10000);
	}
	if (!err && bpf_map_update_elem(dev->maps.xsks, &dev->slot, &fd, BPF_ANY))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}
