# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2086 # the names of files are mutate.sh's, without blanks
# What tests/bpf/mutate.sh breaks of shares in a domain and of growth; not to be run by itself.

swap share__growth $k 'more >= MOVE_MIN' 'MOVE_MIN < more'
swap share__growth $k 'more >= MOVE_MIN' 'more + 1 >= MOVE_MIN'
swap share__growth $k 'more >= MOVE_MIN' 'f->room > 0 && MOVE_MIN <= more'
swap share__growth $k 'more < 2 + soon' 'more < 1 + soon'
swap share__growth $k 'more < 2 + soon' 'more <= 2 + soon'
swap share__growth $k 'more < 2 + soon' 'more < 2'
cut share__growth $k 'mine += soon'
cut share__growth $k 'more -= soon'
cut share__growth $k 'tx->last_move = now'
gone share__growth $k 'f->room <= 1'
swap share__growth $k 'f->room <= 1' 'f->room <= 2'
swap share__growth $k 'mine + 2 > domain_share(f->cfg, f->run, doms, wnd)' 'mine + 2 >= domain_share(f->cfg, f->run, doms, wnd)'
swap share__growth $k 'mine + 2 > domain_share(f->cfg, f->run, doms, wnd)' 'mine + 1 > domain_share(f->cfg, f->run, doms, wnd)'
gone share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload'
swap share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload' 'len >= SMALL_SEGS * tx->payload'
swap share__leaves_the_application $k 'len > SMALL_SEGS * tx->payload' 'len > SMALL_SEGS * tx->payload + 1'
gone share__leaves_the_application $k '!(doms & ~app)'
gone share__leaves_the_application $k 'app == here' '|| app == here) &&'
gone share__leaves_the_application $k 'app == here' '|| app == here ||'
swap share__leaves_the_application $k 'here | app | weft_tx_busy(tx)' 'here | weft_tx_busy(tx)'
gone share__look_leaves_the_application $d "$look"
swap share__look_leaves_the_application $d 'app_domain(doms, &q->tx, sq) == here' 1
swap share__look_leaves_the_application $d 'op == WEFT_DB_POST' 1 $'if (op == WEFT_DB_POST)\n\t\tq'
cut share__look_leaves_the_application $d 'q->tx.post_dom = dom'
swap share__look_leaves_the_application $d '!first' 1 'op == WEFT_DB_LOOK && !first'
gone share__crowds $t 'crowds(f->cfg, f->run, tx, f->dom, doms)'
swap share__crowds $k 'active > 1' 1 'return active > 1'
out='tx->dom[dom & (WEFT_DOMAINS - 1)].out * active >= all + active'
swap share__crowds $k "$out" "${out/>=/>}"
swap share__crowds $k "$out" "${out/ + active/}"
swap share__crowds $k "$out" 'tx->inflight * active >= all + active'
swap share__many $k 'READ_ONCE(run->active) >= 2 * cfg->domains' 'READ_ONCE(run->active) >= cfg->domains'
swap share__many $k 'READ_ONCE(run->active) >= 2 * cfg->domains' 'READ_ONCE(run->active) > 2 * cfg->domains'
swap share__many $k '(many_qps(cfg, run) - 1)' '~0u'
swap share__many $k 'many_qps(cfg, run) ^ 1' 0
swap share__many $k 'many_qps(cfg, run) ^ 1' 1
swap share__many $k 'more < mine ? more : mine' mine
swap share__many $k 'more < mine ? more : mine' more
swap share__finds_room $k 'now & (WEFT_DOMAINS - 1)' 0
swap share__crowds $k 'cfg->budget * weft_popcount(doms)' 'cfg->budget'
swap share__many $k 'here | app | weft_tx_busy(tx)' 'here | app'
