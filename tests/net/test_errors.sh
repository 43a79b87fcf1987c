#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Bad input: one line on stderr in the promised form, the promised status, nothing left behind.
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# shape STATUS REGEX COMMAND...
shape() {
	local want=$1 re=$2 rc=0 line word
	shift 2
	timeout -k 5 120 "$@" >"$LAB_TMP/out" 2>"$LAB_TMP/err" </dev/null || rc=$?
	line=$(<"$LAB_TMP/err")
	echo "status $rc, stderr: $line"
	[ "$rc" = "$want" ] || return 1
	[ "$want" = 2 ] && { [ -n "$line" ] && grep -qE -- "$re" <<<"$line"; return; }
	[ "$want$re" != '0^$' ] || { [ -z "$line" ]; return; }
	[ "$(wc -l <"$LAB_TMP/err")" = 1 ] || return 1
	[ ! -s "$LAB_TMP/out" ] || { echo "stdout: $(<"$LAB_TMP/out")"; return 1; }
	grep -qE '^weft: .+: .+; .+' <<<"$line" && grep -qE -- "$re" <<<"$line" || return 1
	for word in $(grep -oE -- '--[a-z]+' <<<"$line"); do
		grep -qF -- "$word" "$ROOT/docs/cli.md" || { echo "no option $word"; return 1; }
	done
}

nothing_left() {
	! compgen -G "/sys/fs/bpf/weft/*$(stat -Lc %i "/run/netns/$1")-*" >/dev/null &&
		! ip -n "$1" -br link | grep -q '^weft'
}

weft_a() {
	"$WEFT" -n "$LAB_A" "$@"
}

xdp_id() {
	ip -n "$LAB_A" -d link show dev "$1" | sed -n 's/.*prog\/xdp id \([0-9]*\).*/\1/p'
}

interfaces() {
	local id
	t -- shape 1 'nope: no such interface' "$WEFT" -n "$LAB_A" up nope ++ "no such interface"
	t -- shape 1 'nope: no such interface' "$WEFT" -n "$LAB_A" perf server nope ++ "nor for perf server"
	t -- shape 1 'nope: no such interface' "$WEFT" -n "$LAB_A" down nope ++ "nor for down"
	t -- shape 1 'no such network namespace' "$WEFT" -n "$LAB_ID-x" up "$LAB_IF_A" ++ "no such namespace"
	t -- shape 0 "$LAB_IF_A: weft is not .*nothing to do" "$WEFT" -n "$LAB_A" down "$LAB_IF_A" ++ \
		"down of what is not up: so it is"
	t -- shape 0 "$LAB_IF_A: weft is not .*nothing to do" "$WEFT" -n "$LAB_A" unpin "$LAB_IF_A" ++ "unpin, too"
	t -- shape 1 "$LAB_IF_A: weft is not" "$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" ++ "stats of what is not up"
	ip -n "$LAB_A" link add ifb9 type ifb
	ip -n "$LAB_A" link set ifb9 up
	t -- shape 1 'ifb9: .*no native XDP' "$WEFT" -n "$LAB_A" up ifb9 ++ "a driver without native XDP"
	ip -n "$LAB_A" link del ifb9
	ip -n "$LAB_A" link add p0 mtu 9000 type veth peer name p1 mtu 9000
	ip -n "$LAB_A" link set p0 up
	ip -n "$LAB_A" link set p1 up
	t -- shape 1 'p0: .*Peer MTU is too large to set XDP.* other end p1 9000' "$WEFT" -n "$LAB_A" up p0 ++ \
		"an MTU that the driver refuses, in the kernel's words and with both numbers"
	ip -n "$LAB_A" link set p0 mtu 1500
	ip -n "$LAB_A" link set p1 mtu 1500
	lab_spawn_in "$LAB_A" "$WIRELAB" run --ports p0,p1 --pin "/sys/fs/bpf/wirelab-$LAB_ID-e" \
		>"$LAB_TMP/foreign"
	local foreign=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/foreign" ready "$foreign"
	id=$(xdp_id p0)
	t -- shape 1 'p0: another XDP program is attached' "$WEFT" -n "$LAB_A" up p0 ++ "another XDP program"
	t -- shape 1 'p0: another XDP program is attached' "$WEFT" -n "$LAB_A" perf write p0 10.9.0.2 ++ \
		"also for perf write"
	t "${id:-0} > 0 && ${id:-0} == $(xdp_id p0 || echo 0)" "which stays attached"
	lab_stop "$foreign"
	ip -n "$LAB_A" link del p0
	ip -n "$LAB_A" link add p0 numrxqueues 4 numtxqueues 1 type veth peer name p1 numrxqueues 1 numtxqueues 3
	ip -n "$LAB_A" link set p1 up
	ip -n "$LAB_A" link set p0 up
	lab_in "$LAB_A" ethtool -L p0 rx 1
	t -- shape 1 "p0: .*rx queues.*\\(receive queues: 1\\); run 'ethtool -L p0 rx 3'" "$WEFT" -n "$LAB_A" up p0 ++ \
		"too few receive queues: how many it takes"
	lab_in "$LAB_A" ethtool -L p0 rx 3
	t -- weft_a up p0 ++ "with which it works"
	weft_a down p0
	ip -n "$LAB_A" link del p0
	ip -n "$LAB_A" link add p0 mtu 347 type veth peer name p1 mtu 347
	t -- shape 1 "p0: MTU 347 is too small; run 'ip link set dev p0 mtu 348'" "$WEFT" -n "$LAB_A" up p0 ++ "the smallest MTU"
	ip -n "$LAB_A" link set p0 mtu 348
	t -- weft_a up p0 ++ "is what it says"
	weft_a down p0
	# shellcheck disable=SC2016	# for the inner shell
	t -- shape 1 "p0: .*Too many open files; .*ulimit -n" bash -c 'ulimit -n 32; exec "$@"' - \
		"$WEFT" -n "$LAB_A" up p0 ++ "too few descriptors"
	ip -n "$LAB_A" link del p0
	t -- shape 1 "127.0.0.1:9470: cannot listen: .*'ip link set lo up'" unshare -n "$WEFT" metrics --listen 9470 ++ \
		"metrics where lo is down"
	t -- shape 1 "$LAB_IF_A: no bpffs .*'ip netns exec' hides .*'weft -n NAME'" ip netns exec "$LAB_A" \
		"$WEFT" up "$LAB_IF_A" ++ "up where its pins would end with the command"
	t -- nothing_left "$LAB_A" ++ "none of these left anything behind"
}

# The MTU that counts is that of the time of `up`: where another one now matters, that is said.
mtu() {
	weft_a up "$LAB_IF_A"
	ip -n "$LAB_A" link set "$LAB_IF_A" mtu 1000
	t -- shape 0 "$LAB_IF_A: MTU 1000 now, but 3498 when .*'weft down $LAB_IF_A', 'weft up $LAB_IF_A'" \
		"$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ "up again under a smaller MTU: a warning"
	t -- grep -q 'MTU 1000 now, but 3498' <(weft_a -j dev show "$LAB_IF_A" | jq -r '.[].advice[]') ++ "dev show advises so"
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	local server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	ip -n "$LAB_B" link set "$LAB_IF_B" mtu 1000	# a veth goes by that of its other end
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --count 10 >"$LAB_TMP/out" 2>"$LAB_TMP/err"
	note "$(<"$LAB_TMP/err")"
	t -- grep -q "$LAB_IF_A has MTU 1000 now; run 'weft down $LAB_IF_A', 'weft up $LAB_IF_A'" "$LAB_TMP/err" ++ \
		"and perf, of the requests that fail"
	lab_stop "$server"
	ip -n "$LAB_A" link set "$LAB_IF_A" mtu 3498
	ip -n "$LAB_B" link set "$LAB_IF_B" mtu 3498
	t -- shape 0 '^$' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ "with the old MTU there is nothing to say"
	weft_a down "$LAB_IF_A"
	until_true 60 nothing_left "$LAB_B"
}

rights() {
	t -- shape 1 'run as root|run it as root' setpriv --reuid 65534 --regid 65534 --clear-groups \
		nsenter --preserve-credentials "$WEFT" up lo ++ "not root"
	t -- shape 1 'root' unshare -Ur "$WEFT" up lo ++ "root of a user namespace alone"
}

# Who looks at a device while another sets it up waits for him; of one that died half-way it is said what helps.
partly() {
	local up i dirs
	dirs=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-
	ip -n "$LAB_A" link add half.1 type veth peer name half.2
	lab_spawn "$WEFT" -n "$LAB_A" up half.1 >/dev/null 2>&1
	up=$LAB_SPAWNED
	until [ -d "${dirs}half:1" ] || ended "$up"; do :; done
	kill -STOP "$up"
	t "$(find "${dirs}half:1" -mindepth 1 | wc -l) == 0" "stopped before anything is in its directory"
	: >"$LAB_TMP/stats"
	lab_spawn "$WEFT" -n "$LAB_A" stats show half.1 >"$LAB_TMP/stats" 2>&1
	i=$LAB_SPAWNED
	sleep 0.5
	kill -CONT "$up"
	t -- finish "$i" stats ++ "who looks meanwhile waits until it is up"
	t -- grep -q '^half.1:' "$LAB_TMP/stats" ++ "and is shown it"
	lab_wait "$up"
	weft_a down half.1
	mkdir -p "${dirs}half:1"
	t -- shape 1 "half.1: weft is only partly set up .*died; run 'weft up half.1' to have it anew, or 'weft down half.1'" \
		"$WEFT" -n "$LAB_A" stats show half.1 ++ "half a set-up of one who has died"
	t -- weft_a up half.1 ++ "the advice is right"
	t -- "$WEFT" -n "$LAB_A" stats show half.1 ++ "then it is whole"
	weft_a down half.1
	mkdir -p "${dirs}half:1"
	t -- weft_a down half.1 ++ "so is the other"
	t -- shape 1 'half.1: weft is not on this interface' "$WEFT" -n "$LAB_A" stats show half.1 ++ "then there is nothing"
	mkdir -p "${dirs}half:1" "${dirs/weft\//weft/open:}half:1"
	t -- shape 1 "half.1: another process sets weft up on it or takes it down; try again, and if 'fuser .*open:.*half:1' shows nobody, run 'weft down half.1'" \
		"$WEFT" -n "$LAB_A" stats show half.1 ++ "one whose door is open as well: perhaps somebody is at it"
	t -- weft_a down half.1 ++ "and that advice is right, too"
	ip -n "$LAB_A" link del half.1
	t -- nothing_left "$LAB_A" ++ "nothing is left behind"
}

# Of a number that is none, or out of range: which option, from where to where, and what was given.
numbers() {
	local arg range bad
	while read -r arg bad range; do
		t -- shape 2 "$arg is $range, not \"$bad\"" "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 "$arg" "$bad" ++ \
			"$arg $bad"
	done <<-'END'
		--size 2x 0 to 1g
		--region 63 64 to 1g
		--time 0 more than 0 and up to 1000000 s
		--count 0 1 or more
		--qps 1024 1 to 1023
		--evs 65 1 to 64
		--depth 4097 1 to 4096
		--cq-mod 4097 1 to 4096
		--cwnd 513 1 to 512
	END
	t -- shape 2 '--depth of atomics is 1 to 256, not 257' "$WEFT" perf atomic "$LAB_IF_A" 10.9.0.2 --depth 257 ++ "of atomics"
	t -- shape 2 '--cq-mod is 1 to the depth, 16, not 17' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 --cq-mod 17 ++ \
		"more without a completion than are posted"
	t -- shape 2 'each atomic has a completion' "$WEFT" perf atomic "$LAB_IF_A" 10.9.0.2 --cq-mod 2 ++ "atomics without"
	t -- shape 2 '--lat waits for each message' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 --lat --cq-mod 2 ++ "a ping without"
	t -- shape 2 '--region must hold a message: 1048576 bytes, not 65536' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 \
		--region 64k ++ "a region too small for its messages"
	t -- shape 2 '--port is 1 to 65535, not "0"' "$WEFT" perf server -p 0 "$LAB_IF_A" ++ "the server's"
	t -- shape 2 '--qps is 1 to 1023, not "0"' "$WEFT" perf server --qps 0 "$LAB_IF_A" ++ "and how many it serves"
	t -- shape 2 'qps is 1 to 2048, not "2049"' "$WEFT" up "$LAB_IF_A" qps 2049 ++ "of up"
	t -- shape 2 'csum is on or off, not "yes"' "$WEFT" up "$LAB_IF_A" csum yes ++ "and what is on or off"
	t -- shape 2 '-s is 0 .* to 4294967295 bytes, not "-1"' "$WEFT" capture -s -1 "$LAB_IF_A" ++ "of capture"
	t -- shape 2 '-B is 64k to 1g, not "1"' "$WEFT" capture -B 1 "$LAB_IF_A" ++ "its buffer"
	t -- shape 2 '-d is 0.1 to 3600 s, not "0"' "$WEFT" top -d 0 ++ "of top"
	t -- shape 2 'cwnd is 1 to 512 packets, not "0"' "$WEFT" qp set "$LAB_IF_A" 1 cwnd 0 ++ "of qp set"
}

usage() {
	t -- shape 2 '' "$WEFT" ++ "no arguments"
	t -- shape 2 '' "$WEFT" frobnicate ++ "no such object"
	t -- shape 2 '' "$WEFT" up ++ "up without an interface"
	t -- shape 2 '' "$WEFT" up '' ++ "or with one that has no name"
	t -- shape 2 '' "$WEFT" dev frobnicate lo ++ "no such command"
	t -- shape 2 '' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 --frobnicate ++ "no such option"
	t -- shape 2 '' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 --size 2x ++ "a size that is none"
	t -- shape 2 '' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2:99999 ++ "a port that is none"
	t -- shape 2 '' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2: ++ "no port"
	t -- shape 2 'what is "7471"' "$WEFT" perf write "$LAB_IF_A" 10.9.0.2 7471 ++ "one word too many is named"
	t -- shape 2 'DEV and HOST\[:PORT\]' "$WEFT" perf write "$LAB_IF_A" ++ "one too few: what is wanted"
	t -- shape 2 '\[ADDR:\]PORT; a port is' "$WEFT" metrics --listen 99999 ++ "metrics at a port that is none"
	numbers
	t -- shape 2 '' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" port 0x1ffff ++ "a port that is none"
	t -- shape 2 '' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" port 4791 ++ "the port of RoCEv2"
	t -- nothing_left "$LAB_A" ++ "none of these left anything behind"
}

old_pins() {
	local pin value
	pin=/sys/fs/bpf/weft/$(stat -Lc %i "/run/netns/$LAB_A")-$LAB_IF_A
	weft_a up "$LAB_IF_A"
	value=$(bpftool -j map dump pinned "$pin/devcfg" | tr -d ' \n' |
		grep -o '"value":\["[^]]*\]' | head -n 1 | grep -o '0x[0-9a-f][0-9a-f]')
	note "devcfg: $value"
	# shellcheck disable=SC2046	# a list of words
	t -- bpftool map update pinned "$pin/devcfg" key 0 0 0 0 \
		value 99 0 0 0 $(tail -n +5 <<<"$value") ++ "the pins are given another ABI"
	t -- shape 1 'another ABI|other ABI' "$WEFT" -n "$LAB_A" dev show "$LAB_IF_A" ++ "pins of another ABI: dev show"
	t -- shape 1 'another ABI|other ABI' "$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" ++ "and stats show"
	t -- "$WEFT" -n "$LAB_A" down "$LAB_IF_A" ++ "weft down removes them"
	t -- nothing_left "$LAB_A" ++ "all of them"
}

# Pins that the interface's predecessor of the same name and index left do not count.
stale_pins() {
	local server
	ip -n "$LAB_A" link add p0 index 77 type veth peer name p1
	weft_a up p0
	ip -n "$LAB_A" link del p0
	ip -n "$LAB_A" link add p0 index 77 type veth peer name p1
	t -- weft_a up p0 csum on ++ "up with another checksum mode than an interface that is gone"
	t -- grep -q '"ipv4":true' <(weft_a -j dev show p0 | tr -d ' \n') ++ "obtains it"
	weft_a down p0
	lab_spawn "$WEFT" -n "$LAB_A" perf server p0 >"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	t -- shape 1 'is up with csum off' "$WEFT" -n "$LAB_A" up p0 csum on ++ "than a user's: refused"
	lab_stop "$server"
	t -- until_true 60 nothing_left "$LAB_A" ++ "and his does not stay"
	ip -n "$LAB_A" link del p0
}

doorbell() {
	local tap
	tap=weft$(ip -n "$LAB_A" -o link show dev "$LAB_IF_A" | cut -d: -f1)t
	# shellcheck disable=SC2016	# for the inner shell
	t -- shape 1 "$LAB_IF_A: cannot open /dev/net/tun: .*modprobe tun" unshare -m bash -c \
		'mount -t tmpfs none /dev/net && exec "$@"' - "$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ "no /dev/net/tun"
	t -- nothing_left "$LAB_A" ++ "which leaves nothing behind"
	ip -n "$LAB_A" tuntap add "$tap" mode tap
	t -- shape 1 "$LAB_IF_A: an interface $tap that is not weft's" "$WEFT" -n "$LAB_A" up "$LAB_IF_A" ++ \
		"somebody's tap of its name is left alone"
	ip -n "$LAB_A" link set "$tap" alias 'weft doorbell'
	t -- weft_a up "$LAB_IF_A" ++ "one that weft left behind is replaced"
	ip -n "$LAB_A" link del "$tap"
	t -- shape 1 "$LAB_IF_A: cannot use the doorbell $tap" "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 ++ \
		"the doorbell was removed"
	t -- weft_a down "$LAB_IF_A" ++ "weft down removes the rest"
	t -- nothing_left "$LAB_A" ++ "all of it"
}

tables() {
	weft_a up "$LAB_IF_A" port 5000
	t -- shape 1 'port' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" port 5001 ++ "up with another port"
	t -- shape 1 'csum' "$WEFT" -n "$LAB_A" up "$LAB_IF_A" csum on ++ "up with another checksum mode"
	t -- shape 1 'no connected QP' "$WEFT" -n "$LAB_A" qp set "$LAB_IF_A" 0x1 cwnd 5 ++ "qp set of no QP"
	weft_a down "$LAB_IF_A"
	t -- nothing_left "$LAB_A" ++ "none of these left anything behind"
}

# A memory limit, for what cannot be had otherwise without using all memory of the machine.
LIMITED=(bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"')	# CGROUP COMMAND...

memory() {
	local base=/sys/fs/cgroup file=memory.max server
	[ -d $base/memory ] && base=$base/memory file=memory.limit_in_bytes
	[ -d $base/unified ] && [ "$file" = memory.max ] && base=$base/unified
	CGROUP=$base/$LAB_ID
	mkdir "$CGROUP"
	echo 128M >"$CGROUP/$file"
	# an allocation that does not fit fails; threads that need a page meanwhile shall wait, not be killed
	[ ! -e "$CGROUP/memory.oom_control" ] || echo 1 >"$CGROUP/memory.oom_control"
	: >"$LAB_TMP/perf"
	lab_spawn "${LIMITED[@]}" "$CGROUP" "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	t -- shape 1 "$LAB_IF_A: cannot create a pool" "${LIMITED[@]}" "$CGROUP" "$WEFT" -n "$LAB_A" perf write \
		"$LAB_IF_A" 10.9.0.2 --region 512m --count 1 ++ "no memory for a region at the client"
	t -- shape 1 'the server says' "$WEFT" -n "$LAB_A" perf write \
		"$LAB_IF_A" 10.9.0.2 --region 512m --count 1 ++ "no memory for a region at the server"
	t -- "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --region 16m --count 20 ++ \
		"a smaller one works afterwards"
	lab_stop "$server"
	until_true 60 nothing_left "$LAB_A"
	t -- nothing_left "$LAB_A" ++ "nothing is left behind at the client"
	t -- nothing_left "$LAB_B" ++ "nor at the server"
	until_true 60 rmdir "$CGROUP"
}

qps_are() {	# QPs of B, a pattern
	# shellcheck disable=SC2053
	[[ $("$WEFT" -n "$LAB_B" -j qp show "$LAB_IF_B" | grep -o '"qpn"' | wc -l) = $1 ]]
}

# quick MS BEFORE... -- COMMAND...: after BEFORE it works, within MS. What else this machine does
# can only make it slower, so the fastest of three counts, which is left in $QUICK.
quick() {
	local limit=$1 before=() n t0 ms
	shift
	while [ "$1" != -- ]; do
		before+=("$1")
		shift
	done
	shift
	QUICK=
	for ((n = 0; n < 3 && ${QUICK:-limit} >= limit; n++)); do
		"${before[@]}"
		t0=$(now)
		"$@" || return 1
		ms=$(since "$t0")
		((ms >= ${QUICK:-ms + 1})) || QUICK=$ms
	done
	echo "$QUICK ms"
	((QUICK < limit))
}

few() {
	"$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --region 64k --size 1k --count 10 --verify
}

# Clients that are answered and then say nothing: they are waited for all at once.
half_open() {
	local server plain i
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	server=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	weft_a up "$LAB_IF_A"
	t -- quick 20000 true -- few ++ "a client alone"
	plain=$QUICK
	t -- until_true 60 qps_are 0 ++ "leaves no QP"
	eight() {
		for ((i = 0; i < 8; i++)); do
			PORT=7471 stranger 5 "$REQUEST"
		done
		until_true 2 qps_are "[1-8]"
	}
	# one after the other they would be waited for for 3.2 s
	t -- quick $((plain + 1600)) eight -- few ++ \
		"one that comes after 8 half-open ones connects without waiting for each ($plain ms without them)"
	t -- until_true 60 qps_are 0 ++ "and nothing of the half-open ones is left"
	note "$(<"$LAB_TMP/perf")"
	t -- kill -0 "$server" ++ "the server lives"
	weft_a down "$LAB_IF_A"
	lab_stop "$server"
	until_true 60 nothing_left "$LAB_B"
	t -- nothing_left "$LAB_B" ++ "nothing is left behind"
}

peers() {
	: >"$LAB_TMP/perf"
	lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/perf" 2>&1
	local server=$LAB_SPAWNED i
	lab_wait_line "$LAB_TMP/perf" '^ready' "$server"
	t -- shape 1 'Connection refused' "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7999 ++ "no server at that port"
	t -- shape 1 'cannot connect|unreachable|No route' "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.9 ++ "no such host"
	t -- shape 1 '.' "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.77.0.9 ++ "no route"
	ip -n "$LAB_A" link set "$LAB_IF_A" down
	t -- shape 1 "10.9.0.2: .*$LAB_IF_A is down; run 'ip link set $LAB_IF_A up'" "$WEFT" -n "$LAB_A" \
		perf write "$LAB_IF_A" 10.9.0.2 ++ "its own link is down: that, and not the route"
	ip -n "$LAB_A" link set "$LAB_IF_A" up
	t -- shape 1 '.' "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" nosuch.invalid ++ "a name that does not resolve"
	t -- shape 1 'in use' "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" ++ "a second server on the port"
	lab_spawn_in "$LAB_B" iperf3 -s -1 -p 7900 --forceflush >"$LAB_TMP/iperf" 2>&1
	local iperf=$LAB_SPAWNED
	lab_wait_line "$LAB_TMP/iperf" listening "$iperf"
	t -- shape 1 '.' "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7900 ++ "a server that is not weft's"
	lab_stop "$iperf"

	# Silent and garbage clients of the connection port.
	silent() {
		lab_spawn_in "$LAB_A" bash -c 'exec 3<>/dev/tcp/10.9.0.2/7471; exec sleep 30'
		until_true 60 eval '[ -n "$(lab_in "$LAB_B" ss -Htn state established sport = :7471)" ]'
	}
	weft_a up "$LAB_IF_A"	# to load programs takes longer on a busy machine than all the rest
	t -- quick 20000 true -- few ++ "a client alone"
	t -- quick $((QUICK + 1500)) silent -- few ++ \
		"a silent one does not block others for the 2 s that it has to speak"
	RANDOM=$SEED
	for ((i = 0; i < 20; i++)); do
		lab_in "$LAB_A" timeout 5 bash -c 'exec 3<>/dev/tcp/10.9.0.2/7471
			head -c '"$((RANDOM % 600))"' /dev/urandom >&3; sleep 0.05' 2>/dev/null
	done
	for ((i = 0; i < 40; i++)); do	# more than the listener holds
		lab_spawn_in "$LAB_A" bash -c 'exec 3<>/dev/tcp/10.9.0.2/7471; exec sleep 5'
	done
	t -- "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2 --count 10 --verify ++ "nor do 20 that send garbage and 40 silent ones"
	t -- kill -0 "$server" ++ "the server lives"
	weft_a down "$LAB_IF_A"
	lab_stop "$server"
	until_true 60 nothing_left "$LAB_A"
	t -- nothing_left "$LAB_A" ++ "nothing is left behind at the client"
	t -- nothing_left "$LAB_B" ++ "nor at the server"
}

lab_begin
lab_pair 3498
for part in interfaces mtu rights usage partly old_pins stale_pins doorbell tables memory half_open peers; do
	tap_part $part && $part
done
tap_end
