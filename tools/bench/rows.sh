# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# The rows of the bench: what is measured, against whom, and the bar (sourced).
#
# name | unit | better | peer | bar | how weft is measured | how the peer is
# "best: F ARGS" measures F cubic ARGS and F bbr ARGS and takes the better one. The bar is on
# value / peer; without a peer it is on the value. "pairs": what is measured leaves pairs of both
# in the lines of $PAIRS, and the ratio is the median of theirs. A bar of null: only reported.
# shellcheck disable=SC2034 # read by bench.sh
ROWS='
write_bw_1m|Gb/s|higher|tcp_best|2.0|weft_bw pair:3498 --size 1m|best: tcp_bw pair:3498 on
write_bw_1m_mtu1500|Gb/s|higher|tcp_best|0.9|weft_bw pair:1500 --size 1m|best: tcp_bw pair:1500 on
write_bw_1m_mtu1500_frames|Gb/s|higher|tcp_best|2.5|weft_bw pair:1500 --size 1m|best: tcp_bw pair:1500 off
write_bw_64k|Gb/s|higher|ucx_tcp_put_64k|3|weft_bw pair:3498 --size 64k|ucx_put_bw
write_bw_16qp|Gb/s|higher|write_bw_64k|0.95|weft_bw pair:3498 --size 64k --qps 16|weft_bw pair:3498 --size 64k
qp_1000|Gb/s|higher|write_bw_64k|0.7|weft_many 1000 weft_bw pair:3498 --size 64k --qps 1000|weft_bw pair:3498 --size 64k
write_bw_1core|Gb/s|higher|memcpy_two_copies|0.30|weft_bw_one_core pair:3498 --size 1m|memcpy_two_copies one
write_bw_limit|Gb/s|higher|memcpy_two_copies|0.30|weft_bw pair:3498 --size 1m|memcpy_two_copies all
write_cpu_per_gb|s/GB|lower|tcp_best|0.5|weft_cpu pair:3498 --size 1m --event|best: tcp_cpu pair:3498
write_lat_64_p50|us|lower|ucx_tcp_tag_lat_64|0.6|weft_lat p50 --size 64|ucx_tag_lat 50
write_lat_64_p999|us|lower|ucx_tcp_tag_lat_64|1.0|weft_lat p999 --size 64|ucx_tag_lat 99.9
write_lat_64_event_p50|us|lower|sockperf_tcp_64|0.5|weft_lat p50 --size 64 --event|sockperf_lat
write_rate_64|msg/s|higher|ucx_tcp_am_rate_64|8|weft_rate pair:3498 --size 64|ucx_am_rate
daemon_bw_1m|Gb/s|higher|write_bw_1m|0.95|weft_bw_daemon pair:3498 --size 1m|weft_bw pair:3498 --size 1m
read_bw_1m|Gb/s|higher|write_bw_1m|0.9|weft_op read weft_bw pair:3498 --size 1m|weft_bw pair:3498 --size 1m
read_lat_64_p50|us|lower|ucx_tcp_fadd|0.6|weft_op read weft_lat p50 --size 64|ucx_fadd 2
send_bw_64k|Gb/s|higher|write_bw_64k|0.85|weft_op send weft_bw pair:3498 --size 64k|weft_bw pair:3498 --size 64k
send_lat_64_p50|us|lower|ucx_tcp_tag_lat_64|0.7|weft_op send weft_lat p50 --size 64|ucx_tag_lat 50
atomic_rate|op/s|higher|ucx_tcp_fadd|10|weft_op atomic weft_rate pair:3498 --depth 64|ucx_fadd 8
atomic_lat_p50|us|lower|ucx_tcp_fadd|0.6|weft_op atomic weft_lat p50|ucx_fadd 2
write_bw_1m_strict|Gb/s|higher|write_bw_1m|0.85|weft_bw pair:3498 --size 1m --strict|weft_bw pair:3498 --size 1m
write_bw_1m_loss1|Gb/s|higher|write_bw_1m_loss0|0.8|weft_bw lossy:10000 --size 1m|weft_bw lossy:0 --size 1m
write_bw_1m_loss1_tcp|Gb/s|higher|tcp_best_loss1|3|weft_bw lossy:10000 --size 1m|best: tcp_bw plain:10000 on
write_bw_1m_telemetry|Gb/s|higher|write_bw_1m_off|0.98|weft_toggled pair:3498|pairs
qp_idle_bytes|B|lower||65536|weft_idle_bytes|
adopt_gb_per_s|GB/s|higher|memcpy_64m|null|weft_register adopt|weft_register memcpy
register_us|us|lower||null|weft_register alloc|
'

# Those of `make bench-vm`, in one guest (vm/guest-bench.sh): the arguments of weft perf and of perftest.
# Gb/s is of what weft perf calls goodput, us its median latency; the ratio is the median of those of pairs.
VM_ROWS='
vm_write_bw_1m|Gb/s|higher|rdma_rxe|2|write --size 1m|ib_write_bw -s 1048576
vm_write_lat_64|us|lower|rdma_rxe|0.8|write --size 64 --lat|ib_write_lat -s 64
vm_read_bw_1m|Gb/s|higher|rdma_rxe|null|read --size 1m|ib_read_bw -s 1048576
vm_read_lat_64|us|lower|rdma_rxe|null|read --size 64 --lat|ib_read_lat -s 64
vm_send_bw_1m|Gb/s|higher|rdma_rxe|null|send --size 1m|ib_send_bw -s 1048576
vm_send_lat_64|us|lower|rdma_rxe|null|send --size 64 --lat|ib_send_lat -s 64
'
