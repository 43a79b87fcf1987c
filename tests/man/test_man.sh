#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The man pages say what there is: every call, type, constant and error of weft.h, every command and
# option of the tool's help, every name that docs/cli.md freezes, and nothing that there is not.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
man=${MAN_DIR:-docs/man}
# shellcheck source=tests/tap.sh
. tests/tap.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp" "$TAP_OUT"' EXIT
header=include/weft/weft.h

pages=() links=()
for f in "$man"/*.[1-8]; do
	if [ "$(head -c 3 "$f")" = .so ]; then links+=("$f"); else pages+=("$f"); fi
done
calls() { sed -n 's/^\t\t\(weft_[a-z_]*\);$/\1/p' user/libweft.map; }
# The page of a call, through its link.
page_of() {
	local f=$man/$1.3 to
	[ -f "$f" ] || return
	to=$(sed -n '1s/^\.so man3\///p' "$f")
	echo "$man/${to:-$1.3}"
}
text_of() { mandoc -Tascii -O width=400 "$@" | col -bx; }
section() { sed -n "/^$1/,/^[A-Z]/p" | sed '1d;/^[A-Z]/d'; }
# Read to the end: grep -q would leave the other side of a pipe with SIGPIPE, and pages are small.
has() { grep -e "$1" "${@:2}" >/dev/null; }
code() { ${CC:-gcc} -fpreprocessed -dD -E -P "$header" | sed '/^#/d'; }

lint() {
	mandoc -Tlint "$1" 2>&1 | grep -v -e 'referenced manual not found' -e 'outdated mandoc.db'
}
cross_references() {
	local f name number
	for f in "${pages[@]}"; do
		sed -n 's/^\.\(It \)\{0,1\}Xr \(weft[^ ]*\) \([1-8]\).*/\2 \3/p' "$f" | while read -r name number; do
			[ -f "$man/$name.$number" ] || echo "$f: there is no $name($number)"
		done
	done
}
# Two sorted lists that must be the same: $1 is of the pages, $2 is the truth, $3 what that is.
compare() {
	comm -13 "$1" "$2" | sed "s|\$|: in $3, not in the pages|"
	comm -23 "$1" "$2" | sed "s|\$|: in the pages, not in $3|"
	[ "$(wc -l <"$2")" -ge "${4:-1}" ] || echo "$3: only $(wc -l <"$2") found"
}
every_call_has_a_page() {
	local call page
	calls | while read -r call; do
		page=$(page_of "$call")
		if [ ! -f "$page" ]; then
			echo "$call: no page"
		elif ! has "^\.Nm $call\b" "$page"; then
			echo "$call: not among the names of $page"
		elif ! sed -n '/^\.Sh DESCRIPTION/,/^\.Sh [^D]/p' "$page" | has "Fn $call\b"; then
			echo "$call: $page does not describe it"
		elif ! has "Fn $call\b" "$man/weft.3"; then
			echo "$call: not in the list of weft(3)"
		fi
	done
}
every_page_is_of_calls() {
	calls | sort >"$tmp/truth"
	for f in "${links[@]}"; do basename "$f" .3; done | sort >"$tmp/links"
	cat "$man"/weft_*.3 | sed -n 's/^\.Nm \([^ ]*\).*/\1/p' | sort >"$tmp/names"
	compare "$tmp/names" "$tmp/truth" user/libweft.map 20
	comm -23 "$tmp/links" "$tmp/truth" | sed 's/$/.3: a link, and no such call/'
}
# Declarations without spaces, one a line.
declarations() { tr -d ' \t\n' | tr ';' '\n' | grep '^[^#]*weft_[a-z_]*)*(' | sort; }
prototypes() {
	local f
	code | declarations >"$tmp/truth"
	for f in "${pages[@]}"; do
		case $f in */weft_*.3) text_of "$f" | section SYNOPSIS | sed '/#include/d' | declarations ;; esac
	done | sort >"$tmp/said"
	compare "$tmp/said" "$tmp/truth" "$header" 20
}
# Lines "TYPE NAME" of all fields of all structures of the header.
fields() {
	code | awk '
		/^struct [a-z_]+ {/ { inside = 1; next }
		/^};/ { inside = 0 }
		inside {
			# the preprocessor breaks a line behind a long comment
			line = part $0
			if (line !~ /;/) { part = line " "; next }
			part = ""
			gsub(/[ \t]+/, " ", line)
			sub(/^ /, "", line)
			sub(/;.*/, "", line)
			n = split(line, d, /, */)
			type = d[1]
			sub(/[a-z_]+$/, "", type)
			for (i = 1; i <= n; i++) {
				name = d[i]
				sub(/.*[ *]/, "", name)
				print type name
			}
		}'
}
every_field() {
	fields | sort -u >"$tmp/truth"
	cat "$man"/*.3 | grep '^\.It Fa' | grep -o '"[^"]*"' | tr -d '"' | sort -u >"$tmp/said"
	compare "$tmp/said" "$tmp/truth" "$header" 20
}
every_constant() {
	grep -oE '\bWEFT_[A-Z_]*[A-Z]\b' "$header" | grep -vx WEFT_WEFT_H | sort -u >"$tmp/truth"
	cat "${pages[@]}" | grep -oE '(Dv|Fn) WEFT_[A-Z_]+\b' | sed 's/.* //' | sort -u >"$tmp/said"
	compare "$tmp/said" "$tmp/truth" "$header" 20
}
# Lines "CALL ERROR": of the comment before a declaration, or on its line.
errors() {
	awk '
		/^$/ { split("", pending) }
		{
			rest = $0
			while (match(rest, /-E[A-Z]+/)) {
				pending[substr(rest, RSTART + 1, RLENGTH - 1)]
				rest = substr(rest, RSTART + RLENGTH)
			}
		}
		/^[a-z].*weft_[a-z_]+\(/ && !/^typedef/ {
			match($0, /weft_[a-z_]+\(/)
			call = substr($0, RSTART, RLENGTH - 1)
			for (e in pending)
				print call, e
			split("", pending)
		}' "$header"
}
every_error() {
	local call error
	errors | while read -r call error; do
		has "Er $error\b" "$(page_of "$call")" 2>/dev/null || echo "$call: its page does not have $error"
	done
	[ "$(errors | wc -l)" -gt 20 ] || echo "only $(errors | wc -l) errors found in $header"
}
examples() {
	local f n
	for f in "${pages[@]}"; do
		awk -v out="$tmp/example" '
			/^\.Bd -literal/ { n++; inside = 1; next }
			/^\.Ed/ { inside = 0 }
			inside { gsub(/\\e/, "\\"); print > (out n ".txt") }' "$f"
		for n in "$tmp"/example*.txt; do
			has '^int main' "$n" 2>/dev/null || continue
			${CC:-gcc} -x c -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iinclude "$n" 2>&1 || echo "of $f"
			echo "$f" >>"$tmp/compiled"
		done
		rm -f "$tmp"/example*.txt
	done
	[ "$(wc -l <"$tmp/compiled")" -ge 2 ] || echo "no examples were found"
}

# What the tool says of itself: the help of all objects, and of the commands that have their own.
helps() {
	local object
	"$O/weft" help
	"$O/weft" help | sed -n 's/^       weft \([a-z]*\) .*/\1/p' | sort -u | while read -r object; do
		"$O/weft" "$object" --help
	done
	"$O/weft" perf server --help
	"$O/weft" perf write --help
}
# Usage lines in one form: no spaces inside brackets, and not that an object takes -j as well.
usages() {
	sed -n 's/^ *\(usage: \)\{0,1\}\(weft [^.]*\)$/\2/p' | sed -e 's/\([[{]\) */\1/g; s/ *\([]}]\)/\1/g' \
		-e 's/\[-j\]//; s/PERF-OPTIONS/OPTIONS/; s/  */ /g; s/ *$//' | sort -u
}
synopsis() {
	local page
	for page in "$man/weft.8" "$man/weft-perf.1"; do
		text_of "$page" | section SYNOPSIS | usages
	done | sort -u
}
# Only the words that name a command.
commands() { sed -e 's/\[.*//; s/ -.*//; s/ [A-Z].*//' | sort -u; }
every_command() {
	"$O/weft" help | grep -E '^(usage: |       )weft ' | usages >"$tmp/truth"
	synopsis >"$tmp/said"
	compare "$tmp/said" "$tmp/truth" "weft help" 10
	# an object's own help may be more detailed
	helps | grep -E '^(usage: |       )weft ' | usages | commands >"$tmp/truth"
	commands <"$tmp/said" >"$tmp/words"
	compare "$tmp/words" "$tmp/truth" "the objects' help"
}
# What stands before two spaces, of lines indented by exactly $1, and of options without a letter.
tags() { sed -n "s/^ \{$1\}\( \{4\}-\|[^ ]\)/\1/p" | sed 's/^    //; s/   *.*//' | sort -u; }
every_option() {
	helps | tags 2 >"$tmp/truth"
	# Text that stands as far left as options do is none.
	text_of "$man/weft.8" "$man/weft-perf.1" | tags 5 |
		awk 'NR == FNR { truth[$0]; next } /^-/ || ($0 in truth)' "$tmp/truth" - >"$tmp/said"
	compare "$tmp/said" "$tmp/truth" "the tool's help" 20
}
# The first column of the tables of docs/cli.md, but for the messages.
frozen() {
	sed '/^## Messages/,$d' docs/cli.md | sed -n 's/^| \(`[^|]*\)|.*/\1/p' | grep -o '`[^`]*`' | tr -d '`'
}
every_frozen_name() {
	frozen >"$tmp/truth"
	# An option is looked for without its value.
	text_of "$man/weft.8" "$man/weft-perf.1" | awk '
		NR == FNR { name[$0]; next }
		{
			text = text " " $0
			n = split($0, w, /[^a-zA-Z0-9_-]+/)
			for (i = 1; i <= n; i++)
				word[w[i]]
		}
		END {
			for (k in name) {
				split(k, w, " ")
				if (k ~ /^-/ ? !(w[1] in word) : k ~ / / ? !index(text, " " k) : !(k in word))
					print k ": frozen by docs/cli.md, in no page"
			}
		}' "$tmp/truth" -
	[ "$(wc -l <"$tmp/truth")" -gt 100 ] || echo "no tables in docs/cli.md"
}

for f in "${pages[@]}"; do
	check_none "${f##*/}: mandoc -Tlint" lint "$f"
done
check_none "cross references lead somewhere" cross_references
check_none "every public call has a page, which describes it" every_call_has_a_page
check_none "no page is of a call that there is not" every_page_is_of_calls
check_none "synopses are what the header declares" prototypes
check_none "every field of a public structure, with its type" every_field
check_none "every public constant, and no other" every_constant
check_none "every error that the header names" every_error
check_none "the examples compile" examples
check_none "every command of the tool's help, and no other" every_command
check_none "every option of the tool's help, and no other" every_option
check_none "every name that docs/cli.md freezes" every_frozen_name
tap_done
