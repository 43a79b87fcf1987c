/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* weft perf: what client and server say to each other, test data, latency histogram. */
#ifndef WEFT_TOOL_PERF_H
#define WEFT_TOOL_PERF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

/*
 * A run has one control QP and then its data QPs. Every connection carries a
 * perf_hello as private data each way. On the control QP both sides WRITE
 * perf_msg into each other's control memory, one at a time: the client asks,
 * the server answers, and weft_qp_arrived() counts them. The data QPs carry
 * nothing but the messages that are measured.
 *
 * Integers are in host order; the magic number shows when hosts differ.
 */
#define PERF_PORT       7471
#define PERF_MAGIC      0x66726570u /* "perf" */
#define PERF_VERSION    4
#define PERF_REGION     (64ull << 20) /* default region, bytes */
#define PERF_REGION_MAX (1ull << 30)
#define PERF_SLOT       512  /* control memory a QP: the peer's message, then ours */
#define PERF_OUT        256  /* where ours is in it */
#define PERF_BATCH      64   /* posted or polled at once */
#define PERF_SESSIONS   64   /* runs at the same time */
#define PERF_RECVS      512  /* receives that are posted for SENDs */
#define PERF_PATIENCE_S 10   /* without any progress */
#define PERF_REFUSED_MS 2000 /* a server that does not listen yet */

enum perf_kind { PERF_CTL = 1, PERF_DATA };

struct perf_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;  /* enum perf_kind */
	uint64_t run;   /* chosen by the client at random */
	uint64_t off;   /* control memory of the sender: where to write, */
	uint32_t key;   /* and its key */
	uint32_t index; /* of a data QP in its run, from 0 */
};

enum perf_op {
	PERF_START = 1, /* allocate the region; the answer has its key */
	PERF_ECHO,      /* latency: answer every message on data QP 0 */
	PERF_VERIFY,    /* compare the region with what the source held */
};

#define PERF_F_LAT    0x1 /* ping-pong */
#define PERF_F_EVENT  0x2 /* the server sleeps between messages */
#define PERF_F_READ   0x4 /* the client READs: the region holds the data of `seed` from the start */
#define PERF_F_SEND   0x8 /* the client SENDs: the server posts receives, see perf_slot() */
#define PERF_F_ATOMIC 0x10 /* the client adds: a counter for each data QP, see PERF_COUNTER */

struct perf_msg {
	uint32_t op;    /* enum perf_op */
	int32_t err;    /* answer: 0 or -errno; VERIFY: 1 when the bytes differ */
	uint32_t flags; /* PERF_F_* */
	uint32_t qps;
	uint64_t size;    /* of a message */
	uint64_t region;  /* bytes in the region */
	uint64_t slots;   /* messages that fit into it */
	uint64_t seed;    /* of the test data */
	uint64_t covered; /* VERIFY: bytes written with it, or messages sent; behind them */
	uint64_t rest;    /* is the data of this seed, zeros if it is 0 */
	uint64_t bad;     /* VERIFY: offset of the first wrong byte */
	uint32_t key;     /* START: of the client's region; answer: of the server's */
	uint32_t skip;    /* ECHO: messages on data QP 0 before those to be answered */
	char text[96];    /* answer: what went wrong */
};

_Static_assert(sizeof(struct perf_hello) <= WEFT_PRIVATE_MAX, "private data");
_Static_assert(sizeof(struct perf_msg) <= PERF_OUT, "control memory");

extern atomic_int perf_stop; /* SIGINT, SIGTERM */
void perf_signals(void);
void perf_files(void);   /* as many descriptors as may be: every QP has one */
uint64_t perf_now(void); /* ns */

/* Test data: word i of the region is a hash of seed and i. */
void perf_fill(void *mem, uint64_t len, uint64_t seed);
/*
 * Returns the offset of the first byte that is not what it should be, or len: up to
 * `covered` the data of seed, then that of rest, or zeros if rest is 0.
 */
uint64_t perf_compare(const void *mem, uint64_t len, uint64_t covered, uint64_t seed,
		      uint64_t rest);

/*
 * Where message j of data QP `index` goes when messages are SENDs: the server has to know without being
 * told. With one QP as those of a WRITE.
 */
static inline uint64_t perf_slot(uint64_t j, unsigned index, unsigned qps, uint64_t slots)
{
	return (j * qps + index) % slots;
}

/* Atomics: where the counter of a data QP is, and at the client where what they return is put. */
#define PERF_COUNTER(index)   ((uint64_t)(index)*64)
#define PERF_RESULT(index, j) (((uint64_t)(index)*WEFT_DEPTH + (j) % WEFT_DEPTH) * 8)
#define PERF_ATOMIC_REGION(qps) \
	(256u << 10 > PERF_RESULT(qps, 0) ? 256u << 10 : PERF_RESULT(qps, 0))

/* Latency in log buckets, 128 in each power of two: at most 0.8% off. Values in ns. */
struct perf_hist {
	uint64_t n, min, max;
	uint64_t bucket[58 * 128];
};
void perf_hist_add(struct perf_hist *h, uint64_t ns);
double perf_hist_at(const struct perf_hist *h, double quantile);

/* ---- the client, perf_write.c, perf_post.c and perf_run.c ---- */

int perf_client(int argc, char **argv, enum weft_wr_op op);

#define PERF_SMALL 4096 /* bytes of a message up to which its completion is polled for */

struct perf_lane { /* one data QP */
	struct weft_qp *qp;
	unsigned index;
	unsigned out;    /* posted, not polled */
	uint64_t posted; /* ever */
	uint64_t done;   /* of those, complete: also what had no completion of its own */
	uint64_t sum;    /* atomics: of what they returned */
};

struct perf_run {
	/* what is asked */
	const char *dev, *peer;
	uint64_t size, count, region;
	double time;
	unsigned qps, evs, depth, cwnd;
	unsigned cq_mod; /* one message in so many has a completion */
	bool lat, event, verify, poll;
	bool strict;
	enum weft_wr_op op; /* WRITE, READ, SEND; FETCH_ADD */
	/* connection */
	struct weft_dev *wd;
	struct weft_cq *cq; /* of the data QPs */
	struct weft_qp *ctl;
	uint8_t *ctl_mem;
	struct weft_mr *ctl_mr;
	struct perf_hello srv;
	uint64_t id, seed, rest; /* rest: see perf_msg */
	uint32_t answers;
	struct perf_lane *lane;
	unsigned lanes;
	uint8_t *mem; /* source; of READs the target */
	struct weft_mr *mr;
	uint8_t *pong; /* latency: where answers go */
	struct weft_mr *pong_mr;
	uint32_t rkey;
	uint32_t
		pongs; /* answers that were SENT: those that have come, and receives posted for them */
	uint32_t pong_recvs;
	uint64_t slots; /* messages that fit into the region */
	/* result */
	uint64_t posted; /* also those after the interval */
	uint64_t messages, errors;
	uint64_t moved;         /* packets, when last asked */
	uint64_t sleeps, spins; /* bandwidth: waits on the descriptor; polls that found nothing */
	enum weft_wc_status first_error;
	double seconds, cpu_s;
	struct perf_hist *hist; /* round trips */
	int verified;           /* -1: not asked */
	uint64_t packets, retransmits;
	uint64_t rnrs; /* times that the peer had no receive: what was refused is sent again */
	unsigned payload, cwnd_used, evs_used;
	bool csum;
};

/* What comes back is the answer: nobody at the server takes part. */
static inline bool perf_pulls(const struct perf_run *r)
{
	return r->op == WEFT_WR_READ || r->op == WEFT_WR_FETCH_ADD;
}

/* Messages that a QP may post in its turn. */
static inline unsigned perf_turn(const struct perf_run *r)
{
	return r->lanes < PERF_BATCH ? PERF_BATCH / r->lanes : 1;
}

/* "READ", and in small letters "read" */
const char *perf_verb(const struct perf_run *r, bool capital);
uint32_t perf_flag(const struct perf_run *r); /* PERF_F_* of it */
/* Post n messages, PERF_BATCH at most. How many were, or -errno. */
int perf_post(struct perf_run *r, struct perf_lane *l, unsigned n);
/* Post receives for answers, as many as the queue holds. 0 or -errno. */
int perf_post_pongs(struct perf_run *r, struct weft_qp *qp);
/* One question to the server, one answer, in *m. 0, or an exit status after a message. */
int perf_ask(struct perf_run *r, struct perf_msg *m);
/* All bytes are what they should be; every atomic was carried out once. Likewise. */
int perf_verify(struct perf_run *r);
/* What to do about a QP's end, in words. */
const char *perf_remedy(const struct perf_run *r, enum weft_wc_status status);
/* Before a latency run: the server's whole region is written, in *n messages. 0, or CLI_FAIL. */
int perf_prefill(struct perf_run *r, unsigned *n);
/* The measured parts. 0, or CLI_FAIL after a message. */
int perf_run_bw(struct perf_run *r);
int perf_run_lat(struct perf_run *r);

/* The QPs' counters and settings into *r; the report. */
void perf_gather(struct perf_run *r);
int perf_report(const struct perf_run *r);

#endif
