#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Every call of the library fails once, every table is full once. SCENARIO=open K=17 SEED=N MANY=1000
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

lab_begin
lab_pair 3498
SEED=$SEED lab_spawn "$LAB_BUILD/tests/inject/inject" "$LAB_A" "$LAB_IF_A" "$LAB_B" "$LAB_IF_B" \
	10.9.0.2 ${SCENARIO:+"$SCENARIO"} ${K:+"$K"} >"$LAB_TMP/inject" 2>&1
rc=0
lab_wait "$LAB_SPAWNED" || rc=$?
grep -v '^1\.\.' "$LAB_TMP/inject"
TAP_N=$(grep -cE '^(not )?ok ' "$LAB_TMP/inject")
TAP_FAILED=$(grep -c '^not ok ' "$LAB_TMP/inject")
t "rc == 0" "the injection ends well (status $rc)"
tap_end
