/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Map keys and values that bpf/ and user/ share. Change a layout, raise WEFT_ABI. */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <weft/core/check.h>
#include <weft/core/hist.h>
#include <weft/core/ring.h>
#include <weft/core/trace.h>
#include <weft/wire.h>

/* An enum, for the BTF of every object: it tells who finds a program loaded what that speaks. */
enum weft_abi_version {
	WEFT_ABI = 11,
};

/* Registered memory: chunks of mmapable array maps. */
#define WEFT_CHUNK_SHIFT 21
#define WEFT_CHUNK       (1u << WEFT_CHUNK_SHIFT)
#define WEFT_POOLS       1024                               /* pools a device holds */
#define WEFT_POOL_MAX    (WEFT_MSG_MAX >> WEFT_CHUNK_SHIFT) /* chunks in a pool: 1 GiB */

#define WEFT_MRS         4096 /* MRs a device holds */
#define WEFT_QPS         256  /* QPs a device holds, unless it is brought up for another number */
#define WEFT_QPS_MAX     2048 /* at most */
#define WEFT_PROCS       64   /* processes that use a device */
#define WEFT_PROC_QPS    64   /* QPs a process holds on a device, unless it asks for more */
#define WEFT_PROC_MAX    1024 /* and asks for at most */
#define WEFT_CQS         2048 /* CQs a device holds */
#define WEFT_RQS         2048 /* receive queues a device holds */
#define WEFT_EVENTS_LEN  4096 /* bytes of a CQ's ring buffer */
#define WEFT_SPAWN_MAX   64   /* frames a doorbell makes at most */

/* ---- device ---- */

#define WEFT_DEV_CSUM4   0x1   /* UDP checksum over the whole packet on IPv4 too */
#define WEFT_DEV_PERSIST 0x2   /* `weft up`: stays without users */
#define WEFT_DEV_DOWN    0x4   /* being taken down */
#define WEFT_DEV_NO_TELE 0x8   /* no histograms */
#define WEFT_DEV_CAPTURE 0x10  /* copies of packets go to the map `capture` */
#define WEFT_DEV_SHARED  0x20  /* weft itself joined libxdp's dispatcher, and leaves it */
#define WEFT_DEV_USED    0x40  /* with abi 0: it was in use, and its maps are not as new */
#define WEFT_DEV_FEW_TX  0x80  /* CPUs must share transmit queues */
#define WEFT_DEV_SERVED  0x100 /* processes use it by way of weftd: stays while they live */
#define WEFT_DEV_KEEP    (WEFT_DEV_PERSIST | WEFT_DEV_SERVED)

struct weft_devcfg {               /* map devcfg[0], written by the control plane */
	enum weft_abi_version abi; /* WEFT_ABI; 0: only loaded, nobody has set it up */
	__u32 ifindex;
	__u32 flags;   /* WEFT_DEV_* */
	__u32 payload; /* largest payload the interface carries, bytes */
	__u32 mtu;     /* of the interface when it was attached */
	__u16 port;    /* UDP destination port, host order */
	__u16 queues; /* receive queues a CPU number is reduced by (veth); 0: every CPU for itself */
	__u32 budget;     /* tokens a domain may have out before QPs must share */
	__u32 hard;       /* tokens a domain may have when a QP without any asks for its first */
	__u32 domains;    /* domains in use, 1 to WEFT_DOMAINS */
	__u32 db_ifindex; /* doorbell tap */
	__u64 cpus;       /* CPUs that may hold tokens (bit per CPU, modulo 64) */
	__u32 qps;        /* that it holds: entries of its QP maps */
	__u32 pad;
};

struct weft_devrun {  /* map devrun[0], written by XDP with atomics */
	__u32 active; /* QPs that have tokens out */
	__u32 pad[15];
	struct {
		__s32 inflight; /* tokens out of the device in this domain */
		__u32 turn;     /* where the search among those that wait goes on */
		__u32 any;      /* words of `wait` in which a bit is set, or has been */
		__u32 pad[13];
		/* QPs that have no token and were refused one, a bit a slot: they get others' */
		__u64 wait[WEFT_QPS_MAX / 64];
	} dom[WEFT_DOMAINS];
};

struct weft_owners { /* map owners[0]: control plane only; process slot + 1, 0: free */
	__u32 pool[WEFT_POOLS];
	__u32 chunks[WEFT_POOLS]; /* of that pool */
	__u32 cq[WEFT_CQS];
	__u32 rq[WEFT_RQS];
	__u32 rq_mask[WEFT_RQS]; /* of that queue: entries - 1 */
	struct weft_owner {      /* a process slot's; valid while its directory is locked */
		__u32 uid, pid;
		__u32 rings; /* QPs it can hold */
		__u32 pad;
		__u64 token[2]; /* weftd's: who knows it is that process; 0: no client of weftd */
	} proc[WEFT_PROCS];
};

/* ---- memory ---- */

/* Rights; the values are those of weft.h. */
#define WEFT_ACCESS_LOCAL         0x1 /* source of what is sent */
#define WEFT_ACCESS_REMOTE_WRITE  0x2
#define WEFT_ACCESS_LOCAL_WRITE   0x4 /* target of own READs, RECEIVEs, results of atomics */
#define WEFT_ACCESS_REMOTE_READ   0x8
#define WEFT_ACCESS_REMOTE_ATOMIC 0x10
#define WEFT_ACCESS_ALL           0x1f

/* Key: index in the table | generation << 12. */
#define WEFT_KEY_IDX(key)         ((key) & (WEFT_MRS - 1))
#define WEFT_KEY(idx, gen)        ((idx) | (__u32)(gen) << 12)

struct weft_mr_ent { /* map mrs[index], written by the control plane */
	__u32 key;   /* 0: free */
	__u32 pool;
	__u64 off; /* of the region, in the pool */
	__u64 len; /* bytes */
	__u32 pd;
	__u32 rights; /* WEFT_ACCESS_* */
	__u32 owner;  /* process slot + 1 */
	__u16 mode;   /* enum weft_mr_mode of weft.h: for those who look */
	__u16 of;     /* a window: index of its region + 1 */
};

/* ---- queue pairs ---- */

enum weft_qp_state {
	WEFT_QP_FREE = 0,
	WEFT_QP_INIT, /* allocated, not connected */
	WEFT_QP_RTS,
	WEFT_QP_ERR,
	WEFT_QP_CLOSED, /* waits for its grace period */
};

#define WEFT_QPN(slot, gen) ((slot) | (__u32)(gen) << 16)
#define WEFT_QPN_SLOT(qpn)  (0xffff & (qpn))

#define WEFT_QPF_V6         0x1
#define WEFT_QPF_CSUM       0x2  /* UDP checksum on everything this QP sends */
#define WEFT_QPF_SRQ        0x4  /* its receive queue is shared */
#define WEFT_QPF_STRICT     0x8  /* requests are carried out in their order only */
#define WEFT_QPF_MANY       0x10 /* both sides put several WRITEs in a packet */

struct weft_qpctl {  /* map qpctl[slot], written by the control plane, read by XDP */
	__u32 state; /* enum weft_qp_state */
	__u32 qpn;   /* own number, with generation */
	__u32 dqpn;  /* the peer's */
	__u32 flags; /* WEFT_QPF_* */
	__u32 owner; /* process slot */
	__u32 ring;  /* index in the process's rings, the first of them if it has several */
	__u32 pd;
	__u32 cq;                    /* index of the CQ for events */
	__u32 cwnd;                  /* configured, packets; 0: default */
	__u32 payload;               /* bytes in a full segment on this path */
	__u64 conn;                  /* connection key */
	__u64 hkey[WEFT_CHECK_KEYS]; /* header check keys */
	__u32 saddr[4], daddr[4];    /* network order; IPv4 in [0] */
	__u8 tmpl[64];               /* Ethernet to UDP as sent, lengths and checksums 0 */
	__u32 ipsum;                 /* IPv4: unfolded sum of the template's IP header */
	__u32 nev;                   /* entropy values */
	__u32 doms; /* domains that may hold tokens (bit each); 0: only where the doorbell rings */
	__u8 cpu_of[WEFT_DOMAINS]; /* a CPU of each of them */
	__u32 asked;               /* packets: cwnd, had its owner no share to keep to */
	__u32 rq;                  /* index of its receive queue + 1; 0: it has none */
	__u32 rq_mask;             /* entries of that - 1 */
	__u32 sq_mask;             /* of its send queue - 1; WEFT_SQ_DEPTH in each ring */
	__u32 pad;
	__u64 created; /* CLOCK_MONOTONIC, ns */
};

struct weft_qptx { /* map qptx[slot]: sending side */
	struct bpf_spin_lock lock;
	__u32 pad;
	struct weft_tx tx;
} __attribute__((aligned(64)));

struct weft_qprx { /* map qprx[slot]: receiving side */
	struct bpf_spin_lock lock;
	__u32 pad;
	struct weft_rx rx;
} __attribute__((aligned(64)));

/* ---- telemetry ---- */

/* Whose events these are. All 0: of a QP that never was connected. */
struct weft_tele_id { /* written by the control plane */
	__u32 qpn, dqpn;
	__u32 flags; /* WEFT_QPF_* */
	__u32 pid;
	__u32 saddr[4], daddr[4];       /* as in weft_qpctl */
	__u64 connected, failed, ended; /* CLOCK_MONOTONIC, ns; 0: not (yet) */
	__u32 cwnd;                     /* configured, as last noted */
	__u32 status;                   /* with `failed`: enum weft_wc_status */
};

/*
 * A QP's. It stays after the QP's end, until the slot is taken again; then its
 * times are added to the device's, and what failed is copied there. CPUs share
 * lanes by their number, so that as a rule no two write the same cache line.
 */
#define WEFT_TELE_LANES 2

struct weft_tele { /* map qptele[slot] */
	struct {
		__u64 rx_bytes; /* payload placed */
		__u32 last_ack; /* when, wire ticks */
		__u32 pad[13];
	} lane[WEFT_TELE_LANES];
	struct weft_hist rtt
		[WEFT_TELE_LANES]; /* of ACKs that complete something, and of one in 8 of the others */
	struct weft_hist lat;      /* from posting to completion, of every WRITE */
	struct weft_tele_id id;
	__u32 first; /* an ACK has come */
	__u32 pad[11];
	struct weft_trace trace;
	__u32 pad1[14];
} __attribute__((aligned(64)));

#define WEFT_TELE_PAST 32 /* failed QPs that are remembered */

struct weft_tele_past {
	struct weft_tele_id id;
	__u32 last_ack;
	__u32 pad;
	struct weft_trace trace;
};

struct weft_devtele { /* map devtele[0], written by the control plane under the tables' lock */
	struct weft_hist rtt, lat; /* of QPs whose slots have other QPs now */
	__u32 npast;               /* ever */
	__u32 seq;                 /* odd: being written, read again */
	struct weft_tele_past past[WEFT_TELE_PAST];
};

/* ---- doorbells and unfilled frames ---- */

#define WEFT_DB_ETHERTYPE 0x88b5 /* IEEE 802 local experimental: stays inside the host */
#define WEFT_DB_MAGIC     0x77656674u

enum weft_db_op {
	WEFT_DB_POST = 1, /* work was posted */
	WEFT_DB_LOOK,     /* the timer asks whether an RTO has passed */
	WEFT_DB_FILL,     /* XDP to itself: devmap entry, fill this clone */
	WEFT_DB_GROW,     /* XDP to itself: another CPU may start tokens */
	WEFT_DB_ASK, /* XDP to itself: devmap entry, answer the request behind this in this clone */
	WEFT_DB_RESUME, /* receives were posted, and the peer waits for them */
};

struct weft_db { /* behind an Ethernet header */
	__u32 magic;
	__u32 op; /* enum weft_db_op */
	__u32 qpn;
	__u32 psn;     /* FILL with claimed set: the PSN to send */
	__u32 claimed; /* ASK: the request arrived with CE */
};

/* ---- events ---- */

struct weft_event { /* ring buffer record */
	__u32 qpn;
	__u32 kind; /* WEFT_EVENT_* */
};
#define WEFT_EVENT_TX 1 /* completions, or an error */
#define WEFT_EVENT_RX 2 /* arrivals, or an error */

/* ---- counters ---- */

/* Every packet that is not accepted raises exactly one of these. */
#define WEFT_DROPS(X)                                                     \
	X(truncated, "shorter than its headers say")                      \
	X(version, "wire version is not ours")                            \
	X(opcode, "unknown opcode")                                       \
	X(length, "payload length does not fit opcode, frame or message") \
	X(qpn, "no such QP")                                              \
	X(generation, "stale QP generation")                              \
	X(source, "source address is not the peer's")                     \
	X(conn, "connection key is wrong")                                \
	X(check, "header check failed")                                   \
	X(csum, "UDP checksum failed")                                    \
	X(closed, "QP is closed or in error")                             \
	X(owner, "owner of the QP is dead")                               \
	X(key, "remote key is not valid")                                 \
	X(bounds, "outside the memory region")                            \
	X(rights, "memory region does not allow it")                      \
	X(pd, "memory region is in another protection domain")            \
	X(memory, "memory pool is gone")                                  \
	X(window, "PSN outside the receive window")                       \
	X(busy, "duplicate of a packet that is being placed")             \
	X(unsent, "acknowledges what was never sent")                     \
	X(reply, "frame could not be turned into its reply")              \
	X(doorbell, "doorbell is malformed or names no QP")               \
	X(template, "clone that found nothing left to send")              \
	X(fill, "frame could not be filled after its claim")

/* clang-format off */
enum weft_drop {
#define X(name, text) WEFT_DROP_##name,
	WEFT_DROPS(X)
#undef X
	WEFT_DROP_COUNT,
};
/* clang-format on */

/* What happened otherwise. Each text stands alone: weft metrics has it as help. */
#define WEFT_COUNTS(X)                                                 \
	X(rx_data, "DATA, WRITES and SEND placed")                     \
	X(rx_writes, "WRITES placed: several WRITEs in one packet")    \
	X(rx_bytes, "payload bytes placed")                            \
	X(rx_dup, "DATA, SEND and atomics answered again")             \
	X(rx_ce, "requests that arrived with CE")                      \
	X(rx_ask, "READ and atomic carried out for the peer")          \
	X(rx_reply, "answers to own READ and atomic, put into memory") \
	X(rx_ack, "ACK, REPLY, RNR and SEQ scored")                    \
	X(rx_nak, "NAK received")                                      \
	X(rx_rnr, "RNR scored: the peer had no receive")               \
	X(rx_seq, "SEQ scored: not the next, in strict order")         \
	X(rx_resume, "RESUME received")                                \
	X(tx_data, "DATA, WRITES and SEND sent")                       \
	X(tx_writes, "WRITES sent: several WRITEs in one packet")      \
	X(tx_retx, "requests of any kind sent again")                  \
	X(tx_ask, "READ and atomic sent")                              \
	X(tx_ack, "ACK and REPLY sent")                                \
	X(tx_nak, "NAK sent")                                          \
	X(tx_rnr, "RNR sent: no receive was posted")                   \
	X(tx_resume, "RESUME sent")                                    \
	X(tx_seq, "SEQ sent: not the next, in strict order")           \
	X(lost, "packets convicted as lost")                           \
	X(timeout, "looks that found an RTO passed")                   \
	X(absorbed, "tokens absorbed: nothing to send or window full") \
	X(surplus, "tokens that were not expected back")               \
	X(doorbell, "doorbells handled")                               \
	X(spawned, "frames asked for by replication")                  \
	X(inplace, "messages sent in the doorbell's own frame")        \
	X(moved, "tokens started on another CPU")                      \
	X(handed, "tokens given to a QP that waited for its first")    \
	X(regrown, "frames too small for what is next, replaced")      \
	X(event, "events sent to sleeping applications")

/* clang-format off */
enum weft_count {
#define X(name, text) WEFT_COUNT_##name,
	WEFT_COUNTS(X)
#undef X
	WEFT_COUNT_COUNT,
};
/* clang-format on */

struct weft_stats { /* per-CPU map stats[0]; field names show in bpftool */
	struct {
#define X(name, text) __u64 name;
		WEFT_DROPS(X)
#undef X
	} drop;
	struct {
#define X(name, text) __u64 name;
		WEFT_COUNTS(X)
#undef X
	} count;
};

_Static_assert(sizeof(struct weft_wqe) == 64, "send queue entry");
_Static_assert(sizeof(struct weft_tx_slot) == 16, "slot");
_Static_assert(sizeof(struct weft_ring) == 320 + 64 * WEFT_SQ_DEPTH + 4 * WEFT_RQ_BIND, "ring");
_Static_assert(sizeof(struct weft_mr_ent) == 40, "mr");
_Static_assert(sizeof(struct weft_rq) == sizeof(struct weft_rqe), "elements of a receive queue");
_Static_assert(sizeof(struct weft_devcfg) == 56, "devcfg");
_Static_assert(sizeof(struct weft_devrun) == 64 + (64 + WEFT_QPS_MAX / 8) * WEFT_DOMAINS, "devrun");
_Static_assert(WEFT_QPS_MAX / 64 == 32, "a bit in `any` for each word of `wait`");
_Static_assert(sizeof(struct weft_db) == 20, "doorbell");
_Static_assert(sizeof(struct weft_tele_id) == 80, "telemetry");
#define LINE_OF(type, field) \
	_Static_assert(offsetof(type, field) % 64 == 0, #field " begins a cache line")
LINE_OF(struct weft_qptx, tx.payload);
LINE_OF(struct weft_qptx, tx.err_info);
LINE_OF(struct weft_qptx, tx.delivered);
LINE_OF(struct weft_qptx, tx.dom);
LINE_OF(struct weft_qptx, tx.slot);
LINE_OF(struct weft_qptx, tx.wqe);
LINE_OF(struct weft_qprx, rx.word);
LINE_OF(struct weft_tele, id);
LINE_OF(struct weft_tele, trace);
#undef LINE_OF
_Static_assert(sizeof(struct weft_stats) == 8 * (WEFT_DROP_COUNT + WEFT_COUNT_COUNT), "stats");

#endif
