#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job in each precision, from its tasks to a module whose answers are the reference's; and what a wrong one is told.
. "$(dirname "$0")/lib.sh"
start_server --devices cpu
sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
model=$(field id)

request "tasks in fp16" 200 "$api/models/$model/tasks?precision=fp16"
ok "tasks: say so" [ "$(field precision)" = fp16 ]
ok "tasks: of halves" [ "$(grep -o '"workload":"conv2d(f16:nhwc:[0-9x]*, f16:row:[0-9x]*) -> f16:nhwc:' "$work/body" | wc -l)" = 3 ]
request "tasks in bf16" 200 "$api/models/$model/tasks?precision=bf16"
ok "tasks: of bfloats" [ "$(grep -o '"workload":"conv2d(bf16:nhwc:[0-9x]*, bf16:row:[0-9x]*) -> bf16:nhwc:' "$work/body" | wc -l)" = 3 ]
request "tasks in tf32" 200 "$api/models/$model/tasks?precision=tf32"
ok "tasks: of floats that are marked" [ "$(grep -o '"workload":"conv2d(f32:[^"]* math=tf32"' "$work/body" | wc -l)" = 3 ]
request "tasks in fp32" 200 "$api/models/$model/tasks?precision=fp32"
ok "tasks: of floats" [ "$(grep -o '"workload":"conv2d(f32:' "$work/body" | wc -l)" = 3 ]
ok "tasks: without a mark" sh -c "! grep -q math= '$work/body'"
request "tasks in another" 400 "$api/models/$model/tasks?precision=fp8"
problem "tasks in another" bad-query precision
ok "tasks in another: those that there are" grep -q 'fp32, fp16, bf16, tf32' "$work/body"
post "job in another" 400 /jobs "{\"model_id\": \"$model\", \"precision\": \"int8\"}"
problem "job in another" bad-value precision
ok "job in another: those that there are" grep -q 'fp32, fp16, bf16, tf32' "$work/body"
post "template for another" 400 /jobs \
    "{\"model_id\": \"$model\", \"precision\": \"fp16\", \"tuner\": {\"template\": \"conv2d_direct.cpu\"}}"
problem "template for another" wrong-precision tuner.template
ok "template for another: those that there are" grep -q 'plain.cpu' "$work/body"

"$WARPTUNE_PROGRAM" reference "$work/net.onnx" --input random -o "$work/expected.pb"
for precision in fp16 bf16 tf32; do
    "$WARPTUNE_PROGRAM" reference "$work/net.onnx" --input random --precision $precision -o "$work/$precision.pb"
    ok "reference in $precision: rounding shows" sh -c "! cmp -s '$work/expected.pb' '$work/$precision.pb'"
done

# submit PRECISION LAYOUT: leaves the job's module in module.so
submit() {
    post "$1 $2: submit" 202 /jobs "{\"model_id\": \"$model\", \"precision\": \"$1\", \"layout\": \"$2\",
        \"tuner\": {\"trials\": 2}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    job=$(field id)
    request "$1 $2: job" 200 "$api/jobs/$job?wait=100"
    ok "$1 $2: succeeded" [ "$(field state)" = succeeded ]
    ok "$1 $2: the options are kept" [ "$(field precision)" = "$1" ]
    ok "$1 $2: its error is told" grep -q '"relative_error":[0-9]' "$work/body"
    request "$1 $2: module" 200 "$api/jobs/$job/module?format=so"
    cp "$work/body" "$work/module.so"
}

# matches WHAT EXPECTED TOLERANCE true|false
matches() {
    "$WARPTUNE_PROGRAM" run "$work/module.so" --input random --expect "$work/$2.pb" --tolerance "$3" --repeat 3 >"$work/run"
    ok "$1" grep -q "\"matches\": *$4" "$work/run"
}

# A CPU has no TF32, and no need to round.
submit tf32 nhwc
matches "tf32: on a CPU as in fp32" expected 1e-5 true
matches "tf32: not far from the rounded reference" tf32 1e-3 true
submit bf16 nhwc
matches "bf16: within 5e-2 of the reference" expected 5e-2 true
matches "bf16: but not in fp16" expected 1e-4 false
matches "bf16: as the rounded reference" bf16 8e-3 true
request "module in bf16 as tar" 200 "$api/jobs/$job/module?format=tar"
tar xOf "$work/body" manifest.json >"$work/manifest"
ok "manifest: precision bf16" grep -q '"precision": *"bf16"' "$work/manifest"
ok "manifest: the caller's types in bf16" [ "$(tr '{' '\n' <"$work/manifest" | grep -c '"name": *"\(in\|out\)put", *"dtype": *"f32"')" = 2 ]
for layout in nhwc nchw; do
    submit fp16 $layout
    matches "$layout: within 1e-2 of the reference" expected 1e-2 true
    matches "$layout: but not in fp32" expected 1e-6 false
    matches "$layout: as the rounded reference" fp16 1e-3 true
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
for precision in fp16:failed fp32:succeeded bf16:succeeded; do
    post "large numbers: submit" 202 /jobs "{\"model_id\": \"$model\", \"precision\": \"${precision%:*}\",
        \"tuner\": {\"trials\": 1}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    job=$(field id)
    request "large numbers: job" 200 "$api/jobs/$job?wait=100"
    ok "large numbers: $precision" [ "$(field state)" = "${precision#*:}" ]
    [ "${precision#*:}" = succeeded ] || ok "large numbers: why" grep -q '"out-of-range".*65504.*Ask for fp32' "$work/body"
done

# Weights that are NaN: nothing can be compared with what comes of them.
sh "$(dirname "$0")/small_network.sh" "$work/nan.onnx" '\377'
request "upload of NaN" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/nan.onnx" "$api/models?name=nan"
model=$(field id)
for precision in fp32 fp16; do
    post "NaN: submit" 202 /jobs "{\"model_id\": \"$model\", \"precision\": \"$precision\",
        \"tuner\": {\"trials\": 1}, \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
    request "NaN: job" 200 "$api/jobs/$(field id)?wait=100"
    ok "NaN: $precision: why" grep -q '"reference-not-finite".*output.*Look for them in its weights' "$work/body"
done
