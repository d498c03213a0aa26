#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kill -9, at random, of the server (and with it the private PostgreSQL), of a second worker, of runners and of compilers,
# while jobs run; whoever supervises starts servers and workers anew. In the end every job has succeeded, no trial that
# anybody saw is lost or changed, none was recorded twice, and nothing is stuck or left lying about.
#
# WARPTUNE_CHAOS_SECONDS  how long things are killed (25); `make chaos` does it for 600
# WARPTUNE_CHAOS_SEED     the order of it: printed by each run
. "$(dirname "$0")/lib.sh"
seconds=${WARPTUNE_CHAOS_SECONDS:-25}
seed=${WARPTUNE_CHAOS_SEED:-$(($(date +%s) % 100000 * 10 + $$ % 10))}
echo "chaos for $seconds s, seed $seed"
state=$seed

# pick N: a number below N in $picked.
pick() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    picked=$((state / 65536 % $1))
}

socket=$(printf %s "$work/data/run" | sed 's|/|%2F|g')
database="postgresql://warptune@/warptune?host=$socket"
sql() {
    PGCONNECT_TIMEOUT=5 psql -qtAX "$database" -c "$1"
}

# ---- those who are killed, and their supervisor ----

worker_pid=
last=
finish_all() {
    [ -z "$worker_pid" ] || { kill "$worker_pid"; wait "$worker_pid"; } 2>/dev/null
    finish
}
trap finish_all EXIT

launch_server() {
    "$WARPTUNE_PROGRAM" serve --listen "127.0.0.1:$port" --data-dir "$work/data" --devices cpu --builders 2 \
        >"$work/server.out" 2>>"$work/server.log" &
    server_pid=$!
}
launch_worker() {
    "$WARPTUNE_PROGRAM" worker --database-url "$database" --data-dir "$work/other" --devices cpu --builders 2 \
        2>>"$work/worker.log" &
    worker_pid=$!
}
supervise() {
    kill -0 "$server_pid" 2>/dev/null || { wait "$server_pid" 2>/dev/null; launch_server; }
    kill -0 "$worker_pid" 2>/dev/null || { wait "$worker_pid" 2>/dev/null; launch_worker; }
}

# victim_child ROLE: one of the server's and the worker's children of that role, or nothing.
victim_child() {
    children=$(pgrep -P "$server_pid,$worker_pid" -f "child $1")
    [ -n "$children" ] || return 1
    # shellcheck disable=SC2086 # the list is words on purpose
    set -- $children
    pick $#
    shift "$picked"
    victim=$1
}
# choose: a victim; false when there is none of its sort just now.
choose() {
    pick 4
    case $picked in
        0) what=server victim=$server_pid ;;
        1) what=worker victim=$worker_pid ;;
        2) what=runner && victim_child run ;;
        3) what=builder && victim_child build ;;
    esac
}
kill_one() {
    until choose; do :; done
    kill -9 "$victim" 2>/dev/null && eval "n_$what=\$((n_$what + 1))"
    case $what in server | worker) wait "$victim" 2>/dev/null ;; esac
}
n_server=0 n_worker=0 n_runner=0 n_builder=0

# ---- jobs, and what is seen of them ----

jobs=
open_jobs=
submit() { # NAME TUNER TRIALS
    key=chaos-$1
    # An answer may be lost with the server: the key makes the same job of the same request.
    curl -sS --max-time 20 -o "$work/body" -H "Idempotency-Key: $key" -H 'Content-Type: application/json' \
        -d "{\"model_id\": \"$model\", \"reuse\": false, \"tuner\": {\"name\": \"$2\", \"trials\": $3, \"seed\": 5},
             \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}" "$api/jobs" 2>/dev/null || return
    job=$(field id)
    [ -n "$job" ] || return
    jobs="$jobs $job" open_jobs="$open_jobs $job" n_jobs=$((n_jobs + 1))
}
n_jobs=0

# look JOB: what is recorded now, as a client sees it; and whether it has ended.
look() {
    curl -sS --fail --max-time 20 "$api/jobs/$1/records?format=json" >"$work/now" 2>/dev/null &&
        cat "$work/now" >>"$work/seen.$1"
    curl -sS --fail --max-time 20 -o "$work/body" "$api/jobs/$1" 2>/dev/null || return
    case $(field state) in
        succeeded | failed | cancelled) ;;
        *) still="$still $1" ;;
    esac
}
look_at_jobs() {
    still=
    for job in $open_jobs; do
        before=$still
        look "$job" || still="$before $job"
    done
    open_jobs=$still
    # Two jobs at a time, as long as there is time for them.
    [ "$(date +%s)" -lt "$end" ] || return
    # shellcheck disable=SC2086
    set -- $open_jobs
    [ $# -ge 2 ] || submit "$seed-$n_jobs" "$([ $((n_jobs % 2)) = 0 ] && echo auto || echo random)" 12
}

# ---- the run ----

start_server --devices cpu --builders 2
port=${url##*:}
launch_worker
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
end=$(($(date +%s) + seconds))
until [ "$(date +%s)" -ge "$end" ]; do
    pick 4
    for _ in $(seq $((2 + picked))); do
        supervise
        look_at_jobs
        sleep 0.5
    done
    kill_one
done
echo "killed: server $n_server, worker $n_worker, runner $n_runner, builder $n_builder; jobs: $n_jobs"
ok "something was killed" [ $((n_server + n_worker + n_runner + n_builder)) -gt 0 ]
ok "there were jobs" [ "$n_jobs" -ge 2 ]

# ---- after it ----

supervise
for _ in $(seq 300); do
    request_status=$(curl -s --max-time 5 -o /dev/null -w '%{http_code}' "$url/readyz")
    [ "$request_status" = 200 ] && break
    supervise
    sleep 0.2
done
ok "the server is back" [ "$request_status" = 200 ]
for job in $jobs; do
    request "job $job ends" 200 "$api/jobs/$job?wait=110"
    [ "$(field state)" = running ] && request "job $job ends, waited for again" 200 "$api/jobs/$job?wait=110"
    ok "job $job succeeded" [ "$(field state)" = succeeded ]
    request "records of $job" 200 "$api/jobs/$job/records?format=json"
    sort -u "$work/seen.$job" >"$work/seen" 2>/dev/null
    ok "all of $job that was seen is there, unchanged" [ "$(sort "$work/body" | comm -23 "$work/seen" - | wc -l)" = 0 ]
    request "events of $job" 200 "$api/jobs/$job/events"
    ok "events of $job: one number after the other" \
        [ "$(sed -n 's/^id: *//p' "$work/body" | awk '$1 != NR { bad++ } END { print bad + 0, (NR > 0) }')" = "0 1" ]
done

# zero NAME QUERY: which counts what must not be.
zero() {
    found=$(sql "$2")
    ok "$1: ${found:-no answer}" [ "$found" = 0 ]
}
# A result a configuration: the table forbids a second row, and each row was told of once.
zero "trials recorded twice" "SELECT count(*) FROM (SELECT FROM trials GROUP BY job_id, task, template, index
    HAVING count(*) > 1) twice"
zero "trials told of twice, or never" "SELECT count(*) FROM trials t FULL JOIN (SELECT job_id,
    (data->>'task')::int AS task, (data->>'number')::bigint AS number, count(*) AS n FROM events WHERE kind = 'trial'
    GROUP BY 1, 2, 3) e USING (job_id, task, number) WHERE e.n IS DISTINCT FROM 1 OR t.job_id IS NULL"
zero "tasks whose trials are not numbered 0, 1, …" "SELECT count(*) FROM tasks t LEFT JOIN (SELECT job_id,
    task AS number, count(*) AS n, min(number) AS first, max(number) AS last FROM trials GROUP BY 1, 2) x
    USING (job_id, number) WHERE coalesce(x.n, 0) <> t.trials_done OR x.first <> 0 OR x.last <> t.trials_done - 1"
zero "tasks whose sums are wrong" "SELECT count(*) FROM tasks WHERE trials_done <> (SELECT sum(e) FROM unnest(errors) e)"
zero "tasks with more or fewer trials than planned" \
    "SELECT count(*) FROM tasks WHERE stop_reason = 'trials' AND trials_done <> trials_planned"
zero "tasks that did not end" "SELECT count(*) FROM tasks WHERE state <> 'succeeded'"
zero "jobs whose events have a gap" "SELECT count(*) FROM jobs j LEFT JOIN (SELECT job_id, count(*) AS n,
    max(number) AS last FROM events GROUP BY 1) e ON e.job_id = j.id
    WHERE e.n IS DISTINCT FROM j.last_event OR e.last IS DISTINCT FROM j.last_event"
zero "jobs that did not succeed" "SELECT count(*) FROM jobs WHERE state <> 'succeeded'"
ok "as many jobs as were asked for" [ "$(sql 'SELECT count(*) FROM jobs')" = "$n_jobs" ]
zero "work left, or leased" "SELECT count(*) FROM queue"

# What the killed left lying about goes with the next start; and an ordinary end leaves nothing.
kill "$worker_pid"
wait "$worker_pid"
ok "the worker ends well" [ $? -eq 0 ]
worker_pid=
ok "no uploads are left" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]
stop_server
ok "nothing of the killed is left" [ -z "$(find "$work" -mindepth 3 -maxdepth 3 -regex '.*/\(code/tmp-\|work/\)[^/]*')" ]
