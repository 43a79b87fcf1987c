# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=bash
# Tests that run as many at a time as there are processors, and are told in their order (sourced).
#
#   jobs_begin DIR       # where what they say is kept; JOBS=N in the environment: so many at a time
#   job COMMAND...       # in the background; it says "ok - NAME", "not ok - NAME" or "# ..."
#   jobs_end             # waits, tells, numbers, counts; 1 if one failed

JOBS=${JOBS:-$(nproc)}

jobs_begin() {
	JOBS_DIR=$1 JOBS_N=0
	mkdir -p "$JOBS_DIR"
}

job() {
	while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do
		wait -n
	done
	JOBS_N=$((JOBS_N + 1))
	"$@" >"$JOBS_DIR/$JOBS_N.tap" </dev/null &
}

jobs_end() {
	local i
	wait
	for ((i = 1; i <= JOBS_N; i++)); do
		cat "$JOBS_DIR/$i.tap"
	done | awk '/^(not )?ok / { n++; bad += /^not/; sub(/ok /, "ok " n " ") } { print }
		END { print "1.." n + 0; exit bad > 0 }'
}

# What runs a job may be its grandchild: end all of them.
jobs_stop() {
	local job
	for job in $(jobs -pr); do
		pkill -TERM -P "$job"
		kill "$job"
	done 2>/dev/null
}
