/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an administrator does to a device: take it down, clean up after it, replace its programs. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "device.h"

/* Mark it, so that users who still live see it at once. */
static void mark_down(struct weft_dev *dev)
{
	struct weft_devcfg *cfg;
	struct weft_cfg_head head;
	uint32_t size;
	int fd;

	if (weft_td_cfg(dev->pin_dir, &head, &size) || head.abi != WEFT_ABI ||
	    size != sizeof(struct weft_devcfg))
		return;
	fd = weft_td_obj(dev->pin_dir, "devcfg");
	if (fd < 0)
		return;
	cfg = mmap(NULL, sizeof(*cfg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (cfg != MAP_FAILED) {
		/* a program of another loader stays: from now on it lets everything pass */
		cfg->port = 0;
		__atomic_fetch_or(&cfg->flags, WEFT_DEV_DOWN, __ATOMIC_RELEASE);
		munmap(cfg, sizeof(*cfg));
	}
	close(fd);
}

static int remove_pins(struct weft_dev *dev, const struct weft_link *link, bool idle)
{
	int err = weft_td_remove(dev->pin_dir, link->ifindex, idle);

	return err ? weft_err(-err, dev->ifname, "cannot remove %s: %s; remove it by hand",
			      dev->pin_dir, strerror(-err))
		   : 0;
}

static int no_pins(struct weft_dev *dev, const struct weft_link *link)
{
	return link->ifindex ? weft_err(ENOENT, dev->ifname,
					"weft is not up on this interface; nothing to do")
			     : weft_err(ENODEV, dev->ifname, "no such interface; see 'ip link'");
}

/* The directory, with its lock if nobody uses it; -1: it is not there. */
static int open_dir(struct weft_dev *dev, bool *idle)
{
	int fd = open(dev->pin_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct weft_cfg_head head;

	*idle = fd >= 0 && !weft_pins_flock(fd, LOCK_EX, 0) &&
		(weft_td_cfg(dev->pin_dir, &head, NULL) || !(head.flags & WEFT_DEV_SERVED));
	return fd;
}

/* Behind the door, used or not. */
static int take_down(struct weft_dev *dev, const struct weft_link *link, void *arg)
{
	bool idle;
	int fd = open_dir(dev, &idle), err;

	(void)arg;
	if (fd < 0 && errno == ENOENT)
		return no_pins(dev, link);
	mark_down(dev);
	weft_rename_doorbell(dev);
	err = remove_pins(dev, link, idle);
	if (fd >= 0)
		close(fd);
	return err;
}

struct unpin {
	void (*removed)(const char *dir);
};

/* Behind the door, and only what is of no use any more. */
static int clean_up(struct weft_dev *dev, const struct weft_link *link, void *arg)
{
	const char *why;
	bool idle;
	int err;

	dev->pin_fd = open_dir(dev, &idle);
	if (dev->pin_fd < 0)
		return errno == ENOENT ? no_pins(dev, link)
				       : weft_err(errno, dev->ifname, "cannot open %s: %s",
						  dev->pin_dir, strerror(errno));
	err = weft_rename_check(dev);
	if (err < 0)
		goto out;
	why = weft_attach_stale(dev, link);
	if (!why)
		err = weft_err(EBUSY, dev->ifname,
			       "weft works on this interface; to take it down run 'weft down %s'",
			       dev->ifname);
	else if (!idle)
		err = weft_err(EBUSY, dev->ifname,
			       "the pins in %s %s, but are in use; stop who uses them, or run "
			       "'weft down %s'",
			       dev->pin_dir, why, dev->ifname);
	else
		err = remove_pins(dev, link, true);
	if (!err) {
		weft_logf(WEFT_LOG_INFO, "%s: the pins in %s %s; removed", dev->ifname,
			  dev->pin_dir, why);
		((struct unpin *)arg)->removed(dev->pin_dir);
	}
out:
	close(dev->pin_fd);
	dev->pin_fd = -1;
	return err;
}

/* Do one of these in the namespace and behind the door. */
static int behind_door(const char *ifname, const struct weft_open_opts *options,
		       int (*job)(struct weft_dev *dev, const struct weft_link *link, void *arg),
		       void *arg)
{
	struct weft_open_opts o;
	struct weft_link link;
	struct weft_dev *dev;
	int ns, door, err;

	err = weft_dev_opts(ifname, options, &o);
	if (err)
		return err;
	if (geteuid())
		return weft_err(EPERM, ifname, "weft attaches BPF programs; run it as root");
	err = weft_dev_new(ifname, &o, &dev);
	if (err)
		return err;
	err = weft_ns_enter(dev, &ns);
	if (err)
		goto out_dev;
	weft_rename_follow(dev);
	door = weft_pins_enter(dev, WEFT_OPEN_LOCK_MS);
	if (door < 0) {
		err = door;
		goto out_ns;
	}
	/* it may have been renamed meanwhile; all 0 when it is gone, but its pins may be there */
	if (!dev->ifindex || weft_link_get(NULL, dev->ifindex, &link))
		weft_link_get(dev->ifname, 0, &link);
	dev->ifindex = link.ifindex;
	err = job(dev, &link, arg);
	weft_pins_exit(dev, door);
out_ns:
	weft_ns_leave(ns);
out_dev:
	weft_dev_free(dev);
	return err;
}

int weft_down(const char *ifname, const struct weft_open_opts *options)
{
	return behind_door(ifname, options, take_down, NULL);
}

int weft_unpin(const char *ifname, void (*removed)(const char *dir))
{
	struct unpin u = { .removed = removed };

	return behind_door(ifname, NULL, clean_up, &u);
}

static int replace(struct weft_dev *dev, const struct weft_link *link, void *arg)
{
	(void)arg;
	return weft_replace_programs(dev, link);
}

int weft_replace(const char *ifname)
{
	return behind_door(ifname, NULL, replace, NULL);
}
