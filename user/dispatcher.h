/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libxdp's dispatcher, which runs several XDP programs on one interface. Library and reaper. */
#ifndef WEFT_USER_DISPATCHER_H
#define WEFT_USER_DISPATCHER_H

#include <stdint.h>

struct bpf_object;

/*
 * All in the network namespace of the interface; silent.
 *
 * The program of that name under the interface's dispatcher for which mine() says
 * yes: a descriptor. -ENOENT: the dispatcher runs none. -ESRCH: there is no dispatcher.
 */
int weft_disp_find(int ifindex, const char *name, int (*mine)(int prog_fd, const void *arg),
		   const void *arg);
/* Load program `name` of an object that is only opened, and have the dispatcher run it. */
int weft_disp_attach(struct bpf_object *obj, const char *name, int ifindex);
/* Take a program out; with the last one the dispatcher goes. */
int weft_disp_detach(int ifindex, uint32_t prog_id);

#endif
