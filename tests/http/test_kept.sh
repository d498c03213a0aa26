#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job's text is kept for who looks again: it is right at once after each change, by whichever server the change came,
# it is shown to nobody who may not see the job, and its tag saves sending it again.
. "$(dirname "$0")/lib.sh"
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
start_server --no-worker
request "upload" 201 --data-binary "@$work/net.onnx" -H 'Content-Type: application/octet-stream' "$api/models"
post "submit" 202 /jobs "{\"model_id\": \"$(field id)\"}"
job=$(field id)

request "look" 200 "$api/jobs/$job"
tag=$(header ETag)
cp "$work/body" "$work/first"
ok "it has a tag" [ -n "$tag" ]
request "look again" 200 "$api/jobs/$job"
ok "the same tag" [ "$(header ETag)" = "$tag" ]
ok "the same text" cmp -s "$work/first" "$work/body"
request "not sent again" 304 -H "If-None-Match: $tag" "$api/jobs/$job"
request "HEAD" 200 -I "$api/jobs/$job"
ok "HEAD has the tag" [ "$(header ETag)" = "$tag" ]

# A second server on the same database.
"$WARPTUNE_PROGRAM" serve --no-worker --listen 127.0.0.1:0 --data-dir "$work/second" \
    --database-url "postgresql://warptune@/warptune?host=$work/data/run" >"$work/second.out" 2>>"$work/server.log" &
second=$!
for _ in $(seq 100); do grep -q '^listening' "$work/second.out" && break; sleep 0.1; done
there=$(sed -n 's/^listening on //p' "$work/second.out")/v1
request "look there" 200 "$there/jobs/$job"
request "look there again" 200 "$there/jobs/$job"
ok "there: queued" [ "$(field state)" = queued ]
for move in pause resume cancel retry; do
    request "$move here" 202 -X POST "$api/jobs/$job/$move"
    cp "$work/body" "$work/moved"
    request "look there after $move" 200 -H "If-None-Match: $tag" "$there/jobs/$job"
    ok "there: the same after $move" cmp -s "$work/moved" "$work/body"
    tag=$(header ETag)
    request "there: not sent again after $move" 304 -H "If-None-Match: $tag" "$there/jobs/$job"
done
request "with wait" 200 "$there/jobs/$job?wait=1"
request "with fail, waiting" 202 "$there/jobs/$job?fail=1"
request "cancel there" 202 -X POST "$there/jobs/$job/cancel"
request "with fail, cancelled" 424 "$api/jobs/$job?fail=1"
problem "with fail, cancelled" job-cancelled

# Another project sees nothing of it, whoever has just looked.
admin=$("$WARPTUNE_PROGRAM" token create --scope admin --name root --data-dir "$work/data" 2>/dev/null)
sleep 3.2
request "a project" 201 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' -d '{"name": "other"}' "$api/projects"
request "its token" 201 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' \
    -d "{\"name\": \"x\", \"scopes\": [\"read\"], \"project_id\": \"$(field id)\"}" "$api/tokens"
other=$(field token)
request "whose it is" 200 -H "Authorization: Bearer $admin" "$api/jobs/$job"
tag=$(header ETag)
request "another project" 404 -H "Authorization: Bearer $other" "$api/jobs/$job"
request "another project, with the tag" 404 -H "Authorization: Bearer $other" -H "If-None-Match: $tag" "$api/jobs/$job"
request "nobody" 401 -H "If-None-Match: $tag" "$api/jobs/$job"
kill $second
wait $second
ok "the second server ends well" [ $? -eq 0 ]
