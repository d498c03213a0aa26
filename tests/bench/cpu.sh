# SPDX-License-Identifier: Apache-2.0
# A tuned ResNet-18 through the server, on the CPU; then its module beside ONNX Runtime, in turn, on the same cores.
tuned_resnet
stop_server
echo "{\"bench\": \"cpu_job\", \"network\": \"resnet-18\", \"state\": \"$(field state <"$work/resnet.json")\", \"tune_s\": $(field tune_s <"$work/resnet.json"), \"trials_per_s\": $(field trials_per_s <"$work/resnet.json"), \"tuned_p50_us\": $(field tuned_p50_us <"$work/resnet.json"), \"baseline_p50_us\": $(field baseline_p50_us <"$work/resnet.json")}"
if python3 -m venv "$work/venv" >/dev/null 2>&1 && "$work/venv/bin/pip" install -q onnxruntime numpy >/dev/null 2>&1; then
    : >"$work/ours" >"$work/theirs" >"$work/ratios"
    for _ in $(seq "${PAIRS:-5}"); do
        ours=$("$program" run "$work/module.so" --repeat 150 | field p50_us)
        theirs=$("$work/venv/bin/python" "$here/onnxruntime_latency.py" "$work/resnet-18.onnx" "$(nproc)" 3 | cut -d' ' -f1)
        echo "$ours" >>"$work/ours"
        echo "$theirs" >>"$work/theirs"
        ratio "$theirs" "$ours" >>"$work/ratios"
        echo >>"$work/ratios"
    done
    echo "{\"bench\": \"cpu_latency\", \"network\": \"resnet-18\", \"ours_us\": $(median <"$work/ours"), \"onnxruntime_us\": $(median <"$work/theirs"), \"speedup\": $(grep . "$work/ratios" | median), \"wanted\": 1.0}"
else
    skip cpu_latency "ONNX Runtime could not be installed"
fi
