/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the examples share: arguments, the end on an error, memory, connecting, serving, completions. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#define CLIENTS 32 /* that an example serves at a time; weft allows a process 64 QPs */

struct args {
	unsigned long port, count, size; /* -p, -n or -r, -s */
	bool sleep;                      /* -e: sleep instead of polling */
	const char *dev;                 /* the first word */
	char **word;                     /* and what follows, up to NULL */
};

static inline void usage(const char *text)
{
	fprintf(stderr, "usage: %s\n", text);
	exit(2);
}

/* Options and words into *a, which holds the defaults. Whatever does not fit ends the program. */
static inline void arguments(struct args *a, int argc, char **argv, const char *letters,
			     const char *text)
{
	unsigned long *number;
	char *end;
	int c;

	while ((c = getopt(argc, argv, letters)) != -1) {
		number = c == 'p'               ? &a->port
			 : c == 's'             ? &a->size
			 : c == 'n' || c == 'r' ? &a->count
						: NULL;
		end = "";
		if (number)
			*number = strtoul(optarg, &end, 10);
		else
			a->sleep = c == 'e';
		if (c == '?' || *end || (number && *optarg == '-'))
			usage(text);
	}
	if (optind == argc || !a->port || a->port > 65535)
		usage(text);
	a->dev = argv[optind];
	a->word = argv + optind + 1;
}

/* 0 or more: what a call of weft has returned. Less: the end; the kernel takes back what was made. */
static inline int check(int result)
{
	if (result < 0)
		errx(1, "%s", weft_strerror_last());
	return result;
}

/* Memory that peers reach with these rights, zeroed. Making it takes time: once, at the beginning. */
static inline struct weft_mr *memory(struct weft_dev *dev, size_t len, unsigned rights)
{
	struct weft_mr *mr;
	void *mem;

	check(weft_alloc(dev, len, &mem));
	check(weft_mr_reg(dev, NULL, mem, len, rights, &mr));
	return mr;
}

/* "HOST:PORT" as weft wants it; without a host, all addresses of the interface. */
static inline const char *address(const char *host, unsigned long port)
{
	static char text[300];

	snprintf(text, sizeof(text), host && strchr(host, ':') ? "[%s]:%lu" : "%s:%lu",
		 host ? host : "", port);
	return text;
}

/* Connect; for so many seconds the server may still be on its way. */
static inline struct weft_qp *join(struct weft_dev *dev, const char *host, unsigned long port,
				   const struct weft_qp_opts *opts, unsigned seconds)
{
	struct weft_qp *qp;
	int err;

	for (unsigned tries = seconds * 10;; tries--) {
		err = weft_connect(dev, address(host, port), opts, &qp);
		if (err != -ECONNREFUSED || !tries)
			break;
		if (tries == seconds * 10)
			warnx("waiting for %s", address(host, port));
		usleep(100000);
	}
	check(err);
	return qp;
}

/* What the peer has given along with the connection. */
static inline void introduction(const struct weft_qp *qp, void *to, size_t len)
{
	size_t got;
	const void *from = weft_qp_private(qp, &got);

	if (got != len)
		errx(1, "the peer is another program: %zu bytes of private data, not %zu", got,
		     len);
	memcpy(to, from, len);
}

/* The next completion of this QP, which must be a good one. */
static inline struct weft_wc completion(struct weft_qp *qp, bool sleep)
{
	struct weft_wc wc;

	while (!weft_cq_poll(weft_qp_cq(qp), &wc, 1))
		if (sleep)
			check(weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, -1));
	if (wc.status != WEFT_WC_SUCCESS)
		errx(1, "a request has failed: %s", weft_wc_str(wc.status));
	return wc;
}

static volatile sig_atomic_t stopped;

static inline void stop(int sig)
{
	stopped = sig;
}

/*
 * Let clients come and go until SIGINT or SIGTERM. What they do to our memory goes on without this
 * thread.
 */
static inline void serve(struct weft_dev *dev, unsigned long port, struct weft_qp_opts opts)
{
	const struct sigaction act = { .sa_handler = stop }; /* no SA_RESTART: it ends the accept */
	struct weft_qp *qp[CLIENTS];
	struct weft_listener *l;
	unsigned n = 0;
	int err;

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	check(weft_listen(dev, address(NULL, port), &l));
	opts.connect_ms = 500;
	while (!stopped) {
		err = n < CLIENTS ? weft_accept(l, &opts, &qp[n]) : -ENOSPC;
		if (!err)
			n++;
		else if (err == -ENODEV)
			check(err); /* the interface has gone */
		else if (err != -ETIMEDOUT && err != -EINTR)
			usleep(opts.connect_ms * 1000); /* short of something: others may end */
		for (unsigned i = n; i-- > 0;) {
			if (weft_qp_status(qp[i]) == WEFT_WC_SUCCESS)
				continue;
			weft_qp_close(qp[i]);
			qp[i] = qp[--n];
		}
	}
	while (n)
		weft_qp_close(qp[--n]);
	weft_listener_close(l);
}

#endif
