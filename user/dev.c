/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Opening and closing a device: who comes first attaches, who leaves last detaches. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/if_xdp.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "device.h"
#include "nic_prog.h"
#include "priv.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

#define CLOSE_LOCK_MS 10000
#define REMOVE_MS     5000 /* the reaper's work takes far less */
#define TRIES         50
#define NO_REAPER     (-2) /* it could not be started, and that has been said */

/* ---- joining and leaving the pin directory ---- */

static int start_reaper(struct weft_dev *dev)
{
	int go = -1, err = weft_reaper_start(dev, &go);

	if (err)
		weft_logf(WEFT_LOG_WARN,
			  "%s: cannot start the reaper: %s; after a crash run 'weft down %s'",
			  dev->ifname, strerror(-err), dev->ifname);
	return err ? NO_REAPER : go;
}

/* Make the directory and set the device up in it; the reaper exists already. */
static int create(struct weft_dev *dev, const struct weft_open_opts *opts,
		  const struct weft_link *link)
{
	struct weft_nic_prog found;
	int err = weft_attach_check(dev, link, &found);

	/* what is there may be in use by others: nothing of it is ours to remove */
	if (!err && mkdir(dev->pin_dir, 0700))
		err = weft_err(errno, dev->ifname, "cannot create %s: %s", dev->pin_dir,
			       strerror(errno));
	if (err) {
		weft_nic_close(&found);
		return err;
	}
	dev->pin_fd = open(dev->pin_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dev->pin_fd < 0 || flock(dev->pin_fd, LOCK_SH)) {
		err = weft_err(errno, dev->ifname, "cannot lock %s: %s", dev->pin_dir,
			       strerror(errno));
	} else {
		weft_flush(NULL); /* what others could not: their namespace is gone */
		err = weft_attach(dev, opts, link, &found);
		if (!err && mkdirat(dev->pin_fd, WEFT_PIN_LOCK, 0700))
			err = weft_err(errno, dev->ifname, "cannot create %s/%s: %s", dev->pin_dir,
				       WEFT_PIN_LOCK, strerror(errno));
	}
	weft_nic_close(&found);
	if (!err)
		return 0;
	weft_td_remove(dev->pin_dir, dev->ifindex, true);
	if (dev->pin_fd >= 0)
		close(dev->pin_fd);
	dev->pin_fd = -1;
	return err;
}

/* Behind the door. -EAGAIN: what we looked at was removed meanwhile. */
static int join_or_create(struct weft_dev *dev, const struct weft_open_opts *opts, int *go)
{
	struct weft_link link;
	const char *why;
	int fd, lost, err;

	err = weft_link_get(dev->ifname, 0, &link);
	if (err)
		return weft_err(ENODEV, dev->ifname, "no such interface; see 'ip link'");
	dev->ifindex = link.ifindex;
	fd = open(dev->pin_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		if (*go == -1)
			*go = start_reaper(dev);
		return create(dev, opts, &link);
	}
	if (fd < 0)
		return weft_err(errno, dev->ifname, "cannot open %s: %s", dev->pin_dir,
				strerror(errno));
	dev->pin_fd = fd;
	if (weft_pins_flock(fd, LOCK_SH, REMOVE_MS)) {
		err = weft_err(EBUSY, dev->ifname,
			       "%s is being removed by a process that hangs; see 'fuser %s'",
			       dev->pin_dir, dev->pin_dir);
		goto drop;
	}
	err = -EAGAIN;
	if (!weft_td_linked(fd, dev->pin_dir))
		goto drop;
	lost = weft_rename_check(dev);
	if (lost < 0) {
		err = lost;
		goto drop;
	}
	why = weft_attach_stale(dev, &link);
	if (!why)
		return 0;
	/*
	 * Who still uses an interface that is gone has lost it anyway, and may sleep for
	 * long: he is not waited for. Trading the lock gives it up for an instant, which
	 * the reaper may use.
	 */
	if (!lost && weft_pins_flock(fd, LOCK_EX, 0)) {
		if (weft_pins_flock(fd, LOCK_SH, 0) || !weft_td_linked(fd, dev->pin_dir))
			goto drop;
		err = weft_err(ESTALE, dev->ifname,
			       "the pins in %s %s, but are in use; run 'weft down %s'",
			       dev->pin_dir, why, dev->ifname);
		goto drop;
	}
	if (weft_td_linked(fd, dev->pin_dir)) {
		weft_logf(WEFT_LOG_WARN, "%s: the pins in %s %s; removed", dev->ifname,
			  dev->pin_dir, why);
		err = weft_td_remove(dev->pin_dir, dev->ifindex, !lost);
		err = err ? weft_err(-err, dev->ifname, "cannot remove %s: %s; remove it by hand",
				     dev->pin_dir, strerror(-err))
			  : -EAGAIN;
	}
drop:
	close(dev->pin_fd);
	dev->pin_fd = -1;
	return err;
}

static int join(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	struct timespec ts = { .tv_nsec = 2000000 };
	int i, door, go = -1, err = -EAGAIN;
	struct weft_link link;

	if (weft_link_get(dev->ifname, 0, &link))
		return weft_err(ENODEV, dev->ifname, "no such interface; see 'ip link'");
	dev->ifindex = link.ifindex;
	if (opts->persist && weft_ns_pins_last(dev->ifname))
		return -EXDEV;
	for (i = 0; i < TRIES && err == -EAGAIN; i++) {
		/* Before anything is made: wherever we are killed, the reaper cleans up. */
		if (go == -1 && access(dev->pin_dir, F_OK))
			go = start_reaper(dev);
		door = weft_pins_enter(dev, WEFT_OPEN_LOCK_MS);
		if (door < 0) {
			err = door;
			break;
		}
		err = join_or_create(dev, opts, &go);
		weft_pins_exit(dev, door);
		if (err == -EAGAIN)
			nanosleep(&ts, NULL);
	}
	if (go >= 0)
		close(go); /* from here on the reaper waits for our lock, or finds nothing to do */
	if (err == -EAGAIN)
		return weft_err(EBUSY, dev->ifname, "%s comes and goes; try again", dev->pin_dir);
	return err;
}

/* The last one removes everything; in the namespace. */
static void leave(struct weft_dev *dev)
{
	struct weft_cfg_head head = {};
	int door;

	if (dev->pin_fd < 0)
		return;
	/* Without it two leavers may each take the other for a user: the reaper's case. */
	door = weft_pins_enter(dev, CLOSE_LOCK_MS);
	if (!weft_pins_flock(dev->pin_fd, LOCK_EX, 0)) {
		if (weft_td_linked(dev->pin_fd, dev->pin_dir) &&
		    (weft_td_cfg(dev->pin_dir, &head, NULL) || !(head.flags & WEFT_DEV_KEEP)))
			weft_td_remove(dev->pin_dir, dev->ifindex, true);
	} else {
		/* Other users have it shared, and so would we; if not, the reaper is at work: wait. */
		weft_pins_flock(dev->pin_fd, LOCK_SH, REMOVE_MS);
	}
	close(dev->pin_fd);
	dev->pin_fd = -1;
	weft_pins_exit(dev, door);
}

/* ---- this process on the device ---- */

int weft_dev_map_rings(struct weft_dev *dev)
{
	size_t len = sizeof(struct weft_ring) * dev->nrings;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, dev->rings_fd, 0);

	if (p == MAP_FAILED)
		return weft_err(errno, dev->ifname, "cannot map the rings: %s", strerror(errno));
	madvise(p, len, MADV_DONTFORK);
	dev->rings = p;
	return 0;
}

int weft_dev_open_rings(struct weft_dev *dev)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);

	dev->rings_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "weft_rings", sizeof(uint32_t),
				       sizeof(struct weft_ring), dev->nrings, &opts);
	if (dev->rings_fd < 0)
		return -errno;
	if (bpf_map_update_elem(dev->maps.rings, &dev->slot, &dev->rings_fd, BPF_ANY))
		return -errno;
	return 0;
}

/* The kernel takes the socket out of the map when the process dies: that is how XDP knows. */
static int open_xsk(struct weft_dev *dev)
{
	int entries = 2;

	dev->xsk_fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (dev->xsk_fd < 0 ||
	    setsockopt(dev->xsk_fd, SOL_XDP, XDP_RX_RING, &entries, sizeof(entries)) ||
	    bpf_map_update_elem(dev->maps.xsks, &dev->slot, &dev->xsk_fd, BPF_ANY))
		return -errno;
	return 0;
}

static int settle_in(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	int err;

	err = weft_pins_open_maps(dev) ?: weft_pins_check_opts(dev, opts);
	if (err)
		return err;
	dev->nrings = weft_pins_rings(dev, opts->qps);
	err = weft_pins_take_slot(dev);
	if (err)
		return err;
	if (opts->persist)
		__atomic_fetch_or(&dev->maps.cfg->flags, WEFT_DEV_PERSIST, __ATOMIC_RELEASE);
	err = weft_dev_open_rings(dev);
	if (err)
		return weft_err(-err, dev->ifname, "cannot create the rings: %s", strerror(-err));
	err = weft_dev_map_rings(dev);
	if (err)
		return err;
	err = open_xsk(dev);
	if (err)
		return weft_err(-err, dev->ifname, "cannot use AF_XDP sockets: %s", strerror(-err));
	err = weft_doorbell_open(dev);
	if (err)
		return err;
	return weft_pd_alloc(dev, &dev->pd0);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* What this process has of its slot. */
void weft_dev_drop_fds(struct weft_dev *dev)
{
	close_fd(&dev->db_fd);
	close_fd(&dev->xsk_fd);
	if (dev->rings)
		munmap(dev->rings, sizeof(struct weft_ring) * dev->nrings);
	dev->rings = NULL;
	close_fd(&dev->rings_fd);
	weft_pins_drop_slot(dev);
}

/* Undo settle_in(), wherever it stopped. */
static void move_out(struct weft_dev *dev)
{
	int token;

	if (dev->slot_fd >= 0) {
		bpf_map_delete_elem(dev->maps.xsks, &dev->slot);
		weft_mem_fini(dev);
		token = weft_td_linked(dev->pin_fd, dev->pin_dir) ? weft_pins_lock(dev) : -1;
		if (token >= 0) /* else nobody looks at the tables any more */
			weft_pins_purge_owner(dev, dev->slot);
		weft_pins_unlock(token);
	}
	weft_dev_drop_fds(dev);
	weft_pins_close_maps(dev);
}

/* ---- handles ---- */

void weft_dev_free(struct weft_dev *dev)
{
	close_fd(&dev->netns_fd);
	weft_events_fini(&dev->events);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

/* Its own name for an alternative one: the pins, and all that is said, go by that. */
static int own_name(struct weft_dev *dev, const char *ifname)
{
	struct weft_link link;
	int ns = -1, err = 0;

	/* who may not enter it has weftd, which will find the name */
	if (dev->foreign_ns)
		err = geteuid() ? -EPERM : weft_ns_enter(dev, &ns);
	if (err && err != -EPERM)
		return err;
	if (!err)
		err = weft_link_get(ifname, 0, &link);
	weft_ns_leave(ns);
	/* one that is gone may have left pins behind */
	if (err && strlen(ifname) >= IF_NAMESIZE)
		return weft_err(ENODEV, ifname, "no such interface; see 'ip link'");
	strcpy(dev->ifname, err ? ifname : link.name);
	dev->ifindex = err ? 0 : link.ifindex;
	return 0;
}

/* A handle with its names and its namespace. */
int weft_dev_new(const char *ifname, const struct weft_open_opts *opts, struct weft_dev **out)
{
	pthread_mutexattr_t attr;
	struct weft_dev *dev;
	char *c;
	int err;

	if (!ifname || !*ifname || strlen(ifname) >= ALTIFNAMSIZ || strchr(ifname, '/'))
		return weft_err(ENODEV, ifname && *ifname ? ifname : "open",
				"no such interface; see 'ip link'");
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return weft_err(ENOMEM, ifname, "out of memory");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&dev->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	snprintf(dev->ifname, sizeof(dev->ifname), "%s", ifname);
	dev->netns_fd = dev->pin_fd = dev->slot_fd = dev->xsk_fd = dev->rings_fd = -1;
	dev->db_fd = -1;
	dev->priv = &weft_direct;
	dev->pid = getpid();
	dev->uid = getuid();
	weft_pins_no_maps(dev);
	err = weft_events_init(&dev->events);
	if (err)
		weft_err(-err, dev->ifname, "no descriptor for events: %s", strerror(-err));
	else
		err = weft_ns_open(dev, opts->netns) ?: own_name(dev, ifname);
	if (err) {
		weft_dev_free(dev);
		return err;
	}
	snprintf(dev->pin_dir, sizeof(dev->pin_dir), "%s/%llu-%s", WEFT_PIN_BASE,
		 (unsigned long long)dev->netns_ino, dev->ifname);
	/* bpffs keeps dots for itself; a colon cannot be in an interface's name. */
	for (c = strrchr(dev->pin_dir, '/'); *c; c++)
		if (*c == '.')
			*c = ':';
	*out = dev;
	return 0;
}

/* Has 'weft down' come? It does not wait for users. */
static bool taken_down(const struct weft_dev *dev)
{
	return (dev->maps.cfg &&
		__atomic_load_n(&dev->maps.cfg->flags, __ATOMIC_ACQUIRE) & WEFT_DEV_DOWN) ||
	       !weft_td_complete(dev->pin_fd) || !weft_td_linked(dev->pin_fd, dev->pin_dir);
}

int weft_dev_enter_direct(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	int ns, err, races = 3;

	if (geteuid())
		return weft_err(EPERM, dev->ifname, "weft attaches BPF programs; run it as root");
	err = weft_ns_enter(dev, &ns);
	if (err)
		return err;
	weft_rename_follow(dev);
again:
	err = join(dev, opts);
	if (err)
		goto out;
	err = settle_in(dev, opts);
	if (!err) {
		err = weft_ctl_start(dev);
		if (err)
			err = weft_err(-err, dev->ifname, "cannot start the control thread: %s",
				       strerror(-err));
	}
	/* A 'weft down' that began while we moved in: the control thread may not have heard of it. */
	if (taken_down(dev)) {
		weft_ctl_stop(dev);
		if (races--) {
			move_out(dev);
			leave(dev);
			goto again;
		}
		err = weft_err(EBUSY, dev->ifname,
			       "'weft down' comes again and again while it is opened; try again");
	}
	if (err) {
		move_out(dev);
		leave(dev);
	}
out:
	weft_ns_leave(ns);
	return err;
}

void weft_dev_leave_direct(struct weft_dev *dev)
{
	int ns;

	weft_ctl_stop(dev);
	move_out(dev);
	if (!weft_ns_enter(dev, &ns)) {
		leave(dev);
		weft_ns_leave(ns);
	}
	close_fd(&dev->pin_fd);
}

int weft_open(const char *ifname, const struct weft_open_opts *options, struct weft_dev **out)
{
	struct weft_open_opts opts;
	struct weft_dev *dev;
	int err;

	err = weft_dev_opts(ifname, options, &opts);
	if (err)
		return err;
	if (!out || !ifname)
		return weft_err(EINVAL, ifname ? ifname : "open", "an argument is NULL; pass it");
	err = weft_dev_check_opts(ifname, &opts);
	if (err)
		return err;
	err = weft_dev_new(ifname, &opts, &dev);
	if (err)
		return err;
	if (weft_daemon_path(&opts))
		dev->priv = &weft_remote;
	err = dev->priv->enter(dev, &opts);
	if (err) {
		weft_dev_free(dev);
		return err;
	}
	*out = dev;
	return 0;
}

void weft_close(struct weft_dev *dev)
{
	struct weft_srq *srq;
	struct weft_cq *cq;

	if (!dev)
		return;
	weft_qp_destroy_those(dev);
	while ((srq = LIST_FIRST(&dev->srqs)))
		weft_srq_destroy(srq);
	while ((cq = LIST_FIRST(&dev->cqs)))
		if (weft_cq_destroy(cq))
			break;
	dev->priv->leave(dev);
	weft_dev_free(dev);
}
