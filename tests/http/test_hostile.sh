#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Requests that no honest client sends: each gets its answer, none gets through, and the server goes on.
. "$(dirname "$0")/lib.sh"
start_server --no-worker --max-upload-mb 1
octets='Content-Type: application/octet-stream'

host='Host: x\r\n'
json='Content-Type: application/json\r\n'
raw "plain" 200 "GET /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n"
raw "two lengths" 400 "POST /v1/jobs HTTP/1.1\r\n${host}${json}Content-Length: 0\r\nContent-Length: 44\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
ok "two lengths: nothing smuggled" answers 1
raw "length and chunked" 400 "POST /v1/jobs HTTP/1.1\r\n${host}${json}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
ok "length and chunked: one answer" answers 1
raw "strange encoding" 400 "POST /v1/jobs HTTP/1.1\r\n${host}${json}Transfer-Encoding: gzip\r\n\r\n{}"
raw "length is no number" 400 "POST /v1/jobs HTTP/1.1\r\n${host}${json}Content-Length: 2x\r\n\r\n{}"
raw "negative length" 400 "POST /v1/jobs HTTP/1.1\r\n${host}${json}Content-Length: -2\r\n\r\n{}"
raw "no host" 400 "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
raw "two hosts" 400 "GET /healthz HTTP/1.1\r\n${host}${host}Connection: close\r\n\r\n"
raw "not HTTP" "" "hello\r\n\r\n"
raw "HEAD of a stream" 200 "HEAD /v1/events HTTP/1.1\r\n${host}\r\n"
ok "what follows cannot be taken for an answer" grep -qi '^Connection: close' "$work/body"
raw "relative target" 400 "GET healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n"

request "NUL in the path" 400 "$url/healthz%00"
request "NUL in a segment" 400 "$api/jobs/x%00y"
request "dots" 404 --path-as-is "$api/../healthz"
request "encoded dots" 404 "$api/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd/file"
request "encoded slash" 404 "$api%2fjobs"
request "bad escape" 400 "$api/jobs/%zz"
request "NUL in a query" 400 "$api/jobs?state=%00"
request "unknown query" 400 "$api/jobs?sort=name"
problem "unknown query" unknown-query sort
request "query twice" 400 "$api/jobs?state=queued&state=failed"
request "unknown method" 405 -X BREW "$api/jobs"
ok "unknown method: Allow" grep -qi '^allow: .*GET' "$work/headers"
request "options" 204 -X OPTIONS "$api/jobs"
ok "options: Allow" grep -qi '^allow: .*POST' "$work/headers"

{ printf 'X-Large: '; head -c 200000 /dev/zero | tr '\0' a; } >"$work/header"
request "huge header" 431 -H "@$work/header" "$url/healthz"
request "long path" 404 "$api/$(head -c 20000 /dev/zero | tr '\0' a)"

# Over a limit: known from the header, before the body is sent; or found while it comes.
head -c 3000000 /dev/zero >"$work/large"
request "large upload" 413 -H "$octets" --data-binary "@$work/large" "$api/models"
problem "large upload" body-too-large
raw "announced terabytes" 413 "POST /v1/models HTTP/1.1\r\n${host}Content-Length: 9000000000000\r\n\r\n"
request "large upload in chunks" 413 -H "$octets" -H 'Transfer-Encoding: chunked' --data-binary "@$work/large" "$api/models"
request "large JSON" 413 -H 'Content-Type: application/json' --data-binary "@$work/large" "$api/jobs"
request "body on GET" 400 -X GET -d 'x=1' "$api/jobs"
problem "body on GET" unexpected-body
request "body on cancel" 400 -H 'Content-Type: application/json' -d '{"now": true}' "$api/jobs/00000000-0000-4000-8000-000000000000/cancel"

deep=$(head -c 200 /dev/zero | tr '\0' '[')
post "deep JSON" 400 /jobs "{\"model_id\": $deep"
post "NUL in JSON" 400 /jobs '{"model_id": "a\u0000b"}'
post "huge number" 400 /jobs '{"model_id": "x", "priority": 1e999}'
request "form without a boundary" 400 -H 'Content-Type: multipart/form-data' --data-binary 'x' "$api/models"
request "form cut off" 400 -H 'Content-Type: multipart/form-data; boundary=b' \
    --data-binary "$(printf -- '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nabc')" "$api/models"
request "form without the field" 400 -F 'other=1' "$api/models"
request "form with the field twice" 400 -F 'model=a' -F 'model=b' "$api/models"
problem "form with the field twice" bad-multipart model
request "name too long" 400 -H "$octets" --data-binary 'x' "$api/models?name=$(head -c 201 /dev/zero | tr '\0' n)"
problem "name too long" bad-query name
request "name is no text" 400 -H "$octets" --data-binary 'x' "$api/models?name=%ff"

for id in x .. 00000000 '%20' 00000000-0000-4000-8000-00000000000Z 00000000-0000-4000-8000-000000000000; do
    for path in "jobs/$id" "jobs/$id/log" "jobs/$id/records" "jobs/$id/config" "jobs/$id/module" "jobs/$id/events" "models/$id" "models/$id/tasks"; do
        request "$path" 404 --path-as-is "$api/$path"
    done
done

ok "a port that is none" sh -c '! "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:99999 --data-dir "$0/other" 2>/dev/null' "$work"

ok "nothing is left of all that" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]
request "the server goes on" 200 "$url/readyz"
