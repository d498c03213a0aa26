#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Teams and tokens: when a server opens to other hosts, what each scope may, that a project's things are not there for
# another one on any route, quotas, shared configurations, and that a revoked token is soon worth nothing.
. "$(dirname "$0")/lib.sh"
warptune=$WARPTUNE_PROGRAM
json='Content-Type: application/json'
octets='Content-Type: application/octet-stream'
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"

# as TOKEN NAME STATUS CURL-ARGUMENT…
as() {
    token=$1
    shift
    name=$1 status=$2
    shift 2
    request "$name" "$status" -H "Authorization: Bearer $token" "$@"
}

# ---- before there is a token: this host alone ----
"$warptune" serve --listen 0.0.0.0:0 --no-worker --data-dir "$work/data" >"$work/refused" 2>&1
ok "other hosts, no token: refused" [ $? -eq 1 ]
ok "other hosts, no token: says why" grep -q 'no token.*--allow-anonymous' "$work/refused"
WARPTUNE_ALLOW_ANONYMOUS=1 "$warptune" serve --listen '[::1]:0' --no-worker --data-dir "$work/data" >"$work/allowed" 2>&1 &
allowed=$!
for _ in $(seq 100); do grep -q '^listening' "$work/allowed" && break; sleep 0.1; done
kill $allowed && wait $allowed
ok "anonymous: starts" grep -q '^listening on http://\[::1\]' "$work/allowed"

start_server --no-worker
ok "says that there is no token" grep -q 'there is no token: everybody' "$work/server.log"
request "whoami without tokens" 200 "$api/whoami"
ok "whoami: everybody is the admin" grep -q '"project":"default","token_id":null,"scope":"admin","server_admin":true' "$work/body"
request "upload without tokens" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=net"
default_model=$(field id)
post "a first token that is no admin's" 409 /tokens '{"name": "x", "scopes": ["read"]}'
problem "a first token that is no admin's" first-token scopes

# ---- the first token closes it ----
admin=$("$warptune" token create --scope admin --name root --data-dir "$work/data" 2>"$work/created")
ok "token: its form" sh -c 'echo "$0" | grep -Eq "^wt_[0-9A-Za-z]{36}$"' "$admin"
ok "token: its id is told apart" grep -q '^token [0-9a-f-]* of project default' "$work/created"
sleep 3.2
request "no token" 401 "$api/jobs"
problem "no token" token-missing
ok "no token: how to authenticate" grep -qi '^www-authenticate: Bearer realm="warptune"' "$work/headers"
request "another scheme" 401 -u user:password "$api/jobs"
problem "another scheme" token-invalid
as wt_000000000000000000000000000000000000 "not the form of one" 401 "$api/jobs"
ok "not the form of one: says invalid" grep -qi '^www-authenticate: .*error="invalid_token"' "$work/headers"
for path in healthz readyz metrics; do request "$path needs none" 200 "$url/$path"; done
request "no such route needs none" 404 "$api/nothing"
request "upload without a token, refused before it is sent" 401 -H "$octets" -H 'Expect: 100-continue' --data-binary "@$work/net.onnx" "$api/models"
head -c 3000000 /dev/zero >"$work/large"
request "log without a token" 401 --data-binary "@$work/large" "$api/configs/import"
as "$admin" "whoami" 200 "$api/whoami"
request "whoami, another way to write it" 200 -H "Authorization: bearer  $admin" "$api/whoami"
ok "whoami: server admin" grep -q '"server_admin":true' "$work/body"

# ---- two projects ----
# make_token PROJECT-ID SCOPE: sets $made and $made_id.
make_token() {
    as "$admin" "token of scope $2" 201 -H "$json" -d "{\"name\": \"t\", \"scopes\": [\"$2\"], \"project_id\": \"$1\"}" "$api/tokens"
    made=$(field token) made_id=$(field id)
    ok "token of scope $2: kept in no cache" grep -qi '^cache-control: no-store' "$work/headers"
}
as "$admin" "project a" 201 -H "$json" -d '{"name": "lab-a"}' "$api/projects"
a=$(field id)
as "$admin" "project a again" 409 -H "$json" -d '{"name": "lab-a"}' "$api/projects"
problem "project a again" project-exists name
b=$("$warptune" project create lab-b --data-dir "$work/data")
as "$admin" "projects" 200 "$api/projects"
ok "projects: three" [ "$(grep -o '"config_visibility"' "$work/body" | wc -l)" = 3 ]
make_token "$a" read; a_read=$made
make_token "$a" submit; a_submit=$made
make_token "$a" admin; a_admin=$made
make_token "$b" admin; b_admin=$made

as "$a_submit" "a's model" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=net"
model=$(field id)
ok "a's model: not default's of the same bytes" [ "$model" != "$default_model" ]
as "$a_submit" "a's model again" 200 -H "$octets" --data-binary "@$work/net.onnx" "$api/models"
ok "a's model again: the same" [ "$(field id)" = "$model" ]
as "$a_submit" "a's job" 202 -H "$json" -H 'Idempotency-Key: k' -d "{\"model_id\": \"$model\", \"labels\": {\"x\": \"y\"}}" "$api/jobs"
job=$(field id)

# Every route of one job or model: there for its project; for another, and for the server's admin too, as if it were not.
unknown=00000000-0000-4000-8000-000000000000
for route in 'GET jobs/@' 'GET jobs/@?wait=1' 'GET jobs/@/events' 'GET jobs/@/log' 'GET jobs/@/records' 'GET jobs/@/config' \
    'GET jobs/@/module' 'POST jobs/@/cancel' 'POST jobs/@/pause' 'POST jobs/@/resume' 'POST jobs/@/retry' \
    'GET models/@' 'GET models/@/file' 'GET models/@/tasks' 'DELETE models/@'; do
    method=${route%% *} path=${route#* }
    case $path in models*) id=$model ;; *) id=$job ;; esac
    for other in "$b_admin" "$admin"; do
        as "$other" "b: $route" 404 -X "$method" "$api/$(echo "$path" | sed "s/@/$id/")"
        sed 's/"request_id":"[^"]*"//; s/'$id'/ID/' "$work/body" >"$work/theirs"
        as "$other" "b: $route of none" 404 -X "$method" "$api/$(echo "$path" | sed "s/@/$unknown/")"
        sed 's/"request_id":"[^"]*"//; s/'$unknown'/ID/' "$work/body" >"$work/nobodys"
        ok "b: $route: the answer is that for none" cmp -s "$work/theirs" "$work/nobodys"
    done
    request "nobody: $route" 401 -X "$method" "$api/$(echo "$path" | sed "s/@/$id/")"
    [ "$method" = GET ] || as "$a_read" "a's reader: $route" 403 -X "$method" "$api/$(echo "$path" | sed "s/@/$id/")"
done
ok "a's reader: which scope it lacks" grep -q '"scope":"submit"' "$work/body"
as "$a_read" "a's job is as it was" 200 "$api/jobs/$job"
ok "a's job is as it was: queued" [ "$(field state)" = queued ]
as "$a_read" "a's file" 200 "$api/models/$model/file"
ok "a's file: whole" cmp -s "$work/body" "$work/net.onnx"
as "$a_read" "HEAD" 200 -I "$api/jobs/$job"

for list in jobs models 'jobs?label=x' "jobs?model_id=$model" 'jobs?state=queued'; do
    as "$b_admin" "b: list of $list" 200 "$api/$list"
    ok "b: list of $list: empty" grep -q '":\[\]' "$work/body"
    as "$a_read" "a: list of $list" 200 "$api/$list"
    ok "a: list of $list: has it" grep -q "$model" "$work/body"
done
as "$b_admin" "b: job of a's model" 404 -H "$json" -d "{\"model_id\": \"$model\"}" "$api/jobs"
problem "b: job of a's model" no-such-model model_id
as "$b_admin" "b: a's job as golden" 404 -X PUT -H "$json" -d "{\"job_id\": \"$job\"}" "$api/golden"
problem "b: a's job as golden" no-such-job job_id
as "$a_submit" "a: its own, which has not succeeded" 409 -X PUT -H "$json" -d "{\"job_id\": \"$job\"}" "$api/golden"
as "$b_admin" "b: the same key is another" 404 -H "$json" -H 'Idempotency-Key: k' -d "{\"model_id\": \"$model\"}" "$api/jobs"

# ---- what admins may ----
as "$a_submit" "tokens: not by submit" 403 "$api/tokens"
ok "tokens: the scope is named" grep -q '"scope":"admin"' "$work/body"
ok "tokens: and in the header" grep -qi '^www-authenticate: .*insufficient_scope.*scope="admin"' "$work/headers"
as "$a_admin" "tokens: a's own" 200 "$api/tokens"
ok "tokens: three" [ "$(grep -o '"prefix"' "$work/body" | wc -l)" = 3 ]
ok "tokens: no secret" sh -c '! grep -q "$1" "$0"' "$work/body" "$a_admin"
as "$a_admin" "tokens: of b" 404 "$api/tokens?project_id=$b"
as "$a_admin" "token for b" 404 -H "$json" -d "{\"name\": \"t\", \"scopes\": [\"read\"], \"project_id\": \"$b\"}" "$api/tokens"
as "$a_admin" "token of odd scope" 400 -H "$json" -d '{"name": "t", "scopes": ["root"]}' "$api/tokens"
problem "token of odd scope" bad-scopes scopes
as "$a_admin" "token without scopes" 400 -H "$json" -d '{"name": "t", "scopes": []}' "$api/tokens"
as "$a_admin" "projects: a's alone" 200 "$api/projects"
ok "projects: one" [ "$(grep -o '"config_visibility"' "$work/body" | wc -l)" = 1 ]
as "$a_admin" "b's project" 404 "$api/projects/$b"
as "$a_admin" "b's project: change" 404 -X PATCH -H "$json" -d '{"config_visibility": "private"}' "$api/projects/$b"
as "$a_admin" "b's project: delete" 404 -X DELETE "$api/projects/$b"
as "$a_admin" "a project" 403 -H "$json" -d '{"name": "lab-c"}' "$api/projects"
as "$a_admin" "its own quotas" 403 -X PATCH -H "$json" -d '{"quotas": {"open_jobs": 1000}}' "$api/projects/$a"
problem "its own quotas" server-admin-only
as "$a_admin" "its own project: delete" 403 -X DELETE "$api/projects/$a"
as "$admin" "the default project: delete" 409 -X DELETE "$api/projects/00000000-0000-7000-8000-000000000000"
as "$admin" "unknown field" 400 -X PATCH -H "$json" -d '{"quota": {}}' "$api/projects/$a"

# ---- quotas ----
as "$admin" "quota of one open job" 200 -X PATCH -H "$json" -d '{"quotas": {"open_jobs": 1}}' "$api/projects/$a"
ok "quota: shown with its use" grep -q '"open_jobs":1,"gpu_seconds_per_day":null},"use":{"models":1,"model_bytes":[0-9]*,"open_jobs":1,' "$work/body"
as "$a_submit" "one job too many" 429 -H "$json" -d "{\"model_id\": \"$model\"}" "$api/jobs"
problem "one job too many" quota-open-jobs
ok "one job too many: Retry-After" grep -qi '^retry-after: 30' "$work/headers"
as "$a_submit" "the key of the one there is" 202 -H "$json" -H 'Idempotency-Key: k' -d "{\"model_id\": \"$model\", \"labels\": {\"x\": \"y\"}}" "$api/jobs"
as "$admin" "no GPU at all" 200 -X PATCH -H "$json" -d '{"quotas": {"open_jobs": null, "gpu_seconds_per_day": 0}}' "$api/projects/$a"
as "$a_submit" "GPU" 429 -H "$json" -d "{\"model_id\": \"$model\", \"device\": \"cuda\"}" "$api/jobs"
problem "GPU" quota-gpu-seconds
ok "GPU: until midnight" [ "$(sed -n 's/^[Rr]etry-[Aa]fter: \([0-9]*\).*/\1/p' "$work/headers")" -le 86400 ]
as "$a_submit" "processor" 202 -H "$json" -d "{\"model_id\": \"$model\", \"device\": \"cpu\"}" "$api/jobs"
as "$a_submit" "cancel it" 202 -X POST "$api/jobs/$(field id)/cancel"
as "$admin" "room for 10 bytes" 200 -X PATCH -H "$json" -d '{"quotas": {"model_bytes": 10}}' "$api/projects/$b"
as "$b_admin" "a model too large" 413 -H "$octets" --data-binary "@$work/net.onnx" "$api/models"
problem "a model too large" quota-model-bytes
ok "a model too large: says the limit" grep -q 'may have 10 bytes' "$work/body"
as "$admin" "a quota that is none" 400 -X PATCH -H "$json" -d '{"quotas": {"open_jobs": -1}}' "$api/projects/$b"

# ---- configurations by who may see them ----
line() { # line COST: a record for the one workload
    printf '{"input": ["llvm", "plain.cpu", [], {}], "config": {"index": 0, "code_hash": null, "entity": []}, '
    printf '"result": [[%s], 0, 0.5, 1700000000.25], "version": 0.2, "tvm_version": "x", "warptune": ' "$1"
    printf '{"workload": "dense(f32:row:1x20, f32:row:10x20) -> f32:row:1x10", "device_key": "cpu/Some CPU/x86-64-v3/4", '
    printf '"version": 1, "spread_s": 1e-07}}\n'
}
line 2e-05 >"$work/a.log"
line 3e-05 >"$work/b.log"
# sees NAME TOKEN COST: the one configuration that the token's project sees; "" for none
sees() {
    as "$2" "$1" 200 "$api/configs"
    ok "$1: sees ${3:-nothing}" [ "$(field cost_us)" = "$3" ]
    as "$2" "$1: export" 200 "$api/configs/export"
    ok "$1: exports as many" [ "$(wc -l <"$work/body")" = "$([ -n "$3" ] && echo 1 || echo 0)" ]
    as "$2" "$1: lookup" 200 -G --data-urlencode 'workload=dense(f32:row:1x20, f32:row:10x20) -> f32:row:1x10' \
        --data-urlencode 'device=cpu/Some CPU/x86-64-v3/4' "$api/configs/lookup"
    ok "$1: looks up the same" [ "$(field cost_us)" = "$3" ]
}
as "$a_admin" "a keeps its to itself" 200 -X PATCH -H "$json" -d '{"config_visibility": "private"}' "$api/projects/$a"
as "$a_read" "import by a reader" 403 --data-binary "@$work/a.log" "$api/configs/import"
as "$a_submit" "a's import" 200 --data-binary "@$work/a.log" "$api/configs/import"
sees "a, private" "$a_read" 20.000
sees "b, a's private" "$b_admin" ""
as "$a_admin" "a shares with b" 200 -H "$json" -d '{"visibility": "shared", "shared_with": ["lab-b"]}' "$api/configs/visibility"
ok "a shares with b: one" [ "$(field changed)" = 1 ]
sees "b, shared" "$b_admin" 20.000
sees "default, shared with b" "$admin" ""
as "$b_admin" "b's import" 200 --data-binary "@$work/b.log" "$api/configs/import"
ok "b's import: kept, slower though" [ "$(field kept)" = 1 ]
sees "b, the better one" "$b_admin" 20.000
sees "default, b's public one" "$admin" 30.000
as "$a_admin" "a makes it public" 200 -H "$json" -d '{"visibility": "public"}' "$api/configs/visibility"
sees "default, a's public one" "$admin" 20.000
as "$a_admin" "shared with nobody known" 400 -H "$json" -d '{"visibility": "shared", "shared_with": ["lab-z"]}' "$api/configs/visibility"
problem "shared with nobody known" no-such-project shared_with
as "$a_submit" "sharing by one who is no admin" 403 -H "$json" -d '{"visibility": "private"}' "$api/configs/visibility"

# ---- revocation: at once on this server, a stream within seconds; the same through the database ----
make_token "$a" read
curl -sSN --max-time 30 -H "Authorization: Bearer $made" "$api/jobs/$job/events" >"$work/stream" 2>/dev/null &
stream=$!
as "$made" "before" 200 "$api/jobs/$job"
as "$b_admin" "revoke a's token as b" 404 -X DELETE "$api/tokens/$made_id"
as "$a_admin" "revoke" 204 -X DELETE "$api/tokens/$made_id"
as "$a_admin" "revoke again" 204 -X DELETE "$api/tokens/$made_id"
as "$made" "after" 401 "$api/jobs/$job"
problem "after" token-invalid
as "$a_submit" "something happens" 202 -X POST "$api/jobs/$job/pause"
for _ in $(seq 50); do kill -0 $stream 2>/dev/null || break; sleep 0.1; done
ok "its stream has ended" sh -c '! kill -0 $0 2>/dev/null' $stream
ok "its stream did not tell of it" sh -c '! grep -q paused "$0"' "$work/stream"
kill $stream 2>/dev/null
wait $stream 2>/dev/null
make_token "$a" read
as "$made" "before" 200 "$api/jobs/$job"
"$warptune" token revoke "$made_id" --data-dir "$work/data"
sleep 4
as "$made" "after, by the command line" 401 "$api/jobs/$job"
"$warptune" token list --project lab-a --data-dir "$work/data" >"$work/list"
ok "list: two revoked" [ "$(grep -c revoked "$work/list")" = 2 ]
ok "list: five" [ "$(wc -l <"$work/list")" = 5 ]
ok "bad verb" sh -c '"$0" token shred 2>/dev/null; [ $? -eq 2 ]' "$warptune"
ok "no such project" sh -c '! "$0" token create --project nobody --data-dir "$1" 2>/dev/null' "$warptune" "$work/data"

# ---- the end of a project ----
as "$admin" "delete with open jobs" 409 -X DELETE "$api/projects/$a?everything=1"
problem "delete with open jobs" project-in-use
as "$a_submit" "cancel" 202 -X POST "$api/jobs/$job/cancel"
as "$admin" "delete with things in it" 409 -X DELETE "$api/projects/$a"
problem "delete with things in it" project-not-empty
as "$admin" "delete all" 204 -X DELETE "$api/projects/$a?everything=1"
as "$admin" "it is gone" 404 "$api/projects/$a"
as "$a_admin" "its tokens too" 401 "$api/jobs"
as "$admin" "default's model is still there" 200 "$api/models/$default_model/file"
ok "default's model is still there: whole" cmp -s "$work/body" "$work/net.onnx"

# ---- with tokens it opens to other hosts, and no secret was logged ----
stop_server
"$warptune" serve --listen 0.0.0.0:0 --no-worker --data-dir "$work/data" >"$work/open" 2>>"$work/server.log" &
server_pid=$!
for _ in $(seq 100); do grep -q '^listening' "$work/open" && break; sleep 0.1; done
api=$(sed -n 's/^listening on http:..0\.0\.0\.0\(.*\)$/http:\/\/127.0.0.1\1/p' "$work/open")/v1
request "other hosts, no token" 401 "$api/jobs"
as "$admin" "other hosts, a token" 200 "$api/jobs"
ok "no token in the log" sh -c '! grep -q "wt_[0-9A-Za-z]\{20\}" "$0"' "$work/server.log"
