#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# READs, atomics and requests of several pieces, byte-exact over a good wire and a bad one; deep queues.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

NETOPS=$LAB_BUILD/tests/net/netops

ops() {	# QPS ROUNDS HOST
	lab_in "$LAB_A" "$NETOPS" client "$LAB_IF_A" "$3:7000" "$1" "$2" "$SEED"
}

begin() {
	: >"$LAB_TMP/s"
	lab_spawn_in "$LAB_B" "$NETOPS" server "$LAB_IF_B" ":7000" >"$LAB_TMP/s" 2>&1
	SERVER=$LAB_SPAWNED
	t -- lab_wait_line "$LAB_TMP/s" '^ready' "$SERVER" ++ "a server of a region with all rights"
}

end() {
	kill -TERM "$SERVER"
	t -- finish "$SERVER" s ++ "what was only read has not changed"
}

good() {
	local out rc
	lab_pair 3498
	both up
	begin
	out=$(ops 1 10 10.9.0.2)
	rc=$?
	t "rc == 0" "one QP: $out"
	end
	t -- grep -qx "arrived ${out##*writes } 1" "$LAB_TMP/s" ++ "its WRITEs have arrived, and nothing else counts"
	begin
	t -- ops 4 10 '[fd09::2]' ++ "four QPs and IPv6, the same counters"
	t -- lab_in "$LAB_A" "$NETOPS" errors "$LAB_IF_A" 10.9.0.2:7000 ++ "what is wrong is refused, and no byte changes"
	end
	both down
	lab_down
}

bad() {	# MTU
	lab_middle "$1" --seed $((SEED % 100000)) --loss 20000 --dup 10000 --reorder 20000
	both up
	begin
	t -- ops 4 6 10.9.0.2 ++ "MTU $1: 2% lost each way, 1% twice, 2% late"
	end
	t "$(lab_field "$(lab_stats)" lost 1) > 100" "so many were lost"
	both down
	lab_down
}

deep() {	# HOST SERVER-PID|0 ROUNDS
	lab_in "$LAB_A" "$LAB_BUILD/tests/net/netdeep" "$LAB_IF_A" "$1:7000" "$2" "$3" "$SEED"
}

# Queues of 1024, filled at once.
deep_queues() {
	local complete
	lab_pair 3498
	both up
	begin
	t -- deep 10.9.0.2 "$SERVER" 4 ++ "1024 at once to a stopped process: all byte-exact and in order, also flushed"
	kill -TERM "$SERVER"
	finish "$SERVER" s
	serve s "$LAB_B" --region 64m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --rounds 1 --fixed 64k --depth 1024 --stop-posted "$LAB_IF_A=10.9.0.2:7000"
	t -- lab_wait_line "$LAB_TMP/c" '^posted 1024' "$CLIENT" ++ "a writer stops with 1024 posted"
	complete=$(sed -n 's/^posted 1024, completed \([0-9]*\).*/\1/p' "$LAB_TMP/c")
	t "${complete:-1024} < 1024 - 256" "more than a ring of them are not complete ($complete are)"
	t -- lab_wait_line "$LAB_TMP/s" 'round 0.*right' "$SERVER" ++ "what it had posted arrives, every byte right"
	kill -CONT "$CLIENT"
	t -- finish_both c s ++ "and it finds all of it completed"
	both down
	lab_down
	lab_middle 3498 --seed $((SEED % 100000)) --loss 20000 --dup 10000 --reorder 20000
	both up
	begin
	t -- deep '[fd09::2]' 0 2 ++ "the same over a bad wire, IPv6"
	kill -TERM "$SERVER"
	finish "$SERVER" s
	both down
	lab_down
}

lab_begin
tap_part good && good
tap_part deep && deep_queues
tap_part bad && bad 3498
tap_part narrow && bad 1500
tap_end
