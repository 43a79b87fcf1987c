// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The reader of captures: a queue for each CPU, which is in order by itself, and a merge of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "pcapng.h"
#include "reader.h"

#define HOLD_NS   2000000 /* how long a record may take from its time stamp into the buffer */
#define ALIGN8(n) (((n) + 7) & ~(size_t)7)

/* Records one behind the other. */
struct queue {
	uint8_t *mem;
	size_t size, used, at; /* at: the first that has not been handed on */
};

struct capture {
	struct perf_buffer *pb;
	struct queue *q; /* by CPU */
	int cpus;
	capture_fn fn;
	void *arg;
	int err;
};

/* ---- queues ---- */

static size_t rec_size(const struct weft_cap_rec *r)
{
	return ALIGN8(sizeof(*r) + r->cap);
}

static struct weft_cap_rec *first(const struct queue *q)
{
	return q->at < q->used ? (struct weft_cap_rec *)(q->mem + q->at) : NULL;
}

/* head: a copy of the record's beginning, for raw may lie at any address. */
static int push(struct queue *q, const struct weft_cap_rec *head, const void *raw)
{
	size_t need = rec_size(head);

	if (q->used + need > q->size) {
		size_t size = (q->size + need) * 2;
		uint8_t *more = realloc(q->mem, size);

		if (!more)
			return -ENOMEM;
		q->mem = more;
		q->size = size;
	}
	memcpy(q->mem + q->used, raw, sizeof(*head) + head->cap);
	q->used += need;
	return 0;
}

static void compact(struct queue *q)
{
	if (!q->at)
		return;
	q->used -= q->at;
	memmove(q->mem, q->mem + q->at, q->used);
	q->at = 0;
}

/* ---- perf events ---- */

static enum bpf_perf_event_ret on_event(void *ctx, int cpu, struct perf_event_header *e)
{
	struct capture *c = ctx;
	struct {
		struct perf_event_header head;
		uint32_t size;
		char raw[];
	} *sample = (void *)e;
	struct weft_cap_rec head;

	/* the other kind tells of losses, which the program has counted */
	if (e->type != PERF_RECORD_SAMPLE)
		return LIBBPF_PERF_EVENT_CONT;
	if (cpu < 0 || cpu >= c->cpus || sample->size < sizeof(head))
		return LIBBPF_PERF_EVENT_CONT;
	memcpy(&head, sample->raw, sizeof(head));
	if (head.cap > sample->size - sizeof(head))
		return LIBBPF_PERF_EVENT_CONT;
	c->err = push(&c->q[cpu], &head, sample->raw);
	return c->err ? LIBBPF_PERF_EVENT_ERROR : LIBBPF_PERF_EVENT_CONT;
}

int capture_open(struct capture **out, int map_fd, size_t room, capture_fn fn, void *arg)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1,
		/* the reader comes by itself: to wake it for each packet would be dear */
		.watermark = 1,
	};
	struct capture *c = calloc(1, sizeof(*c));
	int cpus = libbpf_num_possible_cpus(), err;
	size_t page = sysconf(_SC_PAGESIZE), each = CAPTURE_ROOM_MIN;

	if (!c || cpus < 1) {
		free(c);
		return -ENOMEM;
	}
	while (each * 2 * cpus <= room)
		each *= 2;
	attr.wakeup_watermark = each / 2;
	c->fn = fn;
	c->arg = arg;
	c->cpus = cpus;
	c->q = calloc(cpus, sizeof(*c->q));
	c->pb = c->q ? perf_buffer__new_raw(map_fd, each / page, &attr, on_event, c, NULL) : NULL;
	if (!c->pb) {
		err = errno ? -errno : -ENOMEM;
		capture_close(c);
		return err;
	}
	*out = c;
	return 0;
}

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

int capture_read(struct capture *c, bool all)
{
	uint64_t until = all ? UINT64_MAX : mono_ns() - HOLD_NS;
	int n = 0, err;

	err = perf_buffer__consume(c->pb);
	if (err < 0)
		return c->err ? c->err : err;
	for (err = 0; !err; n++) {
		struct queue *from = NULL;

		for (int i = 0; i < c->cpus; i++)
			if (first(&c->q[i]) && (!from || first(&c->q[i])->ns < first(from)->ns))
				from = &c->q[i];
		if (!from || first(from)->ns > until)
			break;
		err = c->fn(c->arg, first(from));
		from->at += rec_size(first(from));
	}
	for (int i = 0; i < c->cpus; i++)
		compact(&c->q[i]);
	return err ? err : n;
}

void capture_close(struct capture *c)
{
	if (!c)
		return;
	perf_buffer__free(c->pb);
	for (int i = 0; c->q && i < c->cpus; i++)
		free(c->q[i].mem);
	free(c->q);
	free(c);
}

uint64_t capture_epoch(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return wall.tv_sec * 1000000000ull + wall.tv_nsec - mono_ns();
}

int capture_write(FILE *f, const struct weft_cap_rec *rec, uint64_t epoch, const char *comment)
{
	struct pcapng_packet p = {
		.iface = rec->iface,
		.dir = rec->dir == WEFT_CAP_IN ? PCAPNG_DIR_IN : PCAPNG_DIR_OUT,
		.ns = rec->ns + epoch,
		.len = rec->len,
		.cap = rec->cap,
		.data = rec->data,
		.verdict = rec->verdict == WEFT_CAP_NONE ? -1 : (int64_t)rec->verdict,
		.comment = comment,
	};

	return pcapng_packet(f, &p);
}
