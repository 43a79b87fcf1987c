#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The shortest run over everything: two hosts, WRITEs over IPv4 and IPv6, TCP beside them.
# shellcheck source-path=SCRIPTDIR source=tap.sh
# shellcheck disable=SC2034	# conditions of t name variables
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

lab_begin
lab_pair 3498
: >"$LAB_TMP/server"
lab_spawn "$WEFT" -n "$LAB_B" perf server "$LAB_IF_B" >"$LAB_TMP/server" 2>&1
server=$LAB_SPAWNED
t -- lab_wait_line "$LAB_TMP/server" '^ready' "$server" ++ "a perf server becomes ready"
for to in 10.9.0.2:7471 '[fd09::2]:7471'; do
	rc=0
	json=$("$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" "$to" --count 100 --verify -j 2>&1) || rc=$?
	note "$json"
	t "rc == 0" "100 messages of 1 MiB to $to"
	t -- grep -q '"verified":true' <(tr -d ' ' <<<"$json") ++ "and every byte is right"
	t "$(lab_field "$json" bytes || echo 0) == 104857600 &&
		$(lab_field "$json" errors || echo 1) == 0" "all bytes counted, no errors"
done
# Here a frame moves in its page by what it carries: a full segment must fit wherever it is.
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
for to in 10.9.0.2:7471 '[fd09::2]:7471'; do
	t -- "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" "$to" --size 8328 --count 30000 \
		++ "segments of 3328, 3328 and 1672 bytes by turns to $to"
done
json=$("$WEFT" -n "$LAB_A" stats show "$LAB_IF_A" -j | tr -d ' ')
note "$json"
t "$(lab_field "$json" fill) == 0" "and every frame took its segment"
"$WEFT" -n "$LAB_A" down "$LAB_IF_A"
t -- "$WEFT" -n "$LAB_A" perf write "$LAB_IF_A" 10.9.0.2:7471 --size 64 --lat --count 100 \
	--verify ++ "ping-pong of 64 bytes"
t -- lab_in "$LAB_A" ping -c 1 -W 10 10.9.0.2 ++ "ping passes beside it"
lab_spawn_in "$LAB_B" timeout 60 bash -c 'exec 3<>/dev/tcp/10.9.0.1/7471'
t ! lab_wait "$LAB_SPAWNED" ++ "TCP to a closed port is refused, so TCP passes"
t -- kill -TERM "$server" ++ "the server takes SIGTERM"
t -- lab_wait "$server" ++ "and ends with 0"
tap_end
