#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Registered memory: allocated, adopted in place, staged; many at once, windows; what is shown of it.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# part PROGRAM [PART [PREFIX...]]: each of its lines of TAP is one of ours
part() {
	local rc=0 line
	lab_spawn "${@:3}" "$LAB_BUILD/tests/net/$1" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2 ${2:+"$2"} \
		>"$LAB_TMP/$1" 2>&1
	lab_wait "$LAB_SPAWNED" || rc=$?
	while IFS= read -r line; do
		case $line in
		'ok '*) TAP_N=$((TAP_N + 1)); echo "ok $TAP_N - ${line#ok * - }" ;;
		'not ok '*)
			TAP_N=$((TAP_N + 1)) TAP_FAILED=$((TAP_FAILED + 1))
			echo "not ok $TAP_N - ${line#not ok * - }"
			echo "# replay: $0"
			;;
		1..*) ;;
		*) echo "# ${line#\# }" ;;
		esac
	done <"$LAB_TMP/$1"
	t "rc == 0" "$1 ends well (status $rc)"
}

same() {	# same WANTED GOT
	diff <(echo "$1") <(echo "$2")
}

lab_begin
lab_pair 3498
part memadopt
part memuse

# who may not use userfaultfd(2) has the device, or has not
poor=(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace)
part memadopt in_place "${poor[@]}"
# shellcheck disable=SC2016 # for the shell within
part memadopt no_userfaultfd unshare -m bash -c 'mount --bind /dev/null /dev/userfaultfd && exec "$@"' - "${poor[@]}"

# what the tool says of a region of each kind
"$WEFT" -n "$LAB_B" up "$LAB_IF_B"
: >"$LAB_TMP/shown"
lab_spawn "$LAB_BUILD/tests/net/memuse" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2 shown \
	>"$LAB_TMP/shown" 2>&1
t -- lab_wait_line "$LAB_TMP/shown" '^# shown' "$LAB_SPAWNED" ++ "regions to look at"
"$WEFT" -n "$LAB_B" -j mr show "$LAB_IF_B" >"$LAB_TMP/mrs"
t -- same "adopt stage adopt" "$(jq -r 'sort_by(.window_of != null, .mode)[].mode' "$LAB_TMP/mrs" | xargs)" ++ \
	"mr show: the mode of each"
t -- same "16 remote-read" \
	"$(jq -r '(.[] | select(.window_of)) as $w | .[] | select(.key == $w.window_of and .mode == "adopt") |
		"\($w.len) \($w.rights[])"' "$LAB_TMP/mrs")" ++ "the region that a window is of, its length and rights"
t -- same "local-write" "$(jq -r '.[] | select(.mode == "stage").rights[]' "$LAB_TMP/mrs")" ++ "and the rights"
key=$(jq -r '.[] | select(.window_of).window_of' "$LAB_TMP/mrs")
t -- grep -q " mode adopt window-of $(printf '0x%08x' "$key") pd " <("$WEFT" -n "$LAB_B" mr show "$LAB_IF_B") ++ \
	"and so without -j"
kill -TERM "$LAB_SPAWNED"
t -- lab_wait "$LAB_SPAWNED" ++ "it ends"
t -- same "[]" "$("$WEFT" -n "$LAB_B" -j mr show "$LAB_IF_B" | jq -c .)" ++ "and no region is left"
"$WEFT" -n "$LAB_B" down "$LAB_IF_B"
tap_end
