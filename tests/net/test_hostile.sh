#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# A peer that knows all keys and keeps to no rule harms its own QPs alone. ROUNDS=N SEED=N
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

lab_begin
lab_pair 3498
t -- timeout -k 5 400 "$LAB_BUILD/tests/net/nethostile" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" 10.9.0.2 \
	"${ROUNDS:-30}" 400 "$SEED" ++ "packets of every kind on its QPs: others on the same receives work on"
tap_end
