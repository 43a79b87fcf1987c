# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# What the scripts in a guest share: TAP, waiting, what perf reported. Sourced.

# shellcheck disable=SC2034 # the caller's too
tests=0 failed=0 json='' value=''

uptime_is() { read -r now _ < /proc/uptime; echo "$now"; }

# check NAME COMMAND...: passes when the command does; else shows the last of what it said, for a
# verifier's log is long.
check() {
	local name=$1
	shift
	tests=$((tests + 1))
	if "$@" > /tmp/check.out 2>&1; then
		echo "ok $tests - $name"
		return 0
	fi
	failed=$((failed + 1))
	echo "not ok $tests - $name"
	tail -n 60 /tmp/check.out | sed 's/^/# /'
	return 1
}

# wait_for SECONDS COMMAND...
wait_for() {
	local i
	for ((i = 0; i < $1 * 5; i++)); do
		"${@:2}" > /dev/null 2>&1 && return 0
		sleep 0.2
	done
	"${@:2}"
}

# Leave in $value a member of the JSON object that perf printed. Not by jq: it takes most of a
# second to start under emulation.
member() {
	local re="\"$1\"[[:space:]]*:[[:space:]]*([^],}[:space:]]+)"
	value=
	[[ $json =~ $re ]] && value=${BASH_REMATCH[1]}
}

is() {
	member "$1"
	echo "$1 is ${value:-missing}, should be $2"
	[ "$value" = "$2" ]
}

# Did all $count messages arrive, $bytes bytes in all?
# shellcheck disable=SC2154 # the caller's
is_exact() {
	cat /tmp/perf.json /tmp/perf.err /tmp/server.out
	is verified true && is errors 0 && is messages "$count" && is bytes "$bytes"
}

note_speed() {
	local name text=
	for name in seconds goodput_gbps packets retransmits; do
		member "$name"
		text+=" $name $value"
	done
	echo "# note: $1:$text"
}
