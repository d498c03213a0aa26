# SPDX-License-Identifier: Apache-2.0
"""Latency of an ONNX network in ONNX Runtime on the CPU, for comparison. usage: onnxruntime_latency.py MODEL THREADS SECONDS"""
import sys
import time

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
shape = session.get_inputs()[0].shape
n = int(np.prod(shape))
feed = {session.get_inputs()[0].name: (np.arange(n, dtype=np.float32) / n).reshape(shape)}
for _ in range(10):
    session.run(None, feed)
samples, end = [], time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end:
    start = time.perf_counter()
    session.run(None, feed)
    samples.append(time.perf_counter() - start)
samples.sort()
print(f"{samples[len(samples) // 2] * 1e6:.1f} {samples[0] * 1e6:.1f}")
