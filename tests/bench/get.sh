# SPDX-License-Identifier: Apache-2.0
# GET /v1/jobs/{id} of a ResNet-18 job (19 tasks, 16 kB) through keep-alive connections, beside pgbench with prepared
# statements, in turn.
#
# get_job        One job that does not change. The peer runs the statement that the answer is made of. The server runs
#                it when the job has changed, else the small one that asks for the job's version: the ratio to pgbench
#                with that one, `ratio_to_check`, says how much of PostgreSQL's speed is left.
# get_job_cold   Requests for 3,000 jobs in random order, so that next to none finds a text that was kept: both sides
#                run the whole statement each time.
# get_job_p99    The slowest of a hundred, at 64 connections, beside pgbench with the small statement and as many clients.
pgbench=$(ls /usr/lib/postgresql/*/bin/pgbench 2>/dev/null | tail -n 1)

# http CONNECTIONS WRK-ARGUMENT…: requests a second
http() {
    connections=$1
    shift
    wrk -t 2 -c "$connections" -d "${SECONDS_EACH:-5}" "$@" | tee "$work/wrk" | sed -n 's/^Requests\/sec: *\([0-9]*\).*/\1/p'
}

# peer FILE: transactions a second
peer() {
    "$pgbench" -n -M prepared -c 8 -j 2 -T "${SECONDS_EACH:-5}" -h "$work/data/run" -U warptune -f "$1" warptune \
        2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1/p'
}

# statement BEGINNING: as the server sent it last, from one of its connections
statement() {
    sql "SELECT query FROM pg_stat_activity WHERE query LIKE '$1%' LIMIT 1"
}

# The same job under 3,000 ids, with its tasks.
copy_job() {
    sql "CREATE TEMP TABLE twin AS SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid AS id
             FROM generate_series(1, 3000) n;
         INSERT INTO jobs SELECT p.* FROM twin, jobs j,
             LATERAL jsonb_populate_record(j, jsonb_build_object('id', twin.id)) p WHERE j.id = '$job';
         INSERT INTO tasks SELECT p.* FROM twin, tasks t,
             LATERAL jsonb_populate_record(t, jsonb_build_object('job_id', twin.id)) p WHERE t.job_id = '$job'"
    sql 'VACUUM ANALYZE jobs'
    sql 'VACUUM ANALYZE tasks'
}

get_figures() {
    curl -fsS "$url/v1/jobs/$job" >/dev/null
    statement 'SELECT j.id, j.model_id' >"$work/whole"
    curl -fsS "$url/v1/jobs/$job" >/dev/null
    statement 'SELECT j.last_event' >"$work/check"
    sed "s/\\\$1/'$job'/" "$work/whole" >"$work/whole.sql"
    sed "s/\\\$1/'$job'/" "$work/check" >"$work/check.sql"
    : >"$work/https" >"$work/peers" >"$work/checks"
    for _ in $(seq "${PAIRS:-5}"); do
        http 8 "$url/v1/jobs/$job" >>"$work/https"
        peer "$work/whole.sql" >>"$work/peers"
        peer "$work/check.sql" >>"$work/checks"
    done
    ratios=$(paste "$work/https" "$work/peers" | awk '{print $1 / $2}' | median)
    checks=$(paste "$work/https" "$work/checks" | awk '{print $1 / $2}' | median)
    echo "{\"bench\": \"get_job\", \"requests_per_s\": $(median <"$work/https"), \"pgbench_tps\": $(median <"$work/peers"), \"ratio\": $ratios, \"ratio_to_check\": $checks, \"wanted\": 0.7}"
}

cold_figures() {
    copy_job
    echo "math.randomseed(os.time()) request = function() return wrk.format('GET', string.format('/v1/jobs/00000000-0000-7000-8000-%012d', math.random(3000))) end" >"$work/cold.lua"
    { echo '\set n random(1, 3000)'; sed "s/\\\$1/('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid/" "$work/whole"; } >"$work/cold.sql"
    : >"$work/https" >"$work/peers"
    for _ in $(seq "${PAIRS:-5}"); do
        http 8 -s "$work/cold.lua" "$url" >>"$work/https"
        peer "$work/cold.sql" >>"$work/peers"
    done
    ratios=$(paste "$work/https" "$work/peers" | awk '{print $1 / $2}' | median)
    echo "{\"bench\": \"get_job_cold\", \"requests_per_s\": $(median <"$work/https"), \"pgbench_tps\": $(median <"$work/peers"), \"ratio\": $ratios}"
}

tail_figure() {
    : >"$work/tails" >"$work/peers"
    for _ in $(seq "${PAIRS:-5}"); do
        http 64 --latency "$url/v1/jobs/$job" >/dev/null
        awk '$1 == "99%" {ms = $2 + 0; if ($2 ~ /us$/) ms /= 1000; else if ($2 !~ /ms$/) ms *= 1000; print ms}' "$work/wrk" >>"$work/tails"
        "$pgbench" -n -M prepared -c 64 -j 2 -T "${SECONDS_EACH:-5}" -l --log-prefix="$work/waits" -h "$work/data/run" \
            -U warptune -f "$work/check.sql" warptune >/dev/null 2>&1
        cat "$work"/waits.* | awk '{print $3 / 1000}' | sort -n >"$work/sorted"
        sed -n "$(($(wc -l <"$work/sorted") * 99 / 100))p" "$work/sorted" >>"$work/peers"
        rm -f "$work"/waits.*
    done
    echo "{\"bench\": \"get_job_p99\", \"connections\": 64, \"p99_ms\": $(median <"$work/tails"), \"pgbench_p99_ms\": $(median <"$work/peers"), \"limit_ms\": 10}"
}

if command -v wrk >/dev/null && [ -n "$pgbench" ]; then
    tuned_resnet
    get_figures
    tail_figure
    cold_figures
else
    skip get "wrk or pgbench is missing"
fi
