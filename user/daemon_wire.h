/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Messages between the library and weftd: one request, one reply, over SOCK_SEQPACKET on this machine. */
#ifndef WEFT_USER_DAEMON_WIRE_H
#define WEFT_USER_DAEMON_WIRE_H

#include "priv.h"

#define WEFTD_SOCKET  "/run/weft/weftd.sock"
#define WEFTD_VERSION (1 << 16 | WEFT_ABI) /* of these messages and of what the descriptors hold */
#define WEFTD_TEXT    240
#define WEFTD_FDS     4
#define WEFTD_NEW     UINT32_MAX /* hello: a new process */

/* What a process takes to be its own, a bit each; weftd drops the rest, whose replies were lost. */
struct weftd_mine {
	uint32_t pools[WEFT_POOLS / 32];
	uint32_t mrs[WEFT_MRS / 32];
	uint32_t cqs[WEFT_CQS / 32];
	uint32_t rqs[WEFT_RQS / 32];
	uint32_t qps[WEFT_QPS_MAX / 32];
	uint32_t failed[WEFT_QPS_MAX / 32]; /* of those: in error, which weftd may not know */
};

struct weftd_hello {
	char ifname[IF_NAMESIZE];
	uint32_t version;
	uint32_t slot; /* WEFTD_NEW, or come back with the token */
	uint64_t token[2];
	uint16_t port; /* as in weft_open_opts */
	uint8_t csum, pad;
	uint16_t qps;
	uint8_t pad1[2];
	struct weftd_mine mine;
};
struct weftd_welcome { /* of a new process with descriptors: slot, rings, liveness, doorbell */
	uint32_t slot;
	uint32_t ifindex;
	uint32_t rings, pad;
	uint64_t token[2];
	struct weft_devcfg cfg;
};

struct weftd_u32 {
	uint32_t v;
};
struct weftd_size {
	uint64_t v;
};
struct weftd_nums { /* MR keys or QP numbers */
	uint32_t n;
	uint32_t state; /* of QPs */
	uint32_t num[WEFT_STOP_MAX];
};
struct weftd_take {
	uint32_t ring, depth, cwnd, nev;
};
struct weftd_live { /* as weft_live; the addresses are those of the socket that comes along */
	uint32_t num, pd, cq, tx_psn, rx_psn, payload, dqpn, csum, port, rq, srq, strict;
	uint32_t many, pad;
	uint64_t conn, secret, cpus;
};
struct weftd_lived {
	uint8_t nexthop[16];
	uint8_t tmpl[64];
	uint32_t flags, cwnd;
};
struct weftd_free {
	struct weft_failed f;
	uint32_t has_failed;
};
struct weftd_cwnd {
	uint32_t num, packets;
};
struct weftd_note {
	uint32_t num, pad;
	struct weft_trace_event e;
};
struct weftd_none {
	char none[0];
};
struct weftd_tmpl {
	uint8_t tmpl[64];
};

/* operation, request, reply, descriptors with the request, and with the reply at most */
#define WEFTD_OPS(X)                                              \
	X(hello, struct weftd_hello, struct weftd_welcome, 0, 4)  \
	X(leave, struct weftd_none, struct weftd_none, 0, 0)      \
	X(tidy, struct weftd_none, struct weft_devcfg, 0, 0)      \
	X(runs, struct weftd_none, struct weftd_u32, 0, 0)        \
	X(pool_new, struct weftd_size, struct weftd_u32, 0, 1)    \
	X(pool_drop, struct weftd_u32, struct weftd_none, 0, 0)   \
	X(mr_put, struct weft_mr_ent, struct weftd_u32, 0, 0)     \
	X(mr_drop, struct weftd_nums, struct weftd_none, 0, 0)    \
	X(mem_drop, struct weftd_none, struct weftd_none, 0, 0)   \
	X(cq_new, struct weftd_none, struct weftd_u32, 0, 1)      \
	X(cq_drop, struct weftd_u32, struct weftd_none, 0, 0)     \
	X(rq_new, struct weftd_u32, struct weftd_u32, 0, 1)       \
	X(rq_drop, struct weftd_u32, struct weftd_none, 0, 0)     \
	X(qp_take, struct weftd_take, struct weftd_u32, 0, 0)     \
	X(qp_live, struct weftd_live, struct weftd_lived, 1, 0)   \
	X(qp_stop, struct weftd_nums, struct weftd_none, 0, 0)    \
	X(qp_failed, struct weft_failed, struct weftd_none, 0, 0) \
	X(qp_free, struct weftd_free, struct weftd_none, 0, 0)    \
	X(qp_cwnd, struct weftd_cwnd, struct weftd_none, 0, 0)    \
	X(qp_stats, struct weftd_u32, struct weft_qp_stats, 0, 0) \
	X(qp_route, struct weftd_u32, struct weftd_tmpl, 0, 0)    \
	X(qp_note, struct weftd_note, struct weftd_none, 0, 0)

/* clang-format off */
enum weftd_op {
#define X(name, req, rep, in, out) WEFTD_##name,
	WEFTD_OPS(X)
#undef X
	WEFTD_OPS_COUNT,
};

union weftd_body {
#define X(name, req, rep, in, out) req name; rep name##_rep;
	WEFTD_OPS(X)
#undef X
	char text[WEFTD_TEXT]; /* of an error: weft_strerror_last() */
};
/* clang-format on */

struct weftd_msg {
	uint32_t op;  /* enum weftd_op; of a reply: as asked */
	uint32_t seq; /* likewise */
	int32_t err;  /* reply: 0 or -errno */
	uint32_t pad;
	union weftd_body u;
};

#define WEFTD_HEAD offsetof(struct weftd_msg, u)

/* Sizes of the bodies, and how many descriptors. */
struct weft_daemon_op {
	const char *name;
	uint16_t req, rep;
	uint8_t fds_in, fds_out;
};
extern const struct weft_daemon_op weft_daemon_ops[WEFTD_OPS_COUNT];

/* daemon_wire.c. Send m with `len` bytes of body and n descriptors. 0 or -errno. */
int weft_daemon_send(int fd, const struct weftd_msg *m, size_t len, const int *fds, unsigned n);
/*
 * Receive one. Length of the body or -errno (-ECONNRESET: the other side is gone, -EPROTO: no such
 * message). Up to WEFTD_FDS descriptors, *n of them; on an error there are none.
 */
int weft_daemon_recv(int fd, struct weftd_msg *m, int fds[WEFTD_FDS], unsigned *n);

#endif
