// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Who uses a device: the processes in its slots, and what each has. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "cli.h"

/*
 * A process locks the directory of its slot, p<slot>, for life. /proc/locks
 * tells who, without touching the locks.
 */
static int by_locks(const struct pinned *p, int pid[WEFT_PROCS])
{
	struct {
		dev_t dev;
		ino_t ino;
	} dir[WEFT_PROCS] = { 0 };
	unsigned major, minor;
	unsigned long long ino;
	char path[128], line[256];
	int n = 0, who;
	FILE *f;

	memset(pid, 0, WEFT_PROCS * sizeof(*pid));
	for (int i = 0; i < WEFT_PROCS; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s/p%d", p->dir, i);
		if (!stat(path, &st)) {
			dir[i].dev = st.st_dev;
			dir[i].ino = st.st_ino;
		}
	}
	f = fopen("/proc/locks", "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu", &who, &major, &minor,
			   &ino) != 4)
			continue;
		for (int i = 0; i < WEFT_PROCS; i++) {
			if (!dir[i].ino || dir[i].ino != ino ||
			    dir[i].dev != makedev(major, minor) || pid[i])
				continue;
			pid[i] = who;
			n++;
		}
	}
	if (f)
		fclose(f);
	return n;
}

/*
 * The locks of weftd's clients were taken by weftd, perhaps one that is no more: of those the
 * table tells.
 */
static int served(struct weft_owners *own, int pid[WEFT_PROCS])
{
	char path[32];
	int n = 0;

	for (int i = 0; i < WEFT_PROCS; i++) {
		const struct weft_owner *o = &own->proc[i];

		if (!o->token[0])
			continue;
		n -= !!pid[i];
		snprintf(path, sizeof(path), "/proc/%u", o->pid);
		pid[i] = access(path, F_OK) ? 0 : (int)o->pid;
		n += !!pid[i];
	}
	return n;
}

static bool get_owners(const struct pinned *p, struct weft_owners *own)
{
	int fd = pins_map(p, "owners", sizeof(*own));
	uint32_t zero = 0;
	bool ok = fd >= 0 && !bpf_map_lookup_elem(fd, &zero, own);

	if (fd >= 0)
		close(fd);
	return ok;
}

int pins_users(const struct pinned *p, int pid[WEFT_PROCS])
{
	static struct weft_owners own;
	int n = by_locks(p, pid);

	return get_owners(p, &own) ? n + served(&own, pid) : n;
}

/* ---- what each has ---- */

static void count_qps(const struct pinned *p, struct users *u)
{
	static struct weft_qpctl ctl;
	int fd = pins_map(p, "qpctl", sizeof(ctl));

	for (uint32_t i = 0; fd >= 0 && i < p->cfg.qps; i++)
		if (!bpf_map_lookup_elem(fd, &i, &ctl) && ctl.state != WEFT_QP_FREE &&
		    ctl.owner < WEFT_PROCS)
			u->of[ctl.owner].qps++;
	if (fd >= 0)
		close(fd);
}

static void count_regions(const struct pinned *p, struct users *u)
{
	struct weft_mr_ent mr;
	int fd = pins_map(p, "mrs", sizeof(mr));

	for (uint32_t i = 0; fd >= 0 && i < WEFT_MRS; i++)
		if (!bpf_map_lookup_elem(fd, &i, &mr) && mr.owner && mr.owner <= WEFT_PROCS)
			u->of[mr.owner - 1].regions++;
	if (fd >= 0)
		close(fd);
}

void users_get(const struct pinned *p, struct users *u)
{
	static struct weft_owners own;
	int pid[WEFT_PROCS];

	memset(u, 0, sizeof(*u));
	u->n = pins_users(p, pid);
	if (!u->n || !get_owners(p, &own))
		return;
	for (unsigned i = 0; i < WEFT_PROCS; i++) {
		u->of[i].pid = pid[i];
		u->of[i].uid = own.proc[i].uid;
		u->of[i].served = own.proc[i].token[0];
	}
	for (unsigned i = 0; i < WEFT_POOLS; i++)
		if (own.pool[i] && own.pool[i] <= WEFT_PROCS)
			u->of[own.pool[i] - 1].memory += (uint64_t)own.chunks[i]
							 << WEFT_CHUNK_SHIFT;
	for (unsigned i = 0; i < WEFT_RQS; i++)
		if (own.rq[i] && own.rq[i] <= WEFT_PROCS)
			u->of[own.rq[i] - 1].memory += weft_rq_bytes(own.rq_mask[i] + 1);
	count_qps(p, u);
	count_regions(p, u);
}

void users_text(const struct users *u)
{
	printf("    users       %d\n", u->n);
	for (unsigned i = 0; i < WEFT_PROCS; i++)
		if (u->of[i].pid)
			printf("      slot %u pid %d uid %u%s: %u QPs, %u regions, %llu MiB\n", i,
			       u->of[i].pid, u->of[i].uid,
			       u->of[i].served ? " by way of weftd" : "", u->of[i].qps,
			       u->of[i].regions, (unsigned long long)u->of[i].memory >> 20);
}

struct json_object *users_json(const struct users *u)
{
	struct json_object *list = json_object_new_array(), *o;

	for (unsigned i = 0; i < WEFT_PROCS; i++) {
		if (!u->of[i].pid)
			continue;
		o = json_object_new_object();
		cli_add_u64(o, "slot", i);
		cli_add_u64(o, "pid", u->of[i].pid);
		cli_add_u64(o, "uid", u->of[i].uid);
		cli_add_bool(o, "weftd", u->of[i].served);
		cli_add_u64(o, "qps", u->of[i].qps);
		cli_add_u64(o, "regions", u->of[i].regions);
		cli_add_u64(o, "memory", u->of[i].memory);
		json_object_array_add(list, o);
	}
	return list;
}
