# SPDX-License-Identifier: Apache-2.0
# Upload of a network beside psql's \copy of the same bytes, in the rows that they are stored in, into a table like
# theirs, in turn. The upload hashes the file and looks into it besides. VGG-16: 553 MB.
network=${NETWORK:-vgg-16}
now() {
    date +%s.%N
}

start_server --no-worker
"$program" sample "$network" -o "$work/big.onnx"
bytes=$(stat -c %s "$work/big.onnx")
sql 'CREATE TABLE bench_chunks (LIKE blob_chunks INCLUDING ALL)'
: >"$work/ours" >"$work/theirs"
for _ in $(seq "${PAIRS:-5}"); do
    began=$(now)
    model=$(curl -fsS --data-binary "@$work/big.onnx" "$url/v1/models?name=big" | field id)
    awk "BEGIN {print $(now) - $began}" >>"$work/ours"
    [ -f "$work/rows" ] || sql "\\copy blob_chunks TO '$work/rows' (FORMAT binary)"
    curl -fsS -X DELETE "$url/v1/models/$model"
    began=$(now)
    sql "\\copy bench_chunks FROM '$work/rows' (FORMAT binary)"
    awk "BEGIN {print $(now) - $began}" >>"$work/theirs"
    sql 'TRUNCATE bench_chunks'
done
ratios=$(paste "$work/ours" "$work/theirs" | awk '{print $2 / $1}' | median)
echo "{\"bench\": \"upload\", \"bytes\": $bytes, \"upload_s\": $(median <"$work/ours"), \"copy_s\": $(median <"$work/theirs"), \"ratio\": $ratios, \"wanted\": 0.6}"
stop_server
rm -rf "$work/big.onnx" "$work/rows" "$work/data" "$work/resnet.job"
