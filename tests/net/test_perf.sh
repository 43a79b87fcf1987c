#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# weft perf: what its options promise, and what it says when the interface is taken from it.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

perf_server() {	# its output is $LAB_TMP/perf, its pid in $SERVER
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$SERVER" 20 || note "no server: $(<"$LAB_TMP/perf")"
}

perf_write() {	# perf_write ARGS...: its JSON is in $LAB_TMP/write
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 -j "$@" >"$LAB_TMP/write"
}

# How a bandwidth run waits for completions.
waiting() {
	local size
	for size in 1m 64; do
		t -- perf_write --size $size --time 0.5 --event --verify ++ "--event, messages of $size"
		t "$(field write spins) == 0 && $(field write sleeps) > 0" \
			"sleeps whenever there is nothing: $(field write sleeps) times, $(field write spins) polls in vain"
	done
	t -- perf_write --size 1m --time 0.5 --poll --verify ++ "--poll"
	t "$(field write spins) > 0 && $(field write sleeps) == 0" "never sleeps"
	t ! perf_write --poll --event ++ "both together are refused"
}

lab_begin
lab_pair 3498
perf_server
for part in waiting; do
	tap_part $part && $part
done
lab_stop "$SERVER"
tap_end
