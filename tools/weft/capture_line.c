// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft capture without a file: a line for each packet. Wireshark's dissector shows more. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "capture.h"
#include "internal.h"

/* What there is of a packet in a frame. The header is a copy: in the frame it is not aligned. */
struct view {
	struct weft_hdr h;
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
	uint16_t sport, dport;
	bool has_hdr;
};

static bool look(const struct weft_cap_rec *r, struct view *v)
{
	const uint8_t *p = r->data;
	struct udphdr udp;
	size_t at;

	memset(v, 0, sizeof(*v));
	if (r->cap < WEFT_V4_LEN)
		return false;
	if (p[12] == 0x08 && p[13] == 0x00) {
		at = ETH_HLEN + sizeof(struct iphdr);
		inet_ntop(AF_INET, p + 26, v->src, sizeof(v->src));
		inet_ntop(AF_INET, p + 30, v->dst, sizeof(v->dst));
	} else if (p[12] == 0x86 && p[13] == 0xdd) {
		at = ETH_HLEN + sizeof(struct ipv6hdr);
		inet_ntop(AF_INET6, p + 22, v->src, sizeof(v->src));
		inet_ntop(AF_INET6, p + 38, v->dst, sizeof(v->dst));
	} else {
		return false;
	}
	if (r->cap < at + sizeof(udp))
		return false;
	memcpy(&udp, p + at, sizeof(udp));
	v->sport = ntohs(udp.source);
	v->dport = ntohs(udp.dest);
	at += sizeof(udp);
	v->has_hdr = r->cap >= at + sizeof(v->h);
	if (v->has_hdr)
		memcpy(&v->h, p + at, sizeof(v->h));
	return true;
}

bool capture_conn(const struct weft_cap_rec *r, uint64_t *conn)
{
	struct view v;

	if (!look(r, &v) || !v.has_hdr)
		return false;
	*conn = be64toh(v.h.conn);
	return true;
}

/* Undo z ^= z >> by. */
static uint64_t unshift(uint64_t z, int by)
{
	uint64_t x = z;

	for (int done = by; done < 64; done += by)
		x = z ^ (x >> by);
	return x;
}

uint64_t capture_secret(const struct weft_qpctl *ctl)
{
	/* the steps of weft_check_expand() backwards, with the inverses of its factors modulo 2^64 */
	uint64_t z = unshift(ctl->hkey[0], 31) * 0x319642b2d24d8ec3ull;

	z = unshift(z, 27) * 0x96de1b173f119089ull;
	return unshift(z, 30) - 0x9e3779b97f4a7c15ull;
}

static const char *op_name(uint8_t op)
{
	switch (op) {
#define X(name, val, payload, text) \
	case val: return #name;
		WEFT_OPCODES(X)
#undef X
	}
	return "?";
}

/* The PSNs that a SACK names: "5-9,12". */
static const char *sack_text(const struct weft_hdr *h, char *buf, size_t size)
{
	uint64_t bits = be64toh(h->ack.sack);
	uint32_t base = ntohl(h->ack.sack_base);
	size_t n = 0;

	buf[0] = 0;
	for (int i = 0; i < 64 && n < size; i++) {
		int from = i;

		if (!(bits >> i & 1))
			continue;
		while (i < 63 && bits >> (i + 1) & 1)
			i++;
		n += snprintf(buf + n, size - n, "%s%u", n ? "," : "", base + from);
		if (i > from && n < size)
			n += snprintf(buf + n, size - n, "-%u", base + i);
	}
	return buf;
}

static const char *flag_text(const struct weft_hdr *h, char buf[32])
{
	static const struct {
		uint8_t bit;
		const char *name;
	} flags[] = { { WEFT_F_LAST, "LAST" },
		      { WEFT_F_RETX, "RETX" },
		      { WEFT_F_CE, "CE" },
		      { WEFT_F_DUP, "DUP" } };
	int n = 0;

	buf[0] = 0;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (h->flags & flags[i].bit)
			n += snprintf(buf + n, 32 - n, "%s%s", n ? "," : "", flags[i].name);
	return buf;
}

static void text_of(FILE *f, const struct view *v)
{
	const struct weft_hdr *h = &v->h;
	char flags[32], sack[800];

	fprintf(f, "%s.%u > %s.%u: ", v->src, v->sport, v->dst, v->dport);
	if (!v->has_hdr) {
		fputs("[the header is cut off]", f);
		return;
	}
	fprintf(f, "%s qp 0x%x psn %u", op_name(h->op), ntohl(h->dqpn), ntohl(h->psn));
	switch (h->op) {
	case WEFT_OP_DATA:
		fprintf(f, " len %u msg %u %u/%u key 0x%08x off %" PRIu64, ntohs(h->len),
			ntohl(h->data.msn), ntohl(h->data.moff), ntohl(h->data.mlen),
			ntohl(h->data.rkey), (uint64_t)be64toh(h->data.roff));
		break;
	case WEFT_OP_READ:
		fprintf(f, " len %u msg %u %u/%u key 0x%08x off %" PRIu64, ntohl(h->data.rlen),
			ntohl(h->data.msn), ntohl(h->data.moff), ntohl(h->data.mlen),
			ntohl(h->data.rkey), (uint64_t)be64toh(h->data.roff));
		break;
	case WEFT_OP_FADD:
	case WEFT_OP_CSWAP:
		fprintf(f, " atomic %u key 0x%08x off %" PRIu64 " operand %" PRIu64,
			ntohl(h->atomic.asn), ntohl(h->atomic.rkey),
			(uint64_t)be64toh(h->atomic.roff), (uint64_t)be64toh(h->atomic.operand));
		if (h->op == WEFT_OP_CSWAP)
			fprintf(f, " compare %" PRIu64, (uint64_t)be64toh(h->atomic.compare));
		break;
	case WEFT_OP_WRITES:
		fprintf(f, " len %u msg %u writes %u", ntohs(h->len), ntohl(h->writes.msn),
			ntohl(h->writes.n));
		break;
	case WEFT_OP_REPLY: fprintf(f, " len %u", ntohs(h->len)); /* fallthrough */
	case WEFT_OP_ACK:
		fprintf(f, " cum %u msgs %u", ntohl(h->ack.cum), ntohl(h->ack.msn));
		if (*sack_text(h, sack, sizeof(sack)))
			fprintf(f, " sack %s", sack);
		break;
	case WEFT_OP_NAK:
		fprintf(f, " refused %u", ntohl(h->nak.psn));
		if (h->nak.nth)
			fprintf(f, ".%u", ntohl(h->nak.nth));
		fprintf(f, ": %s", weft_nak_text(ntohl(h->nak.code)));
		break;
	}
	if (*flag_text(h, flags))
		fprintf(f, " [%s]", flags);
}

static void json_of(FILE *f, const struct view *v)
{
	const struct weft_hdr *h = &v->h;
	char flags[32], sack[800];

	fprintf(f, ",\"src\":\"%s\",\"sport\":%u,\"dst\":\"%s\",\"dport\":%u", v->src, v->sport,
		v->dst, v->dport);
	if (!v->has_hdr)
		return;
	fprintf(f, ",\"op\":\"%s\",\"qpn\":%u,\"psn\":%u,\"flags\":\"%s\"", op_name(h->op),
		ntohl(h->dqpn), ntohl(h->psn), flag_text(h, flags));
	switch (h->op) {
	case WEFT_OP_DATA:
	case WEFT_OP_READ:
		fprintf(f,
			",\"payload\":%u,\"msn\":%u,\"moff\":%u,\"mlen\":%u,\"key\":%u,\"roff\":%" PRIu64,
			ntohs(h->len), ntohl(h->data.msn), ntohl(h->data.moff), ntohl(h->data.mlen),
			ntohl(h->data.rkey), (uint64_t)be64toh(h->data.roff));
		if (h->op == WEFT_OP_READ)
			fprintf(f, ",\"rlen\":%u", ntohl(h->data.rlen));
		break;
	case WEFT_OP_FADD:
	case WEFT_OP_CSWAP:
		fprintf(f,
			",\"asn\":%u,\"key\":%u,\"roff\":%" PRIu64 ",\"operand\":%" PRIu64
			",\"compare\":%" PRIu64,
			ntohl(h->atomic.asn), ntohl(h->atomic.rkey),
			(uint64_t)be64toh(h->atomic.roff), (uint64_t)be64toh(h->atomic.operand),
			(uint64_t)be64toh(h->atomic.compare));
		break;
	case WEFT_OP_WRITES:
		fprintf(f, ",\"payload\":%u,\"msn\":%u,\"writes\":%u", ntohs(h->len),
			ntohl(h->writes.msn), ntohl(h->writes.n));
		break;
	case WEFT_OP_REPLY: fprintf(f, ",\"payload\":%u", ntohs(h->len)); /* fallthrough */
	case WEFT_OP_ACK:
		fprintf(f, ",\"cum\":%u,\"msn\":%u,\"sack\":\"%s\"", ntohl(h->ack.cum),
			ntohl(h->ack.msn), sack_text(h, sack, sizeof(sack)));
		break;
	case WEFT_OP_NAK:
		fprintf(f, ",\"code\":%u,\"refused\":%u,\"nth\":%u", ntohl(h->nak.code),
			ntohl(h->nak.psn), ntohl(h->nak.nth));
		break;
	}
}

int capture_line(FILE *f, const char *ifname, const struct weft_cap_rec *r, uint64_t ns)
{
	const char *dir = r->dir == WEFT_CAP_IN ? "in" : "out";
	time_t secs = ns / 1000000000;
	unsigned frac = ns % 1000000000;
	char dev[CLI_QUOTED(IF_NAMESIZE)];
	struct view v;
	struct tm tm;
	bool known;

	known = look(r, &v);
	if (cli.json) {
		fprintf(f, "{\"time\":%" PRIu64 ".%09u,\"dev\":%s,\"dir\":\"%s\",\"bytes\":%u",
			(uint64_t)secs, frac, cli_quoted(ifname, dev, sizeof(dev)), dir, r->len);
		if (known)
			json_of(f, &v);
		fputs("}\n", f);
	} else {
		localtime_r(&secs, &tm);
		fprintf(f, "%02d:%02d:%02d.%09u %s %-3s ", tm.tm_hour, tm.tm_min, tm.tm_sec, frac,
			ifname, dir);
		if (known)
			text_of(f, &v);
		else
			fprintf(f, "a clone without a packet, %u bytes", r->len);
		fputc('\n', f);
	}
	return ferror(f) ? -1 : 0;
}
