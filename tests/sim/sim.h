/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The simulator's world: hosts, CPUs, connections, frames, and what its parts offer each other. */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/core/check.h>
#include <weft/core/ring.h>
#include <weft/core/rx_track.h>
#include "rng.h"

#define SIM_HOSTS   2
#define SIM_CPUS    16
#define SIM_QPS     4
#define SIM_PAYLOAD 256       /* largest payload of a segment */
#define SIM_SEGS    6000      /* PSNs a connection may use */
#define SIM_MSGS    4096      /* messages a connection may post */
#define SIM_SRC     (1 << 20) /* bytes of source memory */
#define SIM_RING    256       /* frames a CPU's queue holds */
#define SIM_TTL     64
#define SIM_LIVE    128  /* words of memory that its owner writes all the time */
#define SIM_RQ      1024 /* entries of a receive queue */
#define SIM_WORDS   8    /* words of a host that atomics change: the first half by FADD */

#define US          1000ull
#define MS          1000000ull

/* ---- what a seed draws ---- */

struct params {
	uint32_t qps, cpus[SIM_HOSTS], nev, payload, cwnd, budget, hard, segs;
	uint32_t loss, dup, reorder, corrupt, payload_corrupt, ce; /* probabilities a frame */
	uint32_t xmit_fail, db_loss, stall, preempt;  /* probabilities a frame, doorbell, step */
	uint32_t delay, jitter, reorder_by, stall_by; /* ns */
	uint32_t look;                                /* timer period, ns */
	uint32_t tick0;                               /* clock at virtual time 0 */
	uint32_t psn0, msn0;
	uint32_t hole, hole_times; /* the DATA of PSN psn0 + hole is lost so many times */
	uint8_t dup_acks, forge, nak, reset, pinned, cut_cwnd, outage, mono, lonely, stopped;
	uint8_t mix;                /* enum mix */
	uint8_t parts, plain, gone; /* messages in parts, READs answered by an ACK, MRs that go */
	/* receives: entries of a queue, segments of a SEND, what is numbered first, ns */
	uint32_t rq_depth, send_segs, rsn0, rq0, rq_by;
	uint8_t srq, rq_style; /* shared; enum recv_style */
	uint8_t strict, frees,
		overlap; /* in order; but for what is marked free; on the same bytes */
	uint8_t many;    /* several WRITEs in a packet, and small ones for it */
	uint32_t depth;  /* of a send queue */
};

enum mix { MIX_WRITES, MIX_ALL, MIX_READS, MIX_ATOMICS, MIX_SENDS, MIX_EVERY, MIX_COUNT };

/* How an application posts receives. */
enum recv_style {
	RECV_FULL,  /* as many as there is room for */
	RECV_ONE,   /* one at a time */
	RECV_BURST, /* many, and again when all are taken */
	RECV_ANY,   /* now these, now those; polls as it likes */
	RECV_LATE,  /* none for milliseconds */
	RECV_STYLES,
};

/* ---- frames ---- */

enum frame_kind { FRAME_WIRE, FRAME_POST, FRAME_LOOK, FRAME_RESUME, FRAME_FILL, FRAME_GROW };

struct frame {
	union {
		struct weft_hdr h;
		__u64 w[8];
	};
	struct frame *next;
	uint64_t nth;                  /* frames sent before it */
	uint32_t sum;                  /* payload checksum */
	uint32_t qp;                   /* of a doorbell */
	uint16_t len;                  /* payload bytes carried */
	uint8_t kind, host, cpu;       /* where it arrives */
	uint8_t born;                  /* CPU its token lives on */
	uint8_t ttl, hops, ce, marked; /* L3, and what the network did to it */
	uint8_t claimed;               /* FILL: for the PSN in sum */
	uint8_t probe;                 /* goes out though its like was refused */
	uint8_t payload[SIM_PAYLOAD] __attribute__((aligned(8)));
};

/* ---- connections: host `from` writes into host 1 - `from`, and reads there ---- */

/* What memory a request is about; in its remote key, above the generation. */
enum area {
	AREA_TARGET, /* WRITEs go there */
	AREA_STILL,  /* READs: sim_src, which nobody writes */
	AREA_LIVE,   /* READs: the owner writes it meanwhile */
	AREA_WORDS,  /* atomics: of all QPs to a host */
	AREA_RECV,   /* SENDs: wherever a receive says */
};
#define RKEY(gen, area) ((gen) | (uint32_t)(area) << 16)

struct psn_rec { /* what is known of a PSN, by psn - psn0 */
	uint64_t loff, roff;
	uint32_t ssn, moff;
	uint64_t old;   /* of an atomic that was carried out: what the word was */
	uint32_t sent;  /* when it was last claimed, ticks */
	uint32_t since; /* c->written when it was first claimed */
	uint16_t len;
	uint8_t known, placed, last;
	uint8_t dom;         /* and where */
	uint8_t op, end;     /* end: of its work request */
	uint8_t ran;         /* an atomic: carried out */
	uint8_t taking, put; /* its answer is being put into memory; is there */
	uint8_t more, gone;  /* WRITEs that joined it; it has left */
};

struct msg_rec { /* a work request: a message, or part of one */
	uint64_t loff, roff, operand, compare;
	uint64_t least;    /* of FADD: the word was no less when this was posted */
	uint32_t len, end; /* end: records up to its last segment, plus one; 0 not yet cut */
	uint32_t begin;    /* record of the first of its PSNs, whichever segment that is */
	uint32_t cut;      /* segments that have a PSN */
	uint32_t moff, mlen, rkey;
	uint32_t rsn;                          /* number of the receive that it takes */
	uint16_t first;                        /* work request that its message begins with */
	uint8_t bad, sealed, completed, there; /* there: in memory, whatever became of its packet */
	uint8_t again; /* when it arrived, its bytes were being written once more */
	uint8_t op, area, flags;
};

struct msg_end {        /* of each message, by number */
	uint16_t req;   /* its last work request */
	uint16_t quiet; /* how many up to here are no arrivals */
};

struct guarded_tx {
	uint64_t before;
	struct weft_tx tx;
	uint64_t after;
};

struct guarded_rx {
	uint64_t before;
	struct weft_rx rx;
	uint64_t after;
};

struct recv_slot {           /* what is known of an entry of a receive queue */
	struct weft_rqe was; /* as posted; as completed */
	uint32_t len;        /* of the message in it */
	enum { SLOT_FREE, SLOT_POSTED, SLOT_DONE } state;
};

struct recvq {
	struct weft_rq head;
	uint64_t from; /* nothing is posted before */
	uint32_t depth, room, stride, users;
	uint32_t prod, open; /* posted, by the application; and not polled */
	uint8_t *mem;
	struct recv_slot slot[SIM_RQ];
	struct weft_rqe e[SIM_RQ];
};

struct conn {
	struct guarded_tx gtx;
	struct guarded_rx grx;
	struct weft_ring ring;
	struct weft_wqe sq[WEFT_SQ_MAX]; /* of a deep queue: in the rings behind that */
	__u64 keys[WEFT_CHECK_KEYS];
	uint64_t key;
	uint32_t id, gen, qpn, from, psn0, msn0;
	uint32_t conf; /* configured cwnd */
	uint32_t depth;
	uint8_t closed, finished, nak_posted;
	/* the application */
	uint32_t posted, segs_posted, segs_quota, dst_used, loc_used;
	uint32_t msgs, writes;        /* messages posted; of them WRITEs and SENDs */
	uint32_t takes, polled, rsn0; /* those that take a receive; polled, from rsn0 on */
	struct recvq *rq;
	uint32_t last_una, last_done;
	uint32_t clones[WEFT_DOMAINS]; /* started and not yet here; what got lost counts for ever */
	/* the checker */
	uint32_t cut, contig, sealed, completed, naks; /* sealed: of `writes` */
	uint32_t joined;                               /* WRITEs that have no PSN of their own */
	uint32_t got; /* records up to which all is placed, or its answer put into memory */
	uint32_t atomics, atomics_out;
	uint32_t written; /* how often the owner has written a word of `live` */
	uint64_t live[SIM_LIVE];
	uint64_t steps, progress;
	/* receives: taken; what the sender has been told, and may do */
	uint32_t received, epoch, news, refused_psn, asked, probes, probe_at, rnrs;
	uint8_t heard, refused, may_probe;
	uint64_t grace[SIM_HOSTS][SIM_CPUS]; /* frames each CPU must have finished */
	struct psn_rec psn[SIM_SEGS];
	uint8_t tiled
		[SIM_SEGS]; /* has a PSN: a work request's segments, in their order, from its `begin` on */
	struct msg_rec msg[SIM_MSGS];
	struct msg_end ends[SIM_MSGS];
	uint16_t write_end[SIM_MSGS];  /* last work request of each WRITE or SEND */
	uint16_t take_end[SIM_MSGS];   /* and of each that takes a receive */
	uint16_t atomic_psn[SIM_MSGS]; /* record of each atomic */
	uint8_t *dst, *old_dst;        /* target memory; that of the generation before */
	uint8_t *loc;                  /* what READs and atomics bring: behind it */
	uint32_t dst_size, loc_size, old_size;
};

/* ---- hosts ---- */

struct work { /* locals of one frame's run through the program */
	struct conn *c;
	uint32_t gen;
	__u32 now, prod, wnd, psn, dom;
	__u32 cons; /* the request whose ring was looked up */
	__u32 next; /* of the receive window, as it was read */
	enum weft_claim claim;
	enum weft_rx_verdict verdict;
	struct weft_score score;
	struct weft_seg seg;
	struct weft_plain plain; /* between TX_AHEAD and TX_GO */
	__u8 flags;
	uint8_t *target;
	__u64 result;       /* of an atomic */
	uint8_t answer;     /* what a REPLY brought is in memory */
	uint8_t takes, rnr; /* a receive; there is none */
	uint8_t seq;        /* strict order, and it is not the next */
	uint8_t early;      /* what its ACK says was read before the commit: `k` */
	struct weft_rx_sack k;
	uint8_t probe;   /* what is claimed was refused */
	uint8_t nth;     /* of several WRITEs: which is next */
	__u32 at, epoch; /* which; what was posted before the look */
	struct weft_rq_sge sge[WEFT_RQ_SGES];
	/* of an ACK: QP that gets its token; it was the last of its own; tokens that its domain may have yet */
	int hand, last, room;
	uint32_t tries; /* QPs that it has been offered to, and one; 0: no ACK */
};

struct cpu {
	struct frame *head, *tail, *cur;
	uint32_t queued, pc;
	uint64_t served; /* frames finished */
	uint8_t host, id, running;
	struct work w;
};

struct host {
	struct cpu cpu[SIM_CPUS];
	uint32_t cpus;
	int32_t dom_inflight[WEFT_DOMAINS];
	uint32_t wait[WEFT_DOMAINS]; /* QPs that were refused their first token there, bits by id */
	uint32_t turn[WEFT_DOMAINS];
	int32_t active;
};

/* ---- the world ---- */

enum event_kind {
	EVENT_CPU,
	EVENT_ARRIVE,
	EVENT_APP,
	EVENT_TIMER,
	EVENT_CHANGE,
	EVENT_RESET,
	EVENT_RECV
};

struct stats {
	uint64_t seeds, packets, retransmits, acks, naks, lost, corrupted, duplicated, reordered;
	uint64_t doorbells, timeouts, spurious, bytes, messages, dups, busy, out_of_window;
	uint64_t stalls, resets, forged, marked, overflow, refused, events, unsent, full, rescued,
		disowned, bulk, lent, reclaimed, moved, yielded, handed, given_back, deep, held,
		turned;
	uint64_t reads, atomics, in_parts, recalled, forgotten, late, met, plain, gone;
	uint64_t sends, imms, received, rnrs, resumes, probes, again, found, seqs, overtook;
	uint64_t joined, joined_again, in_part;
};

struct atomic_log { /* an atomic that completed */
	uint64_t old, operand, compare;
	uint32_t word; /* of SIM_WORDS, and of the host before */
};

struct world {
	struct params p;
	struct host host[SIM_HOSTS];
	struct conn *conn[SIM_QPS];
	uint64_t now, seed, frames, live_frames;
	uint64_t drop_nth; /* systematic mode: lose this frame, ~0 none */
	uint64_t outage_from, outage_to;
	/* by direction and path, which keeps order unless reordering is drawn */
	uint64_t last_arrival[SIM_HOSTS][WEFT_EV_MAX];
	uint64_t done_at;
	uint32_t lost_tokens, stalls, open, hole_left;
	int failed, verbose;
	char why[256];
	struct stats st;
	__u64 words[SIM_HOSTS][SIM_WORDS];
	uint64_t seen[SIM_HOSTS][SIM_WORDS]; /* what a requester last learnt of them */
	uint64_t unique;                     /* values that CSWAP has put there */
	struct atomic_log log[SIM_SEGS];
	uint32_t logged;
};

extern struct world W;
extern struct stats total;
extern uint8_t sim_src[SIM_SRC];

/* world.c */
void event_at(uint64_t when, enum event_kind kind, uint32_t a, void *p);
int world_run(uint64_t seed, const struct params *p, uint64_t drop_nth);
struct frame *frame_new(void);
void frame_free(struct frame *f);
__u32 ticks_now(void);

/* params.c */
void params_draw(struct params *p);
void params_quiet(struct params *p);
void params_settle(struct params *p);

/* net.c */
void net_send(struct frame *f, uint32_t from_host);
void cpu_enqueue(uint32_t host, uint32_t cpu, struct frame *f);
void doorbell(struct conn *c, enum frame_kind kind);
void net_forge(struct conn *c);

/* host.c */
void cpu_run(struct cpu *cpu);
void frame_seal(struct frame *f, struct conn *c);
uint32_t payload_sum(const struct frame *f);

/* The entry of a request, by its number. */
static inline struct weft_wqe *wqe_of(struct conn *c, __u32 n)
{
	return &c->sq[n & (c->depth - 1)];
}

/* What is posted, and where the next is: read before the lock, in this order. */
static inline void look_ahead(struct work *w)
{
	w->prod = w->c->ring.sq_prod;
	w->cons = w->c->gtx.tx.cons;
}

/* tx_host.c, rx_host.c: one step; returns the next, 0 when the frame is done with */
enum step {
	STEP_END = 0,
	STEP_PARSE,
	TX_AHEAD,
	TX_DISOWN,
	TX_STUCK,
	TX_GO,
	TX_BULK,
	TX_SCORE,
	TX_REPAIR,
	TX_RECHECK,
	TX_JOIN,
	TX_AGAIN,
	TX_FILL,
	TX_FILL_REST,
	TX_LOOK,
	TX_BELL,
	TX_CLONE,
	TX_HAND,
	TX_TAKE,
	TX_PUT,
	TX_PUT_REST,
	TX_RESUME,
	RX_CLAIM,
	RX_CATCH_UP,
	RX_LOOK,
	RX_TAKE,
	RX_KEEP,
	RX_PART,
	RX_TARGET,
	RX_COPY,
	RX_COPY_REST,
	RX_READ,
	RX_READ_REST,
	RX_ATOMIC,
	RX_REMEMBER,
	RX_RECALL,
	RX_RECV,
	RX_REFUSE,
	RX_AGAIN,
	RX_RNR,
	RX_SCATTER,
	RX_SCATTER_REST,
	RX_NOTE,
	RX_RESUME,
	RX_COMMIT,
	RX_ADVANCE,
	RX_REPLY,
};
enum step tx_step(struct cpu *cpu, enum step s);
/* books.c */
void account(struct host *h, uint32_t from, uint32_t freed, uint32_t to, uint32_t claimed);
__u32 window(const struct host *h, const struct weft_tx *tx);
int32_t room_of(const struct host *h, __u32 dom);
void wait_turn(struct host *h, __u32 dom, uint32_t id);
int next_turn(struct host *h, __u32 dom);
__u32 grant(struct host *h, __u32 dom, uint32_t id, __u32 want, int first);
int crowds(const struct host *h, const struct weft_tx *tx, __u32 dom);

struct weft_ack ack_of(const struct cpu *cpu);
enum step rx_step(struct cpu *cpu, enum step s);
enum step reply_nak(struct cpu *cpu, uint32_t code, __u32 psn, __u32 nth);

/* ask_host.c: READs and atomics, of both halves */
enum step ask_step(struct cpu *cpu, enum step s);
enum step ask_claimed(struct cpu *cpu);
uint32_t ask_reply(struct cpu *cpu);
void ask_header(struct frame *f, const struct weft_seg *s);

static inline int is_ask(uint8_t op)
{
	return op >= WEFT_OP_READ && op <= WEFT_OP_CSWAP;
}

static inline int is_request(uint8_t op)
{
	return op == WEFT_OP_DATA || op == WEFT_OP_SEND || op == WEFT_OP_WRITES || is_ask(op);
}

static inline int recv_takes(const struct frame *f)
{
	return f->h.op == WEFT_OP_SEND || (f->h.op == WEFT_OP_DATA && f->h.flags & WEFT_F_IMM);
}

/* recv_host.c: what takes a receive */
enum step recv_step(struct cpu *cpu, enum step s);
void recv_header(struct frame *f, const struct weft_seg *s);
int recv_needed(const struct cpu *cpu);
uint32_t recv_target(struct cpu *cpu);
uint32_t recv_epoch(const struct conn *c);
void timer_look(struct conn *c, __u32 now, struct weft_score *r);

/* recv_app.c: who posts them */
void recv_start(void);
void recv_init(struct conn *c);
void recv_flush(struct conn *c);
void recv_run(uint32_t nth);
void recv_poll(struct conn *c);

/* recv_oracle.c */
void check_received(struct conn *c);                 /* I1, I2, I4 */
void check_polled(struct conn *c, uint32_t rsn);     /* I2 */
void check_idle(const struct recvq *q, uint32_t at); /* I2 */
void check_receives(const struct conn *c);           /* I1, I2, I5, at the end */
void check_bound(const struct conn *c);              /* I2 */
void check_news(struct conn *c, uint32_t epoch);
void check_refused(struct conn *c, const struct weft_ack *a, __u32 now);
int check_blocked(struct conn *c, __u32 psn); /* storm */
void check_rnrs(const struct conn *c);        /* storm, at the end */

/* post.c */
#define MARGIN 2048 /* bytes before and after memory, more than a bad request reaches */
void post_one(struct conn *c);
void post_bad(struct conn *c);

/* oracle.c: what READs and atomics bring, by a model of plain memory */
#define CANARY 0xa5 /* bytes that nobody may write */
#define SEAL   0x5a /* what an application leaves where a message was, once it has taken it */
void live_write(struct conn *c, uint32_t n);
void word_log(const struct conn *c, const struct msg_rec *m, uint64_t old);
void check_take(struct conn *c, __u32 psn, int take, const struct weft_seg *s); /* I2, I12 */
void check_put(struct conn *c, __u32 psn);                                      /* I1, I16 */
void check_result(struct conn *c, struct msg_rec *m);        /* I1, I16: at its completion */
void check_atomic(struct conn *c, const struct weft_seg *s); /* I16: the limit */
void check_run(struct conn *c, __u32 psn, uint64_t old);     /* I16 */
void check_local(const struct conn *c);                      /* I2, I5, at the end */
void check_words(void);                                      /* I16, at the end */

/* app.c */
struct conn *conn_new(uint32_t id, uint32_t from, uint32_t gen);
void conn_free(struct conn *c);
void app_run(struct conn *c);
void app_wake(struct conn *c);
void app_timer(struct conn *c);
void app_change(struct conn *c);
void app_reset(struct conn *c);
void app_done(struct conn *c);

#include "check.h"

/* i2.c, i7.c, i7_recv.c, alone.c, single.c */
int i2_run(int verbose), i7_run(int verbose), i7_recv_run(int verbose), alone_run(int verbose),
	single_run(int verbose);

#endif
