// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf server: data QPs that are SENT to: receives are posted again and again, and answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "perf_server.h"

#define IDLE_POLLS 16 /* empty ones before the thread sleeps */

static uint64_t place_of(const struct receiver *x, uint64_t j)
{
	const struct perf_msg *m = &x->s->start;

	return perf_slot(j, x->index, m->qps, m->slots) * m->size;
}

/* n more receives; false: the QP has failed. */
static bool more(struct receiver *x, unsigned n)
{
	struct weft_recv v[PERF_BATCH];
	struct weft_sge g[PERF_BATCH];
	int done;

	for (unsigned i = 0; i < n; i++) {
		g[i] = (struct weft_sge){ .mr = x->s->mr,
					  .off = place_of(x, x->posted + i),
					  .len = x->s->start.size };
		v[i] = (struct weft_recv){ .wr_id = x->posted + i, .sge = &g[i], .nsge = 1 };
	}
	done = weft_post_recv(x->qp, v, n);
	if (done != (int)n) {
		if (done != -ENOTCONN)
			session_say(x->s, "error", "%s", weft_strerror_last());
		return false;
	}
	x->posted += n;
	return true;
}

static bool pong(struct receiver *x, uint64_t j)
{
	struct weft_sge g = { .mr = x->s->pong_mr, .off = place_of(x, j), .len = x->s->start.size };
	struct weft_wr wr = {
		.op = WEFT_WR_SEND, .flags = WEFT_WR_UNSIGNALED, .sge = &g, .nsge = 1
	};

	return weft_post(x->qp, &wr, 1) == 1;
}

/* Take what has come. How many messages, -1: it is over. */
static int take(struct receiver *x)
{
	bool lat = x->s->start.flags & PERF_F_LAT;
	struct weft_wc wc[PERF_BATCH];
	int n = weft_cq_poll(weft_qp_cq(x->qp), wc, PERF_BATCH), got = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status || wc[i].op != WEFT_WR_RECV)
			return -1;
		if (wc[i].len != x->s->start.size) {
			session_say(x->s, "error", "a message of %u bytes", wc[i].len);
			return -1;
		}
		if (lat && !pong(x, x->got))
			return -1;
		x->got++;
		got++;
	}
	return !got || more(x, got) ? got : -1;
}

static void *receive(void *arg)
{
	struct receiver *x = arg;
	struct weft_cq *cq = weft_qp_cq(x->qp);
	uint32_t flags = x->s->start.flags;
	bool poll = flags & PERF_F_LAT && !(flags & PERF_F_EVENT);
	unsigned idle = 0;

	while (x->posted < PERF_RECVS)
		if (!more(x, PERF_BATCH))
			return NULL;
	for (;;) {
		int n = take(x);

		if (n < 0)
			return NULL;
		if (n) {
			idle = 0;
			continue;
		}
		if (poll ? ++idle & 4095 : ++idle < IDLE_POLLS && !(flags & PERF_F_EVENT))
			continue;
		if (!session_alive(x->s) || weft_qp_status(x->qp) != WEFT_WC_SUCCESS)
			return NULL;
		if (!poll && weft_cq_wait(cq, WEFT_ARM_RX, 100) < 0)
			return NULL;
	}
}

int receiver_start(struct session *s, struct weft_qp *qp, unsigned index)
{
	struct receiver *x = &s->rx[s->rxs];

	x->s = s;
	x->qp = qp;
	x->index = index;
	if (index >= s->start.qps || pthread_create(&x->thread, NULL, receive, x))
		return -EINVAL;
	s->rxs++;
	return 0;
}

void receivers_join(struct session *s)
{
	for (unsigned i = 0; i < s->rxs; i++)
		pthread_join(s->rx[i].thread, NULL);
}

static uint64_t received(const struct session *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < s->rxs; i++)
		n += s->rx[i].got;
	return n;
}

int receivers_verify(struct session *s, struct perf_msg *m, uint64_t sent)
{
	uint64_t len = s->start.region, size = s->start.size, slots = s->start.slots;
	uint8_t *want, *covered;

	/* they are all in memory; the threads may have to look */
	for (unsigned i = 0; i < 1000 && received(s) < sent; i++)
		usleep(1000);
	m->bad = 0;
	if (received(s) != sent)
		return 0;
	want = malloc(len);
	covered = calloc(slots, 1);
	if (!want || !covered) {
		free(want);
		free(covered);
		return -ENOMEM;
	}
	perf_fill(want, len, m->seed);
	for (unsigned i = 0; i < s->rxs; i++)
		for (uint64_t j = 0; j < s->rx[i].got && j < slots; j++)
			covered[place_of(&s->rx[i], j) / (size ? size : 1)] = 1;
	for (uint64_t i = 0; i < slots; i++)
		if (!covered[i])
			memset(want + i * size, 0, size);
	memset(want + slots * size, 0, len - slots * size);
	while (m->bad < len && want[m->bad] == s->mem[m->bad])
		m->bad++;
	free(want);
	free(covered);
	return 0;
}
