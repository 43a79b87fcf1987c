#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Replay the corpus, then fuzz: run.sh [SECONDS [TARGET...]], SECONDS (30) shared by the targets; TAP.
# The target "prog" runs the loaded XDP programs, as root.
#
# What is new goes to $O/fuzz/TARGET and helps the next run; what fails to $O/fuzz/crash-TARGET-*.
# SECONDS 0: only the corpus. SEED=N repeats the random choices of a run, on an idle machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
seconds=${1:-30}
shift
[ $# -gt 0 ] || set -- parse rx ack pair cm prog
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0} UBSAN_OPTIONS=print_stacktrace=1
n=0 failed=0

# ok STATUS NAME LOG REPLAY
report() {
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		failed=$((failed + 1))
		echo "not ok $n - $2"
		grep -E -m 40 '^# |fuzz:|ERROR|SUMMARY|runtime error|#[0-9]+ .*(bpf|fuzz|user)/' "$3" | sed 's/^/# /'
		echo "# replay: $4"
	fi
}

weight() { case $1 in parse | cm) echo 1 ;; prog) echo 3 ;; *) echo 2 ;; esac; }
total=0
for t in "$@"; do
	total=$((total + $(weight "$t")))
done

mkdir -p "$O/fuzz"
log=$O/fuzz/log.$$
trap 'rm -f "$log"' EXIT
for t in "$@"; do
	# a second more or less does not matter; the whole must not be 0
	share=$(((seconds * $(weight "$t") + total - 1) / total))
	seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
	if [ "$t" = prog ]; then
		prog=$O/tests/fuzz/weft-fuzz-prog
		for c in parse rx ack; do
			timeout -k 5 60 "$prog" "$c" tests/fuzz/corpus/"$c"/* >"$log" 2>&1
			report $? "prog: corpus of $c" "$log" "$prog $c tests/fuzz/corpus/$c/*"
		done
		[ "$seconds" -gt 0 ] || continue
		timeout -k 5 $((share + 60)) "$prog" "$share" "$seed" >"$log" 2>&1
		rc=$?
		grep note: "$log"
		report $rc "prog: fuzzed" "$log" "$(sed -n 's/^# replay: /build\/tests\/fuzz\//p' "$log")"
		continue
	fi
	prog=$O/tests/fuzz/fuzz_$t
	timeout -k 5 120 "$prog" -timeout=20 tests/fuzz/corpus/"$t"/* >"$log" 2>&1
	report $? "$t: corpus of $(find tests/fuzz/corpus/"$t" -type f | wc -l) inputs" "$log" \
		"$prog $(sed -n 's/^Running: //p' "$log" | tail -n 1)"
	[ "$seconds" -gt 0 ] || continue

	mkdir -p "$O/fuzz/$t"
	timeout -k 5 $((share + 60)) "$prog" -max_total_time="$share" -max_len=1500 -timeout=20 \
		-seed="$seed" -print_final_stats=1 -artifact_prefix="$O/fuzz/crash-$t-" \
		"$O/fuzz/$t" tests/fuzz/corpus/"$t" >"$log" 2>&1
	rc=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "# note: $t: ${runs:-no} inputs in $share s"
	[ "${runs:-0}" -gt 0 ] || rc=1
	report $rc "$t: fuzzed" "$log" \
		"$prog $(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
done
echo "1..$n"
[ "$failed" = 0 ]
