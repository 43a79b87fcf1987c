// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The list of QPs that wait for a token: searched in a circle, and also while one more comes into it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fixture.h"
#include "internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LEN      (1 << 20) /* of the message: more packets than any window here */

/* Those that wait are served in turn, each word and each bit of the list, and once around. */
static void wait__in_turn(void **state)
{
	static const uint32_t turns[] = { 0, 1, 31, 63, 64, 75, 111, 128, 1000, 2047, 2048 };
	struct fx_qp *q = &fx.qp[A4];

	(void)state;
	for (size_t i = 0; i < COUNT(turns); i++) {
		uint32_t turn = turns[i];

		for (uint32_t a = 0; a < 2 * WEFT_QPS_MAX; a += 67) {
			/* two of them, or only one */
			uint32_t b = a < WEFT_QPS_MAX ? (a + 101) % WEFT_QPS_MAX : a % WEFT_QPS_MAX;
			uint32_t at = turn % WEFT_QPS_MAX;
			bool a_first = (a - at) % WEFT_QPS_MAX < (b - at) % WEFT_QPS_MAX;
			struct weft_devrun want;
			uint32_t ts;

			/* nobody lives there: the token dies after both have been asked */
			if (a % WEFT_QPS_MAX == q->slot || b == q->slot)
				continue;
			fx_reset(NULL);
			ts = fx_hold(q, 2, LEN);
			fx_waits(a % WEFT_QPS_MAX);
			fx_waits(b);
			fx.run->dom[0].inflight = 96;
			fx.run->dom[0].turn = turn;
			assert_int_equal(fx_ack(q, 0, ts), XDP_DROP);
			expect_counters("rx_ack absorbed");
			want = fx.before.run;
			memset(want.dom[0].wait, 0, sizeof(want.dom[0].wait));
			want.dom[0].any = 0; /* nobody was left for the third look */
			want.dom[0].inflight = 95;
			want.dom[0].turn = (a_first ? b : a % WEFT_QPS_MAX) + 1;
			expect_bytes(&fx.after.run, &want, sizeof(want));
		}
	}
}

/*
 * Two who begin to wait while the search forgets their word, from another CPU, as wait_turn() does:
 * one is found, and for the other the word is not forgotten. When is chance; so it goes on until
 * the word had been forgotten often.
 */
#define LATE_SLOT 1999

static struct {
	atomic_bool end;
	atomic_int lost, met;
	atomic_uint acks; /* that are over */
} late;

/* Somebody waits, and it does not say so where it is looked for. */
static bool unseen(const __u64 *word, __u64 bits, const __u32 *any, __u32 in_any)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST) & bits &&
	       !(__atomic_load_n(any, __ATOMIC_SEQ_CST) & in_any);
}

static void *begin_to_wait(void *arg)
{
	__u64 *word = &fx.run->dom[0].wait[LATE_SLOT / 64], bits = 3ull << LATE_SLOT % 64;
	__u32 *any = &fx.run->dom[0].any, in_any = 1u << LATE_SLOT / 64;
	unsigned before;
	cpu_set_t others;

	memset(&others, 0xff, sizeof(others));
	CPU_CLR(*(int *)arg, &others);
	sched_setaffinity(0, sizeof(others), &others);
	while (!late.end) {
		__sync_fetch_and_or(word, bits);
		if (!(__atomic_load_n(any, __ATOMIC_RELAXED) & in_any)) {
			__sync_fetch_and_or(any, in_any);
			late.met++;
		}
		/* who asks for the next turn meanwhile is not done with that when three ACKs are over */
		before = late.acks;
		while (unseen(word, bits, any, in_any))
			if (late.acks - before > 2 || late.end) {
				late.lost += unseen(word, bits, any, in_any);
				break;
			}
		__sync_fetch_and_and(word, ~bits);
	}
	return NULL;
}

static void wait__begins_meanwhile(void **state)
{
	uint64_t end = weft_now_ns() + 200000000000;
	struct fx_qp *q = &fx.qp[A4];
	int here = fx_stay_here();
	pthread_t thread;
	uint32_t ts;

	(void)state;
	late.lost = late.met = 0;
	while (late.met < 2000 && !late.lost) {
		fx_reset(NULL);
		ts = fx_hold(q, 64, 64 * FX_FULL);
		late.end = false;
		assert_int_equal(pthread_create(&thread, NULL, begin_to_wait, &here), 0);
		/* nothing more to send: each of them asks whose turn it is */
		for (uint32_t i = 0; i < 64; i++) {
			fx_ack(q, i, ts);
			late.acks++;
		}
		late.end = true;
		pthread_join(thread, NULL);
		assert_true(weft_now_ns() < end);
	}
	assert_int_equal(late.lost, 0);
}

const struct CMUnitTest fx_tests_turn[] = {
	FX_TEST(wait__in_turn),
	FX_TEST(wait__begins_meanwhile),
	FX_END,
};
