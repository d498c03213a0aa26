#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The data folder, private PostgreSQL included, on a small disk that fills up: a model that does not fit is refused and
# leaves nothing; a job whose results find no room waits, and goes on when there is room again, with nothing lost and no
# trial that blames the disk.
. "$(dirname "$0")/lib.sh"
mkdir "$work/data"
if ! mount -t tmpfs -o size=400m,mode=0711 warptune-test "$work/data" 2>/dev/null; then
    echo "skipped: no file system can be mounted here"
    exit 0
fi
finish_all() {
    stop_server
    umount "$work/data" || umount -l "$work/data"
    finish
}
trap finish_all EXIT
start_server --devices cpu --builders 2
octets='Content-Type: application/octet-stream'
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)

room_mb() {
    df -m --output=avail "$work/data" | tail -n 1 | tr -d ' '
}
# leave MB: a file takes all but so much.
leave() {
    rm -f "$work/data/ballast"
    head -c $((($(room_mb) - $1) * 1048576)) /dev/zero >"$work/data/ballast"
}
refused() { # NAME CURL-ARGUMENT…
    refusal=$1
    shift
    before=$(room_mb)
    request "$refusal" 507 -H "$octets" "$@" "$api/models?name=large"
    problem "$refusal" disk-full
    ok "$refusal: nothing is left of it" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]
    ok "$refusal: no room was lost" [ "$(room_mb)" -ge $((before - 1)) ]
}

# More than the disk has; less, but with its rows more; and one that does not say how long it is, found while it comes.
truncate -s 500M "$work/large"
refused "larger than the disk" --data-binary "@$work/large"
leave 150
truncate -s 100M "$work/large"
refused "no room for its rows" --data-binary "@$work/large"
leave 110
truncate -s 17M "$work/large"
refused "no room for its rows, in chunks" -H 'Transfer-Encoding: chunked' --data-binary "@$work/large"
rm "$work/large" "$work/data/ballast"
request "there is but one model" 200 "$api/models"
ok "there is but one model" [ "$(grep -o '"sha256"' "$work/body" | wc -l)" = 1 ]

# A job, and its disk fills up to the last byte.
post "submit" 202 /jobs "{\"model_id\": \"$model\", \"tuner\": {\"name\": \"random\", \"trials\": 12, \"seed\": 5},
    \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
job=$(field id)
records() {
    curl -sS --fail --max-time 20 "$api/jobs/$job/records?format=json" >"$1" 2>/dev/null
}
for _ in $(seq 300); do
    records "$work/before" && [ "$(wc -l <"$work/before")" -ge 4 ] && break
    sleep 0.1
done
ok "the job began" [ "$(wc -l <"$work/before")" -ge 4 ]
cat /dev/zero >"$work/data/ballast" 2>/dev/null
ok "the disk is full" [ "$(room_mb)" = 0 ]

for _ in $(seq 200); do
    cat /dev/zero >>"$work/data/ballast" 2>/dev/null
    [ "$(grep -c 'work put back.*disk-full' "$work/server.log")" -ge 4 ] && break
    sleep 0.2
done
ok "the log says why nothing goes on" grep -q 'work put back.*disk-full' "$work/server.log"
socket=$(printf %s "$work/data/run" | sed 's|/|%2F|g')
attempts=$(psql -qtAX "postgresql://warptune@/warptune?host=$socket" -c 'SELECT max(attempts) <= 1 FROM queue')
ok "no attempt is used up" [ "$attempts" = t ]
request "the server lives" 200 "$url/healthz"
request "the job waits" 200 "$api/jobs/$job"
ok "the job waits: it runs" [ "$(field state)" = running ]

rm "$work/data/ballast"
request "the job goes on" 200 "$api/jobs/$job?wait=110"
[ "$(field state)" = running ] && request "the job goes on still" 200 "$api/jobs/$job?wait=110"
ok "the job succeeded" [ "$(field state)" = succeeded ]
request "records" 200 "$api/jobs/$job/records?format=json"
sort "$work/before" >"$work/sorted"
ok "nothing is lost" [ "$(sort "$work/body" | comm -23 "$work/sorted" - | wc -l)" = 0 ]
ok "no trial failed for want of room" [ "$(grep -c 'disk is full\|No space left\|found no room' "$work/body")" = 0 ]
ok "all trials succeeded" [ "$(grep -c '"error_no": *[1-9]' "$work/body")" = 0 ]
request "an upload is welcome again" 200 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=small"
