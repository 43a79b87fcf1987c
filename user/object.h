/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The BPF object: loading it, with maps of its own or with those that a loaded program uses. */
#ifndef WEFT_USER_OBJECT_H
#define WEFT_USER_OBJECT_H

#include "device.h"
#include "nic_prog.h"
#include "weft.skel.h"

/* Maps to take instead of new ones; either may be left out. */
struct weft_maps_from {
	int prog_fd;      /* of this program; -1 */
	const char *pins; /* pinned in this directory; NULL */
};

/*
 * Open the object and give it those maps; maps that are not found there are made. An error
 * is said with weft_err().
 */
int weft_obj_open(struct weft_dev *dev, const struct weft_maps_from *from, struct weft_bpf **skel);
/* Before it is loaded: for n QPs, unless it has maps already or n is 0. For how many it is. */
uint32_t weft_obj_qps(struct weft_bpf *skel, uint32_t n);
/* Load it; without_nic: all but weft_nic, which is loaded already. Destroyed when that fails. */
int weft_obj_load(struct weft_dev *dev, bool without_nic, struct weft_bpf **skel);
/* Load weft_nic alone, with the maps that are pinned, and have the dispatcher run it. Descriptor. */
int weft_obj_join_dispatcher(struct weft_dev *dev);

#endif
