#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9 of the server in the middle of a job: the private cluster recovers, the job goes on, no trial is lost or
# measured twice.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=squeeze"
post "submit" 202 /jobs "{\"model_id\": \"$(field id)\", \"tuner\": {\"trials\": 4}}"
job=$(field id)

for _ in $(seq 600); do
    request "records" 200 "$api/jobs/$job/records"
    [ "$(wc -l <"$work/body")" -ge 6 ] && break
    sleep 0.1
done
# Compilers and runners that die, idle or at work, are replaced.
for _ in 1 2 3; do
    pkill -9 -P "$server_pid" -f 'child (build|run)'
    sleep 0.5
done
request "records" 200 "$api/jobs/$job/records"
before=$(wc -l <"$work/body")
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
server_pid=

start_server --devices cpu
request "job after the restart" 200 "$api/jobs/$job?wait=200"
ok "it succeeded" [ "$(field state)" = succeeded ]
request "records" 200 "$api/jobs/$job/records?format=json"
ok "nothing recorded was lost" [ "$(wc -l <"$work/body")" -ge "$before" ]
twice=$(sed 's/.*"task": *\([0-9]*\).*"index": *\([0-9]*\).*/\1 \2/' "$work/body" | sort | uniq -d | wc -l)
ok "nothing was measured twice" [ "$twice" = 0 ]
