#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Receives that go wrong, are missing, late, flushed or shared, and those who sleep until one is complete.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
NETRECV=$LAB_BUILD/tests/net/netrecv

recv() {	# TEST [HOST]
	timeout -k 5 300 "$NETRECV" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" "${2:-10.9.0.2}" "$1" "$SEED" \
		"$LAB_TMP/go"
}

errors() {
	t -- recv long ++ "a SEND longer than its receive: what each side is told, in order, and nothing is written"
	t -- recv gone ++ "a receive whose memory is gone"
	t -- recv misuse ++ "misuse is refused, with words, and full queues; nothing is lost by it"
	t -- recv flush '[fd09::2]' ++ "the end of a QP flushes its receives, each once and in order"
}

# The same, and every other status, where order matters.
strict() {
	local it
	t -- recv ordered ++ "each status between what was before it, which is in place, and behind it, which is flushed"
	for it in ordered long gone flush wait retries shared; do
		t -- recv strict:$it ++ "in strict order: $it"
	done
}

missing() {
	t -- recv wait ++ "without a receive a SEND waits, for longer than the time-out; its peer may post, or close"
	t -- recv resume ++ "a receive that comes late is taken at once"
	t -- recv resume '[fd09::2]' ++ "also over IPv6"
	t -- recv retries ++ "rnr_retries is kept, in number and time"
}

shared() {
	t -- recv shared ++ "a shared queue: errors of one QP and what comes back when it goes"
	t -- recv unpolled ++ "a shared queue whose completions nobody takes: polling starts the peer again"
}

asleep() {
	t -- recv solicited ++ "solicited messages wake who waits for them, others do not, failures do"
	t -- recv sleepers ++ "20,000 rounds between two that sleep: no wake-up is lost"
}

# spawn TEST: in the background, it waits for $LAB_TMP/go between its steps; its pid is in $RECV
spawn() {
	: >"$LAB_TMP/$1"
	lab_spawn recv "$1" >"$LAB_TMP/$1" 2>&1
	RECV=$LAB_SPAWNED
}

killed() {
	local holder
	: >"$LAB_TMP/hold"
	lab_spawn "$NETRECV" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2 hold >"$LAB_TMP/hold" 2>&1
	holder=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/hold" listening "$holder"
	spawn killed
	t -- lab_wait_line "$LAB_TMP/killed" waiting "$RECV" ++ "a SEND waits for a receive of another process"
	note "$("$WEFT" -n "$LAB_A" qp show "$LAB_IF_A")"
	t "$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" |
		jq '.[0] | .rnr and .rnr_probes > 2 and .rnr_s > 0.1 and .rnr_s < 20 and .recvs == 0' |
		grep -c true) == 1" "as weft qp show tells"
	t -- grep -q '^weft_qp_rnr_waiting{.*} 1$' <("$WEFT" -n "$LAB_A" metrics "$LAB_IF_A") ++ "and weft metrics"
	kill -KILL "$holder"
	wait "$holder" 2>/dev/null
	lab_forget "$holder"
	touch "$LAB_TMP/go"
	t -- finish "$RECV" killed ++ "which is killed: the SEND ends with REM_CLOSED"
}

# Nothing comes back from B while the receive is posted: its RESUME is lost, and a probe asks.
lost() {
	local before_b before_a
	spawn lost
	t -- lab_wait_line "$LAB_TMP/lost" cut "$RECV" ++ "a SEND waits for a receive"
	lab_impair --loss 0,1000000
	before_b=$(counter "$LAB_B" "$LAB_IF_B" tx_resume) before_a=$(counter "$LAB_A" "$LAB_IF_A" rx_resume)
	touch "$LAB_TMP/go"
	t -- lab_wait_line "$LAB_TMP/lost" posted "$RECV" ++ "it is posted while nothing comes back"
	until_true 60 eval '(($(counter "$LAB_B" "$LAB_IF_B" tx_resume) > before_b))'
	sleep 0.1
	t "$(counter "$LAB_B" "$LAB_IF_B" tx_resume) == $before_b + 1 &&
		$(counter "$LAB_A" "$LAB_IF_A" rx_resume) == $before_a" "the RESUME is lost"
	lab_impair --loss 0
	touch "$LAB_TMP/go"
	t -- finish "$RECV" lost ++ "and the SEND arrives all the same"
}

# no_way HOW COMMAND...: in both orders, while requests are out
no_way() {
	local how=$1 it
	shift
	for it in "$how" "strict:$how"; do
		spawn "$it"
		t -- lab_wait_line "$LAB_TMP/$it" "^$how\$" "$RECV" ++ "requests are out"
		"$@"
		touch "$LAB_TMP/go"
		t -- finish "$RECV" "$it" ++ "$it: one tells why, the others are flushed"
		lab_impair --loss 0
		both up
	done
}

# The programs stay on the interfaces from one test to the next: to load them takes a second or two.
lab_begin
lab_pair 3498
both up
for part in errors strict missing shared asleep killed; do
	tap_part $part && $part
done
both down
lab_down
lab_middle 3498 --seed $((SEED % 100000))
both up
tap_part lost && lost
if tap_part no_way; then
	no_way cut lab_impair --loss 1000000
	no_way down "$WEFT" -n "$LAB_A" down "$LAB_IF_A"
fi
if tap_part sizes; then
	lab_impair --loss 10000
	t -- recv sizes ++ "1% lost: nothing, 1 MiB and 64 MiB in 4 pieces, inline data that changes at once"
	t -- recv sizes '[fd09::2]' ++ "the same over IPv6"
fi
both down
tap_end
