/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The BPF object: loading it, with maps of its own or with those that a loaded program uses. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "dispatcher.h"
#include "object.h"

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

/* libbpf has one printer for all threads: the application's comes back before another of us takes it. */
static pthread_mutex_t demoting = PTHREAD_MUTEX_INITIALIZER;

static libbpf_print_fn_t begin_demoting(void)
{
	pthread_mutex_lock(&demoting);
	return libbpf_set_print(demote);
}

static void end_demoting(libbpf_print_fn_t old)
{
	libbpf_set_print(old);
	pthread_mutex_unlock(&demoting);
}

static int refused(struct weft_dev *dev, int err)
{
	if (err == -EPERM)
		return weft_err(
			EPERM, dev->ifname,
			"may not load BPF programs; run as root of the initial user namespace");
	if (err == -EMFILE || err == -ENFILE)
		return weft_err(
			-err, dev->ifname,
			"cannot load the BPF programs: %s; raise the limit, see 'ulimit -n'",
			strerror(-err));
	return weft_err(-err, dev->ifname,
			"the kernel refused the BPF programs: %s; weft needs Linux 6.1 or later",
			strerror(-err));
}

/* A place for each QP that the device holds: how many is chosen when it is brought up. */
static bool per_qp(const struct weft_bpf *skel, const struct bpf_map *map)
{
	return map == skel->maps.qpctl || map == skel->maps.qptx || map == skel->maps.qprx ||
	       map == skel->maps.qptele;
}

/* Would a map made for this object be like that one? */
static bool same_layout(const struct weft_bpf *skel, const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info), flags;

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return false;
	flags = info.map_flags;
	if (info.type == BPF_MAP_TYPE_DEVMAP) /* the kernel's own addition */
		flags &= ~BPF_F_RDONLY_PROG;
	return info.type == bpf_map__type(map) && info.key_size == bpf_map__key_size(map) &&
	       info.value_size == bpf_map__value_size(map) &&
	       /* without a number libbpf makes an entry for each CPU */
	       (!bpf_map__max_entries(map) || per_qp(skel, map) ||
		info.max_entries == bpf_map__max_entries(map)) &&
	       flags == bpf_map__map_flags(map);
}

static int find_map(const struct weft_maps_from *from, const char *name)
{
	return from->prog_fd >= 0 ? weft_prog_map(from->prog_fd, name)
	       : from->pins       ? weft_td_obj(from->pins, name)
				  : -ENOENT;
}

static int reuse_maps(struct weft_dev *dev, const struct weft_maps_from *from,
		      struct weft_bpf *skel)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, skel->obj) {
		const char *name = bpf_map__name(map);
		int fd = find_map(from, name), err = 0;

		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return weft_err(-fd, dev->ifname, "cannot open map %s: %s; try again", name,
					strerror(-fd));
		if (!same_layout(skel, map, fd))
			err = weft_err(ESTALE, dev->ifname,
				       "map %s of the program that is loaded has another layout, "
				       "though its ABI is the same; unload it and load the "
				       "weft.bpf.o of this version",
				       name);
		else if ((err = bpf_map__reuse_fd(map, fd)))
			err = weft_err(-err, dev->ifname, "cannot use map %s: %s; try again", name,
				       strerror(-err));
		close(fd);
		if (err)
			return err;
	}
	return 0;
}

int weft_obj_open(struct weft_dev *dev, const struct weft_maps_from *from, struct weft_bpf **skel)
{
	libbpf_print_fn_t old = begin_demoting();
	int err = 0;

	*skel = weft_bpf__open();
	if (!*skel)
		err = refused(dev, -errno);
	else if (from)
		err = reuse_maps(dev, from, *skel);
	end_demoting(old);
	if (err) {
		weft_bpf__destroy(*skel);
		*skel = NULL;
	}
	return err;
}

uint32_t weft_obj_qps(struct weft_bpf *skel, uint32_t n)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, skel->obj)
		if (n && per_qp(skel, map))
			bpf_map__set_max_entries(map, n); /* not of one that is there */
	return bpf_map__max_entries(skel->maps.qpctl);
}

int weft_obj_load(struct weft_dev *dev, bool without_nic, struct weft_bpf **skel)
{
	libbpf_print_fn_t old = begin_demoting();
	int err;

	bpf_program__set_autoload((*skel)->progs.weft_nic, !without_nic);
	err = weft_bpf__load(*skel);
	end_demoting(old);
	if (!err)
		return 0;
	weft_bpf__destroy(*skel);
	*skel = NULL;
	return refused(dev, err);
}

int weft_obj_join_dispatcher(struct weft_dev *dev)
{
	struct weft_maps_from from = { .prog_fd = -1, .pins = dev->pin_dir };
	libbpf_print_fn_t old;
	struct weft_bpf *skel;
	int err = weft_obj_open(dev, &from, &skel), fd;

	if (err)
		return err;
	old = begin_demoting();
	err = weft_disp_attach(skel->obj, WEFT_NIC_PROG, dev->ifindex);
	end_demoting(old);
	if (err)
		err = weft_err(-err, dev->ifname,
			       "libxdp cannot add weft to the programs attached: %s; see "
			       "'xdp-loader status %s'",
			       strerror(-err), dev->ifname);
	fd = err ? err : fcntl(bpf_program__fd(skel->progs.weft_nic), F_DUPFD_CLOEXEC, 0);
	weft_bpf__destroy(skel);
	return fd;
}
