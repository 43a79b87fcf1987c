// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Locks of process slots: the process's, and weftd's own on those that it serves; whether there are any. */
#include <stdio.h>
#include <unistd.h>
#include <sys/file.h>

#include "device.h"

/* The directory <kind><slot>, locked; -EWOULDBLOCK: somebody has it. */
int weft_pins_lock_slot(struct weft_dev *dev, char kind, uint32_t slot, bool make)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%c%u", kind, slot);
	if (make && mkdirat(dev->pin_fd, name, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(dev->pin_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/*
 * The lock of a slot that weftd serves is in its client's hands, who might give it up while weftd
 * still works for him: so as long as it does, weftd has a lock of its own.
 */
int weft_pins_guard(struct weft_dev *dev, uint32_t slot, bool make)
{
	return weft_pins_lock_slot(dev, 'g', slot, make);
}

bool weft_pins_guarded(struct weft_dev *dev, uint32_t slot)
{
	int fd = weft_pins_guard(dev, slot, false);

	if (fd >= 0) {
		flock(fd, LOCK_UN);
		close(fd);
	}
	return fd == -EWOULDBLOCK;
}

static bool any_served(const struct weft_dev *dev)
{
	for (unsigned i = 0; i < WEFT_PROCS; i++)
		if (__atomic_load_n(&dev->maps.own->proc[i].token[0], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

/* Who comes writes his token, then sets the flag. */
void weft_pins_unserve(struct weft_dev *dev)
{
	uint32_t *flags = &dev->maps.cfg->flags;

	if (!(__atomic_load_n(flags, __ATOMIC_RELAXED) & WEFT_DEV_SERVED) || any_served(dev))
		return;
	__atomic_fetch_and(flags, ~WEFT_DEV_SERVED, __ATOMIC_SEQ_CST);
	/* somebody has come in between */
	if (any_served(dev))
		__atomic_fetch_or(flags, WEFT_DEV_SERVED, __ATOMIC_SEQ_CST);
}
