#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Break every guard of the datapath once, and see its test go red. TAP.
#
#   mutate.sh             # all
#   mutate.sh WHICH...    # a number, an invariant (I14), or tests by pattern ('grow__*')
#
# A private copy of the sources gets all the mutations below, each behind a constant that the loader
# sets: so it is compiled once, and the verifier removes those that are not asked for. Several
# are loaded together, which costs little more than one, and tried one by one, each right after its
# test was green without any. What cannot be told so is tried alone.
set -u
cd "$(dirname "$0")/../.." || exit 1
test=$(realpath "${O:-build}/tests/bpf/weft-bpf-test") || exit 1
# shellcheck source=tests/jobs.sh
. tests/jobs.sh
# shellcheck source=tests/mutants.sh
. tests/mutants.sh
here=$PWD/tests/bpf
TOGETHER=${TOGETHER:-8}
work=$(mktemp -d) || exit 1
trap 'jobs_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp -r bpf include "$work" || exit 1
cd "$work" || exit 1

f=bpf/frame.bpf.h r=bpf/rx.bpf.h k=bpf/token.bpf.h t=bpf/tx.bpf.h i=bpf/fill.bpf.h d=bpf/doorbell.bpf.h w=bpf/weft.bpf.c
v=bpf/many.bpf.h u=bpf/util.bpf.h c=include/weft/core m=bpf/telemetry.bpf.h a=bpf/ask.bpf.h

# ---- what is ours ----
port='udp->dest != bpf_htons(cfg->port)'
gone parse__v4_version_and_options $f '*(__u8 *)ip != 0x45'
gone parse__other_protocols $f 'ip->protocol != IPPROTO_UDP'
gone parse__v4_fragments $f '(ip->frag_off & bpf_htons(IP_OFFMASK_MF))'
gone parse__other_ports $f "$port" $'sizeof(*ip);\n\t\tif ('"$port"
gone parse__v6_version $f 'ip6->version != 6'
gone parse__v6_extension_header $f 'ip6->nexthdr != IPPROTO_UDP'
gone parse__other_ports $f "$port" $'sizeof(*ip6);\n\t\tif ('"$port"
gone parse__not_set_up $w '!cfg->port'
gone parse__length_lies $f 'ulen != iplen'
gone parse__length_lies $f 'ulen < sizeof(*udp) + WEFT_HDR_LEN'
gone parse__truncated $f 'p->hl - WEFT_HDR_LEN - sizeof(*udp) + ulen > flen'

# ---- who sent it ----
gone admit__other_family $f 'p->v6 != (ctl->flags & WEFT_QPF_V6)'
swap admit__forged_source $f 'ip->saddr == ctl->daddr[0]' 1
swap admit__forged_source $f 'ip->daddr == ctl->saddr[0]' 1
swap admit__forged_source $f 'ip6->saddr.in6_u.u6_addr32[i] ^ ctl->daddr[i]' 0
swap admit__forged_source $f 'ip6->daddr.in6_u.u6_addr32[i] ^ ctl->saddr[i]' 0
gone admit__version $w 'h->ver != WEFT_WIRE_VER'
gone admit__not_connected $w 'state < WEFT_QP_RTS'
gone admit__stale_generation $w 'ctl->qpn != bpf_ntohl(h->dqpn)'
gone admit__wrong_conn $w 'bpf_be64_to_cpu(h->conn) != ctl->conn'
gone admit__flip_rest $w 'weft_check(p->u.w, ctl->hkey) != bpf_ntohl(h->check)'
gone admit__length $w 'bpf_ntohs(h->len) != p->len'
gone admit__length_agreed $w 'p->len' 'if (p->len)'
inv I14 gone admit__dead_owner $w '!owner_alive(ctl)'
gone admit__version $w 'v != V_TX' 'v != V_TX || !ctl'
gone admit__csum_wrong $w 'udp_sum(ctx, ctl, ulen) != 0xffff'
gone admit__csum_wrong $w 'p->check' 'if (p->check)'
gone admit__csum_missing $w 'ctl->flags & WEFT_QPF_CSUM'
gone admit__closed $w 'state != WEFT_QP_RTS' 'if (state != WEFT_QP_RTS) {'
closed=$'state != WEFT_QP_RTS)\n\t\t\treturn drop(st, closed);\n\t\t'
gone admit__closed_replies $w 'state != WEFT_QP_RTS' "${closed}wk->acked"
gone admit__closed_replies $w 'state != WEFT_QP_RTS' "${closed}return"

# ---- what it may write ----
swap target__message_shape $r 'len <= WEFT_PAYLOAD_MAX' 1
swap target__message_shape $r 'mlen <= WEFT_MSG_MAX' 1
swap target__message_shape $r 'moff <= mlen' 1
swap target__message_shape $r 'len <= mlen - moff' 1 $'\t       len <= mlen - moff'
swap target__message_shape $r '(len || !mlen)' 1
swap target__message_shape $r '!last == (moff + len != mlen)' 1
gone target__wrong_key $r 'has != key'
gone target__free_entry $r '!key'
gone target__other_pd $r 'mr->pd != ctl->pd'
gone target__no_right $r '!(mr->rights & right)'
swap target__no_right $r WEFT_ACCESS_REMOTE_WRITE WEFT_ACCESS_ALL
# roff < moff is seen by the next as well, for no region is that long
gone target__bounds $r 'base > mr->len'
gone target__bounds $r 'mlen > mr->len - base'
gone target__other_pd $r 'unlikely(code)' $'unlikely(code))\n'
gone target__pool_gone $r 'unlikely(place_in_order(ctx, ctl, pool, off, p->hl, len, last))'
cut target__other_pd $r 'q->rx.err = code'
cut target__other_pd $r 'WRITE_ONCE(ring->rx_err, code)'
gone target__no_right $r 'READ_ONCE(q->rx.err)'
swap place__near_the_edge $f 'WEFT_CHUNK - o' 'WEFT_CHUNK - o - 1' 'n = WEFT_CHUNK - o;'
n='((n - 1) & (EDGE - 1)) + 1'
swap place__lengths $f "$n" '((n - 2) & (EDGE - 1)) + 1'
swap fill__frame $f "$n" '((n - 3) & (EDGE - 1)) + 1'
gone ack__duplicates $r 'v == WEFT_RX_DUP'
gone ack__busy $r 'v == WEFT_RX_BUSY'
gone ack__window $c/rx_track.h 'd >= WEFT_WIN'
lags='unlikely(weft_rx_lags(&q->rx, psn))'
gone ack__lagging_window $r "$lags"
gone ack__busy $c/rx_track.h 'd < 0' 'if (d < 0)'

# ---- strict order ----
next='in_order(ctl, p) ? weft_rx_take_next(rx, psn) : weft_rx_take(rx, psn)'
inv I4 swap strict__write $r "$next" 'weft_rx_take(rx, psn)'
inv I4 gone strict__far_ahead $c/rx_track.h 'weft_psn_diff(psn, *(volatile __u32 *)&rx->next) > 0'
gone strict__write $r 'in_order(ctl, p)' '(rx, bpf_ntohl(p->u.h.psn)) || in_order(ctl, p)'
gone strict__write $r 'in_order(ctl, p)' 'last || in_order(ctl, p)'
swap ack__no_cq $r 'last' 0 'told = last'
swap ack__whole_word $r 'weft_psn_bit(psn)' 0 'wk, 0, weft_psn_bit(psn)'
gone strict__free $r '(p->u.h.flags & (WEFT_F_FREE | WEFT_F_LAST)) != WEFT_F_FREE' $'(p->u.h.flags & (WEFT_F_FREE | WEFT_F_LAST)) != WEFT_F_FREE)'
swap strict__free $r '(WEFT_F_FREE | WEFT_F_LAST)' WEFT_F_FREE 'p->u.h.flags & (WEFT_F_FREE | WEFT_F_LAST)'
cut strict__marks $c/tx_claim.h 'weft_tx_mark_free(tx, out)'
gone strict__free_sends $r 'p->u.h.op != WEFT_OP_DATA'
gone strict__free $r '(in_order(ctl, &wk->pkt) && psn != READ_ONCE(q->rx.next))'
gone strict__write $r 'v == WEFT_RX_SEQ'
gone strict__read $a 'v == WEFT_RX_SEQ'
gone strict__send bpf/recv.bpf.h 'v == WEFT_RX_SEQ'
swap strict__ends $r 'len > tail' 1
cut strict__ends $r 'off += body'
cut strict__ends $r 'hl += body'
cut strict__ends $r 'len -= body'
swap strict__ends $r 'off & (WEFT_CHUNK - 4)' 'off & (WEFT_CHUNK - 8)' 'WRITE_ONCE(*(__u32 *)(p + (off & (WEFT_CHUNK - 4)))'
gone strict__again $c/tx_score.h 'a->seq' 'a->rnr | a->seq'
swap strict__again $t 'h->op == WEFT_OP_SEQ' 0
gone strict__overtaken $c/tx_score.h 'tx->strict && !weft_tx_mixed(tx)'

# ---- what it answers ----
gone ack__headers_are_fresh $r 'frame_resize(ctx, frame_len(ctx), p->hl + len)'
swap ack__echoes $r 'p->u.h.ev' 0
swap ack__echoes $r 'p->u.h.ts' 0
gone ack__ce $r 'wk->pkt.ce'
gone ack__psn_wrap $r 'arrived' $'if (arrived) {\n\t\tWRITE_ONCE'
gone ack__wake_up $r 'arrived' $'if (arrived)\n\t\twake'
swap target__wrong_key $r 'first' 1 $'if (first) {\n\t\t/* those'
swap ack__psn_wrap $r 'weft_rx_commit(rx, bpf_ntohl(p->u.h.psn))' '(weft_rx_commit(rx, bpf_ntohl(p->u.h.psn)), 0)'
gone ack__whole_word $c/rx_track.h '!~(was | bit)'
gone ack__wake_up $u '__sync_lock_test_and_set(arm, 0)'
swap ack__csum_never_zero bpf/header.bpf.h 'c ? c : 0xffff' c
gone ack__headers_are_fresh bpf/header.bpf.h '~fold((__u64)ctl->ipsum + ip->tot_len)'

# ---- what the sender believes ----
gone score__unsent $c/tx_score.h '(__s32)age < 1'
gone score__old $c/tx_score.h 'age > WEFT_WIN'
gone score__unsent $c/tx_score.h '(ahead > 0 && (__u32)ahead > used)'
gone score__unsent $c/tx_score.h '(a->sack_base & 63)'
gone score__unsent $c/tx_score.h 'weft_psn_diff(a->msn, tx->ends) > 0'
nak=$'tx->nxt - psn - 1 >= WEFT_WIN || weft_tx_delivered(tx, psn))\n\t\treturn 0;\n\tif (tx->err)'
gone score__unsent $c/tx_score.h 'tx->nxt - psn - 1 >= WEFT_WIN' "$nak"
gone reply__late_nak $c/tx_score.h 'weft_tx_delivered(tx, psn)' $'weft_tx_delivered(tx, psn))\n\t\treturn 0;\n\tif (tx->err)'
gone score__nak $c/tx_score.h 'tx->err' $'return 0;\n\tif (tx->err)'
error='c == WEFT_CLAIM_ERROR'
gone score__lost $w 'v == V_REPAIR'
cut score__lost $t 'account(f.run, wk->score.dom, wk->score.freed, f.dom, 0)'
cut score__lost $t 'st->count.lost += wk->score.lost'
cut strict__again $t 'account_delta(f.run, f.delta)'
swap repair__tells_what_is_complete $t '!READ_ONCE(wk->score.repair)' 1
cut repair__tells_what_is_complete $t 'publish(tx, f->ring)' $'\t}\n\tpublish(tx, f->ring)'
gone score__corrupt_ring $i "$error" "$error"$')\n\t\tpublish_err'
gone fill__corrupt_ring_wakes $t "f->$error" "wk->score.progress || f->$error"
cut score__absorb $c/ring.h '*(volatile __u32 *)&r->hint = 0'
cut score__absorb $c/ring.h '*(volatile __u32 *)&r->hint = 1'

# ---- what it sends ----
gone small__is_replaced $i 'frame_resize(ctx, flen, hl + len)'
cut small__is_replaced $v 'count(st, regrown)'
swap small__is_replaced $v 1 0 'wk->seg.psn, 1)'
swap small__fits $f '!bpf_xdp_adjust_head(ctx, -more)' 0
gone fill__local_errors $i '!lkey'
gone fill__local_errors $i 'key != lkey'
gone fill__local_errors $i 'mr->pd != ctl->pd'
gone fill__local_errors $i '!(mr->rights & right)'
gone fill__local_errors $i 'loff > mr->len'
gone fill__local_errors $i 'len > mr->len - loff'
gone fill__local_errors $i 'len > WEFT_PAYLOAD_MAX' '!mr || len > WEFT_PAYLOAD_MAX'
gone fill__local_errors $i 'fetch(ctx, mr->pool, mr->off + seg->loff, hl, len)'
gone fill__corrupt_ring $c/tx_claim.h 'prod - tx->done > tx->sq_mask + 1u'
gone fill__corrupt_ring $c/tx_claim.h 'q->mlen > WEFT_MSG_MAX'
gone fill__window_full $c/tx_claim.h 'tx->inflight >= wnd' 'if (tx->inflight >= wnd)'
gone fill__corrupt_ring_wakes $d "$error" "$error"$')\n\t\twake_tx(st, ctl, ring);\n\n'
gone fill__corrupt_ring_wakes $d "$error" "$error"$')\n\t\twake_tx(st, ctl, ring);\n\twk'
# ---- queues of several rings ----
swap deep__every_ring $i 'weft_sq_ring(wk->at, ctl->sq_mask)' 0
swap deep__every_ring $i 'ctl->sq_mask < WEFT_SQ_DEPTH' 1
swap deep__corrupt_ring $c/tx_claim.h 'tx->sq_mask + 1u' 'WEFT_SQ_MAX' 'prod - tx->done > tx->sq_mask + 1u'
gone deep__begun $c/tx_claim.h '!weft_tx_copies(tx)'
gone deep__begun $c/tx_claim.h 'queued > copies'

gone fill__claimed $d 'weft_tx_delivered(&q->tx, psn)'
gone fill__last_goes_out $w 'wk->left' 'if (wk->left || !wk->held'
gone fill__last_goes_out $w '!wk->held'
cut fill__last_goes_out $w 'wk->held = 0' $'\twk->held = 0;\n\treturn XDP_PASS;'
cut fill__last_goes_out $w 'wk->left = wk->held = 0'
gone grow__unmade_are_forgotten $k 'now - wk->asked > WEFT_TICKS_US(1000)'
swap grow__unmade_are_forgotten $k 'now - wk->asked > WEFT_TICKS_US(1000)' 1

# ---- whom it listens to ----
gone bell__no_qp $d 'ctl->qpn != qpn'
gone bell__no_qp $d 'state != WEFT_QP_RTS'
inv I14 gone fill__no_qp $d '!owner_alive(ctl)'
inv I14 swap admit__dead_owner $u 'bpf_map_lookup_elem(&xsks, &slot) != NULL' 1
gone fill__not_a_template $d 'eth->h_proto != bpf_htons(WEFT_DB_ETHERTYPE)'
gone fill__not_a_template $d 'd->magic != WEFT_DB_MAGIC'
gone fill__not_a_template $w 'db.op != WEFT_DB_FILL'
gone bell__malformed $w 'db.op != WEFT_DB_GROW'
gone bell__malformed $w '(db.op != WEFT_DB_POST && db.op != WEFT_DB_LOOK && db.op != WEFT_DB_RESUME)'
swap bell__in_place $d 'hl + (len < tx->payload ? len : tx->payload) <= flen' 1
gone bell__budget $k 'room < (__s32)want'
swap bell__budget $k '(__s32)cfg->hard' 0x7fffffff 'if (READ_ONCE(*used) < (__s32)cfg->hard)'
gone bell__corrupt_ring $d "$error" "$error"$')\n\t\t\tn = 0'
swap bell__look $w 'db.op == WEFT_DB_LOOK' 1 'if (db.op == WEFT_DB_LOOK)'
gone bell__look $w 'db.op == WEFT_DB_LOOK'
cut bell__look $d 'account(run, wk->score.dom, wk->score.freed, wk->score.dom, 0)'
cut bell__look $d 'account_delta(run, delta)' $'account_delta(run, delta);\n\tst->count.lost'

# ---- how many it starts, and where ----
gone grow__within_the_share $k 'mine + 2 > domain_share(doms, wnd)'
swap grow__counts_what_is_under_way $k 'weft_tx_growing(tx, dom, now)' 0
cut grow__counts_what_is_under_way $k 'weft_tx_grow(tx, dom, 2, now)'
cut grow__counts_what_is_under_way $d 'weft_tx_grown(&q->tx, dom)'
gone grow__counts_what_is_under_way $c/tx_claim.h 'now - d->grow_ts > WEFT_TICKS_US(500)'
gone score__move $k 'more >= MOVE_MIN'
swap share__growth $k 'more >= MOVE_MIN' 'MOVE_MIN < more'
swap share__growth $k 'more >= MOVE_MIN' 'more + 1 >= MOVE_MIN'
swap share__growth $k 'more >= MOVE_MIN' 'room > 0 && MOVE_MIN <= more'
swap share__growth $k 'more < 2 + soon' 'more < 1 + soon'
swap share__growth $k 'more < 2 + soon' 'more <= 2 + soon'
swap share__growth $k 'more < 2 + soon' 'more < 2'
cut share__growth $k 'mine += soon'
cut share__growth $k 'more -= soon'
cut share__growth $k 'tx->last_move = now'
gone share__growth $k 'room <= 1'
swap share__growth $k 'room <= 1' 'room <= 2'
swap share__growth $k 'mine + 2 > domain_share(doms, wnd)' 'mine + 2 >= domain_share(doms, wnd)'
swap share__growth $k 'mine + 2 > domain_share(doms, wnd)' 'mine + 1 > domain_share(doms, wnd)'
swap grow__moves_now_and_then $k 'mine > 1' 1
swap grow__moves_now_and_then $k 'now - tx->last_move > WEFT_TICKS_US(1000)' 1
swap grow__post_moves $d 'n > 2' 1 '(n > 2 || burst)'
swap grow__post_moves $d 'op == WEFT_DB_POST' 1 '(op == WEFT_DB_POST ||'
swap grow__post_moves $k '~weft_tx_busy(tx)' '~0u'
cut grow__post_moves $d 'weft_ring_active(&q->tx, ring)' $'if (wk->cpu >= 0)\n\t\tweft_ring_active(&q->tx, ring);'
gone grow__bell_keeps_to_the_share $d 'n > share'
swap grow__bell_keeps_to_the_share $d 'used < share ? share - used : 0' share
gone grow__rescue $i 'c == WEFT_CLAIM_STUCK' 'c == WEFT_CLAIM_STUCK ||'
cut grow__rescue $i 'freed += wk->seg.freed'
swap grow__rescue $i from dom 'account(run, from, freed'
gone grow__rescue $d 'v == V_AGAIN'
gone grow__rescue $w 'v == V_AGAIN'
swap grow__rescue_nothing_else $c/tx_claim.h 'weft_psn_diff(now, s->ts) > (__s32)(2 * weft_reo_wnd(&tx->rtt))' 1
swap grow__rescue_nothing_else $c/tx_claim.h 'from != dom' 1
swap grow__rescue_of_a_slot $i 'i < 2' 'i < 1'
cut grow__rescue_of_some $i 'weft_ring_absorb(&q->tx, ring)'

# ---- where the application posts ----
gone share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload'
swap share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload' 'len >= SMALL_SEGS * tx->payload'
swap share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload' 'len > SMALL_SEGS * tx->payload + 1'
gone share__leaves_the_application $k '!(doms & ~app)'
gone share__leaves_the_application $k 'app == here' '|| app == here) &&'
gone share__leaves_the_application $k 'app == here' '|| app == here ||'
swap share__leaves_the_application $k 'here | app' here
look='(op == WEFT_DB_LOOK && !first && app_domain(doms, &q->tx, sq) == here)'
gone share__look_leaves_the_application $d "$look"
swap share__look_leaves_the_application $d 'app_domain(doms, &q->tx, sq) == here' 1
swap share__look_leaves_the_application $d 'op == WEFT_DB_POST' 1 $'if (op == WEFT_DB_POST)\n\t\tq'
cut share__look_leaves_the_application $d 'q->tx.post_dom = dom'
swap share__look_leaves_the_application $d '!first' 1 'op == WEFT_DB_LOOK && !first'

# ---- a frame grows where there is room ----
swap resize__any_sequence $f '-more' more 'bpf_xdp_adjust_head(ctx, -more)'
swap resize__any_sequence $f 'i < 16' 'i < 0'
swap resize__any_sequence $f 'i < 16' 'i < 3'
swap resize__any_sequence $f 'got - more' '-more'

# ---- that it goes on by itself ----
inv I9 gone alone__from_one_packet $t 'f->grow == GROW_NO' 'else if (f->grow == GROW_NO)'
inv I9 gone alone__from_one_packet $t 'f->grow == GROW_TWIN'

# ---- who gives way when a domain is full ----
inv I9 cut wait__first_token $k 'wait_turn(run, dom, slot)'
swap wait__first_token $k '(__s32)cfg->hard' '(__s32)cfg->hard + 1' ': ((__s32)cfg->hard)'
swap wait__first_token $k '!first' 0 'if (want || !first)'
cut wait__gives_its_last $k 'wait_over(run, dom, slot)' $'if (want && first)\n\t\twait_over(run, dom, slot);'
hand='READ_ONCE(wk->hand)'
swap wait__too_many $t "$hand != -1" "$hand >= 0"
gone wait__too_many $t 'f.room < (__s32)f.cfg->budget - (__s32)f.cfg->hard'
swap wait__too_many $t "$hand == -1" "$hand < 0"
swap wait__gives_way_once $t 'f.room <= 0' 1 'if (unlikely(f.room <= 0)'
gone wait__gives_way_once $t 'any_waits(f.run, f.dom)'
swap wait__gives_way_once $t 'turn_over(a.psn)' 1
gone wait__gives_way_once $t 'turn_over(a.psn)'
gone wait__gives_way_once $k 'READ_ONCE(run->dom[dom & (WEFT_DOMAINS - 1)].any) != 0'
inv I9 gone wait__first_token $k '!(READ_ONCE(run->dom[dom].any) & 1u << at)'
gone wait__gives_way_once $t "$hand != -1"
swap wait__gives_way_once $k '__sync_fetch_and_and(w, ~bit)' '*w'
inv I9 gone wait__gives_its_last $t 'last' $'if (last)\n\t\twait_turn'
swap wait__gives_way_once $t '!tx->inflight' 1 'f->last = !tx->inflight'
swap wait__nothing_to_give $t '!weft_tx_idle(tx, f->prod)' 1
inv I9 gone wait__nothing_to_give $t "$hand == -1"
gone wait__unsent $t "$hand >= 0" "if ($hand >= 0)"$'\n\t\t\twait_turn'
gone wait__post_in_between $t "$hand >= 0" "if (unlikely($hand >= 0))"$'\n\t\twait_turn(run'
swap wait__stale_words $k 'i < WAIT_WORDS' 'i < WAIT_WORDS - 1'
swap wait__in_turn $k '~0ull << turn % WAIT_BITS' '~0ull'
swap wait__in_turn $k 'any >> (first + 1) % 32' 0
swap wait__in_turn $k 'any << (31 - first)' 0
swap wait__in_turn $k '__sync_fetch_and_and(&run->dom[dom].any, ~(1u << at))' 0
inv I9 gone wait__begins_meanwhile $k 'm' $'if (m)\n\t\tweft_fetched(__sync_fetch_and_or'
gone wait__starts_elsewhere $k 'there >= (__s32)cfg->budget'
gone wait__starts_elsewhere $k 'there + 2 * TURN > READ_ONCE(run->dom[dom & (WEFT_DOMAINS - 1)].inflight)'
swap wait__starts_elsewhere $k 'there + 2 * TURN' 'there + 2 * TURN + 1'
swap wait__starts_here_and_there $k 'from ? from : others' others
gone wait__starts_elsewhere $d 'cpu >= 0' 'if (cpu >= 0 &&'
cut wait__starts_elsewhere $d 'count(st, moved)'
cut wait__in_turn $k 'WRITE_ONCE(run->dom[dom].turn, at + 1)'
swap wait__passes_over $d 'i < HAND_TRIES' 1 'wk->hand = i < HAND_TRIES'
inv I9 swap wait__passes_over $d 'i <= HAND_TRIES' 'i < HAND_TRIES'
swap wait__gives_way_before_it_grows $t '!yield' 1 '!yield && tx->inflight'
gone share__crowds $t 'crowds(f->cfg, f->run, tx, f->dom)'
inv I9 gone repair__of_who_is_gone $t "$hand >= 0" "return $hand >= 0"
cut repair__makes_no_room $t 'f.room = wk->room'
swap share__crowds $k 'active > 1' 1 'return active > 1'
out='tx->dom[dom & (WEFT_DOMAINS - 1)].out * active >= cfg->budget + active'
swap share__crowds $k "$out" "${out/>=/>}"
swap share__crowds $k "$out" "${out/ + active/}"
swap share__crowds $k "$out" 'tx->inflight * active >= cfg->budget + active'

# ---- READs and atomics: what is carried out ----
gone refuse__shape $a '!segment_ok(len, bpf_ntohl(p->u.h.data.moff), bpf_ntohl(p->u.h.data.mlen), last)'
gone refuse__shape $a '!last' ': !last'
gone refuse__rights $r 'READ_ONCE(q->rx.err)'
gone refuse__rights $a 'unlikely(code)' $'if (unlikely(code)) {\n\t\t\tif'
swap refuse__bounds $a mlen len 'WEFT_ACCESS_REMOTE_READ, moff, mlen'
swap refuse__rights $a WEFT_ACCESS_REMOTE_READ WEFT_ACCESS_REMOTE_WRITE
swap refuse__bounds $a 8 0 'WEFT_ACCESS_REMOTE_ATOMIC, 0, 8'
swap refuse__rights $a WEFT_ACCESS_REMOTE_ATOMIC WEFT_ACCESS_REMOTE_WRITE
swap refuse__rights $a 'v == WEFT_RX_NEW' 1 $'if (v == WEFT_RX_NEW)\n\t\t\t\treturn'
gone refuse__misaligned $a 'off & 7'
gone refuse__memory_gone $a 'fetch(ctx, pool, off, p->hl, len)'
gone small__answer_in_a_clone $a 'frame_resize(ctx, frame_len(ctx), p->hl + len)'
cut small__answer_in_a_clone $a 'count(st, regrown)'
gone small__answer_in_a_clone $w 'unlikely(db.op == WEFT_DB_ASK)'
swap small__answer_in_a_clone $w 'db->claimed != 0' 0
gone ask__window $r "$lags"
gone ask__window $a 'v == WEFT_RX_OUT'
gone ask__window $a 'v == WEFT_RX_BUSY'
gone ask__atomic_duplicates $a 'v == WEFT_RX_DUP'
gone ask__atomic_duplicates $a 'weft_rx_recall(&q->rx, at, psn, &wk->result)'
gone ask__no_result $c/rx_track.h '!__sync_fetch_and_or(&r->set, 0)'
gone ask__atomic_duplicates $c/rx_track.h '*(const volatile __u32 *)&r->psn != psn'
cut ask__atomics $a 'weft_rx_remember(&q->rx, at, psn, wk->result)'
swap ask__atomics $a 'h->op == WEFT_OP_FADD' 1
gone ask__atomics $a 'bpf_xdp_store_bytes(ctx, p->hl, &wk->result, 8)'
swap ask__read_duplicates $a 'v == WEFT_RX_NEW' 1 'v == WEFT_RX_NEW ? 0'
swap ask__segments $a 'last ? WEFT_RX_QUIET : WEFT_RX_MORE' WEFT_RX_QUIET
swap ask__quiet $a WEFT_RX_QUIET WEFT_RX_ARRIVAL 'last ? WEFT_RX_QUIET'
gone ask__quiet $c/rx_track.h 'last == WEFT_RX_QUIET'

# ---- what is asked for ----
swap post__local_errors $i 'own ? WEFT_ACCESS_LOCAL_WRITE : WEFT_ACCESS_LOCAL' WEFT_ACCESS_LOCAL
swap post__read $i 'own ? 0 : seg->len' 'seg->len'
gone post__atomics $i 'unlikely(weft_wqe_atomic(seg->op))'
swap post__read $i 'own ? bpf_htonl(seg->len) : 0' 0
gone post__nonsense $c/tx_claim.h 'q->moff > q->mlen'
gone post__nonsense $c/tx_claim.h 'q->len > q->mlen - q->moff'
gone post__nonsense $c/tx_claim.h 'q->op >= WEFT_WQE_OP_COUNT'
gone post__nonsense $c/tx_claim.h '(weft_wqe_atomic(q->op) && q->len != 8)'
gone post__atomics_wait $c/tx_claim.h '!weft_tx_atomic_may(tx)' 'weft_wqe_atomic(q->op) && (!weft_tx_atomic_may(tx)'
swap post__parts $c/tx_cut.h 'q->moff + sent' sent
swap post__parts $c/tx_cut.h 'out->moff + out->len == out->mlen' 'left <= payload'
cut post__atomics $c/tx_claim.h 'tx->atomics_out++'

# ---- what is believed of answers ----
gone reply__ce $t 'wk->pkt.ce'
gone reply__not_asked_for $t 'take == WEFT_TAKE_BAD'
gone reply__once $t 'take != WEFT_TAKE_YES'
swap reply__impossible $t 'weft_tx_sane(&q->tx, &a)' 1
gone reply__no_place $t 'place(ctx, mr->pool, mr->off + seg->loff, wk->pkt.hl, len)'
swap reply__no_place $t WEFT_ACCESS_LOCAL_WRITE WEFT_ACCESS_LOCAL 'local_mr(ctl, seg, WEFT_ACCESS_LOCAL_WRITE)'
cut reply__placed $t 'wk->answer = 1'
swap reply__needs_its_own $w 'wk->acked = wk->answer = wk->before = 0' 'wk->acked = 0'
gone reply__not_asked_for $c/tx_score.h '!own' $'if (!own)\n'
gone reply__not_asked_for $c/tx_score.h 'out->len != len'
gone reply__taken $c/tx_score.h 'was.seg_hi & WEFT_SLOT_TAKEN'
swap reply__taken $c/tx_score.h '!(s->seg_hi & WEFT_SLOT_TAKEN)' 1
gone reply__atomic $c/tx_score.h 'a->answer && tx->atomics_out'
swap reply__needs_its_own $c/tx_score.h 'bit & ~own' bit
cut reply__needs_its_own $c/tx_mark.h 'm &= ~tx->own[w]'
swap reply__needs_its_own $c/tx_score.h '~tx->own[weft_psn_word(a->sack_base)]' '~0ull'
gone reply__needs_its_own $c/tx_score.h own '(own || weft_ack_missed(a)) && !weft_tx_delivered(tx, a->psn) &&'

# shellcheck source=tests/bpf/mutate_recv.sh
. "$here/mutate_recv.sh"
# shellcheck source=tests/bpf/mutate_many.sh
. "$here/mutate_many.sh"
# shellcheck source=tests/bpf/mutate_bulk.sh
. "$here/mutate_bulk.sh"

# ---- copies for whoever captures ----
p=bpf/capture.bpf.h
cut capture__data_and_its_ack $w 'capture_in(ctx)'
gone capture__data_and_its_ack $w 'act == XDP_TX'
gone capture__clones $w 'act == XDP_PASS'
swap capture__clones $w 'act == XDP_PASS' 1
swap capture__dropped $w 'act == XDP_TX' 1
swap capture__off $p 'READ_ONCE(cfg->flags) & WEFT_DEV_CAPTURE' 1
gone capture__others $p '*(__u8 *)ip != 0x45'
gone capture__others $p 'ip->protocol != IPPROTO_UDP'
gone capture__others $p '(ip->frag_off & bpf_htons(IP_OFFMASK_MF))'
gone capture__others $p 'ip6->nexthdr != IPPROTO_UDP'
gone capture__others $p 'udp->dest != bpf_htons(port)'
swap capture__empty_clones $p 'db->magic == WEFT_DB_MAGIC' 1
swap capture__connection $p '!conn' 1 'return !conn'
swap capture__connection $p 'key[0] == (__u32)conn' 1
swap capture__connection $p 'key[1] == (__u32)(conn >> 32)' 1
gone capture__nobody $p 'r == -ENOENT'
gone capture__full $p 'r == -ENOSPC'
swap capture__full $p 'r == -ENOENT' 1
swap capture__data_and_its_ack bpf/cap_emit.bpf.h 'snap < len' 0

# ---- what it tells ----
swap tele__off $m '!(READ_ONCE(cfg->flags) & WEFT_DEV_NO_TELE)' 1
swap tele__nonsense_is_left_out $m 'rtt < WEFT_TICKS_US(10000000)' 1
swap tele__nonsense_is_left_out $m '(__s32)age >= 0' 1
swap tele__nonsense_is_left_out $m 'wk->acked' 1 'wk->acked && ('
gone tele__ack_counts $m 'wk->wrote' 'wk->wrote ||'
swap tele__ack_counts $m '!(bpf_ntohl(wk->pkt.u.h.psn) & 7)' 1
cut tele__ack_counts $m 'tele_write(q, t, d->ssn, d->now)'
cut tele__ack_counts $m 'bpf_loop(n, tele_one_of, d, 0)'
cut tele__bytes_received $r 'tele_rx(slot, len)'
cut tele__refusals $r 'tele_event(slot, refused, 0, code, psn, 0)'
cut tele__refusals $t 'tele_event(slot, nak, 0, bpf_ntohl(h->nak.code), psn, 0)'
cut tele__source_out_of_reach $i 'tele_event(slot, local, 0, msn, 0, 0)'
cut tele__dead_owner $w 'tele_event(WEFT_QPN_SLOT(ctl->qpn), owner, 0, 0, 0, 0)'
cut tele__time_out $d 'tele_rto(slot, now)'
cut tele__time_out $i 'tele_event(slot, retx, 0, seg->psn, seg->psn, 0)'

# Sections of their own become maps of their own, so that the test finds them.
src=$(<$c/psn.h)
mark='#include <linux/types.h>'
read -rd '' new <<'EOF'
__attribute__((section(".rodata.mutation"), used)) const volatile __u8 weft_has_mutation[1024] = {};
__attribute__((section(".data.mutation"), used)) volatile __u32 weft_mutation = 0;
#define weft_mutated(n) (weft_has_mutation[n] && weft_mutation == (n))
EOF
printf '%s\n' "${src/"$mark"/"$mark"$'\n'"$new"}" >$c/psn.h

mutants_pick "$@"

jobs_begin "$work/said"
mutants_placed
${CLANG:-clang} -O2 -g -target bpf -mcpu=v3 -Wno-everything -DHOT_STEP='__attribute__((noinline))' -Iinclude \
	-Ibpf -I"/usr/include/$("${CC:-gcc}" -dumpmachine)" -c -o weft.bpf.o bpf/weft.bpf.c ||
	mutants_fail "the mutated sources compile"
export WEFT_BPF_OBJ=$work/weft.bpf.o CMOCKA_MESSAGE_OUTPUT=STDOUT

unbroken() {
	local out rc

	out=$(WEFT_BPF_MUTATIONS='' "$test" '*__*' 2>&1)
	rc=$?
	report "$rc" "unbroken, all is green"
	[ "$rc" -eq 0 ] || sed 's/^/# /' <<<"$out"
}
# Try the mutants NUMBER...: into said what was seen of them; rc.
try() {
	local i args=()

	for i; do args+=("$i=${tests[i - 1]}"); done
	said=$(WEFT_BPF_MUTATIONS="$*" timeout 60 "$test" --mutants "${args[@]}" 2>&1)
	rc=$?
}
mutations() { # NUMBER...
	local i said rc together what

	try "$@"
	together=$said
	for i; do
		what="${tests[i - 1]} sees ${names[i - 1]//#/}"
		said=$together
		grep -qx "mutant $i: green, red" <<<"$said" || try "$i"
		if grep -qx "mutant $i: green, red" <<<"$said"; then
			report 0 "$what"
			continue
		fi
		case $rc,$(grep "^mutant $i: " <<<"$said") in
		3,*) what+=" (the verifier saw it first)" ;;
		*'green, green') what+=" (it stayed green)" ;;
		*': red'*) what+=" (red without it too)" ;;
		*) what+=" (status $rc)" ;;
		esac
		report 1 "$what"
		echo "# replay: tests/bpf/mutate.sh $i"
	done
}
job unbroken
# Those that are far apart in the sources multiply the ways through a program least.
groups=$(((${#picked[@]} + TOGETHER - 1) / TOGETHER))
for ((g = 0; g < groups; g++)); do
	group=()
	for ((i = g; i < ${#picked[@]}; i += groups)); do group+=("${picked[i]}"); done
	job mutations "${group[@]}"
done
jobs_end
