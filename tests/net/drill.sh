# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2034,SC2004	# sourced after tap.sh; names of hosts index
# The hosts of the failure drill: those of hosts.sh, a server in each, and how to tell that they are
# at rest.
# shellcheck source-path=SCRIPTDIR source=hosts.sh source=weftd.sh
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"
. "$(dirname "${BASH_SOURCE[0]}")/weftd.sh"

DRILL_QPS=8
MAPS_SEEN=()		# ids of maps that must be gone at the end
declare -A SERVER_PID AT_REST PERSIST
declare -A BY_WEFTD DAEMON_PID	# host: programs go by way of weftd; its pid
USER_ID=65534			# theirs; no account is needed

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

drill_hosts() {
	local n
	hosts_up
	lab_netns "$LAB_ID-x"	# where devices are moved to
	weftd_bin "$NETWRITE"
	echo "device e0"$'\n'"user $USER_ID memory 512m qps 128 regions 512 processes 32" >"$LAB_TMP/weftd.conf"
	for n in "${HOSTS[@]}"; do
		PERSIST[$n]='' BY_WEFTD[$n]='' DAEMON_PID[$n]=''
		weftd_as "$LAB_TMP/served.$n" $USER_ID "$LAB_TMP/$n.sock" "$BIN/netwrite"
	done
}

# Programs of host N may go by way of weftd from now on.
weftd_start() {
	BY_WEFTD[$1]=1
	weftd_spawn "${NS[$1]}" "$LAB_TMP/weftd.conf" "$LAB_TMP/$1.sock" "weftd$1" ||
		trouble SHUT "host $1: no weftd" "$LAB_TMP/weftd$1.log"
	DAEMON_PID[$1]=$WEFTD_PID
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

# program N WEFTD: what a client or server of host N is, by way of weftd if so wanted and there is one
program() {
	if [ -n "${BY_WEFTD[$1]}" ] && [ "$2" = 1 ]; then echo "$LAB_TMP/served.$1"; else echo "$NETWRITE"; fi
}

# Start the server of host N; what it and its device hold at rest is remembered.
server_up() {
	local n=$1 pins map
	[ -z "${PERSIST[$n]}" ] || "$WEFT" -n "${NS[$n]}" up e0 >/dev/null || return 1
	NETWRITE=$(program "$n" 1) serve "s$n" "${NS[$n]}" --mix --qps $DRILL_QPS --region 512k e0=:7000
	SERVER_PID[$n]=$SERVER
	grep -q '^ready' "$LAB_TMP/s$n" || { SERVER_PID[$n]=''; return 1; }
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
	until_true 60 ended "${SERVER_PID[$n]}" ||
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
