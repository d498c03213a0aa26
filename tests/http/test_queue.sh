#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs that nobody works on yet: pages and filters of lists, safe repetition of a submission, the moves of a state, limits.
. "$(dirname "$0")/lib.sh"
start_server --no-worker --max-open-jobs 6
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=%C3%A4%20b"
model=$(field id)
ok "name: as it was given" [ "$(field name)" = 'ä b' ]

# The same key makes one job, whatever number of times; with another body it is a mistake.
once='Idempotency-Key: build-17'
json='Content-Type: application/json'
request "first" 202 -H "$json" -H "$once" -d "{\"model_id\": \"$model\"}" "$api/jobs"
first=$(field id)
request "again" 202 -H "$json" -H "$once" -d "{\"model_id\": \"$model\"}" "$api/jobs"
ok "again: the same job" [ "$(field id)" = "$first" ]
request "another body" 422 -H "$json" -H "$once" -d "{\"model_id\": \"$model\", \"priority\": 1}" "$api/jobs"
problem "another body" idempotency-key-reused Idempotency-Key

for i in 1 2 3 4; do
    post "job $i" 202 /jobs "{\"model_id\": \"$model\", \"priority\": $i, \"labels\": {\"team\": \"t$((i % 2))\", \"a b\": \"c=d\"}}"
done
last=$(field id)

# Pages: newest first, by the links, all jobs once.
next=/v1/jobs?limit=2
seen=
while [ -n "$next" ]; do
    request "page" 200 "$url$next"
    seen="$seen $(tr ',{[' '\n\n\n' <"$work/body" | sed -n 's/^"id":"\([^"]*\)".*/\1/p' | tr '\n' ' ')"
    next=$(sed -n 's/^[Ll]ink: <\([^>]*\)>; rel="next".*/\1/p' "$work/headers")
done
ok "pages: five jobs" [ "$(echo $seen | wc -w)" = 5 ]
ok "pages: each once" [ "$(echo $seen | tr ' ' '\n' | sort -u | wc -l)" = 5 ]
ok "pages: newest first" [ "$(echo $seen | cut -d' ' -f1)" = "$last" ]
request "label" 200 "$api/jobs?label=team%3Dt1"
ok "label: two" [ "$(grep -o '"model_id":"[^"]*","state"' "$work/body" | wc -l)" = 2 ]
request "label of any value" 200 "$api/jobs?label=team"
ok "label of any value: four" [ "$(grep -o '"model_id":"[^"]*","state"' "$work/body" | wc -l)" = 4 ]
request "label with odd letters" 200 "$api/jobs?label=a%20b%3Dc%3Dd&limit=1"
ok "its link keeps the filter" grep -qi '^link: <[^>]*label=a%20b%3Dc%3Dd' "$work/headers"
request "model" 200 "$api/jobs?model_id=00000000-0000-4000-8000-000000000000"
ok "model: none" grep -q '"jobs":\[\]' "$work/body"
request "limit too large" 400 "$api/jobs?limit=100000"
problem "limit too large" bad-query limit
request "bad cursor" 400 "$api/jobs?cursor=x"
problem "bad cursor" bad-cursor cursor
request "models: bad cursor" 400 "$api/models?cursor=x"

# Moves.
request "pause" 202 -X POST "$api/jobs/$first/pause"
ok "paused" [ "$(field state)" = paused ]
request "retry of a paused one" 409 -X POST "$api/jobs/$first/retry"
problem "retry of a paused one" job-state
request "pause again" 202 -X POST "$api/jobs/$first/pause"
request "filter by state" 200 "$api/jobs?state=paused"
ok "filter by state: it alone" [ "$(grep -o '"model_id":"[^"]*","state"' "$work/body" | wc -l)" = 1 ]
request "resume" 202 -X POST "$api/jobs/$first/resume"
ok "resumed" [ "$(field state)" = queued ]
request "cancel" 202 -X POST "$api/jobs/$first/cancel"
request "pause of a cancelled one" 409 -X POST "$api/jobs/$first/pause"
request "its module" 404 "$api/jobs/$first/module"
problem "its module" no-module
request "its config" 200 "$api/jobs/$first/config"
ok "its config: not complete" grep -q '"complete":false' "$work/body"
request "its records" 200 "$api/jobs/$first/records?format=autotvm"
ok "its records: none" [ ! -s "$work/body" ]
request "retry" 202 -X POST "$api/jobs/$first/retry"
ok "taken up again" [ "$(field state)" = queued ]
request "no such job" 404 -X POST "$api/jobs/00000000-0000-4000-8000-000000000000/cancel"

# The limit of open jobs is told with its number.
post "the sixth" 202 /jobs "{\"model_id\": \"$model\"}"
post "one too many" 429 /jobs "{\"model_id\": \"$model\"}"
problem "one too many" too-many-jobs
ok "one too many: Retry-After" grep -qi '^retry-after:' "$work/headers"
request "metrics count them" 200 "$url/metrics"
ok "metrics: six queued" grep -q '^warptune_jobs{state="queued"} 6' "$work/body"
