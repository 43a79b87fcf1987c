// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netcalls NS DEV NS DEV HOST: what public calls refuse, each with an error and a text of its own. TAP. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <weft/weft.h>

#define LATE 3 /* s: what waits for a peer waits for 5 */

static int count, failed;

static void ok(int yes, const char *what)
{
	printf("%sok %d - %s\n", yes ? "" : "not ", ++count, what);
	if (!yes) {
		failed++;
		printf("# the last error: \"%s\"\n", weft_strerror_last());
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Leave an error that nothing else leaves; R is evaluated afterwards. */
static void mark(void)
{
	struct weft_dev *dev;

	weft_open("marker/", NULL, &dev);
}

static void judge(int r, int want, double s, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "%s: %s%s", what, want ? strerror(want) : "nothing to do",
		 s > LATE ? ", but late" : "");
	ok(r == -want && s < LATE && (!want || !strstr(weft_strerror_last(), "marker")), text);
}

#define REFUSED(what, want, call)                 \
	do {                                      \
		double t0;                        \
		int r;                            \
		mark();                           \
		t0 = now();                       \
		r = (call);                       \
		judge(r, want, now() - t0, what); \
	} while (0)

/* ---- to end what is not there ---- */

static void nothing(struct weft_dev *dev)
{
	REFUSED("weft_pd_free(NULL)", 0, weft_pd_free(NULL));
	REFUSED("weft_mr_dereg(NULL)", 0, weft_mr_dereg(NULL));
	REFUSED("weft_free(dev, NULL)", 0, weft_free(dev, NULL));
	REFUSED("weft_cq_destroy(NULL)", 0, weft_cq_destroy(NULL));
	weft_qp_close(NULL);
	weft_listener_close(NULL);
	weft_close(NULL);
}

/* ---- options ---- */

static const struct {
	const char *what;
	struct weft_qp_opts o;
} wrong[] = {
	{ "without a size", { .evs = 1 } },
	{ "evs 65", { .size = sizeof(struct weft_qp_opts), .evs = 65 } },
	{ "cwnd 513", { .size = sizeof(struct weft_qp_opts), .cwnd = 513 } },
	{ "timeout_ms 9", { .size = sizeof(struct weft_qp_opts), .timeout_ms = 9 } },
	{ "idle_ms 1999", { .size = sizeof(struct weft_qp_opts), .idle_ms = 1999 } },
	{ "idle_ms 600001", { .size = sizeof(struct weft_qp_opts), .idle_ms = 600001 } },
	{ "retry_cnt 1001", { .size = sizeof(struct weft_qp_opts), .retry_cnt = 1001 } },
	{ "priv_len 257", { .size = sizeof(struct weft_qp_opts), .priv = "", .priv_len = 257 } },
	{ "priv_len without priv", { .size = sizeof(struct weft_qp_opts), .priv_len = 1 } },
};

static void options(struct weft_dev *dev, struct weft_listener *l, const char *peer)
{
	struct weft_qp *qp;
	char what[80];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(what, sizeof(what), "weft_accept, %s", wrong[i].what);
		REFUSED(what, EINVAL, weft_accept(l, &wrong[i].o, &qp));
		snprintf(what, sizeof(what), "weft_connect, %s", wrong[i].what);
		REFUSED(what, EINVAL, weft_connect(dev, peer, &wrong[i].o, &qp));
	}
}

/* ---- without a connection ---- */

static void on_alarm(int sig)
{
	(void)sig;
}

static void soon(void)
{
	struct itimerval in = { .it_value.tv_usec = 50000, .it_interval.tv_usec = 50000 };

	setitimer(ITIMER_REAL, &in, NULL);
}

static void no_more(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

static void alone(struct weft_dev *dev, struct weft_listener *l, const char *peer)
{
	struct weft_qp_opts brief = { .size = sizeof(brief), .connect_ms = 50 };
	struct weft_listener *again;
	struct weft_cq *cq = NULL;
	struct weft_mr *mr;
	struct weft_pd *pd;
	struct weft_qp *qp;
	void *mem = NULL;
	char here[64];

	ok(!weft_cq_create(dev, &cq) && !weft_alloc(dev, 4096, &mem), "a CQ and memory");
	REFUSED("weft_open of NULL", EINVAL, weft_open(NULL, NULL, NULL));
	REFUSED("weft_open of no interface", ENODEV, weft_open("nosuch", NULL, &dev));
	REFUSED("weft_down of no interface", ENODEV, weft_down("nosuch", NULL));
	REFUSED("weft_alloc of 0", EINVAL, weft_alloc(dev, 0, &mem));
	REFUSED("weft_free of what is not ours", EINVAL, weft_free(dev, &mem));
	REFUSED("weft_mr_reg without rights", EINVAL, weft_mr_reg(dev, NULL, mem, 4096, 0, &mr));
	REFUSED("weft_mr_reg of no byte", EINVAL, weft_mr_reg(dev, NULL, mem, 0, WEFT_LOCAL, &mr));
	REFUSED("weft_mr_reg of another's memory", EINVAL,
		weft_mr_reg(dev, NULL, &mem, 64, WEFT_LOCAL, &mr));
	ok(!weft_pd_alloc(dev, &pd) && !weft_mr_reg(dev, pd, mem, 4096, WEFT_LOCAL, &mr),
	   "a region");
	REFUSED("weft_pd_free while it is used", EBUSY, weft_pd_free(pd));
	REFUSED("weft_free while it is registered", EBUSY, weft_free(dev, mem));
	ok(!weft_mr_dereg(mr) && !weft_pd_free(pd) && !weft_free(dev, mem), "are freed");
	REFUSED("weft_listen at no address", EINVAL, weft_listen(dev, "7470", &again));
	snprintf(here, sizeof(here), ":%s", strrchr(peer, ':') + 1);
	REFUSED("weft_listen at a port in use", EADDRINUSE, weft_listen(dev, here, &again));
	REFUSED("weft_connect to no address", EINVAL, weft_connect(dev, "10.9.0.2", NULL, &qp));
	REFUSED("weft_connect to port 99999", EINVAL,
		weft_connect(dev, "10.9.0.2:99999", NULL, &qp));
	REFUSED("weft_connect to a closed port", ECONNREFUSED,
		weft_connect(dev, "10.9.0.1:7999", NULL, &qp));
	REFUSED("weft_accept of nobody", ETIMEDOUT, weft_accept(l, &brief, &qp));
	soon();
	REFUSED("weft_accept, a signal", EINTR, weft_accept(l, NULL, &qp));
	no_more();
	REFUSED("weft_cq_wait for nothing", EINVAL, weft_cq_wait(cq, 0, 0));
	REFUSED("weft_cq_wait for what there is not", EINVAL, weft_cq_wait(cq, 8, 0));
	soon();
	REFUSED("weft_cq_wait, a signal", EINTR, weft_cq_wait(cq, WEFT_ARM_TX, -1));
	no_more();
	weft_cq_destroy(cq);
}

/* ---- with one ---- */

static void *accept_one(void *l)
{
	struct weft_qp *qp = NULL;

	weft_accept(l, NULL, &qp);
	return qp;
}

static struct weft_mr *region(struct weft_dev *dev, unsigned access, void **mem)
{
	struct weft_mr *mr = NULL;

	if (!weft_alloc(dev, 4096, mem))
		weft_mr_reg(dev, NULL, *mem, 4096, access, &mr);
	return mr;
}

static void connected(struct weft_dev *dev, struct weft_dev *there, struct weft_listener *l,
		      const char *peer)
{
	struct weft_write w[WEFT_DEPTH] = { { 0 } };
	struct weft_qp *qp = NULL, *theirs;
	struct weft_wc wc[WEFT_DEPTH];
	struct weft_mr *mr, *their_mr;
	void *mem = NULL, *their_mem = NULL;
	pthread_t thread;
	int polled = 0;

	pthread_create(&thread, NULL, accept_one, l);
	weft_connect(dev, peer, NULL, &qp);
	pthread_join(thread, (void **)&theirs);
	mr = region(dev, WEFT_LOCAL, &mem);
	their_mr = region(there, WEFT_REMOTE_WRITE, &their_mem);
	ok(qp && theirs && mr && their_mr, "a connection and regions");
	if (!qp || !mr || !their_mr)
		return;
	for (int i = 0; i < WEFT_DEPTH; i++) {
		w[i].mr = mr;
		w[i].rkey = weft_mr_key(their_mr);
	}
	REFUSED("weft_post_writes of none", EINVAL, weft_post_writes(qp, w, 0));
	w[0].off = 4097;
	REFUSED("weft_post_write of another's bytes", EINVAL, weft_post_write(qp, w));
	w[0].off = 0;
	REFUSED("weft_qp_set_cwnd to 513", EINVAL, weft_qp_set_cwnd(qp, 513));
	REFUSED("weft_cq_destroy while it is used", EBUSY, weft_cq_destroy(weft_qp_cq(qp)));
	/* they are in the queue until they are polled */
	ok(weft_post_writes(qp, w, WEFT_DEPTH) == WEFT_DEPTH, "the queue is filled");
	REFUSED("weft_post_write to a full queue", EAGAIN, weft_post_write(qp, w));
	weft_qp_close(theirs);
	for (double t0 = now(); polled < WEFT_DEPTH && now() < t0 + 20;) {
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, 100);
		polled += weft_cq_poll(weft_qp_cq(qp), wc, WEFT_DEPTH);
	}
	for (double t0 = now(); !weft_qp_status(qp) && now() < t0 + 20;)
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, 100);
	REFUSED("weft_post_write when the peer has closed", ENOTCONN, weft_post_write(qp, w));
	weft_qp_close(qp);
	ok(!weft_mr_dereg(mr) && !weft_free(dev, mem) && !weft_mr_dereg(their_mr) &&
		   !weft_free(there, their_mem),
	   "all is freed");
}

int main(int argc, char **argv)
{
	struct weft_open_opts a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	struct sigaction sa = { .sa_handler = on_alarm };
	struct weft_dev *here = NULL, *there = NULL;
	struct weft_listener *l = NULL;
	char port[64];

	if (argc != 6)
		return fputs("usage: netcalls NS DEV NS DEV HOST:PORT\n", stderr), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGALRM, &sa, NULL);
	a.netns = argv[1];
	b.netns = argv[3];
	snprintf(port, sizeof(port), ":%s", strrchr(argv[5], ':') ? strrchr(argv[5], ':') + 1 : "");
	ok(!weft_open(argv[2], &a, &here) && !weft_open(argv[4], &b, &there) &&
		   !weft_listen(there, port, &l),
	   "two devices and a listener");
	if (l) {
		nothing(here);
		options(here, l, argv[5]);
		alone(there, l, argv[5]);
		connected(here, there, l, argv[5]);
	}
	weft_listener_close(l);
	weft_close(there);
	weft_close(here);
	printf("1..%d\n", count);
	return failed != 0;
}
