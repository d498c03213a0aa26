#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One stream for all jobs of a project: each event once and in order, whichever transaction began first; a client that
# comes again misses none; other projects' events are not there; one who reads slowly holds nobody up; many followers
# take no thread each and little memory; a stop says goodbye.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start_server --no-worker --max-waiters 700 --max-connections 1000 --http-threads 4
sh "$here/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models"
model=$(field id)

# follow FILE [CURL-ARGUMENT…]: in the background, until it is killed; $! is then its process.
follow() {
    file=$1
    shift
    : >"$file"
    curl -sSN --max-time 100 -D "$file.headers" "$@" >"$file" 2>/dev/null &
}
# until_seen FILE PATTERN [N]: waits for that many lines.
until_seen() {
    for _ in $(seq 150); do
        [ "$(grep -c "$2" "$1")" -ge "${3:-1}" ] && return 0
        sleep 0.1
    done
    return 1
}
# submit: sets $job.
submit() {
    post "submit" 202 /jobs "{\"model_id\": \"$model\"}"
    job=$(field id)
}
ids() {
    sed -n 's/^id: *//p' "$@"
}
sql() {
    socket=$(cat "$work/data/run.path" 2>/dev/null || echo "$work/data/run")
    psql -qtA "postgresql://warptune@/warptune?host=$socket" "$@"
}

# ---- what a follower sees ----
submit
first=$job
follow "$work/live" "$api/events"
live=$!
ok "a stream begins at once" until_seen "$work/live" '^retry: 1000'
ok "with the number that it begins after" [ "$(ids "$work/live")" = 1 ]
ok "its type" grep -qi '^content-type: text/event-stream' "$work/live.headers"
ok "no proxy may hold it back" grep -qi '^x-accel-buffering: no' "$work/live.headers"
submit
second=$job
request "cancel" 202 -X POST "$api/jobs/$first/cancel"
request "cancel" 202 -X POST "$api/jobs/$second/cancel"
ok "three events come" until_seen "$work/live" '^data:' 3
cat >"$work/expected" <<END
retry: 1000
id: 1

id: 2
event: state
data: {"job_id":"$second","event":1,"state":"queued"}

id: 3
event: state
data: {"job_id":"$first","event":2,"state":"cancelled"}

id: 4
event: state
data: {"job_id":"$second","event":2,"state":"cancelled"}

END
ok "each names its job, and nothing else came" cmp -s "$work/expected" "$work/live"

# ---- coming again ----
follow "$work/again" -H 'Last-Event-ID: 2' "$api/events"
follow "$work/all" "$api/events?after=0"
follow "$work/far" "$api/events?after=1000000"
until_seen "$work/again" '^data:' 2
until_seen "$work/all" '^data:' 4
until_seen "$work/far" '^id:'
ok "Last-Event-ID: what follows it" [ "$(ids "$work/again" | tr '\n' ' ')" = "2 3 4 " ]
ok "after=0: everything" [ "$(ids "$work/all" | tr '\n' ' ')" = "0 1 2 3 4 " ]
ok "a number that is not there yet: from now on" [ "$(ids "$work/far")" = 4 ]
request "bad Last-Event-ID" 400 -H 'Last-Event-ID: two' "$api/events"
problem "bad Last-Event-ID" bad-header Last-Event-ID
request "bad after" 400 "$api/events?after=-1"
problem "bad after" bad-query after
request "unknown query" 400 "$api/events?job=1"

# ---- two transactions that commit in the other order ----
submit
one=$job
submit
two=$job
until_seen "$work/live" '^data:' 5
add() {
    printf 'BEGIN; WITH job AS (UPDATE jobs SET last_event = last_event + 1 WHERE id = %s RETURNING id, last_event)' "'$1'"
    printf " INSERT INTO events (job_id, number, kind, data) SELECT id, last_event, 'log', '{\"text\":\"%s\"}' FROM job;\n" "$2"
}
{
    add "$one" "begun first"
    printf '\\! touch %s\n' "$work/begun"
    printf '\\! while [ ! -e %s ]; do sleep 0.05; done\n' "$work/go"
    echo 'COMMIT;'
} | sql >"$work/sql.out" 2>&1 &
late=$!
for _ in $(seq 100); do [ -e "$work/begun" ] && break; sleep 0.05; done
{ add "$two" "committed first"; echo 'COMMIT;'; } | sql >>"$work/sql.out" 2>&1
ok "the one that is committed comes" until_seen "$work/live" 'committed first'
seen=$(ids "$work/live" | tail -n 1)
touch "$work/go"
wait $late
ok "the other one, too" until_seen "$work/live" 'begun first'
follow "$work/after_it" -H "Last-Event-ID: $seen" "$api/events"
ok "also to one who comes again in between" until_seen "$work/after_it" 'begun first'
ok "with the next number" [ "$(ids "$work/after_it" | tail -n 1)" = $((seen + 1)) ]

# ---- many at once, and one who does not read ----
python3 - "${url#http://}" >"$work/slow.out" <<'END' &
import socket, sys, time
host, port = sys.argv[1].split(":")
slow = socket.socket()
slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
slow.connect((host, int(port)))
slow.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")
time.sleep(100)
END
slow=$!
waiting() {
    for _ in $(seq 150); do
        [ "$(curl -sS --max-time 5 "$url/metrics" | sed -n 's/^warptune_waiters //p')" -ge "$1" ] && return 0
        sleep 0.2
    done
    return 1
}
status_of() {
    sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$server_pid/status"
}
waiting 5
threads=$(status_of Threads) memory=$(status_of VmRSS)
for i in $(seq 300); do
    printf 'url = "%s"\noutput = "%s"\n' "$api/events" "$work/many$i"
done >"$work/many.conf"
curl -sSN --parallel --parallel-immediate --parallel-max 300 --max-time 100 -K "$work/many.conf" >/dev/null 2>&1 &
many=$!
ok "300 more follow" waiting 305
ok "no thread is made for them" [ "$(status_of Threads)" -le "$threads" ]
add "$one" "to all of them, with some length: $(printf '%0400d' 0)" >"$work/add.sql"
for _ in $(seq 20); do
    for _ in $(seq 50); do cat "$work/add.sql"; echo 'COMMIT;'; done | sql >>"$work/sql.out" 2>&1
done
echo "$(add "$two" "the last of them") COMMIT;" | sql >>"$work/sql.out" 2>&1
ok "everybody gets the last" until_seen "$work/live" 'the last of them'
last=$(ids "$work/live" | tail -n 1)
got_all() {
    for _ in $(seq 150); do
        [ "$(grep -l 'the last of them' "$work"/many[0-9]* | wc -l)" = 300 ] && return 0
        sleep 0.2
    done
    return 1
}
ok "all 300 of them" got_all
ids "$work/live" | tail -n 1001 >"$work/numbers"
ok "each number once, in order" [ "$(sort -nu "$work/numbers" | wc -l) $(tail -n 1 "$work/numbers")" = "1001 $last" ]
for i in 1 150 300; do
    ids "$work/many$i" | tail -n 1001 | cmp -s - "$work/numbers"
    ok "follower $i has the same" [ $? -eq 0 ]
done
grew=$((($(status_of VmRSS) - memory) / 300))
ok "a follower takes $grew KB" [ "$grew" -le 100 ]
kill $many $slow

# ---- nothing happens for a while ----
ok "then there is a sign of life" until_seen "$work/live" '^: keep-alive'

# ---- another project ----
admin=$("$WARPTUNE_PROGRAM" token create --scope admin --name root --data-dir "$work/data" 2>/dev/null)
request "a project" 201 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' -d '{"name": "other"}' "$api/projects"
other=$("$WARPTUNE_PROGRAM" token create --project other --scope submit --name x --data-dir "$work/data" 2>/dev/null)
sleep 3.2
request "no token" 401 "$api/events"
follow "$work/other" -H "Authorization: Bearer $other" "$api/events?after=0"
until_seen "$work/other" '^id: 0'
request "upload" 201 -H "Authorization: Bearer $other" -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models"
model=$(field id)
request "its job" 202 -H "Authorization: Bearer $other" -H 'Content-Type: application/json' -d "{\"model_id\": \"$model\"}" "$api/jobs"
job=$(field id)
ok "its own event" until_seen "$work/other" "^data: {\"job_id\":\"$job\""
ok "and no other" [ "$(grep -c '^data:' "$work/other")" = 1 ]
ok "numbered by itself" [ "$(ids "$work/other" | tr '\n' ' ')" = "0 1 " ]

# ---- the end ----
follow "$work/again" -H "Authorization: Bearer $admin" "$api/events"
until_seen "$work/again" '^id:'
stop_server
sleep 0.5
ok "goodbye" [ "$(tail -n 4 "$work/other")" = "$(printf 'event: bye\nretry: 2000\ndata: {"reason":"stopping"}\n')" ]
ok "also where nothing had come" grep -q '^event: bye' "$work/again"
start_server --no-worker
follow "$work/back" -H "Authorization: Bearer $admin" -H "Last-Event-ID: $last" "$api/events"
until_seen "$work/back" '^id:'
request "cancel" 202 -H "Authorization: Bearer $admin" -X POST "$api/jobs/$one/cancel"
ok "after a restart it goes on" until_seen "$work/back" '"state":"cancelled"'
ok "with the next number" [ "$(ids "$work/back" | tr '\n' ' ')" = "$last $((last + 1)) " ]
kill $live 2>/dev/null || true
