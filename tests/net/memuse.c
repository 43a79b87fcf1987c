// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Regions as they are used: pools made at run time, staged memory, many in one call, windows. */
#include <fcntl.h>
#include <signal.h>

#include "memlab.h"

/* ---- a pool made while a connection works ---- */

static void at_run_time(void)
{
	struct weft_mr *mr;
	uint8_t *p;

	need(!weft_alloc(m.b, 3 << 20, (void **)&p), "alloc");
	result(!weft_mr_reg(m.b, NULL, p + 7, (3 << 20) - 9, ALL | WEFT_ADOPT | WEFT_STAGE, &mr) &&
		       weft_mr_mode(mr) == WEFT_MR_ALLOC &&
		       !strcmp(weft_mr_mode_str(weft_mr_mode(mr)), "alloc"),
	       "a pool of its own is made after connecting, and needs no other way");
	result(put(0, (3 << 20) - 9, weft_mr_key(mr), 0) && !memcmp(p + 7, m.src, (3 << 20) - 9),
	       "and is written");
	result(weft_free(m.b, p) == -EBUSY && !weft_mr_dereg(mr) && !weft_free(m.b, p),
	       "it goes when no region has it");
	result(!put(0, 10, 0x12345001, 0), "a key that nobody has is refused");
	reconnect();
}

/* ---- staged ---- */

static int temp_file(size_t len)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	uint8_t *p;

	need(fd >= 0 && !ftruncate(fd, len), "a file");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(p != MAP_FAILED, "mmap");
	pattern(p, len, 11);
	munmap(p, len);
	return fd;
}

static void staged_file(void)
{
	const size_t len = 5 * PAGE;
	int fd = temp_file(len);
	uint8_t *p = pages(len / PAGE), byte;
	struct weft_mr *mr = NULL, *to = NULL;
	uint8_t *there;

	need(mmap(p, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p, "mmap");
	result(!weft_mr_reg(m.b, NULL, p + 10, 3 * PAGE, ALL | WEFT_ADOPT | WEFT_STAGE, &mr) &&
		       weft_mr_mode(mr) == WEFT_MR_STAGE && weft_mr_addr(mr) == p + 10 &&
		       weft_mr_view(mr) != p + 10 && !memcmp(weft_mr_view(mr), p + 10, 3 * PAGE),
	       "a file is staged, and copied in at once");
	result(put(0, 3 * PAGE, weft_mr_key(mr), 0) && has_pattern(p, len, 11),
	       "what a peer wrote is not in it");
	result(!memcmp(weft_mr_view(mr), m.src, 3 * PAGE), "but in the copy");
	result(!weft_mr_sync(mr, 100, 200, WEFT_SYNC_OUT) && !memcmp(p + 110, m.src + 100, 200) &&
		       has_pattern(p, 110, 11) && p[310] == (uint8_t)(11 + 310 * 7 + 310 / 253),
	       "a range of it is copied out, and no more");
	p[10] = 0xab;
	result(!weft_mr_sync(mr, 0, 1, WEFT_SYNC_IN) && *(uint8_t *)weft_mr_view(mr) == 0xab &&
		       !memcmp((uint8_t *)weft_mr_view(mr) + 1, m.src + 1, 3 * PAGE - 1),
	       "and in");
	result(weft_mr_sync(mr, 3 * PAGE, 1, WEFT_SYNC_IN) == -EINVAL &&
		       weft_mr_sync(mr, 0, 1, 3) == -EINVAL &&
		       weft_mr_sync(mr, 1, SIZE_MAX, WEFT_SYNC_OUT) == -EINVAL,
	       "beyond it: %s", weft_strerror_last());
	result(!weft_mr_sync(mr, 0, 3 * PAGE, WEFT_SYNC_OUT) && !weft_mr_dereg(mr) &&
		       pread(fd, &byte, 1, 11) == 1 && byte == m.src[1],
	       "the file has it");

	/* as a source: A's region is staged, B's is not */
	need(!weft_alloc(m.b, len, (void **)&there) &&
		     !weft_mr_reg(m.b, NULL, there, len, ALL, &to) &&
		     !weft_mr_reg(m.a, NULL, p, len, WEFT_LOCAL | WEFT_STAGE, &mr),
	     "register");
	pattern(p, len, 12);
	result(write_from(mr, 5, len - 5, weft_mr_key(to), 0) == WEFT_WC_SUCCESS &&
		       !memcmp(there, p + 5, len - 5),
	       "posting copies in what is sent");
	need(!weft_mr_dereg(mr) && !weft_mr_dereg(to) && !weft_free(m.b, there), "deregister");

	result(weft_mr_reg(m.b, NULL, p + len, PAGE, ALL | WEFT_STAGE, &mr) == -EACCES,
	       "what may not be read is refused: %s", weft_strerror_last());
	need(!ftruncate(fd, PAGE), "ftruncate");
	result(weft_mr_reg(m.b, NULL, p, len, ALL | WEFT_STAGE, &mr) == -EFAULT,
	       "so is the end of a file that is too short: %s", weft_strerror_last());
	mprotect(p, PAGE, PROT_READ);
	result(weft_mr_reg(m.b, NULL, p, PAGE, ALL | WEFT_STAGE, &mr) == -EACCES,
	       "and what may not be written: %s", weft_strerror_last());
	result(!weft_mr_reg(m.b, NULL, p, PAGE, WEFT_LOCAL | WEFT_STAGE, &mr) && !weft_mr_dereg(mr),
	       "which may be a source");
	munmap(p + PAGE, PAGE);
	result(weft_mr_reg(m.b, NULL, p, len, WEFT_LOCAL | WEFT_STAGE, &mr) == -EFAULT,
	       "what is not there, too: %s", weft_strerror_last());
	drop(p, len / PAGE);
	close(fd);
}

/* ---- memory of a device, which loads and stores do not reach ---- */

static struct gpu {
	uint8_t mem[100000];
	unsigned in, out;
	int err;
} gpu;

static int gpu_in(void *arg, void *to, uint64_t off, size_t len)
{
	struct gpu *g = arg;

	g->in++;
	memcpy(to, g->mem + off, len);
	return g->err;
}

static int gpu_out(void *arg, uint64_t off, const void *from, size_t len)
{
	struct gpu *g = arg;

	g->out++;
	memcpy(g->mem + off, from, len);
	return g->err;
}

static void staged_device(void)
{
	const struct weft_stage_copy copy = { gpu_in, gpu_out, &gpu };
	struct weft_mr_range r = {
		.addr = (void *)0x1000, .len = sizeof(gpu.mem), .access = ALL, .copy = &copy
	};
	struct weft_mr *mr, *win;
	struct weft_write w = { .len = 64 };

	pattern(gpu.mem, sizeof(gpu.mem), 13);
	result(!weft_mr_reg_many(m.b, NULL, &r, 1, &mr) && weft_mr_mode(mr) == WEFT_MR_STAGE &&
		       gpu.in == 1 && has_pattern(weft_mr_view(mr), sizeof(gpu.mem), 13),
	       "memory of a device, by functions of the application");
	result(put(0, 500, weft_mr_key(mr), 1000) && !gpu.out &&
		       !weft_mr_sync(mr, 1000, 500, WEFT_SYNC_OUT) && gpu.out == 1 &&
		       !memcmp(gpu.mem + 1000, m.src, 500) && has_pattern(gpu.mem, 1000, 13),
	       "copies out what is asked for");
	result(!weft_mr_window(mr, 2000, 100, WEFT_REMOTE_WRITE, &win) &&
		       put(0, 100, weft_mr_key(win), 0) &&
		       !weft_mr_sync(win, 10, 20, WEFT_SYNC_OUT) &&
		       !memcmp(gpu.mem + 2010, m.src + 10, 20) && !weft_mr_dereg(win),
	       "through a window as well");
	gpu.err = -ENODEV;
	result(weft_mr_sync(mr, 0, 10, WEFT_SYNC_OUT) == -ENODEV, "its error is the caller's");
	gpu.err = 0;
	need(!weft_mr_dereg(mr) && !weft_mr_reg_many(m.a, NULL, &r, 1, &mr), "register");
	gpu.err = -ENODEV;
	w.mr = mr;
	result(weft_post_write(m.qp, &w) == -ENODEV && weft_qp_status(m.qp) == WEFT_WC_SUCCESS,
	       "when posting too, and nothing is posted: %s", weft_strerror_last());
	need(!weft_mr_dereg(mr), "deregister");
	result(weft_mr_reg_many(m.b, NULL, &r, 1, &mr) == -ENODEV, "when registering: %s",
	       weft_strerror_last());
	gpu.err = 0;
}

/* What READs and atomics bring into such memory is there when their completion is. */
static void staged_target(void)
{
	const struct weft_stage_copy copy = { gpu_in, gpu_out, &gpu };
	struct weft_mr_range r = { .len = sizeof(gpu.mem),
				   .access = WEFT_LOCAL_WRITE,
				   .copy = &copy };
	struct weft_sge g[] = { { NULL, 1000, 5000 }, { NULL, 7, 0 }, { NULL, 50001, 3333 } };
	struct weft_sge word = { NULL, 8, 8 };
	struct weft_wr wr[] = {
		{ .op = WEFT_WR_READ, .sge = g, .nsge = 3 },
		{ .op = WEFT_WR_FETCH_ADD, .sge = &word, .nsge = 1, .operand = 5 }
	};
	struct weft_mr *mr, *there;
	struct weft_wc wc[2];
	uint64_t old, *p;
	uint8_t *mem;
	int n = 0;

	need(!weft_alloc(m.b, 10000, (void **)&mem) &&
		     !weft_mr_reg(m.b, NULL, mem, 10000, WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC,
				  &there) &&
		     !weft_mr_reg_many(m.a, NULL, &r, 1, &mr),
	     "register");
	pattern(mem, 10000, 17);
	p = (uint64_t *)mem + 1200;
	old = *p;
	g[0].mr = g[1].mr = g[2].mr = word.mr = mr;
	wr[0].rkey = wr[1].rkey = weft_mr_key(there);
	wr[1].roff = 9600;
	need(weft_post(m.qp, wr, 2) == 2, "post");
	for (double end = now_s() + 60; n < 2 && now_s() < end;)
		n += weft_cq_poll(weft_qp_cq(m.qp), wc + n, 2 - n);
	result(n == 2 && !wc[0].status && !wc[1].status && !memcmp(gpu.mem + 1000, mem, 5000) &&
		       !memcmp(gpu.mem + 50001, mem + 5000, 3333) &&
		       !memcmp(gpu.mem + 8, &old, 8) && *p == old + 5,
	       "a READ in pieces and an atomic: polled, they are in the device's memory");
	gpu.err = -EIO;
	need(weft_post(m.qp, wr, 1) == 1, "post");
	n = 0;
	for (double end = now_s() + 60; !n && now_s() < end;)
		n = weft_cq_poll(weft_qp_cq(m.qp), wc, 1);
	result(n == 1 && wc[0].status == WEFT_WC_LOC_PROT_ERR &&
		       weft_qp_status(m.qp) == WEFT_WC_SUCCESS,
	       "what cannot be copied out fails, and the QP works on");
	gpu.err = 0;
	need(!weft_mr_dereg(mr) && !weft_mr_dereg(there) && !weft_free(m.b, mem), "deregister");
}

/* ---- many at once ---- */

#define MANY 300
#define EACH 5000

static void many_at_once(void)
{
	static struct weft_mr_range r[MANY];
	static struct weft_mr *mr[MANY];
	const size_t n = (MANY * EACH) / PAGE + 2;
	uint8_t *p = pages(n);
	bool ok = true;
	double t[2];

	pattern(p, n * PAGE, 61);
	for (int i = 0; i < MANY; i++) /* not in order of address, and all share pages */
		r[i] = (struct weft_mr_range){ .addr = p + 100 + (i * 7) % MANY * EACH,
					       .len = EACH,
					       .access = ALL | WEFT_ADOPT };
	result(!weft_mr_reg_many(m.b, NULL, r, MANY, mr) && has_pattern(p, n * PAGE, 61),
	       "%d regions that share pages are adopted in one call", MANY);
	for (int i = 0; i < MANY; i += 23)
		ok = ok && put(i, EACH, weft_mr_key(mr[i]), 0) &&
		     !memcmp(r[i].addr, m.src + i, EACH);
	result(ok, "each is a region of its own");
	t[0] = now_s();
	ok = !weft_mr_dereg(mr[0]);
	t[0] = now_s() - t[0];
	t[1] = now_s();
	ok = ok && !weft_mr_dereg_many(mr + 1, MANY - 1);
	t[1] = now_s() - t[1];
	/* one grace period for all, however long that is */
	result(ok && (t[1] < 1 || t[1] < MANY / 10 * t[0]) && !map_pages(p, n * PAGE),
	       "one leaves, and all others together: %.0f and %.0f ms", t[0] * 1e3, t[1] * 1e3);
	pattern(p, n * PAGE, 61);
	r[200].addr = (void *)&errno; /* stands for whatever cannot be */
	r[200].len = 0;
	result(weft_mr_reg_many(m.b, NULL, r, MANY, mr) == -EINVAL && !map_pages(p, n * PAGE),
	       "one that is wrong: none is registered: %s", weft_strerror_last());
	r[200].addr = p + n * PAGE;
	r[200].len = 10;
	result(weft_mr_reg_many(m.b, NULL, r, MANY, mr) == -EACCES && !map_pages(p, n * PAGE) &&
		       has_pattern(p, n * PAGE, 61),
	       "one that cannot be adopted: %s", weft_strerror_last());
	drop(p, n);
}

/* ---- windows ---- */

#define WINDOWS 64

static void windows(void)
{
	struct weft_mr *mr, *win[WINDOWS], *no;
	uint8_t *p;
	bool ok = true;
	uint32_t key;
	double t, one;

	need(!weft_alloc(m.b, 65536, (void **)&p) &&
		     !weft_mr_reg(m.b, NULL, p, 65536, WEFT_REMOTE_WRITE | WEFT_REMOTE_READ, &mr),
	     "register");
	for (int i = 0; i < WINDOWS; i++)
		ok = ok && !weft_mr_window(mr, i * 1000, 8 + i,
					   WEFT_REMOTE_WRITE | WEFT_REMOTE_READ, &win[i]);
	result(ok, "%d windows of a region", WINDOWS);
	result(put(1, 13, weft_mr_key(win[5]), 0) && !memcmp(p + 5000, m.src + 1, 13) && !p[5013] &&
		       !p[4999],
	       "an offset counts from the window's start");
	result(!put(0, 14, weft_mr_key(win[5]), 0) && !p[5013], "beyond it nothing is written");
	reconnect();
	result(weft_mr_window(win[1], 0, 1, WEFT_REMOTE_WRITE, &no) == -EINVAL &&
		       weft_mr_window(mr, 65536, 1, WEFT_REMOTE_WRITE, &no) == -EINVAL &&
		       weft_mr_window(mr, 0, 0, WEFT_REMOTE_WRITE, &no) == -EINVAL,
	       "what is no part of a region is refused: %s", weft_strerror_last());
	result(weft_mr_window(mr, 0, 10, WEFT_LOCAL | WEFT_REMOTE_WRITE, &no) == -EINVAL,
	       "so are rights that it has not: %s", weft_strerror_last());
	need(!weft_mr_window(mr, 0, 100, WEFT_REMOTE_READ, &no), "window");
	result(!put(0, 10, weft_mr_key(no), 0) && !p[0], "a window without the right to write");
	reconnect();
	result(weft_mr_dereg(mr) == -EBUSY && put(0, 8, weft_mr_key(win[0]), 0),
	       "a region with windows stays: %s", weft_strerror_last());
	one = now_s();
	ok = !weft_mr_dereg(no);
	one = now_s() - one;
	result(ok && put(0, 10, weft_mr_key(mr), 0), "the region works on its own");
	t = now_s();
	ok = !weft_mr_dereg_many(win, WINDOWS - 1);
	t = now_s() - t;
	result(ok && (t < 0.5 || t < WINDOWS / 10 * one),
	       "%d windows are revoked in one grace period: %.0f ms", WINDOWS - 1, t * 1e3);
	result(put(0, 8, weft_mr_key(win[WINDOWS - 1]), 0), "one that was not still works");
	no = win[WINDOWS - 1];
	key = weft_mr_key(no);
	result(weft_mr_dereg_many((struct weft_mr *[]){ mr, NULL, no }, 3) == 0,
	       "a region and its window in one call, in any order");
	result(!weft_free(m.b, p), "and nothing holds the memory");
	result(!put(0, 1, key, 0), "a revoked key is refused");
	reconnect();
}

/* For test_memory.sh to look at: a region of each kind, until SIGTERM. */
static void shown(void)
{
	uint8_t *p = pages(2), *q;
	struct weft_mr *mr, *win;
	sigset_t term;
	int sig;

	q = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(!weft_mr_reg(m.b, NULL, p, PAGE, WEFT_REMOTE_READ | WEFT_ADOPT, &mr) &&
		     !weft_mr_reg(m.b, NULL, q, PAGE, WEFT_LOCAL_WRITE | WEFT_STAGE, &win) &&
		     !weft_mr_window(mr, 8, 16, WEFT_REMOTE_READ, &win),
	     "register");
	printf("# shown\n");
	fflush(stdout);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigwait(&term, &sig);
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {
		PART(at_run_time),  PART(staged_file), PART(staged_device), PART(staged_target),
		PART(many_at_once), PART(windows),     { NULL, NULL },
	};
	static const struct part show[] = { PART(shown), { NULL, NULL } };
	sigset_t term;

	if (argc < 7 || strcmp(argv[6], "shown"))
		return run_parts(argc, argv, parts);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL); /* in the library's threads as well */
	return run_parts(argc, argv, show);
}
