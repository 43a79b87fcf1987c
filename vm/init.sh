#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# First process of the guest: mount, run the guest script, hand its exit status to the emulator.
export PATH=/usr/bin:/usr/sbin HOME=/root LD_LIBRARY_PATH=/weft/build

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/netns /var
ln -s /run /var/run
ln -s /proc/self/fd /dev/fd
hostname guest
ip link set lo up
for module in veth tun; do
	modprobe $module || echo "weft: $module: the module does not load" > /dev/ttyS1
done

script=vm/guest.sh args=
read -r cmdline < /proc/cmdline
for word in $cmdline; do
	case $word in weft.script=*) script=${word#*=} ;; weft.args=*) args=${word#*=} ;; esac
done

# The last close of the port returns when the last byte is out.
stty -F /dev/ttyS1 115200 raw -echo
# shellcheck disable=SC2086 # words, joined by colons on the command line
cd /weft && IFS=: && setsid bash "$script" $args < /dev/null > /dev/ttyS1 2>&1
status=$?

# QEMU's isa-debug-exit device: writing V ends QEMU with status 2 V + 1. V is our status plus 16,
# to tell it from QEMU's own failures, which are 1.
[ $status -le 100 ] || status=100
# shellcheck disable=SC2059 # the format is the byte
printf "\\$(printf %03o $((status + 16)))" | dd of=/dev/port bs=1 seek=244 2>/dev/null
poweroff -f
