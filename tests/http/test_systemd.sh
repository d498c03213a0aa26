#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Under systemd: the socket that it opened is served, it is told of readiness, reloading and stopping and that the server
# lives; over a restart clients wait and are answered. The units themselves are read by systemd-analyze, where there is one.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
timeout 90 python3 "$here/systemd_parent.py" "$WARPTUNE_PROGRAM" "$work/data" "$work/server.log" >"$work/said" 2>"$work/said.err"
ok "the parent went through" [ $? -eq 0 ]
cat "$work/said.err"
ok "ready, with its address" grep -qx 'status True' "$work/said"
ok "answers on the socket" grep -qx 'answers 200' "$work/said"
ok "reloads" grep -qx 'reloads' "$work/said"
ok "feeds the watchdog" grep -qx 'watchdog True' "$work/said"
ok "a client waits over a restart" grep -qx 'waits True' "$work/said"
ok "and is answered" grep -qx 'answered \[200\]' "$work/said"
ok "both ended well" [ "$(grep -cx 'ended 0' "$work/said")" = 2 ]

# A descriptor that is no listening socket, or one too many.
mkdir "$work/other"
for fds in 1 2; do
    (exec 3</dev/null && LISTEN_FDS=$fds exec sh -c 'LISTEN_PID=$$ exec "$@"' sh "$WARPTUNE_PROGRAM" serve --no-worker \
        --data-dir "$work/other" >/dev/null 2>"$work/refused")
    ok "LISTEN_FDS=$fds is refused" [ $? -eq 1 ]
    cat "$work/refused" >>"$work/refusals"
done
ok "no socket" grep -q 'no stream socket that listens' "$work/refusals"
ok "too many" grep -q 'opens 2 sockets' "$work/refusals"

if command -v systemd-analyze >/dev/null; then
    for unit in service socket; do
        sed 's#^ExecStart=[^ ]*#ExecStart=/bin/true#' "$here/../../docker/warptune.$unit" >"$work/warptune.$unit"
    done
    ok "the units" [ -z "$(systemd-analyze verify "$work/warptune.service" "$work/warptune.socket" 2>&1 | tee "$work/body")" ]
fi
