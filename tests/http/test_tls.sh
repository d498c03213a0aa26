#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# HTTPS by the server itself: requests, long polls, streams and files over TLS; old versions and other authorities
# refused; a certificate that is replaced while it serves; and what a proxy in front says, believed only where told so.
. "$(dirname "$0")/lib.sh"

# certificate NAME: a key and a certificate of its own for localhost in $work/NAME.key and $work/NAME.pem.
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" \
        -days 2 -subj "/CN=$1" -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' 2>"$work/openssl.err"
}
# refused NAME TEXT OPTION…: the server does not start, and says so.
refused() {
    name=$1 text=$2
    shift 2
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" --no-worker "$@" >/dev/null 2>"$work/refused"
    status=$?
    ok "$name" [ $status -eq 1 ]
    ok "$name: says why" grep -q "$text" "$work/refused"
}
certificate first
certificate second
cp "$work/first.pem" "$work/tls.pem"
cp "$work/first.key" "$work/tls.key"

refused "no key" 'HTTPS needs both' --tls-cert "$work/tls.pem"
refused "no such file" 'tls-cert: .*missing.pem' --tls-cert "$work/missing.pem" --tls-key "$work/tls.key"
refused "no certificate" 'tls-cert: .*first.key' --tls-cert "$work/first.key" --tls-key "$work/tls.key"
refused "another's key" 'not that of the certificate' --tls-cert "$work/tls.pem" --tls-key "$work/second.key"

start_server --no-worker --tls-cert "$work/tls.pem" --tls-key "$work/tls.key" --trust-proxy
port=${url##*:}
ok "it says https" [ "${url%%:*}" = https ]
export CURL_CA_BUNDLE="$work/first.pem"
request "over TLS" 200 "$url/readyz"
request "by name" 200 --resolve "localhost:$port:127.0.0.1" "https://localhost:$port/healthz"
request "with TLS 1.2" 200 --tls-max 1.2 "$url/healthz"
curl -sS --tls-max 1.1 --ciphers 'DEFAULT:@SECLEVEL=0' "$url/healthz" >/dev/null 2>&1
ok "TLS 1.1 is refused" [ $? -eq 35 ]
curl -sS --cacert "$work/second.pem" "$url/healthz" >/dev/null 2>&1
ok "another authority" [ $? -eq 60 ]
curl -sS --max-time 5 "http://127.0.0.1:$port/healthz" >"$work/plain" 2>&1
ok "plain HTTP is not answered" [ $? -ne 0 ]

# All that makes a connection sleep, or sends a file.
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models"
model=$(field id)
request "its bytes" 200 "$api/models/$model/file"
ok "the same" cmp -s "$work/body" "$work/net.onnx"
request "some of them" 206 -H 'Range: bytes=1000000-1999999' "$api/models/$model/file"
ok "those" [ "$(wc -c <"$work/body")" = 1000000 ]
post "submit" 202 /jobs "{\"model_id\": \"$model\"}"
job=$(field id)
curl -sSN --max-time 60 "$api/jobs/$job/events" >"$work/stream" 2>/dev/null &
stream=$!
curl -sS --max-time 60 "$api/jobs/$job?wait=50" >"$work/poll" 2>/dev/null &
poll=$!
for _ in $(seq 100); do
    [ "$(curl -sS "$url/metrics" | sed -n 's/^warptune_waiters //p')" = 2 ] && break
    sleep 0.1
done
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
wait $stream $poll
ok "the poll was woken" grep -q '"state":"cancelled"' "$work/poll"
ok "the stream ended" grep -qx 'event: end' "$work/stream"

# The certificate is replaced: half of it first, which changes nothing.
cp "$work/second.pem" "$work/tls.pem"
kill -HUP "$server_pid"
sleep 0.5
request "half a change" 200 "$url/healthz"
ok "is logged" grep -q 'the certificate stays as it was' "$work/server.log"
cp "$work/second.key" "$work/tls.key"
kill -HUP "$server_pid"
for _ in $(seq 50); do
    grep -q 'the certificate was read again' "$work/server.log" && break
    sleep 0.1
done
request "the new one" 200 --cacert "$work/second.pem" "$url/healthz"
curl -sS "$url/healthz" >/dev/null 2>&1
ok "the old one is gone" [ $? -eq 60 ]
export CURL_CA_BUNDLE="$work/second.pem"

# Behind a proxy the browser's origin is the proxy's host, and the client's address what the proxy says last.
request "of its own page" 404 -X DELETE -H 'Origin: https://tune.example' -H 'X-Forwarded-Host: other.example, tune.example' \
    -H 'X-Forwarded-For: 192.0.2.1, 2001:db8::7' "$api/models/00000000-0000-7000-8000-000000000000"
ok "the client is known" grep -q '"client":"2001:db8::7"' "$work/server.log"
request "of another's page" 403 -X DELETE -H 'Origin: https://other.example' -H 'X-Forwarded-Host: other.example, tune.example' \
    -H 'X-Forwarded-For: 192.0.2.9 nonsense' "$api/models/00000000-0000-7000-8000-000000000000"
ok "no nonsense" sh -c "grep 'DELETE.*\"status\":403' '$work/server.log' | grep -q '\"client\":\"127.0.0.1\"'"
stop_server
unset CURL_CA_BUNDLE

start_server --no-worker
request "without a proxy nobody may say so" 403 -X DELETE -H 'Origin: https://tune.example' -H 'X-Forwarded-Host: tune.example' \
    -H 'X-Forwarded-For: 192.0.2.77' "$api/models/00000000-0000-7000-8000-000000000000"
ok "nor who it is" sh -c "! grep -q 192.0.2.77 '$work/server.log'"
