# SPDX-License-Identifier: Apache-2.0
# What the benches share: a server of their own, a tuned job, medians. Sourced by run.sh, which sets $program, $build
# and $work.

server=
finish() {
    stop_server
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

field() {
    tr ',{' '\n\n' | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1
}

skip() {
    echo "$1: skipped, $2" >&2
}

# ratio A B
ratio() {
    awk "BEGIN {printf \"%.3f\", ($2 > 0 ? $1 / $2 : 0)}"
}

# median: of the numbers on standard input, a line each
median() {
    sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
}

# start_server [OPTION…]: with the data folder $work/data; sets $url, $server
start_server() {
    : >"$work/out"
    # shellcheck disable=SC2086
    ${UNDER:-} "$program" serve --listen "127.0.0.1:${PORT:-0}" --data-dir "$work/data" --devices cpu --log-level error \
        "$@" >"$work/out" 2>>"$work/log" &
    server=$!
    url=
    for _ in $(seq 900); do
        url=$(sed -n 's/^listening on \(http:.*\)$/\1/p' "$work/out")
        [ -n "$url" ] && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "the server did not start:" >&2
    tail -n 5 "$work/log" >&2
    exit 1
}

stop_server() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

sql() {
    psql -h "$work/data/run" -U warptune -d warptune -Atqc "$1"
}

# upload NAME: makes the network and uploads it; sets $model
upload() {
    [ -f "$work/$1.onnx" ] || "$program" sample "$1" -o "$work/$1.onnx"
    model=$(curl -fsS --data-binary "@$work/$1.onnx" "$url/v1/models?name=$1" | field id)
}

# submit JSON-MEMBERS: sets $job
submit() {
    job=$(curl -fsS -H 'Content-Type: application/json' -d "{\"model_id\": \"$model\", $1}" "$url/v1/jobs" | field id)
}

# until_ended: leaves the job in $work/job
until_ended() {
    for _ in $(seq 60); do
        curl -fsS "$url/v1/jobs/$job?wait=60" >"$work/job"
        case $(field state <"$work/job") in queued | running) ;; *) return 0 ;; esac
    done
}

# tuned_resnet: a server without a worker, and a ResNet-18 job that has been tuned; once a run. Sets $url, $job, $model
tuned_resnet() {
    if [ ! -f "$work/resnet.job" ]; then
        start_server
        upload resnet-18
        submit "\"device\": \"cpu\", \"tuner\": {\"trials\": ${TRIALS:-16}, \"seed\": 1}"
        until_ended
        echo "$job $model" >"$work/resnet.job"
        cp "$work/job" "$work/resnet.json"
        curl -fsS -o "$work/module.so" "$url/v1/jobs/$job/module?format=so"
        stop_server
    fi
    read -r job model <"$work/resnet.job"
    [ -n "$server" ] || start_server --no-worker
}

# memory_of PID: resident bytes
memory_of() {
    awk '/^VmRSS:/ {print $2 * 1024}' "/proc/$1/status"
}

# processor_of PID: seconds of processor time that the process, without its children, has had
processor_of() {
    sed 's/^.*) //' "/proc/$1/stat" | awk -v hz="$(getconf CLK_TCK)" '{print ($12 + $13) / hz}'
}
