# SPDX-License-Identifier: Apache-2.0
"""Latency of a torchvision network with cuDNN in one CUDA graph, for comparison; FP32 without tensor cores, or FP16.

usage: cudnn_latency.py [NETWORK] [BATCH] [fp32|fp16]        prints one JSON line for each memory layout
"""
import json
import sys

import torch
import torch.fx.experimental.optimization as fx_optimization
import torchvision

name = sys.argv[1] if len(sys.argv) > 1 else "resnet18"
batch = int(sys.argv[2]) if len(sys.argv) > 2 else 1
dtype = torch.float16 if sys.argv[3:] == ["fp16"] else torch.float32
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False

for layout in (torch.contiguous_format, torch.channels_last):
    with torch.no_grad():
        net = fx_optimization.fuse(getattr(torchvision.models, name)(weights=None).eval()).cuda().to(dtype, memory_format=layout)
        x = torch.rand(batch, 3, 224, 224, device="cuda").to(dtype, memory_format=layout)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                net(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                net(x)
            samples = []
            for _ in range(200):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                samples.append(start.elapsed_time(end) * 1e3)
        samples.sort()
        print(json.dumps({"bench": "cudnn_graph", "network": name, "batch": batch, "precision": str(dtype), "layout": str(layout), "p50_us": round(samples[100], 1), "min_us": round(samples[0], 1)}))
