/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Before attaching: what the interface runs already, and whether weft can use it. */
#ifndef WEFT_USER_ADOPT_H
#define WEFT_USER_ADOPT_H

#include "dispatcher.h"
#include "object.h"

/* Why the kernel refused, or would; `why` are its own words, or "". Returns -errno. */
int weft_attach_refused(struct weft_dev *dev, const struct weft_link *link, int err,
			const char *why);
/* The maps of an adopted program as if they were new; nobody uses them. */
int weft_adopt_blank(struct weft_dev *dev, const struct weft_bpf *skel);

#endif
