#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The dashboard in a real browser: a person's way from the first upload to the last row, and what a page must not do.
# DASHBOARD_PICTURES=FOLDER keeps pictures of all pages.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start_server --devices cpu

request "page" 200 "$url/"
ok "page: type" [ "$(header Content-Type)" = 'text/html; charset=utf-8' ]
ok "page: not sniffed" [ "$(header X-Content-Type-Options)" = nosniff ]
ok "page: kept, but asked for again" [ "$(header Cache-Control)" = 'private, no-cache' ]
ok "page: one policy" [ "$(header Content-Security-Policy)" = "default-src 'none'; script-src 'self'; style-src 'self'; \
connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'" ]
ok "page: nothing from elsewhere" [ -z "$(grep -Eo '(src|href)="(https?:)?//[^"]*' "$work/body")" ]
request "page, again" 304 -H "If-None-Match: $(header ETag)" "$url/"
for file in "$here"/../../api/dashboard/*; do
    name=${file##*/}
    [ "$name" != index.html ] || continue
    request "$name" 200 "$url/dashboard/$name"
    ok "$name: its bytes" cmp -s "$work/body" "$file"
done
ok "style: type" [ "$(curl -sSo /dev/null -w '%{content_type}' "$url/dashboard/style.css")" = 'text/css; charset=utf-8' ]
ok "script: type" [ "$(curl -sSo /dev/null -w '%{content_type}' "$url/dashboard/app.js")" = 'text/javascript; charset=utf-8' ]
request "no such file" 404 "$url/dashboard/..%2Froutes.c"
problem "no such file" no-such-route
request "the page has one address" 404 "$url/dashboard/index.html"

sh "$here/small_network.sh" "$work/net.onnx"
PYTHONDONTWRITEBYTECODE=1 TMPDIR="$work" python3 "$here/dashboard.py" "$url" "$work/net.onnx" "$work" >"$work/browser.txt" 2>&1
status=$?
cat "$work/browser.txt"
ok "in the browser" [ $status -eq 0 ]
