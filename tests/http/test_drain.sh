#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SIGTERM in the middle of a job: nothing new is taken, those that wait are answered, streams say goodbye, the trials
# being measured are recorded; and the next start goes on where this one was, no trial lost or measured twice.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start_server --devices cpu --drain-seconds 60
sh "$here/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)

# Three tasks of five trials: when the first batch, of four, is recorded, another task's is being measured, and that takes
# a while.
post "submit" 202 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"random\", \"trials\": 5, \"seed\": 5},
    \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 5, \"cooldown_s\": 0.2}}"
job=$(field id)

# records FILE: every trial that is recorded, a line each.
records() {
    curl -sS --max-time 20 "$api/jobs/$job/records?format=json" >"$1"
}
# recorded N: waits until there are so many.
recorded() {
    for _ in $(seq 200); do
        records "$work/before"
        [ "$(wc -l <"$work/before")" -ge "$1" ] && return 0
        sleep 0.1
    done
    return 1
}

curl -sSN --max-time 60 "$api/jobs/$job/events" >"$work/stream" 2>/dev/null &
stream=$!
curl -sS --max-time 60 -o "$work/poll" -w '%{http_code}' "$api/jobs/$job?wait=60" >"$work/poll.status" &
poll=$!
ok "it begins" recorded 1
# What compiles and runs kernels sees no network, where the kernel lets us take it away.
if unshare -n true 2>/dev/null || unshare -Urn true 2>/dev/null; then
    for child in $(pgrep -P "$server_pid" -f 'child (build|run)'); do
        namespace=$(readlink "/proc/$child/ns/net") || continue
        ok "child $child has no network" [ "$namespace" != "$(readlink "/proc/$server_pid/ns/net")" ]
    done
fi

before=$(wc -l <"$work/before")
python3 "$here/drain_client.py" "${url#http://}" "$server_pid" "$job" >"$work/said" 2>"$work/said.err"
cat "$work/said.err"
ok "not ready" grep -qx 'ready 503 draining close' "$work/said"
ok "no job is taken" grep -qx 'submit 503 stopping retry-after 1' "$work/said"
ok "a poll is answered at once" grep -q '^poll 200 running at-once' "$work/said"
ok "it lives" grep -qx 'health 200' "$work/said"
ok "no connection is taken" grep -qx 'connect refused' "$work/said"
wait $stream $poll
ok "the poll before was answered" [ "$(cat "$work/poll.status")" = 200 ]
ok "with the job as it is" grep -q '"state":"running"' "$work/poll"
ok "the stream says goodbye" grep -qx 'event: bye' "$work/stream"
ok "and why" grep -qx 'data: {"reason":"stopping"}' "$work/stream"
ok "and when to come again" grep -qx 'retry: 2000' "$work/stream"
last=$(sed -n 's/^id: //p' "$work/stream" | tail -n 1)
wait "$server_pid"
ok "the server ends well" [ $? -eq 0 ]
server_pid=

start_server --devices cpu --no-worker
records "$work/between"
ok "what was being measured is recorded" [ "$(wc -l <"$work/between")" -gt "$before" ]
stop_server

# With no time to finish, it ends at once; a second signal does the same.
start_server --devices cpu --drain-seconds 0
began=$(date +%s)
stop_server
ok "drain-seconds 0" [ $(($(date +%s) - began)) -le 4 ]

start_server --devices cpu
curl -sSN --max-time 60 -H "Last-Event-ID: $last" "$api/jobs/$job/events" >"$work/stream" 2>/dev/null &
stream=$!
request "job after the restarts" 200 "$api/jobs/$job?wait=60"
ok "it succeeded" [ "$(field state)" = succeeded ]
wait $stream
ok "the stream goes on where it was" [ "$(sed -n 's/^id: //p' "$work/stream" | head -n 1)" = $((last + 1)) ]
ok "to the end" grep -qx 'event: end' "$work/stream"
records "$work/after"
ok "as many trials as planned" [ "$(wc -l <"$work/after")" = 15 ]
sort "$work/between" >"$work/sorted"
ok "nothing recorded was lost" [ "$(sort "$work/after" | comm -23 "$work/sorted" - | wc -l)" = 0 ]
twice=$(sed 's/.*"task":\([0-9]*\).*"template":\("[^"]*"\).*"index":\([0-9]*\).*/\1 \2 \3/' "$work/after" | sort | uniq -d | wc -l)
ok "nothing was measured twice" [ "$twice" = 0 ]
