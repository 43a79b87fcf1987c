#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Which Debian packages each job needs and how to see that one is there (sourced).

# shellcheck disable=SC2034 # read by the scripts that source this file
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# Package -> the thing it must provide: a command, or a header for the compiler.
declare -A PKG_PROVIDES=(
	[gcc]=cmd:gcc
	[make]=cmd:make
	[libc6-dev]=hdr:stdio.h
	[clang]=cmd:clang
	[llvm]=cmd:llvm-strip
	[libclang-rt-14-dev]=fuzzer
	[bpftool]=cmd:bpftool
	[libbpf-dev]=hdr:bpf/libbpf.h
	[libxdp-dev]=hdr:xdp/libxdp.h
	[libmnl-dev]=hdr:libmnl/libmnl.h
	[libjson-c-dev]=hdr:json-c/json.h
	[libmicrohttpd-dev]=hdr:microhttpd.h
	[libncurses-dev]=hdr:curses.h
	[libcmocka-dev]=cmocka
	[iproute2]=cmd:ip
	[procps]=cmd:ps
	[util-linux]=cmd:unshare
	[jq]=cmd:jq
	[ethtool]=cmd:ethtool
	[iperf3]=cmd:iperf3
	[ucx-utils]=cmd:ucx_perftest
	[sockperf]=cmd:sockperf
	[clang-14]=cmd:clang-14
	[clang-16]=cmd:clang-16
	[clang-19]=cmd:clang-19
	[gcc-aarch64-linux-gnu]=cmd:aarch64-linux-gnu-gcc
	[qemu-user-static]=cmd:qemu-aarch64-static
	[mandoc]=cmd:mandoc
	[clang-format]=cmd:clang-format
	[cppcheck]=cmd:cppcheck
	[shellcheck]=cmd:shellcheck
	[lcov]=cmd:lcov
	[qemu-system-x86]=cmd:qemu-system-x86_64
	[busybox-static]=cmd:busybox
	[kmod]=cmd:depmod
	[cpio]=cmd:cpio
	[xz-utils]=cmd:unxz
	[zstd]=cmd:zstd
	[iputils-ping]=cmd:ping
	[xdp-tools]=cmd:xdp-loader
	[tmux]=cmd:tmux
	[curl]=cmd:curl
	[g++]=cmd:g++
	[pkgconf]=cmd:pkg-config
	[dpkg-dev]=cmd:dpkg-buildpackage
	[debhelper]=cmd:dh
	[lintian]=cmd:lintian
	[abigail-tools]=cmd:abidiff
	[bash-completion]=file:/usr/share/bash-completion/bash_completion
	[tshark]=cmd:tshark
	[perftest]=cmd:ib_write_bw
	[ibverbs-providers]=file:/etc/libibverbs.d/rxe.driver
	[tcpdump]=cmd:tcpdump
)

PKGS_build=(gcc libc6-dev clang bpftool libbpf-dev libxdp-dev libmnl-dev libjson-c-dev
	libmicrohttpd-dev libncurses-dev)
PKGS_tests=(libcmocka-dev)
# as tools/deb/control has them
PKGS_deb=("${PKGS_build[@]}" "${PKGS_tests[@]}" llvm procps dpkg-dev debhelper cpio)
PKGS_demo=("${PKGS_build[@]}" llvm iproute2 procps util-linux ethtool iperf3 jq)
PKGS_bench=("${PKGS_demo[@]}" ucx-utils sockperf)
PKGS_guests=(qemu-system-x86 busybox-static kmod cpio xz-utils zstd iputils-ping xdp-tools)
PKGS_bench_vm=("${PKGS_demo[@]}" "${PKGS_guests[@]}" perftest ibverbs-providers)
PKGS_check=("${PKGS_demo[@]}" "${PKGS_tests[@]}"
	clang-16 clang-format cppcheck shellcheck lcov mandoc # sources
	libclang-rt-14-dev                                    # fuzzers
	"${PKGS_guests[@]}"
	tmux curl tshark tcpdump                              # networks
	clang-14 clang-19 gcc-aarch64-linux-gnu qemu-user-static # build matrix
	g++ pkgconf dpkg-dev debhelper lintian abigail-tools bash-completion) # packaging

# Is what package $1 provides there?
pkg_present() {
	local what=${PKG_PROVIDES[$1]} cc=("${CC:-gcc}")

	[ -z "${SYSROOT:-}" ] || cc+=("--sysroot=$SYSROOT")
	case $what in
	cmd:*) command -v "${what#cmd:}" >/dev/null ;;
	file:*) [ -e "${what#file:}" ] ;;
	hdr:*) echo "#include <${what#hdr:}>" | "${cc[@]}" -E - >/dev/null 2>&1 ;;
	fuzzer) # libFuzzer and the sanitizers of the default clang
		echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n ? 0 : 0; }' |
			clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null
		;;
	cmocka)
		printf '#include <%s>\n' stdarg.h stddef.h setjmp.h stdint.h cmocka.h |
			"${cc[@]}" -E - >/dev/null 2>&1
		;;
	esac
}

# Print those of the packages given that are missing, separated by ", ".
pkg_missing() {
	local pkg list=

	for pkg in "$@"; do
		pkg_present "$pkg" || list+="${list:+, }$pkg"
	done
	echo "$list"
}
