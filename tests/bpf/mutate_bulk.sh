# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2086 # the names of files are mutate.sh's, without blanks
# What tests/bpf/mutate.sh breaks of plain ACKs in the midst of a long WRITE, of wake-ups, and without rings; not to be run by itself.

gone bulk__goes_on $t 'weft_tx_go(&q->tx, &p)'
cut bulk__collects $t 'weft_tx_collect(&q->tx, p.dom, p.who)'
gone bulk__collects $t 'weft_tx_unscored(&q->tx, p.dom, p.who)'
swap bulk__collects $t '!wk->pkt.u.h.flags' 1
swap bulk__not_if_others_wait $t '!any_waits(run, p.dom)' 1
gone bulk__not_if_others_wait $t '!any_waits(run, p.dom)'
swap bulk__not_if_others_wait $t 'room >= (__s32)cfg->budget - (__s32)cfg->hard' 1
cut bulk__shrinks $t 'account(run, p.dom, 0, p.dom, more)'
gone bulk__late $d 'wk->score.progress' $'wk->score.progress)\n\t\tpublish'
gone bulk__late $d 'wk->score.progress' $'wk->score.progress) {\n\t\twake'
gone bulk__foreign $w 'foreign(wk, slot)'
gone bulk__owed $t 'weft_tx_owed(tx, wnd, f->now, f->dom, f->who, &wk->seg)'
swap fill__claimed $d 'weft_tx_goes(&q->tx, psn)' 1
swap fill__claimed $c/tx_state.h 'tx->nxt - psn - 1 < WEFT_WIN' 1

# ---- who is woken ----
gone wake__once $u 'bpf_ringbuf_query(rb, BPF_RB_AVAIL_DATA)'
gone wake__once $u '__sync_lock_test_and_set(&ring->arm_tx, 0)'
gone wake__at $u 'weft_ring_wakes(ring)'
gone wake__once $c/ring.h 'arm != WEFT_ARMED_AT'
gone wake__at $c/ring.h '(__s32)(*(const volatile __u32 *)&r->sq_done - at) >= 0'
gone wake__error $c/ring.h '*(const volatile __u32 *)&r->tx_err'

# ---- without rings ----
gone target__ring_gone $r '!has_ring(ctl)'
gone refuse__closed $a '!has_ring(ctl)'
