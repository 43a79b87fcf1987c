/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of the weft tool share: messages, arguments, output, pinned devices. */
#ifndef WEFT_TOOL_CLI_H
#define WEFT_TOOL_CLI_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <json-c/json.h>

#include <weft/abi.h>
#include <weft/weft.h>

#ifndef WEFT_VERSION
#define WEFT_VERSION "unknown"
#endif

#define CLI_OK    0
#define CLI_FAIL  1
#define CLI_USAGE 2
#define CLI_INTR  130 /* ended by SIGINT or SIGTERM before its time */

struct cli {
	bool json, pretty;
	int verbose;
	uint64_t netns_ino;
};
extern struct cli cli;

/* ---- messages: "weft: OBJECT: what happened; remedy" ---- */

/* Prints and returns CLI_FAIL. */
int cli_fail(const char *obj, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints with a pointer to `weft CMD --help`, returns CLI_USAGE. */
int cli_usage(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What the library said about its last error, else errno's text. Returns CLI_FAIL. */
int cli_lib_fail(const char *obj, int err);
/* Install the library's log. */
void cli_log_init(void);

/* ---- arguments ---- */

bool cli_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
bool cli_size(const char *s, uint64_t max, uint64_t *out); /* suffixes k, m, g: powers of 1024 */
bool cli_seconds(const char *s, double *out);
/* What getopt_long() returned c for. Returns CLI_USAGE. */
int cli_bad_option(const char *cmd, int c, char **argv);
/* An option that getopt_long() returned c for and that every command takes; as cli_common. */
int cli_option(const char *cmd, int c, char **argv, const char *help);
/*
 * Options that every command takes after its name (-j -p -v -h). Leaves the
 * other arguments in argv[0] on. Returns -1 to go on, else the exit status.
 */
int cli_common(const char *cmd, const char *help, int *argc, char ***argv);
/* The interface's own name, when this is an alternative one of it; else this. Until the next call. */
const char *cli_dev_name(const char *name);
/* "DEV" or "dev DEV", optional or not; as cli_common. *dev: its own name. */
int cli_dev_arg(const char *cmd, int argc, char **argv, bool need, const char **dev);

/* ---- output ---- */

int cli_print(struct json_object *o); /* prints, drops the reference, returns CLI_OK */
/* s as JSON has it, with its quotes, for those who print lines themselves. */
#define CLI_QUOTED(len) (6 * (len) + 3)
const char *cli_quoted(const char *s, char *buf, size_t size);
void cli_add_str(struct json_object *o, const char *k, const char *v); /* NULL: null */
void cli_add_u64(struct json_object *o, const char *k, uint64_t v);
void cli_add_bool(struct json_object *o, const char *k, bool v);
void cli_add_f(struct json_object *o, const char *k, double v, int digits);
const char *cli_bytes(uint64_t n, char buf[32]); /* "64 KiB" */

/* ---- devices of this namespace that weft is on, by their pins ---- */

struct pinned {
	char ifname[IF_NAMESIZE]; /* as it is called now */
	char dir[96];
	int ifindex; /* 0: the interface is gone */
	struct weft_devcfg cfg;
};

/*
 * Find dev, or all when dev is NULL. The caller frees *list. Returns how many,
 * or -1 after a message.
 */
int pins_find(const char *dev, struct pinned **list);
/* Descriptor of a pinned map whose values have this size, or -1 after a message. */
int pins_map(const struct pinned *p, const char *name, uint32_t value_size);
/* All n values of a pinned map, shared with XDP; NULL after a message. */
void *pins_mmap(const struct pinned *p, const char *name, size_t size, size_t n, int prot);
uint32_t pins_prog_id(const struct pinned *p, const char *name); /* 0: not pinned */
/* How its program is on the interface: "link", "netlink", "dispatcher"; NULL: it is not. */
const char *pins_attach(const struct pinned *p);
/* pid[slot]: who holds the process slot, 0: nobody. Returns how many. */
int pins_users(const struct pinned *p, int pid[WEFT_PROCS]);

/* users.c: what each of them has */
struct users {
	int n;
	struct {
		int pid; /* 0: nobody */
		uint32_t uid, qps, regions;
		uint64_t memory; /* bytes of pools */
		bool served;     /* by weftd */
	} of[WEFT_PROCS];
};
void users_get(const struct pinned *p, struct users *u);
void users_text(const struct users *u);
struct json_object *users_json(const struct users *u);

/* One pass over the devices: calls one() until it fails; see pins_find(). */
int pins_each(const char *dev, int (*one)(const struct pinned *p, struct json_object *out));

/* ---- counters, stats.c ---- */

struct stats_counter {
	const char *name, *text;
};
extern const struct stats_counter stats_drops[WEFT_DROP_COUNT], stats_counts[WEFT_COUNT_COUNT];

/* Counted as a drop, but no packet: what replication costs. */
bool stats_overhead(const struct stats_counter *c);
int stats_sum(const struct pinned *p, struct weft_stats *sum); /* 0, or -1 after a message */

/* ---- commands: what follows their name; return the exit status ---- */

int cmd_up(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_unpin(int argc, char **argv);
int cmd_dev(int argc, char **argv);
int cmd_qp(int argc, char **argv);
int cmd_mr(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_capture(int argc, char **argv);

int cmd_top(int argc, char **argv);
int cmd_metrics(int argc, char **argv);

int dev_set(int argc, char **argv);
int dev_flush(void);
int qp_trace(int argc, char **argv);
int perf_server(int argc, char **argv);

#endif
