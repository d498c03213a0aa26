#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `serve --user`: started as root, the server takes a port and a key that are root's, becomes the user for good, and does
# all of its work so: database, compilers, kernels. A folder of somebody else's is refused with a word.
. "$(dirname "$0")/lib.sh"
if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: only root can become another user"
    exit 0
fi
user=nobody
uid=$(id -u $user)
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
chmod 600 "$work/key.pem"

# refused NAME TEXT OPTION…: the server does not start, and says why.
refused() {
    refusal=$1 text=$2
    shift 2
    "$@" >"$work/refused" 2>&1
    ok "$refusal: it does not start" [ $? -eq 1 ]
    ok "$refusal: it says why" grep -q "$text" "$work/refused"
}
mkdir "$work/roots"
refused "a folder of root's" "chown -R $user $work/roots" \
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/roots" --user $user
ok "a folder of root's: nothing is made in it" [ -z "$(ls -A "$work/roots")" ]
refused "no such user" "no user 'nobody-at-all'" \
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" --user nobody-at-all
refused "root" "is root itself" "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" --user root
refused "not as root" "Only root can become" setpriv --reuid=$user --clear-groups \
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" --user daemon
mkdir -m 700 "$work/closed"
install -d -o $user "$work/closed/data"
refused "a folder behind a closed one" "chmod o+x" \
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/closed/data" --user $user

port=$(awk 'BEGIN { srand(); print 600 + int(rand() * 400) }') # below 1024: for root
export CURL_CA_BUNDLE="$work/cert.pem"
start_server --listen "127.0.0.1:$port" --devices cpu --builders 2 --user $user --tls-cert "$work/cert.pem" \
    --tls-key "$work/key.pem"
ok "it has the port" [ "$url" = "https://127.0.0.1:$port" ]

# status PID FIELD: as the kernel tells it, blanks as one space.
status() {
    sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" | tr '\t' ' '
}
ok "user: real, effective, saved, file system's" [ "$(status "$server_pid" Uid)" = "$uid $uid $uid $uid" ]
gid=$(id -g $user)
ok "group, too" [ "$(status "$server_pid" Gid)" = "$gid $gid $gid $gid" ]
ok "root's groups are gone" [ "$(status "$server_pid" Groups | xargs -n 1 | sort -n | xargs)" = "$(id -G $user | xargs -n 1 | sort -n | xargs)" ]
for set in CapPrm CapEff CapAmb; do
    ok "$set is empty" [ "$(status "$server_pid" $set)" = 0000000000000000 ]
done

sh "$(dirname "$0")/small_network.sh" "$work/net.onnx"
request "upload" 201 -H 'Content-Type: application/octet-stream' --data-binary "@$work/net.onnx" "$api/models?name=small"
post "submit" 202 /jobs "{\"model_id\": \"$(field id)\", \"tuner\": {\"name\": \"random\", \"trials\": 4, \"seed\": 5},
    \"measure\": {\"repeat\": 1, \"min_repeat_ms\": 0}}"
job=$(field id)
request "it ends" 200 "$api/jobs/$job?wait=110"
ok "it succeeded" [ "$(field state)" = succeeded ]
request "its module" 200 "$api/jobs/$job/module?format=so"
ok "everything it made is the user's" [ -z "$(find "$work/data" ! -user $user)" ]
ok "everything it started is the user's" [ -z "$(pgrep -P "$server_pid" | xargs -rn 1 ps -o ruser= -p | grep -v "^$user *$")" ]
ok "the log has no word of root" sh -c "! grep -q 'running as root' '$work/server.log'"
stop_server

# What root does beside it spoils nothing: the cluster runs as its owner, whoever asks.
ok "root makes a token in that folder" "$WARPTUNE_PROGRAM" token create --data-dir "$work/data" --scope admin --name root >"$work/token"
start_server --devices cpu --user $user
request "the server starts in it again" 401 "$api/jobs"
stop_server
ok "everything is still the user's" [ -z "$(find "$work/data" ! -user $user)" ]

start_server --data-dir "$work/plain" --no-worker
ok "as root without it, the log says once that there is one" [ "$(grep -c 'running as root.*--user' "$work/server.log")" = 1 ]
