# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Booting guests and judging them: shared by the scripts that run on the host. Sourced.
#
#   vm_begin VERSION     finds QEMU, builds progload, fetches the kernel; sets $vm_kernel
#   vm_command NAME CPUS MIB INITRD [APPEND...]   the QEMU command line into $vm_qemu
#   vm_start LIMIT       starts it; its results are read from the descriptor $vm_results
#   vm_boot NAME LIMIT   the same, once more if its kernel crashes before /init
#   vm_relay             prints them, counts them
#   vm_finish NAME       waits for the end, reports it and what the kernel's log says
#   report STATUS TEXT   one line of TAP

# shellcheck disable=SC2154 # the caller's: $top, the tree, and $O, the build
vm=$O/vm count=0 bad=0 vm_pid=''

die() { echo "weft: vm: $1; $2" >&2; exit 1; }

report() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		bad=$((bad + 1))
	fi
}

# shellcheck disable=SC2154
vm_begin() {
	vm_binary=$(command -v qemu-system-x86_64) ||
		die "qemu-system-x86_64 is missing" "apt-get install qemu-system-x86"
	mkdir -p "$vm"
	if [ ! "$vm/progload" -nt "$top/vm/progload.c" ]; then
		# another script may be at it as well
		${CC:-cc} -O2 -Wall -o "$vm/progload.$$" "$top/vm/progload.c" -lbpf &&
			mv "$vm/progload.$$" "$vm/progload" ||
			die "vm/progload.c does not compile" "apt-get install gcc libbpf-dev"
	fi
	vm_kernel=$("$top/vm/fetch-kernel.sh" "$1") || exit 1
}

# Two serial ports: the kernel's console goes to a file, the second carries the results to us.
# A crash panics, a panic reboots, and a reboot ends QEMU.
vm_command() {
	vm_console=$vm/$1
	: > "$vm_console"
	vm_qemu=("$vm_binary" -accel "tcg,thread=multi" -cpu max -smp "$2" -m "$3" -M q35
		-nodefaults -display none -no-reboot -no-user-config
		-device "isa-debug-exit,iobase=0xf4,iosize=1"
		-serial "file:$vm_console"
		-chardev "stdio,id=results,signal=off" -serial chardev:results
		-kernel "$vm_kernel/vmlinux" -initrd "$4"
		-append "console=ttyS0 loglevel=7 oops=panic panic=-1 watchdog_thresh=30 ${*:5}")
}

# QEMU gets an end of its own (timeout) and the end of the caller (--pdeathsig), so that it cannot
# outlive either.
vm_start() {
	vm_limit=$1
	vm_since=$EPOCHREALTIME
	exec {vm_results}< <(exec setpriv --pdeathsig TERM timeout -k 5 "$1" "${vm_qemu[@]}" \
		< /dev/null)
	vm_pid=$!
}

# vm_booted PID CONSOLE: its kernel came as far as /init. An emulated one crashes now and then while it
# patches its own code, before anything of ours has run.
vm_booted() {
	until grep -q 'Run /init as init' "$2"; do
		kill -0 "$1" 2> /dev/null || return 1
		sleep 0.2
	done
}

# vm_crashed NAME TRY: it did not; is there another try?
vm_crashed() {
	[ "$2" -lt 3 ] || return
	echo "# note: $1: its kernel crashed before /init; once more"
}

# vm_boot NAME SECONDS: the guest of vm_command, as often as its kernel needs.
vm_boot() {
	local try
	for try in 1 2 3; do
		: > "$vm_console"
		vm_start "$2"
		vm_booted "$vm_pid" "$vm_console" && return
		vm_crashed "$1" "$try" || return 0
	done
}

vm_relay() {
	local line
	while IFS= read -r line <&"$vm_results"; do
		case $line in
		"ok "*) count=$((count + 1)) ;;
		"not ok "*) count=$((count + 1)) bad=$((bad + 1)) ;;
		"# verifier: "*) echo "${line#\# verifier: }" >> "$vm/verifier.txt" ;;
		esac
		printf '%s\n' "$line"
	done
}

# init.sh ends QEMU with 2 (S + 16) + 1 where S is the guest script's status.
vm_verdict() {
	local name=$1 status=$2 guest_status=$((($2 >> 1) - 16))
	if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
		report 1 "$name finishes within $vm_limit s"
	elif [ $((status & 1)) -eq 1 ] && [ "$guest_status" -ge 0 ]; then
		report "$guest_status" "$name finishes with status $guest_status"
	else
		report 1 "$name finishes (QEMU ended with status $status)"
	fi
}

vm_clean_log() {
	grep -q 'Linux version' "$2" && ! grep -Eq 'BUG:|WARNING:|Oops|Kernel panic|Call Trace:' "$2"
	report $? "the kernel log of $1 has no BUG, WARNING or Oops"
}

vm_finish() {
	wait "$vm_pid"
	vm_verdict "$1" $?
	vm_pid=
	echo "# note: $1: $(((${EPOCHREALTIME/./} - ${vm_since/./}) / 1000000)) s"
	vm_clean_log "$1" "$vm_console"
}

vm_stop() {
	[ -z "$vm_pid" ] || { kill "$vm_pid" && wait "$vm_pid"; } 2>/dev/null
	return 0
}

# vm_end COMMAND CONSOLE...: the plan; after a failure the logs' ends and how to run it again.
vm_end() {
	local log
	echo "1..$count"
	[ "$bad" -ne 0 ] || exit 0
	for log in "${@:2}"; do
		echo "# the last lines of $log:"
		tail -n 40 "$log" | tr -d '\r' | sed 's/^/# /'
	done
	echo "# replay: O=$O $1"
	exit 1
}
