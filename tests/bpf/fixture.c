// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Loads the datapath without attaching it, sets up its maps, and runs programs on frames. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fixture.h"
#include "internal.h"
#include "weft.skel.h"

#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#define LOOPBACK 1 /* what devmaps lead to: a test run does not follow a redirect */

struct fx fx;

static struct {
	struct bpf_object *obj;
	int prog[FX_PROGS];
	int qptx, qprx, stats, xsks, pools, events;
	int pool_t, pool_s, rings, ringbuf, xsk, rq[FX_RQS];
	struct ring_buffer *rb;
	struct weft_stats *percpu;
	int cpus;
} s = { .xsk = -1 };

static const char *const prog_names[] = { "weft_nic", "weft_db", "weft_fill", "weft_cpu",
					  "weft_sink" };

/* ---- loading, once ---- */

/* WEFT_BPF_OBJ: another object than the one built in (mutate.sh). */
static struct bpf_object *open_object(void)
{
	const char *path = getenv("WEFT_BPF_OBJ");
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "weft_bpf");
	const void *elf;
	size_t size;

	if (path)
		return bpf_object__open_file(path, &opts);
	elf = weft_bpf__elf_bytes(&size);
	return bpf_object__open_mem(elf, size, &opts);
}

int fx_map_fd(const char *name)
{
	return bpf_object__find_map_fd_by_name(s.obj, name);
}

static void *map_pages(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int inner_array(uint32_t value, uint32_t n)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);

	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "fixture", 4, value, n, &opts);
}

static int put(int map, uint32_t key, const void *val)
{
	return bpf_map_update_elem(map, &key, val, BPF_ANY) ? -errno : 0;
}

/* An inner map where there is none: putting one waits for a grace period, 10 to 30 ms. */
static int put_inner(int map, uint32_t key, const int *fd)
{
	uint32_t id;

	return bpf_map_lookup_elem(map, &key, &id) ? put(map, key, fd) : 0;
}

/* Without programs of their own: a redirect succeeds, and nobody follows it. */
static int fill_ways_out(void)
{
	struct bpf_devmap_val dev = { .ifindex = LOOPBACK };
	struct bpf_cpumap_val cpu = { .qsize = 64 };
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, s.obj) {
		if (bpf_map__type(map) != BPF_MAP_TYPE_DEVMAP)
			continue;
		for (uint32_t i = 0; !err && i < bpf_map__max_entries(map); i++)
			err = put(bpf_map__fd(map), i, &dev);
	}
	return err ? err : put(fx_map_fd("cpus"), 0, &cpu);
}

/*
 * The object of mutate.sh holds all its mutations. WEFT_BPF_MUTATIONS lists those that stay in the
 * programs, the verifier removes the others; which of them is on, if any, fx_mutate() says.
 */
static int choose_mutations(void)
{
	struct bpf_map *map = bpf_object__find_map_by_name(s.obj, ".rodata.mutation");
	const char *text = getenv("WEFT_BPF_MUTATIONS");
	const void *none;
	size_t size = 0;
	uint8_t has[4096];
	unsigned long n;
	char *end;

	if (!map)
		return text ? -ENOENT : 0;
	none = bpf_map__initial_value(map, &size);
	if (!none || size > sizeof(has))
		return -E2BIG;
	memcpy(has, none, size);
	for (; text && *text; text = end) {
		n = strtoul(text, &end, 10);
		if (end == text || n >= size)
			return -EINVAL;
		has[n] = 1;
	}
	return bpf_map__set_initial_value(map, has, size);
}

int fx_mutate(uint32_t n)
{
	int map = fx_map_fd(".data.mutation");

	return map < 0 ? map : put(map, 0, &n);
}

static int load_object(void)
{
	struct bpf_program *p;
	int err;

	s.obj = open_object();
	if (!s.obj)
		return -errno;
	/* bpf_prog_test_run() refuses devmap and cpumap programs; their code does not differ */
	bpf_object__for_each_program(p, s.obj)
		bpf_program__set_expected_attach_type(p, BPF_XDP);
	err = choose_mutations();
	if (!err)
		err = bpf_object__load(s.obj);
	if (err)
		return err;
	for (int i = 0; i < FX_PROGS; i++) {
		p = bpf_object__find_program_by_name(s.obj, prog_names[i]);
		if (!p)
			return -ENOENT;
		s.prog[i] = bpf_program__fd(p);
	}
	return 0;
}

static uint8_t source_byte(size_t i)
{
	return (i * 2654435761u) >> 21;
}

static int map_everything(void)
{
	fx.cfg = map_pages(fx_map_fd("devcfg"), sizeof(*fx.cfg));
	fx.run = map_pages(fx_map_fd("devrun"), sizeof(*fx.run));
	fx.mr = map_pages(fx_map_fd("mrs"), sizeof(*fx.mr) * WEFT_MRS);
	fx.ctl = map_pages(fx_map_fd("qpctl"), sizeof(*fx.ctl) * WEFT_QPS);
	s.pool_t = inner_array(WEFT_CHUNK, FX_CHUNKS);
	s.pool_s = inner_array(WEFT_CHUNK, FX_CHUNKS);
	s.rings = inner_array(sizeof(struct weft_ring), WEFT_PROC_QPS);
	s.ringbuf = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "fixture", 0, 0, 4096, NULL);
	if (s.pool_t < 0 || s.pool_s < 0 || s.rings < 0 || s.ringbuf < 0)
		return -errno;
	fx.target = map_pages(s.pool_t, FX_POOL);
	fx.source = map_pages(s.pool_s, FX_POOL);
	fx.rings = map_pages(s.rings, sizeof(*fx.rings) * WEFT_PROC_QPS);
	fx.want = malloc(FX_POOL);
	s.percpu = calloc(s.cpus, sizeof(*s.percpu));
	if (!fx.cfg || !fx.run || !fx.mr || !fx.ctl || !fx.target || !fx.source || !fx.rings ||
	    !fx.want || !s.percpu)
		return -ENOMEM;
	for (int i = 0; i < FX_RQS; i++) {
		s.rq[i] = inner_array(sizeof(struct weft_rqe), 1 + FX_RQ_DEPTH);
		if (s.rq[i] < 0)
			return -errno;
		fx.rq[i] = map_pages(s.rq[i], sizeof(struct fx_rq));
		if (!fx.rq[i])
			return -ENOMEM;
		if (put(fx_map_fd("rqs"), FX_RQ_IDX(i), &s.rq[i]))
			return -errno;
	}
	for (size_t i = 0; i < FX_POOL; i++) /* once: nobody writes to it, see fx_memory() */
		fx.source[i] = source_byte(i);
	return 0;
}

int fx_load(void)
{
	int err;

	s.cpus = libbpf_num_possible_cpus();
	err = load_object();
	if (err)
		return err;
	s.qptx = fx_map_fd("qptx");
	s.qprx = fx_map_fd("qprx");
	s.stats = fx_map_fd("stats");
	s.xsks = fx_map_fd("xsks");
	s.pools = fx_map_fd("pools");
	s.events = fx_map_fd("events");
	err = map_everything();
	return err ? err : fill_ways_out();
}

void fx_unload(void)
{
	ring_buffer__free(s.rb);
	bpf_object__close(s.obj);
	free(fx.want);
	free(s.percpu);
}

int fx_verifier(void (*line)(const char *name, uint32_t insns))
{
	for (int i = 0; i < FX_PROGS; i++) {
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (bpf_obj_get_info_by_fd(s.prog[i], &info, &len))
			return -errno;
		line(prog_names[i], info.verified_insns);
	}
	return 0;
}

/* ---- before every test ---- */

static int take_event(void *ctx, void *data, size_t size)
{
	struct weft_event *last = ctx;

	assert_int_equal(size, sizeof(*last));
	memcpy(last, data, sizeof(*last));
	return 0;
}

static struct weft_event last_event;

int fx_events(uint32_t *qpn, uint32_t *kind)
{
	int n = ring_buffer__consume(s.rb);

	if (qpn)
		*qpn = last_event.qpn;
	if (kind)
		*kind = last_event.kind;
	return n;
}

static int open_xsk(void)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), n = 64;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_XDP, XDP_RX_RING, &n, sizeof(n)) || put(s.xsks, FX_OWNER, &fd)) {
		n = -errno;
		close(fd);
		return n;
	}
	return fd;
}

void fx_kill_owner(void)
{
	close(s.xsk);
	s.xsk = -1;
}

void fx_pool_remove(uint32_t pool)
{
	assert_int_equal(bpf_map_delete_elem(s.pools, &pool), 0);
}

void fx_rings_remove(void)
{
	uint32_t owner = FX_OWNER;

	assert_int_equal(bpf_map_delete_elem(fx_map_fd("rings"), &owner), 0);
}

void fx_cq_remove(void)
{
	uint32_t cq = FX_CQ;

	assert_int_equal(bpf_map_delete_elem(s.events, &cq), 0);
}

void fx_tx_get(const struct fx_qp *q, struct weft_tx *tx)
{
	static struct weft_qptx v;

	assert_int_equal(bpf_map_lookup_elem(s.qptx, &q->slot, &v), 0);
	*tx = v.tx;
}

void fx_tx_set(const struct fx_qp *q, const struct weft_tx *tx)
{
	static struct weft_qptx v;

	v.tx = *tx;
	assert_int_equal(put(s.qptx, q->slot, &v), 0);
}

void fx_rx_get(const struct fx_qp *q, struct weft_rx *rx)
{
	struct weft_qprx v;

	assert_int_equal(bpf_map_lookup_elem(s.qprx, &q->slot, &v), 0);
	*rx = v.rx;
}

void fx_rx_set(const struct fx_qp *q, const struct weft_rx *rx)
{
	struct weft_qprx v = { .rx = *rx };

	assert_int_equal(put(s.qprx, q->slot, &v), 0);
}

/* What an earlier test left for the programs' next run. */
static int clear_work(void)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(s.obj, "work");
	uint32_t key = 0;
	void *zero;
	int err;

	zero = calloc(s.cpus, (bpf_map__value_size(map) + 7) & ~7u);
	err = zero ? bpf_map_update_elem(bpf_map__fd(map), &key, zero, BPF_ANY) : -1;
	free(zero);
	return err;
}

int fx_reset(void **state)
{
	uint32_t cq = FX_CQ;

	(void)state;
	fx_set_up();
	memset(fx.target, 0xc5, FX_POOL);
	memset(fx.want, 0xc5, FX_POOL);
	if (put_inner(s.pools, FX_POOL_T, &s.pool_t) || put_inner(s.pools, FX_POOL_S, &s.pool_s) ||
	    put_inner(s.events, FX_CQ, &s.ringbuf) ||
	    put_inner(fx_map_fd("rings"), FX_OWNER, &s.rings))
		return -1;
	if (clear_work())
		return -1;
	if (s.xsk < 0)
		s.xsk = open_xsk();
	if (!s.rb)
		s.rb = ring_buffer__new(s.ringbuf, take_event, &last_event, NULL);
	if (s.xsk < 0 || !s.rb)
		return -1;
	fx_events(&cq, NULL);
	return 0;
}

/* ---- a run ---- */

static void snapshot(struct fx_state *st)
{
	for (int i = 0; i < FX_QPS; i++) {
		const struct fx_qp *q = &fx.qp[i];

		assert_int_equal(bpf_map_lookup_elem(s.qptx, &q->slot, &st->tx[i]), 0);
		assert_int_equal(bpf_map_lookup_elem(s.qprx, &q->slot, &st->rx[i]), 0);
		st->ring[i] = *q->ring;
		st->ctl[i] = *q->ctl;
	}
	st->mr[0] = fx.mr[WEFT_KEY_IDX(FX_T_KEY)];
	st->mr[1] = fx.mr[WEFT_KEY_IDX(FX_S_KEY)];
	st->run = *fx.run;
	st->cfg = *fx.cfg;
	for (int i = 0; i < FX_RQS; i++)
		st->rq[i] = *fx.rq[i];
}

static void add_counters(int sign)
{
	uint32_t key = 0;

	assert_int_equal(bpf_map_lookup_elem(s.stats, &key, s.percpu), 0);
	for (int c = 0; c < s.cpus; c++)
		for (size_t i = 0; i < sizeof(fx.diff) / sizeof(fx.diff[0]); i++)
			fx.diff[i] += sign * (int64_t)((uint64_t *)&s.percpu[c])[i];
}

void fx_begin(const struct frame *f)
{
	fx.in = *f;
	memset(&fx.out, 0, sizeof(fx.out));
	memset(fx.diff, 0, sizeof(fx.diff));
	add_counters(-1);
	snapshot(&fx.before);
	fx.t0 = weft_now_ns() >> WEFT_TS_SHIFT;
}

void fx_end(void)
{
	fx.t1 = weft_now_ns() >> WEFT_TS_SHIFT;
	snapshot(&fx.after);
	add_counters(1);
}

int fx_run_n(enum fx_prog p, const struct frame *f, int n)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = fx.in.b, .data_size_in = f->len,
		    .data_out = fx.out.b, .data_size_out = sizeof(fx.out.b), .repeat = n);

	fx_begin(f);
	if (bpf_prog_test_run_opts(s.prog[p], &opts))
		fail_msg("bpf_prog_test_run(%s, %u bytes): %s", prog_names[p], f->len,
			 strerror(errno));
	fx_end();
	fx.out.len = opts.data_size_out;
	fx.verdict = opts.retval;
	return fx.verdict;
}

int fx_stay_here(void)
{
	int cpu = sched_getcpu();
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	assert_int_equal(sched_setaffinity(0, sizeof(here), &here), 0);
	return cpu;
}

int fx_prog_fd(enum fx_prog p)
{
	return s.prog[p];
}
