// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What this process and its devices hold: descriptors, mappings, pins, table entries, memory. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inject.h"

static unsigned count_dir(const char *path)
{
	unsigned n = 0;
	struct dirent *e;
	DIR *d = opendir(path);

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Of our two devices, and whether somebody stands in their doors. */
static unsigned count_pins(void)
{
	char door[WEFT_PATH_MAX];
	unsigned n = 0;

	for (int i = 0; i < 2; i++) {
		n += count_dir(s.pins[i]);
		weft_td_door(s.pins[i], door);
		n += !access(door, F_OK);
	}
	return n;
}

static unsigned count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[400];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "bpf");
	if (f)
		fclose(f);
	return n;
}

static void count_tables(const struct weft_dev *d, struct held *h)
{
	for (int i = 0; i < (int)d->maps.qps; i++)
		h->qps += d->maps.ctl[i].state != WEFT_QP_FREE;
	for (int i = 0; i < WEFT_MRS; i++)
		h->mrs += d->maps.mr[i].owner != 0;
	for (int i = 0; i < WEFT_POOLS; i++)
		h->pools += d->maps.own->pool[i] != 0;
	for (int i = 0; i < WEFT_CQS; i++)
		h->cqs += d->maps.own->cq[i] != 0;
}

void hold(struct held *h)
{
	memset(h, 0, sizeof(*h));
	h->fds = count_dir("/proc/self/fd");
	h->maps = count_maps();
	h->pins = count_pins();
	h->blocks = inject_blocks();
	for (int i = 0; i < 2; i++)
		if (s.dev[i])
			count_tables(s.dev[i], h);
}

/* What is held when nothing has changed for 100 ms: the other side may need a moment to notice. */
void settle(struct held *h)
{
	struct held now;

	hold(h);
	for (int i = 0, quiet = 0; i < 1000 && quiet < 10; i++) {
		usleep(10000);
		hold(&now);
		quiet = memcmp(h, &now, sizeof(now)) ? 0 : quiet + 1;
		*h = now;
	}
}

/* Likewise. */
bool same(const struct held *a, struct held *b)
{
	for (int i = 0; i < 3000; i++) {
		hold(b);
		if (!memcmp(a, b, sizeof(*a)))
			return true;
		usleep(10000);
	}
	return false;
}
