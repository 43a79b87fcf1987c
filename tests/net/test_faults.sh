#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Ends of life: processes killed and stopped, links down, deleted and moved, devices taken down.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# What is promised, ms: a peer's death and an interface that is gone or down are errors within this
# time (the QPs' time-out is 1 s here), and so long after the last user nothing of weft is left.
ERROR_MS=1000 GONE_MS=2000 TIMES=

# A server s in B and a writer c in A with traffic between them.
traffic() {
	serve s "$LAB_B" --region 32m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --time 120 --src 8m "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" 'round 2' "$CLIENT" || note "no traffic: $(<"$LAB_TMP/c")"
}

# The same, but for ever posting: whatever happens, some WRITE is out or will be at once.
posts() {	# [CLIENT OPTIONS]
	serve s "$LAB_B" --region 4m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --stress --limit 60000 --time 120 "$@" "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT" || note "no traffic: $(<"$LAB_TMP/c")"
	until_true 60 sent_more 100
	sleep 0.3
}

# failed WHEN STATUS [MS]: the client gets an error in time and ends by itself. When a command makes
# the fault it is there once that has returned: it waits for locks of the kernel that others hold, too.
failed() {
	local at ms
	finish "$CLIENT" c 3 || return 1
	grep -qE "^failed 0 at .*($2)" "$LAB_TMP/c" || return 1
	at=$(sed -n 's/^failed 0 at \([0-9.]*\):.*/\1/p' "$LAB_TMP/c" | head -n 1)
	ms=$(since "$1" "$at")
	TIMES+=" ${FUNCNAME[2]}:$ms"
	late "$ms" "${3:-$ERROR_MS}" "$1" "$at"
}

nothing_left() {	# of weft on an interface
	! compgen -G "/sys/fs/bpf/weft/*$(stat -Lc %i "/run/netns/$1")-$2" >/dev/null &&
		! ip -n "$1" -br link | grep -q '^weft' &&
		! ip -n "$1" link show dev "$2" 2>/dev/null | grep -q xdp
}

# gone WHEN NS DEV: nothing is left in time after then, when the last user ended
gone() {
	local rc=0
	within "$1" $GONE_MS nothing_left "$2" "$3" || rc=$?
	TIMES+=" ${FUNCNAME[2]}-gone:$TOOK"
	return $rc
}

works() {	# a whole connection, from scratch
	serve s "$LAB_B" --region 8m --conns 1 "$LAB_IF_B=:7099"
	writer c "$LAB_A" --rounds 1 "$LAB_IF_A=10.9.0.2:7099"
	finish_both c s
}

kill_receiver() {
	local t0 t1
	posts
	t0=$(now)
	kill -KILL "$SERVER"
	t -- failed "$t0" 'remote side closed' ++ "receiver killed: the writer has an error within 1 s"
	t1=$(now)
	lab_wait "$SERVER"
	t -- gone "$t0" "$LAB_B" "$LAB_IF_B" ++ "within 2 s nothing of weft is left at the receiver"
	t -- gone "$t1" "$LAB_A" "$LAB_IF_A" ++ "nor at the writer"
}

kill_sender() {
	local t0
	traffic
	t0=$(now)
	kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
	t -- gone "$t0" "$LAB_A" "$LAB_IF_A" ++ "writer killed: within 2 s nothing of weft is left there"
	t -- in_time 1 grep -q 'over,' "$LAB_TMP/s" ++ "the receiver is told"
	note "$(<"$LAB_TMP/s")"
	t -- grep -q 'over, remote side closed' "$LAB_TMP/s" ++ "with the status for it"
	t -- finish "$SERVER" s ++ "its memory is right"
}

# The writer's application sleeps, so it cannot react: its packets go on until the dead do not answer.
dead_get_nothing() {
	local owner data s2 client2 i
	both up
	serve s2 "$LAB_B" --region 16m "$LAB_IF_B=:7001"
	s2=$SERVER
	writer c2 "$LAB_A" --time 120 --cwnd 8 "$LAB_IF_A=10.9.0.2:7001"
	client2=$CLIENT
	lab_wait_line "$LAB_TMP/c2" 'round 1' "$CLIENT"
	owner=$(counter "$LAB_B" "$LAB_IF_B" owner)
	for ((i = 0; i < 8; i++)); do	# on a busy machine all may have arrived when the server dies
		[ $i = 0 ] || kill -KILL "$CLIENT"
		serve s "$LAB_B" --region 256m "$LAB_IF_B=:7000"
		writer c "$LAB_A" --rounds 1 --fixed 2m --cwnd 1 --stop-posted "$LAB_IF_A=10.9.0.2:7000"
		lab_wait_line "$LAB_TMP/c" '^posted' "$CLIENT"
		kill -KILL "$SERVER"
		lab_wait "$SERVER"	# with so much memory it takes its time to die
		until_true 3 more_than "$owner" && break
	done
	data=$(counter "$LAB_B" "$LAB_IF_B" owner)
	note "$(<"$LAB_TMP/c")"
	note "owner drops: $owner, then $data"
	t "data > owner" "packets for the dead are dropped as owner ($((data - owner)))"
	kill -CONT "$CLIENT"
	t -- finish "$CLIENT" c 3 ++ "their writer has an error when it wakes up"
	kill -TERM "$client2"
	t -- finish "$client2" c2 ++ "another writer to another process is not disturbed"
	kill -TERM "$s2"
	t -- finish "$s2" s2 ++ "and the memory of that process is right"
	both down
}

more_than() {
	(($(counter "$LAB_B" "$LAB_IF_B" owner) > $1))
}

stop_receiver() {
	local before after
	serve s "$LAB_B" --region 256m --conns 1 "$LAB_IF_B=:7000"
	# the server is stopped between accepting and the first round
	writer c "$LAB_A" --rounds 1 --max 16m --src 32m "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/s" connected "$SERVER"
	freeze "$SERVER"
	before=$(cpu_ticks "$SERVER")
	t -- lab_wait_line "$LAB_TMP/c" 'round 0' "$CLIENT" ++ "receiver stopped: all WRITEs complete"
	after=$(cpu_ticks "$SERVER")
	t "before == after" "and its CPU time does not change ($before, $after ticks)"
	kill -CONT "$SERVER"
	t -- finish_both c s ++ "awake again it finds every byte in place"
}

stop_sender() {
	local posted completed
	serve s "$LAB_B" --region 256m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --rounds 1 --fixed 1m --stop-posted "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" '^posted' "$CLIENT"
	note "$(<"$LAB_TMP/c")"
	read -r posted completed < <(sed -n 's/^posted \([0-9]*\), completed \([0-9]*\).*/\1 \2/p' "$LAB_TMP/c")
	t "${posted:-0} - ${completed:-0} > 0" "the writer stops with $completed of $posted WRITEs completed"
	t -- lab_wait_line "$LAB_TMP/s" 'round 0.*right' "$SERVER" ++ \
		"writer stopped: what it had posted arrives, every byte right"
	kill -CONT "$CLIENT"
	t -- finish_both c s ++ "and it finds all of it completed"
}

link() {	# up or down
	ip -n "$LAB_A" link set "$LAB_IF_A" "$1"
	[ "$1" = down ] || ip -n "$LAB_A" addr replace fd09::1/64 dev "$LAB_IF_A" nodad
}

link_down() {
	local t0
	posts
	link down
	t0=$(now)
	t -- failed "$t0" 'local interface' ++ "link down: the writer has an error within 1 s"
	link up
	t -- finish "$SERVER" s ++ "the receiver is told too"
	t -- works ++ "up again: a new connection works"
}

link_down_400() {
	local t0
	posts --timeout 400
	link down
	t0=$(now)
	t -- failed "$t0" 'local interface' 400 ++ "a time-out of 400 ms: within that"
	link up
	finish "$SERVER" s >/dev/null
}

link_down_asleep() {
	local t0
	posts
	link down
	t0=$(now)
	sleep 0.1
	kill -STOP "$CLIENT"
	sleep 0.6
	kill -CONT "$CLIENT"
	t -- failed "$t0" 'local interface' ++ "the writer is stopped meanwhile: within 1 s all the same"
	link up
	finish "$SERVER" s >/dev/null
}

# outage COMMAND...: in a transfer, one that is shorter than the time-out. On a busy machine it may have been
# longer, and the writer's error be right: then in another transfer.
outage() {
	local i t0
	for ((i = 0; i < 10; i++)); do
		traffic
		t0=$(now)
		"$@"
		(($(since "$t0") > 800)) || return 0
		kill -KILL "$CLIENT"
		lab_wait "$CLIENT"
		finish "$SERVER" s
	done
	return 1
}

short() {
	link down
	sleep 0.2
	link up
}

asleep() {
	link down
	sleep 0.1
	kill -STOP "$CLIENT"
	link up
}

outages() {
	t -- outage short ++ "a transfer whose link is down for 0.2 s"
	sleep 1.5
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "goes on"
	t -- outage asleep ++ "another, whose writer is stopped before the link is up again"
	sleep 1.5
	kill -CONT "$CLIENT"
	sleep 0.3
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "goes on as well, and hears of both late"
}

link_deleted() {
	local t0 t1
	posts
	ip -n "$LAB_A" link del "$LAB_IF_A"
	t0=$(now)
	t -- failed "$t0" 'local interface|no answer|remote side closed' ++ "interface deleted: the writer has an error within 1 s"
	t1=$(now)
	t -- gone "$t1" "$LAB_A" "$LAB_IF_A" ++ "within 2 s nothing of weft is left at the writer"
	t -- finish "$SERVER" s ++ "the receiver, whose end is gone too, ends well"
	t1=$(now)
	t -- gone "$t1" "$LAB_B" "$LAB_IF_B" ++ "and leaves nothing"
	lab_down
	lab_pair
	t -- works ++ "made anew it works"
}

link_moved() {
	local t0 t1
	posts
	lab_netns "$LAB_ID-c"
	ip -n "$LAB_A" link set "$LAB_IF_A" netns "$LAB_ID-c"
	t0=$(now)
	t -- failed "$t0" 'local interface|no answer|remote side closed' ++ "interface moved away: the writer has an error within 1 s"
	t1=$(now)
	t -- gone "$t1" "$LAB_A" "$LAB_IF_A" ++ "within 2 s nothing of weft is left where it was"
	t -- gone "$t1" "$LAB_ID-c" "$LAB_IF_A" ++ "and no program is left on it"
	kill -TERM "$SERVER"	# nothing is outstanding there, and nobody can tell it
	t -- finish "$SERVER" s ++ "the receiver ends well"
	lab_down
	lab_pair
	t -- works ++ "made anew it works"
}

peer_namespace() {
	local t0
	posts
	t0=$(now)
	# the namespace's processes keep it alive, so kill them with it
	kill -KILL "$SERVER"
	ip netns del "$LAB_B"
	lab_wait "$SERVER"
	t -- failed "$t0" 'local interface|no answer|remote side closed' ++ "peer's namespace deleted: the writer has an error within 1 s"
	lab_down
	lab_pair
}

# What somebody does to the doorbell by hand.
doorbell() {
	local t0 t1 tap
	tap=weft$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)t
	traffic
	ip -n "$LAB_A" link set "$tap" down
	t -- until_true 60 is_up "$LAB_A" "$tap" ++ "doorbell set down: it is set up again"
	sleep 1.2
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "and the transfer goes on"
	both up
	ip -n "$LAB_A" link set "$tap" down
	traffic
	t -- until_true 60 is_up "$LAB_A" "$tap" ++ "set down while nobody uses it: the next user sets it up"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "and works"
	both down
	posts
	ip -n "$LAB_A" link del "$tap"
	t0=$(now)
	t -- failed "$t0" 'local interface' ++ "doorbell deleted: the writer has an error within 1 s"
	t1=$(now)
	t -- gone "$t1" "$LAB_A" "$LAB_IF_A" ++ "within 2 s nothing of weft is left at the writer"
	finish "$SERVER" s >/dev/null
}

is_up() {
	ip -n "$1" -br link show dev "$2" up | grep -q .
}

reaper_pid() {	# of DEV in NS: by its arguments and namespace
	local p ino
	ino=$(readlink "/proc/$1/ns/net")
	for p in /proc/[0-9]*; do
		[ "$(cat "$p/comm" 2>/dev/null)" = weft-reaper ] || continue
		tr '\0' ' ' <"$p/cmdline" | grep -q -- "-$2 " &&
			[ "$(readlink "$p/ns/net")" = "$ino" ] && echo "${p#/proc/}"
	done
}

# The process that cleans up is killed: the next user still cleans up.
reaper_killed() {
	local pid t0
	traffic
	pid=$(reaper_pid "$CLIENT" "$LAB_IF_A")
	t "${pid:-0} > 1" "somebody waits to clean up behind the writer"
	[ -n "$pid" ] && kill -KILL "$pid"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "it is killed: the transfer goes on"
	t -- until_true 60 nothing_left "$LAB_A" "$LAB_IF_A" ++ "and the writer itself leaves nothing"
	traffic
	pid=$(reaper_pid "$CLIENT" "$LAB_IF_A")
	t "${pid:-0} > 1" "somebody waits again behind the next writer"
	[ -n "$pid" ] && kill -KILL "$pid"
	kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
	finish "$SERVER" s >/dev/null
	t -- works ++ "both killed: the next user works all the same"
	t0=$(now)
	t -- gone "$t0" "$LAB_A" "$LAB_IF_A" ++ "and leaves nothing"
}

# It takes the device down at the same time as 'weft down', and 'weft up' comes right behind.
reaper_and_down() {
	local i up=0
	for ((i = 0; i < 8; i++)); do
		serve s "$LAB_A" --region 64k "$LAB_IF_A=:7000"
		kill -KILL "$SERVER"
		note "$("$WEFT" -n "$LAB_A" down "$LAB_IF_A" 2>&1)"	# too late now and then
		note "$("$WEFT" -n "$LAB_A" up "$LAB_IF_A" 2>&1)"
		lab_wait "$SERVER"
		sleep 0.2
		"$WEFT" -n "$LAB_A" dev show "$LAB_IF_A" >/dev/null 2>&1 && up=$((up + 1))
		"$WEFT" -n "$LAB_A" down "$LAB_IF_A" 2>/dev/null
	done
	t "up == 8" "the only user killed, then weft down and up: it is up ($up of 8)"
	t -- nothing_left "$LAB_A" "$LAB_IF_A" ++ "and down leaves nothing"
}

# First attaches, later ones adopt, the last detaches; whoever dies first.
adopters() {
	local c1 s1 t0
	serve s1 "$LAB_B" --region 8m "$LAB_IF_B=:7001"
	s1=$SERVER
	writer c1 "$LAB_A" --time 120 "$LAB_IF_A=10.9.0.2:7001"
	c1=$CLIENT
	lab_wait_line "$LAB_TMP/c1" 'round 1' "$c1"
	traffic
	kill -KILL "$c1"
	lab_wait "$c1"
	kill -KILL "$s1"
	lab_wait "$s1"
	sleep 2
	t -- kill -0 "$CLIENT" "$SERVER" ++ "the first users are killed: the second go on"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "and end well"
	t0=$(now)
	t -- gone "$t0" "$LAB_A" "$LAB_IF_A" ++ "the last one detaches at the writer"
	t -- gone "$t0" "$LAB_B" "$LAB_IF_B" ++ "and at the receiver"
}

# Programs sit in maps that they use themselves; the kernel does not open such a circle.
map_ids() {
	local pin map
	pin=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$1")-$2
	for map in cpus nic spawn1 spawn2 spawn64 qptx pools; do
		bpftool map show pinned "$pin/$map" | sed -n 's/^\([0-9]*\):.*/\1/p'
	done
}

maps_gone() {
	local id
	for id in "$@"; do
		! bpftool map show id "$id" >/dev/null 2>&1 || return 1
	done
}

memory_returned() {
	local ids
	both up
	read -r -d '' -a ids < <(map_ids "$LAB_A" "$LAB_IF_A")
	works >/dev/null
	both down
	until_true 60 maps_gone "${ids[@]}"
	t -- maps_gone "${ids[@]}" ++ "weft down: the kernel has its memory back (maps ${ids[*]})"
	t "${#ids[@]} == 7" "of 7 maps"
	traffic
	read -r -d '' -a ids < <(map_ids "$LAB_A" "$LAB_IF_A")
	t "${#ids[@]} == 7" "another device has 7 maps as well"
	kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
	finish "$SERVER" s >/dev/null
	until_true 60 maps_gone "${ids[@]}"
	t -- maps_gone "${ids[@]}" ++ "the only user killed: likewise (maps ${ids[*]})"
}

persistence() {
	local t0
	both up
	t -- works ++ "after weft up"
	sleep 2.5
	t ! nothing_left "$LAB_A" "$LAB_IF_A" ++ "weft stays without users"
	posts
	t0=$(now)
	t -- "$WEFT" -n "$LAB_A" down "$LAB_IF_A" ++ "weft down with users"
	t -- failed "$t0" 'local interface|no answer' ++ "gives them an error within 1 s"
	t -- finish "$SERVER" s ++ "and their peers"
	t -- nothing_left "$LAB_A" "$LAB_IF_A" ++ "and leaves nothing"
	"$WEFT" -n "$LAB_B" down "$LAB_IF_B"
	t -- nothing_left "$LAB_B" "$LAB_IF_B" ++ "weft down without users leaves nothing"
	t -- works ++ "a new connection works"
}

bad() {
	serve s "$LAB_B" --region 2m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --bad "$1" --max 1m "$LAB_IF_A=10.9.0.2:7000"
	finish_both c s
}

refusals() {
	local k before after
	both up
	for k in key zero index bounds end wrap rights pd; do
		case $k in
		zero | index) c=key ;;
		end | wrap) c=bounds ;;
		*) c=$k ;;
		esac
		before=$(counter "$LAB_B" "$LAB_IF_B" "$c")
		t -- bad $k ++ "wrong $k: error completion, the rest flushed, not a byte written"
		after=$(counter "$LAB_B" "$LAB_IF_B" "$c")
		t "after > before" "and counted as $c"
	done
	t -- bad local ++ "a source without the right to be one is refused"
	t -- bad close ++ "QP closed during traffic: error completions, nothing written after it"
	t -- bad dereg ++ "region deregistered during traffic: error completions, nothing written after it"
	both down
}

lab_begin
meter
lab_pair 3498
parts() {
	local part
	for part; do
		tap_part "$part" && timely "$part"
	done
}
both up	# for those that do not ask what the last user leaves
parts stop_receiver stop_sender link_down_400 link_down_asleep outages
both down
parts kill_receiver kill_sender dead_get_nothing link_down doorbell reaper_killed reaper_and_down adopters memory_returned \
	persistence refusals link_deleted link_moved peer_namespace
echo "# note: ms:$TIMES"
tap_end
