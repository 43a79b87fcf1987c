// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft perf write, read, send and atomic: options, connections, and verification. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"
#include "perf.h"

#define SIZE_UNSET       UINT64_MAX
#define PERF_CQ_MOD      64         /* messages for one completion, at most, unless it is given */
#define PERF_CQ_BYTES    (4u << 20) /* likewise */
#define PERF_OUTSTANDING 16384      /* messages on all QPs, unless a depth is given */

static const char help[] =
	"usage: weft perf write DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf read DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf send DEV HOST[:PORT] [ OPTIONS ]\n"
	"       weft perf atomic DEV HOST[:PORT] [ OPTIONS ]\n"
	"\n"
	"WRITE to, READ from, or add to (FETCH_ADD, a counter a QP) the memory of a 'weft perf server', or\n"
	"SEND to its receives, through DEV. PORT is 7471 if not given, an IPv6 address with a port is written\n"
	"[ADDRESS]:PORT. A host that refuses the connection is asked again for 2 s: the server may just be\n"
	"starting.\n"
	"\n"
	"  --size N    bytes in a message, 0 to 1g; suffixes k, m, g (1m; 64 with --lat; an atomic has 8)\n"
	"  --time S    seconds (5)\n"
	"  --count N   messages, instead of a time\n"
	"  --qps N     QPs that share the work, 1 to 1023 (1); more than 255 need\n"
	"              'weft up DEV qps N' on both sides\n"
	"  --strict    in strict order: a message ends behind all before it; memory may be polled\n"
	"  --evs N     entropy values (UDP source ports) a QP, 1 to 64 (the library's 16)\n"
	"  --depth N   messages posted at once on a QP, 1 to 4096 (16m / size, 2 to 256,\n"
	"              16384 on all QPs; atomics 64)\n"
	"  --cq-mod N  one message in N has a completion, 1 to depth (depth / 4, up to 64 and 4 MiB;\n"
	"              of messages up to 4 KiB, which are polled for, each; of atomics and with --lat always)\n"
	"  --cwnd N    congestion window, 1 to 512 packets (the library's 128)\n"
	"  --region N  bytes of memory on each side, up to 1g (64m, or two messages)\n"
	"  --lat       ping-pong: one-way latency of a message, half of the round trip; of a READ or\n"
	"              atomic the time from posting it to its completion\n"
	"  --event     sleep on the event descriptor whenever there is nothing, instead of polling\n"
	"              (the client for completions; with --lat of WRITEs and SENDs the server for messages)\n"
	"  --poll      poll for completions, do not sleep\n"
	"  --verify    compare every byte afterwards, of WRITEs and SENDs at the server, of\n"
	"              READs here; of atomics that each was carried out once\n"
	"  -j, --json  print one JSON object\n";

enum {
	O_SIZE = 256,
	O_TIME,
	O_COUNT,
	O_QPS,
	O_EVS,
	O_DEPTH,
	O_CQ_MOD,
	O_CWND,
	O_REGION,
	O_LAT,
	O_EVENT,
	O_POLL,
	O_VERIFY,
	O_STRICT
};

static const struct option longs[] = {
	{ "size", required_argument, NULL, O_SIZE },
	{ "time", required_argument, NULL, O_TIME },
	{ "count", required_argument, NULL, O_COUNT },
	{ "qps", required_argument, NULL, O_QPS },
	{ "evs", required_argument, NULL, O_EVS },
	{ "depth", required_argument, NULL, O_DEPTH },
	{ "cq-mod", required_argument, NULL, O_CQ_MOD },
	{ "cwnd", required_argument, NULL, O_CWND },
	{ "region", required_argument, NULL, O_REGION },
	{ "lat", no_argument, NULL, O_LAT },
	{ "event", no_argument, NULL, O_EVENT },
	{ "poll", no_argument, NULL, O_POLL },
	{ "verify", no_argument, NULL, O_VERIFY },
	{ "strict", no_argument, NULL, O_STRICT },
	{ "json", no_argument, NULL, 'j' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char *cmd = "perf write";

static int parse_number(const char *name, uint64_t min, uint64_t max, unsigned *out)
{
	uint64_t v;

	if (!cli_u64(optarg, min, max, &v))
		return cli_usage(cmd, "--%s is %llu to %llu, not \"%s\"", name,
				 (unsigned long long)min, (unsigned long long)max, optarg);
	*out = v;
	return -1;
}

static int parse_one(struct perf_run *r, int c, char **argv)
{
	switch (c) {
	case O_SIZE:
		return cli_size(optarg, WEFT_MSG_MAX, &r->size)
			       ? -1
			       : cli_usage(cmd, "--size is 0 to 1g, not \"%s\"", optarg);
	case O_REGION:
		return cli_size(optarg, PERF_REGION_MAX, &r->region) && r->region >= 64
			       ? -1
			       : cli_usage(cmd, "--region is 64 to 1g, not \"%s\"", optarg);
	case O_TIME:
		return cli_seconds(optarg, &r->time)
			       ? -1
			       : cli_usage(cmd,
					   "--time is more than 0 and up to 1000000 s, not \"%s\"",
					   optarg);
	case O_COUNT:
		return cli_u64(optarg, 1, UINT64_MAX, &r->count)
			       ? -1
			       : cli_usage(cmd, "--count is 1 or more, not \"%s\"", optarg);
	case O_QPS: return parse_number("qps", 1, WEFT_PROC_MAX - 1, &r->qps);
	case O_EVS: return parse_number("evs", 1, WEFT_EV_MAX, &r->evs);
	case O_DEPTH: return parse_number("depth", 1, WEFT_DEPTH_MAX, &r->depth);
	case O_CQ_MOD: return parse_number("cq-mod", 1, WEFT_DEPTH_MAX, &r->cq_mod);
	case O_CWND: return parse_number("cwnd", 1, WEFT_CWND_MAX, &r->cwnd);
	case O_LAT: r->lat = true; break;
	case O_EVENT: r->event = true; break;
	case O_POLL: r->poll = true; break;
	case O_VERIFY: r->verify = true; break;
	case O_STRICT: r->strict = true; break;
	default: return cli_option(cmd, c, argv, help);
	}
	return -1;
}

/* HOST, HOST:PORT, V6, [V6] or [V6]:PORT, with the port filled in. */
static char *full_address(const char *s)
{
	const char *colon = strrchr(s, ':'), *bracket = strchr(s, ']');
	bool v6 = colon && strchr(s, ':') != colon && *s != '[';
	char *out = NULL;
	int n;

	if (v6)
		n = asprintf(&out, "[%s]:%d", s, PERF_PORT);
	else if (!colon || (bracket && colon < bracket))
		n = asprintf(&out, "%s:%d", s, PERF_PORT);
	else
		n = asprintf(&out, "%s", s);
	return n < 0 ? NULL : out;
}

static int parse(struct perf_run *r, int argc, char **argv)
{
	struct weft_hostport hp;
	int c, rc;

	optind = 0;
	while ((c = getopt_long(argc, argv, ":jvh", longs, NULL)) != -1) {
		rc = parse_one(r, c, argv);
		if (rc >= 0)
			return rc;
	}
	if (argc - optind == 1 && !strcmp(argv[optind], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	if (argc - optind == 3 && !strcmp(argv[optind], "dev"))
		optind++;
	if (argc - optind != 2)
		return argc - optind > 2 ? cli_usage(cmd, "what is \"%s\"", argv[optind + 2])
					 : cli_usage(cmd, "wants DEV and HOST[:PORT]");
	r->dev = cli_dev_name(argv[optind]);
	if (r->time && r->count)
		return cli_usage(cmd, "--time or --count, not both");
	if (r->poll && r->event)
		return cli_usage(cmd, "--poll or --event, not both");
	if (r->lat && (r->qps > 1 || r->depth > 1))
		return cli_usage(cmd, "--lat works with one QP and one message at a time");
	if (r->lat && r->cq_mod > 1)
		return cli_usage(cmd, "--lat waits for each message");
	if (r->op == WEFT_WR_FETCH_ADD) {
		if (r->cq_mod > 1)
			return cli_usage(cmd, "each atomic has a completion: with its result");
		r->cq_mod = 1;
		if (r->region || (r->size != SIZE_UNSET && r->size != 8))
			return cli_usage(cmd, "an atomic has 8 bytes, and a region of its own");
		if (r->depth > WEFT_DEPTH)
			return cli_usage(cmd, "--depth of atomics is 1 to %d, not %u", WEFT_DEPTH,
					 r->depth);
		r->size = 8;
		r->region = PERF_ATOMIC_REGION(r->qps);
		if (!r->depth)
			r->depth = WEFT_ATOMICS_MAX;
	}
	if (r->size == SIZE_UNSET)
		r->size = r->lat ? 64 : 1 << 20;
	if (r->region && r->region < r->size)
		return cli_usage(cmd, "--region must hold a message: %llu bytes, not %llu",
				 (unsigned long long)r->size, (unsigned long long)r->region);
	r->peer = full_address(argv[optind + 1]);
	if (r->peer && (weft_addr_parse(r->peer, &hp) || !*hp.host || !hp.port))
		return cli_usage(cmd, "\"%s\" is not HOST[:PORT]; a port is 1 to 65535",
				 argv[optind + 1]);
	if (!r->time)
		r->time = 5;
	if (r->lat)
		r->depth = 1;
	if (!r->depth) {
		r->depth = r->size ? (16u << 20) / r->size : WEFT_DEPTH;
		if (r->depth > WEFT_DEPTH)
			r->depth = WEFT_DEPTH;
		if (r->depth > PERF_OUTSTANDING / r->qps)
			r->depth = PERF_OUTSTANDING / r->qps;
		if (r->depth < 2)
			r->depth = 2;
	}
	if (r->cq_mod > r->depth)
		return cli_usage(cmd, "--cq-mod is 1 to the depth, %u, not %u", r->depth,
				 r->cq_mod);
	if (!r->cq_mod) {
		r->cq_mod = r->depth / 4 < PERF_CQ_MOD ? r->depth / 4 : PERF_CQ_MOD;
		if (r->cq_mod * r->size > PERF_CQ_BYTES)
			r->cq_mod = PERF_CQ_BYTES / r->size;
		if (r->size <= PERF_SMALL || !r->cq_mod)
			r->cq_mod = 1;
	}
	return r->peer ? -1 : cli_lib_fail(cmd, ENOMEM);
}

/* Region and how the messages lie in it: one behind the other, again and again. */
static void lay_out(struct perf_run *r)
{
	if (!r->region) {
		r->region = PERF_REGION > 2 * r->size ? PERF_REGION : 2 * r->size;
		if (r->region > PERF_REGION_MAX)
			r->region = PERF_REGION_MAX;
	}
	r->slots = r->size ? r->region / r->size : 1;
}

/* ---- connection ---- */

static int alloc(struct perf_run *r, uint64_t len, unsigned access, uint8_t **mem,
		 struct weft_mr **mr)
{
	void *p;
	int rc = weft_alloc(r->wd, len, &p);

	if (rc)
		return cli_lib_fail(r->dev, rc);
	*mem = p;
	rc = weft_mr_reg(r->wd, NULL, p, len, access, mr);
	return rc ? cli_lib_fail(r->dev, rc) : 0;
}

/* The server may just be starting: a host that refuses the first connection is asked again. */
static int connect_first(struct perf_run *r, const struct weft_qp_opts *o, struct weft_qp **qp)
{
	uint64_t end = perf_now() + PERF_REFUSED_MS * 1000000ull;
	int rc;

	while ((rc = weft_connect(r->wd, r->peer, o, qp)) == -ECONNREFUSED && !perf_stop &&
	       perf_now() < end)
		usleep(50000);
	return rc;
}

static int connect_one(struct perf_run *r, enum perf_kind kind, unsigned index, struct weft_qp **qp)
{
	struct perf_hello hello = {
		.magic = PERF_MAGIC,
		.version = PERF_VERSION,
		.kind = kind,
		.run = r->id,
		.key = weft_mr_key(r->ctl_mr),
		.index = index,
	};
	struct weft_qp_opts o = {
		.size = sizeof(o),
		.cq = kind == PERF_DATA ? r->cq : NULL,
		.priv = &hello,
		.priv_len = sizeof(hello),
		.evs = r->evs,
		.strict = r->strict && kind == PERF_DATA,
		.cwnd = r->cwnd,
		.sq_depth = kind == PERF_DATA ? r->depth : 0,
		.recvs = kind == PERF_DATA && r->lat && r->op == WEFT_WR_SEND ? PERF_BATCH : 0,
	};
	const void *priv;
	size_t len;
	int rc = kind == PERF_CTL ? connect_first(r, &o, qp) : weft_connect(r->wd, r->peer, &o, qp);

	if (rc)
		return cli_lib_fail(r->peer, rc);
	priv = weft_qp_private(*qp, &len);
	if (len == sizeof(hello))
		memcpy(&hello, priv, sizeof(hello));
	if (len != sizeof(hello) || hello.magic != PERF_MAGIC || hello.version != PERF_VERSION)
		return cli_fail(r->peer,
				"not a perf server of this version; start "
				"'weft perf server' of weft %s there",
				WEFT_VERSION);
	if (kind == PERF_CTL && hello.off == UINT64_MAX)
		return cli_fail(r->peer,
				"the server has %d clients, as many as it serves; try again later",
				PERF_SESSIONS);
	if (kind == PERF_CTL)
		r->srv = hello;
	return 0;
}

int perf_ask(struct perf_run *r, struct perf_msg *m)
{
	struct weft_write w = { .mr = r->ctl_mr,
				.off = PERF_OUT,
				.len = sizeof(*m),
				.rkey = r->srv.key,
				.roff = r->srv.off };
	struct weft_cq *cq = weft_qp_cq(r->ctl);
	uint64_t end = perf_now() + PERF_PATIENCE_S * 1000000000ull + m->region * 20;
	enum weft_wc_status status;
	struct weft_wc wc;
	int rc;

	memcpy(r->ctl_mem + PERF_OUT, m, sizeof(*m));
	rc = weft_post_write(r->ctl, &w);
	if (rc)
		return cli_lib_fail(r->peer, rc);
	while (weft_qp_arrived(r->ctl) == r->answers) {
		while (weft_cq_poll(cq, &wc, 1))
			;
		status = weft_qp_status(r->ctl);
		if (status != WEFT_WC_SUCCESS)
			return cli_fail(r->peer, "the connection failed with \"%s\"; %s",
					weft_wc_str(status), perf_remedy(r, status));
		if (perf_stop)
			return CLI_INTR;
		if (perf_now() > end)
			return cli_fail(r->peer, "the server does not answer; see what it says");
		rc = weft_cq_wait(cq, WEFT_ARM_RX, 100);
		if (rc < 0 && rc != -EINTR)
			return cli_lib_fail(r->peer, rc);
	}
	r->answers++;
	memcpy(m, r->ctl_mem, sizeof(*m));
	m->text[sizeof(m->text) - 1] = '\0';
	if (m->err < 0)
		return cli_fail(r->peer, "the server says: %s", m->text);
	return 0;
}

/* For the whole region to be compared, all of it is written beforehand, with other data. */
static int set_up_lat(struct perf_run *r)
{
	struct perf_msg m = { .op = PERF_ECHO };

	if (r->verify) {
		r->rest = r->seed + 1;
		perf_fill(r->mem, r->region, r->rest);
		perf_fill(r->pong, r->region, r->rest);
		if (perf_prefill(r, &m.skip))
			return CLI_FAIL;
		perf_fill(r->mem, r->region, r->seed);
	}
	if (r->op == WEFT_WR_SEND) {
		int rc = perf_post_pongs(r, r->lane[0].qp);

		if (rc)
			return cli_lib_fail(r->peer, rc);
	}
	return perf_ask(r, &m);
}

static int set_up(struct perf_run *r)
{
	struct perf_msg m = {
		.op = PERF_START,
		.flags = (r->lat && !perf_pulls(r) ? PERF_F_LAT : 0) |
			 (r->event ? PERF_F_EVENT : 0) | perf_flag(r),
		.qps = r->qps,
		.size = r->size,
		.region = r->region,
		.slots = r->slots,
	};
	struct weft_open_opts o = { .size = sizeof(o) };
	unsigned places;
	int rc;

	/* data QPs, whose queues may take several places each, and the control QP */
	for (places = 1; places * WEFT_SQ_DEPTH < r->depth; places *= 2)
		;
	places = places * r->qps + 1;
	if (places > WEFT_PROC_QPS)
		o.qps = places < WEFT_PROC_MAX ? places : WEFT_PROC_MAX;
	rc = weft_open(r->dev, &o, &r->wd);
	if (rc)
		return cli_lib_fail(r->dev, rc);
	if (getrandom(&r->id, sizeof(r->id), 0) != sizeof(r->id) ||
	    getrandom(&r->seed, sizeof(r->seed), 0) != sizeof(r->seed))
		return cli_fail(r->dev, "no random numbers: %s; try again", strerror(errno));
	rc = weft_cq_create(r->wd, &r->cq);
	if (rc)
		return cli_lib_fail(r->dev, rc);
	if (alloc(r, PERF_SLOT, WEFT_LOCAL | WEFT_REMOTE_WRITE, &r->ctl_mem, &r->ctl_mr) ||
	    connect_one(r, PERF_CTL, 0, &r->ctl) ||
	    alloc(r, r->region, perf_pulls(r) ? WEFT_LOCAL_WRITE : WEFT_LOCAL, &r->mem, &r->mr))
		return CLI_FAIL;
	/* zeros are no test data; but pages that nobody has touched would be touched by the first READ */
	if (perf_pulls(r))
		memset(r->mem, 0, r->region);
	else
		perf_fill(r->mem, r->region, r->seed);
	if (r->lat && !perf_pulls(r)) {
		if (alloc(r, r->region, WEFT_REMOTE_WRITE | WEFT_LOCAL_WRITE, &r->pong,
			  &r->pong_mr))
			return CLI_FAIL;
		m.key = weft_mr_key(r->pong_mr);
	}
	m.seed = r->seed;
	rc = perf_ask(r, &m);
	if (rc)
		return rc;
	r->rkey = m.key;
	for (unsigned i = 0; i < r->qps; i++) {
		r->lane[i].index = i;
		rc = connect_one(r, PERF_DATA, i, &r->lane[i].qp);
		if (r->lane[i].qp) {
			weft_qp_set_user(r->lane[i].qp, &r->lane[i]);
			r->lanes++;
		}
		if (rc)
			return rc;
	}
	return r->lat && !perf_pulls(r) ? set_up_lat(r) : 0;
}

static void tear_down(struct perf_run *r)
{
	/* closes what is left: QPs, completion queue, regions, memory */
	if (r->wd)
		weft_close(r->wd);
	free(r->hist);
	free(r->lane);
	free((char *)r->peer);
}

int perf_client(int argc, char **argv, enum weft_wr_op op)
{
	static char name[24];
	struct perf_run r = { .size = SIZE_UNSET, .qps = 1, .verified = -1, .op = op };
	int rc, prc;

	snprintf(name, sizeof(name), "perf %s", argv[0]);
	cmd = name;
	rc = parse(&r, argc, argv);
	if (rc >= 0) {
		free((char *)r.peer);
		return rc;
	}
	lay_out(&r);
	perf_signals();
	perf_files();
	r.lane = calloc(r.qps, sizeof(*r.lane));
	r.hist = r.lat ? calloc(1, sizeof(*r.hist)) : NULL;
	if (!r.lane || (r.lat && !r.hist))
		rc = cli_lib_fail(cmd, ENOMEM);
	else
		rc = set_up(&r);
	if (rc > 0)
		goto out;
	rc = r.lat ? perf_run_lat(&r) : perf_run_bw(&r);
	perf_gather(&r);
	if (!rc && perf_stop)
		rc = CLI_INTR;
	if (!rc && r.verify)
		rc = perf_verify(&r);
	prc = perf_report(&r);
	rc = rc ? rc : prc;
out:
	tear_down(&r);
	return rc;
}
