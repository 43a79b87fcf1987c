# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# TAP for tests that need no laboratory (sourced): check, tap_done.

TAP_COUNT=0 TAP_BAD=0
TAP_OUT=$(mktemp)
trap 'rm -f "$TAP_OUT"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# check NAME COMMAND...: passes when the command does; else shows the last of what it said.
check() {
	local name=$1
	shift
	TAP_COUNT=$((TAP_COUNT + 1))
	if "$@" >"$TAP_OUT" 2>&1 </dev/null; then
		echo "ok $TAP_COUNT - $name"
		return 0
	fi
	TAP_BAD=$((TAP_BAD + 1))
	echo "not ok $TAP_COUNT - $name"
	tail -n 40 "$TAP_OUT" | sed 's/^/# /'
	echo "# replay: ${TAP_REPLAY:-O=${O:-build} $0}"
	return 1
}

# check_none NAME COMMAND...: passes when the command finds nothing to complain of.
check_none() {
	check "$1" says_nothing "${@:2}"
}
says_nothing() {
	local said
	said=$("$@" 2>&1)
	[ -z "$said" ] || { printf '%s\n' "$said"; return 1; }
}

# The script's last command.
tap_done() {
	echo "1..$TAP_COUNT"
	[ "$TAP_BAD" -eq 0 ]
}
