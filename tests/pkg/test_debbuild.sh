#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# make deb, and what the packages say of themselves: lintian finds no fault. What they do when they are
# installed shows test_deb.sh, which makes them itself where this has not.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL
deb=$O/deb
version=$(sed -n 's/^VERSION := //p' Makefile)

# the unit tests, which the packages' build runs as well, are a suite of their own
build() {
	DEB_BUILD_OPTIONS="nocheck ${DEB_BUILD_OPTIONS:-}" make -s --no-print-directory \
		O="$(realpath --relative-to=. "$O")" deb
}
# The first is for uploads to Debian.
suppress=initial-upload-closes-no-bugs
compgen -G 'docs/man/*.[18]' >/dev/null || suppress+=,no-manual-page
faultless() {
	lintian --fail-on error,warning --suppress-tags "$suppress" --allow-root "$deb/weft_$version-1_"*.changes
}
makers() {
	diff <(echo "${DEBFULLNAME:-weft maintainers} <${DEBEMAIL:-maintainers@weft.invalid}>") \
		<(dpkg-deb -f "$deb/weft_$version-1_"*.deb Maintainer)
}
pathless() {
	local f
	for f in "$deb"/*.deb; do
		dpkg-deb --fsys-tarfile "$f" | grep -aqF "$PWD" && echo "$f"
	done
}

check "make deb" build
check "lintian finds neither error nor warning" faultless
check "whoever builds them, they are the project's" makers
check_none "no package has the path where it was built" pathless
tap_done
