#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Fetch a Debian generic kernel into build/vm/linux-VERSION; nothing is installed. Prints its path.
#
# usage: fetch-kernel.sh [VERSION]      VERSION as in 6.1 (the default); O=DIR: build directory
#
# DIR/vm/linux-VERSION/ holds vmlinux, config, release (the full version) and the few modules
# that the guest uses. A later call finds it there and needs no network; delete it to fetch anew.
set -euo pipefail

die() { echo "weft: kernel $want: $1; $2" >&2; exit 1; }

want=${1:-6.1}
top=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${O:-$top/build}")/vm
dir=$out/linux-$want
members=('./boot/vmlinuz-*' './boot/config-*' './lib/modules/*/modules.*')
for module in drivers/net/{veth,tun,virtio_net,net_failover} net/core/failover 'drivers/virtio/virtio*' \
	drivers/net/vmxnet3/vmxnet3 drivers/net/ethernet/intel/e1000/e1000 \
	net/sched/{sch_ingress,cls_bpf} \
	drivers/infiniband/{core/{ib_core,ib_uverbs},sw/rxe/rdma_rxe} net/ipv{4,6}/'*'udp_tunnel \
	crypto/crc32_generic arch/x86/crypto/crc32-pclmul; do
	members+=("./lib/modules/*/kernel/$module.ko*")
done

layout="vmlinux ${members[*]}"

# Unpack the kernel in a bzImage: an emulated CPU needs ten seconds for it. Offsets are those of
# Documentation/x86/boot.rst: setup_sects, payload_offset, payload_length. Behind a payload stand
# four bytes with the length that it unpacks to.
unpack() {
	local setup offset length start tool
	setup=$(od -An -tu1 -j497 -N1 "$1")
	read -r offset length < <(od -An -tu4 -j584 -N8 "$1")
	start=$(((setup + 1) * 512 + offset))
	case $(od -An -tx4 -j"$start" -N4 "$1") in
	*587a37fd) tool=xz ;;
	*fd2fb528) tool=zstd ;;
	*) die "it is packed in a way that this script does not know" "see fetch-kernel.sh" ;;
	esac
	command -v $tool > /dev/null || die "$tool is missing" "run tools/install-deps.sh check"
	head -c "$((start + length - 4))" "$1" | tail -c "$((length - 4))" | $tool -dc
}

[[ $want =~ ^[0-9]+\.[0-9]+$ ]] || die "not a kernel version" "name one like 6.1"

if [ -e "$dir/members" ] && [ "$(cat "$dir/members")" = "$layout" ]; then
	echo "$dir"
	exit 0
fi

# The generic flavour only: -cloud has fewer drivers, -rt takes spin locks differently. Later kernels
# than the distribution's own come with a suffix (6.12.7+deb12), as updates or from its backports.
package=$(apt-cache pkgnames "linux-image-$want." |
	grep -E "^linux-image-${want//./\\.}\.[0-9]+(-[0-9]+|\+[a-z0-9.]+)-amd64$" | sort -V | tail -n 1) || true
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
unpack "$work/root/boot/vmlinuz-$release" > "$work/done/vmlinux"
mv "$work/root/boot/config-$release" "$work/done/config"
mv "$work/root/lib" "$work/done/lib"
find "$work/done/lib" -name '*.ko.xz' -exec unxz {} +
depmod=$(PATH=$PATH:/usr/sbin:/sbin command -v depmod) ||
	die "depmod is missing" "apt-get install kmod"
"$depmod" -b "$work/done" "$release"
echo "$release" > "$work/done/release"
echo "$layout" > "$work/done/members"

rm -rf "$dir"
mv "$work/done" "$dir"
echo "$dir"
