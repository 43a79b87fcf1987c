// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* rawsend: forged, stale, broken and random packets at a live QP, through a packet socket. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <weft/abi.h>

#include "netplan.h"

static const char usage_text[] =
	"usage: rawsend DEV QPN KIND COUNT SEED [GAP_US]\n"
	"       rawsend DEV seen MS      (tagged frames and fragments that reach the host, until SIGTERM)\n"
	"Sends COUNT packets to the peer of QP QPN of DEV (in this network namespace), as if XDP\n"
	"here had sent them; it reads the keys from the pins. KIND is a name below, what is wrong:\n"
	"  version opcode length qpn generation source conn check window unsent truncated csum:\n"
	"             that alone; the drop counter of the peer has the same name\n"
	"  flip       some bits of the header, after its check was made\n"
	"  fuzz       everything random, some of it plausible\n"
	"  stale      a DATA of long ago, all right but for its payload (rx_dup)\n"
	"  short      the frame ends within the header (truncated)\n"
	"  fragment   an IP fragment of a right DATA (passed to the host)\n"
	"  vlan       a VLAN tag around a right DATA (passed to the host)\n";

struct raw {
	struct weft_qpctl ctl;
	struct weft_devcfg cfg;
	uint32_t next;   /* PSN that the QP sends next */
	uint32_t done;   /* PSN before which all is delivered */
	uint32_t expect; /* PSN that it expects from the peer */
	uint64_t rnd;
	bool v6;
};

static int die(const char *object, int err)
{
	fprintf(stderr, "rawsend: %s: %s\n", object, strerror(err));
	exit(1);
}

static void load_map(const char *dev, const char *map, uint32_t key, void *value)
{
	char path[160];
	struct stat st;
	int fd;

	if (stat("/proc/self/ns/net", &st))
		die("netns", errno);
	snprintf(path, sizeof(path), "/sys/fs/bpf/weft/%llu-%s/%s", (unsigned long long)st.st_ino,
		 dev, map);
	fd = bpf_obj_get(path);
	if (fd < 0 || bpf_map_lookup_elem(fd, &key, value))
		die(path, errno);
	close(fd);
}

static void load(struct raw *r, const char *dev, uint32_t qpn)
{
	static struct weft_qptx tx;
	static struct weft_qprx rx;

	load_map(dev, "devcfg", 0, &r->cfg);
	load_map(dev, "qpctl", WEFT_QPN_SLOT(qpn), &r->ctl);
	load_map(dev, "qptx", WEFT_QPN_SLOT(qpn), &tx);
	load_map(dev, "qprx", WEFT_QPN_SLOT(qpn), &rx);
	if (r->ctl.qpn != qpn)
		die("no such QP", ENOENT);
	r->v6 = r->ctl.flags & WEFT_QPF_V6;
	r->next = tx.tx.nxt;
	r->done = tx.tx.una;
	r->expect = rx.rx.next;
}

static uint32_t sum(const void *p, size_t n, uint32_t s)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		s += i & 1 ? b[i] : b[i] << 8;
	return s;
}

static uint16_t fold(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

/* Lengths, checksums, source port; then the frame is one that the peer's XDP takes for UDP to it. */
static void finish_ip(struct raw *r, uint8_t *f, size_t ulen)
{
	uint8_t *ip = f + 14, *udp = ip + (r->v6 ? 40 : 20);
	uint16_t v;
	uint32_t s;

	v = htons(WEFT_EV_PORT0 + np_below(&r->rnd, WEFT_EV_MAX));
	memcpy(udp, &v, 2);
	v = htons(ulen);
	memcpy(udp + 4, &v, 2);
	memset(udp + 6, 0, 2);
	if (r->v6) {
		memcpy(ip + 4, &v, 2);
		s = sum(ip + 8, 32, ulen + IPPROTO_UDP);
	} else {
		v = htons(ulen + 20);
		memcpy(ip + 2, &v, 2);
		memset(ip + 10, 0, 2);
		v = htons(~fold(sum(ip, 20, 0)));
		memcpy(ip + 10, &v, 2);
		s = sum(ip + 12, 8, ulen + IPPROTO_UDP);
	}
	if (r->ctl.flags & WEFT_QPF_CSUM) {
		v = ~fold(sum(udp, ulen, s));
		v = htons(v ? v : 0xffff);
		memcpy(udp + 6, &v, 2);
	}
}

static void set_check(const struct raw *r, struct weft_hdr *h)
{
	__u64 words[8];

	h->check = 0;
	memcpy(words, h, sizeof(words));
	h->check = htonl(weft_check(words, r->ctl.hkey));
}

/* A DATA that is right, but for its PSN being of the past. */
static void right(const struct raw *r, struct weft_hdr *h, uint32_t len)
{
	memset(h, 0, sizeof(*h));
	h->ver = WEFT_WIRE_VER;
	h->op = WEFT_OP_DATA;
	h->flags = WEFT_F_LAST;
	h->dqpn = htonl(r->ctl.dqpn);
	h->conn = htobe64(r->ctl.conn);
	h->psn = htonl(r->done - 1);
	h->len = htons(len);
	h->data.mlen = htonl(len);
}

static void bend(struct raw *r, const char *kind, struct weft_hdr *h, uint32_t *len)
{
	/* just beyond the window, or far away */
	uint32_t psn = r->expect + 100000 + np_below(&r->rnd, 1u << 30);

	if (!strcmp(kind, "version")) {
		h->ver ^= 0x40;
	} else if (!strcmp(kind, "opcode")) {
		h->op = 4 + np_below(&r->rnd, 250);
	} else if (!strcmp(kind, "length")) {
		h->len = htons(*len + 1 + np_below(&r->rnd, 1000));
	} else if (!strcmp(kind, "qpn")) {
		h->dqpn = htonl((r->ctl.dqpn & 0xffff0000) | 200);
	} else if (!strcmp(kind, "generation")) {
		h->dqpn = htonl(r->ctl.dqpn - 0x10000);
	} else if (!strcmp(kind, "conn")) {
		h->conn ^= htobe64(1ull << np_below(&r->rnd, 64));
	} else if (!strcmp(kind, "window")) {
		h->psn = htonl(r->next + 0x40000000);
	} else if (!strcmp(kind, "unsent")) {
		h->op = WEFT_OP_ACK;
		h->flags = 0;
		h->len = 0;
		*len = 0;
		h->psn = htonl(psn);
		memset(&h->data, 0, sizeof(h->data));
		h->ack.cum = htonl(psn + 1);
		h->ack.sack = ~0ull;
		h->ack.sack_base = htonl(psn & ~63u);
	}
}

/* Random, but so that its parts are often nearly right. */
static void fuzz(struct raw *r, uint8_t *f, size_t hl, size_t *flen)
{
	size_t room = *flen - hl + WEFT_HDR_LEN, n;

	if (!np_below(&r->rnd, 3)) { /* nothing of ours behind UDP */
		np_fill(f + hl - WEFT_HDR_LEN, room, np_rand(&r->rnd));
		f[hl - WEFT_HDR_LEN] = np_below(&r->rnd, 4);
		f[hl - WEFT_HDR_LEN + 1] = np_below(&r->rnd, 5);
	}
	for (n = np_below(&r->rnd, 6); n; n--)
		f[hl - WEFT_HDR_LEN + np_below(&r->rnd, WEFT_HDR_LEN)] = np_rand(&r->rnd);
	if (!np_below(&r->rnd, 4)) /* lengths that contradict each other */
		f[hl - WEFT_HDR_LEN - 4 + np_below(&r->rnd, 2)] = np_rand(&r->rnd);
	if (!np_below(&r->rnd, 8))
		f[14 + np_below(&r->rnd, hl - 14 - WEFT_HDR_LEN - 8)] = np_rand(&r->rnd);
	if (!np_below(&r->rnd, 4))
		*flen = 15 + np_below(&r->rnd, *flen - 15);
	/* never right by accident */
	f[hl - WEFT_HDR_LEN + 24] ^= 1 + np_below(&r->rnd, 255);
}

static size_t make(struct raw *r, const char *kind, uint8_t *f)
{
	size_t l4 = r->v6 ? WEFT_V6_LEN : WEFT_V4_LEN, hl = l4 + WEFT_HDR_LEN, flen;
	uint32_t len = np_below(&r->rnd, r->ctl.payload) + 1;
	struct weft_hdr h;
	uint16_t v;

	memcpy(f, r->ctl.tmpl, l4);
	np_fill(f + hl, len, np_rand(&r->rnd));
	right(r, &h, len);
	bend(r, kind, &h, &len);
	set_check(r, &h);
	if (!strcmp(kind, "check"))
		h.check ^= htonl(1u << np_below(&r->rnd, 32));
	if (!strcmp(kind, "flip")) /* not the version's byte: those count as version */
		for (size_t n = 1 + np_below(&r->rnd, 8); n; n--)
			((uint8_t *)&h)[40 + np_below(&r->rnd, 24)] ^= 1 << np_below(&r->rnd, 8);
	memcpy(f + l4, &h, sizeof(h));
	if (!strcmp(kind, "source"))
		f[14 + (r->v6 ? 8 + 15 : 12 + 3)] ^= 0x40;
	flen = hl + len;
	finish_ip(r, f, 8 + WEFT_HDR_LEN + len);
	if (!strcmp(kind, "csum"))
		f[hl + np_below(&r->rnd, len)] ^= 1 << np_below(&r->rnd, 8);
	if (!strcmp(kind, "fuzz"))
		fuzz(r, f, hl, &flen);
	if (!strcmp(kind, "truncated"))
		flen = hl + np_below(&r->rnd, len);
	if (!strcmp(kind, "short"))
		flen = l4 + np_below(&r->rnd, WEFT_HDR_LEN);
	if (!strcmp(kind, "fragment")) {
		f[20] = 0x20; /* more fragments */
		memset(f + 24, 0, 2);
		v = htons(~fold(sum(f + 14, 20, 0)));
		memcpy(f + 24, &v, 2);
	}
	if (!strcmp(kind, "vlan")) {
		memmove(f + 16, f + 12, flen - 12);
		memcpy(f + 12, "\x81\x00\x00\x07", 4);
		flen += 4;
	}
	return flen;
}

static bool known(const char *kind)
{
	static const char *const kinds[] = {
		"version", "opcode", "length", "qpn",    "generation", "source",
		"conn",    "check",  "window", "unsent", "csum",       "truncated",
		"flip",    "fuzz",   "stale",  "short",  "fragment",   "vlan",
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kind, kinds[i]))
			return true;
	return false;
}

/* Count what XDP passed up for a while: IP behind a VLAN tag, and fragments, of UDP to our port. */
static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static int seen(const char *dev, unsigned long ms)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = if_nametoindex(dev) };
	struct timeval tv = { .tv_usec = 50000 };
	unsigned long vlan = 0, fragments = 0;
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
	struct timespec t0, t;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die(dev, errno);
	signal(SIGTERM, on_term); /* nothing more is sent: what is here is read */
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	do {
		uint8_t f[4096], aux[256];
		struct iovec io = { f, sizeof(f) };
		struct msghdr m = { .msg_iov = &io,
				    .msg_iovlen = 1,
				    .msg_control = aux,
				    .msg_controllen = sizeof(aux) };
		ssize_t n = recvmsg(fd, &m, 0);
		struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
		const struct tpacket_auxdata *a = c ? (void *)CMSG_DATA(c) : NULL;

		clock_gettime(CLOCK_MONOTONIC, &t);
		if (n < 0 && ended)
			break;
		if (n < 60)
			continue;
		if ((a && (a->tp_status & TP_STATUS_VLAN_VALID)) || (f[12] == 0x81 && !f[13]))
			vlan++;
		else if (f[12] == 8 && !f[13] && f[23] == IPPROTO_UDP && (f[20] & 0x20))
			fragments++;
	} while ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000 < (long)ms);
	printf("{\"vlan\":%lu,\"fragments\":%lu}\n", vlan, fragments);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	unsigned long count, sent = 0, gap;
	static struct raw r;
	int fd, one = 1;

	if (argc == 4 && !strcmp(argv[2], "seen"))
		return seen(argv[1], strtoul(argv[3], NULL, 0));
	if (argc < 6 || argc > 7 || !known(argv[3])) {
		fputs(usage_text, stderr);
		return 2;
	}
	count = strtoul(argv[4], NULL, 0);
	r.rnd = strtoull(argv[5], NULL, 0);
	gap = argc > 6 ? strtoul(argv[6], NULL, 0) : 0;
	load(&r, argv[1], strtoul(argv[2], NULL, 0));
	if (!strcmp(argv[3], "fragment") && r.v6)
		die("fragment", EAFNOSUPPORT);
	to.sll_ifindex = if_nametoindex(argv[1]);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)))
		die(argv[1], errno);
	while (sent < count) {
		uint8_t frame[4096] = { 0 };
		size_t n;

		if (!strcmp(argv[3], "stale")) /* of a moment ago, while the window moves on */
			load(&r, argv[1], r.ctl.qpn);
		n = make(&r, argv[3], frame);

		if (sendto(fd, frame, n, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)n) {
			sent++;
		} else if (errno != ENOBUFS && errno != EAGAIN) {
			die("sendto", errno);
		}
		if (gap)
			usleep(gap);
	}
	close(fd);
	printf("%lu sent\n", sent);
	return 0;
}
