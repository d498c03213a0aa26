#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `warptune tune` without a server: one of its own on a data folder, which ends with it however it ends; a second start
# goes on with the same job; two at once share a server, and the one who stays takes over; a server that is there is used.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/small_network.sh" "$work/net.onnx"
unset WARPTUNE_URL WARPTUNE_TOKEN
data=$work/own

# alone NAME STATUS ARGUMENT…
alone() {
    name=$1 status=$2
    shift 2
    timeout 240 "$WARPTUNE_PROGRAM" tune "$@" >"$work/body" 2>"$work/complaint"
    got=$?
    ok "$name: status $got, expected $status: $(head -c 400 "$work/complaint")" [ "$got" = "$status" ]
}
complains() {
    ok "$1: says why: $(head -c 400 "$work/complaint")" grep -q "$2" "$work/complaint"
}
# begin FILE ARGUMENT…: in the background, as $!
begin() {
    file=$1
    shift
    "$WARPTUNE_PROGRAM" tune "$@" >"$work/$file" 2>"$work/$file.err" &
}
until_said() {
    for _ in $(seq 300); do
        grep -q "$2" "$1" && return 0
        sleep 0.1
    done
    return 1
}
# serving FOLDER: the processes of servers on it
serving() {
    pgrep -f "serve .*--data-dir $1 "
}
nobody_serves() {
    for _ in $(seq 400); do
        [ -z "$(serving "$1")" ] && return 0
        sleep 0.1
    done
    return 1
}
job_in() {
    sed -n 's/^job //p' "$work/$1"
}

# ---- a command line that makes no sense; a server that cannot start ----
alone "no wait" 2 "$work/net.onnx" --no-wait
complains "no wait" 'a server that stays'
alone "both" 2 "$work/net.onnx" --server http://127.0.0.1:1 --data-dir "$data"
alone "no such device" 1 "$work/net.onnx" --data-dir "$data" --device abacus
complains "no such device" "server of its own exited with status 1: .*'abacus' is no device"
: >"$work/file"
alone "no folder" 1 "$work/net.onnx" --data-dir "$work/file/data" --device cpu
complains "no folder" 'making the data folder'

# ---- from a network to a module ----
# Settings that would keep us from our own server do not hold for it.
WARPTUNE_NO_WORKER=1 WARPTUNE_LISTEN=127.0.0.1:1 WARPTUNE_TLS_CERT=/nowhere WARPTUNE_DATA_DIR=$data \
    alone "tune" 0 "$work/net.onnx" --device cpu --tuner random --trials 4 -o "$work/m.so" --config "$work/best.json"
ok "tune: its lines" [ "$(grep -c -e '^queued$' -e '^running$' -e '^succeeded$' -e '^task  [1-3]/3 .* after 4 trials' "$work/body")" = 6 ]
ok "tune: the module runs" sh -c "\"$WARPTUNE_PROGRAM\" run '$work/m.so' --repeat 1 >/dev/null"
ok "tune: the configurations" grep -q '"complete":true' "$work/best.json"
ok "tune: the server ended with it" [ -z "$(serving "$data")" ]
ok "tune: its database, too" [ ! -e "$data/postgres/postmaster.pid" ]
done_job=$(job_in body)
alone "what was done before" 0 --job "$done_job" --data-dir "$data" -o "$work/again.so"
ok "what was done before: the same module" cmp -s "$work/m.so" "$work/again.so"
alone "a job that fails" 1 "$work/net.onnx" --data-dir "$data" --device cpu --batch 7
complains "a job that fails" 'The job failed: .*fixed batch'

# ---- kill -9, and the same once more ----
wish="--device cpu --tuner random --trials 24"
begin killed "$work/net.onnx" --data-dir "$data" $wish
killed=$!
ok "it tunes" until_said "$work/killed" '^task  2/3 begins'
kill -9 $killed
wait $killed 2>/dev/null
ok "killed: its server ends" nobody_serves "$data"
ok "killed: with its database" [ ! -e "$data/postgres/postmaster.pid" ]
alone "once more" 0 "$work/net.onnx" --data-dir "$data" $wish -o "$work/m2.so"
ok "once more: it was begun before" grep -q '^this was begun before' "$work/body"
ok "once more: the same job" [ "$(job_in body)" = "$(job_in killed)" ]
ok "once more: the events begin where the job does" [ "$(grep -cx queued "$work/body")" = 1 ]
alone "and again, which is another job" 0 "$work/net.onnx" --data-dir "$data" --device cpu --trials 2
ok "and again: another" [ "$(job_in body)" != "$(job_in killed)" ]

# ---- Ctrl-C: the server is drained, the job stays ----
wish="--device cpu --tuner random --trials 100000"
begin left "$work/net.onnx" --data-dir "$data" $wish
left=$!
ok "it tunes on" until_said "$work/left" '^task  1/3 begins'
kill -INT $left
wait $left
ok "interrupted: 130" [ $? -eq 130 ]
ok "interrupted: how to go on" grep -qF "warptune tune --job $(job_in left) --data-dir $data" "$work/left.err"
ok "interrupted: nothing runs" [ -z "$(serving "$data")" ]

# ---- two at once: one server, and who stays takes over ----
begin one "$work/net.onnx" --data-dir "$data" $wish
one=$!
begin two --job "$(job_in left)" --data-dir "$data"
two=$!
ok "one follows" until_said "$work/one" '^running$'
ok "two follows" until_said "$work/two" '^running$'
ok "one server" [ "$(pgrep -P "$one,$two" | wc -l)" = 1 ]
url_of() {
    sed -n 's/.*the server \(http[^,]*\),.*/\1/p' "$work/$1" | tail -n 1
}
ok "for both" [ "$(url_of one.err)" = "$(url_of two.err)" ]
# Who started it goes; it may be either.
if pgrep -P $one >/dev/null; then owner=$one stays=two stayer=$two; else owner=$two stays=one stayer=$one; fi
before=$(url_of $stays.err)
kill -INT $owner
ok "the other takes over" until_said "$work/$stays" '^the server is gone$'
for _ in $(seq 300); do
    url=$(url_of $stays.err)
    [ "$url" = "$before" ] || break
    sleep 0.1
done
request "its server" 202 -X POST "$url/v1/jobs/$(job_in left)/cancel"
wait $stayer
ok "it hears of the end" [ $? -eq 1 ]
ok "and says it" grep -q 'The job is cancelled' "$work/$stays.err"
ok "each state once" [ "$(grep -cx -e queued -e cancelled "$work/$stays")" = 2 ]
ok "then nothing runs" nobody_serves "$data"

# ---- a server that is there already ----
start_server --devices cpu
alone "beside a server" 0 "$work/net.onnx" --data-dir "$work/data" --device cpu --trials 2
ok "beside a server: uses it" grep -qF "the server $url," "$work/complaint"
request "beside a server: which stays" 200 "$url/healthz"
"$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" >/dev/null 2>"$work/second"
ok "a second server on the folder: 3" [ $? -eq 3 ]
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
server_pid=
alone "after one that was killed" 0 "$work/net.onnx" --data-dir "$work/data" --device cpu --trials 2
ok "after one that was killed: another" [ "$(url_of complaint)" != "$url" ]
