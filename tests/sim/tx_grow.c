/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's half of a host: new tokens, and the CPUs that carry them. */
#include "tx_host.h"

#define MOVE_MIN   4
#define SMALL_SEGS 2

void start_clones(struct cpu *cpu, uint32_t n)
{
	cpu->w.c->clones[cpu->w.dom] += n;
	while (n--) {
		struct frame *f = frame_new();

		f->kind = FRAME_FILL;
		f->qp = cpu->w.c->qpn;
		f->born = cpu->id;
		cpu_enqueue(cpu->host, cpu->id, f);
	}
}

/* Those that may hold tokens for what is next: one, if that is to come in order. */
__u32 domains(const struct host *h, const struct work *w)
{
	const struct weft_tx *tx = &w->c->gtx.tx;

	return weft_tx_spread(tx, next_ring(w)) ? (1u << h->cpus) - 1 : 1u << tx->home;
}

/* And is this another one, and that one at work? */
int astray(const struct host *h, const struct work *w)
{
	__u32 doms = domains(h, w);

	return W.p.strict && !(doms >> w->dom & 1) && weft_tx_busy(&w->c->gtx.tx) & doms;
}

/* The domain, as a bit, that an application posts small messages from, if there is another. */
__u32 app_domain(const struct host *h, const struct work *w)
{
	const struct weft_tx *tx = &w->c->gtx.tx;

	if (next_ring(w)[tx->cons & (WEFT_SQ_DEPTH - 1)].len > SMALL_SEGS * tx->payload ||
	    !(domains(h, w) & ~(1u << tx->post_dom)))
		return 0;
	return 1u << tx->post_dom;
}

/* A CPU of one of these domains that has no tokens of this QP, or -1. */
int idle_cpu(const struct weft_tx *tx, __u32 doms)
{
	__u32 idle = doms & ~weft_tx_busy(tx);

	return idle ? (int)weft_ctz(idle) : -1;
}

void start_cpu(const struct cpu *cpu, int other)
{
	struct frame *f = frame_new();

	f->kind = FRAME_GROW;
	f->qp = cpu->w.c->qpn;
	f->born = other;
	W.st.moved++;
	cpu_enqueue(cpu->host, other, f);
}

__u32 domain_share(__u32 doms, __u32 wnd)
{
	__u32 n = weft_popcount(doms);

	return (wnd + n - 1) / n;
}

/* Locked, as growth(): tokens are missing: this one becomes two, or starts another CPU; 0: neither. */
int grow(struct cpu *cpu)
{
	struct host *h = &W.host[cpu->host];
	struct work *w = &cpu->w;
	struct weft_tx *tx = &w->c->gtx.tx;
	__u32 more = weft_tx_deficit(tx, next_ring(w), w->prod, w->wnd), mine = tx->dom[w->dom].out;
	__u32 soon = weft_tx_growing(tx, w->dom, w->now), here = 1u << w->dom, app;
	__u32 doms = domains(h, w);
	int other;

	if (more < 2 + soon)
		return 0;
	mine += soon;
	more -= soon;
	app = app_domain(h, w);
	if (((more >= MOVE_MIN && mine > 1) || app == here) &&
	    w->now - tx->last_move > WEFT_TICKS_US(1000)) {
		other = idle_cpu(tx, doms & ~(here | app));
		if (other >= 0) {
			tx->last_move = w->now;
			start_cpu(cpu, other);
			return 1;
		}
	}
	if (w->room <= 1 || app == here || mine + 2 > domain_share(doms, w->wnd))
		return 0;
	weft_tx_grow(tx, w->dom, 2, w->now);
	start_clones(cpu, 2);
	return 1;
}
