/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The first user of an interface: load the object, make the doorbell, fill and pin maps, attach. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "device.h"
#include "tx_room.h"
#include "weft.skel.h"

#define CPU_MAX      4096
#define CPUMAP_QSIZE 512
#define VMXNET3_MTU  3050 /* the largest with which a frame lies in one of its buffers */

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

/* ---- loading ---- */

static int demote(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[400];
	size_t n;

	(void)level;
	vsnprintf(line, sizeof(line), fmt, ap);
	n = strlen(line);
	if (n && line[n - 1] == '\n')
		line[n - 1] = 0;
	weft_logf(WEFT_LOG_DEBUG, "%s", line);
	return 0;
}

static int load(struct weft_dev *dev, struct weft_bpf **skel)
{
	libbpf_print_fn_t old = libbpf_set_print(demote); /* the application's comes back below */
	int err;

	*skel = weft_bpf__open();
	err = *skel ? weft_bpf__load(*skel) : -errno;
	libbpf_set_print(old);
	if (!err)
		return 0;
	weft_bpf__destroy(*skel);
	*skel = NULL;
	if (err == -EPERM)
		return weft_err(
			EPERM, dev->ifname,
			"may not load BPF programs; run as root of the initial user namespace");
	return weft_err(-err, dev->ifname,
			"the kernel refused the BPF programs: %s; weft needs Linux 6.1 or later",
			strerror(-err));
}

static int pin_all(struct weft_dev *dev, struct weft_bpf *skel)
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
		if (err)
			break;
		snprintf(path, sizeof(path), "%s/%s", dev->pin_dir, bpf_program__name(prog));
		err = bpf_obj_pin(bpf_program__fd(prog), path) ? -errno : 0;
	}
	return err ? weft_err(-err, dev->ifname, "cannot pin %s: %s", path, strerror(-err)) : 0;
}

/* ---- filling ---- */

static int set_cfg(struct weft_dev *dev, struct weft_bpf *skel, const struct weft_open_opts *opts,
		   const struct weft_link *link, const struct nic *nic)
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
			"the interface vanished while weft was attached to it; see 'ip link'");
	if (db > 0 && !if_indextoname(db, name))
		return weft_err(ENODEV, dev->ifname,
				"the doorbell vanished while weft was attached; try again");
	return 0;
}

static int fill_ways_out(struct weft_dev *dev, struct weft_bpf *skel, int db)
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

static int refused(struct weft_dev *dev, const struct weft_link *link, int err, const char *why)
{
	struct weft_tx_room room;
	char remedy[300];

	/* that it has no native XDP at all is said more plainly below */
	if (*why && err != -EBUSY && err != -EEXIST && !strstr(why, "in native mode")) {
		weft_xdp_remedy(why, dev->ifname, remedy, sizeof(remedy));
		return weft_err(err == -ERANGE || err == -EINVAL ? EOPNOTSUPP : -err, dev->ifname,
				"the kernel refused native XDP: \"%s\" (its MTU is %u); %s", why,
				link->mtu, remedy);
	}
	switch (err) {
	case -EBUSY:
	case -EEXIST:
		return weft_err(
			EBUSY, dev->ifname,
			"another XDP program is attached; remove it with 'ip link set dev %s %s off' "
			"if it is not needed",
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

const char *weft_attach_stale(const struct weft_dev *dev, const struct weft_link *link)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info), size;
	struct weft_cfg_head head;
	int fd;

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
	fd = weft_td_obj(dev->pin_dir, "weft_nic");
	if (fd >= 0) {
		bpf_obj_get_info_by_fd(fd, &info, &len);
		close(fd);
	}
	if (!info.id || info.id != link->xdp_id)
		return "have a program that is not attached to the interface";
	return NULL;
}

int weft_attach_check(struct weft_dev *dev, const struct weft_link *link)
{
	struct bpf_prog_info info = {};
	struct weft_tx_room room;
	uint32_t len = sizeof(info);
	int fd;

	if (link->mtu < WEFT_V4_LEN - WEFT_L2_LEN + WEFT_HDR_LEN + WEFT_PAYLOAD_MIN)
		return weft_err(EOPNOTSUPP, dev->ifname, "MTU %u is too small; set at least 576",
				link->mtu);
	weft_tx_room_ask(dev->ifname, 0, &room);
	if (!strcmp(room.driver, "vmxnet3") && link->mtu > VMXNET3_MTU)
		return weft_err(
			EOPNOTSUPP, dev->ifname,
			"the driver vmxnet3 hands larger frames past XDP: MTU %u is too much; "
			"run 'ip link set dev %s mtu %d' (or less)",
			link->mtu, dev->ifname, VMXNET3_MTU);
	if (!link->xdp_id)
		return 0;
	fd = bpf_prog_get_fd_by_id(link->xdp_id);
	if (fd >= 0) {
		bpf_obj_get_info_by_fd(fd, &info, &len);
		close(fd);
	}
	if (!strcmp(info.name, "weft_nic"))
		return weft_err(
			EBUSY, dev->ifname,
			"weft is attached, but its pins are not in the %s seen here "
			"('ip netns exec' hides it); name the namespace instead of entering it",
			WEFT_BPFFS);
	return refused(dev, link, -EBUSY, "");
}

int weft_attach(struct weft_dev *dev, const struct weft_open_opts *opts,
		const struct weft_link *link)
{
	struct nic nic = {};
	struct weft_bpf *skel;
	int err, db = 0;
	char why[300];

	err = each_cpu(count_cpu, &nic);
	if (err)
		return weft_err(-err, dev->ifname, "cannot read the online CPUs: %s; mount sysfs",
				strerror(-err));
	weft_tx_room_ask(dev->ifname, nic.cpus, &nic.room);
	if (weft_tx_room_crashes(&nic.room)) {
		weft_tx_room_why(&nic.room, dev->ifname, why, sizeof(why));
		return weft_err(EOPNOTSUPP, dev->ifname,
				"the driver would crash the kernel with XDP: %s", why);
	}
	err = load(dev, &skel);
	if (err)
		return err;
	err = set_cfg(dev, skel, opts, link, &nic);
	if (!err)
		err = pin_all(dev, skel);
	if (!err) {
		db = set_doorbell(dev, skel);
		err = db < 0 ? db : fill_ways_out(dev, skel, db);
	}
	if (!err) {
		err = attach_link(dev, skel->progs.weft_db, db, WEFT_PIN_DB_LINK);
		if (err)
			err = vanished(dev, db)
				      ?: weft_err(-err, dev->ifname,
						  "cannot attach XDP to the doorbell: %s",
						  strerror(-err));
	}
	if (!err) {
		err = attach_link(dev, skel->progs.weft_nic, dev->ifindex, WEFT_PIN_NIC_LINK);
		if (err) {
			weft_xdp_why(dev->ifindex, bpf_program__fd(skel->progs.weft_nic), why,
				     sizeof(why));
			err = vanished(dev, db) ?: refused(dev, link, err, why);
		}
	}
	if (!err && weft_tx_room_shared(&nic.room)) {
		weft_tx_room_why(&nic.room, dev->ifname, why, sizeof(why));
		weft_logf(WEFT_LOG_WARN, "%s: %s", dev->ifname, why);
	}
	weft_bpf__destroy(skel);
	return err;
}
