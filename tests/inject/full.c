// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Every table is full once: -ENOSPC, and when there is room again it works. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "inject.h"

static void full(const char *what, int err, int again, void (*undo)(void), int want)
{
	result(err == want && !again, "%s: %s, then %s", what, strerror(-err),
	       again ? strerror(-again) : "it works");
	if (!err || !again)
		undo();
}

void full_tables(void)
{
	struct weft_maps *m = &s.dev[0]->maps;
	uint32_t me = s.dev[0]->slot + 1;
	int fd[WEFT_PROCS], err;
	uint64_t used[sizeof(s.dev[0]->ring_used) / sizeof(uint64_t)];

#define FILL(n, free_, take, give, run, undo, what)    \
	do {                                           \
		static bool mine[n];                   \
		for (int i = 0; i < (n); i++)          \
			if (free_) {                   \
				mine[i] = true;        \
				take;                  \
			}                              \
		err = run();                           \
		for (int i = 0; i < (n); i++)          \
			if (mine[i])                   \
				give;                  \
		full(what, err, run(), undo, -ENOSPC); \
	} while (0)

	FILL(WEFT_QPS, m->ctl[i].state == WEFT_QP_FREE,
	     (m->ctl[i].owner = me - 1, m->ctl[i].state = WEFT_QP_INIT),
	     m->ctl[i].state = WEFT_QP_FREE, do_connect, undo_qp, "all QPs are taken");
	FILL(WEFT_MRS, !m->mr[i].owner, m->mr[i].owner = me, m->mr[i].owner = 0, do_alloc,
	     undo_alloc, "all MRs are taken");
	FILL(WEFT_POOLS, !m->own->pool[i], m->own->pool[i] = me, m->own->pool[i] = 0, do_alloc,
	     undo_alloc, "all pools are taken");
	FILL(WEFT_CQS, !m->own->cq[i], m->own->cq[i] = me, m->own->cq[i] = 0, do_cq, undo_cq,
	     "all CQs are taken");
	memcpy(used, s.dev[0]->ring_used, sizeof(used));
	memset(s.dev[0]->ring_used, 0xff, sizeof(used));
	err = do_connect();
	memcpy(s.dev[0]->ring_used, used, sizeof(used));
	full("all rings of the process are taken", err, do_connect(), undo_qp, -ENOSPC);

	for (int i = 0; i < WEFT_PROCS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%d", i);
		if (mkdirat(s.dev[0]->pin_fd, name, 0700) && errno != EEXIST)
			need(-errno, name);
		fd[i] = openat(s.dev[0]->pin_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd[i] >= 0 && flock(fd[i], LOCK_EX | LOCK_NB)) {
			close(fd[i]);
			fd[i] = -1;
		}
	}
	err = do_open();
	for (int i = 0; i < WEFT_PROCS; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	full("64 processes use the device", err, do_open(), undo_open, -ENOSPC);
}
