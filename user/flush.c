// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Pins of interfaces that are gone, of any network namespace: found by their links, and removed. */
#include <dirent.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/file.h>

#include "device.h"

/* Where another loader attached there is no link, but the kernel empties a devmap likewise. */
static bool no_way_out(const char *dir)
{
	struct bpf_devmap_val val;
	uint32_t key = 0;
	struct stat st;
	char path[WEFT_PATH_MAX];
	bool empty = false;
	int fd;

	/* being set up, or what is left of that: 'weft up' sees to it */
	if (snprintf(path, sizeof(path), "%s/%s", dir, WEFT_PIN_LOCK) >= (int)sizeof(path) ||
	    stat(path, &st))
		return false;
	fd = weft_td_obj(dir, "nic");
	if (fd >= 0) {
		empty = bpf_map_lookup_elem(fd, &key, &val) && errno == ENOENT;
		close(fd);
	}
	return empty;
}

/*
 * The kernel lets go of a link when its interface goes, and a device cannot work
 * without both of its own; nothing ever brings one back. So a link without an
 * interface tells, whoever has the namespace's inode or the interface's name now.
 */
static bool gone(const char *dir)
{
	int nic = weft_td_link_at(dir, WEFT_PIN_NIC_LINK);

	return !nic || !weft_td_link_at(dir, WEFT_PIN_DB_LINK) ||
	       (nic == -ENOENT && no_way_out(dir));
}

/* Where only the interface went and not its namespace, without its pins nobody would find it again. */
static void remove_doorbell(const char *dir)
{
	int db = weft_td_link_here(dir, WEFT_PIN_DB_LINK);

	if (db > 0)
		weft_td_link_del(db);
}

/* Nobody opens, uses or removes it: the door and the directory are ours. asked: somebody wants it. */
static bool remove_if_gone(const char *dir, bool asked)
{
	bool removed = false;
	int door, fd;

	if (!gone(dir))
		return false;
	door = weft_td_open_door(dir, LOCK_NB);
	if (door < 0)
		return false;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		if (!flock(fd, LOCK_EX | LOCK_NB) && weft_td_linked(fd, dir) && gone(dir)) {
			remove_doorbell(dir);
			/* Of a doorbell in another namespace these are the only trace; not on the way. */
			if (asked || weft_td_link_at(dir, WEFT_PIN_DB_LINK) <= 0)
				removed = !weft_td_unpin(dir);
		}
		close(fd);
	}
	weft_td_leave_door(dir, door);
	return removed;
}

int weft_flush(void (*removed)(const char *dir))
{
	char dir[WEFT_PATH_MAX];
	struct dirent *e;
	int n = 0;
	DIR *d;

	d = opendir(WEFT_PIN_BASE);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((e = readdir(d))) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9') /* "." and doors */
			continue;
		if (snprintf(dir, sizeof(dir), "%s/%s", WEFT_PIN_BASE, e->d_name) >=
			    (int)sizeof(dir) ||
		    !remove_if_gone(dir, removed))
			continue;
		weft_logf(WEFT_LOG_INFO, "%s: its interface is gone; removed", dir);
		if (removed)
			removed(dir);
		n++;
	}
	closedir(d);
	if (n)
		rmdir(WEFT_PIN_BASE); /* stays while there are devices */
	return n;
}
