#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Pins of interfaces that are gone: found and removed, and nothing that a living device owns.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

BASE=/sys/fs/bpf/weft

pins() {	# pins NS DEV
	echo "$BASE/$(stat -Lc %i "/run/netns/$1")-$2"
}

# A namespace with weft up on its p0, whose index is that of A's interface; its pins in $PINS.
lost_soon() {
	INDEX=$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)
	lab_netns "$1"
	ip -n "$1" link add p0 index "$INDEX" type veth peer name p1 index 77
	ip -n "$1" link set p0 up
	ip -n "$1" link set p1 up
	"$WEFT" -n "$1" up p0
	PINS=$(pins "$1" p0)
	[ -e "$PINS/nic_link" ] || note "no pins $PINS"
}

# Delete it. The kernel takes its interfaces down later, so those that matter go first.
lose() {
	ip -n "$1" link del p0
	ip -n "$1" link del "weft${INDEX}t"
	ip netns del "$1"
}

flush() {
	"$WEFT" dev flush >"$LAB_TMP/flush"
}

flushed() {
	flush && [ ! -e "$PINS" ]
}

doorbells() {	# how many in a namespace
	ip -n "$1" -br link | grep -c '^weft'
}

intact() {	# A's device: pins, program, doorbell
	[ -e "$(pins "$LAB_A" "$LAB_IF_A")/nic_link" ] &&
		ip -n "$LAB_A" link show dev "$LAB_IF_A" | grep -q xdp &&
		[ "$(doorbells "$LAB_A")" = 1 ]
}

namespaces() {
	lost_soon "$LAB_ID-c"
	t -- flush ++ "flush with all interfaces there"
	t -- test -e "$PINS/nic_link" ++ "leaves them alone"
	ip netns del "$LAB_ID-c"
	t -- test -e "$PINS" ++ "pins outlive a deleted namespace"
	t -- until_true 60 flushed ++ "until flush"
	t -- grep -qx "removed $PINS" "$LAB_TMP/flush" ++ "and says so"
	t -- intact ++ "the device with the same index in another namespace stays"
	lost_soon "$LAB_ID-d"
	lose "$LAB_ID-d"
	"$WEFT" -n "$LAB_B" up "$LAB_IF_B"
	t ! test -e "$PINS" ++ "weft up on some interface removes them too"
	"$WEFT" -n "$LAB_B" down "$LAB_IF_B"
}

# Inode numbers of namespaces come again: pins of the dead then lie under the living.
reuse() {
	local pins
	lost_soon "$LAB_ID-e"
	lose "$LAB_ID-e"
	pins=$(pins "$LAB_A" p0)
	mv "$PINS" "$pins"
	t -- "$WEFT" -n "$LAB_A" down p0 ++ "down of pins of a dead namespace with our inode"
	t ! test -e "$pins" ++ "removes them"
	t -- intact ++ "but not the doorbell of the living device with the same index"
}

# The namespace lives and has a doorbell of the same name, and index, as A.
doorbell() {
	lost_soon "$LAB_ID-g"
	ip -n "$LAB_ID-g" link del p0
	t -- "$WEFT" -n "$LAB_A" dev flush ++ "flush in a namespace with a doorbell of the same name"
	t ! test -e "$PINS" ++ "removes the pins"
	t -- intact ++ "but not that doorbell"
	ip netns del "$LAB_ID-g"
	lost_soon "$LAB_ID-h"
	ip -n "$LAB_ID-h" link del p0
	"$WEFT" -n "$LAB_B" up "$LAB_IF_B"
	"$WEFT" -n "$LAB_B" down "$LAB_IF_B"
	t -- test -e "$PINS" ++ "weft up elsewhere leaves pins whose doorbell it does not reach"
	t -- "$WEFT" -n "$LAB_ID-h" dev flush ++ "flush in the namespace itself"
	t "$(doorbells "$LAB_ID-h") == 0" "removes the doorbell as well"
	ip netns del "$LAB_ID-h"
}

used() {
	lost_soon "$LAB_ID-f"
	local cap top
	lab_spawn "$WEFT" -n "$LAB_ID-f" capture p0 >"$LAB_TMP/cap" 2>&1
	cap=$LAB_SPAWNED
	lab_spawn "$WEFT" -n "$LAB_ID-f" top -b -d 0.2 p0 >"$LAB_TMP/top" 2>&1
	top=$LAB_SPAWNED
	t -- lab_wait_line "$LAB_TMP/cap" '^capturing' "$cap" ++ "a capture"
	t -- lab_wait_line "$LAB_TMP/top" '^weft top .* p0 ' "$top" ++ "and top, which names its interface"
	serve s "$LAB_ID-f" p0=:7000
	ip -n "$LAB_ID-f" link del p0
	t -- until_true 60 ended "$cap" ++ "an interface is deleted: the capture ends"
	t -- grep -q '^weft: p0: the interface is gone' "$LAB_TMP/cap" ++ "and says why"
	t -- until_true 60 ended "$top" ++ "top as well"
	t -- grep -q '^weft: p0: the interface is gone' "$LAB_TMP/top" ++ "which says so, too"
	lab_stop "$cap"
	lab_stop "$top"
	"$WEFT" -n "$LAB_ID-f" dev show >"$LAB_TMP/show"
	t -- grep -q '^p0: .*the interface is gone' "$LAB_TMP/show" ++ "dev show of a deleted interface"
	t ! grep -E '\(\)|1 token domains' "$LAB_TMP/show" ++ "says nothing that it does not know"
	t -- flush ++ "flush while a process still uses a deleted interface"
	t -- test -e "$PINS/devcfg" ++ "leaves its pins"
	kill -TERM "$SERVER"
	t -- finish "$SERVER" s ++ "it ends well"
	t -- flush ++ "flush afterwards"
	t ! test -e "$PINS" ++ "removes them"
	t -- intact ++ "the living device stays"
}

lab_begin
lab_pair 3498
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
for part in namespaces reuse doorbell used; do
	tap_part $part && $part
done
"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
tap_end
