/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Taking down what attach.c set up: the same code in the library and in the reaper. */
#ifndef WEFT_USER_TEARDOWN_H
#define WEFT_USER_TEARDOWN_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <weft/abi.h>

#include "nic_prog.h"

#define WEFT_BPFFS        "/sys/fs/bpf"
#define WEFT_PIN_BASE     WEFT_BPFFS "/weft"
#define WEFT_PIN_NIC_LINK "nic_link" /* XDP on the interface */
#define WEFT_PIN_DB_LINK  "db_link"  /* XDP on the doorbell */
#define WEFT_PIN_LOCK     "lock" /* directory, made last: its presence says that set-up finished */
#define WEFT_PATH_MAX     128
#define WEFT_CFG_MAX      4096 /* bytes that devcfg has in any ABI, at most */

/* The start of struct weft_devcfg, the same in every ABI. */
struct weft_cfg_head {
	uint32_t abi, ifindex, flags;
};

static inline int weft_td_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr)) < 0 ? -errno : 0;
}

/* Open a pinned object; descriptor or -errno. */
static inline int weft_td_obj(const char *dir, const char *name)
{
	char path[WEFT_PATH_MAX];
	union bpf_attr attr;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	memset(&attr, 0, sizeof(attr));
	attr.pathname = (uintptr_t)path;
	fd = syscall(SYS_bpf, BPF_OBJ_GET, &attr, sizeof(attr));
	return fd < 0 ? -errno : fd;
}

/* The program leaves the interface before this returns; dropping the pin alone would be later. */
static inline void weft_td_detach(const char *dir, const char *name)
{
	union bpf_attr attr;
	int fd = weft_td_obj(dir, name);

	if (fd < 0)
		return;
	memset(&attr, 0, sizeof(attr));
	attr.link_detach.link_fd = fd;
	weft_td_bpf(BPF_LINK_DETACH, &attr);
	close(fd);
}

/*
 * Take the programs out of a pinned device or CPU map. Those programs use the
 * very maps that they are in, a circle that keeps all of weft's maps in the kernel
 * for ever. Other objects are left alone: no type of theirs has these numbers.
 */
static inline void weft_td_empty(const char *dir, const char *name)
{
	struct bpf_map_info info;
	union bpf_attr attr;
	uint32_t key;
	int fd = weft_td_obj(dir, name);

	if (fd < 0)
		return;
	memset(&attr, 0, sizeof(attr));
	memset(&info, 0, sizeof(info));
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	if (!weft_td_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) &&
	    (info.type == BPF_MAP_TYPE_DEVMAP || info.type == BPF_MAP_TYPE_CPUMAP)) {
		for (key = 0; key < info.max_entries; key++) {
			memset(&attr, 0, sizeof(attr));
			attr.map_fd = fd;
			attr.key = (uintptr_t)&key;
			weft_td_bpf(BPF_MAP_DELETE_ELEM, &attr);
		}
	}
	close(fd);
}

/* What devcfg says, whichever ABI wrote it. value_size (may be NULL) receives its size. */
static inline int weft_td_cfg(const char *dir, struct weft_cfg_head *head, uint32_t *value_size)
{
	struct bpf_map_info info;
	union bpf_attr attr;
	uint32_t key = 0;
	char val[WEFT_CFG_MAX];
	int fd, err;

	fd = weft_td_obj(dir, "devcfg");
	if (fd < 0)
		return fd;
	memset(&attr, 0, sizeof(attr));
	memset(&info, 0, sizeof(info));
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	err = weft_td_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
	if (!err && (info.key_size != sizeof(key) || info.value_size < sizeof(*head) ||
		     info.value_size > sizeof(val)))
		err = -ESTALE;
	if (!err) {
		memset(&attr, 0, sizeof(attr));
		attr.map_fd = fd;
		attr.key = (uintptr_t)&key;
		attr.value = (uintptr_t)val;
		err = weft_td_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
	}
	close(fd);
	if (err)
		return err;
	memcpy(head, val, sizeof(*head));
	if (value_size)
		*value_size = info.value_size;
	return 0;
}

/* Delete an interface of the current network namespace. */
static inline int weft_td_link_del(int ifindex)
{
	struct {
		struct nlmsghdr nh;
		struct ifinfomsg ifi;
	} req = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(req.ifi)),
			.nlmsg_type = RTM_DELLINK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.ifi = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex },
	};
	struct {
		struct nlmsghdr nh;
		struct nlmsgerr e;
		char rest[1024];
	} ans;
	int fd, err = 0;
	ssize_t n;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	if (send(fd, &req, req.nh.nlmsg_len, 0) < 0) {
		err = -errno;
	} else {
		do
			n = recv(fd, &ans, sizeof(ans), 0);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			err = -errno;
		else if ((size_t)n < sizeof(ans.nh) + sizeof(ans.e) ||
			 ans.nh.nlmsg_type != NLMSG_ERROR)
			err = -EPROTO;
		else
			err = ans.e.error;
	}
	close(fd);
	return err;
}

#define WEFT_DB_ALIAS "weft doorbell" /* every doorbell has it, as "ip link" shows */

/* What must be known of an interface before it is deleted. */
struct weft_td_if {
	uint32_t prog; /* id of its XDP program */
	int doorbell;  /* weft made it as one */
};

/* Of the current network namespace. 0 or -errno. */
static inline int weft_td_if_get(int ifindex, struct weft_td_if *i)
{
	struct {
		struct nlmsghdr nh;
		struct ifinfomsg ifi;
	} req = {
		.nh = { .nlmsg_len = NLMSG_LENGTH(sizeof(req.ifi)),
			.nlmsg_type = RTM_GETLINK,
			.nlmsg_flags = NLM_F_REQUEST },
		.ifi = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex },
	};
	union {
		struct nlmsghdr nh;
		char buf[16384];
	} ans;
	struct rtattr *a, *b;
	int left, in, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n;

	memset(i, 0, sizeof(*i));
	if (fd < 0)
		return -errno;
	n = send(fd, &req, req.nh.nlmsg_len, 0);
	while (n >= 0 && (n = recv(fd, &ans, sizeof(ans), 0)) < 0 && errno == EINTR)
		n = 0;
	close(fd);
	if (n < 0 || !NLMSG_OK(&ans.nh, (size_t)n) || ans.nh.nlmsg_type != RTM_NEWLINK)
		return -ENODEV;
	left = IFLA_PAYLOAD(&ans.nh);
	for (a = IFLA_RTA(NLMSG_DATA(&ans.nh)); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFLA_IFALIAS)
			i->doorbell =
				RTA_PAYLOAD(a) >= sizeof(WEFT_DB_ALIAS) - 1 &&
				!memcmp(RTA_DATA(a), WEFT_DB_ALIAS, sizeof(WEFT_DB_ALIAS) - 1);
		if ((a->rta_type & NLA_TYPE_MASK) != IFLA_XDP)
			continue;
		in = RTA_PAYLOAD(a);
		for (b = RTA_DATA(a); RTA_OK(b, in); b = RTA_NEXT(b, in))
			if (b->rta_type == IFLA_XDP_PROG_ID)
				memcpy(&i->prog, RTA_DATA(b), sizeof(i->prog));
	}
	return 0;
}

static inline void weft_td_db_name(uint32_t ifindex, char name[IFNAMSIZ])
{
	snprintf(name, IFNAMSIZ, "weft%ut", ifindex);
}

/* Is fd still the directory of that path? A lock on a removed one guards nothing. */
static inline int weft_td_linked(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && a.st_nlink && !stat(path, &b) && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

/* The lock of those who open or close: next to the directory, for that one comes and goes. */
static inline void weft_td_door(const char *dir, char path[WEFT_PATH_MAX])
{
	const char *name = strrchr(dir, '/') + 1;

	snprintf(path, WEFT_PATH_MAX, "%.*sopen:%s", (int)(name - dir), dir, name);
}

/* Stand in the door; flags: 0 to wait for who does, or LOCK_NB. Its descriptor, or -1. */
static inline int weft_td_open_door(const char *dir, int flags)
{
	char door[WEFT_PATH_MAX];
	int fd;

	weft_td_door(dir, door);
	for (;;) {
		if (mkdir(door, 0700) && errno != EEXIST)
			return -1;
		fd = open(door, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue; /* another process has just left by it */
		if (fd < 0)
			return -1;
		while (flock(fd, LOCK_EX | flags)) {
			if (errno == EINTR)
				continue;
			close(fd);
			return -1;
		}
		if (weft_td_linked(fd, door))
			return fd;
		close(fd);
	}
}

/* Leave it: removed before it is unlocked, so that who waits for it sees that and starts over. */
static inline void weft_td_leave_door(const char *dir, int fd)
{
	char door[WEFT_PATH_MAX];

	if (fd < 0)
		return;
	weft_td_door(dir, door);
	rmdir(door);
	close(fd);
}

/* Remove a door that somebody died in; flags: 0 to wait for who is in it, or LOCK_NB. */
static inline void weft_td_close_door(const char *dir, int flags)
{
	char door[WEFT_PATH_MAX];
	int fd;

	weft_td_door(dir, door);
	fd = open(door, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | flags) && weft_td_linked(fd, door))
		rmdir(door);
	close(fd);
}

static inline int weft_td_complete(int dir_fd)
{
	return !faccessat(dir_fd, WEFT_PIN_LOCK, F_OK, 0);
}

/* Where a pinned link is attached: an interface index, 0: its interface is gone, -errno: no link. */
static inline int weft_td_link_prog(const char *dir, const char *name, uint32_t *prog)
{
	struct bpf_link_info info;
	union bpf_attr attr;
	int fd = weft_td_obj(dir, name), err;

	if (fd < 0)
		return fd;
	memset(&attr, 0, sizeof(attr));
	memset(&info, 0, sizeof(info));
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	err = weft_td_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
	close(fd);
	*prog = info.prog_id;
	return err ? err : (int)info.xdp.ifindex;
}

static inline int weft_td_link_at(const char *dir, const char *name)
{
	uint32_t prog;

	return weft_td_link_prog(dir, name, &prog);
}

/*
 * The same, but 0 also when that interface is in another namespace. The index
 * alone does not tell: here it may be somebody else's. A program's id is its own.
 */
static inline int weft_td_link_here(const char *dir, const char *name)
{
	struct weft_td_if i;
	uint32_t prog;
	int at = weft_td_link_prog(dir, name, &prog);

	return at > 0 && (weft_td_if_get(at, &i) || i.prog != prog) ? 0 : at;
}

/* Remove what is pinned in `dir` and the directory. 0 when it is gone. */
static inline int weft_td_unpin(const char *dir)
{
	struct dirent *e;
	DIR *d;

	weft_td_detach(dir, WEFT_PIN_NIC_LINK);
	weft_td_detach(dir, WEFT_PIN_DB_LINK);
	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	/* The mark of completeness first: a removal cut short must look like half a set-up. */
	unlinkat(dirfd(d), WEFT_PIN_LOCK, AT_REMOVEDIR);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		weft_td_empty(dir, e->d_name);
		if (unlinkat(dirfd(d), e->d_name, 0) && (errno == EISDIR || errno == EPERM))
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	closedir(d);
	if (rmdir(dir) && errno != ENOENT)
		return -errno;
	weft_td_close_door(dir, LOCK_NB);
	rmdir(WEFT_PIN_BASE); /* stays when other devices are in it */
	return 0;
}

/* Leave libxdp's dispatcher, if it was weft that joined it. */
static inline void weft_td_leave_dispatcher(const char *dir, uint32_t ifindex)
{
	int fd = weft_td_obj(dir, "devcfg");

	if (fd < 0)
		return;
	weft_nic_leave(ifindex, weft_map_id(fd));
	close(fd);
}

/* A program that another loader attached lets everything pass again, and may be adopted again. */
static inline void weft_td_blank(int cfg_fd, uint32_t size)
{
	static const union {
		struct weft_cfg_head head;
		char all[WEFT_CFG_MAX];
	} val = { .head.flags = WEFT_DEV_USED };
	union bpf_attr attr;
	uint32_t key = 0;

	/* 0: it could not be read, and is not known to be a devcfg */
	if (!size || size > sizeof(val))
		return;
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = cfg_fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)&val;
	weft_td_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

/*
 * Remove what is pinned in `dir` and what it stands for, then the directory. In
 * the interface's network namespace. ifindex is used when devcfg cannot tell.
 * idle: no process uses it any more, and whoever holds its maps may have them anew.
 * Doing it twice, or after half a set-up, is fine. 0 when the directory is gone.
 *
 * What another loader has attached is his to unload: it stays, and does nothing.
 */
static inline int weft_td_remove(const char *dir, uint32_t ifindex, int idle)
{
	char name[IFNAMSIZ];
	struct weft_cfg_head head;
	struct weft_td_if i;
	uint32_t size = 0;
	int db, cfg, err;

	weft_td_detach(dir, WEFT_PIN_NIC_LINK);
	if (!weft_td_cfg(dir, &head, &size)) {
		if (head.ifindex)
			ifindex = head.ifindex;
		if (head.flags & WEFT_DEV_SHARED)
			weft_td_leave_dispatcher(dir, ifindex);
	}
	/*
	 * Before its link is detached, so that a removal cut short can be repeated.
	 * Whatever it is called by now: it runs our program. Without a link yet it has
	 * our name and our tag, or it is somebody else's.
	 */
	db = weft_td_link_here(dir, WEFT_PIN_DB_LINK);
	if (db < 0 && ifindex) {
		weft_td_db_name(ifindex, name);
		db = if_nametoindex(name);
		if (db && (weft_td_if_get(db, &i) || !i.doorbell || i.prog))
			db = 0;
	}
	if (db > 0)
		weft_td_link_del(db);
	cfg = weft_td_obj(dir, "devcfg");
	err = weft_td_unpin(dir);
	if (cfg >= 0) {
		if (!err && idle)
			weft_td_blank(cfg, size);
		close(cfg);
	}
	return err;
}

#endif
