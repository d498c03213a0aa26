#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Speeds on a GPU host, one JSON line each: ResNet-18 tuned in FP32 through the server, cold and with the bank warm, the
# same job again, and the layers beside cuDNN's best; tuned in FP16; the modules beside cuDNN in one graph.
#
# usage: gpu.sh PROGRAM [TRIALS]      a GPU with driver and NVRTC; for the comparison with cuDNN, libcudnn.so.9 where the
#                                     loader or WARPTUNE_CUDNN finds it.
#                                     OUT=DIR keeps the jobs' answers there
set -eu

here=$(dirname "$0")
program=$1
trials=${2:-100}
work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-bench-gpu.XXXXXX")
chmod 755 "$work"
out=${OUT:-$work}
server=
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$work"
}
trap finish EXIT

field() {
    tr ',{' '\n\n' | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1
}

# start DATA-DIR: a server of its own; $url is where it listens, $model the network uploaded to it
start() {
    : >"$work/out"
    "$program" serve --listen 127.0.0.1:0 --data-dir "$1" --devices cuda:0 --log-level warn >"$work/out" 2>>"$out/server.log" &
    server=$!
    for _ in $(seq 300); do
        url=$(sed -n 's/^listening on \(http:.*\)$/\1/p' "$work/out")
        [ -n "$url" ] && break
        kill -0 "$server" 2>/dev/null || { cat "$out/server.log"; exit 1; }
        sleep 0.1
    done
    model=$(curl -fsS --data-binary "@$work/resnet-18.onnx" "$url/v1/models?name=resnet-18" | field id)
}
stop() {
    kill "$server" && wait "$server" || true
    server=
}
"$program" sample resnet-18 -o "$work/resnet-18.onnx"

# tune NAME EXTRA-FIELDS: one job to its end, its answer in $out/NAME.json
tune() {
    started=$(date +%s.%N)
    job=$(curl -fsS -H 'Content-Type: application/json' \
        -d "{\"model_id\": \"$model\", \"device\": \"cuda\", \"tuner\": {\"trials\": $trials}, \"reuse\": false$2}" "$url/v1/jobs" | field id)
    for _ in $(seq 20); do
        curl -fsS "$url/v1/jobs/$job?wait=60" >"$out/$1.json"
        case $(field state <"$out/$1.json") in queued | running) ;; *) break ;; esac
    done
    ended=$(date +%s.%N)
    echo "{\"bench\": \"$1\", \"state\": \"$(field state <"$out/$1.json")\", \"wall_s\": $(echo "$ended $started" | awk '{printf "%.1f", $1 - $2}'), \"tune_s\": $(field tune_s <"$out/$1.json"), \"trials_done\": $(field trials_done <"$out/$1.json"), \"trials_per_s\": $(field trials_per_s <"$out/$1.json"), \"tuned_p50_us\": $(field tuned_p50_us <"$out/$1.json"), \"baseline_p50_us\": $(field baseline_p50_us <"$out/$1.json")}"
    curl -fsS "$url/v1/jobs/$job/records?format=json" >"$out/$1.records"
}

has_torch() {
    python3 -c 'import torch, torchvision' 2>/dev/null
}

# latency NAME NETWORK PRECISION: of the last job's module, and of cuDNN's graph of the same network
latency() {
    curl -fsS -o "$out/module.so" "$url/v1/jobs/$job/module?format=so"
    "$program" run "$out/module.so" --repeat 500 | tr -d '\n' | sed "s/^{/{\"bench\": \"$1\", /"
    echo
    rm -f "$out/module.so"
    ! has_torch || python3 "$here/cudnn_latency.py" "$2" 1 "$3"
}

start "$work/cold"
tune gpu_job_cold ''
stop
"$program" bank --data-dir "$work/warm" | sed 's/^/# /'
start "$work/warm"
tune gpu_job_bank_warm ''
latency gpu_module resnet18 fp32
tune gpu_job_fp16 ', "precision": "fp16"'
latency gpu_module_fp16 resnet18 fp16

# Of the programs beside it (make gpu-tests): the layers beside cuDNN's best, the search beside AutoTVM's.
programs=$(dirname "$program")/tests/gpu
for bench in "bench_layers --precision fp16" "bench_layers --precision fp16 --batch 32" \
    "bench_layers --precision fp32" "bench_layers --precision fp32 --batch 32" \
    "bench_search" "bench_search --kind cpu" "bench_mma"; do
    [ ! -x "$programs/${bench%% *}" ] || "$programs"/$bench || echo "{\"bench\": \"$bench\", \"failed\": true}"
done

# Winners of two runs of the same job must lie within the spread that they state.
python3 - "$out/gpu_job_cold.json" "$out/gpu_job_bank_warm.json" <<'PYTHON'
import json, sys
first, second = (json.load(open(name))["tasks"] for name in sys.argv[1:])
apart = [(a["best_us"], b["best_us"], a["spread_us"], b["spread_us"]) for a, b in zip(first, second)
         if abs(a["best_us"] - b["best_us"]) > a["spread_us"] + b["spread_us"]]
print(json.dumps({"bench": "same_job_twice", "tasks": len(first), "winners_beyond_spread": len(apart), "which": apart}))
PYTHON
