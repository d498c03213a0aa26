#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server held to the OpenAPI document that it serves: schemathesis makes up requests, right and wrong ones, for every
# route and method, and looks at each answer: its status is declared and no server error, its type, headers and body are
# as described, what the document forbids is refused and what it allows is taken. The seed is fixed.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
schemathesis=${WARPTUNE_SCHEMATHESIS:-$here/../../build/contract-venv/bin/schemathesis}
ok "schemathesis is there (sh docker/packages.sh test)" [ -x "$schemathesis" ]

start_server --no-worker --max-open-jobs 100 --max-upload-mb 8
"$WARPTUNE_PROGRAM" sample squeezenet-1.1 -o "$work/net.onnx"
sh "$here/small_network.sh" "$work/small.onnx"
octets='Content-Type: application/octet-stream'
request "upload" 201 -H "$octets" --data-binary "@$work/net.onnx" "$api/models"
spare=$(field id)
request "upload another" 201 -H "$octets" --data-binary "@$work/small.onnx" "$api/models"
model=$(field id)
post "a job" 202 /jobs "{\"model_id\": \"$model\"}"
open=$(field id)
post "another" 202 /jobs "{\"model_id\": \"$model\", \"labels\": {\"a\": \"b\"}}"
ended=$(field id)
request "that ends" 202 -X POST "$api/jobs/$ended/cancel"
for columns in 8 16 24; do
    printf '{"input": ["llvm", "plain.cpu", [], {}], "config": {"index": 0, "code_hash": null, "entity": []}, "result": '
    printf '[[0.001], 0, 0.5, 1700000000.25], "version": 0.2, "tvm_version": "x", "warptune": {"workload": '
    printf '"dense(f32:row:1x%d, f32:row:8x%d) -> f32:row:1x8", ' $columns $columns
    printf '"device_key": "cpu/Some CPU/x86-64-v3/4", "version": 1, "spread_s": 1e-07}}\n'
done >"$work/log"
request "a log" 200 -H "$octets" --data-binary "@$work/log" "$api/configs/import"
request "what it held" 200 "$api/configs?limit=1"
workload=$(sed 's/.*"workload":"\([^"]*\)".*/\1/' "$work/body") device=$(field device_key)
ok "there are configurations" [ -n "$workload" ]

# The document's own form, by the schema of OpenAPI 3.1, is checked when it is loaded.
(cd "$work" && PYTHONDONTWRITEBYTECODE=1 SCHEMATHESIS_HOOKS="$here/contract_hooks.py" CONTRACT_IDS="$model $spare $open $ended" \
    CONTRACT_MODEL="$work/small.onnx" CONTRACT_WORKLOAD="$workload" CONTRACT_DEVICE="$device" \
    timeout 150 "$schemathesis" run "$url/openapi.json" --include-path-regex '.*' --seed 1 --max-examples "${CONTRACT_EXAMPLES:-8}" \
    --phases examples,coverage,fuzzing,stateful --request-timeout 6 --no-shrink --continue-on-failure \
    --checks all --exclude-checks ignored_auth,object_level_authorization \
    --suppress-health-check all --warnings off >"$work/contract.txt" 2>&1)
status=$?
sed -n '/SUMMARY/,$p' "$work/contract.txt" | grep -E 'tested|[0-9]+ generated|cases' | head -n 4
[ $status -eq 0 ] || grep -v '^ *$' "$work/contract.txt" | tail -n "${CONTRACT_LINES:-150}"
ok "the server keeps to its document" [ $status -eq 0 ]
operations=$(curl -sS "$url/openapi.json" | grep -o '"tags":\["' | wc -l)
ok "all $operations operations were tested" grep -qE "Tested: *$operations\$" "$work/contract.txt"
request "the server goes on" 200 "$url/readyz"
ok "and had no error of its own" [ -z "$(grep '"level":"error"' "$work/server.log")" ]
