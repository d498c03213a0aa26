#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The speeds that the project holds itself to, each as a ratio against a peer in the same run; one JSON line each.
#
# usage: run.sh PROGRAM          needs wrk and pgbench (Debian: wrk, postgresql-contrib) and, for the comparison with
#                                ONNX Runtime, python3-venv and network; what is missing is skipped with a word
set -eu

program=$1
here=$(dirname "$0")
build=$(dirname "$program")
work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-bench.XXXXXX")
chmod 755 "$work"
server=
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    rm -rf "$work"
}
trap finish EXIT

field() {
    tr ',{' '\n\n' | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1
}

# --- ONNX import of VGG-16, beyond reading the file
"$program" sample vgg-16 -o "$work/vgg-16.onnx"
"$build/tests/bench/bench_import" "$work/vgg-16.onnx"
rm -f "$work/vgg-16.onnx"

# --- a tuned ResNet-18 through the server, on the CPU
"$program" serve --listen 127.0.0.1:0 --data-dir "$work/data" --devices cpu --log-level error >"$work/out" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
    url=$(sed -n 's/^listening on \(http:.*\)$/\1/p' "$work/out")
    [ -n "$url" ] && break
    sleep 0.1
done
"$program" sample resnet-18 -o "$work/resnet-18.onnx"
model=$(curl -fsS --data-binary "@$work/resnet-18.onnx" "$url/v1/models?name=resnet-18" | field id)
job=$(curl -fsS -H 'Content-Type: application/json' \
    -d "{\"model_id\": \"$model\", \"device\": \"cpu\", \"tuner\": {\"trials\": ${TRIALS:-16}, \"seed\": 1}}" "$url/v1/jobs" | field id)
for _ in $(seq 20); do
    curl -fsS "$url/v1/jobs/$job?wait=60" >"$work/job"
    case $(field state <"$work/job") in queued | running) ;; *) break ;; esac
done
echo "{\"bench\": \"cpu_job\", \"network\": \"resnet-18\", \"state\": \"$(field state <"$work/job")\", \"tune_s\": $(field tune_s <"$work/job"), \"trials_per_s\": $(field trials_per_s <"$work/job"), \"tuned_p50_us\": $(field tuned_p50_us <"$work/job"), \"baseline_p50_us\": $(field baseline_p50_us <"$work/job")}"
curl -fsS -o "$work/module.so" "$url/v1/jobs/$job/module?format=so"

# --- GET /v1/jobs/{id} beside pgbench with the very statement that it runs
if command -v wrk >/dev/null && pgbench=$(ls /usr/lib/postgresql/*/bin/pgbench 2>/dev/null | tail -n 1) && [ -n "$pgbench" ]; then
    wrk -t 2 -c 8 -d 2 "$url/v1/jobs/$job" >/dev/null
    psql -h "$work/data/run" -U warptune -d warptune -Atc \
        "SELECT query FROM pg_stat_activity WHERE query LIKE 'SELECT j.id, j.model_id%' LIMIT 1" | sed "s/\\\$1/'$job'/" >"$work/get.sql"
    best_http=0 best_sql=0
    for _ in 1 2 3; do
        http=$(wrk -t 2 -c 8 -d 5 "$url/v1/jobs/$job" | sed -n 's/^Requests\/sec: *\([0-9]*\).*/\1/p')
        tps=$("$pgbench" -n -M prepared -c 8 -j 2 -T 5 -h "$work/data/run" -U warptune -f "$work/get.sql" warptune 2>/dev/null |
            sed -n 's/^tps = \([0-9]*\).*/\1/p')
        [ "$http" -gt "$best_http" ] && best_http=$http
        [ "${tps:-0}" -gt "$best_sql" ] && best_sql=$tps
    done
    echo "{\"bench\": \"get_job\", \"requests_per_s\": $best_http, \"pgbench_tps\": $best_sql, \"ratio\": $(awk "BEGIN {print $best_http / ($best_sql ? $best_sql : 1)}"), \"wanted\": 0.5}"
else
    echo "get_job: skipped, wrk or pgbench is missing" >&2
fi
kill "$server" && wait "$server" 2>/dev/null || true
server=

# --- the tuned module beside ONNX Runtime, in turn, on the same cores
if python3 -m venv "$work/venv" >/dev/null 2>&1 && "$work/venv/bin/pip" install -q onnxruntime numpy >/dev/null 2>&1; then
    for _ in 1 2 3 4 5; do
        ours=$("$program" run "$work/module.so" --repeat 150 | field p50_us)
        theirs=$("$work/venv/bin/python" "$here/onnxruntime_latency.py" "$work/resnet-18.onnx" "$(nproc)" 3 | cut -d' ' -f1)
        echo "$ours $theirs"
    done | sort -n | awk '{ours[NR] = $1; ratio[NR] = $2 / $1; theirs[NR] = $2} END {n = asort_mid(ratio, NR); printf "{\"bench\": \"cpu_latency\", \"network\": \"resnet-18\", \"ours_us\": %.0f, \"onnxruntime_us\": %.0f, \"speedup\": %.3f, \"wanted\": 1.0}\n", ours[int((NR + 1) / 2)], theirs[int((NR + 1) / 2)], n}
    function asort_mid(a, n,   i, j, t) { for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (a[j] < a[i]) { t = a[i]; a[i] = a[j]; a[j] = t } return a[int((n + 1) / 2)] }'
else
    echo "cpu_latency: skipped, ONNX Runtime could not be installed" >&2
fi
