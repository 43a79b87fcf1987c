#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The examples are short, build from their source alone, and do what they say, also when packets get
# lost. Words on the command line: only these examples.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=hello.sh source=hosts.sh
# shellcheck disable=SC2034,SC2004	# conditions of t name variables; numbers of hosts index
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hello.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

build() {	# build NAME [SOURCE]: as a user would, against the header and the library
	"${CC:-gcc}" -Wall -Werror -I"$ROOT/include" -iquote "$ROOT/examples" -o "$LAB_TMP/$1" \
		"${2:-$ROOT/examples/$1.c}" "$LAB_BUILD/libweft.a" -lxdp -lbpf -lmnl -lpthread
}

short() {	# short NAME LINES
	local lines
	lines=$(wc -l <"$ROOT/examples/$1.c")
	t "lines <= $2" "$1.c has $lines lines, at most $2"
	t -- build "$1" ++ "it builds without a warning"
	t -- test -x "$LAB_BUILD/examples/$1" ++ "make has built it as well"
	t -- tells_usage "$1" ++ "without arguments it tells how it is used"
}

tells_usage() {
	local rc=0
	"$LAB_TMP/$1" >/dev/null 2>&1 || rc=$?
	[ $rc = 2 ]
}

# start NAME HOST PROGRAM ARGS...: in the background; output and messages go to $LAB_TMP/NAME and
# NAME.err, the pid to PID[NAME]; its input is that of $INPUT
declare -A PID
export INPUT=/dev/null
start() {
	local name=$1 ns=${NS[$2]}
	shift 2
	# shellcheck disable=SC2016	# for the inner shell
	lab_spawn_in "$ns" sh -c 'exec "$0" "$@" <"$INPUT"' "$LAB_TMP/$1" "${@:2}" \
		>"$LAB_TMP/$name" 2>"$LAB_TMP/$name.err"
	PID[$name]=$LAB_SPAWNED
}

# server NAME PORT HOST PROGRAM ARGS...: likewise, and it listens
server() {
	start "$1" "${@:3}"
	until_true 60 listens "${NS[$3]}" "$2" || note "no server: $(<"$LAB_TMP/$1.err")"
}

listens() {
	[ -n "$(lab_in "$1" ss -Hltn sport = ":$2")" ]
}

ends() {	# ends NAME [SIGNAL]: with 0
	[ -z "${2:-}" ] || kill "-$2" "${PID[$1]}"
	finish "${PID[$1]}" "$1" || { cat "$LAB_TMP/$1.err"; return 1; }
}

on() {	# on HOST PROGRAM ARGS...
	lab_in "${NS[$1]}" timeout 90 "$LAB_TMP/$2" "${@:3}"
}

# ---- pingpong ----------------------------------------------------------------------------------

pingpong() {	# HOST-ADDRESS TIMES BYTES OPTIONS...
	server pp 7474 2 pingpong -s "$3" "${@:4}" e0
	on 1 pingpong -n "$2" -s "$3" "${@:4}" e0 "$1" >"$LAB_TMP/said"
	local rc=$?
	ends pp && [ $rc = 0 ] && grep -qE "^$2 times $3 bytes .* p50 [0-9.]+ us, p99 [0-9.]+ us" "$LAB_TMP/said"
}

unequal() {
	server pp 7474 2 pingpong e0
	on 1 pingpong -s 9 e0 10.9.0.2
	local rc=$?
	finish "${PID[pp]}" pp 1 && [ $rc = 1 ]
}

# ---- kvread ------------------------------------------------------------------------------------

# kv_server USLEEP: with lines for it without end, each value one letter over and over
kv_server() {
	local INPUT=$LAB_TMP/lines
	[ -p "$INPUT" ] || mkfifo "$INPUT"
	# shellcheck disable=SC2016	# for perl
	lab_spawn perl -e 'open(STDOUT, ">", $ENV{INPUT}); $| = 1;
		for ($n = 0;; $n++) {
			print "key", $n % 8, " ", chr(97 + $n % 26) x (4031 - $n % 100), "\n";
			select(undef, undef, undef, $ARGV[0] / 1e6) if $ARGV[0];
		}' "$1"
	FEEDER=$LAB_SPAWNED
	server kv 7475 1 kvread e0
	until_true 60 on 2 kvread e0 10.9.0.1 key7
}

kv_end() {
	ends kv TERM || return 1
	lab_stop "$FEEDER"
}

torn() {	# lines of more than one letter
	awk '{ gsub(substr($0, 1, 1), "") } $0 != "" { n++ } END { print n + 0 }' "$LAB_TMP/said"
}

look_up() {
	on 3 kvread -e -n 200 e0 fd09::1 key{0..7} >"$LAB_TMP/said" 2>"$LAB_TMP/said.err"
}

# As often as it takes until a value was changed just then.
some_again() {
	local i
	for i in {1..20}; do
		look_up && (($(wc -l <"$LAB_TMP/said") == 1600 && $(torn) == 0)) || { echo "$(torn) torn"; return 1; }
		! grep -E 'again: [1-9]' "$LAB_TMP/said.err" || return 0
	done
	return 1
}

kvread_all() {
	kv_server 500
	t -- some_again ++ "kvread: 1600 values that change meanwhile, each is whole; some were torn, and read again"
	note "$(<"$LAB_TMP/said.err")"
	t -- same_value ++ "a key that does not exist is said, and the others come"
	t -- kv_end ++ "the server ends on SIGTERM"
	printf 'bad\ngood a value\n' >"$LAB_TMP/two"
	INPUT=$LAB_TMP/two server kv 7475 1 kvread e0
	t -- malformed ++ "a line without a value is said"
	ends kv TERM
	t -- kvread_naive ++ "without the version word, values are torn"
}

malformed() {
	until_true 60 on 2 kvread e0 10.9.0.1 good && [ "$(on 2 kvread e0 10.9.0.1 good)" = 'a value' ] &&
		grep -q 'bad: no value; a line is KEY VALUE' "$LAB_TMP/kv.err"
}

same_value() {
	! on 2 kvread e0 10.9.0.1 key1 nokey key2 >"$LAB_TMP/said" 2>"$LAB_TMP/said.err" &&
		[ "$(wc -l <"$LAB_TMP/said")" = 2 ] && grep -qx 'kvread: nokey: no such key' "$LAB_TMP/said.err"
}

# That the values above were whole is worth something if others would not be.
tears() {
	on 3 kvread -n 200 e0 10.9.0.1 key{0..7} >"$LAB_TMP/said" 2>"$LAB_TMP/said.err" &&
		[ "$(torn)" -gt 0 ]
}

kvread_naive() {
	sed 's/copy->before == copy->after && .*/1)/' "$ROOT/examples/kvread.c" >"$LAB_TMP/naive.c"
	build kvread "$LAB_TMP/naive.c" || return 1
	kv_server 0
	until_true 60 tears
	local rc=$?
	kv_end && return $rc
}

# ---- counter -----------------------------------------------------------------------------------

each_once() {
	cat "$LAB_TMP"/c[234] | sort -n | diff -q - <(seq 0 5999)
}

counter_all() {
	local n
	server tickets 7476 1 counter e0
	for n in 2 3 4; do
		start "c$n" "$n" counter -e -n 2000 e0 "$([ "$n" = 3 ] && echo fd09::1 || echo 10.9.0.1)"
	done
	for n in 2 3 4; do
		t -- ends "c$n" ++ "counter: host $n has its 2000 tickets"
	done
	t -- each_once ++ "every number from 0 to 5999 has come once"
	t -- ends tickets TERM ++ "the server ends on SIGTERM"
	t -- grep -qx '6000 tickets drawn, the record is 6000' "$LAB_TMP/tickets" ++ "and has the exact sum"
}

# ---- allreduce ---------------------------------------------------------------------------------

# vectors FLOATS: of each host, v1 to v4, and their sum. Whole numbers: in whatever order they are
# added, the sum is exact.
vectors() {
	(cd "$LAB_TMP" && perl -e 'my ($n) = @ARGV; srand('"$SEED"'); my @sum = (0) x $n;
		sub put { open(my $o, ">:raw", shift); print $o pack("f<*", @_) }
		for my $f (1 .. 4) { my @v = map { int(rand(8e6)) - 4e6 } 1 .. $n;
			put("v$f", @v); $sum[$_] += $v[$_] for 0 .. $n - 1 }
		put("sum", @sum)' "$1")
}

sums() {	# sums HOST...
	local n rc=0
	for n in "$@"; do
		start "r$n" "$n" allreduce -r $((n - 1)) e0 "$LAB_TMP/v$n" "${RING[@]}"
	done
	for n in "$@"; do
		ends "r$n" && cmp "$LAB_TMP/r$n" "$LAB_TMP/sum" || rc=1
	done
	return $rc
}

allreduce_all() {
	RING=(10.9.0.{1..4})
	vectors 500003
	t -- sums 3 1 4 2 ++ "allreduce: 500003 floats over four hosts, every byte as the reference"
	RING=(fd09::{1..4})
	vectors 3
	t -- sums 1 2 3 4 ++ "and 3 floats, fewer than there are hosts"
	echo >>"$LAB_TMP/v3"
	echo 123 >>"$LAB_TMP/v3"
	sums 1 2 3 4 >/dev/null
	t -- grep -q 'waiting for fd09::2' "$LAB_TMP/r3.err" ++ "each says for whom it waits"
	t -- grep -q 'the next host has 4 floats, this one 3' "$LAB_TMP/r2.err" ++ "vectors of unequal length are refused"
}

# ---- all of them -------------------------------------------------------------------------------

hello_all() {
	HELLO=$LAB_TMP/hello
	lab_pair 3498
	short hello 50
	t -- hello :7470 10.9.0.2:7470 "one, two, three" ++ "it says hello over IPv4"
	t -- hello '[fd09::2]:7470' '[fd09::2]:7470' "$(head -c 3000 /dev/zero | tr '\0' x)" ++ \
		"and 3000 bytes over IPv6"
	t -- hello :7470 10.9.0.2:7470 "after strangers" 'GET /' "$REQUEST" "$REQUEST\x55" ++ \
		"strangers before do not keep it from listening"
	t ! lab_in "$LAB_A" "$HELLO" client "$LAB_IF_A" 10.9.0.2:7470 x ++ "without a server it fails"
	lab_down
}

pingpong_all() {
	hosts_impair --loss 0
	t -- pingpong 10.9.0.2 1000 8 ++ "pingpong: 1000 times 8 bytes, polled"
	hosts_impair --loss 10000
	t -- pingpong fd09::2 300 100000 -e ++ "and 300 times 100000, asleep, with 1% loss"
	t -- unequal ++ "sizes that differ are refused"
}

every_host() {	# up|down
	local n pids=()
	for n in "${HOSTS[@]}"; do
		lab_spawn "$WEFT" -n "${NS[$n]}" "$1" e0
		pids+=("$LAB_SPAWNED")
	done
	for n in "${pids[@]}"; do
		lab_wait "$n"
	done
}

lab_begin
tap_part hello && hello_all
hosts_up
hosts_impair --seed $((SEED % 100000)) --loss 10000
for example in pingpong kvread counter allreduce; do
	tap_part $example || continue
	# the first brings weft up by itself; to load it for each of the others' programs takes longer than they do
	[ $example != kvread ] || every_host up
	short $example 200
	# allreduce waits for its neighbours, for a minute
	[ $example = allreduce ] ||
		t ! on 1 $example e0 10.9.0.2 x ++ "without a server it fails"
	${example}_all
	lost=$(lab_field "$(lab_stats --reset)" lost 1)
	t "lost > 5" "packets were lost meanwhile: $lost"
done
every_host down
tap_end
