// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft mr: registered memory regions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "cli.h"

static const char help[] =
	"usage: weft mr [ show ] [ DEV ] [ -j ]\n"
	"\n"
	"Memory regions registered on DEV or on every interface: key, pool and place in it, length,\n"
	"rights, whether it is allocated by weft, adopted in place or staged by a copy, the region that\n"
	"a window is of, protection domain, and the process that owns it.\n";

static const struct {
	unsigned bit;
	const char *name;
} rights[] = {
	{ WEFT_ACCESS_LOCAL, "local" },
	{ WEFT_ACCESS_LOCAL_WRITE, "local-write" },
	{ WEFT_ACCESS_REMOTE_READ, "remote-read" },
	{ WEFT_ACCESS_REMOTE_WRITE, "remote-write" },
	{ WEFT_ACCESS_REMOTE_ATOMIC, "remote-atomic" },
};
#define RIGHTS (sizeof(rights) / sizeof(rights[0]))

/* The key of the region that a window is of; 0: it is none. */
static unsigned window_of(int fd, const struct weft_mr_ent *m)
{
	struct weft_mr_ent of;
	uint32_t i = m->of - 1u;

	return m->of && !bpf_map_lookup_elem(fd, &i, &of) ? of.key : 0;
}

static void show_text(const struct pinned *p, const struct weft_mr_ent *m, unsigned of, int pid)
{
	const char *comma = "";

	printf("%s key 0x%08x pool %u off %llu len %llu rights ", p->ifname, m->key, m->pool,
	       (unsigned long long)m->off, (unsigned long long)m->len);
	for (unsigned i = 0; i < RIGHTS; i++)
		if (m->rights & rights[i].bit) {
			printf("%s%s", comma, rights[i].name);
			comma = ",";
		}
	printf(" mode %s", weft_mr_mode_str(m->mode));
	if (of)
		printf(" window-of 0x%08x", of);
	printf(" pd 0x%08x owner %u", m->pd, m->owner - 1);
	if (pid)
		printf(" pid %d", pid);
	putchar('\n');
}

static void show_json(const struct pinned *p, const struct weft_mr_ent *m, unsigned of, int pid,
		      struct json_object *out)
{
	struct json_object *o = json_object_new_object(), *r = json_object_new_array();

	cli_add_str(o, "dev", p->ifname);
	cli_add_u64(o, "key", m->key);
	cli_add_u64(o, "pool", m->pool);
	cli_add_u64(o, "off", m->off);
	cli_add_u64(o, "len", m->len);
	for (unsigned i = 0; i < RIGHTS; i++)
		if (m->rights & rights[i].bit)
			json_object_array_add(r, json_object_new_string(rights[i].name));
	json_object_object_add(o, "rights", r);
	cli_add_str(o, "mode", weft_mr_mode_str(m->mode));
	json_object_object_add(o, "window_of", of ? json_object_new_int64(of) : NULL);
	cli_add_u64(o, "pd", m->pd);
	cli_add_u64(o, "owner", m->owner - 1);
	json_object_object_add(o, "pid", pid ? json_object_new_int(pid) : NULL);
	json_object_array_add(out, o);
}

static int show(const struct pinned *p, struct json_object *out)
{
	struct weft_mr_ent m;
	int pid[WEFT_PROCS], fd;

	fd = pins_map(p, "mrs", sizeof(m));
	if (fd < 0)
		return CLI_FAIL;
	pins_users(p, pid);
	for (uint32_t i = 0; i < WEFT_MRS; i++) {
		int who;

		if (bpf_map_lookup_elem(fd, &i, &m) || !m.key || !m.owner)
			continue;
		who = m.owner <= WEFT_PROCS ? pid[m.owner - 1] : 0;
		if (out)
			show_json(p, &m, window_of(fd, &m), who, out);
		else
			show_text(p, &m, window_of(fd, &m), who);
	}
	close(fd);
	return CLI_OK;
}

int cmd_mr(int argc, char **argv)
{
	const char *dev;
	int rc = cli_common("mr", help, &argc, &argv);

	if (rc >= 0)
		return rc;
	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	rc = cli_dev_arg("mr", argc, argv, false, &dev);
	if (rc >= 0)
		return rc;
	return pins_each(dev, show);
}
