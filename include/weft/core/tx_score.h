/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send scoreboard: claims segments for tokens, scores ACKs, convicts losses. */
#ifndef WEFT_CORE_TX_SCORE_H
#define WEFT_CORE_TX_SCORE_H

#include <weft/core/cc.h>
#include <weft/core/path.h>
#include <weft/core/psn.h>
#include <weft/core/rtt.h>

/*
 * Vocabulary. A frame that carries a segment out and its ACK back is a token.
 * Every PSN of the window is in one of these states:
 *
 *   OUT    a token for it is in flight (counted in `inflight`)
 *   LOST   convicted, waits to be sent again (bit in `lost`, counted in `nlost`)
 *   IDLE   neither: never sent, or delivered
 *
 * and may in addition be delivered (older than `una`, or a bit in `delivered`).
 * A token comes back with the ACK of its own PSN; what other ACKs say about a
 * PSN (cum, SACK) marks it delivered but leaves its token out, until the token
 * returns or is convicted. So a token is never created twice for a packet whose
 * ACK is merely behind another CPU's.
 *
 * Conviction follows RACK (RFC 8985) within an ordering domain, the queue or
 * CPU that a token was sent from: order mostly holds inside one, and never
 * between two, since either may be descheduled. The tokens of a domain form a
 * list in sending order; its oldest is convicted when a packet of the domain
 * that was sent more than a reorder window later has been acknowledged, or when
 * the retransmission timer has passed. Thus conviction never has to search, no
 * matter how many domains there are or what else they have sent.
 *
 * Everything here runs under the QP's transmit lock.
 */
#define WEFT_SQ_DEPTH 256 /* work requests a QP holds */
#define WEFT_DOMAINS 16

enum weft_slot_state { WEFT_SLOT_IDLE = 0, WEFT_SLOT_OUT, WEFT_SLOT_LOST };

/* A work request as it stands in the send queue. */
struct weft_wqe {
	__u64 loff; /* source: offset from the local MR's start */
	__u64 roff; /* target: offset from the remote MR's start */
	__u32 len; /* 0 to WEFT_MSG_MAX */
	__u32 lkey, rkey;
	__u32 flags; /* 0 */
};

/* One PSN of the window: half a cache line, and its neighbour there is half a window away. */
struct weft_tx_slot {
	__u32 ssn; /* which work request */
	__u32 seg; /* which segment of it */
	__u32 ts; /* when it last went out */
	__u16 prev, next; /* neighbours in the list of its domain, while it is out */
	__u8 state; /* enum weft_slot_state */
	__u8 dom; /* ordering domain of its last transmission */
	__u8 ev;
	__u8 tries; /* transmissions, saturating */
	__u8 rescued; /* sent again only because its CPU did not move */
	__u8 pad[11];
};

/* An ordering domain, on a cache line of its own: as a rule one CPU writes it. */
struct weft_tx_dom {
	__u32 rack_ts; /* newest send time acknowledged */
	__u32 out; /* tokens in flight: the length of the list */
	__u16 head; /* the oldest of them, while there are any */
	__u16 tail; /* the newest */
	__u32 growing; /* tokens asked for that have not claimed yet */
	__u32 grow_ts; /* since when */
	__u32 pad[11];
};

struct weft_tx {
	/* every packet */
	__u32 nxt; /* next PSN to assign */
	__u32 una; /* oldest PSN not known to be delivered */
	__u32 inflight; /* PSNs in state OUT */
	__u32 nlost; /* PSNs in state LOST */
	__u32 cons; /* work request being cut into segments */
	__u32 seg; /* its next segment */
	__u32 done; /* work requests wholly delivered, in order */
	__u32 payload; /* bytes in a full segment */
	__u32 err; /* enum weft_tx_err */
	__u32 hint; /* mirror of the hint in the shared ring */
	__u32 last_ack; /* when the peer last acknowledged something, ticks */
	struct weft_rtt rtt;
	struct weft_path path;
	__u64 packets;
	struct weft_cc cc;
	__u32 told_done, told_una; /* what the shared ring says */
	/* now and then */
	__u32 err_info; /* NAK code, or what the library passed */
	__u32 err_ssn; /* work request that failed */
	__u32 last_move; /* when a token was last started on another CPU, ticks */
	__u32 losses; /* PSNs convicted and not delivered, ever */
	__u32 surplus; /* tokens that were not expected back, ever */
	__u32 looked; /* domain that the last time-out looked at */
	__u32 stuck; /* domain that was last rescued from */
	__u32 pad;
	__u64 retransmits, spurious, timeouts, ce;
	__u64 delivered[WEFT_WIN_WORDS];
	__u64 lost[WEFT_WIN_WORDS];
	struct weft_tx_dom dom[WEFT_DOMAINS];
	struct weft_tx_slot slot[WEFT_WIN]; /* by weft_tx_at() */
	struct weft_wqe wqe[WEFT_SQ_DEPTH]; /* private copies, taken with the first segment */
};

enum weft_tx_err {
	WEFT_TX_OK = 0,
	WEFT_TX_ERR_NAK, /* the peer refused; err_info: enum weft_nak */
	WEFT_TX_ERR_LOCAL, /* local key, bounds or rights */
	WEFT_TX_ERR_RING, /* the send queue is corrupt */
};

enum weft_claim {
	WEFT_CLAIM_OK,
	WEFT_CLAIM_EMPTY, /* nothing to send */
	WEFT_CLAIM_CWND, /* window full */
	WEFT_CLAIM_WINDOW, /* PSN window full: wait for the oldest */
	WEFT_CLAIM_ERROR, /* the QP is in error */
};

/* A segment to send. */
struct weft_seg {
	__u64 loff, roff; /* of this segment, from the MRs' starts */
	__u32 lkey, rkey;
	__u32 psn, msn;
	__u32 moff, mlen, len;
	__u8 flags; /* WEFT_F_* */
	__u8 ev;
	__u8 from; /* domain that lost `freed` tokens to this claim */
	__u8 freed;
};

/* An ACK, as received. */
struct weft_ack {
	__u32 psn, ts, cum, msn, sack_base;
	__u64 sack;
	__u8 flags;
};

/*
 * What scoring an ACK, or a time-out, did. Differences of counters in memory,
 * not counted up: a verifier that knew the values would walk every combination.
 */
struct weft_score {
	__u32 freed; /* tokens that left `inflight`, all of domain `dom` */
	__u32 dom;
	__u32 lost; /* PSNs convicted and not delivered */
	__u32 progress; /* work requests completed */
	__u32 surplus; /* 1: the token was not expected: convicted before, or a duplicate */
};

weft_inline void weft_tx_init(struct weft_tx *tx, __u32 psn0, __u32 payload, __u32 nev)
{
	__builtin_memset(tx, 0, sizeof(*tx));
	tx->nxt = tx->una = psn0;
	tx->payload = payload;
	tx->cc.cwnd = WEFT_CWND_DEFAULT;
	weft_path_init(&tx->path, nev);
}

/*
 * A PSN's place in the window: neighbours lie on different cache lines, since
 * different CPUs are busy with them at the same time.
 */
weft_inline __u32 weft_tx_at(__u32 psn)
{
	return (psn << 1 | (psn / (WEFT_WIN / 2) & 1)) & (WEFT_WIN - 1);
}

/* The PSN that has place `at`, of those older than nxt. */
weft_inline __u32 weft_tx_psn(const struct weft_tx *tx, __u32 at)
{
	__u32 low = at >> 1 | (at & 1) * (WEFT_WIN / 2), newest = tx->nxt - 1;

	return newest - ((newest - low) & (WEFT_WIN - 1));
}

weft_inline int weft_tx_delivered(const struct weft_tx *tx, __u32 psn)
{
	return weft_psn_diff(psn, tx->una) < 0 ||
	       (tx->delivered[weft_psn_word(psn)] & weft_psn_bit(psn));
}

/* Cut segment `seg` out of work request `ssn`. */
weft_inline void weft_tx_segment(const struct weft_tx *tx, __u32 psn, __u32 ssn, __u32 seg,
				 struct weft_seg *out)
{
	const struct weft_wqe *q = &tx->wqe[ssn & (WEFT_SQ_DEPTH - 1)];
	__u32 moff = seg * tx->payload;
	__u32 left = q->len - moff;

	out->psn = psn;
	out->msn = ssn;
	out->moff = moff;
	out->mlen = q->len;
	out->len = left < tx->payload ? left : tx->payload;
	out->loff = q->loff + moff;
	out->roff = q->roff + moff;
	out->lkey = q->lkey;
	out->rkey = q->rkey;
	out->flags = left <= tx->payload ? WEFT_F_LAST : 0;
}

/*
 * Packets that could be sent now if there were tokens: what is lost plus what
 * is queued, within the windows; at most 64. The deficit of I10.
 */
weft_inline __u32 weft_tx_deficit(const struct weft_tx *tx, const struct weft_wqe *sq, __u32 prod,
				  __u32 wnd)
{
	__u32 want = tx->nlost, queued = prod - tx->cons, room;

	if (tx->err || tx->inflight >= wnd)
		return 0;
	if (queued && queued <= WEFT_SQ_DEPTH && want < 64) {
		__u32 len = *(volatile __u32 *)&sq[tx->cons & (WEFT_SQ_DEPTH - 1)].len;
		__u32 sent = tx->seg * tx->payload;
		__u32 n = 1, used = tx->nxt - tx->una;

		if (len > sent && len <= WEFT_MSG_MAX)
			n = (len - sent + tx->payload - 1) / tx->payload;
		n += queued - 1;
		room = used < WEFT_WIN ? WEFT_WIN - used : 0;
		want += n < room ? n : room;
	}
	room = wnd - tx->inflight;
	want = want < room ? want : room;
	return want < 64 ? want : 64;
}

/* Oldest lost PSN; call with nlost != 0. */
weft_inline __u32 weft_tx_first_lost(const struct weft_tx *tx)
{
	__u32 base = tx->una & ~63u;

	for (int i = 0; i <= WEFT_WIN_WORDS; i++) {
		__u64 bits = tx->lost[weft_psn_word(base)];

		if (i == 0)
			bits &= ~(weft_psn_bit(tx->una) - 1);
		if (bits)
			return base + weft_ctz(bits);
		base += 64;
	}
	return tx->una;
}

/* The segment in slot s, PSN psn, goes out now: the newest token of its domain. */
weft_inline void weft_tx_list(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn, __u32 now,
			      __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];
	__u32 at = weft_tx_at(psn), tail = d->tail & (WEFT_WIN - 1);

	s->ts = now;
	s->prev = tail;
	s->state = WEFT_SLOT_OUT;
	s->dom = dom & (WEFT_DOMAINS - 1);
	if (s->tries != 255)
		s->tries++;
	if (d->out++) {
		tx->slot[tail].next = at;
	} else {
		d->head = at;
		/* what an idle domain saw last may be half a clock away */
		d->rack_ts = now;
	}
	d->tail = at;
	tx->inflight++;
	tx->packets++;
}

/* The token of slot s, PSN psn, is no longer out. */
weft_inline void weft_tx_unlist(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn)
{
	struct weft_tx_dom *d = &tx->dom[s->dom & (WEFT_DOMAINS - 1)];
	__u32 prev = s->prev & (WEFT_WIN - 1), next = s->next & (WEFT_WIN - 1);
	__u32 at = weft_tx_at(psn);

	if (d->head == at)
		d->head = next;
	else
		tx->slot[prev].next = next;
	if (d->tail == at)
		d->tail = prev;
	else
		tx->slot[next].prev = prev;
	s->state = WEFT_SLOT_IDLE;
	d->out--;
	tx->inflight--;
}

/*
 * The PSN window is full because the tokens of another CPU do not come back: it
 * has been busy with something else for long. Send its oldest from here instead
 * of waiting; what of it was delivered meanwhile needs no sending. Nothing is
 * deemed lost, so nothing is learnt about the network.
 */
weft_inline enum weft_claim weft_tx_rescue(struct weft_tx *tx, __u32 now, __u32 dom,
					   struct weft_seg *out)
{
	__u32 from = tx->slot[weft_tx_at(tx->una)].dom, limit = 2 * weft_reo_wnd(&tx->rtt), was;
	enum weft_claim r = WEFT_CLAIM_WINDOW;
	struct weft_tx_dom *d;

	if (from == dom)
		from = tx->stuck;
	if (from == dom)
		return r;
	d = &tx->dom[from & (WEFT_DOMAINS - 1)];
	was = d->out;
	for (int i = 0; i < 4 && d->out && r == WEFT_CLAIM_WINDOW; i++) {
		__u32 at = d->head & (WEFT_WIN - 1), psn = weft_tx_psn(tx, at);
		struct weft_tx_slot *s = &tx->slot[at];

		if (weft_psn_diff(now, s->ts) <= (__s32)limit)
			break;
		weft_tx_unlist(tx, s, psn);
		if (weft_tx_delivered(tx, psn))
			continue;
		tx->stuck = from;
		s->rescued = 1;
		s->ev = out->ev = weft_path_pick(&tx->path);
		weft_tx_segment(tx, psn, s->ssn, s->seg, out);
		out->flags |= WEFT_F_RETX;
		tx->retransmits++;
		weft_tx_list(tx, s, psn, now, dom);
		r = WEFT_CLAIM_OK;
	}
	out->from = from;
	out->freed = was - d->out;
	return r;
}

/*
 * Claim the next segment for a token in domain `dom`: the oldest lost PSN, else
 * a new one. sq is shared with the application and untrusted: each field is
 * read once. now: ticks.
 */
weft_inline enum weft_claim weft_tx_claim(struct weft_tx *tx, const struct weft_wqe *sq, __u32 prod,
					  __u32 wnd, __u32 now, __u32 dom, struct weft_seg *out)
{
	struct weft_tx_slot *s;
	struct weft_wqe *q;
	__u32 psn;

	out->freed = 0;
	if (tx->err)
		return WEFT_CLAIM_ERROR;
	/* another CPU may have read a newer prod, and claimed, since this one was read */
	if (!tx->nlost && weft_psn_diff(prod, tx->cons) <= 0)
		return WEFT_CLAIM_EMPTY;
	if (tx->inflight >= wnd)
		return WEFT_CLAIM_CWND;

	if (tx->nlost) {
		psn = weft_tx_first_lost(tx);
		s = &tx->slot[weft_tx_at(psn)];
		tx->lost[weft_psn_word(psn)] &= ~weft_psn_bit(psn);
		tx->nlost--;
		s->ev = out->ev = weft_path_pick(&tx->path);
		weft_tx_segment(tx, psn, s->ssn, s->seg, out);
		out->flags |= WEFT_F_RETX;
		tx->retransmits++;
		weft_tx_list(tx, s, psn, now, dom);
		return WEFT_CLAIM_OK;
	}

	psn = tx->nxt;
	s = &tx->slot[weft_tx_at(psn)];
	if (psn - tx->una >= WEFT_WIN || s->state == WEFT_SLOT_OUT)
		return weft_tx_rescue(tx, now, dom, out);
	if (prod - tx->done > WEFT_SQ_DEPTH) {
		tx->err = WEFT_TX_ERR_RING;
		tx->err_ssn = tx->cons;
		return WEFT_CLAIM_ERROR;
	}
	q = &tx->wqe[tx->cons & (WEFT_SQ_DEPTH - 1)];
	if (!tx->seg) {
		const volatile struct weft_wqe *src = &sq[tx->cons & (WEFT_SQ_DEPTH - 1)];

		q->loff = src->loff;
		q->roff = src->roff;
		q->len = src->len;
		q->lkey = src->lkey;
		q->rkey = src->rkey;
		if (q->len > WEFT_MSG_MAX) {
			tx->err = WEFT_TX_ERR_RING;
			tx->err_ssn = tx->cons;
			return WEFT_CLAIM_ERROR;
		}
	}
	s->ssn = tx->cons;
	s->seg = tx->seg;
	s->tries = 0;
	s->rescued = 0;
	s->ev = out->ev = weft_path_pick(&tx->path);
	weft_tx_segment(tx, psn, s->ssn, s->seg, out);
	if (out->flags & WEFT_F_LAST) {
		tx->cons++;
		tx->seg = 0;
	} else {
		tx->seg++;
	}
	tx->nxt++;
	weft_tx_list(tx, s, psn, now, dom);
	return WEFT_CLAIM_OK;
}

/*
 * Tokens that have been asked for in a domain and will claim soon: until they
 * have, what is missing must not be asked for again. Clones that got lost on
 * the way are forgotten after a while.
 */
weft_inline __u32 weft_tx_growing(struct weft_tx *tx, __u32 dom, __u32 now)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	if (d->growing && now - d->grow_ts > WEFT_TICKS_US(500))
		d->growing = 0;
	return d->growing;
}

weft_inline void weft_tx_grow(struct weft_tx *tx, __u32 dom, __u32 n, __u32 now)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	d->growing += n;
	d->grow_ts = now;
}

/* One of them has come to claim. */
weft_inline void weft_tx_grown(struct weft_tx *tx, __u32 dom)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	if (d->growing)
		d->growing--;
}

/* A token will not come back. */
weft_inline void weft_tx_convict(struct weft_tx *tx, struct weft_tx_slot *s, __u32 psn)
{
	weft_tx_unlist(tx, s, psn);
	if (weft_tx_delivered(tx, psn))
		return;
	s->state = WEFT_SLOT_LOST;
	tx->lost[weft_psn_word(psn)] |= weft_psn_bit(psn);
	tx->nlost++;
	tx->losses++;
	weft_path_lost(&tx->path, s->ev);
}

/* Note delivered PSNs among bits of the word at base (multiple of 64). */
weft_inline void weft_tx_mark(struct weft_tx *tx, __u32 base, __u64 bits)
{
	__u32 w = weft_psn_word(base);
	__u64 won;

	tx->delivered[w] |= bits;
	if (!tx->nlost)
		return;
	won = tx->lost[w] & bits;
	tx->lost[w] &= ~won;
	tx->nlost -= weft_popcount(won);
}

/* Move una to cum: older slots are done with. */
weft_inline void weft_tx_cum(struct weft_tx *tx, __u32 cum)
{
	__u32 una = tx->una;

	for (int i = 0; i <= WEFT_WIN_WORDS && una != cum; i++) {
		__u32 w = weft_psn_word(una), lo = una & 63;
		__u32 left = cum - una;
		__u32 hi = left < 64 - lo ? lo + left : 64;
		__u64 m = weft_mask(lo, hi);

		if (tx->nlost && tx->lost[w] & m) {
			tx->nlost -= weft_popcount(tx->lost[w] & m);
			tx->lost[w] &= ~m;
		}
		tx->delivered[w] &= ~m;
		una += hi - lo;
	}
	tx->una = cum;
}

/*
 * Move una over what is known to be delivered, and done with it. The peer's cum
 * may lag behind its SACKs (the ACK that would tell is lost, or it has not
 * advanced yet), and with every token home nobody would ever ask again.
 */
weft_inline void weft_tx_slide(struct weft_tx *tx)
{
	__u32 una = tx->una;

	for (int i = 0; i <= WEFT_WIN_WORDS && una != tx->nxt; i++) {
		__u32 w = weft_psn_word(una), lo = una & 63;
		__u32 hi = weft_ctz(~(tx->delivered[w] | (weft_psn_bit(una) - 1)));

		tx->delivered[w] &= ~weft_mask(lo, hi);
		una += hi - lo;
		if (hi < 64)
			break;
	}
	tx->una = una;
	tx->done = una == tx->nxt ? tx->cons : tx->slot[weft_tx_at(una)].ssn;
}

/* Convict what domain dom has had out for more than `bound` before `ref`, at most 8 a call. */
weft_inline void weft_tx_overdue(struct weft_tx *tx, __u32 dom, __u32 ref, __u32 bound)
{
	struct weft_tx_dom *d = &tx->dom[dom & (WEFT_DOMAINS - 1)];

	for (int i = 0; i < 8 && d->out; i++) {
		__u32 at = d->head & (WEFT_WIN - 1);

		if (weft_psn_diff(ref, tx->slot[at].ts) <= (__s32)bound)
			break;
		weft_tx_convict(tx, &tx->slot[at], weft_tx_psn(tx, at));
	}
}

/* The domains that have tokens out, a bit each. Without a branch: a verifier would go 2^16 ways. */
weft_inline __u32 weft_tx_busy(const struct weft_tx *tx)
{
	__u32 busy = 0;

#pragma GCC unroll 16
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		__u32 out = *(const volatile __u32 *)&tx->dom[d].out;

		out |= -out;
		__asm__ volatile("" : "+r"(out));
		busy |= (out >> 31) << d;
	}
	return busy;
}

/* Those of them whose oldest token has been out for more than rto. Without a branch as well. */
weft_inline __u32 weft_tx_late(const struct weft_tx *tx, __u32 now, __u32 rto)
{
	__u32 late = 0;

#pragma GCC unroll 16
	for (int d = 0; d < WEFT_DOMAINS; d++) {
		__u32 age = now - tx->slot[tx->dom[d].head & (WEFT_WIN - 1)].ts;
		__u32 out = *(const volatile __u32 *)&tx->dom[d].out;

		out = (out | -out) & (rto - age) & ~age;
		__asm__ volatile("" : "+r"(out));
		late |= (out >> 31) << d;
	}
	return late;
}

/*
 * Score an ACK. Returns 0, or -1 when it acknowledges what was never sent (the
 * caller drops it; nothing has changed). conf: the configured cwnd.
 */
weft_inline int weft_tx_ack(struct weft_tx *tx, const struct weft_ack *a, __u32 now, __u32 conf,
			    struct weft_score *r)
{
	struct weft_tx_slot *s = &tx->slot[weft_tx_at(a->psn)];
	struct weft_cc_event ev = { .now = now, .inflight = tx->inflight, .ev = s->ev };
	__u32 used = tx->nxt - tx->una, rtt = now - a->ts;
	__u32 dom = s->dom & (WEFT_DOMAINS - 1);
	__s32 ahead = weft_psn_diff(a->cum, tx->una);
	__u32 age = tx->nxt - a->psn; /* 1 for the newest PSN sent */
	__u32 losses = tx->losses, done = tx->done, surplus = tx->surplus;
	int newest = 0; /* it answers the last transmission of its PSN */

	r->dom = dom;
	if ((__s32)age < 1 || (ahead > 0 && (__u32)ahead > used) || (a->sack_base & 63) ||
	    weft_psn_diff(a->msn, tx->cons) > 0)
		return -1;
	if (age > WEFT_WIN) {
		/* so late that its PSN has been sent again, delivered and left behind */
		tx->surplus++;
		r->freed = r->lost = r->progress = 0;
		r->surplus = 1;
		return 0;
	}

	if (ahead > 0)
		weft_tx_cum(tx, a->cum);
	if (weft_psn_diff(a->psn, tx->una) >= 0)
		weft_tx_mark(tx, a->psn & ~63u, weft_psn_bit(a->psn));
	if (weft_psn_diff(a->sack_base + 63, tx->una) >= 0) {
		__s32 lo = weft_psn_diff(tx->una, a->sack_base);
		__s32 hi = weft_psn_diff(tx->nxt, a->sack_base);

		/* only PSNs from una to nxt - 1 can be news */
		if (hi > 0 && a->sack)
			weft_tx_mark(tx, a->sack_base,
				     a->sack & weft_mask(lo < 0 ? 0 : lo, hi > 64 ? 64 : hi));
	}
	weft_tx_slide(tx);

	if (s->state == WEFT_SLOT_OUT) {
		/* the echoed time tells the original from its retransmission */
		weft_tx_unlist(tx, s, a->psn);
		newest = s->ts == a->ts;
		if (s->tries > 1 && !newest && !s->rescued) {
			tx->spurious++;
			weft_reo_spurious(&tx->rtt);
		}
	} else {
		tx->surplus++;
		/* convicted, not yet sent again, and here after all */
		if (s->state == WEFT_SLOT_LOST) {
			tx->spurious++;
			weft_reo_spurious(&tx->rtt);
			s->state = WEFT_SLOT_IDLE;
		}
	}
	weft_reo_calm(&tx->rtt);
	tx->last_ack = now;
	tx->rtt.backoff = 0;
	if (rtt < WEFT_TICKS_US(10000000)) {
		weft_rtt_sample(&tx->rtt, rtt);
		/* an older transmission may have gone out from another domain */
		if (newest && weft_psn_diff(a->ts, tx->dom[dom].rack_ts) > 0)
			tx->dom[dom].rack_ts = a->ts;
	}
	weft_tx_overdue(tx, dom, tx->dom[dom].rack_ts, weft_reo_wnd(&tx->rtt));
	r->freed = ev.inflight - tx->inflight;
	r->lost = tx->losses - losses;
	r->progress = tx->done - done;
	r->surplus = tx->surplus - surplus;

	ev.acked = 1;
	ev.rtt = rtt;
	ev.lost = r->lost;
	if (a->flags & WEFT_F_CE) {
		ev.ce = 1;
		tx->ce++;
	}
	weft_cc_update(&tx->cc, conf, &ev);
	return 0;
}

/*
 * The retransmission timer asks for a look: of the domains in turn, the next that
 * is late loses its tokens that have been out for longer than the RTO. Returns 1
 * if there were any. A stalled CPU cannot cause a storm: every conviction needs its
 * own age, and the RTO doubles.
 */
weft_inline int weft_tx_timeout(struct weft_tx *tx, __u32 now, __u32 conf, struct weft_score *r)
{
	struct weft_cc_event ev = { .now = now, .inflight = tx->inflight, .timeout = 1 };
	__u32 rto = weft_rto(&tx->rtt), losses = tx->losses;
	__u32 late = weft_tx_late(tx, now, rto);
	__u32 after = late & ~((2u << (tx->looked & (WEFT_DOMAINS - 1))) - 1);
	__u32 dom = weft_ctz(after ? after : late) & (WEFT_DOMAINS - 1);

	tx->looked = r->dom = dom;
	r->progress = r->surplus = 0;
	weft_tx_overdue(tx, dom, now, rto);
	r->freed = ev.inflight - tx->inflight;
	r->lost = tx->losses - losses;
	if (!r->freed)
		return 0;
	tx->timeouts++;
	if (tx->rtt.backoff < 7)
		tx->rtt.backoff++;
	ev.lost = r->lost;
	weft_cc_update(&tx->cc, conf, &ev);
	return 1;
}

#endif
