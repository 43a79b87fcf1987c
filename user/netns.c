/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Network namespaces: which one a device lives in, and stepping into it for a while. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "device.h"

#define SELF "/proc/thread-self/ns/net"

int weft_ns_open(struct weft_dev *dev, const char *netns)
{
	char path[PATH_MAX];
	struct stat mine, st;
	struct statfs fs;

	if (!netns)
		snprintf(path, sizeof(path), SELF);
	else if (strchr(netns, '/'))
		snprintf(path, sizeof(path), "%s", netns);
	else
		snprintf(path, sizeof(path), "/run/netns/%s", netns);
	dev->netns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (dev->netns_fd < 0)
		return weft_err(errno == ENOENT ? ENODEV : errno, netns ? netns : dev->ifname,
				"no such network namespace (%s); see 'ip netns list'", path);
	if (fstatfs(dev->netns_fd, &fs) || fs.f_type != NSFS_MAGIC || fstat(dev->netns_fd, &st) ||
	    stat(SELF, &mine))
		return weft_err(ENODEV, netns ? netns : dev->ifname,
				"%s is not a network namespace; see 'ip netns list'", path);
	dev->netns_ino = st.st_ino;
	dev->foreign_ns = st.st_ino != mine.st_ino || st.st_dev != mine.st_dev;
	return 0;
}

/*
 * bpffs would be mounted where it ends with this command, and the pins with it: under 'ip netns exec',
 * which gives each command a /sys of its own. What init sees lasts; where that is hidden, what the parent sees.
 */
int weft_ns_pins_last(const char *ifname)
{
	char parents[40];
	struct stat mine, lasts;
	struct statfs fs;

	snprintf(parents, sizeof(parents), "/proc/%d/ns/mnt", getppid());
	if ((!statfs(WEFT_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC) ||
	    stat("/proc/thread-self/ns/mnt", &mine) ||
	    (stat("/proc/1/ns/mnt", &lasts) && stat(parents, &lasts)) ||
	    (mine.st_ino == lasts.st_ino && mine.st_dev == lasts.st_dev))
		return 0;
	return weft_err(EXDEV, ifname,
			"no bpffs is on the %s seen here, and one that is mounted now ends with "
			"this command ('ip netns exec' hides the real one); name the namespace "
			"('weft -n NAME'), or enter it by 'nsenter --net=/run/netns/NAME'",
			WEFT_BPFFS);
}

static int enter(struct weft_dev *dev, int *saved)
{
	*saved = open(SELF, O_RDONLY | O_CLOEXEC);
	if (*saved < 0)
		return -errno;
	if (setns(dev->netns_fd, CLONE_NEWNET)) {
		int err = -errno;

		close(*saved);
		*saved = -1;
		return err;
	}
	return 0;
}

int weft_ns_enter(struct weft_dev *dev, int *saved)
{
	int err;

	*saved = -1;
	err = dev->foreign_ns ? enter(dev, saved) : 0;
	return err ? weft_err(-err, dev->ifname,
			      "cannot enter its network namespace: %s; run as root", strerror(-err))
		   : 0;
}

void weft_ns_leave(int saved)
{
	if (saved < 0)
		return;
	if (setns(saved, CLONE_NEWNET))
		weft_logf(WEFT_LOG_ERR, "netns: cannot return to the caller's namespace: %s",
			  strerror(errno));
	close(saved);
}
