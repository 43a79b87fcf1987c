#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Telemetry: histograms against what is known otherwise, traces that name why a QP failed, top, metrics.
#
# Of docs/protocol.md section 6 each NAK code has a trace here on both sides (KEY, BOUNDS, RIGHTS, PD,
# CLOSED at the requester, MEMORY), and each status: LOC_PROT, REM_ACCESS, REM_CLOSED (NAK, end of the
# stream), RETRY_EXC, DEV (link, interface, doorbell, program, weft down) and GENERAL (of a responder).
# A corrupt send queue is that of test_rings.sh. FLUSH is no QP's status but that of WRITEs behind it.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=hello.sh
# shellcheck disable=SC2034,SC2016	# conditions of t name variables; some commands are for eval
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hello.sh"

HELLO=$LAB_BUILD/examples/hello HERE=$(dirname "${BASH_SOURCE[0]}")
a() { "$WEFT" -n "$LAB_A" "$@"; }
b() { "$WEFT" -n "$LAB_B" "$@"; }

# of NS DEV: a number of its JSON by a jq expression
ask() {
	"$WEFT" -n "$1" -j "$2" show "$3" | jq -r "$4"
}

perf_server() {
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$SERVER" || note "no server: $(<"$LAB_TMP/perf")"
}

writes() {	# in the background; its pid is in $CLIENT
	lab_spawn "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --time 600 "$@" >/dev/null 2>&1
	CLIENT=$LAB_SPAWNED
}

perf_write() {
	a perf write "$LAB_IF_A" 10.9.0.2 -j "$@" >"$LAB_TMP/write"
}

# ---- histograms ----

histograms() {
	local acks rtt lat msgs p99 p50 ping qp sent got n
	both up
	perf_server
	t -- perf_write --lat --count 5000 ++ "5000 messages of 64 bytes there and back"
	ping=$(jq .lat_us.p50 "$LAB_TMP/write")
	until_true 60 settled "$LAB_A" "$LAB_IF_A"
	read -r rtt p50 lat n < <(ask "$LAB_A" stats "$LAB_IF_A" \
		'"\(.rtt_us.count) \(.rtt_us.p50) \(.latency_us.count) \(.latency_us.p50)"')
	acks=$(counter "$LAB_A" "$LAB_IF_A" rx_ack)
	note "ping $ping us one way; round trip p50 $p50, WRITE p50 $n us"
	t "rtt == acks && acks > 5000" "every ACK is one round trip: $rtt of $acks"
	t "lat >= 5200 && lat <= 5210" "every WRITE is one time: $lat of 5200 and the control QP's"
	# on a busy machine one of them may have been held up more than the others
	t -- eval "awk 'BEGIN { exit !($n > $ping / 4 && $n < 8 * $ping && $p50 <= $n * 1.07) }' || (exit $TOO_LATE)" ++ \
		"a WRITE takes $n us, its round trip $p50, and what the application measures is $ping"
	t -- perf_write --time 0.5 --size 1m --verify ++ "messages of 1 MiB"
	read -r p50 p99 n msgs < <(ask "$LAB_A" stats "$LAB_IF_A" \
		'"\(.rtt_us.p50) \(.rtt_us.p99) \(.rtt_us.p999) \(.latency_us.count)"')
	t -- awk -v a="$p50" -v b="$p99" -v c="$n" 'BEGIN { exit !(0 < a && a <= b && b <= c) }' ++ \
		"p50 $p50 <= p99 $p99 <= p99.9 $n us"
	n=$(jq .messages "$LAB_TMP/write")
	t "msgs >= lat + n && msgs <= lat + n + 30" \
		"the totals keep what QPs counted whose places were taken: $msgs of $lat + $n"
	# everything is delivered and nothing moves: both ends have the same to tell
	writes --size 30001 --qps 2
	until_true 60 busy_qps 2 1000
	kill -STOP "$CLIENT"
	until_true 60 still
	sent=$(ask "$LAB_A" qp "$LAB_IF_A" '.[] | select(.qpn % 65536 > 0) | "\(.peer_qpn) \(.tx_bytes) \(.tx_messages)"' | sort)
	got=$(ask "$LAB_B" qp "$LAB_IF_B" '.[] | select(.qpn % 65536 > 0) | "\(.qpn) \(.rx_bytes) \(.arrived)"' | sort)
	note "sent: $sent"
	note "received: $got"
	t -- eval '[ -n "$sent" ] && [ "$sent" = "$got" ] && [ "$(wc -l <<<"$sent")" = 2 ]' ++ \
		"bytes and messages that a QP has sent are those that its peer has"
	t -- eval 'ask "$LAB_A" qp "$LAB_IF_A" "map(.latency_us.count == .tx_messages) | all" | grep -qx true' ++ \
		"and each message has its time"
	n=$(ask "$LAB_A" qp "$LAB_IF_A" 'map(.bytes_per_qp) | max')
	t "n > 0 && n <= 65536" "an idle QP takes $n bytes"
	kill -KILL "$CLIENT"
	lab_stop "$SERVER"
	t ! a up "$LAB_IF_A" telemetry off ++ "telemetry off is refused while it is on"
	t -- a up "$LAB_IF_A" telemetry on ++ "on is not"
	both down
	both up telemetry off
	t -- eval 'a -j dev show "$LAB_IF_A" | jq -e ".[0].telemetry == false"' ++ "dev show says that it is off"
	perf_server
	t -- perf_write --time 0.3 --verify ++ "without telemetry"
	lab_stop "$SERVER"
	t "$(ask "$LAB_A" stats "$LAB_IF_A" '.rtt_us.count + .latency_us.count') == 0" "nothing is counted"
	t ! a up "$LAB_IF_A" telemetry on ++ "telemetry on is refused while it is off"
	both down
}

counted() {	# round trips of A
	ask "$LAB_A" stats "$LAB_IF_A" .rtt_us.count
}

acked() {	# what the trace of the last QP says about acknowledgements
	local qpn
	qpn=$(ask "$LAB_A" qp "$LAB_IF_A" 'max_by(.qpn % 65536).qpn')
	a -j qp trace "$LAB_IF_A" "$qpn" |
		jq -r '.[0] | "\(.events | map(select(.event == "first_ack")) | length) \(.last_ack_ms != null)"'
}

# on and off under one transfer
toggled() {
	local n m
	both up
	perf_server
	writes --size 64k
	until_true 60 eval '[ "$(counted)" -gt 1000 ]'
	t -- eval '[ "$(acked)" = "1 true" ]' ++ "a trace has the first and the last acknowledgement"
	t -- a dev set "$LAB_IF_A" telemetry off ++ "turned off while a transfer runs"
	t -- eval 'a -j dev show "$LAB_IF_A" | jq -e ".[0].telemetry == false"' ++ "dev show says so"
	n=$(counted) m=$(counter "$LAB_A" "$LAB_IF_A" rx_ack)
	until_true 60 eval '[ "$(counter "$LAB_A" "$LAB_IF_A" rx_ack)" -gt $((m + 1000)) ]'
	t "n > 1000 && $(counted) == n" "$n round trips are kept, and no more counted"
	t -- eval '[ "$(acked)" = "1 false" ]' ++ "the last acknowledgement is not known any more"
	t -- a dev set dev "$LAB_IF_A" telemetry off ++ "what is set already can be set"
	t -- a dev set "$LAB_IF_A" telemetry on ++ "turned on again"
	t -- until_true 60 eval '[ "$(counted)" -gt $((n + 1000)) ]' ++ "counts on from there"
	t -- eval '[ "$(acked)" = "1 true" ]' ++ "the last one is known again"
	stop_client
	a dev set "$LAB_IF_A" telemetry off
	m=$(counter "$LAB_A" "$LAB_IF_A" rx_ack)
	writes --size 64k
	until_true 60 eval '[ "$(counter "$LAB_A" "$LAB_IF_A" rx_ack)" -gt $((m + 1000)) ]'
	a dev set "$LAB_IF_A" telemetry on
	n=$(counted)
	until_true 60 eval '[ "$(counted)" -gt $((n + 1000)) ]'
	t -- eval '[ "$(acked)" = "0 true" ]' ++ "an acknowledgement later on is not taken for the first"
	stop_client
	lab_stop "$SERVER"
	t ! a dev set "$LAB_IF_A" telemetry ++ "neither on nor off"
	t ! a dev set "$LAB_IF_A" telemetry maybe ++ "nor something else"
	t ! a dev set "$LAB_IF_A" port 5 ++ "what cannot be changed"
	t ! a dev set nonesuch telemetry on ++ "no such device"
	both down
}

stop_client() {
	kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
}

still() {	# no packet is out at A
	[ "$(ask "$LAB_A" qp "$LAB_IF_A" 'map(.inflight + .messages_out) | add')" = 0 ]
}

# ---- traces ----

traffic() {
	serve s "$LAB_B" --region 4m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --stress --limit 60000 --time 600 "$LAB_IF_A=10.9.0.2:7000"
	lab_wait_line "$LAB_TMP/c" connected "$CLIENT" || note "no traffic: $(<"$LAB_TMP/c")"
	until_true 60 sent_more 100
}

# tells NS DEV REGEX...: the QP that failed last has these in its trace, in this order
tells() {
	local ns=$1 dev=$2 qpn text re
	shift 2
	qpn=$("$WEFT" -n "$ns" -j qp trace "$dev" | jq 'min_by(.failed_ago_s) | .qpn')
	text=$("$WEFT" -n "$ns" qp trace "$dev" "$qpn") || return 1
	echo "$text"
	"$WEFT" -n "$ns" -j qp trace "$dev" "$qpn" | jq -e '.[0].events | length > 0' >/dev/null || return 1
	"$WEFT" -n "$ns" qp trace "$dev" | grep "$(printf 0x%08x "$qpn")" >"$LAB_TMP/line"
	if ! grep -q ' ago: ' "$LAB_TMP/line" || grep -q 'failed: ' "$LAB_TMP/line"; then
		cat "$LAB_TMP/line"
		return 1
	fi
	for re in "$@"; do
		grep -qE "$re" <<<"$text" || { echo "no \"$re\""; return 1; }
		text=$(sed -nE "/$re/,\$p" <<<"$text")
	done
}

ends() {	# both processes of traffic()
	until_true 60 ended "$CLIENT" || kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
	until_true 60 ended "$SERVER" || kill -TERM "$SERVER"
	lab_wait "$SERVER"
}

bad() {
	serve s "$LAB_B" --region 2m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --bad "$1" --max 1m "$LAB_IF_A=10.9.0.2:7000"
	finish_both c s >/dev/null
}

refused() {
	local k text
	for k in key bounds rights pd; do
		case $k in
		key) text='remote key is not valid' ;;
		bounds) text='does not fit the remote memory region' ;;
		rights) text='does not allow it' ;;
		pd) text='another protection domain' ;;
		esac
		bad $k
		t -- tells "$LAB_A" "$LAB_IF_A" connected "the peer refused PSN [0-9]+: .*$text" "failed: remote access error, .*$text" ++ \
			"wrong $k: the writer's trace says so"
		t -- tells "$LAB_B" "$LAB_IF_B" connected "we refused the peer's PSN [0-9]+: .*$text" "failed: general error, we refused the peer: .*$text" ++ "and the receiver's"
	done
	bad dereg
	t -- tells "$LAB_A" "$LAB_IF_A" 'first packet acknowledged' 'the peer refused PSN' 'failed: remote access error' ++ \
		"region deregistered"
	bad close
	t -- tells "$LAB_A" "$LAB_IF_A" 'first packet acknowledged' 'remote queue pair is closed' 'failed: remote side closed' ++ \
		"QP closed by the peer"
}

receiver_killed() {
	traffic
	kill -KILL "$SERVER"
	ends
	# the dying process closes its sockets one by one: packets may be taken after the stream has ended
	t -- tells "$LAB_A" "$LAB_IF_A" 'first packet acknowledged' 'the peer is gone without a word' \
		'failed: remote side closed' ++ "receiver killed: what its writer saw"
	t -- tells "$LAB_A" "$LAB_IF_A" 'last acknowledgement' 'failed: remote side closed' ++ "and the last acknowledgement before"
	b up "$LAB_IF_B"	# whoever opens the device finds the dead
	t -- tells "$LAB_B" "$LAB_IF_B" connected 'process was found dead' ++ "and what is known of the dead"
}

pools_gone() {	# NS DEV: registered memory is taken from under its regions
	local pools key
	pools=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$1")-$2/pools
	while read -ra key; do
		bpftool map delete pinned "$pools" key "${key[@]}"
	done < <(bpftool -j map dump pinned "$pools" | jq -r '.[].key | join(" ")')
}

memory_gone() {
	traffic
	pools_gone "$LAB_B" "$LAB_IF_B"
	ends
	t -- tells "$LAB_A" "$LAB_IF_A" 'the peer refused PSN [0-9]+: .*remote memory is gone' 'failed: remote side closed' ++ \
		"target memory gone: the writer's trace says so"
	t -- tells "$LAB_B" "$LAB_IF_B" "we refused the peer's PSN .*memory is gone" 'failed: general error, we refused the peer: .*memory is gone' ++ \
		"and the receiver's"
	traffic
	pools_gone "$LAB_A" "$LAB_IF_A"
	ends
	t -- tells "$LAB_A" "$LAB_IF_A" 'request [0-9]+: local key, bounds or rights' 'failed: local protection error, local key, bounds or rights' ++ \
		"source memory gone"
}

cut_off() {	# the peer's QP is in $LAST
	local rc=0
	traffic
	LAST=$(ask "$LAB_B" qp "$LAB_IF_B" '.[0].qpn')
	a qp set "$LAB_IF_A" "$(ask "$LAB_A" qp "$LAB_IF_A" '.[0].qpn')" cwnd 64
	ip -n "$LAB_A" link set "$LAB_IF_A" down
	until_true 60 ended "$CLIENT"
	ip -n "$LAB_A" link set "$LAB_IF_A" up
	tells "$LAB_A" "$LAB_IF_A" 'window set from 128 to 64' 'last acknowledgement' 'the link is down' \
		'rto #[1-7].*: [0-9]+ packets? not acknowledged, oldest PSN' \
		'failed: local interface failed, no progress for [0-9]{3,} ms' || rc=1
	ends
	return $rc
}

link_lost() {
	# there are no time-outs when everything had come back by then
	t -- eval 'cut_off || cut_off || cut_off || cut_off' ++ "link down: time-outs until the end"
	t -- told_of_end "$LAB_B" "$LAB_IF_B" "$LAST" ++ "its peer, with nothing outstanding, was told of the end"
}

# told_of_end NS DEV QPN: it has ended, since the peer closed, and is not among the failed; or it missed the peer, as
# after 2 s. With the link down for longer still it fails of that, or who was not heard is gone without a word: once more.
told_of_end() {
	"$WEFT" -n "$1" qp trace "$2" "$3" | tee "$LAB_TMP/end"
	! grep -q 'failed: no answer from the peer' "$LAB_TMP/end" || return 0
	! grep -q 'failed: ' "$LAB_TMP/end" || return "$TOO_LATE"
	grep -q 'the peer has ended the connection' "$LAB_TMP/end" &&
		"$WEFT" -n "$1" -j qp trace "$2" "$3" | jq -e '.[0].state == "closed"' &&
		"$WEFT" -n "$1" -j qp trace "$2" | jq -e "map(.qpn) | index($3) == null"
}

device_lost() {
	traffic
	ip -n "$LAB_A" link del "weft$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)t"
	ends
	t -- tells "$LAB_A" "$LAB_IF_A" 'doorbell was removed' 'failed: local interface failed' ++ "doorbell removed"
	both down
	both up
	perf_server
	lab_spawn "$WEFT" -v -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --time 600 >/dev/null 2>"$LAB_TMP/log"
	CLIENT=$LAB_SPAWNED
	until_true 60 sent_more 1000
	a down "$LAB_IF_A"
	until_true 60 ended "$CLIENT" || kill -KILL "$CLIENT"
	lab_wait "$CLIENT"
	note "$(tail -n 12 "$LAB_TMP/log")"
	t -- grep -qE 'qp 0x[0-9a-f]+: \+[0-9.]+ ms weft was taken down' "$LAB_TMP/log" ++ \
		"weft down takes the maps away: the trace is in the log"
	lab_stop "$SERVER"
	lab_in "$LAB_A" ip link set dev "$LAB_IF_A" xdp obj "$LAB_BUILD/weft.bpf.o" sec xdp
	a up "$LAB_IF_A"
	traffic
	lab_in "$LAB_A" ip link set dev "$LAB_IF_A" xdp off
	ends
	t -- tells "$LAB_A" "$LAB_IF_A" 'XDP program was unloaded' 'failed: local interface failed' ++ "program unloaded by its loader"
	a unpin "$LAB_IF_A"
	a up "$LAB_IF_A"
	traffic
	ip -n "$LAB_A" link del "$LAB_IF_A"
	ends
	t -- tells "$LAB_A" "$LAB_IF_A" 'the interface is gone|the link is down' 'failed: (local interface|remote side closed)' ++ \
		"interface deleted: pins and trace are still there"
	rm -rf "/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A"
	"$WEFT" dev flush >/dev/null
	lab_down
}

# One WRITE each way round a connection that both close in good order.
good_order() {
	both up
	t -- hello :7470 10.9.0.2:7470 word ++ "a connection of one packet"
	a qp trace "$LAB_IF_A" 0x00010000 >"$LAB_TMP/trace"
	note "$(<"$LAB_TMP/trace")"
	t -- awk '/first packet acknowledged/ { f = NR } /last acknowledgement/ { l = NR } END { exit !(f && l == f + 1) }' \
		"$LAB_TMP/trace" ++ "whose first acknowledgement comes before its last"
	t "$(a -j qp trace "$LAB_IF_A" | jq length) + $(b -j qp trace "$LAB_IF_B" | jq length) == 0" \
		"is no failure on either side"
	both down
}

silence() {
	lab_middle 3498
	both up
	traffic
	lab_impair --loss 1000000 >/dev/null
	until_true 60 ended "$CLIENT"
	# how many time-outs fit into the second goes by the round trip time, and a late answer may come behind the first
	t -- tells "$LAB_A" "$LAB_IF_A" 'rto #1.*oldest PSN [0-9]+' 'rto #[3-9]' \
		'failed: no answer from the peer, no progress for [0-9]{4} ms' ++ "nothing gets through: time-outs, then no answer"
	t -- tells "$LAB_A" "$LAB_IF_A" 'last acknowledgement' 'failed: no answer' ++ "and the last acknowledgement before"
	ends
	lab_impair --loss 20000 >/dev/null
	serve s "$LAB_B" --region 8m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --rounds 2 "$LAB_IF_A=10.9.0.2:7000"
	finish_both c s >/dev/null
	a -j qp trace "$LAB_IF_A" >"$LAB_TMP/all"
	t "$(jq length "$LAB_TMP/all") == 1" "a QP that came through loss is not among the failed"
	t -- eval 'a qp trace "$LAB_IF_A" "$(jq ".[0].qpn" "$LAB_TMP/all")" | grep -q "no answer"' ++ \
		"and the failed one is still told of after its place was taken"
	t -- eval 'a qp trace "$LAB_IF_A" 0x00020000 | grep -qE "[0-9]{2,} packets sent again within .* PSN"' ++ \
		"a burst of repeated packets is one line"
	t ! a qp trace "$LAB_IF_A" 0x7fff0000 ++ "an unknown QPN is refused"
	both down
	lab_down
}

# ---- top ----

tm() {	# a terminal that nobody looks at
	tmux -L "$LAB_ID" -f /dev/null "$@"
}

pane() {
	tm capture-pane -p -t top | grep -qE "$1"
}

top_terminal() {
	local qpn
	both up
	perf_server
	writes --qps 3
	until_true 60 sent_more 10000
	a top -b -n 2 -d 0.4 >"$LAB_TMP/top"
	note "$(<"$LAB_TMP/top")"
	# control QP and three others, twice
	t "$(grep -c '^veth-a .* rts ' "$LAB_TMP/top") == 8" "batches: every QP in each of two"
	t -- awk '/^weft top/ { last = 1e9; n++ } / rts / { r = $5; if (r > last) exit 1; last = r; sum += r }
		END { exit !(n == 2 && sum > 0.1) }' "$LAB_TMP/top" ++ "sorted by rate"
	t ! grep -w template "$LAB_TMP/top" ++ "clones that found nothing are no drops"
	a stats show "$LAB_IF_A" all >"$LAB_TMP/stats"
	t -- awk '$1 == "overhead" { o = 1 } $1 == "template" { exit !o }' "$LAB_TMP/stats" ++ "nor in stats show"
	b -j top -n 1 -d 0.4 >"$LAB_TMP/top"
	t -- jq -e '.qps | length == 4 and (map(.rx_gbps) | add) > 0.05 and (map(.tx_gbps) | add) < 0.05' "$LAB_TMP/top" ++ \
		"JSON at the receiver"
	t ! a top -n 1 ++ "without a terminal it wants -b"
	t ! a top -b -n 0 ++ "no screens are refused"
	tm new-session -d -s top -x 110 -y 20 "TERM=vt100 '$WEFT' -n '$LAB_A' top; echo ended \$?; sleep 60"
	qpn=$(printf 0x%08x "$(ask "$LAB_A" qp "$LAB_IF_A" '.[1].qpn')")
	t -- until_true 60 pane "^veth-a +$qpn +10.9.0.2 +rts +[0-9]" ++ "on a terminal without colours"
	tm send-keys -t top s
	t -- until_true 60 pane '^by messages' ++ "key s: next order"
	tm send-keys -t top d
	t -- until_true 60 pane '^weft top .* veth-a ' ++ "key d: one device"
	tm resize-window -t top -x 60 -y 8
	t -- until_true 60 pane '^DEV +QPN +PEER +STATE *$|^DEV .{50,56}$' ++ "made smaller: lines are cut"
	t -- until_true 60 eval '[ "$(tm capture-pane -p -t top | wc -l)" -le 8 ]' ++ "and fewer"
	tm send-keys -t top q
	t -- until_true 60 pane '^ended 0' ++ "key q: ends"
	tm rename-session -t top before
	tm new-session -d -s top -x 110 -y 20 "'$WEFT' -n '$LAB_A' top $LAB_IF_A; echo ended \$?; sleep 60"
	until_true 60 pane '^DEV +QPN'
	a down "$LAB_IF_A"
	t -- until_true 60 pane "^weft: $LAB_IF_A: weft is not on it any more" ++ "taken down meanwhile: says so, not on its screen"
	tm kill-server
	a up "$LAB_IF_A"
	t -- eval 'script -qec "TERM=nonsense $WEFT -n $LAB_A top" /dev/null </dev/null | grep -q "not known.*use -b"' ++ \
		"an unknown terminal is named"
	kill -KILL "$CLIENT" 2>/dev/null
	lab_stop "$SERVER"
	both down
}

# ---- metrics ----

get() {	# PATH [CURL OPTIONS]: status and content type
	curl -s -m 60 -o "$LAB_TMP/got" -w '%{http_code} %{content_type}' "${@:2}" "http://127.0.0.1:$PORT$1"
}

metrics() {
	local out name='q"u\o' rx i n holder
	both up
	perf_server
	perf_write --count 1000 --size 10000
	rx=$(counter "$LAB_A" "$LAB_IF_A" tx_data)
	writes --size 4k
	until_true 60 sent_more $((rx + 1000))
	kill -STOP "$CLIENT"
	until_true 60 still
	ip -n "$LAB_A" link add "$name" type veth peer name other
	ip -n "$LAB_A" link set other up
	ip -n "$LAB_A" link set "$name" up
	a up "$name"
	a metrics >"$LAB_TMP/metrics"
	t -- awk -f "$HERE/metrics_check.awk" "$LAB_TMP/metrics" ++ "the text format, to the letter"
	t -- grep -qF 'weft_rx_ack_total{dev="q\"u\\o"} 0' "$LAB_TMP/metrics" ++ "an interface called $name"
	a down "$name"
	ip -n "$LAB_A" link del "$name"
	n=$(counter "$LAB_A" "$LAB_IF_A" rx_ack)
	t -- grep -qx "weft_rx_ack_total{dev=\"$LAB_IF_A\"} $n" "$LAB_TMP/metrics" ++ "counters are those of stats show"
	n=$(counted)
	t -- grep -qx "weft_rtt_seconds_count{dev=\"$LAB_IF_A\"} $n" "$LAB_TMP/metrics" ++ "so are histograms"
	n=$(ask "$LAB_A" qp "$LAB_IF_A" '.[1].tx_bytes')
	t -- grep -qE "^weft_qp_tx_bytes_total\{.*qpn=\"0x[0-9a-f]*01\".*\} $n\$" "$LAB_TMP/metrics" ++ "and QPs: $n bytes"
	t "$(a metrics "$LAB_IF_A" | grep -c '^weft_qp_connected') == 2" "of one device"
	t ! a metrics nonesuch ++ "no such device"
	# in this namespace, of another's: a client need not be root, nor there
	lab_spawn "$WEFT" -n "$LAB_B" metrics --listen 0 >"$LAB_TMP/m" 2>&1
	i=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/m" ready "$i"
	PORT=$(sed -n 's|.*127.0.0.1:\([0-9]*\)/metrics|\1|p' "$LAB_TMP/m")
	t "${PORT:-0} > 0" "serves at 127.0.0.1 unless told otherwise"
	curl() { lab_in "$LAB_B" curl "$@"; }
	t -- eval '[ "$(get /metrics)" = "200 text/plain; version=0.0.4; charset=utf-8" ]' ++ "GET /metrics"
	t -- awk -f "$HERE/metrics_check.awk" "$LAB_TMP/got" ++ "is that text"
	t -- grep -q '^weft_qp_rx_bytes_total.* [1-9]' "$LAB_TMP/got" ++ "of that namespace's device"
	t -- eval '[[ $(get /other) == 404* && $(get / ) == 200* ]]' ++ "other paths"
	t -- eval '[[ $(get /metrics -d x=1) == 405* && $(get /metrics -I) == 200* ]]' ++ "POST is refused, HEAD is not"
	lab_in "$LAB_B" bash -c 'for x in "\0\1\2\3\r\n\r\n" "GET\r\n\r\n" "GET /metrics HTTP/9.9\r\n\r\n"; do
		exec 3<>/dev/tcp/127.0.0.1/$0; printf "$x" >&3; timeout 1 cat <&3 >/dev/null; exec 3>&-; done
		exec 3<>/dev/tcp/127.0.0.1/$0; head -c 200000 /dev/zero | tr "\0" A >&3; exec 3>&-' "$PORT" 2>/dev/null
	t -- eval '[[ $(get /metrics) == 200* ]]' ++ "serves on after nonsense"
	lab_spawn_in "$LAB_B" bash -c 'for i in {1..40}; do exec {f}<>/dev/tcp/127.0.0.1/$0; printf "GET /met" >&$f; done; echo; exec sleep 600' "$PORT" >"$LAB_TMP/holder"
	holder=$LAB_SPAWNED
	until_true 60 test -s "$LAB_TMP/holder"
	n=$(seq 60 | xargs -P 20 -I@ nsenter --net="/run/netns/$LAB_B" curl -s -m 60 -o /dev/null -w '%{http_code}\n' \
		"http://127.0.0.1:$PORT/metrics" | grep -c 200)
	t "n == 60" "60 clients at once beside 40 that are slow: $n answers"
	lab_stop "$holder"
	t ! lab_in "$LAB_B" "$WEFT" metrics --listen "127.0.0.1:$PORT" ++ "a port in use is named"
	t ! a metrics --listen nonsense ++ "an address that is none"
	kill -TERM "$i"
	t -- lab_wait "$i" ++ "SIGTERM ends it with 0"
	unset -f curl
	kill -KILL "$CLIENT"
	lab_stop "$SERVER"
	both down
}

lab_begin
lab_pair 3498
for part in histograms toggled good_order top_terminal metrics; do
	tap_part $part && timely $part
done
both up
for part in refused memory_gone receiver_killed link_lost device_lost; do
	tap_part $part && timely $part
done
tap_part device_lost || both down
lab_down
tap_part silence && silence
lab_loader_dirs
tap_end
