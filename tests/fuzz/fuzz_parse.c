// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Any bytes as a frame at every program: nothing is read beyond it, and who drops counts it once. */
#include "model.h"

/* Give a frame what it needs to get further than the first check: the header check, and the sum. */
static void make_genuine(struct frame *f, uint32_t hl)
{
	union {
		struct weft_hdr h;
		__u64 w[8];
	} u;

	memcpy(u.w, f->b + hl - WEFT_HDR_LEN, sizeof(u));
	for (int i = 0; i < FX_QPS; i++)
		if (fx.qp[i].slot == (ntohl(u.h.dqpn) & 0xffff)) {
			u.h.check = htonl(weft_check(u.w, fx.qp[i].ctl->hkey));
			memcpy(f->b + hl - WEFT_HDR_LEN, u.w, sizeof(u));
		}
	if (f->b[12] == 0x86 && (f->b[58] << 8 | f->b[59]) >= 8 &&
	    (f->b[58] << 8 | f->b[59]) + 54u <= f->len)
		pkt_csum(f);
}

/* All of them live on what parse() leaves: the wrong bytes must not get through it. */
static void at_nic(const struct frame *f)
{
	struct judged j;

	model_judge(f, &j);
	fx_run(FX_NIC, f);
	if (fx.verdict == XDP_ABORTED)
		fuzz_fail("XDP_ABORTED");
	if (j.verdict == XDP_PASS && j.qp < 0 && (fx.verdict != XDP_PASS || drops()))
		fuzz_fail("verdict %d for what is not ours", fx.verdict);
	if (j.drop >= 0 && fx.diff[j.drop] != 1)
		fuzz_fail("drop %d is not counted", j.drop);
	if (j.verdict == XDP_TX && fx.verdict != XDP_TX)
		fuzz_fail("verdict %d for a packet that has an answer", fx.verdict);
	if (j.write)
		backend_atomic(j.roff, j.now);
	else
		backend_scattered(j.span, j.nspan, f->b + j.at);
}

/* Doorbells and templates: a frame that is none is dropped, or passed by weft_fill. */
static void at_doorbell(const struct frame *f, uint32_t what)
{
	static const enum fx_prog prog[] = { FX_DB, FX_FILL, FX_CPU, FX_SINK };
	enum fx_prog p = prog[what % 4];
	bool is = f->len >= 14 + sizeof(struct weft_db) && f->b[12] == 0x88 && f->b[13] == 0xb5 &&
		  !memcmp(f->b + 14, &(uint32_t){ WEFT_DB_MAGIC }, 4);

	fx_run(p, f);
	if (drops() > 1)
		fuzz_fail("%lld drops for one frame", (long long)drops());
	if (!is && p == FX_FILL && (fx.verdict != XDP_PASS || drops()))
		fuzz_fail("what is no template is not passed on");
	if (!is && p != FX_FILL && p != FX_SINK && (fx.verdict != XDP_DROP || !DROPPED(doorbell)))
		fuzz_fail("what is no doorbell is taken for one");
	backend_written(0, NULL, 0);
}

void fuzz_parse(struct input *in)
{
	static struct frame f;
	uint32_t what = take8(in), hl;
	size_t n = in->end - in->p;

	fx_reset(NULL);
	model_reset();
	f.len = n < 14 ? 14 : n > FUZZ_FRAME ? FUZZ_FRAME : n;
	memset(f.b, 0, 14);
	memcpy(f.b, in->p, n < f.len ? n : f.len);
	fx_post(&fx.qp[A4], 0, 0, 1000);
	fx_post(&fx.qp[B6], 5000, 0, 10000);
	hl = f.b[12] == 0x86 ? WEFT_V6_LEN + WEFT_HDR_LEN : WEFT_V4_LEN + WEFT_HDR_LEN;
	for (int i = 0; what & 8 && i < FX_QPS; i++) {
		struct fx_rq *rq = fx_recv_on(&fx.qp[i], what & 16);

		fx_recv(rq, &(struct fx_piece){ 1000 * i, 2000 }, 1);
	}
	if (what & 1 && f.len >= hl)
		make_genuine(&f, hl);
	if (what & 0x80) /* somebody looks on */
		fx.cfg->flags |= WEFT_DEV_CAPTURE;
	backend_headroom(what & 2 ? 256 : 40);
	if (what & 4)
		at_doorbell(&f, what >> 3);
	else
		at_nic(&f);
}
