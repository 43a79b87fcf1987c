/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unit tests of core/recv.h, and of what takes a receive in core/rx_track.h and core/ring.h. */

/* Somebody else may take an entry just before this one does. */
static void meddle(void *taken);
#define __sync_val_compare_and_swap(p, was, is)            \
	({                                                 \
		meddle(p);                                 \
		__sync_val_compare_and_swap_4(p, was, is); \
	})
#include "test_core_util.h"

static struct weft_rq rq;
static __u32 bind[WEFT_RQ_BIND], bound;
static __u32 thieves;
#define TRIES (WEFT_RQ_BIND + 8)

static void meddle(void *taken)
{
	if (thieves) {
		thieves--;
		++*(__u32 *)taken;
	}
}

/* As a QP that has begun n messages before, all polled. */
static void begin(__u32 n, __u32 prod)
{
	memset(&rq, 0, sizeof(rq));
	rq.prod = rq.taken = prod;
	bound = n;
	for (__u32 i = n - WEFT_RQ_BIND; i != n; i++)
		bind[i & (WEFT_RQ_BIND - 1)] = (i + 1) << 16;
	thieves = 0;
}

static enum weft_rq_found take(__u32 rsn, __u32 polled, __u32 *at)
{
	enum weft_rq_found f = weft_rq_bound(bind, rsn, at);
	__u32 taken;

	/* as bpf/recv.bpf.h, with each receive in the entry of its own number */
	for (int i = 0; i < TRIES && f != WEFT_RQ_OK; i++) {
		if (weft_rq_next(&rq, &taken) != WEFT_RQ_OK)
			return WEFT_RQ_NONE;
		f = weft_rq_take(&rq, bind, &bound, rsn, polled, taken, taken);
		if (f == WEFT_RQ_NONE)
			return f;
	}
	return f == WEFT_RQ_OK ? weft_rq_bound(bind, rsn, at) : WEFT_RQ_NONE;
}

/* ---- a queue of one QP ---- */

static void own__by_number(void **state)
{
	static const __u32 starts[] = { 0, 100, 0x7ffffff0, 0x80000000, 0xfffffff8 };
	__u32 at;

	(void)state;
	for (size_t k = 0; k < sizeof(starts) / sizeof(*starts); k++) {
		__u32 n = starts[k];

		rq.prod = n + 16;
		for (__u32 i = 0; i < 16; i++) {
			assert_int_equal(weft_rq_own(&rq, n + i, n, &at), WEFT_RQ_OK);
			assert_int_equal(at & (WEFT_RQ_DEPTH - 1), (n + i) & (WEFT_RQ_DEPTH - 1));
		}
		assert_int_equal(weft_rq_own(&rq, n + 16, n, &at), WEFT_RQ_NONE);
		assert_int_equal(weft_rq_own(&rq, n + 17, n, &at), WEFT_RQ_NONE);
	}
}

/* What is complete, and what no sender can have out, is nothing to wait for. */
static void own__only_in_the_window(void **state)
{
	__u32 at;

	(void)state;
	rq.prod = 5000;
	assert_int_equal(weft_rq_own(&rq, 99, 100, &at), WEFT_RQ_OLD);
	assert_int_equal(weft_rq_own(&rq, 100, 100, &at), WEFT_RQ_OK);
	assert_int_equal(weft_rq_own(&rq, 100 + WEFT_WIN - 1, 100, &at), WEFT_RQ_OK);
	assert_int_equal(weft_rq_own(&rq, 100 + WEFT_WIN, 100, &at), WEFT_RQ_OLD);
	rq.prod = 50;
	assert_int_equal(weft_rq_own(&rq, 100, 100, &at), WEFT_RQ_NONE);
}

/* ---- a shared queue ---- */

static void take__in_the_order_of_numbers(void **state)
{
	__u32 at;

	(void)state;
	begin(0xfffffffe, 0xffff);
	rq.prod += 8;
	/* the third comes first: the two before it have theirs already */
	assert_int_equal(take(0, 0xfffffffe, &at), WEFT_RQ_OK);
	assert_int_equal(at, 1);
	assert_int_equal(rq.taken, 0xffff + 3);
	assert_int_equal(bound, 1);
	assert_int_equal(weft_rq_bound(bind, 0xfffffffe, &at), WEFT_RQ_OK);
	assert_int_equal(at, 0xffff);
	assert_int_equal(weft_rq_bound(bind, 0xffffffff, &at), WEFT_RQ_OK);
	assert_int_equal(at, 0);
	/* none is taken twice */
	assert_int_equal(take(0xffffffff, 0xfffffffe, &at), WEFT_RQ_OK);
	assert_int_equal(at, 0);
	assert_int_equal(take(0, 0xfffffffe, &at), WEFT_RQ_OK);
	assert_int_equal(at, 1);
	assert_int_equal(rq.taken, 0xffff + 3);
	assert_int_equal(take(1, 0xfffffffe, &at), WEFT_RQ_OK);
	assert_int_equal(at, 2);
}

/* Too few for all: those that complete first get them. */
static void take__the_first_of_them(void **state)
{
	__u32 at;

	(void)state;
	begin(10, 500);
	assert_int_equal(take(10, 10, &at), WEFT_RQ_NONE);
	rq.prod += 2;
	assert_int_equal(take(14, 10, &at), WEFT_RQ_NONE);
	assert_int_equal(bound, 12);
	assert_int_equal(rq.taken, 502);
	assert_int_equal(weft_rq_bound(bind, 11, &at), WEFT_RQ_OK);
	assert_int_equal(at, 501);
	assert_int_equal(weft_rq_bound(bind, 12, &at), WEFT_RQ_NONE);
	assert_int_equal(take(10, 10, &at), WEFT_RQ_OK);
	assert_int_equal(at, 500);
	rq.prod += 9;
	assert_int_equal(take(14, 10, &at), WEFT_RQ_OK);
	assert_int_equal(at, 504);
	assert_int_equal(rq.taken, 505);
}

static void take__as_many_as_can_be_noted(void **state)
{
	__u32 at;

	(void)state;
	begin(1000, 0);
	rq.prod = 20000;
	assert_int_equal(take(1000 + WEFT_RQ_BIND, 1000, &at), WEFT_RQ_NONE);
	assert_int_equal(take(999, 1000, &at), WEFT_RQ_OK);
	assert_int_equal(rq.taken, 0);
	assert_int_equal(take(1000 + WEFT_RQ_BIND - 1, 1000, &at), WEFT_RQ_OK);
	assert_int_equal(rq.taken, WEFT_RQ_BIND);
	for (__u32 i = 0; i < WEFT_RQ_BIND; i++) {
		assert_int_equal(weft_rq_bound(bind, 1000 + i, &at), WEFT_RQ_OK);
		assert_int_equal(at, i);
	}
	/* one more when one is polled */
	assert_int_equal(take(1000 + WEFT_RQ_BIND, 1000, &at), WEFT_RQ_NONE);
	assert_int_equal(take(1000 + WEFT_RQ_BIND, 1001, &at), WEFT_RQ_OK);
	assert_int_equal(at, WEFT_RQ_BIND);
	/* its place is another's now: who was polled finds nothing, and takes nothing */
	assert_int_equal(weft_rq_bound(bind, 1000, &at), WEFT_RQ_NONE);
	assert_int_equal(take(1000, 1001, &at), WEFT_RQ_NONE);
	assert_int_equal(rq.taken, WEFT_RQ_BIND + 1);
}

/* The tag has 16 bits, the place 8 more of the number: 2^16 messages later it is another's. */
static void take__tags_wrap(void **state)
{
	__u32 at, n = 0xfffe0000;

	(void)state;
	begin(n, 7);
	for (__u32 i = 0; i < 0x30000; i++) {
		assert_int_equal(weft_rq_bound(bind, n + i, &at), WEFT_RQ_NONE);
		rq.prod++;
		assert_int_equal(take(n + i, n + i, &at), WEFT_RQ_OK);
		assert_int_equal(at, (7 + i) & 0xffff);
	}
}

/* The count of receives wraps as well, and may be anything when a QP begins. */
static void take__count_wraps(void **state)
{
	__u32 at;

	(void)state;
	begin(3, 0xffffffff);
	assert_int_equal(take(3, 3, &at), WEFT_RQ_NONE);
	rq.prod = 1;
	assert_int_equal(take(4, 3, &at), WEFT_RQ_OK);
	assert_int_equal(at, 0);
	assert_int_equal(take(5, 3, &at), WEFT_RQ_NONE);
	/* an application that counts back has posted nothing */
	rq.prod = 0xfffffff0;
	assert_int_equal(take(5, 3, &at), WEFT_RQ_NONE);
	assert_int_equal(rq.taken, 1);
}

static void take__against_others(void **state)
{
	__u32 at;

	(void)state;
	begin(0, 0);
	rq.prod = 100;
	thieves = 3;
	assert_int_equal(take(1, 0, &at), WEFT_RQ_OK);
	assert_int_equal(at, 4);
	assert_int_equal(rq.taken, 5);
	/* the last ones go to somebody else */
	rq.prod = 7;
	thieves = 2;
	assert_int_equal(take(2, 0, &at), WEFT_RQ_NONE);
	assert_int_equal(rq.taken, 7);
	assert_int_equal(bound, 2);
	/* who is always too late has taken nothing */
	rq.prod = 100;
	thieves = 200;
	assert_int_equal(take(2, 0, &at), WEFT_RQ_NONE);
	assert_int_equal(bound, 2);
	assert_int_equal(rq.taken, 100);
	assert_int_equal(weft_rq_bound(bind, 2, &at), WEFT_RQ_NONE);
}

static void room__of_all_pieces(void **state)
{
	struct weft_rq_sge sge[WEFT_RQ_SGES] = {
		{ .len = 0xffffffff }, { .len = 0xffffffff }, { .len = 1 }, { .len = 0 }
	};

	(void)state;
	assert_true(weft_rqe_room(sge) == 0x1ffffffffull);
}

/* ---- offers ---- */

static void offer__tells_who_waits(void **state)
{
	struct weft_ring *r = test_calloc(1, sizeof(*r));

	(void)state;
	rq.prod = 0;
	assert_int_equal(weft_ring_offer(r, &rq.prod, 3), 0);
	assert_int_equal(rq.prod, 3);
	r->refused = 1;
	assert_int_equal(weft_ring_offer(r, &rq.prod, 4), 1);
	assert_int_equal(r->refused, 0);
	assert_int_equal(weft_ring_offer(r, &rq.prod, 5), 0);
	test_free(r);
}

static void epoch__of_a_shared_queue_counts_polls(void **state)
{
	struct weft_ring *r = test_calloc(1, sizeof(*r));

	(void)state;
	rq.prod = 0xfffffffe;
	r->rq_polled = 5;
	assert_int_equal(weft_rq_epoch(&rq, r, 0), 0xfffffffe);
	assert_int_equal(weft_rq_epoch(&rq, r, 1), 3);
	test_free(r);
}

/* ---- receive tracking ---- */

static struct weft_rx rx;

static void place(__u32 psn, enum weft_rx_last last)
{
	assert_int_equal(weft_rx_claim(&rx, psn, last), WEFT_RX_NEW);
	if (weft_rx_commit(&rx, psn))
		weft_rx_catch_up(&rx);
}

static void assert_no_bits(void)
{
	for (int i = 0; i < WEFT_WIN_WORDS; i++)
		assert_true(!rx.word[i].claimed && !rx.word[i].placed && !rx.word[i].last &&
			    !rx.word[i].quiet && !rx.word[i].recv && !rx.word[i].sol);
}

static void recv__completes_in_order(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0xfffffff0);
	rx.rdone = 0xffffffff;
	place(0xfffffff2, WEFT_RX_SOL);
	place(0xfffffff1, WEFT_RX_RECV);
	assert_int_equal(rx.rdone, 0xffffffff);
	assert_int_equal(rx.nlast, 2);
	place(0xfffffff0, WEFT_RX_ARRIVAL);
	assert_int_equal(rx.rdone, 1);
	assert_int_equal(rx.solicited, 1);
	assert_int_equal(rx.msn, 3);
	assert_int_equal(rx.quiet, 0);
	assert_int_equal(rx.nlast, 0);
	assert_no_bits();
}

/* Over whole windows, each kind where another was before. */
static void recv__kinds_do_not_stay(void **state)
{
	__u32 n[WEFT_RX_SOL + 1] = { 0 };

	(void)state;
	weft_rx_init(&rx, 0);
	for (__u32 w = 0; w < 6; w++)
		for (__u32 i = WEFT_WIN; i-- > 0;) {
			__u32 psn = w * WEFT_WIN + i;
			enum weft_rx_last last = (psn + w) % (WEFT_RX_SOL + 1);

			n[last]++;
			place(psn, last);
		}
	weft_rx_catch_up(&rx);
	weft_rx_catch_up(&rx);
	weft_rx_catch_up(&rx);
	assert_int_equal(rx.next, 6 * WEFT_WIN);
	assert_int_equal(rx.rdone, n[WEFT_RX_RECV] + n[WEFT_RX_SOL]);
	assert_int_equal(rx.solicited, n[WEFT_RX_SOL]);
	assert_int_equal(rx.quiet, n[WEFT_RX_QUIET]);
	assert_int_equal(rx.msn, 6 * WEFT_WIN - n[WEFT_RX_MORE]);
	assert_int_equal(rx.nlast, 0);
	assert_no_bits();
}

/* Refused: as if it had not come. */
static void give_back__leaves_nothing(void **state)
{
	struct weft_rx_sack k;

	(void)state;
	weft_rx_init(&rx, 5);
	assert_int_equal(weft_rx_take(&rx, 6), WEFT_RX_NEW);
	assert_int_equal(weft_rx_take(&rx, 6), WEFT_RX_BUSY);
	weft_rx_give_back(&rx, 6);
	assert_no_bits();
	weft_rx_sack(&rx, 6, &k);
	assert_true(!k.bits);
	place(6, WEFT_RX_RECV);
	place(5, WEFT_RX_RECV);
	assert_int_equal(rx.rdone, 2);
	assert_no_bits();
}

/* A peer that gives three messages the number 7: of a shared queue one receive is taken, and one complete. */
static void received__no_more_than_taken(void **state)
{
	(void)state;
	for (__u32 shared = 0; shared < 2; shared++) {
		weft_rx_init(&rx, 0);
		rx.shared = shared;
		rx.rdone = 7;
		rx.bound = 8;
		for (__u32 psn = 2; psn < 3; psn--)
			place(psn, WEFT_RX_SOL);
		assert_int_equal(rx.next, 3);
		assert_int_equal(rx.msn, 3);
		assert_int_equal(rx.rdone, shared ? 8 : 10);
		assert_no_bits();
	}
}

/* Passed between claim and keep: its bits are not left for the PSN one window on. */
static void give_back__of_what_is_old(void **state)
{
	(void)state;
	weft_rx_init(&rx, 0);
	place(0, WEFT_RX_SOL);
	rx.next = 0;
	assert_int_equal(weft_rx_take(&rx, 0), WEFT_RX_NEW);
	rx.next = 1;
	assert_int_equal(weft_rx_keep(&rx, 0, WEFT_RX_SOL), WEFT_RX_DUP);
	assert_int_equal(rx.nlast, 0);
	assert_no_bits();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own__by_number),
		cmocka_unit_test(own__only_in_the_window),
		cmocka_unit_test(take__in_the_order_of_numbers),
		cmocka_unit_test(take__the_first_of_them),
		cmocka_unit_test(take__as_many_as_can_be_noted),
		cmocka_unit_test(take__tags_wrap),
		cmocka_unit_test(take__count_wraps),
		cmocka_unit_test(take__against_others),
		cmocka_unit_test(room__of_all_pieces),
		cmocka_unit_test(offer__tells_who_waits),
		cmocka_unit_test(epoch__of_a_shared_queue_counts_polls),
		cmocka_unit_test(recv__completes_in_order),
		cmocka_unit_test(recv__kinds_do_not_stay),
		cmocka_unit_test(give_back__leaves_nothing),
		cmocka_unit_test(received__no_more_than_taken),
		cmocka_unit_test(give_back__of_what_is_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
