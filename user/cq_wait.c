// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sleeping until a CQ has something: armed rings, the events of XDP and the control thread, the descriptor. */
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <sys/epoll.h>

#include "internal.h"
#include "priv.h"

/*
 * Behind which entry of the send queue is the next completion, of those that are posted and not polled? False:
 * none of them has one. Other threads may poll and post meanwhile, so an entry may be a later one already:
 * then what was there has been polled.
 */
static bool awaited(const struct weft_qp *qp, uint32_t *at)
{
	uint32_t polled = __atomic_load_n(&qp->polled, __ATOMIC_RELAXED);
	uint32_t prod = __atomic_load_n(&qp->prod, __ATOMIC_ACQUIRE);

	for (; (int32_t)(prod - polled) > 0; polled++) {
		const struct weft_posted *wr = &qp->wr[polled & qp->sq_mask];

		if (__atomic_load_n(&wr->how, __ATOMIC_RELAXED) & (WEFT_HOW_PART | WEFT_HOW_QUIET))
			continue;
		*at = polled + 1;
		return true;
	}
	return false;
}

static void arm_tx(const struct weft_qp *qp)
{
	struct weft_ring *r = qp->ring;
	uint32_t at, how = WEFT_ARMED_ANY;

	if (awaited(qp, &at)) {
		__atomic_store_n(&r->arm_at, at, __ATOMIC_RELAXED);
		how = WEFT_ARMED_AT;
	}
	__atomic_store_n(&r->arm_tx, how, __ATOMIC_RELEASE);
}

int weft_cq_fd(struct weft_cq *cq)
{
	return cq->ep_fd;
}

/* From the control thread: a QP of this CQ has failed. */
void weft_cq_wake(struct weft_cq *cq)
{
	uint64_t one = 1;

	if (!__atomic_exchange_n(&cq->woken, 1, __ATOMIC_ACQ_REL))
		(void)!write(cq->wake_fd, &one, sizeof(one));
}

/*
 * The barrier stands between arming and the caller's next poll. XDP writes what
 * is to be seen, passes a barrier and looks whether it must wake; so one of the
 * two sees the other.
 */
void weft_cq_arm(struct weft_cq *cq, unsigned what)
{
	const struct weft_cq_list *l;

	pthread_mutex_lock(&cq->lock);
	cq->armed |= what;
	l = cq->list;
	for (unsigned i = 0; i < l->n; i++) {
		struct weft_ring *r = l->qp[i]->ring;

		if (what & WEFT_ARM_TX)
			arm_tx(l->qp[i]);
		if (what & WEFT_ARM_RX)
			__atomic_store_n(&r->arm_rx, 1, __ATOMIC_RELAXED);
		if (what & WEFT_ARM_SOL)
			__atomic_store_n(&r->arm_sol, 1, __ATOMIC_RELAXED);
	}
	__sync_synchronize();
	pthread_mutex_unlock(&cq->lock);
}

/* Skip what is in the ring buffer, but not a record still being written: its end must wake us. */
static void drain(struct weft_cq *cq)
{
	const unsigned long *prod = cq->rb_data;
	const uint8_t *data = (uint8_t *)cq->rb_data + (cq->rb_len - 2 * WEFT_EVENTS_LEN);
	unsigned long *cons = cq->rb_cons, at = *cons;

	while (at < __atomic_load_n(prod, __ATOMIC_ACQUIRE)) {
		const uint32_t *head = (const void *)(data + (at & (WEFT_EVENTS_LEN - 1)));
		uint32_t len = __atomic_load_n(head, __ATOMIC_ACQUIRE);

		if (len & BPF_RINGBUF_BUSY_BIT)
			break;
		len &= ~BPF_RINGBUF_DISCARD_BIT;
		at += (len + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(cons, at, __ATOMIC_RELEASE);
	}
}

void weft_cq_disarm(struct weft_cq *cq)
{
	const struct weft_cq_list *l;
	uint64_t n;

	pthread_mutex_lock(&cq->lock);
	l = cq->list;
	for (unsigned i = 0; i < l->n; i++) {
		struct weft_ring *r = l->qp[i]->ring;

		if (cq->armed & WEFT_ARM_TX)
			__atomic_store_n(&r->arm_tx, 0, __ATOMIC_RELAXED);
		if (cq->armed & WEFT_ARM_RX)
			__atomic_store_n(&r->arm_rx, 0, __ATOMIC_RELAXED);
		if (cq->armed & WEFT_ARM_SOL)
			__atomic_store_n(&r->arm_sol, 0, __ATOMIC_RELAXED);
	}
	cq->armed = 0;
	drain(cq);
	/* XDP sends no event while there is one: what it found there is seen by who looks after this */
	__sync_synchronize();
	/* who is about to write there is waited for next time; a wake behind it is not lost: the caller looks again */
	if (__atomic_load_n(&cq->woken, __ATOMIC_ACQUIRE) &&
	    read(cq->wake_fd, &n, sizeof(n)) == sizeof(n))
		__atomic_store_n(&cq->woken, 0, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&cq->lock);
}

/* Has something been carried out that has a completion; or anything, if nothing of what is posted has one? */
static bool completed(const struct weft_qp *qp)
{
	uint32_t polled = __atomic_load_n(&qp->polled, __ATOMIC_RELAXED), at;
	uint32_t done = __atomic_load_n(&qp->ring->sq_done, __ATOMIC_ACQUIRE);

	return awaited(qp, &at) ? (int32_t)(done - at) >= 0 : done != polled;
}

/* Is there anything that weft_cq_wait() returns for? */
static bool ready(struct weft_cq *cq, unsigned what)
{
	const struct weft_cq_list *l;
	bool yes = false;

	pthread_mutex_lock(&cq->lock);
	l = cq->list;
	for (unsigned i = 0; i < l->n; i++) {
		struct weft_qp *qp = l->qp[i];
		int status = __atomic_load_n(&qp->status, __ATOMIC_ACQUIRE);
		uint32_t arrived = weft_qp_arrived(qp);
		uint32_t polled = __atomic_load_n(&qp->polled, __ATOMIC_RELAXED);
		uint32_t prod = __atomic_load_n(&qp->prod, __ATOMIC_ACQUIRE);

		if (what & WEFT_ARM_TX && prod != polled && (status || completed(qp)))
			yes = true;
		if (what & WEFT_ARM_RX && arrived != qp->seen_arrived) {
			qp->seen_arrived = arrived;
			yes = true;
		}
		if (qp->rq && what & (WEFT_ARM_RX | WEFT_ARM_SOL) &&
		    weft_recv_ready(qp, !(what & WEFT_ARM_RX)))
			yes = true;
		if (status != qp->seen_status) {
			qp->seen_status = status;
			yes = true;
		}
		if (!status && !qp->poked && (qp->ring->tx_err || qp->ring->rx_err)) {
			qp->poked = 1;
			weft_ctl_poke(qp->dev);
		}
	}
	pthread_mutex_unlock(&cq->lock);
	return yes;
}

int weft_cq_wait(struct weft_cq *cq, unsigned what, int timeout_ms)
{
	uint64_t end = timeout_ms > 0 ? weft_now_ns() + timeout_ms * 1000000ull : 0;

	if (!what || what & ~(WEFT_ARM_TX | WEFT_ARM_RX | WEFT_ARM_SOL))
		return weft_err_quiet(EINVAL, cq->dev->ifname,
				      "cannot wait for 0x%x; give WEFT_ARM_TX, WEFT_ARM_RX, "
				      "WEFT_ARM_SOL or several of them",
				      what);
	for (;;) {
		struct epoll_event ev;
		int n, left = timeout_ms;
		uint64_t now;

		if (ready(cq, what))
			return 1;
		if (!timeout_ms)
			return 0;
		if (timeout_ms > 0) {
			now = weft_now_ns();
			if (now >= end)
				return 0;
			left = (end - now + 999999) / 1000000;
		}
		weft_cq_arm(cq, what);
		if (ready(cq, what)) {
			weft_cq_disarm(cq);
			return 1;
		}
		n = epoll_wait(cq->ep_fd, &ev, 1, left) < 0 ? -errno : 0;
		weft_cq_disarm(cq);
		if (n < 0)
			return ready(cq, what)
				       ? 1
				       : weft_err_quiet(-n, cq->dev->ifname,
							"the wait for completions ended early: %s",
							strerror(-n));
	}
}
