#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Fetch a Debian generic kernel into build/vm/linux-VERSION; nothing is installed. Prints its path.
#
# usage: fetch-kernel.sh [VERSION]      VERSION as in 6.1 (the default); O=DIR: build directory
#
# DIR/vm/linux-VERSION/ holds vmlinuz, config, release (the full version) and the few modules
# that the guest uses. A later call finds it there and needs no network; delete it to fetch anew.
set -euo pipefail

die() { echo "weft: kernel $want: $1; $2" >&2; exit 1; }

want=${1:-6.1}
top=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${O:-$top/build}")/vm
dir=$out/linux-$want
members=('./boot/vmlinuz-*' './boot/config-*' './lib/modules/*/modules.*')
for module in drivers/net/veth drivers/net/tun net/sched/sch_ingress net/sched/cls_bpf; do
	members+=("./lib/modules/*/kernel/$module.ko*")
done

[[ $want =~ ^[0-9]+\.[0-9]+$ ]] || die "not a kernel version" "name one like 6.1"

if [ -e "$dir/members" ] && [ "$(cat "$dir/members")" = "${members[*]}" ]; then
	echo "$dir"
	exit 0
fi

# The generic flavour only: -cloud has fewer drivers, -rt takes spin locks differently.
package=$(apt-cache pkgnames "linux-image-$want." |
	grep -E "^linux-image-${want//./\\.}\.[0-9]+-[0-9]+-amd64$" | sort -V | tail -n 1) || true
[ -n "$package" ] ||
	die "apt knows no generic amd64 package of it" "run 'apt-get update' on Debian 12"

mkdir -p "$out"
work=$(mktemp -d "$out/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

options=()
[ "$(id -u)" -ne 0 ] || options=(-o APT::Sandbox::User=root)
(cd "$work" && apt-get -qq "${options[@]}" download "$package" >&2) ||
	die "download of $package failed" "run 'apt-get update' and check the network"

mkdir "$work/root" "$work/done"
dpkg-deb --fsys-tarfile "$work"/"$package"_*.deb |
	tar -x -C "$work/root" --wildcards "${members[@]}"
release=$(ls "$work/root/lib/modules")
mv "$work/root/boot/vmlinuz-$release" "$work/done/vmlinuz"
mv "$work/root/boot/config-$release" "$work/done/config"
mv "$work/root/lib" "$work/done/lib"
find "$work/done/lib" -name '*.ko.xz' -exec unxz {} +
depmod=$(PATH=$PATH:/usr/sbin:/sbin command -v depmod) ||
	die "depmod is missing" "apt-get install kmod"
"$depmod" -b "$work/done" "$release"
echo "$release" > "$work/done/release"
echo "${members[*]}" > "$work/done/members"

rm -rf "$dir"
mv "$work/done" "$dir"
echo "$dir"
