#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Idempotency-Key: the same POST again gets the first answer again, whatever happened between: other requests, two at
# once, kill -9 of the server.
. "$(dirname "$0")/lib.sh"
start_server --no-worker
json='Content-Type: application/json'
octets='Content-Type: application/octet-stream'
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"

# replayed NAME: the last answer is a first one, byte for byte that in $work/first.
replayed() {
    ok "$1: it says so" grep -qi '^idempotency-replayed: true' "$work/headers"
    ok "$1: the same body" cmp -s "$work/first" "$work/body"
}
not_replayed() {
    ok "$1: it is the first" sh -c "! grep -qi '^idempotency-replayed' '$work/headers'"
    cp "$work/body" "$work/first"
}
jobs() {
    curl -sS "$api/jobs?limit=500" | tr '{' '\n' | grep -c '"id":"[^"]*","model_id"'
}

# --- a model: reserved, then completed ---
request "upload" 201 -H "$octets" -H 'Idempotency-Key: up' --data-binary "@$work/net.onnx" "$api/models?name=small"
not_replayed "upload"
model=$(field id)
request "upload again" 201 -H "$octets" -H 'Idempotency-Key: up' --data-binary "@$work/net.onnx" "$api/models?name=small"
replayed "upload again"
ok "upload again: Location" grep -qi "^location: /v1/models/$model" "$work/headers"
request "upload as a form" 201 -H 'Idempotency-Key: up' -F "model=@$work/net.onnx" "$api/models?name=small"
replayed "upload as a form"
request "upload of other bytes" 422 -H "$octets" -H 'Idempotency-Key: up' --data-binary other "$api/models?name=small"
problem "upload of other bytes" idempotency-key-reused Idempotency-Key
request "upload under another name" 422 -H "$octets" -H 'Idempotency-Key: up' --data-binary "@$work/net.onnx" "$api/models?name=x"
request "upload without the key" 200 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=small"
request "no model" 400 -H "$octets" -H 'Idempotency-Key: bad' --data-binary other "$api/models"
not_replayed "no model"
request "no model again" 400 -H "$octets" -H 'Idempotency-Key: bad' --data-binary other "$api/models"
replayed "no model again"
problem "no model again" "$(sed 's/.*problem:\([a-z-]*\)".*/\1/' "$work/first")"

# --- a job: with its answer in one transaction ---
body="{\"model_id\": \"$model\", \"labels\": {\"n\": \"1\"}}"
request "submit" 202 -H "$json" -H 'Idempotency-Key: job 1' -d "$body" "$api/jobs"
not_replayed "submit"
job=$(field id)
request "cancel between" 202 -X POST "$api/jobs/$job/cancel"
request "submit again" 202 -H "$json" -H 'Idempotency-Key: job 1' -d "$body" "$api/jobs"
replayed "submit again"
ok "submit again: Location" grep -qi "^location: /v1/jobs/$job" "$work/headers"
request "another body" 422 -H "$json" -H 'Idempotency-Key: job 1' -d "{\"model_id\": \"$model\"}" "$api/jobs"
problem "another body" idempotency-key-reused Idempotency-Key
ok "one job" [ "$(jobs)" = 1 ]
none=00000000-0000-4000-8000-000000000000
for again in no yes; do
    request "no such model" 404 -H "$json" -H 'Idempotency-Key: job 2' -d "{\"model_id\": \"$none\"}" "$api/jobs"
    ok "no such model: replayed $again" [ "$(grep -ci '^idempotency-replayed' "$work/headers")" = $([ $again = yes ] && echo 1 || echo 0) ]
done

# --- moves; what may be another answer later is not kept ---
request "retry" 202 -X POST -H 'Idempotency-Key: m' "$api/jobs/$job/retry"
not_replayed "retry"
request "retry again" 202 -X POST -H 'Idempotency-Key: m' "$api/jobs/$job/retry"
replayed "retry again"
request "a key counts within its route" 202 -X POST -H 'Idempotency-Key: m' "$api/jobs/$job/pause"
request "submit another" 202 -H "$json" -d "$body" "$api/jobs"
request "another job" 422 -X POST -H 'Idempotency-Key: m' "$api/jobs/$(field id)/retry"
request "conflict" 409 -X POST -H 'Idempotency-Key: c' "$api/jobs/$job/retry"
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
request "no conflict any more" 202 -X POST -H 'Idempotency-Key: c' "$api/jobs/$job/retry"
not_replayed "no conflict any more"

printf '%s\n' '{"bad": 1}' >"$work/log"
request "import" 200 -H 'Idempotency-Key: i' --data-binary "@$work/log" "$api/configs/import"
not_replayed "import"
request "import again" 200 -H 'Idempotency-Key: i' --data-binary "@$work/log" "$api/configs/import"
replayed "import again"
request "a file is made anew" 200 -H 'Idempotency-Key: f' --data-binary "@$work/log" "$api/records/clean"
request "and again" 200 -H 'Idempotency-Key: f' --data-binary "@$work/log" "$api/records/clean"

# --- the key itself ---
request "empty key" 400 -H "$json" -H 'Idempotency-Key;' -d "$body" "$api/jobs"
problem "empty key" bad-header Idempotency-Key
request "long key" 400 -H "$json" -H "Idempotency-Key: $(head -c 256 /dev/zero | tr '\0' k)" -d "$body" "$api/jobs"
request "longest key" 202 -H "$json" -H "Idempotency-Key: $(head -c 255 /dev/zero | tr '\0' k)" -d "$body" "$api/jobs"
request "not ASCII" 400 -H "$json" -H 'Idempotency-Key: ä' -d "$body" "$api/jobs"
request "a tab" 400 -H "$json" -H "Idempotency-Key: a$(printf '\t')b" -d "$body" "$api/jobs"
request "two keys" 400 -H "$json" -H 'Idempotency-Key: a' -H 'Idempotency-Key: b' -d "$body" "$api/jobs"
request "no matter on GET" 200 -H 'Idempotency-Key: ä' "$api/jobs"

# --- many at once: one job, one model; whoever did not get the answer was told to come again ---
before=$(jobs)
pids=
for i in 1 2 3 4 5 6 7 8; do
    curl -sS --max-time 60 -D "$work/headers.$i" -o "$work/body.$i" -w '%{http_code}\n' -H "$json" -H 'Idempotency-Key: at once' \
        -d "$body" "$api/jobs" >"$work/code.$i" &
    pids="$pids $!"
done
wait $pids
ok "at once: 202 or 409" [ "$(cat "$work"/code.? | grep -vc '^\(202\|409\)$')" = 0 ]
ok "at once: one was the first" [ "$(grep -L -i '^idempotency-replayed' "$work"/headers.? | xargs grep -l '^HTTP/1.1 202' | wc -l)" = 1 ]
for i in 1 2 3 4 5 6 7 8; do
    [ "$(cat "$work/code.$i")" = 202 ] || ok "at once $i: Retry-After" grep -qi '^retry-after: 1' "$work/headers.$i"
done
ok "at once: one job" [ "$(jobs)" = $((before + 1)) ]
request "at once: afterwards" 202 -H "$json" -H 'Idempotency-Key: at once' -d "$body" "$api/jobs"
ok "at once: replayed" grep -qi '^idempotency-replayed: true' "$work/headers"

"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/large.onnx"
curl -sS --max-time 60 -o "$work/body.1" -w '%{http_code}' -H "$octets" -H 'Idempotency-Key: two' --data-binary "@$work/large.onnx" \
    "$api/models" >"$work/code.1" &
first=$!
curl -sS --max-time 60 -o "$work/body.2" -w '%{http_code}' -H "$octets" -H 'Idempotency-Key: two' --data-binary "@$work/large.onnx" \
    "$api/models" >"$work/code.2"
wait $first
ok "two uploads: 201 and 409, or 201 twice" [ "$(cat "$work/code.1" "$work/code.2" | sed 's/201//;s/201//;s/409//')" = "" ]
ok "two uploads: not 409 twice" grep -q 201 "$work/code.1" "$work/code.2"

# --- kill -9 in the middle of submissions: each key has its job or has none, and a retry makes it one ---
i=0
while [ $i -lt 200 ]; do
    i=$((i + 1))
    echo "next"
    echo "url = \"$api/jobs\""
    echo "header = \"$json\""
    echo "header = \"Idempotency-Key: kill-$i\""
    echo "data = \"{\\\"model_id\\\": \\\"$model\\\", \\\"labels\\\": {\\\"kill\\\": \\\"$i\\\"}}\""
    echo 'output = /dev/null'
    echo 'write-out = "%{stderr}%{http_code}\n"'
done | sed 1d >"$work/submissions"
: >"$work/codes"
curl -s --max-time 20 -K "$work/submissions" 2>"$work/codes" &
client=$!
until [ "$(wc -l <"$work/codes")" -ge 20 ]; do sleep 0.01; done
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
wait $client
server_pid=
done_before=$(grep -c '^202$' "$work/codes")
start_server --no-worker
sed -i "s|^url = .*|url = \"$api/jobs\"|; s|^write-out.*|write-out = \"%{http_code} %{header_json}\\\\n\"|" "$work/submissions"
curl -sS --max-time 60 -K "$work/submissions" | tr -d '\n' | sed 's/}202 /}\n202 /g' >"$work/again"
ok "kill: all of them were made" [ "$(grep -c '^202 ' "$work/again")" = 200 ]
ok "kill: those that were answered are answered again" [ "$(grep -c 'idempotency-replayed' "$work/again")" -ge "$done_before" ]
ok "kill: some were new" [ "$(grep -c 'idempotency-replayed' "$work/again")" -lt 200 ]
for i in 1 20 21 200; do
    ok "kill: key $i has one job" [ "$(curl -sS "$api/jobs?label=kill%3D$i" | tr '{' '\n' | grep -c '"id":"[^"]*","model_id"')" = 1 ]
done
ok "kill: as many jobs as keys" [ "$(curl -sS "$api/jobs?label=kill&limit=500" | tr '{' '\n' | grep -c '"id":"[^"]*","model_id"')" = 200 ]

# --- kill -9 in the middle of an upload that is worked on (its child is stopped, so that it lasts): the reservation holds
# as long as the server lives, though it is renewed many times, and ends with the server ---
"$WARPTUNE_PROGRAM" sample resnet-50 -o "$work/huge.onnx"
upload() {
    curl -sS --max-time 300 -o "$work/body" -D "$work/headers" -w '%{http_code}' -H "$octets" -H 'Idempotency-Key: killed' \
        --data-binary "@$work/huge.onnx" "$api/models"
}
curl -sS --max-time 300 -o /dev/null -H "$octets" -H 'Idempotency-Key: killed' --data-binary "@$work/huge.onnx" "$api/models" \
    2>/dev/null &
client=$!
child=
for _ in $(seq 2000); do
    child=$(pgrep -P "$server_pid" -f 'child inspect') && kill -STOP "$child" && break
done
ok "killed upload: it is worked on" [ -n "$child" ]
ok "killed upload: under way" [ "$(upload)" = 409 ]
problem "killed upload" idempotency-in-progress Idempotency-Key
ok "killed upload: Retry-After" grep -qi '^retry-after: 1' "$work/headers"
sleep 20
ok "killed upload: still under way" [ "$(upload)" = 409 ]
kill -9 "$server_pid" "$child"
wait "$server_pid" 2>/dev/null
wait $client
server_pid=
start_server --no-worker
for _ in $(seq 40); do
    got=$(upload)
    [ "$got" = 409 ] || break
    sleep 1
done
ok "killed upload: free again: $got" [ "$got" = 201 ]
ok "killed upload: the first" sh -c "! grep -qi '^idempotency-replayed' '$work/headers'"
ok "killed upload: and kept" [ "$(upload)" = 201 ]
ok "killed upload: replayed" grep -qi '^idempotency-replayed: true' "$work/headers"
