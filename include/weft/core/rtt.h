/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Round-trip time, retransmission time-out and reorder window (RFC 6298, RFC 8985). */
#ifndef WEFT_CORE_RTT_H
#define WEFT_CORE_RTT_H

#include <weft/core/psn.h>
#include <weft/wire.h>

/* All times are wire ticks of 64 ns. */
#define WEFT_TICKS_US(us) ((__u32)(((__u64)(us)*1000) >> WEFT_TS_SHIFT))
#define WEFT_RTO_MIN      WEFT_TICKS_US(2000) /* below it a busy CPU looks like a loss */
#define WEFT_RTO_INIT     WEFT_TICKS_US(10000)
#define WEFT_RTO_MAX      WEFT_TICKS_US(200000)
#define WEFT_REO_MIN      WEFT_TICKS_US(20)
#define WEFT_REO_MULT_MAX 16

struct weft_rtt {
	__u32 srtt8;   /* smoothed RTT, times 8; 0: no sample yet */
	__u32 rttvar4; /* mean deviation, times 4 */
	__u32 min;     /* smallest sample; 0: none */
	__u8 backoff;  /* RTO doublings */
	__u8 reo_mult; /* reorder window in smoothed RTTs, minus one */
	__u16 calm;    /* ACKs since the reorder window last changed */
};

weft_inline void weft_rtt_sample(struct weft_rtt *r, __u32 rtt)
{
	__s32 err;

	if (!r->srtt8) {
		r->srtt8 = rtt << 3;
		r->rttvar4 = rtt << 1;
		r->min = rtt;
		return;
	}
	err = (__s32)rtt - (__s32)(r->srtt8 >> 3);
	r->srtt8 += err;
	if (err < 0)
		err = -err;
	r->rttvar4 += err - (__s32)(r->rttvar4 >> 2);
	if (rtt < r->min)
		r->min = rtt;
}

/* Current time-out, backed off. */
weft_inline __u32 weft_rto(const struct weft_rtt *r)
{
	__u32 rto = r->srtt8 ? (r->srtt8 >> 3) + r->rttvar4 : WEFT_RTO_INIT;

	if (rto < WEFT_RTO_MIN)
		rto = WEFT_RTO_MIN;
	if (rto > WEFT_RTO_MAX)
		rto = WEFT_RTO_MAX;
	rto <<= r->backoff & 7;
	return rto > WEFT_RTO_MAX ? WEFT_RTO_MAX : rto;
}

/*
 * How much later a packet of the same domain may be acknowledged before an
 * earlier one counts as lost: one smoothed RTT, one more after every conviction
 * that proved wrong (RFC 8985 section 6.2, which starts at a quarter; a whole
 * RTT costs nothing here since the PSN window is far larger than the cwnd).
 */
weft_inline __u32 weft_reo_wnd(const struct weft_rtt *r)
{
	__u32 w = (r->srtt8 >> 3) * (1 + r->reo_mult);

	if (w > WEFT_RTO_MAX)
		return WEFT_RTO_MAX;
	return w < WEFT_REO_MIN ? WEFT_REO_MIN : w;
}

weft_inline void weft_reo_spurious(struct weft_rtt *r)
{
	if (r->reo_mult < WEFT_REO_MULT_MAX && r->calm >= 64) {
		r->reo_mult++;
		r->calm = 0;
	}
}

weft_inline void weft_reo_calm(struct weft_rtt *r)
{
	if (++r->calm == 0 && r->reo_mult)
		r->reo_mult--;
}

#endif
