#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# weft perf: what its options promise, and what it says when the interface is taken from it.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

perf_server() {	# its output is $LAB_TMP/perf, its pid in $SERVER
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$SERVER" || note "no server: $(<"$LAB_TMP/perf")"
}

perf_op() {	# write|read ARGS...: its JSON is in $LAB_TMP/write
	"$WEFT" -n "$LAB_A" perf "$1" "$LAB_IF_A" 10.9.0.2 -j "${@:2}" >"$LAB_TMP/write"
}

perf_write() {
	perf_op write "$@"
}

# How a bandwidth run waits for completions.
waiting() {
	local size
	for size in 1m 64; do
		t -- perf_write --size $size --time 0.5 --event --verify ++ "--event, messages of $size"
		t "$(field write spins) == 0 && $(field write sleeps) > 0" \
			"sleeps whenever there is nothing: $(field write sleeps) times, $(field write spins) polls in vain"
	done
	t -- perf_write --size 1m --time 0.5 --poll --verify ++ "--poll"
	t "$(field write spins) > 0 && $(field write sleeps) == 0" "never sleeps"
	t ! perf_write --poll --event ++ "both together are refused"
}

# One completion for several messages: all are counted, and who sleeps is woken less often.
moderated() {
	local op mod
	for op in write read send; do
		for mod in 1 7 20; do
			t -- perf_op $op --size 20000 --count 1001 --depth 20 --qps 3 --cq-mod $mod --event --verify ++ \
				"$op, one completion in $mod"
			t "$(field write messages) == 1001 && $(field write cq_mod) == $mod" \
				"all of them counted, $(field write sleeps) sleeps"
		done
	done
	for op in write read send; do
		t -- perf_op $op --size 5000 --count 130 --qps 40 --depth 20 --cq-mod 20 --verify ++ \
			"$op, QPs that are never full"
	done
	t -- perf_write --qps 2 --size 64k --count 40 --verify ++ "two QPs that are never full"
	t -- perf_write --qps 7 --depth 64 --cq-mod 13 --size 8k --count 3001 --event --verify ++ "seven that end unevenly"
	t -- perf_write --time 2 --depth 256 --cq-mod 256 --size 16m --verify ++ "4 GiB for one completion"
	t -- perf_write --size 16k --count 5000 --event --verify ++ "WRITEs of 16 KiB"
	t "$(field write cq_mod) == 64 && $(field write sleeps) < 1000" "$(field write sleeps) sleeps for 5000"
	t -- perf_write --size 4k --count 1000 --verify ++ "WRITEs of 4 KiB"
	t "$(field write cq_mod) == 1" "each has a completion"
}

# Pasted as a block, the client comes before the server listens, and waits up to 2 s for it. The server is
# begun when the client has been refused once; to load programs would take a slow machine too long by then.
early() {
	local refused
	refused=$(resets)
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --count 10 >"$LAB_TMP/early" 2>&1
	CLIENT=$LAB_SPAWNED
	until_true 60 refused_since "$refused"
	perf_server
	finish "$CLIENT" early
}

refused_since() {
	(($(resets) > $1))
}

resets() {	# sent by B
	lab_in "$LAB_B" nstat -asz TcpOutRsts | awk '/^TcpOutRsts/ { print $2 }'
}

early_enough() {
	"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
	"$WEFT" -n "$LAB_B" up "$LAB_IF_B"
	t -- eval 'early || { lab_stop "$SERVER"; early; } || { lab_stop "$SERVER"; early; }' ++ \
		"a client that comes before its server waits for it"
}

# Small WRITEs share packets, as the server counts them; in strict order they go one by one.
sharing() {
	local data=0 writes=0
	data=$(counter "$LAB_B" "$LAB_IF_B" rx_data) writes=$(counter "$LAB_B" "$LAB_IF_B" rx_writes)
	t -- perf_write --size 64 --count 200000 --verify ++ "200000 WRITEs of 64 bytes"
	data=$(($(counter "$LAB_B" "$LAB_IF_B" rx_data) - data))
	writes=$(($(counter "$LAB_B" "$LAB_IF_B" rx_writes) - writes))
	t "$data < 150000 && $writes > 10000" "in $data packets, $writes of them with several"
	writes=$(counter "$LAB_B" "$LAB_IF_B" rx_writes)
	t -- perf_write --size 64 --strict --count 20000 --verify ++ "20000 in strict order"
	writes=$(($(counter "$LAB_B" "$LAB_IF_B" rx_writes) - writes))
	t "$writes < 100" "each in a packet of its own"
}

# Latency runs touch fresh memory all the time, and all of it is compared.
latency() {
	t -- perf_write --lat --count 5000 --verify ++ "--lat, the whole of 64 MiB compared"
	t -- grep -q 'all 67108864 bytes are right' "$LAB_TMP/perf" ++ "at the server, too"
	note "$(<"$LAB_TMP/write")"
	t "$(field write packets) < 2 * $(field write messages)" "the packets that filled it do not count"
	t -- perf_write --lat --size 1001 --count 3000 --region 65537 --verify ++ "odd sizes"
	t -- perf_write --lat --size 0 --count 100 --verify ++ "and empty messages"
	t -- perf_write --lat --event --count 2000 --verify ++ "with --event"
}

# READs: the same options, compared on this side.
reading() {
	t -- perf_op read --size 1m --time 0.5 --verify ++ "READs of 1 MiB"
	t -- perf_op read --size 12345 --qps 3 --count 2000 --region 1m --verify ++ "of odd size by three QPs"
	t -- perf_op read --lat --size 64 --count 2000 --region 64k --verify ++ "one at a time"
	t "$(field write messages) == 2000" "all of them counted"
	t -- perf_op read --lat --event --size 8 --count 500 ++ "sleeping for each"
	t -- perf_op read --size 0 --count 100 --verify ++ "empty ones"
}

# SENDs: receives that the server posts; what is compared lies where those say.
sending() {
	t -- perf_op send --size 64k --time 0.5 --verify ++ "SENDs of 64 KiB"
	t "$(field write messages) > 0 && $(field write errors) == 0" "some of them"
	t -- perf_op send --size 12345 --qps 3 --count 2000 --region 1m --verify ++ "of odd size by three QPs"
	t -- perf_op send --size 100 --qps 3 --count 50 --region 64k --verify ++ "fewer than there are places"
	t -- perf_op send --lat --count 2000 --region 64k --verify ++ "answered by SENDs, one at a time"
	t "$(field write messages) == 2000" "all of them counted"
	t -- perf_op send --lat --event --size 9000 --count 500 --region 64k --verify ++ "to a server that sleeps"
	t -- perf_op send --size 0 --count 100 --verify ++ "empty ones"
}

# A server that posts no receives for a while: what goes again for that is told apart from what was lost.
refused() {
	local rnrs sent
	"$WEFT" -n "$LAB_A" up "$LAB_IF_A"	# the counters outlive the client
	sent=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	rnrs=$(counter "$LAB_A" "$LAB_IF_A" rx_rnr)
	lab_spawn "$WEFT" -n "$LAB_A" perf send "$LAB_IF_A" 10.9.0.2 -j --size 4k --time 2 >"$LAB_TMP/write"
	CLIENT=$LAB_SPAWNED
	until_true 60 sent_more $((sent + 1000))
	kill -STOP "$SERVER"
	until_true 60 refused_more "$(counter "$LAB_A" "$LAB_IF_A" rx_rnr)"
	kill -CONT "$SERVER"
	t -- finish "$CLIENT" write ++ "SENDs to a server that is stopped for a while"
	rnrs=$(($(counter "$LAB_A" "$LAB_IF_A" rx_rnr) - rnrs))
	t "rnrs > 0 && $(field write rnrs) == rnrs" "all $rnrs refusals are told"
	note "$(<"$LAB_TMP/write")"
	t "$(field write retransmits) >= rnrs" "and are among the $(field write retransmits) packets sent again"
	t -- perf_write --size 4k --count 1000 ++ "WRITEs"
	t "$(field write rnrs) == 0" "are refused by nobody"
}

refused_more() {
	(($(counter "$LAB_A" "$LAB_IF_A" rx_rnr) > $1))
}

# What does not count is bounded in time as well: of large messages it would take minutes.
warm_up() {
	t -- perf_write --lat --size 256m --region 512m --count 2 ++ "--lat of 256 MiB, twice"
	# 80660 packets a message; half a second has room for a few
	t "$(field write messages) == 2 && $(field write packets) < 4000000" \
		"takes $(field write packets) packets, what does not count included"
}

# Atomics: each once.
adding() {
	t -- perf_op atomic --time 0.5 --verify ++ "atomics, 64 at a time"
	t -- perf_op atomic --qps 3 --count 2000 --verify ++ "of three QPs"
	t -- perf_op atomic --lat --count 2000 --verify ++ "one at a time"
	t "$(field write messages) == 2000" "all of them counted"
	t ! perf_op atomic --size 16 ++ "of another size: refused"
}

perf_words() {	# ARGS...: what it says is in $LAB_TMP/client
	perf_write "$@" 2>"$LAB_TMP/client"
}

# Devices with few QPs: each side says what there is too little of, and how there would be more.
crowded() {
	"$WEFT" -n "$LAB_A" down "$LAB_IF_A" 2>/dev/null
	lab_stop "$SERVER"
	"$WEFT" -n "$LAB_B" down "$LAB_IF_B" 2>/dev/null
	"$WEFT" -n "$LAB_B" up "$LAB_IF_B" qps 4
	perf_server
	t ! perf_words --count 1 --qps 8 ++ "more QPs than the server's device has"
	note "$(<"$LAB_TMP/client")" "$(<"$LAB_TMP/perf")"
	t -- grep -qE "^weft: 10.9.0.2:7471: the peer can make no QP, .*'weft up DEV qps N' there" "$LAB_TMP/client" ++ \
		"the client names what helps there"
	t -- grep -qxF "weft: $LAB_IF_B: this process holds 4 QPs at most; close some, or run 'weft down $LAB_IF_B', 'weft up $LAB_IF_B qps N'" \
		"$LAB_TMP/perf" ++ "the server names limit and remedy"
	lab_stop "$SERVER"
	"$WEFT" -n "$LAB_B" down "$LAB_IF_B"
	perf_server
	"$WEFT" -n "$LAB_A" up "$LAB_IF_A" qps 4
	t ! perf_words --count 1 --qps 4 ++ "more QPs than the client's own device has"
	note "$(<"$LAB_TMP/client")"
	t -- grep -qE "^weft: $LAB_IF_A: all 4 QPs of the device are in use; .* 'weft up $LAB_IF_A qps N'\$" "$LAB_TMP/client" ++ \
		"it names limit and remedy"
	"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
}

# The report for people: nothing in it that is beside the point.
text() {
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --strict --count 10 >"$LAB_TMP/text"
	note "$(<"$LAB_TMP/text")"
	t -- grep -q '1 QP, strict order, depth [0-9]*, 16 entropy values, cwnd' "$LAB_TMP/text" ++ "strict order is said"
	t -- grep -q 'goodput .* Gb/s' "$LAB_TMP/text" ++ "and how much got there"
	"$WEFT" -n "$LAB_A" perf atomic "$LAB_IF_A" 10.9.0.2 --count 1000 >"$LAB_TMP/text"
	note "$(<"$LAB_TMP/text")"
	t ! grep -E 'goodput|a GB' "$LAB_TMP/text" ++ "of atomics it is not"
}

# taken REGEX NOT-REGEX COMMAND...: the client's last words when that happens to its interface
taken() {
	local want=$1 not=$2 rc=0 before
	shift 2
	before=$(counter "$LAB_A" "$LAB_IF_A" tx_data 2>/dev/null)	# of a device that is up already
	: >"$LAB_TMP/client"
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --time 600 >/dev/null 2>"$LAB_TMP/client"
	CLIENT=$LAB_SPAWNED
	until_true 60 sent_more $((before + 10000)) || echo "no transfer"
	"$@"
	until_true 60 ended "$CLIENT" || { echo "it does not end"; kill -KILL "$CLIENT"; }
	lab_wait "$CLIENT" || rc=$?
	echo "status $rc: $(<"$LAB_TMP/client")"
	[ $rc = 1 ] && tail -n 1 "$LAB_TMP/client" | grep -qE "^weft: 10.9.0.2:7471: .*; .*$want" &&
		! grep -qE "$not" "$LAB_TMP/client"
}

bell() {	# the doorbell of A's interface, whose index is in the name
	echo "weft$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)t"
}

# The same status for all, but not the same words.
interface() {
	t -- taken 'the link is down' 'gone|taken down' ip -n "$LAB_A" link set "$LAB_IF_A" down ++ "link down"
	ip -n "$LAB_A" link set "$LAB_IF_A" up
	t -- taken 'taken down' 'gone|link is down' "$WEFT" -n "$LAB_A" down "$LAB_IF_A" ++ "weft down"
	t -- taken 'doorbell was removed' 'gone|taken down|link is down' ip -n "$LAB_A" link del "$(bell)" ++ \
		"doorbell removed"
	t -- taken 'interface is gone' 'taken down' ip -n "$LAB_A" link del "$LAB_IF_A" ++ "interface deleted"
}

lab_begin
lab_pair 3498
if tap_part early; then early_enough; else perf_server; fi
for part in waiting moderated sharing latency warm_up reading sending refused adding text crowded interface; do
	tap_part $part && $part
done
lab_stop "$SERVER"
"$WEFT" -n "$LAB_A" down "$LAB_IF_A" 2>/dev/null
"$WEFT" -n "$LAB_B" down "$LAB_IF_B" 2>/dev/null
tap_end
