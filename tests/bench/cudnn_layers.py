# SPDX-License-Identifier: Apache-2.0
"""cuDNN's best time for each convolution and dense layer of a tuning job, beside the job's own; FP32, no tensor cores.

usage: cudnn_layers.py JOB.json        the answer of GET /v1/jobs/{id}
Each layer runs as cuDNN chooses after its own benchmark, in both memory layouts, without bias or activation (which ours
include), in a CUDA graph of 50 launches over buffers that take turns; the faster layout counts. Prints one JSON line a
layer and one of the sums.
"""
import json
import re
import sys

import torch
import torch.nn.functional as functional

torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
LAUNCHES, SETS, ROUNDS = 50, 8, 20


def time_us(call):
    """Median over ROUNDS of one launch's time; call(i) uses buffer set i."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(SETS):
            call(i)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(LAUNCHES):
                call(i % SETS)
        samples = []
        for _ in range(ROUNDS + 3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) * 1e3 / LAUNCHES)
    return sorted(samples[3:])[ROUNDS // 2]


def shape_of(text):
    return [int(n) for n in text.split(":")[-1].split("x")]


def layer_us(workload):
    operands = workload[workload.index("(") + 1 : workload.index(")")].split(", ")
    x_shape, w_shape = shape_of(operands[0]), shape_of(operands[1])
    if not workload.startswith("conv2d("):
        x = [torch.rand(x_shape, device="cuda") for _ in range(SETS)]
        w = torch.rand(w_shape, device="cuda")
        return time_us(lambda i: x[i] @ (w.t() if x_shape[-1] == w_shape[-1] else w))
    attr = dict(re.findall(r"(\w+)=([0-9x]+)", workload))
    stride, dilation, pad = ([int(n) for n in attr[k].split("x")] for k in ("stride", "dilation", "pad"))
    best = float("inf")
    for layout in (torch.contiguous_format, torch.channels_last):
        x = [torch.rand(x_shape, device="cuda").to(memory_format=layout) for _ in range(SETS)]
        w = torch.rand(w_shape, device="cuda").to(memory_format=layout)
        run = lambda i: functional.conv2d(x[i], w, None, stride, pad[:2], dilation, int(attr["groups"]))
        best = min(best, time_us(run))
    return best


with open(sys.argv[1]) as file, torch.no_grad():
    tasks = json.load(file)["tasks"]
ours_sum = theirs_sum = 0.0
for task in tasks:
    ours, theirs = task["best_us"], layer_us(task["workload"])
    ours_sum += ours * task["count"]
    theirs_sum += theirs * task["count"]
    print(json.dumps({"bench": "layer", "workload": task["workload"], "count": task["count"], "ours_us": round(ours, 2),
                      "cudnn_us": round(theirs, 2), "ratio": round(theirs / ours, 2)}), flush=True)
print(json.dumps({"bench": "layers_sum", "ours_us": round(ours_sum, 1), "cudnn_us": round(theirs_sum, 1),
                  "ratio": round(theirs_sum / ours_sum, 2)}))
