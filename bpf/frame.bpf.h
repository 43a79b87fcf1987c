/* SPDX-License-Identifier: GPL-2.0 */
/* Frames: recognise ours, copy payload between frame and memory, change their length. */
#ifndef WEFT_FRAME_BPF_H
#define WEFT_FRAME_BPF_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include "util.bpf.h"

#define IP_OFFMASK_MF 0x3fff /* fragment offset and "more fragments" */

union weft_hdr_words {
	struct weft_hdr h;
	__u64 w[8];
};

/* A packet of ours, as parsed. The header is a copy: the frame may change under it. */
struct weft_pkt {
	union weft_hdr_words u;
	__u32 hl;    /* bytes before the payload */
	__u32 len;   /* payload bytes */
	__u16 check; /* UDP checksum as received */
	__u8 v6, ce;
};

/*
 * What the steps of one program run hand to each other. Per CPU and not on the
 * stack, which is 512 bytes for a whole chain of calls. A run is never
 * interrupted by another on its CPU: all of them hold off softirqs.
 */
struct work {
	struct weft_pkt pkt; /* as received */
	struct weft_seg seg; /* claimed, to be sent */
	__s32 queued;        /* work requests then, with it; 0: none may join it */
	__u32 now;           /* when it was claimed, ticks */
	__s32 cpu;           /* with V_MOVE */
	__s32 hand;          /* with V_HAND */
	__s32 room;          /* with V_REPAIR: what its domain had left for others */
	__u32 acked;         /* when the ACK was scored, ticks; 0: it was not */
	__u32 wrote;         /* work requests that it completed */
	__u32 before;        /* that ACKs completed which tx_bulk() scored before it */
	__u32 answer;        /* 1: what it brought is in memory */
	__u32 again;         /* 1: a request in a clone, which is not cloned again */
	__u32 at;            /* a work request of the ring that next_ring() found */
	__u64 result;        /* of an atomic */
	struct weft_rq_sge sge[WEFT_RQ_SGES]; /* of a receive, read once */
	struct weft_score score;              /* of an ACK or a time-out */
	__u32 left;                           /* clones asked for that weft_fill has not seen yet */
	__u32 asked;                          /* when they were, ticks */
	__u32 held;               /* 1: frames went out that the driver may not have been told of */
	union weft_hdr_words out; /* header to be sent */
	union {                   /* of WRITES */
		struct weft_desc desc[WEFT_MANY];
		__u64 words[2 * WEFT_MANY];
	};
	struct { /* where each of them is here */
		__u64 loff;
		__u32 lkey, len;
	} part[WEFT_MANY];
	__u8 sum[512]; /* the last bytes of a packet, while they are summed */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} work SEC(".maps");

static __always_inline struct work *work_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&work, &zero);
}

/* Copy the 64 header bytes; the compiler must not take them one by one. */
#define HDR_COPY(dst, src)                                                              \
	do {                                                                            \
		__u64 *d_ = (__u64 *)(dst);                                             \
		const __u64 *s_ = (const __u64 *)(src);                                 \
		_Pragma("GCC unroll 8") for (int i_ = 0; i_ < 8; i_++) d_[i_] = s_[i_]; \
	} while (0)

/*
 * Is it ours? V_TX: yes, and p is filled in. Anything that is not plain UDP to
 * our port over IPv4 or IPv6 (VLAN tags, options, extension headers, fragments)
 * is V_PASS; ours, but shorter than it says, is dropped.
 */
static __always_inline enum weft_verdict parse(struct xdp_md *ctx, const struct weft_devcfg *cfg,
					       struct weft_stats *st, struct weft_pkt *p)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;
	__u32 flen = end - data, ulen, iplen;

	if (data + WEFT_V4_LEN > end)
		return V_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + ETH_HLEN;

		if (*(__u8 *)ip != 0x45 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & bpf_htons(IP_OFFMASK_MF)))
			return V_PASS;
		udp = data + ETH_HLEN + sizeof(*ip);
		if (udp->dest != bpf_htons(cfg->port))
			return V_PASS;
		if (data + WEFT_V4_LEN + WEFT_HDR_LEN > end)
			return drop(st, truncated);
		p->hl = WEFT_V4_LEN + WEFT_HDR_LEN;
		p->v6 = 0;
		p->ce = (ip->tos & 3) == 3;
		iplen = bpf_ntohs(ip->tot_len) - sizeof(*ip);
		HDR_COPY(p->u.w, data + WEFT_V4_LEN);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip6 = data + ETH_HLEN;

		if (data + WEFT_V6_LEN > end || ip6->version != 6 || ip6->nexthdr != IPPROTO_UDP)
			return V_PASS;
		udp = data + ETH_HLEN + sizeof(*ip6);
		if (udp->dest != bpf_htons(cfg->port))
			return V_PASS;
		if (data + WEFT_V6_LEN + WEFT_HDR_LEN > end)
			return drop(st, truncated);
		p->hl = WEFT_V6_LEN + WEFT_HDR_LEN;
		p->v6 = 1;
		p->ce = ((ip6->flow_lbl[0] >> 4) & 3) == 3;
		iplen = bpf_ntohs(ip6->payload_len);
		HDR_COPY(p->u.w, data + WEFT_V6_LEN);
	} else {
		return V_PASS;
	}
	ulen = bpf_ntohs(udp->len);
	p->check = udp->check;
	/* short frames are padded by Ethernet, never cut */
	if (ulen != iplen || ulen < sizeof(*udp) + WEFT_HDR_LEN ||
	    p->hl - WEFT_HDR_LEN - sizeof(*udp) + ulen > flen)
		return drop(st, truncated);
	p->len = ulen - sizeof(*udp) - WEFT_HDR_LEN;
	return V_TX;
}

/* Does it come from the peer's address and go to ours? */
static __always_inline bool source_ok(struct xdp_md *ctx, const struct weft_pkt *p,
				      const struct weft_qpctl *ctl)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (p->v6 != (ctl->flags & WEFT_QPF_V6))
		return false;
	if (!p->v6) {
		struct iphdr *ip = data + ETH_HLEN;

		return (void *)(ip + 1) <= end && ip->saddr == ctl->daddr[0] &&
		       ip->daddr == ctl->saddr[0];
	} else {
		struct ipv6hdr *ip6 = data + ETH_HLEN;
		__u32 diff = 0;

		if ((void *)(ip6 + 1) > end)
			return false;
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			diff |= ip6->saddr.in6_u.u6_addr32[i] ^ ctl->daddr[i];
			diff |= ip6->daddr.in6_u.u6_addr32[i] ^ ctl->saddr[i];
		}
		return !diff;
	}
}

/* ---- payload ---- */

static __always_inline void *chunk_get(__u32 pool, __u32 chunk)
{
	void *inner = bpf_map_lookup_elem(&pools, &pool);

	return inner ? bpf_map_lookup_elem(inner, &chunk) : NULL;
}

/*
 * Copy up to 4095 bytes that lie at the end of a chunk, or straddle two, in
 * pieces of constant size: the verifier cannot relate an offset to a length.
 * off: offset in the pool; at: offset in the frame | 1 << 31 to store.
 */
STEP int copy_edge(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 at, __u32 len)
{
	bool store = at >> 31;

	at &= 0xfff;
	for (int part = 0; part < 2; part++) {
		__u32 o = off & (WEFT_CHUNK - 1), n = WEFT_CHUNK - o;
		__u8 *p;

		if (!len)
			return 0;
		p = chunk_get(pool, off >> WEFT_CHUNK_SHIFT);
		if (!p)
			return -1;
		if (n > len)
			n = len;
		off += n;
		len -= n;
#define PIECE(s)                                                              \
	if (n & (s)) {                                                        \
		__u64 o_ = o;                                                 \
		opaque(o_);                                                   \
		if (o_ > WEFT_CHUNK - (s))                                    \
			return -1;                                            \
		if (store ? bpf_xdp_store_bytes(ctx, at, p + o_, s)           \
			  : bpf_xdp_load_bytes(ctx, at, p + o_, s))           \
			return -1;                                            \
		o += s;                                                       \
		at += s;                                                      \
	}                                                                     \
	/* the same bounds on both ways, or the verifier goes 2^12 of them */ \
	o &= 2 * WEFT_CHUNK - 1;                                              \
	opaque(o);                                                            \
	at &= 0xfff;                                                          \
	opaque(at);
		/* clang-format off */
		PIECE(2048) PIECE(1024) PIECE(512) PIECE(256) PIECE(128) PIECE(64)
		PIECE(32) PIECE(16) PIECE(8) PIECE(4) PIECE(2) PIECE(1)
		/* clang-format on */
#undef PIECE
	}
	return len ? -1 : 0;
}

#define EDGE 4096 /* room that a variable-length copy must have behind it */

/* Frame to memory, or with `store` memory to frame: len is 0 to WEFT_PAYLOAD_MAX. */
static __always_inline int copy(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 hl, __u32 len,
				bool store)
{
	__u32 o = off & (WEFT_CHUNK - 1);
	__u64 n = len;
	__u8 *p;

	if (!len)
		return 0;
	if (unlikely(o > WEFT_CHUNK - EDGE))
		return copy_edge(ctx, pool, off, hl | (__u32)store << 31, len);
	p = chunk_get(pool, off >> WEFT_CHUNK_SHIFT);
	if (!p)
		return -1;
	/* again: it may have been put away before it was looked at, which 6.1's verifier does not see through */
	opaque(o);
	if (o > WEFT_CHUNK - EDGE)
		return -1;
	n = ((n - 1) & (EDGE - 1)) + 1;
	opaque(n);
	return (store ? bpf_xdp_store_bytes(ctx, hl, p + o, n)
		      : bpf_xdp_load_bytes(ctx, hl, p + o, n))
		       ? -1
		       : 0;
}

static __always_inline int place(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 hl, __u32 len)
{
	return copy(ctx, pool, off, hl, len, false);
}

static __always_inline int fetch(struct xdp_md *ctx, __u32 pool, __u64 off, __u32 hl, __u32 len)
{
	return copy(ctx, pool, off, hl, len, true);
}

/* ---- UDP checksum ---- */

static __always_inline __u16 fold(__u64 s)
{
	s = (s & 0xffffffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	return s;
}

/*
 * One's complement sum of n bytes of the frame from `at`. 512 bytes a call in
 * multiples of 4 is what bpf_csum_diff() takes on 6.1; it returns an error as
 * if it were a sum.
 */
STEP __u32 frame_sum(struct xdp_md *ctx, __u32 at, __u32 n)
{
	__u32 sum = 0, end = at + n;
	struct work *wk = work_get();
	__u64 rest;

	if (!wk)
		return 0;
	at &= 63;
	for (int i = 0; i < 7 && n >= 512; i++) {
		__u8 *p = (__u8 *)(long)ctx->data + at + i * 512;

		if (p + 512 > (__u8 *)(long)ctx->data_end)
			return 0;
		sum = bpf_csum_diff(NULL, 0, (__be32 *)p, 512, sum);
		n -= 512;
	}
	rest = n & 511;
	if (rest) {
		__u64 up = (rest + 3) & 508;

		if (rest > 508)
			up = 512;
		*(__u32 *)&wk->sum[(up - 4) & 508] = 0;
		rest = ((rest - 1) & 511) + 1;
		opaque(rest);
		if (bpf_xdp_load_bytes(ctx, end - (__u32)rest, wk->sum, rest))
			return 0;
		opaque(up);
		if (up > 512)
			return 0;
		sum = bpf_csum_diff(NULL, 0, (__be32 *)wk->sum, up, sum);
	}
	return fold(sum);
}

/* Sum of the pseudo header, the UDP header as it stands and all behind it. */
static __always_inline __u16 udp_sum(struct xdp_md *ctx, const struct weft_qpctl *ctl, __u32 ulen)
{
	bool v6 = ctl->flags & WEFT_QPF_V6;
	__u64 s = frame_sum(ctx, v6 ? 54 : 34, ulen);

	/* the pseudo header is the same both ways; IPv4 leaves words 1 to 3 zero */
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		s += ctl->saddr[i];
		s += ctl->daddr[i];
	}
	s += bpf_htonl(ulen);
	s += bpf_htonl(IPPROTO_UDP);
	return fold(s);
}

/* ---- length ---- */

/* Bytes from which on a frame grows at the head. */
#define HEAD_STEP  256
/*
 * Left there: virtio_net drops what has no place for its header of 12 or 20 bytes.
 * Not more, or a full payload over IPv6 would not find room in a veth's page.
 */
#define HEAD_SPARE 24

/*
 * Change the frame's length; whoever asks writes all headers anew. Room at the
 * head is as good as room at the tail, and the kernel does not zero it: on a
 * veth, where DATA and its ACK are one buffer, the payload's room waits in front
 * of the ACK. A frame fresh from a NIC has its room behind; for few bytes that
 * is tried first, so that the headroom others count on stays.
 *
 * The room may be enough only with both ends together, and then a token would be
 * lost with the packet it carries. Such a frame moves to the end of its buffer,
 * and can grow at the head from then on: it only shrinks there.
 */
static __always_inline int frame_resize(struct xdp_md *ctx, __u32 from, __u32 to)
{
	int more = (int)to - (int)from, got = 0;

	if (!more)
		return 0;
	if (more > 0 && more < HEAD_STEP && !bpf_xdp_adjust_tail(ctx, more))
		return 0;
	if (!bpf_xdp_adjust_head(ctx, -more))
		return 0;
	if (more >= HEAD_STEP && !bpf_xdp_adjust_tail(ctx, more))
		return 0;
	for (int i = 0; i < 16 && !bpf_xdp_adjust_tail(ctx, HEAD_STEP); i++)
		got += HEAD_STEP;
	if (bpf_xdp_adjust_head(ctx, got - more - HEAD_SPARE))
		return -1;
	return bpf_xdp_adjust_head(ctx, HEAD_SPARE);
}

/*
 * A frame that has just been born gets the place of its payload at the beginning of a cache line: as it
 * grows at the head and shrinks there from then on, full payloads stay there, and both copies of each take
 * 15% less. Where its bytes are, a program sees only by their distance from something that lies at
 * the beginning of a page. Returns its length then.
 */
static __always_inline __u32 frame_align(struct xdp_md *ctx, __u32 flen, __u32 hl)
{
	const struct weft_devcfg *page = cfg_get();
	__u64 at;

	if (!page)
		return flen;
	at = (long)ctx->data - (long)page;
	opaque(at);
	at = (at + hl) & 63;
	return bpf_xdp_adjust_head(ctx, -(int)at) ? flen : flen + at;
}

#endif
