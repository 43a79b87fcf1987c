/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a QP that is closed still has of the device's tokens, or waits for, leaves the books. */
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "device.h"

/* Tokens have come free that no packet brings: ring for those that wait for one. */
static void ring_for_waiting(struct weft_dev *dev, unsigned domain)
{
	for (uint32_t i = 0; i < dev->maps.qps; i++) {
		__u64 *wait = &dev->maps.run->dom[domain].wait[i / 64];

		if (__atomic_load_n(wait, __ATOMIC_RELAXED) >> (i % 64) & 1)
			weft_doorbell(dev, dev->maps.ctl[i].qpn, WEFT_DB_LOOK, 0);
	}
}

/* The kernel needs memory for either call; there may be some in a moment. */
#define SETTLE_TRIES 50

static bool get_qptx(struct weft_dev *dev, uint32_t slot, struct weft_qptx *q)
{
	for (int i = 0; i < SETTLE_TRIES; i++, usleep(1000))
		if (!bpf_map_lookup_elem(dev->maps.qptx, &slot, q))
			return true;
	return false;
}

static void put_qptx(struct weft_dev *dev, uint32_t slot, const struct weft_qptx *q)
{
	for (int i = 0; i < SETTLE_TRIES; i++, usleep(1000))
		if (!bpf_map_update_elem(dev->maps.qptx, &slot, q, BPF_ANY))
			return;
}

/* Not allowed to fail for want of memory: the tokens would be missing from the budget for ever. */
void weft_settle_qp(struct weft_dev *dev, uint32_t slot)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct weft_qptx q; /* too large for a stack that may be small */
	unsigned d, out = 0;

	pthread_mutex_lock(&lock);
	for (d = 0; d < WEFT_DOMAINS; d++)
		__atomic_fetch_and(&dev->maps.run->dom[d].wait[slot / 64], ~(1ull << slot % 64),
				   __ATOMIC_RELAXED);
	if (!get_qptx(dev, slot, &q))
		goto out;
	for (d = 0; d < WEFT_DOMAINS; d++) {
		if (!q.tx.dom[d].out)
			continue;
		out += q.tx.dom[d].out;
		__atomic_fetch_sub(&dev->maps.run->dom[d].inflight, q.tx.dom[d].out,
				   __ATOMIC_SEQ_CST);
		ring_for_waiting(dev, d);
	}
	if (out) {
		__atomic_fetch_sub(&dev->maps.run->active, 1, __ATOMIC_RELAXED);
		/* No program works on a closed QP, so it may be written; never settle twice. */
		memset(q.tx.dom, 0, sizeof(q.tx.dom));
		q.tx.inflight = 0;
		put_qptx(dev, slot, &q);
	}
out:
	pthread_mutex_unlock(&lock);
}
