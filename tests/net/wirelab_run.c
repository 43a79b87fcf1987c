// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* wirelab run: attach the impairments to two ports, wait for a signal, take all away again. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "wirelab_user.h"

struct lab {
	struct bpf_object *obj;
	struct wiretap *tap;
	struct bpf_link *links[3 * WL_DIRS];
	int nlinks;
	char port[WL_DIRS][IF_NAMESIZE];
	int ifindex[WL_DIRS];
	char detour[WL_DIRS][2][IF_NAMESIZE];
	bool detour_made[WL_DIRS];
	bool clsact[WL_DIRS];
	char pin[256];
	bool pinned;
};

static const char *const pinned_maps[] = { "wl_cfg", "wl_stats", "wl_sports" };

static int mount_bpffs(void)
{
	struct statfs s;

	if (!statfs(BPFFS, &s) && s.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", BPFFS, "bpf", 0, "mode=0700"))
		return fail(BPFFS, -errno, "cannot mount the BPF file system; run as root");
	return 0;
}

static int run_ip(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
		execvp("ip", argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

static void no_ipv6(const char *ifname)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", ifname);
	f = fopen(path, "we");
	if (f) {
		fputs("1\n", f);
		fclose(f);
	}
}

static int make_detour(struct lab *lab, int d)
{
	char *a = lab->detour[d][0], *b = lab->detour[d][1], n[16], mtu[16];

	snprintf(a, IF_NAMESIZE, "wl%dx%d", (int)getpid(), d);
	snprintf(b, IF_NAMESIZE, "wl%dy%d", (int)getpid(), d);
	snprintf(n, sizeof(n), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	snprintf(mtu, sizeof(mtu), "%d", WL_DETOUR_MTU);
	if (run_ip((char *[]){ "ip",
			       "link",
			       "add",
			       a,
			       "mtu",
			       mtu,
			       "numrxqueues",
			       n,
			       "numtxqueues",
			       n,
			       "type",
			       "veth",
			       "peer",
			       "name",
			       b,
			       "mtu",
			       mtu,
			       "numrxqueues",
			       n,
			       "numtxqueues",
			       n,
			       NULL }))
		return fail(a, -EIO, "cannot create a veth pair");
	lab->detour_made[d] = true;
	for (int i = 0; i < 2; i++) {
		no_ipv6(lab->detour[d][i]);
		if (run_ip((char *[]){ "ip", "link", "set", lab->detour[d][i], "up", NULL }))
			return fail(lab->detour[d][i], -EIO, "cannot be set up");
	}
	return 0;
}

static int attach_xdp(struct lab *lab, const char *prog_name, const char *ifname)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, q);
	struct bpf_program *prog = bpf_object__find_program_by_name(lab->obj, prog_name);
	int ifindex = if_nametoindex(ifname);
	struct bpf_link *link;

	if (!bpf_xdp_query(ifindex, 0, &q) && q.attach_mode != XDP_ATTACHED_NONE)
		return fail(ifname, 0, "an XDP program is attached already; detach it first");
	link = bpf_program__attach_xdp(prog, ifindex);
	if (!link)
		return fail(ifname, -errno, "cannot attach %s", prog_name);
	lab->links[lab->nlinks++] = link;
	if (bpf_xdp_query(ifindex, 0, &q) || q.attach_mode != XDP_ATTACHED_DRV)
		return fail(ifname, 0, "the driver has no native XDP; use a veth");
	return 0;
}

static int set_dev(struct lab *lab, const char *map, __u32 key, const char *ifname)
{
	int ifindex = if_nametoindex(ifname);
	int fd = bpf_object__find_map_fd_by_name(lab->obj, map);

	if (bpf_map_update_elem(fd, &key, &ifindex, 0))
		return fail(ifname, -errno, "cannot be entered into %s", map);
	return 0;
}

static int attach_direction(struct lab *lab, int d)
{
	static const char *const xdp[] = { "wl_xdp0", "wl_xdp1" };
	static const char *const detour[] = { "wl_detour0", "wl_detour1" };
	static const char *const twice[] = { "wl_twice0", "wl_twice1" };
	static const char *const late[] = { "wl_late0", "wl_late1" };
	const char *out = lab->port[!d];
	int err;

	err = make_detour(lab, d);
	err = err ?: attach_xdp(lab, detour[d], lab->detour[d][0]);
	err = err ?: attach_xdp(lab, detour[d], lab->detour[d][1]);
	err = err ?: set_dev(lab, "wl_out", d, out);
	err = err ?: set_dev(lab, "wl_detour", d, lab->detour[d][0]);
	err = err ?: set_dev(lab, twice[d], 0, out);
	err = err ?: set_dev(lab, twice[d], 1, out);
	err = err ?: set_dev(lab, late[d], 0, out);
	err = err ?: set_dev(lab, late[d], 1, lab->detour[d][0]);
	return err ?: attach_xdp(lab, xdp[d], lab->port[d]);
}

static int attach_tc(struct lab *lab, int d)
{
	static const char *const names[] = { "wl_tc0", "wl_tc1" };
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = lab->ifindex[d], .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = 1, .priority = 1);
	int err = bpf_tc_hook_create(&hook);

	if (err)
		return fail(lab->port[d], err, "cannot add clsact; remove the one that is there");
	lab->clsact[d] = true;
	opts.prog_fd = bpf_program__fd(bpf_object__find_program_by_name(lab->obj, names[d]));
	err = bpf_tc_attach(&hook, &opts);
	return err ? fail(lab->port[d], err, "cannot attach %s", names[d]) : 0;
}

static int pin_maps(struct lab *lab)
{
	char path[300];
	int err;

	if (mkdir(lab->pin, 0700))
		return fail(lab->pin, -errno, "cannot create the directory of pins");
	lab->pinned = true;
	for (size_t i = 0; i < sizeof(pinned_maps) / sizeof(*pinned_maps); i++) {
		snprintf(path, sizeof(path), "%s/%s", lab->pin, pinned_maps[i]);
		err = bpf_map__pin(bpf_object__find_map_by_name(lab->obj, pinned_maps[i]), path);
		if (err)
			return fail(path, err, "cannot pin");
	}
	return 0;
}

static int open_lab(struct lab *lab, const struct options *o, struct wl_cfg *cfg)
{
	char self[4096];
	const char *object = o->object;
	ssize_t n;
	int err;

	if (!object) {
		n = readlink("/proc/self/exe", self, sizeof(self) - sizeof(".bpf.o"));
		if (n < 0)
			return -errno;
		strcpy(self + n, ".bpf.o");
		object = self;
	}
	lab->obj = bpf_object__open_file(object, NULL);
	if (!lab->obj)
		return fail(object, -errno, "cannot open the BPF object; build it or use --object");
	err = bpf_object__load(lab->obj);
	if (err)
		return fail(object, err, "the kernel refused it; WIRELAB_VERBOSE=1 says why");
	for (__u32 d = 0; d < WL_DIRS; d++) {
		cfg[d].out_ifindex = lab->ifindex[!d];
		if (o->capture)
			cfg[d].flags |= WL_F_TAP;
		snprintf(cfg[d].name, sizeof(cfg[d].name), "%s", lab->port[d]);
		if (bpf_map_update_elem(bpf_object__find_map_fd_by_name(lab->obj, "wl_cfg"), &d,
					&cfg[d], 0))
			return fail("wl_cfg", -errno, "cannot write settings");
	}
	return 0;
}

static void close_lab(struct lab *lab)
{
	char path[300];

	for (int i = lab->nlinks - 1; i >= 0; i--)
		bpf_link__destroy(lab->links[i]);
	tap_close(lab->tap);
	for (int d = 0; d < WL_DIRS; d++) {
		LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = lab->ifindex[d],
			    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

		if (lab->clsact[d])
			bpf_tc_hook_destroy(&hook);
		if (lab->detour_made[d])
			run_ip((char *[]){ "ip", "link", "del", lab->detour[d][0], NULL });
	}
	if (lab->pinned) {
		for (size_t i = 0; i < sizeof(pinned_maps) / sizeof(*pinned_maps); i++) {
			snprintf(path, sizeof(path), "%s/%s", lab->pin, pinned_maps[i]);
			unlink(path);
		}
		rmdir(lab->pin);
	}
	bpf_object__close(lab->obj);
}

static int parse_ports(struct lab *lab, const char *arg)
{
	if (!arg || sscanf(arg, "%15[^,],%15[^,]", lab->port[0], lab->port[1]) != 2)
		return fail(arg ? arg : "--ports", 0, "give two interfaces as P0,P1");
	for (int d = 0; d < WL_DIRS; d++) {
		lab->ifindex[d] = if_nametoindex(lab->port[d]);
		if (!lab->ifindex[d])
			return fail(lab->port[d], 0, "no such interface in this namespace");
	}
	return 0;
}

int cmd_run(const struct options *o, struct wl_cfg *cfg)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	struct lab lab = { 0 };
	sigset_t set;
	int err, sig;

	/* a signal that comes while things are being made waits until sigwait() */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* an ignored signal, as in a shell's background job, would never become pending */
	signal(SIGINT, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);

	err = parse_ports(&lab, o->ports);
	err = err ?: mount_bpffs();
	if (err)
		return err;
	if (o->pin)
		snprintf(lab.pin, sizeof(lab.pin), "%s", o->pin);
	else
		snprintf(lab.pin, sizeof(lab.pin), BPFFS "/" PREFIX "%d", (int)getpid());
	err = open_lab(&lab, o, cfg);
	if (!err && o->capture)
		err = tap_open(&lab.tap, lab.obj, o, cfg);
	err = err ?: pin_maps(&lab);
	for (int d = 0; d < WL_DIRS && !err; d++)
		err = o->tc ? attach_tc(&lab, d) : attach_direction(&lab, d);
	if (!err) {
		printf("wirelab: ready %s\n", lab.pin);
		fflush(stdout);
		while (!err && lab.tap && sigtimedwait(&set, NULL, &pause) < 0)
			err = tap_read(lab.tap);
		if (!lab.tap)
			sigwait(&set, &sig);
	}
	close_lab(&lab);
	return err;
}
