// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft up, dev: attaching to an interface, and what was obtained. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/if_link.h>
#include <bpf/libbpf.h>

#include "cli.h"
#include "internal.h"
#include "tx_room.h"

static const char up_help[] =
	"usage: weft up DEV [ port N ] [ qps N ] [ csum { on | off } ] [ telemetry { on | off } ]"
	" [ --replace ]\n"
	"\n"
	"Attach weft to DEV until 'weft down DEV', also while no process uses it.\n"
	"  port N   UDP port of weft's packets, 1 to 65535 but not 4791; default 4793\n"
	"  qps N    QPs that it can hold, of all processes, 1 to 2048, at 43 KB of kernel memory each;\n"
	"           default 256. One that is up with as many or more is left as it is\n"
	"  csum on  UDP checksum over whole packets on IPv4 as well; IPv6 always has it; default off\n"
	"  telemetry off\n"
	"           no histograms of round trips and WRITEs, no bytes received of each QP; default on\n"
	"  --replace\n"
	"           where weft is on already, swap its programs for this version's, under traffic and\n"
	"           with all connections kept\n"
	"What another loader (xdp-loader, ip, bpftool) has attached of weft.bpf.o is used as it is.\n";

static const char dev_help[] =
	"usage: weft dev [ show ] [ DEV ] [ -j ]\n"
	"       weft dev set DEV telemetry { on | off }\n"
	"       weft dev flush [ -j ]\n"
	"\n"
	"set telemetry turns histograms, bytes received and times of first and last acknowledgement on\n"
	"or off while it runs: they count only while it is on, and keep what they have.\n"
	"flush removes what 'weft up' left in /sys/fs/bpf for interfaces that are gone, also of\n"
	"deleted network namespaces. show:\n"
	"Interfaces that weft is on: mode, programs, queues, MTU, payload and why, frame growth,\n"
	"checksum mode, UDP port, QPs, budget, users, doorbell, pin directory.\n";

/* Who comes first decides; what can be asked of the library it has refused itself. */
static int check_options(const char *dev, const struct weft_devcfg *cfg, int csum, int tele)
{
	if (!csum && cfg->flags & WEFT_DEV_CSUM4)
		return cli_fail(dev, "is up with csum on; to change it run 'weft down %s' first",
				dev);
	if (tele > 0 && cfg->flags & WEFT_DEV_NO_TELE)
		return cli_fail(dev,
				"is up with telemetry off; to change it run "
				"'weft dev set %s telemetry on'",
				dev);
	return CLI_OK;
}

/* Take an option out that only one command has. */
static bool take_word(int *argc, char **argv, const char *word)
{
	for (int i = 0; i < *argc; i++)
		if (!strcmp(argv[i], word)) {
			memmove(argv + i, argv + i + 1, (*argc - i) * sizeof(*argv));
			--*argc;
			return true;
		}
	return false;
}

/* What of the interface's settings is in the way; it works all the same. */
static void advise(const char *dev, uint32_t mtu)
{
	char advice[WEFT_ADVICE_MAX][WEFT_ADVICE_LEN];
	struct weft_nic nic;
	unsigned n;

	weft_nic_ask(dev, &nic);
	n = weft_nic_advice(dev, &nic, mtu, advice);
	for (unsigned i = 0; i < n; i++)
		cli_fail(dev, "%s", advice[i]);
}

int cmd_up(int argc, char **argv)
{
	struct weft_open_opts o = { .size = sizeof(o) };
	bool replace = take_word(&argc, argv, "--replace");
	int rc = cli_common("up", up_help, &argc, &argv), csum = -1, tele = -1, n;
	char renamed[IF_NAMESIZE];
	struct weft_dev *dev;
	unsigned index;
	const char *name;
	uint32_t mtu;
	uint64_t port, qps;
	int on;

	if (rc >= 0)
		return rc;
	n = argc && !strcmp(argv[0], "dev") ? 2 : 1;
	rc = cli_dev_arg("up", argc < n ? argc : n, argv, true, &name);
	if (rc >= 0)
		return rc;
	for (int i = n; i < argc; i += 2) {
		if (strcmp(argv[i], "port") && strcmp(argv[i], "csum") && strcmp(argv[i], "qps") &&
		    strcmp(argv[i], "telemetry"))
			return cli_usage("up", "what is \"%s\"", argv[i]);
		if (i + 1 == argc)
			return cli_usage("up", "\"%s\" needs a value", argv[i]);
		if (!strcmp(argv[i], "port")) {
			if (!cli_u64(argv[i + 1], 1, 65535, &port) || port == 4791)
				return cli_usage("up",
						 "port is 1 to 65535 but not 4791, not \"%s\"",
						 argv[i + 1]);
			o.port = port;
			continue;
		}
		if (!strcmp(argv[i], "qps")) {
			if (!cli_u64(argv[i + 1], 1, WEFT_QPS_MAX, &qps))
				return cli_usage("up", "qps is 1 to %d, not \"%s\"", WEFT_QPS_MAX,
						 argv[i + 1]);
			o.device_qps = qps;
			continue;
		}
		on = !strcmp(argv[i + 1], "on");
		if (!on && strcmp(argv[i + 1], "off"))
			return cli_usage("up", "%s is on or off, not \"%s\"", argv[i], argv[i + 1]);
		if (!strcmp(argv[i], "csum"))
			o.csum = csum = on;
		else
			o.no_telemetry = !(tele = on);
	}
	index = if_nametoindex(name);
	rc = weft_ns_pins_last(name);
	if (!rc && replace)
		rc = weft_replace(name);
	if (rc < 0)
		return cli_lib_fail(name, rc);
	/* that takes its time, in which it may be renamed */
	if (replace && if_indextoname(index, renamed))
		name = renamed;
	o.daemon = ""; /* an administrator's doing */
	rc = weft_open(name, &o, &dev);
	if (rc)
		return cli_lib_fail(name, rc);
	/*
	 * Judge by what was obtained: the pins that one finds beforehand may be of an
	 * interface of that name that is gone, or may be gone the next moment. And
	 * only what is as asked for is made to stay.
	 */
	rc = check_options(name, dev->maps.cfg, csum, tele);
	if (!rc)
		__atomic_fetch_or(&dev->maps.cfg->flags, WEFT_DEV_PERSIST, __ATOMIC_RELEASE);
	mtu = dev->maps.cfg->mtu;
	weft_close(dev);
	if (!rc)
		advise(name, mtu);
	return rc;
}

/* ---- show ---- */

static const char *const progs[] = { "weft_nic", "weft_db", "weft_fill", "weft_sink", "weft_cpu" };
#define NPROGS (sizeof(progs) / sizeof(progs[0]))

struct facts {
	const char *mode; /* native, generic, offload, none; other: not our program */
	uint32_t prog[NPROGS];
	int rxq, txq; /* 0: the driver does not say */
	struct weft_tx_room room;
	char room_why[300];
	const char *attach;
	char advice[WEFT_ADVICE_MAX][WEFT_ADVICE_LEN];
	unsigned n_advice;
	int mtu;          /* now */
	char why[2][128]; /* payload of IPv4, IPv6 */
	uint32_t payload[2];
	const char *growth;
	char growth_why[192];
	struct weft_stats stats;
	struct users users;
	char db[IF_NAMESIZE];
};

static void ask_xdp(const struct pinned *p, struct facts *f)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, o);

	f->mode = "none";
	f->attach = pins_attach(p);
	for (size_t i = 0; i < NPROGS; i++)
		f->prog[i] = pins_prog_id(p, progs[i]);
	if (!p->ifindex || bpf_xdp_query(p->ifindex, 0, &o))
		return;
	switch (o.attach_mode) {
	case XDP_ATTACHED_MULTI:
	case XDP_ATTACHED_DRV: f->mode = "native"; break;
	case XDP_ATTACHED_SKB: f->mode = "generic"; break;
	case XDP_ATTACHED_HW: f->mode = "offload"; break;
	default: return;
	}
	if (!f->attach)
		f->mode = "other";
}

static void ask_driver(const struct pinned *p, struct facts *f)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { 0 };
	struct weft_nic nic;

	if (fd < 0)
		return;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", p->ifname);
	if (!ioctl(fd, SIOCGIFMTU, &r))
		f->mtu = r.ifr_mtu;
	close(fd);
	weft_tx_room_ask(p->ifname, sysconf(_SC_NPROCESSORS_ONLN), &f->room);
	f->rxq = f->room.rx;
	f->txq = f->room.queues;
	weft_tx_room_attached(&f->room, p->cfg.flags & WEFT_DEV_FEW_TX);
	weft_tx_room_why(&f->room, p->ifname, f->room_why, sizeof(f->room_why));
	weft_nic_ask(p->ifname, &nic);
	f->n_advice = weft_nic_advice(p->ifname, &nic, p->cfg.mtu, f->advice);
}

/* Does each CPU have a queue of its own for what it sends? */
static const char *transmit_state(const struct facts *f)
{
	return !f->room.queues ? "unknown" : weft_tx_room_shared(&f->room) ? "shared" : "own";
}

static void explain_payload(const struct pinned *p, struct facts *f)
{
	for (int v6 = 0; v6 < 2; v6++) {
		int ip = v6 ? 40 : 20, room = (int)p->cfg.mtu - ip - 8 - WEFT_HDR_LEN, n;
		char *why = f->why[v6];

		f->payload[v6] = weft_path_payload(p->cfg.mtu, v6);
		n = snprintf(why, sizeof(f->why[0]), "MTU %u - %d IPv%d - 8 UDP - %d weft = %d",
			     p->cfg.mtu, ip, v6 ? 6 : 4, WEFT_HDR_LEN, room);
		if (room > WEFT_PAYLOAD_MAX)
			snprintf(why + n, sizeof(f->why[0]) - n, ", limit %d", WEFT_PAYLOAD_MAX);
		else if (f->payload[v6] && room != (int)f->payload[v6])
			snprintf(why + n, sizeof(f->why[0]) - n, ", multiple of 64");
		else if (!f->payload[v6])
			snprintf(why + n, sizeof(f->why[0]) - n, ", less than the least, %d",
				 WEFT_PAYLOAD_MIN);
	}
}

/*
 * Can a frame grow until it holds a full payload? XDP counts the ones that
 * could not. On veth the answer is known: what it transmits in XDP lives in a
 * page of its own.
 */
static void explain_growth(struct facts *f)
{
	uint64_t sent = f->stats.count.tx_data + f->stats.count.rx_ask;
	uint64_t small = f->stats.count.regrown;
	bool veth = !strcmp(f->room.driver, "veth");
	char seen[96];

	if (sent)
		snprintf(seen, sizeof(seen), "%llu of %llu frames were too small and replaced",
			 (unsigned long long)small, (unsigned long long)sent);
	else
		snprintf(seen, sizeof(seen), "nothing sent yet");
	f->growth = small * 100 > sent ? "partial" : veth || sent ? "full" : "unknown";
	snprintf(f->growth_why, sizeof(f->growth_why), "%s%s",
		 veth ? "veth: a frame has a page, 3520 B; " : "", seen);
}

static int gather(const struct pinned *p, struct facts *f)
{
	memset(f, 0, sizeof(*f));
	ask_xdp(p, f);
	if (p->ifindex)
		ask_driver(p, f);
	explain_payload(p, f);
	if (stats_sum(p, &f->stats))
		return CLI_FAIL;
	explain_growth(f);
	users_get(p, &f->users);
	if (!if_indextoname(p->cfg.db_ifindex, f->db))
		f->db[0] = '\0';
	return CLI_OK;
}

static void show_text(const struct pinned *p, const struct facts *f)
{
	bool csum4 = p->cfg.flags & WEFT_DEV_CSUM4;

	printf("%s: ifindex %u%s\n", p->ifname, p->cfg.ifindex,
	       p->ifindex ? "" : " (the interface is gone)");
	printf("    mode        %s%s\n", f->mode,
	       !strcmp(f->mode, "other") ? " (another XDP program is attached)" : "");
	if (f->attach)
		printf("    attach      %s\n", f->attach);
	printf("    driver      %s\n", f->room.driver[0] ? f->room.driver : "unknown");
	printf("    programs   ");
	for (size_t i = 0; i < NPROGS; i++)
		if (f->prog[i])
			printf(" %s %u", progs[i], f->prog[i]);
	putchar('\n');
	if (f->rxq || f->txq)
		printf("    queues      %d receive, %d transmit", f->rxq, f->txq);
	else
		printf("    queues      %s", p->ifindex ? "not told by the driver" : "unknown");
	printf(", %u token domain%s\n", p->cfg.domains, p->cfg.domains == 1 ? "" : "s");
	printf("    transmit    %s", transmit_state(f));
	printf(*f->room_why ? " (%s)\n" : "\n", f->room_why);
	printf("    mtu         %u", p->cfg.mtu);
	if (f->mtu && f->mtu != (int)p->cfg.mtu)
		printf(" when attached, %d now", f->mtu);
	putchar('\n');
	for (int v6 = 0; v6 < 2; v6++)
		printf("    payload v%d  %u B (%s)\n", v6 ? 6 : 4, f->payload[v6], f->why[v6]);
	printf("    growth      %s (%s)\n", f->growth, f->growth_why);
	printf("    csum        IPv4 %s, IPv6 on\n", csum4 ? "on" : "off");
	printf("    telemetry   %s\n", p->cfg.flags & WEFT_DEV_NO_TELE ? "off" : "on");
	printf("    udp port    %u\n", p->cfg.port);
	printf("    qps         %u at most\n", p->cfg.qps);
	printf("    budget      %u tokens a domain, at most %u\n", p->cfg.budget, p->cfg.hard);
	users_text(&f->users);
	printf("    persist     %s\n", p->cfg.flags & WEFT_DEV_PERSIST ? "yes" : "no");
	printf("    doorbell    %s\n", f->db[0] ? f->db : "gone");
	printf("    pins        %s\n", p->dir);
	for (unsigned i = 0; i < f->n_advice; i++)
		printf("    advice      %s\n", f->advice[i]);
}

static struct json_object *payload_json(const struct facts *f, int v6)
{
	struct json_object *o = json_object_new_object();

	cli_add_u64(o, "bytes", f->payload[v6]);
	cli_add_str(o, "why", f->why[v6]);
	return o;
}

static void show_json(const struct pinned *p, const struct facts *f, struct json_object *out)
{
	struct json_object *o = json_object_new_object(), *sub;

	cli_add_str(o, "ifname", p->ifname);
	cli_add_u64(o, "ifindex", p->cfg.ifindex);
	cli_add_bool(o, "present", p->ifindex != 0);
	cli_add_u64(o, "abi", p->cfg.abi);
	cli_add_str(o, "mode", f->mode);
	cli_add_str(o, "attach", f->attach);
	cli_add_str(o, "driver", f->room.driver[0] ? f->room.driver : NULL);
	sub = json_object_new_object();
	for (size_t i = 0; i < NPROGS; i++)
		json_object_object_add(sub, progs[i],
				       f->prog[i] ? json_object_new_uint64(f->prog[i]) : NULL);
	json_object_object_add(o, "programs", sub);
	sub = json_object_new_object();
	json_object_object_add(sub, "rx", f->rxq ? json_object_new_int(f->rxq) : NULL);
	json_object_object_add(sub, "tx", f->txq ? json_object_new_int(f->txq) : NULL);
	json_object_object_add(o, "queues", sub);
	sub = json_object_new_object();
	cli_add_str(sub, "state", transmit_state(f));
	json_object_object_add(sub, "ring",
			       f->room.ring ? json_object_new_int(f->room.ring) : NULL);
	cli_add_str(sub, "why", f->room_why);
	json_object_object_add(o, "transmit", sub);
	cli_add_u64(o, "domains", p->cfg.domains);
	cli_add_u64(o, "mtu", p->cfg.mtu);
	json_object_object_add(o, "mtu_now", f->mtu ? json_object_new_int(f->mtu) : NULL);
	json_object_object_add(o, "payload_v4", payload_json(f, 0));
	json_object_object_add(o, "payload_v6", payload_json(f, 1));
	sub = json_object_new_object();
	cli_add_str(sub, "state", f->growth);
	cli_add_u64(sub, "sent", f->stats.count.tx_data);
	cli_add_u64(sub, "too_small", f->stats.count.regrown);
	cli_add_str(sub, "why", f->growth_why);
	json_object_object_add(o, "growth", sub);
	sub = json_object_new_object();
	cli_add_bool(sub, "ipv4", p->cfg.flags & WEFT_DEV_CSUM4);
	cli_add_bool(sub, "ipv6", true);
	json_object_object_add(o, "csum", sub);
	cli_add_bool(o, "telemetry", !(p->cfg.flags & WEFT_DEV_NO_TELE));
	cli_add_u64(o, "port", p->cfg.port);
	cli_add_u64(o, "qps", p->cfg.qps);
	cli_add_u64(o, "budget", p->cfg.budget);
	cli_add_u64(o, "hard", p->cfg.hard);
	json_object_object_add(o, "users", users_json(&f->users));
	cli_add_bool(o, "persist", p->cfg.flags & WEFT_DEV_PERSIST);
	cli_add_str(o, "doorbell", f->db[0] ? f->db : NULL);
	cli_add_str(o, "pins", p->dir);
	sub = json_object_new_array();
	for (unsigned i = 0; i < f->n_advice; i++)
		json_object_array_add(sub, json_object_new_string(f->advice[i]));
	json_object_object_add(o, "advice", sub);
	json_object_array_add(out, o);
}

static int show(const struct pinned *p, struct json_object *out)
{
	struct facts f;

	if (gather(p, &f))
		return CLI_FAIL;
	if (out)
		show_json(p, &f, out);
	else
		show_text(p, &f);
	return CLI_OK;
}

int cmd_dev(int argc, char **argv)
{
	const char *dev;
	int rc = cli_common("dev", dev_help, &argc, &argv);

	if (rc >= 0)
		return rc;
	if (argc == 1 && !strcmp(argv[0], "flush"))
		return dev_flush();
	if (argc && !strcmp(argv[0], "set"))
		return dev_set(argc - 1, argv + 1);
	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	rc = cli_dev_arg("dev", argc, argv, false, &dev);
	if (rc >= 0)
		return rc;
	return pins_each(dev, show);
}
