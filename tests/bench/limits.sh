# SPDX-License-Identifier: Apache-2.0
# A body that is announced to be too large is refused before any of it is read: the client sends its head, and nothing
# more until the answer is there.
start_server --no-worker --max-upload-mb 1
answer() {
    { printf "POST /v1/models?name=x HTTP/1.1\r\nHost: x\r\n$1\r\n\r\n"; sleep 0.5; } |
        curl -sSN --max-time 3 "telnet://127.0.0.1:${url##*:}" 2>/dev/null | sed -n '1s/^HTTP\/1\.1 \([0-9]*\).*/\1/p'
}
for _ in $(seq 20); do
    curl -sS -o /dev/null -w '%{http_code} %{size_upload} %{time_total}\n' -H 'Expect: 100-continue' \
        --data-binary "@$program" "$url/v1/models?name=x"
done >"$work/refused"
bytes=$(awk '{sum += $2} END {print sum}' "$work/refused")
right=$(grep -c '^413 ' "$work/refused" || true)
echo "{\"bench\": \"body_refused\", \"status\": $(answer 'Content-Length: 1048577'), \"of_20_with_413\": $right, \"body_bytes_sent\": $bytes, \"p50_ms\": $(awk '{print $3 * 1000}' "$work/refused" | median), \"wanted_bytes\": 0}"
