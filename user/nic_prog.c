/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* weft's program on an interface, whoever loaded it: finding it, its maps, its ABI. */
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "dispatcher.h"
#include "nic_prog.h"

#define MAPS_MAX 64

static int prog_info(int fd, struct bpf_prog_info *info, uint32_t maps[MAPS_MAX])
{
	uint32_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	info->nr_map_ids = MAPS_MAX;
	info->map_ids = (uintptr_t)maps;
	if (bpf_obj_get_info_by_fd(fd, info, &len))
		return -errno;
	if (info->nr_map_ids > MAPS_MAX)
		info->nr_map_ids = MAPS_MAX;
	return 0;
}

uint32_t weft_prog_id(int fd)
{
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) ? info.id : 0;
}

uint32_t weft_map_id(int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) ? info.id : 0;
}

/* Needs no pin: a program names the maps that it uses by their ids. */
int weft_prog_map(int prog_fd, const char *name)
{
	uint32_t maps[MAPS_MAX], i;
	struct bpf_prog_info info;
	int err = prog_info(prog_fd, &info, maps);

	if (err)
		return err;
	for (i = 0; i < info.nr_map_ids; i++) {
		struct bpf_map_info m = {};
		uint32_t len = sizeof(m);
		int fd = bpf_map_get_fd_by_id(maps[i]);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &m, &len) && !strcmp(m.name, name))
			return fd;
		close(fd);
	}
	return -ENOENT;
}

/* enum weft_abi_version is the type of the first member of devcfg, so every object has it. */
uint32_t weft_prog_abi(int prog_fd)
{
	uint32_t maps[MAPS_MAX], abi = 0;
	struct bpf_prog_info info;
	struct btf *btf;
	int id;

	if (prog_info(prog_fd, &info, maps) || !info.btf_id)
		return 0;
	btf = btf__load_from_kernel_by_id(info.btf_id);
	if (!btf)
		return 0;
	id = btf__find_by_name_kind(btf, "weft_abi_version", BTF_KIND_ENUM);
	if (id > 0) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (btf_vlen(t))
			abi = btf_enum(t)->val;
	}
	btf__free(btf);
	return abi;
}

int weft_prog_cfg(int prog_fd, struct weft_devcfg *cfg)
{
	int fd = weft_prog_map(prog_fd, "devcfg"), err = 0;
	struct bpf_map_info info = {};
	uint32_t key = 0, len = sizeof(info);

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != sizeof(*cfg))
		err = -ESTALE;
	else if (bpf_map_lookup_elem(fd, &key, cfg))
		err = -errno;
	close(fd);
	return err;
}

static int uses_devcfg(int prog_fd, const void *arg)
{
	const uint32_t want = *(const uint32_t *)arg;
	int fd;
	bool yes;

	if (!want)
		return 1;
	fd = weft_prog_map(prog_fd, "devcfg");
	yes = weft_map_id(fd) == want;
	if (fd >= 0)
		close(fd);
	return yes;
}

void weft_nic_find(const struct weft_link *link, uint32_t devcfg_id, struct weft_nic_prog *p)
{
	uint32_t maps[MAPS_MAX];
	struct bpf_prog_info info;
	int fd;

	*p = (struct weft_nic_prog){ .fd = -1 };
	if (!link->xdp_id)
		return;
	fd = bpf_prog_get_fd_by_id(link->xdp_id);
	if (fd < 0)
		return;
	if (prog_info(fd, &info, maps)) {
		close(fd);
		return;
	}
	if (!strcmp(info.name, WEFT_NIC_PROG)) {
		if (uses_devcfg(fd, &devcfg_id))
			p->fd = fd;
		else
			close(fd);
	} else {
		close(fd);
		fd = weft_disp_find(link->ifindex, WEFT_NIC_PROG, uses_devcfg, &devcfg_id);
		p->dispatcher = fd != -ESRCH;
		p->fd = fd < 0 ? -1 : fd;
	}
	p->id = weft_prog_id(p->fd);
}

void weft_nic_close(struct weft_nic_prog *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

void weft_nic_leave(int ifindex, uint32_t devcfg_id)
{
	int fd, tries = 4; /* one program, or two when a replacement was cut short */

	while (tries-- &&
	       (fd = weft_disp_find(ifindex, WEFT_NIC_PROG, uses_devcfg, &devcfg_id)) >= 0) {
		weft_disp_detach(ifindex, weft_prog_id(fd));
		close(fd);
	}
}
