/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Fixtures: run one program on one frame, then look at verdict, bytes, maps and counters. */
#ifndef WEFT_TESTS_BPF_FIXTURE_H
#define WEFT_TESTS_BPF_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <endian.h>
#include <linux/bpf.h>

#include <weft/abi.h>

#define FRAME_ROOM 4096

/* Programs. FILL, CPU and SINK are loaded as plain XDP: the kernel does not test-run the others. */
enum fx_prog { FX_NIC, FX_DB, FX_FILL, FX_CPU, FX_SINK, FX_PROGS };

/* Two connected pairs on one device: A4 - B4 over IPv4, A6 - B6 over IPv6 with checksum. */
enum fx_qpi { A4, B4, A6, B6, FX_QPS };

struct fx_qp {
	uint32_t slot;
	struct weft_qpctl *ctl; /* the live entry */
	struct weft_ring *ring; /* the live ring */
	struct fx_qp *peer;
	bool v6;
};

#define FX_OWNER     2 /* process slot */
#define FX_PD        0x20001u
#define FX_CQ        9
#define FX_CHUNKS    3 /* in each pool */
#define FX_POOL_T    5 /* holds the target */
#define FX_POOL_S    6 /* holds the source */
#define FX_POOL      ((size_t)FX_CHUNKS * WEFT_CHUNK)

/* The MR that peers write to, and the one that WRITEs are sent from. */
#define FX_T_OFF     4161u /* in its pool: unaligned on purpose */
#define FX_T_LEN     (2 * WEFT_CHUNK + 9001u)
#define FX_T_KEY     WEFT_KEY(17, 3)
#define FX_S_OFF     777u
#define FX_S_LEN     (2 * WEFT_CHUNK + 5003u)
#define FX_S_KEY     WEFT_KEY(18, 5)
#define FX_PSN       0x12345678u /* first PSN of every QP */
#define FX_FULL      3328u       /* payload of a full segment */

/* Receive queues, one for each family; no QP has one before fx_recv_on(). */
#define FX_RQS       2
#define FX_RQ_IDX(i) (3 + 7 * (i)) /* in the map */
#define FX_RQ_DEPTH  8
struct fx_rq {
	struct weft_rq head;
	struct weft_rqe e[FX_RQ_DEPTH];
};

struct frame {
	uint32_t len;
	uint8_t b[FRAME_ROOM];
};

/* Everything in maps that a program may change, except memory. */
struct fx_state {
	struct weft_qptx tx[FX_QPS];
	struct weft_qprx rx[FX_QPS];
	struct weft_ring ring[FX_QPS];
	struct weft_qpctl ctl[FX_QPS];
	struct weft_mr_ent mr[2]; /* target, source */
	struct weft_devrun run;
	struct weft_devcfg cfg;
	struct fx_rq rq[FX_RQS];
};

extern struct fx {
	struct fx_qp qp[FX_QPS];
	struct weft_devcfg *cfg;
	struct weft_devrun *run;
	struct weft_mr_ent *mr;  /* [WEFT_MRS] */
	struct weft_qpctl *ctl;  /* [WEFT_QPS] */
	struct weft_ring *rings; /* [WEFT_PROC_QPS] */
	struct fx_rq *rq[FX_RQS];
	uint8_t *target, *source; /* the pools as they are */
	uint8_t *want;            /* the target pool as it should be */
	/* the last run */
	uint32_t t0, t1; /* when it began and ended, ticks */
	struct frame in, out;
	int verdict; /* XDP_* */
	struct fx_state before, after;
	int64_t diff[WEFT_DROP_COUNT + WEFT_COUNT_COUNT]; /* of the counters */
} fx;

int fx_load(void); /* once; 0 or -errno */
void fx_unload(void);
int fx_mutate(uint32_t n); /* with mutate.sh's object: mutation n is on; 0: none */
int fx_map_fd(const char *name);
int fx_reset(void **state); /* before every test */
int fx_check_memory(
	void **state); /* after every test: neither pool differs from what it should be */
int fx_verifier(void (*line)(const char *name, uint32_t insns)); /* each program; -errno */

/* XDP_* of program p on frame f, then on what became of it, n times: one buffer, as over a veth. */
int fx_run_n(enum fx_prog p, const struct frame *f, int n);
static inline int fx_run(enum fx_prog p, const struct frame *f) /* once */
{
	return fx_run_n(p, f, 1);
}

/* What fx_run() does around the run itself, for frames that come by other ways. */
void fx_begin(const struct frame *f);
void fx_end(void);
/* All runs from now on are on one CPU, whose number it returns: so one finds what another left. */
int fx_stay_here(void);
int fx_prog_fd(enum fx_prog p);

/* Maps as fx_reset() leaves them, but for memory and what the kernel alone can make (setup.c). */
void fx_set_up(void);

/* Set up again with other values: only between runs. */
void fx_qp_init(struct fx_qp *q, uint32_t psn0, uint32_t payload);
void fx_tx_get(const struct fx_qp *q, struct weft_tx *tx);
void fx_tx_set(const struct fx_qp *q, const struct weft_tx *tx);
void fx_rx_get(const struct fx_qp *q, struct weft_rx *rx);
void fx_rx_set(const struct fx_qp *q, const struct weft_rx *rx);
void fx_kill_owner(void);
void fx_pool_remove(uint32_t pool);
void fx_rings_remove(void);
void fx_cq_remove(void);
int fx_events(uint32_t *qpn, uint32_t *kind); /* records read; those of the last one */
/* A send queue of FX_DEEP entries, the next of which has number `at`. */
#define FX_DEEP 1024
void fx_deep(struct fx_qp *q, uint32_t at);
void fx_post(struct fx_qp *q, uint64_t loff, uint64_t roff, uint32_t len);
struct weft_wqe *fx_post_send(struct fx_qp *q, uint64_t loff, uint32_t len); /* likewise */
/* of the peer's FX_S_KEY at roff into FX_T_KEY at loff; the entry, to be changed */
struct weft_wqe *fx_post_ask(struct fx_qp *q, enum weft_wqe_op op, uint64_t loff, uint64_t roff,
			     uint32_t len);

/* q takes receives from its family's queue, which may be shared; they may lie in FX_T_KEY */
struct fx_rq *fx_recv_on(struct fx_qp *q, bool shared);
/* Post a receive of up to four pieces of FX_T_KEY; the entry, to be changed. */
struct fx_piece {
	uint64_t off;
	uint32_t len;
};
struct weft_rqe *fx_recv(struct fx_rq *rq, const struct fx_piece *pieces, int n);

static inline uint32_t fx_hl(const struct fx_qp *q) /* bytes of its packets' headers */
{
	return (q->v6 ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
}

static inline int fx_idx(const struct fx_qp *q)
{
	return q - fx.qp;
}
#define TX_BEFORE(q) (&fx.before.tx[fx_idx(q)].tx)
#define TX_AFTER(q)  (&fx.after.tx[fx_idx(q)].tx)
#define RX_BEFORE(q) (&fx.before.rx[fx_idx(q)].rx)
#define RX_AFTER(q)  (&fx.after.rx[fx_idx(q)].rx)

/*
 * What to expect of the last run. counters: names with an optional amount, as in
 * "drop.key tx_nak" or "rx_data rx_bytes=64"; every other counter must stand still.
 */
void fx_counters(const char *counters, const char *file, int line);
void fx_frame(const struct frame *want, const char *file, int line);
void fx_state(const char *file, int line);
void fx_memory(const char *file, int line);
void fx_bytes(const void *got, const void *want, size_t n, const char *what, const char *file,
	      int line);
#define expect_counters(s)         fx_counters(s, __FILE__, __LINE__)
#define expect_frame(f)            fx_frame(f, __FILE__, __LINE__)

/* no map has changed */
#define expect_same()              fx_state(__FILE__, __LINE__)

/* both pools are as they should be */
#define expect_pools()             fx_memory(__FILE__, __LINE__)

#define expect_bytes(got, want, n) fx_bytes(got, want, n, #got, __FILE__, __LINE__)

/* Program p on f: this verdict, the frame untouched, no map changed, these counters. */
void fx_inert(enum fx_prog p, const struct frame *f, int verdict, const char *counters,
	      const char *file, int line);

#define expect_inert(p, f, verdict, counters) fx_inert(p, f, verdict, counters, __FILE__, __LINE__)

#define expect_drop(f, counters)              expect_inert(FX_NIC, f, XDP_DROP, counters)
#define expect_pass(f)                        expect_inert(FX_NIC, f, XDP_PASS, "")

/* ---- packets (packet.c) ---- */

struct pkt {
	bool v6, csum;   /* csum: with a UDP checksum */
	bool keep_check; /* h.check is sent as it is */
	uint8_t dmac[6], smac[6];
	uint32_t saddr[4], daddr[4];
	uint16_t sport, dport;
	uint8_t tos, ttl;
	int ulen; /* UDP and IP length lie by this much */
	struct weft_hdr h;
	const __u64 *hkey;
	const uint8_t *payload;
	uint32_t len;
};

/* A packet that `from` sends to its peer; fields may be changed before pkt_frame(). */
void pkt_init(struct pkt *p, const struct fx_qp *from, uint8_t op, uint32_t psn);
void pkt_data(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint64_t roff,
	      const void *payload, uint32_t len); /* a whole message */
/* A whole SEND that takes receive number rsn. */
void pkt_send(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t rsn,
	      const void *payload, uint32_t len);
/* A whole READ of FX_S_KEY, an atomic on FX_T_KEY, and what answers either. */
void pkt_read(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint64_t roff, uint32_t len);
void pkt_atomic(struct pkt *p, const struct fx_qp *from, uint8_t op, uint32_t psn, uint32_t asn,
		uint64_t roff, uint64_t operand, uint64_t compare);
void pkt_answer(struct pkt *p, const struct pkt *request, const struct fx_qp *from, uint32_t cum,
		uint32_t msn, const void *payload, uint32_t len);
void pkt_ack(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t cum, uint32_t msn);
void pkt_rnr(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t epoch);
void pkt_resume(struct pkt *p, const struct fx_qp *from, uint32_t epoch);
void pkt_nak(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t code);
void pkt_frame(const struct pkt *p, struct frame *f);
void pkt_csum(struct frame *f);          /* put the right UDP checksum in */
bool pkt_csum_ok(const struct frame *f); /* UDP, and IPv4's header */
void pkt_reply(struct pkt *reply, const struct pkt *request, const struct fx_qp *from, uint8_t op);
const struct weft_hdr *frame_hdr(const struct frame *f); /* a copy */
uint32_t frame_hl(const struct frame *f);
void doorbell_frame(struct frame *f, enum weft_db_op op, uint32_t qpn, uint32_t len);
const uint8_t *random_bytes(uint32_t seed); /* FX_FULL of them */

#define BOTH(q) for (struct fx_qp *q = &fx.qp[A4]; q; q = q == &fx.qp[A4] ? &fx.qp[A6] : NULL)

/* ---- the sending side (send.c) ---- */

/* Segment of a WRITE as it should be on the wire: FX_S_KEY from loff to FX_T_KEY at roff. */
struct seg {
	uint64_t loff, roff; /* of the message */
	uint32_t psn, msn, moff, len, mlen;
	uint8_t flags, ev;
};

/* The frame that left is exactly this DATA of q, sent during the last run; returns its time. */
uint32_t fx_sent(const struct fx_qp *q, const struct seg *s, const char *file, int line);
/* The frame that left is a template that tells this host to do `op` for q. */
void fx_template(const struct fx_qp *q, enum weft_db_op op, const char *file, int line);
uint32_t fx_fill(const struct fx_qp *q); /* one clone of q is filled; its send time */
void fx_fill_n(const struct fx_qp *q, int n);
/* q posts a message of len bytes and has n tokens out; when the first one left. Nothing is lent, test_bulk.c */
uint32_t fx_hold(struct fx_qp *q, uint32_t n, uint32_t len);
/* the ACK of q's packet number n, sent at ts, comes in; those before it have come */
int fx_ack(const struct fx_qp *q, uint32_t n, uint32_t ts);
int fx_ring(const struct fx_qp *q, enum weft_db_op op); /* its doorbell */
void fx_waits(uint32_t slot);                           /* the QP of this slot waits for a token */
/* the device's books have not changed but for these; waiting: the slot that waits, or -1 */
void fx_books(int inflight, uint32_t active, int waiting);
#define expect_sent(q, ...)    fx_sent(q, &(struct seg){ __VA_ARGS__ }, __FILE__, __LINE__)
#define expect_template(q, op) fx_template(q, op, __FILE__, __LINE__)

/* ---- the tests ---- */

extern const struct CMUnitTest fx_tests_parse[], fx_tests_admit[], fx_tests_target[],
	fx_tests_place[], fx_tests_ack[], fx_tests_fill[], fx_tests_bell[], fx_tests_score[],
	fx_tests_grow[], fx_tests_share[], fx_tests_wait[], fx_tests_turn[], fx_tests_alone[],
	fx_tests_resize[], fx_tests_capture[], fx_tests_small[], fx_tests_tele[], fx_tests_ask[],
	fx_tests_refuse[], fx_tests_reply[], fx_tests_post[], fx_tests_recv[], fx_tests_shared[],
	fx_tests_badrecv[], fx_tests_rnr[], fx_tests_takes[], fx_tests_strict[], fx_tests_deep[],
	fx_tests_many[], fx_tests_join[], fx_tests_repair[], fx_tests_bulk[], fx_tests_wake[];

#define FX_TEST(f) cmocka_unit_test_setup_teardown(f, fx_reset, fx_check_memory)
#define FX_END                               \
	{                                    \
		NULL, NULL, NULL, NULL, NULL \
	}

#endif
