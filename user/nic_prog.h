/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* weft's program on an interface, whoever loaded it: finding it, its maps, its ABI. */
#ifndef WEFT_USER_NIC_PROG_H
#define WEFT_USER_NIC_PROG_H

#include "internal.h"

#define WEFT_NIC_PROG "weft_nic"

struct weft_nic_prog {
	int fd; /* -1: none is attached */
	uint32_t id;
	bool used;       /* its maps are not as new */
	bool dispatcher; /* the interface runs libxdp's dispatcher, with or without weft's program */
};

/*
 * The program `weft_nic` that the interface runs, directly or under libxdp's dispatcher, and
 * that uses the map `devcfg` of that id (0: any). In the namespace of the interface.
 */
void weft_nic_find(const struct weft_link *link, uint32_t devcfg_id, struct weft_nic_prog *p);
/* Take weft's programs with that devcfg out of the dispatcher. */
void weft_nic_leave(int ifindex, uint32_t devcfg_id);
void weft_nic_close(struct weft_nic_prog *p);

uint32_t weft_prog_id(int fd);                           /* 0: not a program */
int weft_prog_map(int prog_fd, const char *name);        /* a map of the program; -ENOENT */
uint32_t weft_prog_abi(int prog_fd);                     /* as its BTF says; 0: it does not */
int weft_prog_cfg(int prog_fd, struct weft_devcfg *cfg); /* what its devcfg holds */
uint32_t weft_map_id(int fd);                            /* 0: not a map */

#endif
