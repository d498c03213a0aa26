# SPDX-License-Identifier: Apache-2.0
# Memory over a million requests: resident after a tenth of them, and at the end. And under valgrind what a few thousand
# leave behind.
requests=${REQUESTS:-1000000}

# ask SECONDS: until so many requests more have been answered
answered() {
    curl -fsS "$url/metrics" | sed -n 's/^warptune_http_requests_total{.*} \([0-9]*\)$/\1/p' | awk '{sum += $1} END {print sum + 0}'
}
ask_until() {
    while [ "$(answered)" -lt "$1" ]; do
        wrk -t 2 -c 16 -d 2 -s "$work/mix.lua" "$url" >/dev/null
    done
}

resident() {
    start_server --no-worker
    upload squeezenet-1.1
    submit '"device": "cpu"'
    write_mix
    ask_until $((requests / 10))
    early=$(memory_of "$server")
    ask_until "$requests"
    late=$(memory_of "$server")
    echo "{\"bench\": \"memory\", \"requests\": $(answered), \"rss_early\": $early, \"rss_late\": $late, \"ratio\": $(ratio "$late" "$early"), \"limit\": 1.1}"
    stop_server
}

# A job, a list, a model, its tasks, what is not there, what is wrong.
write_mix() {
    cat >"$work/mix.lua" <<LUA
local paths = {"/v1/jobs/$job", "/v1/jobs", "/v1/jobs/$job?wait=0", "/v1/models/$model", "/v1/jobs/$job/log",
               "/v1/configs", "/v1/nothing", "/v1/jobs?limit=x", "/healthz", "/v1/jobs/00000000-0000-7000-8000-000000000000"}
local at = 0
request = function() at = at % #paths + 1 return wrk.format("GET", paths[at]) end
LUA
}

leaks() {
    UNDER="valgrind --quiet --leak-check=full --show-leak-kinds=definite --log-file=$work/leaks"
    start_server --no-worker --http-threads 2
    UNDER=
    job=$(curl -fsS "$url/v1/jobs" | field id)
    model=$(curl -fsS "$url/v1/models" | field id)
    write_mix
    before=$(answered)
    while [ "$(answered)" -lt $((before + ${LEAK_REQUESTS:-3000})) ]; do
        wrk -t 1 -c 4 -d 2 --timeout 30 -s "$work/mix.lua" "$url" >/dev/null
    done
    n=$(($(answered) - before))
    stop_server
    lost=$(sed -n 's/.* \([0-9,]*\) bytes in [0-9,]* blocks are definitely lost.*/\1/p' "$work/leaks" | tr -d , | awk '{sum += $1} END {print sum + 0}')
    wrong=$(grep -c 'Invalid \|uninitialised' "$work/leaks" || true)
    echo "{\"bench\": \"leaks\", \"requests\": $n, \"bytes_lost\": $lost, \"wrong_accesses\": $wrong, \"limit\": 0}"
}

if command -v wrk >/dev/null; then
    resident
    if command -v valgrind >/dev/null; then
        leaks
    else
        skip leaks "valgrind is missing"
    fi
else
    skip memory "wrk is missing"
fi
