# SPDX-License-Identifier: Apache-2.0
# ONNX import of VGG-16, beyond reading the file.
"$program" sample vgg-16 -o "$work/vgg-16.onnx"
"$build/tests/bench/bench_import" "$work/vgg-16.onnx"
rm -f "$work/vgg-16.onnx"
