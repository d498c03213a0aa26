#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a job can ask of its search: a template, a budget, a share of the device; and what it tells meanwhile.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
quick='"measure": {"repeat": 1, "min_repeat_ms": 0}'

# submit NAME OPTIONS: sets $job.
submit() {
    post "$1: submit" 202 /jobs "{\"model_id\": \"$model\", $quick, $2}"
    job=$(field id)
}
# finished NAME: the job's answer, once it has ended.
finished() {
    request "$1: job" 200 "$api/jobs/$job?wait=100"
    ok "$1: succeeded" [ "$(field state)" = succeeded ]
}
# each NAME VALUE: how many tasks of the last answer have it.
each() {
    tr ',{' '\n\n' <"$work/body" | grep -c "^\"$1\":$2\$"
}

post "template that there is not" 400 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"template\": \"conv9d\"}}"
problem "template that there is not" unknown-template tuner.template
ok "template that there is not: those that there are" grep -q 'conv2d_direct.cpu.*plain.cpu' "$work/body"
post "feature that there is not" 400 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"feature\": \"x\"}}"
problem "feature that there is not" bad-value tuner.feature
post "reuse: a number" 400 /jobs "{\"model_id\": \"$model\", \"reuse\": 1}"

submit "one template" '"tuner": {"template": "plain.cpu"}, "reuse": false'
finished "one template"
ok "one template: the options are kept" grep -q '"template":"plain.cpu"},"measure"' "$work/body"
ok "one template: each task has but this one" [ "$(each template '"plain.cpu"')" -ge 6 ]
ok "one template: its only point" [ "$(each trials_done 1)" = 3 ]
request "one template: records" 200 "$api/jobs/$job/records"
ok "one template: no other is measured" [ "$(grep -vc '"template":"plain.cpu"' "$work/body")" = 0 ]
ok "records: circumstances" [ "$(grep -c '"context":{.*"flags":\[\].*"compiler":"' "$work/body")" = 3 ]

submit "budget" '"tuner": {"trials": 100000, "name": "random"}, "budget_s": 0.5'
finished "budget"
ok "budget: is why each task stopped" [ "$(each stop_reason '"budget"')" = 3 ]
ok "budget: each was begun" [ "$(each trials_done 0)" = 0 ]
ok "budget: each has a baseline" [ "$(each baseline_us null)" = 0 ]
ok "budget: the time is told" grep -q '"elapsed_s":[0-9]' "$work/body"
ok "tasks: a floor" [ "$(tr ',{' '\n\n' <"$work/body" | grep -c '^"floor_s":[0-9.e-]*$')" = 3 ]

# Two at once on one device: the older is served first, each hears of its own trials alone.
submit "older" '"tuner": {"trials": 6, "name": "random"}'
older=$job
submit "younger" '"tuner": {"trials": 2, "name": "gridsearch"}'
finished "younger"
younger_started=$(field started_at)
job=$older
finished "older"
ok "older: first" [ "$(printf '%s\n%s\n' "$(field started_at)" "$younger_started" | sort | head -n 1)" = "$(field started_at)" ]
request "older: records" 200 "$api/jobs/$older/records"
ok "older: its trials" [ "$(wc -l <"$work/body")" = 18 ]
request "older: records as AutoTVM's" 200 "$api/jobs/$older/records?format=autotvm"
cp "$work/body" "$work/records"
request "older: and in again" 200 -H 'Content-Type: application/x-ndjson' --data-binary "@$work/records" "$api/configs/import"
ok "older: each line is of use" [ "$(field lines)/$(field bad)" = 18/0 ]
curl -sSN --max-time 60 "$api/jobs/$older/events" >"$work/events"
for task in 1 2 3; do
    lines=$(grep -o "\[Task  $task/ 3\] [^\"]*" "$work/events")
    counts=$(printf '%s\n' "$lines" | sed -n 's/.*Progress: (\([0-9]*\)\/6).*/\1/p')
    ok "task $task: its progress only grows" [ "$counts" = "$(printf '%s\n' "$counts" | sort -nu)" ]
    ok "task $task: to the end" [ "$(printf '%s\n' "$counts" | tail -n 1)" = 6 ]
done
