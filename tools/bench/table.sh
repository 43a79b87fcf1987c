#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Show bench.json, or with --vm bench-vm.json, as Markdown: table.sh [--vm] [--update]; --update puts it
# into docs/performance.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=bench vm=''
[ "${1:-}" != --vm ] || { bench=bench-vm vm=vm- && shift; }
json=${O:-build}/$bench.json
page=docs/performance.md

usage() {
	echo "usage: table.sh [--vm] [--update]" >&2
	exit 2
}

die() {
	echo "weft: bench: $1" >&2
	exit 1
}

results() {
	jq -r '
		def r: if . == null then "-" elif . >= 1000 then round
			else . * 1000 | round / 1000 end;
		"| row | value | unit | peer | peer value | ratio | bar | met |",
		"|---|---|---|---|---|---|---|---|",
		(.results[] | [.name, (.value | r), .unit, .peer // "-", (.peer_value | r),
			(.ratio | r),
			(if .bar == null then "-" else "\(if .better == "higher" then "≥" else "≤" end) \(.bar)" end),
			(if .value == null then "not measured" elif .bar == null then "reported" elif .met then "yes" else "no" end)] |
			"| " + (map(tostring) | join(" | ")) + " |")' "$json"
}

machine() {
	jq -r '(.defaults.mtu // 3498) as $mtu | "| | |", "|---|---|", "| CPU | \(.cpu) |", "| kernel | \(.kernel) |",
		"| commit | \(.commit) |",
		(.perftest // empty | "| perftest | \(.) |"),
		([.results[].line_ns // [] | .[]] | select(length > 0) | sort |
			"| a cache line to the other CPU and back | \(.[0]) to \(.[-1]) ns, median \(.[length / 2 | floor]) |"),
		(.defaults | "| runs | \(.alternations) of \(.seconds) s each, alternating" +
			(if .trial then "; a trial, too short" else "" end) + " |",
		(.weft // empty | "| defaults | \(.evs) entropy values, cwnd \(.cwnd), UDP checksum " +
			"\(if .csum then "on" else "off" end) on IPv4, payload \(.payload) B at MTU \($mtu) |")),
		(.defaults.rxe_mtu // empty | "| rdma_rxe | payload \(.) B at MTU \($mtu) |")
		' "$json"
}

# Replace what stands between "<!-- NAME: begin -->" and its end by the output of NAME; a name of --vm
# begins with vm-.
update() {
	local name new

	new=$(mktemp) || exit 1
	for name in results machine; do
		"$name" >"$new" || exit 1
		awk -v name="$vm$name" -v new="$new" '
			$0 == "<!-- " name ": end -->" { skip = 0 }
			!skip
			$0 == "<!-- " name ": begin -->" {
				while ((getline line <new) > 0)
					print line
				skip = 1
			}' "$page" >"$new.page" && cat "$new.page" >"$page" || exit 1
	done
	rm -f "$new" "$new.page"
}

[ $# -le 1 ] || usage
[ -r "$json" ] || die "$json: not there; run make $bench"
case ${1:-} in
'') results && echo && machine ;;
--update) update ;;
*) usage ;;
esac
