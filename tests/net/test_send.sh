#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# SENDs and WRITEs with immediate data: own, shared and slowly filled receive queues, good wires and bad ones.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

sends() {	# HOST MODE QPS MESSAGES
	"$LAB_BUILD/tests/net/netsend" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" "$1" "$2" "$3" "$4" "$SEED"
}

good() {
	lab_pair 3498
	both up
	t -- sends 10.9.0.2 own 1 1000 ++ "own receives, one QP"
	t -- sends 10.9.0.2 own 8 500 ++ "own receives, eight QPs on one CQ"
	t -- sends '[fd09::2]' shared 8 500 ++ "a shared receive queue, eight QPs, IPv6"
	t -- sends 10.9.0.2 slow 2 500 ++ "one receive at a time: the peer waits, and nothing is lost"
	both down
	lab_down
}

bad() {	# MTU
	lab_middle "$1" --seed $((SEED % 100000)) --loss 20000 --dup 10000 --reorder 20000
	both up
	t -- sends 10.9.0.2 own 4 400 ++ "MTU $1: 2% lost each way, 1% twice, 2% late: own receives"
	t -- sends '[fd09::2]' shared 4 400 ++ "the same with a shared queue, IPv6"
	t -- sends 10.9.0.2 slow 2 200 ++ "the same with one receive at a time"
	both down
	lab_down
}

lab_begin
tap_part good && good
tap_part bad && bad 3498
tap_part narrow && bad 1500
tap_end
