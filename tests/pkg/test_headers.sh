#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Every header that is installed compiles alone, as C and as C++, strictly; so do programs with it.
# shellcheck source-path=SCRIPTDIR source=pkg.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/pkg.sh"
STRICT=(-Wall -Wextra -pedantic-errors -Werror -I"$ROOT/include")

# alone HEADER COMPILER LANGUAGE STD...: twice, so that its guard is there
alone() {
	local header=$1 cc=$2 lang=$3 std
	for std in "${@:4}"; do
		printf '#include <%s>\n' "$header" "$header" |
			"$cc" -x "$lang" -std="$std" "${STRICT[@]}" -fsyntax-only - || return
	done
}

# program COMPILER FLAGS...: built from standard input, it runs
program() {
	"$@" "${STRICT[@]}" -o "$LAB_TMP/program" - -x none "$LAB_BUILD/libweft.so" &&
		LD_LIBRARY_PATH=$LAB_BUILD "$LAB_TMP/program"
}

lab_begin
weft_make install DESTDIR="$LAB_TMP/root" PREFIX=/usr >"$LAB_TMP/install.out" 2>&1
mapfile -t headers < <(cd "$LAB_TMP/root/usr/include" && find . -name '*.h' -printf '%P\n')
note "$(<"$LAB_TMP/install.out")"
t "${#headers[@]} > 0" "headers are installed: ${headers[*]}"
for h in "${headers[@]}"; do
	for cc in gcc clang; do
		t -- alone "$h" "$cc" c c99 c11 c17 c2x gnu11 ++ "$h is C for $cc"
	done
	for cc in g++ clang++; do
		t -- alone "$h" "$cc" c++ c++11 c++14 c++17 c++20 ++ "$h is C++ for $cc"
	done
done

cat >"$LAB_TMP/use.c" <<'C'
#include <weft/weft.h>

int main(void)
{
	struct weft_dev *dev = NULL;
	int err = weft_open("", WEFT_OPTS(struct weft_open_opts, .port = 4794), &dev);

	return !(err < 0 && !dev && weft_strerror_last()[0]);
}
C
cat >"$LAB_TMP/use.cc" <<'C'
#include <weft/weft.h>

int main()
{
	weft_open_opts opts{};
	weft_dev *dev = nullptr;

	opts.size = sizeof(opts);
	int err = weft_open("", &opts, &dev);
	return !(err < 0 && !dev && weft_strerror_last()[0]);
}
C
for cc in gcc clang; do
	t -- program "$cc" -x c -std=c99 ++ "a C program of $cc opens with WEFT_OPTS" <"$LAB_TMP/use.c"
done
for cc in g++ clang++; do
	t -- program "$cc" -x c++ -std=c++11 ++ "a C++ program of $cc links and runs" <"$LAB_TMP/use.cc"
done
tap_end
