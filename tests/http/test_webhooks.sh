#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Webhooks, with a receiver that verifies what comes: each state is told, failures are tried again, 410 ends it, private
# addresses are refused, and neither a receiver that is away nor kill -9 of the server loses anything.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
hook=$work/hook
mkdir "$hook"
receiver_pid=

start_receiver() { # [PORT]
    rm -f "$hook/port"
    python3 "$here/webhook_receiver.py" "$hook" "$@" 2>"$hook/errors" &
    receiver_pid=$!
    for _ in $(seq 100); do
        [ -f "$hook/port" ] && break
        sleep 0.1
    done
    port=$(cat "$hook/port")
}
stop_receiver() {
    [ -n "$receiver_pid" ] || return 0
    kill "$receiver_pid"
    wait "$receiver_pid" 2>/dev/null
    receiver_pid=
}
trap 'stop_receiver; finish' EXIT

serve() {
    start_server --no-worker --webhook-allow-private --webhook-backoff 0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,30,30 "$@"
}
# received N: waits until so many deliveries came.
received() {
    for _ in $(seq 600); do
        [ "$(wc -l <"$hook/received" 2>/dev/null || echo 0)" -ge "$1" ] && return 0
        sleep 0.1
    done
    return 1
}
# deliveries PATTERN N: waits until the job's list holds it so often; a line each.
deliveries() {
    for _ in $(seq 600); do
        curl -sS "$api/jobs/$job/deliveries" | sed 's/{"id"/\n{"id"/g' >"$work/body"
        [ "$(grep -c "$1" "$work/body")" -ge "$2" ] && return 0
        sleep 0.1
    done
    return 1
}
submit() { # NAME MEMBERS
    : >"$hook/received"
    : >"$hook/plan"
    post "$1" 202 /jobs "{\"model_id\": \"$model\"$2}"
    job=$(field id)
}

start_receiver
serve
sh "$here/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
target=", \"webhook_url\": \"http://127.0.0.1:$port/hook?to=me\""
secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

# --- what is refused at once ---
for bad in ftp://example.com/ example.com http://user:pw@example.com/ 'http://example.com/a b'; do
    post "url $bad" 400 /jobs "{\"model_id\": \"$model\", \"webhook_url\": \"$bad\"}"
    problem "url $bad" bad-url webhook_url
done
post "long url" 400 /jobs "{\"model_id\": \"$model\", \"webhook_url\": \"http://x/$(head -c 2048 /dev/zero | tr '\0' a)\"}"
post "secret without url" 400 /jobs "{\"model_id\": \"$model\", \"webhook_secret\": \"$secret\"}"
for bad in short whsec_AAAA 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!'; do
    post "secret $bad" 400 /jobs "{\"model_id\": \"$model\"$target, \"webhook_secret\": \"$bad\"}"
    problem "secret $bad" bad-webhook-secret webhook_secret
done

# --- each change of state, signed with the client's secret ---
echo "$secret" >"$hook/secret"
submit "client's secret" "$target, \"webhook_secret\": \"$secret\", \"labels\": {\"ci\": \"yes\"}"
ok "client's secret: not repeated" sh -c "! grep -q whsec_ '$work/body'"
ok "queued is told" received 1
request "pause" 202 -X POST "$api/jobs/$job/pause"
ok "paused is told" received 2
request "resume" 202 -X POST "$api/jobs/$job/resume"
ok "queued again is told" received 3
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
ok "cancelled is told" received 4
ok "all signatures hold" [ "$(cut -d' ' -f2 "$hook/received" | sort -u)" = True ]
ok "in order" [ "$(cut -d' ' -f3 "$hook/received" | tr '\n' ' ')" = 'job.queued job.paused job.queued job.cancelled ' ]
ok "with id, states and labels" grep -q "\"$job\".*\"cancelled\".*\"previous_state\" *: *\"queued\".*\"ci\"" "$hook/received"
ok "each has an id of its own" [ "$(cut -d' ' -f1 "$hook/received" | sort -u | wc -l)" = 4 ]
ok "listed as delivered" deliveries '"state":"delivered","attempts":1,"last_status":200,"last_error":null' 4
ok "list: newest first" [ "$(grep -o '"event":[0-9]*,"state"' "$work/body" | head -n 1)" = '"event":4,"state"' ]
request "page" 200 "$api/jobs/$job/deliveries?limit=3"
request "next page" 200 "$url$(sed -n 's/^[Ll]ink: <\([^>]*\)>; rel="next".*/\1/p' "$work/headers")"
ok "next page: the first one" grep -q '"deliveries":\[{[^[]*"event":1,' "$work/body"
request "bad cursor" 400 "$api/jobs/$job/deliveries?cursor=x"
request "deliveries of no job" 404 "$api/jobs/00000000-0000-4000-8000-000000000000/deliveries"
request "job" 200 "$api/jobs/$job"
ok "job: no secret" sh -c "! grep -q 'whsec_\|webhook_secret' '$work/body'"
ok "job: the URL" grep -q "\"webhook_url\":\"http:..\?127.0.0.1:$port..\?hook?to=me\"" "$work/body"

# --- again on request; with a key only once ---
: >"$hook/received"
delivery=$(curl -sS "$api/jobs/$job/deliveries" | sed 's/.*"deliveries":\[{"id":"\([^"]*\)".*/\1/')
for _ in 1 2; do
    request "redeliver" 202 -X POST -H 'Idempotency-Key: again' "$api/jobs/$job/deliveries/$delivery/redeliver"
done
ok "redeliver: it says pending" grep -q '"state":"pending"' "$work/body"
ok "redeliver: it comes" received 1
ok "redeliver: under its id" [ "$(cut -d' ' -f1 "$hook/received")" = "$delivery" ]
ok "redeliver: ends" deliveries '"state":"delivered"' 4
ok "redeliver: once" [ "$(wc -l <"$hook/received")" = 1 ]
request "redeliver none" 404 -X POST "$api/jobs/$job/deliveries/$job/redeliver"
request "redeliver another job's" 404 -X POST "$api/jobs/$delivery/deliveries/$delivery/redeliver"

# --- a secret of ours, shown once; 500, a redirect, then 200 ---
submit "our secret" "$target"
field webhook_secret >"$hook/secret"
ok "our secret: shown" grep -q '^whsec_' "$hook/secret"
ok "our secret: told" received 1
request "our secret: not again" 200 "$api/jobs/$job"
ok "our secret: not in the job" sh -c "! grep -q 'whsec_' '$work/body'"
printf '500\n302\n503' >"$hook/plan"
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
ok "tried until it is taken" received 5
ok "one id for all attempts" [ "$(tail -n 4 "$hook/received" | cut -d' ' -f1 | sort -u | wc -l)" = 1 ]
ok "statuses" [ "$(tail -n 4 "$hook/received" | cut -d' ' -f4 | tr '\n' ' ')" = '500 302 503 200 ' ]
ok "valid each time" [ "$(tail -n 4 "$hook/received" | cut -d' ' -f2 | sort -u)" = True ]
ok "four attempts" deliveries '"state":"delivered","attempts":4,"last_status":200' 1

# --- 410 ends it ---
submit "gone" "$target, \"webhook_secret\": \"$secret\""
ok "gone: first" received 1
echo 410 >"$hook/plan"
request "pause" 202 -X POST "$api/jobs/$job/pause"
ok "gone: noted" deliveries '"state":"failed","attempts":1,"last_status":410' 1
ok "gone: disabled" grep -q '"disabled_at":"' "$work/body"
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
sleep 2
ok "gone: nothing more" [ "$(wc -l <"$hook/received")" = 2 ]

# --- private addresses: in the URL, and behind a name ---
stop_server
start_server --no-worker --webhook-backoff 0.2,0.2
for host in 127.0.0.1 10.1.2.3 169.254.169.254 '[::1]' '[::ffff:127.0.0.1]' 2130706433 0.0.0.0; do
    post "private $host" 400 /jobs "{\"model_id\": \"$model\", \"webhook_url\": \"http://$host:$port/\"}"
    problem "private $host" private-address webhook_url
done
submit "private name" ", \"webhook_url\": \"http://localhost:$port/\""
ok "private name: given up" deliveries '"state":"failed","attempts":3,"last_status":null,"last_error":"the receiver.s address is not public"' 1
ok "private name: nothing came" [ ! -s "$hook/received" ]
stop_server

# --- kill -9 after the change of state and before its delivery; the receiver away for a while ---
serve
echo "$secret" >"$hook/secret"
for n in 1 2 3; do
    submit "killed $n" "$target, \"webhook_secret\": \"$secret\""
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null
    server_pid=
    serve
    ok "killed $n: told all the same" received 1
    ok "killed $n: so it says" deliveries '"state":"delivered"' 1
done
stop_receiver
submit "away" "$target, \"webhook_secret\": \"$secret\""
ok "away: tried" deliveries '"state":"pending","attempts":[1-9][0-9]*,"last_status":null,"last_error":"[^"]' 1
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
server_pid=
start_receiver "$port"
serve
ok "away: told when it is back" received 1

ok "no secret in the log" sh -c "! grep -q whsec_ '$work/server.log'"
ok "the receiver met nothing odd" [ ! -s "$hook/errors" ]
