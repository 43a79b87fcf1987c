#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Forged, stale, broken and random packets at a live QP: counted by name, and nothing else happens.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

COUNT=500

qpn_of() {
	sed -n 's/^qp 0: \(0x[0-9a-f]*\) connected.*/\1/p' "$LAB_TMP/$1" | head -n 1
}

# raw NS DEV QPN KIND COUNT
raw() {
	note "replay: rawsend $2 $3 $4 $5 $SEED in $1"
	lab_in "$1" "$RAWSEND" "$2" "$3" "$4" "$5" "$SEED" "${6:-0}" >/dev/null
}

# sent NS DEV QPN KIND COUNT: what nobody counts has at least been sent
sent() {
	t -- raw "$@" ++ "$5 packets of kind $4 are sent"
}

# in_full COUNTERS NS DEV QPN KIND: $COUNT of them are sent, and the other host's counters rise by about as
# many: the socket's frames take the same ring as the transfer, so some may find it full, and on a busy
# machine many, so then once more and slower. $ROSE is by how much they did.
in_full() {
	local counters=$1 before gap
	shift
	for gap in 0 300 2000; do
		before=$(of_all "$1" "$counters")
		raw "$1" "$2" "$3" "$4" $COUNT $gap || return 1
		until_true 2 rose_by "$before" "$1" "$counters" $COUNT ||
			until_true 8 rose_by "$before" "$1" "$counters" $((COUNT * 9 / 10))
		ROSE=$(($(of_all "$1" "$counters") - before))
		((ROSE < COUNT * 9 / 10)) || return 0
	done
	echo "$counters rose by $ROSE with $COUNT of $4"
	return 1
}

of_all() {	# the sum of these counters at the other host than NS
	local n=0 c
	for c in $2; do
		if [ "$1" = "$LAB_A" ]; then
			n=$((n + $(counter "$LAB_B" "$LAB_IF_B" "$c")))
		else
			n=$((n + $(counter "$LAB_A" "$LAB_IF_A" "$c")))
		fi
	done
	echo $n
}

rose_by() {
	(($(of_all "$2" "$3") - $1 >= $4))
}

# counted KIND COUNTER [MORE]: from A to B, the counter of B rises by what was sent, and MORE
counted() {
	t -- in_full "$2" "$LAB_A" "$LAB_IF_A" "$QPN" "$1" ++ "$COUNT packets with a wrong $1 are counted as $2"
	t "ROSE <= COUNT + ${3:-0}" "and nothing else is ($ROSE)"
}

# Right in everything, but placed before: acknowledged again, or too old even for that.
stale() {
	local dup
	dup=$(counter "$LAB_B" "$LAB_IF_B" rx_dup)
	t -- in_full "rx_dup window" "$LAB_A" "$LAB_IF_A" "$QPN" stale ++ \
		"$COUNT packets of the past are acknowledged or dropped again"
	t "$(counter "$LAB_B" "$LAB_IF_B" rx_dup) > $dup" "some of them are acknowledged"
}

battery() {
	local to=$1 v6=$2 csum=$3 kind
	serve s "$LAB_B" --region 8m --conns 1 "$LAB_IF_B=$to"
	local server=$SERVER
	# paced by the comparison of each round; cwnd leaves room in the ring for the forgeries
	writer c "$LAB_A" --time 600 --src 1m --max 256k --cwnd 16 "$LAB_IF_A=$to"
	local client=$CLIENT
	lab_wait_line "$LAB_TMP/c" connected "$client"
	lab_wait_line "$LAB_TMP/s" connected "$server"
	QPN=$(qpn_of c)
	PEER=$(qpn_of s)
	for kind in version opcode length qpn generation source conn check truncated; do
		counted $kind $kind
	done
	counted short truncated
	counted flip check
	# a busy QP drops late duplicates outside its window as well
	counted window window 1000000
	stale
	[ "$csum" = 0 ] || counted csum csum
	[ "$v6" = 1 ] || sent "$LAB_A" "$LAB_IF_A" "$QPN" fragment 20
	sent "$LAB_A" "$LAB_IF_A" "$QPN" vlan 20
	sent "$LAB_A" "$LAB_IF_A" "$QPN" fuzz 5000
	# and at the writing side: acknowledgements
	t -- in_full unsent "$LAB_B" "$LAB_IF_B" "$PEER" unsent ++ \
		"acknowledgements of what was never sent are counted as unsent"
	sent "$LAB_B" "$LAB_IF_B" "$PEER" fuzz 5000
	kill -TERM "$client"
	t -- finish "$client" c ++ "the transfer to $to goes on unharmed: client"
	t -- finish "$server" s ++ "not one byte was written by them: server"
}

lab_begin
lab_pair 3498
battery 10.9.0.2:7000 0 0
battery '[fd09::2]:7000' 1 1
both up csum on
battery 10.9.0.2:7000 0 1
both down
tap_end
