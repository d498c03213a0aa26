#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds the sources to the order of the folders: a file includes its own folder and those listed before it. Also: SQL
# only in service/store, and a licence line in every source.
set -eu
order="service/base service/model service/store gpu/device gpu/template gpu/measure gpu/module scheduler/search scheduler api service"
status=0

rank() { # position of a file's folder in the order; the runtime counts as gpu/module
    case $1 in gpu/module/runtime/*) set -- gpu/module/x ;; esac
    n=0
    for folder in $order; do
        n=$((n + 1))
        [ "$(dirname "$1")" = "$folder" ] && { echo $n; return; }
    done
    case $1 in api/*) echo 10 ;; *) echo 99 ;; esac
}

for file in $(find service gpu scheduler api -name '*.[ch]'); do
    own=$(rank "$file")
    for include in $(sed -n 's/^#include "\([^"]*\/[^"]*\)".*/\1/p' "$file"); do
        other=$(rank "$include")
        if [ "$other" -gt "$own" ]; then
            echo "$file: includes upward: $include"
            status=1
        fi
        case $file:$include in
            gpu/*:service/store/* | api/*:gpu/device/cuda*) echo "$file: must not include $include"; status=1 ;;
        esac
    done
    head -n 1 "$file" | grep -q SPDX-License-Identifier || { echo "$file: no SPDX line"; status=1; }
done

if grep -nE '"(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH) ' -r gpu scheduler api service/base service/model service/*.c; then
    echo "SQL outside service/store"
    status=1
fi
exit $status
