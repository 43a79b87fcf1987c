// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The socket of weftd and its connections, a thread each: who is there, what he says, the answer. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "weftd.h"

#define CONNS_MAX  1024
#define STRANGERS  8 /* connections of a user beyond the two of each process */
#define HELLO_MS   3000
#define REPLY_MS   5000
#define GROUPS_MAX 256
#define STACK      (1 << 20)
#define NO_TEXT    "weftd: the request failed" /* of who says no more */

struct conn {
	LIST_ENTRY(conn) link;
	int fd;
	struct peer peer;
};

static LIST_HEAD(, conn) list = LIST_HEAD_INITIALIZER(list);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t list_empty = PTHREAD_COND_INITIALIZER;
static unsigned nconns;
static struct conf conf; /* with list_lock */
static uint64_t own_cookie;

/* ---- the socket ---- */

static uint64_t cookie(int fd)
{
	uint64_t c = 0;
	socklen_t len = sizeof(c);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &c, &len) ? 0 : c;
}

/* One weftd a path, as long as it lives: then what lies there is a dead one's. */
static int lock_path(const char *path)
{
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	int fd;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return weft_err(errno, lock, "cannot create it: %s; is there its directory?",
				strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return weft_err(
			EADDRINUSE, path,
			"another weftd serves this socket; stop it, or choose another with -s");
	}
	return 0; /* open for life */
}

int serve_listen(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct stat st;
	int fd, err;

	if (snprintf(sa.sun_path, sizeof(sa.sun_path), "%s.new", path) >= (int)sizeof(sa.sun_path))
		return weft_err(ENAMETOOLONG, path, "the path of the socket is too long");
	err = lock_path(path);
	if (err)
		return err;
	if (!lstat(path, &st) && !S_ISSOCK(st.st_mode))
		return weft_err(EEXIST, path, "is there and no socket; remove it");
	unlink(sa.sun_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return weft_err(errno, path, "no Unix socket: %s", strerror(errno));
	/*
	 * Who may come says the configuration, not the mode. It takes the place of a dead one's in one
	 * step: clients that find none would not wait.
	 */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || chmod(sa.sun_path, 0666) ||
	    listen(fd, 128) || rename(sa.sun_path, path)) {
		err = weft_err(errno, path, "cannot listen there: %s", strerror(errno));
		close(fd);
		return err;
	}
	own_cookie = cookie(fd);
	return fd;
}

void serve_configure(const struct conf *c)
{
	pthread_mutex_lock(&list_lock);
	conf = *c;
	pthread_mutex_unlock(&list_lock);
}

/* ---- who is there ---- */

static bool matches(const struct conf_rule *r, uint32_t uid, const gid_t *groups, unsigned n)
{
	if (r->kind == RULE_ALL)
		return true;
	if (r->kind == RULE_USER)
		return r->id == uid;
	for (unsigned i = 0; i < n; i++)
		if (groups[i] == r->id)
			return true;
	return false;
}

/* With list_lock. */
static void find_rule(int fd, const struct ucred *cred, struct peer *p)
{
	gid_t groups[GROUPS_MAX + 1];
	socklen_t len = GROUPS_MAX * sizeof(gid_t);
	unsigned n = 0;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		n = len / sizeof(gid_t);
	groups[n++] = cred->gid;
	for (unsigned i = 0; i < conf.nrules && !p->allowed; i++)
		if (matches(&conf.rule[i], cred->uid, groups, n)) {
			p->allowed = true;
			p->q = conf.rule[i].q;
		}
}

static int know(int fd, struct peer *p)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*p = (struct peer){ .uid = cred.uid, .pid = cred.pid };
	/* the kernel makes our end of the connection in the namespace of the one who connects */
	p->same_ns = own_cookie && cookie(fd) == own_cookie;
	find_rule(fd, &cred, p);
	return 0;
}

/* ---- what he says ---- */

static int reply(int fd, struct weftd_msg *m, int err, const int *fds, unsigned n)
{
	size_t len = weft_daemon_ops[m->op].rep;

	m->err = err;
	if (err) {
		memset(m->u.text, 0, sizeof(m->u.text));
		if (!strcmp(weft_strerror_last(), NO_TEXT))
			snprintf(m->u.text, sizeof(m->u.text), "%s: %s; see its log", NO_TEXT,
				 strerror(-err));
		else
			snprintf(m->u.text, sizeof(m->u.text), "%s", weft_strerror_last());
		len = WEFTD_TEXT;
		n = 0;
	}
	return weft_daemon_send(fd, m, len, fds, n);
}

/* -EPROTO and others end the connection. */
static int greet(struct conn *c, struct weftd_msg *m, struct proc **p)
{
	struct weftd_hello h = m->u.hello;
	int fds[WEFTD_FDS], err;
	struct timeval none = { 0 };
	unsigned n;

	weft_err_quiet(EIO, "weftd", "the request failed"); /* NO_TEXT */
	err = proc_hello(&c->peer, &h, &m->u.hello_rep, fds, &n, p);
	if (!err)
		setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	err = reply(c->fd, m, err, fds, n);
	/* the client's alone from now on, and gone with it */
	while (n)
		close(fds[--n]);
	if (!err && *p)
		proc_routes(*p);
	return err;
}

static int answer(struct conn *c, struct weftd_msg *m, int len, int fd, struct proc **p)
{
	const struct weft_daemon_op *d = &weft_daemon_ops[m->op];
	int out = -1, err;

	if (len != d->req || (fd >= 0) != d->fds_in || (m->op == WEFTD_hello) != !*p)
		return -EPROTO;
	if (m->op == WEFTD_hello)
		return greet(c, m, p);
	weft_err_quiet(EIO, "weftd", "the request failed"); /* NO_TEXT */
	err = ops_run(*p, m, fd, &out);
	err = reply(c->fd, m, err, &out, out >= 0);
	if (out >= 0)
		close(out);
	return err;
}

static void *run(void *arg)
{
	struct conn *c = arg;
	struct user_name name;
	struct proc *p = NULL;
	struct weftd_msg m;
	int fds[WEFTD_FDS], len, err;
	unsigned n;

	do {
		len = weft_daemon_recv(c->fd, &m, fds, &n);
		err = len < 0 ? len : n > 1 ? -EPROTO : answer(c, &m, len, n ? fds[0] : -1, &p);
		while (n)
			close(fds[--n]);
	} while (!err);
	if (err == -EPROTO)
		weft_logf(WEFT_LOG_WARN, "%s: process %u sends what is no request; cut off",
			  user_name(c->peer.uid, &name), c->peer.pid);
	pthread_mutex_lock(&list_lock);
	shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&list_lock);
	if (p)
		proc_bye(p);
	pthread_mutex_lock(&list_lock);
	LIST_REMOVE(c, link);
	close(c->fd);
	if (!--nconns)
		pthread_cond_signal(&list_empty);
	pthread_mutex_unlock(&list_lock);
	free(c);
	return NULL;
}

/* With list_lock: so many that others would be kept out? */
static bool too_many(const struct peer *p)
{
	unsigned n = 0;
	struct conn *c;

	LIST_FOREACH(c, &list, link)
		n += c->peer.uid == p->uid;
	return nconns >= CONNS_MAX || n >= 2 * p->q.processes + STRANGERS;
}

void serve_accept(int listen_fd)
{
	struct timeval in = { .tv_sec = HELLO_MS / 1000 }, out = { .tv_sec = REPLY_MS / 1000 };
	struct conn *c = calloc(1, sizeof(*c));
	pthread_attr_t attr;
	pthread_t thread;

	if (!c)
		return;
	c->fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (c->fd < 0) {
		free(c);
		usleep(10000); /* short of descriptors: it comes again */
		return;
	}
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &in, sizeof(in));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &out, sizeof(out));
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_mutex_lock(&list_lock);
	if (know(c->fd, &c->peer) || too_many(&c->peer)) {
		weft_logf(
			WEFT_LOG_WARN,
			"user %u: a connection refused: all users together may have %d, one twice "
			"as many as processes are allowed and %d; end some processes",
			c->peer.uid, CONNS_MAX, STRANGERS);
		goto refuse;
	}
	if (pthread_create(&thread, &attr, run, c))
		goto refuse;
	LIST_INSERT_HEAD(&list, c, link);
	nconns++;
	pthread_mutex_unlock(&list_lock);
	pthread_attr_destroy(&attr);
	return;
refuse:
	pthread_mutex_unlock(&list_lock);
	pthread_attr_destroy(&attr);
	close(c->fd);
	free(c);
}

void serve_end(void)
{
	struct timespec until;
	struct conn *c;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	pthread_mutex_lock(&list_lock);
	LIST_FOREACH(c, &list, link)
		shutdown(c->fd, SHUT_RDWR);
	while (nconns && !pthread_cond_timedwait(&list_empty, &list_lock, &until))
		;
	pthread_mutex_unlock(&list_lock);
}
