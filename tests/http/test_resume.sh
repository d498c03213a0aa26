#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9 of the server in the middle of a job, with each tuner: the private cluster recovers, the job goes on, no trial
# is lost or measured twice, and it ends with as many as it would have had.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
post "a tuner that there is not" 400 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"?\"}}"
tuners=$(sed -n 's/.*Choose one of: \([^."]*\)\..*/\1/p' "$work/body" | tr -d ',')
ok "the tuners are known" [ -n "$tuners" ]

# recorded N: waits until the job has so many trials, in $work/before, a line each.
recorded() {
    for _ in $(seq 600); do
        curl -sS --max-time 20 "$api/jobs/$job/records?format=json" >"$work/before"
        [ "$(wc -l <"$work/before")" -ge "$1" ] && return 0
        sleep 0.1
    done
    return 1
}

for tuner in $tuners; do
    post "$tuner: submit" 202 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"$tuner\", \"trials\": 7, \"seed\": 5},
        \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    job=$(field id)
    ok "$tuner: it begins" recorded 5
    if [ "$tuner" = "${tuners%% *}" ]; then
        # Compilers and runners that die, idle or at work, are replaced.
        for _ in 1 2 3; do
            pkill -9 -P "$server_pid" -f 'child (build|run)'
            sleep 0.2
        done
        ok "$tuner: it goes on" recorded 6
    fi
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null
    server_pid=

    start_server --devices cpu
    request "$tuner: job after the restart" 200 "$api/jobs/$job?wait=200"
    ok "$tuner: it succeeded" [ "$(field state)" = succeeded ]
    planned=$(sed 's/.*"progress":{\([^}]*\)}.*/\1/; s/.*"trials_planned":\([0-9]*\).*/\1/' "$work/body")
    request "$tuner: records" 200 "$api/jobs/$job/records?format=json"
    sort "$work/before" >"$work/sorted"
    ok "$tuner: nothing recorded was lost" [ "$(sort "$work/body" | comm -23 "$work/sorted" - | wc -l)" = 0 ]
    twice=$(sed 's/.*"task":\([0-9]*\).*"template":\("[^"]*"\).*"index":\([0-9]*\).*/\1 \2 \3/' "$work/body" | sort | uniq -d | wc -l)
    ok "$tuner: nothing was measured twice" [ "$twice" = 0 ]
    ok "$tuner: as many trials as planned" [ "$(wc -l <"$work/body")" = "$planned" ]
done

# Templates that have changed since a search began: what it measured of them stays on record and counts no more, the
# search begins anew, and of what others found nothing is published. The change is made in what the database remembers.
sql() {
    psql -qAt -h "$work/data/run" -U warptune -d warptune -c "$1"
}
post "versions: submit" 202 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"random\", \"trials\": 9, \"seed\": 5},
    \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
job=$(field id)
ok "versions: it begins" recorded 6
request "versions: pause" 202 -X POST "$api/jobs/$job/pause"
for _ in $(seq 100); do
    [ "$(sql "SELECT count(*) FROM queue WHERE job_id = '$job' AND token IS NOT NULL")" = 0 ] && break
    sleep 0.1
done
sql "UPDATE trials SET version = 0, cost_s = 1e-9 WHERE job_id = '$job' AND cost_s IS NOT NULL;
     UPDATE tasks SET best_version = 0, best_s = 1e-9 WHERE job_id = '$job' AND best_s IS NOT NULL;
     UPDATE searches SET state = replace(state::text, '\"version\":', '\"version\":1')::json WHERE job_id = '$job'"
old=$(sql "SELECT count(*) FROM trials WHERE job_id = '$job' AND version = 0")
ok "versions: there are trials of another version" [ "$old" -ge 6 ]
request "versions: resume" 202 -X POST "$api/jobs/$job/resume"
request "versions: the job, waited for" 200 "$api/jobs/$job?wait=100"
request "versions: the job, waited for again" 200 "$api/jobs/$job?wait=100"
ok "versions: it succeeded" [ "$(field state)" = succeeded ]
ok "versions: old trials stay" [ "$(sql "SELECT count(*) FROM trials WHERE job_id = '$job' AND version = 0")" = "$old" ]
ok "versions: nothing old is the best" [ "$(sql "SELECT count(*) FROM tasks WHERE job_id = '$job' AND (best_version = 0 OR best_s < 1e-8)")" = 0 ]
ok "versions: each task was searched in full" [ "$(sql "SELECT count(*) FROM tasks t WHERE job_id = '$job'
    AND trials_planned <> (SELECT count(*) FROM trials x WHERE x.job_id = t.job_id AND x.task = t.number)")" = 0 ]
ok "versions: the log says so" [ "$(sql "SELECT count(*) > 0 FROM events WHERE job_id = '$job' AND kind = 'log' AND data->>'text' LIKE '%searched%'")" = t ]
