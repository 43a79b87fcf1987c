// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * counter: tickets that are drawn from another host's memory, each number once.
 *
 *   B# counter eth0                   keeps the numbers; at ^C says how many were drawn
 *   A# counter eth0 10.9.0.2          draws 1000 and prints them; -n TIMES
 *
 * Shows both atomics. A ticket is what FETCH_ADD returns; many are under way at a time, and come
 * in no order. Then CMP_SWAP in a loop raises the record, the highest ticket anybody has, as one
 * does with a variable that threads share. The owner's processor has no part in it, and no client
 * asks another. Atomics are carried out exactly once, whatever is lost on the way.
 */
#include "common.h"

#define USAGE "counter [-p PORT] [-n TICKETS] [-e] DEV [HOST]"

/* In the server's memory, and nothing else. */
struct numbers {
	uint64_t next;   /* the ticket that is drawn next */
	uint64_t record; /* 1 + the highest that a client has drawn and told */
};

static void server(struct weft_dev *dev, const struct args *a)
{
	struct weft_mr *mr = memory(dev, sizeof(struct numbers), WEFT_REMOTE_ATOMIC);
	const struct numbers *n = weft_mr_addr(mr);
	uint32_t key = weft_mr_key(mr);
	struct weft_qp_opts o = { .size = sizeof(o), .priv = &key, .priv_len = sizeof(key) };

	serve(dev, a->port, o);
	printf("%llu tickets drawn, the record is %llu\n",
	       (unsigned long long)__atomic_load_n(&n->next, __ATOMIC_RELAXED),
	       (unsigned long long)__atomic_load_n(&n->record, __ATOMIC_RELAXED));
}

struct client {
	struct weft_qp *qp;
	struct weft_mr *mr; /* where old values come to: one for each that may be under way */
	uint64_t *old;
	uint32_t key;
	bool sleep;
};

/* Post one atomic; its old value comes to old[i]. */
static void post(struct client *c, unsigned i, enum weft_wr_op op, uint64_t where, uint64_t operand,
		 uint64_t compare)
{
	struct weft_sge piece = { .mr = c->mr, .off = 8 * i, .len = 8 };
	struct weft_wr wr = {
		.wr_id = i,
		.op = op,
		.sge = &piece,
		.nsge = 1,
		.rkey = c->key,
		.roff = where,
		.operand = operand,
		.compare = compare,
	};

	check(weft_post(c->qp, &wr, 1));
}

static void draw(struct client *c, unsigned i)
{
	post(c, i, WEFT_WR_FETCH_ADD, offsetof(struct numbers, next), 1, 0);
}

/* Draw as many tickets, and print each; 1 + the highest, 0 if there is none. */
static uint64_t tickets(struct client *c, unsigned long count)
{
	unsigned long asked = 0;
	uint64_t highest = 0;
	unsigned i;

	for (; asked < count && asked < WEFT_ATOMICS_MAX; asked++)
		draw(c, asked);
	for (unsigned long had = 0; had < count; had++) {
		i = completion(c->qp, c->sleep).wr_id;
		printf("%llu\n", (unsigned long long)c->old[i]);
		if (c->old[i] >= highest)
			highest = c->old[i] + 1;
		if (asked++ < count)
			draw(c, i);
	}
	return highest;
}

/* Raise the record to `mine`, unless it is higher. */
static void tell(struct client *c, uint64_t mine)
{
	uint64_t record = 0; /* a guess, until the first answer */

	while (record < mine) {
		post(c, 0, WEFT_WR_CMP_SWAP, offsetof(struct numbers, record), mine, record);
		completion(c->qp, c->sleep);
		if (c->old[0] == record)
			return; /* it was what we thought, and now it is ours */
		record = c->old[0];
	}
}

static void client(struct weft_dev *dev, const struct args *a)
{
	struct client c = { .mr = memory(dev, 8 * WEFT_ATOMICS_MAX, WEFT_LOCAL_WRITE),
			    .sleep = a->sleep };

	c.old = weft_mr_addr(c.mr);
	c.qp = join(dev, a->word[0], a->port, NULL, 2);
	introduction(c.qp, &c.key, sizeof(c.key));
	tell(&c, tickets(&c, a->count));
}

int main(int argc, char **argv)
{
	struct args a = { .port = 7476, .count = 1000 };
	struct weft_dev *dev;

	arguments(&a, argc, argv, "p:n:e", USAGE);
	check(weft_open(a.dev, NULL, &dev));
	if (*a.word)
		client(dev, &a);
	else
		server(dev, &a);
	weft_close(dev);
	return 0;
}
