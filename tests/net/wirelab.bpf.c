// SPDX-License-Identifier: GPL-2.0
/* Impairments of the wire laboratory: forward between two ports and harm what passes. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cap_emit.bpf.h"
#include "wirelab.h"

#define DEVMAP(name_, entries_)                    \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_DEVMAP); \
		__uint(max_entries, entries_);     \
		__type(key, __u32);                \
		__type(value, __u32);              \
	} name_ SEC(".maps")

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

/* Copies of frames: who takes them, and how much of each */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} wl_tap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_cap_cfg);
} wl_tapcfg SEC(".maps");

DEVMAP(wl_out, WL_DIRS);    /* direction -> port where it leaves */
DEVMAP(wl_detour, WL_DIRS); /* direction -> entry of its detour */
DEVMAP(wl_twice0, 2);       /* the out port twice, for broadcast */
DEVMAP(wl_twice1, 2);
DEVMAP(wl_late0, 2); /* the out port and the detour */
DEVMAP(wl_late1, 2);

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

static __always_inline int redirect_twice(__u32 dir, int late)
{
	if (late)
		return dir ? bpf_redirect_map(&wl_late1, 0, BPF_F_BROADCAST)
			   : bpf_redirect_map(&wl_late0, 0, BPF_F_BROADCAST);
	return dir ? bpf_redirect_map(&wl_twice1, 0, BPF_F_BROADCAST)
		   : bpf_redirect_map(&wl_twice0, 0, BPF_F_BROADCAST);
}

static __always_inline int impair(struct xdp_md *ctx, __u32 dir)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct wl_cfg *cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	struct wl_stats *st = bpf_map_lookup_elem(&wl_stats, &dir);
	struct pkt p;
	__u64 seq;
	int is_data;

	if (!cfg || !st)
		return XDP_ABORTED;
	parse(&p, data, end, cfg->port);
	if (p.kind == KIND_OTHER || (p.kind == KIND_IP && !(cfg->flags & WL_F_ALL))) {
		st->other++;
		return bpf_redirect_map(&wl_out, dir, 0);
	}
	is_data = end - data >= cfg->data_min;
	seq = st->seq++;
	st->packets++;
	st->bytes += end - data;
	st->data += is_data;
	if (p.kind == KIND_PORT)
		count_sport(&p, dir, cfg->port);

	if (chance(cfg, dir, seq, DRAW_LOSS, cfg->loss)) {
		st->lost++;
		st->lost_data += is_data;
		return XDP_DROP;
	}
	if (cfg->flags & WL_F_TTL && age(&p)) {
		st->ttl_expired++;
		return XDP_DROP;
	}
	if (chance(cfg, dir, seq, DRAW_CE, cfg->ce))
		st->ce += mark_ce(&p);
	if (p.kind == KIND_PORT && chance(cfg, dir, seq, DRAW_CORRUPT, cfg->corrupt) &&
	    corrupt(&p, end, cfg, dir, seq)) {
		st->corrupted++;
		st->corrupted_data += is_data;
	}
	if (chance(cfg, dir, seq, DRAW_DUP, cfg->dup)) {
		int late = cfg->hops && draw(cfg, dir, seq, DRAW_LATE) & 1;

		st->dup++;
		st->dup_late += late;
		return redirect_twice(dir, late);
	}
	if (cfg->hops && chance(cfg, dir, seq, DRAW_REORDER, cfg->reorder)) {
		st->reordered++;
		return bpf_redirect_map(&wl_detour, dir, 0);
	}
	return bpf_redirect_map(&wl_out, dir, 0);
}

/* The frame as it goes on from here, also when it is lost: the verdict tells. */
static __always_inline int tapped(struct xdp_md *ctx, __u32 dir, int act)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct wl_cfg *cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	struct weft_cap_cfg *tap;
	__u64 len = end - data;
	__u32 zero = 0;

	asm volatile("" : "+r"(len)); /* taken at once, and not by halves */
	if (!cfg || !(cfg->flags & WL_F_TAP))
		return act;
	tap = bpf_map_lookup_elem(&wl_tapcfg, &zero);
	if (tap && cap_emit(ctx, &wl_tap, len, tap->snap, act, dir, WEFT_CAP_IN))
		__sync_fetch_and_add(&tap->lost, 1);
	return act;
}

/*
 * The detour of a direction is a veth pair of its own with this program on both ends. XDP cannot
 * hold a frame, so the frame is thrown to and fro: each throw costs a turn of the peer's NAPI,
 * during which frames that came later overtake it. The header goes before the frame, where a
 * destination address would be. It is short because a veth with XDP carries 3524 bytes at most.
 */
struct detour_hdr {
	__be32 magic;
	__u16 left; /* throws still to come */
	__u16 seq;  /* of the direction when the detour began */
};

static __always_inline int detour_leave(struct xdp_md *ctx, __u32 dir, const __u16 *seq)
{
	struct wl_stats *st = bpf_map_lookup_elem(&wl_stats, &dir);

	if (st) {
		st->detour_out++;
		if (seq)
			st->overtaken += (__u16)(st->seq - *seq);
	}
	return bpf_redirect_map(&wl_out, dir, 0);
}

static __always_inline int detour(struct xdp_md *ctx, __u32 dir)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct detour_hdr *h = data;
	struct wl_stats *st;
	struct wl_cfg *cfg;
	__u16 seq;

	if ((void *)(h + 1) > end)
		return XDP_DROP;
	if (h->magic == bpf_htonl(WL_MAGIC)) {
		if (h->left > 1) {
			h->left--;
			return XDP_TX;
		}
		seq = h->seq;
		if (bpf_xdp_adjust_head(ctx, sizeof(*h)))
			return XDP_ABORTED;
		return detour_leave(ctx, dir, &seq);
	}

	cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	st = bpf_map_lookup_elem(&wl_stats, &dir);
	if (!cfg || !st)
		return XDP_ABORTED;
	if (cfg->hops <= 1)
		return detour_leave(ctx, dir, NULL);
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*h)))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	h = data;
	if ((void *)(h + 1) > end)
		return XDP_ABORTED;
	h->magic = bpf_htonl(WL_MAGIC);
	h->left = cfg->hops - 1;
	h->seq = st->seq;
	return XDP_TX;
}

/*
 * Forwarding without XDP, for a peer that wants its offloads. What passes here may be a TSO
 * super-packet of up to 64 KiB, and it is lost or forwarded as a whole: the loss rate is per
 * super-packet. The share of bytes lost is then the same as with a loss per frame, in bursts, so
 * the sender sees about twenty times fewer loss events than one frame at a time would give it.
 * (A rate per frame, 1 - (1 - p)^n for n frames, would lose n times the bytes it should.) The
 * choice favours the peer.
 */
static __always_inline int forward_skb(struct __sk_buff *skb, __u32 dir)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct wl_cfg *cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	struct wl_stats *st = bpf_map_lookup_elem(&wl_stats, &dir);
	struct pkt p;
	int is_data;
	__u64 seq;

	if (!cfg || !st)
		return TC_ACT_SHOT;
	parse(&p, data, end, cfg->port);
	if (p.kind == KIND_OTHER || (p.kind == KIND_IP && !(cfg->flags & WL_F_ALL))) {
		st->other++;
		return bpf_redirect(cfg->out_ifindex, 0);
	}
	is_data = skb->len >= cfg->data_min;
	seq = st->seq++;
	st->packets++;
	st->bytes += skb->len;
	st->data += is_data;
	if (chance(cfg, dir, seq, DRAW_LOSS, cfg->loss)) {
		st->lost++;
		st->lost_data += is_data;
		return TC_ACT_SHOT;
	}
	return bpf_redirect(cfg->out_ifindex, 0);
}

SEC("xdp")
int wl_xdp0(struct xdp_md *ctx)
{
	return tapped(ctx, 0, impair(ctx, 0));
}

SEC("xdp")
int wl_xdp1(struct xdp_md *ctx)
{
	return tapped(ctx, 1, impair(ctx, 1));
}

SEC("xdp")
int wl_detour0(struct xdp_md *ctx)
{
	return detour(ctx, 0);
}

SEC("xdp")
int wl_detour1(struct xdp_md *ctx)
{
	return detour(ctx, 1);
}

SEC("tc")
int wl_tc0(struct __sk_buff *skb)
{
	return forward_skb(skb, 0);
}

SEC("tc")
int wl_tc1(struct __sk_buff *skb)
{
	return forward_skb(skb, 1);
}

char _license[] SEC("license")
= "GPL";
