/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packet formats: what weft puts behind the UDP header, and the opcode and NAK tables. */
#ifndef WEFT_WIRE_H
#define WEFT_WIRE_H

#include <linux/types.h>

#define WEFT_WIRE_VER    3
#define WEFT_UDP_PORT    4793  /* default destination port; 4791 belongs to RoCEv2 */
#define WEFT_EV_PORT0    49152 /* UDP source port of entropy value 0 */
#define WEFT_EV_MAX      64
#define WEFT_PAYLOAD_MAX 3328 /* bytes; a veth XDP frame holds 3520 with all headers */
#define WEFT_PAYLOAD_MIN 256
#define WEFT_MSG_MAX     (1u << 30) /* bytes in one message */
#define WEFT_TS_SHIFT    6          /* wire time stamps count 64 ns; they wrap after 274 s */

/* One table makes the enum, the names and the payload rule of every opcode. */
#define WEFT_OPCODES(X)                                                         \
	/* name, value, may carry payload, what it is */                        \
	X(DATA, 1, 1, "segment of a WRITE, placed on arrival")                  \
	X(ACK, 2, 0, "acknowledges one DATA, in the same frame")                \
	X(NAK, 3, 0, "refuses one request; the requester's QP goes to error")   \
	X(READ, 4, 0, "asks for a segment of remote memory")                    \
	X(FADD, 5, 0, "adds to 8 remote bytes, asks for what they were")        \
	X(CSWAP, 6, 0, "replaces 8 remote bytes if they are as told, likewise") \
	X(REPLY, 7, 1, "acknowledges one of those, with what it asked for")     \
	X(SEND, 8, 1, "segment of a SEND, placed where a receive says")         \
	X(RNR, 9, 0, "no receive is posted for a request: to be sent again")    \
	X(RESUME, 10, 0, "receives are posted again")                           \
	X(SEQ, 11, 0, "a request is not the next, in strict order: sent again") \
	X(WRITES, 12, 1, "several whole WRITEs, each placed on arrival")

enum weft_opcode {
#define X(name, val, payload, text) WEFT_OP_##name = val,
	WEFT_OPCODES(X)
#undef X
};

/* Why a responder refuses (NAK code); 0 is never sent. */
#define WEFT_NAKS(X)                                                     \
	X(KEY, 1, "remote key is not valid")                             \
	X(BOUNDS, 2, "message does not fit the remote memory region")    \
	X(RIGHTS, 3, "remote memory region does not allow it")           \
	X(PD, 4, "remote memory region is in another protection domain") \
	X(CLOSED, 5, "remote queue pair is closed")                      \
	X(MEMORY, 6, "remote memory is gone")                            \
	X(ALIGN, 7, "atomic at an address that is no multiple of 8")     \
	X(LENGTH, 8, "SEND is longer than the receive that it takes")    \
	X(RECEIVE, 9, "receive names memory that it may not")

enum weft_nak {
#define X(name, val, text) WEFT_NAK_##name = val,
	WEFT_NAKS(X)
#undef X
};

/* flags */
#define WEFT_F_LAST 0x01 /* request: last segment of its message */
#define WEFT_F_RETX 0x02 /* request: sent before (for captures and counters) */
#define WEFT_F_CE   0x04 /* answer: the request arrived with ECN CE */
#define WEFT_F_DUP  0x08 /* answer: the request had been seen before */
#define WEFT_F_IMM  0x10 /* DATA, SEND: of a message with immediate data */
#define WEFT_F_SOL  0x20 /* likewise: of a solicited one */
#define WEFT_F_RQ   0x40 /* answer: `epoch` is valid */
#define WEFT_F_FREE 0x80 /* DATA: in strict order, and yet it may be placed at any time */

/*
 * The header. Every packet has the same 64 bytes, so that a DATA frame becomes
 * its ACK without moving anything. `check` is a keyed hash of the other 60
 * bytes (core/check.h). Every field is naturally aligned in the struct, though the
 * header itself starts at an odd multiple of 2 in a frame.
 */
struct weft_hdr {
	__u8 ver;    /* WEFT_WIRE_VER */
	__u8 op;     /* enum weft_opcode */
	__u8 flags;  /* WEFT_F_* */
	__u8 ev;     /* entropy value of the DATA; echoed by its ACK */
	__be32 dqpn; /* destination QP number: slot | generation << 16 */
	__be64 conn; /* connection key, agreed at set-up */
	__be32 psn;  /* packet sequence number; ACK, NAK: of the DATA answered */
	__be32 ts;   /* send time, WEFT_TS_SHIFT units; echoed by ACK and NAK */
	__be32 check;
	__be16 len;   /* payload bytes that follow the header */
	__be16 rsvd0; /* 0 */
	union {
		struct {
			__be32 rkey;
			__be32 msn;  /* message number on this QP, from 0 */
			__be64 roff; /* where the payload goes, from the MR's start */
			__be32 moff; /* offset of the payload in the message */
			__be32 mlen; /* bytes in the whole message */
			union {
				__be32 rlen; /* READ: bytes asked for */
				__be32 imm;  /* with F_IMM: immediate data; else 0 */
			};
			__be32 rsn; /* SEND, or F_IMM: number of the receive it takes; else 0 */
		} data;             /* SEND, where rkey and roff are 0, and READ */
		struct {
			__be32 rkey;
			__be32 asn;     /* number of the atomic on this QP, from 0 */
			__be64 roff;    /* multiple of 8 */
			__be64 operand; /* FADD: what is added; CSWAP: the new value */
			__be64 compare; /* CSWAP: the old value */
		} atomic;               /* FADD, CSWAP */
		struct {
			__be32 n;      /* WRITEs in this packet, 2 to WEFT_MANY */
			__be32 msn;    /* number of the first */
			__be32 sum[2]; /* checks of descriptors 0 to 3, and 4 to 7 (core/check.h) */
			__be32 rsvd[4];
		} writes; /* WRITES */
		struct {
			__be32 cum;       /* every PSN before it is placed */
			__be32 msn;       /* messages wholly placed, in order */
			__be64 sack;      /* placed PSNs: bit i is sack_base + i */
			__be32 sack_base; /* multiple of 64 */
			__be32 epoch;     /* receives the peer has posted, with F_RQ; else 0 */
			__be32 rsvd[2];
		} ack; /* REPLY, RNR, SEQ; RESUME, where all but epoch is 0 */
		struct {
			__be32 code; /* enum weft_nak */
			__be32 psn; /* the PSN that was refused: of the first refusal, ever after */
			__be32 nth; /* of WRITES: which of them, from 0; those before it are placed */
			__be32 rsvd[5];
		} nak;
	};
};

_Static_assert(sizeof(struct weft_hdr) == 64, "wire header is 64 bytes");

/* WRITES: n of these, then the bytes of each, one after the other. */
#define WEFT_MANY     8   /* WRITEs in a packet, at most */
#define WEFT_MANY_LEN 256 /* bytes of each, at most */

struct weft_desc {
	__be32 rkey;
	__be32 len;
	__be64 roff; /* where they go, from the MR's start */
};

_Static_assert(sizeof(struct weft_desc) * WEFT_MANY == 128, "two blocks of the check");

/* Header bytes from the start of the frame to the payload. */
#define WEFT_L2_LEN  14
#define WEFT_V4_LEN  42 /* Ethernet + IPv4 + UDP */
#define WEFT_V6_LEN  62 /* Ethernet + IPv6 + UDP */
#define WEFT_HDR_LEN ((int)sizeof(struct weft_hdr))

#endif
