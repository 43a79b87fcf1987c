// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A user of weftd who means ill: garbage and forged requests, and what the descriptors let him do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <linux/if_tun.h>
#include <linux/if_xdp.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon_wire.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

static const char *socket_path, *ifname;
static uint64_t seed;
static int wrong;
static struct weftd_welcome me;
static int my_fds[WEFTD_FDS];

#define BAD(...) (wrong++, printf("wrong: " __VA_ARGS__), printf("\n"))

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 32;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval tv = { .tv_sec = 5 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(sa.sun_path, socket_path, sizeof(sa.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return fd;
}

/* One request as it should be sent; 0 or -errno of the reply, -ECONNRESET: cut off. */
static int ask(int fd, struct weftd_msg *m, int pass, int *fds, unsigned *n)
{
	int got[WEFTD_FDS], len, err;
	unsigned k;

	err = weft_daemon_send(fd, m, weft_daemon_ops[m->op].req, &pass, pass >= 0);
	if (err)
		return -ECONNRESET;
	len = weft_daemon_recv(fd, m, got, &k);
	if (len < 0)
		return -ECONNRESET;
	if (n)
		*n = k;
	for (unsigned i = 0; i < k; i++)
		if (fds)
			fds[i] = got[i];
		else
			close(got[i]);
	return m->err;
}

static int enter(int *fd)
{
	struct weftd_msg m = { .op = WEFTD_hello };
	unsigned n = 0;
	int err;

	*fd = dial();
	if (*fd < 0)
		return -ECONNREFUSED;
	strcpy(m.u.hello.ifname, ifname);
	m.u.hello.version = WEFTD_VERSION;
	m.u.hello.slot = WEFTD_NEW;
	err = ask(*fd, &m, -1, my_fds, &n);
	if (!err)
		me = m.u.hello_rep;
	if (!err && n != 4)
		BAD("%u descriptors come with the welcome", n);
	return err;
}

static void leave(int fd)
{
	close(fd);
	for (int i = 0; i < WEFTD_FDS; i++)
		close(my_fds[i]);
}

/* ---- garbage ---- */

static void fill(void *p, size_t len)
{
	uint32_t *w = p;

	for (size_t i = 0; i < len / 4; i++)
		w[i] = draw() % 3 ? draw() : draw() % 70;
}

static void one_message(int fd)
{
	static struct weftd_msg m;
	int fds[WEFTD_FDS], pass[8], n = draw() % 8 ? 0 : draw() % 5;
	size_t len;
	unsigned got;

	fill(&m, sizeof(m));
	m.op = draw() % 8 ? draw() % WEFTD_OPS_COUNT : draw();
	len = draw() % 4 && m.op < WEFTD_OPS_COUNT ? weft_daemon_ops[m.op].req
						   : draw() % (sizeof(m.u) + 1);
	if (m.op == WEFTD_qp_live && draw() % 4)
		n = 1;
	/* sizes that would only cost the machine its memory */
	if (m.op == WEFTD_pool_new)
		m.u.pool_new.v = draw() % 3 ? WEFT_CHUNK : draw();
	if (m.op == WEFTD_mr_drop || m.op == WEFTD_qp_stop)
		m.u.mr_drop.n = draw() % 2 ? draw() % 80 : draw();
	for (int i = 0; i < n; i++)
		pass[i] = draw() % 2 ? my_fds[draw() % WEFTD_FDS] : fd;
	if (weft_daemon_send(fd, &m, len, pass, n > WEFTD_FDS ? WEFTD_FDS : n) || !(draw() % 16))
		return;
	if (weft_daemon_recv(fd, &m, fds, &got) >= 0)
		while (got)
			close(fds[--got]);
}

static int garbage(double seconds)
{
	double end = now_s() + seconds;
	unsigned conns = 0, entered = 0;
	char raw[8192];

	/* a slow machine takes longer until it is a test */
	while (now_s() < end || ((conns < 10 || !entered) && now_s() < end + 60)) {
		bool in = draw() % 2;
		int fd, err = 0;

		if (in)
			err = enter(&fd);
		else
			fd = dial();
		if (fd < 0 || err) {
			if (fd >= 0)
				close(fd);
			usleep(10000);
			continue;
		}
		conns++;
		entered += in;
		for (unsigned i = 0, n = draw() % 40; i < n; i++) {
			if (draw() % 8) {
				one_message(fd);
				continue;
			}
			fill(raw, sizeof(raw));
			(void)!send(fd, raw, draw() % sizeof(raw), MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		if (in)
			leave(fd);
		else
			close(fd);
	}
	printf("connections %u, of them with a slot %u\n", conns, entered);
	if (conns < 10 || !entered)
		BAD("that is no test");
	return wrong != 0;
}

/* ---- what is others' ---- */

static int request(int fd, enum weftd_op op, const void *body, size_t len, int pass)
{
	struct weftd_msg m = { .op = op };

	memcpy(&m.u, body, len);
	return ask(fd, &m, pass, NULL, NULL);
}
static union weftd_body any; /* for its types */
#define REQUEST(fd, op, pass, ...)                              \
	({                                                      \
		__typeof__(any.op) b_ = { __VA_ARGS__ };        \
		request(fd, WEFTD_##op, &b_, sizeof(b_), pass); \
	})

static void others(int fd)
{
	struct weftd_nums all = { .state = WEFT_QP_CLOSED };
	uint32_t pd = me.slot << 16, n = 0;
	int err;

	/* dropping: answered as if it had been done already, for that is what a repeated request needs */
	for (uint32_t i = 0; i < WEFT_POOLS; i++)
		REQUEST(fd, pool_drop, -1, i);
	for (uint32_t i = 0; i < WEFT_CQS; i++)
		REQUEST(fd, cq_drop, -1, i);
	for (uint32_t i = 0; i < WEFT_MRS; i++) {
		all.num[n++] = WEFT_KEY(i, 0);
		if (n == WEFT_STOP_MAX) {
			all.n = n;
			request(fd, WEFTD_mr_drop, &all, sizeof(all), -1);
			n = 0;
		}
	}
	for (uint32_t gen = 1; gen < 12; gen++)
		for (uint32_t slot = 0; slot < 32; slot++) {
			uint32_t num = WEFT_QPN(slot, gen);

			all.n = 1;
			all.num[0] = num;
			request(fd, WEFTD_qp_stop, &all, sizeof(all), -1);
			REQUEST(fd, qp_failed, -1, .num = num);
			REQUEST(fd, qp_free, -1, .f.num = num);
			if (REQUEST(fd, qp_cwnd, -1, num, 1) != -ENOENT)
				BAD("the window of QP 0x%x can be set", num);
			if (REQUEST(fd, qp_stats, -1, num) != -ENOENT)
				BAD("the statistics of QP 0x%x are told", num);
			if (REQUEST(fd, qp_route, -1, num) != -ENOENT)
				BAD("the route of QP 0x%x is looked up", num);
		}
	/* a region in somebody's pool, in a domain of somebody's */
	for (uint32_t i = 0; i < 16; i++) {
		err = REQUEST(fd, mr_put, -1, .pool = i, .len = 4096, .pd = pd, .rights = 1);
		if (err != -ENOENT)
			BAD("a region in pool %u: %d", i, err);
	}
	for (uint32_t s = 0; s < WEFT_PROCS; s++) {
		struct weftd_hello h = { .version = WEFTD_VERSION, .slot = s };
		int again = dial();

		strcpy(h.ifname, ifname);
		memcpy(h.token, me.token, sizeof(h.token));
		h.token[1] ^= s == me.slot;
		err = request(again, WEFTD_hello, &h, sizeof(h), -1);
		if (err != -ESTALE)
			BAD("slot %u is given to a stranger: %d", s, err);
		close(again);
	}
}

/* Own objects with the bounds of others', and the rules among them. */
static void own(int fd)
{
	struct weftd_msg m = { .op = WEFTD_pool_new, .u.pool_new.v = WEFT_CHUNK };
	uint32_t pd = me.slot << 16, pool, cq, num;
	int map = -1, plain = socket(AF_INET, SOCK_STREAM, 0), err;
	struct weft_mr_ent good;
	struct weftd_live l;

	if (ask(fd, &m, -1, &map, NULL)) {
		BAD("no pool: %s", m.u.text);
		return;
	}
	pool = m.u.pool_new_rep.v;
	good = (struct weft_mr_ent){ .pool = pool, .len = 4096, .pd = pd, .rights = 1 };
#define MR(...)                                               \
	({                                                    \
		struct weft_mr_ent e = good;                  \
		__VA_ARGS__;                                  \
		request(fd, WEFTD_mr_put, &e, sizeof(e), -1); \
	})
	if (MR(e.len = WEFT_CHUNK + 64ull) != -EINVAL || MR(e.off = WEFT_CHUNK) != -EINVAL ||
	    MR(e.off = -4096ull) != -EINVAL || MR(e.len = 0) != -EINVAL ||
	    MR(e.off = 64, e.len = -64ull) != -EINVAL)
		BAD("a region reaches out of its pool");
	if (MR(e.pd = pd + (1 << 16)) != -ENOENT)
		BAD("a region in another's domain");
	if (MR(e.rights = 1u << 31) != -EINVAL)
		BAD("a right that does not exist");
	if (MR() || REQUEST(fd, pool_drop, -1, pool) != -EBUSY)
		BAD("a pool goes with a region in it");
	m = (struct weftd_msg){ .op = WEFTD_cq_new };
	err = ask(fd, &m, -1, NULL, NULL);
	cq = m.u.cq_new_rep.v;
	if (REQUEST(fd, qp_take, -1, 64, 256, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 256, 0, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 256, 1, 65) != -EINVAL)
		BAD("a QP with a ring, a window or values that do not exist");
	if (REQUEST(fd, qp_take, -1, 0, 0, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 128, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 768, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 8192, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 0, 1u << 31, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, 61, 1024, 1, 1) != -EINVAL ||
	    REQUEST(fd, qp_take, -1, ~0u - 2, 1024, 1, 1) != -EINVAL)
		BAD("a QP with a queue that is no queue, or rings that it does not have");
	m = (struct weftd_msg){ .op = WEFTD_qp_take, .u.qp_take = { 4, 1024, 8, 8 } };
	err = err ?: ask(fd, &m, -1, NULL, NULL);
	num = m.u.qp_take_rep.v;
	if (err)
		BAD("no QP: %d", err);
	if (REQUEST(fd, qp_take, -1, 4, 256, 1, 1) != -EBUSY ||
	    REQUEST(fd, qp_take, -1, 7, 256, 1, 1) != -EBUSY ||
	    REQUEST(fd, qp_take, -1, 1, 1024, 1, 1) != -EBUSY ||
	    REQUEST(fd, qp_take, -1, 0, 4096, 1, 1) != -EBUSY)
		BAD("two QPs with one ring");
	l = (struct weftd_live){
		.num = num, .pd = pd, .cq = cq, .payload = 1024, .dqpn = 1, .port = 4793
	};
	err = request(fd, WEFTD_qp_live, &l, sizeof(l), plain);
	if (err != -ENOTCONN)
		BAD("a QP goes live without a connection: %d", err);
	err = request(fd, WEFTD_qp_live, &l, sizeof(l), my_fds[1]);
	if (err != -EINVAL)
		BAD("a map is taken for a stream: %d", err);
	l.cq = cq + 1;
	if (request(fd, WEFTD_qp_live, &l, sizeof(l), plain) != -ENOENT)
		BAD("a QP with another's CQ");
	close(plain);
	close(map);
}

/* ---- what the descriptors are good for ---- */

static void descriptors(void)
{
	struct sockaddr_xdp sa = { .sxdp_family = AF_XDP, .sxdp_ifindex = me.ifindex };
	int slot = my_fds[0], rings = my_fds[1], xsk = my_fds[2], tap = my_fds[3], entries = 64, fd;
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), id;
	char frame[200] = { 0 };

	/* the directory: nothing can be found or made from it */
	fd = openat(slot, "..", O_RDONLY | O_DIRECTORY);
	if (fd >= 0 || !mkdirat(slot, "x", 0700) || !fchmod(slot, 0777) || !fchdir(slot))
		BAD("the slot's directory is a way in");
	/* the socket: neither to be bound elsewhere nor to send from */
	if (!bind(xsk, (struct sockaddr *)&sa, sizeof(sa)))
		BAD("the AF_XDP socket can be bound to %s", ifname);
	if (!setsockopt(xsk, SOL_XDP, XDP_TX_RING, &entries, sizeof(entries)))
		BAD("the AF_XDP socket takes a ring to send from");
	if (!sendto(xsk, NULL, 0, MSG_DONTWAIT, NULL, 0))
		BAD("the AF_XDP socket sends");
	/* the doorbell: what is no doorbell does not reach the host */
	memset(frame, 0xff, 6);
	frame[12] = 0x08;
	frame[14] = 0x45;
	for (int i = 0; i < 100; i++)
		(void)!write(tap, frame, sizeof(frame));
	/* others can be rung, and packets asked for that nobody posted: weft_db knows better */
	for (uint32_t i = 0; i < 2000; i++) {
		struct weft_db db = { .magic = WEFT_DB_MAGIC,
				      .op = draw() % 6,
				      .qpn = WEFT_QPN(draw() % 8, 1 + draw() % 6),
				      .psn = draw(),
				      .claimed = draw() & 1 };

		frame[12] = 0x88, frame[13] = 0xb5;
		memcpy(frame + 14, &db, sizeof(db));
		(void)!write(tap, frame, 60 + draw() % 100);
	}
	ioctl(tap, TUNSETPERSIST, 0);
	/* maps: no others from them */
	if (bpf_obj_get_info_by_fd(rings, &info, &len))
		BAD("the map of rings does not tell what it is");
	for (id = info.id > 50 ? info.id - 50 : 1; id < info.id + 50; id++) {
		fd = bpf_map_get_fd_by_id(id);
		if (fd >= 0)
			BAD("map %u can be opened", id);
	}
	/* the process is dead to all others now, but weftd must not give its slot away */
	flock(slot, LOCK_UN);
}

/* A queue that nobody has given him. */
static void another_queue(const char *tun)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE };
	int fd = open(tun, O_RDWR);

	if (fd < 0) {
		BAD("%s cannot be opened: %s", tun, strerror(errno));
		return;
	}
	if_indextoname(me.cfg.db_ifindex, ifr.ifr_name);
	if (!ioctl(fd, TUNSETIFF, &ifr) || errno != EPERM)
		BAD("the doorbell %s can be opened by anybody: %s", ifr.ifr_name, strerror(errno));
	close(fd);
}

static int deeds(const char *tun)
{
	int fd, fd2, err = enter(&fd);
	uint32_t slot = me.slot;

	if (err) {
		BAD("not let in: %d", err);
		return 1;
	}
	others(fd);
	own(fd);
	descriptors();
	another_queue(tun);
	for (int i = 0; i < WEFTD_FDS; i++)
		my_fds[i] = fcntl(my_fds[i], F_DUPFD_CLOEXEC, 64);
	err = enter(&fd2);
	if (err || me.slot == slot)
		BAD("a slot whose lock was given up is given to the next (%d)", err);
	err = REQUEST(fd2, leave, -1);
	if (err || REQUEST(fd2, cq_new, -1) != -ESTALE)
		BAD("who has left goes on");
	leave(fd2);
	close(fd);
	printf("%s\n", wrong ? "" : "nothing was got");
	return wrong != 0;
}

/* As many as are to be had; then why not more. */
static int hoard(const char *what)
{
	bool receives = !strcmp(what, "receives"), memory = receives || !strcmp(what, "memory");
	static struct weftd_msg m;
	unsigned n = 0, k;
	int fd = -1, err = 0, got[WEFTD_FDS];

	if (strcmp(what, "processes"))
		err = enter(&fd);
	for (; !err && n < 5000; n++) {
		memset(&m, 0, sizeof(m));
		if (!strcmp(what, "processes")) {
			m.op = WEFTD_hello;
			strcpy(m.u.hello.ifname, ifname);
			m.u.hello.version = WEFTD_VERSION;
			m.u.hello.slot = WEFTD_NEW;
			fd = dial();
		} else if (!strcmp(what, "qps")) {
			m.op = WEFTD_qp_take;
			m.u.qp_take = (struct weftd_take){ n, WEFT_SQ_DEPTH, 8, 8 };
		} else if (memory && (n < 7 || !receives)) {
			m.op = WEFTD_pool_new;
			m.u.pool_new.v = 4 * WEFT_CHUNK;
		} else if (receives) { /* of 4 MiB each, and what is left is 8 at most */
			m.op = WEFTD_rq_new;
			m.u.rq_new.v = WEFT_RQ_DEPTH;
		} else {
			m.op = WEFTD_cq_new;
		}
		err = ask(fd, &m, -1, got, &k);
	}
	printf("%u %s, then %s: %s\n", n - 1, what, strerror(-err), m.u.text);
	return err != -EDQUOT || memory != !!strstr(m.u.text, "more would be too much");
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	socket_path = argv[2];
	ifname = argv[3];
	if (!strcmp(argv[1], "garbage") && argc == 6) {
		seed = strtoull(argv[5], NULL, 0);
		return garbage(atof(argv[4]));
	}
	if (!strcmp(argv[1], "deeds") && argc == 6) {
		seed = strtoull(argv[4], NULL, 0);
		return deeds(argv[5]);
	}
	return hoard(argv[4]);
}
