// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * allreduce: the sum of vectors of floats, one on each of N hosts, for all of them.
 *
 *   any host# allreduce -r RANK eth0 FILE HOST0 HOST1 ... >SUM
 *
 * with the same hosts everywhere, RANK the own place among them from 0 on, and FILE raw floats of
 * the host, equally many everywhere.
 *
 * Shows a ring: each host WRITEs to the next, and weft_qp_arrived() of the one before says what is
 * here. The vector is cut into N chunks. In step s a host passes chunk RANK - s on: first N - 1
 * times with its own floats added (reduce-scatter; then each host has one chunk of the sum), then
 * N - 1 times as it is (all-gather). Chunks are cut into pieces, and a piece is passed on as soon as
 * it is here, so all links are busy all the time. Every place in memory is written by the network
 * once, at a place of its own for each step: nobody has to ask whether it may be written.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "common.h"

#define USAGE "allreduce [-p PORT] -r RANK DEV FILE HOST0 HOST1 ..."
#define PIECE (64 << 10) /* bytes of a piece, at least */
#define CUT   64         /* pieces of a chunk, at most */

/* What the one before in the ring must know. */
struct place {
	uint32_t work, sum; /* keys */
	uint64_t floats;
};

struct ring {
	unsigned n, rank, cut;      /* hosts, which of them this is, pieces of a chunk */
	uint64_t floats, chunk;     /* of a vector, of the largest chunk */
	struct weft_mr *in;         /* own floats */
	struct weft_mr *work, *sum; /* from the one before: partial sums by step, sums */
	struct weft_cq *cq;         /* of both */
	struct weft_qp *prev, *next;
	struct place to;       /* of the next */
	unsigned posted, done; /* WRITEs, and those completed */
};

/* Piece p of a chunk: floats [*from, *to) of the vector. */
static void bounds(const struct ring *r, unsigned chunk, unsigned p, uint64_t *from, uint64_t *to)
{
	uint64_t begin = r->floats * chunk / r->n, len = r->floats * (chunk + 1) / r->n - begin;

	*from = begin + len * p / r->cut;
	*to = begin + len * (p + 1) / r->cut;
}

/* The chunk that is sent in a step; what arrives in it is sent in the next. */
static unsigned chunk_of(const struct ring *r, unsigned step)
{
	return (r->rank + 2 * r->n - step) % r->n;
}

/* Where partial sum `at` is in `work`: each step of the reduce-scatter has room for a chunk. */
static uint64_t work_at(const struct ring *r, unsigned step, unsigned chunk, uint64_t at)
{
	return step * r->chunk + at - r->floats * chunk / r->n;
}

static void send_piece(struct ring *r, unsigned step, unsigned p)
{
	unsigned chunk = chunk_of(r, step);
	bool gather = step >= r->n - 1;
	struct weft_write w = { .rkey = gather ? r->to.sum : r->to.work };
	uint64_t from, to;

	bounds(r, chunk, p, &from, &to);
	w.len = (to - from) * sizeof(float);
	w.mr = !step ? r->in : gather ? r->sum : r->work;
	w.off = !step || gather ? from : work_at(r, step - 1, chunk, from);
	w.roff = gather ? from : work_at(r, step, chunk, from);
	w.off *= sizeof(float);
	w.roff *= sizeof(float);
	check(weft_post_write(r->next, &w));
	r->posted++;
}

/* Piece p of a step has come: add what is ours, if that is not done yet. */
static void take_piece(struct ring *r, unsigned step, unsigned p)
{
	unsigned chunk = chunk_of(r, step + 1);
	const float *own = weft_mr_addr(r->in);
	float *work = weft_mr_addr(r->work), *sum = weft_mr_addr(r->sum);
	uint64_t from, to;

	if (step >= r->n - 1)
		return;
	bounds(r, chunk, p, &from, &to);
	work += work_at(r, step, chunk, from);
	/* after the last addition it is everybody's */
	sum = step == r->n - 2 ? sum + from : work;
	for (own += from; from < to; from++)
		*sum++ = *work++ + *own++;
}

static void reap(struct ring *r)
{
	struct weft_wc wc;

	for (; weft_cq_poll(r->cq, &wc, 1); r->done++)
		if (wc.status != WEFT_WC_SUCCESS)
			errx(1, "the next host: %s", weft_wc_str(wc.status));
}

static void reduce(struct ring *r)
{
	unsigned steps = 2 * (r->n - 1), total = steps * r->cut, taken = 0;
	bool gone;

	for (unsigned p = 0; p < r->cut; p++)
		send_piece(r, 0, p);
	while (taken < total || r->done < total) {
		reap(r);
		gone = weft_qp_status(r->prev) != WEFT_WC_SUCCESS;
		if (taken < weft_qp_arrived(r->prev) && r->posted - r->done < WEFT_DEPTH) {
			take_piece(r, taken / r->cut, taken % r->cut);
			if (taken + r->cut < total)
				send_piece(r, taken / r->cut + 1, taken % r->cut);
			taken++;
		} else if (gone && taken < total && taken == weft_qp_arrived(r->prev)) {
			errx(1, "the host before: %s", weft_wc_str(weft_qp_status(r->prev)));
		} else {
			check(weft_cq_wait(r->cq, WEFT_ARM_TX | WEFT_ARM_RX, -1));
		}
	}
}

/* Host 0 connects to the next and waits for the last; all others first wait for the one before. */
static void make_ring(struct ring *r, struct weft_dev *dev, const struct args *a)
{
	const char *next = a->word[1 + (r->rank + 1) % r->n];
	struct place me = { weft_mr_key(r->work), weft_mr_key(r->sum), r->floats };
	struct weft_qp_opts o = { .size = sizeof(o), .priv = &me, .priv_len = sizeof(me) };
	struct weft_listener *l;

	check(weft_listen(dev, address(NULL, a->port), &l));
	check(weft_cq_create(dev, &r->cq));
	o.cq = r->cq;
	if (!r->rank)
		r->next = join(dev, next, a->port, &o, 60);
	o.connect_ms = 60000;
	warnx("waiting for %s", a->word[1 + (r->rank + r->n - 1) % r->n]);
	check(weft_accept(l, &o, &r->prev));
	if (r->rank)
		r->next = join(dev, next, a->port, &o, 60);
	introduction(r->next, &r->to, sizeof(r->to));
	if (r->to.floats != r->floats)
		errx(1, "the next host has %llu floats, this one %llu",
		     (unsigned long long)r->to.floats, (unsigned long long)r->floats);
	weft_listener_close(l);
}

int main(int argc, char **argv)
{
	struct args a = { .port = 7477, .count = -1 };
	struct ring r = { 0 };
	struct weft_dev *dev;
	struct stat st;
	size_t len;
	int fd;

	arguments(&a, argc, argv, "p:r:", USAGE);
	while (*a.word && a.word[1 + r.n])
		r.n++;
	r.rank = a.count;
	if (a.count >= r.n || r.n < 2)
		usage(USAGE);
	fd = open(*a.word, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", *a.word);
	r.floats = st.st_size / sizeof(float);
	len = r.floats * sizeof(float);
	r.chunk = r.floats / r.n + 1;
	r.cut = r.chunk * sizeof(float) / PIECE + 1;
	r.cut = r.cut > CUT ? CUT : r.cut;

	check(weft_open(a.dev, NULL, &dev));
	r.in = memory(dev, len, WEFT_LOCAL);
	r.work = memory(dev, (r.n - 1) * r.chunk * sizeof(float), WEFT_REMOTE_WRITE | WEFT_LOCAL);
	r.sum = memory(dev, len, WEFT_REMOTE_WRITE | WEFT_LOCAL);
	if (read(fd, weft_mr_addr(r.in), len) != (ssize_t)len)
		errx(1, "%s: is no file of floats, or changes", *a.word);
	make_ring(&r, dev, &a);
	reduce(&r);
	if (fwrite(weft_mr_addr(r.sum), 1, len, stdout) != len || fflush(stdout))
		err(1, "standard output");
	/* the one before ends first: an acknowledgement of ours may have been lost */
	weft_qp_close(r.next);
	while (weft_qp_status(r.prev) == WEFT_WC_SUCCESS)
		check(weft_cq_wait(r.cq, WEFT_ARM_RX, 100));
	weft_close(dev);
	return 0;
}
