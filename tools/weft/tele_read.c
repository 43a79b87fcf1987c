// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Reading what may move from a QP to its device meanwhile: again, until nothing did. */
#include <time.h>

#include "qps.h"

bool tele_read(const struct tele *t, struct tele_read *r)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	if (r->tries) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(r->seq & 1) && r->seq == __atomic_load_n(&t->dev->seq, __ATOMIC_RELAXED))
			return false;
		/* who did it may have died */
		if (r->tries == 100)
			return false;
		nanosleep(&ms, NULL);
	}
	r->tries++;
	r->seq = __atomic_load_n(&t->dev->seq, __ATOMIC_ACQUIRE);
	return true;
}
