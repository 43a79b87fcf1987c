// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Before attaching: what the interface runs already, and whether weft can use it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "adopt.h"
#include "tx_room.h"

#define MTU_MIN     (WEFT_V4_LEN - WEFT_L2_LEN + WEFT_HDR_LEN + WEFT_PAYLOAD_MIN)
#define VMXNET3_MTU 3050 /* the largest with which a frame lies in one of its buffers */

int weft_attach_refused(struct weft_dev *dev, const struct weft_link *link, int err,
			const char *why)
{
	struct weft_xdp_facts f = { .ifname = dev->ifname,
				    .mtu = link->mtu,
				    .rx_max = link->rx_queues };
	struct weft_tx_room room;
	struct weft_link peer = { 0 };
	char remedy[400];

	/* that it has no native XDP at all is said more plainly below */
	if (*why && err != -EBUSY && err != -EEXIST && !strstr(why, "in native mode")) {
		weft_tx_room_ask(dev->ifname, 0, &room);
		weft_link_peer(link, &peer);
		f.rx = room.rx;
		f.peer = peer.name;
		f.peer_mtu = peer.mtu;
		f.peer_tx = peer.tx_queues;
		weft_xdp_remedy(why, &f, remedy, sizeof(remedy));
		return weft_err(err == -ERANGE || err == -EINVAL ? EOPNOTSUPP : -err, dev->ifname,
				"the kernel refused native XDP: \"%s\"%s", why, remedy);
	}
	switch (err) {
	case -EBUSY:
	case -EEXIST:
		return weft_err(
			EBUSY, dev->ifname,
			"another XDP program is attached; remove it with 'ip link set dev %s %s off' "
			"if it is not needed, or load it with xdp-loader: if 'xdp-loader status' "
			"then shows a dispatcher, which not every kernel allows, weft joins it",
			dev->ifname, link->xdp_mode == XDP_ATTACHED_SKB ? "xdpgeneric" : "xdp");
	case -EOPNOTSUPP:
		weft_tx_room_ask(dev->ifname, 0, &room);
		return weft_err(
			EOPNOTSUPP, dev->ifname,
			"the driver%s%s has no native XDP; use a NIC that has, such as veth, "
			"virtio_net or mlx5",
			*room.driver ? " " : "", room.driver);
	case -ERANGE:
	case -EINVAL:
		return weft_err(EOPNOTSUPP, dev->ifname,
				"the driver refused native XDP, often because the MTU is too large "
				"(%u here, or at a veth's other end); set 3498 or less and LRO off",
				link->mtu);
	default: return weft_err(-err, dev->ifname, "cannot attach XDP: %s", strerror(-err));
	}
}

/* ---- programs of other loaders ---- */

/* How to get rid of the program, for messages. */
static const char *unload(const struct weft_nic_prog *p, const char *ifname, char cmd[96])
{
	if (p->dispatcher)
		snprintf(cmd, 96, "xdp-loader unload %s --id %u", ifname, p->id);
	else
		snprintf(cmd, 96, "ip link set dev %s xdp off", ifname);
	return cmd;
}

/* weft's program is there, and nobody whose pins are in sight has set it up. */
static int check_loaded(struct weft_dev *dev, struct weft_nic_prog *p)
{
	uint32_t abi = weft_prog_abi(p->fd);
	struct weft_devcfg cfg;
	char cmd[96], version[24];
	int err;

	snprintf(version, sizeof(version), abi ? "ABI %u" : "an older ABI", abi);
	if (abi != WEFT_ABI)
		return weft_err(
			ESTALE, dev->ifname,
			"the weft program loaded on it has %s, this is ABI %u; run '%s' and "
			"load the weft.bpf.o of this version",
			version, WEFT_ABI, unload(p, dev->ifname, cmd));
	err = weft_prog_cfg(p->fd, &cfg);
	if (err)
		return weft_err(
			-err, dev->ifname,
			"cannot read what the weft program loaded on it holds: %s; run '%s'",
			strerror(-err), unload(p, dev->ifname, cmd));
	p->used = cfg.flags & WEFT_DEV_USED;
	if (cfg.flags & WEFT_DEV_DOWN)
		return weft_err(EBUSY, dev->ifname,
				"the weft program loaded on it was taken down while in use; run "
				"'%s' and load it again",
				unload(p, dev->ifname, cmd));
	if (cfg.abi)
		return weft_err(
			EBUSY, dev->ifname,
			"weft is attached, but its pins are not in the %s seen here "
			"('ip netns exec' hides it); name the namespace ('weft -n NAME'), or enter "
			"it by 'nsenter --net=/run/netns/NAME'",
			WEFT_BPFFS);
	return 0;
}

int weft_attach_check(struct weft_dev *dev, const struct weft_link *link,
		      struct weft_nic_prog *found)
{
	struct weft_tx_room room;

	*found = (struct weft_nic_prog){ .fd = -1 };
	if (link->mtu < MTU_MIN)
		return weft_err(EOPNOTSUPP, dev->ifname,
				"MTU %u is too small; run 'ip link set dev %s mtu %d' (or more)",
				link->mtu, dev->ifname, MTU_MIN);
	weft_tx_room_ask(dev->ifname, 0, &room);
	if (!strcmp(room.driver, "vmxnet3") && link->mtu > VMXNET3_MTU)
		return weft_err(
			EOPNOTSUPP, dev->ifname,
			"the driver vmxnet3 hands larger frames past XDP: MTU %u is too much; "
			"run 'ip link set dev %s mtu %d' (or less)",
			link->mtu, dev->ifname, VMXNET3_MTU);
	if (!link->xdp_id)
		return 0;
	weft_nic_find(link, 0, found);
	if (found->fd < 0 && !found->dispatcher)
		return weft_attach_refused(dev, link, -EBUSY, "");
	if (link->xdp_mode == XDP_ATTACHED_SKB)
		return weft_err(
			EOPNOTSUPP, dev->ifname,
			"its XDP programs are attached in generic mode, where frames cannot "
			"grow; run 'ip link set dev %s xdpgeneric off' and load them in "
			"native mode",
			dev->ifname);
	return found->fd < 0 ? 0 : check_loaded(dev, found);
}

/* ---- pins ---- */

bool weft_attach_is_on(const char *dir, const struct weft_link *link)
{
	struct weft_nic_prog p;
	uint32_t id, prog = 0;
	bool yes;
	int fd;

	/* its own link says so; a look at the program is for root with all capabilities */
	if (weft_td_link_prog(dir, WEFT_PIN_NIC_LINK, &prog) == link->ifindex && prog &&
	    prog == link->xdp_id)
		return true;
	fd = weft_td_obj(dir, "devcfg");
	id = weft_map_id(fd);
	if (fd >= 0)
		close(fd);
	if (!id)
		return false;
	weft_nic_find(link, id, &p);
	yes = p.fd >= 0;
	weft_nic_close(&p);
	return yes;
}

const char *weft_attach_stale(const struct weft_dev *dev, const struct weft_link *link)
{
	struct weft_cfg_head head;
	uint32_t size;

	if (!weft_td_complete(dev->pin_fd))
		return "are of a set-up that never finished";
	if (weft_td_cfg(dev->pin_dir, &head, &size))
		return "cannot be read";
	if (head.abi != WEFT_ABI || size != sizeof(struct weft_devcfg))
		return "are of another ABI";
	if (head.flags & WEFT_DEV_DOWN)
		return "are half removed";
	if (head.ifindex != (uint32_t)dev->ifindex)
		return "are of an interface of that name that is gone";
	if (!weft_attach_is_on(dev->pin_dir, link))
		return "have a program that is not attached to the interface";
	return NULL;
}

/* ---- maps that were used before ---- */

/* Entry by entry: the kernel maps none that has locks, and zeroing spares them. */
static int zero(const struct bpf_map *map, size_t copies)
{
	void *p = calloc(copies, (bpf_map__value_size(map) + 7) & ~7u);
	int err = p ? 0 : -ENOMEM;
	uint32_t key;

	for (key = 0; !err && key < bpf_map__max_entries(map); key++)
		if (bpf_map_update_elem(bpf_map__fd(map), &key, p, BPF_ANY))
			err = -errno;
	free(p);
	return err;
}

/* 6.1 waits for all programs whenever something is taken out of a map of maps, or nothing is. */
static void empty(const struct bpf_map *map, uint32_t key)
{
	uint32_t id;

	if (bpf_map__type(map) != BPF_MAP_TYPE_ARRAY_OF_MAPS ||
	    !bpf_map_lookup_elem(bpf_map__fd(map), &key, &id))
		bpf_map_delete_elem(bpf_map__fd(map), &key);
}

int weft_adopt_blank(struct weft_dev *dev, const struct weft_bpf *skel)
{
	struct bpf_map *map;
	uint32_t key;
	int err = 0;

	bpf_object__for_each_map(map, skel->obj) {
		if (bpf_map__fd(map) < 0) /* will be made */
			continue;
		switch (bpf_map__type(map)) {
		case BPF_MAP_TYPE_ARRAY: err = zero(map, 1); break;
		case BPF_MAP_TYPE_PERCPU_ARRAY: err = zero(map, libbpf_num_possible_cpus()); break;
		default: /* what refers to other objects */
			for (key = 0; key < bpf_map__max_entries(map); key++)
				empty(map, key);
		}
		if (err)
			return weft_err(-err, dev->ifname, "cannot clear map %s: %s; try again",
					bpf_map__name(map), strerror(-err));
	}
	return 0;
}
