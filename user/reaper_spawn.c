/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Starting the reaper: a detached process that shares nothing with the application. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "device.h"

#define STACK   32768
#define FD_HIGH 16 /* above every number that the new process uses */

extern const char weft_reaper_blob[], weft_reaper_blob_end[];

struct spawn {
	int exe, go, netns;
	char *const *argv;
	char *stack2; /* top */
	int err;      /* written by the child: it shares our memory until it executes */
};

/* Second child: arranges its descriptors and becomes the reaper. */
static int become_reaper(void *arg)
{
	static char *const envp[] = { NULL };
	struct spawn *s = arg;
	int go, ns, exe, nul;

	go = fcntl(s->go, F_DUPFD, FD_HIGH);
	ns = fcntl(s->netns, F_DUPFD, FD_HIGH);
	exe = fcntl(s->exe, F_DUPFD, FD_HIGH);
	nul = open("/dev/null", O_RDWR);
	if (go < 0 || ns < 0 || exe < 0 || nul < 0)
		goto fail;
	if (nul < FD_HIGH)
		nul = fcntl(nul, F_DUPFD, FD_HIGH);
	if (dup2(nul, 0) < 0 || dup2(nul, 1) < 0 || dup2(nul, 2) < 0 || dup2(go, 3) < 0 ||
	    dup2(ns, 4) < 0 || dup3(exe, 5, O_CLOEXEC) < 0)
		goto fail;
	if (syscall(SYS_close_range, 6u, ~0u, 0u))
		goto fail;
	setsid();
	if (chdir("/"))
		goto fail;
	syscall(SYS_execveat, 5, "", s->argv, envp, AT_EMPTY_PATH);
fail:
	/* no number so high: its limit is lower */
	s->err = errno == EINVAL ? EMFILE : errno;
	_exit(1);
}

/* First child: its end makes the second one an orphan, so the application never has to wait(). */
static int start_second(void *arg)
{
	struct spawn *s = arg;

	if (clone(become_reaper, s->stack2, CLONE_VM | CLONE_VFORK, s) < 0)
		s->err = errno;
	_exit(0);
}

static int blob_fd(void)
{
	size_t len = weft_reaper_blob_end - weft_reaper_blob, done = 0;
	int fd = memfd_create("weft-reaper", MFD_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (done < len) {
		n = write(fd, weft_reaper_blob + done, len - done);
		if (n < 0 && errno != EINTR) {
			int err = -errno;

			close(fd);
			return err;
		}
		if (n > 0)
			done += n;
	}
	return fd;
}

/*
 * As vfork() twice: neither copies the application's memory nor runs its
 * handlers. No SIGCHLD is sent, and wait() does not see the child, for its exit
 * signal is 0.
 */
static int spawn(struct spawn *s)
{
	char *stacks =
		mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all, old;
	pid_t pid;

	if (stacks == MAP_FAILED)
		return -errno;
	s->stack2 = stacks + STACK;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(start_second, stacks + 2 * STACK, CLONE_VM | CLONE_VFORK, s);
	if (pid < 0)
		s->err = errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stacks, 2 * STACK);
	return -s->err;
}

int weft_reaper_start(struct weft_dev *dev, int *go)
{
	char index[16];
	char *const argv[] = { "weft-reaper", dev->pin_dir, index, NULL };
	struct spawn s = { .netns = dev->netns_fd, .argv = argv };
	int pipefd[2], err;

	snprintf(index, sizeof(index), "%d", dev->ifindex);
	s.exe = blob_fd();
	if (s.exe < 0)
		return s.exe;
	if (pipe2(pipefd, O_CLOEXEC)) {
		err = -errno;
		close(s.exe);
		return err;
	}
	s.go = pipefd[0];
	err = spawn(&s);
	close(s.exe);
	close(pipefd[0]);
	if (err)
		close(pipefd[1]);
	else
		*go = pipefd[1];
	return err;
}
