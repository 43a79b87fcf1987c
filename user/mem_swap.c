/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Pages exchanged while other threads use them: private memory for pages of a map and back.
 *
 * Whoever touches a piece during its exchange sleeps in a userfaultfd until the new pages are
 * there, so no write is lost and nothing but contents is seen. In: the piece is moved away, which
 * leaves a hole under userfaultfd; what was there is copied, and the map takes its place. Out: an
 * empty piece under userfaultfd is moved over the map's pages and filled from them. For that the
 * registration must move along (UFFD_FEATURE_EVENT_REMAP), and the kernel lets mremap() return only
 * when somebody has read the event: a thread of its own.
 *
 * In between this thread must not touch the piece itself, or it would wait for itself. So all
 * that is used lies on its stack, signals are blocked, and every call is one that has been bound.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "mem.h"

#define PIECE (4u << 20) /* so long does a thread that needs it wait; also a mapping of its own */
#define BIND  64
#define TRIES 2000 /* a millisecond each: the kernel has no page for us */

static size_t piece(const struct weft_swap *s, size_t at)
{
	return s->len - at < PIECE ? s->len - at : PIECE;
}

/* Through syscall(): bound before the first piece moves, for the loader may keep its tables there. */
static void *move(void *from, size_t len, int flags, void *to)
{
	return (void *)syscall(SYS_mremap, from, len, len, flags, to);
}

static int uffd_ioctl(int uffd, unsigned long cmd, void *arg)
{
	return syscall(SYS_ioctl, uffd, cmd, arg) ? -errno : 0;
}

/* Faults of the kernel on behalf of the process must wait too: a right of its own. */
static int open_uffd(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), dev, err;

	if (fd < 0 && errno != EPERM)
		return -errno;
	if (fd < 0) {
		dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		if (dev < 0)
			return -EPERM;
		fd = syscall(SYS_ioctl, dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		close(dev);
		if (fd < 0)
			return -EPERM;
	}
	err = uffd_ioctl(fd, UFFDIO_API, &api);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int watch(int uffd, void *at, size_t len)
{
	struct uffdio_register reg = { .range = { (uintptr_t)at, len },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };

	return uffd_ioctl(uffd, UFFDIO_REGISTER, &reg);
}

/* Who sleeps goes on, with what is there now. */
static void unwatch(int uffd, void *at, size_t len)
{
	struct uffdio_range range = { (uintptr_t)at, len };

	if (uffd_ioctl(uffd, UFFDIO_UNREGISTER, &range))
		uffd_ioctl(uffd, UFFDIO_WAKE, &range);
}

/* The empty pages at `at`, which are watched, get these contents; how far that came. */
static int fill(int uffd, void *at, const void *from, size_t len, size_t *done)
{
	struct timespec ms = { .tv_nsec = 1000000 };
	unsigned tries = 0;

	*done = 0;
	while (*done < len) {
		struct uffdio_copy c = { .dst = (uintptr_t)at + *done,
					 .src = (uintptr_t)from + *done,
					 .len = len - *done };
		int err = uffd_ioctl(uffd, UFFDIO_COPY, &c);

		if (c.copy > 0)
			*done += c.copy;
		else if (err == -ENOENT || err == -ESRCH || ++tries > TRIES)
			return err; /* it was unmapped meanwhile; or there is no memory at all */
		else
			syscall(SYS_nanosleep, &ms, NULL);
	}
	return 0;
}

static int map_piece(const struct weft_swap *s, size_t at, size_t n)
{
	return syscall(SYS_mmap, s->lo + at, n, s->prot, MAP_SHARED | MAP_FIXED, s->fd,
		       s->off + at) == -1
		       ? -errno
		       : 0;
}

static int take_piece(const struct weft_swap *s, int uffd, size_t at, size_t n)
{
	uint8_t *lo = s->lo + at;
	int err = watch(uffd, lo, n);
	size_t done;
	void *was;

	if (err)
		return err;
	was = move(lo, n, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (was == MAP_FAILED) {
		err = -errno;
		unwatch(uffd, lo, n);
		return err;
	}
	memcpy(s->base + at, was, n);
	err = map_piece(s, at, n);
	if (!err || !fill(uffd, lo, was, n, &done) ||
	    move(was, n, MREMAP_MAYMOVE | MREMAP_FIXED, lo) == MAP_FAILED)
		syscall(SYS_munmap, was, n);
	unwatch(uffd, lo, n);
	return err;
}

/*
 * s->lo, private anonymous pages, readable and writable, becomes those of the map, with its
 * contents. At an error the pieces before it have.
 */
int weft_swap_in(const struct weft_swap *given)
{
	struct weft_swap s = *given;
	int uffd = open_uffd(0), err = 0;
	sigset_t all, was;
	size_t at, n;

	if (uffd < 0)
		return uffd;
	memcpy(s.base, s.lo, s.len < BIND ? s.len : BIND); /* only so that the call is bound */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	for (at = 0; at < s.len && !err; at += err ? 0 : n) {
		n = piece(&s, at);
		err = take_piece(&s, uffd, at, n);
	}
	close(uffd);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return err;
}

/* ---- and back ---- */

struct reader {
	pthread_t thread;
	int uffd, stop;
};

/* Reads what the kernel tells, so that mremap() returns. */
static void *read_events(void *arg)
{
	const struct reader *r = arg;
	struct pollfd p[2] = { { .fd = r->uffd, .events = POLLIN },
			       { .fd = r->stop, .events = POLLIN } };
	struct uffd_msg m;

	while (!p[1].revents) {
		while (syscall(SYS_read, r->uffd, &m, sizeof(m)) == sizeof(m))
			;
		syscall(SYS_ppoll, p, 2, NULL, NULL, 0);
	}
	return NULL;
}

static int start_reader(struct reader *r)
{
	int err;

	r->uffd = open_uffd(UFFD_FEATURE_EVENT_REMAP);
	if (r->uffd < 0)
		return r->uffd;
	r->stop = eventfd(0, EFD_CLOEXEC);
	if (r->stop < 0) {
		err = -errno;
	} else {
		err = -pthread_create(&r->thread, NULL, read_events, r);
		if (err)
			close(r->stop);
	}
	if (err)
		close(r->uffd);
	return err;
}

static void stop_reader(const struct reader *r)
{
	eventfd_write(r->stop, 1);
	pthread_join(r->thread, NULL);
	close(r->stop);
	close(r->uffd);
}

/* Empty private pages, watched: not yet there also when the process locks what it maps. */
static int blank(int uffd, size_t n, void **out)
{
	int err;
	void *p = (void *)syscall(SYS_mmap, NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	syscall(SYS_munlock, p, n);
	err = syscall(SYS_mprotect, p, n, PROT_READ | PROT_WRITE) ? -errno : watch(uffd, p, n);
	if (err)
		syscall(SYS_munmap, p, n);
	else
		*out = p;
	return err;
}

static int give_piece(const struct weft_swap *s, int uffd, size_t at, size_t n)
{
	uint8_t *lo = s->lo + at;
	void *p = NULL;
	int err = blank(uffd, n, &p);
	size_t done;

	if (err)
		return err;
	if (move(p, n, MREMAP_MAYMOVE | MREMAP_FIXED, lo) == MAP_FAILED) {
		err = -errno;
		syscall(SYS_munmap, p, n);
		return err;
	}
	err = fill(uffd, lo, s->base + at, n, &done);
	if (err && err != -ENOENT && err != -ESRCH) { /* then as it was */
		memcpy(s->base + at, lo, done);
		map_piece(s, at, n);
	}
	unwatch(uffd, lo, n);
	if (!err && s->prot != (PROT_READ | PROT_WRITE))
		syscall(SYS_mprotect, lo, n, s->prot);
	return err;
}

/* s->lo, pages of the map, becomes private memory with its contents; at an error the rest stays. */
int weft_swap_out(const struct weft_swap *given)
{
	struct weft_swap s = *given;
	sigset_t all, was;
	struct reader r;
	bool reading;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was); /* the reader's, too */
	err = start_reader(&r);
	reading = !err;
	for (size_t at = 0; at < s.len && !err; at += piece(&s, at))
		err = give_piece(&s, r.uffd, at, piece(&s, at));
	if (reading)
		stop_reader(&r);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return err;
}

#define STACK  32768 /* more than all frames that come after this one */
#define THREAD 4096  /* what the C library keeps of a thread */

static bool meet(uintptr_t a, size_t len, const void *lo, const void *hi)
{
	return a < (uintptr_t)hi && (uintptr_t)lo < a + len;
}

bool weft_swap_is_ours(const void *lo, const void *hi)
{
	return meet((uintptr_t)__builtin_frame_address(0) - STACK, 2 * STACK, lo, hi) ||
	       meet((uintptr_t)pthread_self(), THREAD, lo, hi) ||
	       meet((uintptr_t)&errno, sizeof(errno), lo, hi);
}
