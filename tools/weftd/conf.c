// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The configuration of weftd: which devices, which users, how much of what. */
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>

#include "weftd.h"

static const struct quota quota_default = { .memory = 1ull << 30,
					    .qps = 64,
					    .regions = 1024,
					    .processes = 8,
					    .share = 100 };

static int wrong(const char *file, unsigned line, const char *what, const char *word,
		 const char *remedy)
{
	char at[300];

	snprintf(at, sizeof(at), "%s:%u", file, line);
	return weft_err(EINVAL, at, "%s \"%s\"; %s", what, word ? word : "", remedy);
}

/* val is nothing for this option: what would be. */
static int no_value(const char *file, unsigned line, const char *key, const char *val,
		    const char *fmt, ...)
{
	char what[48], want[80];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	snprintf(what, sizeof(what), "%s cannot be", key);
	return wrong(file, line, what, val, want);
}

/* A number up to max, with k, m, g for powers of 1024 if it is a size. */
static bool number(const char *s, bool size, uint64_t max, uint64_t *out)
{
	unsigned shift = 0;
	char *end;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoull(s, &end, 10);
	if (size && *end)
		shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
	if (errno || end[!!shift] || *out > max >> shift)
		return false;
	*out <<= shift;
	return true;
}

static bool on_off(const char *s, bool *on)
{
	*on = s && !strcmp(s, "on");
	return *on || (s && !strcmp(s, "off"));
}

static char *word(char **rest)
{
	char *w;

	do
		w = strsep(rest, " \t\r\n");
	while (w && !*w);
	return w;
}

static int device(struct conf *c, char *rest, const char *file, unsigned line)
{
	struct conf_device *d = &c->device[c->ndevices];
	const char *key, *val, *name = word(&rest);
	uint64_t n = 0;
	bool on, ok;

	if (!name || strlen(name) >= IF_NAMESIZE)
		return wrong(file, line, "no name of an interface", name, "see 'ip link'");
	if (c->ndevices == CONF_MAX)
		return wrong(file, line, "too many devices", name, "leave some out");
	*d = (struct conf_device){ .opts.size = sizeof(d->opts), .opts.daemon = "" };
	strcpy(d->ifname, name);
	while ((key = word(&rest))) {
		val = word(&rest);
		if (!strcmp(key, "port")) {
			ok = number(val, false, 65535, &n) && n && n != 4791;
			if (!ok)
				return no_value(file, line, key, val, "1 to 65535, but not 4791");
			d->opts.port = n;
		} else if (!strcmp(key, "qps")) {
			ok = number(val, false, WEFT_QPS_MAX, &n) && n;
			if (!ok)
				return no_value(file, line, key, val, "1 to %d", WEFT_QPS_MAX);
			d->opts.device_qps = n;
		} else if (!strcmp(key, "csum")) {
			ok = on_off(val, &on);
			d->opts.csum = on;
		} else if (!strcmp(key, "telemetry")) {
			ok = on_off(val, &on);
			d->opts.no_telemetry = !on;
		} else {
			return wrong(file, line, "what is", key,
				     "a device has port, qps, csum and telemetry");
		}
		if (!ok)
			return no_value(file, line, key, val, "on or off");
	}
	c->ndevices++;
	return 0;
}

/* Names are looked up once: an account that comes later needs a reload. */
static bool find_id(struct conf_rule *r, const char *name)
{
	const struct passwd *pw;
	const struct group *gr;
	uint64_t n;

	if (number(name, false, UINT32_MAX - 1, &n)) {
		r->id = n;
		return true;
	}
	if (r->kind == RULE_USER) {
		pw = getpwnam(name);
		r->id = pw ? pw->pw_uid : 0;
		return pw;
	}
	gr = getgrnam(name);
	r->id = gr ? gr->gr_gid : 0;
	return gr;
}

static int rule(struct conf *c, bool group, char *rest, const char *file, unsigned line)
{
	struct conf_rule *r = &c->rule[c->nrules];
	const char *key, *val, *name = word(&rest);
	uint64_t n = 0, max = 0;
	bool ok;

	if (!name)
		return wrong(file, line, group ? "no name of a group" : "no name of a user", name,
			     "add one behind it");
	if (c->nrules == CONF_MAX)
		return wrong(file, line, "too many users", name, "name a group of them");
	*r = (struct conf_rule){ .kind = group ? RULE_GROUP : RULE_USER, .q = quota_default };
	if (!group && !strcmp(name, "*"))
		r->kind = RULE_ALL;
	else if (!find_id(r, name))
		return wrong(file, line, group ? "no such group:" : "no such user:", name,
			     group ? "see 'getent group'" : "see 'getent passwd'");
	while ((key = word(&rest))) {
		val = word(&rest);
		if (!strcmp(key, "memory")) {
			if (!number(val, true, 1ull << 44, &n))
				return no_value(file, line, key, val,
						"bytes, with k, m or g as a unit, up to 16384g");
			r->q.memory = n;
			continue;
		} else if (!strcmp(key, "qps")) {
			ok = number(val, false, max = WEFT_QPS_MAX, &n);
			r->q.qps = n;
		} else if (!strcmp(key, "regions")) {
			ok = number(val, false, max = WEFT_MRS, &n);
			r->q.regions = n;
		} else if (!strcmp(key, "processes")) {
			ok = number(val, false, max = WEFT_PROCS, &n);
			r->q.processes = n;
		} else if (!strcmp(key, "share")) {
			ok = number(val, false, max = 100, &n) && n;
			r->q.share = n;
		} else {
			return wrong(file, line, "what is", key,
				     "they have memory, qps, regions, processes and share");
		}
		if (!ok)
			return no_value(file, line, key, val, "%d to %llu", max == 100,
					(unsigned long long)max);
	}
	c->nrules++;
	return 0;
}

static int one_line(struct conf *c, char *text, const char *file, unsigned line)
{
	char *rest = text, *key;

	strtok(text, "#\n");
	if (*text == '#' || *text == '\n')
		return 0;
	key = word(&rest);
	if (!key)
		return 0;
	if (!strcmp(key, "device"))
		return device(c, rest, file, line);
	if (!strcmp(key, "user") || !strcmp(key, "group"))
		return rule(c, *key == 'g', rest, file, line);
	return wrong(file, line, "what is", key, "a line begins with device, user or group");
}

int conf_read(const char *path, struct conf *c)
{
	FILE *f = fopen(path, "re");
	char line[512];
	unsigned n = 0;
	int err = 0;

	memset(c, 0, sizeof(*c));
	if (!f)
		return weft_err(errno, path, "cannot read it: %s; see weftd(8)", strerror(errno));
	while (!err && fgets(line, sizeof(line), f)) {
		n++;
		if (!strchr(line, '\n') && !feof(f))
			err = wrong(path, n, "the line is too long:", "",
				    "cut it to 510 characters");
		else
			err = one_line(c, line, path, n);
	}
	fclose(f);
	if (!err && !c->ndevices)
		err = weft_err(EINVAL, path, "names no device; add 'device IFNAME'");
	if (!err && !c->nrules)
		weft_logf(WEFT_LOG_WARN,
			  "%s: names no user and no group, so nobody is served; add 'user NAME' or "
			  "'group NAME'",
			  path);
	return err;
}
