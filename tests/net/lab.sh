# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2119,SC2120	# optional arguments
# The network laboratory: hosts in network namespaces, to be sourced by tests and demos.
#
#   . tests/net/lab.sh
#   lab_begin                     # snapshots, traps; first
#   lab_pair [MTU]                # A and B, one veth
#   lab_middle [MTU] [RATES...]   # A - M - B, M is "wirelab run" (XDP) with these rates
#   lab_middle_plain [MTU] [PPM]  # A - M - B, M forwards by tc, without XDP; loss in PPM
#   lab_down                      # remove the topology; another one may follow
#   lab_end                       # check leftovers and the kernel log; returns 1 on trouble
#
# Hosts are the namespaces $LAB_A and $LAB_B with the interfaces $LAB_IF_A and $LAB_IF_B,
# 10.9.0.1/24, fd09::1/64 and 10.9.0.2/24, fd09::2/64. $LAB_M is the middle, its ports
# $LAB_M0 (to A) and $LAB_M1 (to B); it is a bump in the wire, so A and B share a subnet.
# Everything is removed on EXIT, INT and TERM. One run at a time in a shell.
#
# Loss in lab_middle_plain: what a veth carries between ends without XDP are TSO super-packets
# of up to 64 KiB. They are dropped whole, each with the given probability. The share of bytes
# lost equals the rate, as it would frame by frame, but in fewer, longer bursts, which TCP
# bears better than single losses: the definition favours TCP. lab_middle drops frames.

LAB_BUILD=${LAB_BUILD:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build}
WIRELAB=${WIRELAB:-$LAB_BUILD/wirelab}
LAB_SHARED=${LAB_SHARED:-0}	# 1: others use this machine, look only for what is ours
PATH=$PATH:/usr/sbin:/sbin

LAB_ID=
LAB_A='' LAB_B='' LAB_M='' LAB_SPAWNED=
LAB_IF_A=veth-a LAB_IF_B=veth-b LAB_M0=port-a LAB_M1=port-b
LAB_TMP=''
LAB_PIDS=()
LAB_NSES=()
LAB_PINS=()

lab_die() {
	echo "lab: $*" >&2
	exit 1
}

# Run a command in a namespace. nsenter, because "ip netns exec" hides /sys/fs/bpf.
lab_in() {
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" -- "$@"
}

# Start a command in the background; its pid is in $LAB_SPAWNED and ends with the laboratory.
lab_spawn() {
	"$@" &
	LAB_SPAWNED=$!
	LAB_PIDS+=("$LAB_SPAWNED")
}

# The same in a namespace. exec: the pid is that of the command itself, not of a subshell.
lab_spawn_in() {
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" -- "$@" &
	LAB_SPAWNED=$!
	LAB_PIDS+=("$LAB_SPAWNED")
}

# Run to the end, but let a signal to this shell interrupt it at once.
lab_run_in() {
	lab_spawn_in "$@"
	lab_wait "$LAB_SPAWNED"
}

lab_forget() {
	local p keep=()
	for p in ${LAB_PIDS[@]+"${LAB_PIDS[@]}"}; do
		[ "$p" = "$1" ] || keep+=("$p")
	done
	LAB_PIDS=(${keep[@]+"${keep[@]}"})
}

lab_wait() {
	local rc=0
	wait "$1" || rc=$?
	lab_forget "$1"
	return $rc
}

# End a process that lab_spawn started: TERM, and KILL when it does not go within 20 s.
lab_stop() {
	local pid=$1 i
	kill -TERM "$pid" 2>/dev/null
	kill -CONT "$pid" 2>/dev/null
	for ((i = 0; i < 1000; i++)); do
		kill -0 "$pid" 2>/dev/null || break
		# a zombie still answers kill -0
		case $(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null) in Z|'') break ;; esac
		sleep 0.02
	done
	[ "$i" -lt 1000 ] || kill -KILL "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	lab_forget "$pid"
	return 0
}

# Wait until a file has a line that matches, for at most SECONDS while PID lives.
lab_wait_line() {
	local file=$1 re=$2 pid=$3 seconds=${4:-60} i
	for ((i = 0; i < seconds * 50; i++)); do
		grep -q -- "$re" "$file" 2>/dev/null && return 0
		kill -0 "$pid" 2>/dev/null || { grep -q -- "$re" "$file"; return; }
		sleep 0.02
	done
	return 1
}

# What could be left behind, one line each.
lab_inventory() {
	local ns
	ip netns list | awk '{ print "netns " $1 }'
	ip -br link show type veth | awk '{ print "veth " $1 }'
	ip -br link show type tun | awk '{ print "tap " $1 }'
	bpftool prog show 2>/dev/null | awk '$2 == "xdp" || $2 == "sched_cls" {
		print "program " $1 " " $2 " " $4 }'
	for ns in /sys/fs/bpf/weft/* /sys/fs/bpf/wirelab-*; do
		[ -e "$ns" ] && echo "pin $ns"
	done
	return 0
}

# What is there now and was not at lab_begin. With LAB_SHARED=1 what others own is left out:
# programs and links cannot be told apart then, namespaces and pins can.
lab_leftovers() {
	local now
	now=$(lab_inventory)
	comm -13 <(sort "$LAB_TMP/inventory") <(sort <<<"$now") | if [ "$LAB_SHARED" = 1 ]; then
		grep -F -e "netns $LAB_ID-" ${LAB_PINS[@]+"${LAB_PINS[@]/#/-e}"}
	else
		cat
	fi
	return 0
}

lab_kernel_time() {
	dmesg | awk -F'[][]' '/^\[/ { t = $2 + 0 } END { printf "%.6f\n", t }'
}

# Prints new BUG, WARNING and Oops lines of the kernel log; returns 1 when there are any.
lab_kernel_log_check() {
	local new
	new=$(dmesg | awk -F'[][]' -v since="$(cat "$LAB_TMP/kernel-time")" \
		'/^\[/ && $2 + 0 > since && /BUG:|WARNING:|Oops/')
	[ -z "$new" ] && return 0
	echo "$new"
	return 1
}

lab_begin() {
	local ns
	[ -z "$LAB_ID" ] || return 0
	[ "$(id -u)" = 0 ] || lab_die "needs root"
	LAB_ID=wf$$
	for ns in /run/netns/"$LAB_ID"-*; do
		[ ! -e "$ns" ] || lab_die "$ns exists; remove it"
	done
	LAB_TMP=$(mktemp -d "${TMPDIR:-/tmp}/weft-lab.XXXXXX") || exit 1
	trap lab_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	lab_inventory >"$LAB_TMP/inventory"
	lab_kernel_time >"$LAB_TMP/kernel-time"
}

# ip netns add NAME with quiet defaults
lab_netns() {
	ip netns add "$1" || lab_die "$1: cannot create the namespace"
	LAB_NSES+=("$1")
	LAB_PINS+=("/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$1")-")
	ip -n "$1" link set lo up
	# a cached path would carry one run's losses into the next
	lab_in "$1" sysctl -qw net.ipv4.tcp_no_metrics_save=1
}

# lab_veth NS1 IF1 NS2 IF2 MTU: as many queues as processors, as a NIC has
lab_veth() {
	local q
	q=$(nproc --all)
	ip link add "$2" netns "$1" mtu "$5" numrxqueues "$q" numtxqueues "$q" type veth \
		peer name "$4" netns "$3" mtu "$5" numrxqueues "$q" numtxqueues "$q" ||
		lab_die "$2: cannot create the veth pair"
}

lab_address() {
	local ns=$1 dev=$2 n=$3
	ip -n "$ns" addr add "10.9.0.$n/24" dev "$dev"
	ip -n "$ns" addr add "fd09::$n/64" dev "$dev" nodad
	ip -n "$ns" link set "$dev" up
}

lab_hosts() {
	LAB_A=$LAB_ID-a LAB_B=$LAB_ID-b
	lab_netns "$LAB_A"
	lab_netns "$LAB_B"
}

# Two hosts, one veth.
lab_pair() {
	lab_hosts
	lab_veth "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" "${1:-3498}"
	lab_address "$LAB_A" "$LAB_IF_A" 1
	lab_address "$LAB_B" "$LAB_IF_B" 2
}

lab_three() {
	local mtu=$1
	lab_hosts
	LAB_M=$LAB_ID-m
	lab_netns "$LAB_M"
	# the middle has no addresses and says nothing by itself
	lab_in "$LAB_M" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
	lab_veth "$LAB_A" "$LAB_IF_A" "$LAB_M" "$LAB_M0" "$mtu"
	lab_veth "$LAB_B" "$LAB_IF_B" "$LAB_M" "$LAB_M1" "$mtu"
	ip -n "$LAB_M" link set "$LAB_M0" up
	ip -n "$LAB_M" link set "$LAB_M1" up
	lab_address "$LAB_A" "$LAB_IF_A" 1
	lab_address "$LAB_B" "$LAB_IF_B" 2
}

# Start "wirelab run" in the middle. $LAB_WIRE is its pid, $LAB_PIN its pins.
lab_wire() {
	[ -x "$WIRELAB" ] || lab_die "$WIRELAB is not built; run make"
	LAB_PIN=/sys/fs/bpf/wirelab-$LAB_ID
	LAB_PINS+=("$LAB_PIN")
	: >"$LAB_TMP/wirelab.out"	# the line of an earlier one does not count
	nsenter --net="/run/netns/$LAB_M" -- "$WIRELAB" run --ports "$LAB_M0,$LAB_M1" \
		--pin "$LAB_PIN" "$@" >"$LAB_TMP/wirelab.out" &
	LAB_WIRE=$!
	LAB_PIDS+=("$LAB_WIRE")
	lab_wait_line "$LAB_TMP/wirelab.out" ready "$LAB_WIRE" || lab_die "wirelab did not start"
}

# Checksum and segmentation offload of the hosts. XDP in the middle forwards what it gets, so
# with lab_middle it must be off for kernel TCP and UDP; weft does not care.
lab_tcp_offload() {
	local ns dev
	for ns in "$LAB_A" "$LAB_B"; do
		[ "$ns" = "$LAB_A" ] && dev=$LAB_IF_A || dev=$LAB_IF_B
		lab_in "$ns" ethtool -K "$dev" tx "$1" tso "$1" >/dev/null 2>&1
	done
	return 0
}

lab_middle() {
	local mtu=${1:-3498}
	[ $# -eq 0 ] || shift
	lab_three "$mtu"
	# XDP in the middle can only transmit into a veth whose peer runs NAPI: GRO turns it on,
	# and a weft that comes and goes on the host's end leaves it on
	lab_in "$LAB_A" ethtool -K "$LAB_IF_A" gro on || lab_die "$LAB_IF_A: no GRO"
	lab_in "$LAB_B" ethtool -K "$LAB_IF_B" gro on || lab_die "$LAB_IF_B: no GRO"
	lab_tcp_offload off
	lab_wire "$@"
}

lab_middle_plain() {
	lab_three "${1:-3498}"
	lab_wire --tc --all --loss "${2:-0}"
}

# Change the rates, read the counters (one JSON object) of the running middle.
lab_impair() {
	"$WIRELAB" set --pin "$LAB_PIN" "$@"
}

lab_stats() {
	"$WIRELAB" stats --pin "$LAB_PIN" -j "$@"
}

# lab_field JSON NAME [N]: the Nth (from 1) number called NAME in JSON. For the flat numbers of
# wirelab: the first is the direction from A to B, the second from B to A.
lab_field() {
	local rest=$1 i re="\"$2\":(-?[0-9.]+)(.*)"
	for ((i = 0; i < ${3:-1}; i++)); do
		[[ $rest =~ $re ]] || return 1
		rest=${BASH_REMATCH[2]}
	done
	echo "${BASH_REMATCH[1]}"
}

# Frames that veth rings had no room for, on every interface of the topology, since its start.
lab_ring_drops() {
	local ns dev
	for ns in ${LAB_NSES[@]+"${LAB_NSES[@]}"}; do
		for dev in $(ip -n "$ns" -br link show type veth | cut -d@ -f1); do
			lab_in "$ns" ethtool -S "$dev"
		done
	done | awk '/(xmit_errors|tx_errors|redirect_errors|queue_[0-9]+_drops):/ { n += $2 }
		END { print n + 0 }'
}

# Remove what ip and libxdp make in bpffs when they load a program, unless others use it. "ip" and
# "xdp" may lead to "tc".
lab_loader_dirs() {
	local dir
	for dir in xdp tc; do
		rmdir "/sys/fs/bpf/$dir/globals" "/sys/fs/bpf/$dir" 2>/dev/null
	done
	for dir in ip xdp; do
		[ -e /sys/fs/bpf/tc ] || [ ! -L "/sys/fs/bpf/$dir" ] || rm -f "/sys/fs/bpf/$dir"
	done
	return 0
}

# Remove the topology: processes first, then namespaces (and with them links and programs).
lab_down() {
	local ns i pin pids=(${LAB_PIDS[@]+"${LAB_PIDS[@]}"})
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		lab_stop "${pids[i]}"
	done
	for ns in ${LAB_NSES[@]+"${LAB_NSES[@]}"}; do
		for ((i = 0; i < 400; i++)); do
			[ -e "/run/netns/$ns" ] || break
			ip netns del "$ns" 2>/dev/null || sleep 0.05
		done
		[ ! -e "/run/netns/$ns" ] || echo "lab: $ns: cannot be removed" >&2
	done
	# only what a killed process of ours could not remove itself
	for pin in ${LAB_PINS[@]+"${LAB_PINS[@]}"}; do
		case $pin in
		/sys/fs/bpf/wirelab-*) rm -rf "$pin" ;;
		esac
	done
	LAB_NSES=() LAB_A='' LAB_B='' LAB_M='' LAB_PIN='' LAB_WIRE=''
	return 0
}

# Take all down and tell what stayed: leftovers (kernel work is deferred, so wait up to 20 s)
# and kernel warnings. Returns 1 and says what on stderr when there is something.
lab_end() {
	local left i rc=0
	lab_down
	for ((i = 0; i < 200; i++)); do
		left=$(lab_leftovers)
		[ -n "$left" ] || break
		sleep 0.1
	done
	if [ -n "$left" ]; then
		printf '%s\n' "$left" | sed 's/^/lab: left behind: /' >&2
		rc=1
	fi
	lab_kernel_log_check | sed 's/^/lab: kernel: /' >&2
	[ "${PIPESTATUS[0]}" -eq 0 ] || rc=1
	return $rc
}

# The EXIT trap: keeps the exit status. After an interruption the pins of a device that is up would
# stay, and the next namespace may well get the number in their names.
lab_cleanup() {
	local rc=$? ns pins=()
	trap '' INT TERM HUP
	[ -n "$LAB_ID" ] || return $rc
	for ns in ${LAB_NSES[@]+"${LAB_NSES[@]}"}; do
		pins+=("/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$ns")"-*)
	done
	lab_down
	rm -rf ${pins[@]+"${pins[@]}"}
	rm -rf "$LAB_TMP"
	LAB_ID=
	trap - EXIT
	exit $rc
}
