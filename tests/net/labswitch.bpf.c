// SPDX-License-Identifier: GPL-2.0
/*
 * The middle of several hosts: a switch in XDP. Host n has MAC addresses that end in n. It loses
 * and damages as the wire laboratory does, with its settings (`wirelab set`); the directions are
 * from lower to higher hosts, and back. It makes no copies and no detours.
 */
#include "wireharm.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} switch_ports SEC(".maps");

SEC("xdp")
int lab_switch(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct wl_stats *st;
	struct wl_cfg *cfg;
	__u32 dir, to;
	__u64 seq;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (eth->h_dest[0] & 1)
		return bpf_redirect_map(&switch_ports, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	to = eth->h_dest[5];
	dir = to < eth->h_source[5];
	cfg = bpf_map_lookup_elem(&wl_cfg, &dir);
	st = bpf_map_lookup_elem(&wl_stats, &dir);
	if (!cfg || !st)
		return XDP_ABORTED;
	if (harm(ctx, cfg, st, dir, &seq) == FATE_LOST)
		return XDP_DROP;
	return bpf_redirect_map(&switch_ports, to, XDP_DROP);
}

char LICENSE[] SEC("license")
= "GPL";
