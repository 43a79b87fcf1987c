# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Running examples/hello between the laboratory's hosts, after tap.sh; $HELLO is the program.

# hello LISTEN CONNECT TEXT [WHAT STRANGERS SAY BEFORE...]
hello() {
	local line
	: >"$LAB_TMP/heard"
	lab_spawn_in "$LAB_B" "$HELLO" server "$LAB_IF_B" "$1" >"$LAB_TMP/heard"
	local server=$LAB_SPAWNED
	until_true 60 lab_in "$LAB_B" bash -c '[ -n "$(ss -Hltn sport = :7470)" ]'
	for line in "${@:4}"; do
		stranger 0.1 "$line"
		lab_wait "$STRANGER"
	done
	lab_in "$LAB_A" timeout 90 "$HELLO" client "$LAB_IF_A" "$2" "$3" || {
		kill -TERM "$server"
		return 1
	}
	lab_wait "$server" && [ "$(<"$LAB_TMP/heard")" = "$3" ]
}
