#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The packages of test_debbuild.sh: in a Debian of their own that has nothing but what they depend
# on they install, write into a stopped process's memory on another host, build and run the
# examples, and purge without a trace.
#
#   PKG_ROOT=FOLDER test_deb.sh    # in that root, such as mmdebstrap makes, instead of one made here
# shellcheck source-path=SCRIPTDIR
set -u
# shellcheck source=pkg.sh
. "$(dirname "${BASH_SOURCE[0]}")/pkg.sh"
# shellcheck source=root.sh
. "$(dirname "${BASH_SOURCE[0]}")/root.sh"
# shellcheck source=../net/hello.sh
. "$(dirname "${BASH_SOURCE[0]}")/../net/hello.sh"
DEB=$LAB_BUILD/deb
R=${PKG_ROOT:-}

# A program that runs its arguments in the root, in this shell's network; its pid is theirs. Mounts
# are its own and end with it.
in_root_program() {
	mkdir -p "$R/run/netns"
	cat >"$LAB_TMP/in-root" <<-SH
		#!/bin/sh
		exec unshare --mount --propagation private sh -ec '
		for d in dev proc sys run/netns; do mount --rbind "/\$d" "$R/\$d"; done
		exec chroot "$R" env LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin "\$@"' in-root "\$@"
	SH
	chmod +x "$LAB_TMP/in-root"
}
# The files of the root, but for logs, caches and what dpkg knows.
files() {
	(cd "$R" && find . \( -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./tmp \
		-o -path ./etc/ld.so.cache \) -prune -o -printf '%P %m %l\n' | sort)
}
installed() {
	"$LAB_TMP/in-root" dpkg-query -W -f '${Package}\n' | sort
}
with_debs() {	# with_debs DPKG-ARGUMENTS... -- PACKAGE...
	local args=()
	while [ "$1" != -- ]; do args+=("$1") && shift; done
	for p in "${@:2}"; do
		cp "$DEB/${p}_$VERSION-1_"*.deb "$R/tmp" && args+=("/tmp/$(basename "$DEB/${p}_$VERSION-1_"*.deb)")
	done
	"$LAB_TMP/in-root" dpkg "${args[@]}"
}

# What the demo shows: the receiver is stopped while its memory is written, and uses no time. It is
# stopped once data flows: before, the client waits for its answers. Where a slow machine is not done with
# that in the client's time, it has more.
demo() {
	demo_for 3 || demo_for 12 || demo_for 50
}
demo_for() {	# SECONDS
	local server client rc=0
	lab_spawn "$LAB_TMP/in-root" weft -n "$LAB_B" -j perf server "$LAB_IF_B" >"$LAB_TMP/server"
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/server" ready "$server" || return
	lab_spawn "$LAB_TMP/in-root" weft -n "$LAB_A" -j perf write "$LAB_IF_A" 10.9.0.2 --time "$1" --verify \
		>"$LAB_TMP/client"
	client=$LAB_SPAWNED
	stopped "$server" "$client" || rc=1
	kill -CONT "$server"
	lab_wait "$client" || rc=1
	cat "$LAB_TMP/client"
	jq -e '.verified and .errors == 0 and .bytes > 0' "$LAB_TMP/client" || rc=1
	lab_stop "$server"
	return $rc
}
stopped() {
	local before from
	moves "$2" 0 || return
	freeze "$1" || return
	before=$(cpu_ticks "$1")
	from=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	moves "$2" "$from" || return
	echo "its time, in 1/100 s: $before before, $(cpu_ticks "$1") after"
	[ "$before" = "$(cpu_ticks "$1")" ]
}

# moves CLIENT FROM: so many packets, and 1000 more, before the client ends
moves() {
	until_true 60 eval "ended $1 || sent_more $(($2 + 1000))"
	sent_more $(($2 + 1000))
}

lab_begin
VERSION=$(sed -n 's/^VERSION := //p' "$ROOT/Makefile")
# shellcheck source=../../tools/files.sh
. "$ROOT/tools/files.sh"
# Is no file of the tree newer than the packages?
fresh() {
	(cd "$ROOT" && tree_files | tr '\n' '\0' | xargs -0 sh -c 'find "$@" -newer "$0"' \
		"$DEB/weft_$VERSION-1_"*.changes) >"$LAB_TMP/newer" 2>&1 && [ ! -s "$LAB_TMP/newer" ]
}
fresh || t -- env O="$LAB_BUILD" "$ROOT/tests/pkg/test_debbuild.sh" ++ "test_debbuild.sh makes the packages"

if [ -z "$R" ]; then
	R=$LAB_TMP/root
	t -- root_begin "$R" ++ "a root with nothing but the essential packages"
	in_root_program
	t ! with_debs -i -- weft ++ "there the tool is refused: its dependencies are missing"
	"$LAB_TMP/in-root" dpkg --purge weft >/dev/null 2>&1
	# shellcheck disable=SC2046 # names
	t -- root_add "$R" $(dpkg-deb -f "$DEB/libweft0_$VERSION-1_"*.deb Depends | sed 's/([^)]*)//g; s/,/ /g') \
		$(dpkg-deb -f "$DEB/weft_$VERSION-1_"*.deb Depends | sed 's/([^)]*)//g; s/,/ /g') ++ "they are added"
	root_add_dev() {
		# shellcheck disable=SC2046 # names
		root_add "$R" gcc pkgconf \
			$(dpkg-deb -f "$DEB/libweft-dev_$VERSION-1_"*.deb Depends | sed 's/([^)]*)//g; s/,/ /g; s/libweft0//')
	}
else
	in_root_program
	root_add_dev() { "$LAB_TMP/in-root" gcc --version; }
fi
lab_pair 3498
before=$(files) packages=$(installed)
t -- with_debs -i -- libweft0 weft ++ "library and tool install"
t -- same "weft $VERSION" "$("$LAB_TMP/in-root" weft -V | cut -d, -f1)" ++ "the tool runs"
t -- demo ++ "it writes into the memory of a stopped process on another host, every byte right"
t -- "$LAB_TMP/in-root" dpkg --verify weft libweft0 ++ "nothing of the packages was changed by that"
t -- with_debs -i -- libweft0 weft ++ "they install over themselves"
t -- "$LAB_TMP/in-root" dpkg --purge weft libweft0 ++ "and purge"
t -- same "$before" "$(files)" ++ "no file is left"
t -- same "$packages" "$(installed)" ++ "nor a package"

t -- root_add_dev ++ "a compiler, and what the development files depend on"
before=$(files) packages=$(installed)
t -- with_debs -i -- libweft0 libweft-dev ++ "the development files install"
mapfile -t examples < <(cd "$ROOT/examples" && ls ./*.c)
# shellcheck disable=SC2016 # for that shell
t -- "$LAB_TMP/in-root" sh -ec 'cd /usr/share/doc/libweft-dev/examples
for x; do
	gcc -Wall -Werror -o "/tmp/${x%.c}" "$x" $(pkg-config --cflags --libs libweft)
done' sh "${examples[@]}" ++ "the examples build from the package alone"
cat >"$LAB_TMP/hello" <<SH
#!/bin/sh
exec "$LAB_TMP/in-root" /tmp/hello "\$@"
SH
chmod +x "$LAB_TMP/hello"
HELLO=$LAB_TMP/hello
t -- hello :7470 10.9.0.2:7470 "from a package" ++ "and writes into another host's memory"
t -- "$LAB_TMP/in-root" dpkg --purge libweft-dev libweft0 ++ "they purge"
t -- same "$before" "$(files)" ++ "no file is left"
t -- same "$packages" "$(installed)" ++ "nor a package"
tap_end
