#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs test programs one after another, shows what each says, and ends with one line of totals over programs.
# usage: run_all.sh [--env NAME=VALUE]… PROGRAM…
while [ "${1:-}" = --env ]; do
    export "$2"
    shift 2
done
passed=0 failed=0 names=
for program in "$@"; do
    name=$(basename "$program")
    echo "== $name"
    case $program in *.sh) sh "$program" ;; *) "$program" --short-filename ;; esac
    if [ $? -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) names="$names $name"; fi
done
[ -z "$names" ] || echo "failed:$names"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
