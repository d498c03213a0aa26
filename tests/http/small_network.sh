#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes a network of three small convolutions as ONNX (protobuf by hand): three tasks that are tuned in a moment.
# usage: small_network.sh FILE [BYTE]: each byte of each weight; "=" makes them 0.046, "G" 51015
set -eu
byte=${2:-=}
dir=$(mktemp -d "${TMPDIR:-/tmp}/warptune-net.XXXXXX")
trap 'rm -rf "$dir"' EXIT

varint() {
    n=$1
    while [ "$n" -ge 128 ]; do
        printf "\\$(printf %03o $((n % 128 + 128)))"
        n=$((n / 128))
    done
    printf "\\$(printf %03o "$n")"
}
number() { # FIELD VALUE
    varint $(($1 * 8))
    varint "$2"
}
text() { # FIELD TEXT
    varint $(($1 * 8 + 2))
    varint ${#2}
    printf %s "$2"
}
message() { # FIELD FILE
    varint $(($1 * 8 + 2))
    varint "$(wc -c <"$2")"
    cat "$2"
}

# value NAME CHANNELS SIZE: a float tensor of 1 × CHANNELS × SIZE × SIZE
value() {
    for dim in 1 "$2" "$3" "$3"; do
        number 1 "$dim" >"$dir/dim"
        message 1 "$dir/dim"
    done >"$dir/shape"
    { number 1 1; message 2 "$dir/shape"; } >"$dir/tensor"
    message 1 "$dir/tensor" >"$dir/type"
    text 1 "$1"
    message 2 "$dir/type"
}

# conv NUMBER IN OUT OUT-CHANNELS IN-CHANNELS KERNEL: appends the node and its weights, all alike, to the graph
conv() {
    { text 1 "$2"; text 1 "w$1"; text 2 "$3"; text 3 "conv$1"; text 4 Conv; } >"$dir/node"
    head -c $((4 * $4 * $5 * $6 * $6)) /dev/zero | tr '\0' "$byte" >"$dir/data"
    { for dim in "$4" "$5" "$6" "$6"; do number 1 "$dim"; done; number 2 1; text 8 "w$1"; message 9 "$dir/data"; } \
        >"$dir/weight"
    { message 1 "$dir/node"; message 5 "$dir/weight"; } >>"$dir/graph"
}

text 2 small >"$dir/graph"
conv 1 input a 16 8 3
conv 2 a b 16 16 3
conv 3 b output 8 16 1
value input 8 28 >"$dir/input"
value output 8 24 >"$dir/output"
{ message 11 "$dir/input"; message 12 "$dir/output"; } >>"$dir/graph"
{ text 1 ''; number 2 13; } >"$dir/opset"
{ number 1 8; message 7 "$dir/graph"; message 8 "$dir/opset"; } >"$1"
