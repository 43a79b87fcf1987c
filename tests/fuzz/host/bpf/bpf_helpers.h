/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Stands in for libbpf's header of this name when bpf/ is built for the host: helpers are functions of ../../host.c. */
#ifndef WEFT_FUZZ_BPF_HELPERS_H
#define WEFT_FUZZ_BPF_HELPERS_H

#include <linux/bpf.h>

#define SEC(name)
#define __uint(name, val)  int(*name)[val]
#define __type(name, val)  __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

void *bpf_map_lookup_elem(void *map, const void *key);
void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);
long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 off, void *buf, __u32 len);
long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 off, void *buf, __u32 len);
long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta);
long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta);
long bpf_redirect_map(void *map, __u64 key, __u64 flags);
long bpf_ringbuf_output(void *ringbuf, void *data, __u64 size, __u64 flags);
__u64 bpf_ringbuf_query(void *ringbuf, __u64 flags);
__s64 bpf_csum_diff(__be32 *from, __u32 from_size, __be32 *to, __u32 to_size, __wsum seed);
long bpf_perf_event_output(void *ctx, void *map, __u64 flags, void *data, __u64 size);
long bpf_loop(__u32 n, void *fn, void *ctx, __u64 flags);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_smp_processor_id(void);

#endif
