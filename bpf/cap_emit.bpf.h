/* SPDX-License-Identifier: GPL-2.0 */
/* Hand a copy of a frame to user space: a record and the frame's first bytes as a perf event. */
#ifndef WEFT_CAP_EMIT_BPF_H
#define WEFT_CAP_EMIT_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <weft/capture.h>

/*
 * A perf event array and not a ring buffer: the kernel empties the array when the
 * process that filled it is gone, however it went. 0, -ENOSPC: no room, -ENOENT: nobody
 * listens on this CPU.
 */
static __always_inline long cap_emit(struct xdp_md *ctx, void *events, __u32 len, __u32 snap,
				     __u32 verdict, __u8 iface, __u8 dir)
{
	struct weft_cap_rec r = {
		.ns = bpf_ktime_get_ns(),
		.len = len,
		.cap = snap < len ? snap : len,
		.verdict = verdict,
		.iface = iface,
		.dir = dir,
	};

	return bpf_perf_event_output(ctx, events, BPF_F_CURRENT_CPU | (__u64)r.cap << 32, &r,
				     sizeof(r));
}

#endif
