#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models over HTTP: upload, the same bytes again, download with ranges, what is refused and why, delete.
. "$(dirname "$0")/lib.sh"
start_server --no-worker
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
bytes=$(wc -c <"$work/net.onnx")
sha=$(sha256sum "$work/net.onnx" | cut -d' ' -f1)
octets='Content-Type: application/octet-stream'

request "upload" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=squeeze"
model=$(field id)
ok "upload: sha" [ "$(field sha256)" = "$sha" ]
ok "upload: bytes" [ "$(field bytes)" = "$bytes" ]
ok "upload: Location" grep -qi "^location: /v1/models/$model" "$work/headers"
ok "upload: inputs" grep -q '"inputs"' "$work/body"
ok "upload: tasks" grep -q '"tasks"' "$work/body"

request "same bytes again" 200 -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=other"
ok "same bytes: same id" [ "$(field id)" = "$model" ]
request "as a form" 200 -F "model=@$work/net.onnx" "$api/models?name=form"
ok "as a form: same id" [ "$(field id)" = "$model" ]
request "chunked" 200 -H "$octets" -H 'Transfer-Encoding: chunked' --data-binary "@$work/net.onnx" "$api/models"
ok "chunked: same id" [ "$(field id)" = "$model" ]

request "one" 200 "$api/models/$model"
request "list" 200 "$api/models"
ok "list: holds it" grep -q "$model" "$work/body"
request "file" 200 "$api/models/$model/file"
ok "file: same bytes" cmp -s "$work/body" "$work/net.onnx"
etag=$(sed -n 's/^[Ee][Tt]ag: *\(".*"\).*/\1/p' "$work/headers")
ok "file: has an ETag" [ -n "$etag" ]
request "file: not modified" 304 -H "If-None-Match: $etag" "$api/models/$model/file"
request "file: range" 206 -r 100-199 "$api/models/$model/file"
tail -c +101 "$work/net.onnx" | head -c 100 >"$work/expected"
ok "file: that range" cmp -s "$work/body" "$work/expected"
request "file: past its end" 416 -r "$bytes-" "$api/models/$model/file"
request "file: head" 200 -I "$api/models/$model/file"
ok "file: head says the length" grep -qi "^content-length: $bytes" "$work/headers"

request "tasks" 200 "$api/models/$model/tasks?batch=1&precision=fp32"
ok "tasks: FLOPs" grep -q '"flops"' "$work/body"
request "tasks: bad batch" 400 "$api/models/$model/tasks?batch=none"
problem "tasks: bad batch" bad-query batch

request "no such model" 404 "$api/models/00000000-0000-4000-8000-000000000000"
problem "no such model" no-such-model
request "not an id" 404 "$api/models/..%2f..%2fetc%2fpasswd"
request "not a model" 400 -H "$octets" --data-binary "hello, this is no network" "$api/models"
request "empty" 400 -H "$octets" --data-binary "" "$api/models"
head -c 100000 "$work/net.onnx" >"$work/cut.onnx"
request "truncated" 400 -H "$octets" --data-binary "@$work/cut.onnx" "$api/models"
request "wrong type" 415 -H 'Content-Type: text/html' --data-binary "x" "$api/models"
request "wrong method" 405 -X PUT "$api/models"
ok "wrong method: Allow" grep -qi '^allow: .*POST' "$work/headers"
request "no such route" 404 "$api/nothing"
problem "no such route" no-such-route

request "delete" 204 -X DELETE "$api/models/$model"
request "deleted" 404 "$api/models/$model"
request "upload after delete" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models"

# An upload that is cut off leaves nothing behind.
curl -sS --max-time 1 --limit-rate 100K -H "$octets" --data-binary "@$work/net.onnx" "$api/models?name=cut" -o /dev/null 2>/dev/null
sleep 1
ok "cut off: no spool left" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]
