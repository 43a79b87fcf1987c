// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The pcapng writer: blocks in this machine's byte order, as the format allows. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "pcapng.h"

#define ALIGN4(n) (((n) + 3) & ~3u)

enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, STATISTICS = 5, PACKET = 6 };
enum { LINK_ETHERNET = 1, TSRESOL_NS = 9, VERDICT_XDP = 2 };
enum { /* options; their numbers mean something within their block only */
       OPT_END = 0,
       OPT_COMMENT = 1,
       SHB_OS = 3,
       SHB_USERAPPL = 4,
       IF_NAME = 2,
       IF_DESCRIPTION = 3,
       IF_TSRESOL = 9,
       EPB_FLAGS = 2,
       EPB_VERDICT = 7,
       ISB_STARTTIME = 2,
       ISB_ENDTIME = 3,
       ISB_IFRECV = 4,
       ISB_IFDROP = 5,
};

/* The options of a block, put together before its length can be written. */
struct options {
	size_t n;
	uint8_t buf[1024];
};

static void add(struct options *o, uint16_t code, const void *value, size_t len)
{
	uint16_t head[2] = { code, len };

	/* leave room for the end mark; texts are cut, the rest is short */
	if (o->n + sizeof(head) + ALIGN4(len) + 4 > sizeof(o->buf))
		return;
	memcpy(o->buf + o->n, head, sizeof(head));
	memcpy(o->buf + o->n + sizeof(head), value, len);
	memset(o->buf + o->n + sizeof(head) + len, 0, ALIGN4(len) - len);
	o->n += sizeof(head) + ALIGN4(len);
}

static void add_text(struct options *o, uint16_t code, const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len)
		add(o, code, text, len < 400 ? len : 400);
}

static void add_u64(struct options *o, uint16_t code, uint64_t v)
{
	add(o, code, &v, sizeof(v));
}

/* ISB times come as two halves, the high one first. */
static void add_time(struct options *o, uint16_t code, uint64_t ns)
{
	uint32_t v[2] = { ns >> 32, ns };

	add(o, code, v, sizeof(v));
}

/* A block: its fixed part, data padded to 4 bytes, options. */
static int block(FILE *f, uint32_t type, const void *fixed, size_t fixed_len, const void *data,
		 size_t len, struct options *o)
{
	static const uint8_t zero[4];
	uint32_t total = 12 + fixed_len + ALIGN4(len);
	uint32_t head[2] = { type, 0 };

	if (o->n) {
		add(o, OPT_END, "", 0);
		total += o->n;
	}
	head[1] = total;
	fwrite(head, sizeof(head), 1, f);
	fwrite(fixed, fixed_len, 1, f);
	if (len)
		fwrite(data, len, 1, f);
	fwrite(zero, ALIGN4(len) - len, 1, f);
	fwrite(o->buf, 1, o->n, f);
	fwrite(&total, sizeof(total), 1, f);
	return ferror(f) ? -1 : 0;
}

int pcapng_begin(FILE *f, const char *program)
{
	struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t len[2]; /* of the section: not known */
	} s = { 0x1a2b3c4d, 1, 0, { ~0u, ~0u } };
	struct options o = { 0 };
	struct utsname u;
	char os[200];

	if (!uname(&u)) {
		snprintf(os, sizeof(os), "%s %s", u.sysname, u.release);
		add_text(&o, SHB_OS, os);
	}
	add_text(&o, SHB_USERAPPL, program);
	return block(f, SECTION, &s, sizeof(s), NULL, 0, &o);
}

int pcapng_interface(FILE *f, const char *name, const char *description, uint32_t snap)
{
	struct {
		uint16_t link, pad;
		uint32_t snap;
	} s = { LINK_ETHERNET, 0, snap };
	struct options o = { 0 };
	uint8_t resol = TSRESOL_NS;

	add_text(&o, IF_NAME, name);
	add_text(&o, IF_DESCRIPTION, description);
	add(&o, IF_TSRESOL, &resol, sizeof(resol));
	return block(f, INTERFACE, &s, sizeof(s), NULL, 0, &o);
}

int pcapng_packet(FILE *f, const struct pcapng_packet *p)
{
	uint32_t s[5] = { p->iface, p->ns >> 32, p->ns, p->cap, p->len };
	struct options o = { 0 };
	uint32_t flags = p->dir;

	if (flags)
		add(&o, EPB_FLAGS, &flags, sizeof(flags));
	if (p->verdict >= 0) {
		uint8_t v[9] = { VERDICT_XDP };

		memcpy(v + 1, &p->verdict, 8);
		add(&o, EPB_VERDICT, v, sizeof(v));
	}
	add_text(&o, OPT_COMMENT, p->comment);
	return block(f, PACKET, s, sizeof(s), p->data, p->cap, &o);
}

int pcapng_statistics(FILE *f, uint32_t iface, uint64_t start_ns, uint64_t end_ns, uint64_t seen,
		      uint64_t lost)
{
	uint32_t s[3] = { iface, end_ns >> 32, end_ns };
	struct options o = { 0 };

	add_time(&o, ISB_STARTTIME, start_ns);
	add_time(&o, ISB_ENDTIME, end_ns);
	add_u64(&o, ISB_IFRECV, seen);
	add_u64(&o, ISB_IFDROP, lost);
	return block(f, STATISTICS, s, sizeof(s), NULL, 0, &o);
}
