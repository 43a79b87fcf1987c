/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of `weft capture` share: the connections' secrets, and lines about packets. */
#ifndef WEFT_TOOL_CAPTURE_H
#define WEFT_TOOL_CAPTURE_H

#include <stddef.h>
#include <stdio.h>
#include <capture/reader.h>

#include "cli.h"

/*
 * One line about a frame: text, or with -j a JSON object. ns: since 1970. 0, or
 * -1 when it could not be written.
 */
int capture_line(FILE *f, const char *ifname, const struct weft_cap_rec *r, uint64_t ns);

/* The connection key of a weft packet in a frame; false: it has none. */
bool capture_conn(const struct weft_cap_rec *r, uint64_t *conn);

/* The secret that a QP's header check keys were made of. */
uint64_t capture_secret(const struct weft_qpctl *ctl);

#endif
