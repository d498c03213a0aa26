#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What came of a job: its report in every form, compared to another and to the golden set; the golden sets themselves;
# `reuse: "exact"`, and a job's end as a status.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" \
    "$api/models?name=a%20%3Cnet%3E%20%7C%20b"
model=$(field id)
quick='"device": "cpu", "measure": {"repeat": 1, "min_repeat_ms": 0}'

# submit NAME OPTIONS: sets $job.
submit() {
    post "$1: submit" 202 /jobs "{\"model_id\": \"$model\", $quick, $2}"
    job=$(field id)
}
# count PATTERN: of lines of the last answer, of which there is one for each value or tag.
count() {
    tr ',{}<' '\n\n\n\n' <"$work/body" | grep -c "$1"
}

# ---- a job that runs, and its end as a status ----

submit "long" '"tuner": {"name": "random", "trials": 100000}, "reuse": false'
request "long: no report yet" 409 "$api/jobs/$job/report"
problem "long: no report yet" job-not-finished
request "long: still runs" 200 "$api/jobs/$job?wait=1"
request "long: still runs, told by the status" 202 "$api/jobs/$job?wait=1&fail=1"
ok "long: its state" grep -q '"state":"\(queued\|running\)"' "$work/body"
request "long: fail without wait" 202 "$api/jobs/$job?fail=1"
request "long: cancel" 202 -X POST "$api/jobs/$job/cancel"
request "long: cancelled" 200 "$api/jobs/$job?wait=30"
request "long: cancelled, told by the status" 424 "$api/jobs/$job?wait=30&fail=1"
problem "long: cancelled" job-cancelled
request "long: no report ever" 409 "$api/jobs/$job/report"
problem "long: no report ever" job-without-result
request "bad fail" 400 "$api/jobs/$job?fail=yes"
problem "bad fail" bad-query fail

submit "not its batch" '"batch": 65536'
request "not its batch: failed, told by the status" 424 "$api/jobs/$job?wait=100&fail=1"
problem "not its batch" job-failed
ok "not its batch: why" grep -q 'failed with unsupported-input: .*fixed batch' "$work/body"
request "not its batch: the job is there without" 200 "$api/jobs/$job?wait=100"

# ---- the report ----

submit "first" '"tuner": {"name": "random", "trials": 6}, "reuse": false'
first=$job
request "first: ends well" 200 "$api/jobs/$first?wait=100&fail=1"
request "report" 200 "$api/jobs/$first/report"
ok "report: JSON" grep -qi '^content-type: application/json' "$work/headers"
for name in p50_us p90_us p99_us mean_us samples_per_s relative_error ours_us baseline_us floor_us spread_us speedup; do
    ok "report: $name" grep -q "\"$name\":[0-9]" "$work/body"
done
ok "report: the layers" [ "$(count '^"workload":"conv2d')" = 3 ]
ok "report: their knobs" [ "$(count '^"knobs":\[')" = 3 ]
ok "report: their trials" [ "$(count '^"trials":6$')" = 3 ]
ok "report: nothing compared" grep -q '"comparison":null' "$work/body"
request "HTML by Accept" 200 -H 'Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' "$api/jobs/$first/report"
ok "HTML: type" grep -qi '^content-type: text/html' "$work/headers"
ok "HTML: depends on Accept" grep -qi '^vary: accept' "$work/headers"
ok "HTML: policy" grep -qi "^content-security-policy: default-src 'none'" "$work/headers"
ok "HTML: a bar for each layer" [ "$(grep -c '<svg class="bars" role="img" aria-label="tuned ' "$work/body")" = 3 ]
ok "HTML: no script, nothing fetched" [ "$(grep -ciE '<script|<link|src=|https?://' "$work/body")" = 0 ]
ok "HTML: the name is no markup" grep -q '<h1>a &#60;net&#62; | b</h1>' "$work/body"
request "Markdown by Accept" 200 -H 'Accept: text/markdown' "$api/jobs/$first/report"
ok "Markdown: the name is no cell" grep -q '^### <code>a &#60;net&#62; &#124; b</code>' "$work/body"
request "JUnit by Accept" 200 -H 'Accept: text/html;q=0.1, text/xml' "$api/jobs/$first/report"
ok "JUnit: type" grep -qi '^content-type: application/xml' "$work/headers"
request "the format has the word" 200 -H 'Accept: text/html' "$api/jobs/$first/report?format=junit"
ok "JUnit: a test for the network and each layer" [ "$(count '^testcase ')" = 4 ]
ok "JUnit: none fails" [ "$(count '^failure ')" = 0 ]
request "nothing acceptable" 406 -H 'Accept: image/png, application/json;q=0' "$api/jobs/$first/report"
problem "nothing acceptable" not-acceptable Accept
request "unknown format" 400 "$api/jobs/$first/report?format=pdf"
problem "unknown format" bad-query format
request "unknown job" 404 "$api/jobs/00000000-0000-4000-8000-000000000000/report"

# ---- exactly the same work again ----

submit "again" '"tuner": {"name": "random", "trials": 6}, "reuse": "exact"'
again=$job
request "again: ends well" 200 "$api/jobs/$again?wait=100&fail=1"
ok "again: no trial" grep -q '"progress":{"tasks":3,"tasks_ended":3,"trials_planned":0,"trials_done":0}' "$work/body"
ok "again: why each stopped" [ "$(count '^"stop_reason":"reused"$')" = 3 ]
ok "again: by which record" [ "$(count "^\"job_id\":\"$first\"\$")" = 3 ]
ok "again: by which trial" [ "$(count '^"trial":[0-5]$')" = 3 ]
ok "again: found when" [ "$(count '^"found_at":"20')" = 3 ]
ok "again: has a module" grep -q '"module_so":"[0-9a-f]\{64\}"' "$work/body"
request "again: the stream ends" 200 "$api/jobs/$again/events"
ok "again: each task's end is told" [ "$(grep -c '"stop_reason" : "reused"' "$work/body")" = 3 ]
submit "more" '"tuner": {"name": "random", "trials": 8}, "reuse": "exact"'
request "more: ends well" 200 "$api/jobs/$job?wait=100&fail=1"
ok "more: searched" grep -q '"trials_done":24}' "$work/body"
ok "more: the options are kept" grep -q '"reuse":"exact"' "$work/body"
post "exactly what?" 400 /jobs "{\"model_id\": \"$model\", \"reuse\": \"nearly\"}"
problem "exactly what?" bad-value reuse

# ---- compared ----

# What was measured here says nothing for sure, so the second job is made twice as slow as the first.
psql -qAt -h "$work/data/run" -U warptune -d warptune >"$work/sql.out" 2>&1 <<END
UPDATE tasks SET best_s = 2 * best_s WHERE job_id = '$again';
UPDATE jobs SET result = jsonb_set(result::jsonb, '{tuned_p50_us}', to_jsonb(2 * (SELECT result->>'tuned_p50_us'
    FROM jobs WHERE id = '$first')::float8)) WHERE id = '$again';
END
ok "made slower" [ ! -s "$work/sql.out" ]
slow=$again
request "compare" 200 "$api/jobs/$slow/report?compare_to=$first&limit=1.99"
ok "compare: ratios" [ "$(count '^"ratio":2$')" = 8 ]
ok "compare: the network and each layer regressed" [ "$(count '^"what":"')" = 4 ]
ok "compare: verdicts" [ "$(count '^"verdict":"regression"')" = 4 ]
request "compare: JUnit" 200 "$api/jobs/$slow/report?compare_to=$first&limit=1.5&format=junit"
ok "compare: each fails" [ "$(count '^failure type="regression" message="')" = 4 ]
ok "compare: and is counted" grep -q 'tests="4" failures="4"' "$work/body"
request "compare: Markdown" 200 "$api/jobs/$slow/report?compare_to=$first&limit=1.5&format=markdown"
ok "compare: the first line says it" grep -q "^:x: 4 regressions against job $first" "$work/body"
request "compare at the limit" 200 "$api/jobs/$slow/report?compare_to=$first&limit=2"
ok "compare at the limit: none" grep -q '"regressions":\[\]' "$work/body"
request "compare the other way" 200 "$api/jobs/$first/report?compare_to=$slow"
ok "compare the other way: none" grep -q '"regressions":\[\]' "$work/body"
ok "compare the other way: the default limit" grep -q '"limit":1.05,' "$work/body"
request "a limit of nothing" 400 "$api/jobs/$slow/report?limit=1.1"
problem "a limit of nothing" bad-query limit
for limit in 0.5 nan 1x '' 1e9; do
    request "limit '$limit'" 400 "$api/jobs/$slow/report?compare_to=$first&limit=$limit"
done
request "compare to no id" 400 "$api/jobs/$slow/report?compare_to=best"
problem "compare to no id" bad-query compare_to
request "compare to no job" 404 "$api/jobs/$slow/report?compare_to=00000000-0000-4000-8000-000000000000"

# ---- golden ----

# put NAME STATUS JSON
put() {
    request "$1" "$2" -X PUT -H 'Content-Type: application/json' -d "$3" "$api/golden"
}
request "no golden" 404 "$api/jobs/$first/report?compare_to=golden"
problem "no golden" no-golden compare_to
request "nothing golden" 200 "$api/golden"
ok "nothing golden: empty" grep -q '^{"golden":\[\]}$' "$work/body"
put "golden: first" 201 "{\"job_id\": \"$first\", \"note\": \"release 1\"}"
one=$(field number)
device=$(field device_key | sed 's/ /%20/g')
ok "golden: its configurations" [ "$(count '^"cost_us":[0-9]')" = 3 ]
put "golden: the same again" 200 "{\"job_id\": \"$first\", \"note\": \"release 1.0\"}"
ok "golden: the same again: the same setting" [ "$(field number)" = "$one" ]
put "golden: unknown field" 400 "{\"job_id\": \"$first\", \"colour\": 1}"
put "golden: no job" 400 '{}'
put "golden: unknown job" 404 '{"job_id": "00000000-0000-4000-8000-000000000000"}'
request "golden: now" 200 "$api/golden?device=$device"
ok "golden: now: the new note" [ "$(field note)" = "release 1.0" ]
request "golden: other device" 404 "$api/golden?device=cpu/other"
request "compare to golden" 200 "$api/jobs/$slow/report?compare_to=golden&limit=1.5"
ok "compare to golden: which" grep -q "\"comparison\":{\"job_id\":\"$first\",\"golden\":$one," "$work/body"
ok "compare to golden: regressions" [ "$(count '^"what":"layer"')" = 3 ]
submit "plain" '"tuner": {"template": "plain.cpu"}, "reuse": false'
request "plain: ends well" 200 "$api/jobs/$job?wait=100&fail=1"
put "golden: second" 201 "{\"job_id\": \"$job\"}"
two=$(field number)
request "history" 200 "$api/golden/history?device=$device&limit=1"
ok "history: the newest first" [ "$(field number)" = "$two" ]
ok "history: more" grep -qi '^link: .*rel="next"' "$work/headers"
request "history: the rest" 200 "$api/golden/history?cursor=$(field next)"
ok "history: the rest: when it ended" grep -q '"number":'"$one"',.*"ended_at":"20' "$work/body"
request "history: bad cursor" 400 "$api/golden/history?cursor=x"
request "diff" 200 "$api/golden/diff?from=$one&to=$two"
ok "diff: all changed" [ "$(count '^"ratio":[0-9]')" = 3 ]
ok "diff: nothing else" grep -q '"added":\[\],"removed":\[\],"changed":\[{.*\],"same":0}$' "$work/body"
request "diff with itself" 200 "$api/golden/diff?from=$two&to=$two"
ok "diff with itself: all the same" grep -q '"changed":\[\],"same":3}$' "$work/body"
request "diff: no end" 400 "$api/golden/diff?from=$one"
problem "diff: no end" missing-query to
request "diff: unknown" 404 "$api/golden/diff?from=$one&to=999"
request "golden: end without a device" 400 -X DELETE "$api/golden"
request "golden: end" 204 -X DELETE "$api/golden?device=$device"
request "golden: end again" 404 -X DELETE "$api/golden?device=$device"
request "golden: none now" 200 "$api/golden"
ok "golden: none now: empty" grep -q '^{"golden":\[\]}$' "$work/body"
request "golden: no POST" 405 -X POST -H 'Content-Type: application/json' -d '{}' "$api/golden"
