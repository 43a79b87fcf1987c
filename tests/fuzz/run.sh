#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Replay the corpus, then fuzz: run.sh [SECONDS [TARGET...]], SECONDS (30) of fuzzing shared by the
# targets, of which as many run at a time as there are processors; TAP. The target "prog" runs the
# loaded XDP programs, as root; "rings", only when it is named, is tests/net/test_rings.sh.
#
# What is new goes to $O/fuzz/TARGET and helps the next run; what fails to $O/fuzz/crash-TARGET-*.
# SECONDS 0: only the corpus. SEED=N repeats the random choices of a run, on an idle machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
seconds=${1:-30}
shift
[[ $seconds =~ ^[0-9]+$ ]] || { echo "weft: fuzz: \"$seconds\" is no number of seconds; give TIME=600" >&2; exit 2; }
[ $# -gt 0 ] || set -- prog rx ack pair parse cm	# the longest first
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0} UBSAN_OPTIONS=print_stacktrace=1
# shellcheck source=tests/jobs.sh
. tests/jobs.sh

# report STATUS NAME LOG REPLAY
report() {
	if [ "$1" = 0 ]; then
		echo "ok - $2"
	else
		echo "not ok - $2"
		grep -E -m 40 '^# |fuzz:|ERROR|SUMMARY|runtime error|#[0-9]+ .*(bpf|fuzz|user)/' "$3" | sed 's/^/# /'
		echo "# replay: $4"
	fi
}

weight() { case $1 in parse | cm) echo 1 ;; prog) echo 3 ;; *) echo 2 ;; esac; }
total=0
for t in "$@"; do
	total=$((total + $(weight "$t")))
done

# The loaded programs: corpus, then SHARE seconds of fuzzing
fuzz_programs() {
	local share=$1 seed=$2 log=$logs/prog prog=$O/tests/fuzz/weft-fuzz-prog c rc

	for c in parse rx ack; do
		timeout -k 5 300 "$prog" "$c" tests/fuzz/corpus/"$c"/* >"$log" 2>&1
		report $? "prog: corpus of $c" "$log" "$prog $c tests/fuzz/corpus/$c/*"
	done
	[ "$seconds" -gt 0 ] || return
	timeout -k 5 $((share + 300)) "$prog" "$share" "$seed" >"$log" 2>&1
	rc=$?
	grep note: "$log"
	report $rc "prog: fuzzed" "$log" "$(sed -n 's/^# replay: /build\/tests\/fuzz\//p' "$log")"
}

# An application against the loaded programs, for 5 s at least
fuzz_rings() {
	local share=$(($1 < 5 ? 5 : $1)) seed=$2 log=$logs/rings rc

	[ "$seconds" -gt 0 ] || return
	LAB_BUILD=$(realpath "$O") TIME=$share SEED=$seed timeout -k 5 $((share + 300)) \
		tests/net/test_rings.sh >"$log" 2>&1
	rc=$?
	grep note: "$log"
	[ "$rc" = 0 ] || grep '^not ok' "$log" | sed 's/^/# /'
	report $rc "rings: fuzzed" "$log" "TIME=$share SEED=$seed tests/net/test_rings.sh"
}

# The same for a target that is built for the host
fuzz_target() {
	local t=$1 share=$2 seed=$3 log=$logs/$1 prog=$O/tests/fuzz/fuzz_$1 rc runs

	timeout -k 5 400 "$prog" -timeout=20 tests/fuzz/corpus/"$t"/* >"$log" 2>&1
	report $? "$t: corpus of $(find tests/fuzz/corpus/"$t" -type f | wc -l) inputs" "$log" \
		"$prog $(sed -n 's/^Running: //p' "$log" | tail -n 1)"
	[ "$seconds" -gt 0 ] || return

	mkdir -p "$O/fuzz/$t"
	timeout -k 5 $((share + 300)) "$prog" -max_total_time="$share" -max_len=1500 -timeout=20 \
		-seed="$seed" -print_final_stats=1 -artifact_prefix="$O/fuzz/crash-$t-" \
		"$O/fuzz/$t" tests/fuzz/corpus/"$t" >"$log" 2>&1
	rc=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "# note: $t: ${runs:-no} inputs in $share s"
	[ "${runs:-0}" -gt 0 ] || rc=1
	report $rc "$t: fuzzed" "$log" \
		"$prog $(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
}

mkdir -p "$O/fuzz"
logs=$O/fuzz/log.$$
trap 'jobs_stop; rm -rf "$logs"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
jobs_begin "$logs"
for t in "$@"; do
	# a second more or less does not matter; the whole must not be 0
	share=$(((seconds * $(weight "$t") + total - 1) / total))
	seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
	case $t in
	prog) job fuzz_programs "$share" "$seed" ;;
	rings) job fuzz_rings "$share" "$seed" ;;
	*) job fuzz_target "$t" "$share" "$seed" ;;
	esac
done
jobs_end
