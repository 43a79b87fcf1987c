/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The first user of an interface: load the object, make the doorbell, fill and pin maps, attach. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "adopt.h"
#include "tx_room.h"

#define CPU_MAX      4096
#define CPUMAP_QSIZE 512

/* ---- what the interface is ---- */

struct nic {
	struct weft_tx_room room;
	unsigned cpus; /* online */
	uint64_t cpu_mask;
};

/* Call fn for each online CPU; "0-3,5". */
static int each_cpu(int (*fn)(unsigned cpu, void *arg), void *arg)
{
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	unsigned a, b;
	int n, c, err = 0;

	if (!f)
		return -errno;
	while (!err && (n = fscanf(f, "%u-%u", &a, &b)) >= 1) {
		if (n == 1)
			b = a;
		for (; !err && a <= b && a < CPU_MAX; a++)
			err = fn(a, arg);
		c = fgetc(f);
		if (c != ',')
			break;
	}
	fclose(f);
	return err;
}

static int count_cpu(unsigned cpu, void *arg)
{
	struct nic *nic = arg;

	nic->cpus++;
	nic->cpu_mask |= 1ull << (cpu & 63);
	return 0;
}

static int pin_all(struct weft_dev *dev, struct weft_bpf *skel, int nic_fd)
{
	char path[WEFT_PATH_MAX];
	struct bpf_program *prog;
	struct bpf_map *map;
	int err = 0;

	/* devcfg first: it tells who cleans up which doorbell belongs to this. */
	snprintf(path, sizeof(path), "%s/devcfg", dev->pin_dir);
	err = bpf_obj_pin(bpf_map__fd(skel->maps.devcfg), path) ? -errno : 0;
	bpf_object__for_each_map(map, skel->obj) {
		const char *name = bpf_map__name(map);

		if (err)
			break;
		if (strchr(name, '.') || map == skel->maps.devcfg) /* .rodata and the like */
			continue;
		snprintf(path, sizeof(path), "%s/%s", dev->pin_dir, name);
		err = bpf_obj_pin(bpf_map__fd(map), path) ? -errno : 0;
	}
	bpf_object__for_each_program(prog, skel->obj) {
		int fd = prog == skel->progs.weft_nic ? nic_fd : bpf_program__fd(prog);

		if (err)
			break;
		if (fd < 0) /* joins a dispatcher later */
			continue;
		snprintf(path, sizeof(path), "%s/%s", dev->pin_dir, bpf_program__name(prog));
		err = bpf_obj_pin(fd, path) ? -errno : 0;
	}
	return err ? weft_err(-err, dev->ifname, "cannot pin %s: %s", path, strerror(-err)) : 0;
}

/* ---- filling ---- */

static int set_cfg(struct weft_dev *dev, struct weft_bpf *skel, const struct weft_open_opts *opts,
		   const struct weft_link *link, const struct nic *nic, bool shared)
{
	bool veth = !strcmp(nic->room.driver, "veth");
	unsigned queues = nic->room.rx ? nic->room.rx : link->rx_queues;
	unsigned domains = veth ? queues : nic->cpus;
	struct weft_devcfg cfg = {
		.abi = WEFT_ABI,
		.ifindex = dev->ifindex,
		.payload = weft_path_payload(link->mtu, false),
		.mtu = link->mtu,
		.port = opts->port ? opts->port : WEFT_UDP_PORT,
		.queues = veth ? queues : 0,
		.cpus = nic->cpu_mask,
		.qps = weft_obj_qps(skel, 0),
	};
	uint32_t key = 0;

	if (domains > WEFT_DOMAINS)
		domains = WEFT_DOMAINS;
	cfg.domains = domains ? domains : 1;
	weft_tx_room_budget(&nic->room, &cfg.budget, &cfg.hard);
	if (weft_tx_room_shared(&nic->room))
		cfg.flags |= WEFT_DEV_FEW_TX;
	if (opts->csum)
		cfg.flags |= WEFT_DEV_CSUM4;
	if (opts->no_telemetry)
		cfg.flags |= WEFT_DEV_NO_TELE;
	if (opts->persist)
		cfg.flags |= WEFT_DEV_PERSIST;
	if (shared)
		cfg.flags |= WEFT_DEV_SHARED;
	if (bpf_map_update_elem(bpf_map__fd(skel->maps.devcfg), &key, &cfg, BPF_ANY))
		return weft_err(errno, dev->ifname, "cannot write devcfg: %s", strerror(errno));
	return 0;
}

/* Make the doorbell and note it. Its ifindex. */
static int set_doorbell(struct weft_dev *dev, struct weft_bpf *skel)
{
	int fd = bpf_map__fd(skel->maps.devcfg), db;
	struct weft_devcfg cfg;
	uint32_t key = 0;

	db = weft_doorbell_create(dev);
	if (db < 0)
		return db;
	if (bpf_map_lookup_elem(fd, &key, &cfg))
		return -errno;
	cfg.db_ifindex = db;
	return bpf_map_update_elem(fd, &key, &cfg, BPF_ANY) ? -errno : db;
}

struct cpu_fill {
	int map, prog;
};

static int fill_cpu(unsigned cpu, void *arg)
{
	const struct cpu_fill *f = arg;
	struct bpf_cpumap_val val = { .qsize = CPUMAP_QSIZE, .bpf_prog.fd = f->prog };

	if (cpu >= 64)
		return 0;
	return bpf_map_update_elem(f->map, &cpu, &val, BPF_ANY) ? -errno : 0;
}

/* The first n entries lead out of the interface, the one after them, if any, into the sink. */
static int fill_devmap(struct weft_bpf *skel, const struct bpf_map *map, uint32_t n, int ifindex,
		       int db)
{
	struct bpf_devmap_val out = {
		.ifindex = ifindex,
		.bpf_prog.fd = bpf_program__fd(skel->progs.weft_fill),
	};
	struct bpf_devmap_val sink = {
		.ifindex = db,
		.bpf_prog.fd = bpf_program__fd(skel->progs.weft_sink),
	};
	uint32_t i;

	for (i = 0; i < bpf_map__max_entries(map); i++)
		if (bpf_map_update_elem(bpf_map__fd(map), &i, i < n ? &out : &sink, BPF_ANY))
			return -errno;
	return 0;
}

/*
 * What makes the kernel say "invalid argument" when it is handed an interface that
 * somebody has deleted, or moved away, since it was found. 0: that is not it.
 */
static int vanished(struct weft_dev *dev, int db)
{
	char name[IF_NAMESIZE];

	if (!if_indextoname(dev->ifindex, name))
		return weft_err(
			ENODEV, dev->ifname,
			"the interface vanished while weft was being attached to it; see 'ip link'");
	if (db > 0 && !if_indextoname(db, name))
		return weft_err(ENODEV, dev->ifname,
				"the doorbell vanished while weft was being attached; try again");
	return 0;
}

int weft_fill_ways_out(struct weft_dev *dev, struct weft_bpf *skel, int db)
{
	struct cpu_fill f = {
		.map = bpf_map__fd(skel->maps.cpus),
		.prog = bpf_program__fd(skel->progs.weft_cpu),
	};
	struct bpf_map *map;
	int err;

	bpf_object__for_each_map(map, skel->obj) {
		bool spawn = !strncmp(bpf_map__name(map), "spawn", 5);

		if (bpf_map__type(map) != BPF_MAP_TYPE_DEVMAP)
			continue;
		err = fill_devmap(skel, map, bpf_map__max_entries(map) - spawn, dev->ifindex, db);
		if (err)
			return vanished(dev, db)
				       ?: weft_err(-err, dev->ifname, "cannot fill devmap %s: %s",
						   bpf_map__name(map), strerror(-err));
	}
	err = each_cpu(fill_cpu, &f);
	return err ? weft_err(-err, dev->ifname, "cannot fill the cpumap: %s", strerror(-err)) : 0;
}

/* ---- attaching ---- */

/*
 * A BPF link, not a bare netlink attachment: it is never replaced by others,
 * follows an interface that moves, and cannot outlive its pin.
 */
static int attach_link(struct weft_dev *dev, const struct bpf_program *prog, int ifindex,
		       const char *name)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	char path[WEFT_PATH_MAX];
	int fd, err = 0;

	fd = bpf_link_create(bpf_program__fd(prog), ifindex, BPF_XDP, &opts);
	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/%s", dev->pin_dir, name);
	if (bpf_obj_pin(fd, path))
		err = -errno;
	close(fd);
	return err;
}

static int attach_nic(struct weft_dev *dev, const struct weft_link *link, struct weft_bpf *skel,
		      int db)
{
	int err = attach_link(dev, skel->progs.weft_nic, dev->ifindex, WEFT_PIN_NIC_LINK);
	char why[300];

	if (!err)
		return 0;
	weft_xdp_why(dev->ifindex, bpf_program__fd(skel->progs.weft_nic), why, sizeof(why));
	return vanished(dev, db) ?: weft_attach_refused(dev, link, err, why);
}

static int join_dispatcher(struct weft_dev *dev)
{
	char path[WEFT_PATH_MAX];
	int fd = weft_obj_join_dispatcher(dev), err = 0;

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "%s/" WEFT_NIC_PROG, dev->pin_dir);
	if (bpf_obj_pin(fd, path))
		err = weft_err(errno, dev->ifname, "cannot pin %s: %s", path, strerror(errno));
	close(fd);
	return err;
}

/*
 * Everything around the program on the interface, then that one: what goes wrong
 * before does not show on the interface. nic_fd: of a program that is there, or -1.
 */
static int set_up(struct weft_dev *dev, const struct weft_open_opts *opts,
		  const struct weft_link *link, const struct nic *nic, struct weft_bpf *skel,
		  int nic_fd, bool join)
{
	int pin_fd = nic_fd >= 0 || join ? nic_fd : bpf_program__fd(skel->progs.weft_nic);
	int err, db = 0;

	err = set_cfg(dev, skel, opts, link, nic, join);
	if (!err)
		err = pin_all(dev, skel, pin_fd);
	if (!err) {
		db = set_doorbell(dev, skel);
		err = db < 0 ? db : weft_fill_ways_out(dev, skel, db);
	}
	if (!err) {
		err = attach_link(dev, skel->progs.weft_db, db, WEFT_PIN_DB_LINK);
		if (err)
			err = vanished(dev, db)
				      ?: weft_err(-err, dev->ifname,
						  "cannot attach XDP to the doorbell: %s",
						  strerror(-err));
	}
	if (err || nic_fd >= 0)
		return err;
	return join ? join_dispatcher(dev) : attach_nic(dev, link, skel, db);
}

/* For this process alone it need not hold fewer than it can use. */
static uint32_t qps_wanted(const struct weft_open_opts *opts)
{
	if (opts->device_qps)
		return opts->device_qps;
	return opts->qps == WEFT_QPS_ALL || opts->qps < WEFT_QPS ? WEFT_QPS : opts->qps;
}

int weft_attach(struct weft_dev *dev, const struct weft_open_opts *opts,
		const struct weft_link *link, const struct weft_nic_prog *found)
{
	struct weft_maps_from from = { .prog_fd = found->fd };
	bool there = found->fd >= 0, join = !there && found->dispatcher;
	struct nic nic = {};
	struct weft_bpf *skel;
	char why[300];
	int err;

	err = each_cpu(count_cpu, &nic);
	if (err)
		return weft_err(-err, dev->ifname, "cannot read the online CPUs: %s; mount sysfs",
				strerror(-err));
	weft_tx_room_ask(dev->ifname, nic.cpus, &nic.room);
	/* XDP is on already: its own queues, if it has any, are among those that are told */
	if (there || join) {
		if (weft_tx_room_unsure(&nic.room))
			weft_logf(
				WEFT_LOG_WARN,
				"%s: it had XDP already, and virtio_net does not tell whether some of its %u "
				"queues are for that; if 'ls /sys/class/net/%s/queues' shows as many tx as rx, "
				"there are none, and the kernel may crash: unload XDP, run 'ethtool -L %s "
				"combined %u', load it again",
				dev->ifname, nic.room.queues, dev->ifname, dev->ifname,
				nic.room.most > nic.room.cpus ? nic.room.most - nic.room.cpus
							      : nic.room.cpus);
		weft_tx_room_attached(&nic.room, false);
	}
	if (weft_tx_room_crashes(&nic.room)) {
		weft_tx_room_why(&nic.room, dev->ifname, why, sizeof(why));
		return weft_err(EOPNOTSUPP, dev->ifname,
				"the driver would crash the kernel with XDP: %s", why);
	}
	err = weft_obj_open(dev, there ? &from : NULL, &skel);
	if (!err)
		weft_obj_qps(skel, qps_wanted(opts));
	if (!err && found->used)
		err = weft_adopt_blank(dev, skel);
	if (!err)
		err = weft_obj_load(dev, there || join, &skel);
	if (!err)
		err = set_up(dev, opts, link, &nic, skel, found->fd, join);
	if (!err && weft_tx_room_shared(&nic.room)) {
		weft_tx_room_why(&nic.room, dev->ifname, why, sizeof(why));
		weft_logf(WEFT_LOG_WARN, "%s: %s", dev->ifname, why);
	}
	if (!err && there)
		weft_logf(WEFT_LOG_INFO, "%s: uses program %u, which was loaded already",
			  dev->ifname, found->id);
	weft_bpf__destroy(skel);
	return err;
}
