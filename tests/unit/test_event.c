/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* user/event.c: order, room, what is lost and what is forgotten, and the descriptor that tells. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../user/event.c"

static uint64_t clock_ns;

uint64_t weft_now_ns(void)
{
	return ++clock_ns;
}

static struct weft_dev *dev;
static struct weft_qp *const one = (void *)1, *const other = (void *)2;

static int setup(void **state)
{
	(void)state;
	dev = calloc(1, sizeof(*dev));
	return dev ? weft_events_init(&dev->events) : -1;
}

static int teardown(void **state)
{
	(void)state;
	weft_events_fini(&dev->events);
	free(dev);
	return 0;
}

static bool readable(void)
{
	struct pollfd p = { .fd = weft_event_fd(dev), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void next_is(enum weft_event_type type, const struct weft_qp *qp, uint32_t info)
{
	struct weft_async_event ev;

	assert_true(readable());
	assert_int_equal(weft_event_get(dev, &ev), 1);
	assert_int_equal(ev.type, type);
	assert_ptr_equal(ev.qp, qp);
	assert_int_equal(ev.info, info);
}

static void nothing(void)
{
	struct weft_async_event ev;

	assert_false(readable());
	assert_int_equal(weft_event_get(dev, &ev), 0);
}

static void event__in_order(void **state)
{
	(void)state;
	nothing();
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < WEFT_EVENTS_MAX; i++)
			weft_event_put(dev, WEFT_EVENT_MTU, one, i);
		for (uint32_t i = 0; i < WEFT_EVENTS_MAX; i++)
			next_is(WEFT_EVENT_MTU, one, i);
		nothing();
	}
}

/* Those that there was room for come first, then how many are missing, once. */
static void event__lost(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WEFT_EVENTS_MAX + 3; i++)
		weft_event_put(dev, WEFT_EVENT_MTU, NULL, i);
	for (uint32_t i = 0; i < WEFT_EVENTS_MAX; i++)
		next_is(WEFT_EVENT_MTU, NULL, i);
	next_is(WEFT_EVENT_OVERRUN, NULL, 3);
	nothing();
	weft_event_put(dev, WEFT_EVENT_PORT_UP, NULL, 0);
	next_is(WEFT_EVENT_PORT_UP, NULL, 0);
	nothing();
}

static void event__forgotten(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++)
		weft_event_put(dev, WEFT_EVENT_QP_FATAL, i % 3 ? one : other, i);
	weft_event_forget(dev, one);
	next_is(WEFT_EVENT_QP_FATAL, other, 0);
	next_is(WEFT_EVENT_QP_FATAL, other, 3);
	nothing();
	weft_event_put(dev, WEFT_EVENT_QP_FATAL, one, 0);
	weft_event_forget(dev, one);
	nothing();
}

/* That some were lost is told also when none of those before is there any more. */
static void event__lost_and_forgotten(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WEFT_EVENTS_MAX + 2; i++)
		weft_event_put(dev, WEFT_EVENT_QP_FATAL, one, i);
	weft_event_forget(dev, one);
	next_is(WEFT_EVENT_OVERRUN, NULL, 2);
	nothing();
}

static void event__text(void **state)
{
	(void)state;
	for (int type = 0; type <= WEFT_EVENT_OVERRUN; type++)
		assert_string_not_equal(weft_event_str(type), "unknown");
	assert_string_equal(weft_event_str(WEFT_EVENT_OVERRUN + 1), "unknown");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(event__in_order),           T(event__lost), T(event__forgotten),
		T(event__lost_and_forgotten), T(event__text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
