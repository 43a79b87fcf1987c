#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Probe the machine once: probe.sh build FILE writes FILE for make; probe.sh tests only checks.
set -u
# shellcheck source=tools/packages.sh
. "$(dirname "$0")/../tools/packages.sh"

case ${1:-} in
build) missing=$(pkg_missing "${PKGS_build[@]}") ;;
tests) missing=$(pkg_missing "${PKGS_tests[@]}") ;;
*)
	echo "usage: probe.sh build FILE | probe.sh tests" >&2
	exit 2
	;;
esac
if [ -n "$missing" ]; then
	echo "weft: build: missing $missing; run: apt-get install ${missing//,/}" >&2
	exit 1
fi
[ "$1" = tests ] && exit 0

# Without llvm-strip the object keeps its DWARF; it is larger and works as well.
cat >"${2:?}" <<CONFIG
# Made by mk/probe.sh; remove this file to probe again.
BPFTOOL := $(command -v bpftool)
LLVM_STRIP := $(command -v llvm-strip)
CLANG_MAJOR := $("${CLANG:-clang}" -dumpversion | cut -d. -f1)
BPF_SYSINC := ${SYSROOT:-}/usr/include/$("${CC:-gcc}" -dumpmachine | sed 's/-\(pc\|unknown\)-/-/')
CONFIG
