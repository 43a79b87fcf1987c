/* SPDX-License-Identifier: GPL-2.0 */
/* What happens to frames in the middle of a laboratory: settings, counters, losses, damage. */
#ifndef WIREHARM_BPF_H
#define WIREHARM_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "wirelab.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_DIRS);
	__type(key, __u32);
	__type(value, struct wl_cfg);
} wl_cfg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WL_DIRS);
	__type(key, __u32);
	__type(value, struct wl_stats);
} wl_stats SEC(".maps");

/* Packets to the port by direction and UDP source port: key = direction * 65536 + port */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WL_DIRS *WL_SPORTS);
	__type(key, __u32);
	__type(value, __u64);
} wl_sports SEC(".maps");

enum { DRAW_LOSS = 1, DRAW_DUP, DRAW_CORRUPT, DRAW_REORDER, DRAW_CE, DRAW_LATE, DRAW_BITS };
enum { KIND_OTHER, KIND_IP, KIND_PORT };

struct pkt {
	struct iphdr *v4; /* one of v4 and v6 is set when kind is not KIND_OTHER */
	struct ipv6hdr *v6;
	struct udphdr *udp; /* set when kind is KIND_PORT */
	int kind;
};

/* splitmix64 by Sebastiano Vigna (public domain), of the draw's number instead of a state */
static __always_inline __u64 draw(const struct wl_cfg *cfg, __u32 dir, __u64 seq, __u64 what)
{
	__u64 cpu = bpf_get_smp_processor_id();
	__u64 z = cfg->seed + (seq * 16 + what) * 0x9e3779b97f4a7c15ULL +
		  (cpu * WL_DIRS + dir + 1) * 0xd1342543de82ef95ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static __always_inline int chance(const struct wl_cfg *cfg, __u32 dir, __u64 seq, __u64 what,
				  __u32 ppm)
{
	if (!ppm)
		return 0;
	return ((draw(cfg, dir, seq, what) >> 32) * WL_PPM) >> 32 < ppm;
}

static __always_inline void parse_udp(struct pkt *p, void *l4, void *end, __u16 port)
{
	struct udphdr *udp = l4;

	if ((void *)(udp + 1) > end)
		return;
	if (udp->dest != bpf_htons(port) && udp->source != bpf_htons(port))
		return;
	p->udp = udp;
	p->kind = KIND_PORT;
}

static __always_inline void parse(struct pkt *p, void *data, void *end, __u16 port)
{
	struct ethhdr *eth = data;

	p->v4 = NULL;
	p->v6 = NULL;
	p->udp = NULL;
	p->kind = KIND_OTHER;
	if ((void *)(eth + 1) > end)
		return;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->ihl != 5)
			return;
		p->v4 = ip;
		p->kind = KIND_IP;
		if (ip->protocol == IPPROTO_UDP && !(ip->frag_off & bpf_htons(0x3fff)))
			parse_udp(p, ip + 1, end, port);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);
		__u8 *type = (void *)(ip + 1);

		if ((void *)(type + 1) > end)
			return;
		/* neighbour discovery and MLD stay intact: only echo is fair game */
		if (ip->nexthdr == IPPROTO_ICMPV6 && *type != 128 && *type != 129)
			return;
		p->v6 = ip;
		p->kind = KIND_IP;
		if (ip->nexthdr == IPPROTO_UDP)
			parse_udp(p, ip + 1, end, port);
	}
}

/* RFC 1624, equation 3 */
static __always_inline void csum_fix(struct iphdr *ip, __u16 was, __u16 is)
{
	__u32 sum = (__u16)~ip->check + (__u16)~was + is;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
}

/* Returns -1 when the packet's time is over. */
static __always_inline int age(struct pkt *p)
{
	if (p->v4) {
		__u16 *word = (__u16 *)&p->v4->ttl, was = *word;

		if (p->v4->ttl <= 1)
			return -1;
		p->v4->ttl--;
		csum_fix(p->v4, was, *word);
	} else if (p->v6) {
		if (p->v6->hop_limit <= 1)
			return -1;
		p->v6->hop_limit--;
	}
	return 0;
}

/* Returns 1 when an ECN-capable packet was marked. */
static __always_inline int mark_ce(struct pkt *p)
{
	if (p->v4) {
		__u16 *word = (__u16 *)p->v4, was = *word;
		__u8 ecn = p->v4->tos & 3;

		if (ecn != 1 && ecn != 2)
			return 0;
		p->v4->tos |= 3;
		csum_fix(p->v4, was, *word);
		return 1;
	}
	if (p->v6) {
		__u8 *byte = (__u8 *)p->v6 + 1;
		__u8 ecn = (*byte >> 4) & 3;

		if (ecn != 1 && ecn != 2)
			return 0;
		*byte |= 0x30;
		return 1;
	}
	return 0;
}

static __always_inline int flip(void *udp, void *end, __u64 from, __u64 range, __u32 rnd, __u8 mask)
{
	__u64 pos = from + (((__u64)rnd * range) >> 32);
	__u8 *byte;

	asm volatile("" : "+r"(pos));
	pos &= 4095;
	byte = (__u8 *)udp + pos;
	if ((void *)(byte + 1) > end)
		return 0;
	*byte ^= mask;
	return 1;
}

/* Returns 1 when at least one bit is different now. */
static __always_inline int corrupt(struct pkt *p, void *end, const struct wl_cfg *cfg, __u32 dir,
				   __u64 seq)
{
	__u64 rnd = draw(cfg, dir, seq, DRAW_BITS);
	__u64 from = cfg->cor_from, to = cfg->cor_to;
	__u64 len = end - (void *)p->udp;
	__u32 bits = 1 + (rnd & 7);
	int hit = 0;

	if (to > len)
		to = len;
	if (from >= to)
		return 0;
	if (!(cfg->flags & WL_F_SCATTER)) {
		/* 255 masks, none of them zero */
		__u8 mask = 1 + ((rnd & 0xffff) * 255 >> 16);

		return flip(p->udp, end, from, to - from, rnd >> 32, mask);
	}
	/* one chunk of the range for each bit, so that no two flips cancel */
#pragma unroll
	for (__u32 i = 0; i < 8; i++) {
		__u64 r = draw(cfg, dir, seq, DRAW_BITS + 1 + i);
		__u64 chunk = (to - from) >> 3;

		if (i >= bits)
			break;
		if (!chunk)
			return flip(p->udp, end, from, to - from, r >> 32, 1 << (r & 7));
		hit |= flip(p->udp, end, from + i * chunk, chunk, r >> 32, 1 << (r & 7));
	}
	return hit;
}

static __always_inline void count_sport(const struct pkt *p, __u32 dir, __u16 port)
{
	__u32 key;
	__u64 *n;

	if (p->udp->dest != bpf_htons(port))
		return;
	key = dir * WL_SPORTS + bpf_ntohs(p->udp->source);
	n = bpf_map_lookup_elem(&wl_sports, &key);
	if (n)
		(*n)++;
}

enum { FATE_OTHER, FATE_LOST, FATE_GOES };

/*
 * What becomes of a frame, whoever forwards it: not to be touched, lost, or it goes on, perhaps
 * altered. *seq: the number of the draw, for what else may happen to it.
 */
static __always_inline int harm(struct xdp_md *ctx, const struct wl_cfg *cfg, struct wl_stats *st,
				__u32 dir, __u64 *seq)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct pkt p;
	int is_data;

	parse(&p, data, end, cfg->port);
	if (p.kind == KIND_OTHER || (p.kind == KIND_IP && !(cfg->flags & WL_F_ALL))) {
		st->other++;
		return FATE_OTHER;
	}
	is_data = end - data >= cfg->data_min;
	*seq = st->seq++;
	st->packets++;
	st->bytes += end - data;
	st->data += is_data;
	if (p.kind == KIND_PORT)
		count_sport(&p, dir, cfg->port);

	if (chance(cfg, dir, *seq, DRAW_LOSS, cfg->loss)) {
		st->lost++;
		st->lost_data += is_data;
		return FATE_LOST;
	}
	if (cfg->flags & WL_F_TTL && age(&p)) {
		st->ttl_expired++;
		return FATE_LOST;
	}
	if (chance(cfg, dir, *seq, DRAW_CE, cfg->ce))
		st->ce += mark_ce(&p);
	if (p.kind == KIND_PORT && chance(cfg, dir, *seq, DRAW_CORRUPT, cfg->corrupt) &&
	    corrupt(&p, end, cfg, dir, *seq)) {
		st->corrupted++;
		st->corrupted_data += is_data;
	}
	return FATE_GOES;
}

#endif
