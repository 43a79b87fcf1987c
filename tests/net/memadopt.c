// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Adopted memory: contents, neighbours and writers, what is refused, and what becomes of it. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "memlab.h"

static struct weft_mr *adopt(void *p, size_t len)
{
	struct weft_mr *mr = NULL;

	return weft_mr_reg(m.b, NULL, p, len, ALL | WEFT_ADOPT, &mr) ? NULL : mr;
}

/* ---- in place, and back ---- */

static void in_place(void)
{
	const size_t n = 6, off = 100, len = 4 * PAGE + 50;
	uint8_t *p = pages(n);
	struct weft_mr *mr;
	pid_t child;
	int status;

	pattern(p, n * PAGE, 3);
	mr = adopt(p + off, len);
	if (!result(mr && weft_mr_mode(mr) == WEFT_MR_ADOPT && weft_mr_view(mr) == p + off,
		    "adopted, and says so"))
		return;
	result(has_pattern(p, n * PAGE, 3), "contents and neighbours are what they were");
	result(map_pages(p, n * PAGE) && !map_pages(p + 5 * PAGE, PAGE),
	       "the pages it touches are the map's, no others");
	result(put(11, len, weft_mr_key(mr), 0) && !memcmp(p + off, m.src + 11, len),
	       "a WRITE lands in it");
	pattern(p + off, len, 4);
	result(has_pattern(p, off, 3) && has_pattern(p + off, len, 4) &&
		       p[off + len] == (uint8_t)(3 + (off + len) * 7 + (off + len) / 253),
	       "what the process writes stays, neighbours too");
	result(!weft_mr_dereg(mr) && !map_pages(p, n * PAGE), "deregistered: no page is the map's");
	result(has_pattern(p, off, 3) && has_pattern(p + off, len, 4), "contents are kept");
	child = fork();
	if (!child) {
		memset(p, 0, n * PAGE);
		_exit(0);
	}
	waitpid(child, &status, 0);
	result(has_pattern(p, off, 3) && has_pattern(p + off, len, 4), "it is private again");
	drop(p, n);
}

/* ---- writers, while it is exchanged ---- */

#define WRITERS 4
#define WORDS   8 /* of each, for the one that it is at when the page goes tells nothing */
#define BIG     (9ul << 20) /* several pieces */
static uint8_t *field;
static volatile bool stop;
static volatile unsigned long lost, steps;

/* Counts in words of its own, in turn: whatever it has written must be there. */
static void *count_up(void *arg)
{
	volatile unsigned long *w = arg;
	unsigned long n;

	for (n = 0; n < WORDS; n++)
		w[n] = n;
	for (; !stop; n++) {
		if (w[n % WORDS] != n - WORDS)
			lost++;
		w[n % WORDS] = n;
	}
	for (; n % WORDS; n++)
		if (w[n % WORDS] != n - WORDS)
			lost++;
	__atomic_fetch_add(&steps, n, __ATOMIC_RELAXED);
	return NULL;
}

/* The kernel writes on our behalf; no call fails. */
static void *read_into(void *arg)
{
	unsigned long n = 0, *w = arg;
	int fd[2];

	if (pipe(fd))
		return NULL;
	while (!stop) {
		n++;
		if (write(fd[1], &n, sizeof(n)) != sizeof(n) ||
		    read(fd[0], w, sizeof(n)) != sizeof(n) || *w != n ||
		    write(fd[1], w, sizeof(n)) != sizeof(n) || read(fd[0], w, sizeof(n)) != 8)
			lost++;
	}
	__atomic_fetch_add(&steps, n, __ATOMIC_RELAXED);
	return NULL;
}

/* len bytes at `off` of the field, back and forth; writers before, in and behind. */
static void stress(size_t off, size_t len, double secs)
{
	const size_t room = 8 * WORDS;
	size_t at[WRITERS] = { off - room, (off + len / 2) & ~7ul, off + len - room, off + len };
	pthread_t t[WRITERS + 1];
	double end = now_s() + secs;
	size_t part = len / 8 < 4000 ? len / 8 : 4000;
	unsigned rounds = 0;
	bool ok = true;

	field = pages(BIG / PAGE + 2);
	pattern(field, BIG + 2 * PAGE, 9);
	stop = false;
	lost = steps = 0;
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&t[i], NULL, count_up, field + at[i]);
	pthread_create(&t[WRITERS], NULL, read_into, field + off - 2 * room);
	while (ok && (now_s() < end || rounds < 2)) {
		struct weft_mr *mr = adopt(field + off, len);

		ok = mr && put(0, part, weft_mr_key(mr), len / 4) &&
		     !memcmp(field + off + len / 4, m.src, part);
		ok = mr && !weft_mr_dereg(mr) && ok && !map_pages(field, BIG + 2 * PAGE) &&
		     !memcmp(field + off + len / 4, m.src, part);
		rounds++;
	}
	stop = true;
	for (int i = 0; i <= WRITERS; i++)
		pthread_join(t[i], NULL);
	ok = ok && has_pattern(field, off - 2 * room, 9);
	result(ok && !lost,
	       "%zu bytes adopted and given back %u times under writers: %lu of %lu writes are lost",
	       len, rounds, lost, steps);
	drop(field, BIG / PAGE + 2);
}

/* ---- what is refused ---- */

static void refused(const char *what, void *p, size_t len, int want)
{
	struct weft_mr *mr = NULL;
	int err = weft_mr_reg(m.b, NULL, p, len, ALL | WEFT_ADOPT, &mr);

	result(err == want, "%s: %s", what, err ? weft_strerror_last() : "taken");
	if (!err)
		weft_mr_dereg(mr);
}

static void *in_arena(void *arg)
{
	uint8_t *p = malloc(40000), local[8192];

	(void)arg;
	refused("the stack of the thread", local, sizeof(local), -EOPNOTSUPP);
	pattern(p, 40000, 1);
	refused("an arena of malloc()", p + 5000, 8192, -EPERM);
	return p;
}

static void refusals(void)
{
	uint8_t *p = malloc(40000), *big = malloc(1 << 20), *q, *mid = pages(8), aligned[8192];
	struct weft_mr *mr = NULL, *other = NULL;
	int fd = open("/proc/self/exe", O_RDONLY);
	void *al = NULL, *arena;
	size_t *chunk;
	pthread_t t;

	refused("the heap", p + 5000, 8192, -EPERM);
	refused("a large block", big, 100000, -EPERM);
	chunk = (size_t *)(mid + 2 * PAGE); /* glibc's header */
	chunk[1] = 4 * PAGE | 2;
	refused("a block that is not the first of its mapping", chunk + 2, PAGE, -EPERM);
	chunk[1] = 0;
	refused("the midst of a large block", big + 500000, 100000, -EPERM);
	need(!posix_memalign(&al, PAGE, 1 << 20), "posix_memalign");
	refused("an aligned block", al, 1 << 20, -EPERM);
	pthread_create(&t, NULL, in_arena, NULL);
	pthread_join(t, &arena);
	refused("the stack", aligned, sizeof(aligned), -EOPNOTSUPP);
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	refused("a file", q, 4 * PAGE, -EOPNOTSUPP);
	munmap(q, 4 * PAGE);
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	refused("shared memory", q, 4 * PAGE, -EOPNOTSUPP);
	munmap(q, 4 * PAGE);
	refused("more than is mapped", mid + PAGE, 8 * PAGE, -EACCES);
	munmap(mid + 4 * PAGE, PAGE);
	refused("a hole", mid + PAGE, 5 * PAGE, -EFAULT);
	mprotect(mid, PAGE, PROT_READ);
	refused("what may not be written", mid + 10, 2 * PAGE, -EACCES);
	mprotect(mid, PAGE, PROT_READ | PROT_WRITE);

	mr = adopt(mid + 100, 5000);
	result(mr != NULL, "two regions in two pages");
	other = adopt(mid + 200, 300);
	result(other && weft_mr_mode(other) == WEFT_MR_ADOPT,
	       "one inside the other shares its pages");
	refused("one that shares a page and goes on", mid + PAGE + 2000, 5000, -EBUSY);
	result(weft_mr_reg(m.a, NULL, mid + 100, 5000, ALL | WEFT_ADOPT, &mr) == -EBUSY,
	       "for another device: %s", weft_strerror_last());
	result(!weft_mr_dereg(mr) && map_pages(mid, PAGE),
	       "the first leaves, the second keeps its pages");
	result(put(0, 300, weft_mr_key(other), 0) && !memcmp(mid + 200, m.src, 300), "and works");
	result(!weft_mr_dereg(other) && !map_pages(mid, 8 * PAGE), "then they are given back");
	result(weft_mr_reg(m.b, NULL, mid, 100, ALL, &mr) == -EINVAL, "only when asked for: %s",
	       weft_strerror_last());
	free(p);
	free(big);
	free(al);
	free(arena);
	close(fd);
}

/* ---- the allocator's, when the caller knows ---- */

static bool heap_round(uint8_t *p, size_t len)
{
	struct weft_mr *mr;
	bool ok;

	pattern(p, len, 5);
	if (weft_mr_reg(m.b, NULL, p, len, ALL | WEFT_ADOPT_HEAP, &mr))
		return false;
	ok = has_pattern(p, len, 5) && put(0, len, weft_mr_key(mr), 0);
	/* neighbours come and go, and what is free goes back to the kernel */
	for (int i = 0; i < 200; i++)
		free(malloc(100 + i * 97));
	malloc_trim(0);
	ok = ok && !memcmp(p, m.src, len) && put(5, len, weft_mr_key(mr), 0);
	ok = !weft_mr_dereg(mr) && ok && !memcmp(p, m.src + 5, len) && !map_pages(p, len);
	malloc_trim(0);
	return ok && !memcmp(p, m.src + 5, len);
}

static void *other_arena(void *arg)
{
	uint8_t *low = malloc(30000), *p = malloc(60000), *high = malloc(30000), *grown;
	bool ok;

	(void)arg;
	pattern(low, 30000, 6);
	pattern(high, 30000, 7);
	free(malloc(100000));
	ok = heap_round(p, 60000) && has_pattern(low, 30000, 6) && has_pattern(high, 30000, 7);
	grown = realloc(p, 120000);
	need(grown != NULL, "realloc");
	ok = ok && !memcmp(grown, m.src + 5, 60000);
	free(low);
	free(high);
	free(grown);
	malloc_trim(0);
	return (void *)ok;
}

static void heaps(void)
{
	uint8_t *big = malloc(1 << 20), *grown = NULL;
	struct weft_mr *mr;
	pthread_t t;
	void *ok;

	result(other_arena(NULL), "WEFT_ADOPT_HEAP: in the heap, with malloc_trim() and realloc()");
	pthread_create(&t, NULL, other_arena, NULL);
	pthread_join(t, &ok);
	result(ok != NULL, "and in another arena");
	result(heap_round(big, 1 << 20), "and a block with pages of its own");

	/* freed while it is registered: the kernel unmaps it, and nothing else comes to harm */
	result(!weft_mr_reg(m.b, NULL, big, 1 << 20, ALL | WEFT_ADOPT_HEAP, &mr) &&
		       (grown = realloc(big, 3 << 20)) && !memcmp(grown, m.src + 5, 1 << 20),
	       "realloc() of a registered block copies it");
	result(put(0, 1 << 20, weft_mr_key(mr), 0) && !memcmp(grown, m.src + 5, 1 << 20) &&
		       !weft_mr_dereg(mr),
	       "its old place is no longer the process's, and deregistration minds that");
	free(grown);
}

/* ---- what else becomes of it ---- */

static void unmapped(void)
{
	uint8_t *p = pages(512), *q;
	struct weft_mr *mr = adopt(p, 512 * PAGE);
	void *pool;

	need(mr != NULL, "adopt");
	munmap(p + 10 * PAGE, 5 * PAGE);
	q = mmap(p + 11 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(q, 0x77, PAGE);
	result(put(0, 512 * PAGE, weft_mr_key(mr), 0) && q[5] == 0x77 && !weft_mr_dereg(mr) &&
		       q[5] == 0x77 && !memcmp(p, m.src, 10 * PAGE) &&
		       !memcmp(p + 15 * PAGE, m.src + 15 * PAGE, 497 * PAGE) &&
		       !map_pages(p, 512 * PAGE),
	       "munmap() of a part: what is mapped there later is left alone, the rest given back");
	drop(p, 512);

	/* another map's pages at the same place and offset */
	p = pages(512);
	mr = adopt(p, 512 * PAGE);
	need(mr && !weft_alloc(m.b, 2 << 20, &pool), "alloc");
	munmap(p, 512 * PAGE);
	need(mremap(pool, 2 << 20, 2 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p, "mremap");
	result(!weft_mr_dereg(mr) && map_pages(p, 512 * PAGE) == 1,
	       "munmap(), and pages of another pool instead: they are left alone");
	munmap(p, 512 * PAGE);
	weft_free(m.b, pool);
}

static void moved(void)
{
	uint8_t *p = pages(8), *to = pages(8), *other = pages(1);
	struct weft_mr *mr, *stays = adopt(other, PAGE); /* so that their pool does */

	pattern(p, 8 * PAGE, 21);
	mr = adopt(p, 8 * PAGE);
	need(mr && stays, "adopt");
	result(mremap(p, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED,
	       "mremap(): it cannot grow: %s", strerror(errno));
	result(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to &&
		       put(0, PAGE, weft_mr_key(mr), 0) && !memcmp(to, m.src, PAGE),
	       "it can move, and WRITEs follow");
	result(!weft_mr_dereg(mr) && !memcmp(to, m.src, PAGE) &&
		       has_pattern(to + 7 * PAGE, 1, 21 + 7 * PAGE * 7 + 7 * PAGE / 253),
	       "deregistered it keeps its contents");
	mr = adopt(p = pages(8), 8 * PAGE);
	need(mr != NULL, "adopt");
	result(put(9, PAGE, weft_mr_key(mr), 0) && !memcmp(to, m.src, PAGE),
	       "and no later region gets those pages");
	weft_mr_dereg_many((struct weft_mr *[]){ mr, stays }, 2);
}

static void thrown_away(void)
{
	uint8_t *p = pages(4);
	struct weft_mr *mr;
	int fd[2], err;

	pattern(p, 4 * PAGE, 31);
	mr = adopt(p, 4 * PAGE);
	need(mr && !pipe(fd), "adopt");
	result(!madvise(p + PAGE, PAGE, MADV_DONTNEED) && write(fd[1], p + PAGE, 8) < 0 &&
		       errno == EFAULT && write(fd[1], p, 8) == 8,
	       "MADV_DONTNEED: those pages cannot be reached any more (SIGBUS)");
	result(put(0, 100, weft_mr_key(mr), PAGE), "peers still reach them");
	err = weft_mr_dereg(mr);
	result(!err && !memcmp(p + PAGE, m.src, 100) && has_pattern(p, PAGE, 31) &&
		       p[4 * PAGE - 1] == (uint8_t)(31 + (4 * PAGE - 1) * 7 + (4 * PAGE - 1) / 253),
	       "deregistration brings them back, with all contents");
	drop(p, 4);
}

/* The child's memory is its own: contents of the fork, nothing seen by the parent nor of the peers. */
static void forked(void)
{
	uint8_t *p = pages(2048), *hole = pages(2);
	struct weft_mr *mr, *mr2;
	int to[2], from[2], status;
	struct rlimit files;
	char c = 0;
	pid_t pid;

	pattern(p, 2048 * PAGE, 41);
	mr = adopt(p + 50, 2048 * PAGE - 100);
	mr2 = adopt(hole, 2 * PAGE);
	need(mr && mr2 && !pipe(to) && !pipe(from), "adopt");
	madvise(hole, 2 * PAGE, MADV_DONTFORK);
	pid = fork();
	if (!pid) {
		bool ok = has_pattern(p, 2048 * PAGE, 41) && !map_pages(p, 2048 * PAGE);

		memset(p, 0xee, PAGE);
		ok = ok && write(from[1], hole, 1) < 0; /* as it was asked for */
		ok = write(from[1], "x", 1) == 1 && read(to[0], &c, 1) == 1 && ok &&
		     p[60] == 0xee && !memcmp(p + PAGE, p + PAGE, 1) &&
		     p[2 * PAGE] == (uint8_t)(41 + 2 * PAGE * 7 + 2 * PAGE / 253);
		_exit(ok ? 0 : 1);
	}
	need(read(from[0], &c, 1) == 1, "the child");
	result(has_pattern(p, 2048 * PAGE, 41),
	       "fork(): what the child writes is not the parent's");
	result(put(0, 3 * PAGE, weft_mr_key(mr), 0), "WRITEs go on");
	need(write(to[1], "x", 1) == 1, "pipe");
	waitpid(pid, &status, 0);
	result(!status, "the child had the contents, its own pages, and none of the WRITE");
	/* a child that cannot copy must not share either */
	getrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, files.rlim_max });
	pid = fork();
	if (!pid) {
		p[60] = 0xdd;
		_exit(0);
	}
	setrlimit(RLIMIT_NOFILE, &files);
	waitpid(pid, &status, 0);
	result(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && p[60] != 0xdd,
	       "a child that cannot have pages of its own has none there");
	result(!weft_mr_dereg(mr) && !weft_mr_dereg(mr2) && !memcmp(p + 50, m.src, 3 * PAGE),
	       "and the parent goes on as before");
	drop(p, 2048);
	drop(hole, 2);
}

/* What is adopted when the device closes is the process's again. */
static void closed(void)
{
	uint8_t *p = pages(1500);

	pattern(p, 1500 * PAGE, 51);
	need(adopt(p + 10, 1499 * PAGE) && adopt(p + 1499 * PAGE + 100, 200), "adopt");
	weft_qp_close(m.peer);
	weft_listener_close(m.l);
	weft_close(m.b);
	m.b = NULL;
	result(!map_pages(p, 1500 * PAGE) && has_pattern(p, 1500 * PAGE, 51),
	       "weft_close() gives back what is registered");
}

/* For test_memory.sh, which takes away what adoption needs. */
static void no_userfaultfd(void)
{
	uint8_t *p = pages(4);
	struct weft_mr *mr;

	pattern(p, 4 * PAGE, 71);
	refused("without userfaultfd", p + 10, 2 * PAGE, -EOPNOTSUPP);
	result(has_pattern(p, 4 * PAGE, 71) && !map_pages(p, 4 * PAGE), "it stays as it was");
	result(!weft_mr_reg(m.b, NULL, p + 10, 2 * PAGE, ALL | WEFT_ADOPT | WEFT_STAGE, &mr) &&
		       weft_mr_mode(mr) == WEFT_MR_STAGE && put(0, 99, weft_mr_key(mr), 0) &&
		       !weft_mr_sync(mr, 0, 99, WEFT_SYNC_OUT) && !memcmp(p + 10, m.src, 99),
	       "or is staged, if it may be");
	weft_mr_dereg(mr);
	drop(p, 4);
}

static void small_under_writers(void)
{
	uint8_t *other = pages(1);
	struct weft_mr *stays = adopt(other, PAGE); /* so that the pool does, and more rounds fit */

	need(stays != NULL, "adopt");
	stress(3000, 5000, 0.5);
	weft_mr_dereg(stays);
	drop(other, 1);
}

static void large_under_writers(void)
{
	stress(3000, BIG - 5000, 1.5);
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {
		PART(in_place),
		PART(small_under_writers),
		PART(large_under_writers),
		PART(refusals),
		PART(heaps),
		PART(unmapped),
		PART(moved),
		PART(thrown_away),
		PART(forked),
		PART(closed),
		{ NULL, NULL },
	};

	static const struct part poor[] = { PART(no_userfaultfd), { NULL, NULL } };

	return run_parts(argc, argv, argc > 6 && !strcmp(argv[6], poor->name) ? poor : parts);
}
