// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Frames built by hand, with sums computed another way than the datapath does. */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "fixture.h"

void pkt_init(struct pkt *p, const struct fx_qp *from, uint8_t op, uint32_t psn)
{
	const struct weft_qpctl *c = from->ctl;

	memset(p, 0, sizeof(*p));
	p->v6 = from->v6;
	p->csum = c->flags & WEFT_QPF_CSUM;
	memcpy(p->dmac, c->tmpl, 6);
	memcpy(p->smac, c->tmpl + 6, 6);
	memcpy(p->saddr, c->saddr, 16);
	memcpy(p->daddr, c->daddr, 16);
	p->sport = WEFT_EV_PORT0;
	p->dport = fx.cfg->port;
	p->tos = 2; /* ECT(0) */
	p->ttl = 64;
	p->h.ver = WEFT_WIRE_VER;
	p->h.op = op;
	p->h.dqpn = htonl(c->dqpn);
	p->h.conn = htobe64(c->conn);
	p->h.psn = htonl(psn);
	p->h.ts = htonl(0xabcdef01);
	p->hkey = c->hkey;
}

void pkt_data(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint64_t roff,
	      const void *payload, uint32_t len)
{
	pkt_init(p, from, WEFT_OP_DATA, psn);
	p->h.flags = WEFT_F_LAST;
	p->h.len = htons(len);
	p->h.data.rkey = htonl(FX_T_KEY);
	p->h.data.roff = htobe64(roff);
	p->h.data.mlen = htonl(len);
	p->payload = payload;
	p->len = len;
}

void pkt_send(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t rsn,
	      const void *payload, uint32_t len)
{
	pkt_data(p, from, psn, 0, payload, len);
	p->h.op = WEFT_OP_SEND;
	p->h.data.rkey = 0;
	p->h.data.rsn = htonl(rsn);
}

void pkt_read(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint64_t roff, uint32_t len)
{
	pkt_init(p, from, WEFT_OP_READ, psn);
	p->h.flags = WEFT_F_LAST;
	p->h.data.rkey = htonl(FX_S_KEY);
	p->h.data.roff = htobe64(roff);
	p->h.data.mlen = htonl(len);
	p->h.data.rlen = htonl(len);
}

void pkt_atomic(struct pkt *p, const struct fx_qp *from, uint8_t op, uint32_t psn, uint32_t asn,
		uint64_t roff, uint64_t operand, uint64_t compare)
{
	pkt_init(p, from, op, psn);
	p->h.flags = WEFT_F_LAST;
	p->h.atomic.rkey = htonl(FX_T_KEY);
	p->h.atomic.asn = htonl(asn);
	p->h.atomic.roff = htobe64(roff);
	p->h.atomic.operand = htobe64(operand);
	p->h.atomic.compare = htobe64(compare);
}

void pkt_answer(struct pkt *p, const struct pkt *request, const struct fx_qp *from, uint32_t cum,
		uint32_t msn, const void *payload, uint32_t len)
{
	pkt_reply(p, request, from, WEFT_OP_REPLY);
	p->h.len = htons(len);
	p->h.ack.cum = htonl(cum);
	p->h.ack.msn = htonl(msn);
	p->h.ack.sack_base = htonl(ntohl(p->h.psn) & ~63u);
	p->payload = payload;
	p->len = len;
}

void pkt_ack(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t cum, uint32_t msn)
{
	pkt_init(p, from, WEFT_OP_ACK, psn);
	p->h.ack.cum = htonl(cum);
	p->h.ack.msn = htonl(msn);
	p->h.ack.sack_base = htonl(psn & ~63u);
}

/* It acknowledges nothing but what is before the PSN. */
void pkt_rnr(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t epoch)
{
	pkt_ack(p, from, psn, psn, 0);
	p->h.op = WEFT_OP_RNR;
	p->h.flags = WEFT_F_RQ;
	p->h.ack.epoch = htonl(epoch);
}

void pkt_resume(struct pkt *p, const struct fx_qp *from, uint32_t epoch)
{
	pkt_init(p, from, WEFT_OP_RESUME, 0);
	p->h.ack.epoch = htonl(epoch);
}

void pkt_nak(struct pkt *p, const struct fx_qp *from, uint32_t psn, uint32_t code)
{
	pkt_init(p, from, WEFT_OP_NAK, psn);
	p->h.nak.code = htonl(code);
	p->h.nak.psn = htonl(psn);
}

void pkt_reply(struct pkt *reply, const struct pkt *request, const struct fx_qp *from, uint8_t op)
{
	pkt_init(reply, from, op, ntohl(request->h.psn));
	reply->h.ev = request->h.ev;
	reply->h.ts = request->h.ts;
	reply->sport = WEFT_EV_PORT0 + request->h.ev;
}

/* Big-endian 16-bit words, RFC 1071, byte by byte. */
static uint32_t sum16(const uint8_t *p, uint32_t n, uint32_t sum)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static bool is_v6(const struct frame *f)
{
	return f->b[12] == 0x86;
}

uint32_t frame_hl(const struct frame *f)
{
	return (is_v6(f) ? WEFT_V6_LEN : WEFT_V4_LEN) + WEFT_HDR_LEN;
}

static uint32_t udp_sum(const struct frame *f)
{
	uint32_t at = is_v6(f) ? 54 : 34, alen = is_v6(f) ? 32 : 8;
	uint32_t ulen = f->b[at + 4] << 8 | f->b[at + 5];
	uint32_t sum = sum16(f->b + at - alen, alen, ulen + IPPROTO_UDP);

	return sum16(f->b + at, ulen, sum);
}

void pkt_csum(struct frame *f)
{
	uint8_t *c = f->b + (is_v6(f) ? 60 : 40);
	uint16_t sum;

	c[0] = c[1] = 0;
	sum = ~udp_sum(f);
	if (!sum)
		sum = 0xffff;
	c[0] = sum >> 8;
	c[1] = sum;
}

bool pkt_csum_ok(const struct frame *f)
{
	if (!is_v6(f) && sum16(f->b + 14, 20, 0) != 0xffff)
		return false;
	return udp_sum(f) == 0xffff;
}

const struct weft_hdr *frame_hdr(const struct frame *f)
{
	static struct weft_hdr h;

	memcpy(&h, f->b + frame_hl(f) - WEFT_HDR_LEN, sizeof(h));
	return &h;
}

static uint32_t put_ip(const struct pkt *p, uint8_t *b, uint16_t ulen)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = p->tos,
		.tot_len = htons(ulen + 20),
		.frag_off = htons(0x4000),
		.ttl = p->ttl,
		.protocol = IPPROTO_UDP,
		.saddr = p->saddr[0],
		.daddr = p->daddr[0],
	};
	struct ipv6hdr ip6 = {
		.version = 6,
		.priority = p->tos >> 4,
		.flow_lbl[0] = p->tos << 4,
		.payload_len = htons(ulen),
		.nexthdr = IPPROTO_UDP,
		.hop_limit = p->ttl,
	};

	if (p->v6) {
		memcpy(&ip6.saddr, p->saddr, 16);
		memcpy(&ip6.daddr, p->daddr, 16);
		memcpy(b, &ip6, sizeof(ip6));
		return sizeof(ip6);
	}
	ip.check = htons(~sum16((uint8_t *)&ip, sizeof(ip), 0));
	memcpy(b, &ip, sizeof(ip));
	return sizeof(ip);
}

void pkt_frame(const struct pkt *p, struct frame *f)
{
	uint16_t ulen = sizeof(struct udphdr) + WEFT_HDR_LEN + p->len + p->ulen;
	struct udphdr udp = {
		.source = htons(p->sport),
		.dest = htons(p->dport),
		.len = htons(ulen),
	};
	union {
		struct weft_hdr h;
		__u64 w[8];
	} u = { .h = p->h };
	uint8_t *b = f->b; /* cppcheck-suppress ctuuninitvar */

	memset(f, 0, sizeof(*f));
	memcpy(b, p->dmac, 6);
	memcpy(b + 6, p->smac, 6);
	b[12] = p->v6 ? 0x86 : 0x08;
	b[13] = p->v6 ? 0xdd : 0x00;
	b += 14;
	b += put_ip(p, b, ulen);
	memcpy(b, &udp, sizeof(udp));
	b += sizeof(udp);
	if (!p->keep_check) {
		u.h.check = 0;
		u.h.check = htonl(weft_check(u.w, p->hkey));
	}
	memcpy(b, &u.h, sizeof(u.h));
	b += sizeof(u.h);
	if (p->len)
		memcpy(b, p->payload, p->len);
	b += p->len;
	f->len = b - f->b;
	if (p->csum)
		pkt_csum(f);
}

void doorbell_frame(struct frame *f, enum weft_db_op op, uint32_t qpn, uint32_t len)
{
	struct weft_db db = { .magic = WEFT_DB_MAGIC, .op = op, .qpn = qpn };

	memset(f, 0, sizeof(*f));
	memset(f->b, 0xff, 6);
	f->b[12] = WEFT_DB_ETHERTYPE >> 8;
	f->b[13] = WEFT_DB_ETHERTYPE & 0xff;
	memcpy(f->b + 14, &db, sizeof(db));
	f->len = len;
}

/* xorshift32 (Marsaglia 2003) */
const uint8_t *random_bytes(uint32_t seed)
{
	static uint8_t buf[FX_FULL];
	uint32_t x = seed * 2654435761u | 1;

	for (uint32_t i = 0; i < sizeof(buf); i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		buf[i] = x >> 24;
	}
	return buf;
}
