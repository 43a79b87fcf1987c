// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft qp: connections, and their congestion window. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "cli.h"
#include "internal.h"

static const char help[] =
	"usage: weft qp [ show ] [ DEV ] [ -j ]\n"
	"       weft qp set DEV QPN cwnd PACKETS\n"
	"\n"
	"show: queue pairs of DEV or of every interface.\n"
	"set:  the congestion window of a connected queue pair, 1 to 512 packets. It takes effect\n"
	"      with the next acknowledgement. QPN as printed by show.\n";

static const char *const states[] = {
	[WEFT_QP_FREE] = "free", [WEFT_QP_INIT] = "init",     [WEFT_QP_RTS] = "rts",
	[WEFT_QP_ERR] = "error", [WEFT_QP_CLOSED] = "closed",
};

/* Everything known about one QP. */
struct view {
	const struct pinned *p;
	struct weft_qpctl ctl;
	struct weft_qptx tx;
	struct weft_qprx rx;
	char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
	const char *state;
	int pid;
	double age, srtt_us, rto_us;
	unsigned cq_qps;
};

/* Memory that an idle QP takes, kernel and user; its CQ, which QPs can share, apart. */
static const struct {
	const char *name;
	unsigned bytes;
} memory[] = {
	{ "qptx", sizeof(struct weft_qptx) },   { "qprx", sizeof(struct weft_qprx) },
	{ "qpctl", sizeof(struct weft_qpctl) }, { "ring", sizeof(struct weft_ring) },
	{ "library", sizeof(struct weft_qp) },
};

/* A ring buffer is its data, two position pages and one page of its own. */
static unsigned cq_bytes(void)
{
	return sizeof(struct weft_cq) + 4 * sysconf(_SC_PAGESIZE);
}

static unsigned bytes_per_qp(void)
{
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		sum += memory[i].bytes;
	return sum;
}

static void derive(struct view *v)
{
	int af = v->ctl.flags & WEFT_QPF_V6 ? AF_INET6 : AF_INET;
	struct timespec ts;

	inet_ntop(af, v->ctl.saddr, v->local, sizeof(v->local));
	inet_ntop(af, v->ctl.daddr, v->peer, sizeof(v->peer));
	v->state = v->ctl.state < sizeof(states) / sizeof(states[0]) ? states[v->ctl.state] : "?";
	clock_gettime(CLOCK_MONOTONIC, &ts);
	v->age = ts.tv_sec + ts.tv_nsec / 1e9 - v->ctl.created / 1e9;
	v->srtt_us = (double)v->tx.tx.rtt.srtt8 * (1 << WEFT_TS_SHIFT) / 8e3;
	v->rto_us = (double)weft_rto(&v->tx.tx.rtt) * (1 << WEFT_TS_SHIFT) / 1e3;
}

/* Why a QP is in error, "" when it is not. */
static const char *error_text(const struct view *v)
{
	static const char *const nak[] = {
#define X(name, val, text) [val] = text,
		WEFT_NAKS(X)
#undef X
	};
	uint32_t code = v->rx.rx.err;

	if (v->tx.tx.err == WEFT_TX_ERR_LOCAL)
		return "local key, bounds or rights";
	if (v->tx.tx.err == WEFT_TX_ERR_RING)
		return "send queue is corrupt";
	if (v->tx.tx.err == WEFT_TX_ERR_NAK)
		code = v->tx.tx.err_info;
	if (!code)
		return "";
	return code < sizeof(nak) / sizeof(nak[0]) && nak[code] ? nak[code] : "unknown refusal";
}

static unsigned messages_out(const struct view *v)
{
	return v->tx.tx.cons - v->tx.tx.done + (v->tx.tx.seg ? 1 : 0);
}

static void show_text(const struct view *v)
{
	const struct weft_tx *tx = &v->tx.tx;
	char pid[16] = "-", ca[INET6_ADDRSTRLEN + 2], cb[INET6_ADDRSTRLEN + 2];
	bool v6 = v->ctl.flags & WEFT_QPF_V6;

	if (v->pid)
		snprintf(pid, sizeof(pid), "%d", v->pid);
	snprintf(ca, sizeof(ca), v6 ? "[%s]" : "%s", v->local);
	snprintf(cb, sizeof(cb), v6 ? "[%s]" : "%s", v->peer);
	printf("%s qpn 0x%08x state %s owner %u pid %s %s -> %s peer-qpn 0x%08x age %.1f s\n",
	       v->p->ifname, v->ctl.qpn, v->state, v->ctl.owner, pid, ca, cb, v->ctl.dqpn, v->age);
	if (*error_text(v))
		printf("    error: %s%s\n", v->rx.rx.err ? "we refused the peer: " : "",
		       error_text(v));
	printf("    payload %u B  csum %s  evs %u  cq %u (%u QPs)  pd 0x%08x\n", v->ctl.payload,
	       v->ctl.flags & WEFT_QPF_CSUM ? "on" : "off", v->ctl.nev, v->ctl.cq, v->cq_qps,
	       v->ctl.pd);
	printf("    cwnd %u  inflight %u  lost %u  srtt %.1f us  rto %.0f us\n", tx->cc.cwnd,
	       tx->inflight, tx->nlost, v->srtt_us, v->rto_us);
	printf("    sent: psn una %u nxt %u  messages out %u done %u\n", tx->una, tx->nxt,
	       messages_out(v), tx->done);
	printf("    packets %llu  retransmits %llu  spurious %llu  timeouts %llu  ce %llu\n",
	       (unsigned long long)weft_tx_packets(tx), (unsigned long long)tx->retransmits,
	       (unsigned long long)tx->spurious, (unsigned long long)tx->timeouts,
	       (unsigned long long)tx->ce);
	printf("    received: psn next %u  messages arrived %u\n", v->rx.rx.next, v->rx.rx.msn);
	printf("    memory %u B, and its cq %u B\n", bytes_per_qp(), cq_bytes());
}

static void show_json(const struct view *v, struct json_object *out)
{
	struct json_object *o = json_object_new_object(), *m = json_object_new_object();
	const struct weft_tx *tx = &v->tx.tx;

	cli_add_str(o, "dev", v->p->ifname);
	cli_add_u64(o, "qpn", v->ctl.qpn);
	cli_add_u64(o, "peer_qpn", v->ctl.dqpn);
	cli_add_str(o, "state", v->state);
	cli_add_u64(o, "owner", v->ctl.owner);
	json_object_object_add(o, "pid", v->pid ? json_object_new_int(v->pid) : NULL);
	cli_add_str(o, "local", v->local);
	cli_add_str(o, "peer", v->peer);
	cli_add_f(o, "age_s", v->age, 3);
	cli_add_u64(o, "payload", v->ctl.payload);
	cli_add_bool(o, "csum", v->ctl.flags & WEFT_QPF_CSUM);
	cli_add_u64(o, "evs", v->ctl.nev);
	cli_add_u64(o, "pd", v->ctl.pd);
	cli_add_u64(o, "cq", v->ctl.cq);
	cli_add_u64(o, "cq_qps", v->cq_qps);
	cli_add_u64(o, "cwnd", tx->cc.cwnd);
	cli_add_u64(o, "cwnd_set", v->ctl.cwnd ? v->ctl.cwnd : WEFT_CWND_DEFAULT);
	cli_add_u64(o, "inflight", tx->inflight);
	cli_add_u64(o, "lost", tx->nlost);
	cli_add_f(o, "srtt_us", v->srtt_us, 3);
	cli_add_f(o, "rto_us", v->rto_us, 3);
	cli_add_u64(o, "una", tx->una);
	cli_add_u64(o, "nxt", tx->nxt);
	cli_add_u64(o, "messages_out", messages_out(v));
	cli_add_u64(o, "messages_done", tx->done);
	cli_add_u64(o, "packets", weft_tx_packets(tx));
	cli_add_u64(o, "retransmits", tx->retransmits);
	cli_add_u64(o, "spurious", tx->spurious);
	cli_add_u64(o, "timeouts", tx->timeouts);
	cli_add_u64(o, "ce", tx->ce);
	cli_add_u64(o, "rx_next", v->rx.rx.next);
	cli_add_u64(o, "arrived", v->rx.rx.msn);
	cli_add_u64(o, "tx_err", tx->err);
	cli_add_u64(o, "rx_err", v->rx.rx.err);
	cli_add_str(o, "error", error_text(v));
	cli_add_u64(o, "bytes_per_qp", bytes_per_qp());
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		cli_add_u64(m, memory[i].name, memory[i].bytes);
	cli_add_u64(m, "cq", cq_bytes());
	json_object_object_add(o, "memory", m);
	json_object_array_add(out, o);
}

static int show(const struct pinned *p, struct json_object *out)
{
	struct weft_qpctl *ctl = calloc(WEFT_QPS, sizeof(*ctl));
	struct view *v = calloc(1, sizeof(*v));
	int cfd, tfd = -1, rfd = -1, pid[WEFT_PROCS], rc = CLI_FAIL;

	cfd = pins_map(p, "qpctl", sizeof(*ctl));
	if (cfd >= 0)
		tfd = pins_map(p, "qptx", sizeof(v->tx));
	if (tfd >= 0)
		rfd = pins_map(p, "qprx", sizeof(v->rx));
	if (rfd < 0 || !ctl || !v)
		goto out;
	pins_users(p, pid);
	for (uint32_t i = 0; i < WEFT_QPS; i++)
		bpf_map_lookup_elem(cfd, &i, &ctl[i]);
	for (uint32_t i = 0; i < WEFT_QPS; i++) {
		if (ctl[i].state == WEFT_QP_FREE)
			continue;
		v->p = p;
		v->ctl = ctl[i];
		if (bpf_map_lookup_elem_flags(tfd, &i, &v->tx, BPF_F_LOCK) ||
		    bpf_map_lookup_elem_flags(rfd, &i, &v->rx, BPF_F_LOCK))
			continue;
		v->pid = ctl[i].owner < WEFT_PROCS ? pid[ctl[i].owner] : 0;
		v->cq_qps = 0;
		for (unsigned k = 0; k < WEFT_QPS; k++)
			v->cq_qps += ctl[k].state != WEFT_QP_FREE && ctl[k].cq == ctl[i].cq;
		derive(v);
		if (out)
			show_json(v, out);
		else
			show_text(v);
	}
	rc = CLI_OK;
out:
	if (rfd >= 0)
		close(rfd);
	if (tfd >= 0)
		close(tfd);
	if (cfd >= 0)
		close(cfd);
	free(v);
	free(ctl);
	return rc;
}

/* The control block is shared memory: one word is stored, nothing around it. */
static int set_cwnd(const struct pinned *p, uint32_t qpn, uint32_t cwnd)
{
	size_t len = WEFT_QPS * sizeof(struct weft_qpctl);
	uint32_t slot = WEFT_QPN_SLOT(qpn);
	struct weft_qpctl *ctl;
	int fd, rc = CLI_OK;

	fd = pins_map(p, "qpctl", sizeof(*ctl));
	if (fd < 0)
		return CLI_FAIL;
	ctl = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (ctl == MAP_FAILED)
		return cli_fail(p->ifname, "cannot map %s/qpctl: %s; run as root", p->dir,
				strerror(errno));
	if (slot >= WEFT_QPS || ctl[slot].qpn != qpn || ctl[slot].state != WEFT_QP_RTS)
		rc = cli_fail(p->ifname, "no connected QP 0x%08x; see 'weft qp show %s'", qpn,
			      p->ifname);
	else
		__atomic_store_n(&ctl[slot].cwnd, cwnd, __ATOMIC_RELAXED);
	munmap(ctl, len);
	return rc;
}

static int set(int argc, char **argv)
{
	struct pinned *list;
	uint64_t qpn, cwnd;
	int rc;

	if (argc && !strcmp(argv[0], "dev")) {
		argc--;
		argv++;
	}
	if (argc != 4 || strcmp(argv[2], "cwnd"))
		return cli_usage("qp", "set wants DEV QPN cwnd PACKETS");
	if (!cli_u64(argv[1], 0, UINT32_MAX, &qpn))
		return cli_usage("qp", "\"%s\" is not a QPN", argv[1]);
	if (!cli_u64(argv[3], 1, WEFT_CWND_MAX, &cwnd))
		return cli_usage("qp", "cwnd must be 1 to %u packets, not \"%s\"", WEFT_CWND_MAX,
				 argv[3]);
	if (pins_find(argv[0], &list) < 0)
		return CLI_FAIL;
	rc = set_cwnd(&list[0], qpn, cwnd);
	free(list);
	return rc;
}

int cmd_qp(int argc, char **argv)
{
	const char *dev;
	int rc = cli_common("qp", help, &argc, &argv);

	if (rc >= 0)
		return rc;
	if (argc && !strcmp(argv[0], "set"))
		return set(argc - 1, argv + 1);
	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	rc = cli_dev_arg("qp", argc, argv, false, &dev);
	if (rc >= 0)
		return rc;
	return pins_each(dev, show);
}
