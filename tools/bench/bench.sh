#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Measure weft and its peers alternately: bench.sh [ROW]; a table, and bench.json in the build folder.
#
# BENCH_ALT and BENCH_SECS shorten a trial run (5 alternations, 3 s each); they never lengthen it.
# Exit status: 0 measured (also below a bar), 1 a measurement failed, 2 usage, 130 interrupted.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1
O=$(realpath -m "${O:-build}")
export LAB_BUILD=$O
# shellcheck source=tests/net/lab.sh
. tests/net/lab.sh
# shellcheck source=tools/bench/measure.sh
. tools/bench/measure.sh
# shellcheck source=tools/bench/report.sh
. tools/bench/report.sh
# shellcheck source=tools/bench/peers.sh
. tools/bench/peers.sh
# shellcheck source=tools/bench/weft.sh
. tools/bench/weft.sh
# shellcheck source=tools/bench/rows.sh
. tools/bench/rows.sh

ONLY=${1:-}
ALT=5 SECS=3
[[ ${BENCH_ALT:-} =~ ^[1-4]$ ]] && ALT=$BENCH_ALT
[[ ${BENCH_SECS:-} =~ ^[1-2]$ ]] && SECS=$BENCH_SECS
BENCH_SECS=$SECS
WEFT_DEFAULTS=''
failures=0
declare -A BEST_CC=()

if [ $# -gt 1 ] || [[ $ONLY == -* ]] ||
	{ [ -n "$ONLY" ] && ! grep -q "^$ONLY|" <<<"$ROWS"; }; then
	echo "usage: bench.sh [ROW]; rows: $(cut -d'|' -f1 <<<"$ROWS" | xargs)" >&2
	exit 2
fi
[ "$(id -u)" -eq 0 ] || { complain "not root; run as root"; exit 1; }
[ -x "$O/weft" ] || { complain "$O/weft is not built; run make"; exit 1; }

# sample COMMAND...: in a fresh topology, which is taken down again whatever happened. Before and
# after it, how far apart the CPUs are: a virtual machine's are moved.
sample() {
	local rc

	SAMPLE='' PAIRS=''
	line_ns+=" $("$O/bench/line")"
	"$@"
	rc=$?
	line_ns+=" $("$O/bench/line")"
	lab_down
	return $rc
}

progress() {
	printf 'bench: %-28s %d/%d  %-6s %s\n' "$name" "$turn" "$ALT" "$1" "$SAMPLE" >&2
}

# Measure the row's columns; the samples end in $values and $peers.
alternate() {
	local turn cc on off
	local -A tcp=([cubic]='' [bbr]='')

	values=() peers=() line_ns=''
	for ((turn = 1; turn <= ALT; turn++)); do
		# shellcheck disable=SC2086 # commands of rows.sh are words
		sample $how || return 1
		[ "$peer_how" = pairs ] || values+=("$SAMPLE")
		progress weft
		case $peer_how in
		'') ;;
		pairs)
			while read -r on off; do
				values+=("$on") peers+=("$off")
			done <<<"$PAIRS"
			;;
		best:*)
			for cc in cubic bbr; do
				# shellcheck disable=SC2086
				set -- ${peer_how#best:}
				sample "$1" $cc "${@:2}" || return 1
				tcp[$cc]+=" $SAMPLE"
				progress $cc
			done
			;;
		*)
			# shellcheck disable=SC2086
			sample $peer_how || return 1
			peers+=("$SAMPLE")
			progress peer
			;;
		esac
	done
	[[ $peer_how == best:* ]] || return 0
	# shellcheck disable=SC2086 # lists of numbers
	cc=$(awk -v c="$(median ${tcp[cubic]})" -v b="$(median ${tcp[bbr]})" -v better="$better" '
		BEGIN { print (better == "higher" ? c >= b : c <= b) ? "cubic" : "bbr" }')
	BEST_CC[$name]=$cc
	read -ra peers <<<"${tcp[$cc]}"
}

best_cc() {
	local row

	for row in "${!BEST_CC[@]}"; do
		jq -cn --arg k "$row" --arg v "${BEST_CC[$row]}" '{ ($k): $v }'
	done | jq -cs 'add // {}'
}

write_json() {
	jq -s --arg kernel "$(uname -r)" --arg commit "$(commit)" --arg cpu "$(cpu)" \
		--argjson alt "$ALT" --argjson secs "$SECS" --argjson cc "$(best_cc)" \
		--argjson weft "${WEFT_DEFAULTS:-null}" '
		{ kernel: $kernel, cpu: $cpu, commit: $commit,
		  defaults: { alternations: $alt, seconds: $secs, trial: ($alt < 5 or $secs < 3),
			      region_bytes: 67108864, tcp_best: $cc, weft: $weft },
		  results: . }' "$1" >"$O/bench.json.new" && mv "$O/bench.json.new" "$O/bench.json"
}

lab_begin
: >"$LAB_TMP/results"
while IFS='|' read -r name unit better peer bar how peer_how; do
	[ -n "$name" ] || continue
	[ -z "$ONLY" ] || [ "$ONLY" = "$name" ] || continue
	[ "$peer_how" = pairs ] && paired=true || paired=false
	alternate || {
		complain "$name: not measured; see the message above"
		failures=$((failures + 1))
		values=() peers=() line_ns=''
	}
	result >>"$LAB_TMP/results"
done <<<"$ROWS"
write_json "$LAB_TMP/results" || exit 1
table "$O/bench.json"
lab_end || failures=$((failures + 1))
[ "$failures" -eq 0 ]
