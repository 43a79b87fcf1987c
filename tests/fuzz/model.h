/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A second responder, written from docs/protocol.md byte by byte: what must become of a packet? */
#ifndef WEFT_TESTS_FUZZ_MODEL_H
#define WEFT_TESTS_FUZZ_MODEL_H

#include "fuzz.h"

/* What is known of a QP as responder. */
struct model_rx {
	uint32_t next, msn; /* oldest PSN not placed; messages complete */
	uint32_t arrived;   /* of those: not READs nor atomics */
	uint32_t received;  /* of those: that took a receive */
	uint32_t bound;     /* shared queue: the first number without a receive */
	uint32_t err, err_psn, err_nth;
	bool placed[WEFT_WIN], quiet[WEFT_WIN], recv[WEFT_WIN];
	uint8_t last[WEFT_WIN]; /* messages that end with it */
	struct {
		bool set;
		uint32_t psn;
		uint64_t value;
	} result[WEFT_ATOMICS];
};

extern struct model {
	struct model_rx rx[FX_QPS];
	bool alive, pool;
} model;

struct judged {
	int verdict; /* XDP_* */
	int drop;    /* enum weft_drop, -1: none */
	int qp;      /* whose packet it is, -1: nobody's */
	uint8_t op;  /* of the packet, once all before the opcode is proven */
	uint8_t reply, flags;
	uint32_t code, nak_psn, nak_nth;
	bool write;                  /* an atomic: `now` goes to roff of the target MR */
	struct span span[WEFT_MANY]; /* where bytes of the frame go, one after the other */
	int nspan;
	bool fresh;             /* its PSN is placed now */
	uint32_t many, data;    /* WRITES: how many; bytes of the payload before theirs */
	uint8_t bytes[FX_FULL]; /* READ: what is there */
	uint64_t was, now;      /* of an atomic */
	uint32_t at_asn;
	uint64_t roff;
	uint32_t at, len;
	uint32_t epoch; /* what the answer says with F_RQ */
	bool ce;
	/* receive queue and ring of the QP, as they must be afterwards */
	struct fx_rq rq;
	uint32_t bind[WEFT_RQ_BIND], refused;
};

void model_reset(void);
void model_judge(const struct frame *f, struct judged *j);
/* Places what was judged to be new, with the flags of its packet. */
void model_place(const struct judged *j, uint32_t psn, uint8_t flags);

static inline bool is_ask(uint8_t op)
{
	return op == WEFT_OP_READ || op == WEFT_OP_FADD || op == WEFT_OP_CSWAP;
}

#endif
