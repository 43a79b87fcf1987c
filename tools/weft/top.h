/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What weft top shows. */
#ifndef WEFT_TOOL_TOP_H
#define WEFT_TOOL_TOP_H

#include <time.h>

#include "qps.h"

enum order { BY_RATE, BY_MSGS, BY_RETX, BY_RTT, BY_QPN, ORDERS };

struct row {
	char dev[IF_NAMESIZE], peer[INET6_ADDRSTRLEN];
	const char *state;
	uint32_t ifindex, qpn, cwnd, inflight;
	uint64_t created;
	uint64_t tx_bytes, rx_bytes, msgs, packets, retx; /* counters */
	struct weft_hist rtt;
	/* of the interval */
	double tx_gbps, rx_gbps, msg_rate, retx_pct, p50_us, p99_us;
};

struct screen {
	const char *only; /* DEV of the command line, or NULL */
	struct timespec at;
	double seconds; /* since the one before; 0: there is none */
	struct row *row;
	unsigned n, room;
	struct dev {
		struct pinned p;
		struct weft_stats stats;
		double rate[WEFT_DROP_COUNT];
	} * dev;
	unsigned ndev;
	const struct pinned *reading;
	bool no_memory; /* for a row of those */
};

double seconds_between(const struct timespec *a, const struct timespec *b);
/* Look again after `s`, which is replaced; one of zeros at first. 0, or -1 after a message. */
int top_look(const char *dev, struct screen *s);
void top_sort(struct screen *s, enum order by);
void top_forget(struct screen *s);

#endif
