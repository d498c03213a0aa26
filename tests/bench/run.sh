#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The speeds that the project holds itself to, each as a ratio against a peer in the same run; one JSON line each.
#
# usage: run.sh PROGRAM [BENCH…]     the benches are files beside this one: import cpu get limits submit streams waiters
#                                    upload memory; without a name, all. Needs curl, psql, wrk, pgbench, valgrind
#                                    (Debian: wrk, postgresql-contrib, valgrind) and, for the comparison with ONNX
#                                    Runtime, python3-venv and network; what is missing is skipped with a word.
#                                    PAIRS: how often a figure and its peer take turns (5)
set -eu

program=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$program")
work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-bench.XXXXXX")
chmod 755 "$work"
. "$here/lib.sh"
for bench in ${*:-import cpu get limits submit streams waiters upload memory}; do
    . "$here/$bench.sh"
    stop_server
done
