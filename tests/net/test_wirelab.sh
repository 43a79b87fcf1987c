#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The wire laboratory does to packets what it says, no more, and goes without a trace.
# shellcheck disable=SC2034,SC2154,SC2119	# traffic() sets r_* and w_* by name
# shellcheck source-path=SCRIPTDIR source=lab.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

if [ "${1:-}" = --victim ]; then	# the test of Ctrl-C runs this script as its victim
	lab_begin
	lab_middle 3498 --loss 1000
	echo "up $LAB_ID"
	lab_spawn sleep 60
	wait "$LAB_SPAWNED"
	exit 0
fi

N=0 FAILED=0
check() {	# check NAME CONDITION...: an arithmetic condition or a command after --
	local name=$1 ok=0
	shift
	N=$((N + 1))
	if [ "$1" = -- ]; then
		shift
		"$@" >/dev/null 2>&1 || ok=1
	else
		(($1)) || ok=1
	fi
	if [ $ok = 0 ]; then
		echo "ok $N - $name"
		return
	fi
	FAILED=$((FAILED + 1))
	echo "not ok $N - $name"
	printf '# condition: %s\n# seen: %s\n# wire: %s\n' "$*" "${SEEN:-}" "${WIRE:-}"
	echo "# replay: tests/net/test_wirelab.sh"
}

check_not() {
	local name=$1
	shift
	check "$name" -- not "$@"
}

not() {
	! "$@"
}

# refused WHY COMMAND...: it fails, and for this reason
refused() {
	local out
	out=$("${@:2}" 2>&1) && return 1
	SEEN=$out
	grep -q -- "$1" <<<"$out"
}

# traffic COUNT SIZE [RECV HOST:PORT] [SEND OPTIONS]: leaves SEEN (receiver), WIRE (middle) and
# their numbers in r_* and w_*. One sending processor, so that the draws repeat.
traffic() {
	local count=$1 size=$2 to=${3:-10.9.0.2:4793} k
	shift $(($# < 3 ? $# : 3))
	"$WIRELAB" stats --pin "$LAB_PIN" --reset >/dev/null
	: >"$LAB_TMP/recv"
	lab_spawn_in "$LAB_B" "$WIRELAB" recv --until-term "$to" 100 >"$LAB_TMP/recv"
	local receiver=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/recv" ready "$receiver"
	lab_run_in "$LAB_A" taskset -c 0 "$WIRELAB" send "$@" "$to" "$count" "$size"
	kill -TERM "$receiver"	# nothing more is sent
	lab_wait "$receiver"
	SEEN=$(tail -n 1 "$LAB_TMP/recv")
	WIRE=$(lab_stats)
	for k in received distinct duplicates corrupted late late_max ce ttl; do
		[[ $SEEN =~ \"$k\":([0-9]+) ]]
		printf -v "r_$k" %s "${BASH_REMATCH[1]:--1}"
	done
	for k in packets data lost lost_data dup dup_late corrupted reordered detour_out ce \
		other ttl_expired; do
		[[ $WIRE =~ \"$k\":([0-9]+) ]]
		printf -v "w_$k" %s "${BASH_REMATCH[1]:--1}"
	done
}

# within VALUE TRIALS PPM: VALUE is within 5 standard deviations of its binomial mean
within() {
	awk -v x="$1" -v n="$2" -v p="$3" 'BEGIN { p /= 1e6; m = n * p; s = sqrt(m * (1 - p))
		exit !(x >= m - 5 * s - 1 && x <= m + 5 * s + 1) }'
}

# a second wirelab on the same ports
second_lab() {
	lab_in "$LAB_M" "$WIRELAB" run --ports "$LAB_M0,$LAB_M1" --pin "$LAB_PIN-2" "$@"
}

tcp_bytes() {	# as iperf3 takes them
	: >"$LAB_TMP/iperf"
	lab_spawn_in "$LAB_B" iperf3 -s -1 --forceflush >"$LAB_TMP/iperf"
	local server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/iperf" listening "$server"
	lab_run_in "$LAB_A" iperf3 -c 10.9.0.2 -n "$1" -J >"$LAB_TMP/iperf.json"
	lab_wait "$server"
	SEEN=$(tail -n 5 "$LAB_TMP/iperf" | tr '\n' ' ')
	received=$(awk '/"sum_received"/ { f = 1 } f && /"bytes"/ { gsub(/[^0-9]/, ""); print
		exit }' "$LAB_TMP/iperf.json")
	retransmits=$(awk '/"sum_sent"/ { f = 1 } f && /"retransmits"/ { gsub(/[^0-9]/, "")
		print; exit }' "$LAB_TMP/iperf.json")
}

test_transparent() {
	check "ping over IPv4 and ARP pass" -- lab_in "$LAB_A" ping -c 1 -W 10 10.9.0.2
	check "ping over IPv6 and neighbour discovery pass" -- lab_in "$LAB_A" ping -c 1 -W 10 fd09::2
	local i
	for i in 1 2 3; do
		# veth lets its next poll begin before the last one's redirects are out: what the kernel
		# itself sends meanwhile (neighbour discovery) can move the queue to another processor
		traffic 20000 64
		((r_late)) || break
	done
	check "without rates all arrives once, intact, in order" "r_received == 20000 &&
		r_distinct == 20000 && r_corrupted == 0 && r_late == 0 && w_packets == 20000"
	local sports
	sports=$(grep -o '"sports":{[^}]*}' <<<"$WIRE" | head -n 1)
	check "source port is counted" -- grep -qE '^"sports":\{"[0-9]+":20000\}$' <<<"$sports"
	traffic 500 3400 10.9.0.2:4793
	check "frames of the largest MTU pass" "r_distinct == 500 && w_data == 500"
}

test_loss() {
	local ppm first
	for ppm in 1000 10000 50000; do
		lab_impair --loss $ppm
		traffic 20000 64
		check "loss of $ppm ppm: $w_lost of 20000" -- within "$w_lost" 20000 $ppm
		check "what is not lost arrives ($ppm ppm)" "r_distinct == 20000 - w_lost &&
			r_received == r_distinct"
	done
	first=$w_lost
	traffic 20000 64
	check "the same seed loses the same number" "w_lost == first"
	lab_impair --seed 2
	traffic 20000 64
	ppm=$w_lost
	lab_impair --seed 3
	traffic 20000 64
	check "other seeds do not" "!(w_lost == first && ppm == first)"
	lab_impair --loss 0,1000000 --seed 1
	traffic 500 64
	check "directions have their own rates" "r_distinct == 500 && w_lost == 0"
	lab_impair --loss 50000
	traffic 5000 64 '[fd09::2]:4793'
	check "IPv6 is impaired as well" -- within "$w_lost" 5000 50000
	check "small packets lost do not count as data" "w_lost_data == 0"
	lab_impair --loss 1000000
	traffic 20 500 10.9.0.2:4794
	check "other ports are left alone" "r_distinct == 20 && w_packets == 0"
	check "ping is left alone" -- lab_in "$LAB_A" ping -c 1 -W 10 10.9.0.2
	lab_impair --all
	check_not "--all impairs ping as well" lab_in "$LAB_A" ping -c 1 -W 1 10.9.0.2
	lab_impair --no-all --loss 0
}

test_dup() {
	lab_impair --dup 20000 --hops 0
	traffic 20000 64
	check "duplication of 2%: $w_dup of 20000" -- within "$w_dup" 20000 20000
	check "each duplicate arrives" "r_duplicates == w_dup && r_distinct == 20000 &&
		w_dup_late == 0"
	lab_impair --hops 8
	traffic 4000 3400
	check "large frames are duplicated, half of the copies late" "w_dup > 0 &&
		r_duplicates == w_dup && r_distinct == 4000 && w_dup_late > w_dup / 4 &&
		w_dup_late < w_dup && w_detour_out == w_dup_late"
	lab_impair --dup 0
}

test_corrupt() {
	lab_impair --corrupt 20000 --corrupt-range 8:65535
	traffic 10000 400 10.9.0.2:4793 --no-check
	check "corruption of 2%: $w_corrupted of 10000" -- within "$w_corrupted" 10000 20000
	check "each corrupted packet arrives corrupted" "r_corrupted == w_corrupted &&
		r_received == 10000"
	lab_impair --scatter
	traffic 10000 400 10.9.0.2:4793 --no-check
	check "scattered corruption too" "r_corrupted == w_corrupted && w_corrupted > 100"
	lab_impair --no-scatter --corrupt-range 0:65535
	traffic 10000 400
	check "a UDP checksum catches each corruption within a byte" "r_corrupted == 0 &&
		r_received == 10000 - w_corrupted && w_corrupted > 100"
	lab_impair --corrupt 1000000
	traffic 20 400 10.9.0.2:4794
	check "nothing but the port is ever corrupted" "r_distinct == 20 && r_corrupted == 0"
	lab_impair --corrupt 0
}

# Socket traffic goes through the middle one packet at a time, so there would be nobody to
# overtake. A NAPI thread in the middle makes batches, as traffic between XDP programs has.
test_reorder() {
	traffic 5000 64 10.9.0.2:4793 --gap-us 200
	check "without reordering nothing is late" "r_late == 0"
	ip netns exec "$LAB_M" sh -c "echo 1 >/sys/class/net/$LAB_M0/threaded"
	lab_impair --reorder 20000 --hops 8
	traffic 20000 64 10.9.0.2:4793 --gap-us 200
	check "reordering of 2%: $w_reordered of $w_packets" -- within "$w_reordered" "$w_packets" 20000
	check "most detours end in overtaking ($r_late late, by up to $r_late_max)" \
		"r_late > w_reordered / 2 && r_late_max >= 8"
	check "no frame is lost on the detour" "w_detour_out == w_reordered &&
		r_distinct == w_packets && r_received == w_packets"
	traffic 1000 3400
	check "large frames take the detour too" "w_reordered > 0 && w_detour_out == w_reordered &&
		r_distinct == w_packets"
	lab_impair --reorder 0
	ip netns exec "$LAB_M" sh -c "echo 0 >/sys/class/net/$LAB_M0/threaded"
}

test_marks() {
	local to
	lab_impair --ce 100000 --ttl
	for to in 10.9.0.2:4793 '[fd09::2]:4793'; do
		traffic 5000 64 "$to" --ect
		check "CE marks of 10% to $to: $w_ce of 5000" -- within "$w_ce" 5000 100000
		check "each mark arrives, checksums right" "r_ce == w_ce && r_distinct == 5000"
		check "TTL is one less" "r_ttl == 63 && w_ttl_expired == 0"
	done
	traffic 2000 64
	check "what is not ECT is not marked" "r_ce == 0 && w_ce == 0 && r_distinct == 2000"
	lab_impair --ce 0 --no-ttl
}

test_errors() {
	check "a second program on a port is refused" -- refused 'attached already' second_lab
	check "and the first one stays" -- lab_in "$LAB_A" ping -c 1 -W 10 10.9.0.2
	check_not "and leaves no pins" test -e "$LAB_PIN-2"
	check "an unknown port is refused" -- refused 'nope: no such interface' \
		lab_in "$LAB_M" "$WIRELAB" run --ports nope,nope2
	check "tc knows loss only" -- refused 'only --loss works by tc' \
		lab_in "$LAB_M" "$WIRELAB" run --tc --ports "$LAB_M0,$LAB_M1" --dup 5
	check "rates above 1000000 are refused" -- refused '1000001: not a value' lab_impair --loss 1000001
}

test_tcp() {
	tcp_bytes 64M
	check "TCP passes the XDP middle without offload" "received > 15000000"
	lab_down
	lab_middle_plain 3498 10000
	check "TSO is on for the plain middle" -- grep -q 'tcp-segmentation-offload: on' \
		<(lab_in "$LAB_A" ethtool -k "$LAB_IF_A")
	tcp_bytes 200M
	WIRE=$(lab_stats)
	check "TCP passes the plain middle at 1% loss" "received > 150000000 && retransmits > 0"
	check "loss of the plain middle is 1%" -- within "$(lab_field "$WIRE" lost)" \
		"$(lab_field "$WIRE" packets)" 10000
}

# The victim gets a session of its own, so that the signal reaches all of it as from a terminal.
# env, because a shell's background jobs are born with SIGINT ignored.
test_interrupt() {
	local id rc=0
	: >"$LAB_TMP/victim"
	setsid env --default-signal=INT "${BASH_SOURCE[0]}" --victim >"$LAB_TMP/victim" &
	local victim=$!
	LAB_PIDS+=("$victim")
	lab_wait_line "$LAB_TMP/victim" '^up' "$victim"
	id=$(awk '/^up/ { print $2 }' "$LAB_TMP/victim")
	check "the victim is up" -- test -e "/run/netns/$id-m"
	kill "-$1" -- "-$victim"
	wait "$victim" || rc=$?
	lab_forget "$victim"
	check "SIG$1 ends the laboratory with $2" "rc == $2"
	check_not "and leaves no namespace" compgen -G "/run/netns/$id-*"
	check_not "and no pins" compgen -G "/sys/fs/bpf/wirelab-$id*"
}

lab_begin
lab_middle
test_transparent
test_loss
test_dup
test_corrupt
test_reorder
test_marks
test_errors
test_tcp
test_interrupt TERM 143
test_interrupt INT 130
lab_end
check "nothing is left behind, no kernel warnings" "$? == 0"
echo "1..$N"
[ $FAILED = 0 ]
