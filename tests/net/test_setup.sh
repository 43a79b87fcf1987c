#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Connection set-up: hundreds who connect at the same time, also among strangers, and what is refused.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

NETSETUP=$LAB_BUILD/tests/net/netsetup
PROCS=4 EACH=60
# ms: far more than it takes; who waited for strangers one after the other would need longer
PATIENCE=30000 SOON=10000

# run NAME NS ARGS...: netsetup in the background; its output is $LAB_TMP/NAME, its pid in $PID
run() {
	local name=$1 ns=$2
	shift 2
	: >"$LAB_TMP/$name"
	lab_spawn_in "$ns" "$NETSETUP" "$@" >"$LAB_TMP/$name" 2>&1
	PID=$LAB_SPAWNED
}

# number NAME WORD: what stands behind WORD in its output
number() {
	sed -n "s/.*$2 \([0-9]*\).*/\1/p" "$LAB_TMP/$1" | tail -n 1
}

sum() {	# sum NAME WORD [N]: of the first N processes so named
	local i n=0
	for ((i = 0; i < ${3:-PROCS}; i++)); do
		n=$((n + $(number "$1$i" "$2" || echo 0)))
	done
	echo $n
}

# A server in B and a client in A for each process, with what is in $STRANGERS at each server.
crowd() {	# crowd NAME
	local i pids=() strangers=() ok=0
	for ((i = 0; i < PROCS; i++)); do
		run "s$i" "$LAB_B" server "$LAB_B" "$LAB_IF_B" "700$i" $EACH
		pids+=("$PID")
		lab_wait_line "$LAB_TMP/s$i" '^ready' "$PID" || ok=1
		[ -n "$STRANGERS" ] || continue
		# shellcheck disable=SC2086
		run "x$i" "$LAB_A" strangers 10.9.0.2 "700$i" $STRANGERS
		strangers+=("$PID")
	done
	[ -z "$STRANGERS" ] || sleep 1
	for ((i = 0; i < PROCS; i++)); do
		run "c$i" "$LAB_A" client "$LAB_A" "$LAB_IF_A" "10.9.0.2:700$i" $EACH $PATIENCE
		pids+=("$PID")
	done
	for ((i = 0; i < PROCS; i++)); do
		lab_wait_line "$LAB_TMP/c$i" '^connected' "${pids[PROCS + i]}" || ok=1
		lab_wait_line "$LAB_TMP/s$i" '^accepted' "${pids[i]}" || ok=1
	done
	t "ok == 0" "$1: all have an answer"
	sleep 0.5
	[ -z "$STRANGERS" ] || kill -TERM "${strangers[@]}"
	kill -TERM "${pids[@]:PROCS}"
	for i in ${strangers[@]+"${strangers[@]}"} "${pids[@]:PROCS}"; do
		lab_wait "$i" || ok=1
	done
	note "$(tail -n 3 "$LAB_TMP"/[csx][0-9])"
	t "$(sum c connected) == PROCS * EACH" "all $((PROCS * EACH)) are connected"
	t "$(sum s accepted) == PROCS * EACH" "and accepted, each once"
	t "$(sum c alive) == PROCS * EACH" "and stay so"
	for ((i = 0; i < PROCS; i++)); do
		ok=$(($(number "c$i" took) > ok ? $(number "c$i" took) : ok))
	done
	t "ok < SOON" "within $SOON ms (the slowest took $ok ms)"
	ok=0
	kill -TERM "${pids[@]:0:PROCS}"
	for i in "${pids[@]:0:PROCS}"; do
		lab_wait "$i" || ok=1
	done
	t "ok == 0" "and end well"
}

alone() {
	STRANGERS=''
	crowd "$((PROCS * EACH)) at once"
}

silent() {
	STRANGERS='silent=300 gone=20 junk=20'
	crowd "among 300 each that say nothing, 40 that come and go"
}

half_open() {
	STRANGERS='half=40 slow=100'
	crowd "among 40 half-open each, 100 that speak byte by byte"
}

# More than a process has QPs for: the rest is told so at once.
full() {
	local s c=() i ok=0
	run s0 "$LAB_B" server "$LAB_B" "$LAB_IF_B" 7000 65
	s=$PID
	lab_wait_line "$LAB_TMP/s0" '^ready' "$s"
	for i in 0 1; do
		run "c$i" "$LAB_A" client "$LAB_A" "$LAB_IF_A" 10.9.0.2:7000 40 $PATIENCE
		c+=("$PID")
	done
	for i in 0 1; do
		lab_wait_line "$LAB_TMP/c$i" '^connected' "${c[i]}" || ok=1
	done
	note "$(tail -n 3 "$LAB_TMP"/[cs][0-9])"
	t "ok == 0 && $(sum c connected 2) == 64" "80 connect to a process that holds 64: those are connected"
	t "$(sum c refused 2) == 16" "16 are refused"
	t -- grep -q '10.9.0.2:7000: the peer can make no QP, all or its memory are in use; use fewer, close some there, or .*weft up DEV qps N' "$LAB_TMP/c0" "$LAB_TMP/c1" ++ "and told why"
	t "$(sum c took 1) < SOON" "at once, and not after $PATIENCE ms"
	kill -TERM "${c[@]}"
	for i in "${c[@]}"; do
		lab_wait "$i" || ok=1
	done
	t "$(sum c alive 2) == 64" "the others stay connected"
	kill -TERM "$s"
	lab_wait "$s"
	# one that takes all it can get: who is refused would leave its place to another
	run s0 "$LAB_B" server "$LAB_B" "$LAB_IF_B" 7000 64
	s=$PID
	lab_wait_line "$LAB_TMP/s0" '^ready' "$s"
	run c0 "$LAB_A" client "$LAB_A" "$LAB_IF_A" 10.9.0.2:7000 70 $PATIENCE
	lab_wait_line "$LAB_TMP/c0" '^connected' "$PID"
	note "$(<"$LAB_TMP/c0")"
	t "$(number c0 full) == 6" "a client with 70 is told that it holds 64 at most"
	t -- grep -q ": this process holds 64 QPs at most; close some, or open the device with more, up to 256: qps of" "$LAB_TMP/c0" ++ \
		"and how it would hold more"
	kill -TERM "$PID" "$s"
	lab_wait "$PID"
	lab_wait "$s"
}

# asks WHAT WANT FIELD=N...: a REQUEST with these numbers gets that answer
asks() {
	local what=$1 want=$2
	shift 2
	t -- asked "$want" "$@" ++ "$what"
}

asked() {
	local got
	got=$(lab_in "$LAB_A" "$NETSETUP" request 10.9.0.2 7000 "${@:2}")
	echo "$got"
	grep -q -- "$1" <<<"$got"
}

# answers WHAT TEXT FIELD=N...: weft_connect() to who replies with these numbers says so
answers() {
	local what=$1 text=$2 fake c
	shift 2
	run fake "$LAB_B" reply 7001 "$@"
	fake=$PID
	lab_wait_line "$LAB_TMP/fake" '^ready' "$fake"
	run c0 "$LAB_A" client "$LAB_A" "$LAB_IF_A" 10.9.0.2:7001 1 $PATIENCE
	c=$PID
	lab_wait_line "$LAB_TMP/c0" '^connected' "$c"
	t -- grep -q -- "$text" "$LAB_TMP/c0" ++ "$what"
	note "$(<"$LAB_TMP/c0") $(<"$LAB_TMP/fake")"
	kill -TERM "$c"
	lab_wait "$c"
	lab_stop "$fake"
}

# Peers of other versions: what matters must match, what only one knows is ignored.
differ() {
	local s text=10.9.0.1 agree='use versions of weft that agree'
	VERBOSE=1 run s0 "$LAB_B" server "$LAB_B" "$LAB_IF_B" 7000 3
	s=$PID
	lab_wait_line "$LAB_TMP/s0" '^ready' "$s"
	asks "a peer like us is answered" '^80 bytes, version 2, refusal 0, window 1024'
	asks "features that we do not know are ignored" 'refusal 0' features=0xffffffff
	asks "those we do not know and must have are refused" 'refusal 6' features=0x80000003 required=0x80000000
	asks "those we know and must have are there" 'refusal 0' required=3
	asks "another window is refused, with ours" 'refusal 7, window 1024' window=2048
	asks "so is another number of atomics" 'refusal 8' atomics=32
	asks "unless there are none" 'refusal 0' features=1 atomics=0
	asks "version 1 is refused in version 1" '^56 bytes, version 1, refusal 1' version=1
	asks "version 3 in version 3" '^56 bytes, version 3, refusal 1' version=3
	t -- grep -q "$text: refused: the peer needs what is not here: bit 31; update weft here" "$LAB_TMP/s0" ++ \
		"the log names the feature"
	t -- grep -q "$text: refused: the peer's window is 2048 packets, ours 1024; $agree" "$LAB_TMP/s0" ++ "the windows"
	t -- grep -q "$text: refused: the peer has up to 32 atomics outstanding, we 64; $agree" "$LAB_TMP/s0" ++ "the atomics"
	t -- grep -q "$text: is no weft peer of our version; refused" "$LAB_TMP/s0" ++ "and the version"
	note "$(<"$LAB_TMP/s0")"
	run c0 "$LAB_A" client "$LAB_A" "$LAB_IF_A" 10.9.0.2:7000 3 $PATIENCE
	t -- lab_wait_line "$LAB_TMP/c0" '^connected 3' "$PID" ++ "a genuine peer is connected after all of them"
	kill -TERM "$PID" "$s"
	lab_wait "$PID"
	lab_wait "$s"
	text=10.9.0.2:7001
	answers "a window that is refused" "$text: the peer's window is 2048 packets, ours 1024; $agree" refusal=7 window=2048
	answers "one that is not refused, but differs" "$text: the peer's window is 512 packets, ours 1024" window=512
	answers "atomics" "$text: the peer has up to 128 atomics outstanding, we 64; $agree" refusal=8 atomics=128
	answers "a feature that the peer must have" "$text: the peer needs what is not here: bit 4; " refusal=6 \
		features=0x13 required=0x10
	answers "a peer of version 1" "$text: the peer speaks version 1 of set-up and 3 of packets, we 2 and 3; use" \
		version=1 refusal=1
	answers "a refusal that we do not know" "$text: the peer refuses (99); see its log" refusal=99
}

lab_begin
lab_pair 1500
both up
tap_part differ && differ
tap_part alone && alone
tap_part silent && silent
tap_part half_open && half_open
tap_part full && full
both down
tap_end
