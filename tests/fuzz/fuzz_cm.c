// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Messages of connection set-up: any bytes, in any pieces; what is taken is well formed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz: cm: %s\n", what);
	abort();
}

/* In a block of just that size, so that a byte read beyond it is seen. */
static int parse(const uint8_t *data, size_t len, uint16_t type, struct weft_cm_msg *m)
{
	uint8_t *cut = malloc(len ? len : 1);
	int r;

	memcpy(cut, data, len);
	r = weft_cm_parse(cut, len, type, m);
	free(cut);
	return r;
}

/* Formatted again it is the same message: nothing was taken in that cannot be said. */
static void check_taken(const uint8_t *data, int len, const struct weft_cm_msg *m)
{
	uint8_t again[WEFT_CM_MAX];

	must(len >= WEFT_CM_LEN && len <= WEFT_CM_MAX, "a message's length");
	must(m->priv_len <= WEFT_PRIVATE_MAX, "private data");
	if (m->refusal) {
		must(m->type == WEFT_CM_REPLY && !m->priv_len && len == WEFT_CM_LEN, "a refusal");
		return;
	}
	must(m->qpn && m->port, "a peer without a QP or a port");
	must(m->payload >= WEFT_PAYLOAD_MIN && !(m->payload % 64), "payload");
	must(weft_cm_format(m, again) == (size_t)len, "length when formatted again");
	must(!memcmp(again, data, len), "bytes when formatted again");
}

static void fuzz_message(const uint8_t *data, size_t size, uint16_t type)
{
	struct weft_cm_msg m, whole;
	int r = parse(data, size, type, &whole), early = 0;

	must(r == 0 || r == -EPROTO || r == -EPROTONOSUPPORT || (r > 0 && (size_t)r <= size),
	     "an answer that is none");
	if (r > 0)
		check_taken(data, r, &whole);
	/* in pieces: what is decided stays decided, and is decided with no byte more than needed */
	for (size_t n = 0; n <= size; n++) {
		int part = parse(data, n, type, &m);

		must(!early || part == early, "an answer that changes with more bytes");
		must(part <= 0 || (size_t)part <= n, "a message that is longer than what came");
		/* version and magic are looked at first, the rest when it is there */
		if (part > 0 || part == -EPROTO)
			early = part;
	}
	must(!early || early == r, "the whole and its pieces differ");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t code, arrived;

	if (size < 1)
		return 0;
	if (size > 1 + WEFT_CM_MAX + 64)
		size = 1 + WEFT_CM_MAX + 64;
	if (data[0] & 1 && size > WEFT_CM_BYE_LEN) {
		uint8_t again[WEFT_CM_BYE_LEN];

		if (!weft_cm_bye_parse(data + 1, &code, &arrived)) {
			weft_cm_bye_format(code, arrived, again);
			must(!memcmp(again, data + 1, sizeof(again)), "a BYE formatted again");
		}
	}
	fuzz_message(data + 1, size - 1, data[0] & 2 ? WEFT_CM_REPLY : WEFT_CM_REQUEST);
	return 0;
}
