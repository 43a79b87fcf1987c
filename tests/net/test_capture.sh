#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# weft capture: every packet of both ways out, nothing that is not asked for, and no trace of a killed one.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LUA=$ROOT/tools/wireshark/weft.lua
CAP=$LAB_TMP	# set by lab_begin
PCAP=

# listen NAME ARGS...: a capture on A in the background; its messages are in $CAP/NAME.err
listen() {
	local name=$1
	shift
	PCAP=$CAP/$name.pcapng
	: >"$CAP/$name.err"
	lab_spawn_in "$LAB_A" "$WEFT" capture "$@" "$LAB_IF_A" 2>"$CAP/$name.err" >"$CAP/$name.out"
	CAPTURE=$LAB_SPAWNED
	lab_wait_line "$CAP/$name.err" '^capturing' "$CAPTURE" || note "no capture: $(<"$CAP/$name.err")"
}

# hang_up NAME [SIGNAL [STATUS]]: end it, see its status
hang_up() {
	local rc=0
	kill "-${2:-INT}" "$CAPTURE"
	lab_wait "$CAPTURE" || rc=$?
	note "$(tail -n 4 "$CAP/$1.err")"
	t "rc == ${3:-0}" "$1: ended by ${2:-INT} with ${3:-0}"
}

perf_write() {
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" "$@"
}

stat_of() {	# COUNTER of A
	lab_field "$("$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" -j | tr -d ' \n')" "$1"
}

# in_file FILE FILTER: how many packets
in_file() {
	tshark -r "$1" -Y "$2" 2>/dev/null | wc -l
}

# the last block of a file is the statistics; its last option the frames that were dropped
dropped_by_file() {
	tail -c 16 "$1" | od -An -tu8 -N8 | tr -d ' '
}

same() {
	note "want $2, got $3"
	t "$2 == $3" "$1"
}

FLAG=$(sed -n 's/^#define WEFT_DEV_CAPTURE *\(0x[0-9a-f]*\).*/\1/p' "$ROOT/include/weft/abi.h")
flag_is_set() {	# is the switch of the capture on? devcfg.flags
	local dump
	dump=$(bpftool -j map dump pinned "$PINS/devcfg" | jq -r '.[0].value[8:12] | map(ltrimstr("0x")) | reverse | join("")')
	((16#$dump & FLAG))
}

# table FIELD...: one line a packet, read once; then `frames CONDITION` in awk, by the names of
# the columns as COLUMNS lists them
table() {
	local x args=()
	for x in "$@"; do args+=(-e "$x"); done
	tshark -r "$PCAP" -T fields -E separator=, -E occurrence=f "${args[@]}" >"$CAP/table" 2>/dev/null
}
frames() {
	awk -F, '{ dir = $1; cap = $2; len = $3; delta = $4; peer = $5 == "10.9.0.2" || $6 == "fd09::2"
		op = $7; roff = $8; clone = $9
		if ('"$1"') n++ } END { print n + 0 }' "$CAP/table"
}

whole() {
	local tx0 ack0 rx0 tx ack in clones
	listen whole -w "$CAP/whole.pcapng"
	t -- flag_is_set ++ "while it captures, the switch is on"
	tx0=$(stat_of tx_data) ack0=$(stat_of tx_ack) rx0=$(came_in)
	t -- perf_write 10.9.0.2 --count 6 --size 256k --region 512k --verify ++ "6 messages of 256 KiB"
	t -- perf_write '[fd09::2]' --count 40 --size 64 --region 64k --lat --verify ++ "and a ping-pong by IPv6"
	until_true 60 settled "$LAB_A" "$LAB_IF_A"	# what is still on its way
	tx=$(($(stat_of tx_data) - tx0)) ack=$(($(stat_of tx_ack) - ack0)) in=$(($(came_in) - rx0))
	hang_up whole
	t ! flag_is_set ++ "and off behind it"
	table frame.packet_flags_direction frame.cap_len frame.len frame.time_delta ip.src ipv6.src \
		weft.op weft.data.roff weft.db.op
	clones=$(frames clone)	# a few go out empty (docs/design.md, section 13)
	same "what came in" $in "$(frames 'dir == 1')"
	same "all of it from the peer" $in "$(frames 'dir == 1 && peer')"
	same "DATA went out by all ways" $tx "$(frames 'dir == 2 && op == 1 && !peer')"
	same "and so did ACKs" $ack "$(frames 'dir == 2 && op == 2 && !peer')"
	same "and nothing else but $clones empty clones" $((tx + ack + clones)) "$(frames 'dir == 2')"
	t -- grep -q "^$((in + tx + ack + clones)) packets captured: $in in, $((tx + ack + clones)) out" \
		"$CAP/whole.err" ++ "the summary says the same"
	same "nothing was left out" 0 "$(dropped_by_file "$PCAP")"
	same "tcpdump reads all of them" $((in + tx + ack + clones)) "$(tcpdump -nr "$PCAP" 2>/dev/null | grep -c '^[0-9]')"	# of an empty clone it dumps the bytes
	same "headers alone are in the file" 0 "$(frames 'cap > 256')"
	t "$(frames 'len > 3400') > 400" "of packets that were longer"
	same "and all of them" 0 "$(frames 'op == 1 && roff == ""')"
	same "in the order of their times" 0 "$(frames 'delta < 0')"
}

# What is kept without -s has all of a packet but the payload, also where it is several WRITEs, over IPv6.
headers() {
	local host said has whole
	listen headers -w "$CAP/headers.pcapng"
	for host in 10.9.0.2 '[fd09::2]'; do
		t -- perf_write "$host" --size 16 --region 64k --count 20000 --verify ++ "small WRITEs to $host"
	done
	hang_up headers
	# WRITEs that the header tells of, descriptors that are there
	tshark -r "$PCAP" -Y 'weft.op == 12' -T fields -E separator=' ' -E aggregator=, -e weft.writes.n \
		-e weft.write.rkey >"$CAP/table" 2>/dev/null
	read -r said has whole < <(awk '{ said += $1; has += split($2, d, ","); whole += $1 == 8 }
		END { print said + 0, has + 0, whole + 0 }' "$CAP/table")
	note "$said WRITEs, $has descriptors; $whole packets of 8"
	t "said > 10000 && has == said" "the descriptors of all $said WRITEs that shared packets are in the file"
	t "whole > 100" "eight of them in $whole packets"
	rm -f "$PCAP"
}

# Packets that A has received: each was accepted or raised one drop. (The other drops are of its own frames.)
came_in() {
	"$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" -j | jq '[(.drops | del(.template, .fill, .doorbell, .reply) | .[]),
		(.counts | .rx_data, .rx_dup, .rx_ack, .rx_nak)] | add'
}

# What IPv6 sums up is right only if every byte is there.
payload() {
	listen payload -s 0 -w "$CAP/payload.pcapng"
	t -- perf_write '[fd09::2]' --count 20 --size 10000 --region 1m ++ "messages by IPv6, captured whole"
	hang_up payload
	same "no packet is cut" 0 "$(in_file "$PCAP" 'frame.cap_len != frame.len')"
	t "$(in_file "$PCAP" 'weft.len == 3328') >= 60" "payloads are there"
	same "and every byte of them: the UDP checksums are right" 0 "$(tshark -r "$PCAP" \
		-o udp.check_checksum:TRUE -Y 'udp.checksum.status != 1' 2>/dev/null | wc -l)"
	rm -f "$PCAP"
}

# Options that narrow it down, and the lines without a file.
narrow() {
	local qpn n other
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --time 600 --size 64k --qps 2 --region 1m \
		--cwnd 4 >/dev/null 2>&1
	local writer=$LAB_SPAWNED
	until_true 60 eval '[ "$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" | jq "map(select(.packets > 1000)) | length")" = 2 ]'
	qpn=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" | jq -r 'map(select(.packets > 1000))[0].qpn')
	other=$("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" | jq -r 'map(select(.packets > 1000))[1].qpn')
	t -- lab_in "$LAB_A" timeout 90 "$WEFT" capture --qp "$qpn" -c 200 -w "$CAP/qp.pcapng" "$LAB_IF_A" \
		++ "200 packets of QP $qpn and not of $other"
	PCAP=$CAP/qp.pcapng
	same "are 200" 200 "$(in_file "$PCAP" weft)"
	same "of one connection" 1 "$(tshark -r "$PCAP" -T fields -e weft.conn 2>/dev/null | sort -u | wc -l)"
	t "$(in_file "$PCAP" 'weft.op == 1') > 10 && $(in_file "$PCAP" 'weft.op == 2') > 10" "both directions"
	t ! lab_in "$LAB_A" "$WEFT" capture --qp 0xdead0001 -c 1 "$LAB_IF_A" ++ "an unknown QP is refused"
	lab_in "$LAB_A" timeout 90 "$WEFT" capture -c 50 "$LAB_IF_A" >"$CAP/lines" 2>/dev/null
	n=$(grep -cE '^[0-9:.]+ '"$LAB_IF_A"' (in |out) 10\.9\.0\.[12]\.[0-9]+ > 10\.9\.0\.[12]\.4793: (DATA|ACK) qp 0x[0-9a-f]+ psn [0-9]+ ' "$CAP/lines")
	n=$((n + $(grep -c ' out a clone without a packet, ' "$CAP/lines")))
	note "$(head -n 3 "$CAP/lines")"
	same "without a file there are lines" 50 "$n"
	t "$(grep -cE ' ACK .* msgs [0-9]+( (sack [0-9]|\[).*)?$' "$CAP/lines") == $(grep -c ' ACK ' "$CAP/lines")" \
		"with what a SACK names, or without SACK"
	lab_in "$LAB_A" timeout 90 "$WEFT" capture -j -c 50 "$LAB_IF_A" >"$CAP/lines" 2>/dev/null
	note "$(head -n 3 "$CAP/lines")"
	same "or JSON objects" 50 "$(jq -c 'select(.op == "DATA" or .op == "ACK" or
		(.dir == "out" and (has("src") | not)))' "$CAP/lines" | wc -l)"
	same "the last of which sums up" 50 "$(jq 'select(.event == "end") | .packets' "$CAP/lines")"

	for n in '' -j; do
		# shellcheck disable=SC2086	# an option or none
		lab_in "$LAB_A" timeout 90 "$WEFT" capture $n "$LAB_IF_A" 2>"$CAP/head.err" | head -n 1 >"$CAP/head"
		local said=("${PIPESTATUS[@]}")
		note "$(<"$CAP/head.err")"
		t "${said[0]} == 0 && $(wc -l <"$CAP/head") == 1" "lines${n:+ of JSON} whose reader has had enough: no error"
		# shellcheck disable=SC2086	# an option or none
		lab_in "$LAB_A" timeout 90 "$WEFT" capture $n -c 5 "$LAB_IF_A" 2>"$CAP/full.err" >/dev/full
		t "$? == 1 && $(grep -c 'No space left' "$CAP/full.err") == 1" "on a full disk it fails, and says so once"
	done
	mkdir "$CAP/disk"
	# shellcheck disable=SC2016	# for the inner shell
	t -- unshare -m bash -c 'mount -t tmpfs -o size=256k none "$1" || exit
		timeout 90 "$2" -n "$3" capture -w "$1/x" "$4" 2>"$5"
		[ $? = 1 ] && tshark -r "$1/x" >/dev/null' - "$CAP/disk" "$WEFT" "$LAB_A" "$LAB_IF_A" "$CAP/disk.err" ++ \
		"a file on a full disk ends behind a packet"

	# a pipe, whose reader has had enough
	lab_in "$LAB_A" "$WEFT" capture -k -w - "$LAB_IF_A" 2>"$CAP/pipe.err" |
		tshark -X "lua_script:$LUA" -r - -c 100 -T fields -e weft.check.status -e weft.db.op >"$CAP/pipe.out" 2>/dev/null
	local ends=("${PIPESTATUS[@]}")
	note "$(<"$CAP/pipe.err")"
	t "${ends[0]} == 0 && ${ends[1]} == 0" "tshark reads 100 packets from a pipe and leaves, which is no error"
	n=$(grep -c $'^\t[0-9]' "$CAP/pipe.out")	# empty clones have none
	t "n < 50" "most of them packets"
	same "and can verify the header checks by -k" $((100 - n)) "$(grep -c $'^1\t$' "$CAP/pipe.out")"
	listen first -w "$CAP/first.pcapng"
	t ! lab_in "$LAB_A" "$WEFT" capture -c 1 "$LAB_IF_A" ++ "a second capture at the same time is refused"
	hang_up first TERM
	lab_stop "$writer"
}

# More than the buffer holds: copies are left out and counted, packets are not lost.
overrun() {
	local json lost
	listen overrun -s 0 -B 64k -w "$CAP/overrun.pcapng"
	kill -STOP "$CAPTURE"
	json=$(perf_write 10.9.0.2 --count 64 --size 1m --region 16m --verify -j)
	kill -CONT "$CAPTURE"
	note "$json"
	t -- grep -q '"verified":true' <(tr -d ' ' <<<"$json") ++ "64 MiB beside a capture that is stopped"
	hang_up overrun
	lost=$(sed -n 's/^\([0-9]*\) packets left out.*/\1/p' "$CAP/overrun.err")
	t "lost > 10000" "$lost copies were left out"
	same "as the file says, too" "$lost" "$(dropped_by_file "$PCAP")"
	same "and the rest is in it" "$(sed -n 's/^\([0-9]*\) packets captured.*/\1/p' "$CAP/overrun.err")" \
		"$(in_file "$PCAP" 'weft or weft_db')"	# empty clones, too
	rm -f "$PCAP"
}

# What JSON wants written differently, in the lines that no library writes.
named() {
	local name='q"u\o' i
	rename "$LAB_IF_A" "$name"
	: >"$CAP/named"
	lab_spawn_in "$LAB_A" "$WEFT" capture -j "$name" >"$CAP/named" 2>"$CAP/named.err"
	i=$LAB_SPAWNED
	lab_wait_line "$CAP/named.err" '^capturing' "$i"
	"$WEFT" -n "$LAB_A" perf write "$name" 10.9.0.2 --count 3 --size 64 --region 64k >/dev/null
	kill -INT "$i"
	lab_wait "$i"
	note "$(tail -n 2 "$CAP/named")"
	t -- jq -se --arg name "$name" 'length > 6 and (map(.dev == $name) | all)' "$CAP/named" ++ \
		"JSON of an interface called $name"
	: >"$CAP/named"
	lab_spawn_in "$LAB_A" "$WEFT" perf server -j -p 7472 "$name" >"$CAP/named" 2>&1
	i=$LAB_SPAWNED
	lab_wait_line "$CAP/named" ready "$i"
	lab_stop "$i"
	t -- jq -se --arg name "$name" '.[0].dev == $name' "$CAP/named" ++ "and that of a server on it"
	rename "$name" "$LAB_IF_A"
}

rename() {	# by hand, as kernels before 6.2 want it
	ip -n "$LAB_A" link set "$1" down
	ip -n "$LAB_A" link set "$1" name "$2"
	ip -n "$LAB_A" link set "$2" up
}

killed() {
	listen killed -w "$CAP/killed.pcapng"
	kill -KILL "$CAPTURE"
	lab_wait "$CAPTURE" 2>/dev/null
	t -- flag_is_set ++ "killed: the switch is still on"
	t -- perf_write 10.9.0.2 --count 3 --size 64k --region 256k ++ "traffic after that"
	t ! flag_is_set ++ "XDP has switched it off"
	listen again -w "$CAP/again.pcapng"
	t -- perf_write 10.9.0.2 --count 3 --size 512 --region 64k ++ "another capture can be made"
	hang_up again
	t "$(in_file "$CAP/again.pcapng" weft) > 6" "and captures"
	listen down -w "$CAP/down.pcapng"
	"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
	local rc=0
	until_true 60 ended "$CAPTURE"
	lab_wait "$CAPTURE" || rc=$?
	note "$(<"$CAP/down.err")"
	t "rc == 1" "weft down ends a capture"
	t -- grep -q 'weft was taken down' "$CAP/down.err" ++ "which says why"
	t ! lab_in "$LAB_A" "$WEFT" capture "$LAB_IF_A" ++ "where weft is not, nothing can be captured"
}

tshark() {
	command tshark -X "lua_script:$LUA" "$@"
}

lab_begin
CAP=$LAB_TMP
lab_pair 3498
: >"$LAB_TMP/server"
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
PINS=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A
lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/server" 2>&1
SERVER=$LAB_SPAWNED
t -- lab_wait_line "$LAB_TMP/server" '^ready' "$SERVER" ++ "a perf server becomes ready"
tap_part whole && whole
tap_part headers && headers
tap_part payload && payload
tap_part narrow && narrow
tap_part overrun && overrun
tap_part named && named
tap_part killed && killed
"$WEFT" -n "$LAB_A" down "$LAB_IF_A" 2>/dev/null
lab_stop "$SERVER"
tap_end
