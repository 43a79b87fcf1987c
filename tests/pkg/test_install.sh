#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# make install puts the same there each time, uninstall takes it all back and nothing else; what is
# installed is enough for an example that knows of nothing but pkg-config.
# shellcheck source-path=SCRIPTDIR source=pkg.sh source=../net/hello.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/pkg.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../net/hello.sh"
LIBDIR=/usr/lib/$(gcc -print-multiarch)

# modes, names, link targets and contents under a folder
tree() {
	(cd "$1" && find . -type l -printf 'l %P -> %l\n' -o -type f -printf '%m %P ' -exec sha256sum {} \; |
		sed 's/ [^ ]*$//; s/  *$//' | sort -k 2)
}
names() {
	(cd "$1" && find . ! -type d -printf '%P\n' | sort)
}

# build OUTPUT LIBRARY [PKG-CONFIG-FLAG [SOURCE]]: an example, away from the tree; LIBRARY in place of
# -lweft
build() {
	local flags
	flags=$(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config ${3:+"$3"} --cflags --libs libweft) || return
	# shellcheck disable=SC2086 # words are what pkg-config prints
	(cd "$LAB_TMP/away" && gcc -Wall -Werror -o "$1" "${4:-$1.c}" ${flags/-lweft/$2})
}

lab_begin
D=$LAB_TMP/a\ folder PREFIX=$LAB_TMP/prefix
staged=(DESTDIR="$D" PREFIX=/usr LIBDIR="$LIBDIR")
t -- weft_make install "${staged[@]}" ++ "make install into DESTDIR, with a blank in its name"
first=$(tree "$D")
t -- weft_make install "${staged[@]}" ++ "and once more"
t -- same "$first" "$(tree "$D")" ++ "which changes nothing"
t -- same "$({
	cat <<-FILES
		usr/bin/weft
		usr/include/weft/weft.h
		${LIBDIR#/}/bpf/weft.bpf.o
		${LIBDIR#/}/libweft.a
		${LIBDIR#/}/libweft.so
		${LIBDIR#/}/libweft.so.0
		${LIBDIR#/}/libweft.so.$(sed -n 's/^VERSION := //p' "$ROOT/Makefile")
		${LIBDIR#/}/pkgconfig/libweft.pc
		usr/share/bash-completion/completions/weft
		usr/lib/systemd/system/weftd.service
		usr/sbin/weftd
		usr/share/weft/weft.lua
		usr/share/weft/weftd.conf
	FILES
	(cd "$ROOT/docs/man" 2>/dev/null && find . -name '*.[1-8]' -printf '%f\n' |
		sed -E 's|.*\.(.)$|usr/share/man/man\1/&|')
} | LC_ALL=C sort)" "$(names "$D" | LC_ALL=C sort)" ++ "tool, daemon, library, header, object, completion and manual are there"
t -- empty "$(find "$D" -xtype l)" ++ "no link is broken"
t -- empty "$(find "$D" -type f -perm /111 ! -path '*/bin/weft' ! -path '*/sbin/weftd' ! -name '*.so.*'; find "$D" -perm /022 ! -type l)" ++ \
	"only programs can be executed, and nobody else may write"
t -- empty "$(grep -rlF "$LAB_TMP" "$D")" ++ "DESTDIR is not in any file"

touch "$D/usr/include/weft/theirs.h" "$D$LIBDIR/bpf/theirs.o"
t -- weft_make uninstall "${staged[@]}" ++ "make uninstall"
t -- same "usr/include/weft/theirs.h
${LIBDIR#/}/bpf/theirs.o" "$(names "$D")" ++ "leaves what others put there"
rm "$D/usr/include/weft/theirs.h" "$D$LIBDIR/bpf/theirs.o"
weft_make install "${staged[@]}" >/dev/null
weft_make uninstall "${staged[@]}"
t -- empty "$(find "$D" -type f -o -type l)" ++ "otherwise no file stays"
rm -rf "$D"
weft_make install "${staged[@]}" >/dev/null
weft_make uninstall "${staged[@]}"
t -- same "$D" "$(find "$D")" ++ "and no folder either"
t -- weft_make uninstall "${staged[@]}" ++ "uninstall of what is not there is no error"
says() {	# says TEXT COMMAND...: it fails, and that is among what it says
	local said
	! said=$("${@:2}" 2>&1) && grep -qE -- "$1" <<<"$said" || { echo "$said"; return 1; }
}
t -- says 'demo: .*run it as root' setpriv --reuid 65534 --regid 65534 --clear-groups \
	"$ROOT/tools/install-deps.sh" demo ++ "make demo without root says before the build that it needs it"
for x in fuzz\ TIME drill\ SECS sim\ SEEDS; do
	# shellcheck disable=SC2086 # two words
	t -- says "${x#* }=1m is no whole number" weft_make -n $x=1m ++ "make $x=1m is refused at once"
done

# an installation in use
t -- weft_make install PREFIX="$PREFIX" ++ "make install into a PREFIX"
mkdir "$LAB_TMP/away"
cp "$ROOT"/examples/*.[ch] "$LAB_TMP/away"
t -- same "$("$PREFIX/bin/weft" -V | sed 's/^weft \([^,]*\),.*/\1/')" \
	"$(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config --modversion libweft)" ++ \
	"pkg-config and the tool tell the same version"
for x in "$ROOT"/examples/*.c; do
	x=$(basename "$x" .c)
	t -- build "$x" -lweft ++ "example $x builds with what pkg-config says"
done
t -- build hello-static -l:libweft.a --static hello.c ++ "hello also with the static library"
lab_pair 3498
export LD_LIBRARY_PATH=$PREFIX/lib
HELLO=$LAB_TMP/away/hello
t -- same "$PREFIX/lib/libweft.so.0" "$(ldd "$HELLO" | awk '$1 ~ /libweft/ { print $3 }')" ++ \
	"it finds the installed library"
t -- hello :7470 10.9.0.2:7470 "by the shared library" ++ "the example writes into another host's memory"
unset LD_LIBRARY_PATH
HELLO=$LAB_TMP/away/hello-static
t -- empty "$(ldd "$HELLO" | grep libweft)" ++ "the static one needs no installed library"
t -- hello :7470 10.9.0.2:7470 "by the static library" ++ "and does the same"

# the object: the distribution's libxdp looks where LIBDIR of the distribution puts it
cat >"$LAB_TMP/find.c" <<'C'
#include <stdio.h>
#include <xdp/libxdp.h>

int main(void)
{
	return !!libxdp_get_error(xdp_program__find_file("weft.bpf.o", "xdp", NULL));
}
C
t -- gcc -o "$LAB_TMP/find" "$LAB_TMP/find.c" -lxdp ++ "a program that has libxdp look for the object"
t -- env LIBXDP_OBJECT_PATH="$PREFIX/lib/bpf" "$LAB_TMP/find" ++ "finds it where LIBXDP_OBJECT_PATH says"
t -- grep -aqF "$LIBDIR/bpf" "$LIBDIR/libxdp.so.1" ++ "libxdp by itself looks in $LIBDIR/bpf"
weft_make uninstall PREFIX="$PREFIX"
t -- same "bin include lib sbin share share/man" "$(cd "$PREFIX" && find . -mindepth 1 -printf '%P\n' | sort | xargs)" ++ \
	"uninstall leaves a PREFIX as it was, but for the folders that every system has"
tap_end
