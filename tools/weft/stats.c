// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft stats: what XDP counted, packets dropped by reason first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "qps.h"

static const char help[] =
	"usage: weft stats [ show ] [ DEV ] [ all ] [ -j ]\n"
	"\n"
	"Counters since weft was attached, of DEV or of every interface: packets that were not\n"
	"accepted, by reason, and what happened otherwise. Counters at zero are left out unless\n"
	"\"all\" is given; JSON has all of them.\n";

static bool show_all;

const struct stats_counter stats_drops[WEFT_DROP_COUNT] = {
#define X(name, text) { #name, text },
	WEFT_DROPS(X)
#undef X
};
const struct stats_counter stats_counts[WEFT_COUNT_COUNT] = {
#define X(name, text) { #name, text },
	WEFT_COUNTS(X)
#undef X
};

bool stats_overhead(const struct stats_counter *c)
{
	return c == &stats_drops[WEFT_DROP_template];
}

int stats_sum(const struct pinned *p, struct weft_stats *sum)
{
	int cpus = libbpf_num_possible_cpus(), fd, rc;
	struct weft_stats *all;
	uint32_t zero = 0;

	memset(sum, 0, sizeof(*sum));
	fd = pins_map(p, "stats", sizeof(*sum));
	if (fd < 0)
		return -1;
	all = cpus > 0 ? calloc(cpus, sizeof(*all)) : NULL;
	rc = all ? bpf_map_lookup_elem(fd, &zero, all) : -1;
	if (rc)
		cli_fail(p->ifname, "cannot read the counters: %s; run as root", strerror(errno));
	for (int c = 0; c < cpus && !rc; c++)
		for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
			((uint64_t *)sum)[i] += ((uint64_t *)&all[c])[i];
	free(all);
	close(fd);
	return rc ? -1 : 0;
}

static struct json_object *to_json(const uint64_t *v, const struct stats_counter *c, unsigned n)
{
	struct json_object *o = json_object_new_object();

	for (unsigned i = 0; i < n; i++)
		cli_add_u64(o, c[i].name, v[i]);
	return o;
}

static void to_text(const char *what, bool overhead, const uint64_t *v,
		    const struct stats_counter *c, unsigned n)
{
	unsigned shown = 0;

	for (unsigned i = 0; i < n; i++) {
		if ((!v[i] && !show_all) || stats_overhead(&c[i]) != overhead)
			continue;
		if (!shown++)
			printf("  %s\n", what);
		printf("    %-10s %16llu  %s\n", c[i].name, (unsigned long long)v[i], c[i].text);
	}
	if (!shown)
		printf("  %s: none\n", what);
}

static int show(const struct pinned *p, struct json_object *out)
{
	struct weft_hist rtt, lat;
	struct weft_stats s;
	struct tele t;
	char times[96];

	if (stats_sum(p, &s) || tele_open(p, &t))
		return CLI_FAIL;
	tele_device(&t, &rtt, &lat);
	tele_close(&t);
	if (out) {
		struct json_object *o = json_object_new_object();

		cli_add_str(o, "dev", p->ifname);
		json_object_object_add(o, "drops",
				       to_json((uint64_t *)&s.drop, stats_drops, WEFT_DROP_COUNT));
		json_object_object_add(
			o, "counts", to_json((uint64_t *)&s.count, stats_counts, WEFT_COUNT_COUNT));
		json_object_object_add(o, "rtt_us", hist_json(&rtt));
		json_object_object_add(o, "latency_us", hist_json(&lat));
		json_object_array_add(out, o);
		return CLI_OK;
	}
	printf("%s:\n", p->ifname);
	to_text("drops", false, (uint64_t *)&s.drop, stats_drops, WEFT_DROP_COUNT);
	to_text("overhead", true, (uint64_t *)&s.drop, stats_drops, WEFT_DROP_COUNT);
	to_text("counts", false, (uint64_t *)&s.count, stats_counts, WEFT_COUNT_COUNT);
	printf("  times\n    round trip %s\n", hist_text(&rtt, times));
	printf("    write      %s\n", hist_text(&lat, times));
	return CLI_OK;
}

/* With DEV, JSON is that device's object itself. */
static int show_one(const char *dev)
{
	struct json_object *out = json_object_new_array();
	struct pinned *list;
	int n = pins_find(dev, &list), rc;

	rc = n == 1 ? show(&list[0], out) : CLI_FAIL;
	if (!rc)
		rc = cli_print(json_object_get(json_object_array_get_idx(out, 0)));
	json_object_put(out);
	free(list);
	return rc;
}

int cmd_stats(int argc, char **argv)
{
	const char *dev;
	int rc = cli_common("stats", help, &argc, &argv);

	if (rc >= 0)
		return rc;
	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	if (argc && !strcmp(argv[argc - 1], "all")) {
		show_all = true;
		argc--;
	}
	rc = cli_dev_arg("stats", argc, argv, false, &dev);
	if (rc >= 0)
		return rc;
	return dev && cli.json ? show_one(dev) : pins_each(dev, show);
}
