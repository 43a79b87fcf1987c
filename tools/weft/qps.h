/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Snapshots of QPs and of telemetry, for every command that shows some of it. */
#ifndef WEFT_TOOL_QPS_H
#define WEFT_TOOL_QPS_H

#include <arpa/inet.h>

#include "cli.h"

/* Telemetry of a device, mapped read-only. */
struct tele {
	unsigned n;
	const struct weft_tele *qp; /* [n] */
	const struct weft_devtele *dev;
};

int tele_open(const struct pinned *p, struct tele *t); /* 0, or -1 after a message */
void tele_close(struct tele *t);
/*
 * What a QP leaves moves to the device when its slot is taken again. So read both in the body of
 * for (struct tele_read r = { 0 }; tele_read(t, &r);), which runs until nothing has moved meanwhile.
 */
struct tele_read {
	uint32_t tries, seq;
};
bool tele_read(const struct tele *t, struct tele_read *r);
/* All times of the device since it was attached, those of QPs that are gone too. */
void tele_device(const struct tele *t, struct weft_hist *rtt, struct weft_hist *lat);
/* {"count","p50","p99","p999"}, us; null where nothing was counted. */
struct json_object *hist_json(const struct weft_hist *h);
/* "p50 1.2 us  p99 3.4 us  p99.9 5.6 us  (N)" */
const char *hist_text(const struct weft_hist *h, char buf[96]);

/* Everything known about one QP. */
struct qp_view {
	const struct pinned *p;
	struct weft_qpctl ctl;
	struct weft_qptx tx;
	struct weft_qprx rx;
	struct weft_hist rtt, lat;
	uint64_t tx_bytes, tx_msgs; /* delivered, as the sender knows; also of messages half sent */
	uint64_t rx_bytes;
	char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
	const char *state;
	int pid;
	double age, srtt_us, rto_us;
	unsigned cq_qps;
	/* its receive queue, own or shared: entries, 0: none; posted and not taken by a message */
	uint32_t rq_depth, rq_left;
	double rnr_s; /* how long it has waited for a receive of the peer's, at least; 0: it does not */
};

/* one() for every QP of the device. 0, or -1 after a message. */
int qps_each(const struct pinned *p, void (*one)(const struct qp_view *v, void *arg), void *arg);
const char *qp_error_text(const struct qp_view *v); /* why it is in error, "" when it is not */

#endif
