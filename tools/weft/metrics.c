// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft metrics: what metrics_text.c gathers, printed or served over HTTP. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <microhttpd.h>

#include "internal.h"
#include "metrics.h"

static const char help[] =
	"usage: weft metrics [ DEV ]\n"
	"       weft metrics [ DEV ] --listen [ADDR:]PORT\n"
	"\n"
	"Counters, windows and times of DEV or of every interface, in the text format of Prometheus.\n"
	"  -l, --listen [ADDR:]PORT  serve them at http://ADDR:PORT/metrics until SIGINT or SIGTERM;\n"
	"                            ADDR is 127.0.0.1 unless given, [::] and 0.0.0.0 mean all; port\n"
	"                            0: any that is free\n";

/* ---- HTTP ---- */

#define CLIENTS  64
#define PATIENCE 10u /* s: a client that says nothing for so long is let go */

static const char *served_dev;

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type, void *text,
			      size_t len, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, text, mode);
	enum MHD_Result rc;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	rc = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return rc;
}

static enum MHD_Result plain(struct MHD_Connection *c, unsigned code, const char *text)
{
	return answer(c, code, "text/plain; charset=utf-8", (void *)text, strlen(text),
		      MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *body,
				  size_t *body_len, void **state)
{
	static int seen;
	size_t len = 0;
	char *text;

	(void)cls, (void)version, (void)body;
	/* the first call is for the headers alone; a body is read and thrown away */
	if (!*state) {
		*state = &seen;
		return MHD_YES;
	}
	if (*body_len) {
		*body_len = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return plain(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (!strcmp(url, "/"))
		return plain(c, MHD_HTTP_OK, "weft: see /metrics\n");
	if (strcmp(url, "/metrics"))
		return plain(c, MHD_HTTP_NOT_FOUND, "not found; see /metrics\n");
	text = metrics_text(served_dev, &len);
	if (!text)
		return plain(c, MHD_HTTP_SERVICE_UNAVAILABLE,
			     "weft is not on the interface, or its pins cannot be read\n");
	return answer(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, len,
		      MHD_RESPMEM_MUST_FREE);
}

/* "ADDR:PORT", ":PORT" or "PORT"; numbers only. 0, or an exit status after a message. */
static int resolve(const char *where, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	struct weft_hostport hp = { .host = "" };
	char port[8];
	uint64_t n;

	if (cli_u64(where, 0, 65535, &n))
		hp.port = n;
	else if (weft_addr_parse(where, &hp))
		return cli_usage("metrics", "\"%s\" is not [ADDR:]PORT; a port is 0 to 65535",
				 where);
	snprintf(port, sizeof(port), "%u", hp.port);
	if (getaddrinfo(*hp.host ? hp.host : "127.0.0.1", port, &hints, out))
		return cli_usage("metrics", "\"%s\" is not an address", hp.host);
	return CLI_OK;
}

#define ADDRESS_LEN (INET6_ADDRSTRLEN + 8)
/* ADDR:PORT or [ADDR]:PORT */
static void address(const struct sockaddr *sa, socklen_t len, char out[ADDRESS_LEN])
{
	char host[INET6_ADDRSTRLEN], port[8];

	getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(out, ADDRESS_LEN, sa->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static bool loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)sa)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A socket of our own, so that a port in use gets its own words. */
static int listen_at(struct addrinfo *ai)
{
	int one = 1, err = 0, fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char name[ADDRESS_LEN];
	struct weft_link lo;

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 128))
		err = errno;
	/* the kernel may take it all the same, but nobody would get through */
	else if (loopback(ai->ai_addr) && !weft_link_get("lo", 0, &lo) && !lo.up)
		err = EADDRNOTAVAIL;
	if (!err)
		return fd;
	address(ai->ai_addr, ai->ai_addrlen, name);
	cli_fail(name, "cannot listen: %s; %s", strerror(err),
		 err == EADDRNOTAVAIL && loopback(ai->ai_addr)
			 ? "run 'ip link set lo up' in this network namespace"
			 : "choose another address or port");
	if (fd >= 0)
		close(fd);
	return -1;
}

static int serve(const char *where)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct MHD_Daemon *d;
	struct addrinfo *ai;
	char name[ADDRESS_LEN];
	sigset_t set;
	int rc = resolve(where, &ai), fd, sig;

	if (rc)
		return rc;
	fd = listen_at(ai);
	freeaddrinfo(ai);
	if (fd < 0)
		return CLI_FAIL;
	/* before the daemon's thread is made, which inherits this */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	d = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, NULL,
			     MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
			     (unsigned)CLIENTS, MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE,
			     MHD_OPTION_END);
	if (!d) {
		close(fd);
		return cli_fail(where, "cannot start the HTTP server: %s; see 'ulimit -a'",
				strerror(errno));
	}
	getsockname(fd, (struct sockaddr *)&ss, &len);
	address((struct sockaddr *)&ss, len, name);
	printf("ready: http://%s/metrics\n", name);
	fflush(stdout);
	sigwait(&set, &sig);
	MHD_stop_daemon(d);
	return CLI_OK;
}

int cmd_metrics(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *where = NULL;
	size_t len;
	char *text;
	int c, rc;

	optind = 0;
	while ((c = getopt_long(argc + 1, argv - 1, ":l:vh", longs, NULL)) != -1) {
		switch (c) {
		case 'l': where = optarg; break;
		default:
			rc = cli_option("metrics", c, argv - 1, help);
			if (rc >= 0)
				return rc;
		}
	}
	argc -= optind - 1;
	argv += optind - 1;
	if (argc && !strcmp(argv[0], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	rc = cli_dev_arg("metrics", argc, argv, false, &served_dev);
	if (rc >= 0)
		return rc;
	if (cli.json)
		return cli_usage("metrics", "there is no JSON of this; see 'weft -j stats'");
	if (where)
		return serve(where);
	text = metrics_text(served_dev, &len);
	if (!text)
		return CLI_FAIL;
	fwrite(text, 1, len, stdout);
	free(text);
	return CLI_OK;
}
