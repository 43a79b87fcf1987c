#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Many QPs, several processes, several devices, and everything else that uses the NIC meanwhile.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# Every packet that A has sent has come back: none fell out of a ring.
nothing_lost() {
	local drops
	until_true 60 settled "$LAB_B" "$LAB_IF_B"
	drops=$(lab_ring_drops)
	note "$("$WEFT" -n "$LAB_A" stats show "$LAB_IF_A")"
	note "$("$WEFT" -n "$LAB_B" stats show "$LAB_IF_B")"
	# a packet that a ring dropped is sent by A and seen by B in no way at all
	local sent seen key
	sent=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	seen=0
	# a needless repeat, from a slow processor, may come when its QP is gone
	for key in rx_data rx_dup busy window closed generation; do
		seen=$((seen + $(counter "$LAB_B" "$LAB_IF_B" "$key")))
	done
	t "drops == 0 && sent == seen" "$1: $sent sent, $seen arrived, $drops dropped by rings"
}

sixteen() {
	serve s "$LAB_B" --qps 16 --region 16m --conns 16 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --qps 16 --rounds 3 --src 2m --max 1m "$LAB_IF_A=10.9.0.2:7000"
	t -- finish_both c s ++ "16 QPs at once, 48 times 16 MiB"
	nothing_lost "16 QPs"
}

# over PID...: writers that have run for long enough end as they do after Ctrl-C
over() {
	local pid rc bad=0
	kill -TERM "$@"
	for pid in "$@"; do
		rc=0
		lab_wait "$pid" || rc=$?
		[ $rc = 130 ] || bad=1
	done
	return $bad
}

# Shares of 8 QPs of one process and of two processes: packets by `qp show`, read while they run.
shares() {
	local i ok=0
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	local server=$LAB_SPAWNED writers=()
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	for ((i = 0; i < $1; i++)); do
		lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --time 600 \
			--qps "$2" --size 256k -j >"$LAB_TMP/perf$i" 2>&1
		writers+=("$LAB_SPAWNED")
	done
	until_true 60 busy_qps $(($1 * $2)) 1000
	sleep 1
	# what else this machine does may favour one of them for a moment
	t -- eval "even $(($1 * $2)) || even $(($1 * $2)) || even $(($1 * $2))" ++ \
		"$1 processes with $2 QPs each: their shares are within a factor of 2"
	over "${writers[@]}" || ok=1
	lab_stop "$server"
	note "$(cat "$LAB_TMP"/perf[0-9])"
	t "ok == 0" "they write until they are told to end"
}

# even QPS: in two seconds, and until each has moved 1000 packets
even() {
	local a i min max
	a=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A")
	sleep 2
	until_true 60 moved "$1" "$a"
	read -r i min max <<<"$MOVED"
	echo "of $i QPs: $min to $max packets"
	((i == $1 && max <= 2 * min))
}

# moved QPS BEFORE: of so many QPs each has moved 1000 packets; how many, and the least and most of one in $MOVED
moved() {
	MOVED=$(paste -d: <(packets_of "$2") <(packets_of "$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A")") |
		awk -F: '$1 == $3 && $4 - $2 > 1000 {
			d = $4 - $2; n++; min = !min || d < min ? d : min; max = d > max ? d : max }
			END { print n + 0, min + 0, max + 0 }')
	((${MOVED%% *} == $1))
}

packets_of() {	# QPN:packets of each QP, in the order of QPNs
	tr -d ' \n' <<<"$1" | sed 's/{"dev"/\n&/g' | sed -n \
		's/.*"qpn":"\{0,1\}\([^",]*\).*"packets":\([0-9]*\).*/\1:\2/p' | sort
}

queues() {	# of both ends; a queue is a CPU that may hold tokens
	lab_in "$LAB_A" ethtool -L "$LAB_IF_A" rx "$1" tx "$1" &&
		lab_in "$LAB_B" ethtool -L "$LAB_IF_B" rx "$1" tx "$1"
}

# More QPs send than there are tokens, and some of their processes are stopped: nobody rings for them.
waiting() {
	local i servers=() busy=() stopped=() ok=0 handed
	both down
	t -- queues 1 ++ "one queue at each end"
	both up
	serve s "$LAB_B" --qps 4 --region 16m --conns 4 "$LAB_IF_B=:7000"
	for i in 0 1 2; do
		: >"$LAB_TMP/s$i"
		lab_spawn "$WEFT" -n "$LAB_B" perf server -p "747$i" "$LAB_IF_B" >"$LAB_TMP/s$i" 2>&1
		servers+=("$LAB_SPAWNED")
		lab_wait_line "$LAB_TMP/s$i" '^ready' "$LAB_SPAWNED"
		lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" "10.9.0.2:747$i" --time 600 \
			--qps 60 --size 256k -j >"$LAB_TMP/perf$i" 2>&1
		busy+=("$LAB_SPAWNED")
	done
	t -- until_true 60 busy_qps 180 ++ "three processes with 60 QPs each are at work"
	for i in 0 1 2 3; do
		writer "c$i" "$LAB_A" --rounds 1 --fixed 256k --stop-posted "$LAB_IF_A=10.9.0.2:7000"
		stopped+=("$CLIENT")
	done
	for i in 0 1 2 3; do
		lab_wait_line "$LAB_TMP/c$i" '^posted' "${stopped[i]}" 60 || ok=1
	done
	t "ok == 0" "four writers have posted beside 180 busy QPs, and stop"
	note "$(cat "$LAB_TMP"/c[0-3])"
	until_true 60 eval '[ "$(grep -c "round 0.*right" "$LAB_TMP/s")" = 4 ]' || ok=1
	t "ok == 0" "what they had posted arrives all the same, every byte right"
	handed=$(counter "$LAB_A" "$LAB_IF_A" handed)
	t "handed > 0" "by tokens of the others ($handed)"
	kill -CONT "${stopped[@]}"
	: >"$LAB_TMP/ends"
	for i in 0 1 2 3; do
		finish "${stopped[i]}" "c$i" >>"$LAB_TMP/ends" || ok=1
	done
	finish "$SERVER" s >>"$LAB_TMP/ends" || ok=1
	note "$(<"$LAB_TMP/ends")"
	t "ok == 0" "and they find all of it completed"
	over "${busy[@]}" || ok=1
	note "$(cat "$LAB_TMP"/perf[0-2])"
	t "ok == 0" "the busy ones end well"
	for i in "${servers[@]}"; do
		lab_stop "$i"
	done
	both down
	t -- queues "$(nproc --all)" ++ "as many queues as before"
	both up
}

# More QPs than a device holds as a rule, and a process; all of them write.
# The server has closed those of the client before, which takes a while of so many.
none_left() {
	[ "$("$WEFT" -n "$LAB_B" -j qp show "$LAB_IF_B" | grep -o '"qpn":' | wc -l)" = 0 ]
}

many() {
	local server writer rc
	both down
	t -- both up qps 1024 ++ "brought up for 1024 QPs"
	t -- grep -q '"qps": *1024' <("$WEFT" -n "$LAB_A" -j dev show "$LAB_IF_A") ++ "which it shows"
	t ! both up qps 2048 ++ "more cannot be had then"
	t -- both up qps 300 ++ "fewer are there"
	t ! both up qps 2049 ++ "2049 are too many"
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --qps 700 --size 16k --count 4096 --verify \
		-j >"$LAB_TMP/perf0" 2>&1
	note "$(<"$LAB_TMP/perf0")"
	t -- grep -q '"verified": *true' "$LAB_TMP/perf0" ++ "700 QPs of a process fill 64 MiB, every byte right"
	t -- until_true 60 none_left ++ "and are closed"
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --qps 1000 --size 64k --time 600 \
		-j >"$LAB_TMP/perf0" 2>&1
	writer=$LAB_SPAWNED
	t -- until_true 60 busy_qps 1000 100 ++ "1000 QPs of a process send, none is left out"
	t -- over "$writer" ++ "and end well"
	note "$(<"$LAB_TMP/perf0")"
	lab_stop "$server"
	both down
	both up
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --qps 300 >"$LAB_TMP/perf0" 2>&1
	rc=$?
	note "$(<"$LAB_TMP/perf0")"
	t "rc == 1" "more QPs than a device holds are refused"
	t -- grep -q "up with 256 QPs.*weft up .* qps 301" "$LAB_TMP/perf0" ++ "with the way to have them"
}

two_processes() {
	serve s1 "$LAB_B" --region 32m --conns 1 "$LAB_IF_B=:7001"
	local s1=$SERVER c1
	serve s2 "$LAB_B" --region 32m --conns 1 "$LAB_IF_B=:7002"
	local s2=$SERVER
	writer c1 "$LAB_A" --rounds 4 --max 4m "$LAB_IF_A=10.9.0.2:7001"
	c1=$CLIENT
	writer c2 "$LAB_A" --rounds 4 --max 4m "$LAB_IF_A=[fd09::2]:7002"
	SERVER=$s2
	t -- finish_both c2 s2 ++ "two processes on each NIC: the second"
	SERVER=$s1 CLIENT=$c1
	t -- finish_both c1 s1 ++ "and the first"
}

# A second pair between the same hosts, with a port and a checksum mode of its own.
two_devices() {
	lab_veth "$LAB_A" veth-c "$LAB_B" veth-d 1500
	ip -n "$LAB_A" addr add 10.9.1.1/24 dev veth-c
	ip -n "$LAB_B" addr add 10.9.1.2/24 dev veth-d
	ip -n "$LAB_A" link set veth-c up
	ip -n "$LAB_B" link set veth-d up
	serve s "$LAB_B" --region 16m --qps 2 --conns 4 "$LAB_IF_B=:7003" veth-d=10.9.1.2:7004
	writer c "$LAB_A" --rounds 2 --qps 2 "$LAB_IF_A=10.9.0.2:7003" veth-c=10.9.1.2:7004
	t -- finish_both c s ++ "one process writes through two devices, with 2 QPs on each"
	t -- "$WEFT" -n "$LAB_A" dev show "$LAB_IF_A" ++ "the first device is still up"
	t ! lab_no_xdp "$LAB_A" "$LAB_IF_A" ++ "with its program"
	t -- lab_no_xdp "$LAB_A" veth-c ++ "the second went with its last user"
	ip -n "$LAB_A" link del veth-c
}

lab_no_xdp() {
	! ip -n "$1" -d link show dev "$2" | grep -q 'prog/xdp'
}

# The control QP is idle: the data QP is the one that has sent much. Into $qpn and $json.
busy_qp() {
	json=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A")
	qpn=$(packets_of "$json" | awk -F: '$2 > 10000 { print $1 }')
	[ -n "$qpn" ]
}

cwnd() {
	local qpn json a n server writer
	serve s "$LAB_B" --region 16m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --time 600 "$LAB_IF_A=10.9.0.2:7000"
	until_true 60 busy_qp
	note "$json"
	t -- "$WEFT" -n "$LAB_A" qp set "$LAB_IF_A" "$qpn" cwnd 2 ++ "cwnd of a busy QP is set to 2"
	until_true 60 eval 'n=$(in_flight "$qpn") && ((n == 1 || n == 2))'
	t -- in_flight_at_most "$qpn" 2 ++ "and then at most 2 packets are out"
	a=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	t -- until_true 60 sent_more $((a + 1000)) ++ "it goes on"
	t -- "$WEFT" -n "$LAB_A" qp set "$LAB_IF_A" "$qpn" cwnd 128 ++ "cwnd is set to 128"
	a=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	t -- until_true 60 sent_more $((a + 10000)) ++ "it goes on from there, too"
	t ! "$WEFT" -n "$LAB_A" qp set "$LAB_IF_A" "$qpn" cwnd 513 ++ "513 is refused"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "and the transfer ends well, every byte right"

	# a listener that does not answer
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	freeze "$server"
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --time 1 >"$LAB_TMP/perf1" 2>&1
	writer=$LAB_SPAWNED
	until_true 60 being_set_up
	note "$json"
	packets_of "$json" >"$LAB_TMP/packets"
	t -- grep -q ':0$' "$LAB_TMP/packets" ++ "a QP that is being set up counts nothing of who had its slot before"
	kill -CONT "$server"
	lab_wait "$writer"
	lab_stop "$server"
}

being_set_up() {
	json=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A")
	[[ $json == *'"state":"init"'* ]]
}

in_flight() {	# packets of QPN that are out
	"$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" | jq -e --arg qpn "$1" '.[] | select("\(.qpn)" == $qpn).inflight'
}

# in_flight_at_most QPN N: at ten looks at which something is out
in_flight_at_most() {
	local n looks=0
	while ((looks < 10)); do
		n=$(in_flight "$1") && ((n <= $2)) || { echo "$n are out"; return 1; }
		((n == 0)) || looks=$((looks + 1))
	done
}

# TCP, ping, a VLAN and fragments, while weft has the NIC and is busy on it.
others() {
	local qpn listener
	serve s "$LAB_B" --region 16m "$LAB_IF_B=:7005"
	writer c "$LAB_A" --time 600 --cwnd 32 "$LAB_IF_A=10.9.0.2:7005"
	lab_wait_line "$LAB_TMP/c" 'round 0' "$CLIENT"
	t -- lab_in "$LAB_A" ping -c 3 -i 0.2 -W 10 10.9.0.2 ++ "ping passes"
	t -- lab_in "$LAB_A" ping -c 3 -i 0.2 -W 10 fd09::2 ++ "ping over IPv6 passes"
	# a VLAN device is not to be had on every kernel: send what one would
	qpn=$(sed -n 's/^qp 0: \(0x[0-9a-f]*\) connected.*/\1/p' "$LAB_TMP/c")
	: >"$LAB_TMP/seen"
	lab_spawn_in "$LAB_B" "$RAWSEND" "$LAB_IF_B" seen 30000 >"$LAB_TMP/seen"
	listener=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/seen" ready "$listener"
	lab_in "$LAB_A" "$RAWSEND" "$LAB_IF_A" "$qpn" vlan 50 "$SEED" 1000 >/dev/null
	lab_in "$LAB_A" "$RAWSEND" "$LAB_IF_A" "$qpn" fragment 50 "$SEED" 1000 >/dev/null
	kill -TERM "$listener"	# nothing more is sent
	lab_wait "$listener"
	note "$(<"$LAB_TMP/seen")"
	t "$(field seen vlan) >= 45" "what has a VLAN tag is passed to the host"
	t "$(field seen fragments) >= 45" "and so are fragments, also of our own packets"
	t -- lab_in "$LAB_A" ping -c 5 -i 0.2 -W 10 -s 65000 10.9.0.2 ++ "fragments pass"
	t -- fragments_of_our_port ++ "fragments of datagrams of 9000 bytes to weft's own port pass"
	lab_spawn_in "$LAB_B" iperf3 -s -1 --forceflush >"$LAB_TMP/iperf"
	local tcp=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/iperf" listening "$tcp"
	t -- lab_in "$LAB_A" iperf3 -c 10.9.0.2 -t 2 ++ "TCP passes"
	lab_wait "$tcp"
	kill -TERM "$CLIENT"
	t -- finish "$CLIENT" c ++ "and weft goes on beside them"
	kill -TERM "$SERVER"
	t -- finish "$SERVER" s ++ "with every byte right"
}

fragments_of_our_port() {
	local n i
	: >"$LAB_TMP/datagram"
	lab_spawn_in "$LAB_B" "$WIRELAB" recv 10.9.0.2:4793 1000 >"$LAB_TMP/datagram"
	local receiver=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/datagram" ready "$receiver"
	lab_in "$LAB_A" "$WIRELAB" send --gap-us 20000 10.9.0.2:4793 20 9000
	lab_wait "$receiver"
	cat "$LAB_TMP/datagram"
	n=$(lab_field "$(tail -n 1 "$LAB_TMP/datagram")" distinct)
	i=$(lab_field "$(tail -n 1 "$LAB_TMP/datagram")" corrupted)
	# a datagram is lost with any of its fragments, and the ring is shared
	((n >= 10 && i == 0))
}

lab_begin
lab_pair 3498
both up
tap_part sixteen && sixteen
tap_part processes && two_processes
tap_part shares && { shares 1 8; shares 2 2; }
tap_part waiting && waiting
tap_part many && many
tap_part devices && two_devices
tap_part cwnd && cwnd
tap_part others && others
both down
tap_end
