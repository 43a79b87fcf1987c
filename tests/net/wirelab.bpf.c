// SPDX-License-Identifier: GPL-2.0
/* Impairments of the wire laboratory: forward between two ports and harm what passes. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cap_emit.bpf.h"
#include "wireharm.bpf.h"

#define DEVMAP(name_, entries_)                    \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_DEVMAP); \
		__uint(max_entries, entries_);     \
		__type(key, __u32);                \
		__type(value, __u32);              \
	} name_ SEC(".maps")

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
	struct wl_cfg *cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	struct wl_stats *st = bpf_map_lookup_elem(&wl_stats, &dir);
	__u64 seq;

	if (!cfg || !st)
		return XDP_ABORTED;
	switch (harm(ctx, cfg, st, dir, &seq)) {
	case FATE_LOST: return XDP_DROP;
	case FATE_OTHER: return bpf_redirect_map(&wl_out, dir, 0);
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
