#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# In the guest of vm/run.sh: load every object, print a line for each program that run.sh collects.
set -u
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
for object in build/weft*.bpf.o; do
	build/vm/progload "$object" 2>/tmp/load.log >/tmp/programs || { cat /tmp/load.log; exit 1; }
	sed 's/^/# verifier: /' /tmp/programs
done
