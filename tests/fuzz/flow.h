/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests of one QP as the fuzzers see them: what was posted, sent, acknowledged; and the checks of it. */
#ifndef WEFT_TESTS_FUZZ_FLOW_H
#define WEFT_TESTS_FUZZ_FLOW_H

#include "fuzz.h"

#define FLOW_MSGS 512
#define FLOW_PSNS 4096

struct flow {
	struct fx_qp *q;
	uint32_t posted, cut; /* messages; PSNs sent for the first time */
	uint32_t begin;       /* first PSN of the message that is being sent */
	uint32_t prefix;      /* PSNs acknowledged without a gap */
	uint32_t prefix_msgs; /* messages that end there or before */
	uint32_t writes;      /* messages posted that are WRITEs or SENDs */
	uint32_t recvs;       /* of those: that take a receive */
	struct {
		uint64_t loff, roff;
		uint32_t len, rsn, imm;
		uint8_t flags; /* WEFT_F_IMM, WEFT_F_SOL */
		bool recv;     /* takes a receive */
		enum weft_wqe_op op;
	} msg[FLOW_MSGS];
	struct {
		uint32_t msn, moff;
		uint16_t len;
		bool last, acked, placed;
		bool tiled; /* of all that follow from the first PSN of a message, by segment: has one */
		bool own;     /* READ or atomic: its answer counts, and nothing else */
		uint64_t was; /* what the atomic found */
	} psn[FLOW_PSNS];
};

/* Where all atomics go: behind all that WRITEs and READs reach. */
#define FLOW_WORD ((FX_T_OFF + FX_T_LEN) / 8 * 8 - FX_T_OFF - 64)

/* In the last flow_run(): answers that were put into memory. */
extern uint32_t flow_replied;

/* A frame that left through the NIC. Its owner stores it, or it is lost. */
typedef void (*emit_fn)(void *arg, const struct frame *f);

void flow_init(struct flow *fl, struct fx_qp *q);
bool flow_room(const struct flow *fl);
void flow_post(struct flow *fl, uint64_t loff, uint64_t roff, uint32_t len);
/* A SEND, or a WRITE with immediate data, with these of WEFT_F_IMM and WEFT_F_SOL. */
void flow_post_recv(struct flow *fl, enum weft_wqe_op op, uint64_t loff, uint64_t roff,
		    uint32_t len, uint8_t flags);
/* READ: of the source MR at roff into the target MR at loff. FADD: of 1 at FLOW_WORD, likewise. */
void flow_post_ask(struct flow *fl, enum weft_wqe_op op, uint64_t loff, uint64_t roff,
		   uint32_t len);

/* Run a program, and all that the kernel would run after it; `in` says which clones are not made. */
void flow_run(struct input *in, enum fx_prog p, const struct frame *f, emit_fn emit, void *arg);

/* A request of this flow left: is it what was posted? Returns its record, by PSN - FX_PSN. */
uint32_t flow_sent(struct flow *fl, const struct frame *f);

/* The send state is consistent, nothing is done that was not acknowledged (I3, I8, I10). */
void flow_check(struct flow *fl, uint32_t inflight_before);

/* The device's books say what its QPs say (I10). */
void flow_check_books(void);

uint32_t flow_inflight(const struct flow *fl);

#endif
