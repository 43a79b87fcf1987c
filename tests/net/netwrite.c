// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* netwrite: WRITEs of random sizes and places, or all operations, every byte and canary compared. Public API only. */
#include <getopt.h>
#include <signal.h>

#include "netclient.h"
#include "netserver.h"

static const char usage_text[] =
	"usage: netwrite server [OPTIONS] DEV=ADDRESS...    ADDRESS as weft_listen() takes it\n"
	"       netwrite client [OPTIONS] DEV=HOST:PORT...\n"
	"  --seed N          of everything that is random\n"
	"  --qps N           QPs to each target; server: regions of each device\n"
	"  --region SIZE     bytes of each destination (server)\n"
	"  --conns N         end after N connections (server)\n"
	"  --src SIZE, --max SIZE, --fixed SIZE   source; largest message; all messages of one size\n"
	"  --rounds N | --time S    how often the destination is filled anew\n"
	"  --evs N, --cwnd N, --depth N, --timeout MS   of the QPs\n"
	"  --stop-posted     SIGSTOP oneself when the first round is posted (--depth and less)\n"
	"  --stress          random bursts and pauses for --time; --limit MS for each message\n"
	"  --bad KIND        key zero index bounds end wrap rights pd local close dereg\n"
	"  --mix             all operations in random order for --time; server: for such clients too\n"
	"  --strict          in strict order (client)\n"
	"  --idle S          connect, and be idle for so long\n"
	"  --csum            open the devices with whole-packet checksums\n"
	"exit status: 0 all right, 1 not, 2 usage, 3 a QP failed, cleanly\n";

static void usage(void)
{
	fputs(usage_text, stderr);
	exit(2);
}

static uint64_t number(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);

	switch (*end) {
	case 'g': v <<= 10; /* fall through */
	case 'm': v <<= 10; /* fall through */
	case 'k': v <<= 10; end++;
	}
	if (end == s || *end)
		usage();
	return v;
}

static void parse(int argc, char **argv)
{
	static const struct option lo[] = {
		{ "seed", 1, 0, 's' },        { "qps", 1, 0, 'q' },
		{ "region", 1, 0, 'r' },      { "conns", 1, 0, 'c' },
		{ "src", 1, 0, 'S' },         { "max", 1, 0, 'm' },
		{ "fixed", 1, 0, 'f' },       { "rounds", 1, 0, 'R' },
		{ "time", 1, 0, 't' },        { "evs", 1, 0, 'e' },
		{ "cwnd", 1, 0, 'w' },        { "depth", 1, 0, 'd' },
		{ "timeout", 1, 0, 'T' },     { "limit", 1, 0, 'l' },
		{ "idle", 1, 0, 'i' },        { "bad", 1, 0, 'b' },
		{ "stress", 0, 0, 'x' },      { "csum", 0, 0, 'C' },
		{ "stop-posted", 0, 0, 'p' }, { "mix", 0, 0, 'M' },
		{ "strict", 0, 0, 'o' },      { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", lo, NULL)) != -1) {
		switch (c) {
		case 's': nw.seed = number(optarg); break;
		case 'q': nw.qps = number(optarg); break;
		case 'r': nw.region = number(optarg); break;
		case 'c': nw.conns = number(optarg); break;
		case 'S': nw.src = number(optarg); break;
		case 'm': nw.max = number(optarg); break;
		case 'f': nw.fixed = number(optarg); break;
		case 'R': nw.rounds = number(optarg); break;
		case 't': nw.time = number(optarg); break;
		case 'e': nw.evs = number(optarg); break;
		case 'w': nw.cwnd = number(optarg); break;
		case 'd': nw.depth = number(optarg); break;
		case 'T': nw.timeout_ms = number(optarg); break;
		case 'l': nw.limit_ms = number(optarg); break;
		case 'i': nw.idle = number(optarg); break;
		case 'b': nw.bad = optarg; break;
		case 'x': nw.stress = true; break;
		case 'C': nw.csum = true; break;
		case 'p': nw.stop_posted = true; break;
		case 'M': nw.mix = true; break;
		case 'o': nw.strict = true; break;
		default: usage();
		}
	}
	if (optind == argc || nw.depth < 1 || nw.depth > WEFT_DEPTH_MAX || nw.src < 8192 || !nw.qps)
		usage();
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&stop, true);
}

int main(int argc, char **argv)
{
	bool serve_it = argc > 1 && !strcmp(argv[1], "server");
	struct sigaction sa = { .sa_handler = on_signal };
	struct weft_dev *dev[16];
	struct server sv[16] = { 0 };
	char *addr[16];
	int n;

	if (!serve_it && (argc < 2 || strcmp(argv[1], "client")))
		usage();
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	parse(argc - 1, argv + 1);
	n = argc - 1 - optind;
	for (int i = 0; i < n; i++) {
		struct weft_open_opts oo = { .size = sizeof(oo), .csum = nw.csum };

		addr[i] = strchr(argv[1 + optind + i], '=');
		if (!addr[i] || n > 16)
			usage();
		*addr[i]++ = 0;
		need(weft_open(argv[1 + optind + i], &oo, &dev[i]), "weft_open");
		sv[i].dev = dev[i];
	}
	return serve_it ? server(sv, addr, n) : client(dev, addr, n);
}
