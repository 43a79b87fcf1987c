# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# The weft side of a bench: `weft perf` between the hosts of a topology (sourced).

WEFT_PORT=7471
# The processor of write_bw_1core: not 0, which gets most of a machine's interrupts.
ONE_CORE=$(($(nproc --all) > 1 ? 1 : 0))
weft_server=''

# weft_start TOPOLOGY SERVER-PREFIX CLIENT-PREFIX SECONDS ARGS...: in the background
weft_start() {
	local topo=$1 pin_b=$2 pin_a=$3 secs=$4
	shift 4

	topology "$topo" || return 1
	[ -z "${WEFT_DAEMONS:-}" ] || daemons || return 1
	# shellcheck disable=SC2086 # the prefixes are words
	lab_spawn_in "$LAB_B" $pin_b "$O/weft" perf server -p $WEFT_PORT ${WEFT_MANY:+--qps "$WEFT_MANY"} "$LAB_IF_B" \
		>"$LAB_TMP/server" 2>&1
	weft_server=$LAB_SPAWNED
	wait_listen "$LAB_B" $WEFT_PORT "$weft_server" || return 1
	# shellcheck disable=SC2086
	lab_spawn_in "$LAB_A" $pin_a "$O/weft" perf "${WEFT_OP:-write}" "$LAB_IF_A" 10.9.0.2:$WEFT_PORT \
		--time "$secs" -j "$@" >"$LAB_TMP/client" 2>"$LAB_TMP/client.err"
}

# Wait for the end; $1 is the jq expression of the number for $SAMPLE. A mismatch, an error
# completion or a verification that did not take place fails the bench.
weft_finish() {
	local rc

	lab_wait "$LAB_SPAWNED"
	rc=$?
	lab_stop "$weft_server"
	if [ "$rc" -ne 0 ]; then
		complain "weft perf write: status $rc: $(tail -n 3 "$LAB_TMP/client.err")"
		return 1
	fi
	jq -e '.verified == true and .errors == 0' "$LAB_TMP/client" >/dev/null 2>&1 ||
		{ complain "weft perf write: not verified: $(cat "$LAB_TMP/client")"; return 1; }
	[ -n "${WEFT_DEFAULTS:-}" ] || WEFT_DEFAULTS=$(jq -c '{ evs, cwnd, payload, csum }' \
		"$LAB_TMP/client")
	json_number "$1" "$LAB_TMP/client" ||
		complain "weft perf write: no $1 in $(cat "$LAB_TMP/client")"
}

# weft_bw TOPOLOGY ARGS...
weft_bw() {
	weft_start "$1" '' '' "$BENCH_SECS" --verify "${@:2}" && weft_finish .goodput_gbps
}

# A weftd on either host, and what makes a command one of a user without privileges, who gets there
# by way of it: "unprivileged SOCKET PROGRAM ARGS..." with a copy of the program that he may execute.
daemons() {
	local h ns dev

	chmod 711 "$LAB_TMP"
	mkdir -p "$LAB_TMP/bin"
	cp "$O/weft" "$LAB_TMP/bin"
	cat >"$LAB_TMP/bin/unprivileged" <<-'SH'
		#!/bin/sh
		socket=$1 program=${0%/*}/${2##*/}
		shift 2
		WEFT_DAEMON=$socket exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
			--bounding-set=-all "$program" "$@"
	SH
	chmod 755 "$LAB_TMP/bin" "$LAB_TMP/bin"/*
	for h in a b; do
		[ $h = a ] && ns=$LAB_A dev=$LAB_IF_A || ns=$LAB_B dev=$LAB_IF_B
		printf 'device %s\nuser 65534\n' "$dev" >"$LAB_TMP/$h.conf"
		: >"$LAB_TMP/weftd.$h"
		lab_spawn_in "$ns" "$O/weftd" -c "$LAB_TMP/$h.conf" -s "$LAB_TMP/$h.sock" >"$LAB_TMP/weftd.$h" 2>&1
		lab_wait_line "$LAB_TMP/weftd.$h" '^ready' "$LAB_SPAWNED" 20 ||
			{ complain "weftd: $(tail -n 3 "$LAB_TMP/weftd.$h")"; return 1; }
	done
}

# Both sides without privileges.
weft_bw_daemon() {
	local as=$LAB_TMP/bin/unprivileged

	WEFT_DAEMONS=1 weft_start "$1" "$as $LAB_TMP/b.sock" "$as $LAB_TMP/a.sock" "$BENCH_SECS" --verify "${@:2}" &&
		weft_finish .goodput_gbps
}

# weft_many N COMMAND...: one of these with a server, and a device, for so many QPs
weft_many() {
	WEFT_MANY=$1 "${@:2}"
}

# weft_op OP COMMAND...: one of these with another operation than WRITE
weft_op() {
	WEFT_OP=$1 "${@:2}"
}

# weft_toggled TOPOLOGY: with telemetry and without it, in turn under one transfer
weft_toggled() {
	local pins=/sys/fs/bpf/weft

	weft_start "$1" '' '' $((BENCH_SECS + 2)) --verify --size 1m || return 1
	sleep 1
	# shellcheck disable=SC2034 # for bench.sh
	PAIRS=$("$O/bench/toggle" "$pins/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A" \
		"$pins/$(stat -Lc %i "/run/netns/$LAB_B")-$LAB_IF_B" 1048576 "$BENCH_SECS") ||
		{ complain "telemetry could not be toggled: $(tail -n 3 "$LAB_TMP/client.err")"; return 1; }
	weft_finish .goodput_gbps
}

weft_bw_one_core() {
	weft_start "$1" "taskset -c $ONE_CORE" "taskset -c $ONE_CORE" "$BENCH_SECS" --verify \
		"${@:2}" && weft_finish .goodput_gbps
}

weft_rate() {
	weft_start "$1" '' '' "$BENCH_SECS" --verify "${@:2}" && weft_finish .msg_rate
}

# weft_lat FIELD ARGS...: two applications on cores 0 and 1
weft_lat() {
	weft_start pair:3498 'taskset -c 0' 'taskset -c 1' "$BENCH_SECS" --lat --verify "${@:2}" &&
		weft_finish ".lat_us.$1"
}

# The sender must sleep on its event descriptor and never poll in vain.
weft_cpu() {
	local cpu

	weft_start "$1" '' '' $((BENCH_SECS + 2)) --verify "${@:2}" || return 1
	cpu_window
	cpu=$SAMPLE
	weft_finish .goodput_gbps || return 1
	jq -e '.sleeps > 0 and .spins == 0' "$LAB_TMP/client" >/dev/null ||
		{ complain "weft perf write: it polled: $(cat "$LAB_TMP/client")"; return 1; }
	SAMPLE=$(cpu_per_gb "$cpu" "$SAMPLE")
}

# Kernel and user memory of one QP, as the tool accounts for it.
weft_idle_bytes() {
	weft_start pair:3498 '' '' 4 --verify --size 64 || return 1
	# to load the programs takes a second or two
	for _ in {1..20}; do
		sleep 0.2
		lab_in "$LAB_A" "$O/weft" -j qp show "$LAB_IF_A" >"$LAB_TMP/qp" 2>&1
		! grep -q bytes_per_qp "$LAB_TMP/qp" || break
	done
	weft_finish .messages || return 1
	json_number '[.. | .bytes_per_qp? | numbers] | first' "$LAB_TMP/qp" ||
		complain "weft qp show: no bytes_per_qp: $(head -n 3 "$LAB_TMP/qp")"
}

# weft_register WHAT: see register.c
weft_register() {
	topology pair:3498 || return 1
	SAMPLE=$(lab_in "$LAB_A" "$O/bench/register" "$1" "$BENCH_SECS" "$LAB_A" "$LAB_IF_A" 2>"$LAB_TMP/client.err") ||
		complain "register $1: $(tail -n 3 "$LAB_TMP/client.err")"
}
