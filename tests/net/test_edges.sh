#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What somebody else does to weft's interfaces meanwhile: renamed, moved, deleted, taken; and options
# that cannot be had.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

NEW=newer

tap_of() {	# the doorbell of DEV in A
	echo "weft$(ip -n "$LAB_A" -o link show dev "$1" | cut -d: -f1)t"
}

clean() {	# nothing of weft is left in A
	! compgen -G "/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-*" >/dev/null &&
		! ip -n "$LAB_A" link | grep -qE 'weft doorbell|xdp'
}

refused() {	# refused PATTERN COMMAND...: status 1, and one line that says so
	local want=$1 rc=0 out
	shift
	out=$("$@" 2>&1) || rc=$?
	echo "$out"
	[ $rc = 1 ] && grep -qE -- "$want" <<<"$out" && [ "$(wc -l <<<"$out")" = 1 ]
}

weft_a() {
	"$WEFT" -n "$LAB_A" "$@"
}

# write DEV [OPTIONS]: a whole connection from scratch
write() {
	serve s "$LAB_B" --region 4m --conns 1 "$LAB_IF_B=:7000"
	writer c "$LAB_A" --rounds 1 --max 256k "${@:2}" "$1=10.9.0.2:7000"
	finish_both c s
}

rename_a() {	# FROM TO: by hand, as kernels before 6.2 want it
	ip -n "$LAB_A" link set "$1" down
	ip -n "$LAB_A" link set "$1" name "$2"
	ip -n "$LAB_A" link set "$2" up
	ip -n "$LAB_A" addr replace fd09::1/64 dev "$2" nodad
}

# An idle server ends by itself, at once and not with its next client.
idle_server() {	# idle_server MESSAGE NAME COMMAND...
	local msg=$1 name=$2
	shift 2
	lab_spawn_in "$LAB_A" "$WEFT" perf server "$LAB_IF_A" >"$LAB_TMP/p" 2>&1
	SERVER=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/p" '^ready' "$SERVER"
	"$@" || note "$* failed"
	t -- in_time 1 ended "$SERVER" ++ "perf server, idle, and $name: it ends within 1 s"
	t -- finish "$SERVER" p 1 ++ "with status 1"
	t -- grep -qE "^weft: $LAB_IF_A: ($msg)" "$LAB_TMP/p" ++ "and says why"
	t -- until_true 60 clean ++ "and leaves nothing"
}

taken_down() {
	idle_server 'weft was taken down' 'weft down' weft_a down "$LAB_IF_A"
}

without_doorbell() {
	idle_server 'somebody removed its doorbell' 'its doorbell deleted' \
		eval "ip -n $LAB_A link del \$(tap_of $LAB_IF_A)"
}

deleted() {
	idle_server 'the interface is gone|weft was taken down' 'its interface deleted' \
		ip -n "$LAB_A" link del "$LAB_IF_A"
	lab_down
	lab_pair
}

renamed() {
	local server
	weft_a up "$LAB_IF_A"
	serve r "$LAB_A" --region 1m "$LAB_IF_A=:7001"
	server=$SERVER
	rename_a "$LAB_IF_A" $NEW
	t -- weft_a up $NEW ++ "interface renamed: weft up by its new name"
	t "$(weft_a -j dev show $NEW | grep -c '"ifname": *"'$NEW'"') == 1" "dev show by its new name"
	t -- write $NEW ++ "a program opens it by its new name"
	serve c2 "$LAB_A" --region 1m $NEW=:7002
	kill -TERM "$SERVER"
	t -- finish "$SERVER" c2 ++ "and serves on it"
	kill -TERM "$server"
	t -- finish "$server" r ++ "who used it before ends well"
	ip -n "$LAB_A" link add "$LAB_IF_A" type veth peer name peer-a
	t -- refused "belongs to $NEW, .*'weft down $NEW'" "$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ \
		"another interface has the old name: it is told who has the pins"
	t -- refused "belongs to $NEW, " "$WEFT" -n "$LAB_A" unpin "$LAB_IF_A" ++ "weft unpin too"
	t -- weft_a dev show $NEW ++ "which stay"
	t -- weft_a down $NEW ++ "weft down by the new name"
	t -- clean ++ "leaves nothing"
	t -- weft_a up "$LAB_IF_A" ++ "then weft goes on the other one"
	weft_a down "$LAB_IF_A"
	ip -n "$LAB_A" link del "$LAB_IF_A"
	weft_a up $NEW
	rename_a $NEW "$LAB_IF_A"
	t -- weft_a down $NEW ++ "weft down by the name that weft came with"
	t -- clean ++ "leaves nothing either"
}

# An alternative name is a name: pins go by the real one, whichever was given.
altnames() {
	local alt=other long=a-name-that-is-longer-than-those-of-interfaces pins c
	pins=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A
	ip -n "$LAB_A" link property add dev "$LAB_IF_A" altname $alt
	ip -n "$LAB_A" link property add dev "$LAB_IF_A" altname $long
	t -- weft_a up $alt ++ "weft up by an alternative name"
	t -- test -e "$pins/devcfg" ++ "pins the real one"
	t -- weft_a up $long ++ "a long one joins it"
	for c in 'dev show' 'qp show' 'mr show' 'stats show' 'qp trace' 'top -b -n 1 -d 0.1' metrics; do
		# shellcheck disable=SC2086	# words
		t -- weft_a $c $alt ++ "$c by it"
	done
	t -- weft_a dev show $long ++ "and by the long one"
	t -- write $alt ++ "a program opens it by that"
	t -- write $long ++ "or that"
	lab_spawn "$WEFT" -n "$LAB_A" capture -c 1 $alt >"$LAB_TMP/capture" 2>&1
	lab_wait_line "$LAB_TMP/capture" "capturing on $LAB_IF_A" "$LAB_SPAWNED"
	t -- grep -q "capturing on $LAB_IF_A" "$LAB_TMP/capture" ++ "capture by it, which says the real one"
	lab_stop "$LAB_SPAWNED"
	t -- refused 'weft works on this interface' "$WEFT" -n "$LAB_A" unpin $alt ++ "unpin knows it"
	t -- weft_a down $alt ++ "weft down by it"
	t -- clean ++ "leaves nothing"
	ip -n "$LAB_A" link property del dev "$LAB_IF_A" altname $alt altname $long
}

netcalls() {
	"$LAB_BUILD/tests/net/netcalls" "$@" >"$LAB_TMP/calls" && return
	grep -A 1 '^not ok' "$LAB_TMP/calls"
	return 1
}

calls() {
	t -- netcalls "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2:7470 ++ \
		"what public calls refuse, each with its own text"
	t -- clean ++ "leaves nothing"
}

bells() {
	local tap
	weft_a up "$LAB_IF_A"
	tap=$(tap_of "$LAB_IF_A")
	ip -n "$LAB_A" link set "$tap" down
	ip -n "$LAB_A" link set "$tap" name bell
	t -- write "$LAB_IF_A" ++ "doorbell renamed: a new user works"
	t -- weft_a down "$LAB_IF_A" ++ "weft down"
	t -- clean ++ "finds and removes it"
	serve s "$LAB_A" --region 1m "$LAB_IF_A=:7001"
	ip -n "$LAB_A" link set "$tap" netns "$LAB_B"
	until_true 60 grep -q 'doorbell' "$LAB_TMP/s"
	kill -TERM "$SERVER"
	t -- finish "$SERVER" s ++ "doorbell moved to another namespace under a user: he ends"
	t -- until_true 60 clean ++ "leaves nothing here"
	t ! ip -n "$LAB_B" link show dev "$tap" ++ "nor there"
	weft_a up "$LAB_IF_A"
	ip -n "$LAB_A" link set "$tap" netns "$LAB_B"
	t -- refused 'doorbell is in another network namespace' eval \
		"'$WEFT' -n '$LAB_A' -v down '$LAB_IF_A' 2>&1; false" ++ \
		"moved while nobody uses it: weft down says where it stays"
	ip -n "$LAB_B" link del "$tap"
	ip -n "$LAB_A" link add "$tap" type veth peer name peer-a
	t -- refused "$tap that is not weft's" "$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ \
		"an interface of somebody else has the doorbell's name: refused"
	t -- ip -n "$LAB_A" link show dev peer-a ++ "and left alone"
	ip -n "$LAB_A" link del "$tap"
	t -- clean ++ "nothing of weft is left"
	t -- write "$LAB_IF_A" ++ "without it weft works"
}

options() {
	weft_a up "$LAB_IF_A"
	t -- refused 'is up with csum off; .*weft down' lab_run_in "$LAB_A" "$NETWRITE" client --csum \
		"$LAB_IF_A=10.9.0.2:7000" ++ "a program that wants checksums and cannot have them is refused"
	t -- write "$LAB_IF_A" ++ "one that does not care works"
	weft_a down "$LAB_IF_A"
	weft_a up "$LAB_IF_A" csum on
	t -- write "$LAB_IF_A" --csum ++ "with checksums on: who wants them gets them"
	t -- write "$LAB_IF_A" ++ "who does not care works"
	t -- refused 'is up with csum on' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" csum off ++ \
		"weft up with the other mode is refused"
	t -- refused 'is up with UDP port 4793' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" port 5000 ++ \
		"so is another port"
	weft_a down "$LAB_IF_A"
}

# A process that sleeps does not let go of what is gone; others need not wait for it.
sleepers() {
	local how
	for how in deleted moved; do
		serve r "$LAB_A" --region 1m "$LAB_IF_A=:7001"
		kill -STOP "$SERVER"
		if [ $how = deleted ]; then
			ip -n "$LAB_A" link del "$LAB_IF_A"
		else
			ip -n "$LAB_A" link set "$LAB_IF_A" netns "$LAB_B" name away
			ip -n "$LAB_B" link del away
		fi
		lab_veth "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 3498
		lab_address "$LAB_A" "$LAB_IF_A" 1
		lab_address "$LAB_B" "$LAB_IF_B" 2
		STOPPED=$SERVER
		t -- write "$LAB_IF_A" ++ "interface $how and made anew, its user asleep: weft works on the new one"
		kill -CONT "$STOPPED"
		kill -TERM "$STOPPED"
		t -- finish "$STOPPED" r ++ "he ends well"
		t -- until_true 60 clean ++ "and leaves nothing"
	done
}

# Whenever the interface goes while weft is being attached, that is what is said.
vanishing() {
	local i out odd='' gone=0 pid
	for ((i = 0; i < 24; i++)); do
		ip -n "$LAB_A" link add v0 type veth peer name v1
		"$WEFT" -n "$LAB_A" up v0 >"$LAB_TMP/v" 2>&1 &
		pid=$!
		sleep "0.$(printf %03d $((i * 12 + 20)))"
		ip -n "$LAB_A" link del v0
		wait $pid
		out=$(<"$LAB_TMP/v")
		case $out in
		'') ;;
		*vanished* | *'no such interface'* | *'the interface is gone'*) gone=$((gone + 1)) ;;
		*) odd+="$out; " ;;
		esac
		"$WEFT" -n "$LAB_A" dev flush >/dev/null
	done
	note "$odd"
	t "${#odd} == 0" "interface deleted at 24 moments of 'weft up': plain words ($gone times)"
	t "gone > 0" "which were needed"
	t -- until_true 60 clean ++ "nothing is left of it"
}

lab_begin
meter
lab_pair 3498
for part in taken_down without_doorbell deleted; do
	tap_part $part && timely $part
done
for part in renamed altnames calls bells options sleepers vanishing; do
	tap_part $part && $part
done
tap_end
