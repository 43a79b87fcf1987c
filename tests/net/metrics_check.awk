# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Is standard input in the text format of Prometheus, to the letter? Prints what is not.
function bad(why) {
	print NR ": " why ": " $0
	wrong = 1
}
# The metric that a sample belongs to.
function family(name) {
	if (type[current] == "histogram" && (name == current "_bucket" || name == current "_sum" || name == current "_count"))
		return current
	if (type[current] == "summary" && (name == current "_sum" || name == current "_count"))
		return current
	return name
}
/^# HELP / {
	if (!match($0, /^# HELP [a-z_][a-z0-9_]* [^ ].*$/) || ($3 in help))
		bad("HELP")
	# a scraper shows it without the others
	if ($0 ~ /[Oo]f (those|these)|likewise/)
		bad("HELP that does not stand alone")
	help[$3] = 1
	current = $3
	next
}
/^# TYPE / {
	if (!match($0, /^# TYPE [a-z_][a-z0-9_]* (counter|gauge|histogram|summary)$/) || ($3 in type) || $3 != current)
		bad("TYPE, or not behind its HELP")
	type[$3] = $4
	if (($4 == "counter") != ($3 ~ /_total$/))
		bad("only counters end in _total")
	if ($3 ~ /_(us|ms|ns|usec|bits|kb|mb)(_|$)/)
		bad("not a base unit")
	if ($3 !~ /^weft_/)
		bad("not of weft")
	next
}
{
	label = "[a-z_]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\""
	if (!match($0, "^[a-z_][a-z0-9_]*({" label "(," label ")*})? (NaN|[+]Inf|[0-9.]+(e[+-][0-9]+)?)$")) {
		bad("not a sample")
		next
	}
	name = $0
	sub(/[{ ].*/, "", name)
	value = $NF
	series = substr($0, 1, length($0) - length(value) - 1)
	if (series in seen)
		bad("twice")
	seen[series] = 1
	if (!(current in type) || family(name) != current)
		bad("not with its metric")
	samples++
	rest = series
	sub(/,?le="[^"]*"/, "", rest)
	if (name ~ /_bucket$/ && type[current] == "histogram") {
		le = series
		sub(/.*le="/, "", le)
		sub(/".*/, "", le)
		if (rest == last_rest && (value + 0 < last_value || (le != "+Inf" && le + 0 <= last_le + 0)))
			bad("buckets must not fall")
		if (le == "+Inf") {
			sub(/_bucket/, "_count", rest)
			total[rest] = value
			rest = ""
		}
		last_rest = rest
		last_value = value
		last_le = le
	}
	if (name ~ /_count$/ && type[current] == "histogram") {
		if (total[series] != value)
			bad("count is not that of the last bucket")
		counted[series] = 1
	}
}
END {
	for (s in total)
		if (!(s in counted)) {
			print "no count for " s
			wrong = 1
		}
	for (h in help)
		if (!(h in type)) {
			print "no TYPE for " h
			wrong = 1
		}
	if (samples < 20) {
		print samples + 0 " samples"
		wrong = 1
	}
	exit wrong
}
