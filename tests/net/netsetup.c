// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Many who connect at the same time, and those who disturb them.
 *
 *   netsetup server NS DEV PORT N      accept N, tell how many; then hold them until SIGTERM
 *   netsetup client NS DEV HOST:PORT N MS  connect N times at once, MS of patience; then likewise,
 *       and on SIGUSR1 post a WRITE and tell how it ends
 *   netsetup strangers HOST PORT KIND=N... raw connections, made anew when they end, until SIGTERM:
 *       silent: say nothing; half: a REQUEST and no READY; slow: a REQUEST byte by byte;
 *       junk: garbage; gone: come and go
 *   netsetup request HOST PORT FIELD=N...  one REQUEST with these numbers; tell the answer
 *   netsetup reply PORT FIELD=N...         answer one REQUEST by a REPLY with these numbers; FIELD:
 *       version, features, required, window, atomics, refusal
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "../../user/cm_wire.h"

#define MANY 512

static atomic_bool stop;

static void on_term(int sig)
{
	(void)sig;
	atomic_store(&stop, true);
}

static unsigned now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void die(const char *what)
{
	fprintf(stderr, "netsetup: %s: %s\n", what, weft_strerror_last());
	exit(1);
}

static struct weft_dev *open_dev(const char *ns, const char *name)
{
	struct weft_open_opts o = { .size = sizeof(o), .netns = ns };
	struct weft_dev *dev;

	if (weft_open(name, &o, &dev))
		die(name);
	return dev;
}

/* Further options, by the environment: IDLE_MS, RETRY_CNT, TIMEOUT_MS. */
static struct weft_qp_opts with_env(unsigned connect_ms)
{
	struct weft_qp_opts o = { .size = sizeof(o), .connect_ms = connect_ms };

	o.idle_ms = getenv("IDLE_MS") ? strtoul(getenv("IDLE_MS"), NULL, 0) : 0;
	o.retry_cnt = getenv("RETRY_CNT") ? atoi(getenv("RETRY_CNT")) : 0;
	o.timeout_ms = getenv("TIMEOUT_MS") ? atoi(getenv("TIMEOUT_MS")) : 0;
	return o;
}

/* One WRITE, to wherever: how does it end, when, and after how many time-outs? */
static void write_one(struct weft_dev *dev, struct weft_qp *qp)
{
	struct weft_qp_stats a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	static struct weft_mr *mr;
	static void *mem;
	struct weft_wc wc;
	unsigned t0;

	if (!mr && (weft_alloc(dev, 64, &mem) || weft_mr_reg(dev, NULL, mem, 64, WEFT_LOCAL, &mr)))
		die("memory");
	weft_qp_stats(qp, &a);
	t0 = now_ms();
	if (weft_post_write(qp, &(struct weft_write){ .mr = mr, .len = 8, .rkey = 1 }))
		die("post");
	while (!weft_cq_poll(weft_qp_cq(qp), &wc, 1))
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, 1000);
	t0 = now_ms() - t0;
	weft_qp_stats(qp, &b);
	printf("write: %s, ms %u, timeouts %llu\n", weft_wc_str(wc.status), t0,
	       (unsigned long long)(b.timeouts - a.timeouts));
}

static atomic_bool go;

static void on_usr1(int sig)
{
	(void)sig;
	atomic_store(&go, true);
}

/* Those that are connected must stay so, or it is told when one fails. */
static void hold(struct weft_dev *dev, struct weft_qp *const *qp, unsigned n)
{
	unsigned alive = 0;
	bool told[MANY] = { 0 };

	while (!atomic_load(&stop)) {
		if (atomic_exchange(&go, false) && n)
			write_one(dev, qp[0]);
		for (unsigned i = 0; i < n; i++) {
			if (told[i] || !qp[i] || !weft_qp_status(qp[i]))
				continue;
			told[i] = true;
			printf("failed at %u: %s\n", now_ms(), weft_wc_str(weft_qp_status(qp[i])));
		}
		usleep(10000);
	}
	for (unsigned i = 0; i < n; i++)
		alive += qp[i] && !weft_qp_status(qp[i]);
	printf("alive %u\n", alive);
}

static int server(char **arg)
{
	struct weft_dev *dev = open_dev(arg[0], arg[1]);
	unsigned want = atoi(arg[3]), n = 0, full = 0;
	struct weft_qp_opts o = with_env(100);
	struct weft_qp *qp[MANY];
	struct weft_listener *l;
	char at[32];

	snprintf(at, sizeof(at), ":%s", arg[2]);
	if (weft_listen(dev, at, &l))
		die(at);
	printf("ready\n");
	while (!atomic_load(&stop) && n < want) {
		int err = weft_accept(l, &o, &qp[n]);

		n += !err;
		full += err == -ENOSPC;
		if (err && err != -ENOSPC && err != -ETIMEDOUT && err != -EINTR)
			die("weft_accept");
	}
	printf("accepted %u, full %u\n", n, full);
	hold(dev, qp, n);
	weft_listener_close(l);
	weft_close(dev);
	return 0;
}

/* ---- clients ---- */

static struct weft_dev *client_dev;
static const char *client_to;
static struct weft_qp *client_qp[MANY];
static int client_err[MANY];
static unsigned client_ms[MANY], patience;
static pthread_barrier_t all;

static void *client_one(void *arg)
{
	struct weft_qp_opts o = with_env(patience);
	unsigned i = (uintptr_t)arg, t0;

	pthread_barrier_wait(&all);
	t0 = now_ms();
	client_err[i] = weft_connect(client_dev, client_to, &o, &client_qp[i]);
	client_ms[i] = now_ms() - t0;
	if (client_err[i])
		printf("# %d: %s\n", -client_err[i], weft_strerror_last());
	return NULL;
}

static int client(char **arg)
{
	unsigned n = atoi(arg[3]), ok = 0, refused = 0, full = 0, late = 0, slowest = 0;
	pthread_t thread[MANY];

	patience = atoi(arg[4]);
	client_dev = open_dev(arg[0], arg[1]);
	client_to = arg[2];
	pthread_barrier_init(&all, NULL, n);
	for (unsigned i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, client_one, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		ok += !client_err[i];
		refused += client_err[i] == -ECONNREFUSED;
		full += client_err[i] == -ENOSPC;
		late += client_ms[i] > patience + 1000;
		slowest = client_ms[i] > slowest ? client_ms[i] : slowest;
	}
	printf("connected %u, refused %u, full %u, other %u, late %u; the slowest took %u ms\n", ok,
	       refused, full, n - ok - refused - full, late, slowest);
	hold(client_dev, client_qp, n);
	weft_close(client_dev);
	return 0;
}

static struct weft_cm_msg like_ours(enum weft_cm_type type)
{
	return (struct weft_cm_msg){ .type = type,
				     .qpn = 0x10001,
				     .port = 4793,
				     .payload = 1408,
				     .features = 3,
				     .window = 1024,
				     .atomics = 64 };
}

/* ---- strangers ---- */

static struct sockaddr_in to;
enum kind { SILENT, HALF, SLOW, JUNK, GONE, KINDS };
static const char *const kind_name[KINDS] = { "silent", "half", "slow", "junk", "gone" };
static struct stranger {
	enum kind kind;
	int fd;
	unsigned since; /* ms: it came, or went */
	size_t said;
} strangers[MANY];

static void come(struct stranger *s, const uint8_t *request, size_t len)
{
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->said = 0;
	if (connect(s->fd, (struct sockaddr *)&to, sizeof(to))) {
		close(s->fd);
		s->fd = -1;
		return;
	}
	if (s->kind == HALF)
		s->said = send(s->fd, request, len, MSG_NOSIGNAL);
	if (s->kind == JUNK)
		s->said = send(s->fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
}

static int disturb(int argc, char **arg)
{
	struct weft_cm_msg m = {
		.type = WEFT_CM_REQUEST, .qpn = 0x10001, .port = 4793, .payload = 1408
	};
	uint8_t request[WEFT_CM_MAX], buf[64];
	size_t len = weft_cm_format(&m, request);
	unsigned n = 0, again = 0;

	to.sin_family = AF_INET;
	to.sin_port = htons(atoi(arg[1]));
	inet_pton(AF_INET, arg[0], &to.sin_addr);
	for (int i = 2; i < argc; i++)
		for (int k = 0; k < KINDS; k++) {
			size_t at = strlen(kind_name[k]);

			if (strncmp(arg[i], kind_name[k], at))
				continue;
			for (int left = atoi(arg[i] + at + 1); left > 0 && n < MANY; left--)
				strangers[n++] = (struct stranger){ .kind = k, .fd = -1 };
		}
	printf("ready\n");
	while (!atomic_load(&stop)) {
		for (struct stranger *s = strangers; s < strangers + n; s++) {
			ssize_t r;

			if (s->fd < 0) {
				if (now_ms() - s->since > 200) {
					come(s, request, len);
					again++;
				}
				continue;
			}
			if (s->kind == SLOW && s->said < len - 1)
				s->said += send(s->fd, request + s->said, 1, MSG_NOSIGNAL) == 1;
			do
				r = recv(s->fd, buf, sizeof(buf), MSG_DONTWAIT);
			while (r > 0);
			if (r == 0 || (errno != EAGAIN && errno != EINTR) || s->kind == GONE) {
				close(s->fd);
				s->fd = -1;
				s->since = now_ms();
			}
		}
		usleep(10000);
	}
	printf("came %u times\n", again);
	return 0;
}

/* ---- peers that differ ---- */

static void change(struct weft_cm_msg *m, uint16_t *version, int argc, char **arg)
{
	for (int i = 0; i < argc; i++) {
		const char *is = strchr(arg[i], '=');
		uint32_t v = is ? strtoul(is + 1, NULL, 0) : 0;

		if (!is)
			continue;
		if (!strncmp(arg[i], "version", is - arg[i]))
			*version = v;
		else if (!strncmp(arg[i], "features", is - arg[i]))
			m->features = v;
		else if (!strncmp(arg[i], "required", is - arg[i]))
			m->required = v;
		else if (!strncmp(arg[i], "window", is - arg[i]))
			m->window = v;
		else if (!strncmp(arg[i], "atomics", is - arg[i]))
			m->atomics = v;
		else if (!strncmp(arg[i], "refusal", is - arg[i]))
			m->refusal = v;
	}
}

static void tell(int fd)
{
	uint8_t buf[WEFT_CM_MAX];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n == 1 && buf[0] == WEFT_CM_PROBE) {
		buf[0] = WEFT_CM_ALIVE;
		n = send(fd, buf, 1, MSG_NOSIGNAL) == 1 ? recv(fd, buf, sizeof(buf), 0) : 0;
	}
	if (n < WEFT_CM_OLD_LEN)
		printf("closed after %zd bytes\n", n);
	else
		printf("%zd bytes, version %d, refusal %d, window %d\n", n, (int)cm_get(buf + 4, 2),
		       (int)cm_get(buf + 48, 4), n < WEFT_CM_LEN ? 0 : (int)cm_get(buf + 64, 4));
}

static int request(int argc, char **arg)
{
	struct weft_cm_msg m = like_ours(WEFT_CM_REQUEST);
	uint16_t version = WEFT_CM_VER;
	uint8_t buf[WEFT_CM_MAX];
	size_t len;

	change(&m, &version, argc - 2, arg + 2);
	len = weft_cm_format(&m, buf);
	cm_put(buf + 4, version, 2);
	to.sin_family = AF_INET;
	to.sin_port = htons(atoi(arg[1]));
	inet_pton(AF_INET, arg[0], &to.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) || send(fd, buf, len, 0) < 0)
		return 1;
	tell(fd);
	return 0;
}

static int answer(int argc, char **arg)
{
	struct weft_cm_msg m = like_ours(WEFT_CM_REPLY);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;
	uint16_t version = WEFT_CM_VER;
	uint8_t buf[WEFT_CM_MAX];
	size_t len;

	change(&m, &version, argc - 1, arg + 1);
	to.sin_family = AF_INET;
	to.sin_port = htons(atoi(arg[0]));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 1))
		return 1;
	printf("ready\n");
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || recv(fd, buf, sizeof(buf), 0) < WEFT_CM_LEN)
		return 1;
	len = weft_cm_format(&m, buf);
	cm_put(buf + 4, version, 2);
	if (send(fd, buf, len, MSG_NOSIGNAL) < 0)
		return 1;
	printf("then %zd bytes\n", recv(fd, buf, sizeof(buf), 0));
	return 0;
}

static void on_log(void *arg, enum weft_log_level level, const char *line)
{
	(void)arg, (void)level;
	printf("# %s\n", line);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &sa, NULL);
	sa.sa_handler = on_usr1;
	sigaction(SIGUSR1, &sa, NULL);
	if (getenv("VERBOSE"))
		weft_set_log(on_log, NULL, WEFT_LOG_WARN);
	if (argc == 6 && !strcmp(argv[1], "server"))
		return server(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "client"))
		return client(argv + 2);
	if (argc >= 4 && !strcmp(argv[1], "strangers"))
		return disturb(argc - 2, argv + 2);
	if (argc >= 4 && !strcmp(argv[1], "request"))
		return request(argc - 2, argv + 2);
	if (argc >= 3 && !strcmp(argv[1], "reply"))
		return answer(argc - 2, argv + 2);
	fputs("usage: netsetup server|client|strangers ...\n", stderr);
	return 2;
}
