// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What happens to a device and its QPs by itself: a bounded queue, and a descriptor to sleep on. */
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "internal.h"
#include "event.h"

/*
 * Whether some were lost is told behind those that there was room for; and the descriptor is readable
 * while there are events. Locked, after each change.
 */
static void mark(struct weft_events *e)
{
	uint64_t n = 1;

	if (!e->n && e->lost) {
		e->q[e->n++] = (struct weft_async_event){ .type = WEFT_EVENT_OVERRUN,
							  .info = e->lost,
							  .time_ns = weft_now_ns() };
		e->lost = 0;
	}
	if (e->n && !e->marked)
		e->marked = write(e->fd, &n, sizeof(n)) == sizeof(n);
	else if (!e->n && e->marked)
		e->marked = read(e->fd, &n, sizeof(n)) != sizeof(n);
}

int weft_events_init(struct weft_events *e)
{
	pthread_mutex_init(&e->lock, NULL);
	e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return e->fd < 0 ? -errno : 0;
}

void weft_events_fini(struct weft_events *e)
{
	if (e->fd >= 0)
		close(e->fd);
	pthread_mutex_destroy(&e->lock);
}

void weft_event_put(struct weft_dev *dev, enum weft_event_type type, struct weft_qp *qp,
		    uint32_t info)
{
	struct weft_events *e = &dev->events;

	pthread_mutex_lock(&e->lock);
	if (e->n == WEFT_EVENTS_MAX)
		e->lost++;
	else
		e->q[e->n++] = (struct weft_async_event){
			.type = type, .qp = qp, .info = info, .time_ns = weft_now_ns()
		};
	mark(e);
	pthread_mutex_unlock(&e->lock);
}

/* Nobody shall be handed a QP that is gone. */
void weft_event_forget(struct weft_dev *dev, const struct weft_qp *qp)
{
	struct weft_events *e = &dev->events;
	unsigned n = 0;

	pthread_mutex_lock(&e->lock);
	for (unsigned i = 0; i < e->n; i++)
		if (e->q[i].qp != qp)
			e->q[n++] = e->q[i];
	e->n = n;
	mark(e);
	pthread_mutex_unlock(&e->lock);
}

int weft_event_fd(struct weft_dev *dev)
{
	return dev->events.fd;
}

int weft_event_get(struct weft_dev *dev, struct weft_async_event *ev)
{
	struct weft_events *e = &dev->events;
	int got = 1;

	pthread_mutex_lock(&e->lock);
	if (e->n) {
		*ev = e->q[0];
		memmove(e->q, e->q + 1, --e->n * sizeof(e->q[0]));
	} else {
		got = 0;
	}
	mark(e);
	pthread_mutex_unlock(&e->lock);
	return got;
}

const char *weft_event_str(enum weft_event_type type)
{
	static const char *const text[] = {
		[WEFT_EVENT_QP_FATAL] = "the QP failed",
		[WEFT_EVENT_PEER_CLOSED] = "the peer closed",
		[WEFT_EVENT_PORT_DOWN] = "the link is down",
		[WEFT_EVENT_PORT_UP] = "the link is up",
		[WEFT_EVENT_DEVICE_LOST] = "the device is lost",
		[WEFT_EVENT_MTU] = "the MTU changed",
		[WEFT_EVENT_OVERRUN] = "events were lost",
	};

	if ((unsigned)type >= sizeof(text) / sizeof(text[0]))
		return "unknown";
	return text[type];
}
