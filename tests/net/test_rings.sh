#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# An application that writes anything into its rings harms itself alone: SEED=N TIME=SECONDS
# shellcheck source-path=SCRIPTDIR source=tap.sh
set -u
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

RINGS=$LAB_BUILD/tests/fuzz/rings
TIME=${TIME:-10}

lab_begin
lab_pair 3498
"$WEFT" -n "$LAB_A" up "$LAB_IF_A"
: >"$LAB_TMP/peer"
lab_spawn "$RINGS" server "$LAB_B" "$LAB_IF_B" >"$LAB_TMP/peer" 2>&1
peer=$LAB_SPAWNED
t -- lab_wait_line "$LAB_TMP/peer" '^ready' "$peer" ++ "the attacker's peer is ready"
serve s "$LAB_B" --region 4m --conns 2 --qps 2 "$LAB_IF_B=10.9.0.2:7000"
writer c "$LAB_A" --qps 2 --time "$TIME" --src 1m --max 256k --cwnd 16 "$LAB_IF_A=10.9.0.2:7000"
t -- lab_wait_line "$LAB_TMP/c" connected "$CLIENT" ++ "an innocent process writes over the same device"
: >"$LAB_TMP/attacker"
lab_spawn "$RINGS" attack "$LAB_A" "$LAB_IF_A" 10.9.0.2 "$((TIME - 1))" "$SEED" >"$LAB_TMP/attacker" 2>&1
attacker=$LAB_SPAWNED
t -- finish "$attacker" attacker ++ "the attacker's QPs fail, and new ones work"
echo "# note: attacker: $(tail -n 1 "$LAB_TMP/attacker")"
t -- eval '"$WEFT" -n "$LAB_A" qp trace "$LAB_IF_A" | grep -q " ago: general error, send queue is corrupt"' ++ \
	"their traces tell of a corrupt send queue"
t -- finish_both c s ++ "the innocent one's WRITEs arrive, every byte"
kill -TERM "$peer"
t -- finish "$peer" peer ++ "nothing arrived but the attacker's source, and in its region alone"
echo "# note: peer: $(tail -n 1 "$LAB_TMP/peer")"
t -- "$RINGS" books "$LAB_A" "$LAB_IF_A" ++ "no token is left on the books"
t -- "$WEFT" -n "$LAB_A" down "$LAB_IF_A" ++ "weft down"
tap_end
