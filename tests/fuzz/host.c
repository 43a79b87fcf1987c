// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The datapath as a host program: bpf/weft.bpf.c itself, over helpers and maps of our own. */
#include <errno.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fuzz.h"

/* libc's names in struct in6_addr, where bpf/ has the kernel's */
#define in6_u     __in6_u
#define u6_addr32 __u6_addr32
#include "../../bpf/weft.bpf.c"

/* As a veth lays out a page: the kernel's struct xdp_frame in front, skb_shared_info behind. */
#define PAGE     4096
#define RESERVED 40
#define SHINFO   320
#define HEADROOM 256
#define WRITTEN  64 /* writes into a pool in one run */

struct fx fx;

static struct {
	uint8_t *page;
	uint8_t *chunk_t[FX_CHUNKS], *chunk_s[FX_CHUNKS];
	struct weft_qptx tx[WEFT_QPS];
	struct weft_qprx rx[WEFT_QPS];
	struct weft_tele tele[WEFT_QPS];
	struct weft_devtele devtele;
	struct weft_cap_cfg capcfg;
	struct weft_stats stats;
	struct work work[WEFT_DOMAINS];
	struct weft_owners owners;
	uint64_t now_ns;
	uint32_t cpu, headroom;
	bool alive, pool_t, pool_s, cq, locked;
	struct {
		uint8_t *at;
		uint32_t len;
	} written[WRITTEN];
	unsigned nwritten;
} h;

/* ---- helpers ---- */

void no_lock(const char *who)
{
	if (h.locked)
		fuzz_fail("%s is called under a spin lock", who);
}

/* A map's entry of an array, or NULL as the kernel says it. */
#define ENTRY(array, n) (*(const __u32 *)key < (n) ? (void *)&(array)[*(const __u32 *)key] : NULL)

void *bpf_map_lookup_elem(void *map, const void *key)
{
	__u32 k = *(const __u32 *)key;

	no_lock(__func__);
	if (map == &devcfg)
		return k ? NULL : fx.cfg;
	if (map == &devrun)
		return k ? NULL : fx.run;
	if (map == &stats)
		return k ? NULL : &h.stats;
	if (map == &work)
		return k ? NULL : &h.work[h.cpu];
	if (map == &owners)
		return k ? NULL : &h.owners;
	if (map == &mrs)
		return ENTRY(fx.mr, WEFT_MRS);
	if (map == &qpctl)
		return ENTRY(fx.ctl, WEFT_QPS);
	if (map == &qptx)
		return ENTRY(h.tx, WEFT_QPS);
	if (map == &qprx)
		return ENTRY(h.rx, WEFT_QPS);
	if (map == &qptele)
		return ENTRY(h.tele, WEFT_QPS);
	if (map == &devtele)
		return k ? NULL : &h.devtele;
	if (map == &capcfg)
		return k ? NULL : &h.capcfg;
	if (map == &xsks)
		return k == FX_OWNER && h.alive ? &h.alive : NULL;
	if (map == &rings)
		return k == FX_OWNER ? fx.rings : NULL;
	if (map == fx.rings)
		return ENTRY(fx.rings, WEFT_PROC_QPS);
	for (int i = 0; i < FX_RQS; i++) {
		if (map == &rqs && k == (__u32)FX_RQ_IDX(i))
			return fx.rq[i];
		if (map == fx.rq[i])
			return k <= FX_RQ_DEPTH ? (struct weft_rqe *)fx.rq[i] + k : NULL;
	}
	if (map == &events)
		return k == FX_CQ && h.cq ? &h.cq : NULL;
	if (map == &pools)
		return k == FX_POOL_T && h.pool_t   ? h.chunk_t
		       : k == FX_POOL_S && h.pool_s ? h.chunk_s
						    : NULL;
	if (map == h.chunk_t)
		return k < FX_CHUNKS ? h.chunk_t[k] : NULL;
	if (map == h.chunk_s)
		return k < FX_CHUNKS ? h.chunk_s[k] : NULL;
	/* one that this file does not know: the datapath must live without */
	return NULL;
}

void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	no_lock(__func__);
	h.locked = true;
	lock->val = 1;
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	if (!h.locked)
		fuzz_fail("%s without a lock", __func__);
	h.locked = false;
	lock->val = 0;
}

static uint8_t *data_of(const struct xdp_md *ctx)
{
	return (uint8_t *)(uintptr_t)ctx->data;
}

static uint8_t *end_of(const struct xdp_md *ctx)
{
	return (uint8_t *)(uintptr_t)ctx->data_end;
}

/* What lies beside the frame on its page is nobody's. */
static void bounds(struct xdp_md *ctx, uint8_t *data, uint8_t *end)
{
	ctx->data = (uintptr_t)data;
	ctx->data_end = (uintptr_t)end;
	ASAN_POISON_MEMORY_REGION(h.page, PAGE);
	ASAN_UNPOISON_MEMORY_REGION(data, end - data);
}

/* Is it in a chunk of a pool, and then where in the pool? */
static bool in_pool(uint8_t *const chunk[], const void *p, uint64_t *off)
{
	for (int i = 0; i < FX_CHUNKS; i++)
		if ((uint8_t *)p >= chunk[i] && (uint8_t *)p < chunk[i] + WEFT_CHUNK) {
			*off = (uint64_t)i * WEFT_CHUNK + ((uint8_t *)p - chunk[i]);
			return true;
		}
	return false;
}

long bpf_xdp_load_bytes(struct xdp_md *ctx, __u32 off, void *buf, __u32 len)
{
	uint64_t at;

	no_lock(__func__);
	if (!len || off > 0xffff || len > 0xffff || data_of(ctx) + off + len > end_of(ctx))
		return -EINVAL;
	if (in_pool(h.chunk_s, buf, &at))
		fuzz_fail("I5: the source pool is written at %llu", (unsigned long long)at);
	if (in_pool(h.chunk_t, buf, &at)) {
		const struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];

		if (at < mr->off || at + len > mr->off + mr->len)
			fuzz_fail("I5: %u bytes at %llu are written, outside the MR", len,
				  (unsigned long long)at);
		if (h.nwritten == WRITTEN)
			fuzz_fail("I5: more than %d writes for one frame", WRITTEN);
		h.written[h.nwritten].at = buf;
		h.written[h.nwritten++].len = len;
	}
	memcpy(buf, data_of(ctx) + off, len);
	return 0;
}

long bpf_xdp_store_bytes(struct xdp_md *ctx, __u32 off, void *buf, __u32 len)
{
	uint64_t at;

	no_lock(__func__);
	if (!len || off > 0xffff || len > 0xffff || data_of(ctx) + off + len > end_of(ctx))
		return -EINVAL;
	if (in_pool(h.chunk_t, buf, &at)) {
		const struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_T_KEY)];

		if (!(mr->rights & WEFT_ACCESS_REMOTE_READ) || at < mr->off ||
		    at + len > mr->off + mr->len)
			fuzz_fail("I5: the target pool is read at %llu", (unsigned long long)at);
	}
	if (in_pool(h.chunk_s, buf, &at)) {
		const struct weft_mr_ent *mr = &fx.mr[WEFT_KEY_IDX(FX_S_KEY)];

		if (at < mr->off || at + len > mr->off + mr->len)
			fuzz_fail("I5: %u bytes at %llu are read, outside the MR", len,
				  (unsigned long long)at);
	}
	memcpy(data_of(ctx) + off, buf, len);
	return 0;
}

long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta)
{
	uint8_t *data = data_of(ctx) + delta;

	no_lock(__func__);
	if (data < h.page + RESERVED || data + ETH_HLEN > end_of(ctx))
		return -EINVAL;
	bounds(ctx, data, end_of(ctx));
	return 0;
}

long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta)
{
	uint8_t *was = end_of(ctx), *end = was + delta;

	no_lock(__func__);
	if (end > h.page + PAGE - SHINFO || end < data_of(ctx) + ETH_HLEN)
		return -EINVAL;
	bounds(ctx, data_of(ctx), end);
	if (end > was)
		memset(was, 0, end - was);
	return 0;
}

long bpf_redirect_map(void *map, __u64 key, __u64 flags)
{
	no_lock(__func__);
	if (map == &cpus && !(fx.cfg->cpus >> key & 1))
		return flags & 3;
	return XDP_REDIRECT;
}

long bpf_ringbuf_output(void *ringbuf, void *data, __u64 size, __u64 flags)
{
	(void)flags;
	no_lock(__func__);
	if (ringbuf != &h.cq || size != sizeof(struct weft_event) || !data)
		fuzz_fail("an event of %llu bytes", (unsigned long long)size);
	return 0;
}

/* The application takes events at once. */
__u64 bpf_ringbuf_query(void *ringbuf, __u64 flags)
{
	no_lock(__func__);
	if (ringbuf != &h.cq || flags != BPF_RB_AVAIL_DATA)
		fuzz_fail("asked %llu of a ring buffer", (unsigned long long)flags);
	return 0;
}

/* A record, and the frame's first bytes behind it. */
long bpf_perf_event_output(void *ctx, void *map, __u64 flags, void *data, __u64 size)
{
	const struct weft_cap_rec *r = data;
	const struct xdp_md *md = ctx;

	no_lock(__func__);
	if (map != &capture || size != sizeof(*r) || flags >> 32 != r->cap || r->cap > r->len ||
	    r->len != md->data_end - md->data)
		fuzz_fail("a copy of %u of %u bytes", r->cap, r->len);
	return 0;
}

long bpf_loop(__u32 n, void *fn, void *ctx, __u64 flags)
{
	long (*step)(__u32 i, void *ctx) = fn;
	__u32 i;

	no_lock(__func__);
	if (flags)
		return -EINVAL;
	for (i = 0; i < n && !step(i, ctx); i++)
		;
	return i;
}

__u64 bpf_ktime_get_ns(void)
{
	no_lock(__func__);
	return h.now_ns;
}

__u32 bpf_get_smp_processor_id(void)
{
	no_lock(__func__);
	return h.cpu;
}

/* ---- the fixture's interface (tests/bpf/fixture.h) ---- */

static void *pages(size_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
		       0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

int fx_load(void)
{
	/* a context has 32-bit pointers */
	h.page = pages(PAGE, MAP_32BIT);
	fx.cfg = calloc(1, sizeof(*fx.cfg));
	fx.run = calloc(1, sizeof(*fx.run));
	fx.mr = calloc(WEFT_MRS, sizeof(*fx.mr));
	fx.ctl = calloc(WEFT_QPS, sizeof(*fx.ctl));
	fx.rings = pages(WEFT_PROC_QPS * sizeof(*fx.rings), 0);
	for (int i = 0; i < FX_RQS; i++)
		fx.rq[i] = calloc(1, sizeof(*fx.rq[i]));
	fx.source = malloc(FX_POOL);
	for (int i = 0; i < FX_CHUNKS; i++) {
		h.chunk_t[i] = malloc(WEFT_CHUNK);
		h.chunk_s[i] = malloc(WEFT_CHUNK);
		memset(h.chunk_t[i], 0xc5, WEFT_CHUNK);
	}
	for (size_t i = 0; i < FX_POOL; i++)
		fx.source[i] = h.chunk_s[i / WEFT_CHUNK][i % WEFT_CHUNK] = (i * 2654435761u) >> 21;
	return 0;
}

int fx_reset(void **state)
{
	(void)state;
	fx_set_up();
	memset(h.work, 0, sizeof(h.work));
	memset(&h.capcfg, 0, sizeof(h.capcfg));
	h.capcfg.snap = 128;
	h.now_ns = 1ull << 40;
	h.cpu = 0;
	h.headroom = HEADROOM;
	h.alive = h.pool_t = h.pool_s = h.cq = true;
	h.locked = false;
	h.nwritten = 0;
	return 0;
}

void fx_kill_owner(void)
{
	h.alive = false;
}

void fx_tx_get(const struct fx_qp *q, struct weft_tx *tx)
{
	*tx = h.tx[q->slot].tx;
}

void fx_tx_set(const struct fx_qp *q, const struct weft_tx *tx)
{
	h.tx[q->slot].tx = *tx;
}

void fx_rx_get(const struct fx_qp *q, struct weft_rx *rx)
{
	*rx = h.rx[q->slot].rx;
}

void fx_rx_set(const struct fx_qp *q, const struct weft_rx *rx)
{
	h.rx[q->slot].rx = *rx;
}

/* n is 1 for every harness. */
int fx_run_n(enum fx_prog p, const struct frame *f, int n)
{
	static int (*const prog[])(struct xdp_md *) = { weft_nic, weft_db, weft_fill, weft_cpu,
							weft_sink };
	struct xdp_md ctx = { .ingress_ifindex = fx.cfg->ifindex };
	uint32_t room = h.headroom;

	(void)n;
	if (room < RESERVED || room + f->len > PAGE - SHINFO)
		room = RESERVED;
	if (room + f->len > PAGE - SHINFO)
		fuzz_fail("a frame of %u bytes is none", f->len);
	fx.in = *f;
	memset(&h.stats, 0, sizeof(h.stats));
	bounds(&ctx, h.page + room, h.page + room + f->len);
	memcpy(h.page + room, f->b, f->len);
	fx.t0 = fx.t1 = h.now_ns >> WEFT_TS_SHIFT;
	fx.verdict = prog[p](&ctx);
	if (h.locked)
		fuzz_fail("program %d ends with a lock", p);
	fx.out.len = ctx.data_end - ctx.data;
	memcpy(fx.out.b, data_of(&ctx), fx.out.len);
	memcpy(fx.diff, &h.stats, sizeof(fx.diff));
	return fx.verdict;
}

/* ---- the backend of the harnesses ---- */

void backend_wait(uint32_t ticks)
{
	h.now_ns += (uint64_t)ticks << WEFT_TS_SHIFT;
}

void backend_cpu(uint32_t cpu)
{
	h.cpu = cpu & (WEFT_DOMAINS - 1);
}

void backend_headroom(uint32_t bytes)
{
	h.headroom = bytes;
}

/* Has a write of this frame that came after number i changed the byte? */
static bool covered(unsigned i, const uint8_t *p)
{
	while (++i < h.nwritten)
		if (p >= h.written[i].at && p < h.written[i].at + h.written[i].len)
			return true;
	return false;
}

/*
 * In strict order the last word of a message is stored, which nobody sees here: are len bytes at off
 * of the target pool such a word, and is it there?
 */
static bool stored(uint64_t off, uint32_t len, const uint8_t *bytes)
{
	uint8_t is[8];
	bool strict = false;

	for (int i = 0; i < FX_QPS; i++)
		strict |= fx.qp[i].ctl->flags & WEFT_QPF_STRICT;
	if (!strict || (len != 4 && len != 8) || off % len)
		return false;
	backend_peek(FX_POOL_T, off, is, len);
	return !memcmp(is, bytes, len);
}

/* Every write was seen as it was made: span by span, each in as many as there are chunks and words. */
void backend_scattered(const struct span *s, int n, const void *bytes)
{
	const uint8_t *from = bytes;
	uint32_t done = 0; /* of the span */
	uint64_t off = 0;
	int k = 0;

	for (unsigned i = 0; i < h.nwritten; i++) {
		const uint8_t *p = h.written[i].at;
		uint32_t len = h.written[i].len;

		for (; k < n && done == s[k].len; k++)
			done = 0;
		if (k == n)
			fuzz_fail("I5: %u bytes too many are written", len);
		if (!in_pool(h.chunk_t, p, &off) || off != FX_T_OFF + s[k].roff + done ||
		    len > s[k].len - done)
			fuzz_fail("I5: %u bytes are written at %llu, not at %llu", len,
				  (unsigned long long)off,
				  (unsigned long long)(FX_T_OFF + s[k].roff + done));
		for (uint32_t b = 0; b < len; b++)
			if (p[b] != from[b] && !covered(i, p + b))
				fuzz_fail("I1: a wrong byte at %llu", (unsigned long long)off + b);
		from += len;
		done += len;
	}
	for (; k < n && done == s[k].len; k++)
		done = 0;
	if (k == n - 1 && stored(FX_T_OFF + s[k].roff + done, s[k].len - done, from))
		k++;
	if (k < n)
		fuzz_fail("I5: %u bytes are not written", s[k].len - done);
	h.nwritten = 0;
}

void backend_peek(uint32_t pool, uint64_t off, void *bytes, uint32_t len)
{
	uint8_t *const *chunk = pool == FX_POOL_T ? h.chunk_t : h.chunk_s;

	for (uint32_t i = 0; i < len; i++, off++)
		((uint8_t *)bytes)[i] = chunk[off / WEFT_CHUNK][off % WEFT_CHUNK];
}

void backend_atomic(uint64_t roff, uint64_t value)
{
	uint64_t is;

	backend_peek(FX_POOL_T, FX_T_OFF + roff, &is, sizeof(is));
	if (is != value)
		fuzz_fail("an atomic at %llu has left 0x%llx, not 0x%llx", (unsigned long long)roff,
			  (unsigned long long)is, (unsigned long long)value);
	backend_written(0, NULL, 0);
}
