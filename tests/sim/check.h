/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The simulator's checkers; of sim.h, which includes this. */
#ifndef WEFT_SIM_CHECK_H
#define WEFT_SIM_CHECK_H

/* check.c: one checker an invariant */
void fail(const char *inv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void check_claim(struct conn *c, const struct weft_seg *s, __u32 wnd); /* I10, I12 */
int cut_right(struct conn *c, const struct weft_seg *s, uint32_t idx); /* I12, I4; check_cut.c */
void check_lent(struct conn *c, const struct weft_seg *s);             /* I12 */
void check_tx(struct conn *c);                                         /* I8, I10 */
void check_growing(const struct conn *c);                              /* I10 */
void check_window(const struct conn *c, __u32 psn);                    /* I8 */
void check_rescue(const struct conn *c, const struct weft_seg *s, __u32 now, __u32 dom); /* storm */
void check_rx(struct conn *c); /* I4, I8 */
void check_data_frame(const struct conn *c, const struct frame *f, const struct weft_seg *s,
		      __u32 ts);           /* I13 */
void check_arrival(const struct frame *f); /* I13 */
void check_placed(struct conn *c, __u32 psn);
void check_got(struct conn *c);
struct psn_rec *rec_of(struct conn *c, __u32 psn);
struct msg_rec *msg_of(struct conn *c, const struct psn_rec *r);
void check_ack_out(const struct conn *c, const struct weft_rx_sack *k, __u32 psn,
		   int placed);                                          /* I3 */
void check_ack_in(struct conn *c);                                       /* I3 */
void check_reply(const struct frame *f, uint32_t was_len, uint32_t len); /* I6 */
void check_sealed(struct conn *c);                                       /* I1, at arrival */
void check_end(void);              /* I1, I2, I5, I10, I11, efficiency */
void check_memory(struct conn *c); /* I2, I5, I11, at the end */

#endif
