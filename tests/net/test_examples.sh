#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The examples are short, build from their source alone, and do what they say.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=hello.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hello.sh"
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

build() {	# as a user would, against the header and the library
	"${CC:-gcc}" -Wall -Werror -I"$ROOT/include" -o "$HELLO" "$ROOT/examples/hello.c" \
		"$LAB_BUILD/libweft.a" -lxdp -lbpf -lmnl -lpthread
}

lab_begin
lab_pair 3498
HELLO=$LAB_TMP/hello
lines=$(wc -l <"$ROOT/examples/hello.c")
t "lines <= 50" "hello.c has $lines lines, at most 50"
t -- build ++ "it builds without a warning"
t -- test -x "$LAB_BUILD/examples/hello" ++ "make has built it as well"
t -- hello :7470 10.9.0.2:7470 "one, two, three" ++ "it says hello over IPv4"
t -- hello '[fd09::2]:7470' '[fd09::2]:7470' "$(head -c 3000 /dev/zero | tr '\0' x)" ++ \
	"and 3000 bytes over IPv6"
t -- hello :7470 10.9.0.2:7470 "after strangers" 'GET /' "$REQUEST" "$REQUEST\x55" ++ \
	"strangers before do not keep it from listening"
t ! lab_in "$LAB_A" "$HELLO" client "$LAB_IF_A" 10.9.0.2:7470 x ++ "without a server it fails"
rc=0
"$HELLO" >/dev/null 2>&1 || rc=$?
t "rc == 2" "without arguments it tells how it is used"
tap_end
