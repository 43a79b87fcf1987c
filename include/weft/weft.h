/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libweft: one-sided RDMA through XDP. The public interface. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Conventions
 *
 * Functions return 0 or -errno unless they say otherwise. Handles are opaque;
 * whoever creates one destroys it, children before parents; to destroy NULL does
 * nothing. Option structs
 * start with their size (set it with WEFT_OPTS; -EINVAL without); NULL means all
 * defaults, and a field left 0 means its default.
 *
 * Threads: different QPs, CQs and MRs may be used from different threads at the
 * same time. One QP may be posted to by one thread at a time, one CQ polled by
 * one thread at a time; creating and destroying is safe from any thread.
 *
 * Fork: memory and rings are not inherited; of adopted memory the child has a
 * copy. A child that does not exec keeps the process's resources alive for its
 * peers as long as it runs.
 *
 * When data has arrived: weft_qp_arrived() counts the peer's messages that are
 * wholly in memory, in posting order. When it has reached n, every byte of the
 * first n WRITEs that the peer posted on this QP is in place and will not be
 * written again by them. Nothing else about the order in which bytes appear is
 * promised; a receiver that polls the last byte of a message may see it before
 * the others.
 */
#ifndef __cplusplus /* C++ has no address of a compound literal: set .size by hand */
#define WEFT_OPTS(type, ...) (&(type){ .size = sizeof(type), __VA_ARGS__ })
#endif

struct weft_dev; /* an interface that weft runs on, as this process sees it */
struct weft_pd;  /* protection domain */
struct weft_mr;  /* registered memory */
struct weft_cq;  /* completion queue */
struct weft_listener;
struct weft_srq; /* receive queue that QPs share */
struct weft_qp;  /* one connection */

/* ---- log ---- */

enum weft_log_level { WEFT_LOG_ERR, WEFT_LOG_WARN, WEFT_LOG_INFO, WEFT_LOG_DEBUG };

/*
 * fn receives one line without a newline: "OBJECT: what happened; remedy". It
 * may be called from any thread. NULL (the default): nothing is said. The text
 * of the last error of the calling thread is in weft_strerror_last() as well.
 */
typedef void (*weft_log_fn)(void *arg, enum weft_log_level level, const char *line);
void weft_set_log(weft_log_fn fn, void *arg, enum weft_log_level max);

/*
 * The last error of this thread as one line, "" if there was none: every call that
 * returns an error leaves its own. Valid until the next call.
 */
const char *weft_strerror_last(void);

/* ---- device ---- */

struct weft_open_opts {
	size_t size;
	const char *netns; /* name under /run/netns, or a path; NULL: the caller's */
	/* Who attaches decides on these; to join who has decided otherwise is -EBUSY. */
	uint16_t port;   /* UDP port, 1 to 65535 but not 4791; 0: 4793, or what it is already */
	uint8_t csum;    /* 1: UDP checksum on IPv4 as well (IPv6 always); 0: off, or what it is */
	uint8_t persist; /* 1: stays attached without users, until weft_down() */
	uint8_t no_telemetry; /* 1: no latency histograms; 0: there are, or what it is already */
	/*
	 * Path of the socket of weftd, which does for this process what needs privilege;
	 * "": never. NULL: as the environment says, else /run/weft/weftd.sock for a process
	 * that is not root. weftd decides on port, csum, persist and no_telemetry.
	 */
	const char *daemon;
	/*
	 * QPs that this process can hold, 1 to 1024 or WEFT_QPS_ALL: as many as the device; 0: 64. Each
	 * costs 18 KB at once, connected or not.
	 */
	uint16_t qps;
	/*
	 * QPs that the device can hold, of all processes, 1 to 2048; 0: 256, or as many as this process
	 * asks for, or as many as it is already. Each costs 43 KB. Who attaches decides: to join a
	 * device of fewer is -EBUSY. weftd decides for its own.
	 */
	uint16_t device_qps;
};
#define WEFT_QPS_ALL UINT16_MAX

/*
 * Open interface `ifname`: attach the XDP programs if nobody has, else join
 * those who have. Needs root or weftd(8). Errors: -ENODEV no such interface, -EOPNOTSUPP no
 * native XDP, -EBUSY another XDP program is attached without libxdp's dispatcher, or
 * weft with other options, or somebody else's interface has the doorbell's name,
 * -EPERM neither root nor weftd, or weftd refuses, -ESTALE pins of another ABI, -ENOSPC 64 processes
 * use it, -EDQUOT more than weftd allows, -ENOMEM.
 */
int weft_open(const char *ifname, const struct weft_open_opts *opts, struct weft_dev **dev);

/* Close; destroys what is left of its QPs, MRs and memory. The last user detaches the programs. */
void weft_close(struct weft_dev *dev);

/* Remove everything weft has put on the interface, used or not. -ENOENT: nothing there. */
int weft_down(const char *ifname, const struct weft_open_opts *opts);

/* ---- memory ---- */

/*
 * Allocate len bytes (1 to 1 GiB) that XDP can reach, zeroed, aligned to 64
 * bytes. Reachable by nobody until registered. Creation takes about 2 s a GiB:
 * allocate in bulk, once. -ENOMEM, -EINVAL, -ENOSPC pool table full.
 */
int weft_alloc(struct weft_dev *dev, size_t len, void **addr);

/* Free; NULL is nothing to do. -EBUSY while an MR covers any of it, -EINVAL when addr is not from weft_alloc(). */
int weft_free(struct weft_dev *dev, void *addr);

/* A protection domain: QPs reach only the MRs of their own. NULL stands for the process's first. */
int weft_pd_alloc(struct weft_dev *dev, struct weft_pd **pd);
int weft_pd_free(struct weft_pd *pd); /* -EBUSY while used */

/* Rights. A process reads and writes its own memory as it likes; these are about the QPs of its PD. */
#define WEFT_LOCAL         0x1  /* may be the source of what is sent */
#define WEFT_REMOTE_WRITE  0x2  /* peers may WRITE it */
#define WEFT_LOCAL_WRITE   0x4  /* may be where received and fetched bytes are put */
#define WEFT_REMOTE_READ   0x8  /* peers may READ it */
#define WEFT_REMOTE_ATOMIC 0x10 /* peers may do atomic operations in it */

/*
 * How a region becomes reachable, which weft_mr_mode() tells: it lies in weft_alloc() (nothing is
 * to be done); or it is adopted: its pages, and so what else lies in them, become pages of weft, in
 * place, with their contents, while other threads go on; or it is staged: there is a copy, which peers
 * reach, and weft_mr_sync() copies. Deregistration makes adopted memory private again.
 */
#define WEFT_ADOPT         0x100 /* adopt private anonymous memory */
#define WEFT_ADOPT_HEAP    0x300 /* also what malloc() owns; not to be freed while registered */
#define WEFT_STAGE         0x400 /* stage what can be reached in no other way */

enum weft_mr_mode { WEFT_MR_ALLOC, WEFT_MR_ADOPT, WEFT_MR_STAGE };

/*
 * Register [addr, addr + len), 1 byte to 1 GiB. access: rights, and WEFT_ADOPT and WEFT_STAGE when
 * it need not be inside one weft_alloc(). -EINVAL bounds, access; -EFAULT not mapped; -EACCES not
 * readable or writable; -EPERM malloc() owns it; -EBUSY some of its pages are another region's;
 * -EOPNOTSUPP it cannot be adopted; -ENOSPC table full; -ENOMEM. With WEFT_STAGE none of those that
 * are about adoption.
 */
int weft_mr_reg(struct weft_dev *dev, struct weft_pd *pd, void *addr, size_t len, unsigned access,
		struct weft_mr **mr);

/*
 * For memory that the processor does not reach by loads and stores: functions that copy, from `off`
 * of the region to `to`, and from `from` to `off`. 0 or -errno. Called by the thread that posts or syncs.
 */
typedef int (*weft_copy_in_fn)(void *arg, void *to, uint64_t off, size_t len);
typedef int (*weft_copy_out_fn)(void *arg, uint64_t off, const void *from, size_t len);
struct weft_stage_copy {
	weft_copy_in_fn in;
	weft_copy_out_fn out;
	void *arg;
};

struct weft_mr_range {
	void *addr; /* with copy: not touched */
	size_t len;
	unsigned access;
	const struct weft_stage_copy *copy; /* staged, by these; NULL: by memcpy() */
};

/*
 * n regions at once, or none. Those that share pages are adopted together, which one call after the
 * other cannot do (-EBUSY).
 */
int weft_mr_reg_many(struct weft_dev *dev, struct weft_pd *pd, const struct weft_mr_range *range,
		     int n, struct weft_mr **mr);

/*
 * A window: a key of its own for [off, off + len) of a region, with some of its rights. It is a region
 * too, revoked by weft_mr_dereg(). -EINVAL bounds, rights, or mr is a window itself; -ENOSPC.
 */
int weft_mr_window(struct weft_mr *mr, uint64_t off, size_t len, unsigned access,
		   struct weft_mr **window);

/*
 * Revoke. When it returns, no packet of any peer reaches the memory any more (8 to 30 ms). -EBUSY:
 * it has windows. Staged memory is not copied out.
 */
int weft_mr_dereg(struct weft_mr *mr);
/* All or none, in one grace period; windows and what they are of in any order. NULLs are skipped. */
int weft_mr_dereg_many(struct weft_mr *const *mr, int n);

/*
 * Between the memory of a staged region and the copy that peers reach; does nothing for others. IN:
 * peers see it. OUT: what peers wrote comes into the memory. Posting copies in what it sends, and polling copies
 * out what READs and atomics brought, by themselves; of receives that is yours to do.
 * -EINVAL bounds, or what the region's function returned.
 */
#define WEFT_SYNC_IN  1
#define WEFT_SYNC_OUT 2
int weft_mr_sync(struct weft_mr *mr, uint64_t off, size_t len, int way);

uint32_t weft_mr_key(const struct weft_mr *mr); /* what a peer needs to reach it */
void *weft_mr_addr(const struct weft_mr *mr);
size_t weft_mr_len(const struct weft_mr *mr);
enum weft_mr_mode weft_mr_mode(const struct weft_mr *mr);
const char *weft_mr_mode_str(enum weft_mr_mode mode); /* "alloc", "adopt", "stage" */
/* Where peers' bytes appear: the region itself, or the copy of a staged one. */
void *weft_mr_view(const struct weft_mr *mr);

/* ---- completions ---- */

enum weft_wc_status {
	WEFT_WC_SUCCESS = 0,
	WEFT_WC_LOC_PROT_ERR,   /* local key, bounds or rights */
	WEFT_WC_REM_ACCESS_ERR, /* the peer refused key, bounds, rights or PD */
	WEFT_WC_REM_CLOSED_ERR, /* the peer closed, or its process died */
	WEFT_WC_RETRY_EXC_ERR, /* no answer within timeout_ms, retry_cnt or idle_ms: path or peer gone */
	WEFT_WC_DEV_ERR,       /* the local interface went down, moved or vanished */
	WEFT_WC_FLUSH_ERR, /* not acknowledged when another error stopped the QP */
	WEFT_WC_GENERAL_ERR, /* also: we refused a WRITE of the peer, which ends the QP on both sides */
	WEFT_WC_REM_INV_REQ_ERR,   /* SEND: longer than the receive of the peer's that it took */
	WEFT_WC_REM_OP_ERR,        /* SEND: that receive names memory that it may not */
	WEFT_WC_LOC_LEN_ERR,       /* receive: the peer's message was longer */
	WEFT_WC_RNR_RETRY_EXC_ERR, /* the peer posted no receive, see rnr_retries */
};
const char *weft_wc_str(enum weft_wc_status status);

/* What a QP can be asked to do. */
enum weft_wr_op {
	WEFT_WR_WRITE,     /* local memory to the peer's */
	WEFT_WR_READ,      /* the peer's memory to local memory */
	WEFT_WR_FETCH_ADD, /* 8 bytes of the peer's: add to them, return what they were */
	WEFT_WR_CMP_SWAP, /* 8 bytes of the peer's: replace them if they are as told, return what they were */
	WEFT_WR_SEND, /* local memory to where a receive of the peer's says */
	/* only in completions: a receive was taken */
	WEFT_WR_RECV,     /* by a SEND of the peer's, which is in its memory */
	WEFT_WR_RECV_IMM, /* by a WRITE with immediate data, which is where that said */
};

struct weft_wc {
	uint64_t wr_id; /* of the request */
	struct weft_qp *qp;
	enum weft_wc_status status;
	uint32_t len; /* bytes; of a receive: of the peer's message */
	enum weft_wr_op op;
	uint32_t flags; /* WEFT_WC_* */
	uint32_t imm;   /* with WEFT_WC_IMM: immediate data, as the peer gave it */
};
#define WEFT_WC_IMM       0x1 /* receive: the message has immediate data */
#define WEFT_WC_SOLICITED 0x2 /* receive: the message was WEFT_WR_SOLICITED */

int weft_cq_create(struct weft_dev *dev, struct weft_cq **cq);
int weft_cq_destroy(struct weft_cq *cq); /* -EBUSY while QPs use it */

/*
 * Take up to n completions of this CQ's QPs, without a system call. Completions
 * of one QP come in posting order. Returns how many, 0 to n.
 */
int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wc, int n);

/*
 * A descriptor for poll(2) and friends; owned by the CQ. It becomes readable when, after
 * weft_cq_arm(), a request has a completion, a message of the peer has arrived or a QP fails. Arm,
 * poll once more, sleep, then weft_cq_disarm() (which drains the descriptor). The poll after that
 * may find nothing: of a QP on which no request with a completion is outstanding, the others wake
 * too, for there is room again; and of a QP that fails the completions follow some milliseconds later.
 */
int weft_cq_fd(struct weft_cq *cq);
#define WEFT_ARM_TX  0x1 /* completions of own requests */
#define WEFT_ARM_RX  0x2 /* arrivals, receives among them */
#define WEFT_ARM_SOL 0x4 /* receives of solicited messages, and of failed ones */
void weft_cq_arm(struct weft_cq *cq, unsigned what);
void weft_cq_disarm(struct weft_cq *cq);

/*
 * The same in one call: returns at once when there is a completion (WEFT_ARM_TX) or a QP whose
 * weft_qp_arrived() differs from what it was when this was last called, or with a complete receive
 * (WEFT_ARM_RX), or a solicited one (WEFT_ARM_SOL), else sleeps up to timeout_ms (-1: for ever). A
 * QP that has failed ends the wait once, whatever is waited for. Who waits for room in a queue polls
 * before. One thread at a time waits on a CQ, or arms and disarms it. Returns 1 (a poll may find
 * nothing all the same, see weft_cq_fd()), 0 on time-out, -errno (-EINTR: a signal).
 */
int weft_cq_wait(struct weft_cq *cq, unsigned what, int timeout_ms);

/* ---- connections ---- */

#define WEFT_PRIVATE_MAX 256

struct weft_qp_opts {
	size_t size;
	struct weft_pd *pd;  /* NULL: the process's first */
	struct weft_cq *cq;  /* NULL: one of its own, see weft_qp_cq() */
	const void *priv;    /* private data for the peer, e.g. a key and a length */
	size_t priv_len;     /* 0 to WEFT_PRIVATE_MAX */
	uint16_t evs;        /* entropy values to spray over, 1 to 64; 0: 16 */
	uint16_t cwnd;       /* packets, 1 to 512; 0: 128 */
	uint32_t timeout_ms; /* no progress for so long is an error, 10 to 600000; 0: 1000 */
	uint32_t connect_ms; /* patience of connect and accept; 0: 5000 */
	uint32_t pad;        /* not looked at */
	/*
	 * With nothing outstanding: the peer's host has not been heard of for so long (its kernel
	 * answers for processes that are stopped), 2000 to 600000; 0: 2500, UINT32_MAX: never.
	 */
	uint32_t idle_ms;
	/*
	 * With something outstanding: the retransmission timer may expire so often without progress,
	 * up to 1000; 0: any number of times. timeout_ms holds as well; what is over first counts.
	 */
	uint32_t retry_cnt;
	struct weft_srq *srq; /* the shared receive queue that it takes receives from; NULL: none */
	uint32_t recvs;       /* or entries of its own, up to 32768; 0: it has none */
	/*
	 * How often in a row the peer may be found without a receive before the QP fails; 0: any
	 * number. Between two attempts are 2 ms at first and 64 ms in the end, unless the peer says that it
	 * has posted one, which it does.
	 */
	uint32_t rnr_retries;
	/*
	 * 1: what is posted is carried out in that order, as programs of old expect: a WRITE's last aligned 8
	 * bytes appear behind the rest of it and all posted before, a READ sees earlier WRITEs. Bytes before
	 * those 8 appear in any order. Short messages and SENDs have one path and one CPU, and loss costs more.
	 * Either side's wish holds for both directions.
	 */
	uint32_t strict;
	/*
	 * Requests that it holds, posted and not yet polled: rounded up to a power of 2, 256 to 4096;
	 * weft_qp_depth() tells. 0: WEFT_DEPTH. Each WEFT_DEPTH count as one QP of the process.
	 */
	uint32_t sq_depth;
};

/*
 * Listen on "HOST:PORT", "[V6]:PORT" or ":PORT" (all addresses of the
 * interface), TCP; this is where connections are made, data goes by UDP.
 */
int weft_listen(struct weft_dev *dev, const char *addr, struct weft_listener **l);
void weft_listener_close(struct weft_listener *l);
/* Readable: weft_accept() has work, or the device is lost and it says so. */
int weft_listener_fd(struct weft_listener *l);

/*
 * Accept one connection; blocks up to connect_ms, and 0.4 s longer for a peer who
 * has come by then. The peer's private data is in weft_qp_private(). Who is no weft
 * peer, or does not finish connecting, is refused and logged (WEFT_LOG_WARN), and
 * does not end the call. -ETIMEDOUT nobody came; -ENODEV the device is lost, at
 * once and also when nobody comes; -ENOSPC, -EMFILE and others.
 */
int weft_accept(struct weft_listener *l, const struct weft_qp_opts *opts, struct weft_qp **qp);

/*
 * Connect to "HOST:PORT". -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH (also: HOST
 * is not reached through this interface), -EPROTO, -EINVAL.
 */
int weft_connect(struct weft_dev *dev, const char *addr, const struct weft_qp_opts *opts,
		 struct weft_qp **qp);

/*
 * States, as ibverbs has them. RESET and RTR are passed inside weft_connect() and weft_accept(),
 * which hand out QPs that are in RTS: peer, keys and window come with the set-up, so there is nothing
 * that an application could add in between. A QP in ERR stays so.
 */
enum weft_qps {
	WEFT_QPS_INIT, /* not connected: no QP that has been handed out */
	WEFT_QPS_RTS,
	WEFT_QPS_SQD, /* weft_qp_drain(): what is posted waits; the peer's requests are served */
	WEFT_QPS_ERR, /* weft_qp_status() tells why; what was outstanding comes back flushed */
};
enum weft_qps weft_qp_state(const struct weft_qp *qp);

/*
 * Drain: what is posted from now on waits in the queue, and what is outstanding completes. 0: it has;
 * -ETIMEDOUT: not within timeout_ms (0: only look), the state is SQD all the same; -ENOTCONN the QP
 * is in error. weft_qp_resume(): what waits goes out. Neither while another thread posts.
 */
int weft_qp_drain(struct weft_qp *qp, uint32_t timeout_ms);
int weft_qp_resume(struct weft_qp *qp); /* -ENOTCONN */

/*
 * An orderly end: drain, then tell the peer, and the QP is in ERR with nothing flushed but what was
 * posted since it was drained. -ETIMEDOUT
 * as above: it is in SQD and still connected, to be tried again, resumed or aborted. -ENOTCONN.
 */
int weft_qp_disconnect(struct weft_qp *qp, uint32_t timeout_ms);
/*
 * To ERR at once: what is outstanding completes with WEFT_WC_FLUSH_ERR, the peer is told. Whether its
 * effect was there by then is not known. -ENOTCONN the QP is in error already.
 */
int weft_qp_abort(struct weft_qp *qp);

/* Close: what is outstanding is flushed, the peer is told. */
void weft_qp_close(struct weft_qp *qp);

const void *weft_qp_private(const struct weft_qp *qp, size_t *len); /* owned by the QP */
struct weft_cq *weft_qp_cq(const struct weft_qp *qp);
uint32_t weft_qp_num(const struct weft_qp *qp);
uint32_t weft_qp_payload(const struct weft_qp *qp); /* bytes in a full packet */
uint32_t weft_qp_depth(const struct weft_qp *qp);   /* requests it holds that are not yet polled */
void weft_qp_set_user(struct weft_qp *qp, void *user);
void *weft_qp_user(const struct weft_qp *qp);

/* Messages of the peer wholly arrived, modulo 2^32; see "When data has arrived". */
uint32_t weft_qp_arrived(const struct weft_qp *qp);

/* WEFT_WC_SUCCESS while the QP works, else why it does not. */
enum weft_wc_status weft_qp_status(const struct weft_qp *qp);

/* Congestion window in packets, 1 to 512. */
int weft_qp_set_cwnd(struct weft_qp *qp, unsigned packets);

/* Counters of one QP, since it was connected. */
struct weft_qp_stats {
	size_t size; /* set by the caller; no more than that is written */
	uint64_t packets, retransmits, spurious, timeouts, ce;
	uint32_t cwnd, inflight, srtt_ns, rto_ns;
};
int weft_qp_stats(const struct weft_qp *qp, struct weft_qp_stats *st);

/* ---- events ---- */

/*
 * What happens by itself. Nobody needs to ask: what an event tells, completions and
 * weft_qp_status() tell as well. Each handle of a device has a queue of its own.
 */
enum weft_event_type {
	WEFT_EVENT_QP_FATAL,    /* qp has failed; info: enum weft_wc_status */
	WEFT_EVENT_PEER_CLOSED, /* the peer of qp has closed, or its process died */
	WEFT_EVENT_PORT_DOWN,   /* the interface's link is down; QPs fail if it stays so */
	WEFT_EVENT_PORT_UP,
	WEFT_EVENT_DEVICE_LOST, /* the interface is gone or weft was taken down: all QPs fail */
	WEFT_EVENT_MTU,         /* the interface's MTU changed; info: bytes */
	WEFT_EVENT_OVERRUN,     /* info: so many events before this one were lost */
};

struct weft_async_event {
	enum weft_event_type type;
	uint32_t info;
	struct weft_qp *qp; /* NULL: the device's */
	uint64_t time_ns;   /* CLOCK_MONOTONIC */
};

#define WEFT_EVENTS_MAX 256 /* that wait to be taken */

/* A descriptor for poll(2), owned by the device; readable while there are events. */
int weft_event_fd(struct weft_dev *dev);
/*
 * Take the oldest event; never blocks. 1, or 0: there is none. No event of a QP is handed out
 * once weft_qp_close() has been called for it. Any thread.
 */
int weft_event_get(struct weft_dev *dev, struct weft_async_event *ev);
const char *weft_event_str(enum weft_event_type type);

/* ---- WRITE ---- */

struct weft_write {
	uint64_t wr_id;           /* comes back in the completion */
	const struct weft_mr *mr; /* source; WEFT_LOCAL, same PD as the QP */
	uint64_t off;             /* from the MR's start */
	uint32_t len;             /* 0 to 1 GiB */
	uint32_t rkey;            /* the peer's weft_mr_key() */
	uint64_t roff;            /* from the start of the peer's MR */
};

#define WEFT_DEPTH     256 /* requests a QP holds that are not yet polled, unless it asks for more */
#define WEFT_DEPTH_MAX 4096 /* see weft_qp_opts.sq_depth */

/*
 * Post one WRITE. The source must not change until its completion. -EAGAIN: the
 * queue is full, poll first; -EINVAL: bounds; -ENOTCONN: the QP is in error or
 * closed. Bad remote key or bounds come back as an error completion.
 */
int weft_post_write(struct weft_qp *qp, const struct weft_write *w);

/* Post n; the doorbell is rung once. Returns how many were posted (1 to n), or -errno. */
int weft_post_writes(struct weft_qp *qp, const struct weft_write *w, int n);

/* ---- any request ---- */

/* A piece of local memory. */
struct weft_sge {
	const struct weft_mr *mr; /* same PD as the QP; the right: see struct weft_wr */
	uint64_t off;             /* from the MR's start */
	uint32_t len;             /* bytes, 0 to 1 GiB in all pieces together */
};

#define WEFT_SGE_MAX 8 /* pieces of a request */
#define WEFT_ATOMICS_MAX \
	64 /* atomics of a QP that are under way at a time; more wait in the queue */
#define WEFT_WR_UNSIGNALED 0x1 /* no completion unless it fails, nor an event, see weft_cq_fd() */
#define WEFT_WR_IMM        0x2 /* WRITE, SEND: with immediate data. A WRITE takes a receive then */
#define WEFT_WR_SOLICITED  0x4 /* SEND, WRITE with immediate data: wakes WEFT_ARM_SOL */
#define WEFT_WR_INLINE     0x8 /* WRITE, SEND: the bytes are those at `data`, and taken at once */
#define WEFT_INLINE_MAX    256 /* bytes of those */

struct weft_wr {
	uint64_t wr_id;     /* comes back in the completion */
	enum weft_wr_op op; /* default: WRITE */
	unsigned flags;     /* WEFT_WR_* */
	/*
	 * WRITE, SEND: the source, WEFT_LOCAL. READ: the target, WEFT_LOCAL_WRITE. Atomic: one piece of
	 * 8 bytes, WEFT_LOCAL_WRITE, where the old value is put. Each takes an entry of the queue.
	 */
	const struct weft_sge *sge;
	unsigned nsge;    /* 1 to WEFT_SGE_MAX; a piece may have 0 bytes */
	uint32_t rkey;    /* the peer's weft_mr_key() */
	uint64_t roff;    /* from the start of the peer's MR; an atomic's is 8-byte aligned */
	uint64_t operand; /* FETCH_ADD: what is added; CMP_SWAP: the new value */
	uint64_t compare; /* CMP_SWAP: the old value */
	uint32_t imm;     /* with WEFT_WR_IMM */
	uint32_t
		len; /* with WEFT_WR_INLINE: 0 to WEFT_INLINE_MAX bytes, and sge is not looked at */
	const void *data; /* likewise: any memory, which may change when the call returns */
};

/*
 * Post up to n requests; the doorbell is rung once. Returns how many were posted (1 to n), or
 * -errno: -EAGAIN the queue is full, poll first; -EINVAL a request is malformed (op, pieces,
 * bounds, rights); -ENOTCONN the QP is in error or closed; -ENOMEM and what else weft_alloc() may say:
 * no memory for inline data, which the first such request of a QP takes. What the peer does not allow
 * comes back as an error completion.
 *
 * Order: completions of one QP come in posting order. Otherwise requests overtake each other, also
 * a READ an earlier WRITE to the same place, and bytes of different requests appear in any order:
 * wait for the completion of what must come first. But when the peer's receive completes that a
 * SEND or a WRITE with immediate data took, everything posted on the QP before it is in place.
 * Memory that a READ or an atomic is to fill belongs to it until its completion.
 *
 * Atomics are carried out exactly once, whatever the network does. They are atomic towards each
 * other and towards the peer's CPUs (__atomic built-ins on 8 bytes). Values are little-endian.
 * A READ returns each 8 aligned bytes as they were at some moment; what changes meanwhile may be
 * old here and new there.
 */
int weft_post(struct weft_qp *qp, const struct weft_wr *wr, int n);

/* ---- receives ---- */

#define WEFT_RECV_SGE_MAX 4

/*
 * Where the next SEND of the peer goes: its bytes fill the pieces one after the other. A WRITE with
 * immediate data takes one too and leaves its memory alone. Receives of a QP are taken in the order
 * in which they were posted by messages in the order in which those were. The memory belongs
 * to the receive until its completion, which comes from weft_cq_poll() as those of requests do.
 */
struct weft_recv {
	uint64_t wr_id;
	const struct weft_sge *sge; /* WEFT_LOCAL_WRITE, same PD as the QP */
	unsigned nsge;              /* 0 to WEFT_RECV_SGE_MAX */
};

/*
 * Post up to n receives to the QP's own queue (weft_qp_opts.recvs). Returns how many (1 to n), or
 * -errno: -EAGAIN the queue is full; -EINVAL a receive is malformed, or the QP has no queue of its own;
 * -ENOTCONN the QP is in error or closed. Where a message of the peer finds none, it waits there
 * (RNR) until there is one; nothing is lost. One thread at a time, and may be another than the one that
 * posts requests.
 */
int weft_post_recv(struct weft_qp *qp, const struct weft_recv *r, int n);

/*
 * A receive queue for any number of QPs of one PD (NULL: the process's first), with 1 to 32768
 * entries. Whose message comes first takes the next receive. -EINVAL, -ENOSPC all queues of the device
 * are taken, -ENOMEM.
 */
int weft_srq_create(struct weft_dev *dev, struct weft_pd *pd, unsigned depth,
		    struct weft_srq **srq);
int weft_srq_destroy(struct weft_srq *srq); /* -EBUSY while QPs use it */

/*
 * As weft_post_recv(). One thread at a time; QPs that use it may be polled by others meanwhile. An
 * entry is free again when its completion has been polled.
 */
int weft_srq_post(struct weft_srq *srq, const struct weft_recv *r, int n);

#ifdef __cplusplus
}
#endif
#endif
