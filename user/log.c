/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The log callback, and the last error of each thread as one line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define LINE_MAX_LEN 512

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static weft_log_fn log_fn;
static void *log_arg;
static int log_max = -1; /* also read without the lock: a stale value costs one line */
static __thread char last_error[LINE_MAX_LEN];
static __thread struct {
	const char *line; /* instead of it; NULL: there is none */
	char ifname[IF_NAMESIZE];
	uint32_t qpn;
} often;

void weft_set_log(weft_log_fn fn, void *arg, enum weft_log_level max)
{
	pthread_mutex_lock(&log_lock);
	log_fn = fn;
	log_arg = arg;
	__atomic_store_n(&log_max, fn ? (int)max : -1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&log_lock);
}

const char *weft_strerror_last(void)
{
	if (often.line)
		snprintf(last_error, sizeof(last_error), "%s: %s",
			 weft_obj(often.ifname, often.qpn), often.line);
	often.line = NULL;
	return last_error;
}

const char *weft_obj(const char *ifname, uint32_t qpn)
{
	static __thread char name[IF_NAMESIZE + 16];

	snprintf(name, sizeof(name), qpn ? "%s qp 0x%x" : "%s srq", ifname, qpn);
	return name;
}

static void say(enum weft_log_level level, const char *line)
{
	weft_log_fn fn;
	void *arg;

	if ((int)level > __atomic_load_n(&log_max, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&log_lock);
	fn = log_fn;
	arg = log_arg;
	pthread_mutex_unlock(&log_lock);
	if (fn)
		fn(arg, level, line);
}

static void store(const char *obj, const char *fmt, va_list ap)
{
	char line[LINE_MAX_LEN]; /* an argument may be the last error itself */
	int n = snprintf(line, sizeof(line), "%s: ", obj);

	if (n > 0 && n < (int)sizeof(line))
		vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	snprintf(last_error, sizeof(last_error), "%s", line);
	often.line = NULL;
}

int weft_err(int err, const char *obj, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	store(obj, fmt, ap);
	va_end(ap);
	say(WEFT_LOG_ERR, last_error);
	return -err;
}

int weft_err_quiet(int err, const char *obj, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	store(obj, fmt, ap);
	va_end(ap);
	return -err;
}

int weft_err_line(int err, const char *line)
{
	snprintf(last_error, sizeof(last_error), "%s", *line ? line : strerror(err));
	often.line = NULL;
	say(WEFT_LOG_ERR, last_error);
	return -err;
}

int weft_no_arg(const struct weft_qp *qp, const char *call)
{
	return weft_err(EINVAL, qp ? weft_qp_name(qp) : call, "an argument is NULL; pass it");
}

int weft_err_often(int err, const char *ifname, uint32_t qpn, const char *line)
{
	often.line = line;
	often.qpn = qpn;
	memcpy(often.ifname, ifname, sizeof(often.ifname));
	return -err;
}

void weft_logf(enum weft_log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_LEN];
	va_list ap;

	if ((int)level > __atomic_load_n(&log_max, __ATOMIC_RELAXED))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	say(level, line);
}
