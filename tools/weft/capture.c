// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft capture: what goes in and out by XDP, which other captures do not see. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <bpf/bpf.h>
#include <capture/pcapng.h>

#include "capture.h"
#include "internal.h"

static const char help[] =
	"usage: weft capture [ OPTIONS ] DEV\n"
	"\n"
	"Copies of weft's packets on DEV, which tcpdump cannot see there: what comes in, before weft\n"
	"looks at it, and what weft sends. A line for each, or with -w a pcapng file. Ctrl-C ends it.\n"
	"\n"
	"  -w, --write FILE    write the packets to FILE; -: to stdout, as in\n"
	"                      weft capture -w - eth0 |\n"
	"                      tshark -r - -X lua_script:/usr/share/weft/weft.lua\n"
	"  -s, --snaplen N     bytes of a packet to keep (256: all headers; 0: all of it)\n"
	"  -c, --count N       stop after N packets\n"
	"      --qp QPN        packets of this QP only, both directions\n"
	"  -k, --keys          put the connections' secrets into the file, so that Wireshark can\n"
	"                      verify header checks; whoever has them can forge packets\n"
	"  -B, --buffer SIZE   room for packets that are not written yet (32m; 64k to 1g);\n"
	"                      when it is full, copies are left out and counted, never packets\n"
	"  -j, --json          lines, and the summary at the end, are JSON objects\n";

static const struct option longs[] = {
	{ "write", required_argument, NULL, 'w' }, { "snaplen", required_argument, NULL, 's' },
	{ "count", required_argument, NULL, 'c' }, { "qp", required_argument, NULL, 'q' },
	{ "keys", no_argument, NULL, 'k' },        { "buffer", required_argument, NULL, 'B' },
	{ "json", no_argument, NULL, 'j' },        { "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },        { NULL, 0, NULL, 0 },
};

_Static_assert(WEFT_V6_LEN + WEFT_HDR_LEN + WEFT_MANY * sizeof(struct weft_desc) <=
		       WEFT_CAP_HEADERS,
	       "all headers of any packet");

#define WHOLE    65535        /* more than any frame of XDP */
#define CHECK_NS 250000000ull /* how often to see whether the device is still the same */
#define IDLE_MS  20
#define BUSY_MS  2

struct session {
	const char *file; /* NULL: lines */
	uint64_t snap, count, qpn, room_for;
	bool one_qp, keys;

	struct pinned dev;
	struct capture *cap;
	FILE *out;
	uint64_t epoch, start, checked;
	uint64_t taken[3]; /* by direction */
	bool full, broken;
	int err;     /* why it is broken */
	off_t whole; /* of the file: ends behind a packet */

	struct weft_devcfg *cfg;
	struct weft_cap_cfg *what;
	int lock, cfg_fd, what_fd, events, qpctl;
	ino_t dir_ino;

	uint64_t *told; /* connections whose secrets are in the file */
	unsigned ntold, room;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* ---- secrets ---- */

/* The comment that hands a connection's secret to the dissector: once for each, or NULL. */
static const char *key_comment(struct session *s, const struct weft_cap_rec *r, char *buf,
			       size_t size)
{
	struct weft_qpctl ctl;
	uint64_t conn, *more;

	if (!s->keys || !capture_conn(r, &conn))
		return NULL;
	for (unsigned i = s->ntold; i-- > 0;)
		if (s->told[i] == conn)
			return NULL;
	/* strangers' packets cost a search each, so the list has to end somewhere */
	if (s->ntold == s->room && s->room < 1u << 16) {
		more = realloc(s->told, (s->room + 64) * sizeof(*more));
		if (!more)
			return NULL;
		s->told = more;
		s->room += 64;
	}
	if (s->ntold == s->room)
		return NULL;
	s->told[s->ntold++] = conn;
	for (uint32_t i = 0; i < s->dev.cfg.qps; i++) {
		if (bpf_map_lookup_elem(s->qpctl, &i, &ctl) || ctl.state < WEFT_QP_RTS ||
		    ctl.conn != conn)
			continue;
		snprintf(buf, size, "weft key conn=%016llx secret=%016llx",
			 (unsigned long long)conn, (unsigned long long)capture_secret(&ctl));
		return buf;
	}
	return NULL;
}

/* ---- records ---- */

static int take(void *arg, const struct weft_cap_rec *r)
{
	struct session *s = arg;
	char buf[80];
	int err;

	if (s->full || s->broken)
		return -ECANCELED;
	if (s->file)
		err = capture_write(s->out, r, s->epoch, key_comment(s, r, buf, sizeof(buf)));
	else
		err = capture_line(s->out, s->dev.ifname, r, r->ns + s->epoch);
	if (err) {
		s->err = errno;
		s->broken = true;
		return -ECANCELED;
	}
	s->taken[r->dir == WEFT_CAP_IN ? WEFT_CAP_IN : WEFT_CAP_OUT]++;
	s->full = s->count && s->taken[WEFT_CAP_IN] + s->taken[WEFT_CAP_OUT] >= s->count;
	return s->full ? -ECANCELED : 0;
}

/* ---- the device ---- */

/*
 * One capture at a time: the map has one place for each CPU. The lock is on a
 * directory among the pins; the kernel drops it when we die.
 */
static int lock_device(struct session *s)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/capturing", s->dev.dir);
	if (mkdir(path, 0700) && errno != EEXIST)
		return cli_fail(s->dev.ifname, "cannot make %s: %s; run as root", path,
				strerror(errno));
	s->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock < 0)
		return cli_fail(s->dev.ifname, "cannot open %s: %s; try again", path,
				strerror(errno));
	if (flock(s->lock, LOCK_EX | LOCK_NB))
		return cli_fail(s->dev.ifname,
				"somebody captures on this interface already; wait, or end that");
	return CLI_OK;
}

static void *map_of(struct session *s, const char *name, size_t size, int *fd)
{
	void *p;

	*fd = pins_map(&s->dev, name, size);
	if (*fd < 0)
		return NULL;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED) {
		cli_fail(s->dev.ifname, "cannot map %s: %s; run as root", name, strerror(errno));
		return NULL;
	}
	return p;
}

static int open_device(struct session *s)
{
	int rc = lock_device(s);

	if (rc)
		return rc;
	s->cfg = map_of(s, "devcfg", sizeof(*s->cfg), &s->cfg_fd);
	s->what = s->cfg ? map_of(s, "capcfg", sizeof(*s->what), &s->what_fd) : NULL;
	s->events = s->what ? pins_map(&s->dev, "capture", sizeof(uint32_t)) : -1;
	s->qpctl = s->events < 0 ? -1 : pins_map(&s->dev, "qpctl", sizeof(struct weft_qpctl));
	return s->qpctl < 0 ? CLI_FAIL : CLI_OK;
}

static void switch_on(struct session *s)
{
	__atomic_fetch_or(&s->cfg->flags, WEFT_DEV_CAPTURE, __ATOMIC_RELEASE);
}

static void switch_off(struct session *s)
{
	__atomic_fetch_and(&s->cfg->flags, ~WEFT_DEV_CAPTURE, __ATOMIC_RELEASE);
}

/* Is weft still there? XDP turns the switch off where it finds no event, as on a CPU that is new. */
static int check_device(struct session *s)
{
	struct stat now;

	char name[IF_NAMESIZE];

	s->checked = weft_now_ns();
	if (!if_indextoname(s->dev.cfg.ifindex, name))
		return cli_fail(s->dev.ifname, "the interface is gone; see 'ip link'");
	if (stat(s->dev.dir, &now) || now.st_ino != s->dir_ino ||
	    (__atomic_load_n(&s->cfg->flags, __ATOMIC_ACQUIRE) & WEFT_DEV_DOWN))
		return cli_fail(s->dev.ifname,
				"weft was taken down on this interface; run 'weft up %s'",
				s->dev.ifname);
	switch_on(s);
	return CLI_OK;
}

static int find_qp(struct session *s)
{
	uint32_t slot = WEFT_QPN_SLOT(s->qpn);
	struct weft_qpctl ctl;

	if (!s->one_qp)
		return CLI_OK;
	if (bpf_map_lookup_elem(s->qpctl, &slot, &ctl) || ctl.qpn != s->qpn ||
	    ctl.state < WEFT_QP_RTS)
		return cli_fail(s->dev.ifname, "no connected QP 0x%x; see 'weft qp show %s'",
				(unsigned)s->qpn, s->dev.ifname);
	s->what->conn = htobe64(ctl.conn);
	return CLI_OK;
}

/* ---- output ---- */

static void flush(struct session *s)
{
	if (s->broken)
		return;
	if (fflush(s->out)) {
		s->err = errno;
		s->broken = true;
	} else {
		s->whole = ftello(s->out);
	}
}

static int begin_file(struct session *s)
{
	char what[64];

	if (!s->file) {
		s->out = stdout;
		return CLI_OK;
	}
	if (!strcmp(s->file, "-")) {
		int fd;

		if (isatty(STDOUT_FILENO))
			return cli_fail("stdout",
					"a capture is not for a terminal; use a pipe or "
					"'-w FILE'");
		fd = dup(STDOUT_FILENO);
		s->out = fd < 0 ? NULL : fdopen(fd, "w");
	} else {
		/* other people's data, and perhaps secrets */
		int fd = open(s->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		s->out = fd < 0 ? NULL : fdopen(fd, "w");
	}
	if (!s->out)
		return cli_fail(s->file, "cannot open: %s; choose another file", strerror(errno));
	setvbuf(s->out, NULL, _IOFBF, 1 << 18);
	snprintf(what, sizeof(what), "weft's packets, UDP port %u", s->dev.cfg.port);
	pcapng_begin(s->out, "weft " WEFT_VERSION);
	pcapng_interface(s->out, s->dev.ifname, what, s->snap);
	flush(s);
	return CLI_OK;
}

/* Has whoever reads the other end of the pipe gone? Nothing may come that would show it. */
static bool reader_gone(const struct session *s, int ms)
{
	struct pollfd p = { .fd = fileno(s->out) };

	return poll(&p, 1, ms) > 0 && (p.revents & POLLERR);
}

static void summary(struct session *s)
{
	unsigned long long in = s->taken[WEFT_CAP_IN], out = s->taken[WEFT_CAP_OUT];
	unsigned long long lost = __atomic_load_n(&s->what->lost, __ATOMIC_RELAXED);
	char dev[CLI_QUOTED(IF_NAMESIZE)];
	uint64_t end = weft_now_ns();

	if (s->file && !s->broken)
		pcapng_statistics(s->out, 0, s->start + s->epoch, end + s->epoch, in + out + lost,
				  lost);
	flush(s);
	if (cli.json && (s->file || !s->broken)) {
		/* in a pipe that carries the capture it would be in the way */
		fprintf(s->file && !strcmp(s->file, "-") ? stderr : stdout,
			"{\"event\":\"end\",\"dev\":%s,\"seconds\":%.3f,\"packets\":%llu,"
			"\"in\":%llu,\"out\":%llu,\"dropped\":%llu}\n",
			cli_quoted(s->dev.ifname, dev, sizeof(dev)), (end - s->start) / 1e9,
			in + out, in, out, lost);
		return;
	}
	fprintf(stderr,
		"%llu packets captured: %llu in, %llu out\n"
		"%llu packets left out, since the buffer was full%s\n",
		in + out, in, out, lost, lost ? "; -B makes it larger" : "");
}

static int run(struct session *s)
{
	int rc = CLI_OK, n;

	while (!rc && !stop && !s->full && !s->broken) {
		n = capture_read(s->cap, false);
		if (n < 0 && n != -ECANCELED)
			return cli_fail(s->dev.ifname, "cannot read the buffer: %s; try again",
					strerror(-n));
		if (weft_now_ns() - s->checked > CHECK_NS)
			rc = check_device(s);
		if (n)
			flush(s);
		if (!s->broken && reader_gone(s, n ? BUSY_MS : IDLE_MS)) {
			s->err = EPIPE;
			s->broken = true;
		}
	}
	/* what came before the end belongs to the capture */
	switch_off(s);
	capture_read(s->cap, true);
	return rc;
}

static int capture(struct session *s)
{
	struct stat st;
	int rc, err;

	rc = open_device(s);
	if (rc)
		return rc;
	s->what->conn = s->what->lost = 0;
	s->what->snap = s->snap;
	rc = find_qp(s);
	rc = rc ?: begin_file(s);
	if (rc)
		return rc;
	err = capture_open(&s->cap, s->events, s->room_for, take, s);
	if (err)
		return cli_fail(s->dev.ifname, "cannot make the buffer: %s; try a smaller -B",
				strerror(-err));
	s->dir_ino = stat(s->dev.dir, &st) ? 0 : st.st_ino;
	s->start = weft_now_ns();
	s->epoch = capture_epoch();
	rc = check_device(s);
	if (rc)
		return rc;
	fprintf(stderr, "capturing on %s, %s; Ctrl-C ends it\n", s->dev.ifname,
		s->snap == WHOLE              ? "whole packets"
		: s->snap == WEFT_CAP_HEADERS ? "headers"
					      : "the first bytes of packets");
	rc = run(s);
	summary(s);
	if (s->out != stdout && fclose(s->out) && !s->broken) {
		s->err = errno;
		s->broken = true;
	}
	/* on a full disk half a packet may have been written */
	if (s->broken && s->file && strcmp(s->file, "-"))
		(void)!truncate(s->file, s->whole);
	if (s->out == stdout && s->broken) {
		/* dealt with here */
		__fpurge(stdout);
		clearerr(stdout);
	}
	/* a reader that has had enough is no error */
	if (!rc && s->broken && s->err != EPIPE)
		rc = cli_fail(s->file ? s->file : "stdout",
			      "cannot write: %s; see where the output goes", strerror(s->err));
	return rc;
}

/* -1 to go on, else the exit status. */
static int parse(struct session *s, int argc, char **argv)
{
	uint64_t v;
	int c, rc;

	optind = 0;
	while ((c = getopt_long(argc, argv, ":w:s:c:kB:jvh", longs, NULL)) != -1) {
		switch (c) {
		case 'w': s->file = optarg; break;
		case 's':
			if (!cli_u64(optarg, 0, UINT32_MAX, &v))
				return cli_usage("capture",
						 "-s is 0 (all) to 4294967295 bytes, not \"%s\"",
						 optarg);
			s->snap = !v || v > WHOLE ? WHOLE : v;
			break;
		case 'c':
			if (!cli_u64(optarg, 1, UINT64_MAX, &s->count))
				return cli_usage("capture", "-c is 1 packet or more, not \"%s\"",
						 optarg);
			break;
		case 'q':
			if (!cli_u64(optarg, 0, UINT32_MAX, &s->qpn))
				return cli_usage(
					"capture",
					"--qp is a number as 'weft qp show' prints it, not \"%s\"",
					optarg);
			s->one_qp = true;
			break;
		case 'k': s->keys = true; break;
		case 'B':
			if (!cli_size(optarg, CAPTURE_ROOM_MAX, &s->room_for) ||
			    s->room_for < CAPTURE_ROOM_MIN)
				return cli_usage("capture", "-B is 64k to 1g, not \"%s\"", optarg);
			break;
		default:
			rc = cli_option("capture", c, argv, help);
			if (rc >= 0)
				return rc;
		}
	}
	if (s->keys && !s->file)
		return cli_usage("capture", "-k goes with -w");
	return -1;
}

int cmd_capture(int argc, char **argv)
{
	struct session s = { .snap = WEFT_CAP_HEADERS, .room_for = 32 << 20 };
	struct sigaction sa = { .sa_handler = on_signal };
	struct pinned *list;
	const char *dev;
	int rc;

	/* getopt starts behind the command's name */
	rc = parse(&s, argc + 1, argv - 1);
	if (rc >= 0)
		return rc;
	argc -= optind - 1;
	argv += optind - 1;
	if (argc && !strcmp(argv[0], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	rc = cli_dev_arg("capture", argc, argv, true, &dev);
	if (rc >= 0)
		return rc;
	if (geteuid())
		return cli_fail(dev, "not allowed to capture; run as root");
	if (pins_find(dev, &list) < 1)
		return CLI_FAIL;
	s.dev = list[0];
	free(list);
	/* no SA_RESTART: a signal ends a wait */
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	rc = capture(&s);
	capture_close(s.cap);
	free(s.told);
	return rc; /* the end of the process closes the rest */
}
