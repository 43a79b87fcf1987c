// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weftd: holds weft devices for processes without privileges. Options, signals, the main loop. */
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "weftd.h"

#define TIDY_MS 1000

static const char help[] =
	"usage: weftd [ OPTIONS ]\n"
	"\n"
	"Lets processes without privileges use weft on the interfaces that its configuration names.\n"
	"\n"
	"options:\n"
	"  -c, --config FILE   configuration; default " WEFTD_CONF
	"\n"
	"  -s, --socket PATH   where it listens; default " WEFTD_SOCKET
	"\n"
	"  -n, --netns NAME    work in the network namespace NAME (of 'ip netns list') or at a path\n"
	"  -t, --test          only look whether the configuration is in order\n"
	"  -v, --verbose       say more on stderr; repeat for still more\n"
	"  -V, --version       print the version\n"
	"  -h, --help          this text\n"
	"\n"
	"SIGHUP: read the configuration again. SIGTERM: end; clients and devices go on.\n";

static void say(void *arg, enum weft_log_level level, const char *line)
{
	(void)arg, (void)level;
	fprintf(stderr, "weftd: %s\n", line);
}

/* 6.1 and later set the state that systemd waits for by a datagram. */
static void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, len);
	if (*path == '@')
		sa.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		      offsetof(struct sockaddr_un, sun_path) + len);
	close(fd);
}

static int enter_netns(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/run/netns/", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		return weft_err(errno, name,
				"cannot enter the network namespace: %s; see "
				"'ip netns list'",
				strerror(errno));
	close(fd);
	return 0;
}

/* What cannot be read leaves all as it was. */
static void reload(const char *path, struct conf *c)
{
	static struct conf next;

	if (conf_read(path, &next))
		return;
	*c = next;
	serve_configure(c);
	held_configure(c);
	weft_logf(WEFT_LOG_WARN, "%s: read again", path);
}

static int loop(int listen_fd, int sig_fd, const char *path, struct conf *c)
{
	struct pollfd p[] = { { .fd = listen_fd, .events = POLLIN },
			      { .fd = sig_fd, .events = POLLIN } };
	struct signalfd_siginfo si;
	uint64_t tidied = 0;

	for (;;) {
		if (poll(p, 2, TIDY_MS) < 0 && errno != EINTR)
			return weft_err(errno, "poll", "%s", strerror(errno));
		if (p[0].revents)
			serve_accept(listen_fd);
		if (p[1].revents && read(sig_fd, &si, sizeof(si)) == sizeof(si)) {
			if (si.ssi_signo != SIGHUP)
				return 0;
			reload(path, c);
		}
		if (weft_now_ns() - tidied >= TIDY_MS * 1000000ull) {
			held_tidy();
			tidied = weft_now_ns();
		}
	}
}

static int run(const char *config, const char *path, struct conf *c)
{
	int listen_fd, sig_fd, err;
	struct rlimit files;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sig_fd < 0)
		return weft_err(errno, "signalfd", "%s", strerror(errno));
	umask(0077);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	listen_fd = serve_listen(path);
	if (listen_fd < 0)
		return listen_fd;
	serve_configure(c);
	held_configure(c);
	printf("ready: %s\n", path);
	fflush(stdout);
	notify("READY=1");
	err = loop(listen_fd, sig_fd, config, c);
	notify("STOPPING=1");
	/* its path stays: who comes now waits a while for the next weftd */
	close(listen_fd);
	serve_end();
	held_tidy();
	held_close_all();
	return err;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "netns", required_argument, NULL, 'n' },
		{ "test", no_argument, NULL, 't' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *config = WEFTD_CONF, *path = WEFTD_SOCKET, *netns = NULL;
	enum weft_log_level level = WEFT_LOG_WARN;
	static struct conf c;
	bool test = false;
	int o;

	while ((o = getopt_long(argc, argv, "c:s:n:tvVh", longs, NULL)) != -1) {
		switch (o) {
		case 'c': config = optarg; break;
		case 's': path = optarg; break;
		case 'n': netns = optarg; break;
		case 't': test = true; break;
		case 'v': level += level < WEFT_LOG_DEBUG; break;
		case 'V': printf("weftd %s, ABI %d\n", WEFT_VERSION, WEFT_ABI); return 0;
		case 'h': fputs(help, stdout); return 0;
		default: return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "weftd: what is \"%s\"; see 'weftd --help'\n", argv[optind]);
		return 2;
	}
	weft_set_log(say, NULL, level);
	if (conf_read(config, &c))
		return 1;
	if (test)
		return 0;
	if (geteuid()) {
		weft_err(EPERM, "weftd", "attaches BPF programs; run it as root");
		return 1;
	}
	if (netns && enter_netns(netns))
		return 1;
	return run(config, path, &c) ? 1 : 0;
}
