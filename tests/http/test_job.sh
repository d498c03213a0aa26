#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job over HTTP on the CPU: submit, follow, every result, cancel, and what a bad submission is told.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 --batch 0 -o "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=squeeze"
model=$(field id)

post "no model" 400 /jobs '{}'
problem "no model" missing-field model_id
post "unknown model" 404 /jobs '{"model_id": "00000000-0000-4000-8000-000000000000"}'
post "unknown field" 400 /jobs "{\"model_id\": \"$model\", \"trails\": 3}"
problem "unknown field" unknown-field trails
post "nested unknown field" 400 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"trails\": 3}}"
problem "nested unknown field" unknown-field tuner.trails
post "unknown tuner" 400 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"magic\"}}"
problem "unknown tuner" unknown-tuner tuner.name
post "wrong type" 400 /jobs "{\"model_id\": \"$model\", \"priority\": \"high\"}"
post "duplicate key" 400 /jobs "{\"model_id\": \"$model\", \"model_id\": \"x\"}"
post "not JSON" 400 /jobs 'model_id=1'
request "no type" 415 -H 'Content-Type: text/plain' -d '{}' "$api/jobs"

post "submit" 202 /jobs "{\"model_id\": \"$model\", \"batch\": 1, \"tuner\": {\"name\": \"random\", \"trials\": 2, \"seed\": 3}, \"labels\": {\"ci\": \"yes\"}}"
job=$(field id)
ok "submit: Location" grep -qi "^location: /v1/jobs/$job" "$work/headers"
request "delete model in use" 409 -X DELETE "$api/models/$model"
request "module too early" 409 "$api/jobs/$job/module"

# The whole stream of events ends by itself.
curl -sSN --max-time 280 "$api/jobs/$job/events" >"$work/events"
ok "events: end" grep -q '^event: end' "$work/events"
ok "events: trials" grep -q '^event: trial' "$work/events"
ok "events: progress line" grep -q 'Current/Best:' "$work/events"
ids=$(sed -n 's/^id: *//p' "$work/events")
ok "events: numbered without gaps" [ "$(printf '%s\n' "$ids" | sort -n | uniq | wc -l)" = "$(printf '%s\n' "$ids" | sort -n | tail -n 1)" ]
half=$(printf '%s\n' "$ids" | sed -n '5p')
curl -sSN --max-time 60 -H "Last-Event-ID: $half" "$api/jobs/$job/events" >"$work/rest"
ok "events: resume after the last seen" [ "$(sed -n 's/^id: *//p' "$work/rest" | head -n 1)" = $((half + 1)) ]

request "job" 200 "$api/jobs/$job?wait=60"
ok "job: succeeded" [ "$(field state)" = succeeded ]
ok "job: stop reasons" grep -q '"stop_reason": *"trials"' "$work/body"
request "list by label" 200 "$api/jobs?state=succeeded&label=ci%3Dyes"
ok "list: holds it" grep -q "$job" "$work/body"
request "list: bad state" 400 "$api/jobs?state=finished"

request "log" 200 "$api/jobs/$job/log"
request "records" 200 "$api/jobs/$job/records?format=json"
ok "records: JSON lines" grep -q '"error_no"' "$work/body"
request "records as AutoTVM" 200 "$api/jobs/$job/records?format=autotvm"
ok "records: AutoTVM lines" grep -q '"version": *0.2' "$work/body"
request "config" 200 "$api/jobs/$job/config"
ok "config: templates" grep -q '"template"' "$work/body"
request "module" 200 "$api/jobs/$job/module?format=so"
cp "$work/body" "$work/module.so"
"$WARPTUNE_PROGRAM" reference "$work/net.onnx" --batch 1 -o "$work/expected.pb"
ok "module: matches the reference" sh -c "\"$WARPTUNE_PROGRAM\" run \"$work/module.so\" --expect \"$work/expected.pb\" --repeat 3 >/dev/null"
request "module as tar" 200 "$api/jobs/$job/module?format=tar"
ok "tar: manifest" sh -c "tar tf '$work/body' | grep -q manifest.json"
request "module: bad format" 400 "$api/jobs/$job/module?format=exe"
request "tasks know the best" 200 "$api/models/$model/tasks?batch=1"
ok "tasks: best" grep -q '"best": *{' "$work/body"

post "second job" 202 /jobs "{\"model_id\": \"$model\", \"batch\": 1, \"tuner\": {\"trials\": 100000}}"
second=$(field id)
request "cancel" 202 -X POST "$api/jobs/$second/cancel"
request "cancel again" 202 -X POST "$api/jobs/$second/cancel"
request "cancelled" 200 "$api/jobs/$second?wait=30"
ok "cancelled: state" [ "$(field state)" = cancelled ]
request "cancel a finished job" 409 -X POST "$api/jobs/$job/cancel"

request "devices" 200 "$api/devices"
ok "devices: the CPU" grep -q '"kind": *"cpu"' "$work/body"
request "workers" 200 "$api/workers"
request "healthz" 200 "$url/healthz"
request "readyz" 200 "$url/readyz"
request "metrics" 200 "$url/metrics"
