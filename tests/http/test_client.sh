#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `warptune tune`, the client: from a network to a module and its configurations; what it says when the command line, the
# server or the job is at fault; a server that restarts in the middle; an interruption, which leaves the job alone.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/small_network.sh" "$work/net.onnx"
unset WARPTUNE_URL WARPTUNE_TOKEN

# tune NAME STATUS ARGUMENT…: what it prints is then in $work/body, what it complains of in $work/complaint.
tune() {
    name=$1 status=$2
    shift 2
    timeout 100 "$WARPTUNE_PROGRAM" tune "$@" >"$work/body" 2>"$work/complaint"
    got=$?
    ok "$name: status $got, expected $status: $(head -c 300 "$work/complaint")" [ "$got" = "$status" ]
}
complains() {
    ok "$1: says why: $(head -c 300 "$work/complaint")" grep -q "$2" "$work/complaint"
}

# ---- the command line ----
tune "help" 0 --help
ok "help: an exit status each" grep -q '^Exit status: 0 ' "$work/body"
ok "help: each precision" grep -q -- '--precision P .*fp32, fp16, bf16 or tf32' "$work/body"
tune "no network" 2 --server http://127.0.0.1:1
complains "no network" 'needs a network'
tune "no server" 2 "$work/net.onnx" --no-wait
complains "no server" 'WARPTUNE_URL'
tune "no URL" 2 "$work/net.onnx" --server localhost:8080
complains "no URL" 'is not a URL'
tune "no such option" 2 "$work/net.onnx" --server http://x --trails 7
tune "no number" 2 "$work/net.onnx" --server http://x --trials many
complains "no number" "'many'"
tune "nothing to download" 2 "$work/net.onnx" --server http://x --no-wait -o m.so
tune "a token that is none" 2 "$work/net.onnx" --server http://x --token 'a b'

# ---- a target that cannot be written: said before a server is asked, and there is none at this address ----
nobody=http://127.0.0.1:1
# refuses NAME REASON ARGUMENT…
refuses() {
    refused=$1 reason=$2
    shift 2
    tune "$refused" 1 "$work/net.onnx" --server $nobody "$@"
    complains "$refused" "$reason"
    ok "$refused: no server was asked" [ "$(grep -c 'Trying again' "$work/complaint")" = 0 ]
}
mkdir "$work/folder"
mkfifo "$work/pipe"
: >"$work/no_folder"
refuses "no folder for the module" "^warptune tune: -o $work/nowhere/m.so: there is no folder $work/nowhere\\. Make it" \
    -o "$work/nowhere/m.so"
refuses "no folder for the configurations" "^warptune tune: --config $work/nowhere/best.json: there is no folder" \
    -o "$work/folder/m.so" --config "$work/nowhere/best.json"
refuses "a folder as the module" "^warptune tune: -o $work/folder: that is a folder\\. Name a file in it" --output "$work/folder"
refuses "a folder as the configurations" "^warptune tune: --config $work/folder/: that is a folder" --config "$work/folder/"
refuses "a file as the folder" "$work/no_folder is no folder\\." -o "$work/no_folder/m.so"
refuses "no name" '^warptune tune: -o has an empty name' -o ''
refuses "a name that is too long" 'no file can be made in the folder .*: File name too long\.' -o "$work/$(printf 'm%0255d' 0)"
refuses "a pipe" "^warptune tune: -o $work/pipe: that is a device or a pipe" -o "$work/pipe"
refuses "a folder that takes no files" 'no file can be made in the folder /proc: .* Mend' -o /proc/m.so
if [ "$(id -u)" != 0 ]; then # whom no permission keeps out
    chmod a-w "$work/folder"
    refuses "a folder that is not ours" 'no file can be made in the folder .*: Permission denied\. Mend' -o "$work/folder/m.so"
    chmod u+w "$work/folder"
fi
ok "the folder is as it was" [ -z "$(ls -A "$work/folder")" ]
tune "no folder, and no server named" 1 "$work/net.onnx" --data-dir "$work/alone" -o "$work/nowhere/m.so"
complains "no folder, and no server named" "there is no folder $work/nowhere"
ok "no folder, and no server named: none was started" [ ! -e "$work/alone" ]

# ---- from a network to a module ----
start_server --devices cpu
tune "tune" 0 "$work/net.onnx" --server "$url/" --device cpu --tuner random --trials 4 --budget 60 --name 'a small "net"' \
    -o "$work/m.so" --config "$work/best.json"
job=$(sed -n 's/^job //p' "$work/body")
for line in queued running succeeded; do
    ok "tune: a line for $line" [ "$(grep -cx $line "$work/body")" = 1 ]
done
ok "tune: a line for the beginning of each task" [ "$(grep -c '^task  [1-3]/3 begins: at most 4 trials$' "$work/body")" = 3 ]
ok "tune: and for its end" [ "$(grep -c '^task  [1-3]/3 succeeded after 4 trials: best [0-9.]* µs, untuned [0-9.]* µs$' "$work/body")" = 3 ]
ok "tune: how fast it is" grep -q '^cpu/.*: the network takes [0-9.]* µs, untuned [0-9.]* µs$' "$work/body"
ok "tune: plain text" [ "$(tr -d '\n\302\265 -~' <"$work/body" | wc -c)" = 0 ]
ok "tune: no complaint" [ ! -s "$work/complaint" ]
ok "tune: the module runs" sh -c "\"$WARPTUNE_PROGRAM\" run '$work/m.so' --repeat 1 >/dev/null"
ok "tune: the configurations" grep -q "^{\"job_id\":\"$job\".*\"complete\":true" "$work/best.json"
ok "tune: no file is left over" [ -z "$(ls "$work" | grep part)" ]
request "the job" 200 "$api/jobs/$job"
ok "the options arrived" grep -q '"budget_s":60' "$work/body"
request "its model" 200 "$api/models/$(field model_id)"
ok "with its name" grep -q '"name":"a small \\"net\\""' "$work/body"
WARPTUNE_URL=$url tune "again, by the environment" 0 --job "$job" -o "$work/again.so"
ok "the same module" cmp -s "$work/m.so" "$work/again.so"
script -qec "$WARPTUNE_PROGRAM tune $work/net.onnx --server $url --device cpu --tuner ga --trials 5" /dev/null >"$work/terminal"
ok "on a terminal: AutoTVM's line" grep -q 'Task .*Current/Best: .* GFLOPS | Progress: (4/5)' "$work/terminal"

# ---- what goes wrong ----
tune "no such file" 1 "$work/nothing.onnx" --server "$url"
complains "no such file" 'nothing.onnx'
echo 'no network' >"$work/bad.onnx"
tune "no network in it" 1 "$work/bad.onnx" --server "$url"
complains "no network in it" 'The server refused (400'
tune "an option that the server refuses" 1 "$work/net.onnx" --server "$url" --tuner nonsense
complains "an option that the server refuses" '(400, tuner.name): .*nonsense.*Choose one of: auto'
tune "a job that fails" 1 "$work/net.onnx" --server "$url" --batch 7
complains "a job that fails" 'The job failed: .*fixed batch'
tune "no such job" 1 --job 00000000-0000-7000-8000-000000000000 --server "$url"
complains "no such job" '(404): There is no job'
tune "a folder that is not there" 1 --job "$job" --server "$url" -o "$work/nowhere/m.so"
complains "a folder that is not there" 'nowhere'
echo old >"$work/kept.so"
tune "a target that is there, a job that fails" 1 "$work/net.onnx" --server "$url" --batch 7 -o "$work/kept.so"
ok "a target that is there, a job that fails: stays" [ "$(cat "$work/kept.so")" = old ]

# ---- without waiting; a server that goes and comes; an interruption ----
tune "no wait" 0 "$work/net.onnx" --server "$url" --device cpu --tuner random --trials 100000 --no-wait
job=$(cat "$work/body")
ok "no wait: the id alone" [ "${#job}" = 36 ]
"$WARPTUNE_PROGRAM" tune --job "$job" --server "$url" >"$work/followed" 2>"$work/followed.err" &
client=$!
until_said() {
    for _ in $(seq 200); do
        grep -q "$2" "$1" && return 0
        sleep 0.1
    done
    return 1
}
ok "it follows" until_said "$work/followed" '^task .* begins'
stop_server
start_server --devices cpu --listen "127.0.0.1:${url##*:}"
"$WARPTUNE_PROGRAM" tune --job "$job" --server "$url" >"$work/left" 2>"$work/left.err" &
leaver=$!
ok "another follows, too" until_said "$work/left" '^task .* begins'
kill -INT $leaver
wait $leaver
ok "interrupted: 130" [ $? -eq 130 ]
ok "interrupted: how to go on" grep -qF "warptune tune --job $job --server $url" "$work/left.err"
ok "interrupted: how to end it" grep -qF "curl -X POST $api/jobs/$job/cancel" "$work/left.err"
request "the job goes on" 200 "$api/jobs/$job"
ok "it runs" [ "$(field state)" = running ]
sh -c "$(sed -n 's/^  cancel it:  \(curl\)/\1 -sS -o \/dev\/null/p' "$work/left.err")"
wait $client
ok "the one who stayed hears of the end" [ $? -eq 1 ]
ok "and says it" grep -q 'The job is cancelled' "$work/followed.err"
ok "each state once, the restart notwithstanding" [ "$(grep -cx -e queued -e running -e cancelled "$work/followed")" = 3 ]

# ---- nobody there ----
timeout -s INT 3 "$WARPTUNE_PROGRAM" tune "$work/net.onnx" --server http://127.0.0.1:1 2>"$work/complaint"
ok "nobody there: it says so while it waits" grep -q '^http://127.0.0.1:1: .*Trying again for' "$work/complaint"

# ---- a token; HTTPS ----
token=$("$WARPTUNE_PROGRAM" token create --scope admin --name root --data-dir "$work/data" 2>/dev/null)
stop_server
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 2 \
    -subj /CN=localhost -addext 'subjectAltName=IP:127.0.0.1' 2>/dev/null
start_server --no-worker --tls-cert "$work/cert.pem" --tls-key "$work/key.pem"
tune "a certificate that nobody knows" 1 "$work/net.onnx" --server "$url"
complains "a certificate that nobody knows" 'certificate'
tune "without the token" 1 "$work/net.onnx" --server "$url" --ca "$work/cert.pem"
complains "without the token" '(401): This server wants a token'
WARPTUNE_TOKEN=$token tune "with all of it" 0 "$work/net.onnx" --server "$url" --ca "$work/cert.pem" --no-wait
stop_server
