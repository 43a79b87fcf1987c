# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2034,SC2004	# sourced after tap.sh; names of hosts index
# The hosts of the failure drill: four namespaces around a switch, a server in each, and how to tell
# that they are at rest. Host N has the device e0, 10.9.0.N and fd09::N; the middle its port pN.

HOSTS=(1 2 3 4)
DRILL_QPS=8
DRILL_PIN=
MAPS_SEEN=()		# ids of maps that must be gone at the end
declare -A NS SERVER_PID AT_REST GENERATION PERSIST

# A plain generator, for the same schedule from the same seed on every bash: sets R to 0 .. $1 - 1.
RND=0
rnd() {
	RND=$((RND * 6364136223846793005 + 1442695040888963407))
	R=$((((RND >> 33) & 0x7fffffff) % $1))
}

ms() {	# CLOCK_MONOTONIC into the variable $1, ms
	local up _
	read -r up _ </proc/uptime
	printf -v "$1" %d "$((10#${up/./} * 10))"
}

drill_switch() {
	DRILL_PIN=/sys/fs/bpf/wirelab-$LAB_ID	# the laboratory knows what is so named
	LAB_PINS+=("$DRILL_PIN")
	mkdir "$DRILL_PIN" || lab_die "$DRILL_PIN: cannot be made"
	bpftool prog load "$LAB_BUILD/drillswitch.bpf.o" "$DRILL_PIN/switch" type xdp \
		pinmaps "$DRILL_PIN" || lab_die "the switch does not load"
}

# The veth of host N, in a new life: another index, and every third time another MAC address.
plug() {
	local n=$1 ns=${NS[$1]} index o q
	q=$(nproc --all)
	GENERATION[$n]=$((GENERATION[$n] + 1))
	ip link add e0 netns "$ns" address "02:00:00:00:$(printf %02x $((GENERATION[$n] / 3 % 256))):0$n" \
		mtu 3498 numrxqueues "$q" numtxqueues "$q" type veth \
		peer name "p$n" netns "$LAB_M" mtu 3498 numrxqueues "$q" numtxqueues "$q" || return 1
	index=$(ip -n "$LAB_M" -o link show dev "p$n" | cut -d: -f1)
	# XDP in the middle can only transmit into a veth whose peer runs NAPI; no checksums are
	# finished on the way
	lab_in "$ns" ethtool -K e0 gro on tx off tso off >/dev/null 2>&1
	lab_in "$LAB_M" bpftool net attach xdpdrv pinned "$DRILL_PIN/switch" dev "p$n" &&
		lab_in "$LAB_M" bpftool map update pinned "$DRILL_PIN/drill_ports" key "$n" 0 0 0 \
			value $((index & 255)) $((index >> 8 & 255)) $((index >> 16)) 0 || return 1
	ip -n "$LAB_M" link set "p$n" up
	lab_address "$ns" e0 "$n"
	# nobody answers for the old address
	for o in "${HOSTS[@]}"; do
		[ "$o" = "$n" ] || ip -n "${NS[$o]}" neigh flush to "10.9.0.$n"
		[ "$o" = "$n" ] || ip -n "${NS[$o]}" neigh flush to "fd09::$n"
	done 2>/dev/null
	return 0
}

drill_hosts() {
	local n
	LAB_M=$LAB_ID-m
	lab_netns "$LAB_M"
	lab_in "$LAB_M" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
	drill_switch
	for n in "${HOSTS[@]}"; do
		NS[$n]=$LAB_ID-h$n GENERATION[$n]=0 PERSIST[$n]=
		lab_netns "${NS[$n]}"
	done
	lab_netns "$LAB_ID-x"	# where devices are moved to
	for n in "${HOSTS[@]}"; do
		plug "$n" || lab_die "e0 of host $n"
	done
}

pins_of() {
	echo "/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/${NS[$1]}")-e0"
}

# What a device holds, in one line: users, QPs, MRs, pools, CQs, tokens that are out.
holds() {
	local pins
	pins=$(pins_of "$1")
	echo "users $("$WEFT" -n "${NS[$1]}" -j dev show e0 | grep -o '"pid":' | wc -l)" \
		"qps $("$WEFT" -n "${NS[$1]}" -j qp show e0 | grep -o '"qpn":' | wc -l)" \
		"mrs $("$WEFT" -n "${NS[$1]}" -j mr show e0 | grep -o '"key":' | wc -l)" \
		"$(bpftool -j map dump pinned "$pins/pools" | grep -o '"key":' | wc -l) pools" \
		"$(bpftool -j map dump pinned "$pins/rings" | grep -o '"key":' | wc -l) rings" \
		"$(bpftool -j map dump pinned "$pins/owners" | grep -oE '"(pool|cq)":\[[^]]*\]' |
			tr -d '[]"a-z:' | tr ',' '\n' | grep -cv '^0*$') owned" \
		"active $(bpftool -j map dump pinned "$pins/devrun" | grep -o '"active":[0-9]*' |
			head -n 1 | cut -d: -f2)" \
		"tokens $(bpftool -j map dump pinned "$pins/devrun" | grep -oE '"inflight":-?[0-9]*' |
			cut -d: -f2 | tr '\n' ' ')"
}

descriptors() {
	local n=0 f
	for f in "/proc/$1/fd/"*; do n=$((n + 1)); done
	echo "fds $n"
}

# Start the server of host N; what it and its device hold at rest is remembered.
server_up() {
	local n=$1 pins map
	[ -z "${PERSIST[$n]}" ] || "$WEFT" -n "${NS[$n]}" up e0 >/dev/null || return 1
	serve "s$n" "${NS[$n]}" --qps $DRILL_QPS --region 512k e0=:7000
	SERVER_PID[$n]=$SERVER
	grep -q '^ready' "$LAB_TMP/s$n" || return 1
	pins=$(pins_of "$n")
	for map in cpus qptx; do
		MAPS_SEEN+=("$(bpftool map show pinned "$pins/$map" | sed -n 's/^\([0-9]*\):.*/\1/p')")
	done
	AT_REST[$n]=${AT_REST[$n]:-"$(at_rest "$n")"}
}

server_start() {
	local n=$1
	if server_up "$n"; then
		HURT[$n]=
	else
		trouble SHUT "host $n: no server" "$LAB_TMP/s$n"
	fi
}

server_stop() {	# server_stop N SIGNAL: and see how it ends
	local n=$1 rc=0
	[ -n "${SERVER_PID[$n]}" ] || return 0
	kill "-$2" "${SERVER_PID[$n]}"
	begun "$n"
	until_true 20 ended "${SERVER_PID[$n]}" ||
		{ trouble SHUT "host $n: the server hangs" "$LAB_TMP/s$n"; kill -KILL "${SERVER_PID[$n]}"; }
	lab_wait "${SERVER_PID[$n]}" 2>/dev/null || rc=$?
	SERVER_PID[$n]=
	if grep -q '^wrong:' "$LAB_TMP/s$n"; then
		trouble WRONG "server of host $n" "$LAB_TMP/s$n"
	elif [ "$2" = TERM ] && [ $rc != 0 ]; then
		trouble SHUT "host $n: the server ended with $rc" "$LAB_TMP/s$n"
	fi
}

at_rest() {
	echo "$(holds "$1") $(descriptors "${SERVER_PID[$1]}")"
}

is_at_rest() {
	[ "$(at_rest "$1")" = "${AT_REST[$1]}" ]
}

# Nothing of weft is left on host N.
host_clean() {
	! compgen -G "$(pins_of "$1")" >/dev/null &&
		! ip -n "${NS[$1]}" -br link | grep -q '^weft' &&
		! ip -n "${NS[$1]}" link show dev e0 2>/dev/null | grep -q xdp
}

# KiB that the kernel has in maps, per-CPU data and slabs that it cannot shrink.
kernel_memory() {
	awk '/^(VmallocUsed|Percpu|SUnreclaim):/ { n += $2 } END { print n }' /proc/meminfo
}

memory_is_back() {	# since $MEMORY; $MORE
	MORE=$(($(kernel_memory) - MEMORY))
	((MORE < 16384))
}

maps_gone() {
	local id
	for id in "${MAPS_SEEN[@]}"; do
		! bpftool map show id "$id" >/dev/null 2>&1 || return 1
	done
}
