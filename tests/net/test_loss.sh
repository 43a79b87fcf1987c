#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Byte-exact over a middle that loses, duplicates, reorders, corrupts, marks and routes.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

BAD_WIRE=(--dup 5000 --corrupt 5000 --reorder 10000 --ce 20000 --ttl)

both() {
	"$WEFT" -n "$LAB_A" "$1" "$LAB_IF_A" "${@:2}" && "$WEFT" -n "$LAB_B" "$1" "$LAB_IF_B" "${@:2}"
}

# transfer MIB ADDRESS [CLIENT OPTIONS]: in rounds of 256 MiB. Leaves WIRE, PACKETS, RETRANSMITS.
transfer() {
	local mib=$1 to=$2 rc=0
	shift 2
	serve s "$LAB_B" --region 256m --conns 1 "$LAB_IF_B=$to"
	"$WIRELAB" stats --pin "$LAB_PIN" --reset >/dev/null
	writer c "$LAB_A" --rounds $((mib / 256)) --src 64m --max 16m "$@" "$LAB_IF_A=$to"
	finish_both c s || rc=1
	WIRE=$(lab_stats)
	PACKETS=$(field c packets) RETRANSMITS=$(field c retransmits)
	echo "$WIRE"
	return $rc
}

# The matrix: each loss with each IP version; each MTU with each loss, spread so that half of the
# full product (8 of 16) is run.
matrix() {
	local mtu=$1 pairs=$2 p ppm to
	lab_middle "$mtu" "${BAD_WIRE[@]}"
	t -- both up csum on ++ "weft is up with checksums, MTU $mtu"
	for p in $pairs; do
		ppm=${p#*:}
		[ "${p%:*}" = 4 ] && to=10.9.0.2:7000 || to='[fd09::2]:7000'
		lab_impair --loss "$ppm" --seed $((SEED % 100000))
		t -- transfer 1024 "$to" ++ "1 GiB over IPv${p%:*}, MTU $mtu, $((ppm / 10000)).$((ppm % 10000 / 1000))% loss"
		note "$WIRE"
		t "$(lab_field "$WIRE" dup) > 0 && $(lab_field "$WIRE" corrupted) > 0 &&
			$(lab_field "$WIRE" reordered) > 0 && $(lab_field "$WIRE" ce) > 0 &&
			($ppm == 0) == ($(lab_field "$WIRE" lost) == 0)" "all impairments were at work"
	done
	both down
}

# What is corrupted here is the header: its own check must do without a checksum over the packet.
header_check() {
	t -- both up ++ "weft is up without"
	lab_impair --loss 10000 --corrupt 20000 --corrupt-range 8:72 --scatter
	t -- transfer 256 10.9.0.2:7000 ++ "256 MiB over IPv4 without UDP checksum, headers corrupted"
	t "$(counter "$LAB_B" "$LAB_IF_B" check) > 0 && $(counter "$LAB_B" "$LAB_IF_B" csum) == 0" \
		"the header check found them"
	lab_impair --corrupt 0 --no-scatter --corrupt-range 0:65535
}

clean_wire() {
	lab_impair --loss 0 --dup 0 --corrupt 0 --reorder 0 --ce 0 --no-ttl
}

bounds() {
	local lost
	clean_wire
	lab_impair --loss 10000 --reorder 20000
	t -- transfer 512 10.9.0.2:7000 ++ "512 MiB at 1% loss with reordering"
	lost=$(($(lab_field "$WIRE" lost) + $(lab_field "$WIRE" lost 2)))
	note "$RETRANSMITS of $PACKETS retransmitted, $lost lost, of those data $(lab_field "$WIRE" lost_data)"
	t "lost > 1000 && RETRANSMITS * 10 <= 13 * lost + 1000" \
		"$RETRANSMITS retransmitted for $lost lost: at most 1.3 times and 100"
	lab_impair --loss 0
	t -- transfer 512 10.9.0.2:7000 ++ "512 MiB with reordering alone"
	note "$WIRE"
	t "$(lab_field "$WIRE" reordered) > 1000 && RETRANSMITS * 100 <= PACKETS" \
		"$RETRANSMITS of $PACKETS retransmitted: at most 1%"
}

# The middle counts packets by source port: A to B comes first.
spread() {
	local n ports
	clean_wire
	for n in 1 16 64; do
		t -- transfer 256 10.9.0.2:7000 --evs "$n" ++ "256 MiB over $n entropy values"
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
tap_part matrix && {
	matrix 1500 "4:0 6:1000 4:10000 6:50000"
	lab_down
}
tap_part matrix && {
	matrix 3498 "6:0 4:1000 6:10000 4:50000"
	lab_down
}
lab_middle 3498 "${BAD_WIRE[@]}"
tap_part header && header_check
tap_part bounds && bounds
tap_part spread && spread
both down >/dev/null 2>&1
tap_end
