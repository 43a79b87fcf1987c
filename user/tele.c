// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Telemetry from the control plane's side: whose it is, what the library notes, what stays of a QP. */
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "priv.h"

static void note(struct weft_tele *t, enum weft_trace_kind kind, unsigned x, uint32_t a, uint32_t b,
		 uint32_t c)
{
	struct weft_trace_event e = {
		.now = weft_now_ns(), .kind = kind, .x = x, .a = a, .b = b, .c = c
	};

	weft_trace_note(&t->trace, &e);
}

void weft_tele_note(const struct weft_qp *qp, enum weft_trace_kind kind, unsigned x, uint32_t a,
		    uint32_t b, uint32_t c)
{
	struct weft_trace_event e = {
		.now = weft_now_ns(), .kind = kind, .x = x, .a = a, .b = b, .c = c
	};

	qp->dev->priv->qp_note(qp->dev, qp->num, &e);
}

/* Of all lanes: tokens of one may have rested for long. */
uint32_t weft_tele_last_ack(const struct weft_tele *t)
{
	uint32_t newest = t->lane[0].last_ack;

	for (unsigned i = 1; i < WEFT_TELE_LANES; i++)
		if (t->lane[i].last_ack &&
		    (!newest || weft_psn_diff(t->lane[i].last_ack, newest) > 0))
			newest = t->lane[i].last_ack;
	return newest;
}

/*
 * What the slot's former QP leaves goes to the device: its times, so that the
 * device's totals never fall, and its trace if it failed.
 */
void weft_tele_take(struct weft_dev *dev, uint32_t slot)
{
	struct weft_devtele *d = dev->maps.dtele;
	struct weft_tele *t = &dev->maps.tele[slot];

	if (!t->id.qpn)
		return;
	/* may be odd: of somebody who died in here */
	__atomic_store_n(&d->seq, d->seq | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < WEFT_TELE_LANES; i++)
		weft_hist_add(&d->rtt, &t->rtt[i]);
	weft_hist_add(&d->lat, &t->lat);
	if (t->id.failed) {
		struct weft_tele_past *p = &d->past[d->npast % WEFT_TELE_PAST];

		p->id = t->id;
		p->last_ack = weft_tele_last_ack(t);
		p->trace = t->trace;
		d->npast++;
	}
	memset(t, 0, sizeof(*t));
	__atomic_store_n(&d->seq, d->seq + 1, __ATOMIC_RELEASE);
}

void weft_tele_connected(struct weft_dev *dev, uint32_t slot)
{
	const struct weft_qpctl *ctl = &dev->maps.ctl[slot];
	struct weft_tele *t = &dev->maps.tele[slot];

	t->id = (struct weft_tele_id){
		.qpn = ctl->qpn,
		.dqpn = ctl->dqpn,
		.flags = ctl->flags,
		.pid = dev->pid,
		.connected = ctl->created,
		.cwnd = ctl->cwnd,
	};
	memcpy(t->id.saddr, ctl->saddr, sizeof(ctl->saddr));
	memcpy(t->id.daddr, ctl->daddr, sizeof(ctl->daddr));
	note(t, WEFT_TRACE_connected, 0, ctl->payload, ctl->cwnd, 0);
}

void weft_tele_cwnd(struct weft_tele *t, uint32_t cwnd)
{
	uint32_t before = __atomic_exchange_n(&t->id.cwnd, cwnd, __ATOMIC_RELAXED);

	if (before != cwnd)
		note(t, WEFT_TRACE_cwnd, 0, before, cwnd, 0);
}

/* Also into the log: with the device its maps may go, and the trace with them. */
static void log_trace(const struct weft_dev *dev, const struct weft_tele *t)
{
	struct weft_trace_rec r[WEFT_TRACE_LEN];
	unsigned n = weft_trace_sorted(&t->trace, r);
	char text[160];

	for (unsigned i = n > 8 ? n - 8 : 0; i < n; i++)
		weft_logf(WEFT_LOG_INFO, "%s qp 0x%x: +%.1f ms %s", dev->ifname, t->id.qpn,
			  (double)(int64_t)(r[i].t - t->id.connected) / 1e6,
			  weft_trace_text(&r[i], text, sizeof(text)));
}

void weft_tele_failed(struct weft_dev *dev, const struct weft_failed *f)
{
	struct weft_tele *t = &dev->maps.tele[WEFT_QPN_SLOT(f->num)];

	if (t->id.qpn != f->num || t->id.failed)
		return;
	if (f->orderly) {
		if (!t->id.ended && f->why == WEFT_WC_FLUSH_ERR)
			note(t, WEFT_TRACE_closed, 1, 0, 0, 0);
		t->id.ended = weft_now_ns();
		return;
	}
	t->id.status = f->why;
	t->id.failed = weft_now_ns();
	note(t, WEFT_TRACE_failed, f->why | f->err << 8, f->code, f->ssn, f->idle_ms);
	log_trace(dev, t);
}

void weft_tele_ended(struct weft_dev *dev, uint32_t slot, enum weft_trace_kind how)
{
	struct weft_tele *t = &dev->maps.tele[slot];

	/* after the peer the application still closes */
	if (!t->id.qpn || (t->id.ended && how != WEFT_TRACE_closed))
		return;
	if (!t->id.ended)
		t->id.ended = weft_now_ns();
	if (how == WEFT_TRACE_died && !t->id.failed)
		t->id.failed = t->id.ended;
	note(t, how, 0, 0, 0, 0);
}
