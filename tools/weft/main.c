// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The weft tool: global options, the network namespace, and which object is meant. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <bpf/libbpf.h>

#include "cli.h"

struct cli cli;

static const char help[] =
	"usage: weft [ OPTIONS ] OBJECT { COMMAND | help }\n"
	"\n"
	"       weft up DEV [ port N ] [ qps N ] [ csum { on | off } ] [ telemetry { on | off } ]"
	" [ --replace ]\n"
	"       weft down DEV\n"
	"       weft unpin DEV\n"
	"       weft dev [ show ] [ DEV ]\n"
	"       weft dev set DEV telemetry { on | off }\n"
	"       weft dev flush\n"
	"       weft qp [ show ] [ DEV ]\n"
	"       weft qp set DEV QPN cwnd PACKETS\n"
	"       weft qp trace DEV [ QPN ]\n"
	"       weft mr [ show ] [ DEV ]\n"
	"       weft stats [ show ] [ DEV ] [ all ]\n"
	"       weft top [ DEV ] [ -b ] [ -n N ] [ -d SECONDS ]\n"
	"       weft metrics [ DEV ] [ --listen [ADDR:]PORT ]\n"
	"       weft capture [ -w FILE ] [ OPTIONS ] DEV\n"
	"       weft perf server [ -p PORT ] [ --qps N ] DEV\n"
	"       weft perf write DEV HOST[:PORT] [ PERF-OPTIONS ]\n"
	"       weft perf read DEV HOST[:PORT] [ PERF-OPTIONS ]\n"
	"       weft perf send DEV HOST[:PORT] [ PERF-OPTIONS ]\n"
	"       weft perf atomic DEV HOST[:PORT] [ PERF-OPTIONS ]\n"
	"\n"
	"options:\n"
	"  -n, --netns NAME  work in the network namespace NAME (of 'ip netns list') or at a path\n"
	"  -j, --json        print JSON\n"
	"  -p, --pretty      print JSON over several lines\n"
	"  -v, --verbose     say more on stderr; repeat for still more\n"
	"  -V, --version     print the version\n"
	"  -h, --help        this text; after an object: what that object can do\n";

static const struct object {
	const char *name;
	int (*run)(int argc, char **argv);
} objects[] = {
	{ "up", cmd_up },           { "down", cmd_down },   { "dev", cmd_dev },
	{ "qp", cmd_qp },           { "mr", cmd_mr },       { "stats", cmd_stats },
	{ "perf", cmd_perf },       { "top", cmd_top },     { "metrics", cmd_metrics },
	{ "capture", cmd_capture }, { "unpin", cmd_unpin },
};

static const struct object *find_object(const char *name)
{
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		if (!strcmp(name, objects[i].name))
			return &objects[i];
	return NULL;
}

/* Only the network namespace changes, so that /sys/fs/bpf stays in sight. */
static int enter_netns(const char *name)
{
	char path[256];
	int fd, n;

	n = snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/run/netns/", name);
	if (n >= (int)sizeof(path))
		return cli_fail(name, "the name is too long; see 'ip netns list'");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return cli_fail(name, "no such network namespace; see 'ip netns list'");
	if (fd < 0)
		return cli_fail(name, "cannot open %s: %s; run as root", path, strerror(errno));
	if (setns(fd, CLONE_NEWNET)) {
		n = errno;
		close(fd);
		if (n == EPERM)
			return cli_fail(name, "not allowed to enter the namespace; run as root");
		return cli_fail(name, "%s is not a network namespace; see 'ip netns list'", path);
	}
	close(fd);
	return CLI_OK;
}

static int find_inode(void)
{
	struct stat st;

	if (stat("/proc/thread-self/ns/net", &st))
		return cli_fail("/proc", "cannot read the network namespace: %s; mount /proc",
				strerror(errno));
	cli.netns_ino = st.st_ino;
	return CLI_OK;
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	/* behind a command it may be the name of an interface */
	return argc == 1 && !strcmp(argv[0], "help");
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "netns", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const struct object *obj;
	const char *netns = NULL;
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:n:jpvVh", longs, NULL)) != -1) {
		switch (c) {
		case 'n': netns = optarg; break;
		case 'j': cli.json = true; break;
		case 'p': cli.json = cli.pretty = true; break;
		case 'v': cli.verbose++; break;
		case 'V':
			printf("weft %s, ABI %d, wire version %d, libbpf %s\n", WEFT_VERSION,
			       WEFT_ABI, WEFT_WIRE_VER, libbpf_version_string() + 1);
			return CLI_OK;
		case 'h': fputs(help, stdout); return CLI_OK;
		default: return cli_bad_option(NULL, c, argv);
		}
	}
	if (optind == argc) {
		fputs(help, stderr);
		return CLI_USAGE;
	}
	if (!strcmp(argv[optind], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	obj = find_object(argv[optind]);
	if (!obj)
		return cli_usage(NULL, "unknown object \"%s\"", argv[optind]);
	argc -= optind + 1;
	argv += optind + 1;
	if (!wants_help(argc, argv)) {
		if (netns && (rc = enter_netns(netns)))
			return rc;
		if ((rc = find_inode()))
			return rc;
	}
	cli_log_init();
	return obj->run(argc, argv);
}

int main(int argc, char **argv)
{
	int rc;

	signal(SIGXFSZ, SIG_IGN); /* so that the error has words */
	rc = run(argc, argv);
	/* what did not reach its file must not look like success */
	if (fflush(stdout) || ferror(stdout))
		return cli_fail("stdout", "cannot write: %s; see where the output goes",
				strerror(errno));
	return rc;
}
