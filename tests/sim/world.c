/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Virtual time: the event queue, frames, and one seed's run from start to end. */
#include "sim.h"

struct world W;
struct stats total;
uint64_t sim_rng[4];
uint8_t sim_src[SIM_SRC];

void rng_seed(uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += 0x9e3779b97f4a7c15ull);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		sim_rng[i] = z ^ (z >> 31);
	}
}

/* ---- frames ---- */

static struct frame *spare;

struct frame *frame_new(void)
{
	struct frame *f = spare;

	if (f)
		spare = f->next;
	else if (!(f = malloc(sizeof(*f))))
		abort();
	memset(f, 0, offsetof(struct frame, payload));
	W.live_frames++;
	return f;
}

void frame_free(struct frame *f)
{
	f->next = spare;
	spare = f;
	W.live_frames--;
}

/* ---- events: a binary heap by time, then by order of creation ---- */

struct event {
	uint64_t when, seq;
	void *p;
	uint32_t a;
	enum event_kind kind;
};

#define HEAP_MAX (1 << 16)
static struct event heap[HEAP_MAX];
static uint32_t heap_n;
static uint64_t heap_seq;

static int earlier(const struct event *a, const struct event *b)
{
	return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

void event_at(uint64_t when, enum event_kind kind, uint32_t a, void *p)
{
	struct event e = { when, heap_seq++, p, a, kind };
	uint32_t i = heap_n++;

	if (heap_n >= HEAP_MAX) {
		heap_n = HEAP_MAX - 1;
		fail("I8", "more than %d events pending", HEAP_MAX);
		return;
	}
	for (; i && earlier(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event event_next(void)
{
	struct event top = heap[0], e = heap[--heap_n];
	uint32_t i = 0, k;

	while ((k = 2 * i + 1) < heap_n) {
		if (k + 1 < heap_n && earlier(&heap[k + 1], &heap[k]))
			k++;
		if (!earlier(&heap[k], &e))
			break;
		heap[i] = heap[k];
		i = k;
	}
	heap[i] = e;
	return top;
}

__u32 ticks_now(void)
{
	return W.p.tick0 + (__u32)(W.now >> WEFT_TS_SHIFT);
}

/* ---- a run ---- */

static void dispatch(const struct event *e)
{
	switch (e->kind) {
	case EVENT_CPU: cpu_run(e->p); break;
	case EVENT_ARRIVE: {
		struct frame *f = e->p;

		cpu_enqueue(f->host, f->cpu, f);
		break;
	}
	case EVENT_APP: app_run(W.conn[e->a]); break;
	case EVENT_TIMER: app_timer(W.conn[e->a]); break;
	case EVENT_CHANGE: app_change(W.conn[e->a]); break;
	case EVENT_RESET: app_reset(W.conn[e->a]); break;
	case EVENT_RECV: recv_run(e->a); break;
	}
}

static void start(const struct params *p)
{
	heap_n = 0;
	for (uint32_t h = 0; h < SIM_HOSTS; h++) {
		struct host *host = &W.host[h];

		memset(host, 0, sizeof(*host));
		host->cpus = p->cpus[h];
		for (uint32_t i = 0; i < SIM_CPUS; i++) {
			host->cpu[i].host = h;
			host->cpu[i].id = i;
		}
	}
	recv_start();
	for (uint32_t i = 0; i < p->qps; i++) {
		W.conn[i] = conn_new(i, p->qps > 2 ? i & 1 : 0, 1);
		W.conn[i]->segs_quota = p->segs / p->qps + 1;
		event_at(below(50 * US), EVENT_APP, i, NULL);
		event_at(p->look + below(MS), EVENT_TIMER, i, NULL);
		if (p->cut_cwnd || p->forge)
			event_at(below(500 * US), EVENT_CHANGE, i, NULL);
	}
	W.open = p->qps;
	W.hole_left = p->hole_times;
	for (uint32_t i = 0; p->reset && i < p->qps; i++)
		event_at(between(50 * US, 2 * MS), EVENT_RESET, i, NULL);
	if (p->outage) {
		W.outage_from = between(100 * US, 3 * MS);
		W.outage_to = W.outage_from + between(MS / 10, 20 * MS);
	}
}

static void add_stats(void)
{
	const uint64_t *from = (const uint64_t *)&W.st;
	uint64_t *to = (uint64_t *)&total;

	for (size_t i = 0; i < sizeof(total) / sizeof(*to); i++)
		to[i] += from[i];
}

/* One seed. p NULL: drawn from it. Returns 0, or -1 with the reason in W.why. */
int world_run(uint64_t seed, const struct params *p, uint64_t drop_nth)
{
	uint64_t limit = 30000 * MS, events = 0;
	int verbose = W.verbose;

	memset(&W, 0, sizeof(W));
	W.verbose = verbose;
	W.seed = seed;
	W.drop_nth = drop_nth;
	rng_seed(seed);
	if (p)
		W.p = *p;
	else
		params_draw(&W.p);
	params_settle(&W.p);
	start(&W.p);

	/* after the last connection has ended, what is under way still gets where it goes */
	while (heap_n && !W.failed) {
		struct event e = event_next();

		W.now = e.when;
		if (W.now > limit || ++events > 5000000)
			fail("I10", "not finished after %llu ms and %llu events",
			     (unsigned long long)(W.now / MS), (unsigned long long)events);
		dispatch(&e);
	}
	for (uint32_t i = 0; W.p.stopped && !W.failed && i < W.p.qps; i++)
		app_wake(W.conn[i]);
	W.st.seeds = 1;
	W.st.events = events;
	if (!W.failed)
		check_end();
	add_stats();
	/* frames of a failed run may sit in the heap or in queues: they are only forgotten */
	for (uint32_t i = 0; i < W.p.qps; i++)
		conn_free(W.conn[i]);
	return W.failed ? -1 : 0;
}
