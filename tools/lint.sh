#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Style checks over the tree, as TAP: lint.sh; lint.sh --fix applies clang-format.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8

# shellcheck source=tools/files.sh
. tools/files.sh
mapfile -t files < <(tree_files)
pick() { printf '%s\n' "${files[@]}" | grep -E "$1"; }
mapfile -t c_files < <(pick '\.[ch]$')
mapfile -t sh_files < <(
	for f in "${files[@]}"; do
		case $f in
		*.sh) echo "$f" ;;
		*) read -r first <"$f"; [[ ${first:-} == '#!'*bash* ]] && echo "$f" ;;
		esac
	done 2>/dev/null
)

if [ "${1:-}" = --fix ]; then
	clang-format -i "${c_files[@]}"
	exit
elif [ $# -gt 0 ]; then
	echo "usage: lint.sh [--fix]" >&2
	exit 2
fi

n=0 bad=0
# One test: $1 its name, standard input the complaints.
report() {
	local found

	found=$(cat)
	n=$((n + 1))
	if [ -z "$found" ]; then
		echo "ok $n - $1"
	else
		bad=$((bad + 1))
		echo "not ok $n - $1"
		head -n 60 <<<"$found" | sed 's/^/# /'
	fi
}

need() {
	command -v "$1" >/dev/null || echo "weft: lint: $1 is missing; run: apt-get install $2"
}

spdx() {
	local f want

	for f in $(pick '\.([chS]|sh|mk|map|in)$|(^|/)Makefile$|^\.ci/run$'); do
		case $f in
		bpf/* | *.bpf.c | *.bpf.h) want='SPDX-License-Identifier: GPL-2\.0( \*/)?$' ;;
		*) want='SPDX-License-Identifier: GPL-2\.0 OR BSD-2-Clause( \*/)?$' ;;
		esac
		head -n 2 "$f" | grep -Eq "$want" || echo "$f: no SPDX line: ${want%%(*}"
	done
}
too_long() {
	local f lines

	for f in $(pick '\.([chS]|sh|mk)$|(^|/)Makefile$'); do
		# the whole interface, and its reference
		[ "$f" != include/weft/weft.h ] || continue
		lines=$(wc -l <"$f")
		[ "$lines" -lt 500 ] || echo "$f: $lines lines; split it by subject"
	done
}
# The words are in two pieces so that this file does not find itself.
markers() {
	pick '\.([chS]|sh|mk|md|in)$|(^|/)Makefile$|^\.ci/run$' |
		xargs -r -d '\n' grep -nE '\b(TO''DO|FIX''ME|XX''X)\b'
}
exports() {
	[ -e "${O:-build}/libweft.so" ] || return
	nm -D --defined-only "${O:-build}/libweft.so" |
		awk '$2 != "A" && $3 !~ /^weft_/ { print "exported: " $3 }'
}
# The compiler checks printf formats better. Beyond cppcheck: LIST_HEAD without a name, LIST_FOREACH, and
# the difference of two linker symbols.
cpp_check() {
	need cppcheck cppcheck
	[ ${#c_files[@]} -gt 0 ] || return
	pick '^(user|tools|examples|tests)/.*\.c$' | grep -v '\.bpf\.c$' >"$tmp/list"
	[ -s "$tmp/list" ] || return
	cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,portability --inline-suppr \
		--suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro \
		--suppress=internalAstError --suppress=comparePointers --suppress=invalidPrintfArgType_uint \
		--suppress=invalidPrintfArgType_sint \
		-D'LIST_HEAD(n,t)=struct list_of_##t' -D'LIST_FOREACH(v,h,f)=while ((v = next_of(h)))' \
		-D__linux__ -D__x86_64__ -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
		-Iinclude -Iuser -Itests --max-configs=4 --file-list="$tmp/list" 2>&1
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

format() {
	need clang-format clang-format
	[ ${#c_files[@]} -eq 0 ] || clang-format --dry-run "${c_files[@]}" 2>&1 |
		sed -n 's/: warning: code should be clang-formatted.*//p'
}
shell() {
	need shellcheck shellcheck
	# it knows no threads, and is the slowest here
	printf '%s\0' "${sh_files[@]}" | xargs -0 -r -n 4 -P "$(nproc)" \
		shellcheck -x -S warning -s bash -f gcc 2>&1 | sort
}

# No pipes into report: it counts.
report "clang-format (make format puts it right)" < <(format)
report "shellcheck" < <(shell)
report "cppcheck" < <(cpp_check)
report "SPDX lines" < <(spdx)
report "files under 500 lines" < <(too_long)
report "no markers of unfinished work" < <(markers)
report "libweft.so exports weft_* alone" < <(exports)
echo "1..$n"
[ "$bad" -eq 0 ]
