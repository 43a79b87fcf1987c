/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the sources of the wirelab tool share. */
#ifndef WIRELAB_USER_H
#define WIRELAB_USER_H

#include <stdbool.h>

#include "wirelab.h"

#define BPFFS  "/sys/fs/bpf"
#define PREFIX "wirelab-"

struct options {
	const char *ports, *object, *pin, *capture;
	unsigned snap;
	bool tc, json, reset;
};

/* Prints one line and returns err, or -EINVAL when err is not negative. */
int fail(const char *object, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Runs until a signal; 0 or -errno. */
int cmd_run(const struct options *o, struct wl_cfg *cfg);

/* What passes, into a pcapng file; wiretap.c. The functions take NULL for no capture. */
struct bpf_object;
struct wiretap;
int tap_open(struct wiretap **out, struct bpf_object *obj, const struct options *o,
	     const struct wl_cfg *cfg); /* before the programs are attached; 0 or -errno */
int tap_read(struct wiretap *t);
int tap_close(struct wiretap *t); /* after they have been detached */

/* Numbered datagrams; exit codes. */
int cmd_send(int argc, char **argv);
int cmd_recv(int argc, char **argv);

#endif
