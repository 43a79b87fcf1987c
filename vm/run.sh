#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Boot a Debian kernel under QEMU without KVM, run vm/guest.sh inside, and print its results as TAP.
#
# usage: run.sh [--kernel VERSION] [--timeout SECONDS] [--script FILE] [FILE...]
#
#   --kernel VERSION   Debian kernel to boot, default 6.1
#   --timeout SECONDS  limit for boot and run together, default 800
#   --script FILE      run this in the guest instead of vm/guest.sh
#   FILE...            copied to /weft/extra in the guest
#
# O=DIR is the build directory (build). Exit status: 0 when everything passed, 1 otherwise, 2 for
# usage, 130 when interrupted. The guest's kernel log stays in build/vm/console.log, and in
# build/vm/verifier.txt a line for every program: object, name, instructions, instructions walked.
set -u

usage() { sed -n '5,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${O:-$top/build}")
export O=$build
# shellcheck source=vm/lib.sh
. "$top/vm/lib.sh"
version=6.1 limit=800 script='' extra=()

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

vm_begin "$version"

guest=vm/guest.sh
if [ -n "$script" ]; then
	guest=extra/$(basename "$script")
	extra+=("$script")
fi

work=$(mktemp -d "$vm/run.XXXXXX")
# shellcheck disable=SC2317 # called by the trap
finish() {
	vm_stop
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$top/vm/mkinitrd.sh" "$vm_kernel" "$work/initrd" "${extra[@]}" || exit 1

: > "$vm/verifier.txt"
vm_command console.log 2 2048 "$work/initrd" "weft.script=$guest"
vm_boot "the guest" "$limit"
vm_relay
vm_finish "the guest"
vm_end "vm/run.sh --kernel $version${script:+ --script $script}" "$vm_console"
