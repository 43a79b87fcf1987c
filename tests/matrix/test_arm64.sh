#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Cross-build everything for arm64, run its unit tests and a little of its simulator under qemu-user.
# The Debian root of tests/matrix/sysroot.sh and what is built stay in build/matrix.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL
root=$O/matrix/arm64-root arm=$O/matrix/arm64

build() {
	make --no-print-directory -j"$(nproc)" WERROR=1 CROSS_COMPILE=aarch64-linux-gnu- \
		SYSROOT="$root" O="$arm" fast-tests
}
# Programs and libraries that are for another machine, and how many there are.
strangers() {
	local f n=0
	for f in "$arm"/weft "$arm"/weft-* "$arm"/wirelab "$arm"/libweft.so "$arm"/examples/* \
		"$arm"/tests/*/*; do
		case $f in *.d) continue ;; esac
		n=$((n + 1))
		readelf -h "$f" | grep -q 'Machine:.*AArch64' || echo "$f: not for arm64"
	done
	[ "$n" -gt 20 ] || echo "only $n programs"
}
# The system headers differ, the programs for the kernel must not: what tests show holds for both.
same_bpf() {
	local f
	for f in "$arm"/*.bpf.o; do
		cmp "$O/$(basename "$f")" "$f" || return
	done
	[ -e "$arm/weft.bpf.o" ]
}
# LeakSanitizer needs ptrace, which qemu-user has not.
emulate() {
	ASAN_OPTIONS=detect_leaks=0 timeout 600 qemu-aarch64-static -L "$root" "$@"
}
version() {
	[ "$(emulate "$arm/weft" -V)" = "$("$O/weft" -V)" ]
}
# Run each command line of standard input, as many at once as there are CPUs; ended tells of number $1.
run_all() {
	local n=0 line
	while read -r line; do
		n=$((n + 1))
		while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do wait -n; done
		# shellcheck disable=SC2086 # words of a command
		{ emulate $line; echo "$?" >"$tmp/$n.status"; } >"$tmp/$n.out" 2>&1 </dev/null &
	done
	wait
}
ended() {
	cat "$tmp/$1.out"
	[ "$(cat "$tmp/$1.status")" -eq 0 ]
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp" "$TAP_OUT"' EXIT
# The emulators that are running are children of background jobs.
stop() {
	local job
	for job in $(jobs -pr); do pkill -TERM -P "$job"; done
	exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
names=()
check "an arm64 root" tests/matrix/sysroot.sh "$root"
if check "everything builds for arm64 without a warning" build; then
	check_none "all programs are for arm64" strangers
	check "the BPF objects are the same bytes as on this machine" same_bpf
	check "weft -V says the same as on this machine" version
	for test in "$arm"/tests/unit/*; do
		case $test in *.d) continue ;; esac
		names+=("unit/${test##*/}")
		echo "$test" >>"$tmp/list"
	done
	for seed in 1 2 3 4; do
		names+=("simulator, seed $seed,")
		echo "$arm/tests/sim/weft-sim --seed $seed" >>"$tmp/list"
	done
	run_all <"$tmp/list"
	for i in "${!names[@]}"; do
		check "${names[i]} under qemu-user" ended $((i + 1))
	done
fi
tap_done
