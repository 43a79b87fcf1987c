// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* wirelab send and recv: numbered datagrams, to see what a path does to them. */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "wirelab_user.h"

#define SIZE_MIN  16
#define SIZE_MAX_ 9000
#define COUNT_MAX (1u << 24)

/* A datagram: this, then bytes that follow from the number. */
struct numbered {
	__u64 n;
	__u64 inverse;
};

static void fill_pattern(unsigned char *buf, size_t size, __u64 n)
{
	struct numbered h = { n, ~n };

	memcpy(buf, &h, sizeof(h));
	for (size_t i = sizeof(h); i < size; i++)
		buf[i] = n * 31 + i;
}

static int resolve(char *arg, struct sockaddr_storage *sa, socklen_t *len)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST }, *ai;
	char *colon = strrchr(arg, ':'), *host = arg;

	if (!colon)
		return fail(arg, 0, "give HOST:PORT");
	*colon = 0;
	if (*host == '[' && colon[-1] == ']') {
		host++;
		colon[-1] = 0;
	}
	if (getaddrinfo(host, colon + 1, &hints, &ai))
		return fail(host, 0, "not a numeric address");
	memcpy(sa, ai->ai_addr, ai->ai_addrlen);
	*len = ai->ai_addrlen;
	freeaddrinfo(ai);
	return 0;
}

static const struct option long_options[] = { { "ect", 0, 0, 'e' },
					      { "no-check", 0, 0, 'c' },
					      { "gap-us", 1, 0, 'g' },
					      { "burst", 1, 0, 'b' },
					      { "rcvbuf", 1, 0, 'r' },
					      { "until-term", 0, 0, 'u' },
					      { 0 } };

struct traffic {
	int ect, no_check, until_term;
	long gap_us, burst, rcvbuf;
	struct sockaddr_storage sa;
	socklen_t len;
	unsigned long arg[2];
};

static int parse(int argc, char **argv, int nargs, struct traffic *t)
{
	char *end;
	int c;

	*t = (struct traffic){ .gap_us = 50, .burst = 64, .rcvbuf = 512 << 20 };
	optind = 1;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'e': t->ect = 1; break;
		case 'c': t->no_check = 1; break;
		case 'g': t->gap_us = atol(optarg); break;
		case 'b': t->burst = atol(optarg); break;
		case 'r': t->rcvbuf = atol(optarg); break;
		case 'u': t->until_term = 1; break;
		default: return -EINVAL;
		}
	}
	if (argc - optind != nargs + 1 || t->burst < 1)
		return fail(argv[0], 0, "wrong number of arguments; see --help");
	for (int i = 0; i < nargs; i++) {
		t->arg[i] = strtoul(argv[optind + 1 + i], &end, 0);
		if (*end)
			return fail(argv[optind + 1 + i], 0, "not a number");
	}
	return resolve(argv[optind], &t->sa, &t->len);
}

int cmd_send(int argc, char **argv)
{
	static unsigned char buf[SIZE_MAX_];
	struct timespec gap = { 0 };
	unsigned long failed = 0;
	struct traffic t;
	int fd, one = 1, tos = 2;

	if (parse(argc, argv, 2, &t))
		return 2;
	if (t.arg[0] > COUNT_MAX || t.arg[1] < SIZE_MIN || t.arg[1] > SIZE_MAX_)
		return fail("send", 0, "COUNT is up to %u, SIZE %d to %d", COUNT_MAX, SIZE_MIN,
			    SIZE_MAX_),
		       2;
	fd = socket(t.sa.ss_family, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, (void *)&t.sa, t.len))
		return fail("socket", -errno, "cannot connect"), 1;
	if (t.ect) {
		setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	}
	if (t.no_check)
		setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one));
	gap.tv_nsec = t.gap_us * 1000;
	for (unsigned long n = 0; n < t.arg[0]; n++) {
		fill_pattern(buf, t.arg[1], n);
		/* an ICMP error of an earlier datagram is not a failure of this one */
		if (send(fd, buf, t.arg[1], 0) < 0 && send(fd, buf, t.arg[1], 0) < 0)
			failed++;
		if (t.gap_us && n % t.burst == (unsigned long)t.burst - 1)
			nanosleep(&gap, NULL);
	}
	close(fd);
	return failed ? fail("send", 0, "%lu datagrams refused", failed), 1 : 0;
}

struct seen {
	unsigned char *count; /* by number */
	__u64 received, distinct, duplicates, corrupted, late, late_sum, late_max, ce, ttl, next;
};

static void look(struct seen *s, const unsigned char *buf, size_t size)
{
	static unsigned char want[SIZE_MAX_];
	struct numbered h;

	s->received++;
	if (size < sizeof(h)) {
		s->corrupted++;
		return;
	}
	memcpy(&h, buf, sizeof(h));
	if (h.n >= COUNT_MAX || h.inverse != ~h.n) {
		s->corrupted++;
		return;
	}
	fill_pattern(want, size, h.n);
	if (memcmp(buf, want, size)) {
		s->corrupted++;
		return;
	}
	if (s->count[h.n]) {
		s->duplicates++;
	} else {
		s->count[h.n] = 1;
		s->distinct++;
	}
	/* late: by how many numbers the front of the stream is ahead */
	if (h.n >= s->next) {
		s->next = h.n + 1;
	} else if (s->next - 1 > h.n) {
		s->late++;
		s->late_sum += s->next - 1 - h.n;
		if (s->next - 1 - h.n > s->late_max)
			s->late_max = s->next - 1 - h.n;
	}
}

/* ECN and hop limit, which the kernel hands over beside the data */
static void look_aside(struct seen *s, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int v = 0;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			s->ce += (*(unsigned char *)CMSG_DATA(c) & 3) == 3;
		memcpy(&v, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < sizeof(v) ? 1 : sizeof(v));
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			s->ce += (v & 3) == 3;
		if ((c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) ||
		    (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL))
			s->ttl = v;
	}
}

static void print_seen(const struct seen *s)
{
	const struct {
		const char *name;
		__u64 v;
	} f[] = {
		{ "received", s->received },
		{ "distinct", s->distinct },
		{ "duplicates", s->duplicates },
		{ "corrupted", s->corrupted },
		{ "late", s->late },
		{ "late_max", s->late_max },
		{ "late_mean", s->late ? s->late_sum / s->late : 0 },
		{ "ce", s->ce },
		{ "ttl", s->ttl },
	};
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < sizeof(f) / sizeof(*f); i++)
		json_object_object_add(o, f[i].name, json_object_new_int64(f[i].v));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

static volatile sig_atomic_t no_more;

static void on_term(int sig)
{
	(void)sig;
	no_more = 1;
}

/*
 * Prints "ready", then waits for the first datagram and stops when IDLE_MS bring no more. Who sends
 * may be held up for longer than that, so with --until-term they count from SIGTERM on.
 */
int cmd_recv(int argc, char **argv)
{
	static unsigned char buf[65536];
	struct seen s = { 0 };
	struct traffic t;
	struct pollfd p;
	int one = 1, quiet = 0;

	if (parse(argc, argv, 1, &t))
		return 2;
	s.count = calloc(COUNT_MAX, 1);
	p = (struct pollfd){ .fd = socket(t.sa.ss_family, SOCK_DGRAM, 0), .events = POLLIN };
	if (!s.count || p.fd < 0 || bind(p.fd, (void *)&t.sa, t.len))
		return fail("socket", -errno, "cannot bind"), 1;
	setsockopt(p.fd, SOL_SOCKET, SO_RCVBUFFORCE, &(int){ t.rcvbuf }, sizeof(int));
	setsockopt(p.fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(p.fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof(one));
	setsockopt(p.fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
	setsockopt(p.fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof(one));
	signal(SIGTERM, on_term);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int ready = poll(&p, 1, t.arg[0]);

		/* an interrupted wait is one that was too short */
		if (ready > 0)
			quiet = 0;
		else if (!ready)
			quiet += t.arg[0];
		if (!ready && (no_more || quiet >= 10000 || (s.received && !t.until_term)))
			break;
		if (ready <= 0)
			continue;

		char aside[256];
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = aside,
				      .msg_controllen = sizeof(aside) };
		ssize_t n = recvmsg(p.fd, &msg, 0);

		if (n < 0)
			continue;
		look(&s, buf, n);
		look_aside(&s, &msg);
	}
	print_seen(&s);
	close(p.fd);
	free(s.count);
	return 0;
}
