/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Part of model.c: what must become of several WRITEs in a packet. */
/* Several WRITEs: descriptors behind the header, then the bytes of each. */
static void judge_writes(const uint8_t *w, struct judged *j, uint32_t plen)
{
	struct model_rx *rx = &model.rx[j->qp];
	const struct weft_qpctl *ctl = fx.qp[j->qp].ctl;
	uint32_t psn = be(w + 16, 4), n = be(w + 32, 4), sum = 0, code;
	const uint8_t *d = w + 64;
	int32_t ahead = psn - rx->next;
	union {
		uint8_t b[128];
		__u64 w[16];
	} words = { .b = { 0 } };
	int why;

	if (ctl->state != WEFT_QP_RTS)
		return nak(j, WEFT_DROP_closed, WEFT_NAK_CLOSED, psn);
	if (!(ctl->flags & WEFT_QPF_MANY))
		return dropped(j, WEFT_DROP_opcode);
	if (n < 2 || n > 8 || !(w[2] & WEFT_F_LAST) || plen < 16 * n)
		return dropped(j, WEFT_DROP_length);
	memcpy(words.b, d, 16 * n);
	if (weft_check_block(words.w, ctl->hkey, -1) != be(w + 40, 4) ||
	    weft_check_block(words.w + 8, ctl->hkey, -1) != be(w + 44, 4))
		return dropped(j, WEFT_DROP_check);
	for (uint32_t i = 0; i < n; i++) {
		if (be(d + 16 * i + 4, 4) > 256)
			return dropped(j, WEFT_DROP_length);
		sum += be(d + 16 * i + 4, 4);
	}
	if (plen != 16 * n + sum)
		return dropped(j, WEFT_DROP_length);
	if (rx->err)
		return nak(j, WEFT_DROP_closed, rx->err, rx->err_psn);
	if (ahead >= WEFT_WIN)
		return dropped(j, WEFT_DROP_window);
	if (ahead < 0 || rx->placed[psn % WEFT_WIN])
		return replied(j, WEFT_OP_ACK, false);
	j->data = 16 * n;
	for (uint32_t i = 0; i < n; i++, d += 16) {
		uint32_t len = be(d + 4, 4);
		uint64_t roff = be(d + 8, 8);

		code = judge_target(be(d, 4), ctl->pd, WEFT_ACCESS_REMOTE_WRITE, roff, 0, len,
				    &why);
		if (!code && len && !model.pool) {
			why = WEFT_DROP_memory;
			code = WEFT_NAK_MEMORY;
		}
		if (code) {
			rx->err_nth = i;
			/* those before it have arrived */
			rx->msn += psn == rx->next ? i : 0;
			rx->arrived += psn == rx->next ? i : 0;
			return refused(j, why, code, psn);
		}
		j->span[j->nspan++] = (struct span){ roff, len };
	}
	replied(j, WEFT_OP_ACK, true);
	j->len = sum;
	j->many = n;
}
