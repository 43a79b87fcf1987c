#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Unpack a Debian arm64 root to build against and to run from under qemu-user: sysroot.sh [DIR].
#
# DIR is build/matrix/arm64-root by default. It gets the libraries of the lists in tools/packages.sh,
# by a state of apt of its own: neither the machine's architectures nor its lists of packages change,
# and no script of a package runs. Then:
#
#   make CROSS_COMPILE=aarch64-linux-gnu- SYSROOT=$PWD/build/matrix/arm64-root O=build/arm64
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tools/packages.sh
. tools/packages.sh

root=$(realpath -m "${1:-${O:-build}/matrix/arm64-root}")
fail() {
	[ ! -s "$root.log" ] || tail -n 20 "$root.log" >&2
	echo "weft: ${root##*/}: $1; $2" >&2
	exit 1
}

# Beside what weft links with: the C library, and what the tests' sanitizers need at run time.
want=(libc6-dev libasan8 libubsan1)
for pkg in "${PKGS_build[@]}" "${PKGS_tests[@]}"; do
	case $pkg in lib*-dev) want+=("$pkg") ;; esac
done
[ "$(cat "$root/.packages" 2>/dev/null)" != "${want[*]}" ] || exit 0

command -v apt-get >/dev/null || fail "there is no apt-get here" "use Debian"
tmp=$root.tmp
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf "$tmp" "$root"
mkdir -p "$tmp"/{lists,cache/archives}/partial "$tmp/root"
: >"$tmp/status"
apt=(apt-get -q -y -o "Dir::State=$tmp" -o "Dir::State::status=$tmp/status" -o "Dir::Cache=$tmp/cache"
	-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
	-o APT::Install-Recommends=false -o Acquire::Languages=none -o Acquire::Retries=3)
{
	"${apt[@]}" update && "${apt[@]}" install --download-only "${want[@]}"
} >"$root.log" 2>&1 </dev/null || fail "apt-get did not bring the arm64 packages" "see above"
for deb in "$tmp"/cache/archives/*.deb; do
	dpkg-deb -x "$deb" "$tmp/root" || fail "cannot unpack ${deb##*/}" "see above"
done
echo "${want[*]}" >"$tmp/root/.packages"
mv "$tmp/root" "$root" || exit 1
rm -f "$root.log"
