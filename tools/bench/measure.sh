# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# What both sides of a bench share: topologies, processor time, medians (sourced).
#
# A measurement leaves its number in $SAMPLE and returns 0, or says why on stderr and returns 1.

# shellcheck disable=SC2034 # the number of the measurement, for bench.sh
SAMPLE=''

complain() {
	echo "weft: bench: $*" >&2
	return 1
}

# topology pair:MTU | lossy:PPM (through the middle, frames lost) | plain:PPM (the same for TCP)
topology() {
	local i

	case $1 in
	pair:*) lab_pair "${1#*:}" ;;
	lossy:*) lab_middle 3498 --loss "${1#*:}" ;;
	plain:*) lab_middle_plain 3498 "${1#*:}" ;;
	*) complain "$1: no such topology"; return 1 ;;
	esac
	# The kernel reports a new link as running up to a second late; UCX refuses it until then.
	for ((i = 0; i < 150; i++)); do
		link_up "$LAB_A" "$LAB_IF_A" && link_up "$LAB_B" "$LAB_IF_B" && return 0
		sleep 0.02
	done
	complain "$1: the links do not come up"
}

link_up() {
	ip -n "$1" link show "$2" | grep -q 'state UP'
}

# Wait for somebody to listen on TCP port $2 in namespace $1, while process $3 lives.
wait_listen() {
	local i

	for ((i = 0; i < 250; i++)); do
		[ -n "$(lab_in "$1" ss -Hltn "sport = :$2")" ] && return 0
		kill -0 "$3" 2>/dev/null || break
		sleep 0.02
	done
	complain "nobody listens on port $2: $(tail -n 3 "$LAB_TMP/server" 2>/dev/null)"
}

# Seconds since boot and idle seconds of all processors, as two words.
clock_idle() {
	local up idle iowait _

	read -r up _ </proc/uptime
	read -r _ _ _ _ idle iowait _ </proc/stat
	echo "$up $(((idle + iowait) * 10))"
}

# CPU seconds (cores x wall - idle) in the $BENCH_SECS s that start a second from now; the load
# started before must last $BENCH_SECS + 2 s. Leaves "CPU-seconds wall-seconds" in $SAMPLE.
cpu_window() {
	local before after

	sleep 1
	before=$(clock_idle)
	sleep "$BENCH_SECS"
	after=$(clock_idle)
	SAMPLE=$(awk -v cores="$(nproc --all)" '
		NR == 1 { up = $1; idle = $2 }
		NR == 2 { print cores * ($1 - up) - ($2 - idle) / 1000, $1 - up }' \
		<<<"$before"$'\n'"$after")
}

# cpu_per_gb "CPU-seconds wall-seconds" GBPS -> CPU seconds for each 10^9 bytes
cpu_per_gb() {
	awk -v gbps="$2" '{ printf "%.4f\n", $1 / ($2 * gbps / 8) }' <<<"$1"
}

# The median of the numbers given.
median() {
	printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 }
		END { printf "%.6g\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# A number from JSON file $2 by jq expression $1; fails when it is none.
# shellcheck disable=SC2034
json_number() {
	local n

	n=$(jq -er "$1 | numbers" "$2" 2>/dev/null) && SAMPLE=$n
}
