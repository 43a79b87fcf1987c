# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # the columns of a row
# What a bench makes of its samples: a result in JSON, a table (sourced).
# line_ns: what tools/bench/line.c said before and after each sample, weft's and the peer's.

json_list() {
	printf '%s\n' "$@" | jq -s .
}

# One result as JSON, of the columns of a row and its samples in $values and $peers; a row that could
# not be measured has no value. $paired: the ratio is the median of those of pairs, or of the medians.
result() {
	local value=null peer_value=null

	[ ${#values[@]} -gt 0 ] && value=$(median "${values[@]}")
	[ ${#peers[@]} -gt 0 ] && peer_value=$(median "${peers[@]}")
	# shellcheck disable=SC2086 # a list of numbers; vm/bench.sh has none
	jq -cn --arg name "$name" --arg unit "$unit" --arg better "$better" --arg peer "$peer" \
		--argjson value "$value" --argjson peer_value "$peer_value" --argjson bar "$bar" \
		--argjson samples "$(json_list ${values[@]+"${values[@]}"})" \
		--argjson peer_samples "$(json_list ${peers[@]+"${peers[@]}"})" \
		--argjson paired "$paired" --argjson line "$(json_list ${line_ns:-})" '
		def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
		(if $peer_value == null then null
		 elif $paired then [$samples, $peer_samples] | transpose | map(.[0] / .[1]) | median
		 else $value / $peer_value end) as $ratio |
		(if $peer == "" then $value else $ratio end) as $got |
		{ name: $name, value: $value, unit: $unit, better: $better,
		  peer: (if $peer == "" then null else $peer end), peer_value: $peer_value,
		  ratio: $ratio, bar: $bar,
		  met: (if $got == null or $bar == null then null
			elif $better == "higher" then $got >= $bar else $got <= $bar end),
		  samples: $samples, peer_samples: $peer_samples, line_ns: $line }'
}

cpu() {
	echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc --all) cores"
}

commit() {
	git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown
}

# table FILE: its results, for people
table() {
	jq -r 'def r: if . == null then "-" elif . >= 1000 then round else . * 1000 | round / 1000 end;
		["row", "value", "unit", "peer", "peer value", "ratio", "bar", "met"],
		(.results[] | [.name, (.value | r), .unit, (.peer // "-"), (.peer_value | r),
			(.ratio | r),
			(if .bar == null then "-" else "\(if .better == "higher" then ">=" else "<=" end) \(.bar)" end),
			(if .met == null then "-" elif .met then "yes" else "NO" end)]) | @tsv' \
		"$1" |
		awk -F'\t' '{ printf "%-27s %11s %-5s  %-19s %11s %7s  %-8s %s\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
}
