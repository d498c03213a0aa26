#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HTTP to the letter: methods, negotiation, bodies, strict JSON, other origins' pages, ranges and tags, security headers,
# request ids, figures; and more of what no honest client sends (the rest is in test_hostile.sh).
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start_server --no-worker --max-upload-mb 1 --max-waiters 1100 --log-level debug \
    --cors-origins 'https://dash.example, http://localhost:3000'
octets='Content-Type: application/octet-stream'
json='Content-Type: application/json'
none=00000000-0000-4000-8000-000000000000
sh "$here/small_network.sh" "$work/small.onnx"
request "upload" 201 -H "$octets" --data-binary "@$work/small.onnx" "$api/models"
model=$(field id)
post "submit" 202 /jobs "{\"model_id\": \"$model\"}"
job=$(field id)

# ---- every path of the document: OPTIONS, HEAD, a method that it does not take ----
request "document" 200 "$url/openapi.json"
ok "document: it is 3.1" grep -q '"openapi":"3\.1\.0"' "$work/body"
tag=$(header ETag)
request "document: unchanged" 304 -H "If-None-Match: $tag" "$url/openapi.json"
request "document: another tag" 200 -H 'If-None-Match: "x"' "$url/openapi.json"
grep -o '"/[^"]*":{' "$work/body" | cut -d '"' -f 2 | sort -u >"$work/paths"
ok "document: its paths are found" [ "$(wc -l <"$work/paths")" -ge 25 ]
while read -r path; do
    target=$(echo "$path" | sed "s/^\(\/v1\/jobs\/\){id}/\1$job/; s/^\(\/v1\/models\/\){id}/\1$model/; s/{[a-z_]*}/$none/g")
    request "OPTIONS $path" 204 -X OPTIONS "$url$target"
    allow=$(header Allow)
    ok "OPTIONS $path: itself ($allow)" sh -c "echo '$allow' | grep -q OPTIONS"
    ok "OPTIONS $path: no body" [ ! -s "$work/body" ]
    case $allow in
        *GET*) ok "OPTIONS $path: HEAD with GET" sh -c "echo '$allow' | grep -q HEAD" ;;
        *) request "HEAD $path" 405 -I "$url$target" ;;
    esac
    request "BREW $path" 405 -X BREW "$url$target"
    ok "BREW $path: Allow" [ "$(header Allow)" = "$allow" ]
    problem "BREW $path" method-not-allowed
    # What needs a query, or an ended job, is refused by both alike; a stream's body does not end.
    case $allow$path in
        *GET*/events | *GET*/metrics) ;;
        *GET*)
            got=$(curl -sS -o /dev/null -w '%{http_code} %{content_type}' "$url$target")
            head=$(curl -sS -I -o "$work/head" -w '%{http_code} %{content_type}' "$url$target")
            ok "HEAD $path as GET ($got, $head)" [ "$got" = "$head" ]
            ok "HEAD $path: its length" grep -qi '^content-length: *[0-9]' "$work/head"
            ;;
    esac
done <"$work/paths"
request "HEAD of a stream ends" 200 --max-time 5 -I "$api/jobs/$job/events"
raw "HEAD has no body" 200 "HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ok "HEAD has no body: none" [ -z "$(tr -d '\r' <"$work/body" | sed '1,/^$/d')" ]
raw "refused, and the connection goes on" 406 "GET /healthz HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ok "two answers" answers 2

# ---- negotiation ----
request "Accept: JSON" 200 -H 'Accept: text/html;q=0.1, application/*' "$api/jobs"
request "Accept: what a browser says" 200 -H 'Accept: text/html,application/xhtml+xml,*/*;q=0.8' "$api/jobs"
request "Accept: in two headers" 200 -H 'Accept: text/html' -H 'Accept: application/json' "$api/jobs"
request "Accept: HTML only" 406 -H 'Accept: text/html' "$api/jobs"
problem "Accept: HTML only" not-acceptable Accept
request "Accept: JSON never" 406 -H 'Accept: application/json;q=0, */*' "$api/jobs"
request "Accept: no stream" 406 -H 'Accept: application/json' "$api/jobs/$job/events"
request "Accept: the file as text" 406 -H 'Accept: text/plain' "$api/models/$model/file"
request "Accept: nothing is made" 404 -X DELETE -H 'Accept: text/html' "$api/models/$none"

# ---- bodies ----
request "no length" 411 -X POST -H "$json" "$api/jobs"
problem "no length" length-required Content-Length
request "no length of an upload" 411 -X POST "$api/models"
request "no body is needed" 202 -X POST "$api/jobs/$job/pause"
request "too large goes before the type" 413 -H 'Content-Type: text/html' -H 'Expect:' --data-binary "@$WARPTUNE_PROGRAM" "$api/models"
raw "413 without a byte of it" 413 "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n$json\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n"
ok "413: nobody was told to go on" answers 1
raw "an honest one is told to go on" 100 "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n$json\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n{}"
request "type: none" 415 -H 'Content-Type:' -d '{}' "$api/jobs"
problem "type: none" unsupported-media-type Content-Type
request "type: a form" 415 -d '{}' "$api/jobs"
request "type: JSON of another charset" 415 -H "$json; charset=iso-8859-1" -d '{}' "$api/jobs"
request "type: JSON in UTF-8" 400 -H "$json; Charset=\"UTF-8\"" -d '{}' "$api/jobs"
problem "type: JSON in UTF-8" missing-field model_id
request "type: a name that only begins so" 415 -H "${json}x" -d '{}' "$api/jobs"
request "type: compressed" 415 -H "$json" -H 'Content-Encoding: gzip' -d '{}' "$api/jobs"
problem "type: compressed" unsupported-media-type Content-Encoding
request "type: twice" 400 -H "$json" -H 'Content-Type: text/plain' -d '{}' "$api/jobs"
problem "type: twice" bad-header Content-Type

# ---- JSON ----
strict() { # NAME CODE FIELD TEXT
    post "JSON: $1" 400 /jobs "$4"
    problem "JSON: $1" "$2" "$3"
}
strict "unknown field" unknown-field sort "{\"model_id\": \"$model\", \"sort\": 1}"
strict "unknown field of tuner" unknown-field tuner.depth "{\"model_id\": \"$model\", \"tuner\": {\"depth\": 1}}"
strict "unknown field of measure" unknown-field measure.x "{\"model_id\": \"$model\", \"measure\": {\"x\": 1}}"
strict "a field in other letters" unknown-field Model_id "{\"Model_id\": \"$model\"}"
strict "key twice" duplicate-key model_id "{\"model_id\": \"x\", \"model_id\": \"$model\"}"
strict "key twice, once escaped" duplicate-key model_id "{\"model_id\": \"x\", \"model\\u005fid\": \"$model\"}"
strict "key twice, further in" duplicate-key a "{\"model_id\": \"$model\", \"labels\": {\"a\": \"b\", \"a\": \"c\"}}"
strict "NaN" invalid-json '' '{"budget_s": NaN}'
strict "Infinity" invalid-json '' '{"budget_s": -Infinity}'
strict "past 2^53" number-out-of-range '' '{"batch": 9007199254740993}'
strict "past 2^53, below" number-out-of-range '' '{"batch": -9007199254740993}'
strict "past every number" number-out-of-range '' '{"budget_s": 1e400}'
strict "many digits" number-too-long '' "{\"batch\": $(head -c 300 /dev/zero | tr '\0' 1)}"
strict "a whole number with a fraction" wrong-type batch "{\"model_id\": \"$model\", \"batch\": 1.5}"
strict "a number as text" wrong-type batch "{\"model_id\": \"$model\", \"batch\": \"1\"}"
strict "null" wrong-type batch "{\"model_id\": \"$model\", \"batch\": null}"
strict "a leading zero" invalid-json '' '{"batch": 01}'
strict "hexadecimal" invalid-json '' '{"batch": 0x1}'
strict "single quotes" invalid-json '' "{'batch': 1}"
strict "a comma at the end" invalid-json '' '{"batch": 1,}'
strict "a comment" invalid-json '' '{"batch": 1} // one'
strict "two values" invalid-json '' '{} {}'
strict "an array" not-an-object '' '[]'
strict "half a surrogate pair" invalid-json '' '{"key": "\ud800"}'
strict "a bomb of arrays" json-too-deep '' "$(head -c 100000 /dev/zero | tr '\0' '[')"
strict "a bomb of objects" json-too-deep '' "$(yes '{"a":' | head -n 10000 | tr -d '\n')"
strict "cut off" invalid-json '' '{"model_id": "x"'
for bytes in '\377' '\300\200' '\355\240\200' '\303' '\364\220\200\200'; do
    printf '{"model_id": "x", "key": "%b"}' "$bytes" >"$work/bytes"
    request "JSON: not UTF-8: $bytes" 400 -H "$json" --data-binary "@$work/bytes" "$api/jobs"
    problem "JSON: not UTF-8: $bytes" invalid-json
done
printf '{"key": "a\tb"}' >"$work/bytes"
request "JSON: control character" 400 -H "$json" --data-binary "@$work/bytes" "$api/jobs"
printf '\357\273\277{"batch": 1}' >"$work/bytes"
request "JSON: byte order mark" 400 -H "$json" --data-binary "@$work/bytes" "$api/jobs"
request "JSON: empty" 400 -H "$json" -d '' "$api/jobs"
problem "JSON: empty" empty-body
request "query: not UTF-8" 400 "$api/jobs?label=%ff"
problem "query: not UTF-8" bad-query
request "query: a number with a plus" 400 "$api/jobs?limit=%2B5"
request "query: a number after a space" 400 "$api/jobs?limit=%205"
request "query: no id of a model" 400 "$api/jobs?model_id=x"
problem "query: no id of a model" bad-query model_id
request "query: an empty cursor is the start" 200 "$api/configs?cursor="

# ---- pages of other origins ----
request "CORS: a page that may" 200 -H 'Origin: https://dash.example' "$api/jobs"
ok "CORS: it may read" [ "$(header Access-Control-Allow-Origin)" = https://dash.example ]
ok "CORS: no cookies" [ -z "$(header Access-Control-Allow-Credentials)" ]
ok "CORS: and see the ETag" sh -c "echo '$(header Access-Control-Expose-Headers)' | grep -q ETag"
ok "CORS: caches are told" [ "$(header Vary)" = Origin ]
request "CORS: errors too" 404 -H 'Origin: http://localhost:3000' "$api/jobs/$none"
ok "CORS: they may be read" [ "$(header Access-Control-Allow-Origin)" = http://localhost:3000 ]
for origin in https://evil.example https://dash.example.evil null http://dash.example; do
    request "CORS: $origin" 200 -H "Origin: $origin" "$api/jobs"
    ok "CORS: $origin may not" [ -z "$(header Access-Control-Allow-Origin)" ]
    ok "CORS: caches are told all the same" [ "$(header Vary)" = Origin ]
done
request "CORS: preflight" 204 -X OPTIONS -H 'Origin: https://dash.example' \
    -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: content-type,idempotency-key' "$api/jobs"
ok "CORS: the methods" [ "$(header Access-Control-Allow-Methods)" = 'POST, GET, HEAD, OPTIONS' ]
ok "CORS: the headers" sh -c "echo '$(header Access-Control-Allow-Headers)' | grep -q Idempotency-Key"
ok "CORS: for how long" [ "$(header Access-Control-Max-Age)" -ge 600 ]
request "CORS: another's preflight" 204 -X OPTIONS -H 'Origin: https://evil.example' -H 'Access-Control-Request-Method: POST' "$api/jobs"
ok "CORS: is told nothing" [ -z "$(header Access-Control-Allow-Methods)$(header Access-Control-Allow-Origin)" ]
request "another's page changes something" 403 -H 'Origin: https://evil.example' -H 'Content-Type: text/plain' --data-binary x "$api/configs/import"
problem "another's page changes something" foreign-origin Origin
request "another's page cancels" 403 -X POST -H 'Origin: null' "$api/jobs/$job/cancel"
request "our own page does" 202 -X POST -H "Origin: $url" "$api/jobs/$job/pause"
request "a page that may does" 202 -X POST -H 'Origin: https://dash.example' "$api/jobs/$job/pause"

# ---- ranges and tags ----
file=$api/models/$model/file
bytes=$(wc -c <"$work/small.onnx")
request "range: the first" 206 -H 'Range: bytes=0-0' "$file"
ok "range: says which" [ "$(header Content-Range)" = "bytes 0-0/$bytes" ]
tag=$(header ETag)
request "range: the last five" 206 -H 'Range: bytes=-5' "$file"
ok "range: five bytes" [ "$(wc -c <"$work/body")" = 5 ]
request "range: more than there is" 206 -H 'Range: bytes=-99999999' "$file"
ok "range: all of it" cmp -s "$work/body" "$work/small.onnx"
request "range: past the end" 416 -H "Range: bytes=$bytes-" "$file"
problem "range: past the end" range-not-satisfiable Range
ok "range: how many there are" [ "$(header Content-Range)" = "bytes */$bytes" ]
ok "range: an error has no tag" [ -z "$(header ETag)" ]
for range in 'bytes=5-2' 'bytes=a-b' 'bytes=0-1,3-4' 'lines=0-1' 'bytes=' 'bytes=99999999999999999999-'; do
    request "range: $range is none" 200 -H "Range: $range" "$file"
done
request "range: if it is still that" 206 -H "If-Range: $tag" -H 'Range: bytes=0-1' "$file"
request "range: it is not" 200 -H 'If-Range: "x"' -H 'Range: bytes=0-1' "$file"
request "range: a weak tag is none" 200 -H "If-Range: W/$tag" -H 'Range: bytes=0-1' "$file"
request "range: HEAD has none" 200 -I -H 'Range: bytes=0-1' "$file"
request "range: of nothing" 200 -H 'Range: bytes=-5' "$api/jobs/$job/records"
request "range: not of a POST" 200 -H "$octets" -H 'Range: bytes=0-0' --data-binary 'x' "$api/records/clean"
request "tag: weakly" 304 -H "If-None-Match: \"a\", W/$tag" "$file"
ok "tag: 304 has it" [ "$(header ETag)" = "$tag" ]
request "tag: any" 304 -H 'If-None-Match: *' "$file"
ok "tag: to be asked for again" [ "$(header Cache-Control)" = 'private, no-cache' ]

# ---- headers of all answers, request ids ----
guarded() {
    ok "$1: nosniff" [ "$(header X-Content-Type-Options)" = nosniff ]
    ok "$1: no referrer" [ "$(header Referrer-Policy)" = no-referrer ]
    ok "$1: Cache-Control" [ -n "$(header Cache-Control)" ]
    ok "$1: X-Request-Id" [ -n "$(header X-Request-Id)" ]
    ok "$1: says not what serves it" [ -z "$(header Server)" ]
}
request "list" 200 "$api/jobs"; guarded list
ok "list: kept nowhere" [ "$(header Cache-Control)" = no-store ]
request "error" 404 "$url/none"; guarded error
request "options" 204 -X OPTIONS "$api/jobs"; guarded options
request "file" 200 "$file"; guarded file
ok "file: saved, not shown" sh -c "echo '$(header Content-Disposition)' | grep -q '^attachment'"
trace=4bf92f3577b34da6a3ce929d0e0e4736
request "trace" 404 -H "traceparent: 00-$trace-00f067aa0ba902b7-01" "$api/jobs/$none"
ok "trace: is the request's id" [ "$(header X-Request-Id)" = $trace ]
ok "trace: in the problem" grep -q "\"request_id\":\"$trace\"" "$work/body"
ok "trace: in the log" grep -q "\"request\":\"$trace\",\"method\":\"GET\",\"path\":\"/v1/jobs/$none\",\"status\":404" "$work/server.log"
request "trace: a bad one" 200 -H "traceparent: 00-$trace-0-01" "$url/healthz"
id=$(header X-Request-Id)
ok "trace: a bad one is not taken ($id)" [ -n "$id" ] && [ "$id" != $trace ]
request "another request" 200 "$url/healthz"
ok "has another id" [ "$(header X-Request-Id)" != "$id" ]
ok "each line of the log is an object" [ -z "$(grep -v '^{.*}$' "$work/server.log")" ]

# ---- figures ----
request "metrics" 200 "$url/metrics"
ok "metrics: by route and status" grep -q '^warptune_http_requests_total{method="GET",route="/v1/jobs/{id}",status="404"} [1-9]' "$work/body"
ok "metrics: by time" grep -q '^warptune_http_request_seconds_bucket{method="POST",route="/v1/jobs",le="+Inf"} [1-9]' "$work/body"
ok "metrics: no client's text" [ -z "$(grep "$none\|BREW\|evil" "$work/body")" ]
before=$(grep -c '^warptune_http_requests_total' "$work/body")
for i in 1 2 3 4 5; do curl -sS -o /dev/null -X "M$i" "$url/path$i?q$i=1"; done
request "metrics again" 200 "$url/metrics"
ok "metrics: no row more for what is not there" [ "$(grep -c '^warptune_http_requests_total' "$work/body")" -le $((before + 1)) ]

# ---- what no honest client sends ----
host='Host: x\r\n'
close='Connection: close\r\n'
raw "bare LF" 200 "GET /healthz HTTP/1.1\nHost: x\nConnection: close\n\n"
ok "bare LF: one answer" answers 1
raw "bare LF does not hide a length" 400 "POST /v1/jobs HTTP/1.1\r\n${host}X: a\nContent-Length: 3\r\nContent-Length: 0\r\n\r\nabc"
raw "length twice, the same" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"
raw "length as a list" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Content-Length: 2, 2\r\n\r\n{}"
raw "length with a plus" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Content-Length: +2\r\n\r\n{}"
raw "length past 64 bits" 413 "POST /v1/jobs HTTP/1.1\r\n${host}Content-Length: 99999999999999999999\r\n\r\n{}"
raw "length on a GET" 400 "GET /v1/jobs HTTP/1.1\r\n${host}Content-Length: 34\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
ok "length on a GET: nothing smuggled" answers 1
raw "encodings in a row" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
raw "encoding twice" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
raw "identity as encoding" 400 "POST /v1/jobs HTTP/1.1\r\n${host}Transfer-Encoding: identity\r\n\r\n{}"
raw "chunked on a GET" 400 "GET /v1/jobs HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n${close}\r\n5\r\nabcde\r\n0\r\n\r\n"
raw "a chunk's size is none" 400 "POST /v1/jobs HTTP/1.1\r\n${host}$json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
raw "HTTP/1.0 without Host" 200 "GET /healthz HTTP/1.0\r\n\r\n"
raw "a target of another host" 400 "GET http://evil/healthz HTTP/1.1\r\n${host}${close}\r\n"
raw "asterisk" 400 "OPTIONS * HTTP/1.1\r\n${host}${close}\r\n"
# Raw NULs end the text for the library below: what stands before them is what was asked, and no more than that.
raw "a NUL in a header" 200 "GET /healthz HTTP/1.1\r\n${host}X: a\\000b\r\n${close}\r\n"
raw "a NUL in the target" 404 "GET /health\\000z HTTP/1.1\r\n${host}${close}\r\n"
request "%00" 400 "$api/models/$model%00/file"
request "%2e%2e%2f" 404 --path-as-is "$api/models/%2e%2e%2f%2e%2e%2fetc/file"
request "%2E%2E" 404 --path-as-is "$api/models/%2E%2E/file"
request "%5c" 404 --path-as-is "$api/models/..%5c..%5cetc/file"
request "overlong dots" 404 --path-as-is "$api/models/%c0%ae%c0%ae%c0%af/file"
i=0
while [ $i -lt 3000 ]; do echo "X-$i: a"; i=$((i + 1)); done >"$work/many"
request "3,000 headers" 431 -H "@$work/many" "$url/healthz"
head -n 500 "$work/many" >"$work/some"
request "500 headers" 200 -H "@$work/some" "$url/healthz"

# Clients that leave: in the middle of a body, of a download, of a stream.
for i in 1 2 3 4 5 6 7 8; do
    { printf "POST /v1/models HTTP/1.1\r\n${host}$octets\r\nContent-Length: 500000\r\n\r\n"; head -c 100000 /dev/zero; } |
        curl -sSN --max-time 1 "telnet://127.0.0.1:${url##*:}" >/dev/null 2>&1
    curl -sSN --max-time 1 --limit-rate 1K -o /dev/null "$file" 2>/dev/null
    curl -sSN --max-time 0.2 -o /dev/null "$api/jobs/$job/events" 2>/dev/null
done
request "they left" 200 "$url/readyz"
sleep 1
ok "nothing of theirs is left" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]

# A stop while 1,000 wait: each gets its answer, and none hangs.
for p in 1 2 3 4; do
    for i in $(seq 250); do printf 'url = "%s"\noutput = "%s/wait%s-%s"\n' "$api/jobs/$job?wait=100" "$work" $p "$i"; done >"$work/conf$p"
    curl -sSN --parallel --parallel-immediate --parallel-max 250 --max-time 60 -K "$work/conf$p" >/dev/null 2>&1 &
    eval "client$p=\$!"
done
waiters=0
for _ in $(seq 100); do
    waiters=$(curl -sS --max-time 5 "$url/metrics" | sed -n 's/^warptune_waiters //p')
    [ "${waiters:-0}" -ge 1000 ] && break
    sleep 0.2
done
ok "1,000 wait ($waiters)" [ "${waiters:-0}" -ge 1000 ]
before=$(date +%s)
stop_server
took=$(($(date +%s) - before))
wait $client1 $client2 $client3 $client4
ok "the stop took $took s" [ "$took" -le 10 ]
answered=$(cat "$work"/wait[1-4]-* 2>/dev/null | grep -o '"state":"paused"\|urn:warptune:problem:stopping' | wc -l)
ok "all of them were answered ($answered)" [ "$answered" -ge 1000 ]
