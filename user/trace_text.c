// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The trace of a QP in words. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

const char *weft_nak_text(uint32_t code)
{
	static const char *const text[] = {
#define X(name, val, text) [val] = text,
		WEFT_NAKS(X)
#undef X
	};

	return code < sizeof(text) / sizeof(text[0]) && text[code] ? text[code] : "unknown refusal";
}

const char *weft_trace_name(unsigned kind)
{
	static const char *const name[] = {
#define X(name) [WEFT_TRACE_##name] = #name,
		WEFT_TRACES(X)
#undef X
	};

	return kind && kind < WEFT_TRACE_COUNT ? name[kind] : "?";
}

static int by_time(const void *a, const void *b)
{
	const struct weft_trace_rec *x = a, *y = b;

	return x->t < y->t ? -1 : x->t > y->t;
}

unsigned weft_trace_sorted(const struct weft_trace *t, struct weft_trace_rec out[WEFT_TRACE_LEN])
{
	unsigned n = 0;

	for (unsigned i = 0; i < WEFT_TRACE_LEN; i++) {
		out[n] = t->rec[i];
		if (out[n].kind && out[n].kind < WEFT_TRACE_COUNT)
			n++;
	}
	qsort(out, n, sizeof(*out), by_time);
	return n;
}

/* How a QP failed: the status, and what is behind it. */
static void failure(const struct weft_trace_rec *r, char *buf, size_t len)
{
	const char *why = NULL;
	int n;

	if ((r->x & 0xff) == WEFT_WC_FLUSH_ERR) {
		snprintf(buf, len, "failed: aborted by the application, %u requests flushed", r->b);
		return;
	}
	n = snprintf(buf, len, "failed: %s", weft_wc_str(r->x & 0xff));
	switch (r->x >> 8) {
	case WEFT_TX_ERR_NAK: why = weft_nak_text(r->a); break;
	case WEFT_TX_ERR_LOCAL: why = "local key, bounds or rights"; break;
	case WEFT_TX_ERR_RING: why = "send queue is corrupt"; break;
	}
	if (r->x >> 8 == WEFT_TRACE_WE && n > 0 && (size_t)n < len)
		n += snprintf(buf + n, len - n, ", we refused the peer: %s", weft_nak_text(r->a));
	if (why && n > 0 && (size_t)n < len)
		n += snprintf(buf + n, len - n, ", %s (request %u)", why, r->b);
	if (r->c && n > 0 && (size_t)n < len)
		snprintf(buf + n, len - n,
			 (r->x & 0xff) == WEFT_WC_RNR_RETRY_EXC_ERR ? ", for %u ms"
								    : ", no progress for %u ms",
			 r->c);
}

const char *weft_trace_text(const struct weft_trace_rec *r, char *buf, size_t len)
{
	static const char *const lost[] = {
		[WEFT_LOST_GONE] = "the interface is gone",
		[WEFT_LOST_DOWN] = "weft was taken down on the interface",
		[WEFT_LOST_DOORBELL] = "the interface's doorbell was removed",
		[WEFT_LOST_PROG] = "the XDP program was unloaded from the interface",
	};
	const char *s = r->c == 1 ? "" : "s";
	double span = r->span / 1e3;

	switch ((enum weft_trace_kind)r->kind) {
	case WEFT_TRACE_connected:
		snprintf(buf, len, "connected: payload %u B, window %u packets", r->a, r->b);
		break;
	case WEFT_TRACE_first_ack:
		snprintf(buf, len, "first packet acknowledged: PSN %u after %.1f us", r->a,
			 ((uint64_t)r->b << WEFT_TS_SHIFT) / 1e3);
		break;
	case WEFT_TRACE_retx:
		if (r->count == 1)
			snprintf(buf, len, "PSN %u sent again", r->a);
		else
			snprintf(buf, len,
				 "%u packets sent again within %.1f ms, PSN %u first, %u last",
				 r->count, span, r->a, r->b);
		break;
	case WEFT_TRACE_rto:
		if (r->count == 1)
			snprintf(
				buf, len,
				"rto #%u: %u packet%s not acknowledged, oldest PSN %u sent %.1f ms ago",
				r->x, r->c, s, r->a, r->b / 1e3);
		else
			snprintf(buf, len,
				 "rto #%u, %u times within %.1f ms: %u packet%s not acknowledged, "
				 "oldest PSN %u",
				 r->x, r->count, span, r->c, s, r->a);
		break;
	case WEFT_TRACE_nak:
		snprintf(buf, len, "the peer refused PSN %u: %s (NAK code %u)", r->b,
			 weft_nak_text(r->a), r->a);
		break;
	case WEFT_TRACE_refused:
		snprintf(buf, len, "we refused the peer's PSN %u: %s (NAK code %u)", r->b,
			 weft_nak_text(r->a), r->a);
		break;
	case WEFT_TRACE_local:
		snprintf(buf, len, "request %u: local key, bounds or rights", r->a);
		break;
	case WEFT_TRACE_owner:
		snprintf(buf, len, "the owner is dead: %u packets dropped within %.1f ms", r->count,
			 span);
		break;
	case WEFT_TRACE_cwnd:
		snprintf(buf, len, "window set from %u to %u packets", r->a, r->b);
		break;
	case WEFT_TRACE_link: snprintf(buf, len, "the link is %s", r->x ? "up" : "down"); break;
	case WEFT_TRACE_device:
		snprintf(buf, len, "%s",
			 r->x < sizeof(lost) / sizeof(lost[0]) ? lost[r->x] : "interface lost");
		break;
	case WEFT_TRACE_bye:
		snprintf(buf, len, "the peer has ended the connection: %s; it has %u messages",
			 weft_nak_text(r->a), r->b);
		break;
	case WEFT_TRACE_peer_gone:
		snprintf(buf, len, "the peer is gone without a word: process or host died");
		break;
	case WEFT_TRACE_failed: failure(r, buf, len); break;
	case WEFT_TRACE_died: snprintf(buf, len, "its process was found dead"); break;
	case WEFT_TRACE_closed:
		snprintf(buf, len, "%s by the application", r->x ? "disconnected" : "closed");
		break;
	default: snprintf(buf, len, "event %u", r->kind);
	}
	return buf;
}
