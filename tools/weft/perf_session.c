// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf server: one client's run, from its first question until it goes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf_server.h"

void session_say(struct session *s, const char *event, const char *fmt, ...)
{
	char text[256], id[24];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)s->run);
	pthread_mutex_lock(&s->srv->lock);
	if (cli.json) {
		struct json_object *o = json_object_new_object();

		cli_add_str(o, "event", event);
		cli_add_str(o, "run", id);
		cli_add_str(o, "text", text);
		cli_print(o);
	} else {
		printf("%s %s: %s\n", id, event, text);
	}
	fflush(stdout);
	pthread_mutex_unlock(&s->srv->lock);
}

bool session_alive(const struct session *s)
{
	return !perf_stop && weft_qp_status(s->ctl) == WEFT_WC_SUCCESS;
}

static void lib_error(struct perf_msg *m, int err)
{
	const char *last = weft_strerror_last();

	m->err = err;
	snprintf(m->text, sizeof(m->text), "%s", *last ? last : strerror(-err));
}

static int region(struct session *s, unsigned access, uint8_t **mem, struct weft_mr **mr)
{
	void *p;
	int rc = weft_alloc(s->srv->wd, s->start.region, &p);

	if (rc)
		return rc;
	*mem = p;
	return weft_mr_reg(s->srv->wd, NULL, p, s->start.region, access, mr);
}

static void do_start(struct session *s, struct perf_msg *m)
{
	bool lat = m->flags & PERF_F_LAT;
	char size[32], reg[32];
	int rc;

	if (s->mem || m->region < 64 || m->region > PERF_REGION_MAX || m->size > m->region ||
	    !m->slots || (m->size && m->slots > m->region / m->size)) {
		m->err = -EINVAL;
		snprintf(m->text, sizeof(m->text), "the request makes no sense");
		return;
	}
	s->start = *m;
	rc = region(s,
		    m->flags & PERF_F_READ     ? WEFT_REMOTE_READ
		    : m->flags & PERF_F_ATOMIC ? WEFT_REMOTE_ATOMIC | WEFT_REMOTE_READ
		    : m->flags & PERF_F_SEND   ? WEFT_REMOTE_WRITE | WEFT_LOCAL_WRITE
					       : WEFT_REMOTE_WRITE,
		    &s->mem, &s->mr);
	if (!rc && lat)
		rc = region(s, WEFT_LOCAL, &s->pong, &s->pong_mr);
	if (rc) {
		lib_error(m, rc);
		return;
	}
	if (lat)
		perf_fill(s->pong, m->region, m->seed);
	if (m->flags & PERF_F_READ)
		perf_fill(s->mem, m->region, m->seed);
	m->key = weft_mr_key(s->mr);
	session_say(s, "start", "%s, %u QP%s, %s messages, %s of memory",
		    lat                        ? "latency"
		    : m->flags & PERF_F_READ   ? "read"
		    : m->flags & PERF_F_SEND   ? "send"
		    : m->flags & PERF_F_ATOMIC ? "atomic"
					       : "write",
		    m->qps, m->qps == 1 ? "" : "s", cli_bytes(m->size, size),
		    cli_bytes(m->region, reg));
}

static void do_verify(struct session *s, struct perf_msg *m)
{
	uint64_t len = s->start.region;

	bool sent = s->start.flags & PERF_F_SEND && !(s->start.flags & PERF_F_LAT);

	if (!s->mem || (!sent && m->covered > len)) {
		m->err = -EINVAL;
		snprintf(m->text, sizeof(m->text), "there is nothing to verify");
		return;
	}
	if (sent) {
		int rc = receivers_verify(s, m, m->covered);

		if (rc) {
			lib_error(m, rc);
			return;
		}
	} else {
		m->bad = perf_compare(s->mem, len, m->covered, m->seed, m->rest);
	}
	m->err = m->bad != len;
	if (m->err)
		session_say(s, "verify", "byte %llu is wrong", (unsigned long long)m->bad);
	else
		session_say(s, "verify", "all %llu bytes are right", (unsigned long long)len);
}

/* The client connects its data QPs after START; accepting them takes a moment. */
static struct weft_qp *first_data_qp(struct session *s)
{
	struct weft_qp *qp;

	pthread_mutex_lock(&s->srv->lock);
	while (!s->qps && session_alive(s)) {
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += 100000000;
		if (ts.tv_nsec >= 1000000000) {
			ts.tv_nsec -= 1000000000;
			ts.tv_sec++;
		}
		pthread_cond_timedwait(&s->srv->news, &s->srv->lock, &ts);
	}
	qp = s->qp[0];
	pthread_mutex_unlock(&s->srv->lock);
	return qp;
}

static int post_pong(struct session *s, struct weft_qp *qp, uint32_t n)
{
	uint64_t off = n % s->start.slots * s->start.size;
	struct weft_write w = {
		.wr_id = n,
		.mr = s->pong_mr,
		.off = off,
		.len = s->start.size,
		.rkey = s->start.key,
		.roff = off,
	};

	return weft_post_write(qp, &w);
}

/*
 * Answer every message on the data QP after the first `skip` until the run ends or the
 * client asks for something.
 */
static void echo(struct session *s, uint32_t skip)
{
	struct weft_qp *qp = first_data_qp(s);
	struct weft_cq *cq = qp ? weft_qp_cq(qp) : NULL;
	bool event = s->start.flags & PERF_F_EVENT;
	struct weft_wc wc[16];
	uint32_t seen = skip;

	for (unsigned spin = 1; qp; spin++) {
		while ((int32_t)(weft_qp_arrived(qp) - seen) > 0) {
			if (post_pong(s, qp, seen - skip))
				break;
			seen++;
		}
		while (weft_cq_poll(cq, wc, 16) > 0)
			;
		if (event && weft_cq_wait(cq, WEFT_ARM_RX, 100) > 0)
			continue;
		if (!event && (spin & 4095))
			continue;
		if (!session_alive(s) || weft_qp_status(qp) != WEFT_WC_SUCCESS ||
		    weft_qp_arrived(s->ctl) != s->asked)
			break;
	}
}

static void answer(struct session *s, const struct perf_msg *m)
{
	uint64_t off = (uint64_t)s->slot * PERF_SLOT + PERF_OUT;
	struct weft_write w = { .mr = s->srv->ctl_mr,
				.off = off,
				.len = sizeof(*m),
				.rkey = s->peer.key,
				.roff = s->peer.off };
	int rc;

	memcpy(s->srv->ctl + off, m, sizeof(*m));
	rc = weft_post_write(s->ctl, &w);
	if (rc && rc != -ENOTCONN)
		session_say(s, "error", "%s", weft_strerror_last());
}

static void handle(struct session *s)
{
	struct perf_msg m;

	memcpy(&m, s->srv->ctl + (uint64_t)s->slot * PERF_SLOT, sizeof(m));
	m.err = 0;
	m.text[0] = '\0';
	switch (m.op) {
	case PERF_START: do_start(s, &m); break;
	case PERF_ECHO:
		if (!(s->start.flags & PERF_F_LAT))
			m.err = -EINVAL;
		break;
	case PERF_VERIFY: do_verify(s, &m); break;
	default: m.err = -EINVAL; snprintf(m.text, sizeof(m.text), "unknown request %u", m.op);
	}
	answer(s, &m);
	/* SENDs are answered by their receiver */
	if (m.op == PERF_ECHO && !m.err && !(s->start.flags & PERF_F_SEND))
		echo(s, m.skip);
}

void *session_serve(void *arg)
{
	struct session *s = arg;
	struct server *srv = s->srv;
	struct weft_cq *cq = weft_qp_cq(s->ctl);
	struct weft_wc wc;

	while (session_alive(s)) {
		while (weft_cq_poll(cq, &wc, 1) > 0)
			;
		if (weft_qp_arrived(s->ctl) != s->asked) {
			s->asked++;
			handle(s);
			continue;
		}
		if (weft_cq_wait(cq, WEFT_ARM_RX, 200) < 0)
			usleep(1000);
	}
	pthread_mutex_lock(&srv->lock);
	LIST_REMOVE(s, link); /* no data QP joins any more */
	pthread_mutex_unlock(&srv->lock);
	receivers_join(s);
	s->qp[s->qps] = s->ctl;
	weft_qp_destroy_all(s->qp, s->qps + 1);
	if (s->mr)
		weft_mr_dereg(s->mr);
	if (s->pong_mr)
		weft_mr_dereg(s->pong_mr);
	if (s->mem)
		weft_free(srv->wd, s->mem);
	if (s->pong)
		weft_free(srv->wd, s->pong);
	session_say(s, "end", "%s", perf_stop ? "stopped" : "the client has gone");
	pthread_mutex_lock(&srv->lock);
	s->done = true;
	srv->used &= ~(1ull << s->slot);
	pthread_mutex_unlock(&srv->lock);
	return NULL;
}
