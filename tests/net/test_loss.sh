#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Byte-exact over a middle that loses, duplicates, reorders, corrupts, marks and routes.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

BAD_WIRE=(--dup 5000 --corrupt 5000 --reorder 10000 --ce 20000 --ttl)
LOSSES="0 1000 10000 50000"	# ppm
TOTAL=0

# summed NS DEV VALUE: does the device ask for the UDP checksum over IPv4? true or false
summed() {
	"$WEFT" -n "$1" -j dev show "$2" | tr -d ' \n' | grep -q "\"ipv4\":$3"
}

# One server for all that is sent until bye: creating its memory takes longer than many a transfer.
hello() {
	local on=false
	[ "${2:-}" = on ] && on=true
	t -- both up "$@" ++ "weft is up ${*:-with defaults}"
	t -- summed "$LAB_A" "$LAB_IF_A" $on ++ "the UDP checksum over IPv4: $on"
	t -- summed "$LAB_B" "$LAB_IF_B" $on ++ "and at the other end"
	serve s "$LAB_B" --region 256m "$LAB_IF_B=:7000"
}

bye() {
	kill -TERM "$SERVER"
	t -- finish "$SERVER" s ++ "the server saw nothing wrong"
	both down
}

# transfer MIB HOST [CLIENT OPTIONS]: in rounds of 256 MiB, each compared by the server, which tells
# the client. Leaves WIRE, PACKETS, RETRANSMITS, TOOK.
transfer() {
	local mib=$1 to=$2 rc=0 t0
	shift 2
	"$WIRELAB" stats --pin "$LAB_PIN" --reset >/dev/null
	t0=$(now)
	writer c "$LAB_A" --rounds $((mib / 256)) --src 64m --max 16m "$@" "$LAB_IF_A=$to:7000"
	finish "$CLIENT" c || rc=1
	TOOK=$(since "$t0")
	WIRE=$(lab_stats)
	PACKETS=$(field c packets) RETRANSMITS=$(field c retransmits)
	! grep '^wrong' "$LAB_TMP/s" || rc=1
	echo "$WIRE"
	return $rc
}

# With the UDP checksum one byte a packet is corrupted, anywhere: no sum of 16-bit words misses that
# (docs/protocol.md, section 1), so a wrong byte in the end is weft's fault and not bad luck. Without
# it nothing covers the payload, and what is corrupted there would be placed, as documented. So the
# headers alone are corrupted then, for weft's own check to find: one byte, or up to 8 bits from the
# PSN on, where no other check comes first. (Of the UDP header that check sees nothing. A port or a
# length that does not fit is dropped before, a checksum where there was none is verified, and the
# source port does no harm.)
corruption() {
	case $1 in
	sum) lab_impair --corrupt-range 0:65535 --no-scatter ;;
	header) lab_impair --corrupt-range 0:72 --no-scatter ;;
	bits) lab_impair --corrupt-range 24:72 --scatter ;;
	esac
}

# gigabyte IP-VERSION MTU LOSS CORRUPTION
gigabyte() {
	local v=$1 mtu=$2 ppm=$3 how=$4 to=10.9.0.2 name check csum
	[ "$v" = 4 ] || to='[fd09::2]'
	name="1 GiB over IPv$v, MTU $mtu, $((ppm / 10000)).$((ppm % 10000 / 1000))% loss"
	[ "$how" = sum ] || name+=", no UDP checksum"
	corruption "$how"
	lab_impair --loss "$ppm" --seed $((SEED % 100000))
	check=$(counter "$LAB_B" "$LAB_IF_B" check) csum=$(counter "$LAB_B" "$LAB_IF_B" csum)
	t -- transfer 1024 "$to" ++ "$name"
	check=$(($(counter "$LAB_B" "$LAB_IF_B" check) - check))
	csum=$(($(counter "$LAB_B" "$LAB_IF_B" csum) - csum))
	note "$WIRE"
	t "$(lab_field "$WIRE" dup) > 0 && $(lab_field "$WIRE" corrupted) > 0 &&
		$(lab_field "$WIRE" reordered) > 0 && $(lab_field "$WIRE" ce) > 0 &&
		($ppm == 0) == ($(lab_field "$WIRE" lost) == 0)" "with all the others on, in $TOOK ms"
	note "dropped by the header check: $check, by the UDP checksum: $csum"
	case $how in
	sum) t "csum > 100 && csum > 4 * check" "corrupted packets fell to the UDP checksum" ;;
	*) t "check > 100 && check > 4 * csum" "corrupted headers fell to the header check" ;;
	esac
	TOTAL=$((TOTAL + TOOK))
}

# matrix MTU HEADER BITS SUM...: IPv6 with each loss, and IPv4: with this loss each of the corruptions
matrix() {
	local mtu=$1 header=$2 bits=$3 ppm
	shift 3
	lab_middle "$mtu" "${BAD_WIRE[@]}"
	hello
	for ppm in $LOSSES; do
		gigabyte 6 "$mtu" "$ppm" sum
	done
	gigabyte 4 "$mtu" "$header" header
	gigabyte 4 "$mtu" "$bits" bits
	bye
	hello csum on
	for ppm in "$@"; do
		gigabyte 4 "$mtu" "$ppm" sum
	done
	bye
	lab_down
}

clean_wire() {
	lab_impair --loss 0 --dup 0 --corrupt 0 --reorder 0 --ce 0 --no-ttl --seed $((SEED % 100000))
}

# Where the machine holds packets up for longer than a time-out they are sent again, too: best of three.
lossy_bound() {
	local lost
	clean_wire
	lab_impair --loss 10000 --reorder 20000
	t -- transfer 512 10.9.0.2 ++ "512 MiB at 1% loss with reordering"
	lost=$(($(lab_field "$WIRE" lost) + $(lab_field "$WIRE" lost 2)))
	t "lost > 1000" "of which $lost packets were lost, of those data $(lab_field "$WIRE" lost_data)"
	t -- at_most $((RETRANSMITS * 10)) $((13 * lost + 1000)) ++ \
		"$RETRANSMITS retransmitted for $lost lost: at most 1.3 times and 100"
}

reordered_bound() {
	clean_wire
	lab_impair --reorder 20000
	t -- transfer 512 10.9.0.2 ++ "512 MiB with reordering alone"
	t "$(lab_field "$WIRE" reordered) > 1000" "much of it was"
	t -- at_most $((RETRANSMITS * 100)) "$PACKETS" ++ "$RETRANSMITS of $PACKETS retransmitted: at most 1%"
}

at_most() {
	(($1 <= $2)) || return $TOO_LATE
}

# The middle counts packets by source port: A to B comes first.
spread() {
	local n ports
	clean_wire
	for n in 1 16 64; do
		t -- transfer 256 10.9.0.2 --evs "$n" ++ "256 MiB over $n entropy values"
		ports=$(grep -o '"sports":{[^}]*}' <<<"$(tr -d ' \n' <<<"$WIRE")" | head -n 1)
		note "$ports"
		t -- even "$n" "$ports" ++ "each of $n source ports carries its share within 20%"
	done
}

even() {
	grep -o '"[0-9]*":[0-9]*' <<<"$2" | tr -d '"' | awk -F: -v want="$1" '
		$2 > 50 { n++; c[n] = $2; sum += $2 }	# the few of the other direction do not count
		END {
			mean = n ? sum / n : 0
			for (i = 1; i <= n; i++)
				if (c[i] < 0.8 * mean || c[i] > 1.2 * mean) { print c[i], mean; bad = 1 }
			exit !(n == want && !bad)
		}'
}

lab_begin
tap_part 1500 && matrix 1500 0 10000 1000 50000
tap_part 3498 && matrix 3498 50000 1000 0 10000
echo "# note: transfers of the matrix took $TOTAL ms"
if tap_part bounds || tap_part spread; then
	lab_middle 3498
	hello
	tap_part bounds && { timely lossy_bound; timely reordered_bound; }
	tap_part spread && spread
	bye
fi
tap_end
