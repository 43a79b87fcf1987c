#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Build the guest's root file system, an initramfs: busybox, some real tools, this tree's build.
#
# usage: mkinitrd.sh KERNEL-DIR OUT [EXTRA-FILE...]
#
# KERNEL-DIR comes from fetch-kernel.sh; O=DIR is the build directory. The tree appears in the guest
# as /weft (build/, tests/net/, vm/), EXTRA-FILEs in /weft/extra. Everything is copied: the guest
# needs no disk and no shared directory, cannot touch the host, and sees one consistent build.
# Not compressed: inflating it under emulation costs more than loading it.
set -euo pipefail
shopt -s nullglob

die() { echo "weft: initramfs: $1; $2" >&2; exit 1; }

[ $# -ge 2 ] || { echo "usage: mkinitrd.sh KERNEL-DIR OUT [EXTRA-FILE...]" >&2; exit 2; }
kernel=$1 out=$(realpath -m "$2")
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${O:-$top/build}")
PATH=$PATH:/usr/sbin:/sbin

# Tools whose busybox twin is missing or too weak; the rest comes from busybox.
required=(bash bpftool comm dmesg ethtool ip mount nsenter ping ss sysctl tc timeout xdp-filter
	xdp-loader)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'die "line $LINENO of mkinitrd.sh failed" "see the message above"' ERR
trap 'exit 130' INT
trap 'exit 143' TERM

# Same layout as a merged /usr system, so that every library keeps its path.
mkdir -p "$root"/{proc,sys,dev,run,tmp,root,etc} "$root"/usr/{bin,sbin,lib,lib64}
for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done

# Copy one binary to a directory of the guest, and the libraries that it needs to where they were.
add_binary() {
	local lib
	mkdir -p "$root/$2"
	cp -Lf "$1" "$root/$2/"
	# In this tree: found through the rpath or LD_LIBRARY_PATH, see below.
	{ ldd "$1" 2>/dev/null || true; } | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p' | while read -r lib; do
		case $lib in "$top"/*) continue ;; esac
		[ ! -e "$root$lib" ] || continue
		mkdir -p "$root$(dirname "$lib")"
		cp -L "$lib" "$root$lib"
	done
}

busybox=$(command -v busybox) || die "busybox is missing" "apt-get install busybox-static"
! ldd "$busybox" >/dev/null 2>&1 || die "busybox is not static" "apt-get install busybox-static"
cp -L "$busybox" "$root/usr/bin/busybox"
"$busybox" --list | while read -r applet; do
	[ "$applet" = busybox ] || ln -s busybox "$root/usr/bin/$applet"
done
ln -s ../bin/busybox "$root/usr/sbin/modprobe"

for tool in "${required[@]}"; do
	path=$(type -P "$tool") || die "$tool is missing" "run tools/install-deps.sh check"
	rm -f "$root/usr/bin/$tool"
	add_binary "$path" usr/bin
done
# libxdp looks for its programs, the dispatcher among them, where the package has them.
for f in /usr/lib/*/bpf/xdp*.o; do
	mkdir -p "$root$(dirname "$f")"
	cp "$f" "$root$f"
done
# Debian's busybox shell prefers its own applets to what PATH finds, such as the real ip.
ln -sf bash "$root/usr/bin/sh"

cp -r "$kernel/lib/modules" "$root/usr/lib/"

mkdir -p "$root"/weft/{build,tests,vm,extra}
for f in "$build"/libweft.so*; do cp -a "$f" "$root/weft/build/"; done
for f in "$build"/*.bpf.o; do cp "$f" "$root/weft/build/"; done
for f in weft weft-reaper wirelab vm/progload; do
	[ ! -f "$build/$f" ] || add_binary "$build/$f" "$(dirname "weft/build/$f")"
done
mkdir "$root/weft/tests/net"
cp "$top"/tests/net/*.sh "$root/weft/tests/net/"
cp "$top"/vm/*.sh "$root/weft/vm/"
for f in "$@"; do
	[ -e "$f" ] || die "$f does not exist" "name a file that does"
	if [ -x "$f" ]; then add_binary "$f" weft/extra; else cp "$f" "$root/weft/extra/"; fi
done

echo 'root:x:0:0::/root:/bin/bash' > "$root/etc/passwd"
echo '127.0.0.1 localhost' > "$root/etc/hosts"
echo 'passwd: files
hosts: files' > "$root/etc/nsswitch.conf"
install -m 755 "$top/vm/init.sh" "$root/init"

mkdir -p "$(dirname "$out")"
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) > "$out.new"
mv "$out.new" "$out"
