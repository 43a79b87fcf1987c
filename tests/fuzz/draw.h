/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a fuzzer's bytes make: packets to a QP, mostly right, and an application at its receive queues. */
#ifndef WEFT_TESTS_FUZZ_DRAW_H
#define WEFT_TESTS_FUZZ_DRAW_H

#include "model.h"

void draw_data(struct input *in, struct pkt *p, const struct fx_qp *to);
void draw_writes(struct input *in, struct pkt *p, const struct fx_qp *to);
void make_recv(struct input *in, struct pkt *p, const struct fx_qp *to);
void draw_ask(struct input *in, struct pkt *p, const struct fx_qp *to);
void draw_answer(struct input *in, struct pkt *p, const struct fx_qp *to);
void change_field(struct input *in, struct pkt *p);
void damage(struct input *in, struct frame *f);
void use_queue(struct input *in);

#endif
