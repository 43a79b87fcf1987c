#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What two guests test with each other: weft on the native XDP of emulated NICs, over a lossy wire.
#
# Both run this in /weft, started by init.sh; pair.sh started them and is the wire. Guest a does the
# work and reports. Guest b only obeys a shell that it offers on a third network, "ctl".
set -u

# shellcheck source=vm/guest-lib.sh
. vm/guest-lib.sh

host=$1 vmxnet3=$2
[ "$host" = a ] && here=1 there=2 || here=2 there=1
ctl=10.8.0.$there shell_port=7000 port=4800
count=64 size=64k bytes=$((64 * 65536))

# --- both hosts --------------------------------------------------------------------------------

# Call the NIC whose address has this byte by this name; see pair.sh.
name_nic() {
	local dir
	for dir in /sys/class/net/*; do
		[ "$(< "$dir/address")" = "52:54:00:00:$1:0$host" ] || continue
		ip link set "${dir##*/}" name "$2"
		return
	done
	return 1
}

# NIC NET MTU: addresses of this host. No duplicate address detection: it takes a second.
configure() {
	ip link set "$1" down
	ip link set "$1" mtu "$3" && ip link set "$1" up || return
	# frames that XDP forwards on the wire carry no note that a checksum is still to be made
	ethtool -K "$1" tx off
	ip addr replace "10.$2.$here/24" dev "$1"
	ip addr replace "fd09:${2/./:}::$here/64" dev "$1" nodad
}

serve() {
	build/weft perf server -p "$port" "$1" > /tmp/server.out 2>&1 < /dev/null &
	echo $! > /tmp/server.pid
	wait_for 60 grep -q ready: /tmp/server.out
}

serve_end() {
	kill "$(cat /tmp/server.pid)" && wait_for 60 gone "$(cat /tmp/server.pid)"
}
gone() { ! kill -0 "$1"; }

# NIC DRIVER STATE: native XDP in that driver, whose transmit queues are so. Prints all that weft knows.
is_native() {
	json=$(build/weft dev show "$1" -j) || return
	echo "$json"
	[[ $json =~ \"mode\":\ *\"native\" ]] && [[ $json =~ \"driver\":\ *\"$2\" ]] &&
		[[ $json =~ \"transmit\":\ *\{\ *\"state\":\ *\"$3\" ]]
}

# No frame was lost in its own host: none that could not become its reply, none that could not be
# filled.
whole() {
	json=$(build/weft stats show "$1" all -j)
	echo "$json"
	is reply 0 && is fill 0
}

# weft up NIC says TEXT.
up_says() {
	build/weft up "$1" > /tmp/up.out 2>&1
	cat /tmp/up.out
	grep -q -- "$2" /tmp/up.out
}
refused() { up_says "$1" "$2" && ! build/weft dev show "$1"; }

# --- guest a -----------------------------------------------------------------------------------

# far COMMAND...: on guest b, with the functions above.
far() {
	printf '%s\n' "$*" 'echo "status $?"' | nc -w 300 "$ctl" "$shell_port" > /tmp/far
	sed '$d' /tmp/far
	[ "$(tail -n 1 /tmp/far)" = "status 0" ]
}

# each_host NAME COMMAND...: a test on each, at the same time.
each_host() {
	far "${@:2}" > /tmp/far.out 2>&1 &
	check "$1 on guest a" "${@:2}"
	check "$1 on guest b" far_ended $!
}
far_ended() {
	local status
	wait "$1"
	status=$?
	cat /tmp/far.out
	return $status
}

# transfer NAME NIC HOST OPTIONS...: every byte arrives, in spite of losses.
transfer() {
	local name=$1 status
	timeout 200 build/weft perf write "$2" "$3:$port" --size "$size" --count "$count" \
		--region 4m --verify -j "${@:4}" > /tmp/perf.json 2> /tmp/perf.err
	status=$?
	json=$(< /tmp/perf.json)
	check "$name: perf write exits 0, got $status" [ "$status" -eq 0 ]
	check "$name: $bytes bytes arrived exactly" is_exact && note_speed "$name"
}

# begin NAME NIC DRIVER NET MTU STATE
begin() {
	each_host "$1: addresses" configure "$2" "$4" "$5"
	each_host "$1: weft up" build/weft up "$2"
	each_host "$1: native XDP, transmit queues $6" is_native "$2" "$3" "$6"
	check "$1: guest b serves" far serve "$2"
}

end() {
	each_host "$1: no frame lost inside" whole "$2"
	check "$1: guest b stops serving" far serve_end
	each_host "$1: weft down" build/weft down "$2"
}

# check_nic DRIVER NIC NET MTU
check_nic() {
	local name="$1, MTU $4" nic=$2
	begin "$name" "$nic" "$1" "$3" "$4" own
	check "$name: other traffic still passes" wait_for 60 ping -q -c 1 -W 1 "10.$3.2"
	transfer "$name" "$nic" "10.$3.2"
	transfer "$name, 4 QPs" "$nic" "10.$3.2" --qps 4
	[ "$4" -eq 1500 ] || transfer "$name, IPv6" "$nic" "[fd09:${3/./:}::2]"
	end "$name" "$nic"
}

# More channels than CPUs, and no queue left for XDP: virtio_net would crash this kernel.
check_too_many_queues() {
	check "virtio_net, four channels" ethtool -L vir combined 4
	check "virtio_net, four channels: refused, or the kernel would crash" \
		refused vir "ethtool -L vir combined 2"
	check "virtio_net, two channels" ethtool -L vir combined 2
}

# Guest a's NIC receives into buffers of 2 KiB: no ACK can grow into a large packet.
check_small_frames() {
	local name="virtio_net, small frames"
	check "$name: address" configure sml 9.1 3498
	check "$name: weft up tells that there is one queue" up_says sml "NIC 3 queues"
	begin "$name" sml virtio_net 9.1 3498 shared
	transfer "$name" sml 10.9.1.2
	check "$name: frames were replaced" replaced sml
	end "$name" sml
}

replaced() {
	json=$(build/weft dev show "$1" -j)
	echo "$json"
	member too_small
	[ "${value:-0}" -gt 0 ] && [[ $json =~ \"growth\":\ *\{\ *\"state\":\ *\"partial\" ]]
}

# Linux 6.6 or later?
vmxnet3_has_xdp() {
	local major minor
	IFS=. read -r major minor _ < /proc/sys/kernel/osrelease
	[ "$major" -gt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -ge 6 ]; }
}

# Native since Linux 6.6, and only for frames in one of its buffers.
check_vmxnet3() {
	if ! vmxnet3_has_xdp; then
		check "vmxnet3: weft up tells that there is no native XDP" \
			refused vmx "the driver vmxnet3 has no native XDP"
		return
	fi
	check "vmxnet3: addresses" configure vmx 9.2 3498
	check "vmxnet3: weft up tells the MTU that will do" refused vmx "mtu 3050"
	# its page pool may crash the guest when XDP goes after traffic
	[ "$vmxnet3" = no ] || check_nic vmxnet3 vmx 9.2 3050
}

# --- everything --------------------------------------------------------------------------------

mount -t bpf bpf /sys/fs/bpf
modprobe e1000 && name_nic 08 ctl
ip addr add "10.8.0.$here/24" dev ctl
ip link set ctl up
modprobe virtio_pci # built into some kernels
modprobe virtio_net && name_nic 09 vir && name_nic 0a sml
modprobe vmxnet3 && name_nic 0b vmx

if [ "$host" = b ]; then
	declare -f > /tmp/functions
	cat > /tmp/shell <<-END
		#!/bin/bash
		here=$here port=$port tests=0 failed=0 json='' value=''
		. /tmp/functions
		eval "\$(cat)" 2>&1
	END
	chmod +x /tmp/shell
	nc -ll -p "$shell_port" -e /tmp/shell &
	until [ -e /tmp/end ]; do sleep 0.2; done
	exit 0
fi

echo "# note: guest a booted in $(uptime_is) s"
check "guest b answers" wait_for 60 far true
check_nic virtio_net vir 9.0 1500
check_nic virtio_net vir 9.0 3498
check_too_many_queues
check_small_frames
check_vmxnet3
name_nic 0c ref
check "weft up tells that e1000 has no native XDP" refused ctl "the driver e1000 has no native XDP"
check "weft up tells what the host must leave off" refused ref "ctrl_guest_offloads=on"
far touch /tmp/end
echo "# note: done at $(uptime_is) s"
[ "$failed" -eq 0 ]
