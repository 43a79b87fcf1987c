#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# I7: random small bursts with random pauses; every WRITE completes within half a second on a clean pair.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

DURATION=${DURATION:-60}

lab_begin
lab_pair 3498
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"	# its counters outlive the writer
serve s "$LAB_B" --region 1m --conns 1 "$LAB_IF_B=:7000"
writer c "$LAB_A" --stress --time "$DURATION" --src 1m --limit 500 "$LAB_IF_A=10.9.0.2:7000"
t -- finish_both c s ++ "posts at random for $DURATION s: none takes 500 ms, every byte right"
messages=$(field c messages)
note "$(<"$LAB_TMP/c")"
t "messages > 10000 * DURATION / 10" "$messages WRITEs, the slowest took $(field c worst_us) us"
fill=$(counter "$LAB_A" "$LAB_IF_A" fill)
t "${fill:-messages} * 1000 < messages" "frames grow to the message that comes next ($fill did not)"
"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
echo "# note: $(grep '^{' "$LAB_TMP/c")"
tap_end
