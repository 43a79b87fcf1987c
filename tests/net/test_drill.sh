#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Failure drill: processes, links and devices of four hosts come and go at random while all write to, read
# from, send to and count at all. DRILL_SECS=120 and SEED=N from the environment; the schedule is a function of the seed.
# shellcheck source-path=SCRIPTDIR source=tap.sh source=drill.sh source=drill_faults.sh disable=SC2034,SC2004
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/drill.sh"
. "$(dirname "${BASH_SOURCE[0]}")/drill_faults.sh"

DRILL_SECS=${DRILL_SECS:-120}
# What is promised, ms: an error at whoever lost his own interface, or the other process. Where a
# time-out of 1 s tells, the process must get a CPU among all the others: test_faults.sh, where it is
# alone, holds it to that second.
LOCAL_MS=1000 REMOTE_MS=1500
MAX_FLOWS=6
QUIET_MS=15000		# between two looks at the hosts at rest

# A flow is a client process: A and B are its hosts. Why it may fail, and since when it must have.
declare -A A B KIND PID QPS OF UNTIL KILLED STOPPED MAY MUST MUST_MS CUT
FLOWS=() FLOW=0 UNDO=()
declare -A HURT		# host: why it is out of order just now
declare -A DOWN		# host: since when its link is down, which is meant to be for a moment
declare -A AWAY		# host: since when its server, or weftd, is away for a moment
IMPAIRED=0		# packets are lost until then, on the schedule's clock
QUEUES=$(nproc --all)
# Results
DONE=0 FAILED=0 UNTOUCHED=0 CLAIMS=() WRONG=() HARMED=() LATE=() SHUT=() TIMED=0 WORST_LOCAL=0 WORST_REMOTE=0
declare -A OPS FAULTED	# how many of each operation were right; of each fault there were

say() {
	printf '# %7d.%03d %s\n' $((CLOCK / 1000)) $((CLOCK % 1000)) "$*"
}

trouble() {	# trouble LIST WHAT FILE
	local -n list=$1
	list+=("$2")
	echo "# $2"
	[ ! -f "${3:-}" ] || tail -n 15 "$3" | sed 's/^/#     /'
}

# ---- flows ------------------------------------------------------------------------------------

begin() {	# begin KIND A B QPS SECONDS OPTIONS...
	local f=f$((++FLOW)) kind=$1 a=$2 b=$3 qps=$4 secs=$5 addr=10.9.0.$3 t run
	shift 5
	rnd 2
	[ "$R" = 0 ] || addr="[fd09::$b]"
	rnd 2
	run=$(program "$a" "$R")
	rnd 1000000
	say "$kind $f: $a to $b, --seed $R $*"
	: >"$LAB_TMP/$f"
	lab_spawn_in "${NS[$a]}" "$run" client --seed "$R" --qps "$qps" "$@" "e0=$addr:7000" \
		>"$LAB_TMP/$f" 2>&1
	ms t
	PID[$f]=$LAB_SPAWNED A[$f]=$a B[$f]=$b KIND[$f]=$kind QPS[$f]=$qps UNTIL[$f]=$((t + secs * 1000))
	OF[$f]=${SERVER_PID[$b]}
	MAY[$f]="${HURT[$a]:-}${HURT[$b]:-}" MUST[$f]="" CUT[$f]="" KILLED[$f]="" STOPPED[$f]=""
	FLOWS+=("$f")
}

transfer() {
	rnd 3
	local rounds=$((R + 1)) qps
	rnd 3
	qps=$((R + 1))
	begin write "$1" "$2" $qps 0 --rounds $rounds --src 256k --max 128k
}

posts() {
	rnd 5
	begin post "$1" "$2" 1 $((R + 2)) --stress --time $((R + 2)) --limit 60000 --src 256k
}

mixes() {
	local secs qps opts=(--mix)
	rnd 4
	secs=$((R + 2))
	rnd 2
	qps=$((R + 1))
	rnd 3
	[ "$R" != 0 ] || opts+=(--strict)
	rnd 3
	[ "$R" != 0 ] || opts+=(--cwnd 8)
	begin mix "$1" "$2" $qps $secs "${opts[@]}" --time $secs --src 256k
}

# hit WHY MS FLOW...: these may fail, and those that always have something out must within MS
hit() {
	local why=$1 limit=$2 f t
	shift 2
	ms t
	for f in "$@"; do
		MAY[$f]+="$why "
		# one fault at a time is timed; who is stopped, or is not connected yet, is not
		[ -n "$limit" ] && [ "${KIND[$f]}" != write ] && [ -z "${MUST[$f]}${STOPPED[$f]}" ] &&
			connected "$f" && MUST[$f]=$t MUST_MS[$f]=$limit CUT[$f]=""
	done
}

hit_host() {	# hit_host N WHY LOCAL-MS REMOTE-MS: all flows of a host
	local n=$1 f
	for f in "${FLOWS[@]}"; do
		[ "${A[$f]}" != "$n" ] || hit "$2" "$3" "$f"
		[ "${B[$f]}" != "$n" ] || hit "$2" "$4" "$f"
	done
}

hit_server() {	# hit_server N WHY MS
	local f
	for f in "${FLOWS[@]}"; do
		[ "${B[$f]}" != "$1" ] || hit "$2" "$3" "$f"
	done
}

# Those that are not connected yet may fail when the network, or they, are away for a moment.
hit_unless_connected() {	# FLOW WHY
	connected "$1" || hit "$2" '' "$1"
}

connected() {
	[ "$(grep -c connected "$LAB_TMP/$1")" -ge "${QPS[$1]}" ]
}

hit_connecting() {	# N WHY
	local f
	for f in "${FLOWS[@]}"; do
		case " ${A[$f]} ${B[$f]} " in *" $1 "*) hit_unless_connected "$f" "$2" ;; esac
	done
}

# Another fault at host N may keep the news of the first away, and then tells itself.
again() {
	local f t
	ms t
	for f in "${FLOWS[@]}"; do
		[ -n "${MUST[$f]}" ] || continue
		case " ${A[$f]} ${B[$f]} " in *" $1 "*) MUST_MS[$f]=$((t - ${MUST[$f]} + REMOTE_MS)) ;; esac
	done
}

# The fault is there now: until the command returned, something may still have got through.
begun() {
	local f t
	ms t
	for f in "${FLOWS[@]}"; do
		case "${CUT[$f]}  ${A[$f]} ${B[$f]} " in " "*" $1 "*) CUT[$f]=$t ;; esac
	done
}

# This machine is busy: something is away for longer than was meant, and its flows may notice. Of a
# server those that are connected do not, and connecting takes up to 5 s.
slow_faults() {
	local n t
	ms t
	for n in ${DOWN[@]+"${!DOWN[@]}"}; do
		((t - ${DOWN[$n]} < 600)) || hit_host "$n" slow-link '' ''
	done
	for n in ${AWAY[@]+"${!AWAY[@]}"}; do
		((t - ${AWAY[$n]} < 2000)) || hit_connecting "$n" slow-server
	done
}

lost() {	# of so many ms from then on, how many this machine let nobody run
	local end=$(($1 + $2))
	stalls "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))" "$((end / 1000)).$(printf %03d $((end % 1000)))"
}

on_time() {	# the flow's error came when it should
	local f=$1 at late limit since=${CUT[$1]:-${MUST[$1]}}
	limit=$((MUST_MS[$f] + $(lost "$since" "${MUST_MS[$f]}")))
	at=$(sed -n 's/^failed [0-9]* at \([0-9]*\)\.\([0-9]*\): .*/\1\2/p' "$LAB_TMP/$f" | head -n 1)
	if [ -z "$at" ]; then	# over before the fault reached it?
		((UNTIL[$f] <= since + limit)) ||
			trouble LATE "$f (${A[$f]} to ${B[$f]}; ${MAY[$f]}) did not fail" "$LAB_TMP/$f"
		return
	fi
	((at >= ${MUST[$f]})) || return	# it failed of something else before
	late=$((at - since))
	TIMED=$((TIMED + 1))
	if [ "${MUST_MS[$f]}" = $LOCAL_MS ]; then
		((late <= WORST_LOCAL)) || WORST_LOCAL=$late
	else
		((late <= WORST_REMOTE)) || WORST_REMOTE=$late
	fi
	((late <= limit)) ||
		trouble LATE "$f (${A[$f]} to ${B[$f]}; ${MAY[$f]}): error after $late ms of $limit" "$LAB_TMP/$f"
}

judge() {	# judge FLOW STATUS
	local f=$1 rc=$2 what="$1 (${A[$1]} to ${B[$1]}, ${KIND[$1]}; touched by: ${MAY[$1]:-nothing})"
	DONE=$((DONE + 1))
	[ -n "${MAY[$f]}${KILLED[$f]}" ] || UNTOUCHED=$((UNTOUCHED + 1))
	if grep -q '^wrong:' "$LAB_TMP/$f"; then
		trouble WRONG "$what" "$LAB_TMP/$f"
	elif [ -n "${KILLED[$f]}" ] || [ "$rc" = 0 ]; then
		:
	elif [ "$rc" = 3 ] || { [ "$rc" = 1 ] && grep -q '^netwrite:' "$LAB_TMP/$f"; }; then
		FAILED=$((FAILED + 1))
		[ -n "${MAY[$f]}" ] || trouble HARMED "$what: status $rc" "$LAB_TMP/$f"
	else
		trouble WRONG "$what: ended with $rc" "$LAB_TMP/$f"
	fi
	[ -z "${MUST[$f]}" ] || [ -n "${KILLED[$f]}${STOPPED[$f]}" ] || on_time "$f"
	[ "${KIND[$f]}" != mix ] || add_up "$f"
	rm -f "$LAB_TMP/$f"
}

# add_up FLOW: what its QPs did; the messages that have completed must be with the server, if that lives
add_up() {
	local word last=
	for word in $(sed -n 's/^mix \([0-9]*\) \([a-z]*\): \([0-9]*\) messages/\2 1 qp \1:\3 /p' "$LAB_TMP/$1" |
		tr -d ,); do
		case $word in
		[0-9]*:[0-9]*) CLAIMS+=("${B[$1]} ${OF[$1]} ${word%:*} ${word#*:}") ;;
		[0-9]*) OPS[$last]=$((${OPS[$last]:-0} + word)) ;;
		*) last=$word ;;
		esac
	done
}

# What completed at a client has arrived: nothing may be told done that was not, whatever failed then.
claims_hold() {
	local claim n pid seed msgs got bad=
	for claim in ${CLAIMS[@]+"${CLAIMS[@]}"}; do
		read -r n pid seed msgs <<<"$claim"
		[ "$pid" = "${SERVER_PID[$n]}" ] || continue
		got=$(sed -n "s/^mix $seed: \([0-9]*\) messages.*/\1/p" "$LAB_TMP/s$n" | sort -n | tail -n 1)
		CLAIMED=$((CLAIMED + 1))
		((${got:-0} >= msgs)) || bad+="host $n, seed $seed: $msgs messages completed, ${got:-0} arrived; "
	done
	CLAIMS=()
	note "$bad"
	[ -z "$bad" ]
}
CLAIMED=0

collect() {
	local f rc keep=()
	slow_faults
	for f in "${FLOWS[@]}"; do
		if ended "${PID[$f]}"; then
			rc=0
			lab_wait "${PID[$f]}" 2>/dev/null || rc=$?
			judge "$f" $rc
		else
			keep+=("$f")
		fi
	done
	FLOWS=(${keep[@]+"${keep[@]}"})
}

# ---- the schedule -------------------------------------------------------------------------------

FAULTS=(link-short link-short cable-short link-long cable-long delete delete move down doorbell
	kill-server kill-server crash restart stop-server stop-server swap queues weftd weftd weftd loss loss)
declare -A BUSY		# host: the schedule has a fault there until this time

# Each step has a generator of its own: what it is to do does not depend on what was possible before.
STEP=0
next() {
	STEP=$((STEP + 1))
	RND=$((SEED * 2654435761 + STEP * 40503))
	rnd 1; rnd 1; rnd 1
}

step() {
	local n kind f
	rnd 100
	kind=$R
	if ((kind < 55)); then
		rnd 4
		local a=${HOSTS[R]} b
		rnd 3
		b=${HOSTS[$(((a + R) % 4))]}	# HOSTS[a % 4] is the next one
		rnd 6
		local how=$R
		((${#FLOWS[@]} < MAX_FLOWS)) || return 0
		case $how in
		0) transfer "$a" "$b" ;;
		1) posts "$a" "$b" ;;
		*) mixes "$a" "$b" ;;
		esac
	elif ((kind < 65)); then
		rnd 2; how=$R
		rnd 1000
		[ ${#FLOWS[@]} -gt 0 ] || return 0
		f=${FLOWS[R % ${#FLOWS[@]}]}
		if [ "$how" = 0 ]; then
			say "kill $f"
			KILLED[$f]=1
			kill -KILL "${PID[$f]}" 2>/dev/null
		else
			# one that is opening may hold the tables: all others would wait, and give up
			connected "$f" || return 0
			say "stop $f"
			STOPPED[$f]=1
			kill -STOP "${PID[$f]}" 2>/dev/null
			later $((R + 100)) awake "$f"
		fi
	else
		rnd 4
		n=${HOSTS[R]}
		rnd ${#FAULTS[@]}
		kind=${FAULTS[R]}
		((${BUSY[$n]:-0} <= CLOCK)) || return 0
		[ "$kind" != loss ] || ((IMPAIRED <= CLOCK)) || return 0
		BUSY[$n]=$((CLOCK + 4000))
		fault "$kind" "$n"
	fi
}

CLOCK=0
advance() {	# advance MS: of the schedule, and as long at least in earnest
	local until=$((CLOCK + $1)) t
	while ((CLOCK < until)); do
		CLOCK=$((CLOCK + 20 < until ? CLOCK + 20 : until))
		ms t
		((t - START >= CLOCK)) || sleep "0.$(printf %03d $((CLOCK - t + START)))"
		# what took its time is not made up for by haste
		((t - START <= CLOCK + 100)) || START=$((t - CLOCK))
		undo_due
	done
	collect
}

sweep() {	# a transfer from host N to the next
	lab_run_in "${NS[$1]}" "$NETWRITE" client --rounds 1 --src 256k --max 128k \
		"e0=10.9.0.$(($1 % 4 + 1)):7000" >"$LAB_TMP/sweep" 2>&1
}

# Let everything end, and see that nothing has stayed: of QPs, memory, tokens, descriptors.
rest() {
	local n f end now bad=
	say "rest"
	advance 3500	# every fault is over by then
	ms end
	end=$((end + 60000))
	while [ ${#FLOWS[@]} -gt 0 ]; do
		ms now
		((now < end)) || break
		sleep 0.1
		collect
	done
	for f in ${FLOWS[@]+"${FLOWS[@]}"}; do
		trouble SHUT "$f (${A[$f]} to ${B[$f]}; ${MAY[$f]}) does not end" "$LAB_TMP/$f"
		kill -KILL "${PID[$f]}"
	done
	# whoever opens a device clears away what the killed have left in its tables
	for n in "${HOSTS[@]}"; do
		sweep "$n" || trouble SHUT "host $n cannot connect at rest" "$LAB_TMP/sweep"
	done
	for n in "${HOSTS[@]}"; do
		until_true 60 is_at_rest "$n" || bad+="$n: $(at_rest "$n") instead of ${AT_REST[$n]}; "
	done
	note "$bad"
	t "${#bad} == 0" "at rest after $FLOW flows: no QP, region, token, map entry or descriptor is left over"
	t -- claims_hold ++ "what completed at a client has arrived at its server"
}

lab_begin
meter
MEMORY=$(kernel_memory) MAPS=$(bpftool map show | grep -c '^[0-9]')
drill_hosts
RND=$SEED
echo "# replay: DRILL_SECS=$DRILL_SECS SEED=$SEED $0"
rnd 4
FIRST=$R	# of two that are served by weftd for sure
for n in "${HOSTS[@]}"; do
	rnd 2
	[ "$R" = 0 ] || PERSIST[$n]=1
	(((n - FIRST) % 2)) || weftd_start "$n"
	server_start "$n"
done
t "${#SHUT[@]} == 0" "four hosts, a server each"
ms START
NEXT_REST=$QUIET_MS
BEGAN=$START NOW=$START
WANTED=(relaxed strict write read add swap send imm inline unsignaled empty pieces answer)
wanted() {	# wanted AT-LEAST-SECONDS ARRAY NAME...: each of these was seen
	local -n seen=$2
	local word miss=
	for word in "${@:3}"; do
		((${seen[$word]:-0} > 0)) || miss+="$word "
	done
	echo "missing: $miss"
	[ -z "$miss" ] || ((DRILL_SECS < $1))
}
# A slow machine, where less happens, has more time for it.
goes_on() {
	((NOW - BEGAN < DRILL_SECS * 1000)) ||
		{ ((NOW - BEGAN < DRILL_SECS * 3000)) && ! wanted 60 OPS "${WANTED[@]}" >/dev/null; }
}
while goes_on; do
	next
	rnd 300
	advance $((R + 30))
	step
	if ((CLOCK >= NEXT_REST)); then
		rest
		NEXT_REST=$((CLOCK + QUIET_MS))
	fi
	ms NOW
done
rest
off() {	# everything of host N ends
	server_stop "$1" TERM
	[ -z "${BY_WEFTD[$1]}" ] || lab_stop "${DAEMON_PID[$1]}"
	[ -z "${PERSIST[$1]}" ] || "$WEFT" -n "${NS[$1]}" down e0 >/dev/null
}
ends_clean() {
	t -- in_time 2 host_clean "$1" ++ "host $1: within 2 s of the last user nothing of weft is left"
	[ $TAP_LATE = 0 ] || { all_start "$1"; off "$1"; }
}
for n in "${HOSTS[@]}"; do off "$n"; done
for n in "${HOSTS[@]}"; do timely ends_clean "$n"; done
until_true 60 maps_gone
t -- maps_gone ++ "the kernel has the memory of all ${#MAPS_SEEN[@]} maps back that were looked at"
none() {	# none LIST NAME
	local -n these=$1
	note "$(printf '%s\n' ${these[@]+"${these[@]}"})"
	t "${#these[@]} == 0" "$2"
}
none WRONG "$DONE flows: every byte right at every look"
none HARMED "$UNTOUCHED flows that nothing touched: none failed"
none LATE "errors within the promised times ($TIMED; worst $WORST_LOCAL ms, $WORST_REMOTE ms by a time-out)"
t -- wanted 60 OPS "${WANTED[@]}" ++ \
	"every operation was among them, and $CLAIMED ends were asked"
t -- wanted 600 FAULTED "${FAULTS[@]}" ++ "and, in ten minutes, every fault"
none SHUT "servers and clients end, begin and begin again"
lab_down
until_true 60 memory_is_back	# compilers beside have some for a moment
# others may take some meanwhile
[ "$LAB_SHARED" = 1 ] || t "MORE < 16384" "kernel memory as before ($MORE KiB more)"
# namespaces and what was attached in them go after a while
no_more_maps() {
	(($(bpftool map show | tee "$LAB_TMP/maps" | grep -c '^[0-9]') <= MAPS))
}
[ "$LAB_SHARED" = 1 ] || {
	until_true 90 no_more_maps
	note "$(<"$LAB_TMP/maps")"
	t -- no_more_maps ++ "no BPF map more than before"
}
echo "# total: kernel memory $MORE KiB more; $DONE flows, $FAILED of them failed as they should, $UNTOUCHED untouched, in $DRILL_SECS s"
tap_end
