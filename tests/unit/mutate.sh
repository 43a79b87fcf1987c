#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Break every guard of set-up and of a QP's life in the library once, and see its unit test go red. TAP.
#
#   mutate.sh [NUMBER | PATTERN]...    # PATTERN of tests: 'idle__*'
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/jobs.sh
. tests/jobs.sh
# shellcheck source=tests/mutants.sh
. tests/mutants.sh
work=$(mktemp -d) || exit 1
trap 'jobs_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/tests" && cp -r user include "$work" && cp -r tests/unit "$work/tests" || exit 1
cd "$work" || exit 1

c=user/ctl.c e=user/event.c q=user/cq_wait.c i=user/idle.c w=user/cm_wire.h r=user/recv.c s=user/state.c

# ---- what is waited for ----
gone cq_wait__what_for $q '__atomic_load_n(&wr->how, __ATOMIC_RELAXED) & (WEFT_HOW_PART | WEFT_HOW_QUIET)'
swap cq_wait__what_for $q 'WEFT_HOW_PART | WEFT_HOW_QUIET' WEFT_HOW_QUIET
swap cq_wait__what_for $q 'WEFT_HOW_PART | WEFT_HOW_QUIET' WEFT_HOW_PART
swap cq_wait__what_for $q '(int32_t)(prod - polled) > 0' 'prod > polled'
swap cq_wait__what_for $q '(int32_t)(done - at) >= 0' 'done >= at'
swap cq_wait__what_for $q 'done != polled' 0
swap cq_wait__what_for $q 'done != polled' 1
cut cq_wait__what_for $q 'how = WEFT_ARMED_AT'
swap cq_wait__wakes_later $q 'read(cq->wake_fd, &n, sizeof(n)) == sizeof(n)' '(read(cq->wake_fd, &n, sizeof(n)), 1)'
cut cq_wait__drains $q 'drain(cq)'
gone cq_wait__drains $q 'len & BPF_RINGBUF_BUSY_BIT'
cut cq_wait__drains $q 'len &= ~BPF_RINGBUF_DISCARD_BIT'
swap cq_wait__failed $q 'status || completed(qp)' 'completed(qp)'

# ---- idle peers ----
gone idle__gone $i 's < 1' 'return s < 1'
gone idle__gone $i 's > 60'
swap idle__gone $i ANSWER_MS 0 '* 1000 + ANSWER_MS'
swap idle__alive $i 'ti.tcpi_last_ack_recv < ti.tcpi_last_data_recv' 0
swap idle__not_asked $i '!qp->idle_on' 0
gone idle__not_asked $i 'qp->status'
gone idle__not_asked $i 'qp->cm_over'
gone idle__not_asked $i 'qp->doom_ns' 'qp->doom_ns)'
gone idle__outstanding $i 'weft_ctl_outstanding(qp)'
gone idle__packets_come $i 'arrived != qp->idle_arrived'
cut idle__answers_at_last $i 'qp->ping_ns = 0'
swap idle__gone $i '!qp->ping_ns' 1
cut idle__we_were_stopped $i 'qp->ping_ns += gap'
swap idle__we_were_stopped $i 'qp->ping_ns + limit - suspect(qp)' 'qp->ping_ns'
gone idle__gone $i 'now >= until'
swap idle__link_down $i 'c->dev->down_ns' 0
swap idle__gone $i 'until < now + LOOK ? until : now + LOOK' 'now + LOOK'
gone idle__we_were_stopped $i 'now > c->idle_at + LATE'
swap idle__the_earliest $i 'at < next ? at : next' at
gone idle__not_asked $i 'qp->idle_ms == UINT32_MAX'
gone idle__the_earliest $i 'at < c->idle_at'

# ---- the timer, and what ends a QP ----
swap tick__quiet $c 'weft_ctl_outstanding(c->qp[i])' 0
swap tick__quiet $c '&qp->told' '&qp->prod'
gone tick__looks $c 'done != qp->seen_done || una != qp->seen_una'
gone tick__time_out $c 'una != qp->seen_una'
gone tick__time_out $c 'done != qp->seen_done'
cut tick__retries $c 'qp->retry_known = false' $'qp->look_ns = 0;\n\t\tqp->retry_known = false;'
gone tick__rnr $c 'rnrs != qp->seen_rnrs'
cut tick__rnr $c 'limit += RNR_GAP'
gone tick__rnr $c 'qp->rnr_retries && qp->ring->tx_probes > qp->rnr_retries'
swap tick__rnr $c 'qp->ring->tx_probes > qp->rnr_retries' 'qp->ring->tx_probes >= qp->rnr_retries'
swap tick__rnr $c qp-\>rnr_retries 1 'qp->rnr_retries &&'
gone tick__time_out $c 'c->dev->down_ns' $'if (c->dev->down_ns)\n\t\tlimit'
gone tick__time_out $c 'idle >= limit'
swap tick__looks $c 'idle >= LOOK_MIN' 1
swap tick__looks $c 'now >= qp->look_ns' 1
gone tick__retries $c 'retries_over(c, qp)'
swap tick__retries $c '!qp->retry_cnt' 0
swap tick__retries $c '!qp->retry_known' 0
retries='(uint32_t)st.timeouts - qp->retry_base'
swap tick__retries $c "$retries > qp->retry_cnt" "$retries >= qp->retry_cnt"
cut tick__we_were_stopped $c 'qp->seen_ns += gap'
swap tick__looks $c 'c->smooth == SMOOTH' 1
cut tick__looks $c 'c->smooth = 0' $'if (stuck)\n\t\tc->smooth = 0;'
gone ring__errors $c '__atomic_load_n(&r->tx_err, __ATOMIC_ACQUIRE)'
gone ring__errors $c '__atomic_load_n(&r->rx_err, __ATOMIC_ACQUIRE)'
gone ring__errors $c 'why == WEFT_WC_REM_CLOSED_ERR' 'if (why == WEFT_WC_REM_CLOSED_ERR)'
swap ring__errors $c 'r->tx_err == WEFT_TX_ERR_NAK' 0 'r->tx_err == WEFT_TX_ERR_NAK ?'
gone ring__errors $c 'r->sq_done == r->tx_err_ssn'
swap doom__first_reason $c '!qp->doom_ns' 1 $'if (!qp->doom_ns) {\n\t\tqp->doom_why'
gone doom__first_reason $c 'at < qp->doom_ns'
swap hear__stream $c 'qp->bye[0] == WEFT_CM_PING' 0
gone hear__stream $c 'qp->bye_len < sizeof(qp->bye)'
gone hear__stream $c 'n < 0 && (errno == EAGAIN || errno == EINTR)'
swap hear__garbage $c '!weft_cm_bye_parse(qp->bye, &code, &qp->bye_arrived)' '(weft_cm_bye_parse(qp->bye, &code, &qp->bye_arrived), 1)'

# ---- what is said at set-up ----
gone parse__strangers $w 'memcmp(buf, magic, len < 4 ? len : 4)'
swap parse__round_trip_at_every_length $w 'len < 4 ? len : 4' 4
gone parse__strangers $w 'cm_get(buf + 4, 2) != WEFT_CM_VER'
gone parse__strangers $w 'cm_get(buf + 6, 2) != WEFT_WIRE_VER'
gone parse__strangers $w 'm->type != type'
gone parse__strangers $w 'm->priv_len > WEFT_PRIVATE_MAX'
gone parse__strangers $w 'cm_get(buf + 30, 2)'
gone parse__strangers $w 'cm_get(buf + 52, 4)'
gone parse__strangers $w 'cm_get(buf + 72, 8)'
gone parse__refusal $w 'type != WEFT_CM_REPLY'
gone parse__refusal $w 'm->priv_len' '|| m->priv_len)'
gone parse__zero_fields $w '!m->qpn'
gone parse__zero_fields $w '!m->port'
gone parse__strangers $w '(m->flags & ~(WEFT_CM_CSUM | WEFT_CM_STRICT))'
gone parse__zero_fields $w 'm->payload < WEFT_PAYLOAD_MIN'
gone parse__strangers $w 'm->payload > 65536'
gone parse__strangers $w 'm->payload % 64'
gone parse__strangers $w 'len < WEFT_CM_LEN + (size_t)m->priv_len'
cut version__refusal_in_its_own $w 'memset(buf, 0, WEFT_CM_OLD_LEN)'
gone match__reasons $w '(a->required & ~b->features)'
gone match__reasons $w '(b->required & ~a->features)'
gone match__reasons $w 'a->window != b->window'
gone match__reasons $w 'a->atomics != b->atomics'
swap match__reasons $w '(a->features & b->features & WEFT_CM_F_ATOMIC)' 1
gone bye__round_trip $w 'cm_get(buf, 4) != WEFT_CM_BYE_MAGIC'

# ---- receives ----
swap recv__own $r 'rq->depth < depth' 'rq->depth * 2 <= depth'
gone recv__shared $r used 'if (used)'
swap recv__shared $r rq-\>shared 0 $'return;\n\tif (rq->shared)'
cut recv__resume $r 'weft_doorbell(qp->dev, qp->num, WEFT_DB_RESUME, len)'
gone recv__malformed $r 'r->nsge > WEFT_RECV_SGE_MAX'
gone recv__malformed $r 'r->nsge && !r->sge'
swap recv__malformed $r '!weft_sge_ok(rq->dev, rq->pd->id, &r->sge[i], WEFT_LOCAL_WRITE)' 0
cut recv__own $r 'memset(e->sge, 0, sizeof(e->sge))'
cut recv__flush $r 'e->len = e->imm = e->flags = e->status = 0'
swap recv__own $r '!__atomic_load_n(&rq->busy[*at], __ATOMIC_ACQUIRE)' 1
swap recv__shared $r 'rq->nspare != 0' 1
gone recv__malformed $r 'n < 1' 'if (n < 1)'
swap recv__malformed $r '!qp->rq' 0
gone recv__malformed $r '__atomic_load_n(&qp->status, __ATOMIC_RELAXED)'
gone recv__resume $r 'weft_ring_offer(qp->ring, &qp->rq->head->prod, qp->rq->prod)'
gone recv__resume $r 'qp->waits' 'if (qp->waits'
gone recv__resume $r 'weft_ring_offer(qp->ring, &qp->ring->rq_polled, polled)'
swap recv__shared_flush $r 'weft_rq_bound(qp->ring->bind, rsn, at) == WEFT_RQ_OK' '(weft_rq_bound(qp->ring->bind, rsn, at), 1)'
gone recv__flush $r '!rq->shared && end > rq->depth'
swap recv__flush $r 'rq->busy[*at]' 1 '&& rq->busy[*at]'
cut recv__shared_flush $r 'qp->recv_flushed++' $'then */\n\t\tqp->recv_flushed++;'
gone recv__written_over $r 'end - polled > WEFT_RQ_DEPTH'
swap recv__written_over $r 'qp->rq->busy[at]' 1
gone recv__flush $r 'status && polled == end && got < n'
gone recv__flush $r 'status && next_flushed(qp, &at)'
swap recv__solicited $r '!sol' 1
swap recv__flush $r WEFT_WC_LOC_LEN_ERR WEFT_WC_LOC_PROT_ERR 'return WEFT_WC_LOC_LEN_ERR'
swap recv__flush $r WEFT_WC_FLUSH_ERR WEFT_WC_GENERAL_ERR 'return WEFT_WC_FLUSH_ERR'
gone recv__no_queue $r 'err == -ENOSPC'
gone recv__no_queue $r 'err == -EDQUOT'

# ---- the states that an application gives ----
gone state__in_error $s 'weft_qp_status(qp) || __atomic_load_n(&qp->failing, __ATOMIC_ACQUIRE)'
gone state__in_error $s '__atomic_load_n(&qp->failing, __ATOMIC_ACQUIRE)' '|| __atomic_load_n(&qp->failing, __ATOMIC_ACQUIRE)'
gone state__in_error $s '!why'
gone state__abort $s 'why == WEFT_WC_FLUSH_ERR'
at=$'weft_qp_state(qp) == WEFT_QPS_ERR)\n\t\treturn weft_qp_dead(qp);\n\t__atomic_store_n(&qp->drained'
gone state__in_error $s 'weft_qp_state(qp) == WEFT_QPS_ERR' "$at, true"
gone state__in_error $s 'weft_qp_state(qp) == WEFT_QPS_ERR' "$at, false"
cut state__drain $s '__atomic_store_n(&qp->drained, true, __ATOMIC_RELEASE)'
cut state__drain $s '__atomic_store_n(&qp->drained, false, __ATOMIC_RELEASE)'
cut state__drain $s 'weft_post_held(qp)'
gone state__drain $s 'weft_ctl_outstanding(qp)'
gone state__drain $s 'weft_now_ns() >= until'
gone state__drain $s 'weft_qp_state(qp) == WEFT_QPS_ERR' 'return weft_qp_state(qp) == WEFT_QPS_ERR'
gone state__disconnect $s err 'return err ? err'
gone state__one_reason $s '!weft_qp_fail_begin(qp, WEFT_WC_FLUSH_ERR)'
cut state__abort $s 'weft_qp_fail_stop(&qp, 1)'

# ---- events ----
gone event__in_order $e 'e->n && !e->marked'
gone event__in_order $e '!e->n && e->marked'
gone event__lost $e '!e->n && e->lost'
swap event__lost $e '!e->n' 1 '!e->n && e->lost'
cut event__lost $e 'e->lost = 0'
gone event__lost $e 'e->n == WEFT_EVENTS_MAX'
swap event__forgotten $e 'e->q[i].qp != qp' 1
cut event__lost_and_forgotten $e 'mark(e)' $'e->n = n;\n\tmark(e);'

# What each program needs, compiled once.
cat >mutation.h <<'C'
#include <stdlib.h>
static unsigned weft_mutation;
#define weft_mutated(n) (weft_mutation == (n))
__attribute__((constructor)) static void weft_mutation_read(void)
{
	weft_mutation = atoi(getenv("WEFT_MUTATION"));
}
C
mutants_pick "$@"
jobs_begin "$work/said"
mutants_placed

# The program that has the test $1.
program() {
	grep -lw "$1" tests/unit/test_*.c | head -n 1
}
declare -A made=()
for n in "${picked[@]}"; do
	src=$(program "${tests[n - 1]}")
	[ -n "$src" ] || mutants_fail "there is a test ${tests[n - 1]}"
	[ -z "${made[$src]-}" ] || continue
	made[$src]=1
	${CC:-gcc} -std=gnu11 -O0 -w -D_GNU_SOURCE= -include mutation.h -Iinclude -Iuser -o "${src%.c}" "$src" \
		-lcmocka -lm -lpthread || mutants_fail "$src compiles, mutated"
done
export CMOCKA_MESSAGE_OUTPUT=STDOUT

unbroken() {
	local out rc

	out=$(WEFT_MUTATION=0 "${1%.c}" 2>&1)
	rc=$?
	report "$rc" "unbroken, $1 is green"
	[ "$rc" -eq 0 ] || sed 's/^/# /' <<<"$out"
}
mutation() { # NUMBER
	local test=${tests[$1 - 1]} what out rc

	what="$test sees ${names[$1 - 1]//#/}"
	out=$(WEFT_MUTATION=$1 timeout 10 "$(program "$test" | sed 's/\.c$//')" 2>&1)
	rc=$?
	# it may also not end, or end badly
	[ "$rc" -ge 124 ] || grep -qx "\[  FAILED  \] $test" <<<"$out"
	rc=$?
	report "$rc" "$what"
	[ "$rc" -eq 0 ] || echo "# replay: tests/unit/mutate.sh $1"
}
for src in "${!made[@]}"; do
	job unbroken "$src"
done
for n in "${picked[@]}"; do
	job mutation "$n"
done
jobs_end
