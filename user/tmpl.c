// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Header template of a QP: Ethernet to UDP as XDP puts them on the wire, lengths and checksums 0. */
#include <string.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "internal.h"

#define TTL   64
#define ECT0  2 /* RFC 3168 */
#define IP_DF 0x4000

static uint8_t *put_v4(struct weft_qpctl *ctl, uint8_t *p, const struct sockaddr_storage *local,
		       const struct sockaddr_storage *peer)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = ECT0,
		.frag_off = htons(IP_DF),
		.ttl = TTL,
		.protocol = IPPROTO_UDP,
		.saddr = ((const struct sockaddr_in *)local)->sin_addr.s_addr,
		.daddr = ((const struct sockaddr_in *)peer)->sin_addr.s_addr,
	};
	uint16_t w[sizeof(ip) / 2];

	ctl->saddr[0] = ip.saddr;
	ctl->daddr[0] = ip.daddr;
	memcpy(w, &ip, sizeof(ip));
	ctl->ipsum = 0;
	for (unsigned i = 0; i < sizeof(w) / 2; i++)
		ctl->ipsum += w[i];
	memcpy(p, &ip, sizeof(ip));
	return p + sizeof(ip);
}

static uint8_t *put_v6(struct weft_qpctl *ctl, uint8_t *p, const struct sockaddr_storage *local,
		       const struct sockaddr_storage *peer)
{
	struct ipv6hdr ip = { .nexthdr = IPPROTO_UDP, .hop_limit = TTL };
	uint32_t first = htonl(6u << 28 | ECT0 << 20);

	memcpy(&ip, &first, 4);
	memcpy(&ip.saddr, &((const struct sockaddr_in6 *)local)->sin6_addr, 16);
	memcpy(&ip.daddr, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
	memcpy(ctl->saddr, &ip.saddr, 16);
	memcpy(ctl->daddr, &ip.daddr, 16);
	memcpy(p, &ip, sizeof(ip));
	return p + sizeof(ip);
}

/* Sets tmpl, ipsum, saddr, daddr and the address family in flags. */
void weft_tmpl_build(struct weft_qpctl *ctl, const uint8_t smac[6], const uint8_t dmac[6],
		     const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
		     uint16_t port)
{
	bool v6 = peer->ss_family == AF_INET6;
	struct ethhdr eth = { .h_proto = htons(v6 ? ETH_P_IPV6 : ETH_P_IP) };
	struct udphdr udp = { .dest = htons(port) };
	uint8_t *p = ctl->tmpl;

	memset(ctl->tmpl, 0, sizeof(ctl->tmpl));
	memset(ctl->saddr, 0, sizeof(ctl->saddr));
	memset(ctl->daddr, 0, sizeof(ctl->daddr));
	ctl->ipsum = 0;
	ctl->flags = (ctl->flags & ~WEFT_QPF_V6) | (v6 ? WEFT_QPF_V6 : 0);
	memcpy(eth.h_dest, dmac, 6);
	memcpy(eth.h_source, smac, 6);
	memcpy(p, &eth, sizeof(eth));
	p += sizeof(eth);
	p = v6 ? put_v6(ctl, p, local, peer) : put_v4(ctl, p, local, peer);
	memcpy(p, &udp, sizeof(udp));
}

/* 0 when the MTU is too small to be useful. */
uint32_t weft_path_payload(uint32_t mtu, bool v6)
{
	uint32_t head = (v6 ? WEFT_V6_LEN : WEFT_V4_LEN) - WEFT_L2_LEN + WEFT_HDR_LEN;
	uint32_t n = mtu > head ? (mtu - head) / 64 * 64 : 0;

	if (n > WEFT_PAYLOAD_MAX)
		n = WEFT_PAYLOAD_MAX;
	return n < WEFT_PAYLOAD_MIN ? 0 : n;
}

_Static_assert(WEFT_L2_LEN + sizeof(struct iphdr) + sizeof(struct udphdr) == WEFT_V4_LEN, "v4");
_Static_assert(WEFT_L2_LEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr) == WEFT_V6_LEN, "v6");
