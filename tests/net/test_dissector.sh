#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Wireshark's view of weft: known packets field by field, broken ones, and a lossy transfer against its counters.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

LUA=${LUA:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/wireshark/weft.lua}
KEY=1122334455667788:0123456789abcdef

# read_as FILE ARGS...: of a capture, or of packets written with those below. The dissector must not
# complain either.
read_as() {
	[ ! -e "$1.hex" ] || text2pcap -q -l 1 "$1.hex" "$1" 2>/dev/null
	tshark -X "lua_script:$LUA" -r "$@" 2>"$LAB_TMP/tshark.err"
	grep -iE 'lua|error' "$LAB_TMP/tshark.err" >"$LAB_TMP/tshark.bad"
	[ ! -s "$LAB_TMP/tshark.bad" ] || note "tshark: $(<"$LAB_TMP/tshark.bad")"
}

# frame FILE HEX: a packet behind those of FILE, from Ethernet on
frame() {
	{ printf 000000; sed 's/../ &/g' <<<"$2"; } >>"$1.hex"
}

# ip PROTOCOL SRC DST HEX: around what is behind the IPv4 header
ip_around() {
	local IFS=. octets
	# shellcheck disable=SC2206	# split at the dots
	octets=($2 $3)
	printf '02000000000202000000000108004500%s0000400040%02x0000%02x%02x%02x%02x%02x%02x%02x%02x%s' \
		"$(printf '%04x' $((20 + ${#4} / 2)))" "$1" "${octets[@]}" "$4"
}

# packet FILE HEX [SPORT DPORT SRC DST]: by UDP without a checksum
packet() {
	frame "$1" "$(ip_around 17 "${5:-10.9.0.1}" "${6:-10.9.0.2}" \
		"$(printf '%04x%04x%04x0000' "${3:-49157}" "${4:-4793}" $((8 + ${#2} / 2)))$2")"
}

# segment FILE HEX SPORT DPORT SRC DST [SEQ]: by TCP
segment() {
	frame "$1" "$(ip_around 6 "$5" "$6" \
		"$(printf '%04x%04x%08x000000015018ffff00000000' "$3" "$4" "${7:-1}")$2")"
}

# ---- packets of docs/protocol.md ---------------------------------------------------------------
VEC_DATA="03010105000100031122334455667788fffffffe01020304255935980d000000"
VEC_DATA+="abcde012000000070000000000010d0000000d0000001a000000000000000000"
VEC_ACK="03020005000200011122334455667788fffffffe0102030482abd18b00000000"
VEC_ACK+="fffffffd000000064000000000000000ffffffc0000000000000000000000000"
VEC_NAK="03030005000200011122334455667788fffffffe010203040a65e65300000000"
VEC_NAK+="00000002fffffffe000000000000000000000000000000000000000000000000"
VEC_READ="03040105000100031122334455667788ffffffff010203042b5acbcd00000000"
VEC_READ+="abcde012000000080000000000010d0000000d0000000fa0000002a000000000"
VEC_REPLY7="03070005000200011122334455667788ffffffff01020304718a78f502a00000"
VEC_REPLY7+="fffffffd00000006c000000000000000ffffffc0000000000000000000000000"
VEC_FADD="030501050001000311223344556677880000000001020304c1e6618100000000"
VEC_FADD+="abcde01200000009000000000000004001020304050607080000000000000000"
VEC_CSWAP="0306010500010003112233445566778800000001010203041678a26200000000"
VEC_CSWAP+="abcde0120000000a000000000000004800000000000000011112131415161718"
PAYLOAD=$(printf '5a%.0s' {1..3328})

# fields FILE [-2] FIELD...: of each packet, in a line, by blanks; "-" for none
fields() {
	local file=$1 args=() x
	shift
	for x in "$@"; do
		case $x in
		-*) args+=("$x") ;;
		*) args+=(-e "$x") ;;
		esac
	done
	read_as "$file" -o "weft.secrets:$KEY" -T fields -E separator=/t "${args[@]}" |
		awk -F'\t' 'NF == 0 { print "-" } { for (i = 1; i <= NF; i++) printf "%s%s", $i == "" ? "-" : $i, i < NF ? " " : "\n" }'
}

# are NAME WANT GOT
are() {
	note "want: $2"
	note "got:  $3"
	[ "$2" = "$3" ]
	t "$? == 0" "$1"
}

vectors() {
	local v=$LAB_TMP/vec.pcap
	packet "$v" "$VEC_DATA$PAYLOAD"
	packet "$v" "$VEC_ACK" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "$VEC_NAK" 49157 4793 10.9.0.2 10.9.0.1
	are "opcode, flags, QP, connection, PSN, time stamp" \
		"3 1 0x01 5 0x00010003 3 1 0x1122334455667788 4294967294 16909060 3328
3 2 0x00 5 0x00020001 1 2 0x1122334455667788 4294967294 16909060 0
3 3 0x00 5 0x00020001 1 2 0x1122334455667788 4294967294 16909060 0" \
		"$(fields "$v" weft.ver weft.op weft.flags weft.ev weft.dqpn weft.dqpn.slot \
			weft.dqpn.generation weft.conn weft.psn weft.ts weft.len)"
	are "DATA: key, message, offsets, length, payload" "0xabcde012 7 68864 3328 6656 $PAYLOAD" \
		"$(fields "$v" weft.data.rkey weft.data.msn weft.data.roff weft.data.moff \
			weft.data.mlen weft.payload | head -n 1)"
	are "ACK: cumulative PSN, messages, SACK as a range" \
		"4294967293 6 0x4000000000000000 4294967232 1 4294967294 4294967294 4294967294" \
		"$(fields "$v" weft.ack.cum weft.ack.msn weft.ack.sack weft.ack.sack_base \
			weft.ack.sack.count weft.ack.sack.range weft.ack.sack.first \
			weft.ack.sack.last | sed -n 2p)"
	are "NAK: code, refused PSN, expert info" "2 4294967294 Refused: message does not fit the remote memory region" \
		"$(fields "$v" weft.nak.code weft.nak.psn _ws.expert.message | sed -n 3p |
			sed 's/ *,.*//; s/Duplicate.*//')"
	are "header checks are right with the secret" "1 1 1" \
		"$(fields "$v" weft.check.status | paste -sd' ')"
	are "which packet answers which" "- 2 -;1 - -;1 - 2;" \
		"$(fields "$v" -2 weft.request_in weft.response_in weft.analysis.duplicate_ack_of | tr '\n' ';')"
	KEY='' are "without it they cannot be verified" "2 2 2" \
		"$(KEY='' fields "$v" weft.check.status | paste -sd' ')"
	KEY=1122334455667788:0123456789abcdee are "with another they are wrong" "0 0 0" \
		"$(KEY=1122334455667788:0123456789abcdee fields "$v" weft.check.status | paste -sd' ')"
	are "and then it takes no part in anything" "-;-;-" "$(KEY=1122334455667788:0123456789abcdee \
		fields "$v" weft.request_in | paste -sd';')"
	are "at another port it is found by what it looks like" "weft" "$(
		packet "$LAB_TMP/h.pcap" "$VEC_ACK" 49157 5000
		fields "$LAB_TMP/h.pcap" _ws.col.Protocol
	)"
	are "unless that is switched off" "UDP" "$(read_as "$LAB_TMP/h.pcap" -o weft.heuristic:FALSE \
		-T fields -e _ws.col.Protocol)"
	are "nor is what has one bit wrong" "UDP" "$(
		packet "$LAB_TMP/h2.pcap" "${VEC_ACK:0:60}0001${VEC_ACK:64}" 49157 5000
		fields "$LAB_TMP/h2.pcap" _ws.col.Protocol
	)"
	are "or the port is named" "weft" "$(read_as "$LAB_TMP/h.pcap" -o weft.heuristic:FALSE \
		-o weft.ports:5000 -T fields -e _ws.col.Protocol)"
}

# shellcheck source=dissector_ops.sh
. "$(dirname "${BASH_SOURCE[0]}")/dissector_ops.sh"

# Who is whose: two transmissions of a PSN, a copy of the second, an answer to the first.
sequence() {
	local v=$LAB_TMP/seq.pcap again=${VEC_DATA:0:4}03${VEC_DATA:6:34}01020404${VEC_DATA:48}
	packet "$v" "$VEC_DATA$PAYLOAD"
	packet "$v" "$again$PAYLOAD"
	packet "$v" "$again$PAYLOAD"
	packet "$v" "$VEC_ACK" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "${VEC_ACK:0:40}01020404${VEC_ACK:48}" 49157 4793 10.9.0.2 10.9.0.1
	are "retransmission, copy, and whose answer" "- - 1 - 4;1 - 2 - 5;- 2 2 - -;- - - 1 -;- - - 2 -;" \
		"$(KEY='' fields "$v" -2 weft.analysis.retransmission_of weft.analysis.duplicate_of \
			weft.analysis.tries weft.request_in weft.response_in | tr '\n' ';')"
	editcap -s 100 "$v" "$v.cut" 2>/dev/null
	are "a header that the capture cut off" "The header is cut off" \
		"$(fields "$v.cut" _ws.expert.message | head -n 1)"
}

# ---- set-up over TCP, and clones ---------------------------------------------------------------
VEC_REQUEST="57454654000200030001000300010003123456780000""0d000000000112b90000"
VEC_LIMITS=0000000300000000000004000000004000000000"00000000"	# features, window, atomics
VEC_REQUEST+="1111111111111111aaaaaaaaaaaaaaaa0000000000000000${VEC_LIMITS}616263"
VEC_REPLY="574546540002000300020000000200019abcdef00000""05800000000012b90000"
VEC_REPLY+="0333224444774699abedcfad2301674500000000""00000000$VEC_LIMITS"

setup() {
	local v=$LAB_TMP/cm.pcap
	segment "$v" "$VEC_REQUEST" 40000 7471 10.9.0.1 10.9.0.2
	segment "$v" "$VEC_REPLY" 7471 40000 10.9.0.2 10.9.0.1
	are "REQUEST and REPLY" "1 0x00010003 305419896 3328 1 4793 616263;2 0x00020001 2596069104 1408 0 4793 -;" \
		"$(fields "$v" weft.cm.type weft.cm.qpn weft.cm.psn weft.cm.payload weft.cm.flags.csum \
			weft.cm.port weft.cm.private | tr '\n' ';')"
	are "features, window and atomics" "0x00000003 1 0x00000000 0 1024 64" \
		"$(fields "$v" weft.cm.features weft.cm.features.atomic weft.cm.required weft.cm.required.read \
			weft.cm.window weft.cm.atomics | tail -n 1)"
	are "key and secret are of both" "0x1222335555665788 0x0147650789abcdef" \
		"$(fields "$v" weft.cm.conn weft.cm.secret | tail -n 1)"
	v=$LAB_TMP/pieces.pcap
	segment "$v" "${VEC_REQUEST:0:60}" 40000 7471 10.9.0.1 10.9.0.2 1
	segment "$v" "${VEC_REQUEST:60}" 40000 7471 10.9.0.1 10.9.0.2 31
	are "a REQUEST in two pieces" "-;1 0x00010003 616263" \
		"$(fields "$v" weft.cm.type weft.cm.qpn weft.cm.private | sed 's/^- - -/-/' | paste -sd';')"

	one READY "${VEC_REQUEST}52" "1,3 - - -"
	one "PROBE and CONFIRM" "50${VEC_REPLY}43" "6,2,5 - - -"
	one ALIVE "${VEC_REQUEST}41" "1,7 - - -"
	one PING "${VEC_REPLY}4b4b" "2,8,8 - - -"
	one BYE 574259450000000500000007 "- 5 7 -"
	one "BYE with an error" 574259450000000100000007 "- 1 7 Connection ends with an error"
	one "a refusal" "${VEC_REPLY:0:96}0000000200000000$VEC_LIMITS" "2 - - Refused: no QP left"
	one "windows that differ" "${VEC_REPLY:0:96}0000000700000000${VEC_LIMITS/0400/0800}" \
		"2 - - Refused: the windows differ"
	one "another version" "${VEC_REPLY:0:8}0003${VEC_REPLY:12:100}" "2 - - Unknown version"
	one "reserved bytes" "${VEC_REPLY:0:60}0001${VEC_REPLY:64}" "2 - - Reserved bytes are not 0"
	one "junk behind a REQUEST" "${VEC_REQUEST}00" "1 - - Not a message of set-up"
	one "other talk is none of it" 68656c6c6f20776f726c640d0a "- - - -"
	ones

	v=$LAB_TMP/db.pcap
	frame "$v" ffffffffffff02000000000188b57466657703000000030001000000000000000000
	frame "$v" ffffffffffff02000000000188b57566657703000000030001000000000000000000
	are "an empty clone, and another use of that type" \
		"weft 3 0x00010003 A clone without a packet, for no receiver;0x88b5 - - -" \
		"$(fields "$v" _ws.col.Protocol weft.db.op weft.db.qpn _ws.expert.message | paste -sd';')"
}

# one NAME HEX WANT: a message of set-up in a connection of its own; ones: look at all of them
ONES=() ONES_WANT=()
one() {
	ONES+=("$1") ONES_WANT+=("$3")
	segment "$LAB_TMP/ones.pcap" "$2" 7471 $((40000 + ${#ONES[@]})) 10.9.0.2 10.9.0.1
}
ones() {
	local got i
	mapfile -t got < <(fields "$LAB_TMP/ones.pcap" weft.cm.type weft.cm.bye.code weft.cm.bye.arrived \
		_ws.expert.message)
	for i in "${!ONES[@]}"; do
		are "set-up: ${ONES[i]}" "${ONES_WANT[i]}" "${got[i]}"
	done
}

sacks() {
	local v=$LAB_TMP/s.pcap bits
	for bits in 000000000000000000000040 ffffffffffffffff00000040 800000038000000100000040 \
		800000000000000fffffffc0; do
		packet "$v" "${VEC_ACK:0:80}$bits${VEC_ACK:104}"
	done
	are "SACKs: nothing, all, both ends and the middle, round the wrap of PSNs" \
		"-;64-127;64,95-97,127;4294967232-4294967235,4294967295" \
		"$(fields "$v" weft.ack.sack.range | paste -sd';')"
}

# broken NAME EXPERT HEX [SPORT]: this packet is to raise that expert info; brokens: does it?
BROKEN=() BROKEN_WANT=()
broken() {
	BROKEN+=("$1") BROKEN_WANT+=("$2")
	packet "$LAB_TMP/b.pcap" "$3" "${4:-49157}"
}
brokens() {
	local i all
	all=$(read_as "$LAB_TMP/b.pcap" -o "weft.secrets:$KEY" -T json |
		awk '/^    "_index"/ { n++ } match($0, /"weft\.expert\.[a-z_]*"/) {
			print n, substr($0, RSTART + 1, RLENGTH - 2) }')
	for i in "${!BROKEN[@]}"; do
		note "$(grep "^$((i + 1)) " <<<"$all")"
		if [ "${BROKEN_WANT[i]}" = - ]; then
			t ! grep "^$((i + 1)) " <(echo "$all") ++ "${BROKEN[i]} raises nothing"
		else
			t -- grep -x "$((i + 1)) ${BROKEN_WANT[i]}" <(echo "$all") ++ "${BROKEN[i]}: ${BROKEN_WANT[i]}"
		fi
	done
}

experts() {
	local d=$VEC_DATA a=$VEC_ACK
	broken "a right packet" - "$VEC_DATA$PAYLOAD"
	broken "another version" weft.expert.version "01${d:2}$PAYLOAD"
	broken "an unknown opcode" weft.expert.opcode "030d${d:4}$PAYLOAD"
	broken "a length that is not UDP's" weft.expert.len "${d:0:56}0d01${d:60}$PAYLOAD"
	broken "an ACK with a payload" weft.expert.len "${a:0:56}0004${a:60}00000000"
	broken "a segment behind the end" weft.expert.len "${d:0:104}00001900${d:112}$PAYLOAD"
	broken "LAST in the middle" weft.expert.last "${d:0:104}00002a00${d:112}$PAYLOAD"
	broken "an end without LAST" weft.expert.last "030100${d:6}$PAYLOAD"
	broken "a DATA with flags of an ACK" weft.expert.flags "030105${d:6}$PAYLOAD"
	broken "reserved bytes" weft.expert.reserved "${d:0:60}0001${d:64}$PAYLOAD"
	broken "a source port of another entropy value" weft.expert.sport "$d$PAYLOAD" 49158
	broken "a SACK base between" weft.expert.sack_base "${a:0:96}ffffffc1${a:104}"
	broken "a wrong check" weft.expert.check "${d:0:48}25593599${d:56}$PAYLOAD"
	broken "less than a header" weft.expert.len "${d:0:100}"
	broken "CE" weft.expert.ce "030204${a:6}"
	broken "DUP" weft.expert.duplicate_ack "030208${a:6}"
	broken "RETX without its first" weft.expert.retransmission_unseen "030103${d:6}$PAYLOAD"
	broken "a NAK" weft.expert.nak "$VEC_NAK"
	broken "a right READ" - "$VEC_READ"
	broken "a right FADD" - "$VEC_FADD"
	broken "a READ with a payload" weft.expert.len "${VEC_READ:0:56}0004${VEC_READ:60}00000000"
	broken "a READ of more than fits" weft.expert.len "${VEC_READ:0:112}00000d01${VEC_READ:120}"
	broken "a READ behind the end" weft.expert.len "${VEC_READ:0:112}000002a1${VEC_READ:120}"
	broken "an atomic without LAST" weft.expert.last "030500${VEC_FADD:6}"
	broken "reserved bytes of a READ" weft.expert.reserved "${VEC_READ:0:120}00000001"
	broken "a REPLY with flags of a request" weft.expert.flags "030701${VEC_REPLY7:6}${PAYLOAD:0:1344}"
	broken "CE of a REPLY" weft.expert.ce "030704${VEC_REPLY7:6}${PAYLOAD:0:1344}"
	experts_recv
	experts_writes
	brokens
}

# Packets of chance, cut and damaged: the dissector may find them bad, but not stumble.
# mangled SEED HEX...: 100 of each as text2pcap takes them
mangled() {
	awk -v seed="$1" 'BEGIN {
		srand(seed)
		for (i = 2; i < ARGC; i++)
			for (n = 0; n < 100; n++) {
				text = ARGV[i]
				len = length(text) / 2
				if (rand() < 0.5) len = int(rand() * len) + 1
				printf "000000"
				for (b = 0; b < len; b++)
					printf " %s", rand() < 0.04 ? sprintf("%02x", int(rand() * 256)) : substr(text, 2 * b + 1, 2)
				print ""
			}
		exit
	}' "$@"
}

# A port of connections that another protocol claims: the preference, or heuristics first.
setup_ports() {
	local v=$LAB_TMP/ports.pcap theirs=$LAB_TMP/gryphon.pcap
	segment "$v" "$VEC_REQUEST" 40000 7470 10.9.0.1 10.9.0.2
	are "set-up at its own ports" "weft setup" "$(read_as "$v" -T fields -e _ws.col.Protocol)"
	segment "$theirs" "$VEC_REQUEST" 40000 7000 10.9.0.1 10.9.0.2
	are "at another's it is another's" "Gryphon" "$(read_as "$theirs" -T fields -e _ws.col.Protocol)"
	are "unless the preference has it" "weft setup" \
		"$(read_as "$theirs" -o weft_cm.ports:7000 -T fields -e _ws.col.Protocol)"
	are "or with heuristics first" "weft setup" \
		"$(read_as "$theirs" -o tcp.try_heuristic_first:TRUE -T fields -e _ws.col.Protocol)"
}

junk() {
	local v=$LAB_TMP/junk n
	mangled "$SEED" "$VEC_DATA${PAYLOAD:0:64}" "$VEC_ACK" "$VEC_NAK" "$VEC_READ" "$VEC_CSWAP" \
		"$VEC_REPLY7${PAYLOAD:0:64}" "$VEC_SEND${PAYLOAD:0:64}" "$VEC_RNR" "$VEC_RESUME" >"$v.hex"
	text2pcap -q -u 49157,4793 -4 10.9.0.1,10.9.0.2 "$v.hex" "$v.pcap" 2>/dev/null
	read_as "$v.pcap" -2 -o "weft.secrets:$KEY" -V >"$v.txt"
	n=$(grep -c '^weft, ' "$v.txt")
	note "$n of 900 packets; $(grep -m 3 -A 3 'Lua Error' "$v.txt")"
	t "$n == 900 && $(grep -ci 'lua error' "$v.txt") == 0" "damaged packets do not make it stumble"
	mangled "$SEED" "$VEC_REQUEST" "$VEC_REPLY" 574259450000000500000007 >"$v.hex"
	text2pcap -q -T 7471,40000 -4 10.9.0.2,10.9.0.1 "$v.hex" "$v.tcp" 2>/dev/null
	read_as "$v.tcp" -2 -V -d tcp.port==7471,weft_cm -o tcp.desegment_tcp_streams:FALSE >"$v.txt"
	n=$(grep -c '^weft connection set-up' "$v.txt")
	note "$n messages; $(grep -m 3 -A 3 'Lua Error' "$v.txt")"
	t "$n > 50 && $(grep -ci 'lua error' "$v.txt") == 0" "nor do damaged messages of set-up"
}

# ---- a transfer through a lossy middle ---------------------------------------------------------
SIZE=100000 COUNT=60 SEGMENTS=31	# 31 packets of 3328 bytes make 100000

# run_through NAME HOST RATES...: leaves $LAB_TMP/NAME.tsv, one line a frame, and the counters
run_through() {
	local name=$1 to=$2
	shift 2
	lab_middle 3498 --capture "$LAB_TMP/$name.pcapng" --snaplen 256 --seed $((SEED % 100000)) "$@"
	: >"$LAB_TMP/server"
	both up
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/server" 2>&1
	local server=$LAB_SPAWNED
	t -- lab_wait_line "$LAB_TMP/server" '^ready' "$server" ++ "$name: a perf server becomes ready"
	t -- "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" "$to" --size $SIZE --count $COUNT --verify \
		++ "$name: $COUNT messages of $SIZE bytes"
	lab_stop "$server"
	until_true 60 settled "$LAB_A" "$LAB_IF_A"
	# counters first: what comes later comes into the capture as well
	A=$("$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" -j | tr -d ' \n')
	B=$("$WEFT" -n "$LAB_B" stats show "$LAB_IF_B" -j | tr -d ' \n')
	WIRE=$(lab_stats)
	RING=$(lab_ring_drops)
	both down
	lab_stop "$LAB_WIRE"
	read_as "$LAB_TMP/$name.pcapng" -T fields -E separator=, -E occurrence=f \
		-e frame.number -e frame.interface_id -e frame.verdict.ebpf_xdp -e weft.op \
		-e weft.check.status -e weft.stream -e weft.psn -e weft.flags.last -e weft.flags.retx \
		-e weft.flags.ce -e weft.flags.dup -e weft.len -e weft.data.msn -e weft.data.moff \
		-e weft.data.mlen -e weft.data.roff -e weft.request_in -e weft.response_in -e weft.time \
		-e weft.analysis.retransmission_of -e weft.analysis.duplicate_of -e weft.cm.type \
		-e weft.cm.psn -e weft.cm.qpn -e weft.setup_in >"$LAB_TMP/$name.tsv"
	t -- test ! -s "$LAB_TMP/tshark.bad" ++ "$name: the dissector has nothing to complain about"
	note "A: $A"
	note "B: $B"
	note "wire: $WIRE, $RING lost in rings"
}

# frames CONDITION: how many lines of the table fulfil it, in awk, by the names of the columns
frames() {
	awk -F, "$COLUMNS"'{ '"$VARS"' if ('"$1"') n++ } END { print n + 0 }' "$TABLE"
}
COLUMNS='' VARS=''
n=0
for v in frame dir verdict op check stream psn last retx ce dup len msn moff mlen roff request response \
	time retx_of copy_of cm cm_psn cm_qpn setup; do
	n=$((n + 1))
	VARS+="$v = \$$n; "
done

same() {	# same NAME WANT GOT: numbers
	note "want $2, got $3"
	t "$2 == $3" "$1"
}

lossy() {
	local lost
	run_through lossy 10.9.0.2 --loss 30000 --ce 30000
	TABLE=$LAB_TMP/lossy.tsv
	same "every frame that the middle counted is there, from A" "$(lab_field "$WIRE" packets)" "$(frames 'op && dir == 0')"
	same "and from B" "$(lab_field "$WIRE" packets 2)" "$(frames 'op && dir == 1')"
	lost=$(($(lab_field "$WIRE" lost) + $(lab_field "$WIRE" lost 2)))
	t "lost > 20" "$lost of them were lost"
	same "and their verdict says so" $lost "$(frames 'op && verdict == 1')"
	same "DATA as A counted them" "$(lab_field "$A" tx_data)" "$(frames '(op == 1 || op == 12) && dir == 0')"
	same "ACKs as B counted them" "$(lab_field "$B" tx_ack)" "$(frames 'op == 2 && dir == 1')"
	same "retransmissions as A counted them" "$(lab_field "$A" tx_retx)" "$(frames '(op == 1 || op == 12) && dir == 0 && retx')"
	same "CE as B counted it" "$(lab_field "$B" rx_ce)" "$(frames 'op == 2 && dir == 1 && ce')"
	t "$(frames 'ce') > 10" "and there was some"
	same "DUP as B counted it" "$(lab_field "$B" rx_dup)" "$(frames 'op == 2 && dir == 1 && dup')"
	same "retransmissions are recognised, all and only they" "$(frames 'op == 1 && retx')" \
		"$(frames 'op == 1 && retx && retx_of')"
	same "and nothing else" 0 "$(frames 'op == 1 && !retx && (retx_of || copy_of)')"
	same "every check is verified by the secrets of the set-up" "$(frames op)" "$(frames 'op && check == 1')"
	same "every packet knows its set-up" "$(frames op)" "$(frames 'op && setup')"
	# the rest needs more than one line at a time
	note "$(awk -F, -v size=$SIZE -v count=$COUNT -v segments=$SEGMENTS "$TRANSFER" "$TABLE" | head -n 20)"
	t "$(awk -F, -v size=$SIZE -v count=$COUNT -v segments=$SEGMENTS "$TRANSFER" "$TABLE" | wc -l) == 0" \
		"PSNs, messages, offsets and lengths are those of the transfer; answers name their DATA"
	same "set-up: as many REPLYs as REQUESTs" "$(frames 'cm == 1')" "$(frames 'cm == 2')"
	t "$(frames 'cm == 1') == 2" "of the control QP and the data QP"
	lab_down
}

# Prints what is wrong. The data connection is the one whose DATA has the right length of message.
# shellcheck disable=SC2016	# awk's
TRANSFER='
function serial(v) { return sprintf("%.0f", v % 4294967296) }	# mawk would round a large one to a text
{ '"$VARS"' }
cm == 1 { first_psn[cm_psn] = 1 }
op == 1 && dir == 0 && mlen == size {
	psn_of[frame] = psn
	if (!(psn in seen)) {
		seen[psn] = 1; n++
		bytes[msn] += len; pieces[msn]++
		if (moff % 3328 || len != (moff + 3328 < size ? 3328 : size - moff)) print "length", $0
		if (last != (moff + len == size)) print "LAST", $0
		if (msn in base && base[msn] != roff - moff) print "offset", $0
		base[msn] = roff - moff
		if (!response) absent++
	}
	if (verdict != 1) through[psn] = 1
	else dropped[psn] = 1
}
op == 2 && dir == 1 && (request in psn_of) {
	answers++
	if (psn_of[request] != psn) print "answer", $0
	if (!(time > 0 && time < 10)) print "time", $0
}
END {
	if (n != count * segments) print "packets", n
	for (m = 0; m < count; m++)
		if (bytes[m] != size || pieces[m] != segments) print "message", m, bytes[m], pieces[m]
	for (p in dropped) if (!(p in through)) print "never repeated", p
	start = -1
	for (p in first_psn) if ((p in seen) && !(serial(p + 4294967295) in seen)) start = p
	if (start < 0) print "the first PSN is not that of the REQUEST"
	for (i = 0; i < n; i++) if (!(serial(start + i) in seen)) print "gap", i
	if (answers < n) print "answers", answers
}'

damaged() {
	run_through damaged '[fd09::2]' --corrupt 20000 --corrupt-range 24:72 --dup 10000
	TABLE=$LAB_TMP/damaged.tsv
	local bad
	bad=$(($(lab_field "$WIRE" corrupted) + $(lab_field "$WIRE" corrupted 2)))
	t "bad > 20" "$bad headers were damaged on the way"
	same "and as many checks are bad, by IPv6" $bad "$(frames 'setup && check == 0')"
	same "all others are good" "$(frames 'setup && check != 0')" "$(frames 'setup && check == 1')"
	lab_down
}

lab_begin
tap_part vectors && vectors
tap_part asks && asks
tap_part recvs && recvs
tap_part writes && writes
tap_part sequence && sequence
tap_part setup && setup
tap_part sacks && sacks
tap_part experts && experts
tap_part setup_ports && setup_ports
tap_part junk && junk
tap_part lossy && lossy
tap_part damaged && damaged
tap_end
