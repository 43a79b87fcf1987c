# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2086 # the names of files are mutate.sh's, without blanks
# What tests/bpf/mutate.sh breaks of SEND, receive queues, RNR and RESUME; not to be run by itself.
x=bpf/recv.bpf.h

# ---- what takes a receive ----
gone recv__shape $x '!segment_ok(len, bpf_ntohl(p->u.h.data.moff), bpf_ntohl(p->u.h.data.mlen), last)'
gone recv__window $r "$lags"
swap recv__write_segments $x '(send || last)' 1
swap recv__pieces $x '(send || last)' last
cut none__and_then $x 'weft_rx_give_back(&q->rx, psn)'
gone recv__dishonest $x 'got < 0'
gone none__and_then $x '!got'
gone recv__duplicates $x 'v == WEFT_RX_DUP'
gone recv__window $x 'v == WEFT_RX_BUSY'
gone recv__window $x 'v != WEFT_RX_NEW'
gone badrecv__too_long $r 'READ_ONCE(q->rx.err)'
gone badrecv__too_long $x 'unlikely(code)'
gone badrecv__too_long $x 'mlen > weft_rqe_room(wk->sge)'
cut badrecv__too_long $x 'WRITE_ONCE(e->status, code)'
swap badrecv__huge $c/recv.h 'room += sge[i].len' 'room = (__u32)(room + sge[i].len)'
gone badrecv__overflow $x 'seg->loff < off'
swap badrecv__piece $x WEFT_ACCESS_LOCAL_WRITE WEFT_ACCESS_ALL
swap badrecv__piece $x WEFT_NAK_MEMORY 0 '? WEFT_NAK_MEMORY : 0;'
gone badrecv__no_element $x 'unlikely(!e)'
swap recv__one $x 'ctl->rq_mask & (WEFT_RQ_DEPTH - 1)' 'WEFT_RQ_DEPTH - 1'
swap recv__one $x 'WEFT_F_RQ' 0 'flags |= WEFT_F_RQ |'
swap recv__imm $x 'h->op == WEFT_OP_SEND ? 0 : WEFT_RQE_WRITE' 0
gone recv__imm $x 'h->flags & WEFT_F_IMM' 'if (h->flags & WEFT_F_IMM)'
gone recv__imm $x 'h->flags & WEFT_F_SOL' 'if (h->flags & WEFT_F_SOL)'
swap recv__imm $x 'h->flags & WEFT_F_IMM' 1 'h->flags & WEFT_F_IMM ? bpf'
cut recv__empty $x 'WRITE_ONCE(e->status, 0)'
swap recv__write_segments $x WEFT_ACCESS_REMOTE_WRITE WEFT_ACCESS_ALL
cut none__and_then $x 'WRITE_ONCE(ring->refused, 1)'
swap none__and_then $x epoch 0 'WEFT_OP_RNR, 0, epoch'
swap shared__two $x '!(ctl->flags & WEFT_QPF_SRQ)' 1
gone recv__dishonest $x 'rsn - rdone >= WEFT_WIN'
gone recv__dishonest $c/recv.h 'ahead >= WEFT_WIN'
gone shared__polled $c/recv.h 'rsn - polled >= WEFT_RQ_BIND'
swap shared__two $c/recv.h 'b >> 16 == ((rsn + 1) & 0xffff)' 1
swap shared__epoch $c/ring.h 'shared ? posted + *(const volatile __u32 *)&r->rq_polled : posted' posted
cut recv__one $r 'WRITE_ONCE(ring->received, q->rx.rdone)'
gone badrecv__wake_up $r solicited $'if (solicited)\n'
cut badrecv__wake_up_on_error $r 'wake(st, ctl, &ring->rx_fence, &ring->arm_sol, WEFT_EVENT_RX)' \
	$'wake(st, ctl, &ring->rx_fence, &ring->arm_sol, WEFT_EVENT_RX);\n\t\ttele_event'
swap badrecv__wake_up $x 'p->u.h.flags & WEFT_F_SOL ? WEFT_RX_SOL : WEFT_RX_RECV' WEFT_RX_RECV
gone badrecv__wake_up $c/rx_track.h 'last == WEFT_RX_SOL'
gone recv__order $c/rx_track.h 'last >= WEFT_RX_RECV'
swap recv__order $c/rx_track.h 'last && last != WEFT_RX_QUIET' 'last == WEFT_RX_ARRIVAL'
closed=$'state != WEFT_QP_RTS)\n\t\t\treturn drop(st, closed);\n\t\tif (tx_resume'
gone admit__closed_replies $w 'state != WEFT_QP_RTS' "$closed"

# ---- what waits for a receive ----
gone takes__headers $i 'unlikely(weft_wqe_takes(seg->op, seg->wflags))'
gone takes__headers $i 'seg->op == WEFT_WQE_SEND'
gone takes__headers $i 'seg->wflags & WEFT_WQE_IMM'
gone takes__headers $i 'seg->wflags & WEFT_WQE_SOL'
swap takes__headers $c/tx_claim.h 'weft_wqe_takes(q->op, q->flags)' 1
gone takes__nonsense $c/tx_claim.h '(q->flags && weft_wqe_own(q->op))'
gone rnr__waits $c/tx_claim.h 'weft_tx_refused(tx, psn)'
gone rnr__probe_is_taken $c/tx_claim.h tx-\>rnr $'if (tx->rnr)\n\t\treturn WEFT_CLAIM_RNR'
swap rnr__waits $c/tx_claim.h '!tx->rnr' 1 '!tx->rnr && queued'
cut rnr__probe $c/tx_claim.h 'tx->probe = 0'
swap rnr__waits $c/tx_score.h '!weft_ack_missed(a)' 1 'weft_psn_diff(a->psn, tx->una) >= 0 && !weft_ack_missed(a)'
gone rnr__waits $c/tx_score.h 'weft_ack_missed(a)' 'weft_ack_missed(a)) && !weft_tx_delivered(tx, a->psn) &&'
flag='a->flags & WEFT_F_RQ'
gone rnr__an_ack_resumes $c/tx_score.h "$flag"
swap rnr__an_ack_resumes $c/tx_score.h "$flag" 1
gone rnr__probe_is_taken $c/tx_score.h 'tx->rnr && weft_tx_delivered(tx, tx->rnr_psn)'
gone rnr__resume $c/tx_rnr.h 'tx->heard && weft_psn_diff(epoch, tx->epoch) <= 0'
swap rnr__old_queue $c/tx_rnr.h 'tx->heard' 1 'tx->heard &&'
gone rnr__after_its_resume $c/tx_rnr.h 'weft_psn_diff(tx->epoch, epoch) > 0'
gone rnr__waits $c/tx_rnr.h 'weft_psn_diff(psn, tx->rnr_psn) < 0'
gone rnr__probe $c/tx_rnr.h 'now - tx->rnr_ts < WEFT_RNR_MIN << shift'
swap rnr__probe $c/tx_rnr.h 'tx->probes < WEFT_RNR_SHIFT ? tx->probes : WEFT_RNR_SHIFT' 0
swap rnr__probe $c/tx_rnr.h '(tx->probe && tx->nlost > n)' 0
cut rnr__probe $d 'weft_tx_probe(&q->tx, now)'
gone rnr__probe $d 'unlikely(q->tx.rnr)'
cut rnr__resume $t 'weft_tx_resume(&q->tx, epoch, now)'
cut rnr__resume $t 'publish_rnr(&q->tx, ring)' $'publish_rnr(&q->tx, ring);\n\tbpf_spin_unlock'
cut rnr__waits $t 'WRITE_ONCE(f.ring->tx_rnrs, f.ring->tx_rnrs + 1)'
swap rnr__an_ack_ends_it $t 'q->tx.told_rnr' 0 'a.flags & WEFT_F_RQ || q->tx.told_rnr'
gone takes__resume_doorbell $w 'db.op == WEFT_DB_RESUME' 'if (db.op == WEFT_DB_RESUME)'
gone takes__resume_doorbell $d 'frame_resize(ctx, frame_len(ctx), hl)'
cut takes__resume_doorbell $d 'u.h.ack.epoch = bpf_htonl(rq_epoch(ctl, ring))'
