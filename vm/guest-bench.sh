#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What vm/bench.sh measures in its guest: weft, and rdma_rxe with perftest, in turns.
#
# usage: guest-bench.sh PAIRS SECONDS MTU [ROW...]
#
# weft is between two namespaces. Linux gives rdma_rxe its sockets and its routes in the first
# namespace only, so both of its devices are there, on the ends of a veth pair like weft's. It names
# the device when it looks for a route, so what it sends takes the wire although the address is a local
# one; the counters of the links must agree. Both pairs stay: to load weft's programs takes an emulated
# CPU ten seconds.
# Prints "# sample ROW weft JSON", "# sample ROW peer NUMBER" and "# fact NAME VALUE" for vm/bench.sh.
set -u

pairs=$1 secs=$2 mtu=$3 only=("${@:4}")
weft_port=7471 rxe_port=18515
declare -A iterations=()

# shellcheck source=vm/guest-lib.sh
. vm/guest-lib.sh
# shellcheck source=tests/net/lab.sh
. tests/net/lab.sh
# shellcheck source=tools/bench/rows.sh
. extra/rows.sh

# complain TEXT [FILE...]: files that may say why
complain() {
	local file
	echo "# weft: bench-vm: $1"
	for file in "${@:2}"; do tail -n 5 "$file" | sed 's/^/#   /'; done
	return 1
}
die() { complain "$@"; exit 1; }

fact() { echo "# fact $*"; }

# Latency is between two applications that poll, on a CPU each.
is_latency() { [[ $row_unit == us ]]; }
on_cpu() { ! is_latency || echo "taskset -c $1"; }

# --- weft --------------------------------------------------------------------------------------

weft_begin() {
	mount -t bpf bpf /sys/fs/bpf || die "no BPF file system"
	lab_begin
	lab_pair "$mtu"
	build/weft -n "$LAB_A" up "$LAB_IF_A" > /tmp/up 2>&1 &
	if ! build/weft -n "$LAB_B" up "$LAB_IF_B" > /tmp/up.b 2>&1 || ! wait $!; then
		die "weft up failed" /tmp/up /tmp/up.b
	fi
}

# weft_sample ARGS...: of weft perf. Its usual 64 MiB would take longer to fill and to compare than to send,
# and for latency all of the memory is written before.
weft_sample() {
	local server region=16m
	! is_latency || region=1m
	# shellcheck disable=SC2046 # words
	lab_spawn $(on_cpu 0) build/weft -n "$LAB_B" perf server -p $weft_port "$LAB_IF_B" > /tmp/server 2>&1
	server=$LAB_SPAWNED
	lab_wait_line /tmp/server '^ready' "$server" ||
		complain "$row: weft perf server does not start" /tmp/server || return
	# shellcheck disable=SC2046
	timeout 60 $(on_cpu 1) build/weft -n "$LAB_A" perf "$1" "$LAB_IF_A" 10.9.0.2:$weft_port --verify \
		--region $region --time "$secs" -j "${@:2}" > /tmp/client 2> /tmp/client.err ||
		complain "$row: weft perf: status $?" /tmp/client.err /tmp/server || return
	lab_stop "$server"
	echo "# sample $row weft $(< /tmp/client)"
}

# --- rdma_rxe ----------------------------------------------------------------------------------

rxe_begin() {
	local n dev module
	for module in crc32-pclmul rdma_rxe; do
		modprobe "$module" || die "$module: the module does not load"
	done
	mkdir -p /etc/libibverbs.d
	echo 'driver /weft/extra/librxe' > /etc/libibverbs.d/rxe.driver
	sysctl -qw net.ipv4.conf.all.rp_filter=0
	n=$(nproc)
	ip link add rxe-a mtu "$mtu" numrxqueues "$n" numtxqueues "$n" type veth \
		peer name rxe-b mtu "$mtu" numrxqueues "$n" numtxqueues "$n" || die "no veth pair"
	for n in 1 2; do
		[ $n = 1 ] && dev=rxe-a || dev=rxe-b
		sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1 net.ipv4.conf.$dev.accept_local=1
		ip addr add 10.9.1.$n/24 dev $dev
		ip link set $dev up
	done
	ip neigh replace 10.9.1.2 lladdr "$(< /sys/class/net/rxe-b/address)" dev rxe-a nud permanent
	ip neigh replace 10.9.1.1 lladdr "$(< /sys/class/net/rxe-a/address)" dev rxe-b nud permanent
	for dev in rxe-a rxe-b; do
		wait_for 5 grep -q up /sys/class/net/$dev/operstate
		extra/rdma link add $dev type rxe netdev $dev > /tmp/rdma 2>&1 || die "$dev: no rxe device" /tmp/rdma
	done
}

# The index of the device's GID that is its IPv4 address.
gid_index() {
	local file
	for file in /sys/class/infiniband/"$1"/ports/1/gids/*; do
		case $(< "$file") in *:ffff:0a09:010?) echo "${file##*/}"; return ;; esac
	done
	die "$1: no GID with its IPv4 address"
}

rxe_listens() { ss -Hltn "sport = :$rxe_port" | grep -q .; }

# Bytes that both ends sent into the wire.
rxe_bytes() {
	echo $(($(< /sys/class/net/rxe-a/statistics/tx_bytes) + $(< /sys/class/net/rxe-b/statistics/tx_bytes)))
}

# The line of numbers below the heading of perftest.
numbers() { sed -n '/^ *#bytes/ { n; p; }' /tmp/client; }

# rxe_once ITERATIONS TOOL ARGS...: leaves in $value what perftest measured, in $took its seconds.
# No frame is lost on this wire, but an emulated CPU may take longer than perftest's 67 ms to answer:
# -u 18 is a second, as weft has it.
rxe_once() {
	local n=$1 tool=$2 server before rate median mean size=${*: -1}
	shift 2
	before=$(rxe_bytes)
	# shellcheck disable=SC2046
	lab_spawn $(on_cpu 0) extra/"$tool" -F -d rxe-b -x "$gid_b" -u 18 -n "$n" "$@" > /tmp/server 2>&1
	server=$LAB_SPAWNED
	wait_for 10 rxe_listens || complain "$row: $tool does not listen" /tmp/server || return
	# shellcheck disable=SC2046
	timeout 60 $(on_cpu 1) extra/"$tool" -F -d rxe-a -x "$gid_a" -u 18 -n "$n" "$@" 127.0.0.1 \
		> /tmp/client 2> /tmp/client.err || complain "$row: $tool: status $?" /tmp/client.err /tmp/server || return
	lab_stop "$server"
	# size, messages, then peak and mean of MiB/s; or least, most, median and mean of us
	read -r _ n _ rate median mean _ < <(numbers)
	if is_latency; then # of a READ a round trip, else half of one
		value=$median
		took=$(awk "BEGIN { print $n * $mean * $([ "$tool" = ib_read_lat ] || echo '2 *') 1e-6 }")
	else
		value=$(awk "BEGIN { print $rate * 8 * 1048576 / 1e9 }")
		took=$(awk "BEGIN { print $n * $size / ($rate * 1048576) }") # none if the rate is 0
	fi
	[[ $value =~ ^[0-9.]+$ && $took =~ ^[0-9.]+$ ]] ||
		complain "$row: $tool says nothing" /tmp/client.err /tmp/client || return
	[ $(($(rxe_bytes) - before)) -ge $((n * size)) ] ||
		complain "$row: $((n * size)) bytes, and not all of them over the wire"
}

# perftest counts in iterations: a run that was too short tells how many fill the time.
rxe_sample() {
	local key=$*
	while :; do
		: "${iterations[$key]:=$(is_latency && echo 1000 || echo 10)}"
		rxe_once "${iterations[$key]}" "$@" || return
		awk -v took="$took" -v secs="$secs" 'BEGIN { exit took < secs * 0.8 }' && break
		iterations[$key]=$(awk -v n="${iterations[$key]}" -v took="$took" -v secs="$secs" '
			BEGIN { need = n * secs / took * 1.2; print int(need > 4 * n ? 4 * n : need) + 1 }')
	done
	echo "# sample $row peer $value"
}

measure_row() {
	local turn pid
	for ((turn = 1; turn <= pairs; turn++)); do
		# shellcheck disable=SC2086 # rows.sh has words
		weft_sample $weft_args && rxe_sample $rxe_args && continue
		for pid in ${LAB_PIDS[@]+"${LAB_PIDS[@]}"}; do lab_stop "$pid"; done
		failed=$((failed + 1))
		return
	done
}

# --- everything --------------------------------------------------------------------------------

weft_begin
rxe_begin
gid_a=$(gid_index rxe-a) gid_b=$(gid_index rxe-b)
fact kernel "$(uname -r)"
fact booted "$(uptime_is)"
while IFS='|' read -r row row_unit _ _ _ weft_args rxe_args; do
	[ -n "$row" ] || continue
	[ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $row "* ]] || continue
	measure_row
done <<< "$VM_ROWS"
fact rxe_mtu "$(sed -n 's/^ *Mtu *: \([0-9]*\).*/\1/p' /tmp/client)"
fact finished "$(uptime_is)"
[ "$failed" -eq 0 ]
