// SPDX-License-Identifier: GPL-2.0
/* The middle of the failure drill: a switch in XDP. Host n has MAC addresses that end in n. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} drill_ports SEC(".maps");

SEC("xdp")
int drill_switch(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (eth->h_dest[0] & 1)
		return bpf_redirect_map(&drill_ports, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	return bpf_redirect_map(&drill_ports, eth->h_dest[5], XDP_DROP);
}

char LICENSE[] SEC("license")
= "GPL";
