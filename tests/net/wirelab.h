/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Settings and counters shared by the wire laboratory's BPF programs and its tool. */
#ifndef WIRELAB_H
#define WIRELAB_H

#include <linux/types.h>

#define WL_DIRS       2
#define WL_PPM        1000000
#define WL_HOPS_MAX   1000
#define WL_SPORTS     65536

/* Starts a frame on its detour: half of a multicast address that nobody sends to */
#define WL_MAGIC      0x0377656cU
#define WL_DETOUR_MTU 3506 /* the most that XDP on a veth allows, with 4 KiB pages */

enum wl_flags {
	WL_F_TTL = 1 << 0,     /* decrement TTL or hop limit, as a router does */
	WL_F_ALL = 1 << 1,     /* impair every IP packet, not only UDP of the port */
	WL_F_SCATTER = 1 << 2, /* corrupt bits anywhere, not within one byte */
	WL_F_TAP = 1 << 3,     /* copies of all frames go to wl_tap */
};

/* One direction: frames that arrive on one port and leave on the other. Rates are ppm. */
struct wl_cfg {
	__u64 seed;
	__u32 loss;
	__u32 dup;
	__u32 corrupt;
	__u32 reorder;
	__u32 ce;
	__u32 hops;        /* length of the detour of a reordered frame */
	__u32 flags;       /* enum wl_flags */
	__u32 out_ifindex; /* used by the tc programs only */
	__u16 port;        /* UDP port of the traffic to impair, host order */
	__u16 data_min;    /* frames of at least this many bytes count as data */
	__u16 cor_from;    /* corrupt bytes [from, to) counted from the UDP header */
	__u16 cor_to;
	char name[16]; /* the port where frames arrive */
};
_Static_assert(sizeof(struct wl_cfg) == 64, "wl_cfg");

/* Per CPU and direction. "packets" and what follows count impairable packets only. */
struct wl_stats {
	__u64 seq;   /* index of the next random draw */
	__u64 other; /* forwarded untouched */
	__u64 packets;
	__u64 bytes;
	__u64 data;
	__u64 lost;
	__u64 lost_data;
	__u64 dup;      /* includes dup_late */
	__u64 dup_late; /* the copy came through the detour */
	__u64 corrupted;
	__u64 corrupted_data;
	__u64 reordered;
	__u64 detour_out; /* reordered + dup_late that have left the detour */
	__u64 overtaken;  /* frames that came during detours, summed (of the same CPU) */
	__u64 ce;
	__u64 ttl_expired;
};

#endif
