#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Many clients that wait: long polls and event streams sleep without a thread each, operations answer all the while, a
# client that leaves in the middle harms nobody, and a stop ends them all at once.
. "$(dirname "$0")/lib.sh"
start_server --no-worker --max-waiters 220 --http-threads 4
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models"
post "submit" 202 /jobs "{\"model_id\": \"$(field id)\"}"
job=$(field id)

# waiting N: until that many requests sleep; false when they do not within 20 s.
waiting() {
    for _ in $(seq 100); do
        [ "$(curl -sS --max-time 5 "$url/metrics" | sed -n 's/^warptune_waiters //p')" = "$1" ] && return 0
        sleep 0.2
    done
    return 1
}

# clients N URL PREFIX: N requests in one process, each with its own connection and file.
clients() {
    for i in $(seq "$1"); do
        printf 'url = "%s"\noutput = "%s%s"\n' "$2" "$3" "$i"
    done >"$3.conf"
    curl -sSN --parallel --parallel-immediate --parallel-max 300 --max-time 60 -K "$3.conf" >/dev/null 2>&1 &
}

request "wait: time is up" 200 "$api/jobs/$job?wait=1"
ok "wait: still queued" [ "$(field state)" = queued ]
request "wait: too long" 400 "$api/jobs/$job?wait=301"
problem "wait: too long" bad-query wait

clients 100 "$api/jobs/$job?wait=50" "$work/poll"
polls=$!
clients 100 "$api/jobs/$job/events" "$work/stream"
streams=$!
ok "200 clients sleep" waiting 200
request "healthz meanwhile" 200 "$url/healthz"
request "readyz meanwhile" 200 "$url/readyz"
request "a job meanwhile" 200 "$api/jobs/$job"

# A client killed in the middle of its stream.
curl -sSN --max-time 60 "$api/jobs/$job/events" >/dev/null 2>&1 &
victim=$!
ok "one more sleeps" waiting 201
kill -9 $victim
wait $victim 2>/dev/null

# Over the limit: told so, at once.
clients 19 "$api/jobs/$job?wait=50" "$work/more"
more=$!
ok "all places are taken" waiting 220
request "one too many" 503 "$api/jobs/$job?wait=50"
problem "one too many" too-many-waiters
ok "one too many: Retry-After" grep -qi '^retry-after:' "$work/headers"
request "one stream too many" 503 "$api/jobs/$job/events"
request "healthz when full" 200 "$url/healthz"

request "cancel" 202 -X POST "$api/jobs/$job/cancel"
wait $polls $streams $more
ok "every poll was answered" [ "$(cat "$work"/poll[0-9]* | tr ',{' '\n\n' | grep -c '^"state":"cancelled"')" = 100 ]
ok "every stream ended" [ "$(cat "$work"/stream[0-9]* | grep -c '^event: end')" = 100 ]
ok "and says how" grep -q '^data: {"state":"cancelled"}' "$work/stream100"
ok "nobody sleeps any more" waiting 0
request "stream of an ended job" 200 "$api/jobs/$job/events"
ok "it ends" grep -q '^event: end' "$work/body"
request "its end alone" 200 -H 'Last-Event-ID: 2' "$api/jobs/$job/events"
ok "no event again" [ -z "$(sed -n 's/^id: *//p' "$work/body")" ]
request "bad Last-Event-ID" 400 -H 'Last-Event-ID: two' "$api/jobs/$job/events"

# SIGTERM with waiters.
request "retry" 202 -X POST "$api/jobs/$job/retry"
clients 50 "$api/jobs/$job?wait=50" "$work/last"
polls=$!
clients 50 "$api/jobs/$job/events?after=1000" "$work/laststream"
streams=$!
ok "100 clients sleep" waiting 100
before=$(date +%s)
stop_server
took=$(($(date +%s) - before))
wait $polls $streams
ok "the stop took $took s" [ "$took" -le 8 ]
ok "no process is left" [ -z "$(grep -als "$work/dat[a]" /proc/[0-9]*/cmdline)" ]
