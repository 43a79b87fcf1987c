# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154	# guest.sh has the port and reads the JSON
# Sourced by guest.sh: weft beside xdp-filter under libxdp's dispatcher, which needs such a kernel.

on_a() { lab_in "$LAB_A" "$@"; }

# The dispatcher's table of host A; it numbers programs in the second column from the right.
status_a() { on_a xdp-loader status "$LAB_IF_A"; }

# Leave in $value the id of weft's program there, or nothing.
weft_id() {
	value=$(status_a | sed -n 's/.* weft_nic  *\([0-9]*\) .*/\1/p')
}

runs() { status_a > /tmp/status; cat /tmp/status; grep -q "=> .* $1 " /tmp/status; }
runs_not() { ! runs "$1"; }
runs_nothing() { status_a > /tmp/status; cat /tmp/status; grep -q 'No XDP program' /tmp/status; }

same_id() {
	local was=$1
	weft_id
	echo "weft_nic was $was, is ${value:-gone}"
	[ -n "$was" ] && [ "$value" = "$was" ]
}

other_id() {
	local was=$1
	weft_id
	echo "weft_nic was $was, is ${value:-gone}"
	[ -n "$value" ] && [ "$value" != "$was" ]
}

dropped_by_filter() {
	on_a xdp-filter status > /tmp/filter
	cat /tmp/filter
	awk '$1 == "XDP_DROP" { n = $2 } END { exit !(n > 0) }' /tmp/filter
}

attach_is() {
	build/weft -j -n "$LAB_A" dev show "$LAB_IF_A" > /tmp/dev.json
	cat /tmp/dev.json
	grep -q "\"attach\":\"$1\"" /tmp/dev.json
}

# Both programs work on the same traffic: one drops what it was told to, the other places.
both_work() {
	check "$1: xdp-filter takes a rule" on_a xdp-filter port 9 -p udp -m dst
	lab_in "$LAB_B" bash -c 'for i in 1 2 3; do echo > /dev/udp/10.9.0.1/9; done'
	check "$1: xdp-filter drops what it should" dropped_by_filter
	check "$1: other traffic passes" on_a ping -q -c 2 -i 0.2 -W 20 10.9.0.2
	write_exact "$1" 10.9.0.2
}

# A writer runs meanwhile; it verifies in the end.
replaced_under_traffic() {
	local status
	lab_spawn build/weft -n "$LAB_B" perf server -p "$port" "$LAB_IF_B" > /tmp/server.out 2>&1
	local server=$LAB_SPAWNED
	wait_for 60 listening
	timeout 200 build/weft -n "$LAB_A" perf write "$LAB_IF_A" "10.9.0.2:$port" --size 64k \
		--time 6 --region 4m --verify -j > /tmp/perf.json 2> /tmp/perf.err &
	local writer=$!
	sleep 2
	build/weft -n "$LAB_A" up --replace "$LAB_IF_A" || return 1
	wait "$writer"
	status=$?
	lab_stop "$server"
	json=$(< /tmp/perf.json)
	cat /tmp/perf.json /tmp/perf.err
	[ "$status" -eq 0 ] && is verified true && is errors 0
}

# xdp-loader brings weft, xdp-filter comes to it, weft adopts what it finds.
loaded_first() {
	local id
	check "dispatcher: xdp-loader loads weft.bpf.o" \
		on_a xdp-loader load -m native "$LAB_IF_A" build/weft.bpf.o
	weft_id
	id=$value
	check "dispatcher: xdp-filter joins it" on_a xdp-filter load -m native "$LAB_IF_A"
	check "dispatcher: weft up adopts the program" weft_on A up "$LAB_IF_A"
	check "dispatcher: it is the same program" same_id "$id"
	check "dispatcher: dev show says so" attach_is dispatcher
	both_work "beside xdp-filter"
	check "dispatcher: weft up --replace under traffic loses nothing" replaced_under_traffic
	check "dispatcher: its program is another one then" other_id "$id"
	check "dispatcher: xdp-filter is still there" runs xdpfilt_alw_all
	check "dispatcher: xdp-filter goes first" on_a xdp-filter unload "$LAB_IF_A"
	check "dispatcher: weft down" weft_on A down "$LAB_IF_A"
	check "dispatcher: what xdp-loader loaded stays" runs weft_nic
	check "dispatcher: xdp-loader unloads it" on_a xdp-loader unload "$LAB_IF_A" --all
	check "dispatcher: nothing is left on the interface" runs_nothing
}

# xdp-filter is there, weft joins by itself, and leaves by itself.
joined_later() {
	check "joining: xdp-filter is loaded" on_a xdp-filter load -m native "$LAB_IF_A"
	check "joining: weft up beside it" weft_on A up "$LAB_IF_A"
	check "joining: both run" runs weft_nic
	check "joining: xdp-filter too" runs xdpfilt_alw_all
	both_work "joined xdp-filter"
	check "joining: weft down" weft_on A down "$LAB_IF_A"
	check "joining: weft's program is gone" runs_not weft_nic
	check "joining: xdp-filter stays" runs xdpfilt_alw_all
	# a process that is killed: the reaper leaves the dispatcher for it
	lab_spawn build/weft -n "$LAB_A" perf server -p "$port" "$LAB_IF_A" > /tmp/server.out 2>&1
	check "joining: a process joins" wait_for 60 runs weft_nic
	check "joining: xdp-filter goes first" on_a xdp-filter unload "$LAB_IF_A"
	kill -KILL "$LAB_SPAWNED"
	check "joining: it is killed, and nothing is left on the interface" wait_for 60 runs_nothing
	lab_stop "$LAB_SPAWNED"
}

check_dispatcher() {
	lab_pair 3498
	check "dispatcher: weft up on host B" weft_on B up "$LAB_IF_B"
	loaded_first
	joined_later
	check "dispatcher: weft down on host B" weft_on B down "$LAB_IF_B"
	check "dispatcher: no pins of libxdp are left" rmdir /sys/fs/bpf/xdp
	lab_down
}
