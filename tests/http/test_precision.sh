#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job in fp16, from its tasks to a module whose answers are the reference's; and what a wrong precision is told.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)

request "tasks in fp16" 200 "$api/models/$model/tasks?precision=fp16"
ok "tasks: say so" [ "$(field precision)" = fp16 ]
ok "tasks: of halves" [ "$(grep -o '"workload":"conv2d(f16:nhwc:[0-9x]*, f16:row:[0-9x]*) -> f16:nhwc:' "$work/body" | wc -l)" = 3 ]
request "tasks in fp32" 200 "$api/models/$model/tasks?precision=fp32"
ok "tasks: of floats" [ "$(grep -o '"workload":"conv2d(f32:' "$work/body" | wc -l)" = 3 ]
request "tasks in another" 400 "$api/models/$model/tasks?precision=fp8"
problem "tasks in another" bad-query precision
ok "tasks in another: those that there are" grep -q 'fp32, fp16' "$work/body"
post "job in another" 400 /jobs "{\"model_id\": \"$model\", \"precision\": \"bf16\"}"
problem "job in another" bad-value precision
ok "job in another: those that there are" grep -q 'fp32, fp16' "$work/body"
post "template for another" 400 /jobs \
    "{\"model_id\": \"$model\", \"precision\": \"fp16\", \"tuner\": {\"template\": \"conv2d_direct.cpu\"}}"
problem "template for another" wrong-precision tuner.template
ok "template for another: those that there are" grep -q 'plain.cpu' "$work/body"

"$WARPTUNE_PROGRAM" reference "$work/net.onnx" --input random -o "$work/expected.pb"
"$WARPTUNE_PROGRAM" reference "$work/net.onnx" --input random --precision fp16 -o "$work/rounded.pb"
ok "reference: rounding shows" sh -c "! cmp -s '$work/expected.pb' '$work/rounded.pb'"
for layout in nhwc nchw; do
    post "$layout: submit" 202 /jobs "{\"model_id\": \"$model\", \"precision\": \"fp16\", \"layout\": \"$layout\",
        \"tuner\": {\"trials\": 2}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    job=$(field id)
    request "$layout: job" 200 "$api/jobs/$job?wait=100"
    ok "$layout: succeeded" [ "$(field state)" = succeeded ]
    ok "$layout: the options are kept" [ "$(field precision)" = fp16 ]
    ok "$layout: its error is told" grep -q '"relative_error":[0-9]' "$work/body"
    request "$layout: module" 200 "$api/jobs/$job/module?format=so"
    cp "$work/body" "$work/module.so"
    "$WARPTUNE_PROGRAM" run "$work/module.so" --input random --expect "$work/expected.pb" --tolerance 1e-2 --repeat 3 \
        >"$work/run"
    ok "$layout: within 1e-2 of the reference" grep -q '"matches": *true' "$work/run"
    "$WARPTUNE_PROGRAM" run "$work/module.so" --input random --expect "$work/expected.pb" --tolerance 1e-6 --repeat 3 \
        >"$work/run"
    ok "$layout: but not in fp32" grep -q '"matches": *false' "$work/run"
    "$WARPTUNE_PROGRAM" run "$work/module.so" --input random --expect "$work/rounded.pb" --tolerance 1e-3 --repeat 3 \
        >"$work/run"
    ok "$layout: as the rounded reference" grep -q '"matches": *true' "$work/run"
done
request "module as tar" 200 "$api/jobs/$job/module?format=tar"
tar xOf "$work/body" manifest.json >"$work/manifest"
ok "manifest: precision" grep -q '"precision": *"fp16"' "$work/manifest"
ok "manifest: no constant was too large" grep -q '"saturated_constants": *0' "$work/manifest"
ok "manifest: the caller's types" [ "$(tr '{' '\n' <"$work/manifest" | grep -c '"name": *"\(in\|out\)put", *"dtype": *"f32"')" = 2 ]

# Weights that f16 holds, sums that it does not.
sh "$(dirname "$0")/small_network.sh" "$work/large.onnx" G
request "upload of large numbers" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/large.onnx" \
    "$api/models?name=large"
model=$(field id)
for precision in fp16:failed fp32:succeeded; do
    post "large numbers: submit" 202 /jobs "{\"model_id\": \"$model\", \"precision\": \"${precision%:*}\",
        \"tuner\": {\"trials\": 1}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    job=$(field id)
    request "large numbers: job" 200 "$api/jobs/$job?wait=100"
    ok "large numbers: $precision" [ "$(field state)" = "${precision#*:}" ]
    [ "${precision#*:}" = succeeded ] || ok "large numbers: why" grep -q '"out-of-range".*65504.*Ask for fp32' "$work/body"
done
