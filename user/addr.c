// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* "HOST:PORT": parsing, and resolving inside the device's namespace. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int parse_port(const char *s, uint16_t *port)
{
	unsigned v = 0;

	if (!*s || strlen(s) > 5)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		v = v * 10 + (*s - '0');
	}
	if (v > 65535)
		return -EINVAL;
	*port = v;
	return 0;
}

/* "HOST:PORT", "[V6]:PORT", "[V6%SCOPE]:PORT" or ":PORT". */
int weft_addr_parse(const char *s, struct weft_hostport *hp)
{
	const char *host = s, *end, *colon;
	size_t len;

	if (!s)
		return -EINVAL;
	if (*s == '[') {
		host = s + 1;
		end = strchr(host, ']');
		if (!end || end == host || end[1] != ':' || !memchr(host, ':', end - host))
			return -EINVAL;
		colon = end + 1;
	} else {
		colon = end = strchr(s, ':');
		/* a second colon: an IPv6 address without its brackets */
		if (!colon || strchr(colon + 1, ':'))
			return -EINVAL;
	}
	len = end - host;
	if (len >= sizeof(hp->host) || memchr(host, ' ', len))
		return -EINVAL;
	memcpy(hp->host, host, len);
	hp->host[len] = 0;
	return parse_port(colon + 1, &hp->port);
}

/* Result: to be freed with freeaddrinfo(). Port 0 and an empty host need `passive`. */
int weft_addr_resolve(struct weft_dev *dev, const char *s, bool passive, struct addrinfo **res)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct weft_hostport hp;
	int saved, err, gai;
	char port[8];

	err = weft_addr_parse(s, &hp);
	if (err || (!passive && (!hp.host[0] || !hp.port)))
		return weft_err(
			EINVAL, s ? s : "address",
			"is not HOST:PORT; use a form such as 10.9.0.2:7470 or [fd09::2]:7470");
	snprintf(port, sizeof(port), "%u", hp.port);
	if (passive)
		hint.ai_flags |= AI_PASSIVE;

	err = weft_ns_enter(dev, &saved);
	if (err)
		return err;
	gai = getaddrinfo(hp.host[0] ? hp.host : NULL, port, &hint, res);
	if (gai == EAI_NONAME && hp.host[0]) {
		hint.ai_flags &= ~AI_NUMERICHOST;
		gai = getaddrinfo(hp.host, port, &hint, res);
	}
	weft_ns_leave(saved);
	if (gai == EAI_MEMORY)
		return weft_err(ENOMEM, s, "cannot be resolved: no memory");
	if (gai)
		return weft_err(EHOSTUNREACH, s, "cannot be resolved: %s; use an address",
				gai_strerror(gai));
	/* a link-local address means a neighbour on the device */
	for (struct addrinfo *a = *res; a; a = a->ai_next) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a->ai_addr;

		if (a->ai_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
		    !in6->sin6_scope_id)
			in6->sin6_scope_id = dev->ifindex;
	}
	return 0;
}

void weft_addr_unmap(struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (ss->ss_family != AF_INET6)
		return;
	memcpy(&in6, ss, sizeof(in6));
	if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return;
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &in, sizeof(in));
}

/* Address without its port, for messages. */
void weft_addr_str(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	const void *a = ss->ss_family == AF_INET6
				? (const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr
				: (const void *)&((const struct sockaddr_in *)ss)->sin_addr;

	if (!inet_ntop(ss->ss_family, a, buf, len))
		snprintf(buf, len, "?");
}
