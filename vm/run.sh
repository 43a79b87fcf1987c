#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Boot a Debian kernel under QEMU without KVM, run vm/guest.sh inside, and print its results as TAP.
#
# usage: run.sh [--kernel VERSION] [--timeout SECONDS] [--script FILE] [FILE...]
#
#   --kernel VERSION   Debian kernel to boot, default 6.1
#   --timeout SECONDS  limit for boot and run together, default 230
#   --script FILE      run this in the guest instead of vm/guest.sh
#   FILE...            copied to /weft/extra in the guest
#
# O=DIR is the build directory (build). Exit status: 0 when everything passed, 1 otherwise, 2 for
# usage, 130 when interrupted. The guest's kernel log stays in build/vm/console.log, and in
# build/vm/verifier.txt a line for every program: object, name, instructions, instructions walked.
set -u

die() { echo "weft: vm: $1; $2" >&2; exit 1; }
usage() { sed -n '5,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${O:-$top/build}")
export O=$build
vm=$build/vm
version=6.1 limit=230 script='' extra=()

while [ $# -gt 0 ]; do
	case $1 in
	--kernel | --timeout | --script) [ $# -ge 2 ] || usage ;;&
	--kernel) version=$2; shift ;;
	--timeout) limit=$2; shift ;;
	--script) script=$2; shift ;;
	-*) usage ;;
	*) extra+=("$1") ;;
	esac
	shift
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || usage

qemu=$(command -v qemu-system-x86_64) ||
	die "qemu-system-x86_64 is missing" "apt-get install qemu-system-x86"

mkdir -p "$vm"
if [ ! "$vm/progload" -nt "$top/vm/progload.c" ]; then
	${CC:-cc} -O2 -Wall -o "$vm/progload" "$top/vm/progload.c" -lbpf ||
		die "vm/progload.c does not compile" "apt-get install gcc libbpf-dev"
fi
kernel=$("$top/vm/fetch-kernel.sh" "$version") || exit 1

guest=vm/guest.sh
if [ -n "$script" ]; then
	guest=extra/$(basename "$script")
	extra+=("$script")
fi

work=$(mktemp -d "$vm/run.XXXXXX")
pid=
# shellcheck disable=SC2317 # called by the trap
finish() {
	[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$top/vm/mkinitrd.sh" "$kernel" "$work/initrd" "${extra[@]}" || exit 1

# Two serial ports: the kernel's console goes to a file, the second carries the results to us.
# A crash panics, a panic reboots, and a reboot ends QEMU. QEMU gets an end of its own (timeout)
# and the end of this script (--pdeathsig), so it cannot outlive either.
console=$vm/console.log
: > "$console"
: > "$vm/verifier.txt"
command=("$qemu" -accel "tcg,thread=multi" -cpu max -smp 2 -m 2048 -M q35
	-nodefaults -display none -no-reboot -no-user-config
	-device "isa-debug-exit,iobase=0xf4,iosize=1"
	-serial "file:$console" -chardev "stdio,id=results,signal=off" -serial chardev:results
	-kernel "$kernel/vmlinuz" -initrd "$work/initrd"
	-append "console=ttyS0 loglevel=7 oops=panic panic=-1 watchdog_thresh=30 weft.script=$guest")
start=$EPOCHREALTIME
exec {results}< <(exec setpriv --pdeathsig TERM timeout -k 5 "$limit" "${command[@]}" < /dev/null)
pid=$!

count=0 bad=0
report() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		bad=$((bad + 1))
	fi
}

while IFS= read -r line <&"$results"; do
	case $line in
	"ok "*) count=$((count + 1)) ;;
	"not ok "*) count=$((count + 1)) bad=$((bad + 1)) ;;
	"# verifier: "*) echo "${line#\# verifier: }" >> "$vm/verifier.txt" ;;
	esac
	printf '%s\n' "$line"
done
wait "$pid"
status=$?
pid=
seconds=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000000))

# init.sh ends QEMU with 2 (S + 16) + 1 where S is the guest script's status.
guest_status=$(((status >> 1) - 16))
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
	report 1 "the guest finishes within $limit s"
elif [ $((status & 1)) -eq 1 ] && [ "$guest_status" -ge 0 ]; then
	report "$guest_status" "the guest finishes with status $guest_status ($seconds s)"
else
	report 1 "the guest finishes (QEMU ended with status $status)"
fi
marks='BUG:|WARNING:|Oops|Kernel panic|Call Trace:'
grep -q 'Linux version' "$console" && ! grep -Eq "$marks" "$console"
report $? "the guest's kernel log has no BUG, WARNING or Oops"
echo "1..$count"

if [ "$bad" -ne 0 ]; then
	echo "# the last lines of $console:"
	tail -n 40 "$console" | tr -d '\r' | sed 's/^/# /'
	echo "# replay: O=$O vm/run.sh --kernel $version${script:+ --script $script}"
	exit 1
fi
exit 0
