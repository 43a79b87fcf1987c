/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What needs privilege, object by object: carried out in this process (direct.c) or by weftd (remote.c). */
#ifndef WEFT_USER_PRIV_H
#define WEFT_USER_PRIV_H

#include "internal.h"

/*
 * Everything else the library does with descriptors and mappings of its own process: TCP
 * set-up, posting, polling, timers, reading netlink. An operation that drops something returns
 * when no XDP program sees it any more (the grace period is in it), for what is dropped may be
 * somebody else's next. Those that return nothing cannot fail but by the end of weftd, who
 * then finds what is left when it comes back.
 *
 * QPs are named by their numbers, which have a generation; every operation looks whether the
 * object is of this process's slot.
 */

#define WEFT_STOP_MAX 64 /* QPs in one call */

enum weft_live_order {
	WEFT_LIVE_STRICT = 1, /* all comes in order */
	WEFT_LIVE_FREE = 2,   /* but for what is marked free, which the peer knows */
};

struct weft_live { /* an INIT QP goes live */
	uint32_t num;
	uint32_t pd, cq;
	uint32_t tx_psn, rx_psn, payload;
	uint32_t dqpn;
	uint32_t csum;   /* whole packets have one */
	uint32_t rq;     /* index of its receive queue + 1; 0: none */
	uint32_t srq;    /* that is shared */
	uint32_t strict; /* 0, or enum weft_live_order */
	uint32_t many;   /* several WRITEs in a packet */
	uint32_t port;   /* the peer's UDP port */
	uint64_t conn, secret;
	uint64_t cpus;                       /* that may hold its tokens, a bit each */
	struct sockaddr_storage local, peer; /* of cm_fd */
	int cm_fd;                           /* the connected stream, as evidence of both */
};

struct weft_failed { /* for the trace */
	uint32_t num;
	uint32_t why;       /* enum weft_wc_status */
	uint32_t err, code; /* enum weft_tx_err or WEFT_TRACE_WE; NAK code */
	uint32_t ssn;
	uint32_t idle_ms;
	uint32_t orderly; /* the peer closed with nothing of ours outstanding: no failure */
};

struct weft_priv {
	/* Attach or join, with a process slot and what belongs to it; and undo all of it. */
	int (*enter)(struct weft_dev *dev, const struct weft_open_opts *opts);
	void (*leave)(struct weft_dev *dev);

	/* A pool of `size` bytes, published; its map's descriptor. */
	int (*pool_new)(struct weft_dev *dev, size_t size, int *fd, uint32_t *id);
	void (*pool_drop)(struct weft_dev *dev, uint32_t id);
	/* Publish e: all but key and owner are taken from it. */
	int (*mr_put)(struct weft_dev *dev, const struct weft_mr_ent *e, uint32_t *key);
	int (*mr_drop)(struct weft_dev *dev, const uint32_t *keys, unsigned n);
	/* All regions and pools of the process in one grace period. */
	void (*mem_drop_all)(struct weft_dev *dev);

	/* A ring buffer for events, published. */
	int (*cq_new)(struct weft_dev *dev, int *fd, uint32_t *idx);
	void (*cq_drop)(struct weft_dev *dev, uint32_t idx);

	/* A receive queue of `depth` entries, a power of 2, published; its map's descriptor. */
	int (*rq_new)(struct weft_dev *dev, uint32_t depth, int *fd, uint32_t *idx);
	void (*rq_drop)(struct weft_dev *dev, uint32_t idx);

	/* Its rings are those from `ring` on that a send queue of `depth` takes. */
	int (*qp_take)(struct weft_dev *dev, uint32_t ring, uint32_t depth, uint32_t cwnd,
		       uint32_t nev, uint32_t *num);
	/* maps.ctl[] of the slot can be read afterwards. */
	int (*qp_live)(struct weft_dev *dev, const struct weft_live *l, uint8_t nexthop[16]);
	/* No packet of them (WEFT_STOP_MAX at most) starts any more. state: WEFT_QP_ERR (only from RTS) or WEFT_QP_CLOSED. */
	void (*qp_stop)(struct weft_dev *dev, const uint32_t *nums, unsigned n, uint32_t state);
	/* Stopped: its tokens leave the books, and the reason is noted. */
	void (*qp_failed)(struct weft_dev *dev, const struct weft_failed *f);
	/* CLOSED: the slot is free. f: why it had failed, if nobody has said so; or NULL. */
	void (*qp_free)(struct weft_dev *dev, uint32_t num, const struct weft_failed *f);
	int (*qp_cwnd)(struct weft_dev *dev, uint32_t num, uint32_t packets);
	int (*qp_stats)(struct weft_dev *dev, uint32_t num, struct weft_qp_stats *st);
	/* A MAC address of its template has changed: the next hop's (at 0) or ours (at 6). */
	void (*qp_mac)(struct weft_dev *dev, uint32_t num, unsigned at, const uint8_t mac[6]);
	void (*qp_note)(struct weft_dev *dev, uint32_t num, const struct weft_trace_event *e);

	/* Now and then while busy: maps.cfg is as it is now, and dead processes are cleaned up after. */
	int (*tidy)(struct weft_dev *dev);
	/* Does the interface still run our program? In its namespace. */
	bool (*runs_program)(struct weft_dev *dev);
	void (*doorbell_up)(struct weft_dev *dev);
};

extern const struct weft_priv weft_direct, weft_remote;

/* direct.c: also weftd's, for a process that it serves */
int weft_direct_settle_in(struct weft_dev *dev); /* rings and liveness, once there is a slot */

#endif
