#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Ten connected idle QPs use less than 1% of a core: processes, kernel threads and interrupts.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

SECONDS_IDLE=10

# ticks of both processes, all their threads
ticks() {
	echo $(($(cpu_ticks "$SERVER") + $(cpu_ticks "$CLIENT")))
}

idle() {
	local before db_before data_before used db data
	until_true 60 settled "$LAB_A" "$LAB_IF_A"
	before=$(ticks)
	db_before=$(counter "$LAB_A" "$LAB_IF_A" doorbell)
	data_before=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	sleep $SECONDS_IDLE
	# the test's own two processes look at their flags 10 times a second for each QP, which counts too
	used=$(($(ticks) - before))
	db=$(($(counter "$LAB_A" "$LAB_IF_A" doorbell) - db_before))
	data=$(($(counter "$LAB_A" "$LAB_IF_A" tx_data) - data_before))
	t "db_before >= 0 && data_before >= 0 && db == 0 && data == 0" "no doorbell rings, no packet is sent: nothing runs in interrupts"
	t -- late $((used * 10)) $((SECONDS_IDLE * 10 - 1)) ++ \
		"both processes use under 1% of a core in $SECONDS_IDLE s: $used ticks of 10 ms"
}

lab_begin
lab_pair 3498
serve s "$LAB_B" --qps 10 --region 1m --conns 10 "$LAB_IF_B=:7000"
writer c "$LAB_A" --qps 10 --idle 600 "$LAB_IF_A=10.9.0.2:7000"
until_true 60 eval '[ "$(grep -c connected "$LAB_TMP/c")" = 10 ]'
sleep 1
json=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A")
t "$(grep -o '"state": *"rts"' <<<"$json" | wc -l) == 10" "ten QPs are connected"
timely idle
t -- kill -0 "$CLIENT" "$SERVER" ++ "all is still connected"
kill -TERM "$CLIENT"
t -- finish_both c s ++ "and ends well"
tap_end
