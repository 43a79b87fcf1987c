#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# make demo: write a file into a stopped process's memory on another host, and compare with TCP.
#
#   tools/demo/demo.sh [FILE]     default: the largest shared library of this system
#
# Two hosts (namespaces A and B) are joined through a middle one. For weft the middle forwards by
# XDP, for TCP by tc, so that TCP keeps its offloads; both lose packets when told to. TCP runs
# with cubic and with bbr; the better one is shown.
# shellcheck source-path=SCRIPTDIR source=../../tests/net/lab.sh
set -u

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
O=${O:-$ROOT/build}
O=$(mkdir -p "$O" && cd "$O" && pwd) || exit 1
LAB_BUILD=$O
. "$ROOT/tests/net/lab.sh"

DEMO=${DEMO:-$O/weft-demo}
MTU=3498
SECONDS_RUN=2.5
LAT_COUNT=2000
LOSS_PPM=10000
WEFT_ADDR=10.9.0.2:7471
TCP_ADDR=10.9.0.2:7472

die() {
	progress_end
	echo "weft: demo: $*" >&2
	exit 1
}

# One line on a terminal, overwritten by the next; nothing in a pipe.
progress() {
	[ ! -t 2 ] || printf '\r\033[K%s ...' "$*" >&2
}

progress_end() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

largest_library() {
	find /usr/lib /usr/lib64 /usr/local/lib /lib /opt -xdev -type f -name '*.so*' \
		-printf '%s %p\n' 2>/dev/null | sort -rn | sed -n '1s/^[0-9]* //p'
}

# start NAME NS ARGS...: weft-demo in a namespace, told what to do through a fifo. Leaves the
# pid in ${pid[NAME]}; what it says goes to $LAB_TMP/NAME.
declare -A pid=() fifo=() said=()
start() {
	local name=$1 ns=$2
	shift 2
	rm -f "$LAB_TMP/$name.in"
	mkfifo "$LAB_TMP/$name.in"
	: >"$LAB_TMP/$name"
	# opened for both ways, so that nobody waits for the other to open
	exec {fd}<>"$LAB_TMP/$name.in"
	fifo[$name]=$fd
	said[$name]=0
	nsenter --net="/run/netns/$ns" -- "$DEMO" "$@" <"$LAB_TMP/$name.in" {fd}>&- \
		>"$LAB_TMP/$name" 2>"$LAB_TMP/$name.err" &
	pid[$name]=$!
	LAB_PIDS+=("$!")
}

# Let it close its side in order; only what does not go within 5 s is ended by a signal.
end() {
	local fd=${fifo[$1]} i
	tell "$1" quit
	exec {fd}>&-
	for ((i = 0; i < 250; i++)); do
		case $(state_of "$1" 2>/dev/null) in Z|'') break ;; esac
		sleep 0.02
	done
	lab_stop "${pid[$1]}"
	unset "pid[$1]"
}

# Wait until NAME has said one more line that matches RE; it is in $REPLY then.
await() {
	local name=$1 re=$2 i
	for ((i = 0; i < ${3:-120} * 50; i++)); do
		REPLY=$(tail -n +$((said[$name] + 1)) "$LAB_TMP/$name" | grep -m 1 -E -- "$re") && {
			said[$name]=$(wc -l <"$LAB_TMP/$name")
			return 0
		}
		kill -0 "${pid[$name]}" 2>/dev/null ||
			die "$name ended early: $(tail -n 1 "$LAB_TMP/$name.err")"
		sleep 0.02
	done
	die "$name does not answer; look at dmesg and at 'weft stats show'"
}

tell() {
	echo "$2" >&"${fifo[$1]}"
}

# Processor time of a process with all its threads, in seconds.
cpu_of() {
	local clk
	clk=$(getconf CLK_TCK)
	sed 's/.*) //' "/proc/${pid[$1]}/stat" | awk -v hz="$clk" '{ printf "%.2f", ($12 + $13) / hz }'
}

# The same in nanoseconds as the scheduler counts it, where it does.
ns_of() {
	cat "/proc/${pid[$1]}"/task/*/schedstat 2>/dev/null | awk '{ n += $1 } END { printf "%.0f", n }'
}

state_of() {
	sed 's/.*) //' "/proc/${pid[$1]}/stat" | cut -d' ' -f1
}

hash_of() {
	tell "$1" hash
	await "$1" '^[0-9a-f]{64} '
	HASH=${REPLY%% *}
}

# Stop the receiver, and note what it has spent so far.
stop_receiver() {
	local i
	kill -STOP "${pid[receiver]}"
	for ((i = 0; i < 100; i++)); do
		[ "$(state_of receiver)" = T ] && break
		sleep 0.01
	done
	[ "$i" -lt 100 ] || die "the receiver does not stop"
	stopped_cpu=$(cpu_of receiver) stopped_ns=$(ns_of receiver)
}

# Add what it has spent since: it must have been stopped all the time. Then wake it.
wake_receiver() {
	[ "$(state_of receiver)" = T ] || die "the receiver was not stopped throughout"
	[ "$(ns_of receiver)" = "$stopped_ns" ] || die "the stopped receiver used processor time"
	RECEIVER_CPU=$(awk -v sum="$RECEIVER_CPU" -v a="$stopped_cpu" -v b="$(cpu_of receiver)" \
		'BEGIN { print sum + b - a }')
	kill -CONT "${pid[receiver]}"
}

# weft_row LOSS_PCT: one transfer and its hash, then many for the speed. The receiver is stopped
# whenever the sender writes.
weft_row() {
	local loss=$1 rate lat
	progress "weft, $loss% loss: connect"
	start receiver "$LAB_B" recv "$LAB_IF_B" "$WEFT_ADDR" "$BYTES"
	await receiver '^ready'
	start sender "$LAB_A" send "$LAB_IF_A" "$WEFT_ADDR" "$FILE"
	await receiver '^connected'
	await sender '^connected'

	stop_receiver
	progress "weft, $loss% loss: one transfer into a stopped process"
	tell sender pass
	await sender '"bytes"' 600
	wake_receiver
	progress "weft, $loss% loss: hash of what arrived"
	hash_of receiver
	HASHES+=("$HASH")
	tell receiver clear
	await receiver '^cleared'

	stop_receiver
	progress "weft, $loss% loss: goodput"
	tell sender "run $SECONDS_RUN"
	await sender goodput 600
	rate=$REPLY
	progress "weft, $loss% loss: latency"
	tell sender "lat $LAT_COUNT"
	await sender lat_p50_us
	lat=$REPLY
	wake_receiver
	progress "weft, $loss% loss: hash of what arrived"
	hash_of receiver
	HASHES+=("$HASH")
	end sender
	end receiver
	ROW=$(jq -nc --argjson loss "$loss" --argjson r "$rate" --argjson l "$lat" \
		'{transport: "weft", loss_pct: $loss} + ($r | {goodput_gbps}) + $l +
		($r | {cpu_s_per_gb})')
}

# tcp_once LOSS_PCT CONGESTION_CONTROL
tcp_once() {
	local rate
	progress "TCP ($2), $1% loss: goodput"
	start receiver "$LAB_B" tcp-recv "$TCP_ADDR" "$BYTES"
	await receiver '^ready'
	start sender "$LAB_A" tcp-send "$TCP_ADDR" "$FILE" "$2"
	await sender '^connected'
	tell sender "run $SECONDS_RUN"
	await sender goodput 600
	rate=$REPLY
	progress "TCP ($2), $1% loss: latency"
	tell sender "lat $LAT_COUNT"
	await sender lat_p50_us
	tell sender hash
	await receiver '^[0-9a-f]{64} '
	[ "${REPLY%% *}" = "$SRC" ] || die "TCP delivered other bytes than the file has"
	end sender
	end receiver
	ROW=$(jq -nc --argjson loss "$1" --argjson r "$rate" --argjson l \
		"$(tail -n 1 "$LAB_TMP/sender")" \
		'{transport: "tcp", loss_pct: $loss} + ($r | {goodput_gbps}) + $l +
		($r | {cpu_s_per_gb})')
}

tcp_row() {
	local cc rows=''
	for cc in cubic bbr; do
		grep -qw $cc /proc/sys/net/ipv4/tcp_available_congestion_control || continue
		tcp_once "$1" $cc
		rows+="$ROW"$'\n'
	done
	ROW=$(jq -sc 'max_by(.goodput_gbps)' <<<"$rows")
}

FILE=${1:-$(largest_library)}
[ -n "$FILE" ] || die "no shared library found; give a file: make demo FILE=path"
if [ ! -f "$FILE" ] || [ ! -r "$FILE" ]; then
	die "$FILE: not a readable file"
fi
[ -s "$FILE" ] || die "$FILE: the file is empty; give one of at least 1 byte"
[ -x "$DEMO" ] || die "$DEMO is not built; run make"
BYTES=$(stat -Lc %s "$FILE")
HASHES=() RECEIVER_CPU=0

lab_begin
progress "hash of $FILE"
SRC=$(sha256sum <"$FILE") || die "$FILE: cannot be read"
SRC=${SRC%% *}
progress_end
echo "$FILE, $BYTES bytes, host A to host B through a middle one, MTU $MTU"

progress "set up the hosts"
lab_middle $MTU
weft_row 0
rows=$ROW
lab_impair --loss $LOSS_PPM
weft_row $((LOSS_PPM / 10000))
weft_lossy=$ROW
lab_down
lab_middle_plain $MTU 0
tcp_row 0
rows+=$'\n'$ROW$'\n'$weft_lossy
lab_impair --loss $LOSS_PPM
tcp_row $((LOSS_PPM / 10000))
rows+=$'\n'$ROW
lab_down
progress_end

# the hash to show is one that differs, if any does
DST=$SRC
for h in "${HASHES[@]}"; do
	[ "$h" = "$SRC" ] || DST=$h
done
JSON=$(jq -sc --arg file "$FILE" --argjson bytes "$BYTES" --arg src "$SRC" --arg dst "$DST" \
	--argjson cpu "$RECEIVER_CPU" \
	'{file: $file, bytes: $bytes, sha256_src: $src, sha256_dst: $dst, receiver_cpu_s: $cpu,
	rows: [.[] | .goodput_gbps |= (. * 1e6 | round / 1e6) |
		.lat_p50_us |= (. * 100 | round / 100) |
		.cpu_s_per_gb |= (. * 1e4 | round / 1e4)]}' <<<"$rows")

printf '%-10s %6s %15s %17s %15s\n' transport loss 'goodput (Gb/s)' 'latency p50 (us)' 'CPU (s/GB)'
jq -r '.rows[] | [.transport, "\(.loss_pct)%", .goodput_gbps, .lat_p50_us, .cpu_s_per_gb] | @tsv' \
	<<<"$JSON" | while IFS=$'\t' read -r t l g p c; do
	printf '%-10s %6s %15.6g %17.2f %15.4g\n' "$t" "$l" "$g" "$p" "$c"
done
cat <<TEXT
latency: from posting up to 64 bytes until the sender knows that they are in place
CPU: of the whole machine, for each 10^9 bytes; receiving application (stopped): $RECEIVER_CPU s
source      sha256 $SRC
destination sha256 $DST
TEXT
echo "$JSON" >"$O/demo.json"
echo "$JSON"
[ "$SRC" = "$DST" ]
