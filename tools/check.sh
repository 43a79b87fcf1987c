#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Run the test suites and see that they leave nothing behind: check.sh [--fast] [--only PATTERN].
# PATTERN is one of bash's: '@(lint|net/*)'.
#
# Everything runs in a process and mount namespace of its own with an empty bpffs and an empty
# /run/netns, so what is left at the end is ours, and whatever happens dies with this script.
# WEFT_CHECK_SHARED=1: other tests load XDP programs on this machine meanwhile; do not count those.
set -u
shopt -s extglob	# for PATTERN

usage() {
	echo "usage: check.sh [--fast] [--only PATTERN]" >&2
	exit 2
}

# Without privileges only the unprivileged suites could run, and a skip must not look like a pass.
if [ "$(id -u)" -ne 0 ]; then
	echo "weft: check: not root; run as root, or run build/tests/unit/* by hand" >&2
	exit 1
fi

# The outer half: own the namespaces, pass signals on, report 128 + signal.
if [ "${WEFT_CHECK_INNER:-}" = "" ]; then
	WEFT_CHECK_INNER=1 unshare --mount --pid --fork --mount-proc --propagation private \
		--kill-child "$0" "$@" &
	child=$!
	stop() {
		trap '' INT TERM
		# unshare itself ignores SIGTERM while it waits; its only child does not.
		pkill -TERM -P "$child"
		wait "$child"
		exit "$1"
	}
	trap 'stop 130' INT
	trap 'stop 143' TERM
	wait "$child"
	exit $?
fi
unset WEFT_CHECK_INNER

cd "$(dirname "$0")/.." || exit 1
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
O=$(realpath -m "${O:-build}")
export O LAB_BUILD=$O CMOCKA_MESSAGE_OUTPUT=TAP
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} UBSAN_OPTIONS=print_stacktrace=1
fast=
only='*'
while [ $# -gt 0 ]; do
	case $1 in
	--fast) fast=1 ;;
	--only) only=${2:-}; shift ;;
	*) usage ;;
	esac
	shift
done
[ -n "$only" ] || usage

passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
finish() {
	rm -rf "$tmp"
}
trap finish EXIT
interrupted() {
	trap '' INT TERM
	[ ${#running[@]} -eq 0 ] || kill -TERM "${!running[@]}" 2>/dev/null
	wait
	echo "weft: check: interrupted" >&2
	exit 130
}
trap interrupted INT TERM

# ---- what must be the same afterwards ----------------------------------------------------------
mount -t tmpfs -o mode=755 weft-check /run/netns 2>/dev/null ||
	{ mkdir -p /run/netns && mount -t tmpfs -o mode=755 weft-check /run/netns; } || exit 1
mount -t bpf bpf /sys/fs/bpf || exit 1

list_links() {
	{
		ip -o link show type veth
		ip -o link show type tun
	} | sed 's/^[0-9]*: //; s/[@:].*//' | sort
}
list_netns() { ip netns list | awk '{ print $1 }' | sort; }
list_pins() { find /sys/fs/bpf -mindepth 1 | sort; }
# Ids fall out of use for good, so a new id is a program loaded meanwhile.
list_progs() { bpftool prog show 2>/dev/null | awk '$2 == "xdp" || $2 == "sched_cls" { print $1 $4 }' | sort; }
list_procs() {
	local d cmd

	for d in /proc/[0-9]*; do
		# Zombies have no command line; subshells of this script have this script's.
		cmd=$(tr '\0' ' ' 2>/dev/null <"$d/cmdline") || continue
		case $cmd in
		'' | *tools/check.sh*) ;;
		*) echo "$cmd(pid ${d#/proc/})" ;;
		esac
	done
}
snapshot() {
	list_links >"$tmp/links.$1"
	list_netns >"$tmp/netns.$1"
	list_pins >"$tmp/pins.$1"
	list_progs >"$tmp/progs.$1"
	list_procs >"$tmp/procs"
	sort -o "$tmp/procs.$1" "$tmp/procs"
}
leftovers() {	# leftovers KIND...
	local kind

	snapshot after
	for kind; do
		[ "$kind" = progs ] && [ -n "${WEFT_CHECK_SHARED:-}" ] && continue
		comm -13 "$tmp/$kind.before" "$tmp/$kind.after" | sed "s/^/$kind: /"
	done
}
# Devices without a user take 2 s to go, so ask again before complaining.
check_leftovers() {	# check_leftovers TITLE KIND...
	local left='' i

	for i in {1..20}; do
		left=$(leftovers "${@:2}")
		[ -z "$left" ] && break
		[ "$i" = 20 ] || sleep 1
	done
	verdict "$1" "$left"
}
check_kernel_log() {
	verdict "kernel log: no new BUG, WARNING or Oops" \
		"$(dmesg | tail -n +$((log_lines + 1)) | grep -E 'BUG:|WARNING:|Oops')"
}
# A check of our own: $1 what is right, $2 the evidence against it (empty: passed).
verdict() {
	if [ -z "$2" ]; then
		passed=$((passed + 1))
		printf 'ok    %s\n' "$1"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s\n%s\n' "$1" "$2"
		{ echo "$1"; head -n 8 <<<"$2"; } >>"$tmp/reasons"
	fi
}
# What failed, in short, is said again at the end, for whoever sees no more of a long output: of suite
# $1 with the output $2 each "not ok" with up to 8 lines of what is said on either side of it, or the
# last lines if there is none.
reasons() {
	echo "$1:"
	awk '/^not ok/ { for (i = n < 8 ? 0 : n - 8; i < n; i++) print held[i]; print; n = 0; behind = 8; found = 1; next }
		{ last[NR % 8] = $0 }
		/^(ok |1\.\.)/ { n = behind = 0; next }
		behind > 0 { behind--; print; next }
		{ held[n++] = $0 }
		END { if (!found) for (i = NR > 8 ? NR - 7 : 1; i <= NR; i++) print last[i % 8] }' "$2"
}

# ---- suites ------------------------------------------------------------------------------------
# Count the TAP lines of file $1 into pass, fail, skip; a plan that does not add up is a failure.
count_tap() {
	read -r pass fail skip plan < <(awk '
		/^(not )?ok .*# *[Ss][Kk][Ii][Pp]/ { skip++; next }
		/^ok( |$)/ { pass++; next }
		/^not ok( |$)/ { fail++; next }
		/^1\.\.[0-9]+/ { split($0, p, /\.\./); plan += p[2]; plans++ }
		END { print pass + 0, fail + 0, skip + 0, plans ? plan : -1 }' "$1")
	if [ "$plan" -ge 0 ] && [ "$plan" -ne $((pass + fail + skip)) ]; then
		echo "# $((pass + fail + skip)) of $plan planned tests reported" >>"$1"
		fail=$((fail + 1))
	fi
}

# A suite is declared by one of these, NAME LIMIT COMMAND..., with LIMIT in seconds, which is only for
# what hangs: three times what it takes here, and more:
#
#   suite    nothing runs beside it: it promises times, or keeps all processors busy
#   joins    it promises no time and counts nothing that others have as well: two of them at a time
#   waits    it sleeps most of the time and has time to spare where it promises any
#   rests    the same; one of these at a time, beside one that waits
#   fills    it computes and promises no time, has no network and loads no program into the kernel: it
#            takes, at idle priority, what time those that wait leave; LIMIT counts that too. One that
#            begins with nice keeps that: a guest's kernel complains when it stands still for long; and
#            it begins when none joins any more, for other guests do
#
# run_suites runs those that join, then one that waits and one that rests at a time, with as many that fill
# beside them as there are processors, then what is left to fill, then the others one by one. Their results
# are printed in the order in which they were declared, each as soon as those before it are.
names=() kinds=() limits=() commands=() states=() began=() took=() status=() told=0
declare -A running=()	# pid: number
declare_suite() {
	# shellcheck disable=SC2254 # the pattern is meant as one
	case $2 in $only) ;; *) return ;; esac
	kinds+=("$1") names+=("$2") limits+=("$3") states+=(new)
	commands+=("${*@Q}")
}
suite() { declare_suite suite "$@"; }
joins() { declare_suite joins "$@"; }
waits() { declare_suite waits "$@"; }
rests() { declare_suite rests "$@"; }
fills() { declare_suite fills "$@"; }
each() {	# each KIND FOLDER LIMIT FILE...
	local kind=$1 folder=$2 limit=$3 f
	shift 3

	for f in "$@"; do
		[ -f "$f" ] || continue
		# a script that cannot be run is a failure; beside programs lie their .d files
		case $f in *.sh) ;; *) [ -x "$f" ] || continue ;; esac
		"$kind" "$folder/$(basename "$f" .sh)" "$limit" "$f"
	done
}

# How many suites of kind $2 are in state $1, but for those with $3 in their command; $first is the first of them.
count() {
	local i
	first='' n=0
	for i in "${!names[@]}"; do
		[ "${states[i]} ${kinds[i]}" = "$1 $2" ] || continue
		[ -z "${3:-}" ] || [[ ${commands[i]} != *"$3"* ]] || continue
		first=${first:-$i} n=$((n + 1))
	done
}
# Who has a neighbour with a network has names of network namespaces and a bpffs of its own, empty before and
# after; a neighbour's programs and links it cannot tell from its own, so what is left of those is looked for
# when all of them have ended.
# shellcheck disable=SC2016 # for that shell
beside=(unshare --mount --propagation private sh -c '
	mount -t tmpfs -o mode=755 weft-join /run/netns && mount -t bpf bpf /sys/fs/bpf || exit
	trap : INT TERM
	"$@"
	rc=$?
	for i in 1 2 3 4 5 6 7 8 9 10; do
		left=$(find /run/netns /sys/fs/bpf -mindepth 1 ! -name "*.debug")	# the kernel puts two there
		[ -n "$left" ] || exit $rc
		sleep 1
	done
	echo "not ok - left behind: $left"
	exit 1' sh)
begin_suite() {
	local i=$1 words
	eval "words=(${commands[i]})"
	words=("${words[@]:3}")
	[ "${kinds[i]}" != fills ] || [ -z "$waiting" ] || [ "${words[0]}" = nice ] ||
		words=(chrt --idle 0 "${words[@]}")
	case ${kinds[i]} in
	joins | waits | rests) words=(env LAB_SHARED=1 "${beside[@]}" "${words[@]}") ;;
	esac
	states[i]=runs began[i]=${EPOCHREALTIME/./}
	timeout -k 10 "${limits[i]}" "${words[@]}" >"$tmp/$i.out" 2>&1 </dev/null &
	running[$!]=$i
}
# Nobody waits any more: the processes of those that fill are like others now.
wake_fills() {
	local pid p
	for pid in "${!running[@]}"; do
		for p in $(pgrep -g "$pid"); do chrt --all-tasks --other --pid 0 "$p"; done
	done 2>/dev/null
}
begin_suites() {
	local n first waiting='' joins='' kind

	while :; do
		count runs joins
		[ "$n" -eq 0 ] || joins=1
		[ "$n" -lt 2 ] || break
		count new joins
		[ -n "$first" ] || break
		joins=1
		begin_suite "$first"
	done
	waiting=$joins
	for kind in waits rests; do
		[ -z "$joins" ] || break
		count runs $kind
		[ "$n" -gt 0 ] || {
			count new $kind
			[ -z "$first" ] || begin_suite "$first"
		}
		waiting+=$first
	done
	if [ -n "$waiting" ]; then
		beside_one=1
	elif [ -n "$beside_one" ]; then
		beside_one=
		check_leftovers "leftovers of those with neighbours: no veth, tap or XDP program" links progs
		wake_fills
	fi
	while :; do
		count runs fills
		[ "$n" -lt "$(nproc)" ] || break
		count new fills "${joins:+ 'nice' }"
		[ -n "$first" ] || break
		begin_suite "$first"
	done
	[ ${#running[@]} -gt 0 ] && return
	count new suite
	[ -z "$first" ] || begin_suite "$first"
}
# Wait until one ends: $pid and $rc. "wait -n" does not tell of one that ended during another command.
next_end() {
	for pid in "${!running[@]}"; do
		kill -0 "$pid" 2>/dev/null || { wait "$pid"; rc=$?; return; }
	done
	wait -n -p pid "${!running[@]}"
	rc=$?
}
run_suites() {
	local pid rc i list beside_one=

	while begin_suites; [ ${#running[@]} -gt 0 ]; do
		if [ -t 1 ]; then
			list=
			for i in "${running[@]}"; do list+=" ${names[i]}"; done
			printf '...  %-72.72s\r' "$list"
		fi
		next_end
		i=${running[$pid]}
		unset "running[$pid]"
		status[i]=$rc states[i]=ended
		took[i]=$(((${EPOCHREALTIME/./} - began[i]) / 100000))
		while [ "${states[told]:-}" = ended ]; do
			tell "$told"
			told=$((told + 1))
		done
	done
}

# Without TAP output a suite is one test, judged by its exit status.
tell() {
	local i=$1 rc=${status[$1]} secs=${took[$1]} out=$tmp/$1.out pass fail skip plan words

	count_tap "$out"
	if [ $((pass + fail + skip)) -eq 0 ]; then
		[ "$rc" -eq 0 ] && pass=1 || fail=1
	elif [ "$rc" -ne 0 ] && [ "$fail" -eq 0 ]; then
		fail=1
	elif [ "$plan" -lt 0 ]; then
		echo "# no plan: it may have ended early" >>"$out"
		fail=$((fail + 1))
	fi
	passed=$((passed + pass)) failed=$((failed + fail)) skipped=$((skipped + skip))
	printf '%-5s %-32s %4d passed %3d failed %3d skipped %6d.%d s\n' \
		"$([ "$fail" -eq 0 ] && echo ok || echo FAIL)" "${names[i]}" "$pass" "$fail" "$skip" \
		$((secs / 10)) $((secs % 10))
	if [ "$fail" -ne 0 ]; then
		tail -n 400 "$out"
		reasons "${names[i]}" "$out" >>"$tmp/reasons"
		[ "$rc" -ge 124 ] && [ "$rc" -ne 127 ] &&
			echo "# ended by a signal or the limit of ${limits[i]} s (status $rc)"
		eval "words=(${commands[i]})"
		echo "replay: ${words[*]:3}"
	else
		# Worth seeing also when all is well: skips with their reasons, totals, coverage.
		grep -E '# *(SKIP|skip|total:|coverage:|note:)' "$out"
	fi
	rm -f "$out"
}
have() { [ -e "$1" ]; }
# A source without its program would be a test that silently does not run.
check_built() {
	local f missing=

	for f in tests/unit/*.c; do
		have "$f" && ! have "$O/tests/unit/$(basename "$f" .c)" && missing+="$f "
	done
	have tests/bpf && ! have "$O/tests/bpf/weft-bpf-test" && missing+="tests/bpf "
	have tests/sim && ! have "$O/tests/sim/weft-sim" && missing+="tests/sim "
	verdict "built: every test in the tree has its program" "${missing:+not built: $missing}"
}

# Those of tests/net that promise no time, the longest first, those that have time to spare, and of these the
# ones that stand beside the others; a new one runs alone until it is named here. Those that promise times
# come last: what fills first is a guest.
joiners='loaders edges forged dissector examples inject send order memory rings many flush hostile'
sleepers='errors weftd recv stress_post telemetry'
resters='setup faults idle life'
net_each() {	# net_each KIND NAME...
	local name

	for name in "${@:2}"; do
		each "$1" net 900 "tests/net/test_$name.sh"
	done
}
net_suites() {
	local f name

	for f in tests/net/test_*.sh; do
		name=$(basename "$f" .sh)
		[[ " $joiners $sleepers $resters " == *" ${name#test_} "* ]] || each suite net 900 "$f"
	done
}

log_lines=$(dmesg | wc -l)
snapshot before
check_built
if [ -n "$fast" ]; then
	each waits unit 120 "$O"/tests/unit/*
	have tests/bpf && waits bpf 120 "$O/tests/bpf/weft-bpf-test"
	have tests/net/smoke.sh && waits net/smoke 120 tests/net/smoke.sh
	have tests/sim && fills sim 240 "$O/tests/sim/weft-sim" --seeds "${SEEDS:-100}"
	have tests/man && fills man 120 tests/man/test_man.sh
else
	each joins unit 300 "$O"/tests/unit/*
	# one at a time, for its neighbour is the other
	have tests/bpf && joins bpf-mutants 1800 env JOBS=1 tests/bpf/mutate.sh
	# shellcheck disable=SC2086 # names
	net_each joins $joiners
	have tests/bpf && joins bpf 300 "$O/tests/bpf/weft-bpf-test"
	have tests/net/smoke.sh && joins net/smoke 300 tests/net/smoke.sh
	have vm/pair.sh && {
		joins vm-pair 1800 vm/pair.sh --timeout 1500
		joins vm-pair-6.12 1800 vm/pair.sh --kernel 6.12 --timeout 1500
	}
	# shellcheck disable=SC2086 # names
	net_each waits $sleepers
	# shellcheck disable=SC2086 # names
	net_each rests $resters
	# the longest first
	have vm/run.sh && fills vm 1800 nice -n 10 vm/run.sh --timeout 1500
	have tests/sim && fills sim-mutants 1800 tests/sim/mutate.sh
	have tests/unit/mutate.sh && fills unit-mutants 600 tests/unit/mutate.sh
	each fills matrix 1800 tests/matrix/test_arm64.sh tests/matrix/test_compilers.sh
	fills lint 1800 tools/lint.sh
	have tests/sim && {
		fills sim 1800 "$O/tests/sim/weft-sim" --seeds "${SEEDS:-2000}"
		fills sim-coverage 1800 tools/coverage.sh
		fills sim-sanitized 1800 "$O/tests/sim/weft-sim-san" --seeds 200
	}
	have tests/pkg && fills pkg/test_debbuild 1800 tests/pkg/test_debbuild.sh
	have tests/man && fills man 1800 tests/man/test_man.sh
	net_suites
	for f in tests/pkg/test_*.sh; do
		[[ $f == *_debbuild.sh ]] || each suite pkg 900 "$f"
	done
	have tests/fuzz && suite fuzz 600 tests/fuzz/run.sh 30
	# looks at what the programs cost that guest's verifier
	each suite matrix 900 tests/matrix/test_verifier.sh
fi
run_suites
check_leftovers "leftovers: no namespace, veth, tap, XDP program, pin or process" links netns pins progs procs
check_kernel_log

[ ! -s "$tmp/reasons" ] || { echo "What failed:"; head -n 200 "$tmp/reasons"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
