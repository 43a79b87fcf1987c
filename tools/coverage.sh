#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Line coverage of include/weft/core under the simulator: coverage.sh [SEEDS]; 95% or it fails.
set -u
cd "$(dirname "$0")/.." || exit 1
O=${O:-build}
seeds=${1:-200}
need=95
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Build in a folder of our own: counters of older builds do not mix in.
make --no-print-directory O="$O" "$O/tests/sim/weft-sim-cov" >"$tmp/log" 2>&1 ||
	{ cat "$tmp/log"; exit 1; }
find "$O/obj/cov" -name '*.gcda' -delete
if ! "$O/tests/sim/weft-sim-cov" --seeds "$seeds" >"$tmp/log" 2>&1; then
	tail -n 50 "$tmp/log"
	exit 1
fi
if ! lcov -q -c -d "$O/obj/cov" -o "$tmp/all.info" >"$tmp/log" 2>&1 ||
	! lcov -q -e "$tmp/all.info" '*/include/weft/core/*' -o "$tmp/core.info" >>"$tmp/log" 2>&1; then
	cat "$tmp/log"
	exit 1
fi

# LF: and LH: lines hold the lines found and hit of the file that the last SF: line named.
awk -v need=$need -v seeds="$seeds" '
	/^SF:/ { n = split($0, p, "/"); file = p[n] }
	/^DA:/ { split(substr($0, 4), d, ","); if (d[2] == 0) miss[file] = miss[file] " " d[1] }
	/^LF:/ { found[file] += substr($0, 4); all += substr($0, 4) }
	/^LH:/ { hit[file] += substr($0, 4); got += substr($0, 4) }
	END {
		for (f in found)
			printf "# %-20s %4d of %4d lines%s\n", f, hit[f], found[f], \
				miss[f] ? ", never run:" miss[f] : ""
		pct = all ? 100 * got / all : 0
		printf "# coverage: core %.1f%% of %d lines over %d seeds (%d%% needed)\n", \
			pct, all, seeds, need
		print (pct >= need ? "ok" : "not ok") " 1 - core line coverage"
		print "1..1"
		exit pct < need
	}' "$tmp/core.info"
