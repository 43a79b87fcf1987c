# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2004	# sourced after lab.sh; numbers of hosts index
# Several hosts around a switch in XDP, labswitch.bpf.c, that loses what passes as wirelab does.
#
#   HOSTS=(1 2 3)                   # which; up to 9; four unless set
#   hosts_up                        # ${NS[N]} with the device e0, 10.9.0.N and fd09::N
#   hosts_impair --loss 10000 ...   # what wirelab knows, but for --dup and --reorder
#   lab_stats                       # from lower to higher hosts, and back
#   plug N                          # e0 of host N again, when it has been deleted

HOSTS=(1 2 3 4)
declare -A NS GENERATION

load_switch() {
	LAB_PIN=/sys/fs/bpf/wirelab-$LAB_ID	# the laboratory knows what is so named
	LAB_PINS+=("$LAB_PIN")
	mkdir "$LAB_PIN" || lab_die "$LAB_PIN: cannot be made"
	bpftool prog load "$LAB_BUILD/labswitch.bpf.o" "$LAB_PIN/switch" type xdp \
		pinmaps "$LAB_PIN" || lab_die "the switch does not load"
}

# The veth of host N, in a new life: another index, and every third time another MAC address.
plug() {
	local n=$1 ns=${NS[$1]} index q
	q=$(nproc --all)
	GENERATION[$n]=$((GENERATION[$n] + 1))
	ip link add e0 netns "$ns" address "02:00:00:00:$(printf %02x $((GENERATION[$n] / 3 % 256))):0$n" \
		mtu 3498 numrxqueues "$q" numtxqueues "$q" type veth \
		peer name "p$n" netns "$LAB_M" mtu 3498 numrxqueues "$q" numtxqueues "$q" || return 1
	index=$(ip -n "$LAB_M" -o link show dev "p$n" | cut -d: -f1)
	# XDP in the middle can only transmit into a veth whose peer runs NAPI; no checksums are
	# finished on the way
	lab_in "$ns" ethtool -K e0 gro on tx off tso off >/dev/null 2>&1
	lab_in "$LAB_M" bpftool net attach xdpdrv pinned "$LAB_PIN/switch" dev "p$n" &&
		lab_in "$LAB_M" bpftool map update pinned "$LAB_PIN/switch_ports" key "$n" 0 0 0 \
			value $((index & 255)) $((index >> 8 & 255)) $((index >> 16)) 0 || return 1
	ip -n "$LAB_M" link set "p$n" up
	lab_address "$ns" e0 "$n"
	neighbours_ask "$n"
}

# Nobody has the old address of host N, nor waits for what was asked while it was away.
neighbours_ask() {
	local n=$1 o
	for o in "${HOSTS[@]}"; do
		[ "$o" = "$n" ] || ip -n "${NS[$o]}" neigh flush to "10.9.0.$n"
		[ "$o" = "$n" ] || ip -n "${NS[$o]}" neigh flush to "fd09::$n"
	done 2>/dev/null
	ip -n "${NS[$n]}" neigh flush dev e0 2>/dev/null
	return 0
}

hosts_up() {
	local n
	LAB_M=$LAB_ID-m
	lab_netns "$LAB_M"
	lab_in "$LAB_M" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
		net.ipv6.conf.default.disable_ipv6=1
	load_switch
	for n in "${HOSTS[@]}"; do
		NS[$n]=$LAB_ID-h$n GENERATION[$n]=0
		lab_netns "${NS[$n]}"
	done
	for n in "${HOSTS[@]}"; do
		plug "$n" || lab_die "e0 of host $n"
	done
}

hosts_impair() {
	lab_impair --port 4793 --data-min 200 "$@"
}
