/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What tx_host.c and tx_grow.c offer each other. */
#ifndef WEFT_SIM_TX_HOST_H
#define WEFT_SIM_TX_HOST_H

#include "sim.h"

/* Looked up before the lock: the ring of the request that is next, as it then is. */
static inline const struct weft_wqe *next_ring(const struct work *w)
{
	struct conn *c = w->c;

	return &c->sq[weft_sq_ring(w->cons, c->depth - 1) * WEFT_SQ_DEPTH];
}

/* lane_host.c */
enum step lane_ahead(struct cpu *cpu), lane_go(struct cpu *cpu), lane_bulk(struct cpu *cpu),
	lane_disown(struct cpu *cpu), lane_stuck(struct cpu *cpu);
int lane_owed(struct cpu *cpu);

/* tx_host.c: what the application sees; locked */
void publish(struct conn *c);

/* tx_grow.c, as bpf/token.bpf.h has them */
void start_clones(struct cpu *cpu, uint32_t n);
__u32 domains(const struct host *h, const struct work *w);
int astray(const struct host *h, const struct work *w);
__u32 app_domain(const struct host *h, const struct work *w);
int idle_cpu(const struct weft_tx *tx, __u32 doms);
void start_cpu(const struct cpu *cpu, int other);
__u32 domain_share(__u32 doms, __u32 wnd);
int grow(struct cpu *cpu);

#endif
