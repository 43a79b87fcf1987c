// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Is the peer of a QP that sends nothing still there? Asked over the set-up stream, of its kernel. */
#include <unistd.h>
#include <netinet/tcp.h>
#include <sys/timerfd.h>

#include "ctl.h"
#include "cm_wire.h"

/*
 * The kernels ask each other (keep-alive) and answer also for processes that are stopped: those
 * live. This thread only looks at when the peer's was last heard. The kernel's interval is whole
 * seconds and a question may get lost; so when one has no answer, a byte is sent (PING), which TCP
 * repeats every 0.2 s and the peer's library takes no notice of.
 */
#define MS        1000000ull
#define ANSWER_MS 300 /* until an answer counts as missing */
#define LOOK      (200 * MS)
#define LATE      (250 * MS) /* a look that comes so much later: we were stopped, not the peer */
#define FAR       UINT64_MAX

static unsigned keep_s(const struct weft_qp *qp)
{
	unsigned s = qp->idle_ms / 2500;

	return s < 1 ? 1 : s > 60 ? 60 : s;
}

static uint64_t suspect(const struct weft_qp *qp)
{
	return (keep_s(qp) * 1000 + ANSWER_MS) * MS;
}

/* How long the peer's kernel has said nothing, ns. */
static uint64_t silent(const struct weft_qp *qp)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);
	uint32_t ms;

	if (getsockopt(qp->cm_fd, IPPROTO_TCP, TCP_INFO, &ti, &len))
		return 0;
	ms = ti.tcpi_last_ack_recv < ti.tcpi_last_data_recv ? ti.tcpi_last_ack_recv
							    : ti.tcpi_last_data_recv;
	return ms * MS;
}

/* When to look at it again. */
static uint64_t check(struct weft_ctl *c, struct weft_qp *qp, uint64_t now, uint64_t gap)
{
	uint64_t quiet, limit = qp->idle_ms * MS, until;
	uint32_t arrived = __atomic_load_n(&qp->ring->rx_msn, __ATOMIC_RELAXED);
	uint8_t ping = WEFT_CM_PING;

	if (!qp->idle_on || qp->status || qp->cm_over || qp->doom_ns)
		return FAR;
	quiet = silent(qp);
	/* while something is outstanding, timeout_ms and retry_cnt decide */
	if (quiet < suspect(qp) || weft_ctl_outstanding(qp) || arrived != qp->idle_arrived) {
		qp->idle_arrived = arrived;
		qp->ping_ns = 0;
		return quiet < suspect(qp) ? now + suspect(qp) - quiet : now + LOOK;
	}
	if (!qp->ping_ns) {
		(void)!send(qp->cm_fd, &ping, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		qp->ping_ns = now;
	} else {
		qp->ping_ns += gap;
	}
	until = qp->ping_ns + limit - suspect(qp);
	if (until < now - quiet + limit)
		until = now - quiet + limit;
	if (now >= until) {
		weft_ctl_doom(c, qp, c->dev->down_ns ? WEFT_WC_DEV_ERR : WEFT_WC_RETRY_EXC_ERR, 0);
		return FAR;
	}
	return until < now + LOOK ? until : now + LOOK;
}

static void set(struct weft_ctl *c, uint64_t at, uint64_t now)
{
	uint64_t ns = at == FAR ? 0 : at > now ? at - now : 1;
	struct itimerspec t = { .it_value = { .tv_sec = ns / 1000000000,
					      .tv_nsec = ns % 1000000000 } };

	c->idle_at = at;
	timerfd_settime(c->idle_fd, 0, &t, NULL);
}

void weft_idle_look(struct weft_ctl *c, uint64_t now)
{
	uint64_t gap = now > c->idle_at + LATE ? now - c->idle_at : 0, next = FAR;

	for (unsigned i = 0; i < c->n; i++) {
		uint64_t at = check(c, c->qp[i], now, gap);

		next = at < next ? at : next;
	}
	set(c, next, now);
}

void weft_idle_begin(struct weft_ctl *c, struct weft_qp *qp)
{
	int one = 1, idle_s = keep_s(qp), tries = 127;
	uint64_t now = weft_now_ns(), at = now + suspect(qp);

	if (qp->idle_ms == UINT32_MAX)
		return;
	setsockopt(qp->cm_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(qp->cm_fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(qp->cm_fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(qp->cm_fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(qp->cm_fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof(one));
	qp->idle_on = true;
	if (at < c->idle_at)
		set(c, at, now);
}
