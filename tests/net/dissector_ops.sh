# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # LAB_TMP is tap.sh's
# Part of test_dissector.sh: all but plain WRITEs; packets of docs/protocol.md.

VEC_SEND="030831050001000311223344556677880000000201020304ebca6fab00640000"
VEC_SEND+="000000000000000b00000000000000000000000000000064cafef00d00000005"
VEC_RNR="0309400500020001112233445566778800000002010203048079ef6f00000000"
VEC_RNR+="000000020000000a000000000000000300000000000000050000000000000000"
VEC_RESUME="030a000500020001112233445566778800000000010203041d498df600000000"
VEC_RESUME+="0000000000000000000000000000000000000000000000060000000000000000"
VEC_IMM="0301110500010003112233445566778800000003010203043f9f1d7c0d000000"
VEC_IMM+="abcde0120000000c0000000000010d000000000000000d00cafef00e00000006"

VEC_WRITES="030c01050001000311223344556677880000000301020304"
VEC_WRITES+="61d5f693002c0000000000020000000cfc49a9c5b9dfe0ad00000000000000000000000000000000"
VEC_DESCS="abcde012000000040000000000000100abcde012000000080000000000000048"
VEC_NAK2="0303000500020001112233445566778800000003010203"
VEC_NAK2+="0460ff6ec0000000000000000200000003000000010000000000000000000000000000000000000000"

# Several WRITEs in a packet, and a NAK for one of them.
writes() {
	local v=$LAB_TMP/writes.pcap p=${PAYLOAD:0:24}
	packet "$v" "$VEC_WRITES$VEC_DESCS$p"
	packet "$v" "$VEC_NAK2" 49157 4793 10.9.0.2 10.9.0.1
	are "WRITES: opcode, checks, number, the first message" "12 1 2 12 0xfc49a9c5,0xb9dfe0ad 1,1" \
		"$(fields "$v" weft.op weft.check.status weft.writes.n weft.writes.msn weft.writes.check \
			weft.writes.check.status | head -n 1)"
	are "each of them" "0xabcde012,0xabcde012 4,8 256,72 5a5a5a5a,5a5a5a5a5a5a5a5a" \
		"$(fields "$v" weft.write.rkey weft.write.len weft.write.roff weft.write.data | head -n 1)"
	are "a NAK tells which was refused" "3 1 2 3 1" \
		"$(fields "$v" weft.op weft.check.status weft.nak.code weft.nak.psn weft.nak.nth | tail -n 1)"
	are "what the list shows" "WRITES QP=0x10003 PSN=3 Len=44 Msg=12 WRITEs=2 [LAST]" \
		"$(fields "$v" _ws.col.Info | head -n 1)"
}

# READ and atomics, and the answers that bring something.
asks() {
	local v=$LAB_TMP/ask.pcap
	packet "$v" "$VEC_READ"
	packet "$v" "$VEC_REPLY7${PAYLOAD:0:1344}" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "$VEC_FADD"
	packet "$v" "$VEC_CSWAP"
	packet "$v" "$VEC_REPLY7${PAYLOAD:0:1344}" 49157 4793 10.9.0.2 10.9.0.1
	are "header checks of the other opcodes" "4 1;7 1;5 1;6 1;7 1" \
		"$(fields "$v" weft.op weft.check.status | paste -sd';')"
	are "READ: what it asks for" "0xabcde012 8 68864 3328 4000 672" \
		"$(fields "$v" weft.data.rkey weft.data.msn weft.data.roff weft.data.moff weft.data.mlen \
			weft.data.rlen | head -n 1)"
	are "REPLY: what an ACK says, and bytes" "672 4294967293 6 2 4294967294-4294967295 ${PAYLOAD:0:1344}" \
		"$(fields "$v" weft.len weft.ack.cum weft.ack.msn weft.ack.sack.count weft.ack.sack.range \
			weft.payload | sed -n 2p)"
	are "FADD and CSWAP: number, place and operands" \
		"0xabcde012 9 64 0x0102030405060708 -;0xabcde012 10 72 0x0000000000000001 0x1112131415161718" \
		"$(fields "$v" weft.atomic.rkey weft.atomic.asn weft.atomic.roff weft.atomic.operand \
			weft.atomic.compare | sed -n 3,4p | paste -sd';')"
	are "which answers which; the second is a duplicate" "- 2 -;1 - -;- - -;- - -;1 - 2" \
		"$(fields "$v" -2 weft.request_in weft.response_in weft.analysis.duplicate_ack_of | paste -sd';')"
	are "and has a response time" "-;+" "$(fields "$v" -2 weft.time | sed -n 1,2p | sed 's/^[0-9].*/+/' | paste -sd';')"
	v=$LAB_TMP/wrong.pcap
	# an ACK for a READ, and a REPLY of another length: checks not verified, for they do not fit
	packet "$v" "$VEC_READ"
	packet "$v" "${VEC_ACK:0:32}ffffffff${VEC_ACK:40}" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "${VEC_REPLY7:0:56}0008${VEC_REPLY7:60}${PAYLOAD:0:16}" 49157 4793 10.9.0.2 10.9.0.1
	are "what was not asked for" "- Not_what_was_asked_for:_the_request_is_a_READ Not_what_was_asked_for:_the_request_is_a_READ" \
		"$(KEY='' fields "$v" -2 _ws.expert.message | tr ' ' _ | sed 's/,.*//' | paste -sd' ')"
}

# What takes a receive, and what is said of receives.
recvs() {
	local v=$LAB_TMP/recv.pcap
	packet "$v" "$VEC_SEND${PAYLOAD:0:200}"
	packet "$v" "$VEC_RNR" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "$VEC_RESUME" 49157 4793 10.9.0.2 10.9.0.1
	packet "$v" "$VEC_IMM$PAYLOAD"
	are "SEND, RNR, RESUME and immediate data: opcode, flags, check" \
		"8 0x31 1;9 0x40 1;10 0x00 1;1 0x11 1" "$(fields "$v" weft.op weft.flags weft.check.status | paste -sd';')"
	are "SEND: message, length, immediate data, receive, and no key" "- 11 - 0 100 0xcafef00d 5 ${PAYLOAD:0:200}" \
		"$(fields "$v" weft.data.rkey weft.data.msn weft.data.roff weft.data.moff weft.data.mlen \
			weft.data.imm weft.data.rsn weft.payload | head -n 1)"
	are "a WRITE with immediate data has a place as well" "0xabcde012 12 68864 0xcafef00e 6" \
		"$(fields "$v" weft.data.rkey weft.data.msn weft.data.roff weft.data.imm weft.data.rsn | tail -n 1)"
	are "kinds of messages, one by one" "1 1 0;0 0 1;0 0 0;1 0 0" \
		"$(fields "$v" weft.flags.imm weft.flags.sol weft.flags.rq | paste -sd';')"
	are "RNR and RESUME: what is placed, and the epoch" "2 10 0-1 5;- - - 6" \
		"$(fields "$v" weft.ack.cum weft.ack.msn weft.ack.sack.range weft.ack.epoch | sed -n 2,3p | paste -sd';')"
	are "an RNR answers its request, a RESUME nothing" "- 2;1 -;- -;- -" \
		"$(fields "$v" -2 weft.request_in weft.response_in | paste -sd';')"
	are "and says that there is no receive" "No receive is posted: to be sent again" \
		"$(fields "$v" _ws.expert.message | sed -n 2p)"
	are "what the list shows" "SEND QP=0x10003 PSN=2 Len=100 Msg=11 0/100 Recv=5 [LAST,IMM,SOL];RESUME QP=0x20001 PSN=0 Epoch=6" \
		"$(fields "$v" _ws.col.Info | sed -n '1p;3p' | paste -sd';')"
	are "by what it looks like, too" "weft" "$(
		packet "$LAB_TMP/h3.pcap" "$VEC_RNR" 49157 5000
		fields "$LAB_TMP/h3.pcap" _ws.col.Protocol
	)"
	v=$LAB_TMP/recv2.pcap
	# a REPLY to a SEND: the check is not verified, for it does not fit
	packet "$v" "$VEC_SEND${PAYLOAD:0:200}"
	packet "$v" "${VEC_REPLY7:0:32}00000002${VEC_REPLY7:40}${PAYLOAD:0:1344}" 49157 4793 10.9.0.2 10.9.0.1
	are "a SEND brings nothing back" "- Not_what_was_asked_for:_the_request_is_a_SEND" \
		"$(KEY='' fields "$v" -2 _ws.expert.message | tr ' ' _ | paste -sd' ')"
}

# What there is to complain about in those.
experts_recv() {
	local d=$VEC_DATA a=$VEC_ACK
	broken "a right SEND" - "$VEC_SEND${PAYLOAD:0:200}"
	broken "a right RESUME" - "$VEC_RESUME"
	broken "a SEND with a key" weft.expert.reserved "${VEC_SEND:0:64}abcde012${VEC_SEND:72}${PAYLOAD:0:200}"
	broken "a SEND with a place" weft.expert.reserved "${VEC_SEND:0:80}0000000000000001${VEC_SEND:96}${PAYLOAD:0:200}"
	broken "immediate data without the flag" weft.expert.reserved "030801${VEC_SEND:6}${PAYLOAD:0:200}"
	broken "a receive for a plain WRITE" weft.expert.reserved "${d:0:120}00000001$PAYLOAD"
	broken "an epoch without the flag" weft.expert.reserved "${a:0:104}00000001${a:112}"
	broken "a RESUME that acknowledges" weft.expert.reserved "${VEC_RESUME:0:64}00000001${VEC_RESUME:72}"
	broken "a READ with immediate data" weft.expert.flags "030411${VEC_READ:6}"
	broken "an RNR for what was seen before" weft.expert.flags "030948${VEC_RNR:6}"
	broken "a RESUME with flags" weft.expert.flags "030a40${VEC_RESUME:6}"
	broken "an RNR with a payload" weft.expert.len "${VEC_RNR:0:56}0004${VEC_RNR:60}00000000"
	broken "an RNR" weft.expert.rnr "$VEC_RNR"
	broken "a SEQ" weft.expert.seq "030b00${a:6}"
	broken "a SEQ with an epoch" weft.expert.flags "030b40${a:6}"
}

# And in several WRITEs.
experts_writes() {
	local p=${PAYLOAD:0:24}
	broken "right WRITES" - "$VEC_WRITES$VEC_DESCS$p"
	broken "a damaged descriptor" weft.expert.writes_check "$VEC_WRITES${VEC_DESCS:0:62}49$p"
	broken "nine WRITEs" weft.expert.len "${VEC_WRITES:0:70}09${VEC_WRITES:72}$VEC_DESCS$p"
	broken "a byte more than they are" weft.expert.len "${VEC_WRITES:0:58}2d${VEC_WRITES:60}$VEC_DESCS${p}00"
	broken "a long one" weft.expert.len "$VEC_WRITES${VEC_DESCS:0:12}01${VEC_DESCS:14}$p"
	broken "WRITES without LAST" weft.expert.last "030c00${VEC_WRITES:6}$VEC_DESCS$p"
	broken "WRITES with immediate data" weft.expert.flags "030c11${VEC_WRITES:6}$VEC_DESCS$p"
	broken "WRITES with something in what is reserved" weft.expert.reserved "${VEC_WRITES:0:96}01${VEC_WRITES:98}$VEC_DESCS$p"
}
