# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# What weft is measured against: kernel TCP, UCX over TCP, sockperf, memcpy (sourced).

declare -A UCX_ITERATIONS=()

# Segmentation offload of both hosts must be in state $1, and no XDP program may slow them.
tcp_assert() {
	local ns dev

	for ns in "$LAB_A" "$LAB_B"; do
		[ "$ns" = "$LAB_A" ] && dev=$LAB_IF_A || dev=$LAB_IF_B
		lab_in "$ns" ethtool -k "$dev" | grep -q "^tcp-segmentation-offload: $1" ||
			{ complain "$dev: TSO is not $1"; return 1; }
		[ "$1" = on ] || lab_in "$ns" ethtool -k "$dev" |
			grep -q '^generic-segmentation-offload: off' ||
			{ complain "$dev: GSO is not off"; return 1; }
		! ip -n "$ns" link show "$dev" | grep -q xdp ||
			{ complain "$dev: has an XDP program"; return 1; }
	done
}

# tcp_start CC TOPOLOGY OFFLOAD SECONDS: one stream from A to B, in the background
tcp_start() {
	local ns dev

	topology "$2" || return 1
	if [ "$3" = off ]; then
		for ns in "$LAB_A" "$LAB_B"; do
			[ "$ns" = "$LAB_A" ] && dev=$LAB_IF_A || dev=$LAB_IF_B
			lab_in "$ns" ethtool -K "$dev" tso off gso off
		done
	fi
	tcp_assert "$3" || return 1
	lab_spawn_in "$LAB_B" iperf3 -s -1 >"$LAB_TMP/server" 2>&1
	wait_listen "$LAB_B" 5201 "$LAB_SPAWNED" || return 1
	lab_spawn_in "$LAB_A" iperf3 -c 10.9.0.2 -C "$1" -t "$4" -J >"$LAB_TMP/client" 2>&1
}

# Wait for the stream; its goodput, as the receiver counted, goes to $SAMPLE (Gb/s).
tcp_finish() {
	lab_wait "$LAB_SPAWNED" &&
		json_number '.end.sum_received.bits_per_second / 1e9' "$LAB_TMP/client" ||
		complain "iperf3: $(jq -r .error "$LAB_TMP/client" 2>/dev/null)"
}

tcp_bw() {
	tcp_start "$1" "$2" "$3" "$BENCH_SECS" && tcp_finish
}

tcp_cpu() {
	local cpu

	tcp_start "$1" "$2" on $((BENCH_SECS + 2)) || return 1
	cpu_window
	cpu=$SAMPLE
	tcp_finish && SAMPLE=$(cpu_per_gb "$cpu" "$SAMPLE")
}

# ucx_once SERVER-PREFIX CLIENT-PREFIX ITERATIONS ARGS...: leaves UCX's line of CSV in $SAMPLE.
# UCX finds its devices in /sys, so it needs the one of its namespace: ip netns exec.
ucx_once() {
	local server client rc pin_b=$1 pin_a=$2 n=$3
	local env='env UCX_TLS=tcp UCX_LOG_LEVEL=error UCX_NET_DEVICES='
	shift 3

	# shellcheck disable=SC2086 # the prefixes are words
	lab_spawn ip netns exec "$LAB_B" $env"$LAB_IF_B" $pin_b ucx_perftest "$@" -n "$n" \
		>"$LAB_TMP/server" 2>&1
	server=$LAB_SPAWNED
	wait_listen "$LAB_B" 13337 "$server" || return 1
	# shellcheck disable=SC2086
	lab_spawn ip netns exec "$LAB_A" $env"$LAB_IF_A" $pin_a timeout 120 ucx_perftest 10.9.0.2 "$@" \
		-n "$n" -f -v >"$LAB_TMP/client" 2>&1
	client=$LAB_SPAWNED
	lab_wait "$client"
	rc=$?
	lab_stop "$server"
	SAMPLE=$(grep -E '^[0-9]+,' "$LAB_TMP/client" | tail -n 1)
	[ "$rc" -eq 0 ] && [ -n "$SAMPLE" ] ||
		complain "ucx_perftest: status $rc: $(tail -qn 2 "$LAB_TMP/client" "$LAB_TMP/server")"
}

# ucx FIELD SERVER-PREFIX CLIENT-PREFIX ARGS...: the FIELDth number of the CSV. UCX counts in
# iterations, so a run that was too short tells how many fill the time; the count is kept.
ucx() {
	local field=$1 pin_b=$2 pin_a=$3 key="${*:4}" n need try
	shift 3

	topology pair:3498 || return 1
	for try in 1 2 3 4; do
		n=${UCX_ITERATIONS[$key]:-10000}
		ucx_once "$pin_b" "$pin_a" "$n" "$@" || return 1
		need=$(awk -F, -v s="$BENCH_SECS" '{ printf "%d", $8 * s }' <<<"$SAMPLE")
		[ "$n" -ge "$need" ] && break
		[ "$try" -lt 4 ] || complain "ucx_perftest $key: no run of $BENCH_SECS s" || return 1
		UCX_ITERATIONS[$key]=$((need * 5 / 4))
	done
	SAMPLE=$(cut -d, -f"$field" <<<"$SAMPLE")
}

# Fields of UCX's CSV: 2 the asked percentile in us, 8 messages/s over the whole run.
ucx_put_bw() {
	ucx 8 '' '' -t ucp_put_bw -s 65536 &&
		SAMPLE=$(awk '{ printf "%.4f\n", $1 * 65536 * 8 / 1e9 }' <<<"$SAMPLE")
}

ucx_tag_lat() {
	ucx 2 'taskset -c 0' 'taskset -c 1' -t tag_lat -s 64 -R "$1"
}

ucx_am_rate() {
	ucx 8 '' '' -t ucp_am_bw -s 64
}

# ucx_fadd FIELD: an atomic of 8 bytes, on cores 0 and 1; UCX has one outstanding, so its rate is that of
# round trips.
ucx_fadd() {
	ucx "$1" 'taskset -c 0' 'taskset -c 1' -t ucp_fadd -s 8 -R 50
}

# One way, as sockperf counts: half the round trip.
sockperf_lat() {
	local server

	topology pair:3498 || return 1
	lab_spawn_in "$LAB_B" taskset -c 0 sockperf server --tcp -i 10.9.0.2 -p 11111 \
		>"$LAB_TMP/server" 2>&1
	server=$LAB_SPAWNED
	wait_listen "$LAB_B" 11111 "$server" || return 1
	lab_run_in "$LAB_A" taskset -c 1 sockperf ping-pong --tcp -i 10.9.0.2 -p 11111 \
		-m 64 -t "$BENCH_SECS" >"$LAB_TMP/client" 2>&1
	lab_stop "$server"
	SAMPLE=$(sed 's/\x1b\[[0-9;]*m//g' "$LAB_TMP/client" |
		awk '/percentile 50\.000/ { print $NF }')
	[ -n "$SAMPLE" ] || complain "sockperf: $(tail -n 2 "$LAB_TMP/client")"
}

# memcpy_two_copies one|all: one core is the core on which write_bw_1core runs
memcpy_two_copies() {
	local pin=''

	[ "$1" = one ] && pin="taskset -c $ONE_CORE"
	# shellcheck disable=SC2086
	lab_spawn $pin "$O/bench/memcpy" "$1" "$BENCH_SECS" >"$LAB_TMP/client"
	lab_wait "$LAB_SPAWNED" && SAMPLE=$(cat "$LAB_TMP/client") || complain "memcpy failed"
}
