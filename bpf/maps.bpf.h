/* SPDX-License-Identifier: GPL-2.0 */
/* Every map of the datapath. Layouts are in weft/abi.h; the control plane pins them by these names. */
#ifndef WEFT_MAPS_BPF_H
#define WEFT_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <weft/abi.h>

#define ARRAY(name, n, type_, flags_)             \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(max_entries, n);           \
		__uint(map_flags, flags_);        \
		__type(key, __u32);               \
		__type(value, type_);             \
	} name SEC(".maps")

ARRAY(devcfg, 1, struct weft_devcfg, BPF_F_MMAPABLE);
ARRAY(devrun, 1, struct weft_devrun, BPF_F_MMAPABLE);
ARRAY(owners, 1, struct weft_owners, BPF_F_MMAPABLE);
ARRAY(mrs, WEFT_MRS, struct weft_mr_ent, BPF_F_MMAPABLE);
ARRAY(qpctl, WEFT_QPS, struct weft_qpctl, BPF_F_MMAPABLE);
/* mmapable, since only then values begin at a cache line; nobody maps them, for they hold locks */
ARRAY(qptx, WEFT_QPS, struct weft_qptx, BPF_F_MMAPABLE);
ARRAY(qprx, WEFT_QPS, struct weft_qprx, BPF_F_MMAPABLE);
ARRAY(qptele, WEFT_QPS, struct weft_tele, BPF_F_MMAPABLE);
ARRAY(devtele, 1, struct weft_devtele, BPF_F_MMAPABLE);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weft_stats);
} stats SEC(".maps");

/* registered memory: pool id -> chunks; sizes alone, since a key's type without a value's is refused */
struct pool_chunks {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WEFT_CHUNK);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, WEFT_POOLS);
	__type(key, __u32);
	__array(values, struct pool_chunks);
} pools SEC(".maps");

/* rings shared with applications: process slot -> its rings */
/* without types: 6.1 takes a map made without BTF, as the library's are, for another kind */
struct proc_rings {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, WEFT_PROC_QPS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct weft_ring));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, WEFT_PROCS);
	__type(key, __u32);
	__array(values, struct proc_rings);
} rings SEC(".maps");

/* receive queues: index -> its elements, the first is the head */
struct rq_elems {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct weft_rqe));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, WEFT_RQS);
	__type(key, __u32);
	__array(values, struct rq_elems);
} rqs SEC(".maps");

/* liveness: an AF_XDP socket per process slot; the kernel empties it at death */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, WEFT_PROCS);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* wake-ups: CQ index -> ring buffer */
struct cq_events {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEFT_EVENTS_LEN);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, WEFT_CQS);
	__type(key, __u32);
	__array(values, struct cq_events);
} events SEC(".maps");

/* ways out */
#define DEVMAP(name, n)                               \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_DEVMAP);    \
		__uint(max_entries, n);               \
		__type(key, __u32);                   \
		__type(value, struct bpf_devmap_val); \
	} name SEC(".maps")

DEVMAP(nic, 1); /* the NIC, once */
/* N times the NIC, then the sink: the last entry gets the original, which cannot grow */
DEVMAP(spawn1, 2);
DEVMAP(spawn2, 3);
DEVMAP(spawn4, 5);
DEVMAP(spawn8, 9);
DEVMAP(spawn16, 17);
DEVMAP(spawn32, 33);
DEVMAP(spawn64, 65);

/* other CPUs, each with the program weft_cpu */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} cpus SEC(".maps");

#endif
