// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* wirelab: run, change and read the impairments between two ports of the middle namespace. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <json-c/json.h>

#include "wirelab.h"
#include "wirelab_user.h"

static const char usage_text[] =
	"usage: wirelab run --ports P0,P1 [--tc] [--object FILE] [--pin DIR] [RATES]\n"
	"                   [--capture FILE [--snaplen N]]\n"
	"       wirelab set [--pin DIR] RATES\n"
	"       wirelab stats [--pin DIR] [-j] [--reset]\n"
	"       wirelab send [OPTIONS] HOST:PORT COUNT SIZE     (numbered datagrams)\n"
	"       wirelab recv [OPTIONS] HOST:PORT IDLE_MS        (what arrived, as JSON)\n"
	"\n"
	"run forwards between two ports until SIGINT or SIGTERM: by XDP, or with --tc by tc, where only\n"
	"loss is known and counts per super-packet. It prints one line when traffic flows.\n"
	"\n"
	"--capture writes all frames to a pcapng file as they go on, or would have if they had not been\n"
	"lost: the verdict of the XDP program tells.\n"
	"\n"
	"RATES, in parts per million; 'N' for both directions or 'N,M' for P0 to P1 and P1 to P0:\n"
	"  --loss --dup --corrupt --reorder --ce\n"
	"  --hops N          length of the detour of a reordered frame (default 8; 0 to 1000)\n"
	"  --corrupt-range FROM:TO   bytes from the UDP header on (default 0:65535, all of it)\n"
	"  --scatter | --no-scatter  flip 1 to 8 bits anywhere; else within one byte (default), which\n"
	"                    a 16-bit one's complement sum never misses\n"
	"  --ttl | --no-ttl  decrement TTL and hop limit\n"
	"  --all | --no-all  impair all IP packets; else UDP from or to the port (default)\n"
	"  --port N          the UDP port (default 4793)\n"
	"  --data-min N      frames of at least N bytes are counted as data (default 200)\n"
	"  --seed N          same seed, same CPU and same packet number: same fate (default 1)\n"
	"\n"
	"send: --ect --no-check --gap-us N --burst N    recv: --rcvbuf BYTES --until-term\n";

int fail(const char *object, int err, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "wirelab: %s: ", object);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (err < 0)
		fprintf(stderr, ": %s", strerror(-err));
	fputc('\n', stderr);
	return err < 0 ? err : -EINVAL;
}

static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level != LIBBPF_WARN || !getenv("WIRELAB_VERBOSE"))
		return 0;
	return vfprintf(stderr, fmt, ap);
}

/* ---- options ---- */

enum {
	O_LOSS = 256,
	O_DUP,
	O_CORRUPT,
	O_REORDER,
	O_CE,
	O_HOPS,
	O_RANGE,
	O_SCATTER,
	O_NO_SCATTER,
	O_TTL,
	O_NO_TTL,
	O_ALL,
	O_NO_ALL,
	O_PORT,
	O_DATA_MIN,
	O_SEED,
	O_PORTS,
	O_TC,
	O_OBJECT,
	O_PIN,
	O_RESET,
	O_CAPTURE,
	O_SNAPLEN,
};

static const struct option long_options[] = { { "loss", 1, 0, O_LOSS },
					      { "dup", 1, 0, O_DUP },
					      { "corrupt", 1, 0, O_CORRUPT },
					      { "reorder", 1, 0, O_REORDER },
					      { "ce", 1, 0, O_CE },
					      { "hops", 1, 0, O_HOPS },
					      { "corrupt-range", 1, 0, O_RANGE },
					      { "scatter", 0, 0, O_SCATTER },
					      { "no-scatter", 0, 0, O_NO_SCATTER },
					      { "ttl", 0, 0, O_TTL },
					      { "no-ttl", 0, 0, O_NO_TTL },
					      { "all", 0, 0, O_ALL },
					      { "no-all", 0, 0, O_NO_ALL },
					      { "port", 1, 0, O_PORT },
					      { "data-min", 1, 0, O_DATA_MIN },
					      { "seed", 1, 0, O_SEED },
					      { "ports", 1, 0, O_PORTS },
					      { "tc", 0, 0, O_TC },
					      { "object", 1, 0, O_OBJECT },
					      { "pin", 1, 0, O_PIN },
					      { "reset", 0, 0, O_RESET },
					      { "capture", 1, 0, O_CAPTURE },
					      { "snaplen", 1, 0, O_SNAPLEN },
					      { "help", 0, 0, 'h' },
					      { 0 } };

static int number(const char *s, char **end, __u64 max, __u64 *out)
{
	errno = 0;
	*out = strtoull(s, end, 0);
	return *end == s || *s == '-' || errno || *out > max ? -EINVAL : 0;
}

/* N, or N,M for the two directions */
static int pair(const char *s, __u64 max, __u64 v[WL_DIRS])
{
	char *end;

	if (number(s, &end, max, &v[0]))
		return -EINVAL;
	v[1] = v[0];
	if (*end == ',' && number(end + 1, &end, max, &v[1]))
		return -EINVAL;
	return *end ? -EINVAL : 0;
}

static int set_range(const char *s, struct wl_cfg *cfg)
{
	__u64 from, to;
	char *end;

	if (number(s, &end, 65535, &from) || *end != ':' || number(end + 1, &end, 65535, &to) ||
	    *end || from >= to)
		return -EINVAL;
	for (int d = 0; d < WL_DIRS; d++) {
		cfg[d].cor_from = from;
		cfg[d].cor_to = to;
	}
	return 0;
}

static int set_pair(int opt, const char *arg, struct wl_cfg *cfg)
{
	__u64 max = opt == O_SEED                        ? ~0ULL
		    : opt == O_PORT || opt == O_DATA_MIN ? 65535
		    : opt == O_HOPS                      ? WL_HOPS_MAX
							 : WL_PPM;
	__u64 v[WL_DIRS];

	if (pair(arg, max, v))
		return -EINVAL;
	for (int d = 0; d < WL_DIRS; d++) {
		switch (opt) {
		case O_LOSS: cfg[d].loss = v[d]; break;
		case O_DUP: cfg[d].dup = v[d]; break;
		case O_CORRUPT: cfg[d].corrupt = v[d]; break;
		case O_REORDER: cfg[d].reorder = v[d]; break;
		case O_CE: cfg[d].ce = v[d]; break;
		case O_HOPS: cfg[d].hops = v[d]; break;
		case O_PORT: cfg[d].port = v[d]; break;
		case O_DATA_MIN: cfg[d].data_min = v[d]; break;
		case O_SEED: cfg[d].seed = v[d]; break;
		}
	}
	return 0;
}

static void set_flag(struct wl_cfg *cfg, __u32 flag, bool on)
{
	for (int d = 0; d < WL_DIRS; d++)
		cfg[d].flags = on ? cfg[d].flags | flag : cfg[d].flags & ~flag;
}

static int parse_options(int argc, char **argv, struct options *o, struct wl_cfg *cfg)
{
	char *end;
	__u64 n;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "jh", long_options, NULL)) != -1) {
		switch (c) {
		case 'j': o->json = true; break;
		case 'h': fputs(usage_text, stdout); exit(0);
		case O_PORTS: o->ports = optarg; break;
		case O_TC: o->tc = true; break;
		case O_OBJECT: o->object = optarg; break;
		case O_PIN: o->pin = optarg; break;
		case O_RESET: o->reset = true; break;
		case O_CAPTURE: o->capture = optarg; break;
		case O_SNAPLEN:
			if (number(optarg, &end, 65535, &n) || *end || !n)
				return fail(optarg, 0, "not a number of bytes; see --help");
			o->snap = n;
			break;
		case O_SCATTER:
		case O_NO_SCATTER: set_flag(cfg, WL_F_SCATTER, c == O_SCATTER); break;
		case O_TTL:
		case O_NO_TTL: set_flag(cfg, WL_F_TTL, c == O_TTL); break;
		case O_ALL:
		case O_NO_ALL: set_flag(cfg, WL_F_ALL, c == O_ALL); break;
		case '?': return -EINVAL;
		default:
			if (c == O_RANGE ? set_range(optarg, cfg) : set_pair(c, optarg, cfg))
				return fail(optarg, 0, "not a value for this option; see --help");
		}
	}
	if (optind != argc)
		return fail(argv[optind], 0, "unexpected argument; see --help");
	return 0;
}

/* ---- set and stats ---- */

static int find_pin(const char *given, char *path, size_t size)
{
	struct dirent *e;
	int found = 0;
	DIR *dir;

	if (given) {
		snprintf(path, size, "%s", given);
		return 0;
	}
	dir = opendir(BPFFS);
	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)))
			continue;
		found++;
		snprintf(path, size, BPFFS "/%s", e->d_name);
	}
	if (dir)
		closedir(dir);
	if (found != 1)
		return fail(BPFFS, 0, "%s laboratory runs here; use --pin DIR",
			    found ? "more than one" : "no");
	return 0;
}

static int get_map(const char *pin, const char *name)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", pin, name);
	fd = bpf_obj_get(path);
	return fd < 0 ? fail(path, -errno, "cannot open; is the laboratory running?") : fd;
}

static int read_cfg(int fd, struct wl_cfg *cfg)
{
	for (__u32 d = 0; d < WL_DIRS; d++)
		if (bpf_map_lookup_elem(fd, &d, &cfg[d]))
			return fail("wl_cfg", -errno, "cannot read");
	return 0;
}

static int cmd_set(const char *pin, int argc, char **argv)
{
	struct wl_cfg cfg[WL_DIRS];
	struct options o = { 0 };
	int fd, err;

	fd = get_map(pin, "wl_cfg");
	if (fd < 0)
		return fd;
	err = read_cfg(fd, cfg);
	err = err ?: parse_options(argc, argv, &o, cfg);
	for (__u32 d = 0; d < WL_DIRS && !err; d++)
		if (bpf_map_update_elem(fd, &d, &cfg[d], 0))
			err = fail("wl_cfg", -errno, "cannot write");
	close(fd);
	return err;
}

/* ---- stats ---- */

static int sum_stats(int fd, __u32 dir, struct wl_stats *sum, bool reset)
{
	int n = libbpf_num_possible_cpus();
	struct wl_stats *v = calloc(n, sizeof(*v));
	int err = 0;

	if (!v)
		return -ENOMEM;
	memset(sum, 0, sizeof(*sum));
	if (bpf_map_lookup_elem(fd, &dir, v))
		err = fail("wl_stats", -errno, "cannot read");
	for (int i = 0; i < n && !err; i++)
		for (size_t k = 0; k < sizeof(*sum) / sizeof(__u64); k++)
			((__u64 *)sum)[k] += ((__u64 *)&v[i])[k];
	if (reset && !err) {
		memset(v, 0, n * sizeof(*v));
		if (bpf_map_update_elem(fd, &dir, v, 0))
			err = fail("wl_stats", -errno, "cannot reset");
	}
	free(v);
	return err;
}

/* Adds {"PORT": count, ...} for one direction; ports with nothing are left out. */
static int add_sports(int fd, __u32 dir, struct json_object *to, bool reset)
{
	const __u32 all = WL_DIRS * WL_SPORTS;
	__u32 n = libbpf_num_possible_cpus(), next, count = all;
	__u64 *v = calloc((size_t)all * n, sizeof(*v)), *zero = calloc(n, sizeof(*zero));
	__u32 *keys = calloc(all, sizeof(*keys));
	struct json_object *ports = json_object_new_object();
	int err = v && zero && keys ? 0 : -ENOMEM;
	char name[8];

	if (!err && bpf_map_lookup_batch(fd, NULL, &next, keys, v, &count, NULL) && errno != ENOENT)
		err = fail("wl_sports", -errno, "cannot read");
	for (__u32 i = 0; i < count && !err; i++) {
		__u64 sum = 0;

		if (keys[i] / WL_SPORTS != dir)
			continue;
		for (__u32 cpu = 0; cpu < n; cpu++)
			sum += v[(size_t)i * n + cpu];
		if (!sum)
			continue;
		snprintf(name, sizeof(name), "%u", keys[i] % WL_SPORTS);
		json_object_object_add(ports, name, json_object_new_int64(sum));
		if (reset && bpf_map_update_elem(fd, &keys[i], zero, 0))
			err = fail("wl_sports", -errno, "cannot reset");
	}
	json_object_object_add(to, "sports", ports);
	free(keys);
	free(v);
	free(zero);
	return err;
}

static struct json_object *dir_json(const struct wl_cfg *cfg, const struct wl_stats *st)
{
	struct json_object *o = json_object_new_object();
	const struct {
		const char *name;
		__u64 v;
	} f[] = {
		{ "packets", st->packets },
		{ "bytes", st->bytes },
		{ "data", st->data },
		{ "other", st->other },
		{ "lost", st->lost },
		{ "lost_data", st->lost_data },
		{ "dup", st->dup },
		{ "dup_late", st->dup_late },
		{ "corrupted", st->corrupted },
		{ "corrupted_data", st->corrupted_data },
		{ "reordered", st->reordered },
		{ "detour_out", st->detour_out },
		{ "overtaken", st->overtaken },
		{ "ce", st->ce },
		{ "ttl_expired", st->ttl_expired },
	};

	json_object_object_add(o, "from", json_object_new_string(cfg->name));
	for (size_t i = 0; i < sizeof(f) / sizeof(*f); i++)
		json_object_object_add(o, f[i].name, json_object_new_int64(f[i].v));
	return o;
}

static void print_plain(struct json_object *dirs)
{
	for (size_t d = 0; d < json_object_array_length(dirs); d++) {
		json_object_object_foreach(json_object_array_get_idx(dirs, d), name, v) {
			if (json_object_is_type(v, json_type_object))
				printf("  sports %d", json_object_object_length(v));
			else
				printf("%s%s %s", strcmp(name, "from") ? "  " : "", name,
				       json_object_get_string(v));
		}
		putchar('\n');
	}
}

static int cmd_stats(const char *pin, const struct options *o)
{
	int cfg_fd = get_map(pin, "wl_cfg"), st_fd = get_map(pin, "wl_stats");
	int sp_fd = get_map(pin, "wl_sports"), err = -ENOENT;
	struct json_object *top = json_object_new_object();
	struct json_object *dirs = json_object_new_array();
	struct wl_cfg cfg[WL_DIRS];

	if (cfg_fd >= 0 && st_fd >= 0 && sp_fd >= 0)
		err = read_cfg(cfg_fd, cfg);
	for (__u32 d = 0; d < WL_DIRS && !err; d++) {
		struct json_object *dir;
		struct wl_stats st;

		err = sum_stats(st_fd, d, &st, o->reset);
		if (err)
			break;
		dir = dir_json(&cfg[d], &st);
		err = add_sports(sp_fd, d, dir, o->reset);
		json_object_array_add(dirs, dir);
	}
	json_object_object_add(top, "dirs", dirs);
	if (!err && o->json)
		puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	else if (!err)
		print_plain(dirs);
	json_object_put(top);
	if (cfg_fd >= 0)
		close(cfg_fd);
	if (st_fd >= 0)
		close(st_fd);
	if (sp_fd >= 0)
		close(sp_fd);
	return err;
}

/* Defaults; the second round of options, on what runs, is parsed by cmd_set(). */
static void init_cfg(struct wl_cfg *cfg)
{
	memset(cfg, 0, WL_DIRS * sizeof(*cfg));
	for (int d = 0; d < WL_DIRS; d++) {
		cfg[d].seed = 1;
		cfg[d].hops = 8;
		cfg[d].port = 4793;
		cfg[d].data_min = 200;
		cfg[d].cor_to = 65535;
	}
}

static int only_loss(const struct wl_cfg *cfg)
{
	for (int d = 0; d < WL_DIRS; d++)
		if (cfg[d].dup || cfg[d].corrupt || cfg[d].reorder || cfg[d].ce ||
		    cfg[d].flags & WL_F_TTL)
			return fail("--tc", 0, "only --loss works by tc; leave out the others");
	return 0;
}

int main(int argc, char **argv)
{
	struct wl_cfg cfg[WL_DIRS];
	struct options o = { 0 };
	const char *verb = argc > 1 ? argv[1] : "";
	char pin[512];
	int err;

	libbpf_set_print(libbpf_print);
	if (!strcmp(verb, "--help") || !strcmp(verb, "-h"))
		return fputs(usage_text, stdout) < 0;
	if (!strcmp(verb, "send"))
		return cmd_send(argc - 1, argv + 1);
	if (!strcmp(verb, "recv"))
		return cmd_recv(argc - 1, argv + 1);
	if (strcmp(verb, "run") && strcmp(verb, "set") && strcmp(verb, "stats")) {
		fputs(usage_text, stderr);
		return 2;
	}
	init_cfg(cfg);
	if (parse_options(argc - 1, argv + 1, &o, cfg))
		return 2;
	if (!strcmp(verb, "run")) {
		if (o.tc && only_loss(cfg))
			return 2;
		if (o.tc && o.capture) {
			fail("--tc", 0, "--capture works by XDP only; leave out one of them");
			return 2;
		}
		return cmd_run(&o, cfg) ? 1 : 0;
	}
	err = find_pin(o.pin, pin, sizeof(pin));
	if (!err)
		err = strcmp(verb, "set") ? cmd_stats(pin, &o) : cmd_set(pin, argc - 1, argv + 1);
	return err ? 1 : 0;
}
