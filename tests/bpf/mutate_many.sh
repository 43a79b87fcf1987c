# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2086 # the names of files are mutate.sh's, without blanks
# What tests/bpf/mutate.sh breaks of several WRITEs in a packet; not to be run by itself.

gone many__shape $v '!(ctl->flags & WEFT_QPF_MANY)'
gone many__ring_gone $v '!has_ring(ctl)'
gone many__shape $v 'n < 2'
gone many__shape $v 'n > WEFT_MANY' 'n > WEFT_MANY ||'
gone many__shape $v '!(p->u.h.flags & WEFT_F_LAST)'
gone many__shape $v 'p->len < n * sizeof(struct weft_desc)'
gone many__shape $v 'len > WEFT_MANY_LEN' $'len > WEFT_MANY_LEN)\n\t\t\tlen = WEFT_PAYLOAD_MAX'
gone many__shape $v 'p->len != n * sizeof(struct weft_desc) + bytes'
gone many__damaged $v 'sum[0] != bpf_ntohl(p->u.h.writes.sum[0])'
gone many__damaged $v 'sum[1] != bpf_ntohl(p->u.h.writes.sum[1])'
swap many__placed $v 'weft_rx_keep_many(&q->rx, psn, n)' 'weft_rx_keep(&q->rx, psn, WEFT_RX_ARRIVAL)'
gone many__placed $v 'v != WEFT_RX_NEW'
cut many__placed $v 'at += bpf_ntohl(wk->desc[i].len)'
inv I5 gone many__refused $v 'unlikely(code)' $'unlikely(code))\n\t\treturn code'
inv I5 gone many__refused $v 'unlikely(code)' $'unlikely(code))\n\t\t\treturn refuse'
swap many__refused $v '(code & 0xffff) | i << 16' code
cut many__refused $r 'u.h.nak.nth = bpf_htonl(nth)'
cut many__refused $r 'q->rx.err_nth = nth'
cut many__refused $c/rx_track.h 'rx->msn += rx->err_nth - rx->err_part'
cut many__refused $r 'rx_advance(ctl, slot)' $'if (nth)\n\t\t\trx_advance(ctl, slot)'
swap many__refused_behind_a_gap $c/rx_track.h 'rx->next == rx->err_psn' 1
cut many__refused $r 'nth = q->rx.err_nth' $'\tnth = q->rx.err_nth;'
gone many__pool_gone $v 'unlikely(len > WEFT_MANY_LEN || place(ctx, pool, off, at, len))'
gone many__out_of_order $c/rx_track.h '*(volatile __u64 *)&w->many & last' 'if (*(volatile __u64 *)&w->many & last)'
gone join__room $v 'ctl->flags & WEFT_QPF_MANY' 'ctl->flags & WEFT_QPF_MANY &&'
swap join__who_may_not $c/tx_many.h 'seg->op == WEFT_WQE_WRITE' 1
swap join__who_may_not $c/tx_many.h '!seg->wflags' 1
swap join__who_may_not $c/tx_many.h 'seg->mlen <= WEFT_MANY_LEN' 1
gone join__who_may_not $c/tx_many.h 'op != WEFT_WQE_WRITE'
gone join__who_may_not $c/tx_many.h 'flags | moff'
gone join__who_may_not $c/tx_many.h 'len != mlen'
gone join__who_may_not $c/tx_many.h 'len > WEFT_MANY_LEN'
cut join__claimed $d 'wk->queued = 0'
gone join__room $c/tx_many.h 'room > tx->payload'
cut join__memory_gone $v 'fail_local(st, ctl, slot, wk->seg.msn + i)'
swap join__bell $d 'prod - q->tx.cons > INPLACE_MANY' 0
cut join__local_error $v 'prod = wk->seg.msn + n'
