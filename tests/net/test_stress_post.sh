#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# I7: random small bursts with random pauses; every WRITE completes within half a second on a clean pair.
# Then with receive threads, where tokens come home later and find more to do.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

DURATION=${DURATION:-30}

# Where others keep a receive thread from running it may take longer: nothing else may be wrong.
in_half_a_second() {
	finish_both c s && return
	grep '^wrong:' "$LAB_TMP/c" "$LAB_TMP/s"
	grep -q '^wrong:.* not complete after' "$LAB_TMP/c" || return 1
	! grep -h '^wrong:' "$LAB_TMP/c" "$LAB_TMP/s" | grep -v ' not complete after' || return 1
	return "$TOO_LATE"
}

# stress SECONDS AT-LEAST NAME [OPTION...]: so many WRITEs are a test, on a slow machine, too
stress() {
	local messages fill seconds=$1 least=$2 name=$3
	shift 3
	"$WEFT" -n "$LAB_A" up "$LAB_IF_A"	# its counters outlive the writer
	serve s "$LAB_B" --region 1m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --stress --time "$seconds" --src 1m --limit 500 "$@" "$LAB_IF_A=10.9.0.2:7000"
	t -- in_half_a_second ++ "$name, posts at random for $seconds s: none takes 500 ms, every byte right"
	messages=$(field c messages)
	note "$(<"$LAB_TMP/c")"
	t "messages > $least" "$messages WRITEs, the slowest took $(field c worst_us) us"
	fill=$(counter "$LAB_A" "$LAB_IF_A" fill)
	t "${fill:-1} == 0" "every frame grew to the message that came next ($fill did not)"
	"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
	echo "# note: $(grep '^{' "$LAB_TMP/c")"
}

threads() {	# the kernel offers them while somebody receives by NAPI: GRO turns that on
	local ns dev
	for ns in "$LAB_A" "$LAB_B"; do
		[ "$ns" = "$LAB_A" ] && dev=$LAB_IF_A || dev=$LAB_IF_B
		lab_in "$ns" ethtool -K "$dev" gro on &&
			ip netns exec "$ns" sh -c "echo 1 >/sys/class/net/$dev/threaded" || return 1
	done
}

lab_begin
lab_pair 3498
timely stress "$DURATION" 3000 'as it comes'
timely stress 6 600 'queues of 1024' --depth 1024
t -- threads ++ "receive threads"
timely stress 8 300 'with receive threads'
tap_end
