# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Mutated functions of C sources as copies beside the originals, which choose one at run time.
#
#   awk -v N=7 -v DIR=D -f splice.awk ORIGINAL MUTATED    # keep in D the functions that differ, as those of mutant 7
#   awk -v DIR=D -f splice.awk SOURCE                     # SOURCE with all that was kept of it
#
# Of a function f mutant 7 is f__m7, and f begins with: switch (weft_mutation) { case 7: return f__m7(...); }.
# It knows functions in the style of this tree: braces of the body stand alone in the first column. What is
# changed outside of a function cannot be chosen: exit status 1.

# A unit is a function or the text between two. Lines of a function's head wait in `head`.
function text(line) {
	between[file] = between[file] line "\n"
	if (!N) out = out line "\n"
}
function not_a_function() {
	if (head != "") text(substr(head, 1, length(head) - 1))
	head = ""
}
FNR == 1 { file++; n = head_on = 0; head = fn = "" }
fn != "" {
	body = body $0 "\n"
	if ($0 == "}") end_function()
	next
}
$0 == "{" && head != "" { fn = name_of(head); body = "{\n"; next }
head == "" && /^[A-Za-z_].*\(/ && !/[;{]$/ { head = $0 "\n"; next }
head != "" && /^[ \t]/ && !/[;{]$/ { head = head $0 "\n"; next }
{ not_a_function(); text($0) }
END {
	if (bad) exit 1
	if (N) exit between[1] != between[2] || !changed
	printf "%s", out
}

# The last name outside of parentheses that is followed by one; what is in those goes into `inside`.
function name_of(s,  i, c, depth, from, last) {
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c == "(" && depth++ == 0) {
			last = substr(s, 1, i - 1)
			from = i
		}
		if (c == ")" && --depth == 0) inside = substr(s, from + 1, i - from - 1)
	}
	match(last, /[A-Za-z_0-9]+$/)
	before = substr(last, 1, RSTART - 1)
	return substr(last, RSTART)
}
# The names of the parameters, as they are handed on.
function parameters(s,  p, n, i, names) {
	gsub(/\[[^]]*\]/, "", s)
	if (s ~ /\.\.\.|\(/) bad = 1 # of such there is none
	n = split(s, p, ",")
	for (i = 1; i <= n; i++) {
		match(p[i], /[A-Za-z_0-9]+$/)
		names = names (i > 1 ? ", " : "") substr(p[i], RSTART)
	}
	return names == "void" ? "" : names
}
function end_function(  kept, line, call) {
	if (N && file == 1) {
		whole[fn] = head body
	} else if (N && whole[fn] != head body) {
		sub(/\(.*/, "", head)
		kept = DIR "/" fn
		printf "%s%s__m%d(%s)\n%s\n", before, fn, N, inside, body >>kept
		printf "case %d: return %s__m%d(%s);\n", N, fn, N, parameters(inside) >>(kept ".cases")
		close(kept)
		close(kept ".cases")
		changed = 1
	} else if (!N) {
		kept = DIR "/" fn
		if ((getline line <kept) > 0) {
			out = out before fn "(" inside ");\n"
			do out = out line "\n"; while ((getline line <kept) > 0)
			body = substr(body, 3)
			while ((getline line <(kept ".cases")) > 0) call = call line "\n"
			body = "{\nswitch (weft_mutation) {\n" call "}\n" body
			close(kept ".cases")
		}
		close(kept)
		out = out head body
	}
	head = fn = ""
}
