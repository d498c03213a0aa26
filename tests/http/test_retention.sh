#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is older than the settings keep goes at the next start, the best configuration's record, its job and its module
# stay, and what was deleted is counted; the rest of /metrics is there, too.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start_server --devices cpu
sh "$here/small_network.sh" "$work/net.onnx"
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/other.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
request "another" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/other.onnx" "$api/models?name=other"
other=$(field id)
options='"tuner": {"name": "random", "trials": 3, "seed": 1}, "measure": {"repeat": 1, "min_repeat_ms": 0}'
post "a job that ends well" 202 /jobs "{\"model_id\": \"$model\", $options}"
job=$(field id)
post "one that is cancelled" 202 /jobs "{\"model_id\": \"$model\", \"key\": \"nobody\"}"
cancelled=$(field id)
request "cancel" 202 -X POST "$api/jobs/$cancelled/cancel"
post "one that waits" 202 /jobs "{\"model_id\": \"$model\", \"key\": \"nobody\"}"
open=$(field id)
request "job" 200 "$api/jobs/$job?wait=120"
ok "it succeeded" [ "$(field state)" = succeeded ]
request "records" 200 "$api/jobs/$job/records?format=json"
ok "nine trials" [ "$(wc -l <"$work/body")" = 9 ]
request "config before" 200 "$api/jobs/$job/config"
cp "$work/body" "$work/config"

# metric NAME: its value.
metric() {
    curl -sS --max-time 20 "$url/metrics" | grep -v '^#' | grep -F "$1 " | sed 's/.* //'
}
# becomes NAME VALUE: within a heartbeat or a few.
becomes() {
    for _ in $(seq 150); do
        [ "$(metric "$1")" = "$2" ] && return 0
        sleep 0.1
    done
    return 1
}
labels="host=\"$(hostname)\",pid=\"$server_pid\",device=\"cpu:0\""
ok "trials are counted" becomes "warptune_trials_total{$labels,result=\"none\"}" 9
ok "no build failed" [ "$(metric "warptune_trials_total{$labels,result=\"compile_host\"}")" = 0 ]
ok "the device was busy" [ "$(metric "warptune_device_busy_seconds_total{$labels}" | sed 's/\..*//')" -ge 0 ]
ok "a worker" [ "$(metric warptune_workers)" = 1 ]
ok "something waits" [ "$(metric warptune_queue_oldest_seconds | tr -d .)" -gt 0 ]
waits='warptune_queue_wait_seconds'
ok "three tasks were waited for" [ "$(metric "${waits}_count{work=\"tune\",device=\"cpu\"}")" = 3 ]
ok "none of them a day" [ "$(metric "${waits}_bucket{work=\"tune\",device=\"cpu\",le=\"86400\"}")" = 3 ]
ok "a plan, too, but not those that nobody took" [ "$(metric "${waits}_bucket{work=\"plan\",device=\"cpu\",le=\"+Inf\"}")" = 1 ]
ok "nothing was old enough" [ "$(metric 'warptune_retention_deleted_total{kind="events"}')" = 0 ]
stop_server

# As if all of it had been done long ago.
start_server --no-worker
sql() {
    socket=$(cat "$work/data/run.path" 2>/dev/null || echo "$work/data/run")
    psql -qtA "postgresql://warptune@/warptune?host=$socket" -c "$1"
}
sql "UPDATE jobs SET finished_at = finished_at - interval '60 days' WHERE finished_at IS NOT NULL;
    UPDATE models SET created_at = created_at - interval '60 days'" >/dev/null
stop_server

start_server --no-worker --keep-trials-days 30 --keep-logs-days 30 --keep-jobs-days 30 --keep-models-days 30
ok "a pass was made" becomes 'warptune_retention_passes_total{result="done"}' 1
ok "none failed" [ "$(metric 'warptune_retention_passes_total{result="failed"}')" = 0 ]
ok "six trials of nine" [ "$(metric 'warptune_retention_deleted_total{kind="trials"}')" = 6 ]
ok "events" [ "$(metric 'warptune_retention_deleted_total{kind="events"}')" -ge 9 ]
ok "logs" [ "$(metric 'warptune_retention_deleted_total{kind="logs"}')" -ge 1 ]
ok "one job" [ "$(metric 'warptune_retention_deleted_total{kind="jobs"}')" = 1 ]
ok "one model" [ "$(metric 'warptune_retention_deleted_total{kind="models"}')" = 1 ]
request "the cancelled job is gone" 404 "$api/jobs/$cancelled"
request "the open one is there" 200 "$api/jobs/$open"
request "the unused model is gone" 404 "$api/models/$other"
request "the used one is there" 200 "$api/models/$model"
request "the best records stay" 200 "$api/jobs/$job/records?format=json"
ok "one for each task" [ "$(wc -l <"$work/body")" = 3 ]
request "config" 200 "$api/jobs/$job/config"
ok "is what it was" cmp -s "$work/body" "$work/config"
request "the module" 200 "$api/jobs/$job/module?format=so"
request "the report" 200 "$api/jobs/$job/report?format=markdown"
request "the stream of its events" 200 "$api/jobs/$job/events"
ok "tells its states, and ends" grep -qx 'event: end' "$work/body"
ok "without its trials" sh -c "! grep -qx 'event: trial' '$work/body'"
