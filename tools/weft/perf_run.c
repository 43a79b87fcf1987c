// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf, the client: the loops that are measured, bandwidth and ping-pong. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf.h"

#define IDLE_POLLS    16 /* empty polls before the process sleeps */
/* NAPI takes turns of 64 packets between the sides of a link: so long may a queue look empty */
#define SMALL_SPIN_NS 100000
#define NEVER         UINT64_MAX
#define PREFILL       (1u << 20) /* bytes in a message */

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Once a second on a terminal, for runs of more than two seconds. */
static uint64_t progress_at, progress_messages;

static bool progress_wanted(const struct perf_run *r)
{
	static int tty = -1;

	if (tty < 0)
		tty = isatty(STDERR_FILENO);
	return tty && (r->count || r->time > 2);
}

static void progress(const struct perf_run *r, uint64_t start, uint64_t messages)
{
	uint64_t now = perf_now();
	double s = (now - progress_at) / 1e9, rate;

	if (!progress_at || progress_at < start) {
		progress_at = now;
		progress_messages = messages;
		return;
	}
	if (s < 1 || !progress_wanted(r))
		return;
	rate = (messages - progress_messages) / s;
	fprintf(stderr, "\r%5.0f s  %8.2f Gb/s  %10.0f messages/s  \033[K", (now - start) / 1e9,
		rate * r->size * 8 / 1e9, rate);
	progress_at = now;
	progress_messages = messages;
}

static void progress_end(const struct perf_run *r)
{
	if (progress_wanted(r))
		fputs("\r\033[K", stderr);
}

static void note_error(struct perf_run *r, enum weft_wc_status status)
{
	/* the cause rather than what was flushed behind it */
	if (!r->errors || r->first_error == WEFT_WC_FLUSH_ERR)
		r->first_error = status;
	r->errors++;
}

static int report_errors(const struct perf_run *r)
{
	if (!r->errors)
		return CLI_OK;
	return cli_fail(r->peer, "%llu %ss failed, the first with \"%s\"; %s",
			(unsigned long long)r->errors, perf_verb(r, true),
			weft_wc_str(r->first_error), perf_remedy(r, r->first_error));
}

/* A QP can fail with nothing outstanding that would say so. */
static void note_broken(struct perf_run *r)
{
	for (unsigned i = 0; i < r->lanes && !r->errors; i++) {
		enum weft_wc_status s = weft_qp_status(r->lane[i].qp);

		if (s != WEFT_WC_SUCCESS)
			note_error(r, s);
	}
}

/* Post up to n on one QP, without going past the count. How many, or -errno. */
static int post_lane(struct perf_run *r, struct perf_lane *l, unsigned n)
{
	int done;

	if (n > r->depth - l->out)
		n = r->depth - l->out;
	if (r->count && n > r->count - r->posted)
		n = r->count - r->posted;
	if (!n)
		return 0;
	done = perf_post(r, l, n);
	return done == -EAGAIN ? 0 : done;
}

/* Fill all queues, the QPs taking turns. 0, or -errno, of a QP that has failed -ENOTCONN. */
static int post_lanes(struct perf_run *r)
{
	unsigned each = perf_turn(r);
	bool more = true, broken = false;
	int done;

	while (more) {
		more = false;
		for (unsigned i = 0; i < r->lanes; i++) {
			done = post_lane(r, &r->lane[i], each);
			if (done < 0 && done != -ENOTCONN)
				return done;
			broken |= done < 0;
			more |= done == (int)each;
		}
	}
	return broken ? -ENOTCONN : 0;
}

static unsigned outstanding(const struct perf_run *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->lanes; i++)
		n += r->lane[i].out;
	return n;
}

/* Large messages of which few have a completion may take long. Have packets gone out since it was last asked? */
static bool moves(struct perf_run *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < r->lanes; i++) {
		struct weft_qp_stats st = { .size = sizeof(st) };

		if (!weft_qp_stats(r->lane[i].qp, &st))
			n += st.packets - st.retransmits;
	}
	if (n == r->moved)
		return false;
	r->moved = n;
	return true;
}

/* The lane's jth message is, and all before it that had no completion. How many were good. */
static unsigned complete(struct perf_lane *l, uint64_t j, enum weft_wc_status status)
{
	unsigned n = j + 1 - l->done;

	l->done += n;
	l->out -= n;
	return n - (status != WEFT_WC_SUCCESS);
}

/* Take what is complete. Returns how many completions, good ones in *good. */
static int reap(struct perf_run *r, unsigned *good)
{
	struct weft_wc wc[PERF_BATCH];
	int n = weft_cq_poll(r->cq, wc, PERF_BATCH);

	*good = 0;
	for (int i = 0; i < n; i++) {
		struct perf_lane *l = weft_qp_user(wc[i].qp);

		if (wc[i].op >= WEFT_WR_RECV) { /* an answer; of an error the QP tells */
			r->pongs += wc[i].status == WEFT_WC_SUCCESS;
			continue;
		}
		*good += complete(l, wc[i].wr_id, wc[i].status);
		if (wc[i].status != WEFT_WC_SUCCESS)
			note_error(r, wc[i].status);
		else if (r->op == WEFT_WR_FETCH_ADD)
			l->sum += *(uint64_t *)(r->mem + PERF_RESULT(l->index, wc[i].wr_id));
	}
	return n;
}

/* Look again at once, or sleep? A small message is back before a sleep would be over. */
static bool spin_on(const struct perf_run *r, unsigned idle, uint64_t idle_ns)
{
	if (r->poll || r->event)
		return r->poll;
	return idle < IDLE_POLLS || (r->size <= PERF_SMALL && idle_ns < SMALL_SPIN_NS);
}

/*
 * Keep every queue full until time is up or the count is posted, then let the
 * rest complete. What completes in the interval counts. Between completions the
 * process sleeps, unless it is told to poll.
 */
int perf_run_bw(struct perf_run *r)
{
	double cpu = cpu_seconds();
	uint64_t start = perf_now(), now = start, last = start, alive = start, asked = start;
	uint64_t end = r->count ? NEVER : start + (uint64_t)(r->time * 1e9);
	bool posting = true, broken = false, stuck = false;
	unsigned good, idle = 0;
	int n, rc = 0;

	for (;;) {
		rc = posting ? post_lanes(r) : 0;
		if (rc && rc != -ENOTCONN)
			return cli_lib_fail(r->peer, rc);
		if (rc)
			broken = true;
		n = reap(r, &good);
		now = perf_now();
		if (n) {
			alive = now;
			idle = 0;
		}
		if (good && now <= end) {
			r->messages += good;
			last = now;
		}
		if (r->errors || broken || perf_stop || now >= end ||
		    (r->count && r->posted == r->count))
			posting = false;
		if (!posting && !outstanding(r))
			break;
		if (now - asked > 1000000000) {
			asked = now;
			if (moves(r))
				alive = now;
		}
		if (now - alive > PERF_PATIENCE_S * 1000000000ull) {
			stuck = true;
			break;
		}
		progress(r, start, r->messages);
		if (n)
			continue;
		if (spin_on(r, ++idle, now - alive)) {
			r->spins++;
			continue;
		}
		r->sleeps++;
		rc = weft_cq_wait(r->cq, WEFT_ARM_TX, 100);
		if (rc < 0 && rc != -EINTR)
			return cli_lib_fail(r->peer, rc);
	}
	progress_end(r);
	r->seconds = (r->messages ? last - start : now - start) / 1e9;
	r->cpu_s = cpu_seconds() - cpu;
	if (stuck)
		return cli_fail(r->peer, "no packet for %u s; see 'weft stats show %s'",
				PERF_PATIENCE_S, r->dev);
	if (broken)
		note_broken(r);
	return report_errors(r);
}

int perf_prefill(struct perf_run *r, unsigned *n)
{
	struct perf_lane *l = &r->lane[0];
	struct weft_qp_stats st = { .size = sizeof(st) };
	uint64_t off = 0, alive = perf_now();
	unsigned good;

	for (*n = 0; off < r->region || l->out;) {
		uint64_t left = r->region - off;
		struct weft_write w = {
			.wr_id = *n,
			.mr = r->mr,
			.off = off,
			.len = left < PREFILL ? left : PREFILL,
			.rkey = r->rkey,
			.roff = off,
		};
		int rc = left ? weft_post_write(l->qp, &w) : -EAGAIN;

		if (!rc) {
			off += w.len;
			l->out++;
			++*n;
			continue;
		}
		if (rc != -EAGAIN)
			return cli_lib_fail(r->peer, rc);
		rc = weft_cq_wait(r->cq, WEFT_ARM_TX, 100);
		if (rc < 0 && rc != -EINTR)
			return cli_lib_fail(r->peer, rc);
		if (reap(r, &good))
			alive = perf_now();
		if (r->errors)
			return report_errors(r);
		if (perf_stop || perf_now() - alive > PERF_PATIENCE_S * 1000000000ull)
			return cli_fail(r->peer,
					"the region could not be written; see 'weft qp show %s'",
					r->dev);
	}
	l->done = 0;
	if (!weft_qp_stats(l->qp, &st)) { /* the run's packets alone are reported */
		r->packets -= st.packets;
		r->retransmits -= st.retransmits;
	}
	return CLI_OK;
}

/* Wait for the answer to one message. 0, -EPIPE on an error, -EINTR. */
static int await_pong(struct perf_run *r, struct weft_qp *qp, uint32_t seen)
{
	uint64_t begin = 0;

	for (unsigned spin = 1; weft_qp_arrived(qp) == seen; spin++) {
		unsigned good;

		if (spin & 4095)
			continue;
		reap(r, &good);
		if (r->errors || weft_qp_status(qp) != WEFT_WC_SUCCESS)
			return -EPIPE;
		if (perf_stop)
			return -EINTR;
		if (!begin)
			begin = perf_now();
		if (perf_now() - begin > PERF_PATIENCE_S * 1000000000ull)
			return -ETIMEDOUT;
	}
	return 0;
}

/* Wait until what was SENT back is here. Likewise. */
static int await_recv(struct perf_run *r, struct weft_qp *qp, uint32_t seen)
{
	uint64_t begin = 0;
	unsigned good;

	for (unsigned spin = 1; r->pongs == seen; spin++) {
		reap(r, &good);
		if (spin & 4095)
			continue;
		if (r->errors || weft_qp_status(qp) != WEFT_WC_SUCCESS)
			return -EPIPE;
		if (perf_stop)
			return -EINTR;
		if (!begin)
			begin = perf_now();
		if (perf_now() - begin > PERF_PATIENCE_S * 1000000000ull)
			return -ETIMEDOUT;
	}
	return perf_post_pongs(r, qp);
}

/* Wait until the READ or atomic is complete. Likewise. */
static int await_own(struct perf_run *r, struct perf_lane *l)
{
	uint64_t begin = 0;
	unsigned good;

	for (unsigned spin = 1; l->out; spin++) {
		if (r->event && weft_cq_wait(r->cq, WEFT_ARM_TX, 100) < 0)
			return -EINTR;
		reap(r, &good);
		if (r->errors || perf_stop)
			return r->errors ? -EPIPE : -EINTR;
		if (!r->event && (spin & 4095))
			continue;
		if (!begin)
			begin = perf_now();
		if (perf_now() - begin > PERF_PATIENCE_S * 1000000000ull)
			return -ETIMEDOUT;
	}
	return 0;
}

static int await(struct perf_run *r, struct perf_lane *l, uint32_t seen)
{
	if (perf_pulls(r))
		return await_own(r, l);
	return r->op == WEFT_WR_SEND ? await_recv(r, l->qp, seen) : await_pong(r, l->qp, seen);
}

/* What does not count: so many round trips, or as many as end in this time. */
#define WARM_UP    200
#define WARM_UP_NS 500000000

/* Ping-pong: one message out, one back; or a READ or atomic. The histogram holds round trips. */
int perf_run_lat(struct perf_run *r)
{
	struct perf_lane *l = &r->lane[0];
	uint64_t warm = WARM_UP, cold = perf_now(), t0, t1, start = 0, end = NEVER;
	uint32_t seen = r->op == WEFT_WR_SEND ? r->pongs : weft_qp_arrived(l->qp);
	double cpu = cpu_seconds();
	unsigned good;
	int rc = 0;

	while (!perf_stop) {
		if (!warm && !start) {
			start = perf_now();
			end = r->count ? NEVER : start + (uint64_t)(r->time * 1e9);
			cpu = cpu_seconds();
		}
		t0 = perf_now();
		rc = perf_post(r, l, 1);
		if (rc == -EAGAIN) {
			reap(r, &good);
			continue;
		}
		if (rc == 1)
			rc = await(r, l, seen);
		if (rc)
			break;
		t1 = perf_now();
		seen++;
		reap(r, &good);
		if (warm) {
			warm = t1 - cold < WARM_UP_NS ? warm - 1 : 0;
			continue;
		}
		perf_hist_add(r->hist, t1 - t0);
		r->messages++;
		if (t1 >= end || r->messages == r->count)
			break;
		/* of large ones that would be a long time */
		if (r->size > PERF_SMALL || !(r->messages & 1023))
			progress(r, start, r->messages);
	}
	progress_end(r);
	r->seconds = start ? (perf_now() - start) / 1e9 : 0;
	r->cpu_s = cpu_seconds() - cpu;
	/* the last one's acknowledgement, or the reasons of an error */
	t0 = perf_now();
	while (l->out && perf_now() - t0 < 2000000000ull)
		reap(r, &good);
	if (r->errors)
		return report_errors(r);
	if (rc == -ETIMEDOUT)
		return cli_fail(r->peer, "no answer for %u s; see 'weft qp show %s'",
				PERF_PATIENCE_S, r->dev);
	if (rc == -EPIPE || rc == -ENOTCONN) {
		enum weft_wc_status s = weft_qp_status(l->qp);

		r->errors = 1;
		return cli_fail(r->peer, "the connection failed with \"%s\"; %s", weft_wc_str(s),
				perf_remedy(r, s));
	}
	return rc && rc != -EINTR ? cli_lib_fail(r->peer, rc) : CLI_OK;
}
