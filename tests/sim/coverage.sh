#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Line coverage of include/weft/core by the simulator and the unit tests together, as TAP:
# coverage.sh [SEEDS]. Below 95% in total it fails.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
CC=${CC:-gcc}
seeds=${1:-150}
need=95
dir=$(realpath -m "$O/coverage-core")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

die() { # TEXT LOG
	echo "not ok 1 - core line coverage: $1"
	sed 's/^/# /' "$2" | tail -n 20
	exit 1
}

rm -rf "$dir"
mkdir -p "$dir"
flags=(-std=gnu11 -O0 -w --coverage -fkeep-inline-functions -D_GNU_SOURCE= -Iinclude)
$CC "${flags[@]}" -o "$dir/sim" tests/sim/*.c -lm >"$dir/log" 2>&1 || die "build" "$dir/log"
for t in tests/unit/test_core_*.c; do
	$CC "${flags[@]}" -o "$dir/$(basename "$t" .c)" "$t" -lcmocka -lm >"$dir/log" 2>&1 ||
		die "build of $t" "$dir/log"
done
"$dir/sim" --seeds "$seeds" >"$dir/log" 2>&1 || die "simulator" "$dir/log"
for t in "$dir"/test_core_*; do
	[ -x "$t" ] || continue
	"$t" >"$dir/log" 2>&1 || die "$(basename "$t")" "$dir/log"
done

lcov -q -c -d "$dir" -o "$dir/all.info" >"$dir/log" 2>&1 || die "lcov -c" "$dir/log"
lcov -q -e "$dir/all.info" '*/include/weft/core/*' -o "$dir/core.info" >"$dir/log" 2>&1 ||
	die "lcov -e" "$dir/log"
awk -v need=$need '
	/^SF:/ { n = split($0, p, "/"); file = p[n] }
	/^DA:/ {
		split(substr($0, 4), d, ",")
		found[file]++
		all++
		if (d[2] > 0) { hit[file]++; got++ } else { miss[file] = miss[file] " " d[1] }
	}
	END {
		for (f in found)
			printf "# %-12s %5.1f%% of %3d lines%s\n", f, 100 * hit[f] / found[f], \
				found[f], miss[f] ? ", never run:" miss[f] : "" | "sort"
		close("sort")
		pct = all ? 100 * got / all : 0
		printf "# %-12s %5.1f%% of %3d lines (%d%% needed)\n", "total", pct, all, need
		print (pct >= need ? "ok" : "not ok") " 1 - core line coverage"
		print "1..1"
		exit pct < need
	}' "$dir/core.info"
