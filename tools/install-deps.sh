#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Install what a job needs and this Debian lacks: install-deps.sh [build|demo|check|bench|bench-vm|deb].
set -u
# shellcheck source=tools/packages.sh
. "$(dirname "$0")/packages.sh"

job=${1:-check}
case $job in
build) want=("${PKGS_build[@]}") ;;
demo) want=("${PKGS_demo[@]}") ;;
check) want=("${PKGS_check[@]}") ;;
bench) want=("${PKGS_bench[@]}") ;;
bench-vm) want=("${PKGS_bench_vm[@]}") ;;
deb) want=("${PKGS_deb[@]}") ;;
*)
	echo "usage: install-deps.sh [build|demo|check|bench|bench-vm|deb]" >&2
	exit 2
	;;
esac

# before a long build, not after it
case $job in
demo | check | bench)
	if [ "$(id -u)" -ne 0 ]; then
		echo "weft: $job: makes network namespaces and loads XDP programs; run it as root" >&2
		exit 1
	fi
	;;
esac

missing=$(pkg_missing "${want[@]}")
[ -z "$missing" ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "weft: $job: missing $missing; run as root: apt-get install ${missing//,/}" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "weft: $job: missing $missing; install what provides these Debian packages" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export DEBIAN_FRONTEND=noninteractive
echo "weft: $job: installing $missing" >&2
# shellcheck disable=SC2086 # a list of package names
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends ${missing//,/}; } \
	>"$log" 2>&1 </dev/null; then
	tail -n 20 "$log" >&2
	echo "weft: $job: apt-get could not install $missing; see its messages above" >&2
	exit 1
fi
missing=$(pkg_missing "${want[@]}")
if [ -n "$missing" ]; then
	echo "weft: $job: still missing after the installation: $missing; install by hand" >&2
	exit 1
fi
