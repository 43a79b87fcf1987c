# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash source-path=SCRIPTDIR source=../net/tap.sh
# What the tests of tests/pkg share: TAP lines and the laboratory, and an installation to look at.
. "$(dirname "${BASH_SOURCE[0]}")/../net/tap.sh"
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(realpath --relative-to="$ROOT" "$LAB_BUILD")
# make's own variables would steer the makes of the tests
unset MAKEFLAGS MFLAGS MAKELEVEL

weft_make() {	# weft_make TARGET [VARIABLE=VALUE...]
	make -s --no-print-directory -C "$ROOT" O="$BUILD" "$@"
}

# empty TEXT: nothing to complain about; else says it
empty() {
	[ -z "$1" ] || { echo "$1"; return 1; }
}

# same WANTED GOT: prints the difference
same() {
	diff <(echo "$1") <(echo "$2")
}
