#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What the guest tests: its kernel loads every BPF object and runs WRITE byte-exact, also with loss.
#
# Runs in /weft as the guest's only job, started by init.sh; run.sh shows what it prints.
set -u

kernel=6.1 port=4800 size=256k count=64 bytes=$((256 * 1024 * 64)) loss_ppm=10000

# shellcheck source=vm/guest-lib.sh
. vm/guest-lib.sh
# shellcheck source=tests/net/lab.sh
. tests/net/lab.sh
# shellcheck source=vm/loaders.sh
. vm/loaders.sh

# --- objects -----------------------------------------------------------------------------------

load_object() {
	build/vm/progload "$1" > /tmp/programs && [ -s /tmp/programs ]
}

# run.sh collects the lines "# verifier: OBJECT PROGRAM INSTRUCTIONS VERIFIED".
check_objects() {
	local object
	for object in build/*.bpf.o; do
		! check "${object#build/} loads on $(uname -r)" load_object "$object" ||
			sed 's/^/# verifier: /' /tmp/programs
	done
}

# --- WRITE -------------------------------------------------------------------------------------

# weft_on HOST VERB...: the tool on host A or B.
weft_on() {
	local ns=LAB_$1
	build/weft -n "${!ns}" "${@:2}"
}

up_both() {
	check "$1: weft up on host A" weft_on A up "$LAB_IF_A"
	check "$1: weft up on host B" weft_on B up "$LAB_IF_B"
}

down_both() {
	check "$1: weft down on host A" weft_on A down "$LAB_IF_A"
	check "$1: weft down on host B" weft_on B down "$LAB_IF_B"
}

# Generic XDP shows as "xdpgeneric".
is_native() {
	lab_in "$1" ip link show dev "$2" > /tmp/link
	cat /tmp/link
	grep -q 'prog/xdp ' /tmp/link && ! grep -q xdpgeneric /tmp/link
}

listening() { lab_in "$LAB_B" ss -Hltn "sport = :$port" | grep -q .; }

# write_exact NAME HOST: perf from A to B, which compares every byte.
write_exact() {
	local name=$1 server status
	lab_spawn build/weft -n "$LAB_B" perf server -p "$port" "$LAB_IF_B" \
		> /tmp/server.out 2>&1
	server=$LAB_SPAWNED
	check "$name: the server listens" wait_for 60 listening ||
		sed 's/^/# server: /' /tmp/server.out
	timeout 200 build/weft -n "$LAB_A" perf write "$LAB_IF_A" "$2:$port" --size "$size" \
		--count "$count" --verify -j > /tmp/perf.json 2> /tmp/perf.err
	status=$?
	json=$(< /tmp/perf.json)
	check "$name: perf write exits 0, got $status" [ "$status" -eq 0 ]
	check "$name: $bytes bytes arrived exactly" is_exact && note_speed "$name"
	lab_stop "$server"
}

# The same with weft capture at work, whose helper the kernel must have as well.
captured() {
	local name=$1 capture
	shift
	lab_spawn_in "$LAB_A" build/weft capture -w /tmp/capture.pcapng "$LAB_IF_A" 2> /tmp/capture.err
	capture=$LAB_SPAWNED
	check "$name: weft capture begins" wait_for 60 grep -q '^capturing' /tmp/capture.err
	"$@"
	lab_stop "$capture"
	check "$name: weft capture sees both directions" captured_both
}

captured_both() {
	cat /tmp/capture.err
	grep -Eq '^[0-9]+ packets captured: [1-9][0-9]+ in, [1-9][0-9]+ out' /tmp/capture.err
}

check_direct() {
	lab_pair 3498
	up_both "veth"
	check "veth: native XDP on host A" is_native "$LAB_A" "$LAB_IF_A"
	check "veth: native XDP on host B" is_native "$LAB_B" "$LAB_IF_B"
	check "veth: other traffic still passes" \
		lab_in "$LAB_A" ping -q -c 3 -i 0.2 -W 20 10.9.0.2
	captured "veth" write_exact "veth" 10.9.0.2
	write_exact "veth, IPv6" "[fd09::2]"
	down_both "veth"
	lab_down
}

lost_data() {
	local stats
	# shellcheck disable=SC2119 # no arguments of its own
	stats=$(lab_stats)
	echo "$stats"
	[ "$(lab_field "$stats" lost_data 1)" -gt 0 ]
}

retransmitted() {
	member retransmits
	echo "retransmits is ${value:-missing}"
	[ "${value:-0}" -gt 0 ]
}

check_lossy() {
	local name="1% loss, MTU $1"
	lab_middle "$1" --loss "$loss_ppm"
	up_both "$name"
	write_exact "$name" 10.9.0.2
	check "$name: the middle host lost data" lost_data
	check "$name: the sender retransmitted" retransmitted
	down_both "$name"
	lab_down
}

# --- everything --------------------------------------------------------------------------------

echo "# note: booted in $(uptime_is) s"
check "the kernel is $kernel" grep "^$kernel\." /proc/sys/kernel/osrelease
check "the BPF file system mounts" mount -t bpf bpf /sys/fs/bpf
if ! check "weft, wirelab and weft.bpf.o are built" \
	ls build/weft build/wirelab build/weft.bpf.o; then
	echo "# weft: build: incomplete; run 'make tests' first"
	exit 1
fi
check_objects
lab_begin
check_direct
check_lossy 3498
check_dispatcher
check "no namespace, veth, tap, XDP program or pin is left" lab_end
echo "# note: done at $(uptime_is) s"
[ "$failed" -eq 0 ]
