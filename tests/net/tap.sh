# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2119,SC2120,SC2034	# optional arguments; the laboratory reads some
# What the tests of tests/net share beyond the laboratory: TAP lines, weft's programs, waiting.
#
#   t CONDITION NAME           # an arithmetic condition, or
#   t -- COMMAND... ++ NAME    # a command; "t ! COMMAND... ++ NAME": it must fail, by itself: not
#                              # for want of a program, by a signal, nor by a time-out (124 on)
# Whatever is said meanwhile with `note` is printed when the next t fails.
#
#   timely PART...             # a part in which times are promised: what else a machine does can only make
#                              # them longer, so where nothing but a time was wrong it is done once more,
#                              # up to twice. A command of t says so by its status: `late MS LIMIT`
. "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

WEFT=$LAB_BUILD/weft
NETWRITE=$LAB_BUILD/tests/net/netwrite
RAWSEND=$LAB_BUILD/tests/net/rawsend
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
TAP_N=0 TAP_FAILED=0 TAP_NOTES=
TOO_LATE=75	# status of a command of t that was right, but not in time
TAP_TRIES=0 TAP_LATE=0

note() {
	TAP_NOTES+="$*"$'\n'
}

# Its variables have names that no condition has.
t() {
	local tap_ok=0 tap_how=$1 tap_cmd=()
	case $tap_how in
	-- | !)
		shift
		while [ "$1" != ++ ]; do
			tap_cmd+=("$1")
			shift
		done
		shift
		note "command: ${tap_cmd[*]}"
		local tap_rc=0 tap_out=$LAB_TMP/tap.out
		"${tap_cmd[@]}" >"$tap_out" 2>&1 || tap_rc=$?
		note "$(tail -n 12 "$tap_out")"
		note ": status $tap_rc"
		if [ "$tap_how" = -- ] && ((tap_rc == TOO_LATE && TAP_TRIES > 0)); then
			TAP_LATE=1
			echo "# note: late, so once more: $*: $(grep . "$tap_out" | tail -n 1)"
			TAP_NOTES=
			return
		fi
		if [ "$tap_how" = -- ]; then
			[ $tap_rc = 0 ] || tap_ok=1
		else
			((tap_rc > 0 && tap_rc < 124)) || tap_ok=1
		fi
		;;
	*)
		((tap_how)) || tap_ok=1
		note "condition: $(tr -s ' \t\n' ' ' <<<"$tap_how")"
		shift
		;;
	esac
	TAP_N=$((TAP_N + 1))
	if [ $tap_ok = 0 ]; then
		echo "ok $TAP_N - $*"
	else
		TAP_FAILED=$((TAP_FAILED + 1))
		echo "not ok $TAP_N - $*"
		tail -n 30 <<<"$TAP_NOTES" | sed 's/^/# /'
		echo "# replay: SEED=$SEED $0"
	fi
	TAP_NOTES=
}

timely() {
	for ((TAP_TRIES = 2; TAP_TRIES >= 0; TAP_TRIES--)); do
		TAP_LATE=0
		"$@"
		[ $TAP_LATE = 1 ] || break
	done
	TAP_TRIES=0
}

# late MS LIMIT [SINCE [UNTIL]]: is that more than was promised, and than nobody could run meanwhile?
late() {
	local stall=0
	[ $# -lt 3 ] || stall=$(stalls "${@:3}")
	echo "after $1 ms of $2; nothing ran for $stall ms of them"
	(($1 <= $2 + stall)) || return $TOO_LATE
}

# Take the laboratory down, report what stayed, print the plan. The script's last command.
tap_end() {
	local left
	left=$(lab_end 2>&1) || true
	LAB_PIDS=() LAB_NSES=() LAB_A='' LAB_B='' LAB_M=''
	note "$left"
	t "${#left} == 0" "nothing is left behind, no kernel warnings"
	echo "1..$TAP_N"
	[ $TAP_FAILED = 0 ]
}

# tap_skip_unless NAME WORD: with words on the command line only parts so named run.
tap_part() {
	[ ${#TAP_ARGS[@]} -eq 0 ] && return 0
	local w
	for w in "${TAP_ARGS[@]}"; do
		[ "$w" = "$1" ] && return 0
	done
	return 1
}
TAP_ARGS=("$@")

now() {	# CLOCK_MONOTONIC, as long as the machine does not suspend
	cut -d' ' -f1 /proc/uptime
}

since() {	# since SECONDS: milliseconds from then to now, or to $2
	awk -v a="$1" -v b="${2:-$(now)}" 'BEGIN { printf "%d\n", (b - a) * 1000 }'
}

# until_true SECONDS COMMAND...
until_true() {
	local end=$(($(date +%s%N) + $1 * 1000000000))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s%N)" -lt "$end" ] || return 1
		sleep 0.02
	done
}

# meter: from now on it is known when this machine let nobody run, for `stalls` and `in_time`
meter() {
	"$LAB_BUILD/tests/net/stallmeter" >"$LAB_TMP/stalls" &
	disown	# it goes with this shell, and nobody waits for it
}

# stalls SINCE [UNTIL]: milliseconds of those, on the processor that had most. What is promised to
# take no longer than a second may take that much longer where nothing runs for so long.
stalls() {
	awk -v a="$1" -v b="${2:-$(now)}" '{
			from = $2 - $3 / 1000 > a ? $2 - $3 / 1000 : a
			end = $2 < b ? $2 : b
			if (end > from) s[$1] += end - from
		}
		END { for (c in s) if (s[c] > most) most = s[c]; printf "%d\n", most * 1000 }' "$LAB_TMP/stalls"
}

# within FROM MS COMMAND...: it becomes true, and was so at a look that began so long after FROM, or as
# much later as nobody could run; how long it was is left in $TOOK
within() {
	local from=$1 limit=$2
	shift 2
	TOOK=$(since "$from")
	until "$@" >/dev/null 2>&1; do
		((TOOK < limit + 30000)) || return 1
		sleep 0.02
		TOOK=$(since "$from")
	done
	late "$TOOK" "$limit" "$from"
}

# in_time SECONDS COMMAND...: the same from now on
in_time() {
	within "$(now)" $(($1 * 1000)) "${@:2}"
}

cpu_ticks() {	# user and system time of a process, 1/100 s
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# freeze PID: SIGSTOP, and wait until none of its threads runs any more
freeze() {
	kill -STOP "$1"
	until_true 60 frozen "$1"
}

frozen() {
	local f
	for f in /proc/"$1"/task/*/stat; do
		[[ $(sed 's/.*) //' "$f") == T* ]] || return 1
	done
}

# serve NAME NS ARGS...: a netwrite server; its output is $LAB_TMP/NAME, its pid in $SERVER
serve() {
	local name=$1 ns=$2
	shift 2
	: >"$LAB_TMP/$name"
	lab_spawn_in "$ns" "$NETWRITE" server --seed "$SEED" "$@" >"$LAB_TMP/$name" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/$name" '^ready' "$SERVER" || note "no server: $(<"$LAB_TMP/$name")"
}

# writer NAME NS ARGS...: a netwrite client in the background, likewise; its pid in $CLIENT
writer() {
	local name=$1 ns=$2
	shift 2
	: >"$LAB_TMP/$name"
	lab_spawn_in "$ns" "$NETWRITE" client --seed "$SEED" "$@" >"$LAB_TMP/$name" 2>&1
	CLIENT=$LAB_SPAWNED
}

# finish PID NAME [STATUS]: wait for it and see that it ends with 0, or with STATUS, within 3 minutes
finish() {
	local rc=0
	until_true 180 ended "$1" || { echo "$2 hangs; killed"; kill -KILL "$1"; }
	lab_wait "$1" || rc=$?
	echo "$2 ended with $rc: $(tail -n 8 "$LAB_TMP/$2")"
	[ $rc = "${3:-0}" ]
}

ended() {	# gone, or a zombie that waits for us
	[[ ! -e /proc/$1 || $(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null) == [ZX] ]]
}

# stranger SECONDS FORMAT: a client of the connection port 7000 or $PORT of B that sends FORMAT, as
# printf takes it, and then stays for a while; its pid is in $STRANGER
stranger() {
	# shellcheck disable=SC2016	# for the inner shell
	lab_spawn_in "$LAB_A" bash -c 'exec 3<>"/dev/tcp/10.9.0.2/$0" && printf "$2" >&3; exec sleep "$1"' \
		"${PORT:-7000}" "$1" "$2"
	STRANGER=$LAB_SPAWNED
}

# A REQUEST that is right; who sends it and no READY is half open.
REQUEST='WEFT\0\2\0\2\0\1\0\0'			# versions, type, no private data
REQUEST+='\0\1\0\1\0\0\0\0\0\0\5\x80\0\0\0\0'	# QP, PSN, payload 1408, flags
REQUEST+='\x12\xb9\0\0connectnhashhash\0\0\0\0\0\0\0\0'
REQUEST+='\0\0\0\3\0\0\0\0\0\0\4\0\0\0\0\x40\0\0\0\0\0\0\0\0'	# features, window, atomics

# both up|down [OPTIONS]: weft on A and B. To load its programs takes the verifier a second, so where it does
# not matter who brings weft up, it stays up for all that is done.
both() {
	local rc=0
	lab_spawn "$WEFT" -n "$LAB_A" "$1" "$LAB_IF_A" "${@:2}"
	"$WEFT" -n "$LAB_B" "$1" "$LAB_IF_B" "${@:2}" || rc=1
	lab_wait "$LAB_SPAWNED" && return $rc
}

# counter NS DEV NAME: a counter of `weft stats show`
counter() {
	local json
	json=$("$WEFT" -n "$1" -j stats show "$2") || return 1
	lab_field "$json" "$3" || echo -1
}

# busy_qps N [PACKETS]: have at least that many QPs of A moved anything, or more than PACKETS?
busy_qps() {
	(($("$WEFT" -n "$LAB_A" -j qp show "$LAB_IF_A" |
		jq "[.. | .packets? // empty | select(. > ${2:-0})] | length") >= $1))
}

# sent_more N: has A sent more DATA packets than that?
sent_more() {
	(($(counter "$LAB_A" "$LAB_IF_A" tx_data) > $1))
}

# settled NS DEV: do its counters stand still? Longer than a retransmission of a living QP waits.
settled() {
	local before
	before=$("$WEFT" -n "$1" -j stats show "$2")
	sleep 0.2
	[ "$before" = "$("$WEFT" -n "$1" -j stats show "$2")" ]
}

# field NAME KEY: a number in the last JSON line of $LAB_TMP/NAME
field() {
	lab_field "$(grep '^{' "$LAB_TMP/$1" | tail -n 1)" "$2" || echo -1
}

# finish_both CLIENT-NAME SERVER-NAME: of $CLIENT and $SERVER; a server is not left waiting for a
# client that failed
finish_both() {
	local rc=0
	finish "$CLIENT" "$1" || { rc=1; kill -TERM "$SERVER"; }
	finish "$SERVER" "$2" || rc=1
	return $rc
}
