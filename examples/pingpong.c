// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * pingpong: how long a WRITE takes there and back.
 *
 *   B# pingpong eth0                 waits for one client, and answers him; -s as he has
 *   A# pingpong eth0 10.9.0.2        1000 times 8 bytes; -n TIMES, -s BYTES
 *
 * Shows how each side learns the other's key, how it knows that a message has arrived
 * (weft_qp_arrived(), never the last byte), and when memory may be used again: what is sent, after
 * its completion. Both poll, which is fastest; with -e they sleep.
 */
#include <time.h>

#include "common.h"

#define USAGE "pingpong [-p PORT] [-n TIMES] [-s BYTES] [-e] DEV [HOST]"

/* Each tells the other at set-up where to write to. */
struct side {
	uint32_t key;
	uint32_t len;
};

struct game {
	struct args a;
	struct weft_mr *in, *out;
	struct weft_qp *qp;
	struct side peer;
};

/* Wait until n messages of the peer are wholly here; false: he has gone before. */
static bool arrived(struct game *g, uint32_t n)
{
	bool gone = false;

	while ((int32_t)(weft_qp_arrived(g->qp) - n) < 0) {
		if (gone)
			return false;
		/* gone before this look at what has arrived, not after it */
		gone = weft_qp_status(g->qp) != WEFT_WC_SUCCESS;
		if (g->a.sleep && !gone)
			check(weft_cq_wait(weft_qp_cq(g->qp), WEFT_ARM_RX, -1));
	}
	return true;
}

static void hit(struct game *g)
{
	struct weft_write w = { .mr = g->out, .len = g->a.size, .rkey = g->peer.key };

	check(weft_post_write(g->qp, &w));
}

static void server(struct game *g)
{
	for (uint32_t n = 1; arrived(g, n); n++) {
		memcpy(weft_mr_addr(g->out), weft_mr_addr(g->in), g->a.size);
		hit(g);
		completion(g->qp, g->a.sleep);
	}
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void client(struct game *g)
{
	double *us = calloc(g->a.count, sizeof(*us));
	unsigned long n = g->a.count;

	for (unsigned long i = 0; i < n; i++) {
		memset(weft_mr_addr(g->out), i % 255 + 1, g->a.size);
		us[i] = now_us();
		hit(g);
		if (!arrived(g, i + 1))
			errx(1, "%s", weft_wc_str(weft_qp_status(g->qp)));
		us[i] = now_us() - us[i];
		completion(g->qp, g->a.sleep);
		if (memcmp(weft_mr_addr(g->in), weft_mr_addr(g->out), g->a.size))
			errx(1, "what came back is not what was sent");
	}
	qsort(us, n, sizeof(*us), by_size);
	printf("%lu times %lu bytes there and back: p50 %.2f us, p99 %.2f us, p99.9 %.2f us\n", n,
	       g->a.size, us[n / 2], us[n * 99 / 100], us[n * 999 / 1000]);
	free(us);
}

int main(int argc, char **argv)
{
	struct game g = { .a = { .port = 7474, .count = 1000, .size = 8 } };
	struct weft_listener *l;
	struct weft_dev *dev;
	struct side me;

	arguments(&g.a, argc, argv, "p:n:s:e", USAGE);
	check(weft_open(g.a.dev, NULL, &dev));
	if (!g.a.size || g.a.size > 1 << 30 || !g.a.count)
		errx(1, "%lu times %lu bytes; 1 or more, up to 1 GiB", g.a.count, g.a.size);
	g.in = memory(dev, g.a.size, WEFT_REMOTE_WRITE);
	g.out = memory(dev, g.a.size, WEFT_LOCAL);
	me = (struct side){ .key = weft_mr_key(g.in), .len = g.a.size };

	struct weft_qp_opts o = {
		.size = sizeof(o), .priv = &me, .priv_len = sizeof(me), .connect_ms = ~0u
	};
	if (*g.a.word) {
		o.connect_ms = 0;
		g.qp = join(dev, *g.a.word, g.a.port, &o, 2);
	} else {
		check(weft_listen(dev, address(NULL, g.a.port), &l));
		check(weft_accept(l, &o, &g.qp));
	}
	introduction(g.qp, &g.peer, sizeof(g.peer));
	if (g.peer.len != g.a.size)
		errx(1, "the peer has %u bytes, not %lu; give both the same -s", g.peer.len,
		     g.a.size);
	if (*g.a.word)
		client(&g);
	else
		server(&g);
	weft_close(dev);
	return 0;
}
