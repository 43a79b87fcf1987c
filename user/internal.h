/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the library's files share: the handles' insides and who provides which function. */
#ifndef WEFT_USER_INTERNAL_H
#define WEFT_USER_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include <weft/abi.h>
#include <weft/weft.h>

#include "event.h"

#ifndef ALTIFNAMSIZ /* <linux/if.h>, which does not go with <net/if.h> */
#define ALTIFNAMSIZ 128
#endif

#define WEFT_CM_BYE_LEN 12 /* cm_wire.h */

/*
 * Locks. dev->lock (process-local, recursive) guards the lists and tables of a
 * device handle; the device lock between processes, weft_pins_lock(), guards
 * the allocation tables in the pinned maps. Take dev->lock first. The data path
 * (post, poll) takes neither: it touches only its own QP or CQ.
 */

/* Pinned maps, opened: descriptors and, for mmapable ones, the mapping. */
struct weft_maps {
	int devcfg, devrun, owners, mrs, pools, qpctl, qptx, qprx, rings, xsks, events, rqs, stats;
	int qptele, devtele;
	struct weft_devcfg *cfg;
	struct weft_devrun *run; /* atomics only */
	struct weft_owners *own;
	struct weft_mr_ent *mr; /* [WEFT_MRS] */
	uint32_t qps;           /* that the device holds */
	struct weft_qpctl *ctl; /* [qps] */
	struct weft_tele *tele; /* [qps] */
	struct weft_devtele *dtele;
};

struct weft_pool { /* one mmapable map */
	LIST_ENTRY(weft_pool) link;
	int fd;
	uint32_t id;               /* index in `pools` */
	uint8_t *base;             /* mapping */
	size_t size;               /* bytes, multiple of WEFT_CHUNK */
	bool slab;                 /* shared by small allocations */
	bool inner;                /* the library's own: adopted and staged memory */
	struct weft_block *blocks; /* allocations in it, mem.c */
};

struct weft_pd {
	struct weft_dev *dev;
	LIST_ENTRY(weft_pd) link;
	uint32_t id; /* unique on the device: process slot << 16 | number */
	unsigned refs;
};

struct weft_mr {
	struct weft_dev *dev;
	LIST_ENTRY(weft_mr) link;
	struct weft_pd *pd;
	struct weft_pool *pool;
	size_t off; /* in the pool */
	void *addr;
	size_t len;
	uint32_t key;
	unsigned access; /* rights */
	enum weft_mr_mode mode;
	bool leaving; /* being deregistered */
	struct weft_adopt *adopt;
	struct weft_stage_copy copy; /* staged: how, NULL: memcpy() */
	uint64_t copy_off;           /* of `addr`, for those */
	struct weft_mr *of;          /* a window of that region */
	unsigned windows;
};

/* The QPs of a CQ; poll reads it without a lock, see cq.c. */
struct weft_cq_list {
	struct weft_cq_list *next; /* retired ones */
	unsigned n, cap;
	struct weft_qp *qp[];
};

struct weft_cq {
	struct weft_dev *dev;
	LIST_ENTRY(weft_cq) link;
	uint32_t idx;            /* in `events` */
	int rb_fd;               /* ring buffer map: XDP's events */
	void *rb_cons, *rb_data; /* its pages, for draining */
	size_t rb_len;
	int wake_fd;                  /* eventfd: the control thread's events */
	int ep_fd;                    /* epoll over both: what the user sees */
	pthread_mutex_t lock;         /* changes of the list; poll does not take it */
	struct weft_cq_list *list;    /* the QPs, cq.c */
	struct weft_cq_list *retired; /* replaced, a poll may still be reading them */
	uint32_t busy;                /* odd while a poll is at work */
	uint32_t woken;               /* wake_fd was written */
	unsigned armed;               /* WEFT_ARM_* */
	unsigned next;                /* where the next poll starts */
};

#define WEFT_HOW_PART  0x1 /* another entry belongs to the same request */
#define WEFT_HOW_QUIET 0x2 /* no completion unless it fails */
#define WEFT_HOW_STAGE 0x4 /* what it brings goes on from the copy: qp->staged */

/* What the library knows of a request, for its completion: one for each entry of the queue. */
struct weft_posted {
	uint64_t wr_id;
	uint32_t len; /* of the whole request */
	uint8_t op;   /* enum weft_wr_op */
	uint8_t how;  /* WEFT_HOW_* */
};

/* One connection. Data path fields first. */
struct weft_qp {
	struct weft_ring *ring; /* the first, when it has several: sqe() */
	uint32_t sq_mask;       /* entries of the send queue - 1 */
	uint32_t prod;          /* posted */
	uint32_t told;          /* of those, what XDP may see: in SQD the rest waits (atomic) */
	uint32_t polled;        /* completions handed out */
	uint32_t num;           /* QPN */
	uint32_t slot;
	uint32_t pd_id;
	int status; /* enum weft_wc_status; set once, by whoever sees the error first (atomic) */
	uint32_t err_at;     /* work request that failed */
	uint32_t final_done; /* with status set: those before it completed */
	struct weft_dev *dev;
	struct weft_cq *cq;
	uint32_t msn;            /* messages posted */
	uint32_t fill;           /* weft_post(): entries written, not yet posted */
	struct weft_sge *staged; /* as wr[], with WEFT_HOW_STAGE; NULL: none yet */
	bool copy_failed;        /* take(): of a part of the request at hand */
	struct weft_mr *inl;     /* inline data, WEFT_INLINE_MAX bytes an entry; NULL: none yet */
	struct weft_srq *rq;     /* its receive queue, own or shared; NULL: none */
	uint32_t recv_polled;    /* receives handed out */
	uint32_t
		recv_flushed; /* in error: of those that will complete no more, entries looked at */
	LIST_ENTRY(weft_qp) of_srq; /* rq->qps */
	bool waits;                 /* under its lock: the peer was refused a receive of that */
	/* control */
	LIST_ENTRY(weft_qp) link;
	struct weft_pd *pd;
	bool own_cq;
	unsigned ring_idx;
	int cm_fd; /* TCP, open for life: its end is the peer's */
	uint32_t timeout_ms, idle_ms, retry_cnt;
	uint32_t retry_base; /* control thread: time-outs before the last progress */
	bool retry_known;
	bool idle_on;     /* control thread: the stream is set up for idle.c */
	uint64_t ping_ns; /* when it was asked in vain, 0: it answers */
	uint32_t idle_arrived;
	uint32_t rnr_retries, seen_rnrs;
	bool strict;
	uint32_t seen_una, seen_done; /* control thread: progress */
	uint64_t seen_ns;
	uint64_t
		wait_ns; /* control thread: since then the peer has no receive, or is asked whether */
	uint64_t look_ns; /* control thread: not before that */
	uint64_t doom_ns; /* control thread: fails then with doom_why; 0: does not */
	int doom_why;
	int failing;                  /* enum weft_wc_status, decided but not published (atomic) */
	uint32_t poked;               /* the control thread was told to look at an error */
	uint8_t bye[WEFT_CM_BYE_LEN]; /* what the peer said at the end */
	uint8_t bye_len;
	bool cm_over; /* nothing more comes from cm_fd */
	bool bye_sent;
	bool bye_ok;                  /* bye_arrived is valid */
	uint32_t bye_arrived;         /* messages the peer had when it closed */
	struct weft_cq_list *retired; /* lists to free after the grace period */
	uint32_t seen_arrived;        /* weft_cq_wait() */
	int seen_status;
	bool drained;      /* SQD (atomic) */
	uint32_t features; /* of both sides: enum weft_cm_feature */
	uint8_t priv[WEFT_PRIVATE_MAX];
	size_t priv_len;
	struct sockaddr_storage local, peer;
	uint8_t nexthop[16];
	void *user;
	struct weft_posted wr[]; /* [sq_mask + 1] */
};

/* Rings that a send queue of so many entries takes. */
static inline unsigned weft_sq_rings(uint32_t depth)
{
	return depth / WEFT_SQ_DEPTH;
}

struct weft_priv;

struct weft_dev {
	pthread_mutex_t lock;
	const struct weft_priv *priv; /* how what needs privilege is done */
	struct weft_remote *remote;   /* by weftd: the way to it */
	uint32_t pid, uid;            /* whose slot it is */
	char ifname[IF_NAMESIZE];
	int ifindex;
	int netns_fd;    /* the interface's namespace */
	bool foreign_ns; /* not the one of the process: enter it for sockets */
	uint64_t netns_ino;
	char pin_dir[96]; /* /sys/fs/bpf/weft/<inode>-<ifname> */
	int pin_fd;       /* the directory: LOCK_SH while in use */
	int slot_fd;      /* p<slot> directory: LOCK_EX for life */
	uint32_t slot;    /* process slot */
	int xsk_fd;       /* in `xsks`: XDP sees that we live */
	struct weft_maps maps;
	uint32_t nrings; /* QPs that this process can hold */
	int rings_fd;
	struct weft_ring *rings;                /* [nrings] */
	uint64_t ring_used[WEFT_PROC_MAX / 64]; /* bit per ring */
	int db_fd;                              /* queue of the doorbell tap */
	bool dead;        /* interface gone: everything fails with WEFT_WC_DEV_ERR */
	bool db_gone;     /* or, with dead, only its doorbell; does not change after dead */
	bool prog_gone;   /* likewise its program on the interface, which another had loaded */
	uint32_t xdp_id;  /* control thread: of the program on the interface when it last looked */
	uint64_t down_ns; /* when the link went down; 0: it is up */
	LIST_HEAD(, weft_pool) pools;
	LIST_HEAD(, weft_pd) pds;
	LIST_HEAD(, weft_mr) mrs;
	LIST_HEAD(, weft_cq) cqs;
	LIST_HEAD(, weft_srq) srqs;
	LIST_HEAD(, weft_qp) qps;
	struct weft_pd *pd0;
	uint32_t next_pd;
	struct weft_ctl *ctl; /* control thread */
	struct weft_events events;
	uint32_t mtu; /* control thread: when it last looked; 0: not yet */
};

/* log.c */
int weft_err(int err, const char *obj, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* ^ formats "OBJ: fmt", stores it for weft_strerror_last(), logs it, returns -err */
int weft_err_line(int err, const char *line);
/* ^ the same with a line that is complete; "": what errno says */
int weft_err_quiet(int err, const char *obj, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* ^ the same for what is in the day's work of a program (a full queue, a time-out): not logged */
int weft_err_often(int err, const char *ifname, uint32_t qpn, const char *line);
/* ^ likewise, of a QP (0: an SRQ), on the fast path: put together when somebody asks for it */
int weft_no_arg(const struct weft_qp *qp,
		const char *call); /* -EINVAL: NULL was passed; qp may be */
const char *weft_obj(const char *ifname, uint32_t qpn);
/* ^ the name of a QP (0: of an SRQ) in errors; valid until the thread's next call */
void weft_logf(enum weft_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* nic.c: settings of an interface that hinder weft (its queues: tx_room.h). */
struct weft_nic {
	bool lro, rxvlan;  /* on */
	bool hash4, hash6; /* it spreads UDP over queues, and not by ports: IPv4, IPv6 */
	uint32_t mtu;      /* now; 0: not known */
};
void weft_nic_ask(const char *ifname, struct weft_nic *nic);
#define WEFT_ADVICE_MAX 5
#define WEFT_ADVICE_LEN 192
/* "what is so; remedy", each of them; how many. mtu: when weft was attached. */
unsigned weft_nic_advice(const char *ifname, const struct weft_nic *nic, uint32_t mtu,
			 char advice[WEFT_ADVICE_MAX][WEFT_ADVICE_LEN]);

/* netns.c: run with the device's namespace; no-op when it is the caller's. */
int weft_ns_pins_last(const char *ifname); /* 0, or -EXDEV: pins that are made now do not stay */
int weft_ns_enter(struct weft_dev *dev, int *saved);
void weft_ns_leave(int saved);

/* link.c (libmnl): what the kernel knows of an interface of the current namespace. */
struct weft_link {
	char name[IF_NAMESIZE]; /* its own, also when it was asked for by an alternative one */
	int ifindex;
	uint32_t mtu;
	uint8_t mac[6];
	bool up;          /* administratively and with carrier */
	uint8_t xdp_mode; /* XDP_ATTACHED_* */
	uint32_t xdp_id;  /* of the program attached in native mode, else in any; 0: none */
	uint32_t rx_queues, tx_queues; /* as many as it can have */
	char kind[16];                 /* "veth", "ifb", ... "" for hardware */
	int peer;    /* ifindex of what it is tied to, such as a veth's other end */
	int peer_ns; /* in the namespace of this id; -1: in the same */
};
int weft_link_get(const char *ifname, int ifindex,
		  struct weft_link *l); /* by name, also an alternative one; NULL: by index */
int weft_link_peer(const struct weft_link *l, struct weft_link *peer); /* the other end of a veth */

/* pins.c: the pin directory, its locks, process slots, opening pinned maps. */
int weft_pins_lock(
	struct weft_dev *dev); /* between processes; returns a token for unlock or -errno */
void weft_pins_unlock(int token);
int weft_pins_purge_owner(struct weft_dev *dev,
			  uint32_t slot); /* a dead process's QPs, MRs, pools, CQs */

/* ^ the caller holds weft_pins_lock() */
int weft_pins_purge_dead(
	struct weft_dev *dev); /* all dead ones, takes the lock; how many were found */

/*
 * settle.c: after the grace period of a closed QP, before its slot is FREE: the tokens it
 * had out leave the device's account, for XDP does not score them any more.
 */
void weft_settle_qp(struct weft_dev *dev, uint32_t slot);

/*
 * flush.c: remove the pins of interfaces that are gone, in every namespace; those
 * that a process still uses stay. Calls removed() (or NULL) for each; how many, or -errno.
 */
int weft_flush(void (*removed)(const char *dir));

/*
 * down.c: remove the pins of an interface that are of no use any more, and say which; a device
 * that works stays.
 */
int weft_unpin(const char *ifname, void (*removed)(const char *dir));
/*
 * down.c: this library's programs instead of those that work on the interface, with all their
 * maps and under traffic. 1: weft is not up there.
 */
int weft_replace(const char *ifname);

/* grace.c */
void weft_grace(void); /* every XDP program that started before has ended */

/* mem_mr.c */
void weft_mem_fini(struct weft_dev *dev);

/*
 * mem_stage.c: copies between a staged region and what XDP sees of it. Before bytes leave, after
 * bytes have come; nothing to do for other regions. 0, or what the region's own function returned.
 */
int weft_stage_in(const struct weft_mr *mr, uint64_t off, size_t len);
int weft_stage_out(const struct weft_mr *mr, uint64_t off, size_t len);

/* route.c (libmnl): next hop and MAC on dev; -EHOSTUNREACH when routed elsewhere */
int weft_route(struct weft_dev *dev, const struct sockaddr_storage *local,
	       const struct sockaddr_storage *peer, uint8_t nexthop[16], uint8_t mac[6]);

int weft_link_addr(struct weft_dev *dev, uint8_t mac[6]);

/* addr.c: "HOST:PORT" */
struct addrinfo;
struct weft_hostport {
	char host[256]; /* "": any */
	uint16_t port;
};
int weft_addr_parse(const char *s, struct weft_hostport *hp); /* -EINVAL */
int weft_addr_resolve(struct weft_dev *dev, const char *s, bool passive, struct addrinfo **res);
void weft_addr_unmap(struct sockaddr_storage *ss); /* ::ffff:a.b.c.d becomes a.b.c.d */
void weft_addr_str(const struct sockaddr_storage *ss, char *buf, size_t len);

/* tmpl.c: Ethernet to UDP header template of a QP into its control entry */
void weft_tmpl_build(struct weft_qpctl *ctl, const uint8_t smac[6], const uint8_t dmac[6],
		     const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
		     uint16_t port);
uint32_t weft_path_payload(uint32_t mtu, bool v6); /* largest payload, multiple of 64 */

/* post.c */
/* May this piece be used so? And if not, -EINVAL, with what is wrong. */
static inline bool weft_sge_ok(const struct weft_dev *dev, uint32_t pd, const struct weft_sge *g,
			       unsigned right)
{
	const struct weft_mr *mr = g->mr;

	return mr && mr->dev == dev && mr->pd->id == pd && (mr->access & right) &&
	       g->off <= mr->len && g->len <= mr->len - g->off && g->len <= WEFT_MSG_MAX;
}
int weft_sge_err(struct weft_dev *dev, uint32_t qpn, uint32_t pd, const struct weft_sge *g,
		 unsigned right); /* qpn: of whom, as of weft_obj() */
/* Entries of a QP that has failed that are complete: those before done, and what the peer's BYE says. */
uint32_t weft_post_acked(const struct weft_qp *qp, uint32_t done);
/* What was posted in SQD goes out. */
void weft_post_held(struct weft_qp *qp);
/* The last entry of the request that entry `at` belongs to. */
uint32_t weft_post_end(const struct weft_qp *qp, uint32_t at, uint32_t prod);

/* inline.c: memory for inline data, with the first request that has some */
int weft_inline_alloc(struct weft_qp *qp);
void weft_inline_free(struct weft_qp *qp);

/* recv.c: receive queues */
/* A receive queue, a QP's own or one that several share. */
struct weft_srq {
	struct weft_dev *dev;
	struct weft_pd *pd;
	LIST_ENTRY(weft_srq) link; /* dev->srqs, of shared ones */
	bool shared;
	uint32_t qpn; /* whose it is, 0: shared */
	uint32_t idx; /* in `rqs` */
	int fd;
	uint32_t depth; /* a power of 2 */
	uint32_t prod;
	struct weft_rq *head; /* the mapping; the entries follow */
	struct weft_rqe *e;
	uint64_t *wr_id;
	uint8_t *busy;   /* posted, and its completion not polled (atomic) */
	uint32_t *spare; /* shared: entries that are not */
	uint32_t nspare;
	pthread_mutex_t lock; /* qps, spare */
	LIST_HEAD(, weft_qp) qps;
};
int weft_recv_attach(struct weft_qp *qp, const struct weft_qp_opts *o); /* its queue, if any */
void weft_recv_detach(struct weft_qp *qp);
/* Receives of a QP that are complete, or flushed: up to n of them. */
int weft_recv_take(struct weft_qp *qp, struct weft_wc *wc, int n);
/* Is one complete; with sol: a solicited or failed one? */
bool weft_recv_ready(struct weft_qp *qp, bool sol);

/* doorbell.c */
int weft_doorbell(struct weft_dev *dev, uint32_t qpn, enum weft_db_op op, unsigned frame_len);

/*
 * rings.c, with dev->lock: as many in a row as the QP's send queue takes, zeroed. They are its own
 * with weft_rings_give() to come.
 */
int weft_rings_take(struct weft_dev *dev, struct weft_qp *qp);
void weft_rings_give(struct weft_dev *dev, const struct weft_qp *qp);

/* state.c */
int weft_qp_dead(const struct weft_qp *qp); /* -ENOTCONN, with the reason */

/* qp.c */
static inline const char *weft_qp_name(const struct weft_qp *qp) /* in errors */
{
	return weft_obj(qp->dev->ifname, qp->num);
}
/* What a caller asks for, with the defaults filled in; -EINVAL. */
int weft_qp_check(struct weft_dev *dev, const struct weft_qp_opts *in, struct weft_qp_opts *o);
int weft_qp_alloc(struct weft_dev *dev, const struct weft_qp_opts *o, struct weft_qp **qp);
/* Any thread; the first reason wins, and whoever gave it goes on: */
bool weft_qp_fail_begin(struct weft_qp *qp, enum weft_wc_status why); /* then */
void weft_qp_fail_stop(struct weft_qp **qp, unsigned n);              /* then */
void weft_qp_fail_end(struct weft_qp *qp);
void weft_qp_destroy(struct weft_qp *qp);                  /* close, grace period, free the slot */
void weft_qp_destroy_all(struct weft_qp **qp, unsigned n); /* few grace periods */
void weft_qp_destroy_those(struct weft_dev *dev);          /* all that it has */
enum weft_wc_status weft_nak_status(uint32_t code);
struct weft_cm_msg;
void weft_qp_offer(struct weft_qp *qp, bool v6, struct weft_cm_msg *m); /* what we tell the peer */
int weft_qp_establish(struct weft_qp *qp, const struct weft_cm_msg *mine,
		      const struct weft_cm_msg *theirs);

/* cm.c */
void weft_cm_bye(struct weft_qp *qp, uint32_t code);

/*
 * listen.c: before a client is answered fn may change the options of weft_accept() for it, by its
 * private data. Those options have all fields. Not while somebody accepts.
 */
typedef void (*weft_choose_fn)(void *arg, const void *priv, size_t len, struct weft_qp_opts *o);
void weft_listener_choose(struct weft_listener *l, weft_choose_fn fn, void *arg);

/* cq.c */
void weft_cq_wake(struct weft_cq *cq);
int weft_cq_add_qp(struct weft_cq *cq, struct weft_qp *qp);
void weft_cq_del_qp(struct weft_cq *cq, struct weft_qp *qp);
void weft_cq_quiesce(struct weft_cq *cq,
		     struct weft_qp *qp); /* after a grace period: poll has let go */

/* tele.c: histograms and traces, from the control plane's side. */
void weft_tele_take(struct weft_dev *dev, uint32_t slot); /* for a new QP; with weft_pins_lock() */
void weft_tele_connected(struct weft_dev *dev, uint32_t slot);
struct weft_failed;
void weft_tele_failed(struct weft_dev *dev, const struct weft_failed *f);
void weft_tele_ended(struct weft_dev *dev, uint32_t slot, enum weft_trace_kind how);
void weft_tele_note(const struct weft_qp *qp, enum weft_trace_kind kind, unsigned x, uint32_t a,
		    uint32_t b, uint32_t c);
void weft_tele_cwnd(struct weft_tele *t, uint32_t cwnd); /* the configured window changes */
uint32_t weft_tele_last_ack(const struct weft_tele *t);  /* the newest, wire ticks; 0: none */

/* trace_text.c: the records of a trace, oldest first; how many. */
unsigned weft_trace_sorted(const struct weft_trace *t, struct weft_trace_rec out[WEFT_TRACE_LEN]);
/* What happened, in words. */
const char *weft_trace_text(const struct weft_trace_rec *r, char *buf, size_t len);
const char *weft_trace_name(unsigned kind);
const char *weft_nak_text(uint32_t code);

/* ctl.c: the control thread: retransmission timer, time-outs, peers' TCP, netlink */
int weft_ctl_start(struct weft_dev *dev);
void weft_ctl_stop(struct weft_dev *dev);
int weft_ctl_watch_qp(struct weft_qp *qp); /* it goes live */
int weft_ctl_watch_cm(struct weft_qp *qp); /* the stream now belongs to the control thread */
void weft_ctl_unwatch_qp(struct weft_qp *qp);
void weft_ctl_kick(
	struct weft_dev *dev); /* something was posted on a quiet device: run the timer */
void weft_ctl_poke(struct weft_dev *dev);              /* look at all QPs now */
const char *weft_dev_lost(const struct weft_dev *dev); /* how, with dev->dead */
int weft_ctl_lost_fd(const struct weft_dev *dev);      /* readable from then on */

uint64_t weft_now_ns(void); /* CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns */

#endif
