/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The device's books of tokens (I10): what each locked section did, who may have more, whose turn it is. */
#include "sim.h"

void account(struct host *h, uint32_t from, uint32_t freed, uint32_t to, uint32_t claimed)
{
	h->dom_inflight[from & (WEFT_DOMAINS - 1)] -= freed;
	h->dom_inflight[to & (WEFT_DOMAINS - 1)] += claimed;
}

__u32 window(const struct host *h, const struct weft_tx *tx)
{
	return weft_cc_window(&tx->cc, W.p.budget * h->cpus, h->active);
}

int32_t room_of(const struct host *h, __u32 dom)
{
	return (int32_t)W.p.budget - h->dom_inflight[dom];
}

void wait_turn(struct host *h, __u32 dom, uint32_t id)
{
	h->wait[dom] |= 1u << id;
}

/* The QP whose turn it is, which then waits no more, or -1. */
int next_turn(struct host *h, __u32 dom)
{
	__u32 after = h->wait[dom] & ~((1u << h->turn[dom]) - 1);
	__u32 id = weft_ctz(after ? after : h->wait[dom]);

	if (!h->wait[dom])
		return -1;
	h->wait[dom] &= ~(1u << id);
	h->turn[dom] = id + 1;
	return (int)id;
}

__u32 grant(struct host *h, __u32 dom, uint32_t id, __u32 want, int first)
{
	int32_t room = room_of(h, dom);

	if (room < (int32_t)want)
		want = room > 0 ? room : 0;
	if (first && (want || h->dom_inflight[dom] < (int32_t)W.p.hard)) {
		h->wait[dom] &= ~(1u << id);
		return want ? want : 1;
	}
	if (first)
		wait_turn(h, dom, id);
	return want;
}

/* Does this QP hold more of a full domain than its share? */
int crowds(const struct host *h, const struct weft_tx *tx, __u32 dom)
{
	return h->active > 1 && tx->dom[dom].out * h->active >= W.p.budget + (uint32_t)h->active;
}
