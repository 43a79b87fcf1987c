#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Boot two guests whose NICs are joined by a lossy wire, and print what guest-pair.sh finds as TAP.
#
# usage: pair.sh [--kernel VERSION] [--timeout SECONDS] [--vmxnet3 yes]
#
#   --kernel VERSION   Debian kernel to boot, default 6.1
#   --timeout SECONDS  limit for boot and run together, default 800
#   --vmxnet3 yes      transfers over vmxnet3 as well, which may crash the guest, default no
#
# O=DIR is the build directory (build), SEED=N seeds the losses. Exit status as run.sh; needs root.
# Kernel logs stay in build/vm/pair-VERSION-a.log and pair-VERSION-b.log.
#
#     guest a: virtio_net -- tap a -- wirelab (XDP, 1% loss) -- tap b -- virtio_net guest b
#
# The taps are in a namespace of their own, in which QEMU runs. Other NICs are joined by sockets.
set -u

usage() { sed -n '5,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath -m "${O:-$top/build}")
export O=$build LAB_BUILD=$build
# shellcheck source=vm/lib.sh
. "$top/vm/lib.sh"
# shellcheck source=tests/net/lab.sh
. "$top/tests/net/lab.sh"
version=6.1 limit=800 vmxnet3=no seed=${SEED:-1} loss_ppm=10000

while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || usage
	case $1 in
	--kernel) version=$2 ;;
	--timeout) limit=$2 ;;
	--vmxnet3) vmxnet3=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || usage

vm_begin "$version"
lab_begin
# the guests first: they keep the namespace, and with it the taps
a_pid='' b_pid=''
# shellcheck disable=SC2317 # called by the trap
finish() {
	local rc=$?
	for vm_pid in $a_pid $b_pid; do vm_stop; done
	(exit "$rc")
	lab_cleanup
}
trap finish EXIT
"$top/vm/mkinitrd.sh" "$vm_kernel" "$LAB_TMP/initrd" || exit 1

# --- the wire ----------------------------------------------------------------------------------

# As many queues as virtio_net wants: two for the two CPUs, two more for what XDP sends.
LAB_M=$LAB_ID-m
lab_netns "$LAB_M"
lab_in "$LAB_M" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
for port in port-a port-b port-r; do
	[ $port = port-r ] && queues=() || queues=(multi_queue)
	lab_in "$LAB_M" ip tuntap add dev $port mode tap "${queues[@]}" ||
		die "cannot make a tap" "run 'modprobe tun'"
	ip -n "$LAB_M" link set $port mtu 3498 up
done
lab_wire --loss "$loss_ppm" --seed "$seed"

# --- the guests --------------------------------------------------------------------------------

# The last but one byte of an address tells the guest which NIC it is:
#   08 ctl  how guest a commands guest b: e1000, which has no native XDP
#   09 vir  virtio_net with several queues on the lossy wire; it turns off itself what the host offers
#   0a sml  virtio_net with one queue, whose frames have no room for a large payload in guest a
#   0b vmx  vmxnet3
#   0c ref  virtio_net for which the host merges packets and cannot be told to stop; guest a only
socket_nic() {
	vm_qemu+=(-netdev "stream,id=$1,server=$server,addr.type=unix,addr.path=$LAB_TMP/$1"
		-device "$2,netdev=$1")
}

guest() {
	local end=$1 server=$2 nic
	vm_command "pair-$version-$end.log" 2 1024 "$LAB_TMP/initrd" "weft.script=vm/guest-pair.sh" \
		"weft.args=$end:$vmxnet3"
	vm_qemu=(nsenter "--net=/run/netns/$LAB_M" -- "${vm_qemu[@]}")
	socket_nic ctl "e1000,mac=52:54:00:00:08:0$end"
	socket_nic vmx "vmxnet3,mac=52:54:00:00:0b:0$end"
	[ "$end" = b ] && nic= || nic=,mrg_rxbuf=off
	socket_nic sml "virtio-net-pci,mac=52:54:00:00:0a:0$end$nic"
	vm_qemu+=(-netdev "tap,id=vir,ifname=port-$end,script=no,downscript=no,queues=4,vhost=off"
		-device "virtio-net-pci,netdev=vir,mac=52:54:00:00:09:0$end,mq=on,vectors=10")
	[ "$end" = b ] ||
		vm_qemu+=(-netdev "tap,id=ref,ifname=port-r,script=no,downscript=no,vhost=off"
			-device "virtio-net-pci,netdev=ref,mac=52:54:00:00:0c:0a,ctrl_guest_offloads=off")
}

both() {
	rm -f "$LAB_TMP/ctl" "$LAB_TMP/vmx" "$LAB_TMP/sml"
	guest a on
	vm_start "$limit"
	a_pid=$vm_pid a_console=$vm_console a_results=$vm_results
	for ((i = 0; i < 600; i++)); do [ ! -S "$LAB_TMP/sml" ] || break; sleep 0.1; done
	guest b off
	vm_start "$limit"
	b_pid=$vm_pid b_console=$vm_console
	vm_booted "$a_pid" "$a_console" && vm_booted "$b_pid" "$b_console"
}

# An emulator that runs CPUs in threads may let one meet the breakpoint by which another is changing
# the kernel's text (a static key), when that is over already: the kernel finds nobody who set it.
breakpoint() {
	grep -q 'Oops: int3' "$a_console" "$b_console"
}

again() {
	kill "$a_pid" "$b_pid" 2> /dev/null
	wait "$a_pid" "$b_pid"
}

for try in 1 2 3; do
	if ! both && vm_crashed "a guest" "$try"; then
		again
		continue
	fi
	vm_results=$a_results
	vm_relay > "$LAB_TMP/tap"
	if [ "$try" -eq 3 ] || ! breakpoint; then
		break
	fi
	echo "# note: a guest met a breakpoint of its own kernel; once more"
	again
	count=0 bad=0
done
cat "$LAB_TMP/tap"
# the other would wait for it until its time is up
! grep -q 'Kernel panic' "$a_console" || kill "$b_pid" 2> /dev/null

vm_pid=$a_pid vm_console=$a_console
vm_finish "guest a"
vm_pid=$b_pid vm_console=$b_console
vm_finish "guest b"
a_pid='' b_pid=''
stats=$(lab_stats)
report "$(($(lab_field "$stats" lost_data 1) == 0))" "the wire lost data ($(
	lab_field "$stats" lost_data 1) of $(lab_field "$stats" data 1) packets)"
lab_end > "$LAB_TMP/left" 2>&1
report $? "no namespace, tap, XDP program or pin is left"
sed 's/^/# /' "$LAB_TMP/left"
vm_end "vm/pair.sh --kernel $version" "$a_console" "$b_console"
