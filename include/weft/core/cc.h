/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Congestion control: the interface every algorithm implements, and the fixed window. */
#ifndef WEFT_CORE_CC_H
#define WEFT_CORE_CC_H

#include <weft/core/psn.h>

/*
 * An algorithm sees these events and answers with a window in packets. It runs
 * under the QP's transmit lock: no helper, no loop without a bound. What an ACK shows to be lost is
 * an event of its own behind it, which is no ACK and has no rtt; one with nothing in it is a mere look.
 */
struct weft_cc_event {
	__u32 now, rtt; /* ticks */
	__u32 lost;     /* packets convicted with this event; none with an ACK */
	__u32 inflight; /* before the event */
	__u8 acked;     /* a packet was acknowledged */
	__u8 ce;        /* with an ECN mark */
	__u8 timeout;   /* the retransmission timer fired */
	__u8 ev;        /* entropy value of the packet */
};

enum weft_cc_algo {
	WEFT_CC_FIXED = 0, /* the configured window */
};

struct weft_cc {
	__u32 cwnd;     /* packets, 1 to WEFT_CWND_MAX */
	__u32 algo;     /* enum weft_cc_algo */
	__u32 state[6]; /* the algorithm's own */
};

#define WEFT_CWND_MAX     512 /* half the PSN window: a loss can take an RTT to repair */
#define WEFT_CWND_DEFAULT 128

/* conf: the configured window (`weft qp set`), 0 for the default. */
weft_inline void weft_cc_update(struct weft_cc *cc, __u32 conf, const struct weft_cc_event *ev)
{
	switch (cc->algo) {
	case WEFT_CC_FIXED:
	default:
		(void)ev;
		if (!conf)
			conf = WEFT_CWND_DEFAULT;
		if (conf > WEFT_CWND_MAX)
			conf = WEFT_CWND_MAX;
		if (cc->cwnd != conf)
			cc->cwnd = conf;
	}
}

/*
 * The window a QP may use now: its cwnd, but no more than its share of what
 * the device can hold when `active` QPs are sending. budget: packets.
 */
weft_inline __u32 weft_cc_window(const struct weft_cc *cc, __u32 budget, __u32 active)
{
	__u32 share = active > 1 ? budget / active : budget;

	if (!share)
		share = 1;
	return cc->cwnd < share ? cc->cwnd : share;
}

#endif
