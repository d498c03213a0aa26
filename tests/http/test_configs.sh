#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configurations over HTTP: logs imported with bad lines among them, exported and imported again, listed in pages, looked
# up; logs cleaned. What is of use depends on the templates there are; the plain ones are always there.
. "$(dirname "$0")/lib.sh"
log=${WARPTUNE_SHARED:-$(dirname "$0")/../../../shared}/tophub/cuda.log
start_server --no-worker
ndjson='Content-Type: application/x-ndjson'

# line TEMPLATE WORKLOAD DEVICE-KEY COST: a record of ours.
line() {
    case $1 in *.cpu) target=llvm ;; *) target=cuda ;; esac
    printf '{"input": ["%s", "%s", [], {}], "config": {"index": 0, "code_hash": null, "entity": []}, ' "$target" "$1"
    printf '"result": [[%s], 0, 0.5, 1700000000.25], "version": 0.2, "tvm_version": "x", "warptune": ' "$4"
    printf '{"workload": "%s", "device_key": "%s", "version": 1, "spread_s": 1e-07}}\n' "$2" "$3"
}
dense() { # dense ROWS COLUMNS: a workload
    echo "dense(f32:row:1x$2, f32:row:$1x$2) -> f32:row:1x$1"
}
h200='cuda/NVIDIA H200/sm_90a/132'
here='cpu/Some CPU/x86-64-v3/4'
import() { # import NAME STATUS FILE [QUERY]
    request "$1" "$2" -H "$ndjson" --data-binary "@$3" "$api/configs/import${4:-}"
}
lookup() { # lookup NAME WORKLOAD DEVICE
    request "$1" 200 -G --data-urlencode "workload=$2" --data-urlencode "device=$3" "$api/configs/lookup"
}
export_to() {
    request "export" 200 "$api/configs/export?format=autotvm"
    cp "$work/body" "$1"
}

# ---- the published log ----
request "nothing known" 200 "$api/configs"
ok "nothing known: empty" grep -q '"configs":\[\]' "$work/body"
published_log() {
    import "published log" 200 "$log"
    ok "published log: lines" [ "$(field lines)" = 265 ]
    ok "published log: none bad" [ "$(field bad)" = 0 ]
    ok "published log: none failed" [ "$(field failed)" = 0 ]
    ok "published log: all accounted for" [ $(($(field imported) + $(field stale))) = 265 ]
    ok "published log: kept or slower" [ $(($(field kept) + $(field slower))) = "$(field imported)" ]
    imported=$(field imported)
    if [ "$imported" -gt 0 ]; then
        ok "published log: under no local device" grep -q '"device_keys":\["cuda/titanx","cuda/v100"\]' "$work/body"
        ok "published log: says so" grep -q 'Pass device=' "$work/body"
    fi
    export_to "$work/first"
    import "published log again" 200 "$log"
    ok "published log again: nothing new" [ "$(field kept)" = 0 ]
    import "published log for a device" 200 "$log" "?device=cuda/NVIDIA%20H200/sm_90a/132"
    ok "published log for a device: as many" [ "$(field imported)" = "$imported" ]
}
if [ -r "$log" ]; then
    published_log
else
    echo "# skipped: there is no tuning log $log"
fi

# ---- bad lines ----
{
    line plain.cpu "$(dense 10 20)" "$here" 2e-05
    echo 'not a record'
    line plain.cpu "$(dense 10 20)" "$here" 1e-05
    echo
    line plain.cpu "$(dense 1000 512)" "$here" 3e-05 | cut -c 1-120
    line plain.cpu "$(dense 1000 512)" "$here" 3e-05
    line plain.cpu "$(dense 1000 512)" "$here" 1000000000 | sed 's/, 0, 0.5/, 4, 0.5/'
    line gone.cpu "$(dense 1000 512)" "$here" 1e-06
    head -c 70000 /dev/zero | tr '\0' x
    echo
    printf '{"i": ["cuda"], "v": 0.1}\n'
    printf '{"inp\0ut": 1}\n'
    line plain.cuda "$(dense 1000 512)" "$h200" 1e-05
    line plain.cuda "$(dense 2000 512)" "$h200" 2e-05 | head -c 200
} >"$work/mixed.log"
import "bad lines" 200 "$work/mixed.log"
ok "bad lines: lines" [ "$(field lines)" = 12 ]
ok "bad lines: bad" [ "$(field bad)" = 6 ]
ok "bad lines: failed" [ "$(field failed)" = 1 ]
ok "bad lines: stale" [ "$(field stale)" = 1 ]
ok "bad lines: imported" [ "$(field imported)" = 4 ]
ok "bad lines: kept" [ "$(field kept)" = 3 ]
ok "bad lines: slower" [ "$(field slower)" = 1 ]
ok "bad lines: the second is named" grep -q '"errors":\[{"line":2,' "$work/body"
ok "bad lines: too long" grep -q 'longer than 65536 bytes' "$work/body"
ok "bad lines: old version" grep -q 'version 0.1' "$work/body"
ok "bad lines: cut off" grep -q 'The last line is cut off' "$work/body"
ok "bad lines: why stale" grep -q 'no template of the name gone.cpu' "$work/body"
ok "bad lines: nothing foreign" grep -q '"note":null' "$work/body"

line plain.cpu "$(dense 10 20)" "$here" 5e-06 | tr -d '\n' >"$work/one.log"
request "as a form" 200 -F "records=@$work/one.log" "$api/configs/import"
ok "as a form: kept" [ "$(field kept)" = 1 ]
request "as curl sends it" 200 --data-binary "@$work/one.log" "$api/configs/import"
ok "as curl sends it: not again" [ "$(field slower)" = 1 ]
request "other field of a form" 400 -F "model=@$work/one.log" "$api/configs/import"
problem "other field of a form" bad-multipart records
request "empty" 400 -H "$ndjson" --data-binary '' "$api/configs/import"
problem "empty" empty-body
request "blank lines" 200 -H "$ndjson" --data-binary '

' "$api/configs/import"
ok "blank lines: none" [ "$(field lines)" = 0 ]
request "not a log" 200 -H "$ndjson" --data-binary "@$WARPTUNE_PROGRAM" "$api/configs/import"
ok "not a log: nothing" [ "$(field imported)" = 0 ]
request "wrong type" 415 -H 'Content-Type: text/html' --data-binary x "$api/configs/import"
request "no such device" 400 -H "$ndjson" --data-binary "@$work/one.log" "$api/configs/import?device=tpu/1"
problem "no such device" bad-query device
import "device of another kind" 200 "$work/one.log" "?device=cuda/x"
ok "device of another kind: of no use" [ "$(field stale)" = 1 ]

# ---- export ----
export_to "$work/one"
ok "export: ours" grep -q '"workload":"dense(f32:row:1x20' "$work/one"
ok "export: newest best" grep -q '\[\[5e-06\],0,' "$work/one"
import "import of the export" 200 "$work/one"
ok "import of the export: all read" [ "$(field lines)" = "$(field imported)" ]
ok "import of the export: nothing new" [ "$(field kept)" = 0 ]
export_to "$work/two"
ok "export: same bytes" cmp -s "$work/one" "$work/two"
request "export as JSON" 200 "$api/configs/export?format=json&device=cuda/NVIDIA%20H200/sm_90a/132"
ok "export as JSON: one object a line" [ "$(grep -c '^{"workload":.*}$' "$work/body")" = "$(wc -l <"$work/body")" ]
ok "export as JSON: filtered" grep -q '"cost_us":10.000' "$work/body"
request "export: bad format" 400 "$api/configs/export?format=xml"
problem "export: bad format" bad-query format

# ---- list ----
request "list" 200 "$api/configs?limit=500"
total=$(grep -o '"workload":' "$work/body" | wc -l)
ok "list: as many as exported" [ "$total" -le 500 ] && [ "$total" -ge 3 ]
seen=0 next="$api/configs?limit=2" pages=0
while [ -n "$next" ] && [ $pages -lt 600 ]; do
    request "page" 200 "$next"
    seen=$((seen + $(grep -o '"workload":' "$work/body" | wc -l)))
    next=$(sed -n 's/^[Ll]ink: <\([^>]*\)>; rel="next".*/\1/p' "$work/headers")
    [ -n "$next" ] && next=$url$next
    pages=$((pages + 1))
done
ok "list: pages show each once" [ "$seen" = "$(wc -l <"$work/two")" ]
request "list of a device" 200 -G --data-urlencode "device=$here" "$api/configs"
ok "list of a device: two" [ "$(grep -o '"workload":' "$work/body" | wc -l)" = 2 ]
request "list: bad cursor" 400 "$api/configs?cursor=x"
problem "list: bad cursor" bad-query cursor
request "list: not UTF-8" 400 "$api/configs?workload=%ff"

# ---- lookup ----
lookup "exact" "$(dense 10 20)" "$here"
ok "exact: match" [ "$(field match)" = exact ]
ok "exact: cost" grep -q '"cost_us":5.000' "$work/body"
lookup "near" "$(dense 900 512)" "$here"
ok "near: match" [ "$(field match)" = near ]
ok "near: the closest" grep -q '"config":{"workload":"dense(f32:row:1x512, f32:row:1000x512)' "$work/body"
ok "near: distance" grep -q '"distance":0.2' "$work/body"
lookup "other device" "$(dense 1000 512)" 'cuda/NVIDIA T4/sm_75/40'
ok "other device: match" [ "$(field match)" = other-device ]
ok "other device: which" grep -q '"device_key":"cuda/NVIDIA H200' "$work/body"
lookup "none" "$(dense 10 20)" 'cuda/NVIDIA T4/sm_75/40'
ok "none: match" [ "$(field match)" = none ]
ok "none: no configuration" grep -q '"config":null' "$work/body"
request "lookup: no device" 400 -G --data-urlencode "workload=$(dense 10 20)" "$api/configs/lookup"
problem "lookup: no device" missing-query device
request "lookup: bad workload" 400 "$api/configs/lookup?workload=dense&device=cpu/x"
problem "lookup: bad workload" bad-workload workload

# ---- clean ----
request "clean" 200 -H "$ndjson" --data-binary "@$work/mixed.log" "$api/records/clean"
ok "clean: counts" grep -qi '^warptune-records: lines=12, kept=3, failed=1, stale=1, duplicates=1, bad=6' "$work/headers"
ok "clean: bad lines" grep -qi '^warptune-bad-lines: 2, 5, 9, 10, 11, 13' "$work/headers"
sed -n '3p;6p;12p' "$work/mixed.log" >"$work/expected"
ok "clean: the best lines as they were" cmp -s "$work/body" "$work/expected"
cp "$work/body" "$work/clean.log"
request "clean again" 200 --data-binary "@$work/clean.log" "$api/records/clean"
ok "clean again: the same" cmp -s "$work/body" "$work/clean.log"
request "clean: all" 200 --data-binary "@$work/mixed.log" "$api/records/clean?keep=all"
ok "clean: all that is good" [ "$(wc -l <"$work/body")" = 4 ]
request "clean: bad option" 400 --data-binary "@$work/mixed.log" "$api/records/clean?keep=worst"
request "clean: nothing good" 200 --data-binary 'x' "$api/records/clean"
ok "clean: nothing left" [ ! -s "$work/body" ]

# ---- another server: the export is all it needs; a body over its limit is refused ----
stop_server
rm -rf "$work/data"
start_server --no-worker --max-upload-mb 1
import "into another server" 200 "$work/two"
ok "into another server: all" [ "$(field kept)" = "$(wc -l <"$work/two")" ]
export_to "$work/three"
for file in two three; do sed 's/,[0-9.]*\],"version"/],"version"/' "$work/$file" >"$work/$file.timeless"; done
ok "into another server: nothing lost" cmp -s "$work/two.timeless" "$work/three.timeless"
yes "$(cat "$work/one.log")" | head -n 4000 >"$work/large.log"
import "oversized" 413 "$work/large.log"
problem "oversized" body-too-large
head -n 2000 "$work/large.log" >"$work/long.log"
import "long" 200 "$work/long.log"
ok "long: read" [ "$(field imported)" = 2000 ]
ok "long: nothing new" [ "$(field kept)" = 0 ]
ok "no spool left" [ -z "$(ls "$work/data/uploads" 2>/dev/null)" ]
