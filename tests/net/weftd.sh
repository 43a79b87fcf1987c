# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# weftd in tests, and programs of users without privileges; to be sourced after tap.sh and lab_begin.
#
#   weftd_bin PROGRAM...              # copies that everybody may run, in $BIN, and $BIN/as
#   "$BIN/as" UID SOCKET COMMAND...   # without privileges, in this namespace; the pid stays
#   weftd_as FILE UID SOCKET PROGRAM # a script that is PROGRAM, run so
#   weftd_spawn NS CONF SOCKET NAME   # its pid is in $WEFTD_PID, its log in $LAB_TMP/NAME.log

WEFTD_UNIT=$(dirname "${BASH_SOURCE[0]}")/../../tools/weftd/weftd.service
WEFTD_CAPS=-all$(sed -n 's/^CapabilityBoundingSet=//p' "$WEFTD_UNIT" | sed 's/ *CAP_/,+/g' | tr '[:upper:]' '[:lower:]')

weftd_bin() {
	chmod 711 "$LAB_TMP"
	BIN=$LAB_TMP/bin
	mkdir "$BIN"
	cp "$@" "$BIN"
	cat >"$BIN/as" <<-'AS'
		#!/bin/sh
		uid=$1 socket=$2
		shift 2
		WEFT_DAEMON=$socket exec setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all \
			--bounding-set=-all --no-new-privs "$@"
	AS
	chmod 755 "$BIN" "$BIN"/*
}

weftd_as() {
	printf '#!/bin/sh\nexec %s %s %s %s "$@"\n' "$BIN/as" "$2" "$3" "$4" >"$1"
	chmod 755 "$1"
}

# With the capabilities of its unit.
weftd_spawn() {
	: >"$LAB_TMP/$4"
	lab_spawn_in "$1" setpriv --inh-caps=-all --bounding-set="$WEFTD_CAPS" --no-new-privs "$LAB_BUILD/weftd" \
		-c "$2" -s "$3" >>"$LAB_TMP/$4" 2>>"$LAB_TMP/$4.log"
	WEFTD_PID=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/$4" '^ready' "$WEFTD_PID" || {
		note "no weftd: $(tail -n 3 "$LAB_TMP/$4.log")"
		return 1
	}
}

weftd_kill() {	# weftd_kill PID
	kill -KILL "$1"
	wait "$1" 2>/dev/null
	lab_forget "$1"
}
