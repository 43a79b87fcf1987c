#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Build the Debian packages from this tree, source and binary, into $O/deb: `make deb`.
#
# DEBFULLNAME and DEBEMAIL name who makes them, as with Debian's own tools; else it is the project.
# DEB_BUILD_OPTIONS as usual: nocheck leaves out the unit tests.
set -eu
cd "$(dirname "$0")/../.."
: "${VERSION:?run make deb}"
out=$(realpath -m "${O:-build}")/deb
src=$out/weft-$VERSION

die() {
	echo "weft: deb: $*" >&2
	exit 1
}

who=${DEBFULLNAME:-weft maintainers}
mail=${DEBEMAIL:-maintainers@weft.invalid}
# The last commit's time, or that of the newest file of a tree that came without git.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null ||
	find . -path ./build\* -prune -o -type f -printf '%T@\n' | sort -n | sed -n '$s/\..*//p')}
export SOURCE_DATE_EPOCH

rm -rf "$out"
mkdir -p "$src"
# shellcheck source=tools/files.sh
. tools/files.sh
tree_files | cpio -pdm --quiet "$src" || die "cannot copy the tree to $src; see above"
# The packaging is not part of what upstream is to Debian.
cp -r tools/deb "$out/debian"
rm -r "$src/tools/deb" "$out/debian/build.sh"
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
	-czf "$out/weft_$VERSION.orig.tar.gz" "weft-$VERSION"
mv "$out/debian" "$src/debian"
sed -i -e "s|@MAINTAINER@|$who <$mail>|" -e "s|@VERSION@|$VERSION|" \
	-e "s|@DATE@|$(date -R -u -d "@$SOURCE_DATE_EPOCH")|" \
	-e "s|@YEAR@|$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)|" "$src"/debian/{control,changelog,copyright}
if compgen -G 'docs/man/*.3' >/dev/null; then
	echo usr/share/man/man3 >>"$src/debian/libweft-dev.install"
fi
if compgen -G 'docs/man/*.[178]' >/dev/null; then
	printf 'usr/share/man/man%s\n' 1 7 8 >>"$src/debian/weft.install"
fi

# make's own variables would steer the make of the package.
unset MAKEFLAGS MFLAGS MAKELEVEL O VERSION
log=$out/build.log
if ! (cd "$src" && dpkg-buildpackage -us -uc -j"$(nproc)") >"$log" 2>&1 </dev/null; then
	tail -n 40 "$log" >&2
	die "dpkg-buildpackage failed; the whole log is $log"
fi
ls "$out"/*.deb
