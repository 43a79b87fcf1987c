#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The life of a QP: a peer that vanishes while idle, retry counts, events, states, ends.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

NETSETUP=$LAB_BUILD/tests/net/netsetup

# connected [VAR=VALUE...]: a QP between a server and a client with these options, both in its life. What
# they say is in c and s, or with WHICH=N in cN and sN.
connected() {
	local n=${WHICH:-} c s
	c=$LAB_TMP/c$n s=$LAB_TMP/s$n
	: >"$s"
	: >"$c"
	lab_spawn_in "$LAB_B" env "$@" "$NETSETUP" server "$LAB_B" "$LAB_IF_B" "700${n:-0}" 1 >"$s" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$s" '^ready' "$SERVER"
	lab_spawn_in "$LAB_A" env "$@" "$NETSETUP" client "$LAB_A" "$LAB_IF_A" "10.9.0.2:700${n:-0}" 1 30000 >"$c" 2>&1
	CLIENT=$LAB_SPAWNED
	lab_wait_line "$c" '^connected 1' "$CLIENT" || note "$(<"$c")"
	PAIRS+=("$CLIENT" "$SERVER")
}
PAIRS=()

over() {	# all that are connected end
	local pid
	kill -TERM "${PAIRS[@]}"
	for pid in "${PAIRS[@]}"; do
		lab_wait "$pid"
	done
	PAIRS=()
}

# Nothing comes through any more, and no link is down: as when a host loses its power.
sever() {
	lab_impair --all --loss 1000000
	CUT=$(now)
}

mend() {
	lab_impair --all --loss 0
}

# fails NAME MS STATUS [MS]: within so many ms after the cut, and not before that
fails() {
	local at ends
	until_true 60 grep -q '^failed' "$LAB_TMP/$1"
	cat "$LAB_TMP/$1"
	grep -qE "^failed at [0-9]*: ($3)" "$LAB_TMP/$1" || return 1
	at=$(sed -n 's/^failed at \([0-9]*\): .*/\1/p' "$LAB_TMP/$1")
	ends=$((at / 1000)).$(printf %03d $((at % 1000)))
	at=$(since "$CUT" "$ends")
	TIMES+=" $1:$at"
	((at >= ${4:-0})) && late "$at" "$2" "$CUT" "$ends"
}

alive() {	# alive [N]: both sides work
	note "$(<"$LAB_TMP/c${1:-}") $(<"$LAB_TMP/s${1:-}")"
	! grep -q '^failed' "$LAB_TMP/c${1:-}" "$LAB_TMP/s${1:-}"
}

# Three with different options, and one cut.
vanished() {
	connected
	WHICH=5 connected IDLE_MS=5000
	WHICH=9 connected IDLE_MS=4294967295
	sleep 1.5
	sever
	t -- fails c 3000 'no answer' ++ "the peer's host vanishes while idle: the client knows within 3 s"
	t -- fails s 3000 'no answer' ++ "so does the server"
	t -- fails c5 5200 'no answer' 2800 ++ "idle_ms 5000: not so soon, but within that"
	t -- fails s5 5200 'no answer' 2800 ++ "and so the server"
	until_true 60 eval '(($(since "$CUT") >= 5500))'
	t -- alive 9 ++ "UINT32_MAX: never"
	mend
	over
}

# A stopped process is not dead, a short outage is none; and neither is one of the own process.
not_vanished() {
	connected
	freeze "$SERVER"
	sleep 4
	t -- alive ++ "a peer that is stopped for 4 s is not taken for dead"
	kill -CONT "$SERVER"
	freeze "$CLIENT"
	sleep 3.5
	kill -CONT "$CLIENT"
	sleep 0.5
	t -- alive ++ "nor is one by who was stopped himself"
	t -- outage ++ "an outage of 1 s"
	t -- outage ++ "and another"
	sleep 2.6
	t -- alive ++ "end nothing"
	lab_impair --all --loss 50000
	sleep 5
	t -- alive ++ "nor do 5 s with 5% loss"
	mend
	over
}

# A slow machine makes it longer, and then an error may be right: once more.
outage() {
	sleep 0.8
	sever
	sleep 1
	mend
	late "$(since "$CUT")" 1900
}

vanished_meanwhile() {
	connected
	kill -STOP "$CLIENT"
	sever
	sleep 3.5
	kill -CONT "$CLIENT"
	t -- fails c 5500 'no answer' ++ "it vanishes while we are stopped: noticed afterwards"
	mend
	over
}

# ends FROM TO LOW HIGH: a WRITE posted into the void ends so many ms later, after so many time-outs
ends() {
	local ms n from
	from=$(now)
	kill -USR1 "$CLIENT"
	until_true 60 grep -q '^write' "$LAB_TMP/c"
	cat "$LAB_TMP/c"
	ms=$(sed -n 's/^write.*ms \([0-9]*\),.*/\1/p' "$LAB_TMP/c")
	n=$(sed -n 's/^write.*timeouts \([0-9]*\)$/\1/p' "$LAB_TMP/c")
	grep -q '^write: no answer' "$LAB_TMP/c" && ((ms >= $1 && n >= $3 && n <= $4)) && late "$ms" "$2" "$from"
}

retries() {
	connected RETRY_CNT=3 TIMEOUT_MS=60000 IDLE_MS=600000
	sever
	t -- ends 0 10000 4 4 ++ "retry_cnt 3, timeout_ms 60000: the fourth time-out in a row is an error"
	mend
	over
	connected RETRY_CNT=1000 TIMEOUT_MS=600 IDLE_MS=600000
	sever
	t -- ends 550 1000 2 100 ++ "retry_cnt 1000, timeout_ms 600: the time is over first"
	mend
	over
	connected TIMEOUT_MS=1500 IDLE_MS=600000
	sever
	t -- ends 1400 1900 2 100 ++ "retry_cnt 0: only timeout_ms decides"
	mend
	over
}

# Events and states, in one process with two devices.
calls() {
	local line said out=$LAB_TMP/netlife
	WEFT=$WEFT "$LAB_BUILD/tests/net/netlife" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2:7002 >"$out" 2>&1 ||
		note "netlife: status $?"
	said=$(grep '^#' "$out")
	while read -r line; do
		case $line in
		'ok '*) t -- true ++ "${line#* - }" ;;
		'not ok '*)
			note "$said"
			t "1 == 0" "${line#* - }"
			;;
		esac
	done <"$out"
	t -- grep -q '^1\.\.' "$out" ++ "netlife comes to its end"
}

lab_begin
meter
lab_pair 1500
tap_part calls && calls
lab_down
lab_middle 1500
both up
TIMES=
for part in vanished not_vanished vanished_meanwhile retries; do
	tap_part $part && timely $part
done
echo "# note: ms:$TIMES"
both down
tap_end
