#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# All to all over a switch that loses 1%: every host writes to, reads from and counts at every other,
# all at the same time. Four hosts over IPv4, eight over IPv6.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=hosts.sh
# shellcheck disable=SC2034,SC2004	# conditions of t name variables; numbers of hosts index
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

# many REGION HOST:PORT...: bytes that each host has for each other
many() {
	local region=$1 n pids=() data lost
	shift
	HOSTS=()
	for ((n = 1; n <= $#; n++)); do HOSTS+=("$n"); done
	hosts_up
	hosts_impair --seed $((SEED % 100000)) --loss 10000
	for n in "${HOSTS[@]}"; do
		lab_spawn_in "${NS[$n]}" "$LAB_BUILD/tests/net/netmany" e0 $((n - 1)) "$region" \
			"$SEED" "$@" >"$LAB_TMP/host$n" 2>&1
		pids[n]=$LAB_SPAWNED
	done
	for n in "${HOSTS[@]}"; do
		t -- finish "${pids[n]}" "host$n" ++ "host $n of $#: what it was to have and to read is there, byte for byte"
	done
	data=$(lab_field "$(lab_stats)" data 1)
	lost=$(lab_field "$(lab_stats)" lost_data 1)
	note "$(lab_stats | cut -c 1-400)"
	t "lost * 200 > data && lost * 50 < data" "of $data data packets to hosts of higher numbers $lost were lost"
	lab_down
}

lab_begin
tap_part 4 && many 2000000 10.9.0.{1..4}:7000
tap_part 8 && many 500000 '[fd09::'{1..8}']:7000'
tap_end
