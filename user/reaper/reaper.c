/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The reaper: waits for the last user of a device to go, however that ends, then takes it down. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <sys/file.h>
#include <sys/prctl.h>

#include <weft/abi.h>

#include "../teardown.h"

/*
 * weft-reaper DIR IFINDEX, started by reaper_spawn.c with the descriptors
 *   3  pipe: a byte, or its end, says that whoever sets the device up holds his
 *      lock, or is dead
 *   4  the network namespace of the interface
 */
#define FD_GO    3
#define FD_NETNS 4

static void wake(int sig)
{
	(void)sig; /* only interrupts flock() */
}

static void pause_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* Sleep until nobody uses the directory. 0: it is ours alone; -1: it is gone. */
static int wait_for_users(int dir, const char *path)
{
	while (weft_td_linked(dir, path)) {
		if (!flock(dir, LOCK_EX))
			return weft_td_linked(dir, path) ? 0 : -1;
		if (errno != EINTR)
			return -1;
		/* Something was removed: give 'weft down' the time to remove all of it. */
		pause_ms(50);
	}
	return -1;
}

/* Nobody uses it: take it down, unless it is to stay. false: somebody came, or removed it. */
static bool take_down(int dir, const char *path, uint32_t ifindex)
{
	struct weft_cfg_head head;
	int i;

	if (flock(dir, LOCK_EX | LOCK_NB) || !weft_td_linked(dir, path))
		return false;
	if (!(weft_td_complete(dir) && !weft_td_cfg(path, &head, NULL) &&
	      (head.flags & WEFT_DEV_KEEP)))
		for (i = 0; i < 5 && weft_td_remove(path, ifindex, 1); i++)
			pause_ms(100);
	return true;
}

static void finish(const char *path, uint32_t ifindex)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), door;
	bool done = false;

	if (dir < 0)
		return;
	fcntl(dir, F_NOTIFY, DN_DELETE | DN_MULTISHOT);
	/*
	 * Behind the door, or 'weft down' would remove it as well, and what 'weft up'
	 * makes next would be taken for the rest. Who is in the door may wait for our lock.
	 */
	while (!done && !wait_for_users(dir, path)) {
		flock(dir, LOCK_UN);
		door = weft_td_open_door(path, 0);
		done = take_down(dir, path, ifindex);
		weft_td_leave_door(path, door);
	}
	close(dir); /* and its lock, before we wait for another */
}

static bool in_netns(void)
{
	struct stat want, is;

	return !fstat(FD_NETNS, &want) && !stat("/proc/self/ns/net", &is) &&
	       want.st_ino == is.st_ino && want.st_dev == is.st_dev;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = wake };
	uint32_t ifindex;
	const char *path;
	sigset_t none;
	char c;

	if (argc != 3)
		return 2;
	path = argv[1];
	ifindex = strtoul(argv[2], NULL, 10);
	prctl(PR_SET_NAME, "weft-reaper");
	/* A service manager that stops the application stops all its processes; stay till the end. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGIO, &sa, NULL); /* no SA_RESTART */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	/* who started us may do no more than work in this namespace, where we are already */
	if (setns(FD_NETNS, CLONE_NEWNET) && !in_netns())
		return 1;
	close(FD_NETNS);
	while (read(FD_GO, &c, 1) < 0 && errno == EINTR)
		;
	close(FD_GO);

	finish(path, ifindex);
	weft_td_close_door(path, 0);
	rmdir(WEFT_PIN_BASE); /* stays when other devices are in it */
	return 0;
}
