# SPDX-License-Identifier: Apache-2.0
# What the HTTP tests share: a server of their own with a private cluster, curl, and a few words to say what must hold.
# Sourced; WARPTUNE_PROGRAM names the program. Everything lies under $work and goes with the script.
set -u

work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-http.XXXXXX")
chmod 755 "$work"
server_pid=
passed=0
failed=0

finish() {
    stop_server
    rm -rf "$work"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] || exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

# start_server [OPTION…]: sets $url and $api.
start_server() {
    : >"$work/server.out"
    "$WARPTUNE_PROGRAM" serve --listen 127.0.0.1:0 --data-dir "$work/data" "$@" >"$work/server.out" 2>>"$work/server.log" &
    server_pid=$!
    url=
    for _ in $(seq 300); do
        url=$(sed -n 's/^listening on \(https*:.*\)$/\1/p' "$work/server.out")
        [ -n "$url" ] && break
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.1
    done
    [ -n "$url" ] || { echo "the server did not start:"; tail -n 20 "$work/server.log"; failed=$((failed + 1)); exit 1; }
    api=$url/v1
}

stop_server() {
    [ -n "$server_pid" ] || return 0
    kill "$server_pid" 2>/dev/null
    wait "$server_pid" 2>/dev/null
    status=$?
    server_pid=
    [ $status -eq 0 ] && return 0
    failed=$((failed + 1))
    echo "not ok: the server ended with status $status:"
    tail -n 40 "$work/server.log"
}

# ok NAME CONDITION…: the condition is a command line for `test` or any command.
ok() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok: $name ($*)"
        [ -f "$work/body" ] && head -c 600 "$work/body" && echo
    fi
}

# request NAME STATUS CURL-ARGUMENT…: the answer's body is then in $work/body, its headers in $work/headers.
request() {
    name=$1 status=$2
    shift 2
    got=$(curl -sS --max-time 120 -o "$work/body" -D "$work/headers" -w '%{http_code}' "$@" 2>"$work/curl.err")
    if [ "$got" = "$status" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok: $name: status $got, expected $status"
        head -c 600 "$work/body"
        cat "$work/curl.err"
    fi
}

# raw NAME STATUS TEXT: sends bytes as they are (printf escapes) and looks at the status of the first answer.
raw() {
    { printf "$3"; sleep 0.4; } | curl -sSN --max-time 3 "telnet://127.0.0.1:${url##*:}" >"$work/body" 2>/dev/null
    got=$(sed -n '1s/^HTTP\/1\.[01] \([0-9]*\).*/\1/p' "$work/body")
    ok "$1: status ${got:-none}, expected $2" [ "$got" = "$2" ]
}

# answers N: so many answers came, wherever in a line one begins.
answers() {
    [ "$(grep -ao 'HTTP/1\.[01] [0-9][0-9][0-9] ' "$work/body" | wc -l)" = "$1" ]
}

# header NAME: its value in the last answer; empty when it is not there.
header() {
    tr -d '\r' <"$work/headers" | sed -n "s/^$1: *//Ip"
}

# post NAME STATUS PATH JSON
post() {
    request "$1" "$2" -H 'Content-Type: application/json' -d "$4" "$api$3"
}

# field NAME: the first value of a flat JSON field of the last answer.
field() {
    tr ',{' '\n\n' <"$work/body" | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"}]*\).*/\1/p" | head -n 1
}

# problem NAME CODE [FIELD]: the last answer is a problem document of that type, about that field.
problem() {
    ok "$1: problem document" grep -qi '^content-type: application/problem+json' "$work/headers"
    ok "$1: type" grep -q "urn:warptune:problem:$2\"" "$work/body"
    [ -z "${3:-}" ] || ok "$1: names $3" grep -q "\"field\": *\"$3\"" "$work/body"
}
