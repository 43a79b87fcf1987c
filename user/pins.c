/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pin directory: its locks, the process slots in it, its maps, and what dead processes left. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "device.h"

/*
 * Locks, all flock() on directories, so that the kernel drops them at death:
 *   /sys/fs/bpf/weft/open:<inode>-<ifname>   the door: EX while somebody opens,
 *                          closes or takes down the device
 *   /sys/fs/bpf/weft/<inode>-<ifname>   SH by every user for life; EX by who removes it
 *       its lock           EX around the allocation tables in the maps
 *       its p<slot>        EX by the process in that slot, for life
 *       its g<slot>        EX by weftd while it serves that process
 * A directory may be removed while one waits for its lock: look whether it is
 * still there (weft_td_linked()) and start over if not.
 */

/* ---- locks ---- */

#define TABLES_MS 10000 /* patience for the lock of the allocation tables */

/* Like flock(), with an end to its patience. -ETIMEDOUT (-EWOULDBLOCK when timeout_ms is 0). */
int weft_pins_flock(int fd, int how, int timeout_ms)
{
	uint64_t end = weft_now_ns() + timeout_ms * 1000000ull;
	struct timespec ts = { .tv_nsec = 500000 };

	while (flock(fd, how | LOCK_NB)) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return -errno;
		if (!timeout_ms)
			return -EWOULDBLOCK;
		if (weft_now_ns() >= end)
			return -ETIMEDOUT;
		nanosleep(&ts, NULL);
		/* who has held it for long will hold it longer */
		if (ts.tv_nsec < 20000000)
			ts.tv_nsec += ts.tv_nsec / 8;
	}
	return 0;
}

static bool is_bpffs(void)
{
	struct statfs fs;

	return !statfs(WEFT_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
}

static int need_bpffs(struct weft_dev *dev)
{
	int err = 0, fd;

	if (is_bpffs())
		return 0;
	if (mkdir(WEFT_BPFFS, 0700) && errno != EEXIST)
		return weft_err(errno, dev->ifname, "no directory %s: %s; mount sysfs on /sys",
				WEFT_BPFFS, strerror(errno));
	/* of two who do so at a time the second would hide what the first has made */
	fd = open(WEFT_BPFFS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		flock(fd, LOCK_EX);
	if (!is_bpffs() && mount("bpf", WEFT_BPFFS, "bpf", 0, "mode=0700"))
		err = weft_err(errno, dev->ifname,
			       "cannot mount bpffs: %s; run 'mount -t bpf bpf %s' as root",
			       strerror(errno), WEFT_BPFFS);
	else
		weft_logf(WEFT_LOG_INFO, "%s: mounted bpffs on %s", dev->ifname, WEFT_BPFFS);
	if (fd >= 0)
		close(fd);
	return err;
}

/* Unlocks and closes: a child that another thread has forked meanwhile holds the descriptor too. */
static void release(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

int weft_pins_enter(struct weft_dev *dev, int timeout_ms)
{
	char path[WEFT_PATH_MAX];
	int fd, err = need_bpffs(dev);

	if (err)
		return err;
	weft_td_door(dev->pin_dir, path);
	for (;;) {
		if ((mkdir(WEFT_PIN_BASE, 0700) && errno != EEXIST) ||
		    (mkdir(path, 0700) && errno != EEXIST && errno != ENOENT))
			return weft_err(errno, dev->ifname, "cannot create %s: %s", path,
					strerror(errno));
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0) {
			if (errno == ENOENT)
				continue; /* another process has just left by it */
			err = weft_err(errno, dev->ifname, "cannot open %s: %s", path,
				       strerror(errno));
			break;
		}
		err = weft_pins_flock(fd, LOCK_EX, timeout_ms);
		if (!err && weft_td_linked(fd, path))
			return fd;
		close(fd);
		if (!err)
			continue;
		if (err == -ETIMEDOUT)
			err = weft_err(EBUSY, dev->ifname,
				       "another process has opened or closed it for %d s now; see "
				       "'fuser %s'",
				       timeout_ms / 1000, path);
		else
			err = weft_err(-err, dev->ifname, "cannot lock %s: %s", path,
				       strerror(-err));
		break;
	}
	/* unless somebody stands in it, we may have made it */
	weft_td_close_door(dev->pin_dir, LOCK_NB);
	return err;
}

void weft_pins_exit(struct weft_dev *dev, int token)
{
	char path[WEFT_PATH_MAX];

	if (token < 0)
		return;
	weft_td_door(dev->pin_dir, path);
	rmdir(path); /* before it is unlocked: who waits for it sees that and starts over */
	rmdir(WEFT_PIN_BASE); /* stays while there are devices */
	release(token);
}

int weft_pins_lock(struct weft_dev *dev)
{
	int fd = openat(dev->pin_fd, WEFT_PIN_LOCK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	if (fd < 0) /* 'weft down' under a live user */
		return weft_err(errno == ENOENT ? ENODEV : errno, dev->ifname,
				"weft was taken down on this interface; close and open it again");
	err = weft_pins_flock(fd, LOCK_EX, TABLES_MS);
	if (err) {
		close(fd);
		return weft_err(
			EBUSY, dev->ifname,
			"another process has held its tables for %d s now; see 'fuser %s/%s'",
			TABLES_MS / 1000, dev->pin_dir, WEFT_PIN_LOCK);
	}
	return fd;
}

void weft_pins_unlock(int token)
{
	if (token >= 0)
		release(token);
}

/* ---- maps ---- */

static int open_map(struct weft_dev *dev, const char *name, size_t value_size, size_t entries,
		    void **mapping)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);
	int fd = weft_td_obj(dev->pin_dir, name);

	if (fd < 0)
		return weft_err(-fd, dev->ifname, "cannot open %s/%s: %s; run 'weft down %s'",
				dev->pin_dir, name, strerror(-fd), dev->ifname);
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != value_size ||
	    info.max_entries != entries) {
		close(fd);
		return weft_err(ESTALE, dev->ifname,
				"map %s has another layout; run 'weft down %s'", name, dev->ifname);
	}
	if (mapping) {
		void *p =
			mmap(NULL, entries * value_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED) {
			int err = errno;

			close(fd);
			return weft_err(err, dev->ifname, "cannot map %s: %s", name, strerror(err));
		}
		madvise(p, entries * value_size, MADV_DONTFORK);
		*mapping = p;
	}
	return fd;
}

#define PER_QP 0 /* entries: as many as the device has QPs */

int weft_pins_open_maps(struct weft_dev *dev)
{
	struct weft_maps *m = &dev->maps;
	const struct {
		int *fd;
		const char *name;
		size_t value_size, entries;
		void **mapping;
	} t[] = {
		{ &m->devcfg, "devcfg", sizeof(*m->cfg), 1, (void **)&m->cfg },
		{ &m->devrun, "devrun", sizeof(*m->run), 1, (void **)&m->run },
		{ &m->owners, "owners", sizeof(*m->own), 1, (void **)&m->own },
		{ &m->mrs, "mrs", sizeof(*m->mr), WEFT_MRS, (void **)&m->mr },
		{ &m->qpctl, "qpctl", sizeof(*m->ctl), PER_QP, (void **)&m->ctl },
		{ &m->qptx, "qptx", sizeof(struct weft_qptx), PER_QP, NULL },
		{ &m->qprx, "qprx", sizeof(struct weft_qprx), PER_QP, NULL },
		{ &m->pools, "pools", sizeof(uint32_t), WEFT_POOLS, NULL },
		{ &m->rings, "rings", sizeof(uint32_t), WEFT_PROCS, NULL },
		{ &m->xsks, "xsks", sizeof(uint32_t), WEFT_PROCS, NULL },
		{ &m->events, "events", sizeof(uint32_t), WEFT_CQS, NULL },
		{ &m->rqs, "rqs", sizeof(uint32_t), WEFT_RQS, NULL },
		{ &m->stats, "stats", sizeof(struct weft_stats), 1, NULL },
		{ &m->qptele, "qptele", sizeof(*m->tele), PER_QP, (void **)&m->tele },
		{ &m->devtele, "devtele", sizeof(*m->dtele), 1, (void **)&m->dtele },
	};
	unsigned i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		size_t n = t[i].entries == PER_QP ? m->qps : t[i].entries;
		int fd = open_map(dev, t[i].name, t[i].value_size, n, t[i].mapping);

		if (fd < 0)
			return fd;
		*t[i].fd = fd;
		if (i)
			continue;
		/* devcfg: the others are as large as it says */
		m->qps = m->cfg->qps;
		if (!m->qps || m->qps > WEFT_QPS_MAX)
			return weft_err(ESTALE, dev->ifname,
					"map devcfg has another layout; run 'weft down %s'",
					dev->ifname);
	}
	return 0;
}

static void unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}

#define MAP_FDS(m)                                                                                \
	{                                                                                         \
		&(m)->devcfg, &(m)->devrun, &(m)->owners, &(m)->mrs, &(m)->pools, &(m)->qpctl,    \
			&(m)->qptx, &(m)->qprx, &(m)->rings, &(m)->xsks, &(m)->events, &(m)->rqs, \
			&(m)->stats, &(m)->qptele, &(m)->devtele                                  \
	}

void weft_pins_no_maps(struct weft_dev *dev)
{
	int *fds[] = MAP_FDS(&dev->maps);
	unsigned i;

	memset(&dev->maps, 0, sizeof(dev->maps));
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		*fds[i] = -1;
}

void weft_pins_close_maps(struct weft_dev *dev)
{
	struct weft_maps *m = &dev->maps;
	int *fds[] = MAP_FDS(m);
	unsigned i;

	unmap(m->cfg, sizeof(*m->cfg));
	unmap(m->run, sizeof(*m->run));
	unmap(m->own, sizeof(*m->own));
	unmap(m->mr, sizeof(*m->mr) * WEFT_MRS);
	unmap(m->ctl, sizeof(*m->ctl) * m->qps);
	unmap(m->tele, sizeof(*m->tele) * m->qps);
	unmap(m->dtele, sizeof(*m->dtele));
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] >= 0)
			close(*fds[i]);
	weft_pins_no_maps(dev);
}

/* ---- what the dead left ---- */

/* Unpublish everything of a slot, so that XDP begins nothing new with it. How much there was. */
static unsigned hide_owner(struct weft_dev *dev, uint32_t slot)
{
	struct weft_maps *m = &dev->maps;
	unsigned n = 0;
	uint32_t i;

	for (i = 0; i < m->qps; i++)
		if (m->ctl[i].state != WEFT_QP_FREE && m->ctl[i].owner == slot) {
			__atomic_store_n(&m->ctl[i].state, WEFT_QP_CLOSED, __ATOMIC_RELEASE);
			n++;
		}
	for (i = 0; i < WEFT_MRS; i++)
		if (m->mr[i].owner == slot + 1) {
			__atomic_store_n(&m->mr[i].key, 0, __ATOMIC_RELEASE);
			n++;
		}
	for (i = 0; i < WEFT_POOLS; i++)
		if (m->own->pool[i] == slot + 1) {
			bpf_map_delete_elem(m->pools, &i);
			n++;
		}
	for (i = 0; i < WEFT_CQS; i++)
		if (m->own->cq[i] == slot + 1) {
			bpf_map_delete_elem(m->events, &i);
			n++;
		}
	for (i = 0; i < WEFT_RQS; i++)
		if (m->own->rq[i] == slot + 1) {
			bpf_map_delete_elem(m->rqs, &i);
			n++;
		}
	if (!bpf_map_delete_elem(m->rings, &slot))
		n++;
	return n + !!m->own->proc[slot].pid;
}

/* After the grace period: the places are free again. */
static void free_owner(struct weft_dev *dev, uint32_t slot)
{
	struct weft_maps *m = &dev->maps;
	uint32_t i;

	for (i = 0; i < m->qps; i++)
		if (m->ctl[i].state != WEFT_QP_FREE && m->ctl[i].owner == slot) {
			weft_settle_qp(dev, i);
			weft_tele_ended(dev, i, WEFT_TRACE_died);
			__atomic_store_n(&m->ctl[i].state, WEFT_QP_FREE, __ATOMIC_RELEASE);
		}
	for (i = 0; i < WEFT_MRS; i++)
		if (m->mr[i].owner == slot + 1)
			__atomic_store_n(&m->mr[i].owner, 0, __ATOMIC_RELEASE);
	for (i = 0; i < WEFT_POOLS; i++)
		if (m->own->pool[i] == slot + 1)
			m->own->pool[i] = 0;
	for (i = 0; i < WEFT_CQS; i++)
		if (m->own->cq[i] == slot + 1)
			m->own->cq[i] = 0;
	for (i = 0; i < WEFT_RQS; i++)
		if (m->own->rq[i] == slot + 1)
			m->own->rq[i] = 0;
	m->own->proc[slot] = (struct weft_owner){ 0 };
}

int weft_pins_purge_owner(struct weft_dev *dev, uint32_t slot)
{
	unsigned n = hide_owner(dev, slot);

	if (n) {
		weft_grace();
		free_owner(dev, slot);
		weft_logf(WEFT_LOG_DEBUG, "%s: slot %u: removed %u objects of a dead process",
			  dev->ifname, slot, n);
	}
	return n;
}

/* ---- process slots ---- */

/* The place of a process, locked; -EWOULDBLOCK: somebody lives there, or weftd serves him. */
static int lock_slot(struct weft_dev *dev, uint32_t slot, bool make)
{
	int fd = weft_pins_lock_slot(dev, 'p', slot, make);

	if (fd < 0)
		return fd;
	if (weft_pins_guarded(dev, slot)) {
		release(fd);
		return -EWOULDBLOCK;
	}
	return fd;
}

/* Those of `fds` that are locked by us are dead: clean up after all of them in one grace period. */
static unsigned purge(struct weft_dev *dev, const int fds[WEFT_PROCS])
{
	unsigned n = 0;
	uint32_t s;

	for (s = 0; s < WEFT_PROCS; s++)
		if (fds[s] >= 0)
			n += hide_owner(dev, s);
	if (!n)
		return 0;
	weft_grace();
	for (s = 0; s < WEFT_PROCS; s++)
		if (fds[s] >= 0)
			free_owner(dev, s);
	return n;
}

static unsigned purge_dead(struct weft_dev *dev)
{
	int fds[WEFT_PROCS];
	unsigned n;
	uint32_t s;

	for (s = 0; s < WEFT_PROCS; s++)
		fds[s] = lock_slot(dev, s, false);
	n = purge(dev, fds);
	for (s = 0; s < WEFT_PROCS; s++)
		if (fds[s] >= 0)
			release(fds[s]);
	return n;
}

int weft_pins_purge_dead(struct weft_dev *dev)
{
	int token = weft_pins_lock(dev);
	unsigned n;

	if (token < 0)
		return token;
	n = purge_dead(dev);
	weft_pins_unserve(dev);
	weft_pins_unlock(token);
	return n;
}

bool weft_pins_slot_taken(struct weft_dev *dev, uint32_t slot)
{
	int fd = lock_slot(dev, slot, false);

	if (fd >= 0)
		release(fd);
	return fd == -EWOULDBLOCK;
}

int weft_pins_take_slot(struct weft_dev *dev)
{
	int token = weft_pins_lock(dev);
	int fd = -EWOULDBLOCK;
	uint32_t s;

	if (token < 0)
		return token;
	purge_dead(dev);
	for (s = 0; s < WEFT_PROCS; s++) {
		fd = lock_slot(dev, s, true);
		if (fd != -EWOULDBLOCK)
			break;
	}
	if (fd >= 0) {
		dev->slot_fd = fd;
		dev->slot = s;
		/* Who died between the two looks left something here all the same. */
		weft_pins_purge_owner(dev, s);
		dev->maps.own->proc[s] = (struct weft_owner){ .uid = dev->uid,
							      .pid = dev->pid,
							      .rings = dev->nrings };
	}
	weft_pins_unlock(token);
	if (fd == -EWOULDBLOCK)
		return weft_err(ENOSPC, dev->ifname,
				"%d processes use this interface already; stop one of them",
				WEFT_PROCS);
	if (fd < 0)
		return weft_err(-fd, dev->ifname, "cannot take a process slot in %s: %s",
				dev->pin_dir, strerror(-fd));
	return 0;
}

void weft_pins_drop_slot(struct weft_dev *dev)
{
	if (dev->slot_fd >= 0)
		release(dev->slot_fd);
	dev->slot_fd = -1;
}
