# SPDX-License-Identifier: Apache-2.0
# 10,000 jobs submitted by 16 clients, the server killed with -9 when half are acknowledged and started again at once:
# the clients send again what was not answered, under the same Idempotency-Key. Every job acknowledged is there, none
# twice. The time is that of all, the restart included. Beside it, what the disk allows: the commits a second of 16
# clients that insert one number each.
jobs=${JOBS:-10000}
start_server --no-worker
PORT=${url##*:}
upload squeezenet-1.1
commits=
if pgbench=$(ls /usr/lib/postgresql/*/bin/pgbench 2>/dev/null | tail -n 1) && [ -n "$pgbench" ]; then
    sql 'CREATE TABLE bench_commits (n int)'
    echo 'INSERT INTO bench_commits VALUES (1)' >"$work/commit.sql"
    commits=$("$pgbench" -n -M prepared -c 16 -j 2 -T 3 -h "$work/data/run" -U warptune -f "$work/commit.sql" warptune 2>/dev/null |
        sed -n 's/^tps = \([0-9]*\).*/\1/p')
fi
"$build/tests/bench/bench_submit" "$url" "$model" "$jobs" 16 >"$work/ids" 2>"$work/seconds" &
client=$!
while [ "$(wc -l <"$work/ids")" -lt $((jobs / 2)) ] && kill -0 $client 2>/dev/null; do
    sleep 0.05
done
kill -9 "$server"
wait "$server" 2>/dev/null || true
start_server --no-worker
wait $client
sort -u "$work/ids" >"$work/acknowledged"
sql 'SELECT id FROM jobs' | sort >"$work/stored"
lost=$(comm -23 "$work/acknowledged" "$work/stored" | wc -l)
extra=$(comm -13 "$work/acknowledged" "$work/stored" | wc -l)
seconds=$(sed -n 's/^seconds \([0-9.]*\).*/\1/p' "$work/seconds")
echo "{\"bench\": \"submit\", \"jobs\": $(wc -l <"$work/acknowledged"), \"seconds\": $seconds, \"limit_s\": 20, \"jobs_per_s\": $(awk "BEGIN {printf \"%.0f\", $jobs / $seconds}"), \"pgbench_commits_per_s\": ${commits:-0}, \"sent_again\": $(sed -n 's/.*repeated \([0-9]*\).*/\1/p' "$work/seconds"), \"lost\": $lost, \"made_twice\": $extra}"
PORT=
stop_server
rm -rf "$work/data" "$work/resnet.job"
