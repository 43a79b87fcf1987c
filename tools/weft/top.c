// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft top: rates, round trips and drops of the QPs, live on a terminal or in batches. */
#define _GNU_SOURCE
#include <curses.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "top.h"

static const char help[] =
	"usage: weft top [ DEV ] [ -b ] [ -n N ] [ -d SECONDS ] [ -j ]\n"
	"\n"
	"QPs of DEV or of every interface, those with the highest rate first, and drops by reason.\n"
	"  -b, --batch      print to stdout, one screen after the other, for scripts\n"
	"  -n, --count N    end after N screens\n"
	"  -d, --delay S    seconds between two, 0.1 to 3600; default 1\n"
	"  -j, --json       one JSON object a line for each screen; implies -b\n"
	"\n"
	"Keys: q quit, s next order (rate, messages, retransmits, round trip, qpn), d next device,\n"
	"any other: now. Rates and round trips are those of the last interval.\n";

static const char *const order_names[] = { "rate", "messages", "retransmits", "round trip", "qpn" };

static enum order order;

/* ---- as lines ---- */

/* Where a line goes: stdout, or the next line of the terminal, cut to its width. */
static void (*emit)(const char *line, bool title);

static void line(bool title, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(bool title, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(text, title);
}

/* The interface that is shown, by number from 1; 0: all. */
static bool shown(const struct screen *s, unsigned which, const char *dev)
{
	return !which || !strcmp(s->dev[which - 1].p.ifname, dev);
}

static void draw_drops(const struct screen *s, unsigned which)
{
	for (unsigned i = 0; i < s->ndev; i++) {
		const uint64_t *drop = (uint64_t *)&s->dev[i].stats.drop;
		char text[400];
		int n = 0;

		if (!shown(s, which, s->dev[i].p.ifname))
			continue;
		for (unsigned k = 0; k < WEFT_DROP_COUNT && n < (int)sizeof(text); k++)
			if (drop[k] && !stats_overhead(&stats_drops[k]))
				n += snprintf(text + n, sizeof(text) - n, "  %s %llu (%.0f/s)",
					      stats_drops[k].name, (unsigned long long)drop[k],
					      s->dev[i].rate[k]);
		line(false, "%s%s drops:%s", s->dev[i].p.ifname,
		     s->dev[i].p.ifindex ? "" : " (gone)", n ? text : "  none");
	}
}

static void draw(struct screen *s, unsigned which, bool live)
{
	double tx = 0, rx = 0, msgs = 0;
	unsigned n = 0;
	char now[16];
	time_t t = time(NULL);
	struct tm tm;

	strftime(now, sizeof(now), "%H:%M:%S", localtime_r(&t, &tm));
	top_sort(s, order);
	for (unsigned i = 0; i < s->n; i++) {
		if (!shown(s, which, s->row[i].dev))
			continue;
		tx += s->row[i].tx_gbps;
		rx += s->row[i].rx_gbps;
		msgs += s->row[i].msg_rate;
		n++;
	}
	line(false, "weft top %s  %s  %u QPs  sent %.3f Gb/s  received %.3f Gb/s  %.0f msg/s", now,
	     which     ? s->dev[which - 1].p.ifname
	     : s->only ? s->only
		       : "all devices",
	     n, tx, rx, msgs);
	if (live)
		line(false, "by %s   q quit  s order  d device", order_names[order]);
	draw_drops(s, which);
	line(true, "%-10s %-10s %-20s %-6s %9s %9s %10s %7s %9s %9s %9s", "DEV", "QPN", "PEER",
	     "STATE", "TX Gb/s", "RX Gb/s", "MSG/s", "RETX%", "RTT p50", "p99 us", "OUT/CWND");
	for (unsigned i = 0; i < s->n; i++) {
		const struct row *r = &s->row[i];
		char wnd[24];

		if (!shown(s, which, r->dev))
			continue;
		snprintf(wnd, sizeof(wnd), "%u/%u", r->inflight, r->cwnd);
		line(false, "%-10s 0x%08x %-20s %-6s %9.3f %9.3f %10.0f %7.3f %9.1f %9.1f %9s",
		     r->dev, r->qpn, r->peer, r->state, r->tx_gbps, r->rx_gbps, r->msg_rate,
		     r->retx_pct, r->p50_us, r->p99_us, wnd);
	}
}

static void emit_stdout(const char *text, bool title)
{
	(void)title;
	puts(text);
}

/* ---- as JSON ---- */

static void print_json(struct screen *s)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(), *q;

	top_sort(s, order);
	cli_add_f(o, "seconds", s->seconds, 3);
	for (unsigned i = 0; i < s->n; i++) {
		const struct row *r = &s->row[i];

		q = json_object_new_object();
		cli_add_str(q, "dev", r->dev);
		cli_add_u64(q, "qpn", r->qpn);
		cli_add_str(q, "peer", r->peer);
		cli_add_str(q, "state", r->state);
		cli_add_f(q, "tx_gbps", r->tx_gbps, 6);
		cli_add_f(q, "rx_gbps", r->rx_gbps, 6);
		cli_add_f(q, "msg_rate", r->msg_rate, 1);
		cli_add_f(q, "retransmit_pct", r->retx_pct, 4);
		cli_add_f(q, "rtt_p50_us", r->p50_us, 3);
		cli_add_f(q, "rtt_p99_us", r->p99_us, 3);
		cli_add_u64(q, "inflight", r->inflight);
		cli_add_u64(q, "cwnd", r->cwnd);
		json_object_array_add(list, q);
	}
	json_object_object_add(o, "qps", list);
	list = json_object_new_array();
	for (unsigned i = 0; i < s->ndev; i++) {
		struct json_object *d = json_object_new_object();

		q = json_object_new_object();
		for (unsigned k = 0; k < WEFT_DROP_COUNT; k++)
			cli_add_f(d, stats_drops[k].name, s->dev[i].rate[k], 1);
		cli_add_str(q, "dev", s->dev[i].p.ifname);
		json_object_object_add(q, "drops_per_s", d);
		json_object_array_add(list, q);
	}
	json_object_object_add(o, "devices", list);
	cli_print(o);
}

/* ---- the two ways of showing it ---- */

struct opts {
	const char *dev;
	bool batch;
	uint64_t count; /* 0: for ever */
	double delay;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

static void wait_for(double seconds)
{
	struct timespec ts = { .tv_sec = seconds };

	ts.tv_nsec = (seconds - ts.tv_sec) * 1e9;
	nanosleep(&ts, NULL);
}

static int batch(const struct opts *o)
{
	struct screen s = { 0 };
	int rc = top_look(o->dev, &s);

	emit = emit_stdout;
	catch_signals();
	for (uint64_t i = 0; !rc && (!o->count || i < o->count); i++) {
		wait_for(o->delay);
		if (stop)
			break;
		rc = top_look(o->dev, &s);
		if (rc)
			break;
		if (cli.json)
			print_json(&s);
		else
			draw(&s, 0, false);
		if (!cli.json && (!o->count || i + 1 < o->count))
			putchar('\n');
		if (fflush(stdout))
			break;
	}
	top_forget(&s);
	return rc ? CLI_FAIL : CLI_OK;
}

static int row_at;

static void emit_curses(const char *text, bool title)
{
	if (row_at >= LINES)
		return;
	if (title)
		attron(A_REVERSE);
	mvaddnstr(row_at, 0, text, COLS);
	if (title)
		for (int x = getcurx(stdscr); x < COLS && getcury(stdscr) == row_at; x++)
			addch(' ');
	attroff(A_REVERSE);
	row_at++;
}

/* Keys until the next look is due. True: quit. */
static bool keys(struct screen *s, unsigned *which, double seconds)
{
	struct timespec begin, now;
	double left = seconds;
	bool redraw = true;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (left > 0 && !stop) {
		if (redraw) {
			erase();
			row_at = 0;
			draw(s, *which, true);
			refresh();
		}
		timeout(left * 1000 < 1 ? 1 : left * 1000);
		redraw = true;
		switch (getch()) {
		case ERR: redraw = false; break;
		case 'q':
		case 'Q': return true;
		case 's': order = (order + 1) % ORDERS; break;
		case 'd': *which = s->ndev ? (*which + 1) % (s->ndev + 1) : 0; break;
		case KEY_RESIZE: break;
		default: return false;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = seconds - seconds_between(&begin, &now);
	}
	return stop;
}

/* Messages would stand in the middle of the screen. A copy of stderr, or -1. */
static int silence(void)
{
	int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, STDERR_FILENO);
		close(null);
	}
	return copy;
}

static int live(const struct opts *o)
{
	struct screen s = { 0 };
	unsigned which = 0;
	int rc = top_look(o->dev, &s), err;
	SCREEN *term;

	if (rc)
		return CLI_FAIL;
	term = newterm(NULL, stdout, stdin);
	if (!term) {
		top_forget(&s);
		return cli_fail("terminal", "TERM \"%s\" is not known here; use -b, or set TERM",
				getenv("TERM") ? getenv("TERM") : "");
	}
	catch_signals();
	err = silence();
	emit = emit_curses;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	for (uint64_t i = 0; !rc && !stop && (!o->count || i < o->count); i++) {
		if (keys(&s, &which, i ? o->delay : o->delay < 0.3 ? o->delay : 0.3))
			break;
		rc = top_look(o->dev, &s);
		if (which > s.ndev)
			which = 0;
	}
	endwin();
	delscreen(term);
	top_forget(&s);
	if (err >= 0) {
		dup2(err, STDERR_FILENO);
		close(err);
	}
	if (rc && o->dev && !if_nametoindex(o->dev))
		return cli_fail(o->dev, "the interface is gone; see 'ip link'");
	return rc ? cli_fail(o->dev ? o->dev : "top", "weft is not on it any more; run 'weft up'")
		  : CLI_OK;
}

int cmd_top(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "json", no_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct opts o = { .delay = 1 };
	int c, rc;

	/* getopt starts behind argv[0], which is the object's name */
	argv--;
	argc++;
	optind = 0;
	while ((c = getopt_long(argc, argv, ":bn:d:jvh", longs, NULL)) != -1) {
		switch (c) {
		case 'b': o.batch = true; break;
		case 'n':
			if (!cli_u64(optarg, 1, UINT32_MAX, &o.count))
				return cli_usage("top", "-n is 1 to 4294967295 screens, not \"%s\"",
						 optarg);
			break;
		case 'd':
			if (!cli_seconds(optarg, &o.delay) || o.delay < 0.1 || o.delay > 3600)
				return cli_usage("top", "-d is 0.1 to 3600 s, not \"%s\"", optarg);
			break;
		default:
			rc = cli_option("top", c, argv, help);
			if (rc >= 0)
				return rc;
		}
	}
	argc -= optind;
	argv += optind;
	if (argc && !strcmp(argv[0], "help")) {
		fputs(help, stdout);
		return CLI_OK;
	}
	rc = cli_dev_arg("top", argc, argv, false, &o.dev);
	if (rc >= 0)
		return rc;
	if (o.batch || cli.json)
		return batch(&o);
	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return cli_fail("top", "stdin and stdout are not a terminal; use -b");
	return live(&o);
}
