-- SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
-- Wireshark dissector of the weft protocol: packets over UDP, set-up over TCP, doorbell templates.
--
--   tshark -X lua_script:weft.lua -r FILE      or copy it into Wireshark's folder of personal plugins
--
-- Made for Wireshark 3.6 and later, with Lua 5.1 to 5.4: so no bit operators and no bit library, but
-- arithmetic on numbers and UInt64. docs/wireshark.md lists the fields; docs/protocol.md explains them.

if set_plugin_info then
	set_plugin_info({ version = "1.0.0", description = "weft, an RDMA transport in XDP" })
end

local weft = Proto("weft", "weft")
local cm = Proto("weft_cm", "weft connection set-up")
local db = Proto("weft_db", "weft doorbell or template")

local HDR, CM_LEN, CM_OLD_LEN, BYE_LEN, DB_LEN = 64, 80, 56, 12, 20
local EV_PORT0, EV_MAX, MSG_MAX, PAYLOAD_MAX = 49152, 64, 2 ^ 30, 3328
local MANY, MANY_LEN = 8, 256
local VERSION = 3
local DATA, ACK, NAK, READ, FADD, CSWAP, REPLY = 1, 2, 3, 4, 5, 6, 7
local SEND, RNR, RESUME, SEQ, WRITES = 8, 9, 10, 11, 12

local opcodes = {
	[DATA] = "DATA", [ACK] = "ACK", [NAK] = "NAK", [READ] = "READ", [FADD] = "FADD", [CSWAP] = "CSWAP",
	[REPLY] = "REPLY", [SEND] = "SEND", [RNR] = "RNR", [RESUME] = "RESUME", [SEQ] = "SEQ",
	[WRITES] = "WRITES",
}
-- a RESUME is neither: nothing asks for it, and nothing answers
local requests = { [DATA] = true, [READ] = true, [FADD] = true, [CSWAP] = true, [SEND] = true, [WRITES] = true }
local answers = { [ACK] = true, [NAK] = true, [REPLY] = true, [RNR] = true, [SEQ] = true }
local carries = { [DATA] = true, [SEND] = true, [REPLY] = true, [WRITES] = true }
local allowed_flags = {
	[DATA] = 0xb3, [SEND] = 0x33, [READ] = 0x03, [FADD] = 0x03, [CSWAP] = 0x03, [ACK] = 0x4c, [REPLY] = 0x0c,
	[RNR] = 0x44, [SEQ] = 0x04, [WRITES] = 0x03,
}
local naks = {
	[1] = "remote key is not valid",
	[2] = "message does not fit the remote memory region",
	[3] = "remote memory region does not allow it",
	[4] = "remote memory region is in another protection domain",
	[5] = "remote queue pair is closed",
	[6] = "remote memory is gone",
	[7] = "atomic at an address that is no multiple of 8",
	[8] = "SEND is longer than the receive that it takes",
	[9] = "receive names memory that it may not",
}
local cm_types = {
	[1] = "REQUEST", [2] = "REPLY", [3] = "READY", [4] = "BYE", [5] = "CONFIRM", [6] = "PROBE", [7] = "ALIVE",
	[8] = "PING",
}
local cm_bytes = { R = 3, C = 5, P = 6, A = 7, K = 8 } -- messages of one byte
local refusals = {
	[0] = "accepted",
	[1] = "protocol or packet version",
	[2] = "no QP left",
	[3] = "the way back leaves through another interface",
	[4] = "the path carries no useful packet",
	[5] = "busy, to be tried again",
	[6] = "one side must have a feature that the other has not",
	[7] = "the windows differ",
	[8] = "the numbers of outstanding atomics differ",
	[9] = "no QP, the device is lost",
	[10] = "no QP, its user has all that are allowed",
}
local db_ops = { [1] = "POST", [2] = "LOOK", [3] = "FILL", [4] = "GROW", [5] = "ASK", [6] = "RESUME" }
local check_status = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }

-- ---- fields ------------------------------------------------------------------------------------
local f = {
	ver = ProtoField.uint8("weft.ver", "Version"),
	op = ProtoField.uint8("weft.op", "Opcode", base.DEC, opcodes),
	flags = ProtoField.uint8("weft.flags", "Flags", base.HEX),
	last = ProtoField.bool("weft.flags.last", "LAST: last segment of its message", 8, nil, 0x01),
	retx = ProtoField.bool("weft.flags.retx", "RETX: this PSN was sent before", 8, nil, 0x02),
	ce = ProtoField.bool("weft.flags.ce", "CE: the request arrived with congestion experienced", 8, nil, 0x04),
	dup = ProtoField.bool("weft.flags.dup", "DUP: the request had been seen before", 8, nil, 0x08),
	imm_flag = ProtoField.bool("weft.flags.imm", "IMM: of a message with immediate data", 8, nil, 0x10),
	sol = ProtoField.bool("weft.flags.sol", "SOL: of a solicited message", 8, nil, 0x20),
	rq = ProtoField.bool("weft.flags.rq", "RQ: tells of receives", 8, nil, 0x40),
	free = ProtoField.bool("weft.flags.free", "FREE: free of strict order", 8, nil, 0x80),
	ev = ProtoField.uint8("weft.ev", "Entropy value"),
	dqpn = ProtoField.uint32("weft.dqpn", "Destination QP", base.HEX),
	slot = ProtoField.uint32("weft.dqpn.slot", "Slot", base.DEC, nil, 0x0000ffff),
	gen = ProtoField.uint32("weft.dqpn.generation", "Generation", base.DEC, nil, 0xffff0000),
	conn = ProtoField.uint64("weft.conn", "Connection key", base.HEX),
	psn = ProtoField.uint32("weft.psn", "PSN"),
	ts = ProtoField.uint32("weft.ts", "Time stamp", base.DEC, nil, nil, "Requester's clock, units of 64 ns"),
	check = ProtoField.uint32("weft.check", "Header check", base.HEX),
	check_status = ProtoField.uint8("weft.check.status", "Header check status", base.DEC, check_status),
	check_want = ProtoField.uint32("weft.check.expected", "Expected check", base.HEX),
	len = ProtoField.uint16("weft.len", "Payload length"),
	rsvd = ProtoField.bytes("weft.reserved", "Reserved"),
	rkey = ProtoField.uint32("weft.data.rkey", "Remote key", base.HEX),
	dmsn = ProtoField.uint32("weft.data.msn", "Message number"),
	roff = ProtoField.uint64("weft.data.roff", "Offset in the memory region"),
	moff = ProtoField.uint32("weft.data.moff", "Offset in the message"),
	mlen = ProtoField.uint32("weft.data.mlen", "Message length"),
	rlen = ProtoField.uint32("weft.data.rlen", "Bytes asked for"),
	imm = ProtoField.uint32("weft.data.imm", "Immediate data", base.HEX_DEC),
	rsn = ProtoField.uint32("weft.data.rsn", "Number of the receive it takes"),
	wn = ProtoField.uint32("weft.writes.n", "WRITEs"),
	wmsn = ProtoField.uint32("weft.writes.msn", "Number of the first"),
	wsum = ProtoField.uint32("weft.writes.check", "Descriptor check", base.HEX),
	wsum_status = ProtoField.uint8("weft.writes.check.status", "Descriptor check status", base.DEC, check_status),
	write = ProtoField.none("weft.write", "WRITE"),
	wkey = ProtoField.uint32("weft.write.rkey", "Remote key", base.HEX),
	wlen = ProtoField.uint32("weft.write.len", "Length"),
	woff = ProtoField.uint64("weft.write.roff", "Offset in the memory region"),
	wdata = ProtoField.bytes("weft.write.data", "Data"),
	akey = ProtoField.uint32("weft.atomic.rkey", "Remote key", base.HEX),
	asn = ProtoField.uint32("weft.atomic.asn", "Number of the atomic"),
	aoff = ProtoField.uint64("weft.atomic.roff", "Offset in the memory region"),
	operand = ProtoField.uint64("weft.atomic.operand", "Operand", base.HEX_DEC),
	compare = ProtoField.uint64("weft.atomic.compare", "Compare", base.HEX_DEC),
	payload = ProtoField.bytes("weft.payload", "Payload"),
	cum = ProtoField.uint32("weft.ack.cum", "Cumulative PSN", base.DEC, nil, nil, "Every PSN before it is placed"),
	amsn = ProtoField.uint32("weft.ack.msn", "Messages placed"),
	sack = ProtoField.uint64("weft.ack.sack", "SACK bitmap", base.HEX),
	sack_base = ProtoField.uint32("weft.ack.sack_base", "SACK base PSN"),
	sack_count = ProtoField.uint8("weft.ack.sack.count", "PSNs in the SACK"),
	sack_range = ProtoField.string("weft.ack.sack.range", "Placed"),
	sack_first = ProtoField.uint32("weft.ack.sack.first", "First PSN"),
	sack_last = ProtoField.uint32("weft.ack.sack.last", "Last PSN"),
	epoch = ProtoField.uint32("weft.ack.epoch", "Epoch", base.DEC, nil, nil, "Grows with the receives that are posted"),
	code = ProtoField.uint32("weft.nak.code", "NAK code", base.DEC, naks),
	npsn = ProtoField.uint32("weft.nak.psn", "Refused PSN"),
	nth = ProtoField.uint32("weft.nak.nth", "Which of several WRITEs, from 0"),
	-- what other packets say about this one
	stream = ProtoField.uint32("weft.stream", "Connection index"),
	setup = ProtoField.framenum("weft.setup_in", "Connection set up in", base.NONE, frametype.NONE),
	request = ProtoField.framenum("weft.request_in", "Answers the request in", base.NONE, frametype.REQUEST),
	response = ProtoField.framenum("weft.response_in", "Answered in", base.NONE, frametype.RESPONSE),
	time = ProtoField.relative_time("weft.time", "Response time"),
	retx_of = ProtoField.framenum("weft.analysis.retransmission_of", "Sent before in", base.NONE,
		frametype.RETRANS_PREV),
	retx_after = ProtoField.relative_time("weft.analysis.retransmission_after", "Time since then"),
	copy_of = ProtoField.framenum("weft.analysis.duplicate_of", "Copy of the packet in", base.NONE,
		frametype.RETRANS_PREV),
	ack_of = ProtoField.framenum("weft.analysis.duplicate_ack_of", "The same request was answered in", base.NONE,
		frametype.DUP_ACK),
	tries = ProtoField.uint32("weft.analysis.tries", "Transmission"),
}
local c = {
	magic = ProtoField.string("weft.cm.magic", "Magic"),
	version = ProtoField.uint16("weft.cm.version", "Version of set-up"),
	packets = ProtoField.uint16("weft.cm.packet_version", "Version of packets"),
	type = ProtoField.uint16("weft.cm.type", "Type", base.DEC, cm_types),
	priv_len = ProtoField.uint16("weft.cm.private_len", "Private data length"),
	qpn = ProtoField.uint32("weft.cm.qpn", "QP number", base.HEX),
	psn = ProtoField.uint32("weft.cm.psn", "First PSN"),
	payload = ProtoField.uint32("weft.cm.payload", "Payload limit"),
	flags = ProtoField.uint32("weft.cm.flags", "Flags", base.HEX),
	csum = ProtoField.bool("weft.cm.flags.csum", "Wants the UDP checksum", 32, nil, 0x1),
	port = ProtoField.uint16("weft.cm.port", "UDP port"),
	conn_half = ProtoField.uint64("weft.cm.conn_half", "Half of the connection key", base.HEX),
	secret_half = ProtoField.uint64("weft.cm.secret_half", "Half of the hash secret", base.HEX),
	refusal = ProtoField.uint32("weft.cm.refusal", "Refusal", base.DEC, refusals),
	features = ProtoField.uint32("weft.cm.features", "Features", base.HEX),
	features_read = ProtoField.bool("weft.cm.features.read", "READ", 32, nil, 0x1),
	features_atomic = ProtoField.bool("weft.cm.features.atomic", "Atomics", 32, nil, 0x2),
	features_free = ProtoField.bool("weft.cm.features.free", "Segments free of order", 32, nil, 0x4),
	features_writes = ProtoField.bool("weft.cm.features.writes", "Several WRITEs in a packet", 32, nil, 0x8),
	required = ProtoField.uint32("weft.cm.required", "Features that the other side must have", base.HEX),
	required_read = ProtoField.bool("weft.cm.required.read", "READ", 32, nil, 0x1),
	required_atomic = ProtoField.bool("weft.cm.required.atomic", "Atomics", 32, nil, 0x2),
	required_free = ProtoField.bool("weft.cm.required.free", "Segments free of order", 32, nil, 0x4),
	required_writes = ProtoField.bool("weft.cm.required.writes", "Several WRITEs in a packet", 32, nil, 0x8),
	window = ProtoField.uint32("weft.cm.window", "Window, packets"),
	atomics = ProtoField.uint32("weft.cm.atomics", "Atomics outstanding at most"),
	priv = ProtoField.bytes("weft.cm.private", "Private data"),
	rsvd = ProtoField.bytes("weft.cm.reserved", "Reserved"),
	conn = ProtoField.uint64("weft.cm.conn", "Connection key", base.HEX),
	secret = ProtoField.uint64("weft.cm.secret", "Hash secret", base.HEX),
	code = ProtoField.uint32("weft.cm.bye.code", "Why", base.DEC, naks),
	arrived = ProtoField.uint32("weft.cm.bye.arrived", "Messages that had arrived"),
}
local d = {
	magic = ProtoField.uint32("weft.db.magic", "Magic", base.HEX),
	op = ProtoField.uint32("weft.db.op", "Operation", base.DEC, db_ops),
	qpn = ProtoField.uint32("weft.db.qpn", "Own QP", base.HEX),
	psn = ProtoField.uint32("weft.db.psn", "PSN"),
	claimed = ProtoField.uint32("weft.db.claimed", "A PSN is claimed"),
}

-- ---- expert info -------------------------------------------------------------------------------
local G, S = expert.group, expert.severity
local x = {
	cut = ProtoExpert.new("weft.expert.cut", "The header is cut off", G.UNDECODED, S.NOTE),
	version = ProtoExpert.new("weft.expert.version", "Unknown version", G.UNDECODED, S.WARN),
	opcode = ProtoExpert.new("weft.expert.opcode", "Unknown opcode", G.MALFORMED, S.ERROR),
	len = ProtoExpert.new("weft.expert.len", "Bad length", G.MALFORMED, S.ERROR),
	last = ProtoExpert.new("weft.expert.last", "LAST does not fit offset and length", G.PROTOCOL, S.ERROR),
	flags = ProtoExpert.new("weft.expert.flags", "Flags that this opcode does not have", G.PROTOCOL, S.WARN),
	rsvd = ProtoExpert.new("weft.expert.reserved", "Reserved bytes are not 0", G.PROTOCOL, S.WARN),
	sport = ProtoExpert.new("weft.expert.sport", "Source port is not that of the entropy value", G.PROTOCOL, S.WARN),
	base = ProtoExpert.new("weft.expert.sack_base", "SACK base is no multiple of 64", G.PROTOCOL, S.ERROR),
	check = ProtoExpert.new("weft.expert.check", "Bad header check", G.CHECKSUM, S.ERROR),
	wcheck = ProtoExpert.new("weft.expert.writes_check", "Bad descriptor check", G.CHECKSUM, S.ERROR),
	nak = ProtoExpert.new("weft.expert.nak", "Refused", G.RESPONSE_CODE, S.ERROR),
	rnr = ProtoExpert.new("weft.expert.rnr", "No receive is posted: to be sent again", G.RESPONSE_CODE, S.NOTE),
	seq = ProtoExpert.new("weft.expert.seq", "Not the next, in strict order: to be sent again", G.RESPONSE_CODE, S.NOTE),
	retx = ProtoExpert.new("weft.expert.retransmission", "Retransmission", G.SEQUENCE, S.NOTE),
	unseen = ProtoExpert.new("weft.expert.retransmission_unseen",
		"Retransmission of a packet that is not in this capture", G.SEQUENCE, S.NOTE),
	copy = ProtoExpert.new("weft.expert.duplicate", "The network doubled this packet", G.SEQUENCE, S.NOTE),
	dup_ack = ProtoExpert.new("weft.expert.duplicate_ack", "Duplicate answer", G.SEQUENCE, S.NOTE),
	answer = ProtoExpert.new("weft.expert.answer", "Not what was asked for", G.PROTOCOL, S.ERROR),
	ce = ProtoExpert.new("weft.expert.ce", "Congestion experienced, echoed", G.SEQUENCE, S.NOTE),
	clone = ProtoExpert.new("weft.expert.clone", "A clone without a packet, for no receiver", G.PROTOCOL, S.CHAT),
}
local xc = {
	version = ProtoExpert.new("weft.cm.expert.version", "Unknown version", G.UNDECODED, S.WARN),
	type = ProtoExpert.new("weft.cm.expert.type", "Unknown type", G.MALFORMED, S.ERROR),
	rsvd = ProtoExpert.new("weft.cm.expert.reserved", "Reserved bytes are not 0", G.PROTOCOL, S.WARN),
	refused = ProtoExpert.new("weft.cm.expert.refused", "Connection refused", G.RESPONSE_CODE, S.WARN),
	bye = ProtoExpert.new("weft.cm.expert.bye", "Connection ends with an error", G.RESPONSE_CODE, S.WARN),
	junk = ProtoExpert.new("weft.cm.expert.junk", "Not a message of set-up", G.MALFORMED, S.ERROR),
}

local function values(t)
	local list = {}
	for _, v in pairs(t) do
		list[#list + 1] = v
	end
	return list
end
weft.fields, weft.experts = values(f), values(x)
cm.fields, cm.experts = values(c), values(xc)
db.fields = values(d)

-- ---- preferences -------------------------------------------------------------------------------
weft.prefs.ports = Pref.range("UDP ports", "4793", "Destination ports of weft's packets", 65535)
weft.prefs.heuristic = Pref.bool("Find it on other ports", true, "By what a header must look like")
weft.prefs.verify = Pref.bool("Verify header checks", true, "Where the connection's secret is known")
weft.prefs.secrets = Pref.string("Secrets", "",
	"CONNECTION-KEY:SECRET in hexadecimal, separated by spaces, of connections whose set-up is not captured")

cm.prefs.ports = Pref.range("TCP ports", "7470-7471", "Ports on which connections are made", 65535)

local frame_comment = Field.new("frame.comment")
local tcp_stream = Field.new("tcp.stream")

-- ---- header check (docs/protocol.md, section 3) ------------------------------------------------
local GOLDEN = UInt64.fromhex("9e3779b97f4a7c15")
local MUL1 = UInt64.fromhex("bf58476d1ce4e5b9")
local MUL2 = UInt64.fromhex("94d049bb133111eb")

local function expand(secret)
	local keys = {}
	for i = 0, 16 do
		local z
		secret = secret + GOLDEN
		z = secret:bxor(secret:rshift(30)) * MUL1
		z = z:bxor(z:rshift(27)) * MUL2
		keys[i] = z:bxor(z:rshift(31))
	end
	return keys
end

-- Of 64 bytes from `from` on, of which those from `to` on, and the word `hole`, are taken as 0.
local function block_check(tvb, keys, from, to, hole)
	local sum = keys[16]
	local function word(at)
		return UInt64((at == hole or at >= to) and 0 or tvb(at, 4):le_uint(), 0)
	end
	for i = 0, 7 do
		local a, b = word(from + 8 * i), word(from + 8 * i + 4)
		sum = sum + (keys[2 * i] + a) * (keys[2 * i + 1] + b)
	end
	return sum:rshift(32):tonumber()
end

-- ---- what is known of connections and packets --------------------------------------------------
-- conns[key]: stream, keys, setup (frame), sides[address of the requester]. Filled on the first pass
-- in the order of the file; results are kept by frame, for later passes come in any order.
local conns, streams, frames, setups

local function conn_of(key)
	local conn = conns[key]
	if not conn then
		conn = { stream = streams, sides = {} }
		conns[key] = conn
		streams = streams + 1
	end
	return conn
end

local function learn(key, secret, frame)
	local conn = conn_of(key)
	conn.keys = conn.keys or expand(secret)
	conn.setup = conn.setup or frame
end

local function forget()
	conns, streams, frames, setups = {}, 0, {}, {}
	for key, secret in weft.prefs.secrets:gmatch("(%x+):(%x+)") do
		if #key <= 16 and #secret <= 16 then
			learn(string.rep("0", 16 - #key) .. key:lower(), UInt64.fromhex(secret))
		end
	end
end
weft.init = forget
forget()

-- What the requester at this address has sent: by PSN its last transmission, by PSN and time stamp each.
local function side_of(conn, addr)
	local side = conn.sides[addr]
	if not side then
		side = { psn = {}, sent = {} }
		conn.sides[addr] = side
	end
	return side
end

-- op: of the request; len: the payload that its answer has
local function seen_request(conn, pinfo, psn, ts, op, len)
	local side = side_of(conn, tostring(pinfo.src))
	local r, before = {}, side.psn[psn]
	local id = psn .. ":" .. ts

	if side.sent[id] then
		r.copy_of = side.sent[id].frame
		r.tries = side.sent[id].tries
		return r
	end
	if before then
		r.retx_of, r.retx_after = before.frame, pinfo.rel_ts - before.time
	end
	r.tries = before and before.tries + 1 or 1
	side.psn[psn] = { frame = pinfo.number, time = pinfo.rel_ts, tries = r.tries, op = op, len = len }
	side.sent[id] = side.psn[psn]
	return r
end

local function seen_answer(conn, pinfo, psn, ts, op, len)
	local sent = side_of(conn, tostring(pinfo.dst)).sent[psn .. ":" .. ts]
	local r = {}

	if not sent then
		return r
	end
	r.request, r.time, r.ack_of = sent.frame, pinfo.rel_ts - sent.time, sent.answer
	r.asked = sent.op
	r.wrong = op ~= NAK and op ~= SEQ and (op == REPLY) == (sent.op == DATA or sent.op == SEND or sent.op == WRITES) or op == REPLY and len ~= sent.len
	if not sent.answer then
		sent.answer = pinfo.number
		frames[sent.frame].response = pinfo.number
	end
	return r
end

-- ---- packets -----------------------------------------------------------------------------------
local function has(flags, bit)
	return math.floor(flags / bit) % 2 == 1
end

local function seconds(t)
	local s = math.floor(t)
	return NSTime.new(s, math.floor((t - s) * 1e9 + 0.5))
end

local function serial(psn)
	return psn % 2 ^ 32
end

-- Lua 5.4 writes "7.0" for a number that was computed
local function range_text(r)
	return r[1] == r[2] and string.format("%d", r[1]) or string.format("%d-%d", r[1], r[2])
end

local function zeros(tree, tvb, at, len, field, info)
	local item
	if len == 0 then
		return
	end
	for i = at, at + len - 1 do
		if tvb(i, 1):uint() ~= 0 then
			item = item or tree:add(field, tvb(at, len))
		end
	end
	if item then
		item:add_proto_expert_info(info)
	end
end

-- The runs of ones in the bitmap: { { first, last }, ... } as PSNs, and how many bits.
local function sack_ranges(high, low, base)
	local ranges, count, open = {}, 0, nil
	for i = 0, 63 do
		local word = i < 32 and low or high
		if has(word, 2 ^ (i % 32)) then
			count = count + 1
			if open then
				open[2] = serial(base + i)
			else
				open = { serial(base + i), serial(base + i) }
				ranges[#ranges + 1] = open
			end
		else
			open = nil
		end
	end
	return ranges, count
end

-- DATA, SEND and READ; len: of the segment
local function dissect_data(tvb, tree, op, flags, len)
	local moff, mlen = tvb(48, 4):uint(), tvb(52, 4):uint()
	local item, takes = nil, ""

	if op == SEND then
		zeros(tree, tvb, 32, 4, f.rsvd, x.rsvd)
	else
		tree:add(f.rkey, tvb(32, 4))
	end
	tree:add(f.dmsn, tvb(36, 4))
	if op == SEND then
		zeros(tree, tvb, 40, 8, f.rsvd, x.rsvd)
	else
		tree:add(f.roff, tvb(40, 8))
	end
	item = tree:add(f.moff, tvb(48, 4))
	if moff + len > mlen then
		item:add_proto_expert_info(x.len, "The segment ends behind its message")
	elseif has(flags, 0x01) ~= (moff + len == mlen) then
		item:add_proto_expert_info(x.last)
	end
	item = tree:add(f.mlen, tvb(52, 4))
	if mlen > MSG_MAX then
		item:add_proto_expert_info(x.len, "The message is longer than 1 GiB")
	end
	if op == READ then
		item = tree:add(f.rlen, tvb(56, 4))
		if len > PAYLOAD_MAX then
			item:add_proto_expert_info(x.len, "More than an answer carries")
		end
	elseif has(flags, 0x10) then
		tree:add(f.imm, tvb(56, 4))
	else
		zeros(tree, tvb, 56, 4, f.rsvd, x.rsvd)
	end
	if op == SEND or op == DATA and has(flags, 0x10) then
		tree:add(f.rsn, tvb(60, 4))
		takes = string.format(" Recv=%d", tvb(60, 4):uint())
	else
		zeros(tree, tvb, 60, 4, f.rsvd, x.rsvd)
	end
	return string.format(" Len=%d Msg=%d %d/%d", len, tvb(36, 4):uint(), moff, mlen) .. takes
end

local function dissect_atomic(tvb, tree, op, flags)
	tree:add(f.akey, tvb(32, 4))
	tree:add(f.asn, tvb(36, 4))
	tree:add(f.aoff, tvb(40, 8))
	tree:add(f.operand, tvb(48, 8))
	if op == CSWAP then
		tree:add(f.compare, tvb(56, 8))
	end
	if not has(flags, 0x01) then
		tree:add_proto_expert_info(x.last, "An atomic without LAST")
	end
	return string.format(" Atomic=%d", tvb(36, 4):uint())
end

-- Several WRITEs: descriptors, then the bytes of each. plen: as the header says it.
local function dissect_writes(tvb, tree, flags, plen, conn)
	local n, cap, at = tvb(32, 4):uint(), tvb:len(), 0
	local item, sum, data, sub, len

	item = tree:add(f.wn, tvb(32, 4))
	tree:add(f.wmsn, tvb(36, 4))
	if n < 2 or n > MANY then
		item:add_proto_expert_info(x.len, "Not 2 to 8 WRITEs")
		n = 0
	end
	if not has(flags, 0x01) then
		tree:add_proto_expert_info(x.last, "WRITES without LAST")
	end
	for i = 0, 1 do
		item = tree:add(f.wsum, tvb(40 + 4 * i, 4))
		if conn.keys and weft.prefs.verify and n > 0 and cap >= HDR + 16 * n then
			sum = block_check(tvb, conn.keys, HDR + 64 * i, HDR + 16 * n) == tvb(40 + 4 * i, 4):uint()
			tree:add(f.wsum_status, tvb(40 + 4 * i, 4), sum and 1 or 0):set_generated()
			if not sum then
				item:add_proto_expert_info(x.wcheck)
			end
		end
	end
	zeros(tree, tvb, 48, 16, f.rsvd, x.rsvd)
	data = 16 * n
	while at < n and cap >= HDR + 16 * (at + 1) do
		local d = tvb(HDR + 16 * at, 16)

		len = d(4, 4):uint()
		item = tree:add(f.write, d)
		item:append_text(string.format(" %d, %d bytes", tvb(36, 4):uint() + at, len))
		item:add(f.wkey, d(0, 4))
		sub = item:add(f.wlen, d(4, 4))
		if len > MANY_LEN then
			sub:add_proto_expert_info(x.len, "Longer than 256 bytes")
		end
		item:add(f.woff, d(8, 8))
		if len > 0 and cap >= HDR + data + len then
			item:add(f.wdata, tvb(HDR + data, len))
		end
		data, at = data + len, at + 1
	end
	if at == n and n > 0 and data ~= plen then
		tree:add_proto_expert_info(x.len, "The lengths do not add up to the payload")
	end
	return string.format(" Len=%d Msg=%d WRITEs=%d", plen, tvb(36, 4):uint(), tvb(32, 4):uint())
end

-- What ACK, RNR and RESUME say of receives.
local function dissect_epoch(tvb, tree, told)
	if told then
		tree:add(f.epoch, tvb(52, 4))
	else
		zeros(tree, tvb, 52, 4, f.rsvd, x.rsvd)
	end
	zeros(tree, tvb, 56, 8, f.rsvd, x.rsvd)
	return told and string.format(" Epoch=%d", tvb(52, 4):uint()) or ""
end

local function dissect_resume(tvb, tree)
	zeros(tree, tvb, 32, 20, f.rsvd, x.rsvd)
	return dissect_epoch(tvb, tree, true)
end

local function dissect_ack(tvb, tree, flags)
	local base = tvb(48, 4):uint()
	local ranges, count = sack_ranges(tvb(40, 4):uint(), tvb(44, 4):uint(), base)
	local texts, item, sub = {}, nil, nil

	tree:add(f.cum, tvb(32, 4))
	tree:add(f.amsn, tvb(36, 4))
	item = tree:add(f.sack, tvb(40, 8))
	for _, r in ipairs(ranges) do
		texts[#texts + 1] = range_text(r)
		sub = item:add(f.sack_range, tvb(40, 8), range_text(r))
		sub:add(f.sack_first, tvb(40, 8), r[1])
		sub:add(f.sack_last, tvb(40, 8), r[2])
	end
	item:add(f.sack_count, tvb(40, 8), count):set_generated()
	item:append_text(count > 0 and " (" .. table.concat(texts, ", ") .. ")" or " (none)")
	item = tree:add(f.sack_base, tvb(48, 4))
	if base % 64 ~= 0 then
		item:add_proto_expert_info(x.base)
	end
	return string.format(" Cum=%d Msgs=%d%s", tvb(32, 4):uint(), tvb(36, 4):uint(),
		count > 0 and " SACK=" .. table.concat(texts, ",") or "")
		.. dissect_epoch(tvb, tree, has(flags, 0x40))
end

local function dissect_nak(tvb, tree)
	local code = tvb(32, 4):uint()
	local text = naks[code] or "unknown code"
	local item = tree:add(f.code, tvb(32, 4))

	item:add_proto_expert_info(x.nak, "Refused: " .. text)
	tree:add(f.npsn, tvb(36, 4))
	tree:add(f.nth, tvb(40, 4))
	zeros(tree, tvb, 44, 20, f.rsvd, x.rsvd)
	return string.format(" Refused=%d (%s)", tvb(36, 4):uint(), text)
end

-- 0 bad, 1 good, 2 not verified; and what it should be.
local function verify(tvb, conn)
	local want

	if not (conn.keys and weft.prefs.verify) then
		return 2
	end
	want = block_check(tvb, conn.keys, 0, HDR, 24)
	return want == tvb(24, 4):uint() and 1 or 0, want
end

local function dissect_check(tvb, tree, conn, status, want)
	local item = tree:add(f.check, tvb(24, 4))

	item:append_text(status == 1 and " [correct]" or status == 0 and " [incorrect]"
		or conn.keys and " [not verified]" or " [cannot be verified: the connection's secret is not known]")
	item:add(f.check_status, tvb(24, 4), status):set_generated()
	if status == 0 then
		item:add(f.check_want, tvb(24, 4), want):set_generated()
		item:add_proto_expert_info(x.check)
	end
end

local function add_generated(tree, field, value)
	if value then
		local item = tree:add(field, value)
		item:set_generated()
		return item
	end
end

-- What the first pass found out about this frame.
local function analysis(tvb, pinfo, tree, conn, op, flags, r)
	local marks, item = "", nil

	add_generated(tree, f.stream, conn.stream)
	add_generated(tree, f.setup, conn.setup)
	if requests[op] then
		add_generated(tree, f.response, r.response)
		add_generated(tree, f.tries, r.tries)
		item = add_generated(tree, f.copy_of, r.copy_of)
		if item then
			item:add_proto_expert_info(x.copy)
			marks = " [duplicate]"
		end
		item = add_generated(tree, f.retx_of, r.retx_of)
		if item then
			item:add_proto_expert_info(x.retx)
			add_generated(tree, f.retx_after, seconds(r.retx_after))
			marks = " [retransmission]"
		elseif has(flags, 0x02) and not r.copy_of then
			tree:add_proto_expert_info(x.unseen)
			marks = " [retransmission]"
		end
	else
		add_generated(tree, f.request, r.request)
		if r.time then
			add_generated(tree, f.time, seconds(r.time))
		end
		if r.wrong then
			tree:add_proto_expert_info(x.answer,
				string.format("Not what was asked for: the request is a %s", opcodes[r.asked]))
		end
		item = add_generated(tree, f.ack_of, r.ack_of)
		if item or (op ~= NAK and has(flags, 0x08)) then
			(item or tree):add_proto_expert_info(x.dup_ack,
				has(flags, 0x08) and "Duplicate answer: the request had been seen before" or nil)
			marks = string.format(" [duplicate %s]", opcodes[op] or "answer")
		end
		if op == RNR then
			tree:add_proto_expert_info(x.rnr)
		elseif op == SEQ then
			tree:add_proto_expert_info(x.seq)
		end
		if op ~= NAK and has(flags, 0x04) then
			tree:add_proto_expert_info(x.ce)
			marks = marks .. " [CE]"
		end
	end
	return marks
end

local function dissect_flags(tvb, tree, op, flags)
	local item = tree:add(f.flags, tvb(2, 1))
	local allowed = allowed_flags[op] or 0
	local names = {}

	for _, b in ipairs({ { f.last, 0x01, "LAST" }, { f.retx, 0x02, "RETX" }, { f.ce, 0x04, "CE" },
			{ f.dup, 0x08, "DUP" }, { f.imm_flag, 0x10, "IMM" }, { f.sol, 0x20, "SOL" }, { f.rq, 0x40, "RQ" },
			{ f.free, 0x80, "FREE" } }) do
		item:add(b[1], tvb(2, 1))
		if has(flags, b[2]) then
			names[#names + 1] = b[3]
		end
	end
	for bit = 0, 7 do
		if has(flags, 2 ^ bit) and not has(allowed, 2 ^ bit) then
			item:add_proto_expert_info(x.flags)
			break
		end
	end
	if #names > 0 then
		item:append_text(" (" .. table.concat(names, ", ") .. ")")
	end
	return #names > 0 and " [" .. table.concat(names, ",") .. "]" or ""
end

local function dissect_head(tvb, tree)
	local item

	item = tree:add(f.ver, tvb(0, 1))
	if tvb(0, 1):uint() ~= VERSION then
		item:add_proto_expert_info(x.version)
	end
	item = tree:add(f.op, tvb(1, 1))
	if not opcodes[tvb(1, 1):uint()] then
		item:add_proto_expert_info(x.opcode)
	end
end

local function learn_from_comment(pinfo)
	for _, info in ipairs({ frame_comment() }) do
		local key, secret = tostring(info.value):match("^weft key conn=(%x+) secret=(%x+)")
		if key and #key == 16 and #secret == 16 then
			learn(key:lower(), UInt64.fromhex(secret))
		end
	end
end

function weft.dissector(tvb, pinfo, root)
	local cap, len = tvb:len(), tvb:reported_len()
	local tree, op, flags, plen, psn, slen, item, info, conn, status, want, r

	if cap == 0 then
		return 0
	end
	pinfo.cols.protocol = "weft"
	tree = root:add(weft, tvb(0, math.min(cap, HDR)))
	if cap < HDR then
		pinfo.cols.info = "header cut off"
		tree:append_text(", cut off")
		if len < HDR then
			tree:add_proto_expert_info(x.len, "Shorter than a header")
		else
			tree:add_proto_expert_info(x.cut)
		end
		return cap
	end
	if not pinfo.visited then
		learn_from_comment(pinfo)
	end
	op, flags, plen, psn = tvb(1, 1):uint(), tvb(2, 1):uint(), tvb(28, 2):uint(), tvb(16, 4):uint()
	-- the segment: what it brings, or is to bring
	slen = op == READ and tvb(56, 4):uint() or (op == FADD or op == CSWAP) and 8 or plen
	conn = conn_of(tvb(8, 8):bytes():tohex(true))
	status, want = verify(tvb, conn)
	if not pinfo.visited then
		-- the receiver drops what is damaged, and nothing in it is to be believed
		r = status == 0 and {} or requests[op] and seen_request(conn, pinfo, psn, tvb(20, 4):uint(), op, slen)
			or answers[op] and seen_answer(conn, pinfo, psn, tvb(20, 4):uint(), op, plen) or {}
		frames[pinfo.number] = r
	else
		r = frames[pinfo.number] or {}
	end

	dissect_head(tvb, tree)
	local names = dissect_flags(tvb, tree, op, flags)
	item = tree:add(f.ev, tvb(3, 1))
	if tvb(3, 1):uint() >= EV_MAX or pinfo.src_port ~= EV_PORT0 + tvb(3, 1):uint() then
		item:add_proto_expert_info(x.sport)
	end
	item = tree:add(f.dqpn, tvb(4, 4))
	item:add(f.slot, tvb(4, 4))
	item:add(f.gen, tvb(4, 4))
	tree:add(f.conn, tvb(8, 8))
	tree:add(f.psn, tvb(16, 4))
	tree:add(f.ts, tvb(20, 4))
	dissect_check(tvb, tree, conn, status, want)
	item = tree:add(f.len, tvb(28, 2))
	if plen ~= len - HDR then
		item:add_proto_expert_info(x.len,
			string.format("Payload length is %d, UDP carries %d", plen, len - HDR))
	elseif plen > 0 and not carries[op] then
		item:add_proto_expert_info(x.len, (opcodes[op] or "This") .. " carries no payload")
	end
	zeros(tree, tvb, 30, 2, f.rsvd, x.rsvd)

	if op == DATA or op == SEND or op == READ then
		info = dissect_data(tvb, tree, op, flags, slen)
	elseif op == WRITES then
		info = dissect_writes(tvb, tree, flags, plen, conn)
	elseif op == FADD or op == CSWAP then
		info = dissect_atomic(tvb, tree, op, flags)
	elseif op == ACK or op == REPLY or op == RNR or op == SEQ then
		info = (op == REPLY and string.format(" Len=%d", plen) or "") .. dissect_ack(tvb, tree, flags)
	elseif op == RESUME then
		info = dissect_resume(tvb, tree)
	elseif op == NAK then
		info = dissect_nak(tvb, tree)
	else
		info = ""
	end
	info = info .. names .. analysis(tvb, pinfo, tree, conn, op, flags, r)
	if status == 0 then
		info = info .. " [bad check]"
	end
	info = string.format("%s QP=0x%x PSN=%d", opcodes[op] or "opcode " .. op, tvb(4, 4):uint(), psn) .. info
	pinfo.cols.info = info
	tree:append_text(", " .. info)
	if cap > HDR then
		tree:add(f.payload, tvb(HDR))
	end
	return len
end

-- ---- set-up over TCP ---------------------------------------------------------------------------
-- The two halves of key and secret come in two frames; together they make the header checks verifiable.
local function agree(tvb, at, pinfo, tree, type)
	local stream = tcp_stream()
	local s

	if not stream then
		return
	end
	stream = stream.value
	s = setups[stream] or {}
	setups[stream] = s
	s[type] = s[type] or { conn = tvb(at + 32, 8):uint64(), secret = tvb(at + 40, 8):uint64() }
	if type == 2 and s[1] then
		local conn, secret = s[1].conn:bxor(s[2].conn), s[1].secret:bxor(s[2].secret)

		add_generated(tree, c.conn, conn)
		add_generated(tree, c.secret, secret)
		learn(conn:tohex():lower(), secret, pinfo.number)
	end
end

local function dissect_setup(tvb, at, pinfo, tree)
	local type, priv = tvb(at + 8, 2):uint(), tvb(at + 10, 2):uint()
	local refusal = tvb(at + 48, 4):uint()
	local item, sub

	tree:add(c.magic, tvb(at, 4))
	item = tree:add(c.version, tvb(at + 4, 2))
	if tvb(at + 4, 2):uint() ~= 2 then
		item:add_proto_expert_info(xc.version)
	end
	item = tree:add(c.packets, tvb(at + 6, 2))
	if tvb(at + 6, 2):uint() ~= VERSION then
		item:add_proto_expert_info(xc.version)
	end
	item = tree:add(c.type, tvb(at + 8, 2))
	if type ~= 1 and type ~= 2 then
		item:add_proto_expert_info(xc.type)
	end
	tree:add(c.priv_len, tvb(at + 10, 2))
	tree:add(c.qpn, tvb(at + 12, 4))
	tree:add(c.psn, tvb(at + 16, 4))
	tree:add(c.payload, tvb(at + 20, 4))
	sub = tree:add(c.flags, tvb(at + 24, 4))
	sub:add(c.csum, tvb(at + 24, 4))
	tree:add(c.port, tvb(at + 28, 2))
	zeros(tree, tvb, at + 30, 2, c.rsvd, xc.rsvd)
	tree:add(c.conn_half, tvb(at + 32, 8))
	tree:add(c.secret_half, tvb(at + 40, 8))
	item = tree:add(c.refusal, tvb(at + 48, 4))
	zeros(tree, tvb, at + 52, 4, c.rsvd, xc.rsvd)
	if tvb(at + 4, 2):uint() ~= 2 then
		return "of another version"
	end
	for i, list in ipairs({ "features", "required" }) do
		sub = tree:add(c[list], tvb(at + 52 + 4 * i, 4))
		sub:add(c[list .. "_read"], tvb(at + 52 + 4 * i, 4))
		sub:add(c[list .. "_atomic"], tvb(at + 52 + 4 * i, 4))
		sub:add(c[list .. "_free"], tvb(at + 52 + 4 * i, 4))
		sub:add(c[list .. "_writes"], tvb(at + 52 + 4 * i, 4))
	end
	tree:add(c.window, tvb(at + 64, 4))
	tree:add(c.atomics, tvb(at + 68, 4))
	zeros(tree, tvb, at + 72, 8, c.rsvd, xc.rsvd)
	if priv > 0 then
		tree:add(c.priv, tvb(at + CM_LEN, priv))
	end
	if refusal ~= 0 then
		item:add_proto_expert_info(xc.refused, "Refused: " .. (refusals[refusal] or "unknown"))
		return string.format("%s refused: %s", cm_types[type] or "?", refusals[refusal] or "unknown")
	end
	agree(tvb, at, pinfo, tree, type)
	return string.format("%s QP=0x%x PSN=%d Payload=%d", cm_types[type] or "?", tvb(at + 12, 4):uint(),
		tvb(at + 16, 4):uint(), tvb(at + 20, 4):uint())
end

local function dissect_bye(tvb, at, tree)
	local code, item = tvb(at + 4, 4):uint(), nil

	tree:add(c.magic, tvb(at, 4))
	item = tree:add(c.code, tvb(at + 4, 4))
	if code ~= 5 then
		item:add_proto_expert_info(xc.bye)
	end
	tree:add(c.arrived, tvb(at + 8, 4))
	return string.format("BYE (%s) Arrived=%d", naks[code] or "unknown", tvb(at + 8, 4):uint())
end

-- Length of the message that begins there; 0: not known yet, nil: none of ours.
local function message_len(tvb, at)
	local left = tvb:len() - at
	local first = tvb(at, math.min(left, 4)):string()

	if left >= 4 and first == "WEFT" then
		-- of other versions only the beginning is known
		return left >= 12 and (tvb(at + 4, 2):uint() == 2 and CM_LEN or CM_OLD_LEN) + tvb(at + 10, 2):uint() or 0
	elseif left >= 4 and first == "WBYE" then
		return BYE_LEN
	elseif first == ("WEFT"):sub(1, left) or first == ("WBYE"):sub(1, left) then
		return 0
	elseif cm_bytes[first:sub(1, 1)] then
		return 1
	end
end

-- Has a connection been set up on this stream?
local function begun()
	local stream = tcp_stream()

	return stream and setups[stream.value] ~= nil
end

function cm.dissector(tvb, pinfo, root)
	local at, infos = 0, {}

	while at < tvb:len() do
		local need, left = message_len(tvb, at), tvb:len() - at
		local tree

		if need and (need == 0 or need > left) then
			if tvb:reported_len() > tvb:len() then
				return at -- cut by the capture: the rest never comes
			end
			pinfo.desegment_offset = at
			pinfo.desegment_len = need == 0 and DESEGMENT_ONE_MORE_SEGMENT or need - left
			return tvb:len()
		end
		if not need and at == 0 and not begun() then
			return 0 -- somebody else's, on a port that is ours by preference only
		end
		pinfo.cols.protocol = "weft setup"
		tree = root:add(cm, tvb(at, need or left))
		if not need then
			tree:add_proto_expert_info(xc.junk)
			need = left
			infos[#infos + 1] = "not a message of set-up"
		elseif need == 1 then
			local type = cm_bytes[tvb(at, 1):string()]

			tree:add(c.type, tvb(at, 1), type)
			infos[#infos + 1] = cm_types[type]
		elseif tvb(at, 4):string() == "WBYE" then
			infos[#infos + 1] = dissect_bye(tvb, at, tree)
		else
			infos[#infos + 1] = dissect_setup(tvb, at, pinfo, tree)
		end
		tree:append_text(", " .. infos[#infos])
		at = at + need
	end
	pinfo.cols.info = table.concat(infos, "; ")
	return at
end

local function find_setup(tvb, pinfo, root)
	local first = tvb:len() >= 4 and tvb(0, 4):string()

	if not (first == "WEFT" and tvb:len() >= 8 and tvb(6, 2):uint() < 256)
		and not (first == "WBYE" and tvb:reported_len() == BYE_LEN) then
		return false
	end
	pinfo.conversation = cm
	cm.dissector(tvb, pinfo, root)
	return true
end

-- ---- doorbells and templates: host byte order, and the only hosts are little-endian -------------
function db.dissector(tvb, pinfo, root)
	local tree, info

	if tvb:len() < DB_LEN or tvb(0, 4):le_uint() ~= 0x77656674 then
		return 0
	end
	pinfo.cols.protocol = "weft"
	tree = root:add(db, tvb(0, DB_LEN))
	tree:add_le(d.magic, tvb(0, 4))
	tree:add_le(d.op, tvb(4, 4))
	tree:add_le(d.qpn, tvb(8, 4))
	tree:add_le(d.psn, tvb(12, 4))
	tree:add_le(d.claimed, tvb(16, 4))
	info = string.format("%s QP=0x%x", db_ops[tvb(4, 4):le_uint()] or "?", tvb(8, 4):le_uint())
	if tvb(4, 4):le_uint() == 3 then
		info = info .. ": a clone without a packet"
		tree:add_proto_expert_info(x.clone)
	end
	pinfo.cols.info = info
	tree:append_text(", " .. info)
	return DB_LEN
end

-- ---- where to find them ------------------------------------------------------------------------
-- Keep a table's entries for a protocol at what its preference says.
local function follow(name, proto)
	local ports, registered = DissectorTable.get(name), ""

	local function heed()
		local now = tostring(proto.prefs.ports)

		if now == registered then
			return
		end
		if registered ~= "" then
			ports:remove(registered, proto)
		end
		if now ~= "" then
			ports:add(now, proto)
		end
		registered = now
	end
	proto.prefs_changed = heed
	heed()
	ports:add_for_decode_as(proto)
end

-- A header is unlikely to be anything else if all that has no choice is right.
local function looks_like_weft(tvb, pinfo)
	local len = tvb:reported_len()

	return tvb:len() >= HDR and tvb(0, 1):uint() == VERSION and opcodes[tvb(1, 1):uint()] ~= nil
		and tvb(2, 1):uint() < 128 and tvb(3, 1):uint() < EV_MAX
		and pinfo.src_port == EV_PORT0 + tvb(3, 1):uint()
		and tvb(28, 2):uint() == len - HDR and tvb(30, 2):uint() == 0
end

local function find_packet(tvb, pinfo, root)
	if not weft.prefs.heuristic or not looks_like_weft(tvb, pinfo) then
		return false
	end
	weft.dissector(tvb, pinfo, root)
	return true
end

follow("udp.port", weft)
follow("tcp.port", cm)
DissectorTable.get("ethertype"):add(0x88b5, db)
weft:register_heuristic("udp", find_packet)
cm:register_heuristic("tcp", find_setup)
