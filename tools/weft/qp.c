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

#include "internal.h"
#include "qps.h"

static const char help[] =
	"usage: weft qp [ show ] [ DEV ] [ -j ]\n"
	"       weft qp set DEV QPN cwnd PACKETS\n"
	"       weft qp trace DEV [ QPN ] [ -j ]\n"
	"\n"
	"show: queue pairs of DEV or of every interface.\n"
	"set:  the congestion window of a connected queue pair, 1 to 512 packets. It takes effect\n"
	"      with the next acknowledgement. QPN as printed by show.\n"
	"trace: the last events of a queue pair, also of one that is gone; without QPN a line for each\n"
	"       that has failed.\n";

/* Memory that an idle QP takes, kernel and user; its CQ, which QPs can share, apart. */
static const struct {
	const char *name;
	unsigned bytes;
} memory[] = {
	{ "qptx", sizeof(struct weft_qptx) },      { "qprx", sizeof(struct weft_qprx) },
	{ "qpctl", sizeof(struct weft_qpctl) },    { "ring", sizeof(struct weft_ring) },
	{ "telemetry", sizeof(struct weft_tele) }, { "library", sizeof(struct weft_qp) },
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

static unsigned messages_out(const struct qp_view *v)
{
	return v->tx.tx.cons - v->tx.tx.done + (v->tx.tx.seg ? 1 : 0);
}

static void show_text(const struct qp_view *v)
{
	const struct weft_tx *tx = &v->tx.tx;
	char pid[16] = "-", ca[INET6_ADDRSTRLEN + 2], cb[INET6_ADDRSTRLEN + 2];
	bool v6 = v->ctl.flags & WEFT_QPF_V6;
	char times[96];

	if (v->pid)
		snprintf(pid, sizeof(pid), "%d", v->pid);
	snprintf(ca, sizeof(ca), v6 ? "[%s]" : "%s", v->local);
	snprintf(cb, sizeof(cb), v6 ? "[%s]" : "%s", v->peer);
	printf("%s qpn 0x%08x state %s owner %u pid %s %s -> %s peer-qpn 0x%08x age %.1f s\n",
	       v->p->ifname, v->ctl.qpn, v->state, v->ctl.owner, pid, ca, cb, v->ctl.dqpn, v->age);
	if (*qp_error_text(v))
		printf("    error: %s%s\n", v->rx.rx.err ? "we refused the peer: " : "",
		       qp_error_text(v));
	printf("    payload %u B  csum %s  order %s  evs %u  cq %u (%u QPs)  pd 0x%08x\n",
	       v->ctl.payload, v->ctl.flags & WEFT_QPF_CSUM ? "on" : "off",
	       v->ctl.flags & WEFT_QPF_STRICT ? "strict" : "relaxed", v->ctl.nev, v->ctl.cq,
	       v->cq_qps, v->ctl.pd);
	printf("    cwnd %u  inflight %u  lost %u  srtt %.1f us  rto %.0f us\n", tx->cc.cwnd,
	       tx->inflight, tx->nlost, v->srtt_us, v->rto_us);
	printf("    sent: psn una %u nxt %u  messages out %u done %u\n", tx->una, tx->nxt,
	       messages_out(v), tx->done);
	printf("    packets %llu  retransmits %llu  spurious %llu  timeouts %llu  ce %llu\n",
	       (unsigned long long)weft_tx_packets(tx), (unsigned long long)tx->retransmits,
	       (unsigned long long)tx->spurious, (unsigned long long)tx->timeouts,
	       (unsigned long long)tx->ce);
	printf("    delivered %llu B in %llu messages\n", (unsigned long long)v->tx_bytes,
	       (unsigned long long)v->tx_msgs);
	printf("    round trip  %s\n", hist_text(&v->rtt, times));
	printf("    write       %s\n", hist_text(&v->lat, times));
	printf("    received: psn next %u  messages arrived %u  %llu B\n", v->rx.rx.next,
	       v->rx.rx.msn, (unsigned long long)v->rx_bytes);
	if (v->rq_depth)
		printf("    receives: %squeue of %u, %u posted  taken %u\n",
		       v->ctl.flags & WEFT_QPF_SRQ ? "shared " : "", v->rq_depth, v->rq_left,
		       v->rx.rx.rdone);
	if (tx->rnr)
		printf("    waits for a receive of the peer's, %.3f s so far, %u probes\n",
		       v->rnr_s, tx->probes);
	printf("    memory %u B, and its cq %u B\n", bytes_per_qp(), cq_bytes());
}

static void show_json(const struct qp_view *v, struct json_object *out)
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
	cli_add_bool(o, "strict", v->ctl.flags & WEFT_QPF_STRICT);
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
	cli_add_u64(o, "tx_bytes", v->tx_bytes);
	cli_add_u64(o, "tx_messages", v->tx_msgs);
	json_object_object_add(o, "rtt_us", hist_json(&v->rtt));
	json_object_object_add(o, "latency_us", hist_json(&v->lat));
	cli_add_u64(o, "rx_bytes", v->rx_bytes);
	cli_add_u64(o, "rx_next", v->rx.rx.next);
	cli_add_u64(o, "arrived", v->rx.rx.msn);
	cli_add_u64(o, "recvs", v->rq_depth);
	cli_add_u64(o, "recvs_posted", v->rq_left);
	cli_add_bool(o, "srq", v->ctl.flags & WEFT_QPF_SRQ);
	cli_add_u64(o, "received", v->rx.rx.rdone);
	cli_add_bool(o, "rnr", tx->rnr);
	cli_add_f(o, "rnr_s", v->rnr_s, 3);
	cli_add_u64(o, "rnr_probes", tx->rnr ? tx->probes : 0);
	cli_add_u64(o, "tx_err", tx->err);
	cli_add_u64(o, "rx_err", v->rx.rx.err);
	cli_add_str(o, "error", qp_error_text(v));
	cli_add_u64(o, "bytes_per_qp", bytes_per_qp());
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		cli_add_u64(m, memory[i].name, memory[i].bytes);
	cli_add_u64(m, "cq", cq_bytes());
	json_object_object_add(o, "memory", m);
	json_object_array_add(out, o);
}

static void show_one(const struct qp_view *v, void *out)
{
	if (out)
		show_json(v, out);
	else
		show_text(v);
}

static int show(const struct pinned *p, struct json_object *out)
{
	return qps_each(p, show_one, out) ? CLI_FAIL : CLI_OK;
}

/* The control block is shared memory: one word is stored, nothing around it. */
static int set_cwnd(const struct pinned *p, uint32_t qpn, uint32_t cwnd)
{
	uint32_t slot = WEFT_QPN_SLOT(qpn), n = p->cfg.qps;
	struct weft_qpctl *ctl;
	struct weft_tele *tele;
	int rc = CLI_OK;

	ctl = pins_mmap(p, "qpctl", sizeof(*ctl), n, PROT_READ | PROT_WRITE);
	if (!ctl)
		return CLI_FAIL;
	if (slot >= n || ctl[slot].qpn != qpn || ctl[slot].state != WEFT_QP_RTS)
		rc = cli_fail(p->ifname, "no connected QP 0x%08x; see 'weft qp show %s'", qpn,
			      p->ifname);
	else
		__atomic_store_n(&ctl[slot].cwnd, cwnd, __ATOMIC_RELAXED);
	munmap(ctl, n * sizeof(*ctl));
	if (rc)
		return rc;
	tele = pins_mmap(p, "qptele", sizeof(*tele), n, PROT_READ | PROT_WRITE);
	if (!tele)
		return CLI_FAIL;
	weft_tele_cwnd(&tele[slot], cwnd);
	munmap(tele, n * sizeof(*tele));
	return CLI_OK;
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
		return cli_usage("qp", "QPN is a number as 'weft qp show' prints it, not \"%s\"",
				 argv[1]);
	if (!cli_u64(argv[3], 1, WEFT_CWND_MAX, &cwnd))
		return cli_usage("qp", "cwnd is 1 to %u packets, not \"%s\"", WEFT_CWND_MAX,
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
	if (argc && !strcmp(argv[0], "trace"))
		return qp_trace(argc - 1, argv + 1);
	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	rc = cli_dev_arg("qp", argc, argv, false, &dev);
	if (rc >= 0)
		return rc;
	return pins_each(dev, show);
}
