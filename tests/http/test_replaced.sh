#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An upgrade replaces the program's file while the server runs: until it is restarted, the server goes on as it is, and
# its children with it.
. "$(dirname "$0")/lib.sh"
cp "$WARPTUNE_PROGRAM" "$work/warptune"
WARPTUNE_PROGRAM=$work/warptune
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
start_server --devices cpu

rm "$work/warptune"
printf '#!/bin/sh\nexit 7\n' >"$work/warptune"
chmod 755 "$work/warptune"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=net"
post "job" 202 /jobs "{\"model_id\": \"$(field id)\", \"tuner\": {\"trials\": 2}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 1}}"
job=$(field id)
request "its end" 200 "$api/jobs/$job?wait=100"
ok "its end: it is done" [ "$(field state)" = succeeded ]
ok "nothing was put back" sh -c '! grep -q "put back" "$0"' "$work/server.log"
