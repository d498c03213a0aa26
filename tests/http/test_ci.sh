#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The script for CI, as the README has it, against a real server: it passes, it fails on a regression, on a job that
# fails and on one that somebody cancels.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
mkdir "$work/ci"
awk '/test_ci.sh runs this script/ { found = 1; next }
     found && /^```sh$/ { inside = 1; next }
     inside && /^```$/ { exit }
     inside' "$here/../../README.md" >"$work/ci/tune.sh"
ok "the README has the script" [ "$(head -n 1 "$work/ci/tune.sh")" = '#!/bin/sh' ]

start_server --devices cpu
sh "$here/small_network.sh" "$work/ci/net.onnx"
quick='"device": "cpu", "tuner": {"name": "random", "trials": 4}, "measure": {"repeat": 1, "min_repeat_ms": 0}'
WARPTUNE_URL=$url
export WARPTUNE_URL

# tune [NAME=VALUE…]: runs the script with these in its environment; what it says is in $work/body.
tune() {
    (cd "$work/ci" && rm -f report.* module.so && env "$@" timeout 200 sh ./tune.sh net.onnx) >"$work/body" 2>&1
}
sql() {
    psql -qAt -h "$work/data/run" -U warptune -d warptune -c "$1" >"$work/sql.out" 2>&1
    ok "sql" [ ! -s "$work/sql.out" ]
}

ok "no server" sh -c "! WARPTUNE_URL= sh '$work/ci/tune.sh' '$work/ci/net.onnx' >/dev/null 2>&1"
ok "first: passes" tune "WARPTUNE_OPTIONS=$quick" WARPTUNE_KEY=run-1
job=$(sed -n 's/^job //p' "$work/body")
ok "first: JUnit" [ "$(grep -c '<testcase ' "$work/ci/report.xml")" = 4 ]
ok "first: Markdown" grep -q '^### <code>net</code> on ' "$work/ci/report.md"
ok "first: the module runs" sh -c "\"$WARPTUNE_PROGRAM\" run '$work/ci/module.so' --repeat 1 >/dev/null"
ok "the same run again: passes" tune "WARPTUNE_OPTIONS=$quick" WARPTUNE_KEY=run-1
ok "the same run again: the same job" [ "$(sed -n 's/^job //p' "$work/body")" = "$job" ]
ok "nothing golden: fails" sh -c "! (cd '$work/ci' && WARPTUNE_COMPARE=golden WARPTUNE_KEY=run-1 WARPTUNE_OPTIONS='$quick' sh ./tune.sh net.onnx) >'$work/body' 2>&1"
ok "nothing golden: says so" grep -q 'no-golden' "$work/body"

# Golden figures that nothing can miss, then some that nothing can reach.
request "golden" 201 -X PUT -H 'Content-Type: application/json' -d "{\"job_id\": \"$job\"}" "$api/golden"
sql 'UPDATE golden_configs SET cost_s = cost_s * 1000'
sql "UPDATE golden SET result = jsonb_set(result::jsonb, '{tuned_p50_us}', '1e9')"
exact="$quick, \"reuse\": \"exact\""
ok "no regression: passes" tune "WARPTUNE_OPTIONS=$exact" WARPTUNE_COMPARE=golden
ok "no regression: said" grep -q 'No regression against golden set 1' "$work/ci/report.md"
ok "no regression: nothing was searched" [ "$(grep -c '| reused |$' "$work/ci/report.md")" = 3 ]
sql 'UPDATE golden_configs SET cost_s = cost_s / 1e6'
ok "regression: fails" sh -c "! (cd '$work/ci' && WARPTUNE_COMPARE=golden WARPTUNE_LIMIT=1.5 WARPTUNE_OPTIONS='$exact' sh ./tune.sh net.onnx) >'$work/body' 2>&1"
ok "regression: says which" grep -q '^:x: 3 regressions against golden set 1' "$work/body"
ok "regression: in JUnit" [ "$(grep -c '<failure type="regression"' "$work/ci/report.xml")" = 3 ]

ok "a job that fails: fails" sh -c "! (cd '$work/ci' && WARPTUNE_OPTIONS='\"batch\": 7' sh ./tune.sh net.onnx) >'$work/body' 2>&1"
ok "a job that fails: says why" grep -q 'fixed batch' "$work/body"
ok "a job that fails: its error" grep -q 'urn:warptune:problem:job-failed' "$work/body"
ok "a bad option: fails" sh -c "! (cd '$work/ci' && WARPTUNE_OPTIONS='\"trails\": 7' sh ./tune.sh net.onnx) >'$work/body' 2>&1"
ok "a bad option: names it" grep -q '"field":"trails"' "$work/body"

# Somebody cancels the job while the script waits for it.
long='"device": "cpu", "tuner": {"name": "random", "trials": 100000}, "reuse": false, "labels": {"ci": "cancel"}'
(cd "$work/ci" && WARPTUNE_OPTIONS="$long" sh ./tune.sh net.onnx) \
    >"$work/cancelled" 2>&1 &
script=$!
for _ in $(seq 100); do
    curl -sS -o "$work/body" "$api/jobs?label=ci%3Dcancel"
    job=$(field id)
    [ -n "$job" ] && break
    sleep 0.05
done
request "cancel" 202 -X POST "$api/jobs/$job/cancel"
wait $script
ok "cancelled: fails" [ $? -ne 0 ]
ok "cancelled: says so" grep -q 'urn:warptune:problem:job-cancelled' "$work/cancelled"
