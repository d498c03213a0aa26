#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job, as a client would do it with curl: write ResNet-18 as ONNX, upload it, tune it on the best device here,
# follow the progress, download the module, run it, compare its output with the reference and its speed with the
# untuned baseline. Starts a server of its own and leaves nothing running.
#
# usage: demo.sh PROGRAM [NETWORK] [TRIALS]
set -eu

program=$1
network=${2:-resnet-18}
trials=${3:-12}
work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-demo.XXXXXX")
chmod 755 "$work"
server=

finish() {
    status=$?
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    [ $status -eq 0 ] || { echo "demo failed; the server's last lines:" >&2; tail -n 15 "$work/server.log" >&2; }
    rm -rf "$work"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

# field NAME: the first value of a JSON field on standard input; enough for the flat fields that are read here.
field() {
    tr ',{' '\n\n' | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1
}

echo "== starting the server, with a private PostgreSQL cluster"
"$program" serve --listen 127.0.0.1:0 --data-dir "$work/data" >"$work/server.out" 2>"$work/server.log" &
server=$!
url=
for _ in $(seq 300); do
    url=$(sed -n 's/^listening on \(http:.*\)$/\1/p' "$work/server.out")
    [ -n "$url" ] && break
    kill -0 "$server" 2>/dev/null || { echo "the server ended" >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "the server did not start listening" >&2; exit 1; }
api=$url/v1
echo "   $url"

echo "== writing $network with random weights"
"$program" sample "$network" -o "$work/model.onnx"

echo "== uploading it"
model=$(curl -fsS --data-binary "@$work/model.onnx" -H 'Content-Type: application/octet-stream' \
    "$api/models?name=$network" | field id)
[ -n "$model" ] || { echo "the upload was refused" >&2; exit 1; }
echo "   model $model"

echo "== submitting a job: $trials trials a task"
job=$(curl -fsS -H 'Content-Type: application/json' \
    -d "{\"model_id\": \"$model\", \"tuner\": {\"trials\": $trials, \"seed\": 1}}" "$api/jobs" | field id)
[ -n "$job" ] || { echo "the job was refused" >&2; exit 1; }
echo "   job $job"

curl -fsSN "$api/jobs/$job/events" | while IFS= read -r line; do
    case $line in
        data:*'"line"'*) printf '   %s\n' "$(printf '%s' "$line" | sed 's/.*"line": *"\([^"]*\)".*/\1/')" ;;
    esac
done

curl -fsS "$api/jobs/$job?wait=60" >"$work/job.json"
state=$(field state <"$work/job.json")
[ "$state" = succeeded ] || { echo "the job is $state:" >&2; cat "$work/job.json" >&2; exit 1; }

echo "== downloading the module, and running it"
curl -fsS -o "$work/module.so" "$api/jobs/$job/module?format=so"
"$program" reference "$work/model.onnx" --input ramp -o "$work/expected.pb"
"$program" run "$work/module.so" --input ramp --expect "$work/expected.pb" --repeat 200 >"$work/run.json"
cat "$work/run.json"

baseline=$(field baseline_p50_us <"$work/job.json")
tuned=$(field tuned_p50_us <"$work/job.json")
echo "== $network: output matches the reference (relative error $(field relative_error <"$work/run.json"))"
echo "   latency p50 $(field p50_us <"$work/run.json") us; measured by the job: tuned $tuned us, untuned baseline $baseline us"
