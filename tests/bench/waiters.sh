# SPDX-License-Identifier: Apache-2.0
# What a client that waits costs: resident memory of the server with 2,000 of a kind, less that without, for each.
waiters=${WAITERS:-2000}
start_server --no-worker --max-waiters $((waiters + 100))
upload squeezenet-1.1
submit '"device": "cpu"'

# cost KIND PATH
cost() {
    before=$(memory_of "$server")
    mkfifo "$work/stay"
    "$build/tests/bench/bench_waiters" "${url##*:}" "$2" "$waiters" <"$work/stay" >"$work/waiters" &
    client=$!
    exec 3>"$work/stay"
    for _ in $(seq 300); do
        [ "$(curl -fsS "$url/metrics" | sed -n 's/^warptune_waiters //p')" -ge "$waiters" ] && break
        sleep 0.1
    done
    after=$(memory_of "$server")
    exec 3>&-
    wait $client
    rm -f "$work/stay"
    echo "{\"bench\": \"waiters\", \"kind\": \"$1\", \"waiters\": $waiters, \"kb_each\": $(awk "BEGIN {printf \"%.1f\", ($after - $before) / $waiters / 1000}"), \"limit_kb\": 100}"
}
cost poll "/v1/jobs/$job?wait=300"
stop_server
start_server --no-worker --max-waiters $((waiters + 100))
cost stream "/v1/jobs/$job/events"
