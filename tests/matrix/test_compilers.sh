#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Build without a warning by every compiler of the matrix: user space by gcc and clang, BPF by clang
# 14, 16 and 19. Everything goes into build/matrix, which is kept.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL

build() {
	make --no-print-directory -j"$(nproc)" WERROR=1 "$@"
}
# Is every program and library of folder $1 of compiler $2, by what it says in .comment?
made_by() {
	local f
	for f in "$1/weft" "$1/libweft.so" "$1/examples/hello"; do
		readelf -p .comment "$f" | grep -q "$2" || { echo "$f: not by $2"; return 1; }
	done
}
bpf_objects() {
	local f objects=()
	for f in bpf/*.bpf.c tests/net/*.bpf.c; do
		objects+=("$O/matrix/bpf$1/$(basename "$f" .c).o")
	done
	build CLANG="clang-$1" O="$O/matrix/bpf$1" "${objects[@]}"
}

check "gcc builds all without a warning" build CC=gcc O="$O/matrix/gcc" all
check "that is gcc's" made_by "$O/matrix/gcc" GCC:
check "clang builds all without a warning" build CC=clang O="$O/matrix/clang" all
check "that is clang's" made_by "$O/matrix/clang" 'clang version'
for version in 14 16 19; do
	check "clang $version builds the BPF objects without a warning" bpf_objects "$version"
done
tap_done
