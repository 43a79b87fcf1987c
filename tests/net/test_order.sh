#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Order: strict QPs, where memory can be polled, and relaxed ones, where what is later overtakes what is repaired.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

litmus() {	# HOST MODE ROUNDS
	"$LAB_BUILD/tests/net/netlitmus" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" "$@"
}

sends() {	# HOST MODE QPS MESSAGES
	"$LAB_BUILD/tests/net/netsend" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" "$@" "$SEED"
}

good() {
	lab_pair 3498
	both up
	t -- litmus 10.9.0.2 strict 1500 ++ "strict: flag behind data, atomic behind data, READ behind WRITE"
	t -- sends '[fd09::2]' strict 4 500 ++ "strict: SENDs and WRITEs with immediate data, IPv6"
	both down
	lab_down
}

bad() {	# MTU
	lab_middle "$1" --seed $((SEED % 100000)) --loss 20000 --dup 10000 --reorder 20000
	both up
	t -- litmus 10.9.0.2 strict 400 ++ "MTU $1, 2% lost each way, 1% twice, 2% late: strict"
	t -- sends '[fd09::2]' strict 2 200 ++ "the same with SENDs, IPv6"
	serve s "$LAB_B" --conns 1 --region 32m "$LAB_IF_B=:7000"
	writer c "$LAB_A" --strict --rounds 1 --src 16m --max 2m "$LAB_IF_A=10.9.0.2:7000"
	t -- finish_both c s ++ "strict: WRITEs up to 2 MiB, of which only the ends come in order, byte by byte"
	t -- overtakes ++ "the same relaxed: what is later does not wait there for what is repaired"
	both down
	lab_down
}

# Who watches must run when a flag is there before its data; so on a busy machine it may take more rounds.
overtakes() {
	local i out flags=0
	for i in {1..10}; do
		out=$(litmus 10.9.0.2 relaxed 600) || { echo "$out"; return 1; }
		flags=$((flags + $(sed -n 's/.*, \([0-9]*\) flags.*/\1/p' <<<"$out")))
		((flags <= 10)) || return 0
	done
	echo "$flags flags before their data in $i times 600 rounds"
	return 1
}

lab_begin
tap_part good && good
tap_part bad && bad 3498
tap_part narrow && bad 1500
tap_end
