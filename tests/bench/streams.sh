# SPDX-License-Identifier: Apache-2.0
# A job on the CPU with 2,000 event streams of it open, beside the same job with none, in turn: by how much its trials
# are slower; and how much of the machine's processors the server spent more for them, which says the same where other
# work makes trials uneven.
streams=${STREAMS:-2000}
sh "$here/../http/small_network.sh" "$work/small.onnx"

# tune STREAMS: one job of the small network; prints its trials a second, and the part of the processors' time that the
# server had
tune() {
    submit "\"device\": \"cpu\", \"reuse\": false, \"tuner\": {\"name\": \"random\", \"trials\": ${STREAM_TRIALS:-40}, \"seed\": 5}, \"measure\": {\"repeat\": 3, \"min_repeat_ms\": 20}"
    mkfifo "$work/stay"
    "$build/tests/bench/bench_waiters" "${url##*:}" "/v1/jobs/$job/events" "$1" <"$work/stay" >"$work/waiters" &
    waiters=$!
    exec 3>"$work/stay"
    began=$(date +%s.%N) had=$(processor_of "$server")
    until_ended
    busy=$(awk "BEGIN {print ($(processor_of "$server") - $had) / ($(date +%s.%N) - $began) / $(nproc)}")
    sleep 0.5
    exec 3>&-
    wait $waiters
    rm -f "$work/stay"
    echo "$(field trials_per_s <"$work/job") $busy"
}

start_server --max-waiters $((streams + 100))
model=$(curl -fsS --data-binary "@$work/small.onnx" "$url/v1/models?name=small" | field id)
tune 0 >/dev/null # the first compiles what the others find in the cache
: >"$work/with" >"$work/without"
for _ in $(seq "${PAIRS:-5}"); do
    tune 0 >>"$work/without"
    tune "$streams" >>"$work/with"
done
slower=$(paste "$work/without" "$work/with" | awk '{print 100 * (1 - $3 / $1)}' | median)
busier=$(paste "$work/without" "$work/with" | awk '{print 100 * ($4 - $2)}' | median)
echo "{\"bench\": \"streams\", \"streams\": $streams, \"reached\": $(sed -n 's/^reached \([0-9]*\).*/\1/p' "$work/waiters"), \"trials_per_s\": $(cut -d' ' -f1 "$work/with" | median), \"alone_trials_per_s\": $(cut -d' ' -f1 "$work/without" | median), \"slower_percent\": $slower, \"busier_percent\": $busier, \"limit_percent\": 5}"
