#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Standard loaders: weft adopts what xdp-loader, ip and bpftool attach, and replaces its programs
# under traffic. With libxdp's dispatcher: vm/loaders.sh, for not every kernel has what it needs.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

OBJ=$LAB_BUILD/weft.bpf.o
PIN=/sys/fs/bpf/$$-loaders	# ours, for programs and maps
BASE=/sys/fs/bpf/weft

on_a() { lab_in "$LAB_A" "$@"; }
weft_a() { "$WEFT" -n "$LAB_A" "$@"; }

attached() {	# the id of the program on A's interface, "" for none
	ip -n "$LAB_A" link show dev "$LAB_IF_A" | sed -n 's/.*prog\/xdp[a-z]* id \([0-9]*\).*/\1/p'
}

pins() { echo "$BASE/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A"; }

doorbells() { ip -n "$LAB_A" -br link | grep -c '^weft'; }

# A map of the program with that id, as bpftool takes it
map_of() {
	local ids
	ids=$(bpftool -j prog show id "$1" | jq .map_ids)
	bpftool -j map show | jq -r --argjson ids "$ids" --arg name "$2" \
		'.[] | select(.name == $name and (.id | IN($ids[]))) | .id'
}

# What weft holds in the kernel for a device is gone: that map, and with it all that uses it.
map_gone() { ! bpftool map show id "$1"; }

# transfer: WRITEs from A to B, every byte compared
transfer() {
	"$WEFT" -n "$LAB_A" -j perf write "$LAB_IF_A" 10.9.0.2:7471 --count 64 --size 256k \
		--region 4m --verify >"$LAB_TMP/perf" 2>&1
	cat "$LAB_TMP/perf"
	grep -q '"verified":true' "$LAB_TMP/perf" && grep -q '"errors":0' "$LAB_TMP/perf"
}

says() {	# says TEXT COMMAND...: it fails, in one line with this text
	local text=$1 rc=0
	shift
	"$@" >"$LAB_TMP/says" 2>&1 || rc=$?
	cat "$LAB_TMP/says"
	[ $rc = 1 ] && [ "$(wc -l <"$LAB_TMP/says")" = 1 ] && grep -qF -- "$text" "$LAB_TMP/says"
}

attach_is() { weft_a -j dev show "$LAB_IF_A" | jq -e --arg a "$1" '.[0].attach // "not" == $a'; }

# ---- adopting ----------------------------------------------------------------------------------

ip_xdp() { on_a ip link set dev "$LAB_IF_A" "$1" obj "$2" sec xdp; }

load_with() {
	case $1 in
	xdp-loader) on_a xdp-loader load -m native -p "$PIN" "$LAB_IF_A" "$OBJ" ;;
	ip) ip_xdp xdp "$OBJ" ;;
	bpftool)
		bpftool prog load "$OBJ" "$PIN/nic" &&
			on_a bpftool net attach xdpdrv pinned "$PIN/nic" dev "$LAB_IF_A" &&
			rm "$PIN/nic"
		;;
	esac
}

unload_with() {
	case $1 in
	xdp-loader) on_a xdp-loader unload "$LAB_IF_A" --all ;;
	ip) on_a ip link set dev "$LAB_IF_A" xdp off ;;
	bpftool) on_a bpftool net detach xdpdrv dev "$LAB_IF_A" ;;
	esac
}

adopt() {
	local loader=$1 id map
	t -- eval 'load_with "$loader" >"$LAB_TMP/load" 2>&1' ++ "$loader loads weft.bpf.o"
	t ! grep . "$LAB_TMP/load" ++ "$loader: without complaints"
	id=$(attached)
	map=$(map_of "$id" qpctl)
	t -- on_a ping -q -c 1 -W 20 10.9.0.2 ++ "$loader: before it is set up everything passes"
	t -- weft_a up "$LAB_IF_A" ++ "$loader: weft up"
	note "program $id, now $(attached)"
	t "${id:-0} > 0 && ${id:-0} == $(attached)" "$loader: the program is the same"
	t -- attach_is netlink ++ "$loader: dev show says how it is attached"
	t "$(bpftool -j map show pinned "$(pins)/qpctl" | jq .id) == ${map:-0}" \
		"$loader: its maps are used"
	t -- transfer ++ "$loader: WRITEs arrive exactly"
	t -- weft_a down "$LAB_IF_A" ++ "$loader: weft down"
	t "$(attached) == $id && $(doorbells) == 0" "$loader: leaves the program, and no doorbell"
	t ! test -e "$(pins)" ++ "$loader: nor pins"
	t "$(bytes_set devcfg "$id") == 1" "$loader: nothing in its devcfg but that it was used"
	# without weft up: the process adopts, and leaves it when it ends
	t -- transfer ++ "$loader: the library adopts it as well"
	t "$(attached) == $id" "$loader: and it outlives the last process"
	t -- unload_with "$loader" ++ "$loader unloads it"
	t -- until_true 60 map_gone "$map" ++ "$loader: then nothing is left in the kernel"
}

# How many bytes of a map of program $2 are not 0
bytes_set() {
	bpftool -j map dump id "$(map_of "$2" "$1")" |
		jq '[.[].value[] | select(. != "0x00")] | length'
}

loaders() {
	mkdir "$PIN"
	adopt xdp-loader
	adopt ip
	adopt bpftool
	rmdir "$PIN"
}

# The loader unloads first.
unload_first() {
	local map
	load_with ip
	map=$(map_of "$(attached)" qpctl)
	weft_a up "$LAB_IF_A"
	t -- says "weft works on this interface" weft_a unpin "$LAB_IF_A" ++ "unpin leaves what works"
	unload_with ip
	t -- attach_is not ++ "unloaded before weft down: dev show says so"
	t -- weft_a unpin "$LAB_IF_A" ++ "weft unpin cleans up after it"
	note "$(ls "$BASE" 2>&1)"
	t "$(doorbells) == 0" "no doorbell is left"
	t ! test -e "$(pins)" ++ "no pins are left"
	t -- until_true 60 map_gone "$map" ++ "nothing is left in the kernel"
	t -- eval 'weft_a unpin "$LAB_IF_A" 2>"$LAB_TMP/unpin"' ++ "unpin once more"
	t -- grep -q "nothing to do" "$LAB_TMP/unpin" ++ "has nothing to do"
	load_with ip
	map=$(map_of "$(attached)" qpctl)
	weft_a up "$LAB_IF_A"
	unload_with ip
	t -- weft_a down "$LAB_IF_A" ++ "or weft down does"
	t -- until_true 60 map_gone "$map" ++ "with the same result"
}

# Wherever a replacement is killed, the next one works: at each rename of a pin.
killed_replace() {
	local n rc
	cat >"$LAB_TMP/kill.c" <<-'C'
		#define _GNU_SOURCE
		#include <signal.h>
		#include <stdlib.h>
		#include <unistd.h>
		#include <sys/syscall.h>

		int rename(const char *from, const char *to)
		{
			static int n;

			if (++n == atoi(getenv("KILL_AT")))
				raise(SIGKILL);
			return syscall(SYS_rename, from, to);
		}
	C
	t -- gcc -shared -fPIC -o "$LAB_TMP/kill.so" "$LAB_TMP/kill.c" ++ "something that kills at a rename"
	weft_a up "$LAB_IF_A"
	for n in 1 2 4; do
		rc=0
		{ LD_PRELOAD=$LAB_TMP/kill.so KILL_AT=$n weft_a up "$LAB_IF_A" --replace || rc=$?; } 2>/dev/null
		t "rc == 137" "a replacement is killed at rename $n"
		t -- weft_a up "$LAB_IF_A" --replace ++ "and the next one works"
	done
	t -- transfer ++ "WRITEs arrive after that"
	# renamed while programs are loaded: it goes by the index
	lab_spawn "$WEFT" -n "$LAB_A" up "$LAB_IF_A" --replace >"$LAB_TMP/replace" 2>&1
	sleep 0.1
	ip -n "$LAB_A" link set "$LAB_IF_A" down
	ip -n "$LAB_A" link set "$LAB_IF_A" name other
	rc=0
	lab_wait "$LAB_SPAWNED" || rc=$?
	note "$(<"$LAB_TMP/replace")"
	t "rc == 0" "renamed meanwhile: nothing to say"
	ip -n "$LAB_A" link set other name "$LAB_IF_A"
	ip -n "$LAB_A" link set "$LAB_IF_A" up
	t -- weft_a down "$LAB_IF_A" ++ "weft down"
}

# Without a link of weft's own its devcfg tells where the program is.
renamed() {
	load_with ip
	weft_a up "$LAB_IF_A"
	rename_a "$LAB_IF_A" newer
	t -- weft_a up newer ++ "adopted, then renamed: weft up by the new name"
	ip -n "$LAB_A" link add "$LAB_IF_A" type veth peer name peer-a
	t -- says "belongs to newer" weft_a up "$LAB_IF_A" ++ "another interface has the old name: refused"
	ip -n "$LAB_A" link del "$LAB_IF_A"
	t -- weft_a down newer ++ "weft down by the new name"
	t ! test -e "$(pins)" ++ "leaves no pins"
	rename_a newer "$LAB_IF_A"
	unload_with ip
}

rename_a() {	# FROM TO: by hand, as kernels before 6.2 want it
	ip -n "$LAB_A" link set "$1" down
	ip -n "$LAB_A" link set "$1" name "$2"
	ip -n "$LAB_A" link set "$2" up
}

# A process uses the device meanwhile: it is told, and at once.
unload_under_users() {
	local start rc=0 id user ms
	load_with ip
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --time 600 >"$LAB_TMP/perf" 2>&1 &
	user=$!
	until_true 60 sent_more 1000
	start=$(now)
	unload_with ip
	wait $user || rc=$?
	ms=$(since "$start")
	note "$(<"$LAB_TMP/perf")"
	t "rc == 1" "unloaded under a process: its WRITEs fail"
	t -- late "$ms" 3000 "$start" ++ "at once"
	t -- grep -q "somebody unloaded its XDP program" "$LAB_TMP/perf" ++ "and it says why"
	t -- until_true 60 test ! -e "$(pins)" ++ "it leaves no pins"
	# weft down under a process: the program that stays may not be adopted while that one lives
	load_with ip
	id=$(attached)
	"$WEFT" -n "$LAB_A" perf server -p 7472 "$LAB_IF_A" >"$LAB_TMP/idle" 2>&1 &
	user=$!
	until_true 60 grep -q ready "$LAB_TMP/idle"
	weft_a down "$LAB_IF_A"
	t "$(attached) == $id" "weft down under a process leaves the loader's program"
	t -- on_a ping -q -c 1 -W 20 10.9.0.2 ++ "everything passes it"
	t -- says "was taken down while in use" weft_a up "$LAB_IF_A" ++ "it is not adopted again"
	kill -TERM $user 2>/dev/null	# unless it went by itself
	wait $user
	unload_with ip
}

# ---- what is not to be adopted -----------------------------------------------------------------

refused() {
	ip_xdp xdpgeneric "$OBJ"
	t -- says "generic mode" weft_a up "$LAB_IF_A" ++ "weft.bpf.o in generic mode is refused"
	on_a ip link set dev "$LAB_IF_A" xdpgeneric off
	ip_xdp xdp "$LAB_BUILD/wirelab.bpf.o"
	local id
	id=$(attached)
	t -- says "another XDP program" weft_a up "$LAB_IF_A" ++ "a stranger's program is refused"
	t "${id:-0} > 0 && ${id:-0} == $(attached)" "and left alone"
	t ! test -e "$(pins)" ++ "without pins"
	on_a ip link set dev "$LAB_IF_A" xdp off
}

# Objects and pins of another ABI: the number stands in the BTF of the object.
other_abi() {
	local obj=$LAB_TMP/other.bpf.o
	"${CLANG:-clang}" -O2 -g -target bpf -mcpu=v3 -I"$LAB_TMP/include" -Iinclude -Ibpf \
		-I"/usr/include/$(gcc -dumpmachine)" -c -o "$obj" bpf/weft.bpf.c
	ip_xdp xdp "$obj"
	t -- says "ABI 99, this is ABI" weft_a up "$LAB_IF_A" ++ "a program of another ABI: explained"
	t "$(attached) > 0" "and left alone"
	on_a ip link set dev "$LAB_IF_A" xdp off
	# pins: as an older weft would have left them
	weft_a up "$LAB_IF_A"
	# shellcheck disable=SC2046	# a word a byte
	bpftool map update pinned "$(pins)/devcfg" key 0 0 0 0 value \
		$(bpftool -j map dump pinned "$(pins)/devcfg" | jq -r '.[0].value | .[0] = "0x63" | .[]')
	t -- says "pins of another ABI" weft_a dev show "$LAB_IF_A" ++ "pins of another ABI: explained"
	t -- says "are of another ABI" weft_a up --replace "$LAB_IF_A" ++ "--replace does not mix ABIs"
	t -- weft_a unpin "$LAB_IF_A" ++ "weft unpin removes them"
	t "$(attached | wc -l) == 0 && $(doorbells) == 0" "with program and doorbell"
}

# ---- replacing ---------------------------------------------------------------------------------

# replaced: replacements while WRITEs run, until there have been three; how many in $REPLACED. One that
# ends after the WRITEs does not count: then they run once more, for twice as long.
replaced() {
	local secs
	REPLACED=0
	for secs in 3 6 12 24 48; do
		replaced_for "$secs" || return 1
		((REPLACED < 3)) || return 0
	done
	echo "only $REPLACED replacements"
	return 1
}

# replaced_for SECONDS: one run of it; what perf said is printed
replaced_for() {
	local id writer rc=0 before
	before=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	"$WEFT" -n "$LAB_A" -j perf write "$LAB_IF_A" 10.9.0.2:7471 --time "$1" --size 64k \
		--region 4m --verify >"$LAB_TMP/perf" 2>&1 &
	writer=$!
	until_true 60 sent_more $((before + 1000))
	until ended $writer; do
		id=$(attached)
		weft_a up --replace "$LAB_IF_A" || rc=1
		[ "$(attached)" != "$id" ] || rc=1
		[ $rc = 0 ] || break
		ended $writer || REPLACED=$((REPLACED + 1))
	done
	wait $writer
	cat "$LAB_TMP/perf"
	[ $rc = 0 ] && grep -q '"verified":true' "$LAB_TMP/perf" && grep -q '"errors":0' "$LAB_TMP/perf"
}

# All five programs: the ids that dev show prints
program_ids() { weft_a -j dev show "$LAB_IF_A" | jq -r '.[0].programs[]' | sort; }

replace() {
	local before both
	weft_a up "$LAB_IF_A"
	before=$(program_ids)
	t -- replaced ++ "own link: WRITEs go on while the programs are replaced"
	note "replaced $REPLACED times"
	t "$REPLACED >= 3" "again and again"
	both=$(comm -12 <(echo "$before") <(program_ids))
	note "before: $before, still there: $both"
	t "$(wc -w <<<"$before") == 5 && ${#both} == 0" "all programs are other ones"
	t -- attach_is link ++ "it is still attached by a link"
	note "$(ls "$(pins)")"
	t "$(find "$(pins)" -name 'new:*' | wc -l) == 0" "no pins are left from replacing"
	weft_a down "$LAB_IF_A"
	load_with ip
	t -- weft_a up --replace "$LAB_IF_A" ++ "--replace without weft up is weft up"
	t -- replaced ++ "adopted: WRITEs go on while the programs are replaced"
	t "$REPLACED >= 3" "there too"
	weft_a down "$LAB_IF_A"
	unload_with ip
}

# ---- the interface's settings ------------------------------------------------------------------

# What a veth has of them is as it should be; each by itself: unit/test_nic.
advice() {
	weft_a up "$LAB_IF_A" 2>"$LAB_TMP/advice"
	note "$(<"$LAB_TMP/advice")"
	t "$(wc -l <"$LAB_TMP/advice") == 0" "weft up has nothing to say about a veth"
	weft_a -j dev show "$LAB_IF_A" >"$LAB_TMP/show"
	t -- jq -e '.[0].advice == []' "$LAB_TMP/show" ++ "nor has dev show"
	weft_a down "$LAB_IF_A"
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
lab_begin
meter
lab_pair 3498
mkdir -p "$LAB_TMP/include/weft"
sed 's/WEFT_ABI = [0-9]*/WEFT_ABI = 99/' include/weft/abi.h >"$LAB_TMP/include/weft/abi.h"
lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/server" 2>&1
lab_wait_line "$LAB_TMP/server" ready "$LAB_SPAWNED" || note "$(<"$LAB_TMP/server")"
for part in loaders unload_first renamed; do
	tap_part $part && $part
done
tap_part unload_under_users && timely unload_under_users
for part in refused other_abi killed_replace replace advice; do
	tap_part $part && $part
done
lab_stop "$LAB_SPAWNED"
lab_loader_dirs
tap_end
