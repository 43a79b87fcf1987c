# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2034,SC2004,SC2086	# sourced by test_drill.sh
# The faults of the failure drill, and what sets them right. A host has one at a time.

later() {	# later MS COMMAND...
	local due=$((CLOCK + $1))
	shift
	UNDO+=("$due $*")
}

undo_due() {
	local u keep=() all=("${UNDO[@]}")
	UNDO=()
	for u in "${all[@]}"; do
		if ((${u%% *} <= CLOCK)); then
			say "${u#* }"
			# shellcheck disable=SC2086	# a command and its words
			${u#* }
		else
			keep+=("$u")
		fi
	done
	UNDO=(${keep[@]+"${keep[@]}"} ${UNDO[@]+"${UNDO[@]}"})
}

link_up() {	# link_up N NS DEV
	ip -n "$2" link set "$3" up
	[ "$3" != e0 ] || ip -n "$2" addr replace "fd09::$1/64" dev e0 nodad
	slow_faults
	[ -n "${DOWN[$1]:-}" ] || neighbours_ask "$1"	# away for seconds
	unset "DOWN[$1]"
	HURT[$1]=
}

# A new server: the old one has lost its device.
back() {
	server_stop "$1" TERM
	server_start "$1"
}

link() {	# link N NS DEV MS
	local t
	HURT[$1]="link "
	hit_connecting "$1" link
	ms t
	if (($4 > 500)); then hit_host "$1" link $REMOTE_MS $REMOTE_MS; else DOWN[$1]=$t; fi
	ip -n "$2" link set "$3" down
	begun "$1"
	later "$4" link_up "$1" "$2" "$3"
}

replug() {
	plug "$1" || trouble SHUT "host $1: no device"
	back "$1"
}

fault() {	# fault KIND N
	local n=$2 f t
	say "fault $1: $n"
	FAULTED[$1]=$((${FAULTED[$1]:-0} + 1))
	again "$n"
	case $1 in
	link-short) rnd 250; link "$n" "${NS[$n]}" e0 $((R + 50)) ;;
	cable-short) rnd 250; link "$n" "$LAB_M" "p$n" $((R + 50)) ;;
	link-long) rnd 1000; link "$n" "${NS[$n]}" e0 $((R + 2000)) ;;
	cable-long) rnd 1000; link "$n" "$LAB_M" "p$n" $((R + 2000)) ;;
	delete)
		HURT[$n]="delete "
		hit_host "$n" delete $LOCAL_MS $REMOTE_MS
		ip -n "${NS[$n]}" link del e0
		begun "$n"
		rnd 1500; later "$R" replug "$n"
		;;
	move)
		HURT[$n]="move "
		hit_host "$n" move $LOCAL_MS $REMOTE_MS
		ip -n "${NS[$n]}" link set e0 netns "$LAB_ID-x" name "m$n"
		begun "$n"
		rnd 1500; later "$R" moved_back "$n"
		;;
	down)
		HURT[$n]="down "
		hit_host "$n" down $LOCAL_MS $LOCAL_MS
		"$WEFT" -n "${NS[$n]}" down e0 >/dev/null
		begun "$n"
		rnd 500; later "$R" back "$n"
		;;
	doorbell)
		HURT[$n]="doorbell "
		hit_host "$n" doorbell $LOCAL_MS $LOCAL_MS
		ip -n "${NS[$n]}" link del "weft$(ip -n "${NS[$n]}" -o link show dev e0 | cut -d: -f1)t"
		begun "$n"
		rnd 500; later "$R" doorbell_back "$n"
		;;
	kill-server)
		HURT[$n]="kill-server "
		hit_server "$n" kill-server $LOCAL_MS
		server_stop "$n" KILL
		rnd 600; later "$R" server_start "$n"
		;;
	crash)	# all of a host's processes at once
		HURT[$n]="crash "
		hit_server "$n" crash $LOCAL_MS
		for f in "${FLOWS[@]}"; do
			[ "${A[$f]}" != "$n" ] || { KILLED[$f]=1; kill -KILL "${PID[$f]}"; }
		done
		server_stop "$n" KILL
		[ -z "${BY_WEFTD[$n]}" ] || weftd_kill "${DAEMON_PID[$n]}"
		rnd 600; later "$R" all_start "$n"
		;;
	restart)
		HURT[$n]="restart "
		hit_server "$n" restart ''
		server_stop "$n" TERM
		server_start "$n"
		;;
	swap)	# of the programs under traffic; nothing may fail of that
		PERSIST[$n]=1
		swapped "$n"
		;;
	queues)
		HURT[$n]="queues "
		hit_connecting "$n" queues
		queues "$n" 1 || trouble SHUT "host $n: its queues cannot be changed"
		rnd 1500; later $((R + 200)) queues_back "$n"
		;;
	weftd)	# killed, or told to end: nothing may fail of that but what is being connected for too long
		if [ -z "${BY_WEFTD[$n]}" ]; then
			PERSIST[$n]=1
			swapped "$n"
			return
		fi
		rnd 3
		if [ "$R" = 0 ]; then
			kill -TERM "${DAEMON_PID[$n]}"
			lab_wait "${DAEMON_PID[$n]}" 2>/dev/null || trouble SHUT "host $n: weftd ended with $?"
		else
			weftd_kill "${DAEMON_PID[$n]}"
		fi
		ms t
		AWAY[$n]=$t
		rnd 900
		((R < 250)) || { HURT[$n]="weftd "; hit_connecting "$n" weftd; }
		later "$R" weftd_back "$n"
		;;
	loss)	# of everybody's packets
		IMPAIRED=$((CLOCK + 4000))
		rnd 15000
		hosts_impair --seed $((SEED % 100000)) --loss $((R + 1000)) --corrupt 2000 --corrupt-range 0:72 --ce 20000
		rnd 2000; later $((R + 500)) hosts_impair --loss 0 --corrupt 0 --ce 0
		;;
	stop-server)	# nothing may fail of that
		kill -STOP "${SERVER_PID[$n]}"
		ms t
		HURT[$n]='' AWAY[$n]=$t
		rnd 1500; later $((R + 50)) awake_server "$n"
		;;
	esac
}

# queues N HOW-MANY: of both ends of its veth. Receiving ones are at least as many as the other end sends with.
queues() {
	local q=$2 n=$1
	((QUEUES > 1)) || return 0
	if ((q < QUEUES)); then
		lab_in "$LAB_M" ethtool -L "p$n" tx "$q" && lab_in "${NS[$n]}" ethtool -L e0 rx "$q" tx "$q" &&
			lab_in "$LAB_M" ethtool -L "p$n" rx "$q"
	else
		lab_in "$LAB_M" ethtool -L "p$n" rx "$q" && lab_in "${NS[$n]}" ethtool -L e0 rx "$q" tx "$q" &&
			lab_in "$LAB_M" ethtool -L "p$n" tx "$q"
	fi
}

queues_back() {
	queues "$1" "$QUEUES" || trouble SHUT "host $1: its queues cannot be changed back"
	HURT[$1]=
}

swapped() {
	"$WEFT" -n "${NS[$1]}" up e0 --replace >"$LAB_TMP/swap" 2>&1 ||
		trouble SHUT "host $1: its programs cannot be replaced" "$LAB_TMP/swap"
}

all_start() {
	[ -z "${BY_WEFTD[$1]}" ] || weftd_start "$1"
	server_start "$1"
}

weftd_back() {
	weftd_start "$1"
	slow_faults
	unset "AWAY[$1]"
	HURT[$1]=
}

awake_server() {
	kill -CONT "${SERVER_PID[$1]}"
	slow_faults
	unset "AWAY[$1]"
}

moved_back() {
	ip -n "$LAB_ID-x" link del "m$1"
	replug "$1"
}

doorbell_back() {
	server_stop "$1" TERM
	# with weft up the pins stay, without a doorbell
	[ -z "${PERSIST[$1]}" ] || "$WEFT" -n "${NS[$1]}" down e0 >/dev/null
	# weftd makes a new one when all of its clients have left
	[ -z "${BY_WEFTD[$1]}" ] || until_true 60 users_gone "$1"
	server_start "$1"
}

users_gone() {
	[ "$("$WEFT" -n "${NS[$1]}" -j dev show e0 | jq '[.[].users[] | select(.uid != 0)] | length')" = 0 ]
}

awake() {
	[[ " ${FLOWS[*]} " != *" $1 "* ]] || kill -CONT "${PID[$1]}"
}
