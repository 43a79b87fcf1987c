/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The text of weft metrics. */
#ifndef WEFT_TOOL_METRICS_H
#define WEFT_TOOL_METRICS_H

#include "qps.h"

/* Of dev, or of every device when it is NULL. malloc'd, or NULL after a message. */
char *metrics_text(const char *dev, size_t *len);

#endif
