#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A database of its own that the server is given: two servers that migrate it at once, PostgreSQL killed and started
# again in the middle of a job, closed to writes, out of connections. Each shows as 503, passes by itself, and no trial
# that was recorded is lost.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)")
pg=$work/pg
as_postgres() {
    if [ "$(id -u)" -eq 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi
}
mkdir "$pg"
[ "$(id -u)" -ne 0 ] || chown postgres "$pg"
pg_ctl() {
    as_postgres "$bin/pg_ctl" -D "$pg/data" -l "$pg/log" -w -t 60 "$@" >/dev/null
}
sql() {
    "$bin/psql" -qtA "postgresql://boss@/${2:-app}?host=$pg" -c "$1"
}
finish_all() {
    stop_server
    [ -z "${second:-}" ] || kill "$second" 2>/dev/null
    pg_ctl stop -m immediate 2>/dev/null
    finish
}
trap finish_all EXIT
as_postgres "$bin/initdb" -D "$pg/data" -U boss -A trust --no-sync >/dev/null
printf "listen_addresses = ''\nunix_socket_directories = '%s'\nfsync = off\n" "$pg" |
    as_postgres tee -a "$pg/data/postgresql.conf" >/dev/null
pg_ctl start
ok "PostgreSQL runs" [ $? -eq 0 ]
sql 'CREATE ROLE app LOGIN' postgres
sql 'CREATE DATABASE app OWNER app' postgres
export WARPTUNE_DATABASE_URL="postgresql://app@/app?host=$pg"

# Two servers find the database empty.
"$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/second" --no-worker >"$work/second.out" 2>"$work/second.log" &
second=$!
start_server --devices cpu
for _ in $(seq 100); do
    grep -q '^listening' "$work/second.out" && break
    sleep 0.1
done
ok "both start" grep -q '^listening' "$work/second.out"
ok "each migration ran once" [ "$(sql 'SELECT count(*) = max(version) FROM migrations')" = t ]
kill "$second"
wait "$second"
ok "the second ends well" [ $? -eq 0 ]
second=

sh "$here/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)
post "submit" 202 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"random\", \"trials\": 7, \"seed\": 5},
    \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
job=$(field id)

# records FILE: every trial that is recorded, a line each; false when the server does not say.
records() {
    curl -sS --fail --max-time 20 "$api/jobs/$job/records?format=json" 2>/dev/null | sort >"$1"
}
# comes STATUS: within 20 s, and not much later; the problem is then in $work/body.
comes() {
    for _ in $(seq 200); do
        [ "$(curl -sS --max-time 10 -o "$work/body" -w '%{http_code}' "$url/readyz")" = "$1" ] && return 0
        sleep 0.1
    done
    return 1
}
problem_is() {
    grep -q "urn:warptune:problem:$1\"" "$work/body"
}
# end_connections: those of the server; what it has in its pool is gone.
end_connections() {
    sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'" >/dev/null
}
for _ in $(seq 200); do
    records "$work/before"
    [ "$(wc -l <"$work/before")" -ge 1 ] && break
    sleep 0.1
done
ok "it begins" [ "$(wc -l <"$work/before")" -ge 1 ]

# It crashes, and is away for a moment.
pg_ctl stop -m immediate
ok "not ready" comes 503
ok "because the database is away" problem_is database-away
request "nor are jobs" 503 "$api/jobs/$job"
request "but it lives" 200 "$url/healthz"
ok "and tells that the database is away" sh -c "curl -sS '$url/metrics' | grep -qx 'warptune_database_up 0'"
pg_ctl start
ok "ready again" comes 200

# The server that we are connected to takes no writes any more.
sql "ALTER SYSTEM SET default_transaction_read_only = on" postgres
sql "SELECT pg_reload_conf()" postgres >/dev/null
ok "not ready when it is closed to writes" comes 503
ok "and says so" sh -c "grep -q 'urn:warptune:problem:database-\(read-only\|away\)' '$work/body'"
curl -sS --max-time 30 -o "$work/posted" -w '%{http_code}' -H 'Content-Type: application/json' \
    -d "{\"model_id\": \"$model\", \"key\": \"nobody\"}" "$api/jobs" >"$work/posted.status" &
posted=$!
sleep 2
"$bin/psql" -qtA "postgresql://boss@/postgres?host=$pg&options=-c%20default_transaction_read_only%3Doff" \
    -c "ALTER SYSTEM RESET default_transaction_read_only" -c "SELECT pg_reload_conf()" >/dev/null
ok "ready when it is open again" comes 200
wait $posted
ok "a request that met it went through" [ "$(cat "$work/posted.status")" = 202 ]

# Others have all connections.
sql 'ALTER ROLE app CONNECTION LIMIT 0' postgres
end_connections
ok "not ready without connections" comes 503
ok "and says why" problem_is database-away
sql 'ALTER ROLE app CONNECTION LIMIT -1' postgres
ok "ready with them" comes 200

request "the job went on all the while" 200 "$api/jobs/$job?wait=100"
ok "and succeeded" [ "$(field state)" = succeeded ]
records "$work/after"
ok "no trial was lost" [ "$(comm -23 "$work/before" "$work/after" | wc -l)" = 0 ]
ok "all are there" [ "$(wc -l <"$work/after")" = 21 ]
twice=$(sed 's/.*"task":\([0-9]*\).*"template":\("[^"]*"\).*"index":\([0-9]*\).*/\1 \2 \3/' "$work/after" | sort | uniq -d | wc -l)
ok "none twice" [ "$twice" = 0 ]
