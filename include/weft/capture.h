/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies of frames on their way from XDP programs to user space: the record, and what to copy. */
#ifndef WEFT_CAPTURE_H
#define WEFT_CAPTURE_H

#include <linux/types.h>

enum weft_cap_dir { WEFT_CAP_IN = 1, WEFT_CAP_OUT = 2 }; /* as pcapng counts them */

#define WEFT_CAP_HEADERS 256   /* bytes: all headers, and descriptors of WRITES, over IPv6 too */
#define WEFT_CAP_NONE    (~0u) /* verdict: not known yet */

struct weft_cap_cfg { /* map capcfg[0], written by who captures */
	__u64 conn;   /* connection key to look for, as on the wire; 0: any */
	__u64 lost;   /* written by XDP: copies that there was no room for */
	__u32 snap;   /* bytes to keep of a frame */
	__u32 pad;
};

struct weft_cap_rec {  /* what a perf event carries */
	__u64 ns;      /* CLOCK_MONOTONIC */
	__u32 len;     /* of the frame */
	__u32 cap;     /* bytes in data */
	__u32 verdict; /* XDP action, WEFT_CAP_NONE */
	__u8 iface;    /* number of the interface in the capture */
	__u8 dir;      /* enum weft_cap_dir */
	__u8 pad[2];
	__u8 data[];
};

_Static_assert(sizeof(struct weft_cap_cfg) == 24 && sizeof(struct weft_cap_rec) == 24, "capture");

#endif
