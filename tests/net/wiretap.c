// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* wirelab run --capture: the frames that pass the middle, as its programs saw them, into a pcapng file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <capture/pcapng.h>
#include <capture/reader.h>

#include "wirelab_user.h"

#define ROOM (64u << 20) /* bytes for what has not been written yet */

struct wiretap {
	struct capture *cap;
	const char *file;
	FILE *out;
	int cfg_fd;
	uint64_t epoch, start, seen[WL_DIRS];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int take(void *arg, const struct weft_cap_rec *rec)
{
	struct wiretap *t = arg;

	t->seen[rec->iface % WL_DIRS]++;
	return capture_write(t->out, rec, t->epoch, NULL) ? -errno : 0;
}

int tap_open(struct wiretap **out, struct bpf_object *obj, const struct options *o,
	     const struct wl_cfg *cfg)
{
	struct weft_cap_cfg what = { .snap = o->snap ? o->snap : 65535 };
	struct wiretap *t = calloc(1, sizeof(*t));
	__u32 zero = 0;
	int err;

	if (!t)
		return -ENOMEM;
	*out = t;
	t->file = o->capture;
	t->cfg_fd = bpf_object__find_map_fd_by_name(obj, "wl_tapcfg");
	t->out = fopen(o->capture, "we");
	if (!t->out)
		return fail(o->capture, -errno, "cannot open");
	t->epoch = capture_epoch();
	t->start = now_ns();
	pcapng_begin(t->out, "wirelab");
	for (int d = 0; d < WL_DIRS; d++)
		pcapng_interface(t->out, cfg[d].name, "port of the wire laboratory", what.snap);
	if (bpf_map_update_elem(t->cfg_fd, &zero, &what, 0))
		return fail("wl_tapcfg", -errno, "cannot write settings");
	err = capture_open(&t->cap, bpf_object__find_map_fd_by_name(obj, "wl_tap"), ROOM, take, t);
	return err ? fail(o->capture, err, "cannot listen to what passes") : 0;
}

int tap_read(struct wiretap *t)
{
	int n = capture_read(t->cap, false);

	if (n >= 0 && fflush(t->out))
		n = -errno;
	return n < 0 ? fail(t->file, n, "the capture ends here") : 0;
}

int tap_close(struct wiretap *t)
{
	struct weft_cap_cfg what = { 0 };
	__u32 zero = 0;
	int err = 0;

	if (!t)
		return 0;
	if (t->cap)
		err = capture_read(t->cap, true);
	bpf_map_lookup_elem(t->cfg_fd, &zero, &what);
	for (int d = 0; t->out && d < WL_DIRS; d++)
		/* losses are not counted by port: all of them with the first */
		pcapng_statistics(t->out, d, t->start + t->epoch, now_ns() + t->epoch,
				  t->seen[d] + (d ? 0 : what.lost), d ? 0 : what.lost);
	if (t->out && (fclose(t->out) || err < 0))
		err = fail(t->file, err < 0 ? err : -errno, "the capture is not complete");
	if (what.lost)
		fail(t->file, 0, "%llu frames are not in the capture",
		     (unsigned long long)what.lost);
	capture_close(t->cap);
	free(t);
	return err < 0 ? err : 0;
}
