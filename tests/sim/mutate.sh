#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Break the core in one place at a time and see the simulator go red, as TAP: mutate.sh [NAME...].
#
# A mutant is one sed edit of a header of the core or of a source of the simulator. Most break the core;
# where an invariant is kept by the adapter (replies, grace periods), its model here is broken. A copy of
# the sources gets all of them, as functions beside the original ones (splice.awk), and is compiled once;
# which one is on is decided when it runs.
set -u
export CMOCKA_MESSAGE_OUTPUT=STDOUT # names of failed tests are read, whatever the caller reads
cd "$(dirname "$0")/../.." || exit 1
CC=${CC:-gcc}
SEEDS=${MUTANT_SEEDS:-150}
only=("$@")
# shellcheck source=tests/jobs.sh
. tests/jobs.sh
work=$(mktemp -d) || exit 1
trap 'jobs_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
jobs_begin "$work/said"
cp -r include tests/sim "$work" && mkdir "$work/unit" || exit 1

wanted() {
	local w

	[ ${#only[@]} = 0 ] && return 0
	for w in "${only[@]}"; do
		[ "$w" = "$1" ] && return 0
	done
	return 1
}

report() { # RC NAME TEXT; numbers come at the end
	if [ "$1" = 0 ]; then
		echo "ok - $2: $3"
	else
		echo "not ok - $2: $3"
	fi
}

# mutant NAME FILE SED EXPECT [MODE]: FILE below include/weft/core or tests/sim, edited within functions;
# EXPECT a regular expression for the report; MODE the simulator's arguments, or the name of a unit test
# that shall fail instead: for what the network brings about too seldom.
names=() expects=() modes=()
mutant() {
	local at=sim/$2 from=tests/sim/$2

	wanted "$1" || return 0
	[[ $2 == *.c ]] || at=include/weft/core/$2 from=$at
	names+=("$1") expects+=("$4") modes+=("${5:---first --seeds $SEEDS}")
	mkdir -p "$work/kept/$at"
	sed -E "$3" "$from" >"$work/edited"
	if ! awk -v N=${#names[@]} -v DIR="$work/kept/$at" -f tests/sim/splice.awk "$from" "$work/edited"; then
		job report 1 "$1" "the edit does not apply to $2, or not to a function"
		modes[-1]=
	fi
}

mutant I1-check check.h 's/if \(i == hole\)/if (i == 5)\n\t\t\tw = 0;\n\t\tif (i == hole)/' 'I[0-9]+'
mutant I1-copy rx_host.c 's/f->payload \+ half, f->len - half\)/f->payload + half, f->len - half - (f->len > 99))/' 'I1 '
mutant I1-put ask_host.c 's/f->payload \+ half, f->len - half\)/f->payload + half, f->len - half - (f->len > 99))/' 'I1 '
mutant I1-word ask_host.c 's/\) & ~7ull;/) \& ~3ull;/' 'I1 .*was not there'
mutant I2-claim rx_track.h 's/return (.*)placed & bit \? WEFT_RX_DUP : WEFT_RX_BUSY/return WEFT_RX_NEW/' 'I2: two own' --i2
mutant I2-next rx_track.h '/claimed, ~done/d; s/^\t\t\*\(volatile __u32 \*\)&rx->next = next;/\t\tweft_fetched(__sync_fetch_and_and(\&w->claimed, ~done));\n&/' 'I2: ' --i2
mutant I2-keep rx_track.h 's/if \(weft_psn_diff\(psn, \*\(volatile __u32 \*\)&rx->next\) < 0\) \{/if (0) {/' 'I2: ' --i2
mutant I2-back rx_track.h '/^weft_inline void weft_rx_give_back/,/^}/{/^\tweft_fetched/d; /__sync/d}' 'I2: .*stays claimed' --i2
mutant I2-late tx_score.h 's/^\t\tif \(\*\(volatile __u32 \*\)&tx->nxt - psn - 1 >= WEFT_WIN \|\| (weft_tx_delivered)/\t\tif (\1/' 'take__' test_core_ask
mutant I2-over tx_score.h 's/^(\t\tif \(\*\(volatile __u32 \*\)&tx->nxt - psn - 1 >= WEFT_WIN) \|\| weft_tx_delivered\(tx, psn\)\)/\1)/' 'take__' test_core_ask
mutant I2-asked tx_score.h 's/^\t\tif \(!own\)$/\t\tif (0)/' 'I5 .*not asked for'
mutant I2-len tx_score.h 's/if \(out->len != len\)/if (0)/' 'I5 .*not asked for'
mutant I2-taken tx_score.h 's/if \(was\.seg_hi & WEFT_SLOT_TAKEN\)/if (0)/' 'I2 .*a second answer'
mutant I2-taking tx_score.h 's/mine\.seg_hi \|= WEFT_SLOT_TAKEN;/;/' 'I2 .*a second answer'
mutant I2-mine tx_score.h 's/if \(__sync_val_compare_and_swap\(&s->word, was\.word, mine\.word\) == was\.word\)/if (__sync_val_compare_and_swap(\&s->word, was.word, mine.word) || 1)/' 'take__' test_core_take
mutant I2-again tx_score.h 's/^\t\twas\.word = \*\(volatile __u64 \*\)&s->word;/\t\twas.word = i ? was.word : *(volatile __u64 *)\&s->word;/' 'take__' test_core_take
mutant I2-anew tx_state.h 's/^\ts->seg_hi = seg >> 16;/\ts->seg_hi = (s->seg_hi \& WEFT_SLOT_TAKEN) | seg >> 16;/' 'I2 .*thrown away'
mutant I3-placed rx_track.h '/placed, ~done/d; s/^\t\tweft_fetched\(__sync_fetch_and_and\(&w->claimed, ~done\)\);/\t\tweft_fetched(__sync_fetch_and_and(\&w->placed, ~done));\n&/' 'I2: what is not placed' --i2
mutant I3-sack rx_track.h 's|(bits = .*)\.placed;|\1.claimed;|' 'I3 '
mutant I3-alias rx_track.h 's/if \(end < 64\)/if (0)/' 'I3 '
mutant I3-done tx_mark.h 's/tx->cons : (weft_slot_ssn.*);/tx->cons : \1 + 1;/' 'I3 '
mutant I3-own tx_score.h 's/a->answer \? bit : bit & ~own/bit/' 'I3 '
mutant I3-cum tx_mark.h 's/^\t\tm &= ~tx->own\[w\];//' 'I3 '
mutant I3-bits tx_score.h 's/a->sack & ~tx->own\[weft_psn_word\(a->sack_base\)\] &/a->sack \&/' 'I[23] '
mutant I3-ask tx_claim.h 's/^\t\tweft_fetched\(__sync_fetch_and_add\(&tx->own\[w\], bit\)\);/\t\t;/' 'I[23] '
mutant I3-write tx_state.h 's/^\t\ttx->own\[w\] &= ~bit;/\t\t;/' 'take__place' test_core_ask
mutant I4-advance rx_track.h 's/~\(placed \| \(weft_psn_bit/~(w->claimed | (weft_psn_bit/' 'I[348] '
mutant I4-commit rx_track.h 's/ \|\| (.*)rx->nlast != 0;/;/' 'I10 .*not finished|I1 |I4 '
mutant I4-quiet rx_track.h 's/^\t\t\trx->quiet \+= q;//' 'I4 .*no arrivals'
mutant I4-pending rx_track.h 's/(fetch_and_sub\(&rx->nlast, n) - q\)/\1)/' 'I4 .*pending'
mutant I4-bit rx_track.h '/^\t\t\tif \(quiet\)$/,/fetch_and_and/d' 'I4 .*quiet'
mutant I4-keep rx_track.h 's/if \(last == WEFT_RX_QUIET\)/if (0)/' 'I4 '
mutant I4-part tx_cut.h 's/out->moff \+ out->len == out->mlen \? WEFT_F_LAST/left <= payload ? WEFT_F_LAST/' 'I(4|12) '
mutant I5-unsent tx_score.h 's/\(__s32\)age < 1 \|\| //' 'I5 '
mutant I5-old tx_score.h 's/if \(age > WEFT_WIN\)/if (0)/' 'I5 '
mutant I5-late tx_score.h 's/if \(age > WEFT_WIN\) \{/if (age > WEFT_WIN)\n\t\treturn -1;\n\tif (0) {/' 'I5 '
mutant I5-nak rx_host.c 's/^\tf->h\.nak\.psn = .*/\tf->h.nak.psn = ~0;/' 'I(5|10) '
mutant I5-cum tx_score.h 's/\(ahead > 0 && \(__u32\)ahead > used\) \|\|/0 ||/' 'I5 '
mutant I5-bounds rx_host.c 's/return WEFT_NAK_BOUNDS/return 0/' 'I[15] '
mutant I5-drift tx_score.h 's/weft_psn_diff\(a->msn, tx->ends\)/weft_psn_diff(a->msn, tx->cons)/' 'part__' test_core_ask
mutant I5-gone tx_score.h '/^weft_inline int weft_tx_nak/,/^}/s/ \|\| weft_tx_delivered\(tx, psn\)\)/)/' 'I5 .*in error'
mutant I6-reply rx_host.c 's/ask_reply\(cpu\) : 0;/ask_reply(cpu) : 8;/' 'I6 '
mutant I6-asked ask_host.c 's/^\treturn 8;/\treturn 9;/' 'I6 '
mutant I7-publish ring.h 's/^\t__sync_synchronize\(\);//' 'I7' --i7
mutant I7-fence ring.h 's/^\tweft_fetched\(__sync_fetch_and_add\(&r->tx_fence, 1\)\);//' 'I7' --i7
mutant I7-recheck ring.h 's/return (.*)sq_prod != prod_seen/return 0/' 'I7' --i7
mutant I8-window tx_claim.h 's/if \(psn - tx->una >= WEFT_WIN (.*)\)$/if (0)/' 'I(8|10) '
mutant I8-slot tx_claim.h 's/ \|\| weft_slot_state\(s\) == WEFT_SLOT_OUT\)/)/' 'I(8|10) '
mutant I8-lags rx_track.h 's/return (.*) >= WEFT_WIN \/ 2;/return 0;/' 'I8 '
mutant I8-catchup rx_track.h 's/i < 6 \&\& weft_rx_advance/i < 5 \&\& weft_rx_advance/' 'catch_up__' test_core_rx
mutant I8-word rx_track.h 's/return !~\(was \| bit\) \|\| /return /' '(advance|commit)__' test_core_rx
mutant I8-mlen tx_claim.h 's/q->mlen > WEFT_MSG_MAX \|\| //' 'corrupt__' test_core_ask
mutant I8-moff tx_claim.h 's/ \|\| q->moff > q->mlen//' 'corrupt__' test_core_ask
mutant I8-len tx_claim.h 's/ \|\| q->len > q->mlen - q->moff//' 'corrupt__' test_core_ask
mutant I8-op tx_claim.h 's/q->op >= WEFT_WQE_OP_COUNT \|\| //' 'corrupt__' test_core_ask
mutant I8-eight tx_claim.h 's/ \|\| \(weft_wqe_atomic\(q->op\) && q->len != 8\)//' 'corrupt__' test_core_ask
mutant I12-join tx_many.h 's/tx->nxt != seg->psn \+ 1 \|\| //' 'join__too_late' test_core_many
mutant I12-tries tx_many.h 's/ s->tries != 1 \|\|//' 'join__too_late' test_core_many
mutant I12-out tx_many.h 's/weft_slot_state\(s\) != WEFT_SLOT_OUT \|\| //' 'join__too_late' test_core_many
mutant I12-agreed tx_many.h 's/!tx->joins_writes \|\| //' 'join__too_late' test_core_many
mutant I12-error tx_many.h 's/tx->err \|\| //' 'join__too_late' test_core_many
mutant I12-rnr tx_many.h 's/tx->rnr \|\| //' 'join__too_late' test_core_many
mutant I12-whole tx_many.h 's/ && seg->len == seg->mlen//' 'join__small' test_core_many
mutant I12-sent tx_many.h 's/seg->flags == WEFT_F_LAST && //' 'join__too_late' test_core_many
mutant I12-once tx_many.h 's/ && !seg->more;/;/' 'join__too_late' test_core_many
mutant I12-more tx_cut.h 's/^\tout->more = .*/\tout->more = 0;/' 'I12 .*changed its meaning'
mutant I12-segment tx_cut.h 's/\(seg & \(many - 1\)\)/seg/' 'I12 '
mutant I12-copy tx_many.h 's/^\t\tq->roff = .*//' 'I12 .*joins'
mutant I8-join tx_many.h 's/used \+ len > room/0/' 'I8 .*bytes in PSN'
mutant I8-prod tx_many.h 's/weft_psn_diff\(prod, tx->cons\) <= 0 \|\| //' 'I12 .*joins'
mutant I8-copies tx_many.h 's/!weft_tx_copies\(tx\) \|\|/0 ||/' 'join__deep' test_core_many
mutant I8-next tx_many.h 's/^\t\t    weft_sq_ring\(tx->cons \^ seg->msn, tx->sq_mask\)\)/\t\t    0)/' 'join__deep' test_core_many
mutant I8-posted tx_many.h 's/^\t    prod - tx->done > tx->sq_mask \+ 1u\)/\t    0)/' 'join__too_late' test_core_many
mutant I3-joined tx_many.h 's/weft_tx_delivered\(tx, seg->psn\) \|\|/0 ||/' 'join__acknowledged' test_core_many
mutant I4-many rx_track.h 's/^\t\t\t\tweft_rx_more\(.*/\t\t\t\t;/' 'I4 '
mutant I4-more rx_track.h 's/^\t\tweft_fetched\(__sync_fetch_and_and\(&at\[b\], ~many\)\);//' 'many__counts' test_core_many
mutant I4-noted rx_track.h 's/^\tweft_fetched\(__sync_fetch_and_and\(&rx->word\[.*many, ~many\)\);//' 'many__counts' test_core_many
mutant I2-many rx_track.h '/^weft_inline enum weft_rx_verdict weft_rx_keep_many/,/^}/s/if \(weft_psn_diff\(psn, .*next\) < 0\) \{/if (0) {/' 'many__given' test_core_many
mutant I1-descs host.c 's/f->h\.op == WEFT_OP_WRITES && many_damaged\(f, c\)/0/' 'I[0-9]+ '
mutant I5-nth tx_score.h 's/^\t\ts->ssn \+= nth;//' 'nak__which' test_core_many
mutant I5-rest tx_score.h 's/^\t\ts->seg_hi -= nth;//' 'nak__which' test_core_many
mutant I5-beyond tx_score.h 's/if \(nth && nth <= weft_slot_more\(s\)\) \{/if (1) {/' 'nak__which' test_core_many
mutant I5-before tx_score.h 's/^\t\ttx->done = weft_slot_ssn\(tx, s\);/\t\t;/' 'nak__which' test_core_many
mutant I5-part many_host.c 's/return refuse\(cpu, code, w->nth\)/return refuse(cpu, code, 0)/' 'I5 '
mutant I9-refill tx_host.c 's/else if \(!grown\)/else if (!grown \&\& tx->nlost)/' 'I9 ' --alone
mutant I9-token tx_score.h 's/if \(weft_slot_state\(s\) == WEFT_SLOT_OUT && !/if (weft_slot_state(s) == WEFT_SLOT_OUT \&\& weft_psn_diff(a->cum, a->psn) <= 0 \&\& !/' 'I9 ' --alone
mutant I9-last tx_host.c 's/^\tif \(w->last\)$/\tif (0)/' 'I9 ' --alone
mutant I9-hand tx_host.c 's/return w->tries \? TX_HAND : STEP_END;/return STEP_END;/' 'I9 ' --alone
mutant I10-window tx_claim.h 's/if \(tx->inflight >= wnd\)$/if (0)/' 'I10 '
mutant I10-lost tx_mark.h 's/^\ttx->lost\[weft_psn_word\(psn\)\] \|= weft_psn_bit\(psn\);//' 'I10 '
mutant I10-dom tx_state.h 's/^\td->out--;/\td->out -= weft_slot_dom(s) != 1;/' 'I10 '
mutant I10-rescue tx_claim.h 's/out->freed = was - d->out;/out->freed = 0;/' 'I10 '
mutant I10-growing tx_claim.h 's/^\t\td->growing--;/\t\t;/' 'I10 '
mutant I10-unlist tx_claim.h 's/^\t\tweft_tx_unlist\(tx, s, psn\);//' 'I10 '
mutant I10-slide tx_score.h 's/^\tweft_tx_slide\(tx\);//' 'exchange' --single
mutant I10-again tx_score.h 's/^\t\t\tweft_tx_lose\(tx, s, a->psn\);/\t\t\t;/' 'I10 '
mutant I10-beside tx_score.h 's/^\t\t    !\(s->seg_hi & WEFT_SLOT_TAKEN\)\)/\t\t    1)/' 'own__second' test_core_ask
mutant I10-stays tx_score.h 's/if \(\(!own && !weft_ack_missed\(a\)\) \|\| .*/if (1)/' 'own__plain' test_core_ask
mutant I11-grace app.c 's/else if \(grace_over\(c\)\)/else/' 'I[0-9]+ '
mutant I12-seg tx_state.h 's/s->seg = seg;/s->seg = seg \& 31;/' 'I12 '
mutant I12-cut tx_cut.h 's/^\tfrom->run_end -= n;//' 'I12 .*cut wrong'
mutant I12-last tx_claim.h 's/^\t\ttx->last\[w\] \|= bit;//' 'I[0-9]+ '
mutant I4-end tx_cut.h 's/n = last - tx->cut;/n = last + 1 - tx->cut;/' 'I(4|12) '
mutant I4-rest tx_cut.h 's/^\tif \(!runs\)$/\tif (1)/' 'I(4|12) '
mutant I4-run tx_cut.h 's/tx->strict & ~tx->free_now & 1 \? 1 : //' 'I(4|12) '
mutant I12-anew tx_claim.h 's/tx->seg = tx->cut = 0;/tx->seg = 0;/' 'I12 '
mutant I12-lent tx_lane.h 's/ \|\| sent >= p->was >> 8 \|\|/ ||/' 'I12 |I10 '
mutant I12-go tx_lane.h 's/(p->was \+ 1\)) == p->was;/\1 + 1;/' 'lane__whose' test_core_lane
mutant I12-whose tx_lane.h 's/if \(l->who != p->who \|\| sent/if (sent/' 'lane__whose' test_core_lane
mutant I12-answer tx_lane.h 's/ \|\| weft_tx_own\(tx, p->psn\) \|\|/ ||/' 'lane__whose' test_core_lane
mutant I10-home tx_lane.h 's/if \(weft_slot_dom\(&tx->slot\[weft_tx_at\(p->psn\)\]\) != dom \|\| /if (/' 'lane__whose' test_core_lane
mutant I10-list tx_lane.h 's/^\t\t\tweft_tx_list\(tx, s, psn, l->ts, dom\);/\t\t\t;/' 'I10 '
mutant I10-heard tx_lane.h 's/^\t\tweft_tx_unlist\(tx, s, psn\);/\t\t;/' 'I10 '
mutant I10-owed tx_lane.h 's/\(tx->inflight >= wnd && /(0 \&\& /' 'lane__owed' test_core_lane
mutant I9-owed tx_lane.h 's/tx->inflight >= wnd && tx->dom.*\.out\)\)/tx->inflight >= wnd))/' 'lane__owed' test_core_lane
mutant I12-unsettled tx_lane.h 's/ \|\| l->state & 0xff \|\| tx->err/ || tx->err/' 'lane__owed' test_core_lane
mutant I1-unlent tx_lane.h 's/^\t\t\tweft_tx_lose\(tx, s, psn\);/\t\t\t;/' 'lane__' test_core_lane
mutant I1-settled tx_lane.h 's/^\tweft_tx_slide\(tx\);//' 'lane__reclaim' test_core_lane
mutant I1-lane tx_score.h 's/^\t\tout \|= lent & .*//' 'lane__late' test_core_lane
mutant I1-reclaim tx_score.h 's/^\t\tweft_tx_reclaim\(tx, dom\);/\t\t;/' 'lane__late' test_core_lane
mutant I9-foreign tx_lane.h 's/state && l->who != who && /state \&\& 0 \&\& /' 'lane__foreign' test_core_lane
mutant I9-disown tx_lane.h 's/^\t\ttx->lane\[from\]\.who = WEFT_LANE_NONE;//' 'lane__foreign' test_core_lane
mutant I9-few tx_lane.h 's/ && d->out > WEFT_LANE;/;/' 'lane__only' test_core_lane
mutant I9-innocent tx_lane.h 's/ && s->ts == ts;/;/' 'lane__foreign' test_core_lane
mutant I9-held tx_claim.h 's/return weft_tx_lent_stuck\(tx, now, dom\) \? /return 0 ? /' 'lane__held' test_core_lane
mutant I2-heard tx_lane.h 's/weft_psn_bit\(psn\) & ~tx->own\[weft_psn_word\(psn\)\]/weft_psn_bit(psn)/' 'lane__liars' test_core_lane
mutant I5-liar tx_lane.h 's/^\tweft_wqe_segment\(&l->wqe, /\tweft_wqe_segment(\&tx->wqe[l->ssn \& (WEFT_SQ_DEPTH - 1)], /' 'lane__liars' test_core_lane
mutant I5-passed tx_lane.h 's/if \(tx->nxt - psn - 1 >= WEFT_WIN \|\| !weft_slot_lent\(s\)\)$/if (0)/' 'lane__liars' test_core_lane
mutant I10-shrink tx_bulk.h 's/if \(tx->inflight >= tx->cc\.cwnd\)/if (0)/' 'lane__shrinks' test_core_lane
mutant I10-window tx_bulk.h 's/tx->inflight > wnd/0/' 'lane__only' test_core_lane
mutant I10-share tx_bulk.h 's/tx->inflight \+ 1 < wnd && d->out \+ 2 <= share/0/' 'lane__only' test_core_lane
mutant I8-lane tx_bulk.h 's/used > WEFT_WIN - WEFT_LANE \|\|/0 ||/' 'lane__only' test_core_lane
mutant I4-lane tx_bulk.h 's/ tx->strict \|\| / /' 'lane__only' test_core_lane
mutant I1-convicted tx_bulk.h 's/ \|\| tx->nlost \|\|/ ||/' 'lane__only' test_core_lane
mutant I1-refused tx_bulk.h 's/tx->rnr \|\|/0 ||/' 'lane__only' test_core_lane
mutant I5-bulk tx_bulk.h 's/tx->err \|\| used/used/' 'lane__only' test_core_lane
mutant I3-bulk tx_bulk.h 's/if \(tx->nxt - p->psn - 1 >= WEFT_WIN \|\| /if (/' 'lane__only' test_core_lane
mutant I3-ahead tx_bulk.h 's/weft_psn_diff\(p->cum, tx->nxt\) > 0/0/' 'lane__only' test_core_lane
mutant I10-echo tx_bulk.h 's/s->ts != p->ts \|\| /0 || /' 'lane__only' test_core_lane
mutant I12-bulk tx_bulk.h 's/q->op == WEFT_WQE_WRITE && !q->flags/1/' 'lane__only' test_core_lane
mutant I12-place tx_bulk.h 's/weft_slot_state\(next\) != WEFT_SLOT_OUT &&/1 \&\&/' 'lane__only' test_core_lane
mutant I1-overtaken tx_bulk.h 's/!weft_tx_overtaken\(tx, p->dom\)/1/' 'lane__only' test_core_lane
mutant I12-stale tx_claim.h 's/weft_psn_diff\(prod, tx->cons\) <= 0/prod == tx->cons/' 'I12 |I5 |I10 |I1 ' '--first --seeds 2000'
mutant I12-operand tx_claim.h 's/^\t\tq->operand = src->operand;//' 'I12 '
mutant I13-ttl host.c 's/^\tf->ttl = SIM_TTL;/\tf->ttl = f->ttl ? f->ttl : SIM_TTL;/' 'I13 '
mutant I13-ce host.c 's/^\tf->ce = 0;//' 'I13 '
mutant I13-ev path.h 's/\*next = ev \+ 1 >= p->n/*next = ev + 1 > p->n/' 'I(13|8) '
mutant I15-timer tx_score.h 's/^\tweft_tx_overdue\(tx, dom, now, rto, WEFT_TX_SKEW\);//' 'exchange' --single
mutant I15-look app.c 's/doorbell\(c, FRAME_LOOK\)/doorbell(c, FRAME_POST)/' 'exchange' --single
mutant I16-twice ask_host.c 's/return RX_RECALL;/return RX_TARGET;/' 'I16 .*twice'
mutant I16-first i2.c '/^\t\tweft_rx_remember\(/d; s/^\t\tif \((weft_rx_commit\(&M\.rx, psn\))\)/\t\tint more = \1;\n\n\t\tweft_rx_remember(\&M.rx, which == IS_MATE, psn, result_of(psn));\n\t\tif (more)/' 'I2: the result' --i2
mutant I16-psn rx_track.h 's/ \|\| \*\(const volatile __u32 \*\)&r->psn != psn\)/)/' 'result__' test_core_rx_ask
mutant I16-room tx_claim.h '/weft_tx_atomic_may\(const/,/^}/s/weft_tx_delivered\(tx, psn\)/1/' 'atomic__no_more' test_core_ask
mutant I16-old tx_claim.h 's/psn - tx->una >= tx->nxt - tx->una \|\| //' 'atomic__after' test_core_ask
mutant I16-begin tx_state.h 's/^\t\ttx->apsn\[i\] = psn0 - 1;/\t\t;/' 'atomic__' test_core_ask
mutant I16-deficit tx_claim.h 's/if \(tx->atomics_out && !weft_tx_atomic_may\(tx\)\)/if (0)/' 'atomic__no_more' test_core_ask
mutant I16-number tx_claim.h 's/q->asn = tx->atomics\+\+;/q->asn = tx->atomics++ \& 1;/' 'I16 '
mutant I2-unposted recv.h 's/rq->prod, rsn\) > 0 \?/rq->prod, rsn) >= 0 ?/' 'I[0-9]+ '
mutant I2-tag recv.h 's/return b >> 16 == \(\(rsn \+ 1\) & 0xffff\)/return b/' 'I[0-9]+ '
mutant I2-empty recv.h '/^weft_inline enum weft_rq_found weft_rq_next/,/^}/s/ > 0 \?/ >= 0 ?/' 'I2 '
mutant I2-thief recv.h 's/, taken \+ 1\) != taken\)/, taken + 1) == ~0u)/' 'take__' test_core_recv
mutant I2-noted recv.h 's/if \(rsn - polled >= WEFT_RQ_BIND\)/if (0)/' 'take__as_many' test_core_recv
mutant I2-refused recv_host.c '/case RX_RNR/,/RX_REPLY/s/^\t\tweft_rx_give_back.*//' 'I10 '
mutant I3-rnr tx_score.h 's/ >= 0 && !weft_ack_missed\(a\)\)$/ >= 0)/' 'I3 '
mutant I4-atomic tx_claim.h 's/ \|\| weft_tx_puts_out\(tx\)\)\)/))/' 'I4 .*carried out'
mutant I4-puts tx_claim.h 's/weft_tx_own\(tx, tx->nxt - 1\) \? tx->puts : tx->nxt/tx->puts/' 'I4 .*carried out'
mutant I4-reads tx_claim.h 's/weft_tx_own\(tx, tx->nxt - 1\) \? tx->puts : tx->nxt/tx->nxt/' 'atomic__' test_core_ask
mutant I10-puts tx_claim.h 's/^\t\t    weft_tx_puts_out\(tx\)\)$/\t\t    0)/' 'atomic__waits' test_core_ask
mutant I4-received rx_track.h 's/^\t\t\tif \(recv\)$/\t\t\tif (0)/' 'I[0-9]+ '
mutant I4-recv rx_track.h 's/if \(last >= WEFT_RX_RECV\)/if (last > WEFT_RX_RECV)/' 'I[0-9]+ '
mutant I4-early rx_host.c 's/^\t\tc->ring\.received = rx->rdone;/\t\tc->ring.received = c->rsn0 + c->takes;/' 'I[24] '
mutant I4-taken rx_track.h '/w->recv, ~recv/d' 'recv__' test_core_recv
mutant I4-solicited rx_track.h '/w->sol, ~recv/d' 'recv__' test_core_recv
mutant I5-longer recv_host.c 's/^\te->status = WEFT_NAK_LENGTH;/\treturn 0;/' 'I5 '
mutant I7-offer ring.h 's/^\tint was = weft_ring_refusal\(r\);/\tint was = 0;/; s/return was \|\| .*refused;/return weft_ring_refusal(r);/' 'I7' --i7
mutant I7-offered ring.h '/^weft_inline int weft_ring_offer/,/^}/s/^\t__sync_synchronize\(\);//' 'I7' --i7
mutant I7-again recv_host.c 's/case RX_REFUSE: .*/case RX_REFUSE: return RX_AGAIN;/' 'probes' --single
mutant I7-polled ring.h 's/return shared \? posted \+ .*/return posted;/' 'epoch__' test_core_recv
mutant I7-resume recv_app.c 's/^\tdoorbell\(c, FRAME_RESUME\);//' 'probes' --single
mutant I8-ahead recv.h 's/if \(ahead >= WEFT_WIN\)/if (0)/' 'own__' test_core_recv
mutant I8-flags tx_claim.h 's/\(q->flags && weft_wqe_own\(q->op\)\)/0/' 'rnr__flags' test_core_tx_rnr
mutant I10-order recv.h 's/^\t__u32 n = \*bound;/\t__u32 n = rsn;/' 'I(2|10) '
mutant I10-refused tx_score.h 's/if \(\(own \|\| weft_ack_missed\(a\)\) && /if (own \&\& /' 'I10 '
mutant I10-convicted tx_score.h 's/\(!own && !weft_ack_missed\(a\)\)/!own/' 'rnr__of_what_was' test_core_tx_rnr
mutant I10-older tx_rnr.h 's/return tx->rnr && weft_psn_diff.*/return tx->rnr;/' 'rnr__' test_core_tx_rnr
mutant I10-ready tx_rnr.h 's/^\tif \(!tx->rnr\)$/\tif (1)/' 'rnr__|probe__' test_core_tx_rnr
mutant I10-probe tx_rnr.h 's/return n \+ \(tx->probe && tx->nlost > n\);/return n;/' 'probe__' test_core_tx_rnr
mutant I10-over tx_score.h 's/if \(tx->rnr && weft_tx_delivered\(tx, tx->rnr_psn\)\)/if (0)/' 'rnr__ends' test_core_tx_rnr
mutant I10-heard tx_rnr.h 's/if \(tx->heard && /if (/' 'epoch__' test_core_tx_rnr
mutant I12-flags tx_claim.h 's/^\t\tq->flags = src->flags;//' 'I12 '
mutant I12-rsn tx_claim.h 's/^\t\t\ttx->rsn\+\+;/\t\t\ttx->rsn += 2;/' 'I12 '
mutant I15-probe tx_rnr.h 's/^\ttx->probe = 1;//' 'exchange' --single
mutant I15-ahead tx_score.h 's/if \(a->flags & WEFT_F_RQ\)/if (0)/' 'rnr__with' test_core_tx_rnr
mutant storm-probe tx_rnr.h 's/now - tx->rnr_ts < WEFT_RNR_MIN << shift/0/' 'storm '
mutant storm-grows tx_rnr.h 's/WEFT_RNR_MIN << shift/WEFT_RNR_MIN/' 'storm '
mutant storm-first tx_rnr.h 's/\} else if \(weft_psn_diff\(psn, tx->rnr_psn\) < 0\) \{/} else if (0) {/' 'storm '
mutant storm-behind tx_claim.h 's/^\tif \(tx->rnr\)$/\tif (0)/' 'storm '
mutant storm-refused tx_claim.h 's/if \(!tx->probe \|\| weft_tx_is_free\(tx, psn\)\)/if (0)/' 'storm '
mutant storm-spent tx_claim.h 's/^\t\t\ttx->probe = 0;//' 'storm '
mutant storm-honest tx_rnr.h 's/ && weft_psn_diff\(ts, tx->epoch_ts\) < 0\)/)/' 'resume__before' test_core_tx_rnr
mutant packets-wrap tx_claim.h 's/if \(!\+\+tx->nxt\)/if (++tx->nxt == 1)/' 'packets__' test_core_tx
mutant packets-again tx_state.h 's/ - tx->psn0 \+ tx->retransmits;/ - tx->psn0;/' 'packets__' test_core_tx
mutant storm-window rtt.h 's/return w < WEFT_REO_MIN \? WEFT_REO_MIN : w;/return 0;/' 'storm '
mutant storm-clock tx_state.h 's/^\t\td->rack_ts = now;//' 'storm '
mutant storm-rescue tx_claim.h 's/if \(!weft_slot_stuck\(tx, s, now\)\)/if (0)/' 'storm '
mutant storm-turn tx_mark.h 's/^\ttx->turn = tx->nxt;//' 'turn__' test_core_order
mutant I10-free tx_mark.h 's/^\ttx->nfree \+= .*/\t;/' 'seq__of_what_is_free' test_core_strict
mutant I15-repair tx_score.h 's/r->repair = .*/r->repair = 0;/' 'exchange' --single
mutant storm-own tx_claim.h 's/return from != dom && d->out/return d->out/' 'storm '
mutant I4-strict rx_track.h '/weft_rx_take_next/,/^}/s/->next\) > 0\)/->next) > 1)/' 'I4 .*strict'
mutant I4-any rx_host.c 's/ordered \? weft_rx_take_next\(rx, psn\) : //' 'I4 .*strict'
mutant I15-strict rx_host.c 's/ \|\| \(in_order\(cpu->cur\) && w->psn != rx->next\)//' 'I[0-9]+ |storm '
mutant I15-overtaken tx_score.h '/weft_tx_patience/,/^}/s/^\tif \(tx->strict && !weft_tx_mixed\(tx\)\)$/\tif (0)/' '(seq|strict)__' test_core_strict
mutant storm-ahead tx_order.h 's/tx->back == tx->nxt && weft_tx_home/weft_tx_home/' 'seq__' test_core_strict
mutant storm-follows tx_claim.h 's/^\t\tif \(psn == tx->back\) \{/\t\tif (0) {/' 'seq__' test_core_strict
mutant storm-newest tx_claim.h 's/^\t\ttx->back = tx->nxt;//' 'seq__' test_core_strict
mutant storm-clones tx_claim.h 's/if \(weft_tx_goes_back\(tx\) && /if (0 \&\& /' 'seq__goes_back_further' test_core_strict
mutant storm-further tx_score.h 's/if \(a->seq && weft_psn_diff\(a->psn, tx->back\) < 0 &&/if (0 \&\&/' 'seq__gap_elsewhere' test_core_strict
mutant storm-stray tx_score.h 's/^\t\t    weft_psn_diff\(a->psn, tx->cum\) >= 0\)/\t\t    1)/' 'strict__answer_lost' test_core_strict
mutant storm-older tx_score.h 's/ && !\(a->seq && s->ts != a->ts\)\)/)/' 'seq__of_an_older' test_core_strict
mutant storm-placed tx_order.h 's/ & ~placed >> 31\)/)/' 'strict__answer_lost' test_core_strict
mutant storm-implied tx_score.h 's/: a->psn \+ 1\)/: a->cum)/' 'strict__answer_lost' test_core_strict
mutant storm-lagging tx_score.h 's/^\t\tweft_tx_placed\(tx, tx->una\);/\t\t;/' 'seq__with_a_lagging' test_core_strict
mutant I4-meets tx_order.h 's/return !meet;/return 1;/' 'I4 .*overtakes'
mutant I4-below tx_order.h 's/weft_below\(b->roff - a->roff, a->len\) \|/0 |/' 'free__not' test_core_order
mutant I4-above tx_order.h 's/weft_below\(a->roff - b->roff, b->len\) \|/0 |/' 'free__not' test_core_order
mutant I4-key tx_order.h 's/\(key \| -key\) >> 31 \|/0 |/' 'I4 .*overtakes'
mutant I4-send tx_order.h 's/ \| \(1u << WEFT_WQE_SEND >> \(a->op & 31\) & 1\)//' 'free__not' test_core_order
mutant I4-open tx_order.h 's/ \|\| open > WEFT_FREE_OPEN//' 'free__of_how' test_core_order
mutant I4-done tx_order.h 's/\(i - open - 1\) >> 31;/1;/' 'free__' test_core_order
mutant I4-end tx_claim.h 's/tx->free_now & ~seg->flags & 1/tx->free_now/' 'free__all_but' test_core_order
mutant I4-sends tx_order.h 's/ \|\| q->op != WEFT_WQE_WRITE//' 'I[0-9]+ '
mutant I10-posted tx_claim.h 's/^\tif \(weft_psn_diff\(prod, tx->cons\) <= 0\)$/\tif (0)/' 'end__alone' test_core_order
mutant I10-agreed tx_order.h 's/!tx->frees \|\| q->op/q->op/' 'free__only_if' test_core_order
mutant I10-path tx_order.h 's/& -any;/;/' 'free__all_but' test_core_order
mutant I10-home tx_order.h '/weft_tx_home\(const/,/^}/s/return dom == tx->home/return 1 || dom == tx->home/' '(home|end)__' test_core_order
mutant I10-silence tx_order.h 's/ \|\| tx->rtt\.backoff;/;/' 'home__' test_core_order
mutant I10-short tx_order.h 's/q->len <= \(WEFT_FREE_SEGS - 1\) \* tx->payload/0/' 'free__all_but' test_core_order
mutant storm-gap tx_order.h 's/ & ~ahead & early\)\) >> 31;/ \& ~ahead)) >> 31;/' '(free|end)__' test_core_order
mutant storm-settle tx_order.h '/weft_tx_settle\(/,/^}/s/^\tweft_tx_skip\(tx\);/\t;/' 'end__behind' test_core_order
mutant storm-skip tx_claim.h 's/^\t\t\tweft_tx_skip\(tx\);/\t\t\t;/' 'end__both' test_core_order
mutant storm-patience tx_score.h 's/tx->strict && !weft_tx_mixed\(tx\)/tx->strict/' '(lost|end)__' test_core_order
mutant storm-free tx_mark.h 's/~weft_tx_is_free\(tx, psn\)\)/1)/' 'lost__free' test_core_order
mutant I15-cum-news tx_mark.h 's/ \|\| weft_psn_diff\(cum, tx->cum\) > 0;/;/' 'ack__cum' test_core_tx_ack
mutant I15-cum-old tx_mark.h 's/tx->cum - tx->una > WEFT_WIN \|\|/0 ||/' 'ack__cum_heard_long_ago' test_core_tx_ack
mutant storm-beside tx_score.h 's/ \|\| weft_tx_is_free\(tx, a->psn\)//' '(end|free|lost)__' test_core_order
mutant I10-nfree tx_claim.h 's/^\t\ttx->nfree -= .*/\t\t;/' 'end__asks' test_core_order
mutant I10-probes tx_claim.h 's/!tx->probe \|\| weft_tx_is_free\(tx, psn\)/!tx->probe/' 'home__probes' test_core_order
mutant storm-busy tx_order.h 's/weft_tx_due\(tx\) & ~busy/weft_tx_due(tx)/' '(seq|end|strict)__' test_core_strict
mutant I10-spread tx_claim.h 's/weft_tx_goes_back\(tx\) && !weft_tx_spread\(tx, sq\)/weft_tx_goes_back(tx)/' 'end__asks' test_core_order
mutant I15-settle tx_score.h '/^weft_inline int weft_tx_timeout/,/^}/s/^\tweft_tx_settle\(tx\);/\t;/' '(end|free|lost|home)__' test_core_order
mutant I5-shared rx_track.h 's/if \(rx->shared && weft_psn_diff\(done, rx->bound\) > 0\)/if (0)/' 'received__no_more' test_core_recv

mutant I8-deep tx_claim.h 's/^\tif \(prod - tx->done > tx->sq_mask \+ 1u\)/\tif (0)/' 'deep__corrupt' test_core_deep
mutant I8-copies tx_claim.h 's/if \(!weft_tx_copies\(tx\)\)/if (0)/' 'I(8|12) '
mutant I12-ring tx_claim.h 's/if \(weft_sq_ring\(tx->cons \^ at, tx->sq_mask\)\)/if (0)/' 'deep__moved' test_core_deep
mutant I12-rings tx_state.h 's/return \(n & mask\) \/ WEFT_SQ_DEPTH;/return (n \& mask) > WEFT_SQ_DEPTH;/' 'I12 |I5 '
mutant I10-copies tx_claim.h 's/queued > copies\)/0)/' 'deep__copies' test_core_deep
mutant I10-deep tx_claim.h 's/^\tif \(queued <= tx->sq_mask \+ 1u && /\tif (/' 'deep__corrupt' test_core_deep
mutant I9-deep tx_claim.h 's/^\t\tqueued = copies;/\t\tqueued = 0;/' 'deep__copies' test_core_deep
mutant spare-copies tx_state.h 's/deep \* WEFT_SQ_SPARE - //' 'deep__copies' test_core_deep

# Compile the copy with all of them: the simulator, and the unit tests that are asked.
build() {
	local f flags units

	while read -r f; do
		awk -v DIR="$work/kept/$f" -f tests/sim/splice.awk "$work/$f" >"$work/edited" &&
			cat "$work/edited" >"$work/$f" || return
	done < <(cd "$work/kept" && find . -name '*.[ch]')
	for f in $(printf '%s\n' "${modes[@]}" | grep '^test_' | sort -u); do
		cp "tests/unit/$f.c" "$work/unit" || return
	done
	cp tests/unit/*.h "$work/unit"
	echo 'extern unsigned int weft_mutation;' >"$work/mutation.h"
	cat >"$work/mutation.c" <<-'EOF'
		#include <stdlib.h>
		unsigned int weft_mutation;
		__attribute__((constructor)) static void choose(void)
		{
			weft_mutation = atoi(getenv("WEFT_MUTATION"));
		}
	EOF
	# functions are not copied into all that call them: quicker to compile
	flags=(-std=gnu11 -O1 -w -D_GNU_SOURCE= '-Dweft_inline=static __attribute__((unused))'
		-include "$work/mutation.h" -I"$work/include")
	units=("$work"/unit/*.c)
	[ -e "${units[0]}" ] || units=()
	# shellcheck disable=SC2086 # CC may be several words
	printf '%s\n' "$work"/sim/*.c "${units[@]}" "$work/mutation.c" |
		xargs -P "$JOBS" -I{} $CC "${flags[@]}" -c {} -o {}.o || return
	$CC "$work"/sim/*.o "$work/mutation.c.o" -o "$work/weft-sim" -lm || return
	for f in "${units[@]}"; do
		$CC "$f.o" "$work/mutation.c.o" -o "${f%.c}" -lcmocka || return
	done
}

# try NUMBER MODE: run the simulator or the unit test as MODE says, with that mutant (0: none). Leaves rc
# and what it says in out.
try() {
	local WEFT_MUTATION=$1 mode=$2
	export WEFT_MUTATION

	if [[ $mode == test_* ]]; then
		out=$(timeout 300 "$work/unit/$mode" 2>&1)
		rc=$(($? != 0))
		out=$(grep -m1 'FAILED.*__' <<<"$out")
	else
		# shellcheck disable=SC2086 # MODE is a list of arguments
		out=$(timeout 300 "$work/weft-sim" $mode 2>&1)
		rc=$?
		out=$(grep -m1 -E '^# (I2: |(seed|exchange|I7).*(: I[0-9]|: storm|lost|sent|again|probes))' <<<"$out" |
			cut -c3-160)
	fi
}
run_mutant() { # NUMBER
	local i=$(($1 - 1)) out rc

	try "$1" "${modes[i]}"
	if [ "$rc" = 1 ] && grep -qE "${expects[i]}" <<<"$out"; then
		report 0 "${names[i]}" "caught, $out"
	else
		report 1 "${names[i]}" "not caught as ${expects[i]} within: ${modes[i]} (exit $rc) $out"
	fi
}
# What a mutant shall fail passes without it: else the failure is not the mutant's. Each MODE once;
# the first seeds stand for more of them.
unbroken() { # MODE
	local mode=$1

	[[ $mode != --first* ]] || mode="--first --seeds $SEEDS"
	[ -z "${seen[$mode]:-}" ] || return 0
	seen[$mode]=1
	job run_unbroken "$mode"
}
run_unbroken() {
	local out rc

	try 0 "$1"
	report "$rc" unbroken "passes $1${out:+ ($out)}"
}
declare -A seen=()
if [ ${#names[@]} -gt 0 ] && ! said=$(build 2>&1); then
	job report 1 build "the mutated sources compile"
	sed 's/^/# /' <<<"$said" | head -n 10
	modes=()
fi
for i in "${!modes[@]}"; do
	[ -n "${modes[i]}" ] || continue
	unbroken "${modes[i]}"
	job run_mutant $((i + 1))
done

has_mutant() {
	grep -qE "^(mutant $1-|inv $1 )" tests/sim/mutate.sh tests/bpf/mutate.sh
	report $? "$1" "has a mutant"
}

# Each invariant of the design has a mutant, of the core here or of the datapath there.
for inv in $(sed -n 's/^| \(I[0-9]*\) |.*/\1/p' docs/design.md); do
	[ ${#only[@]} = 0 ] || break
	job has_mutant "$inv"
done

[ "$JOBS_N" -gt 0 ] || job report 1 "${only[*]}" "no mutant is named so"
jobs_end
