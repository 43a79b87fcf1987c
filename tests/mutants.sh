# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Mutations of a copy of the sources, all at once, each behind a condition weft_mutated(NUMBER), which
# decides at run time (sourced, with jobs.sh, in the copy).
#
#   swap TEST FILE TEXT BAD [CONTEXT], gone, cut, inv   # below
#   mutants_pick [WHICH]...     # into picked: by number, invariant, or test by pattern; all
#   mutants_placed              # or it ends here

names=() tests=() bad=0 label=

# swap TEST FILE TEXT BAD [CONTEXT]: TEST must notice when the expression TEXT is BAD. CONTEXT, or
# else TEXT, stands in FILE exactly once.
swap() {
	local context=${5:-$3} new src

	names+=("$label${2##*/}: $3 -> $4") tests+=("$1")
	new=${context/"$3"/"(weft_mutated(${#names[@]}) ? ($4) : ($3))"}
	src=$(<"$2")
	if [[ $src != *"$context"* || $src == *"$context"*"$context"* ]]; then
		echo "# $2: does not occur exactly once: $context"
		bad=1
	fi
	printf '%s\n' "${src/"$context"/"$new"}" >"$2"
}
# gone TEST FILE TEXT [CONTEXT]: the condition TEXT is never true.
gone() { swap "$1" "$2" "$3" 0 "${4:-$3}"; }
# cut TEST FILE TEXT [CONTEXT]: the statement TEXT, without its semicolon, is not there.
cut() { swap "$1" "$2" "$3" '(void)0' "${4:-$3;}"; }
# inv NAME swap|gone|cut ...: this is what keeps the invariant NAME.
inv() { label="$1 "; "${@:2}"; label=; }

# Is mutation $1 asked for by the others?
mutants_chosen() {
	local i=$1 o
	shift

	[ $# -gt 0 ] || return 0
	for o; do
		# shellcheck disable=SC2053 # a pattern
		[[ $i == "$o" || ${names[i - 1]} == "$o "* || ${tests[i - 1]} == $o ]] && return 0
	done
	return 1
}
mutants_pick() {
	local i

	picked=() MUTANTS_ASKED=$*
	for ((i = 1; i <= ${#names[@]}; i++)); do
		mutants_chosen "$i" "$@" && picked+=("$i")
	done
}

report() { # STATUS TEXT
	[ "$1" -eq 0 ] && echo "ok - $2" || echo "not ok - $2"
}
# What keeps it from beginning: the only test there is.
mutants_fail() {
	job report 1 "$1"
	jobs_end
	exit
}
mutants_placed() {
	[ "$bad" -eq 0 ] || mutants_fail "every mutation finds its place in the sources"
	[ ${#picked[@]} -gt 0 ] || mutants_fail "there is a mutation like that: $MUTANTS_ASKED"
}
