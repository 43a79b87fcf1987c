// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Finds what weft has pinned for the interfaces of this network namespace, and reads it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "cli.h"
#include "internal.h"
#include "nic_prog.h"
#include "teardown.h"

#define PIN_ROOT   "/sys/fs/bpf/weft"

/* Patience with half a set-up: while somebody is at it, and until the reaper of one who died comes. */
#define AT_WORK_MS 10000
#define REAPER_MS  2000

static int open_pin(const struct pinned *p, const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	return bpf_obj_get(path);
}

int pins_map(const struct pinned *p, const char *name, uint32_t value_size)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = open_pin(p, name);

	if (fd < 0) {
		cli_fail(p->ifname, "cannot open %s/%s: %s; if it persists, run 'weft down %s'",
			 p->dir, name, strerror(errno), p->ifname);
		return -1;
	}
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != value_size) {
		cli_fail(p->ifname, "pins of another ABI in %s; remove them with 'weft down %s'",
			 p->dir, p->ifname);
		close(fd);
		return -1;
	}
	return fd;
}

void *pins_mmap(const struct pinned *p, const char *name, size_t size, size_t n, int prot)
{
	int fd = pins_map(p, name, size);
	void *m;

	if (fd < 0)
		return NULL;
	m = mmap(NULL, n * size, prot, MAP_SHARED, fd, 0);
	close(fd);
	if (m != MAP_FAILED)
		return m;
	cli_fail(p->ifname, "cannot map %s/%s: %s; run as root", p->dir, name, strerror(errno));
	return NULL;
}

uint32_t pins_prog_id(const struct pinned *p, const char *name)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = open_pin(p, name);

	if (fd < 0)
		return 0;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		info.id = 0;
	close(fd);
	return info.id;
}

const char *pins_attach(const struct pinned *p)
{
	struct weft_nic_prog nic = { .fd = -1 };
	int map = open_pin(p, "devcfg"), own = open_pin(p, "nic_link");
	struct weft_link link;
	const char *how = NULL;

	if (map >= 0 && !weft_link_get(NULL, p->ifindex, &link))
		weft_nic_find(&link, weft_map_id(map), &nic);
	if (nic.fd >= 0)
		how = nic.dispatcher ? "dispatcher" : own >= 0 ? "link" : "netlink";
	weft_nic_close(&nic);
	if (map >= 0)
		close(map);
	if (own >= 0)
		close(own);
	return how;
}

/* Is somebody setting the device up, or taking it down? Who does so has made this. */
static bool at_work(const char *dir, char door[WEFT_PATH_MAX])
{
	weft_td_door(dir, door);
	return !access(door, F_OK);
}

static void say_partly(const char *ifname, const char *dir)
{
	char door[WEFT_PATH_MAX];

	if (at_work(dir, door))
		cli_fail(ifname,
			 "another process sets weft up on it or takes it down; try again, and "
			 "if 'fuser %s' shows nobody, run 'weft down %s'",
			 door, ifname);
	else
		cli_fail(ifname,
			 "weft is only partly set up on it (%s), for who did that has died; run "
			 "'weft up %s' to have it anew, or 'weft down %s'",
			 dir, ifname, ifname);
}

/*
 * Whoever sets a device up makes the directory first, and loads the programs before anything is in
 * it, which takes its time. Wait until all is there, or nothing.
 */
static void wait_whole(const char *dir)
{
	uint64_t now = weft_now_ns(), end = now + AT_WORK_MS * 1000000ull,
		 alone = now + REAPER_MS * 1000000ull;
	char door[WEFT_PATH_MAX];
	int fd;

	while ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
		bool whole = weft_td_complete(fd);

		close(fd);
		now = weft_now_ns();
		if (whole || now >= end || (now >= alone && !at_work(dir, door)))
			return;
		usleep(20000);
	}
}

/* Fill in *p for a pin directory. 0, -errno; a message only when say is set. */
static int read_dir(const char *entry, const char *ifname, bool say, struct pinned *p)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), zero = 0;
	char now[IF_NAMESIZE];
	int fd, rc = 0;

	memset(p, 0, sizeof(*p));
	snprintf(p->ifname, sizeof(p->ifname), "%s", ifname);
	for (char *c = p->ifname; (c = strchr(c, ':'));)
		*c = '.'; /* bpffs keeps dots for itself */
	ifname = p->ifname;
	snprintf(p->dir, sizeof(p->dir), PIN_ROOT "/%.70s", entry);
	fd = open_pin(p, "devcfg");
	if (fd < 0) {
		rc = -errno;
		if (say)
			say_partly(ifname, p->dir);
		return rc;
	}
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != sizeof(p->cfg) ||
	    bpf_map_lookup_elem(fd, &zero, &p->cfg) || p->cfg.abi != WEFT_ABI)
		rc = -ESTALE;
	close(fd);
	if (rc && say)
		cli_fail(ifname,
			 "pins of another ABI in %s (this is ABI %u); remove them with "
			 "'weft down %s'",
			 p->dir, WEFT_ABI, ifname);
	if (rc)
		return rc;
	if (if_indextoname(p->cfg.ifindex, now)) {
		p->ifindex = p->cfg.ifindex;
		snprintf(p->ifname, sizeof(p->ifname), "%s", now);
	}
	return 0;
}

static int by_index(const void *a, const void *b)
{
	return (int)((const struct pinned *)a)->cfg.ifindex -
	       (int)((const struct pinned *)b)->cfg.ifindex;
}

/* The name of a pin directory behind the namespace: in it dots are colons. */
static bool is_of(const char *name, const char *dev)
{
	for (; *name == (*dev == '.' ? ':' : *dev); name++, dev++)
		if (!*name)
			return true;
	return false;
}

int pins_find(const char *dev, struct pinned **list)
{
	struct weft_link link;
	char prefix[32];
	struct dirent *e;
	int n = 0, plen;
	bool broken = false;
	DIR *d;

	*list = NULL;
	if (dev && !weft_link_get(dev, 0, &link))
		dev = link.name;
	plen = snprintf(prefix, sizeof(prefix), "%llu-", (unsigned long long)cli.netns_ino);
	d = opendir(PIN_ROOT);
	if (!d && errno != ENOENT) {
		cli_fail(PIN_ROOT, "%s; run as root", strerror(errno));
		return -1;
	}
	while (d && (e = readdir(d))) {
		const char *name = e->d_name + plen;
		struct pinned p, *more;
		bool named;
		int rc;

		if (strncmp(e->d_name, prefix, plen) || strlen(name) >= IF_NAMESIZE)
			continue;
		named = dev && is_of(name, dev);
		if (named) {
			char dir[sizeof(p.dir)];

			snprintf(dir, sizeof(dir), PIN_ROOT "/%.70s", e->d_name);
			wait_whole(dir);
			/* gone: as if it had not been there */
			if (access(dir, F_OK))
				continue;
		}
		rc = read_dir(e->d_name, name, named || (!dev && cli.verbose), &p);
		if (rc) {
			broken |= named;
			continue;
		}
		if (dev && strcmp(p.ifname, dev))
			continue;
		more = realloc(*list, (n + 1) * sizeof(p));
		if (!more)
			break;
		*list = more;
		more[n++] = p;
	}
	if (d)
		closedir(d);
	if (n > 1)
		qsort(*list, n, sizeof(**list), by_index);
	if (dev && !n) {
		if (broken)
			return -1;
		if (if_nametoindex(dev))
			cli_fail(dev, "weft is not on this interface; run 'weft up %s'", dev);
		else
			cli_fail(dev, "no such interface; see 'ip link'");
		return -1;
	}
	return n;
}

int pins_each(const char *dev, int (*one)(const struct pinned *p, struct json_object *out))
{
	struct json_object *out = cli.json ? json_object_new_array() : NULL;
	struct pinned *list;
	int n = pins_find(dev, &list), rc = n < 0 ? CLI_FAIL : CLI_OK;

	for (int i = 0; i < n && !rc; i++)
		rc = one(&list[i], out);
	free(list);
	if (out && !rc)
		return cli_print(out);
	json_object_put(out);
	return rc;
}
