// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Messages, arguments and JSON of the weft tool. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>

#include "cli.h"
#include "internal.h"

static pthread_t main_thread;

static void vsay(const char *obj, const char *fmt, va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	if (obj)
		fprintf(stderr, "weft: %s: %s\n", obj, line);
	else
		fprintf(stderr, "weft: %s\n", line);
}

int cli_fail(const char *obj, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(obj, fmt, ap);
	va_end(ap);
	return CLI_FAIL;
}

int cli_usage(const char *cmd, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (cmd)
		fprintf(stderr, "weft: %s: %s; see 'weft %s --help'\n", cmd, line, cmd);
	else
		fprintf(stderr, "weft: %s; see 'weft --help'\n", line);
	return CLI_USAGE;
}

int cli_lib_fail(const char *obj, int err)
{
	const char *last = weft_strerror_last();

	if (*last) {
		fprintf(stderr, "weft: %s\n", last);
		return CLI_FAIL;
	}
	return cli_fail(obj, "%s; run again with -v for more", strerror(err < 0 ? -err : err));
}

/* The main thread's errors are printed by whoever made the failing call. */
static void log_line(void *arg, enum weft_log_level level, const char *line)
{
	(void)arg;
	if (level == WEFT_LOG_ERR && pthread_equal(pthread_self(), main_thread))
		return;
	fprintf(stderr, "weft: %s\n", line);
}

/* libbpf's chatter, one step less important than it thinks. */
static int libbpf_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if ((int)level + 1 > cli.verbose)
		return 0;
	fputs("weft: ", stderr);
	return vfprintf(stderr, fmt, ap);
}

void cli_log_init(void)
{
	static const enum weft_log_level levels[] = { WEFT_LOG_WARN, WEFT_LOG_INFO,
						      WEFT_LOG_DEBUG };

	main_thread = pthread_self();
	libbpf_set_print(libbpf_line);
	weft_set_log(log_line, NULL, levels[cli.verbose > 2 ? 2 : cli.verbose]);
}

/* ---- arguments ---- */

bool cli_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno || *end || v < min || v > max)
		return false;
	*out = v;
	return true;
}

bool cli_size(const char *s, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	unsigned shift = 0;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	switch (*end) {
	case 'g':
	case 'G':
		shift += 10;
		/* fall through */
	case 'm':
	case 'M':
		shift += 10;
		/* fall through */
	case 'k':
	case 'K': shift += 10; end++;
	}
	if (errno || *end || v > max >> shift)
		return false;
	*out = (uint64_t)v << shift;
	return true;
}

bool cli_seconds(const char *s, double *out)
{
	char *end;
	double v;

	if ((*s < '0' || *s > '9') && *s != '.')
		return false;
	v = strtod(s, &end);
	if (end == s || *end || !isfinite(v) || v <= 0 || v > 1e6)
		return false;
	*out = v;
	return true;
}

int cli_bad_option(const char *cmd, int c, char **argv)
{
	if (c == ':')
		return cli_usage(cmd, "option %s needs a value", argv[optind - 1]);
	/* a letter may stand among others */
	if (optopt > 0 && optopt < 256)
		return cli_usage(cmd, "unknown option -%c", optopt);
	return cli_usage(cmd, "unknown option %s", argv[optind - 1]);
}

int cli_option(const char *cmd, int c, char **argv, const char *help)
{
	switch (c) {
	case 'j': cli.json = true; return -1;
	case 'p': cli.json = cli.pretty = true; return -1;
	case 'v':
		cli.verbose++;
		cli_log_init();
		return -1;
	case 'h': fputs(help, stdout); return CLI_OK;
	default: return cli_bad_option(cmd, c, argv);
	}
}

int cli_common(const char *cmd, const char *help, int *argc, char ***argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "pretty", no_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c, rc;

	/* getopt starts behind argv[0], which is the object's name */
	(*argv)--;
	(*argc)++;
	optind = 0;
	while ((c = getopt_long(*argc, *argv, "jpvh", longs, NULL)) != -1) {
		rc = cli_option(cmd, c, *argv, help);
		if (rc >= 0)
			return rc;
	}
	*argc -= optind;
	*argv += optind;
	if (*argc && !strcmp((*argv)[0], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	return -1;
}

const char *cli_dev_name(const char *name)
{
	static char own[IF_NAMESIZE];
	struct weft_link link;

	if (weft_link_get(name, 0, &link))
		return name;
	memcpy(own, link.name, sizeof(own));
	return own;
}

int cli_dev_arg(const char *cmd, int argc, char **argv, bool need, const char **dev)
{
	*dev = NULL;
	if (argc && !strcmp(argv[0], "dev")) {
		argc--;
		argv++;
		if (!argc)
			return cli_usage(cmd, "an interface must follow \"dev\"");
	}
	if (argc > 1)
		return cli_usage(cmd, "what is \"%s\"", argv[1]);
	if (!argc)
		return need ? cli_usage(cmd, "which interface") : -1;
	if (!*argv[0])
		return cli_usage(cmd, "the interface has no name");
	*dev = cli_dev_name(argv[0]);
	if (strlen(*dev) >= IF_NAMESIZE)
		return cli_fail(*dev, "no such interface; see 'ip link'");
	return -1;
}

/* ---- output ---- */

int cli_print(struct json_object *o)
{
	puts(json_object_to_json_string_ext(
		o, cli.pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					JSON_C_TO_STRING_NOSLASHESCAPE
			      : JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
	return CLI_OK;
}

const char *cli_quoted(const char *s, char *buf, size_t size)
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *s && n + 8 <= size; s++)
		if ((unsigned char)*s < ' ')
			n += sprintf(buf + n, "\\u%04x", *s);
		else if (*s == '"' || *s == '\\')
			n += sprintf(buf + n, "\\%c", *s);
		else
			buf[n++] = *s;
	buf[n++] = '"';
	buf[n] = 0;
	return buf;
}

void cli_add_str(struct json_object *o, const char *k, const char *v)
{
	json_object_object_add(o, k, v ? json_object_new_string(v) : NULL);
}

void cli_add_u64(struct json_object *o, const char *k, uint64_t v)
{
	json_object_object_add(o, k, json_object_new_uint64(v));
}

void cli_add_bool(struct json_object *o, const char *k, bool v)
{
	json_object_object_add(o, k, json_object_new_boolean(v));
}

void cli_add_f(struct json_object *o, const char *k, double v, int digits)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*f", digits, v);
	json_object_object_add(o, k, json_object_new_double_s(v, text));
}

const char *cli_bytes(uint64_t n, char buf[32])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB" };
	unsigned i = 0;

	while (i < 3 && n >= 1024 && !(n & 1023)) {
		n >>= 10;
		i++;
	}
	snprintf(buf, 32, "%llu %s", (unsigned long long)n, unit[i]);
	return buf;
}
