// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * netlitmus: a flag behind its data, and somebody who watches the memory meanwhile. In strict order
 * who sees the flag sees the data; otherwise not always, for what is repaired is overtaken. Public API only.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "netcommon.h"

#define DATA     40000u     /* bytes of a WRITE before the flag: several packets */
#define TAIL     (DATA - 8) /* its last word is a flag as well */
#define AT_FLAG  (DATA + 64)
#define AT_COUNT (DATA + 128)
#define AT_READ  (DATA + 192) /* on the sender's side */
#define AREA     (1u << 17)

static struct weft_dev *dev_a, *dev_b;
static struct weft_listener *listener;
static struct weft_qp *tx, *rx;
static struct weft_mr *src_mr, *area_mr;
static uint8_t *src, *area;
static uint64_t key;
static unsigned rounds, early; /* early: flags seen before their data */
static bool strict;
static atomic_uint seen; /* round whose flag the watcher has seen */

static uint64_t word_of(uint64_t round, uint32_t i)
{
	return (round << 32 | i) * 0x9e3779b97f4a7c15ull | 1;
}

/* The first n words are those of this round; what lies next to the flag is looked at first. */
static bool there(uint64_t round, uint32_t n)
{
	for (uint32_t i = n; i--;)
		if (((volatile uint64_t *)area)[i] != word_of(round, i))
			return false;
	return true;
}

/* Rounds go: data with a flag in its last word; a flag of its own; an atomic that counts. */
enum { BY_TAIL, BY_FLAG, BY_ATOMIC, BY_KINDS };

static bool flagged(unsigned r)
{
	switch (r % BY_KINDS) {
	case BY_TAIL: return *(volatile uint64_t *)(area + TAIL) == r;
	case BY_FLAG: return *(volatile uint64_t *)(area + AT_FLAG) == r;
	default: return *(volatile uint64_t *)(area + AT_COUNT) == r / BY_KINDS + 1;
	}
}

static void *watch(void *arg)
{
	(void)arg;
	for (unsigned r = 1; r <= rounds && !stop; r++) {
		while (!flagged(r) && !stop)
			;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (stop)
			break;
		if (!there(r, TAIL / 8)) {
			early++;
			if (strict)
				bad("round %u: the flag is there, its data is not", r);
		}
		seen = r;
	}
	return NULL;
}

static void reap(unsigned n)
{
	struct weft_wc wc;
	double end = now_s() + 60;

	while (n && !wrong) {
		if (weft_cq_poll(weft_qp_cq(tx), &wc, 1)) {
			if (wc.status)
				bad("request %llu: %s", (unsigned long long)wc.wr_id,
				    weft_wc_str(wc.status));
			n--;
		} else if (now_s() > end) {
			bad("no completion within 60 s");
		}
	}
}

/* Data, its flag, and a READ that must bring what was written. */
static void round_of(unsigned r)
{
	struct weft_sge d = { src_mr, 0, DATA }, f = { src_mr, AT_FLAG, 8 },
			back = { src_mr, AT_READ, 8 }, old = { src_mr, AT_COUNT, 8 };
	struct weft_wr wr[3] = { { .op = WEFT_WR_WRITE, .sge = &d, .nsge = 1, .rkey = key } };
	unsigned n = 1;

	for (uint32_t i = 0; i < TAIL / 8; i++)
		((uint64_t *)src)[i] = word_of(r, i);
	*(uint64_t *)(src + TAIL) = r;
	*(uint64_t *)(src + AT_FLAG) = r;
	if (r % BY_KINDS == BY_FLAG)
		wr[n++] = (struct weft_wr){
			.op = WEFT_WR_WRITE, .sge = &f, .nsge = 1, .rkey = key, .roff = AT_FLAG
		};
	else if (r % BY_KINDS == BY_ATOMIC)
		wr[n++] = (struct weft_wr){ .op = WEFT_WR_FETCH_ADD,
					    .sge = &old,
					    .nsge = 1,
					    .rkey = key,
					    .roff = AT_COUNT,
					    .operand = 1 };
	if (strict)
		wr[n++] = (struct weft_wr){
			.op = WEFT_WR_READ, .sge = &back, .nsge = 1, .rkey = key, .roff = TAIL
		};
	must(weft_post(tx, wr, n) == (int)n, "weft_post");
	reap(n);
	if (strict && *(uint64_t *)(src + AT_READ) != r)
		bad("round %u: the READ behind the WRITE brought %llu", r,
		    (unsigned long long)*(uint64_t *)(src + AT_READ));
}

static void *accept_one(void *arg)
{
	struct weft_qp_opts o = {
		.size = sizeof(o), .timeout_ms = 5000, .priv = &key, .priv_len = sizeof(key)
	};

	(void)arg;
	need(weft_accept(listener, &o, &rx), "weft_accept");
	return NULL;
}

int main(int argc, char **argv)
{
	struct weft_qp_opts o = { .size = sizeof(o), .timeout_ms = 5000 };
	pthread_t t;
	double end;
	char addr[80];

	if (argc < 8) {
		fputs("usage: netlitmus NETNS-A DEV-A NETNS-B DEV-B HOST-B strict|relaxed ROUNDS\n",
		      stderr);
		return 2;
	}
	o.strict = strict = !strcmp(argv[6], "strict");
	rounds = atoi(argv[7]);
	nw.rounds = rounds;
	need(weft_open(argv[2], WEFT_OPTS(struct weft_open_opts, .netns = argv[1]), &dev_a),
	     "weft_open");
	need(weft_open(argv[4], WEFT_OPTS(struct weft_open_opts, .netns = argv[3]), &dev_b),
	     "weft_open");
	need(weft_alloc(dev_a, AREA, (void **)&src), "weft_alloc");
	need(weft_mr_reg(dev_a, NULL, src, AREA, WEFT_LOCAL | WEFT_LOCAL_WRITE, &src_mr),
	     "weft_mr_reg");
	need(weft_alloc(dev_b, AREA, (void **)&area), "weft_alloc");
	need(weft_mr_reg(dev_b, NULL, area, AREA,
			 WEFT_REMOTE_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC, &area_mr),
	     "weft_mr_reg");
	key = weft_mr_key(area_mr);
	need(weft_listen(dev_b, ":7700", &listener), "weft_listen");
	pthread_create(&t, NULL, accept_one, NULL);
	snprintf(addr, sizeof(addr), "%s:7700", argv[5]);
	need(weft_connect(dev_a, addr, &o, &tx), "weft_connect");
	pthread_join(t, NULL);
	pthread_create(&t, NULL, watch, NULL);
	for (unsigned r = 1; r <= rounds && !wrong; r++) {
		round_of(r);
		for (end = now_s() + 60; seen < r && !wrong;)
			if (now_s() > end)
				bad("round %u: the flag does not come", r);
	}
	stop = true;
	pthread_join(t, NULL);
	say("%u rounds, %u flags before their data", rounds, early);
	weft_close(dev_a);
	weft_close(dev_b);
	return wrong != 0;
}
