/* SPDX-License-Identifier: GPL-2.0 */
/* Headers: put together a word at a time, then all of them written anew, with their checks. */
#ifndef WEFT_HEADER_BPF_H
#define WEFT_HEADER_BPF_H

#include "frame.bpf.h"

/*
 * The first half of a header, into work.out, of which frame_finish() makes the rest. Here and where the second half
 * is made a word is put together in a register: one that is read as a whole behind stores to its parts waits
 * until they have left the store buffer, and before them all the payload that was copied.
 */
static __always_inline void head(struct work *wk, const struct weft_qpctl *ctl, __u8 op, __u8 flags,
				 __u8 ev, __be32 psn, __be32 ts, __u32 len)
{
	union weft_hdr_words u;

	u.h.ver = WEFT_WIRE_VER;
	u.h.op = op;
	u.h.flags = flags;
	u.h.ev = ev;
	u.h.dqpn = bpf_htonl(ctl->dqpn);
	u.h.psn = psn;
	u.h.ts = ts;
	u.h.check = 0;
	u.h.len = bpf_htons(len);
	u.h.rsvd0 = 0;
	wk->out.w[0] = u.w[0];
	wk->out.h.conn = bpf_cpu_to_be64(ctl->conn);
	wk->out.w[2] = u.w[2];
	wk->out.w[3] = u.w[3];
}

/* Its second half, from the fields of u. */
static __always_inline void body(struct work *wk, const union weft_hdr_words *u)
{
#pragma GCC unroll 4
	for (int i = 4; i < 8; i++)
		wk->out.w[i] = u->w[i];
}

/*
 * I13: write Ethernet to UDP anew from the QP's template, and the weft header in
 * work.out with its check behind it. The frame has exactly its final length. For DATA and
 * its ACK; all others call frame_finish().
 */
HOT_STEP int frame_headers(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk,
			   __u32 len)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	union weft_hdr_words *u;
	const __u64 *t;
	__u32 ulen = sizeof(struct udphdr) + WEFT_HDR_LEN + len;
	struct udphdr *udp;
	__be32 check;
	__u16 sport;
	bool v6;

	if (!wk || !ctl)
		return -1;
	u = &wk->out;
	t = (const __u64 *)ctl->tmpl;
	v6 = ctl->flags & WEFT_QPF_V6;
	sport = bpf_htons(WEFT_EV_PORT0 + (u->h.ev & (WEFT_EV_MAX - 1)));
	check = bpf_htonl(weft_check(u->w, ctl->hkey));
	/* they are read once more below: the stack has no room to keep them */
	asm volatile("" : : : "memory");
	if (!v6) {
		struct iphdr *ip = data + ETH_HLEN;
		__u64 *d = data;

		if (data + WEFT_V4_LEN + WEFT_HDR_LEN > end)
			return -1;
#pragma GCC unroll 5
		for (int i = 0; i < 5; i++)
			d[i] = t[i];
		*(__u16 *)(data + 40) = *(const __u16 *)&ctl->tmpl[40];
		ip->tot_len = bpf_htons(sizeof(*ip) + ulen);
		ip->check = ~fold((__u64)ctl->ipsum + ip->tot_len);
		udp = data + 34;
		HDR_COPY(data + WEFT_V4_LEN, u->w);
		((struct weft_hdr *)(data + WEFT_V4_LEN))->check = check;
	} else {
		struct ipv6hdr *ip6 = data + ETH_HLEN;
		__u64 *d = data;

		if (data + WEFT_V6_LEN + WEFT_HDR_LEN > end)
			return -1;
#pragma GCC unroll 7
		for (int i = 0; i < 7; i++)
			d[i] = t[i];
		*(__u32 *)(data + 56) = *(const __u32 *)&ctl->tmpl[56];
		*(__u16 *)(data + 60) = *(const __u16 *)&ctl->tmpl[60];
		ip6->payload_len = bpf_htons(ulen);
		udp = data + 54;
		HDR_COPY(data + WEFT_V6_LEN, u->w);
		((struct weft_hdr *)(data + WEFT_V6_LEN))->check = check;
	}
	udp->source = sport;
	udp->len = bpf_htons(ulen);
	udp->check = 0;
	if (ctl->flags & WEFT_QPF_CSUM) {
		__u16 c = ~udp_sum(ctx, ctl, ulen);

		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		udp = data + (v6 ? 54 : 34);
		if ((void *)(udp + 1) > end)
			return -1;
		udp->check = c ? c : 0xffff;
	}
	return 0;
}

STEP int frame_finish(struct xdp_md *ctx, const struct weft_qpctl *ctl, struct work *wk, __u32 len)
{
	return frame_headers(ctx, ctl, wk, len);
}

#endif
