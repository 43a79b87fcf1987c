#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Compare what each BPF program costs the verifier with tests/verifier.tsv: test_verifier.sh.
# More than 20% above the table fails. test_verifier.sh --update renews the table instead.
#
# A cost is the number of instructions the verifier walked, by program, clang and kernel. It is
# taken here, and from the last run of vm/run.sh (build/vm/verifier.txt) if that saw the objects as
# they are. A compiler or kernel that the table does not know is reported, not judged.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
TAP_REPLAY="make clangs && O=$O $0"
# shellcheck source=tests/tap.sh
. tests/tap.sh
table=${VERIFIER_TABLE:-tests/verifier.tsv}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp" "$TAP_OUT"' EXIT

objects=("$O"/weft.bpf.o "$O"/weft.clang*.bpf.o)
default=$(sed -n 's/^CLANG_MAJOR := //p' "$O/config.mk")

# Lines "OBJECT PROGRAM INSTRUCTIONS WALKED", as progload prints them, into rows of the table.
rows() {
	awk -v kernel="$1" -v clang="$default" -v OFS='\t' '$1 ~ /^weft[.]/ {
		of = clang
		if (match($1, /clang[0-9]+/))
			of = substr($1, RSTART + 5, RLENGTH - 5)
		print $2, of, kernel, $4
	}'
}
progload() {
	mkdir -p "$O/vm"
	if [ ! "$O/vm/progload" -nt vm/progload.c ]; then
		cc -O2 -Wall -o "$O/vm/progload" vm/progload.c -lbpf || return
	fi
	"$O/vm/progload" "${objects[@]}" >"$tmp/here"
}
# Did the guest see these very objects?
guest_is_fresh() {
	local object
	[ -s "$O/vm/verifier.txt" ] || return
	for object in "${objects[@]}"; do
		[ "$O/vm/verifier.txt" -nt "$object" ] &&
			grep -q "^${object##*/} " "$O/vm/verifier.txt" || return
	done
}
guest_kernel() {
	sed -n 's/.*Linux version \([0-9]*\.[0-9]*\).*/\1/p' "$O/vm/console.log" | head -n 1
}

check "every object loads on $(uname -r | cut -d. -f1,2)" progload
rows "$(uname -r | cut -d. -f1,2)" <"$tmp/here" >"$tmp/now"
compilers() { cut -f 2 "$tmp/now" | sort -u | grep -cx -e 14 -e 16 -e 19; }
check "clang 14, 16 and 19 are looked at" [ "$(compilers)" -eq 3 ]
if guest_is_fresh; then
	rows "$(guest_kernel)" <"$O/vm/verifier.txt" >>"$tmp/now"
else
	echo "# note: no verifier costs of another kernel; vm/run.sh brings them"
fi

if [ "${1:-}" = --update ]; then
	# Rows of compilers and kernels that were not looked at stay.
	{
		head -n 2 "$table"
		{
			cat "$tmp/now"
			awk -F'\t' 'NR == FNR { seen[$2, $3]; next } /^#/ { next } !(($2, $3) in seen)' \
				"$tmp/now" "$table"
		} | sort -t "$(printf '\t')" -k1,1 -k2,2n -k3,3V
	} >"$tmp/table" && cat "$tmp/table" >"$table"
	exit
fi

# Each line: VERDICT, program, clang, kernel, what there is to say.
awk -F'\t' -v OFS='\t' '
	/^#/ { next }
	NR == FNR { cost[$1, $2, $3] = $4; known[$2, $3]; next }
	{ looked[$2, $3]; now[$1, $2, $3] }
	!(($2, $3) in known) {
		if (!(($2, $3) in looked_at))
			print "note", "no row in the table", $2, $3, "make verifier-update adds them"
		looked_at[$2, $3]
		next
	}
	!(($1, $2, $3) in cost) { print "bad", $1, $2, $3, $4 ", and not in the table"; next }
	{
		was = cost[$1, $2, $3]
		verdict = $4 > was * 1.2 ? "bad" : "ok"
		print verdict, $1, $2, $3, sprintf("%d, table %d (%+.1f%%)", $4, was, ($4 / was - 1) * 100)
	}
	END {
		for (k in cost) {
			split(k, f, SUBSEP)
			if (((f[2], f[3]) in looked) && !(k in now))
				print "bad", f[1], f[2], f[3], "in the table, and there is no such program"
		}
	}' "$table" "$tmp/now" >"$tmp/verdicts"

while IFS=$'\t' read -r verdict program clang kernel text; do
	name="$program by clang $clang on $kernel: $text"
	case $verdict in
	note) echo "# note: $name" ;;
	*) check "$name" [ "$verdict" = ok ] || echo "# if it is meant to: make verifier-update" ;;
	esac
done <"$tmp/verdicts"
tap_done
