/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* WRITEs of one QP as the fuzzers see them: what was posted, sent, acknowledged; and the checks of it. */
#ifndef WEFT_TESTS_FUZZ_FLOW_H
#define WEFT_TESTS_FUZZ_FLOW_H

#include "fuzz.h"

#define FLOW_MSGS 512
#define FLOW_PSNS 4096

struct flow {
	struct fx_qp *q;
	uint32_t posted, cut; /* messages; PSNs sent for the first time */
	uint32_t prefix;      /* PSNs acknowledged without a gap */
	uint32_t prefix_msgs; /* messages that end there or before */
	struct {
		uint64_t loff, roff;
		uint32_t len;
	} msg[FLOW_MSGS];
	struct {
		uint32_t msn, moff;
		uint16_t len;
		bool last, acked, placed;
	} psn[FLOW_PSNS];
};

/* A frame that left through the NIC. Its owner stores it, or it is lost. */
typedef void (*emit_fn)(void *arg, const struct frame *f);

void flow_init(struct flow *fl, struct fx_qp *q);
bool flow_room(const struct flow *fl);
void flow_post(struct flow *fl, uint64_t loff, uint64_t roff, uint32_t len);

/* Run a program, and all that the kernel would run after it; `in` says which clones are not made. */
void flow_run(struct input *in, enum fx_prog p, const struct frame *f, emit_fn emit, void *arg);

/* A DATA of this flow left: is it what was posted? Returns its record, by PSN - FX_PSN. */
uint32_t flow_sent(struct flow *fl, const struct frame *f);

/* The send state is consistent, nothing is done that was not acknowledged (I3, I8, I10). */
void flow_check(struct flow *fl, uint32_t inflight_before);

/* The device's books say what its QPs say (I10). */
void flow_check_books(void);

uint32_t flow_inflight(const struct flow *fl);

#endif
