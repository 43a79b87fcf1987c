/* SPDX-License-Identifier: GPL-2.0 */
/* `weft capture`: copies of our packets as they come in and go out. A packet is never held up or lost for it. */
#ifndef WEFT_CAPTURE_BPF_H
#define WEFT_CAPTURE_BPF_H

#include <asm-generic/errno-base.h>
#include "frame.bpf.h"
#include "cap_emit.bpf.h"

/* Who captures, an event for each CPU. One entry a CPU is what libbpf makes of no number. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} capture SEC(".maps");

ARRAY(capcfg, 1, struct weft_cap_cfg, BPF_F_MMAPABLE);

/* Ours, and of the connection that is looked for? Also an empty clone, on its way to nowhere. */
static __always_inline bool cap_wanted(struct xdp_md *ctx, __u16 port, __u64 conn)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;
	struct weft_hdr *h;
	const __u32 *key;

	if ((void *)(eth + 1) > end)
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > end || *(__u8 *)ip != 0x45 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & bpf_htons(IP_OFFMASK_MF)))
			return false;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip6 = (void *)(eth + 1);

		udp = (void *)(ip6 + 1);
		if ((void *)(udp + 1) > end || ip6->nexthdr != IPPROTO_UDP)
			return false;
	} else {
		struct weft_db *db = (void *)(eth + 1);

		return !conn && eth->h_proto == bpf_htons(WEFT_DB_ETHERTYPE) &&
		       (void *)(db + 1) <= end && db->magic == WEFT_DB_MAGIC;
	}
	if (udp->dest != bpf_htons(port))
		return false;
	if (!conn)
		return true;
	h = (void *)(udp + 1);
	key = (void *)&h->conn;
	return (void *)(h + 1) <= end && key[0] == (__u32)conn && key[1] == (__u32)(conn >> 32);
}

STEP int capture_copy(struct xdp_md *ctx, __u32 dir)
{
	struct weft_devcfg *cfg = cfg_get();
	__u32 zero = 0;
	struct weft_cap_cfg *c = bpf_map_lookup_elem(&capcfg, &zero);
	long r;

	if (!cfg || !c || !cap_wanted(ctx, cfg->port, c->conn))
		return 0;
	r = cap_emit(ctx, &capture, frame_len(ctx), c->snap, WEFT_CAP_NONE, 0, dir);
	if (r == -ENOSPC)
		__sync_fetch_and_add(&c->lost, 1);
	else if (r == -ENOENT)
		/* whoever captured is gone; if it is only this CPU that is new, he says so again */
		__sync_fetch_and_and(&cfg->flags, ~WEFT_DEV_CAPTURE);
	return 0;
}

/* All that a packet costs while nobody captures. */
static __always_inline bool captured(void)
{
	const struct weft_devcfg *cfg = cfg_get();

	return cfg && unlikely(READ_ONCE(cfg->flags) & WEFT_DEV_CAPTURE);
}

static __always_inline void capture_in(struct xdp_md *ctx)
{
	capture_copy(ctx, WEFT_CAP_IN);
}

/* To be called behind every way out; what goes to other CPUs or to the doorbell's maps is not out yet. */
static __always_inline void capture_out(struct xdp_md *ctx)
{
	capture_copy(ctx, WEFT_CAP_OUT);
}

#endif
