/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs of test_memory.sh share: two devices, a connection, WRITEs, lines of TAP. */
#ifndef MEMLAB_H
#define MEMLAB_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>

#include <weft/weft.h>

#define PAGE 4096ul
#define ALL  (WEFT_LOCAL | WEFT_REMOTE_WRITE)

/* Both sides are this process: A writes from `src`, B has the regions that are tested. */
static struct {
	const char *ns[2], *ifname[2], *host;
	struct weft_dev *a, *b;
	struct weft_listener *l;
	struct weft_qp *qp, *peer;
	uint8_t *src;
	struct weft_mr *src_mr;
	int tests, failed;
} m;
#define SRC (4ul << 20)

static inline double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

__attribute__((format(printf, 2, 3))) static inline bool result(bool ok, const char *fmt, ...)
{
	va_list ap;

	m.failed += !ok;
	printf("%sok %d - ", ok ? "" : "not ", ++m.tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (!ok)
		printf("# last error: %s\n", weft_strerror_last());
	fflush(stdout);
	return ok;
}

/* What the test stands on does not work. */
static inline void need(bool ok, const char *what)
{
	if (ok)
		return;
	result(false, "%s: %s", what, strerror(errno));
	printf("1..%d\n", m.tests);
	exit(1);
}

static inline void *accept_one(void *arg)
{
	(void)arg;
	need(!weft_accept(m.l, NULL, &m.peer), "accept");
	return NULL;
}

static inline void connect_both(void)
{
	char addr[80];
	pthread_t t;

	snprintf(addr, sizeof(addr), "%s:7700", m.host);
	need(!pthread_create(&t, NULL, accept_one, NULL), "thread");
	need(!weft_connect(m.a, addr, NULL, &m.qp), "connect");
	pthread_join(t, NULL);
}

static inline void reconnect(void)
{
	weft_qp_close(m.qp);
	weft_qp_close(m.peer);
	connect_both();
}

static inline void set_up(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "usage: %s NETNS-A DEV-A NETNS-B DEV-B HOST-B [PART]\n", argv[0]);
		exit(2);
	}
	m.host = argv[5];
	need(!weft_open(argv[2], WEFT_OPTS(struct weft_open_opts, .netns = argv[1]), &m.a), "open");
	need(!weft_open(argv[4], WEFT_OPTS(struct weft_open_opts, .netns = argv[3]), &m.b), "open");
	need(!weft_listen(m.b, ":7700", &m.l), "listen");
	connect_both();
	need(!weft_alloc(m.a, SRC, (void **)&m.src), "alloc");
	need(!weft_mr_reg(m.a, NULL, m.src, SRC, WEFT_LOCAL, &m.src_mr), "register");
	for (size_t i = 0; i < SRC; i++)
		m.src[i] = 1 + i % 251;
}

static inline int tear_down(void)
{
	weft_qp_close(m.qp);
	if (m.b) {
		weft_qp_close(m.peer);
		weft_listener_close(m.l);
		weft_close(m.b);
	}
	weft_close(m.a);
	printf("1..%d\n", m.tests);
	return m.failed ? 1 : 0;
}

/* One WRITE, and how it ended. */
static inline enum weft_wc_status write_from(const struct weft_mr *mr, uint64_t off, uint32_t len,
					     uint32_t rkey, uint64_t roff)
{
	struct weft_write w = { .mr = mr, .off = off, .len = len, .rkey = rkey, .roff = roff };
	struct weft_cq *cq = weft_qp_cq(m.qp);
	struct weft_wc wc;

	if (weft_post_write(m.qp, &w))
		return WEFT_WC_LOC_PROT_ERR;
	while (!weft_cq_poll(cq, &wc, 1))
		weft_cq_wait(cq, WEFT_ARM_TX, 1000);
	return wc.status;
}

static inline bool put(uint64_t off, uint32_t len, uint32_t rkey, uint64_t roff)
{
	return write_from(m.src_mr, off, len, rkey, roff) == WEFT_WC_SUCCESS;
}

/* How many mappings of BPF maps lie in [p, p + len). */
static inline int map_pages(const void *p, size_t len)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long lo, hi;
	char line[400];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &lo, &hi) == 2 && lo < (unsigned long)p + len &&
		    hi > (unsigned long)p)
			n += !!strstr(line, "bpf-map");
	if (f)
		fclose(f);
	return n;
}

/* Pages of our own, with PROT_NONE around, so that they are a mapping by themselves. */
static inline uint8_t *pages(size_t n)
{
	uint8_t *p = mmap(NULL, (n + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(p != MAP_FAILED && !mprotect(p + PAGE, n * PAGE, PROT_READ | PROT_WRITE), "mmap");
	return p + PAGE;
}

static inline void drop(uint8_t *p, size_t n)
{
	munmap(p - PAGE, (n + 2) * PAGE);
}

static inline void pattern(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = seed + i * 7 + i / 253;
}

static inline bool has_pattern(const uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(seed + i * 7 + i / 253))
			return false;
	return true;
}

struct part {
	const char *name;
	void (*run)(void);
};
#define PART(fn)        \
	{               \
#fn, fn \
	}

static inline int run_parts(int argc, char **argv, const struct part *p)
{
	set_up(argc, argv);
	for (; p->name; p++)
		if (argc < 7 || !strcmp(argv[6], p->name))
			p->run();
	return tear_down();
}

#endif
