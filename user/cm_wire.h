/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What two peers say to each other over TCP: the messages of connection set-up, and their checks. */
#ifndef WEFT_USER_CM_WIRE_H
#define WEFT_USER_CM_WIRE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <weft/weft.h>
#include <weft/wire.h>

/*
 * REQUEST (active side), REPLY (passive side), READY (active side, one byte),
 * CONFIRM (passive side, one byte: somebody has accepted it); from then on the
 * stream is silent until one side says BYE and closes. Without CONFIRM the active
 * side is not connected. A passive side with many strangers may say PROBE before its
 * REPLY, which the active side answers by ALIVE (one byte each). Between CONFIRM
 * and BYE there may be PINGs (one byte), of which only TCP takes notice. All numbers
 * are big-endian.
 *
 * REQUEST and REPLY, 80 bytes and the private data:
 *    0  magic "WEFT"              28  UDP port on which the sender listens
 *    4  version of this protocol  30  0
 *    6  version of the packets    32  half of the connection key (xor of both)
 *    8  type                      40  half of the hash secret (xor of both)
 *   10  bytes of private data     48  why it is refused: REPLY, else 0
 *   12  QP number                 52  0
 *   16  first PSN                 56  features that the sender has
 *   20  payload limit, bytes      60  of those, what the other side must have too
 *   24  flags                     64  window, packets
 *                                 68  atomics it has outstanding at most
 *                                 72  0, 8 bytes
 *                                 80  private data
 *
 * The first 56 bytes are where they are in every version: who speaks another is refused by
 * those alone, with the version numbers of its own.
 *
 * BYE, 12 bytes: magic "WBYE"; NAK code that says why (WEFT_NAK_CLOSED when
 * nothing is wrong); messages of the receiver of the BYE that had wholly
 * arrived. The count acknowledges them: no ACK comes after it.
 */
#define WEFT_CM_MAGIC     0x57454654u
#define WEFT_CM_VER       2
#define WEFT_CM_LEN       80
#define WEFT_CM_OLD_LEN   56 /* of a refusal that every version understands */
#define WEFT_CM_MAX       (WEFT_CM_LEN + WEFT_PRIVATE_MAX)
#define WEFT_CM_READY     0x52
#define WEFT_CM_CONFIRM   0x43
#define WEFT_CM_PROBE     0x50
#define WEFT_CM_ALIVE     0x41
#define WEFT_CM_PING      0x4b
#define WEFT_CM_BYE_MAGIC 0x57425945u
#ifndef WEFT_CM_BYE_LEN
#define WEFT_CM_BYE_LEN 12
#endif

enum weft_cm_type { WEFT_CM_REQUEST = 1, WEFT_CM_REPLY = 2 };

#define WEFT_CM_CSUM   0x1 /* wants the whole-packet checksum */
#define WEFT_CM_STRICT 0x2 /* wants strict order */

/*
 * What a side may have or not: bit, name. Who has one that the other has not does without, unless
 * it says that it must be there; then there is no connection. Bits without a name are of later versions.
 */
/* clang-format off */
#define WEFT_CM_FEATURES(X) \
	X(READ, 0, "read")     \
	X(ATOMIC, 1, "atomic") \
	X(FREE, 2, "segments free of order") \
	X(WRITES, 3, "several WRITEs in a packet")
/* clang-format on */
enum weft_cm_feature {
#define X(name, bit, text) WEFT_CM_F_##name = 1u << (bit),
	WEFT_CM_FEATURES(X)
#undef X
};

enum weft_cm_refusal {
	WEFT_CM_OK = 0,
	WEFT_CM_R_VERSION,   /* protocol or packet version */
	WEFT_CM_R_RESOURCES, /* no QP left */
	WEFT_CM_R_ROUTE,     /* the way back leaves through another interface */
	WEFT_CM_R_PAYLOAD,   /* the path carries no useful packet */
	WEFT_CM_R_BUSY,      /* too many connect at the same time: come again */
	WEFT_CM_R_FEATURES,  /* one side must have what the other has not */
	WEFT_CM_R_WINDOW,    /* the windows differ */
	WEFT_CM_R_ATOMICS,   /* so do the numbers of outstanding atomics */
	WEFT_CM_R_LOST,      /* the device is lost */
	WEFT_CM_R_QUOTA,     /* weftd allows no more */
};

/* Why a QP could not be made, by the error. */
static inline enum weft_cm_refusal weft_cm_no_qp(int err)
{
	return err == -ENODEV   ? WEFT_CM_R_LOST
	       : err == -EDQUOT ? WEFT_CM_R_QUOTA
				: WEFT_CM_R_RESOURCES;
}

struct weft_cm_msg {
	uint16_t type; /* enum weft_cm_type */
	uint16_t port;
	uint32_t qpn, psn, payload, flags, refusal;
	uint64_t conn, secret;
	uint32_t features, required; /* enum weft_cm_feature, and bits of later versions */
	uint32_t window, atomics;    /* these four are valid in a refusal as well */
	uint16_t priv_len;
	uint8_t priv[WEFT_PRIVATE_MAX];
};

static inline uint8_t *cm_put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*p++ = v >> (8 * i);
	return p;
}

static inline uint64_t cm_get(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

/* Write a message into buf (WEFT_CM_MAX bytes); returns its length. */
static inline size_t weft_cm_format(const struct weft_cm_msg *m, uint8_t *buf)
{
	uint8_t *p = buf;

	p = cm_put(p, WEFT_CM_MAGIC, 4);
	p = cm_put(p, WEFT_CM_VER, 2);
	p = cm_put(p, WEFT_WIRE_VER, 2);
	p = cm_put(p, m->type, 2);
	p = cm_put(p, m->priv_len, 2);
	p = cm_put(p, m->qpn, 4);
	p = cm_put(p, m->psn, 4);
	p = cm_put(p, m->payload, 4);
	p = cm_put(p, m->flags, 4);
	p = cm_put(p, m->port, 2);
	p = cm_put(p, 0, 2);
	p = cm_put(p, m->conn, 8);
	p = cm_put(p, m->secret, 8);
	p = cm_put(p, m->refusal, 4);
	p = cm_put(p, 0, 4);
	p = cm_put(p, m->features, 4);
	p = cm_put(p, m->required, 4);
	p = cm_put(p, m->window, 4);
	p = cm_put(p, m->atomics, 4);
	p = cm_put(p, 0, 8);
	memcpy(p, m->priv, m->priv_len);
	return WEFT_CM_LEN + m->priv_len;
}

/*
 * Read a message of the given type out of the first len bytes of a stream.
 * Returns its length, 0 when more bytes are needed, -EPROTO when this is no
 * weft peer, -EPROTONOSUPPORT when it is one of another version. A refusal is
 * a message of which only the last four numbers mean anything.
 */
static inline int weft_cm_parse(const uint8_t *buf, size_t len, uint16_t type,
				struct weft_cm_msg *m)
{
	uint8_t magic[4];

	/* a wrong first byte need not wait for the rest */
	cm_put(magic, WEFT_CM_MAGIC, 4);
	if (memcmp(buf, magic, len < 4 ? len : 4))
		return -EPROTO;
	if (len >= 8 && (cm_get(buf + 4, 2) != WEFT_CM_VER || cm_get(buf + 6, 2) != WEFT_WIRE_VER))
		return -EPROTONOSUPPORT;
	if (len < WEFT_CM_LEN)
		return 0;
	memset(m, 0, sizeof(*m));
	m->type = cm_get(buf + 8, 2);
	m->priv_len = cm_get(buf + 10, 2);
	m->qpn = cm_get(buf + 12, 4);
	m->psn = cm_get(buf + 16, 4);
	m->payload = cm_get(buf + 20, 4);
	m->flags = cm_get(buf + 24, 4);
	m->port = cm_get(buf + 28, 2);
	m->conn = cm_get(buf + 32, 8);
	m->secret = cm_get(buf + 40, 8);
	m->refusal = cm_get(buf + 48, 4);
	m->features = cm_get(buf + 56, 4);
	m->required = cm_get(buf + 60, 4);
	m->window = cm_get(buf + 64, 4);
	m->atomics = cm_get(buf + 68, 4);
	if (m->type != type || m->priv_len > WEFT_PRIVATE_MAX || cm_get(buf + 30, 2) ||
	    cm_get(buf + 52, 4) || cm_get(buf + 72, 8))
		return -EPROTO;
	if (m->refusal) {
		if (type != WEFT_CM_REPLY || m->priv_len)
			return -EPROTO;
		return WEFT_CM_LEN;
	}
	if (!m->qpn || !m->port || (m->flags & ~(WEFT_CM_CSUM | WEFT_CM_STRICT)) ||
	    m->payload < WEFT_PAYLOAD_MIN || m->payload > 65536 || m->payload % 64)
		return -EPROTO;
	if (len < WEFT_CM_LEN + (size_t)m->priv_len)
		return 0;
	memcpy(m->priv, buf + WEFT_CM_LEN, m->priv_len);
	return WEFT_CM_LEN + m->priv_len;
}

/* The REPLY (WEFT_CM_OLD_LEN bytes) to the REQUEST of another version, whose first 8 bytes are here. */
static inline void weft_cm_format_version(const uint8_t request[8], uint8_t *buf)
{
	memset(buf, 0, WEFT_CM_OLD_LEN);
	memcpy(buf, request, 8);
	cm_put(buf + 8, WEFT_CM_REPLY, 2);
	cm_put(buf + 48, WEFT_CM_R_VERSION, 4);
}

/* Can the two be connected? WEFT_CM_OK or the first reason why not; the same on both sides. */
static inline enum weft_cm_refusal weft_cm_match(const struct weft_cm_msg *a,
						 const struct weft_cm_msg *b)
{
	if ((a->required & ~b->features) || (b->required & ~a->features))
		return WEFT_CM_R_FEATURES;
	if (a->window != b->window)
		return WEFT_CM_R_WINDOW;
	if ((a->features & b->features & WEFT_CM_F_ATOMIC) && a->atomics != b->atomics)
		return WEFT_CM_R_ATOMICS;
	return WEFT_CM_OK;
}

static inline void weft_cm_bye_format(uint32_t code, uint32_t arrived, uint8_t *buf)
{
	buf = cm_put(buf, WEFT_CM_BYE_MAGIC, 4);
	buf = cm_put(buf, code, 4);
	cm_put(buf, arrived, 4);
}

/* Returns 0 or -EPROTO. */
static inline int weft_cm_bye_parse(const uint8_t *buf, uint32_t *code, uint32_t *arrived)
{
	if (cm_get(buf, 4) != WEFT_CM_BYE_MAGIC)
		return -EPROTO;
	*code = cm_get(buf + 4, 4);
	*arrived = cm_get(buf + 8, 4);
	return 0;
}

#endif
