// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Replacing the programs of a device under traffic: new ones on the same maps. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "adopt.h"

/*
 * All that a packet needs to know is in the maps, and old and new programs
 * agree on those. So there is no order to keep: each is swapped by itself, in one
 * step, and a packet may meet the old one here and the new one there.
 */

/* In a pinned link, which is weft's alone; who died here may have left any program of ours in it. */
static int swap_link(struct weft_dev *dev, const char *name, int new_fd)
{
	int fd = weft_td_obj(dev->pin_dir, name), err = 0;

	if (fd < 0)
		return fd;
	if (bpf_link_update(fd, new_fd, NULL))
		err = -errno;
	close(fd);
	return err;
}

/* As another loader attached it. */
static int swap_netlink(struct weft_dev *dev, int old_fd, int new_fd)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = old_fd);

	return bpf_xdp_attach(dev->ifindex, new_fd, XDP_FLAGS_DRV_MODE, &opts);
}

/* For a moment the dispatcher runs both: what the first one takes, the second one does not see. */
static int swap_in_dispatcher(struct weft_dev *dev, const struct weft_nic_prog *old, int *new_fd)
{
	int err;

	*new_fd = weft_obj_join_dispatcher(dev);
	if (*new_fd < 0)
		return *new_fd;
	err = weft_disp_detach(dev->ifindex, old->id);
	if (!err)
		return 0;
	weft_disp_detach(dev->ifindex, weft_prog_id(*new_fd));
	return weft_err(-err, dev->ifname,
			"libxdp cannot take out program %u: %s; see 'xdp-loader status %s'",
			old->id, strerror(-err), dev->ifname);
}

/* The pin of that name gets the new program; who opens it finds the one or the other. */
static int swap_pin(struct weft_dev *dev, const char *name, int fd)
{
	char path[WEFT_PATH_MAX], tmp[WEFT_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dev->pin_dir, name);
	snprintf(tmp, sizeof(tmp), "%s/new:%s", dev->pin_dir, name);
	unlink(tmp); /* of one who died here */
	if (bpf_obj_pin(fd, tmp))
		return -errno;
	return rename(tmp, path) ? -errno : 0;
}

static const char *remedy(int err)
{
	switch (err) {
	case -ENOLINK: return "the interface is gone, see 'ip link'";
	case -ENOENT: return "run 'weft down' and 'weft up' on it";
	default: return "try again";
	}
}

static int swap_nic(struct weft_dev *dev, const struct weft_nic_prog *old, struct weft_bpf *skel,
		    int *nic_fd)
{
	int err;

	if (old->dispatcher)
		return swap_in_dispatcher(dev, old, nic_fd);
	*nic_fd = fcntl(bpf_program__fd(skel->progs.weft_nic), F_DUPFD_CLOEXEC, 0);
	err = swap_link(dev, WEFT_PIN_NIC_LINK, *nic_fd);
	if (err == -ENOENT)
		err = swap_netlink(dev, old->fd, *nic_fd);
	return err ? weft_err(-err, dev->ifname,
			      "cannot replace program %u on the interface: %s; %s", old->id,
			      strerror(-err), remedy(err))
		   : 0;
}

static int swap_rest(struct weft_dev *dev, struct weft_bpf *skel)
{
	int err = swap_link(dev, WEFT_PIN_DB_LINK, bpf_program__fd(skel->progs.weft_db));
	struct weft_devcfg cfg;
	uint32_t key = 0;

	if (err)
		return weft_err(-err, dev->ifname, "cannot replace the doorbell's program: %s; %s",
				strerror(-err), remedy(err));
	if (bpf_map_lookup_elem(bpf_map__fd(skel->maps.devcfg), &key, &cfg))
		return weft_err(errno, dev->ifname, "cannot read devcfg: %s; try again",
				strerror(errno));
	return weft_fill_ways_out(dev, skel, cfg.db_ifindex);
}

static int swap_all(struct weft_dev *dev, const struct weft_nic_prog *old, struct weft_bpf *skel)
{
	struct bpf_program *prog;
	int nic_fd = -1, err = swap_nic(dev, old, skel, &nic_fd);

	if (!err)
		err = swap_pin(dev, WEFT_NIC_PROG, nic_fd);
	if (!err)
		err = swap_rest(dev, skel);
	bpf_object__for_each_program(prog, skel->obj)
		if (!err && prog != skel->progs.weft_nic)
			err = swap_pin(dev, bpf_program__name(prog), bpf_program__fd(prog));
	if (nic_fd >= 0)
		close(nic_fd);
	return err;
}

int weft_replace_programs(struct weft_dev *dev, const struct weft_link *link)
{
	struct weft_maps_from from = { .prog_fd = -1, .pins = dev->pin_dir };
	struct weft_nic_prog old = { .fd = -1 };
	struct weft_bpf *skel = NULL;
	const char *why;
	int err, cfg;

	dev->pin_fd = open(dev->pin_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dev->pin_fd < 0)
		return errno == ENOENT ? 1
				       : weft_err(errno, dev->ifname, "cannot open %s: %s",
						  dev->pin_dir, strerror(errno));
	err = weft_rename_check(dev);
	if (err < 0)
		goto out;
	why = weft_attach_stale(dev, link);
	if (why) {
		err = weft_err(ESTALE, dev->ifname,
			       "the pins in %s %s, so connections cannot be kept; run 'weft down "
			       "%s' and 'weft up %s'",
			       dev->pin_dir, why, dev->ifname, dev->ifname);
		goto out;
	}
	cfg = weft_td_obj(dev->pin_dir, "devcfg");
	weft_nic_find(link, weft_map_id(cfg), &old);
	if (cfg >= 0)
		close(cfg);
	err = weft_obj_open(dev, &from, &skel);
	if (!err)
		err = weft_obj_load(dev, old.dispatcher, &skel);
	if (!err)
		err = swap_all(dev, &old, skel);
	weft_bpf__destroy(skel);
	weft_nic_close(&old);
out:
	close(dev->pin_fd);
	dev->pin_fd = -1;
	return err;
}
