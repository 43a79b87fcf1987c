/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Interfaces that were renamed, or moved to another namespace, while weft was on them. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

/*
 * The interface that has the program of these pins: its index, 0: it is gone, -errno: not
 * known. What another loader attached has no link; devcfg names the interface then.
 */
static int at(const char *dir)
{
	int ifindex = weft_td_link_here(dir, WEFT_PIN_NIC_LINK);
	struct weft_cfg_head head;
	struct weft_link link;

	if (ifindex != -ENOENT || weft_td_cfg(dir, &head, NULL) || !head.ifindex ||
	    weft_link_get(NULL, head.ifindex, &link) || !weft_attach_is_on(dir, &link))
		return ifindex;
	return head.ifindex;
}

void weft_rename_follow(struct weft_dev *dev)
{
	int ifindex = if_nametoindex(dev->ifname), len = strlen(WEFT_PIN_BASE) + 1;
	char dir[WEFT_PATH_MAX];
	struct dirent *e;
	DIR *d;

	if (!ifindex || !access(dev->pin_dir, F_OK))
		return;
	len = strchr(dev->pin_dir + len, '-') + 1 - dev->pin_dir;
	d = opendir(WEFT_PIN_BASE);
	while (d && (e = readdir(d))) {
		if (snprintf(dir, sizeof(dir), "%s/%s", WEFT_PIN_BASE, e->d_name) >=
			    (int)sizeof(dev->pin_dir) ||
		    strncmp(dir, dev->pin_dir, len) || at(dir) != ifindex)
			continue;
		weft_logf(WEFT_LOG_INFO, "%s: was called %s when weft came", dev->ifname,
			  dir + len);
		strcpy(dev->pin_dir, dir);
		break;
	}
	if (d)
		closedir(d);
}

int weft_rename_check(struct weft_dev *dev)
{
	int ifindex = at(dev->pin_dir);
	char name[IF_NAMESIZE];

	if (ifindex > 0 && ifindex != dev->ifindex && if_indextoname(ifindex, name))
		return weft_err(
			EBUSY, dev->ifname,
			"%s belongs to %s, which had this name before; run 'weft down %s' first",
			dev->pin_dir, name, name);
	return !ifindex;
}

void weft_rename_doorbell(const struct weft_dev *dev)
{
	if (weft_td_link_at(dev->pin_dir, WEFT_PIN_DB_LINK) > 0 &&
	    !weft_td_link_here(dev->pin_dir, WEFT_PIN_DB_LINK))
		weft_logf(WEFT_LOG_WARN,
			  "%s: its doorbell is in another network namespace; "
			  "remove it there with 'ip link del'",
			  dev->ifname);
}
