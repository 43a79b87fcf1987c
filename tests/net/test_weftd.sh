#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Processes without privileges by way of weftd: at work, over its death, over quotas, against each other.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=weftd.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/weftd.sh"

ALICE=65534 BOB=65533 # no account is needed
declare -A NS SOCK DEV PID

# as UID HOST COMMAND...: without privileges, weftd does the rest. WEFT_DAEMON as given.
as() {
	local uid=$1 host=$2
	shift 2
	lab_in "${NS[$host]}" "$BIN/as" "$uid" "${SOCK[$host]}" "$@"
}

start() {	# HOST
	weftd_spawn "${NS[$1]}" "$LAB_TMP/$1.conf" "${SOCK[$1]}" "weftd.$1"
	PID[$1]=$WEFTD_PID
}

kill_9() {
	weftd_kill "${PID[$1]}"
}

# user UID, or "in-process": what netwrite of serve and writer runs as, and on which host
run_as() {
	if [ "$1" = in-process ]; then
		NETWRITE=$BIN/netwrite
		return
	fi
	NETWRITE=$LAB_TMP/netwrite.$1.$2
	weftd_as "$NETWRITE" "$1" "${SOCK[$2]}" "$BIN/netwrite"
}

# users HOST: what `weft dev show` says of them; held USERS UID FIELD: the sum over the user's processes
users() {
	"$WEFT" -n "${NS[$1]}" -j dev show "${DEV[$1]}" | jq -c '.[0].users'
}

held() {
	jq "[.[] | select(.uid == $2 and .weftd) | .$3] | add // 0" <<<"$1"
}

nobody_holds() {
	[ "$(users "$1" | jq "[.[] | select(.weftd)] | length")" = 0 ] &&
		[ "$("$WEFT" -n "${NS[$1]}" -j qp show "${DEV[$1]}" | jq length)" = 0 ] &&
		[ "$("$WEFT" -n "${NS[$1]}" -j mr show "${DEV[$1]}" | jq length)" = 0 ]
}

# fails_with TEXT COMMAND...: status 1, and that in its message
fails_with() {
	local text=$1 rc=0 out
	shift
	out=$("$@" 2>&1 >/dev/null) || rc=$?
	echo "status $rc: $out"
	[ $rc = 1 ] && [[ $out == *"$text"* ]]
}

perf_as() {
	as "$1" a "$BIN/weft" perf write "${DEV[a]}" "10.9.0.2:$2" "${@:3}"
}

lab_begin
meter
lab_pair 3498
weftd_bin "$WEFT" "$NETWRITE" "$LAB_BUILD/tests/fuzz/rings" "$LAB_BUILD/tests/net/daemonfuzz" "$LAB_BUILD/tests/net/netrecv"
mknod -m 666 "$LAB_TMP/tun" c 10 200 # as on most machines, where everybody may open it
NS=([a]=$LAB_A [b]=$LAB_B) DEV=([a]=$LAB_IF_A [b]=$LAB_IF_B)
for host in a b; do
	SOCK[$host]=$LAB_TMP/$host.sock
	cat >"$LAB_TMP/$host.conf" <<-CONF
		device ${DEV[$host]}	# the laboratory's
		user $ALICE memory 256m qps 16 regions 64 processes 4
		user $BOB memory 64m qps 8 regions 16 processes 12 share 50
	CONF
done

at_work() {
	t -- fails_with 'weftd cannot be reached' as $ALICE a "$BIN/weft" perf write "${DEV[a]}" 10.9.0.2 \
		++ "without weftd: says so"
	start a
	start b
	t "$(awk '/^CapEff/ { print "0x" $2 }' "/proc/${PID[a]}/status") == 0xc000003000" \
		"weftd has the capabilities of its unit, and no others"
	run_as $ALICE b
	serve s "$LAB_B" --region 4m --conns 4 --qps 4 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 4 --time 600 --src 4m --max 1m "$LAB_IF_A=10.9.0.2:7000"
	t -- until_true 60 connected 4 ++ "users without privileges connect"
	local a b
	a=$(users a) b=$(users b)
	t "$(held "$a" $ALICE qps) == 4 && $(held "$b" $ALICE qps) == 4 && $(held "$b" $ALICE memory) > 0" \
		"weft dev show tells who has what: $a"
	t "$(jq "[.[] | select(.weftd) | .pid] == [$CLIENT]" <<<"$a" | grep -c true) == 1" "and by which process"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "every byte is right, on both sides"
	t -- until_true 60 nobody_holds a ++ "all is given back"
}

# connected N: so many QPs, on both sides
connected() {
	(($(grep -c '^qp .*connected' "$LAB_TMP/c") >= $1 && $(grep -c '^qp .*connected' "$LAB_TMP/s") >= $1))
}

# Killed and started again while others write, connect, allocate and close.
over_its_death() {
	local i server short late
	run_as $ALICE b
	serve s "$LAB_B" --region 4m --conns 4 --qps 4 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 4 --time 600 --src 4m --max 256k "$LAB_IF_A=10.9.0.2:7000"
	t -- until_true 60 connected 4 ++ "writing, both by way of weftd"
	: >"$LAB_TMP/perf"
	lab_spawn_in "$LAB_B" "$BIN/as" $ALICE "${SOCK[b]}" "$BIN/weft" perf server -p 7500 "${DEV[b]}" \
		>"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	for ((i = 0; i < 10; i++)); do
		perf_as $ALICE 7500 --count 20 --region 4m --verify || echo failed
	done >>"$LAB_TMP/short" 2>&1 &
	short=$!
	for ((i = 0; i < 3; i++)); do
		kill_9 a
		[ $i = 1 ] && kill_9 b
		sleep 0.1
		start a
		[ $i = 1 ] && start b
		sleep 0.25
	done
	kill -TERM "${PID[b]}"
	t -- lab_wait "${PID[b]}" ++ "SIGTERM: weftd ends with 0"
	: >"$LAB_TMP/late"
	lab_spawn_in "$LAB_B" "$BIN/as" $ALICE "${SOCK[b]}" "$BIN/weft" perf server -p 7600 "${DEV[b]}" \
		>"$LAB_TMP/late" 2>&1
	late=$LAB_SPAWNED
	sleep 0.2
	start b
	t -- lab_wait_line "$LAB_TMP/late" '^ready' "$late" ++ "who comes in between waits for the next"
	lab_stop "$late"
	wait $short
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "killed and started again: no error, every byte is right"
	note "$(grep -B1 failed "$LAB_TMP/short")"
	t "$(grep -c failed "$LAB_TMP/short") == 0 && $(grep -c 'verified     yes' "$LAB_TMP/short") == 10" \
		"likewise for who connects, allocates and closes meanwhile"
	kill -TERM "$server"
	t -- finish "$server" perf ++ "the server ends with 0"
}

# Nobody needs weftd to go on, nor to hear of an error.
without_it() {
	run_as $ALICE b
	serve s "$LAB_B" --region 4m --conns 2 --qps 2 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 2 --time 2 --src 4m --max 256k "$LAB_IF_A=10.9.0.2:7000"
	# connections that are being made do not bear so long an outage
	until_true 60 connected 2
	kill_9 a
	kill_9 b
	sleep 1.5
	start a
	start b
	t -- finish_both c s ++ "most of a transfer without any weftd: every byte is right"
	run_as $ALICE b
	serve s "$LAB_B" --region 4m --conns 1 --qps 1 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 1 --time 600 --max 256k "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT"
	kill_9 a
	kill -KILL "$SERVER"
	wait "$SERVER" 2>/dev/null
	lab_forget "$SERVER"
	t -- in_time 2 grep -q 'failed .*remote side closed' "$LAB_TMP/c" ++ "the peer's death is told without it, within 2 s"
	start a
	t -- finish "$CLIENT" c 3 ++ "and the process ends when it is back"
	t -- until_true 60 nobody_holds a ++ "with nothing left"
}

# SENDs and their receives, both sides without privileges; also over the death of both.
sends() {
	local server how
	: >"$LAB_TMP/perf"
	lab_spawn_in "$LAB_B" "$BIN/as" $ALICE "${SOCK[b]}" "$BIN/weft" perf server -p 7700 "${DEV[b]}" \
		>"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	for how in '' ', and both weftd killed'; do
		: >"$LAB_TMP/c"
		lab_spawn_in "$LAB_A" "$BIN/as" $ALICE "${SOCK[a]}" "$BIN/weft" perf send "${DEV[a]}" 10.9.0.2:7700 \
			--qps 3 --size 54321 --region 8m --time 2 --verify >"$LAB_TMP/c" 2>&1
		CLIENT=$LAB_SPAWNED
		until_true 60 busy_qps 3
		[ -z "$how" ] || { kill_9 a; kill_9 b; sleep 0.3; start a; start b; }
		t -- finish "$CLIENT" c ++ "SENDs of users without privileges$how"
		t -- grep -q 'verified     yes' "$LAB_TMP/c" ++ "every byte is right"
	done
	kill -TERM "$server"
	t -- finish "$server" perf ++ "the server ends with 0"
	t -- as $ALICE b "$BIN/netrecv" - - - "${DEV[b]}" 10.9.0.2 quota ++ "as many receive queues as are allowed, no more"
	t -- until_true 60 nobody_holds b ++ "and all are given back"
}

# Whoever dies leaves nothing, whether weftd sees it or not.
clients_killed() {
	local left
	run_as $ALICE b
	serve s "$LAB_B" --region 4m --conns 4 --qps 4 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 4 --time 600 "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT"
	kill -KILL "$CLIENT"
	wait "$CLIENT" 2>/dev/null
	lab_forget "$CLIENT"
	t -- in_time 2 nobody_holds a ++ "a client that is killed leaves nothing"
	kill -TERM "$SERVER" 2>/dev/null
	finish "$SERVER" s >/dev/null 2>&1
	run_as $BOB b
	serve s "$LAB_B" --region 4m --conns 1 --qps 4 "$LAB_IF_B=10.9.0.2:7000"
	kill_9 b
	kill -KILL "$SERVER"
	wait "$SERVER" 2>/dev/null
	lab_forget "$SERVER"
	left=$("$WEFT" -n "$LAB_B" -j mr show "${DEV[b]}" | jq length)
	start b
	t "$left > 0" "one that is killed while there is no weftd leaves $left regions"
	t -- until_true 60 nobody_holds b ++ "and the next weftd takes them away"
}

quotas() {
	local what all windows
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server -p 7500 "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	local server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	t -- fails_with "user $BOB has" perf_as $BOB 7500 --region 128m --count 1 ++ "more memory than is allowed"
	lab_stop "$server"
	t -- until_true 60 nobody_holds a ++ "and nothing is kept"
	for what in memory receives qps cqs processes; do
		t -- as $BOB a "$BIN/daemonfuzz" hoard "${SOCK[a]}" "${DEV[a]}" $what ++ "more $what than are allowed"
	done
	t -- fails_with ': user 65000 may not use weft' as 65000 a "$BIN/weft" perf write "${DEV[a]}" 10.9.0.2 ++ \
		"a user who is not named"
	t -- fails_with ': user daemon may not use weft' as "$(id -u daemon)" a "$BIN/weft" perf write "${DEV[a]}" \
		10.9.0.2 ++ "is called by name if there is one"
	t -- fails_with 'does not serve it' as $BOB a "$BIN/weft" perf write lo 10.9.0.2 ++ \
		"a device that is not named"
	t -- fails_with 'its own network namespace' lab_in "$LAB_B" "$BIN/as" $BOB "${SOCK[a]}" "$BIN/weft" \
		perf write "${DEV[b]}" 10.9.0.1 ++ "a process of another namespace"
	# half of the tokens: 50% of budget x domains, over two QPs
	run_as in-process b
	serve s "$LAB_B" --region 4m --conns 4 --qps 4 "$LAB_IF_B=10.9.0.2:7000"
	run_as $BOB a
	writer c "$LAB_A" --qps 4 --time 600 --cwnd 512 "$LAB_IF_A=10.9.0.2:7000"
	until_true 60 connected 4
	all=$("$WEFT" -n "$LAB_A" -j dev show "${DEV[a]}" | jq '.[0] | .budget * .domains')
	windows=$("$WEFT" -n "$LAB_A" -j qp show "${DEV[a]}" | jq -c '[.[].cwnd_set]')
	t "$(jq add <<<"$windows") * 2 == $all" "half of $all tokens: windows of $windows"
	kill -TERM "$CLIENT"
	t -- finish_both c s ++ "with which it works"
}

# Garbage and forgery of one user while others, of weftd and not, write.
against_others() {
	local pids=() i names=(garbage1 garbage2 deeds attack)
	run_as in-process b
	serve s "$LAB_B" --region 4m --conns 2 --qps 2 "$LAB_IF_B=10.9.0.2:7000"
	run_as $ALICE a
	writer c "$LAB_A" --qps 2 --time 3 --src 1m --max 256k --cwnd 32 "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT"
	: >"$LAB_TMP/peer"
	lab_spawn "$BIN/rings" server "$LAB_B" "$LAB_IF_B" >"$LAB_TMP/peer" 2>&1
	local peer=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/peer" '^ready' "$peer"
	for ((i = 0; i < 2; i++)); do
		lab_spawn_in "$LAB_A" "$BIN/as" $BOB "${SOCK[a]}" "$BIN/daemonfuzz" garbage "${SOCK[a]}" \
			"${DEV[a]}" 2 $((SEED + i)) >"$LAB_TMP/garbage$((i + 1))" 2>&1
		pids+=("$LAB_SPAWNED")
	done
	lab_spawn_in "$LAB_A" "$BIN/as" $BOB "${SOCK[a]}" "$BIN/daemonfuzz" deeds "${SOCK[a]}" "${DEV[a]}" "$SEED" \
		"$LAB_TMP/tun" >"$LAB_TMP/deeds" 2>&1
	pids+=("$LAB_SPAWNED")
	lab_spawn_in "$LAB_A" "$BIN/as" $BOB "${SOCK[a]}" "$BIN/rings" attack "/run/netns/$LAB_A" "$LAB_IF_A" 10.9.0.2 \
		2 "$SEED" >"$LAB_TMP/attack" 2>&1
	pids+=("$LAB_SPAWNED")
	for i in "${!pids[@]}"; do
		t -- finish "${pids[i]}" "${names[i]}" ++ "${names[i]}: nothing is got"
		echo "# note: ${names[i]}: $(tail -n 1 "$LAB_TMP/${names[i]}")"
	done
	t -- finish_both c s ++ "another's WRITEs arrive, every byte"
	kill -TERM "$peer"
	t -- finish "$peer" peer ++ "the attacker's arrive in its peer's region alone"
	t -- kill -0 "${PID[a]}" ++ "weftd lives"
	t -- until_true 60 nobody_holds a ++ "all is given back"
	t -- "$BIN/rings" books "$LAB_A" "$LAB_IF_A" ++ "no token is left on the books"
}

# taken_down HOW COMMAND...: the device of A, while a client has a connection
taken_down() {
	local how=$1
	shift
	run_as in-process b
	serve s "$LAB_B" --region 4m --conns 1 --qps 1 "$LAB_IF_B=10.9.0.2:7000"
	lab_spawn_in "$LAB_A" "$BIN/as" $ALICE "${SOCK[a]}" "$BIN/netwrite" client --qps 1 --time 600 \
		"$LAB_IF_A=10.9.0.2:7000" >"$LAB_TMP/c" 2>&1
	CLIENT=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT"
	"$@"
	t -- finish "$CLIENT" c 3 ++ "$how: its clients' WRITEs fail"
	t -- grep -q 'local interface failed' "$LAB_TMP/c" ++ "with DEV"
	kill -TERM "$SERVER" 2>/dev/null
	finish "$SERVER" s >/dev/null 2>&1
	t -- until_true 60 fails_with 'Connection refused; is a weft program' perf_as $ALICE 7501 --count 1 ++ \
		"weftd opens the device anew"
}

its_place() {
	[ -n "${PID[a]:-}" ] || { start a; start b; }
	t -- fails_with 'another weftd serves' lab_in "$LAB_A" "$LAB_BUILD/weftd" -c "$LAB_TMP/a.conf" \
		-s "${SOCK[a]}" ++ "a second weftd on the same socket"
	kill_9 a
	t -- test -S "${SOCK[a]}" ++ "a stale socket"
	start a
	t -- fails_with 'Connection refused; is a weft program' perf_as $ALICE 7501 --count 1 ++ "is taken over"
	echo 'user nobodyhasthisname' >"$LAB_TMP/bad.conf"
	t -- fails_with "bad.conf:1: no such user: \"nobodyhasthisname\"; see 'getent passwd'" "$LAB_BUILD/weftd" -t -c "$LAB_TMP/bad.conf" ++ \
		"a configuration that is wrong"
	echo 'device eth0 port 4791' >"$LAB_TMP/bad.conf"
	t -- fails_with 'bad.conf:1: port cannot be "4791"; 1 to 65535, but not 4791' "$LAB_BUILD/weftd" -t \
		-c "$LAB_TMP/bad.conf" ++ "a value that is none: of what, and which are"
	echo 'user root share 101' >"$LAB_TMP/bad.conf"
	t -- fails_with 'share cannot be "101"; 1 to 100' "$LAB_BUILD/weftd" -t -c "$LAB_TMP/bad.conf" ++ "likewise a quota"
	echo 'device eth0' >"$LAB_TMP/bad.conf"
	t -- grep -q 'names no user and no group' <("$LAB_BUILD/weftd" -t -c "$LAB_TMP/bad.conf" 2>&1) ++ \
		"one that serves nobody: a warning"
	sed -i "s/$BOB memory 64m/$BOB memory 192m/" "$LAB_TMP/a.conf"
	kill -HUP "${PID[a]}"
	t -- until_true 60 fails_with 'Connection refused; is a weft program' perf_as $BOB 7501 --region 128m --count 1 \
		++ "SIGHUP: more memory for a user"
	taken_down "weft down" "$WEFT" -n "$LAB_A" down "$LAB_IF_A"
	taken_down "its doorbell is removed" ip -n "$LAB_A" link del \
		"weft$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)t"
	for host in a b; do
		kill -TERM "${PID[$host]}"
		t -- lab_wait "${PID[$host]}" ++ "SIGTERM without clients: weftd takes weft down and ends with 0"
	done
	t "$(wc -l <"$LAB_TMP/weftd.a.log") < 500" "weftd's log is not flooded"
}

# A device for many QPs, and a user who may have them.
many_qps() {
	local host server
	for host in a b; do
		printf 'device %s qps 512\nuser %s qps 400\n' "${DEV[$host]}" $ALICE >"$LAB_TMP/$host.conf"
		start $host
	done
	: >"$LAB_TMP/server"
	lab_spawn_in "$LAB_B" "$BIN/as" $ALICE "${SOCK[b]}" "$BIN/weft" perf server -p 7502 "$LAB_IF_B" >"$LAB_TMP/server" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/server" '^ready' "$server"
	t -- perf_as $ALICE 7502 --qps 300 --size 16k --count 4096 --verify ++ "300 QPs of a process, every byte right"
	t -- fails_with 'weftd allows user' perf_as $ALICE 7502 --qps 450 --count 1 ++ "not more than the user may have"
	t -- until_true 60 nobody_holds a ++ "all is given back"
	lab_stop "$server"
	for host in a b; do
		kill -TERM "${PID[$host]}"
		t -- lab_wait "${PID[$host]}" ++ "weftd ends well"
	done
}

for part in at_work over_its_death without_it sends clients_killed quotas against_others its_place many_qps; do
	tap_part $part && timely $part
done
tap_end
