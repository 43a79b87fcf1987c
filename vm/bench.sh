#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Measure weft and rdma_rxe (Soft-RoCE) in turns in one guest: a table, and build/bench-vm.json.
#
# usage: bench.sh [--kernel VERSION] [--mtu N] [ROW...]
#
#   --kernel VERSION   Debian kernel to boot, default 6.1
#   --mtu N            of the devices of both, default 3498
#
# O=DIR is the build directory (build). BENCH_ALT and BENCH_SECS shorten a trial run (5 pairs of samples
# of 2 s each); they never lengthen it. The guest's kernel log stays in build/vm/bench.log. Exit status: 0
# measured (also below a bar), 1 a measurement failed, 2 usage, 130 interrupted.
set -u

usage() {
	sed -n '5,8s/^# \{0,1\}//p' "$0" >&2
	echo "rows: $(cut -d'|' -f1 <<< "$VM_ROWS" | xargs)" >&2
	exit 2
}

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
O=$(realpath -m "${O:-build}")
export O
# shellcheck source=vm/lib.sh
. vm/lib.sh
# shellcheck source=tools/bench/measure.sh
. tools/bench/measure.sh
# shellcheck source=tools/bench/report.sh
. tools/bench/report.sh
# shellcheck source=tools/bench/rows.sh
. tools/bench/rows.sh

version=6.1 mtu=3498 only=() alt=5 secs=2
[[ ${BENCH_ALT:-} =~ ^[1-4]$ ]] && alt=$BENCH_ALT
[[ ${BENCH_SECS:-} =~ ^1$ ]] && secs=$BENCH_SECS
while [ $# -gt 0 ]; do
	case $1 in
	--kernel | --mtu) [ $# -ge 2 ] || usage ;;&
	--kernel) version=$2; shift ;;
	--mtu) mtu=$2; shift ;;
	-*) usage ;;
	*) grep -q "^$1|" <<< "$VM_ROWS" || usage; only+=("$1") ;;
	esac
	shift
done
[[ $mtu =~ ^[1-9][0-9]*$ ]] || usage
[ -x "$O/weft" ] || die "$O/weft is not built" "run make"

# What the guest needs beyond mkinitrd.sh's: perftest, and the user space of rdma_rxe.
extra=(tools/bench/rows.sh)
for tool in rdma $(cut -d'|' -f7 <<< "$VM_ROWS" | cut -d' ' -f1 | sort -u); do
	extra+=("$(PATH=$PATH:/usr/sbin:/sbin type -P "$tool")") || die "$tool is missing" "apt-get install perftest iproute2"
done
extra+=(/usr/lib/*/libibverbs/librxe-rdmav*.so)
[ -e "${extra[-1]}" ] || die "libibverbs has no rxe" "apt-get install ibverbs-providers"

vm_begin "$version"
work=$(mktemp -d "$vm/bench.XXXXXX")
# shellcheck disable=SC2317 # called by the trap
finish() {
	vm_stop
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
vm/mkinitrd.sh "$vm_kernel" "$work/initrd" "${extra[@]}" || exit 1

# --- samples -----------------------------------------------------------------------------------

# sample ROW SIDE NUMBER
sample() {
	SAMPLE=$3
	echo "$3" >> "$work/$1.$2"
	printf 'bench-vm: %-20s %d/%d  %-4s %s\n' "$1" "$(wc -l < "$work/$1.$2")" "$alt" "$2" "$3" >&2
}

# weft_sample ROW JSON: a wrong byte or an error completion is no sample.
weft_sample() {
	local field=.goodput_gbps

	grep -q "^$1|us|" <<< "$VM_ROWS" && field=.lat_us.p50
	echo "$2" > "$work/perf"
	if jq -e '.verified == true and .errors == 0' "$work/perf" > /dev/null 2>&1 && json_number $field "$work/perf"; then
		sample "$1" weft "$SAMPLE"
	else
		complain "$1: weft perf: not verified: $2"
	fi
}

vm_command bench.log 2 2048 "$work/initrd" "weft.script=vm/guest-bench.sh" \
	"weft.args=$(IFS=: && echo "$alt:$secs:$mtu${only[*]+:${only[*]}}")"
vm_boot "the guest" 600 >&2
while IFS=' ' read -r -u "$vm_results" hash kind name side rest; do
	case "$hash $kind" in
	"# sample") if [ "$side" = weft ]; then weft_sample "$name" "$rest"; else sample "$name" "$side" "$rest"; fi ;;
	"# fact") echo "$name $side $rest" >> "$work/facts" ;;
	*) echo "$hash $kind $name $side $rest" >&2 ;;
	esac
done
vm_finish "the guest" > "$work/end"
grep '^not ok' "$work/end" >&2

# --- what they are -----------------------------------------------------------------------------

# shellcheck disable=SC2034 # for result
while IFS='|' read -r name unit better peer bar how peer_how; do
	[ -n "$name" ] || continue
	[ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $name "* ]] || continue
	values=() peers=() paired=true
	[ ! -e "$work/$name.weft" ] || mapfile -t values < "$work/$name.weft"
	[ ! -e "$work/$name.peer" ] || mapfile -t peers < "$work/$name.peer"
	if [ ${#values[@]} -ne "$alt" ] || [ ${#peers[@]} -ne "$alt" ]; then
		complain "$name: not measured; see the message above and $vm_console"
		bad=$((bad + 1)) values=() peers=()
	fi
	result >> "$work/results"
done <<< "$VM_ROWS"

fact() { sed -n "s/^$1 \([^ ]*\) *$/\1/p" "$work/facts"; }
jq -s --arg kernel "$(fact kernel)" --arg cpu "QEMU TCG, 2 CPUs, on $(cpu)" --arg commit "$(commit)" \
	--arg perftest "$(dpkg-query -W -f '${Version}' perftest 2> /dev/null)" --argjson alt "$alt" --argjson secs "$secs" \
	--argjson mtu "$mtu" --argjson ib_mtu "$(fact rxe_mtu | grep . || echo null)" \
	--argjson weft "$(jq -c '{ evs, cwnd, payload, csum }' "$work/perf" 2> /dev/null | grep . || echo null)" '
	{ kernel: $kernel, cpu: $cpu, commit: $commit, perftest: $perftest,
	  defaults: { alternations: $alt, seconds: $secs, trial: ($alt < 5 or $secs < 2), mtu: $mtu,
		      rxe_mtu: $ib_mtu, weft: $weft },
	  results: . }' "$work/results" > "$O/bench-vm.json.new" &&
	mv "$O/bench-vm.json.new" "$O/bench-vm.json" || exit 1
table "$O/bench-vm.json"
[ "$bad" -eq 0 ]
