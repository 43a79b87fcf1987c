/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Several WRITEs in a packet: what many_host.c and the two halves of a host offer each other. */
#ifndef WEFT_SIM_MANY_H
#define WEFT_SIM_MANY_H

#include "sim.h"

/* many_host.c */
enum step join(struct cpu *cpu);
enum step join_or_fill(const struct work *w);
int many_fill(struct cpu *cpu);
void many_header(struct frame *f, const struct conn *c, const struct weft_seg *s);
int many_damaged(const struct frame *f, const struct conn *c);
uint32_t many_count(const struct frame *f);
enum step many_part(struct cpu *cpu);

/* check.c */
void check_join(struct conn *c, const struct weft_seg *s); /* I12 */

/* rx_host.c */
enum step refuse(struct cpu *cpu, uint32_t code, uint32_t nth);
uint32_t check_range(struct conn *c, uint8_t op, uint32_t rkey, uint64_t roff, uint32_t moff,
		     uint32_t mlen, uint8_t **at);

#endif
