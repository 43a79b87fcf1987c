/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* netops: requests that must be refused, here or by the peer, and change no byte. */
#ifndef NETREFUSED_H
#define NETREFUSED_H

#include "netops.h"

static void refused(struct weft_dev *dev, const char *addr, const char *what, struct weft_wr wr,
		    enum weft_wc_status want)
{
	struct client c = { .dev = dev };
	struct weft_sge g;
	struct weft_wc wc;

	join(&c, addr);
	memset(c.mem, 0x77, 4096);
	g = (struct weft_sge){ .mr = c.mr, .off = 0, .len = wr.op == WEFT_WR_READ ? 100 : 8 };
	wr.sge = &g;
	wr.nsge = 1;
	wr.rkey = wr.rkey ? c.h.shut : c.h.key;
	wr.wr_id = c.ids = 1;
	if (post(&c, &wr, 1)) {
		wc = reap(&c, wr.op, g.len);
		say("%s: %s", what, weft_wc_str(wc.status));
		if (wc.status != want)
			bad("%s: \"%s\" instead of \"%s\"", what, weft_wc_str(wc.status),
			    weft_wc_str(want));
	}
	for (int i = 0; i < 4096; i++)
		if (c.mem[i] != 0x77) {
			bad("%s: memory has changed", what);
			break;
		}
	weft_qp_close(c.qp);
}

static void local_errors(struct weft_dev *dev, const char *addr)
{
	struct client c = { .dev = dev };
	struct weft_sge g[9];
	struct weft_wr wr = { .sge = g, .nsge = 1 };
	struct {
		const char *what;
		struct weft_wr wr;
		struct weft_sge g;
	} no[] = {
		{ "READ into a source", { .op = WEFT_WR_READ }, { .len = 8 } },
		{ "op 99", { .op = 99 }, { .len = 8 } },
		{ "flags", { .flags = 0x8000 }, { .len = 8 } },
		{ "an atomic of 4 bytes", { .op = WEFT_WR_FETCH_ADD }, { .len = 4 } },
		{ "bounds", { .op = WEFT_WR_WRITE }, { .off = MEM - 4, .len = 8 } },
		{ "no pieces", { .nsge = 99 }, { .len = 8 } },
	};

	join(&c, addr);
	for (unsigned i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		wr = no[i].wr;
		g[0] = no[i].g;
		g[0].mr = wr.op == WEFT_WR_FETCH_ADD ? c.mr : c.source;
		wr.sge = g;
		wr.nsge = wr.nsge ? 9 : 1;
		if (weft_post(c.qp, &wr, 1) != -EINVAL)
			bad("%s: not refused", no[i].what);
		else
			say("%s: %s", no[i].what, weft_strerror_last());
	}
	weft_qp_close(c.qp);
}

static void says(int r, const char *text)
{
	if (r != -EINVAL || !strstr(weft_strerror_last(), text))
		bad("%d, \"%s\" instead of \"%s\"", r, weft_strerror_last(), text);
}

/* What is missing is named, and so is the QP. */
static void nulls(struct weft_dev *dev, const char *addr)
{
	struct weft_qp_opts o = { .size = sizeof(o), .priv_len = 8 };
	struct weft_qp_stats st = { 0 };
	struct client c = { .dev = dev };
	struct weft_sge g = { .len = 8 };
	struct weft_wr wr = { .nsge = 1 };
	struct weft_qp *qp;
	char name[40];

	join(&c, addr);
	snprintf(name, sizeof(name), " qp 0x%x: ", weft_qp_num(c.qp));
	says(weft_post(NULL, &wr, 1), "an argument is NULL");
	says(weft_post(c.qp, NULL, 1), "an argument is NULL");
	says(weft_post_writes(c.qp, NULL, 1), "an argument is NULL");
	says(weft_post(c.qp, &wr, 1), "sge is NULL, and nsge 1;");
	says(weft_post(c.qp, &wr, 1), name);
	wr.sge = &g;
	says(weft_post(c.qp, &wr, 1), "mr is NULL");
	says(weft_post(c.qp, &wr, 1), name);
	wr = (struct weft_wr){ .flags = WEFT_WR_INLINE, .len = 8 };
	says(weft_post(c.qp, &wr, 1), "data is NULL, and len 8;");
	says(weft_qp_stats(c.qp, &st), "set their size");
	says(weft_qp_stats(c.qp, NULL), "an argument is NULL");
	says(weft_connect(dev, addr, &o, &qp), "priv is NULL, and priv_len 8;");
	o.priv_len = 0;
	o.strict = 2;
	says(weft_connect(dev, addr, &o, &qp), "strict is 2; 0 or 1");
	weft_qp_close(c.qp);
}

static int errors(const char *ifname, const char *addr)
{
	struct weft_dev *dev;

	need(weft_open(ifname, NULL, &dev), "weft_open");
	local_errors(dev, addr);
	nulls(dev, addr);
	refused(dev, addr, "READ without the right",
		(struct weft_wr){ .op = WEFT_WR_READ, .rkey = 1 }, WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "READ across the end",
		(struct weft_wr){ .op = WEFT_WR_READ, .roff = REGION - 99 },
		WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "atomic without the right",
		(struct weft_wr){ .op = WEFT_WR_FETCH_ADD, .rkey = 1 }, WEFT_WC_REM_ACCESS_ERR);
	refused(dev, addr, "atomic at an odd address",
		(struct weft_wr){ .op = WEFT_WR_CMP_SWAP, .roff = AT_COUNT + 4 },
		WEFT_WC_REM_ACCESS_ERR);
	weft_close(dev);
	return wrong != 0;
}

#endif
