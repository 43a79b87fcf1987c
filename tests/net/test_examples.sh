#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The examples are short, build from their source alone, and do what they say.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

build() {	# as a user would, against the header and the library
	"${CC:-gcc}" -Wall -Werror -I"$ROOT/include" -o "$LAB_TMP/hello" "$ROOT/examples/hello.c" \
		"$LAB_BUILD/libweft.a" -lxdp -lbpf -lmnl -lpthread
}

hello() {	# hello LISTEN CONNECT TEXT [WHAT STRANGERS SAY BEFORE...]
	local line
	: >"$LAB_TMP/heard"
	lab_spawn_in "$LAB_B" "$LAB_TMP/hello" server "$LAB_IF_B" "$1" >"$LAB_TMP/heard"
	local server=$LAB_SPAWNED
	until_true 10 lab_in "$LAB_B" bash -c '[ -n "$(ss -Hltn sport = :7000)" ]'
	for line in "${@:4}"; do
		stranger 0.1 "$line"
		lab_wait "$STRANGER"
	done
	lab_in "$LAB_A" timeout 20 "$LAB_TMP/hello" client "$LAB_IF_A" "$2" "$3" || {
		kill -TERM "$server"
		return 1
	}
	lab_wait "$server" && [ "$(<"$LAB_TMP/heard")" = "$3" ]
}

lab_begin
lab_pair 3498
lines=$(wc -l <"$ROOT/examples/hello.c")
t "lines <= 50" "hello.c has $lines lines, at most 50"
t -- build ++ "it builds without a warning"
t -- test -x "$LAB_BUILD/examples/hello" ++ "make has built it as well"
t -- hello :7000 10.9.0.2:7000 "one, two, three" ++ "it says hello over IPv4"
t -- hello '[fd09::2]:7000' '[fd09::2]:7000' "$(head -c 3000 /dev/zero | tr '\0' x)" ++ \
	"and 3000 bytes over IPv6"
t -- hello :7000 10.9.0.2:7000 "after strangers" 'GET /' "$REQUEST" "$REQUEST\x55" ++ \
	"strangers before do not keep it from listening"
t ! lab_in "$LAB_A" "$LAB_TMP/hello" client "$LAB_IF_A" 10.9.0.2:7000 x ++ "without a server it fails"
rc=0
"$LAB_TMP/hello" >/dev/null 2>&1 || rc=$?
t "rc == 2" "without arguments it tells how it is used"
tap_end
