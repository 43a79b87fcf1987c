/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The queue of asynchronous events of a device handle. */
#ifndef WEFT_USER_EVENT_H
#define WEFT_USER_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <weft/weft.h>

struct weft_events {
	pthread_mutex_t lock;
	int fd;
	bool marked; /* fd is readable */
	unsigned n;
	uint32_t lost;
	struct weft_async_event q[WEFT_EVENTS_MAX];
};

int weft_events_init(struct weft_events *e);
void weft_events_fini(struct weft_events *e);
/* Any thread. */
void weft_event_put(struct weft_dev *dev, enum weft_event_type type, struct weft_qp *qp,
		    uint32_t info);
void weft_event_forget(struct weft_dev *dev, const struct weft_qp *qp);

#endif
